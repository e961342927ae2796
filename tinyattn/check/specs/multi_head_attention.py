"""Multi-head attention: self-attention, cross-attention, with biases, and with shared keys (Ainslie et al. 2023)."""

from typing import Any

import numpy as np

from .. import adapters, oracles
from ..common import tolerance, widened
from ..families import blind_queries, linear_in, of_sequences
from ..property import close, largest, rounding, same_bits, waves
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

multi_head_attention = SpecBuilder("multi_head_attention")
ARRAYS = ("x", "W_q", "W_k", "W_v", "W_o")
of_sequences(multi_head_attention)


def multi_head_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    heads, n = draw.choose((1, 2, 3)), draw.tokens()
    D = heads * draw.choose((1, 2, 3))
    W = {name: draw.array(D, D, size=0.7) for name in ARRAYS[1:]}
    mask = draw.mask(*draw.choose(((n, n), (1, n), (n, 1), (n,)))) if draw.flag() else None
    return {"x": draw.array(*draw.lead, n, D), **W, "heads": heads, "mask": mask}


def multi_head_attention_special_cases() -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    x, W = rng.standard_normal((3, 5, 6)), dict(zip(ARRAYS[1:], rng.standard_normal((4, 6, 6)), strict=True))
    mask = np.tri(5, dtype=bool)
    mask[2] = False
    sharp = W | {"W_q": 400 * W["W_q"]}                                  # scores in the thousands
    maps = ((2, W), (3, W), (1, W), (2, sharp))
    return [{"x": x, **W, "heads": heads, "mask": m} for heads, W in maps for m in (None, mask)]


multi_head_attention.law("token_order", "rounding",
        "permuting the tokens permutes the outputs: without a mask their order has no effect", lambda op, c: (
            (op(**c(x=c.x[..., order, :])), op(**c)[..., order, :], _tolerance(c))
            for order in [np.random.default_rng(c.x.shape[-2]).permutation(c.x.shape[-2])]
        ), of=lambda c: c(mask=None),
        hint="Permute tokens: does the output permute? A reshape reinterprets memory, it does not move axes.")
multi_head_attention.law("head_order", "rounding", "permuting heads in all four matrices changes nothing",
        lambda op, c: (
            (op(**c(W_q=c.W_q[:, turned], W_k=c.W_k[:, turned], W_v=c.W_v[:, turned], W_o=c.W_o[turned])), op(**c),
             _tolerance(c))
            for turned in [np.arange(c.x.shape[-1]).reshape(c.heads, -1)[::-1].reshape(-1)]
        ), hint="Which rows of W_o belong to head 0?")


@multi_head_attention("rounding", "with W_o the identity, values of head i move only the columns of head i",
        hint="Silence one head's values and watch which slice of the output moves.")
def one_head_one_slice(op: Subject, **case: Any) -> None:
    D, heads = case["x"].shape[-1], case["heads"]
    eye = np.eye(D, dtype=case["x"].dtype)
    W_v = case["W_v"].copy()
    W_v[:, : D // heads] = 0
    before, after = op(**case | {"W_o": eye}), op(**case | {"W_o": eye, "W_v": W_v})
    close(after[..., : D // heads], np.zeros_like(after[..., : D // heads]), 0, "the silenced head's output")
    close(after[..., D // heads :], before[..., D // heads :], _tolerance(case), "another head's output")


multi_head_attention.law("single_head", "rounding", "with one head it is attention, projected",
        lambda op, c: (
            op(**c), oracles.attention((x := c.x.astype(float)) @ c.W_q, x @ c.W_k, x @ c.W_v, c.mask)[0] @ c.W_o,
            _tolerance(c),
        ), of=lambda c: c(heads=1), hint="With one head and W_o = I: softmax(q kᵀ / √D) v.")
multi_head_attention.law("single_token", "rounding", "a single token gets x W_v W_o, whatever W_q and W_k",
        lambda op, c: (op(**c), c.x.astype(float) @ c.W_v @ c.W_o, _tolerance(c)),
        of=lambda c: c(x=c.x[..., :1, :], mask=None), hint="softmax of one number is 1.")
multi_head_attention.law("no_output", "exact", "W_o = 0 silences everything",
        lambda op, c: (not np.any(op(**c(W_o=np.zeros_like(c.W_o)))), "with W_o = 0 an output is not 0"),
        hint="Is the output projected at all, and last?")
blind_queries(multi_head_attention, "Compute softmax of equal numbers, however negative. And -inf minus -inf?")


@multi_head_attention("rounding", "scores of ±10,000 are safe", "extremes", hint="exp(1000) overflows: subtract each row's largest.")
def large_scores(op: Subject, **case: Any) -> None:
    D, dtype = case["x"].shape[-1], case["x"].dtype.type
    turned = np.eye(D)[::-1]
    sharp = case | {"W_q": 1024 * np.eye(D).astype(dtype), "W_k": 16 * turned.astype(dtype), "x": np.round(case["x"])}
    expected = oracles.multi_head_attention(**widened(sharp))
    close(op(**sharp), expected, rounding(dtype, D, 1e5 * largest(sharp["x"]) ** 3), "y")


def multi_head_attention_scale(case: dict[str, Any]) -> float:
    D = case["x"].shape[-1]
    x, W = largest(case["x"]), largest(*(case[name] for name in ARRAYS[1:]))
    scores = D * (x * W * D) ** 2 / np.sqrt(D / case["heads"])           # softmax multiplies rounding errors by these
    return x * (W * D) ** 2 * max(1.0, min(scores, 1e3))


def _tolerance(case: dict[str, Any]) -> float:
    return rounding(case["x"].dtype, case["x"].size, multi_head_attention_scale(case))


MULTI_HEAD_ATTENTION = multi_head_attention.spec(
    "y = concat_h(attention(x W_q,h, x W_k,h, x W_v,h)) W_o",
    "multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None) -> y: tokens are rows, x (..., n, D), all W (D, D); "
    "head i owns columns i D/h .. (i + 1) D/h of W_q, W_k, W_v, and those rows of W_o",
    "the mask is boolean, True = may look, and broadcasts to (n, n); scores are divided by √(D/h)",
    "a query that may look at nothing gets zeros",
    case=multi_head_attention_case, wrt=ARRAYS, scale=multi_head_attention_scale,
    special_cases=multi_head_attention_special_cases,
)


cross_attention = SpecBuilder("cross_attention")
linear_in(cross_attention, "W_o", hint="Is the output projected, and last?")


def cross_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = multi_head_attention_case(draw)
    n, m = drawn["x"].shape[-2], draw.size_like(drawn["x"].shape[-2])
    mask = draw.mask(*draw.choose(((n, m), (1, m), (n, 1), (m,)))) if draw.flag() else None
    W = {name: drawn[name] for name in ARRAYS[1:]}
    memory = draw.array(*draw.lead, m, drawn["x"].shape[-1])
    return {"x": drawn["x"], "memory": memory, **W, "heads": drawn["heads"], "mask": mask}


cross_attention.law("of_itself", "rounding", "with memory = x it is self-attention",
        lambda op, c: (op(**c), oracles.multi_head_attention(**widened(c.without("memory")))),
        of=lambda c: c(memory=c.x, mask=None), hint="Which of x and memory do keys and values come from?")
cross_attention.law("orders", "rounding",
        "permuting the memory changes nothing, permuting the queries permutes the outputs", lambda op, c: [
            (op(**c(memory=c.memory[..., ::-1, :].copy())), op(**c), None, "with the memory in another order, y"),
            (op(**c(x=c.x[..., ::-1, :].copy())), op(**c)[..., ::-1, :], None, "with the queries in another order, y"),
        ], of=lambda c: c(mask=None), hint="Which axis of the scores are the keys, and over which does softmax run?")


@cross_attention("exact", "a query moves no bit of another query's output, and a masked token of the memory no bit of any",
        hint="mask[i, j] = may query i look at token j of the memory?")
def who_moves_whom(op: Subject, **case: Any) -> None:
    m = case["memory"].shape[-2]
    case |= {"mask": np.arange(m) != m - 1}
    y, x, memory = op(**case), case["x"].copy(), case["memory"].copy()
    x[..., -1, :] += 3
    same_bits(op(**case | {"x": x})[..., :-1, :], y[..., :-1, :], "with the last query changed, the output of an earlier one")
    memory[..., -1, :] = 100
    same_bits(op(**case | {"memory": memory}), y, "with a masked token changed, y")


blind_queries(cross_attention, "Compute softmax of a row without entries.")
CROSS_ATTENTION = cross_attention.spec(
    "y = concat_h(attention(x W_q,h, memory W_k,h, memory W_v,h)) W_o",
    "cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None) -> y: x (..., n, D), memory (..., m, D), all W "
    "(D, D); head i owns columns i D/h .. (i + 1) D/h of W_q, W_k, W_v, and those rows of W_o",
    "the mask is boolean, True = may look, and broadcasts to (n, m); a query that may look at nothing gets zeros",
    case=cross_attention_case, wrt=("x", "memory", *ARRAYS[1:]),
    scale=lambda case: multi_head_attention_scale(case | {"x": np.concatenate([case["x"], case["memory"]], axis=-2)}),
)


biased_multi_head_attention = SpecBuilder("biased_multi_head_attention")
BIASES = ("b_q", "b_k", "b_v", "b_o")
of_sequences(biased_multi_head_attention)


def biased_multi_head_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = multi_head_attention_case(draw)
    heads, mask = drawn.pop("heads"), drawn.pop("mask")
    return {**drawn, **{name: draw.array(drawn["x"].shape[-1]) for name in BIASES}, "heads": heads, "mask": mask}


biased_multi_head_attention.law("no_biases", "rounding", "with biases of 0 it is multi-head attention without biases",
        lambda op, c: (op(**c), oracles.multi_head_attention(**widened(c.without(*BIASES)))),
        of=lambda c: c(**{name: np.zeros_like(c[name]) for name in BIASES}), hint="Is anything else added?")
biased_multi_head_attention.law("dead_key_bias", "rounding",
        "a bias of the keys changes nothing: softmax ignores a constant added to a row of scores",
        lambda op, c: (op(**c(b_k=0 * c.b_k)), op(**c)),
        hint="b_k adds q · b_k to each score of q's row. Which rows does yours add it to?")


@biased_multi_head_attention("rounding", "the gradient of b_k is 0, and that of b_o is the sum of dy over all tokens", "gradients",
        hint="By how much does y change if b_o does, and if b_k does?")
def bias_gradients(op: Subject, **case: Any) -> None:
    dy = waves(case["x"])
    gradients = op.gradients(case, dy)
    atol = 10 * tolerance(op.spec, case) * largest(gradients["W_k"], gradients["b_q"])
    close(gradients["b_k"], 0 * case["b_k"], atol, "db_k")
    close(gradients["b_o"], np.sum(dy.reshape(-1, dy.shape[-1]).astype(float), axis=0), atol, "db_o")


@biased_multi_head_attention("rounding", "b_v adds b_v W_o to every query that may look at something; b_o is added to every query",
        hint="The weights of a query sum to 1: how much of b_v remains in its average, and where is b_o added?")
def value_bias(op: Subject, **case: Any) -> None:
    bare = op(**case | {"b_v": 0 * case["b_v"], "b_o": 0 * case["b_o"]})
    mask = np.broadcast_to(True if case["mask"] is None else case["mask"], (case["x"].shape[-2],) * 2)
    looks = np.any(mask, axis=-1)[:, None]
    added = looks * (case["b_v"].astype(float) @ case["W_o"]) + case["b_o"]
    close(op(**case), bare + added, 2 * tolerance(op.spec, case), "y")


def biased_multi_head_attention_scale(case: dict[str, Any]) -> float:
    """A bias is counted as one more row of W, for an entry 1 of x."""
    biases = largest(*(case[name] for name in BIASES))
    W = {n: np.append(case[n], np.full_like(case[n][:1], biases), axis=0) for n in ARRAYS[1:]}
    return 4 * multi_head_attention_scale(case | W)


BIASED_MULTI_HEAD_ATTENTION = biased_multi_head_attention.spec(
    "y = concat_h(attention(x W_q,h + b_q,h, x W_k,h + b_k,h, x W_v,h + b_v,h)) W_o + b_o",
    "biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None) -> y: x (..., n, D), all W "
    "(D, D), all b (D,); head i owns columns i D/h .. (i + 1) D/h of W_q, W_k, W_v, and those rows of W_o",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets b_o",
    case=biased_multi_head_attention_case, wrt=(*ARRAYS, *BIASES),
    scale=biased_multi_head_attention_scale,
)


grouped_query_attention = SpecBuilder("grouped_query_attention")
of_sequences(grouped_query_attention)
linear_in(grouped_query_attention, "W_v", hint="Do the weights depend on the values?")


def grouped_query_attention_case(draw: CaseDrawer) -> dict[str, Any]:
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


grouped_query_attention.law("copies", "rounding",
        "it is multi-head attention with a group's keys and values copied for each of its heads",
        lambda op, c: (op(**c), oracles.multi_head_attention(**_ungrouped(c))),
        hint="Which group does head i belong to: i // (h / g), or i % g?")


@grouped_query_attention("rounding", "permuting the heads of a group, or whole groups, in all four matrices, changes nothing",
        hint="Which columns of W_k does head 1 read, and which does the last head read?")
def places(op: Subject, **case: Any) -> None:
    D, heads, groups = case["x"].shape[-1], case["heads"], case["kv_heads"]
    y = op(**case)
    grid = np.arange(D).reshape(groups, heads // groups, -1)
    for what, columns, shared in (("the heads of a group", grid[:, ::-1], 1), ("the groups", grid[::-1], -1)):
        columns = columns.reshape(-1)
        moved = {"W_q": case["W_q"][:, columns], "W_o": case["W_o"][columns]}
        moved |= {n: case[n].reshape(D, groups, -1)[:, ::shared].reshape(D, -1) for n in ("W_k", "W_v")}
        close(op(**case | moved), y, tolerance(op.spec, case), f"with {what} in another order, y")


@grouped_query_attention("rounding", "dW_k and dW_v sum over the heads that share them", "gradients",
        hint="Every head of a group passes a gradient on: are they summed, or averaged?")
def shared_gradients(op: Subject, **case: Any) -> None:
    dy = waves(case["x"])
    each = adapters.multi_head_attention_backward(dy.astype(float), **_ungrouped(case))[2:4]
    gradients = op.gradients(case, dy)
    for name, g in zip(("W_k", "W_v"), each, strict=True):
        summed = np.sum(g.reshape(len(g), case["kv_heads"], case["heads"] // case["kv_heads"], -1), axis=2)
        close(gradients[name], summed.reshape(case[name].shape), 100 * tolerance(op.spec, case), f"d{name}")


GROUPED_QUERY_ATTENTION = grouped_query_attention.spec(
    "y = concat_h(attention(x W_q,h, x W_k,g, x W_v,g)) W_o, with g = h // (heads / kv_heads)",
    "grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None) -> y: x (..., n, D), W_q and W_o (D, D), "
    "W_k and W_v (D, kv_heads D / heads); successive heads share keys and values, kv_heads divides heads",
    "the mask is boolean, True = may look, and broadcasts to (n, n); a query that may look at nothing gets zeros",
    case=grouped_query_attention_case, wrt=ARRAYS, scale=multi_head_attention_scale,
    forms=(Form("more than one head of keys", lambda case: case["kv_heads"] > 1),),
)
