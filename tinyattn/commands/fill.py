"""`tinyattn fill`: fill the blanks of a text by an encoder.

Print the likeliest ways to fill the blanks of TEXT, and their probabilities by the model of RUN.
"""

import argparse
from typing import Any

from ..models import Encoder
from .arguments import add_run
from .measures import open_kind


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    command.add_argument("text", metavar="TEXT", help='a text with a blank per missing character, as "the ___ sleeps."')
    command.add_argument("-k", "--k", type=int, default=5, metavar="N", help="how many ways to print (default: 5)")
    command.add_argument("--blank", default="_", metavar="C", help="marks a missing character (default: _)")


def run(options: argparse.Namespace) -> None:
    model, _ = open_kind(options.run_folder, Encoder, options.device)
    for text, p in model.fill(options.text, options.k, options.blank):
        print(f"{p:.4f}  {text!r}")
