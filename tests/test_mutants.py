"""Mutants by rule, on a toy: what the rules make, that a killed one and a survivor are told apart, and the page."""

import importlib.util
import json
from functools import partial

import pytest

from benchmarks import mutants
from benchmarks.mutants import EQUIVALENT, OPS, RESULT, Check, each_in_a_child, key, read_equivalent
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


@pytest.mark.slow
def test_every_reason_is_for_a_mutant_of_today():
    every = [m for path in OPS.rglob("*.py") for m in mutants_of(path.read_text(), str(path))]
    names = {key(m) for m in every}
    assert len(names) == len(every) > 1500
    reasons, result = read_equivalent(EQUIVALENT, names), json.loads(RESULT.read_text())
    assert not any(row["survive"] or row["refuted"] for row in mutants.rows_of(result, reasons))
