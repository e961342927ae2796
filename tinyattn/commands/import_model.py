"""`tinyattn import-model`: a model trained elsewhere becomes a run.

Read the weights at FROM, and write the folder RUN. FROM is a folder of a language model, as Hugging Face's transformers
saves it, for `tinyattn generate RUN`. It has config.json, and model.safetensors or the files that
model.safetensors.index.json names, in float64, 32, 16 or bfloat16. For prompts in words it also has tokenizer.json, or
vocab.json and merges.txt. Or FROM is a file of a recommender, a state dict or safetensors, for
`tinyattn recommend RUN --items ...`.
"""

import argparse
from typing import Any

from .. import __version__
from ..data import read_ids
from ..models import SASREC_LAYOUTS, TEXT_LAYOUTS, RunFolder, SASRec, opened
from ..options import options_of
from ..tree import leaves
from .arguments import add_option
from .measures import MEASURES

NOT_IN_FILE = ("heads", "block_form", "maxlen", "padding")        # options that a file of SASRec's parameters may lack


def add(command: Any, arguments: list[str]) -> None:
    text = f"a folder of {', '.join(TEXT_LAYOUTS)}, or a file of SASRec by {' or '.join(SASREC_LAYOUTS)}"
    command.add_argument("source", metavar="FROM", help=text)
    command.add_argument("--out", required=True, metavar="RUN", help="the folder to write")
    group = command.add_argument_group("settings that a file lacks")
    declared = {option.name: option for option in options_of(SASRec)}
    for name in NOT_IN_FILE:
        add_option(group, declared[name]._replace(default=None))
    text = "the ids of items 1, 2, 3, ..., one per line (default: the ids in FROM, or else 1, 2, 3, ...)"
    group.add_argument("--item-ids", metavar="FILE", help=text)


def run(options: argparse.Namespace) -> None:
    """Names and shapes are checked before numbers are read."""
    chosen = {name: getattr(options, name) for name in NOT_IN_FILE if hasattr(options, name)}
    items = None if options.item_ids is None else read_ids(options.item_ids, distinct=False)
    source, folder = opened(options.source, items, **chosen), RunFolder(options.out)
    config = {
        "model": source.model.name,
        "parameters": source.model.identity(),
        "data": source.describe(),
        "evaluation": {"split": next(iter(MEASURES[source.model.table].splits))},
        "tinyattn": __version__,
    }
    with folder.claimed(config):
        if folder.model.exists():
            print(f"{folder.path} has this model already")
            return
        model: Any = source.load()
        model.save(folder.model)
    count = sum(leaf.size for _, leaf in leaves(model.parameters))
    reads = f"{len(model.items or ()):,} items" if isinstance(model, SASRec) else f"a prompt is {model.tokens.reads}"
    print(f"{source.layout.name} from {options.source}: {count:,} parameters; {reads}")
    print(f"written to {folder.path}: {', '.join(folder.contents())}")
