"""Parquet files as lines of CSV, by pyarrow (extra `parquet`), so that everything else reads them as text."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from ..extras import optional
from ..files import csv_bytes
from ..terminal import shortened
from .fields import DataError

MAGIC = b"PAR1"                # the first bytes of a file
_ROWS = 1 << 16                # rows that are in memory at a time


def csv_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """A line with the names of the columns, then the rows. Columns of lists and other nested values are left out.

    NaN is an empty value, as pandas writes it. Raises ImportError without pyarrow, DataError for a file that is damaged
    or has fewer than two columns, and for a text with a NUL.
    """
    needs = f"{path} is Parquet, which needs pyarrow"
    arrow, parquet = (optional(name, needs, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    try:
        with parquet.ParquetFile(file) as table:
            nested = [field.name for field in table.schema_arrow if arrow.types.is_nested(field.type)]
            names = [name for name in table.schema_arrow.names if name not in nested]
            if len(names) < 2:
                lists = f"; of lists or other nested values, which are not read: {', '.join(nested)}" if nested else ""
                raise DataError(f"columns of single values: {', '.join(names) or 'none'}{shortened(lists, 200)}; "
                                "expected a user and an item in each row")  # fmt: skip
            begin = csv_bytes([names])                       # joined to the first rows: the format is detected by both
            for batch in table.iter_batches(_ROWS, columns=names):
                yield begin + _lines(batch)
                begin = b""
            yield begin
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror:        # of the system: pyarrow's have none
            raise
        raise DataError(f"not a whole Parquet file: {str(error).partition(chr(10))[0]}") from None


def _lines(batch: Any) -> bytes:
    """The rows of a batch. Texts are in quotes only where one needs them: lines without quotes are read faster."""
    arrow, table, compute = (import_module(f"pyarrow{part}") for part in ("", ".csv", ".compute"))
    for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if arrow.types.is_floating(column.type) and not arrow.types.is_float16(column.type):
            empty = compute.if_else(compute.is_nan(column), arrow.scalar(None, column.type), column)
            batch = batch.set_column(place, name, empty)
    for style in ("none", "all_valid"):
        sink = arrow.BufferOutputStream()
        try:
            table.write_csv(batch, sink, table.WriteOptions(include_header=False, quoting_style=style))
        except arrow.ArrowInvalid:       # a comma, a quote or a line end within a value
            continue
        lines: bytes = sink.getvalue().to_pybytes()
        if b"\0" in lines:               # NumPy drops a NUL at the end, which would merge two ids
            has = [name for name, rows in batch.to_pydict().items() if any("\0" in str(value) for value in rows)]
            raise DataError(f"a value with a NUL in column {', '.join(has)}")
        return lines
    raise DataError("values that CSV cannot hold")
