"""`tinyattn fill`: a trained model fills the blanks of a text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ..models import Encoder
from .arguments import add_run
from .measures import open_kind


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "fill",
        help="what an encoder fills the blanks of a text with",
        description="Write the likeliest ways to fill the blanks of TEXT, and how probable each is to the model RUN.",
    )
    add_run(command)
    text = 'a text with a blank for each missing character, as "the ___ sleeps."'
    command.add_argument("text", metavar="TEXT", help=text)
    command.add_argument("-k", "--k", type=int, default=5, metavar="N", help="how many ways are written (default: 5)")
    text = "what stands for a missing character, where TEXT has the usual sign as a character of its own (default: _)"
    command.add_argument("--blank", default="_", metavar="C", help=text)
    return command


def run(options: argparse.Namespace) -> None:
    model, _ = open_kind(options.run_folder, Encoder, options.device)
    for text, p in model.fill(options.text, options.k, options.blank):
        print(f"{p:.4f}  {text!r}")
