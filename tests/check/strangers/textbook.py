"""Every kind that `tinyattn check` knows, as textbooks, courses and blogs write it in NumPy."""

import math

import numpy as np


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _split_heads(x, num_heads):
    batch, n, d_model = x.shape
    return x.reshape(batch, n, num_heads, d_model // num_heads).transpose(0, 2, 1, 3)


def _merge_heads(x):
    batch, num_heads, n, d_head = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, n, num_heads * d_head)


# optimisers


def adam(theta, grad, moments, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8):
    """Kingma and Ba, 2015, Algorithm 1."""
    m, v = moments
    m[:] = beta1 * m + (1 - beta1) * grad
    v[:] = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta -= lr * m_hat / (np.sqrt(v_hat) + eps)


def adamw(theta, grad, moments, t, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Loshchilov and Hutter, 2019, Algorithm 2, as PyTorch has it: the decay is multiplied by the learning rate."""
    m, v = moments
    theta -= lr * weight_decay * theta
    m[:] = beta1 * m + (1 - beta1) * grad
    v[:] = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    theta -= lr * m_hat / (np.sqrt(v_hat) + eps)


def schedule(it, warmup_iters, lr_decay_iters, learning_rate=6e-4, min_lr=6e-5):
    """get_lr of nanoGPT."""
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    if it > lr_decay_iters:
        return min_lr
    decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    coeff = 0.5 * (1.0 + math.cos(math.pi * decay_ratio))
    return min_lr + coeff * (learning_rate - min_lr)


# activations


def relu(x):
    return np.maximum(0, x)


def relu_backward(dout, x):
    return dout * (x > 0)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(x) - 1))


def elu_backward(dout, x, alpha=1.0):
    return dout * np.where(x > 0, 1, alpha * np.exp(x))


def root_elu(x):
    return np.where(x < 0, np.exp(x / 2), np.sqrt(1 + np.maximum(x, 0)))


def silu(x):
    return x * _sigmoid(x)


def silu_backward(dout, x):
    s = _sigmoid(x)
    return dout * (s + x * s * (1 - s))


def gelu(x):
    """The form of GPT-2."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def dropout(x, mask, p):
    return x * mask / (1 - p)


def dropout_backward(dout, mask, p):
    return dout * mask / (1 - p)


# layers


def linear(x, W, b):
    return x @ W + b


def linear_backward(dout, x, W):
    x2d = x.reshape(-1, x.shape[-1])
    dout2d = dout.reshape(-1, dout.shape[-1])
    return dout @ W.T, x2d.T @ dout2d, dout2d.sum(axis=0)


def embedding(ids, E):
    return E[ids]


def embedding_backward(dout, ids, E):
    dE = np.zeros_like(E)
    np.add.at(dE, ids, dout)
    return dE


def layer_norm(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    std = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    x_hat = (x - mean) / std
    return gamma * x_hat + beta, (x_hat, std, gamma)


def layer_norm_backward(dout, cache):
    x_hat, std, gamma = cache
    batch = tuple(range(dout.ndim - 1))
    dgamma = (dout * x_hat).sum(axis=batch)
    dbeta = dout.sum(axis=batch)
    dx_hat = dout * gamma
    dx = dx_hat - dx_hat.mean(axis=-1, keepdims=True) - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    return dx / std, dgamma, dbeta


def rms_norm(x, g, eps=1e-6):
    """Zhang and Sennrich, 2019, with the eps of Llama."""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * g


def batch_norm(x, gamma, beta, eps=1e-5):
    """Ioffe and Szegedy, 2015, in training; the backward as in CS231n."""
    _N, _D = x.shape
    mu = x.mean(axis=0)
    var = x.var(axis=0)
    std = np.sqrt(var + eps)
    x_hat = (x - mu) / std
    return gamma * x_hat + beta, (x_hat, std, gamma)


def batch_norm_backward(dout, cache):
    x_hat, std, gamma = cache
    N = dout.shape[0]
    dgamma = np.sum(dout * x_hat, axis=0)
    dbeta = np.sum(dout, axis=0)
    dx = gamma / (N * std) * (N * dout - dbeta - x_hat * dgamma)
    return dx, dgamma, dbeta


def norm_linear(x, gamma, beta, W, b, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return ((x - mean) / np.sqrt(var + eps) * gamma + beta) @ W + b


def feed_forward(x, W1, b1, W2, b2):
    h = np.maximum(0, x @ W1 + b1)
    return h @ W2 + b2, (x, h, W1, W2)


def feed_forward_backward(dout, cache):
    x, h, W1, W2 = cache
    dh, dW2, db2 = linear_backward(dout, h, W2)
    dx, dW1, db1 = linear_backward(dh * (h > 0), x, W1)
    return dx, dW1, db1, dW2, db2


def gelu_feed_forward(x, W1, b1, W2, b2):
    return gelu(x @ W1 + b1) @ W2 + b2


def swiglu(x, W, V, W2):
    """Shazeer, 2020."""
    a, b = x @ W, x @ V
    s = silu(a)
    return (s * b) @ W2, (x, a, b, s, W, V, W2)


def swiglu_backward(dout, cache):
    x, a, b, s, W, V, W2 = cache
    dh, dW2, _ = linear_backward(dout, s * b, W2)
    dx_gate, dW, _ = linear_backward(silu_backward(dh * b, a), x, W)
    dx_value, dV, _ = linear_backward(dh * s, x, V)
    return dx_gate + dx_value, dW, dV, dW2


class batch_norm_layer:
    """As in CS231n: the state is a dictionary, and momentum the share of the past."""

    def train(self, x, bn_param):
        D = x.shape[1]
        if bn_param is None:
            bn_param = {"momentum": 0.9, "eps": 1e-5, "running_mean": np.zeros(D), "running_var": np.zeros(D)}
        momentum, mean, var = bn_param["momentum"], x.mean(axis=0), x.var(axis=0)
        bn_param["running_mean"] = momentum * bn_param["running_mean"] + (1 - momentum) * mean
        bn_param["running_var"] = momentum * bn_param["running_var"] + (1 - momentum) * var
        return (x - mean) / np.sqrt(var + bn_param["eps"]), bn_param

    def evaluate(self, x, bn_param):
        return (x - bn_param["running_mean"]) / np.sqrt(bn_param["running_var"] + bn_param["eps"])


def patchify(images, patch):
    """Dosovitskiy et al., 2021; images are (batch, height, width, channels)."""
    B, H, W, C = images.shape
    x = images.reshape(B, H // patch, patch, W // patch, patch, C)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(B, (H // patch) * (W // patch), patch * patch * C)


# losses and metrics


def cross_entropy(logits, targets):
    logits = logits.reshape(-1, logits.shape[-1])
    targets = targets.reshape(-1)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return -log_probs[np.arange(len(targets)), targets].mean()


def cross_entropy_backward(dloss, logits, targets):
    targets = targets.reshape(-1)
    dlogits = softmax(logits.reshape(-1, logits.shape[-1]))
    dlogits[np.arange(len(targets)), targets] -= 1
    return dloss * dlogits.reshape(logits.shape) / len(targets)


def smoothed_cross_entropy(logits, targets, smoothing=0.1):
    """Szegedy et al., 2016."""
    num_classes = logits.shape[-1]
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    q = (1 - smoothing) * np.eye(num_classes)[targets] + smoothing / num_classes
    return -(q * log_probs).sum(axis=-1).mean()


def tiled_cross_entropy(x, E, targets):
    """All logits at once, as anybody has it who has the memory."""
    return cross_entropy(x @ E.T, targets)


def bce(logits, targets):
    return np.mean(np.maximum(logits, 0) - logits * targets + np.log1p(np.exp(-np.abs(logits))))


def bce_backward(dloss, logits, targets):
    return dloss * (_sigmoid(logits) - targets) / logits.size


def bpr(pos_scores, neg_scores):
    """Rendle et al., 2009."""
    return np.mean(np.logaddexp(0, neg_scores - pos_scores))


def bpr_backward(dloss, pos_scores, neg_scores):
    d = dloss * -_sigmoid(neg_scores - pos_scores) / pos_scores.size
    return d, -d


def bpr_max(positive, negatives, regularisation=1.0):
    """Hidasi and Karatzoglou, 2018."""
    s = softmax(negatives)
    diff = positive[..., None] - negatives
    log_sigmoid = np.minimum(diff, 0) - np.log1p(np.exp(-np.abs(diff)))
    log_s = negatives - negatives.max(axis=-1, keepdims=True)
    log_s = log_s - np.log(np.exp(log_s).sum(axis=-1, keepdims=True))
    terms = log_s + log_sigmoid
    top = terms.max(axis=-1, keepdims=True)
    log_likelihood = top[..., 0] + np.log(np.exp(terms - top).sum(axis=-1))
    return np.mean(-log_likelihood + regularisation * (s * negatives**2).sum(axis=-1))


def distance_bpr(pos, neg, between, pvn_weight=0.0):
    """Fan et al., 2022 (STOSA)."""
    diff = neg - pos
    loss = np.maximum(-diff, 0) + np.log1p(np.exp(-np.abs(diff)))
    return np.mean(loss + pvn_weight * np.maximum(pos - between, 0))


def hit_rate(scores, target, k):
    rank = np.sum(scores > scores[target])
    return float(rank < k)


def ndcg(scores, target, k):
    rank = np.sum(scores > scores[target])
    return 1 / np.log2(rank + 2) if rank < k else 0.0


class ranking:
    """Of one relevant item: its rank is the number of items with a larger score."""

    hit_rate = staticmethod(hit_rate)
    ndcg = staticmethod(ndcg)


class ranking_of_several:
    """Recommended and held-out items as lists of item numbers."""

    def recall(self, scores, relevant, k):
        recommended, actual = np.argsort(-scores)[:k], set(np.flatnonzero(relevant))
        return len(actual & set(recommended)) / len(actual)

    def ndcg(self, scores, relevant, k):
        recommended, actual = np.argsort(-scores)[:k], set(np.flatnonzero(relevant))
        dcg = sum(1 / np.log2(i + 2) for i, item in enumerate(recommended) if item in actual)
        idcg = sum(1 / np.log2(i + 2) for i in range(min(k, len(actual))))
        return dcg / idcg


# attention


def softmax(x, mask=None):
    if mask is not None:
        x = np.where(mask, x, -np.inf)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(dp, p):
    return p * (dp - (dp * p).sum(axis=-1, keepdims=True))


def attention(Q, K, V, mask=None):
    d_k = Q.shape[-1]
    scores = Q @ K.swapaxes(-2, -1) / np.sqrt(d_k)
    if mask is not None:
        scores = np.where(mask, scores, -1e9)
    weights = softmax(scores)
    return weights @ V, weights


def attention_backward(dout, Q, K, V, weights):
    d_k = Q.shape[-1]
    dweights = dout @ V.swapaxes(-2, -1)
    dscores = softmax_backward(dweights, weights) / np.sqrt(d_k)
    return dscores @ K, dscores.swapaxes(-2, -1) @ Q, weights.swapaxes(-2, -1) @ dout


def fused_attention(q, k, v, mask=None):
    scores = np.einsum("...id,...jd->...ij", q, k) / math.sqrt(q.shape[-1])
    return np.einsum("...ij,...jd->...id", softmax(scores, mask), v)


def flash_attention(Q, K, V, mask=None, block_q=64, block_k=64):
    """Dao et al., 2022, Algorithm 1, for all heads at once."""
    n, d = Q.shape[-2:]
    m = K.shape[-2]
    out = np.zeros_like(Q)
    for i in range(0, n, block_q):
        q = Q[..., i : i + block_q, :] / math.sqrt(d)
        acc = np.zeros_like(q)
        row_max = np.full(q.shape[:-1], -np.inf, dtype=q.dtype)
        row_sum = np.zeros(q.shape[:-1], dtype=q.dtype)
        for j in range(0, m, block_k):
            s = q @ K[..., j : j + block_k, :].swapaxes(-2, -1)
            if mask is not None:
                s = np.where(mask[..., i : i + block_q, j : j + block_k], s, -1e30)
            new_max = np.maximum(row_max, s.max(axis=-1))
            p = np.exp(s - new_max[..., None])
            correction = np.exp(row_max - new_max)
            row_sum = correction * row_sum + p.sum(axis=-1)
            acc = correction[..., None] * acc + p @ V[..., j : j + block_k, :]
            row_max = new_max
        out[..., i : i + block_q, :] = acc / row_sum[..., None]
    return out


def pointwise_attention(q, k, v, mask=None, bias=0.0):
    """Zhai et al., 2024 (HSTU): the mean over the keys seen, where their code divides by the padded length."""
    scores = q @ k.swapaxes(-2, -1) + (0.0 if bias is None else bias)
    mask = np.broadcast_to(True if mask is None else mask, scores.shape)
    weights = silu(scores) * mask / np.maximum(mask.sum(axis=-1, keepdims=True), 1)
    return (weights @ v).astype(q.dtype)


def window_attention(q, k, v, window, causal=True):
    """Beltagy et al., 2020 (Longformer), with a mask."""
    n = q.shape[-2]
    offset = np.arange(n)[:, None] - np.arange(n)[None, :]
    mask = (offset >= 0) & (offset < window) if causal else np.abs(offset) < window
    return fused_attention(q, k, v, mask)


def block_sparse_attention(q, k, v, layout):
    """Child et al., 2019, with a dense mask."""
    mask = np.zeros((q.shape[-2], k.shape[-2]), dtype=bool)
    for group in layout.groups:
        for b, (rows, cols) in enumerate(zip(group.queries, group.keys, strict=True)):
            allowed = (rows[:, None] >= 0) & (cols[None, :] >= 0)
            if group.allowed is not None:
                allowed = allowed & group.allowed[b]
            i, j = np.nonzero(allowed)
            mask[rows[i], cols[j]] = True
    return fused_attention(q, k, v, mask)


def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads, mask=None):
    q = _split_heads(x @ W_q, num_heads)
    k = _split_heads(x @ W_k, num_heads)
    v = _split_heads(x @ W_v, num_heads)
    out, weights = attention(q, k, v, mask)
    concat = _merge_heads(out)
    return concat @ W_o, (x, q, k, v, weights, concat, W_q, W_k, W_v, W_o)


def multi_head_attention_backward(dy, cache):
    x, q, k, v, weights, concat, W_q, W_k, W_v, W_o = cache
    x2d = x.reshape(-1, x.shape[-1])
    dW_o = concat.reshape(x2d.shape).T @ dy.reshape(x2d.shape)
    dheads = _split_heads(dy @ W_o.T, q.shape[1])
    dq, dk, dv = (_merge_heads(d) for d in attention_backward(dheads, q, k, v, weights))
    dx = dq @ W_q.T + dk @ W_k.T + dv @ W_v.T
    return dx, *(x2d.T @ d.reshape(x2d.shape) for d in (dq, dk, dv)), dW_o


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, num_heads, mask=None):
    q = _split_heads(x @ W_q + b_q, num_heads)
    k = _split_heads(x @ W_k + b_k, num_heads)
    v = _split_heads(x @ W_v + b_v, num_heads)
    return _merge_heads(attention(q, k, v, mask)[0]) @ W_o + b_o


def cross_attention(x, memory, W_q, W_k, W_v, W_o, num_heads, mask=None):
    q = _split_heads(x @ W_q, num_heads)
    k = _split_heads(memory @ W_k, num_heads)
    v = _split_heads(memory @ W_v, num_heads)
    return _merge_heads(fused_attention(q, k, v, mask)) @ W_o


def grouped_query_attention(x, W_q, W_k, W_v, W_o, num_heads, num_kv_heads, mask=None):
    """Ainslie et al., 2023."""
    q = _split_heads(x @ W_q, num_heads)
    k = np.repeat(_split_heads(x @ W_k, num_kv_heads), num_heads // num_kv_heads, axis=1)
    v = np.repeat(_split_heads(x @ W_v, num_kv_heads), num_heads // num_kv_heads, axis=1)
    return _merge_heads(attention(q, k, v, mask)[0]) @ W_o


def block(x, g1, b1, W_q, W_k, W_v, W_o, g2, b2, W1, c1, W2, c2, num_heads, mask=None, eps=1e-5):
    h = layer_norm(x, g1, b1, eps)[0]
    x = x + multi_head_attention(h, W_q, W_k, W_v, W_o, num_heads, mask)[0]
    h = layer_norm(x, g2, b2, eps)[0]
    return x + feed_forward(h, W1, c1, W2, c2)[0]


def post_ln_block(x, W_q, W_k, W_v, W_o, g1, b1, W1, c1, W2, c2, g2, b2, num_heads, mask=None):
    """Vaswani et al., 2017."""
    x = layer_norm(x + multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads, mask)[0], g1, b1)[0]
    return layer_norm(x + feed_forward(x, W1, c1, W2, c2)[0], g2, b2)[0]


def additive_scores(q, k, w):
    """Bahdanau et al., 2015."""
    return np.tanh(q[..., :, None, :] + k[..., None, :, :]) @ w


def additive_attention(q, k, v, w, causal=True):
    """Wu et al., 2019 (SR-GNN)."""
    weights = _sigmoid(q[..., :, None, :] + k[..., None, :, :]) @ w
    if causal:
        weights = np.tril(weights)
    return weights @ v, weights


def gaussian_attention(scores, v_mean, v_cov, mask=None):
    """Fan et al., 2022 (STOSA)."""
    weights = softmax(scores, mask)
    return np.concatenate([weights @ v_mean, weights**2 @ v_cov], axis=-1), weights


def wasserstein_scores(mean1, std1, mean2, std2):
    """Fan et al., 2022 (STOSA), scaled."""
    dist = ((mean1[..., :, None, :] - mean2[..., None, :, :]) ** 2).sum(axis=-1)
    dist = dist + ((std1[..., :, None, :] - std2[..., None, :, :]) ** 2).sum(axis=-1)
    return -dist / np.sqrt(mean1.shape[-1])


def linear_attention(Q, K, V, causal=True):
    """Katharopoulos et al., 2020."""
    phi_q = elu(Q) + 1
    phi_k = elu(K) + 1
    if causal:
        kv = np.cumsum(phi_k[..., :, None] * V[..., None, :], axis=-3)
        num = np.einsum("...nd,...nde->...ne", phi_q, kv)
        z = (phi_q * np.cumsum(phi_k, axis=-2)).sum(axis=-1)
    else:
        num = phi_q @ (phi_k.swapaxes(-2, -1) @ V)
        z = (phi_q * phi_k.sum(axis=-2, keepdims=True)).sum(axis=-1)
    return num / z[..., None]


def performer_attention(Q, K, V, W, causal=True):
    """Choromanski et al., 2021: positive features, shifted by their maxima as the authors' code does."""
    d = Q.shape[-1]

    def log_features(x):
        x = x / d**0.25
        return x @ W.T - (x**2).sum(axis=-1, keepdims=True) / 2

    log_q, log_k = log_features(Q), log_features(K)
    phi_q = np.exp(log_q - log_q.max(axis=-1, keepdims=True))
    phi_k = np.exp(log_k - log_k.max(axis=(-2, -1), keepdims=True))
    scores = phi_q @ phi_k.swapaxes(-2, -1)
    if causal:
        scores = np.tril(scores)
    return scores @ V / scores.sum(axis=-1, keepdims=True)


# positions


def rotary(x, cos, sin):
    """Su et al., 2021."""
    even, odd = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = even * cos - odd * sin
    out[..., 1::2] = even * sin + odd * cos
    return out


def alibi(n_heads, seq_len):
    """Press et al., 2022: slopes as in the authors' code, and only keys before the query."""

    def get_slopes(n):
        if math.log2(n).is_integer():
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start**i for i in range(n)]
        closest = 2 ** math.floor(math.log2(n))
        return get_slopes(closest) + get_slopes(2 * closest)[0::2][: n - closest]

    distance = np.arange(seq_len)[None, :] - np.arange(seq_len)[:, None]
    bias = np.array(get_slopes(n_heads))[:, None, None] * distance
    return np.where(distance <= 0, bias, -np.inf)


def bucket_bias(table, buckets):
    """Raffel et al., 2020 (T5)."""
    return table[buckets].transpose(2, 0, 1)


def bucket_bias_backward(dbias, table, buckets):
    dtable = np.zeros_like(table)
    np.add.at(dtable, buckets, dbias.transpose(1, 2, 0))
    return dtable


def _relative_positions(n, m, max_distance):
    distance = np.arange(m)[None, :] - np.arange(n)[:, None]
    return np.clip(distance, -max_distance, max_distance) + max_distance


def relative_scores(q, a, m):
    """Shaw et al., 2018."""
    table = a[_relative_positions(q.shape[-2], m, (len(a) - 1) // 2)]
    return np.einsum("...id,ijd->...ij", q, table)


def relative_values(weights, a):
    """Shaw et al., 2018."""
    n, m = weights.shape[-2:]
    table = a[_relative_positions(n, m, (len(a) - 1) // 2)]
    return np.einsum("...ij,ijd->...id", weights, table)


# recurrence


def rnn(x, Wx, Wh, b, h0=None):
    """Elman, 1990; x is (batch, time, features), as in CS231n."""
    N, T, _D = x.shape
    H = Wh.shape[0]
    prev = np.zeros((N, H), dtype=x.dtype) if h0 is None else h0
    h = np.zeros((N, T, H), dtype=x.dtype)
    for t in range(T):
        prev = np.tanh(x[:, t] @ Wx + prev @ Wh + b)
        h[:, t] = prev
    return h


def rnn_backward(dh, x, Wx, Wh, b, h, h0=None):
    N, T, _D = x.shape
    H = Wh.shape[0]
    first = np.zeros((N, H), dtype=x.dtype) if h0 is None else h0
    dx, dWx, dWh, db = np.zeros_like(x), np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(b)
    dprev = np.zeros((N, H), dtype=x.dtype)
    for t in reversed(range(T)):
        da = (dh[:, t] + dprev) * (1 - h[:, t] ** 2)
        dx[:, t] = da @ Wx.T
        dWx += x[:, t].T @ da
        dWh += (h[:, t - 1] if t > 0 else first).T @ da
        db += da.sum(axis=0)
        dprev = da @ Wh.T
    return dx, dWx, dWh, db, dprev


def lstm(x, Wx, Wh, b, h0=None):
    """Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000; as in CS231n."""
    N, T, _D = x.shape
    H = Wh.shape[0]
    h = np.zeros((N, H), dtype=x.dtype) if h0 is None else h0
    c = np.zeros((N, H), dtype=x.dtype)
    hs = []
    for t in range(T):
        a = x[:, t] @ Wx + h @ Wh + b
        i, f, o = _sigmoid(a[:, :H]), _sigmoid(a[:, H : 2 * H]), _sigmoid(a[:, 2 * H : 3 * H])
        g = np.tanh(a[:, 3 * H :])
        c = f * c + i * g
        h = o * np.tanh(c)
        hs.append(h)
    return np.stack(hs, axis=1)


def gru(x, W, U, b, c, h0=None):
    """Cho et al., 2014, with the reset gate after the product, as cuDNN has it."""
    N, T, _D = x.shape
    H = U.shape[0]
    h = np.zeros((N, H), dtype=x.dtype) if h0 is None else h0
    hs = []
    for t in range(T):
        xr, xz, xn = np.split(x[:, t] @ W + b, 3, axis=-1)
        hr, hz, hn = np.split(h @ U + c, 3, axis=-1)
        r = _sigmoid(xr + hr)
        z = _sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        hs.append(h)
    return np.stack(hs, axis=1)


def associative_scan(a, b, h0=None):
    """The recurrence itself."""
    h = np.zeros_like(b)
    prev = h0 if h0 is not None else np.zeros_like(b[..., 0, :])
    for t in range(a.shape[-2]):
        prev = a[..., t, :] * prev + b[..., t, :]
        h[..., t, :] = prev
    return h


def selective_scan(x, delta, A, B, C, D):
    """Gu and Dao, 2023 (Mamba): A by zero-order hold, B by Euler's rule, as the authors' code has it."""
    batch, n, d = x.shape
    h = np.zeros((batch, A.shape[0], d), dtype=x.dtype)
    ys = []
    for t in range(n):
        h = np.exp(delta[:, t, None, :] * A) * h + B[:, t, :, None] * (delta[:, t] * x[:, t])[:, None, :]
        ys.append(np.einsum("bn,bnd->bd", C[:, t], h) + D * x[:, t])
    return np.stack(ys, axis=1)


def delta_rule(q, k, v, beta, a=None, S0=None):
    """Schlag et al., 2021, with the gate of Yang et al., 2025: the state is (d, N), as the papers have it."""
    batch, n, d = v.shape
    S = np.zeros((batch, d, k.shape[2]), dtype=v.dtype) if S0 is None else S0.transpose(0, 2, 1)
    out = []
    for t in range(n):
        if a is not None:
            S = S * np.exp(a[:, t])[:, None, None]
        b = beta[:, t, None, None]
        S = S @ (np.eye(k.shape[2], dtype=k.dtype) - b * np.einsum("bi,bj->bij", k[:, t], k[:, t]))
        S = S + b * np.einsum("bi,bj->bij", v[:, t], k[:, t])
        out.append(np.einsum("bij,bj->bi", S, q[:, t]))
    return np.stack(out, axis=1)


def wkv(k, v, w, u):
    """Peng et al., 2023 (RWKV-4), Appendix D: numerator and denominator share an exponent."""
    batch, n, d = k.shape
    num, den = np.zeros((batch, d), dtype=k.dtype), np.zeros((batch, d), dtype=k.dtype)
    top = np.full((batch, d), -1e38, dtype=k.dtype)
    y = np.zeros_like(v)
    for t in range(n):
        now = np.maximum(top, u + k[:, t])
        e1, e2 = np.exp(top - now), np.exp(u + k[:, t] - now)
        y[:, t] = (e1 * num + e2 * v[:, t]) / (e1 * den + e2)
        now = np.maximum(top - w, k[:, t])
        e1, e2 = np.exp(top - w - now), np.exp(k[:, t] - now)
        num, den, top = e1 * num + e2 * v[:, t], e1 * den + e2, now
    return y


# refinement of attention weights


def refine_simp(A, W_Q, W_K):
    return (A @ W_Q) @ (A @ W_K).swapaxes(-2, -1) / np.sqrt(W_Q.shape[-1])


def refine_add(A, W_Q, W_K):
    return (A + refine_simp(A, W_Q, W_K)) / 2


def refine_stoc(A, W_mu, W_sigma):
    mu, sigma = A @ W_mu, root_elu(A @ W_sigma)
    return wasserstein_scores(mu, sigma, mu, sigma)


def refine_value_rows(A, W_Q, W_K, W_V, mask=None):
    return fused_attention(A @ W_Q, A @ W_K, A @ W_V, mask)


def refine_value_literal(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return Z @ softmax(X.swapaxes(-2, -1) @ Y).swapaxes(-2, -1)


def refine_value(A, W_Q, W_K, W_V):
    A, W_Q, W_K, W_V = np.tril(A), np.tril(W_Q), np.tril(W_K), np.tril(W_V)
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    B = np.zeros_like(A)
    for k in range(A.shape[-1]):
        scores = X[..., : k + 1, : k + 1].swapaxes(-2, -1) @ Y[..., : k + 1, : k + 1]
        B[..., k, : k + 1] = (softmax(scores) @ Z[..., k, : k + 1, None])[..., 0]
    return B


# models


class causal_model:
    """A transformer decoder of one layer, as picoGPT has it."""

    vocabulary = 20
    maxlen = 16

    def __init__(self, d_model=8, num_heads=2):
        rng = np.random.default_rng(0)
        self.num_heads = num_heads
        self.wte = rng.normal(size=(self.vocabulary, d_model))
        self.wpe = rng.normal(size=(self.maxlen, d_model))
        self.W = [rng.normal(size=(d_model, d_model)) / np.sqrt(d_model) for _ in range(4)]
        self.W1 = rng.normal(size=(d_model, 4 * d_model)) / np.sqrt(d_model)
        self.W2 = rng.normal(size=(4 * d_model, d_model)) / np.sqrt(4 * d_model)

    def forward(self, ids):
        _batch, n = ids.shape
        ones, zeros = np.ones(self.wte.shape[1]), np.zeros(self.wte.shape[1])
        x = self.wte[ids] + self.wpe[:n]
        x = block(x, ones, zeros, *self.W, ones, zeros, self.W1, 0, self.W2, 0, self.num_heads, np.tri(n, dtype=bool))
        return layer_norm(x, ones, zeros)[0] @ self.wte.T


class cached_model:
    """Attention with a cache of keys and values."""

    def forward(self, x):
        n = x.shape[1]
        return attention(x, x, x, np.tri(n, dtype=bool))[0]

    def step(self, x, cache):
        x = x[:, None, :]
        cache = x if cache is None else np.concatenate([cache, x], axis=1)
        return attention(x, cache, cache)[0][:, 0], cache


class ring_cache:
    """Jiang et al., 2023 (Mistral 7B): token t of the rolling buffer is in slot t % window."""

    window = 5

    def forward(self, x):
        n = x.shape[1]
        offset = np.arange(n)[:, None] - np.arange(n)[None, :]
        return attention(x, x, x, (offset >= 0) & (offset < self.window))[0]

    def step(self, x, cache):
        t, buffer = (0, np.zeros((len(x), self.window, x.shape[-1]))) if cache is None else cache
        buffer[:, t % self.window] = x
        kept = buffer[:, : t + 1]
        return attention(x[:, None, :], kept, kept)[0][:, 0], (t + 1, buffer)


class padding_invariance:
    """An encoder that masks keys in the padding."""

    def forward(self, x, lengths):
        mask = np.arange(x.shape[1])[None, None, :] < lengths[:, None, None]
        return x + attention(x, x, x, mask)[0]


# convolutions


def conv1d(x, W, padding="same"):
    K = len(W)
    if padding == "same":
        left = (K - 1) // 2
        x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(left, K - 1 - left), (0, 0)])
    elif padding != "valid":
        raise ValueError(f"unknown padding {padding}")
    n = x.shape[-2] - K + 1
    return sum(x[..., j : j + n, :] @ W[j] for j in range(K))


def conv2d(images, kernels, padding="same"):
    K, L = kernels.shape[:2]
    if padding == "same":
        top, left = (K - 1) // 2, (L - 1) // 2
        images = np.pad(images, ((0, 0), (top, K - 1 - top), (left, L - 1 - left), (0, 0)))
    batch, height, width, _ = images.shape
    out = np.zeros((batch, height - K + 1, width - L + 1, kernels.shape[-1]), images.dtype)
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            out[:, i, j] = np.tensordot(images[:, i : i + K, j : j + L], kernels, axes=3)
    return out


def depthwise_conv1d(x, W):
    return np.einsum("...ndk,kd->...nd", np.lib.stride_tricks.sliding_window_view(x, len(W), axis=-2), W)


def max_pool1d(x, width):
    return np.lib.stride_tricks.sliding_window_view(x, width, axis=-2).max(-1)
