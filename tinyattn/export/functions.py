"""NumPy's functions as operators of ONNX: a new one is a line in FUNCTIONS.

An entry takes NumPy's result `host`, for its shape and dtype, then the function's arguments, whose arrays are graph
values or constants. It returns the result's graph value.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .values import Content, NoGraphError, Value, apply, cast, expand, get, reshape

COMPARING = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}


def _apply_like(host: np.ndarray, operator: str, *inputs: Any, **attributes: Any) -> Content:
    """Add an operator whose result has the shape and the dtype of `host`."""
    return apply(operator, *inputs, shape=host.shape, dtype=host.dtype, **attributes)


def _as_content(x: Any) -> Content:
    return x if isinstance(x, Value) else np.asarray(x)


def _elementwise(operator: str, host: np.ndarray, *xs: Any) -> Content:
    """Arguments, Python's numbers too, are cast to the result's dtype; in a comparison, to its arrays' dtype."""
    arrays = [x for x in xs if not isinstance(x, bool | int | float)]
    dtype = np.result_type(*(x.dtype for x in arrays)) if operator in COMPARING else host.dtype
    return _apply_like(host, operator, *(cast(_as_content(x), dtype) for x in xs))


def _logical(operator: str, host: np.ndarray, *xs: Any) -> Content:
    return _apply_like(host, operator, *(cast(x, np.dtype(bool)) for x in xs))


def _where(host: np.ndarray, condition: Content, x: Any, y: Any) -> Content:
    return _apply_like(host, "Where", condition, *(cast(_as_content(v), host.dtype) for v in (x, y)))


def _reduced(operator: str, host: np.ndarray, x: Value, axis: Any = None, keepdims: bool = False) -> Content:
    axes = range(len(x.shape)) if axis is None else np.atleast_1d(axis)
    axes = np.array([int(a) % len(x.shape) for a in axes])
    return _apply_like(host, operator, cast(x, host.dtype), axes, keepdims=int(keepdims))


def _take_along_axis(host: np.ndarray, x: Content, indices: Content, axis: int) -> Content:
    indices = expand(indices, host.shape)
    shape = (*host.shape[:axis], x.shape[axis], *host.shape[axis:][1:])
    return _apply_like(host, "GatherElements", expand(x, shape), indices, axis=axis)


def _repeat(host: np.ndarray, x: Value, repeats: int, axis: int) -> Content:
    if x.shape[axis] != 1:
        raise NoGraphError("repeats an axis of more than one entry")
    return expand(x, host.shape)


def _log1p(host: np.ndarray, x: Content) -> Content:
    return _elementwise("Log", host, _elementwise("Add", host, x, 1.0))


def _logaddexp(host: np.ndarray, x: Any, y: Any) -> Content:
    below = _elementwise("Neg", host, _elementwise("Abs", host, _elementwise("Sub", host, x, y)))
    return _elementwise("Add", host, _elementwise("Max", host, x, y), _log1p(host, _elementwise("Exp", host, below)))


FUNCTIONS: dict[str, Callable[..., Content]] = {
    **{
        name: partial(_elementwise, operator)
        for name, operator in {
            "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "mod": "Mod",
            "maximum": "Max", "minimum": "Min", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "tanh": "Tanh",
            "sin": "Sin", "abs": "Abs", "sign": "Sign", "floor": "Floor", "negative": "Neg",
            "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual",
            "equal": "Equal", "matmul": "MatMul", "floor_divide": "Div",
        }.items()
    },
    # ONNX Runtime below 1.24 has no cosine in float64
    "cos": lambda host, x: _elementwise("Sin", host, _elementwise("Add", host, x, math.pi / 2)),
    "expm1": lambda host, x: _elementwise("Sub", host, _elementwise("Exp", host, x), 1.0),
    "log1p": _log1p,
    "logaddexp": _logaddexp,
    "logical_and": partial(_logical, "And"),
    "logical_or": partial(_logical, "Or"),
    "logical_not": partial(_logical, "Not"),
    "not_equal": lambda host, x, y: _apply_like(host, "Not", _elementwise("Equal", host, x, y)),
    "where": _where,
    "sum": partial(_reduced, "ReduceSum"),
    "max": partial(_reduced, "ReduceMax"),
    "min": partial(_reduced, "ReduceMin"),
    "mean": partial(_reduced, "ReduceMean"),
    "clip": lambda host, x, low, high: _elementwise("Min", host, _elementwise("Max", host, x, low), high),
    "cumsum": lambda host, x, axis: _apply_like(host, "CumSum", x, np.array(axis)),
    "einsum": lambda host, equation, *xs: _apply_like(host, "Einsum", *xs, equation=equation),
    "take": lambda host, x, indices, axis=0: _apply_like(host, "Gather", x, indices, axis=axis % len(x.shape)),
    "take_along_axis": _take_along_axis,
    "repeat": _repeat,
    "concatenate": lambda host, xs, axis=0: _apply_like(
        host, "Concat", *(cast(x, host.dtype) for x in xs), axis=axis % host.ndim
    ),
    "broadcast_to": lambda host, x, shape: expand(x, host.shape),
    "ascontiguousarray": lambda host, x: x,
    "expand_dims": lambda host, x, axis: reshape(x, host.shape),
    "tril": lambda host, x, k=0: _apply_like(host, "Trilu", x, np.array(k), upper=0),
    "flip": lambda host, x, axis: get(x, (..., slice(None, None, -1)) + (slice(None),) * (-axis - 1)),
}  # fmt: skip
