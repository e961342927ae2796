"""The process that runs untrusted code: `python -c "from tinyattn.sandbox.player import main; main()" OPTIONS`.

It exchanges the messages of wire.py on its standard input and output. It never sees the grader's expected results.
"""

import json
import linecache
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from . import fence
from .wire import Peer

MAIN = "<cells>"
FILES, FILE_BYTES = 128, 2**24  # the most files that are open at a time, the most bytes of a file that is written


class Player(Peer):
    """Function 0 defines an answer. sys.exit() in an answer is sent as an error, like any exception."""

    caught = BaseException

    def __init__(self, read: int, write: int):
        super().__init__(read, write)
        self.local = {0: self.define}

    def define(self, text: str, expression: str) -> tuple[Any, str]:
        """Run a text as the module __main__. -> the expression's value in it, and MODULE.NAME of that value."""
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        linecache.cache[MAIN] = (len(text), None, text.splitlines(keepends=True), MAIN)  # for inspect
        exec(compile(text, MAIN, "exec", dont_inherit=True), module.__dict__)
        with np.errstate(all="ignore"):
            value = eval(expression, module.__dict__)
        name = getattr(value, "__qualname__", type(value).__name__)
        return value, f"{getattr(value, '__module__', '')}.{name}"

    def work(self) -> None:
        while True:
            match self.receive():
                case ["call", int(number), list(args), dict(kwargs)]:
                    self.serve(number, args, kwargs)


def main() -> None:
    options: dict[str, Any] = json.loads(sys.argv[1])
    sys.argv[1:] = []
    read, write, nowhere = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    fence.die_with_the_parent()
    folder = Path(options["folder"])
    os.chdir(folder)
    sys.path[:] = [path for path in sys.path if path] + [str(folder)]  # installed packages first
    np.seterr(all="ignore")
    fence.limit(options["memory"], CPU=options["computing"], CORE=0, FSIZE=FILE_BYTES, NOFILE=FILES, NPROC=1)
    if options["fenced"]:
        fence.close_off(folder, options["rules"])
    try:
        Player(read, write).work()
    except EOFError:
        os._exit(0)
