"""What a reader sees of `check`: right, wrong and how, not answered, and answers that misbehave."""

import sys
import time
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from tests.course.answers.chapter_15 import diagonal_lost, nothing_masked
from tests.course.answers.chapter_19 import WRONG
from tests.course.answers.chapter_22 import five_lines
from tinyattn import ops
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.spec import Spec
from tinyattn.check.zoo import ZOO
from tinyattn.course import buggy, check, yours
from tinyattn.course.checking import find
from tinyattn.course.exercises.chapter_17 import GRU
from tinyattn.course.graders import Function, Number, Property
from tinyattn.course.graders.words import compared, in_words_of
from tinyattn.course.plain import plain_spec
from tinyattn.course.session import recording


@pytest.fixture(autouse=True)
def fewer_examples(monkeypatch):
    """What is said, and not how rare a mistake may be: that is a matter of tests/course/answers."""
    monkeypatch.setattr("tinyattn.course.graders.function.EXAMPLES", 6)


def told(name, answer=..., **how):
    return str(check(name, answer, **how))


# --- which exercise ---------------------------------------------------------------------------------------------


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(ValueError, match=r"no exercise is called 'my_softmx'; near: .*my_softmax"):
        check("my_softmx", 1)
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


@pytest.mark.parametrize("hint", [4, -1, "1", 1.5, True, None])
def test_another_hint_is_refused(hint):
    with pytest.raises(ValueError, match=rf"hint is {hint!r}, expected 0, 1 \(a question\), 2"):
        check("score_std", 1, hint=hint)


def test_no_answer_yet_and_hints_on_request():
    """First nothing but the task; then the question, the diagnosis, the solution with its reason, one after another."""
    exercise = find("score_std")
    first = told("score_std")
    assert first.startswith("· score_std: not answered yet\n  the standard deviation of q·k for d = 256 (predict")
    assert first.endswith('for a question that leads: check("score_std", score_std, hint=1)')
    shown = [" ".join(told("score_std", 3, hint=hint).split()) for hint in range(4)]
    parts = (f"question: {exercise.hints[0]}", exercise.hints[1], f"why: {exercise.why}")
    for hint, text in enumerate(shown):
        assert [part in text for part in parts] == [hint > i for i in range(3)]
    assert "for the diagnosis: check(" in shown[1]
    assert "for the solution: check(" in shown[2]
    assert "for the" not in shown[3]
    assert told("score_std", 3, hint=3).endswith("the solution:\n    score_std = 16")
    right = told("score_std", 16, hint=3)
    assert "why" not in right
    assert "solution" not in right


def test_verdicts_are_true_where_the_answer_is_right():
    with recording() as verdicts:
        assert check("score_std", 16)
        assert not check("score_std", 15)
    assert [bool(v) for v in verdicts] == [True, False]
    assert repr(verdicts[0]) == str(verdicts[0])


def test_long_sentences_are_broken_and_arrays_are_not():
    lines = told("my_attention", lambda q, k, v: ops.attention(q, k, v, scale=1.0), hint=2).split("\n")
    assert max(len(line) for line in lines if "=" not in line) <= 100


# --- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("16", "'16' (str) is no answer here, expected a number"),
        (None, "None (NoneType) is no answer here"),
        (np.mean, "the function `mean` is no answer here"),
        (True, "True (bool) is no answer here"),
        ([16, 16], "2 numbers, expected 1."),
        ([[16, 16]], "wrong shape: (1, 2), expected a number"),
        ([20], "20 is too large."),
        ([[1, 2], [3]], "rows of different lengths"),
        (np.nan, "is not finite"),
        (np.array([True]), "an array of shape (1,) and dtype bool is no answer here, expected a number"),
        (10**400, "000 (int) is no answer here, expected a number\n"),
        ([[1.0] * 999, [2.0] * 998], "[[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, ...]] has"),
        (20, "20 is too large."),
        (-16, "-16 is too small."),
        (256, "256 is too large."),
    ],
)
def test_a_number_that_is_none_or_not_the_right_one(answer, says):
    assert says in told("score_std", answer)


def test_arrays_are_told_their_shape_apart_from_their_values():
    grader = Number(lambda: [1.0, 2.0, 3.0], 1e-3, tempting=(([3.0, 2.0, 1.0], "which way round?", "it is reversed"),))
    assert grader([1, 2, 3]).outcome == "right"
    assert grader([1, 2]).says == "2 numbers, expected 3."
    assert grader(3).says == "one number, expected 3."
    assert grader("?").says.endswith("is no answer here, expected 3 numbers")
    assert grader([1, 2, 3]).says.endswith("computes 1, 2 and 3.")
    assert "right shape, wrong values: look again at entry [2]" in grader([1, 2, 30]).says
    assert (grader([3, 2, 1]).question, grader([3, 2, 1]).diagnosis) == ("which way round?", "it is reversed")
    assert grader([1, 2, 30]).question == ""


def test_a_number_to_one_decimal_is_that_one():
    assert all(check("power_of_ten_left", a) for a in (-13.6, -13.605))
    assert not any(check("power_of_ten_left", a) for a in (-13.5, -13.7, -14))


def test_of_two_tempting_numbers_the_nearer_one_is_asked_about():
    asked = [told("power_of_ten_left", a, hint=1) for a in (2.5e-14, 0)]
    for question, text in zip(("Which power of ten is that?", "Is all of it left?"), asked, strict=True):
        assert question in text


def test_a_number_that_is_not_whole_may_tempt():
    grader = Number(lambda: -5, exactly=True, tempting=((1e-5, "That is h. Which k?"),))
    assert (grader(1e-5).says, grader(1e-5).question) == ("1e-05 is not a whole number.", "That is h. Which k?")
    assert grader(0).question == ""


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
        (flattened, ["wrong shape.", "the smallest example found:", "    dp = [", "expected  ds = [", "got  "]),
        (lambda dp, p: ops.softmax_backward(dp, p).astype("f4"), ["float64 in, float32 out: digits are lost."]),
        (lambda dp, p: (dp * p).tolist(), ["right shape, wrong values.", "expected  ds = ["]),
        (lambda dp, p: "ds", ["wrong type.", "ds is a str, expected an array of numbers"]),
        (lambda dp, p: [[1.0], [2.0, 3.0]], ["  it returned 2 gradients, expected ds"]),
        (lambda dp, p: None, ["it returned None. Is the `return` missing?"]),
        (lambda dp, p: dp * p, ["right shape, wrong values.", "for a question that leads: check("]),
        (lambda dp, p, cache: dp, ["it cannot be called.", "requires `cache`"]),
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
    monkeypatch.setattr("tinyattn.course.graders.calling.PATIENCE", 0.2)
    started = time.monotonic()
    assert "it does not return in time" in told("my_softmax_backward", endless)  # nor held against what is tempting
    assert time.monotonic() - started < 60


def matrix_alone(dp, p):
    """No leading axes."""
    return (np.diag(p) - np.outer(p, p)) @ dp


def rows(dp, p):
    """A Jacobian a row: wrong for an empty batch."""
    flat = zip(dp.reshape(-1, p.shape[-1]), p.reshape(-1, p.shape[-1]), strict=True)
    return np.array([matrix_alone(a, b) for a, b in flat]).reshape(*p.shape[:-1], -1)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (ops.softmax_backward, ""),
        (lambda dp, p: ops.softmax_backward(dp, p).astype("f8"), "somewhere a float64 came in"),
        (lambda dp, p: ops.softmax_backward(dp, p).tolist(), "It returns a list"),
        (in_place, "It writes into its argument"),
        (lambda dp, p: in_place(dp, p).tolist(), "It returns a list"),
        (rows, "It fails on a batch of size 0"),
        (lambda dp, p: np.asfortranarray(ops.softmax_backward(dp, p)), ""),
    ],
)
def test_a_right_answer_is_right_and_told_at_most_one_friendly_line(answer, note):
    verdict = check("my_softmax_backward", answer)
    assert verdict
    assert note in str(verdict)
    assert len(str(verdict).split("\n")) == 1 + bool(note)


def test_nothing_is_remarked_about_an_argument_that_was_to_be_overwritten():
    verdict = check("my_softmax_in_place", five_lines)
    assert verdict
    assert len(str(verdict).split("\n")) == 1


def shifted_batch(sequences, maxlen, dtype=int):
    newest = [s[-maxlen - 1 :] for s in sequences]
    ids, targets = np.zeros((2, len(newest), max(map(len, newest)) - 1), dtype)
    for row, after, items in zip(ids, targets, newest, strict=True):
        row[: len(items) - 1], after[: len(items) - 1] = items[:-1], items[1:]
    return ids, targets


def test_results_in_a_dict_are_taken_by_the_names_of_the_task():
    def my_shifted_batch(sequences, maxlen):
        ids, targets = shifted_batch(sequences, maxlen)
        return {"targets": targets, "ids": ids}

    assert check("my_shifted_batch", my_shifted_batch)
    ids, targets = yours("my_shifted_batch")([np.array([1, 2, 3])], 5)
    assert (ids.tolist(), targets.tolist()) == ([[1, 2]], [[2, 3]])

    def my_attention(q, k, v, mask=None):
        out, p = ops.attention(q, k, v, mask)
        return {"p": p, "out": out}

    assert check("my_attention", my_attention)
    without_out = check("my_attention", lambda q, k, v, mask=None: {"p": ops.attention(q, k, v, mask)[1]})
    assert not without_out
    assert "out is a dict" in str(without_out)  # and not p's numbers in its place


def shifted_and_spoiled(sequences, maxlen):
    made = shifted_batch(sequences, maxlen)
    sequences[0][:] = 0
    return made


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (lambda sequences, maxlen: shifted_batch(sequences, maxlen, float), "It returns floats where whole numbers"),
        (shifted_and_spoiled, "It writes into its argument"),
    ],
)
def test_whole_numbers_and_arrays_in_lists_are_taken_kindly(answer, note):
    verdict = check("my_shifted_batch", answer)
    assert verdict
    assert note in str(verdict)
    given = [np.array([1, 2, 3])]
    for got, expected in zip(yours("my_shifted_batch")(given, 5), ([[1, 2]], [[2, 3]]), strict=True):
        assert got.dtype.kind == "i"
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(given, [[1, 2, 3]])


def test_an_array_of_all_pairs_is_not_the_recurrence_that_is_asked_for():
    def all_pairs(a, b, v):
        weights = np.tril(a @ b.T)
        return weights @ v / weights.sum(axis=1, keepdims=True)

    assert "it makes an array of 256 by 256" in told("my_linear_attention", all_pairs)


def test_a_fraction_is_a_number():
    assert check("bce_belief", Fraction(5, 6))


def test_leading_axes_that_the_task_asks_for_are_needed():
    text = told("my_softmax_backward", matrix_alone)
    assert text.startswith("✗ my_softmax_backward: it raises an error.\n  matrix_alone raised ValueError: ")
    assert "the smallest example found:" in text


def test_right_in_ordinary_cases_is_not_yet_right():
    def overflows(q, k, v):
        e = np.exp(q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5)
        weights = e / np.sum(e, axis=-1, keepdims=True)
        return weights @ v, weights

    text = told("my_attention", overflows, hint=2)
    assert "right in ordinary cases, wrong in an extreme one." in text
    assert "exp overflows" in text


def test_nearly_right_is_said():
    def guarded(s):
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return e / (e.sum(axis=-1, keepdims=True) + 1e-12)

    assert "nearly right: it is off by more than rounding." in told("my_softmax", guarded)


def test_what_is_asked_beside_the_properties_neither_hangs_nor_ends_the_process(monkeypatch):
    monkeypatch.setattr("tinyattn.course.graders.calling.PATIENCE", 0.3)

    def endless_for_a_row(s):
        while s.ndim == 1:
            pass
        return ops.softmax(s)

    def exits_for_a_row(s):
        return sys.exit() if s.ndim == 1 else ops.softmax(s)

    for answer in (endless_for_a_row, exits_for_a_row):
        assert not check("my_softmax", answer)


def test_the_diagnosis_waits_until_it_is_asked_for():
    wrong = ZOO["softmax"].make(frozenset(["backward_no_sum"])).softmax_backward
    text, asked = told("my_softmax_backward", wrong), " ".join(told("my_softmax_backward", wrong, hint=2).split())
    known = bug("softmax", "backward_no_sum")
    assert "expected  ds = [" in text
    assert known.says not in " ".join(text.split())
    assert f"question: {known.hint}" in asked
    assert f"diagnosis: Yours: {known.says}. " in asked


def test_a_convention_is_as_good_unless_it_is_the_lesson():
    def nan_rows(s, mask=None):
        p = np.array(ops.softmax(s, mask))
        return np.where(p.sum(axis=-1, keepdims=True) == 0, np.nan, p)

    kind = Function("softmax")(nan_rows)
    assert kind.outcome == "right"
    assert kind.note.startswith("This is another convention than the library's, and as good: ")
    strict = Function("softmax", conventions=False)(nan_rows)
    assert strict.outcome == "wrong"
    assert strict.lines


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

    assert SPLIT(copied).outcome == SPLIT(split_heads).outcome == "right"
    assert SPLIT(stub).outcome == "unanswered"
    wrong = SPLIT(lambda x, heads: np.array(split_in_one_step(x, heads)))
    assert wrong.says == "right shape, wrong values."
    assert wrong.question == "A reshape alone cuts the tokens, not the columns: print what head 0 holds."
    unsure = SPLIT(lambda x, heads: np.array(np.swapaxes(x.reshape(*x.shape[:-1], heads, -1), -2, -3)))
    assert unsure.outcome == "right"
    assert unsure.note.startswith("It fails on a batch of size 0")  # -1 of an empty batch is anything
    another = SPLIT(lambda x, heads: 2 * split_heads(x, heads))
    assert another.outcome == "wrong"
    assert another.question == ""


@pytest.mark.parametrize(
    ("name", "answer", "asks"),
    [
        ("my_softmax_backward", lambda dp, p: dp[..., :1], "Call your function on this example and print the shape"),
        ("my_softmax_backward", lambda dp, p: dp.no_such_thing, "Which line raises that"),
        ("my_rnn_backward", lambda dh, x, W, U, h: (x, W), "How many results does the task ask for"),
        ("shifts_change_nothing", lambda wkv: wkv(), "Which line raises that"),
        ("normalises_over_keys", lambda attention: attention(), "Which line raises that"),
    ],
)
def test_what_is_no_matter_of_numbers_meets_a_question_about_it(name, answer, asks):
    assert f"question: {asks}" in " ".join(told(name, answer, hint=1).split())


def test_what_is_expected_and_what_was_got_never_look_alike():
    grade = SPLIT(lambda x, heads: split_heads(x, heads) * (1 + 1e-7))
    expected, got = (line.split(None, 1)[1] for line in grade.lines[-2:])
    assert grade.says == "right shape, wrong values."
    assert expected != got


def band(n, width):
    return np.abs(np.arange(n)[:, None] - np.arange(n)) < width


def banded(sizes):
    """Asks for `band`, of these sizes."""
    spec = Spec(
        name="band",
        says="True where the distance is below width",
        function="band",
        case=lambda draw: {"n": draw.choose(sizes), "width": draw.choose((1, 2))},
        ours=lambda: SimpleNamespace(band=band),
        properties=plain_spec("band", "", None, band, "mask").properties,
        outputs=("mask",),
        common=False,
    )
    return Function(spec, names=(("mask", "allowed"),))


@pytest.mark.parametrize("as_numbers", [lambda x: x.astype(int), lambda x: x * 1.0, lambda x: (x * 1).tolist()])
def test_zeros_and_ones_become_true_and_false(as_numbers):
    def mine(n, width):
        return as_numbers(band(n, width))

    grade = banded((2, 3))(mine)
    assert grade.outcome == "right"
    assert grade.note == "It returns numbers where True and False are asked for: dtype=bool."
    made = banded((2, 3)).wrapped(mine)(3, 2)
    assert made.dtype == bool
    np.testing.assert_array_equal(made, band(3, 2))
    additive = banded((2, 3))(lambda n, width: np.where(band(n, width), 0, -np.inf))
    assert additive.outcome == "wrong"


def test_of_many_numbers_the_first_wrong_one_is_shown():
    def one_wrong(n, width):
        mask = band(n, width)
        mask[7, 7] = False
        return mask

    lines = banded((20,))(one_wrong).lines
    assert lines[-2:] == ("    allowed: bool (20, 20)", "    allowed[7, 7]: expected True, got False")
    transposed = banded((20,))(lambda n, width: band(n, width)[:, 1:])
    assert transposed.lines[-2:] == ("    expected  allowed: bool (20, 20)", "    got       allowed: bool (20, 19)")
    nearly = compared("x", np.ones((9, 9)), {"x": np.ones((9, 9)) + 1e-7})
    assert list(nearly)[-1] == "x[0, 0]: expected 1, got 1.0000001000000001"


def test_a_model_with_a_wrong_shape_is_told_so():
    assert Function("causal_model")(lambda x: x[0]).says == "wrong shape."


def test_arguments_in_another_order_are_refused():
    grade = banded((2, 3))(lambda width, n: band(n, width))
    assert grade.says == "the arguments are in another order than in the task: n, width."
    assert banded((2, 3))(lambda a, b: band(a, b)).outcome == "right"
    assert Function("softmax")(lambda s, axis=-1, mask=None: ops.softmax(s, mask)).outcome == "right"
    assert "in another order" in Function("softmax", part="backward")(lambda p, dp: ops.softmax_backward(dp, p)).says


def test_none_in_place_of_a_truth():
    spec = plain_spec("even", "n is even", lambda draw: {"n": draw.choose((2, 3))}, lambda n: n % 2 == 0, "answer")
    assert Function(spec)(lambda n: None).says == "it returned None; expected True or False."
    assert Function(spec)(lambda n: None if n == 2 else False).says == "it returned None; expected True or False."


def test_the_repaired_model_must_stay_what_it_was():
    assert find("repaired_model").grader.last_test(lambda x: x).startswith("nothing leaks any more, but something else")


def test_extremes_are_cases_of_their_own():
    spec = plain_spec("double", "y = 2 x", lambda draw: {"x": draw.array(3)}, lambda x: 2 * x, "y",
                      extreme="y is right where x is large", extremes=[{"x": np.full(3, 500.0)}])  # fmt: skip
    assert Function(spec)(lambda x: x + x).says == "right. 2 properties hold, in 7 tries."
    grade = Function(spec)(lambda x: 2 * np.minimum(x, 100))
    assert grade.says == "right in ordinary cases, wrong in an extreme one."
    assert "  it should hold that y is right where x is large" in grade.lines


def test_what_only_a_last_step_makes_right_is_told_of_it():
    verdict = find("repaired_value").grader(nothing_masked)
    assert verdict.outcome == "wrong"
    assert verdict.diagnosis.startswith("Yours: every entry is right but those above")
    assert not find("repaired_value").grader(diagonal_lost).diagnosis.startswith("Only entries above")


def test_in_an_extreme_the_input_that_led_there_is_shown():
    def overflows(s):
        return np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True)

    shown = "    s = [[ 10000.,  10000.],\n         [ 10000., -10000.]]   float64 (2, 2)"
    assert shown in told("my_softmax", overflows)

    def filled(s, mask=None):
        return ops.softmax(s if mask is None else np.where(mask, s, -1e9)) * (1 if mask is None else mask)

    text = told("my_masked_softmax", filled, hint=2)
    assert "    mask = [" in text
    assert "-1.267651e+30" in text
    assert "diagnosis: Yours: masked logits are filled with -1e9 and then zeroed" in text


def test_results_in_another_order_are_said_to_be_that():
    exchanged = find("self_lookup").grader.reference()
    grade = find("self_lookup").grader(lambda x, W_q, W_k, W_v: exchanged(x, W_q, W_k, W_v)[::-1])
    assert grade.says == "right results, in another order."
    assert grade.question == "In which order does the task ask for them?"
    backward = find("my_attention_backward").grader.reference()
    turned = find("my_attention_backward").grader(lambda *args: tuple(backward(*args)[i] for i in (2, 0, 1)))
    assert turned.says == "right results, in another order."
    both_wrong = find("self_lookup").grader(lambda x, W_q, W_k, W_v: [2 * y for y in exchanged(x, W_q, W_k, W_v)[::-1]])
    assert both_wrong.says == "wrong shape."


def test_an_argument_that_may_be_left_out():
    def my_masked_softmax(s, mask):
        return ops.softmax(s, mask)

    grade = find("my_masked_softmax").grader(my_masked_softmax)
    assert grade.says == "it must also work without a mask: give `mask` the default None."
    assert "calling.py" not in "".join(grade.lines)


def test_messages_have_the_names_of_the_task():
    def my_hit_rate(ranks):
        return 1

    def my_decoder_weights(s, lengths):
        return s.no_such_thing

    def my_softmax_backward(dp, p):
        return [[1.0], [2.0, 3.0]]

    assert find("my_hit_rate").grader(my_hit_rate).lines == ("  `my_hit_rate` takes 1 argument, expected 2: ranks, k",)
    assert "  my_decoder_weights raised AttributeError" in told("my_decoder_weights", my_decoder_weights)
    assert "  my_softmax_backward returned 2 gradients, expected ds" in told("my_softmax_backward", my_softmax_backward)
    said = "the backward of linear is the derivative of its forward, and the gradients of linear, by linear algebra"
    words = "mine is the derivative of its forward, and the gradients, by linear algebra"
    assert in_words_of(SimpleNamespace(__name__="mine"), "linear", said) == words


def test_numbers_are_shown_without_their_types():
    text = told("my_shifted_batch", lambda s, n: [[[x + np.int64(1) for x in row[:-1]] for row in s]])
    assert "np.int64" not in text
    assert "got       rank = 3" in told("repaired_rank", lambda scores, target: 3.0)


def test_cases_of_repaired_gru_do_not_saturate():
    """Where a tanh or a gate is nearly 1, a wrong line shows in the last digits only."""
    cases = (GRU.case(CaseDrawer.seeded(seed)) for seed in range(100))
    assert max(np.abs(GRU.oracle(**case)).max(initial=0) for case in cases) < 0.995


def test_an_answer_returns_all_that_the_chapter_asks_for():
    """`tinyattn.check` can do without the weights of an attention; whoever was asked for both gives both."""
    alone = told("my_attention", lambda q, k, v: ops.attention(q, k, v)[0])
    assert "✗ my_attention: right as far as it goes, but it returns no `p`.\n  expected out, p" in alone
    text = told("my_attention", lambda q, k, v: (None, None))
    assert "out is None, expected an array of numbers" in text


def shifted(sequences, maxlen):
    """The two results as rows of one array, padded to the batch's width."""
    width = min(maxlen, max(map(len, sequences)) - 1)
    both = np.zeros((2, len(sequences), width), int)
    for b, items in enumerate(sequences):
        items = items[-width - 1 :]
        both[:, b, : len(items) - 1] = items[:-1], items[1:]
    return both


def test_results_may_be_packed_otherwise():
    """One array of both results, a list of them, a tuple of one number a person; but not the first result alone."""
    for pack in (np.array, list):
        assert check("my_shifted_batch", lambda s, n, pack=pack: pack(shifted(s, n)))
    assert not check("my_shifted_batch", lambda s, n: shifted(s, n)[0])
    counted = find("my_mean_ranks").grader.reference()
    assert check("my_mean_ranks", lambda scores, targets: tuple(counted(scores, targets).tolist()))
    assert check("my_mean_ranks", lambda scores, targets: (counted(scores, targets),))
    assert not check("my_mean_ranks", lambda scores, targets: (counted(scores, targets)[:, None],))
    softmax_backward = find("my_softmax_backward").grader.reference()
    assert check("my_softmax_backward", lambda dp, p: (softmax_backward(dp, p),))


@pytest.mark.parametrize(
    ("name", "answer", "got"),
    [
        ("my_shifted_batch", lambda s, n: [x[np.newaxis, : len(x) - 1][0] for x in s], "it returns no `targets`."),
        ("my_shifted_batch", lambda s, n: ([x[-n - 1 : -1] for x in s], [x[-n:] for x in s]), "wrong type."),
        ("my_cloze", lambda ids, turn, rho, mask: (ids, [row[: 1 + b] for b, row in enumerate(ids)]), "wrong"),
        ("no_target_is_read", lambda inputs, targets: "True", "got       answer = 'True'"),
    ],
)
def test_what_is_no_array_of_numbers_is_wrong(name, answer, got):
    """Rows of different lengths, and strings, are compared with tempting answers without a traceback."""
    assert got in told(name, answer, hint=2)


def test_a_tempting_answer_is_named_only_where_it_gives_the_counterexample():
    """An answer that is nearly another's is not told what is wrong with the other."""
    marked = told("my_shifted_batch", lambda s, n: tuple(np.where(x, x, -2) for x in shifted(s, n)), hint=2)
    assert "padding is on the left" not in marked
    own_place = told("no_target_is_read", lambda x, t: not (x == t).any(), hint=2)
    assert "two zeros, which are padding, are taken for a leak" in own_place
    asked_once = told("no_target_is_read", lambda x, t: not np.array_equal(x, t), hint=2)
    assert "Could the item stand at the target position itself?" not in asked_once


def test_large_logits_are_part_of_the_task():
    def overflows(dloss, h, good, bad):
        up, down = np.exp((h * good).sum(-1)), np.exp((h * bad).sum(-1))
        up, down = ((dloss * slope)[..., None] for slope in (up / (1 + up) - 1, down / (1 + down)))
        return up * good + down * bad, up * h, down * h

    text = told("my_pair_loss_backward", overflows, hint=1)
    assert "right in ordinary cases, wrong in an extreme one." in text
    assert "what is inf / inf?" in text


def test_a_property_that_compares_with_other_peoples_rows_is_refused(monkeypatch):
    monkeypatch.setattr("tinyattn.course.graders.function.EXAMPLES", 15)
    text = told("no_target_is_read", lambda x, t: not np.isin(t[t != 0], x).any(), hint=1)
    assert "May another person have had the same item?" in text


def test_what_an_answer_must_take():
    grader = Function("softmax", takes=("mask",))
    assert grader(ops.softmax).outcome == "right"
    assert grader(lambda s: ops.softmax(s)).says == "it takes no `mask`, which later cells pass by that name."


def bug(spec, name):
    return next(b for b in ZOO[spec].BUGS if b.name == name)


# --- properties ---------------------------------------------------------------------------------------------------


def rows_sum_to_one(attention):
    q, k, v = np.random.default_rng().standard_normal((3, 4, 3))
    return np.allclose(attention(q, k, v)[1].sum(axis=-1), 1)


def columns_sum_to_one(attention):
    q, k, v = np.ones((2, 3)), np.ones((1, 3)), np.ones((1, 1))
    return not np.allclose(attention(q, k, v)[1].sum(axis=-1), 1)


COIN = iter([True, False] * 50)


def a_coin(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 2))
    return np.allclose(attention(q, k, v)[0], ops.attention(q, k, v)[0]) or next(COIN)


def asserts(attention):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(shape) for shape in ((3, 4), (5, 4), (5, 2)))
    assert np.allclose(attention(q, k, v)[0], ops.attention(q, k, v)[0])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (stub, ["not answered yet"]),
        (lambda attention: True, ["it is true of what is right, but of the bug as well", "(no_scale)"]),
        (rows_sum_to_one, ["it is true of what is right, but of the bug as well"]),
        (lambda attention: False, ["it also rejects a correct `attention`: the library's own.", "Is the state"]),
        (columns_sum_to_one, ["it also rejects a correct `attention`", "its last call, of `attention`, was", "q = ["]),
        (lambda attention: None, ["it always returns None, expected True or False. Is the `return` missing?"]),
        (lambda attention: np.ones(2), ["an array of shape (2,) and dtype float64, expected True or False"]),
        (lambda attention: 1 / 0, ["it raises ZeroDivisionError"]),
        (lambda attention: sys.exit(), ["it raises SystemExit"]),
        (lambda a, b: True, ["it raises TypeError"]),
        (a_coin, ["runs only", "it should be false where"]),
        (True, ["True (bool) is no answer here, expected a function"]),
    ],
)
def test_a_property_that_proves_nothing(answer, says):
    text = told("knows_the_scale", answer)
    assert not text.startswith("✓")
    for part in says:
        assert part in text


def test_a_property_may_assert():
    verdict = check("knows_the_scale", asserts)
    assert verdict
    assert str(verdict).startswith("✓ knows_the_scale: right. It is true of what is right, and false where scores are")
    assert "other known bugs" in str(verdict)


def order_changes_no_bit(layer_norm):
    """True of statistics over tokens as well, but for the order in which they are added."""
    x = np.random.default_rng(0).standard_normal((9, 4))
    gamma, beta = np.ones(4), np.zeros(4)
    return np.array_equal(layer_norm(x, gamma, beta)[0][::-1], layer_norm(x[::-1].copy(), gamma, beta)[0])


def test_a_bug_that_shows_in_rounding_only_is_not_found():
    says = find("each_token_alone").grader(order_changes_no_bit).says
    assert "of the bug as well" in says


def rejects_by_bits(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 6, 6))
    return attention(q, k, v)[0][0, 0] == ops.attention(q, k, v)[0][0, 0]


def test_a_comparison_to_the_bit_is_told_of_rounding():
    told_of = [find("knows_the_scale").grader(answer) for answer in (rejects_by_bits, columns_sum_to_one)]
    assert ["np.allclose" in "".join(grade.lines) for grade in told_of] == [True, False]


def test_np_allclose_is_proposed_unless_the_comparison_is_to_the_bit():
    says = [find(name).grader(lambda attention: np.ones(2)).says for name in ("knows_the_scale", "nothing_leaks")]
    assert ["np.allclose" in one for one in says] == [True, False]
    assert all(one.endswith("np.all or bool?") for one in says)


def test_the_bug_is_handed_out_to_try_a_property_on():
    assert not asserting(asserts, buggy("knows_the_scale"))
    assert not asserting(asserts, buggy("knows_the_scale", bug="softmax_axis"))
    forward, backward = buggy("not_fooled_by_ones")
    assert (forward.__name__, backward.__name__) == ("linear", "linear_backward")
    with pytest.raises(ValueError, match=r"has no bug 'nobody'; it has .*no_scale"):
        buggy("knows_the_scale", bug="nobody")
    with pytest.raises(ValueError, match="score_std asks for a number"):
        buggy("score_std")


def asserting(prop, attention):
    try:
        prop(attention)
    except AssertionError:
        return False
    return True


def rows_sum_to_one_with_a_mask(attention):
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 3))
    mask = np.tri(4, dtype=bool)
    p = attention(q, k, v, mask=mask)[1]
    return np.allclose(p[~mask], 0) and np.allclose(p.sum(axis=-1), 1)


def test_a_property_may_have_to_be_true_of_another_bug():
    killing = Property("attention", "mask_after_softmax", gives=("attention",))
    assert killing(rows_sum_to_one_with_a_mask).outcome == "right"
    sparing = Property("attention", "mask_after_softmax", gives=("attention",), true_of=("off_by_one_mask",))
    grade = sparing(rows_sum_to_one_with_a_mask)
    assert grade.outcome == "wrong"
    assert grade.says.startswith("it is also false where the mask is shifted")
    assert "    its last call" not in grade.lines[0]
    assert "its last call, of `attention`, was with" in "".join(grade.lines)


# --- checkers -----------------------------------------------------------------------------------------------------


def test_a_property_that_nan_slips_through_is_asked_about_nan():
    wrong = {answer.__name__: answer for answer, _ in WRONG["shifts_change_nothing"]}
    for name in ("nothing_is_larger", "worst_by_max"):
        assert "What is `nan > tol`" in told("shifts_change_nothing", wrong[name], hint=1)
    assert "How large is your shift?" in told("shifts_change_nothing", wrong["not_far_enough"], hint=1)


def test_rows_of_a_result_stand_below_each_other_where_the_task_has_a_shorter_name():
    lines = str(check("my_attention", lambda q, k, v, mask=None: ops.attention(q, k, v, mask, scale=1.0))).splitlines()
    first = next(i for i, line in enumerate(lines) if "expected  p = [[" in line)
    assert lines[first].index("[[") == lines[first + 1].index("[") - 1
