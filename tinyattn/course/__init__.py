"""The course: chapters that are notebooks, and exercises that answer at once.

check("my_softmax_backward", my_softmax_backward)     is my answer right? if not: where is it wrong, on request why
yours("my_softmax_backward")                          the reader's accepted answer, or the library's function
with your_ops(): model.fit(data)                       a model computes with the accepted answers
buggy("nothing_leaks")                                a function with the bug that a property must find
show_arrays(q=q, s=s)                                 arrays with names and shapes
table("d_k | std", rows)                              a table of numbers
show_figure(fig, "scores", "...")                      a figure in a notebook, the same bytes every time
page_part("sasrec", "block")                           the source of functions of a page in tinyattn.pages
road(3)                                               the map of all chapters, with chapter 03 marked

`tinyattn course list` names the chapters and exercises, `tinyattn course build --to DIR` writes the notebooks,
`tinyattn course status DIR` shows a learner's progress, `tinyattn course grade DIR` grades a class.
"""

from .checking import buggy, check, yours
from .exercise import Exercise, Verdict
from .figures import Picture, show_figure
from .road import road, road_map
from .substitutes import your_ops
from .tables import Text, page_part, show_arrays, table

__all__ = [
    "Exercise", "Picture", "Text", "Verdict", "buggy", "check", "page_part", "road", "road_map", "show_arrays",
    "show_figure", "table", "your_ops", "yours",
]  # fmt: skip
