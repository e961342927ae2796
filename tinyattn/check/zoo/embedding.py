"""The embedding, and its known bugs."""

import numpy as np

from .bug import bug, entry, in_place, planted


def embedding(ids, E):
    at = ids.astype(np.int64)
    y = E[at]
    return y


def embedding_backward(dy, ids, E):
    flat, given = ids.astype(np.int64), dy
    flat, given = flat.reshape(-1), given.reshape(-1, E.shape[1])
    dE = np.zeros_like(E)
    np.add.at(dE, flat, given)
    return dE


_AT, _Y, _ADD, _DE = "at = ids.astype(np.int64) -> at = {}", "y = E[at] -> y = {}", "np.add.at(dE, flat, given) -> {}", "return dE -> return {}"
_READ, _THREE, _MASS = "flat, given = ids.astype(np.int64), dy -> flat, given = {}", "The same id appears three times.", "Total gradient in must equal total out."
_ROW_0 = "Is 0 a row like any other here? Ops know no padding."

BUGS, make = planted(__name__, [
    bug("off_by_one", "row id - 1 is read", "Which row is id 0?", _AT.format("ids.astype(np.int64) - 1")),
    bug("off_by_one_up", "row id + 1 is read", "Which row is id 0?", _AT.format("(ids.astype(np.int64) + 1) % len(E)")),
    bug("pad_zeroed", "row 0 reads as zeros", _ROW_0, _Y.format("E[at] * (at != 0)[..., None]")),
    bug("last_zeroed", "the last row reads as zeros", "Is the last row a row like any other?", _Y.format("E[at] * (at != len(E) - 1)[..., None]")),
    bug("scaled", "rows are multiplied by √d", "Who scales: the embedding, or the model that reads it?", _Y.format("E[at] * E.dtype.type(np.sqrt(E.shape[1]))")),
    bug("normalised", "rows are scaled to length 1", "Compare y with E[id].", "return y -> return y / np.maximum(np.sqrt(np.sum(y * y, axis=-1, keepdims=True)), y.dtype.type(1e-12))"),
    bug("transposed_ids", "the ids' axes come out exchanged", "y[b, t] is row ids[b, t].", _Y.format("E[np.swapaxes(at, 0, 1) if at.ndim > 1 else at]"), {"transposed_all": _Y.format("E[at.T]")}),
    bug("view", "it returns a view into the table where it can", "Change E afterwards: does y change?", _Y.format("E[int(at.reshape(-1)[0])].reshape(*at.shape, -1) if at.size == 1 else E[at]")),
    bug("double_out", "the result is always float64", "Print y.dtype for float32 inputs.", "return y -> return y.astype(float)"),
    bug("assign", "dE[ids] = dy: one of several readings survives", _THREE, _ADD.format("dE[flat] = given")),
    bug("fancy_add", "dE[ids] += dy: NumPy adds once, however often an id stands there", "What does a[[2, 2]] += 1 do in NumPy?", _ADD.format("dE[flat] += given")),
    bug("first_reading", "only the first reading of an id counts", _THREE, _ADD.format("dE[flat[::-1]] = given[::-1]")),
    bug("pad_grad_dropped", "row 0 receives no gradient", _ROW_0, _ADD.format("np.add.at(dE, flat, given * (flat != 0)[:, None])")),
    bug("mean_repeats", "an id read several times gets the mean", _MASS, _DE.format("dE / np.maximum(np.bincount(flat, minlength=len(E))[:, None], 1).astype(E.dtype)")),
    bug("mean_all", "dE is divided by the number of ids", _MASS, _DE.format("dE / E.dtype.type(max(len(flat), 1))")),
    bug("last_entry", "only the batch's last entry is added", "Every entry read the table.", _READ.format("entry(ids.astype(np.int64), -1, 1), entry(dy, -1, 2)"),
        {"last_of_first": _READ.format("entry(ids.astype(np.int64), -1, 0), entry(dy, -1, 1)")}),
    bug("first_entry", "only the batch's first entry is added", "Every entry read the table.", _READ.format("entry(ids.astype(np.int64), 0, 1), entry(dy, 0, 2)")),
    bug("grad_off_by_one", "the gradient goes to row id - 1", "Which row was read?", _ADD.format("np.add.at(dE, flat - 1, given)")),
    bug("sparse_shape", "only the rows that were read are returned", "Gradient shape must equal parameter shape.", _DE.format("dE[np.unique(flat)]")),
    bug("per_token", "dE keeps one table a token", "Gradient shape must equal parameter shape.", _DE.format("np.eye(len(E), dtype=E.dtype)[flat][:, :, None] * given[:, None, :]")),
    bug("sign", "dE has the wrong sign", "Move E a little: which way does the loss move?", _DE.format("-dE")),
    bug("count", "dE counts readings and forgets dy", "Every term of a gradient has dy in it once.", _ADD.format("np.add.at(dE, flat, np.ones_like(given))")),
    bug("uint8_overflow", "ids are multiplied by d in their own integer type", "200 · 3 in uint8 is 88.",
        _READ.format("(ids * ids.dtype.type(min(E.shape[1], 100))).astype(np.int64), dy; flat = np.where(flat >= 0, flat // min(E.shape[1], 100), 0)"), noisy=True),
    bug("backward_changes_table", "the backward writes into the table", "Print E before and after.", "return dE -> in_place(np.multiply, E, 0.5); return dE"),
])  # fmt: skip
