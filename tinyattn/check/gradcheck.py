"""Gradient checks: central differences in float64 against random cotangents.

The loss is <u, output> with a random cotangent u for every output; in a plain sum of outputs, errors could cancel.
Every entry of every input is moved up and down, but only some entries of a whole model's parameters. The adjoint test
<J v, u> = <v, Jᵀ u> then moves each input as a whole along one random direction v; J is the Jacobian.

Three functions share one comparison:

    gradcheck(attention, attention_backward, q, k, v, mask)         an op: binds arguments by their names
    gradcheck_layer(forward, backward, p, x)                        (p, x, ...) -> y, cache; (p, dy, cache) -> ...
    gradcheck_model(model, p, batch, key=3)                         loss and loss_backward
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..tree import add_to, leaves, tree_map
from . import binding
from .binding import Function, call, is_float_array, name_of
from .differences import SMALLEST, WRITTEN, Differences, Entry, GradReport


def gradcheck(
    forward: Function, backward: Function, *args: Any, seed: int = 0, step: float = 1e-6, tolerance: float = 1e-6,
    wrt: tuple[str, ...] | None = None, **kwargs: Any,
) -> GradReport:  # fmt: skip
    """Compare an op's backward with central differences of its forward.

    Arguments are float64 arrays (and masks, ids, numbers), bound to `forward`'s names. `backward`'s first parameters
    are upstream gradients, `d` + an output's name (`upstream_names`); the rest are inputs and outputs of the forward.
    A parameter with an unknown name takes the forward's next output. The returned gradients belong, in order, to the
    arguments named in `wrt`: by default all float arrays except targets and weights. A missing gradient, or one too
    many, is reported; for an argument that was None, None or any gradient may be returned.

    `step` is relative to max(1, |entry|). At a kink (ReLU at 0) any slope between the left and the right one agrees.
    Float32 arguments raise TypeError, since their differences are too coarse; the backward's result on float32 copies
    is compared with its float64 result instead. Writing into an argument is reported, and changes no other result.

    Raises TypeError for a forward whose arguments have no names or whose output is no array of real numbers, and
    ValueError for a step or tolerance outside of 1e-12 to 1 and for a `wrt` that names no float64 array.
    """
    _refuse_settings(step, tolerance)
    inputs = _copied(binding.bind(forward, *args, **kwargs))  # entries are moved in place
    for name in binding.unnamed(forward):
        if inputs.pop(name):
            raise TypeError(f"gradcheck: {name_of(forward)} takes *{name}, expected arguments that have names")
    wrt = (wrt,) if isinstance(wrt, str) else wrt
    arrays = _arrays_to_check(inputs, wrt)
    rng = np.random.default_rng(seed)
    watch = _Watch()

    def run() -> Any:
        copies = _copied(inputs)
        return _copied(watch.call("forward", lambda: call(forward, copies), copies))

    arguments, upstream = binding.backward_arguments(forward, backward, inputs, run(), rng)
    copies = _copied(arguments)
    returned = _copied(watch.call("backward", lambda: call(backward, copies), copies))
    if binding.is_list_of_numbers(returned) and any(x.shape for x in arrays.values()):
        returned = (returned,)  # one gradient as a list: it is reported as no array
    gradients = binding.name_gradients(inputs, returned, wrt)
    surplus = gradients.pop(binding.SURPLUS, 0)

    def terms() -> list[Any]:
        return [c * out for c, out in zip(upstream, binding.as_tuple(run()), strict=False)]

    size = float(sum(np.sum(np.abs(term)) for term in terms()))
    differences = Differences(lambda: float(sum(map(np.sum, terms()))), rng, step, tolerance, size)
    float32 = _float32_gradients(forward, backward, inputs, upstream, wrt)
    report = differences.compare(arrays, gradients, float32)
    if surplus:
        extra = Entry("(surplus)", np.inf, problem=f"{surplus} more gradients were returned than arguments can have")
        report = GradReport((*report.entries, extra), tolerance)
    return watch.added_to(report)


def _arrays_to_check(inputs: dict[str, Any], wrt: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    """The arrays to differentiate by. Raises TypeError for float32, ValueError for a `wrt` with a wrong name."""
    floats = {name: x for name, x in inputs.items() if is_float_array(x)}
    for name, x in floats.items():
        if x.dtype != np.float64:
            raise TypeError(f"gradcheck: {name} is {x.dtype}, expected float64")
    names = binding.differentiable(inputs, wrt)
    if wrt is None and not names:
        raise TypeError("gradcheck: no float64 array is among the arguments, expected one to differentiate by")
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
    """x with its arrays copied, also those in dicts, lists, tuples and dataclasses; anything else is shared."""
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
    if values := _fields(x):
        new = copy.copy(x)
        for name, part in values.items():
            object.__setattr__(new, name, _copied(part))  # the dataclass may be frozen
        return new
    return x


def _fields(x: Any) -> dict[str, Any]:
    """The fields of a dataclass that have a value; none of anything else."""
    if not is_dataclass(x) or isinstance(x, type):
        return {}
    return {part.name: getattr(x, part.name) for part in fields(x) if hasattr(x, part.name)}


def _arrays_in(x: Any) -> Iterator[np.ndarray]:
    """The arrays of x, also in dicts, lists, tuples and dataclasses."""
    if isinstance(x, np.ndarray):
        yield x
        return
    parts = x if isinstance(x, list | tuple) else x.values() if isinstance(x, dict) else _fields(x).values()
    for part in parts:
        yield from _arrays_in(part)


@dataclass(frozen=True)
class _Watch:
    """The names of the arguments that each function wrote into."""

    written: dict[str, list[str]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)

    def call(self, who: str, function: Callable[[], Any], copies: dict[str, Any]) -> Any:
        """The result of `function()`. Records under `who` which of its arguments, `copies`, the first call writes into.

        Later calls, one or two for each entry, are not watched, since their copies are not read again.
        """
        if who in self.called:
            return function()
        self.called.add(who)
        before = {name: [(x, x.tobytes()) for x in _arrays_in(part)] for name, part in copies.items()}
        returned = function()
        for name, kept in before.items():
            after = list(_arrays_in(copies[name]))  # different arrays, if one was replaced in a list or dict
            same = len(after) == len(kept) and all(x is y for (x, _), y in zip(kept, after, strict=True))
            if not same or any(x.tobytes() != was for x, was in kept):
                names = self.written.setdefault(who, [])
                names += [name] * (name not in names)
        return returned

    def added_to(self, report: GradReport) -> GradReport:
        """The report, with an entry for each function that wrote into its arguments."""
        message = "the {} writes into its argument {}: expected work on a copy"
        entries = [Entry(WRITTEN, np.inf, problem=message.format(who, ", ".join(n))) for who, n in self.written.items()]
        return GradReport((*report.entries, *entries), report.tolerance)


def gradcheck_layer(
    forward: Function, backward: Function, p: Any, *inputs: np.ndarray, key: int | None = None, seed: int = 0,
    step: float = 1e-6, tolerance: float = 1e-6, entries: int | None = None, **options: Any,
) -> GradReport:  # fmt: skip
    """Compare a layer's backward, including gradients of its parameters, with central differences.

    `forward(p, *inputs, **options) -> y, cache` and `backward(p, dy, cache) -> one gradient per input, grads`.
    With `key`, dropout is on and draws the same mask at every call. `entries` is as in `gradcheck_model`; by default
    all places are compared. Writing into an argument is reported, as by `gradcheck`. Raises TypeError for float32.
    """
    _refuse_settings(step, tolerance, entries)
    _refuse_float32("p", [leaf for _, leaf in leaves(p)])
    _refuse_float32("inputs", inputs)
    names = [f"input {i}" for i in range(len(inputs))]
    point = _copied({"p": p, **dict(zip(names, inputs, strict=True)), "options": options})
    watch = _Watch()

    def run() -> tuple[Any, Any, dict[str, Any]]:
        copies = _copied(point)
        rng = {} if key is None else {"rng": np.random.default_rng(key)}
        xs = [copies[name] for name in names]
        y, cache = watch.call("forward", lambda: forward(copies["p"], *xs, **copies["options"], **rng), copies)
        return _copied(binding.real_output(forward, y)), cache, copies

    y, cache, copies = run()
    rng = np.random.default_rng(seed)
    dy = binding.cotangent(rng, y)
    size = float(np.sum(np.abs(dy * y)))
    copies["dy"] = _copied(dy)  # dy is watched, too; the cache refers to the forward's copies
    returned = _copied(watch.call("backward", lambda: backward(copies["p"], copies["dy"], cache), copies))
    if not isinstance(returned, tuple | list):
        expected = f"{len(inputs) + 1} values: a gradient for each input, and those of the parameters"
        raise TypeError(f"gradcheck: {name_of(backward)} returned {type(returned).__name__}, expected {expected}")
    *dxs, grads = returned
    arrays = {name: point[name] for name in names} | dict(leaves(point["p"]))
    gradients = {f"input {i}": dx for i, dx in enumerate(dxs)} | dict(leaves(grads))
    differences = Differences(lambda: float(np.sum(dy * run()[0])), rng, step, tolerance, size, entries)
    return watch.added_to(differences.compare(arrays, gradients))


def gradcheck_model(
    model: Any, p: Any, batch: Any, *, key: int | None = None, seed: int = 0, step: float = 1e-6,
    tolerance: float = 1e-6, entries: int | None = 12,
) -> GradReport:  # fmt: skip
    """Compare `model.loss_backward` with central differences of `model.loss`, at `entries` places of each parameter.

    Half of the places are where the derived gradient is largest; half are drawn at random, to find missing
    gradients. `entries=None` checks all entries; 0 only moves each parameter along one random direction. Writing into p
    or the batch is reported, as by `gradcheck`. Raises TypeError for float32.
    """
    _refuse_settings(step, tolerance, entries)
    _refuse_float32("p", [leaf for _, leaf in leaves(p)])
    point = _copied({"p": p, "batch": batch})
    watch = _Watch()

    def run() -> tuple[float, Any, dict[str, Any]]:
        copies = _copied(point)
        rng = None if key is None else np.random.default_rng(key)
        value, cache = watch.call("loss", lambda: model.loss(copies["p"], copies["batch"], rng), copies)
        if np.shape(value):
            raise TypeError(f"gradcheck: loss returned an array {np.shape(value)}, expected a number")
        return float(binding.real_output(model.loss, value)), cache, copies

    value, cache, copies = run()
    gradients = tree_map(np.zeros_like, point["p"])
    add_to(gradients, watch.call("backward", lambda: model.loss_backward(copies["p"], 1.0, cache), copies))
    rng = np.random.default_rng(seed)
    differences = Differences(lambda: run()[0], rng, step, tolerance, abs(value), entries)
    return watch.added_to(differences.compare(dict(leaves(point["p"])), dict(leaves(gradients))))


def _refuse_float32(name: str, arrays: Iterable[Any]) -> None:
    for x in arrays:
        dtype = getattr(x, "dtype", type(x).__name__)
        if dtype != np.float64:
            raise TypeError(f"gradcheck: an array of {name} is {dtype}, expected float64")


def _float32_gradients(
    forward: Function, backward: Function, inputs: dict[str, Any], upstream: list[Any], wrt: tuple[str, ...] | None
) -> dict[str, Any]:
    """The gradients of float32 copies with the same cotangents; empty if the functions refuse float32."""
    narrowed = {n: x.astype(np.float32) if is_float_array(x) else _copied(x) for n, x in inputs.items()}
    try:
        outputs = _copied(call(forward, _copied(narrowed)))
        arguments, drawn = binding.backward_arguments(forward, backward, narrowed, outputs, np.random.default_rng(0))
        names = list(arguments)[: len(drawn)]
        arguments |= {n: u.astype(np.float32) if np.shape(u) else u for n, u in zip(names, upstream, strict=True)}
        return _copied(binding.name_gradients(narrowed, call(backward, arguments), wrt))
    except (TypeError, ValueError):
        return {}
