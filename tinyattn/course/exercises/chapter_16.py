"""Exercises of chapter 16, the Transformer."""

import math
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ...layers import MultiHead
from ...tree import leaves
from ..graders import Function, Number
from ..plain import Changes, op_spec, plain_spec
from ..prose import Prose

WIDTH, LAYERS = 512, 6                       # of attention_parameters: the paper's base model


def _atol(case: dict[str, Any]) -> float:
    arrays = [x for x in case.values() if np.ndim(x)]
    return 100 * rounding(arrays[0].dtype, arrays[0].size + 10, largest(*arrays, 1) ** 3)


# my_cross_attention_backward
def _projected(x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> tuple[Any, Any, Any]:
    return x @ W_q, memory @ W_k, memory @ W_v


def _cross_case(draw: CaseDrawer) -> dict[str, Any]:
    """One sequence, often as long as the memory and with d = D, so that shapes do not reveal exchanged arrays."""
    n, D = draw.size(1, 4), draw.size(1, 4)
    m, d = draw.size_like(n), draw.size_like(D)
    x, memory, size = draw.array(n, D), draw.array(m, D), 0.1 if draw.wide else 1.0
    return {"x": x, "memory": memory, **{name: draw.array(D, d, size=size) for name in ("W_q", "W_k", "W_v")}}


def _cross_scale(case: dict[str, Any]) -> float:
    """The size of a gradient's terms times that of the logits, by which softmax multiplies rounding errors."""
    D, d = case["W_q"].shape
    W = largest(case["W_q"], case["W_k"], case["W_v"])
    entry = largest(case["x"], case["memory"]) * W * D             # of q, k and v
    return entry**2 * W * d * max(1.0, min(math.sqrt(d) * entry**2, 1e3))


def _cross_backward(dout: Any, x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    """-> dx, dmemory."""
    q, k, v = _projected(x, memory, W_q, W_k, W_v)
    p = ops.attention(q, k, v)[1]
    dp = dout @ v.T
    ds = ops.softmax_backward(dp, p) * (1 / math.sqrt(q.shape[-1]))
    dq, dk, dv = ds @ k, ds.T @ q, p.T @ dout
    dx, dmemory = dq @ W_q.T, dk @ W_k.T + dv @ W_v.T
    return dx, dmemory


CROSS = op_spec(
    "cross_look", "out = softmax(q kᵀ / √d) v, with q = x W_q, k = memory W_k, v = memory W_v", _cross_case,
    lambda x, memory, W_q, W_k, W_v: ops.attention(*_projected(x, memory, W_q, W_k, W_v))[0],
    "out", backward=_cross_backward, wrt=("x", "memory"), scale=_cross_scale)  # fmt: skip
# attention_parameters
def _attention_parameters() -> int:
    """The parameters of the library's layer: one layer in each encoder block, two in each decoder block."""
    p = MultiHead(8, bias=False).init(np.random.default_rng(0), WIDTH)
    return LAYERS * (1 + 2) * sum(leaf.size for _, leaf in leaves(p))


# repaired_layer
def _look(x: Any, at: Any, mask: Any = None) -> Any:
    return ops.attention(x, at, at, mask)[0]


def _layer(x: Any, memory: Any, lengths: Any) -> Any:
    """Causal self-attention, then attention to the memory."""
    n, m = x.shape[1], memory.shape[1]
    y = x + _look(x, x, np.tri(n, dtype=bool))
    return y + _look(y, memory, np.arange(m) < lengths[:, None, None])


def _layer_case(draw: CaseDrawer) -> dict[str, Any]:
    """Two tokens or more in both sequences, and a row whose memory ends early."""
    rows, n, D = draw.size(2, 3), draw.size(2, 4), draw.size(1, 3)
    m = max(2, draw.size_like(n))
    lengths = draw.rng.integers(1, m + 1, rows)
    lengths[:2] = m - 1, m
    return {"x": draw.array(rows, n, D), "memory": draw.array(rows, m, D), "lengths": lengths}


REPAIRED = plain_spec(
    "repaired_layer", "x + look(x, x) under a causal mask, then + look(x, memory) where memory is real", _layer_case,
    _layer, "y", atol=_atol)  # fmt: skip


def _cross_first(x: Any, memory: Any, lengths: Any) -> Any:
    y = x + _look(x, memory, np.arange(memory.shape[1]) < lengths[:, None, None])
    return y + _look(y, y, np.tri(x.shape[1], dtype=bool))


# my_beam_step
def _beam_step(scores: Any, log_p: Any, width: int) -> Any:
    """-> parents, symbols and sums of the `width` best continuations."""
    V = log_p.shape[1]
    t = np.reshape(scores[:, None] + log_p, -1)
    at = np.argsort(-t)[:width]
    return at // V, at % V, t[at]


def _beam_case(draw: CaseDrawer) -> dict[str, Any]:
    """Scores and log-probabilities without ties. The scores of the beginnings are close together or far apart."""
    k, V = draw.size(1, 4), draw.size(2, 5)
    scores = -draw.rng.random(k) * draw.choose((1.0, 4.0))
    log_p = np.log(ops.softmax(draw.choose((1.0, 2.0)) * draw.rng.standard_normal((k, V))))
    scores, log_p = (np.asarray(x, draw.dtype) for x in (scores, log_p))
    return {"scores": scores, "log_p": log_p, "width": draw.size(1, k * V + 2)}


BEAM_STEP = plain_spec(
    "beam_step", "the `width` best of all scores[i] + log_p[i, j], best first: i, j and the sum", _beam_case,
    _beam_step, "parents", "symbols", "scores", atol=_atol)  # fmt: skip


def _best_of_each(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
    """The best symbol of each beginning only."""
    symbols = np.argmax(log_p, axis=1)
    total = scores + log_p[np.arange(len(scores)), symbols]
    at = np.argsort(-total)[:width]
    return at, symbols[at], total[at]


def _from_the_best(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
    """Continuations of the best beginning only."""
    best = int(np.argmax(scores))
    at = np.argsort(-log_p[best])[:width]
    return np.full(len(at), best), at, scores[best] + log_p[best, at]


# my_cached_step
def _appended(past: Any, new: Any) -> Any:
    return np.concatenate([past, new], axis=-2)


def _cached_step(q: Any, k: Any, v: Any, K: Any, V: Any) -> Any:
    """-> out of the new token, and the cache with its key and value."""
    all_k, all_v = _appended(K, k), _appended(V, v)
    new_K, new_V = all_k, all_v
    return ops.attention(q, all_k, all_v)[0], new_K, new_V


def _cached_case(draw: CaseDrawer) -> dict[str, Any]:
    """With leading axes or none; the past may be empty."""
    lead, t = draw.choose(((), (1,), (2,), (2, 3))), draw.choose((0, 1, 2, 3, 5))
    d = draw.size(1, 4)
    e = draw.size_like(d)
    q, k, v = draw.array(*lead, 1, d), draw.array(*lead, 1, d), draw.array(*lead, 1, e)
    return {"q": q, "k": k, "v": v, "K": draw.array(*lead, t, d), "V": draw.array(*lead, t, e)}


CACHED_STEP = plain_spec(
    "cached_step", "K' = K with k below, V' = V with v below, out = softmax(q K'ᵀ / √d) V'", _cached_case,
    _cached_step, "out", "K", "V", atol=_atol)  # fmt: skip


def _scores(q: Any, K: Any) -> Any:
    return q @ np.swapaxes(K, -1, -2)


def _scaled_by(of: Any) -> Any:
    return lambda q, K, V, k, v: ops.softmax(_scores(q, K) * of(q, K)) @ V


def _overwritten(past: Any, new: Any) -> Any:
    return np.concatenate([past[..., :-1, :], new], axis=-2)


EXERCISES = Prose(16).exercises(
    my_cross_attention_backward=Function(CROSS, part="backward", tempting=Changes(_cross_backward)),
    attention_parameters=Number(
        _attention_parameters, exactly=True, computed="18 attentions of 4 · 512² make 18,874,368."
    ),
    repaired_layer=Function(REPAIRED, tempting=Changes(_layer, cross_first=_cross_first)),
    my_beam_step=Function(
        BEAM_STEP, tempting=Changes(_beam_step, best_of_each=_best_of_each, from_the_best=_from_the_best)
    ),
    my_cached_step=Function(CACHED_STEP, tempting=Changes(_cached_step)),
)
