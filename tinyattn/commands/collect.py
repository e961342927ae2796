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


class Collected(NamedTuple):
    """A run: its options that vary; its metrics, {(part, metric): value}, none if unfinished; and why it failed."""

    options: dict[str, Any]
    metrics: dict[tuple[str, str], float]
    why: str = ""
    valid: tuple[str, float] | None = None           # the metric on the validation part, and its value


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
        save(sweep_dots(_groups(runs), _columns(runs)[0]), path)
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
        by_part = {key: statistics.mean(metrics[key] for metrics, _ in each) for key in each[0][0]}
        valid = [valid for _, valid in each if valid is not None]
        mean = (valid[0][0], statistics.mean(value for _, value in valid)) if len(valid) == len(runs) else None
        return Collected(options, by_part, valid=mean)
    try:
        with open_regular(log) as file:                      # reading a pipe would never end
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except (OSError, DataError):
        lines = []
    ended = lines and (lines[-1].startswith("tinyattn") or "Error" in lines[-1])        # not a warning
    return Collected(options, {}, lines[-1] if ended else "")


def _measured(
    run: RunFolder, config: dict[str, Any], is_fold: bool, first: dict[str, tuple[str, Path]]
) -> tuple[dict[tuple[str, str], float], tuple[str, float] | None]:
    """The metrics of a run on the test part and on the validation part. Raises FileError for another run."""
    split = run.evaluation()["split"]
    run.refuse_other(config | {"evaluation": config["evaluation"] | ({"split": split} if is_fold else {})})
    source, fingerprint = run.data()
    was, other = first.setdefault(source + split, (fingerprint, run.path))       # the fingerprint depends on the split
    if was != fingerprint:
        raise FileError(f"{run.path} was trained on other data than {other}")
    metrics = run.metrics()["model"]
    return {(part, metric): v for part, row in metrics.items() for metric, v in row.items()}, run.validation()


def _columns(runs: list[Collected]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(column for run in runs for column in run.metrics))


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
    chosen_by = _chosen_by(runs)
    validated = [] if chosen_by is None else [f"validation {chosen_by.upper()}"]
    lines = heading(["runs", *validated, *(f"{part} {metric.upper()}" for part, metric in columns)])
    is_loss = columns[0][1] in ("loss", "nats", "rmse", "mae")
    by_validation = {shared: [run.valid[1] for run in group if run.valid] for shared, group in groups.items()}
    if chosen_by is None:
        order = sorted(groups, key=lambda x: _mean(groups[x], columns[0]), reverse=not is_loss)
    else:
        order = sorted(groups, key=lambda x: statistics.mean(by_validation[x]), reverse=True)
    for shared in order:
        cells = [] if chosen_by is None else [cell(by_validation[shared])]
        cells += [cell([run.metrics[c] for run in groups[shared] if c in run.metrics]) for c in columns]
        shown = shared.replace("|", r"\|")                     # a path may contain |, which would end the cell
        lines.append(f"| {shown} | {len(groups[shared])} | {' | '.join(cells)} |")
    return lines


def _chosen_by(runs: list[Collected]) -> str | None:
    """The metric on the validation part, if all runs have the same one."""
    names = {run.valid and run.valid[0] for run in runs}
    return names.pop() if len(names) == 1 else None


def _mean(runs: list[Collected], column: tuple[str, str]) -> float:
    return statistics.mean([run.metrics[column] for run in runs if column in run.metrics] or [0.0])


def _csv(runs: dict[str, Collected]) -> list[list[Any]]:
    """A heading, and a row for each run: its name, the options that vary, its metrics."""
    columns = _columns(list(runs.values()))
    options = next(iter(runs.values())).options
    chosen_by = _chosen_by(list(runs.values()))
    validated = [] if chosen_by is None else [f"validation {chosen_by}"]
    rows = [[name, *run.options.values(), *([run.valid[1]] if chosen_by and run.valid else []),
             *(run.metrics.get(column, "") for column in columns)]
            for name, run in runs.items()]  # fmt: skip
    return [["run", *options, *validated, *(f"{part} {metric}" for part, metric in columns)], *rows]
