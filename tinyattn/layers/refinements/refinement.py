"""The bases of refinements, which transform attention scores before the softmax (Liu et al. 2024, AWRSR)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...backend import Array, get_xp, is_numpy
from ...ops import Mask, softmax, softmax_backward
from ...ops.shapes import unbroadcast
from ...options import Checked, option
from ..dense import glorot

NOISE = 0.1                # a new map is the identity plus this times glorot's numbers


class Refinement(Checked):
    """A new refinement is one file in this folder, a frozen dataclass of its options, and one line in REFINEMENTS.

    It is a subclass of `Rows` or of `Maps`, below, which have `forward` and `backward`: it names its `maps`, and its
    `refine` and `refine_backward` call an op. CONTRIBUTING.md says what else a new one needs.

    It acts between a mechanism's scores and their softmax: A becomes B, and the weights are softmax(B, allowed).
    `identity`: is B simply A? `reads_all`: do rows of B read rows of A of later queries? Then a causal mask does not
    hide later tokens.
    """

    name: ClassVar[str]
    identity: ClassVar[bool] = False
    reads_all: ClassVar[bool] = False

    def refuse(self, causal: bool) -> None:
        """Raise ValueError if the refinement makes no sense under a mask that is, or is not, causal."""

    def init(self, rng: np.random.Generator, heads: int, longest: int) -> dict[str, Any]:
        """Parameters of one block, for sequences of at most `longest` tokens."""
        return {}

    def forward(
        self, p: Any, s: Array, allowed: Array | None, width: int, lengths: Array | None = None
    ) -> tuple[Array, Any]:
        """-> B, cache. `s` are unmasked scores of heads of `width`, `lengths` those of the sequences (None: all n).

        Shapes: s (B, h, n, n); allowed broadcasts to it, True = may look; lengths (B,) -> B (B, h, n, n).
        """
        raise NotImplementedError

    def backward(self, p: Any, dB: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> ds like s, grads shaped like p."""
        raise NotImplementedError


class MapsCache(NamedTuple):
    allowed: Array | None
    weights: Array | None           # (B, h, n, n): A, if it is weights
    places: Array | None            # (B, m): from `_places`, if sequences differ in length
    W: list[Array]                  # the maps, their rows in the order of places
    A: Array                        # (B, h, n, n)
    scale: float | None             # c
    saved: Any                      # what the op saves for its backward


@dataclass(frozen=True)
class Maps(Refinement):
    """The base of all refinements of the paper: maps W of n x n numbers, with n = maxlen.

    The last column of A is the newest item, as with padding on the left, so W is indexed from the end. For a shorter
    sequence A is the lower right corner of an n x n matrix of zeros, and only the matching part of W is used. In a
    batch, whose padding is on the right, these parts differ by sequence.

    Maps multiply the scores, so a masked score cannot be -∞. It is 0; or A is the softmax of the scores, where it is 0
    anyway. Weights of n keys are about 1 / n, so B is then small, and its softmax begins nearly uniform.

    Maps begin as the identity plus a tenth of glorot's numbers.
    """

    refine_space: str = option(
        "scores", "what is refined: scores, 0 where the mask forbids, or weights, after a softmax",
        choices=("scores", "weights"),
    )  # fmt: skip
    refine_shared: bool = option(False, "the maps of a refinement are the same for all heads of a block")

    maps: ClassVar[tuple[str, ...]]
    over_tokens: ClassVar[tuple[str, ...]] = ()      # the maps whose columns stand for tokens, too

    def init(self, rng: np.random.Generator, heads: int, longest: int) -> dict[str, Any]:
        drawn = range(1 if self.refine_shared else heads)
        return {
            name: np.eye(longest) + NOISE * np.stack([glorot(rng, longest, longest) for _ in drawn])
            for name in self.maps
        }

    def forward(
        self, p: Any, s: Array, allowed: Array | None, width: int, lengths: Array | None = None
    ) -> tuple[Array, MapsCache]:
        self._refuse_longer(s.shape[-1], min(p[name].shape[-1] for name in self.maps))
        weights = softmax(s, allowed) if self.refine_space == "weights" else None
        A = weights
        if A is None:
            A = s if allowed is None else get_xp(s).where(allowed, s, 0)
        n, scale = s.shape[-1], self.scale(width)
        W = [p[name][self.used(p[name], name, n)] for name in self.maps]
        by_place = self.rows_are_tokens() or self.over_tokens      # by lags, W does not depend on a sequence's length
        places = _places(lengths, n, W[0].shape[-2], get_xp(s)) if by_place else None
        W = [self._arranged(name, map_, places) for name, map_ in zip(self.maps, W, strict=True)]
        B, *saved = self.refine(A, W, allowed, scale)
        return B, MapsCache(allowed, weights, places, W, A, scale, saved)

    def backward(self, p: Any, dB: Array, cache: MapsCache) -> tuple[Array, dict[str, Any]]:
        xp, n = get_xp(dB), dB.shape[-1]
        dA, *dmaps = self.refine_backward(dB, cache.A, cache.W, cache.saved, cache.scale)
        back, grads = None if cache.places is None else xp.argsort(cache.places, axis=1), {}
        for name, d in zip(self.maps, dmaps, strict=True):
            grads[name] = xp.zeros_like(p[name])
            d = self._arranged_back(name, d, back)
            used = self.used(p[name], name, n)                       # the rest of W was not used
            grads[name][used] = d if back is None else unbroadcast(d, grads[name][used].shape)
        if cache.weights is not None:
            return softmax_backward(dA, cache.weights), grads
        return dA if cache.allowed is None else xp.where(cache.allowed, dA, 0), grads

    def scale(self, width: int) -> float | None:
        """The constant c of the op; None for its default."""
        return None

    def refine(self, A: Array, W: Any, allowed: Array | None, scale: float | None) -> tuple[Any, ...]:
        """Call the op. -> B and its cache."""
        raise NotImplementedError

    def refine_backward(self, dB: Array, A: Array, W: Any, saved: Any, scale: float | None) -> tuple[Array, ...]:
        """Its mirror. -> dA, and a gradient for each map."""
        raise NotImplementedError

    def used(self, W: Array, name: str, n: int) -> tuple[Any, ...]:
        """The part of a map for n tokens: its last n rows (by lags the first), and n columns if they are tokens."""
        rows, columns = (slice(size - n, None) for size in W.shape[-2:])
        rows = rows if self.rows_are_tokens() else slice(n)
        return (Ellipsis, rows, columns if name in self.over_tokens else slice(None))

    def _refuse_longer(self, n: int, longest: int) -> None:
        if n > longest:
            raise ValueError(
                f"sequences of {n} tokens, expected at most {longest}: refinement {self.name} was made with maps of "
                f"{longest} x {longest} numbers, a row for each place, and knows no place beyond"
            )

    def rows_are_tokens(self) -> bool:
        """Do rows of the maps stand for tokens? If not, for lags."""
        return True

    def _arranged(self, name: str, W: Array, places: Array | None) -> Array:
        """W[:, places] for each sequence, and columns likewise if they are tokens.

        Shapes: W (h, m, r), places (B, m) -> (B, h, m, r).
        """
        rows, columns = self.rows_are_tokens(), name in self.over_tokens
        if places is None or not (rows or columns):
            return W
        xp, (h, m, r) = get_xp(W), W.shape
        if not columns:
            return xp.take(W, places, axis=1).swapaxes(0, 1)
        entries = r * (places if rows else xp.arange(m)[None])[:, :, None] + places[:, None]
        return xp.take(W.reshape(h, m * r), entries, axis=1).swapaxes(0, 1)

    def _arranged_back(self, name: str, d: Array, back: Array | None) -> Array:
        """The mirror of `_arranged`, without the sum over sequences. Shapes: d (B, h, m, r), back (B, m) -> like d."""
        if back is None:
            return d
        each = get_xp(d).arange(len(d))[:, None]
        if self.rows_are_tokens():
            d = d[each, :, back].swapaxes(1, 2)
        if name in self.over_tokens:
            d = d[each, :, :, back].swapaxes(1, 2).swapaxes(2, 3)
        return d


@dataclass(frozen=True)
class Rows(Maps):
    """Refinements that compare rows of A with each other: they have a scale, and maps may be indexed by lag."""

    refine_scale: str = option(
        "d", "divide by the root of d, a head's width (as printed), or of n, the number of terms in the sum",
        choices=("d", "n"),
    )  # fmt: skip
    refine_lags: bool = option(False, "row k of a map is for the item k steps back, and not for place k")

    def scale(self, width: int) -> float | None:
        return 1 / math.sqrt(width) if self.refine_scale == "d" else None

    def rows_are_tokens(self) -> bool:
        return not self.refine_lags

    def refuse(self, causal: bool) -> None:
        if self.refine_lags and not causal:
            raise ValueError(f"refinement {self.name} by lags needs a causal mask: a later token has no lag")


def _places(lengths: Array | None, n: int, size: int, xp: Any) -> Array | None:
    """(B, size): for each place its row of W, which has `size` rows; None where place i has row i in all sequences.

    The last token of a sequence has the last row; padding has the first rows.
    """
    if lengths is None or (is_numpy(xp) and xp.all(lengths == n)):
        return None
    return (xp.arange(size) + n - xp.asarray(lengths)[:, None]) % size


def pairs_allowed(mask: Mask, n: int, like: Array) -> Array | None:
    """A mask that broadcasts to (B, h, n, n), True = may look. Padding looks at nothing, so its row of A is 0."""
    allowed, real = mask.array(n, n, like=like), mask.keys(n, like=like)
    return allowed if real is None or allowed is None else allowed & real[..., None]
