"""The distinct integers of a large array, and unsigned integers as signed ones."""

import numpy as np


def signed(values: np.ndarray, what: str) -> np.ndarray:
    """Unsigned integers as int64, other arrays unchanged. Raises ValueError, naming `what`, where one does not fit."""
    if values.dtype.kind != "u":
        return values
    if len(values) and np.max(values) > np.iinfo(np.int64).max:
        raise ValueError(f"{what} {np.max(values)} is not below 2^63")
    return values.astype(np.int64)


def distinct(keys: np.ndarray) -> np.ndarray:
    """The distinct integers among `keys` (n,), sorted. np.unique hashes them, at 20 times the cost for a million."""
    keys = np.sort(keys)
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys[first]


def distinct_integers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-> the distinct integers, sorted, and each entry's index into them: np.unique, by counting if possible."""
    least, most = (int(np.min(values)), int(np.max(values))) if len(values) else (0, 0)
    if not len(values) or values.dtype.kind != "i" or most - least > 2 * len(values) + 1024:
        return np.unique(values, return_inverse=True)
    above = values.astype(np.int64, copy=False) - least                  # small integers would overflow
    there = np.zeros(most - least + 1, dtype=bool)
    there[above] = True
    place = np.cumsum(there, dtype=np.int32) - np.int32(1)
    return (np.flatnonzero(there) + least).astype(values.dtype), place[above]


def ranges(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """All the numbers of begin[0]:end[0], begin[1]:end[1], ..., one after the other."""
    length = end - begin
    return np.repeat(end - np.cumsum(length), length) + np.arange(int(np.sum(length)))
