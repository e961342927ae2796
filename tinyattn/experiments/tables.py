"""Tables of an experiment's runs, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from ..evaluation import overlap
from .experiment import Experiment, Results, Row
from .paired import unpacked
from .pictures import Dot

Column = tuple[str, str]                    # protocol, metric


def values(runs: Sequence[dict[str, Any]], column: Column) -> list[float]:
    """A metric of each seed's run."""
    protocol, metric = column
    return [run["metrics"][protocol][metric] for run in runs]


def cell(found: Sequence[float], digits: int = 4) -> str:
    """The mean over seeds, and with several of them their standard deviation."""
    if not found:
        return ""
    mean = f"{statistics.mean(found):.{digits}f}"
    return mean if len(found) == 1 else f"{mean} ± {statistics.stdev(found):.{digits}f}"


def heading(columns: Sequence[str]) -> list[str]:
    return [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]


def table(
    experiment: Experiment,
    results: Results,
    keys: Sequence[str],
    columns: Sequence[Column],
    more: dict[str, Callable[[Sequence[dict[str, Any]]], str]] | None = None,
) -> list[str]:
    """A line for each row of `keys`, and beneath one in italics of what is published, where something is.

    A row whose runs are still to come says so. `more` are further columns: heading -> cell of a row's runs.
    """
    more = more or {}
    lines = heading(["seeds", *(f"{protocol} {metric.upper()}" for protocol, metric in columns), *more])
    for key in keys:
        row, runs = experiment.rows[key], results[key]
        cells = [cell(values(runs, column)) for column in columns] + [f(runs) if runs else "" for f in more.values()]
        lines.append(f"| {row.title} | {_seeds(runs)} | {' | '.join(cells)} |")
        if row.published:
            theirs = [_as_printed(row.published.get(column)) for column in columns] + [""] * len(more)
            lines.append(f"| *published: {row.source}* | | {' | '.join(theirs)} |")
    return lines


def _seeds(runs: Sequence[dict[str, Any]]) -> str:
    """How many, and how many of these were trained on a GPU, if only for a time."""
    there = sum(any("device" in machine for machine in machines_of(run)) for run in runs)
    return (f"{len(runs)}" if runs else "to come") + (f", {there} on a GPU" if there else "")


def machines_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    """All that it was on: a run may be stopped, and go on elsewhere."""
    return [*run.get("before", []), run["machine"]]


def _as_printed(value: float | None) -> str:
    return "" if value is None else f"*{value:.4f}*"


def dots(experiment: Experiment, results: Results, keys: Sequence[str], column: Column) -> dict[str, Dot]:
    """A metric of every row that has been run, by its title, and what is published of it."""
    rows = {key: experiment.rows[key] for key in keys}
    return {row.title: Dot(values(results[key], column), row.published.get(column))
            for key, row in rows.items() if results[key]}  # fmt: skip


def figures(experiment: Experiment, results: Results) -> list[str]:
    """The experiment's pictures, which stand beside its page."""
    shown = experiment.shown(results).items()
    return [line for name, picture in shown for line in (f"![{picture.alt}]({name}.png)", "")][:-1]


def level(experiment: Experiment, results: Results, keys: Sequence[str], column: Column) -> list[str]:
    """Names the pairs of rows that their seeds do not tell apart: within twice the larger standard deviation.

    Trained rows of one seed are left out: nothing says how far theirs differ. Of models that count, all would be alike.
    """
    known = [key for key in keys if len(results[key]) > 1 or (results[key] and not experiment.is_trained(key))]
    found = {key: values(results[key], column) for key in known}
    pairs = []
    for i, (one, mine) in enumerate(found.items()):
        for other, theirs in list(found.items())[i + 1 :]:
            apart = abs(statistics.mean(mine) - statistics.mean(theirs))
            spread = max((statistics.stdev(seeds) for seeds in (mine, theirs) if len(seeds) > 1), default=0)
            if spread and apart <= 2 * spread:
                pairs.append(f"*{experiment.rows[one].title}* with *{experiment.rows[other].title}*")
    where = " ".join(column).replace("ndcg", "NDCG")
    said = f"Level, as they lie within two standard deviations in {where}"
    return [f"{said}: {'; '.join(pairs)}."] if pairs else []


def remarks(experiment: Experiment, results: Results, text: str) -> list[str]:
    """What the runs were found to show; nothing of a quick look, nor while runs are to come.

    The text was written of the runs in benchmarks/results, and anybody's may show something else.
    """
    told = not missing(experiment, results) and not experiment.is_quick
    return [f"Of the runs in `benchmarks/results/reproduce/{experiment.name}`:", "", text.strip()] if told else []


def beyond(results: Results, keys: Sequence[str], titles: dict[str, str], first: str) -> list[str]:
    """A line for each row that has been run: coverage, novelty, popularity, and what its lists share with `first`'s.

    Runs of older versions say nothing of it, and are left out.
    """
    known = {key: [run["beyond"] for run in results[key] if "beyond" in run] for key in (first, *keys)}
    names = ("coverage@10", "novelty", "popularity")
    lines = heading([*names, f"overlap with {titles[first]}"])
    for key in keys:
        if found := known[key]:
            cells = [f"{statistics.mean(run[name] for run in found):.3f}" for name in names]
            lists, others = ([unpacked(run["best"]) for run in runs] for runs in (found, known[first]))
            shared = [overlap(mine, theirs) for mine in lists for theirs in others]
            cells.append(f"{statistics.mean(shared):.2f}" if shared else "")
            lines.append(f"| {titles[key]} | {' | '.join(cells)} |")
    return lines


def minutes(runs: Sequence[dict[str, Any]]) -> str:
    """Of training, with one worker: the mean of the epochs, each at the pace of the quickest run.

    Whatever else a machine did beside a run made it slower. "seconds" of a run count from its last start, and so serve
    only where there are no epochs.
    """
    if not all(run["epochs"] for run in runs):
        return f"{statistics.mean(run['seconds'] for run in runs) / 60:.1f}"
    return at_pace(runs, statistics.mean(run["epochs"] for run in runs) / 60)


def pace(runs: Sequence[dict[str, Any]]) -> tuple[float, str] | None:
    """Seconds an epoch of the quickest run on the host, or else on a device, and its name; None where none is told."""
    found = [(run["epoch_seconds"], run["machine"].get("device", "")) for run in runs if run["epoch_seconds"]]
    return min(found, key=lambda run: (run[1] != "", run[0]), default=None)


def at_pace(runs: Sequence[dict[str, Any]], times: float = 1.0) -> str:
    """A cell: seconds an epoch, times a number, and on which device, where that is not the host."""
    found = pace(runs)
    return "" if found is None else f"{times * found[0]:.1f}" + (f", {found[1]}" if found[1] else "")


def epochs(runs: Sequence[dict[str, Any]]) -> str:
    """How many epochs a run took, with those that patience added."""
    found = [run["epochs"] for run in runs]
    return str(round(statistics.mean(found))) if any(found) else ""


TRAINING: dict[str, Callable[[Sequence[dict[str, Any]]], str]] = {"epochs": epochs, "minutes of training": minutes}
MINUTES = """Minutes of training are the mean of the epochs times the seconds an epoch of a row's quickest run, on the
host where there is one; of a row with one seed, whatever else the machine did is in them.""".replace("\n", " ")


def made(results: Results) -> str:
    """How many runs stand on a page, and where they were made."""
    runs = [run for found in results.values() for run in found]
    dates: dict[str, list[str]] = {}
    for m in (machine for run in runs for machine in machines_of(run)):
        beside = f"{m['device']} beside " if "device" in m else ""
        machine = f"{beside}{m['cores']} cores of {m['cpu']}, Python {m['python']}, NumPy {m['numpy']}"
        dates.setdefault(machine, []).append(m["date"])
    machines = (f"{machine}, {_span(sorted(when))}" for machine, when in dates.items())
    n, commits = len(runs), {machine.get("commit", "") for run in runs for machine in machines_of(run)}
    of = f", of {len(commits)} commits" if len(commits) > 1 else ""
    return f"{n} run{'s' * (n != 1)}{of}, each with one worker, on {'; '.join(machines) or 'no machine yet'}."


def _span(dates: Sequence[str]) -> str:
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def to_come(experiment: Experiment, results: Results) -> str:
    """How many runs of the grid there are not yet, and about how long they take: as long as those of other seeds."""
    left = missing(experiment, results)
    if not left:
        return ""
    hours = sum(n * _minutes(experiment.rows[key], results[key]) for key, n in left.items()) / 60
    given = " --data DIR" if any(data.missing(None) for data in experiment.datasets.values()) else ""
    n, quick = sum(left.values()), " --quick" if experiment.is_quick else ""
    runs, them = ("1 run of the grid is", "it") if n == 1 else (f"{n} runs of the grid are", "them")
    command = f"`tinyattn reproduce {experiment.name}{given}{quick} --out OUT`"
    return f"{runs} to come, about {max(hours, 0.1):.1f} hours of one core: {command} goes on with {them}. "


def _minutes(row: Row, runs: Sequence[dict[str, Any]]) -> float:
    """About what a run of the row takes on the host: as its others did, or as the grid has it."""
    found = pace(runs)
    if found is None or found[1]:
        return row.minutes
    return statistics.mean(run["epochs"] for run in runs) * found[0] / 60


def missing(experiment: Experiment, results: Results) -> dict[str, int]:
    """How many runs of each row there are not yet, of the rows that lack any."""
    left = {key: sum(name == key for name, _ in experiment.runs()) - len(runs) for key, runs in results.items()}
    return {key: n for key, n in left.items() if n > 0}


def page(experiment: Experiment, results: Results, parts: Sequence[Sequence[str]]) -> str:
    """A whole page: title, question, parts, and how it was made."""
    body = [line for part in parts for line in (*part, "")]
    lines = [f"# {experiment.title}", "", experiment.question.strip(), "", *body]
    how = f"Made by `tinyattn reproduce {experiment.name}`: {made(results)} {to_come(experiment, results)}"
    told = f"{how}With several seeds: mean ± standard deviation."
    if any("minutes of training" in line for line in body):
        told += f" {MINUTES}"
    return "\n".join([*lines, told, ""])
