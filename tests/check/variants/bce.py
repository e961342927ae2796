"""Binary cross-entropy on logits written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
PLANTED = {
    "naive_sigmoid_log": ("loops",),
    "targets_ignored_second_term": ("loops",),
    "div_all": ("loops",),
    "weights_ignored": ("loops",),
    "hard_targets": ("loops",),
    "sum_not_mean": ("loops",),
    "swapped": ("loops",),
    "extra_sigmoid_derivative": ("loops",),
    "no_div": ("loops",),
    "dloss_missing": ("loops",),
    "overflow_backward": ("loops",),
    "total_at_least_one": ("loops",),
    "zero_weights_nan": ("loops",),
    "clipped_logits": ("loops",),
    "log_clamped": ("loops",),
    "smoothed_targets": ("loops",),
    "zeros_ignored": ("loops",),
    "softplus_threshold": ("loops",),
    "weights_positive_only": ("loops",),
    "max_missing": ("loops",),
    "mean_of_means": ("loops",),
    "memory_order": ("loops",),
    "widened": ("loops",),
    "branch_missing": ("loops",),
    "inputs_changed": ("loops",),
    "shared_buffer": ("loops",),
    "backward_div_all": ("loops",),
    "backward_weights_twice": ("loops",),
}
INVENTED = {
    "total_at_least_one": "divides by max(sum of weights, 1): wrong only where the weights sum to less than 1",
    "zero_weights_nan": "where all weights are 0 it divides 0 by 0",
    "clipped_logits": "logits are clipped to -20..20: wrong only beyond",
    "log_clamped": "no logarithm is let below -100: wrong only for logits beyond that are on the wrong side",
    "smoothed_targets": "targets are clipped to 0.01..0.99",
    "zeros_ignored": "positions with target 0 are taken for padding and left out",
    "softplus_threshold": "log(1 + exp(x)) is taken for x where x > 15",
    "weights_positive_only": "the weights multiply the term of t, not that of 1 - t",
    "max_missing": "z stands where max(z, 0) belongs, in the stable form: wrong only for negative logits",
    "mean_of_means": "with two or more axes, the mean over rows of each row's own weighted mean",
    "memory_order": "targets are flattened in the order of memory: wrong only for targets not in C order",
    "widened": "float32 comes back as float64",
    "branch_missing": "backward: 1 / (1 + exp(-|z|)) for every sign of z: wrong only for negative logits",
    "inputs_changed": "backward: writes into an array it was given",
    "shared_buffer": "backward: equal shapes get the same array, so a later call overwrites an earlier result",
    "backward_div_all": "backward: divides by the number of positions, not by the sum of weights",
    "backward_weights_twice": "backward: multiplies by the weights twice",
}
_BACKWARD_ONLY = ("no_div", "backward_div_all", "backward_weights_twice")  # those whose code the forward shares


def make(style, bug=None):
    """-> a namespace with bce_with_logits and bce_with_logits_backward; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(bce_with_logits=forward, bce_with_logits_backward=backward)


def _loops(bug):
    """Position by position, in Python floats; the softplus of either sign."""
    buffers = {}

    def softplus(x, bug):
        if bug == "softplus_threshold" and x > 15:
            return x
        if bug == "log_clamped":
            return min(softplus(x, None), 100.0)
        if bug == "max_missing":
            return x + math.log1p(math.exp(-abs(x)))
        return max(x, 0.0) + math.log1p(math.exp(-abs(x)))

    def sigmoid(x):
        if x >= 0:
            return 1 / (1 + math.exp(-x))
        return math.exp(x) / (1 + math.exp(x))

    def log(x):
        return math.log(x) if x > 0 else -math.inf

    def values(z, targets, bug):
        """Pairs of a logit and its target."""
        order = "K" if bug == "memory_order" else "C"
        for x, t in zip(z.ravel(order="C").tolist(), targets.ravel(order=order).tolist(), strict=True):
            if bug == "hard_targets":
                t = float(t >= 0.5)
            if bug == "swapped":
                t = 1.0 - t
            if bug == "smoothed_targets":
                t = min(max(t, 0.01), 0.99)
            if bug == "clipped_logits":
                x = min(max(x, -20.0), 20.0)
            yield x, t

    def shares(targets, weights, bug):
        raw = [1.0] * targets.size
        if weights is not None and bug != "weights_ignored":
            raw = [float(weights[at]) for at in np.ndindex(targets.shape)]
        if bug == "zeros_ignored":
            raw = [0.0 if targets[at] == 0 else w for w, at in zip(raw, np.ndindex(targets.shape), strict=True)]
        if bug == "mean_of_means" and targets.ndim >= 2:
            n = targets.shape[-1]
            sums = [math.fsum(raw[i : i + n]) for i in range(0, len(raw), n)] if n else []
            return [w / sums[i // n] / len(sums) if sums[i // n] else 0.0 for i, w in enumerate(raw)]
        total = math.fsum(raw)
        if bug in ("div_all", "backward_div_all"):
            total = len(raw)
        if bug in ("sum_not_mean", "no_div"):
            total = 1.0
        if bug == "total_at_least_one":
            total = max(total, 1.0)
        if bug == "backward_weights_twice":
            raw = [w * w for w in raw]
        if total == 0 and bug != "zero_weights_nan":
            return [0.0 for _ in raw]
        return [w / total for w in raw]

    def bce_with_logits(z, targets, weights=None):
        z, targets = np.asarray(z), np.asarray(targets)
        weights = None if weights is None else np.asarray(weights)
        ours = shares(targets, weights, None if bug in _BACKWARD_ONLY else bug)
        loss = 0.0
        for (x, t), share in zip(values(z, targets, bug), ours, strict=True):
            if bug == "naive_sigmoid_log":
                s = 1 / (1 + math.exp(-x))
                loss -= share * (t * log(s) + (1 - t) * log(1 - s))
            elif bug == "targets_ignored_second_term":
                loss += share * t * softplus(-x, bug)
            elif bug == "weights_positive_only":
                loss += share * t * softplus(-x, bug) + (1 - t) * softplus(x, bug) / len(ours)
            elif bug == "max_missing":
                loss += share * (softplus(x, bug) - x * t)
            else:
                loss += share * (t * softplus(-x, bug) + (1 - t) * softplus(x, bug))
        return np.float64(loss) if bug == "widened" else z.dtype.type(loss)

    def bce_with_logits_backward(dloss, z, targets, weights=None):
        z, targets = np.asarray(z), np.asarray(targets)
        weights = None if weights is None else np.asarray(weights)
        dz = np.zeros(z.shape, np.float64 if bug == "widened" else z.dtype)
        if bug == "shared_buffer":
            dz = buffers.setdefault((z.shape, z.dtype), dz)
        ours = shares(targets, weights, bug)
        n = len(ours)
        for at, (x, t), share in zip(np.ndindex(z.shape), values(z, targets, bug), ours, strict=True):
            up, down = sigmoid(x), sigmoid(-x)
            if bug == "overflow_backward":
                up = 1 / (1 + math.exp(-x))
                down = 1 - up
            if bug == "branch_missing":
                up = 1 / (1 + math.exp(-abs(x)))
                down = 1 - up
            g = (1 - t) * up - t * down
            if bug == "targets_ignored_second_term":
                g = -t * down
            if bug == "extra_sigmoid_derivative":
                g *= up * down
            if bug == "weights_positive_only":
                g, share = (1 - t) * up / n - share * t * down, 1.0
            dz[at] = share * g if bug == "dloss_missing" else share * g * dloss
            if bug == "inputs_changed":
                z[at] = up
        return dz

    return bce_with_logits, bce_with_logits_backward


def _einsum(bug):
    """The softmax cross-entropy of two classes, with the logits z and 0."""

    def classes(targets, bug):
        """The true probabilities of the two classes, (2, ...)."""
        return np.stack([targets, 1 - targets])

    def log_p(z, bug):
        """The log-probabilities of the two classes, (2, ...)."""
        below = np.stack([np.minimum(z, 0), np.minimum(-z, 0)])
        far = -np.abs(z)
        rest = np.log1p(np.exp(far))
        result = below - rest
        return result

    def shares(weights, targets, bug):
        dtype = targets.dtype
        w = np.ones(targets.shape, dtype)
        if weights is not None:
            w = np.array(weights)
        total = np.einsum("i->", np.reshape(w, -1))
        if total == 0:
            return np.zeros(targets.shape, dtype)
        return w / dtype.type(total)

    def bce_with_logits(z, targets, weights=None):
        z, targets = (np.asarray(z), np.asarray(targets))
        share = shares(weights, targets, None if bug in _BACKWARD_ONLY else bug)
        both = np.stack([share, share])
        true = classes(targets, bug)
        two = (2, z.size)
        loss = -np.einsum("ci,ci,ci->", both.reshape(two), true.reshape(two), log_p(z, bug).reshape(two))
        return z.dtype.type(loss)

    def bce_with_logits_backward(dloss, z, targets, weights=None):
        z, targets = (np.asarray(z), np.asarray(targets))
        grown = np.exp(np.stack([np.minimum(z, 0), np.minimum(-z, 0)]))
        p = grown / np.einsum("c...->...", grown)
        true = classes(targets, None)
        slope = np.stack([p[1], -p[0]])
        g = -np.einsum("c...,c...->...", true, slope)
        share = shares(weights, targets, bug if bug in _EINSUM_CONSISTENT else None)
        share = share * float(dloss)
        dz = np.array(share * g)
        return dz

    return (bce_with_logits, bce_with_logits_backward)


_EINSUM_CONSISTENT = ("weights_ignored", "sum_not_mean", "mean_of_means", "zero_weights_nan", *_BACKWARD_ONLY)


def _inplace(bug):
    """|z| on the wrong side of 0, and what log1p adds; in float64, cast back at the end."""

    def flat(x, bug):
        """A float64 copy of the values in one row."""
        work = np.empty(x.size)
        work[...] = x.ravel(order="C")
        return work

    def true_of(targets, bug):
        t = flat(targets, bug)
        return t

    def shares(weights, targets, bug):
        w = np.ones(targets.size)
        if weights is not None:
            w *= flat(np.asarray(weights), None)
        total = float(w.sum())
        if total != 0:
            w /= total
        return w

    def bce_with_logits(z, targets, weights=None):
        z, targets = (np.asarray(z), np.asarray(targets))
        work, t = (flat(z, None), true_of(targets, bug))
        w = shares(weights, targets, None if bug in _BACKWARD_ONLY else bug)
        positive = work >= 0
        np.subtract(1.0, t, out=t, where=positive)
        far = np.abs(work)
        each = np.exp(-np.abs(work))
        np.log1p(each, out=each)
        far *= t
        each += far
        each *= w
        loss = each.sum()
        return z.dtype.type(loss)

    def bce_with_logits_backward(dloss, z, targets, weights=None):
        z, targets = (np.asarray(z), np.asarray(targets))
        work, t = (flat(z, None), true_of(targets, None))
        w = shares(weights, targets, bug)
        small = np.exp(-np.abs(work))
        dz = small + 1
        np.reciprocal(dz, out=dz)
        np.multiply(dz, small, out=dz, where=work < 0)
        dz * (1 - dz)
        dz -= t
        w *= dloss
        dz *= w
        dz = dz.astype(z.dtype).reshape(z.shape)
        return dz

    return (bce_with_logits, bce_with_logits_backward)
