"""Several files, and standard input, are one table."""

import gzip
import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.data.test_formats import sequences
from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.data import DataError, Source, read

FIRST = "user_id,item_id,timestamp\nu1,a,3\nu2,b,1\nu1,b,1\n"
SECOND = "timestamp,user_id,item_id\n2,u1,c\n9,u3,a\n"
TOGETHER = {"u1": ["b", "c", "a"], "u2": ["b"], "u3": ["a"]}


@pytest.fixture
def files(tmp_path):
    """A function that writes files of these contents, and returns their paths."""

    def write(*texts):
        paths = [tmp_path / f"{place}.csv" for place, _ in enumerate(texts)]
        for path, text in zip(paths, texts, strict=True):
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return paths

    return write


def piped(monkeypatch, content):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_columns_of_any_order_and_form_become_one_table(files):
    assert sequences(read(files(FIRST, SECOND))) == TOGETHER
    lines = b'{"user_id": "u1", "item_id": "c", "timestamp": 2}\n{"user_id": "u3", "item_id": "a", "timestamp": 9}\n'
    mixed = read(files(FIRST, gzip.compress(lines)))
    assert sequences(mixed) == TOGETHER
    assert mixed.notes["format"] == "movielens-csv, amazon-json"
    assert read(files(FIRST, SECOND)).fingerprint() == read(files(SECOND, FIRST)).fingerprint()


def test_ids_of_the_second_file_decide_what_all_are(files):
    assert sequences(read(files("1 7\n1 8\n", "2 7\n2 x\n"))) == {1: ["7", "8"], 2: ["7", "x"]}
    assert sequences(read(files("1 7 8 9\n2 7 8\n", "3 8 9\n1 5 6 7\n"))) == {
        1: [7, 8, 9, 5, 6, 7],
        2: [7, 8],
        3: [8, 9],
    }


def test_files_that_count_time_in_different_units_are_refused(files):
    header, now = "user_id,item_id,timestamp\n", 1_700_000_000
    texts = [f"{header}u,{item},{time}\n" for item, time in (("a", 7), ("b", now), ("c", now * 1000), ("d", now + 1))]
    message = "time 1700000000000 counts milliseconds, and 1700000000 counts seconds in .*1.csv: expected one unit"
    with pytest.raises(DataError, match=f"2.csv: {message}"):
        read(files(*texts))
    assert sequences(read(files(header, texts[3], texts[1]))) == {"u": ["b", "d"]}
    assert sequences(read(files(texts[0], texts[1]))) == {"u": ["a", "b"]}         # 7 is of no known unit


def test_the_day_of_a_date_is_decided_by_all_files(files):
    header = "user_id,item_id,date\n"
    with pytest.raises(DataError, match="day"):
        read(files(f"{header}u,a,04/12/2023\nu,b,03/12/2023\n"))
    data = read(files(f"{header}u,a,04/12/2023\nu,b,03/11/2023\n", f"{header}u,c,26/11/2023\n"))
    assert sequences(data) == {"u": ["b", "c", "a"]}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((FIRST, "user_id,item_id,timestamp\nu1,a,3\nu1,a\n"), "1.csv: line 3: 2 fields"),
        ((FIRST, "user_id,item_id\nu1,a\n"), "1.csv: no column of times, unlike .*0.csv"),
        (("user_id,item_id\nu1,a\n", FIRST), "1.csv: a column of times, unlike .*0.csv"),
        ((FIRST, ""), "1.csv: empty"),
        ((FIRST, "user_id,item_id,timestamp\nu1,a,2023-01-01\n"), "1.csv: line 2: time '2023-01-01' is not a finite"),
        (("user_id,item_id\nu1,a\n", "user_id,item_id\nu1,a\nuser_id,item_id\n"), "1.csv: line 3: the header is rep"),
        (("user_id,item_id\n", "item_id,user_id\n"), "0.csv, .*1.csv: a header and no interactions"),
        ((), "no files"),
    ],
)
def test_a_bad_file_is_named_with_its_line(files, texts, message):
    with pytest.raises(DataError, match=message):
        read(files(*texts))


def test_a_file_that_is_named_twice_is_noted(files):
    first, second = files(FIRST, SECOND)
    data = read([first, second, first])
    assert (data.report()["read twice"], data.identical) == (str(first), 3)
    assert "read twice" not in read([first, second]).report()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_a_file(files, monkeypatch, pack):
    (first,) = files(FIRST)
    piped(monkeypatch, pack(SECOND.encode()))
    assert sequences(read([first, "-"])) == TOGETHER
    with pytest.raises(DataError, match="standard input: empty"):
        read("-")
    piped(monkeypatch, b"1 2\n1\n")
    with pytest.raises(DataError, match="standard input: line 2"):
        read("-")


def test_a_source_of_several_files_is_described_and_comes_back(files, monkeypatch):
    paths = list(map(str, files(FIRST, SECOND)))
    source = Source.of(paths)
    assert (source.name, source.title) == ("0+1", ", ".join(paths))
    assert Source.from_config(json.loads(json.dumps(source.describe()))) == source
    monkeypatch.chdir(Path(paths[0]).parent)
    assert Source.of(paths[:1] + [Path(path).name for path in paths[1:]]).describe() == source.describe()
    assert Source.of(paths * 2).title == f"{paths[0]} and 3 more files"
    assert (Source.of("-").name, Source.of("-").describe()["path"]) == ("stdin", "-")
    with pytest.raises(ValueError, match="once, and DATA names it twice"):
        Source.of(["-", "-"])


ROWS = "".join(f"{user},{item}\n" for user in range(6) for item in (user, user + 1, user + 2, user + 3))


def test_a_run_on_several_files_reads_them_again(files, tmp_path, capsys):
    first, second = files(f"user_id,item_id\n{ROWS}", "item_id,user_id\n3,9\n4,9\n5,9\n")
    run = str(tmp_path / "run")
    assert main(["train", str(first), "--model", "popularity", "--out", run, str(second)]) == 0
    assert "7 users, 9 items, 27 interactions" in capsys.readouterr().out
    assert main(["evaluate", run]) == 0
    assert f"on {first}, {second}: 7 users" in capsys.readouterr().out
    refuses(capsys, ["evaluate", run, "--per-user", str(second)], "is the file", "which is read")
    second.write_text("user_id,item_id\n9,3\n9,4\n")
    refuses(capsys, ["evaluate", run], "is no longer what", "27 interactions then, 26 now", "name DATA")
    assert main(["evaluate", run, "--at", "2", str(first)]) == 0  # DATA after a flag


def test_a_run_on_standard_input_asks_for_a_file(files, tmp_path, capsys, monkeypatch):
    (path,) = files(f"user_id,item_id\n{ROWS}")
    run = str(tmp_path / "run")
    piped(monkeypatch, path.read_bytes())
    assert main(["train", "-", "--model", "popularity", "--out", run]) == 0
    assert "standard input cannot be read again" in capsys.readouterr().err
    refuses(capsys, ["evaluate", run], "was trained on standard input, which is gone: name DATA")
    assert main(["evaluate", run, str(path)]) == 0
    piped(monkeypatch, path.read_bytes())
    assert main(["recommend", run, "-", "--user", "3"]) == 0
