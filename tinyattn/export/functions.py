"""NumPy's functions as operators of ONNX: a new one is a line in FUNCTIONS.

An entry is given what NumPy made of the numbers, which has the shape and the dtype of the result, then the function's
arguments, whose arrays are values of the graph or constants. It returns a value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .values import Content, NoGraphError, Value, apply, cast, expand, get, reshape

COMPARING = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}


def _elementwise(operator: str, host: np.ndarray, *xs: Any) -> Content:
    """Of arrays, and of Python's numbers, which take the dtype of the arrays."""
    arrays = [x for x in xs if not isinstance(x, bool | int | float)]
    wanted = np.result_type(*(x.dtype for x in arrays)) if operator in COMPARING else host.dtype
    given = (cast(np.asarray(x) if not isinstance(x, Value) else x, wanted) for x in xs)
    return apply(operator, *given, shape=host.shape, dtype=host.dtype)


def _logical(operator: str, host: np.ndarray, *xs: Any) -> Content:
    given = (cast(x, np.dtype(bool)) for x in xs)
    return apply(operator, *given, shape=host.shape, dtype=bool)


def _not_equal(host: np.ndarray, x: Any, y: Any) -> Content:
    return apply("Not", _elementwise("Equal", host, x, y), shape=host.shape, dtype=bool)


def _where(host: np.ndarray, condition: Content, x: Any, y: Any) -> Content:
    given = (cast(v if isinstance(v, Value) else np.asarray(v), host.dtype) for v in (x, y))
    return apply("Where", condition, *given, shape=host.shape, dtype=host.dtype)


def _reduced(operator: str, host: np.ndarray, x: Value, axis: Any = None, keepdims: bool = False) -> Content:
    axes = range(len(x.shape)) if axis is None else np.atleast_1d(axis)
    axes = np.array([int(a) % len(x.shape) for a in axes])
    return apply(operator, cast(x, host.dtype), axes, shape=host.shape, dtype=host.dtype, keepdims=int(keepdims))


def _concatenated(host: np.ndarray, xs: Any, axis: int = 0) -> Content:
    given = (cast(x, host.dtype) for x in xs)
    return apply("Concat", *given, shape=host.shape, dtype=host.dtype, axis=axis % host.ndim)


def _take(host: np.ndarray, x: Content, indices: Content, axis: int = 0) -> Content:
    return apply("Gather", x, indices, shape=host.shape, dtype=host.dtype, axis=axis % len(x.shape))


def _take_along_axis(host: np.ndarray, x: Content, indices: Content, axis: int) -> Content:
    indices = expand(indices, host.shape)
    kept = (*host.shape[:axis], x.shape[axis], *host.shape[axis:][1:])
    return apply("GatherElements", expand(x, kept), indices, shape=host.shape, dtype=host.dtype, axis=axis)


def _repeat(host: np.ndarray, x: Value, repeats: int, axis: int) -> Content:
    if x.shape[axis] != 1:
        raise NoGraphError("repeats rows of more than one")
    return expand(x, host.shape)


def _clip(host: np.ndarray, x: Value, low: Any, high: Any) -> Content:
    return _elementwise("Min", host, _elementwise("Max", host, x, low), high)


def _cumsum(host: np.ndarray, x: Value, axis: int) -> Content:
    return apply("CumSum", x, np.array(axis), shape=host.shape, dtype=host.dtype)


def _expm1(host: np.ndarray, x: Value) -> Content:
    return _elementwise("Sub", host, _elementwise("Exp", host, x), 1.0)


def _log1p(host: np.ndarray, x: Content) -> Content:
    return _elementwise("Log", host, _elementwise("Add", host, x, 1.0))


def _logaddexp(host: np.ndarray, x: Any, y: Any) -> Content:
    far = _elementwise("Neg", host, _elementwise("Abs", host, _elementwise("Sub", host, x, y)))
    return _elementwise("Add", host, _elementwise("Max", host, x, y), _log1p(host, _elementwise("Exp", host, far)))


def _einsum(host: np.ndarray, equation: str, *xs: Any) -> Content:
    return apply("Einsum", *xs, shape=host.shape, dtype=host.dtype, equation=equation)


FUNCTIONS: dict[str, Callable[..., Content]] = {
    **{
        name: partial(_elementwise, operator)
        for name, operator in {
            "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "mod": "Mod",
            "maximum": "Max", "minimum": "Min", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
            "sin": "Sin", "cos": "Cos", "abs": "Abs", "sign": "Sign", "floor": "Floor", "negative": "Neg",
            "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
            "equal": "Equal", "matmul": "MatMul", "floor_divide": "Div",
        }.items()
    },
    "expm1": _expm1,
    "log1p": _log1p,
    "logaddexp": _logaddexp,
    "logical_and": partial(_logical, "And"),
    "logical_or": partial(_logical, "Or"),
    "logical_not": partial(_logical, "Not"),
    "not_equal": _not_equal,
    "where": _where,
    "sum": partial(_reduced, "ReduceSum"),
    "max": partial(_reduced, "ReduceMax"),
    "min": partial(_reduced, "ReduceMin"),
    "mean": partial(_reduced, "ReduceMean"),
    "clip": _clip,
    "cumsum": _cumsum,
    "einsum": _einsum,
    "take": _take,
    "take_along_axis": _take_along_axis,
    "repeat": _repeat,
    "concatenate": _concatenated,
    "broadcast_to": lambda host, x, shape: expand(x, host.shape),
    "ascontiguousarray": lambda host, x: x,
    "expand_dims": lambda host, x, axis: reshape(x, host.shape),
    "tril": lambda host, x: apply("Trilu", x, shape=host.shape, dtype=host.dtype, upper=0),
    "flip": lambda host, x, axis: get(x, (..., slice(None, None, -1)) + (slice(None),) * (-axis - 1)),
}  # fmt: skip
