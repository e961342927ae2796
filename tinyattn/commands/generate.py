"""`tinyattn generate`: continue a text by a decoder.

Print TEXT and its continuation by the model of RUN, drawn token by token.
"""

import argparse
from typing import Any

from ..models import Decoder
from ..models.transformers.sampling import Sampling
from ..options import options_of
from .arguments import add_options, add_run
from .measures import open_kind


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    command.add_argument("--prompt", required=True, metavar="TEXT", help="the beginning of the text")
    command.add_argument("--length", type=int, default=200, metavar="N", help="tokens to write (default: 200)")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draws (default: 0)")
    add_options(command, Sampling)


def run(options: argparse.Namespace) -> None:
    how = {o.name: getattr(options, o.name) for o in options_of(Sampling) if hasattr(options, o.name)}
    Sampling(**how)                                          # errors come before files are read
    if options.seed < 0:
        raise ValueError(f"--seed is {options.seed}, expected at least 0")
    model, _ = open_kind(options.run_folder, Decoder, options.device)
    print(options.prompt + model.generate(options.prompt, options.length, options.seed, **how))
