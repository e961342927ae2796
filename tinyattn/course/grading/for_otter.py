"""A plugin for otter that grades like `tinyattn course grade`. No submission runs in otter's process."""

from typing import Any

from nbformat import from_dict, writes
from nbformat.v4 import new_code_cell, new_notebook
from otter.plugins import AbstractOtterPlugin

from ...sandbox import Limits
from ..exercise import RIGHT
from .marks import marks_of


class ClosedOff(AbstractOtterPlugin):
    """Replaces the submission by a notebook with the verdicts; otter's tests compare each verdict with "right"."""

    def before_execution(self, submission: Any) -> Any:
        """-> a notebook that defines `verdicts`, a dict with the exercises that otter_config.json names."""
        limits = Limits(fenced=not self.plugin_config.get("unfenced", False))
        marks = marks_of(writes(from_dict(submission)), self.plugin_config["exercises"], limits)
        verdicts = {name: RIGHT if m["outcome"] == RIGHT else m["verdict"] for name, m in marks.items()}
        return new_notebook(cells=[new_code_cell(f"verdicts = {verdicts!r}")])
