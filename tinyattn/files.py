"""Files are written whole or not at all: to a temporary file, which is then moved into place."""

import csv
import io
import json
import math
import os
import secrets
import time
import tokenize
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .terminal import shortened

try:
    import fcntl
except ImportError:               # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 2        # of written files; format 1, of tinyattn 0.1, has no number

_TEMPORARY = ".tinyattn-{}.tmp"
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

# errors of zipfile and zlib for damaged files, besides OSError and ValueError
_DAMAGE = (EOFError, MemoryError, OverflowError, RuntimeError, zlib.error, zipfile.BadZipFile, tokenize.TokenError)


class FileError(ValueError):
    """A file that is missing, truncated, unsafe, foreign or of an unknown format; the message names it."""


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Replace the content of `path`. A kill at any moment leaves the old content or the new one, whole.

    The temporary file beside it has a random name, so that several processes may write. Files left by killed
    writers are removed. Raises OSError, naming `path`, where it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        temporary, handle = _temporary(path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if fcntl is not None:
                    _move(temporary, path)           # still locked, so no other process removes it
            if fcntl is None:
                _move(temporary, path)               # Windows moves no file that is open
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync(path.parent)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None    # the error of a full disk names no file


def is_same(path: str | Path, other: str | Path) -> bool:
    """Do both paths exist, and are they one file?"""
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def _temporary(folder: Path) -> tuple[Path, int]:
    """A new file and its handle, locked so that `_remove_leftovers` of other processes spares it."""
    while True:
        path = folder / _TEMPORARY.format(secrets.token_hex(8))
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666)
        with suppress(BlockingIOError):              # `_remove_leftovers` got the lock first
            if _lock(handle, path):
                return path, handle
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed writers: those that no process has locked or open."""
    for path in folder.glob(_TEMPORARY.format("?" * 16)):
        with suppress(OSError):                      # locked, not ours, or removed by now
            if fcntl is None:
                path.unlink()                        # Windows refuses this while it is open
                continue
            handle = os.open(path, os.O_RDWR | _PLAIN)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def _lock(handle: int, path: Path) -> bool:
    """Lock an open file or folder, or raise BlockingIOError. -> does `path` still lead to it?"""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:                                  # a file system without locks
        pass
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _move(temporary: Path, path: Path) -> None:
    """os.replace, tried for half a second: Windows refuses while the replaced file is open."""
    for _ in range(10):
        with suppress(PermissionError):
            return os.replace(temporary, path)
        time.sleep(0.05)
    os.replace(temporary, path)


def _sync(folder: Path) -> None:
    """Flush the folder's directory entries to disk, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write JSON that people can read. Raises ValueError for NaN and infinities, which JSON lacks."""
    write_atomically(path, (json_text(value) + "\n").encode(errors="backslashreplace"))   # names that are no UTF-8


def csv_bytes(rows: Iterable[Iterable[Any]]) -> bytes:
    """The rows as CSV, with a newline after each."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def json_text(value: Any, margin: str = "\n") -> str:
    """JSON with one line for each entry of an object, each object in a list, and each list without objects."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        entries = (json.dumps({key: 0}, ensure_ascii=False)[1:-2] + json_text(x, inner) for key, x in value.items())
        return "{" + inner + ("," + inner).join(entries) + margin + "}"
    if isinstance(value, list | tuple) and any(isinstance(x, dict) for x in value):
        return "[" + inner + ("," + inner).join(_line(x) for x in value) + margin + "]"
    return _line(value)


def _line(value: Any) -> str:
    separators = (",", ":") if isinstance(value, list | tuple) and len(value) > 20 else None
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)


def read_json(path: Path) -> Any:
    """The value in a JSON file. Raises FileError if it is missing or not JSON, or if an object repeats a name."""
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is no regular file, expected JSON")
    try:
        return json_of(path.read_bytes(), path)
    except (FileNotFoundError, NotADirectoryError):
        raise FileError(f"{path}: no such file") from None
    except OSError as error:
        raise FileError(f"{path} is not readable JSON: {error}") from None


def json_of(content: bytes, path: Path) -> Any:
    """The value of JSON from the file `path`. Raises FileError if it is not JSON, or if an object repeats a name."""
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:                # such as integers of more than 4,300 digits
        raise FileError(f"{path} is not readable JSON: {error}") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises ValueError for a name that is repeated."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{shortened(twice)!r} appears twice in one object")
    return entries


def write_arrays(path: Path, kind: str, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays to a NumPy .npz archive, with an entry `tinyattn`: kind, format, version and meta as JSON."""
    about = {"kind": kind, "format": FORMAT, "tinyattn": __version__, "meta": meta}
    head = np.array(json.dumps(about, allow_nan=False))
    content = io.BytesIO()
    np.savez(content, tinyattn=head, **arrays)      # type: ignore[arg-type]
    write_atomically(path, content.getbuffer())      # without a copy


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of an .npz file, read on access. No pickle is loaded, so no code of the file is executed.

    Before an array is unpacked, its header and the archive's directory must give the same size, of at most `times` the
    size of the file. Raises FileError otherwise, and for pickled content or a file that is missing, irregular or
    damaged. `what` is the expected kind of file, for messages.
    """

    def __init__(self, path: Path, what: str, times: int = 1) -> None:
        self._path, self._what, self._times = path, what, times
        if path.exists() and not path.is_file():
            raise FileError(f"{path} is no regular file, expected a {what}")
        with self._refusing():
            with path.open("rb") as file:
                if file.read(2) != b"PK":
                    raise ValueError("perhaps a pickle")
            self._archive = zipfile.ZipFile(path)
        infos = self._archive.infolist()
        self._members = {info.filename.removesuffix(".npy"): info for info in infos}
        if len(self._members) < len(infos):
            raise FileError(f"{path} is not a {what} (two of its arrays have one name)")
        self._unread = set(self._members)

    def __getitem__(self, name: str) -> np.ndarray:
        info = self._members[name]
        self._unread.discard(name)
        with self._refusing(), self._archive.open(info) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)         # it warns of Python 2's headers
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            if info.file_size != file.tell() + math.prod(shape) * dtype.itemsize or dtype.hasobject:
                raise ValueError("pickled" if dtype.hasobject else "header and directory differ")
            if dtype.itemsize == 0:                              # NumPy would allocate any number of them
                raise ValueError("its elements have no size")
            if info.file_size > self._times * self._path.stat().st_size:
                raise ValueError("it would unpack to more than its file could hold")
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def pop(self, name: str, default: Any = None) -> Any:
        """Remove and return an array; for a missing one return the default, if there is one."""
        if name not in self and default is not None:
            return default
        array = self[name]
        del self._members[name]
        return array

    @property
    def nbytes(self) -> int:
        """The unpacked size of all arrays, at most `times` that of the file."""
        return min(sum(info.file_size for info in self._members.values()), self._times * self._path.stat().st_size)

    def refuse_unread(self) -> None:
        """Raise FileError for an array that has not been read."""
        if self._unread:
            raise FileError(f"{self._path} has an array {min(self._unread)}, which no {self._what} has")

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise FileError(f"{self._path}: no such file") from None
        except PermissionError as error:
            raise FileError(f"{self._path} cannot be read: {error.strerror}") from None
        except (*_DAMAGE, OSError, ValueError, LookupError, TypeError, AttributeError, NotImplementedError) as error:
            pickled = "pickle" in str(error).lower()
            reason = "pickled objects, or nothing that NumPy wrote" if pickled else "truncated, damaged or foreign"
            raise FileError(f"{self._path} is not a {self._what} ({reason})") from None


def read_arrays(path: Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    """-> meta, arrays, of formats 1 to FORMAT. Raises FileError for a file that is not readable, or not of `kind`."""
    arrays = Arrays(path, f"tinyattn {kind}")
    try:
        head = json.loads(str(arrays.pop("tinyattn")), object_pairs_hook=_each_once)
        refuse_unknown_format(path, head)
        if head["kind"] != kind:
            raise FileError(f"{path} is a tinyattn {head['kind']}, expected a {kind}")
        return dict(head["meta"].items()), arrays
    except FileError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise FileError(f"{path} is not a tinyattn {kind} (truncated, damaged or foreign)") from None


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder, which is created if missing. The lock ends with this process, even if it is killed.

    Raises FileError where another process has the lock. On file systems without locks nothing is locked.
    """
    try:
        handle = _locked_on_windows(folder) if fcntl is None else _locked(folder)
    except BlockingIOError:
        raise FileError(f"another process is at work in {folder}") from None
    _locks.add(handle)
    try:
        yield
    finally:
        if handle in _locks:                         # not in a forked child, which has closed it
            _locks.remove(handle)
            os.close(handle)


_locks: set[int] = set()          # handles of folders that this process has locked


def _locked(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):            # another process has removed it meanwhile
            handle = os.open(folder, os.O_RDONLY)
            try:
                if _lock(handle, folder):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def _locked_on_windows(folder: Path) -> int:
    """Create a lock file beside the folder. Windows removes it with its last handle, even if the process is killed."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f".{folder.name}.lock")
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_TEMPORARY)  # type: ignore[attr-defined]
    except FileExistsError:
        raise BlockingIOError from None


def _close_locks() -> None:
    """A child that outlives this process must not keep its locks."""
    while _locks:
        os.close(_locks.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_locks)


def refuse_unknown_format(path: Path, head: dict[str, Any]) -> None:
    """Raise FileError for a file whose `format` this version does not read; a file without a number has format 1."""
    number = head.get("format", 1)
    if type(number) is not int or not 1 <= number <= FORMAT:
        writer = f"tinyattn {head['tinyattn']}" if "tinyattn" in head else "an unknown version of tinyattn"
        raise FileError(f"{path} has format {number}, written by {writer}; this version reads formats 1 to {FORMAT}")
