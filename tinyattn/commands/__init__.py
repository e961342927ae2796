"""The commands, a file each, with a docstring, `add(command, arguments)` and `run(options)`.

The docstring is `tinyattn NAME`: the help in the list of commands; then come the paragraphs above and below the flags.
`add` adds the flags to a parser, `run` returns the exit code; None is 0. A command whose flags depend on other
arguments has `explain_unknown_flags(arguments, options)`: the error message for the ones that it knows from
elsewhere, otherwise "". A new command is one file and one name in NAMES.
"""

from importlib import import_module
from types import ModuleType

NAMES = (
    "train", "evaluate", "data", "recommend", "similar", "translate", "generate", "import-model", "export", "fill",
    "probe", "classify", "compare", "explain", "show", "check", "trace", "course", "page", "reproduce", "sweep",
    "collect",
)  # fmt: skip
COMMANDS: dict[str, ModuleType] = {name: import_module(f".{name.replace('-', '_')}", __name__) for name in NAMES}

__all__ = ["COMMANDS"]
