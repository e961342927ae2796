"""hypothesis strategies that write interactions in every format and break them: bytes, lines, fields, compression.

`files()` draws a well-formed file and what it says; `broken(content)` draws changes to it. A file that was changed must
give a table, or one line of error: `held` says whether it did, `plain` what a reader of a dozen lines makes of it.
"""

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from tinyattn.data import DataError, Interactions, read

Row = tuple[str, str, int]

NUMBERS = st.one_of(st.integers(0, 30), st.integers(-(2**63), 2**63 - 1)).map(str)
WORDS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=',;|"#{[:'), min_size=1, max_size=12)
QUOTED = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(' ,;"'), min_size=1, max_size=12)


class File(NamedTuple):
    """`rows` are what `content` says, oldest first where a user's times are equal; `format` may be misread by none."""

    format: str
    content: bytes
    rows: list[Row]


def _table(line: str, header: str = "") -> Callable[[list[Row]], str]:
    return lambda rows: header + "".join(line.format(*row) + "\n" for row in rows)


def _csv(rows: list[Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["userId", "movieId", "timestamp"])
    writer.writerows(rows)
    return out.getvalue()


def _sequences(rows: list[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for user, item, _ in sorted(rows, key=lambda row: row[2]):
        lines.setdefault(user, []).append(item)
    return "".join(" ".join([user, *items]) + "\n" for user, items in lines.items())


WRITERS: dict[str, Callable[[list[Row]], str]] = {
    "inter": _table("{}\t{}\t{}", "user_id:token\titem_id:token\ttimestamp:float\n"),
    "amazon-json": lambda rows: "".join(
        json.dumps({"reviewerID": u, "asin": i, "unixReviewTime": t, "reviewText": "fine"}) + "\n" for u, i, t in rows
    ),
    "movielens-csv": _csv,
    "gru4rec": _table("{}\t{}\t{}", "SessionId\tItemId\tTime\n"),
    "header": _table("{} {} {}", "# user item time\n"),
    "movielens-1m": _table("{}::{}::5::{}"),
    "amazon-csv": _table("{},{},4.5,{}"),
    "movielens-100k": _table("{}\t{}\t3\t{}"),
    "sequences": _sequences,
    "pairs": _table("{} {}"),
    "triples": _table("{} {} {}"),
}


@st.composite
def files(draw: Any, format: str | None = None) -> File:
    """A well-formed file of one of the formats, plain or gzipped, with LF or CRLF, perhaps with a byte order mark."""
    name = format or draw(st.sampled_from(sorted(WRITERS)))
    ids = draw(st.sampled_from([NUMBERS, WORDS] + [QUOTED.map(str.strip).filter(bool)] * (name == "movielens-csv")))
    some = draw(st.lists(ids, min_size=2, max_size=8, unique=True))
    times = st.integers(0, 5) | st.integers(-(2**62), 2**62)
    rows = draw(st.lists(st.tuples(*[st.sampled_from(some)] * 2, times), min_size=1, max_size=30))
    text = WRITERS[name](rows)
    if draw(st.booleans()) and '"' not in text:
        text = text.replace("\n", "\r\n")
    content = ("\ufeff" * draw(st.booleans()) + text).encode()
    return File(name, gzip.compress(content, mtime=0) if draw(st.booleans()) else content, rows)


def expected(file: File) -> dict[str, list[str]]:
    """Each user's items, oldest first, by sorted(), which is stable."""
    rows = file.rows if file.format == "pairs" else sorted(file.rows, key=lambda row: row[2])
    found: dict[str, list[str]] = {}
    for user, item, _ in rows:
        found.setdefault(user, []).append(item)
    return found


def sequences(data: Interactions) -> dict[str, list[str]]:
    """Each user's items, in text."""
    return {
        str(user): list(map(str, data.items.decode(data.sequence(i)).tolist()))
        for i, user in enumerate(data.users.ids.tolist())
    }


PIECES = [b"\n", b"\n\n", b"\r", b"\0", b'"', b",", b",,", b"\t", b" ", b"::", b"#", b"{", b"nan", b"1_0", b"-",
          b"9" * 20, b"\xff", b"\xef\xbb\xbf", "ž٣\u2028".encode(), b"\x1b[31m", b"user_id", b"x" * 300,
          b"[" * 2000]  # fmt: skip


@st.composite
def broken(draw: Any, content: bytes) -> bytes:
    """The content after one to four changes, inside of the compression or outside of it."""
    zipped = content[:2] == b"\x1f\x8b" and draw(st.booleans())
    content = gzip.decompress(content) if zipped else content
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(0, 9)))
        lines = content.split(b"\n")
        line = draw(st.integers(0, len(lines) - 1))
        more = draw(st.sampled_from([b",1", b"\t1", b" 1", b"::1"]))
        content = draw(st.sampled_from([
            content[:at] + draw(st.sampled_from(PIECES)) + content[end:],                       # bytes
            content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :],
            content[:at] + content[end:],
            content[:at],
            content + content[at:],
            b"\n".join(lines[:line] + lines[line + 1 :]),                                       # lines
            b"\n".join([*lines[: line + 1], *lines[line:]]),
            b"\n".join([*lines[:line], b"\t".join(reversed(lines[line].split(b"\t"))), *lines[line + 1 :]]),   # fields
            b"\n".join([*lines[:line], lines[line] + more, *lines[line + 1 :]]),
        ]))  # fmt: skip
    if zipped:
        content = gzip.compress(content, mtime=0)
        content += draw(st.sampled_from([b"", b"", b"junk", b"\0\0", content]))                  # compression
    return content


def held(path: Path, **how: Any) -> Interactions | None:
    """The table in a file, or None where it was refused by one line that begins with its path.

    Raises AssertionError for any other error, and where ids are not sorted, distinct, and of one kind.
    """
    try:
        data = read(path, **how)
    except DataError as error:
        message = str(error)
        assert message.startswith(f"{path}: "), message
        assert "\n" not in message, message
        assert len(message) < 500 + len(str(path)), message
        return None
    for vocabulary in (data.items, data.users):
        ids = vocabulary.ids
        assert ids.dtype.kind in "iU"
        assert np.all(ids[1:] > ids[:-1])
        assert ids.dtype.kind == "i" or all(i and not set(i) & set("\0\r\n") for i in ids.tolist())
    assert data.flat.min() >= 1
    assert data.flat.max() <= data.n_items
    assert data.offsets[-1] == len(data)
    return data
