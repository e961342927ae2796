"""GRU4Rec: item embeddings, gated recurrent units, tied scores (Hidasi et al. 2016; Hidasi & Karatzoglou 2018).

It has SASRec's batches and losses: the two differ only in the layer that mixes tokens. The papers' options are:

    GRU4Rec(loss="bpr-max", in_batch=1.0)                                # the other users' next items as negatives
    GRU4Rec(loss="sampled-softmax", in_batch=0.1, popularity_power=0.5)  # and others, by popularity

The papers use session-parallel mini-batches: each of B lanes reads a history item by item, then resets its state and
reads the next history; the other lanes' next items are negatives. Here a step reads B whole histories, up to `maxlen`
items. With cross-entropy over all items, both ways give the same sum of losses (tests/models/test_gru4rec.py). Three
things differ here: gradients reach `maxlen` items back, but one item in the released code; a step's batch depends only
on the number of the step, so that runs can be resumed and split; and negatives come from all places of the other users'
histories, and exclude the user's items.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array
from ...data import Batch
from ...layers import GRU, Past, dropped
from ...ops import dropout_backward, embedding
from ...options import option
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions


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
        """h (B, L, D), and the cache. Padding stands on the right, where no real position follows it."""
        x, keep = dropped(embedding(batch.ids, p["items"]), self.dropout, rng)
        caches = []
        for weights in p["layers"]:
            x, cache = GRU().run(weights, x)
            caches.append(cache)
        h, keep_last = dropped(x, self.dropout, rng)
        return h, GRU4RecCache(keep, caches, keep_last)

    def backward(self, p: Any, dh: Array, cache: GRU4RecCache) -> tuple[Array, dict[str, Any]]:
        dx, grads = dropout_backward(dh, cache.keep_last, self.dropout), list[Any]()
        for weights, remembered in zip(reversed(p["layers"]), reversed(cache.layers), strict=True):
            dx, g = GRU().run_backward(weights, dx, remembered)
            grads.insert(0, g)
        return dropout_backward(dx, cache.keep, self.dropout), {"layers": grads}

    extends = True

    def extend(self, p: Any, ids: Array, past: Past | None = None) -> tuple[Array, Past]:
        """The cache is one state a layer, however many items were read."""
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
