"""`tinyattn derivation`: show how a gradient is derived, step by step, with an example.

Without --html and --gif the steps are printed. On the page, and in the animation, the terms of each step move to their
places in the next. KIND is "rule" (a matrix moves to the other side of ⟨,⟩), "product" (the backward of out = p v) or
"softmax".
"""

import argparse
from typing import Any

from .runs import refuse_no_gif, refuse_unwritable


def add(command: Any, arguments: list[str]) -> None:
    command.add_argument("kind", nargs="?", default="product", metavar="KIND", help="default: product")
    command.add_argument("--html", metavar="FILE", help="write a page, on which arrow keys go from step to step")
    command.add_argument("--gif", metavar="FILE", help="write an animation")
    command.add_argument("--dark", action="store_true", help="draw the animation on a dark background")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the example's arrays (default: 0)")


def run(options: argparse.Namespace) -> None:
    from ..show.animation import animate
    from ..show.moving import pictures
    from ..show.views.derivation import derivation, in_words

    if options.html is not None:
        refuse_unwritable(options.html, "--html")
    if options.gif is not None:
        refuse_no_gif(options.gif)
    elif options.dark:
        raise ValueError("--dark is for an animation: give --gif FILE, too")
    view = derivation(options.kind, seed=options.seed)
    if options.html is not None:
        print(view.save(options.html))
    if options.gif is not None:
        print(animate(pictures(view.data["steps"], options.dark), options.gif))
    if options.html is None and options.gif is None:
        print(in_words(view.data["steps"]))
