"""Layer normalisation written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES

PLANTED = {
    "axis": _ALL,
    "ddof1": _ALL,
    "naive_var": _ALL,
    "eps_outside": _ALL,
    "no_eps": _ALL,
    "eps_large": _ALL,
    "eps_fixed": _ALL,
    "gamma_plus1": _ALL,
    "no_mean_subtraction": _ALL,
    "var_uncentred": _ALL,
    "beta_before_gamma": _ALL,
    "all_axes": _ALL,
    "gamma_missing": _ALL,
    "no_mean": _ALL,
    "no_xhat": _ALL,
    "sum_not_mean": _ALL,
    "r_missing": _ALL,
    "dgamma_lastbatch": _ALL,
    "dgamma_x": _ALL,
    "dbeta_mean": _ALL,
    "dgamma_mean": _ALL,
    "dgamma_batch": _ALL,
    "returns_std": _ALL,
    "x_hat_is_y": _ALL,
    "eps_floor": _ALL,
    "size_one_identity": _ALL,
    "fortran_order": _ALL,
    "single_in_double": _ALL,
    "widened": ("loops", "einsum"),
    "constant_rows_frozen": ("loops", "inplace"),
    "centres_input": ("einsum", "inplace"),
    "shared_buffer": ("loops", "inplace"),
    "remembers_rstd": ("einsum", "inplace"),
    "gamma_twice": _ALL,
    "dbeta_gamma": _ALL,
    "projection_of_dy": _ALL,
    "means_over_batch": ("loops", "inplace"),
    "dgamma_one_axis": _ALL,
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
        if bug == "all_axes":
            return x.reshape(1, x.size)
        return np.swapaxes(x, -1, -2) if bug == "axis" and x.ndim > 1 else x

    def restore(x, shape):
        if bug == "all_axes":
            return x.reshape(shape) if x.size == math.prod(shape) else x.reshape((1,) * len(shape))
        return np.swapaxes(x, -1, -2) if bug == "axis" and len(shape) > 1 else x

    def layer_norm(x, gamma, beta, eps=1e-5):
        eps, shape, dtype = _epsilon(bug, eps), x.shape, x.dtype
        if bug == "fortran_order":
            x = _memory_order(x)
        if bug == "single_in_double":
            x, gamma, beta = (a.astype(np.float32) for a in (x, gamma, beta))
        if bug == "centres_input" and x.flags.writeable and x.size:
            x -= x.mean(axis=-1, keepdims=True)
        group = arrange(x)
        n = max(group.shape[-1], 1)
        pairs = group[..., :, None] - group[..., None, :]
        centred = np.einsum("...ij->...i", pairs) / n
        if bug == "no_mean_subtraction":
            centred = group
        if bug in ("no_mean_subtraction", "var_uncentred"):
            size = np.maximum(np.max(np.abs(group), axis=-1, keepdims=True, initial=0), 1)
            unit = group / size
            variance = np.einsum("...i,...i->...", unit, unit)[..., None] / n
        elif bug == "naive_var":
            size = np.ones_like(group[..., :1])
            square = np.einsum("...i,...i->...", group, group)[..., None] / n
            variance = np.maximum(square - (np.einsum("...i->...", group)[..., None] / n) ** 2, 0)
        else:
            size = np.maximum(np.max(np.abs(pairs), axis=(-2, -1), initial=0)[..., None], 1)
            unit = pairs / size[..., None]
            variance = np.einsum("...ij,...ij->...", unit, unit)[..., None] / (2 * n * n)
        if bug == "ddof1":
            variance = variance * n / np.maximum(n - 1, 0).astype(x.dtype)
        if bug == "eps_outside":
            rstd = 1 / (size * np.sqrt(variance) + eps)
        else:
            rstd = 1 / (size * np.sqrt(variance + (math.sqrt(eps) / size) ** 2))
        if bug == "size_one_identity" and n == 1:
            centred, rstd = group, np.ones_like(rstd)
        x_hat = restore(np.ascontiguousarray(centred * rstd), shape)
        rstd = restore(rstd, shape)
        if bug == "beta_before_gamma":
            y = np.einsum("...d,d->...d", x_hat + beta, gamma)
        else:
            y = np.einsum("...d,d->...d", x_hat, 1 + gamma if bug == "gamma_plus1" else gamma) + beta
        if bug == "returns_std":
            rstd = 1 / rstd
        if bug == "x_hat_is_y":
            x_hat = y.copy()
        if bug == "widened":
            rstd = rstd * np.ones(1)
            return y, x_hat * np.float64(1), rstd
        if bug == "single_in_double":
            return y.astype(dtype), x_hat.astype(dtype), rstd.astype(dtype)
        latest["rstd"] = rstd.copy() if bug == "remembers_rstd" else None
        return y, x_hat, rstd

    def layer_norm_backward(dy, x_hat, rstd, gamma):
        shape, d, dtype = x_hat.shape, x_hat.shape[-1], x_hat.dtype
        if bug == "remembers_rstd" and getattr(latest.get("rstd"), "shape", None) == rstd.shape:
            rstd = latest["rstd"].astype(dtype)
        g = dy * gamma
        if bug == "gamma_missing":
            g = dy * np.ones_like(gamma)
        if bug == "gamma_plus1":
            g = dy + g
        if bug == "gamma_twice":
            g = g * gamma
        seen = arrange(dy if bug == "projection_of_dy" else g)
        along, hat, r = arrange(g), arrange(x_hat), arrange(np.broadcast_to(rstd, shape))
        n = max(hat.shape[-1], 1)
        share = 1 if bug == "sum_not_mean" else n
        centring = np.eye(hat.shape[-1], dtype=dtype)
        if bug not in ("no_mean", "no_mean_subtraction"):
            centring = centring - np.ones_like(centring) / share
        dx = np.einsum("ij,...j->...i", centring, along)
        if bug != "no_xhat":
            onto_hat = np.einsum("...i,...j->...ij", hat, hat) / (max(n - 1, 1) if bug == "ddof1" else share)
            dx = dx - np.einsum("...ij,...j->...i", onto_hat, seen)
        if bug != "r_missing":
            dx = r * dx
        dx = np.ascontiguousarray(restore(dx, shape))
        rows_dy, rows_hat = (a.reshape(math.prod(shape[:-1]), d) for a in (dy, x_hat))
        count = max(len(rows_dy), 1)
        dbeta = np.einsum("nd->d", rows_dy * gamma if bug == "dbeta_gamma" else rows_dy)
        dgamma = np.einsum("nd,nd->d", rows_dy, rows_hat)
        if bug == "dgamma_lastbatch" and len(shape) > 1:
            dgamma = (dy[-1:] * x_hat[-1:]).reshape(-1, max(d, 1)).sum(axis=0)
        if bug == "dgamma_x":
            dgamma = dbeta.copy()
        if bug == "dbeta_mean":
            dbeta = dbeta / count
        if bug == "dgamma_mean":
            dgamma = dgamma / count
        if bug == "dgamma_batch" and len(shape) > 1:
            dgamma = np.einsum("...nd,...nd->...d", dy, x_hat) if len(shape) > 2 else dy * x_hat
        if bug == "dgamma_one_axis" and len(shape) > 2:
            dgamma, dbeta = np.einsum("n...,n...->...", dy, x_hat), np.einsum("n...->...", dy)
        return dx, dgamma.copy(), dbeta.copy()

    return layer_norm, layer_norm_backward


def _inplace(bug):
    """Own float64 copies, overwritten step by step; the centring is done twice, for what rounding left over."""
    kept, latest = {}, {}

    def layer_norm(x, gamma, beta, eps=1e-5):
        eps, dtype = _epsilon(bug, eps), x.dtype
        inside = np.float32 if bug == "single_in_double" else np.float64
        work = np.array(_memory_order(x) if bug == "fortran_order" else x, dtype=inside, order="C")
        axes = -1
        if bug == "axis" and x.ndim > 1:
            axes = -2
        if bug == "all_axes":
            axes = tuple(range(x.ndim))
        count = max(math.prod(x.shape) if bug == "all_axes" else x.shape[axes], 1)
        raw = work.copy()
        for _ in range(2):
            mean = np.add.reduce(work, axis=axes, keepdims=True)
            mean /= count
            if bug != "no_mean_subtraction":
                work -= mean
        if bug == "centres_input" and x.flags.writeable:
            x[...] = work
        square = np.multiply(work, work)
        if bug == "var_uncentred":
            np.multiply(raw, raw, out=square)
        rstd = np.add.reduce(square, axis=axes, keepdims=True)
        rstd /= max(count - 1, 1) if bug == "ddof1" else count
        if bug == "naive_var":
            rstd = np.asarray(np.mean(x * x, axis=-1, keepdims=True) - np.mean(x, axis=-1, keepdims=True) ** 2)
            rstd = rstd.astype(inside)
        constant = rstd == 0
        if bug == "eps_outside":
            np.sqrt(rstd, out=rstd)
            rstd += eps
        else:
            rstd += eps
            np.sqrt(rstd, out=rstd)
        np.reciprocal(rstd, out=rstd)
        if bug == "constant_rows_frozen":
            rstd[constant] = 0
        if bug == "size_one_identity" and x.shape[-1] == 1:
            work[...] = raw
            rstd[...] = 1
        work *= rstd
        y = work.copy()
        if bug == "beta_before_gamma":
            y += beta
            y *= gamma
        else:
            y *= gamma
            if bug == "gamma_plus1":
                y += work
            y += beta
        if bug == "returns_std":
            np.reciprocal(rstd, out=rstd)
        if bug == "x_hat_is_y":
            work[...] = y
        latest["rstd"] = rstd.copy() if bug == "remembers_rstd" else None
        results = tuple(a.astype(dtype) for a in (y, work, rstd))
        if bug == "shared_buffer":
            y, x_hat, rstd = results
            buffer = kept.setdefault((x.shape, dtype), np.empty_like(x_hat))
            buffer[...] = x_hat
            return y, buffer, rstd
        return results

    def layer_norm_backward(dy, x_hat, rstd, gamma):
        shape, d, dtype = x_hat.shape, x_hat.shape[-1], x_hat.dtype
        if bug == "remembers_rstd" and getattr(latest.get("rstd"), "shape", None) == rstd.shape:
            rstd = latest["rstd"]
        dx = np.array(dy, dtype=np.float64, order="C")
        product = dx.copy()
        product *= x_hat
        rows = product.reshape(math.prod(shape[:-1]), d)
        count = max(len(rows), 1)
        dgamma, dbeta = np.zeros(d), np.zeros(d)
        for row_product, row in zip(rows, dx.reshape(rows.shape), strict=True):
            dgamma += row if bug == "dgamma_x" else row_product
            dbeta += row * gamma if bug == "dbeta_gamma" else row
        if bug == "dgamma_lastbatch" and dy.ndim > 1:
            np.add.reduce(product[-1:].reshape(math.prod(shape[1:-1]) * len(product[-1:]), d), axis=0, out=dgamma)
        if bug == "dgamma_mean":
            dgamma /= count
        if bug == "dbeta_mean":
            dbeta /= count
        if bug == "dgamma_batch":
            dgamma = product.copy()
        if bug == "dgamma_one_axis" and dy.ndim > 1:
            dgamma, dbeta = np.add.reduce(product, axis=0), np.add.reduce(dx, axis=0)
        if bug not in ("projection_of_dy", "gamma_missing"):
            product *= gamma
        if bug != "gamma_missing":
            dx *= gamma
        if bug == "gamma_twice":
            dx *= gamma
            product *= gamma
        axes, size = -1, max(d, 1)
        if bug == "means_over_batch":
            axes, size = tuple(range(dx.ndim)), max(dx.size, 1)
        if bug == "sum_not_mean":
            size = 1
        along_one = np.add.reduce(dx, axis=axes, keepdims=True)
        along_hat = np.add.reduce(product, axis=axes, keepdims=True)
        along_one /= size
        along_hat /= size
        if bug != "no_mean":
            dx -= along_one
        np.multiply(x_hat, along_hat, out=product)
        if bug != "no_xhat":
            dx -= product
        if bug != "r_missing":
            dx *= rstd
        return dx.astype(dtype), dgamma.astype(dtype), dbeta.astype(dtype)

    return layer_norm, layer_norm_backward
