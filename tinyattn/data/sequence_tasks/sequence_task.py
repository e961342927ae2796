"""A task of sequences: tokens drawn from a rule, and answers at some of them."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from ...options import Checked, option
from ...random import Stream, generator
from ..parts import Parts
from ..slices import steps_of
from ..texts import TextBatch


class Drawn(NamedTuple):
    """Sequences of one length. Tokens and answers are numbers from 0 on."""

    ids: np.ndarray           # (B, n) tokens
    targets: np.ndarray       # (B, n) answers, else 0
    has_answer: np.ndarray    # (B, n) True = has an answer, which depends on this token and earlier ones


@dataclass(frozen=True, kw_only=True)
class SequenceTask(Checked):
    """A question about sequences. A subclass has a `name`, a `title`, `n_tokens`, `chance`, `bits` and `draw`.

    Training sequences are drawn anew at every step, so that none can be memorised; an epoch is `sequences` of them, in
    whole batches. Those for validation and for testing are drawn once, by `seed`.
    """

    length: int = option(64, "tokens of a sequence", at_least=2)
    sequences: int = option(6400, "new sequences an epoch", at_least=1)
    held_out: int = option(1000, "sequences for validation, and as many for testing", at_least=1)
    seed: int = option(0, "of the sequences for validation and testing", at_least=0)

    name: ClassVar[str]
    title: ClassVar[str]            # the question, in a few words

    @property
    def n_tokens(self) -> int:
        """Tokens and answers are 0 to n_tokens - 1; n_tokens does not depend on the length."""
        raise NotImplementedError

    @property
    def chance(self) -> float:
        """The accuracy of the best guess without the sequence."""
        raise NotImplementedError

    @property
    def bits(self) -> float:
        """The size of a sufficient memory: log2 of the number of states to distinguish at one token."""
        raise NotImplementedError

    @property
    def by_place(self) -> float | None:
        """The accuracy of a guess from whether a position is even or odd, if that is above `chance`; else None."""
        return None

    def draw(self, rng: np.random.Generator, rows: int) -> Drawn:
        raise NotImplementedError

    def generate(self) -> "SequencePart":
        """The training part, whose `split` has all parts."""
        return SequencePart(self, 0)


@dataclass(frozen=True)
class SequencePart:
    """A part of a task's sequences: 0 for training, 1 for validation, 2 for testing."""

    task: SequenceTask
    part: int = 2

    what: ClassVar[str] = "sequences"

    @classmethod
    def of(cls, data: "SequencePart | SequenceTask") -> Self:
        """A part, or the test part of a task. Raises ValueError for anything else."""
        if isinstance(data, SequenceTask):
            return cls(data)
        if not isinstance(data, cls):
            raise ValueError(f"data is {data!r}, expected a task of sequences, or a part of one")
        return data

    def __len__(self) -> int:
        return self.task.held_out if self.part else self.task.sequences

    @property
    def sizes(self) -> dict[str, int]:
        return {"sequences an epoch": self.task.sequences, "tokens of each": self.task.length,
                "different tokens": self.task.n_tokens}  # fmt: skip

    def held_out(self) -> Drawn:
        """Sequences of this part that are the same at every step."""
        return self.task.draw(generator(self.task.seed, Stream.TASK, 1, self.part), self.task.held_out)

    def fingerprint(self) -> str:
        """A digest of `held_out`."""
        digest = hashlib.sha256()
        for array in self.held_out():
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return digest.hexdigest()[:16]

    def split(self) -> Parts:
        return Parts(*(SequencePart(self.task, part) for part in range(3)))


@dataclass(frozen=True)
class TaskSampler:
    """The training batches of a run; sequences are repeated only by chance."""

    part: SequencePart
    batch_size: int
    seed: int

    @property
    def steps(self) -> int:
        return steps_of(len(self.part), self.batch_size)

    def batch(self, step: int) -> TextBatch:
        return _batch(self.part.task.draw(generator(self.seed, Stream.TASK, 2, step), self.batch_size))

    def whole(self) -> TextBatch:
        """`held_out` of the part, in one batch."""
        return _batch(self.part.held_out())


def _batch(drawn: Drawn) -> TextBatch:
    return TextBatch(drawn.ids, drawn.targets, drawn.has_answer.astype(np.float32), np.arange(len(drawn.ids)))
