"""`tinyattn course build --for instructor`."""

import json

import pytest

from tinyattn.course.chapters import chapters
from tinyattn.course.instructor import notes
from tinyattn.course.notebook import build


def sources(path):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]


@pytest.mark.parametrize("number", [1, 9, 15])
def test_every_exercise_has_a_note_below_its_check(number, tmp_path):
    (chapter,) = chapters([number])
    cells = sources(build([chapter], tmp_path, instructor=True)[0])
    for exercise in chapter.exercises:
        at = next(i for i, cell in enumerate(cells) if cell.startswith(f'check("{exercise.name}"'))
        note = cells[at + 1]
        assert note.startswith(f"**For the instructor: `{exercise.name}`** ({exercise.sort}, ")
        assert f"; {exercise.difficulty} point{'s' * (exercise.difficulty > 1)} if right)" in note
        assert "\n\nRight is " in note
        assert all(hint in note for hint in exercise.hints)
        assert note.endswith(exercise.why)
    assert not any("NotImplementedError" in cell for cell in cells)


def test_notes_have_the_mistakes_of_the_chapters_file():
    (chapter,) = chapters([4])
    made = notes(chapter)
    assert "- first use only: How many times does the forward use W? Yours: dW" in made["repaired_tied_backward"]
    assert "- 6: db_k is the sum of dk over six keys." in made["key_bias_gradient"]
    assert "Right is 0 (within 1e-06 of its size)." in made["key_bias_gradient"]
    assert "Right is the gradients of this: y = (x W) Wᵀ." in made["repaired_tied_backward"]
    assert "false where dk is not multiplied by the scale; dq" in made["same_for_keys_and_queries"]


def test_a_students_notebook_has_none(tmp_path):
    assert "For the instructor" not in "".join(sources(build(chapters([1]), tmp_path)[0]))
