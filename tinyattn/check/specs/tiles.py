"""Attention in tiles, without bias: `fused_attention` keeps all weights, `flash_attention` has an online softmax."""

from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...random import PairMask
from .. import oracles
from ..common import ours_of, tolerance, upstream, widened
from ..contrast import right_up_to
from ..families import averages, causal, onto_itself
from ..formula import Formula
from ..mutants import explained
from ..property import close, largest, rounding
from ..rules import slips_of
from ..spec import Form
from ..subject import MissingError
from . import attention
from .builder import CaseDrawer, SpecBuilder, Subject

fused_attention = SpecBuilder("fused_attention")
NAMES = ("q", "k", "v", "mask", "scale")


def fused_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = attention.case(draw)
    drawn["mask"] = draw.choose((drawn["mask"], drawn["mask"], ops.Mask(causal=True)))
    return {name: drawn[name] for name in NAMES}


def without_bias() -> list[dict[str, Any]]:
    return [{name: case[name] for name in NAMES} for case in attention.special_cases() if case["bias"] is None]


def fused_attention_special_cases() -> list[dict[str, Any]]:
    """The cases of attention without a bias, and one of three tiles of queries."""
    q, k = np.cos(np.arange(390.0)).reshape(130, 3), np.sin(np.arange(387.0)).reshape(129, 3)
    return [*without_bias(), {"q": q, "k": k, "v": k * k, "mask": ops.Mask(causal=True), "scale": None}]


def fused_attention_seen(case: dict[str, Any]) -> np.ndarray:
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    mask = ops.as_mask(case["mask"]).array(n, m, like=case["q"])
    return np.broadcast_to(True if mask is None else mask, (*case["q"].shape[:-1], m))


averages(fused_attention, fused_attention_seen)
causal(fused_attention, "k", "v", of=lambda case: onto_itself(case) | {"mask": ops.Mask(causal=True)})


@fused_attention("rounding", "adding any number to a row of scores changes neither result nor gradients", "extremes",
        hint="exp leaves float32's range beyond ±88, and loses digits before that: which rows need a second pass?")
def fused_attention_far_scores(op: Subject, **case: Any) -> None:
    case |= {"scale": 1.0}
    near = case | {"q": np.concatenate([case["q"] / 2, 0 * case["q"][..., :1]], axis=-1),
                   "k": np.concatenate([case["k"], 0 * case["k"][..., :1] + 1], axis=-1)}  # fmt: skip
    q, k, v = (widened(near)[name] for name in "qkv")
    expected = ops.attention(q, k, v, fused_attention_seen(case), scale=1.0)[0]
    dy = upstream(FUSED_ATTENTION, near)
    gradient = op.gradients(near, *dy)["v"] if op.has_backward else None
    for far in (45.0, 60.0, 87.0, 95.0, 300.0, -45.0, -60.0, -87.0, -95.0, -300.0):
        moved = near | {"q": near["q"].copy()}
        moved["q"][..., ::2, -1] = far                                   # every other row is left alone
        atol = rounding(case["q"].dtype, case["k"].size, 4 * abs(far) * largest(case["q"], case["k"], case["v"]) ** 3)
        close(op(**moved), expected, atol, f"with scores moved by {far:g}, out")
        if gradient is not None:
            close(op.gradients(moved, *dy)["v"], gradient, 10 * atol, f"with scores moved by {far:g}, dv")


@fused_attention("rounding", "over three tiles of queries, outputs and gradients are those of attention", "extremes", once=True,
        hint="Which keys does the last tile see that the first does not, and what did dk hold for them?")
def three_tiles(op: Subject, **_: Any) -> None:
    case = op.fit(fused_attention_special_cases()[-1])
    q, k, v = (case[name] for name in "qkv")
    out, weights = ops.attention(q, k, v, fused_attention_seen(case))
    close(op(**case), out, tolerance(FUSED_ATTENTION, case), "out")
    if op.has_backward:
        expected = ops.attention_backward(out, q, k, v, weights)
        for (name, g), right in zip(op.gradients(case, out).items(), expected, strict=False):
            close(g, right, 10 * tolerance(FUSED_ATTENTION, case), f"d{name}")


def as_array(case: dict[str, Any]) -> dict[str, Any]:
    """The case with its mask as a boolean array."""
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    return case | {"mask": case["mask"].array(n, m, like=case["q"])}


MASKS = Form("a mask of the class Mask", lambda case: isinstance(case.get("mask"), ops.Mask), as_array, ours=True)
FUSED_ATTENTION = fused_attention.spec(
    "out = softmax(c q kᵀ, mask) v, with c = 1 / √d unless `scale` is given",
    "fused_attention(q, k, v, mask=None, scale=None) -> out first: q (..., n, d), k (..., m, d), v (..., m, e)",
    "the mask is boolean, True = may look, onto (..., n, m), or a `Mask`; a query that may look at nothing gets zeros",
    case=fused_attention_case, outputs=("out",), wrt=("q", "k", "v"),
    scale=lambda case: 10 * largest(case["q"], case["k"], case["v"]) ** 2, special_cases=fused_attention_special_cases,
    forms=(MASKS,),
)


flash_attention = SpecBuilder("flash_attention")
TILES = ((1, 1), (4, 3), (3, 4), (256, 512))


def flash_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    """Masks as arrays and as `Mask`; tiles of some pairs, or of all. Tiles of one pair are slow, and in `tilings`."""
    drawn = attention.case(draw)
    window = ops.Mask(causal=draw.flag(), window=draw.choose((1, 2, 5)))
    drawn["mask"] = draw.choose((drawn["mask"], drawn["mask"], ops.Mask(causal=True), window))
    return {name: drawn[name] for name in NAMES} | {"tile": draw.choose(TILES[1:] if not draw.long else ((64, 32),))}


def flash_attention_special_cases() -> list[dict[str, Any]]:
    """The cases of attention without a bias, and one with lengths, of which one is 0."""
    q, k = np.cos(np.arange(150.0)).reshape(3, 2, 5, 5), np.sin(np.arange(210.0)).reshape(3, 2, 7, 5)
    lengths = ops.Mask(causal=True, lengths=np.array([7, 0, 2]))
    padded = {"q": q, "k": k, "v": k * k, "mask": lengths, "scale": None}
    return [case | {"tile": (2, 3)} for case in (*without_bias(), padded)]


averages(flash_attention, fused_attention_seen)
causal(flash_attention, "k", "v", of=lambda case: onto_itself(case) | {"mask": ops.Mask(causal=True)})


@flash_attention("rounding", "every tiling gives the same results and gradients",
        hint="A tile that raises the maximum from m to m': the sums so far shrink by e^(m - m').")
def tilings(op: Subject, **case: Any) -> None:
    whole, dy = case | {"tile": (1000, 1000)}, upstream(FLASH_ATTENTION, case)
    atol = rounding(case["q"].dtype, case["k"].size, FLASH_ATTENTION.scale(case))
    out, derived = op(**whole), op.has_backward
    gradients = op.gradients(whole, *dy) if derived else {}
    for tile in TILES[:3]:
        close(op(**case | {"tile": tile}), out, atol, f"with tiles of {tile}, out")
        for name, g in op.gradients(case | {"tile": tile}, *dy).items() if derived else ():
            close(g, gradients[name], 10 * atol, f"with tiles of {tile}, d{name}")


@flash_attention("rounding", "scores of any size are safe, growing or falling from key to key", "extremes",
        hint="Which maximum was subtracted from the scores of earlier tiles?")
def flash_attention_far_scores(op: Subject, **case: Any) -> None:
    m = case["k"].shape[-2]
    for steps in (np.linspace(-90, 90, m), np.linspace(90, -90, m), np.full(m, -120.0)):
        far = case | {"scale": 1.0, "q": np.ones_like(case["q"]), "k": np.zeros_like(case["k"])}
        far["k"][..., 0] = steps
        q, k, v = (widened(far)[name] for name in "qkv")
        expected = ops.attention(q, k, v, fused_attention_seen(case), scale=1.0)[0]
        close(op(**far), expected, rounding(case["q"].dtype, m, 200 * largest(case["v"])), "out")


@flash_attention("rounding", "dropout seeded by one integer has the outputs and gradients of dropout by the whole mask",
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
    out, weights = ops.attention(q, k, v, fused_attention_seen(case), None, whole, keep.rate, case["scale"])
    atol = rounding(case["q"].dtype, case["k"].size, 3 * FLASH_ATTENTION.scale(case))
    close(op(**case | {"keep": keep}), out, atol, "out")
    if not op.has_backward:
        return
    (dy,) = upstream(FLASH_ATTENTION, case)
    expected = ops.attention_backward(dy.astype(float), q, k, v, weights, None, whole, keep.rate, case["scale"])
    gradients = op.gradients(case | {"keep": keep}, dy)
    for name, right in zip("qkv", expected, strict=False):
        close(gradients[name], right, 10 * atol * largest(dy), f"d{name}")


def flash_attention_remark(op: Subject, **_: Any) -> str:
    """The number of keys, queries, or masked tokens from which it is wrong, and a mistake that explains it."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 1027, 4))
    k = np.stack([0.05 * np.arange(len(k)), *(0.01 * k.T[1:])], axis=-1)  # scores grow, or fall, from key to key
    q[:2, 0] = 1, -1

    def got(n: int, m: int, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
        case = op.fit({"q": q[:n], "k": k[:m], "v": v[:m], "mask": mask, "scale": None, "tile": TILES[-1]})
        return op(**case), ours_of(FLASH_ATTENTION, case)[0]

    def right(n: int, m: int, mask: Any = None) -> bool:
        return bool(np.allclose(*got(n, m, mask), rtol=0, atol=1e-6))

    if keys := right_up_to(lambda m: right(3, m)):
        width, n = keys[0], 2 * keys[0] + 1
        formula, y = Formula(oracles.tiled_attention, within=oracles.__name__), got(3, n)[0]
        run = partial(formula.function(), q[:3], k[:n], v[:n], width)
        says = explained(formula, slips_of("tiles"), run, lambda tiled: np.allclose(y, tiled, rtol=0, atol=1e-6))
        asks = f"so it seems that {says}." if says else "what does one tile of keys hand on to the next?"
        return f"Yours is right for {width} keys, and wrong for {keys[1]}: {asks}"
    if queries := right_up_to(lambda n: right(n, 3)):
        return f"Yours is right for {queries[0]} queries, and wrong for {queries[1]}: where does a tile end?"
    if both := right_up_to(lambda n: right(n, n, np.tri(n, dtype=bool))):
        return f"With a mask, yours is right for {both[0]} tokens, and wrong for {both[1]}: which rows and columns of it belong to a tile?"
    return ""


FLASH_ATTENTION = flash_attention.spec(
    "softmax(c q kᵀ, mask) v in tiles, with memory that grows with n + m; c is 1 / √d unless `scale` is given",
    "flash_attention(q, k, v, mask=None, keep=None, scale=None, tile=(256, 512)) -> out first: q (..., n, d), "
    "k (..., m, d), v (..., m, e)",
    "the mask is boolean, True = may look, onto (..., n, m), or a `Mask`; a query that may look at nothing gets zeros",
    "keep is a `PairMask`: keep.tile(lead, queries, keys, like) is the dropout mask of these slices, keep.rate its rate",
    case=flash_attention_case, outputs=("out",), wrt=("q", "k", "v"),
    scale=lambda case: 10 * largest(case["q"], case["k"], case["v"]) ** 2, special_cases=flash_attention_special_cases,
    forms=(MASKS,), remark=flash_attention_remark,
)
