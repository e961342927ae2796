"""Parquet is read as the same table in CSV is."""

import sys

import numpy as np
import pytest

from tests.helpers import refuses
from tinyattn.data import DataError, Interactions, read


@pytest.fixture
def columns(rng):
    n = 400
    times = np.array(1_700_000_000 + rng.integers(0, 10**6, n), "M8[s]")
    items = [("a,{}", 'b "{}"', "c {}")[i % 3].format(i) for i in rng.integers(0, 12, n).tolist()]
    events = rng.choice(["buy", "view"], n).tolist()
    return {"customer_id": rng.integers(0, 9, n), "article_id": items, "created_at": times, "event": events}


def written(path, columns):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet is read with pyarrow")
    parquet.write_table(sys.modules["pyarrow"].table(columns), path)
    return path


def csv_of(path, columns):
    names = list(columns)
    quoted = [['"{}"'.format(str(v).replace('"', '""')) for v in columns[name]] for name in names]
    path.write_text("\n".join([",".join(names), *map(",".join, zip(*quoted, strict=True))]) + "\n")
    return path


def test_it_is_the_same_table_as_csv(tmp_path, columns, monkeypatch):
    monkeypatch.setattr("tinyattn.data.parquet._ROWS", 150)  # so that it has three batches
    text, file = csv_of(tmp_path / "f.csv", columns), written(tmp_path / "f.parquet", columns)
    for filters in ({}, {"where": "event == buy"}, {"since": "2023-11-18"}):
        one, other = read(text, **filters), read(file, **filters)
        assert one.fingerprint(timed=True) == other.fingerprint(timed=True)
        assert one.notes == other.notes
    assert other.span == "2023-11-18 to 2023-11-26"


def test_nested_columns_are_left_out_and_arrow_tables_are_frames(tmp_path, columns):
    nested = columns | {"tags": [["x"]] * len(columns["event"])}
    data = read(written(tmp_path / "f.parquet", nested))
    assert data.fingerprint() == read(written(tmp_path / "g.parquet", columns)).fingerprint()
    table = sys.modules["pyarrow"].table(columns)
    assert Interactions.of(table).fingerprint() == data.fingerprint()


def test_damage_empty_values_and_times_of_other_names_are_refused(tmp_path, columns):
    path = written(tmp_path / "f.parquet", columns)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"f.parquet: not a whole Parquet file: "):
        read(path)
    with pytest.raises(DataError, match="line 3: the item is empty"):
        read(written(path, {"user": [1, 2], "item": [3, None]}))
    with pytest.raises(DataError, match=r"column moment looks like times, .*time=moment reads it"):
        read(written(path, {"user": [1, 2], "item": [3, 4], "moment": columns["created_at"][:2]}))
    with pytest.raises(DataError, match="a header and no interactions"):
        read(written(path, {name: column[:0] for name, column in columns.items()}))
    with pytest.raises(DataError, match=r"f.parquet: columns of single values: user; of lists .* not read: items; exp"):
        read(written(path, {"user": [1], "items": [[1, 2]]}))
    with pytest.raises(DataError, match="columns of single values: user; expected a user and an item in each row"):
        read(written(path, {"user": [1]}))


def test_a_damaged_page_a_nul_and_nan_are_refused(tmp_path, columns):
    """NumPy drops a NUL at the end of a text, so "a" and "a\\0" would be one user; NaN would be a user called nan."""
    path = written(tmp_path / "f.parquet", {"user": list(range(500)), "item": list(range(500))})
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"\xff" * 300 + content[500:])
    with pytest.raises(DataError, match=r"f.parquet: not a whole Parquet file: [^N]"):
        read(path)
    with pytest.raises(DataError, match=r"f.parquet: a value with a NUL in column user"):
        read(written(path, {"user": ["a", "a\0"], "item": [1, 2]}))
    for what in ("user", "item"):
        with pytest.raises(DataError, match=f"f.parquet: line 3: the {what} is empty"):
            read(written(path, {"user": [1.0, 2.0], "item": [3.0, 4.0]} | {what: [5.0, float("nan")]}))
    data = read(written(path, {"user": [1.0, 2.0], "item": [3.0, 4.0], "price": [float("nan"), 2.0]}))
    assert data.users.ids.tolist() == [1, 2]


def test_without_pyarrow_the_way_out_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "f.parquet").write_bytes(b"PAR1....")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refuses(capsys, ["data", tmp_path / "f.parquet"], "needs pyarrow: pip install 'tinyattn[parquet]'")
