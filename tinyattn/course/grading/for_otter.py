"""A plugin of otter that grades as `tinyattn course grade` does. No submission runs beside otter."""

from typing import Any

from nbformat import from_dict, writes
from nbformat.v4 import new_code_cell, new_notebook
from otter.plugins import AbstractOtterPlugin

from ...sandbox import Limits
from ..exercise import RIGHT
from .marks import marks_of


class ClosedOff(AbstractOtterPlugin):
    """Otter runs, in the submission's place, a cell with the verdicts; its tests compare each with "right"."""

    def before_execution(self, submission: Any) -> Any:
        """A notebook with the dict `verdicts`, of the exercises that otter_config.json names."""
        limits = Limits(fenced=not self.plugin_config.get("unfenced", False))
        marks = marks_of(writes(from_dict(submission)), self.plugin_config["exercises"], limits)
        verdicts = {name: RIGHT if m["outcome"] == RIGHT else m["verdict"] for name, m in marks.items()}
        return new_notebook(cells=[new_code_cell(f"verdicts = {verdicts!r}")])
