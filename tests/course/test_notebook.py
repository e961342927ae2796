"""Notebooks: what a reader is handed, the same for the same source, and the pictures and tables in them."""

import base64
import json

import numpy as np
import pytest

from tinyattn.cli import main
from tinyattn.course import show_arrays, show_figure, table
from tinyattn.course.chapters import Chapter
from tinyattn.course.notebook import build, notebook, text_of
from tinyattn.course.prose import folder
from tinyattn.files import FileError, alone_in
from tinyattn.show import figure, style

SOURCE = """# %% [markdown]
# # 02 · Small
# A formula, $a$.

# %% tags=["hide-input"]
x = 1

# %%
x = 1


# %%
def f():
    ### BEGIN SOLUTION
    return 2
    ### END SOLUTION


# %%
x = 1
"""


@pytest.fixture
def chapter(tmp_path):
    path = tmp_path / "02_small.py"
    path.write_text(SOURCE)
    return Chapter(path)


def test_cells_are_those_of_the_source(chapter):
    made = notebook(chapter)
    assert [c.cell_type for c in made.cells] == ["markdown", "code", "code", "code", "code"]
    assert made.cells[0].source == "# 02 · Small\nA formula, $a$."
    assert made.cells[1].metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    assert made.cells[3].source == "def f():\n    raise NotImplementedError  # your turn"
    assert notebook(chapter, solutions=True).cells[3].source == "def f():\n    return 2"
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in made.cells)


def test_ids_are_stable_and_unique(chapter):
    first, again = notebook(chapter), notebook(chapter)
    assert text_of(first) == text_of(again)
    ids = [c.id for c in first.cells]
    assert len(set(ids)) == len(ids)
    chapter.path.write_text("# %%\ny = 2\n\n" + SOURCE)
    assert [c.id for c in notebook(Chapter(chapter.path)).cells][1:] == ids  # an insertion moves no other cell's id


def test_building_overwrites_nothing(chapter, tmp_path):
    [path] = build([chapter], tmp_path / "mine")
    assert json.loads(path.read_text())["nbformat"] == 4
    path.write_text("answers")
    with pytest.raises(ValueError, match=r"02_small.ipynb is there already and may hold answers"):
        build([chapter], tmp_path / "mine")
    assert path.read_text() == "answers"


def test_two_builds_do_not_mix_in_one_folder(chapter, tmp_path, monkeypatch):
    mine, written = tmp_path / "mine", notebook(chapter)
    with alone_in(mine), pytest.raises(FileError, match="another process is at work"):
        build([chapter], mine)
    assert list(mine.iterdir()) == []

    def meanwhile(*_, **__):
        (mine / "02_small.ipynb").write_text("another's")
        return written

    monkeypatch.setattr("tinyattn.course.notebook.notebook", meanwhile)
    with pytest.raises(ValueError, match="is there already"):
        build([chapter], mine)
    assert (mine / "02_small.ipynb").read_text() == "another's"


def test_building_leaves_no_half_of_a_notebook(chapter, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        build([chapter], tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_file_in_the_folders_place_is_said(chapter):
    with pytest.raises(ValueError, match=r"02_small\.py is a file, expected a folder"):
        build([chapter], chapter.path)


def test_the_command_writes_both_forms(tmp_path, capsys):
    assert main(["course", "build", "2", "--to", str(tmp_path / "mine")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mine' / '02_scale.ipynb'}\n"
    assert main(["course", "build", "--to", str(tmp_path / "solved"), "--solutions"]) == 0
    mine, solved = ((tmp_path / where / "02_scale.ipynb").read_text() for where in ("mine", "solved"))
    assert "raise NotImplementedError" in mine
    assert "raise NotImplementedError" not in solved
    assert main(["course", "build", "--to", str(tmp_path / "mine")]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_missing_jupytext_is_said_in_a_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(__import__("sys").modules, "jupytext", None)
    assert main(["course", "build", "--to", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "tinyattn: making notebooks needs jupytext: pip install 'tinyattn[notebooks]'\n"
    assert not (tmp_path / "new").exists()


def a_line():
    with style():
        made, ax = figure()
        ax.plot([1, 2], [3, 4], label="$d_k$")
        ax.legend()
    return made


def draw():
    return show_figure(a_line(), "a-line", "a line that rises")


def test_a_picture_has_the_same_bytes_every_time():
    first = draw()
    assert first.content == draw().content
    assert b"<metadata>" not in first.content
    assert b"<title>a line that rises</title>" in first.content
    data, metadata = first._repr_mimebundle_()
    image = data.pop("text/html")
    assert image.startswith('<img alt="a line that rises" src="data:image/svg+xml;base64,')
    assert base64.b64decode(image.split(",")[1][:-2]) == first.content
    assert data == {"image/svg+xml": first.content.decode(), "text/plain": "[a-line: a line that rises]"}
    assert metadata == {"image/svg+xml": {"alt": "a line that rises"}, "picture": "a-line"}
    with pytest.raises(ValueError, match=r"'a/b', expected letters, digits and hyphens"):
        show_figure(None, "a/b", "")


def test_a_picture_that_is_too_large_for_an_svg_is_a_png_of_twice_the_pixels(monkeypatch):
    monkeypatch.setattr("tinyattn.course.figures.LARGEST", len(draw().content) - 1)
    first = draw()
    assert (first.form, first.content) == ("png", draw().content)
    assert b"matplotlib" not in first.content
    assert int.from_bytes(first.content[16:20], "big") == 2 * 96 * 6  # of six inches
    data, metadata = first._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]) == first.content
    assert data["text/html"] == f'<img alt="a line that rises" src="data:image/png;base64,{data["image/png"]}">'
    assert metadata["image/png"] == {"alt": "a line that rises"}


def test_arrays_with_names_and_shapes():
    text = str(show_arrays(q=np.array([[1.0, -0.001]]), weights=np.array([3])))
    assert text == "q        (1, 2)    [[1.00 0.00]]\nweights  (1,)      [3]"
    assert "0.001" in str(show_arrays(x=np.array([0.001]), decimals=3))
    assert str(show_arrays(A=np.eye(2, 3))) == "A  (2, 3)    [[1.00 0.00 0.00]\n              [0.00 1.00 0.00]]"
    assert ["..." in str(show_arrays(x=np.zeros(n))) for n in (60, 61)] == [False, True]


def test_tables_are_rounded_and_aligned():
    rows = [["one", 1234, 0.5, "7%"], ["three", 2, 99.96, "12%"], ["x", 3, 1e-7, "1%"], ["y", 4, 0.0, "0%"]]
    assert str(table("name | n | value | share", rows)).split("\n") == [
        "name        n      value   share",
        "─────   ─────   ────────   ─────",
        "one     1,234      0.500      7%",
        "three       2      100.0     12%",
        "x           3   1.00e-07      1%",
        "y           4        0.0      0%",
    ]
    rows = [[True, np.nan], [np.False_, -np.inf]]
    assert str(table("right | loss", rows)).split("\n")[2:] == ["True    nan", "False   -inf"]
    assert str(table("a | b", [])) == "a   b\n─   ─"
    rows = [["-1%", 123456.0, 1e-4], ["+20%", 1234567.0, -1.24e-5]]
    assert str(table("up | large | small", rows, digits=2)).split("\n")[2:] == [
        " -1%   123456.0    0.00010",
        "+20%    1.2e+06   -1.2e-05",
    ]
    with pytest.raises(ValueError, match="a row has 2 cells, expected 1: n"):
        table("n", [(1, 2)])


def test_something_in_the_way_of_the_answers_is_said_before_anything_is_written(tmp_path):
    (tmp_path / "answers").write_text("")
    with pytest.raises(ValueError, match="answers is in the way, expected a folder for accepted answers"):
        build([Chapter(folder() / "00_first_look.py")], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["answers"]


def test_links_out_of_the_chapters_become_names(tmp_path):
    build([Chapter(folder() / "04_attention_backward.py")], tmp_path)
    text = (tmp_path / "04_attention_backward.ipynb").read_text()
    assert "](../" not in text
    assert "](03_gradients.ipynb)" in text


@pytest.mark.parametrize(
    ("tags", "hidden"),
    [
        ('["hide-input"]', {"source_hidden"}),
        ('["hide-output"]', {"outputs_hidden"}),
        ('["hide-cell"]', {"source_hidden", "outputs_hidden"}),
        ('["hide-input", "hide-output"]', {"source_hidden", "outputs_hidden"}),
    ],
)
def test_tags_fold_code_and_outputs(tmp_path, tags, hidden):
    """The outputs only in what is committed as executed: who has yet to run a cell should see what it prints."""
    path = tmp_path / "02_small.py"
    path.write_text(f"# %% tags={tags}\nx = 1\n")
    assert set(notebook(Chapter(path)).cells[0].metadata.get("jupyter", {})) == hidden
    [built] = build([Chapter(path)], tmp_path / "mine")
    unfolded = json.loads(built.read_text())["cells"][0]["metadata"]
    assert set(unfolded.get("jupyter", {})) == hidden - {"outputs_hidden"}
