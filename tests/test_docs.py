"""README and docs say what the code and the results files say."""

import ast
import contextlib
import io
import json
import linecache
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import course
from tests import registered
from tests.test_devices import STEPS
from tests.test_house import FLOORS
from tinyattn import cli, layers
from tinyattn.check import gradcheck_layer
from tinyattn.course.chapters import chapters
from tinyattn.ops import Mask
from tinyattn.options import options_of, part_options

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def squeezed(text):
    """On one line, as if nothing had been too long for it."""
    return re.sub(r"(?<=\() | (?=\))", "", re.sub(r"\s+", " ", text))


def source(*paths):
    """The code of some files without its comments, on one line."""
    text = "\n".join((ROOT / "tinyattn" / path).read_text() for path in paths)
    return squeezed(re.sub(r"  +#.*", "", text))


def test_the_gpu_page_tells_what_a_step_asks_for():
    told = squeezed((ROOT / "docs/gpu.md").read_text())
    assert f"makes {STEPS['pre', 'bce']} calls, one transfer, and no synchronisation" in told


def test_the_timeline_leads_to_files_of_those_whom_it_names():
    """Each Python file that a row links to is, by its first words, of one of the row's authors."""
    rows = [line.split(" | ") for line in (ROOT / "docs/timeline.md").read_text().splitlines() if line.startswith("| ")]
    for _, what, _, here in rows[1:]:
        authors = re.findall(r"[A-Z]\w+(?= et al\.| & )|(?<=\()[A-Z]\w+(?=\))", what)
        assert authors
        for path in re.findall(r"\((\.\./[^)]+\.py)\)", here):
            said = ast.get_docstring(ast.parse((ROOT / "docs" / path).read_text()))
            assert any(author in said for author in authors), (path, authors)


def test_the_page_of_the_course_is_of_these_chapters():
    """Measured after the last change of a chapter's length."""
    result = json.loads(course.RESULT.read_text())
    for chapter in chapters():
        size, row = chapter.size(), result["chapters"][f"{chapter.number:02}"]
        assert (row["words"], row["lines"], row["minutes"]) == (size.words, size.lines, size.minutes), chapter.title
        assert row["exercises"] == len(chapter.exercises)


def test_the_text_above_a_cell_that_takes_its_time_says_how_long():
    rows = json.loads(course.RESULT.read_text())["chapters"]
    for chapter in chapters():
        cells, slow = chapter.cells, rows[f"{chapter.number:02}"].get("slow cells", {})
        names = [course.name_of(cell) for cell in cells]
        for name, seconds in slow.items():
            above = next(cell.text for cell in reversed(cells[: names.index(name)]) if cell.is_text)
            assert re.search(r"about ([\w]+ seconds|(half )?a minute)", above), (chapter.title, name, seconds)


def test_the_length_of_a_chapter_is_measured_before_its_answers_are_graded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(course, "RESULT", tmp_path / "course.json")
    monkeypatch.setattr(course, "write_pages", lambda *page: None)
    course.main(["0", "--sizes"])
    (row,) = json.loads(course.RESULT.read_text())["chapters"].values()
    assert (row["title"], row["answers"]) == ("00 · A first look", {})
    assert "machine" not in row
    assert "| 00 · A first look |" in capsys.readouterr().out


def syllabuses():
    """The chapters of each table of the teaching page, row after row."""
    page = (ROOT / "docs" / "teaching.md").read_text()
    for table in re.split(r"^## ", page, flags=re.M):
        rows = re.findall(r"^\| \d+ \| ([\d, ]+) \|.*\| (`.*`) \|$", table, re.M)
        if rows:
            yield [([int(n) for n in numbers.split(",")], re.findall(r"`(\w+)`", marked)) for numbers, marked in rows]


def test_every_week_follows_what_it_needs_and_marks_its_own_exercises():
    assert [len(rows) for rows in syllabuses()] == [12, 4]
    known = {chapter.number: chapter for chapter in chapters()}
    for rows in syllabuses():
        seen = set()
        for numbers, marked in rows:
            for number in numbers:
                needs = re.search(r"\*\*You need\*\*(.*?)\n#\n", known[number].source, re.S)[1]
                assert {int(n) for n in re.findall(r"\((\d\d)_", needs)} <= seen, number
                seen.add(number)
            assert set(marked) <= {exercise.name for number in numbers for exercise in known[number].exercises}


def test_the_page_of_the_checker_prints_what_its_gradcheck_prints():
    page = (ROOT / "docs" / "check.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "def swish" in c)
    shown = next(text for text in re.findall(r"```text\n(.*?)```", page, re.S) if "gradients" in text.split("\n")[0])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == shown


def test_the_classroom_prints_what_it_shows():
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / "docs/classroom.md").read_text(), re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == shown


@pytest.mark.slow
def test_readme_prints_what_its_check_prints(tmp_path, monkeypatch, capsys):
    code = next(c for c in re.findall(r"```python\n(.*?)```", README, re.S) if "def attention(Q" in c)
    shown = next(text for text in re.findall(r"```text\n(.*?)```", README, re.S) if text.startswith("my_attention"))
    (tmp_path / "my_attention.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "my_attention.py", "--as", "attention"]) == 1
    assert capsys.readouterr().out == shown


def test_the_page_of_data_runs_on_a_file_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [(user, (user * 7 + t) % 60 + 1) for user in range(1, 30) for t in range(6)]
    Path("interactions.txt").write_text("".join(f"{user} {item}\n" for user, item in rows))
    page = (ROOT / "docs" / "data.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", page, re.S) if "leave_one_out" in c)
    exec(code.replace("heads=2)", "heads=2, dim=8, epochs=1)"), {})
    assert "hr@10" in capsys.readouterr().out
    assert Path("model.npz").exists()


def test_readmes_attention_is_the_librarys_whole_body():
    """The same statements, one for one, less docstrings and the lines that check what comes in."""

    def statements(text):
        found = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("attention"):
                kept = [ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.stmt) and not isinstance(n, ast.If)]
                found[node.name] = [k for k in kept[1:] if not k.startswith(("expect", "get_xp", "'", '"'))]
        return found

    code = next(c for c in re.findall(r"```python\n(.*?)```", README, re.S) if "def attention" in c)
    assert statements(code) == statements((ROOT / "tinyattn/ops/attention/attention.py").read_text())


def test_the_block_page_shows_the_code_as_it_is():
    layers = ("block", "norm", "feed_forward", "mixers/multi_head", "mechanisms/full")
    code = source(*(f"layers/{name}.py" for name in layers), "ops/attention/attention.py")
    rows = [line for line in (ROOT / "docs" / "block.md").read_text().splitlines() if line.startswith("| `")]
    shown = [piece for row in rows for piece in row.split("`")[1::2] if re.search("[=@(]", piece)]
    assert len(shown) > 40
    for piece in shown:
        assert squeezed(piece) in code, piece


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("mirror", r"mirrors open chapters (.*?);"), ("player", r"step through an op or a layer in chapters (.*?)\. "),
     ("derivation", r"Chapters (\[\d\d\]\(\S+\) and \[\d\d\]\(\S+\)) derive with it")],
)  # fmt: skip
def test_the_page_of_views_names_the_chapters_that_show_them(kind, sentence):
    page = " ".join((ROOT / "docs/views.md").read_text().split())
    (listed,) = re.findall(sentence, page)
    named = set()
    for first, last in re.findall(r"\[(\d\d)\]\([^)]*\)(?: to \[(\d\d)\])?", listed):
        named |= {f"{number:02}" for number in range(int(first), int(last or first) + 1)}
    notebooks = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert named == {path.name[:2] for path in notebooks if f"View('{kind}'" in path.read_text()}


def test_the_timeline_says_what_latent_attention_keeps(rng):
    x = rng.standard_normal((1, 10, 32))
    mixer = layers.MIXERS["latent"](heads=4, latent=12, turned=6)
    _, kept = mixer.extend(mixer.init(rng, 32), x, None, None)
    assert layers.nbytes(kept) == 10 * (12 + 6) * x.itemsize
    assert "it and one turned key are all that is kept" in (ROOT / "docs/timeline.md").read_text()


def test_the_contributing_page_names_the_figures_of_chapters():
    (ending,) = re.findall(r"`figures/NN-\*(\.\w+)`", (ROOT / "CONTRIBUTING.md").read_text())
    assert {path.suffix for path in (ROOT / "figures").glob("[0-9][0-9]-*")} == {ending}


DOCS = [f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))]
PAGES = ["README.md", "CONTRIBUTING.md", "notebooks/README.md", *DOCS]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize(("page", "count"), [("trace", 5), ("block", 1)])
def test_a_page_prints_what_its_code_prints(page, count):
    scope = {}
    text = (ROOT / "docs" / f"{page}.md").read_text()
    pieces = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.S)
    assert len(pieces) == text.count("```python") == count
    for number, (code, shown) in enumerate(pieces):
        name = f"<docs/{page}.md, {number}>"
        linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name  # as a notebook does
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), scope)
        assert printed.getvalue() == shown


def test_the_contributing_page_has_every_floor_in_order():
    house = (ROOT / "CONTRIBUTING.md").read_text().split("## The house")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in house.splitlines() if line.startswith("| `")]
    assert re.findall(r"`(\w+)(?:\.py|/)`", " ".join(cells)) == FLOORS


def test_the_mechanism_of_the_contributing_page_is_one(monkeypatch):
    """As its file would stand in the folder: gradients, options, refusals."""
    monkeypatch.setitem(sys.modules, registered.NAME, None)     # as it was, afterwards
    tempered = registered.example()
    table = {"full": layers.MECHANISMS["full"], "tempered": tempered}
    assert "temperature" in {declared.name for declared in options_of(part_options(mechanism=table))}
    x, mask = np.random.default_rng(0).standard_normal((2, 3, 4)), Mask(causal=True)
    found = {}
    for name, mechanism in {"flat": tempered(2.0), "one": tempered(), "full": table["full"]()}.items():
        block = layers.Block(layers.MultiHead(2, mechanism))
        p = block.init(np.random.default_rng(1), 4)
        assert gradcheck_layer(block.forward, block.backward, p, x, mask=mask)
        found[name] = block.forward(p, x, mask=mask)[0]
    np.testing.assert_allclose(found["one"], found["full"], rtol=1e-12)
    assert not np.allclose(found["flat"], found["full"])
    with pytest.raises(ValueError, match="temperature is 0, expected a positive, finite number"):
        tempered(0)
    with pytest.raises(ValueError, match="mechanism tempered has none to drop"):
        layers.Block(layers.MultiHead(2, tempered()), "sasrec", rate=0.1)


@pytest.mark.slow(seconds=6)
def test_mechanisms_added_by_the_contributing_page_pass_the_shared_tests():
    """With a line in MECHANISMS and nothing else: the page's, and one whose weights do not sum to 1."""
    shared = [f"tests/models/test_{name}.py" for name in ("seams", "past", "session")]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.registered", "-m", "slow or not slow"]
    added = ["-k", "tempered or sigmoid"]
    found = subprocess.run([*command, *added, *shared], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stdout
    assert " passed" in found.stdout


def test_no_data_is_in_the_project():
    """Interaction data is never committed, not even an excerpt: tests generate theirs."""
    found = [p for p in ROOT.rglob("*") if p.suffix in {".inter", ".dat"} or p.name.endswith((".txt.gz", ".data"))]
    assert not [p for p in found if ".git" not in p.parts]
