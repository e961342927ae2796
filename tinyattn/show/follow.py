"""One number, from the loss back to it: which intermediates lie on the way, and what the gradient is at each.

Two things are measured, by different means, and held against each other:

    moves      how each intermediate X moves when the number w is nudged: Ẋ = ∂X/∂w, from two more runs of the forward
    gradient   what the backward computed for X, dX = ∂L/∂X

By the chain rule ∂L/∂w = Σ dX ⊙ Ẋ wherever all of w's influence passes through X. Where only a part of it does, because a
residual goes round it or there are other heads or branches, Σ dX ⊙ Ẋ is that part.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ..backend import to_numpy
from ..check.gradcheck import bind, upstream_names
from ..ops import Rows
from .recorder import Call, Entry, Recorder, array_leaves, is_array
from .trace_table import norm_of, place


class Stage(NamedTuple):
    """An intermediate on the way, with the gradient that the backward gave it."""

    gradient: str              # its name in the backward: dout
    name: str                  # and of what it is the gradient: out
    backward: Call
    forward: Call
    shape: tuple[int, ...]
    norm: float                # of the gradient
    moves: float               # norm of ∂X/∂w
    passes: float              # Σ gradient ⊙ ∂X/∂w
    line: str                  # the forward line that made X


class Moved(NamedTuple):
    """A forward intermediate that moves with the number."""

    entry: Entry
    rate: np.ndarray           # ∂X/∂w, by central differences in float64
    numbers: int               # how many of its entries move at all


class Followed:
    """`stages` from the loss back, `moved` from the number on; `traced` and `measured`, the derivative found twice."""

    def __init__(self, name: str, index: tuple[int, ...], h: float, traced: float, measured: float,
                 stages: list[Stage], moved: list[Moved], of: int) -> None:  # fmt: skip
        self.name, self.index, self.h, self.traced, self.measured = name, index, h, traced, measured
        self.stages, self.moved, self._of = stages, moved, of

    def _lines(self) -> tuple[str, list[tuple[str, ...]], list[str]]:
        what = f"{self.name}[{', '.join(map(str, self.index))}]"
        head = f"from the loss L back to w = {what}: {len(self.moved)} of {self._of} forward intermediates move with it"
        rows = [("gradient", "of", "shape", "its norm", "norm ∂X/∂w", "Σ dX ⊙ ∂X/∂w", "share", "the forward line it undoes")]
        for s in self.stages:
            share = f"{100 * s.passes / self.traced:.4g} %" if self.traced else ""
            rows.append((f"{s.backward.label}.{s.gradient}", s.name, str(s.shape), f"{s.norm:.4g}", f"{s.moves:.4g}",
                         f"{s.passes:.6g}", share, s.line))  # fmt: skip
        error = abs(self.traced - self.measured) / (max(abs(self.traced), abs(self.measured)) or 1.0)
        ends = [
            f"traced    ∂L/∂w = {self.traced:.9g}   (the backward's gradient of {self.name})",
            f"measured  ∂L/∂w = {self.measured:.9g}   (L(w + h) - L(w - h)) / 2h, h = {self.h:.1g}; they differ by {error:.0e} of it",
        ]
        return head, rows, ends

    def __str__(self) -> str:
        head, rows, ends = self._lines()
        widths = [max(len(row[i]) for row in rows) for i in range(7)]
        lines = [
            "  ".join([*(c.rjust(w) if i > 2 else c.ljust(w) for i, (c, w) in enumerate(zip(row[:7], widths, strict=True))), row[7]])
            for row in rows
        ]
        return "\n".join([head, "", *lines, "", *ends])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, (titles, *rows), ends = self._lines()
        right = [' style="text-align: right"' if 2 < i < 7 else ' style="text-align: left"' for i in range(8)]
        top = "".join(f'<th scope="col"{r}>{escape(c)}</th>' for r, c in zip(right, titles, strict=True))
        body = "".join(
            f"<tr>{''.join(f'<td{r}>{escape(c)}</td>' for r, c in zip(right, row, strict=True))}</tr>" for row in rows
        )
        return (
            f"<p>{escape(head)}</p><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
            f"<pre>{escape(chr(10).join(ends))}</pre>"
        )

    def forward(self) -> str:
        """The forward's side, in a terminal: every intermediate that moves, in the order in which it was made."""
        rows = [("step", "of", "numbers that move", "norm ∂X/∂w", "made by")]
        for m in self.moved:
            rows.append((str(m.entry.number), m.entry.path.partition(".")[2], f"{m.numbers} of {m.entry.value.size}",
                         f"{norm_of(m.rate):.4g}", m.entry.text))  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(
            "  ".join([*(c.ljust(w) if i == 1 else c.rjust(w) for i, (c, w) in enumerate(zip(row[:4], widths, strict=True))), row[4]])
            for row in rows
        )


def follow(trace: Any, name: str, index: tuple[int, ...] | int, h: float = 1e-6) -> Followed:
    """`trace` has a backward; `name` is that of an input or parameter with a gradient. See `Followed`.

    The nudge is h · max(1, |w|), both ways, in float64 whatever the trace's dtype.
    Raises ValueError without a backward, or where nudging changes which lines run; KeyError and IndexError for a number
    that is not there.
    """
    if trace.replay is None:
        raise ValueError("follow needs the gradients: trace the forward with backward=True, or a function")
    if name not in trace.gradients:
        raise KeyError(f"{name!r} has no gradient here; these have: {', '.join(trace.gradients)}")
    index = (index,) if isinstance(index, int) else tuple(index)
    forward, args, kwargs, cotangents = trace.replay
    inputs = _widened(bind(forward, *args, **kwargs))
    leaf = _leaf(inputs, name)
    try:
        w = to_numpy(leaf)[index]
    except IndexError:
        w = leaf
    if np.shape(w):
        raise IndexError(f"{name} has shape {leaf.shape}, expected an index of one of its numbers, not {index}")
    index = tuple(i % size for i, size in zip(index, leaf.shape, strict=True))
    step = h * max(1.0, abs(float(w)))
    weights = [_widened(u) for u in cotangents]
    above, below = (_nudged(forward, inputs, name, index, way * step, weights, trace._recorder.limit) for way in (1, -1))
    measured = (above.loss - below.loss) / (2 * step)
    traced = float(_entry_of(trace.gradients[name], index))
    first = trace.roots[0]
    moved = []
    for key, entry in _last(first).items():
        if entry.how in ("input", "allocated") or entry.value.dtype.kind != "f":
            continue
        if key not in above.values or key not in below.values:
            raise ValueError(f"nudging {name}{list(index)} by {step:.1g} changes which lines run: {entry.path} was not made")
        up, down = above.values[key], below.values[key]
        if up.shape == down.shape and up.tobytes() != down.tobytes():
            with np.errstate(invalid="ignore"):
                rate = np.where(up == down, 0.0, (up - down) / (2 * step))       # -inf minus -inf is no motion
            moved.append(Moved(entry, rate, int(np.count_nonzero(up != down))))
    stages = list(_stages(trace, above, below, step))
    return Followed(name, index, step, traced, measured, stages, moved, len(_last(first)))


class _Run(NamedTuple):
    """The forward with one number nudged."""

    loss: float
    call: Call
    values: dict[Any, np.ndarray]       # the last of every name in every call


def _nudged(forward: Any, inputs: dict[str, Any], name: str, index: Any, by: float, weights: Any, limit: int) -> _Run:
    inputs = copy.deepcopy(inputs)
    _leaf(inputs, name)[index] += by
    positional, named = _call(forward, inputs)
    returned, call = Recorder(8 * limit).run(forward, positional, named)
    outputs = returned if type(returned) is tuple else (returned,)
    loss = sum(float(np.sum(to_numpy(u * out))) for u, out in zip(weights, outputs, strict=False))
    return _Run(loss, call, {key: entry.value for key, entry in _last(call).items()})


def _call(forward: Any, inputs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    bound = inspect.signature(forward).bind_partial()
    bound.arguments.update(inputs)
    return bound.args, bound.kwargs


def _last(root: Call) -> dict[Any, Entry]:
    """Of every name in every call the last value, by where it was made."""
    return {(entry.call.path, entry.name): entry for entry in root.entries()}


def _stages(trace: Any, above: _Run, below: _Run, step: float) -> Iterator[Stage]:
    """From the loss back: each gradient of the backward that is that of a forward intermediate which moves."""
    forward, backward = trace.roots
    ups, downs = ({c.path: c for c in run.call.calls()} for run in (above, below))
    told = set()
    for call in backward.calls():
        base = _forward_of(call, forward)
        if base is None or base.path not in ups or base.path not in downs:
            continue
        up, down = ups[base.path], downs[base.path]
        for name, place_of, gradient in _gradients(call, base):
            pair = [_value(c, name, place_of) for c in (base, up, down)]
            value, high, low = pair
            if value is None or high is None or low is None or value.shape != gradient.shape or high.tobytes() == low.tobytes():
                continue
            rate = (high - low) / (2 * step)
            key = (id(value), id(gradient))                            # copies of equal content are one object
            if key in told or value.dtype.kind != "f":
                continue
            told.add(key)
            wide = gradient.astype(np.float64)
            made = _made(base, name, place_of)
            yield Stage(f"d{name}", name, call, base, gradient.shape, norm_of(wide), norm_of(rate), float(np.sum(wide * rate)), made)


def _forward_of(call: Call, forward: Call) -> Call | None:
    """The forward call that this backward call undoes: of that name, and sharing most objects with it."""
    if not call.name.endswith("_backward"):
        return None
    plain = call.name.removesuffix("_backward")
    shared = {c: len(call.met & c.met) for c in forward.calls() if c.name == plain}
    best = max(shared.values(), default=0)
    found = [c for c, n in shared.items() if n == best > 0]
    return found[0] if len(found) == 1 else None


def _gradients(call: Call, base: Call) -> Iterator[tuple[str, int | None, np.ndarray]]:
    """(name in the forward, its place among the results or None, gradient) of what this backward call says of its forward.

    Upstream gradients belong to results, by their order. A name with a d in front belongs to the name without
    it, where each is bound once: `dx` that is bound twice has been the gradient of two things.
    """
    upstream = upstream_names(list(call.parameters), base.parameters)
    for i, name in enumerate(upstream):
        if name in call.inputs and i < len(base.results):
            yield name[1:], i, call.inputs[name]
    entries = [s for s in call.steps if isinstance(s, Entry) and s.name.startswith("d")]
    for entry in {e.name: e for e in entries}.values():
        bindings = sum(e.name == entry.name and e.how == "" for e in entries)
        own = [s for s in base.steps if isinstance(s, Entry) and s.name == entry.name[1:] and s.how != "in place"]
        single = len(own) == 1 or (not own and entry.name[1:] in base.inputs)
        if bindings <= 1 and entry.how != "input" and single and entry.name not in upstream:
            yield entry.name[1:], None, entry.value


def _value(call: Call, name: str, place_of: int | None) -> np.ndarray | None:
    if place_of is not None:
        return call.results[place_of] if place_of < len(call.results) else None
    found = [s.value for s in call.steps if isinstance(s, Entry) and s.name == name]
    return call.inputs[name] if name in call.inputs else found[-1] if found else None


def _made(call: Call, name: str, place_of: int | None) -> str:
    """The line of the forward that made it: in the call itself, or, for what came in from outside, the call's own."""
    value = _value(call, name, place_of)
    found = [s for s in call.steps if isinstance(s, Entry) and s.value is value and s.how != "input"]
    if found:
        return found[-1].text
    return call.called_at[1] or place(call)


def _widened(tree: Any) -> Any:
    """Every float32 array of a tree in float64."""
    if is_array(tree) and tree.dtype.kind == "f":
        return tree.astype(np.float64)
    if isinstance(tree, dict):
        return {key: _widened(part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [_widened(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _leaf(inputs: dict[str, Any], name: str) -> Any:
    """The array of that name: an argument's, or one in the tree of the first argument."""
    if is_array(inputs.get(name)):
        return inputs[name]
    first = next(iter(inputs))
    return dict(array_leaves(inputs[first], first))[f"{first}.{name}"]


def _entry_of(gradient: Any, index: tuple[int, ...]) -> Any:
    if isinstance(gradient, Rows):                                     # zero but in a few rows of its table
        at = np.flatnonzero(to_numpy(gradient.ids) == index[0])
        return to_numpy(gradient.values)[(at[0], *index[1:])] if len(at) else 0.0
    return to_numpy(gradient)[index]
