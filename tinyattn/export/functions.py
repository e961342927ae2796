"""NumPy's functions as operators of ONNX: a new one is a line in FUNCTIONS.

An entry takes NumPy's result `result`, for its shape and dtype, then the function's arguments, whose arrays are graph
values or constants. It returns the graph value of the result.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .values import Content, NoGraphError, Value, apply, cast, expand, get, reshape

COMPARING = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}


def _apply_like(result: np.ndarray, operator: str, *inputs: Any, **attributes: Any) -> Content:
    """Add an operator whose result has the shape and the dtype of `result`."""
    return apply(operator, *inputs, shape=result.shape, dtype=result.dtype, **attributes)


def _as_content(x: Any) -> Content:
    return x if isinstance(x, Value) else np.asarray(x)


def _elementwise(operator: str, result: np.ndarray, *xs: Any) -> Content:
    """Arguments, Python's numbers too, are cast to the result's dtype; in a comparison, to its arrays' dtype."""
    arrays = [x for x in xs if not isinstance(x, bool | int | float)]
    dtype = np.result_type(*(x.dtype for x in arrays)) if operator in COMPARING else result.dtype
    return _apply_like(result, operator, *(cast(_as_content(x), dtype) for x in xs))


def _logical(operator: str, result: np.ndarray, *xs: Any) -> Content:
    return _apply_like(result, operator, *(cast(x, np.dtype(bool)) for x in xs))


def _where(result: np.ndarray, condition: Content, x: Any, y: Any) -> Content:
    return _apply_like(result, "Where", condition, *(cast(_as_content(v), result.dtype) for v in (x, y)))


def _reduced(operator: str, result: np.ndarray, x: Value, axis: Any = None, keepdims: bool = False) -> Content:
    axes = range(len(x.shape)) if axis is None else np.atleast_1d(axis)
    axes = np.array([int(a) % len(x.shape) for a in axes])
    return _apply_like(result, operator, cast(x, result.dtype), axes, keepdims=int(keepdims))


def _take_along_axis(result: np.ndarray, x: Content, indices: Content, axis: int) -> Content:
    indices = expand(indices, result.shape)
    shape = (*result.shape[:axis], x.shape[axis], *result.shape[axis:][1:])
    return _apply_like(result, "GatherElements", expand(x, shape), indices, axis=axis)


def _repeat(result: np.ndarray, x: Value, repeats: int, axis: int) -> Content:
    if x.shape[axis] != 1:
        raise NoGraphError("repeats an axis of more than one entry")
    return expand(x, result.shape)


def _log1p(result: np.ndarray, x: Content) -> Content:
    return _elementwise("Log", result, _elementwise("Add", result, x, 1.0))


def _logaddexp(result: np.ndarray, x: Any, y: Any) -> Content:
    below = _elementwise("Neg", result, _elementwise("Abs", result, _elementwise("Sub", result, x, y)))
    largest = _elementwise("Max", result, x, y)
    return _elementwise("Add", result, largest, _log1p(result, _elementwise("Exp", result, below)))


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
    "cos": lambda result, x: _elementwise("Sin", result, _elementwise("Add", result, x, math.pi / 2)),
    "expm1": lambda result, x: _elementwise("Sub", result, _elementwise("Exp", result, x), 1.0),
    "log1p": _log1p,
    "logaddexp": _logaddexp,
    "logical_and": partial(_logical, "And"),
    "logical_or": partial(_logical, "Or"),
    "logical_not": partial(_logical, "Not"),
    "not_equal": lambda result, x, y: _apply_like(result, "Not", _elementwise("Equal", result, x, y)),
    "where": _where,
    "sum": partial(_reduced, "ReduceSum"),
    "max": partial(_reduced, "ReduceMax"),
    "min": partial(_reduced, "ReduceMin"),
    "mean": partial(_reduced, "ReduceMean"),
    "clip": lambda result, x, low, high: _elementwise("Min", result, _elementwise("Max", result, x, low), high),
    "cumsum": lambda result, x, axis: _apply_like(result, "CumSum", x, np.array(axis)),
    "einsum": lambda result, equation, *xs: _apply_like(result, "Einsum", *xs, equation=equation),
    "take": lambda result, x, indices, axis=0: _apply_like(result, "Gather", x, indices, axis=axis % len(x.shape)),
    "take_along_axis": _take_along_axis,
    "repeat": _repeat,
    "concatenate": lambda result, xs, axis=0: _apply_like(
        result, "Concat", *(cast(x, result.dtype) for x in xs), axis=axis % result.ndim
    ),
    "broadcast_to": lambda result, x, shape: expand(x, result.shape),
    "ascontiguousarray": lambda result, x: x,
    "expand_dims": lambda result, x, axis: reshape(x, result.shape),
    "tril": lambda result, x, k=0: _apply_like(result, "Trilu", x, np.array(k), upper=0),
    "flip": lambda result, x, axis: get(x, (..., slice(None, None, -1)) + (slice(None),) * (-axis - 1)),
}  # fmt: skip
