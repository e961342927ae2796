"""Plan, workers, optimiser and the loop. A model is seen only through init, loss and loss_backward."""

from .adam import Moments, adam
from .crew import Crew, WorkerKilledError
from .learner import Learner
from .loop import Batches, DivergedError, InterruptedRunError, Settings, train
from .plan import SLICE_TOKENS, cut, plan
from .workers import Workers

__all__ = [
    "SLICE_TOKENS",
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
    "cut",
    "plan",
    "train",
]
