"""Parquet files as lines of CSV, by pyarrow (extra `parquet`), so that everything else reads them as text."""

import csv
import io
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from .fields import DataError

MAGIC = b"PAR1"                # the first bytes of a file
_ROWS = 1 << 16                # rows that are in memory at a time


def csv_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """A line with the names of the columns, then the rows. Columns of lists and other nested values are left out.

    Raises ImportError without pyarrow, DataError for a file that is damaged or has no columns.
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError(f"{path} is Parquet, which needs pyarrow: pip install 'tinyattn[parquet]'") from None
    try:
        with parquet.ParquetFile(file) as table:
            names = [field.name for field in table.schema_arrow if not arrow.types.is_nested(field.type)]
            if not names:
                raise DataError("no columns of single values")
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(names)
            begin = header.getvalue().encode()               # joined to the first rows: the format is detected by both
            for batch in table.iter_batches(_ROWS, columns=names):
                yield begin + _lines(batch)
                begin = b""
            yield begin
    except arrow.ArrowException as error:
        raise DataError(f"not a whole Parquet file: {str(error).partition(chr(10))[0]}") from None


def _lines(batch: Any) -> bytes:
    """The rows of a batch. Texts are in quotes only where one needs them: lines without quotes are read faster."""
    arrow, table = import_module("pyarrow"), import_module("pyarrow.csv")
    for style in ("none", "all_valid"):
        sink = arrow.BufferOutputStream()
        try:
            table.write_csv(batch, sink, table.WriteOptions(include_header=False, quoting_style=style))
        except arrow.ArrowInvalid:       # a comma, a quote or a line end within a value
            continue
        lines: bytes = sink.getvalue().to_pybytes()
        return lines
    raise DataError("values that CSV cannot hold")
