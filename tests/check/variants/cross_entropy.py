"""Cross-entropy written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
PLANTED = {
    "no_max": ("loops",),
    "log_softmax_naive": ("loops",),
    "div_all": ("loops",),
    "ignore_forgot": ("loops",),
    "eps_log": ("loops",),
    "sum_not_mean": ("loops",),
    "log2": ("loops",),
    "weights_squared": ("loops",),
    "softmax_axis": ("loops",),
    "inplace": ("loops",),
    "no_div": ("loops",),
    "double_softmax": ("loops",),
    "backward_ignore": ("loops",),
    "onehot_missing": ("loops",),
    "dloss_missing": ("loops",),
    "sign": ("loops",),
    "zero_weights_nan": ("loops",),
    "total_at_least_one": ("loops",),
    "global_max": ("loops",),
    "max_from_zero": ("loops",),
    "mean_of_means": ("loops",),
    "weights_as_mask": ("loops",),
    "padding_zero": ("loops",),
    "targets_memory_order": ("loops",),
    "clipped_logits": ("loops",),
    "label_smoothing": ("loops",),
    "squeezed_logits": ("einsum", "inplace"),
    "widened": ("loops",),
    "onehot_every_row": ("loops",),
    "weights_on_softmax_only": ("loops",),
    "backward_div_all": ("loops",),
    "kept_softmax": ("loops",),
    "shared_buffer": ("loops",),
    "dloss_squared": ("loops",),
}
INVENTED = {
    "zero_weights_nan": "where all weights are 0 it divides 0 by 0",
    "total_at_least_one": "divides by max(sum of weights, 1): wrong only where the weights sum to less than 1",
    "global_max": "subtracts the largest logit of the whole array, not of the row: rows far below underflow",
    "max_from_zero": "the running maximum begins at 0: rows of only very negative logits underflow",
    "mean_of_means": "with two or more leading axes, the mean over rows of each row's own weighted mean",
    "weights_as_mask": "weights count as 1 where they are not 0: wrong only for weights other than 0 and 1",
    "padding_zero": "positions whose target is 0 are taken for padding and left out",
    "targets_memory_order": "targets are flattened in the order of memory: wrong only for targets not in C order",
    "clipped_logits": "logits are clipped to -50..50: wrong only beyond",
    "label_smoothing": "a tenth of the true probability is spread over all classes: wrong unless there is one class",
    "squeezed_logits": "axes of size 1 are squeezed away first: wrong only where V is 1",
    "widened": "float32 comes back as float64",
    "onehot_every_row": "backward: subtracts the 1 of every position's target in every row: right for one position",
    "weights_on_softmax_only": "backward: the weights multiply the softmax but not the one-hot",
    "backward_div_all": "backward: divides by the number of positions, not by the sum of weights",
    "kept_softmax": "backward: takes the softmax kept by the last forward if its shape fits",
    "shared_buffer": "backward: equal shapes get the same array, so a later call overwrites an earlier result",
    "dloss_squared": "backward: multiplies by dloss twice",
}
_EPS = 1e-12
_SMOOTH = 0.1
_BACKWARD_ONLY = ("no_div", "backward_ignore", "backward_div_all")  # those whose code the forward shares


def make(style, bug=None):
    """-> a namespace with cross_entropy and cross_entropy_backward; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(cross_entropy=forward, cross_entropy_backward=backward)


def _loops(bug):
    """Position by position, in Python floats."""
    kept = {}
    buffers = {}

    def shares(targets, weights, bug):
        """w / sum(w) of every position, in C order."""
        if weights is None or bug in ("ignore_forgot", "backward_ignore"):
            raw = [1.0] * targets.size
        else:
            raw = [float(weights[at]) for at in np.ndindex(targets.shape)]
        if bug == "weights_squared":
            raw = [w * w for w in raw]
        if bug == "weights_as_mask":
            raw = [float(w != 0) for w in raw]
        if bug == "padding_zero":
            raw = [w if targets[at] != 0 else 0.0 for w, at in zip(raw, np.ndindex(targets.shape), strict=True)]
        if bug == "mean_of_means" and targets.ndim >= 2:
            n = targets.shape[-1]
            sums = [math.fsum(raw[i : i + n]) for i in range(0, len(raw), n)] if n else []
            return [w / sums[i // n] / len(sums) if sums[i // n] else 0.0 for i, w in enumerate(raw)]
        total = math.fsum(raw)
        if bug in ("div_all", "backward_div_all"):
            total = float(len(raw))
        if bug in ("sum_not_mean", "no_div"):
            total = 1.0
        if bug == "total_at_least_one":
            total = max(total, 1.0)
        if total == 0 and bug != "zero_weights_nan":
            return [0.0 for _ in raw]
        return [w / total for w in raw]

    def flat(targets, bug):
        if bug == "targets_memory_order":
            return [int(t) for t in targets.ravel(order="K")]
        return [int(targets[at]) for at in np.ndindex(targets.shape)]

    def exponentials(row, bug, everything):
        """The row's largest logit, each logit's distance to it, and the exponentials of those."""
        if bug == "clipped_logits":
            row = [min(max(x, -50.0), 50.0) for x in row]
        top = max(row)
        if bug == "no_max":
            top = 0.0
        if bug == "max_from_zero":
            top = max(top, 0.0)
        if bug == "global_max":
            top = float(everything.max())
        below = [x - top for x in row]
        return below, [math.exp(x) for x in below]

    def log(x):
        return math.log(x) if x > 0 else -math.inf

    def cross_entropy(logits, targets, weights=None):
        logits, targets = np.asarray(logits), np.asarray(targets)
        weights = None if weights is None else np.asarray(weights)
        ours = shares(targets, weights, None if bug in _BACKWARD_ONLY else bug)
        terms = []
        soft = []
        for at, t, share in zip(np.ndindex(targets.shape), flat(targets, bug), ours, strict=True):
            row = logits[at].tolist()
            if bug == "softmax_axis" and targets.ndim:
                t, row = at[0], logits[(slice(None), *at[1:], t)].tolist()
            below, grown = exponentials(row, bug, logits)
            total = math.fsum(grown)
            nll = log(total) - below[t]
            if bug == "log_softmax_naive":
                nll = -log(grown[t] / total)
            if bug == "eps_log":
                nll = -log(grown[t] / total + _EPS)
            if bug == "log2":
                nll /= math.log(2.0)
            if bug == "label_smoothing":
                even = log(total) - math.fsum(below) / len(below)
                nll = (1 - _SMOOTH) * nll + _SMOOTH * even
            terms.append(share * nll)
            if bug == "kept_softmax":
                soft.append([e / total for e in grown])
        if bug == "kept_softmax":
            kept[logits.shape] = soft
        loss = math.fsum(terms)
        return np.float64(loss) if bug == "widened" else logits.dtype.type(loss)

    def cross_entropy_backward(dloss, logits, targets, weights=None):
        logits, targets = np.asarray(logits), np.asarray(targets)
        weights = None if weights is None else np.asarray(weights)
        dtype = np.dtype(np.float64) if bug == "widened" else logits.dtype
        dlogits = np.zeros(logits.shape, dtype)
        if bug == "shared_buffer":
            dlogits = buffers.setdefault((logits.shape, dtype), dlogits)
        ids = flat(targets, bug)
        ours = shares(targets, weights, bug)
        if bug == "inplace" and weights is not None:
            for at, share in zip(np.ndindex(targets.shape), ours, strict=True):
                weights[at] = share
        for i, (at, t, share) in enumerate(zip(np.ndindex(targets.shape), ids, ours, strict=True)):
            _, grown = exponentials(logits[at].tolist(), bug, logits)
            total = math.fsum(grown)
            p = [e / total for e in grown]
            if bug == "double_softmax":
                grown = [math.exp(x) for x in p]
                p = [e / math.fsum(grown) for e in grown]
            if bug == "kept_softmax":
                p = kept.get(logits.shape, {i: p})[i]
            up = share * dloss
            if bug == "dloss_missing":
                up = share
            if bug == "dloss_squared":
                up = share * dloss * dloss
            if bug == "sign":
                up = -up
            if bug == "eps_log":
                up *= p[t] / (p[t] + _EPS)
            if bug == "log2":
                up /= math.log(2.0)
            for j in range(len(p)):
                true = 1.0 if j == t else 0.0
                if bug == "onehot_missing":
                    true = 0.0
                if bug == "onehot_every_row":
                    true = 1.0 if j in ids else 0.0
                if bug == "label_smoothing":
                    true = (1 - _SMOOTH) * true + _SMOOTH / len(p)
                if bug == "weights_on_softmax_only":
                    dlogits[(*at, j)] = up * p[j] - true * dloss / len(ids)
                else:
                    dlogits[(*at, j)] = up * (p[j] - true)
        return dlogits

    return cross_entropy, cross_entropy_backward


def _einsum(bug):
    """Columns come in tiles, past a running maximum; one-hot rows; the backward by log-softmax's full Jacobian."""

    def shares(weights, targets, dtype, bug):
        w = np.ones(targets.shape, dtype) if weights is None else weights
        total = np.einsum("i->", np.reshape(w, -1))
        if total == 0:
            return np.zeros(targets.shape, dtype)
        return w / dtype.type(total)

    def top_and_total(logits, bug, width=3):
        """Of every row the largest logit, and the sum of exponentials taken around it."""
        lead = logits.shape[:-1]
        top = np.full(lead, -np.inf, logits.dtype)
        total = np.zeros(lead, logits.dtype)
        for start in range(0, logits.shape[-1], width):
            tile = logits[..., start : start + width]
            higher = np.maximum(top, tile.max(axis=-1))
            with np.errstate(over="ignore"):
                total = total * np.exp(top - higher) + np.einsum("...v->...", np.exp(tile - higher[..., None]))
            top = higher
        return (top, total)

    def log_softmax(logits, bug):
        if bug == "squeezed_logits" and logits.shape[-1] == 1 and (logits.size > 1):
            return log_softmax(logits.squeeze(), None).reshape(logits.shape)
        top, total = top_and_total(logits, bug)
        with np.errstate(over="ignore"):
            below = logits - top[..., None]
        return below - np.log(total)[..., None]

    def one_hot(targets, classes, bug):
        return targets[..., None] == np.arange(classes)

    def cross_entropy(logits, targets, weights=None):
        logits, targets = (np.asarray(logits), np.asarray(targets))
        dtype = logits.dtype
        if targets.size == 0:
            return dtype.type(0)
        log_p = log_softmax(logits, bug)
        hot = one_hot(targets, logits.shape[-1], bug)
        nll = -np.einsum("...v->...", np.where(hot, log_p, 0).astype(dtype))
        share = shares(weights, targets, dtype, None if bug in _BACKWARD_ONLY else bug)
        loss = np.einsum("i,i->", np.reshape(share, -1), np.reshape(nll, -1))
        return dtype.type(loss)

    def cross_entropy_backward(dloss, logits, targets, weights=None):
        logits, targets = (np.asarray(logits), np.asarray(targets))
        dtype = logits.dtype
        if targets.size == 0:
            return np.zeros(logits.shape, dtype)
        numeric = None
        classes = logits.shape[-1]
        if numeric == "log_softmax_naive":
            p = np.exp(log_softmax(logits, numeric))
        else:
            top, total = top_and_total(logits, numeric)
            with np.errstate(over="ignore"):
                p = np.exp(logits - top[..., None]) / total[..., None]
        hot = one_hot(targets, classes, None).astype(dtype)
        share = shares(weights, targets, dtype, bug if bug in _EINSUM_CONSISTENT else None)
        share = share * float(dloss)
        dlog_p = -hot * share[..., None]
        jacobian = np.eye(classes, dtype=dtype) - p[..., None, :]
        dlogits = np.einsum("...i,...ij->...j", dlog_p, jacobian)
        return dlogits

    return (cross_entropy, cross_entropy_backward)


_EINSUM_CONSISTENT = (
    "div_all", "ignore_forgot", "sum_not_mean", "zero_weights_nan", "mean_of_means",
    "no_div", "backward_ignore", "backward_div_all",
)  # fmt: skip


def _inplace(bug):
    """One float64 copy of the rows, sorted so that the sum goes from small to large; cast back at the end."""

    def shares(weights, targets, bug):
        w = np.empty(targets.size)
        w.fill(1.0)
        if weights is not None:
            w *= np.reshape(weights, -1)
        total = float(np.add.reduce(w))
        if total != 0:
            w /= total
        return w

    def flat(targets, bug):
        return targets.astype(np.intp).reshape(-1)

    def shift(work, bug):
        """Bring the largest logit of every row to 0, in place; -> the sums of exponentials."""
        top = np.maximum.reduce(work, axis=-1, keepdims=True)
        with np.errstate(over="ignore"):
            np.subtract(work, top, out=work)
        ordered = np.sort(work, axis=-1)
        np.exp(ordered, out=ordered)
        return np.add.reduce(ordered, axis=-1, keepdims=True)

    def cross_entropy(logits, targets, weights=None):
        logits, targets = (np.asarray(logits), np.asarray(targets))
        n, classes = (targets.size, logits.shape[-1])
        if n == 0:
            return logits.dtype.type(0)
        work = np.array(logits, dtype=np.float64, order="C")
        if bug == "squeezed_logits":
            work = work.squeeze() if work.size > 1 else work
        total = shift(work, bug)
        np.log(total, out=total)
        work -= total
        work = work.reshape(n, classes)
        nll = np.take_along_axis(work, flat(targets, bug)[:, None], axis=1)[:, 0]
        nll *= shares(weights, targets, None if bug in _BACKWARD_ONLY else bug)
        loss = -np.add.reduce(nll)
        return logits.dtype.type(loss + 0.0)

    def cross_entropy_backward(dloss, logits, targets, weights=None):
        logits, targets = (np.asarray(logits), np.asarray(targets))
        n, classes = (targets.size, logits.shape[-1])
        if n == 0:
            return np.zeros(logits.shape, logits.dtype)
        work = np.array(logits, dtype=np.float64, order="C").reshape(n, classes)
        total = shift(work, bug)
        np.exp(work, out=work)
        work /= total
        share = shares(weights, targets, bug)
        ids = flat(targets, bug)
        work.reshape(-1)[np.arange(0, n * classes, classes) + ids] -= 1
        share *= dloss
        work *= share[:, None]
        dlogits = work.astype(logits.dtype).reshape(logits.shape)
        return dlogits

    return (cross_entropy, cross_entropy_backward)
