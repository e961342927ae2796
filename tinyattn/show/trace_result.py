"""`Trace`, what `trace` returns: values by step or by name, tables, source lines, figures."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .animation import MOST, animate, step_picture
from .array_map import array_map
from .follow import Followed, follow
from .recorder import Recorder
from .records import Call, Entry
from .trace_html import page
from .trace_step import Step
from .trace_table import aligned, origin, table

LISTED = 12          # values, where a name stands for several


class Replay(NamedTuple):
    """What is needed to run it all again: the functions, the original arguments, the upstream gradients."""

    forward: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    backward: Any              # None, and no cotangents, where no backward was asked for
    cotangents: list[Any]


class Trace:
    """The record of a forward and a backward: their calls, and every entry by its step.

    `result` is what the forward returned, `grads` what the backward did, `gradients` the same by the names of inputs
    and parameters. `str` is a table with as many levels of calls as fit 60 lines; in a notebook all are there, folded.
    """

    def __init__(self, recorder: Recorder, forward: Call, result: Any, replay: Replay) -> None:
        self.entries: list[Entry] = recorder.entries
        self.roots = [forward]
        self.result = result
        self.grads: Any = None                                # these are set if there is a backward, as is
        self.gradients: dict[str, Any] = {}
        self.upstream = ""                                    # where the upstream gradients came from
        self.replay = replay
        self.recorder = recorder                              # keeps alive the objects whose ids `follow` compares
        self._cursor = -1

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, which: int | str) -> np.ndarray:
        """The array of a step, or of a name, read-only; see `entry`."""
        if isinstance(which, str):
            return self._find(which).value
        return self.entry(which).value

    def entry(self, which: int | str) -> Entry:
        """An entry by its step, or by name: "weights", or with calls in front, "softmax.p", "Block.forward#2.weights".

        A name of a call counts for all that it calls, and in it the latest value. Raises IndexError for a step that is
        not there; KeyError for a name that stands for nothing, with those near it, and for one that stands for several
        values, with how to ask for each; TypeError for what is neither.
        """
        if isinstance(which, str):
            entry = self._find(which).entry
            if entry is None:
                raise UnknownNameError(f"{which!r} is no step of its own: t[{which!r}] has it")
            return entry
        if not isinstance(which, int | np.integer):
            raise TypeError(f"a step is {which!r}, expected its number or a name")
        if not -len(self.entries) <= which < len(self.entries):
            raise IndexError(f"there is no step {which}: there are 0 to {len(self.entries) - 1}")
        return self.entries[which]

    def all(self, name: str) -> list[Entry]:
        """Every entry of that name, in order: before and after each update, in every call."""
        whole = [e for e in self.entries if e.path == name]
        return whole or [e for e in self.entries if _is_called(e.call, e.name, name)]

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

    def player(self, steps: tuple[int, int] | None = None, follow: int | None = None, title: str = "") -> Any:
        """A page that steps through all this, in a notebook or, by `.save("FILE.html")`, by itself: see `player`."""
        from .views import player

        return player(self, steps, follow, title)

    def gif(self, path: str | Path, steps: tuple[int, int] | None = None, seconds: float = 1.0) -> Path:
        """The steps, or those from the first to the last of `steps`, as an animated GIF. See `animate`."""
        first, last = steps or (0, len(self) - 1)
        if not 0 <= first <= last < len(self):
            raise ValueError(f"steps {first}-{last} are not there: the trace has steps 0-{len(self) - 1}")
        if last - first >= MOST:
            what = f"steps {first}-{last} are {last - first + 1:,} pictures, and an animation has at most {MOST}"
            fit = first, first + MOST - 1
            raise ValueError(f"{what}: steps {fit[0]}-{fit[1]} would fit (steps={fit}, or --steps A-B)")
        return animate((step_picture(e, len(self)) for e in self.entries[first : last + 1]), path, seconds)

    def table(self, depth: int | None = None, call: str = "", width: int = 120) -> str:
        """For a terminal: a line an entry, calls as a tree, folded below `depth`. `call` selects one call.

        Without `depth`, as many levels as fit 60 lines. Raises KeyError for a call that was not made.
        """
        return table(self._called(call) if call else self.roots, self.header(), depth, width)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(self.roots, self.header())

    def header(self) -> str:
        """How many steps there are, and the upstream gradient."""
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

    def _find(self, name: str) -> Found:
        """The value of that name. Raises UnknownNameError where there is none, and where there are several."""
        found = self._candidates(name)
        if name == "weights" and not any(f.own_name for f in found):
            others = self._listing(found)
            says = "there is no attention here, and so there are no attention weights"
            raise UnknownNameError(f"{says}; {name!r} is also" if others else says, others)
        if not found:
            known = [e.name for e in self.entries] + [f"{e.call.label}.{e.name}" for e in self.entries]
            raise UnknownNameError(f"nothing was called {name!r}{_near(name, known)}")
        several = {id(f.value) for f in found}                         # equal values are one array
        if len(several) > 1:
            raise UnknownNameError(f"{name!r} stands for {len(several)} values; say which", self._listing(found))
        return next((f for f in found if f.own_name), found[0])

    def _candidates(self, name: str) -> list[Found]:
        """What the name may stand for, in order: at most one value a call, and none of the calls inside of that one."""
        found: dict[Call, Found] = {}
        for entry in self.all(name):
            found[entry.call] = Found(entry.call, entry.name, entry.value, entry, True)
        calls = self._calls() if not found else self.roots                 # other names: of arguments, of results
        for call in calls:
            for own, value in (call.inputs | call.renamed | call.outputs).items():
                if call not in found and _is_called(call, own, name):
                    found[call] = Found(call, own, value, call.listed.get(own), call.parent is None)
        return [f for call, f in found.items() if not any(outer in found for outer in _outer(call))]

    def _listing(self, found: list[Found]) -> list[str]:
        """A line for each value: how to ask for it, and where it stands."""
        found = list({id(f.value): f for f in reversed(found)}.values())[::-1]
        shown = found if len(found) <= LISTED else found[: LISTED - 1]
        rows = [(self._asked(f), str(f.value.shape), *_stands(f)) for f in shown]
        lines = aligned(rows, left=(0, 1, 2)) if rows else []
        return lines if shown is found else [*lines, f"... and {len(found) - len(shown)} more"]

    def _asked(self, found: Found) -> str:
        """How to ask for this value alone: by a name with a call in front, or two, else by its step, or whole path."""
        outer = list(_outer(found.call))
        one = [form for call in (found.call, *outer) for form in (call.name, call.label)]
        two = [f"{form}.{found.call.label}" for call in outer for form in (call.name, call.label)]
        for calls in dict.fromkeys([*one, *two]):
            if [(f.call, f.own) for f in self._candidates(f"{calls}.{found.own}")] == [(found.call, found.own)]:
                return f"t['{calls}.{found.own}']"
        return f"t['{found.call.path}.{found.own}']" if found.entry is None else f"t[{found.entry.number}]"


class Found(NamedTuple):
    """A value that a name may stand for: `own`, its name in `call`, and the step at which it is listed, if it is."""

    call: Call
    own: str
    value: np.ndarray
    entry: Entry | None
    own_name: bool                     # is it listed under this name, or an argument or result of what was traced?


class UnknownNameError(KeyError):
    """A name that stands for nothing, or for several values; a KeyError whose message is shown as it is written."""

    def __init__(self, says: str, lines: Sequence[str] = ()) -> None:
        super().__init__("\n".join([says, *(f"    {line}" for line in lines)]))

    def __str__(self) -> str:
        return str(self.args[0])


def _outer(call: Call) -> Iterator[Call]:
    """The calls that this one is made in, from the inside."""
    while call.parent is not None:
        call = call.parent
        yield call


def _stands(found: Found) -> tuple[str, str]:
    """The step, and the line that made the value, or under what name the call was given it."""
    if found.entry is None:
        return "", f"in {found.call.label}"
    number, at = f"step {found.entry.number}", origin(found.entry)
    if found.entry.call is not found.call or found.entry.name != found.own:
        at = f"{found.entry.name}, as {found.call.label} calls it"
    return number, at


def _is_called(call: Call, own: str, asked: str) -> bool:
    """Does `asked` name this value: `own`, or `own` after calls that it was made in, with or without their #2?

    Calls stand from the outside inwards, and may be left out: "Block.forward#2.weights" is made several further in.
    """
    if not f".{asked}".endswith(f".{own}"):
        return False
    rest = asked[: -len(own)]                                       # "softmax#2.", or nothing
    for outer in (*reversed(list(_outer(call))), call):
        label, plain = outer.label, outer.label.partition("#")[0]
        forms = (label, plain, label.rpartition(".")[2], plain.rpartition(".")[2])
        rest = next((rest[len(form) + 1 :] for form in forms if rest.startswith(f"{form}.")), rest)
    return not rest


def _near(name: str, known: list[str]) -> str:
    known = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, known, 5, 0.5)
    if near:
        return f"; near it: {', '.join(near)}"
    return f"; there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else ""
