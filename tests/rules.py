"""What a device does otherwise than NumPy: each rule of the strict double, to be asked of the double and of CuPy alike.

A rule is a sentence, something to do with an array module `xp` and x = [[0, 1, 2], [3, 4, 5]], and what comes of it:
a list of numbers, "refused", "waits" or "does not wait" (for the device to finish: the cost that matters there).
`tests/test_strict.py` asks the double, `benchmarks/gpu.py` asks CuPy where there is a device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.strict import COUNTS, StrictArray
from tinyattn import backend

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
REFUSED = (TypeError, AttributeError, NotImplementedError, ValueError)


class Rule(NamedTuple):
    says: str
    does: Callable[[Any, Any], Any]
    outcome: Any


def _assigned(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def _added(xp: Any, ids: list[int], values: list[float]) -> Any:
    total = xp.zeros(3, dtype=xp.float32)
    xp.add.at(total, xp.asarray(ids), xp.asarray(np.array(values, np.float32)))
    return total


def _dtype(x: Any) -> str:
    return str(x.dtype)


RULES = [
    Rule("an id beyond the rows wraps around", lambda xp, x: x[xp.asarray([5, 2])], [[3, 4, 5], [0, 1, 2]]),
    Rule("so does a negative one beyond them", lambda xp, x: x[xp.asarray([-3])], [[3, 4, 5]]),
    Rule("take wraps around", lambda xp, x: xp.take(x, xp.asarray([4, -3]), axis=0), [[0, 1, 2], [3, 4, 5]]),
    Rule("take_along_axis wraps around", lambda xp, x: xp.take_along_axis(x, xp.asarray([[4], [-2]]), -1), [[1], [4]]),
    Rule("add.at adds every occurrence", lambda xp, x: _added(xp, [0, 0, 2], [1, 2, 4]), [3, 0, 4]),
    Rule("add.at wraps around", lambda xp, x: _added(xp, [3, -4], [1, 2]), [1, 0, 2]),
    Rule("sum takes no where=", lambda xp, x: xp.sum(x, where=x > 0), "refused"),
    Rule("exp takes no where=", lambda xp, x: xp.exp(x, where=x > 0), "refused"),
    Rule("max takes no initial=", lambda xp, x: xp.max(x, initial=0), "refused"),
    Rule("argsort takes no stable=", lambda xp, x: xp.argsort(x, stable=True), "refused"),
    Rule("take takes no mode=", lambda xp, x: xp.take(x, xp.asarray([0]), axis=0, mode="clip"), "refused"),
    Rule("var takes no mean=", lambda xp, x: xp.var(x, mean=1.0), "refused"),
    Rule("einsum takes no out=", lambda xp, x: xp.einsum("ij->i", x, out=x[:, 0]), "refused"),
    Rule("there is no errstate", lambda xp, x: xp.errstate(), "refused"),
    Rule("there is no vecdot", lambda xp, x: xp.vecdot(x, x), "refused"),
    Rule("a host array is no operand", lambda xp, x: x + X, "refused"),
    Rule("a host array is no argument", lambda xp, x: xp.concatenate([x, X]), "refused"),
    Rule("a host array cannot be assigned", lambda xp, x: _assigned(x, slice(0, 1), X[:1]), "refused"),
    Rule("NumPy makes no copy in silence", lambda xp, x: np.asarray(x), "refused"),
    Rule("Python numbers keep float32", lambda xp, x: _dtype(x * 0.5 + 1), "float32"),
    Rule("also in where", lambda xp, x: _dtype(xp.where(x > 0, x, -xp.inf)), "float32"),
    Rule("also in maximum", lambda xp, x: _dtype(xp.maximum(x, 0)), "float32"),
    Rule("a mean stays float32", lambda xp, x: _dtype(xp.mean(x, axis=-1, keepdims=True)), "float32"),
    Rule("a sum can be kept in float64", lambda xp, x: _dtype(xp.sum(x, dtype=np.float64)), "float64"),
    Rule("hashing overflows in silence", lambda xp, x: (xp.arange(2, dtype=xp.uint64) * (2**64 - 1)) >> 63, [0, 1]),
    Rule("bytes can be seen as numbers", lambda xp, x: xp.asarray(X.view(np.uint8))[1, 4:8].view(np.float32), [4]),
    Rule("float() waits", lambda xp, x: float(xp.sum(x)), "waits"),
    Rule("bool() waits", lambda xp, x: bool(xp.any(x > 9)), "waits"),
    Rule("item() waits", lambda xp, x: xp.sum(x).item(), "waits"),
    Rule("get() waits", lambda xp, x: x.get(), "waits"),
    Rule("unique waits", lambda xp, x: xp.unique(x), "waits"),
    Rule("nonzero waits", lambda xp, x: xp.nonzero(x), "waits"),
    Rule("flatnonzero waits", lambda xp, x: xp.flatnonzero(x), "waits"),
    Rule("a matrix product does not", lambda xp, x: x @ x.T, "does not wait"),
    Rule("a batched one does not", lambda xp, x: xp.stack([x, x]) @ xp.stack([x.T, x.T]), "does not wait"),
    Rule("reductions do not", lambda xp, x: xp.max(x, axis=-1) + xp.sum(x, axis=-1), "does not wait"),
    Rule("where does not", lambda xp, x: xp.where(x > 1, x, 0.0), "does not wait"),
    Rule("reading rows does not", lambda xp, x: xp.take(x, xp.zeros(3, dtype=int), axis=0), "does not wait"),
    Rule("add.at does not", lambda xp, x: xp.add.at(x, xp.zeros(3, dtype=int), x[:1]), "does not wait"),
    Rule("assigning a number does not", lambda xp, x: _assigned(x, (0, 1), xp.sum(x)), "does not wait"),
    Rule("a view does not", lambda xp, x: x.reshape(3, 2).swapaxes(0, 1)[1:].T, "does not wait"),
    Rule("a mask by hash does not", lambda xp, x: xp.arange(9, dtype=xp.uint64).view(xp.uint16) > 3, "does not wait"),
]


def outcome(rule: Rule, xp: Any) -> Any:
    """What comes of the rule in the array module `xp`."""
    x = xp.asarray(X)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if rule.outcome in ("waits", "does not wait"):
                rule.does(xp, x.copy())  # compiles, allocates and loads libraries, which may wait once
                return "waits" if _waits(lambda: rule.does(xp, x), xp) else "does not wait"
            found = rule.does(xp, x)
    except REFUSED:
        return "refused"
    return backend.to_numpy(found).tolist() if hasattr(found, "get") else found


def _waits(f: Callable[[], Any], xp: Any) -> bool:
    if xp.ndarray is StrictArray:
        before = COUNTS["synchronisations"]
        f()
        return COUNTS["synchronisations"] > before
    import cupyx

    try:
        with cupyx.allow_synchronize(False):
            f()
    except cupyx.DeviceSynchronized:
        return True
    return False
