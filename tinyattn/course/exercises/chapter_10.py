"""Exercises of chapter 10, learning itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...check.cases import CaseDrawer
from ...check.property import largest
from ...training import Moments, adam, adamw
from ...training.clipping import clip_by_global_norm
from ...training.schedules import rate_at, rate_factors
from ..graders import Function, Judge, Number
from ..plain import adjustable, plain_spec
from ..prose import Prose

PROSE = Prose(10)
EPS, BETAS = 1e-8, (0.9, 0.98)
QUINTIC, CUBIC = (3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0)


def _steps_saved(kappa: float) -> float:
    """How many times more steps gradient descent needs, from both factors of a step."""
    root = math.sqrt(kappa)
    return math.log((root - 1) / (root + 1)) / math.log((kappa - 1) / (kappa + 1))


def _atol(case: dict[str, Any]) -> float:
    arrays = [x for x in case.values() if isinstance(x, np.ndarray)]
    return (1e-9 if arrays[0].dtype == np.float64 else 2e-5) * largest(*arrays, 1) ** 2


# my_momentum
@adjustable
def _momentum(
    w: Any, g: Any, u: Any, lr: Any, beta: Any, *,
    sums: Any = lambda g, u, lr, beta: beta * u + g, moves: Any = lambda g, u, new, lr, beta: -lr * new,
) -> Any:  # fmt: skip
    """The weights and the velocity after one step."""
    new = sums(g, u, lr, beta)
    return w + moves(g, u, new, lr, beta), new


def _step_of_momentum(draw: CaseDrawer) -> dict[str, Any]:
    shape = tuple(draw.size(1, 4) for _ in range(draw.choose((1, 2))))
    w, g, u = (draw.array(*shape) for _ in range(3))
    return {"w": w, "g": g, "u": u, "lr": draw.choose((0.5, 0.1)), "beta": draw.choose((0.9, 0.8, 0.6))}


MOMENTUM = plain_spec("momentum", "u ← βu + g and w ← w - η u", _step_of_momentum, _momentum, "w", "u", atol=_atol)

WRONG_MOMENTUM = dict(
    old_velocity=_momentum.but(moves=lambda g, u, new, lr, beta: -lr * u),
    uphill=_momentum.but(moves=lambda g, u, new, lr, beta: lr * new),
    averaged=_momentum.but(sums=lambda g, u, lr, beta: beta * u + (1 - beta) * g),
    gradient_fades=_momentum.but(sums=lambda g, u, lr, beta: u + beta * g),
    forgets=_momentum.but(sums=lambda g, u, lr, beta: g),
    never_fades=_momentum.but(sums=lambda g, u, lr, beta: u + g),
    rate_inside=_momentum.but(
        sums=lambda g, u, lr, beta: beta * u + lr * g, moves=lambda g, u, new, lr, beta: -new
    ),
    rate_twice=_momentum.but(sums=lambda g, u, lr, beta: beta * u + lr * g),
    nesterov=_momentum.but(moves=lambda g, u, new, lr, beta: -lr * (beta * new + g)),
    gradient_subtracted=_momentum.but(sums=lambda g, u, lr, beta: beta * u - g),
    velocity_of_moves=_momentum.but(
        sums=lambda g, u, lr, beta: beta * u - lr * g, moves=lambda g, u, new, lr, beta: new
    ),
    plain_step=_momentum.but(moves=lambda g, u, new, lr, beta: -lr * g),
    rate_missing=_momentum.but(moves=lambda g, u, new, lr, beta: -new),
    fades_at_once=_momentum.but(sums=lambda g, u, lr, beta: beta * (u + g)),
    beta_twice=_momentum.but(moves=lambda g, u, new, lr, beta: -lr * beta * new),
    fades_by_the_rest=_momentum.but(sums=lambda g, u, lr, beta: (1 - beta) * u + g),
    gradient_twice=_momentum.but(moves=lambda g, u, new, lr, beta: -lr * (new + g)),
    velocity_returned_old=lambda w, g, u, lr, beta: (w - lr * (beta * u + g), u),
)


# my_adam
@adjustable
def _by_hand(
    w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, beta1: Any, beta2: Any, *,
    mean: Any = lambda m, g, b: b * m + (1 - b) * g, square: Any = lambda v, g, b, m: b * v + (1 - b) * g**2,
    of_m: Any = lambda b, t: 1 - b**t, of_v: Any = lambda b, t: 1 - b**t, size: Any = lambda v: np.sqrt(v) + EPS,
    sign: int = -1, returns: Any = lambda m, v, m_hat, v_hat: (m, v),
) -> Any:  # fmt: skip
    """Adam's step, line by line."""
    m, v = mean(m, g, beta1), square(v, g, beta2, m)
    m_hat, v_hat = m / of_m(beta1, t), v / of_v(beta2, t)
    return w + sign * lr * m_hat / size(v_hat), *returns(m, v, m_hat, v_hat)


def _adam(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, beta1: Any, beta2: Any) -> Any:
    """The library's, without writing into its arguments."""
    w, m, v = w.copy(), m.copy(), v.copy()
    adam(w, g, Moments(m, v), t, lr=lr, beta1=beta1, beta2=beta2, eps=EPS)
    return w, m, v


def _state(draw: CaseDrawer) -> dict[str, Any]:
    """Weights, gradient and moments before step t; before the first, both are 0."""
    shape = tuple(draw.size(1, 4) for _ in range(draw.choose((1, 2))))
    t = draw.choose((3, 1, 2, 10))
    w, g, m, more = (draw.array(*shape) for _ in range(4))
    v = m**2 + more**2
    m, v = (m / 4, v / 4) if t > 1 else (0 * m, 0 * v)
    return {"w": w, "g": g, "m": m, "v": v, "t": t, "lr": draw.choose((0.5, 0.1))}


def _step_of_adam(draw: CaseDrawer) -> dict[str, Any]:
    return _state(draw) | {"beta1": draw.choose((0.9, 0.8)), "beta2": draw.choose((0.98, 0.9))}


def _small_gradients() -> list[dict[str, Any]]:
    """No gradient at all, and one of 0.001, beside which ε outside of the root is nothing, and inside is not."""
    zero = np.zeros(2)
    rest = {"w": np.ones(2), "m": zero, "v": zero, "t": 1, "lr": 0.01, "beta1": 0.9, "beta2": 0.98}
    return [rest | {"g": zero}, rest | {"g": np.array([1e-3, -1e-3])}]


ADAM = plain_spec(
    "adam", "w, m and v are as after a step of Adam", _step_of_adam, _adam, "w", "m", "v", atol=_atol,
    extreme="a gradient of 0 moves nothing, and one of 0.001 moves each weight by η", extremes=_small_gradients(),
)  # fmt: skip

WRONG_ADAM = dict(
    no_hats=_by_hand.but(of_m=lambda b, t: 1, of_v=lambda b, t: 1),
    m_without_hat=_by_hand.but(of_m=lambda b, t: 1),
    v_without_hat=_by_hand.but(of_v=lambda b, t: 1),
    steps_from_0=_by_hand.but(of_m=lambda b, t: 1 - b ** (t - 1), of_v=lambda b, t: 1 - b ** (t - 1)),
    no_power=_by_hand.but(of_m=lambda b, t: 1 - b, of_v=lambda b, t: 1 - b),
    times_t=_by_hand.but(of_m=lambda b, t: (1 - b) * t, of_v=lambda b, t: (1 - b) * t),
    hats_multiplied=_by_hand.but(of_m=lambda b, t: 1 / (1 - b**t), of_v=lambda b, t: 1 / (1 - b**t)),
    hats_returned=_by_hand.but(returns=lambda m, v, m_hat, v_hat: (m_hat, v_hat)),
    root_missing=_by_hand.but(size=lambda v: v + EPS),
    eps_in_the_root=_by_hand.but(size=lambda v: np.sqrt(v + EPS)),
    no_eps=_by_hand.but(size=np.sqrt),
    gradient_not_squared=_by_hand.but(square=lambda v, g, b, m: b * v + (1 - b) * g),
    size_without_square=_by_hand.but(square=lambda v, g, b, m: b * v + (1 - b) * abs(g), size=lambda v: v + EPS),
    mean_squared=_by_hand.but(square=lambda v, g, b, m: b * v + (1 - b) * m**2),
    betas_exchanged=lambda w, g, m, v, t, lr, beta1, beta2: _by_hand(w, g, m, v, t, lr, beta2, beta1),
    gradients_summed=_by_hand.but(mean=lambda m, g, b: b * m + g),
    squares_summed=_by_hand.but(square=lambda v, g, b, m: b * v + g**2),
    shares_exchanged=_by_hand.but(
        mean=lambda m, g, b: (1 - b) * m + b * g, square=lambda v, g, b, m: (1 - b) * v + b * g**2
    ),
    uphill=_by_hand.but(sign=1),
    gradient_in_the_step=lambda w, g, m, v, t, lr, beta1, beta2: (
        w - lr * g / (np.sqrt(_by_hand(w, g, m, v, t, lr, beta1, beta2)[2] / (1 - beta2**t)) + EPS),
        *_by_hand(w, g, m, v, t, lr, beta1, beta2)[1:],
    ),
    one_size_for_all=_by_hand.but(size=lambda v: np.sqrt(np.mean(v)) + EPS),
    largest_square=_by_hand.but(square=lambda v, g, b, m: np.maximum(v, b * v + (1 - b) * g**2)),
)  # fmt: skip


# repaired_adamw
def _adamw(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any) -> Any:
    w, m, v = w.copy(), m.copy(), v.copy()
    adamw(w, g, Moments(m, v), t, lr=lr, beta1=BETAS[0], beta2=BETAS[1], eps=EPS, weight_decay=decay)
    return w, m, v


def _step_of_adamw(draw: CaseDrawer) -> dict[str, Any]:
    return _state(draw) | {"decay": draw.choose((0.5, 0.1))}


ADAMW = plain_spec(
    "adamw", "the decay does not pass through the moments", _step_of_adamw, _adamw, "w", "m", "v", atol=_atol,
)  # fmt: skip


@adjustable
def _decayed(
    w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any, *,
    gradient: Any = lambda g, w, lr, decay: g, after: Any = lambda moved, w, v, lr, decay: moved - lr * decay * w,
) -> Any:  # fmt: skip
    """Adam's step with some gradient, and what becomes of the weights."""
    moved, m, v = _adam(w, gradient(g, w, lr, decay), m, v, t, lr, *BETAS)
    return after(moved, w, v / (1 - BETAS[1] ** t), lr, decay), m, v


def _alone(moved: Any, w: Any, v: Any, lr: Any, decay: Any) -> Any:
    return moved


def _in_the_mean_alone(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any) -> Any:
    v = BETAS[1] * v + (1 - BETAS[1]) * g**2
    m = BETAS[0] * m + (1 - BETAS[0]) * (g + decay * w)
    return w - lr * m / (1 - BETAS[0] ** t) / (np.sqrt(v / (1 - BETAS[1] ** t)) + EPS), m, v


def _moments_decay(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any) -> Any:
    moved, m, v = _adamw(w, g, m, v, t, lr, decay)
    return moved, m * (1 - lr * decay), v * (1 - lr * decay)


WRONG_ADAMW = dict(
    as_it_was=_decayed.but(gradient=lambda g, w, lr, decay: g + decay * w, after=_alone),
    no_decay=_decayed.but(after=_alone),
    rate_missing=_decayed.but(after=lambda moved, w, v, lr, decay: moved - decay * w),
    rate_in_the_gradient=_decayed.but(gradient=lambda g, w, lr, decay: g + lr * decay * w, after=_alone),
    new_weights_decay=_decayed.but(after=lambda moved, w, v, lr, decay: moved * (1 - lr * decay)),
    grows=_decayed.but(after=lambda moved, w, v, lr, decay: moved + lr * decay * w),
    both=_decayed.but(gradient=lambda g, w, lr, decay: g + decay * w),
    gradient_reduced=_decayed.but(gradient=lambda g, w, lr, decay: g - decay * w, after=_alone),
    in_the_mean_alone=_in_the_mean_alone,
    divided_by_the_size=_decayed.but(
        after=lambda moved, w, v, lr, decay: moved - lr * decay * w / (np.sqrt(v) + EPS)
    ),
    rate_twice=_decayed.but(after=lambda moved, w, v, lr, decay: moved - lr**2 * decay * w),
    half=_decayed.but(after=lambda moved, w, v, lr, decay: moved - lr * decay * w / 2),
    twice=_decayed.but(after=lambda moved, w, v, lr, decay: moved - 2 * lr * decay * w),
    by_the_sign=_decayed.but(after=lambda moved, w, v, lr, decay: moved - lr * decay * np.sign(w)),
    by_the_square=_decayed.but(after=lambda moved, w, v, lr, decay: moved - lr * decay * w**2),
    moments_decay=_moments_decay,
    gradient_decays=_decayed.but(after=lambda moved, w, v, lr, decay: moved, gradient=lambda g, w, lr, decay: (
        g * (1 - lr * decay)
    )),
    decay_alone=_decayed.but(after=lambda moved, w, v, lr, decay: w * (1 - lr * decay)),
    power=_decayed.but(after=lambda moved, w, v, lr, decay: moved - w + w * np.exp(-lr * decay)),
)  # fmt: skip


# my_rate
def _rate(t: Any, peak: Any, warmup: Any, steps: Any) -> float:
    return rate_at(peak, rate_factors("cosine", warmup, steps), t)


def _any_step(draw: CaseDrawer) -> dict[str, Any]:
    steps = draw.choose((12, 8, 21))
    return {"t": draw.choose(range(1, steps + 1)), "peak": draw.choose((1.0, 0.5)),
            "warmup": draw.choose((4, 1, 7, 8)), "steps": steps}  # fmt: skip


RATE = plain_spec(
    "rate", "the rate grows in a line, then falls along half a cosine", _any_step, _rate, "rate", atol=1e-7,
)  # fmt: skip


@adjustable
def _two_parts(
    t: Any, peak: Any, warmup: Any, steps: Any, *,
    along: Any = lambda t, warmup, steps: (t - warmup) / (steps + 1 - warmup), scale: Any = lambda peak: peak,
    grows: Any = lambda t, warmup: t / warmup, falls: Any = lambda x: (1 + math.cos(math.pi * x)) / 2,
) -> Any:  # fmt: skip
    """The rate of step t, in its two parts."""
    return scale(peak) * (grows(t, warmup) if t <= warmup else falls(along(t, warmup, steps)))


WRONG_RATE = dict(
    no_warmup=_two_parts.but(grows=lambda t, warmup: 1),
    no_fall=_two_parts.but(falls=lambda x: 1),
    counted_from_0=_two_parts.but(grows=lambda t, warmup: (t - 1) / warmup),
    peak_after_the_warmup=_two_parts.but(grows=lambda t, warmup: t / (warmup + 1)),
    squared_warmup=_two_parts.but(grows=lambda t, warmup: (t / warmup) ** 2),
    cosine_from_the_start=_two_parts.but(along=lambda t, warmup, steps: t / (steps + 1)),
    last_step_0=_two_parts.but(along=lambda t, warmup, steps: (t - warmup) / (steps - warmup)),
    divided_by_all_steps=_two_parts.but(along=lambda t, warmup, steps: (t - warmup) / (steps + 1)),
    warmup_not_subtracted=_two_parts.but(along=lambda t, warmup, steps: t / (steps + 1 - warmup)),
    line=_two_parts.but(falls=lambda x: 1 - x),
    half_missing=_two_parts.but(falls=lambda x: 1 + math.cos(math.pi * x)),
    quarter=_two_parts.but(falls=lambda x: math.cos(math.pi * x / 2)),
    cosine_alone=_two_parts.but(falls=lambda x: math.cos(math.pi * x)),
    rises=_two_parts.but(falls=lambda x: (1 - math.cos(math.pi * x)) / 2),
    whole_wave=_two_parts.but(falls=lambda x: (1 + math.cos(2 * math.pi * x)) / 2),
    no_pi=_two_parts.but(falls=lambda x: (1 + math.cos(x)) / 2),
    degrees=_two_parts.but(falls=lambda x: (1 + math.cos(180 * x)) / 2),
    no_peak=_two_parts.but(scale=lambda peak: 1),
    inverse_root=lambda t, peak, warmup, steps: peak * min(t / warmup, math.sqrt(warmup / t)),
    both_at_once=lambda t, peak, warmup, steps: (
        peak * min(1, t / warmup) * (1 + math.cos(math.pi * t / (steps + 1))) / 2
    ),
)


# my_clip_factor
def _factor(gradients: Any, most: Any) -> float:
    """What the library multiplies all arrays by, seen on an array of ones."""
    ones = np.ones(1)
    square = np.asarray(sum(float(np.sum(np.square(g, dtype=np.float64))) for g in gradients))
    clip_by_global_norm([ones], square, most, np)
    return float(ones[0])


def _several(draw: CaseDrawer) -> dict[str, Any]:
    """Two or three arrays; in about half of the cases they are short enough together."""
    shapes: list[tuple[int, ...]] = [(draw.size(1, 3), draw.size(1, 3)), (draw.size(1, 4),), (draw.size(1, 2),)]
    gradients = [draw.array(*shape, size=draw.choose((1, 3))) for shape in shapes[: draw.choose((2, 3))]]
    return {"gradients": gradients, "most": draw.choose((1.0, 2.0, 5.0, 20.0))}


CLIP = plain_spec(
    "clip_factor", "all arrays together have the norm c at most, and their direction", _several, _factor, "factor",
    atol=1e-5, extreme="gradients of 0 stay so: the factor is 1",
    extremes=[{"gradients": [np.zeros((2, 2)), np.zeros(3)], "most": 1.0}],
)  # fmt: skip


def _norm(gradients: Any) -> float:
    return math.sqrt(sum(float((g.astype(float) ** 2).sum()) for g in gradients))


def _entries(gradients: Any) -> Any:
    return np.concatenate([np.ravel(g) for g in gradients]).astype(float)


def _of(norm: Any) -> Any:
    """The right factor for a wrong norm."""
    return lambda gradients, most: most / max(norm(gradients), most)


WRONG_FACTOR = dict(
    always_scaled=lambda gradients, most: most / (_norm(gradients) + 1e-12),
    never_scaled=lambda gradients, most: 1.0,
    short_ones_grow=lambda gradients, most: max(1.0, most / (_norm(gradients) + 1e-12)),
    turned_over=lambda gradients, most: max(1.0, _norm(gradients) / most),
    square_for_norm=_of(lambda gradients: _norm(gradients) ** 2),
    norms_summed=_of(lambda gradients: sum(_norm([g]) for g in gradients)),
    longest_array=_of(lambda gradients: max(_norm([g]) for g in gradients)),
    first_array=_of(lambda gradients: _norm(gradients[:1])),
    last_array=_of(lambda gradients: _norm(gradients[-1:])),
    largest_entry=_of(lambda gradients: float(np.abs(_entries(gradients)).max())),
    sizes_summed=_of(lambda gradients: float(np.abs(_entries(gradients)).sum())),
    sum_of_entries=_of(lambda gradients: abs(float(_entries(gradients).sum()))),
    mean_square=_of(lambda gradients: math.sqrt(float((_entries(gradients) ** 2).mean()))),
    mean_norm=_of(lambda gradients: sum(_norm([g]) for g in gradients) / len(gradients)),
    norm_returned=lambda gradients, most: min(_norm(gradients), most),
    length_1=lambda gradients, most: 1 / max(_norm(gradients), 1.0),
    left_out=lambda gradients, most: float(_norm(gradients) <= most),
    root_of_the_factor=lambda gradients, most: math.sqrt(most / max(_norm(gradients), most)),
    bound_squared=lambda gradients, most: most**2 / max(_norm(gradients) ** 2, most**2),
    zero_by_zero=lambda gradients, most: np.minimum(_norm(gradients), most) / np.float64(_norm(gradients)),
)


# my_newton_schulz
def _by_decomposition(G: Any) -> Any:
    """The polynomial on singular values: U p(p(p(p(p(σ / ‖G‖))))) Vᵀ."""
    U, s, Vt = np.linalg.svd(G.astype(float), full_matrices=False)
    s = s / max(math.sqrt(float((s**2).sum())), 1e-30)
    a, b, c = QUINTIC
    for _ in range(5):
        s = a * s + b * s**3 + c * s**5
    return (U * s) @ Vt


@adjustable
def _products(
    G: Any, *, norm: Any = lambda G: np.linalg.norm(G) + 1e-20, times: int = 5, powers: Any = QUINTIC,
    square: Any = lambda A: A @ A, ends: Any = lambda X, G: X,
) -> Any:  # fmt: skip
    """The polynomial by products."""
    X = G.astype(float) / norm(G)
    a, b, c = powers
    for _ in range(times):
        A = X @ X.T
        X = a * X + (b * A + c * square(A)) @ X
    return ends(X, G)


def _matrix(draw: CaseDrawer) -> dict[str, Any]:
    return {"G": draw.array(draw.size(2, 5), draw.size(2, 5), size=draw.choose((1, 0.01, 100)))}


NEWTON_SCHULZ = plain_spec(
    "newton_schulz", "U and V are those of G, and singular values, divided by ‖G‖, go through p five times", _matrix,
    _by_decomposition, "X", atol=lambda case: 1e-6 if case["G"].dtype == np.float64 else 1e-3,
    extreme="a matrix of zeros stays so", extremes=[{"G": np.zeros((2, 3))}])  # fmt: skip


def _entrywise(G: Any) -> Any:
    X = G / (np.linalg.norm(G) + 1e-20)
    for _ in range(5):
        X = QUINTIC[0] * X + QUINTIC[1] * X**3 + QUINTIC[2] * X**5
    return X


def _first_gram(G: Any) -> Any:
    """X Xᵀ of the beginning, at all five times."""
    X = G / (np.linalg.norm(G) + 1e-20)
    A = X @ X.T
    for _ in range(5):
        X = QUINTIC[0] * X + (QUINTIC[1] * A + QUINTIC[2] * A @ A) @ X
    return X


def _polar(G: Any) -> Any:
    U, s, Vt = np.linalg.svd(np.asarray(G, float), full_matrices=False)
    return (U * (s > 1e-12 * max(s.max(), 1e-30))) @ Vt


def _spectral(G: Any) -> float:
    return float(np.linalg.svd(G.astype(float), compute_uv=False).max()) + 1e-20


WRONG_NEWTON_SCHULZ = dict(
    entry_by_entry=_entrywise,
    square_entry_by_entry=_products.but(square=lambda A: A * A),
    not_divided=_products.but(norm=lambda G: 1.0),
    divided_by_the_largest=_products.but(norm=_spectral),
    divided_by_the_largest_entry=_products.but(norm=lambda G: np.abs(G).max() + 1e-20),
    divided_by_the_square=_products.but(norm=lambda G: (G.astype(float) ** 2).sum() + 1e-20),
    rows_divided=_products.but(norm=lambda G: np.linalg.norm(G, axis=1, keepdims=True) + 1e-20),
    no_guard=_products.but(norm=lambda G: np.float64(np.linalg.norm(G))),
    once=_products.but(times=1),
    four_times=_products.but(times=4),
    six_times=_products.but(times=6),
    cubic=_products.but(powers=CUBIC),
    b_and_c_exchanged=_products.but(powers=(QUINTIC[0], QUINTIC[2], QUINTIC[1])),
    b_positive=_products.but(powers=(QUINTIC[0], -QUINTIC[1], QUINTIC[2])),
    c_negative=_products.but(powers=(QUINTIC[0], QUINTIC[1], -QUINTIC[2])),
    a_missing=_products.but(powers=(0.0, *QUINTIC[1:])),
    c_missing=_products.but(powers=(*QUINTIC[:2], 0.0)),
    third_power_alone=_products.but(square=lambda A: A),
    first_products=_first_gram,
    decomposed=_polar,
    scaled_back=_products.but(ends=lambda X, G: X * np.linalg.norm(G)),
    turned_over=_products.but(ends=lambda X, G: X.T),
    signs=lambda G: np.sign(G),
)


# turns_with_the_basis
def _holds(step: Any) -> bool:
    """step(Q G R) = Q step(G) R for orthogonal Q and R."""
    rng = np.random.default_rng(0)
    G = rng.standard_normal((4, 6))
    Q, R = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in G.shape)
    return bool(np.allclose(step(Q @ G @ R), Q @ step(G) @ R, atol=1e-6))


def _sizes(G: Any, axis: int) -> Any:
    return G / (np.linalg.norm(G, axis=axis, keepdims=True) + 1e-20)


def _stretch_alone(G: Any) -> Any:
    """Singular values on a diagonal, without U and V."""
    made = np.zeros(np.shape(G))
    np.fill_diagonal(made, np.linalg.svd(G, compute_uv=False))
    return made


EQUAL_STEPS = dict(
    products=_products,
    decomposed=_polar,
    descent=lambda G: G / (np.linalg.norm(G) + 1e-20),
    scaled=lambda G: 3.0 * G,
    cubic_once=_products.but(times=1, powers=CUBIC),
)
UNEQUAL_STEPS = dict(
    entry_by_entry=_entrywise,
    signs=np.sign,
    rows_alike=lambda G: _sizes(G, 1),
    columns_alike=lambda G: _sizes(G, 0),
    clipped=lambda G: np.clip(G, -0.5, 0.5),
    stretch_alone=_stretch_alone,
)


EXERCISES = PROSE.exercises(
    my_momentum=Function(MOMENTUM, tempting=WRONG_MOMENTUM),
    steps_saved=Number(_steps_saved, tolerance=0.03),
    my_adam=Function(ADAM, tempting=WRONG_ADAM),
    repaired_adamw=Function(ADAMW, tempting=WRONG_ADAMW),
    my_rate=Function(RATE, tempting=WRONG_RATE),
    my_clip_factor=Function(CLIP, tempting=WRONG_FACTOR),
    my_newton_schulz=Function(NEWTON_SCHULZ, tempting=WRONG_NEWTON_SCHULZ),
    turns_with_the_basis=Judge(_holds, EQUAL_STEPS, UNEQUAL_STEPS),
)
