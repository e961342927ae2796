"""notebooks/build.py: committed notebooks are those of their sources, and what is stale is named, never by mistake."""

import base64
import html
import io
import json
import re

import nbformat
import numpy as np
import pytest
from nbclient.exceptions import CellExecutionError

from notebooks import build
from tests.course.test_notebook import a_line, draw
from tinyattn.course import show_figure
from tinyattn.course.chapters import Chapter, chapters
from tinyattn.course.notebook import notebook, text_of
from tinyattn.show import figure
from tinyattn.show.style import drawn

SMALL = """# %% [markdown]
# # 02 · Small

# %%
from tests.course.test_notebook import draw

print("one")
print("two, 0.25")

# %%
draw()
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    path = tmp_path / "notebooks" / "02_small.py"
    path.parent.mkdir()
    path.write_text(SMALL)
    monkeypatch.setattr(build, "FIGURES", tmp_path / "figures")
    return Chapter(path)


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.path.stem)
def test_committed_notebooks_are_those_of_their_sources(chapter):
    """Cells and figures; `python notebooks/build.py --check` executes them too."""
    committed = nbformat.read(build.notebook_file(chapter), nbformat.NO_CONVERT)
    assert build._sources(committed) == build._sources(notebook(chapter)), "run python notebooks/build.py"
    for path, png in build.figure_files(chapter, committed).items():
        assert path.read_bytes() == png, "run python notebooks/build.py"
    assert build.strays() == []


@pytest.mark.slow
def test_two_builds_are_one_and_the_same_and_what_is_stale_is_named(small):
    build.build(small)
    path, figure = build.notebook_file(small), build.FIGURES / "02-a-line.svg"
    first = path.read_bytes(), figure.read_bytes()
    build.build(small)
    assert (path.read_bytes(), figure.read_bytes()) == first
    assert figure.read_bytes() == draw().content
    assert build.stale(small) == []

    figure.write_bytes(b"another")
    assert build.stale(small) == ["02-a-line.svg is stale: it is not the picture in 02_small.ipynb"]
    figure.write_bytes(first[1])
    committed = nbformat.read(path, nbformat.NO_CONVERT)
    committed.cells[1].outputs[0].text = "one\ntwo, 0.29\n"
    nbformat.write(committed, path, version=nbformat.NO_CONVERT)
    [why] = build.stale(small)
    assert why.startswith("02_small.ipynb is stale: running cell 2 gives another text:\none\ntwo, 0.25")
    small.path.write_text(SMALL + "# more\n")
    assert "its cells are not those of 02_small.py" in build.stale(Chapter(small.path))[0]
    small.path.write_text(SMALL.replace("draw()", "draw() / 0"))
    path.write_text(text_of(notebook(Chapter(small.path))))
    [why] = build.stale(Chapter(small.path))
    assert why.startswith("02_small.ipynb is stale: its source does not run\n")
    assert "TypeError" in why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "error", "says"),
    [("1 / 0", CellExecutionError, "ZeroDivisionError"), ("import warnings; warnings.warn('oh')", RuntimeError, "oh")],
)
def test_a_cell_that_raises_or_warns_is_no_chapter(line, error, says, small):
    small.path.write_text(SMALL + f"\n# %%\n{line}\n")
    with pytest.raises(error, match=says):
        build.executed(Chapter(small.path))


def test_one_that_was_never_built_is_named(small, capsys):
    assert build.stale(small) == ["02_small.ipynb has not been built"]
    build.notebook_file(small).write_text("<<<<<<< HEAD\n{}\n")
    assert build.stale(small) == ["02_small.ipynb is no notebook"]


def test_a_chapter_that_there_is_not_is_refused_in_a_line(capsys):
    with pytest.raises(SystemExit):
        build.main(["99"])
    assert "error: there is no chapter 99; there are 00, " in capsys.readouterr().err


def test_strays_are_named(small, monkeypatch):
    monkeypatch.setattr(build, "chapters", lambda: [])
    monkeypatch.setattr(build, "folder", lambda: small.path.parent)
    (small.path.parent / "07_old.ipynb").write_text("{}")
    build.FIGURES.mkdir()
    for name in ("07-old.png", "attention.svg"):
        (build.FIGURES / name).write_bytes(b"")
    assert build.strays() == ["07_old.ipynb has no source", "07-old.png is in no notebook"]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("loss 0.25", "loss   0.25\n", True),
        ("loss 0.25", "loss 0.26", True),          # one of the last digit: another machine's rounding
        ("loss 0.25", "loss 0.27", False),
        ("loss 9.99", "loss 10.00", True),
        ("5 keys", "6 keys", False),               # a count is a count
        ("1.2e-05", "1.3e-05", True),
        ("1.2e-05", "1.2e-04", False),
        ("loss 0.25", "cost 0.25", False),
        ("0.25", "0.25 0.25", False),
        ("d_k2 1.0", "d_k3 1.0", False),
        ("0.5 and -0.5", "0.5 and 0.5", False),
    ],
)  # fmt: skip
def test_text_is_compared_word_by_word_and_numbers_up_to_rounding(a, b, same):
    assert build.same_text(a, b) is same


def encoded(change):
    import matplotlib.image

    pixels = matplotlib.image.imread(io.BytesIO(drawn(a_line(), "png"))).copy()
    change(pixels)
    out = io.BytesIO()
    matplotlib.image.imsave(out, np.ascontiguousarray(pixels), format="png")
    return base64.b64encode(out.getvalue()).decode()


def test_pictures_are_compared_up_to_a_few_pixels():
    original = base64.b64encode(drawn(a_line(), "png")).decode()

    def one(pixels):
        pixels[5, 5, :3] = 0

    def block(pixels):
        pixels[100:140, 100:200, :3] = 0

    assert build.same_picture(original, encoded(one))
    assert not build.same_picture(original, encoded(block))
    assert not build.same_picture(original, _smaller())


def _smaller():
    return base64.b64encode(drawn(figure(size=(2, 2))[0], "png")).decode()


def test_drawings_are_compared_mark_by_mark():
    def image(value):
        fig, ax = figure()
        ax.imshow([[0, 1, value]], vmin=0, vmax=1)
        return show_figure(fig, "a", "").content.decode()

    original = draw().content.decode()
    moved = re.sub(r"(L [0-9]+)\.", r"\g<1>.9", original)
    assert moved != original
    assert build.same_drawing(original, moved)
    assert build.same_drawing(original, original.replace('"#m', '"#m0123456789').replace('"#m0123456789', '"#m'))
    for other in (re.sub(r"L [0-9]+", "L 999", original), original.replace("#1a1a1c", "#1a1a1d"), original + "<path/>"):
        assert not build.same_drawing(original, other)
    assert build.same_drawing(image(0.5), image(0.5001))
    assert not build.same_drawing(image(0.5), image(0.9))


def test_another_matplotlib_draws_other_pixels_and_that_is_no_difference():
    shown = {"output_type": "display_data", "metadata": {"picture": "a"}}
    old = [shown | {"data": {"image/png": base64.b64encode(drawn(a_line(), "png")).decode(), "text/plain": "[a: b]"}}]
    new = [shown | {"data": {"image/png": _smaller(), "text/plain": "[a: b]"}}]
    assert build.difference(old, new, same_drawer=True) == "another picture a"
    assert build.difference(old, new, same_drawer=False) == ""
    assert build.difference(old, [], same_drawer=False) == "0 outputs, not 1"
    assert "stream, not display_data" in build.difference(old, [{"output_type": "stream", "text": ""}], True)
    del new[0]["data"]["image/png"]
    assert build.difference(old, new, True) == "text/plain, not image/png, text/plain"


def framed(numbers, script="f()"):
    data = f'<script type="application/json" id="data">{json.dumps(numbers)}</script>'
    page = f"<style></style>{data}<script>{script}</script>"
    return f"<iframe srcdoc='{html.escape(page, quote=False)}'></iframe><table><td>0.500</td></table>"


def packed(*numbers):
    return {"f4": base64.b64encode(np.array(numbers, dtype="<f4").tobytes()).decode()}


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ({"x": [1, 0.5, 1.2e-17]}, {"x": [1, 0.500001, -3e-18]}, ""),
        ({"x": [1, 0.5]}, {"x": [1, 0.51]}, "data.x[1]: 0.51, not 0.5"),
        ({"x": [3, 0.123]}, {"x": [3, 0.124]}, ""),
        ({"step": 3}, {"step": 4}, "data.step: 4, not 3"),
        ({"x": [[1, "inf"]]}, {"x": [[1, "nan"]]}, "data.x[0][1]: nan, not inf"),
        ({"x": [True]}, {"x": [1]}, "data.x[0]: 1, not True"),
        ({"x": [1]}, {"x": [1, 2]}, "data.x: [1, 2], not [1]"),
        ({"q": packed(1, 2)}, {"q": packed(1.01, 2.01)}, ""),
        ({"q": packed(1, 2)}, {"q": packed(1.1, 2)}, "data.q: other numbers"),
        ({"q": packed(1, 2)}, {"q": packed(1)}, "data.q: other numbers"),
    ],
)
def test_a_page_is_judged_by_its_data(a, b, why):
    old, new = ([{"output_type": "execute_result", "data": {"text/html": framed(x)}}] for x in (a, b))
    assert build.difference(old, new, same_drawer=True) == (why and f"another page: {why}")


def test_another_script_is_another_page():
    a, b = framed({"x": 1}), framed({"x": 1}, "g()")
    assert build.page_difference(build.unframed(a), build.unframed(b)) == "its script, its style or its words"
