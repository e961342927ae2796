"""The post-LN Transformer block."""

from typing import Any

import numpy as np

from .. import adapters, oracles
from ..common import tolerance, widened
from ..families import batch_apart, causal
from ..property import close, demand, largest
from . import block
from .builder import CaseDrawer, SpecBuilder, Subject
from .feed_forward import off_the_kink

states = SpecBuilder("post_ln_block")
ATTENTION = ("W_q", "W_k", "W_v", "W_o")
ARRAYS = ("x", *ATTENTION, "gamma_1", "beta_1", "W_1", "b_1", "W_2", "b_2", "gamma_2", "beta_2")
batch_apart(states)
causal(states, "x", of=lambda case: case | {"mask": np.tri(case["x"].shape[-2], dtype=bool)})


def case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = block.case(draw)
    wide = widened(drawn)
    attended = oracles.multi_head_attention(**{n: wide[n] for n in ("x", *ATTENTION, "heads", "mask")})
    x_1 = oracles.layer_norm(wide["x"] + attended, wide["gamma_1"], wide["beta_1"], drawn["eps"])[0]
    drawn["b_1"] = off_the_kink(draw, x_1 @ wide["W_1"])
    return {name: drawn[name] for name in (*ARRAYS, "heads", "mask", "eps")}


@states("rounding", "with silent branches it is LayerNorm twice", hint="Is the branch normalised, or the sum with x?")
def silent_branches(op: Subject, **case: Any) -> None:
    silent = block.without(case, "W_o", "W_2", "b_2")
    wide = widened(silent)
    x_1 = oracles.layer_norm(wide["x"], wide["gamma_1"], wide["beta_1"], wide["eps"])[0]
    y = oracles.layer_norm(x_1, wide["gamma_2"], wide["beta_2"], wide["eps"])[0]
    close(op(**silent), y, tolerance(SPEC, silent), "y")


@states("rounding", "the output is normalised: without the last gain and shift, tokens have mean 0 and size at most 1",
        hint="Is the last operation a norm?")
def normed(op: Subject, **case: Any) -> None:
    plain = case | {"gamma_2": np.ones_like(case["gamma_2"]), "beta_2": np.zeros_like(case["beta_2"])}
    y = np.asarray(op(**plain), float)
    close(np.mean(y, axis=-1), np.zeros(y.shape[:-1]), tolerance(SPEC, plain), "the mean of token ")
    demand(np.all(np.mean(y * y, axis=-1) <= 1 + tolerance(SPEC, plain)), "the mean square of a token is above 1")


def scale(case: dict[str, Any]) -> float:
    """Both norms divide by the size of their input: small tokens lose digits, once or twice."""
    p, sizes = widened(case), [largest(case["x"])]
    u = p["x"] + adapters.multi_head_attention(**{n: p[n] for n in ("x", *ATTENTION, "heads", "mask")})
    for gamma, beta in (("gamma_1", "beta_1"), ("gamma_2", "beta_2")):
        rstd = 1 / np.sqrt(np.var(u, axis=-1, keepdims=True) + case["eps"])
        sizes += [largest(u), largest(rstd), largest(p[gamma], p[beta])]
        x_1 = (u - np.mean(u, axis=-1, keepdims=True)) * rstd * p[gamma] + p[beta]
        u = x_1 + adapters.feed_forward(x_1, *(p[n] for n in ("W_1", "b_1", "W_2", "b_2")))
    return 10 * float(np.prod(sizes)) * largest(*(case[name] for name in (*ATTENTION, "W_1", "W_2"))) ** 2


SPEC = states.spec(
    "x₁ = LN(x + MHA(x); γ₁, β₁); y = LN(x₁ + FFN(x₁); γ₂, β₂): the post-LN block",
    f"post_ln_block({', '.join(ARRAYS)}, heads, mask=None, eps=1e-5) -> y: x (..., n, D), gains and shifts (D,), W_q to W_o "
    "(D, D), W_1 (D, H), W_2 (H, D); ReLU; head i owns columns i D/h .. (i + 1) D/h",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets zeros",
    case=case,
    wrt=ARRAYS,
    scale=scale,
)
