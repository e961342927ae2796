"""The training loop: steps, epochs, validation, early stopping, and checkpoints to resume from.

Of a model it uses `init(rng)`, `loss(p, batch, rng)`, `loss_backward(p, dloss, cache)` and, where they are there,
`rows_read(batch)` and `undecayed(tree)`.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from .. import __version__, backend
from ..backend import DEVICES
from ..files import FileError, read_arrays, write_arrays
from ..options import check_options, option
from ..ranks import alone
from ..terminal import shortened
from .batch import Batch, Batches, Grouped
from .learner import Learner
from .schedules import SCHEDULES

LOOK_EVERY = 50          # on a device, losses are fetched and checked every so many steps


@dataclass(kw_only=True)
class Settings:
    """How to train. Raises ValueError, naming the value, for one that cannot work."""

    epochs: int = option(100, "epochs at most", at_least=1, group="training")
    patience: int = option(
        10, "stop after so many epochs without a better score on validation (recommenders: NDCG@10); 0 = never",
        at_least=0, group="training",
    )  # fmt: skip
    lr: float = option(1e-3, "learning rate of Adam", above=0, group="training")
    beta2: float = option(0.98, "second decay rate of Adam", at_least=0, below=1, group="training")
    schedule: str = option(
        "constant", "how the learning rate goes on after the warm-up: in a line or half a cosine to 0 at the end "
        "of all epochs, or as 1 / √step (noam)", choices=SCHEDULES, group="training",
    )  # fmt: skip
    warmup: int = option(0, "steps over which the learning rate grows to its value", at_least=0, group="training")
    weight_decay: float = option(
        0.0, "AdamW's decay of matrices and embeddings, not of biases and norms", at_least=0, group="training"
    )
    clip_norm: float | None = option(
        None, "longer gradients are scaled to this norm, of all parameters together (default: never)", above=0,
        group="training",
    )  # fmt: skip
    accumulate: int = option(1, "batches whose gradients make one step", at_least=1, group="training")
    seed: int = option(
        0, "seed of all that is drawn: initialisation, order, negatives, what is hidden, dropout", at_least=0,
        group="training",
    )  # fmt: skip
    device: str = option(
        "cpu", "where to compute; a run may move between them", choices=DEVICES, group="training", identity=False
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.lr * self.weight_decay >= 1:
            raise ValueError(
                f"weight_decay is {self.weight_decay}, expected below 1 / lr = {1 / self.lr:g}: a step leaves 1 - lr · "
                "weight_decay of a parameter"
            )


class DivergedError(ArithmeticError):
    """What is computed is no longer finite; the message names what, and the step."""


class InterruptedRunError(Exception):
    """Ctrl-C after the step that the message names; all up to it is saved, where there is a checkpoint."""


@dataclass
class State:
    """The state of a run, all of which a checkpoint saves. Random generators are made from keys, so there are none."""

    learner: Learner
    best: Any                         # the parameters with the best validation score so far
    seen: Any                         # (steps an epoch, 2): loss and squared gradient norm of each step of this epoch
    step: int = 0
    best_score: float | None = None
    best_epoch: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    _SCALARS: ClassVar[dict[str, Any]] = {
        "step": int, "best_score": float | None, "best_epoch": int, "tokens": int, "seconds": float, "history": list,
    }  # fmt: skip

    def _arrays(self) -> dict[str, Any]:
        return self.learner.arrays() | {"best": self.best, "seen": self.seen}

    def count(self, batches: list[Batch], seconds: float) -> None:
        """Count a finished step: its number, tokens and seconds."""
        self.step += 1
        self.tokens += sum(int(batch.total) for batch in batches)
        self.seconds += seconds

    def finish_epoch(self, score: float | None) -> None:
        """Append the epoch's row to the history, and copy the parameters to `best` if they are the best so far."""
        losses, squares = backend.to_numpy(self.seen).T
        epoch = self.step // len(losses)
        row = {
            "epoch": epoch,
            "steps": self.step,
            "loss": float(np.mean(losses)),
            "valid": score,
            "gradient_norm": float(np.mean(np.sqrt(squares))),
            "seconds": self.seconds,
            "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
        }
        self.history.append(row)
        self.seconds, self.tokens = 0.0, 0
        if score is None or self.best_score is None or score > self.best_score:
            self.best[...] = self.learner.vector
            self.best_score, self.best_epoch = score, epoch

    def save(self, path: Path, identity: dict[str, Any]) -> None:
        meta = {"identity": identity, "scalars": {name: getattr(self, name) for name in self._SCALARS}}
        write_arrays(path, "checkpoint", meta, {name: backend.to_numpy(x) for name, x in self._arrays().items()})

    def _read(self, path: Path) -> tuple[dict[str, Any], Any]:
        try:
            meta, arrays = read_arrays(path, "checkpoint")
        except FileError as error:
            raise FileError(f"{error}: remove it, and training begins anew") from None
        return meta, arrays if self.learner.ranks.size == 1 else dict(arrays.items())      # whole, for the other ranks

    def restore(
        self,
        path: Path,
        last: int,
        identity: dict[str, Any],
        identity_today: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        """Read a checkpoint of a run of `last` steps.

        Raises FileError where it is damaged, or of another configuration or other data.
        """
        meta, saved = self.learner.ranks.once(lambda: self._read(path))
        try:
            found = identity_today(meta["identity"])
        except (KeyError, TypeError, AttributeError):
            found = None
        if found != json.loads(json.dumps(identity)):
            raise FileError(f"{path} belongs to another configuration or other data")
        try:
            unknown = [name for name in saved if name not in self._arrays() and not name.startswith("last.")]
            if unknown:
                raise ValueError(f"{min(unknown)} is no part of one")
            self._take_scalars(meta["scalars"], last)
            arrays = self.learner.convert_checkpoint(saved, self.step)
            for name, mine in self._arrays().items():
                found = arrays[name]
                if found.shape != mine.shape or found.dtype != mine.dtype or not np.all(np.isfinite(found)):
                    wanted = f"{mine.shape} finite {mine.dtype}"
                    raise ValueError(f"{name} is {found.shape} {found.dtype}, expected {wanted}")
                mine[...] = backend.asarray(found, like=mine)
        except FileError:
            raise
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise FileError(f"{path} is not a whole tinyattn checkpoint: {error}") from None

    def _take_scalars(self, found: dict[str, Any], last: int) -> None:
        """Take what is no array, of a run of `last` steps. Raises ValueError where numbers do not fit each other."""
        for name, kinds in self._SCALARS.items():
            value = found[name]
            odd = isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value))
            if not isinstance(value, kinds) or odd:
                raise ValueError(f"{name} is {shortened(repr(value))}")
            setattr(self, name, value)
        epochs = len(self.history)
        most = {"step": last, "best_epoch": epochs, "tokens": 2**63 - 1, "seconds": sys.float_info.max}
        for name, limit in most.items():
            value = getattr(self, name)
            if not 0 <= value <= limit:
                raise ValueError(f"{name} is {shortened(repr(value))}, expected 0 to {limit}")
        for row in self.history:
            row.setdefault("steps", row["epoch"] * len(self.seen))          # tinyattn 0.1 did not write them
        if epochs != self.step // len(self.seen) or not all(map(_is_row, self.history)):
            raise ValueError(f"step {self.step} with this history")


def _is_row(row: dict[str, Any]) -> bool:
    """Is it one that `finish_epoch` writes?"""
    numbers = [row[name] for name in ("epoch", "steps", "loss", "gradient_norm", "seconds", "tokens_per_second")]
    numbers += [] if row["valid"] is None else [row["valid"]]
    return all(type(number) in (int, float) and abs(number) < 1e300 for number in numbers)


def train(
    model: Any,
    batches: Batches,
    settings: Settings,
    *,
    workers: int | None = None,
    validate: Callable[[Any], float] | None = None,
    checkpoint: str | Path | None = None,
    identity: dict[str, Any] | None = None,
    identity_today: Callable[[Any], Any] = lambda found: found,
    on_epoch: Callable[[list[dict[str, Any]]], None] | None = None,
    progress: bool = True,
    enough: float | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Train `model` from `init`, or from `checkpoint` where that file exists. -> parameters, history.

    `validate(p)` is called after each epoch; higher is better. With it, the parameters of the best epoch are returned,
    `patience` applies, and training ends at a score of `enough`; without it, the last ones are. The history has one
    dict an epoch: epoch, steps (so far), loss, valid (or None), gradient_norm (the mean over steps, before clipping),
    seconds (of its steps), tokens_per_second.

    A step is one update, from `accumulate` batches as from one batch with all their rows; the last step of an epoch has
    the batches that are left. Schedules run over all steps of `epochs`, also where `patience` ends earlier.

    Checkpoints are saved right after loss and gradient were found finite, and on Ctrl-C; saving takes at most 2 % of
    the time. A run that was stopped and resumed ends with the same bits as one never stopped; on a device, with the
    same numbers up to rounding. A checkpoint is resumed only where its `identity` (JSON) is the same;
    `identity_today` translates one that an older version wrote.

    On a device no step waits for a result: parameters, gradient and losses stay there, a batch is sent in one
    transfer, and losses are fetched every fifty steps, at the end of an epoch and before saving.

    Inside `tinyattn.ranks.mpi` all ranks call it alike. Each computes some slices of every step, and rank 0 alone shows
    progress, calls `on_epoch`, and reads and writes the checkpoint, which another number of ranks may go on from. The
    numbers are those of one rank up to rounding. Raises RanksDifferError where ranks were given different things.

    Raises DivergedError where loss, gradient, validation score or parameters are not finite, InterruptedRunError on
    Ctrl-C, FileError for a checkpoint that is damaged, or of another identity.
    """
    grouped = Grouped(batches, settings.accumulate)
    steps, last = grouped.steps, settings.epochs * grouped.steps         # of an epoch, of all
    first = grouped.batch(0)
    learner = Learner(model, settings, first, last)
    job = learner.ranks
    job.agree({"tinyattn": __version__, "numpy": np.__version__} | (identity or {}))
    _note_idle(learner, first, progress)
    is_numpy = backend.is_numpy(learner.xp)
    state = State(learner, learner.vector.copy(), learner.xp.zeros((steps, 2)))
    checkpoint = None if checkpoint is None else Path(checkpoint)
    if checkpoint is not None and job.once(checkpoint.exists):
        state.restore(checkpoint, last, identity or {}, identity_today)

    def save() -> float:
        """-> the earliest time of the next save: saving then takes at most 2 % of the time."""
        if checkpoint is None or job.number:
            return math.inf
        began = time.monotonic()
        state.save(checkpoint, identity or {})
        now = time.monotonic()
        return now + 50 * (now - began)

    due = math.inf if checkpoint is None or job.number else time.monotonic()
    unseen = state.step % steps                                  # the first step whose loss has not been checked
    shown = None if progress and not job.number else True         # tqdm's `disable`; None: on a terminal
    bar = tqdm(total=last, initial=state.step, unit="step", disable=shown, leave=False)
    with learner.pool(workers) as pool, _interrupts() as interrupted, bar:
        while state.step < last and not _out_of_patience(state, settings) and not _is_enough(state, enough):
            began = time.monotonic()
            given, here = grouped.batch(state.step), state.step % steps
            learner.differentiate(given, state.step, state.seen[here], pool)
            saving, ends = time.monotonic() >= due, here == steps - 1
            if is_numpy or saving or ends or here - unseen >= LOOK_EVERY:
                _refuse_divergence(state, unseen, here)
                unseen = 0 if ends else here + 1
            if saving:                                           # before the update: these gave a finite loss
                due = save()
            learner.update(state.step + 1)
            state.count(given, time.monotonic() - began)
            bar.update()
            if ends:
                learner.flush(state.step)
                if job.size > 1:
                    job.agree({f"parameters after epoch {state.step // steps}": zlib.crc32(learner.vector)})
                score = None if validate is None else validate(learner.p)
                if score is not None and not math.isfinite(score):
                    raise _diverged(state.step, steps, f"validation score {score}")
                state.finish_epoch(score)
                bar.set_postfix(_short(state.history[-1]))
                if on_epoch is not None and not job.number:
                    with alone():
                        on_epoch(state.history)
            if job.any(interrupted()):
                if not ends:
                    _refuse_divergence(state, unseen, here)
                save()
                job.wait()                                       # the first rank to end would end one that is saving
                raise InterruptedRunError(f"interrupted after step {state.step}")
    if not np.all(np.isfinite(backend.to_numpy(state.best))):
        raise _diverged(state.step, steps, "parameters that are not finite")
    learner.vector[...] = state.best
    return learner.p, state.history


def _note_idle(learner: Learner, first: list[Batch], progress: bool) -> None:
    """Say where a step has less to share out than there are ranks."""
    job, pieces = learner.ranks, len(learner.slices(first))
    if progress and not job.number and pieces < job.size:
        told = f"{pieces} of {job.size} ranks have work: a step is cut into {pieces} slices at most"
        print(f"note: {told}", file=sys.stderr)


def _refuse_divergence(state: State, first: int, last: int) -> None:
    """Raise DivergedError for the first of the epoch's steps `first` to `last`, counted from 0, that is not finite.

    On a device this is the only place in a step that waits for results. `state.step` is the number of step `last`.
    """
    seen, steps = backend.to_numpy(state.seen[first : last + 1]), len(state.seen)
    for i in np.flatnonzero(~np.all(np.isfinite(seen), axis=1)).tolist():
        loss, square = seen[i].tolist()
        step = state.step - state.step % steps + first + i + 1
        raise _diverged(step, steps, f"loss {loss}, gradient norm {math.sqrt(square)}")


def _diverged(step: int, steps: int, what: str) -> DivergedError:
    epoch = (step - 1) // steps + 1
    return DivergedError(f"training diverged at step {step} (epoch {epoch}): {what}; a smaller learning rate may help")


def _out_of_patience(state: State, settings: Settings) -> bool:
    if not settings.patience or state.best_score is None:
        return False
    return len(state.history) - state.best_epoch >= settings.patience


def _is_enough(state: State, enough: float | None) -> bool:
    return enough is not None and state.best_score is not None and state.best_score >= enough


def _short(row: dict[str, Any]) -> dict[str, str]:
    shown = {"epoch": str(row["epoch"]), "loss": f"{row['loss']:.4f}"}
    return shown | ({} if row["valid"] is None else {"valid": f"{row['valid']:.4f}"})


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C inside only makes the yielded function return True, so the step is finished; the next raises."""
    seen = False

    def remember(*_: object) -> None:
        nonlocal seen
        seen = True
        signal.signal(signal.SIGINT, before)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False                                      # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, before)
