"""Numbers and planted bugs of its own for each student: `tinyattn course build --seed`, and `grade` knows them."""

import ast
import json
import math
import re
from pathlib import Path

import pytest

from tests.course.grading.test_marks import LIMITS, handed_in, mark
from tinyattn.cli import main
from tinyattn.course import check
from tinyattn.course.chapters import Chapter, chapters, solution_of
from tinyattn.course.exercises import BY_CHAPTER, varied
from tinyattn.course.graders import Number
from tinyattn.course.grading.folders import submissions
from tinyattn.course.grading.marks import grade
from tinyattn.course.instructor import notes
from tinyattn.course.prose import Prose
from tinyattn.course.variants import MOST, as_seed, class_list, drawn, filled
from tinyattn.sandbox import fence

VARYING = {number: Prose(number).varies for number in BY_CHAPTER}
each = pytest.mark.parametrize("number", [number for number in VARYING if VARYING[number]])


def test_every_chapter_up_to_sasrec_but_one_has_something_that_varies():
    assert {number for number in range(13) if VARYING[number]} == set(range(13)) - {11}


@each
def test_a_seed_changes_what_the_toml_says_and_nothing_else(number):
    """The first values are the chapter's. Another seed, another text, each with its `check`."""
    (base,) = chapters([number])
    texts = {Chapter(base.path, seed).source for seed in range(8)}
    assert len(texts) == 8  # the seed in `check` at least
    assert len({re.sub(r", seed=\d+", "", text) for text in texts}) > 1
    for name in VARYING[number]:
        for seed in range(8):
            assert Chapter(base.path, seed).source.count(f'check("{name}", {name}, seed={seed})') == 1
    same = {name: {key: values[:1] for key, values in table.items() if key != "shown"} | {"shown": table["shown"]}
            for name, table in VARYING[number].items()}  # fmt: skip
    for name, table in same.items():
        for text in filled(table["shown"], drawn(table, name, 3)):
            assert base.source.count(text) == 1, text


@pytest.mark.parametrize(
    ("number", "own", "seed", "says"),
    [(7, "all 24 orders apart", 0, "two told all 120 orders apart"),
     (8, "You predicted 5 after 12", 1, "You predicted 3 after 4 blocks"),
     (12, "0.83 where the truth is 0.25", 0, "where the truth is")],
)  # fmt: skip
def test_later_prose_has_the_numbers_of_the_seed(number, own, seed, says):
    (base,) = chapters([number])
    assert own in base.source
    text = Chapter(base.path, seed).source
    assert own not in text
    assert says in text


def numbers(number, seed):
    """The exercises of a chapter that ask for a number, as the seed makes them, each with its solution."""
    for exercise in BY_CHAPTER[number]:
        if exercise.name in VARYING[number] and isinstance(exercise.grader, Number):
            mine = varied(exercise, seed)
            yield mine, eval(solution_of(mine).partition("=")[2], {"math": math})


def wrong_for_a_seed(number, seed):
    """What is wrong with the numbers of a seed: a solution that is refused, a wrong number without its own question."""
    for exercise, solution in numbers(number, seed):
        if not check(exercise.name, solution, seed=seed):
            yield exercise.name, solution
        for other, *hints in exercise.grader.tempting:
            verdict = check(exercise.name, other, hint=2, seed=seed)
            if verdict or any(" ".join(hint.split()) not in " ".join(str(verdict).split()) for hint in hints):
                yield exercise.name, other, hints


@each
def test_solutions_of_a_seed_are_right_and_its_wrong_numbers_meet_their_questions(number):
    """The rest of the chapter, which a seed hardly changes, is run with one of them in test_later_cells.py."""
    assert [wrong for seed in (None, 1) for wrong in wrong_for_a_seed(number, seed)] == []


@pytest.mark.slow(seconds=3)
@each
def test_they_are_with_ten_seeds(number):
    assert [wrong for seed in range(10) for wrong in wrong_for_a_seed(number, seed)] == []


@pytest.mark.slow(seconds=20)
def test_planted_bugs_are_wrong_and_each_differs_from_the_others(monkeypatch):
    """Every line that a seed may plant, as an answer: refused."""
    monkeypatch.setattr("tinyattn.course.graders.function.EXAMPLES", 5)
    for number, name in ((4, "repaired_backward"), (5, "repaired_model"), (8, "repaired_block"),
                         (9, "repaired_rms_backward")):  # fmt: skip
        (base,) = chapters([number])
        wrong = name.replace("repaired", "buggy")
        found = set()
        for seed in range(40):
            text = Chapter(base.path, seed).source
            statements = [s for s in ast.parse(text).body if isinstance(s, ast.Import | ast.ImportFrom)
                          or getattr(s, "name", "") == wrong
                          or (number == 5 and ast.unparse(s).startswith("W_q, W_k, W_v ="))]  # fmt: skip
            planted = ast.unparse(statements[-1])
            if planted not in found:
                found.add(planted)
                space = {}
                exec(ast.unparse(ast.Module(statements, [])), space)
                assert not check(name, space[wrong]), planted
        assert len(found) == len(VARYING[number][name]["bug"])


def test_check_takes_the_seed_and_passes_it_on(capsys):
    right = {seed: solution for seed in (1, 2, 3, 4) for e, solution in numbers(2, seed) if e.name == "score_std"}
    assert len(set(right.values())) > 1
    one, other = next((a, b) for a in right for b in right if right[a] != right[b])
    assert check("score_std", right[one], seed=one)
    verdict = check("score_std", right[one], seed=other, hint=2)
    assert not verdict
    assert f'check("score_std", score_std, seed={other}, hint=3)' in str(verdict)
    assert f"score_std = {right[other]}" in str(check("score_std", 0, seed=other, hint=3))
    assert str(check("score_std", 0)) == str(check("score_std", 0, seed=None))
    assert check("best_step", -5, seed=one)  # it does not vary
    with pytest.raises(ValueError, match="the seed is '-1', expected a whole number from 0 to 999,999,999"):
        check("score_std", 16, seed=-1)


def test_notes_for_the_instructor_have_the_seeds_numbers():
    (chapter,) = chapters([2], 4)
    for exercise, solution in numbers(2, 4):
        assert f"for d = {solution**2}" in exercise.task
        assert f"- {solution**2}: That is the variance." in notes(chapter)[exercise.name]


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1e3", str(MOST), "9" * 5000, None, True, 2.0, "١"])
def test_what_is_no_seed(text):
    with pytest.raises(ValueError, match=r"the seed is .*, expected a whole number"):
        as_seed(text)
    assert as_seed(" 17 ") == as_seed(17) == 17
    assert as_seed(str(MOST - 1)) == MOST - 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("amy,1\nbob\n", "row 2: 1 cell, expected NAME,SEED, with a comma"),
        ("amy,1\nbob,x\n", "row 2: the seed is 'x'"),
        ("amy,x\nbob,2\n", "row 1: the seed is 'x', .*; a heading is name,seed"),  # amy would be left out
        ("amy,1\namy,2\n", "row 2: 'amy' is there already"),
        ("../amy,1\n", r"row 1: '\.\./amy' cannot be the name of a folder"),
        ("name,seed\n\n", "names nobody"),
        ("\x00", "expected rows NAME,SEED|cells?"),
    ],
)
def test_a_class_list_that_is_none_is_refused_with_its_row(text, says, tmp_path):
    (tmp_path / "class.csv").write_text(text)
    with pytest.raises(ValueError, match=says):
        class_list(tmp_path / "class.csv")


def test_a_name_is_the_same_in_macos_and_elsewhere_and_another_encoding_is_named(tmp_path):
    composed, apart = "J\u00fcrgen", "Ju\u0308rgen"
    (tmp_path / "class.csv").write_text(f"{apart},5\n", encoding="utf-8")
    assert class_list(tmp_path / "class.csv") == {composed: 5}
    for name in (f"{apart}.py", f"x{apart}/a.py", f"y{apart}.zip"):
        (tmp_path / "all" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "all" / name).touch()
    assert {one.person for one in submissions([tmp_path / "all"])} == {composed, f"x{composed}", f"y{composed}.zip"}
    (tmp_path / "class.csv").write_text("J\u00fcrgen,5\n", encoding="latin-1")
    with pytest.raises(ValueError, match=r"class\.csv is not text in UTF-8, which spreadsheets call CSV UTF-8"):
        class_list(tmp_path / "class.csv")


def test_a_notebook_for_each_person_of_a_class(tmp_path, capsys):
    (tmp_path / "class.csv").write_text("name,seed\nAmy Ng,7\nbob,123456789012\n")
    assert main(["course", "build", "0", "--to", str(tmp_path / "all"), "--class", str(tmp_path / "class.csv")]) == 0
    for name, seed in (("Amy Ng", 7), ("bob", 123456789012)):
        made = json.loads((tmp_path / "all" / name / "00_first_look.ipynb").read_text())
        assert made["metadata"]["tinyattn"]["seed"] == seed
        assert f'check("chance_hit_rate", chance_hit_rate, seed={seed})' in str(made["cells"]).replace("\\'", "'")
    for more, says in (
        (["--seed", "17"], "leave --seed out"),
        (["--update"], "leave out --class"),
    ):
        arguments = ["course", "build", "0", "--to", str(tmp_path / "x"), "--class", str(tmp_path / "class.csv"), *more]
        assert main(arguments) == 2
        assert says in capsys.readouterr().err
    assert main(["course", "build", "0", "--to", str(tmp_path / "x"), "--seed", "many"]) == 2
    assert "the seed is 'many'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_who_joins_a_class_later_gets_a_notebook_and_the_others_keep_theirs(tmp_path, capsys):
    def build(rows, chapters="0"):
        (tmp_path / "class.csv").write_text(rows)
        options = ["--to", str(tmp_path / "all"), "--class", str(tmp_path / "class.csv")]
        return main(["course", "build", *chapters.split(), *options])

    assert build("bob,7\n") == 0
    notebook = tmp_path / "all" / "bob" / "00_first_look.ipynb"
    notebook.write_text("answers")
    capsys.readouterr()
    assert build("Amy,5\nbob,7\n") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        "1 of 2 people have their notebooks, which stay as they are",
        str(tmp_path / "all" / "Amy" / notebook.name),
    ]
    assert notebook.read_text() == "answers"
    assert build("Zoe,1\nbob,7\n", "0 1") == 2  # bob has one of the two: nothing is written, for Zoe neither
    assert "is there already and may hold answers; name another folder, or fewer chapters" in capsys.readouterr().err
    assert not (tmp_path / "all" / "Zoe").exists()


def leaks(folder, seed):
    """Exercises of which some file below `folder` has the solution, the last hint or the reason."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_text() for path in files if path.suffix != ".ipynb"]
    for path in files:
        if path.suffix == ".ipynb":
            made = json.loads(path.read_text())
            texts += [json.dumps(made["metadata"]), *("".join(cell["source"]) for cell in made["cells"])]
    text = "\n".join(texts)
    found = []
    for chapter in chapters(None, seed):
        blocks = re.findall(r"### BEGIN SOLUTION\n(.*?)\n *### END SOLUTION", chapter.source, re.S)
        assert len(blocks) == len(chapter.exercises)
        for exercise, block in zip(chapter.exercises, blocks, strict=True):
            if any(part and part in text for part in (block, exercise.hints[1], exercise.why)):
                found.append(exercise.name)
    return found


@pytest.mark.slow(seconds=2)
def test_a_learners_build_holds_no_solution(tmp_path):
    """Neither in notebooks, nor in the folder of answers, nor in metadata."""
    assert main(["course", "build", "--to", str(tmp_path / "mine"), "--seed", "3"]) == 0
    assert main(["course", "build", "--to", str(tmp_path / "solved"), "--seed", "3", "--solutions"]) == 0
    assert leaks(tmp_path / "mine", 3) == []
    assert len(leaks(tmp_path / "solved", 3)) == sum(map(len, BY_CHAPTER.values()))


@pytest.mark.skipif(bool(fence.available()), reason="this system cannot close off a process")
def test_a_submission_is_graded_by_its_own_seed_and_the_class_list_flags_another(tmp_path, capsys):
    right = {seed: solution for seed in range(9) for e, solution in numbers(0, seed) if e.name == "chance_hit_rate"}
    one, other = next((a, b) for a in right for b in right if right[a] != right[b])
    (tmp_path / "class").mkdir()

    def hand_in(person, seed, answer, notebook=True):
        text = handed_in(chance_hit_rate=f"chance_hit_rate = {answer}", my_hit_rate=..., repaired_rank=...)
        about = {"chapter": "00-1"} | ({} if seed is None else {"seed": seed})
        text = text.replace('"metadata": {}, "nb', f'"metadata": {{"tinyattn": {json.dumps(about)}}}, "nb')
        line = f"chance_hit_rate = {answer}\n" + ("" if seed is None else f'check("x", 1, seed={seed})\n')
        (tmp_path / "class" / f"{person}.{'ipynb' if notebook else 'py'}").write_text(text if notebook else line)

    hand_in("amy", one, right[one])
    hand_in("bob", one, right[one])  # who has another in the class list
    hand_in("cat", other, right[one])  # somebody else's answer
    hand_in("dan", None, right[other], notebook=False)  # no seed: that of the class list
    hand_in("eve", one, right[one], notebook=False)
    hand_in("fay", None, 10 / 42)
    hand_in("gil", "-1", right[one])
    people = {"amy": one, "bob": other, "cat": other, "dan": other, "eve": one, "gil": one, "hal": 1}
    records = grade([tmp_path / "class"], tmp_path / "marks.csv", [0], 2, LIMITS, lambda text: None, people)
    outcomes = {r["person"]: mark(records, r["person"], "chance_hit_rate")["outcome"] for r in records}
    assert outcomes == dict.fromkeys(("amy", "bob", "dan", "eve", "fay", "gil"), "right") | {"cat": "wrong"}
    says = {record["person"]: "; ".join(record["problems"]) for record in records}
    assert [person for person in says if "class list" in says[person]] == ["bob", "fay", "gil"]
    assert f"seed {one}, and the class list has {other}" in says["bob"]
    assert "not in the class list" in says["fay"]
    assert f"no seed, and the class list has {one}" in says["gil"]
    (tmp_path / "class.csv").write_text("".join(f"{name},{seed}\n" for name, seed in people.items()))
    options = ["--csv", str(tmp_path / "marks.csv"), "--chapter", "0", "--class", str(tmp_path / "class.csv")]
    for name in ("amy", "dan", "eve"):
        (tmp_path / "class" / f"{name}.{'ipynb' if name == 'amy' else 'py'}").unlink()
    assert main(["course", "grade", str(tmp_path / "class"), *options]) == 0
    said = capsys.readouterr().out
    assert "in the class list, without a submission: amy, dan, eve, hal\n" in said
    assert "marks.csv: 4 people, 4 with problems; " in said


def test_the_table_for_lecturers_names_what_varies():
    text = (Path(__file__).parents[2] / "docs" / "teaching.md").read_text()
    table = text.partition("| the number, or the planted bug, of |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(name for names in VARYING.values() for name in names)
