"""Implementations by people who have never seen this library, as textbooks have them: none is called wrong."""

import ast
import functools
import inspect
import itertools
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.check.strangers import textbook
from tinyattn import ops
from tinyattn.check import check_implementation, check_in_process
from tinyattn.check.specs import SPECS
from tinyattn.check.trial import NOT_OF_NOTHING

FOLDER = Path(textbook.__file__).parent


def passed(offered, kind, **options):
    report = check_in_process(offered, kind, **options)
    assert report, f"\n{report}"
    return report


@pytest.mark.parametrize("file", ["textbook", "in_torch"])
def test_every_kind_has_a_stranger(file):
    """A new kind is held to code that was not written for it: a textbook's in NumPy, and one of PyTorch's users."""
    tree = ast.parse((FOLDER / f"{file}.py").read_text())
    there = {part.name for part in tree.body if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    there |= {part.asname or part.name for node in tree.body if isinstance(node, ast.ImportFrom) for part in node.names}
    missing = [kind for kind in SPECS if kind not in there]
    assert not missing, f"tests/check/strangers/{file}.py has no {', '.join(missing)}: write what a stranger has there"


@pytest.mark.parametrize("kind", [kind for kind in SPECS if kind != "performer_attention"])
def test_a_textbooks_implementation_is_right(kind):
    theirs = getattr(textbook, kind)
    passed(theirs if inspect.isclass(theirs) else textbook, kind, examples=5)


def test_a_performer_without_a_stabiliser_fails_for_long_keys_alone():
    """exp(-|k|² / 2) is 0 for keys of length 39, in float32 for those of length 15, and 0 / 0 is NaN. The formula is
    right, and this code of it is not: the authors' code first subtracts the largest exponent."""
    report = check_in_process(textbook, "performer_attention", examples=8)
    assert [f.property for f in report.failures] == ["long_keys"]


@pytest.mark.parametrize("kind", SPECS)
def test_an_implementation_in_pytorch_is_right(kind, torch):
    from tests.check.strangers import in_torch

    passed(getattr(in_torch, kind), kind, examples=8)


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("kind", SPECS)
def test_strict_refuses_what_is_reported_and_nothing_else(kind, torch):
    """In a child process: code in C may crash on a form that it does not offer."""
    from tests.check.strangers import in_torch

    for theirs in (getattr(textbook, kind), getattr(in_torch, kind)):
        offered = textbook if theirs is getattr(textbook, kind) and not inspect.isclass(theirs) else theirs
        report = check_in_process(offered, kind, examples=8)
        notes = [f for f in report.findings if f.outcome == "holds" and f.message.startswith(NOT_OF_NOTHING)]
        reported = [*report.not_offered, *report.conventions, *report.notes, *notes, *report.failures]
        strict = check_implementation(offered, kind, examples=8, strict=True)
        assert strict or reported, f"\n{report}\n{strict}"


def without(f, left):
    """f as a stranger has it who leaves out these optional arguments."""
    signature = inspect.signature(f)
    fewer = signature.replace(parameters=[p for name, p in signature.parameters.items() if name not in left])

    def call(*args, **kwargs):
        return f(**fewer.bind(*args, **kwargs).arguments)

    call.__signature__, call.__name__ = fewer, f.__name__
    return call


def optional(kind):
    function = getattr(SPECS[kind].ours(), SPECS[kind].function)
    return function, [n for n, p in inspect.signature(function).parameters.items() if p.default is not p.empty]


PURE = [kind for kind, spec in SPECS.items() if spec.common]


@pytest.mark.parametrize("kind", PURE)
def test_without_its_optional_arguments_nothing_is_called_wrong(kind):
    function, names = optional(kind)
    passed(without(function, names), kind, examples=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PURE)
def test_every_subset_of_optional_arguments_may_be_left_out(kind):
    function, names = optional(kind)
    for count in range(1, len(names)):
        for left in itertools.combinations(names, count):
            passed(without(function, left), kind, examples=4)


RECURRENT = ("rnn", "gru", "lstm")


@pytest.mark.parametrize("kind", [
    kind if kind in (*RECURRENT, "norm_linear") else pytest.param(kind, marks=pytest.mark.slow(1)) for kind in PURE
])  # fmt: skip
def test_a_textbooks_implementation_with_wrong_numbers_is_refused(kind):
    """No form that it does not take may hide its numbers."""
    theirs = getattr(textbook, kind)

    @functools.wraps(theirs)
    def wrong(*args, **kwargs):
        result = theirs(*args, **kwargs)
        return (1.1 * result[0], *result[1:]) if isinstance(result, tuple) else 1.1 * result

    assert not check_in_process(wrong, kind, examples=2)


class Callable:
    def __init__(self, f):
        self.f = f

    def __call__(self, *args, **kwargs):
        return self.f(*args, **kwargs)


DRESSED = {
    "*args": lambda f: lambda *args: f(*args),
    "*args and **kwargs": lambda f: lambda *args, **kwargs: f(*args, **kwargs),
    "functools.wraps": lambda f: functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs)),
    "a partial": functools.partial,
    "an object": Callable,
    "a method": lambda f: Callable(f).__call__,
}


@pytest.mark.parametrize(("kind", "dress"), [
    (kind, dress) if kind == "attention" or dress == "*args" else pytest.param(kind, dress, marks=pytest.mark.slow)
    for kind in ("attention", "layer_norm", "lstm", "cross_entropy", "dropout", "wkv") for dress in DRESSED
])  # fmt: skip
def test_however_a_function_is_dressed_it_is_called(kind, dress):
    passed(DRESSED[dress](optional(kind)[0]), kind, examples=2)


def test_a_decorated_backward_gets_the_arguments_that_the_forward_takes():
    def backward(*args):
        return textbook.attention_backward(*args)

    offered = SimpleNamespace(attention=textbook.attention, attention_backward=backward)
    held = {f.property for f in passed(offered, "attention", examples=4).findings if f.outcome == "holds"}
    assert {"derivative", "exact_gradients"} <= held


REPORTED = {
    "lstm": "3 H columns, without a forget gate",
    "fused_attention": "a mask of the class Mask",
    "flash_attention": "values of another width than keys",
    "relative_scores": "a with leading axes",
    "block_sparse_attention": "a query that may look at nothing",
    "dropout": "keep=None",
    "adam": "beta2 is 0.999 by default",
    "ranking": "a target ranks before items of its score",
    "attention": "float32 arrays give float64 results",
}


def test_values_of_another_width_get_right_numbers_or_none():
    """Without them a division by the root of the values' width shows nowhere."""

    def attention(q, k, v):
        return textbook.attention(q, k * k.dtype.type((k.shape[-1] / v.shape[-1]) ** 0.5), v)[0]

    report = check_in_process(attention, "attention", examples=6)
    assert [bug.name for bugs in report.diagnosis.bugs for bug in bugs] == ["scale_of_v"]
    assert not any("width" in form for form in report.not_offered)


def of_all_keys(q, k, v):
    q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    return q @ (k.swapaxes(-1, -2) @ v) / (q @ k.sum(-2)[..., None])


def of_plain_tables(x, cos, sin):
    assert cos.shape == sin.shape == (x.shape[-2], x.shape[-1] // 2)
    return textbook.rotary(x, cos, sin)


def of_rows(x, gamma, beta, eps=1e-5):
    return (x - x.mean(0)) / np.sqrt(x.var(0) + eps) * gamma + beta


def of_wide_states(x, W, U, b, h0=None):
    h, states = np.zeros(len(U)) if h0 is None else h0, []
    for t in range(x.shape[-2]):
        h = np.tanh(x[..., t, :] @ W + h @ U + b)
        states.append(h)
    return np.stack(states, axis=-2)


OTHERWISE = [
    *((textbook, kind, says) for kind, says in REPORTED.items()),
    (of_all_keys, "linear_attention", "it looks at all keys"),
    (of_plain_tables, "rotary", "cos and sin with leading axes"),
    (of_rows, "batch_norm", "x of three axes or more"),
    (of_wide_states, "rnn", "float32 arrays give float64 results"),
]  # fmt: skip


@pytest.mark.parametrize(("offered", "kind", "says"), OTHERWISE)
def test_what_a_stranger_does_otherwise_is_reported_once(offered, kind, says):
    report = passed(offered, kind, examples=4)
    assert [*report.not_offered, *report.conventions].count(says) == 1


@pytest.mark.parametrize(("offered", "kind", "says"), [
    case if "attention" not in case[1] else pytest.param(*case, marks=pytest.mark.slow(2)) for case in OTHERWISE
])  # fmt: skip
def test_with_strict_it_is_a_failure(offered, kind, says):
    assert not check_in_process(offered, kind, examples=4, strict=True)


def test_a_right_form_of_this_library_is_not_left_out():
    assert not {*passed(ops, "lstm", examples=8).not_offered, *passed(ops, "flash_attention", examples=8).not_offered}


def unbiased(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return gamma * centred / np.sqrt(x.var(-1, ddof=1, keepdims=True) + eps) + beta


def test_the_fault_is_shown_where_it_gives_numbers_and_named():
    """Of one feature the unbiased variance is NaN; a reader would mend ddof, and not that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's: no degrees of freedom
        report = check_in_process(unbiased, "layer_norm", examples=20)
    assert report.diagnosis.names == ("ddof1",)
    unmoved = {"memory_layout", "tokens_apart"}  # NaN before and after is no change
    assert unmoved.isdisjoint(f.property for f in report.failures)
    assert report.failures[0].got != "nan"


def test_the_counterexample_is_what_was_passed():
    def overflows(s):
        return np.exp(s) / np.exp(s).sum(-1, keepdims=True)

    shown = check_in_process(overflows, "softmax", examples=8).failures[0].counterexample
    assert "10000." in shown


def with_junk(s):
    return textbook.softmax(s), "junk"


def test_a_tuple_is_no_array():
    first = check_in_process(with_junk, "softmax", examples=4).failures[0]
    assert first.message.startswith("softmax returned 2 results, expected p alone: a caller would get a tuple")


def test_an_empty_batch_alone_is_a_note():
    def relu(x):
        return np.maximum(x, 0).reshape(-1, x.shape[-1]).reshape(x.shape) if x.size else 1 / 0

    report = passed(relu, "relu", examples=8)
    (finding,) = (f for f in report.findings if f.property == "batch_of_nothing")
    assert finding.outcome == "holds"
    assert finding.message.startswith("not for an empty batch: relu raised ZeroDivisionError")
    assert f"batch_of_nothing: {finding.message}" in str(report)
    strict = check_in_process(relu, "relu", examples=8, strict=True)
    assert {"batch_of_nothing"} == {f.property for f in strict.failures}
