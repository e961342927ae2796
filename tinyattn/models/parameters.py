"""Parameters and other arrays as the named arrays of a file, and back."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from .. import backend
from ..files import Arrays
from ..tree import leaves, tree_map, views

PREFIX = "parameters."


def named(p: Any) -> dict[str, np.ndarray]:
    """The leaves on the host, by dotted name."""
    return {f"{PREFIX}{name}": backend.to_numpy(leaf) for name, leaf in leaves(p)}


def restored(network: Any, arrays: Arrays | Iterable[tuple[str, np.ndarray]], device: str) -> Any:
    """The tree of these arrays, on `device`: the inverse of `named`. The arrays may come one at a time.

    Raises ValueError for a missing, misshapen or extra array; for an extra one in a file, before any array is read.
    """
    p = room(network, device, arrays.nbytes if isinstance(arrays, Arrays) else None)
    wanted = {f"{PREFIX}{name}": leaf for name, leaf in leaves(p)}
    if isinstance(arrays, Arrays):
        _refuse_unknown(arrays, wanted)
    for name, array in arrays.items() if isinstance(arrays, Arrays) else arrays:
        _refuse_unknown([name], wanted)
        leaf = wanted.pop(name)
        if array.shape != leaf.shape or array.dtype != np.float32:
            raise ValueError(f"{name} is {array.shape} {array.dtype}, expected {leaf.shape} float32")
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} has NaN or infinite numbers, expected finite ones")
        leaf[...] = backend.asarray(array, like=leaf)
    if wanted:
        raise ValueError(f"{min(wanted)} is missing")
    return p


def _refuse_unknown(names: Iterable[str], wanted: Collection[str]) -> None:
    if unknown := [name for name in names if name not in wanted]:
        raise ValueError(f"{min(unknown)} is not a parameter of this configuration")


def room(network: Any, device: str, most: int | None = None) -> Any:
    """A tree like the network's parameters, not filled. Raises ValueError if it takes more than `most` bytes."""
    fresh = network.init(_Shapes(most))
    shaped = tree_map(lambda leaf: np.broadcast_to(np.float32(0), leaf.shape), fresh)
    del fresh
    size = sum(leaf.size for _, leaf in leaves(shaped))
    return views(backend.module_for(device).empty(size, dtype=np.float32), shaped)


class _Shapes:
    """A stand-in for a generator, for `init` to give shapes: it draws ones, and raises beyond twice `most` bytes.

    Twice, because a network may draw another array of a table's size before the table.
    """

    def __init__(self, most: int | None) -> None:
        self._left = None if most is None else 2 * most

    def standard_normal(self, size: Any) -> np.ndarray:
        if self._left is not None:
            self._left -= 4 * math.prod(np.atleast_1d(size).tolist())
            if self._left < 0:
                raise ValueError("its options need more parameters than it has")
        return np.ones(size)

    def uniform(self, low: float, high: float, size: Any) -> np.ndarray:
        return self.standard_normal(size)


def checked(
    arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int | None, ...], dtype: Any, most: int | None = None
) -> np.ndarray:
    """The array `name` of a file: of this shape (None is any length) and dtype, finite, and between 0 and `most`.

    Raises KeyError if it is missing, else ValueError.
    """
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != dtype or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} is {array.shape} {array.dtype}, expected {shape} finite {np.dtype(dtype)}")
    if most is not None and array.size and not 0 <= np.min(array) <= np.max(array) <= most:
        raise ValueError(f"{name} has numbers from {np.min(array)} to {np.max(array)}, expected 0 to {most}")
    return array


def checked_cuts(arrays: Mapping[str, np.ndarray], name: str, count: int, length: int) -> np.ndarray:
    """The array `name` (count + 1,): the starts of `count` adjacent pieces of 0:length, and length. As `checked`."""
    cuts = checked(arrays, name, (count + 1,), np.int64, length)
    if cuts[0] != 0 or cuts[-1] != length or np.any(cuts[1:] < cuts[:-1]):
        raise ValueError(f"{name} does not cut 0 to {length} into {count} pieces")
    return cuts
