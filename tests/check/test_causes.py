"""Causes that need no zoo are named: exchanged axes, transposed matrices, float32, a patched NumPy."""

from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import causes, check_implementation, check_in_process
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject

pytestmark = pytest.mark.filterwarnings("ignore")


def swapped(x, one, two):
    return np.ascontiguousarray(np.swapaxes(x, one, two))


def heads_third(q, k, v):
    s = np.einsum("bnhd,bmhd->bhnm", q, k) / q.dtype.type(np.sqrt(q.shape[-1]))
    return np.einsum("bhnm,bmhd->bnhd", ops.softmax(s), v)


def rounded(*places):
    """RNN with these arguments rounded to float32."""

    def rnn(*args):
        given = [x.astype(np.float32).astype(x.dtype) if i in places else x for i, x in enumerate(args)]
        return ops.rnn(*given)

    return lambda x, W, U, b: rnn(x, W, U, b)


PLACED = [
    ("attention", heads_third, "heads_first"),
    ("rnn", lambda x, W, U, b: swapped(ops.rnn(swapped(x, 0, 1), W, U, b), 0, 1), "time_first"),
    ("depthwise_conv1d", lambda x, W: swapped(ops.depthwise_conv1d(swapped(x, -1, -2), W), -1, -2), "features_first"),
    ("rnn", lambda x, W, U, b: ops.rnn(x, W, swapped(U, 0, 1), b), "weight_transposed"),
    ("rnn", lambda x, W, U, b: ops.rnn(x, swapped(W, 0, 1), U, b), "weight_transposed"),
    ("rnn", lambda x, W, U, b: ops.rnn(x, swapped(W, 0, 1), swapped(U, 0, 1), b), "weight_transposed"),
    ("refine_stoc", lambda A, W, V: swapped(ops.refine_stoc(A, W, V), -1, -2), ""),  # it is symmetric: right
    ("wasserstein_scores", lambda a, b, c, d: swapped(ops.wasserstein_scores(a, b, c, d), -1, -2), "result_transposed"),
    ("rnn", rounded(0, 1, 2, 3), "float32"),
    ("rnn", rounded(2), "float32"),
    ("rnn", lambda x, W, U, b: ops.rnn(x, W, U, b) * (1 + x.dtype.type(1e-7)), ""),
    ("rnn", lambda x, W, U, b: ops.rnn(x, W, swapped(U, 0, 1), 2 * b), ""),
]


@pytest.mark.parametrize(("kind", "implementation", "name"), PLACED)
def test_what_is_misplaced_or_of_float32_is_named(kind, implementation, name):
    report = check_in_process(implementation, kind, examples=4)
    assert (report.diagnosis.names if report.diagnosis else ()) == ((name,) if name else ())
    assert "Yours: " in str(report) or not name


def test_a_convention_is_named_where_it_is_a_failure():
    def halves(x, cos, sin):
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    strict = check_in_process(halves, "rotary", examples=4, strict=True)
    assert "Yours: another convention: pairs are features i and i + d/2, not neighbours (convention)" in str(strict)
    assert not strict.conventions


def no_tanh(x, W, U, b):
    """An LSTM with the gates in PyTorch's order, and h = o ⊙ c."""
    H = len(U)
    h, c, y = np.zeros((len(x), H), x.dtype), np.zeros((len(x), H), x.dtype), np.zeros((*x.shape[:2], H), x.dtype)
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ W + h @ U + b, 4, axis=-1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        y[:, t] = h = c / (1 + np.exp(-o))
    return y


def flipped(x, W, dilation=1):
    return ops.conv1d(x, W[::-1], dilation, "causal")


def plus_twice(x, cos, sin):
    """Pairs are halves, and both sines have a plus."""
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos + b * sin, b * cos + a * sin], axis=-1)


def summed_over_queries(q, k, v, mask=None):
    """True = hidden, and exponentials are divided by the sum of a column."""
    s = q @ np.swapaxes(k, -1, -2) / q.dtype.type(np.sqrt(q.shape[-1]))
    s = s if mask is None else np.where(mask, -np.inf, s)
    top = np.max(s, axis=-1, keepdims=True)
    e = np.exp(s - np.where(top == -np.inf, 0, top))
    total = np.sum(e, axis=-2, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def sample_deviation(x, gamma, beta):
    with np.errstate(all="ignore"):
        deviation = np.sqrt(np.var(x, axis=-1, keepdims=True, ddof=1) + x.dtype.type(1e-6))
    return (x - np.mean(x, axis=-1, keepdims=True)) / deviation * gamma + beta


BESIDE = [  # kind, implementation, its bug, its convention
    pytest.param("attention", summed_over_queries, "in the softmax, the axis is wrong", "a mask that is True",
                 marks=pytest.mark.slow),
    ("lstm", no_tanh, "in the new state, tanh is missing", "the columns of the gates stand in the order i, f, g, o"),
    ("rotary", plus_twice, "(half_missing)", "pairs are features i and i + d/2"),
    ("rms_norm", lambda x, gamma: ops.rms_norm(x, 1 + gamma, 1e-6)[0], "(one_plus_gamma)", "eps is fixed at 1e-6"),
    ("conv1d", flipped, "(flipped)", "padding is fixed: causal"),
    ("layer_norm", sample_deviation, "(ddof1)", "eps is fixed at 1e-6"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "implementation", "name", "convention"), BESIDE)
def test_a_bug_beside_a_convention_is_named_with_it(kind, implementation, name, convention):
    report = check_in_process(implementation, kind, examples=8)
    said = str(report)
    assert f"Yours, too: {convention}" in said
    assert name in said.partition("Yours: ")[2].partition("Yours, too")[0]
    assert [bugs[0].name for bugs in report.diagnosis.bugs][1:] == ["convention"]


@pytest.mark.slow
def test_two_conventions_that_undo_each_other_name_no_bug():
    from tests.check.variants import multi_head_attention as variants

    bug = "mask_1d_queries"  # the mask of keys is taken for one of queries; it is not "inverted", of an opposite mask
    report = check_in_process(variants.make(variants.PLANTED[bug][-1], bug), "multi_head_attention", examples=6)
    assert report.failures
    assert not report.diagnosis


def test_what_is_right_has_no_such_cause():
    for kind in ("rnn", "attention", "linear"):
        op = Subject(SPECS[kind].ours(), SPECS[kind])
        assert not causes.misplaced(op)
        assert not causes.single(op)
    assert not causes.patched()


def test_of_all_cases_each_has_to_be_right_with_the_axes_changed_back():
    """At an even number of tokens, as in the first case, this one is a transposed matrix away from being right."""

    def rnn(x, W, U, b):
        return ops.rnn(x, W, swapped(U, 0, 1), b) * (1 + x.shape[-2] % 2)

    op = Subject(SimpleNamespace(rnn=rnn), SPECS["rnn"])
    assert not causes.misplaced(op)


def test_a_patched_numpy_is_named(monkeypatch):
    exp = np.exp
    monkeypatch.setattr(np, "exp", lambda x: 1.01 * exp(x))
    monkeypatch.setattr(np, "is_added", exp, raising=False)
    report = check_in_process(lambda x: x / (1 + np.exp(-x)), "silu", examples=4)
    assert "Yours: NumPy was patched: np.exp is replaced" in str(report)


def test_a_checker_that_fails_of_a_patched_numpy_says_so(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import numpy as np\nnp.max = np.sum = None\ndef softmax(s):\n    return s\n")
    report = check_implementation(str(path), "softmax", examples=2)
    assert report.problem.startswith("the checker failed. Yours: NumPy was patched: np.max, np.sum are replaced")


def test_counterexamples_are_printed_as_usual_whatever_the_code_sets():
    with np.printoptions(precision=1, formatter={"float": lambda x: "?"}):
        report = check_in_process(lambda x: 2 * x, "relu", examples=2)
    assert "?" not in report.failures[0].counterexample
