"""Experiments that anybody can repeat: `tinyattn reproduce NAME`. A new one is a module here, in EXPERIMENTS."""

from . import ablations, awrsr, bugs, density, full, hstu, kinds, mixers, planted, sampled, speed, splits
from .awrsr import depth, settings
from .experiment import Dataset, Experiment, Results, Row, TaskData
from .running import carry_out, results_of, with_remarks

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        planted, sampled, full, ablations, density, splits, hstu, mixers, speed, settings, awrsr, depth, kinds, bugs
    )
}  # fmt: skip

__all__ = [
    "EXPERIMENTS", "Dataset", "Experiment", "Results", "Row", "TaskData", "carry_out", "results_of", "with_remarks",
]  # fmt: skip
