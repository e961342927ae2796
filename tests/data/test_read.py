"""Files as people bring them, good and bad. All are generated here."""

import datetime
import gzip
import os
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.data.test_formats import sequences
from tests.helpers import Frame, in_pieces
from tinyattn.data import (
    DataError,
    ImageSource,
    Interactions,
    PairSource,
    Source,
    TextSource,
    read,
    read_ids,
    read_images,
    read_names,
    read_pairs,
)
from tinyattn.data.fields import chunks_of_lines
from tinyattn.data.interactions import as_times
from tinyattn.data.read import read_text

TEXT = "1 10\n1 11\n2 10\n2 12\n2 11\n"
INTER = (
    "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    "7\t30\t5\t300\n8\t10\t4\t100\n7\t20\t3\t100\n7\t10\t1\t100\n8\t30\t2\t50\n"
)


@pytest.mark.parametrize("zipped", [False, True])
def test_text(tmp_path, zipped):
    path = tmp_path / ("d.txt.gz" if zipped else "d.txt")
    path.write_bytes(gzip.compress(TEXT.encode()) if zipped else TEXT.encode())
    data = read(path)
    assert sequences(data) == {1: [10, 11], 2: [10, 12, 11]}
    assert (data.n_users, data.n_items, len(data)) == (2, 3, 5)


def test_gzip_is_known_by_its_content(tmp_path):
    path = tmp_path / "misnamed.txt"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert read(path).n_users == 2


def test_inter_is_sorted_by_time_and_ties_keep_the_files_order(tmp_path):
    path = tmp_path / "d.inter"
    path.write_text(INTER)
    assert sequences(read(path)) == {7: [20, 10, 30], 8: [30, 10]}


def test_inter_without_timestamps_keeps_the_files_order(tmp_path):
    path = tmp_path / "d.inter"
    path.write_text("item_id:token\tuser_id:token\na\tx\nb\tx\n")
    assert sequences(read(path)) == {"x": ["a", "b"]}


def test_large_timestamps_are_not_rounded_into_ties(tmp_path):
    path = tmp_path / "d.inter"
    rows = [f"1\t{i}\t{1_700_000_000 + t}" for i, t in ((10, 3), (11, 1), (12, 2))]
    path.write_text("user_id:token\titem_id:token\ttimestamp:float\n" + "\n".join(rows))
    assert sequences(read(path)) == {1: [11, 12, 10]}


@pytest.mark.parametrize(
    "content", ["\ufeff" + TEXT, TEXT.replace("\n", "\r\n"), TEXT.replace(" ", "\t"), TEXT + "\n\n"]
)
def test_bom_crlf_tabs_and_trailing_lines(tmp_path, content):
    path = tmp_path / "d.txt"
    path.write_text(content, newline="")
    assert sequences(read(path)) == {1: [10, 11], 2: [10, 12, 11]}


def test_ids_are_kept_as_the_file_has_them(tmp_path):
    path = tmp_path / "d.txt"
    path.write_text("ann 007\nann 7\nbob x-1\n")
    assert sequences(read(path)) == {"ann": ["007", "7"], "bob": ["x-1"]}
    path.write_text("-5 9223372036854775807\n-5 0\n")
    assert sequences(read(path)) == {-5: [9223372036854775807, 0]}
    path.write_text("1 9223372036854775808\n1 3\n")  # beyond int64: strings then
    assert sequences(read(path)) == {1: ["9223372036854775808", "3"]}


def test_the_same_data_has_the_same_fingerprint(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.gz").write_bytes(gzip.compress(TEXT.replace("\n", "\r\n").encode()))
    (tmp_path / "c.txt").write_text(TEXT.replace("12", "13"))
    a, b, c = (read(tmp_path / name).fingerprint() for name in ("a.txt", "b.gz", "c.txt"))
    assert a == b != c


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b"1 2\n1 2 3\n", "line 2: 3 fields in '1 2 3', expected 2"),
        (b"1\n", "line 1 is '1': one column, expected a user and an item"),
        (b"1 2\n\n1 3\n", "line 2: 0 fields"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-9], "not a whole gzip file"),
        (b"\x1f\x8bjunk", "not a whole gzip file"),
        (b"\xff\xfe\x00\x01 binary", "UTF-16, expected UTF-8 text"),
        (b"PK\x03\x04\x00", "a zip archive, expected UTF-8 text, gzipped or not"),
        (b"BZh\x00", "compressed by bzip2, expected UTF-8"),
        (b"\xfd7zXZ\x00", "compressed by xz, expected UTF-8"),
        (b"\xfe\xff\x00a", "UTF-16, expected UTF-8"),
        (b"\x7fELF\x00", "not text"),
        ("caf\xe9 1\n".encode("latin-1"), "not UTF-8 text: convert it first"),
        (b"1 2\n1 \x00\n", "not text"),
        (b"1 2\r1 3\r", "line 1 has a carriage return in it"),
        (b"1 2\r\n1 3\r\r\n", "line 2 has a carriage return in it"),
        ("\ufeff\ufeff1 2\n".encode(), "line 1 begins with a byte order mark"),
        ("1 2\n\ufeff1 3\n".encode(), "line 2 begins with a byte order mark"),
        (b"user_id:token\trating:float\n1\t2\n", "no column item_id"),
        (b"user_id:token\titem_id:token\n", "no interactions"),
        (b"user_id:token\titem_id:token\ttimestamp:float\n1\t2\tsoon\n", "line 2: time 'soon' is not a finite number"),
        (b"user_id:token\titem_id:token\ttimestamp:float\n1\t2\t3\n1\t3\tnan\n", "line 3: time 'nan' is not"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_limits_are_said_where_they_are_hit(tmp_path):
    """Each of these took minutes or gigabytes once."""
    path = tmp_path / "long"
    for content, message in (
        (b"1 " + b"7" * 17_000_000, "line 1 is longer than 16,777,216 bytes"),
        (b"1 2\n3 " + b"7 " * 9_000_000 + b"\n", "line 2 is longer than 16,777,216 bytes"),
        (b"1 2\n" + b"\n" * 3_000_000 + b"1 2\n", "more than 1,048,576 bytes of blank lines before line 2097150"),
        (gzip.compress(b"\n" * 3_000_000), "more than 1,048,576 bytes of blank lines"),
        (b"7 3\n" * 300 + b"7 " + b"x" * 1_000_000 + b"\n", "line 301: the item has 1,000,000 bytes, expected"),
        (b"7 3 " + b"9" * 5_000 + b"\n", "line 1: the time has 5,000 bytes, expected at most 256"),
        (b"a" + b",1" * 100_000 + b"\n", "1,1,1.*, and its columns are not known; .* user=NAME,item=NAME,time=NAME$"),
        (b"user," + b"".join(b"c%d," % i for i in range(200_000)) + b"c199999\n", "the header names c199999 twice"),
        (b'{"user_id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "line 1 is neither JSON nor a Python literal"),
        (b'1,2,3,4\n1,"' + b"x\n" * 200_000, r"line 2 is no line of CSV: field larger than field limit"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message) as caught:
            read(path)
        assert len(str(caught.value)) < 500


def test_a_line_in_many_pieces_is_joined_once(monkeypatch):
    """Appending piece after piece is quadratic in the line: 80 MB took 12 s."""
    pieces = [b"1 2\n3 "] + [b"x" * 10] * 1000 + [b"\n4 5"]
    assert b"".join(chunks_of_lines(pieces)) == b"".join(pieces) + b"\n"
    monkeypatch.setattr("tinyattn.data.fields.LONGEST_LINE", 10_002)
    assert len(list(chunks_of_lines(pieces))) == 3
    monkeypatch.setattr("tinyattn.data.fields.LONGEST_LINE", 10_001)
    with pytest.raises(DataError, match="line 2 is longer than 10,001 bytes"):
        list(chunks_of_lines(pieces))


def test_one_long_id_costs_no_memory_in_other_chunks(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"7 3\n" * 1_000_000 + b"7 " + b"x" * 256 + b"\n")
    tracemalloc.start()
    assert read(path).n_items == 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6         # a column of a million strings of 256 bytes has 256 MB


@pytest.mark.parametrize("reader", [read, read_text, read_pairs, read_ids, read_names, read_images])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_only_regular_files_are_opened(tmp_path, reader):
    """A pipe that nobody writes to is never opened, and a device may never end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/full"):
        with pytest.raises(DataError, match=f"{path}: a pipe, a device or a socket, expected a regular file"):
            reader(path)
    with pytest.raises(DataError, match=f"{tmp_path}: a directory, expected a file"):
        reader(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        reader(tmp_path / "nowhere")


def test_a_text_may_be_one_line_of_any_length(tmp_path):
    (tmp_path / "text").write_bytes(b"ab " * 7_000_000)
    assert len(read_text(tmp_path / "text")) == 21_000_000


@pytest.mark.parametrize("reader", [read_text, read_pairs, read_ids, read_names])
def test_what_is_read_whole_has_a_limit(tmp_path, monkeypatch, reader):
    """A gzip file of a megabyte may hold a gigabyte of zeros and ones."""
    (tmp_path / "bomb").write_bytes(gzip.compress(b"7\tab\n8\t" + b"x" * 1000 + b"\n"))
    monkeypatch.setattr(sys.modules["tinyattn.data.read"], "LONGEST_TEXT", 1008)
    reader(tmp_path / "bomb")
    monkeypatch.setattr(sys.modules["tinyattn.data.read"], "LONGEST_TEXT", 1007)
    with pytest.raises(DataError, match="bomb: more than 1,007 bytes of text"):
        reader(tmp_path / "bomb")


def test_blanks_at_the_end_of_a_chunk_make_no_line(tmp_path):
    (tmp_path / "d.txt").write_text("1 10 \n" * 400_000)
    assert len(read(tmp_path / "d.txt")) == 400_000


@pytest.mark.parametrize(
    ("line", "last", "message", "form"),
    [
        ("1 2", "\r1 3", " has a carriage return", None),
        ("1 2", "\ufeff1 3", " begins with a byte order mark", None),
        ("1 2", "x 1 3", ": 3 fields in 'x 1 3'", None),
        ("1 2 3", "1 2 soon", ": time 'soon' is not a finite number", None),
        ("1 2 3 4", f"1 2 {'3' * 300}", ": the item has 300 bytes", "sequences"),
        ('"1",2,3,4', '"1",2,3', ": 3 fields in '1,2,3'", None),
        ('{"user": 1, "item": 2}', "{", " is neither JSON nor", None),
        ('{"user": 1, "item": 2}', '{"user": 1}', ": no item_id in user", None),
        ('{"user": 1, "item": 2, "t": 3}', '{"user": 1, "item": 2, "t": "soon"}', ": time 'soon' is not", None),
    ],
)
def test_lines_are_counted_over_all_pieces(tmp_path, monkeypatch, line, last, message, form):
    in_pieces(monkeypatch, 64)
    (tmp_path / "f").write_bytes(f"{line}\n".encode() * 500 + f"{last}\n".encode())
    with pytest.raises(DataError, match=f"line 501{message}"):
        read(tmp_path / "f", form)


def test_sequences_of_ids(rng):
    data = Interactions.from_sequences([["b", "a"], [], ["a"]])
    assert [data.items.decode(data.sequence(u)).tolist() for u in (0, 2)] == [["b", "a"], ["a"]]
    assert data.lengths.tolist() == [2, 0, 1]
    assert Interactions.from_sequences([np.array([5, 3])]).items.ids.tolist() == [3, 5]
    mixed = "all integers or all strings"
    shape = "expected a list of sequences"
    for bad, message in (
        ([1, 2, 3], shape),
        (["ab"], shape),
        ([[1, "a"]], mixed),
        ([[1], ["a"]], mixed),
        ([[1.5]], mixed),
        ([], "no interactions"),
        ([[]], "no interactions"),
    ):
        with pytest.raises(ValueError, match=message):
            Interactions.from_sequences(bad)


def test_ids_that_numpy_would_make_one_are_refused():
    """It drops a NUL at the end of a string, and floats beyond 2^53 are several integers."""
    nul = "item id 'a.x00' has a NUL in it"
    with pytest.raises(ValueError, match=nul):
        Interactions.from_sequences([["a\0", "a"]])
    with pytest.raises(ValueError, match=nul):
        Interactions.of(Frame(user=np.array([1, 1]), item=np.array(["a\0", "a"], object)))
    with pytest.raises(ValueError, match="item ids are float64, expected integers or strings"):
        Interactions.of(np.array([[1.0, 1e300], [1.0, 1e301]]))
    frame = Frame(user=np.ones(2, int), item=np.ones(2, int), time=np.array(["2020-01-01", "NaT"], "M8[s]"))
    with pytest.raises(ValueError, match="time NaT in row 1 is not a time"):
        Interactions.of(frame)
    with pytest.raises(ValueError, match=r"unknown item id 'a.x00'"):
        Interactions.from_sequences([["a", "b"]]).items.numbers(["a\0"])


class Column:
    """As much of a column of Polars as is asked of it: `array` may have lost something of `values`, or be an error."""

    def __init__(self, array, values=()):
        self.array, self.values = array, values

    def __array__(self, dtype=None, copy=None):
        if isinstance(self.array, Exception):
            raise self.array
        return self.array

    def to_list(self):
        return self.values


def test_frames_that_become_other_arrays_are_refused(rng):
    ones, edge, old = np.ones(2, int), np.array([2**63, -1], object), datetime.datetime(2020, 1, 1)
    nul = Column(np.array(["a", "a"]), ["a", "a\0"])
    wide = Column(TypeError("cannot convert i128\nto NumPy"))
    gone = type("NaT", (datetime.datetime,), {"__ne__": lambda self, other: True})(2020, 1, 1)
    for frame, message in (
        (Frame(user=nul, item=ones), r"in column user, 'a.x00' has a NUL in it"),
        (Frame(user=ones, item=wide), "column item is no array of NumPy: cannot convert i128"),
        (Frame(user=ones, item=ones, other=wide), "column other is no array of NumPy"),
        (Frame(user=ones, item=ones, time=edge), "time 9223372036854775808 is no integer of 64 bits"),
        (Frame(user=ones, item=ones, time=np.array([old, gone])), "time NaT in row 1 is not a time"),
        (Frame(user=ones[:0], item=ones[:0]), "no interactions: expected at least one row"),
        (np.ones((0, 2), int), "no interactions: expected at least one row"),
        (SimpleNamespace(collect=None, columns=["user", "item"]), "a SimpleNamespace has no rows yet: pass"),
    ):
        with pytest.raises(ValueError, match=message):
            Interactions.of(frame)
    late = np.array([2**62 + i for i in (3, 1, 2)], object)             # equal as floats
    frame = Frame(user=np.ones(3, int), item=np.arange(3), time=late)
    assert Interactions.of(frame).items.decode(Interactions.of(frame).sequence(0)).tolist() == [1, 2, 0]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_of_each_package(package):
    """Where it is installed; benchmarks/attacks.py tries many more."""
    made = pytest.importorskip(package).DataFrame({"user": [2, 1, 1], "item": ["b", "c", "a"], "time": [1, 3, 2]})
    assert sequences(Interactions.of(made)) == {1: ["a", "c"], 2: ["b"]}
    with pytest.raises(ValueError, match="no interactions"):
        Interactions.of(made[:0])


def test_times_that_do_not_fit_into_one_number_with_users_are_sorted_all_the_same(tmp_path, rng):
    """Of most files a row's user and time make one int64; times may span all of that."""
    for least, most in ((0, 9), (-(2**63), 2**63 - 1)):
        times = rng.integers(least, most, 50, endpoint=True)
        path = tmp_path / "d.txt"
        path.write_text("".join(f"{row % 3} {row} {time}\n" for row, time in enumerate(times.tolist())))
        data = read(path)
        for user in range(3):
            rows = range(user, 50, 3)
            assert data.items.decode(data.sequence(user)).tolist() == sorted(rows, key=times.tolist().__getitem__)


@pytest.mark.parametrize("longest", [8, 9, 16, 17, 18])
def test_integers_of_every_length_are_read_digit_by_digit(longest, tmp_path):
    """Of nine to sixteen digits they are two words of eight bytes; one longer one, and all are read in another way."""
    numbers = [int("1234567898765432123"[:n]) for n in range(1, longest + 1)] + [10**n for n in range(longest)]
    (tmp_path / "f").write_text("".join(f"{n} 5 {n}\n" for n in numbers))
    data = read(tmp_path / "f")
    assert data.users.ids.tolist() == sorted(set(numbers))
    assert data.times.tolist() == sorted(numbers)


def test_dates_of_a_frame_are_seconds_and_columns_are_of_one_length():
    days = np.array([datetime.date(1970, 1, 2), datetime.date(1970, 1, 1)], object)
    data = Interactions.from_columns(np.array([1, 1]), np.array([5, 6]), as_times(days))
    assert data.times.tolist() == [0, 86400]
    with pytest.raises(ValueError, match="columns of 2 users, 1 items: expected as many of each"):
        Interactions.from_columns(np.array([1, 1]), np.array([5]))


def test_a_source_reads_as_it_was_asked_and_is_named_by_its_file(tmp_path, monkeypatch):
    (tmp_path / "tiny.txt.gz").write_text("1 2\n1 3\n2 3\n2 2\n3 9\n")
    plain, cored = (Source.of(str(tmp_path / "tiny.txt.gz"), k_core=k) for k in (None, 2))
    assert (plain.name, plain.title) == ("tiny", str(tmp_path / "tiny.txt.gz"))
    assert (len(plain.load()[0]), "k_core" in plain.load()[0].notes) == (5, False)
    assert (len(cored.load()[0]), cored.load()[0].notes["k_core"], cored.load()[1]) == (4, 2, None)
    assert Source.from_config(cored.describe()) == cored
    assert TextSource.of(str(tmp_path / ".txt")).name == "text"
    assert {Source.of(f"ml.1m{end}").name for end in (".inter", ".csv.gz", ".json", ".dat", ".data")} == {"ml.1m"}
    monkeypatch.chdir(tmp_path)
    taught = ImageSource(Path("a.npz"), None, Path("run"))
    assert ImageSource.from_config(taught.describe()).teacher == tmp_path / "run"


@pytest.mark.parametrize(("kind", "name", "title"), [
    (Source, "series", "the world series: people who watch several series at once"),
    (PairSource, "dates", "the task dates: as people write them, and as ISO 8601 does"),
    (TextSource, "grammar", "a generated grammar"), (ImageSource, "shapes", "drawn shapes"),
])  # fmt: skip
def test_a_source_is_a_generator_or_a_file_and_comes_back_from_its_description(
    kind, name, title, tmp_path, monkeypatch
):
    made, file = kind.of(None), kind.of(str(tmp_path / "my-file.txt"))
    assert (made.name, made.title, file.name, file.title) == (name, title, "my-file", str(tmp_path / "my-file.txt"))
    for source in (made, file):
        assert kind.from_config(source.describe()) == source
    monkeypatch.chdir(tmp_path)
    assert kind.of("my-file.txt").describe() == file.describe()  # a run is also opened from other folders
