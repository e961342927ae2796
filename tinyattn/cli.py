"""The command `tinyattn`: parse, run one of the commands, say in one line what could not be done."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import __version__
from .commands import COMMANDS
from .commands.arguments import Parser
from .terminal import OUTPUT, any_terminal, silence_output, visible
from .training import DivergedError, InterruptedRunError, WorkerKilledError


def parser(arguments: Sequence[str]) -> Parser:
    """Of all commands; what it parses has `command`, the name of one. Some flags depend on what else is said."""
    whole = Parser(
        prog="tinyattn",
        description="Train, measure and look into recommenders and Transformers built from scratch in NumPy.",
    )
    whole.add_argument("--version", action="version", version=f"tinyattn {__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        module.add(commands, arguments).set_defaults(command=name)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. -> exit code: 0 done, 2 could not (one line on standard error says why), 130 interrupted.

    1 where standard output was closed, and where `check` finds something wrong.
    """
    with any_terminal():
        return _main(sys.argv[1:] if arguments is None else arguments)


def _main(arguments: Sequence[str]) -> int:
    whole = parser(arguments)
    options, unknown = whole.parse_known_args(arguments)
    module = COMMANDS[options.command]
    if unknown:
        explain = getattr(module, "explain", lambda unknown, _: f"unrecognized arguments: {' '.join(unknown)}")
        whole.error(explain(unknown, options))
    try:
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
        return _say(f"tinyattn: not enough memory for this size ({error})", 2)
    except (ValueError, DivergedError, WorkerKilledError, OSError, ImportError) as error:
        if getattr(error, "filename", None) == OUTPUT:
            silence_output()
        return _say(f"tinyattn: {error}", 2)
    return code or 0


def _say(what: str, code: int) -> int:
    print(visible(what), file=sys.stderr)
    return code
