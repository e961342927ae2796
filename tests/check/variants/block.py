"""The pre-norm Transformer block written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
_ALL = STYLES
_BACK = ("einsum", "inplace")  # the style of loops has no backward

PLANTED = {
    "post_as_pre": ("loops",),
    "residual_of_normed": ("loops",),
    "no_residual": ("loops",),
    "ln_on_branch_output": ("loops",),
    "one_norm": ("loops",),
    "same_norm": ("loops",),
    "kv_unnormed": ("loops",),
    "parallel": ("loops",),
    "final_relu": ("loops",),
    "residual_gradient_missing": ("einsum", "inplace"),
    "residual_twice": ("einsum", "inplace"),
    "dx_only_v": ("einsum", "inplace"),
    "heads_interleaved": ("loops",),
    "heads_not_swapped_back": ("loops",),
    "scale_of_whole_width": ("loops",),
    "mask_first_head_only": ("loops",),
    "mask_transposed": ("loops",),
    "empty_row_averages": ("loops",),
    "causal_by_default": ("loops",),
    "eps_second_fixed": ("loops",),
    "second_residual_from_x": ("loops",),
    "W_o_missing": ("loops",),
    "kv_swapped": ("loops",),
    "beta_2_missing": ("loops",),
    "no_b2": ("loops",),
    "widened": ("loops",),
    "adds_to_x": ("einsum", "inplace"),
    "mask_ignored_in_backward": ("einsum", "inplace"),
    "dW_q_dW_k_swapped": ("einsum", "inplace"),
    "softmax_diagonal": ("einsum", "inplace"),
    "ffn_gradient_stops": ("einsum", "inplace"),
    "norm_1_bypassed": ("einsum", "inplace"),
    "scale_missing_in_backward": ("einsum", "inplace"),
    "eps_default_in_backward": ("einsum", "inplace"),
}

INVENTED = {
    "heads_interleaved": "head i owns the columns i, i + h, ...: wrong for more than one head of width above 1",
    "heads_not_swapped_back": "the heads' outputs are joined without swapping heads and tokens back",
    "scale_of_whole_width": "scores are divided by sqrt(D), not by sqrt(D / h)",
    "mask_first_head_only": "only head 0 obeys the mask",
    "mask_transposed": "the mask's rows are taken for keys: wrong for asymmetric masks",
    "empty_row_averages": "a token that may look at nothing takes the average of all values",
    "causal_by_default": "without a mask tokens still do not look ahead",
    "eps_second_fixed": "the second norm has eps = 1e-5 whatever is given",
    "second_residual_from_x": "the feed-forward's residual is x, not x + attention",
    "W_o_missing": "the heads' outputs are not projected by W_o",
    "kv_swapped": "keys come from W_v and values from W_k",
    "beta_2_missing": "the second norm does not add beta_2",
    "no_b2": "the feed-forward network does not add b_2",
    "widened": "float32 inputs give a float64 result",
    "adds_to_x": "the first residual is added into the caller's x, where that can be written to",
    "mask_ignored_in_backward": "the backward recomputes the attention weights without the mask",
    "dW_q_dW_k_swapped": "dW_q and dW_k are returned in each other's place",
    "softmax_diagonal": "the softmax's gradient is p (1 - p) dp: its Jacobian's diagonal only",
    "ffn_gradient_stops": "dx leaves out what comes back through the feed-forward network",
    "norm_1_bypassed": "the attention's gradient reaches x without passing the first norm",
    "scale_missing_in_backward": "dW_q and dW_k, and what passes through them, lack the scores' scale",
    "eps_default_in_backward": "the backward recomputes both norms with eps = 1e-5 whatever is given",
}


def make(style, bug=None):
    """-> a namespace with block and, but for the style of loops, block_backward; with `bug`, wrong in that one way."""
    if style not in STYLES or (bug is not None and style not in PLANTED[bug]):
        raise ValueError(f"no {bug} in style {style}")
    if style == "loops":
        return SimpleNamespace(block=_loops(bug))
    forward, backward = {"einsum": _einsum, "inplace": _inplace}[style](bug)
    return SimpleNamespace(block=forward, block_backward=backward)


def _allowed(bug, mask, lead, n):
    """The mask that attention is to use, (..., n, n)."""
    if mask is None:
        allowed = np.tril(np.ones((n, n), bool)) if bug == "causal_by_default" else np.ones((n, n), bool)
    else:
        allowed = np.broadcast_to(mask, (*lead, n, n)) if mask.ndim > 2 else np.broadcast_to(mask, (n, n))
    if bug == "mask_transposed":
        allowed = np.swapaxes(allowed, -1, -2)
    return np.broadcast_to(allowed, (*lead, n, n))


def _loops(bug):
    """Token by token; attention reads keys one at a time and rescales what it has gathered (online softmax)."""

    def norm(row, gamma, beta, eps):
        mean = math.fsum(row) / len(row)
        centred = [v - mean for v in row]
        deviation = math.hypot(math.hypot(*centred) / math.sqrt(len(row)), math.sqrt(eps))
        return [c / deviation * g + b for c, g, b in zip(centred, gamma, beta, strict=True)]

    def times(row, columns):
        return [sum(v * w for v, w in zip(row, column, strict=True)) for column in columns]

    def plus(a, b):
        return [v + w for v, w in zip(a, b, strict=True)]

    def attend(query, keys, values, may, scale):
        top, total, gathered = -math.inf, 0.0, [0.0] * len(values[0])
        if bug == "empty_row_averages" and not any(may):
            return [math.fsum(column) / len(values) for column in zip(*values, strict=True)]
        for key, value, look in zip(keys, values, may, strict=True):
            if not look:
                continue
            score = scale * sum(a * b for a, b in zip(query, key, strict=True))
            if score > top:
                shrink = math.exp(top - score)
                total, gathered, top = total * shrink, [g * shrink for g in gathered], score
            weight = math.exp(score - top)
            total += weight
            gathered = [g + weight * v for g, v in zip(gathered, value, strict=True)]
        return [g / total for g in gathered] if total else gathered

    def attention(read, raw, weights, heads, allowed):
        """-> (n, D) as lists, from the tokens read and those not normalised."""
        W_q, W_k, W_v, W_o = weights
        width = len(W_q) // heads
        source = raw if bug == "kv_unnormed" else read
        q, k, v = [times(r, W_q) for r in read], [times(r, W_k) for r in source], [times(r, W_v) for r in source]
        if bug == "kv_swapped":
            k, v = v, k
        scale = 1 / math.sqrt(len(W_q) if bug == "scale_of_whole_width" else width)
        out = [[0.0] * len(W_q) for _ in read]
        for head in range(heads):
            own = range(head * width, (head + 1) * width)
            if bug == "heads_interleaved":
                own = range(head, len(W_q), heads)
            keys, values = [[r[c] for c in own] for r in k], [[r[c] for c in own] for r in v]
            for t, r in enumerate(q):
                may = allowed[t]
                if bug == "mask_first_head_only" and head > 0:
                    may = [True] * len(may)
                found = attend([r[c] for c in own], keys, values, may, scale)
                for c, value in zip(own, found, strict=True):
                    out[t][c] = value
        if bug == "heads_not_swapped_back":
            flat = [r[head * width + c] for head in range(heads) for r in out for c in range(width)]
            out = [flat[t * len(W_q) : (t + 1) * len(W_q)] for t in range(len(read))]
        return out if bug == "W_o_missing" else [times(r, W_o) for r in out]

    def block(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
        lead, (n, D) = x.shape[:-2], x.shape[-2:]
        allowed = _allowed(bug, mask, lead, n)
        g1, s1, g2, s2 = gamma_1.tolist(), beta_1.tolist(), gamma_2.tolist(), beta_2.tolist()
        weights = [W.T.tolist() for W in (W_q, W_k, W_v, W_o)]
        columns_1, columns_2, offset_1, offset_2 = W_1.T.tolist(), W_2.T.tolist(), b_1.tolist(), b_2.tolist()
        if bug == "same_norm":
            g2, s2 = g1, s1
        if bug == "beta_2_missing":
            s2 = [0.0] * D
        if bug == "no_b2":
            offset_2 = [0.0] * D
        eps_2 = 1e-5 if bug == "eps_second_fixed" else float(eps)
        outside = bug in ("post_as_pre", "ln_on_branch_output")

        def first(row):
            return norm(row, g1, s1, float(eps))

        def second(row):
            return row if bug == "one_norm" else norm(row, g2, s2, eps_2)

        def network(row):
            hidden = [max(v, 0.0) for v in plus(times(row, columns_1), offset_1)]
            return plus(times(hidden, columns_2), offset_2)

        y = np.empty(x.shape)
        for k in np.ndindex(*lead):
            tokens = x[k].tolist()
            if not tokens:
                continue
            read = tokens if outside else [first(r) for r in tokens]
            found = attention(read, tokens, weights, heads, allowed[k].tolist())
            for t, (row, h, a) in enumerate(zip(tokens, read, found, strict=True)):
                if bug == "post_as_pre":
                    middle = first(plus(row, a))
                    y[(*k, t)] = second(plus(middle, network(middle)))
                    continue
                if bug == "ln_on_branch_output":
                    middle = plus(row, first(a))
                    y[(*k, t)] = plus(middle, second(network(middle)))
                    continue
                middle = a if bug == "no_residual" else plus(h if bug == "residual_of_normed" else row, a)
                inner = second(row if bug == "parallel" else middle)
                out = network(inner)
                base = {"residual_of_normed": inner, "second_residual_from_x": row}.get(bug, middle)
                if bug != "no_residual":
                    out = plus(base, out)
                y[(*k, t)] = [max(v, 0.0) for v in out] if bug == "final_relu" else out
        return y if bug == "widened" else y.astype(x.dtype)

    return block


def _einsum(bug):
    """Every sublayer returns its result and a function that pulls gradients back; heads are an axis of the weights."""

    def norm(x, gamma, beta, eps):
        d = x.shape[-1]
        centring = np.eye(d, dtype=x.dtype) - np.ones((d, d), x.dtype) / d
        centred = x - np.einsum("...i->...", x)[..., None] / d
        centred = np.einsum("...i,ij->...j", centred, centring)
        rstd = 1 / np.sqrt(np.einsum("...i,...i->...", centred, centred)[..., None] / d + eps)
        hat = centred * rstd

        def pull(dy):
            jacobian = centring - np.einsum("...i,...j->...ij", hat, hat) / d
            dx = rstd * np.einsum("...ij,...j->...i", jacobian, dy * gamma)
            return (dx, np.einsum("nd,nd->d", flat(dy), flat(hat)), np.einsum("nd->d", flat(dy)))

        return (hat * gamma + beta, pull)

    def flat(x):
        return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])

    def split(W, heads):
        """(D, D) -> (D, heads, width): the columns of every head."""
        return W.reshape(len(W), heads, W.shape[1] // heads)

    def join(dW):
        return np.ascontiguousarray(dW).reshape(dW.shape[0], dW.shape[1] * dW.shape[2])

    def weights_of(scores, allowed):
        low = np.where(allowed, scores, -np.inf)
        top = np.max(low, axis=-1, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0)
        grown = np.exp(low - top)
        total = np.einsum("...m->...", grown)[..., None]
        return (grown / np.where(total == 0, 1, total)).astype(scores.dtype)

    def attention(read, source, W_q, W_k, W_v, W_o, heads, allowed):
        D = read.shape[-1]
        scale = 1 / math.sqrt(D // heads)
        to_q, to_k, to_v = (split(W, heads) for W in (W_q, W_k, W_v))
        q, k, v = (np.einsum("...nD,Dhd->...nhd", r, W) for r, W in ((read, to_q), (source, to_k), (source, to_v)))
        mask = np.repeat(allowed[..., None, :, :], heads, axis=-3)
        p = weights_of(scale * np.einsum("...nhd,...mhd->...hnm", q, k), mask)
        found = np.einsum("...hnm,...mhd->...nhd", p, v)

        def arrange(a):
            """(..., n, heads, width) -> (..., n, D)."""
            return a.reshape(read.shape)

        def back_to_heads(a):
            _n, d = (read.shape[-2], D // heads)
            return a.reshape(*read.shape[:-1], heads, d)

        whole = arrange(found)
        out = np.einsum("...nD,De->...ne", whole, W_o)

        def gradient_of(to, r, g):
            """-> what comes back to the tokens, and to the weights."""
            lead = tuple(range(r.ndim - 1))
            return (np.einsum("...nhd,Dhd->...nD", g, to), join(np.tensordot(r, g, axes=(lead, lead))))

        def pull(dout):
            p_back = p
            if bug == "mask_ignored_in_backward":
                p_back = weights_of(scale * np.einsum("...nhd,...mhd->...hnm", q, k), True)
            dW_o = np.einsum("nD,ne->De", flat(arrange(np.einsum("...hnm,...mhd->...nhd", p_back, v))), flat(dout))
            dwhole = np.einsum("...ne,De->...nD", dout, W_o)
            dfound = back_to_heads(dwhole)
            dv = np.einsum("...hnm,...nhd->...mhd", p_back, dfound)
            dp = np.einsum("...nhd,...mhd->...hnm", dfound, v)
            jacobian = p_back[..., None] * np.eye(p.shape[-1], dtype=p.dtype)
            if bug == "softmax_diagonal":
                jacobian = jacobian * (1 - p_back[..., None])
            else:
                jacobian = jacobian - np.einsum("...i,...j->...ij", p_back, p_back)
            ds = np.einsum("...ij,...j->...i", jacobian, dp)
            if bug != "scale_missing_in_backward":
                ds = scale * ds
            dq, dk = (np.einsum("...hnm,...mhd->...nhd", ds, k), np.einsum("...hnm,...nhd->...mhd", ds, q))
            by_q, dW_q = gradient_of(to_q, read, dq)
            by_k, dW_k = gradient_of(to_k, source, dk)
            by_v, dW_v = gradient_of(to_v, source, dv)
            if bug == "dx_only_v":
                by_q, by_k = (0 * by_q, 0 * by_k)
            return (by_q, by_k + by_v, dW_q, dW_k, dW_v, dW_o)

        return (out, pull)

    def network(x, W_1, b_1, W_2, b_2):
        u = np.einsum("...d,dh->...h", x, W_1) + b_1
        gate = np.heaviside(u, 0).astype(x.dtype)
        h = gate * u
        y = np.einsum("...h,ho->...o", h, W_2)
        y = y + b_2

        def pull(dy):
            du = gate * np.einsum("...o,ho->...h", dy, W_2)
            dW_1, dW_2 = (np.einsum("nd,nh->dh", flat(x), flat(du)), np.einsum("nh,no->ho", flat(h), flat(dy)))
            db_2 = np.einsum("no->o", flat(dy))
            return (np.einsum("...h,dh->...d", du, W_1), dW_1, np.einsum("nh->h", flat(du)), dW_2, db_2)

        return (y, pull)

    def run(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask, eps):
        """-> y, and a function from dy to all gradients: those of the op as it is computed here."""
        allowed = _allowed(bug, mask, x.shape[:-2], x.shape[-2])
        attend = (W_q, W_k, W_v, W_o, heads, allowed)
        layers = (W_1, b_1, W_2, b_2)
        eps_2 = float(eps)
        eps = float(eps)
        after = (gamma_2, beta_2, eps_2)

        def second(a):
            return norm(a, *after)

        read, pull_1 = norm(x, gamma_1, beta_1, eps)
        a, pull_a = attention(read, read, *attend)
        middle = x + a
        inner, pull_2 = second(middle)
        f, pull_f = network(inner, *layers)
        base = middle
        y = base + f

        def pull(dy):
            dinner, *d_layers = pull_f(dy)
            dx, dg2, ds2 = pull_2(dinner)
            dmiddle, dread = (0 * dy, 0 * dy)
            dmiddle, dx = (dx + dy, 0 * dy)
            if bug == "residual_gradient_missing":
                dmiddle = dmiddle - dy
            by_q, by_kv, *d_attend = pull_a(dmiddle)
            dread = dread + by_q + by_kv
            through, dg1, ds1 = pull_1(dread)
            if bug == "norm_1_bypassed":
                through = dread
            dx = dx + through
            dx = dx + (dy if bug == "ffn_gradient_stops" else dmiddle)
            if bug == "residual_twice":
                dx = dx + dmiddle
            if bug == "dW_q_dW_k_swapped":
                d_attend = [d_attend[1], d_attend[0], *d_attend[2:]]
            return (dx, dg1, ds1, *d_attend, dg2, ds2, *d_layers)

        return (y, pull)

    def block(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-05):
        y, _ = run(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask, eps)
        if bug == "adds_to_x" and x.flags.writeable:
            read, _ = norm(x, gamma_1, beta_1, float(eps))
            allowed = _allowed(bug, mask, x.shape[:-2], x.shape[-2])
            x += attention(read, read, W_q, W_k, W_v, W_o, heads, allowed)[0]
        return y

    def block_backward(
        dy, x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-05
    ):
        if bug == "eps_default_in_backward":
            eps = 1e-05
        _, pull = run(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask, eps)
        return tuple(np.array(g, dtype=x.dtype) for g in pull(dy))

    return (block, block_backward)


def _inplace(bug):
    """A loop over heads that works on slices of float64 buffers; leading axes are one, and the backward is the op's."""

    def normalise(x, eps):
        """-> x_hat, rstd."""
        hat = x - np.add.reduce(x, axis=-1, keepdims=True) / x.shape[-1]
        rstd = np.add.reduce(np.square(hat), axis=-1, keepdims=True)
        rstd /= x.shape[-1]
        rstd += eps
        np.sqrt(rstd, out=rstd)
        hat /= rstd
        np.reciprocal(rstd, out=rstd)
        return (hat, rstd)

    def scaled(hat, gamma, beta):
        y = np.multiply(hat, gamma)
        y += beta
        return y

    def own(head, heads, D):
        return slice(head * (D // heads), (head + 1) * (D // heads))

    def softmax(s, allowed):
        """In place, over the last axis."""
        if not s.shape[-1]:
            return s
        s[~allowed] = -np.inf
        top = s.max(axis=-1, keepdims=True)
        top[top == -np.inf] = 0
        s -= top
        np.exp(s, out=s)
        total = np.add.reduce(s, axis=-1, keepdims=True)
        total[total == 0] = 1
        s /= total
        return s

    def weights(q, k, head, heads, allowed):
        """The attention weights of one head."""
        D = q.shape[-1]
        part = own(head, heads, D)
        s = np.matmul(q[..., part], np.swapaxes(k[..., part], -1, -2))
        s /= math.sqrt(D // heads)
        return softmax(s, allowed)

    def gather(q, k, v, heads, allowed):
        out = np.empty_like(q)
        for head in range(heads):
            part = own(head, heads, q.shape[-1])
            out[..., part] = np.matmul(weights(q, k, head, heads, allowed), v[..., part])
        return out

    def prepare(arrays, mask):
        """Own float64 copies, x and dy as (batch, n, D), and the mask as (batch, n, n)."""
        copies = [np.array(a, dtype=np.float64, order="C") for a in arrays]
        x = copies[0]
        lead, (n, D) = (x.shape[:-2], x.shape[-2:])
        batch = math.prod(lead)
        copies = [
            a.reshape(batch, n, D) if a.ndim > 1 and a.shape == x.shape and (i in (0, len(copies) - 1)) else a
            for i, a in enumerate(copies)
        ]
        return (copies, _allowed(bug, mask, lead, n).reshape(batch, n, n))

    def block(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-05):
        given = x
        (x, *rest), allowed = prepare(
            (x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2), mask
        )
        gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2 = rest
        eps = float(eps)
        eps_2 = eps

        def first(a):
            return scaled(normalise(a, eps)[0], gamma_1, beta_1)

        def second(a):
            return scaled(normalise(a, eps_2)[0], gamma_2, beta_2)

        def attend(a, source):
            return np.matmul(
                gather(np.matmul(a, W_q), np.matmul(source, W_k), np.matmul(source, W_v), heads, allowed), W_o
            )

        def network(a):
            u = np.matmul(a, W_1)
            u += b_1
            np.maximum(u, 0, out=u)
            out = np.matmul(u, W_2)
            out += b_2
            return out

        read = first(x)
        y = attend(read, read)
        y += x
        if bug == "adds_to_x" and given.flags.writeable:
            given[...] = y.reshape(given.shape)
        inner = second(y)
        y += network(inner)
        return y.reshape(given.shape).astype(given.dtype)

    def block_backward(
        dy, x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-05
    ):
        shape, dtype = (x.shape, x.dtype)
        if mask is not None and bug == "mask_ignored_in_backward":
            mask = np.ones_like(mask)
        (x, *rest, dy), allowed = prepare(
            (x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, dy), mask
        )
        gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2 = rest
        eps = 1e-05 if bug == "eps_default_in_backward" else float(eps)
        D = shape[-1]

        def total(a, b):
            """The gradient of a weight matrix: aᵀ b over all tokens."""
            return np.matmul(
                a.reshape(math.prod(a.shape[:-1]), a.shape[-1]).T, b.reshape(math.prod(b.shape[:-1]), b.shape[-1])
            )

        def through_norm(g, hat, rstd, gamma):
            """-> dx, dgamma, dbeta; g is overwritten."""
            dbeta, dgamma = (np.add.reduce(g, axis=(0, 1)), np.add.reduce(g * hat, axis=(0, 1)))
            g *= gamma
            along = np.add.reduce(g * hat, axis=-1, keepdims=True)
            along /= D
            g -= np.add.reduce(g, axis=-1, keepdims=True) / D
            g -= hat * along
            g *= rstd
            return (g, dgamma, dbeta)

        hat_1, rstd_1 = normalise(x, eps)
        read = scaled(hat_1, gamma_1, beta_1)
        q, k, v = (np.matmul(read, W_q), np.matmul(read, W_k), np.matmul(read, W_v))
        found = gather(q, k, v, heads, allowed)
        middle = np.matmul(found, W_o)
        middle += x
        hat_2, rstd_2 = normalise(middle, eps)
        inner = scaled(hat_2, gamma_2, beta_2)
        u = np.matmul(inner, W_1)
        u += b_1
        dead = u <= 0
        u[dead] = 0
        db_2, dW_2 = (np.add.reduce(dy, axis=(0, 1)), total(u, dy))
        du = np.matmul(dy, W_2.T)
        du[dead] = 0
        db_1, dW_1 = (np.add.reduce(du, axis=(0, 1)), total(inner, du))
        dmiddle, dgamma_2, dbeta_2 = through_norm(np.matmul(du, W_1.T), hat_2, rstd_2, gamma_2)
        if bug != "residual_gradient_missing":
            dmiddle += dy
        dW_o, dfound = (total(found, dmiddle), np.matmul(dmiddle, W_o.T))
        dq, dk, dv = (np.empty_like(q), np.empty_like(q), np.empty_like(q))
        for head in range(heads):
            part = own(head, heads, D)
            p = weights(q, k, head, heads, allowed)
            dv[..., part] = np.matmul(np.swapaxes(p, -1, -2), dfound[..., part])
            ds = np.matmul(dfound[..., part], np.swapaxes(v[..., part], -1, -2))
            if bug == "softmax_diagonal":
                ds *= 1 - p
            else:
                ds -= np.add.reduce(ds * p, axis=-1, keepdims=True)
            ds *= p
            if bug != "scale_missing_in_backward":
                ds /= math.sqrt(D // heads)
            dq[..., part] = np.matmul(ds, k[..., part])
            dk[..., part] = np.matmul(np.swapaxes(ds, -1, -2), q[..., part])
        dW_q, dW_k, dW_v = (total(read, dq), total(read, dk), total(read, dv))
        dread = np.matmul(dv, W_v.T)
        if bug != "dx_only_v":
            dread += np.matmul(dq, W_q.T)
            dread += np.matmul(dk, W_k.T)
        raw = dread.copy()
        dx, dgamma_1, dbeta_1 = through_norm(dread, hat_1, rstd_1, gamma_1)
        if bug == "norm_1_bypassed":
            dx = raw
        dx += dy if bug == "ffn_gradient_stops" else dmiddle
        if bug == "residual_twice":
            dx += dy
        if bug == "dW_q_dW_k_swapped":
            dW_q, dW_k = (dW_k, dW_q)
        gradients = (dgamma_1, dbeta_1, dW_q, dW_k, dW_v, dW_o, dgamma_2, dbeta_2, dW_1, db_1, dW_2, db_2)
        return (dx.reshape(shape).astype(dtype), *(g.astype(dtype) for g in gradients))

    return (block, block_backward)
