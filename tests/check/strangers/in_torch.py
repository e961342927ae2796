"""Every kind as users of PyTorch have it: torch.nn.functional, torch.optim, modules by functional_call, transformers.

Nothing here was written for this library's checker. Weights are (inputs, outputs), as the contracts say; the rest is as
PyTorch, the papers' own repositories and transformers have it.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def _split_heads(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _merge_heads(x):
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


# optimizers


def adam(param, grad, moments, step, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    param = nn.Parameter(param)
    param.grad = grad
    optimizer = torch.optim.Adam([param], lr=lr, betas=betas, eps=eps)
    exp_avg, exp_avg_sq = moments
    optimizer.state[param] = {"step": torch.tensor(step - 1.0), "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    optimizer.step()


def adamw(param, grad, moments, step, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Loshchilov and Hutter, 2019, with the operations of torch.optim."""
    exp_avg, exp_avg_sq = moments
    param.mul_(1 - lr * weight_decay)
    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denom = (exp_avg_sq.sqrt() / math.sqrt(1 - beta2**step)).add_(eps)
    param.addcdiv_(exp_avg, denom, value=-lr / (1 - beta1**step))


def schedule(step, num_warmup_steps, num_training_steps):
    """get_linear_schedule_with_warmup of transformers, in LambdaLR's closed form."""
    if step < num_warmup_steps:
        return float(step) / float(max(1, num_warmup_steps))
    return max(0.0, float(num_training_steps - step) / float(max(1, num_training_steps - num_warmup_steps)))


# activations


def relu(x):
    return F.relu(x)


def elu(x, alpha=1.0):
    return F.elu(x, alpha=alpha)


def silu(x):
    return F.silu(x)


def gelu(x, approximate="none"):
    return F.gelu(x, approximate=approximate)


def root_elu(x):
    return torch.where(x < 0, torch.exp(x.clamp(max=0) / 2), torch.sqrt(1 + x.clamp(min=0)))


# layers


def linear(x, weight, bias=None):
    return F.linear(x, weight.T, bias)


def embedding(input_ids, weight):
    return F.embedding(input_ids, weight)


def dropout(x, keep, p):
    return x * keep / (1 - p)


def layer_norm(x, weight, bias, eps=1e-5):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, eps)


def rms_norm(hidden_states, weight, eps=1e-6):
    """LlamaRMSNorm of transformers."""
    input_dtype = hidden_states.dtype
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    hidden_states = hidden_states * torch.rsqrt(variance + eps)
    return weight * hidden_states.to(input_dtype)


def batch_norm(x, weight, bias, eps=1e-5):
    norm = nn.BatchNorm1d(x.shape[-1], eps=eps, track_running_stats=False)
    rows = functional_call(norm, {"weight": weight, "bias": bias}, x.reshape(-1, x.shape[-1]))
    return rows.reshape(x.shape)


def norm_linear(x, gamma, beta, weight, bias, eps=1e-5):
    model = nn.Sequential(nn.LayerNorm(weight.shape[0], eps=eps), nn.Linear(*weight.shape))
    return functional_call(model, {"0.weight": gamma, "0.bias": beta, "1.weight": weight.T, "1.bias": bias}, x)


def feed_forward(x, w1, b1, w2, b2):
    model = nn.Sequential(nn.Linear(*w1.shape), nn.ReLU(), nn.Linear(*w2.shape))
    return functional_call(model, {"0.weight": w1.T, "0.bias": b1, "2.weight": w2.T, "2.bias": b2}, x)


def gelu_feed_forward(x, w1, b1, w2, b2):
    return F.linear(F.gelu(F.linear(x, w1.T, b1)), w2.T, b2)


def swiglu(x, gate_proj, up_proj, down_proj):
    """LlamaMLP of transformers."""
    return F.linear(F.silu(F.linear(x, gate_proj.T)) * F.linear(x, up_proj.T), down_proj.T)


class batch_norm_layer:
    """nn.BatchNorm1d is the state."""

    def train(self, x, layer):
        layer = nn.BatchNorm1d(x.shape[1], dtype=x.dtype) if layer is None else layer
        return layer.train()(x), layer

    def evaluate(self, x, layer):
        return layer.eval()(x)


def conv1d(x, weight, dilation=1, padding="same"):
    y = F.conv1d(x.transpose(1, 2), weight.permute(2, 1, 0), dilation=dilation, padding=padding)
    return y.transpose(1, 2)


def conv2d(x, weight, dilation=1, padding="same"):
    y = F.conv2d(x.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1), dilation=dilation, padding=padding)
    return y.permute(0, 2, 3, 1)


def depthwise_conv1d(x, weight):
    return F.conv1d(x.transpose(1, 2), weight.T.unsqueeze(1), groups=x.shape[-1]).transpose(1, 2)


def max_pool1d(x, kernel_size):
    return F.max_pool1d(x.transpose(1, 2), kernel_size, stride=1).transpose(1, 2)


def patchify(images, patch_size):
    b, h, w, c = images.shape
    p = patch_size
    x = images.reshape(b, h // p, p, w // p, p, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, (h // p) * (w // p), p * p * c)


# losses and metrics


def cross_entropy(logits, targets):
    """As in nanoGPT."""
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def smoothed_cross_entropy(logits, labels, label_smoothing=0.1):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), label_smoothing=label_smoothing)


def tiled_cross_entropy(hidden, weight, targets):
    """The head and the loss of a language model, in one call."""
    return F.cross_entropy(F.linear(hidden, weight).flatten(0, -2), targets.flatten())


def bce(logits, targets):
    return F.binary_cross_entropy_with_logits(logits, targets)


def bpr(pos_score, neg_score):
    return -F.logsigmoid(pos_score - neg_score).mean()


def bpr_max(positive, negatives, bpreg=1.0):
    """Hidasi and Karatzoglou, 2018."""
    log_weights = F.log_softmax(negatives, dim=-1)
    loss = -torch.logsumexp(log_weights + F.logsigmoid(positive.unsqueeze(-1) - negatives), dim=-1)
    return (loss + bpreg * (log_weights.exp() * negatives**2).sum(-1)).mean()


def distance_bpr(pos_distance, neg_distance, pos_neg_distance, istarget=None, pvn_weight=0.0):
    """Fan et al., 2022 (STOSA)."""
    loss = -F.logsigmoid(neg_distance - pos_distance)
    loss = loss + pvn_weight * torch.clamp(pos_distance - pos_neg_distance, min=0)
    if istarget is None:
        return loss.mean()
    return (loss * istarget).sum() / istarget.sum()


class ranking:
    """A batch, (B, V) and (B,)."""

    @staticmethod
    def hit_rate(scores, target, k=10):
        rank = (scores > scores.gather(1, target.unsqueeze(1))).sum(dim=1)
        return (rank < k).float()

    @staticmethod
    def ndcg(scores, target, k=10):
        rank = (scores > scores.gather(1, target.unsqueeze(1))).sum(dim=1)
        return torch.where(rank < k, 1 / torch.log2(rank + 2.0), torch.zeros(()))


class ranking_of_several:
    """A batch, (B, V) twice; recall as in Liang et al., 2018 (Mult-VAE): of k at most."""

    @staticmethod
    def recall(scores, heldout, k=100):
        hits = heldout.gather(1, scores.topk(min(k, scores.shape[1])).indices).sum(dim=1)
        return hits / heldout.sum(dim=1).clamp(max=k)

    @staticmethod
    def ndcg(scores, heldout, k=100):
        k = min(k, scores.shape[1])
        discount = 1 / torch.log2(torch.arange(2, k + 2).double())
        dcg = (heldout.gather(1, scores.topk(k).indices) * discount).sum(dim=1)
        return dcg / discount.cumsum(0)[heldout.sum(dim=1).clamp(max=k) - 1]


# attention


def softmax(scores, mask=None):
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return F.softmax(scores, dim=-1)


def attention(query, key, value, mask=None, dropout=None):
    """The Annotated Transformer (Rush, 2018)."""
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


def fused_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)


def flash_attention(q, k, v, mask=None, block_size=64):
    """Dao et al., 2022: the loop over blocks of keys, with a running maximum and sum."""
    scale = q.shape[-1] ** -0.5
    out = torch.zeros_like(q)
    row_max = torch.full_like(q[..., :1], -torch.inf)
    row_sum = torch.zeros_like(q[..., :1])
    for start in range(0, k.shape[-2], block_size):
        block = slice(start, start + block_size)
        scores = q @ k[..., block, :].transpose(-1, -2) * scale
        if mask is not None:
            scores = scores.masked_fill(~mask[..., block], torch.finfo(scores.dtype).min)
        new_max = torch.maximum(row_max, scores.amax(dim=-1, keepdim=True))
        p = torch.exp(scores - new_max)
        correction = torch.exp(row_max - new_max)
        row_sum = row_sum * correction + p.sum(dim=-1, keepdim=True)
        out = out * correction + p @ v[..., block, :]
        row_max = new_max
    return out / row_sum


def pointwise_attention(q, k, v, mask=None, bias=None):
    """HSTU (Zhai et al., 2024), over the valid keys."""
    scores = torch.matmul(q, k.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    valid = torch.ones_like(scores) if mask is None else mask.to(scores.dtype).expand_as(scores)
    attn = F.silu(scores) * valid / valid.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.matmul(attn, v)


def window_attention(query, key, value, sliding_window):
    """Mistral of transformers: (batch, heads, n, d)."""
    i = torch.arange(query.shape[2])
    distance = i[:, None] - i[None, :]
    outside = (distance < 0) | (distance >= sliding_window)
    attn_weights = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(query.shape[-1])
    attn_weights = attn_weights.masked_fill(outside, torch.finfo(query.dtype).min)
    return torch.matmul(F.softmax(attn_weights, dim=-1), value)


def block_sparse_attention(q, k, v, layout):
    mask = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    for group in layout.groups:
        for i, (queries, keys) in enumerate(zip(group.queries, group.keys, strict=True)):
            queries, keys = torch.as_tensor(queries).long(), torch.as_tensor(keys).long()
            allowed = (queries >= 0)[:, None] & (keys >= 0)[None, :]
            if group.allowed is not None:
                allowed &= torch.as_tensor(group.allowed[i])
            rows, columns = allowed.nonzero(as_tuple=True)
            mask[queries[rows], keys[columns]] = True
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def multi_head_attention(x, w_q, w_k, w_v, w_o, n_head, mask=None):
    """As in minGPT."""
    q, k, v = (_split_heads(x @ w, n_head) for w in (w_q, w_k, w_v))
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    if mask is not None:
        att = att.masked_fill(mask == 0, float("-inf"))
    return _merge_heads(F.softmax(att, dim=-1) @ v) @ w_o


def biased_multi_head_attention(x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, num_heads, attn_mask=None):
    mha = nn.MultiheadAttention(x.shape[-1], num_heads, batch_first=True)
    params = {
        "in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]),
        "in_proj_bias": torch.cat([b_q, b_k, b_v]),
        "out_proj.weight": w_o.T,
        "out_proj.bias": b_o,
    }
    return functional_call(mha, params, (x, x, x), {"attn_mask": attn_mask, "need_weights": False})[0]


def cross_attention(x, context, w_q, w_k, w_v, w_o, heads, mask=None):
    q, k, v = _split_heads(x @ w_q, heads), _split_heads(context @ w_k, heads), _split_heads(context @ w_v, heads)
    return _merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)) @ w_o


def _repeat_kv(hidden_states, n_rep):
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


def grouped_query_attention(hidden_states, w_q, w_k, w_v, w_o, num_heads, num_key_value_heads, attention_mask=None):
    """LlamaAttention of transformers without positions; the mask is added, and has the axes (batch, 1, n, n)."""
    bsz, q_len, _ = hidden_states.size()
    head_dim = w_q.shape[1] // num_heads
    query = (hidden_states @ w_q).view(bsz, q_len, num_heads, head_dim).transpose(1, 2)
    key = (hidden_states @ w_k).view(bsz, q_len, num_key_value_heads, head_dim).transpose(1, 2)
    value = (hidden_states @ w_v).view(bsz, q_len, num_key_value_heads, head_dim).transpose(1, 2)
    key = _repeat_kv(key, num_heads // num_key_value_heads)
    value = _repeat_kv(value, num_heads // num_key_value_heads)
    attn_weights = torch.matmul(query, key.transpose(2, 3)) / math.sqrt(head_dim)
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask[:, :, :, : key.shape[-2]]
    attn_weights = F.softmax(attn_weights, dim=-1)
    attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
    return attn_output.reshape(bsz, q_len, -1) @ w_o


def block(x, g1, be1, w_q, w_k, w_v, w_o, g2, be2, w1, b1, w2, b2, nhead, mask=None, eps=1e-5):
    layer = nn.TransformerEncoderLayer(
        x.shape[-1], nhead, w1.shape[1], dropout=0.0, layer_norm_eps=eps, batch_first=True, norm_first=True
    )
    params = {
        "self_attn.in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]),
        "self_attn.in_proj_bias": x.new_zeros(3 * x.shape[-1]),
        "self_attn.out_proj.weight": w_o.T,
        "self_attn.out_proj.bias": x.new_zeros(x.shape[-1]),
    }
    params |= {"linear1.weight": w1.T, "linear1.bias": b1, "linear2.weight": w2.T, "linear2.bias": b2}
    params |= {"norm1.weight": g1, "norm1.bias": be1, "norm2.weight": g2, "norm2.bias": be2}
    return functional_call(layer, params, (x,), {"src_mask": mask})


def post_ln_block(x, w_q, w_k, w_v, w_o, g1, be1, w1, b1, w2, b2, g2, be2, heads, mask=None):
    q, k, v = (_split_heads(x @ w, heads) for w in (w_q, w_k, w_v))
    attended = _merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)) @ w_o
    x = F.layer_norm(x + attended, (x.size(-1),), g1, be1)
    return F.layer_norm(x + feed_forward(x, w1, b1, w2, b2), (x.size(-1),), g2, be2)


def additive_scores(query, key, w):
    """Bahdanau et al., 2015."""
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ w


def additive_attention(q, k, v, w, causal=True):
    """Li et al., 2017 (NARM): sigmoids, no softmax."""
    weights = torch.sigmoid(q.unsqueeze(-2) + k.unsqueeze(-3)) @ w
    if causal:
        weights = torch.tril(weights)
    return weights @ v, weights


def linear_attention(queries, keys, values, eps=1e-6):
    """The causal attention of fast-transformers (Katharopoulos et al., 2020)."""
    q, k = F.elu(queries) + 1, F.elu(keys) + 1
    z = 1 / (torch.einsum("...nd,...nd->...n", q, k.cumsum(dim=-2)) + eps)
    kv = torch.einsum("...nd,...ne->...nde", k, values).cumsum(dim=-3)
    return torch.einsum("...nd,...nde,...n->...ne", q, kv, z)


def performer_attention(q, k, v, projection, causal=True):
    """Choromanski et al., 2021: positive random features, kept as logarithms."""

    def log_features(x):
        x = x * x.shape[-1] ** -0.25
        return x @ projection.T - x.square().sum(-1, keepdim=True) / 2

    scores = torch.logsumexp(log_features(q).unsqueeze(-2) + log_features(k).unsqueeze(-3), dim=-1)
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


def gaussian_attention(scores, v_mean, v_cov, mask=None):
    """Fan et al., 2022 (STOSA)."""
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    probs = torch.softmax(scores, dim=-1)
    return torch.cat([probs @ v_mean, probs**2 @ v_cov], dim=-1), probs


def wasserstein_scores(q_mean, q_std, k_mean, k_std):
    means = (q_mean.unsqueeze(-2) - k_mean.unsqueeze(-3)).square().sum(-1)
    deviations = (q_std.unsqueeze(-2) - k_std.unsqueeze(-3)).square().sum(-1)
    return -(means + deviations) / math.sqrt(q_mean.shape[-1])


# positions


def rotary(x, cos, sin):
    """Llama of transformers: halves are pairs, and the tables are (n, d)."""
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * cos + torch.cat((-x2, x1), dim=-1) * sin


def alibi(num_heads, seq_length):
    """build_alibi_tensor of Bloom in transformers: a row of keys, the same for all queries."""
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2 ** (-(2 ** -(math.log2(closest) - 3)))
    slopes = torch.pow(base, torch.arange(1, 1 + closest))
    if closest != num_heads:
        extra_base = 2 ** (-(2 ** -(math.log2(2 * closest) - 3)))
        remaining = min(closest, num_heads - closest)
        slopes = torch.cat([slopes, torch.pow(extra_base, torch.arange(1, 1 + 2 * remaining, 2))])
    return slopes[:, None, None] * torch.arange(seq_length)[None, None, :]


def bucket_bias(weight, buckets):
    """T5 of transformers."""
    return F.embedding(buckets, weight).permute(2, 0, 1)


def _relative_positions(n, m, table):
    max_relative_position = table.shape[0] // 2
    distance = torch.arange(m)[None, :] - torch.arange(n)[:, None]
    return table[distance.clamp(-max_relative_position, max_relative_position) + max_relative_position]


def relative_scores(q, table, key_len):
    """Shaw et al., 2018."""
    return torch.einsum("...nd,nmd->...nm", q, _relative_positions(q.shape[-2], key_len, table))


def relative_values(weights, table):
    """Shaw et al., 2018."""
    return torch.einsum("...nm,nmd->...nd", weights, _relative_positions(*weights.shape[-2:], table))


# refinements of an attention matrix


def refine_add(A, W_Q, W_K):
    X, Y = A @ W_Q, A @ W_K
    return (X @ Y.mT / math.sqrt(X.shape[-1]) + A) / 2


def refine_simp(A, W_Q, W_K):
    X, Y = A @ W_Q, A @ W_K
    return X @ Y.mT / math.sqrt(X.shape[-1])


def refine_stoc(A, W_mu, W_sigma):
    mean, std = A @ W_mu, root_elu(A @ W_sigma)
    return wasserstein_scores(mean, std, mean, std)


def refine_value(A, W_Q, W_K, W_V):
    A, W_Q, W_K, W_V = (x.tril() for x in (A, W_Q, W_K, W_V))
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    rows = []
    for k in range(1, A.shape[-1] + 1):
        p = torch.softmax(X[..., :k, :k].mT @ Y[..., :k, :k], dim=-1)
        row = Z[..., k - 1 : k, :k] @ p.mT
        rows.append(F.pad(row, (0, A.shape[-1] - k)))
    return torch.cat(rows, dim=-2)


def refine_value_literal(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    return Z @ torch.softmax(X.mT @ Y, dim=-1).mT


def refine_value_rows(A, W_Q, W_K, W_V, mask=None):
    return F.scaled_dot_product_attention(A @ W_Q, A @ W_K, A @ W_V, attn_mask=mask)


# recurrences


def _first_state(h0):
    return None if h0 is None else h0.unsqueeze(0)


def rnn(x, w_ih, w_hh, bias, h0=None):
    module = nn.RNN(w_ih.shape[0], w_hh.shape[0], batch_first=True)
    params = {
        "weight_ih_l0": w_ih.T,
        "weight_hh_l0": w_hh.T,
        "bias_ih_l0": bias,
        "bias_hh_l0": torch.zeros_like(bias),
    }
    return functional_call(module, params, (x, _first_state(h0)))[0]


def gru(x, w_ih, w_hh, b_ih, b_hh, h0=None):
    module = nn.GRU(w_ih.shape[0], w_hh.shape[0], batch_first=True)
    params = {"weight_ih_l0": w_ih.T, "weight_hh_l0": w_hh.T, "bias_ih_l0": b_ih, "bias_hh_l0": b_hh}
    return functional_call(module, params, (x, _first_state(h0)))[0]


def lstm(x, w_ih, w_hh, bias, h0=None, c0=None):
    """The gates are i, f, g, o."""
    module = nn.LSTM(w_ih.shape[0], w_hh.shape[0], batch_first=True)
    params = {
        "weight_ih_l0": w_ih.T,
        "weight_hh_l0": w_hh.T,
        "bias_ih_l0": bias,
        "bias_hh_l0": torch.zeros_like(bias),
    }
    state = None if h0 is None else (h0.unsqueeze(0), c0.unsqueeze(0))
    output, (h_n, c_n) = functional_call(module, params, (x, state))
    return output, h_n, c_n


def associative_scan(a, b):
    """Hillis and Steele, 1986."""
    shift = 1
    while shift < a.shape[-2]:
        b = torch.cat([b[..., :shift, :], a[..., shift:, :] * b[..., :-shift, :] + b[..., shift:, :]], dim=-2)
        a = torch.cat([a[..., :shift, :], a[..., shift:, :] * a[..., :-shift, :]], dim=-2)
        shift *= 2
    return b


def selective_scan(u, delta, A, B, C, D):
    """mamba-minimal (Ma, 2023), after Gu and Dao, 2023: A is (d, n)."""
    b, length, d_in = u.shape
    delta_A = torch.exp(torch.einsum("bld,dn->bldn", delta, A))
    delta_B_u = torch.einsum("bld,bln,bld->bldn", delta, B, u)
    x = u.new_zeros(b, d_in, A.shape[1])
    ys = []
    for i in range(length):
        x = delta_A[:, i] * x + delta_B_u[:, i]
        ys.append(torch.einsum("bdn,bn->bd", x, C[:, i]))
    return torch.stack(ys, dim=1) + u * D


def delta_rule(q, k, v, beta, a=None, S0=None):
    """Yang et al., 2024 and 2025, chunk by chunk: pseudo values by a triangular solve."""
    L, (b, n, d) = 4, v.shape
    S = v.new_zeros(b, k.shape[-1], d) if S0 is None else S0
    g = torch.zeros_like(beta) if a is None else a
    outs = []
    for at in range(0, n, L):
        Q, K, V, B, G = (x[:, at : at + L] for x in (q, k, v, beta, g))
        G = G.cumsum(dim=1)
        decay = torch.exp(torch.tril(G[:, :, None] - G[:, None, :])).tril()
        system = torch.tril(B[..., None] * decay * (K @ K.mT), diagonal=-1) + torch.eye(K.shape[1], dtype=v.dtype)
        U = torch.linalg.solve_triangular(
            system, B[..., None] * (V - G.exp()[..., None] * (K @ S)), upper=False, unitriangular=True
        )
        outs.append(G.exp()[..., None] * (Q @ S) + (decay * (Q @ K.mT)) @ U)
        S = G[:, -1].exp()[:, None, None] * S + ((G[:, -1:] - G).exp()[..., None] * K).mT @ U
    return torch.cat(outs, dim=1)


def wkv(key, value, time_decay, time_first):
    """rwkv_linear_attention_cpu of transformers (Peng et al., 2023)."""
    output = torch.zeros_like(key)
    num = den = torch.zeros_like(key[..., 0, :])
    max_state = torch.zeros_like(num) - 1e38
    for t in range(key.shape[-2]):
        k, v = key[..., t, :], value[..., t, :]
        max_for_output = torch.maximum(max_state, k + time_first)
        e1, e2 = torch.exp(max_state - max_for_output), torch.exp(k + time_first - max_for_output)
        output[..., t, :] = (e1 * num + e2 * v) / (e1 * den + e2)
        max_for_state = torch.maximum(max_state - time_decay, k)
        e1, e2 = torch.exp(max_state - time_decay - max_for_state), torch.exp(k - max_for_state)
        num, den, max_state = e1 * num + e2 * v, e1 * den + e2, max_for_state
    return output


# models


class causal_model(nn.Module):
    """A small GPT of nn.TransformerEncoder, with learned positions."""

    def __init__(self, vocabulary=11, maxlen=16, dim=16, heads=2, layers=2):
        super().__init__()
        self.vocabulary, self.maxlen = vocabulary, maxlen
        self.tokens, self.positions = nn.Embedding(vocabulary, dim), nn.Embedding(maxlen, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, idx):
        length = idx.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.tokens(idx) + self.positions(torch.arange(length))
        return self.head(self.encoder(x, mask=mask, is_causal=True))

    def fit(self, idx, steps=50):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(self(idx[:, :-1]).flatten(0, 1), idx[:, 1:].flatten())
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def log_probs(self, idx):
        return F.log_softmax(self(idx), dim=-1)


class cached_model(nn.Module):
    """A Llama layer: RMSNorm, RoPE on halves, grouped queries, SwiGLU; its cache is (k, v)."""

    def __init__(self, vocab_size=11, dim=16, heads=4, kv_heads=2):
        super().__init__()
        self.vocabulary, self.heads, self.kv_heads, self.head_dim = vocab_size, heads, kv_heads, dim // heads
        self.embed_tokens = nn.Embedding(vocab_size, dim)
        self.input_norm, self.post_norm, self.norm = nn.RMSNorm(dim), nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.q_proj, self.o_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.gate_proj, self.up_proj = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.down_proj, self.lm_head = nn.Linear(2 * dim, dim, bias=False), nn.Linear(dim, vocab_size, bias=False)

    def _attend(self, x, past):
        b, n, _ = x.shape
        start = 0 if past is None else past[0].shape[2]
        inv_freq = 10000.0 ** (-torch.arange(0, self.head_dim, 2) / self.head_dim)
        angles = torch.outer(torch.arange(start, start + n), inv_freq).repeat(1, 2)
        q = self.q_proj(x).view(b, n, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotary(q, angles.cos(), angles.sin()), rotary(k, angles.cos(), angles.sin())
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        n_rep = self.heads // self.kv_heads
        out = F.scaled_dot_product_attention(q, _repeat_kv(k, n_rep), _repeat_kv(v, n_rep), is_causal=past is None)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1)), (k, v)

    def _run(self, input_ids, past_key_values=None):
        x = self.embed_tokens(input_ids)
        attended, past_key_values = self._attend(self.input_norm(x), past_key_values)
        x = x + attended
        h = self.post_norm(x)
        x = x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))
        return self.lm_head(self.norm(x)), past_key_values

    def forward(self, input_ids):
        return self._run(input_ids)[0]

    @torch.no_grad()
    def step(self, input_ids, past_key_values=None):
        logits, past_key_values = self._run(input_ids[:, None], past_key_values)
        return logits[:, 0], past_key_values


class ring_cache(nn.Module):
    """Sliding windows of Mistral in transformers, with rotary positions; the cache is the newest keys and values."""

    def __init__(self, vocab_size=11, dim=8, sliding_window=4):
        super().__init__()
        self.vocabulary, self.window = vocab_size, sliding_window
        self.embed_tokens, self.qkv = nn.Embedding(vocab_size, dim), nn.Linear(dim, 3 * dim, bias=False)

    def _heads(self, input_ids, start):
        q, k, v = self.qkv(self.embed_tokens(input_ids)).chunk(3, dim=-1)
        inv_freq = 10000.0 ** (-torch.arange(0, q.shape[-1], 2) / q.shape[-1])
        angles = torch.outer(torch.arange(start, start + q.shape[1]), inv_freq).repeat(1, 2)
        return rotary(q, angles.cos(), angles.sin()), rotary(k, angles.cos(), angles.sin()), v

    def forward(self, input_ids):
        q, k, v = (part[:, None] for part in self._heads(input_ids, 0))
        return window_attention(q, k, v, self.window)[:, 0]

    @torch.no_grad()
    def step(self, input_ids, past_key_values=None):
        length = 0 if past_key_values is None else past_key_values[0]
        q, k, v = self._heads(input_ids[:, None], length)
        if past_key_values is not None:
            k, v = torch.cat([past_key_values[1], k], dim=1), torch.cat([past_key_values[2], v], dim=1)
        k, v = k[:, -self.window :], v[:, -self.window :]
        return F.scaled_dot_product_attention(q, k, v)[:, 0], (length + 1, k, v)


class padding_invariance(nn.Module):
    """A bidirectional LSTM over packed sequences."""

    def __init__(self, dim=4, hidden=6):
        super().__init__()
        self.dim = dim
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])[0]
