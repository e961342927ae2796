"""The Transformer block, pre-LN and post-LN."""

from typing import Any

import numpy as np

from ... import ops
from .. import adapters, oracles
from ..common import tolerance, widened
from ..families import of_sequences
from ..property import close, largest, waves
from .builder import CaseDrawer, SpecBuilder, Subject
from .feed_forward import off_the_kink

block = SpecBuilder("block")
of_sequences(block, hint="Only attention mixes positions, and only where the mask allows.")
BLOCK_ARRAYS = ("x", "gamma_1", "beta_1", "W_q", "W_k", "W_v", "W_o", "gamma_2", "beta_2", "W_1", "b_1", "W_2", "b_2")
EPS = 1e-3


def block_case(draw: CaseDrawer) -> dict[str, Any]:
    heads, n = draw.choose((1, 2)), draw.size(1, 5)
    D, H = heads * draw.choose((2, 3)), draw.size(1, 5)
    x = np.round(draw.rng.standard_normal((*draw.lead, n, D)), 2)
    p = {name: np.round(draw.rng.uniform(0.5, 1.5, D), 2) for name in ("gamma_1", "gamma_2")}
    p |= {name: np.round(0.3 * draw.rng.standard_normal(D), 2) for name in ("beta_1", "beta_2")}
    p |= {name: np.round(0.5 * draw.rng.standard_normal((D, D)), 2) for name in ("W_q", "W_k", "W_v", "W_o")}
    p |= {"W_1": np.round(draw.rng.standard_normal((D, H)), 2), "W_2": np.round(draw.rng.standard_normal((H, D)), 2)}
    p["b_2"] = np.round(draw.rng.standard_normal(D), 2)
    mask = draw.choose((None, np.tri(n, dtype=bool), draw.mask(n, n)))
    normed = ops.layer_norm(x, p["gamma_1"], p["beta_1"], EPS)[0]
    x_1 = x + adapters.multi_head_attention(normed, p["W_q"], p["W_k"], p["W_v"], p["W_o"], heads, mask)
    p["b_1"] = off_the_kink(draw, ops.layer_norm(x_1, p["gamma_2"], p["beta_2"], EPS)[0] @ p["W_1"])
    arrays = {name: np.asarray(x if name == "x" else p[name], draw.dtype) for name in BLOCK_ARRAYS}
    return {**arrays, "heads": heads, "mask": mask, "eps": EPS}


def without(case: dict[str, Any], *names: str) -> dict[str, Any]:
    """The case with these arrays 0."""
    return case | {name: np.zeros_like(case[name]) for name in names}


block.law("silent_branches", "exact",
        "with W_o, W_2 and b_2 zero, both branches are silent and the block is the identity",
        lambda op, c: (op(**without(c, "W_o", "W_2", "b_2")), c.x),
        hint="Set the branches to 0: does the residual carry x or LN(x)?")
block.law("highway", "rounding", "with silent branches the gradient passes unchanged, along the residual",
        lambda op, c: (op.gradients(without(c, "W_o", "W_2", "b_2"), waves(c.x))["x"], waves(c.x), 0, "dx"),
        "gradients", hint="y = x + f(x): the gradient goes both ways and is added.")
block.law("branch_forgets_scale", "rounding",
        "what each branch adds does not change when x is scaled by 4 and eps by 16", lambda op, c: (
            (op(**quiet | {"x": 4 * c.x, "eps": 16 * c.eps}) - 4 * c.x, op(**quiet) - c.x)
            for quiet in (without(c, "W_2", "b_2"), without(c, "W_o"))
        ), times=10, what="what the branch adds",
        hint="The branch reads LN(x), which has lost the scale; is anything normalised after it?")
block.law("in_sequence", "rounding", "the second branch reads the sum after the first",
        lambda op, c: (op(**without(c, "W_o") | {"x": op(**without(c, "W_2", "b_2"))}), op(**c)), times=10,
        hint="Two sublayers in a row, not side by side.")
block.law("constant_tokens", "rounding", "tokens of equal numbers have finite results and gradients",
        lambda op, c: (np.all(np.isfinite(op(**c))), "an output is not finite"), "extremes",
        of=lambda c: c(x=np.ones_like(c.x)),
        derived=lambda op, c: (
            all(np.all(np.isfinite(g)) for g in op.gradients(c, c.x).values()), "a gradient is not finite",
        ), hint="Feed a constant row.")


def block_scale(case: dict[str, Any]) -> float:
    D, H = case["W_1"].shape
    rstd = 1 / np.sqrt(EPS + float(np.min(np.var(case["x"].astype(float), axis=-1), initial=1.0)))
    normed = largest(case["gamma_1"], case["gamma_2"]) * np.sqrt(D) + largest(case["beta_1"], case["beta_2"])
    W = largest(*(case[name] for name in ("W_q", "W_k", "W_v", "W_o", "W_1", "W_2")))
    attended = normed * (W * D) ** 2
    return 10 * rstd * (largest(case["x"]) + attended) * max(1.0, normed * W * D * W * H / 4)


BLOCK = block.spec(
    "x₁ = x + MHA(LN(x; γ₁, β₁)); y = x₁ + FFN(LN(x₁; γ₂, β₂)): the pre-LN block",
    f"block({', '.join(BLOCK_ARRAYS)}, heads, mask=None, eps=1e-5) -> y: x (..., n, D), gains and shifts (D,), W_q to W_o (D, D), "
    "W_1 (D, H), W_2 (H, D); ReLU; head i owns columns i D/h .. (i + 1) D/h",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets zeros",
    case=block_case, wrt=BLOCK_ARRAYS, scale=block_scale,
)


post_ln_block = SpecBuilder("post_ln_block")
ATTENTION = ("W_q", "W_k", "W_v", "W_o")
POST_LN_BLOCK_ARRAYS = ("x", *ATTENTION, "gamma_1", "beta_1", "W_1", "b_1", "W_2", "b_2", "gamma_2", "beta_2")
of_sequences(post_ln_block)


def post_ln_block_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = block_case(draw)
    wide = widened(drawn)
    attended = adapters.multi_head_attention(**{n: wide[n] for n in ("x", *ATTENTION, "heads", "mask")})
    x_1 = ops.layer_norm(wide["x"] + attended, wide["gamma_1"], wide["beta_1"], drawn["eps"])[0]
    drawn["b_1"] = off_the_kink(draw, x_1 @ wide["W_1"])
    return {name: drawn[name] for name in (*POST_LN_BLOCK_ARRAYS, "heads", "mask", "eps")}


@post_ln_block("rounding", "with silent branches it is LayerNorm twice", hint="Is the branch normalised, or the sum with x?")
def post_ln_block_silent_branches(op: Subject, **case: Any) -> None:
    silent = without(case, "W_o", "W_2", "b_2")
    wide = widened(silent)
    x_1 = oracles.layer_norm(wide["x"], wide["gamma_1"], wide["beta_1"], wide["eps"])[0]
    y = oracles.layer_norm(x_1, wide["gamma_2"], wide["beta_2"], wide["eps"])[0]
    close(op(**silent), y, tolerance(op.spec, silent), "y")


post_ln_block.law("normed", "rounding",
        "the output is normalised: without the last gain and shift, tokens have mean 0 and size at most 1",
        lambda op, c: [
            (np.mean(y := np.asarray(op(**c), float), axis=-1), np.zeros(y.shape[:-1]), None, "the mean of token "),
            (np.all(np.mean(y * y, axis=-1) <= 1 + tolerance(op.spec, c)), "the mean square of a token is above 1"),
        ], of=lambda c: c(gamma_2=np.ones_like(c.gamma_2), beta_2=np.zeros_like(c.beta_2)),
        hint="Is the last operation a norm?")


def post_ln_block_scale(case: dict[str, Any]) -> float:
    """Both norms divide by the size of their input: small tokens lose digits, once or twice."""
    p, sizes = widened(case), [largest(case["x"])]
    u = p["x"] + adapters.multi_head_attention(**{n: p[n] for n in ("x", *ATTENTION, "heads", "mask")})
    for gamma, beta in (("gamma_1", "beta_1"), ("gamma_2", "beta_2")):
        rstd = 1 / np.sqrt(np.var(u, axis=-1, keepdims=True) + case["eps"])
        sizes += [largest(u), largest(rstd), largest(p[gamma], p[beta])]
        x_1 = (u - np.mean(u, axis=-1, keepdims=True)) * rstd * p[gamma] + p[beta]
        u = x_1 + adapters.feed_forward(x_1, *(p[n] for n in ("W_1", "b_1", "W_2", "b_2")))
    return 10 * float(np.prod(sizes)) * largest(*(case[name] for name in (*ATTENTION, "W_1", "W_2"))) ** 2


POST_LN_BLOCK = post_ln_block.spec(
    "x₁ = LN(x + MHA(x); γ₁, β₁); y = LN(x₁ + FFN(x₁); γ₂, β₂): the post-LN block",
    f"post_ln_block({', '.join(POST_LN_BLOCK_ARRAYS)}, heads, mask=None, eps=1e-5) -> y: x (..., n, D), gains and shifts (D,), W_q to W_o "
    "(D, D), W_1 (D, H), W_2 (H, D); ReLU; head i owns columns i D/h .. (i + 1) D/h",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets zeros",
    case=post_ln_block_case, wrt=POST_LN_BLOCK_ARRAYS, scale=post_ln_block_scale,
)
