"""Answers to the exercises of chapter 19."""

import numpy as np

from tinyattn import ops

from . import listed

# --- my_chunk -------------------------------------------------------------------------------------------------------


def token_by_token(S, q, k, v, lam):
    """The loop that was not asked for: right, if not what it is about."""
    y = np.empty_like(v)
    for t in range(len(v)):
        S = lam * S + np.outer(k[t], v[t])
        y[t] = q[t] @ S
    return y, S


def powers(S, q, k, v, lam):
    c = len(q)
    age = np.subtract.outer(np.arange(c), np.arange(c))
    M = np.where(age >= 0, float(lam) ** np.abs(age), 0) * (q @ k.T)
    past = float(lam) ** np.arange(1, c + 1)
    return M @ v + (past[:, None] * q) @ S, lam**c * S + k.T @ (past[::-1, None] / lam * v)


def the_state_as_a_token(S, q, k, v, lam):
    """The old state is d more tokens, whose keys are the unit vectors and whose values are its rows."""
    d, c = len(S), len(q)
    k, v = np.concatenate([np.eye(d), k]), np.concatenate([S, v])
    came = np.concatenate([np.zeros(d), np.arange(1, c + 1)])
    age = np.arange(1, c + 1)[:, None] - came
    y = (np.where(age >= 0, lam ** np.maximum(age, 0), 0) * (q @ k.T)) @ v
    return y, (k * lam ** (c - came)[:, None]).T @ v


def with_einsum(S, q, k, v, lam):
    c = len(q)
    decay = np.array([[lam ** (i - j) if j <= i else 0.0 for j in range(c)] for i in range(c)])
    y = np.einsum("ij,id,jd,je->ie", decay, q, k, v) + np.einsum("i,id,de->ie", lam ** np.arange(1.0, c + 1), q, S)
    return y, lam**c * S + np.einsum("j,jd,je->de", decay[-1], k, v)


def all_states(S, q, k, v, lam):
    states = []
    for key, value in zip(k, v, strict=True):
        S = lam * S + key[:, None] * value
        states.append(S)
    return [np.stack([a @ s for a, s in zip(q, states, strict=True)]), states[-1]]


def scaled_queries_and_keys(S, q, k, v, lam):
    """Fine for short chunks: λ^(-j) grows."""
    grows = lam ** np.arange(1, len(q) + 1)[:, None]
    a, b = q * grows, k / grows
    return np.tril(a @ b.T) @ v + a @ S, lam ** len(q) * (S + b.T @ v)


def by_horner(S, q, k, v, lam):
    """Weights of a chunk are made row by row: each is the one above, faded, and a 1."""
    decay = np.zeros((len(q), len(q)))
    for i in range(len(q)):
        decay[i] = lam * decay[i - 1] if i else 0
        decay[i, i] = 1
    past = lam * decay[:, :1]  # what is left of the state
    return (decay * (q @ k.T)) @ v + past * (q @ S), past[-1] * S + (k * decay[-1][:, None]).T @ v


def halves(S, q, k, v, lam):
    """A chunk is two chunks."""
    if len(q) == 1:
        S = lam * S + np.outer(k, v)
        return q @ S, S
    half = len(q) // 2
    first, S = halves(S, q[:half], k[:half], v[:half], lam)
    second, S = halves(S, q[half:], k[half:], v[half:], lam)
    return np.vstack([first, second]), S


# --- my_state_backward ----------------------------------------------------------------------------------------------


def as_derived(dy, lam, q, k, v):
    n, S = len(lam), [np.zeros((k.shape[1], v.shape[1]))]
    for t in range(n):
        S.append(lam[t] * S[t] + k[t][:, None] * v[t])
    G = [q[t][:, None] * dy[t] for t in range(n)]
    for t in range(n - 2, -1, -1):
        G[t] = G[t] + lam[t + 1] * G[t + 1]
    dlam = np.array([np.sum(G[t] * S[t]) for t in range(n)])
    dq = np.array([S[t + 1] @ dy[t] for t in range(n)])
    dk, dv = np.array([G[t] @ v[t] for t in range(n)]), np.array([k[t] @ G[t] for t in range(n)])
    return dlam, dq, dk, dv


def by_the_matrix(dy, lam, q, k, v):
    """The explicit form's: dM = dy vᵀ."""
    n = len(lam)
    decays = np.eye(n)
    for t in range(1, n):
        decays[t, :t] = lam[t] * decays[t - 1, :t]
    s = q @ k.T
    ds = decays * (dy @ v.T)
    through = s * (dy @ v.T)
    dlam = np.zeros(n)
    for t in range(1, n):  # λ_t is a factor of decays[i, j] for j < t <= i
        for i in range(t, n):
            for j in range(t):
                dlam[t] += through[i, j] * np.prod(lam[j + 1 : t]) * np.prod(lam[t + 1 : i + 1])
    return dlam, ds @ k, ds.T @ q, (decays * s).T @ dy


def by_mambas(dy, lam, q, k, v):
    """The library's scan of e channels: λ = exp(-Δ), v = Δ x."""
    delta = np.repeat(-np.log(lam.astype(float))[:, None], v.shape[1], axis=1) + 1e-300
    x, A, D = v / delta, -np.ones((k.shape[1], v.shape[1])), np.zeros(v.shape[1])
    given = [np.asarray(a, float) for a in (x, delta, A, k, q, D)]
    states = ops.selective_scan(*given)[1]
    dx, ddelta, _, dk, dq, _, _ = ops.selective_scan_backward(np.asarray(dy, float), *given, states)
    dv = dx / delta
    return (np.sum(x * dv - ddelta, axis=-1) / lam), dq, dk, dv


def by_einsum(dy, lam, q, k, v):
    n = len(lam)
    S = np.zeros((n + 1, k.shape[1], v.shape[1]))
    G = np.zeros_like(S)
    for t in range(n):
        S[t + 1] = lam[t] * S[t] + np.outer(k[t], v[t])
    for t in range(n)[::-1]:
        G[t] = np.outer(q[t], dy[t]) + (lam[t + 1] * G[t + 1] if t + 1 < n else 0)
    G = G[:-1]
    return (
        np.einsum("tde,tde->t", G, S[:-1]),
        np.einsum("tde,te->td", S[1:], dy),
        np.einsum("tde,te->td", G, v),
        np.einsum("tde,td->te", G, k),
    )


def recursive(dy, lam, q, k, v):
    dlam, dq, dk, dv = (np.zeros(np.shape(x)) for x in (lam, q, k, v))

    def step(t, S):
        if t == len(lam):
            return 0 * S
        new = lam[t] * S + np.outer(k[t], v[t])
        G = step(t + 1, new) + np.outer(q[t], dy[t])
        dlam[t], dq[t], dk[t], dv[t] = (G * S).sum(), new @ dy[t], G @ v[t], G.T @ k[t]
        return lam[t] * G

    step(0, np.zeros((k.shape[1], v.shape[1])))
    return [dlam, dq, dk, dv]


def differences(dy, lam, q, k, v):
    """By an imaginary step in every entry."""

    def y(lam, q, k, v):
        S, found = np.zeros((q.shape[1], v.shape[1]), complex), []
        for t in range(len(lam)):
            S = lam[t] * S + np.outer(k[t], v[t])
            found.append(q[t] @ S)
        return np.array(found)

    given, gradients = [np.asarray(x, float) for x in (lam, q, k, v)], []
    for place, x in enumerate(given):
        gradient = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            nudged = [a.astype(complex) for a in given]
            nudged[place][at] += 1e-30j
            gradient[at] = np.sum(dy * y(*nudged).imag) / 1e-30
        gradients.append(gradient)
    return tuple(gradients)


def two_scans(dy, lam, q, k, v):
    """One function goes forward and back: G is the scan of reversed tokens, with decays one place on."""

    def scan(decays, left, right):
        S, states = np.zeros((left.shape[1], right.shape[1])), []
        for decay, a, b in zip(decays, left, right, strict=True):
            S = decay * S + np.outer(a, b)
            states.append(S)
        return np.array(states)

    S = scan(lam, k, v)
    G = scan(np.append(0, lam[:0:-1]), q[::-1], dy[::-1])[::-1]
    before = np.concatenate([np.zeros_like(S[:1]), S[:-1]])
    return (G * before).sum((1, 2)), np.squeeze(S @ dy[..., None], -1), (G @ v[..., None])[..., 0], (
        k[:, None, :] @ G)[:, 0]  # fmt: skip


def with_a_list_of_gradients(dy, lam, q, k, v):
    n, S, rows = len(lam), [0 * np.outer(k[0], v[0])], []
    for t in range(n):
        S += [lam[t] * S[-1] + np.outer(k[t], v[t])]
    G = 0
    for t in reversed(range(n)):
        G = G + np.outer(q[t], dy[t])
        rows.insert(0, (np.vdot(G, S[t]), S[t + 1].dot(dy[t]), G.dot(v[t]), G.T.dot(k[t])))
        G = lam[t] * G
    return [np.array(column) for column in zip(*rows, strict=True)]


# --- shifts_change_nothing ------------------------------------------------------------------------------------------


def given(n=5, d=4, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d)), rng.exponential(size=d), rng.standard_normal(d)


def both_ways(wkv):
    k, v, w, u = given()
    return np.allclose(wkv(k + 800, v, w, u), wkv(k, v, w, u)) and np.allclose(wkv(k - 800, v, w, u), wkv(k, v, w, u))


def asserts(wkv):
    k, v, w, u = given()
    for far in (-1000.0, -1.0, 1.0, 1000.0):
        np.testing.assert_allclose(wkv(k + far, v, w, u), wkv(k, v, w, u), atol=1e-6)


def from_the_first_key(wkv):
    """Keys of which the first is 0."""
    k, v, w, u = given()
    return all(np.allclose(wkv(k - k[0], v, w, u), wkv(k - k[0] + far, v, w, u)) for far in (750, -750))


def every_channel_its_own(wkv):
    k, v, w, u = given()
    far = np.array([900.0, -900.0, 5000.0, -5000.0])
    return bool(np.abs(wkv(k + far, v, w, u) - wkv(k, v, w, u)).max() < 1e-8)


def up_to_there(wkv):
    k, v, w, u = given(n=3)
    y = wkv(k, v, w, u)
    worst = 0.0
    for far in range(-900, 1000, 100):
        worst = np.maximum(worst, np.max(np.abs(wkv(k + far, v, w, u) - y)))
    return worst <= 1e-9


def many_worlds(wkv):
    for seed in range(5):
        k, v, w, u = given(n=4, d=2, seed=seed)
        if not all(np.allclose(wkv(k + far, v, w, u), wkv(k, v, w, u)) for far in (-2000, 2000)):
            return False
    return True


def up_against_down_and_none(wkv):
    k, v, w, u = given()
    ys = np.stack([wkv(k + far, v, w, u) for far in (-800, 0, 800)])
    return np.ptp(ys, axis=0).max() < 1e-7


def whole_values_in_one_channel(wkv):
    """Equal values of integers: y is 3 up to rounding, and must not be cut to 2."""
    k, v, one = np.random.default_rng(3).standard_normal((6, 1)), np.full((6, 1), 3), np.ones(1)
    y = wkv(k, v, one, 0 * one)
    return both_ways(wkv) and all(np.allclose(wkv(k + far, v, one, 0 * one), y) for far in (1e3, -1e3))


def as_a_numpy_bool(wkv):
    k, v, w, u = given()
    y, up, down = wkv(k, v, w, u), wkv(k + 1000.0, v, w, u), wkv(k - 1000.0, v, w, u)
    return np.all(np.isclose(up, y)) & np.all(np.isclose(down, y))


def too_far(wkv):
    """k + 1e12 keeps four of k's decimals."""
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, v, w, u), wkv(k, v, w, u)) for far in (-1e12, 1e12))


def far_and_farther(wkv):
    """Keys that are cut off are alike at both ends."""
    k, v, w, u = given()
    return np.allclose(wkv(k + 800, v, w, u), wkv(k - 800, v, w, u))


def only_up(wkv):
    k, v, w, u = given()
    return np.allclose(wkv(k + 800, v, w, u), wkv(k, v, w, u))


def only_down(wkv):
    k, v, w, u = given()
    return np.allclose(wkv(k - 800, v, w, u), wkv(k, v, w, u))


def a_small_shift(wkv):
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, v, w, u), wkv(k, v, w, u)) for far in (-1, 1))


def not_far_enough(wkv):
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, v, w, u), wkv(k, v, w, u)) for far in (-40, 40))


def finite(wkv):
    k, v, w, u = given()
    return bool(np.all(np.isfinite(wkv(k + 800, v, w, u))) and np.all(np.isfinite(wkv(k - 800, v, w, u))))


def to_the_bit(wkv):
    k, v, w, u = given()
    return all(np.array_equal(wkv(k + far, v, w, u), wkv(k, v, w, u)) for far in (-800, 800))


def the_librarys(wkv):
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, v, w, u), ops.wkv(k, v, w, u)[0]) for far in (-800, 800))


def values_as_well(wkv):
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, v + far, w, u), wkv(k, v, w, u)) for far in (-800, 800))


def one_key(wkv):
    k, v, w, u = given()
    moved = k.copy()
    moved[0] += 800
    return np.allclose(wkv(moved, v, w, u), wkv(k, v, w, u))


def ones_stay(wkv):
    """A mean of ones is 1: true also of keys that are cut off."""
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, np.ones_like(v), w, u), 1) for far in (-800, 800))


def generous(wkv):
    k, v, w, u = given()
    return all(np.allclose(wkv(k + far, v, w, u), wkv(k, v, w, u), atol=0.1) for far in (-800, 800))


def nothing_is_larger(wkv):
    k, v, w, u = given()
    return all(not (abs(wkv(k + far, v, w, u) - wkv(k, v, w, u)) > 1e-6).any() for far in (-800, 800))


def worst_by_max(wkv):
    k, v, w, u = given()
    worst = 0.0
    for far in (-800, 800):
        worst = max(worst, *abs(wkv(k + far, v, w, u) - wkv(k, v, w, u)).ravel())
    return worst < 1e-6


def opposite(wkv):
    return not both_ways(wkv)


def forgets_to_return(wkv):
    both_ways(wkv)


def a_matrix(wkv):
    k, v, w, u = given()
    return np.isclose(wkv(k + 800, v, w, u), wkv(k, v, w, u))


def always(wkv):
    return True


RIGHT = {
    "my_chunk": (token_by_token, powers, the_state_as_a_token, with_einsum, all_states, scaled_queries_and_keys,
                 by_horner, halves),
    "my_state_backward": (as_derived, by_the_matrix, by_mambas, by_einsum, recursive, differences, two_scans,
                          with_a_list_of_gradients),
    "shifts_change_nothing": (both_ways, asserts, from_the_first_key, every_channel_its_own, up_to_there,
                              many_worlds, up_against_down_and_none, as_a_numpy_bool, whole_values_in_one_channel),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_chunk", listed("my_chunk")),
        ("my_state_backward", listed("my_state_backward")),
        ("shifts_change_nothing", [only_up, only_down, a_small_shift, not_far_enough, finite, to_the_bit, the_librarys,
                                   values_as_well, one_key, ones_stay, generous, opposite, forgets_to_return, a_matrix,
                                   always, too_far, far_and_farther, nothing_is_larger, worst_by_max]),
    )
}  # fmt: skip
