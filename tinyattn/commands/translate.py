"""`tinyattn translate`: what a trained model writes where it reads a text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..models import PairModel
from .arguments import add_run
from .measures import open_kind
from .runs import refuse_no_picture


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "translate",
        help="what a model of pairs writes where it reads a text",
        description="Write what the model of RUN makes of TEXT, and how likely that is.",
    )
    add_run(command)
    command.add_argument("text", metavar="TEXT", help="the source, for example 3rd of May 1999")
    text = "beginnings that are followed side by side; 1 is greedy, and a wider beam never finds a less likely string"
    command.add_argument("--beam", type=int, default=1, metavar="N", help=f"{text} (default: 1)")
    text = "a picture to write: which characters of TEXT each written one looks at"
    command.add_argument("--picture", metavar="FILE", help=text)
    return command


def run(options: argparse.Namespace) -> None:
    if options.picture:
        refuse_no_picture(options.picture, "--picture")
    model, _ = open_kind(options.run_folder, PairModel, options.device)
    found = model.translations(options.text, options.beam)
    for text, score in found[: options.beam]:
        print(f"{text}  (log-probability {score:.4f})")
    if options.picture:
        from ..show import alignment_map, save

        best = found[0][0]
        picture = alignment_map(model.alignment(options.text, best), options.text, best, "who looks at whom")
        print(save(picture, options.picture))
