"""Whole networks in plain NumPy, one history at a time: what stands in which order, and with which options."""

import math

import numpy as np
import pytest

from tinyattn.data import pad
from tinyattn.models import BERT4Rec, GRU4Rec, SASRec
from tinyattn.models.transformers.decoder import DecoderNetwork
from tinyattn.models.transformers.encoder import EncoderNetwork
from tinyattn.tree import tree_map

HISTORY = np.array([3, 1, 4, 5])
ERF = np.vectorize(math.erf)
ACTIVATIONS = {
    "relu": lambda u: np.maximum(u, 0), "gelu": lambda u: u * (1 + ERF(u / math.sqrt(2))) / 2,
    "gelu-tanh": lambda u: u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))) / 2,
    "elu": lambda u: np.where(u > 0, u, np.expm1(u)), "silu": lambda u: u / (1 + np.exp(-u)),
}  # fmt: skip


def layer_norm(p, x, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps) * p["gamma"] + p["beta"]


def rms_norm(p, x, eps):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * p["gamma"]


def dense(p, x):
    return x @ p["W"] + p.get("b", 0)


def attention(p, x, memory, heads, causal, kv_heads=None):
    q, k, v = dense(p["query"], x), dense(p["key"], memory), dense(p["value"], memory)
    n, width, out = len(x), x.shape[1] // heads, []
    for head in range(heads):
        own, shared = (slice(i * width, (i + 1) * width) for i in (head, head // (heads // (kv_heads or heads))))
        s = q[:, own] @ k[:, shared].T / math.sqrt(width)
        if causal:
            s[np.triu_indices(n, 1)] = -np.inf
        e = np.exp(s - s.max(axis=1, keepdims=True))
        out.append(e / e.sum(axis=1, keepdims=True) @ v[:, shared])
    y = np.concatenate(out, axis=1)
    return dense(p["output"], y) if "output" in p else y


def feed_forward(p, x, activation):
    if activation == "swiglu":
        return (ACTIVATIONS["silu"](dense(p["gate"], x)) * dense(p["inner"], x)) @ p["outer"]["W"]
    return dense(p["outer"], ACTIVATIONS[activation](dense(p["inner"], x)))


def block(p, x, form, norm, attend, ffn):
    """A form of the block as its docstring has it; `attend(p, queries, memory)`."""
    sigmoid = lambda u: 1 / (1 + np.exp(-u))  # noqa: E731
    if form == "post":
        x = norm(p["norm_1"], x + attend(p["attention"], x, x))
        return norm(p["norm_2"], x + ffn(p["feed_forward"], x))
    if form == "sasrec":
        q = norm(p["norm_1"], x)
        h = norm(p["norm_2"], q + attend(p["attention"], q, x))
        return h + ffn(p["feed_forward"], h)
    h = norm(p["norm_1"], x)
    a = attend(p["attention"], h, h)
    if form == "ligr":
        x = x + sigmoid(dense(p["gate_1"], x)) * a
        return x + sigmoid(dense(p["gate_2"], x)) * ffn(p["feed_forward"], norm(p["norm_2"], x))
    x = a if form == "plain" else x + a
    f = ffn(p["feed_forward"], norm(p["norm_2"], x))
    return f if form == "plain" else x + f


def moved(network, size=0.3):
    rng = np.random.default_rng(2)
    return tree_map(lambda a: a + size * rng.standard_normal(a.shape), network.init(rng))


@pytest.mark.parametrize("options", [
    {}, {"block_form": "post"}, {"block_form": "sasrec"}, {"block_form": "ligr"}, {"block_form": "plain"},
    {"norm": "rms"}, {"feed_forward": "gelu"}, {"feed_forward": "gelu-tanh"}, {"feed_forward": "elu"},
    {"feed_forward": "silu"}, {"feed_forward": "swiglu", "feed_forward_width": 2}, {"heads": 4, "kv_heads": 2},
    {"eps": 0.3, "last_eps": 0.1}, {"last_norm": False, "qkv_bias": True, "output_projection": True},
    {"tied": False, "user_embedding": True, "emb_scale": True, "blocks": 3},
    {"block_form": "sasrec", "emb_scale": False},
], ids=str)  # fmt: skip
def test_sasrec(options):
    network = SASRec(**{"maxlen": 6, "dim": 8, "heads": 2, "dropout": 0.0} | options).make_network(9, 4)
    p = moved(network)
    scale = options.get("emb_scale", options.get("block_form") == "sasrec")
    x = p["items"][HISTORY] * (math.sqrt(8) if scale else 1) + p["positions"][2:]     # the newest stands at the last
    eps, of_norm = options.get("eps", 1e-8), rms_norm if options.get("norm") == "rms" else layer_norm
    heads = options.get("heads", 2)
    assert len(p["blocks"]) == options.get("blocks", 2)
    for weights in p["blocks"]:
        x = block(
            weights, x, options.get("block_form", "pre"), lambda q, y: of_norm(q, y, eps),
            lambda q, y, memory: attention(q, y, memory, heads, True, options.get("kv_heads")),
            lambda q, y: feed_forward(q, y, options.get("feed_forward", "relu")),
        )  # fmt: skip
    if options.get("last_norm", True):
        x = of_norm(p["norm"], x, options.get("last_eps", eps))
    if options.get("user_embedding"):
        x = x + p["users"][3]
    batch = pad([HISTORY], 6, np.array([3]))
    np.testing.assert_allclose(network.forward(p, batch)[0][0], x, rtol=0, atol=1e-10)
    table = p["items" if options.get("tied", True) else "output"]
    np.testing.assert_allclose(network.score(p, batch)[0, 1:], table[1:] @ x[-1], rtol=0, atol=1e-10)
    has_bias = options.get("qkv_bias", options.get("block_form") == "sasrec")
    assert ("b" in p["blocks"][0]["attention"]["query"]) == has_bias
    width = 8 * options.get("feed_forward_width", 1)
    assert p["blocks"][0]["feed_forward"]["inner"]["W"].shape == (8, width)
    assert ("output" in p["blocks"][0]["attention"]) == options.get("output_projection", False)


def test_bert4rec():
    """[MASK] follows the newest items, and each position is counted from the end."""
    network = BERT4Rec(maxlen=6, dim=8, heads=2, blocks=2, dropout=0.0).make_network(9, 0)
    p = moved(network)
    norm = lambda q, y: layer_norm(q, y, 1e-5)  # noqa: E731
    for history, slots in ((HISTORY, slice(1, 6)), (np.array([7, 2, 3, 1, 4, 5, 6]), slice(0, 6))):
        items = history[-5:]
        x = norm(p["norm"], np.concatenate([p["items"][items, :-1], p["mask"][None]]) + p["positions"][slots])
        for weights in p["blocks"]:
            x = block(weights, x, "post", norm, lambda q, y, memory: attention(q, y, memory, 2, False),
                      lambda q, y: feed_forward(q, y, "gelu"))  # fmt: skip
        h = norm(p["head"]["norm"], ACTIVATIONS["gelu"](dense(p["head"]["dense"], x[-1])))
        expected = p["items"][1:, :-1] @ h + p["items"][1:, -1]
        found = network.score(p, pad([history], 6, None, 9))[0, 1:]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_gru4rec():
    network = GRU4Rec(maxlen=6, dim=4, layers=2, dropout=0.0).make_network(9, 0)
    p = moved(network)
    sigmoid, x = lambda u: 1 / (1 + np.exp(-u)), p["items"][HISTORY]
    for weights in p["layers"]:
        h, states = np.zeros(4), []
        for token in x:
            a, b = token @ weights["W"] + weights["b"], h @ weights["U"] + weights["c"]
            r, z = sigmoid(a[:4] + b[:4]), sigmoid(a[4:8] + b[4:8])
            h = (1 - z) * np.tanh(a[8:] + r * b[8:]) + z * h
            states.append(h)
        x = np.array(states)
    np.testing.assert_allclose(network.forward(p, pad([HISTORY], 6))[0][0], x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(network.score(p, pad([HISTORY], 6))[0, 1:], p["items"][1:] @ x[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"tied": False, "bias": False, "kv_heads": 1, "feed_forward_width": 1.5},
                                     {"eps": 0.2, "norm": "rms", "feed_forward": "swiglu"}], ids=str)  # fmt: skip
def test_decoder(options):
    network = DecoderNetwork(**{"n_tokens": 10, "context": 6, "dim": 8, "heads": 2, "dropout": 0.0} | options)
    p = moved(network)
    of_norm, eps = rms_norm if options.get("norm") == "rms" else layer_norm, options.get("eps", 1e-5)
    x = p["tokens"][HISTORY] + p["positions"][:4]                                      # the first stands at 0
    for weights in p["blocks"]:
        x = block(weights, x, "pre", lambda q, y: of_norm(q, y, eps),
                  lambda q, y, memory: attention(q, y, memory, 2, True, options.get("kv_heads")),
                  lambda q, y: feed_forward(q, y, options.get("feed_forward", "gelu-tanh")))  # fmt: skip
    x = of_norm(p["norm"], x, eps)
    expected = x @ p["tokens" if options.get("tied", True) else "output"].T
    np.testing.assert_allclose(network.forward(p, HISTORY[None])[0][0], expected, rtol=0, atol=1e-10)
    biases = {name for name, part in p["blocks"][0]["attention"].items() if "b" in part}
    assert biases == ({"query", "key", "value", "output"} if options.get("bias", True) else set())
    width = round(options.get("feed_forward_width", 4) * 8)
    assert p["blocks"][0]["feed_forward"]["inner"]["W"].shape == (8, width)


@pytest.mark.parametrize("form", ["post", "pre"])
def test_encoder(form):
    """Embeddings and positions are normed first; a norm ends blocks whose output is not normed. [MASK] has no score."""
    network = EncoderNetwork(n_tokens=6, context=6, dim=8, heads=2, block_form=form, eps=0.2, dropout=0.0)
    p = moved(network)
    norm = lambda q, y: layer_norm(q, y, 0.2)  # noqa: E731
    x = norm(p["norm"], p["tokens"][[3, 6, 4, 5]] + p["positions"][:4])
    for weights in p["blocks"]:
        x = block(weights, x, form, norm, lambda q, y, memory: attention(q, y, memory, 2, False),
                  lambda q, y: feed_forward(q, y, "gelu"))  # fmt: skip
    x = norm(p["last_norm"], x) if form == "pre" else x
    found = network.forward(p, np.array([[3, 6, 4, 5]]))[0][0]
    np.testing.assert_allclose(found, x @ p["tokens"][:-1].T + p["bias"], rtol=0, atol=1e-10)
    assert ("last_norm" in p) == (form == "pre")
