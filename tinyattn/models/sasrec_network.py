"""The network of SASRec (Kang & McAuley 2018), pure: parameters and batches in, losses and gradients out.

A history of items goes through causal Transformer blocks; at each position the result is compared with every
item's embedding, and the next item should score highest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..backend import get_xp, on_host
from ..data import Batch
from ..layers import (
    FUSED_BLOCKS,
    BlockCache,
    FusedBlockCache,
    block_init,
    draw_keep,
    glorot,
    norm,
    norm_backward,
    norm_init,
    pick,
)
from ..ops import causal_mask, dropout, dropout_backward, embedding, sum_rows
from ..random import MaskKeys
from .objectives import OBJECTIVES


class NetworkCache(NamedTuple):
    """What one forward remembers; `cache.blocks[i].attention.weights` shows who looks at whom."""

    batch: Batch
    keep: Any                       # (B, L, D) or None: dropout on the input
    blocks: list[BlockCache | FusedBlockCache]
    norm: Any                       # NormCache, or None without a last norm


@dataclass(frozen=True)
class SASRecNetwork:
    """The pure network: init, forward, loss, loss_backward, score. No state; parameters come and go as trees.

    The paper's form is the default. Where its released code differs, a field says so.
    """

    items: int                      # catalogue size; ids are 1..items, 0 is padding
    maxlen: int = 50                # n: the newest items that are looked at; one learned position each
    dim: int = 50                   # d
    blocks: int = 2
    heads: int = 1
    dropout: float = 0.2
    block_form: str = "pre"         # "pre" (paper), "post", "sasrec" (released code)
    loss_name: str = "bce"          # "bce" (paper: one unseen negative a position), "ce" (all items)
    emb_scale: bool = False         # multiply item embeddings by √dim when they are read (released code)
    qkv_bias: bool = False          # biases in the query, key and value projections (released code)
    output_projection: bool = False # W_O after the heads are joined (Transformer; neither paper nor code)
    last_norm: bool = True          # LayerNorm after the last block (released code; pre-LN needs it)
    users: int = 0                  # explicit user modelling: embeddings for this many users (paper, III-D)
    eps: float = 1e-8               # of every LayerNorm (released code)

    def __post_init__(self) -> None:
        for name in ("items", "maxlen", "dim", "blocks", "heads"):
            if not isinstance(getattr(self, name), int | np.integer):
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected a whole number")
        for name in ("items", "maxlen", "dim", "heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.blocks < 0:
            raise ValueError(f"blocks is {self.blocks}, expected at least 0")
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not divisible by heads {self.heads}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}, expected 0 <= dropout < 1")
        for name, known in (("block_form", FUSED_BLOCKS), ("loss_name", OBJECTIVES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}")

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: glorot-uniform weights and embeddings, zero biases; items row 0 is 0."""
        p: dict[str, Any] = {
            "items": glorot(rng, self.items + 1, self.dim),
            "positions": glorot(rng, self.maxlen, self.dim),
            "blocks": [
                block_init(rng, self.dim, bias=self.qkv_bias, output=self.output_projection)
                for _ in range(self.blocks)
            ],
        }
        p["items"][0] = 0
        if self.last_norm:
            p["norm"] = norm_init(self.dim)
        if self.users:
            p["users"] = np.zeros((self.users + 1, self.dim))       # 0: a user of whom nothing has been learned
        return p

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Any, NetworkCache]:
        """h (B, L, D): what each position knows of the future from its past; and the cache.

        Padding stands on the right, where the causal mask keeps every real position from seeing it.
        """
        block = FUSED_BLOCKS[self.block_form]
        rng = None if rng is None else MaskKeys(rng, batch.users)
        x = self._read(p, batch)
        keep = draw_keep(x, x.shape, self.dropout, rng)
        x = dropout(x, keep, self.dropout)
        mask = causal_mask(x.shape[1], like=x)
        caches = []
        for weights in p["blocks"]:
            x, cache = block.forward(
                weights, x, heads=self.heads, mask=mask, eps=self.eps, rate=self.dropout, rng=rng
            )
            caches.append(cache)
        last = None
        if self.last_norm:
            x, last = norm(p["norm"], x, eps=self.eps)
        if self.users:
            x = x + embedding(batch.users, p["users"])[:, None, :]
        return x, NetworkCache(batch, keep, caches, last)

    def _read(self, p: Any, batch: Batch) -> Any:
        """(B, L, D): what goes into the first block, before dropout."""
        x = embedding(batch.ids, p["items"])
        if self.emb_scale:
            x *= math.sqrt(self.dim)
        x += embedding(batch.slots, p["positions"])
        return x

    def backward(self, p: Any, dh: Any, cache: NetworkCache) -> tuple[Any, dict[str, Any]]:
        """The mirror of `forward`: -> dx (B, L, D), the gradient of the item embeddings as read, and grads.

        `grads` lacks "items": the loss reads the same table again, and sums both readings once.
        """
        block = FUSED_BLOCKS[self.block_form]
        grads: dict[str, Any] = {}
        if self.users:
            grads["users"] = sum_rows(cache.batch.users, get_xp(dh).sum(dh, axis=1), p["users"])
        if self.last_norm:
            dh, grads["norm"] = norm_backward(p["norm"], dh, cache.norm)
        grads["blocks"] = []
        for weights, remembered in zip(reversed(p["blocks"]), reversed(cache.blocks), strict=True):
            dh, g = block.backward(weights, dh, remembered)
            grads["blocks"].insert(0, g)
        dx = dropout_backward(dh, cache.keep, self.dropout)
        grads["positions"] = _sum_by_slot(cache.batch.slots, dx, p["positions"])
        return dx * math.sqrt(self.dim) if self.emb_scale else dx, grads

    def rows_read(self, batch: Batch) -> dict[str, Any]:
        """The rows of large tables that `loss` reads, and so all that have a gradient: dotted name -> ids."""
        read = {"users": batch.users} if self.users else {}
        if self.loss_name == "bce":
            xp = get_xp(batch.ids)
            read["items"] = xp.concatenate([ids.reshape(-1) for ids in (batch.ids, batch.targets, batch.negatives)])
        return read

    def loss(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Any, Any]:
        """The mean loss over the batch's real positions, in nats, and what `loss_backward` needs."""
        h, cache = self.forward(p, batch, rng)
        value, saved = OBJECTIVES[self.loss_name].forward(h, p["items"], batch)
        return value, (h, saved, cache)

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        """Gradients shaped like p; of the tables as `Rows` where few rows are touched."""
        h, saved, remembered = cache
        batch = remembered.batch
        dh, scored = OBJECTIVES[self.loss_name].backward(dloss, h, p["items"], batch, saved)
        dx, grads = self.backward(p, dh, remembered)
        grads["items"] = scored.with_reading(batch.ids, dx)
        return grads

    def last_state(self, p: Any, batch: Batch) -> Any:
        """(B, D): what `forward` gives for the last position of each history, and nothing else."""
        block, x = FUSED_BLOCKS[self.block_form], self._read(p, batch)
        xp = get_xp(x)
        how = {"heads": self.heads, "mask": causal_mask(x.shape[1], like=x), "eps": self.eps}
        for weights in p["blocks"][:-1]:
            x, _ = block.forward(weights, x, **how)
        last = xp.sum(batch.ids != 0, axis=1) - 1                       # only this position is asked for
        h = block.at(p["blocks"][-1], x, last, **how) if p["blocks"] else pick(x, last)
        if self.last_norm:
            h, _ = norm(p["norm"], h, eps=self.eps)
        if self.users:
            h = h + embedding(batch.users, p["users"])[:, None, :]
        return h[:, 0]

    def score_items(self, p: Any, h: Any) -> Any:
        """(B, D) -> (B, items + 1): the score of every item as the next one; -inf for padding, column 0."""
        scores = h @ p["items"].T                                       # (B, D) @ (D, items + 1)
        scores[:, 0] = -get_xp(h).inf
        return scores

    def score(self, p: Any, batch: Batch) -> Any:
        """(B, items + 1): the score of every item as the next one of each history."""
        return self.score_items(p, self.last_state(p, batch))


def _sum_by_slot(slots: Any, dx: Any, E: Any) -> Any:
    """`sum_rows` for positions, whose slots run on to the last: (B, L), (B, L, D), (maxlen, D) -> (maxlen, D).

    Histories of equal length stand at the same slots, so neighbours of equal length, as in a slice, are added as one.
    """
    xp = get_xp(slots, dx, E)
    if not on_host(xp):
        return sum_rows(slots, dx, E)
    dE, first = xp.zeros_like(E), slots[:, 0]
    changes = (xp.flatnonzero(first[1:] != first[:-1]) + 1).tolist()
    for begin, end in pairwise([0, *changes, len(first)]):
        at = int(first[begin])
        real = len(E) - at                                               # the rest is padding: no gradient
        dE[at : at + dx.shape[1]] += xp.sum(dx[begin:end, :real], axis=0)
    return dE
