"""Dates in text: in which order day and month are, and what looks like times."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

from tests.helpers import Frame
from tinyattn.data import DataError, Interactions, read
from tinyattn.data.dates import by_day_or_month, in_seconds, look_like_times


def times_of(path, *texts):
    path.write_text("user;item;time\n" + "".join(f"1;{i};{text}\n" for i, text in enumerate(texts)))
    return sorted(read(path).times.tolist())


def since_1970(*when):
    return datetime(*when, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("26/12/2023", "04/12/2023"), [(2023, 12, 4), (2023, 12, 26)]),
        (("12/26/2023", "12/04/2023"), [(2023, 12, 4), (2023, 12, 26)]),
        (("26-12-2023", "1-2-2024"), [(2023, 12, 26), (2024, 2, 1)]),
        (("04.12.2023 21:21", "04.12.2023 21:20:59"), [(2023, 12, 4, 21, 20, 59), (2023, 12, 4, 21, 21)]),
        (("11/13/2019 12:05 AM", "11/13/2019 6:11pm"), [(2019, 11, 13, 0, 5), (2019, 11, 13, 18, 11)]),
        (("29/2/2024", "1/1/1969"), [(1969, 1, 1), (2024, 2, 29)]),
        (("2019-10-01 00:00:00 UTC", "2019-10-01T00:00:01 GMT"), [(2019, 10, 1), (2019, 10, 1, 0, 0, 1)]),
        (("2019/10/02", "2019/10/01 10:00"), [(2019, 10, 1, 10), (2019, 10, 2)]),
    ],
)
def test_dates_whose_order_the_column_shows(tmp_path, texts, expected):
    assert times_of(tmp_path / "f", *texts) == [since_1970(*when) for when in expected]


def test_the_whole_column_decides_also_across_pieces(tmp_path):
    """The only day above 12 is in the last of many rows."""
    first = ["04/12/2023"] * 200_000
    times = times_of(tmp_path / "f", *first, "26/12/2023")
    assert (times[0], times[-1]) == (since_1970(2023, 12, 4), since_1970(2023, 12, 26))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("04/12/2023", "05/12/2023"), "times such as 04/12/2023 may have the day or the month first, .*2023-12-31"),
        (("26/12/2023", "12/26/2023"), "time 26/12/2023 has the day first, and 12/26/2023 the month"),
        (("04.12.2023", "04.26.2023"), "time 04.12.2023 has the day first, and 04.26.2023 the month"),
        (("30/02/2023",), "time 30/02/2023 is no date"),
        (("26/12/2023", "00/12/2023"), "time 00/12/2023 is no date"),
        (("26/13/2023",), "has the day first, and 26/13/2023 the month"),
        (("26/12/2023", "2023-12-27"), "line 3: time '2023-12-27' is not a date, as those above are"),
        (("26/12/2023", "26/12/23"), "line 3: time '26/12/23' is not a date"),
        (("26/12/2023", "26/12.2023"), "line 3: time"),
        (("26/12/2023 24:00",), "line 2: time '26/12/2023 24:00' is not a finite number, nor a date such as"),
        (("26/12/2023 13:00 PM",), "line 2: time"),
    ],
)
def test_dates_of_no_order_are_refused(tmp_path, texts, message):
    with pytest.raises(DataError, match=message):
        times_of(tmp_path / "f", *texts)


def test_rows_of_dates_are_numbers_and_become_seconds():
    rows = by_day_or_month(np.array([b"31/12/1999 23:59:59", b"01/01/2000"]))
    assert rows.tolist() == [[31, 12, 1999, 86_399, 0], [1, 1, 2000, 0, 0]]
    assert in_seconds(rows).tolist() == [since_1970(1999, 12, 31, 23, 59, 59), since_1970(2000, 1, 1)]
    assert by_day_or_month(np.array([b"1/1/2000", b"7"])) is None


@pytest.mark.parametrize(
    ("values", "times"),
    [
        (["2023-12-03", "2023-12-04"], True), (["26/12/2023"], True), (["1433221332117"], True), (["1433221332"], True),
        (["1433221332.5", "631152000"], True), (["1433221332000000"], True), (["", "1433221332"], True),
        (["1433221332", "7"], False), (["631151999"], False), (["2051222400"], False), (["2020"], False),
        (["\ud800"], False), (["yes"], False), ([""], False), ([], False), (["1"] * 3 + ["1433221332"], False),
        (["nan"], False),
    ],
)  # fmt: skip
def test_what_looks_like_times(values, times):
    assert look_like_times(values) is times


@pytest.mark.parametrize(
    "name",
    ["date", "datetime", "created_at", "event_time", "event_timestamp", "purchase_date", "Order-Date", "t", "t_dat",
     "visited", "eventdate", "when", "last_watch_dt", "Date Time", "InvoiceDate", "timestamp", "unixReviewTime"],
)  # fmt: skip
def test_usual_names_of_times_order_the_rows_in_files_and_frames(tmp_path, name):
    path = tmp_path / "f.csv"
    path.write_text(f"customer_id,article_id,{name}\n1,7,2024-01-02\n1,8,2024-01-01\n")
    data = read(path)
    assert data.items.decode(data.sequence(0)).tolist() == [8, 7]
    columns = {"customer_id": [1, 1], "article_id": [7, 8], name: ["2024-01-02", "2024-01-01"]}
    assert Interactions.of(Frame(columns)).fingerprint() == data.fingerprint()


@pytest.mark.parametrize("values", [("2024-01-02", "2024-01-01"), ("1700000060", "1700000000"), ("26/12/2023",) * 2])
def test_a_column_of_times_with_an_unusual_name_is_refused_with_the_way_out(tmp_path, values):
    path = tmp_path / "f.csv"
    rows = "".join(f"1,{i},{time},1700000000\n" for i, time in enumerate(values))
    path.write_text(f"user,sku,moment,moment_id\n{rows}")
    with pytest.raises(DataError, match=r"moment looks like times, .*: --columns user=user,item=sku,time=moment r"):
        read(path)
    with pytest.raises(DataError, match=r"user=sku,item=user,time=moment reads it, and time=- takes the file's order"):
        read(path, columns="user=sku,item=user")
    kept = read(path, columns="user=user,item=sku,time=-")
    assert kept.items.decode(kept.sequence(0)).tolist() == [0, 1]
    if values[0] != values[1]:
        sorted_by_time = read(path, columns="user=user,item=sku,time=moment")
        assert sorted_by_time.items.decode(sorted_by_time.sequence(0)).tolist() == [1, 0]


def test_a_frame_whose_times_have_an_unusual_name_is_refused():
    columns = {"user": [1, 1], "item": [7, 8]}
    texts, days = ["2024-01-02", "2024-01-01"], [date(2024, 1, 2), date(2024, 1, 1)]
    for moments in (texts, days, np.array(texts, "M8[ns]"), [1700000060, 1700000000]):
        with pytest.raises(ValueError, match=r"column moment looks like times, .*: call it timestamp, or leave it out"):
            Interactions.of(Frame(columns | {"moment": moments}))
    assert len(Interactions.of(Frame(columns | {"moment": [7, 8]}))) == 2


@pytest.mark.parametrize(
    ("lines", "flag"),
    [
        ("kunde;ware;am\n7;8;2024-01-01\n", "--columns user=kunde,item=ware,time=am$"),
        ("viewer,clip_id,at\n7,8,1700000000\n", "--columns user=viewer,item=clip_id,time=at$"),
        ("at,clip_id,viewer\n1700000000,8,7\n", "--columns user=viewer,item=clip_id,time=at$"),
        ("1,2014-04-07T10:51:09.277Z,214536502,0\n", "--columns user,time,item,-$"),
        ("2014-04-07 10:51,7,8,0,9\n", "--columns time,user,item,-,-$"),
        ("7|8|1700000000\n", "--columns 'user|item|time'$"),
        ("a b c;x;y\n7;8;9\n", "--columns 'user=a b c,item=x'$"),
        ('{"kunde": "a", "ware": 3, "at": 7}\n', "--columns user=kunde,item=ware$"),
    ],
)
def test_a_refused_table_shows_the_columns_that_would_read_it(tmp_path, lines, flag):
    path = tmp_path / "f"
    path.write_text(lines)
    with pytest.raises(DataError, match=flag) as refused:
        read(path)
    spec = str(refused.value).rpartition("--columns ")[2].strip("'")
    assert len(read(path, columns=spec)) == lines.count("\n") - (lines[0] not in "127{")


def test_a_template_may_write_a_tab_as_two_characters(tmp_path):
    path = tmp_path / "f"
    path.write_text("7\tx\t8\n")
    assert read(path, columns=r"user\t-\titem").items.ids.tolist() == [8]
