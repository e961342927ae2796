"""The batches of a task: new sequences at every step, a function of the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...random import Stream, generator
from ..epochs import steps_of
from ..texts import TextBatch
from .sequence_task import Drawn, SequencePart


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
    return TextBatch(drawn.ids, drawn.targets, drawn.asked.astype(np.float32), np.arange(len(drawn.ids)))
