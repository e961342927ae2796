"""`tinyattn collect`: what the runs of a sweep found, as a table and a picture; what failed is named."""

from __future__ import annotations

import argparse
import csv
import io
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..experiments.tables import cell, heading
from ..files import FileError, write_atomically
from ..models import RunFolder
from .runs import drawing, refuse_another_page
from .sweep import asked, runs_of

OURS = " have finished, "         # every page of a sweep says so
SEED = "seed"                    # runs that differ in nothing else stand in one row


class Found(NamedTuple):
    """A run: its options that vary; its metrics, {(part, metric): value}, None where it has not finished; and why."""

    options: dict[str, Any]
    metrics: dict[tuple[str, str], float] | None
    why: str = ""


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "collect",
        help="the table and the picture of a sweep",
        description="Write README.md, runs.csv and runs.png into DIR, of the runs that have finished, and name those "
        "that failed. The exit code is 1 where one did.",
    )
    command.add_argument("folder", metavar="DIR", help="a folder that `tinyattn sweep` wrote")
    return command


def run(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    found = _runs(folder)
    refuse_another_page(folder / "README.md", OURS, "what `tinyattn collect` wrote", "move it")
    done = {name: run for name, run in found.items() if run.metrics is not None}
    failed = {name: run.why for name, run in found.items() if run.why}
    waiting = len(found) - len(done) - len(failed)
    text = [f"{len(found)} runs: {len(done)}{OURS}{len(failed)} failed, {waiting} are to come", ""]
    try:
        if done:
            text += [*_table(list(done.values())), ""]
            write_atomically(folder / "runs.csv", _csv(done).encode())
            if _draw(list(done.values()), folder / "runs.png"):
                text += ["![every run's metric](runs.png)", ""]
        text += [f"- {name} failed: {why}" for name, why in failed.items()]
        write_atomically(folder / "README.md", "\n".join([f"# {folder.resolve().name}", "", *text, ""]).encode())
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror}") from None
    print("\n".join(line for line in text if not line.startswith("!")))
    return 1 if failed else 0


def _draw(runs: list[Found], path: Path) -> bool:
    """-> is there a picture?"""
    from ..show import save, sweep_dots

    with drawing(path.name):
        save(sweep_dots(_groups(runs), _columns(runs)[0]), path)
        return True
    return False


def _runs(folder: Path) -> dict[str, Found]:
    varied, runs = runs_of(folder)
    first: dict[str, tuple[str, Path]] = {}
    return {name: _run(folder, name, point, varied, first) for name, point in runs.items()}


def _run(
    folder: Path, name: str, point: dict[str, Any], varied: list[str], first: dict[str, tuple[str, Path]]
) -> Found:
    """`first` keeps, of each file of data, what it was for the first run on it, and which run that is."""
    run, log = RunFolder(folder / name), folder / f"{name}.log"
    options = {n: point.get(n, "") for n in varied}
    if run.finished:
        try:
            run.refuse_other(asked(point))
            source, fingerprint = run.data()
            source += run.evaluation()["split"]                  # some splits depend on more of the data than others
            was, other = first.setdefault(source, (fingerprint, run.path))
            if was != fingerprint:
                raise FileError(f"{run.path} was trained on other data than {other}")
            metrics = run.metrics()["model"]
        except (FileError, ValueError) as error:             # one that is not its own, and not the end of the table
            return Found(options, None, str(error))
        return Found(options, {(part, metric): v for part, row in metrics.items() for metric, v in row.items()})
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    ended = lines and (lines[-1].startswith("tinyattn") or "Error" in lines[-1])        # and did not only warn
    return Found(options, None, lines[-1] if ended else "")


def _columns(runs: list[Found]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(column for run in runs for column in run.metrics or {}))


def _groups(runs: list[Found]) -> dict[str, list[Found]]:
    """Runs that differ in their seed alone, under what they have in common."""
    groups: dict[str, list[Found]] = {}
    for run in runs:
        shared = ", ".join(f"{name} {value}" for name, value in run.options.items() if name != SEED and value != "")
        groups.setdefault(shared or "all", []).append(run)
    return groups


def _table(runs: list[Found]) -> list[str]:
    """The best row first, by the mean of the first metric; a loss counts downward."""
    columns = _columns(runs)
    lines = heading(["runs", *(f"{part} {metric.upper()}" for part, metric in columns)])
    groups = _groups(runs)
    for shared in sorted(groups, key=lambda x: _mean(groups[x], columns[0]), reverse=not _is_loss(columns[0])):
        cells = [cell([run.metrics[c] for run in groups[shared] if run.metrics and c in run.metrics]) for c in columns]
        shown = shared.replace("|", r"\|")                     # a path may have it, where it would end the cell
        lines.append(f"| {shown} | {len(groups[shared])} | {' | '.join(cells)} |")
    return lines


def _mean(runs: list[Found], column: tuple[str, str]) -> float:
    return statistics.mean([run.metrics[column] for run in runs if run.metrics and column in run.metrics] or [0.0])


def _is_loss(column: tuple[str, str]) -> bool:
    return column[1] in ("loss", "nats", "rmse", "mae")


def _csv(runs: dict[str, Found]) -> str:
    """A line a run: its name, what varies, its metrics."""
    columns = _columns(list(runs.values()))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    options = list(next(iter(runs.values())).options)
    writer.writerow(["run", *options, *(f"{part} {metric}" for part, metric in columns)])
    for name, run in runs.items():
        metrics = run.metrics or {}
        writer.writerow([name, *run.options.values(), *(metrics.get(column, "") for column in columns)])
    return text.getvalue()
