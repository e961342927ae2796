"""Each form that files come in, from small generated files that look like the real ones."""

import gzip
import json
import re
import tracemalloc

import numpy as np
import pytest

from tests.helpers import in_pieces
from tinyattn.data import FORMATS, DataError, Interactions, read

# user 7: 30 20 10 in time; user 8: 10 30 in time; written out of order where there is a time
ROWS = [(7, 10, 300), (8, 10, 100), (7, 30, 100), (7, 20, 100), (8, 30, 150)]
EXPECTED = {7: [30, 20, 10], 8: [10, 30]}
IN_ORDER = [(7, 30), (7, 20), (7, 10), (8, 10), (8, 30)]

FILES = {
    "pairs": "".join(f"{u} {i}\n" for u, i in IN_ORDER),
    "sequences": "7 30 20 10\n8 10 30\n",
    "triples": "".join(f"{u} {i} {t}\n" for u, i, t in ROWS),
    "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    + "".join(f"{u}\t{i}\t4\t{t}\n" for u, i, t in ROWS),
    "movielens-1m": "".join(f"{u}::{i}::5::{t}\n" for u, i, t in ROWS),
    "movielens-100k": "".join(f"{u}\t{i}\t3\t{t}\n" for u, i, t in ROWS),
    "movielens-csv": "userId,movieId,rating,timestamp\n" + "".join(f"{u},{i},3.5,{t}\n" for u, i, t in ROWS),
    "amazon-json": "".join(
        json.dumps({"reviewerID": f"{u}", "asin": f"{i}", "overall": 5.0, "reviewText": "fine, \"really\"",
                    "unixReviewTime": t}) + "\n" for u, i, t in ROWS
    ),
    "amazon-csv": "".join(f"{u},{i},5.0,{t}\n" for u, i, t in ROWS),
    "header": "# user item time\n" + "".join(f"{u} {i} {t}\n" for u, i, t in ROWS),
    "gru4rec": "SessionId\tItemId\tTime\n" + "".join(f"{u}\t{i}\t{t}.25\n" for u, i, t in ROWS),
}  # fmt: skip


def sequences(data):
    return {u: data.items.decode(data.sequence(i)).tolist() for i, u in enumerate(data.users.ids.tolist())}


def written(folder, text, name="file"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_format_has_a_file_here():
    assert set(FILES) == set(FORMATS)


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_detected_by_content(tmp_path, name, zipped):
    text = FILES[name].encode()
    data = read(written(tmp_path, gzip.compress(text) if zipped else text))
    assert data.notes["format"] == name
    assert sequences(data) == EXPECTED


@pytest.mark.parametrize("name", FILES)
def test_named_and_refused_where_it_is_another(tmp_path, name):
    assert sequences(read(written(tmp_path, FILES[name]), format=name)) == EXPECTED
    with pytest.raises(DataError, match=f"that is not {name}, which looks like"):
        read(written(tmp_path, "only\n"), format=name)


def test_old_amazon_dumps_are_python_literals_and_nothing_is_executed(tmp_path):
    line = "{{'reviewerID': 'A{}', 'asin': '00{}', 'overall': 5.0, 'unixReviewTime': {}}}\n"
    rows = "".join(line.format(*row) for row in ROWS)
    data = read(written(tmp_path, rows))
    assert sequences(data) == {"A7": ["0030", "0020", "0010"], "A8": ["0010", "0030"]}
    trace = tmp_path / "executed"
    evil = f"{{'reviewerID': open({str(trace)!r}, 'w'), 'asin': 'b', 'unixReviewTime': 1}}\n"
    with pytest.raises(DataError, match="line 1 is neither JSON nor a Python literal"):
        read(written(tmp_path, evil))
    assert not trace.exists()
    large = "{'reviewerID': 'A', 'asin': 'b', 'unixReviewTime': 1, 'text': [" + "-1," * 400_000 + "]}\n"
    tracemalloc.start()
    with pytest.raises(DataError, match="line 1 is neither JSON nor a Python literal of at most 65,536 characters"):
        read(written(tmp_path, large))
    assert tracemalloc.get_traced_memory()[1] < 40e6         # parsed, it took 500 MB
    tracemalloc.stop()
    with pytest.raises(DataError, match="line 2: no item_id in"):
        read(written(tmp_path, rows.split("\n")[0] + "\n{'reviewerID': 'A', 'unixReviewTime': 3}\n"))


JSON = '{{"user_id": {}, "item_id": {}, "timestamp": {}}}\n'


@pytest.mark.parametrize(
    ("user", "time", "message"),
    [
        ("null", "3", "user_id is None, expected a string or an integer"),
        ("true", "3", "user_id is True, expected a string or an integer"),
        ("1.0", "3", "user_id is 1.0, expected a string or an integer"),
        ('["a"]', "3", "user_id is a list, expected a string or an integer"),
        ('""', "3", "the user is empty"),
        (r'"a\u0000"', "3", "user 'a.x00' has a line end or a NUL in it"),
        (r'"a\nb"', "3", "user 'a.nb' has a line end or a NUL in it"),
        (r'"a\rb"', "3", "user 'a.rb' has a line end or a NUL in it"),
        (r'"\ud800"', "3", "user '.ud800' is not text"),
        ('"a"', "null", "timestamp is None, expected a number"),
        ('"a"', "NaN", "time 'nan' is not a finite number"),
        ('"a"', '"soon"', "time 'soon' is not a finite number"),
        ("0x" + "f" * 600, "3", "user_id is an integer of more than 256 bytes"),
    ],
)
def test_ids_in_json_are_strings_or_integers(tmp_path, user, time, message):
    good = JSON.format('"a"', 7, '"1370000000"')
    assert sequences(read(written(tmp_path, good))) == {"a": [7]}
    with pytest.raises(DataError, match=f"line 2: {message}"):
        read(written(tmp_path, good + JSON.format(user, 7, time)))


DATES = "user,item,time\n1,30,2023-12-03 11:17:37\n1,20,2023-12-03T11:17:36.5Z\n1,10,2023-12-03\n"


def test_dates_of_iso_8601_are_seconds_since_1970(tmp_path):
    data = read(written(tmp_path, DATES))
    assert sequences(data) == {1: [10, 20, 30]}
    assert data.times.tolist() == [1701561600.0, 1701602256.5, 1701602257.0]
    bads = ["2023-13-03", "2023-12", "now", "NaT", "2023-12-03T11:17:37+2:00", "7", "9999999-01-01"]
    bads += ["2023-12-03 103000", "2023-12-03T11:17:37ZZZ"]         # which NumPy takes, the first with a warning
    bads += ["2023-12-03 11:", "2023-12-03T11:17:37.", "2023-12-03 25:00", "2023-12-03T11:17+0x:00"]
    zones = ["2023-12-04T00:02:37+12:45", "2023-12-03T05:47:37.0-0530"]
    zones += ["2023-12-03 11:17+00:00", "2023-12-03T11:17:37Z", "2023-12-03 13+02:00"]
    data = read(written(tmp_path, "user,item,time\n" + "".join(f"1,{i},{t}\n" for i, t in enumerate(zones))))
    assert data.times.tolist() == [1701601200, 1701602220, *[1701602257] * 3]
    for bad in bads:
        with pytest.raises(DataError, match=f"line 5: time {re.escape(repr(bad))} is not a date, as those above are"):
            read(written(tmp_path, f"{DATES}1,40,{bad}\n"))
    with pytest.raises(DataError, match="line 2: time 'soon' is not a finite number, nor a date such as 2023-12-03"):
        read(written(tmp_path, "user,item,time\n1,2,soon\n1,2,2023-12-03\n"))


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ("2023-12-03", "7", "a date, as those above are"),
        ("2023-12-03", "7.5", "a date, as those above are"),
        ("7", "2023-12-03", "a finite number, as those above are"),
        ("7.5", "2023-12-03", "a finite number, as those above are"),
    ],
)
def test_the_first_time_of_a_file_says_what_all_are(tmp_path, monkeypatch, first, other, expected):
    """Of the file, and not of each piece that is read at a time."""
    above = "user,item,time\n" + f"1,2,{first}\n" * 9
    objects = JSON.format(1, 2, f'"{first}"') * 10 + JSON.format(1, 3, f'"{other}"')
    for text in (above + f"1,3,{other}\n" * 3, above + f'1,"3",{other}\n' * 3, objects):
        path = written(tmp_path, text)
        for size in (1, 7, 64, 1 << 20):
            in_pieces(monkeypatch, size)
            with pytest.raises(DataError, match=f"line 11: time '{other}' is not {expected}"):
                read(path)


def test_a_column_that_is_named_has_no_usual_name_besides(tmp_path):
    data = read(written(tmp_path, "user,timestamp,item\n7,a,soon\n7,b,late\n"), columns="user=user,item=timestamp")
    assert sequences(data) == {7: ["a", "b"]}


HEADERS = ["user item", "#user_id item_id", "# item user", "user;item", "USER|ITEM", "user::item"]


@pytest.mark.parametrize("header", HEADERS)
def test_headers_of_tables_are_no_ids(tmp_path, header):
    separator = next(s for s in ("::", ";", "|", " ") if s in header.strip("# "))
    rows = [(i, u) if header.startswith("# item") else (u, i) for u, i in IN_ORDER]
    data = read(written(tmp_path, header + "\n" + "".join(f"{a}{separator}{b}\n" for a, b in rows)))
    assert sequences(data) == EXPECTED
    assert data.notes["format"] == "header"


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_quotes_are_those_of_csv(tmp_path, separator):
    head = separator.join(["user", "item", "note", "time"]) + "\n"
    rows = ['1,"Toy, Story",,4', '"1", "say ""hi""" ,"",5', "1,Toy, 5\" disc,6", '"1","Toy"," x\ny ",7']
    text = head + "\n".join(row.replace(",", separator) for row in rows) + "\n"
    found = {1: ["Toy, Story".replace(",", separator), 'say "hi"', "Toy", "Toy"]}
    columns = "user=user,item=item,time=time"
    assert sequences(read(written(tmp_path, text.replace('" ', '"')), columns=columns)) == found


def test_quotes_that_begin_far_down_change_nothing_above(tmp_path):
    rows = "".join(f"{i % 7},B{i % 50},5.0,{i}\n" for i in range(100_000))
    plain = read(written(tmp_path, rows + "1,B1,5.0,7\n"))
    assert read(written(tmp_path, rows + '1,"B1",5.0,7\n')).fingerprint() == plain.fingerprint()


def test_users_may_be_numbers_and_items_words(tmp_path):
    assert sequences(read(written(tmp_path, "userId,movieId\n1,movieId\n1,b\n"))) == {1: ["movieId", "b"]}
    assert sequences(read(written(tmp_path, "ann x1\n"))) == {"ann": ["x1"]}
    assert sequences(read(written(tmp_path, "ann x\n1 2\nann y\n"))) == {"1": ["2"], "ann": ["x", "y"]}
    assert sequences(read(written(tmp_path, "#1 x\n#2 y\n"))) == {"#1": ["x"], "#2": ["y"]}
    assert sequences(read(written(tmp_path, "a,2014-04-07,5,100\na,x,4,200\n"))) == {"a": ["2014-04-07", "x"]}
    assert sequences(read(written(tmp_path, "user item\nuser a\nb item\n"))) == {"b": ["item"], "user": ["a"]}


def test_blanks_beside_a_comma_belong_to_no_id(tmp_path):
    assert sequences(read(written(tmp_path, "1, 2,5, 3\n 1,\t2 ,5,4\n"))) == {1: [2, 2]}


def test_fields_that_are_not_asked_for_may_be_empty(tmp_path):
    assert sequences(read(written(tmp_path, "A,x,,1\nA,y,,2\n"))) == {"A": ["x", "y"]}


def test_ids_of_every_alphabet_are_kept(tmp_path):
    data = read(written(tmp_path, "žofie käse\nžofie 寿司\nbob käse\n"))
    assert sequences(data) == {"bob": ["käse"], "žofie": ["käse", "寿司"]}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("".join(f"{u};{i};x;{t}\n" for u, i, t in ROWS), "user;item;-;time"),
        ("".join(f"{t}|{i}|{u}\n" for u, i, t in ROWS), "time|item|user"),
        ("when;who;what\n" + "".join(f"{t};{u};{i}\n" for u, i, t in ROWS), "user=who,item=what,time=when"),
        ("client\tsku\tts\n" + "".join(f"{u}\t{i}\t{t}\n" for u, i, t in ROWS), "user=client,item=sku,time=ts"),
        ("".join(f"{u},{i}\n" for u, i in IN_ORDER), "user,item"),
        ("".join(f"a:b::{u}::{i}::{t}\n" for u, i, t in ROWS), "-::user::item::time"),
        ("".join(f"{t}  {u}\t{i}\n" for u, i, t in ROWS), "time user item"),
        ("".join(f"{t}\t{u} \t{i}\n" for u, i, t in ROWS), "time\tuser\titem"),
    ],
)
def test_columns_describe_any_other_table(tmp_path, text, columns):
    data = read(written(tmp_path, text), columns=columns)
    assert sequences(data) == EXPECTED
    assert data.notes["format"] == "columns"


@pytest.mark.parametrize("columns", ["user", "user;thing", "user;user;item", "user=who", "user=who,item=what,size=x",
                                     "", " ", "user=who,user=what,item=what", "user=who,item=what,x", 'user"item'])
def test_columns_that_say_nothing_clear_are_refused(tmp_path, columns):
    with pytest.raises(DataError, match="--columns"):
        read(written(tmp_path, "who;what\n1;2\n"), columns=columns)


def test_one_column_is_not_two(tmp_path):
    with pytest.raises(DataError, match="line 1: two of user, item are the same column of the header 'who;what'"):
        read(written(tmp_path, "who;what\n1;2\n"), columns="user=who,item=who")


def test_a_template_for_a_table_with_a_header_is_refused(tmp_path):
    with pytest.raises(DataError, match="line 1 is 'user;item', which seems to be a header"):
        read(written(tmp_path, "user;item\n1;2\n"), columns="user;item")


def test_ids_that_differ_stay_apart_in_every_chunk(tmp_path, rng):
    """Numbers in most chunks and words in one; ids of 1 to 40 bytes, so of one to five words of 64 bits."""
    ids = [*map(str, range(-5, 2000)), "007", "-0", *("x" * n for n in range(1, 41)), *("ž" * n for n in range(1, 20))]
    drawn = rng.choice(ids, 400_000)
    drawn[:300_000] = rng.choice(ids[:2000], 300_000)
    data = read(written(tmp_path, "".join(f"1 {i}\n" for i in drawn)))
    assert data.items.decode(data.sequence(0)).tolist() == drawn.tolist()


def test_ties_in_time_are_counted_and_keep_the_files_order(tmp_path):
    data = read(written(tmp_path, "1 10 5\n1 11 5\n2 10 1\n2 11 2\n3 10 7\n"))
    assert data.notes["ties"] == 0.5  # of the two users with two events
    assert data.sequence(0).tolist() == [1, 2]


def test_times_with_fractions_and_large_ones_are_not_rounded_together(tmp_path):
    rows = "".join(f"1 {i} {1_700_000_000 + t}\n" for i, t in ((10, 3), (11, 1), (12, 2)))
    assert sequences(read(written(tmp_path, rows))) == {1: [11, 12, 10]}
    rows = "".join(f"1 {i} 1700000000.{t}\n" for i, t in ((10, 3), (11, 1), (12, 2)))
    assert sequences(read(written(tmp_path, rows))) == {1: [11, 12, 10]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2\n1,3\n", r"line 2: 1 fields in '1,3', expected 2"),                      # mixed separators
        ("1\t2\t3\t4\n1\t2\t3\n", "line 2: 3 fields"),
        ("userId,movieId\n1,2\nuserId,movieId\n", "line 3: the header is repeated"),
        ("user_id:token\titem_id:token\tuser_id:token\n1\t2\t3\n", "the header names user_id twice"),
        ("userId,rating,timestamp\n1,2,3\n", "no column item_id in .* user=userId,item=NAME,time=timestamp$"),
        ("userId,movieId\n", "a header and no interactions"),
        ("7 1 2\n8 1\n7 3 4 5\n", "line 2: 2 fields"),                                 # a user twice: no sequences file
        ("1 2 x\n", "line 1: time 'x' is not a finite number"),
        ("1 2 inf\n", "line 1: time 'inf'"),
        ("{}\n", "line 1: no user_id"),
        ("[1 2]\n{\n", "line 2: 1 fields"),
        ("7\n8\n", "one column, expected a user and an item at least"),
        ('[{"user": 1, "item": 2}]\n', "as of a JSON array: expected an object on each line, as `jq"),
        ('[\n  {"user": 1, "item": 2}\n]\n', "as of a JSON array: expected an object on each line, as `jq"),
        ("1,2 3\n", "line 1 is '1,2 3', and its columns are not known"),               # no pair of `1,2` and `3`
        ("1 2 1_000\n", "line 1: time '1_000' is not a finite number"),
        ("1 2 3\n1 2 ٣\n", "line 2: time '٣' is not a finite number"),
        ("1 2 3\n1 2 1e999\n", "line 2: time '1e999' is not a finite number"),
        ("A,B,5.0,1\nA,,5.0,1\n", "line 2: the item is empty"),
        ("1\t\t3\t4\n", "line 1: the item is empty"),
        ("1::2::3::4\n" * 100 + "1::2::3:4\n", "line 101: 3 fields in '1::2::3:4', expected 4"),
        ('1,"a"b,3,4\n', "its columns are not known; .* --columns user=NAME,item=NAME$"),
        ('1,a,3,4\n1,"a"b,3,4\n', r"line 2 is no line of CSV: ',' expected after"),
        ('1,a,3,4\n1,"a\nb",3,4\n', r"line 2: item 'a\\nb' has a line end or a NUL in it"),
        ('1,a,3,4\n1,"a,3,4\n', "line 2 is no line of CSV: unexpected end of data"),
        ('1,a,3,4\n1,"a",3\n', "line 2: 3 fields in '1,a,3', expected 4"),
        ('user_id,item_id,timestamp,note\n1,2,3,"a\nb\nc"\n1,3,4,"d"\n1,4\n', "line 6: 2 fields"),
        ("kunde ware\n1 2\n1 3\n", "which seems to be a header; .* add --columns user=kunde,item=ware$"),
        ("kunde,ware,stars,time\n1,2,4,3\n", "seems to be a header; .* --columns user=kunde,item=ware,time=time$"),
        ("user items\n1 2 3\n2 3 4 5\n", "line 1 is 'user items', which seems to be a header"),
        ("user_id ware\nann x1\n", "which seems to be a header"),
        ("# user 1\n", "line 1 is '# user 1', which seems to be a header; .* add --columns 'user item'$"),
        ("who what when\nann x1 3\nbob x2 5\n", "line 1 is 'who what when', which seems to be a header"),
        ("#exported today\nann x1\n", "which seems to be a comment: remove it"),
        ("user_id::item_id::rating::timestamp\n", "a header and no interactions"),
        ("user item time\n1 2 3\nuser item 5\n", "line 3: the header is repeated"),
    ],
)  # fmt: skip
def test_bad_content_is_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2014-04-07T10:51:09.277Z,214536502,0\n" * 2, "items would be dates; .* add --columns user,time,item,-$"),
        ("7,10,1500000000,4.5\n7,20,1500000060,3\n", "its ratings would be times, and its times ratings"),
        ("1\tU1\t11/11/2019 9:05 AM\tN5 N4\tN5\n2\tU2\t11/12/2019 6:11 PM\tN3\tN7\n", r"'user\\titem\\ttime\\t-\\t-'$"),
        ('{"who": 1, "what": 2}\n', "no user_id in who, what; .* add --columns user=who,item=what$"),
    ],
)
def test_columns_of_known_tables_in_another_order_are_not_guessed(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read(written(tmp_path, text))


def test_sequences_of_one_length_are_read_by_name(tmp_path):
    data = read(written(tmp_path, "1 10 11 12\n2 11 10 13\n"), "sequences")
    assert sequences(data) == {1: [10, 11, 12], 2: [11, 10, 13]}
    with pytest.raises(DataError, match=r"its columns are not known; .* --format sequences"):
        read(tmp_path / "file")
    assert read(written(tmp_path, "1 10 11 12 13\n2 11 10 13 12\n")).notes["format"] == "sequences"


def test_objects_may_have_unusual_names_and_no_times(tmp_path):
    rows = [{"user": 1, "client": 7, "sku": item, "day": f"2024-0{month}-01"} for item, month in (("b", 2), ("a", 1))]
    path = written(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows))
    untimed = read(path, columns="user=client,item=sku,time=-")
    assert sequences(untimed) == {7: ["b", "a"]}
    assert untimed.notes["columns"] == "user, item; no times: the file's order is taken"
    assert sequences(read(path, columns="user=client,item=sku,time=day")) == {7: ["a", "b"]}
    with pytest.raises(DataError, match=r"column day looks like times, .* user=client,item=sku,time=day reads it"):
        read(path, columns="user=client,item=sku")
    with pytest.raises(DataError, match="format is pairs and columns are 'user item', expected one of them"):
        read(path, "pairs", "user item")


def test_what_each_column_was_read_as_is_said(tmp_path):
    told = "user (user_id), item (item_id); no times: the file's order is taken; not read: place"
    assert read(written(tmp_path, "user_id,item_id,place\n1,2,3\n")).notes["columns"] == told
    assert read(written(tmp_path, FILES["movielens-100k"])).notes["columns"] == "user, item, rating, time"
    assert read(written(tmp_path, FILES["sequences"])).notes["columns"] == "user, items"
    assert read(written(tmp_path, FILES["pairs"])).notes["columns"] == "user, item"


def test_a_users_second_line_deep_in_a_sequences_file_is_named(tmp_path, monkeypatch):
    in_pieces(monkeypatch, 64)
    rows = [f"{u} " + " ".join(str(i) for i in range(u % 5 + 2)) for u in range(200)]
    with pytest.raises(DataError, match="lines 51 and 201 are of the same user, 50"):
        read(written(tmp_path, "\n".join([*rows, "50 1 2"]) + "\n"))


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(DataError, match="unknown format 'xml', expected one of"):
        read(written(tmp_path, "1 2\n"), format="xml")


def test_pieces_that_cut_lines_anywhere_give_the_same(tmp_path, monkeypatch, rng):
    rows = [(int(u), f"i{i}", int(t)) for u, i, t in rng.integers(0, 50, (400, 3))]
    path = written(tmp_path, "".join(f"{u} {i} {t}\r\n" for u, i, t in rows))
    whole = read(path)
    for size in (1, 7, 64, 1000):
        in_pieces(monkeypatch, size)
        assert read(path).fingerprint() == whole.fingerprint()


def test_k_core(tmp_path):
    data = Interactions.from_sequences([["a", "b", "c"], ["a", "b"], ["a", "b", "d"], ["c"]])
    core = data.k_core(2)
    assert sequences(core) == {1: ["a", "b"], 2: ["a", "b"], 3: ["a", "b"]}  # c falls with user 4, d by itself
    assert core.notes == {"k_core": 2, "removed": 3}
    with pytest.raises(ValueError, match="the 4-core is empty"):
        data.k_core(4)
    for k in (0, -5):
        with pytest.raises(ValueError, match=f"k of the k-core is {k}, expected at least 1"):
            data.k_core(k)


def test_report():
    report = Interactions.from_sequences([[1, 2, 3], [1], [2, 3]]).report()
    assert report["users"] == 3
    assert report["density"] == 6 / 9
    assert report["length"] == {"least": 1, "median": 2.0, "mean": 2.0, "most": 3}
    assert report["users with fewer than 3"] == 2


@pytest.mark.parametrize("text", ["7", "-7", "0", "123456789012345678", "9223372036854775807", "-9223372036854775808"])
def test_plain_integers_become_int64(tmp_path, text):
    from tinyattn.data.fields import integers

    assert integers(np.array([text.encode(), b"5"])).tolist() == [int(text), 5]
    assert sequences(read(written(tmp_path, f"1 {text}\n1 5\n"))) == {1: [int(text), 5]}


@pytest.mark.parametrize("text", ["007", "+7", "-0", "7.0", "x", "9223372036854775808", "-", "1_0", "٣", "1e3", "0x1"])
def test_all_else_stays_text(tmp_path, text):
    from tinyattn.data.fields import integers

    assert integers(np.array([text.encode(), b"5"])) is None
    assert sequences(read(written(tmp_path, f"1 5\n1 {text}\n"))) == {1: ["5", text]}
