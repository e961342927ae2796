"""Follow the gradient from the loss back to one number w: the intermediates on its path, and the gradient of each.

Two quantities are computed independently and compared:

    moves      ∂X/∂w of each intermediate X, by central differences: two more runs of the forward
    gradient   dX = ∂L/∂X, from the backward

By the chain rule ∂L/∂w = Σ dX ⊙ ∂X/∂w, if w acts on the loss only through X. If a residual or another branch bypasses
X, Σ dX ⊙ ∂X/∂w is the part of ∂L/∂w that passes through X.
"""

import copy
import inspect
import math
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ..backend import to_numpy
from ..check.binding import bind
from ..check.differences import FLOAT32_TOLERANCE
from ..tree import Rows
from .pairing import forward_of, gradients_of, made_by, value_of
from .recorder import Recorder
from .records import Call, Entry, array_leaves, is_array
from .trace_table import aligned, norm_of


class Stage(NamedTuple):
    """An intermediate on the path from w to the loss, with its gradient."""

    step: int                  # the step of the trace that computed the gradient
    gradient: str              # the gradient's name in the backward: dout
    name: str                  # the intermediate's name in the forward: out
    backward: Call
    forward: Call
    shape: tuple[int, ...]
    norm: float                # of the gradient
    moves: float               # norm of ∂X/∂w, for the intermediate X
    passes: float              # Σ gradient ⊙ ∂X/∂w
    line: str                  # the forward line that computed X


class Moved(NamedTuple):
    """A forward intermediate that depends on the number w."""

    entry: Entry
    rate: np.ndarray           # ∂X/∂w, by central differences in float64
    numbers: int               # number of its entries that depend on w


class Followed:
    """`stages` from the loss back to w; `moved`, the intermediates that depend on w; ∂L/∂w, `traced` and `measured`."""

    def __init__(
        self, name: str, index: tuple[int, ...], h: float, traced: float, measured: float, slack: float, noise: float,
        stages: list[Stage], moved: list[Moved], total: int, kink: tuple[float, float] | None,
    ) -> None:  # fmt: skip
        self.name, self.index, self.h, self.traced, self.measured = name, index, h, traced, measured
        self.stages, self.moved, self._total = stages, moved, total
        self.tiny = abs(traced) <= 100 * noise            # shares would be noise
        self.kink = kink                                  # slopes of the two sides, if `traced` lies between them
        self.agrees = kink is not None or abs(traced - measured) <= slack

    def _lines(self) -> tuple[str, list[tuple[str, ...]], list[str]]:
        what = f"{self.name}[{', '.join(map(str, self.index))}]"
        head = (
            f"from the loss L back to w = {what}: "
            f"{len(self.moved)} of {self._total} forward intermediates move with it\n"
            "share: Σ dX ⊙ ∂X/∂w divided by ∂L/∂w. 100 %: all effects of w pass through X; else a part bypasses X"
            if not self.tiny
            else "∂L/∂w is 0, or as small as rounding errors: the column share has Σ dX ⊙ ∂X/∂w itself"
        )
        rows: list[tuple[str, ...]] = [
            ("step", "gradient dX", "shape", "norm dX", "norm ∂X/∂w", "share", "the line that made X, or read it")
        ]
        for s in self.stages:
            share = f"{s.passes:.1g}" if self.tiny else f"{100 * s.passes / self.traced:.1f} %"
            name = f"{s.backward.label}.{s.gradient}"
            rows.append((str(s.step), name, str(s.shape), f"{s.norm:.4g}", f"{s.moves:.4g}", share, s.line))
        verdict = "they agree" if self.agrees else f"they DIFFER by {abs(self.traced - self.measured):.3g}"
        if self.kink:
            verdict = f"a kink, with slopes {self.kink[0]:.6g} and {self.kink[1]:.6g}: anything between them is right"
        ends = [
            f"traced    ∂L/∂w = {self.traced:.6g}   the backward's gradient of {self.name}",
            f"measured  ∂L/∂w = {self.measured:.6g}   (L(w + h) - L(w - h)) / 2h with h = {self.h:.1g}: {verdict}",
        ]
        return head, rows, ends

    def __str__(self) -> str:
        head, rows, ends = self._lines()
        return "\n".join([head, "", *aligned(rows, left=(1, 2)), "", *ends])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, (titles, *rows), ends = self._lines()
        align = ["left" if i in (1, 2, 6) else "right" for i in range(7)]
        wrap = [*["nowrap"] * 6, "normal"]
        right = [f' style="text-align: {a}; white-space: {w}"' for a, w in zip(align, wrap, strict=True)]
        top = "".join(f'<th scope="col"{r}>{escape(c)}</th>' for r, c in zip(right, titles, strict=True))
        body = "".join(
            f"<tr>{''.join(f'<td{r}>{escape(c)}</td>' for r, c in zip(right, row, strict=True))}</tr>" for row in rows
        )
        return (
            f"<p>{escape(head).replace(chr(10), '<br>')}</p>"
            f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
            f"<pre>{escape(chr(10).join(ends))}</pre>"
        )

    def forward(self) -> str:
        """A table for a terminal: every forward intermediate that depends on w."""
        rows: list[tuple[str, ...]] = [("step", "X", "numbers that move", "norm ∂X/∂w", "made by")]
        for entry, rate, numbers in self.moved:
            name, count = entry.path.partition(".")[2], f"{numbers} of {entry.value.size}"
            rows.append((str(entry.number), name, count, f"{norm_of(rate):.4g}", entry.text))
        return "\n".join(aligned(rows, left=(1,)))


def follow(trace: Any, name: str, index: tuple[int, ...] | int, h: float = 1e-6) -> Followed:
    """Follow the number at `index` of an input or parameter `name`, in a trace with a backward. See `Followed`.

    w is nudged by h · max(1, |w|), up and down, always in float64. At a kink, such as ReLU's at 0, any slope between
    the slopes of the two sides is right, as in `gradcheck`. Raises ValueError without a backward, for h <= 0, and if
    the nudge changes which lines run; KeyError for an unknown name, IndexError for an index that does not select one
    number.
    """
    if trace.replay.backward is None:
        raise ValueError("follow needs gradients: trace the forward with backward=True, or backward=a function")
    if name not in trace.gradients:
        raise KeyError(f"{name!r} has no gradient here; these have: {', '.join(trace.gradients)}")
    if not 0 < h < math.inf:
        raise ValueError(f"h is {h}, expected a small number above 0")
    index = tuple(index) if isinstance(index, tuple | list | np.ndarray) else (index,)
    forward, args, kwargs, _, cotangents = trace.replay
    inputs = widened(bind(forward, *args, **kwargs))
    leaf = _leaf(inputs, name)
    try:
        w = to_numpy(leaf)[index]
    except IndexError:
        w = leaf
    if np.shape(w):
        raise IndexError(f"{name} has shape {leaf.shape}, expected an index of one of its numbers, not {index}")
    index = tuple(i % size for i, size in zip(index, leaf.shape, strict=True))
    step = h * max(1.0, abs(float(w)))
    cotangents = [widened(u) for u in cotangents]
    recorder = trace.recorder
    above, below = (_nudged(forward, inputs, name, index, by, cotangents, recorder) for by in (step, -step))
    measured = (above.loss - below.loss) / (2 * step)
    traced = float(_entry_of(trace.gradients[name], index))
    gradient = to_numpy(getattr(trace.gradients[name], "values", trace.gradients[name]))
    noise = 4e-16 * above.size / step
    tolerance = FLOAT32_TOLERANCE if gradient.dtype == np.float32 else 1e-6
    slack = tolerance * max(abs(measured), float(np.max(np.abs(gradient), initial=0.0))) + noise
    kink = None
    if abs(traced - measured) > slack:
        here = _nudged(forward, inputs, name, index, 0.0, cotangents, recorder).loss
        slopes = sorted([(here - below.loss) / step, (above.loss - here) / step])
        if slopes[0] - slack <= traced <= slopes[1] + slack:
            kink = slopes[0], slopes[1]
    made = {key: e for key, e in _last(trace.roots[0]).items() if e.how != "input" and e.value.dtype.kind == "f"}
    moved = []
    for key, entry in made.items():
        if key not in above.values or key not in below.values:
            raise ValueError(f"nudging {name}{list(index)} changes which lines run: {entry.path} was not made")
        up, down = above.values[key], below.values[key]
        if entry.how != "allocated" and up.shape == down.shape and up.tobytes() != down.tobytes():
            with np.errstate(invalid="ignore", over="ignore"):              # memory from np.empty may hold any numbers
                rate = np.where(up == down, 0.0, (up - down) / (2 * step))       # -inf - -inf counts as no change
            moved.append(Moved(entry, rate, int(np.count_nonzero(up != down))))
    moved.sort(key=lambda m: m.entry.number)
    stages = sorted(_stages(trace, above, below, step), key=lambda s: s.step)
    return Followed(name, index, step, traced, measured, slack, noise, stages, moved, len(made), kink)


class _Run(NamedTuple):
    """A run of the forward with one number nudged."""

    loss: float
    size: float                         # Σ |terms| of the loss: the scale of its rounding error
    call: Call
    values: dict[Any, np.ndarray]       # the last value of every name in every call


def _nudged(
    forward: Any, inputs: dict[str, Any], name: str, index: Any, by: float, cotangents: Any, recorder: Recorder
) -> _Run:
    inputs = copy.deepcopy(inputs)
    _leaf(inputs, name)[index] += by
    bound = inspect.signature(forward).bind_partial()
    bound.arguments.update(inputs)
    returned, call = Recorder(8 * recorder.limit, recorder.engine).run(forward, bound.args, bound.kwargs)
    outputs = returned if type(returned) is tuple else (returned,)
    terms = [to_numpy(u * out) for u, out in zip(cotangents, outputs, strict=False)]
    loss, size = float(sum(map(np.sum, terms))), float(sum(np.sum(np.abs(term)) for term in terms))
    return _Run(loss, size, call, {key: entry.value for key, entry in _last(call).items()})


def _last(root: Call) -> dict[Any, Entry]:
    """(path of a call, name) -> the last entry of that name in that call."""
    return {(entry.call.path, entry.name): entry for entry in root.entries()}


def _stages(trace: Any, above: _Run, below: _Run, step: float) -> Iterator[Stage]:
    """Each gradient in the backward whose forward intermediate depends on w."""
    forward, backward = trace.roots
    ups, downs = ({c.path: c for c in run.call.calls()} for run in (above, below))
    seen = set()
    for call in backward.calls():
        base = forward_of(call, forward)
        if base is None or base.path not in ups or base.path not in downs:
            continue
        up, down = ups[base.path], downs[base.path]
        for name, place_of, gradient in gradients_of(call, base):
            value, high, low = (value_of(c, name, place_of) for c in (base, up, down))
            if value is None or high is None or low is None or value.shape != gradient.shape:
                continue
            if high.tobytes() == low.tobytes():
                continue
            rate = (high - low) / (2 * step)
            key = (id(value), id(gradient))                            # equal values are one object
            if key in seen or value.dtype.kind != "f":
                continue
            seen.add(key)
            wide = gradient.astype(np.float64)
            line = made_by(base, value)
            number = next((e.number for e in backward.entries() if e.value is gradient), next(call.entries()).number)
            yield Stage(number, f"d{name}", name, call, base, gradient.shape, norm_of(wide), norm_of(rate),
                        float(np.sum(wide * rate)), line)  # fmt: skip


def widened(tree: Any) -> Any:
    """The tree with every float array in float64."""
    if is_array(tree) and tree.dtype.kind == "f":
        return tree.astype(np.float64)
    if isinstance(tree, dict):
        return {key: widened(part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        parts = [widened(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _leaf(inputs: dict[str, Any], name: str) -> Any:
    """The array of that name: an argument, or an array in the tree of the first argument."""
    if is_array(inputs.get(name)):
        return inputs[name]
    first = next(iter(inputs))
    return dict(array_leaves(inputs[first], first))[f"{first}.{name}"]


def _entry_of(gradient: Any, index: tuple[int, ...]) -> Any:
    if isinstance(gradient, Rows):                                     # a sparse gradient: zero in all other rows
        at = np.flatnonzero(to_numpy(gradient.ids) == index[0])
        return to_numpy(gradient.values)[(at[0], *index[1:])] if len(at) else 0.0
    return to_numpy(gradient)[index]
