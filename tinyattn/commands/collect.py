"""`tinyattn collect`: the table and the picture of a sweep.

Write README.md, runs.csv and runs.png of the finished runs into DIR, and name the runs that failed. Rows are sorted by
the metric on the validation part; metrics on the test part are shown, but not used to sort. Metrics of a run with folds
are means over its folds. The exit code is 1 if any run failed.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from ..data.fields import DataError
from ..data.read import open_regular
from ..experiments.tables import cell, heading
from ..files import FileError, write_atomically
from ..models import RunFolder
from .runs import drawing, refuse_another_page, write_csv
from .sweep import config_of, runs_of

OURS = " have finished, "         # every page of a sweep contains it
SEED = "seed"                    # runs that differ only in this option share a row
VALIDATION = "validation"        # the part on which models are chosen


class Collected(NamedTuple):
    """A run: its options that vary; its metrics, {(part, metric): value}, none if unfinished; and why it failed."""

    options: dict[str, Any]
    metrics: dict[tuple[str, str], float]
    why: str = ""


def add(command: Any, arguments: list[str]) -> None:
    command.add_argument("folder", metavar="DIR", help="a folder that `tinyattn sweep` wrote")


def run(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    varied, points = runs_of(folder)
    first: dict[str, tuple[str, Path]] = {}
    runs = {name: _run(folder, name, point, varied, first) for name, point in points.items()}
    refuse_another_page(folder / "README.md", OURS, "what `tinyattn collect` wrote", "move it")
    done = {name: run for name, run in runs.items() if run.metrics}
    failed = {name: run.why for name, run in runs.items() if run.why}
    waiting = len(runs) - len(done) - len(failed)
    text = [f"{len(runs)} runs: {len(done)}{OURS}{len(failed)} failed, {waiting} are to come", ""]
    try:
        if done:
            text += [*_table(list(done.values())), ""]
            write_csv(folder / "runs.csv", _csv(done))
            if _draw(list(done.values()), folder / "runs.png"):
                text += ["![every run's metric](runs.png)", ""]
        text += [f"- {name} failed: {why}" for name, why in failed.items()]
        write_atomically(folder / "README.md", "\n".join([f"# {folder.resolve().name}", "", *text, ""]).encode())
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror}") from None
    print("\n".join(line for line in text if not line.startswith("!")))
    return 1 if failed else 0


def _draw(runs: list[Collected], path: Path) -> bool:
    """-> was the picture drawn?"""
    from ..show import save, sweep_dots

    with drawing(path.name):
        tested = next(column for column in _columns(runs) if column[0] != VALIDATION)
        save(sweep_dots(_groups(runs), tested), path)
        return True
    return False


def _run(
    folder: Path, name: str, point: dict[str, Any], varied: list[str], first: dict[str, tuple[str, Path]]
) -> Collected:
    """`first` keeps, for each source of data, the fingerprint and the path of the first run on it."""
    log, count = folder / f"{name}.log", point.get("folds")
    runs = [RunFolder(folder / name / f"fold-{n + 1}") for n in range(count)] if count else [RunFolder(folder / name)]
    options = {n: point.get(n, "") for n in varied}
    if all(run.finished for run in runs):
        try:
            each = [_measured(run, config_of(point), bool(count), first) for run in runs]
        except (FileError, ValueError) as error:             # the table is made without this run
            return Collected(options, {}, str(error))
        shared = [key for key in each[0] if all(key in metrics for metrics in each)]
        return Collected(options, {key: statistics.mean(metrics[key] for metrics in each) for key in shared})
    try:
        with open_regular(log) as file:                      # reading a pipe would never end
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except (OSError, DataError):
        lines = []
    ended = lines and (lines[-1].startswith("tinyattn") or "Error" in lines[-1])        # not a warning
    return Collected(options, {}, lines[-1] if ended else "")


def _measured(
    run: RunFolder, config: dict[str, Any], is_fold: bool, first: dict[str, tuple[str, Path]]
) -> dict[tuple[str, str], float]:
    """The metric of a run on the validation part, where it has one, then those on the test part.

    Raises FileError for another run.
    """
    split = run.evaluation()["split"]
    run.refuse_other(config | {"evaluation": config["evaluation"] | ({"split": split} if is_fold else {})})
    source, fingerprint = run.data()
    was, other = first.setdefault(source + split, (fingerprint, run.path))       # the fingerprint depends on the split
    if was != fingerprint:
        raise FileError(f"{run.path} was trained on other data than {other}")
    valid, metrics = run.validation(), run.metrics()["model"]
    chosen_by = {} if valid is None else {(VALIDATION, valid[0]): valid[1]}
    return chosen_by | {(part, metric): v for part, row in metrics.items() for metric, v in row.items()}


def _columns(runs: list[Collected]) -> list[tuple[str, str]]:
    """The metric on the validation part, if all runs have the same one; then those on the test part."""
    columns = dict.fromkeys(column for run in runs for column in run.metrics)
    return [c for c in columns if c[0] != VALIDATION or all(c in run.metrics for run in runs)]


def _groups(runs: list[Collected]) -> dict[str, list[Collected]]:
    """The runs, grouped by all options but the seed."""
    groups: dict[str, list[Collected]] = {}
    for run in runs:
        shared = ", ".join(f"{name} {value}" for name, value in run.options.items() if name != SEED and value != "")
        groups.setdefault(shared or "all", []).append(run)
    return groups


def _table(runs: list[Collected]) -> list[str]:
    """The table, sorted by the mean on the validation part, the best row first.

    Runs of older versions, and models without validation, are sorted by the first metric of the test part.
    """
    columns, groups = _columns(runs), _groups(runs)
    values = {shared: [[run.metrics[c] for run in group if c in run.metrics] for c in columns]
              for shared, group in groups.items()}  # fmt: skip
    lines = heading(["runs", *(f"{part} {metric.upper()}" for part, metric in columns)])
    is_loss = columns[0][0] != VALIDATION and columns[0][1] in ("loss", "nats", "rmse", "mae")
    for shared in sorted(groups, key=lambda x: statistics.mean(values[x][0] or [0.0]), reverse=not is_loss):
        shown = shared.replace("|", r"\|")                     # a path may contain |, which would end the cell
        lines.append(f"| {shown} | {len(groups[shared])} | {' | '.join(map(cell, values[shared]))} |")
    return lines


def _csv(runs: dict[str, Collected]) -> list[list[Any]]:
    """A heading, and a row for each run: its name, the options that vary, its metrics."""
    columns, options = _columns(list(runs.values())), next(iter(runs.values())).options
    rows = [[name, *run.options.values(), *(run.metrics.get(column, "") for column in columns)]
            for name, run in runs.items()]  # fmt: skip
    return [["run", *options, *(f"{part} {metric}" for part, metric in columns)], *rows]
