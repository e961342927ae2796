"""Grouped-query attention: several heads of queries share one head of keys and values (Ainslie et al. 2023)."""

from typing import Any

import numpy as np

from .. import adapters, oracles
from ..common import tolerance, widened
from ..families import batch_apart, causal, linear_in
from ..property import close
from . import multi_head_attention
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("grouped_query_attention")
batch_apart(states)
causal(states, "x", of=lambda case: case | {"mask": np.tri(case["x"].shape[-2], dtype=bool)})
linear_in(states, "W_v", hint="Do the weights depend on the values?")


def case(draw: CaseDrawer) -> dict[str, Any]:
    kv_heads, d, n = draw.choose((1, 2)), draw.choose((1, 2, 3)), draw.tokens()
    heads = kv_heads * draw.choose((1, 2, 3))
    x, W_q, W_o = draw.array(*draw.lead, n, heads * d), *(draw.array(heads * d, heads * d, size=0.7) for _ in range(2))
    W_k, W_v = (draw.array(heads * d, kv_heads * d, size=0.7) for _ in range(2))
    mask = draw.mask(*draw.choose(((n, n), (1, n), (n, 1), (n,)))) if draw.flag() else None
    return {"x": x, "W_q": W_q, "W_k": W_k, "W_v": W_v, "W_o": W_o, "heads": heads, "kv_heads": kv_heads, "mask": mask}


def _ungrouped(case: dict[str, Any]) -> dict[str, Any]:
    """The case of multi-head attention with W_k and W_v repeated for each head of a group."""
    ungrouped = widened({name: value for name, value in case.items() if name != "kv_heads"})
    for name in ("W_k", "W_v"):
        shared = ungrouped[name].reshape(len(case[name]), case["kv_heads"], -1)
        ungrouped[name] = np.repeat(shared, case["heads"] // case["kv_heads"], axis=1).reshape(len(shared), -1)
    return ungrouped


@states("rounding", "it is multi-head attention with a group's keys and values copied for each of its heads",
        hint="Which group does head i belong to: i // (h / g), or i % g?")
def copies(op: Subject, **case: Any) -> None:
    close(op(**case), oracles.multi_head_attention(**_ungrouped(case)), tolerance(SPEC, case), "y")


@states("rounding", "permuting the heads of a group, or whole groups, in all four matrices, changes nothing",
        hint="Which columns of W_k does head 1 read, and which does the last head read?")
def places(op: Subject, **case: Any) -> None:
    D, heads, groups = case["x"].shape[-1], case["heads"], case["kv_heads"]
    y = op(**case)
    grid = np.arange(D).reshape(groups, heads // groups, -1)
    for what, columns, shared in (("the heads of a group", grid[:, ::-1], 1), ("the groups", grid[::-1], -1)):
        columns = columns.reshape(-1)
        moved = {"W_q": case["W_q"][:, columns], "W_o": case["W_o"][columns]}
        moved |= {n: case[n].reshape(D, groups, -1)[:, ::shared].reshape(D, -1) for n in ("W_k", "W_v")}
        close(op(**case | moved), y, tolerance(SPEC, case), f"with {what} in another order, y")


@states("rounding", "dW_k and dW_v sum over the heads that share them", "gradients",
        hint="Every head of a group passes a gradient on: are they summed, or averaged?")
def shared_gradients(op: Subject, **case: Any) -> None:
    dy = np.cos(np.arange(case["x"].size)).reshape(case["x"].shape).astype(case["x"].dtype)
    each = adapters.multi_head_attention_backward(dy.astype(float), **_ungrouped(case))[2:4]
    gradients = op.gradients(case, dy)
    for name, g in zip(("W_k", "W_v"), each, strict=True):
        summed = np.sum(g.reshape(len(g), case["kv_heads"], case["heads"] // case["kv_heads"], -1), axis=2)
        close(gradients[name], summed.reshape(case[name].shape), 100 * tolerance(SPEC, case), f"d{name}")


SPEC = states.spec(
    "y = concat_h(attention(x W_q,h, x W_k,g, x W_v,g)) W_o, with g = h // (heads / kv_heads)",
    "grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None) -> y: x (..., n, D), W_q and W_o (D, D), "
    "W_k and W_v (D, kv_heads D / heads); successive heads share keys and values, kv_heads divides heads",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets zeros",
    case=case,
    wrt=("x", "W_q", "W_k", "W_v", "W_o"),
    scale=multi_head_attention.scale,
)
