"""The training loop, Adam, Muon and worker processes. `loop.py` lists the methods that a model needs."""

from .adam import Moments, adam
from .adamw import adamw
from .around import DivergedError, DivergedWarning, InterruptedRunError
from .batch import SLICE_TOKENS, Batch, Batches
from .learner import Learner
from .loop import train
from .muon import muon, orthogonal
from .processes import ProcessPool, WorkerKilledError
from .schedules import SCHEDULES
from .settings import Settings
from .workers import Workers

__all__ = ["SCHEDULES", "SLICE_TOKENS", "Batch", "Batches", "DivergedError", "DivergedWarning", "InterruptedRunError",
           "Learner", "Moments", "ProcessPool", "Settings", "WorkerKilledError", "Workers", "adam", "adamw", "muon",
           "orthogonal", "train"]  # fmt: skip
