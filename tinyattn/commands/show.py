"""`tinyattn show`: who looks at whom, as a picture by layer and head."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..models import RunFolder
from .arguments import add_data, add_history, add_names, add_run
from .runs import history_of, names_of, refuse_unwritable


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "show",
        help="who looks at whom, as a picture",
        description="Draw the attention weights for a history, by layer and head.",
    )
    add_run(command)
    add_data(command)
    add_history(command)
    add_names(command)
    text = "the picture (default: RUN/figures/attention-LAST.png, after the last item)"
    command.add_argument("--out", metavar="FILE", help=text)
    return command


def run(options: argparse.Namespace) -> None:
    from .. import show as pictures

    history, _, model = history_of(options)
    if not model.attends:
        raise ValueError(f"{options.run_folder} is of model {model.name}, without attention: there is nothing to show")
    ids, weights = model.attention(history)
    names = names_of(options, model)
    labels = [names.short(item) for item in ids]
    picture = pictures.attention_map(weights, labels, f"{model.name}, {Path(options.run_folder).name}")
    if options.out:
        refuse_unwritable(options.out)
    name = f"attention-{''.join(c if c.isalnum() else '-' for c in str(ids[-1]))}.png"
    print(pictures.save(picture, options.out or RunFolder(options.run_folder).figures / name))
