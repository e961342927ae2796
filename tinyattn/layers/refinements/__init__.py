"""The refinements, by name: transformations of scores before their softmax (AWRSR; Liu et al. 2024)."""

from .add import Add
from .none import NoRefinement
from .refinement import Refinement, pairs_allowed
from .simp import Simp
from .stoc import Stoc
from .value import Value
from .value_literal import ValueLiteral
from .value_rows import ValueRows

REFINEMENTS: dict[str, type[Refinement]] = {
    "none": NoRefinement,
    "simp": Simp,
    "add": Add,
    "value": Value,
    "value-rows": ValueRows,
    "value-literal": ValueLiteral,
    "stoc": Stoc,
}

__all__ = ["REFINEMENTS", "Refinement", "pairs_allowed", *(kind.__name__ for kind in REFINEMENTS.values())]
