"""Mutants by rule, on a toy: what the rules make, that a killed one and a survivor are told apart, and the page."""

import importlib.util
import json
import shutil
from functools import partial

import pytest

from benchmarks import mutants, rooms
from benchmarks.mutants import RESULT, Check, each_in_a_child
from benchmarks.mutants_known import (
    EQUIVALENT,
    NOT_REACHED,
    OPS,
    PACKAGE,
    by_line,
    by_name,
    counts_of,
    hash_of_code,
    key,
    keys_in,
    killers,
    machines_of,
    page,
    path_of,
    read_equivalent,
    rooms_part,
    rows_of,
)
from benchmarks.mutation import become, mutants_of

TOY = '''"""A toy."""

SIZE = 3


def scaled(x: "1 + 1", by: float = 2.0) -> "1 + 1":
    """x times by, and not below 0."""
    if by < 0 or not x:
        raise ValueError(f"by is {by - 1}")
    y = x * by
    y += 0
    return max(y, 0) if SIZE else y


def endless(n):
    while n > 0:
        n -= 1
'''


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    spec = importlib.util.spec_from_file_location("toy", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rules_change_one_thing_at_a_time():
    """Numbers, operators, terms, comparisons, conditions, statements; no types, texts and errors."""
    assert [m.name for m in mutants_of(TOY, "toy.py")] == [
        "SIZE: 3 -> 4 in SIZE = 3",
        "scaled: 2.0 -> 4.0 in def scaled",
        "scaled: by < 0 or not x -> by < 0 and (not x) in if by < 0 or not x:",
        "scaled: by < 0 or not x -> not x in if by < 0 or not x:",
        "scaled: by < 0 or not x -> by < 0 in if by < 0 or not x:",
        "scaled: by < 0 -> by <= 0 in if by < 0 or not x:",
        "scaled: by < 0 -> by >= 0 in if by < 0 or not x:",
        "scaled: 0 -> 1 in if by < 0 or not x:",
        "scaled: not x -> x in if by < 0 or not x:",
        "scaled: x * by -> x / by in y = x * by",
        "scaled: x * by -> x in y = x * by",
        "scaled: x * by -> by in y = x * by",
        "scaled: y += 0 -> y -= 0",
        "scaled: y += 0 -> y = 0",
        "scaled: y += 0 -> dropped",
        "scaled: 0 -> 1 in y += 0",
        "scaled: max(y, 0) if SIZE else y -> max(y, 0) in return max(y, 0) if SIZE else y",
        "scaled: max(y, 0) if SIZE else y -> y in return max(y, 0) if SIZE else y",
        "scaled: max(y, 0) -> min(y, 0) in return max(y, 0) if SIZE else y",
        "scaled: max(y, 0) -> y in return max(y, 0) if SIZE else y",
        "scaled: max(y, 0) -> 0 in return max(y, 0) if SIZE else y",
        "scaled: 0 -> 1 in return max(y, 0) if SIZE else y",
        "endless: n > 0 -> n >= 0 in while n > 0:",
        "endless: n > 0 -> n <= 0 in while n > 0:",
        "endless: 0 -> 1 in while n > 0:",
        "endless: n -= 1 -> n += 1",
        "endless: n -= 1 -> n = 1",
        "endless: n -= 1 -> dropped",
        "endless: 1 -> 0 in n -= 1",
        "endless: 1 -> 2 in n -= 1",
    ]


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("a @ b.T", {"b.T @ a", "a.swapaxes(-1, -2) @ b.T", "a @ b.T.swapaxes(-1, -2)", "b"}),
        ("y = f(x, axis=-1, keepdims=True)", {"-2", "1", "0", "False"}),
        ("0 <= a < 1", {"0 < a < 1", "0 > a < 1", "0 <= a <= 1", "0 <= a >= 1", "1", "0", "2"}),
        ("a[...] = transpose_last(b)", {"dropped", "b"}),
        ("a is None and xp.where(c, 0.5, d)", {"a is None or xp.where(c, 0.5, d)", "xp.where(c, 0.5, d)", "a is None",
                                               "a is not None", "0.5", "d", "1.0"}),
    ],
)  # fmt: skip
def test_what_array_code_gets_wrong(source, becomes):
    assert {m.name.split(" -> ")[1].split(" in ")[0] for m in mutants_of(source, "toy.py")} == becomes


def test_a_module_becomes_its_mutant_for_all_who_have_imported_from_it(toy):
    scaled = toy.scaled
    found = {m.name: m for m in mutants_of(TOY, toy.__file__)}
    become(toy, found["scaled: 2.0 -> 4.0 in def scaled"].code())
    assert scaled(1) == 4
    become(toy, found["scaled: x * by -> x in y = x * by"].code())
    assert scaled(1) == 1
    become(toy, found["SIZE: 3 -> 4 in SIZE = 3"].code())
    assert (toy.SIZE, scaled(1)) == (4, 2)
    become(toy, compile(TOY, toy.__file__, "exec"))
    assert (toy.SIZE, scaled(1)) == (3, 2)


def test_a_function_in_a_table_becomes_its_mutant(toy):
    exec("HALVES = {1: lambda x: x / 2}", vars(toy))
    (mutant,) = (m for m in mutants_of("HALVES = {1: lambda x: x / 2}", toy.__file__) if " x / 2 -> x in" in m.name)
    become(toy, mutant.code())
    assert toy.HALVES[1](3) == 3


@pytest.mark.slow(seconds=1)
def test_killed_and_surviving_mutants_are_told_apart(toy, monkeypatch):
    """By a check that fails, by a call that does not end, and not at all; each in a process of its own."""
    monkeypatch.setattr(mutants, "module_of", lambda mutant: toy)
    monkeypatch.setattr(mutants, "PATIENCE", 0.2)
    checks = [Check("doubled", lambda: toy.scaled(3) != 6, ()), Check("tests: ends", lambda: toy.endless(3), ())]
    every = mutants_of(TOY, toy.__file__)
    rows = each_in_a_child([partial(mutants.tried, m, checks) for m in every], 2, "mutant")
    by = {m.name: mutants.verdict(row) for m, row in zip(every, rows, strict=True)}
    assert by["scaled: 2.0 -> 4.0 in def scaled"] == by["scaled: by < 0 -> by >= 0 in if by < 0 or not x:"] == "doubled"
    assert by["endless: n -= 1 -> dropped"] == "tests: ends (does not end)"
    assert [name for name, killer in by.items() if killer is None] == [
        "SIZE: 3 -> 4 in SIZE = 3",
        "scaled: by < 0 or not x -> by < 0 and (not x) in if by < 0 or not x:",
        "scaled: by < 0 or not x -> not x in if by < 0 or not x:",
        "scaled: by < 0 or not x -> by < 0 in if by < 0 or not x:",
        "scaled: by < 0 -> by <= 0 in if by < 0 or not x:",
        "scaled: 0 -> 1 in if by < 0 or not x:",
        "scaled: y += 0 -> y -= 0",
        "scaled: y += 0 -> dropped",
        "scaled: max(y, 0) if SIZE else y -> max(y, 0) in return max(y, 0) if SIZE else y",
        "scaled: max(y, 0) if SIZE else y -> y in return max(y, 0) if SIZE else y",
        "scaled: max(y, 0) -> y in return max(y, 0) if SIZE else y",
        "scaled: 0 -> 1 in return max(y, 0) if SIZE else y",
        "endless: n > 0 -> n >= 0 in while n > 0:",
        "endless: n > 0 -> n <= 0 in while n > 0:",
        "endless: 0 -> 1 in while n > 0:",
        "endless: 1 -> 2 in n -= 1",
    ]


def test_what_killed_a_mutant_before_is_tried_right_after_the_properties_of_its_op(toy):
    (mutant,) = (m for m in mutants_of(TOY, toy.__file__) if m.name == "scaled: y += 0 -> dropped")
    sizes = {"tests/a.py::wide": 30, "tests/a.py::killer[a (b)]": 20, "tests/a.py::narrow": 0, "spec toy: oracle": 10}
    checks = [Check(name, lambda: False, (), 1.0, {toy.__file__: set(mutant.lines), "other.py": set(range(size))})
              for name, size in sizes.items()]  # fmt: skip
    wide, killer, narrow, mine = checks
    checks.append(Check("tests/a.py::elsewhere", lambda: False, (), 1.0, {toy.__file__: {1}}))
    assert mutants.concerned(mutant, checks) == [mine, narrow, killer, wide]
    old = {"f: 1 -> 2": f"{wide.name} (does not end)", "f: 2 -> 3": killer.name, "f: 3 -> 4": None, "f: 4 -> 5": ""}
    before = killers({"files": {"toy.py": {"killed by": {"f": by_line(old)}}}})
    assert before == {"toy.py: f: 1 -> 2": wide.name, "toy.py: f: 2 -> 3": killer.name}
    assert mutants.concerned(mutant, checks, wide.name) == [mine, wide, narrow, killer]


def test_a_reason_for_a_mutant_that_is_not_there_is_an_error(tmp_path):
    every, path = {key(m) for m in mutants_of(TOY, "toy.py")}, tmp_path / "equivalent.toml"
    entry = "[[equivalent]]\nbecause = 'Adding 0 or not is the same.'\nmutants = '''\n{}\n'''\n"
    path.write_text(entry.format("toy.py: scaled: y += 0 -> dropped"))
    assert read_equivalent(path, every) == {"toy.py: scaled: y += 0 -> dropped": "Adding 0 or not is the same."}
    path.write_text(entry.format("toy.py: scaled: y += 1 -> dropped"))
    with pytest.raises(ValueError, match=r"there is no mutant 'toy\.py: scaled: y \+= 1 -> dropped'"):
        read_equivalent(path, every)
    path.write_text(entry.format("toy.py: scaled: y += 0 -> dropped") * 2)
    with pytest.raises(ValueError, match="is there twice"):
        read_equivalent(path, every)


def test_a_mutant_as_a_file_differs_from_it_in_one_place():
    """Parentheses keep what is around it, and a comment, a line end and a letter of two bytes stay."""
    text = 'é = a * f(\n    b - "ü".x, c)  # über\n\nif go:\n    e[0] = 1\n'
    made = {m.name.split(": ", 1)[1]: m.source(text) for m in mutants_of(text, "toy.py")}
    assert made["b - 'ü'.x -> b + 'ü'.x in é = a * f(b - 'ü'.x, c)"] == text.replace('b - "ü".x', "(b + 'ü'.x)")
    whole = 'a * f(\n    b - "ü".x, c)'
    assert made["a * f(b - 'ü'.x, c) -> a in é = a * f(b - 'ü'.x, c)"] == text.replace(whole, "(a)")
    assert made["if go: -> if not go:"] == text.replace("if go", "if (not go)")
    assert made["e[0] = 1 -> dropped"] == text.replace("e[0] = 1", "pass")


def test_a_sample_is_drawn_by_the_seed_and_by_what_a_mutant_is_called():
    every = mutants_of(TOY, "toy.py")
    names = [[m.name for m in rooms.drawn(every, 5, seed)] for seed in range(3)]
    assert names[0] == [m.name for m in rooms.drawn(mutants_of("# later\n" + TOY, "toy.py"), 5, 0)]
    assert all(len(set(some)) == 5 for some in names)
    assert names[0] != names[1] != names[2]
    assert rooms.drawn(every, 100, 0) == every


def test_words_and_line_breaks_keep_a_files_results_and_code_does_not(tmp_path):
    def hashed(text):
        (tmp_path / "toy.py").write_text(text)
        return hash_of_code(tmp_path / "toy.py")

    plain = hashed('"""A toy."""\ndef f(x):\n    """Of x."""\n    return x + 1\n')
    assert hashed('"""Another."""\n\ndef f(\n    x):\n    """More."""\n    # why\n    return x + 1\n') == plain
    assert hashed('"""A toy."""\ndef f(x):\n    """Of x."""\n    return x + 2\n') != plain
    assert hashed('"""A toy."""\ndef f(x):\n    """Of x."""\n    return "Of x."\n') != plain


def test_every_room_has_files_and_tests_and_names_that_no_op_has():
    for sources, own in rooms.ROOMS.values():
        assert all((PACKAGE / source).exists() for source in sources)
        assert all(list(rooms.ROOT.glob(f"{prefix.rstrip('/')}*")) for prefix in own if prefix != rooms.PIN)
    others = [p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py") if OPS not in p.parents]
    assert not [name for name in others if name.name != "__init__.py" and path_of(str(name)) != PACKAGE / name]


class Toy(set):
    """A mutant that names its tests itself; with `on_import` of what runs when the file is imported."""

    def __init__(self, tests=(), on_import=False):
        super().__init__(tests)
        self.lines = range(1 if on_import else 5, 9)


class Reached:
    def __init__(self):
        self.seconds = {rooms.PIN + "::one": 3.0, "tests/toys/a.py::slow": 50.0, "tests/toys/a.py::quick": 1.0}
        self.seconds |= {"tests/toys/b.py::x": 9.0, "tests/c.py::y": 2.0}

    def tests(self, mutant, whole_file=False):  # no test reaches its file alone
        return set(mutant)


def test_tests_of_the_room_come_first_and_those_that_reach_the_line_before_others_of_their_files():
    quick, slow, b, c = (f"tests/{name}" for name in ("toys/a.py::quick", "toys/a.py::slow", "toys/b.py::x", "c.py::y"))
    own = ("tests/toys/",)
    pin = rooms.PIN + "::one"
    assert list(rooms.concerned(Toy({slow, c}), own, Reached())) == [slow, quick, c]
    assert list(rooms.concerned(Toy({quick, b}), own, Reached())) == [b, quick, slow]
    assert list(rooms.concerned(Toy({c}), own, Reached())) == [c]
    assert list(rooms.concerned(Toy({c, pin}), own, Reached())) == [pin, c]
    assert list(rooms.concerned(Toy(), own, Reached())) == [b, quick, slow]
    assert list(rooms.concerned(Toy(on_import=True), own, Reached())) == [pin, b, quick, slow]


@pytest.mark.slow(seconds=1)
def test_a_mutant_is_tried_by_pytest_in_a_copy_of_the_project(tmp_path, monkeypatch):
    """Killed by a test that does not end, or not at all, and then the copy is as it was."""
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    (copy / "benchmarks").mkdir(parents=True)
    for name in ("__init__.py", "reach.py"):
        shutil.copy(rooms.ROOT / "benchmarks" / name, copy / "benchmarks")
    for root in (whole, copy):
        (root / "tests").mkdir(parents=True)
        (root / "toy.py").write_text(TOY + "ONE = 1 / SIZE\n")
        (root / "tests" / "test_toy.py").write_text(
            "import toy\ndef test_ends(): toy.endless(3)\ndef test_doubles(): assert toy.scaled(3) == 6\n"
        )
    monkeypatch.setattr(rooms, "ROOT", whole)
    monkeypatch.setattr(rooms, "PATIENCE", 0.3)
    monkeypatch.setenv("PYTHONPATH", "")
    tests = dict.fromkeys(("tests/test_toy.py::test_doubles", "tests/test_toy.py::test_ends"), 0.0)
    found = {m.name: m for m in mutants_of((whole / "toy.py").read_text(), str(whole / "toy.py"))}

    def by(name):
        return rooms.tried(found[name], tests, copy)

    assert by("endless: n -= 1 -> dropped") == "tests/test_toy.py::test_ends (does not end)"
    assert by("ONE: 1 / SIZE -> 1 * SIZE in ONE = 1 / SIZE") is None
    assert (copy / "toy.py").read_text() == (whole / "toy.py").read_text()


def machine(commit="1111111"):
    return {"cpu": "AMD EPYC", "cores": 2, "python": "3.11", "numpy": "2", "commit": commit, "date": "2026-01-01"}


def test_the_page_counts_a_room_and_marks_what_no_test_reaches():
    killers = {"f: 1 -> 0 in x[1]": "tests/t.py::x", "f: 2 -> 3": None, "f: 3 -> 4": NOT_REACHED, "f: 4 -> 5": None}
    assert by_line(killers)["x[1]"] == {"f: 1 -> 0": "tests/t.py::x"}
    assert by_name(by_line(killers)) == killers
    files = {"data/a.py": {"killed by": {"a": by_line(killers)}}}
    room = {"machine": machine(), "seed": 0, "mutants": 9, "files": files}
    reasons = {"data/a.py: f: 4 -> 5": "No digit of it is read."}
    counts = counts_of(room, reasons)
    assert (counts["sampled"], counts["killed"], len(counts["survive"]), counts["enough"]) == (4, 1, 2, False)
    assert counts_of(room, reasons | {f"data/a.py: f: {n} -> {n + 1}": "Likewise." for n in (2, 3)})["enough"]
    assert not counts_of(room, reasons | {"data/a.py: f: 1 -> 0": "It is killed."})["enough"]
    page = rooms_part({"data": room | {"because": reasons}})
    assert "| data | 9 | 4 | 1 | 1 | 2 | 1 | 33% |" in page
    assert "- `data/a.py: f: 3 -> 4` (not reached)" in page


def test_results_say_where_each_file_was_tried():
    """Results of earlier runs stay with the commit that they were made at."""
    old, now = machine("1111111"), machine("2222222")
    before = {"a.py": {"machines": [old]}, "b.py": {"machines": [old]}, "changed.py": {"machines": [old]}}
    found = ["a.py: f: 1 -> 2", "b.py: f: 1 -> 2", "b.py: f: 2 -> 3", "changed.py: f: 1 -> 2"]
    tried = machines_of(before, found[:2], found, now)
    assert tried == {"a.py": [old], "b.py": [old, now], "changed.py": [now]}
    assert machines_of({n: {"machines": m} for n, m in tried.items()}, found[:3], found, now) == tried
    killers = by_line({"f: 1 -> 2": "tests/t.py::x"})
    files = {n: {"machines": m, "killed by": {"f": killers}} for n, m in tried.items()}
    made = page({"seeds": 15, "budget": 30.0, "files": files}, {}).splitlines()[-1]
    assert "commit 1111111, 2026-01-01; " in made
    assert "commit 2222222" in made


@pytest.mark.slow
def test_every_reason_is_for_a_mutant_of_today():
    every = [m for path in OPS.rglob("*.py") for m in mutants_of(path.read_text(), str(path))]
    names = {key(m) for m in every}
    assert len(names) == len(every) > 1500
    known = read_equivalent(EQUIVALENT)
    reasons = read_equivalent(EQUIVALENT, keys_in(line.split(": ")[0] for line in known))
    result = json.loads(RESULT.read_text())
    assert not any(row["survive"] or row["refuted"] for row in rows_of(result, reasons))
    assert not any(counts_of(room, room["because"])["refuted"] for room in result["rooms"].values())
