"""Count the operations between an input and an output, by running a layer's code on arrays of distances.

    with distances(nearest=True):
        x = beginning((1, n, d), at=(0, 0))            # distances are measured from the first token
        y, _ = mixer.forward(constant(p), x, mask=Mask(causal=True))
    np.min(y[0, -1].view(np.ndarray))                  # from the first token to the last output

An entry of a `Distance` is the number of operations between it and a starting entry, whose distance is 0. An operation
is a call of NumPy. Its result has the distance of the nearest entry that it reads, plus one; with `nearest=False`, that
of the farthest, plus one. An entry of a product of matrices reads a whole row and a whole column, a sum reads all its
terms, and any other operation reads one entry of each array. Moving and reshaping are not operations. An entry that
depends on no starting entry, such as a parameter or a zero, has distance inf, or -inf with `nearest=False`. The arrays
hold distances instead of values, so code that branches on a value cannot run. If the condition of `where` is computed
from distances, the result depends on the condition and on both choices.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.counting import makers
from tinyattn.tree import tree_map

MOVE = ("broadcast_to", "concatenate", "copy", "expand_dims", "moveaxis", "repeat", "reshape", "split", "squeeze",
        "stack", "swapaxes", "transpose")  # fmt: skip
_PICK: list[tuple[np.ufunc, float]] = []  # minimum or maximum, and the distance of a constant


class Distance(np.ndarray):
    """An array of distances. A single entry is a 0-d `Distance`: a plain number would count as a constant."""

    def __getitem__(self, key: Any) -> Any:
        return np.asanyarray(self.view(np.ndarray)[key]).view(Distance)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.view(np.ndarray)[key] = _far(value)

    def __bool__(self) -> bool:
        raise NotImplementedError("the code asks for a number, and there are distances only")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **how: Any) -> Any:
        pick, none = _PICK[-1]
        if ufunc.nout != 1:
            raise NotImplementedError(f"{ufunc.__name__} is not counted")
        arrays = [_far(x) for x in inputs]
        if method == "reduce":
            found = pick.reduce(arrays[0], axis=how.get("axis", 0), keepdims=how.get("keepdims", False), initial=none)
        elif method != "__call__":
            raise NotImplementedError(f"{ufunc.__name__}.{method} is not counted")
        elif ufunc is np.matmul:
            found = _product(*arrays)
        else:
            found = functools.reduce(pick, arrays)
        if out is None:
            return np.asanyarray(found + 1).view(Distance)
        out[0].view(np.ndarray)[...] = found + 1
        return out[0]

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, how: Any) -> Any:
        name, (pick, _) = function.__name__, _PICK[-1]
        if name == "copyto":
            inputs[0][...] = inputs[1]
            return None
        if name == "where":
            condition, *choices = inputs
            if isinstance(condition, Distance):
                return functools.reduce(pick, map(_far, inputs)).view(Distance) + 1
            return np.where(condition, *map(_far, choices)).view(Distance)
        if name == "einsum":
            return _einsum(*inputs).view(Distance)
        if name in ("zeros_like", "empty_like", "ones_like", "full_like"):
            return source(how.get("shape") or inputs[0].shape)
        if name not in MOVE and name not in ("sum", "max", "amax", "min", "amin"):
            raise NotImplementedError(f"{name} is not counted")
        found = super().__array_function__(function, kinds, inputs, how)
        return [x.view(Distance) for x in found] if isinstance(found, list) else found.view(Distance)


def _far(x: Any) -> np.ndarray:
    """The distances of an operand; numbers and masks count as constants."""
    if isinstance(x, Distance):
        return x.view(np.ndarray)
    if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind == "f":
        raise TypeError("an array of numbers among distances: was it made before the block began?")
    return _full(np.shape(x), _PICK[-1][1])


_full = np.full  # the original: `distances` replaces np.full


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest (or largest) distance over each row and column that are multiplied."""
    pick, none = _PICK[-1]
    rows = pick.reduce(a, axis=-1, keepdims=a.ndim > 1, initial=none)
    columns = pick.reduce(b, axis=-2 if b.ndim > 1 else -1, keepdims=b.ndim > 1 and a.ndim > 1, initial=none)
    if b.ndim == 1 and a.ndim > 1:
        rows = rows[..., 0]
    return pick(rows, columns)


def _einsum(subscripts: str, *arrays: Any) -> np.ndarray:
    """The smallest (or largest) distance over all entries that are multiplied and added, plus one."""
    pick, none = _PICK[-1]
    given, made = subscripts.split("->")
    letters = made + "".join(sorted(set(given) - set(made) - {","}))
    spread = []
    for own, x in zip(given.split(","), arrays, strict=True):
        axes = sorted(range(len(own)), key=lambda i: letters.index(own[i]))
        shape = iter(_far(x).transpose(axes).shape)
        spread.append(_far(x).transpose(axes).reshape([next(shape) if a in own else 1 for a in letters]))
    return pick.reduce(functools.reduce(pick, spread), axis=tuple(range(len(made), len(letters))), initial=none) + 1


@contextmanager
def distances(nearest: bool) -> Iterator[None]:
    """A block in which new float arrays are `Distance`, with the distance of a constant."""

    def make(f: Any) -> Any:
        @functools.wraps(f)
        def made(*args: Any, **how: Any) -> Any:
            result = f(*args, **how)
            if isinstance(result, Distance) or result.dtype.kind != "f":
                return result
            return result.view(Distance) if any(isinstance(x, Distance) for x in args) else source(result.shape)

        return made

    _PICK.append((np.minimum, np.inf) if nearest else (np.maximum, -np.inf))
    try:
        with makers(make):
            yield
    finally:
        _PICK.pop()


def source(shape: tuple[int, ...]) -> Distance:
    """Entries that depend on no starting entry."""
    return _full(shape, _PICK[-1][1]).view(Distance)


def beginning(shape: tuple[int, ...], at: Any = ...) -> Distance:
    """Entries that depend on nothing, but for the starting entries `at`, whose distance is 0."""
    x = source(shape)
    x.view(np.ndarray)[at] = 0
    return x


def constant(p: Any) -> Any:
    """A tree of parameters, as entries that depend on no starting entry."""
    return tree_map(lambda w: source(w.shape), p)
