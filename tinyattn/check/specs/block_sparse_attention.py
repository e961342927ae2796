"""Attention that computes only blocks of pairs."""

from typing import Any

import numpy as np

from ... import ops
from .. import oracles
from ..families import averages
from ..property import close, rounding, same_bits
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject
from .linear_attention import real_keys
from .window_attention import with_key_moved

states = SpecBuilder("block_sparse_attention")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, m, d = draw.tokens(), draw.tokens(), draw.size()
    q = draw.array(*draw.lead, n, d)
    k, v = (draw.array(*draw.lead, m, width) for width in (d, draw.size_like(d)))
    groups = draw.choose((1, 2, 3))
    layout = ops.BlockLayout(n, m, tuple(_blocks(draw, part, m) for part in np.array_split(draw.rng.permutation(n), groups)))
    keys = draw.mask(*draw.choose(((*draw.lead, m), (m,), (1,)))) if draw.flag() else None
    shape = layout.groups[0].looks.shape
    bias = draw.array(*draw.choose(((*draw.lead, *shape), shape, shape[1:]))) if groups == 1 and draw.flag() else None
    return {"q": q, "k": k, "v": v, "layout": layout, "keys": keys, "bias": bias, "scale": draw.choose((None, 0.7))}


def _blocks(draw: CaseDrawer, queries: np.ndarray, m: int) -> ops.Blocks:
    """Most of these queries in blocks of `a`, with `b` keys a block; -1 marks an empty place."""
    rng, a, b = draw.rng, draw.choose((1, 2, 3)), draw.choose((1, 2, m, m + 2))
    queries = queries[: max(len(queries) - draw.choose((0, 0, 1)), 0)]
    z = -(-len(queries) // a)
    queries = np.concatenate([queries, np.full(z * a - len(queries), -1)]).reshape(z, a)
    keys = rng.permuted(np.tile(np.r_[np.arange(m), -1, -1, -1], (z, 1)), axis=1)[:, :b]
    return ops.Blocks(queries, keys, draw.mask(z, a, keys.shape[1]) if draw.flag() else None)


def seen(case: dict[str, Any]) -> np.ndarray:
    return real_keys(case["layout"].mask, case)


averages(states, seen)


@states("rounding", "it is attention under the layout's mask", hint="Whose rows does a block gather?")
def under_its_mask(op: Subject, **case: Any) -> None:
    if case["bias"] is None:
        q, k, v = (case[name].astype(float) for name in "qkv")
        full, _ = oracles.attention(q, k, v, seen(case), scale=case["scale"])
        close(op(**case), full, rounding(case["q"].dtype, case["q"].size, SPEC.scale(case)), "out")


@states("exact", "a key moves the outputs of blocks that contain it, and no other by a single bit", gravity="leak",
        hint="What does an empty place read, and who looks at it?")  # fmt: skip
def reach(op: Subject, **case: Any) -> None:
    out = op(**case)
    for key in range(case["k"].shape[-2]):
        blind = ~case["layout"].mask[:, key]
        moved = op(**with_key_moved(case, key))
        same_bits(moved[..., blind, :], out[..., blind, :], f"with key {key} changed, an output that lacks it")


SPEC = states.spec(
    "softmax attention in which only the blocks of a layout are computed",
    "block_sparse_attention(q, k, v, layout, keys=None, bias=None, keep=None, scale=None) -> out first: "
    "q (..., n, d), k (..., m, d), v (..., m, e); layout.groups have queries (z, a), keys (z, b), -1 for an empty "
    "place, and allowed (z, a, b) or None",
    "a query in no block, or that may look at nothing, gets zeros",
    "keys broadcasts to (..., m), True = a real key; a bias, for a layout of one group, to (..., z, a, b)",
    case=case,
    forms=(Form("a query that may look at nothing", lambda case: not np.all(np.any(seen(case), axis=-1)), ours=True),),
    outputs=("out",),
    wrt=("q", "k", "v", "bias"),
)
