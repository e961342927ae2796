"""The state after one history, or after each of a few, on the host: products of parameters are computed once and kept.

For one history, the overhead of NumPy's calls dominates, so this file makes few calls. In pre-LN blocks:

    LN(x) = x_hat ⊙ γ + β     with x_hat = x / √(mean(x²) + eps) where x is centred. A sum of centred terms is centred,
                              so embeddings are centred once, and the output weights of blocks are centred
    LN(x) W + b               = x_hat (γ ⊙ W) + (β W + b), as in `norm_linear`
    (x_hat_i W_q + b_q) · (x_hat_j W_k + b_k) / √d
                              = (x_hat_i A + a) · x_hat_j, with A = W_q W_kᵀ / √d and a = b_q W_kᵀ / √d, plus a number
                              that is the same for all keys j and does not change their softmax
    Σ_j w_j (x_hat_j W_v + b_v)  = (Σ_j w_j x_hat_j) W_v + b_v, as the weights sum to 1; both as in `attention_of_one`

In the last block only the last token has a query. The definition is `SASRecNetwork.last_state`.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..backend import get_xp, is_numpy
from ..layers import ACTIVATIONS
from .one_token import normed_map

MOST_ROWS = 400      # tokens times heads: beyond it arithmetic outweighs calls, and this form does more arithmetic
FEW = 16             # histories in one call; more share the larger products of a batch


class Folded(NamedTuple):
    """The weights of one block, with h heads and H hidden units."""

    A: np.ndarray     # (D, h D): W_q W_kᵀ / √d of each head
    a: np.ndarray     # (h D,)
    C: np.ndarray     # (h D, D): W_v of each head times the output projection, if there is one; centred
    c: np.ndarray     # (D,), centred
    W: np.ndarray     # (D, H): the inner weights of the feed-forward network
    b: np.ndarray     # (H,)
    V: np.ndarray     # (H, D): its outer weights, centred
    v: np.ndarray     # (D,), centred


class OneHistory:
    """`network.last_state(p, ...)` of a single history, for a SASRec network that it `suits`."""

    @staticmethod
    def suits(network: Any) -> bool:
        """Are its blocks plain and pre-LN, as the equations above assume?"""
        return network.is_plain and network.block.form == "pre" and network.block.is_plain

    def __init__(self, network: Any, p: Any) -> None:
        dim, dtype = network.dim, p["items"].dtype
        self._network, self._p = network, p
        self._kept = list(_parts(p, but=("items", network.scored, "norm")))      # these are read at every call
        self._blocks = [_folded(weights, network.heads) for weights in p["blocks"]]
        slots, nothing = np.arange(network.maxlen)[None], np.zeros((1, network.maxlen, dim), dtype)
        self._positions = network.scheme.add(p.get("positions"), nothing, slots)[0]
        self.longest = min(network.maxlen, MOST_ROWS // network.heads)
        later = np.where(np.tri(self.longest, dtype=bool), 0, -np.inf).astype(dtype)
        self._later = np.repeat(later, network.heads, axis=0)
        self._mean, self._ones = np.full((dim, 1), 1 / dim, dtype), np.ones((self.longest, 1), dtype)
        self._activation = ACTIVATIONS[network.block.feed_forward.activation].forward

    def is_of(self, network: Any, p: Any) -> bool:
        """Was it made from this network, and from these parameters, unchanged?"""
        return network is self._network and p is self._p and all(
            node[key].tobytes() == kept if type(kept) is bytes else node[key] is kept for node, key, kept in self._kept
        )  # fmt: skip

    def state(self, history: np.ndarray) -> np.ndarray:
        """Shapes: history (n,), item numbers of the table, at most `longest` of them -> (D,)."""
        n, network, p = len(history), self._network, self._p
        x = p["items"].take(history, axis=0)
        if network.emb_scale:
            x *= math.sqrt(network.dim)
        x += self._positions[len(self._positions) - n :]
        x -= x.dot(self._mean)
        for number, weights in enumerate(self._blocks, start=1):
            x = self._block(weights, x, m=n if number < len(self._blocks) else 1)
        return self._normed(x[-1:])[0] * p["norm"]["gamma"] + p["norm"]["beta"]

    def _block(self, weights: Folded, x: np.ndarray, m: int) -> np.ndarray:
        """The output for the last m tokens. `dot` has less overhead than @. Shapes: x (n, D) -> (m, D)."""
        A, a, C, c, W, b, V, v = weights
        (n, dim), heads = x.shape, self._network.heads
        x_hat, x = self._normed(x), x[n - m :]
        q = x_hat[n - m :].dot(A)
        q += a
        s = q.reshape(-1, dim).dot(x_hat.T)                  # (m h, n): the heads of a query are neighbours
        s += self._later[(n - m) * heads : n * heads, :n]
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        y = s.dot(x_hat)                                     # (m h, D)
        y /= s.dot(self._ones[:n])
        y = y.reshape(m, -1).dot(C)
        y += c
        y += x
        u = self._normed(y).dot(W)
        u += b
        z = self._activation(u).dot(V)
        z += v
        z += y
        return z

    def _normed(self, x: np.ndarray) -> np.ndarray:
        """LayerNorm without γ and β, of centred tokens. Shapes: (n, D) -> (n, D)."""
        size = (x * x).dot(self._mean)
        size += float(self._network.eps)
        np.sqrt(size, out=size)
        return x / size


def states(model: Any, histories: list[np.ndarray], users: np.ndarray | None) -> Any:
    """`NeuralRecommender._states` of few histories, one by one on the host."""
    network, p = model.network, model.parameters
    if not 0 < len(histories) <= FEW or not network.is_plain or not is_numpy(get_xp(p[network.scored])):
        return NotImplemented
    one = vars(network).get("_one_history")                      # kept by the network since the first answer
    with np.errstate(over="ignore", invalid="ignore"):           # as in `_states`
        if one is None or not one.is_of(network, p):
            if not OneHistory.suits(network):
                return NotImplemented
            one = network._one_history = OneHistory(network, p)
        latest = [history[-network.maxlen :] for history in histories]
        if not all(0 < len(h) <= one.longest and h.min() >= 1 and h.max() <= network.n_items for h in latest):
            return NotImplemented                                # the readable form refuses unknown items
        return np.stack([one.state(history) for history in latest])


def _folded(p: Any, heads: int) -> Folded:
    W, b = {}, {}
    for name in ("query", "key", "value"):
        W[name], b[name] = normed_map(p["norm_1"], p["attention"][name])
    dim = len(W["query"])
    output = p["attention"].get("output", {"W": np.eye(dim, dtype=W["query"].dtype)})
    c = 1 / math.sqrt(dim // heads)
    columns = [slice(i * dim // heads, (i + 1) * dim // heads) for i in range(heads)]        # columns of each head
    A = np.concatenate([c * W["query"][:, i] @ W["key"][:, i].T for i in columns], axis=1)
    a = np.concatenate([c * b["query"][i] @ W["key"][:, i].T for i in columns])
    C = np.concatenate([W["value"][:, i] @ output["W"][i] for i in columns])
    outer = p["feed_forward"]["outer"]
    parts = C, b["value"] @ output["W"] + output.get("b", 0), outer["W"], outer["b"]
    C, c, V, v = (part - part.mean(axis=-1, keepdims=True) for part in parts)
    return Folded(A, a, C, c, *normed_map(p["norm_2"], p["feed_forward"]["inner"]), V, v)


def _parts(tree: Any, but: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    """(node, key, value) of the whole tree; a value is a node, or the bytes of an array."""
    for key, branch in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if key in but:
            continue
        if isinstance(branch, dict | list):
            yield tree, key, branch
            yield from _parts(branch)
        else:
            yield tree, key, branch.tobytes()
