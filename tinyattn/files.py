"""Files are written whole or not at all: to a temporary file, which is then moved into place."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__

try:
    import fcntl
except ImportError:               # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 2        # of the files written here; 1, which tinyattn 0.1 wrote, had no number

# what zipfile and zlib raise for damaged files, besides OSError and ValueError
_DAMAGE = (EOFError, MemoryError, RuntimeError, zlib.error, zipfile.BadZipFile)


class FileError(ValueError):
    """A file that is missing, truncated, unsafe, of an unknown format or not tinyattn's; the message names it."""


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Replace the content of `path`. After a kill at any moment, `path` has the old content or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")      # one name only: the next write replaces what a kill left
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON. Raises ValueError for NaN and infinities, which JSON does not have."""
    write_atomically(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The value in a JSON file. Raises FileError where the file is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FileError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not readable JSON: {error}") from None


def write_arrays(path: Path, kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a NumPy .npz archive: the arrays, and as `tinyattn` a JSON text with kind, meta, format and version."""
    about = {"kind": kind, "format": FORMAT, "tinyattn": __version__, "meta": meta}
    head = np.array(json.dumps(about, allow_nan=False))
    content = io.BytesIO()
    np.savez(content, tinyattn=head, **arrays)      # type: ignore[arg-type]
    write_atomically(path, content.getbuffer())      # no second copy


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """-> meta, arrays, of formats 1 to FORMAT. Nothing in the file is ever executed: pickled content is refused.

    Raises FileError for a file that is missing, truncated, pickled, of another format, or was not written as `kind`.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            head = json.loads(str(archive["tinyattn"]))
            refuse_unknown_format(path, head)
            arrays = {name: archive[name] for name in archive.files if name != "tinyattn"}
        if head["kind"] != kind:
            raise FileError(f"{path} is a tinyattn {head['kind']}, expected a {kind}")
        return dict(head["meta"].items()), arrays
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except (*_DAMAGE, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        pickled = "pickle" in str(error).lower()
        reason = "pickled objects, or nothing that NumPy wrote" if pickled else "truncated, damaged or foreign"
        raise FileError(f"{path} is not a tinyattn {kind} ({reason})") from None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A lock on a folder that exists. It ends with this process, however that ends, and leaves no file.

    Raises FileError where another process has it. Where the system cannot lock a folder, everybody is let in: on
    Windows, and on some network disks.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileError(f"another process is at work in {folder}") from None
        except OSError:           # a disk that knows no locks
            pass
        yield
    finally:
        os.close(handle)


def refuse_unknown_format(path: Path, head: dict[str, Any]) -> None:
    """Raise FileError where the file's `format` is not one that this version reads; without a number it is 1."""
    found = head.get("format", 1)
    if type(found) is not int or not 1 <= found <= FORMAT:
        writer = f"tinyattn {head['tinyattn']}" if "tinyattn" in head else "an unknown version of tinyattn"
        raise FileError(f"{path} has format {found}, written by {writer}; this version reads formats 1 to {FORMAT}")
