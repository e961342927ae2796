"""Plan, workers, optimiser, loop and checkpoints. A model is seen only through init, loss and loss_backward."""

from .adam import Moments, adam
from .files import FileError, read_arrays, read_json, write_arrays, write_atomically, write_json
from .loop import Batches, DivergedError, InterruptedRunError, Settings, train
from .plan import cut, plan
from .workers import Workers

__all__ = [
    "Batches",
    "DivergedError",
    "FileError",
    "InterruptedRunError",
    "Moments",
    "Settings",
    "Workers",
    "adam",
    "cut",
    "plan",
    "read_arrays",
    "read_json",
    "train",
    "write_arrays",
    "write_atomically",
    "write_json",
]
