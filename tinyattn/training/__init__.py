"""Slices, worker processes, Adam and the training loop. A model gives init, loss, loss_backward, rows_read."""

from .adam import Moments, adam
from .learner import Learner
from .loop import Batches, DivergedError, InterruptedRunError, Settings, train
from .plan import SLICE_TOKENS, cut, plan
from .processes import ProcessPool, WorkerKilledError
from .workers import Workers

__all__ = [
    "SLICE_TOKENS",
    "Batches",
    "DivergedError",
    "InterruptedRunError",
    "Learner",
    "Moments",
    "ProcessPool",
    "Settings",
    "WorkerKilledError",
    "Workers",
    "adam",
    "cut",
    "plan",
    "train",
]
