"""Induction: which token followed the previous occurrence of this token? (Olsson et al. 2022; Gu & Dao 2023, 4.1.2.)

The answer is one position after the previous occurrence: two steps, which attention takes in two blocks. One block
needs heads or widths that grow with the number of tokens (Sanford et al. 2024, theorem 1).
"""

import math
from dataclasses import dataclass

import numpy as np

from ...options import option
from .sequence_task import Drawn, SequenceTask


@dataclass(frozen=True, kw_only=True)
class Induction(SequenceTask):
    """The answer at a repeated token is the token after its previous occurrence: in a b a c a, b and then c."""

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
        """The follower of each token, and the last token, once all have occurred: tokens^tokens cases.

        From follower to follower, every token leads to the last one. So the followers are a tree whose root is the last
        token: there are tokens^(tokens - 1) such trees (Cayley 1889). The root's previous follower is any token.
        """
        return self.tokens * math.log2(self.tokens)

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        ids = rng.integers(self.tokens, size=(rows, self.length))
        targets, has_answer = np.zeros_like(ids), np.zeros(ids.shape, dtype=bool)
        follower, every = np.full((rows, self.tokens), -1), np.arange(rows)     # of each token's last occurrence
        for t in range(self.length):
            if t:
                follower[every, ids[:, t - 1]] = ids[:, t]
            answer = follower[every, ids[:, t]]
            has_answer[:, t] = answer >= 0
            targets[:, t] = np.maximum(answer, 0)
        return Drawn(ids, targets, has_answer)
