"""The command `tinyattn`: parse, run a command, print errors in one line."""

import io
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from typing import Any

from . import __version__
from .commands import NAMES, load
from .commands.ops import computing
from .commands.parser import Parser
from .ranks import mpi, started
from .terminal import OUTPUT, any_terminal, one_line, silence_output, visible
from .training import DivergedError, InterruptedRunError, WorkerKilledError

SHARED = ("train",)      # commands that several processes of one job share
GRACE = 2.0              # seconds in which rank 0 may report the error before another rank does


def parser(arguments: list[str]) -> Parser:
    """The parser of all commands, which sets `command`. Some flags depend on other arguments.

    If the arguments begin with a command, only that command is added, because importing all commands takes longer than
    some of them run.
    """
    whole = Parser(
        prog="tinyattn",
        description="Train, measure and look into recommenders and Transformers built from scratch in NumPy.",
    )
    whole.add_argument("--version", action="version", version=f"tinyattn {__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    whole.commands = commands.choices
    for name in arguments[:1] if arguments[0] in NAMES else NAMES:
        module = load(name)
        summary, *paragraphs = (" ".join(paragraph.split()) for paragraph in (module.__doc__ or "").split("\n\n"))
        below: dict[str, Any] = dict(zip(("description", "epilog"), paragraphs, strict=False))
        command = commands.add_parser(name, help=summary.partition(": ")[2].removesuffix("."), **below)
        command.set_defaults(command=name)
        module.add(command, arguments)
    return whole


def main(arguments: list[str] | None = None) -> int:
    """Run one command. -> exit code: 0 done, 2 an error (one line on standard error), 130 interrupted.

    Exit code 1: standard output was closed, `check` found a failure, or `collect` found failed runs. Under mpiexec only
    rank 0 prints; an error on any rank ends all ranks, and is printed once.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    arguments = arguments or ["--help"]
    size, number = started()
    if size == 1:
        with any_terminal():
            return _run(arguments)
    try:
        with mpi() as job:
            code, errors = _run_rank(arguments, number)
            if code:
                if number:                                   # if rank 0 failed too, it ends this process first
                    time.sleep(GRACE)
                    _say(f"tinyattn: rank {number} of {size}: {errors.removeprefix('tinyattn: ')}", code)
                job.abort(code)
    except (ImportError, RuntimeError) as error:             # MPI is missing or unusable, or another rank has ended
        if number == 0:
            _say(f"tinyattn: {error}", 2)
        code = 2
    return code


def _run_rank(arguments: list[str], number: int) -> tuple[int, str]:
    """-> exit code, and the last line of standard error ("" for rank 0)."""
    errors = io.StringIO()
    try:
        if number == 0:
            with any_terminal():
                return _run(arguments), ""
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(errors), any_terminal():
            code = _run(arguments)
    except SystemExit as stop:                               # argparse exits
        code = stop.code if isinstance(stop.code, int) else 2
    return code, errors.getvalue().strip().rpartition("\n")[2]


def _run(arguments: list[str]) -> int:
    whole = parser(arguments)
    options, unknown = whole.parse_known_args(arguments)
    module = load(options.command)
    if unknown and isinstance(getattr(options, "data", None), list) and _are_files(unknown, arguments):
        options.data, unknown = options.data + unknown, []           # argparse takes files on one side of a flag only
    if unknown:
        from .models import MODELS

        explain = getattr(module, "explain_unknown_flags", lambda *_: "")
        of_model = f" --model {options.model}" if getattr(options, "model", None) in MODELS else ""
        whole.prog = f"tinyattn {options.command}{of_model}"     # the error refers to its --help
        whole.error(explain(unknown, options) or whole.unrecognized(unknown, options.command, arguments))
    size, _ = started()
    if size > 1 and options.command not in SHARED:
        whole.error(f"{options.command} runs in one process, and a launcher started {size}; {SHARED[0]} shares work")
    try:
        with _computing(options):
            code = module.run(options)
        sys.stdout.flush()
    except InterruptedRunError as stop:
        return _say(f"\ntinyattn: {stop}; the same command continues from there", 130)
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


def _are_files(words: list[str], arguments: list[str]) -> bool:
    """Can these words be files? Not if one of them is a flag, or if they continue a list that ends with a comma."""
    flags = any(word.startswith("-") and word != "-" for word in words)
    return not flags and not arguments[arguments.index(words[0]) - 1].endswith(",")


def _computing(options: Any) -> AbstractContextManager[None]:
    """The context in which the functions of `--ops` compute."""
    if not hasattr(options, "ops"):
        return nullcontext()
    options.computing = computing(options.ops, options.unchecked, getattr(options, "device", "cpu"))
    if options.computing.substitutes and options.command != "train":        # train prints it below its table
        print(*options.computing.lines(), sep="\n", file=sys.stderr)
    return options.computing.active()


def _say(message: str, code: int) -> int:
    print(visible(message), file=sys.stderr)
    return code
