"""BERT4Rec: a Transformer that looks both ways, trained to fill gaps (Sun et al. 2019).

Some items of a history are replaced by [MASK], and the network predicts them from the items on both sides: the Cloze
task. To recommend, [MASK] is appended to the history; it counts towards `maxlen`.

Blocks are post-LN, with an exact GELU and a feed-forward network four times as wide. A hidden item's state goes through
one more layer, GELU and LayerNorm. An item's score is the dot product of that with its embedding, plus a bias.

Differences from the released code: hidden items are drawn anew at every step; positions count from the end; attention
weights are not dropped; only the newest `maxlen` items of a history are read, without a sliding window; and the
optimiser is Adam at a constant rate, without weight decay, warm-up, linear decay and clipping.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...data import Batch, ClozeSampler, Interactions, Sampler
from ...layers import (
    POSITIONS,
    Block,
    BlockCache,
    FeedForward,
    LayerNorm,
    MultiHead,
    dense,
    dense_backward,
    dense_init,
    dropped,
)
from ...ops import Mask, dropout_backward, embedding, gelu, gelu_backward
from ...ops.shapes import column_sum
from ...options import option
from ..mixing import OneBlock
from ..neural import NeuralRecommender
from ..next_item import NextItemNetwork, SequenceOptions, last_position
from ..objectives import OBJECTIVES

LEARNED, NORM = POSITIONS["learned"](), LayerNorm()


@dataclass(kw_only=True)
class BERT4RecOptions(SequenceOptions):
    maxlen: int = option(50, "newest items of a history that are read, and [MASK]", at_least=2, at_most=1_000_000)
    dim: int = option(64, "width of embeddings and states", at_least=1, at_most=100_000)
    blocks: int = option(2, "number of blocks", at_least=1, at_most=1000)
    heads: int = option(2, "attention heads per block; must divide dim", at_least=1)


class BERT4RecCache(NamedTuple):
    batch: Batch
    norm: Any                       # of the input
    keep: Array | None              # (B, L, D): dropout on the input
    blocks: list[BlockCache]
    head: Any


class HeadCache(NamedTuple):
    dense: Any
    u: Array                        # (..., D), before the GELU
    norm: Any


@dataclass(kw_only=True)
class BERT4RecNetwork(BERT4RecOptions, OneBlock, NextItemNetwork):
    """The pure network: items and positions, LayerNorm, dropout, blocks, head.

    A row of "items" is an embedding of D numbers and the item's bias. [MASK], id n_items + 1, is no item: its
    embedding is "mask", and it gets no score.
    """

    causal, biased = False, True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.block.mixer.refuse_dim(self.dim)

    @cached_property
    def block(self) -> Block:
        return Block(MultiHead(self.heads), "post", NORM, FeedForward(4 * self.dim, "gelu"), self.dropout)

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: glorot-uniform weights and embeddings, zero biases; items row 0 is 0."""
        return {
            "items": np.pad(self.init_items(rng, self.dim), ((0, 0), (0, 1))),
            "mask": self.init_items(rng, self.dim)[1],
            "positions": LEARNED.init(rng, self.maxlen, self.dim),
            "norm": NORM.init(self.dim),
            "blocks": self.stack.init(rng, self.dim),
            "head": {"dense": dense_init(rng, self.dim, self.dim), "norm": NORM.init(self.dim)},
        }

    def item_rows(self, batch: Batch) -> Array:
        """(B, L): the rows of p["items"] that are read for batch.ids; for [MASK] row 0, padding's."""
        return get_xp(batch.ids).where(batch.ids > self.n_items, 0, batch.ids)

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, BERT4RecCache]:
        """h (B, L, D + 1), or (B, M, D + 1) at `target_positions`; and the cache."""
        x, norm = NORM.forward(p["norm"], self._read(p, batch))
        x, keep = dropped(x, self.dropout, rng)
        x, caches = self.stack.forward(p["blocks"], x, mask=_real(batch), rng=rng)
        if batch.target_positions is not None:
            x = get_xp(x).take_along_axis(x, batch.target_positions[..., None], axis=1)
        h, head = _head(p["head"], x)
        return h, BERT4RecCache(batch, norm, keep, caches, head)

    def _read(self, p: Any, batch: Batch) -> Array:
        """(B, L, D): items, or the embedding of [MASK], and positions."""
        x = embedding(self.item_rows(batch), p["items"])[..., :-1]
        x = get_xp(x).where((batch.ids > self.n_items)[..., None], p["mask"], x)
        return LEARNED.add(p["positions"], x, batch.slots)

    def backward(self, p: Any, dh: Array, cache: BERT4RecCache) -> tuple[Array, dict[str, Any]]:
        """-> dx (B, L, D + 1), 0 at [MASK], and grads, which lack "items"."""
        xp, (B, L), positions = get_xp(dh), cache.batch.ids.shape, cache.batch.target_positions
        dx, head = _head_backward(p["head"], dh, cache.head)
        if positions is not None:
            d, dx = dx, xp.zeros((B, L, self.dim), dtype=dh.dtype)
            dx[xp.arange(B)[:, None], positions] = d                     # no position is there twice
        grads: dict[str, Any] = {"head": head}
        dx, grads["blocks"] = self.stack.backward(p["blocks"], dx, cache.blocks)
        dx = dropout_backward(dx, cache.keep, self.dropout)
        dx, grads["norm"] = NORM.backward(p["norm"], dx, cache.norm)
        grads["positions"] = LEARNED.add_backward(p["positions"], dx, cache.batch.slots)
        dmask = xp.where((cache.batch.ids > self.n_items)[..., None], dx, 0)
        grads["mask"] = column_sum(dmask)
        return xp.concatenate([dx - dmask, xp.zeros((B, L, 1), dtype=dx.dtype)], axis=-1), grads

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, D + 1): the state of the [MASK] after each history."""
        batch = self.asking(batch)
        x, _ = NORM.forward(p["norm"], self._read(p, batch))
        x = self.stack.at(p["blocks"], x, last_position(batch), mask=_real(batch))
        return _head(p["head"], x)[0][:, 0]

    def weights(self, cache: BERT4RecCache) -> list[Array]:
        return [block.attention.weights for block in cache.blocks]

    def asking(self, batch: Batch) -> Batch:
        """Each history's newest maxlen - 1 items, and [MASK] after them."""
        xp, L = get_xp(batch.ids), batch.ids.shape[1]
        lengths = last_position(batch)[:, None] + 1
        kept, column = xp.minimum(lengths, self.maxlen - 1), xp.arange(min(L + 1, self.maxlen))
        from_column = xp.minimum(column + lengths - kept, L - 1)
        ids = xp.where(column < kept, xp.take_along_axis(batch.ids, from_column, axis=1), 0)
        ids = xp.where(column == kept, self.n_items + 1, ids)
        slots = xp.minimum(self.maxlen - 1 - kept + column, self.maxlen - 1)
        return batch._replace(ids=ids, slots=slots)


def _real(batch: Batch) -> Mask:
    """All tokens but padding may be looked at."""
    return Mask(lengths=last_position(batch) + 1)


def _head(p: Any, x: Array) -> tuple[Array, HeadCache]:
    """[LN(GELU(x W + b)), 1]: the 1 is for the bias. Shapes: x (..., D) -> h (..., D + 1), cache."""
    u, inner = dense(p["dense"], x)
    y, norm = NORM.forward(p["norm"], gelu(u))
    xp = get_xp(y)
    return xp.concatenate([y, xp.ones((*y.shape[:-1], 1), dtype=y.dtype)], axis=-1), HeadCache(inner, u, norm)


def _head_backward(p: Any, dh: Array, cache: HeadCache) -> tuple[Array, dict[str, Any]]:
    """-> dx (..., D), grads shaped like p."""
    dy, norm = NORM.backward(p["norm"], get_xp(dh).ascontiguousarray(dh[..., :-1]), cache.norm)
    dx, inner = dense_backward(p["dense"], gelu_backward(dy, cache.u), cache.dense)
    return dx, {"dense": inner, "norm": norm}


@dataclass(eq=False, kw_only=True)
class BERT4Rec(BERT4RecOptions, NeuralRecommender):
    """A Transformer that predicts hidden items from both sides.

        model = BERT4Rec(rho=0.4).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)

    It learns from hidden items alone, by default a fifth of all positions, and so needs more epochs than SASRec.
    """

    rho: float = option(
        0.2, "share of a history's items that are hidden (the paper: .2 for ML-1M, .4 Steam, .6 Beauty)", above=0,
        below=1, group="training",
    )  # fmt: skip
    mask_last: float = option(
        0.1, "share of the rows in which the last item alone is hidden (the released code: 1 in 11)", at_least=0,
        at_most=1, group="training",
    )  # fmt: skip
    loss: str = option(
        "ce", "loss at the hidden items: cross-entropy over all items (ce, the paper's) or another of sasrec's losses",
        choices=OBJECTIVES, group="training",
    )  # fmt: skip

    name = "bert4rec"
    Network = BERT4RecNetwork

    def sampler(self, data: Interactions) -> Sampler:
        return ClozeSampler(*self.sampling(data), rho=self.rho, mask_last=self.mask_last)
