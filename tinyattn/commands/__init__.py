"""The commands, a file each: `add(commands, arguments)` makes the parser, `run(options)` does the work.

A new command is one file and one line in COMMANDS. What `run` returns is the exit code, None is 0.
"""

from types import ModuleType

from . import check, course, data, evaluate, recommend, reproduce, show, train

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "evaluate": evaluate,
    "data": data,
    "recommend": recommend,
    "show": show,
    "check": check,
    "course": course,
    "reproduce": reproduce,
}

__all__ = ["COMMANDS"]
