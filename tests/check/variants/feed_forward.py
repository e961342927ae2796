"""The position-wise feed-forward network written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "no_activation": ("loops",),
    "gelu_instead": ("loops",),
    "activation_after": ("loops",),
    "across_positions": ("loops",),
    "no_b2": ("loops",),
    "b1_after_relu": ("loops",),
    "no_relu_mask": ("loops",),
    "mask_from_output": ("loops",),
    "dW1_from_hidden": ("loops",),
    "db_mean": ("loops",),
    "leaky": ("loops",),
    "clip_6": ("loops",),
    "dropout_left_on": ("loops",),
    "fortran_order": ("loops",),
    "single_in_double": ("einsum", "inplace"),
    "widened": ("loops",),
    "writes_b1": ("einsum", "inplace"),
    "residual_in_backward": ("loops",),
    "dW2_from_preactivation": ("loops",),
    "db1_unmasked": ("loops",),
    "mask_without_b1": ("loops",),
    "db2_one_axis": ("loops",),
    "dW_last": ("loops",),
    "remembers_hidden": ("loops",),
}

INVENTED = {
    "leaky": "the hidden layer's negative entries are multiplied by 0.01, not cleared",
    "clip_6": "the hidden layer is cut off at 6",
    "dropout_left_on": "a fifth of the hidden units is dropped, other ones at every call",
    "fortran_order": "rows are cut in memory order, which is wrong for Fortran-ordered x only",
    "single_in_double": "float64 inputs are computed in float32",
    "widened": "float32 inputs give float64 results",
    "writes_b1": "without leading axes the hidden layer overwrites the caller's b_1, where that can be written to",
    "residual_in_backward": "dx also receives dy, as if there were a residual, where shapes agree",
    "dW2_from_preactivation": "dW_2 takes the hidden layer before its ReLU",
    "db1_unmasked": "db_1 sums the hidden gradient before the ReLU's mask",
    "mask_without_b1": "the backward's mask is that of x W_1, without b_1",
    "db2_one_axis": "db_2 is summed over the first axis only: wrong for two or more leading axes",
    "dW_last": "dW_1 and dW_2 see the last entry of the first axis only",
    "remembers_hidden": "the backward uses the hidden layer of the latest forward, where shapes agree",
}


def make(style, bug=None):
    """-> a namespace with feed_forward and feed_forward_backward; with `bug`, wrong in exactly that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(feed_forward=forward, feed_forward_backward=backward)


def _loops(bug):
    """One token, one unit at a time."""
    latest, calls = {}, [0]

    def active(v):
        if bug == "no_activation":
            return v
        if bug == "gelu_instead":
            return 0.5 * v * math.erfc(-v / math.sqrt(2))
        if bug == "leaky":
            return v if v > 0 else 0.01 * v
        if bug == "clip_6":
            return min(max(v, 0.0), 6.0)
        return max(v, 0.0)

    def apply(row, columns, offset):
        return [math.fsum([v * w for v, w in zip(row, c, strict=True)] + [b])
                for c, b in zip(columns, offset, strict=True)]  # fmt: skip

    def hidden(row, W_1, b_1):
        """-> a token's hidden layer before and after its activation."""
        if bug == "b1_after_relu":
            u = apply(row, W_1.T.tolist(), [0.0] * len(b_1))
            return u, [active(v) + b for v, b in zip(u, b_1.tolist(), strict=True)]
        u = apply(row, W_1.T.tolist(), b_1.tolist())
        return u, [active(v) for v in u]

    def feed_forward(x, W_1, b_1, W_2, b_2):
        lead, dtype = x.shape[:-1], x.dtype
        if bug == "fortran_order" and x.size:
            x = x.reshape(-1, x.shape[-1], order="A").reshape(x.shape)
        y = np.empty((*lead, W_2.shape[1]))
        offset = [0.0] * len(b_2) if bug == "no_b2" else b_2.tolist()
        calls[0] += 1
        rng = np.random.default_rng(calls[0]) if bug == "dropout_left_on" else None
        seen = np.empty((*lead, W_1.shape[1]))
        for k in np.ndindex(*lead):
            u, h = hidden(x[k].tolist(), W_1, b_1)
            seen[k] = u
            if rng is not None:
                h = [v if rng.random() < 0.8 else 0.0 for v in h]
            row = apply(h, W_2.T.tolist(), offset)
            y[k] = [max(v, 0.0) for v in row] if bug == "activation_after" else row
        if bug == "remembers_hidden":
            latest["u"] = seen
        if bug == "across_positions" and lead and y.size:
            y = y + y.mean(axis=-2, keepdims=True)
        return y if bug == "widened" else y.astype(dtype)

    def feed_forward_backward(dy, x, W_1, b_1, W_2, b_2):
        lead, dtype = x.shape[:-1], x.dtype
        (d, n), o = W_1.shape, W_2.shape[1]
        dx, dW_1, db_1 = np.zeros(x.shape), np.zeros((d, n)), np.zeros(n)
        dW_2, db_2 = np.zeros((n, o)), np.zeros(o)
        first, second = W_1.tolist(), W_2.tolist()
        for k in np.ndindex(*lead):
            row, up = x[k].tolist(), dy[k].tolist()
            u, h = hidden(row, W_1, b_1)
            if bug == "remembers_hidden" and getattr(latest.get("u"), "shape", None) == (*lead, n):
                u = latest["u"][k].tolist()
                h = [active(v) for v in u]
            gate = [v > 0 for v in u]
            if bug == "activation_after":
                out = apply(h, W_2.T.tolist(), b_2.tolist())
                up = [v if z > 0 else 0.0 for v, z in zip(up, out, strict=True)]
            if bug == "mask_from_output" and o == n:
                gate = [v > 0 for v in apply(h, W_2.T.tolist(), b_2.tolist())]
            if bug == "mask_without_b1":
                gate = [v > 0 for v in apply(row, W_1.T.tolist(), [0.0] * n)]
            if bug in ("no_relu_mask", "no_activation"):
                gate = [True] * n
            back = [math.fsum(v * w for v, w in zip(up, second[j], strict=True)) for j in range(n)]
            du = [v if g else (0.01 * v if bug == "leaky" else 0.0) for v, g in zip(back, gate, strict=True)]
            dx[k] = [math.fsum(v * w for v, w in zip(du, first[a], strict=True)) for a in range(d)]
            if bug == "residual_in_backward" and o == d:
                dx[k] += up
            source = h if bug == "dW1_from_hidden" and n == d else row
            last = not lead or k[0] == lead[0] - 1 or bug != "dW_last"
            for j in range(n):
                db_1[j] += back[j] if bug == "db1_unmasked" else du[j]
                for a in range(d if last else 0):
                    dW_1[a, j] += source[a] * du[j]
                for c in range(o if last else 0):
                    dW_2[j, c] += (u[j] if bug == "dW2_from_preactivation" else h[j]) * up[c]
            for c in range(o):
                db_2[c] += up[c]
        if bug == "db_mean":
            db_1, db_2 = db_1 / max(math.prod(lead), 1), db_2 / max(math.prod(lead), 1)
        if bug == "db2_one_axis" and lead:
            db_2 = dy.astype(np.float64).sum(axis=0)
        return tuple(a.astype(dtype) for a in (dx, dW_1, db_1, dW_2, db_2))

    return feed_forward, feed_forward_backward


def _einsum(bug):
    """Forward as a sum over hidden units; backward through the linear map that each token happens to see."""
    np.random.default_rng(7)

    def before(x, W_1, b_1):
        return np.einsum("...d,dh->...h", x, W_1) + b_1

    def after(u, b_1):
        h = np.einsum("...h,...h->...h", u, (u > 0).astype(u.dtype))
        return h

    def feed_forward(x, W_1, b_1, W_2, b_2):
        dtype = x.dtype
        if bug == "single_in_double":
            x, W_1, b_1, W_2, b_2 = (a.astype(np.float32) for a in (x, W_1, b_1, W_2, b_2))
        u = before(x, W_1, b_1)
        if bug == "writes_b1" and x.ndim == 1 and b_1.flags.writeable:
            b_1[...] = u
        h = after(u, b_1)
        y = np.einsum("...ho->...o", h[..., None] * W_2)
        y = y + b_2
        return y.astype(dtype)

    def feed_forward_backward(dy, x, W_1, b_1, W_2, b_2):
        (_d, _n), _o, _count = (W_1.shape, W_2.shape[1], max(math.prod(x.shape[:-1]), 1))
        lead = tuple(range(x.ndim - 1))
        u = before(x, W_1, b_1)
        h = after(u, b_1)
        source = u
        gate = (source > 0).astype(x.dtype)
        back = np.einsum("...o,ho->...h", dy, W_2)
        du = gate * back
        whole = np.einsum("dh,...h,ho->...do", W_1, gate, W_2)
        dx = np.einsum("...do,...o->...d", whole, dy)
        summed = du
        db_1 = np.tensordot(np.ones(x.shape[:-1], x.dtype), summed, axes=(lead, lead))
        db_2 = np.tensordot(np.ones(x.shape[:-1], x.dtype), dy, axes=(lead, lead))
        part = slice(None) if lead else ...
        seen = x
        dW_1 = np.tensordot(seen[part], du[part], axes=(lead, lead))
        dW_2 = np.tensordot(h[part], dy[part], axes=(lead, lead))
        return (dx, dW_1, db_1, dW_2, db_2)

    return (feed_forward, feed_forward_backward)


def _inplace(bug):
    """All tokens as the columns of float64 matrices, overwritten layer by layer."""
    latest = {}

    def columns(x, inside=np.float64, order="C"):
        """(..., d) -> an own (d, N)."""
        return np.array(x.reshape(math.prod(x.shape[:-1]), x.shape[-1], order=order).T, dtype=inside, order="C")

    def hidden(x, W_1, b_1):
        u = np.empty((W_1.shape[1], x.shape[1]), x.dtype)
        np.matmul(W_1.T.astype(x.dtype), x, out=u)
        u += b_1.astype(x.dtype)[:, None]
        return u

    def activate(h, b_1):
        """In place."""
        h[h < 0] = 0
        return h

    def feed_forward(x, W_1, b_1, W_2, b_2):
        inside = np.float32 if bug == "single_in_double" else np.float64
        h = hidden(columns(x, inside, "C"), W_1, b_1)
        latest["u"] = None
        if bug == "writes_b1" and x.ndim == 1 and b_1.flags.writeable:
            np.copyto(b_1, h[:, 0])
        activate(h, b_1)
        y = np.matmul(W_2.T.astype(inside), h)
        y += b_2.astype(inside)[:, None]
        y = y.T.reshape(*x.shape[:-1], W_2.shape[1])
        return np.array(y, dtype=x.dtype, order="C")

    def feed_forward_backward(dy, x, W_1, b_1, W_2, b_2):
        (_d, _n), _o, _lead = (W_1.shape, W_2.shape[1], x.shape[:-1])
        up, seen = (columns(dy), columns(x))
        u = hidden(seen, W_1, b_1)
        h = activate(u.copy(), b_1)
        dead = u <= 0
        du = np.matmul(W_2.astype(np.float64), up)
        np.add.reduce(du, axis=1)
        du[dead] = 0
        dx = np.matmul(W_1.astype(np.float64), du)
        db_1, db_2 = (np.add.reduce(du, axis=1), np.add.reduce(up, axis=1))
        start = 0
        source = seen
        dW_1 = np.matmul(source[:, start:], du[:, start:].T)
        dW_2 = np.matmul(h[:, start:], up[:, start:].T)
        dx = np.array(dx.T.reshape(x.shape), dtype=x.dtype, order="C")
        return (dx, *(a.astype(x.dtype) for a in (dW_1, db_1, dW_2, db_2)))

    return (feed_forward, feed_forward_backward)
