"""NARM: a recurrent network with additive attention of its last state to all states (Li et al. 2017).

    h_1 .. h_t = GRU(items)             the encoder
    g_t = h_t                           the global encoder
    l_t = Σ_j (v · σ(A_1 h_t + A_2 h_j)) h_j,  j <= t       the local encoder
    score of item i = e_i · B [g_t; l_t]

The paper trains on each prefix of a session separately; here all positions of a history are computed together. Item
embeddings and states have one width, and one dropout rate.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch
from ...layers import GRU, dense, dense_backward, dense_init, dropped, gather_rows, glorot
from ...ops import additive_attention, additive_attention_backward, dropout_backward, embedding
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions, last_position


class NARMCache(NamedTuple):
    keep: Array | None              # (B, L, D): dropout on the input
    encoder: Any
    queries: Any                    # the cache of A_1 h_t
    keys: Any                       # the cache of A_2 h_j
    q: Array                        # (B, L, D) A_1 h_t
    k: Array                        # (B, L, D) A_2 h_j
    h: Array                        # (B, L, D)
    weights: Array                  # (B, L, L)
    keep_last: Array | None         # (B, L, 2 D): dropout on [g; l]
    decoder: Any


@dataclass(kw_only=True)
class NARMNetwork(SequenceOptions, NextItemNetwork):
    """The pure network: embedding, dropout, GRU, [state; attention over states], dropout, the bilinear decoder."""

    weights_remark = (
        "no shares: no softmax makes them, so they may be below 0 and need not sum to 1. Each is for the state "
        "after the item, and that state has read all earlier items, too"
    )

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: the paper's A_1, A_2, v and B, as maps of rows."""
        return {
            "items": self.init_items(rng, self.dim),
            "encoder": GRU().init(rng, self.dim),
            "A1": dense_init(rng, self.dim, self.dim, bias=False),
            "A2": dense_init(rng, self.dim, self.dim, bias=False),
            "v": glorot(rng, self.dim, 1)[:, 0],
            "B": dense_init(rng, 2 * self.dim, self.dim, bias=False),
        }

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, NARMCache]:
        """h (B, L, D), and the cache. Padding stands on the right, where no real position comes after it."""
        x, keep = dropped(embedding(batch.ids, p["items"]), self.dropout, rng)
        h, encoder = GRU().run(p["encoder"], x)
        q, queries = dense(p["A1"], h)
        k, keys = dense(p["A2"], h)
        local, weights = additive_attention(q, k, h, p["v"])
        both, keep_last = dropped(get_xp(h).concatenate([h, local], axis=-1), self.dropout, rng)      # (B, L, 2 D)
        y, decoder = dense(p["B"], both)
        return y, NARMCache(keep, encoder, queries, keys, q, k, h, weights, keep_last, decoder)

    def backward(self, p: Any, dh: Array, cache: NARMCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (B, L, D) and grads, which lack "items". A state was read in four places."""
        dboth, dB = dense_backward(p["B"], dh, cache.decoder)
        dboth = dropout_backward(dboth, cache.keep_last, self.dropout)
        dlocal = get_xp(dh).ascontiguousarray(dboth[..., self.dim :])
        dq, dk, dstate, dv = additive_attention_backward(dlocal, cache.q, cache.k, cache.h, p["v"], cache.weights)
        dstate += dboth[..., : self.dim]                                 # the global encoder
        dh_k, dA2 = dense_backward(p["A2"], dk, cache.keys)
        dh_q, dA1 = dense_backward(p["A1"], dq, cache.queries)
        dstate += dh_k
        dstate += dh_q
        dx, encoder = GRU().run_backward(p["encoder"], dstate, cache.encoder)
        grads = {"encoder": encoder, "A1": dA1, "A2": dA2, "v": dv, "B": dB}
        return dropout_backward(dx, cache.keep, self.dropout), grads

    def weights(self, cache: NARMCache) -> list[Array]:
        """The a_tj, weights of the states after each item: they may be below 0, and have any sum."""
        return [cache.weights[:, None]]

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, D): what `forward` gives for the last position of each history. One query each: no L × L weights."""
        h, _ = GRU().run(p["encoder"], embedding(batch.ids, p["items"]))
        last = gather_rows(h, last_position(batch))                      # (B, 1, D)
        values = h * (batch.ids != 0)[..., None]                         # padding adds nothing
        local, _ = additive_attention(dense(p["A1"], last)[0], dense(p["A2"], h)[0], values, p["v"], causal=False)
        return dense(p["B"], get_xp(h).concatenate([last, local], axis=-1))[0][:, 0]


@dataclass(eq=False, kw_only=True)
class NARM(SequenceOptions, NeuralRecommender):
    """A recurrent network with attention over its states. The paper's loss is `loss="ce"`.

        model = NARM(loss="ce").fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)
    """

    name = "narm"
    Network = NARMNetwork
