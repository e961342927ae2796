"""The embedding, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("off_by_one", "row id - 1 is read", "Which row is id 0?"),
    Bug("off_by_one_up", "row id + 1 is read", "Which row is id 0?"),
    Bug("pad_zeroed", "row 0 reads as zeros", "Is 0 a row like any other here? Ops know no padding."),
    Bug("last_zeroed", "the last row reads as zeros", "Is the last row a row like any other?"),
    Bug("scaled", "rows are multiplied by √d", "Who scales: the embedding, or the model that reads it?"),
    Bug("normalised", "rows are scaled to length 1", "Compare y with E[id]."),
    Bug("transposed_ids", "the ids' axes come out exchanged", "y[b, t] is row ids[b, t].", also=("transposed_all",)),
    Bug("view", "it returns a view into the table where it can", "Change E afterwards: does y change?"),
    Bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs."),
    Bug("assign", "dE[ids] = dy: one of several readings survives", "The same id appears three times."),
    Bug("fancy_add", "dE[ids] += dy: NumPy adds once, however often an id stands there", "What does a[[2, 2]] += 1 do in NumPy?"),
    Bug("first_reading", "only the first reading of an id counts", "The same id appears three times."),
    Bug("pad_grad_dropped", "row 0 receives no gradient", "Is 0 a row like any other here? Ops know no padding."),
    Bug("mean_repeats", "an id read several times gets the mean", "Total gradient in must equal total out."),
    Bug("mean_all", "dE is divided by the number of ids", "Total gradient in must equal total out."),
    Bug("last_entry", "only the batch's last entry is added", "Every entry read the table.", also=("last_of_first",)),
    Bug("first_entry", "only the batch's first entry is added", "Every entry read the table."),
    Bug("grad_off_by_one", "the gradient goes to row id - 1", "Which row was read?"),
    Bug("sparse_shape", "only the rows that were read are returned", "Gradient shape must equal parameter shape."),
    Bug("per_token", "dE keeps one table a token", "Gradient shape must equal parameter shape."),
    Bug("sign", "dE has the wrong sign", "Move E a little: which way does the loss move?"),
    Bug("count", "dE counts readings and forgets dy", "Every term of a gradient has dy in it once."),
    Bug("uint8_overflow", "ids are multiplied by d in their own integer type", "200 · 3 in uint8 is 88.", noisy=True),
    Bug("backward_changes_table", "the backward writes into the table", "Print E before and after."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> embedding and embedding_backward with these bugs."""

    def embedding(ids, E):
        at = ids.astype(np.int64)
        at = at - 1 if "off_by_one" in bugs else at
        at = (at + 1) % len(E) if "off_by_one_up" in bugs else at
        at = np.swapaxes(at, 0, 1) if "transposed_ids" in bugs and at.ndim > 1 else at
        at = at.T if "transposed_all" in bugs else at
        y = E[at]
        y = E[int(at.reshape(-1)[0])].reshape(*at.shape, -1) if "view" in bugs and at.size == 1 else y
        y = y * (at != 0)[..., None] if "pad_zeroed" in bugs else y
        y = y * (at != len(E) - 1)[..., None] if "last_zeroed" in bugs else y
        y = y * y.dtype.type(np.sqrt(E.shape[1])) if "scaled" in bugs else y
        if "normalised" in bugs:
            y = y / np.maximum(np.sqrt(np.sum(y * y, axis=-1, keepdims=True)), y.dtype.type(1e-12))
        return y.astype(float) if "double_out" in bugs else y

    def embedding_backward(dy, ids, E):
        at, rows = ids.reshape(-1).astype(np.int64), dy.reshape(-1, E.shape[1])
        if "uint8_overflow" in bugs:
            flat = (ids.reshape(-1) * ids.dtype.type(min(E.shape[1], 100))).astype(np.int64)
            at = np.where(flat >= 0, flat // min(E.shape[1], 100), 0)
        at = at - 1 if "grad_off_by_one" in bugs else at
        if ids.ndim > 1 and len(ids) and {"last_entry", "first_entry"} & bugs:
            each = len(at) // len(ids)
            part = slice(len(at) - each, None) if "last_entry" in bugs else slice(None, each)
            at, rows = at[part], rows[part]
        if "last_of_first" in bugs and ids.ndim and len(ids):
            each = len(at) // len(ids)
            at, rows = at[len(at) - each :], rows[len(at) - each :]
        rows = rows * (at != 0)[:, None] if "pad_grad_dropped" in bugs else rows
        dE = np.zeros_like(E)
        if "assign" in bugs:
            dE[at] = rows
        elif "fancy_add" in bugs:
            dE[at] += rows
        elif "first_reading" in bugs:
            dE[at[::-1]] = rows[::-1]
        else:
            np.add.at(dE, at, np.ones_like(rows) if "count" in bugs else rows)
        counts = np.bincount(at % max(len(E), 1), minlength=len(E))[:, None] if len(at) else np.ones((len(E), 1))
        dE = dE / np.maximum(counts, 1).astype(E.dtype) if "mean_repeats" in bugs else dE
        dE = dE / E.dtype.type(max(len(at), 1)) if "mean_all" in bugs else dE
        dE = -dE if "sign" in bugs else dE
        if "sparse_shape" in bugs:
            return dE[np.unique(at)]
        if "per_token" in bugs:
            return np.eye(len(E), dtype=E.dtype)[at][:, :, None] * rows[:, None, :]
        in_place(np.multiply, E, 0.5, "backward_changes_table" in bugs)
        return dE

    return SimpleNamespace(embedding=embedding, embedding_backward=embedding_backward)
