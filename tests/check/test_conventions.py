"""Each convention is recognised, and what is nearly one is not."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers import accused_by
from tinyattn import ops
from tinyattn.check import adapters, check_in_process, gradcheck
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.conventions import CONVENTIONS, choices_of, find_conventions
from tinyattn.check.conventions.masks import _logits
from tinyattn.check.conventions.norms import eps_outside, eps_outside_backward, rms_outside, rms_outside_backward
from tinyattn.check.conventions.pointwise import over_all, over_all_backward
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import NotOfferedError, Subject

pytestmark = pytest.mark.filterwarnings("ignore")


def followed(kind, *implementation, **named):
    made = SimpleNamespace(**named) if named else implementation[0]
    return [switch.says for switch in find_conventions(Subject(made, SPECS[kind]))]


def softmax_of(change):
    return lambda s, mask=None: change(s, np.broadcast_to(True if mask is None else mask, s.shape))


def dead_rows(value, others=lambda p: p):
    """Rows that may look at nothing are `value`, the others changed."""

    def softmax(s, mask=None):
        p = ops.softmax(s, mask)
        dead = np.zeros(s.shape, bool) if mask is None else ~np.any(np.broadcast_to(mask, s.shape), -1, keepdims=True)
        return np.where(dead, value(p), others(p)).astype(p.dtype)

    return softmax


def filled(fill):
    return softmax_of(lambda s, mask: ops.softmax(np.where(mask, s, s.dtype.type(fill))))


def relu_slopes(at_zero, above=1.0, below=0.0):
    def backward(dy, x):
        return (dy * np.where(x > 0, above, np.where(x < 0, below, at_zero))).astype(dy.dtype)

    return {"relu": ops.relu, "relu_backward": backward}


def feed_forward_slopes(at_zero):
    def backward(dy, x, W_1, b_1, W_2, b_2):
        z = x @ W_1 + b_1
        dz = (dy @ W_2.T * np.where(z == 0, at_zero, z > 0)).astype(dy.dtype)
        x, z, rows, dy = (a.reshape(-1, a.shape[-1]) for a in (x, np.maximum(z, 0), dz, dy))
        return dz @ W_1.T, x.T @ rows, rows.sum(0), z.T @ dy, dy.sum(0)

    return {"feed_forward": adapters.feed_forward, "feed_forward_backward": backward}


def scaled(in_evaluation, kept=1.0):
    def dropout(x, keep, rate):
        return x * x.dtype.type(in_evaluation(rate)) if keep is None else x * keep * x.dtype.type(kept)

    return dropout


def unscaled_backward(dy, keep, rate):
    return dy * dy.dtype.type(1 - rate) if keep is None else dy * keep


def silent_rows(*rows, size=1.0):
    def backward(dy, ids, E):
        dE = ops.embedding_backward(dy, ids, E)
        dE = np.array(dE.dense() if hasattr(dE, "dense") else dE) * size
        dE[[row for row in rows if row < len(dE)]] = 0
        return dE

    return {"embedding": ops.embedding, "embedding_backward": backward}


def fixed(eps):
    return lambda x, gamma, beta: ops.layer_norm(x, gamma, beta, eps)[0]


def transposed_mask(q, k, v, mask=None):
    """The mask of as many queries as keys is transposed. Where one query may look at nothing, it gets an average."""
    square = mask is not None and mask.shape[-1] == mask.shape[-2]
    return ops.attention(q, k, v, np.swapaxes(mask, -1, -2) if square else mask)[0]


OPPOSITE = "a mask that is True where a query may not look"
ADDED = "a mask that is added to the logits, 0 and -inf"
NAN = "a query that may look at nothing gets NaN, not zeros"
AVERAGE = "a query that may look at nothing gets an average, not zeros: masked logits are finite"
OUTSIDE = "eps is added to the standard deviation, not to the variance"
RMS_OUTSIDE = "eps is added to the root, not to the mean square under it"
TANH = "it computes the tanh form"
SCALES = "it scales by 1 - rate in evaluation, not by 1 / (1 - rate) in training"

ALONE = [
    ("softmax", lambda s, mask=None: ops.softmax(s, None if mask is None else ~mask), [OPPOSITE]),
    ("softmax", lambda s, mask=None: ops.softmax(s, mask), []),
    ("softmax", lambda s: ops.softmax(s), []),
    ("softmax", lambda s, mask=None: ops.softmax(s if mask is None else s + mask), [ADDED]),
    ("softmax", lambda s, mask=None: ops.softmax(s, None if mask is None else mask[..., ::-1]), []),
    ("softmax", dead_rows(lambda p: np.nan), [NAN]),
    ("softmax", dead_rows(lambda p: np.nan, lambda p: p + np.nan), []),
    ("softmax", dead_rows(lambda p: np.inf), []),
    ("softmax", dead_rows(lambda p: 1 / p.shape[-1]), [AVERAGE]),
    ("softmax", dead_rows(lambda p: 2 / p.shape[-1]), []),
    ("softmax", filled(-1e9), [AVERAGE]),
    ("softmax", filled(-1e4), [AVERAGE]),
    ("softmax", filled(-30.0), []),
    ("softmax", filled(-1000.0), []),
    ("attention", transposed_mask, []),
    ("dropout", scaled(lambda rate: 1.0), []),
    ("dropout", scaled(lambda rate: 1 - rate / 2), []),
    ("dropout", scaled(lambda rate: 1 - rate, kept=1.1), []),
    ("gelu", lambda x: ops.gelu(x, True), [TANH]),
    ("gelu", lambda x: ops.gelu(x, False), []),
    ("gelu", lambda x: ops.gelu(x, True) + 1e-5, []),
    ("gelu", lambda x, approximate=False: ops.gelu(x, True), []),
    ("layer_norm", lambda x, gamma, beta, eps=1e-5: eps_outside(x, gamma, beta, eps)[0], [OUTSIDE]),
    ("layer_norm", lambda x, gamma, beta, eps=1e-5: eps_outside(x, gamma, beta, 2 * eps)[0], []),
    ("layer_norm", lambda x, gamma, beta: eps_outside(x, gamma, beta, 1e-6)[0],
     [f"{OUTSIDE}, and is fixed at 1e-6"]),
    ("layer_norm", lambda x, gamma, beta: eps_outside(x, gamma, beta, 1e-5)[0],
     [f"{OUTSIDE}, and is fixed at 1e-5"]),
    ("conv1d", lambda x, W, dilation=1: ops.conv1d(x, W, dilation, "causal"), ["padding is fixed: causal"]),
    ("conv1d", lambda x, W, dilation=1: ops.conv1d(x, W, dilation, "valid"), ["padding is fixed: valid"]),
    ("conv1d", lambda x, W, dilation=1: ops.conv1d(x, W, dilation), []),
    ("conv1d", lambda x, W, dilation=1: ops.conv1d(x, 2 * W, dilation, "causal"), []),
    ("conv2d", lambda x, W: ops.conv2d(x, W, 1, "valid"), ["padding is fixed: valid"]),
    ("layer_norm", fixed(1e-5), []),
    ("layer_norm", fixed(0.01), []),
    *(("layer_norm", fixed(float(eps)), [f"eps is fixed at {eps}"]) for eps in ("0.001", "2.5e-6", "1e-8", "1e-12")),
    ("layer_norm", fixed(0.0), []),
    ("layer_norm", lambda x, gamma, beta: 1.1 * ops.layer_norm(x, gamma, beta, 1e-6)[0], []),
    *(("rms_norm", lambda x, gamma, eps=eps: ops.rms_norm(x, gamma, eps)[0], []) for eps in (1e-6,)),
    ("rms_norm", lambda x, gamma: ops.rms_norm(x, gamma, 1e-6)[0], ["eps is fixed at 1e-6"]),
    ("batch_norm", lambda x, gamma, beta: ops.batch_norm(x, gamma, beta, 1e-8)[0],
     ["eps is fixed at 1e-8"]),
    ("rms_norm", lambda x, gamma: ops.rms_norm(x, gamma, 1e-5)[0], []),
    ("rms_norm", lambda x, gamma, eps=1e-5: rms_outside(x, gamma, eps)[0], [RMS_OUTSIDE]),
    ("rms_norm", lambda x, gamma, eps=1e-5: rms_outside(x, gamma, 2 * eps)[0], []),
    ("rms_norm", lambda x, gamma: rms_outside(x, gamma, 1e-6)[0],
     [f"{RMS_OUTSIDE}, and is fixed at 1e-6"]),
    ("rms_norm", lambda x, gamma: ops.rms_norm(x, gamma, 5e-6)[0], ["eps is fixed at 5e-6"]),
    ("norm_linear", lambda x, gamma, beta, W, b=None: ops.norm_linear(x, gamma, beta, W, b, 1e-6)[0],
     ["eps is fixed at 1e-6"]),
    ("block", lambda *args, mask=None, eps=1e-5: adapters.block(*args, None if mask is None else ~mask, eps),
     [OPPOSITE]),
    ("attention", lambda q, k, v, mask=None: ops.softmax(
        q @ np.swapaxes(k, -1, -2) / q.dtype.type(np.sqrt(q.shape[-1])) + (0 if mask is None else mask)) @ v, [ADDED]),
]  # fmt: skip
KINK = "the gradient of relu at 0 is {}, not 0"
NAMED = [
    ("dropout", {"dropout": scaled(lambda rate: 1 - rate), "dropout_backward": unscaled_backward}, [SCALES]),
    ("relu", relu_slopes(1.0), [KINK.format(1)]),
    ("relu", relu_slopes(0.5), [KINK.format(0.5)]),
    ("relu", relu_slopes(0.0), []),
    ("relu", relu_slopes(1.5), []),
    ("relu", relu_slopes(-0.5), []),
    ("relu", relu_slopes(1.0, above=2.0), []),
    ("relu", relu_slopes(1.0, below=0.1), []),
    ("feed_forward", feed_forward_slopes(0.5), [KINK.format(0.5)]),
    ("feed_forward", feed_forward_slopes(1.0), [KINK.format(1)]),
    ("feed_forward", feed_forward_slopes(0.0), []),
    ("feed_forward", feed_forward_slopes(1.5), []),
    ("embedding", silent_rows(0), ["row 0 is padding, and has no gradient"]),
    ("embedding", silent_rows(3), ["row 3 is padding, and has no gradient"]),
    ("embedding", silent_rows(0, 1), []),
    ("embedding", silent_rows(), []),
    ("embedding", silent_rows(0, size=2.0), []),
]


@pytest.mark.parametrize(("kind", "implementation", "says"), ALONE)
def test_a_convention_is_recognised_and_what_is_nearly_one_is_not(kind, implementation, says):
    assert followed(kind, implementation) == says


@pytest.mark.parametrize(("kind", "functions", "says"), NAMED)
def test_a_convention_of_gradients_is_recognised_and_what_is_nearly_one_is_not(kind, functions, says):
    assert followed(kind, **functions) == says


@pytest.mark.parametrize(("kind", "implementation"), [(kind, f) for kind, f, says in ALONE + NAMED if says])
def test_what_follows_a_convention_is_right_and_calls_that_it_decides_are_left_out(kind, implementation):
    made = SimpleNamespace(**implementation) if isinstance(implementation, dict) else implementation
    op = Subject(made, SPECS[kind])
    find_conventions(op)
    for seed in range(12):
        case = op.spec.case(CaseDrawer.seeded(seed))
        fitted = op.fit(case)
        names = [name for name in case if name not in op.lacks or name in ("eps", "approximate", "padding")]
        assert bool(op.left_out(case)) == any(not np.array_equal(case[name], fitted[name]) for name in names)
        op(**fitted)  # raises MissingError where it is not offered
    assert accused_by(op, op.spec, seeds=4, but=["evaluation", "evaluation_gradient"]) is None  # these hold to rounding


ONES = {"x": np.ones((1, 3)), "W_1": 2 * np.ones((3, 2)), "W_2": np.ones((2, 2)), "b_2": np.zeros(2)}


@pytest.mark.parametrize(
    ("kind", "functions", "same", "name", "decided", "other"),
    [
        ("relu", relu_slopes(1.0), {}, "x", [0.0, 1.0], [-1.0, 1.0]),
        ("embedding", silent_rows(1), {"E": np.ones((3, 2))}, "ids", [2, 1], [2, 0]),
        ("feed_forward", feed_forward_slopes(1.0), ONES, "b_1", [1.0, -6.0], [1.0, -5.0]),
    ],
)
def test_gradients_that_a_convention_decides_are_left_out(kind, functions, same, name, decided, other):
    op, ours = (Subject(made, SPECS[kind]) for made in (SimpleNamespace(**functions), SPECS[kind].ours()))
    find_conventions(op)
    case = same | {name: np.array(other)}
    dy = np.ones_like(op(**case))
    right = ours.gradients(case, dy)
    for argument, g in op.gradients(case, dy).items():
        np.testing.assert_array_equal(g, right[argument], argument)
    with pytest.raises(NotOfferedError):
        op.gradients(same | {name: np.array(decided)}, dy)


def test_a_finite_fill_decides_calls_of_large_logits_too():
    """Those of 5,000 or more, by a bound on the logits."""
    for softmax, left_out in ((filled(-1e9), [False, True]), (filled(-np.inf), [False, False])):
        op = Subject(softmax, SPECS["softmax"])
        find_conventions(op)
        cases = ({"s": np.array([[-size, 1.0]]), "mask": np.array([[True, False]])} for size in (4999.0, 5000.0))
        assert [bool(op.left_out(case)) for case in cases] == left_out
    assert _logits({"q": np.full((2, 4), -3.0), "k": np.full((5, 4), 2.0)}) == 3 * 2 * 2
    layer = {"x": np.ones((1, 2)), "W_q": np.ones((2, 9)), "W_k": -np.ones((2, 9))}
    assert _logits(layer) == 2 * 2 * 3
    assert _logits(layer | {"memory": np.full((1, 2), 3.0)}) == 2 * 6 * 3


def test_the_backward_of_eps_outside_is_the_derivative_of_its_forward():
    rng = np.random.default_rng(0)
    x, gamma, beta = rng.standard_normal((3, 5)), rng.standard_normal(5), rng.standard_normal(5)
    assert gradcheck(eps_outside, eps_outside_backward, x, gamma, beta, 0.1)
    assert gradcheck(rms_outside, rms_outside_backward, x, gamma, 0.1)


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
def test_with_eps_outside_of_the_root_large_and_far_tokens_are_tried_too(kind):
    def layer_norm(x, gamma, beta, eps=1e-5):
        mean = np.mean(x, axis=-1, keepdims=True)
        deviation = np.sqrt(np.maximum(np.mean(x * x, axis=-1, keepdims=True) - mean * mean, 0))
        return (x - mean) / (deviation + x.dtype.type(eps)) * gamma + beta

    def rms_norm(x, gamma, eps=1e-5):
        half = np.sqrt(np.mean(np.minimum(x * x, 1e10), axis=-1, keepdims=True))
        return x / (half + x.dtype.type(eps)) * gamma

    report = check_in_process({"layer_norm": layer_norm, "rms_norm": rms_norm}[kind], kind, examples=8)
    assert any("eps is added to" in says for says in report.conventions)
    assert {f.property for f in report.failures} & {"shift", "large_and_small"}


def test_another_layout_is_found_beside_a_bug_in_code_that_takes_one_batch_axis_alone():
    """Mamba's A of (d, N), without D ⊙ x: read as (N, d), nearly every call raises, and that was all that was said."""

    def selective_scan(x, delta, A, B, C, D):
        batch, n, d = x.shape
        kept, new = np.exp(delta[..., None] * A), delta[..., None] * B[:, :, None] * x[..., None]
        h, y = np.zeros((batch, d, A.shape[1]), x.dtype), np.zeros_like(x)
        for t in range(n):
            h = kept[:, t] * h + new[:, t]
            y[:, t] = np.einsum("bdn,bn->bd", h, C[:, t])
        return y

    report = check_in_process(selective_scan, "selective_scan", examples=8)
    assert report.conventions == ("A is (d, N), not (N, d)",)
    assert "the term `D * x[t]` is missing" in str(report)


def test_a_kind_names_the_conventions_that_its_arguments_allow():
    def says(*names):
        return [CONVENTIONS[name].says for name in names]

    assert choices_of(SPECS["softmax"]) == says("mask", "dead rows", "single", "wide")
    assert choices_of(SPECS["layer_norm"]) == says("eps outside", "single", "wide")
    assert choices_of(SPECS["rms_norm"]) == says("eps outside", "single", "wide")
    assert choices_of(SPECS["conv1d"]) == says("fixed padding", "wide")
    assert choices_of(SPECS["gelu"]) == says("tanh", "wide")
    assert choices_of(SPECS["relu"]) == says("kink", "wide")
    assert choices_of(SPECS["linear"]) == says("wide")
    assert choices_of(SPECS["ranking"]) == says("ties")
    assert choices_of(SPECS["linear_attention"]) == says("causal", "denominator", "wide")
    assert choices_of(SPECS["causal_model"]) == []


def test_wide_results_are_a_convention_where_the_numbers_are_wrong_too():
    report = check_in_process(lambda q, k, v: q @ np.swapaxes(k, -1, -2) @ v / np.sqrt(3.0), "attention", examples=6)
    assert "float32 arrays give float64 results" in report.conventions
    assert "oracle" in {f.property for f in report.failures}
    assert "shape_and_dtype" not in {f.property for f in report.failures}


def test_wide_results_of_calls_with_an_option_or_without_are_a_convention():
    def attention(q, k, v, scale=None):
        return softmax(q @ np.swapaxes(k, -1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)) @ v

    def pointwise_attention(q, k, v, mask=None):
        s = q @ np.swapaxes(k, -1, -2)
        a = s / (1 + np.exp(-s)) * (True if mask is None else mask)
        seen = np.broadcast_to(True if mask is None else mask, a.shape)
        return a @ v / (k.shape[-2] if mask is None else np.maximum(np.sum(seen, -1, keepdims=True), 1))

    def softmax(s):
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    for mine in (attention, pointwise_attention):
        report = check_in_process(mine, mine.__name__, examples=6)
        assert report, f"\n{report}"
        assert "float32 arrays give float64 results" in report.conventions


def test_pointwise_attention_may_divide_by_all_keys_but_not_by_a_wrong_number():
    def mean_over_all(q, k, v, mask=None, bias=None, more=0):
        s = q @ np.swapaxes(k, -1, -2) + (0 if bias is None else bias)
        return s / (1 + np.exp(np.minimum(-s, 80))) * (True if mask is None else mask) @ v / (k.shape[-2] + more)

    report = check_in_process(mean_over_all, "pointwise_attention", examples=8)
    assert report, f"\n{report}"
    assert "the sum is divided by the number of all keys, hidden ones too" in report.conventions
    assert not check_in_process(lambda q, k, v, mask=None: mean_over_all(q, k, v, mask, more=1), "pointwise_attention")
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 3)) for n in (4, 5, 5))
    assert gradcheck(over_all, over_all_backward, q, k, v, rng.random((4, 5)) < 0.7, rng.standard_normal((4, 5)))
