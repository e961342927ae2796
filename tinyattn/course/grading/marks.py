"""`tinyattn course grade`: grade a folder of submissions, and write a table of marks.

Each submission is graded by `judge` in a separate process. Its record is written to a file as soon as it is graded. The
file's name is a hash of the submission, the exercises and this version. A run that finds the file does not grade the
submission again.
"""

import contextlib
import hashlib
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ... import __version__
from ...check.isolation import CheckerFailedError, in_child
from ...files import FileError, alone_in, csv_bytes, read_json, write_atomically, write_json
from ...sandbox import Limits, fence
from ...terminal import one_line
from ..chapters import chapters
from ..exercise import RIGHT, WRONG
from ..exercises import BY_CHAPTER, BY_NAME
from ..graders import Number
from .flags import fingerprint, solution
from .folders import Submission, submissions
from .judge import judge

SECONDS = 300.0  # limit for an exercise; its judge normally ends much sooner
SHOWN = 3  # how many people with an equal answer a flag names
ANOTHER = "another version of the chapter"


def grade(
    folders: list[Path],
    to: Path,
    numbers: list[int],
    workers: int,
    limits: Limits,
    say: Callable[[str], None] = print,
    people: dict[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Grade every submission in `folders`, and write the tables `to` and `answers_of(to)`. -> the records.

    `numbers` are the chapters to grade; if empty, all chapters that the submissions answer. `people` is the class list:
    the seed of each person. A submission with another seed has a problem, and one without a seed is graded by the
    list's. Raises ValueError for folders without submissions or answers, for `to` in one of them, for an unknown
    chapter, and if this system cannot close off a process; OSError if a file cannot be written, where finished records
    are kept.
    """
    if workers < 1:
        raise ValueError(f"--workers {workers}: expected 1 or more")
    for folder in folders:
        if folder.resolve() in to.resolve().parents:
            raise ValueError(f"--csv {to} lies in {folder}, where everything is a submission: expected a place outside")
    _expect_fence(limits)
    found, people = submissions(folders), people or {}
    names = [exercise.name for chapter in _chosen(numbers, found) for exercise in BY_CHAPTER[chapter]]
    _prepare(names)
    version = _version()
    with alone_in(to.with_suffix(".records")):
        work = {one: to.with_suffix(".records") / f"{_key(one, names, limits, version, people.get(one.person))}.json"
                for one in found}  # fmt: skip
        records = {one.person: record for one, path in work.items() if (record := _kept(path)) is not None}
        if records:
            say(f"{len(records)} of {len(found)} are graded already")
        left = {one: path for one, path in work.items() if one.person not in records}
        for one, record in _graded(left, names, limits, workers, people):
            write_json(left[one], record)
            records[one.person] = record
            marks = record["marks"]
            right = sum(mark["outcome"] == RIGHT for mark in marks)
            seconds = sum(mark["seconds"] for mark in marks)
            say(f"{len(records)}/{len(found)}  {one_line(one.person)}: {right} of {len(marks)} right, {seconds:.1f} s")
    ordered = [records[one.person] for one in found]
    _flag_equal(ordered)
    for record in ordered:
        record["problems"] += _of_seeds(record, people)
    write_atomically(answers_of(to), _table(_rows_of_answers(ordered)))
    write_atomically(to, _table(_rows_of_people(ordered, names)))
    return ordered


def marks_of(text: str, names: list[str], limits: Limits) -> dict[str, dict[str, Any]]:
    """The marks of the exercises `names` in a notebook's text. Raises ValueError if a process cannot be closed off."""
    _expect_fence(limits)
    _prepare(names)
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "submission.ipynb"
        path.write_text(text, encoding="utf-8", errors="replace")
        record = _record(Submission("", path.parent, (path.name,)), names, limits, threading.Event(), None)
    return {mark["exercise"]: mark for mark in record["marks"]}


def _expect_fence(limits: Limits) -> None:
    if limits.fenced and fence.available():
        raise ValueError(f"this system cannot close off the answers' processes: {fence.available()}. With --unfenced "
                         "they run nevertheless, and can read and write what you can")  # fmt: skip


def answers_of(to: Path) -> Path:
    """The path of the table with a row for each person and exercise."""
    return to.with_suffix(f".answers{to.suffix}")


def _chosen(numbers: list[int], found: list[Submission]) -> list[int]:
    if numbers:
        return [chapter.number for chapter in chapters(numbers)]
    answered = sorted(set[int]().union(*(one.answered() for one in found)))
    if not answered:
        raise ValueError("no submission answers an exercise of the course: name a chapter with --chapter")
    return answered


def _prepare(names: list[str]) -> None:
    """Compute here what every judge needs, before judges are forked from this process."""
    for name in names:
        grader = BY_NAME[name].grader
        if isinstance(grader, Number):
            grader(0.0)  # it computes its number once
        fingerprint(solution(name))
    with contextlib.suppress(ImportError):
        import hypothesis  # noqa: F401


def _version() -> str:
    """The version, and a hash of all code and chapters that a mark depends on."""
    package = Path(__file__).parents[2]
    total = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        total.update(path.read_bytes())
    for chapter in chapters():
        total.update(chapter.version.encode())
    return f"{__version__}-{total.hexdigest()[:8]}"


def _key(one: Submission, names: list[str], limits: Limits, version: str, seed: int | None) -> str:
    try:
        content = one.digest()
    except OSError as error:
        content = str(error)
    return hashlib.sha256(repr((content, one.problems, names, asdict(limits), version, seed)).encode()).hexdigest()[:24]


def _kept(path: Path) -> dict[str, Any] | None:
    """An earlier record, or None if it does not exist or cannot be read."""
    with contextlib.suppress(FileError):
        record = read_json(path)
        if isinstance(record, dict) and isinstance(record.get("marks"), list):
            return record
    return None


def _graded(
    work: dict[Submission, Path], names: list[str], limits: Limits, workers: int, people: dict[str, int]
) -> Any:  # fmt: skip
    """Yield (submission, record) as each is finished. After an error, the others stop at their next exercise."""
    stop = threading.Event()
    with ThreadPoolExecutor(workers) as pool:
        try:
            futures = {pool.submit(_record, one, names, limits, stop, people.get(one.person)): one for one in work}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _record(
    one: Submission, names: list[str], limits: Limits, stop: threading.Event, seed: int | None
) -> dict[str, Any]:  # fmt: skip
    """Grade a submission. If its judge ends early, another judge grades the remaining exercises."""
    marks: dict[str, dict[str, Any]] = {}
    about: dict[str, Any] = {"problems": [], "chapters": [], "seeds": []}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        try:
            one.copy_to(folder)
        except OSError as error:
            about["problems"].append(f"it cannot be read: {error.strerror}")
        while len(marks) < len(names) and not stop.is_set():
            left = [name for name in names if name not in marks]
            trying, why = left[0], "its process ended"
            work = (str(folder), list(one.files), left, limits, seed)
            try:
                for what, sent in in_child(judge, *work, limit=SECONDS * len(left)):
                    value = _printable(sent)
                    if what == "read":
                        about = value | {"problems": [*about["problems"], *value["problems"]]}
                    elif what == "trying":
                        trying = value
                    elif what == "mark":
                        marks[value["exercise"]] = value
                    else:
                        why = value
                    if stop.is_set():
                        break
            except CheckerFailedError as error:
                why = f"the grader failed: {str(error).strip().rpartition(chr(10))[2]}"
            if trying not in marks:
                marks[trying] = _fault(trying, why)
            about["problems"] = list(dict.fromkeys(about["problems"]))
    return {
        "person": one.person,
        "problems": [*one.problems, *about["problems"]],
        "chapters": about["chapters"],
        "seeds": about["seeds"],
        "tinyattn": __version__,
        "marks": [marks[name] for name in names if name in marks],
    }


def _printable(x: Any) -> Any:
    """Values from a judge with every string made printable and valid UTF-8, as strings may quote a submission."""
    if isinstance(x, dict):
        return {key: _printable(y) for key, y in x.items()}
    if isinstance(x, list):
        return [_printable(y) for y in x]
    return one_line(x.encode("utf-8", "backslashreplace").decode()) if isinstance(x, str) else x


def _fault(name: str, why: str) -> dict[str, Any]:
    """The mark of an exercise whose judge ended before it sent a mark."""
    difficulty = BY_NAME[name].difficulty
    says = one_line(f"it could not be graded: {why}")
    return {"exercise": name, "outcome": WRONG, "points": 0, "of": difficulty, "verdict": says,
            "flags": ["look: not graded"], "file": "", "seconds": 0.0, "fingerprint": ""}  # fmt: skip


def _flag_equal(records: list[dict[str, Any]]) -> None:
    """Flag equal answers of different people, and add a problem for notebooks of another version of a chapter."""
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    known = {chapter.version for chapter in chapters()}
    for record in records:
        for mark in record["marks"]:
            if mark["fingerprint"] and mark["fingerprint"] != fingerprint(solution(mark["exercise"])):
                alike[mark["exercise"], mark["fingerprint"]].append(record["person"])
    for record in records:
        for mark in record["marks"]:
            others = [p for p in alike[mark["exercise"], mark["fingerprint"]] if p != record["person"]]
            more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
            mark["flags"] = [*mark["flags"], *([f"as {', '.join(others[:SHOWN])}{more}"] if others else [])]
        record["problems"] += [ANOTHER for version in record["chapters"] if version not in known][:1]


def _of_seeds(record: dict[str, Any], people: dict[str, int]) -> Iterator[str]:
    """Problems: the person is not in the class list, or the submission has another seed than the list."""
    if people and record["person"] not in people:
        yield "not in the class list"
    for seed in record["seeds"] if record["person"] in people else ():
        if seed != people[record["person"]]:
            yield f"{'no seed' if seed is None else f'seed {seed}'}, and the class list has {people[record['person']]}"


def _rows_of_people(records: list[dict[str, Any]], names: list[str]) -> list[list[Any]]:
    rows: list[list[Any]] = [["person", "points", "of", *names, "flags", "problems", "seconds", "tinyattn"]]
    for record in records:
        marks = {mark["exercise"]: mark for mark in record["marks"]}
        flags = "; ".join(f"{name}: {flag}" for name, mark in marks.items() for flag in mark["flags"])
        total, of = (sum(mark[what] for mark in marks.values()) for what in ("points", "of"))
        seconds = round(sum(mark["seconds"] for mark in marks.values()), 1)
        points = [marks[name]["points"] if name in marks else 0 for name in names]
        problems = "; ".join(record["problems"])
        rows.append([record["person"], total, of, *points, flags, problems, seconds, record["tinyattn"]])
    return rows


def _rows_of_answers(records: list[dict[str, Any]]) -> list[list[Any]]:
    columns = ("exercise", "outcome", "points", "of", "verdict", "flags", "file", "seconds")
    rows: list[list[Any]] = [["person", *columns, "chapter as built", "seed"]]
    for record in records:
        for mark in record["marks"]:
            cells = [mark[name] if name != "flags" else "; ".join(mark["flags"]) for name in columns]
            seeds = " ".join(str(seed) for seed in record["seeds"] if seed is not None)
            rows.append([record["person"], *cells, " ".join(record["chapters"]), seeds])
    return rows


def _table(rows: list[list[Any]]) -> bytes:
    """The rows as CSV. No cell begins like a formula, as names and verdicts may quote a submission."""
    formula = ("=", "+", "-", "@", "\t", "\r")
    return csv_bytes([f"'{x}" if isinstance(x, str) and x.startswith(formula) else x for x in row] for row in rows)
