"""Dependencies between numbers of a trace: every number is nudged in turn, and all that follows is run again.

A nudge changes the array after the line that computed the number. Later values, for a nudge up by h and one down, give
central differences. So intermediates of a forward or a backward can be followed, not only arguments, and nothing
depends on the backward that is being examined.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...backend import to_numpy
from ...check.binding import asked_of, bind, named_results
from ..follow import widened
from ..recorder import Recorder
from ..records import Call, Entry

H = 1e-6                               # the nudge, times max(1, |number|)


class Reach(NamedTuple):
    """The effects of one number of a step."""

    moves: dict[int, np.ndarray]       # later step -> ∂(its numbers) / ∂(the nudged one), where any is not 0
    loss: float | None                 # ∂L/∂(the number), L = Σ cotangents ⊙ outputs; None in or without a backward


class Influence:
    """`reach[step][i]` is the reach of number i of a step; steps that cannot be nudged are missing."""

    def __init__(self, trace: Any, most: int) -> None:
        """Nudge the numbers of whole steps, in order, at most `most`."""
        self._trace = trace
        self._last_forward = max((e.number for e in trace.roots[0].entries()), default=-1)
        self._names = [(e.path, e.how, e.value.shape) for e in trace.entries]
        self.reach: dict[int, list[Reach]] = {}
        self.numbers = 0
        for entry in trace.entries:
            if self.numbers + entry.value.size <= most and (found := self._of(entry)) is not None:
                self.reach[entry.number] = found
                self.numbers += entry.value.size

    def _of(self, entry: Entry) -> list[Reach] | None:
        """None where a number cannot be nudged, or where a nudge changes which lines run."""
        if entry.value.dtype.kind != "f" or not entry.value.ndim or entry.how in ("allocated", "implied"):
            return None
        if sum(listed is entry for listed in self._trace.roots[0].listed.values()) > 1:
            return None                        # an array that was passed twice has two gradients
        reaches = []
        for index in np.ndindex(entry.value.shape):
            reach = self._reach(entry, index)
            if reach is None:
                return None
            reaches.append(reach)
        return reaches

    def _reach(self, entry: Entry, index: tuple[int, ...]) -> Reach | None:
        value = float(entry.value[index])
        if not np.isfinite(value):
            return Reach({}, None)
        h = H * max(1.0, abs(value))
        runs = [self._run(entry.number, index, by) for by in (h, -h)]
        if runs[0] is None or runs[1] is None:
            return None
        (above, up), (below, down) = runs[0], runs[1]
        moves = {n: rate for n, rate in _rates(above[entry.number + 1 :], below[entry.number + 1 :], 2 * h)}
        has_loss = self._trace.replay.cotangents and entry.number <= self._last_forward
        return Reach(moves, (up - down) / (2 * h) if has_loss else None)

    def _run(self, number: int, index: tuple[int, ...], by: float) -> tuple[list[Entry], float] | None:
        forward, args, kwargs, backward, cotangents = self._trace.replay
        recorded = self._trace.recorder
        recorder = _Nudging(8 * recorded.limit, recorded.engine, self._names[: number + 1], index, by)
        args, kwargs = widened(copy.deepcopy((args, kwargs)), {})
        upstream = [widened(dy) for dy in copy.deepcopy(cotangents)]
        inputs = bind(forward, *args, **kwargs)
        names = self._trace.roots[0].result_names
        returned, _ = recorder.run(forward, args, kwargs, names)
        outputs = returned if type(returned) is tuple else (returned,)
        loss = sum(float(np.sum(to_numpy(dy * y))) for dy, y in zip(upstream, outputs, strict=False))
        if backward is not None:
            asked, others, _ = asked_of(backward, inputs, returned, named_results(forward))
            recorder.run(backward, (), dict(zip(asked, upstream, strict=True)) | others)
        if not recorder.nudged or [(e.path, e.how, e.value.shape) for e in recorder.entries] != self._names:
            return None
        return recorder.entries, loss


def _rates(above: list[Entry], below: list[Entry], width: float) -> Iterator[tuple[int, np.ndarray]]:
    for up, down in zip(above, below, strict=True):
        if up.how == "allocated" or up.value.dtype.kind not in "f" or up.value.tobytes() == down.value.tobytes():
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            yield up.number, np.where(up.value == down.value, 0.0, (up.value - down.value) / width)


class _Nudging(Recorder):
    """Adds `by` to one number of the last step of `steps`, when that is recorded, unless earlier steps differ."""

    def __init__(self, limit: int, engine: bool, steps: list[Any], index: tuple[int, ...], by: float) -> None:
        super().__init__(limit, engine)
        self._steps, self._index, self._by, self.nudged = steps, index, by, False

    def _keep(self, call: Call, name: str, value: Any, how: str, line: int, text: str) -> None:
        super()._keep(call, name, value, how, line, text)
        here = len(self.entries) == len(self._steps) and self.entries[-1].value.shape == self._steps[-1][2]
        if here and getattr(getattr(value, "flags", None), "writeable", False):
            value[self._index] += self._by
            self.nudged = True
            self._update_digests(value)

    def _update_digests(self, nudged: Any) -> None:
        """Arrays that share the nudged memory must not be recorded as written in place."""
        for i, (value, digest) in self._seen.items():
            if digest is not None and np.may_share_memory(value, nudged):
                self._seen[i] = (value, self._digest(value))
        for watched in self._stack:
            for name, (value, _) in watched.before.items():
                if np.may_share_memory(value, nudged):
                    watched.before[name] = (value, self._digest(value))
