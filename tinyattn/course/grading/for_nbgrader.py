"""A preprocessor of nbgrader that grades as `tinyattn course grade` does. No submission runs beside nbgrader."""

from typing import Any

from nbformat import writes
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Bool

from ...sandbox import Limits
from ..exercise import RIGHT
from ..exercises import BY_NAME
from .marks import marks_of


class ClosedOff(NbGraderPreprocessor):
    """Fills the outputs of the cells that give points; nbgrader takes the points from there."""

    unfenced = Bool(False, help="also where the system cannot close off the answers' processes").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Raises ValueError for a cell that gives points by itself and is no exercise of the course."""
        tests = {cell.metadata.nbgrader.grade_id: cell for cell in nb.cells if is_grade(cell) and not is_solution(cell)}
        if alien := tests.keys() - BY_NAME.keys():
            raise ValueError(f"{', '.join(sorted(alien))}: no exercise of the course, and nothing else is run here; to "
                             "run all cells, with no protection, take ClosedOff out of nbgrader_config.py")
        marks = marks_of(writes(nb), list(tests), Limits(fenced=not self.unfenced))
        for name, cell in tests.items():
            mark = marks[name]
            cell.execution_count = 1
            cell.outputs = [
                new_output("stream", name="stdout", text=f"{name}: {mark['verdict']}\n"),
                new_output("execute_result", {"text/plain": str(mark["points"])}, execution_count=1),
            ]
            if mark["outcome"] != RIGHT:
                cell.outputs[1:] = [new_output("error", ename="NotRight", evalue=mark["verdict"], traceback=[])]
        return nb, resources
