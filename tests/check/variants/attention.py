"""Attention written three times, differently, and the bugs that can be planted in each."""

import math
from operator import mul
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")

PLANTED = {
    "no_scale": ("loops",),
    "scale_d": ("loops",),
    "scale_mult": ("loops",),
    "scale_np64": ("einsum", "inplace"),
    "mask_inverted": ("loops",),
    "off_by_one_mask": ("loops",),
    "off_by_one_peek": ("loops",),
    "mask_after_softmax": ("loops",),
    "fill_-1e9": ("loops",),
    "add_-1e9": ("loops",),
    "mult_mask_logits": ("loops",),
    "nan_row": ("loops",),
    "fill_-30": ("loops",),
    "softmax_axis": ("loops",),
    "no_rowmax": ("loops",),
    "global_max": ("loops",),
    "softmax_flat": ("loops",),
    "drop_renorm": ("loops",),
    "bias_before_scale": ("loops",),
    "weights_after_dropout": ("loops",),
    "dv_undropped": ("loops",),
    "dv_noT": ("loops",),
    "drop_mask_missing": ("loops",),
    "rowsum_missing": ("loops",),
    "rowsum_axis": ("loops",),
    "softmax_diag": ("loops",),
    "rowsum_from_pd": ("loops",),
    "backward_no_scale": ("loops",),
    "no_scale_dk": ("loops",),
    "dk_noT": ("loops",),
    "swap_qk": ("loops",),
    "dbias_batch": ("loops",),
    "dbias_scaled": ("loops",),
    "scale_e": ("loops",),
    "scale_ignored": ("loops",),
    "scale_falsy": ("loops",),
    "scale_twice": ("einsum", "inplace"),
    "no_drop_rescale": ("loops",),
    "keep_ignored_at_rate_0": ("loops",),
    "keep_first_lead": ("loops",),
    "keep_row_shared": ("einsum", "inplace"),
    "mask_first_lead": ("einsum", "inplace"),
    "mask_square_T": ("loops",),
    "mask_1d_queries": ("loops",),
    "causal_when_square": ("loops",),
    "keys_up_to_n": ("loops",),
    "single_key": ("loops",),
    "bias_only_with_mask": ("loops",),
    "bias_first_row": ("einsum", "inplace"),
    "acc_not_rescaled": ("einsum",),
    "shared_buffer": ("einsum", "inplace"),
    "writes_q": ("einsum", "inplace"),
    "float32_inside": ("einsum", "inplace"),
    "weights_wide": ("loops",),
    "dp_no_rescale": ("loops",),
    "dv_no_rescale": ("loops",),
    "dbias_mean": ("einsum", "inplace"),
    "dbias_first_lead": ("loops",),
    "dbias_always": ("einsum", "inplace"),
    "three_gradients": ("loops",),
    "backward_scale_default": ("loops",),
    "backward_writes_weights": ("einsum", "inplace"),
    "backward_last_weights": ("einsum", "inplace"),
    "dk_scaled_twice": ("loops",),
}

INVENTED = {
    "no_scale": "scores are never multiplied, not even by a scale that is given, as in the zoo's",
    "scale_e": "the default scale is 1/sqrt(e), the width of the values, wrong where e differs from d",
    "scale_ignored": "a scale that is given is ignored (in the backward too, for loops)",
    "scale_falsy": "scale = 0.0 is taken for no scale, so the default is used",
    "scale_twice": "a scale that is given multiplies the default in place of replacing it",
    "no_drop_rescale": "kept weights are not divided by 1 - rate",
    "keep_ignored_at_rate_0": "keep is ignored where rate is 0",
    "keep_first_lead": "the first leading entry's keep is used for all",
    "keep_row_shared": "the first query's keep is used for all queries",
    "mask_first_lead": "the first leading entry's mask is used for all",
    "mask_square_T": "the mask is transposed where n == m",
    "mask_1d_queries": "a mask of one axis hides queries in place of keys where n == m",
    "causal_when_square": "without a mask, later keys are hidden where n == m",
    "keys_up_to_n": "keys beyond the n-th are never seen, wrong where m > n",
    "single_key": "a single key gets weight 1 even where the mask forbids it",
    "bias_only_with_mask": "the bias is added only where there is a mask as well",
    "bias_first_row": "the first query's bias is used for all queries",
    "acc_not_rescaled": "the streamed output is not rescaled when a later tile (of 2 keys) raises the maximum",
    "shared_buffer": "calls of equal shape and dtype return the same memory for the weights",
    "writes_q": "the queries are scaled in the caller's array (inplace: for float64 only)",
    "float32_inside": "float64 input is computed in float32 and cast back",
    "weights_wide": "the weights are float64 for float32 input, the output is not",
    "dp_no_rescale": "the weights' gradient is masked by keep but not divided by 1 - rate",
    "dv_no_rescale": "dv uses kept weights that were not divided by 1 - rate",
    "dbias_mean": "dbias is the mean, not the sum, over the axes along which the bias was broadcast",
    "dbias_first_lead": "axes that the bias lacks are not summed, the first entry is taken",
    "dbias_always": "dbias is an array even where there is no bias",
    "three_gradients": "without a bias only three gradients are returned",
    "backward_scale_default": "the backward ignores a scale that is given",
    "backward_writes_weights": "the backward overwrites the weights it is given",
    "backward_last_weights": "the backward uses the last forward's weights where the shape fits",
    "dk_scaled_twice": "dk is computed from queries already scaled and then scaled once more",
}


def make(style, bug=None):
    """-> a namespace with attention and attention_backward; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(attention=forward, attention_backward=backward)


def _factor(q, v, scale, bug):
    """The factor of q·k: `scale` or 1/sqrt(d)."""
    width = max(q.shape[-1], 1)
    if bug == "no_scale":
        return 1.0
    if bug == "scale_ignored":
        scale = None
    if bug == "scale_falsy":
        scale = scale or None
    if bug == "scale_e":
        width = max(v.shape[-1], 1)
    default = 1.0 / math.sqrt(width)
    if bug == "scale_d":
        default = 1.0 / width
    if bug == "scale_mult":
        default = math.sqrt(width)
    if bug == "scale_twice" and scale is not None:
        return float(scale) * default
    factor = default if scale is None else float(scale)
    return np.float64(factor) if bug == "scale_np64" else factor


def _sight(mask, shape, bug):
    """Who may look at whom, as a boolean array (..., n, m)."""
    *lead, n, m = shape
    see = np.ones(shape, bool)
    if mask is not None:
        mask = np.asarray(mask)
        if bug == "mask_1d_queries" and mask.ndim == 1 and n == m:
            mask = mask[:, None]
        if bug == "mask_inverted":
            mask = ~mask
        see &= mask
        if bug == "mask_square_T" and n == m:
            see = see.swapaxes(-1, -2).copy()
        if bug == "mask_first_lead" and lead:
            see[:] = see[:1].copy()
        if bug == "off_by_one_mask":
            see[..., :-1] = see[..., 1:].copy()
            see[..., -1:] = False
        if bug == "off_by_one_peek":
            see[..., 1:] |= see[..., :-1].copy()
    if bug == "causal_when_square" and mask is None and n == m:
        see &= np.arange(m) <= np.arange(n)[:, None]
    if bug == "keys_up_to_n":
        see[..., n:] = False
    return see


def _gate(keep, rate, shape, dtype, bug):
    """What dropout multiplies by, (..., n, m): 0 or 1 / (1 - rate); None where there is no dropout."""
    if keep is None or (bug == "keep_ignored_at_rate_0" and rate == 0):
        return None
    gate = np.broadcast_to(keep, shape).astype(dtype)
    if bug == "keep_first_lead" and len(shape) > 2:
        gate[:] = gate[:1].copy()
    if bug == "keep_row_shared":
        gate[:] = gate[..., :1, :].copy()
    if bug != "no_drop_rescale":
        gate /= 1.0 - float(rate)
    return gate


def _loops(bug):
    """One leading entry after the other, rows and keys as lists of Python floats."""

    def dots(rows, others):
        return [[sum(map(mul, a, b)) for b in others] for a in rows]

    def weigh(row, see, top):
        fill = {"fill_-1e9": -1e9, "fill_-30": -30.0, "mult_mask_logits": 0.0}.get(bug)
        hidden = [False] * len(row)
        if fill is not None:
            row, see = [x if a else fill for x, a in zip(row, see, strict=True)], [True] * len(row)
        if bug == "add_-1e9":
            row, see = [x if a else x - 1e9 for x, a in zip(row, see, strict=True)], [True] * len(row)
        if bug == "single_key" and len(row) == 1:
            see = [True]
        if bug == "mask_after_softmax":
            hidden, see = [not a for a in see], [True] * len(row)
        seen = [x for x, a in zip(row, see, strict=True) if a]
        if not seen:
            return [math.nan if bug == "nan_row" else 0.0] * len(row)
        top = max(seen) if top is None else top
        powers = [math.exp(x - top) if a else 0.0 for x, a in zip(row, see, strict=True)]
        total = sum(powers) or 1.0
        return [0.0 if gone else power / total for power, gone in zip(powers, hidden, strict=True)]

    def weigh_all(scores, see):
        """Weights of one matrix of scores; the maximum and the axis are as `bug` has it."""
        n = len(scores)
        if bug == "softmax_flat":
            flat = iter(weigh([x for row in scores for x in row], [a for row in see for a in row], None))
            return [[next(flat) for _ in row] for row in scores]
        if bug == "softmax_axis":
            turned = [
                weigh(list(x), list(a), None)
                for x, a in zip(zip(*scores, strict=True), zip(*see, strict=True), strict=True)
            ]
            return [list(row) for row in zip(*turned, strict=True)] if turned else [[] for _ in range(n)]
        top = None
        if bug == "global_max":
            top = max(
                (x for row, may in zip(scores, see, strict=True) for x, a in zip(row, may, strict=True) if a),
                default=0.0,
            )
        if bug == "no_rowmax":
            top = 0.0
        return [weigh(row, may, top) for row, may in zip(scores, see, strict=True)]

    def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
        c = _factor(q, v, scale, bug)
        lead, n, m = q.shape[:-2], q.shape[-2], k.shape[-2]
        see = _sight(mask, (*lead, n, m), bug)
        if bug == "bias_only_with_mask" and mask is None:
            bias = None
        extra = None if bias is None else np.broadcast_to(bias, see.shape)
        gate = _gate(keep, rate, see.shape, np.float64, bug)
        weights = np.zeros(see.shape, np.float64 if bug == "weights_wide" else q.dtype)
        out = np.zeros((*lead, n, v.shape[-1]), q.dtype)
        for at in np.ndindex(*lead):
            scores = [[c * x for x in row] for row in dots(q[at].tolist(), k[at].tolist())]
            if extra is not None:
                unit = c if bug == "bias_before_scale" else 1.0
                scores = [
                    [x + unit * b for x, b in zip(row, more, strict=True)]
                    for row, more in zip(scores, extra[at].tolist(), strict=True)
                ]
            rows = weigh_all(scores, see[at].tolist())
            taken = rows
            if gate is not None:
                taken = [list(map(mul, row, g)) for row, g in zip(rows, gate[at].tolist(), strict=True)]
            if bug == "drop_renorm" and gate is not None:
                taken = [[x / (sum(row) or 1.0) for x in row] for row in taken]
            columns = list(zip(*v[at].tolist(), strict=True))
            if n > 0 and m > 0:
                weights[at] = taken if bug == "weights_after_dropout" else rows
                out[at] = dots(taken, columns)
        return out, weights

    def attention_backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
        c = _factor(q, v, None if bug == "backward_scale_default" else scale, bug)
        lead, n, m = q.shape[:-2], q.shape[-2], k.shape[-2]
        gate = _gate(keep, rate, weights.shape, np.float64, bug)
        dq, dk, dv = (np.zeros(a.shape, a.dtype) for a in (q, k, v))
        dscores = np.zeros(weights.shape)
        for at in np.ndindex(*lead):
            up, queries, keys, values, p = (a[at].tolist() for a in (dout, q, k, v, weights))
            g = [[1.0] * m for _ in range(n)] if gate is None else gate[at].tolist()
            bare = [[float(x > 0) for x in row] for row in g]
            for i in range(n):
                dp = [sum(map(mul, up[i], value)) for value in values]
                if bug == "dp_no_rescale":
                    dp = list(map(mul, dp, bare[i]))
                elif bug != "drop_mask_missing":
                    dp = list(map(mul, dp, g[i]))
                mean = sum(map(mul, p[i], dp))
                if bug == "rowsum_missing":
                    mean = 0.0
                if bug == "rowsum_from_pd":
                    mean = sum(x * y * z for x, y, z in zip(p[i], g[i], dp, strict=True))
                dscores[at][i] = [w * (x - mean) for w, x in zip(p[i], dp, strict=True)]
                if bug == "softmax_diag":
                    dscores[at][i] = [w * (1.0 - w) * x for w, x in zip(p[i], dp, strict=True)]
                if bug == "rowsum_axis":
                    dscores[at][i] = list(map(mul, p[i], dp))
            if bug == "rowsum_axis":
                dscores[at] -= weights[at] * dscores[at].sum(axis=0)
            ds = dscores[at].tolist()
            unit = 1.0 if bug == "backward_no_scale" else c
            unit_k = 1.0 if bug == "no_scale_dk" else unit * c if bug == "dk_scaled_twice" else unit
            for i in range(n):
                dq[at][i] = [unit * sum(ds[i][j] * keys[j][a] for j in range(m)) for a in range(q.shape[-1])]
            for j in range(m):
                column = [ds[i][j] for i in range(n)]
                taken = [p[i][j] * g[i][j] for i in range(n)]
                if bug == "dv_undropped":
                    taken = [p[i][j] for i in range(n)]
                if bug == "dv_no_rescale":
                    taken = [p[i][j] * bare[i][j] for i in range(n)]
                if bug == "dv_noT" and n == m:
                    taken = list(map(mul, p[j], g[j]))
                if bug == "dk_noT" and n == m:
                    column = ds[j]
                dk[at][j] = [unit_k * sum(column[i] * queries[i][a] for i in range(n)) for a in range(q.shape[-1])]
                dv[at][j] = [sum(taken[i] * up[i][a] for i in range(n)) for a in range(v.shape[-1])]
        if bug == "swap_qk":
            dq, dk = dk, dq
        if bias is None:
            return (dq, dk, dv) if bug == "three_gradients" else (dq, dk, dv, None)
        if bug in ("dbias_scaled", "bias_before_scale"):
            dscores *= c
        if bug == "dbias_batch":
            return dq, dk, dv, dscores.astype(bias.dtype)
        dbias = np.zeros(bias.shape)
        extra = dscores.ndim - bias.ndim
        for at in np.ndindex(*dscores.shape):
            if bug == "dbias_first_lead" and any(at[:extra]):
                continue
            dbias[tuple(i if size > 1 else 0 for i, size in zip(at[extra:], bias.shape, strict=True))] += dscores[at]
        return dq, dk, dv, dbias.astype(bias.dtype)

    return attention, attention_backward


def _einsum(bug):
    """Streamed over tiles of two keys: the output is never computed from the weights. Full Jacobians backwards."""
    tile = 2
    kept = {}

    def score(q, k, c, bias):
        s = np.einsum("...id,...jd->...ij", q, k)
        s = s * c
        return s if bias is None else s + bias

    def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
        dtype = q.dtype
        c = _factor(q, v, scale, bug)
        if bug == "writes_q":
            q *= c
            c = 1.0
        if bug == "float32_inside":
            q, k, v = (a.astype(np.float32) for a in (q, k, v))
            bias = None if bias is None else bias.astype(np.float32)
        shape = (*q.shape[:-1], k.shape[-2])
        see = _sight(mask, shape, bug)
        if bug == "bias_first_row" and bias is not None:
            bias = np.broadcast_to(bias, shape)[..., :1, :]
        s = score(q, k, c, bias)
        hidden = None
        s = np.where(see, s, -np.inf)
        gate = _gate(keep, rate, shape, s.dtype, bug)
        top = np.full(shape[:-1], -np.inf, s.dtype)
        total = np.zeros(shape[:-1], s.dtype)
        out = np.zeros((*shape[:-1], v.shape[-1]), s.dtype)
        for start in range(0, shape[-1], tile):
            some = slice(start, start + tile)
            higher = np.maximum(top, np.max(s[..., some], axis=-1))
            safe = np.where(higher == -np.inf, 0, higher)
            with np.errstate(over="ignore"):
                shrink = np.exp(np.minimum(top - safe, 0))
                powers = np.exp(s[..., some] - safe[..., None])
            taken = powers if gate is None else powers * gate[..., some]
            if hidden is not None:
                taken = np.where(hidden[..., some], 0, taken)
            part = powers
            total = total * shrink + np.einsum("...j->...", part)
            out = (out if bug == "acc_not_rescaled" else out * shrink[..., None]) + np.einsum(
                "...ij,...je->...ie", taken, v[..., some, :]
            )
            top = higher
        top = np.where(top == -np.inf, 0, top)
        total = np.where(total == 0, 1, total)
        with np.errstate(over="ignore"):
            weights = np.exp(s - top[..., None]) / total[..., None]
        out = out / total[..., None]
        if hidden is not None:
            weights = np.where(hidden, 0, weights)
        if bug != "scale_np64":
            out, weights = (out.astype(dtype, copy=False), weights.astype(dtype, copy=False))
        if bug == "backward_last_weights":
            kept["weights"] = weights.copy()
        if bug == "shared_buffer":
            buffer = kept.setdefault((weights.shape, weights.dtype), np.empty_like(weights))
            buffer[...] = weights
            return (out, buffer)
        return (out, weights)

    def shrink_to(x, shape):
        """Sum x over the axes along which `shape` was broadcast."""
        reduce = np.mean if bug == "dbias_mean" else np.sum
        extra = x.ndim - len(shape)
        if x.size == 0:
            reduce = np.sum
        stretched = tuple(i for i in range(x.ndim) if i < extra or shape[i - extra] != x.shape[i])
        return reduce(x, axis=stretched, keepdims=True).reshape(shape)

    def attention_backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
        wrong = bug if bug in ("scale_np64", "scale_twice") else None
        c = _factor(q, v, scale, wrong)
        if bug == "backward_last_weights" and kept.get("weights", dout).shape == weights.shape:
            weights = kept["weights"]
        gate = _gate(keep, rate, weights.shape, weights.dtype, bug)
        taken = weights if gate is None else weights * gate
        dp = np.einsum("...ie,...je->...ij", dout, v)
        if gate is not None:
            dp = dp * gate
        dv = np.einsum("...ji,...je->...ie", taken, dout)
        jacobian = weights[..., None] * np.eye(weights.shape[-1], dtype=weights.dtype)
        jacobian = jacobian - weights[..., :, None] * weights[..., None, :]
        ds = np.einsum("...a,...ab->...b", dp, jacobian)
        if bug == "backward_writes_weights":
            weights[...] = ds
        unit = c
        dq = np.einsum("...ij,...jd->...id", ds * unit, k)
        dk = np.einsum("...ij,...id->...jd", ds * unit, q)
        if bias is None:
            return (dq, dk, dv, ds if bug == "dbias_always" else None)
        return (dq, dk, dv, shrink_to(ds, bias.shape))

    return (attention, attention_backward)


def _inplace(bug):
    """float64 work arrays changed in place; the backward's row sum is taken from the output (dout · out)."""
    kept = {}

    def wide(a):
        return a.astype(np.float32 if bug == "float32_inside" else np.float64)

    def weigh(s, see):
        """Turn scores into weights, in place."""
        fill = {"fill_-1e9": -1000000000.0, "fill_-30": -30.0, "mult_mask_logits": 0.0}
        hide = ~see
        s[hide] = fill.get(bug, -np.inf)
        axis = -1
        top = s.max(axis=axis, keepdims=True, initial=-np.inf)
        top[top == -np.inf] = 0.0
        with np.errstate(over="ignore"):
            s -= top
        np.exp(s, out=s)
        total = s.sum(axis=axis, keepdims=True)
        total[total == 0] = 1.0
        s /= total

    def attention(q, k, v, mask=None, bias=None, keep=None, rate=0.0, scale=None):
        c = _factor(q, v, scale, bug)
        dtype = (q * c).dtype if bug == "scale_np64" else q.dtype
        scaled = q if bug == "writes_q" and q.dtype == np.float64 else wide(q)
        scaled *= c
        s = np.matmul(scaled, wide(k).swapaxes(-1, -2))
        see = _sight(mask, s.shape, bug)
        if bias is not None:
            extra = np.broadcast_to(bias, s.shape)
            if bug == "bias_first_row":
                extra = extra[..., :1, :]
            np.add(s, extra, out=s)
        weigh(s, see)
        gate = _gate(keep, rate, s.shape, s.dtype, bug)
        weights = s.astype(dtype)
        if gate is not None:
            s *= gate
        out = np.matmul(s, wide(v)).astype(dtype)
        if bug == "backward_last_weights":
            kept["weights"] = weights.copy()
        if bug == "shared_buffer":
            buffer = kept.setdefault((weights.shape, weights.dtype), np.empty_like(weights))
            np.copyto(buffer, weights)
            return (out, buffer)
        return (out, weights)

    def reduce_to(x, shape):
        """Sum x over the axes along which `shape` was broadcast, one after the other."""
        while x.ndim > len(shape):
            x = np.add.reduce(x, axis=0)
            x = np.asarray(x)
        for axis, size in enumerate(shape):
            if size == 1 and x.shape[axis] != 1:
                count = x.shape[axis]
                x = np.add.reduce(x, axis=axis, keepdims=True)
                if bug == "dbias_mean":
                    x /= max(count, 1)
        return x

    def attention_backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
        follows = ("no_scale", "scale_d", "scale_mult", "scale_np64")
        c = _factor(q, v, scale, bug if bug in follows else None)
        dtype = (q * c).dtype if bug == "scale_np64" else q.dtype
        if bug == "backward_last_weights" and kept.get("weights", dout).shape == weights.shape:
            weights = kept["weights"]
        up, p, values = (wide(dout), wide(weights), wide(v))
        gate = _gate(keep, rate, p.shape, p.dtype, bug)
        dropped = p.copy() if gate is None else p * gate
        out = np.matmul(dropped, values)
        ds = np.matmul(up, values.swapaxes(-1, -2))
        if gate is not None:
            ds *= gate
        out *= up
        mean = np.sum(out, axis=-1, keepdims=True)
        ds -= mean
        ds *= p
        if bug == "backward_writes_weights":
            weights[...] = ds
        dv = np.matmul(dropped.swapaxes(-1, -2), up).astype(dtype)
        dbias = None
        if bias is None and bug == "dbias_always":
            dbias = ds.astype(dtype)
        if bias is not None:
            dbias = ds.copy()
            dbias = reduce_to(dbias, bias.shape)
            dbias = dbias.astype(bias.dtype)
        ds.copy()
        ds *= c
        dq = np.matmul(ds, wide(k)).astype(dtype)
        dk = np.matmul(ds.swapaxes(-1, -2), wide(q)).astype(dtype)
        return (dq, dk, dv, dbias)

    return (attention, attention_backward)
