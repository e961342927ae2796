"""Rows of sequences: what is asked of a trained model is what comes after each history, and that is one row."""

from __future__ import annotations

from ..backend import Array, get_xp


def gather_rows(x: Array, at: Array | None) -> Array:
    """Row `at` of each sequence; x itself where `at` is None. Shapes: x (B, n, D), at (B,) -> (B, 1, D)."""
    return x if at is None else get_xp(x, at).take_along_axis(x, at[:, None, None], axis=1)
