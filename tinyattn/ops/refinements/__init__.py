"""Refinements: scores of attention made from scores of attention (AWRSR; Liu et al. 2024), a file a mechanism."""

from .add import refine_add, refine_add_backward
from .simp import refine_simp, refine_simp_backward
from .stoc import refine_stoc, refine_stoc_backward
from .value import refine_value, refine_value_backward
from .value_literal import refine_value_literal, refine_value_literal_backward
from .value_rows import refine_value_rows, refine_value_rows_backward

__all__ = [
    "refine_add",
    "refine_add_backward",
    "refine_simp",
    "refine_simp_backward",
    "refine_stoc",
    "refine_stoc_backward",
    "refine_value",
    "refine_value_backward",
    "refine_value_literal",
    "refine_value_literal_backward",
    "refine_value_rows",
    "refine_value_rows_backward",
]
