"""Conventions of whole formulas: orders of gates and pairs, a place of eps, a precision. A bug beside one is none."""

import functools
import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers import accused_by
from tinyattn import ops
from tinyattn.check import adapters, check_in_process, gradcheck
from tinyattn.check.conventions.denominator import with_eps
from tinyattn.check.conventions.gru import gru_before, gru_before_backward
from tinyattn.check.runner import look_at
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject

pytestmark = pytest.mark.filterwarnings("ignore")


def ordered(a, there, here):
    """Columns of gates that stand as in `there`, as in `here`."""
    columns = dict(zip(there, np.split(a, len(there), axis=-1), strict=True))
    return np.concatenate([columns[gate] for gate in here], axis=-1)


def lstm(order):
    def forward(x, W, U, b, h0=None, c0=None):
        return ops.lstm(x, *(ordered(a, order, "ifog") for a in (W, U, b)), h0, c0)[0]

    def backward(dh, x, W, U, b, h0=None, c0=None):
        W, U, b = (ordered(a, order, "ifog") for a in (W, U, b))
        dx, dW, dU, db, dh0, dc0 = ops.lstm_backward(dh, x, W, U, *ops.lstm(x, W, U, b, h0, c0), h0, c0)
        return dx, *(ordered(a, "ifog", order) for a in (dW, dU, db)), dh0, dc0

    return SimpleNamespace(lstm=forward, lstm_backward=backward)


def sigma(u):
    return 1 / (1 + np.exp(-u))


def lstm_without_tanh(x, W, U, b, h0=None, c0=None):
    h, c = (np.zeros((*x.shape[:-2], len(U)), x.dtype) if state is None else state for state in (h0, c0))
    out = []
    for t in range(x.shape[-2]):
        i, f, g, o = np.split(x[..., t, :] @ W + h @ U + b, 4, axis=-1)
        c = sigma(f) * c + sigma(i) * np.tanh(g)
        h = sigma(o) * c
        out.append(h)
    return np.stack(out, axis=-2)


def gru(order="rzn", before=False, new_share=False, slip=""):
    def forward(x, W, U, b, c, h0=None):
        h = np.zeros((*x.shape[:-2], len(U)), x.dtype) if h0 is None else h0
        W, U, b, c = (dict(zip(order, np.split(a, 3, axis=-1), strict=True)) for a in (W, U, b, c))
        out = []
        for t in range(x.shape[-2]):
            token = x[..., t, :]
            r, z = (sigma(token @ W[gate] + b[gate] + h @ U[gate] + c[gate]) for gate in "rz")
            recalled = (r * h) @ U["n"] + c["n"] if before else r * (h @ U["n"] + c["n"])
            if slip == "c outside":
                recalled = r * (h @ U["n"]) + c["n"]
            n = np.tanh(token @ W["n"] + b["n"] + recalled)
            keep = 1 - z if new_share else z
            h = (1 - keep) * n + (1 - keep if slip == "z in one place" else keep) * h
            out.append(h)
        return np.stack(out, axis=-2)

    return forward


def turned(x):
    return np.concatenate([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], axis=-1)


def halves(sign=1, doubled=False):
    """As GPT-NeoX and transformers have it, with tables of (n, d/2) or of (n, d)."""

    def tables(x, cos, sin):
        if cos.ndim > 2 or cos.shape != (x.shape[-2], x.shape[-1] // (2 - doubled)):
            raise ValueError(f"tables of {cos.shape}")
        return (cos, sin) if doubled else (np.concatenate([a, a], axis=-1) for a in (cos, sin))

    def forward(x, cos, sin):
        cos, sin = tables(x, cos, sin)
        return x * cos + sign * turned(x) * sin

    def backward(dy, x, cos, sin):
        cos, sin = tables(x, cos, sin)
        return dy * cos - sign * turned(dy * sin)

    return SimpleNamespace(rotary=forward, rotary_backward=backward)


def neighbours(sign=1):
    """As GPT-J has it, with tables of (n, d)."""

    def forward(x, cos, sin):
        return x * cos + sign * np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape) * sin

    return forward


def scan(x, delta, A, B, C, D, h0=None):
    """A is (d, N), as Gu and Dao (2023) have it."""
    h, out = 0 if h0 is None else h0, []
    for t in range(x.shape[-2]):
        step = delta[..., t, :, None]
        h = np.exp(step * A) * h + step * B[..., t, None, :] * x[..., t, :, None]
        out.append(np.sum(h * C[..., t, None, :], axis=-1) + D * x[..., t, :])
    return np.stack(out, axis=-2)


def smoothed(others, target=lambda e, V: 1 - e):
    """A function whose target has probability `target(e, V)`, and each other class `others(e, V)`."""

    def forward(logits, targets, smoothing=0.1):
        V = logits.shape[-1]
        with np.errstate(all="ignore"):
            q = np.full(logits.shape, others(smoothing, np.float64(V)))
        np.put_along_axis(q, targets[..., None], target(smoothing, V), axis=-1)
        shifted = logits - np.max(logits, axis=-1, keepdims=True)
        logs = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
        return np.mean(-np.sum(q * logs, axis=-1)).astype(logits.dtype)

    return forward


def adam(root, default=1e-8):
    """The step is lr m / `root(v, correction of v, eps)`, over the correction of m."""

    def step_of(vector, gradient, moments, step, lr=1e-3, beta1=0.9, beta2=0.98, eps=default):
        m, v = moments
        m[:] = beta1 * m + (1 - beta1) * gradient
        v[:] = beta2 * v + (1 - beta2) * gradient**2
        vector -= lr * m / (1 - beta1**step) / root(v, 1 - beta2**step, eps)

    return step_of


def hat(v, correction, eps):
    return (np.sqrt(v) + eps) / np.sqrt(correction)


def beside(v, correction, eps):
    return np.sqrt(v / correction) + eps


def adamw(root, decay=lambda lr: 1.0, default=1e-8):
    """With p - λ `decay(lr)` p before the step of Adam."""

    def step_of(vector, gradient, moments, step, lr=1e-3, beta1=0.9, beta2=0.98, eps=default, weight_decay=0.01):
        vector -= weight_decay * decay(lr) * vector
        adam(root)(vector, gradient, moments, step, lr, beta1, beta2, eps)

    return step_of


def without_eps(step_of):
    """The optimiser with its default of eps, and no argument for it."""
    parameters = inspect.signature(step_of).parameters
    made = functools.wraps(step_of)(lambda *args, **kwargs: step_of(*args, **kwargs))
    made.__signature__ = inspect.Signature([p for name, p in parameters.items() if name != "eps"])
    return made


def distance_bpr(slope, below=0.0):
    """With these slopes of the hinge, where both distances are equal and where the target is nearer."""

    def backward(dloss, positive, negative, between, weights=None, pvn_weight=0.0):
        gradients = ops.distance_bpr_backward(dloss, positive, negative, between, weights, pvn_weight)
        w = np.ones_like(positive) if weights is None else weights
        more = dloss * pvn_weight * w / np.sum(w) * np.where(positive == between, slope, below * (positive < between))
        return tuple((g + c * more).astype(positive.dtype) for g, c in zip(gradients, (1, 0, -1), strict=True))

    return SimpleNamespace(distance_bpr=ops.distance_bpr, distance_bpr_backward=backward)


def in_float32(f):
    """f of the first argument in float32; the rest is in the dtype of the call."""
    return lambda x, *rest: f(x.astype(np.float32), *rest).astype(x.dtype)


def normed(x, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + np.float32(eps))


def layer_norm(scale):
    def forward(x, gamma, beta, eps=1e-5):
        return in_float32(normed)(x, scale * eps) * gamma + beta

    return forward


def rms_norm(x, gamma):
    """LlamaRMSNorm of transformers."""
    single = x.astype(np.float32)
    return gamma * (single / np.sqrt(np.mean(single**2, axis=-1, keepdims=True) + np.float32(1e-6))).astype(x.dtype)


def softmax(eps):
    def forward(s):
        e = np.exp(s - np.max(s, axis=-1, keepdims=True))
        return e / (np.sum(e, axis=-1, keepdims=True) + s.dtype.type(eps))

    return forward


def linear_attention(eps, inside=True):
    """With eps in the denominator, as fast-transformers has it; or added to the result as well."""

    def forward(q, k, v, causal=True):
        q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
        p = q @ np.swapaxes(k, -1, -2)
        p = np.tril(p) if causal else p
        eps_there = q.dtype.type(eps)
        return p @ v / (np.sum(p, axis=-1, keepdims=True) + eps_there) + (0 if inside else eps_there)

    return forward


COLUMNS = "the columns of the gates stand in the order {}"
BEFORE = "the reset gate acts before the product, (r ⊙ h') U_n"
SHARE = "z is the share of the new state, not of the old one"
OTHERS = "ε is spread over the V - 1 other classes, not over all V"
EPS_FIRST, DECAY_ALONE = "eps is added to √v before the correction", "the decay is not multiplied by the learning rate"
HALF, SINGLE = "pairs are features i and i + d/2, not neighbours", "it computes in float32, whatever comes in"
DENOMINATOR = with_eps(SPECS["linear_attention"], 1e-5).ours()
def of_two(sign=1, unsqueeze=False):
    """As in transformers: queries (B, h, n, d) and keys at once, tables (B, n, d)."""

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = (np.expand_dims(x, unsqueeze_dim) if unsqueeze else x for x in (cos, sin))
        return tuple(x * cos + sign * turned(x) * sin for x in (q, k))

    return apply_rotary_pos_emb


def gated(backward=False):
    def swiglu(x, up, gate, down):
        return adapters.swiglu(x, gate, up, down)

    def swiglu_backward(dy, x, up, gate, down):
        dx, dgate, dup, ddown = adapters.swiglu_backward(dy, x, gate, up, down)
        return dx, dup, dgate, ddown

    return SimpleNamespace(swiglu=swiglu, swiglu_backward=swiglu_backward) if backward else swiglu


ADOPTED = [
    ("lstm", lstm("ifgo"), [COLUMNS.format("i, f, g, o, not i, f, o, g")]),
    ("lstm", lstm("gofi"), [COLUMNS.format("g, o, f, i, not i, f, o, g")]),
    ("gru", gru("zrn"), [COLUMNS.format("z, r, n, not r, z, n")]),
    ("gru", gru(new_share=True), [SHARE]),
    ("gru", gru("nzr", new_share=True), [f"{COLUMNS.format('n, z, r, not r, z, n')}; {SHARE}"]),
    ("gru", gru(before=True), [BEFORE]),
    ("gru", gru("zrn", before=True, new_share=True), [f"{BEFORE}; {COLUMNS.format('z, r, n, not r, z, n')}; {SHARE}"]),
    ("gru", SimpleNamespace(gru=gru_before, gru_backward=gru_before_backward), [BEFORE]),
    ("rotary", halves(), [HALF]),
    ("rotary", halves(doubled=True), [f"{HALF}; cos and sin are (n, d)"]),
    ("rotary", neighbours(), ["cos and sin are (n, d), with each entry twice"]),
    ("swiglu", gated(), ["the arguments are x, up, gate, down: V comes before W_1"]),
    ("swiglu", gated(backward=True), ["the arguments are x, up, gate, down: V comes before W_1"]),
    ("selective_scan", scan, ["A is (d, N), not (N, d), and h0 (..., d, N)"]),
    ("smoothed_cross_entropy", smoothed(lambda e, V: e / (V - 1)), [OTHERS]),
    ("adam", adam(hat), [EPS_FIRST]),
    ("adam", without_eps(adam(hat, 1e-7)), [f"{EPS_FIRST}, and is fixed at 1e-7"]),
    ("adam", without_eps(adam(hat)), [f"{EPS_FIRST}, and is fixed at 1e-8"]),
    ("adam", without_eps(adam(beside, 1e-7)), ["eps is fixed at 1e-7"]),
    ("adam", without_eps(adam(beside, 2.5e-5)), ["eps is fixed at 2.5e-5"]),
    ("adam", without_eps(adam(beside, 1e-3)), ["eps is fixed at 0.001"]),
    ("adamw", without_eps(adamw(beside, default=3e-10)), [DECAY_ALONE, "eps is fixed at 3e-10"]),
    ("adamw", without_eps(adamw(hat, lambda lr: lr, 1e-6)), [f"{EPS_FIRST}, and is fixed at 1e-6"]),
    ("adamw", adamw(hat, lambda lr: lr), [EPS_FIRST]),
    ("adamw", adamw(hat), [DECAY_ALONE, EPS_FIRST]),
    ("adamw", adamw(beside), [DECAY_ALONE]),
    ("linear_attention", linear_attention(1e-6), ["1e-06 is added to the denominator"]),
    ("linear_attention", DENOMINATOR, ["1e-05 is added to the denominator"]),
    ("distance_bpr", distance_bpr(1), ["the slope of the hinge at 0 is 1, not 0"]),
    ("distance_bpr", distance_bpr(0.5), ["the slope of the hinge at 0 is 0.5, not 0"]),
    ("layer_norm", layer_norm(1), [SINGLE]),
    ("rms_norm", rms_norm, ["eps is fixed at 1e-6", SINGLE]),
    ("softmax", in_float32(softmax(0)), [SINGLE]),
]  # fmt: skip
REFUSED = [
    ("lstm", lstm_without_tanh),
    ("gru", gru("zrn", slip="z in one place")),
    ("gru", gru(slip="z in one place")),
    ("gru", gru(slip="c outside")),
    ("rotary", halves(sign=-1)),
    ("rotary", halves(sign=-1, doubled=True)),
    ("swiglu", lambda x, up, gate, down: ops.silu(ops.silu(x @ gate)) * (x @ up) @ down),
    ("swiglu", lambda x, W_1, V, W_2: x @ W_1 * ops.silu(x @ V) @ W_2),
    ("rotary", neighbours(sign=-1)),
    ("selective_scan", lambda x, delta, A, B, C, D: scan(x, delta, A, B, C, 2 * D)),
    ("smoothed_cross_entropy", smoothed(lambda e, V: e / (V - 1), target=lambda e, V: 1)),
    ("smoothed_cross_entropy", smoothed(lambda e, V: e / (V - 1), target=lambda e, V: 1 - e + e / V)),
    ("adam", adam(lambda v, correction, eps: np.sqrt(v / correction + eps))),
    ("adam", adam(hat, default=1e-7)),
    ("adam", without_eps(adam(beside, 2e-3))),
    ("adam", without_eps(adam(beside, 0.0))),
    ("adam", without_eps(adam(lambda v, correction, eps: np.sqrt(v / correction + eps)))),
    ("adamw", adamw(hat, lambda lr: lr / 2)),
    ("adamw", adamw(hat, lambda lr: lr**2)),
    ("linear_attention", linear_attention(1e-6, inside=False)),
    ("linear_attention", linear_attention(2e-6)),
    ("distance_bpr", distance_bpr(1.5)),
    ("distance_bpr", distance_bpr(1, below=0.1)),
    ("layer_norm", layer_norm(2)),
    ("softmax", softmax(1e-8)),
    ("softmax", in_float32(softmax(1e-3))),
    ("linear", lambda x, W, b=None: in_float32(lambda x: x @ W + (0 if b is None else b))(x)),
]


@pytest.mark.parametrize(("kind", "implementation", "says"), ADOPTED)
def test_a_convention_is_adopted_and_fails_under_strict(kind, implementation, says):
    report = check_in_process(implementation, kind, examples=4)
    assert report, report
    assert list(report.conventions) == says
    assert accused_by(Subject(implementation, SPECS[kind]), SPECS[kind], seeds=3)


@pytest.mark.parametrize("unsqueeze", [False, True])
def test_a_rotation_of_queries_and_keys_at_once_is_checked_as_one_of_each(unsqueeze):
    report = check_in_process(of_two(unsqueeze=unsqueeze), "rotary", examples=4)
    assert report, report
    assert list(report.conventions) == [f"{HALF}; cos and sin are (n, d)"]
    assert not check_in_process(of_two(-1, unsqueeze), "rotary", examples=4)


@pytest.mark.parametrize(("kind", "implementation"), REFUSED)
def test_a_bug_beside_a_convention_fails(kind, implementation):
    op = Subject(implementation, SPECS[kind])
    look_at(op)
    assert accused_by(op, op.spec, seeds=12, but=["shape_and_dtype"])


def test_the_backward_of_linear_attention_with_a_number_in_its_denominator_is_its_derivative():
    rng = np.random.default_rng(0)
    both = DENOMINATOR.linear_attention, DENOMINATOR.linear_attention_backward
    assert gradcheck(*both, *rng.standard_normal((3, 2, 4, 3)))


def test_the_backward_of_the_gru_with_the_reset_gate_before_the_product_is_its_derivative():
    rng = np.random.default_rng(0)
    shapes = (2, 3, 4, 2), (2, 9), (3, 9), 9, 9, (2, 3, 3)
    assert gradcheck(gru_before, gru_before_backward, *(rng.standard_normal(shape) for shape in shapes))
