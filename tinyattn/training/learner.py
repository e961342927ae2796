"""Parameters in one vector, their gradient in another, and Adam or Muon. A step is `differentiate`, then `update`."""

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from .. import backend
from ..forms import replaceable
from ..random import MaskKeys, Stream, generator
from ..ranks import ranks
from ..tree import add_to, flatten, leaves, views
from . import recording
from .adam import Moments, adam, corrections
from .adamw import adamw, decay_of
from .batch import SLICE_TOKENS, Batch
from .clipping import clip_by_global_norm
from .launching import Launcher
from .lazy import LazyAdam
from .muon import matrices_of, muon
from .processes import ProcessPool, shared
from .schedules import rate_at, rate_factors
from .sending import Sender, Sent


class Learner:
    """The parameters of `model`, their gradient and the optimiser's state during training.

    A model may have `rows_read(batch)`: a dict from the dotted names of tables to the ids of the rows that the batch
    reads. On the host, tables of far more rows are updated by `LazyAdam`: a row is up to date whenever it is read.
    It may have `undecayed(tree)`: see `decay_of`.
    """

    def __init__(self, model: Any, settings: Any, first: Sequence[Batch], steps: int) -> None:
        """`first` are the batches of the first step, `steps` is the number of steps that schedules run over."""
        self.model, self.seed = model, settings.seed
        self.ranks = ranks()
        self.xp = backend.module_for(settings.device)
        if self.ranks.size > 1 and not backend.is_numpy(self.xp):
            raise ValueError(f"device is {settings.device!r}, expected 'cpu' for {self.ranks.size} ranks")
        self.vector, self.p = flatten(model.init(generator(settings.seed, Stream.INIT)), np.float32, self.xp)
        self._is_shared = False
        if backend.is_numpy(self.xp):
            with suppress(OSError):                     # without shared memory, workers are threads
                self.vector = shared(self.vector)       # child processes see every step's parameters
                self.p = views(self.vector, self.p)
                self._is_shared = True
        self.gradient = self.xp.zeros_like(self.vector)
        self.grads = views(self.gradient, self.p)
        self.moments = Moments(self.xp.zeros_like(self.vector), self.xp.zeros_like(self.vector))
        self.lr, self.beta2, self.clip_norm = settings.lr, settings.beta2, settings.clip_norm
        self.factors = rate_factors(settings.schedule, settings.warmup, steps)
        self.decay: Any = None                          # of each parameter, where any decays
        if settings.weight_decay:
            self.decay = self.xp.asarray(decay_of(model, self.p, settings.weight_decay))
        self.lazy = self.lazy_tables(self._rows_read(first))
        self._dense = self._between(self.lazy)          # pieces of the vector that are updated at every step
        self._muon = self._matrices() if settings.optimizer == "muon" else {}
        self._adam = self._between({*self.lazy, *self._muon})                   # pieces that Adam updates
        self._rows: dict[str, np.ndarray] = {}          # rows of lazy tables that the current step reads
        self._tables = dict(leaves(self.grads))         # gradients by name
        self.sender = None if backend.is_numpy(self.xp) else Sender(self.xp, settings.seed)     # to a device
        self._sent: Sent | None = None                  # what was sent for the current step
        self.launcher = None
        if self.sender is not None and recording.PROVEN and backend.device_name(settings.device) in recording.PROVEN:
            self.launcher = Launcher()

    def _rows_read(self, batches: Sequence[Batch]) -> dict[str, np.ndarray]:
        if not hasattr(self.model, "rows_read"):
            return {}
        first, *others = [self.model.rows_read(batch) for batch in batches]
        if not others:
            return first
        return {name: np.concatenate([ids, *(read[name] for read in others)]) for name, ids in first.items()}

    @replaceable
    def lazy_tables(self, rows_read: dict[str, np.ndarray]) -> dict[str, LazyAdam]:
        """The tables that `LazyAdam` updates, given the rows that the first step reads. Here there are none."""
        return {}

    def _matrices(self) -> dict[str, list[Any]]:
        """Weights, gradient, momentum, and decay if any, of each weight matrix. Raises ValueError if there is none."""
        vectors = [self.vector, self.gradient, self.moments.m, *(() if self.decay is None else (self.decay,))]
        trees = [dict(leaves(views(vector, self.p))) for vector in vectors]
        if matrices := {name: [tree[name] for tree in trees] for name in matrices_of(self.p)}:
            return matrices
        raise ValueError("optimizer is 'muon', expected 'adam' for a model without weight matrices")

    def _between(self, others: Container[str]) -> list[slice]:
        """The pieces of the vector outside these arrays."""
        begin, end, pieces = 0, 0, []
        for name, table in leaves(self.p):
            if name in others:
                pieces.append(slice(begin, end))
                begin = end + table.size
            end += table.size
        return [piece for piece in (*pieces, slice(begin, end)) if piece.start < piece.stop]

    def lazy_adam(self, name: str, table: np.ndarray, moments: Moments) -> LazyAdam:
        """A table's `LazyAdam`, with this learner's options."""
        decay = 0.0 if self.decay is None else dict(leaves(views(self.decay, self.p)))[name].flat[0].item()
        return LazyAdam(table, moments, lr=self.lr, beta2=self.beta2, weight_decay=decay, factors=self.factors)

    def arrays(self) -> dict[str, Any]:
        """What a checkpoint saves of the learner."""
        arrays = {"vector": self.vector, "m": self.moments.m, "v": self.moments.v}
        return arrays | {f"last.{name}": lazy.last for name, lazy in self.lazy.items()}

    def convert_checkpoint(self, arrays: Mapping[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
        """The arrays of a checkpoint saved after `step` steps, with lazy tables as this learner has them.

        The learner that saved them may have had other lazy tables: a device has none. Raises KeyError or ValueError
        where arrays are missing or misshapen.
        """
        saved = dict(arrays)
        elsewhere = [name for name in saved if name.startswith("last.") and name.removeprefix("last.") not in self.lazy]
        if elsewhere:
            saved |= {name: np.array(saved[name]) for name in ("vector", "m", "v")}
            trees = [dict(leaves(views(saved[name], self.p))) for name in ("vector", "m", "v")]
            for name in (last.removeprefix("last.") for last in elsewhere):
                table, m, v = (tree[name] for tree in trees)
                kept = self.lazy_adam(name, table, Moments(m, v))
                kept.last[...] = saved.pop(f"last.{name}")
                kept.catch_up(np.arange(len(table)), step)
        for name, kept in self.lazy.items():
            saved.setdefault(f"last.{name}", np.full_like(kept.last, step))
        return saved

    def pool(self, workers: int | None) -> ProcessPool:
        """The processes that `differentiate` uses, as a context; on a device, only this process."""
        count = workers if backend.is_numpy(self.xp) else 1
        return ProcessPool(count, self._work, self.vector.nbytes + (1 << 20), fork=self._is_shared)

    def differentiate(self, batches: Sequence[Batch], step: int, seen: Any, pool: ProcessPool) -> None:
        """Compute the gradient of `batches` after `step` steps; write loss and squared norm to `seen`.

        All three are those of one batch with all rows, so a batch counts by its weight. Slices are added in their
        order, whichever is ready first. A device computes a batch in one piece. Each rank computes some of the slices,
        but gets all batches, since these are a function of the step.
        """
        self._begin(batches, step)
        slices = self.slices(batches)
        total = sum(batch.total for batch in batches)
        mine = self.ranks.mine([part.total for part in slices])
        tasks = [(step, slices[i].total / total, self.send(slices[i], step)) for i in mine]
        self.compute(tasks, seen, pool)

    def send(self, part: Any, step: int) -> Any:
        """On a device, send all that differs from the last step, before the step begins; see `sending`."""
        if self.sender is None:
            return part
        lr = rate_at(self.lr, self.factors, step + 1)
        self._sent = self.sender.send(part, step, (*corrections(step + 1, lr, beta2=self.beta2), lr))
        return self._sent

    def compute(self, tasks: list[Any], seen: Any, pool: ProcessPool) -> None:
        """The rest of `differentiate`, when everything is on its device: it transfers nothing and waits for nothing."""
        for piece in self._dense:
            self.gradient[piece] = 0
        seen[...] = 0
        total, squares = seen[:1], seen[1:2]            # views: a device would copy seen[0] += ... once more
        for loss, grads in pool.map(tasks):
            total += loss
            add_to(self.grads, grads)
        if self.ranks.size > 1:
            self._sum_over_ranks(seen)
        with np.errstate(over="ignore"):
            for part in self._gradients():
                squares += self.xp.sum(part * part, dtype=np.float64)
        self._seen = seen

    def launch(self, batches: Sequence[Batch], step: int, seen: Any, pool: ProcessPool) -> bool:
        """`differentiate` and `update` in one launch; False, with nothing done, where the step is not recorded."""
        return self.launcher is not None and self.launcher.launch(self, batches, step, seen, pool)

    def slices(self, batches: Sequence[Batch]) -> list[Batch]:
        """The slices of a step: at least one for each rank, as long as there are enough rows."""
        if not backend.is_numpy(self.xp):
            return list(batches)
        tokens, rows = SLICE_TOKENS, sum(len(batch.rows) for batch in batches)
        while True:
            slices = [part for batch in batches for part in batch.slices(tokens)]
            if len(slices) >= min(self.ranks.size, rows) or tokens == 1:
                return slices
            tokens //= 2

    def _sum_over_ranks(self, seen: np.ndarray) -> None:
        """Add up gradient and loss of all ranks in one message, with the rows of lazy tables that the step reads."""
        pieces = self._gradients()
        message = np.concatenate([*(piece.reshape(-1) for piece in pieces), seen[:1].astype(self.gradient.dtype)])
        self.ranks.sum(message)
        *sums, loss = np.split(message, np.cumsum([piece.size for piece in pieces]))
        for piece, total in zip(self._dense, sums, strict=False):
            self.gradient[piece] = total
        for (name, ids), total in zip(self._rows.items(), sums[len(self._dense) :], strict=True):
            self._tables[name][ids] = total.reshape(len(ids), -1)
        seen[0] = loss[0]

    def _work(self, task: tuple[int, float, Any]) -> tuple[Any, Any]:
        """A task is (step, share of the batch's positions, slice) -> the slice's part of the loss, its gradients."""
        step, share, part = task
        with np.errstate(over="ignore", invalid="ignore"):       # a loss that is not finite is reported by name
            keys: Any = generator(self.seed, Stream.DROPOUT, step)
            if isinstance(part, Sent):
                keys, part = iter(part.keys), part.batch
            rng = MaskKeys(keys, part.rows)              # the same masks however a batch is cut
            loss, cache = self.model.loss(self.p, part, rng)
            return loss if share == 1 else share * loss, self.model.loss_backward(self.p, share, cache)

    def _begin(self, batches: Sequence[Batch], step: int) -> None:
        """Zero the previous gradient of lazy tables, and bring the rows that `batches` read up to date."""
        for name, ids in self._rows.items():
            self._tables[name][ids] = 0
        rows_read = self._rows_read(batches) if self.lazy else {}
        self._rows = {name: _distinct(rows_read[name], len(lazy.table)) for name, lazy in self.lazy.items()}
        for name, lazy in self.lazy.items():
            lazy.catch_up(self._rows[name], step)

    def _gradients(self) -> list[Any]:
        """The pieces of the gradient that may differ from 0: dense pieces first, then the rows of lazy tables."""
        rows = [np.take(self._tables[name], ids, axis=0) for name, ids in self._rows.items()]
        return [self.gradient[piece] for piece in self._dense] + rows

    def update(self, step: int) -> None:
        """Step number `step`, counted from 1, with the gradient of the last `differentiate`, clipped."""
        at: Any = step
        lr: Any = rate_at(self.lr, self.factors, step)
        if self._sent is not None:
            root, rate, lr = (self._sent.numbers[i : i + 1] for i in range(3))
            at = root, rate
        with np.errstate(over="ignore", invalid="ignore"):
            gradients = self._gradients()
            if self.clip_norm is not None:
                clip_by_global_norm(gradients, self._seen[1], self.clip_norm, self.xp)
            for piece in self._adam:
                moments = Moments(*(moment[piece] for moment in self.moments))
                take_step = adam if self.decay is None else partial(adamw, weight_decay=self.decay[piece])
                take_step(self.vector[piece], self.gradient[piece], moments, at, lr=lr, beta2=self.beta2)
            for matrix, gradient, momentum, *decay in self._muon.values():
                muon(matrix, gradient, momentum, lr=lr, weight_decay=decay[0] if decay else 0.0)
            for (name, lazy), gradient in zip(self.lazy.items(), gradients[len(self._dense) :], strict=True):
                lazy.update(self._rows[name], gradient, step)

    def flush(self, step: int) -> None:
        """Bring every row of lazy tables up to date: all of `vector` is then as after `step` steps."""
        for lazy in self.lazy.values():
            lazy.catch_up(np.arange(len(lazy.table)), step)


def _distinct(ids: np.ndarray, height: int) -> np.ndarray:
    """Distinct ids in ascending order; `height` is the number of rows of their table."""
    read = np.zeros(height, dtype=bool)
    read[ids] = True
    return np.flatnonzero(read)
