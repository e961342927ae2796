"""Multi-head latent attention: keys and values of all heads from one short vector (DeepSeek-AI 2024, section 2.1).

A cache holds what later tokens need of an earlier one. With h heads of width d these are 2 h d numbers, with g shared
heads of keys and values 2 g d. Here they are a short latent vector c, from which the keys and values of every head are
computed, and a short key r for positions, which all heads share:

    score = (q_h · (c W_k,h) + turn(t_h) · turn(r)) / √(d + turned)        out_h = Σ_j p_j c_j W_v,h

A product of three matrices can be computed in two orders, and the second needs no keys and values:

    q_h · (c W_k,h) = (q_h W_k,hᵀ) · c            Σ_j p_j (c_j W_v,h) = (Σ_j p_j c_j) W_v,h

With W_k absorbed into the query and W_v into the output, heads of width `latent` all look at the same c. This is
multi-query attention to the latent vectors. `forward` computes keys and values, `extend` absorbs their matrices. A
rotation of q_h, which differs for every pair of tokens, would stand between q_h and W_k,hᵀ and prevent that. So rotary
positions act only on t and r.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import Mask, as_mask
from ...options import option
from ..dense import DenseCache, dense, dense_backward, dense_init
from ..growing import GrowingRows
from ..heads import in_groups, merge, split
from ..mechanisms import Full
from ..mechanisms.mechanism import attention_in_groups
from ..positions import NoPosition, Position
from .mixer import Mixer

FULL, NO_POSITION = Full(), NoPosition()


class LatentPast(NamedTuple):
    """The cache of m past tokens: c and the turned r, (B, 1, m, latent + turned)."""

    length: int
    kept: GrowingRows


class LatentCache(NamedTuple):
    dense: dict[str, DenseCache]     # of every map
    placed: Any                      # the position scheme's cache
    attended: Any                    # the mechanism's cache
    own_memory: bool

    @property
    def weights(self) -> Array:
        """(B, h, n, m), before dropout."""
        return self.attended.weights


@dataclass(frozen=True)
class Latent(Mixer):
    """y = concat_h(attention([q_h, t_h], [c W_k,h, r], c W_v,h)) W_o, with [q, t] = x W_q, c = x W_c and r = x W_r.

    It differs from the paper's equations 9 to 19 in two points: queries are not compressed, and c is not normalised.
    """

    latent: int | None = option(None, "numbers of a token's latent vector, at most dim (default: dim / 4)", at_least=1)
    turned: int | None = option(
        None, "features of queries, and of a key that all heads share, on which rotary positions act (default: half a "
        "head's)", at_least=1,
    )  # fmt: skip
    heads: int = 1
    position: Position = field(default=NO_POSITION)
    bias: bool = True

    name = "latent"
    takes_heads = True
    takes_memory = True
    takes_dropout = True
    has_weights = True
    keeps_tokens = True

    def widths(self, dim: int) -> tuple[int, int, int]:
        """The widths of a head, of the latent vector, and of the turned part."""
        d = dim // self.heads
        return d, self.latent or max(1, dim // 4), self.turned or 2 * math.ceil(d / 4)

    def refuse_dim(self, dim: int) -> None:
        if dim < 1:
            raise ValueError(f"a map of tokens of width {dim}, expected a width of at least 1")
        if dim % self.heads:
            raise ValueError(f"dim {dim} is not divisible by heads {self.heads}")
        if self.position.gives or (self.position.at_heads and not self.position.extends):
            raise ValueError(f"mixer latent takes positions at tokens and rope, and position is {self.position.name}")
        _, latent, turned = self.widths(dim)
        if latent > dim:
            raise ValueError(f"latent is {latent}, expected at most dim, which is {dim}: all heads together")
        self.position.refuse_width(turned)

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        self.refuse_dim(dim)
        _, latent, turned = self.widths(dim)
        shapes = {"query": (dim, dim + self.heads * turned), "latent": (dim, latent), "turned": (dim, turned),
                  "key": (latent, dim), "value": (latent, dim), "output": (dim, dim)}  # fmt: skip
        return {name: dense_init(rng, *shape, self.bias) for name, shape in shapes.items()}

    def forward(
        self, p: Any, x: Array, memory: Array | None = None, *, mask: Mask | Array | None = None,
        slots: Array | None = None, rate: float = 0.0, rng: Any = None,
    ) -> tuple[Array, LatentCache]:  # fmt: skip
        xp, h, (d, _, _) = get_xp(x), self.heads, self.widths(x.shape[-1])
        is_self, memory = memory is None, x if memory is None else memory
        made, caches = {}, {}
        for name, tokens in (("query", x), ("latent", memory), ("turned", memory)):
            made[name], caches[name] = dense(p[name], tokens)
        for name in ("key", "value"):
            made[name], caches[name] = dense(p[name], made["latent"])
        q, r = split(made["query"], h), made["turned"][:, None]
        t, r, _, placed = self.position.enter(None, q[..., d:], r, slots)
        k = xp.concatenate([split(made["key"], h), xp.broadcast_to(r, (len(r), h, *r.shape[2:]))], axis=-1)
        q = xp.concatenate([q[..., :d], t], axis=-1)
        out, attended = FULL.forward(None, q, k, split(made["value"], h), as_mask(mask), {}, rate, rng)
        y, caches["output"] = dense(p["output"], merge(out))
        return y, LatentCache(caches, placed, attended, is_self)

    def backward(self, p: Any, dy: Array, cache: LatentCache) -> tuple[Array, Array | None, dict[str, Any]]:
        xp, h, (d, _, _) = get_xp(dy), self.heads, self.widths(dy.shape[-1])
        grads: dict[str, Any] = {}

        def back(name: str, upstream: Array) -> Array:
            dx, grads[name] = dense_backward(p[name], upstream, cache.dense[name])
            return dx

        dq, dk, dv, _, _ = FULL.backward(None, split(back("output", dy), h), cache.attended)
        dr = xp.sum(dk[..., d:], axis=1, keepdims=True)              # all heads share r
        dt, dr, _ = self.position.enter_backward(None, dq[..., d:], dr, {}, cache.placed)
        dc = back("key", merge(dk[..., :d])) + back("value", merge(dv))
        dmemory = back("latent", dc) + back("turned", dr[:, 0])
        dx = back("query", merge(xp.concatenate([dq[..., :d], dt], axis=-1)))
        return (dx + dmemory, None, grads) if cache.own_memory else (dx, dmemory, grads)

    def extend(self, p: Any, x: Array, memory: Array | None, past: LatentPast | None) -> tuple[Array, LatentPast]:
        """The cache has latent + turned numbers a token; W_k and W_v are absorbed.

        The bias of keys adds one number to all scores of a query, which does not change their softmax. The bias of
        values is added once to every output, because weights sum to 1.
        """
        xp, h, (d, latent, turned) = get_xp(x), self.heads, self.widths(x.shape[-1])
        memory, length, n = x if memory is None else memory, 0 if past is None else past.length, x.shape[-2]
        q, (c, _), (r, _) = split(dense(p["query"], x)[0], h), dense(p["latent"], memory), dense(p["turned"], memory)
        t, r = (self.position.turn(None, part, length) for part in (q[..., d:], r[:, None]))
        new = xp.concatenate([c[:, None], r], axis=-1)                                  # (B, 1, n, latent + turned)
        kept = (GrowingRows.none(new) if past is None else past.kept).append(new)
        W_k, W_v = (xp.transpose(p[name]["W"].reshape(latent, h, d), (1, 0, 2)) for name in ("key", "value"))
        absorbed = xp.concatenate([q[..., :d] @ W_k.swapaxes(1, 2), t], axis=-1)        # (B, h, n, latent + turned)
        absorbed = absorbed * math.sqrt((latent + turned) / (d + turned))               # attention divides by another √
        m = length + n
        allowed = Mask(causal=True).rows(xp.arange(length, m)[None, :, None], m, x)
        grouped = (in_groups(part, h, 1) for part in (absorbed, allowed, None))
        read, _ = attention_in_groups(kept.rows, kept.rows[..., :latent], *grouped)
        out = merge(read.reshape(*absorbed.shape[:-1], latent) @ W_v)
        if "b" in p["value"]:
            out = out + p["value"]["b"]
        return dense(p["output"], out)[0], LatentPast(m, kept)
