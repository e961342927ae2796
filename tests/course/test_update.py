"""`tinyattn course build --update`: a mended chapter comes to a learner who has begun to work in it."""

import json
import shutil

import pytest

from tests.course.test_notebook import SOURCE
from tinyattn.cli import main
from tinyattn.course.chapters import chapters
from tinyattn.course.notebook import build
from tinyattn.course.prose import folder
from tinyattn.course.update import update
from tinyattn.files import FileError

EXERCISE = '''
# %% [markdown]
# ### Exercise

# %%
def my_hit_rate(ranks, k):
    """Before."""
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION


# %%
check("my_hit_rate", my_hit_rate)

# %% [markdown]
# A slip of the penn.

# %%
goes = 1

# %% [markdown]
# The end.
'''


@pytest.fixture
def mend(tmp_path, monkeypatch):
    """Write the source of chapter 00, and build it in the folder `mine` if it is not there. -> the notebook."""
    monkeypatch.setattr("tinyattn.course.chapters.folder", lambda: tmp_path)

    def at(text, edit=lambda cells: cells):
        (tmp_path / "00_small.py").write_text(text)
        path = tmp_path / "mine" / "00_small.ipynb"
        if not path.exists():
            build(chapters([0]), path.parent)
            made = json.loads(path.read_text())
            made["cells"] = edit([cell | {"source": "".join(cell["source"])} for cell in made["cells"]])
            path.write_text(json.dumps(made))
        return path

    return at


def sources(path):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]


def at(cells, text):
    return next(cell for cell in cells if text in cell["source"])


BEFORE = SOURCE + EXERCISE
AFTER = BEFORE.replace("penn", "pen").replace("# %%\ngoes = 1\n\n", "# %%\ncomes = 1\n\n").replace("Before.", "After.")


def test_what_was_not_touched_is_replaced(mend, capsys):
    path = mend(BEFORE)
    before = path.read_bytes()
    mend(AFTER)
    assert main(["course", "build", "--update", "--to", str(path.parent)]) == 0
    fresh = path.parent.parent / "fresh"
    build(chapters([0]), fresh)
    assert json.loads(path.read_text()) == json.loads((fresh / path.name).read_text())
    assert (path.parent / "00_small.ipynb.before-1").read_bytes() == before
    said = capsys.readouterr().out
    assert "00_small.ipynb: from version 00-" in said
    assert "3 cells are new or mended, 3 earlier ones are gone, 0 that you changed or wrote stay" in said
    assert "the notebook as it was: 00_small.ipynb.before-1" in said
    assert update([], path.parent) == ["00_small.ipynb: up to date"]
    assert not (path.parent / "00_small.ipynb.before-2").exists()


def test_what_the_learner_wrote_stays(mend):
    """Answers, changed cells and new ones; what was deleted does not return; outputs stay with their cells."""
    own = {"cell_type": "code", "source": "mine = 1", "metadata": {}, "outputs": [], "execution_count": None}

    def edit(cells):
        at(cells, "def my_hit_rate")["source"] = "def my_hit_rate(ranks, k):\n    return 0"
        at(cells, "goes = 1")["source"] = "goes = 2"
        at(cells, "The end.")["source"] = "The end. Note: ask in class."
        at(cells, "check(")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["✓"]}]
        cells.remove(at(cells, "### Exercise"))
        cells.insert(cells.index(at(cells, "check(")) + 1, own | {"id": "3b241101-e2bb-4255-8caf-4136c566a962"})
        cells.append(own | {"id": "0000000f", "source": "last = 1"})
        return cells

    path = mend(BEFORE, edit)
    mend(AFTER)
    said = "\n".join(update([0], path.parent))
    made = sources(path)
    assert made[5:] == [
        "def my_hit_rate(ranks, k):\n    return 0",
        'check("my_hit_rate", my_hit_rate)',
        "mine = 1",
        "*You changed the cell below. The chapter no longer has it.*",
        "goes = 2",
        "A slip of the pen.",
        "comes = 1",
        "The end. Note: ask in class.",
        "last = 1",
    ]
    assert json.loads(path.read_text())["cells"][6]["outputs"][0]["text"] == ["✓"]
    assert "your my_hit_rate stays; the chapter's cell has changed: check it again" in said
    assert "kept, though the chapter no longer has it: goes = 2" in said
    assert "2 cells are new or mended, 1 earlier ones are gone, 5 that you changed or wrote stay" in said
    mend(BEFORE)
    update([0], path.parent)  # and once more: nothing is marked twice
    again = sources(path)
    assert again.count("*You changed the cell below. The chapter no longer has it.*") == 1
    assert {"def my_hit_rate(ranks, k):\n    return 0", "goes = 2", "mine = 1", "last = 1"} <= set(again)


def test_an_answer_in_a_cell_of_ones_own_is_not_followed_by_a_stub(mend):
    def edit(cells):
        at(cells, "def my_hit_rate").update(id="3b241101-e2bb-4255-8caf-4136c566a962", source="my_hit_rate = max")
        return cells

    path = mend(BEFORE, edit)
    mend(AFTER)
    assert "  your my_hit_rate stays; the chapter's cell has changed: check it again" in update([0], path.parent)
    assert [text for text in sources(path) if "my_hit_rate" in text] == [
        "my_hit_rate = max", 'check("my_hit_rate", my_hit_rate)',
    ]  # fmt: skip


def test_a_seed_stays_and_another_is_refused(tmp_path):
    build(chapters([2], 17), tmp_path)
    path = tmp_path / "02_scale.ipynb"
    before = path.read_text()
    made = json.loads(before)
    made["metadata"]["tinyattn"]["chapter"] = "02-00000000"
    path.write_text(json.dumps(made))
    with pytest.raises(ValueError, match="has the seed 17, expected the seed 18"):
        update([2], tmp_path, 18)
    update([2], tmp_path, 17)
    assert json.loads(path.read_text()) == json.loads(before)


def test_kept_answers_are_graded_again(mend):
    path = mend(BEFORE)
    answers = path.parent / "answers"
    right = "import numpy as np\n\n\ndef my_hit_rate(ranks, k):\n    return np.mean(ranks <= k)\n"
    (answers / "my_hit_rate.py").write_text(right)
    mend(AFTER)
    assert "  my_hit_rate, graded again: still right" in update([0], path.parent)
    (answers / "my_hit_rate.py").write_text(right.replace("<=", "<"))
    mend(BEFORE)
    (line,) = [line for line in update([0], path.parent) if "graded again" in line]
    assert "no longer right (" in line
    assert not (answers / "my_hit_rate.py").exists()
    assert (answers / "my_hit_rate.py.before-1").exists()


def test_a_notebook_of_an_earlier_number_is_continued_under_the_new_one(mend, tmp_path):
    """With its answers; where both are there, the older is left, in a sentence."""

    def edit(cells):
        at(cells, "def my_hit_rate")["source"] = "def my_hit_rate(ranks, k):\n    return 0"
        return cells

    old = mend(BEFORE, edit)
    before = old.read_bytes()
    (tmp_path / "00_small.py").rename(tmp_path / "12_small.py")
    said = update([], old.parent)
    new = old.with_name("12_small.ipynb")
    assert said[0].startswith("12_small.ipynb: from version 00-")
    assert "  the notebook as it was: 00_small.ipynb.before-1" in said
    assert "def my_hit_rate(ranks, k):\n    return 0" in sources(new)
    assert json.loads(new.read_text())["metadata"]["tinyattn"]["chapter"].startswith("12-")
    assert not old.exists()
    assert old.with_name("00_small.ipynb.before-1").read_bytes() == before
    assert update([12], old.parent) == ["12_small.ipynb: up to date"]
    old.write_bytes(before)
    assert update([], old.parent)[1:] == ["00_small.ipynb: left as it is; its chapter is 12 now, in 12_small.ipynb"]
    assert old.read_bytes() == before


def broken(change):
    def edit(made):
        change(made)
        return json.dumps(made)

    return edit


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda made: "{", "is not readable JSON"),
        (lambda made: "[]", "is not what `tinyattn course build` wrote for a learner"),
        (broken(lambda made: made["metadata"].pop("tinyattn")), "is not what `tinyattn course build` wrote"),
        (broken(lambda made: made["metadata"]["tinyattn"].update(chapter=3)), "is not what `tinyattn course build`"),
        (broken(lambda made: made["metadata"]["tinyattn"].update(chapter="03-1")), "of chapter 03, expected 00"),
        (broken(lambda made: made["metadata"]["tinyattn"].update(seed=-1)), "the seed is '-1', expected"),
        (broken(lambda made: made["cells"][1].pop("id")), "or its cells have lost their ids"),
        (broken(lambda made: made["cells"][1].update(id=made["cells"][2]["id"])), "two cells have the same id"),
        (broken(lambda made: made["cells"][1].update(source=3)), "is not what"),
        (broken(lambda made: made["cells"].append({"id": "x", "cell_type": "?", "source": ""})), "a broken notebook"),
    ],
)
def test_what_cannot_be_merged_is_refused_and_stays_as_it_is(edit, says, mend):
    path = mend(BEFORE)
    path.write_text(edit(json.loads(path.read_text())))
    mend(AFTER)
    before = path.read_bytes()
    with pytest.raises((ValueError, FileError), match=says):
        update([0], path.parent)
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["00_small.ipynb", "answers"]


def test_a_solved_or_a_missing_notebook_is_refused(mend, tmp_path, capsys):
    mend(BEFORE)
    build(chapters([0]), tmp_path / "solved", solutions=True)
    for where, says in (("solved", "is not what"), ("answers", "is no folder"), ("mine/answers", "holds no notebook")):
        assert main(["course", "build", "--update", "--to", str(tmp_path / where)]) == 2
        assert says in capsys.readouterr().err
    assert main(["course", "build", "0", "--update", "--to", str(tmp_path / "mine" / "answers")]) == 2
    assert "does not hold 00_small.ipynb; without --update it is built" in capsys.readouterr().err
    assert main(["course", "build", "--update", "--solutions", "--to", str(tmp_path / "mine")]) == 2
    assert "leave out --class, --solutions, --for and --install" in capsys.readouterr().err


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_full_disk_leaves_whole_notebooks(writes, tmp_path, monkeypatch):
    """Of two: each is the old one or the new one, and a new one has the old one beside it."""
    for name in ("02_scale.py", "03_gradients.py"):
        (tmp_path / name).write_text(BEFORE)
    monkeypatch.setattr("tinyattn.course.chapters.folder", lambda: tmp_path)
    mine = tmp_path / "mine"
    old = {path: path.read_bytes() for path in build(chapters(), mine)}
    for name in ("02_scale.py", "03_gradients.py"):
        (tmp_path / name).write_text(AFTER)
    done = []

    def full(path, content):
        if len(done) == writes:
            raise OSError(28, "No space left on device", str(path))
        done.append(path)
        path.write_bytes(content)

    monkeypatch.setattr("tinyattn.course.update.write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        update([], mine)
    for path, before in old.items():
        assert path.read_bytes() == before or path.with_name(f"{path.name}.before-1").read_bytes() == before
    monkeypatch.undo()
    monkeypatch.setattr("tinyattn.course.chapters.folder", lambda: tmp_path)
    update([], mine)
    assert all("A slip of the pen." in sources(path) for path in old)


@pytest.mark.slow(seconds=10)
def test_every_chapter_that_nobody_touched_becomes_the_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tinyattn.course.chapters.folder", lambda: tmp_path)
    for path in folder().glob("??_*.py"):
        (tmp_path / path.name).write_text(path.read_text().replace("**You need**", "**Needed**"))
    paths = build(chapters(None, 5), tmp_path / "mine")
    for path in folder().glob("??_*.py"):
        shutil.copy(path, tmp_path)
    update([], tmp_path / "mine")
    for path, fresh in zip(paths, build(chapters(None, 5), tmp_path / "fresh"), strict=True):
        assert path.read_bytes() == fresh.read_bytes()
