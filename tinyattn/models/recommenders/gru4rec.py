"""GRU4Rec: item embeddings, gated recurrent units, tied scores (Hidasi et al. 2016; Hidasi & Karatzoglou 2018).

It reads the same batches as SASRec and is trained for the same losses, so that the two differ in what mixes tokens and
in nothing else. The papers' own training is a choice among these losses:

    GRU4Rec(loss="bpr-max", in_batch=1.0)                                # the other users' next items as negatives
    GRU4Rec(loss="sampled-softmax", in_batch=0.1, popularity_power=0.5)  # and further ones, by popularity

Session-parallel mini-batches are the papers' way to lay out histories on a device: each of B lanes reads one history
item by item, a lane whose history ends takes the next one with its state reset, and what the other lanes have next is
negative. Here a step reads B histories from their beginning, as far back as `maxlen`, and shorter ones wait for nobody,
as slices are cut by length. That is the same objective: a state starts at 0 with its history; each position's target is
held against targets of other users, which come as often as they are popular. With cross-entropy over all items the sum
of losses is the same number either way (tests/models/test_gru4rec.py). Three things differ. Gradients reach
`maxlen` items back, where the released code's stop at one: a lane's state goes from step to step without its gradient.
The batch of a step depends on the step alone, so that a run can be resumed and split among workers. And negatives are
drawn from the next items of the other users at all places, for all of a user's positions at once, not at the same place
only; those that the user has had are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...data import Batch
from ...layers import GRU, Past, dropout_mask, gather_rows
from ...ops import Mask, dropout, dropout_backward, embedding
from ...options import option
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions, last_position

CAUSAL = Mask(causal=True)


@dataclass(kw_only=True)
class GRU4RecOptions(SequenceOptions):
    layers: int = option(1, "gated recurrent units, one above the other", at_least=1, at_most=1000)


class GRU4RecCache(NamedTuple):
    keep: Array | None              # (B, L, D): dropout on the input
    layers: list[Any]
    keep_last: Array | None         # (B, L, D): dropout on the states


@dataclass(kw_only=True)
class GRU4RecNetwork(GRU4RecOptions, NextItemNetwork):
    """The pure network: embedding, dropout, recurrent layers, dropout."""

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "items": self.init_items(rng, self.dim),
            "layers": [GRU().init(rng, self.dim) for _ in range(self.layers)],
        }

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, GRU4RecCache]:
        """h (B, L, D), and the cache. Padding stands on the right, where no real position comes after it."""
        x = embedding(batch.ids, p["items"])
        keep = dropout_mask(x, x.shape, self.dropout, rng)
        x, caches = dropout(x, keep, self.dropout), []
        for weights in p["layers"]:
            x, cache = GRU().forward(weights, x, mask=CAUSAL)
            caches.append(cache)
        keep_last = dropout_mask(x, x.shape, self.dropout, rng)
        return dropout(x, keep_last, self.dropout), GRU4RecCache(keep, caches, keep_last)

    def backward(self, p: Any, dh: Array, cache: GRU4RecCache) -> tuple[Array, dict[str, Any]]:
        dx, grads = dropout_backward(dh, cache.keep_last, self.dropout), list[Any]()
        for weights, remembered in zip(reversed(p["layers"]), reversed(cache.layers), strict=True):
            dx, _, g = GRU().backward(weights, dx, remembered)
            grads.insert(0, g)
        return dropout_backward(dx, cache.keep, self.dropout), {"layers": grads}

    def last_state(self, p: Any, batch: Batch) -> Array:
        return gather_rows(self.forward(p, batch)[0], last_position(batch))[:, 0]

    extends = True

    def extend(self, p: Any, ids: Array, past: Past | None = None) -> tuple[Array, Past]:
        """The cache is a state a layer, for any number of items."""
        x, states = embedding(ids, p["items"]), []
        for i, weights in enumerate(p["layers"]):
            x, state = GRU().extend(weights, x, None, None if past is None else past.layers[i])
            states.append(state)
        return x, Past((0 if past is None else past.length) + ids.shape[1], states)


@dataclass(eq=False, kw_only=True)
class GRU4Rec(GRU4RecOptions, NeuralRecommender):
    """A recurrent network over a user's history.

        model = GRU4Rec(loss="ce").fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)
    """

    name = "gru4rec"
    Network = GRU4RecNetwork
