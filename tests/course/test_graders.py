"""Graders: what each just accepts, how often it asks, what it lends, and which question goes with which answer."""

import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check.zoo import ZOO
from tinyattn.course.checking import find
from tinyattn.course.exercise import RIGHT, UNANSWERED, WRONG, Exercise, Grade, Verdict
from tinyattn.course.graders import Checker, Function, Judge, Number, Property, calling, function
from tinyattn.course.graders import property as graders_property
from tinyattn.course.graders.calling import ONCE_IT_RUNS, TolerantCall, described, run_answer
from tinyattn.course.graders.property import _rounded
from tinyattn.course.graders.words import compared, in_lines

# numbers


@pytest.mark.parametrize(("answer", "right"), [(10.0, True), (10.49, True), (9.51, True), (10.51, False), (9.49, False),
                                               (-10.0, False), (10, True), ([10.0], True)])  # fmt: skip
def test_a_number_may_be_off_by_its_tolerance_and_by_no_more(answer, right):
    assert (Number(lambda: 10.0, tolerance=0.05)(answer).outcome == RIGHT) == right


def test_the_tolerance_of_an_array_is_relative_to_its_largest_entry():
    number = Number(lambda: np.array([100.0, 1.0]), tolerance=0.01)
    assert number([100.9, 0.1]).outcome == RIGHT
    assert number([100.0, 2.1]).outcome == WRONG
    assert "look again at entry [1]" in number([100.5, 9.0]).says
    assert [Number(lambda n=n: np.arange(n))(np.arange(n)).says[28:] for n in (6, 7)] == [
        "0, 1, 2, 3, 4 and 5.", "[0. 1. 2. 3. 4. 5. 6.]."]  # fmt: skip
    negative = Number(lambda: np.array([-100.0, 1.0]), tolerance=0.01)
    assert negative([-100.9, 1.9]).outcome == RIGHT


def test_without_a_tolerance_a_billionth_is_allowed():
    assert Number(lambda: 0.0)(0.9e-9).outcome == RIGHT
    assert Number(lambda: 0.0)(1.1e-9).outcome == WRONG
    assert Number(lambda: 7.0)(7 + 1e-8).outcome == WRONG


def test_exactly_is_without_any_tolerance():
    number = Number(lambda: 12.0, tolerance=0.5, exactly=True)
    assert [number(x).outcome for x in (12, 12.0, 12.0000001, 13)] == [RIGHT, RIGHT, WRONG, WRONG]
    assert number(12.5).says == "12.5 is not a whole number."
    assert Number(lambda: 12 + 1e-10, exactly=True)(12).outcome == RIGHT
    assert Number(lambda: 12.5, exactly=True)(12.5).outcome == RIGHT
    ten = Number(lambda: 10, exactly=True)
    assert ten(1000 ** (1 / 3)).outcome == RIGHT                    # 9.999999999999998
    assert ten(1e3 ** (2 / 3)).says == "100 is too large."          # 99.99999999999997
    assert ten(10.0001).says == "10.0001 is not a whole number."    # and not "10 is not"
    assert Number(lambda: [1, 24], exactly=True)([1, 24.00001]).says == "24.00001 is not a whole number."
    assert Number(lambda: 18874368, exactly=True)(18874368.5).says == "18874368.5 is not a whole number."
    assert Number(lambda: 18874368, exactly=True)(18874367).says == "18,874,367 is too small."
    for rounded, how in ((18_900_000, "large"), (18.87e6, "small"), (18_874_000, "small")):
        says = Number(lambda: 18874368, exactly=True)(rounded).says
        assert says == f"{rounded:,.0f} is too {how}, as it is rounded: all digits are asked for."
    assert Number(lambda: 430, exactly=True)(400).says == "400 is too small."          # by more than rounding
    assert Number(lambda: -5, exactly=True, computed="It is {}.")(-5.0).says == "right. It is -5."


def test_a_tempting_number_has_its_question_and_its_diagnosis_within_the_same_tolerance():
    number = Number(lambda: 10.0, 0.01, tempting=((20.0, "Twice?", "It is doubled."), (5.0, "Half?")))
    assert (number(20.1).question, number(20.1).diagnosis) == ("Twice?", "It is doubled.")
    assert (number(5.0).question, number(5.0).diagnosis) == ("Half?", "")
    for answer in (20.3, 5.1, 7.0, -20.0):
        assert (number(answer).question, number(answer).diagnosis) == ("", "")
    assert number(10.0).outcome == RIGHT
    assert number(10.0).question == ""


def test_a_number_of_another_shape_or_kind_is_no_answer():
    turned = Number(lambda: np.ones((2, 3)))(np.ones((3, 2)))
    assert turned.says == "wrong shape: (3, 2), expected numbers of shape (2, 3)"
    number = Number(lambda: np.array([1.0, 2.0]))
    for answer, says in ((3.0, "one number, expected 2."), ([1.0, 2.0, 3.0], "3 numbers, expected 2."),
                         ("1", "'1' (str) is no answer here, expected 2 numbers"), (True, "True (bool) is no answer"),
                         ([np.nan, 2.0], "is not finite"), ([[1.0], [2.0]], "wrong shape: (2, 1)")):  # fmt: skip
        grade = number(answer)
        assert grade.outcome == WRONG
        assert says in grade.says


def test_fractions_and_decimals_are_numbers_alone_and_in_a_list():
    assert Number(lambda: 0.8)(Decimal("0.8")).outcome == RIGHT
    assert Number(lambda: np.array([0.5, 1.0]))([Fraction(1, 2), Decimal(1)]).outcome == RIGHT
    assert Number(lambda: 0.5)(Fraction(1, 2)).outcome == RIGHT
    assert Number(lambda: np.array([0.5, 1.0]))([Fraction(1, 2), 1]).outcome == RIGHT
    assert Number(lambda: np.array([0.5, 1.0]))([Fraction(1, 2), None]).outcome == WRONG


# properties, and what is judged by them


class Counted:
    """A property that counts how often it is asked of each function."""

    def __init__(self, holds):
        self.holds, self.asked = holds, []

    def __call__(self, *functions):
        self.asked.append(functions[0])
        return self.holds(functions[0], len(self.asked))


def double(x):
    return 2 * x


def triple(x):
    return 3 * x


TWICE = (double, "twice", "Is twice right?", "It is.")
LISTED = (TWICE,), ((triple, "three times", "Is 3 x = 2 x?", "No."),)     # right, wrong


def is_double(f):
    return f(2) == 4


def test_a_judge_asks_three_times_of_each_function():
    counted = Counted(lambda f, n: is_double(f))
    grade = Judge(is_double, (TWICE, TWICE), LISTED[1])(counted)
    assert grade.outcome == RIGHT
    assert grade.says == "right. It is true of 2 that are right, and false of 1 that is wrong."
    assert counted.asked == [double] * 6 + [triple] * 3


@pytest.mark.parametrize("lucky", [1, 2, 3])
def test_a_judge_is_not_taken_in_by_luck(lucky):
    """A property that finds the wrong function in two of three runs, or rejects the right one in one of three."""
    missed = Counted(lambda f, n: is_double(f) or n == 3 + lucky)
    grade = Judge(is_double, *LISTED)(missed)
    assert (grade.says, grade.question, grade.diagnosis) == ("it is true of what is wrong.", "Is 3 x = 2 x?", "No.")
    assert grade.lines == ("  three times",)
    rejected = Counted(lambda f, n: is_double(f) and n != lucky)
    grade = Judge(is_double, *LISTED)(rejected)
    assert (grade.says, grade.question) == ("it is false of what is right.", "Is twice right?")


def test_a_judge_passes_more_arguments_and_its_reference_is_the_librarys():
    judge = Judge(lambda f, at, value: f(at) == value, *LISTED, more=(2, 4))
    assert judge(lambda f, at, value: f(at) == value).outcome == RIGHT
    assert judge.reference() is judge.holds
    assert judge(lambda f, at, value: None).says.startswith("it always returns None")
    expected = "expected True or False. Did you mean to wrap the result in np.all or bool?"
    assert judge(lambda f, at, value: 1).says == f"it returns 1 (int), {expected}"
    for truth in (np.bool_, np.array):
        assert judge(lambda f, at, value, truth=truth: truth(f(at) == value)).outcome == RIGHT
    assert judge(3).says == "3 (int) is no answer here, expected a function"

    def asserts(f, at, value):
        assert f(at) == value

    assert judge(asserts).outcome == RIGHT
    assert judge(lambda f: True).says.startswith("it raises TypeError")
    wrapped = judge.wrapped(asserts)
    assert (wrapped(double, 2, 4), wrapped(triple, 2, 4)) == (True, False)
    assert judge.wrapped(lambda *a: 0)(double) is False


def test_a_property_is_asked_five_times_of_what_is_right_and_of_the_bug(monkeypatch):
    assert graders_property.RUNS == 5
    asked = []

    def sums_to_one(softmax):
        asked.append(1)
        return np.allclose(softmax(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum(axis=-1), 1)

    grader = Property("softmax", "axis", ("softmax",))
    assert grader(sums_to_one).outcome == RIGHT
    conventions = sum(bug.convention for bug in ZOO["softmax"].BUGS)
    others = sum(not bug.convention for bug in ZOO["softmax"].BUGS) - 1
    assert len(asked) == 5 * (2 + conventions) + 2 * 5 + others
    calls = []

    def unlucky(softmax):
        calls.append(1)
        return len(calls) != 5 and sums_to_one(softmax)

    assert grader(unlucky).says.startswith("it also rejects a correct `softmax`: the library's own")
    seen = []

    def at_times(softmax):
        holds = sums_to_one(softmax)
        seen.append(holds)
        return holds or seen.count(False) == 4

    assert grader(at_times).says == "it finds the bug in 9 of 10 runs only."


def test_a_property_that_misses_another_bug_is_told_which():
    hides, leaks = "mask_after_softmax", "off_by_one_peek"
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 3))

    def scaled(attention):
        return np.allclose(attention(q, k, v)[0], ops.attention(q, k, v)[0])

    grade = Property("attention", "no_scale", ("attention",), others=("scale_d", hides, leaks))(scaled)
    assert grade.says == "it finds no_scale, as it should, but another bug passes it."

    def raises(attention):
        return scaled(attention) or 1 / 0

    grader = Property("attention", "no_scale", ("attention",))
    assert grader(raises).says == "where the bug is, it raises ZeroDivisionError: division by zero"
    [bug] = (bug for bug in ZOO["attention"].BUGS if bug.name == hides)
    assert (grade.lines, grade.question) == ((f"  it should be false, too, where {bug.says} ({hides})",), bug.hint)


# checkers of gradients


def square(x):
    return x**2


RIGHT_PAIR = ((square, lambda dy, x: 2 * x * dy, (3, 4)), "x²", "What is (x²)'?")
WRONG_PAIR = ((square, lambda dy, x: x * dy, (3, 4)), "x², wrong", "Half of it?", "The 2.")


def test_a_checker_has_errors_below_and_above_its_limits():
    grader = Checker(lambda *a: 0.0, (RIGHT_PAIR, RIGHT_PAIR), (WRONG_PAIR,))
    inputs = []

    def of(right, wrong):
        def answer(f, f_backward, x):
            inputs.append(x)
            return right if np.array_equal(f_backward(np.ones_like(x), x), 2 * x) else wrong

        return grader(answer)

    says = "right. It accepts all 2 correct backward functions and rejects all 1 wrong ones."
    assert (of(0.9e-4, 1.1e-3).outcome, of(0.9e-4, 1.1e-3).says) == (RIGHT, says)
    assert len(inputs) == 2 * 9
    assert all(x.shape == (3, 4) for x in inputs)
    assert len({x.tobytes() for x in inputs}) == 3
    assert of(1.1e-4, 1.1e-3).says == "it rejects a correct backward."
    wrong = of(0.9e-4, 0.9e-3)
    assert (wrong.says, wrong.question, wrong.diagnosis) == ("it accepts a wrong backward.", "Half of it?", "The 2.")
    assert "an error above 0.001" in wrong.lines[1]
    signed = of(-1e-9, 1.0)
    assert signed.says == "it returns a negative error."
    assert "|a - b|" in signed.question
    assert of(np.nan, 1.0).says == "it rejects a correct backward."
    assert of(0.0, np.nan).says == "it accepts a wrong backward."
    assert of(None, 1.0).says.startswith("it returned None")
    assert "expected the relative error, one number" in of(np.zeros(2), 1.0).says
    assert of(np.zeros((1, 1)), np.array([1.0])).outcome == RIGHT


# functions


def test_a_function_is_accepted_refused_and_asked_as_often_as_it_says(monkeypatch):
    assert (function.EXAMPLES, function.ALIKE) == (15, 30)
    monkeypatch.setattr(function, "EXAMPLES", 2)
    doubled = (lambda x: 2 * ops.relu(x), "Twice?", "It is doubled.")
    grader = Function("relu", tempting=(doubled,), conventions=False)
    assert grader(lambda x: x * (x > 0)).outcome == RIGHT
    twice = grader(lambda x: 2 * np.maximum(x, 0))
    assert (twice.outcome, twice.question, twice.diagnosis) == (WRONG, "Twice?", "It is doubled.")
    assert grader(lambda x: 2.0001 * np.maximum(x, 0)).question != "Twice?"
    backward = Function("relu", part="backward")
    assert backward(lambda dy, x: dy * (x > 0)).outcome == RIGHT
    assert backward(lambda dy, x: dy * (x < 0)).outcome == WRONG

    def stub(x):
        raise NotImplementedError

    assert grader(stub).outcome == UNANSWERED


def test_an_accepted_function_gets_copies_and_keeps_the_dtype():
    def answer(x, more=None):
        x[...] = 0
        if more is not None:
            more[0][...] = 1
        return [1.5, 2.0]

    tolerant = TolerantCall(answer, 1, lambda x, more=None: x)
    x, more = np.array([1.0, 2.0], "f4"), [np.zeros(2, "f4")]
    y = tolerant.call(x, more=more)
    np.testing.assert_array_equal(x, [1, 2])
    np.testing.assert_array_equal(more[0], 0)
    assert (y.dtype, y.tolist()) == (np.float32, [1.5, 2.0])
    assert tolerant.remarks == {"writes", "list"}
    wide = TolerantCall(lambda x: x.astype(float), 1, lambda x: x)
    narrow = TolerantCall(lambda x: x.astype("f4"), 1, lambda x: x)
    assert (wide.call(x).dtype, narrow.call(x.astype(float)).dtype) == (np.float32, np.float64)
    assert (wide.remarks, wide.narrow) == ({"dtype"}, "")
    assert (narrow.remarks, narrow.narrow) == (set(), "float64 in, float32 out")
    whole = TolerantCall(lambda x: x * 1.0, 1, lambda x: x.astype(int))
    assert whole.call(x).dtype == int
    assert whole.remarks == {"floats"}
    assert TolerantCall(lambda x: x + 0.5, 1, lambda x: x.astype(int)).call(x).tolist() == [1.5, 2.5]
    truth = TolerantCall(lambda x: (x > 1).astype(int), 1, lambda x: x > 1)
    assert (truth.call(x).tolist(), truth.remarks) == ([False, True], {"numbers"})
    pair = TolerantCall(lambda x: np.stack([x, 2 * x]), 2, lambda x: (x, 2 * x))
    assert [part.tolist() for part in pair.call(x)] == [[1, 2], [2, 4]]
    assert TolerantCall(lambda x: (x,), 1, lambda x: x).call(x).tolist() == [1, 2]
    named = TolerantCall(lambda x: {"db": 2 * x, "da": x}, 2, lambda x: (x, 2 * x), ("a", "b"))
    assert [part.tolist() for part in named.call(x)] == [[1, 2], [2, 4]]
    assert TolerantCall(lambda x: None, 1, lambda x: x).call(x) is None
    longer = TolerantCall(lambda s: s.append(1) or 2.0, 1, lambda s: 2.0)
    assert (longer.call([]), longer.remarks) == (2.0, {"writes"})


def test_an_answer_is_called_in_silence_and_its_errors_are_grades(capsys, monkeypatch):
    def prints(x):
        print("hello")
        return x / 0

    grade = run_answer(prints, 1)
    assert (grade.outcome, grade.says) == (WRONG, "it raises ZeroDivisionError: division by zero")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(calling, "PATIENCE", 0.05)
    assert run_answer(lambda: time.sleep(60)).says == "it had not returned after 0.05 seconds."
    assert run_answer(lambda x: np.ones(2) / np.zeros(2), 1).tolist() == [np.inf, np.inf]
    asserts = lambda: (_ for _ in ()).throw(AssertionError("mine"))  # noqa: E731
    assert run_answer(asserts).says == "it raises AssertionError: mine"
    with pytest.raises(AssertionError, match="mine"):
        run_answer(asserts, may_assert=True)
    assert described(np.zeros((2, 3), "f4")) == "an array of shape (2, 3) and dtype float32"
    assert described(double) == "the function `double`"


# hints


def exercise(**options):
    hints = ("Which axis?", "Sum over the last.")
    return Exercise("one", "write the op", 2, 5, "Write it.", None, hints, **{"why": "Because."} | options)


def test_hints_come_one_after_the_other_and_the_answers_own_question_first():
    grade = Grade(WRONG, "wrong shape.", ("  got 3",), question="", diagnosis="")
    said = [str(Verdict(exercise(), grade, hint, "def one(): ...")) for hint in range(3)]
    parts = ("question: Which axis?", "diagnosis: Sum over the last.", "why: Because.")
    assert [[part in text for part in parts] for text in said] == [
        [False, False, False], [True, False, False], [True, True, False]]  # fmt: skip
    for hint, offer in enumerate(("a question that leads", "the diagnosis", "the solution")):
        assert f'for {offer}: check("one", one, hint={hint + 1})' in said[hint]
    whole = str(Verdict(exercise(), grade, 3, "def one(): ..."))
    assert all(part in whole for part in parts)
    assert "hint=" not in whole
    own = Grade(WRONG, "wrong.", question="Look at it.", diagnosis="It is turned.")
    text = str(Verdict(exercise(), own, 2))
    assert "consider: Look at it." in text
    assert "diagnosis: It is turned. Sum over the last." in text
    assert "Which axis?" not in text


def test_a_right_answer_has_no_hints_and_is_true():
    right = Verdict(exercise(), Grade(RIGHT, "right.", note="It writes."), 0)
    assert right
    assert str(right) == "✓ one: right.\n  It writes."
    assert not Verdict(exercise(), Grade(WRONG, "wrong."))
    unanswered = str(Verdict(exercise(), Grade(UNANSWERED, "not answered yet")))
    assert unanswered.startswith("· one: not answered yet\n  Write it. (write the op, ★★☆, 5 min)")


@pytest.mark.parametrize(("name", "value"), [("sort", "guess"), ("difficulty", 0), ("difficulty", 4), ("minutes", 0),
                                             ("name", "no name")])  # fmt: skip
def test_an_exercise_that_says_nonsense_is_refused(name, value):
    given = {"name": "one", "sort": "write the op", "difficulty": 1, "minutes": 1}
    Exercise(**given, task="", grader=None, hints=("", ""))
    with pytest.raises(ValueError, match=str(value)):
        Exercise(**given | {name: value}, task="", grader=None, hints=("", ""))


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("worst", [1.0, np.nan])
def test_a_checker_is_judged_by_the_worst_of_its_inputs(place, worst):
    """Wherever it stands among them: a fault that one input alone shows counts."""
    asked = []

    def on_one(f, f_backward, x):
        asked.append(1)
        return worst if (len(asked) - 1) % 3 == place else 0.0

    assert "rejects a correct backward" in Checker(on_one, (RIGHT_PAIR,), ())(on_one).says
    asked.clear()
    assert (Checker(on_one, (), (WRONG_PAIR,))(on_one).outcome == RIGHT) == (worst == 1)


THIRD = np.array([1 / 3])


def test_numbers_are_shown_with_six_digits_where_those_differ():
    assert list(compared("x", THIRD, {"x": THIRD * 2})) == [
        "expected  x = [0.333333]   float64 (1,)", "got       x = [0.666667]   float64 (1,)"
    ]  # fmt: skip
    assert list(compared("x", THIRD, {"x": np.array([0.33333333])})) == [
        "expected  x = [0.333333333]   float64 (1,)", "got       x = [0.33333333]   float64 (1,)"
    ]  # fmt: skip


def test_numpys_numbers_are_shown_as_numbers():
    given = {"x": np.float64(0.5), "y": [np.int64(2), 3.0], "z": np.array(7)}
    assert in_lines(given) == ["x = 0.5", "y = [2, 3.0]", "z = 7"]
    assert [in_lines({"x": np.zeros(n)})[0][:3] for n in (60, 61)] == ["x =", "x: "]


def test_only_floats_are_rounded():
    assert _rounded((1 / 3, "a", None, 2)) == (0.333333333, "a", None, 2)
    assert _rounded(np.array(["a"]))[0] == "a"


def test_only_a_property_that_never_returns_is_told_that_it_returns_nothing():
    def some(f):
        return True if is_double(f) else None

    assert Judge(is_double, *LISTED)(some).says == "it is true of what is wrong."
    assert "it always returns None" in Judge(is_double, *LISTED)(lambda f: None).says


class Elsewhere:
    """A result that NumPy cannot read, as a tensor on a graphics card."""

    def __array__(self, *args, **kwargs):
        raise TypeError("no array of this")


@pytest.mark.parametrize("name", ["score_std", "my_gradcheck", "my_softmax_backward", "knows_the_scale"])
def test_a_result_that_numpy_cannot_read_gets_a_verdict(name):
    for result in (Elsewhere(), [Elsewhere()]):
        assert find(name).grader(result if name == "score_std" else lambda *args, r=result: r).outcome == "wrong"


def test_a_tuple_is_no_array():
    grade = find("to_heads").grader(lambda x, W, heads: (find("to_heads").grader.reference()(x, W, heads), "junk"))
    assert (grade.outcome, grade.says) == ("wrong", "it returns a tuple; the task asks for one array.")


@pytest.mark.slow(seconds=2)
def test_a_size_from_another_cell_is_asked_about(monkeypatch):
    monkeypatch.setattr(function, "EXAMPLES", 2)
    space = {"np": np, "softmax": ops.softmax, "d": 16}
    exec("def f(q, k, v):\n    p = softmax(q @ k.swapaxes(-1, -2) / d**0.5)\n    return p @ v, p\n", space)
    assert "takes `d = 16` from another cell" in find("my_attention").grader(space["f"]).question


def test_what_raises_gets_no_diagnosis_of_numbers():
    def raises(f, f_backward, x):
        return 1 / 0

    assert find("my_gradcheck").grader(raises).diagnosis == ONCE_IT_RUNS
    assert find("my_softmax_backward").grader(lambda dp, p: 1 / 0).diagnosis == ONCE_IT_RUNS


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("best_of_twenty", (0.036, 0.0366, 0.0362), (0.0319, 0.038, 0.0387)), ("held_state", (1.45, 1.448), (1.42, 1.44))],
)
def test_wrong_reasoning_is_not_near_enough(name, right, wrong):
    assert [find(name).grader(x).outcome for x in (*right, *wrong)] == ["right"] * len(right) + ["wrong"] * len(wrong)


def test_what_yours_lends_is_a_right_answer():
    grader = find("my_linear_attention").grader
    assert grader(grader.reference()).outcome == RIGHT


def test_a_notebook_shows_a_misspelt_exercise_in_one_line():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    shell.run_cell("from tinyattn.course import check")
    with pytest.MonkeyPatch.context() as patch:
        shown = []
        patch.setattr(shell, "_showtraceback", lambda kind, value, lines: shown.extend(lines))
        shell.run_cell("check('my_sofmax', 1)")
    assert shown == ["no exercise is called 'my_sofmax'; near: my_softmax, my_online_softmax, my_masked_softmax"]
