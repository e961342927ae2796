"""Right answers are accepted in every style; wrong ones are refused, and no bug is named that is not there.

`python benchmarks/course.py` tries every answer; here one wrong answer in eight has to do, a second or two each. What
is not slow compares answers with the library's on a few cases, without the properties.
"""

from types import SimpleNamespace

import pytest

from tests.course.answers import found, title
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.comparing import same_numbers
from tinyattn.check.observing import observe_call
from tinyattn.check.subject import Subject
from tinyattn.course.checking import find
from tinyattn.course.exercises import BY_CHAPTER, BY_NAME
from tinyattn.course.graders import Function, Number, Property, function

RIGHT, WRONG = found()
TEMPTED = [e.name for n in (10, 11, 12, 13, 14, 15, 17, 19, 21, 22, 23) for e in BY_CHAPTER[n]
           if getattr(e.grader, "tempting", ())]  # fmt: skip
CODE = sorted(name for name, exercise in BY_NAME.items() if not isinstance(exercise.grader, Number))
UNEQUAL = ("repaired_model", "repaired_benchmark")  # right answers differ from each other
FUNCTIONS = [name for name in CODE if isinstance(find(name).grader, Function) and name not in UNEQUAL]
EXTREME = {"my_pair_loss_backward": 2} | dict.fromkeys(
    ("my_cloze_backward", "my_online_softmax", "my_tile_gradients", "my_clip_factor", "my_newton_schulz",
     "my_chunked_loss", "my_bpr_backward"), 1
)


def gives_the_librarys(grader, answer, seed):
    """Whether an answer's results, or gradients, are the library's for one case."""
    spec = grader.known
    forward = {spec.function: grader.forward or getattr(spec.ours(), spec.function)}
    op, ours = (Subject(SimpleNamespace(**forward | {grader.function: grader.wrapped(f)}), spec)
                for f in (answer, grader.reference()))  # fmt: skip
    case = op.fit(spec.case(CaseDrawer.seeded(seed)))
    got, expected = (function._numbers(observe_call(one, spec, case)) for one in (op, ours))
    return expected and got.keys() == expected.keys() and all(same_numbers(x, got[n]) for n, x in expected.items())


@pytest.mark.parametrize("name", CODE)
def test_a_right_answer_has_every_property_in_few_examples(name, monkeypatch):
    monkeypatch.setattr(function, "EXAMPLES", 3)
    grader = find(name).grader
    others = [] if isinstance(grader, Function | Property) else [grader.reference()]
    assert [grade for grade in map(grader, [RIGHT[name][1], *others]) if grade.outcome != "right"] == []


@pytest.mark.parametrize("name", [name for name in CODE if not isinstance(find(name).grader, Function)])
def test_properties_and_checkers_that_are_wrong_are_refused(name):
    assert [title(answer) for answer, _ in WRONG[name][::2] if find(name).grader(answer).outcome != "wrong"] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_answers_give_what_the_library_gives(name):
    grader = find(name).grader
    assert [title(f) for f in RIGHT[name] for seed in range(3) if not gives_the_librarys(grader, f, seed)] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mistake_that_is_listed_shows_in_some_case(name):
    """All but those that only large logits show."""
    grader = find(name).grader
    unseen = [q for f, q, *_ in grader.tempting if all(gives_the_librarys(grader, f, seed) for seed in range(15))]
    assert len(unseen) == EXTREME.get(name, 0), unseen


def test_every_exercise_that_asks_for_code_has_answers():
    assert sorted(RIGHT) == sorted(WRONG) == CODE
    assert [name for name in CODE if len(RIGHT[name]) < 8] == []
    assert [name for name in CODE if len(WRONG[name]) < 15] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_right_answers_are_right(name):
    grades = {title(answer): find(name).grader(answer) for answer in RIGHT[name]}
    assert {answer: grade for answer, grade in grades.items() if grade.outcome != "right"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_wrong_answers_are_wrong(name):
    for answer, bug in WRONG[name][::8]:
        grade = find(name).grader(answer)
        assert grade.outcome == "wrong", title(answer)
        assert not grade.named or bug in grade.named, (title(answer), grade.named)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CODE if name in TEMPTED])
def test_what_tempts_readers_meets_a_question_of_its_own(name):
    grader = find(name).grader
    for wrong, question, *_ in grader.tempting[-1::-4]:                         # the last is among them
        assert grader(wrong).question == question
