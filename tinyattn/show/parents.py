"""The direct parents of every number of a trace: the numbers that its line read to make it, and its slope by each.

The trace is run once more, on arrays whose entries carry their sources (`tracked.py`). When the recorder lists a value,
these sources become its parents, and the value becomes a source. Python numbers that a line reads, or makes from
arrays, are parents of everything that the line makes. The condition of an `if` is not a parent.
"""

import ast
import copy
import linecache
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..check.binding import asked_of, bind, named_results
from .recorder import Recorder
from .records import Call, Entry, is_array
from .sources import statement_at
from .tracked import EMPTY, Sources, Tracked, plain

MOST = 30_000            # numbers in a trace; larger traces take too long
STAYING = ("asarray", "array", "asanyarray", "ascontiguousarray")      # patched: a tracked array stays tracked
ALLOCATING = ("empty", "zeros", "full")                                      # patched: the new memory is tracked


class Parents:
    """The parents of the numbers of a trace.

    `of[step]` is an array of `Sources`, one for each number of the step; where `Sources.unknown` is not empty, the
    parents are not known. `loss` has the sources of L = Σ cotangents ⊙ outputs. `reason` says why steps from `len(of)`
    on are not known, or is "".
    """

    def __init__(self, trace: Any) -> None:
        self.of: list[np.ndarray] = []
        self.loss, self.reason = EMPTY, ""
        count = sum(entry.value.size for entry in trace.entries)
        if count > MOST:
            self.reason = f"the trace has {count:,} numbers, and parents are found for up to {MOST:,}"
            return
        recorder = _Tracking(8 * trace.recorder.limit, trace.recorder.engine)
        try:
            with np.errstate(all="ignore"):
                self.loss = recorder.run_again(trace)
        except Exception as error:
            self.reason = f"the line cannot be run with sources ({type(error).__name__}: {error})"
        steps = [[(e.line, e.name, e.how, e.value.shape) for e in run] for run in (trace.entries, recorder.entries)]
        same = next((n for n, (a, b) in enumerate(zip(*steps, strict=False)) if a != b), min(map(len, steps)))
        self.of = recorder.parents[:same]
        if same < len(trace) and not self.reason:
            self.reason = "the second run took other lines than the first"


class _Tracking(Recorder):
    """A recorder that turns every array into a tracked one, and keeps the sources of each value that it lists."""

    def __init__(self, limit: int, engine: bool) -> None:
        super().__init__(limit, engine)
        self.parents: list[np.ndarray] = []
        self._wrapped: dict[int, tuple[Any, Tracked]] = {}     # id of an array -> the array, tracked
        self._left: list[list[tuple[Any, Sources]]] = [[]]     # by call: Python numbers that its current line made
        self._undo: list[tuple[Any, Any, Any]] = []            # container, key, the original array

    def run_again(self, trace: Any) -> Sources:
        """Run the forward and the backward of a trace. -> the sources of the loss."""
        forward, args, kwargs, backward, cotangents = trace.replay
        args, kwargs, upstream = self._tracked(copy.deepcopy((args, kwargs, cotangents)))
        names, loss = trace.roots[0].result_names, EMPTY
        try:
            inputs = bind(forward, *args, **kwargs)
            returned, _ = self.run(forward, args, kwargs, names)
            for dy, y in zip(upstream, returned if type(returned) is tuple else (returned,), strict=False):
                loss += np.sum(np.multiply(self._of_result(y), np.asarray(to_numpy(plain(dy)), dtype=object)))
            if backward is not None:
                gradients, others, _ = asked_of(backward, inputs, returned, named_results(forward))
                self.run(backward, (), dict(zip(gradients, upstream, strict=True)) | others)
        finally:
            for container, key, value in reversed(self._undo):
                container[key] = value
        return loss

    def _of_result(self, y: Any) -> Any:
        if isinstance(y, Tracked):
            return y.sources
        step = next((e.number for e in reversed(self.entries) if e.dtype == "float" and e.value == y), None)
        return EMPTY if step is None else Sources({(step, 0): 1.0})

    # ---- arrays become tracked ones

    @contextmanager
    def _memory(self) -> Iterator[None]:
        with super()._memory():
            before = {name: getattr(np, name) for name in (*STAYING, *ALLOCATING)}
            try:
                for name, make in before.items():
                    setattr(np, name, _staying(make) if name in STAYING else self._allocating(make))
                yield
            finally:
                for name, make in before.items():
                    setattr(np, name, make)

    def _allocating(self, make: Any) -> Any:
        @wraps(make)
        def allocating(*args: Any, **how: Any) -> Any:
            memory, frame = make(*args, **how), sys._getframe(1)
            inner = frame.f_globals.get("__name__", "").startswith(("numpy", "tinyattn.show"))
            return memory if inner or not _calls(frame.f_code, frame.f_lasti, make.__name__) else self._tracked(memory)

        return allocating

    def _tracked(self, value: Any, levels: int = 12) -> Any:
        """The value with every array replaced by a tracked one, also in dicts, lists and tuples."""
        if is_array(value) and type(value) is not Tracked:
            if id(value) not in self._wrapped:
                made = Tracked(to_numpy(value), EMPTY, self)
                self._wrapped[id(value)] = value, made
                for table in (self._seen, self._listed):       # a result without a name may be listed already
                    if id(value) in table:
                        table[id(made)] = table[id(value)]     # type: ignore[assignment]
                if id(value) in self._listed:
                    made.sources[...] = _places(self._listed[id(value)])
            return self._wrapped[id(value)][1]
        if levels and isinstance(value, dict | list):
            for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
                if (made := self._tracked(part, levels - 1)) is not part:
                    self._undo.append((value, key, part))
                    value[key] = made
        elif levels and isinstance(value, tuple):
            parts = [self._tracked(part, levels - 1) for part in value]
            if any(made is not part for made, part in zip(parts, value, strict=True)):
                return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value

    def _locals(self, frame: FrameType) -> dict[str, Any]:
        now = frame.f_locals                   # one object: Python copies it to the locals when the recorder returns
        for name, value in list(now.items()):
            if (made := self._tracked(value)) is not value:
                now[name] = made
        return dict(now)

    def _copy(self, value: Any) -> tuple[np.ndarray, Any]:
        return super()._copy(plain(value))

    # ---- lines

    def _inside(self, frame: FrameType, event: str, arg: Any) -> Any:
        top, depth = self._stack[-1], len(self._stack)
        first = statement_at(top.call.file, top.line).first
        super()._inside(frame, event, arg)
        if event == "line" and statement_at(top.call.file, top.line).first != first:
            self._left[-1].clear()
        if len(self._stack) < depth:           # the call returned; its number belongs to the calling line
            left = self._left.pop()
            if isinstance(arg, float) and not is_array(arg):
                self._left[-1] += [*left, (None, self._read(top.call, top.line))]
        return self._inside

    def _entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        depth = len(self._stack)
        inside = super()._entered(frame, event, arg)
        if len(self._stack) > depth:
            self._left.append([])
        return self._inside if inside else None

    def leaves(self, x: Tracked) -> None:
        """Note that this line turned an array into Python numbers."""
        self._left[-1].append((x.values, np.sum(x.sources) if x.size else EMPTY))

    def loses(self, name: str) -> None:
        self._left[-1].append((None, Sources({name: math.nan})))

    def _keep(self, call: Call, name: str, value: Any, how: str, line: int, text: str) -> None:
        super()._keep(call, name, value, how, line, text)
        entry = self.entries[-1]
        made: Any = value.sources if isinstance(value, Tracked) else np.full(entry.value.shape, EMPTY)
        if how == "allocated":
            made = np.full(entry.value.shape, EMPTY)
        elif how != "input":
            made = made + self._of_line(call, line, entry.value)
        elif call.parent is not None:                          # an argument that the calling line made
            made = made + self._of_line(call.parent, call.called_at[0], entry.value)
        self.parents.append(np.asarray(made, dtype=object))
        if isinstance(value, Tracked):
            value.sources = _places(entry)

    def _of_line(self, call: Call, line: int, value: np.ndarray) -> Sources:
        """Sources from Python numbers that the line read or made. The slope is known if the value is that number."""
        total = self._read(call, line)
        for number, sources in self._left[-1]:
            total += sources if number is not None and np.array_equal(number, value) else sources * math.nan
        return total

    def _read(self, call: Call, line: int) -> Sources:
        """Sources from the named Python numbers that the line read."""
        total = EMPTY
        for name in statement_at(call.file, line).reads:
            entry = _number(call, name, self.entries)
            if entry is not None:
                total += Sources({(entry.number, 0): math.nan})
        return total


def _number(call: Call, name: str, entries: list[Entry]) -> Entry | None:
    """The latest entry of the Python number of that name in a call; for an argument, the caller's entry."""
    mine = [e for e in call.steps if isinstance(e, Entry) and e.name == name]
    if mine:
        return mine[-1] if mine[-1].dtype == "float" else None
    value, outer = call.inputs.get(name), set(call.outer())
    same = [e for e in entries if e.value is value and e.dtype == "float" and e.call in outer]
    return same[-1] if same else None


def _places(entry: Entry) -> np.ndarray:
    """An array of `Sources` in which every number of the entry is its own source."""
    places = np.empty(entry.value.shape, dtype=object)
    for i, index in enumerate(np.ndindex(entry.value.shape)):
        places[index] = Sources({(entry.number, i): 1.0})
    return places


@lru_cache(1000)
def _calls(code: CodeType, at: int, name: str) -> bool:
    """Whether instruction `at` calls a function of that name. If not, compiled code, which has no frame, called it.

    Compiled code, such as a random generator, accesses the memory directly, so it must get an ordinary array.
    """
    line, last, start, end = next(islice(code.co_positions(), at // 2, None))
    if line is None or last is None:
        return False
    rows = [linecache.getline(code.co_filename, row).encode() for row in range(line, last + 1)]
    rows[-1] = rows[-1][:end]                  # columns count bytes; one row may be both first and last
    try:
        call: Any = ast.parse(b"(" + b"".join([rows[0][start:], *rows[1:]]) + b")", mode="eval").body
    except SyntaxError:
        return False
    return isinstance(call, ast.Call) and name in (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))


def _staying(make: Any) -> Any:
    """`asarray` or a function like it, changed so that a tracked array stays tracked."""

    def stay(x: Any, *args: Any, **how: Any) -> Any:
        if type(x) in (list, tuple) and any(isinstance(part, Tracked) for part in x):
            return np.stack([stay(part, *args, **how) for part in x])
        if not isinstance(x, Tracked):
            return make(x, *args, **how)
        made = make(x.values, *args, **how)
        return x if made is x.values else Tracked(made, x.sources, x.run)

    @wraps(make)
    def staying(x: Any, *args: Any, **how: Any) -> Any:
        frame = sys._getframe(1)
        return (stay if _calls(frame.f_code, frame.f_lasti, make.__name__) else make)(x, *args, **how)

    return staying
