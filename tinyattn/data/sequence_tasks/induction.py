"""Induction: what followed this token the last time that it stood here? (Olsson et al. 2022; Gu & Dao 2023, 4.1.2.)

A token that comes again says what to look for, and the answer stands one further: two steps, which attention takes in
two blocks. One block needs heads or widths that grow with the number of tokens (Sanford et al. 2024, theorem 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...options import option
from .sequence_task import Drawn, SequenceTask


@dataclass(frozen=True, kw_only=True)
class Induction(SequenceTask):
    """Tokens are drawn independently. Wherever one stood before, the token after its last place is asked for.

    In a b a c a these are b at the second a, and c at the third.
    """

    tokens: int = option(16, "different tokens", at_least=2)

    name = "induction"
    title = "induction: what followed this token the last time?"

    @property
    def n_tokens(self) -> int:
        return self.tokens

    @property
    def chance(self) -> float:
        return 1 / self.tokens

    @property
    def bits(self) -> float:
        """What followed each token, and which is the last one, where all have come: tokens^tokens cases.

        Whoever goes from a token to what followed it, and on, comes to the last token. So what followed is a tree with
        the last token as its root, of which there are tokens^(tokens - 1) (Cayley 1889); and what followed the root the
        time before is any token.
        """
        return self.tokens * math.log2(self.tokens)

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        ids = rng.integers(self.tokens, size=(rows, self.length))
        targets, asked = np.zeros_like(ids), np.zeros(ids.shape, dtype=bool)
        follower, every = np.full((rows, self.tokens), -1), np.arange(rows)     # of each token's last place
        for t in range(self.length):
            if t:
                follower[every, ids[:, t - 1]] = ids[:, t]
            found = follower[every, ids[:, t]]
            asked[:, t] = found >= 0
            targets[:, t] = np.maximum(found, 0)
        return Drawn(ids, targets, asked)
