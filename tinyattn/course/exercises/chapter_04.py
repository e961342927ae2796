"""Exercises of chapter 04, attention backwards."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..graders import Function, Number, Property
from ..prose import Prose

CHAPTER = 4
PROSE = Prose(CHAPTER)


def _attention(q: Any, k: Any, v: Any) -> Any:
    """The library's, without the options that the chapter has not come to yet.

    The weights are returned twice: a backward may call them `weights`, as the library's does, or otherwise.
    """
    out, weights = ops.attention(q, k, v)
    return out, weights, weights


def _key_bias() -> float:
    """The norm of db_k of six tokens' self-attention, without the rounding."""
    rng = np.random.default_rng(5)
    x, target = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    (W_q, W_k, W_v), (b_q, b_k, b_v) = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 2))
    q, k, v = (ops.linear(x, W, b) for W, b in ((W_q, b_q), (W_k, b_k), (W_v, b_v)))
    out, p = ops.attention(q, k, v)
    dk = ops.attention_backward(out - target, q, k, v, p)[1]
    return round(float(np.linalg.norm(ops.linear_backward(dk, x, W_k)[2])), 9)


def _tied(x: Any, W: Any) -> Any:
    return x @ W @ W.T


def _tied_backward(dy: Any, x: Any, W: Any) -> Any:
    first, second, dx = _both_ways(dy, x, W)
    return dx, first + second


def _both_ways(dy: Any, x: Any, W: Any) -> tuple[Any, Any, Any]:
    """-> dW by the first use, by the second, and dx."""
    dh, dW_second, _ = ops.linear_backward(dy, x @ W, W.T)
    dx, dW_first, _ = ops.linear_backward(dh, x, W)
    return dW_first, dW_second.T, dx


def _tied_case(draw: CaseDrawer) -> dict[str, Any]:
    i = draw.size()
    o = draw.size_like(i)
    return {"x": draw.array(*draw.lead, draw.size(), i), "W": draw.array(i, o)}


def _with_dW(of: Any) -> Any:
    """A backward of `tied` with the right dx, and `of(by the first use, by the second)` for dW."""

    def backward(dy: Any, x: Any, W: Any) -> Any:
        first, second, dx = _both_ways(dy, x, W)
        return dx, of(first, second)

    return backward


TIED = Spec(
    name="tied",
    says="y = (x W) Wᵀ",
    function="tied",
    case=_tied_case,
    ours=lambda: SimpleNamespace(tied=_tied, tied_backward=_tied_backward),
    properties=[],
    outputs=("y",),
    oracle=_tied,
    wrt=("x", "W"),
)


def _scaled(dq_by: float, dk_by: float) -> Any:
    """A backward of attention whose dq and dk are multiplied by these powers of √d."""

    def backward(dout: Any, q: Any, k: Any, v: Any, p: Any) -> Any:
        dq, dk, dv, _ = ops.attention_backward(dout, q, k, v, p)
        return dq * q.shape[-1] ** (dq_by / 2), dk * q.shape[-1] ** (dk_by / 2), dv

    return backward


WRONG_SCALE = PROSE.attach(
    "mistakes", dk_not_scaled=_scaled(0, 1), dq_not_scaled=_scaled(1, 0), neither_scaled=_scaled(1, 1)
)


def _plain_mean(dout: Any, q: Any, k: Any, v: Any, p: Any) -> Any:
    """The bug of repaired_backward: softmax's backward subtracts the mean, whatever the weights are."""
    dp = dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - np.mean(dp, axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


WRONG_TIED = dict(
    first_use_only=_with_dW(lambda first, second: first),
    second_use_only=_with_dW(lambda first, second: second),
    mean_of_both=_with_dW(lambda first, second: (first + second) / 2),
    difference=_with_dW(lambda first, second: first - second),
    first_use_twice=_with_dW(lambda first, second: 2 * first),
    second_use_twice=_with_dW(lambda first, second: 2 * second),
)

EXERCISES = PROSE.exercises(
    my_attention_backward=Function(
        "attention",
        part="backward",
        forward=_attention,
        names=(("weights", "p"),),
        tempting=(*PROSE.attach("my_attention_backward.mistakes", plain_mean=_plain_mean), *WRONG_SCALE),
    ),
    repaired_backward=Function(
        "attention",
        part="backward",
        forward=_attention,
        names=(("weights", "p"),),
        tempting=(*PROSE.attach("repaired_backward.mistakes", plain_mean=_plain_mean), *WRONG_SCALE),
    ),
    repaired_tied_backward=Function(TIED, part="backward", forward=_tied, tempting=WRONG_TIED),
    key_bias_gradient=Number(
        _key_bias,
        tolerance=1e-6,
        tempting=dict(gradient_of_one=lambda: 1.0, six_keys_added=lambda: 6.0),
    ),
    same_for_keys_and_queries=Property(
        "attention",
        "no_scale_dk",
        gives=("attention", "attention_backward"),
        others=("no_scale_dq",),
    ),
)
