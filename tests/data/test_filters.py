"""Which rows of a file count, and what is counted about those that do."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from tests.helpers import Frame
from tinyattn.data import DataError, Interactions, read

ROWS = [(u, i, "view" if i % 3 else "buy", float(i % 5), 1_700_000_000 + 3600 * (7 * u + i) % 900_000)
        for u in range(1, 9) for i in range(1, 13)]  # fmt: skip


def csv_of(rows, seconds=1):
    return "user,item,event,rating,time\n" + "".join(f"{u},{i},{e},{r},{t * seconds}\n" for u, i, e, r, t in rows)


def json_of(rows):
    names = ("user", "item", "event", "rating", "time")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize("text_of", [csv_of, json_of])
@pytest.mark.parametrize(
    ("filters", "keeps"),
    [
        ({"min_rating": 3.0}, lambda u, i, e, r, t: r >= 3),
        ({"where": "event == 'buy'"}, lambda u, i, e, r, t: e == "buy"),
        ({"where": "Event==buy"}, lambda u, i, e, r, t: e == "buy"),
        ({"where": 'event != "buy"'}, lambda u, i, e, r, t: e != "buy"),
        ({"since": "1700100800"}, lambda u, i, e, r, t: t >= 1_700_100_800),
        ({"until": "1700100800"}, lambda u, i, e, r, t: t < 1_700_100_800),
        ({"since": "2023-11-16", "until": "2023-11-17 12:00"},
         lambda u, i, e, r, t: datetime(2023, 11, 16, tzinfo=UTC).timestamp() <= t
         < datetime(2023, 11, 17, 12, tzinfo=UTC).timestamp()),
        ({"where": "event == view", "min_rating": 1.0, "until": "17/11/2023"},
         lambda u, i, e, r, t: e == "view" and r >= 1 and t < datetime(2023, 11, 17, tzinfo=UTC).timestamp()),
    ],
)  # fmt: skip
def test_filters_keep_the_rows_of_a_plain_loop(tmp_path, text_of, filters, keeps):
    path, expected = tmp_path / "all", tmp_path / "kept"
    kept = [row for row in ROWS if keeps(*row)]
    assert 0 < len(kept) < len(ROWS)
    path.write_text(text_of(ROWS))
    expected.write_text(text_of(kept))
    data = read(path, **filters)
    assert data.fingerprint(timed=True) == read(expected).fingerprint(timed=True)
    assert data.ratings is None
    assert data.notes["rows left out"].startswith(f"{len(ROWS) - len(kept):,} of {len(ROWS):,} by ")


@pytest.mark.parametrize("seconds", [1, 1000, 1_000_000])
def test_dates_are_compared_with_times_in_any_unit(tmp_path, seconds):
    path = tmp_path / "f"
    path.write_text(csv_of(ROWS, seconds))
    moment = datetime(2023, 11, 16, tzinfo=UTC).timestamp()
    assert len(read(path, since="2023-11-16")) == sum(row[4] >= moment for row in ROWS)


def test_a_condition_reads_empty_fields_and_columns_of_a_template(tmp_path):
    path = tmp_path / "f"
    path.write_text("user,item,coupon\n1,2,\n1,3,a\n1,4,b c\n")
    for where, items in (("coupon == ''", [2]), ("coupon != ''", [3, 4]), ("coupon == b c", [4])):
        assert read(path, where=where).items.ids.tolist() == items
    path.write_text("1;2;x\n1;3;y\n")
    assert read(path, columns="user;item;kind", where="kind == y").items.ids.tolist() == [3]
    objects = [{"user": 1, "item": 2, "sold": True}, {"user": 1, "item": 3, "sold": None}, {"user": 1, "item": 4}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in objects))
    assert read(path, where="sold == True").items.ids.tolist() == [2]
    assert read(path, where="sold == ''").items.ids.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"where": "event"}, "where is 'event', expected a column and a value: event == 'purchase'"),
        ({"where": "event = 3"}, "where is 'event = 3', expected a column and a value"),
        ({"where": "kind == 3"}, "no column kind; expected one of user, item, event, rating, time"),
        ({"where": "user == 3"}, "column user is read as user, item, time or rating"),
        ({"where": "event == 'gift'"}, "where event == 'gift' leaves no row; it has 'buy', 'view'"),
        ({"since": "soon"}, "since is 'soon', expected a date like 2023-12-31, or a number as in the file"),
        ({"until": "04/12/2023"}, "until: times such as 04/12/2023 may have the day or the month first"),
        ({"until": ""}, "until is '', expected a date"),
        ({"since": "2030-01-01"}, "no row of 96 is left by since 2030-01-01"),
        ({"min_rating": 9.0}, r"no row of 96 is left by min_rating 9.0"),
    ],
)
def test_filters_that_cannot_be_applied_are_refused(tmp_path, filters, message):
    path = tmp_path / "f"
    path.write_text(csv_of(ROWS))
    with pytest.raises(DataError, match=message) as refused:
        read(path, **filters)
    assert str(path) in str(refused.value)


def test_filters_need_their_columns(tmp_path):
    path = tmp_path / "f"
    path.write_text("1 2\n1 3\n2 2\n")
    for filters, message in (({"min_rating": 1.0}, "min_rating needs ratings"), ({"since": "7"}, "since needs times")):
        with pytest.raises(DataError, match=message):
            read(path, **filters)
    path.write_text("1 2 7\n1 3 8\n")
    with pytest.raises(DataError, match="since is the date 2023-01-01, and the times are no dates: 7"):
        read(path, since="2023-01-01")
    path.write_text("1 2 3 4\n2 2 4\n")
    with pytest.raises(DataError, match="no column kind: lines of a user and items have no others"):
        read(path, where="kind == 3")


def test_identical_rows_and_the_first_and_last_day_are_reported(rng):
    user, item, day = rng.integers(0, 4, 300), rng.integers(0, 5, 300), rng.integers(0, 6, 300)
    times = 1_700_000_000 + 86_400 * day
    data = Interactions.of(Frame(user=user, item=item, timestamp=times))
    assert data.identical == 300 - len(set(zip(user.tolist(), item.tolist(), day.tolist(), strict=True)))
    assert data.span == "2023-11-14 to 2023-11-19"
    assert Interactions.of(Frame(user=user, item=item, timestamp=times * 1000)).span == data.span
    untimed = Interactions.of(Frame(user=user, item=item))
    assert (untimed.identical, untimed.span) == (0, "")
    assert Interactions.of(Frame(user=user, item=item, timestamp=day)).span == ""
    assert np.all(data.report()["identical rows"] == data.identical)
