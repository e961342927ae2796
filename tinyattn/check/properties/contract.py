"""What is demanded of every op alike: inputs keep their bits, results their dtype, equal calls give equal results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..gradcheck import backward_arguments, gradcheck, name_gradients
from .property import close, rounding, same_bits, states

OPS = (
    "linear",
    "relu",
    "gelu",
    "softmax",
    "layer_norm",
    "dropout",
    "embedding",
    "attention",
    "cross_entropy",
    "bce_with_logits",
)


def _outputs(result: Any) -> tuple:
    return result if type(result) is tuple else (result,)


def _both_ways(ops: Any, op: str, case: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The forward's outputs and the backward's gradients by name, for a cotangent that depends on shapes alone."""
    forward, backward = getattr(ops, op), getattr(ops, f"{op}_backward")
    given, _ = backward_arguments(forward, backward, case, np.random.default_rng(0))
    return _outputs(forward(**case)), name_gradients(case, backward(**given))


def _arrays(case: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: x for name, x in case.items() if isinstance(x, np.ndarray)}


def _rearranged(x: np.ndarray, how: str) -> np.ndarray:
    """The same entries in other memory: Fortran order, every other place of a larger array, or read-only."""
    if how == "fortran":
        return np.asfortranarray(x)
    if how == "strided":
        wide = np.zeros((*x.shape, 2), x.dtype)
        wide[..., 0] = x
        return wide[..., 0]
    x = x.copy()
    x.flags.writeable = False
    return x


def _demand_of(op: str) -> None:
    @states(op, "exact", f"{op} and its backward leave every bit of their inputs as it was")
    def inputs_keep_their_bits(ops: Any, **case: Any) -> None:
        before = {name: x.copy() for name, x in _arrays(case).items()}
        forward, backward = getattr(ops, op), getattr(ops, f"{op}_backward")
        given, _ = backward_arguments(forward, backward, case, np.random.default_rng(0))
        kept = {name: x.copy() for name, x in _arrays(given).items()}
        backward(**given)
        for name, x in before.items():
            same_bits(case[name], x, name)
        for name, x in kept.items():
            same_bits(given[name], x, f"the {name} that the backward was given")

    @states(
        op, "exact", f"equal calls of {op} give equal results, backward too, and earlier results survive later calls"
    )
    def repeatable(ops: Any, **case: Any) -> None:
        first, gradients = _both_ways(ops, op, case)
        copies = [np.array(x) for x in first], {name: np.array(g) for name, g in gradients.items()}
        again, again_gradients = _both_ways(ops, op, case)
        for held in ((first, gradients), (again, again_gradients)):
            for x, copy in zip(held[0], copies[0], strict=True):
                same_bits(x, copy, "output")
            for name, g in held[1].items():
                same_bits(g, copies[1][name], f"d{name}")

    @states(op, "exact", f"outputs and gradients of {op} have the inputs' dtype, gradients the inputs' shapes")
    def dtype_and_shape(ops: Any, **case: Any) -> None:
        dtype = next(x.dtype for x in _arrays(case).values() if x.dtype.kind == "f")
        outputs, gradients = _both_ways(ops, op, case)
        for x in outputs:
            assert x.dtype == dtype, f"an output is {x.dtype}, the inputs are {dtype}"
        for name, g in gradients.items():
            assert g.dtype == dtype, f"d{name} is {g.dtype}, the inputs are {dtype}"
            assert g.shape == case[name].shape, f"d{name} has shape {g.shape}, {name} has {case[name].shape}"

    @states(op, "rounding", f"{op} does not care how its inputs lie in memory: Fortran order, strides, read-only")
    def memory_layout(ops: Any, **case: Any) -> None:
        outputs, gradients = _both_ways(ops, op, case)
        for how in ("fortran", "strided", "read-only"):
            other = {name: _rearranged(x, how) if isinstance(x, np.ndarray) else x for name, x in case.items()}
            others, other_gradients = _both_ways(ops, op, other)
            for x, y in zip(outputs, others, strict=True):
                close(y, x, rounding(x.dtype, x.size, np.max(np.abs(x), initial=1.0)), f"{how} output")
            for name, g in gradients.items():
                atol = 10 * rounding(g.dtype, g.size, np.max(np.abs(g), initial=1.0))
                close(other_gradients[name], g, atol, f"{how} d{name}")

    @states(op, "rounding", f"the backward of {op} is the gradient of its forward, by central differences in float64")
    def gradient(ops: Any, **case: Any) -> None:
        wide = {name: _widened(x) for name, x in case.items()}
        report = gradcheck(getattr(ops, op), getattr(ops, f"{op}_backward"), **wide)
        assert report, f"\n{report}"

    @states(op, "rounding", f"in float32 {op} and its backward compute what they compute in float64")
    def single_precision(ops: Any, **case: Any) -> None:
        narrow = {name: x.astype(np.float32) if _is_float(x) else x for name, x in case.items()}
        outputs, gradients = _both_ways(ops, op, narrow)
        wide_outputs, wide_gradients = _both_ways(ops, op, {name: _widened(x) for name, x in narrow.items()})
        for x, y in zip(outputs, wide_outputs, strict=True):
            close(x, y, 30 * rounding(np.float32, x.size, np.max(np.abs(y), initial=1.0)), "float32 output")
        for name, g in gradients.items():
            exact = wide_gradients[name]
            close(g, exact, 100 * rounding(np.float32, g.size, np.max(np.abs(exact), initial=1.0)), f"float32 d{name}")

    @states(op, "rounding", f"the backward of {op} is linear in the gradients it is given")
    def linear_in_upstream(ops: Any, **case: Any) -> None:
        forward, backward = getattr(ops, op), getattr(ops, f"{op}_backward")
        given, _ = backward_arguments(forward, backward, case, np.random.default_rng(0))
        other, _ = backward_arguments(forward, backward, case, np.random.default_rng(1))
        upstream = [name for name in given if name.startswith("d") and name not in case]
        mixed = given | {name: 2 * given[name] - 3 * other[name] for name in upstream}
        first, second, both = (name_gradients(case, backward(**g)) for g in (given, other, mixed))
        for name, g in both.items():
            scale = 3 * max(np.max(np.abs(first[name]), initial=1.0), np.max(np.abs(second[name]), initial=1.0))
            close(g, 2 * first[name] - 3 * second[name], 10 * rounding(g.dtype, g.size, scale), f"d{name}")


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _widened(x: Any) -> Any:
    return x.astype(np.float64) if _is_float(x) else x


for _op in OPS:
    _demand_of(_op)
