"""The mark of an answer, which is called here and not in a process of its own."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tinyattn.check.subject import TooLongError
from tinyattn.course.exercise import RIGHT, UNANSWERED, WRONG, Grade
from tinyattn.course.exercises import BY_NAME
from tinyattn.course.graders import function
from tinyattn.course.grading import judge
from tinyattn.course.grading.submission import from_text

NAME = "chance_hit_rate"
ROOM = SimpleNamespace(limits=SimpleNamespace(define=4.0))


class Here:
    """Stands for an `Answer`."""

    def __init__(self, room, text, asked):
        self.text, self.asked = text, asked

    def load(self):
        space = {"slow": TooLongError}
        exec(self.text, space)
        value = eval(self.asked, space)
        return (self if callable(value) else value), "__main__.f"


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.setattr(judge, "Answer", Here)
    monkeypatch.setattr(function, "EXAMPLES", 15)  # whatever another test has left behind


@pytest.mark.parametrize(
    ("cells", "outcome", "says"),
    [
        ([], UNANSWERED, "not handed in"),
        (["chance_hit_rate = ..."], UNANSWERED, "not answered yet"),
        (["chance_hit_rate = (((", "x = 1"], WRONG, "its cell cannot be read: SyntaxError"),
        (["chance_hit_rate = 10 / 42"], RIGHT, "right."),
        (["chance_hit_rate = 10 / 42", "chance_hit_rate = 0.5"], WRONG, "0.5 is too large."),
        (["def f(): raise NotImplementedError", "chance_hit_rate = f()"], UNANSWERED, "not answered yet"),
        (["chance_hit_rate = 1 / 0"], WRONG, "its cells raise ZeroDivisionError: division by zero"),
        (["def f(): raise slow", "chance_hit_rate = f()"], WRONG, "its cells had not ended after 4 seconds."),
    ],
)
def test_a_mark_has_its_points_for_a_right_answer_alone(cells, outcome, says):
    mark = judge.graded(BY_NAME[NAME], [from_text("other.py", ["x = 1"]), from_text("mine.py", cells)], ROOM)
    assert (mark["exercise"], mark["outcome"], mark["of"]) == (NAME, outcome, BY_NAME[NAME].difficulty)
    assert mark["points"] == (BY_NAME[NAME].difficulty if outcome == RIGHT else 0)
    assert mark["verdict"].startswith(says)
    assert mark["file"] == ("" if "not handed" in says or "cannot be read" in says else "mine.py")
    assert (mark["flags"], mark["fingerprint"]) == ([], "")


def asked(text, *grades):
    """The grade of an answer to an exercise whose grader gives these, and the seed and the cases of each call."""
    coming, cases = iter(grades), []

    def grader(value):
        cases.append((function.SEED, function.EXAMPLES))
        return next(coming)

    answer = from_text("x", [f"{NAME} = {text}"]).answer(NAME)
    return judge._grade(replace(BY_NAME[NAME], grader=grader), answer, ROOM), cases


def test_a_right_function_is_asked_again_in_cases_that_nobody_knows():
    right, wrong = Grade(RIGHT, "right."), Grade(WRONG, "wrong shape.")
    known = function.SEED, function.EXAMPLES
    for grades, expected in (
        ((right, right), right),
        ((right, wrong), replace(wrong, says="right in the cases of `check`, and wrong in others: wrong shape.")),
        ((wrong,), wrong),
    ):
        found, cases = asked("lambda x: x", *grades)
        assert found == (expected, "__main__.f")
        assert [examples for _, examples in cases] == [known[1], judge.OTHERS][: len(grades)]
        assert cases[0] == known
        assert all(seed != known[0] for seed, _ in cases[1:])
        assert known == (function.SEED, function.EXAMPLES)
    assert asked("0.5", right) == ((right, "__main__.f"), [known])           # a number has no cases
