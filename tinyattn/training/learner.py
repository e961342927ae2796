"""What learns: parameters in one vector, their gradient in another, and Adam. One step is `differentiate`, `update`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..random import MaskKeys, Stream, generator
from ..tree import add_to, flatten, leaves, views
from .adam import Moments, adam
from .batch import SLICE_TOKENS, Batch
from .crew import Crew, shared
from .lazy import LazyAdam

LAZY_FROM = 10       # a table is kept lazily where it has so many times the rows that a step reads


class Learner:
    """The parameters of `model` in training, as it stands after so many steps.

    A model may have `rows_read(batch)`: a dict from the dotted names of tables to the ids of the rows that are read.
    On the host, tables much larger than that are kept by `LazyAdam`: their rows are right whenever they are read.
    """

    def __init__(self, model: Any, settings: Any, first: Batch) -> None:
        self.model, self.seed = model, settings.seed
        self.xp = backend.module_for(settings.device)
        self.vector, self.p = flatten(model.init(generator(settings.seed, Stream.INIT)), np.float32, self.xp)
        if backend.on_host(self.xp):
            self.vector = shared(self.vector)           # workers see every step's parameters
            self.p = views(self.vector, self.p)
        self.gradient = self.xp.zeros_like(self.vector)
        self.grads = views(self.gradient, self.p)
        self.moments = Moments(self.xp.zeros_like(self.vector), self.xp.zeros_like(self.vector))
        self.how = {"lr": settings.lr, "beta2": settings.beta2}
        self.lazy: dict[str, LazyAdam] = {}
        self._dense = [slice(0, self.vector.size)]      # pieces of the vector that Adam moves at every step
        self._read: dict[str, np.ndarray] = {}          # rows of lazy tables that the step at hand reads
        self._tables = dict(leaves(self.grads))         # gradients by name
        if backend.on_host(self.xp) and LazyAdam.suits(settings.beta2):
            self._keep_lazily(self._rows_read(first))

    def _rows_read(self, batch: Batch) -> dict[str, np.ndarray]:
        return self.model.rows_read(batch) if hasattr(self.model, "rows_read") else {}

    def _keep_lazily(self, reads: dict[str, np.ndarray]) -> None:
        m, v = (dict(leaves(views(moment, self.p))) for moment in self.moments)
        begin, self._dense = 0, []
        end = 0
        for name, table in leaves(self.p):
            if name in reads and len(table) > LAZY_FROM * len(np.unique(reads[name])):
                self.lazy[name] = LazyAdam(table, Moments(m[name], v[name]), **self.how)
                self._dense.append(slice(begin, end))
                begin = end + table.size
            end += table.size
        self._dense.append(slice(begin, end))
        self._dense = [piece for piece in self._dense if piece.start < piece.stop]

    def arrays(self) -> dict[str, Any]:
        """All that a checkpoint needs of it."""
        found = {"vector": self.vector, "m": self.moments.m, "v": self.moments.v}
        return found | {f"last.{name}": lazy.last for name, lazy in self.lazy.items()}

    def as_kept_here(self, arrays: dict[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
        """The arrays of a checkpoint saved after `step` steps, maybe by a learner that keeps other tables lazily.

        A device keeps none. Raises KeyError or ValueError where arrays are missing or misshapen.
        """
        found = dict(arrays)
        elsewhere = [name for name in found if name.startswith("last.") and name.removeprefix("last.") not in self.lazy]
        if elsewhere:
            found |= {name: np.array(found[name]) for name in ("vector", "m", "v")}
            trees = [dict(leaves(views(found[name], self.p))) for name in ("vector", "m", "v")]
            for name in elsewhere:
                table, m, v = (tree[name.removeprefix("last.")] for tree in trees)
                kept = LazyAdam(table, Moments(m, v), **self.how)
                kept.last[...] = found.pop(name)
                kept.catch_up(np.arange(len(table)), step)
        for name, kept in self.lazy.items():
            found.setdefault(f"last.{name}", np.full_like(kept.last, step))
        return found

    def crew(self, workers: int | None) -> Crew:
        """Who works for this learner: a context, for `differentiate`. A device has one worker, this process."""
        return Crew(workers if backend.on_host(self.xp) else 1, self._work, self.vector.nbytes + (1 << 20))

    def differentiate(self, batch: Batch, step: int, seen: Any, crew: Crew) -> None:
        """Compute the gradient of `batch` by the parameters after `step` steps; its loss and squared norm go to `seen`.

        Slices are added in their order, whoever finished first. A device takes the batch in one piece.
        """
        self._begin(batch, step)
        slices = batch.slices(SLICE_TOKENS) if backend.on_host(self.xp) else [batch]
        total = batch.total
        tasks = [(step, part.total / total, part) for part in slices]
        seen[...] = 0
        for loss, grads in crew.map(tasks):
            seen[0] += loss
            add_to(self.grads, grads)
        with np.errstate(over="ignore"):
            for part in self._gradients():
                seen[1] += self.xp.sum(part * part, dtype=np.float64)

    def _work(self, task: tuple[int, float, Batch]) -> tuple[Any, Any]:
        """-> the part of the batch's loss that a slice with this share of its positions has, and its gradients."""
        step, share, part = task
        with np.errstate(over="ignore", invalid="ignore"):       # a loss that is not finite is reported by name
            part = part.to(self.xp)
            rng = MaskKeys(generator(self.seed, Stream.DROPOUT, step), part.rows)    # the same however a batch is cut
            loss, cache = self.model.loss(self.p, part, rng)
            return share * loss, self.model.loss_backward(self.p, share, cache)

    def _begin(self, batch: Batch, step: int) -> None:
        """Forget the last gradient, and bring the rows that are read up to date."""
        for piece in self._dense:
            self.gradient[piece] = 0
        for name, ids in self._read.items():
            self._tables[name][ids] = 0
        rows = self._rows_read(batch) if self.lazy else {}
        self._read = {name: _distinct(rows[name], len(lazy.table)) for name, lazy in self.lazy.items()}
        for name, lazy in self.lazy.items():
            lazy.catch_up(self._read[name], step)

    def _gradients(self) -> list[Any]:
        """The pieces of the gradient that are not 0."""
        rows = [np.take(self._tables[name], ids, axis=0) for name, ids in self._read.items()]
        return [self.gradient[piece] for piece in self._dense] + rows

    def update(self, step: int) -> None:
        """Adam's step number `step`, counted from 1, with the gradient that was computed last."""
        with np.errstate(over="ignore", invalid="ignore"):
            dense = self._gradients()
            for piece, gradient in zip(self._dense, dense, strict=False):
                moments = Moments(*(moment[piece] for moment in self.moments))
                adam(self.vector[piece], gradient, moments, step, **self.how)
            for (name, lazy), gradient in zip(self.lazy.items(), dense[len(self._dense) :], strict=True):
                lazy.update(self._read[name], gradient, step)

    def settle(self, step: int) -> None:
        """Bring every row up to date: all of `vector` is then what it is after `step` steps."""
        for lazy in self.lazy.values():
            lazy.catch_up(np.arange(len(lazy.table)), step)


def _distinct(ids: np.ndarray, height: int) -> np.ndarray:
    """The rows of a table that these are, each once, in order."""
    read = np.zeros(height, dtype=bool)
    read[ids] = True
    return np.flatnonzero(read)
