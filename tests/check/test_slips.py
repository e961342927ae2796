"""Every slip is a change of one formula, in places that occur once, and is named when somebody makes it."""

import ast
from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import oracles, plain
from tinyattn.check.diagnosis import Diagnosis, diagnose
from tinyattn.check.formula import Formula
from tinyattn.check.report import tell
from tinyattn.check.rules import slips_of
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject
from tinyattn.ops import softmax


def formulas(kind):
    spec = SPECS[kind]
    names = [loop.__name__ for loop in spec.loops or (spec.oracle,)]
    for room in (plain, oracles):
        if all(hasattr(room, name) for name in names):
            yield Formula(*(getattr(room, name) for name in names), within=room.__name__)
    backward = getattr(spec.ours(), name := f"{spec.function}_backward", None)
    if hasattr(plain, name):
        yield Formula(getattr(plain, name), within=plain.__name__)
    if backward is not None and backward.__module__.startswith("tinyattn.ops"):
        yield Formula(backward, within=backward.__module__)


@pytest.mark.parametrize("kind", [kind for kind in SPECS if slips_of(kind)])
def test_a_slip_changes_a_formula_where_its_text_occurs_once(kind):
    known = list(formulas(kind))
    for slip in slips_of(kind):
        formula = next(f for f in known if f.patched(slip.says, slip.changes))
        for old, _ in slip.changes:
            assert sum(ast.unparse(tree).count(old) for tree in formula.trees.values()) == 1, (slip.name, old)
        assert slip.hint.endswith((".", "?"))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(show):
    """An LSTM with a batch, and the state that `show` makes of o and c."""

    def forward(x, W, U, b, h0=None, c0=None):
        H, h = len(U), np.zeros((*x.shape[:-2], len(U)), x.dtype) if h0 is None else h0
        c, out = np.zeros_like(h) if c0 is None else c0, []
        for t in range(x.shape[-2]):
            u = x[..., t, :] @ W + h @ U + b
            i, o, g = sigmoid(u[..., :H]), sigmoid(u[..., -2 * H : -H]), np.tanh(u[..., -H:])
            c = (sigmoid(u[..., H : 2 * H]) * c if len(b) == 4 * H else c) + i * g
            h = show(o, c)
            out.append(h)
        return np.stack(out, axis=-2)

    return forward


def names(implementation, kind):
    found = diagnose(Subject(implementation, SPECS[kind]), SPECS[kind])
    return [bug.name for alike in found.bugs for bug in alike], found.where


def test_a_slip_is_named_in_code_that_is_written_otherwise():
    assert names(lstm(lambda o, c: o * np.tanh(c)), "lstm") == ([], "")
    assert names(lstm(lambda o, c: o * np.tanh(np.clip(c, -1, 1, out=c))), "lstm") == (["cell_clipped"], "")


def test_a_mutant_by_rule_is_named_by_its_line():
    found = diagnose(Subject(lstm(lambda o, c: o * sigmoid(c)), SPECS["lstm"]), SPECS["lstm"])
    assert found.names[0].startswith("plain.py:")
    assert str(found).startswith(
        "Yours: in the new state, a sigmoid stands in place of tanh, as with `h = o * (1 / (1 + np.exp(-c)))` in place "
    )
    assert str(found).endswith("\nhint: h = o ⊙ tanh(c): which c?")


def test_calls_of_a_form_that_the_code_computes_rightly_tell_changes_apart():
    """Most cases of window attention have values of another width than keys; without them a window that is one too
    long and one without an end were the same."""

    def window_attention(q, k, v, window):
        i, j = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
        s = q @ np.swapaxes(k, -1, -2) / q.dtype.type(np.sqrt(q.shape[-1]))
        return softmax(s, (j <= i) & (i - j <= window)) @ v

    found = diagnose(Subject(window_attention, SPECS["window_attention"]), SPECS["window_attention"])
    (only,) = found.bugs[0]
    assert "a comparison is off by one" in only.says


def test_a_change_that_changes_nothing_is_not_named():
    """The wrong masks of dropout are drawn by a function that has no formula."""

    def keep_mask(rng, shape, rate):
        return np.ones(shape, bool)

    ours = SPECS["dropout"].ours()
    wrong = SimpleNamespace(dropout=ours.dropout, dropout_backward=ours.dropout_backward, keep_mask=keep_mask)
    assert not [name for name in names(wrong, "dropout")[0] if ".py" in name]


@pytest.mark.slow
def test_without_a_name_it_is_said_where_it_is_wrong():
    def rnn(x, W, U, b, h0=None):
        h, out = np.zeros((*x.shape[:-2], len(U)), x.dtype) if h0 is None else np.sin(3 * h0), []
        for t in range(x.shape[-2]):
            h = np.tanh(x[..., t, :] @ W + h @ U + b)
            out.append(h)
        return np.stack(out, axis=-2)

    where = "Yours is right wherever h0 is None, and mostly wrong elsewhere."  # right where h0 is 0
    assert names(rnn, "rnn") == ([], where)

    def attention(q, k, v):
        """The last of three, five, ... keys is forgotten."""
        n = k.shape[-2] // 2 * 2 or 1
        return ops.attention(q, k[..., :n, :], v[..., :n, :])[0]

    for kind in ("attention", "fused_attention"):  # the few cases of the battery alone fit "q.shape[-2] is at most 2"
        offered = SimpleNamespace(**{kind: attention})
        where = "Yours is right wherever k.shape[-2] is at most 2, and mostly wrong elsewhere."
        assert names(offered, kind) == ([], where)

    def attention_backward(dout, q, k, v, weights):
        return np.zeros_like(q), np.zeros_like(k), np.swapaxes(weights, -1, -2) @ dout

    cut = SimpleNamespace(attention=lambda q, k, v: ops.attention(q, k, v), attention_backward=attention_backward)
    bugs, says = names(cut, "attention")  # and not that a number in the backward is wrong
    assert bugs == []
    assert says.startswith("Wrong: dq, dk. Right: dv. In each case yours is 0: is the way to it cut")
    finding = SimpleNamespace(hint="What is h0?")
    assert list(tell(finding, Diagnosis(where=where))) == [where, "hint: What is h0?"]
    assert list(tell(finding, None)) == list(tell(finding, Diagnosis())) == ["hint: What is h0?"]


def test_of_several_gradients_the_wrong_ones_are_told():
    class rms_norm:
        @staticmethod
        def rms_norm(x, gamma, eps=1e-5):
            return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(eps)) * gamma

        @staticmethod
        def rms_norm_backward(dy, x, gamma, eps=1e-5):
            dx, dgamma = SPECS["rms_norm"].ours().rms_norm_backward(dy, *rms_norm.parts(x, gamma, eps))
            return dx + np.sin(x), dgamma

        @staticmethod
        def parts(x, gamma, eps):
            return *SPECS["rms_norm"].ours().rms_norm(x, gamma, eps)[1:], gamma

    assert names(rms_norm, "rms_norm") == ([], "Wrong: dx. Right: dgamma.")


def test_two_slips_at_once_are_named_together():
    def rnn(x, W, U, b, h0=None):
        h, out = np.zeros((*x.shape[:-2], len(U)), x.dtype) if h0 is None else h0, []
        for t in range(x.shape[-2]):
            h = np.maximum(x[..., t, :] @ W + h @ U + (b if t == 0 else 0), 0)
            out.append(h)
        return np.stack(out, axis=-2)

    assert names(rnn, "rnn")[0] == ["relu and b_first"]
