"""What a device does otherwise than NumPy: each rule of the strict double, to be asked of the double and of CuPy alike.

A rule is a sentence, something to do with an array module `xp` and x = [[0, 1, 2], [3, 4, 5]], and what comes of it:
a list of numbers, "refused", "waits" or "does not wait" (for the device to finish: the cost that matters there), or
"varies" (from run to run: where a device does that, the double refuses).
`tests/test_strict.py` asks the double, `benchmarks/gpu.py` asks CuPy where there is a device.

    python -m tests.rules SENTENCE         asks CuPy that one rule, in a process of its own
"""

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.strict import COUNTS, StrictArray, StrictError
from tinyattn import backend
from tinyattn.data import Interactions, Sampler
from tinyattn.models import SASRecNetwork
from tinyattn.random import Stream, generator
from tinyattn.training import Moments, adam
from tinyattn.tree import flatten, leaves

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
REFUSED = (TypeError, AttributeError, NotImplementedError, ValueError)


class Rule(NamedTuple):
    says: str
    does: Callable[[Any, Any], Any]
    outcome: Any
    alone: bool = False  # what CuPy does ends its process


def _assigned(x: Any, key: Any, value: Any) -> Any:
    x[key] = value
    return x


def _at(xp: Any, ufunc: str, ids: list[int], values: list[float], dtype: str = "float64") -> Any:
    total = xp.zeros(3, dtype=dtype)
    getattr(xp, ufunc).at(total, xp.asarray(ids), xp.asarray(np.array(values, dtype)))
    return total


def _added(xp: Any, ids: list[int], values: list[float]) -> Any:
    return _at(xp, "add", ids, values)


def _each(xp: Any, ufunc: str, dtypes: str) -> list[float]:
    """What 0 becomes where 4 comes to it, in each of the dtypes."""
    return [float(_at(xp, ufunc, [1, 2, 0], [1, 2, 4], dtype)[0]) for dtype in dtypes.split()]


def _sum_of_many(xp: Any) -> Any:
    """Numbers of all sizes, all for one row: rounded to float32, the sum shows in which order they were added."""
    rng, total = np.random.default_rng(0), xp.zeros((1, 8), dtype=xp.float32)
    values = rng.standard_normal((1 << 16, 8)) * 10.0 ** rng.integers(0, 9, (1 << 16, 1))
    xp.add.at(total, xp.zeros(1 << 16, dtype=int), xp.asarray(values.astype(np.float32)))
    return total


def _dtype(x: Any) -> str:
    return str(x.dtype)


def _learned(xp: Any) -> tuple[Any, Any, Any, Any]:
    """A small SASRec with dropout there: network, the vector of its parameters, their tree, a batch."""
    data = Interactions.from_sequences([[0, 1, 2, 3, 1], [2, 0, 5, 3], [4, 1, 0]])
    network = SASRecNetwork(n_items=data.n_items, maxlen=4, dim=4, dropout=0.2)
    vector, p = flatten(network.init(generator(0, Stream.INIT)), np.float32, xp)
    return network, vector, p, Sampler(data, 4, 3, 0, True).batch(0).to(xp)


def _step(xp: Any) -> None:
    network, vector, p, batch = _learned(xp)
    _, cache = network.loss(p, batch, generator(0, Stream.DROPOUT, 0))
    pieces = [g.reshape(-1) for _, g in leaves(network.loss_backward(p, 1.0, cache))]
    adam(vector, xp.concatenate(pieces), Moments(xp.zeros_like(vector), xp.zeros_like(vector)), 1)


def _scores(xp: Any) -> Any:
    network, _, p, batch = _learned(xp)
    return network.score_items(p, network.last_state(p, batch))


RULES = [
    Rule("an id beyond the rows wraps around", lambda xp, x: x[xp.asarray([5, 2])], [[3, 4, 5], [0, 1, 2]]),
    Rule("so does a negative one beyond them", lambda xp, x: x[xp.asarray([-3])], [[3, 4, 5]]),
    Rule("take wraps around", lambda xp, x: xp.take(x, xp.asarray([4, -3]), axis=0), [[0, 1, 2], [3, 4, 5]]),
    Rule("take_along_axis wraps around", lambda xp, x: xp.take_along_axis(x, xp.asarray([[4], [-2]]), -1), [[1], [4]]),
    Rule("add.at adds every occurrence", lambda xp, x: _added(xp, [0, 0, 2], [1, 2, 4]), [3, 0, 4]),
    Rule("add.at wraps around", lambda xp, x: _added(xp, [3, -4], [1, 2]), [1, 0, 2]),
    Rule("add.at adds whole numbers", lambda xp, x: _each(xp, "add", "int32 int64 uint32 uint64"), [4] * 4),
    Rule("add.at adds floats", lambda xp, x: _each(xp, "add", "float16 float32 float64"), [4] * 3),
    Rule("add.at adds no int8", lambda xp, x: _each(xp, "add", "int8"), "refused"),
    Rule("add.at adds no int16", lambda xp, x: _each(xp, "add", "int16"), "refused"),
    Rule("add.at adds no uint8", lambda xp, x: _each(xp, "add", "uint8"), "refused"),
    Rule("add.at adds no bool", lambda xp, x: _each(xp, "add", "bool"), "refused"),
    Rule("float32 sums of rows that share an id vary", lambda xp, x: _sum_of_many(xp), "varies"),
    Rule("subtract.at knows 32 bits", lambda xp, x: _each(xp, "subtract", "int32"), [-4]),
    Rule("subtract.at knows no floats", lambda xp, x: _each(xp, "subtract", "float32"), "refused"),
    Rule("maximum.at keeps the largest", lambda xp, x: _at(xp, "maximum", [0, 0, 2], [1, 4, 2], "float32"), [4, 0, 2]),
    Rule("minimum.at keeps the smallest", lambda xp, x: _at(xp, "minimum", [0, 0, 2], [-1, -4, 2]), [-4, 0, 0]),
    Rule("maximum.at knows no float16", lambda xp, x: _each(xp, "maximum", "float16"), "refused"),
    Rule("bitwise_or.at sets bits", lambda xp, x: _at(xp, "bitwise_or", [0, 0, 2], [1, 4, 2], "int64"), [5, 0, 2]),
    Rule("multiply has no at", lambda xp, x: _each(xp, "multiply", "float64"), "refused"),
    Rule("logical_or has no at", lambda xp, x: _each(xp, "logical_or", "int64"), "refused"),
    Rule("add.reduce adds", lambda xp, x: xp.add.reduce(x, axis=0), [3, 5, 7]),
    Rule("multiply.reduce multiplies", lambda xp, x: xp.multiply.reduce(x, axis=1), [0, 60]),
    Rule("maximum has no reduce", lambda xp, x: xp.maximum.reduce(x, axis=0), "refused"),
    Rule("logical_or has no reduce", lambda xp, x: xp.logical_or.reduce(x > 1, axis=0), "refused"),
    Rule("add.reduce takes no initial=", lambda xp, x: xp.add.reduce(x, axis=0, initial=1.0), "refused"),
    Rule("add.accumulate adds", lambda xp, x: xp.add.accumulate(x, axis=1), [[0, 1, 3], [3, 7, 12]]),
    Rule("maximum has no accumulate", lambda xp, x: xp.maximum.accumulate(x, axis=0), "refused"),
    Rule("multiply has no reduceat", lambda xp, x: xp.multiply.reduceat(x[0], xp.asarray([0, 2])), "refused"),
    Rule("sort is stable", lambda xp, x: xp.sort(x[:, ::-1], kind="stable"), [[0, 1, 2], [3, 4, 5]]),
    Rule("sort takes no other kind", lambda xp, x: xp.sort(x, kind="quicksort"), "refused"),
    Rule("argsort takes no other kind", lambda xp, x: xp.argsort(x, kind="mergesort"), "refused"),
    Rule("argsort of no kind is stable", lambda xp, x: xp.argsort(xp.arange(900) % 2)[:450], list(range(0, 900, 2))),
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
    Rule("a list is no operand", lambda xp, x: x + [1.0, 2.0, 3.0], "refused"),
    Rule("a tuple is no operand", lambda xp, x: (1.0, 2.0, 3.0) * x, "refused"),
    Rule("a list is no argument of a ufunc", lambda xp, x: xp.exp([1.0, 2.0]), "refused"),
    Rule("nor of where", lambda xp, x: xp.where(x > 0, x, [1.0, 2.0, 3.0]), "refused"),
    Rule("a tuple is no argument of a reduction", lambda xp, x: xp.sum((1.0, 2.0)), "refused"),
    Rule("a list cannot be joined to arrays", lambda xp, x: xp.concatenate([x, [[1.0, 2.0, 3.0]]]), "refused"),
    Rule("a list cannot be assigned", lambda xp, x: _assigned(x, 0, [1.0, 2.0, 3.0]), "refused"),
    Rule("shapes and axes can be tuples", lambda xp, x: xp.sum(xp.broadcast_to(x, (2, 2, 3)), axis=(0, 2)), [6, 24]),
    Rule("NumPy makes no copy in silence", lambda xp, x: np.asarray(x), "refused"),
    Rule("Python numbers keep float32", lambda xp, x: _dtype(x * 0.5 + 1), "float32"),
    Rule("also in where", lambda xp, x: _dtype(xp.where(x > 0, x, -xp.inf)), "float32"),
    Rule("also in maximum", lambda xp, x: _dtype(xp.maximum(x, 0)), "float32"),
    Rule("a mean stays float32", lambda xp, x: _dtype(xp.mean(x, axis=-1, keepdims=True)), "float32"),
    Rule("a sum can be kept in float64", lambda xp, x: _dtype(xp.sum(x, dtype=np.float64)), "float64"),
    Rule("hashing overflows in silence", lambda xp, x: (xp.arange(2, dtype=xp.uint64) * (2**64 - 1)) >> 63, [0, 1]),
    Rule("bytes can be seen as numbers", lambda xp, x: xp.asarray(X.view(np.uint8))[1, 4:8].view(np.float32), [4]),
    Rule(
        "numbers that begin between multiples of their size cannot be read",
        lambda xp, x: xp.asarray(X.view(np.uint8).reshape(-1))[1:5].view(np.float32) + 1,
        "refused",
        alone=True,
    ),
    Rule("float() waits", lambda xp, x: float(xp.sum(x)), "waits"),
    Rule("bool() waits", lambda xp, x: bool(xp.any(x > 9)), "waits"),
    Rule("item() waits", lambda xp, x: xp.sum(x).item(), "waits"),
    Rule("get() waits", lambda xp, x: x.get(), "waits"),
    Rule("unique waits", lambda xp, x: xp.unique(x), "waits"),
    Rule("nonzero waits", lambda xp, x: xp.nonzero(x), "waits"),
    Rule("flatnonzero waits", lambda xp, x: xp.flatnonzero(x), "waits"),
    Rule("where of a condition alone waits", lambda xp, x: xp.where(x > 1), "waits"),
    Rule("bincount waits", lambda xp, x: xp.bincount(xp.zeros(3, dtype=int)), "waits"),
    Rule("so it does with a length", lambda xp, x: xp.bincount(xp.zeros(3, dtype=int), minlength=5), "waits"),
    Rule("a matrix product does not", lambda xp, x: x @ x.T, "does not wait"),
    Rule("a batched one does not", lambda xp, x: xp.stack([x, x]) @ xp.stack([x.T, x.T]), "does not wait"),
    Rule("reductions do not", lambda xp, x: xp.max(x, axis=-1) + xp.sum(x, axis=-1), "does not wait"),
    Rule("where does not", lambda xp, x: xp.where(x > 1, x, 0.0), "does not wait"),
    Rule("reading rows does not", lambda xp, x: xp.take(x, xp.zeros(3, dtype=int), axis=0), "does not wait"),
    Rule("add.at does not", lambda xp, x: xp.add.at(x, xp.arange(2), x * 2), "does not wait"),
    Rule("assigning a number does not", lambda xp, x: _assigned(x, (0, 1), xp.sum(x)), "does not wait"),
    Rule("a view does not", lambda xp, x: x.reshape(3, 2).swapaxes(0, 1)[1:].T, "does not wait"),
    Rule("a mask by hash does not", lambda xp, x: xp.arange(9, dtype=xp.uint64).view(xp.uint16) > 3, "does not wait"),
    Rule("sorting does not", lambda xp, x: xp.argsort(x), "does not wait"),
    Rule("a training step does not", lambda xp, x: _step(xp), "does not wait"),
    Rule("scoring does not, before scores are fetched", lambda xp, x: _scores(xp), "does not wait"),
]


def outcome(rule: Rule, xp: Any) -> Any:
    """What comes of the rule in the array module `xp`."""
    if rule.alone and xp.ndarray is not StrictArray:
        return _asked_alone(rule)
    x = xp.asarray(X)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if rule.outcome == "varies":
                return "varies" if _varies(lambda: rule.does(xp, x)) else "the same"
            if rule.outcome in ("waits", "does not wait"):
                rule.does(xp, x.copy())  # compiles, allocates and loads libraries, which may wait once
                return "waits" if _waits(lambda: rule.does(xp, x), xp) else "does not wait"
            found = rule.does(xp, x)
    except REFUSED:
        return "refused"
    return backend.to_numpy(found).tolist() if hasattr(found, "get") else found


def _varies(f: Callable[[], Any]) -> bool:
    try:
        return len({backend.to_numpy(f()).tobytes() for _ in range(30)}) > 1
    except StrictError:
        return True


def _asked_alone(rule: Rule) -> str:
    command = [sys.executable, "-m", "tests.rules", rule.says]
    ran = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    return ran.stdout.strip() or ran.stderr.strip()


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


if __name__ == "__main__":
    import cupy

    asked = next(rule for rule in RULES if rule.says == sys.argv[1])
    try:
        print(asked.does(cupy, cupy.asarray(X)).get().tolist())
    except RuntimeError as error:
        print("refused" if "misaligned" in str(error) else error)
