"""`tinyattn import-model`: a model that was trained elsewhere becomes a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..models import LAYOUTS, Checkpoint, RunFolder
from ..tree import leaves


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "import-model",
        help="a model trained elsewhere becomes a run",
        description="Read the weights in FOLDER, and write the folder RUN, which `tinyattn generate RUN` goes on with. "
        f"Layouts: {', '.join(LAYOUTS)}, as Hugging Face's transformers saves them. FOLDER has config.json, and "
        "model.safetensors or the files that model.safetensors.index.json names, in float64, 32, 16 or bfloat16; and "
        "for prompts in words tokenizer.json, or vocab.json and merges.txt.",
    )
    command.add_argument("folder", metavar="FOLDER", help="where config.json and the weights are")
    command.add_argument("--out", required=True, metavar="RUN", help="the folder to write")
    return command


def run(options: argparse.Namespace) -> None:
    """Everything that can be refused by names and shapes is refused before numbers are read."""
    found, folder = Checkpoint(options.folder), RunFolder(options.out)
    config = {
        "model": found.model.name,
        "parameters": found.model.identity(),
        "data": found.describe(),
        "tinyattn": __version__,
    }
    with folder.claimed(config):
        if folder.model.exists():
            print(f"{folder.path} has this model already")
            return
        model = found.load()
        model.save(folder.model)
    count = sum(leaf.size for _, leaf in leaves(model.parameters))
    print(f"{found.layout.name} from {found.folder}: {count:,} parameters; a prompt is {model.tokens.reads}")
    print(f"written to {folder.path}: {', '.join(folder.contents())}")
