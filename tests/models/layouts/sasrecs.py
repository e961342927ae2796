"""SASRec as other libraries save it, with random weights, and what their code computes, in plain NumPy.

Nothing here is taken from tinyattn: names, shapes and equations are theirs, and so is padding, which stands before the
items and is looked at.
"""

import numpy as np

N, D, H, ITEMS, BLOCKS = 6, 8, 2, 9, 2


def blocks_of(names):
    """Shapes of a block, by the names of its two norms, its attention and its two maps, and of their kernel."""
    first, heads, second, inner, outer, kernel = names
    found = {f"{heads}.in_proj_weight": (3 * D, D), f"{heads}.in_proj_bias": (3 * D,)}
    for name in (first, second):
        found |= {f"{name}.weight": (D,), f"{name}.bias": (D,)}
    for name, more in ((f"{heads}.out_proj", ()), (inner, kernel), (outer, kernel)):
        found |= {f"{name}.weight": (D, D, *more), f"{name}.bias": (D,)}
    return found


def of_pmixer(i):
    inner, outer = (f"forward_layers.{i}.conv{number}" for number in (1, 2))
    return f"attention_layernorms.{i}", f"attention_layers.{i}", f"forward_layernorms.{i}", inner, outer, (1,)


def of_rectools(i):
    at = f"transformer_layers.transformer_blocks.{i}"
    inner, outer = (f"{at}.feed_forward.ff_linear_{number}" for number in (1, 2))
    return f"{at}.q_layer_norm", f"{at}.multi_head_attn", f"{at}.ff_layer_norm", inner, outer, ()


def weights_of(first, of_block, last):
    rng, shapes = np.random.default_rng(0), first | {f"{last}.weight": (D,), f"{last}.bias": (D,)}
    for i in range(BLOCKS):
        shapes |= blocks_of(of_block(i))
    return {name: 0.5 * rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def pmixer_weights():
    """Of its code since June 2024, which sets padding's position to 0."""
    found = weights_of({"item_emb.weight": (ITEMS + 1, D), "pos_emb.weight": (N + 1, D)}, of_pmixer, "last_layernorm")
    found["pos_emb.weight"][0] = 0
    return found


def first_pmixer_weights():
    """Of its code before: every row of the positions is a place."""
    return weights_of({"item_emb.weight": (ITEMS + 1, D), "pos_emb.weight": (N, D)}, of_pmixer, "last_layernorm")


RECTOOLS_ITEMS = "item_model.item_net_blocks.0.ids_emb.weight"


def rectools_weights():
    first = {RECTOOLS_ITEMS: (ITEMS + 1, D), "pos_encoding_layer.pos_emb.weight": (N, D)}
    return weights_of(first, of_rectools, "transformer_layers.last_layernorm")


class Parts:
    """What torch computes with these weights, in float64, for one sequence."""

    def __init__(self, weights):
        self.t = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(self, x, name, eps):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
        return centred / scale * self.t[f"{name}.weight"] + self.t[f"{name}.bias"]

    def linear(self, x, name):
        return x @ self.t[f"{name}.weight"].reshape(D, D).T + self.t[f"{name}.bias"]

    def attention(self, query, memory, name, hidden=0):
        """Causal; of the first `hidden` keys each query sees none but itself."""
        W, b = self.t[f"{name}.in_proj_weight"], self.t[f"{name}.in_proj_bias"]
        q, k, v = (x @ W[i * D : (i + 1) * D].T + b[i * D : (i + 1) * D] for i, x in enumerate((query, memory, memory)))
        out, d = np.zeros_like(q), D // H
        for h in range(H):
            own = slice(h * d, (h + 1) * d)
            for t in range(len(q)):
                seen = [j for j in range(t + 1) if j >= hidden or j == t]
                e = np.exp(k[seen, own] @ q[t, own] / d**0.5)
                out[t, own] = e / e.sum() @ v[seen, own]
        return self.linear(out, f"{name}.out_proj")

    def feed_forward(self, x, inner, outer):
        return self.linear(np.maximum(self.linear(x, inner), 0), outer)


def pmixer(weights, form, history, first_code=False):
    """Scores (ITEMS + 1,) of what comes next; with `first_code`, as before June 2024."""
    net = Parts(weights)
    ids = np.concatenate([np.zeros(max(0, N - len(history)), dtype=int), history[-N:]])
    real = (ids != 0)[:, None] if first_code else 1
    places = np.arange(N) if first_code else np.arange(1, N + 1) * (ids != 0)
    x = (net.t["item_emb.weight"][ids] * D**0.5 + net.t["pos_emb.weight"][places]) * real
    for i in range(BLOCKS):
        first, heads, second, inner, outer, _ = of_pmixer(i)
        if form == "pre":
            h = net.norm(x, first, 1e-8)
            x = x + net.attention(h, h, heads)
            x = x + net.feed_forward(net.norm(x, second, 1e-8), inner, outer)
        elif form == "post":
            x = net.norm(x + net.attention(x, x, heads), first, 1e-8)
            x = net.norm(x + net.feed_forward(x, inner, outer), second, 1e-8)
        else:
            q = net.norm(x, first, 1e-8)
            h = net.norm(q + net.attention(q, x, heads), second, 1e-8)
            x = (h + net.feed_forward(h, inner, outer)) * real
    return net.t["item_emb.weight"] @ net.norm(x, "last_layernorm", 1e-8)[-1]


def rectools(weights, history, mask=False):
    """Scores (ITEMS + 1,) of what comes next; with `mask`, its use_key_padding_mask."""
    net = Parts(weights)
    ids = np.concatenate([np.zeros(max(0, N - len(history)), dtype=int), history[-N:]])
    real, hidden = (ids != 0)[:, None], np.sum(ids == 0) if mask else 0
    x = net.t[RECTOOLS_ITEMS][ids] + net.t["pos_encoding_layer.pos_emb.weight"][::-1]
    for i in range(BLOCKS):
        first, heads, second, inner, outer, _ = of_rectools(i)
        x = x * real
        q = net.norm(x, first, 1e-5)
        h = net.norm(q + net.attention(q, x, heads, hidden), second, 1e-5)
        x = h + net.feed_forward(h, inner, outer)
    return net.t[RECTOOLS_ITEMS] @ net.norm(x * real, "transformer_layers.last_layernorm", 1e-8)[-1]
