"""Experiments that anybody can repeat: `tinyattn reproduce NAME`. A new one is a file, and a line in EXPERIMENTS."""

from .ablations import ABLATED
from .awrsr import AWRSR
from .density import DENSITY
from .experiment import Dataset, Experiment, Results, Row, TaskData
from .full import FULL
from .kinds import KINDS_OF_MODELS
from .mixers import MIXED
from .planted import PLANTED
from .running import carry_out, results_of
from .sampled import SAMPLED
from .speed import SPEED
from .splits import SPLIT

EXPERIMENTS = {
    each.name: each for each in (PLANTED, SAMPLED, FULL, ABLATED, DENSITY, SPLIT, MIXED, SPEED, AWRSR, KINDS_OF_MODELS)
}

__all__ = ["EXPERIMENTS", "Dataset", "Experiment", "Results", "Row", "TaskData", "carry_out", "results_of"]
