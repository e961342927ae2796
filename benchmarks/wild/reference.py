"""Is an implementation right? A second opinion, in float64, that shares no code with the checker or the library.

`measure` draws its own inputs, computes the textbook's formula, and takes gradients by central differences. The
`truth` of a case in cases.toml rests on the errors that it finds.
"""

import contextlib
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

DRAWS = 20
STEP = 1e-5  # of central differences, whose own error is about 1e-9
FORWARD, GRADIENT, STEPS = 1e-10, 1e-7, 1e-6  # larger errors are more than rounding; steps may be float32


class Form(NamedTuple):
    """A kind: its formula, its inputs drawn from a generator, and which of them have gradients."""

    formula: Callable[..., Any]
    draw: Callable[[np.random.Generator, tuple[int, ...]], dict[str, Any]]
    wrt: tuple[str, ...]
    extreme: Callable[[np.ndarray], np.ndarray] | None = None  # moves the first of wrt to where formulas overflow


def measure(implementation: Any, kind: str, lead: tuple[int, ...] = (2,)) -> dict[str, float | str]:
    """The largest errors over DRAWS inputs: {"forward" or the argument of a gradient: its error}.

    An error is relative to the largest entry, or to 1 if that is larger. If a call raises, the value is its message.
    """
    if kind in ALONE:
        return ALONE[kind](implementation)
    form, name = FORMS[kind], NAMES.get(kind, kind)
    formulas = [form.formula]
    choice, values = CHOICES.get(kind, ("", ()))
    if values and choice not in inspect.signature(getattr(implementation, name)).parameters:
        formulas = [partial(form.formula, **{choice: value}) for value in values]  # which one is used is a convention
    tries = []
    for formula in formulas:
        found: dict[str, float | str] = {}
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            given = form.draw(rng, lead)
            compare(found, implementation, name, formula, given, form.wrt, rng)
            if form.extreme is not None:
                far = taken(getattr(implementation, name), given | {form.wrt[0]: form.extreme(given[form.wrt[0]])})
                attempt(found, "forward", lambda far=far: getattr(implementation, name)(**copied(far)), formula(**far))
        tries.append(found)
    found = min(tries, key=lambda found: math.inf if isinstance(found["forward"], str) else found["forward"])
    if widens(implementation, name, form.draw(np.random.default_rng(0), lead)):
        found["float32"] = "becomes float64"
    return found


def widens(implementation: Any, name: str, given: dict[str, Any]) -> bool:
    """Whether some result of float32 arguments is float64. A call that raises has no results to examine."""
    forward, backward = getattr(implementation, name), getattr(implementation, f"{name}_backward", None)
    single = {argument: x.astype("f") if is_floating(x) else x for argument, x in taken(forward, given).items()}
    results: list[Any] = []
    with contextlib.suppress(Exception):
        y = forward(**copied(single))
        results += y if isinstance(y, tuple) else [y]
        dy = np.asarray(results[0]).astype("f") if np.ndim(results[0]) else 1.0
        gradients = backward(dy, **single) if backward else []
        results += gradients if isinstance(gradients, tuple | list) else [gradients]
    return any(getattr(x, "dtype", None) == np.float64 for x in results)


def is_floating(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def compare(
    found: dict[str, float | str], implementation: Any, name: str, formula: Callable[..., Any],
    given: dict[str, Any], wrt: tuple[str, ...], rng: np.random.Generator,
) -> None:  # fmt: skip
    """Record the errors of one forward, against the formula, and of one backward, against central differences."""
    forward, backward = getattr(implementation, name), getattr(implementation, f"{name}_backward", None)
    given = taken(forward, given)
    expected = np.asarray(formula(**given))
    dy = rng.standard_normal(expected.shape)
    attempt(found, "forward", lambda: forward(**copied(given)), expected)
    if backward is not None:
        offered = [argument for argument in wrt if given.get(argument) is not None]
        exact = [differences(formula, given, argument, dy) for argument in offered]
        attempt(found, offered, lambda: backward(np.copy(dy) if dy.shape else float(dy), **copied(given)), exact)


def taken(f: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that f's signature has."""
    return {name: x for name, x in given.items() if name in inspect.signature(f).parameters}


def copied(given: dict[str, Any]) -> dict[str, Any]:
    return {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in given.items()}


def attempt(found: dict[str, float | str], names: Any, call: Callable[[], Any], expected: Any) -> None:
    """Record the errors of one call's results, or its exception."""
    try:
        with np.errstate(all="ignore"):
            results = call()
        if isinstance(names, str):
            names, results, expected = [names], [results[0] if isinstance(results, tuple) else results], [expected]
        results = results if isinstance(results, tuple | list) else [results]
        for name, x, y in zip(names, results, expected, strict=True):
            worst(found, name, error(x, y))
    except Exception as raised:
        message = f"raises {type(raised).__name__}: {raised}"
        found["forward" if names == "forward" else "backward"] = message.splitlines()[0][:200]


def worst(found: dict[str, float | str], name: str, value: float) -> None:
    if not isinstance(found.get(name), str):
        found[name] = max(value, found.get(name, 0.0))


def error(x: Any, y: np.ndarray) -> float:
    x = np.asarray(x, float)
    if x.shape != y.shape:
        raise ValueError(f"shape {x.shape}, expected {y.shape}")
    off = float(np.max(np.abs(x - y), initial=0)) / max(1.0, float(np.max(np.abs(y), initial=0)))
    return float("inf") if np.isnan(off) else off


def differences(formula: Callable[..., Any], given: dict[str, Any], argument: str, dy: np.ndarray) -> np.ndarray:
    """The gradient of <dy, formula> with respect to one argument, by central differences."""
    gradient = np.zeros(given[argument].shape)
    for at in np.ndindex(gradient.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = given[argument].copy()
            moved[at] += step
            ends.append(float(np.sum(dy * formula(**given | {argument: moved}))))
        gradient[at] = (ends[0] - ends[1]) / (2 * STEP)
    return gradient


def measure_adam(implementation: Any, **more: float) -> dict[str, float | str]:
    """The errors of the vector and of both moments after one step, from random states at early and late steps."""
    found: dict[str, float | str] = {}
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        step = int(rng.choice([1, 2, 5, 1000]))
        w, g, m = rng.standard_normal((3, 5))
        moments = m * (step > 1), rng.random(5) * (step > 1)
        compare_step(found, implementation, w, g, moments, step, lr=0.1, beta1=0.9, beta2=0.99, eps=1e-6, **more)
    return found


def measure_adamw(implementation: Any) -> dict[str, float | str]:
    return measure_adam(implementation, weight_decay=0.3)


def compare_step(
    found: dict[str, float | str], implementation: Any, vector: np.ndarray, gradient: np.ndarray, moments: Any,
    step: int, **options: float,
) -> None:  # fmt: skip
    """Record the errors of one step of Adam, or of AdamW if `options` have a weight decay."""
    beta1, beta2 = options["beta1"], options["beta2"]
    m = beta1 * moments[0] + (1 - beta1) * gradient
    v = beta2 * moments[1] + (1 - beta2) * gradient**2
    update = m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + options.get("eps", 1e-8))
    update += options.get("weight_decay", 0.0) * vector

    def stepped() -> list[np.ndarray]:
        state = [vector.copy(), *(x.copy() for x in moments)]
        step_of = implementation.adamw if "weight_decay" in options else implementation.adam
        step_of(state[0], gradient.copy(), tuple(state[1:]), step, **taken(step_of, options))
        return state

    attempt(found, ["vector", "m", "v"], stepped, [vector - options["lr"] * update, m, v])


def measure_ranking(implementation: Any) -> dict[str, float | str]:
    """The errors of the metrics for one relevant item among nine, without ties, for k from 1 to 9."""
    rng, found = np.random.default_rng(0), {}
    for _ in range(DRAWS):
        scores, target, k = rng.standard_normal(9), int(rng.integers(9)), int(rng.integers(1, 10))
        rank = 1 + int(np.sum(scores > scores[target]))
        for name, exact in (("hit_rate", float(rank <= k)), ("ndcg", (rank <= k) / math.log2(rank + 1))):
            if hasattr(implementation, name):
                call = partial(getattr(implementation, name), scores.copy(), target, k)
                attempt(found, [name], lambda call=call: [np.asarray(call(), float).reshape(())], [np.asarray(exact)])
    return found


def measure_causal_model(implementation: Any) -> dict[str, float | str]:
    """How far outputs move when later tokens change, and when other sequences of the batch change.

    Inputs are tokens if the model has a vocabulary, else vectors of width 8.
    """
    rng, found = np.random.default_rng(0), {}
    vocabulary = getattr(implementation, "vocabulary", None)

    def drawn(count: int, length: int) -> np.ndarray:
        if vocabulary is None:
            return rng.standard_normal((count, length, 8))
        return rng.integers(0, vocabulary, (count, length))

    for _ in range(DRAWS):
        x, t = drawn(3, 9), int(rng.integers(1, 9))
        y = implementation.forward(x)
        later = np.concatenate([x[:, :t], drawn(3, 9 - t)], axis=1)
        others = np.concatenate([x[:1], drawn(2, 9)])
        worst(found, "earlier outputs", error(implementation.forward(later)[:, :t], y[:, :t]))
        worst(found, "other sequences", error(implementation.forward(others)[:1], y[:1]))
    return found


def measure_cached_model(implementation: Any) -> dict[str, float | str]:
    """How far outputs computed step by step are from those of the whole sequence. Inputs are vectors of width 8."""
    rng, found = np.random.default_rng(0), {}
    for _ in range(DRAWS):
        x, cache, steps = rng.standard_normal((3, 7, 8)), None, []
        for t in range(x.shape[1]):
            y, cache = implementation.step(x[:, t], cache)
            steps.append(y)
        worst(found, "steps", error(np.stack(steps, axis=1), implementation.forward(x)))
    return found


def measure_padding_invariance(implementation: Any) -> dict[str, float | str]:
    """How far the outputs of real tokens move if padding changes or is left out. Inputs are vectors of width 8."""
    rng, found = np.random.default_rng(0), {}
    by_length = "lengths" in inspect.signature(implementation.forward).parameters

    def forward(x: np.ndarray, real: np.ndarray) -> np.ndarray:
        return implementation.forward(x, real.sum(axis=1) if by_length else real)

    for _ in range(DRAWS):
        x, length = rng.standard_normal((2, 7, 8)), int(rng.integers(1, 7))
        real = np.arange(7) < np.array([[7], [length]])
        y = forward(x, real)[1, :length]
        other = np.where(real[..., None], x, rng.standard_normal(x.shape))
        worst(found, "other padding", error(forward(other, real)[1, :length], y))
        alone = forward(x[1:, :length], real[1:, :length])[0]
        worst(found, "no padding", error(alone, y))
    return found


def is_right(found: dict[str, float | str]) -> bool:
    """Whether nothing raised and all errors that `measure` found are rounding."""
    numbers = {name: x for name, x in found.items() if name != "float32"}
    forward = ("vector", "m", "v") if "vector" in found else ("forward",)
    limits = {name: FORWARD if name in forward else STEPS if name == "steps" else GRADIENT for name in numbers}
    return all(not isinstance(x, str) and x <= limits[name] for name, x in numbers.items())


def softmax(s: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    s = s if mask is None else np.where(mask, s, -np.inf)
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return gamma * centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps) + beta


def gelu(x: np.ndarray, approximate: bool) -> np.ndarray:
    if approximate:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * np.vectorize(lambda z: 0.5 * (1 + math.erf(z / 2**0.5)))(x)


def linear(x: np.ndarray, W: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    return np.einsum("...i,io->...o", x, W) + (0 if b is None else b)


def cross_entropy(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    top = np.max(logits, axis=-1, keepdims=True)
    total = np.log(np.sum(np.exp(logits - top), axis=-1)) + top[..., 0]
    return np.mean(total - np.take_along_axis(logits, targets[..., None], -1)[..., 0])


def bce(z: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.mean(np.logaddexp(0, z) - targets * z)


def dropout(x: np.ndarray, keep: np.ndarray | None, rate: float) -> np.ndarray:
    return x if keep is None else x * keep / (1 - rate)


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, bias: np.ndarray | None = None,
    scale: float | None = None, keep: np.ndarray | None = None, rate: float = 0.0,
) -> np.ndarray:  # fmt: skip
    scores = np.einsum("...nd,...md->...nm", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = dropout(softmax(scores + (0 if bias is None else bias), mask), keep, rate)
    return np.einsum("...nm,...me->...ne", weights, v)


def rms_norm(x: np.ndarray, gamma: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    return gamma * x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)


def batch_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    rows = x.reshape(-1, x.shape[-1])
    centred = x - np.mean(rows, axis=0)
    return gamma * centred / np.sqrt(np.mean(centred.reshape(rows.shape) ** 2, axis=0) + eps) + beta


def sigma(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def rnn(x: np.ndarray, W: np.ndarray, U: np.ndarray, b: np.ndarray) -> np.ndarray:
    """All recurrences here begin with a state of zeros."""
    h, states = np.zeros((*x.shape[:-2], len(U))), []
    for t in range(x.shape[-2]):
        h = np.tanh(linear(x[..., t, :], W, b) + linear(h, U))
        states.append(h)
    return np.stack(states, axis=-2)


def lstm(x: np.ndarray, W: np.ndarray, U: np.ndarray, b: np.ndarray) -> np.ndarray:
    h = c = np.zeros((*x.shape[:-2], len(U)))
    states = []
    for t in range(x.shape[-2]):
        i, f, o, g = np.split(linear(x[..., t, :], W, b) + linear(h, U), 4, axis=-1)
        c = sigma(f) * c + sigma(i) * np.tanh(g)
        h = sigma(o) * np.tanh(c)
        states.append(h)
    return np.stack(states, axis=-2)


def gru(
    x: np.ndarray, W: np.ndarray, U: np.ndarray, b: np.ndarray, c: np.ndarray, reset_before: bool = False
) -> np.ndarray:
    h, states = np.zeros((*x.shape[:-2], len(U))), []
    U_r, U_z, U_n = np.split(U, 3, axis=1)
    c_r, c_z, c_n = np.split(c, 3)
    for t in range(x.shape[-2]):
        r, z, n = np.split(linear(x[..., t, :], W, b), 3, axis=-1)
        r, z = sigma(r + linear(h, U_r, c_r)), sigma(z + linear(h, U_z, c_z))
        n = np.tanh(n + (linear(r * h, U_n, c_n) if reset_before else r * linear(h, U_n, c_n)))
        h = (1 - z) * n + z * h
        states.append(h)
    return np.stack(states, axis=-2)


def rotary(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, halves: bool = False) -> np.ndarray:
    """The rotation as a product of complex numbers."""
    d = x.shape[-1]
    first, second = (slice(d // 2), slice(d // 2, d)) if halves else (slice(0, d, 2), slice(1, d, 2))
    turned, y = (x[..., first] + 1j * x[..., second]) * (cos + 1j * sin), np.empty(x.shape)
    y[..., first], y[..., second] = turned.real, turned.imag
    return y


def selective_scan(
    x: np.ndarray, delta: np.ndarray, A: np.ndarray, B: np.ndarray, C: np.ndarray, D: np.ndarray
) -> np.ndarray:
    h, out = np.zeros((*x.shape[:-2], *A.shape)), []
    for t in range(x.shape[-2]):
        now = delta[..., t, None, :]
        h = np.exp(now * A) * h + B[..., t, :, None] * (now * x[..., t, None, :])
        out.append(np.einsum("...k,...kd->...d", C[..., t, :], h) + D * x[..., t, :])
    return np.stack(out, axis=-2)


def associative_scan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    h, out = np.zeros(a.shape[:-2] + a.shape[-1:]), []
    for t in range(a.shape[-2]):
        h = a[..., t, :] * h + b[..., t, :]
        out.append(h)
    return np.stack(out, axis=-2)


def kernel_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Attention whose weights are q kᵀ of positive features, divided by the sum of each row."""
    weights = np.einsum("...nd,...md->...nm", q, k)
    weights = np.tril(weights) if causal else weights
    return np.einsum("...nm,...me->...ne", weights / np.sum(weights, axis=-1, keepdims=True), v)


def linear_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = True) -> np.ndarray:
    q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    return kernel_attention(q, k, v, causal)


def performer_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, W: np.ndarray, causal: bool = True) -> np.ndarray:
    q, k = (x * x.shape[-1] ** -0.25 for x in (q, k))
    q, k = (np.exp(linear(x, W.T) - np.sum(x**2, axis=-1, keepdims=True) / 2) for x in (q, k))
    return kernel_attention(q, k, v, causal)


def window_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int, causal: bool = True) -> np.ndarray:
    back = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
    return attention(q, k, v, (back < window) & (back >= 0 if causal else back > -window))


def bpr(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    return np.mean(np.logaddexp(0, negative - positive))


def bpr_max(positive: np.ndarray, negatives: np.ndarray, regularisation: float = 1.0) -> np.ndarray:
    """log Σ s σ(r⁺ - r) is computed as log Σ exp(log s + log σ), so that nothing overflows."""
    top = np.max(negatives, axis=-1, keepdims=True)
    log_s = negatives - top - np.log(np.sum(np.exp(negatives - top), axis=-1, keepdims=True))
    terms = log_s - np.logaddexp(0, negatives - positive[..., None])
    most = np.max(terms, axis=-1, keepdims=True)
    loss = -(np.log(np.sum(np.exp(terms - most), axis=-1)) + most[..., 0])
    return np.mean(loss + regularisation * np.sum(np.exp(log_s) * negatives**2, axis=-1))


def swiglu(x: np.ndarray, W_1: np.ndarray, V: np.ndarray, W_2: np.ndarray) -> np.ndarray:
    a = linear(x, W_1)
    return linear(a * sigma(a) * linear(x, V), W_2)


def conv2d(x: np.ndarray, W: np.ndarray, padding: str = "valid") -> np.ndarray:
    """Without dilation. With padding "same" the kernel must have odd sizes."""
    K, L = W.shape[:2]
    edges = ((K // 2, K // 2), (L // 2, L // 2)) if padding == "same" else ((0, 0), (0, 0))
    x = np.pad(x, [(0, 0)] * (x.ndim - 3) + [*edges, (0, 0)])
    h, w = x.shape[-3] - K + 1, x.shape[-2] - L + 1
    shifts = [(j, k) for j in range(K) for k in range(L)]
    return sum(np.einsum("...hwi,io->...hwo", x[..., j : j + h, k : k + w, :], W[j, k]) for j, k in shifts)


def heads_of(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int, mask: Any, shared: int = 1) -> np.ndarray:
    """Attention of each head on its own columns. Every `shared` consecutive heads use the same keys and values."""
    width, found = q.shape[-1] // heads, []
    for i in range(heads):
        own, theirs = (slice(j * width, (j + 1) * width) for j in (i, i // shared))
        found.append(attention(q[..., own], k[..., theirs], v[..., theirs], mask))
    return np.concatenate(found, axis=-1)


def multi_head_attention(
    x: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray, W_o: np.ndarray, heads: int,
    mask: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    return cross_attention(x, x, W_q, W_k, W_v, W_o, heads, mask)


def cross_attention(
    x: np.ndarray, memory: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray, W_o: np.ndarray, heads: int,
    mask: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    return linear(heads_of(linear(x, W_q), linear(memory, W_k), linear(memory, W_v), heads, mask), W_o)


def biased_multi_head_attention(
    x: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray, W_o: np.ndarray, b_q: np.ndarray,
    b_k: np.ndarray, b_v: np.ndarray, b_o: np.ndarray, heads: int, mask: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    return linear(heads_of(linear(x, W_q, b_q), linear(x, W_k, b_k), linear(x, W_v, b_v), heads, mask), W_o, b_o)


def grouped_query_attention(
    x: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray, W_o: np.ndarray, heads: int, kv_heads: int,
    mask: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    shared = heads // kv_heads
    return linear(heads_of(linear(x, W_q), linear(x, W_k), linear(x, W_v), heads, mask, shared), W_o)


def feed_forward(x: np.ndarray, W_1: np.ndarray, b_1: np.ndarray, W_2: np.ndarray, b_2: np.ndarray) -> np.ndarray:
    return linear(np.maximum(linear(x, W_1, b_1), 0), W_2, b_2)


def gelu_feed_forward(
    x: np.ndarray, W_1: np.ndarray, b_1: np.ndarray, W_2: np.ndarray, b_2: np.ndarray, approximate: bool
) -> np.ndarray:
    return linear(gelu(linear(x, W_1, b_1), approximate), W_2, b_2)


def post_ln_block(
    x: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray, W_o: np.ndarray, gamma_1: np.ndarray,
    beta_1: np.ndarray, W_1: np.ndarray, b_1: np.ndarray, W_2: np.ndarray, b_2: np.ndarray, gamma_2: np.ndarray,
    beta_2: np.ndarray, heads: int, mask: np.ndarray | None = None, eps: float = 1e-5,
) -> np.ndarray:  # fmt: skip
    x = layer_norm(x + multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask), gamma_1, beta_1, eps)
    return layer_norm(x + feed_forward(x, W_1, b_1, W_2, b_2), gamma_2, beta_2, eps)


def block(
    x: np.ndarray, gamma_1: np.ndarray, beta_1: np.ndarray, W_q: np.ndarray, W_k: np.ndarray, W_v: np.ndarray,
    W_o: np.ndarray, gamma_2: np.ndarray, beta_2: np.ndarray, W_1: np.ndarray, b_1: np.ndarray, W_2: np.ndarray,
    b_2: np.ndarray, heads: int, mask: np.ndarray | None = None, eps: float = 1e-5,
) -> np.ndarray:  # fmt: skip
    x = x + multi_head_attention(layer_norm(x, gamma_1, beta_1, eps), W_q, W_k, W_v, W_o, heads, mask)
    return x + feed_forward(layer_norm(x, gamma_2, beta_2, eps), W_1, b_1, W_2, b_2)


def draw_softmax(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return {"s": 3 * rng.standard_normal((*lead, 3, 4)), "mask": some(rng, 3, 4)}


def draw_layer_norm(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    gamma, beta = rng.standard_normal((2, 5))
    return {
        "x": rng.standard_normal((*lead, 3, 5)),
        "gamma": gamma,
        "beta": beta,
        "eps": float(rng.choice([1e-5, 1e-2])),
    }


def draw_gelu(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return {"x": 2 * rng.standard_normal((*lead, 5)), "approximate": bool(rng.integers(2))}


def draw_relu(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    """x keeps away from 0, where the slope of ReLU is a convention."""
    x = rng.standard_normal((*lead, 5))
    return {"x": x + np.sign(x)}


def draw_linear(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return {name: rng.standard_normal(shape) for name, shape in (("x", (*lead, 3, 4)), ("W", (4, 2)), ("b", (2,)))}


def draw_embedding(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return {"ids": rng.integers(0, 5, (*lead, 6)), "E": rng.standard_normal((5, 3))}


def draw_cross_entropy(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    """Multiples of one number, so that some logits are equal. In some draws they are far apart."""
    logits = rng.integers(-2, 3, (*lead, 3, 4)) * rng.choice([1.0, 50.0, 1000.0])
    return {"logits": logits, "targets": rng.integers(0, 4, (*lead, 3))}


def draw_bce(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    z, targets = rng.standard_normal((*lead, 3)), rng.integers(0, 2, (*lead, 3))
    return {"z": z * rng.choice([1.0, 50.0, 1000.0]), "targets": targets.astype(float)}


def draw_dropout(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    keep = None if rng.random() < 0.3 else rng.random((*lead, 4)) < 0.6
    return {"x": rng.standard_normal((*lead, 4)), "keep": keep, "rate": float(rng.choice([0.0, 0.25, 0.5]))}


def draw_attention(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    q, k, v = (rng.standard_normal((*lead, *shape)) for shape in ((3, 4), (5, 4), (5, 2)))
    bias, scale = rng.standard_normal((3, 5)), rng.choice([None, 0.7])
    given = {"q": q, "k": k, "v": v, "mask": some(rng, 3, 5), "bias": bias, "scale": scale}
    return given | {"keep": some(rng, 3, 5), "rate": 0.25}


def draw_heads(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    W = dict(zip(("W_q", "W_k", "W_v", "W_o"), rng.standard_normal((4, 4, 4)), strict=True))
    return {"x": rng.standard_normal((*lead, 3, 4)), **W, "heads": 2, "mask": some(rng, 3, 3)}


def draw_feed_forward(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    shapes = {"x": (*lead, 3, 4), "W_1": (4, 6), "b_1": (6,), "W_2": (6, 4), "b_2": (4,)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def draw_block(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    norms = {name: rng.standard_normal(4) for name in ("gamma_1", "beta_1", "gamma_2", "beta_2")}
    return draw_feed_forward(rng, lead) | draw_heads(rng, lead) | norms | {"eps": 1e-5}


def draw_rms_norm(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return {name: x for name, x in draw_layer_norm(rng, lead).items() if name != "beta"}


def draw_cross(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return draw_heads(rng, lead) | {"memory": rng.standard_normal((*lead, 5, 4)), "mask": some(rng, 3, 5)}


def draw_biased(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return draw_heads(rng, lead) | dict(zip(("b_q", "b_k", "b_v", "b_o"), rng.standard_normal((4, 4)), strict=True))


def draw_grouped(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    """Four heads in two pairs that share keys and values. The width of a head is even."""
    W = {"W_q": (8, 8), "W_k": (8, 4), "W_v": (8, 4), "W_o": (8, 8), "x": (*lead, 3, 8)}
    given = {name: rng.standard_normal(shape) for name, shape in W.items()}
    return given | {"heads": 4, "kv_heads": 2, "mask": some(rng, 3, 3)}


def draw_batch_norm(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return draw_layer_norm(rng, lead)


def draw_recurrent(gates: int) -> Callable[[np.random.Generator, tuple[int, ...]], dict[str, Any]]:
    def draw(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
        shapes = {"x": (*lead, 4, 2), "W": (2, 3 * gates), "U": (3, 3 * gates), "b": (3 * gates,), "c": (3 * gates,)}
        return {name: rng.standard_normal(shape) for name, shape in shapes.items()}

    return draw


def draw_rotary(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    angle = rng.standard_normal((5, 3))
    return {"x": rng.standard_normal((*lead, 5, 6)), "cos": np.cos(angle), "sin": np.sin(angle)}


def draw_selective_scan(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    of_channels, of_states = (*lead, 5, 3), (*lead, 5, 2)
    shapes = {"x": of_channels, "delta": of_channels, "A": (2, 3), "B": of_states, "C": of_states, "D": (3,)}
    given = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return given | {"delta": np.abs(given["delta"]), "A": -np.abs(given["A"])}


def draw_scan(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    n = int(rng.integers(1, 10))
    return dict(zip("ab", rng.standard_normal((2, *lead, n, 3)), strict=True))


def draw_qkv(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    """As many keys as queries, and values as wide as keys, because some forms require both."""
    q, k, v = rng.standard_normal((3, *lead, 5, 4))
    return {"q": q, "k": k, "v": v, "W": rng.standard_normal((6, 4)), "causal": bool(rng.integers(2))}


def draw_window(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return draw_qkv(rng, lead) | {"window": int(rng.integers(1, 5))}


def draw_flash(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return draw_qkv(rng, lead) | {"mask": some(rng, 5, 5), "scale": rng.choice([None, 0.7])}


def draw_bpr(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    positive, negative = rng.standard_normal((2, *lead, 3)) * rng.choice([1.0, 50.0, 1000.0])
    return {"positive": positive, "negative": negative}


def draw_bpr_max(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    """In some draws the negatives are far below or far above the target.

    Then the loss has no regularisation, because the rounding of a term near 800² would spoil central differences.
    """
    positive, negatives = rng.standard_normal((*lead, 3)), rng.standard_normal((*lead, 3, 4))
    far = rng.choice([0.0, 0.0, 800.0, -800.0])
    return {"positive": positive, "negatives": negatives + far,
            "regularisation": 0.0 if far else float(rng.choice([0.0, 1.0]))}  # fmt: skip


def draw_swiglu(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    shapes = {"x": (*lead, 3, 4), "W_1": (4, 6), "V": (4, 6), "W_2": (6, 4)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def draw_conv2d(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    padding = str(rng.choice(["valid", "same"]))
    return {"x": rng.standard_normal((*lead, 4, 5, 2)), "W": rng.standard_normal((3, 3, 2, 3)), "padding": padding}


def draw_gelu_feed_forward(rng: np.random.Generator, lead: tuple[int, ...]) -> dict[str, Any]:
    return draw_feed_forward(rng, lead) | {"approximate": bool(rng.integers(2))}


def some(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """A random mask without empty rows, because the output of an empty row is a convention."""
    mask = rng.random((n, m)) < 0.6
    mask[np.arange(n), rng.integers(0, m, n)] = True
    return mask


ALONE = {
    "adam": measure_adam,
    "adamw": measure_adamw,
    "ranking": measure_ranking,
    "causal_model": measure_causal_model,
    "cached_model": measure_cached_model,
    "padding_invariance": measure_padding_invariance,
}
CHOICES = {
    "gelu": ("approximate", (True, False)),
    "gelu_feed_forward": ("approximate", (True, False)),
    "gru": ("reset_before", (True, False)),
    "rotary": ("halves", (True, False)),
    "linear_attention": ("causal", (True, False)),
    "performer_attention": ("causal", (True, False)),
    "window_attention": ("causal", (True, False)),
}
NAMES = {"bce": "bce_with_logits"}
BLOCK = ("x", "gamma_1", "beta_1", "W_q", "W_k", "W_v", "W_o", "gamma_2", "beta_2", "W_1", "b_1", "W_2", "b_2")
POST_LN_BLOCK = ("x", "W_q", "W_k", "W_v", "W_o", "gamma_1", "beta_1", "W_1", "b_1", "W_2", "b_2", "gamma_2", "beta_2")
FORMS = {
    "softmax": Form(softmax, draw_softmax, ("s",), lambda s: 1000 * s),
    "layer_norm": Form(layer_norm, draw_layer_norm, ("x", "gamma", "beta"), lambda x: x + 1e5),
    "gelu": Form(gelu, draw_gelu, ("x",)),
    "relu": Form(lambda x: np.where(x > 0, x, 0), draw_relu, ("x",)),
    "linear": Form(linear, draw_linear, ("x", "W", "b")),
    "embedding": Form(lambda ids, E: E[ids], draw_embedding, ("E",)),
    "cross_entropy": Form(cross_entropy, draw_cross_entropy, ("logits",)),
    "bce": Form(bce, draw_bce, ("z",)),
    "dropout": Form(dropout, draw_dropout, ("x",)),
    "attention": Form(attention, draw_attention, ("q", "k", "v", "bias")),
    "multi_head_attention": Form(multi_head_attention, draw_heads, ("x", "W_q", "W_k", "W_v", "W_o")),
    "feed_forward": Form(feed_forward, draw_feed_forward, ("x", "W_1", "b_1", "W_2", "b_2")),
    "block": Form(block, draw_block, BLOCK),
    "rms_norm": Form(rms_norm, draw_rms_norm, ("x", "gamma")),
    "cross_attention": Form(cross_attention, draw_cross, ("x", "memory", "W_q", "W_k", "W_v", "W_o")),
    "biased_multi_head_attention": Form(
        biased_multi_head_attention, draw_biased, ("x", "W_q", "W_k", "W_v", "W_o", "b_q", "b_k", "b_v", "b_o")
    ),
    "grouped_query_attention": Form(grouped_query_attention, draw_grouped, ("x", "W_q", "W_k", "W_v", "W_o")),
    "gelu_feed_forward": Form(gelu_feed_forward, draw_gelu_feed_forward, ("x", "W_1", "b_1", "W_2", "b_2")),
    "post_ln_block": Form(post_ln_block, draw_block, POST_LN_BLOCK),
    "batch_norm": Form(batch_norm, draw_batch_norm, ("x", "gamma", "beta"), lambda x: x + 1e5),
    "silu": Form(lambda x: x * sigma(x), lambda rng, lead: {"x": 2 * rng.standard_normal((*lead, 5))}, ("x",)),
    "rnn": Form(rnn, draw_recurrent(1), ("x", "W", "U", "b")),
    "lstm": Form(lstm, draw_recurrent(4), ("x", "W", "U", "b")),
    "gru": Form(gru, draw_recurrent(3), ("x", "W", "U", "b", "c")),
    "rotary": Form(rotary, draw_rotary, ("x",)),
    "selective_scan": Form(selective_scan, draw_selective_scan, ("x", "delta", "A", "B", "C", "D")),
    "associative_scan": Form(associative_scan, draw_scan, ("a", "b")),
    "linear_attention": Form(linear_attention, draw_qkv, ("q", "k", "v")),
    "performer_attention": Form(performer_attention, draw_qkv, ("q", "k", "v")),
    "window_attention": Form(window_attention, draw_window, ("q", "k", "v")),
    "flash_attention": Form(attention, draw_flash, ("q", "k", "v")),
    "fused_attention": Form(attention, draw_flash, ("q", "k", "v")),
    "bpr": Form(bpr, draw_bpr, ("positive", "negative")),
    "bpr_max": Form(bpr_max, draw_bpr_max, ("positive", "negatives")),
    "swiglu": Form(swiglu, draw_swiglu, ("x", "W_1", "V", "W_2")),
    "conv2d": Form(conv2d, draw_conv2d, ("x", "W")),
}
