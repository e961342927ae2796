"""The command `tinyattn`: parse, run one of the commands, say in one line what could not be done."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from typing import Any

from . import __version__
from .commands import COMMANDS
from .commands.arguments import Parser
from .commands.ops import computing
from .models import MODELS
from .ranks import mpi, started
from .terminal import OUTPUT, any_terminal, one_line, silence_output, visible
from .training import DivergedError, InterruptedRunError, WorkerKilledError

SHARED = ("train",)      # commands that several processes of mpiexec do together
GRACE = 2.0              # seconds that a failed rank gives rank 0 to say what failed on all of them


def parser(arguments: Sequence[str]) -> Parser:
    """Of all commands; what it parses has `command`, the name of one. Some flags depend on other arguments."""
    whole = Parser(
        prog="tinyattn",
        description="Train, measure and look into recommenders and Transformers built from scratch in NumPy.",
    )
    whole.add_argument("--version", action="version", version=f"tinyattn {__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    whole.commands = commands.choices
    for name, module in COMMANDS.items():
        module.add(commands, arguments).set_defaults(command=name)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. -> exit code: 0 done, 2 could not (one line on standard error says why), 130 interrupted.

    1 where standard output was closed, where `check` finds something wrong, and where `collect` finds failed runs. Of
    the processes that mpiexec started only rank 0 prints. One that cannot go on ends them all, and if that is no
    failure of rank 0's, it says why.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    arguments = arguments or ["--help"]
    size, number = started()
    if size == 1:
        return _run(arguments)
    try:
        with mpi() as job:
            code, errors = _run_rank(arguments, number)
            if code:
                if number:                                   # unless rank 0, which then ends all of them, failed, too
                    time.sleep(GRACE)
                    _say(f"tinyattn: rank {number} of {size}: {errors.removeprefix('tinyattn: ')}", code)
                job.abort(code)
    except (ImportError, RuntimeError) as error:             # MPI is not as it has to be, on any rank
        if number == 0:
            _say(f"tinyattn: {error}", 2)
        code = 2
    return code


def _run_rank(arguments: Sequence[str], number: int) -> tuple[int, str]:
    """-> exit code, and the last line that a rank other than 0 would have written to standard error."""
    errors = io.StringIO()
    try:
        if number == 0:
            return _run(arguments), ""
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(errors):
            code = _run(arguments)
    except SystemExit as stop:                               # argparse's own way out
        code = stop.code if isinstance(stop.code, int) else 2
    return code, errors.getvalue().strip().rpartition("\n")[2]


def _run(arguments: Sequence[str]) -> int:
    with any_terminal():
        return _main(arguments)


def _main(arguments: Sequence[str]) -> int:
    whole = parser(arguments)
    options, unknown = whole.parse_known_args(arguments)
    module = COMMANDS[options.command]
    if unknown:
        explain = getattr(module, "explain_unknown_flags", lambda *_: "")
        of_model = f" --model {options.model}" if getattr(options, "model", None) in MODELS else ""
        whole.prog = f"tinyattn {options.command}{of_model}"     # whose help lists the flags
        whole.error(explain(unknown, options) or whole.unrecognized(unknown, options.command))
    size, _ = started()
    if size > 1 and options.command not in SHARED:
        whole.error(f"{options.command} runs in one process, and mpiexec started {size}; {SHARED[0]} shares work")
    try:
        with _computing(options):
            code = module.run(options)
        sys.stdout.flush()
    except InterruptedRunError as stop:
        return _say(f"\ntinyattn: {stop}; the same command goes on from there", 130)
    except KeyboardInterrupt:
        return _say("\ntinyattn: interrupted", 130)
    except BrokenPipeError:  # standard output was closed, as by `| head`
        silence_output()
        return 1
    except MemoryError as error:
        return _say(f"tinyattn: not enough memory for this size ({one_line(str(error))})", 2)
    except (ValueError, OverflowError, DivergedError, WorkerKilledError, OSError, ImportError) as error:
        if getattr(error, "filename", None) == OUTPUT:
            silence_output()
        return _say(f"tinyattn: {one_line(str(error))}", 2)
    return code or 0


def _computing(options: Any) -> AbstractContextManager[None]:
    """Which functions compute, of a command that has `--ops`."""
    if not hasattr(options, "ops"):
        return nullcontext()
    options.computing = computing(options.ops, options.unchecked, getattr(options, "device", "cpu"))
    if options.computing.substitutes and options.command != "train":        # which prints it below its table
        print(*options.computing.lines(), sep="\n", file=sys.stderr)
    return options.computing.active()


def _say(what: str, code: int) -> int:
    print(visible(what), file=sys.stderr)
    return code
