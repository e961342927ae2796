"""The linear map of every token, and feed-forward networks."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import linear_in, tokens_apart
from ..property import close, largest, waves
from .builder import Call, CaseDrawer, SpecBuilder, Subject

linear = SpecBuilder("linear")
linear_in(linear, "x", of=lambda case: case | {"b": None}, name="additive", says="without b it is linear in x",
          hint="Is anything besides b added, or is anything not linear?")  # fmt: skip


def linear_case(draw: CaseDrawer) -> dict[str, Any]:
    i = draw.size()
    o = draw.size_like(i)
    x = draw.array(*draw.lead, i) if draw.flag() else draw.array(*draw.lead, draw.size_like(o), i)
    return {"x": x, "W": draw.array(i, o), "b": draw.array(o) if draw.flag() else None}


linear.law("tokens_apart", "rounding", "every token is mapped alike, whatever its neighbours",
        lambda op, c: [] if not c.x.size else (
            op(**c).reshape(-1, c.W.shape[1])[:1], op(**c(x=c.x.reshape(-1, c.x.shape[-1])[:1]))
        ), times=4, what="the first token's y", hint="Does a token see its neighbour?")


@linear("rounding", "db is the sum of dy over all tokens, dW the sum of outer products x dyᵀ", "gradients",
        hint="Every token of every batch used W and b: their gradients are sums over all of them.")
def sums_over_tokens(op: Subject, **case: Any) -> None:
    x, width = case["x"], case["W"].shape[1]
    case |= {"b": np.zeros(width, x.dtype) if case["b"] is None else case["b"]}
    dy, atol = waves(x, *x.shape[:-1], width), 40 * tolerance(op.spec, case)
    gradients, flat = op.gradients(op.fit(case), dy), dy.reshape(-1, width).astype(float)
    if "b" in gradients:
        close(gradients["b"], np.sum(flat, axis=0), atol, "db")
    close(gradients["W"], x.reshape(-1, x.shape[-1]).astype(float).T @ flat, atol, "dW")


LINEAR = linear.spec(
    "y = x W + b",
    "linear(x, W, b=None): tokens are rows, x (..., i), W (i, o), b (o,)",
    case=linear_case, wrt=("x", "W", "b"), but=" (db may be returned even so)",
)


feed_forward = SpecBuilder("feed_forward")
tokens_apart(feed_forward, name="positions_apart")


def _above(c: Call) -> np.ndarray:
    """A b_1 with which every hidden unit is on."""
    return np.full_like(c.b_1, 2 * largest(c.x @ c.W_1) + 1)


def feed_forward_case(draw: CaseDrawer) -> dict[str, Any]:
    D = draw.size()
    H = draw.size_like(D)
    x = draw.array(*draw.lead, D) if draw.choose((False, False, True)) else draw.array(*draw.lead, draw.size_like(D), D)
    W_1, W_2 = draw.array(D, H), draw.array(H, D)
    return {"x": x, "W_1": W_1, "b_1": off_the_kink(draw, x @ W_1), "W_2": W_2, "b_2": draw.array(D)}


def off_the_kink(draw: CaseDrawer, u: np.ndarray) -> np.ndarray:
    """A bias that keeps every entry of u + b at least 0.01 away from 0, where ReLU has no derivative."""
    flat = u.reshape(-1, u.shape[-1]).astype(float)
    tries = np.round(draw.rng.uniform(-2, 2, (200, u.shape[-1])), 3)
    gaps = np.min(np.abs(flat[None] + tries[:, None]), axis=1, initial=9)  # (200, H)
    return np.asarray(tries[np.argmax(np.minimum(gaps, 0.05), axis=0), np.arange(u.shape[-1])], draw.dtype)


feed_forward.law("homogeneous", "rounding",
        "doubling x, b_1 and b_2 doubles the output: ReLU bends at 0 and nowhere else",
        lambda op, c: (op(**c(x=2 * c.x, b_1=2 * c.b_1, b_2=2 * c.b_2)), 2 * np.asarray(op(**c))), times=2,
        hint="Is there another activation, or an extra bias?")
feed_forward.law("all_on", "rounding", "where every hidden unit is on, y is x W_1 W_2 + b_1 W_2 + b_2",
        lambda op, c: (op(**c(b_1=_above(c))), (c.x.astype(float) @ c.W_1 + _above(c)) @ c.W_2.astype(float) + c.b_2),
        times=4, hint="Where is b_1 added?")
feed_forward.law("all_off", "rounding", "where every hidden unit is off, the output is b_2",
        lambda op, c: (op(**c(b_1=-_above(c))), np.broadcast_to(c.b_2, c.x.shape), 0),
        hint="Is b_2 added, and after everything else?")


def feed_forward_scale(case: dict[str, Any]) -> float:
    D, H = case["W_1"].shape
    return (largest(case["x"]) * largest(case["W_1"]) * D + largest(case["b_1"])) * largest(case["W_2"]) * H


FEED_FORWARD = feed_forward.spec(
    "y = relu(x W_1 + b_1) W_2 + b_2",
    "feed_forward(x, W_1, b_1, W_2, b_2): x (..., D), W_1 (D, H), b_1 (H,), W_2 (H, D), b_2 (D,)",
    case=feed_forward_case, wrt=("x", "W_1", "b_1", "W_2", "b_2"), scale=feed_forward_scale, choices=("inner kink",),
)


gelu_feed_forward = SpecBuilder("gelu_feed_forward")
tokens_apart(gelu_feed_forward)
linear_in(gelu_feed_forward, "W_2", of=lambda case: case | {"b_2": 0 * case["b_2"]}, hint="Where is the GELU applied?")


def gelu_feed_forward_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = feed_forward_case(draw)
    return {**drawn, "b_1": draw.array(len(drawn["b_1"])), "approximate": draw.flag()}


gelu_feed_forward.law("all_on_and_all_off", "rounding",
        "where every hidden unit is far on, y is x W_1 W_2 + b_1 W_2 + b_2; where all are far off, y is b_2",
        lambda op, c: [
            (op(**c), (c.x.astype(float) @ c.W_1 + c.b_1) @ c.W_2 + c.b_2, None, "with all units on, y"),
            (op(**c(b_1=-c.b_1)), np.broadcast_to(c.b_2, c.x.shape), None, "with all units off, y"),
        ], of=lambda c: c(b_1=np.full_like(c.b_1, largest(c.x @ c.W_1) + 30)),
        hint="Where are b_1 and b_2 added, and is there another activation?")
gelu_feed_forward.law("odd_part", "rounding", "without b_1, the results for x and -x differ by x W_1 W_2",
        lambda op, c: (op(**c) - op(**c(x=-c.x)), c.x.astype(float) @ c.W_1 @ c.W_2),
        of=lambda c: c(b_1=0 * c.b_1), times=2, what="the difference", hint="GELU(u) - GELU(-u) is u.")

GELU_FEED_FORWARD = gelu_feed_forward.spec(
    "y = gelu(x W_1 + b_1) W_2 + b_2, gelu(u) = u Φ(u), or its tanh form if approximate",
    "gelu_feed_forward(x, W_1, b_1, W_2, b_2, approximate=False): x (..., D), W_1 (D, H), b_1 (H,), W_2 (H, D), b_2 (D,); "
    "Φ to the last digits, and with approximate=True ½ u (1 + tanh(√(2/π) (u + 0.044715 u³)))",
    case=gelu_feed_forward_case, wrt=("x", "W_1", "b_1", "W_2", "b_2"), scale=feed_forward_scale,
)


swiglu = SpecBuilder("swiglu")
tokens_apart(swiglu)
linear_in(swiglu, "V", hint="The SiLU is of x W_1 alone: x V is a factor, with nothing added to it.")


def swiglu_case(draw: CaseDrawer) -> dict[str, Any]:
    D = draw.size()
    H = draw.size_like(D)
    x = draw.array(*draw.lead, D) if draw.choose((False, False, True)) else draw.array(*draw.lead, draw.size_like(D), D)
    return {"x": x, "W_1": draw.array(D, H), "V": draw.array(D, H), "W_2": draw.array(H, D)}


swiglu.law("odd_part", "rounding", "y of W_1 minus y of -W_1 is ((x W_1) ⊙ (x V)) W_2, since silu(a) - silu(-a) is a",
        lambda op, c: (np.asarray(op(**c), float) - op(**c(W_1=-c.W_1)), _products(c)), times=2, what="the difference",
        hint="Which of the two products goes through the SiLU, and is it a σ(a)?")


@swiglu("rounding", "far out the gate is x W_1 on the right and 0 on the left, in y and in dW_2", "extremes",
        hint="exp(-a) of a large negative a overflows: use the side on which exp is below 1.")
def far_out(op: Subject, **case: Any) -> None:
    case |= {"x": np.ones_like(case["x"])}
    for sign in (1, -1):
        W_1 = np.full_like(case["W_1"], sign * 2.0**14)
        far = case | {"W_1": W_1}
        open_gate = (sign > 0) * _products(far)
        close(op(**far), open_gate, tolerance(op.spec, far), "y")
        if op.has_backward:
            h = (sign > 0) * (far["x"] @ W_1) * (far["x"] @ far["V"])
            dW_2 = op.gradients(op.fit(far), np.ones_like(case["x"]))["W_2"]
            expected = np.broadcast_to(np.sum(h.reshape(-1, h.shape[-1]), axis=0)[:, None], dW_2.shape)
            close(dW_2, expected, 10 * tolerance(op.spec, far), "dW_2")


def _products(case: dict[str, Any]) -> Any:
    x, W_1, V, W_2 = (case[name].astype(float) for name in ("x", "W_1", "V", "W_2"))
    return ((x @ W_1) * (x @ V)) @ W_2


def swiglu_scale(case: dict[str, Any]) -> float:
    D, H = case["W_1"].shape
    return (largest(case["x"]) * D) ** 2 * largest(case["W_1"]) * largest(case["V"]) * largest(case["W_2"]) * H


SWIGLU = swiglu.spec(
    "y = (silu(x W_1) ⊙ (x V)) W_2, without biases",
    "swiglu(x, W_1, V, W_2): x (..., D), W_1 and V (D, H), W_2 (H, D); W_1 is the gate's",
    case=swiglu_case, wrt=("x", "W_1", "V", "W_2"), scale=swiglu_scale, choices=("swiglu",),
)
