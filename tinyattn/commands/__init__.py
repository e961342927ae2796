"""The commands, a file each: `add(commands, arguments)` makes the parser, `run(options)` does the work.

A new command is one file and one line in COMMANDS. `run` returns the exit code; None is 0. A command whose flags
depend on other arguments has `explain_unknown_flags(arguments, options)`: the error message for those of them that it
knows from elsewhere, otherwise "".
"""

from types import ModuleType

from . import (
    check,
    classify,
    collect,
    compare,
    course,
    data,
    evaluate,
    explain,
    export,
    fill,
    generate,
    import_model,
    page,
    probe,
    recommend,
    reproduce,
    show,
    similar,
    sweep,
    trace,
    train,
    translate,
)

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "evaluate": evaluate,
    "data": data,
    "recommend": recommend,
    "similar": similar,
    "translate": translate,
    "generate": generate,
    "import-model": import_model,
    "export": export,
    "fill": fill,
    "probe": probe,
    "classify": classify,
    "compare": compare,
    "explain": explain,
    "show": show,
    "check": check,
    "trace": trace,
    "course": course,
    "page": page,
    "reproduce": reproduce,
    "sweep": sweep,
    "collect": collect,
}

__all__ = ["COMMANDS"]
