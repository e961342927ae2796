"""A class hands in; among it are people who would rather have the mark than the answer."""

import csv
import json
import os

import pytest

from tinyattn.course.chapters import chapters
from tinyattn.course.grading import marks as module
from tinyattn.course.grading.marks import answers_of, grade
from tinyattn.sandbox import Limits, fence

pytestmark = pytest.mark.skipif(bool(fence.available()), reason="this system cannot close off a process")
LIMITS = Limits(memory=2**30, call=0.5, define=4.0)
CHAPTER = chapters([0])[0]
NAMES = ["chance_hit_rate", "my_hit_rate", "repaired_rank"]
RIGHT = {
    "chance_hit_rate": "chance_hit_rate = 10 / 42",
    "my_hit_rate": "import numpy as np\ndef my_hit_rate(ranks, k):\n    return float(np.mean(ranks <= k))",
    "repaired_rank": "def repaired_rank(scores, target):\n    return 1 + (scores > scores[target]).sum()",
}
FORGED = [
    {"output_type": "stream", "name": "stdout", "text": [f"✓ {name}: right. 9 properties hold\n"]} for name in NAMES
]


def notebook(cells, **metadata):
    made = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": FORGED} for cell in cells]
    made.insert(0, {"cell_type": "markdown", "source": ["# 00\n", "check('chance_hit_rate', 10 / 42)"], "metadata": {}})
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def handed_in(**answers):
    """The cells of a submission; `...` for what is left out."""
    cells = ["from tinyattn.course import check"]
    for name, text in (RIGHT | answers).items():
        cells += [text, f'check("{name}", {name})'] if text is not ... else []
    return notebook(cells)


def hit_rate(body):
    lines = "".join(f"\n    {line}" for line in body.split("\n"))
    return handed_in(my_hit_rate=f"def my_hit_rate(ranks, k):{lines}")


PATCH = """
def patch():
    import sys, numpy as np
    from tinyattn.course import exercise, graders
    for kind in (graders.Function, graders.Number):
        kind.__call__ = lambda self, answer: exercise.Grade("right", "right.")
    exercise.Verdict.__bool__ = lambda self: True
    for name in ("allclose", "array_equal", "all", "isclose"):
        setattr(np, name, lambda *args, **kwargs: True)

def my_hit_rate(ranks, k, _=patch()):
    return 0.5
"""
COUNT = """
import numpy as np
calls = 0
def my_hit_rate(ranks, k):
    global calls
    calls += 1
    return float(np.mean(ranks <= k)) + (calls > 20)
"""
FORGERS = {
    "prints": hit_rate("print('✓ my_hit_rate: right.')\nreturn True"),
    "patches": handed_in(my_hit_rate=PATCH),
    "exits": hit_rate("import os\nos._exit(0)"),
    "exits_politely": hit_rate("raise SystemExit(0)"),
    "agrees": hit_rate("class Yes(float):\n    def __eq__(self, other): return True\n    __lt__ = __le__ = __eq__\n"
                       "    __hash__ = None\nreturn Yes(0.25)"),
    "writes": hit_rate("import os\nfor i in range(3, 30):\n    try:\n        os.write(i, b'right')\n"
                       "    except OSError:\n        pass\nreturn 0.5"),
    "looks": hit_rate("import gc, sys\nframe = sys._getframe()\nwhile frame:\n    for x in frame.f_locals.values():\n"
                      "        if isinstance(x, float): return x\n    frame = frame.f_back\nreturn 0.5"),
    "skips": hit_rate("from tinyattn.check.subject import NotOfferedError\nraise NotOfferedError('not this')"),
    "counts": handed_in(my_hit_rate=COUNT),
    "reads": hit_rate("return open('../amy.ipynb').read()"),
    "loops": hit_rate("while True: pass"),
    "fills": hit_rate("x = [0]\nwhile True: x = x + x"),
    "forks": hit_rate("import os\nwhile True: os.fork()"),
    "starts_late": handed_in(my_hit_rate="n = sum(iter(int, 1))\ndef my_hit_rate(ranks, k): return n"),
}  # fmt: skip
OTHERS = {
    "amy.ipynb": handed_in(),
    "bob.py": "\n\n".join(RIGHT.values()),
    "cat.ipynb": handed_in(my_hit_rate="from tinyattn.evaluation import hit_rate as my_hit_rate",
                           repaired_rank="def repaired_rank(scores, target): raise NotImplementedError  # your turn",
                           chance_hit_rate=...),
    "dan.ipynb": handed_in(my_hit_rate="def my_hit_rate(ranks, k):\n  return ((("),
    "eve.ipynb": "%PDF-1.7",
    "fay.ipynb": notebook(["x <- 3"], language_info={"name": "R"}),
    "gil.docx": "PK",
    "hal.ipynb": handed_in().replace('"metadata": {}, "nb', '"metadata": {"tinyattn": {"chapter": "00-1"}}, "nb'),
}  # fmt: skip


def mark(records, person, name="my_hit_rate"):
    (record,) = [record for record in records if record["person"] == person]
    return next(mark for mark in record["marks"] if mark["exercise"] == name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("class")
    for person, text in FORGERS.items():
        (made / person).mkdir()
        (made / person / "00_first_look.ipynb").write_text(text)
    for name, text in OTHERS.items():
        (made / name).write_text(text)
    (made / "ida").mkdir()
    (made / "ida" / "00_first_look.ipynb").symlink_to(made / "amy.ipynb")
    return made


@pytest.fixture(scope="module")
def graded(folder):
    said = []
    records = grade([folder], folder.parent / "marks.csv", [0], 2, LIMITS, said.append)
    return records, said


@pytest.mark.slow(seconds=25)
@pytest.mark.parametrize("person", FORGERS)
def test_nobody_is_talked_into_a_mark_and_the_other_answers_keep_theirs(graded, person):
    records, _ = graded
    outcomes = {name: mark(records, person, name)["outcome"] for name in NAMES}
    assert outcomes == dict.fromkeys(NAMES, "right") | {"my_hit_rate": "wrong"}
    assert mark(records, person)["points"] == 0


@pytest.mark.slow(seconds=25)
def test_the_reasons(graded):
    says = {person: mark(graded[0], person)["verdict"] for person in FORGERS}
    assert "its process has ended" in says["exits"]
    assert "PermissionError" in says["forks"]
    assert says["counts"].startswith("right in the cases of `check`, and wrong in others")
    assert "had not ended" in says["starts_late"]
    assert "✓" not in "".join(says.values())


@pytest.mark.slow(seconds=25)
def test_right_answers_flags_and_what_cannot_be_read(graded, folder):
    records, _ = graded
    for person in ("amy", "bob", "hal"):
        assert [mark(records, person, name)["outcome"] for name in NAMES] == ["right"] * 3
    assert mark(records, "cat", "chance_hit_rate")["verdict"] == "not handed in"
    assert mark(records, "cat", "repaired_rank")["outcome"] == "unanswered"
    assert mark(records, "cat")["flags"] == ["uses evaluation.hit_rate of the library"]
    assert "SyntaxError" in mark(records, "dan")["verdict"]
    assert mark(records, "dan", "repaired_rank")["outcome"] == "right"
    problems = {record["person"]: " ".join(record["problems"]) for record in records}
    assert "not a notebook" in problems["eve"]
    assert "kernel 'R'" in problems["fay"]
    assert "neither a notebook nor Python" in problems["gil.docx"]
    assert "another version of the chapter" in problems["hal"]
    assert "no regular file" in problems["ida"]
    assert problems["amy"] == ""
    assert mark(records, "looks")["flags"] == ["unusual: f_back, f_locals, gc, sys"]


@pytest.mark.slow(seconds=25)
def test_tables_and_a_second_run(graded, folder):
    to = folder.parent / "marks.csv"
    people = {row["person"]: row for row in csv.DictReader(to.read_text().splitlines())}
    assert list(people) == sorted(people)
    assert people["amy"]["points"] == people["amy"]["of"] != "0"
    assert list(people["amy"])[:6] == ["person", "points", "of", *NAMES]
    answers = list(csv.DictReader(answers_of(to).read_text().splitlines()))
    assert len(answers) == 3 * len(people)
    before, said = to.read_bytes(), []
    grade([folder], to, [0], 2, LIMITS, said.append)
    assert said == [f"{len(people)} of {len(people)} are graded already"]
    assert to.read_bytes() == before


@pytest.mark.slow(seconds=2)
def test_what_is_graded_is_kept_when_a_run_ends_in_its_middle(folder, tmp_path, monkeypatch):
    """As with a full disk: what was written is whole, and the next run goes on from there."""
    few = tmp_path / "class"
    few.mkdir()
    for i in range(3):
        (few / f"p{i}.py").write_text(f"{RIGHT['chance_hit_rate']}\n# {i}\n{PATCH if i == 2 else ''}")
    written, write = [], module.write_json

    def full(path, value):
        if written:
            raise OSError(28, "No space left on device", str(path))
        written.append(path)
        write(path, value)

    monkeypatch.setattr(module, "write_json", full)
    with pytest.raises(OSError, match="No space left"):
        grade([few], tmp_path / "marks.csv", [0], 1, LIMITS, lambda text: None)
    assert not (tmp_path / "marks.csv").exists()
    monkeypatch.setattr(module, "write_json", write)
    (tmp_path / "marks.records" / "000.json").write_text("{")  # no record
    said = []
    records = grade([few], tmp_path / "marks.csv", [0], 1, LIMITS, said.append)
    assert said[0] == "1 of 3 are graded already"
    assert len(said) == 3
    assert [mark(records, f"p{i}", "chance_hit_rate")["outcome"] for i in range(3)] == ["right"] * 3
    assert mark(records, "p2")["outcome"] == "wrong"
    (few / "p0.py").write_text("chance_hit_rate = 0.5")  # handed in again
    records = grade([few], tmp_path / "marks.csv", [0], 1, LIMITS, said.append)
    assert mark(records, "p0", "chance_hit_rate")["outcome"] == "wrong"
    assert said[3] == "2 of 3 are graded already"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: None, "holds no submissions"),
        (lambda folder: folder.rmdir(), "is not there"),
        (lambda folder: (folder / "amy.py").write_text("x = 1"), "answers an exercise"),
        (lambda folder: ((folder / "a.py").touch(), (folder / "a.ipynb").touch()), "both hold a submission 'a'"),
    ],
)
def test_refused_before_any_work(tmp_path, make, why):
    (tmp_path / "class").mkdir()
    make(tmp_path / "class")
    with pytest.raises(ValueError, match=why):
        grade([tmp_path / "class"], tmp_path / "marks.csv", [], 1, LIMITS)
    assert os.listdir(tmp_path) in (["class"], [])


@pytest.mark.parametrize("place", ["class/m.csv", "class/amy/m.csv", "class/../class/x/m.csv", "link/m.csv"])
def test_marks_among_the_submissions_are_refused_as_they_would_be_submissions_next_time(tmp_path, place):
    (tmp_path / "class" / "amy").mkdir(parents=True)
    (tmp_path / "class" / "amy" / "a.py").write_text(RIGHT["chance_hit_rate"])
    (tmp_path / "link").symlink_to("class")
    with pytest.raises(ValueError, match="where everything is a submission: expected a place outside"):
        grade([tmp_path / "class"], tmp_path / place, [0], 1, LIMITS)
    assert [path.name for path in (tmp_path / "class").rglob("*")] == ["amy", "a.py"]


def test_odd_names_and_odd_texts_cost_nobody_else(tmp_path):
    made = tmp_path / "class"
    made.mkdir()
    (made / "amy.py").write_text(RIGHT["chance_hit_rate"])
    (made / "bob.ipynb").write_text(notebook(["chance_hit_rate = 1", "raise_ = '\\ud800'"], tinyattn=["\ud800"]))
    (made / "eve.py").write_text("def f():\n    raise ValueError('\\ud800\\n=1')\nchance_hit_rate = f()")
    (made / "=SUM(1)").mkdir()
    with open(os.fsencode(made) + b"/\xff.py", "w") as file:
        file.write("chance_hit_rate = 10 / 42")
    records = grade([made], tmp_path / "marks.csv", [0], 2, LIMITS, lambda text: None)
    assert [record["person"] for record in records] == ["=SUM(1)", "amy", "bob", "eve", "\\xff.py".replace("x", "udc")]
    assert mark(records, "amy", "chance_hit_rate")["outcome"] == "right"
    assert mark(records, "eve", "chance_hit_rate")["verdict"] == "its cells raise ValueError: \\ud800\\n=1"
    assert "\n'=SUM(1),0" in (tmp_path / "marks.csv").read_text()


def test_a_flag_names_three_others_with_an_equal_answer_and_how_many_more(monkeypatch):
    monkeypatch.setattr(module, "chapters", list)
    for people, flag in (("ab", "as b"), ("abcd", "as b, c, d"), ("abcdef", "as b, c, d and 2 more")):
        records = [{"person": person, "chapters": [], "problems": [], "marks": [
            {"exercise": NAMES[1], "fingerprint": text, "flags": []} for text in ("equal", "")]} for person in people]
        module._flag_equal(records)
        assert [mark["flags"] for mark in records[0]["marks"]] == [[flag], []]


def test_tables_have_a_row_for_each_person_and_for_each_answer():
    names = ["one", "two", "three"]
    cells = {"outcome": "right", "verdict": "v", "flags": ["f", "g"], "file": "x.py", "seconds": 0.25}
    marks = [{"exercise": "three", "points": 2, "of": 3} | cells, {"exercise": "one", "points": 0, "of": 1} | cells]
    about = {"problems": ["p", "q"], "chapters": ["00-1", "01-2"], "seeds": [None, 7, 8], "tinyattn": "0.1"}
    records = [{"person": "amy", "marks": marks} | about]
    assert module._rows_of_people(records, names) == [
        ["person", "points", "of", *names, "flags", "problems", "seconds", "tinyattn"],
        ["amy", 2, 4, 0, 0, 2, "three: f; three: g; one: f; one: g", "p; q", 0.5, "0.1"],
    ]
    columns = ["exercise", "outcome", "points", "of", "verdict", "flags", "file", "seconds"]
    assert module._rows_of_answers(records) == [
        ["person", *columns, "chapter as built", "seed"],
        ["amy", "three", "right", 2, 3, "v", "f; g", "x.py", 0.25, "00-1 01-2", "7 8"],
        ["amy", "one", "right", 0, 1, "v", "f; g", "x.py", 0.25, "00-1 01-2", "7 8"],
    ]


def test_no_cell_of_a_table_is_a_formula():
    assert module._table([["=1+1", "-2", -2, "a,b"]]) == b"'=1+1,'-2,-2,\"a,b\"\n"


def test_a_system_that_cannot_close_off_a_process_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fence, "available", lambda: "its kernel is old")
    with pytest.raises(ValueError, match="--unfenced"):
        grade([tmp_path / "class"], tmp_path / "marks.csv", [0], 1, LIMITS)
