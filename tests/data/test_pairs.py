"""Pairs of strings: read, split, put into batches; and the tasks that draw them."""

import datetime
import gzip

import numpy as np
import pytest

from tinyattn.data import (
    TASKS,
    DataError,
    NumberedPairs,
    Pairs,
    PairSampler,
    PairSource,
    Vocabulary,
    numbers_of,
    pair_batch,
    read_pairs,
    tenths,
)
from tinyattn.data.tasks.dates import FORMS, in_form


def numbered(n=23):
    rng = np.random.default_rng(0)
    return NumberedPairs(*([rng.integers(1, 9, rng.integers(1, 20)) for _ in range(n)] for _ in range(2)))


def test_a_file_of_pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes("ein Haus\ta house\r\nÄpfel \t apples\n\n".encode())
    assert read_pairs(path) == Pairs(("ein Haus", "Äpfel "), ("a house", " apples"))
    with gzip.open(tmp_path / "pairs.gz", "wb") as file:
        file.write(path.read_bytes())
    assert read_pairs(tmp_path / "pairs.gz").fingerprint() == read_pairs(path).fingerprint()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"x" * 5_000, r"line 1 is '(x{57})\.\.\.', expected a string, one TAB, and what it becomes"),
        (b"a\tb\nc d\n", r"line 2 is 'c d', expected a string, one TAB, and what it becomes"),
        (b"a\tb\tc\n", r"line 1 is 'a\\tb\\tc'"),
        (b"a\tb\n\tc\n", r"line 2 is '\\tc'"),
        (b"a\tb\n\nc\td\n", r"line 2 is ''"),
        (b"\n", "empty"),
        (b"a\t\xff\n", "not UTF-8 text"),
        (b"a\t\0\n", "not text"),
        (None, "no such file"),
    ],
)
def test_files_that_are_refused(content, says, tmp_path):
    path = tmp_path / "p.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"p.tsv: {says}"):
        read_pairs(path)


def test_pairs_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"the string 'b.x00' has a NUL in it"):
        Pairs.of([("a", "b\0")])
    with pytest.raises(ValueError, match=r"pair 2 is 'a', '': expected two strings that are not empty"):
        Pairs.of([("a", "b"), ("a", "")])
    for bad, says in (
        ([("ab", 1)], "pair 1 is 'ab', 1: expected two strings"), ({"a": "b"}, "pair 1 is 'a', expected two strings"),
        ([("a", "b"), (None, "b")], "pair 2 is None, 'b': expected"), ([("a", "b", "c")], r"is \('a', 'b', 'c'\), exp"),
        (["ab", "cd"], "pair 1 is 'ab', expected two strings"), ("ab", "pair 1 is 'a', exp"), ([5], "pair 1 is 5, exp"),
        (5, "5 is no list of pairs of strings"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            Pairs.of(bad)
    with pytest.raises(ValueError, match="there are no pairs"):
        Pairs.of([])
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        Pairs(("a", "b"), ("c",))
    with pytest.raises(ValueError, match=r"too few sources \(2\), expected at least 3"):
        Pairs.of([("a", "b"), ("c", "d"), ("a", "e")]).split()
    with pytest.raises(DataError, match="a directory, expected a file"):
        read_pairs(tmp_path)


def test_long_strings_are_not_shown_whole(tmp_path):
    with pytest.raises(ValueError, match="is unknown") as refused:
        numbers_of("a" * 5000 + "?", Vocabulary(np.array([chr(code) for code in range(97, 5000)])))
    assert len(str(refused.value)) < 500
    (tmp_path / "pairs.txt").write_text("a" * 5000 + "\n")
    with pytest.raises(DataError, match="expected a string, one TAB") as refused:
        read_pairs(tmp_path / "pairs.txt")
    assert len(str(refused.value)) < 300 + len(str(tmp_path))


def test_no_source_stands_in_two_parts_of_a_split():
    pairs = Pairs.of((f"s{i % 40}", f"t{i}") for i in range(100))
    parts = pairs.split()
    sides = [set(part.sources) for part in (parts.train, parts.valid, parts.test)]
    assert [len(side) for side in sides] == [32, 4, 4]
    assert len(set().union(*sides)) == 40
    drawn = [*parts.train.targets, *parts.valid.targets, *parts.test.targets]
    assert sorted(drawn) == sorted(pairs.targets)
    assert parts.tested == f"{len(parts.test)} pairs"
    assert [len(part) for part in tenths(3, "sources")] == [1, 1, 1]


def test_a_batch_begins_and_ends_what_is_written_with_0():
    batch = pair_batch([np.array([5, 6, 7]), np.array([8])], [np.array([1]), np.array([2, 3])], np.array([4, 9]))
    assert batch.source.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.written.tolist() == [[0, 1, 0], [0, 2, 3]]
    assert batch.targets.tolist() == [[1, 0, 0], [2, 3, 0]]
    assert batch.weight.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch.total == 5


def test_an_epoch_has_every_pair_once_and_a_slice_only_its_own_width():
    sampler = PairSampler(numbered(), 5, 0)
    assert sampler.steps == 4
    epochs = [[sampler.batch(step + 4 * epoch) for step in range(4)] for epoch in range(2)]
    orders = [np.concatenate([batch.rows for batch in epoch]).tolist() for epoch in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(23))
    assert orders[0] != orders[1]
    whole = sampler.whole()
    slices = whole.slices(60)
    assert len(slices) >= (whole.lengths.sum() + whole.total) / 60
    assert sum(part.total for part in slices) == whole.total
    for part in slices:
        assert part.source.shape[1] == part.lengths.max()
        assert part.targets.shape[1] == part.weight.sum(axis=1).max()
        for row, number in enumerate(part.rows.tolist()):
            source, target = (side[number] for side in sampler.pairs)
            assert part.source[row, : part.lengths[row]].tolist() == source.tolist()
            assert part.targets[row, : int(part.weight[row].sum())].tolist() == [*target, 0]
    assert sum(part.source.size + part.targets.size for part in slices) < whole.source.size + whole.targets.size


@pytest.mark.parametrize(("task", "becomes"), [("copy", str), ("reverse", lambda s: s[::-1]),
                                               ("sort", lambda s: "".join(sorted(s)))])  # fmt: skip
def test_words_become_what_the_task_says(task, becomes):
    pairs = TASKS[task](pairs=50).generate()
    assert pairs.targets == tuple(map(becomes, pairs.sources))
    assert {len(source) for source in pairs.sources} <= set(range(3, 13))
    assert pairs == TASKS[task](pairs=50).generate() != TASKS[task](pairs=50, seed=1).generate()
    assert {len(source) for source in TASKS[task](pairs=9, shortest=4, longest=4).generate().sources} == {4}
    with pytest.raises(ValueError, match="shortest is 5 and longest 4"):
        TASKS[task](shortest=5, longest=4)


def test_a_date_can_be_written_in_many_ways_each_of_which_means_one_day():
    date = datetime.date(1999, 9, 3)
    ways = [in_form(date, form) for form in FORMS]
    assert len(set(ways)) == len(FORMS) == 24
    for way in ("3rd of September 1999", "03/09/99", "Friday, 3 September 1999", "Sep 3 1999", "1999/09/03"):
        assert way in ways
    assert [in_form(datetime.date(2001, 1, day), "{th}") for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 31)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "31st"
    ]  # fmt: skip
    days = [datetime.date(1900, 1, 1) + datetime.timedelta(73 * i) for i in range(1000)]
    means = {}
    for form in FORMS:
        for day in days:
            if "{yy}" not in form or day.year in range(1969, 2069):
                assert means.setdefault(in_form(day, form).lower(), day) == day  # no string means two days


def test_dates_become_those_of_iso():
    pairs = TASKS["dates"](pairs=300, first=1950).generate()
    years = {datetime.date.fromisoformat(target).year for target in pairs.targets}
    assert min(years) >= 1950
    assert max(years) > 2068
    cases = {kind for source in pairs.sources for kind in ("islower", "isupper", "istitle") if getattr(source, kind)()}
    assert cases == {"islower", "isupper", "istitle"}
    for year, short in ((1968, False), (1969, True), (2068, True), (2069, False)):         # 69 to 99, and 00 to 68
        sources = TASKS["dates"](pairs=300, first=year, last=year).generate().sources
        assert any(str(year) not in source for source in sources) == short, year
    with pytest.raises(ValueError, match="first is 2000 and last 1999"):
        TASKS["dates"](first=2000, last=1999)


def test_where_pairs_come_from(tmp_path):
    (tmp_path / "words.tsv").write_text("a\tb\n")
    source = PairSource.of(str(tmp_path / "words.tsv"))
    assert source.name == "words"
    assert source.load() == Pairs(("a",), ("b",))
    assert PairSource.of(None).name == "dates"
    with pytest.raises(ValueError, match=r"--task is 'revers', expected one of .*; did you mean reverse\?"):
        PairSource.of(None, "revers")
    with pytest.raises(ValueError, match="expected one of them"):
        PairSource.of("x.tsv", "copy")


def test_an_unknown_character_is_named_and_known_ones_are_numbered_from_1():
    known = Vocabulary(np.array(["a", "b"]), "character")
    assert numbers_of("abb", known).tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match=r"character 'x' of 'abxy' is unknown: the known ones are 'ab'"):
        numbers_of("abxy", known)
    with pytest.raises(ValueError, match="the text is empty: expected at least one character"):
        numbers_of("", known)


def test_a_digest_sees_where_strings_end_and_what_they_become():
    made = [[("ab", "c")], [("a", "bc")], [("ab", "d")], [("ab", "c"), ("ab", "c")], [("c", "ab")]]
    assert len({Pairs.of(pairs).fingerprint() for pairs in made}) == len(made)
