"""The training loop: the gradient of a batch, a step against it, and validation at the end of an epoch.

A model has `init(rng)`, `loss(p, batch, rng)`, `loss_backward(p, dloss, cache)` and perhaps `rows_read(batch)` and
`undecayed(tree)`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, backend
from .around import Around, diverged, note_idle
from .batch import Batches, Grouped
from .learner import Learner
from .settings import Settings
from .state import State


def train(
    model: Any,
    batches: Batches,
    settings: Settings,
    *,
    workers: int | None = None,
    validate: Callable[[Any], float] | None = None,
    checkpoint: str | Path | None = None,
    identity: dict[str, Any] | None = None,
    upgrade_identity: Callable[[Any], Any] = lambda stored: stored,
    begin: Callable[[Learner], None] | None = None,
    on_epoch: Callable[[list[dict[str, Any]]], None] | None = None,
    progress: bool = True,
    enough: float | None = None,
) -> tuple[Any, list[dict[str, Any]]]:
    """Train `model` from `init`, or from `checkpoint` where that file exists. -> parameters, history.

    `validate(p)` is called after each epoch; higher is better. With it, the parameters of the best epoch are returned,
    `patience` applies, and training ends at a score of `enough`; without it, those of the last epoch. The history has a
    dict per epoch: epoch, steps (so far), loss, valid (or None), gradient_norm (the mean over steps, before clipping),
    seconds (of its steps), tokens_per_second.

    A step is one update, from `accumulate` batches as from one batch with all their rows; the last step of an epoch has
    the remaining batches. Schedules run over all steps of `epochs`, even where `patience` ends earlier.

    `begin` may overwrite the parameters and moments of the new learner, which a checkpoint overwrites again.

    Checkpoints are saved right after loss and gradient were found finite, and on Ctrl-C; saving takes at most 2 % of
    the time. A run that was stopped and resumed ends with the same bits as one never stopped; on a device, with the
    same numbers up to rounding. A checkpoint is resumed only where its `identity` (JSON) is the same;
    `upgrade_identity` translates one that an older version wrote.

    On a device no step waits for a result: parameters, gradient and losses stay there, a batch is sent in one
    transfer, and losses are fetched every fifty steps, at the end of an epoch and before saving.

    Inside `tinyattn.ranks.mpi` all ranks make the same call. Each computes some slices of every step, and only rank 0
    shows progress, calls `on_epoch`, and reads and writes the checkpoint, which a different number of ranks may resume.
    The numbers are those of one rank up to rounding. Raises RanksDifferError where the ranks' arguments differ.

    Raises DivergedError, with the best parameters so far, where loss, gradient, validation score or parameters are not
    finite; InterruptedRunError on Ctrl-C; FileError for a checkpoint that is damaged, or of another identity.
    """
    steps = Grouped(batches, settings.accumulate)
    first, last = steps.batch(0), settings.epochs * steps.steps
    learner = Learner(model, settings, first, last)
    if begin is not None:
        begin(learner)
    learner.ranks.agree({"tinyattn": __version__, "numpy": np.__version__} | (identity or {}))
    state = State.new(learner, steps.steps)
    note_idle(state, first, progress)
    around = Around(state, last, checkpoint, identity or {}, upgrade_identity, progress)
    with learner.pool(workers) as pool, around:
        while state.step < last and not _is_over(state, settings.patience, enough):
            looks = around.begin()
            batch = steps.batch(state.step)
            seen = state.seen[state.here]
            if looks or not learner.launch(batch, state.step, seen, pool):
                learner.differentiate(batch, state.step, seen, pool)
                around.look()
                learner.update(state.step + 1)
            around.count(batch)
            if state.here == 0:
                around.finish_epoch(validate, on_epoch)
            around.stop_if_interrupted()
    if not np.all(np.isfinite(backend.to_numpy(state.best))):
        raise diverged(state.step, steps.steps, "parameters that are not finite")
    learner.vector[...] = state.best
    return learner.p, state.history


def _is_over(state: State, patience: int, enough: float | None) -> bool:
    """Has the score not risen for `patience` epochs, or is it `enough`?"""
    if state.best_score is None:
        return False
    waited = len(state.history) - state.best_epoch
    return bool(patience and waited >= patience) or (enough is not None and state.best_score >= enough)
