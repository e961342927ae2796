"""SASRec, complete: from a file of interactions to ten recommendations, with every gradient derived by hand.

    python sasrec.py [FILE]     a line of FILE is `user item`, a user's oldest interaction first

Without FILE it simulates people who watch several series at once. A causal Transformer reads a history and predicts at
each position the item that follows (Kang & McAuley 2018). A batch is B histories of L items, an item is D numbers, and
dx is the gradient of the loss by x, shaped like x."""

import sys

import numpy as np

MAXLEN, D, BLOCKS, DROPOUT, EPS = 50, 50, 2, 0.2, 1e-8
BATCH, EPOCHS, LR, BETA1, BETA2 = 128, 80, 1e-3, 0.9, 0.98


def read(path):
    """-> histories of four items or more, as lists of item numbers, and the items' names by number."""
    histories, numbers = {}, {"": 0}
    with open(path, encoding="utf-8") as file:
        for user, item, *_ in map(str.split, filter(str.strip, file)):
            histories.setdefault(user, []).append(numbers.setdefault(item, len(numbers)))
    if not any(len(h) > 3 for h in histories.values()):
        raise ValueError("nobody has four items: two to learn from, one to validate on, one to test on")
    return [h for h in histories.values() if len(h) > 3], list(numbers)


def world(rng, users=3000, series=12, episodes=8):
    """Everybody watches up to four series at once, each in its order, and begins a new one now and then."""
    histories, popularity = [], 1 / np.arange(2, series + 2)
    for _ in range(users):
        seen, history = np.zeros(series, int), []
        for _ in range(rng.integers(10, 31)):
            going, fresh = (seen > 0) & (seen < episodes), popularity * (seen == 0)
            begin = 1 if not going.any() else 0.2 * (going.sum() < 4 and fresh.any())
            chances = begin * fresh / max(fresh.sum(), 1e-9) + (1 - begin) * going / max(going.sum(), 1)
            s = rng.choice(series, p=chances)
            history.append(s * episodes + seen[s] + 1)
            seen[s] += 1
        histories.append(history)
    return histories, ["", *(f"s{s + 1}e{e + 1}" for s in range(series) for e in range(episodes))]


def pad(histories):
    """-> ids, slots (B, L): items, then zeros as padding; and positions, where the newest item has MAXLEN - 1."""
    length = max(map(len, histories))
    ids = np.array([h + [0] * (length - len(h)) for h in histories])
    first = MAXLEN - (ids > 0).sum(1, keepdims=True)
    return ids, np.minimum(first + np.arange(length), MAXLEN - 1)


def batch(histories, n_items, rng):
    """-> ids, slots, targets, negatives (B, L). Targets are the items that follow, negatives are not in the history."""
    ids, slots = pad([h[-MAXLEN - 1 : -1] for h in histories])
    targets, _ = pad([h[1:][-MAXLEN:] for h in histories])
    had = np.zeros((len(ids), n_items + 1), bool)
    np.put_along_axis(had, np.c_[ids, targets], True, axis=1)
    negatives = rng.integers(1, n_items + 1, ids.shape)
    while (again := np.take_along_axis(had, negatives, axis=1)).any():
        negatives[again] = rng.integers(1, n_items + 1, again.sum())
    return ids, slots, targets, negatives


def init(rng, n):
    """-> parameters by name; those of blocks are stacked: p["Wq"][i] is block i's. Uniform: Glorot & Bengio 2010."""
    shapes = {"items": (n + 1, D), "positions": (MAXLEN, D)} | {"W" + name: (BLOCKS, D, D) for name in "qkv12"}
    p = {name: rng.uniform(-1, 1, shape) * np.sqrt(6 / sum(shape[-2:])) for name, shape in shapes.items()}
    p |= {"gain": np.ones(D), "gain1": np.ones((BLOCKS, D)), "gain2": np.ones((BLOCKS, D)), "bias": np.zeros(D)}
    return p | {name: np.zeros((BLOCKS, D)) for name in ("bias1", "bias2", "b1", "b2")}


def linear_backward(dy, x, W):
    """y = x W + b -> dx = dy Wᵀ, dW = xᵀ dy, db = Σ dy, over all tokens."""
    return dy @ W.T, np.tensordot(x, dy, ((0, 1), (0, 1))), dy.sum((0, 1))


def dropout(x, rng):
    """Zero each entry with probability DROPOUT and scale up the others. -> y = x keep, keep."""
    keep = np.ones_like(x) if rng is None else (rng.random(x.shape, x.dtype) >= DROPOUT) / x.dtype.type(1 - DROPOUT)
    return x * keep, keep


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


def attention(q, k, v):
    """softmax(q kᵀ / √D) v, where a position sees itself and those before it. -> out, weights (B, L, L)."""
    s = q @ k.swapaxes(1, 2) * D**-0.5
    s[:, ~np.tri(s.shape[1], dtype=bool)] = -np.inf
    w = np.exp(s - s.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return w @ v, w


def attention_backward(dout, q, k, v, w):
    """-> dq, dk, dv."""
    dw, dv = dout @ v.swapaxes(1, 2), w.swapaxes(1, 2) @ dout                       # out = w v
    ds = w * (dw - (dw * w).sum(-1, keepdims=True)) * D**-0.5                       # w = softmax(s), s = q kᵀ / √D
    return ds @ k, ds.swapaxes(1, 2) @ q, dv


def block(p, i, x, rng):
    """x + attention(norm(x)), then x + f(norm(x)), where f is two layers, applied to each token alone."""
    h, norm1 = layer_norm(x, p["gain1"][i], p["bias1"][i])
    q, k, v = h @ p["Wq"][i], h @ p["Wk"][i], h @ p["Wv"][i]
    a, w = attention(q, k, v)
    a, keep1 = dropout(a, rng)
    x = x + a
    m, norm2 = layer_norm(x, p["gain2"][i], p["bias2"][i])
    u = np.maximum(m @ p["W1"][i] + p["b1"][i], 0)
    f, keep2 = dropout(u @ p["W2"][i] + p["b2"][i], rng)
    return x + f, (h, norm1, q, k, v, w, keep1, m, norm2, u, keep2)


def block_backward(p, i, dy, saved, grads):
    """-> dx; the parameters' gradients are written into grads. A sum passes its gradient to both terms."""
    h, norm1, q, k, v, w, keep1, m, norm2, u, keep2 = saved
    df = dy * keep2                                                                 # y = x + dropout(f)
    du, grads["W2"][i], grads["b2"][i] = linear_backward(df, u, p["W2"][i])         # f = u W2 + b2
    du = du * (u > 0)                                                               # u = max(.., 0)
    dm, grads["W1"][i], grads["b1"][i] = linear_backward(du, m, p["W1"][i])         # m W1 + b1
    dx, grads["gain2"][i], grads["bias2"][i] = layer_norm_backward(dm, norm2, p["gain2"][i])
    dx = dx + dy                                                                    # y = x + ..
    da = dx * keep1                                                                 # x + dropout(a)
    dh = 0
    for name, d in zip(("Wq", "Wk", "Wv"), attention_backward(da, q, k, v, w), strict=True):
        d, grads[name][i], _ = linear_backward(d, h, p[name][i])                    # q = h Wq, k = h Wk, v = h Wv
        dh = dh + d
    dh, grads["gain1"][i], grads["bias1"][i] = layer_norm_backward(dh, norm1, p["gain1"][i])
    return dh + dx                                                                  # x + ..


def forward(p, ids, slots, rng=None):
    """-> h (B, L, D), a prediction of the next item at each position, and what backward needs."""
    x, keep = dropout(p["items"][ids] + p["positions"][slots], rng)
    blocks = [()] * BLOCKS
    for i in range(BLOCKS):
        x, blocks[i] = block(p, i, x, rng)
    h, norm = layer_norm(x, p["gain"], p["bias"])
    return h, (keep, blocks, norm)


def loss_and_gradient(p, ids, slots, targets, negatives, rng=None):
    """-log σ(h · target) - log(1 - σ(h · negative)), a mean over positions that have a target. -> loss, grads."""
    h, (keep, blocks, norm) = forward(p, ids, slots, rng)
    e, f = p["items"][targets], p["items"][negatives]
    z, o = (h * e).sum(-1), (h * f).sum(-1)
    share = (targets > 0) / (targets > 0).sum(dtype=h.dtype)
    loss = (share * (np.logaddexp(0, -z) + np.logaddexp(0, o))).sum()               # -log σ(z) = log(1 + exp(-z))
    grads = {name: np.zeros_like(x) for name, x in p.items()}
    dz, do = -share / (1 + np.exp(z)), share / (1 + np.exp(-o))                     # the derivative is σ(z) - 1
    dh = dz[..., None] * e + do[..., None] * f                                      # z = h · e, o = h · f
    dx, grads["gain"], grads["bias"] = layer_norm_backward(dh, norm, p["gain"])
    for i in reversed(range(BLOCKS)):
        dx = block_backward(p, i, dx, blocks[i], grads)
    dx = dx * keep
    np.add.at(grads["positions"], slots, dx)                                        # x = items[ids] + positions[slots]
    for rows, d in ((ids, dx), (targets, dz[..., None] * h), (negatives, do[..., None] * h)):
        np.add.at(grads["items"], rows, d)                                          # a row is read many times
    grads["items"][0] = 0                                                           # padding learns nothing
    return loss, grads


def adam(p, grads, moments, step):
    """p -= LR m / √v, m and v being running means of the gradient and its square (Kingma & Ba 2015)."""
    for name, (m, v) in moments.items():
        m += (1 - BETA1) * (grads[name] - m)
        v += (1 - BETA2) * (grads[name] ** 2 - v)
        p[name] -= LR * m / (1 - BETA1**step) / (np.sqrt(v / (1 - BETA2**step)) + 1e-8)


def score(p, histories):
    """-> (B, n_items + 1): each item's score as the next one; -∞ for padding and for items of the history."""
    ids, slots = pad([h[-MAXLEN:] for h in histories])
    h, _ = forward(p, ids, slots)
    s = h[np.arange(len(ids)), (ids > 0).sum(1) - 1] @ p["items"].T
    for row, history in zip(s, histories, strict=True):
        row[[0, *history]] = -np.inf
    return s


def measure(p, histories, targets):
    """HR@10 and NDCG@10 among all items, as text. A target of rank r <= 10 counts 1 and 1 / log2(r + 1), others 0."""
    s = np.concatenate([score(p, histories[i : i + 256]) for i in range(0, len(histories), 256)])
    rank = 1 + (s > s[np.arange(len(s)), targets][:, None]).sum(1)
    return f"HR@10 {np.mean(rank <= 10):.4f}   NDCG@10 {np.mean((rank <= 10) / np.log2(rank + 1)):.4f}"


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    try:
        histories, names = read(sys.argv[1]) if sys.argv[1:] else world(rng)
    except (OSError, ValueError) as error:
        print(f"{sys.argv[1]}: expected a line `user item` for each interaction: {error}", file=sys.stderr)
        sys.exit(2)
    train = [h[:-2] for h in histories]                                             # one to validate on, one to test on
    p = {name: x.astype(np.float32) for name, x in init(rng, len(names) - 1).items()}
    moments, step = {name: (np.zeros_like(x), np.zeros_like(x)) for name, x in p.items()}, 0
    for epoch in range(1, EPOCHS + 1):
        for rows in np.array_split(rng.permutation(len(train)), max(1, len(train) // BATCH)):
            loss, grads = loss_and_gradient(p, *batch([train[i] for i in rows], len(names) - 1, rng), rng)
            step += 1
            adam(p, grads, moments, step)
        if epoch % 5 == 0:
            print(f"epoch {epoch:3}   loss {loss:.4f}   valid", measure(p, train, [h[-2] for h in histories]))
    print("test", measure(p, [h[:-1] for h in histories], [h[-1] for h in histories]))
    best = np.argsort(-score(p, histories[:1])[0])[:10]
    print("after", *(names[i] for i in histories[0]), "comes", *(names[i] for i in best))
