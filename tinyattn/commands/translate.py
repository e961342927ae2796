"""`tinyattn translate`: translate a text by a model of pairs.

Print the model's translation of TEXT, and its log-probability.
"""

import argparse
from typing import Any

from ..models import PairModel
from .arguments import add_run
from .measures import open_kind
from .runs import refuse_no_picture


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    command.add_argument("text", metavar="TEXT", help="the source, for example 3rd of May 1999")
    text = "width of the beam; 1 is greedy, and a wider beam never finds a less likely string (default: 1)"
    command.add_argument("--beam", type=int, default=1, metavar="N", help=text)
    command.add_argument("--picture", metavar="FILE", help="a picture of the alignment to write")


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
