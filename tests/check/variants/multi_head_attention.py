"""Multi-head self-attention written three times, differently, and the bugs that can be planted in each."""

import math
from operator import mul
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")

PLANTED = {
    "split_no_T": ("loops",),
    "split_interleaved": ("loops",),
    "scale_dmodel": ("loops",),
    "heads_avg": ("loops",),
    "kv_swapped": ("loops",),
    "same_head": ("loops",),
    "merge_no_T": ("loops",),
    "no_Wo": ("loops",),
    "mask_queries": ("loops",),
    "dx_only_v": ("loops",),
    "dW_last_batch": ("loops",),
    "dWo_missing_heads": ("loops",),
    "backward_no_scale": ("loops",),
    "softmax_heads": ("einsum", "inplace"),
    "mask_first_head": ("loops",),
    "mask_1d_queries": ("loops",),
    "mask_square_only": ("einsum", "inplace"),
    "scale_heads": ("loops",),
    "scale_narrow": ("loops",),
    "no_scale": ("loops",),
    "heads_reversed": ("einsum", "inplace"),
    "one_head_no_Wo": ("loops",),
    "W_transposed": ("loops",),
    "empty_uniform": ("loops",),
    "single_token": ("loops",),
    "causal_default": ("loops",),
    "no_rowmax": ("loops",),
    "first_batch_weights": ("einsum", "inplace"),
    "shared_buffer": ("einsum", "inplace"),
    "writes_x": ("einsum", "inplace"),
    "wide_result": ("loops",),
    "float32_inside": ("einsum", "inplace"),
    "dx_no_q": ("loops",),
    "dx_W_no_T": ("loops",),
    "dW_mean": ("einsum", "inplace"),
    "dW_second_lead": ("loops",),
    "dWqk_swapped": ("loops",),
    "dWo_transposed": ("loops",),
    "backward_no_mask": ("loops",),
    "backward_last_x": ("loops",),
    "rowsum_all_heads": ("einsum", "inplace"),
}

INVENTED = {
    "mask_1d_queries": "a mask of one axis hides queries in place of keys",
    "mask_square_only": "a mask that is not (n, n) is ignored",
    "softmax_heads": "the weights are normalised over the heads, not over the keys",
    "mask_first_head": "only the first head obeys the mask",
    "scale_heads": "the scale is 1/sqrt(heads), wrong where heads differs from D/heads",
    "scale_narrow": "the scale is 1/sqrt(max(D/heads, 2)), wrong only for heads of one column",
    "no_scale": "the scores are not scaled",
    "heads_reversed": "the heads are merged last first",
    "one_head_no_Wo": "the output projection is left out for a single head",
    "W_transposed": "the projections are x Wᵀ (all but the output's)",
    "empty_uniform": "a query that may look at nothing looks at all tokens alike",
    "single_token": "a single token attends to itself even where the mask forbids it",
    "causal_default": "without a mask, later tokens are hidden",
    "no_rowmax": "the exponential is taken without subtracting the row's maximum",
    "first_batch_weights": "the first leading entry's attention weights are used for all",
    "shared_buffer": "calls of equal shape and dtype return the same memory",
    "writes_x": "x itself is centred over the tokens (where there are several), the result is right",
    "wide_result": "float32 input gives a float64 result",
    "float32_inside": "float64 input is computed in float32 and cast back",
    "dx_no_q": "dx lacks the part through the queries",
    "dx_W_no_T": "dx multiplies by W_q, W_k and W_v where it should by their transposes",
    "dW_mean": "the weights' gradients are averaged, not summed, over the leading axes",
    "dW_second_lead": "of a second leading axis only the first entry counts for the weights' gradients",
    "dWqk_swapped": "dW_q and dW_k are returned in each other's place",
    "dWo_transposed": "dW_o is transposed",
    "backward_no_mask": "the backward recomputes the weights without the mask",
    "backward_last_x": "the backward uses the last forward's x where the shape fits",
    "rowsum_all_heads": "in softmax's backward the row sum is taken over all heads together",
}

# Forward bugs whose backward belongs to the wrong forward; for the others it stays the right op's.
CONSISTENT = {
    "loops": (
        "scale_dmodel",
        "scale_heads",
        "no_scale",
        "split_interleaved",
        "kv_swapped",
        "mask_queries",
        "mask_first_head",
        "causal_default",
        "mask_1d_queries",
        "W_transposed",
    ),
    "einsum": ("scale_heads", "split_interleaved", "no_scale", "mask_first_head"),
    "inplace": (
        "split_no_T",
        "merge_no_T",
        "scale_narrow",
        "kv_swapped",
        "same_head",
        "mask_queries",
        "heads_reversed",
        "empty_uniform",
    ),
}


def make(style, bug=None):
    """-> a namespace with multi_head_attention and multi_head_attention_backward; with `bug`, wrong in that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(multi_head_attention=forward, multi_head_attention_backward=backward)


def _behind(style, bug):
    """The bug that the backward's own recomputation has."""
    return bug if bug in CONSISTENT[style] else None


def _factor(dim, heads, bug):
    width = max(dim // heads, 1)
    if bug == "scale_dmodel":
        width = dim
    if bug == "scale_heads":
        width = heads
    if bug == "scale_narrow":
        width = max(width, 2)
    return 1.0 if bug == "no_scale" else 1.0 / math.sqrt(width)


def _sight(mask, n, heads, bug):
    """Who may look at whom, (heads, n, n)."""
    see = np.ones((heads, n, n), bool)
    if mask is None:
        return np.tril(see) if bug == "causal_default" else see
    mask = np.asarray(mask)
    if bug == "mask_square_only" and mask.shape != (n, n):
        return see
    if bug == "mask_1d_queries" and mask.ndim == 1:
        mask = mask[:, None]
    if bug == "mask_queries":
        mask = np.broadcast_to(mask, (n, n)).T
    if bug == "mask_first_head":
        see[:1] &= mask
    else:
        see &= mask
    if bug == "single_token" and n == 1:
        see[...] = True
    return see


def _loops(bug):
    """Lists of Python floats, one leading entry and one head after the other."""
    kept = {}

    def times(a, b):
        """a b for lists of rows."""
        columns = list(zip(*b, strict=True))
        return [[sum(map(mul, row, column)) for column in columns] for row in a]

    def turned(a):
        return [list(column) for column in zip(*a, strict=True)]

    def part(rows, i, heads, wrong):
        """Head i's columns of rows, (n, D / heads)."""
        width = len(rows[0]) // heads
        if wrong == "split_interleaved":
            return [row[i::heads] for row in rows]
        if wrong == "split_no_T":
            flat = [x for row in rows for x in row]
            start = i * len(rows) * width
            return [flat[start + t * width : start + (t + 1) * width] for t in range(len(rows))]
        return [row[i * width : (i + 1) * width] for row in rows]

    def spread(heads_rows, dim, wrong):
        """The gradients of all parts, as the gradient of the rows they are parts of."""
        if wrong != "split_interleaved":
            return joined(heads_rows, None)
        heads, n = len(heads_rows), len(heads_rows[0])
        rows = [[0.0] * dim for _ in range(n)]
        for i, head in enumerate(heads_rows):
            for t in range(n):
                rows[t][i::heads] = head[t]
        return rows

    def joined(heads_rows, wrong):
        n = len(heads_rows[0])
        if wrong == "merge_no_T":
            flat = [x for head in heads_rows for row in head for x in row]
            width = len(flat) // n
            return [flat[t * width : (t + 1) * width] for t in range(n)]
        return [[x for head in heads_rows for x in head[t]] for t in range(n)]

    def weigh(scores, see, wrong):
        rows = []
        for row, may in zip(scores, see, strict=True):
            if wrong == "empty_uniform" and not any(may):
                rows.append([1.0 / len(row)] * len(row))
                continue
            top = max((x for x, a in zip(row, may, strict=True) if a), default=0.0)
            if wrong == "no_rowmax":
                top = 0.0
            powers = [math.exp(x - top) if a else 0.0 for x, a in zip(row, may, strict=True)]
            total = sum(powers) or 1.0
            rows.append([power / total for power in powers])
        return rows

    def attend(x, weights, see, heads, wrong):
        """One leading entry -> per head (q, k, v, p, p v)."""
        c = _factor(len(x[0]), heads, wrong)
        if wrong == "W_transposed":
            weights = [turned(w) for w in weights]
        q, k, v = (times(x, w) for w in weights)
        if wrong == "kv_swapped":
            k, v = v, k
        found = []
        for i in range(heads):
            qk = 0 if wrong == "same_head" else i
            qi, ki, vi = part(q, qk, heads, wrong), part(k, qk, heads, wrong), part(v, i, heads, wrong)
            scores = [[c * s for s in row] for row in times(qi, turned(ki))]
            p = weigh(scores, see[i], wrong)
            found.append((qi, ki, vi, p, times(p, vi)))
        return found

    def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
        y = np.zeros(x.shape, np.float64 if bug == "wide_result" else x.dtype)
        n = x.shape[-2]
        see = _sight(mask, n, heads, bug).tolist()
        weights = [w.tolist() for w in (W_q, W_k, W_v)]
        if bug == "backward_last_x":
            kept["x"] = x.copy()
        for at in np.ndindex(*x.shape[:-2]):
            if n == 0:
                continue
            outs = [head[-1] for head in attend(x[at].tolist(), weights, see, heads, bug)]
            if bug == "heads_avg":
                mean = [[sum(xs) / heads for xs in zip(*rows, strict=True)] for rows in zip(*outs, strict=True)]
                outs = [mean] * heads
            merged = joined(outs, bug)
            bare = bug == "no_Wo" or (bug == "one_head_no_Wo" and heads == 1)
            y[at] = merged if bare else times(merged, W_o.tolist())
        return y

    def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
        if bug == "backward_last_x" and "x" in kept and kept["x"].shape == x.shape:
            x = kept["x"]
        wrong = _behind("loops", bug)
        n, dim = x.shape[-2:]
        width = dim // heads
        c = 1.0 if bug == "backward_no_scale" else _factor(dim, heads, wrong)
        see = _sight(None if bug == "backward_no_mask" else mask, n, heads, wrong).tolist()
        weights = [w.tolist() for w in (W_q, W_k, W_v)]
        back = [turned(w) for w in weights]
        if bug in ("dx_W_no_T", "W_transposed"):
            back = weights
        dx = np.zeros(x.shape, x.dtype)
        sums = np.zeros((4, dim, dim))
        for at in np.ndindex(*x.shape[:-2]):
            if n == 0:
                continue
            rows, up = x[at].tolist(), dy[at].tolist()
            found = attend(rows, weights, see, heads, wrong)
            merged = joined([head[-1] for head in found], wrong)
            if bug == "dWo_missing_heads":
                merged = [row[:width] + [0.0] * (dim - width) for row in merged]
            dmerged = times(up, turned(W_o.tolist()))
            grads = []
            for i, (q, k, v, p, _) in enumerate(found):
                dout = part(dmerged, i, heads, None)
                dp = times(dout, turned(v))
                ds = []
                for weight, grad in zip(p, dp, strict=True):
                    mean = sum(map(mul, weight, grad))
                    ds.append([c * w * (g - mean) for w, g in zip(weight, grad, strict=True)])
                grads.append((times(ds, k), times(turned(ds), q), times(turned(p), dout)))
            dq, dk, dv = (spread([g[j] for g in grads], dim, wrong) for j in range(3))
            if wrong == "kv_swapped":
                dk, dv = dv, dk
            through = [times(d, w) for d, w in zip((dq, dk, dv), back, strict=True)]
            if bug == "dx_only_v":
                through = through[2:]
            if bug == "dx_no_q":
                through = through[1:]
            dx[at] = sum(np.array(g) for g in through)
            here = [times(turned(rows), d) for d in (dq, dk, dv)] + [times(turned(merged), up)]
            if wrong == "W_transposed":
                here[:3] = [turned(g) for g in here[:3]]
            if bug == "dW_last_batch":
                sums[...] = 0.0
            if bug == "dW_second_lead" and len(at) > 1 and at[1] > 0:
                continue
            sums += np.array(here)
        dW_q, dW_k, dW_v, dW_o = (total.astype(x.dtype) for total in sums)
        if bug == "dWqk_swapped":
            dW_q, dW_k = dW_k, dW_q
        if bug == "dWo_transposed":
            dW_o = dW_o.T.copy()
        return dx, dW_q, dW_k, dW_v, dW_o

    return multi_head_attention, multi_head_attention_backward


def _einsum(bug):
    """Per head two D × D matrices: scores x A xᵀ with A = W_q W_kᵀ, outputs P x B with B = W_v W_o."""
    kept = {}

    def blocks(W_q, W_k, W_v, W_o, heads, wrong):
        """-> (heads, D, d) three times and (heads, d, D)."""
        dim = len(W_q)

        def columns(w):
            if wrong == "split_interleaved":
                return np.moveaxis(w.reshape(dim, dim // heads, heads), -1, 0)
            return np.moveaxis(w.reshape(dim, heads, dim // heads), 1, 0)

        q, k, v = (columns(W_q), columns(W_k), columns(W_v))
        if wrong == "kv_swapped":
            k, v = (v, k)
        if wrong == "same_head":
            q, k = (np.broadcast_to(q[:1], q.shape), np.broadcast_to(k[:1], k.shape))
        o = W_o.reshape(heads, dim // heads, dim)
        if wrong == "no_Wo" or (wrong == "one_head_no_Wo" and heads == 1):
            o = np.eye(dim, dtype=W_o.dtype).reshape(o.shape)
        if wrong == "heads_avg":
            o = np.broadcast_to(np.einsum("hde->de", o) / heads, o.shape)
        if wrong == "heads_reversed":
            o = o[::-1]
        return (q, k, v, o)

    def attend(x, q, k, see, c, wrong):
        """The weights, (..., heads, n, n)."""
        a = np.einsum("hid,hjd->hij", q, k) * c
        s = np.einsum("...ti,hij,...uj->...htu", x, a, x, optimize=["einsum_path", (0, 1), (0, 1)])
        s = np.where(see, s, -np.inf)
        axis = -3 if wrong == "softmax_heads" else -1
        if wrong == "empty_uniform":
            s = np.where(see.any(axis=-1, keepdims=True), s, 0)
        if wrong == "first_batch_weights" and s.ndim > 3:
            s = np.broadcast_to(s[:1], s.shape)
        top = np.max(s, axis=axis, keepdims=True, initial=-np.inf)
        top = np.zeros_like(top) if wrong == "no_rowmax" else np.where(top == -np.inf, 0, top)
        p = np.exp(s - top)
        total = np.sum(p, axis=axis, keepdims=True)
        return p / np.where(total == 0, 1, total)

    def wide(*arrays):
        return [a.astype(np.float32 if bug == "float32_inside" else np.float64) for a in arrays]

    def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
        dtype = x.dtype
        n, dim = x.shape[-2:]
        inner = wide(x)[0]
        if bug == "writes_x" and n > 1:
            x -= x.mean(axis=-2, keepdims=True)
        q, k, v, o = blocks(*wide(W_q, W_k, W_v, W_o), heads, bug)
        p = attend(inner, q, k, _sight(mask, n, heads, bug), _factor(dim, heads, bug), bug)
        b = np.einsum("hid,hdj->hij", v, o)
        y = np.einsum("...htu,...huj->...tj", p, np.einsum("...ui,hij->...huj", inner, b)).astype(dtype)
        if bug == "shared_buffer":
            buffer = kept.setdefault((y.shape, y.dtype), np.empty_like(y))
            buffer[...] = y
            return buffer
        return y

    def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
        wrong = _behind("einsum", bug)
        dtype = x.dtype
        n, dim = x.shape[-2:]
        x, dy = wide(x, dy)
        q, k, v, o = blocks(*wide(W_q, W_k, W_v, W_o), heads, wrong)
        c = _factor(dim, heads, wrong)
        see = _sight(mask, n, heads, wrong)
        p = attend(x, q, k, see, c, wrong)
        b = np.einsum("hid,hdj->hij", v, o)
        seen = np.einsum("...htu,...ui->...hti", p, x)
        dseen = np.einsum("...tj,hij->...hti", dy, b)
        dp = np.einsum("...hti,...ui->...htu", dseen, x)
        mean = np.einsum("...htu,...htu->...ht", p, dp)[..., None]
        if bug == "rowsum_all_heads":
            mean = np.sum(mean, axis=-3, keepdims=True)
        ds = p * (dp - mean)
        a = np.einsum("hid,hjd->hij", q, k) * c
        dx_q = np.einsum("...htu,hij,...uj->...ti", ds, a, x, optimize=["einsum_path", (1, 2), (0, 1)])
        dx_k = np.einsum("...htu,hij,...ti->...uj", ds, a, x, optimize=["einsum_path", (1, 2), (0, 1)])
        dx_v = np.einsum("...htu,...hti->...ui", p, dseen)
        dx = dx_q + dx_k + dx_v
        tokens = np.einsum("...htu,...uj->...htj", ds, x)
        da = np.einsum("...ti,...htj->...hij", x, tokens)
        db = np.einsum("...hti,...tj->...hij", seen, dy)
        lead = da.shape[:-3]
        da, db = (g.reshape(-1, heads, dim, dim) for g in (da, db))
        da, db = (c * da.sum(axis=0), db.sum(axis=0))
        if bug == "dW_mean":
            count = max(math.prod(lead), 1)
            da, db = (da / count, db / count)

        def full(g):
            """(heads, D, d) -> (D, D)"""
            if wrong == "split_interleaved":
                return np.moveaxis(g, 0, -1).reshape(dim, dim).astype(dtype)
            return np.moveaxis(g, 0, 1).reshape(dim, dim).astype(dtype)

        dW_q = full(np.einsum("hij,hjd->hid", da, k))
        dW_k = full(np.einsum("hij,hid->hjd", da, q))
        dW_v = full(np.einsum("hij,hdj->hid", db, o))
        dW_o = np.einsum("hid,hij->hdj", v, db)
        dW_o = dW_o.reshape(dim, dim).astype(dtype)
        return (dx.astype(dtype), dW_q, dW_k, dW_v, dW_o)

    return (multi_head_attention, multi_head_attention_backward)


def _inplace(bug):
    """All leading axes folded into one, heads beside it; float64 work arrays changed in place."""
    kept = {}

    def wide(a):
        return np.array(a, np.float32 if bug == "float32_inside" else np.float64, order="C", copy=True)

    def split(a, heads, wrong):
        """(B, n, D) -> (B, heads, n, D / heads), a copy."""
        batch, n, dim = a.shape
        if wrong == "split_no_T":
            return a.reshape(batch, heads, n, dim // heads).copy()
        if wrong == "split_interleaved":
            return a.reshape(batch, n, dim // heads, heads).transpose(0, 3, 1, 2).copy()
        return a.reshape(batch, n, heads, dim // heads).transpose(0, 2, 1, 3).copy()

    def merge(a, wrong):
        batch, heads, n, width = a.shape
        if wrong in ("merge_no_T", "split_no_T"):
            return a.reshape(batch, n, heads * width)
        if wrong == "heads_reversed":
            a = a[:, ::-1]
        return a.transpose(0, 2, 1, 3).reshape(batch, n, heads * width)

    def attend(x, W_q, W_k, W_v, heads, see, wrong):
        q, k, v = (
            split(x @ (wide(w).T if wrong == "W_transposed" else wide(w)), heads, wrong) for w in (W_q, W_k, W_v)
        )
        if wrong == "kv_swapped":
            k, v = (v, k)
        if wrong == "same_head":
            q[:, 1:] = q[:, :1]
            k[:, 1:] = k[:, :1]
        q *= _factor(x.shape[-1], heads, wrong)
        p = q @ k.transpose(0, 1, 3, 2)
        np.copyto(p, -np.inf, where=~see)
        if wrong == "empty_uniform":
            np.copyto(p, 0.0, where=~see.any(axis=-1, keepdims=True))
        axis = 1 if wrong == "softmax_heads" else -1
        top = p.max(axis=axis, keepdims=True, initial=-np.inf)
        top[top == -np.inf] = 0.0
        if wrong != "no_rowmax":
            p -= top
        np.exp(p, out=p)
        total = p.sum(axis=axis, keepdims=True)
        total[total == 0] = 1.0
        p /= total
        if wrong == "first_batch_weights" and len(p):
            p[:] = p[:1].copy()
        return (q, k, v, p)

    def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
        *lead, n, dim = x.shape
        inner = wide(x).reshape(math.prod(lead), n, dim)
        if bug == "writes_x" and n > 1:
            x -= x.mean(axis=-2, keepdims=True)
        *_, v, p = attend(inner, W_q, W_k, W_v, heads, _sight(mask, n, heads, bug), bug)
        out = p @ v
        y = merge(out, bug)
        y = y @ wide(W_o)
        y = y.reshape(x.shape)
        if bug == "shared_buffer":
            buffer = kept.setdefault((x.shape, x.dtype), np.empty(x.shape, x.dtype))
            np.copyto(buffer, y, casting="same_kind")
            return buffer
        return y.astype(x.dtype)

    def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
        wrong = _behind("inplace", bug)
        *lead, n, dim = x.shape
        batch, _width, dtype = (math.prod(lead), dim // heads, x.dtype)
        inner, up = (wide(a).reshape(batch, n, dim) for a in (x, dy))
        see = _sight(mask, n, heads, wrong)
        q, k, v, p = attend(inner, W_q, W_k, W_v, heads, see, wrong)
        merged = merge(p @ v, None if wrong == "split_no_T" else wrong)
        dmerged = up @ wide(W_o).T
        dout = split(dmerged, heads, "split_no_T" if wrong == "merge_no_T" else None)
        if wrong == "heads_reversed":
            dout = dout[:, ::-1].copy()
        ds = dout @ v.transpose(0, 1, 3, 2)
        row = (ds * p).sum(axis=-1, keepdims=True)
        if bug == "rowsum_all_heads":
            row = row.sum(axis=1, keepdims=True)
        ds -= row
        ds *= p
        if wrong == "empty_uniform":
            ds *= see.any(axis=-1, keepdims=True)
        dq, dk, dv = (ds @ k, ds.transpose(0, 1, 3, 2) @ q, p.transpose(0, 1, 3, 2) @ dout)
        dq *= _factor(dim, heads, wrong)
        if wrong == "same_head":
            for d in (dq, dk):
                d[:, 0] = d.sum(axis=1)
                d[:, 1:] = 0.0
        if wrong == "kv_swapped":
            dk, dv = (dv, dk)
        dx = np.zeros_like(inner)
        sums = []
        for _name, d, w in (("q", dq, W_q), ("k", dk, W_k), ("v", dv, W_v)):
            rows = merge(d, wrong if wrong == "split_no_T" else None)
            keep = True
            if keep:
                dx += rows @ wide(w).T
            sums.append(inner.transpose(0, 2, 1) @ rows)
        sums.append(merged.transpose(0, 2, 1) @ up)
        sums = [g.sum(axis=0) for g in sums]
        if bug == "dW_mean":
            for g in sums:
                g /= max(batch, 1)
        dW_q, dW_k, dW_v, dW_o = (g.astype(dtype) for g in sums)
        return (dx.reshape(x.shape).astype(dtype), dW_q, dW_k, dW_v, dW_o)

    return (multi_head_attention, multi_head_attention_backward)
