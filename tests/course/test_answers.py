"""Right answers are accepted in every style; wrong ones are refused, and no bug is named that is not there.

`python benchmarks/course.py` tries every answer; here one wrong answer in four has to do, a second or two each.
"""

import pytest

from tests.course.answers import found, title
from tinyattn.course.checking import find
from tinyattn.course.exercises import BY_CHAPTER, BY_NAME
from tinyattn.course.graders import Number

RIGHT, WRONG = found()
TEMPTED = [e.name for n in (10, 11, 12, 13, 15, 17) for e in BY_CHAPTER[n] if getattr(e.grader, "tempting", ())]
CODE = sorted(name for name, exercise in BY_NAME.items() if not isinstance(exercise.grader, Number))


def test_every_exercise_that_asks_for_code_has_answers():
    assert sorted(RIGHT) == sorted(WRONG) == CODE
    assert [name for name in CODE if len(RIGHT[name]) < 5] == []
    assert [name for name in CODE if len(WRONG[name]) < 10] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_right_answers_are_right(name):
    grades = {title(answer): find(name).grader(answer) for answer in RIGHT[name]}
    assert {answer: grade for answer, grade in grades.items() if grade.outcome != "right"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_wrong_answers_are_wrong(name):
    for answer, bug in WRONG[name][::4]:
        grade = find(name).grader(answer)
        assert grade.outcome == "wrong", title(answer)
        assert not grade.named or bug in grade.named, (title(answer), grade.named)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CODE if name in TEMPTED])
def test_what_tempts_readers_meets_a_question_of_its_own(name):
    grader = find(name).grader
    for wrong, question, *_ in grader.tempting[-1::-4]:                         # the last is among them
        assert grader(wrong).question == question
