"""A task: pairs of strings drawn from a rule, without any download."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...options import Checked, option
from ...random import Stream, generator
from ..pairs import Pairs


@dataclass(frozen=True, kw_only=True)
class Task(Checked):
    """`generate()` draws the pairs. A subclass has a `name`, a `title`, and `pair`."""

    pairs: int = option(20000, "number of pairs", at_least=3)
    seed: int = option(0, "of the random numbers", at_least=0)

    name: ClassVar[str]
    title: ClassVar[str]            # the rule, in a few words

    def pair(self, rng: np.random.Generator) -> tuple[str, str]:
        """Draw a source and its target."""
        raise NotImplementedError

    def generate(self) -> Pairs:
        rng = generator(self.seed, Stream.TASK)
        return Pairs.of(self.pair(rng) for _ in range(self.pairs))
