"""`tinyattn fill`: fill the blanks of a text by a trained encoder."""

from __future__ import annotations

import argparse
from typing import Any

from ..models import Encoder
from .arguments import add_run
from .measures import open_kind


def add(commands: Any, arguments: list[str]) -> Any:
    command = commands.add_parser(
        "fill",
        help="fill the blanks of a text by an encoder",
        description="Print the likeliest ways to fill the blanks of TEXT, and their probabilities by the model of RUN.",
    )
    add_run(command)
    text = 'a text with a blank for each missing character, as "the ___ sleeps."'
    command.add_argument("text", metavar="TEXT", help=text)
    command.add_argument("-k", "--k", type=int, default=5, metavar="N", help="how many ways are written (default: 5)")
    text = "the sign of a missing character, where TEXT contains the usual one as a character (default: _)"
    command.add_argument("--blank", default="_", metavar="C", help=text)
    return command


def run(options: argparse.Namespace) -> None:
    model, _ = open_kind(options.run_folder, Encoder, options.device)
    for text, p in model.fill(options.text, options.k, options.blank):
        print(f"{p:.4f}  {text!r}")
