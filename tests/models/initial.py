"""What fresh parameters are drawn from, by their names, and whether numbers could be drawn from it."""

import math

import numpy as np

from tinyattn.tree import leaves

ONES, ZEROS = ("constant", 1.0), ("constant", 0.0)


def glorot(rows, columns):
    return "uniform", math.sqrt(6 / (rows + columns))


def by_rows(rows):
    return "uniform", 1 / math.sqrt(rows)


def normal(deviation, mean=0.0):
    return "normal", mean, deviation


def expected(name, a):
    """What most layers draw parameters of this name from; None for other names."""
    last = name.split(".")[-1]
    if last == "gamma":
        return ONES
    if last in ("beta", "b", "c", "bias"):
        return ZEROS
    if last == "W" and ".".join(name.split(".")[-2:-1]):
        return glorot(*a.shape)
    return None


def could_be(a, what):
    """Are these numbers within 4.5 standard errors of the mean and the deviation of what they are drawn from?"""
    kind, *how = what
    assert a.dtype == np.float64
    if kind == "constant":
        return bool(np.all(a == how[0]))
    n = a.size
    if kind == "uniform":
        (limit,) = how
        mean, deviation, spread = 0.0, limit / math.sqrt(3), 0.8
        if np.max(np.abs(a)) > limit or (n > 100 and np.max(np.abs(a)) < 0.9 * limit):
            return False
    else:
        mean, deviation = how
        spread = 2.0
        if n > 300 and np.max(np.abs(a - mean)) < 2.2 * deviation:                  # of a uniform one it is below 1.8
            return False
    near = abs(a.mean() - mean) < 4.5 * deviation / math.sqrt(n)
    return bool(near and abs(a.std() / deviation - 1) < 4.5 * math.sqrt(spread / (4 * n)) + 1 / n)


def refuse_equal(p):
    """No array is in the tree twice, no two are multiples of each other, and none ends with two equal rows."""
    drawn = [(name, a) for name, a in leaves(p) if a.size > 1 and np.ptp(a) > 0]
    seen = {}
    for name, a in leaves(p):
        assert seen.setdefault(id(a), name) == name
    for i, (name, a) in enumerate(drawn):
        if a.ndim > 1 and len(a) > 2:
            assert not np.array_equal(a[-1], a[-2]), name
        for other, b in drawn[:i]:
            if a.ndim == b.ndim:
                corner = tuple(slice(min(m, n)) for m, n in zip(a.shape, b.shape, strict=True))
                assert a[corner].size < 3 or not same_numbers(a[corner], b[corner]), (name, other)


def same_numbers(a, b):
    """Is one a multiple of the other?"""
    return abs(np.vdot(a, b)) > 0.999999 * np.linalg.norm(a) * np.linalg.norm(b)
