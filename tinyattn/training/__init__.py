"""Workers, optimiser and the loop. A model is seen only through init, loss and loss_backward."""

from .adam import Moments, adam
from .batch import SLICE_TOKENS, Batch, Batches
from .crew import Crew, WorkerKilledError
from .learner import Learner
from .loop import DivergedError, InterruptedRunError, Settings, train
from .workers import Workers

__all__ = [
    "SLICE_TOKENS",
    "Batch",
    "Batches",
    "Crew",
    "DivergedError",
    "InterruptedRunError",
    "Learner",
    "Moments",
    "Settings",
    "WorkerKilledError",
    "Workers",
    "adam",
    "train",
]
