"""Checks of shapes, and the few small operations that ops share."""

import math
import sys
from functools import cache, lru_cache
from typing import Any

from ..backend import Array, get_xp, is_numpy


def expect(spec: str, **arrays: Array) -> None:
    """Check shapes and dtypes of arguments in one line; None is skipped.

    `spec` has one word per argument, in order. A letter is an axis, and the same letter is the same size
    everywhere; a leading `...` is any number of leading axes, the same ones everywhere. A word that starts
    with `#` is for integer ids; the others must be all float32 or all float64.

        expect("...nd ...md ...me", q=q, k=k, v=v)

    Raises ValueError for a shape, TypeError for a dtype and for arrays of two modules (NumPy's and CuPy's) in one
    call, naming the calling function and the argument.
    """
    try:
        signature = (spec, *[None if x is None else (x.shape, x.dtype.char, x.__class__) for x in arrays.values()])
    except AttributeError:
        signature = None                                # not an array: `_check` raises
    if signature not in _KNOWN_TO_FIT:
        _check(spec, arrays)
        if len(_KNOWN_TO_FIT) > 10_000:
            _KNOWN_TO_FIT.clear()
        _KNOWN_TO_FIT.add(signature)


_KNOWN_TO_FIT: set[Any] = set()      # a training step makes hundreds of checks, mostly of the same shapes


def _check(spec: str, arrays: dict[str, Array]) -> None:
    lead: tuple[int, ...] | None = None
    sizes: dict[str, int] = {}
    floating = None
    for (integers, has_lead, axes), (name, x) in zip(_parse(spec), arrays.items(), strict=True):
        if x is None:
            continue
        shape = getattr(x, "shape", None)
        if shape is None:
            raise TypeError(f"{_caller()}: {name} is a {type(x).__name__}, expected an array")
        split = len(shape) - len(axes)
        if split < 0 or (split > 0 and not has_lead):
            raise ValueError(_mismatch(name, shape, has_lead, axes, lead, sizes))
        if has_lead and lead is None:
            lead = shape[:split]
        own = list(zip(axes, shape[split:], strict=True))
        wanted = dict(reversed(own)) | sizes                # of each letter, the first size
        if (has_lead and shape[:split] != lead) or any(wanted[a] != size for a, size in own):
            raise ValueError(_mismatch(name, shape, has_lead, axes, lead, sizes))
        sizes = wanted
        if integers:
            if x.dtype.kind not in "iu":
                raise TypeError(f"{_caller()}: {name} has dtype {x.dtype}, expected integers")
        elif x.dtype.char not in "fd":
            raise TypeError(f"{_caller()}: {name} has dtype {x.dtype}, expected float32 or float64")
        elif floating is None:
            floating = x.dtype
        elif x.dtype != floating:
            raise TypeError(f"{_caller()}: {name} is {x.dtype} where the others are {floating}")
    _expect_one_module(*arrays.values())


def _expect_one_module(*arrays: Array) -> None:
    try:
        get_xp(*arrays)
    except TypeError as error:
        raise TypeError(f"{_caller()}: {error}") from None


def expect_onto(shape: tuple[int, ...], dtype: Any, like: Array | None = None, **arrays: Array | None) -> None:
    """Check that each argument broadcasts to `shape` without enlarging it, and has this dtype; None is skipped.

    With an array `like`, also check that each belongs to the same module.
    """
    for name, x in arrays.items():
        if x is None:
            continue
        if not hasattr(x, "dtype"):
            raise TypeError(f"{_caller()}: {name} is a {type(x).__name__}, expected an array")
        if x.dtype != dtype:
            expected = "bool (True = may look, or kept)" if dtype is bool else dtype
            raise TypeError(f"{_caller()}: {name} has dtype {x.dtype}, expected {expected}")
        if like is not None and x.__class__ is not like.__class__:
            _expect_one_module(like, x)
        if x.shape == shape:
            continue
        tail = shape[len(shape) - len(x.shape) :]
        if len(x.shape) > len(shape) or any(a not in (1, b) for a, b in zip(x.shape, tail, strict=True)):
            raise ValueError(f"{_caller()}: {name} has shape {x.shape}, expected one that broadcasts to {shape}")


def expect_given(**arrays: Array | None) -> None:
    """Raise TypeError for an argument that is None, as the other checks skip None."""
    for name, x in arrays.items():
        if x is None:
            raise TypeError(f"{_caller()}: {name} is None, expected an array")


def expect_mask(shape: tuple[int, ...], mask: Any, like: Array | None = None) -> None:
    """Check that a `Mask` fits the pairs (..., B, h, n, m): its array broadcasts to them, and it has B lengths."""
    expect_onto(shape, bool, like=like, mask=mask.allowed)
    if mask.lengths is not None and mask.lengths.shape != shape[-4:-3]:
        raise ValueError(
            f"{_caller()}: the mask's lengths have shape {mask.lengths.shape}, expected (B,), one a sequence; the "
            f"pairs (..., B, h, n, m) have shape {shape}"
        )


def expect_not_negative(**arrays: Array) -> None:
    """Raise ValueError if an entry of these spreads is below 0; the error names the argument and its smallest entry.

    0, the spread of a point, is allowed. Arrays on a device are not checked, as that would wait for it.
    """
    for name, x in arrays.items():
        xp = get_xp(x)
        if is_numpy(xp) and xp.any(x < 0):
            raise ValueError(f"{_caller()}: {name} has an entry of {xp.min(x):.6g}, expected a spread, at least 0")


def transpose_last(x: Array) -> Array:
    """The transpose of the last two axes: (..., n, d) -> (..., d, n). A view."""
    return x.swapaxes(-1, -2)


def with_ones(x: Array) -> Array:
    """[x, 1], each row with a 1 at its end: (..., d) -> (..., d + 1)."""
    xp = get_xp(x)
    return xp.concatenate([x, xp.ones((*x.shape[:-1], 1), dtype=x.dtype)], axis=-1)


def rows(x: Array) -> Array:
    """All leading axes as one: (..., d) -> (N, d). A view where the memory allows."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def row_sum(x: Array, weights: Array | None = None) -> Array:
    """Sums over the last axis, weighted by (d,): (..., d) -> (..., 1).

    On the host it is x @ ones, which BLAS does faster than `sum`.
    """
    xp = get_xp(x, weights)
    if weights is None:
        if not is_numpy(xp):
            return xp.sum(x, axis=-1, keepdims=True)
        weights = _ones(xp, x.shape[-1], x.dtype)
    return (rows(x) @ weights).reshape(*x.shape[:-1], 1)


def column_sum(x: Array) -> Array:
    """Sums over all axes but the last: (..., d) -> (d,). On the host it is ones @ x, which is faster than `sum`."""
    x, xp = rows(x), get_xp(x)
    return _ones(xp, x.shape[0], x.dtype) @ x if is_numpy(xp) else xp.sum(x, axis=0)


@lru_cache(256)
def _ones(xp: Any, size: int, dtype: Any) -> Array:
    return xp.ones(size, dtype=dtype)                   # never written into


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: sum `g` over every axis along which an array of `shape` was repeated.

    An entry that was used many times receives the sum of its gradients.
    """
    added = len(g.shape) - len(shape)
    repeated = tuple(i + added for i, size in enumerate(shape) if size == 1 != g.shape[i + added])
    axes = tuple(range(added)) + repeated
    return (get_xp(g).sum(g, axis=axes) if axes else g).reshape(shape)


@cache
def _parse(spec: str) -> tuple[tuple[bool, bool, str], ...]:
    words = []
    for word in spec.split():
        integers, word = word.startswith("#"), word.removeprefix("#")
        words.append((integers, word.startswith("..."), word.removeprefix("...")))
    return tuple(words)


def _caller() -> str:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return frame.f_code.co_name


def _mismatch(
    name: str, shape: tuple[int, ...], has_lead: bool, axes: str, lead: tuple[int, ...] | None, sizes: dict[str, int]
) -> str:
    expected = ", ".join((["..."] if has_lead else []) + list(axes))
    known = [f"{axis} = {sizes[axis]}" for axis in axes if axis in sizes]
    if has_lead and lead is not None:
        known.insert(0, f"... = {lead}")
    given = f" with {', '.join(known)}" if known else ""
    return f"{_caller()}: {name} has shape {tuple(shape)}, expected ({expected}){given}"
