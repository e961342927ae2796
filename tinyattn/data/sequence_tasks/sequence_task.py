"""A task of sequences: tokens drawn from a rule, and the answers that are asked for at some of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from ...options import check_options, option
from ...random import Stream, generator
from ..parts import Parts


class Drawn(NamedTuple):
    """Sequences, all of one length. Tokens and answers are numbers from 0 on."""

    ids: np.ndarray           # (B, n) tokens
    targets: np.ndarray       # (B, n) answers, 0 where none is asked for
    asked: np.ndarray         # (B, n) is an answer asked for at this token, from it and those before it?


@dataclass(frozen=True, kw_only=True)
class SequenceTask:
    """What a model may be asked of a sequence. A subclass has a `name`, a `title`, `n_tokens`, `chance`, `bits`
    and `draw`.

    Training sequences are drawn anew at every step, so that none can be learned by heart; `sequences` of them, in
    whole batches, are called an epoch. Those for validation and for testing are drawn once, by `seed`.
    """

    length: int = option(64, "tokens of a sequence", at_least=2)
    sequences: int = option(6400, "sequences an epoch, all of them new", at_least=1)
    held_out: int = option(1000, "sequences that validate, and as many that are tested", at_least=1)
    seed: int = option(0, "of the sequences that are held out", at_least=0)

    name: ClassVar[str]
    title: ClassVar[str]            # the question, in a few words

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def n_tokens(self) -> int:
        """Tokens and answers are 0 to n_tokens - 1. It does not depend on the length."""
        raise NotImplementedError

    @property
    def chance(self) -> float:
        """The share of right answers of the best guess that does not look at the sequence."""
        raise NotImplementedError

    @property
    def bits(self) -> float:
        """Of a memory that is large enough: log2 of how many different things there may be to remember at one token."""
        raise NotImplementedError

    @property
    def by_place(self) -> float | None:
        """That of who knows only whether each place is odd or even, where this is more than `chance`; else None."""
        return None

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        """So many sequences."""
        raise NotImplementedError

    def generate(self) -> SequencePart:
        """The training part; with `split`, the held out part as well."""
        return SequencePart(self, 0)


@dataclass(frozen=True)
class SequencePart:
    """A part of a task's sequences: 0 is learned from, 1 validates, 2 is tested."""

    task: SequenceTask
    part: int = 2

    what: ClassVar[str] = "sequences"

    @classmethod
    def of(cls, data: SequencePart | SequenceTask) -> Self:
        """A part as it is; of a task, the sequences that are tested. Raises ValueError for anything else."""
        if isinstance(data, SequenceTask):
            return cls(data)
        if not isinstance(data, cls):
            raise ValueError(f"data is {data!r}, expected a task of sequences, or a part of one")
        return data

    def __len__(self) -> int:
        return self.task.held_out if self.part else self.task.sequences

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of sequences and tokens."""
        return {"sequences an epoch": self.task.sequences, "tokens of each": self.task.length,
                "different tokens": self.task.n_tokens}  # fmt: skip

    def held_out(self) -> Drawn:
        """The sequences of this part that do not change from step to step."""
        return self.task.draw(generator(self.task.seed, Stream.TASK, 1, self.part), self.task.held_out)

    def fingerprint(self) -> str:
        """A digest of `held_out`."""
        digest = hashlib.sha256()
        for array in self.held_out():
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return digest.hexdigest()[:16]

    def split(self) -> Parts:
        """The parts for training, validation and test."""
        return Parts(*(SequencePart(self.task, part) for part in range(3)))
