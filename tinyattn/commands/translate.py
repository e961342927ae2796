"""`tinyattn translate`: translate a text by a trained model of pairs."""

from __future__ import annotations

import argparse
from typing import Any

from ..models import PairModel
from .arguments import add_run
from .measures import open_kind
from .runs import refuse_no_picture


def add(commands: Any, arguments: list[str]) -> Any:
    command = commands.add_parser(
        "translate",
        help="translate a text by a model of pairs",
        description="Print the model's translation of TEXT, and its log-probability.",
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
    translations = model.translations(options.text, options.beam)
    for text, score in translations[: options.beam]:
        print(f"{text}  (log-probability {score:.4f})")
    if options.picture:
        from ..show import alignment_map, save

        best = translations[0][0]
        picture = alignment_map(model.alignment(options.text, best), options.text, best, "who looks at whom")
        print(save(picture, options.picture))
