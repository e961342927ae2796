"""The course: chapters that are notebooks, and exercises that answer at once.

check("my_softmax_backward", my_softmax_backward)     is my answer right? if not, where, and a hint
look(q=q, s=s)                                        arrays with names and shapes
table("d_k | std", rows)                              numbers under their heads
picture(made, "scores", "...")                        a figure in a notebook, the same bytes every time

`tinyattn course list` names the chapters and exercises, `tinyattn course build --to DIR` writes the notebooks.
"""

from .checking import check
from .exercise import Exercise, Verdict
from .picture import Picture, picture
from .tables import Text, look, table

__all__ = ["Exercise", "Picture", "Text", "Verdict", "check", "look", "picture", "table"]
