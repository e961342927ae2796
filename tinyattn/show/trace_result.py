"""`Trace`, what `trace` returns: values by step or by name, tables, source lines, figures."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .array_map import array_map
from .follow import Followed, follow
from .recorder import Recorder
from .records import Call, Entry
from .trace_html import page
from .trace_step import Step
from .trace_table import table


class Replay(NamedTuple):
    """What `follow` needs to run the forward again: the function, its original arguments, the upstream gradients."""

    forward: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    cotangents: list[Any]


class Trace:
    """The record of a forward and a backward: their calls, and every entry by its step.

    `result` is what the forward returned, `grads` what the backward did, `gradients` the same by the names of inputs
    and parameters. `str` is a table with as many levels of calls as fit 60 lines; in a notebook all are there, folded.
    """

    def __init__(self, recorder: Recorder, forward: Call, result: Any) -> None:
        self.entries: list[Entry] = recorder.entries
        self.roots = [forward]
        self.result = result
        self.grads: Any = None                                # these are set if there is a backward, as is
        self.gradients: dict[str, Any] = {}
        self.upstream = ""                                    # where the upstream gradients came from
        self.replay: Replay | None = None
        self.recorder = recorder                              # keeps alive the objects whose ids `follow` compares
        self._cursor = -1

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, which: int | str) -> np.ndarray:
        """The array of a step, or of a name, read-only; see `entry`."""
        if isinstance(which, str):
            return self._find(which)[1]
        return self.entry(which).value

    def entry(self, which: int | str) -> Entry:
        """An entry by its step, or by name: "weights", or with calls in front, "softmax.p", "dense#2.y".

        The outermost call that has the name counts, and in it the latest value. Raises IndexError for a step that is
        not there; KeyError for a name, listing near ones, or the calls where it stands for different values; TypeError
        for what is neither.
        """
        if isinstance(which, str):
            entry, _ = self._find(which)
            if entry is None:
                raise KeyError(f"{which!r} is no step of its own: it is listed under another name; t[{which!r}] has it")
            return entry
        if not isinstance(which, int | np.integer):
            raise TypeError(f"a step is {which!r}, expected its number or a name")
        if not -len(self.entries) <= which < len(self.entries):
            raise IndexError(f"there is no step {which}: there are 0 to {len(self.entries) - 1}")
        return self.entries[which]

    def all(self, name: str) -> list[Entry]:
        """Every entry of that name, in order: before and after each update, in every call."""
        return [e for e in self.entries if _is_called(e.call, e.name, name)]

    def picture(self, which: int | str, title: str = "") -> Any:
        """A step, or a name, drawn as a heat map, or as bars for a vector. -> matplotlib figure. See `array_map`."""
        if isinstance(which, str):
            return array_map(self[which], title or which)
        return Step(self.entry(which), len(self.entries)).picture(title)

    def at(self, which: int | str) -> Step:
        """Go to a step: its line among its neighbours, its numbers."""
        self._cursor = self.entry(which).number
        return Step(self.entries[self._cursor], len(self.entries))

    def step(self, n: int = 1) -> Step:
        """n steps on, at most to the last."""
        return self.at(min(max(self._cursor + n, 0), len(self.entries) - 1))

    def back(self, n: int = 1) -> Step:
        """n steps back, at most to the first."""
        return self.step(-n)

    def follow(self, name: str, index: tuple[int, ...] | int, h: float = 1e-6) -> Followed:
        """From the loss back to one number of an input or a parameter, e.g. `("query.W", (3, 7))`: see `follow`."""
        return follow(self, name, index, h)

    def table(self, depth: int | None = None, call: str = "", width: int = 120) -> str:
        """For a terminal: a line an entry, calls as a tree, folded below `depth`. `call` selects one call.

        Without `depth`, as many levels as fit 60 lines. Raises KeyError for a call that was not made.
        """
        return table(self._called(call) if call else self.roots, self._header(), depth, width)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(self.roots, self._header())

    def _header(self) -> str:
        said = f"{len(self.entries)} steps"
        return f"{said}; upstream gradient: {self.upstream}" if self.upstream else said

    def _calls(self) -> Iterator[Call]:
        for root in self.roots:
            yield from root.calls()

    def _called(self, name: str) -> list[Call]:
        found = [c for c in self._calls() if f".{c.path}".endswith(f".{name}")]
        found = found or [c for c in self._calls() if c.name == name]
        if not found:
            raise KeyError(f"no call {name!r} was made{_near(name, [c.label for c in self._calls()])}")
        return found

    def _find(self, name: str) -> tuple[Entry | None, np.ndarray]:
        """-> the entry and its value; or None and the value, if it is listed under another name."""
        found: dict[Call, tuple[Entry | None, np.ndarray]] = {}
        for entry in self.all(name):
            found[entry.call] = (entry, entry.value)
        if not found:
            for call in self._calls():
                for own, value in (call.inputs | call.outputs | call.renamed).items():
                    if _is_called(call, own, name):
                        found[call] = (None, value)
        if not found:
            known = [e.name for e in self.entries] + [f"{e.call.label}.{e.name}" for e in self.entries]
            raise KeyError(f"nothing was called {name!r}{_near(name, known)}")
        least = min(call.depth for call in found)
        found = {call: pair for call, pair in found.items() if call.depth == least}
        (first, value), *others = found.values()
        if any(other is not value for _, other in others):          # equal values are one array
            own = name.rpartition(".")[2]
            where = [f"{call.path}.{own}" + (f" (step {e.number})" if e else "") for call, (e, _) in found.items()]
            raise KeyError(f"{name!r} stands for {len(found)} values: {', '.join(where)}; say which")
        return first, value


def _is_called(call: Call, own: str, asked: str) -> bool:
    """Does `asked` name this value: `own`, or `own` after the end of the call's path, with or without #2?"""
    if asked == own:
        return True
    plain = ".".join(part.partition("#")[0] for part in call.path.split("."))
    return any(f".{path}.{own}".endswith(f".{asked}") and len(asked) > len(own) for path in (call.path, plain))


def _near(name: str, known: list[str]) -> str:
    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, known, 5, 0.5)
    if near:
        return f"; near it: {', '.join(near)}"
    return f"; there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else ""
