"""One more token of one sequence, on the host: products of parameters are computed once, before the token comes.

For one token, the overhead of NumPy's calls dominates, so this file makes few calls. In pre-LN blocks:

    LN(x) W + b = x_hat (γ ⊙ W) + (β W + b), as in `norm_linear`; queries, keys and values are one product
    x_hat = x / √(mean(x²) + eps) where x is centred. A sum of centred terms is centred, so the token is centred once,
    and the output weights of blocks are centred. That changes no result, since every norm centres its input

The newest token looks at all cached tokens, so no mask is needed. The definition is `Stack.extend`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, get_xp, is_numpy
from ..layers import ACTIVATIONS, FeedForward, LayerNorm, MultiHead, Past, Position
from ..layers.mechanisms.mechanism import KeysValues
from ..layers.mixers.multi_head import MultiHeadPast


class Folded(NamedTuple):
    """The weights of one block, with g heads of keys and values of width d, and H hidden units."""

    qkv: np.ndarray       # (D, D + 2 g d): γ ⊙ W of queries / √d, keys and values, side by side
    qkv_b: np.ndarray     # (D + 2 g d,): β W + b
    output: np.ndarray    # (D, D): the output projection, or the identity; centred
    output_b: np.ndarray  # (D,), centred
    W: np.ndarray         # (D, H): γ ⊙ W of the inner weights
    b: np.ndarray         # (H,)
    V: np.ndarray         # (H, D): the outer weights, centred
    v: np.ndarray         # (D,), centred
    position: Any         # the parameters of the position scheme


class OneToken:
    """`Stack.extend` and the norm after it, of one token of one sequence, for a block that it `suits`."""

    @staticmethod
    def suits(block: Any) -> bool:
        """Is it a pre-LN block with LayerNorm, whose last token looks at all cached keys?"""
        mixer = block.mixer
        parts = (LayerNorm, MultiHead, FeedForward)
        if block.form != "pre" or (type(block.norm), type(mixer), type(block.feed_forward)) != parts:
            return False
        return mixer.mechanism.looks_at_kept and type(mixer.position).terms is Position.terms

    def __init__(self, block: Any, weights: list[Any], norm: Any) -> None:
        """`weights` are the parameters of each block, `norm` those of the norm after the last block."""
        self._block, self._norm = block, norm
        self._blocks = [_folded(p, block.mixer) for p in weights]
        self._activation = ACTIVATIONS[block.feed_forward.activation].forward

    def extend(self, x: np.ndarray, past: Past) -> tuple[np.ndarray, Past]:
        """-> h (D,), the cache. Shapes: x (D,), the input of the first block; `past` is not empty."""
        x, layers = x - np.add.reduce(x) / len(x), []
        for weights, heads in zip(self._blocks, past.layers, strict=True):
            y, kept = self._mixed(weights, self._normed(x), heads)
            x = x + y
            u = self._normed(x).dot(weights.W)
            u += weights.b
            x += self._activation(u).dot(weights.V)
            x += weights.v
            layers.append(kept)
        return self._normed(x) * self._norm["gamma"] + self._norm["beta"], Past(past.length + 1, layers)

    def _mixed(self, weights: Folded, x_hat: np.ndarray, past: MultiHeadPast) -> tuple[np.ndarray, MultiHeadPast]:
        """What attention adds. Shapes: x_hat (D,) -> (D,)."""
        mixer, dim = self._block.mixer, len(x_hat)
        g, d, keeps = mixer.groups, dim // mixer.heads, mixer.mechanism.keeps
        qkv = x_hat.dot(weights.qkv)
        qkv += weights.qkv_b
        heads = qkv.reshape(1, -1, 1, d)                     # of queries, keys and values, one after the other
        turned, v = heads[:, :-g], heads[:, -g:]
        if mixer.position.at_heads:
            turned = mixer.position.turn(weights.position, turned, past.length)
        keys, values = past.kept.k.append(turned[:, -g:]), past.kept.v.append(v)
        q = turned[0, :-g].reshape(g, -1, d)
        s = np.matmul(q, keys.rows[0].swapaxes(1, 2))                           # (g, heads / g, m)
        s -= np.maximum.reduce(s, axis=2, keepdims=True)
        np.exp(s, out=s)
        out = np.matmul(s, values.rows[0])                                      # (g, heads / g, d)
        out /= np.add.reduce(s, axis=2, keepdims=True)
        y = out.reshape(dim).dot(weights.output)
        y += weights.output_b
        return y, MultiHeadPast(past.length + 1, KeysValues(keys.newest(keeps), values.newest(keeps)))

    def _normed(self, x: np.ndarray) -> np.ndarray:
        """LayerNorm without γ and β, of a centred token. Shapes: (D,) -> (D,)."""
        return x * (1 / math.sqrt(float(x.dot(x)) / len(x) + self._block.norm.eps))


def _folded(p: Any, mixer: MultiHead) -> Folded:
    maps = {name: normed_map(p["norm_1"], p["attention"][name]) for name in ("query", "key", "value")}
    dim = len(maps["query"][0])
    c = math.sqrt(mixer.heads / dim)
    maps["query"] = (c * maps["query"][0], c * maps["query"][1])
    W, b = (np.concatenate(parts, axis=-1) for parts in zip(*maps.values(), strict=True))
    nothing = {"W": np.eye(dim, dtype=W.dtype)}
    output, outer = p["attention"].get("output", nothing), p["feed_forward"]["outer"]
    zeros = np.zeros(dim, W.dtype)
    added = (output["W"], output.get("b", zeros), outer["W"], outer["b"])
    C, c_b, V, v = (part - part.mean(axis=-1, keepdims=True) for part in added)
    inner, inner_b = normed_map(p["norm_2"], p["feed_forward"]["inner"])
    return Folded(W, b, C, c_b, inner, inner_b, V, v, p["attention"].get("position"))


def normed_map(norm: Any, p: Any) -> tuple[np.ndarray, np.ndarray]:
    """The linear map of LN(x) as a map of x_hat: its weights γ ⊙ W and biases β W + b."""
    return norm["gamma"][:, None] * p["W"], norm["beta"] @ p["W"] + p.get("b", 0)


def items(network: Any, p: Any) -> Any:
    """`NextItemNetwork.extending` of a plain SASRec."""
    if not network.is_plain or not is_numpy(get_xp(p["items"])):
        return NotImplemented
    scale = math.sqrt(network.dim) if network.emb_scale else 1.0
    return _with_one_token(network, p, lambda item, length: p["items"][item] * scale, lambda h: h)


def text(network: Any, p: Any) -> Any:
    """`DecoderNetwork.extending`."""
    if not is_numpy(get_xp(p["tokens"])):
        return NotImplemented
    nothing = np.zeros((1, network.context, network.dim), p["tokens"].dtype)
    (places,) = network.scheme.add(p.get("positions"), nothing, np.arange(network.context)[None])
    return _with_one_token(network, p, lambda token, n: p["tokens"][token] + places[n], p[network.scored].dot)


def _with_one_token(
    network: Any, p: Any, read: Callable[[int, int], Array], answer: Callable[[Array], Array]
) -> Any:
    """`network.extend` with parameters that do not change; `OneToken` computes single tokens of one sequence.

    `read(id, length)` gives the input of the first block, (D,), for a token that follows `length` others; `answer(h)`
    gives the result for the state h (D,).
    """
    if not p["blocks"] or not OneToken.suits(network.block):
        return NotImplemented
    one = OneToken(network.block, p["blocks"], p["norm"])

    def extend(ids: Array, past: Past | None) -> tuple[Array, Past]:
        if past is None or ids.shape != (1, 1):
            return network.extend(p, ids, past)
        h, kept = one.extend(read(ids[0, 0], past.length), past)
        return answer(h)[None, None], kept

    return extend
