"""`tinyattn course status`: verdicts as they were saved, and nothing executed."""

import json
import os

import pytest

from tinyattn.cli import main
from tinyattn.course import check
from tinyattn.course.chapters import chapters
from tinyattn.course.status import progress


def notebook(*saved, stream=False):
    """A notebook with a cell for each pair of an exercise's name and the text that its check left."""
    cells = [{"cell_type": "markdown", "source": "✓ score_std: in a text"}]
    for name, said in saved:
        output = {"output_type": "stream", "name": "stdout", "text": [said + "\n"]}
        if not stream:
            output = {"output_type": "execute_result", "data": {"text/plain": said.splitlines(keepends=True)}}
        cells.append({"cell_type": "code", "source": [f'check("{name}", {name})'], "outputs": [output] if said else []})
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})


def states(folder):
    found, problems = progress(folder, chapters())
    return {name: state for each in found for name, state in each.exercises.items()}, problems


@pytest.mark.slow(seconds=1)
def test_solved_tried_and_untouched(tmp_path):
    right, wrong = str(check("score_std", 16)), str(check("my_attention", lambda q, k, v: q, hint=2))
    (tmp_path / "a.ipynb").write_text(notebook(("score_std", right), ("my_attention", wrong), ("nine_tenths", "")))
    (tmp_path / "b.ipynb").write_text(notebook(("zero_query", "· zero_query: not answered yet"), stream=True))
    known, problems = states(tmp_path)
    assert problems == []
    assert known["score_std"] == "solved"
    assert known["my_attention"] == "tried"
    assert set(known.values()) == {"solved", "tried", "untouched"}
    assert known["nine_tenths"] == known["zero_query"] == "untouched"


@pytest.mark.parametrize("order", [1, -1])
def test_the_best_of_several_verdicts_counts(tmp_path, order):
    saved = [("score_std", "✓ score_std: right."), ("score_std", "✗ score_std: 3 is too small.")]
    (tmp_path / "a.ipynb").write_text(notebook(*saved[::order], stream=True))
    assert states(tmp_path)[0]["score_std"] == "solved"


def test_time_left_is_that_of_what_is_not_solved(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(("score_std", "✓ score_std: right.")))
    chapter = next(c for c in chapters() if any(e.name == "score_std" for e in c.exercises))
    [found], _ = progress(tmp_path, [chapter])
    assert found.minutes_left == sum(e.minutes for e in chapter.exercises if e.name != "score_std")
    other = next(e.name for e in chapter.exercises if e.name != "score_std")
    (tmp_path / "a.ipynb").write_text(notebook(("score_std", "✓ score_std: right."), (other, f"✗ {other}: no.")))
    assert progress(tmp_path, [chapter])[0][0].minutes_left == found.minutes_left            # tried is not solved
    (tmp_path / "a.ipynb").write_text(notebook(("score_std", "")))
    [found], _ = progress(tmp_path, [chapter])
    assert found.minutes_left == chapter.size().minutes


def test_the_command_tells_it(tmp_path, capsys):
    saved = [("score_std", "✓ score_std: right."), ("my_attention", "✗ my_attention: wrong shape.")]
    (tmp_path / "a.ipynb").write_text(notebook(*saved, ("my_rnn", "✗ my_rnn: wrong shape.")))
    assert main(["course", "status", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.split("\n")[2:]]
    assert rows[0] == ["02", "Why", "√d", "1", "1", "2", str(10 + 2 + 15)]
    assert rows[1] == ["17", "Before", "attention", "0", "1", "7", str(6 + 6 + 3 + 20 + 4 + 5 + 5 + 5)]
    assert " ".join(rows[2]) == "tried, and not solved yet: my_attention, my_rnn"
    assert " ".join(rows[3]) == "1 of 12 exercises are solved; 1 h 21 min of the announced time are left"
    assert rows[4:] == [[]]  # no other chapter: none of its exercises is checked in this folder


BROKEN = {
    "{": "is not readable JSON: ",
    "\udcff": "is not readable JSON: ",
    "[" * 200_000: "is not readable JSON: ",
    "[]": "is JSON, but not a notebook: expected cells",
    '{"cells": 3}': "is JSON, but not a notebook: expected cells",
    '{"cells": [3]}': "is JSON, but not a notebook: expected cells",
    '{"cells": [{"cell_type": "code", "source": "check(\\"a\\")", "outputs": [3]}]}': "is JSON, but not a notebook",
}


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_file_that_is_no_notebook_is_said_and_the_others_read(tmp_path, capsys, text):
    (tmp_path / "a.ipynb").write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "b.ipynb").write_text(notebook(("score_std", "✓ score_std: right.")))
    (tmp_path / "c.ipynb").mkdir()
    os.mkfifo(tmp_path / "d.ipynb")
    assert main(["course", "status", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"a.ipynb {BROKEN[text]}" in out
    assert "1 of " in out


def test_a_folder_without_notebooks_is_refused(tmp_path, capsys):
    assert main(["course", "status", str(tmp_path)]) == 2
    assert "holds no notebooks; `tinyattn course build --to" in capsys.readouterr().err
    assert main(["course", "status", str(tmp_path / "nowhere")]) == 2
    assert "nowhere is not there, expected a folder of notebooks" in capsys.readouterr().err
    (tmp_path / "a.ipynb").write_text(notebook())
    assert main(["course", "status", str(tmp_path)]) == 2
    assert "checks an exercise of the course, expected those of `course build`" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["course", "status", str(tmp_path / "file")]) == 2
    assert "file is a file, expected a folder of notebooks" in capsys.readouterr().err
