"""The commands, one file each. A file has a docstring, `add(command, arguments)` and `run(options)`.

The docstring begins with "`tinyattn NAME`: " and the command's line in the list of commands; its other paragraphs are
printed above and below the flags. `add` adds the flags to a parser; `run` returns the exit code, where None means 0. A
command whose flags depend on other arguments has `explain_unknown_flags(arguments, options)`, which returns the error
message for flags that other models have, and otherwise "". A new command is one file and one name in NAMES.
"""

from importlib import import_module
from types import ModuleType

NAMES = (
    "train", "evaluate", "data", "recommend", "similar", "translate", "generate", "import-model", "export", "fill",
    "probe", "classify", "compare", "explain", "show", "check", "trace", "board", "derivation", "course", "page",
    "reproduce", "sweep", "collect",
)  # fmt: skip


def load(name: str) -> ModuleType:
    """Import the file of a command. Only the named one: most commands import much more of the package than `check`."""
    return import_module(f".{name.replace('-', '_')}", __name__)


__all__ = ["NAMES", "load"]
