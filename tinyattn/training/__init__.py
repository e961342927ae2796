"""Worker processes, Adam and the training loop. A model gives init, loss, loss_backward, maybe rows_read, undecayed."""

from .adam import Moments, adam
from .adamw import adamw
from .around import DivergedError, InterruptedRunError
from .batch import SLICE_TOKENS, Batch, Batches
from .learner import Learner
from .loop import train
from .processes import ProcessPool, WorkerKilledError
from .schedules import SCHEDULES
from .settings import Settings
from .workers import Workers

__all__ = [
    "SCHEDULES",
    "SLICE_TOKENS",
    "Batch",
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
    "adamw",
    "train",
]
