"""Record what each line of a function, and of the functions it calls, computes.

With `sys.settrace`, Python calls the recorder before each line, when the line before it has finished. The recorder
keeps the values of the names that the finished line assigned. It also keeps arrays whose bytes changed, as these were
written in place. The recorded code is not modified; memory that it allocates holds NaN until it is filled.
"""

import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..forms import FASTER, readable
from .memory import blank_memory
from .records import Call, Entry, array_leaves, is_array, label_all
from .sources import result_names, statement_at

LIBRARY = Path(__file__).parent.parent
# Helpers without mathematics; their calls are not listed.
_HELPERS = ("backend.py", "forms.py", "ops/shapes.py", "tree.py", "files.py", "data", "training", "check",
            "show", "cli.py")  # fmt: skip
NOT_SHOWN = [LIBRARY / name for name in _HELPERS]
_PASSES_ON = [LIBRARY / name for name in ("layers", "models", "ops/masks.py")]      # the caller names their results
_OF_THE_ENGINE = LIBRARY / "random.py"              # listed only with engine=True, like private functions
_GENERATOR = 0x20 | 0x80 | 0x200                    # code flags: generator, coroutine, asynchronous generator
STEPS = 100_000                                     # limit for entries
LINES = 1_000_000                                   # limit for lines, as an endless loop may make no entry
_READABLE_NAMES = {place: name.rpartition(".")[2] for name, place in FASTER.items()}
_READABLE_NAMES |= {f"{place}_backward": "backward" for place, name in _READABLE_NAMES.items() if name == "forward"}


class TooLargeError(BaseException):
    """The trace exceeds the limit in the message. A BaseException, so that the recorded code does not catch it."""


@dataclass
class _Watched:
    call: Call
    line: int
    before: dict[str, tuple[Any, Any]]             # name -> object, digest of its bytes, before the line
    raising: bool = False
    undo: dict[str, Any] | None = None             # the recorder's state before a faster form, which may decline


class Recorder:
    """Runs readable forms and records them; with `engine`, faster forms and private functions.

    Copies of values take at most `limit` bytes.
    """

    def __init__(self, limit: int, engine: bool = False) -> None:
        self.limit, self.engine, self.used, self.lines = limit, engine, 0, 0
        self.entries: list[Entry] = []
        self._copies: dict[Any, np.ndarray] = {}       # by content: equal values share one copy
        self._seen: dict[int, tuple[Any, Any]] = {}    # id -> the object, kept alive so that ids stay unique; a digest
        self._listed: dict[int, Entry] = {}            # id of an array -> its latest entry
        self._stack: list[_Watched] = []
        self._root: Call | None = None
        self._showing: dict[int, tuple[Any, bool]] = {}    # id of code -> the code, and whether it is recorded
        self._globals: Any = None
        self._root_code: Any = None
        self._root_names: tuple[str, ...] = ()

    def run(
        self, function: Callable[..., Any], args: Any, kwargs: Any, result_names: tuple[str, ...] = ()
    ) -> tuple[Any, Call]:
        """-> the result of the function, and its `Call`. Tracing ends even if the function raises."""
        other = sys.gettrace()
        if other is not None:
            raise RuntimeError(
                f"trace: {getattr(other, '__module__', None) or type(other).__module__} is tracing this thread "
                "(a debugger, or coverage): Python allows one tracer at a time; run this without it"
            )
        plain = _plain(function)
        self._globals, self._root_code, self._root, self._stack = plain.__globals__, plain.__code__, None, []
        self._root_names, self._showing = result_names, {}
        try:
            with readable(not self.engine), self._memory():
                sys.settrace(self._entered)
                returned = function(*args, **kwargs)
        except TooLargeError as error:
            last = self.entries[-1] if self.entries else None
            at = f"after step {last.number} ({last.call.name}.{last.name})" if last else "in its inputs"
            more = ", or allow more with limit=" if self.used > self.limit else ""
            raise ValueError(f"trace: more than {error} {at}: trace a smaller input{more}") from None
        finally:
            sys.settrace(None)
            self._stack = []
        if self._root is None:
            raise TypeError(f"trace: {function!r} is a generator, or runs elsewhere: none of its lines were seen")
        for call in self._root.calls():
            call.steps = [s for s in call.steps if isinstance(s, Entry) or next(s.entries(), None)]
        label_all(self._root)
        return returned, self._root

    def _memory(self) -> AbstractContextManager[None]:
        return blank_memory()

    def _shown(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code.co_flags & _GENERATOR or (code.co_name.startswith("<") and code.co_name != "<lambda>"):
            return False                                    # a comprehension is recorded as part of its function
        ours, listed, engine = _place(code.co_filename)
        private = engine or (code.co_name.startswith("_") and not code.co_name.endswith("__"))
        if private and ours and not self.engine and code is not self._root_code:
            return False
        return listed or frame.f_globals is self._globals

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if id(code) not in self._showing:
            self._showing[id(code)] = code, self._shown(frame)
        if event != "call" or not self._showing[id(code)][1]:
            return None
        above = self._stack[-1] if self._stack else None
        undo = {name: copy(value) for name, value in vars(self).items()} if _readable_name(frame) else None
        if above is None and self._root is not None:
            return None                                     # a __del__ after the root's return
        statement = statement_at(above.call.file, above.line) if above else None
        more = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)                 # *args, **kwargs
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + more]
        name = _called(frame)
        call = Call(name, code.co_filename, code.co_firstlineno, above.call if above else None,
                    (statement.first, statement.text) if statement else (0, ""))  # fmt: skip
        call.parameters = tuple(n for n in names if n not in ("self", "cls"))
        call.result_names = (self._root_names if above is None else ()) or _result_names(frame)
        now = self._locals(frame)
        call.signature = f"{name}({', '.join(n for n in call.parameters if now[n] is not None)})"
        if above is None:
            self._root = call
        else:
            above.call.steps.append(call)
        for name in names:
            value = now[name]
            self._note(call, value)
            if isinstance(value, float):
                call.inputs[name] = self._copy(value)[0]
            for field_name, leaf in array_leaves(value, name):
                self._note(call, leaf)
                if not self._known(leaf):
                    self._keep(call, field_name, leaf, "input", code.co_firstlineno, "")
                self._also(call, call.inputs, field_name, leaf)
        arrays = {n: (x, self._copy(x)[1]) for n, x in now.items() if is_array(x)}
        self._stack.append(_Watched(call, code.co_firstlineno, arrays, undo=undo))
        return self._inside

    def _locals(self, frame: FrameType) -> dict[str, Any]:
        return dict(frame.f_locals)

    def _inside(self, frame: FrameType, event: str, arg: Any) -> Any:
        top = self._stack[-1]
        if event == "exception":
            top.raising = True
        elif event == "line":
            self.lines += 1
            if self.lines > LINES:
                raise TooLargeError(f"{LINES:,} lines")
            now, was = statement_at(top.call.file, frame.f_lineno), statement_at(top.call.file, top.line)
            if now.first != was.first:
                self._finished(top, frame)
            top.line, top.raising = frame.f_lineno, False
        elif event == "return" and arg is NotImplemented and top.undo is not None:
            vars(self).update(top.undo)
            if self._stack:
                self._stack[-1].call.steps.remove(top.call)
        elif event == "return":
            self._finished(top, frame)
            if not top.raising:
                self._returned(top, arg)
            self._stack.pop()
        return self._inside

    def _finished(self, top: _Watched, frame: FrameType) -> None:
        """Record what the statement at `top.line` assigned, and what it wrote in place."""
        statement = statement_at(top.call.file, top.line)
        targets = () if top.raising else statement.targets
        now = self._locals(frame)
        for name in (*targets, *(n for n in now if n not in targets)):
            value = now.get(name)
            old, digest_before = top.before.get(name, (None, None))
            if isinstance(value, float) and not isinstance(value, np.generic):
                if name in targets and not statement.renames:
                    self._keep(top.call, name, value, "", statement.first, statement.text)
            elif is_array(value):
                if name in targets or value is not old:
                    listed = not (self._known(value) and (statement.renames or self._handed_on(top.call, name, value)))
                    changed = statement.writes or self._digest(value) != digest_before
                    how = "in place" if value is old and changed else ""
                    how = "allocated" if name in statement.allocates else how
                else:
                    listed, how = self._digest(value) != digest_before, "in place"
                if listed:
                    self._keep(top.call, name, value, how, statement.first, statement.text)
                elif name in targets:
                    self._also(top.call, top.call.renamed, name, value)
                top.before[name] = (value, self._digest(value))
            elif name in targets:
                for field_name, leaf in array_leaves(value, name):
                    if self._known(leaf):
                        self._also(top.call, top.call.renamed, field_name, leaf)
                    else:
                        self._keep(top.call, field_name, leaf, "", statement.first, statement.text)

    def _returned(self, top: _Watched, value: Any) -> None:
        call, statement = top.call, statement_at(top.call.file, top.line)
        several = type(value) is tuple
        parts = list(value) if several else [value]
        written = statement.returned if len(statement.returned) == len(parts) else (None,) * len(parts)
        self._note(call, value)
        names = []
        for i, (part, expression) in enumerate(zip(parts, written, strict=True)):
            nameless = f"returned.{i}" if several else "returned"
            declared = call.result_names[i] if i < len(call.result_names) else nameless
            name = str(getattr(expression, "id", declared))
            names.append(name)
            self._note(call, part)
            call.results.append(self._copy(part)[0] if is_array(part) or isinstance(part, float) else None)
            if isinstance(part, float) and not is_array(part) and call.parent is None:
                self._keep(call, name, part, "returned", statement.first, statement.text)
            for field_name, leaf in array_leaves(part, name):
                self._note(call, leaf)
                if not self._known(leaf) and not (name == nameless and self._in_passing(call)):
                    self._keep(call, field_name, leaf, "returned", statement.first, statement.text)
                self._also(call, call.outputs, field_name, leaf)
            weights = getattr(part, "weights", None) if _implies_weights(part) else None
            if is_array(weights):
                self._implied(call, "weights", weights, statement.first, f"{name}.weights")
        call.result_names = tuple(names)

    def _implied(self, call: Call, name: str, value: Any, line: int, text: str) -> None:
        """Record, once, a value that follows from a cache, such as attention weights that no line computes."""
        copy = self._copy(value)[0]
        inner = next((e for e in call.entries() if e.name == name and e.value is copy), None)
        if inner is None:
            self._keep(call, name, value, "implied", line, text)
        else:
            call.outputs[name], call.listed[name] = copy, inner

    def _also(self, call: Call, names: dict[str, np.ndarray], name: str, value: Any) -> None:
        """Note a value in `names`, a dict of the call, and the entry that lists it, if any."""
        entry, names[name] = self._listed.get(id(value)), self._copy(value)[0]
        if entry is not None and entry.value is names[name]:
            call.listed[name] = entry

    def _keep(self, call: Call, name: str, value: Any, how: str, line: int, text: str) -> None:
        if len(self.entries) == STEPS:
            raise TooLargeError(f"{STEPS:,} steps")
        copy, digest = self._copy(value)
        dtype = str(copy.dtype) if is_array(value) else "float"
        entry = Entry(len(self.entries), name, how, copy, dtype, call, line, text)
        self.entries.append(entry)
        call.steps.append(entry)
        if is_array(value):
            self._seen[id(value)], self._listed[id(value)] = (value, digest), entry

    def _note(self, call: Call, value: Any) -> None:
        """Note an array or cache that enters or leaves a call, and keep it alive, so that its id stays unique."""
        if is_array(value) or isinstance(value, dict | list | tuple):
            call.met.add(id(value))
            self._seen.setdefault(id(value), (value, None))

    def _handed_on(self, call: Call, name: str, value: Any) -> bool:
        """Is this value already listed under the same name in this call, or, unless this is the root, in any call?"""
        entry = self._listed.get(id(value))
        return entry is not None and entry.name == name and (entry.call is call or call.parent is not None)

    def _in_passing(self, call: Call) -> bool:
        """Does the caller name this call's result, or pass it on?"""
        passes_on = any(map(Path(call.file).is_relative_to, _PASSES_ON))
        return passes_on and call.parent is not None and not self.engine

    def _known(self, value: Any) -> bool:
        """Is this object already listed with its present content?"""
        _, digest = self._seen.get(id(value), (None, None))
        return digest is not None and digest == self._digest(value)

    def _digest(self, value: Any) -> Any:
        return self._copy(value)[1]

    def _copy(self, value: Any) -> tuple[np.ndarray, Any]:
        host = to_numpy(value)
        digest = (host.shape, host.dtype.str, blake2b(host.tobytes(), digest_size=16).digest())
        copy = self._copies.get(digest)
        if copy is None:
            self.used += host.nbytes
            if self.used > self.limit:
                raise TooLargeError(f"{self.limit:,} bytes of intermediates")
            copy = np.array(host)
            copy.setflags(write=False)
            self._copies[digest] = copy
        return copy, digest


@cache
def _place(filename: str) -> tuple[bool, bool, bool]:
    """-> whether a file is the library's; whether its calls are listed; whether only with engine=True."""
    file = Path(filename)
    ours = file.is_relative_to(LIBRARY)
    return ours, ours and not any(map(file.is_relative_to, NOT_SHOWN)), file == _OF_THE_ENGINE


def _plain(function: Any) -> Any:
    """The Python function behind a method, a partial, a decorator or a callable object."""
    if isinstance(function, type):
        raise TypeError(f"trace: {function.__name__} is a class, expected a function or an object that can be called")
    function = inspect.unwrap(getattr(function, "func", function))
    for plain in (function, getattr(function, "__func__", None), getattr(type(function), "__call__", None)):  # noqa: B004
        if hasattr(plain, "__code__"):
            return plain
    raise TypeError(f"trace: {function!r} is not written in Python: there are no lines to watch")


def _implies_weights(value: Any) -> bool:
    """Whether the value is the cache of an attention: a named tuple with a property `weights`."""
    return hasattr(value, "_fields") and isinstance(getattr(type(value), "weights", None), property)


def _readable_name(frame: FrameType) -> str:
    """The name of the readable form whose faster form this frame runs, or ""."""
    module = frame.f_globals.get("__name__", "")
    return _READABLE_NAMES.get(f"{module.removeprefix('tinyattn.')}.{frame.f_code.co_name}", "")


def _called(frame: FrameType) -> str:
    """The function's name, with a method's class: "LayerNorm.forward"; for a faster form, its readable form's name."""
    owner, name = frame.f_locals.get("self"), frame.f_code.co_name
    if _readable_name(frame):
        name, owner = _readable_name(frame), frame.f_locals.get(frame.f_code.co_varnames[0])
    return name if owner is None or not hasattr(type(owner), name) else f"{type(owner).__name__}.{name}"


def _result_names(frame: FrameType) -> tuple[str, ...]:
    """The names of the results of this frame's function; see `result_names`."""
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    opposite = "backward" if owner is not None and name == "forward" else f"{name}_backward"
    function, backward = (
        frame.f_globals.get(n) if owner is None else getattr(type(owner), n, None) for n in (name, opposite)
    )
    function = getattr(function, "__wrapped__", function)   # the readable form inside @replaceable
    if getattr(function, "__code__", None) is not frame.f_code:
        return ()                                           # a nested function has no such name
    return result_names(function, backward if hasattr(backward, "__code__") else None)
