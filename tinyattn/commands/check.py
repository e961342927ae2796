"""`tinyattn check`: is this attention right? (or softmax, LayerNorm, a causal model, ...).

In a separate process, test an implementation against every known property of its kind, and name its bug. Functions and
arguments that it lacks are not tested, and other conventions are not failures; both are listed. Functions of torch and
JAX are called with arrays of their library. Without MODULE and --as, check what the table [tool.tinyattn.check] of
pyproject.toml names.
Exit code: 0 all properties hold, 1 something fails, 2 it could not be run.
"""

import argparse
from pathlib import Path
from typing import Any


def add(command: Any, arguments: list[str]) -> None:
    text = "package.module or path/to/file.py, or an OBJECT in it, with functions named as in the library"
    command.add_argument("targets", nargs="*", metavar="MODULE[:OBJECT]", help=text)
    command.add_argument("--as", dest="kind", metavar="KIND", help="the kind of implementation (see --list)")
    command.add_argument("--examples", type=int, metavar="N", help="cases per property (default: 50)")
    command.add_argument("--seed", type=int, metavar="S", help="seed of the cases (default: 0)")
    command.add_argument("--time-limit", type=float, metavar="S", help="seconds for each target (default: 900)")
    text = "leave out a property (see --list --as KIND); may be given several times"
    command.add_argument("--skip", action="append", default=[], metavar="PROPERTY", help=text)
    text = "pass floats of this dtype alone (default: both)"
    command.add_argument("--dtype", choices=["float32", "float64"], help=text)
    text = "at most 6 cases per property, no large sizes and no long runs, to check at every save"
    command.add_argument("--fast", action="store_true", help=text)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--html", type=Path, metavar="FILE", help="write the report as a self-contained page")
    command.add_argument("--junit", type=Path, metavar="FILE", help="write the report as JUnit's XML, for CI")
    text = "also print failures as annotations of GitHub's workflows, on standard error"
    command.add_argument("--github", action="store_true", help=text)
    text = "also count as failures: missing forms, other conventions, rounding where a property is exact"
    command.add_argument("--strict", action="store_true", help=text)
    group = command.add_argument_group("instead of checking").add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="list the kinds, or the properties of --as KIND")
    group.add_argument("--contract", metavar="KIND", help="print what an implementation of a kind must do")
    group.add_argument("--self", action="store_true", help="check this library: every kind, or --as KIND")
    group.add_argument("--zoo", action="store_true", help="test the suite on the bugs of every kind, or of --as KIND")


def run(options: argparse.Namespace) -> int:
    from ..check.command import run

    return run(options)
