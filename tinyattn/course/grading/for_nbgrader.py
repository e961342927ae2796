"""A preprocessor for nbgrader that grades like `tinyattn course grade`. No submission runs in nbgrader's process."""

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
    """Writes the outputs of the cells that give points, from which nbgrader reads the points."""

    unfenced = Bool(False, help="grade even where the system cannot close off answers' processes").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Raises ValueError if a cell that gives points is not an exercise of the course."""
        tests = {cell.metadata.nbgrader.grade_id: cell for cell in nb.cells if is_grade(cell) and not is_solution(cell)}
        if alien := tests.keys() - BY_NAME.keys():
            raise ValueError(f"{', '.join(sorted(alien))}: not exercises of the course, so they cannot be graded here. "
                             "To run all cells without protection, take ClosedOff out of nbgrader_config.py")
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
