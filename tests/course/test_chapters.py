"""Every stub fails, and every chapter has its parts. That solutions pass is in test_later_cells.py."""

import json
import math
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from tests.models.worlds import write_tiny
from tinyattn.cli import main
from tinyattn.course import check
from tinyattn.course.chapters import BrokenChapterError, Chapter, Size, chapters, problems, solution_of
from tinyattn.course.exercises import BY_CHAPTER, BY_NAME, NUMBER_OF
from tinyattn.course.graders import Number
from tinyattn.course.prose import folder
from tinyattn.course.road import road, road_map, stops
from tinyattn.show.style import BLUE, ORANGE

ROOT = Path(__file__).parent.parent.parent
CHAPTERS = chapters()
each = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.path.stem)


@each
def test_stubs_fail(chapter):
    """In the committed notebook: `python notebooks/build.py --check` runs it, and finds these outputs again."""
    cells = json.loads(chapter.path.with_suffix(".ipynb").read_text())["cells"]
    shown = [line for cell in cells for output in cell.get("outputs", ())
             for line in output.get("data", {}).get("text/plain", ())]  # fmt: skip
    for exercise in chapter.exercises:
        assert f"· {exercise.name}: not answered yet\n" in shown


@each
def test_a_chapter_says_what_its_exercises_are(chapter):
    """Difficulty and time as the table has them, a check for each, and at least three, of different sorts."""
    headings = [f"# ### Exercise `{e.name}` ({e.label})" for e in chapter.exercises]
    assert re.findall(r"# ### Exercise .*", chapter.source) == headings
    for exercise in chapter.exercises:
        assert f'check("{exercise.name}", {exercise.name})' in chapter.source
    assert len(headings) >= 3
    assert len({e.sort for e in chapter.exercises}) >= 3


def test_the_chapter_on_sasrec_runs_on_a_file_of_the_readers(tmp_path):
    (chapter,) = (c for c in CHAPTERS if c.path.stem == "12_sasrec")
    source = chapter.unsolved()
    assert source.count("FILE = None") == 1
    mine = write_tiny(tmp_path / "mine.txt")
    source = source.replace("FILE = None", f"FILE = {str(mine)!r}")
    chapter.run(f"{source}\nassert (data.n_users, data.n_items, np.isnan(truth).all()) == (60, 16, True)\n")


@each
def test_a_readers_notebook_holds_no_solution(chapter):
    solutions = re.findall(r"### BEGIN SOLUTION\n(.*?)\n *### END SOLUTION", chapter.source, re.S)
    assert len(solutions) == len(chapter.exercises)
    for solution in solutions:
        assert solution not in chapter.unsolved()
        assert solution in chapter.solved()
    assert "SOLUTION" not in chapter.unsolved() + chapter.solved()


@each
def test_links_lead_somewhere(chapter):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", chapter.source):
        assert target.startswith("https://") or (chapter.path.parent / target).exists(), target


@each
def test_a_chapter_needs_nothing_that_comes_later(chapter):
    needs = re.search(r"\*\*You need\*\*(.*?)\n#\n", chapter.source, re.S)[1]
    assert all(int(number) < chapter.number for number in re.findall(r"\((\d\d)_", needs))
    assert all(NUMBER_OF[name] <= chapter.number for name in re.findall(r"yours\(\"(\w+)\"", chapter.source))


@each
def test_a_chapter_can_be_read_in_an_evening(chapter):
    size = chapter.size()
    assert size.words <= 2200
    assert size.lines <= 220
    assert size.minutes <= 90


@each
def test_a_chapter_has_a_head_and_ends_in_five_lines(chapter):
    cells = chapter.cells
    for part in (f"# # {chapter.number:02} · ", "**You need**", "**You will be able to**"):
        assert part in cells[0].text
    assert f"road({chapter.number})" in cells[1].text
    ending = chapter.source.split("# ## In five lines\n")[1]
    assert len(re.findall(r"^# - ", ending, re.M)) == 5


@each
def test_the_answer_to_a_prediction_is_folded(chapter):
    for i, cell in enumerate(chapter.cells):
        asked = cell.text.rpartition("**Predict")[2] if cell.is_text and "**Predict" in cell.text else ""
        if asked and "<details>" not in asked:
            answer = next(later for later in chapter.cells[i + 1 :] if not later.is_text)
            folded = "hide-output" in answer.head or "hide-cell" in answer.head
            assert folded or "check(" in answer.text or "# your turn" in answer.text, asked


def test_the_road_is_in_the_readme():
    """All chapters in the road's order, those that there are with a link; and every chapter is in the wheel.

    So is what their exercises say.
    """
    text = (ROOT / "notebooks" / "README.md").read_text()
    there = {chapter.number: chapter.path.stem for chapter in CHAPTERS}
    chapters = [stop for _, numbered in stops() for stop in numbered]
    assert [number for number, _ in chapters] == list(range(24))
    for number, title in chapters:
        name = f"[{title}]({there[number]}.ipynb)" if number in there else title
        assert f"| {number:02} | {name} | " in text
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    names = [*(chapter.path.name for chapter in CHAPTERS), "exercises"]
    assert wheel["force-include"] == {f"notebooks/{name}": f"tinyattn/course/chapters/{name}" for name in names}


def test_the_map_marks_where_you_are():
    lines = str(road(2)).split("\n")
    assert max(map(len, lines)) <= 100
    assert "▶ 02 why √d ◀" in str(road(2))
    assert "\nLearning      10 learning itself\n" in str(road(2))
    assert re.match(r"You are here: 02, about \d+ minutes: \d+ to read, \d+ for \d exercises$", lines[-1])
    assert "▶" not in str(road())
    assert "You are here" not in str(road(24))  # there is no such chapter yet


def test_the_map_as_a_picture_fills_what_there_is_and_marks_where_you_are():
    (ax,) = road_map(2).axes
    dots = ax.collections
    colours = [tuple(to_hex(c[0]) for c in (dot.get_facecolor(), dot.get_edgecolor())) for dot in dots]
    assert colours == [(ORANGE if n == 2 else BLUE,) * 2 for n in range(24)]
    assert len(ax.lines) == 24 - 7  # to all but the first of each of seven rows
    places = [dot.get_offsets()[0].tolist() for dot in dots]
    assert [places[n][0] for n in (0, 4, 5, 10, 11, 15, 16)] == [0, 4, 0, 0, 0, 4, 0]
    assert places[4][1] < places[5][1] < places[10][1] < places[11][1] == places[15][1] < places[16][1]
    assert dots[11].get_urls() == ["../notebooks/11_before_sasrec.ipynb"]
    assert {"attention to\nattention", "why √d", "Recommenders"} <= {text.get_text() for text in ax.texts}


def test_the_table_of_exercises_is_sound():
    names = Counter(e.name for exercises in BY_CHAPTER.values() for e in exercises)
    assert max(names.values()) == 1
    assert set(BY_CHAPTER) <= {chapter.number for chapter in CHAPTERS}
    assert all(len(e.hints) == 2 and all(e.hints) for e in BY_NAME.values())
    assert [e.name for e in BY_NAME.values() if not e.why] == []


def test_every_solution_can_be_asked_for():
    for name, exercise in BY_NAME.items():
        shown = solution_of(exercise)
        assert re.search(rf"^    (def {name}\(|{name} = )", shown, re.M), f"{name}: {shown}"
        assert "SOLUTION" not in shown, name


# --- sources --------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def at(text, name="02_small.py"):
        path = tmp_path / name
        path.write_text(text)
        return Chapter(path)

    return at


SMALL = '''# %% [markdown]
# # 02 · Small

# %%
from tinyattn.course import check

### BEGIN SOLUTION
score_std = 16
other = 1
### END SOLUTION
check("score_std", score_std)


# %%
def f(x):
    """What a reader sees."""
    ### BEGIN SOLUTION
    y = x + 1
    return y
    ### END SOLUTION
'''


def test_the_forms_of_a_source(write):
    chapter = write(SMALL)
    assert chapter.title == "02 · Small"
    assert "score_std = ...  # your turn\nother = ...  # your turn\ncheck(" in chapter.unsolved()
    assert chapter.unsolved().endswith('"""What a reader sees."""\n    raise NotImplementedError  # your turn\n')
    assert '"""What a reader sees."""\n    y = x + 1\n    return y\n' in chapter.solved()
    with pytest.raises(ValueError, match=r"02_small.py has no title, expected a line"):
        _ = write("x = 1").title


COUNTED = """# %% [markdown]
# # 02 · Counted
# Four words, $a + b$ and [a link](file.md) to `some code here` · 1.
# $$
# a = b
# $$
# **Predict:** what?

# %%
x = 1  # a line

# not a line
y = 2

# %% tags=["hide-input"]
z = 3

# %% tags=["hide-cell"]
z = 4

# %% tags=["hide-output"]
z = 5
"""


def test_what_is_counted_in_a_chapter(write):
    size = write(COUNTED).size()
    assert (size.words, size.formulas, size.lines, size.predictions) == (14, 1, 3, 1)
    size = Size(words=300, formulas=12, lines=60, predictions=2, exercises=10)
    assert (size.reading, size.minutes) == (2 + 7 + 5 + 3, 27)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SMALL.replace("    ### END SOLUTION", ""), "a solution has no end"),
        (SMALL.replace("### BEGIN SOLUTION\nscore", "score"), "line 9: solution marks do not pair up"),
        (SMALL.replace("### END SOLUTION\ncheck", "check"), "line 13: solution marks do not pair up"),
        (SMALL.replace("other = 1", "print(1)"), "ends in line 10: .* may only assign"),
    ],
)
def test_marks_that_make_no_sense_are_refused(text, says, write):
    with pytest.raises(ValueError, match=says):
        write(text).unsolved()


def test_what_is_wrong_with_a_chapter_is_told(write):
    """A stub that passes, a solution that does not, an exercise without a check, a check of another's, an error."""
    found = "\n".join(problems(write(SMALL.replace("score_std = 16", "score_std = 17.5"))))
    assert "the solution of score_std:\n✗ score_std: 17.5 is too large." in found
    assert "02_small.py never checks my_attention" in found
    assert "the stub of score_std:\n✓" in "\n".join(problems(write(SMALL.replace("score_std)", "16)"))))
    assert "02_small.py never checks score_std" in "\n".join(problems(write("x = 1\n")))
    alien = problems(write(SMALL, "99_small.py"))
    assert alien == ["99_small.py checks score_std, which belongs to another chapter"] * 2
    broken = write(SMALL + "\n\nf(1)\n1 / 0\n")
    with pytest.raises(BrokenChapterError, match=r"02_small.py raises ZeroDivisionError: .*\n    1 / 0"):
        broken.run(broken.solved())
    assert problems(broken)[0].startswith("with its stubs, 02_small.py raises NotImplementedError")


def test_the_command_counts_them(capsys, monkeypatch, write):
    chapter = write(SMALL)
    small = BY_NAME["score_std"]
    monkeypatch.setattr("tinyattn.course.chapters.folder", lambda: chapter.path.parent)
    monkeypatch.setitem(BY_CHAPTER, 2, (small,))
    assert main(["course", "check"]) == 0
    assert "1 exercises: 1 stubs fail, 1 solutions pass" in capsys.readouterr().out
    assert main(["course", "list"]) == 0
    assert "02 · Small   (about 4 minutes: 1 to read, 3 for 1 exercise)" in capsys.readouterr().out
    monkeypatch.setattr("tinyattn.course.command.chapters", lambda numbers=None: [chapter] * (1 if numbers else 2))
    assert main(["course", "list", "2"]) == 0
    assert "making it fast" not in capsys.readouterr().out  # no map beside some of the chapters
    monkeypatch.setattr("tinyattn.course.command.chapters", chapters)
    assert main(["course", "check", "9"]) == 2
    assert "there is no chapter 09; there are 02" in capsys.readouterr().err
    chapter.path.write_text(SMALL.replace("16", "15"))
    assert main(["course", "check"]) == 1
    assert "the solution of score_std" in capsys.readouterr().out


def test_sources_are_found_in_a_checkout():
    assert folder() == ROOT / "notebooks"


NUMBERS = [e for e in BY_NAME.values() if isinstance(e.grader, Number)]


@pytest.mark.parametrize("exercise", NUMBERS, ids=lambda e: e.name)
def test_a_tempting_number_meets_a_question(exercise):
    assert check(exercise.name, eval(solution_of(exercise).partition("=")[2], {"math": math}))
    for other, question, *diagnosis in exercise.grader.tempting:
        verdict = check(exercise.name, other, hint=2)
        assert not verdict
        for said in (question, *diagnosis):
            assert " ".join(said.split()) in " ".join(str(verdict).split())
