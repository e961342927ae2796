"""`trace(attention, q, k, v, mask)`: run any op, layer or model and keep every intermediate, forward and backward.

What is kept are the values that get a name in the source, under that name, and with the line that made them. Nothing in
the functions knows of it (`recorder.py` watches them from outside), so your own can be traced as well.
"""

from __future__ import annotations

import copy
import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..backend import asarray, to_numpy
from ..check.gradcheck import asked_of, bind, name_gradients
from ..layers import leaves
from .array_map import array_map
from .recorder import Call, Entry, Recorder, is_array
from .sources import result_names
from .trace_html import page
from .trace_step import Step
from .trace_table import table


def trace(
    forward: Any, *args: Any, backward: Any = None, seed: int = 0, limit: int = 64 << 20, **kwargs: Any
) -> Trace:
    """Run `forward(*args, **kwargs)`, line by line, and keep what every line makes. -> Trace: print it, or show it in a notebook.

        t = trace(attention, q, k, v, mask)
        t["weights"], t["softmax.p"], t[7]       the array that was there, by name, by call and name, or by step
        t.picture("weights"), t.at(7), t.step(), t.back()

    With `backward=True`, or a function, the backward runs after it: `attention_backward`, found beside `attention`, or
    `loss_backward` beside the method `loss`; an object with these two methods may be given instead. It is given what
    its parameters name, as `gradcheck` does: first upstream gradients, then the forward's arguments and results.
    An upstream gradient may be given by name, e.g. `dout=...`; else it is 1 for a single number (a loss), and
    for an array a random cotangent from `seed`. Then `t.follow("query.W", (3, 7))` follows a number from the loss to it.

    Only the calling thread is watched. Functions shown are the library's and those defined where `forward` is; NumPy's
    own and the helpers of `ops/shapes.py` are not. An entry is a copy as of its moment, `limit` bytes of them at most.

    Raises ValueError beyond that limit, for a backward that is not found and an upstream gradient of the wrong shape,
    TypeError for what is not written in Python or cannot be bound, RuntimeError where a debugger or coverage
    is tracing this thread, and whatever `forward` raises.
    """
    if not callable(forward) and hasattr(forward, "loss"):
        forward = forward.loss
    if not callable(forward):
        raise TypeError(f"trace: a {type(forward).__name__} cannot be called: expected a function, or an object with loss")
    opposite = _opposite(forward, backward)
    recorder = Recorder(limit)
    if opposite is None:
        returned, call = recorder.run(forward, args, kwargs)
        return Trace(recorder, call, returned)

    parameters = list(inspect.signature(forward).parameters)
    given = {n: kwargs.pop(n) for n in inspect.signature(opposite).parameters if n in kwargs and n not in parameters}
    inputs = bind(forward, *args, **kwargs)
    again = copy.deepcopy((args, kwargs))                     # as they are now: a generator draws each number once
    returned, call = recorder.run(forward, args, kwargs, result_names(forward, opposite))
    upstream, others, outputs = asked_of(opposite, inputs, returned)
    cotangents, note = _cotangents(upstream, outputs, given, seed)
    grads, call_back = recorder.run(opposite, (), dict(zip(upstream, cotangents, strict=True)) | others)
    found = Trace(recorder, call, returned, call_back, grads, note)
    found.gradients = _named(inputs, grads)
    found.replay = Replay(forward, *again, cotangents)
    return found


class Replay(NamedTuple):
    """What it takes to run the forward once more: it, its arguments as they were, the upstream gradients."""

    forward: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    cotangents: list[Any]


class Trace:
    """What `trace` has seen: the forward's call, the backward's, and every entry by its step.

    `result` is what the forward returned, `grads` what the backward did, `gradients` the same by the names of inputs
    and parameters. `str` is the table of as many levels of calls as fit a screen or two; in a notebook all of them, folded.
    """

    def __init__(
        self, recorder: Recorder, forward: Call, result: Any, backward: Call | None = None, grads: Any = None, note: str = ""
    ) -> None:
        self.entries: list[Entry] = recorder.entries
        self.roots = [forward] if backward is None else [forward, backward]
        self.result, self.grads, self.note = result, grads, note
        self.gradients: dict[str, Any] = {}
        self._cursor = -1
        self.replay: Replay | None = None                     # set where there is a backward
        self._recorder = recorder                             # it holds the objects whose ids `follow` compares

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, which: int | str) -> np.ndarray:
        """The array of a step, or of a name; see `entry`. Nobody can write into it: it is what was."""
        if isinstance(which, str):
            entry, value = self._find(which)
            return entry.value if entry else value
        return self.entry(which).value

    def entry(self, which: int | str) -> Entry:
        """An entry by its step, or by name: "weights", or with calls in front, "softmax.p", "dense#2.y".

        The outermost call that has the name counts, and in it the latest value. KeyError lists near names, or, where several
        calls beside each other have it and the values differ, these.
        """
        if isinstance(which, str):
            entry, _ = self._find(which)
            if entry is None:
                raise KeyError(f"{which!r} went through a door but was listed elsewhere: t[{which!r}] is its value")
            return entry
        if not -len(self.entries) <= which < len(self.entries):
            raise IndexError(f"step {which}: there are steps 0 to {len(self.entries) - 1}")
        return self.entries[which]

    def all(self, name: str) -> list[Entry]:
        """Every entry of that name, in order: before and after each update, in every call."""
        return [e for e in self.entries if f".{e.path}".endswith(f".{name}") or e.name == name]

    def picture(self, which: int | str, title: str = "") -> Any:
        """A step, or a name, as a heat map, or bars for a vector. -> matplotlib figure. See `array_map`."""
        if isinstance(which, int):
            entry = self.entry(which)
            return array_map(entry.value, title or f"{entry.name}, step {entry.number}")
        return array_map(self[which], title or which)

    def at(self, which: int | str) -> Step:
        """Go to that step and look at it: its line among its neighbours, its numbers."""
        self._cursor = self.entry(which).number
        return Step(self.entries[self._cursor], len(self.entries))

    def step(self, n: int = 1) -> Step:
        """n steps on, at most to the last."""
        return self.at(min(max(self._cursor + n, 0), len(self.entries) - 1))

    def back(self, n: int = 1) -> Step:
        """n steps back, at most to the first."""
        return self.step(-n)

    def follow(self, name: str, index: tuple[int, ...] | int, h: float = 1e-6) -> Any:
        """From the loss back to one number of an input or a parameter: see `tinyattn.show.follow.Followed`."""
        from .follow import follow

        return follow(self, name, index, h)

    def table(self, depth: int | None = None, call: str = "", width: int = 120) -> str:
        """For a terminal: one line an entry, calls as a tree, those deeper than `depth` folded; of one `call` alone if named.

        Without `depth`, as many levels as fit 60 lines.
        """
        return table(self._roots_of(call), self._header(), depth, width)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return page(self.roots, self._header())

    def _header(self) -> str:
        said = f"{len(self.entries)} steps"
        return f"{said}; upstream: {self.note}" if self.note else said

    def _roots_of(self, name: str) -> list[Call]:
        if not name:
            return self.roots
        calls = [c for root in self.roots for c in root.calls()]
        found = [c for c in calls if c.label == name or f".{c.path}".endswith(f".{name}")]
        found = found or [c for c in calls if c.name == name]
        if not found:
            raise KeyError(f"no call {name!r} was made{_near(name, [c.label for c in calls])}")
        return found

    def _find(self, name: str) -> tuple[Entry | None, Any]:
        """-> the entry, its value; or None and the value, of what passed a call's door only."""
        head, _, _ = name.rpartition(".")
        found: dict[Call, tuple[Entry | None, Any]] = {}
        for root in self.roots:
            for call in root.calls():
                for entry in (s for s in call.steps if isinstance(s, Entry)):
                    if _is_called(call, entry.name, name):
                        found[call] = (entry, entry.value)
        if not found:
            for root in self.roots:
                for call in root.calls():
                    for field, value in (call.inputs | call.outputs).items():
                        if _is_called(call, field, name):
                            found[call] = (None, value)
        if not found:
            known = {e.name for e in self.entries} | {f"{e.call.label}.{e.name}" for e in self.entries}
            raise KeyError(f"nothing was called {name!r}{_near(name, sorted(known))}")
        least = min(call.depth for call in found)
        best = {call: pair for call, pair in found.items() if call.depth == least}
        (first, _), *_ = best.values()
        values = [value for _, value in best.values()]
        if any(value is not values[0] for value in values):
            said = ", ".join(f"{c.path}.{name.rpartition('.')[2]}" + (f" (step {e.number})" if e else "") for c, (e, _) in best.items())
            raise KeyError(f"{name!r} is {len(best)} values: {said}; say which")
        return first, values[0]


def _is_called(call: Call, own: str, asked: str) -> bool:
    """Is `asked` this name, perhaps with its call's path, or the end of it, in front?"""
    full = f"{call.path}.{own}"
    plain = ".".join(part.partition("#")[0] for part in call.path.split(".")) + f".{own}"
    return asked == own or full.endswith(f".{asked}") and len(asked) > len(own) or full == asked or (
        plain.endswith(f".{asked}") and len(asked) > len(own)
    )


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 5, 0.5) or list(dict.fromkeys(known))[:8]
    return f"; near it: {', '.join(near)}" if near else ""


def _opposite(forward: Any, backward: Any) -> Callable[..., Any] | None:
    """The backward that is meant: given, or found by its name beside the forward."""
    if backward is None or backward is False:
        return None
    if backward is not True:
        if not callable(backward):
            raise TypeError(f"trace: backward is {backward!r}, expected a function, or True to find it by its name")
        return backward
    plain = forward.func if isinstance(forward, partial) else forward
    name = f"{getattr(plain, '__name__', type(plain).__name__)}_backward"
    owner = getattr(plain, "__self__", None)
    found = getattr(owner, name, None) if owner is not None else getattr(plain, "__globals__", {}).get(name)
    if found is None:
        where = type(owner).__name__ if owner is not None else getattr(plain, "__module__", "its module")
        raise ValueError(f"trace: there is no {name} in {where}: give it as backward=...")
    return found


def _cotangents(
    upstream: list[str], outputs: tuple[Any, ...], given: dict[str, Any], seed: int
) -> tuple[list[Any], str]:
    """-> the upstream gradients, and what is to be said of those that nobody has given."""
    unknown = [name for name in given if name not in upstream]
    if unknown:
        raise TypeError(f"trace: {unknown[0]} is no argument of the forward and no upstream gradient ({', '.join(upstream)})")
    rng, found, said = np.random.default_rng(seed), [], []
    for name, out in zip(upstream, outputs, strict=False):
        if name in given:
            if np.shape(given[name]) != np.shape(out):
                raise ValueError(f"trace: {name} has shape {np.shape(given[name])}, expected {np.shape(out)}, like its output")
            found.append(given[name])
            said.append(f"{name} as given")
        elif np.shape(out):
            found.append(asarray(rng.standard_normal(out.shape).astype(out.dtype), like=out))
            said.append(f"{name} random, seed {seed}")
        else:
            found.append(1.0)
            said.append(f"{name} = 1")
    return found, ", ".join(said)


def _named(inputs: dict[str, Any], grads: Any) -> dict[str, Any]:
    """What a backward returned, under the names of inputs and parameters."""
    first, *rest = inputs.items()
    if isinstance(first[1], dict | list):                     # a layer, or a network: last come the gradients of p
        *dxs, tree = grads if type(grads) is tuple else (grads,)
        names = [name for name, x in rest if is_array(x) and x.dtype.kind == "f"]
        return (dict(zip(names, dxs, strict=True)) if len(names) == len(dxs) else {}) | dict(leaves(tree))
    on_host = {name: to_numpy(x) if is_array(x) else x for name, x in inputs.items()}
    return {name: g for name, g in name_gradients(on_host, grads).items() if name in inputs}
