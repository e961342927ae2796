"""Properties of the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from .property import close, rounding, same_bits, states


def _dy(ids: np.ndarray, E: np.ndarray) -> np.ndarray:
    shape = (*ids.shape, E.shape[1])
    return np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(E.dtype)


@states("embedding", "exact", "y[...] is row ids[...] of the table")
def picks_rows(ops: Any, ids: np.ndarray, E: np.ndarray) -> None:
    same_bits(ops.embedding(ids, E), E[ids.astype(np.int64)], "output")


@states("embedding", "rounding", "all gradient that comes in goes out: the columns of dE and of dy have the same sums")
def total_mass(ops: Any, ids: np.ndarray, E: np.ndarray) -> None:
    dy = _dy(ids, E)
    dE = ops.embedding_backward(dy, ids, E)
    close(
        np.sum(dE, axis=0), np.sum(dy.reshape(-1, E.shape[1]), axis=0), rounding(E.dtype, ids.size, 2.0), "column sum"
    )


@states("embedding", "exact", "rows never read have gradient 0")
def unread_rows(ops: Any, ids: np.ndarray, E: np.ndarray) -> None:
    dE = ops.embedding_backward(_dy(ids, E), ids, E)
    unread = np.setdiff1d(np.arange(len(E)), ids)
    assert np.all(dE[unread] == 0), "a row that was never read has a gradient"


@states("embedding", "rounding", "the order in which ids were read does not matter")
def order(ops: Any, ids: np.ndarray, E: np.ndarray) -> None:
    dy = _dy(ids, E).reshape(-1, E.shape[1])
    flat = ids.reshape(-1)
    close(
        ops.embedding_backward(dy[::-1], flat[::-1], E),
        ops.embedding_backward(dy, flat, E),
        rounding(E.dtype, ids.size, 2.0),
        "dE",
    )
