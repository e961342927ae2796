"""The course: chapters that are notebooks, and exercises that answer at once.

check("my_softmax_backward", my_softmax_backward)     is my answer right? if not, where, and a hint
show_arrays(q=q, s=s)                                 arrays with names and shapes
table("d_k | std", rows)                              numbers under their heads
show_figure(fig, "scores", "...")                      a figure in a notebook, the same bytes every time

`tinyattn course list` names the chapters and exercises, `tinyattn course build --to DIR` writes the notebooks.
"""

from .checking import check
from .exercise import Exercise, Verdict
from .figures import Picture, show_figure
from .tables import Text, show_arrays, table

__all__ = ["Exercise", "Picture", "Text", "Verdict", "check", "show_arrays", "show_figure", "table"]
