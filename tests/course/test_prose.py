"""What exercises say, in files beside the chapters: what has no counterpart in the chapter's code is refused."""

import pytest

from tinyattn.course import prose
from tinyattn.course.exercises import BY_CHAPTER
from tinyattn.course.graders import Function, Number
from tinyattn.course.plain import Changes
from tinyattn.course.prose import Prose, folder

SMALL = """
[one]
sort = "write the op"
difficulty = 1
minutes = 2
task = "one(x)"
hints = ["What is 1?", "It is 1."]
why = "Because."

[one.mistakes]
zero = ["Is it 0?"]
two = ["Is it 2?", "It is 1."]

[mistakes]
three = ["Is it 3?"]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    (tmp_path / "exercises").mkdir()
    monkeypatch.setattr(prose, "folder", lambda: tmp_path)

    def at(text):
        (tmp_path / "exercises" / "03.toml").write_text(text, encoding="utf-8")
        return Prose(3)

    return at


def test_functions_get_their_strings_and_exercises_their_graders(write):
    small = write(SMALL)
    assert small.attach("one.mistakes", two=2, zero=0) == ((2, "Is it 2?", "It is 1."), (0, "Is it 0?"))
    assert small.attach("mistakes", three=3) == ((3, "Is it 3?"),)
    (one,) = small.exercises(one=len)
    assert (one.name, one.sort, one.task, one.grader) == ("one", "write the op", "one(x)", len)
    assert one.hints == ("What is 1?", "It is 1.")


@pytest.mark.parametrize(
    ("text", "mistakes", "graders", "says"),
    [
        (SMALL, ("zero",), ("one",), r"\[one.mistakes\] has two, but the chapter has no function of that name"),
        (SMALL, ("zero", "two", "four"), ("one",), r"\[one.mistakes\] has no four, but the chapter has a function"),
        (SMALL.replace('["Is it 0?"]', '"Is it 0?"'), ("zero",), (), r"\[one.mistakes\] zero is 'Is it 0\?', expected"),
        (SMALL.replace('["Is it 0?"]', '["Is it 0?", 0]'), ("zero",), (), r"zero is \['Is it 0\?', 0\], expected"),
        (SMALL, ("zero", "two"), (), r"\[one\] has no grader in the chapter"),
        (SMALL, ("zero", "two"), ("one", "another"), r"the chapter's grader of another has no \[another\]"),
        (SMALL.replace("why", "because"), ("zero", "two"), ("one",), r"\[one\] has because, .*; \[one\] has no why"),
        (SMALL.replace("[one]", "[one"), (), (), r"at line 2"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_file_and_key(text, mistakes, graders, says, write):
    def chapter():
        small = write(text)
        small.attach("one.mistakes", **dict.fromkeys(mistakes, len))
        small.attach("mistakes", three=len)
        return small.exercises(**dict.fromkeys(graders, len))

    with pytest.raises(ValueError, match=rf"exercises.03\.toml: .*{says}"):
        chapter()


def test_a_number_gets_the_wrong_numbers_of_its_table_and_what_is_no_number_is_refused(write):
    numbers = SMALL.replace('["Is it 0?"]', '[0, "Is it 0?"]').replace('["Is it 2?"', '[[2, 2.5], "Is it 2?"')
    assert numbers != SMALL
    (one,) = write(numbers.partition("[mistakes]")[0]).exercises(one=Number(lambda: 1))
    assert one.grader.tempting == ((0, "Is it 0?"), ([2, 2.5], "Is it 2?", "It is 1."))
    with pytest.raises(ValueError, match=r"\[one.mistakes\] zero is \['Is it 0\?'\], expected a number and strings"):
        write(SMALL).exercises(one=Number(lambda: 1))


def doubled(x):
    y = 2 * x
    return y + 1


def test_a_function_is_the_right_one_with_the_change_that_begins_its_list(write):
    text = SMALL.replace('zero = ["Is', 'zero = ["2 * x -> 0 * x && y + 1 -> y", "Is')
    small = write(text)
    (zero, *words), (two, *_) = small.attach("one.mistakes", doubled, two=len)
    assert (zero(3), zero.__name__, words, two) == (0, "doubled", ["Is it 0?"], len)
    (one,) = write(text.partition("[mistakes]")[0]).exercises(one=Function("relu", tempting=Changes(doubled, two=len)))
    assert [f(()) for f, *_ in one.grader.tempting[1:]] == [0]


@pytest.mark.parametrize(
    ("change", "says"),
    [("3 * x -> x", r"zero: doubled has no '3 \* x', which becomes 'x'"), ("2 * x -> 2 *", "zero: invalid syntax"),
     ("2 * x -> x -> y", "zero: too many values")],
)  # fmt: skip
def test_a_change_of_other_code_is_refused_with_file_and_key(change, says, write):
    with pytest.raises(ValueError, match=rf"03.toml: \[one.mistakes\] {says}"):
        write(SMALL.replace('zero = [', f'zero = ["{change}", ')).attach("one.mistakes", doubled, two=len)


def test_every_chapter_has_its_file():
    assert sorted(path.name for path in (folder() / "exercises").iterdir()) == [f"{n:02}.toml" for n in BY_CHAPTER]


def test_a_diagnosis_says_that_it_is_of_the_answer():
    """Without "Yours: " a learner reads it as an instruction."""
    for number in BY_CHAPTER:
        for table, mistakes in Prose(number).strings.items():
            for name, row in mistakes.items() if table.endswith("mistakes") else ():
                _, *diagnoses = [part for part in row if isinstance(part, str) and " -> " not in part]
                assert all(text.startswith("Yours: ") for text in diagnoses), (number, table, name)
