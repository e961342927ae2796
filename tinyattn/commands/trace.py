"""`tinyattn trace`: step through what a function computes, forward and backward.

Run a function of yours, or the library's, on a case of its kind, and show what every line of it computes: as a table,
or with --html as a page that steps forward and backward through it.
"""

import argparse
import inspect
import re
import traceback
from typing import Any

from .ops import FAST, READABLE, add_ops
from .runs import refuse_no_gif, refuse_unwritable

TRIED = 200          # cases to try until the function accepts one
LIMIT = 60.0         # seconds; cases are small: a longer run would never end


def add(command: Any, arguments: list[str]) -> None:
    text = "package.module or path/to/file.py, then :FUNCTION, unless the function is named like its kind"
    command.add_argument("target", metavar="FILE:FUNCTION", help=text)
    command.add_argument("--as", dest="kind", metavar="KIND", required=True, help="its kind (see `check --list`)")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the case (default: 0)")
    command.add_argument("--html", metavar="OUT", help="write a page that steps through it, instead of the table")
    command.add_argument("--gif", metavar="OUT", help="write an animated picture of the steps, instead of the table")
    command.add_argument("--steps", type=_steps, metavar="A-B", help="only these steps (with --html or --gif)")
    add_ops(command, READABLE)


def _steps(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no pair of steps, expected A-B as in 0-40")
    return int(match[1]), int(match[2])


def run(options: argparse.Namespace) -> None:
    from ..check.cases import CaseDrawer
    from ..check.isolation import alarm, load
    from ..check.specs import get_spec
    from ..check.subject import CannotRunError, MissingError, Subject, TooLongError, message_of
    from ..show import trace

    read = (options.target, options.target.rpartition(":")[0])      # FILE, or FILE:FUNCTION
    if options.html:
        refuse_unwritable(options.html, "--html", read)
    if options.gif:
        refuse_no_gif(options.gif, read)
    if options.steps and not (options.html or options.gif):
        raise ValueError("--steps is for a page or an animation: give --html OUT or --gif OUT, too")
    if options.seed < 0:
        raise ValueError(f"--seed is {options.seed}, expected at least 0")
    spec = get_spec(options.kind)
    try:
        subject = Subject(load(options.target), spec)
    except CannotRunError as error:
        raise ValueError(f"{options.target}: {error}") from error
    for seed in range(options.seed, options.seed + TRIED):
        case = subject.fit(spec.case(CaseDrawer.seeded(seed, ((),))))
        try:
            positional, named = subject.arguments(case)
            break
        except MissingError:
            continue
    else:
        raise ValueError(f"{options.target} takes none of {TRIED} cases of {options.kind}: see tinyattn check")
    forward, backward = subject.forward, subject.plain_backward
    try:
        with alarm(LIMIT):
            traced = trace(forward, *positional, backward=backward, engine=options.ops == FAST, **named)
    except TooLongError:
        raise ValueError(f"{options.target} did not return within {LIMIT:g} seconds") from None
    except Exception as error:
        raise ValueError(f"{_raised(error, forward) or options.target}: {message_of(error)}") from error
    if options.gif:
        print(traced.gif(options.gif, options.steps))
    elif not options.html:
        print(traced)
    if not options.html:
        return
    title = f"{getattr(inspect.unwrap(forward), '__name__', options.target)}, as {options.kind}, seed {seed}"
    print(traced.player(steps=options.steps, title=title).save(options.html))


def _raised(error: Exception, forward: Any) -> str:
    """The line of the function's file that raised the error, and the error type; "" where the call itself raised it."""
    file = inspect.getsourcefile(inspect.unwrap(forward)) if inspect.isroutine(inspect.unwrap(forward)) else None
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f"{file}:{lines[-1]} raised {type(error).__name__}" if lines else ""
