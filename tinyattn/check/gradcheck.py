"""Is this backward the gradient of this forward? Central differences in float64 against random cotangents.

The loss is <u, output> with a random cotangent u for every output, so that no gradient can hide behind a sum. Every
entry of every input is moved both ways (or a random choice of entries, for whole models); then, for the adjoint test
<J v, u> = <v, Jᵀ u>, each input as a whole along one random direction v.

Three functions share one comparison:

    gradcheck(attention, attention_backward, q, k, v, mask)         an op: binds arguments by their names
    gradcheck_layer(forward, backward, p, x)                        (p, x, ...) -> y, cache; (p, dy, cache) -> ...
    gradcheck_model(model, p, batch, key=3)                         loss and loss_backward
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from numbers import Integral, Number, Real
from typing import Any

import numpy as np

from ..backend import Array
from ..tree import add_to, leaves, tree_map
from .binding import (
    SURPLUS,
    as_tuple,
    backward_arguments,
    bind,
    call,
    cotangent,
    differentiable,
    is_float_array,
    is_list_of_numbers,
    name_gradients,
    name_of,
    real_output,
    unnamed,
)

FLOAT32_TOLERANCE = 1e-3  # a float32 backward's allowed error, relative to the largest gradient: more is not rounding
WRITTEN = "(written)"  # the entry of what a forward or a backward wrote into
SMALLEST = 1e-12  # as a step or a tolerance: below it rounding is all that is measured, and anything would agree


@dataclass(frozen=True)
class Entry:
    """The worst entry of one argument's gradient."""

    name: str
    error: float  # |derived - measured| / (the largest of either in this argument + the differences' own noise)
    index: tuple[int, ...] = ()
    derived: float = 0.0  # what backward returned there
    measured: float = 0.0  # what central differences say
    adjoint: float = 0.0  # the error along one random direction, relative as `error`
    float32_error: float = 0.0  # the float32 backward's distance from the float64 one, relative to the largest gradient
    problem: str = ""  # in place of numbers: wrong shape, missing, not finite

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name:24} {self.problem}"
        place = f"[{', '.join(map(str, self.index))}]"
        single = f"{self.float32_error:9.1e}" if self.float32_error else "        -"
        return (
            f"{self.name:24} {self.error:8.1e} {self.adjoint:9.1e} {single}  "
            f"at {place}: derived {self.derived:.9g}, measured {self.measured:.9g}"
        )


@dataclass(frozen=True)
class GradReport:
    """One `Entry` an argument; true where all errors are within `tolerance`, and float32's within FLOAT32_TOLERANCE."""

    entries: tuple[Entry, ...]
    tolerance: float

    @property
    def worst(self) -> float:
        return max((max(e.error, e.adjoint) for e in self.entries), default=0.0)

    def agrees(self, entry: Entry) -> bool:
        within = entry.error <= self.tolerance and entry.adjoint <= self.tolerance
        return within and entry.float32_error <= FLOAT32_TOLERANCE

    def __bool__(self) -> bool:
        return bool(self.entries) and all(self.agrees(e) for e in self.entries)

    def __str__(self) -> str:
        written = any(e.name == WRITTEN for e in self.entries)
        agree = bool(self.entries) and all(self.agrees(e) for e in self.entries if e.name != WRITTEN)
        verdict = "gradients agree" + ", but" * written if agree else "gradients DIFFER"
        lines = [f"{verdict} (tolerance {self.tolerance:.0e})", "argument                    error   adjoint   float32"]
        return "\n".join(lines + [str(e) for e in self.entries])

    __repr__ = __str__


def gradcheck(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *args: Any,
    seed: int = 0,
    step: float = 1e-6,
    tolerance: float = 1e-6,
    wrt: tuple[str, ...] | None = None,
    **kwargs: Any,
) -> GradReport:
    """Compare an op's backward with central differences of its forward.

    Arguments are float64 arrays (and masks, ids, numbers), bound to `forward`'s names. `backward`'s names say
    what it takes: first `d` + the name of an output, then inputs and outputs of the forward. Where it takes
    an output under a name that is no input, the forward's further outputs are passed in order. Which of several
    names with a d in front are gradients, and which an output that is called so, `upstream_names` says. The gradients
    it returns belong, in order, to the arguments named in `wrt`: by default all float arrays but those called
    targets or weights. A gradient that is missing, or one too many, is reported; None, or any gradient, may be
    returned for an argument that was None.

    `step` is relative to max(1, |entry|). At a kink (ReLU at 0) any slope between those of its two sides is right.
    The backward is also run on float32 inputs and compared with its float64 result, since differences of float32
    outputs are too coarse for this step: float32 arguments raise TypeError. Forward and backward are given copies, and
    what they return is copied: what one of them writes into an array that it was given moves nothing here, and is
    reported.

    Raises TypeError for a forward whose arguments have no names or whose output is no array of real numbers, and
    ValueError for a step or tolerance outside of 1e-12 to 1 and for a `wrt` that names no float64 array.
    """
    _refuse_settings(step, tolerance)
    inputs = {name: _copied(x) for name, x in bind(forward, *args, **kwargs).items()}  # entries are moved in place
    for name in unnamed(forward):
        if inputs.pop(name):
            raise TypeError(f"gradcheck: {name_of(forward)} takes *{name}, expected arguments that have names")
    wrt = (wrt,) if isinstance(wrt, str) else wrt
    arrays = _differentiated(inputs, wrt)
    rng = np.random.default_rng(seed)
    watch = _Watch()

    def run() -> Any:
        lent = _copied(inputs)
        return _copied(watch.call("forward", lambda: call(forward, lent), lent))

    given, upstream = backward_arguments(forward, backward, inputs, run(), rng)
    lent = _copied(given)
    returned = _copied(watch.call("backward", lambda: call(backward, lent), lent))
    if is_list_of_numbers(returned) and any(x.shape for x in arrays.values()):
        returned = (returned,)  # one gradient, and `_compare` says that it is a list
    gradients = name_gradients(inputs, returned, wrt)
    surplus = gradients.pop(SURPLUS, 0)

    def terms() -> list[Any]:
        return [c * out for c, out in zip(upstream, as_tuple(run()), strict=False)]

    def loss() -> float:
        return float(sum(np.sum(term) for term in terms()))

    size = float(sum(np.sum(np.abs(term)) for term in terms()))
    report = _compare(loss, arrays, gradients, rng, step, tolerance, None, size)
    report = _with_float32_errors(report, _float32_gradients(forward, backward, inputs, upstream, wrt), gradients, size)
    if surplus:
        extra = Entry("(surplus)", np.inf, problem=f"{surplus} more gradients were returned than arguments can have")
        report = GradReport((*report.entries, extra), tolerance)
    return watch.added_to(report)


def _differentiated(inputs: dict[str, Any], wrt: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    """The arrays to differentiate by. Raises TypeError for float32, ValueError for a `wrt` that names no such array."""
    floats = {name: x for name, x in inputs.items() if is_float_array(x)}
    for name, x in floats.items():
        if x.dtype != np.float64:
            raise TypeError(f"gradcheck: {name} is {x.dtype}, expected float64")
    names = differentiable(inputs, wrt)
    if wrt is None and not names:
        raise TypeError("gradcheck: no float64 array is among the arguments: there is nothing to differentiate by")
    if not names or len(set(names)) < len(names) or not set(names) <= set(floats):
        expected = f"names of float64 arrays, each once: the forward has {', '.join(floats) or 'none'}"
        raise ValueError(f"gradcheck: wrt is {wrt!r}, expected {expected}")
    return {name: floats[name] for name in names}


def _refuse_settings(step: Any, tolerance: Any, entries: Any = None) -> None:
    for name, x in (("step", step), ("tolerance", tolerance)):
        if isinstance(x, bool) or not isinstance(x, Real) or not SMALLEST <= float(x) <= 1:
            raise ValueError(f"gradcheck: {name} is {x!r}, expected a number from {SMALLEST:.0e} to 1")
    if entries is not None and (isinstance(entries, bool) or not isinstance(entries, Integral) or entries < 0):
        raise ValueError(f"gradcheck: entries is {entries!r}, expected a whole number of at least 0, or None for all")


def _copied(x: Any) -> Any:
    """Arrays in new memory, those in dicts, lists, tuples and dataclasses too; anything else as it is."""
    if isinstance(x, np.ndarray):
        return np.array(x)
    if isinstance(x, tuple):
        parts = [_copied(part) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, dict | list):
        new = copy.copy(x)
        for key in x if isinstance(x, dict) else range(len(x)):
            new[key] = _copied(x[key])
        return new
    if _is_record(x):
        new = copy.copy(x)
        for name, part in _parts(x):
            object.__setattr__(new, name, _copied(part))  # it may be frozen
        return new
    return x


def _is_record(x: Any) -> bool:
    return is_dataclass(x) and not isinstance(x, type)


def _parts(x: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass that have a value."""
    return [(part.name, getattr(x, part.name)) for part in fields(x) if hasattr(x, part.name)]


def _arrays_in(x: Any) -> Iterator[np.ndarray]:
    """The arrays that can be reached from x: in dicts, lists, tuples and dataclasses."""
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, dict | list | tuple):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _arrays_in(part)
    elif _is_record(x):
        for _, part in _parts(x):
            yield from _arrays_in(part)


@dataclass(frozen=True)
class _Watch:
    """Who wrote into which of the arguments that were lent to it, under their names."""

    written: dict[str, list[str]] = field(default_factory=dict)

    def call(self, who: str, function: Callable[[], Any], lent: dict[str, Any]) -> Any:
        """What `function` returns, which `who` computes from `lent`: copies that nobody else reads."""
        before = {name: [(x, x.tobytes()) for x in _arrays_in(part)] for name, part in lent.items()}
        returned = function()
        for name, kept in before.items():
            after = list(_arrays_in(lent[name]))  # other arrays, where one was put in a dict's place
            same = len(after) == len(kept) and all(x is y for (x, _), y in zip(kept, after, strict=True))
            if not same or any(x.tobytes() != was for x, was in kept):
                names = self.written.setdefault(who, [])
                names += [name] * (name not in names)
        return returned

    def added_to(self, report: GradReport) -> GradReport:
        """The report with what was written into, if anything: the layer below, or a second call, may read that."""
        says = "the {} writes into {}, which it was given: expected work on a copy"
        found = [Entry(WRITTEN, np.inf, problem=says.format(who, ", ".join(n))) for who, n in self.written.items()]
        return GradReport((*report.entries, *found), report.tolerance)


def gradcheck_layer(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    p: Any,
    *inputs: np.ndarray,
    key: int | None = None,
    seed: int = 0,
    step: float = 1e-6,
    tolerance: float = 1e-6,
    **options: Any,
) -> GradReport:
    """Compare a layer's backward, gradients of its parameters too, with central differences.

    `forward(p, *inputs, **options) -> y, cache` and `backward(p, dy, cache) -> one gradient an input, grads`.
    With `key`, dropout is on and draws the same mask at every call. What either writes into is reported, as by
    `gradcheck`. Raises TypeError for float32.
    """
    _refuse_settings(step, tolerance)
    _refuse_float32({"p": [leaf for _, leaf in leaves(p)], "inputs": list(inputs)})
    names = [f"input {i}" for i in range(len(inputs))]
    mine = _copied({"p": p, **dict(zip(names, inputs, strict=True)), "options": options})
    watch = _Watch()

    def run() -> tuple[Any, Any, dict[str, Any]]:
        lent = _copied(mine)
        rng = {} if key is None else {"rng": np.random.default_rng(key)}
        xs = [lent[name] for name in names]
        y, cache = watch.call("forward", lambda: forward(lent["p"], *xs, **lent["options"], **rng), lent)
        return _copied(real_output(forward, y)), cache, lent

    y, cache, lent = run()
    rng = np.random.default_rng(seed)
    dy = cotangent(rng, y)
    size = float(np.sum(np.abs(dy * y)))
    lent["dy"] = _copied(dy)  # the rest it may reach by its cache, which is its own
    returned = _copied(watch.call("backward", lambda: backward(lent["p"], lent["dy"], cache), lent))
    if not isinstance(returned, tuple | list):
        expected = f"{len(inputs) + 1} values: a gradient for each input, and those of the parameters"
        raise TypeError(f"gradcheck: {name_of(backward)} returned {type(returned).__name__}, expected {expected}")
    *dxs, grads = returned
    arrays = {name: mine[name] for name in names} | dict(leaves(mine["p"]))
    gradients = {f"input {i}": dx for i, dx in enumerate(dxs)} | dict(leaves(grads))

    def loss() -> float:
        return float(np.sum(dy * run()[0]))

    return watch.added_to(_compare(loss, arrays, gradients, rng, step, tolerance, None, size))


def gradcheck_model(
    model: Any,
    p: Any,
    batch: Any,
    *,
    key: int | None = None,
    seed: int = 0,
    step: float = 1e-6,
    tolerance: float = 1e-6,
    entries: int | None = 12,
) -> GradReport:
    """Compare `model.loss_backward` with central differences of `model.loss`, at `entries` places a parameter.

    Half of the places are where the derived gradient is largest, half are drawn at random, so that an entry
    that should have received a gradient and did not is found too. `entries=None` checks all; with 0 each
    parameter is moved along one random direction, and nothing more. What either writes into p or the batch is
    reported, as by `gradcheck`. Raises TypeError for float32.
    """
    _refuse_settings(step, tolerance, entries)
    _refuse_float32({"p": [leaf for _, leaf in leaves(p)]})
    mine = _copied({"p": p, "batch": batch})
    watch = _Watch()

    def run() -> tuple[float, Any, dict[str, Any]]:
        lent = _copied(mine)
        rng = None if key is None else np.random.default_rng(key)
        value, cache = watch.call("loss", lambda: model.loss(lent["p"], lent["batch"], rng), lent)
        if np.shape(value):
            raise TypeError(f"gradcheck: loss returned an array {np.shape(value)}, expected a number")
        return float(real_output(model.loss, value)), cache, lent

    value, cache, lent = run()
    gradients = tree_map(np.zeros_like, mine["p"])
    add_to(gradients, watch.call("backward", lambda: model.loss_backward(lent["p"], 1.0, cache), lent))
    rng = np.random.default_rng(seed)
    arrays, found = dict(leaves(mine["p"])), dict(leaves(gradients))
    report = _compare(lambda: run()[0], arrays, found, rng, step, tolerance, entries, abs(value))
    return watch.added_to(report)


def _refuse_float32(groups: dict[str, list[Any]]) -> None:
    for name, arrays in groups.items():
        for x in arrays:
            found = getattr(x, "dtype", type(x).__name__)
            if found != np.float64:
                raise TypeError(f"gradcheck: an array of {name} is {found}, expected float64")


def _compare(
    loss: Callable[[], float],
    arrays: dict[str, Any],
    gradients: dict[str, Any],
    rng: np.random.Generator,
    step: float,
    tolerance: float,
    entries: int | None,
    size: float,
) -> GradReport:
    """Compare `gradients` with differences of `loss`, moving `arrays` in place; `size` is the sum of its |terms|.

    Rounding leaves an error of about 1e-16 · size in the loss, and so 1e-16 · size / step in a difference: below
    that nothing can be measured, so the smallest gradient that can be checked is that divided by the tolerance.
    """
    floor = 4e-16 * size / step / tolerance
    found = []
    for name, x in arrays.items():
        g = gradients.get(name)
        problem = _problem(g, x)
        g = np.asarray(g)
        if problem:
            found.append(Entry(name, np.inf, problem=problem))
        elif x.size:
            worst = _worst_entry(loss, x, g, _places(rng, g, entries), step, tolerance, floor)
            adjoint = _adjoint_error(loss, x, g, rng, step, tolerance, floor)
            found.append(replace(worst, name=name, adjoint=adjoint))
    return GradReport(tuple(found), tolerance)


def _problem(g: Any, x: Array) -> str:
    """Why `g` cannot be compared with differences by x; "" where it can."""
    if g is None:
        return "no gradient was returned"
    if not hasattr(g, "dtype") and not isinstance(g, Number):
        return f"a {type(g).__name__} was returned, expected an array {x.shape}"
    if np.shape(g) != x.shape:
        return f"wrong shape: gradient {np.shape(g)}, argument {x.shape}"
    if np.asarray(g).dtype.kind not in "biuf":
        return f"the gradient is {np.asarray(g).dtype}, expected real numbers"
    return "" if np.all(np.isfinite(g)) else "the gradient is not finite"


def _worst_entry(
    loss: Callable[[], float],
    x: Array,
    g: Any,
    places: list[tuple[int, ...]],
    step: float,
    tolerance: float,
    floor: float,
) -> Entry:
    """That of these entries of a gradient which is furthest from its difference."""
    if not places:
        return Entry("", 0.0)
    derived = np.array([g[i] for i in places])
    lines = [_Line(loss, x, _single_entry(x, i), step * max(1.0, abs(x[i]))) for i in places]
    slack = tolerance * (float(np.max(np.abs(derived))) + floor)
    measured = np.array([line.slope(d, slack) for line, d in zip(lines, derived, strict=True)])
    scale = max(np.max(np.abs(measured)), np.max(np.abs(derived))) + floor
    errors = np.abs(derived - measured) / scale if scale else np.zeros(len(places))
    at = int(np.argmax(errors))
    return Entry("", float(errors[at]), places[at], float(derived[at]), float(measured[at]))


def _adjoint_error(
    loss: Callable[[], float],
    x: Array,
    g: Array,
    rng: np.random.Generator,
    step: float,
    tolerance: float,
    floor: float,
) -> float:
    """|<J v, u> - <v, Jᵀ u>| for a random v, relative to the sum of |terms| of the second."""
    v = rng.uniform(0.5, 1, x.shape) * rng.choice([-1, 1], x.shape)
    derived = float(np.sum(g * v))
    scale = float(np.sum(np.abs(g * v))) + floor
    line = _Line(loss, x, v, step * max(1.0, float(np.max(np.abs(x)))))
    return abs(derived - line.slope(derived, tolerance * scale)) / scale if scale else 0.0


def _float32_gradients(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: dict[str, Any],
    upstream: list[Any],
    wrt: tuple[str, ...] | None,
) -> dict[str, Any]:
    """The gradients for float32 inputs and the same cotangents; empty if the functions refuse float32."""
    narrow = {n: x.astype(np.float32) if is_float_array(x) else _copied(x) for n, x in inputs.items()}
    try:
        outputs = _copied(call(forward, _copied(narrow)))
        given, drawn = backward_arguments(forward, backward, narrow, outputs, np.random.default_rng(0))
        names = list(given)[: len(drawn)]
        given |= {n: u.astype(np.float32) if np.shape(u) else u for n, u in zip(names, upstream, strict=True)}
        return name_gradients(narrow, call(backward, given), wrt)
    except (TypeError, ValueError):
        return {}


def _with_float32_errors(
    report: GradReport, float32: dict[str, Any], gradients: dict[str, Any], size: float
) -> GradReport:
    """The report with the float32 backward's error, relative to the largest gradient or to float32's own noise."""
    floor = float(np.finfo(np.float32).eps) * size / FLOAT32_TOLERANCE
    entries = []
    for entry in report.entries:
        narrow: Any = float32.get(entry.name)
        wide: Any = gradients.get(entry.name)
        known = narrow is not None and wide is not None and not entry.problem
        if known and np.shape(narrow) == np.shape(wide) and np.size(wide):
            largest = (float(np.max(np.abs(wide))) + floor) or 1.0
            error = float(np.max(np.abs(np.asarray(narrow, np.float64) - wide))) / largest
            entry = replace(entry, float32_error=error if np.isfinite(error) else np.inf)
        entries.append(entry)
    return GradReport(tuple(entries), report.tolerance)


def _places(rng: np.random.Generator, g: Array, entries: int | None) -> list[tuple[int, ...]]:
    """Indices to check: all, or half of them where g is largest and half at random."""
    if entries is None or g.size <= entries:
        flat = np.arange(g.size)
    else:
        largest = np.argsort(-np.abs(g), axis=None)[: entries // 2]
        flat = np.unique(np.concatenate([largest, rng.choice(g.size, entries - len(largest), replace=False)]))
    return [tuple(int(j) for j in np.unravel_index(i, g.shape)) for i in flat]


def _single_entry(x: Array, index: tuple[int, ...]) -> Array:
    """The direction in which one entry of x grows."""
    direction = np.zeros(x.shape)
    direction[index] = 1
    return direction


@dataclass(frozen=True)
class _Line:
    """The loss along one direction of one array, moved in place."""

    loss: Callable[[], float]
    x: np.ndarray
    direction: np.ndarray
    h: float

    def at(self, t: float) -> float:
        before = self.x.copy()
        np.add(self.x, t * self.direction, out=self.x)
        value = self.loss()
        self.x[...] = before
        return value

    def slope(self, derived: float, slack: float) -> float:
        """By central differences. At a kink, the slope between those of the two sides that is nearest to `derived`."""
        h = self.h
        above, below = self.at(h), self.at(-h)
        measured = (above - below) / (2 * h)
        if abs(derived - measured) <= slack:
            return measured
        here = self.at(0)
        wide = abs((above - here) - (here - below)) / h
        sides = (self.at(h / 4) - here) * 4 / h, (here - self.at(-h / 4)) * 4 / h
        near = abs(sides[0] - sides[1])
        if near > wide / 2 and near > slack:  # the sides do not come together: a kink
            return float(np.clip(derived, min(sides), max(sides)))
        if wide > 8 * near:  # a kink beside the point, within the step
            return (sides[0] + sides[1]) / 2
        return measured
