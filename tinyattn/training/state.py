"""The state of a run, and its checkpoint, which is saved whole and restored only where it fits."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .. import backend
from ..files import FileError, read_arrays, write_arrays
from ..terminal import shortened
from .batch import Batch
from .learner import Learner


@dataclass
class State:
    """The state of a run, which a checkpoint saves whole. It has no random generators: they are made from keys."""

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

    @classmethod
    def new(cls, learner: Learner, steps: int) -> "State":
        """The state of a new run, whose epochs have `steps` steps."""
        return cls(learner, learner.vector.copy(), learner.xp.zeros((steps, 2)))

    @property
    def here(self) -> int:
        """The place of the next step in its epoch, counted from 0."""
        return self.step % len(self.seen)

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
        return meta, arrays if self.learner.ranks.size == 1 else dict(arrays.items())      # all, for the other ranks

    def restore(
        self, path: Path, last: int, identity: dict[str, Any],
        upgrade_identity: Callable[[Any], Any] = lambda stored: stored,
    ) -> None:  # fmt: skip
        """Read a checkpoint of a run of `last` steps.

        Raises FileError where it is damaged, or belongs to a different configuration or different data.
        """
        meta, saved = self.learner.ranks.once(lambda: self._read(path))
        try:
            of_checkpoint = upgrade_identity(meta["identity"])
        except (KeyError, TypeError, AttributeError):
            of_checkpoint = None
        if of_checkpoint != json.loads(json.dumps(identity)):
            raise FileError(f"{path} belongs to another configuration or other data")
        try:
            unknown = [name for name in saved if name not in self._arrays() and not name.startswith("last.")]
            if unknown:
                raise ValueError(f"{min(unknown)} is no part of one")
            self._restore_scalars(meta["scalars"], last)
            arrays = self.learner.convert_checkpoint(saved, self.step)
            for name, target in self._arrays().items():
                array = arrays[name]
                if array.shape != target.shape or array.dtype != target.dtype or not np.all(np.isfinite(array)):
                    expected = f"{target.shape} finite {target.dtype}"
                    raise ValueError(f"{name} is {array.shape} {array.dtype}, expected {expected}")
                target[...] = backend.asarray(array, like=target)
        except FileError:
            raise
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise FileError(f"{path} is not a whole tinyattn checkpoint: {error}") from None

    def _restore_scalars(self, scalars: dict[str, Any], last: int) -> None:
        """Restore the scalars of a run of `last` steps. Raises ValueError where numbers do not fit each other."""
        for name, kinds in self._SCALARS.items():
            value = scalars[name]
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
            row.setdefault("steps", row["epoch"] * len(self.seen))          # tinyattn 0.1 did not write these two
            row.setdefault("seconds", 0.0)
        if epochs != self.step // len(self.seen) or not all(map(_is_row, self.history)):
            raise ValueError(f"step {self.step} with this history")


def _is_row(row: dict[str, Any]) -> bool:
    """Is this a row that `finish_epoch` writes?"""
    numbers = [row[name] for name in ("epoch", "steps", "loss", "gradient_norm", "seconds", "tokens_per_second")]
    numbers += [] if row["valid"] is None else [row["valid"]]
    return all(type(number) in (int, float) and abs(number) < 1e300 for number in numbers)
