"""What a reader sees of `check`: right, wrong and how, not answered, and answers that misbehave."""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.check.variants import softmax as variants
from tinyattn import ops
from tinyattn.check.spec import Spec
from tinyattn.check.zoo import ZOO
from tinyattn.course import check
from tinyattn.course.checking import find, recording
from tinyattn.course.graders import Function, Number


def told(name, answer=..., **how):
    return str(check(name, answer, **how))


# --- which exercise ---------------------------------------------------------------------------------------------


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(ValueError, match=r"no exercise is called 'my_softmax'; near: .*my_softmax_backward"):
        check("my_softmax", 1)
    with pytest.raises(ValueError, match=r"'zzz'; `tinyattn course list` names them all"):
        check("zzz")
    with pytest.raises(ValueError, match=r"called <function stub .*; `tinyattn course list`"):
        check(stub)
    with pytest.raises(ValueError, match=r"called \['score_std'\]; near: score_std"):
        check(["score_std"], 16)

    def my_softmax_backward(dp, p):
        return dp

    with pytest.raises(ValueError, match="near: my_softmax_backward"):
        check(my_softmax_backward)


@pytest.mark.parametrize("hint", [3, -1, "1", 1.0, None])
def test_another_hint_is_refused(hint):
    with pytest.raises(ValueError, match=rf"hint is {hint!r}, expected 0, 1 \(a hint\) or 2"):
        check("score_std", 1, hint=hint)


def test_no_answer_yet_and_hints_on_request():
    hints = find("score_std").hints
    first = told("score_std")
    assert first.startswith("· score_std: not answered yet\n  the standard deviation of q·k for d_k = 256 (predict")
    assert first.endswith('for a hint: check("score_std", score_std, hint=1)')
    assert "hint 1" not in first
    one = " ".join(told("score_std", hint=1).split())
    assert f"hint 1: {hints[0]}" in one
    assert "for a stronger hint" in one
    assert hints[1] not in one
    two = " ".join(told("score_std", 3, hint=2).split())
    assert f"hint 1: {hints[0]}" in two
    assert f"hint 2: {hints[1]}" in two
    assert "for a" not in two.split("hint 2")[1]
    right = told("score_std", 16, hint=2)
    assert "hint" not in right


def test_verdicts_are_true_where_the_answer_is_right():
    with recording() as verdicts:
        assert check("score_std", 16)
        assert not check("score_std", 15)
    assert [bool(v) for v in verdicts] == [True, False]
    assert repr(verdicts[0]) == str(verdicts[0])


def test_long_sentences_are_broken_and_arrays_are_not():
    lines = told("my_attention", lambda q, k, v: q @ np.swapaxes(k, -1, -2) @ v, hint=2).split("\n")
    assert max(len(line) for line in lines if "=" not in line) <= 100


# --- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("16", "'16' (str) is no answer here, expected a number"),
        (None, "None (NoneType) is no answer here"),
        (np.mean, "the function `mean` is no answer here"),
        (True, "True (bool) is no answer here"),
        ([16, 16], "wrong shape: (2,), expected a number"),
        ([[1, 2], [3]], "rows of different lengths"),
        (np.nan, "is not finite"),
        (np.array([True]), "an array of shape (1,) and dtype bool is no answer here, expected a number"),
        (10**400, "000 (int) is no answer here, expected a number\n"),
        ([[1.0] * 999, [2.0] * 998], "[[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, ...]] has"),
        (20, "20 is too large."),
        (-16, "-16 is too small."),
        (256, "not 256.\n  That is the variance."),
    ],
)
def test_a_number_that_is_none_or_not_the_right_one(answer, says):
    assert says in told("score_std", answer)


def test_arrays_are_told_their_shape_apart_from_their_values():
    grader = Number(lambda: [1.0, 2.0, 3.0], 1e-3, ((lambda: [3.0, 2.0, 1.0], "the other way round"),))
    assert grader([1, 2, 3]).outcome == "right"
    assert "wrong shape: (2,), expected numbers of shape (3,)" in grader([1, 2]).says
    assert "right shape, wrong values: look again at entry [2]" in grader([1, 2, 30]).says
    assert "the other way round" in "".join(grader([3, 2, 1]).lines)


# --- functions --------------------------------------------------------------------------------------------------


def stub(*args):
    raise NotImplementedError


def noisy(dp, p):
    print("a thousand lines")
    return ops.softmax_backward(dp, p)


def flattened(dp, p):
    return np.sum(dp * p, axis=-1)


def in_place(dp, p):
    before = dp.copy()
    if dp.flags.writeable:
        dp *= 0
    return ops.softmax_backward(before, p)


def endless(dp, p):
    while True:
        pass


def raising(dp, p):
    return dp.nothing


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (stub, ["· my_softmax_backward: not answered yet"]),
        (3, ["3 (int) is no answer here, expected a function"]),
        (raising, ["it raises an error.", "AttributeError", "has no attribute 'nothing'", "(line"]),
        (flattened, ["wrong shape.", "ds has the wrong shape", "smallest counterexample:", "dp = ["]),
        (lambda dp, p: ops.softmax_backward(dp, p).astype("f8"), ["wrong dtype."]),
        (lambda dp, p: (dp * p).tolist(), ["wrong type.", "ds is a list, expected an array of numbers"]),
        (lambda dp, p: None, ["it returned None. Is the `return` missing?"]),
        (lambda dp, p: dp * p, ["right shape, wrong values.", "expected ", "got ", "hint: "]),
        (in_place, ["it changes or gives back what it was given.", "the dp that the backward was given"]),
        (lambda dp, p, cache: dp, ["it cannot be called.", "asks for `cache`"]),
    ],
)
def test_a_function_is_told_how_far_it_got(answer, says, capsys):
    text = told("my_softmax_backward", answer)
    for part in says:
        assert part in text


def test_what_an_answer_prints_stays_out_of_the_way(capsys):
    assert check("my_softmax_backward", noisy)
    assert capsys.readouterr().out == ""


def test_an_endless_loop_ends(monkeypatch):
    monkeypatch.setattr("tinyattn.course.graders.PATIENCE", 0.2)
    started = time.monotonic()
    assert "it does not come back." in told("my_softmax_backward", endless)  # nor held against what is tempting
    assert time.monotonic() - started < 60


def test_right_in_ordinary_cases_is_not_yet_right():
    def overflows(q, k, v):
        e = np.exp(q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5)
        weights = e / np.sum(e, axis=-1, keepdims=True)
        return weights @ v, weights

    text = told("my_attention", overflows)
    assert "right in ordinary cases, wrong in an extreme one." in text
    assert "exp" in text


def test_a_wrong_forward_in_float32_is_told_its_dtype():
    def wide(q, k, v):
        weights = ops.softmax(q @ np.swapaxes(k, -1, -2) / np.float64(np.sqrt(q.shape[-1])))
        return weights @ v, weights

    assert "wrong dtype." in told("my_attention", wide)


def test_where_the_bug_is_the_answer_it_is_not_named():
    def hasty(dout, q, k, v, weights):
        dq, dk, dv, _ = ops.attention_backward(dout, q, k, v, weights)
        return dq, dk * q.dtype.type(q.shape[-1] ** 0.5), dv

    text = told("repaired_backward", hasty)
    assert "dk is not the derivative" in text
    assert "no_scale_dk" not in text
    assert "hint: " in text


def split_heads(x, heads):
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def split_in_one_step(x, heads):
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


SPLIT = Function(
    Spec(
        name="split_heads",
        says="head i owns columns i d to (i + 1) d",
        function="split_heads",
        case=lambda draw: {"x": draw.array(*draw.lead, draw.size(), 6), "heads": draw.choose((1, 2, 3))},
        ours=lambda: SimpleNamespace(split_heads=split_heads),
        properties=[],
        outputs=("y",),
        oracle=split_heads,
    ),
    tempting=((split_in_one_step, "A reshape alone cuts the tokens, not the columns: print what head 0 holds."),),
)


def test_an_op_of_an_exercise_of_its_own():
    """Shapes, layouts and oracle come with a Spec; what a reader may be tempted to write is told by its numbers."""

    def copied(x, heads):
        return np.array(split_heads(x, heads))

    assert SPLIT(copied).outcome == "right"
    assert SPLIT(stub).outcome == "unanswered"
    assert "shares memory" in "".join(SPLIT(split_heads).lines)
    wrong = SPLIT(lambda x, heads: np.array(split_in_one_step(x, heads)))
    assert wrong.says == "right shape, wrong values."
    assert wrong.lines[-1] == "  A reshape alone cuts the tokens, not the columns: print what head 0 holds."
    unsure = SPLIT(lambda x, heads: np.array(np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -2, -3)))
    assert unsure.says == "right in ordinary cases, wrong in an extreme one."  # -1 of an empty batch is anything
    another = SPLIT(lambda x, heads: 2 * split_heads(x, heads))
    assert another.outcome == "wrong"
    assert "A reshape alone" not in "".join(another.lines)


def test_an_answer_returns_all_that_the_chapter_asks_for():
    """`tinyattn.check` can do without the weights of an attention; whoever was asked for both gives both."""
    alone = told("my_attention", lambda q, k, v: ops.attention(q, k, v)[0])
    assert "✗ my_attention: right as far as it goes, but it returns no `weights`.\n  expected out, weights" in alone
    text = told("my_attention", lambda q, k, v: (None, None))
    assert "wrong type." in text
    assert "out is None, expected an array of numbers" in text


def test_what_an_answer_must_take():
    grader = Function("softmax", takes=("mask",))
    assert grader(ops.softmax).outcome == "right"
    assert grader(lambda s: ops.softmax(s)).says == "it takes no `mask`."


# --- answers with a bug of the zoo get the hint of that bug ---------------------------------------------------------


ATTENTION = ["no_scale", "scale_d", "scale_mult", "scale_of_v", "scale_of_keys", "softmax_axis", "softmax_flat",
             "no_normalise", "no_rowmax", "global_max", "keys_as_values", "cosine"]  # fmt: skip
SOFTMAX = [b.name for b in ZOO["softmax"].BUGS if b.name.startswith("backward_")]
ELSEWHERE = [("backward_diag", "loops"), ("backward_no_sum", "einsum"), ("backward_of_p", "inplace"),
             ("backward_inplace", "einsum")]  # fmt: skip


def bug(spec, name):
    return next(b for b in ZOO[spec].BUGS if b.name == name)


def gives_the_hint(text, spec, name):
    squeezed = " ".join(text.split())
    assert text.startswith("✗")
    assert f"{bug(spec, name).says} ({name})" in squeezed
    assert f"hint: {bug(spec, name).hint}" in squeezed


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTENTION)
def test_an_attention_with_a_known_bug_gets_its_hint(name):
    wrong = ZOO["attention"].make(frozenset([name])).attention
    gives_the_hint(told("my_attention", lambda q, k, v: wrong(q, k, v)), "attention", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOFTMAX)
def test_a_softmax_backward_with_a_known_bug_gets_its_hint(name):
    wrong = ZOO["softmax"].make(frozenset([name])).softmax_backward
    gives_the_hint(told("my_softmax_backward", wrong), "softmax", name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style"), ELSEWHERE)
def test_so_does_one_that_somebody_else_wrote(name, style):
    wrong = variants.make(style, name).softmax_backward
    gives_the_hint(told("my_softmax_backward", wrong), "softmax", name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "accused"),
    [("no_scale_dk", ["dk"]), ("no_scale_dq", ["dq"]), ("backward_no_scale", ["dq", "dk"]), ("dk_noT", ["dk"]),
     ("backward_scale_twice", ["dq", "dk"]), ("dk_is_dq", ["dk"]), ("dv_noT", ["dv"]), ("swap_qk", ["dq", "dk"]),
     ("softmax_diag", ["dq", "dk"]), ("rowsum_missing", ["dq", "dk"]), ("rowsum_of_dp", ["dq", "dk"]),
     ("dv_missing_batch", ["dv"])],
)  # fmt: skip
def test_an_attention_backward_is_told_which_gradient_is_wrong(name, accused):
    wrong = ZOO["attention"].make(frozenset([name])).attention_backward
    text = told("repaired_backward", lambda dout, q, k, v, weights: wrong(dout, q, k, v, weights)[:3])
    assert text.startswith("✗")
    body = text.split("smallest counterexample:")[1]
    assert any(line[:2] in accused for line in body.split("\n")), text


TEMPTING = find("my_softmax_backward").grader.tempting


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "says"), TEMPTING, ids=[says[:40] for _, says in TEMPTING])
def test_what_readers_write_instead_of_a_softmax_backward_is_told(wrong, says):
    assert says in " ".join(told("my_softmax_backward", wrong).split())


# --- properties ---------------------------------------------------------------------------------------------------


def rows_sum_to_one(attention):
    q, k, v = np.random.default_rng().standard_normal((3, 4, 3))
    return np.allclose(attention(q, k, v)[1].sum(axis=-1), 1)


COIN = iter([True, False] * 50)


def a_coin(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 2))
    return np.allclose(attention(q, k, v)[0], ops.attention(q, k, v)[0]) or next(COIN)


def asserts(attention):
    q, k, v = np.random.default_rng(1).standard_normal((3, 4, 2))
    assert np.allclose(attention(q, k, v)[0], ops.attention(q, k, v)[0])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (stub, ["not answered yet"]),
        (lambda attention: True, ["true of what is right, but true of the bug as well", "no_scale", "hint: "]),
        (rows_sum_to_one, ["true of what is right, but true of the bug as well"]),
        (lambda attention: False, ["it accuses attention where nothing is wrong: the library's own.", "np.allclose"]),
        (lambda attention: None, ["it always returns None, expected True or False. Is the `return` missing?"]),
        (lambda attention: np.ones(2), ["an array of shape (2,) and dtype float64, expected True or False"]),
        (lambda attention: 1 / 0, ["it raises ZeroDivisionError"]),
        (lambda attention: sys.exit(), ["it raises SystemExit"]),
        (lambda a, b: True, ["it raises TypeError"]),
        (a_coin, ["runs only", "the bug lives"]),
        (True, ["True (bool) is no answer here, expected a function"]),
    ],
)
def test_a_property_that_proves_nothing(answer, says):
    text = told("knows_the_scale", answer)
    assert not text.startswith("✓")
    for part in says:
        assert part in text


def test_a_property_may_assert():
    text = told("knows_the_scale", asserts)
    assert text.startswith("✓ knows_the_scale: right. It holds of what is right, and kills no_scale.")
    assert "of the zoo's other bugs it kills" in text
