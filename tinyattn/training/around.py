"""What surrounds the steps of a run: checkpoints, divergence, Ctrl-C, ranks and progress."""

import math
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import backend
from ..ranks import alone
from ..terminal import progress_bar
from .batch import Batch
from .state import State

BAR = "{percentage:3.0f}% |{bar:10}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"      # 80 columns suffice
LOOK_EVERY = 50          # on a device, losses are fetched and checked every so many steps


class DivergedError(ArithmeticError):
    """A number is not finite; the message names it, and the step.

    After an epoch with a validation score, `parameters` are those of the best epoch; `history` has the whole epochs.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.parameters: Any = None
        self.history: Sequence[dict[str, Any]] = ()

    def keep(self, state: State) -> None:
        """Keep the parameters of the best epoch, if there is one."""
        if state.best_score is not None:
            state.learner.vector[...] = state.best
            self.parameters, self.history = state.learner.p, state.history
            self.args = (f"{self}; the model of epoch {state.best_epoch}, the best so far, is kept",)


class DivergedWarning(RuntimeWarning):
    """A training that diverged has ended with the model of its best epoch; the message is the error's."""


class InterruptedRunError(Exception):
    """Ctrl-C after the step that the message names; with a checkpoint, all steps up to it are saved."""

    def _render_traceback_(self) -> list[str]:  # IPython calls it, so a notebook shows one line
        return [f"{type(self).__name__}: {self}"]


class Around:
    """A context around a run of `last` steps. The loop calls it before and after a step, and before its update.

    Saving takes at most 2 % of the time.
    """

    def __init__(
        self, state: State, last: int, checkpoint: str | Path | None, identity: dict[str, Any],
        upgrade_identity: Callable[[Any], Any], progress: bool,
    ) -> None:  # fmt: skip
        self.state, self.job, self.identity = state, state.learner.ranks, identity
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        if self.checkpoint is not None and self.job.once(self.checkpoint.exists):
            state.restore(self.checkpoint, last, identity, upgrade_identity)
        self._due = math.inf if checkpoint is None or self.job.number else time.monotonic()     # of the next save
        self._unseen = state.here                                # the first step whose loss has not been checked
        shown = None if progress and not self.job.number else True         # None: on a terminal
        self.bar = progress_bar(shown, total=last, initial=state.step, bar_format=BAR)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._interrupted = self._open.enter_context(_interrupts())
        self._open.enter_context(self.bar)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._open.__exit__(kind, error, trace)
        if isinstance(error, DivergedError):
            error.keep(self.state)

    def begin(self) -> bool:
        """A step begins. -> True if `look` will read its loss."""
        here, every_step = self.state.here, backend.is_numpy(self.state.learner.xp)
        self._began = time.monotonic()
        self._saves, ends = self._began >= self._due, here == len(self.state.seen) - 1
        self._looks = every_step or self._saves or ends or here - self._unseen >= LOOK_EVERY
        return self._looks

    def look(self) -> None:
        """After the gradient and before the update: refuse numbers that are not finite, and save if it is time."""
        if self._looks:
            here = self.state.here
            self._refuse_divergence(here)
            self._unseen = 0 if here == len(self.state.seen) - 1 else here + 1
        if self._saves:                                    # before the update: these parameters gave a finite loss
            self._save()

    def count(self, batches: list[Batch]) -> None:
        """The update is made: the step has ended."""
        self.state.count(batches, time.monotonic() - self._began)
        self.bar.update()

    def finish_epoch(
        self, validate: Callable[[Any], float] | None, on_epoch: Callable[[list[dict[str, Any]]], None] | None
    ) -> None:
        """The epoch has ended: validate, and call `on_epoch`. Ranks compare their parameters first."""
        state, learner = self.state, self.state.learner
        learner.flush(state.step)
        if self.job.size > 1:
            epoch = state.step // len(state.seen)
            self.job.agree({f"parameters after epoch {epoch}": zlib.crc32(learner.vector)})
        score = None if validate is None else validate(learner.p)
        if score is not None and not math.isfinite(score):
            raise diverged(state.step, len(state.seen), f"validation score {score}")
        state.finish_epoch(score)
        self.bar.set_postfix_str(epoch_in_words(state.history[-1]))
        if on_epoch is not None and not self.job.number:
            with alone():
                on_epoch(state.history)

    def stop_if_interrupted(self) -> None:
        """Save and raise InterruptedRunError where Ctrl-C came on any rank."""
        if not self.job.any(self._interrupted()):
            return
        if self.state.here:                                      # the epoch's last step has been looked at
            self._refuse_divergence(self.state.here - 1)
        self._save()
        self.job.wait()                                          # a rank that exits would end one that is still saving
        raise InterruptedRunError(f"interrupted after step {self.state.step}")

    def _save(self) -> None:
        if self.checkpoint is None or self.job.number:
            return
        began = time.monotonic()
        self.state.save(self.checkpoint, self.identity)
        now = time.monotonic()
        self._due = now + 50 * (now - began)

    def _refuse_divergence(self, last: int) -> None:
        """Raise DivergedError if loss or gradient of an unchecked step of the epoch, up to `last`, is not finite.

        On a device this is the only place in a step that waits for results.
        """
        first, steps = self._unseen, len(self.state.seen)
        seen = backend.to_numpy(self.state.seen[first : last + 1])
        for i in np.flatnonzero(~np.all(np.isfinite(seen), axis=1)).tolist():
            loss, square = seen[i].tolist()
            step = self.state.step - self.state.here + first + i + 1
            raise diverged(step, steps, f"loss {loss}, gradient norm {math.sqrt(square)}")


def diverged(step: int, steps: int, what: str) -> DivergedError:
    epoch = (step - 1) // steps + 1
    return DivergedError(f"training diverged at step {step} (epoch {epoch}): {what}; a smaller learning rate may help")


def note_idle(state: State, first: list[Batch], progress: bool) -> None:
    """Print a note where a step has fewer slices than there are ranks."""
    job, pieces = state.learner.ranks, len(state.learner.slices(first))
    if progress and not job.number and pieces < job.size:
        note = f"{pieces} of {job.size} ranks have work: a step is cut into {pieces} slices at most"
        print(f"note: {note}", file=sys.stderr)


def epoch_in_words(row: dict[str, Any]) -> str:
    """A row of the history in short: "epoch 3, loss 0.4123, valid 0.3512"."""
    valid = "" if row["valid"] is None else f", valid {row['valid']:.4f}"
    loss = f"{row['loss']:.4f}" if row["loss"] < 1e6 else f"{row['loss']:.4g}"
    return f"epoch {row['epoch']}, loss {loss}{valid}"


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
