"""Answers to the exercises of chapter 07."""

import numpy as np

from tinyattn import ops
from tinyattn.course.exercises.chapter_07 import WRONG_ROPE, WRONG_ROPE_BACKWARD, WRONG_SINUSOIDS

# --- knows_no_order -------------------------------------------------------------------------------------------------


def _drawn(seed=0, n=5, dim=6):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, dim)), *rng.standard_normal((4, dim, dim))


def reversed_tokens(multi_head_attention):
    x, *Ws = _drawn()
    return np.allclose(multi_head_attention(x[::-1], *Ws, 2), multi_head_attention(x, *Ws, 2)[::-1])


def rolled(multi_head_attention):
    x, *Ws = _drawn(1, 4, 9)
    y = multi_head_attention(x, *Ws, 3)
    for by in (1, 2, 3):
        assert np.allclose(multi_head_attention(np.roll(x, by, axis=0), *Ws, 3), np.roll(y, by, axis=0)), by


def with_a_matrix(multi_head_attention):
    x, *Ws = _drawn(2)
    P = np.eye(5)[[2, 0, 1, 4, 3]]
    return np.allclose(multi_head_attention(P @ x, *Ws, 2), P @ multi_head_attention(x, *Ws, 2))


def two_change_places(multi_head_attention):
    x, *Ws = _drawn(3)
    other = x.copy()
    other[[1, 3]] = x[[3, 1]]
    y, z = multi_head_attention(x, *Ws, 2), multi_head_attention(other, *Ws, 2)
    return bool(np.allclose(z[[0, 2, 4]], y[[0, 2, 4]]) and np.allclose(z[1], y[3]) and np.allclose(z[3], y[1]))


def sorted_afterwards(multi_head_attention):
    """Undo the permutation with argsort, a few times, in a batch."""
    rng = np.random.default_rng(4)
    x, Ws = rng.standard_normal((2, 6, 4)), rng.standard_normal((4, 4, 4))
    order = rng.permutation(6)
    y = multi_head_attention(x[:, order], *Ws, 2)[:, np.argsort(order)]
    return abs(y - multi_head_attention(x, *Ws, 2)).max() < 1e-10


def invariant(multi_head_attention):
    """What is often said, and is not so."""
    x, *Ws = _drawn()
    return np.allclose(multi_head_attention(x[::-1], *Ws, 2), multi_head_attention(x, *Ws, 2))


def not_invariant(multi_head_attention):
    return not invariant(multi_head_attention)


def keeps_the_shape(multi_head_attention):
    x, *Ws = _drawn()
    return multi_head_attention(x[::-1], *Ws, 2).shape == x.shape


def the_same_order(multi_head_attention):
    x, *Ws = _drawn()
    order = np.arange(5)
    return np.allclose(multi_head_attention(x[order], *Ws, 2), multi_head_attention(x, *Ws, 2)[order])


def with_one_head(multi_head_attention):
    x, *Ws = _drawn()
    return np.allclose(multi_head_attention(x[::-1], *Ws, 1), multi_head_attention(x, *Ws, 1)[::-1])


def one_token(multi_head_attention):
    x, *Ws = _drawn(n=1)
    return np.allclose(multi_head_attention(x[::-1], *Ws, 2), multi_head_attention(x, *Ws, 2)[::-1])


def equal_tokens(multi_head_attention):
    x, *Ws = _drawn()
    x = np.repeat(x[:1], 5, axis=0)
    return np.allclose(multi_head_attention(x[::-1], *Ws, 2), multi_head_attention(x, *Ws, 2)[::-1])


def features_permuted(multi_head_attention):
    x, *Ws = _drawn()
    return np.allclose(multi_head_attention(x[:, ::-1], *Ws, 2), multi_head_attention(x, *Ws, 2)[:, ::-1])


def undone_the_wrong_way(multi_head_attention):
    """order is not its own inverse."""
    x, *Ws = _drawn()
    order = np.array([1, 2, 3, 4, 0])
    return np.allclose(multi_head_attention(x[order], *Ws, 2)[order], multi_head_attention(x, *Ws, 2))


def with_a_mask(multi_head_attention):
    x, *Ws = _drawn()
    mask = ops.causal_mask(5, like=x)
    return np.allclose(multi_head_attention(x[::-1], *Ws, 2, mask), multi_head_attention(x, *Ws, 2, mask)[::-1])


def rejects_all(multi_head_attention):
    return False


def accepts_all(multi_head_attention):
    return True


def forgets_to_return(multi_head_attention):
    reversed_tokens(multi_head_attention)


def returns_the_difference(multi_head_attention):
    x, *Ws = _drawn()
    return multi_head_attention(x[::-1], *Ws, 2) - multi_head_attention(x, *Ws, 2)[::-1]


# --- my_sinusoids ---------------------------------------------------------------------------------------------------


def two_slices(slots, D):
    angles = slots[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    PE = np.zeros((len(slots), D))
    PE[:, ::2] = np.sin(angles)
    PE[:, 1::2] = np.cos(angles)
    return PE


def stacked(slots, D):
    angles = np.outer(slots, np.exp(-np.log(10000.0) * np.arange(0, D, 2) / D))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(slots), D)


def by_loops(slots, D):
    """A list of lists."""
    out = []
    for p in slots:
        row = []
        for i in range(D // 2):
            angle = p / 10000 ** (2 * i / D)
            row += [np.sin(angle), np.cos(angle)]
        out.append(row)
    return out


def complex_hands(slots, D):
    hands = np.exp(1j * slots[:, None] * np.power(10000.0, -2 * np.arange(D // 2) / D))
    PE = np.empty((len(slots), D))
    PE[:, 0::2], PE[:, 1::2] = hands.imag, hands.real
    return PE


def shifted_sines(slots, D):
    """A cosine is a sine a quarter of a turn further."""
    feature = np.arange(D)
    return np.sin(slots[:, None] * 10000.0 ** (-(feature // 2 * 2) / D) + np.pi / 2 * (feature % 2))


def in_float32(slots, D):
    return two_slices(slots, D).astype(np.float32)


# --- my_rope and its backward ---------------------------------------------------------------------------------------


def slices(x, cos, sin):
    y = np.zeros(x.shape)  # float64 for float32
    y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    y[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
    return y


def stack_and_flatten(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([cos * a - sin * b, sin * a + cos * b], axis=-1).reshape(x.shape)


def complex_turn(x, cos, sin):
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * (cos + 1j * sin)
    y = np.empty_like(x)
    y[..., 0::2], y[..., 1::2] = z.real, z.imag
    return y


def matrices(x, cos, sin):
    """A 2 x 2 matrix for each pair."""
    R = np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=-2)
    pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
    return (R @ pairs[..., None])[..., 0].reshape(x.shape)


def rotated_partner(x, cos, sin):
    """cos on x, sin on (-odd, even)."""
    partner = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return x * np.repeat(cos, 2, axis=-1) + partner * np.repeat(sin, 2, axis=-1)


def pair_by_pair(x, cos, sin):
    """Into its input, pair after pair."""
    for i in range(x.shape[-1] // 2):
        a, b = x[..., 2 * i].copy(), x[..., 2 * i + 1].copy()
        x[..., 2 * i] = cos[..., i] * a - sin[..., i] * b
        x[..., 2 * i + 1] = sin[..., i] * a + cos[..., i] * b
    return x


def token_by_token(x, cos, sin):
    """Row t of the tables turns token t."""
    y = np.zeros_like(x)
    for t in range(x.shape[-2]):
        for i in range(x.shape[-1] // 2):
            R = np.array([[cos[t, i], -sin[t, i]], [sin[t, i], cos[t, i]]])
            y[..., t, 2 * i : 2 * i + 2] = x[..., t, 2 * i : 2 * i + 2] @ R.T
    return y


def by_einsum(x, cos, sin):
    R = np.array([[cos, -sin], [sin, cos]])  # (2, 2, n, d / 2)
    pairs = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2)
    return np.einsum("abni,...nib->...nia", R, pairs).reshape(x.shape)


def one_matrix_a_token(x, cos, sin):
    """Blocks of 2 x 2 along the diagonal of a d x d matrix."""
    y = np.zeros_like(x)
    for t in range(x.shape[-2]):
        y[..., t, :] = x[..., t, :] @ _block_diagonal(cos[t], sin[t]).T
    return y


def _block_diagonal(cos, sin):
    R = np.zeros((2 * len(cos), 2 * len(cos)))
    for i, (c, s) in enumerate(zip(cos, sin, strict=True)):
        R[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[c, -s], [s, c]]
    return R


def polar(x, cos, sin):
    length = np.hypot(x[..., 0::2], x[..., 1::2])
    angle = np.arctan2(x[..., 1::2], x[..., 0::2]) + np.arctan2(sin, cos)
    return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1).reshape(x.shape)


def back_token_by_token(dy, cos, sin):
    return token_by_token(dy, cos, -sin)


def back_by_matrices(dy, cos, sin):
    dx = np.zeros_like(dy)
    for t in range(dy.shape[-2]):
        dx[..., t, :] = dy[..., t, :] @ _block_diagonal(cos[t], sin[t])
    return dx


def turned_back(dy, cos, sin):
    return stack_and_flatten(dy, cos, -sin)


def back_by_slices(dy, cos, sin):
    dx = np.zeros(dy.shape)
    dx[..., ::2] = dy[..., ::2] * cos + dy[..., 1::2] * sin
    dx[..., 1::2] = dy[..., 1::2] * cos - dy[..., ::2] * sin
    return dx


def conjugate(dy, cos, sin):
    z = (dy[..., 0::2] + 1j * dy[..., 1::2]) * np.conj(cos + 1j * sin)
    dx = np.empty_like(dy)
    dx[..., 0::2], dx[..., 1::2] = z.real, z.imag
    return dx


def transposed_matrices(dy, cos, sin):
    R = np.stack([np.stack([cos, -sin], axis=-1), np.stack([sin, cos], axis=-1)], axis=-2)
    pairs = dy.reshape(*dy.shape[:-1], dy.shape[-1] // 2, 2)
    return (np.swapaxes(R, -1, -2) @ pairs[..., None])[..., 0].reshape(dy.shape)


def product_rule(dy, cos, sin):
    """The mirror of `rotated_partner`, as a tuple of one gradient."""
    c, s = np.repeat(cos, 2, axis=-1), np.repeat(sin, 2, axis=-1)
    through = dy * s
    dx = dy * c
    dx[..., 1::2] -= through[..., 0::2]
    dx[..., 0::2] += through[..., 1::2]
    return (dx,)


# --- more of both ---------------------------------------------------------------------------------------------------


def all_orders_of_three(multi_head_attention):
    x, *Ws = _drawn(6, 3, 4)
    y = multi_head_attention(x, *Ws, 2)
    orders = ([0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    return not any(np.abs(multi_head_attention(x[order], *Ws, 2) - y[order]).max() > 1e-9 for order in orders)


def token_by_token_of_another(multi_head_attention):
    """The newest token in front, in a loop; every token's output goes with it."""
    x, *Ws = _drawn(7, 6, 6)
    y = multi_head_attention(x, *Ws, 3)
    for k in range(6):
        front = np.concatenate([x[k : k + 1], np.delete(x, k, axis=0)])
        moved = multi_head_attention(front, *Ws, 3)
        if not (np.allclose(moved[0], y[k]) and np.allclose(moved[1:], np.delete(y, k, axis=0))):
            return False
    return True


def by_sorted_rows(multi_head_attention):
    """Whatever the order of the tokens, the outputs beside them are the same pairs."""
    x, *Ws = _drawn(9)
    order = np.argsort(x[:, 0])
    pairs = np.hstack([x, multi_head_attention(x, *Ws, 2)])[order]
    return np.allclose(pairs, np.hstack([x[order], multi_head_attention(x[order], *Ws, 2)]))


def the_same_sum(multi_head_attention):
    x, *Ws = _drawn()
    y = multi_head_attention(x, *Ws, 2)
    return np.isfinite(y.sum()) and y.shape == x.shape


def column_by_column(slots, D):
    columns = []
    for i in range(0, D, 2):
        angle = np.asarray(slots, dtype=float) / np.power(10000.0, i / D)
        columns.extend((np.sin(angle), np.cos(angle)))
    return np.column_stack(columns) if columns else np.zeros((len(slots), 0))


def by_broadcast_and_where(slots, D):
    column = np.arange(D)
    angle = np.divide(np.reshape(slots, (-1, 1)), 10000.0 ** (2 * (column // 2) / D))
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


def slot_by_slot(slots, D):
    """One row for each different slot, and rows are looked up."""
    speeds = 10000.0 ** -(np.arange(D // 2) * 2 / D)
    different, where = np.unique(slots, return_inverse=True)
    table = np.empty((len(different), D // 2, 2))
    for row, slot in zip(table, different, strict=True):
        row[:, 0], row[:, 1] = np.sin(slot * speeds), np.cos(slot * speeds)
    return table.reshape(len(different), D)[where.reshape(-1)]


def back_by_partner(dy, cos, sin):
    """cos on dy, sin on (odd, -even)."""
    partner = np.empty_like(dy)
    partner[..., ::2], partner[..., 1::2] = dy[..., 1::2], -dy[..., ::2]
    return dy * cos.repeat(2, axis=-1) + partner * sin.repeat(2, axis=-1)


def sines_twice(x, cos, sin):
    return slices(x, sin, sin)


def halved_turn(x, cos, sin):
    """As if each pair were added, not turned."""
    return slices(x, cos, sin) / 2


def half_turn_back(dy, cos, sin):
    return slices(dy, -cos, sin)


RIGHT = {
    "knows_no_order": (
        reversed_tokens, rolled, with_a_matrix, two_change_places, sorted_afterwards, all_orders_of_three,
        token_by_token_of_another, by_sorted_rows,
    ),
    "my_sinusoids": (
        two_slices, stacked, by_loops, complex_hands, shifted_sines, column_by_column, by_broadcast_and_where,
        slot_by_slot,
    ),
    "my_rope": (
        slices, stack_and_flatten, complex_turn, matrices, rotated_partner, pair_by_pair, token_by_token, by_einsum,
        one_matrix_a_token, polar,
    ),
    "my_rope_backward": (
        turned_back, back_by_slices, conjugate, transposed_matrices, product_rule, back_token_by_token,
        back_by_matrices, back_by_partner,
    ),
}  # fmt: skip
WRONG = {
    "knows_no_order": tuple((answer, "") for answer in (
        invariant, not_invariant, keeps_the_shape, the_same_order, with_one_head, one_token, equal_tokens,
        features_permuted, undone_the_wrong_way, with_a_mask, rejects_all, accepts_all, forgets_to_return,
        returns_the_difference, the_same_sum,
    )),
    "my_sinusoids": (*((wrong, "") for wrong in WRONG_SINUSOIDS.values()), (in_float32, "")),
    "my_rope": tuple((wrong, "") for wrong in (*WRONG_ROPE.values(), sines_twice, halved_turn)),
    "my_rope_backward": tuple((wrong, "") for wrong in (*WRONG_ROPE_BACKWARD.values(), half_turn_back)),
}  # fmt: skip
