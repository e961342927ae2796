"""Layer normalisation written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "axis": ("loops",),
    "ddof1": ("loops",),
    "naive_var": ("loops",),
    "eps_outside": ("loops",),
    "no_eps": ("loops",),
    "eps_large": ("loops",),
    "eps_fixed": ("loops",),
    "gamma_plus1": ("loops",),
    "no_mean_subtraction": ("loops",),
    "var_uncentred": ("loops",),
    "beta_before_gamma": ("loops",),
    "all_axes": ("loops",),
    "gamma_missing": ("loops",),
    "no_mean": ("loops",),
    "no_xhat": ("loops",),
    "sum_not_mean": ("loops",),
    "r_missing": ("loops",),
    "dgamma_lastbatch": ("loops",),
    "dgamma_x": ("loops",),
    "dbeta_mean": ("loops",),
    "dgamma_mean": ("loops",),
    "dgamma_batch": ("loops",),
    "returns_std": ("loops",),
    "x_hat_is_y": ("loops",),
    "eps_floor": ("loops",),
    "size_one_identity": ("loops",),
    "fortran_order": ("loops",),
    "single_in_double": ("loops",),
    "widened": ("loops",),
    "constant_rows_frozen": ("loops",),
    "centres_input": ("einsum", "inplace"),
    "shared_buffer": ("loops",),
    "remembers_rstd": ("einsum", "inplace"),
    "gamma_twice": ("loops",),
    "dbeta_gamma": ("loops",),
    "projection_of_dy": ("loops",),
    "means_over_batch": ("loops",),
    "dgamma_one_axis": ("loops",),
}

INVENTED = {
    "returns_std": "the third result is the standard deviation, not its reciprocal",
    "x_hat_is_y": "the second result is y, after gamma and beta, not the normalised input",
    "eps_floor": "an eps below 1e-5 is raised to 1e-5, as some GPU libraries do",
    "size_one_identity": "a feature axis of size 1 is passed through unnormalised",
    "fortran_order": "rows are cut in memory order, which is wrong for Fortran-ordered x only",
    "single_in_double": "float64 inputs are normalised in float32",
    "widened": "float32 inputs give float64 results",
    "constant_rows_frozen": "rows without any variance report rstd = 0, so that their gradient vanishes",
    "centres_input": "the mean is subtracted from the caller's x, where that can be written to",
    "shared_buffer": "results live in a buffer that the next call of the same shape overwrites",
    "remembers_rstd": "the backward uses the rstd of the latest forward, not the one it is given, where shapes agree",
    "gamma_twice": "dx takes gamma twice",
    "dbeta_gamma": "dbeta is the sum of dy gamma",
    "projection_of_dy": "the part along x_hat is that of dy, not of dy gamma: wrong where gamma varies",
    "means_over_batch": "the backward's two means are over all tokens: wrong for more than one",
    "dgamma_one_axis": "dgamma and dbeta are summed over the first axis only: wrong for two or more leading axes",
}


def make(style, bug=None):
    """-> a namespace with layer_norm and layer_norm_backward; with `bug`, wrong in exactly that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    forward, backward = {"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(layer_norm=forward, layer_norm_backward=backward)


def _epsilon(bug, eps):
    if bug == "no_eps":
        return 0.0
    if bug == "eps_large":
        return 1e-2
    if bug == "eps_fixed":
        return 1e-5
    if bug == "eps_floor":
        return max(float(eps), 1e-5)
    return float(eps)


def _memory_order(x):
    """The rows as they lie in memory, in the shape of x."""
    return x.reshape(-1, x.shape[-1], order="A").reshape(x.shape) if x.size else x


def _loops(bug):
    """One group of numbers at a time; hypotenuses where others square, add and take roots."""
    kept = {}

    def groups(shape):
        """Pairs of indices: which entries share their statistics, and where their rstd goes."""
        if bug == "all_axes":
            return [(..., ...)]
        if bug == "axis" and len(shape) > 1:
            return [((*i, slice(None), j), (*i, 0, j)) for i in np.ndindex(*shape[:-2]) for j in range(shape[-1])]
        return [(i, i) for i in np.ndindex(*shape[:-1])]

    def statistics(values, eps, dtype):
        """-> the values centred, and rstd."""
        count = len(values)
        mean = math.fsum(values) / count
        centred = [v - mean for v in values]
        rest = math.fsum(centred) / count
        centred = [v - rest for v in centred]
        if bug == "no_mean_subtraction":
            centred = values
        length = math.hypot(*(values if bug == "var_uncentred" else centred))
        if bug == "naive_var":
            square = sum((dtype.type(v) * dtype.type(v) for v in values), dtype.type(0)) / dtype.type(count)
            plain = sum((dtype.type(v) for v in values), dtype.type(0)) / dtype.type(count)
            deviation = math.sqrt(max(float(square - plain * plain), 0.0))
        elif bug == "ddof1":
            deviation = length / math.sqrt(max(count - 1, 1))
        else:
            deviation = length / math.sqrt(count)
        if bug == "eps_outside":
            return centred, 1 / (deviation + eps)
        if bug == "constant_rows_frozen" and deviation == 0:
            return centred, 0.0
        if bug == "size_one_identity" and count == 1:
            return values, 1.0
        return centred, 1 / math.hypot(deviation, math.sqrt(eps))

    def layer_norm(x, gamma, beta, eps=1e-5):
        eps, shape, dtype = _epsilon(bug, eps), x.shape, x.dtype
        if bug == "fortran_order":
            x = _memory_order(x)
        if bug == "single_in_double":
            x, gamma, beta = (a.astype(np.float32) for a in (x, gamma, beta))
        lead = shape[:-1]
        x_hat = np.zeros(shape)
        rstd = np.zeros((*shape[:-2], 1, shape[-1]) if bug == "axis" and len(shape) > 1 else (*lead, 1))
        for here, there in groups(shape) if x.size else []:
            part = x[here]
            centred, r = statistics(part.reshape(-1).tolist(), eps, x.dtype)
            rstd[there] = r
            x_hat[here] = np.reshape([v * r for v in centred], part.shape)
        y = np.zeros(shape)
        g, b = gamma.tolist(), beta.tolist()
        for i in np.ndindex(*lead):
            for j, v in enumerate(x_hat[i].tolist()):
                if bug == "beta_before_gamma":
                    y[(*i, j)] = (v + b[j]) * g[j]
                elif bug == "gamma_plus1":
                    y[(*i, j)] = v * (1 + g[j]) + b[j]
                else:
                    y[(*i, j)] = v * g[j] + b[j]
        if bug == "returns_std":
            rstd = np.array([1 / r for r in rstd.ravel().tolist()]).reshape(rstd.shape)
        if bug == "x_hat_is_y":
            x_hat = y.copy()
        if bug == "widened":
            return y, x_hat, rstd
        if bug == "single_in_double":
            y, x_hat, rstd = (a.astype(np.float32) for a in (y, x_hat, rstd))
        results = tuple(a.astype(dtype) for a in (y, x_hat, rstd))
        if bug == "shared_buffer":
            for name, a in zip("yhr", results, strict=True):
                kept.setdefault((name, shape, dtype), np.empty_like(a))[...] = a
            return tuple(kept[name, shape, dtype] for name in "yhr")
        return results

    def layer_norm_backward(dy, x_hat, rstd, gamma):
        d, dtype, lead = x_hat.shape[-1], x_hat.dtype, x_hat.shape[:-1]
        scale = gamma.tolist()
        if bug == "gamma_missing":
            scale = [1.0] * d
        if bug == "gamma_plus1":
            scale = [1 + v for v in scale]
        if bug == "gamma_twice":
            scale = [v * v for v in scale]
        spread = np.broadcast_to(rstd, x_hat.shape)
        dx = np.empty(x_hat.shape, dtype)
        share = 1.0 if bug == "sum_not_mean" else 1 / max(d, 1)
        tokens = [(i, dy[i].tolist(), x_hat[i].tolist(), spread[i].tolist()) for i in np.ndindex(*lead)]
        sums = []
        for _, up, hat, _ in tokens:
            g = [u * s for u, s in zip(up, scale, strict=True)]
            seen = up if bug == "projection_of_dy" else g
            sums.append((math.fsum(g) * share, math.fsum(a * h for a, h in zip(seen, hat, strict=True)) * share))
        if bug == "means_over_batch" and tokens:
            sums = [tuple(math.fsum(s) / len(sums) for s in zip(*sums, strict=True))] * len(sums)
        dgamma, dbeta = [[] for _ in range(d)], [[] for _ in range(d)]
        for (i, up, hat, r), (along_one, along_hat) in zip(tokens, sums, strict=True):
            for j in range(d):
                v = up[j] * scale[j]
                if bug not in ("no_mean", "no_mean_subtraction"):
                    v -= along_one
                if bug != "no_xhat":
                    v -= hat[j] * along_hat
                dx[(*i, j)] = v if bug == "r_missing" else v * r[j]
                dbeta[j].append(up[j] * gamma[j].item() if bug == "dbeta_gamma" else up[j])
                if bug == "dgamma_x":
                    dgamma[j].append(up[j])
                elif bug != "dgamma_lastbatch" or not i or i[0] == lead[0] - 1:
                    dgamma[j].append(up[j] * hat[j])
        count = max(len(tokens), 1)
        if bug == "dgamma_batch":
            dgamma_result = (dy.astype(np.float64) * x_hat).astype(dtype)
        elif bug == "dgamma_one_axis" and len(lead) > 1:
            product = dy.astype(np.float64) * x_hat
            return dx, product.sum(axis=0).astype(dtype), dy.sum(axis=0, dtype=np.float64).astype(dtype)
        else:
            total = [math.fsum(column) for column in dgamma]
            dgamma_result = np.array([t / count for t in total] if bug == "dgamma_mean" else total, dtype)
        total = [math.fsum(column) for column in dbeta]
        return dx, dgamma_result, np.array([t / count for t in total] if bug == "dbeta_mean" else total, dtype)

    return layer_norm, layer_norm_backward


def _einsum(bug):
    """Mean and variance from the differences of all pairs; the backward by each token's whole Jacobian."""
    latest = {}

    def arrange(x):
        """What shares its statistics comes to lie along the last axis."""
        return x

    def restore(x, shape):
        return x

    def layer_norm(x, gamma, beta, eps=1e-05):
        eps, shape, _dtype = (_epsilon(bug, eps), x.shape, x.dtype)
        if bug == "centres_input" and x.flags.writeable and x.size:
            x -= x.mean(axis=-1, keepdims=True)
        group = arrange(x)
        n = max(group.shape[-1], 1)
        pairs = group[..., :, None] - group[..., None, :]
        centred = np.einsum("...ij->...i", pairs) / n
        size = np.maximum(np.max(np.abs(pairs), axis=(-2, -1), initial=0)[..., None], 1)
        unit = pairs / size[..., None]
        variance = np.einsum("...ij,...ij->...", unit, unit)[..., None] / (2 * n * n)
        rstd = 1 / (size * np.sqrt(variance + (math.sqrt(eps) / size) ** 2))
        x_hat = restore(np.ascontiguousarray(centred * rstd), shape)
        rstd = restore(rstd, shape)
        y = np.einsum("...d,d->...d", x_hat, gamma) + beta
        latest["rstd"] = rstd.copy() if bug == "remembers_rstd" else None
        return (y, x_hat, rstd)

    def layer_norm_backward(dy, x_hat, rstd, gamma):
        shape, d, dtype = (x_hat.shape, x_hat.shape[-1], x_hat.dtype)
        if bug == "remembers_rstd" and getattr(latest.get("rstd"), "shape", None) == rstd.shape:
            rstd = latest["rstd"].astype(dtype)
        g = dy * gamma
        seen = arrange(g)
        along, hat, r = (arrange(g), arrange(x_hat), arrange(np.broadcast_to(rstd, shape)))
        n = max(hat.shape[-1], 1)
        share = n
        centring = np.eye(hat.shape[-1], dtype=dtype)
        centring = centring - np.ones_like(centring) / share
        dx = np.einsum("ij,...j->...i", centring, along)
        onto_hat = np.einsum("...i,...j->...ij", hat, hat) / share
        dx = dx - np.einsum("...ij,...j->...i", onto_hat, seen)
        dx = r * dx
        dx = np.ascontiguousarray(restore(dx, shape))
        rows_dy, rows_hat = (a.reshape(math.prod(shape[:-1]), d) for a in (dy, x_hat))
        max(len(rows_dy), 1)
        dbeta = np.einsum("nd->d", rows_dy)
        dgamma = np.einsum("nd,nd->d", rows_dy, rows_hat)
        return (dx, dgamma.copy(), dbeta.copy())

    return (layer_norm, layer_norm_backward)


def _inplace(bug):
    """Own float64 copies, overwritten step by step; the centring is done twice, for what rounding left over."""
    _kept, latest = ({}, {})

    def layer_norm(x, gamma, beta, eps=1e-05):
        eps, dtype = (_epsilon(bug, eps), x.dtype)
        inside = np.float64
        work = np.array(x, dtype=inside, order="C")
        axes = -1
        count = max(x.shape[axes], 1)
        work.copy()
        for _ in range(2):
            mean = np.add.reduce(work, axis=axes, keepdims=True)
            mean /= count
            work -= mean
        if bug == "centres_input" and x.flags.writeable:
            x[...] = work
        square = np.multiply(work, work)
        rstd = np.add.reduce(square, axis=axes, keepdims=True)
        rstd /= count
        rstd += eps
        np.sqrt(rstd, out=rstd)
        np.reciprocal(rstd, out=rstd)
        work *= rstd
        y = work.copy()
        y *= gamma
        y += beta
        latest["rstd"] = rstd.copy() if bug == "remembers_rstd" else None
        results = tuple(a.astype(dtype) for a in (y, work, rstd))
        return results

    def layer_norm_backward(dy, x_hat, rstd, gamma):
        shape, d, dtype = (x_hat.shape, x_hat.shape[-1], x_hat.dtype)
        if bug == "remembers_rstd" and getattr(latest.get("rstd"), "shape", None) == rstd.shape:
            rstd = latest["rstd"]
        dx = np.array(dy, dtype=np.float64, order="C")
        product = dx.copy()
        product *= x_hat
        rows = product.reshape(math.prod(shape[:-1]), d)
        max(len(rows), 1)
        dgamma, dbeta = (np.zeros(d), np.zeros(d))
        for row_product, row in zip(rows, dx.reshape(rows.shape), strict=True):
            dgamma += row_product
            dbeta += row
        product *= gamma
        dx *= gamma
        axes, size = (-1, max(d, 1))
        along_one = np.add.reduce(dx, axis=axes, keepdims=True)
        along_hat = np.add.reduce(product, axis=axes, keepdims=True)
        along_one /= size
        along_hat /= size
        dx -= along_one
        np.multiply(x_hat, along_hat, out=product)
        dx -= product
        dx *= rstd
        return (dx.astype(dtype), dgamma.astype(dtype), dbeta.astype(dtype))

    return (layer_norm, layer_norm_backward)
