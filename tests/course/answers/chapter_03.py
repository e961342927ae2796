"""Answers to the exercises of chapter 03."""

import numpy as np

from tinyattn import ops
from tinyattn.check import gradcheck
from tinyattn.check.zoo import ZOO


def linear_bug(name):
    wrong = ZOO["linear"].make(frozenset([name])).linear_backward

    def answer(dy, x, W):
        return wrong(dy, x, W)

    answer.__name__ = name
    return answer


def softmax_bug(name):
    wrong = ZOO["softmax"].make(frozenset([name])).softmax_backward

    def answer(dp, p):
        return wrong(dp, p)

    answer.__name__ = name
    return answer


# --- the backward of a linear map -----------------------------------------------------------------------------------


def flattened(dy, x, W):
    X, D = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])  # -1 fails on an empty batch
    return (D @ W.T).reshape(x.shape), X.T @ D, D.sum(axis=0)


def einsum(dy, x, W):
    X, D = x.reshape(int(np.prod(x.shape[:-1])), -1), dy.reshape(int(np.prod(dy.shape[:-1])), -1)
    return np.einsum("...o,io->...i", dy, W), np.einsum("ni,no->io", X, D), np.einsum("no->o", D)


def linear_loops(dy, x, W):
    """One token after the other, into float64 arrays."""
    inputs, outputs = W.shape
    dx, dW, db = np.zeros(x.shape), np.zeros((inputs, outputs)), np.zeros(outputs)
    for at in np.ndindex(x.shape[:-1]):
        for o in range(outputs):
            db[o] += dy[at][o]
            for i in range(inputs):
                dx[at][i] += dy[at][o] * W[i, o]
                dW[i, o] += x[at][i] * dy[at][o]
    return dx, dW, db


def linear_lists(dy, x, W):
    dx, dW, db = flattened(dy, x, W)
    return dx.tolist(), dW.tolist(), db.tolist()


def tensordot(dy, x, W):
    leading = tuple(range(x.ndim - 1))
    return dy @ W.T, np.tensordot(x, dy, axes=(leading, leading)), dy.sum(axis=leading)


def sum_of_outer_products(dy, x, W):
    dW = (x[..., :, None] * dy[..., None, :]).reshape(-1, *W.shape).sum(axis=0)
    return np.matmul(dy, np.transpose(W)), dW, dy.reshape(-1, W.shape[1]).sum(axis=0)


def transposed_memory(dy, x, W):
    dx, dW, db = flattened(dy, x, W)
    return dx, np.asfortranarray(dW), db


def writes_into_dy(dy, x, W):
    gradients = flattened(dy, x, W)
    dy *= 0
    return gradients


def no_sum_over_tokens(dy, x, W):
    return dy @ W.T, np.swapaxes(x, -1, -2) @ dy, dy.sum(axis=-2)


def only_dx(dy, x, W):
    return dy @ W.T


def another_order(dy, x, W):
    dx, dW, db = ops.linear_backward(dy, x, W)
    return dW, dx, db


def db_over_outputs(dy, x, W):
    dx, dW, _ = ops.linear_backward(dy, x, W)
    return dx, dW, dy.sum(axis=-1)


def dW_without_dy(dy, x, W):
    dx, _, db = ops.linear_backward(dy, x, W)
    return dx, np.broadcast_to(x.reshape(-1, W.shape[0]).sum(axis=0)[:, None], W.shape), db


# --- the backward of softmax ----------------------------------------------------------------------------------------


def softmax_loops(dp, p):
    """Three loops and the Jacobian's entries."""
    ds = np.zeros(p.shape)
    m = p.shape[-1]
    for row in np.ndindex(p.shape[:-1]):
        for j in range(m):
            for i in range(m):
                ds[row][j] += dp[row][i] * p[row][i] * ((i == j) - p[row][j])
    return ds


def jacobian(dp, p):
    J = np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - p[..., :, None] * p[..., None, :]
    return (J @ dp[..., None])[..., 0]


def jacobian_of_each_row(dp, p):
    rows, gradients = p.reshape(-1, p.shape[-1]), dp.reshape(-1, p.shape[-1])
    ds = [(np.diag(row) - np.outer(row, row)) @ g for row, g in zip(rows, gradients, strict=True)]
    return np.array(ds).reshape(p.shape)


def softmax_einsum(dp, p):
    return p * dp - p * np.einsum("...i,...i->...", dp, p)[..., None]


def multiplied_out(dp, p):
    along = np.sum(p * dp, axis=-1)
    return p * dp - p * np.expand_dims(along, -1)


def softmax_lists(dp, p):
    return softmax_einsum(dp, p).tolist()


def float64_inside(dp, p):
    dp, p = dp.astype(np.float64), p.astype(np.float64)
    return p * (dp - (dp * p).sum(-1, keepdims=True))


def in_place_on_its_own_copy(dp, p):
    ds = dp.copy()
    ds -= (dp * p).sum(axis=-1, keepdims=True)
    ds *= p
    return ds


def over_everything(dp, p):
    return p * (dp - np.sum(dp * p))


def down_the_columns(dp, p):
    return p * (dp - np.sum(dp * p, axis=0, keepdims=True))


def negated(dp, p):
    return -ops.softmax_backward(dp, p)


def sum_without_its_axis(dp, p):
    return p * (dp - np.sum(dp * p, axis=-1))


def only_the_sum(dp, p):
    return np.sum(dp * p, axis=-1)


def nothing(dp, p):
    return np.zeros_like(dp)


def forward_again(dp, p):
    return ops.softmax(dp * p)


# --- the property ---------------------------------------------------------------------------------------------------


def given():
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)


def twice_is_twice(linear, linear_backward):
    x, W, _ = given()
    u = np.cos(x @ W)
    once, twice = linear_backward(u, x, W), linear_backward(2 * u, x, W)
    return all(np.allclose(2 * one, two) for one, two in zip(once, twice, strict=True))


def by_gradcheck(linear, linear_backward):
    return bool(gradcheck(linear, linear_backward, *given()))


def by_nudging_b(linear, linear_backward):
    x, W, b = given()
    u = np.random.default_rng(1).normal(size=(5, 3))
    db = linear_backward(u, x, W)[2]
    h = 1e-5
    for o in range(3):
        up, down = b.copy(), b.copy()
        up[o] += h
        down[o] -= h
        slope = ((linear(x, W, up) - linear(x, W, down)) * u).sum() / (2 * h)
        if abs(slope - db[o]) > 1e-6:
            return False
    return True


def a_large_move(linear, linear_backward):
    x, W, b = given()
    u = np.random.default_rng(2).standard_normal((5, 3))
    moved = linear(x, W, b + 1) - linear(x, W, b)
    return np.isclose((u * moved).sum(), linear_backward(u, x, W)[2].sum())


def it_asserts(linear, linear_backward):
    x, W, _ = given()
    assert np.allclose(linear_backward(np.zeros((5, 3)), x, W)[2], 0), "no gradient comes in, none may come out"


def unseeded(linear, linear_backward):
    rng = np.random.default_rng()
    x, W, u = rng.normal(size=(6, 4)), rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    return np.allclose(linear_backward(u, x, W)[2], u.sum(0))


def of_the_sum(linear, linear_backward):
    """Finite differences of out.sum(): true of the bug."""
    x, W, b = given()
    db = linear_backward(np.ones((5, 3)), x, W)[2]
    steps = 1e-6 * np.eye(3)
    return np.allclose(db, [(linear(x, W, b + h) - linear(x, W, b - h)).sum() / 2e-6 for h in steps])


def of_shapes(linear, linear_backward):
    x, W, b = given()
    gradients = linear_backward(np.cos(x @ W), x, W)
    return all(g.shape == a.shape for g, a in zip(gradients, (x, W, b), strict=True))


def of_dx_only(linear, linear_backward):
    x, W, _ = given()
    u = np.cos(x @ W)
    return np.allclose(linear_backward(u, x, W)[0], u @ W.T)


def always(linear, linear_backward):
    return True


def never(linear, linear_backward):
    return False


def db_is_zero(linear, linear_backward):
    x, W, _ = given()
    return np.allclose(linear_backward(np.cos(x @ W), x, W)[2], 0)


def exactly(linear, linear_backward):
    """True on paper, and false after rounding."""
    x, W, _ = given()
    u = np.cos(x @ W)
    _, dW, _ = linear_backward(u, x, W)
    return bool((dW == sum(np.outer(x[t], u[t]) for t in range(4, -1, -1)) * (1 + 1e-12)).all())


def one_argument(linear):
    return True


def a_report(linear, linear_backward):
    return gradcheck(linear, linear_backward, *given())


def the_forward_only(linear, linear_backward):
    x, W, b = given()
    return np.allclose(linear(x, W, b) - linear(x, W, 0 * b), b)


def returns_nothing(linear, linear_backward):
    x, W, _ = given()
    np.allclose(linear_backward(np.cos(x @ W), x, W)[2], np.cos(x @ W).sum(axis=0))


# --- more of both ---------------------------------------------------------------------------------------------------


def one_entry_of_dy(linear, linear_backward):
    """dy of one 1: its row of W comes back, its token, and a 1 at its place."""
    rng = np.random.default_rng(6)
    x, W = rng.standard_normal((3, 4)), rng.standard_normal((4, 2))
    dy = np.zeros((3, 2))
    dy[1, 0] = 1
    dx, dW, db = linear_backward(dy, x, W)
    wanted = np.zeros_like(x), np.zeros_like(W), np.array([1.0, 0.0])
    wanted[0][1], wanted[1][:, 0] = W[:, 0], x[1]
    return all(np.allclose(a, b) for a, b in zip((dx, dW, db), wanted, strict=True))


def gradients_are_linear_in_dy(linear, linear_backward):
    """Two of them added, and a loss of squares by its difference in b alone."""
    rng = np.random.default_rng(9)
    x, W, b = rng.standard_normal((6, 3)), rng.standard_normal((3, 2)), rng.standard_normal(2)
    u, w = rng.standard_normal((2, 6, 2))
    added = linear_backward(u + w, x, W)
    apart = [a + c for a, c in zip(linear_backward(u, x, W), linear_backward(w, x, W), strict=True)]
    y = linear(x, W, b)
    slope = (linear(x, W, b + 1e-4) ** 2 - linear(x, W, b - 1e-4) ** 2).sum(axis=0) / 2e-4
    fits = np.allclose(linear_backward(2 * y, x, W)[2], slope)
    return bool(fits and all(np.allclose(a, c) for a, c in zip(added, apart, strict=True)))


def of_ones(linear, linear_backward):
    x, W = np.random.default_rng(0).standard_normal((2, 4, 4))
    return np.allclose(linear_backward(np.ones((4, 4)), x, W)[2], 4)


def of_dW_only(linear, linear_backward):
    rng = np.random.default_rng(0)
    dy, x, W = rng.standard_normal((3, 4, 4))
    return np.allclose(linear_backward(dy, x, W)[1], x.T @ dy)


def of_nothing(linear, linear_backward):
    """Without tokens there is nothing to count."""
    dy, x, W = np.zeros((0, 2)), np.zeros((0, 3)), np.ones((3, 2))
    return np.allclose(linear_backward(dy, x, W)[2], 0)


def finite(linear, linear_backward):
    dy, x, W = np.random.default_rng(0).standard_normal((3, 4, 4))
    return all(np.isfinite(gradient).all() for gradient in linear_backward(dy, x, W))


RIGHT = {
    "my_linear_backward": (
        flattened, einsum, linear_loops, linear_lists, tensordot, sum_of_outer_products, transposed_memory,
        writes_into_dy,
    ),
    "my_softmax_backward": (
        softmax_loops, jacobian, jacobian_of_each_row, softmax_einsum, multiplied_out, softmax_lists, float64_inside,
        in_place_on_its_own_copy,
    ),
    "not_fooled_by_ones": (
        twice_is_twice, by_gradcheck, by_nudging_b, a_large_move, it_asserts, unseeded, one_entry_of_dy,
        gradients_are_linear_in_dy,
    ),
}  # fmt: skip

LINEAR_BUGS = (
    "dW_last", "dW_first", "dW_mean", "dW_transposed", "dW_batch", "db_mean", "db_batch", "db_last", "db_ones",
    "db_of_x", "dx_noT", "dx_sign",
)  # fmt: skip
SOFTMAX_BUGS = (
    "backward_diag", "backward_no_sum", "backward_sum_axis", "backward_of_p", "backward_sum_flat", "backward_mean",
    "backward_sign", "backward_no_p",
)  # fmt: skip

WRONG = {
    "my_linear_backward": (
        *((linear_bug(name), name) for name in LINEAR_BUGS),
        (no_sum_over_tokens, "dW_batch"),
        (only_dx, ""),
        (another_order, ""),
        (db_over_outputs, "db_batch"),
        (dW_without_dy, ""),
    ),
    "my_softmax_backward": (
        *((softmax_bug(name), name) for name in SOFTMAX_BUGS),
        (over_everything, "backward_sum_flat"),
        (down_the_columns, "backward_sum_axis"),
        (negated, ""),
        (sum_without_its_axis, ""),
        (only_the_sum, ""),
        (nothing, ""),
        (forward_again, ""),
    ),
    "not_fooled_by_ones": tuple(
        (answer, "")
        for answer in (of_the_sum, of_shapes, of_dx_only, always, never, db_is_zero, exactly, one_argument, a_report,
                       the_forward_only, returns_nothing, of_ones, of_dW_only, of_nothing, finite)
    ),
}  # fmt: skip
