"""Exercises of chapter 14, the Transformer."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import Property, close, largest, rounding, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ...layers import MultiHead
from ...tree import leaves
from ..exercise import Exercise
from ..graders import Function, Number

CHAPTER = 14
WIDTH, LAYERS = 512, 6                       # of attention_parameters: the paper's base model


def _compared(name: str, says: str, case: Any, ours: Any, outputs: tuple[str, ...]) -> Spec:
    """One whose only property is that the answer gives what `ours` gives."""
    properties: list[Property] = []
    states = stating(name, properties)

    @states("rounding", says, "oracle", hint="Do the example on paper.")
    def by_hand(op: Subject, **case: Any) -> None:
        expected, arrays = ours(**case), [x for x in case.values() if np.ndim(x)]
        atol = 100 * rounding(arrays[0].dtype, arrays[0].size + 10, largest(*arrays, 1) ** 3)
        both = op.outputs(**case), expected if len(outputs) > 1 else (expected,)
        for what, got, x in zip(outputs, *both, strict=True):
            close(got, x, atol, what)

    return Spec(
        name=name,
        says=says,
        function=name,
        case=case,
        ours=lambda: SimpleNamespace(**{name: ours}),
        properties=properties,
        outputs=outputs,
        common=False,
    )


# --- my_cross_attention_backward ------------------------------------------------------------------------------------


def _projected(x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> tuple[Any, Any, Any]:
    return x @ W_q, memory @ W_k, memory @ W_v


def _cross(x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> Any:
    return ops.attention(*_projected(x, memory, W_q, W_k, W_v))[0]


def _cross_case(draw: CaseDrawer) -> dict[str, Any]:
    """One sequence, often as long as the memory and with d = D: then shapes forgive what is mixed up."""
    n, D = draw.size(1, 4), draw.size(1, 4)
    m, d = draw.size_like(n), draw.size_like(D)
    x, memory, size = draw.array(n, D), draw.array(m, D), 0.1 if draw.wide else 1.0
    return {"x": x, "memory": memory, **{name: draw.array(D, d, size=size) for name in ("W_q", "W_k", "W_v")}}


def _cross_scale(case: dict[str, Any]) -> float:
    """Of what is added up in a gradient, times what rounding is multiplied by in softmax: the size of its logits."""
    D, d = case["W_q"].shape
    W = largest(case["W_q"], case["W_k"], case["W_v"])
    entry = largest(case["x"], case["memory"]) * W * D             # of q, k and v
    return entry**2 * W * d * max(1.0, min(math.sqrt(d) * entry**2, 1e3))


def _cross_backward(dout: Any, x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> tuple[Any, Any]:
    return _backward_with()(dout, x, memory, W_q, W_k, W_v)


CROSS = Spec(
    name="cross_look",
    says="out = softmax(q kᵀ / √d) v, with q = x W_q, k = memory W_k, v = memory W_v",
    function="cross_look",
    case=_cross_case,
    ours=lambda: SimpleNamespace(cross_look=_cross, cross_look_backward=_cross_backward),
    properties=[],
    outputs=("out",),
    oracle=_cross,
    wrt=("x", "memory"),
    scale=_cross_scale,
)


def _softmax_back(p: Any, dp: Any) -> Any:
    return p * (dp - np.sum(p * dp, axis=-1, keepdims=True))


def _backward_with(
    ds_of: Callable[..., Any] = _softmax_back, scale: Any = lambda q, k: 1 / math.sqrt(q.shape[-1]),
    dmemory_of: Any = lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_k.T + dv @ W_v.T,
    dx_of: Any = lambda dq, dk, dv, W_q, W_k, W_v: dq @ W_q.T,
    dq_of: Any = lambda ds, q, k: ds @ k, dk_of: Any = lambda ds, q, k: ds.T @ q,
    dv_of: Any = lambda p, dout: p.T @ dout, order: tuple[int, int] = (0, 1),
) -> Any:  # fmt: skip
    """The backward, with one line written otherwise."""

    def backward(dout: Any, x: Any, memory: Any, W_q: Any, W_k: Any, W_v: Any) -> tuple[Any, Any]:
        q, k, v = _projected(x, memory, W_q, W_k, W_v)
        p = ops.attention(q, k, v)[1]
        ds = ds_of(p, dout @ v.T) * scale(q, k)
        gradients = dq_of(ds, q, k), dk_of(ds, q, k), dv_of(p, dout)
        found = dx_of(*gradients, W_q, W_k, W_v), dmemory_of(*gradients, W_q, W_k, W_v)
        return found[order[0]], found[order[1]]

    return backward


_PATHS = "In how many of the three products stands `memory`?"
_TURNED = "k = memory W_k is (m, d), and dk as well. By what do you multiply to come back to (m, D)?"
_SCALED = "s = q kᵀ / √d: where is the root in dq and dk?"
WRONG_CROSS = (
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_k.T), _PATHS,
     "The path through the values is missing: + dv W_vᵀ."),
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dv @ W_v.T), _PATHS,
     "The path through the keys is missing: dk W_kᵀ + ..."),
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: (dk @ W_k.T + dv @ W_v.T) / 2),
     "Two paths lead to memory. Are gradients of two uses averaged, or added?",
     "They are added, not averaged."),
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_v.T + dv @ W_k.T),
     "Which matrix made k, and which made v?", "W_k and W_v have changed places in dmemory."),
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: (dk + dv) @ W_k.T),
     "Which matrix made k, and which made v?", "dv goes back through W_v, not through W_k."),
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk @ W_k + dv @ W_v), _TURNED,
     "W_k and W_v must be transposed in dmemory."),
    (_backward_with(dx_of=lambda dq, dk, dv, W_q, W_k, W_v: dq @ W_q),
     "q = x W_q is (n, d), and dq as well. By what do you multiply to come back to (n, D)?",
     "W_q must be transposed in dx."),
    (_backward_with(dx_of=lambda dq, dk, dv, W_q, W_k, W_v: dq @ W_q.T + dk @ W_k.T + dv @ W_v.T),
     "Of which tokens are keys and values made here?",
     "That is self-attention's dx. Here keys and values come from memory, and their gradients go there."),
    (_backward_with(dx_of=lambda dq, dk, dv, W_q, W_k, W_v: dq),
     "dq is the gradient of q = x W_q. Is that the gradient of x?", "dq still has to pass W_q: dx = dq W_qᵀ."),
    (_backward_with(dmemory_of=lambda dq, dk, dv, W_q, W_k, W_v: dk + dv),
     "k = memory W_k. Is dk the gradient of memory?", "dk and dv still have to pass W_k and W_v."),
    (_backward_with(order=(1, 0)), "Of which tokens are queries made, and in which order are the gradients asked for?",
     "dx and dmemory have changed places."),
    (_backward_with(scale=lambda q, k: 1), _SCALED, "The factor 1 / √d of the logits is missing in dq and dk."),
    (_backward_with(scale=lambda q, k: 1 / q.shape[-1]), _SCALED, "It is √d, not d."),
    (_backward_with(scale=lambda q, k: 1 / math.sqrt(len(k))), "√d: is d the width, or the number of keys?",
     "That is the root of the number of keys; d is the width of q and k."),
    (_backward_with(dk_of=lambda ds, q, k: ds.T @ q * math.sqrt(q.shape[-1])), "Is dk divided by √d, as dq is?"),
    (_backward_with(ds_of=lambda p, dp: p * dp), "What does softmax's backward subtract of dp?",
     "Softmax's backward is p (dp - Σ p dp); the sum is missing."),
    (_backward_with(ds_of=lambda p, dp: p * (dp - np.mean(p * dp, axis=-1, keepdims=True))),
     "What does softmax's backward subtract of dp: a sum, or a mean?", "Σ_j p_j dp_j is a sum over keys."),
    (_backward_with(ds_of=lambda p, dp: p * (dp - np.sum(p * dp, axis=0))),
     "Over which axis did softmax run?", "The sum of p dp runs over the keys, axis=-1."),
    (_backward_with(ds_of=lambda p, dp: dp), "p = softmax(s): which gradient is that of s?",
     "Softmax's backward is missing: dp is the gradient of p, not of s."),
    (_backward_with(dv_of=lambda p, dout: p @ dout if p.shape[0] == p.shape[1] else p.T @ dout),
     "out = p v. Value j is read by all queries: over which axis of p do you sum?", "p must be transposed in dv."),
    (_backward_with(dk_of=lambda ds, q, k: ds @ q if ds.shape[0] == ds.shape[1] else ds.T @ q),
     "Key j is met by all queries: over which axis of ds do you sum?", "ds must be transposed in dk."),
)  # fmt: skip


# --- attention_parameters -------------------------------------------------------------------------------------------


def _attention_parameters() -> int:
    """Counted in the library's layer; an encoder's block has one of them, a decoder's two."""
    p = MultiHead(8, bias=False).init(np.random.default_rng(0), WIDTH)
    return LAYERS * (1 + 2) * sum(leaf.size for _, leaf in leaves(p))


# --- repaired_layer -------------------------------------------------------------------------------------------------


def _look(x: Any, at: Any, mask: Any = None) -> Any:
    return ops.attention(x, at, at, mask)[0]


def _layer_with(
    own: Any = lambda n: np.tri(n, dtype=bool),
    other: Any = lambda n, m, lengths: np.arange(m) < lengths[:, None, None],
    first: Any = lambda x, a: x + a, second: Any = lambda x, a: x + a, read: Any = lambda x, memory: memory,
) -> Any:  # fmt: skip
    """The layer, with one line written otherwise."""

    def layer(x: Any, memory: Any, lengths: Any) -> Any:
        n, m = x.shape[1], memory.shape[1]
        y = first(x, _look(x, x, own(n)))
        return second(y, _look(y, read(y, memory), other(n, m, lengths)))

    return layer


_layer = _layer_with()


def _layer_case(draw: CaseDrawer) -> dict[str, Any]:
    """At least two tokens in both sequences, and one row that is shorter than the memory."""
    rows, n, D = draw.size(2, 3), draw.size(2, 4), draw.size(1, 3)
    m = max(2, draw.size_like(n))
    lengths = draw.rng.integers(1, m + 1, rows)
    lengths[:2] = m - 1, m
    return {"x": draw.array(rows, n, D), "memory": draw.array(rows, m, D), "lengths": lengths}


REPAIRED = _compared(
    "repaired_layer", "x + look(x, x) under a causal mask, then + look(x, memory) where memory is real", _layer_case,
    _layer, ("y",),
)  # fmt: skip
_MAY = "Which words of the memory may the first written token look at, and at which may nobody look?"
_OWN = "Which of the two attentions could see what is still to be written?"


def _by_row(n: int, m: int, lengths: Any) -> Any:
    return np.broadcast_to(np.arange(m) < lengths[0], (len(lengths), n, m))


def _cross_first(x: Any, memory: Any, lengths: Any) -> Any:
    y = x + _look(x, memory, np.arange(memory.shape[1]) < lengths[:, None, None])
    return y + _look(y, y, np.tri(x.shape[1], dtype=bool))


WRONG_LAYER = (
    (_layer_with(other=lambda n, m, lengths: np.tri(n, m, dtype=bool)), "What has changed?",
     "It is as it was: the first token sees one word of the memory."),
    (_layer_with(other=lambda n, m, lengths: None), _MAY, "Nothing hides the padding: lengths are not used."),
    (_layer_with(other=lambda n, m, lengths: np.tri(n, m, dtype=bool) & (np.arange(m) < lengths[:, None, None])),
     _MAY, "Padding is hidden now, but the memory is still looked at causally. It has been read: all may be seen."),
    (_layer_with(other=lambda n, m, lengths: np.arange(m) <= lengths[:, None, None]), _MAY,
     "One word of padding is seen: real are the positions 0 to length - 1."),
    (_layer_with(other=lambda n, m, lengths: np.arange(m) < lengths[:, None, None] - 1), _MAY,
     "The last real word is hidden: real are the positions 0 to length - 1."),
    (_layer_with(other=lambda n, m, lengths: np.arange(m) >= lengths[:, None, None]), "What does True mean?",
     "True = may look. Yours shows the padding, and hides the rest."),
    (_layer_with(other=_by_row), "Has every row of the batch the same length?",
     "The first row's length is used for all rows."),
    (_layer_with(other=lambda n, m, lengths: np.arange(n)[:, None] < lengths[:, None, None]),
     "Which axis of the scores (n, m) do lengths speak of?",
     "Lengths count words of the memory, which are keys. You hide queries."),
    (_layer_with(own=lambda n: None), _OWN,
     "The causal mask of self-attention is gone: written tokens now see later ones. That line was right."),
    (_layer_with(own=lambda n: np.tri(n, k=-1, dtype=bool)), "May a token look at itself?",
     "The diagonal of the causal mask is gone. That line was right."),
    (_layer_with(own=lambda n: np.tri(n, dtype=bool).T), "mask[i, j]: which of the two is the query?",
     "The causal mask is turned round: only the future is left."),
    (_layer_with(second=lambda x, a: a), "What is left of x after cross-attention?",
     "The residual of cross-attention is gone. That was right."),
    (_layer_with(first=lambda x, a: a), "What is left of x after self-attention?",
     "The residual of self-attention is gone. That was right."),
    (_layer_with(read=lambda x, memory: x, other=lambda n, m, lengths: None),
     "Where do keys and values of cross-attention come from?", "The memory is not read at all."),
    (_cross_first, "In which order do the two attentions come?", "They have changed places. Their order was right."),
)  # fmt: skip


# --- my_beam_step ---------------------------------------------------------------------------------------------------


def _beam_step(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
    return _step_with()(scores, log_p, width)


def _step_with(
    total: Any = lambda scores, log_p: scores[:, None] + log_p, chosen: Any = lambda t, width: np.argsort(-t)[:width],
    parents: Any = lambda at, k, V: at // V, symbols: Any = lambda at, k, V: at % V,
    gives: Any = lambda t, at: t[at],
) -> Any:  # fmt: skip
    """The step, with one line written otherwise."""

    def step(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
        k, V = log_p.shape
        t = np.reshape(total(scores, log_p), -1)
        at = chosen(t, width)
        return parents(at, k, V), symbols(at, k, V), gives(t, at)

    return step


def _beam_case(draw: CaseDrawer) -> dict[str, Any]:
    """Scores and probabilities without ties, of which some beginnings are far ahead, and some close."""
    k, V = draw.size(1, 4), draw.size(2, 5)
    scores = -draw.rng.random(k) * draw.choose((1.0, 4.0))
    log_p = np.log(ops.softmax(draw.choose((1.0, 2.0)) * draw.rng.standard_normal((k, V))))
    scores, log_p = (np.asarray(x, draw.dtype) for x in (scores, log_p))
    return {"scores": scores, "log_p": log_p, "width": draw.size(1, k * V + 2)}


BEAM_STEP = _compared(
    "beam_step", "the `width` best of all scores[i] + log_p[i, j], best first: i, j and the sum", _beam_case,
    _beam_step, ("parents", "symbols", "scores"),
)  # fmt: skip


def _best_of_each(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
    """The best symbol of each beginning only."""
    symbols = np.argmax(log_p, axis=1)
    total = scores + log_p[np.arange(len(scores)), symbols]
    at = np.argsort(-total)[:width]
    return at, symbols[at], total[at]


def _from_the_best(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
    """What follows the best beginning, and nothing else."""
    best = int(np.argmax(scores))
    at = np.argsort(-log_p[best])[:width]
    return np.full(len(at), best), at, scores[best] + log_p[best, at]


def _one_by_one(scores: Any, log_p: Any, width: int) -> tuple[Any, Any, Any]:
    """As many as are asked for, though there may be fewer."""
    return _step_with(chosen=lambda t, width: np.array([np.argsort(-t)[i] for i in range(width)]))(scores, log_p, width)


_SUM = "A string's probability is the product of its symbols'. What is its logarithm?"
_WHERE = "The sums are (k, V), and laid out row by row. Which row and which column is entry 7, for V = 3?"
WRONG_STEP = (
    (_step_with(total=lambda scores, log_p: log_p), _SUM,
     "The beginning's own score is not added: a good symbol after a bad beginning wins."),
    (_step_with(total=lambda scores, log_p: scores[:, None] * log_p), _SUM,
     "Logarithms are added; their product is positive, and larger where both are worse."),
    (_step_with(total=lambda scores, log_p: scores[:, None] + np.exp(log_p)), _SUM,
     "Scores are logarithms, and log_p is one already: add it as it is."),
    (_step_with(total=lambda scores, log_p: (scores[:, None] + log_p) / 2), _SUM,
     "The sum is divided. A score is the sum of all logarithms."),
    (_step_with(total=lambda scores, log_p: scores[:, None] + log_p - np.max(log_p, axis=1, keepdims=True)), _SUM,
     "Every row is moved to a maximum of 0: then the best symbol costs nothing, whatever its probability."),
    (_step_with(chosen=lambda t, width: np.argsort(t)[:width]), "Which is the better score: -1, or -5?",
     "The worst are chosen: argsort counts up, so sort -t."),
    (_step_with(chosen=lambda t, width: np.argsort(t)[-width:]), "In which order are they asked for?",
     "They are the right ones, the best last. Reverse them."),
    (_step_with(chosen=lambda t, width: np.sort(np.argsort(-t)[:width])), "In which order are they asked for?",
     "They are the right ones, in the order of the table. Wanted is the best first."),
    (_step_with(chosen=lambda t, width: np.argsort(-t)[: width + 1]), "How many are asked for?", "One too many."),
    (_step_with(chosen=lambda t, width: np.argsort(-t)[:1]), "How many are asked for?",
     "Only the best is kept: that is greedy decoding."),
    (_step_with(chosen=lambda t, width: np.argsort(-t)), "How many are asked for?", "All are kept: cut off at width."),
    (_step_with(parents=lambda at, k, V: at // k, symbols=lambda at, k, V: at % k), _WHERE,
     "Rows are V long: row at // V, column at % V."),
    (_step_with(parents=lambda at, k, V: at % V, symbols=lambda at, k, V: at // V), _WHERE,
     "Row and column have changed places."),
    (_step_with(parents=lambda at, k, V: at), _WHERE, "That is the place in the whole table: the row is at // V."),
    (_step_with(gives=lambda t, at: np.exp(t[at])), "Are probabilities asked for, or their logarithms?",
     "The scores are logarithms, so that the next step can add to them."),
    (_one_by_one, "How many extensions are there with k = 1 and V = 3, if width is 5?",
     "There are k V of them, which may be fewer than width: [:width] takes what there is."),
    (_best_of_each, "May two of the best have the same beginning?",
     "Each beginning goes on with its best symbol only. Compare all k V of them."),
    (_from_the_best, "May the second best have another beginning than the best?",
     "Only the best beginning goes on. Compare what follows all of them."),
    (lambda scores, log_p, width: _step_with(gives=lambda t, at: log_p.reshape(-1)[at])(scores, log_p, width),
     "Which score does the next step add to?", "The scores given back are those of the last symbol alone."),
)  # fmt: skip


# --- my_cached_step -------------------------------------------------------------------------------------------------


def _appended(past: Any, new: Any) -> Any:
    return np.concatenate([past, new], axis=-2)


def _cached_step(q: Any, k: Any, v: Any, K: Any, V: Any) -> tuple[Any, Any, Any]:
    return _cached_with()(q, k, v, K, V)


def _cached_with(
    keys: Any = lambda K, k: _appended(K, k), values: Any = lambda V, v: _appended(V, v),
    looks: Any = lambda q, K, V, k, v: ops.attention(q, K, V)[0], kept: Any = lambda K, V, k, v: (K, V),
) -> Any:  # fmt: skip
    """The step, with one line written otherwise."""

    def step(q: Any, k: Any, v: Any, K: Any, V: Any) -> tuple[Any, Any, Any]:
        all_k, all_v = keys(K, k), values(V, v)
        return looks(q, all_k, all_v, k, v), *kept(all_k, all_v, k, v)

    return step


def _cached_case(draw: CaseDrawer) -> dict[str, Any]:
    """Heads before it or none, and a past that may be empty."""
    lead, t = draw.choose(((), (1,), (2,), (2, 3))), draw.choose((0, 1, 2, 3, 5))
    d = draw.size(1, 4)
    e = draw.size_like(d)
    q, k, v = draw.array(*lead, 1, d), draw.array(*lead, 1, d), draw.array(*lead, 1, e)
    return {"q": q, "k": k, "v": v, "K": draw.array(*lead, t, d), "V": draw.array(*lead, t, e)}


CACHED_STEP = _compared(
    "cached_step", "K' = K with k below, V' = V with v below, out = softmax(q K'ᵀ / √d) V'", _cached_case, _cached_step,
    ("out", "K", "V"),
)  # fmt: skip


def _scores(q: Any, K: Any) -> Any:
    return q @ np.swapaxes(K, -1, -2)


def _scaled_by(of: Any) -> Any:
    return lambda q, K, V, k, v: ops.softmax(_scores(q, K) * of(q, K)) @ V


def _place_zero(q: Any, K: Any, V: Any, k: Any, v: Any) -> Any:
    """A causal mask for a query that is taken to stand at the beginning."""
    return ops.attention(q, K, V, np.tri(1, K.shape[-2], dtype=bool))[0]


def _overwritten(past: Any, new: Any) -> Any:
    return np.concatenate([past[..., :-1, :], new], axis=-2)


def _past_only(q: Any, K: Any, V: Any, k: Any, v: Any) -> Any:
    return ops.attention(q, K[..., :-1, :], V[..., :-1, :])[0]


_SEES = "At which position does the new token stand, and which keys may it look at?"
_KEEPS = "How many keys and values must be there for the token after this one?"
_ROWS = "Rows are in the order of time. Where does the newest belong?"
WRONG_CACHED = (
    (_cached_with(looks=_past_only), "May a token look at itself?",
     "It looks at the past only: append its key and value first."),
    (_cached_with(looks=_place_zero), _SEES,
     "Your mask puts the query at position 0, so it sees the first key alone. It is the last, and sees all: no mask."),
    (_cached_with(looks=lambda q, K, V, k, v: v), _SEES, "It looks at itself only: the past is not read."),
    (_cached_with(kept=lambda K, V, k, v: (K[..., :-1, :], V[..., :-1, :])), _KEEPS,
     "The old cache is returned: the new key and value are lost."),
    (_cached_with(kept=lambda K, V, k, v: (k, v)), _KEEPS,
     "Only the new key and value are returned: the past is lost."),
    (_cached_with(kept=lambda K, V, k, v: (V, K)), "Which comes first: K or V?"),
    (_cached_with(keys=lambda K, k: _appended(k, K), values=lambda V, v: _appended(v, V)), _ROWS,
     "The newest is put before the others. out does not notice, but rows of K are no longer in the order of time."),
    (_cached_with(keys=lambda K, k: _appended(k, K)), _ROWS,
     "K and V are in different orders: key j has another's value."),
    (_cached_with(keys=_overwritten, values=_overwritten), _KEEPS,
     "The last of the past is overwritten: K must grow by a row."),
    (_cached_with(looks=_scaled_by(lambda q, K: 1)), "By what are logits divided?", "The division by √d is missing."),
    (_cached_with(looks=_scaled_by(lambda q, K: 1 / q.shape[-1])), "By what are logits divided?", "It is √d, not d."),
    (_cached_with(looks=_scaled_by(lambda q, K: 1 / math.sqrt(K.shape[-2]))),
     "√d: is d the width, or the number of keys?",
     "That is the root of the number of keys; d is the width of q and k."),
    (_cached_with(looks=lambda q, K, V, k, v: ops.attention(k, K, V)[0]), "Which of q and k asks?",
     "The new key is used as the query."),
    (_cached_with(looks=lambda q, K, V, k, v: ops.softmax(np.ones_like(_scores(q, K))) @ V), "Does q count at all?",
     "That is the mean of the values: no logits are used."),
    (_cached_with(looks=lambda q, K, V, k, v: _scores(q, K) / math.sqrt(q.shape[-1]) @ V),
     "Do your weights sum to 1?", "Softmax is missing."),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_cross_attention_backward",
        "derive the backward",
        difficulty=2,
        minutes=10,
        task="dx and dmemory of out = softmax(q kᵀ / √d) v, with q = x W_q, k = memory W_k, v = memory W_v",
        grader=Function(CROSS, part="backward", tempting=WRONG_CROSS),
        hints=(
            "Attention's backward gives dq, dk and dv. Which of x and memory was each of q, k and v made of?",
            "dq, dk, dv = attention_backward(dout, q, k, v, p)[:3]. Then dx = dq W_qᵀ, and memory was read twice: "
            "dmemory = dk W_kᵀ + dv W_vᵀ.",
        ),
        why="Attention does not know where q, k and v come from: its backward is the same. Each projection takes its "
        "gradient back to the tokens that it read, and what was read twice gets the sum.",
    ),
    Exercise(
        "attention_parameters",
        "predict the number",
        difficulty=1,
        minutes=4,
        task=f"entries of all W_q, W_k, W_v and W_o in a Transformer: D = {WIDTH}, 8 heads, {LAYERS} + {LAYERS} blocks",
        grader=Number(
            _attention_parameters,
            exactly=True,
            computed="18 attentions of 4 · 512² make 18,874,368.",
            tempting=(
                (lambda: 2 * LAYERS * 4 * WIDTH**2,
                 "How many attentions has a block of the encoder, and one of the decoder?",
                 "Those are 12 attentions: one in every block, or the decoder's alone. There are 18."),
                (lambda: 8 * 3 * LAYERS * 4 * WIDTH**2, "Is a head's W_q as wide as 512?",
                 "Eight heads share the 512 columns: each has 64 of them."),
                (lambda: 3 * LAYERS * 3 * WIDTH**2, "Which matrix comes after the heads?", "W_o is missing."),
                (lambda: 4 * WIDTH**2, "How many attentions are there in all?", "That is one attention."),
                (lambda: 2 * 4 * WIDTH**2, "How many attentions are there in all?",
                 "Those are the two of one block of the decoder."),
                (lambda: LAYERS * 4 * WIDTH**2, "Which blocks have attention?", "That is the encoder alone."),
                (lambda: 4 * LAYERS * 4 * WIDTH**2, "How many attentions has a block of the encoder?",
                 "You have two in every block. A block of the encoder has one."),
                (lambda: 3 * LAYERS * 4 * (WIDTH**2 + WIDTH), "Are biases asked for?"),
            ),
        ),
        hints=(
            "How many attentions has a block of the encoder, and how many one of the decoder? And how large is each of "
            "an attention's four matrices?",
            "6 · 1 + 6 · 2 = 18 attentions, of four matrices (512, 512) each. The number of heads does not count.",
        ),
        why="18 attentions of 4 · 512² = 1,048,576 entries. Heads cut the 512 columns into slices, and add none.",
    ),
    Exercise(
        "repaired_layer",
        "find the bug",
        difficulty=1,
        minutes=6,
        task="buggy_layer with the right masks, and nothing else changed",
        grader=Function(REPAIRED, tempting=WRONG_LAYER),
        hints=(
            "Two attentions, two masks. What would be cheating in the first? What in the second? And which tokens of "
            "the memory are padding?",
            "All real words may be seen: compare positions with lengths, with axes for batch and queries.",
        ),
        why="What is still to be written must not be seen, and that is the first attention's matter. The source is "
        "known from the beginning, so the second hides nothing but padding.",
    ),
    Exercise(
        "my_beam_step",
        "write the op",
        difficulty=2,
        minutes=10,
        task="my_beam_step(scores, log_p, width) -> parents, symbols, scores of the `width` best, best first",
        grader=Function(BEAM_STEP, tempting=WRONG_STEP),
        hints=(
            "What is the score of beginning i with symbol j appended? Of how many such sums are the best wanted?",
            "Add each beginning's score to its row of log_p, lay the table out flat and sort. Which row and column is "
            "flat entry e?",
        ),
        why="Logarithms of probabilities add up along a string. All k V continuations compete with each other, so two "
        "of the best may share a beginning, and a beginning may end.",
    ),
    Exercise(
        "my_cached_step",
        "write the op",
        difficulty=2,
        minutes=8,
        task="my_cached_step(q, k, v, K, V) -> out, K, V: the new token's attention, and the caches with it",
        grader=Function(CACHED_STEP, tempting=WRONG_CACHED),
        hints=(
            "Which keys does the new token look at? Is its own among them? And is there anything that it must not see?",
            "Append first: np.concatenate([K, k], axis=-2), and so with V. Then attention of q over all of them, with "
            "no mask.",
        ),
        why="A causal mask hides what comes later, and after the newest token nothing comes. Keys and values of "
        "earlier tokens depend on those before them alone, so what was kept is still right.",
    ),
)
