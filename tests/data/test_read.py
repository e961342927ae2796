"""Files as people bring them, good and bad. All are generated here."""

import gzip

import numpy as np
import pytest

from tinyattn.data import DataError, read

TEXT = "1 10\n1 11\n2 10\n2 12\n2 11\n"
INTER = (
    "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    "7\t30\t5\t300\n8\t10\t4\t100\n7\t20\t3\t100\n7\t10\t1\t100\n8\t30\t2\t50\n"
)


def sequences(data):
    return {u: data.items.decode(data.sequence(i)).tolist() for i, u in enumerate(data.users.ids.tolist())}


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


def test_users_need_not_be_contiguous(tmp_path):
    path = tmp_path / "d.txt"
    path.write_text("1 10\n2 10\n1 11\n")
    assert sequences(read(path)) == {1: [10, 11], 2: [10]}


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
        (b"1\n", "line 1 is '1', which looks like none of"),
        (b"1 2\n\n1 3\n", "line 2: 0 fields"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-9], "not a whole gzip file"),
        (b"\x1f\x8bjunk", "not a whole gzip file"),
        (b"\xff\xfe\x00\x01 binary", "not text"),
        ("caf\xe9 1\n".encode("latin-1"), "not UTF-8 text: convert it first"),
        (b"1 2\n1 \x00\n", "not text"),
        (b"user_id:token\trating:float\n1\t2\n", "has no column item_id"),
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


def test_a_missing_file_and_a_directory(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match="a directory, expected a file"):
        read(tmp_path)


def test_sequences_of_ids(rng):
    from tinyattn.data import Interactions

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
