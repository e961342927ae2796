"""Attention that costs less: linear, by random features, through a window, in blocks of pairs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from .. import oracles
from ..common import tolerance
from ..families import Case, averages, causal, onto_itself
from ..property import largest, rounding
from ..spec import Form, Spec
from ..subject import MissingError
from .builder import Call, CaseDrawer, SpecBuilder, Subject

linear_attention = SpecBuilder("linear_attention")
FORMS = ("chunked", "parallel", "recurrent")


def real_keys(mask: np.ndarray, case: dict[str, Any]) -> np.ndarray:
    return mask if case["keys"] is None else mask & case["keys"][..., None, :]


def linear_attention_seen(case: dict[str, Any]) -> np.ndarray:
    n, m = case["q"].shape[-2], case["k"].shape[-2]
    return real_keys(np.tri(n, m, dtype=bool) if case["causal"] else np.ones((n, m), bool), case)


averages(linear_attention, linear_attention_seen)
causal(linear_attention, *"qkv", of=lambda case: onto_itself(case) | {"causal": True, "keys": None}, hint="Where does the sum over keys end?")


def linear_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    """Queries and keys away from 0, where the second derivative of φ jumps."""
    causal, n, d = draw.choose((True, False)), draw.tokens(), draw.size()
    m = n if causal else draw.size_like(n)
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    for x in (q, k):
        x[np.abs(x) < 0.01] = 0.5
    keys = draw.mask(*draw.choose(((*draw.lead, m), (m,)))) if draw.flag() else None
    v = draw.array(*draw.lead, m, draw.size_like(d))
    return {"q": q, "k": k, "v": v, "causal": causal, "keys": keys, "form": draw.choose(FORMS)}


def equal_forms(
    states: SpecBuilder, every: tuple[Any, ...], hint: str, atol: Callable[[Spec, Case], float], argument: str = "form",
    says: str = "",
) -> None:  # fmt: skip
    """State that an op gives the same result for each value of an argument, by default `form`."""

    def sides(op: Subject, c: Call) -> Any:
        if argument in op.lacks:
            raise MissingError(f"{op.spec.function} takes no `{argument}`")
        first = op(**c)
        for form in every:
            what = f"{form if argument == 'form' else f'{argument} {form}'}: {op.spec.outputs[0]}"
            yield op(**c | {argument: form}), first, atol(op.spec, c), what

    says = says or f"its forms, {', '.join(every)}, give equal results"
    states.law(f"{argument}s", "rounding", says, sides, hint=hint)


equal_forms(linear_attention, FORMS, hint="Which pairs of a chunk are counted, and which were counted before it?",
            atol=lambda spec, case: rounding(case["q"].dtype, case["q"].size + case["k"].size, spec.scale(case)))  # fmt: skip


LINEAR_ATTENTION = linear_attention.spec(
    "out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = ELU(x) + 1, causal: over j <= i",
    "linear_attention(q, k, v, causal=True, keys=None, form='chunked') -> out first: q (..., n, d), k (..., m, d), "
    "v (..., m, e)",
    "keys broadcasts to (..., m), True = a real key; a query that may look at nothing gets zeros",
    case=linear_attention_case, outputs=("out",), wrt=("q", "k", "v"), choices=("denominator",),
)


performer_attention = SpecBuilder("performer_attention")
averages(performer_attention, linear_attention_seen)
causal(performer_attention, *"qkv", of=lambda case: onto_itself(case) | {"causal": True, "keys": None},
       hint="Which maximum is subtracted from a key's exponents: does it include later keys?")  # fmt: skip
equal_forms(performer_attention, FORMS, hint="By how much does a sum shrink when a larger key comes, and how often?", atol=tolerance)


def performer_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    causal, n, d, m = draw.choose((True, False)), draw.tokens(), draw.size(), draw.tokens()
    m = n if causal else m
    q, k = (draw.array(*draw.lead, rows, d) for rows in (n, m))
    v, W = draw.array(*draw.lead, m, draw.size_like(d)), draw.array(draw.size_like(d), d)
    keys = draw.mask(*draw.choose(((*draw.lead, m), (m,)))) if draw.flag() else None
    return {"q": q, "k": k, "v": v, "W": W, "causal": causal, "keys": keys, "form": draw.choose(FORMS)}


performer_attention.law("padding", "exact", "keys that are padding move nothing", lambda op, c: (
            np.array_equal(op(**c), op(**c | {x: np.where(c["keys"][:, None], c[x], c[x].dtype.type(9)) for x in "kv"})),
            "a key that is padding moves the output",
        ), of=lambda c: c(keys=np.arange(c.k.shape[-2]) % 3 != 2),
        hint="Is the largest exponent taken over all keys, or over the real ones?", gravity="leak")
performer_attention.law("long_keys", "rounding", "for keys and queries of any length, equal values come out unchanged",
        lambda op, c: (
            out := op(**c(q=30 * c.q, k=30 * c.k, v=np.ones_like(c.v))),
            np.broadcast_to(np.any(linear_attention_seen(c), axis=-1)[..., None].astype(float), out.shape),
        ), "extremes", hint="exp overflows, or all features of a key vanish: what may be subtracted?")


def performer_attention_scale(case: dict[str, Any]) -> float:
    """An exponent has the rounding error of sums as large as |W| |x| d and |x|² d, and multiplies v."""
    x = largest(case["q"], case["k"])
    return 4 * (largest(case["W"]) * x + x**2) * largest(case["v"])


PERFORMER_ATTENTION = performer_attention.spec(
    "out_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j), φ(x) = exp(W x̂ - |x̂|²/2), x̂ = x d^(-1/4), causal: over "
    "j <= i",
    "performer_attention(q, k, v, W, causal=True, keys=None, form='chunked') -> out first: q (..., n, d), "
    "k (..., m, d), v (..., m, e), W (features, d)",
    "keys broadcasts to (..., m), True = a real key; a query that may look at nothing gets zeros",
    case=performer_attention_case, outputs=("out",), wrt=("q", "k", "v"), scale=performer_attention_scale,
)


window_attention = SpecBuilder("window_attention")


def _under(c: Call, mask: np.ndarray) -> Any:
    """The output of attention with this mask."""
    q, k, v = (c[name].astype(float) for name in "qkv")
    return oracles.attention(q, k, v, mask, scale=c.scale)[0]


def window_attention_case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    q, k, v = (draw.array(*draw.lead, n, width) for width in (d, d, draw.size_like(d)))
    keys = draw.mask(*draw.choose(((*draw.lead, n), (n,)))) if draw.flag() else None
    window = draw.choose((1, 2, 3, 5, n, n + 3))
    return {"q": q, "k": k, "v": v, "window": window, "causal": draw.choose((True, False)), "keys": keys,
            "scale": draw.choose((None, 0.7))}  # fmt: skip


def window_attention_seen(case: dict[str, Any]) -> np.ndarray:
    back = np.arange(case["q"].shape[-2])[:, None] - np.arange(case["k"].shape[-2])
    return real_keys((back < case["window"]) & (back >= 0 if case["causal"] else back > -case["window"]), case)


averages(window_attention, window_attention_seen)


def with_key_moved(case: dict[str, Any], key: int) -> dict[str, Any]:
    moved = case | {name: case[name].copy() for name in ("k", "v")}
    for name in ("k", "v"):
        moved[name][..., key, :] += 1
    return moved


window_attention.law("reach", "exact",
        "a token moves the outputs whose window contains it, and no other by a single bit", lambda op, c: (
            (op(**with_key_moved(c, key))[..., blind, :], out[..., blind, :], 0,
             f"with key {key} changed, an output too far from it")
            for out in [op(**c)] for key in (0, c.q.shape[-2] // 2, c.q.shape[-2] - 1)
            for blind in [~window_attention_seen(c(keys=None))[:, key]]
        ), bits=True, hint="A window of W is the query itself and W - 1 tokens before it: count them.", gravity="leak")
window_attention.law("wide_open", "rounding", "with a window of n or more, it is attention", lambda op, c: (
            (op(**c(window=window)), _under(c, window_attention_seen(c(window=n))),
             rounding(c.q.dtype, c.q.size, op.spec.scale(c)),
             f"with a window of {window}, out")
            for n in [c.q.shape[-2]] for window in (n, n + 1, 10 * n)
        ), hint="What happens where the window exceeds n?")

WINDOW_ATTENTION = window_attention.spec(
    "softmax attention in which query i looks at keys j with 0 <= i - j < window (not causal: |i - j| < window)",
    "window_attention(q, k, v, window, causal=True, keys=None, keep=None, rate=0.0, scale=None) -> out first: "
    "q, k (..., n, d), v (..., n, e)",
    "keys broadcasts to (..., n), True = a real key; a query that may look at nothing gets zeros",
    case=window_attention_case, outputs=("out",), wrt=("q", "k", "v"),
)


block_sparse_attention = SpecBuilder("block_sparse_attention")


def block_sparse_attention_case(draw: CaseDrawer) -> dict[str, Any]:
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
    """Most of these queries, in blocks of `a` queries and `b` keys; -1 marks an empty place."""
    rng, a, b = draw.rng, draw.choose((1, 2, 3)), draw.choose((1, 2, m, m + 2))
    queries = queries[: max(len(queries) - draw.choose((0, 0, 1)), 0)]
    z = -(-len(queries) // a)
    queries = np.concatenate([queries, np.full(z * a - len(queries), -1)]).reshape(z, a)
    keys = rng.permuted(np.tile(np.r_[np.arange(m), -1, -1, -1], (z, 1)), axis=1)[:, :b]
    return ops.Blocks(queries, keys, draw.mask(z, a, keys.shape[1]) if draw.flag() else None)


def block_sparse_attention_seen(case: dict[str, Any]) -> np.ndarray:
    return real_keys(case["layout"].mask, case)


averages(block_sparse_attention, block_sparse_attention_seen)
block_sparse_attention.law("under_its_mask", "rounding", "it is attention under the layout's mask",
        lambda op, c: [] if c.bias is not None else (
            op(**c), _under(c, block_sparse_attention_seen(c)), rounding(c.q.dtype, c.q.size, op.spec.scale(c))
        ), hint="Whose rows does a block gather?")
block_sparse_attention.law("reach", "exact",
        "a key moves the outputs of blocks that contain it, and no other by a single bit", lambda op, c: (
            (op(**with_key_moved(c, key))[..., blind, :], out[..., blind, :], 0,
             f"with key {key} changed, an output that lacks it")
            for out in [op(**c)] for key in range(c.k.shape[-2]) for blind in [~c.layout.mask[:, key]]
        ), bits=True, hint="What does an empty place read, and who looks at it?", gravity="leak")

BLOCK_SPARSE_ATTENTION = block_sparse_attention.spec(
    "softmax attention in which only the blocks of a layout are computed",
    "block_sparse_attention(q, k, v, layout, keys=None, bias=None, keep=None, scale=None) -> out first: "
    "q (..., n, d), k (..., m, d), v (..., m, e); layout.groups have queries (z, a), keys (z, b), -1 for an empty "
    "place, and allowed (z, a, b) or None",
    "a query in no block, or that may look at nothing, gets zeros",
    "keys broadcasts to (..., m), True = a real key; a bias, for a layout of one group, to (..., z, a, b)",
    case=block_sparse_attention_case,
    forms=(Form("a query that may look at nothing", lambda case: not np.all(np.any(block_sparse_attention_seen(case), axis=-1)), ours=True),),
    outputs=("out",), wrt=("q", "k", "v", "bias"),
)
