"""Answers to chapter 06: what readers write for a split, for multi-head attention and for a merge's gradient."""

import numpy as np

from tests.check.variants import multi_head_attention as variants
from tinyattn import ops
from tinyattn.check.adapters import multi_head_attention as ours
from tinyattn.check.zoo import ZOO
from tinyattn.layers.mixers.multi_head import merge, split

# --- to_heads -------------------------------------------------------------------------------------------------------


def cut(x, heads):
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


def uncut(x):
    return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])


def split_and_swap(x, W, heads):
    q = x @ W
    return q.reshape(*q.shape[:-1], heads, q.shape[-1] // heads).swapaxes(-2, -3)


def no_empty_batch(x, W, heads):
    """-1 of an empty batch can be anything."""
    return (x @ W).reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


def head_by_head(x, W, heads):
    d = W.shape[1] // heads
    return np.stack([x @ W[:, i * d : (i + 1) * d] for i in range(heads)], axis=-3)


def filled_in(x, W, heads):
    """float64, whatever x is."""
    d = W.shape[1] // heads
    q = np.zeros((*x.shape[:-2], heads, x.shape[-2], d))
    for i in range(heads):
        q[..., i, :, :] = (x @ W)[..., i * d : (i + 1) * d]
    return q


def heads_by_einsum(x, W, heads):
    return np.einsum("...nD,Dhd->...hnd", x, W.reshape(W.shape[0], heads, W.shape[1] // heads))


def split_by_numpy(x, W, heads):
    return np.array(np.split(x @ W, heads, axis=-1)) if x.ndim == 2 else np.stack(np.split(x @ W, heads, -1), -3)


def heads_as_lists(x, W, heads):
    return split_and_swap(x, W, heads).tolist()


def projected_in_place(x, W, heads):
    q = x.copy()
    q[...] = x @ W
    return np.moveaxis(q.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def cut_only(x, W, heads):
    return cut(x @ W, heads)


def every_hth_column(x, W, heads):
    return np.stack([(x @ W)[..., i::heads] for i in range(heads)], axis=-3)


def slices_of_x(x, W, heads):
    d = x.shape[-1] // heads
    own = [slice(i * d, (i + 1) * d) for i in range(heads)]
    return np.stack([x[..., one] @ W[one, one] for one in own], axis=-3)


def W_transposed(x, W, heads):
    return split(x @ W.T, heads)


def no_W(x, W, heads):
    return np.array(split(x, heads))


def first_head_only(x, W, heads):
    return np.stack([x @ W[:, : W.shape[1] // heads]] * heads, axis=-3)


def last_head_first(x, W, heads):
    return np.flip(split(x @ W, heads), -3).copy()


def no_swap(x, W, heads):
    return (x @ W).reshape(*x.shape[:-1], heads, x.shape[-1] // heads)


def last_axes_swapped(x, W, heads):
    return np.swapaxes(split(x @ W, heads), -1, -2)


def heads_before_the_batch(x, W, heads):
    return np.moveaxis((x @ W).reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, 0)


def heads_forgotten(x, W, heads):
    return (x @ W)[..., None, :, :]


def scaled(x, W, heads):
    return split(x @ W, heads) / heads**0.5


# --- my_multi_head ----------------------------------------------------------------------------------------------------


def with_split_and_merge(x, W_q, W_k, W_v, W_o, heads):
    q, k, v = (split_and_swap(x, W, heads) for W in (W_q, W_k, W_v))
    out, _ = ops.attention(q, k, v)
    return merge(out) @ W_o


def by_hand_with_minus_1(x, W_q, W_k, W_v, W_o, heads):
    q, k, v = (no_empty_batch(x, W, heads) for W in (W_q, W_k, W_v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    out = e / e.sum(axis=-1, keepdims=True) @ v
    return out.swapaxes(-2, -3).reshape(x.shape) @ W_o


def loop_and_join(x, W_q, W_k, W_v, W_o, heads):
    d, outs = x.shape[-1] // heads, []
    for i in range(heads):
        own = slice(i * d, (i + 1) * d)
        outs.append(ops.attention(x @ W_q[:, own], x @ W_k[:, own], x @ W_v[:, own])[0])
    return np.concatenate(outs, axis=-1) @ W_o


def loop_and_sum(x, W_q, W_k, W_v, W_o, heads):
    d, y = x.shape[-1] // heads, np.zeros(x.shape)
    for i in range(heads):
        own = slice(i * d, (i + 1) * d)
        y += ops.attention(x @ W_q[:, own], x @ W_k[:, own], x @ W_v[:, own])[0] @ W_o[own]
    return y


def all_by_einsum(x, W_q, W_k, W_v, W_o, heads):
    D = x.shape[-1]
    q, k, v = (np.einsum("...nD,Dhd->...hnd", x, W.reshape(D, heads, D // heads)) for W in (W_q, W_k, W_v))
    p = ops.softmax(np.einsum("...hnd,...hmd->...hnm", q, k) / (D // heads) ** 0.5)
    out = np.einsum("...hnm,...hmd->...hnd", p, v)
    return np.einsum("...hnd,hdo->...no", out, W_o.reshape(heads, D // heads, D))


def multi_head_lists(x, W_q, W_k, W_v, W_o, heads):
    return loop_and_join(x, W_q, W_k, W_v, W_o, heads).tolist()


def the_librarys(x, W_q, W_k, W_v, W_o, heads):
    return ours(x, W_q, W_k, W_v, W_o, heads)


def _without_mask(wrong, name):
    def answer(x, W_q, W_k, W_v, W_o, heads):
        return wrong(x, W_q, W_k, W_v, W_o, heads)

    answer.__name__ = name
    return answer


def _in_the_zoo(name):
    return _without_mask(ZOO["multi_head_attention"].make(frozenset([name])).multi_head_attention, name), name


def _elsewhere(name, manner):
    return _without_mask(variants.make(manner, name).multi_head_attention, f"{name} by {manner}"), name


BUGS = ("split_no_T", "split_interleaved", "scale_dmodel", "heads_avg", "heads_summed", "heads_reversed",
        "kv_swapped", "same_head", "merge_no_T", "no_Wo", "one_head", "Wo_first", "Wo_transposed", "residual",
        "no_scale")  # fmt: skip


def merged_by_a_reshape(x, W_q, W_k, W_v, W_o, heads):
    q, k, v = (split(x @ W, heads) for W in (W_q, W_k, W_v))
    return uncut(ops.attention(q, k, v)[0]) @ W_o


# --- from_heads_backward ----------------------------------------------------------------------------------------------


def outer(left, right):
    return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])


def split_and_outer(dy, out, W_o):
    return split(dy @ W_o.T, out.shape[-3]), outer(merge(out), dy)


def reshapes_with_minus_1(dy, out, W_o):
    """Wrong of the empty batch alone."""
    h, d = out.shape[-3], out.shape[-1]
    joined = out.swapaxes(-2, -3).reshape(*dy.shape[:-1], -1)
    dout = (dy @ W_o.T).reshape(*dy.shape[:-1], h, -1).swapaxes(-2, -3)
    return dout, joined.reshape(-1, h * d).T @ dy.reshape(-1, h * d)


def from_heads_by_einsum(dy, out, W_o):
    h, n, d = out.shape[-3:]
    heads, g = out.reshape(-1, h, n, d), dy.reshape(-1, n, h * d)
    dout = np.einsum("bno,hdo->bhnd", g, W_o.reshape(h, d, h * d))
    return dout.reshape(out.shape), np.einsum("bhnd,bno->hdo", heads, g).reshape(W_o.shape)


def from_heads_head_by_head(dy, out, W_o):
    d = out.shape[-1]
    dout, dW_o = np.zeros(out.shape), np.zeros(W_o.shape)
    for i in range(out.shape[-3]):
        rows = slice(i * d, (i + 1) * d)
        dout[..., i, :, :] = dy @ W_o[rows].T
        dW_o[rows] = outer(out[..., i, :, :], dy)
    return dout, dW_o


def batch_by_batch(dy, out, W_o):
    h, n, d = out.shape[-3:]
    dout, dW_o = [], np.zeros_like(W_o)
    for one, g in zip(out.reshape(-1, h, n, d), dy.reshape(-1, n, h * d), strict=True):
        dout.append(np.moveaxis((g @ W_o.T).reshape(n, h, d), 0, 1))
        dW_o += np.moveaxis(one, 0, 1).reshape(n, h * d).T @ g
    return np.array(dout).reshape(out.shape), dW_o


def summed_over_axes(dy, out, W_o):
    products = np.swapaxes(merge(out), -1, -2) @ dy
    return split(dy @ W_o.T, out.shape[-3]), products.sum(axis=tuple(range(dy.ndim - 2)))


def from_heads_lists(dy, out, W_o):
    dout, dW_o = split_and_outer(dy, out, W_o)
    return [dout.tolist(), dW_o.tolist()]


def changed(dout=None, dW_o=None):
    """The right gradients, but for what is given."""

    def wrong(dy, out, W_o):
        found = split_and_outer(dy, out, W_o)
        return tuple(x if f is None else f(dy, out, W_o) for f, x in zip((dout, dW_o), found, strict=True))

    return wrong


def of_the_last(dy, out, W_o):
    return outer(merge(out).reshape(-1, *dy.shape[-2:])[-1:], dy.reshape(-1, *dy.shape[-2:])[-1:])


def of_the_first_head(dy, out, W_o):
    full = outer(merge(out), dy)
    full[out.shape[-1] :] = 0
    return full


def the_mean(dy, out, W_o):
    return outer(merge(out), dy) / dy.dtype.type(max(int(np.prod(dy.shape[:-2])), 1))


def one_a_sequence(dy, out, W_o):
    return np.swapaxes(merge(out), -1, -2) @ dy


MERGED = (
    changed(lambda dy, out, W_o: cut(dy @ W_o.T, out.shape[-3])),
    changed(None, lambda dy, out, W_o: outer(uncut(out), dy)),
    changed(lambda dy, out, W_o: cut(dy @ W_o.T, out.shape[-3]), lambda dy, out, W_o: outer(uncut(out), dy)),
    changed(lambda dy, out, W_o: split(dy @ W_o, out.shape[-3])),
    changed(None, lambda dy, out, W_o: outer(dy, merge(out))),
    changed(lambda dy, out, W_o: np.array(split(dy, out.shape[-3]))),
    changed(None, the_mean),
    changed(None, of_the_last),
    changed(None, of_the_first_head),
    changed(lambda dy, out, W_o: dy @ W_o.T),
    changed(None, one_a_sequence),
    changed(lambda dy, out, W_o: split(dy @ W_o.T, out.shape[-3]) / 2),
    changed(None, lambda dy, out, W_o: -outer(merge(out), dy)),
)

# --- joins_its_heads --------------------------------------------------------------------------------------------------


def silences_a_head(multi_head_attention):
    x, W_q, W_k, W_v = np.random.default_rng(0).standard_normal((4, 6, 6))
    silent = W_v.copy()
    silent[:, :3] = 0
    before, after = (multi_head_attention(x, W_q, W_k, W, np.eye(6), 2) for W in (W_v, silent))
    return np.allclose(after[:, :3], 0) and np.allclose(after[:, 3:], before[:, 3:])


def slices_differ(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((4, 6, 6))
    y = multi_head_attention(x, *W, np.eye(6), 2)
    return not np.allclose(y[:, :3], y[:, 3:])


def loop_agrees(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    q, k, v = (x @ w for w in W[:3])
    apart = [ops.attention(q[:, c], k[:, c], v[:, c])[0] for c in (slice(0, 3), slice(3, 6))]
    return np.allclose(np.hstack(apart) @ W[3], multi_head_attention(x, *W, 2))


def one_token(multi_head_attention):
    """It looks at itself alone: its output is its value."""
    x, W_v = np.random.default_rng(1).standard_normal((2, 4, 4))
    for token in x:
        y = multi_head_attention(token[None], np.eye(4), np.eye(4), W_v, np.eye(4), 2)
        assert np.allclose(y, token @ W_v)


def changes_one_column(multi_head_attention):
    x, W_q, W_k, W_v = np.random.default_rng(2).standard_normal((4, 8, 8))
    other = W_v.copy()
    other[:, 5] += 1
    a, b = (multi_head_attention(x, W_q, W_k, W, np.eye(8), 4) for W in (W_v, other))
    return list(np.flatnonzero((abs(a - b) > 1e-9).any(axis=0))) == [5]


def the_shape(multi_head_attention):
    x, W = np.ones((5, 6)), np.eye(6)
    return multi_head_attention(x, W, W, W, W, 2).shape == x.shape


def renumbers(multi_head_attention):
    """Heads in another order, with the rows of W_o: true of an average as well."""
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    columns = [3, 4, 5, 0, 1, 2]
    moved = [w[:, columns] for w in W[:3]] + [W[3][columns]]
    return np.allclose(multi_head_attention(x, *moved, 2), multi_head_attention(x, *W, 2))


def permutes(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    order = [4, 2, 0, 5, 1, 3]
    return np.allclose(multi_head_attention(x[order], *W, 2), multi_head_attention(x, *W, 2)[order])


def with_one_head(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((4, 6, 6))
    out = ops.attention(x @ W[0], x @ W[1], x @ W[2])[0]
    return np.allclose(multi_head_attention(x, *W, np.eye(6), 1), out)


def zero_W_o(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((4, 6, 6))
    return np.allclose(multi_head_attention(x, *W, np.zeros((6, 6)), 2), 0)


def heads_do_not_matter(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    return np.allclose(multi_head_attention(x, *W, 2), multi_head_attention(x, *W, 3))


def exactly_equal(multi_head_attention):
    """Right on paper; sums in another order round otherwise."""
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    q, k, v = (x @ w for w in W[:3])
    apart = []
    for c in (slice(0, 3), slice(3, 6)):
        e = np.exp(q[:, c] @ k[:, c].T / 3**0.5)
        apart.append(e @ v[:, c] / e.sum(axis=1)[:, None])
    return np.array_equal(np.hstack(apart) @ W[3], multi_head_attention(x, *W, 2))


def rejects_all(multi_head_attention):
    return False


def accepts_all(multi_head_attention):
    return True


def returns_it(multi_head_attention):
    return multi_head_attention


def calls_it_wrongly(multi_head_attention):
    return multi_head_attention(1)


def forgets_to_return(multi_head_attention):
    silences_a_head(multi_head_attention)


# --- more of both ---------------------------------------------------------------------------------------------------


def heads_in_front(x, W_q, W_k, W_v, W_o, heads):
    """The maps are cut instead of the tokens: (h, D, d), and W_o into (h, d, D)."""
    D = x.shape[-1]
    q, k, v = (x[..., None, :, :] @ W.reshape(D, heads, D // heads).swapaxes(0, 1) for W in (W_q, W_k, W_v))
    return (ops.attention(q, k, v)[0] @ W_o.reshape(heads, D // heads, D)).sum(axis=-3)


def by_tensordot(dy, out, W_o):
    h, _, d = out.shape[-3:]
    joined = np.concatenate([out[..., i, :, :] for i in range(h)], axis=-1)
    lead = tuple(range(joined.ndim - 1))
    djoined = np.tensordot(dy, W_o, axes=(-1, 1))
    dout = np.empty_like(out)
    for i in range(h):
        dout[..., i, :, :] = djoined[..., i * d : (i + 1) * d]
    return dout, np.tensordot(joined, dy, axes=(lead, lead))


def rows_of_W_o(multi_head_attention):
    """Half of W_o's rows are gone: what is left is one head's part, and both parts add up."""
    rng = np.random.default_rng(11)
    x, *W = rng.standard_normal((5, 6, 6))
    first, second = W[3].copy(), W[3].copy()
    first[3:], second[:3] = 0, 0
    parts = [multi_head_attention(x, *W[:3], part, 2) for part in (first, second)]
    q, k, v = (x @ w for w in W[:3])
    alone = ops.attention(q[:, :3], k[:, :3], v[:, :3])[0] @ W[3][:3]
    return np.allclose(parts[0], alone) and np.allclose(sum(parts), multi_head_attention(x, *W, 2))


def values_one_by_one(multi_head_attention):
    """Each column of W_v moves its own column of the output, and no other."""
    rng = np.random.default_rng(12)
    x, W_q, W_k, W_v = rng.standard_normal((4, 4, 4))
    before = multi_head_attention(x, W_q, W_k, W_v, np.eye(4), 2)
    for column in range(4):
        changed = W_v.copy()
        changed[:, column] *= 3
        moved = np.abs(multi_head_attention(x, W_q, W_k, changed, np.eye(4), 2) - before).max(axis=0) > 1e-9
        if moved.tolist() != [i == column for i in range(4)]:
            return False
    return True


def a_head_without_a_say(multi_head_attention):
    """The second head's keys are 0, so it averages all values; the first's columns do not change."""
    rng = np.random.default_rng(13)
    x, W_q, W_k, W_v = rng.standard_normal((4, 6, 6))
    even = W_k.copy()
    even[:, 3:] = 0
    y, z = (multi_head_attention(x, W_q, K, W_v, np.eye(6), 2) for K in (W_k, even))
    assert np.allclose(y[:, :3], z[:, :3])
    assert np.allclose(z[:, 3:], (x @ W_v)[:, 3:].mean(axis=0))


def d_and_heads_exchanged(x, W, heads):
    q = x @ W
    return q.reshape(*q.shape[:-1], q.shape[-1] // heads, heads).swapaxes(-2, -3)


def tokens_reversed(x, W, heads):
    return split_and_swap(x, W, heads)[..., ::-1, :]


def projected_twice(x, W, heads):
    return split_and_swap(x @ W, W, heads)


def dout_not_split(dy, out, W_o):
    return dy @ W_o.T, outer(merge(out), dy)


def dW_o_transposed(dy, out, W_o):
    return split(dy @ W_o.T, out.shape[-3]), outer(dy, merge(out))


def is_finite(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    return np.isfinite(multi_head_attention(x, *W, 2)).all()


def heads_of_one_width(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    return multi_head_attention(x, *W, 2).shape == multi_head_attention(x, *W, 3).shape


def doubles_with_W_o(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    return np.allclose(multi_head_attention(x, *W[:3], 2 * W[3], 2), 2 * multi_head_attention(x, *W, 2))


RIGHT = {
    "to_heads": (
        split_and_swap, no_empty_batch, head_by_head, filled_in, heads_by_einsum, split_by_numpy, heads_as_lists,
        projected_in_place,
    ),
    "my_multi_head": (
        with_split_and_merge, by_hand_with_minus_1, loop_and_join, loop_and_sum, all_by_einsum, multi_head_lists,
        the_librarys, heads_in_front,
    ),
    "from_heads_backward": (
        split_and_outer, reshapes_with_minus_1, from_heads_by_einsum, from_heads_head_by_head, batch_by_batch,
        summed_over_axes, from_heads_lists, by_tensordot,
    ),
    "joins_its_heads": (
        silences_a_head, slices_differ, loop_agrees, one_token, changes_one_column, rows_of_W_o, values_one_by_one,
        a_head_without_a_say,
    ),
}  # fmt: skip
WRONG = {
    "to_heads": tuple((answer, "") for answer in (
        cut_only, every_hth_column, slices_of_x, W_transposed, no_W, first_head_only, last_head_first, no_swap,
        last_axes_swapped, heads_before_the_batch, heads_forgotten, scaled,
        d_and_heads_exchanged, tokens_reversed, projected_twice,
    )),
    "my_multi_head": (
        *(_in_the_zoo(name) for name in BUGS),
        *(_elsewhere(name, "loops") for name in ("split_no_T", "merge_no_T", "scale_dmodel")),
        _elsewhere("kv_swapped", "loops"), (merged_by_a_reshape, "merge_no_T"),
    ),
    "from_heads_backward": tuple((answer, "") for answer in (*MERGED, dout_not_split, dW_o_transposed)),
    "joins_its_heads": tuple((answer, "") for answer in (
        the_shape, renumbers, permutes, with_one_head, zero_W_o, heads_do_not_matter, exactly_equal, rejects_all,
        accepts_all, returns_it, calls_it_wrongly, forgets_to_return,
        is_finite, heads_of_one_width, doubles_with_W_o,
    )),
}  # fmt: skip
