"""Item names and lists of ids: what files people have, and what is wrong with them."""

import gzip

import pytest

from tinyattn.data import DataError, read_ids, read_names


@pytest.mark.parametrize(
    "content",
    [
        b"7\tSeven, or so\n8\tCaf\xc3\xa9\n",
        "7::Seven, or so::Drama|Comedy\n8::Café::War\n".encode("latin-1"),
        b"7|Seven, or so|01-Jan-1995\n8|Caf\xe9|1996\n",
        b'movieId,title,genres\n7,"Seven, or so",Drama\n8,Caf\xc3\xa9,War\n',
        b'item_id;name\r\n7;"Seven, or so"\r\n\r\n8;Caf\xc3\xa9\r\n',
        b"\xef\xbb\xbfitem_id:token\tname:token_seq\n 7 \t Seven, or so \n8\tCaf\xc3\xa9",
        gzip.compress(b"7\tSeven, or so\n8\tCaf\xc3\xa9\n7\tSeven, or so\n", mtime=0),
    ],
    ids=["tab", "movies.dat", "u.item", "movies.csv", "semicolon, CRLF", "RecBole, BOM", "gzip, twice the same"],
)
def test_names_are_read_from_what_people_have(content, tmp_path):
    path = tmp_path / "names"
    path.write_bytes(content)
    names = read_names(path)
    assert len(names) == 2
    assert (names.of(7), names.of("7"), names.of(8), names.of(9)) == ("Seven, or so", "Seven, or so", "Café", "")
    assert (names.label(8), names.label(9)) == ("8 Café", "9")
    assert names.unknown([7, 9]) == 1


def test_names_are_cut_where_there_is_little_room_and_ids_never(tmp_path):
    path = tmp_path / "names"
    path.write_text("7\tA name of 20 letters\n8\tA name of 21 letters.\n")
    names = read_names(path)
    assert names.short(7) == "A name of 20 letters"
    assert names.short(8) == "A name of 21 letter…"
    assert names.short("an-id-that-is-much-longer") == "an-id-that-is-much-longer"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1 has no second column"),
        (b"7 Seven\n", "line 1 has no second column"),
        (b"7\tSeven\n8\n", "line 2 is '8': expected an id and a name"),
        (b"7,A\n7,B\n", "line 2: item 7 is 'B', and was 'A' before"),
        (b"7\t\0\n", "not text"),
        (b"7,A\r8,B\r", "line 1 is no line of CSV: new-line character"),
        (b"7," + b"x" * 200_000, "line 1 is no line of CSV: field larger than"),
        (b"7\tA\n" + b"x" * 200, r"line 2 is 'x{57}\.\.\.'"),
        (gzip.compress(b"7\tSeven\n" * 99, mtime=0)[:30], "not a whole gzip file"),
    ],
)
def test_bad_names_are_named(content, message, tmp_path):
    path = tmp_path / "names"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"names: {message}"):
        read_names(path)


def test_ids_are_lines(tmp_path):
    path = tmp_path / "ids"
    path.write_text(" 7\n\nabc\r\n7\n")
    assert read_ids(path) == ["7", "abc"]
    assert read_ids(path, distinct=False) == ["7", "abc", "7"]
    for wrong, message in ((tmp_path, "a directory"), (tmp_path / "none", "no such file")):
        with pytest.raises(DataError, match=message):
            read_ids(wrong)


def test_an_id_that_is_listed_again_counts_once_and_names_of_others_are_counted(tmp_path):
    path = tmp_path / "f"
    path.write_text("7\n8\n7\n")
    assert read_ids(path) == ["7", "8"]
    path.write_text("7\tA\n8\tB\n9\tC\n")
    assert (read_names(path).unknown([7]), read_names(path).unknown([7, 8, 9, 10, 11])) == (2, 0)
    path.write_text("7\tA\nitem\tB\n")  # a header is in line 1 alone
    assert read_names(path).of("item") == "B"


def test_of_several_separators_the_first_of_the_list_separates(tmp_path):
    path = tmp_path / "f"
    for separator, name in (("::", "a\tb|c;d,e"), ("\t", '"a"|b;c,d'), ("|", "a;b,c"), (";", "a,b")):
        path.write_text(f"7{separator}{name}\n")
        assert read_names(path).of(7) == name
