"""Exercises of chapter 16, the Transformer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ...layers import MultiHead
from ...tree import leaves
from ..graders import Function, Number
from ..plain import adjustable, op_spec, plain_spec
from ..prose import Prose

PROSE = Prose(16)
WIDTH, LAYERS = 512, 6                       # of attention_parameters: the paper's base model


def _atol(case: dict[str, Any]) -> float:
    arrays = [x for x in case.values() if np.ndim(x)]
    return 100 * rounding(arrays[0].dtype, arrays[0].size + 10, largest(*arrays, 1) ** 3)


# my_cross_attention_backward
def _projected(x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> tuple[Any, Any, Any]:
    return x @ W_q, memory @ W_k, memory @ W_v


def _cross(x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return ops.attention(*_projected(x, memory, W_q, W_k, W_v))[0]


def _cross_case(draw: CaseDrawer) -> dict[str, Any]:
    """One sequence, often as long as the memory and with d = D, where shapes do not show a mix-up."""
    n, D = draw.size(1, 4), draw.size(1, 4)
    m, d = draw.size_like(n), draw.size_like(D)
    x, memory, size = draw.array(n, D), draw.array(m, D), 0.1 if draw.wide else 1.0
    return {"x": x, "memory": memory, **{name: draw.array(D, d, size=size) for name in ("W_q", "W_k", "W_v")}}


def _cross_scale(case: dict[str, Any]) -> float:
    """The size of a gradient's terms, times the size of the logits: softmax multiplies rounding errors by that."""
    D, d = case["W_q"].shape
    W = largest(case["W_q"], case["W_k"], case["W_v"])
    entry = largest(case["x"], case["memory"]) * W * D             # of q, k and v
    return entry**2 * W * d * max(1.0, min(math.sqrt(d) * entry**2, 1e3))


@adjustable
def _cross_backward(
    dout: Any, x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any, *,
    ds_of: Any = lambda p, dp: ops.softmax_backward(dp, p), scale: Any = lambda q, k: 1 / math.sqrt(q.shape[-1]),
    dmemory_of: Any = lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_k.T + dv @ W_v.T,
    dx_of: Any = lambda dq, dk, dv, W_q, W_k, W_v: dq @ W_q.T,
    dq_of: Any = lambda ds, q, k: ds @ k, dk_of: Any = lambda ds, q, k: ds.T @ q,
    dv_of: Any = lambda p, dout: p.T @ dout, order: tuple[int, int] = (0, 1),
) -> Any:  # fmt: skip
    """-> dx, dmemory."""
    q, k, v = _projected(x, memory, W_q, W_k, W_v)
    p = ops.attention(q, k, v)[1]
    ds = ds_of(p, dout @ v.T) * scale(q, k)
    gradients = dq_of(ds, q, k), dk_of(ds, q, k), dv_of(p, dout)
    both = dx_of(*gradients, W_q, W_k, W_v), dmemory_of(*gradients, W_q, W_k, W_v)
    return both[order[0]], both[order[1]]


CROSS = op_spec(
    "cross_look", "out = softmax(q kᵀ / √d) v, with q = x W_q, k = memory W_k, v = memory W_v", _cross_case, _cross,
    "out", backward=_cross_backward, wrt=("x", "memory"), scale=_cross_scale)  # fmt: skip
WRONG_CROSS = dict(
    values_forgotten=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_k.T),
    keys_forgotten=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dv @ W_v.T),
    averaged=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: (dk @ W_k.T + dv @ W_v.T) / 2),
    w_k_and_w_v_exchanged=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_v.T + dv @ W_k.T),
    w_k_for_both=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: (dk + dv) @ W_k.T),
    w_k_and_w_v_not_transposed=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_k + dv @ W_v),
    w_q_not_transposed=_cross_backward.but(dx_of=lambda dq, dk, dv, W_q, W_k, W_v: dq @ W_q),
    dx_of_self_attention=_cross_backward.but(
        dx_of=lambda dq, dk, dv, W_q, W_k, W_v: dq @ W_q.T + dk @ W_k.T + dv @ W_v.T
    ),
    w_q_forgotten=_cross_backward.but(dx_of=lambda dq, dk, dv, W_q, W_k, W_v: dq),
    w_k_and_w_v_forgotten=_cross_backward.but(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk + dv),
    exchanged=_cross_backward.but(order=(1, 0)),
    not_scaled=_cross_backward.but(scale=lambda q, k: 1),
    divided_by_d=_cross_backward.but(scale=lambda q, k: 1 / q.shape[-1]),
    root_of_the_keys=_cross_backward.but(scale=lambda q, k: 1 / math.sqrt(len(k))),
    dk_not_scaled=_cross_backward.but(dk_of=lambda ds, q, k: ds.T @ q * math.sqrt(q.shape[-1])),
    row_sum_missing=_cross_backward.but(ds_of=lambda p, dp: p * dp),
    mean_for_sum=_cross_backward.but(ds_of=lambda p, dp: p * (dp - np.mean(p * dp, axis=-1, keepdims=True))),
    sum_over_queries=_cross_backward.but(ds_of=lambda p, dp: p * (dp - np.sum(p * dp, axis=0))),
    softmax_forgotten=_cross_backward.but(ds_of=lambda p, dp: dp),
    p_not_transposed=_cross_backward.but(dv_of=lambda p, dout: p @ dout if p.shape[0] == p.shape[1] else p.T @ dout),
    ds_not_transposed=_cross_backward.but(dk_of=lambda ds, q, k: ds @ q if ds.shape[0] == ds.shape[1] else ds.T @ q),
)


# attention_parameters
def _attention_parameters() -> int:
    """The parameters of the library's layer: one layer in each encoder block, two in each decoder block."""
    p = MultiHead(8, bias=False).init(np.random.default_rng(0), WIDTH)
    return LAYERS * (1 + 2) * sum(leaf.size for _, leaf in leaves(p))


# repaired_layer
def _look(x: Any, at: Any, mask: Any = None) -> Any:
    return ops.attention(x, at, at, mask)[0]


@adjustable
def _layer(
    x: Any, memory: Any, lengths: Any, *,
    among_x: Any = lambda n: np.tri(n, dtype=bool),
    to_memory: Any = lambda n, m, lengths: np.arange(m) < lengths[:, None, None],
    first: Any = lambda x, a: x + a, second: Any = lambda x, a: x + a, read: Any = lambda x, memory: memory,
) -> Any:  # fmt: skip
    """Causal self-attention, then attention to the memory; `among_x` and `to_memory` are the masks."""
    n, m = x.shape[1], memory.shape[1]
    y = first(x, _look(x, x, among_x(n)))
    return second(y, _look(y, read(y, memory), to_memory(n, m, lengths)))


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


WRONG_LAYER = dict(
    as_it_was=_layer.but(to_memory=lambda n, m, lengths: np.tri(n, m, dtype=bool)),
    padding_seen=_layer.but(to_memory=lambda n, m, lengths: None),
    causal_memory=_layer.but(
        to_memory=lambda n, m, lengths: np.tri(n, m, dtype=bool) & (np.arange(m) < lengths[:, None, None])
    ),
    one_padding_seen=_layer.but(to_memory=lambda n, m, lengths: np.arange(m) <= lengths[:, None, None]),
    last_word_hidden=_layer.but(to_memory=lambda n, m, lengths: np.arange(m) < lengths[:, None, None] - 1),
    mask_turned=_layer.but(to_memory=lambda n, m, lengths: np.arange(m) >= lengths[:, None, None]),
    by_row=_layer.but(to_memory=lambda n, m, lengths: np.tile(np.arange(m) < lengths[0], (len(lengths), n, 1))),
    queries_hidden=_layer.but(to_memory=lambda n, m, lengths: np.arange(n)[:, None] < lengths[:, None, None]),
    no_causal_mask=_layer.but(among_x=lambda n: None),
    no_diagonal=_layer.but(among_x=lambda n: np.tri(n, k=-1, dtype=bool)),
    only_the_future=_layer.but(among_x=lambda n: np.tri(n, dtype=bool).T),
    no_second_residual=_layer.but(second=lambda x, a: a),
    no_first_residual=_layer.but(first=lambda x, a: a),
    memory_not_read=_layer.but(read=lambda x, memory: x, to_memory=lambda n, m, lengths: None),
    cross_first=_cross_first,
)


# my_beam_step
@adjustable
def _beam_step(
    scores: Any, log_p: Any, width: int, *,
    total: Any = lambda scores, log_p: scores[:, None] + log_p, chosen: Any = lambda t, width: np.argsort(-t)[:width],
    parents: Any = lambda at, k, V: at // V, symbols: Any = lambda at, k, V: at % V,
    gives: Any = lambda t, at, log_p: t[at],
) -> Any:  # fmt: skip
    """-> parents, symbols and sums of the `width` best continuations."""
    k, V = log_p.shape
    t = np.reshape(total(scores, log_p), -1)
    at = chosen(t, width)
    return parents(at, k, V), symbols(at, k, V), gives(t, at, log_p)


def _beam_case(draw: CaseDrawer) -> dict[str, Any]:
    """Scores and probabilities without ties; beginnings are close together or far apart."""
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


WRONG_STEP = dict(
    beginning_not_added=_beam_step.but(total=lambda scores, log_p: log_p),
    multiplied=_beam_step.but(total=lambda scores, log_p: scores[:, None] * log_p),
    probabilities_added=_beam_step.but(total=lambda scores, log_p: scores[:, None] + np.exp(log_p)),
    divided=_beam_step.but(total=lambda scores, log_p: (scores[:, None] + log_p) / 2),
    best_symbol_free=_beam_step.but(
        total=lambda scores, log_p: scores[:, None] + log_p - np.max(log_p, axis=1, keepdims=True)
    ),
    worst_chosen=_beam_step.but(chosen=lambda t, width: np.argsort(t)[:width]),
    best_last=_beam_step.but(chosen=lambda t, width: np.argsort(t)[-width:]),
    in_table_order=_beam_step.but(chosen=lambda t, width: np.sort(np.argsort(-t)[:width])),
    one_too_many=_beam_step.but(chosen=lambda t, width: np.argsort(-t)[: width + 1]),
    greedy=_beam_step.but(chosen=lambda t, width: np.argsort(-t)[:1]),
    all_kept=_beam_step.but(chosen=lambda t, width: np.argsort(-t)),
    rows_of_k=_beam_step.but(parents=lambda at, k, V: at // k, symbols=lambda at, k, V: at % k),
    row_and_column_exchanged=_beam_step.but(parents=lambda at, k, V: at % V, symbols=lambda at, k, V: at // V),
    place_for_row=_beam_step.but(parents=lambda at, k, V: at),
    probabilities=_beam_step.but(gives=lambda t, at, log_p: np.exp(t[at])),
    one_by_one=_beam_step.but(chosen=lambda t, width: np.array([np.argsort(-t)[i] for i in range(width)])),
    best_of_each=_best_of_each,
    from_the_best=_from_the_best,
    last_symbol_alone=_beam_step.but(gives=lambda t, at, log_p: log_p.reshape(-1)[at]),
)


# my_cached_step
def _appended(past: Any, new: Any) -> Any:
    return np.concatenate([past, new], axis=-2)


@adjustable
def _cached_step(
    q: Any, k: Any, v: Any, K: Any, V: Any, *, keys: Any = _appended, values: Any = _appended,
    looks: Any = lambda q, K, V, k, v: ops.attention(q, K, V)[0], kept: Any = lambda K, V, k, v: (K, V),
) -> Any:  # fmt: skip
    """-> out of the new token, and the cache with its key and value."""
    all_k, all_v = keys(K, k), values(V, v)
    return looks(q, all_k, all_v, k, v), *kept(all_k, all_v, k, v)


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


WRONG_CACHED = dict(
    past_only=_cached_step.but(looks=lambda q, K, V, k, v: ops.attention(q, K[..., :-1, :], V[..., :-1, :])[0]),
    place_zero=_cached_step.but(looks=lambda q, K, V, k, v: ops.attention(q, K, V, np.tri(1, K.shape[-2]) > 0)[0]),
    itself_only=_cached_step.but(looks=lambda q, K, V, k, v: v),
    old_cache=_cached_step.but(kept=lambda K, V, k, v: (K[..., :-1, :], V[..., :-1, :])),
    past_lost=_cached_step.but(kept=lambda K, V, k, v: (k, v)),
    k_and_v_exchanged=_cached_step.but(kept=lambda K, V, k, v: (V, K)),
    newest_first=_cached_step.but(keys=lambda K, k: _appended(k, K), values=lambda V, v: _appended(v, V)),
    keys_newest_first=_cached_step.but(keys=lambda K, k: _appended(k, K)),
    overwritten=_cached_step.but(keys=_overwritten, values=_overwritten),
    not_scaled=_cached_step.but(looks=_scaled_by(lambda q, K: 1)),
    divided_by_d=_cached_step.but(looks=_scaled_by(lambda q, K: 1 / q.shape[-1])),
    root_of_the_keys=_cached_step.but(looks=_scaled_by(lambda q, K: 1 / math.sqrt(K.shape[-2]))),
    key_for_query=_cached_step.but(looks=lambda q, K, V, k, v: ops.attention(k, K, V)[0]),
    mean_of_values=_cached_step.but(looks=lambda q, K, V, k, v: ops.softmax(np.ones_like(_scores(q, K))) @ V),
    no_softmax=_cached_step.but(looks=lambda q, K, V, k, v: _scores(q, K) / math.sqrt(q.shape[-1]) @ V),
)


EXERCISES = PROSE.exercises(
    my_cross_attention_backward=Function(CROSS, part="backward", tempting=WRONG_CROSS),
    attention_parameters=Number(
        _attention_parameters, exactly=True, computed="18 attentions of 4 · 512² make 18,874,368."
    ),
    repaired_layer=Function(REPAIRED, tempting=WRONG_LAYER),
    my_beam_step=Function(BEAM_STEP, tempting=WRONG_STEP),
    my_cached_step=Function(CACHED_STEP, tempting=WRONG_CACHED),
)
