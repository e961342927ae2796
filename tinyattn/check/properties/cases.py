"""What properties are tried on: sizes, masks and dtypes drawn (and shrunk) by hypothesis, entries from a drawn seed.

Needs the extra `check`. Sizes go down to 1, lead axes to none; masks have empty and full rows; entries are of
ordinary size, with the odd 0 and equal rows, or as large as the case says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from hypothesis import strategies as st
except ImportError:
    raise ImportError("drawing cases needs hypothesis: pip install -e '.[check]' in the checkout") from None

SIZES = st.integers(1, 7)
LEADS = st.sampled_from([(), (1,), (2,), (2, 3)])
DTYPES = st.sampled_from([np.float64, np.float32])
SEEDS = st.integers(0, 2**16)


def _normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape)
    x[rng.random(shape) < 0.05] = 0
    return x.astype(dtype)


def _mask(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    mask = rng.random((n, m)) < 0.7
    mask[rng.random(n) < 0.15] = False
    mask[rng.random(n) < 0.15] = True
    return mask


@st.composite
def linear(draw: Any) -> dict[str, Any]:
    lead, i, o, dtype, rng = _common(draw)
    b = _normal(rng, (o,), dtype) if draw(st.booleans()) else None
    return {"x": _normal(rng, (*lead, i), dtype), "W": _normal(rng, (i, o), dtype), "b": b}


@st.composite
def relu(draw: Any) -> dict[str, Any]:
    lead, n, _, dtype, rng = _common(draw)
    x = rng.uniform(0.01, 3, (*lead, n)) * rng.choice([-1, 1], (*lead, n))  # away from the kink at 0
    return {"x": x.astype(dtype)}


@st.composite
def gelu(draw: Any) -> dict[str, Any]:
    lead, n, _, dtype, rng = _common(draw)
    return {"x": 3 * _normal(rng, (*lead, n), dtype), "approximate": draw(st.booleans())}


@st.composite
def softmax(draw: Any) -> dict[str, Any]:
    lead, n, m, dtype, rng = _common(draw)
    mask = _mask(rng, n, m) if draw(st.booleans()) else None
    return {"s": 3 * _normal(rng, (*lead, n, m), dtype), "mask": mask}


@st.composite
def layer_norm(draw: Any) -> dict[str, Any]:
    lead, d, _, dtype, rng = _common(draw)
    d += 1  # of one feature nothing is left
    gamma, beta = _normal(rng, (d,), dtype), _normal(rng, (d,), dtype)
    return {
        "x": _normal(rng, (*lead, d), dtype),
        "gamma": gamma,
        "beta": beta,
        "eps": draw(st.sampled_from([1e-5, 1e-3])),
    }


@st.composite
def dropout(draw: Any) -> dict[str, Any]:
    lead, n, _, dtype, rng = _common(draw)
    rate = draw(st.sampled_from([0.1, 0.5, 0.75]))
    return {"x": _normal(rng, (*lead, n), dtype), "keep": rng.random((*lead, n)) >= rate, "rate": rate}


@st.composite
def embedding(draw: Any) -> dict[str, Any]:
    lead, n, d, dtype, rng = _common(draw)
    rows = draw(SIZES)
    kind = draw(st.sampled_from([np.int64, np.int32, np.uint8]))
    return {"ids": rng.integers(0, rows, (*lead, n)).astype(kind), "E": _normal(rng, (rows, d), dtype)}


@st.composite
def attention(draw: Any) -> dict[str, Any]:
    lead, n, m, dtype, rng = _common(draw)
    d, e = draw(SIZES), draw(SIZES)
    rate = draw(st.sampled_from([0.0, 0.5]))
    biases = [(*lead, n, m), (n, m), (1, m), (n, 1), (1, 1), (m,)]
    return {
        "q": _normal(rng, (*lead, n, d), dtype),
        "k": _normal(rng, (*lead, m, d), dtype),
        "v": _normal(rng, (*lead, m, e), dtype),
        "mask": _mask(rng, n, m) if draw(st.booleans()) else None,
        "bias": _normal(rng, draw(st.sampled_from(biases)), dtype) if draw(st.booleans()) else None,
        "keep": rng.random((*lead, n, m)) >= rate if rate else None,
        "rate": rate,
        "scale": draw(st.sampled_from([None, 0.7])),
    }


@st.composite
def cross_entropy(draw: Any) -> dict[str, Any]:
    lead, n, size, dtype, rng = _common(draw)
    targets = rng.integers(0, size, (*lead, n))
    return {
        "logits": 3 * _normal(rng, (*lead, n, size), dtype),
        "targets": targets,
        "weights": _weights(draw, rng, targets, dtype),
    }


@st.composite
def bce_with_logits(draw: Any) -> dict[str, Any]:
    lead, n, _, dtype, rng = _common(draw)
    z = 3 * _normal(rng, (*lead, n), dtype)
    targets = rng.choice([0.0, 1.0, 0.3], z.shape).astype(dtype)
    return {"z": z, "targets": targets, "weights": _weights(draw, rng, targets, dtype)}


def _weights(draw: Any, rng: np.random.Generator, like: np.ndarray, dtype: Any) -> np.ndarray | None:
    if not draw(st.booleans()):
        return None
    weights = rng.uniform(0.2, 2, like.shape) * (rng.random(like.shape) < 0.8)
    return weights.astype(dtype)


def _common(draw: Any) -> tuple[tuple[int, ...], int, int, Any, np.random.Generator]:
    return draw(LEADS), draw(SIZES), draw(SIZES), draw(DTYPES), np.random.default_rng(draw(SEEDS))


CASES = {
    "linear": linear(),
    "relu": relu(),
    "gelu": gelu(),
    "softmax": softmax(),
    "layer_norm": layer_norm(),
    "dropout": dropout(),
    "embedding": embedding(),
    "attention": attention(),
    "cross_entropy": cross_entropy(),
    "bce_with_logits": bce_with_logits(),
}
