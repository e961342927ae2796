"""The embedding written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "off_by_one": ("loops",),
    "pad_zeroed": ("loops",),
    "scaled": ("loops",),
    "transposed_ids": ("loops",),
    "view": ("loops",),
    "assign": ("loops",),
    "fancy_add": ("loops",),
    "pad_grad_dropped": ("loops",),
    "mean_repeats": ("loops",),
    "uint8_overflow": ("loops",),
    "last_entry": ("loops",),
    "sparse_shape": ("loops",),
    "flat_output": ("loops",),
    "scalar_ids": ("einsum", "inplace"),
    "ids_as_int8": ("loops",),
    "max_norm": ("loops",),
    "widened": ("loops",),
    "fortran_ids": ("loops",),
    "zeroes_row_0_of_E": ("einsum", "inplace"),
    "row_repeats_lost": ("loops",),
    "last_row_dropped": ("loops",),
    "short_table": ("loops",),
    "scaled_gradient": ("loops",),
    "starts_from_E": ("loops",),
    "accumulates": ("loops",),
    "mean_over_tokens": ("einsum", "inplace"),
    "single_sums": ("einsum", "inplace"),
}

INVENTED = {
    "flat_output": "ids of two or more axes give one row per id, in a single axis",
    "scalar_ids": "ids without axes give a result with an axis of size 1",
    "ids_as_int8": "ids go through int8: wrong from 128 on",
    "max_norm": "rows longer than 1 are read as scaled to length 1",
    "widened": "float32 tables give float64 results",
    "fortran_ids": "ids are read in memory order, which is wrong for Fortran-ordered ids only",
    "zeroes_row_0_of_E": "row 0 of the caller's E is set to zero, where that can be written to",
    "row_repeats_lost": "an id repeated along the last axis counts once there; repeats across leading axes are summed",
    "last_row_dropped": "the last row of the table gets no gradient",
    "short_table": "dE ends with the largest id that was read",
    "scaled_gradient": "dE is multiplied by sqrt(d)",
    "starts_from_E": "the sums start from E, not from zero",
    "accumulates": "dE is kept between calls of the same shape and never cleared",
    "mean_over_tokens": "dE is divided by the number of ids",
    "single_sums": "float64 gradients are summed in float32",
}


def make(style, bug=None):
    """-> a namespace with embedding and embedding_backward; with `bug`, wrong in exactly that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(embedding=forward, embedding_backward=backward)


def _read_ids(bug, ids):
    """The ids as the forward reads them."""
    if bug == "transposed_ids":
        ids = ids.T
    if bug == "fortran_ids":
        ids = ids.reshape(-1, order="A").reshape(ids.shape)
    if bug == "ids_as_int8":
        ids = ids.astype(np.int8)
    return ids


def _loops(bug):
    """One id at a time; the gradients of every row are collected in a list and summed exactly."""
    kept = {}

    def embedding(ids, E):
        d = E.shape[1]
        if bug == "view" and ids.size:
            flat = ids.reshape(-1).tolist()
            if flat == list(range(flat[0], flat[0] + len(flat))) and E.flags.c_contiguous:
                return E[flat[0] : flat[-1] + 1].reshape(*ids.shape, d)
        ids = _read_ids(bug, ids)
        y = np.empty((*ids.shape, d), np.float64 if bug == "widened" else E.dtype)
        for k in np.ndindex(*ids.shape):
            v = int(ids[k])
            if bug == "off_by_one":
                v -= 1
            for j in range(d):
                y[(*k, j)] = E[v, j]
                if bug == "scaled":
                    y[(*k, j)] = E[v, j].item() * math.sqrt(d)
            if bug == "pad_zeroed" and v == 0:
                y[k] = 0
            if bug == "max_norm" and math.hypot(*E[v].tolist()) > 1:
                y[k] = [a / math.hypot(*E[v].tolist()) for a in E[v].tolist()]
        return y.reshape(ids.size, d) if bug == "flat_output" else y

    def embedding_backward(dy, ids, E):
        V, d = E.shape
        terms = [[] for _ in range(V)]
        grown = 0
        if bug == "uint8_overflow":  # keys to sort by: first the id, then its position
            keys = ids.reshape(-1) * max(ids.size, 1) + np.arange(ids.size, dtype=ids.dtype)
            sorted_back = iter((keys.astype(np.int64) // max(ids.size, 1) % V).tolist())
        for k in np.ndindex(*ids.shape):
            v = int(ids[k]) if bug != "uint8_overflow" else next(sorted_back)
            if (bug == "last_entry" and k and k[0] < ids.shape[0] - 1) or (bug == "pad_grad_dropped" and v == 0):
                continue
            if bug == "last_row_dropped" and v == V - 1:
                continue
            if bug in ("assign", "fancy_add"):
                terms[v].clear()
            if bug == "row_repeats_lost" and k and int(np.flatnonzero(ids[k[:-1]] == ids[k])[-1]) != k[-1]:
                continue
            grown = max(grown, v + 1)
            terms[v].append(dy[k].tolist())
        if bug == "sparse_shape":
            terms = [rows for v, rows in enumerate(terms) if v in set(ids.reshape(-1).tolist())]
        if bug == "short_table":
            terms = terms[:grown]
        dE = np.zeros((len(terms), d), E.dtype)
        for v, rows in enumerate(terms):
            for j in range(d if rows else 0):
                total = math.fsum(row[j] for row in rows)
                if bug == "mean_repeats":
                    total /= len(rows)
                if bug == "scaled_gradient":
                    total *= math.sqrt(d)
                dE[v, j] = total
        if bug == "starts_from_E":
            dE += E
        if bug == "accumulates":
            dE = kept[V, d] = dE + kept.get((V, d), np.zeros((V, d), E.dtype)).astype(E.dtype)
            return dE.copy()
        return dE

    return embedding, embedding_backward


def _einsum(bug):
    """Ids as one-hot rows: reading the table is a product with them, and so is its gradient."""

    def one_hot(ids, V, dtype):
        return (ids[..., None] == np.arange(V)).astype(dtype)

    def embedding(ids, E):
        V, _d = E.shape
        wide = ids.astype(np.int64)
        if bug == "scalar_ids":
            wide = np.atleast_1d(wide)
        if bug == "zeroes_row_0_of_E" and E.flags.writeable:
            E[:1] = 0
        table = E
        y = np.einsum("...v,vd->...d", one_hot(wide, V, E.dtype), table)
        return y

    def embedding_backward(dy, ids, E):
        V, d = E.shape
        hot = one_hot(ids, V, dy.dtype).reshape(ids.size, V)
        up = dy.reshape(ids.size, d)
        if bug == "single_sums":
            hot, up = (hot.astype(np.float32), up.astype(np.float32))
        if bug == "mean_over_tokens":
            hot = hot / max(ids.size, 1)
        dE = np.einsum("nv,nd->vd", hot.astype(up.dtype), up).astype(E.dtype)
        return dE

    return (embedding, embedding_backward)


def _inplace(bug):
    """Gathering into a buffer with `take`; the gradient by a weighted count of the ids, column by column."""

    def embedding(ids, E):
        V, d = E.shape
        places = _read_ids(bug, ids).astype(np.intp)
        if bug == "zeroes_row_0_of_E" and E.flags.writeable:
            np.multiply(E[0], 0, out=E[0])
        places %= V
        if bug == "scalar_ids":
            places = places.reshape(places.shape or 1)
        y = np.empty((*places.shape, d), E.dtype)
        np.take(E, places, axis=0, out=y, mode="clip")
        return y

    def embedding_backward(dy, ids, E):
        V, d = E.shape
        up = np.array(dy, dtype=np.float64, order="C").reshape(ids.size, d)
        places = ids.reshape(-1).astype(np.intp)
        if bug == "single_sums":
            dE = np.zeros((V, d), np.float32)
            np.add.at(dE, places, up.astype(np.float32))
            return dE.astype(E.dtype)
        dE = np.empty((V, d))
        for j in range(d):
            dE[:, j] = np.bincount(places, weights=up[:, j], minlength=len(dE))
        if bug == "mean_over_tokens":
            dE /= max(ids.size, 1)
        return dE.astype(E.dtype)

    return (embedding, embedding_backward)
