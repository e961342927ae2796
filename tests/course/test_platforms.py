"""Folders for nbgrader and otter: what these read of them, and that their marks are those of `course grade`."""

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from tinyattn.cli import main
from tinyattn.course.chapters import BEGIN, END, chapters
from tinyattn.course.grading.submission import from_text
from tinyattn.course.platforms import CONFIG, build_nbgrader, build_otter, for_nbgrader
from tinyattn.sandbox import fence

FIRST, BACKWARD = chapters([0, 4])


@pytest.mark.parametrize("chapter", [FIRST, BACKWARD], ids=lambda c: c.path.stem)
def test_the_cells_are_those_that_nbgrader_needs(chapter):
    made = for_nbgrader(chapter)
    nbformat.validate(made)
    about = [(cell, cell.metadata.nbgrader) for cell in made.cells if "nbgrader" in cell.metadata]
    assert len({each.grade_id for _, each in about}) == len(about)
    assert all(re.fullmatch(r"[\w-]+", each.grade_id) and each.schema_version == 3 for _, each in about)
    points = {each.grade_id: each.points for _, each in about if each.grade}
    assert points == {exercise.name: exercise.difficulty for exercise in chapter.exercises}
    for cell in made.cells:
        assert (BEGIN in cell.source) == bool(cell.metadata.get("nbgrader", {}).get("solution"))
    assert all(each.locked != each.solution for _, each in about)


def test_what_is_left_without_the_solutions_is_not_answered_and_names_all_exercises():
    cells = [cell.source for cell in for_nbgrader(BACKWARD).cells if cell.cell_type == "code"]
    released = from_text("released", [re.sub(rf"(?s){BEGIN}.*?{END}", "# your turn", cell) for cell in cells])
    answered = from_text("answered", cells)
    assert not released.unread + answered.unread
    for exercise in BACKWARD.exercises:
        assert released.answer(exercise.name).is_stub
        assert not answered.answer(exercise.name).is_stub


def test_folders_are_written_once_and_another_chapter_can_follow(tmp_path, capsys):
    assert main(["course", "build", "--nbgrader", str(tmp_path), "0"]) == 0
    assert (tmp_path / "nbgrader_config.py").read_text() == CONFIG
    [path] = build_nbgrader([BACKWARD], tmp_path)
    assert path == tmp_path / "source/04_attention_backward/04_attention_backward.ipynb"
    capsys.readouterr()
    assert main(["course", "build", "--nbgrader", str(tmp_path), "0"]) == 2
    assert "00_first_look.ipynb is there already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nbgrader_config.py", "source/00_first_look/00_first_look.ipynb"])
def test_files_of_somebody_else_are_kept(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("theirs")
    with pytest.raises(ValueError, match=f"{name} is there already"):
        build_nbgrader([FIRST], tmp_path)
    assert [p.read_text() for p in tmp_path.rglob("*") if p.is_file()] == ["theirs"]


@pytest.mark.parametrize("platform", ["--nbgrader", "--otter"])
def test_what_cannot_be_written_is_said(platform, tmp_path, capsys, monkeypatch):
    assert main(["course", "build", platform, str(tmp_path / "new"), "77"]) == 2
    assert "there is no chapter 77" in capsys.readouterr().err
    assert main(["course", "build", platform, str(tmp_path / "new"), "0", "--solutions"]) == 2
    assert "need --to" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["course", "build", platform, str(tmp_path / "file"), "0"]) != 0
    assert not (tmp_path / "new").exists()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["course", "build", platform, str(tmp_path / "new"), "0"]) != 0
    assert "No space left" in capsys.readouterr().err
    assert [p for p in (tmp_path / "new").rglob("*") if p.is_file()] == []


def test_otters_tests_ask_for_the_verdicts(tmp_path):
    build_otter([FIRST], tmp_path)
    folder = tmp_path / "00_first_look"
    [(plugin, options)] = json.loads((folder / "otter_config.json").read_text())["plugins"][0].items()
    assert plugin == "tinyattn.course.grading.for_otter.ClosedOff"
    assert options["exercises"] == [e.name for e in FIRST.exercises]
    scope = {}
    exec((folder / "tests/my_hit_rate.py").read_text(), scope)
    assert scope["test"]["suites"][0]["cases"][0]["code"] == ">>> verdicts['my_hit_rate']\n'right'"
    assert "BEGIN SOLUTION" not in (folder / "00_first_look.ipynb").read_text()


def test_a_first_cell_installs(tmp_path):
    assert main(["course", "build", "0", "--to", str(tmp_path), "--install", "git+https://example.org/x"]) == 0
    cells = json.loads((tmp_path / "00_first_look.ipynb").read_text())["cells"]
    assert cells[0]["source"] == ['%pip install -q "git+https://example.org/x"']


# --- with nbgrader and otter installed: a right, a wrong, an empty and three forged submissions

RIGHT = {
    "chance_hit_rate": "chance_hit_rate = 10 / 42",
    "my_hit_rate": "import numpy as np\ndef my_hit_rate(ranks, k):\n    return float(np.mean(ranks <= k))",
    "repaired_rank": "def repaired_rank(scores, target):\n    return 1 + (scores > scores[target]).sum()",
}
PATCH = """
import tinyattn.course, tinyattn.course.exercise
tinyattn.course.exercise.Verdict.__bool__ = lambda self: True
verdicts = dict.fromkeys(["chance_hit_rate", "my_hit_rate", "repaired_rank"], "right")
def check(*_, **__): return True
"""
CLASS = {
    "amy": {},
    "bob": {"my_hit_rate": "def my_hit_rate(ranks, k):\n    return 0.5"},
    "cat": dict.fromkeys(RIGHT, PATCH),
    "dan": dict.fromkeys(RIGHT, "..."),
    "eve": {"my_hit_rate": "import os\ndef my_hit_rate(ranks, k):\n    os._exit(0)"},
}
SHOWN = [{"output_type": "stream", "name": "stdout", "text": "✓ my_hit_rate: right.\n"}]


def hand_in(released, person, to):
    """The released notebook with a person's answers, and "✓" in its saved outputs."""
    made = nbformat.read(released, 4)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(one) for one in SHOWN]
            for name, text in (RIGHT | CLASS[person]).items():
                if re.search(rf"^(def )?{name}\b", cell.source, re.M) and "check(" not in cell.source:
                    cell.source = text
    to.parent.mkdir(parents=True)
    nbformat.write(made, to)


def marks_of_ours(folder, to):
    """{person: {exercise: points}} by `tinyattn course grade`."""
    assert main(["course", "grade", str(folder), "--chapter", "0", "--csv", str(to)]) == 0
    with to.open() as file:
        return {row["person"]: {name: float(row[name]) for name in RIGHT} for row in csv.DictReader(file)}


def tool(folder, *words):
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"     # nbgrader calls alembic
    env = os.environ | {"PATH": beside}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow(seconds=100)
@pytest.mark.skipif(bool(fence.available()), reason="this system cannot close off a process")
def test_nbgraders_marks_are_ours(tmp_path):
    pytest.importorskip("nbgrader", reason="nbgrader is not installed")
    from nbgrader.api import Gradebook

    name = FIRST.path.stem
    build_nbgrader([FIRST], tmp_path)
    tool(tmp_path, "nbgrader", "generate_assignment", name)
    released = tmp_path / "release" / name / f"{name}.ipynb"
    assert "10 / 42" not in released.read_text()
    for person in CLASS:
        hand_in(released, person, tmp_path / "submitted" / person / name / f"{name}.ipynb")
    tool(tmp_path, "nbgrader", "autograde", name)
    tool(tmp_path, "nbgrader", "generate_feedback", name)
    with Gradebook(f"sqlite:///{tmp_path}/gradebook.db") as book:
        theirs = {
            person: {grade.name: grade.score for grade in book.find_submission_notebook(name, name, person).grades}
            for person in CLASS
        }
    assert theirs == marks_of_ours(tmp_path / "submitted", tmp_path / "marks.csv")
    assert theirs["amy"] == {exercise.name: exercise.difficulty for exercise in FIRST.exercises}
    assert sum(theirs["cat"].values()) == sum(theirs["dan"].values()) == theirs["bob"]["my_hit_rate"] == 0
    feedback = (tmp_path / "feedback" / "bob" / name / f"{name}.html").read_text()
    assert "my_hit_rate: right shape, wrong values" in feedback


@pytest.mark.slow(seconds=100)
@pytest.mark.skipif(bool(fence.available()), reason="this system cannot close off a process")
def test_otters_marks_are_ours(tmp_path):
    pytest.importorskip("otter", reason="otter-grader is not installed")
    build_otter([FIRST], tmp_path)
    folder = tmp_path / FIRST.path.stem
    tool(folder, "otter", "generate", "-t", "tests", "-c", "otter_config.json", "-r", "requirements.txt",
         "-o", "autograder.zip")  # fmt: skip
    assert "otter_config.json" in "".join(zipfile.ZipFile(folder / "autograder.zip").namelist())
    theirs = {}
    for person in CLASS:
        path = tmp_path / "submitted" / person / f"{FIRST.path.stem}.ipynb"
        hand_in(folder / path.name, person, path)
        tool(folder, "otter", "run", "-a", "autograder.zip", "-o", str(path.parent), "--no-logo", str(path))
        results = json.loads((path.parent / "results.json").read_text())["tests"]
        theirs[person] = {one["name"]: one["score"] for one in results if one["name"] in RIGHT}
    assert theirs == marks_of_ours(tmp_path / "submitted", tmp_path / "marks.csv")
