"""Masked text: some tokens of a window are predicted, most of them hidden (Devlin et al. 2019, section 3.1)."""

from dataclasses import dataclass, field

import numpy as np

from ..options import check_options, option
from ..random import Stream, generator
from .texts import TextBatch, TextSampler


@dataclass(kw_only=True)
class Masking:
    """How a text is masked: each token is chosen for prediction independently.

    Most chosen tokens are hidden, replaced by [MASK], number V. Some are replaced by a random token, so that no token
    is reliable; the rest stay, so that visible tokens matter. Raises ValueError for invalid shares.
    """

    chosen: float = option(
        0.15, "share of tokens chosen for prediction (Devlin et al.: .15)", above=0, at_most=1, group="training"
    )
    hidden: float = option(
        0.8, "share of chosen tokens that [MASK] replaces (Devlin et al.: .8)", at_least=0, at_most=1, group="training"
    )
    swapped: float = option(
        0.1, "share of chosen tokens that a random one replaces (Devlin et al.: .1); the others stay",
        at_least=0, at_most=1, group="training",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_options(self)
        if self.hidden + self.swapped > 1 + 1e-9:
            raise ValueError(f"hidden {self.hidden} and swapped {self.swapped} are more than 1 together")

    def masked(self, ids: np.ndarray, n_tokens: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The masked tokens, and which were chosen, at least one. Shapes: ids (B, n) in 0..V-1 -> (B, n), (B, n)."""
        chosen, fate = rng.random(ids.shape) < self.chosen, rng.random(ids.shape)
        if not chosen.any():
            chosen.flat[rng.integers(ids.size)] = True
        others = rng.integers(n_tokens, size=ids.shape)                  # the token itself may be drawn
        read = np.where(fate < self.hidden, n_tokens, np.where(fate < self.hidden + self.swapped, others, ids))
        return np.where(chosen, read, ids), chosen

    def seen_where_chosen(self, ids: np.ndarray, n_tokens: int) -> np.ndarray:
        """P(token read | token, chosen). Shapes: ids (...) in 0..V -> (..., V)."""
        same = ids[..., None] == np.arange(n_tokens)
        left = max(0.0, 1 - self.hidden - self.swapped)
        return np.where((ids == n_tokens)[..., None], self.hidden, self.swapped / n_tokens + left * same)

    def seen(self, ids: np.ndarray, n_tokens: int) -> np.ndarray:
        """P(token read | token). Shapes: ids (...) in 0..V -> (..., V)."""
        same = ids[..., None] == np.arange(n_tokens)
        return (1 - self.chosen) * same + self.chosen * self.seen_where_chosen(ids, n_tokens)


@dataclass(frozen=True)
class MaskedTextSampler(TextSampler):
    """The windows of `TextSampler`, masked anew at every step; `targets` are original tokens, weight 1 if chosen."""

    n_tokens: int = field(kw_only=True)
    masking: Masking = field(kw_only=True)

    ahead = 0

    def batch(self, step: int) -> TextBatch:
        return self._masked(super().batch(step), Stream.MASKING, step)

    def whole(self) -> TextBatch:
        """The whole text, each token once, in adjacent windows; the mask depends on the seed alone."""
        return self._masked(self._covering(len(self.tokens) - self.width, self.width), Stream.VALIDATION)

    def _masked(self, batch: TextBatch, stream: Stream, *counters: int) -> TextBatch:
        read, chosen = self.masking.masked(batch.ids, self.n_tokens, generator(self.seed, stream, *counters))
        return batch._replace(ids=read, targets=batch.ids, weight=batch.weight * chosen)
