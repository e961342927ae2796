"""One kernel where the readable form makes many calls of a device: the same numbers, read and written once.

The kernels (kernels_device.py) are Python, which numba-cuda compiles for a GPU (extra `kernels`), or interprets on a
CPU where NUMBA_ENABLE_CUDASIM=1. What only a card can show is listed in benchmarks/gpu_steps.py.
"""

import math
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, device_name, get_xp, is_numpy
from ..layers.dense import DenseCache, dense_backward
from ..layers.norm import NormCache
from ..ops import linear
from ..ops.shapes import rows
from ..random import MaskKeys, _threshold
from ..training.adam import Moments
from ..tree import leaves
from .kernels_device import GELU, LEAVES, RELU, TANH, kernels, load

PROVEN: tuple[str, ...] = ()       # the GPUs for which benchmarks/gpu_steps.py found equal numbers
THREADS = 128                      # of a block
PARTS = 512                        # partial sums of a column
ACTIVATIONS = {"relu": RELU, "gelu": GELU, "gelu-tanh": TANH}


def adam(
    vector: Array, gradient: Array, moments: Moments, step: int | tuple[Array, Array], *, lr: Any = 1e-3,
    beta1: float = 0.9, beta2: float = 0.98, eps: float = 1e-8,
) -> Any:  # fmt: skip
    """`adam` of float32 vectors on a device, with the step's corrections there: 1 call and not 13."""
    if not (isinstance(step, tuple) and vector.dtype == np.float32 and _is_proven(get_xp(vector))):
        return NotImplemented
    numbers = map(np.float32, (beta1, 1 - beta1, beta2, 1 - beta2, eps))
    flat("adam", vector, vector.size, gradient, *step, *numbers, *moments, vector)


def add_to(total: Any, grads: Any) -> Any:
    """`add_to` of whole trees: a call for LEAVES arrays."""
    if not (PROVEN and isinstance(grads, dict)):
        return NotImplemented
    into, those = dict(leaves(total)), dict(leaves(grads))
    if not (all(type(x) is type(into[name]) for name, x in those.items()) and suits(*those.values())):
        return NotImplemented
    pairs = [(x.reshape(-1), into[name].reshape(-1)) for name, x in those.items()]
    if any(x.strides != (x.itemsize,) for pair in pairs for x in pair):        # a tuple's arrays are of one type
        return NotImplemented
    for some in (pairs[i : i + LEAVES] for i in range(0, len(pairs), LEAVES)):
        blocks = min(-(-max(x.size for x, _ in some) // THREADS), 1024)
        launch("add", some[0][0], (blocks, len(some)), THREADS, *zip(*some, strict=True))


def dropout_mask(x: Array, shape: tuple[int, ...], rate: float, rng: Any) -> Any:
    """`dropout_mask` on a device where its key lies there: its memory and 1 call, and not 15 or 21."""
    if not (has_keys(rng) and rate and 1 < len(shape) <= 4 and _is_proven(get_xp(x))):
        return NotImplemented
    lead, last, *places = _numbered(shape)
    keep = get_xp(x).empty((lead, last), dtype=bool)
    flat("keep", x, lead * -(-last // 4), next(rng.rng), rng.rows, *places, np.uint64(_threshold(rate)), keep)
    return keep.reshape(shape)


class HashedMask(NamedTuple):
    """A dropout mask that is computed where it is used, forward and backward."""
    key: Array
    rows: Array
    rate: float

    def drop(self, branch: Array, x: Array | None = None) -> Array:
        """The dropped branch, added to x, if any."""
        lead, last, *places = _numbered(branch.shape)
        branch = branch if branch.flags.c_contiguous else branch.copy()                        # in a backward
        out, branch = get_xp(branch).empty(branch.shape, dtype=branch.dtype), branch.reshape(lead, last)
        numbers = np.uint64(_threshold(self.rate)), branch.dtype.type(1 / (1 - self.rate))
        there = branch if x is None else x.reshape(lead, last), x is not None, branch, self.key, self.rows
        flat("drop", branch, lead * -(-last // 4), *there, *places, *numbers, out.reshape(lead, last))
        return out


def add_dropped(x: Array | None, branch: Array, rate: float, rng: Any) -> Any:
    """`add_dropped` on a device where the mask's key lies there: no mask is written."""
    shapes = 1 < branch.ndim <= 4 and (x is None or x.shape == branch.shape)
    if not (has_keys(rng) and rate and shapes and in_one_piece(branch, *(() if x is None else (x,)))):
        return NotImplemented
    mask = HashedMask(next(rng.rng), rng.rows, rate)
    return mask.drop(branch, x), mask


def plain_dense_backward(p: Any, dy: Array, cache: DenseCache) -> Any:
    """`dense_backward` of a map without bias: no sum that nobody reads."""
    if "b" in p or not suits(dy, cache.x):
        return NotImplemented
    d = rows(dy)
    return (d @ p["W"].T).reshape(cache.x.shape), {"W": rows(cache.x).T @ d}


def norm(p: Any, x: Array, *, eps: float = 1e-5) -> Any:
    """`norm`: 2 calls and not 12."""
    gamma, beta = p["gamma"], p["beta"]
    if not (in_one_piece(x, gamma, beta) and gamma.shape == beta.shape == x.shape[-1:]):
        return NotImplemented
    y, x_hat, rstd = _room(x, x.shape, x.shape, (*x.shape[:-1], 1))
    by_rows("norm", rows(x), gamma, beta, x.dtype.type(eps), rows(y), rows(x_hat), rstd.reshape(-1))
    return y, NormCache(x_hat, rstd)


def norm_backward(p: Any, dy: Array, cache: NormCache) -> Any:
    """`norm_backward`: 3 calls and not 12."""
    gamma, d = p["gamma"], dy.shape[-1]
    if not (in_one_piece(dy, gamma, *cache) and cache.x_hat.shape == dy.shape and gamma.shape == (d,)):
        return NotImplemented
    _, side = sides(d)
    groups = side * -(-min(dy.size // d, PARTS) // side)
    dx, parts, sums = _room(dy, dy.shape, (groups, 2 * d), (2 * d,))
    given = rows(dy), rows(cache.x_hat), cache.rstd.reshape(-1), gamma
    launch("norm_back", dy, groups // side, sides(d), *given, rows(dx), parts)
    launch("fold", dy, 2 * d, THREADS, parts, False, sums)
    return dx, {"gamma": sums[:d], "beta": sums[d:]}


class ActivatedCache(NamedTuple):
    """What `feed_forward` remembers; for ReLU u is h."""
    inner: DenseCache
    u: Array
    kind: int
    keep: HashedMask | None
    outer: DenseCache
    def backward(self, p: Any, dy: Array) -> tuple[Array, dict[str, Any]]:
        dh, outer = dense_backward(p["outer"], dy, self.outer)
        dh = dh if self.keep is None else self.keep.drop(dh)
        flat("activate_back", dh, dh.size, self.kind, rows(self.u), rows(dh))                  # now du
        dx, inner = dense_backward(p["inner"], dh, self.inner)
        return dx, {"inner": inner, "outer": outer}


def feed_forward(p: Any, x: Array, *, activation: str = "relu", rate: float = 0.0, rng: Any = None) -> Any:
    """`feed_forward`, with a kernel for the inner bias and the activation."""
    dropping = rng is not None and rate > 0
    fits = activation in ACTIVATIONS and "b" in p["inner"] and 1 < x.ndim <= 4 and (has_keys(rng) or not dropping)
    if not (fits and suits(x, p["inner"]["W"], p["inner"]["b"])):
        return NotImplemented
    u, kind = linear(x, p["inner"]["W"]), ACTIVATIONS[activation]
    h = u if kind == RELU else get_xp(u).empty_like(u)
    flat("activate", u, u.size, p["inner"]["b"], kind, rows(u), rows(h))
    h, keep = add_dropped(None, h, rate, rng) if dropping else (h, None)
    y = linear(h, p["outer"]["W"], p["outer"].get("b"))
    return y, ActivatedCache(DenseCache(x), u, kind, keep, DenseCache(h))


class PairsCache(NamedTuple):
    z: Array          # (N, 2)
    sums: Array       # the loss, and Σ w
    def backward(self, dloss: float, h: Array, E: Array, batch: Any) -> tuple[Array, Any]:
        from ..models.objectives import ScoredRows  # training alone imports no models
        dh, de = _room(h, h.shape, (2 * len(self.z), h.shape[-1]))
        ids = batch.targets.reshape(-1), batch.negatives.reshape(-1)
        given = *ids, batch.weight.reshape(-1), *self, h.dtype.type(dloss)
        flat("pairs_back", h, h.size, rows(h), E, *given, rows(dh), de)
        return dh, ScoredRows(get_xp(h).concatenate(ids), de, E)


def bce(h: Array, E: Array, batch: Any) -> Any:
    """`bce` with its products: 3 calls."""
    if not in_one_piece(h, E):
        return NotImplemented
    n, ids = h.size // h.shape[-1], (batch.targets.reshape(-1), batch.negatives.reshape(-1))
    z, each, sums = _room(h, (n, 2), (n, 2), (2,))
    by_rows("pairs", rows(h), E, *ids, batch.weight.reshape(-1), z, each)
    launch("fold", h, 2, THREADS, each, True, sums)
    return sums[0], PairsCache(z, sums)


def first_is_target(z: Array, weight: Array, beta: float) -> Any:
    """`first_is_target`: 3 calls."""
    return _loss("firsts", z, weight, beta) if in_one_piece(z, weight) else NotImplemented


def smoothed_loss(logits: Array, targets: Array, weights: Array, label_smoothing: float) -> Any:
    """`smoothed_loss`: 3 calls."""
    if not (in_one_piece(logits, weights) and targets.flags.c_contiguous):
        return NotImplemented
    return _loss("classes", logits, targets, weights, label_smoothing)


def _loss(name: str, x: Array, *given: Any) -> Any:
    of_rows = [a.reshape(-1) if isinstance(a, type(x)) else x.dtype.type(a) for a in given]
    L, each, sums = _room(x, x.shape[:-1], (x.size // x.shape[-1], 2), (2,))
    of_rows += [L.reshape(-1)] if name == "classes" else []
    by_rows(name, rows(x), *of_rows, each)
    launch("fold", x, 2, THREADS, each, True, sums)
    return sums[0], (_loss_backward, (name, x, *of_rows, sums))


def _loss_backward(dloss: float, name: str, x: Array, *given: Any) -> Array:
    dx = get_xp(x).empty(x.shape, dtype=x.dtype)
    flat(f"{name}_back", x, x.size, rows(x), *given, x.dtype.type(dloss), rows(dx))
    return dx


def suits(*arrays: Array) -> bool:
    """Are these arrays of one floating dtype, none empty, on a device for which the kernels were proven?"""
    dtype = arrays[0].dtype
    return _is_proven(get_xp(*arrays)) and dtype.char in "fd" and all(x.dtype == dtype and x.size for x in arrays)


def in_one_piece(*arrays: Array) -> bool:
    """`suits`, for arrays that a kernel reads row by row: is the memory of each without gaps, in the order of its axes?

    Products read any others. A kernel would on a card, but the simulator refuses them, so that none was tried.
    """
    return suits(*arrays) and all(x.flags.c_contiguous for x in arrays)


@cache
def _is_proven(xp: Any) -> bool:
    return bool(PROVEN) and not is_numpy(xp) and device_name("gpu" if xp.__name__ == "cupy" else xp.__name__) in PROVEN


def has_keys(rng: Any) -> bool:
    """Do the keys of masks lie on the device?"""
    return isinstance(rng, MaskKeys) and not isinstance(rng.rng, np.random.Generator) and rng.rows is not None


def _numbered(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How `keep_mask` numbers entries: lead rows of `last`; the leading axes after the first have these sizes."""
    *lead, last = (shape[0], shape[1] * shape[2]) if len(shape) == 3 else shape
    return math.prod(lead), last, *(*lead[1:], 1, 1)[:2]


def _room(like: Array, *shapes: tuple[int, ...]) -> list[Array]:
    """Uninitialised arrays in one piece of memory; each begins at a multiple of 64 numbers: products are faster."""
    sizes = [-(-math.prod(shape) // 64) * 64 for shape in shapes]
    whole, ends = get_xp(like).empty(sum(sizes), dtype=like.dtype), accumulate(sizes)
    starts = [end - size for end, size in zip(ends, sizes, strict=True)]
    return [whole[i : i + math.prod(shape)].reshape(shape) for i, shape in zip(starts, shapes, strict=True)]


def sides(width: int) -> tuple[int, int]:
    """Of a block: lanes for a row of this width, a power of two, and rows."""
    lanes = min(THREADS, 1 << (width - 1).bit_length())
    return lanes, THREADS // lanes


def by_rows(name: str, x: Array, *arguments: Any) -> None:
    """A kernel of the rows of x (N, d), its first argument."""
    launch(name, x, -(-len(x) // sides(x.shape[-1])[1]), sides(x.shape[-1]), x, *arguments)


def flat(name: str, like: Array, entries: int, *arguments: Any) -> None:
    """A thread for each entry."""
    launch(name, like, -(-entries // THREADS), THREADS, *arguments)


def launch(name: str, like: Array, blocks: Any, threads: Any, *arguments: Any) -> None:
    """On the stream that CuPy uses now. Without an entry there is nothing to launch."""
    if blocks:                                   # CUDA refuses a grid of no blocks
        number = like.dtype.type if like.dtype.char in "fd" else np.float32
        kernel = getattr(kernels(number), name)
        kernel[blocks, threads, load().external_stream(get_xp(like).cuda.get_current_stream().ptr)](*arguments)
