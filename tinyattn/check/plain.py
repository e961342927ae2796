"""Formulas in NumPy's vectors, as textbooks write them. Mutants by rule make the mistakes that are easy in such code.

An oracle has no axes to mix up, since it loops over single numbers. Each function here has the signature of its spec's
oracle, and returns the first result alone; a backward has the library's signature. Recurrences have time as first axis.
The comment at the end of a line names what it computes, and has a tutor's question; a report quotes both.
"""
# fmt: off

from typing import Any

import numpy as np

from ..ops import as_mask


def _mean(loss: Any, weights: Any) -> Any:
    return loss.mean() if weights is None else (weights * loss).sum() / weights.sum()  # the mean over positions: Double all weights: does the loss double?


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-np.maximum(x, -700)))


def _elu(x: Any) -> Any:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _log_sigmoid(x: Any) -> Any:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def _log_sum_exp(x: Any, axis: int) -> Any:
    top = x.max(axis=axis, keepdims=True)
    return top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True))  # the log of the sum: Add 4 to all scores: how much is added?


def softmax(s: Any, mask: Any = None, axis: int = -1) -> Any:
    s = s if mask is None else np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return np.nan_to_num(e / e.sum(axis=axis, keepdims=True))  # the softmax: Do the weights sum to 1, and along which axis?


# layers


def gelu(x: Any, approximate: bool = True) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))  # the result: What does the root multiply, and where do the brackets close?


def rms_norm(x: Any, gamma: Any, eps: float = 1e-5) -> Any:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * gamma  # the result: RMS of (3, 4)?


def batch_norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5, mean: Any = None, var: Any = None) -> Any:
    rows = x.reshape(-1, x.shape[-1])
    mean = rows.mean(axis=0) if mean is None else mean  # the mean: Over which axes are the statistics of a feature?
    var = rows.var(axis=0) if var is None else var  # the variance: Σ (x - mean)² / n: which n?
    return (x - mean) / np.sqrt(var + eps) * gamma + beta  # the result: Where does eps stand?


def layer_norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * gamma + beta


def swiglu(x: Any, W_1: Any, V: Any, W_2: Any) -> Any:
    a, b = x @ W_1, x @ V  # the two branches: Which of the two is the gate?
    return (a * _sigmoid(a) * b) @ W_2  # the result: SiLU(a) = a σ(a): what multiplies it?


def swiglu_backward(dy: Any, x: Any, W_1: Any, V: Any, W_2: Any) -> Any:
    rows = x.reshape(-1, x.shape[-1])
    a, b, dy = rows @ W_1, rows @ V, dy.reshape(-1, dy.shape[-1])
    s = _sigmoid(a)
    dh = dy @ W_2.T
    da = dh * b * (s + a * s * (1 - s))  # the gradient of the gate's branch: What is the derivative of a σ(a)?
    db = dh * a * s  # the gradient of the other branch: What multiplies b in the forward?
    return (da @ W_1.T + db @ V.T).reshape(x.shape), rows.T @ da, rows.T @ db, (a * s * b).T @ dy


# losses and metrics


def cross_entropy(logits: Any, targets: Any, weights: Any = None) -> Any:
    logs = logits - _log_sum_exp(logits, axis=-1)
    return _mean(-np.take_along_axis(logs, targets[..., None], axis=-1)[..., 0], weights)


def smoothed_cross_entropy(logits: Any, targets: Any, weights: Any = None, smoothing: float = 0.1) -> Any:
    q = (1 - smoothing) * np.eye(logits.shape[-1])[targets] + smoothing / logits.shape[-1]  # the targets q: Do the probabilities of q sum to 1?
    logs = logits - _log_sum_exp(logits, axis=-1)  # the log-probabilities: log of a softmax: what is subtracted?
    return _mean(-(q * logs).sum(axis=-1), weights)  # the loss: -Σ q log p: which of the two is smoothed?


def tiled_cross_entropy(
    x: Any, E: Any, targets: Any, weights: Any = None, smoothing: float = 0.0, tile: Any = None
) -> Any:
    return smoothed_cross_entropy(x @ E.T, targets, weights, smoothing)


def bce_with_logits(z: Any, targets: Any, weights: Any = None) -> Any:
    return _mean(np.maximum(z, 0) - z * targets + np.log1p(np.exp(-abs(z))), weights)


def bpr(positive: Any, negative: Any, weights: Any = None) -> Any:
    return _mean(-_log_sigmoid(positive - negative), weights)  # the loss: Raise the target's score: does the loss fall?


def bpr_backward(dloss: Any, positive: Any, negative: Any, weights: Any = None) -> Any:
    shares = 1 / positive.size if weights is None else weights / weights.sum()  # the weights' shares: The loss is a mean: by what is its gradient divided?
    d = -_sigmoid(negative - positive) * shares  # the slope of -log σ: Does the gradient vanish where the target is far ahead, or far behind?
    return dloss * d, -dloss * d  # the gradients: Should both scores move the same way?


def bpr_max(positive: Any, negatives: Any, weights: Any = None, regularisation: float = 1.0) -> Any:
    positive = positive[..., None]
    log_s = negatives - _log_sum_exp(negatives, axis=-1)  # the softmax of the negatives: Over which scores do the weights sum to 1?
    likelihood = _log_sum_exp(log_s + _log_sigmoid(positive - negatives), axis=-1)[..., 0]  # the likelihood: Log of a mean, or mean of logs, of which difference?
    return _mean(-likelihood + regularisation * (np.exp(log_s) * negatives**2).sum(axis=-1), weights)  # the loss: Σ s r²: which weights?


def _place(scores: Any, target: int) -> Any:
    return np.sum(scores > scores[target])  # the number of items before the target: How many scores are above the best item's?


def hit_rate(scores: Any, target: int, k: int) -> Any:
    return float(_place(scores, target) < k)  # the hit: Which ranks are within k?


def ndcg(scores: Any, target: int, k: int) -> Any:
    place = _place(scores, target)
    return 1 / np.log2(place + 2) if place < k else 0.0  # the gain: What is NDCG@2 at ranks 1 and 2?


def _order(scores: Any) -> Any:
    return np.argsort(-scores)  # the order of items: Is a high score good?


def recall(scores: Any, relevant: Any, k: int) -> Any:
    return relevant[_order(scores)][:k].sum() / relevant.sum()  # recall: Divided by what?


def ndcg_of_several(scores: Any, relevant: Any, k: int) -> Any:
    gains = 1 / np.log2(np.arange(len(scores)) + 2)  # the gains of the places: What is the gain of the first place?
    ideal = gains[: min(k, relevant.sum())].sum()  # the ideal DCG: With one relevant item, can NDCG@10 be 1?
    return (relevant[_order(scores)] * gains)[:k].sum() / ideal  # NDCG: Which place has each hit, and which DCG divides?


# attention


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, bias: Any = None, keep: Any = None, rate: float = 0.0, scale: Any = None
) -> Any:
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale  # the scale of the scores: Over how many numbers does a score sum?
    s = q @ k.swapaxes(-1, -2) * scale  # the scores: Which query meets which key?
    s = s if bias is None else s + bias  # the scores with the bias: Where is the bias added?
    mask = np.broadcast_to(True if mask is None else mask, s.shape)  # the mask: Which entries of the mask may a query see?
    p = softmax(np.where(mask, s, -np.inf), axis=-1)  # the weights: Do a query's weights sum to 1, and what is a masked one?
    return (p if keep is None else p * keep / (1 - rate)) @ v  # the output: What are the weights multiplied by?


def fused_attention(q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None) -> Any:
    return attention(q, k, v, as_mask(mask).array(q.shape[-2], k.shape[-2], like=q), scale=scale)


def flash_attention(
    q: Any, k: Any, v: Any, mask: Any = None, keep: Any = None, scale: Any = None, tile: Any = None
) -> Any:
    return fused_attention(q, k, v, mask, scale)


def window_attention(
    q: Any, k: Any, v: Any, window: int, causal: bool = True, keys: Any = None, keep: Any = None, rate: float = 0.0,
    scale: Any = None,
) -> Any:  # fmt: skip
    distance = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
    mask = (distance >= 0) & (distance < window) if causal else abs(distance) < window
    return attention(q, k, v, mask & (True if keys is None else keys[..., None, :]), scale=scale)


def linear_attention(q: Any, k: Any, v: Any, causal: bool = True, keys: Any = None, form: str = "") -> Any:
    phi_q, phi_k = _elu(q) + 1, _elu(k) + 1  # the features: Is every feature above 0?
    s = phi_q @ phi_k.swapaxes(-1, -2) * (1 if keys is None else keys[..., None, :])
    s = np.tril(s) if causal else s  # the causal weights: Which keys does the first token see?
    return np.nan_to_num(s @ v / s.sum(axis=-1, keepdims=True))


def grouped_query_attention(
    x: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, heads: int, kv_heads: int, mask: Any = None
) -> Any:
    *lead, n, D = x.shape
    q = (x @ W_q).reshape(*lead, n, heads, D // heads).swapaxes(-2, -3)  # the heads' queries: Which numbers of a token belong to head 0?
    k = (x @ W_k).reshape(*lead, n, kv_heads, D // heads).swapaxes(-2, -3)  # the groups' keys: Which numbers of a token belong to group 0?
    v = (x @ W_v).reshape(*lead, n, kv_heads, D // heads).swapaxes(-2, -3)  # the groups' values: Which numbers of a token belong to group 0?
    k, v = np.repeat(k, heads // kv_heads, axis=-3), np.repeat(v, heads // kv_heads, axis=-3)  # the groups' keys and values: Which group does head 1 read?
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])  # the scores: Over how many numbers does a score sum?
    mask = np.broadcast_to(True if mask is None else mask, (*lead, n, n))[..., None, :, :]  # the mask: Change a masked token: which outputs move?
    p = softmax(np.where(mask, s, -np.inf), axis=-1)  # the weights: Do a query's weights sum to 1?
    return (p @ v).swapaxes(-2, -3).reshape(*lead, n, D) @ W_o  # joining the heads: Print the shape before the last reshape: (h, n, d), or (n, h, d)?


def multi_head_attention(x: Any, W_q: Any, W_k: Any, W_v: Any, W_o: Any, heads: int, mask: Any = None) -> Any:
    return grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, heads, mask)


def alibi(heads: int, n: int, authors: bool = False) -> Any:
    slopes = 2 ** (-8 * np.arange(1, heads + 1) / heads)
    distance = np.arange(n)[:, None] - np.arange(n)
    return -slopes[:, None, None] * np.maximum(distance, 0)


def rotary(x: Any, cos: Any, sin: Any) -> Any:
    y = np.zeros(x.shape)
    even, odd = x[..., 0::2], x[..., 1::2]  # the pairs: Which two features are one pair?
    y[..., 0::2] = even * cos - odd * sin  # a pair's first number: At an angle of 90°, where does (1, 0) go?
    y[..., 1::2] = even * sin + odd * cos  # a pair's second number: At an angle of 90°, where does (1, 0) go?
    return y


# recurrences


def _first(state: Any, x: Any, *width: int) -> Any:
    return np.zeros((*x.shape[:-2], *width)) if state is None else state


def rnn(x: Any, W: Any, U: Any, b: Any, h0: Any = None) -> Any:
    h, x = _first(h0, x, len(U)), np.moveaxis(x, -2, 0)
    y = np.zeros((len(x), *h.shape))
    for t in range(len(x)):
        h = np.tanh(x[t] @ W + h @ U + b)  # the new state: What goes into a step besides its token?
        y[t] = h  # the output: Is a state stored before the step, or after it?
    return np.moveaxis(y, 0, -2)


def rnn_backward(dh: Any, x: Any, W: Any, U: Any, h: Any, h0: Any = None) -> Any:
    first, shape = _first(h0, x, len(U)).reshape(-1, len(U)), x.shape
    dh, x, h = (np.moveaxis(a.reshape(-1, *a.shape[-2:]), -2, 0) for a in (dh, x, h))
    dx, dW, dU, db = np.zeros(x.shape), np.zeros(W.shape), np.zeros(U.shape), np.zeros(len(U))
    before, back = np.concatenate([first[None], h[:-1]]), np.zeros(first.shape)
    for t in reversed(range(len(x))):
        da = (dh[t] + back) * (1 - h[t] ** 2)  # the gradient before tanh: Which two gradients reach a state, and when do they meet tanh' = 1 - h²?
        dx[t] = da @ W.T
        dW += x[t].T @ da
        dU += before[t].T @ da  # dU: Which state was multiplied by U?
        db += da.sum(axis=0)
        back = da @ U.T  # the gradient of the state before: h_{t-1} U is in step t's sum: what comes back?
    return np.moveaxis(dx, 0, -2).reshape(shape), dW, dU, db, None if h0 is None else back.reshape(h0.shape)


def lstm(x: Any, W: Any, U: Any, b: Any, h0: Any = None, c0: Any = None) -> Any:
    H = len(U)
    h, c, x = _first(h0, x, H), _first(c0, x, H), np.moveaxis(x, -2, 0)
    y = np.zeros((len(x), *h.shape))
    for t in range(len(x)):
        a = x[t] @ W + h @ U + b  # the sums before the gates: What goes into a step besides its token?
        i, f, o = _sigmoid(a[..., :H]), _sigmoid(a[..., H : 2 * H]), _sigmoid(a[..., -2 * H : -H])  # the gates: In which order do W, U and b hold the gates, and what squashes them?
        g = np.tanh(a[..., -H:])  # the candidate: Which function acts on g?
        c = (f * c if len(b) == 4 * H else c) + i * g  # the new cell: What is forgotten, and what is added?
        h = o * np.tanh(c)  # the new state: h = o ⊙ tanh(c): which c?
        y[t] = h  # the output: Is a state stored before the step, or after it?
    return np.moveaxis(y, 0, -2)


def gru(x: Any, W: Any, U: Any, b: Any, c: Any, h0: Any = None) -> Any:
    h, x = _first(h0, x, len(U)), np.moveaxis(x, -2, 0)
    y = np.zeros((len(x), *h.shape))
    for t in range(len(x)):
        xr, xz, xn = np.split(x[t] @ W + b, 3, axis=-1)  # the token's parts of the gates: In which order do W, U, b and c hold the gates?
        hr, hz, hn = np.split(h @ U + c, 3, axis=-1)  # the state's parts of the gates: In which order do W, U, b and c hold the gates?
        r = _sigmoid(xr + hr)  # the reset gate: Which columns belong to r?
        z = _sigmoid(xz + hz)  # the update gate: Which columns belong to z?
        n = np.tanh(xn + r * hn)  # the candidate: What is reset: the state, or the token?
        h = (1 - z) * n + z * h  # the new state: (1 - z) n + z h is a mean: of what, with which weights?
        y[t] = h  # the output: Is a state stored before the step, or after it?
    return np.moveaxis(y, 0, -2)


def associative_scan(a: Any, b: Any, h0: Any = None, form: str = "") -> Any:
    h, a, b = _first(h0, a, a.shape[-1]), np.moveaxis(a, -2, 0), np.moveaxis(b, -2, 0)
    y = np.zeros(b.shape)
    for t in range(len(a)):
        h = a[t] * h + b[t]  # the new state: h_t = a_t h_{t-1} + b_t: what does a_t multiply?
        y[t] = h  # the output: Which tokens does h_1 depend on?
    return np.moveaxis(y, 0, -2)


def selective_scan(x: Any, delta: Any, A: Any, B: Any, C: Any, D: Any, h0: Any = None, exact: bool = False) -> Any:
    h = _first(h0, x, *A.shape)
    x, delta, B, C = (np.moveaxis(a, -2, 0) for a in (x, delta, B, C))
    y = np.zeros(x.shape)
    for t in range(len(x)):
        z = delta[t][..., None, :] * A  # the decay's exponent: Δ = 0: does the state still decay?
        hold = np.where(z == 0, 1, np.expm1(z) / np.where(z == 0, 1, z)) if exact else 1.0
        h = np.exp(z) * h + hold * B[t][..., :, None] * (delta[t] * x[t])[..., None, :]  # the state: Δ = 0: what enters?
        y[t] = (C[t][..., :, None] * h).sum(axis=-2) + D * x[t]  # the output: Does y_t see x_t through the state, and past it?
    return np.moveaxis(y, 0, -2)


def delta_rule(q: Any, k: Any, v: Any, beta: Any, a: Any = None, S0: Any = None, chunk: int = 0) -> Any:
    S = _first(S0, v, k.shape[-1], v.shape[-1])
    q, k, v = (np.moveaxis(x, -2, 0)[..., None, :] for x in (q, k, v))
    beta, decay = (np.moveaxis(x, -1, 0)[..., None, None] for x in (beta, np.ones(beta.shape) if a is None else np.exp(a)))
    y = np.zeros(v.shape)
    for t in range(len(v)):
        S = decay[t] * S  # what is left of the state: Does the new value decay as well?
        held = k[t] @ S  # what the key reads: Of which state: after the decay, or before it?
        S = S + beta[t] * k[t].swapaxes(-1, -2) @ (v[t] - held)  # the new state: What is written: the value, or a difference?
        y[t] = q[t] @ S  # the output: Does a token read what it has just written?
    return np.moveaxis(y[..., 0, :], 0, -2)


def wkv(k: Any, v: Any, w: Any, u: Any, mean0: Any = None, size0: Any = None) -> Any:
    num = _first(mean0, k, k.shape[-1])
    top = np.full(num.shape, -1e38) if size0 is None else size0
    den = np.ones(num.shape) * (mean0 is not None)
    k, v = np.moveaxis(k, -2, 0), np.moveaxis(v, -2, 0)
    y = np.zeros(k.shape)
    for t in range(len(k)):
        now = np.maximum(top, u + k[t])
        past, new = np.exp(top - now), np.exp(u + k[t] - now)
        y[t] = (past * num + new * v[t]) / (past * den + new)  # the mean: Pass equal values: is y that value?
        now = np.maximum(top - w, k[t])
        past, new = np.exp(top - w - now), np.exp(k[t] - now)
        num = past * num + new * v[t]  # the sum of values: Which two sums decay?
        den = past * den + new  # the sum of weights: Which two sums decay?
        top = now
    return np.moveaxis(y, 0, -2)


# optimisers


def adam(
    vector: Any, gradient: Any, m: Any, v: Any, step: int, lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.98,
    eps: float = 1e-8,
) -> tuple[Any, ...]:  # fmt: skip
    m = beta1 * m + (1 - beta1) * gradient  # the first moment: The mean of a constant is the constant: what are the weights?
    v = beta2 * v + (1 - beta2) * gradient**2  # the second moment: Whose square is averaged?
    m_hat = m / (1 - beta1**step)  # the corrected first moment: Which β belongs to m?
    v_hat = v / (1 - beta2**step)  # the corrected second moment: Which β belongs to v?
    vector = vector - lr * m_hat / (np.sqrt(v_hat) + eps)  # the step: Feed a constant gradient: how large is the step at t = 1?
    return vector, m, v


def adamw(
    vector: Any, gradient: Any, m: Any, v: Any, step: int, lr: float = 1e-3, beta1: float = 0.9, beta2: float = 0.98,
    eps: float = 1e-8, weight_decay: Any = 0.01,
) -> tuple[Any, ...]:  # fmt: skip
    vector = vector * (1 - lr * weight_decay)  # the decay: Zero gradient: does an entry shrink by lr λ p?
    m = beta1 * m + (1 - beta1) * gradient  # the first moment: The mean of a constant is the constant: what are the weights?
    v = beta2 * v + (1 - beta2) * gradient**2  # the second moment: Whose square is averaged?
    m_hat = m / (1 - beta1**step)  # the corrected first moment: Which β belongs to m?
    v_hat = v / (1 - beta2**step)  # the corrected second moment: Which β belongs to v?
    vector = vector - lr * m_hat / (np.sqrt(v_hat) + eps)  # the step: Feed a constant gradient: how large is the step at t = 1?
    return vector, m, v
