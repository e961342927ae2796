"""Exercises of chapter 04, attention backwards."""

from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ..graders import Function, Number, Property
from ..plain import Changes, op_spec
from ..prose import Prose

PROSE = Prose(4)


def _attention(q: Any, k: Any, v: Any) -> Any:
    """The library's attention without its options, which later chapters introduce.

    The weights are returned twice: a backward may call them `weights`, as the library's does, or by another name.
    """
    out, weights = ops.attention(q, k, v)
    return out, weights, weights


def _key_bias() -> float:
    """The norm of db_k in self-attention of six tokens, to nine decimals."""
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
    """-> dx, dW."""
    dh, second, _ = ops.linear_backward(dy, x @ W, W.T)
    dx, first, _ = ops.linear_backward(dh, x, W)
    return dx, first + second.T


def _tied_case(draw: CaseDrawer) -> dict[str, Any]:
    i = draw.size()
    o = draw.size_like(i)
    return {"x": draw.array(*draw.lead, draw.size(), i), "W": draw.array(i, o)}


TIED = op_spec("tied", "y = (x W) Wᵀ", _tied_case, _tied, "y", backward=_tied_backward, wrt=("x", "W"))


def _scaled(dout: Any, q: Any, k: Any, v: Any, p: Any) -> Any:
    """The backward of attention."""
    dq, dk, dv, _ = ops.attention_backward(dout, q, k, v, p)
    return dq, dk, dv


WRONG_SCALE = PROSE.attach("mistakes", _scaled)  # fmt: skip


def _plain_mean(dout: Any, q: Any, k: Any, v: Any, p: Any) -> Any:
    """The bug of repaired_backward: softmax's backward subtracts the unweighted mean."""
    dp = dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - np.mean(dp, axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


def _of_attention(name: str) -> Function:
    tempting = *PROSE.attach(f"{name}.mistakes", plain_mean=_plain_mean), *WRONG_SCALE
    return Function("attention", part="backward", forward=_attention, names=(("weights", "p"),), tempting=tempting)


EXERCISES = PROSE.exercises(
    my_attention_backward=_of_attention("my_attention_backward"),
    repaired_backward=_of_attention("repaired_backward"),
    repaired_tied_backward=Function(TIED, part="backward", forward=_tied, tempting=Changes(_tied_backward)),
    key_bias_gradient=Number(_key_bias, tolerance=1e-6),
    same_for_keys_and_queries=Property(
        "attention", "no_scale_dk", gives=("attention", "attention_backward"), others=("no_scale_dq",)
    ),
)
