"""Whole steps of a learner in one launch: recorded once for each layout of a batch, and launched again."""

import sys
from collections.abc import Sequence
from typing import Any

from .batch import Batch
from .recording import CannotRecordError, record

MOST = 8                 # records; each keeps the memory of a step. Four lengths, for each number of rows in an epoch


class Launcher:
    """Steps of one learner, which computes on a device, in one launch each.

    A layout, the sizes of a batch's arrays, is recorded when it is met for the second time. Histories are padded to few
    lengths, so that layouts are few. Other layouts than the first MOST, and steps of several batches, are computed call
    by call, without that padding.
    """

    def __init__(self) -> None:
        self.refused = ""                    # why the device does not record
        self._met: set[int] = set()          # hashes of layouts: there may be one for each step
        self.records: dict[Any, Any] = {}    # layout -> what was sent first, loss and squared norm, and the launch

    def launch(self, learner: Any, batches: Sequence[Batch], step: int, seen: Any, pool: Any) -> bool:
        """`differentiate` and `update` after `step` steps; False, with nothing done, where they are not recorded."""
        if self.refused or len(batches) != 1:
            return False
        batch: Any = batches[0]
        batch = batch.padded() if hasattr(batch, "padded") else batch
        layout = tuple(None if x is None else (x.shape, x.dtype) for x in batch)
        if layout in self.records:
            sent, now, launch = self.records[layout]
            sent.whole[...] = learner.send(batch, step).whole
            launch()
        elif hash(layout) in self._met and len(self.records) < MOST:
            now = self._record(learner, batch, step, pool, layout)
        else:
            self._met.add(hash(layout))
            return False
        if self.refused:
            return False
        seen[...] = now
        return True

    def _record(self, learner: Any, batch: Any, step: int, pool: Any, layout: Any) -> Any:
        """The step, computed and recorded. Where that is refused, parameters and moments are as before."""
        sent, now = learner.send(batch, step), learner.xp.zeros(2)
        written = learner.vector, *learner.moments
        before = [x.copy() for x in written]

        def whole() -> None:
            learner.compute([(step, 1.0, sent)], now, pool)
            learner.update(step + 1)

        try:
            self.records[layout] = sent, now, record(whole, learner.xp)
        except CannotRecordError as why:
            self.refused = str(why)
            self.records.clear()             # their memory may be what was missing
            print(f"note: steps are computed call by call, as this device does not record them: {why}", file=sys.stderr)
            for x, kept in zip(written, before, strict=True):
                x[...] = kept
        return now
