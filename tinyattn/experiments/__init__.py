"""Experiments that anybody can repeat: `tinyattn reproduce NAME`. A new one is a file, and a line in EXPERIMENTS."""

from .experiment import Dataset, Experiment, Results, Row
from .planted import PLANTED
from .running import carry_out, results_of

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (PLANTED,)}

__all__ = ["EXPERIMENTS", "Dataset", "Experiment", "Results", "Row", "carry_out", "results_of"]
