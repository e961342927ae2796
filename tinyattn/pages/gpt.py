"""A language model, complete: from any text to more of its kind, with every gradient derived by hand.

    python gpt.py [FILE]     FILE is a text; without it, sentences of a small grammar are drawn

A causal Transformer reads characters and predicts at each position the one that follows (Vaswani et al. 2017; Radford
et al. 2019). A batch is B windows of L characters, each of D numbers, and dx is the gradient of the loss by x."""

import re
import sys
from pathlib import Path

import numpy as np

CONTEXT, D, H, BLOCKS, EPS = 128, 64, 4, 2, 1e-5
BATCH, STEPS, LR, BETA1, BETA2 = 8, 3500, 3e-3, 0.9, 0.98
RULES = {  # a word in capitals becomes one of these, with weights; a verb agrees with a noun that may be far before it
    "SENTENCE": {"ONE DOES. ": 1, "MANY DO. ": 1}, "OTHER": {"the NOUN": 1, "the NOUNs": 1},
    "ONE": {"the NOUN": 4, "a NOUN": 2, "the NOUN that SEES OTHER": 1, "every NOUN near OTHER": 1},
    "MANY": {"the NOUNs": 4, "two NOUNs": 2, "the NOUNs that SEE OTHER": 1, "all NOUNs near OTHER": 1},
    "DOES": {"sleeps": 1, "runs": 1, "SEES OTHER": 2}, "DO": {"sleep": 1, "run": 1, "SEE OTHER": 2},
    "SEES": {"sees": 2, "likes": 1, "hears": 1}, "SEE": {"see": 2, "like": 1, "hear": 1},
    "NOUN": {"cat": 3, "dog": 3, "owl": 1, "goat": 1},
}


def write(rng):
    """-> a sentence, and -log of its probability in nats; the mean of that is the entropy of the grammar."""
    text, nats = "SENTENCE", 0.0
    while word := re.search("[A-Z]+", text):
        forms, weights = zip(*RULES[word[0]].items(), strict=True)
        i = rng.choice(len(forms), p=np.divide(weights, sum(weights)))
        text, nats = text.replace(word[0], forms[i], 1), nats - np.log(weights[i] / sum(weights))
    return text, nats


def init(rng, n_tokens):
    """-> parameters by name; those of blocks are stacked: p["Wq"][i] is block i's."""
    shapes = {"Wq": (D, D), "Wk": (D, D), "Wv": (D, D), "Wo": (D, D), "W1": (D, 4 * D), "W2": (4 * D, D)}
    p = {name: rng.uniform(-1, 1, (BLOCKS, *shape)) * np.sqrt(6 / sum(shape)) for name, shape in shapes.items()}
    p |= {"b" + name[1:]: np.zeros((BLOCKS, shape[1])) for name, shape in shapes.items()}
    p |= {"gain": np.ones(D), "gain1": np.ones((BLOCKS, D)), "gain2": np.ones((BLOCKS, D)), "bias": np.zeros(D)}
    p |= {"bias1": np.zeros((BLOCKS, D)), "bias2": np.zeros((BLOCKS, D)), "tokens": rng.normal(0, 0.02, (n_tokens, D))}
    return p | {"positions": rng.uniform(-1, 1, (CONTEXT, D)) * np.sqrt(6 / (CONTEXT + D))}


def linear_backward(dy, x, W):
    """y = x W + b -> dx = dy Wᵀ, dW = xᵀ dy, db = Σ dy, over all tokens."""
    return dy @ W.T, np.tensordot(x, dy, ((0, 1), (0, 1))), dy.sum((0, 1))


def layer_norm(x, gain, bias):
    """y = gain n + bias with n = (x - mean) r and r = 1 / √(variance + EPS), of each token."""
    x = x - x.mean(-1, keepdims=True)
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
    return gain * (x * r) + bias, (x * r, r)


def layer_norm_backward(dy, saved, gain):
    """-> dx, dgain, dbias. dx = r (dn - mean(dn) - n mean(dn n)): the mean and r depend on all of x."""
    n, r = saved
    dn = dy * gain                                                                  # y = gain n + bias
    dx = r * (dn - dn.mean(-1, keepdims=True) - n * (dn * n).mean(-1, keepdims=True))
    return dx, (dy * n).sum((0, 1)), dy.sum((0, 1))


def split(x):
    """(B, L, D) -> (B, H, L, D / H): each head gets D / H of the numbers of every token."""
    return x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2)


def merge(x):
    """(B, H, L, D / H) -> (B, L, D), which undoes split; each is the other's backward."""
    return x.swapaxes(1, 2).reshape(len(x), x.shape[2], D)


def attention(q, k, v):
    """softmax(q kᵀ / √(D / H)) v, where a position sees itself and those before it. -> out, weights (B, H, L, L)."""
    s = q @ k.swapaxes(2, 3) * (D // H) ** -0.5
    s[..., ~np.tri(s.shape[2], dtype=bool)] = -np.inf
    w = np.exp(s - s.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return w @ v, w


def attention_backward(dout, q, k, v, w):
    """-> dq, dk, dv."""
    dw, dv = dout @ v.swapaxes(2, 3), w.swapaxes(2, 3) @ dout                       # out = w v
    ds = w * (dw - (dw * w).sum(-1, keepdims=True)) * (D // H) ** -0.5              # w = softmax(s), s = q kᵀ ..
    return ds @ k, ds.swapaxes(2, 3) @ q, dv


def gelu(x):
    """y = x (1 + t) / 2 with t = tanh(c (x + .044715 x³)), c = √(2 / π) (Hendrycks & Gimpel 2016). -> y, t."""
    t = np.tanh(np.sqrt(2 / np.pi).astype(x.dtype) * (x + 0.044715 * x * x * x))
    return x * (1 + t) / 2, t


def gelu_backward(dy, x, t):
    """dy/dx = (1 + t) / 2 + x (1 - t²) c (1 + 3 · .044715 x²) / 2: the product rule, and tanh' = 1 - tanh²."""
    return dy * ((1 + t) + x * (1 - t * t) * np.sqrt(2 / np.pi).astype(x.dtype) * (1 + 0.134145 * x * x)) / 2


def block(p, i, x):
    """x + attention(norm(x)), then x + f(norm(x)), where f is two layers, applied to each token alone."""
    h, norm1 = layer_norm(x, p["gain1"][i], p["bias1"][i])
    q, k, v = (split(h @ p["W" + name][i] + p["b" + name][i]) for name in "qkv")
    out, w = attention(q, k, v)
    out = merge(out)
    x = x + out @ p["Wo"][i] + p["bo"][i]
    m, norm2 = layer_norm(x, p["gain2"][i], p["bias2"][i])
    u = m @ p["W1"][i] + p["b1"][i]
    g, t = gelu(u)
    return x + g @ p["W2"][i] + p["b2"][i], (h, norm1, q, k, v, w, out, m, norm2, u, g, t)


def block_backward(p, i, dy, saved, grads):
    """-> dx; the parameters' gradients are written into grads. A sum passes its gradient to both terms."""
    h, norm1, q, k, v, w, out, m, norm2, u, g, t = saved
    dg, grads["W2"][i], grads["b2"][i] = linear_backward(dy, g, p["W2"][i])         # y = x + g W2 + b2
    du = gelu_backward(dg, u, t)                                                    # g = gelu(u)
    dm, grads["W1"][i], grads["b1"][i] = linear_backward(du, m, p["W1"][i])         # u = m W1 + b1
    dx, grads["gain2"][i], grads["bias2"][i] = layer_norm_backward(dm, norm2, p["gain2"][i])
    dx = dx + dy                                                                    # y = x + ..
    dout, grads["Wo"][i], grads["bo"][i] = linear_backward(dx, out, p["Wo"][i])     # x + out Wo + bo
    dh = 0
    for name, d in zip("qkv", attention_backward(split(dout), q, k, v, w), strict=True):
        d, grads["W" + name][i], grads["b" + name][i] = linear_backward(merge(d), h, p["W" + name][i])
        dh = dh + d                                                                 # q = h Wq + bq, k, v
    dh, grads["gain1"][i], grads["bias1"][i] = layer_norm_backward(dh, norm1, p["gain1"][i])
    return dh + dx                                                                  # x + ..


def forward(p, ids):
    """-> scores (B, L, n_tokens) of the next token at each position, and what backward needs."""
    x, blocks = p["tokens"][ids] + p["positions"][: ids.shape[1]], [()] * BLOCKS
    for i in range(BLOCKS):
        x, blocks[i] = block(p, i, x)
    h, norm = layer_norm(x, p["gain"], p["bias"])
    return h @ p["tokens"].T, (h, norm, blocks)


def loss_and_gradient(p, ids, targets):
    """-log softmax(scores)[target], the mean over all positions, in nats. -> loss, grads."""
    z, (h, norm, blocks) = forward(p, ids)
    z = z - z.max(-1, keepdims=True)
    z = z - np.log(np.exp(z).sum(-1, keepdims=True))                                # log softmax
    at = targets[..., None]
    loss = -np.take_along_axis(z, at, -1).mean()
    grads = {name: np.zeros_like(x) for name, x in p.items()}
    dz = np.exp(z) / targets.size                                                   # (probability - [is target]) / N
    np.put_along_axis(dz, at, np.take_along_axis(dz, at, -1) - 1 / targets.size, -1)
    dx, grads["gain"], grads["bias"] = layer_norm_backward(dz @ p["tokens"], norm, p["gain"])
    for i in reversed(range(BLOCKS)):
        dx = block_backward(p, i, dx, blocks[i], grads)
    grads["positions"][: ids.shape[1]] = dx.sum(0)                                  # x = tokens[ids] + positions
    grads["tokens"] += np.tensordot(dz, h, ((0, 1), (0, 1)))                        # scores = h tokensᵀ
    np.add.at(grads["tokens"], ids, dx)                                             # tokens[ids] reads the table, too
    return loss, grads


def adam(p, grads, moments, step):
    """p -= lr m / √v, m and v being running means of the gradient and its square (Kingma & Ba 2015); lr falls to 0."""
    for name, (m, v) in moments.items():
        m += (1 - BETA1) * (grads[name] - m)
        v += (1 - BETA2) * (grads[name] ** 2 - v)
        p[name] -= LR * (1 - step / STEPS) * m / (1 - BETA1**step) / (np.sqrt(v / (1 - BETA2**step)) + 1e-8)


def generate(p, ids, length, rng):
    """The ids and `length` more, each drawn from the model's distribution after the last CONTEXT ids."""
    for _ in range(length):
        z = forward(p, np.array([ids[-CONTEXT:]]))[0][0, -1].astype(float)
        ids = [*ids, rng.choice(len(z), p=np.exp(z - z.max()) / np.exp(z - z.max()).sum())]
    return ids


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    try:
        made = [] if sys.argv[1:] else [write(rng) for _ in range(12000)]
        text = Path(sys.argv[1]).read_text("utf-8") if sys.argv[1:] else "".join(sentence for sentence, _ in made)
        if len(text) < 11 * CONTEXT:
            raise ValueError(f"a text of {len(text)} characters, expected {11 * CONTEXT} or more")
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    names, ids = np.unique(list(text), return_inverse=True)
    train, test = np.split(ids, [len(ids) * 9 // 10])
    p = {name: x.astype(np.float32) for name, x in init(rng, len(names)).items()}
    moments = {name: (np.zeros_like(x), np.zeros_like(x)) for name, x in p.items()}
    for step in range(1, STEPS + 1):
        rows = rng.integers(0, len(train) - CONTEXT, BATCH)[:, None] + np.arange(CONTEXT + 1)
        loss, grads = loss_and_gradient(p, train[rows[:, :-1]], train[rows[:, 1:]])
        adam(p, grads, moments, step)
        if step % 100 == 0:
            print(f"step {step:5}   loss {loss:.4f} nats a character")
    rows = np.arange(0, len(test) - CONTEXT, CONTEXT)[:, None] + np.arange(CONTEXT + 1)
    losses = [loss_and_gradient(p, test[row[None, :-1]], test[row[None, 1:]])[0] for row in rows]
    print(f"test loss {np.mean(losses):.4f}", f"entropy {sum(n for _, n in made) / len(text):.4f}" if made else "")
    print("".join(names[generate(p, ids[:1].tolist(), 300, rng)]))
