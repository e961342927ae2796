"""What a lecturer is pointed to, and how an answer that depends on the order of the calls is known."""

import ast

import numpy as np
import pytest

from tests.course.answers import found
from tinyattn.course.chapters import chapters
from tinyattn.course.exercises import BY_NAME
from tinyattn.course.graders import Checker, Judge, Property
from tinyattn.course.grading.again import GUESSES, guesses
from tinyattn.course.grading.flags import fingerprint, flags_of, library_names
from tinyattn.course.grading.submission import from_text


def flags(name, *cells, module="__main__.f", shown=""):
    source = from_text("x", cells)
    source.shown = shown
    return list(flags_of(BY_NAME[name], source.answer(name), source, module))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["from tinyattn import ops", "my_softmax = ops.softmax"], "uses ops.softmax of the library"),
        (
            ["from tinyattn.ops import softmax as s", "def my_softmax(x): return s(x)"],
            "uses ops.softmax of the library",
        ),
        (["import tinyattn.ops as o", "my_softmax = lambda x: o.softmax(x)"], "uses ops.softmax of the library"),
        (["import tinyattn.ops", "my_softmax = tinyattn.ops.softmax"], "uses ops.softmax of the library"),
        (["from tinyattn.course import yours", "my_softmax = yours('my_softmax')"], "hands in yours('my_softmax')"),
        (["import sys", "def my_softmax(s): return sys._getframe().f_back"], "unusual: f_back, sys"),
        (["def my_softmax(s): return eval('s')"], "unusual: eval"),
        (["my_softmax = 1", "check('my_softmax', my_softmax, hint=2)"], "hint 2"),
        (["my_softmax = 1", "# check('my_softmax', my_softmax, hint=1)"], "hint 1"),
    ],
)
def test_one_flag_each(cells, expected):
    assert flags("my_softmax", *cells) == [expected]


def test_flags_of_the_process_and_of_saved_outputs():
    assert flags("my_softmax", "my_softmax = 1", module="tinyattn.ops.softmax") == ["uses ops.softmax of the library"]
    shown = "✗ my_softmax: wrong\nwhy: so\nthe solution:\n    x = 1"
    assert flags("my_softmax", "my_softmax = 1", shown=shown) == ["hint 3"]


def test_a_solution_uses_nothing_that_is_flagged_but_is_a_copy():
    """Short ones are not compared."""
    for chapter in chapters([1, 4, 9]):
        source = from_text("x", [chapter.solved()])
        for exercise in chapter.exercises:
            answer = source.answer(exercise.name)
            expected = ["the chapter's solution, but for names and layout"] if fingerprint(answer) else []
            assert list(flags_of(exercise, answer, source, "")) == expected, exercise.name


LONG = "def f(a, b):\n    {d}\n    total = a @ b + a.sum(axis=-1) * b.max(axis=0)\n    for i in range(len(a)):\n"
LONG += "        total[i] = total[i] - a[i].mean() / b[i].std()\n    return total, a.T @ total"


def test_equal_but_for_names_docstrings_and_layout():
    def of(text):
        return fingerprint(from_text("x", [text]).answer("f"))

    one = of(LONG.format(d="'''Mine.'''"))
    assert one
    assert one == of(LONG.format(d="# no").replace("total", "result").replace("(a, b)", "(a, b)"))
    assert one != of(LONG.format(d="# no").replace("max", "min"))
    assert of("def f(x):\n    return x / x.sum()") == ""
    assert of("f = 3") == ""


def test_names_of_the_library():
    tree = ast.parse(
        "import numpy as np\nfrom tinyattn import ops\nfrom tinyattn.course import check\nops.a.b(np.c, check)"
    )
    assert set(library_names(tree.body)) == {"tinyattn.ops.a.b", "tinyattn.ops.a"}


def counting(right, of):
    """An answer that knows the order: right until it was called `of` times."""
    calls = [0]

    def answer(*args):
        calls[0] += 1
        return right(*args) if calls[0] > 999 else calls[0] <= of

    return answer


@pytest.mark.parametrize("name", ["knows_the_scale", "later_rows_move_nothing", "my_gradcheck"])
def test_an_answer_that_counts_calls_is_seen_through_and_a_right_one_is_not(name):
    grader, (right, _) = BY_NAME[name].grader, found()
    assert isinstance(grader, Property | Judge | Checker)
    for seed in range(3):
        assert guesses(grader, right[name][0], np.random.default_rng(seed)) == ""
        for wrong in (
            lambda *args: True,
            lambda *args: False,
            lambda *args: 1.0,
            lambda *args: 0.0,
            lambda *args: None,
        ):
            assert guesses(grader, wrong, np.random.default_rng(seed)) == GUESSES


def test_the_usual_order_alone_can_be_guessed():
    """Why right properties are asked again."""
    grader = BY_NAME["knows_the_scale"].grader
    answers = (counting(None, of) for of in range(5, 40, 5))
    outcomes = [grader(answer).outcome for answer in answers]
    assert "right" in outcomes
    assert guesses(grader, counting(None, 5 * (1 + outcomes.index("right"))), np.random.default_rng(0)) == GUESSES
