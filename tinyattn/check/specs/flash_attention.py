"""Attention in tiles, with an online softmax and weights recomputed in the backward."""

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...random import PairMask
from .. import oracles
from ..common import ours_of, upstream, widened
from ..contrast import right_up_to
from ..families import averages, causal, onto_itself
from ..mutants import Formula, explained
from ..property import close, largest, rounding
from ..slips import OF_TILES
from ..subject import MissingError, Subject
from . import attention
from .builder import CaseDrawer, SpecBuilder
from .fused_attention import MASKS, NAMES, seen, without_bias

states = SpecBuilder("flash_attention")
TILES = ((1, 1), (4, 3), (3, 4), (256, 512))


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Masks as arrays and as `Mask`; tiles of one pair, of some, of all."""
    drawn = attention.case(draw)
    window = ops.Mask(causal=draw.flag(), window=draw.choose((1, 2, 5)))
    drawn["mask"] = draw.choose((drawn["mask"], drawn["mask"], ops.Mask(causal=True), window))
    return {name: drawn[name] for name in NAMES} | {"tile": draw.choose(TILES if not draw.long else ((64, 32),))}


def special_cases() -> list[dict[str, Any]]:
    """The cases of attention without a bias, and one with lengths, of which one is 0."""
    q, k = np.cos(np.arange(150.0)).reshape(3, 2, 5, 5), np.sin(np.arange(210.0)).reshape(3, 2, 7, 5)
    lengths = ops.Mask(causal=True, lengths=np.array([7, 0, 2]))
    padded = {"q": q, "k": k, "v": k * k, "mask": lengths, "scale": None}
    return [case | {"tile": (2, 3)} for case in (*without_bias(), padded)]


averages(states, seen)
causal(states, "k", "v", of=lambda case: onto_itself(case) | {"mask": ops.Mask(causal=True)})


@states("rounding", "every tiling gives the same results and gradients",
        hint="A tile that raises the maximum from m to m': the sums so far shrink by e^(m - m').")
def tilings(op: Subject, **case: Any) -> None:
    whole, dy = case | {"tile": (1000, 1000)}, upstream(SPEC, case)
    atol = rounding(case["q"].dtype, case["k"].size, SPEC.scale(case))
    for tile in TILES[:3]:
        close(op(**case | {"tile": tile}), op(**whole), atol, f"with tiles of {tile}, out")
        if "flash_attention_backward" not in op.lacks:
            for name, g in op.gradients(case | {"tile": tile}, *dy).items():
                close(g, op.gradients(whole, *dy)[name], 10 * atol, f"with tiles of {tile}, d{name}")


@states("rounding", "scores of any size are safe, growing or falling from key to key", "extremes",
        hint="Which maximum was subtracted from the scores of earlier tiles?")
def far_scores(op: Subject, **case: Any) -> None:
    m = case["k"].shape[-2]
    for steps in (np.linspace(-90, 90, m), np.linspace(90, -90, m), np.full(m, -120.0)):
        far = case | {"scale": 1.0, "q": np.ones_like(case["q"]), "k": np.zeros_like(case["k"])}
        far["k"][..., 0] = steps
        q, k, v = (widened(far)[name] for name in "qkv")
        expected = ops.attention(q, k, v, seen(case), scale=1.0)[0]
        close(op(**far), expected, rounding(case["q"].dtype, m, 200 * largest(case["v"])), "out")


@states("rounding", "dropout seeded by one integer equals dropout by the whole mask, and so do its gradients",
        hint="The normaliser sums weights before dropout. Does the backward draw the same mask?")
def dropout(op: Subject, **case: Any) -> None:
    if "keep" in op.lacks:
        raise MissingError("flash_attention takes no `keep`")
    lead, (n, _), m = case["q"].shape[:-2], case["q"].shape[-2:], case["k"].shape[-2]
    if len(lead) > 2:
        return
    keep = PairMask(20220527, 0.4)
    whole = keep.tile(lead, slice(0, n), slice(0, m), np.zeros(1))
    q, k, v = (widened(case)[name] for name in "qkv")
    out, weights = ops.attention(q, k, v, seen(case), None, whole, keep.rate, case["scale"])
    atol = rounding(case["q"].dtype, case["k"].size, 3 * SPEC.scale(case))
    close(op(**case | {"keep": keep}), out, atol, "out")
    if "flash_attention_backward" in op.lacks:
        return
    (dy,) = upstream(SPEC, case)
    gradients = ops.attention_backward(dy.astype(float), q, k, v, weights, None, whole, keep.rate, case["scale"])
    for name, expected in zip("qkv", gradients, strict=False):
        close(op.gradients(case | {"keep": keep}, dy)[name], expected, 10 * atol * largest(dy), f"d{name}")


def remark(op: Subject, **_: Any) -> str:
    """The number of keys, of queries, or of both with a mask, from which on it is wrong, and what explains that."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 1027, 4))
    k = np.stack([0.05 * np.arange(len(k)), *(0.01 * k.T[1:])], axis=-1)  # scores that grow, or fall, from key to key
    q[:2, 0] = 1, -1

    def got(n: int, m: int, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
        case = op.fit({"q": q[:n], "k": k[:m], "v": v[:m], "mask": mask, "scale": None, "tile": TILES[-1]})
        return op(**case), ours_of(SPEC, case)[0]

    def right(n: int, m: int, mask: Any = None) -> bool:
        return _alike(*got(n, m, mask))

    if keys := right_up_to(lambda m: right(3, m)):
        width, n = keys[0], 2 * keys[0] + 1
        formula, y = Formula(oracles.tiled_attention, within=oracles.__name__), got(3, n)[0]
        run = partial(formula.function(), q[:3], k[:n], v[:n], width)
        says = explained(formula, OF_TILES, run, lambda tiled: _alike(y, tiled))
        asks = f"so it seems that {says}." if says else "what does one tile of keys hand on to the next?"
        return f"Yours is right for {width} keys, and wrong for {keys[1]}: {asks}"
    if queries := right_up_to(lambda n: right(n, 3)):
        return f"Yours is right for {queries[0]} queries, and wrong for {queries[1]}: where does a tile end?"
    if both := right_up_to(lambda n: right(n, n, np.tri(n, dtype=bool))):
        return f"With a mask, yours is right for {both[0]} tokens, and wrong for {both[1]}: which rows and columns of it belong to a tile?"
    return ""


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-6))


SPEC = states.spec(
    "softmax(c q kᵀ, mask) v in tiles, with memory that grows with n + m; c is 1 / √d unless `scale` is given",
    "flash_attention(q, k, v, mask=None, keep=None, scale=None, tile=(256, 512)) -> out first: q (..., n, d), "
    "k (..., m, d), v (..., m, e)",
    "the mask is boolean, True = may look, onto (..., n, m), or a `Mask`; a query that may look at nothing gets zeros",
    "keep is a `PairMask`: keep.tile(lead, queries, keys, like) is the dropout mask of these slices, keep.rate its rate",
    case=case,
    outputs=("out",),
    wrt=("q", "k", "v"),
    scale=lambda case: 10 * largest(case["q"], case["k"], case["v"]) ** 2,
    special_cases=special_cases,
    forms=(MASKS,),
    remark=remark,
)
