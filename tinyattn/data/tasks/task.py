"""A task: pairs of strings drawn from a rule, so that nothing has to be downloaded and any string can be tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...options import check_options, option
from ...random import Stream, generator
from ..pairs import Pairs


@dataclass(frozen=True, kw_only=True)
class Task:
    """`generate()` draws the pairs. A subclass has a `name`, a `title`, and `pair`."""

    pairs: int = option(20000, "pairs that are drawn", at_least=3)
    seed: int = option(0, "of all that is drawn", at_least=0)

    name: ClassVar[str]
    title: ClassVar[str]            # what becomes what, in a few words

    def __post_init__(self) -> None:
        check_options(self)

    def pair(self, rng: np.random.Generator) -> tuple[str, str]:
        """Draw one: a string, and what it becomes."""
        raise NotImplementedError

    def generate(self) -> Pairs:
        """Draw all pairs. The same settings give the same pairs."""
        rng = generator(self.seed, Stream.TASK)
        return Pairs.of(self.pair(rng) for _ in range(self.pairs))
