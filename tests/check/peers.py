"""Other people's libraries under the names that the checker knows: adapters for PyTorch and for HIPS autograd.

Each gives a forward of its own and, for a backward, that library's automatic differentiation.
"""

import inspect
from types import SimpleNamespace

import numpy as np


def _with_backward(forward, differentiate, wrt):
    """forward(**arguments) and its backward with the signature (dy, *the forward's arguments)."""
    name = forward.__name__
    parameters = list(inspect.signature(forward).parameters.values())

    def backward(*given):
        dy, *arguments = given
        named = dict(zip((p.name for p in parameters), arguments, strict=True))
        present = [n for n in wrt if named[n] is not None]
        found = dict(zip(present, differentiate(forward, named, present, dy), strict=True))
        return tuple(found.get(n) for n in wrt)

    first = inspect.Parameter("dloss" if "loss" in name else "dy", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    plain = [p.replace(default=inspect.Parameter.empty) for p in parameters]

    signature = inspect.Signature([first, *plain])

    def with_signature(*args, **kwargs):
        return backward(*signature.bind(*args, **kwargs).args)

    with_signature.__signature__ = signature
    return with_signature


def torch_peer():
    """torch.nn.functional and torch.nn, in the dtype of their arguments."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)  # as the fixture `torch` does

    def tensor(x):
        return torch.tensor(np.array(x, order="C")) if isinstance(x, np.ndarray) else x

    def numpy(y):
        return y.detach().numpy().copy() if y.ndim else y.detach().numpy()[()]

    def differentiate(forward, named, present, dy):
        tensors = {n: tensor(x) for n, x in named.items()}
        for n in present:
            tensors[n].requires_grad_(True)
        y = forward(**tensors)
        upstream = tensor(np.asarray(dy)).to(y.dtype).reshape(y.shape)
        found = torch.autograd.grad(y, [tensors[n] for n in present], upstream, allow_unused=True)
        return [numpy(torch.zeros_like(tensors[n]) if g is None else g) for n, g in zip(present, found, strict=True)]

    def public(forward):
        def called(*args, **kwargs):
            return numpy(forward(*map(tensor, args), **{n: tensor(x) for n, x in kwargs.items()}))

        called.__signature__ = inspect.signature(forward)
        return called

    def softmax(s):
        return F.softmax(s, dim=-1)

    def linear(x, W, b=None):
        return F.linear(x, W.T, b)

    def relu(x):
        return F.relu(x)

    def gelu(x, approximate=False):
        return F.gelu(x, approximate="tanh" if approximate else "none")

    def layer_norm(x, gamma, beta, eps=1e-5):
        return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)

    def rms_norm(x, gamma, eps=1e-5):
        return F.rms_norm(x, x.shape[-1:], gamma, eps)

    def gelu_feed_forward(x, W_1, b_1, W_2, b_2, approximate=False):
        return F.linear(F.gelu(F.linear(x, W_1.T, b_1), approximate="tanh" if approximate else "none"), W_2.T, b_2)

    def embedding(ids, E):
        return F.embedding(ids.long(), E)

    def attention(q, k, v, mask=None, bias=None, scale=None):
        allowed = bias
        if mask is not None:
            shape = (*q.shape[:-1], k.shape[-2])
            allowed = mask.expand(shape)
            if bias is not None:
                allowed = torch.where(allowed, bias, -torch.inf)
        elif bias is not None:
            allowed = bias.expand((*q.shape[:-1], k.shape[-2]))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)

    def cross_entropy(logits, targets, weights=None):
        each = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).long(), reduction="none")
        w = torch.ones_like(each) if weights is None else weights.reshape(-1)
        return (each * w).sum() / w.sum()

    def bce_with_logits(z, targets, weights=None):
        each = F.binary_cross_entropy_with_logits(z, targets, reduction="none")
        w = torch.ones_like(each) if weights is None else weights
        return (each * w).sum() / w.sum()

    def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
        n = x.shape[-2]
        batch = x.reshape(-1, n, x.shape[-1]).transpose(0, 1)  # tokens first, as the function wants them
        forbidden = None if mask is None else ~mask.expand(n, n)  # there, True = may not look
        y, _ = F.multi_head_attention_forward(
            batch, batch, batch, x.shape[-1], heads, torch.cat([W_q.T, W_k.T, W_v.T]), None, None, None, False, 0.0,
            W_o.T, None, need_weights=False, attn_mask=forbidden,
        )  # fmt: skip
        return y.transpose(0, 1).reshape(x.shape)

    def grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None):
        def split(y, h):
            return y.unflatten(-1, (h, y.shape[-1] // h)).transpose(-2, -3)

        q, k, v = split(x @ W_q, heads), split(x @ W_k, kv_heads), split(x @ W_v, kv_heads)
        allowed = None if mask is None else mask.expand(x.shape[-2], x.shape[-2])
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, enable_gqa=True)
        return out.transpose(-2, -3).reshape(x.shape) @ W_o

    wrt = {
        softmax: ("s",), linear: ("x", "W", "b"), relu: ("x",), gelu: ("x",), layer_norm: ("x", "gamma", "beta"),
        embedding: ("E",), attention: ("q", "k", "v", "bias"), cross_entropy: ("logits",), bce_with_logits: ("z",),
        multi_head_attention: ("x", "W_q", "W_k", "W_v", "W_o"), rms_norm: ("x", "gamma"),
        gelu_feed_forward: ("x", "W_1", "b_1", "W_2", "b_2"),
        grouped_query_attention: ("x", "W_q", "W_k", "W_v", "W_o"),
    }  # fmt: skip
    peer = {}
    for forward, names in wrt.items():
        peer[forward.__name__] = public(forward)
        peer[f"{forward.__name__}_backward"] = _with_backward(forward, differentiate, names)

    def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        p = torch.nn.Parameter(tensor(vector))
        p.grad = tensor(gradient)
        optimiser = torch.optim.Adam([p], lr=lr, betas=(beta1, beta2), eps=eps)
        state = {"step": torch.tensor(float(step - 1)), "exp_avg": tensor(moments[0]), "exp_avg_sq": tensor(moments[1])}
        optimiser.state[p] = state
        optimiser.step()
        vector[...] = numpy(p)
        moments[0][...], moments[1][...] = numpy(state["exp_avg"]), numpy(state["exp_avg_sq"])

    return SimpleNamespace(**peer, adam=adam)


def autograd_peer():
    """The ops once more in autograd.numpy, with its reverse mode for a backward."""
    import autograd.numpy as anp
    from autograd import make_vjp

    def differentiate(forward, named, present, dy):
        def of(values):
            return forward(**(named | dict(zip(present, values, strict=True))))

        vjp, _ = make_vjp(of)(tuple(named[n] for n in present))
        return [np.asarray(g) for g in vjp(dy)]

    def softmax(s, mask=None):
        allowed = np.broadcast_to(True if mask is None else mask, s.shape)
        some = np.any(allowed, axis=-1, keepdims=True)
        shifted = anp.where(allowed, s, -np.inf)
        shifted = shifted - anp.where(some, anp.max(anp.where(allowed, s, -np.inf), axis=-1, keepdims=True), 0)
        e = anp.where(allowed, anp.exp(anp.where(allowed, shifted, 0.0)), 0.0)
        return e / anp.where(some, anp.sum(e, axis=-1, keepdims=True), 1.0)

    def linear(x, W, b=None):
        return anp.dot(x, W) if b is None else anp.dot(x, W) + b

    def layer_norm(x, gamma, beta, eps=1e-5):
        centred = x - anp.mean(x, axis=-1, keepdims=True)
        return centred / anp.sqrt(anp.mean(centred**2, axis=-1, keepdims=True) + eps) * gamma + beta

    def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
        c = q.shape[-1] ** -0.5 if scale is None else scale
        s = c * anp.matmul(q, anp.swapaxes(k, -1, -2))
        weights = softmax(s if bias is None else s + bias, mask)
        return anp.matmul(weights if keep is None else weights * keep / (1 - rate), v)

    def cross_entropy(logits, targets, weights=None):
        w = np.ones(targets.shape) if weights is None else weights
        one_hot = np.arange(logits.shape[-1]) == targets[..., None]
        top = anp.max(logits, axis=-1, keepdims=True)
        log_sum = anp.log(anp.sum(anp.exp(logits - top), axis=-1)) + top[..., 0]
        return anp.sum(w * (log_sum - anp.sum(logits * one_hot, axis=-1))) / np.sum(w)

    wrt = {
        softmax: ("s",), linear: ("x", "W", "b"), layer_norm: ("x", "gamma", "beta"),
        attention: ("q", "k", "v", "bias"), cross_entropy: ("logits",),
    }  # fmt: skip
    peer = {}
    for forward, names in wrt.items():
        peer[forward.__name__] = forward
        peer[f"{forward.__name__}_backward"] = _with_backward(forward, differentiate, names)
    return SimpleNamespace(**peer)
