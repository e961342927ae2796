"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

# what zipfile and zlib raise for damage, besides the usual
_DAMAGE = (EOFError, MemoryError, RuntimeError, zlib.error, zipfile.BadZipFile)


class FileError(ValueError):
    """A file that is missing, truncated, foreign or unsafe; the message names it."""


def write_atomically(path: Path, content: bytes) -> None:
    """Killed at any moment, the old content or the new one stands at `path`, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")      # always the same: what a kill leaves, the next write takes
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
    """Indented JSON. NaN and infinities are refused: no other reader would take them."""
    write_atomically(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Raises FileError where the file is missing or no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not readable JSON: {error}") from None


def write_arrays(path: Path, kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """A NumPy .npz archive: the arrays, and under `tinyattn` a JSON text with `kind` and `meta`."""
    head = np.array(json.dumps({"kind": kind, "meta": meta}, allow_nan=False))
    content = io.BytesIO()
    np.savez(content, tinyattn=head, **arrays)      # type: ignore[arg-type]
    write_atomically(path, content.getvalue())


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """-> meta, arrays. Nothing in the file is ever executed: pickled content is refused.

    Raises FileError for a file that is missing, truncated, pickled, or was not written as `kind`.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(str(arrays.pop("tinyattn")))
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
