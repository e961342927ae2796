"""Exercises of chapter 10, learning itself."""

import math
from typing import Any

import numpy as np

from ...check.cases import CaseDrawer
from ...check.property import largest
from ...training import Moments, adam, adamw
from ...training.clipping import clip_by_global_norm
from ...training.schedules import rate_at, rate_factors
from ..graders import Function, Judge, Number
from ..plain import Changes, changed, plain_spec
from ..prose import Prose

EPS, BETAS = 1e-8, (0.9, 0.98)
QUINTIC, CUBIC = (3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0)


def _steps_saved(kappa: float) -> float:
    """Steps of gradient descent divided by steps of momentum, from the factors by which a step shrinks the error."""
    root = math.sqrt(kappa)
    return math.log((root - 1) / (root + 1)) / math.log((kappa - 1) / (kappa + 1))


def _atol(case: dict[str, Any]) -> float:
    arrays = [x for x in case.values() if isinstance(x, np.ndarray)]
    return (1e-9 if arrays[0].dtype == np.float64 else 2e-5) * largest(*arrays, 1) ** 2


# my_momentum
def _momentum(w: Any, g: Any, u: Any, lr: Any, beta: Any) -> Any:
    """The weights and the velocity after one step."""
    new = beta * u + g
    return w + -lr * new, new


def _step_of_momentum(draw: CaseDrawer) -> dict[str, Any]:
    shape = tuple(draw.size(1, 4) for _ in range(draw.choose((1, 2))))
    w, g, u = (draw.array(*shape) for _ in range(3))
    return {"w": w, "g": g, "u": u, "lr": draw.choose((0.5, 0.1)), "beta": draw.choose((0.9, 0.8, 0.6))}


MOMENTUM = plain_spec("momentum", "u ← βu + g and w ← w - η u", _step_of_momentum, _momentum, "w", "u", atol=_atol)

WRONG_MOMENTUM = Changes(_momentum, velocity_returned_old=lambda w, g, u, lr, beta: (w - lr * (beta * u + g), u))


# my_adam
def _by_hand(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, beta1: Any, beta2: Any) -> Any:
    """Adam's step, line by line."""
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g ** 2
    m_hat, v_hat = m / (1 - beta1 ** t), v / (1 - beta2 ** t)
    return w + -1 * lr * m_hat / (np.sqrt(v_hat) + EPS), *(m, v)


def _adam(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, beta1: Any, beta2: Any) -> Any:
    """The library's step on copies of the arguments."""
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


def _small_gradients() -> list[dict[str, Any]]:
    """A gradient of 0, and one of 0.001, for which ε matters inside the root, but not outside."""
    zero = np.zeros(2)
    rest = {"w": np.ones(2), "m": zero, "v": zero, "t": 1, "lr": 0.01, "beta1": 0.9, "beta2": 0.98}
    return [rest | {"g": zero}, rest | {"g": np.array([1e-3, -1e-3])}]


ADAM = plain_spec(
    "adam", "w, m and v are as after a step of Adam",
    lambda draw: _state(draw) | {"beta1": draw.choose((0.9, 0.8)), "beta2": draw.choose((0.98, 0.9))},
    _adam, "w", "m", "v", atol=_atol,
    extreme="a gradient of 0 moves nothing, and one of 0.001 moves each weight by η", extremes=_small_gradients(),
)  # fmt: skip

WRONG_ADAM = Changes(_by_hand,
    betas_exchanged=lambda w, g, m, v, t, lr, beta1, beta2: _by_hand(w, g, m, v, t, lr, beta2, beta1),
    gradient_in_the_step=changed(_by_hand, "lr * m_hat -> lr * g"),
)  # fmt: skip


# repaired_adamw
def _adamw(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any) -> Any:
    w, m, v = w.copy(), m.copy(), v.copy()
    adamw(w, g, Moments(m, v), t, lr=lr, beta1=BETAS[0], beta2=BETAS[1], eps=EPS, weight_decay=decay)
    return w, m, v


ADAMW = plain_spec(
    "adamw", "the decay does not pass through the moments",
    lambda draw: _state(draw) | {"decay": draw.choose((0.5, 0.1))}, _adamw, "w", "m", "v", atol=_atol)  # fmt: skip


def _decayed(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any) -> Any:
    """Adam's step, then the decay of the weights."""
    moved, m, v = _adam(w, g, m, v, t, lr, *BETAS)
    return moved - lr * decay * w, m, v


def _alone(moved: Any, w: Any, v: Any, lr: Any, decay: Any) -> Any:
    return moved


def _in_the_mean_alone(w: Any, g: Any, m: Any, v: Any, t: Any, lr: Any, decay: Any) -> Any:
    v = BETAS[1] * v + (1 - BETAS[1]) * g**2
    m = BETAS[0] * m + (1 - BETAS[0]) * (g + decay * w)
    return w - lr * m / (1 - BETAS[0] ** t) / (np.sqrt(v / (1 - BETAS[1] ** t)) + EPS), m, v


WRONG_ADAMW = Changes(_decayed,
    in_the_mean_alone=_in_the_mean_alone,
    moments_decay=changed(_decayed, "* w, m, v -> * w, m * (1 - lr * decay), v * (1 - lr * decay)"),
)


# my_rate
def _any_step(draw: CaseDrawer) -> dict[str, Any]:
    steps = draw.choose((12, 8, 21))
    return {"t": draw.choose(range(1, steps + 1)), "peak": draw.choose((1.0, 0.5)),
            "warmup": draw.choose((4, 1, 7, 8)), "steps": steps}  # fmt: skip


RATE = plain_spec(
    "rate", "the rate grows in a line, then falls along half a cosine", _any_step,
    lambda t, peak, warmup, steps: rate_at(peak, rate_factors("cosine", warmup, steps), t), "rate", atol=1e-7,
)  # fmt: skip


def _two_parts(t: Any, peak: Any, warmup: Any, steps: Any) -> Any:
    """The rate of step t, in its two parts."""
    return peak * (t / warmup if t <= warmup else (1 + math.cos(math.pi * ((t - warmup) / (steps + 1 - warmup)))) / 2)


WRONG_RATE = Changes(_two_parts,
    inverse_root=lambda t, peak, warmup, steps: peak * min(t / warmup, math.sqrt(warmup / t)),
    both_at_once=lambda t, peak, warmup, steps: (
        peak * min(1, t / warmup) * (1 + math.cos(math.pi * t / (steps + 1))) / 2
    ),
)


# my_clip_factor
def _factor(gradients: Any, most: Any) -> float:
    """The factor by which the library multiplies all arrays, read from an array of ones."""
    ones = np.ones(1)
    square = np.asarray(sum(float(np.sum(np.square(g, dtype=np.float64))) for g in gradients))
    clip_by_global_norm([ones], square, most, np)
    return float(ones[0])


def _several(draw: CaseDrawer) -> dict[str, Any]:
    """Two or three arrays; in about half of the cases their joint norm is at most `most`."""
    shapes: list[tuple[int, ...]] = [(draw.size(1, 3), draw.size(1, 3)), (draw.size(1, 4),), (draw.size(1, 2),)]
    gradients = [draw.array(*shape, size=draw.choose((1, 3))) for shape in shapes[: draw.choose((2, 3))]]
    return {"gradients": gradients, "most": draw.choose((1.0, 2.0, 5.0, 20.0))}


CLIP = plain_spec(
    "clip_factor", "all arrays together have at most the norm `most`, and their direction", _several, _factor, "factor",
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


def _products(G: Any) -> Any:
    """The polynomial by products."""
    X = G.astype(float) / (np.linalg.norm(G) + 1e-20)
    a, b, c = QUINTIC
    for _ in range(5):
        A = X @ X.T
        X = a * X + (b * A + c * (A @ A)) @ X
    return X


NEWTON_SCHULZ = plain_spec(
    "newton_schulz", "U and V are those of G, and singular values, divided by ‖G‖, go through p five times",
    lambda draw: {"G": draw.array(draw.size(2, 5), draw.size(2, 5), size=draw.choose((1, 0.01, 100)))},
    _by_decomposition, "X", atol=lambda case: 1e-6 if case["G"].dtype == np.float64 else 1e-3,
    extreme="a matrix of zeros stays so", extremes=[{"G": np.zeros((2, 3))}])  # fmt: skip


_entrywise = changed(_products, "A = X @ X.T -> A = X**2 && (A @ A)) @ X -> A**2) * X")


def _polar(G: Any) -> Any:
    U, s, Vt = np.linalg.svd(np.asarray(G, float), full_matrices=False)
    return (U * (s > 1e-12 * max(s.max(), 1e-30))) @ Vt


def _spectral(G: Any) -> float:
    return float(np.linalg.svd(G.astype(float), compute_uv=False).max()) + 1e-20


WRONG_NEWTON_SCHULZ = Changes(_products,
    entry_by_entry=_entrywise,
    first_products=changed(_products, "A = X @ X.T -> A = A if _ else X @ X.T"),
    decomposed=_polar,
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
    """A matrix with the singular values on its diagonal, without U and V."""
    made = np.zeros(np.shape(G))
    np.fill_diagonal(made, np.linalg.svd(G, compute_uv=False))
    return made


EQUAL_STEPS = Changes(_products,
    products=_products,
    decomposed=_polar,
    descent=lambda G: G / (np.linalg.norm(G) + 1e-20),
    scaled=lambda G: 3.0 * G,
)
UNEQUAL_STEPS = dict(
    entry_by_entry=_entrywise,
    signs=np.sign,
    rows_alike=lambda G: _sizes(G, 1),
    columns_alike=lambda G: _sizes(G, 0),
    clipped=lambda G: np.clip(G, -0.5, 0.5),
    stretch_alone=_stretch_alone,
)


EXERCISES = Prose(10).exercises(
    my_momentum=Function(MOMENTUM, tempting=WRONG_MOMENTUM),
    steps_saved=Number(_steps_saved, tolerance=0.03),
    my_adam=Function(ADAM, tempting=WRONG_ADAM),
    repaired_adamw=Function(ADAMW, tempting=WRONG_ADAMW),
    my_rate=Function(RATE, tempting=WRONG_RATE),
    my_clip_factor=Function(CLIP, tempting=WRONG_FACTOR),
    my_newton_schulz=Function(NEWTON_SCHULZ, tempting=WRONG_NEWTON_SCHULZ),
    turns_with_the_basis=Judge(_holds, EQUAL_STEPS, UNEQUAL_STEPS),
)
