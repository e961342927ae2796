"""Answers to the exercises of chapter 10."""

import math
from functools import reduce

import numpy as np

from . import listed

# --- my_momentum ----------------------------------------------------------------------------------------------------


def two_lines(w, g, u, lr, beta):
    u = beta * u + g
    return w - lr * u, u


def in_place(w, g, u, lr, beta):
    """Writes into its arguments."""
    u *= beta
    u += g
    w -= lr * u
    return w, u


def velocity_first(w, g, u, lr, beta):
    velocity = np.add(g, np.multiply(u, beta))
    return [np.subtract(w, velocity * lr), velocity]


def moved_by_two_parts(w, g, u, lr, beta):
    return w - lr * beta * u - lr * g, g + beta * u


def stacked(w, g, u, lr, beta):
    return np.stack([w - lr * (beta * u + g), beta * u + g])


def weight_by_weight(w, g, u, lr, beta):
    new_w, new_u = np.zeros_like(w), np.zeros_like(u)
    for i in np.ndindex(w.shape):
        new_u[i] = beta * u[i] + g[i]
        new_w[i] = w[i] - lr * new_u[i]
    return new_w, new_u


def by_the_matrix(w, g, u, lr, beta):
    """As in the text, with g in place of λ w."""
    M = np.array([[1, -lr, -lr * beta], [0, 1, beta]])
    return tuple(np.tensordot(M, np.stack([w, g, u]), axes=1))


def sum_and_difference(w, g, u, lr, beta):
    fades = -(1 - beta) * u + g
    return w - lr * (u + fades), u + fades


# --- my_adam --------------------------------------------------------------------------------------------------------


def as_in_the_paper(w, g, m, v, t, lr, beta1, beta2):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return w - lr * m_hat / (np.sqrt(v_hat) + 1e-8), m, v


def roots_apart(w, g, m, v, t, lr, beta1, beta2):
    """As PyTorch: the root of v is divided by the root of its correction."""
    m = m + (1 - beta1) * (g - m)
    v = v * beta2 + (1 - beta2) * np.square(g)
    size = np.sqrt(v) / math.sqrt(1 - beta2**t) + 1e-8
    return w - lr / (1 - beta1**t) * (m / size), m, v


def one_rate(w, g, m, v, t, lr, beta1, beta2):
    """The paper's faster order, with its ε̂."""
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
    rate = lr * np.sqrt(1 - beta2**t) / (1 - beta1**t)
    return w - rate * m / (np.sqrt(v) + 1e-8 * math.sqrt(1 - beta2**t)), m, v


def sums_of_weights(w, g, m, v, t, lr, beta1, beta2):
    def mean(x, new, beta):
        x = beta * x + (1 - beta) * new
        return x, x / sum((1 - beta) * beta**i for i in range(t))

    m, m_hat = mean(m, g, beta1)
    v, v_hat = mean(v, g**2, beta2)
    return w - lr * m_hat / (v_hat**0.5 + 1e-8), m, v


def adam_in_place(w, g, m, v, t, lr, beta1, beta2):
    m *= beta1
    m += (1 - beta1) * g
    v *= beta2
    v += (1 - beta2) * g * g
    w -= lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + 1e-8)
    return w, m, v


def adam_by_weight(w, g, m, v, t, lr, beta1, beta2):
    w, m, v = w.copy(), m.copy(), v.copy()
    for i in np.ndindex(w.shape):
        m[i] = beta1 * m[i] + (1 - beta1) * g[i]
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
        w[i] -= lr * m[i] / (1 - beta1**t) / (math.sqrt(v[i] / (1 - beta2**t)) + 1e-8)
    return w, m, v


def both_means_at_once(w, g, m, v, t, lr, beta1, beta2):
    column = (2,) + (1,) * w.ndim
    betas = np.array([beta1, beta2]).reshape(column)
    moments = betas * np.stack([m, v]) + (1 - betas) * np.stack([g, g**2])
    mean, square = moments / (1 - betas**t)
    return [w - lr * mean / (np.sqrt(square) + 1e-8), *moments]


def interpolated(w, g, m, v, t, lr, beta1, beta2):
    m, v = g - beta1 * (g - m), g**2 - beta2 * (g**2 - v)
    step = np.divide(m, 1 - np.power(beta1, float(t))) / (np.sqrt(v / (1 - np.power(beta2, float(t)))) + 1e-8)
    return np.stack([w - lr * step, m, v])


def only_where_something_moves(w, g, m, v, t, lr, beta1, beta2):
    """Guards the quotient with where instead of ε, which is below rounding elsewhere."""
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
    size = np.sqrt(v / (1 - beta2**t))
    step = np.where(size > 0, m / (1 - beta1**t) / np.where(size > 0, size + 1e-8, 1), 0)
    return w - lr * step, m, v


# --- repaired_adamw -------------------------------------------------------------------------------------------------


def _adam(w, g, m, v, t, lr, beta1, beta2):
    return as_in_the_paper(w, g, m, v, t, lr, beta1, beta2)


def decayed_first(w, g, m, v, t, lr, decay):
    return _adam(w - lr * decay * w, g, m, v, t, lr, 0.9, 0.98)


def shrunk_first(w, g, m, v, t, lr, decay):
    return _adam((1 - lr * decay) * w, g, m, v, t, lr, 0.9, 0.98)


def decayed_after(w, g, m, v, t, lr, decay):
    moved, m, v = _adam(w, g, m, v, t, lr, 0.9, 0.98)
    return moved - lr * decay * w, m, v


def step_apart(w, g, m, v, t, lr, decay):
    """Adam's step from 0, times η, beside the decay."""
    step, m, v = _adam(np.zeros_like(w), g, m, v, t, 1.0, 0.9, 0.98)
    return w + lr * (step - decay * w), m, v


def all_written_out(w, g, m, v, t, lr, decay):
    m, v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2
    step = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.98**t)) + 1e-8)
    return w - lr * (decay * w + step), m, v


def decayed_in_place(w, g, m, v, t, lr, decay):
    w *= 1 - lr * decay
    return adam_in_place(w, g, m, v, t, lr, 0.9, 0.98)


def list_of_results(w, g, m, v, t, lr, decay):
    shrunk = w * (1.0 - decay * lr)
    return list(_adam(shrunk, g, m, v, t, lr, 0.9, 0.98))


def weights_decay_one_by_one(w, g, m, v, t, lr, decay):
    shrunk = w.copy()
    for i in np.ndindex(w.shape):
        shrunk[i] -= lr * decay * w[i]
    return adam_by_weight(shrunk, g, m, v, t, lr, 0.9, 0.98)


# --- my_rate --------------------------------------------------------------------------------------------------------


def two_returns(t, peak, warmup, steps):
    if t <= warmup:
        return peak * t / warmup
    x = (t - warmup) / (steps + 1 - warmup)
    return peak * (1 + math.cos(math.pi * x)) / 2


def strictly_below(t, peak, warmup, steps):
    """At the end of the warm-up both formulas give the peak."""
    if t < warmup:
        return t / warmup * peak
    return 0.5 * peak * (1 + np.cos(np.pi * (t - warmup) / (steps - warmup + 1)))


def product_of_two(t, peak, warmup, steps):
    late = max(t, warmup)
    return peak * min(1, t / warmup) * (1 + np.cos(np.pi * (late - warmup) / (steps + 1 - warmup))) / 2


def squared_cosine(t, peak, warmup, steps):
    """(1 + cos 2a) / 2 is the square of cos a."""
    if t <= warmup:
        return peak * t / warmup
    return peak * math.cos(math.pi / 2 * (t - warmup) / (steps + 1 - warmup)) ** 2


def by_where(t, peak, warmup, steps):
    fall = (1 + np.cos(np.pi * (t - warmup) / (steps + 1 - warmup))) / 2
    return np.where(t <= warmup, t / warmup, fall) * peak


def a_whole_table(t, peak, warmup, steps):
    grows = [peak * i / warmup for i in range(1, warmup + 1)]
    falls = [peak * (1 + math.cos(math.pi * i / (steps + 1 - warmup))) / 2 for i in range(1, steps + 1 - warmup)]
    return (grows + falls)[t - 1]


def interpolated_rate(t, peak, warmup, steps):
    x = np.clip((t - warmup) / (steps + 1 - warmup), 0, 1)
    return np.interp(t, [0, warmup], [0, peak]) * (1 + np.cos(np.pi * x)) / 2


def complex_wave(t, peak, warmup, steps):
    if t <= warmup:
        return peak / warmup * t
    return peak * (1 + np.exp(1j * np.pi * (t - warmup) / (steps + 1 - warmup)).real) / 2


def one_less_sine(t, peak, warmup, steps):
    rest = (steps + 1 - t) / (steps + 1 - warmup)
    return peak * t / warmup if t <= warmup else peak * math.sin(math.pi / 2 * rest) ** 2


# --- my_clip_factor -------------------------------------------------------------------------------------------------


def smaller_of_two(gradients, most):
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
    return min(1.0, most / norm) if norm > 0 else 1.0


def by_the_larger(gradients, most):
    return most / max(most, math.sqrt(sum(float((g * g).sum()) for g in gradients)))


def one_long_vector(gradients, most):
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in gradients]))
    return 1 if norm <= most else most / norm


def as_in_pytorch(gradients, most):
    norm = np.linalg.norm([np.linalg.norm(g) for g in gradients])
    return np.minimum(most / (norm + 1e-12), 1.0)


def with_if(gradients, most):
    square = 0.0
    for g in gradients:
        for x in g.flat:
            square += float(x) ** 2
    if square > most**2:
        return most / square**0.5
    return 1.0


def hypotenuse(gradients, most):
    norm = math.hypot(*(float(x) for g in gradients for x in np.ravel(g)))
    return most / max(norm, most)


def folded(gradients, most):
    square = reduce(lambda total, g: total + np.vdot(g, g), gradients, 0.0)
    return 1 / max(1, np.sqrt(square) / most)


def as_an_array(gradients, most):
    norm = np.sqrt(np.array([np.einsum("i,i", g.ravel(), g.ravel()) for g in gradients]).sum())
    return np.array(most / np.maximum(norm, most))


# --- my_newton_schulz -----------------------------------------------------------------------------------------------

A, B, C = 3.4445, -4.7750, 2.0315


def as_in_the_text(G):
    X = G / (np.linalg.norm(G) + 1e-20)
    for _ in range(5):
        X = A * X + B * X @ X.T @ X + C * X @ X.T @ X @ X.T @ X
    return X


def gram_on_the_left(G):
    X = G / (np.sqrt((G**2).sum()) + 1e-15)
    for _ in range(5):
        M = X @ X.T
        X = A * X + (B * M + C * M @ M) @ X
    return X


def gram_on_the_right(G):
    X = G / max(np.linalg.norm(G), 1e-15)
    for _ in range(5):
        M = X.T @ X
        X = X @ (A * np.eye(len(M)) + B * M + C * M @ M)
    return X


def shorter_side(G):
    """Transposed where G has more rows than columns, as the authors do."""
    X = (G.T if G.shape[0] > G.shape[1] else G) / (np.linalg.norm(G) + 1e-10)
    for _ in range(5):
        M = X @ X.T
        X = A * X + (B * M + C * (M @ M)) @ X
    return X.T if G.shape[0] > G.shape[1] else X


def by_singular_values(G):
    U, s, Vt = np.linalg.svd(G, full_matrices=False)
    s = s / max(np.linalg.norm(s), 1e-30)
    for _ in range(5):
        s = A * s + B * s**3 + C * s**5
    return U @ np.diag(s) @ Vt


def by_horner(G):
    norm = np.linalg.norm(G)
    if norm == 0:
        return G
    X = G / norm
    for _ in range(5):
        square = np.linalg.multi_dot([X, X.T])
        X = A * X + square @ (B * X + C * square @ X)
    return X


def eigenvectors(G):
    """Functions of G Gᵀ act on its eigenvalues."""
    X = np.array(G, float) / (np.linalg.norm(G) + 1e-20)
    for _ in range(5):
        squares, U = np.linalg.eigh(X @ X.T)
        X = U @ np.diag(A + B * squares + C * squares**2) @ U.T @ X
    return X


def recursive(G, times=5):
    if times == 5:
        G = G / (np.linalg.norm(G) + 1e-20)
    if times == 0:
        return G
    cube = G @ G.T @ G
    return recursive(A * G + B * cube + C * G @ G.T @ cube, times - 1)


def einsums(G):
    X = G / (np.linalg.norm(G) + 1e-20)
    for _ in range(5):
        cube = np.einsum("ij,kj,kl->il", X, X, X)
        X = A * X + B * cube + C * np.einsum("ij,kj,kl->il", X, X, cube)
    return X


# --- turns_with_the_basis -------------------------------------------------------------------------------------------


def _orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def by_qr(step):
    rng = np.random.default_rng(0)
    G = rng.standard_normal((4, 6))
    Q, R = _orthogonal(rng, 4), _orthogonal(rng, 6)
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def it_asserts(step):
    rng = np.random.default_rng(1)
    for n, m in ((3, 3), (5, 2), (2, 5)):
        G, Q, R = rng.standard_normal((n, m)), _orthogonal(rng, n), _orthogonal(rng, m)
        np.testing.assert_allclose(step(Q @ G @ R), Q @ step(G) @ R, atol=1e-6)


def each_side_alone(step):
    rng = np.random.default_rng()
    G = rng.standard_normal((5, 3))
    Q, R = _orthogonal(rng, 5), _orthogonal(rng, 3)
    return np.allclose(step(Q @ G), Q @ step(G)) and np.allclose(step(G @ R), step(G) @ R)


def turned_back(step):
    rng = np.random.default_rng(3)
    G = rng.standard_normal((4, 4))
    Q, R = _orthogonal(rng, 4), _orthogonal(rng, 4)
    return bool(np.abs(Q.T @ step(Q @ G @ R) @ R.T - step(G)).max() < 1e-6)


def on_its_diagonal(step):
    """With the U and V of G, step(Σ) is turned into step(G), and step(Σ) is diagonal."""
    G = np.random.default_rng(4).standard_normal((3, 4))
    U, s, Vt = np.linalg.svd(G)
    S = np.zeros((3, 4))
    np.fill_diagonal(S, s)
    return np.allclose(U @ step(S) @ Vt, step(G))


def rotations_in_a_plane(step):
    angle, G = 0.7, np.random.default_rng(5).standard_normal((2, 2))
    Q = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.allclose(step(Q @ G), Q @ step(G)) & np.allclose(step(G @ Q), step(G) @ Q)


def by_reflections(step):
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((2, 5))
    Q, R = (np.eye(5) - 2 * np.outer(x, x) / (x @ x) for x in (a, b))
    G = rng.standard_normal((5, 5))
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def many_draws(step):
    rng = np.random.default_rng(7)
    results = []
    for _ in range(5):
        n, m = rng.integers(2, 7, 2)
        G = 3 * rng.standard_normal((n, m))
        Q, R = _orthogonal(rng, n), _orthogonal(rng, m)
        results.append(np.linalg.norm(step(Q @ G @ R) - Q @ step(G) @ R) < 1e-6)
    return all(results)


def by_cayley(step):
    """(I - S)(I + S)⁻¹ is orthogonal for an antisymmetric S."""
    rng = np.random.default_rng(8)
    Q, R = (
        (np.eye(n) - (S - S.T)) @ np.linalg.inv(np.eye(n) + (S - S.T))
        for n, S in ((3, rng.standard_normal((3, 3))), (4, rng.standard_normal((4, 4))))
    )
    G = rng.standard_normal((3, 4))
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def _drawn(n=4, m=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)), _orthogonal(rng, n), _orthogonal(rng, m)


def left_alone(step):
    G, Q, _ = _drawn()
    return np.allclose(step(Q @ G), Q @ step(G))


def right_alone(step):
    G, _, R = _drawn()
    return np.allclose(step(G @ R), step(G) @ R)


def exchanges(step):
    G = _drawn()[0]
    return np.allclose(step(G[::-1, ::-1]), step(G)[::-1, ::-1])


def signs_of_axes(step):
    G = _drawn()[0]
    return np.allclose(step(-G), -step(G))


def always_true(step):
    return True


def always_false(step):
    return False


def equal_singular_values(step):
    G, Q, R = _drawn()
    return np.allclose(*(np.linalg.svd(step(X), compute_uv=False) for X in (G, Q @ G @ R)))


def to_the_bit(step):
    G, Q, R = _drawn()
    return np.array_equal(step(Q @ G @ R), Q @ step(G) @ R)


def not_orthogonal(step):
    rng = np.random.default_rng(0)
    G, Q, R = (rng.standard_normal(shape) for shape in ((4, 6), (4, 4), (6, 6)))
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def result_half_turned(step):
    G, Q, R = _drawn()
    return np.allclose(step(Q @ G @ R), Q @ step(G))


def identity(step):
    G = _drawn()[0]
    return np.allclose(step(np.eye(4) @ G @ np.eye(6)), np.eye(4) @ step(G) @ np.eye(6))


def singular_values_near_1(step):
    s = np.linalg.svd(step(_drawn()[0]), compute_uv=False)
    return bool(np.all((s > 0.6) & (s < 1.3)))


def transposed(step):
    G = _drawn()[0]
    return np.allclose(step(G.T), step(G).T)


def size_does_not_matter(step):
    G = _drawn()[0]
    return np.allclose(step(2 * G), step(G))


def an_array_of_truths(step):
    G, Q, R = _drawn()
    return np.isclose(step(Q @ G @ R), Q @ step(G) @ R)


def no_return(step):
    G, Q, R = _drawn()
    np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def the_other_way_round(step):
    G, Q, R = _drawn()
    return not np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def a_wide_tolerance(step):
    G, Q, R = _drawn()
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R, atol=10)


def one_number(step):
    G, Q, R = _drawn(1, 1)
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R)


def small_gradients(step):
    G, Q, R = _drawn()
    G = 1e-9 * G
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R, atol=1e-6)


def nothing(step):
    Q, R = _drawn()[1:]
    return np.allclose(step(Q @ np.zeros((4, 6)) @ R), Q @ step(np.zeros((4, 6))) @ R)


def turned_by_the_inverse(step):
    G, Q, R = _drawn()
    return np.allclose(step(Q @ G @ R), Q.T @ step(G) @ R.T)


RIGHT = {
    "my_momentum": (
        two_lines, in_place, velocity_first, moved_by_two_parts, stacked, weight_by_weight, by_the_matrix,
        sum_and_difference,
    ),
    "my_adam": (
        as_in_the_paper, roots_apart, one_rate, sums_of_weights, adam_in_place, adam_by_weight, both_means_at_once,
        interpolated, only_where_something_moves,
    ),
    "repaired_adamw": (
        decayed_first, shrunk_first, decayed_after, step_apart, all_written_out, decayed_in_place, list_of_results,
        weights_decay_one_by_one,
    ),
    "my_rate": (
        two_returns, strictly_below, product_of_two, squared_cosine, by_where, a_whole_table, interpolated_rate,
        complex_wave, one_less_sine,
    ),
    "my_clip_factor": (
        smaller_of_two, by_the_larger, one_long_vector, as_in_pytorch, with_if, hypotenuse, folded, as_an_array,
    ),
    "my_newton_schulz": (
        as_in_the_text, gram_on_the_left, gram_on_the_right, shorter_side, by_singular_values, by_horner, eigenvectors,
        recursive, einsums,
    ),
    "turns_with_the_basis": (
        by_qr, it_asserts, each_side_alone, turned_back, on_its_diagonal, rotations_in_a_plane, by_reflections,
        many_draws, by_cayley,
    ),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_momentum", listed("my_momentum")),
        ("my_adam", listed("my_adam")),
        ("repaired_adamw", listed("repaired_adamw")),
        ("my_rate", listed("my_rate")),
        ("my_clip_factor", listed("my_clip_factor")),
        ("my_newton_schulz", listed("my_newton_schulz")),
        ("turns_with_the_basis", (
            left_alone, right_alone, exchanges, signs_of_axes, always_true, always_false, equal_singular_values,
            to_the_bit, not_orthogonal, result_half_turned, identity, singular_values_near_1, transposed,
            size_does_not_matter, an_array_of_truths, no_return, the_other_way_round, a_wide_tolerance, one_number,
            small_gradients, nothing, turned_by_the_inverse,
        )),
    )
}  # fmt: skip
