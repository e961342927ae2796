"""Is this backward the gradient of this forward? Central differences in float64 against random cotangents.

The loss is <cotangent, output> with a random cotangent for every output, so that no gradient can hide behind a
sum. Every entry of every input is moved both ways (or a random choice of entries, for whole models).

Three front doors, one comparison behind them:

    gradcheck(attention, attention_backward, q, k, v, mask)         an op: binds arguments by their names
    gradcheck_layer(forward, backward, p, x)                        (p, x, ...) -> y, cache; (p, dy, cache) -> ...
    gradcheck_model(model, p, batch, key=3)                         loss and loss_backward
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..layers.tree import add_to, leaves, tree_map


@dataclass(frozen=True)
class Entry:
    """The worst entry of one argument's gradient."""

    name: str
    error: float  # |derived - measured| / (the largest of either in this argument + what the differences cannot tell)
    index: tuple[int, ...] = ()
    derived: float = 0.0  # what backward returned there
    measured: float = 0.0  # what central differences say
    problem: str = ""  # said instead of numbers: wrong shape, missing, not finite

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name:24} {self.problem}"
        place = f"[{', '.join(map(str, self.index))}]"
        return f"{self.name:24} {self.error:8.1e}  at {place}: derived {self.derived:.9g}, measured {self.measured:.9g}"


@dataclass(frozen=True)
class GradReport:
    """One `Entry` an argument; true where every error is within `tolerance`."""

    entries: tuple[Entry, ...]
    tolerance: float

    @property
    def worst(self) -> float:
        return max((e.error for e in self.entries), default=0.0)

    def __bool__(self) -> bool:
        return bool(self.entries) and all(e.error <= self.tolerance for e in self.entries)

    def __str__(self) -> str:
        verdict = "gradients agree" if self else "gradients DIFFER"
        lines = [f"{verdict} (tolerance {self.tolerance:.0e})", "argument                 error"]
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
    """Hold an op's backward against central differences of its forward.

    Arguments are float64 arrays (and masks, ids, numbers), bound to `forward`'s names. `backward`'s names say
    what it wants: first `d` + the name of an output, then inputs and outputs of the forward. Where it asks for
    an output by a name that is no input, the forward's further outputs are given in their order. The gradients
    it returns belong, in order, to the arguments named in `wrt`: by default all float arrays but those called
    targets or weights. A gradient that is missing, or one too many, is reported; None, or any gradient, may be
    returned for an argument that was None.

    `step` is relative to max(1, |entry|). Keep inputs ten steps away from kinks (ReLU at 0). Raises TypeError
    for float32 inputs: differences of float32 outputs cannot tell a right gradient from a wrong one.
    """
    inputs = bind(forward, *args, **kwargs)
    floats = {}
    for name, x in inputs.items():
        if _is_float_array(x):
            if x.dtype != np.float64:
                raise TypeError(f"gradcheck: {name} is {x.dtype}, expected float64")
            floats[name] = inputs[name] = np.array(x)  # our own copies: entries are moved in place
    if not floats:
        raise TypeError("gradcheck: no float64 array is among the arguments: there is nothing to differentiate by")
    rng = np.random.default_rng(seed)
    given, upstream = backward_arguments(forward, backward, inputs, rng)
    gradients = name_gradients(inputs, backward(**given), wrt)
    surplus = gradients.pop(SURPLUS, 0)

    def terms() -> list[Any]:
        return [c * out for c, out in zip(upstream, _as_tuple(forward(**inputs)), strict=False)]

    def loss() -> float:
        return float(sum(np.sum(term) for term in terms()))

    size = float(sum(np.sum(np.abs(term)) for term in terms()))
    arrays = {name: floats[name] for name in _differentiable(inputs, wrt)}
    report = _compare(loss, arrays, gradients, rng, step, tolerance, None, size)
    if surplus:
        extra = Entry("(surplus)", np.inf, problem=f"{surplus} more gradients were returned than arguments can have")
        report = GradReport((*report.entries, extra), tolerance)
    return report


def bind(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """All arguments of a call by their names, defaults too."""
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def backward_arguments(
    forward: Callable[..., Any], backward: Callable[..., Any], inputs: dict[str, Any], rng: np.random.Generator
) -> tuple[dict[str, Any], list[Any]]:
    """Run `forward` and give `backward` what its names ask for: -> its arguments, and the cotangents among them.

    Raises TypeError where it asks for what is neither an input nor an output.
    """
    outputs = _as_tuple(forward(**inputs))
    wanted = list(inspect.signature(backward).parameters)
    upstream = []
    while wanted and wanted[0].startswith("d") and wanted[0] not in inputs:
        upstream.append(wanted.pop(0))
    if not upstream:
        raise TypeError(f"gradcheck: {backward.__name__} takes no gradient: its first argument is d + an output's name")
    names = [name.removeprefix("d") for name in upstream]
    names += [name for name in wanted if name not in inputs and name not in names]
    saved = dict(zip(names, outputs, strict=False))
    missing = [name for name in wanted if name not in inputs and name not in saved]
    if missing:
        raise TypeError(f"gradcheck: {backward.__name__} asks for {', '.join(missing)}, which no forward output is")
    cotangents = [_cotangent(rng, out) for out in outputs[: len(upstream)]]
    given = dict(zip(upstream, cotangents, strict=True)) | {n: inputs.get(n, saved.get(n)) for n in wanted}
    return given, cotangents


CONSTANTS = ("targets", "weights")  # float arrays that losses take and nobody differentiates by
SURPLUS = "(surplus)"


def name_gradients(inputs: dict[str, Any], returned: Any, wrt: tuple[str, ...] | None = None) -> dict[str, Any]:
    """What a backward returned, under the names of the arguments it belongs to, in order; see `gradcheck`.

    How many there are beyond what any argument can have stands under SURPLUS.
    """
    names = _differentiable(inputs, wrt)
    found = [g for g in _as_tuple(returned) if g is not None]
    absent = sum(x is None for x in inputs.values())  # such as b, whose gradient may be returned all the same
    beyond = max(len(found) - len(names) - absent, 0)
    return dict(zip(names, found, strict=False)) | ({SURPLUS: beyond} if beyond else {})


def _differentiable(inputs: dict[str, Any], wrt: tuple[str, ...] | None) -> list[str]:
    if wrt is not None:
        return list(wrt)
    return [name for name, x in inputs.items() if _is_float_array(x) and name not in CONSTANTS]


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
    """Hold a layer's backward, gradients of its parameters too, against central differences.

    `forward(p, *inputs, **options) -> y, cache` and `backward(p, dy, cache) -> one gradient an input, grads`.
    With `key`, dropout is on and draws the same mask at every call. Raises TypeError for float32.
    """
    _refuse_single({"p": [leaf for _, leaf in leaves(p)], "inputs": list(inputs)})
    p = tree_map(np.array, p)
    xs = [np.array(x) for x in inputs]

    def run() -> Any:
        rng = {} if key is None else {"rng": np.random.default_rng(key)}
        return forward(p, *xs, **options, **rng)

    y, cache = run()
    rng = np.random.default_rng(seed)
    dy = _cotangent(rng, y)
    *dxs, grads = backward(p, dy, cache)
    arrays = {f"input {i}": x for i, x in enumerate(xs)} | dict(leaves(p))
    gradients = {f"input {i}": dx for i, dx in enumerate(dxs)} | dict(leaves(grads))
    size = float(np.sum(np.abs(dy * y)))
    return _compare(lambda: float(np.sum(dy * run()[0])), arrays, gradients, rng, step, tolerance, None, size)


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
    """Hold `model.loss_backward` against central differences of `model.loss`, at `entries` places a parameter.

    Half of the places are where the derived gradient is largest, half are drawn at random, so that an entry
    that should have received a gradient and did not is found too. `entries=None` checks all. Raises TypeError
    for float32.
    """
    _refuse_single({"p": [leaf for _, leaf in leaves(p)]})
    p = tree_map(np.array, p)

    def run() -> Any:
        return model.loss(p, batch, None if key is None else np.random.default_rng(key))

    value, cache = run()
    gradients = tree_map(np.zeros_like, p)
    add_to(gradients, model.loss_backward(p, 1.0, cache))
    rng = np.random.default_rng(seed)
    arrays = dict(leaves(p))
    found = dict(leaves(gradients))
    return _compare(lambda: float(run()[0]), arrays, found, rng, step, tolerance, entries, abs(float(value)))


def _refuse_single(groups: dict[str, list[Any]]) -> None:
    for name, arrays in groups.items():
        for x in arrays:
            if x.dtype != np.float64:
                raise TypeError(f"gradcheck: an array of {name} is {x.dtype}, expected float64")


def _compare(loss, arrays, gradients, rng, step, tolerance, entries, size) -> GradReport:
    """The one comparison: move entries of `arrays` in place and watch `loss`, whose terms add up to `size`.

    Rounding leaves an error of about 1e-16 · size in the loss, and so 1e-16 · size / step in a difference: below
    that no disagreement can be told, and the smallest gradient that can be judged is that over the tolerance.
    """
    floor = 4e-16 * size / step / tolerance
    found = []
    for name, x in arrays.items():
        g = gradients.get(name)
        if g is None:
            found.append(Entry(name, np.inf, problem="no gradient was returned"))
        elif np.shape(g) != x.shape:
            found.append(Entry(name, np.inf, problem=f"wrong shape: gradient {np.shape(g)}, argument {x.shape}"))
        elif not np.all(np.isfinite(g)):
            found.append(Entry(name, np.inf, problem="the gradient is not finite"))
        elif x.size:
            places = _places(rng, np.asarray(g), entries)
            measured = np.array([_central_difference(loss, x, i, step) for i in places])
            derived = np.array([g[i] for i in places])
            scale = max(np.max(np.abs(measured)), np.max(np.abs(derived))) + floor
            errors = np.abs(derived - measured) / scale if scale else np.zeros(len(places))
            at = int(np.argmax(errors))
            found.append(Entry(name, float(errors[at]), places[at], float(derived[at]), float(measured[at])))
    return GradReport(tuple(found), tolerance)


def _places(rng, g, entries) -> list[tuple[int, ...]]:
    if entries is None or g.size <= entries:
        flat = np.arange(g.size)
    else:
        largest = np.argsort(-np.abs(g), axis=None)[: entries // 2]
        flat = np.unique(np.concatenate([largest, rng.choice(g.size, entries - len(largest), replace=False)]))
    return [tuple(int(j) for j in np.unravel_index(i, g.shape)) for i in flat]


def _central_difference(loss, x, index, step) -> float:
    value = x[index]
    h = step * max(1.0, abs(value))
    x[index] = value + h
    above = loss()
    x[index] = value - h
    below = loss()
    x[index] = value
    return (above - below) / (2 * h)


def _cotangent(rng, out) -> Any:
    """Random, of the output's shape and dtype; a Python float for a scalar loss."""
    return rng.standard_normal(np.shape(out)).astype(out.dtype) if np.shape(out) else float(rng.standard_normal())


def _is_float_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _as_tuple(x: Any) -> tuple:
    return tuple(x) if isinstance(x, tuple | list) else (x,)
