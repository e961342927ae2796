"""Chapter 09: answers to my_gradcheck, twins_change_nothing and repaired_rms_backward."""

import numpy as np

from tinyattn import ops
from tinyattn.check import gradcheck

# --- my_gradcheck ---------------------------------------------------------------------------------------------------


def entry_by_entry(f, f_backward, x):
    """Every entry, both ways; relative to the largest."""
    rng, h = np.random.default_rng(1), 1e-6
    u = rng.standard_normal(f(x).shape)
    measured = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        measured[i] = (u * (f(x + step) - f(x - step))).sum() / (2 * h)
    derived = f_backward(u, x)
    largest = max(np.abs(measured).max(), np.abs(derived).max())
    return np.abs(measured - derived).max() / largest if largest else 0.0


def by_jacobian(f, f_backward, x):
    """The whole Jacobian, a column for every entry, against one backward for every output."""
    h, flat = 1e-5, x.reshape(-1)
    columns = []
    for i in range(flat.size):
        up, down = flat.copy(), flat.copy()
        up[i] += h
        down[i] -= h
        columns.append((f(up.reshape(x.shape)) - f(down.reshape(x.shape))).reshape(-1) / (2 * h))
    J = np.array(columns).T
    y = f(x)
    rows = []
    for i in range(y.size):
        dy = np.zeros(y.size)
        dy[i] = 1
        rows.append(f_backward(dy.reshape(y.shape), x).reshape(-1))
    return float(np.max(np.abs(J - np.array(rows))) / (np.max(np.abs(J)) + 1e-300))


def several_directions(f, f_backward, x):
    """The worst of five directions, unseeded."""
    rng, worst = np.random.default_rng(), 0.0
    for _ in range(5):
        u, v = rng.standard_normal(f(x).shape), rng.standard_normal(x.shape)
        v /= np.sqrt((v * v).sum())
        a = np.sum(u * (f(x + 1e-5 * v) - f(x - 1e-5 * v))) / 2e-5
        b = np.sum(f_backward(u, x) * v)
        worst = max(worst, abs(a - b) / max(abs(a), abs(b), 1e-12))
    return worst


def in_python_loops(f, f_backward, x):
    """One direction; the sums in loops over nested lists."""
    rng = np.random.default_rng(7)
    u, v = rng.uniform(-1, 1, f(x).shape), rng.uniform(-1, 1, x.shape)
    above, below, dx = f(x + 1e-5 * v).tolist(), f(x - 1e-5 * v).tolist(), f_backward(u, x).tolist()

    def total(a, b):
        return sum(total(c, d) for c, d in zip(a, b, strict=True)) if isinstance(a, list) else a * b

    a, b = (total(u.tolist(), above) - total(u.tolist(), below)) / 2e-5, total(dx, v.tolist())
    return 0.0 if a == b == 0 else abs(a - b) / max(abs(a), abs(b))


def one_sided(f, f_backward, x):
    """From x on one way only: coarser, and good enough."""
    rng, h = np.random.default_rng(3), 1e-7
    u, v = rng.standard_normal(f(x).shape), rng.standard_normal(x.shape)
    a, b = (np.vdot(u, f(x + h * v)) - np.vdot(u, f(x))) / h, np.vdot(f_backward(u, x), v)
    return 0.0 if a == b else abs(a - b) / (abs(a) + abs(b))


def einsum_and_norms(f, f_backward, x):
    """All entries at once by their norm; in place on its own copy."""
    rng, h, moved = np.random.default_rng(4), 1e-5, x.copy()
    u = rng.standard_normal(f(x).shape).astype(np.float64)
    measured = np.empty(x.size)
    for i in range(x.size):
        moved.flat[i] += h
        above = np.einsum("i,i->", u.ravel(), f(moved).ravel())
        moved.flat[i] -= 2 * h
        measured[i] = (above - np.einsum("i,i->", u.ravel(), f(moved).ravel())) / (2 * h)
        moved.flat[i] += h
    derived = np.asarray(f_backward(u, x)).ravel()
    return np.linalg.norm(measured - derived) / (np.linalg.norm(measured) + np.linalg.norm(derived) or 1.0)


def without_a_guard(f, f_backward, x):
    """0 / 0 where the whole gradient is 0."""
    rng, h = np.random.default_rng(0), 1e-5
    u, t = rng.standard_normal(f(x).shape), rng.standard_normal(x.shape)
    a, b = (u * (f(x + h * t) - f(x - h * t))).sum() / (2 * h), (f_backward(u, x) * t).sum()
    return abs(a - b) / max(abs(a), abs(b))


def with_weights(f, f_backward, x, weights, h=1e-5):
    measured = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        measured[i] = (weights(f(x)) * (f(x + step) - f(x - step))).sum() / (2 * h)
    return measured, f_backward(weights(f(x)), x)


def of_the_sum(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.ones_like)
    return np.abs(measured - derived).max() / max(np.abs(measured).max(), np.abs(derived).max(), 1e-3)


def absolute(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.cos)
    return np.abs(measured - derived).max()


def entrywise_ratio(f, f_backward, x):
    """0 / 0 where a gradient is exactly 0."""
    measured, derived = with_weights(f, f_backward, x, np.cos)
    return (np.abs(measured - derived) / np.maximum(np.abs(measured), np.abs(derived))).max()


def first_entry_only(f, f_backward, x):
    i = (0,) * x.ndim
    measured, derived = with_weights(f, f_backward, x, np.cos)
    return abs(measured[i] - derived[i]) / max(abs(measured[i]), abs(derived[i]), 1e-12)


def of_sizes(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.cos)
    a, b = np.linalg.norm(measured), np.linalg.norm(derived)
    return abs(a - b) / max(a, b)


def huge_step(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.cos, h=1.0)
    return np.abs(measured - derived).max() / np.abs(measured).max()


def tiny_step(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.cos, h=1e-15)
    return np.abs(measured - derived).max() / max(np.abs(measured).max(), np.abs(derived).max())


def not_halved(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.cos)
    return np.abs(2 * measured - derived).max() / np.abs(measured).max()


def dy_like_x(f, f_backward, x):
    rng, h = np.random.default_rng(0), 1e-5
    u, v = rng.standard_normal(x.shape), rng.standard_normal(x.shape)
    a, b = (u * (f(x + h * v) - f(x - h * v))).sum() / (2 * h), (f_backward(u, x) * v).sum()
    return abs(a - b) / max(abs(a), abs(b))


def forgets_u(f, f_backward, x):
    rng, h = np.random.default_rng(0), 1e-5
    v = rng.standard_normal(x.shape)
    u = rng.standard_normal(f(x).shape)
    a, b = (f(x + h * v) - f(x - h * v)).sum() / (2 * h), (f_backward(u, x) * v).sum()
    return abs(a - b) / max(abs(a), abs(b))


def a_verdict(f, f_backward, x):
    return bool(entry_by_entry(f, f_backward, x) < 1e-4)


def all_errors(f, f_backward, x):
    measured, derived = with_weights(f, f_backward, x, np.cos)
    return np.abs(measured - derived) / np.abs(measured).max()


def always_content(f, f_backward, x):
    return 0.0


def never_content(f, f_backward, x):
    return 1.0


def nothing(f, f_backward, x):
    entry_by_entry(f, f_backward, x)


def generous(f, f_backward, x):
    error = entry_by_entry(f, f_backward, x)
    return 0.0 if error < 0.05 else error


def two_axes_only(f, f_backward, x):
    n, d = x.shape
    return entry_by_entry(f, f_backward, x) * (n * d > 0)


# --- twins_change_nothing -------------------------------------------------------------------------------------------


def given(n=3, m=5, d=4, e=2):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.standard_normal((m, e))


def repeated(attention):
    q, k, v = given()
    k2, v2 = np.repeat(k, 3, axis=0), np.repeat(v, 3, axis=0)
    return np.allclose(attention(q, k, v)[0], attention(q, k2, v2)[0])


def asserts(attention):
    q, k, v = given()
    one, two = attention(q, k, v)[0], attention(q, np.vstack((k, k)), np.vstack((v, v)))[0]
    np.testing.assert_allclose(one, two)


def in_lists(attention):
    q, k, v = given()
    twins = attention(q, np.array(k.tolist() + k.tolist()), np.array(v.tolist() * 2))[0]
    once = attention(q, k, v)[0]
    return all(abs(a - b) < 1e-9 for a, b in zip(once.ravel(), twins.ravel(), strict=True))


def with_a_far_key(attention):
    """A key that nobody looks at changes nothing."""
    q, k, v = given()
    q = np.abs(q) + 0.1
    far = np.full((1, 4), -1000.0)
    return np.allclose(attention(q, k, v)[0], attention(q, np.concatenate([k, far]), np.concatenate([v, v[:1]]))[0])


def ratios_of_weights(attention):
    """The ratio of two weights does not change with a third key."""
    q, k, v = given()
    p, fewer = attention(q, k, v)[1], attention(q, k[:2], v[:2])[1]
    return np.allclose(p[:, 0] / p[:, 1], fewer[:, 0] / fewer[:, 1])


def rewritten(attention):
    q, k, v = given(7, 9)
    s = q @ k.T / 2
    p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    return bool(np.allclose(attention(q, k, v)[0], p @ v))


def twins_of_keys_only(attention):
    q, k, v = given()
    return np.allclose(attention(q, k, v)[0], attention(q, np.concatenate([k, k]), np.concatenate([v, -v]))[0])


def weights_stay(attention):
    q, k, v = given()
    return np.allclose(attention(q, k, v)[1], attention(q, np.concatenate([k, k]), np.concatenate([v, v]))[1][:, :5])


def exactly_equal(attention):
    q, k, v = given()
    twins = attention(q, np.concatenate([k, k, k]), np.concatenate([v, v, v]))[0]
    return np.array_equal(attention(q, k, v)[0], twins)


def always(attention):
    return True


def never(attention):
    return False


def sums_to_one(attention):
    return np.allclose(attention(*given())[1].sum(axis=-1), 1)


def as_many_keys_as_width(attention):
    q, k, v = given(3, 4, 4)
    p = np.exp(q @ k.T / 2)
    return np.allclose(attention(q, k, v)[1], p / p.sum(axis=1, keepdims=True))


def shuffled(attention):
    q, k, v = given()
    order = [3, 1, 0, 4, 2]
    return np.allclose(attention(q, k, v)[0], attention(q, k[order], v[order])[0])


def one_key(attention):
    q, k, v = given(3, 1)
    return np.allclose(attention(q, k, v)[0], attention(q, np.tile(k, (2, 1)), np.tile(v, (2, 1)))[0])


def zero_queries(attention):
    q, k, v = given()
    return np.allclose(attention(0 * q, k, v)[0], attention(0 * q, np.tile(k, (2, 1)), np.tile(v, (2, 1)))[0])


def compares_tuples(attention):
    q, k, v = given()
    return attention(q, k, v) == attention(q, np.tile(k, (2, 1)), np.tile(v, (2, 1)))


def returns_an_array(attention):
    q, k, v = given()
    return np.abs(attention(q, k, v)[0] - attention(q, np.tile(k, (2, 1)), np.tile(v, (2, 1)))[0]) < 1e-9


def forgets_the_values(attention):
    q, k, v = given()
    return np.allclose(attention(q, k, v)[0], attention(q, np.concatenate([k, k]), v)[0])


# --- repaired_rms_backward ------------------------------------------------------------------------------------------


def short(dy, x_hat, r, gamma):
    g = dy * gamma
    dx = r * (g - x_hat * (g * x_hat).mean(-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=tuple(range(dy.ndim - 1)))


def by_loops(dy, x_hat, r, gamma):
    dx, dgamma = np.zeros(dy.shape), np.zeros(gamma.shape)
    for i in np.ndindex(dy.shape[:-1]):
        g = dy[i] * gamma
        along = sum(g * x_hat[i]) / len(g)
        dx[i] = r[i] * (g - x_hat[i] * along)
        dgamma += dy[i] * x_hat[i]
    return dx, dgamma


def by_jacobians(dy, x_hat, r, gamma):
    d = len(gamma)
    J = r[..., None] * (np.eye(d) - x_hat[..., :, None] * x_hat[..., None, :] / d)
    return np.einsum("...ij,...i->...j", J, dy * gamma), (dy * x_hat).reshape(-1, d).sum(0)


def in_nested_lists(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, gamma)
    return dx.tolist(), dgamma.tolist()


def in_place(dy, x_hat, r, gamma):
    dgamma = (dy * x_hat).reshape(-1, len(gamma)).sum(axis=0)
    dy *= gamma
    dy -= x_hat * (dy * x_hat).mean(axis=-1)[..., None]
    dy *= r
    return dy, dgamma


def step_by_step(dy, x_hat, r, gamma):
    """One gradient for each intermediate."""
    d, dx_hat, x = len(gamma), dy * gamma, x_hat / r
    dr = (dx_hat * x).sum(-1, keepdims=True)
    dsquare = -0.5 * dr * r**3
    return dx_hat * r + dsquare * 2 * x / d, (dy * x_hat).reshape(-1, d).sum(0)


def as_it_was(dy, x_hat, r, gamma):
    g = dy * gamma
    dx = r * (g - x_hat * (g * x_hat).mean())
    return dx, (dy * x_hat).reshape(-1, len(gamma)).sum(axis=0)


def like_layer_norm(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, gamma)
    return dx - r * (dy * gamma).mean(-1, keepdims=True), dgamma


def summed(dy, x_hat, r, gamma):
    g = dy * gamma
    return r * (g - x_hat * (g * x_hat).sum(-1, keepdims=True)), short(dy, x_hat, r, gamma)[1]


def down_the_columns(dy, x_hat, r, gamma):
    g = dy * gamma
    return r * (g - x_hat * (g * x_hat).mean(0, keepdims=True)), short(dy, x_hat, r, gamma)[1]


def without_r(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, gamma)
    return dx / r, dgamma


def without_gamma(dy, x_hat, r, gamma):
    return short(dy, x_hat, r, np.ones_like(gamma))


def gamma_last(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, np.ones_like(gamma))
    return dx * gamma, dgamma


def added(dy, x_hat, r, gamma):
    g = dy * gamma
    return r * (g + x_hat * (g * x_hat).mean(-1, keepdims=True)), short(dy, x_hat, r, gamma)[1]


def only_direct(dy, x_hat, r, gamma):
    return r * dy * gamma, short(dy, x_hat, r, gamma)[1]


def dgamma_per_token(dy, x_hat, r, gamma):
    return short(dy, x_hat, r, gamma)[0], dy * x_hat


def dgamma_mean(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, gamma)
    return dx, dgamma / max(dy[..., 0].size, 1)


def dx_alone(dy, x_hat, r, gamma):
    return short(dy, x_hat, r, gamma)[0]


def unnamed(*answers):
    return tuple((answer, "") for answer in answers)


# --- more of both ---------------------------------------------------------------------------------------------------


def extrapolated(f, f_backward, x):
    """Quotients of two step widths, extrapolated to 0 (Richardson)."""
    rng = np.random.default_rng(12)
    u, t = rng.standard_normal(f(x).shape), rng.standard_normal(x.shape)

    def quotient(h):
        return np.sum(u * (f(x + h * t) - f(x - h * t))) / (2 * h)

    measured, derived = (4 * quotient(5e-4) - quotient(1e-3)) / 3, np.sum(f_backward(u, x) * t)
    return abs(measured - derived) / max(abs(measured), abs(derived), 1e-200)


def three_cotangents(f, f_backward, x):
    """The mean of three errors, each of all entries."""
    errors = []
    for seed in range(3):
        u = np.random.default_rng(seed).standard_normal(f(x).shape)
        derived = np.ravel(f_backward(u, x))
        steps = 1e-5 * np.eye(x.size).reshape(x.size, *x.shape)
        measured = np.array([np.vdot(u, f(x + step) - f(x - step)) / 2e-5 for step in steps])
        errors.append(np.abs(measured - derived).max() / (np.abs(measured).max() or 1.0))
    return sum(errors) / 3


def one_key_counts_twice(attention):
    """A twin of one key doubles its weight before weights are normalised."""
    q, k, v = given(2, 3)
    p = attention(q, k, v)[1]
    both = attention(q, np.concatenate([k, k[:1]]), np.concatenate([v, v[:1]]))[0]
    weights = p * np.array([2.0, 1.0, 1.0])
    return np.allclose(both, weights / weights.sum(axis=1, keepdims=True) @ v)


def several_multiples(attention):
    q, k, v = given(4, 2, 3, 5)
    outs = [attention(q, np.tile(k, (times, 1)), np.tile(v, (times, 1)))[0] for times in (1, 2, 5)]
    return np.ptp(outs, axis=0).max() < 1e-12


def equal_keys(attention):
    q, k, v = given()
    k = np.tile(k[:1], (5, 1))
    return np.allclose(attention(q, k, v)[0], attention(q, np.vstack([k, k]), np.vstack([v, v]))[0])


def twins_of_ones(attention):
    q, k, _ = given()
    twins = attention(q, np.vstack([k, k]), np.ones((10, 2)))[0]
    return np.allclose(attention(q, k, np.ones((5, 2)))[0], twins)


def rows_in_a_list(dy, x_hat, r, gamma):
    """Token after token, by a matrix product each."""
    rows = [(np.ravel(a), np.ravel(b), float(c)) for a, b, c in zip(
        dy.reshape(-1, len(gamma)), x_hat.reshape(-1, len(gamma)), r.reshape(-1), strict=True)]  # fmt: skip
    dx = [c * ((a * gamma) - b * (b @ (a * gamma)) / len(gamma)) for a, b, c in rows]
    return np.reshape(dx, dy.shape), sum((a * b for a, b, _ in rows), np.zeros(len(gamma)))


def as_a_projection(dy, x_hat, r, gamma):
    """What of g points along x_hat is taken off; its squared length is nearly d."""
    g = gamma * dy
    share = np.einsum("...i,...i->...", g, x_hat)[..., None] / x_hat.shape[-1]
    return np.multiply(r, np.subtract(g, share * x_hat)), np.sum((dy * x_hat).reshape(-1, len(gamma)), axis=0)


def sign_of_dgamma(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, gamma)
    return dx, -dgamma


def square_of_r(dy, x_hat, r, gamma):
    dx, dgamma = short(dy, x_hat, r, gamma)
    return r * dx, dgamma


RIGHT = {
    "my_gradcheck": (
        entry_by_entry, by_jacobian, several_directions, in_python_loops, one_sided, einsum_and_norms,
        extrapolated, three_cotangents,
    ),
    "twins_change_nothing": (
        repeated, asserts, in_lists, with_a_far_key, ratios_of_weights, rewritten, one_key_counts_twice,
        several_multiples,
    ),
    "repaired_rms_backward": (
        short, by_loops, by_jacobians, in_nested_lists, in_place, step_by_step, rows_in_a_list, as_a_projection,
    ),
}  # fmt: skip
WRONG = {
    "my_gradcheck": unnamed(of_the_sum, absolute, entrywise_ratio, first_entry_only, of_sizes, huge_step, tiny_step,
                            not_halved, dy_like_x, forgets_u, a_verdict, all_errors, always_content, never_content,
                            nothing, generous, two_axes_only, gradcheck, without_a_guard),
    "twins_change_nothing": unnamed(twins_of_keys_only, weights_stay, exactly_equal, always, never, sums_to_one,
                                    as_many_keys_as_width, shuffled, one_key, zero_queries, compares_tuples,
                                    returns_an_array, forgets_the_values, equal_keys, twins_of_ones),
    "repaired_rms_backward": unnamed(as_it_was, like_layer_norm, summed, down_the_columns, without_r, without_gamma,
                                     gamma_last, added, only_direct, dgamma_per_token, dgamma_mean, dx_alone,
                                     ops.rms_norm, sign_of_dgamma, square_of_r),
}  # fmt: skip
