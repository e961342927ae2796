"""Folders of submissions: each submission's person, files and answered chapters."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..answers import FOLDER
from ..exercises import BY_CHAPTER

MOST_FILES, MOST_BYTES = 500, 50_000_000  # limits for one submission
SKIPPED = {"__pycache__", "__MACOSX", "node_modules", "venv"}
PACKED = (".zip", ".rar", ".7z", ".tar", ".gz", ".tgz", ".xz")
_CHAPTER = re.compile(r"\d\d_\w+\.(ipynb|py)", re.I)


def is_source(name: str) -> bool:
    """Is this the name of a notebook or of a Python file?"""
    return name.lower().endswith((".ipynb", ".py"))


@dataclass(frozen=True)
class Submission:
    """A person's folder or file; `files` are paths below `root`. `problems` are sentences."""

    person: str
    root: Path
    files: tuple[str, ...]
    problems: tuple[str, ...] = ()

    def digest(self) -> str:
        """A hash of the person's name, and of every file's name and content."""
        total = hashlib.sha256(self.person.encode())
        for name in self.files:
            total.update(f"\0{name}\0".encode())
            total.update(hashlib.sha256((self.root / name).read_bytes()).digest())
        return total.hexdigest()

    def copy_to(self, folder: Path) -> None:
        for name in self.files:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.root / name, target, follow_symlinks=False)

    def answered(self) -> set[int]:
        """The chapters that the submission seems to answer, found by a search in its files' text."""
        text = ""
        for name in self.files:
            if is_source(name):
                with contextlib.suppress(OSError):
                    text += (self.root / name).read_text(encoding="utf-8", errors="replace") + "\n"
        names = set(re.findall(r"check\(\s*\\?[\"'](\w+)", text)) | set(re.findall(r"^def (\w+)|^(\w+) =", text, re.M))
        names |= {Path(name).stem for name in self.files if name.lower().endswith(".py")}
        return {number for number, known in BY_CHAPTER.items() if any(e.name in names for e in known)}


def submissions(folders: list[Path]) -> list[Submission]:
    """The submissions in `folders`. A folder has a folder or a file for each person, or is itself one submission.

    Raises ValueError for a path that is not a folder, for an empty folder, and for two submissions of the same name.
    """
    made: dict[str, Submission] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is {'a file' if folder.exists() else 'not there'}, expected a folder")
        entries = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
        alone = any(_CHAPTER.fullmatch(path.name) or path.name == FOLDER for path in entries)
        new = [_submission(path) for path in ([folder.resolve()] if alone else entries) if path.name not in SKIPPED]
        if not new:
            raise ValueError(f"{folder} holds no submissions, expected a folder or a notebook for each person")
        for one in new:
            if one.person in made:
                raise ValueError(f"{made[one.person].root} and {one.root} both hold a submission {one.person!r}")
            made[one.person] = one
    return list(made.values())


def _submission(path: Path) -> Submission:
    text = path.name.encode("utf-8", "backslashreplace").decode()
    shown = unicodedata.normalize("NFC", text)               # macOS writes ü as two characters, class lists as one
    if path.is_symlink():
        return Submission(shown, path.parent, (), (f"{shown} is a link",))
    if not path.is_dir():
        if is_source(path.name) and path.is_file() and text == path.name:
            return Submission(unicodedata.normalize("NFC", path.stem), path.parent, (path.name,))
        why = f"{shown} is neither a notebook nor Python{_unpack([shown])}"
        return Submission(shown, path.parent, (), (why,))
    names, faults, total = list[str](), list[str](), 0
    for name, size in _walk(path):
        if size is None:
            faults.append(f"{name} is no regular file")
        elif len(names) == MOST_FILES or total + size > MOST_BYTES:
            faults.append(f"{name} is left out: a submission has at most {MOST_FILES} files and {MOST_BYTES:,} bytes")
        else:
            names.append(name)
            total += size
    if not any(map(is_source, names)):
        faults.append(f"it holds no notebook and no Python{_unpack(names)}")
    return Submission(shown, path, tuple(names), tuple(faults[:5]))


def _unpack(names: list[str]) -> str:
    """What to do about the first packed file of these, or ""."""
    return next((f": unpack {name}" for name in names if name.lower().endswith(PACKED)), "")


def _walk(folder: Path) -> Iterator[tuple[str, int | None]]:
    """(name below the folder, size) of each file, notebooks and Python first. The size of a link or a device is None.

    Files whose names are not UTF-8 are left out.
    """
    names = []
    for here, below, files in os.walk(folder):
        below[:] = [name for name in below if name not in SKIPPED and not name.startswith(".")]
        linked = [name for name in below if (Path(here) / name).is_symlink()]
        shown = (Path(here, name) for name in (*files, *linked) if name[0] != ".")
        names += [path for path in shown if _is_unicode(path)]
    for path in sorted(names, key=lambda path: (not is_source(path.name), path)):
        about = path.lstat()
        yield str(path.relative_to(folder)), about.st_size if stat.S_ISREG(about.st_mode) else None


def _is_unicode(path: Path) -> bool:
    with contextlib.suppress(UnicodeEncodeError):
        return bool(str(path).encode())
    return False
