"""Single rows of sequences, for inference; and the rows of a table that a batch reads."""

from ..backend import Array, get_xp
from ..forms import replaceable
from ..ops import embedding_backward
from ..tree import Rows


def gather_rows(x: Array, at: Array | None) -> Array:
    """Row `at` of each sequence; x itself where `at` is None. Shapes: x (B, n, D), at (B,) -> (B, 1, D)."""
    return x if at is None else get_xp(x, at).take_along_axis(x, at[:, None, None], axis=1)


@replaceable
def table_gradient(ids: Array, dy: Array, E: Array) -> Rows | Array:
    """The gradient of a table that was read at `ids`. The faster form returns only the rows that were read.

    Shapes: ids (...), dy (..., d), E (V, d) -> dE (V, d), or `Rows`.
    """
    return embedding_backward(dy, ids, E)
