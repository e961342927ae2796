"""What a refinement is: it makes other scores of an attention's scores, before the softmax (Liu et al. 2024, AWRSR)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...ops import Mask, softmax, softmax_backward
from ...options import check_options, option
from ..dense import glorot

NOISE = 0.1                # of a new map, beside the identity, in what glorot would draw


class Refinement:
    """A new refinement is one file in this folder, a frozen dataclass of its options, and one line in REFINEMENTS.

    It stands between a mechanism's scores and their softmax: A becomes B, and the weights are softmax(B, allowed).
    `identity`: is B simply A? `reads_all`: do rows of B read rows of A that are not their past? Then a causal mask
    does not hide what is later.
    """

    name: ClassVar[str]
    identity: ClassVar[bool] = False
    reads_all: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self)

    def refuse(self, causal: bool) -> None:
        """Raise ValueError where it makes no sense under such a mask."""

    def init(self, rng: np.random.Generator, heads: int, longest: int) -> dict[str, Any]:
        """Parameters of one block, for sequences of at most `longest` tokens."""
        return {}

    def forward(self, p: Any, s: Array, allowed: Array | None, width: int) -> tuple[Array, Any]:
        """-> B, cache, from the scores s of heads of this width.

        Shapes: s (B, h, n, n), not masked yet, allowed onto it, True = may look -> B (B, h, n, n).
        """
        raise NotImplementedError

    def backward(self, p: Any, dB: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> ds like s, grads shaped like p."""
        raise NotImplementedError


class MapsCache(NamedTuple):
    allowed: Array | None
    weights: Array | None           # (B, h, n, n): A, where it is weights
    A: Array                        # (B, h, n, n)
    scale: float | None             # c
    saved: Any                      # what the op keeps for its backward


@dataclass(frozen=True)
class Maps(Refinement):
    """What all refinements of the paper share: maps W of n x n numbers, with n = maxlen, and what A is made of.

    Column j of A is the j-th item of the history that is looked at, the oldest first, so W speaks about places in it.
    Of a shorter sequence A is the upper left corner of an n x n matrix of zeros, and W is cut to what meets it.

    A masked score cannot be -∞ here: it would be multiplied. It is 0, or A is what softmax makes of the scores, with
    true zeros. A zero among scores says "as good as any other"; to M_stoc it is one row's likeness to another.
    Weights of n keys are about 1 / n: B is then small, and its softmax begins nearly uniform.

    Maps begin as the identity and a tenth of what glorot would draw: rows of A are compared as they are, at first.
    """

    refine_space: str = option(
        "scores", "what is refined: scores, 0 where the mask forbids, or weights, after a softmax",
        choices=("scores", "weights"),
    )  # fmt: skip
    refine_shared: bool = option(False, "the maps of a refinement are the same for all heads of a block")

    maps: ClassVar[tuple[str, ...]]
    over_tokens: ClassVar[tuple[str, ...]] = ()      # those of them whose columns, too, stand for tokens

    def init(self, rng: np.random.Generator, heads: int, longest: int) -> dict[str, Any]:
        drawn = range(1 if self.refine_shared else heads)
        return {
            name: np.eye(longest) + NOISE * np.stack([glorot(rng, longest, longest) for _ in drawn])
            for name in self.maps
        }

    def forward(self, p: Any, s: Array, allowed: Array | None, width: int) -> tuple[Array, MapsCache]:
        self._refuse_longer(s.shape[-1], min(p[name].shape[-1] for name in self.maps))
        weights = softmax(s, allowed) if self.refine_space == "weights" else None
        A = weights
        if A is None:
            A = s if allowed is None else get_xp(s).where(allowed, s, 0)
        scale = self.scale(width)
        B, *saved = self.refine(A, self._cut(p, s.shape[-1]), allowed, scale)
        return B, MapsCache(allowed, weights, A, scale, saved)

    def backward(self, p: Any, dB: Array, cache: MapsCache) -> tuple[Array, dict[str, Any]]:
        xp, n = get_xp(dB), dB.shape[-1]
        dA, *dmaps = self.refine_backward(dB, cache.A, self._cut(p, n), cache.saved, cache.scale)
        grads = {}
        for name, d in zip(self.maps, dmaps, strict=True):
            grads[name] = xp.zeros_like(p[name])
            grads[name][self.met(name, n)] = d                     # the rest of W has met nothing
        if cache.weights is not None:
            return softmax_backward(dA, cache.weights), grads
        return dA if cache.allowed is None else xp.where(cache.allowed, dA, 0), grads

    def scale(self, width: int) -> float | None:
        """The constant c of the op; None for the one that it has by default."""
        return None

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        """The op, of A and its maps. -> B and what it keeps."""
        raise NotImplementedError

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        """Its mirror. -> dA, and a gradient for each map."""
        raise NotImplementedError

    def met(self, name: str, n: int) -> tuple[Any, ...]:
        """Where this map meets n tokens: its first n rows, and where columns are tokens, too, n columns."""
        return (Ellipsis, slice(n), slice(n if name in self.over_tokens else None))

    def _refuse_longer(self, n: int, longest: int) -> None:
        if n > longest:
            raise ValueError(
                f"sequences of {n} tokens, expected at most {longest}: refinement {self.name} was made with maps of "
                f"{longest} x {longest} numbers, a row for each place, and knows no place beyond"
            )

    def _cut(self, p: Any, n: int) -> list[Array]:
        return [p[name][self.met(name, n)] for name in self.maps]


@dataclass(frozen=True)
class Rows(Maps):
    """Refinements in which rows of A are compared with rows: with a scale, and readable by the lag."""

    refine_scale: str = option(
        "d", "what a refinement divides by the root of: d, the width of a head, as printed, or n, the terms of the sum",
        choices=("d", "n"),
    )  # fmt: skip
    refine_lags: bool = option(
        False, "row k of a map is about the item k steps back, and not about the k-th of the history"
    )

    def scale(self, width: int) -> float | None:
        return 1 / math.sqrt(width) if self.refine_scale == "d" else None

    def refuse(self, causal: bool) -> None:
        if self.refine_lags and not causal:
            raise ValueError(f"refinement {self.name} by lags needs a causal mask: a later token has no lag")


def pairs_allowed(mask: Mask, n: int, like: Array) -> Array | None:
    """Onto (B, h, n, n), True = may look. A token that is padding looks at nothing either: its row of A is 0."""
    allowed, real = mask.array(n, n, like=like), mask.keys(n, like=like)
    return allowed if real is None or allowed is None else allowed & real[..., None]
