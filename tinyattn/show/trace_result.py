"""`Trace`, the result of `trace`: values by step or by name, tables, source lines, figures."""

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

LISTED = 12          # the most values listed for an ambiguous name


class Replay(NamedTuple):
    """The functions, the original arguments and the upstream gradients: all that is needed to run the trace again."""

    forward: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    backward: Any              # None without a backward
    cotangents: list[Any]      # the upstream gradients; [] without a backward


class Trace:
    """The record of a forward and a backward: `roots` are their two calls, `entries` all values by step.

    `result` is what the forward returned, `grads` what the backward returned. `gradients` has the same gradients by the
    names of inputs and parameters. `str` is a table with as many levels of calls as fit into 60 lines; a notebook shows
    all levels, folded.
    """

    def __init__(self, recorder: Recorder, forward: Call, result: Any, replay: Replay) -> None:
        self.entries: list[Entry] = recorder.entries
        self.roots = [forward]
        self.result = result
        self.grads: Any = None                                # these three are set if there is a backward
        self.gradients: dict[str, Any] = {}
        self.upstream = ""                                    # the origin of the upstream gradients
        self.replay = replay
        self.recorder = recorder                              # keeps alive the objects whose ids `follow` compares
        self._cursor = -1

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, which: int | str) -> np.ndarray:
        """The array of a step or of a name, read-only. See `entry`."""
        return self._find(which).value if isinstance(which, str) else self.entry(which).value

    def entry(self, which: int | str) -> Entry:
        """An entry by its step, or by name: "weights", or with calls in front, "softmax.p", "Block.forward#2.weights".

        A name selects its latest value in a call, or in the calls inside it. Raises IndexError for a missing step;
        KeyError for an unknown name, listing close ones, and for an ambiguous name, listing unique ones; TypeError for
        other objects.
        """
        if isinstance(which, str):
            entry = self._find(which).entry
            if entry is None:
                raise UnknownNameError(f"{which!r} is not listed as a step: t[{which!r}] has its value")
            return entry
        if not isinstance(which, int | np.integer):
            raise TypeError(f"a step is {which!r}, expected its number or a name")
        if not -len(self.entries) <= which < len(self.entries):
            raise IndexError(f"there is no step {which}: there are 0 to {len(self.entries) - 1}")
        return self.entries[which]

    def all(self, name: str) -> list[Entry]:
        """Every entry of that name, in order, in every call."""
        whole = [e for e in self.entries if e.path == name]
        return whole or [e for e in self.entries if _is_called(e.call, e.name, name)]

    def picture(self, which: int | str, title: str = "") -> Any:
        """The array of a step or a name as a heat map; a vector as bars. -> matplotlib figure. See `array_map`."""
        if isinstance(which, str):
            return array_map(self[which], title or which)
        return Step(self.entry(which), len(self.entries)).picture(title)

    def at(self, which: int | str) -> Step:
        """Go to a step. -> its line with the lines around it, and its numbers."""
        self._cursor = self.entry(which).number
        return Step(self.entries[self._cursor], len(self.entries))

    def step(self, n: int = 1) -> Step:
        """Go n steps forward, at most to the last step."""
        return self.at(min(max(self._cursor + n, 0), len(self.entries) - 1))

    def back(self, n: int = 1) -> Step:
        """Go n steps back, at most to the first step."""
        return self.step(-n)

    def follow(self, name: str, index: tuple[int, ...] | int, h: float = 1e-6) -> Followed:
        """Follow the gradient back to one number of an input or parameter, e.g. `("query.W", (3, 7))`. See `follow`."""
        return follow(self, name, index, h)

    def player(self, steps: tuple[int, int] | None = None, title: str = "", start: int | None = None) -> Any:
        """A page that steps through the trace: a notebook shows it, `.save("FILE.html")` writes it. See `player`."""
        from .views import player

        return player(self, steps, title, start)

    def gif(self, path: str | Path, steps: tuple[int, int] | None = None, seconds: float = 1.0) -> Path:
        """Write all steps, or those from `steps[0]` to `steps[1]`, as an animated GIF. -> path. See `animate`."""
        first, last = steps or (0, len(self) - 1)
        if not 0 <= first <= last < len(self):
            raise ValueError(f"steps {first}-{last} are not there: the trace has steps 0-{len(self) - 1}")
        if last - first >= MOST:
            excess = f"steps {first}-{last} are {last - first + 1:,} pictures, and an animation has at most {MOST}"
            fit = first, first + MOST - 1
            raise ValueError(f"{excess}: steps {fit[0]}-{fit[1]} would fit (steps={fit}, or --steps A-B)")
        return animate((step_picture(e, len(self)) for e in self.entries[first : last + 1]), path, seconds)

    def table(self, depth: int | None = None, call: str = "", width: int = 120) -> str:
        """A table for a terminal: a line for each entry, calls folded below `depth`. KeyError for an unknown call."""
        return table(self._called(call) if call else self.roots, self.header(), depth, width)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(self.roots, self.header())

    def header(self) -> str:
        """The number of steps, and the upstream gradient."""
        return f"{len(self.entries)} steps" + (f"; upstream gradient: {self.upstream}" if self.upstream else "")

    def _calls(self) -> Iterator[Call]:
        for root in self.roots:
            yield from root.calls()

    def _called(self, name: str) -> list[Call]:
        calls = [c for c in self._calls() if f".{c.path}".endswith(f".{name}")]
        calls = calls or [c for c in self._calls() if c.name == name]
        if not calls:
            raise KeyError(f"no call {name!r} was made{_near(name, [c.label for c in self._calls()])}")
        return calls

    def _find(self, name: str) -> "Match":
        """The value of that name. Raises UnknownNameError if no value, or several values, have it."""
        matches = self._candidates(name)
        if name == "weights" and not any(m.main for m in matches):
            others = self._listing(matches)
            says = "there is no attention here, and so there are no attention weights"
            raise UnknownNameError(f"{says}; {name!r} is also" if others else says, others)
        if not matches:
            known = [e.name for e in self.entries] + [f"{e.call.label}.{e.name}" for e in self.entries]
            raise UnknownNameError(f"nothing was called {name!r}{_near(name, known)}")
        several = {id(m.value) for m in matches}                       # equal values are one array
        if len(several) > 1:
            raise UnknownNameError(f"{name!r} stands for {len(several)} values; say which", self._listing(matches))
        return next((m for m in matches if m.main), matches[0])

    def _candidates(self, name: str) -> "list[Match]":
        """Values that the name may mean, in order; at most one for each call with its inner calls."""
        matches: dict[Call, Match] = {}
        for entry in self.all(name):
            matches[entry.call] = Match(entry.call, entry.name, entry.value, entry, True)
        calls = self._calls() if not matches else self.roots               # the names of arguments and results
        for call in calls:
            for local, value in (call.inputs | call.renamed | call.outputs).items():
                if call not in matches and _is_called(call, local, name):
                    matches[call] = Match(call, local, value, call.listed.get(local), call.parent is None)
        return [m for call, m in matches.items() if not any(outer in matches for outer in call.outer())]

    def _listing(self, matches: "list[Match]") -> list[str]:
        """A line for each value: its unique name, and its origin."""
        matches = list({id(m.value): m for m in reversed(matches)}.values())[::-1]
        shown = matches if len(matches) <= LISTED else matches[: LISTED - 1]
        rows = [(self._unique_name(m), str(m.value.shape), *_origin(m)) for m in shown]
        lines = aligned(rows, left=(0, 1, 2)) if rows else []
        return lines if shown is matches else [*lines, f"... and {len(matches) - len(shown)} more"]

    def _unique_name(self, match: "Match") -> str:
        """An expression for this value only: one or two calls and the name, else its step, or its whole path."""
        outer = list(match.call.outer())
        one = [form for call in (match.call, *outer) for form in (call.name, call.label)]
        two = [f"{form}.{match.call.label}" for call in outer for form in (call.name, call.label)]
        for calls in dict.fromkeys([*one, *two]):
            if [m[:2] for m in self._candidates(f"{calls}.{match.local}")] == [match[:2]]:
                return f"t['{calls}.{match.local}']"
        return f"t['{match.call.path}.{match.local}']" if match.entry is None else f"t[{match.entry.number}]"


class Match(NamedTuple):
    """A value that a name may mean: its local name in `call`, and the entry where it is listed, if any."""

    call: Call
    local: str
    value: np.ndarray
    entry: Entry | None
    main: bool                         # listed under this name, or an argument or result of the traced function


class UnknownNameError(KeyError):
    """A name that stands for no value, or for several. A KeyError, but its message is printed without quotes."""

    def __init__(self, says: str, lines: Sequence[str] = ()) -> None:
        super().__init__("\n".join([says, *(f"    {line}" for line in lines)]))

    def __str__(self) -> str:
        return str(self.args[0])


def _origin(match: Match) -> tuple[str, str]:
    """The value's step, and the line that made it or its name there."""
    entry = match.entry
    if entry is None:
        return "", f"in {match.call.label}"
    same = entry.call is match.call and entry.name == match.local
    return f"step {entry.number}", origin(entry) if same else f"{entry.name}, as {match.call.label} calls it"


def _is_called(call: Call, local: str, name: str) -> bool:
    """Is `name` the local name, perhaps after some enclosing calls, outermost first, with or without #2?

    Calls may be skipped: "Block.forward#2.weights" is made several calls deeper.
    """
    if not f".{name}".endswith(f".{local}"):
        return False
    rest = name[: -len(local)]                                      # "softmax#2.", or nothing
    for outer in (*reversed(list(call.outer())), call):
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
