"""The linear map written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "W_transposed": ("loops",),
    "no_bias": ("loops",),
    "bias_axis": ("loops",),
    "single_in_double": ("loops",),
    "dW_last": ("loops",),
    "dW_mean": ("loops",),
    "db_mean": ("loops",),
    "db_batch": ("loops",),
    "dx_noT": ("loops",),
    "db_last": ("loops",),
    "bias_lost_for_vectors": ("loops",),
    "bias_widens": ("loops",),
    "fortran_order": ("loops",),
    "overwrites_x": ("einsum", "inplace"),
    "accumulates_in_b": ("loops",),
    "tail_block": ("loops",),
    "empty_lead": ("loops",),
    "dW_transposed": ("loops",),
    "vector_db_scalar": ("loops",),
    "db_view": ("einsum", "inplace"),
    "db_one_axis": ("loops",),
    "dW_batch_of_one": ("einsum", "inplace"),
    "shared_buffer": ("loops",),
}

INVENTED = {
    "bias_lost_for_vectors": "an x without leading axes gets no bias",
    "bias_widens": "with a bias, float32 inputs give a float64 result",
    "fortran_order": "rows are cut in memory order, which is wrong for Fortran-ordered x only",
    "overwrites_x": "y is written over the caller's x where shapes agree and x can be written to",
    "accumulates_in_b": "an x without leading axes is accumulated in the caller's b, where that can be written to",
    "tail_block": "rows are taken four at a time and a last incomplete block stays without its product",
    "empty_lead": "leading axes of size 0 raise",
    "dW_transposed": "dW is returned as (o, i)",
    "vector_db_scalar": "without leading axes db sums over the features and is a scalar",
    "db_view": "for a single row db is a view of dy",
    "db_one_axis": "db is summed over the first axis only: wrong for two or more leading axes",
    "dW_batch_of_one": "dW is summed over all leading axes but the first, whose first entry alone is taken",
    "shared_buffer": "results live in a buffer that the next call of the same shape overwrites",
}


def make(style, bug=None):
    """-> a namespace with linear and linear_backward; with `bug`, wrong in exactly that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(linear=forward, linear_backward=backward)


def _memory_order(x):
    """The rows as they lie in memory, in the shape of x."""
    return x.reshape(-1, x.shape[-1], order="A").reshape(x.shape) if x.size else x


def _loops(bug):
    """One scalar product at a time, with exact sums."""
    kept = {}

    def linear(x, W, b=None):
        lead, (i, o), dtype = x.shape[:-1], W.shape, x.dtype
        if bug == "empty_lead":
            np.stack([x[k] for k in np.ndindex(*lead)])
        if bug == "fortran_order":
            x = _memory_order(x)
        if bug == "single_in_double":
            x, W = x.astype(np.float32), W.astype(np.float32)
        columns = W.T.tolist()
        if bug == "W_transposed" and i == o:
            columns = W.tolist()
        offset = [0.0] * o if b is None or bug == "no_bias" else b.tolist()
        if bug == "bias_lost_for_vectors" and not lead:
            offset = [0.0] * o
        y = np.empty((*lead, o), np.float32 if bug == "single_in_double" else np.float64)
        total = math.prod(lead)
        for number, k in enumerate(np.ndindex(*lead)):
            row = x[k].tolist()
            if bug == "tail_block" and number >= total - total % 4 > 0:
                row = [0.0] * i
            for j, column in enumerate(columns):
                shift = offset[j]
                if bug == "bias_axis" and lead and lead[-1] == o:
                    shift = offset[k[-1]]
                y[(*k, j)] = math.fsum([v * w for v, w in zip(row, column, strict=True)] + [shift])
        if bug == "accumulates_in_b" and not lead and b is not None and b.flags.writeable:
            b[...] = y
        if bug == "bias_widens" and b is not None:
            return y
        y = y.astype(dtype)
        if bug == "shared_buffer":
            kept.setdefault((y.shape, dtype), np.empty_like(y))[...] = y
            return kept[y.shape, dtype]
        return y

    def linear_backward(dy, x, W):
        lead, (i, o), dtype = x.shape[:-1], W.shape, x.dtype
        weights = W.tolist()
        if bug == "dx_noT" and i == o:
            weights = W.T.tolist()
        tokens = [(k, dy[k].tolist(), x[k].tolist()) for k in np.ndindex(*lead)]
        count = max(len(tokens), 1)
        dx = np.empty(x.shape, dtype)
        for k, up, _ in tokens:
            for a in range(i):
                dx[(*k, a)] = math.fsum(u * w for u, w in zip(up, weights[a], strict=True))

        def counts(k):
            return not lead or k[0] == lead[0] - 1

        dW = np.zeros((i, o), dtype)
        for a in range(i):
            for c in range(o):
                terms = [r[a] * u[c] for k, u, r in tokens if bug != "dW_last" or counts(k)]
                dW[a, c] = math.fsum(terms) / count if bug == "dW_mean" else math.fsum(terms)
        db = np.zeros(o, dtype)
        for c in range(o):
            terms = [u[c] for k, u, _ in tokens if bug != "db_last" or counts(k)]
            db[c] = math.fsum(terms) / count if bug == "db_mean" else math.fsum(terms)
        if bug == "dW_transposed":
            dW = dW.T.copy()
        if bug == "vector_db_scalar" and not lead:
            db = np.array(math.fsum(db.tolist()), dtype)
        if bug == "db_batch" and lead:
            db = dy.astype(np.float64).sum(axis=-2 if len(lead) > 1 else ()).astype(dtype)
        if bug == "db_one_axis" and lead:
            db = dy.astype(np.float64).sum(axis=0).astype(dtype)
        return dx, dW, db

    return linear, linear_backward


def _einsum(bug):
    """The bias as one more row of the weights, met by one more feature that is always 1."""

    def augment(x):
        return np.concatenate([x, np.ones((*x.shape[:-1], 1), x.dtype)], axis=-1)

    def linear(x, W, b=None):
        dtype, (_i, o), target = (x.dtype, W.shape, x)
        bias = np.zeros(o, W.dtype) if b is None else b.astype(W.dtype)
        y = np.einsum("...i,io->...o", augment(x), np.concatenate([W, bias[None]]))
        if bug == "overwrites_x" and target.shape == y.shape and target.flags.writeable:
            target[...] = y
            return target
        return y.astype(dtype)

    def linear_backward(dy, x, W):
        lead = tuple(range(x.ndim - 1))
        both = np.tensordot(augment(x), dy, axes=(lead, lead))
        dW, db = (both[:-1].copy(), both[-1].copy())
        count = max(math.prod(x.shape[:-1]), 1)
        dx = np.einsum("...o,io->...i", dy, W)
        if bug == "dW_batch_of_one" and len(lead) > 1:
            dW = np.tensordot(x[:1], dy[:1], axes=(lead, lead))
        if bug == "db_view" and count == 1 and dy.size:
            db = dy.reshape(W.shape[1])
        return (dx, dW, db)

    return (linear, linear_backward)


def _inplace(bug):
    """A sum of rank-one products, added feature by feature to a float64 accumulator."""

    def linear(x, W, b=None):
        (i, o), dtype, target = (W.shape, x.dtype, x)
        inside = np.float64
        y = np.zeros((*x.shape[:-1], o), inside)
        term = np.empty_like(y)
        for k in range(i):
            np.multiply(x[..., k : k + 1].astype(inside), W[k].astype(inside), out=term)
            y += term
        if b is not None:
            y += b
        y = y.astype(dtype)
        if bug == "overwrites_x" and target.shape == y.shape and target.flags.writeable:
            np.copyto(target, y)
            return target
        return y

    def linear_backward(dy, x, W):
        (i, o), lead, dtype = (W.shape, x.shape[:-1], x.dtype)
        rows = math.prod(lead)
        first = lead and bug == "dW_batch_of_one" and (len(lead) > 1)
        up = np.array(dy, dtype=np.float64, order="C").reshape(rows, o)
        seen = np.array(x, dtype=np.float64, order="C").reshape(rows, i)
        dx, dW, db = (np.zeros((rows, i)), np.zeros((i, o)), np.zeros(o))
        term = np.empty_like(dx)
        for c in range(o):
            weights = W[:, c]
            np.multiply(up[:, c : c + 1], weights, out=term)
            dx += term
        batch = rows // lead[0] if lead and lead[0] else rows
        update = np.empty_like(dW)
        for r in range(rows):
            if not (first and r >= batch):
                np.multiply(seen[r][:, None], up[r], out=update)
                dW += update
            db += up[r]
        dx, dW, db = (dx.reshape(x.shape).astype(dtype), dW.astype(dtype), db.astype(dtype))
        if bug == "db_view" and rows == 1:
            db = dy.reshape(o)
        return (dx, dW, db)

    return (linear, linear_backward)
