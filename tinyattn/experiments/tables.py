"""Tables of an experiment's runs, in Markdown."""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..evaluation import Comparison, compare_means, holm, overlap
from ..evaluation.means import CHANCE
from .experiment import Experiment, Results, Row, Runs
from .paired import unpacked
from .pictures import Dot

Column = tuple[str, str]                    # protocol, metric


def values(runs: Runs, column: Column) -> list[float]:
    """A metric of each seed's run."""
    protocol, metric = column
    return [run["metrics"][protocol][metric] for run in runs]


def cell(seeds: Sequence[float], digits: int = 4) -> str:
    """The mean over seeds, with several of them ± the standard deviation; "" for none."""
    if not seeds:
        return ""
    mean = f"{statistics.mean(seeds):.{digits}f}"
    return mean if len(seeds) == 1 else f"{mean} ± {statistics.stdev(seeds):.{digits}f}"


def heading(columns: Sequence[str]) -> list[str]:
    return [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]


def grid(columns: Sequence[str], rows: Iterable[tuple[str, Iterable[str]]]) -> list[str]:
    """A table of these columns and rows, (title, cells)."""
    return [*heading(columns), *(f"| {title} | {' | '.join(cells)} |" for title, cells in rows)]


def table(
    experiment: Experiment, results: Results, keys: Sequence[str], columns: Sequence[Column],
    more: dict[str, Callable[[Runs], str]] | None = None,
) -> list[str]:  # fmt: skip
    """A line for each row of `keys`, and one of its published numbers; `more` are columns: heading -> cell of runs."""
    more = more or {}
    lines = heading(["seeds", *(f"{protocol} {metric.upper()}" for protocol, metric in columns), *more])
    for key in keys:
        row, runs = experiment.rows[key], results[key]
        cells = [cell(values(runs, column)) for column in columns] + [f(runs) if runs else "" for f in more.values()]
        lines.append(f"| {row.title} | {_seeds(runs)} | {' | '.join(cells)} |")
        if row.published:
            theirs = [f"*{row.published[c]:.4f}*" if c in row.published else "" for c in columns] + [""] * len(more)
            lines.append(f"| *published: {row.source}* | | {' | '.join(theirs)} |")
    return lines


def _seeds(runs: Runs) -> str:
    """The number of runs, and how many of them used a GPU at any time."""
    there = sum(any("device" in machine for machine in machines_of(run)) for run in runs)
    return (f"{len(runs)}" if runs else "to come") + (f", {there} on a GPU" if there else "")


def machines_of(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Every machine of a run, which may be interrupted and continue elsewhere."""
    return [*run.get("before", []), run["machine"]]


def dots(experiment: Experiment, results: Results, keys: Sequence[str], column: Column) -> dict[str, Dot]:
    """A metric of every row with runs, by its title, and the published value."""
    rows = {key: experiment.rows[key] for key in keys}
    return {row.title: Dot(values(results[key], column), row.published.get(column))
            for key, row in rows.items() if results[key]}  # fmt: skip


def figures(experiment: Experiment, results: Results) -> list[str]:
    """Markdown of the experiment's pictures, whose files stand beside its page."""
    shown = experiment.shown(results).items()
    return [line for name, picture in shown for line in (f"![{picture.alt}]({name}.svg)", "")][:-1]


def compare(experiment: Experiment, results: Results, one: str, other: str, column: Column) -> Comparison | None:
    """The mean of one row minus the other's, paired by seed if both have the same seeds.

    None if a trained row has a single seed, or if no row is trained.
    """
    pair = (one, other)
    if any(len(results[key]) < 2 and experiment.is_trained(key) for key in pair):
        return None
    mine, theirs = ({run["row"]["seed"]: value for run, value in zip(runs, values(runs, column), strict=True)}
                    for runs in (results[key] for key in pair))  # fmt: skip
    if max(len(mine), len(theirs)) < 2:
        return None
    paired = mine.keys() == theirs.keys()
    return compare_means([*mine.values()], [theirs[seed] for seed in (mine if paired else theirs)], paired)


def ranked(experiment: Experiment, results: Results, keys: Sequence[str], column: Column) -> list[str]:
    """A table of the rows with runs by their means, each compared with the next; [] if none can be."""
    means = {key: statistics.mean(values(results[key], column)) for key in keys if results[key]}
    order = sorted(means, key=lambda key: -means[key])
    beside = _differences(experiment, results, list(itertools.pairwise(order)), column)
    if beside is None:
        return []
    where = " ".join(column).replace("ndcg", "NDCG")
    lines = [(experiment.rows[key].title, [cell(values(results[key], column)), *two])
             for key, two in zip(order, [*beside, ["", ""]], strict=True)]  # fmt: skip
    return [f"By their means, each beside the next. {COMPARED}", "",
            *grid([where, "above the next by (95 % over seeds)", "p"], lines)]  # fmt: skip


def contrasts(
    experiment: Experiment, results: Results, pairs: dict[str, tuple[str, str]], column: Column
) -> list[str]:
    """A table of what distinguishes two rows, and the mean of the first minus the second's; [] if none can be."""
    beside = _differences(experiment, results, list(pairs.values()), column)
    if beside is None:
        return []
    where = f"{' '.join(column).replace('ndcg', 'NDCG')} (95 % over seeds)"
    return [f"What each part brings. {COMPARED}", "", *grid([where, "p"], zip(pairs, beside, strict=True))]


def _differences(
    experiment: Experiment, results: Results, pairs: Sequence[tuple[str, str]], column: Column
) -> list[list[str]] | None:
    """For each pair of rows two cells, the difference and its corrected p; None if no pair can be compared."""
    beside = [compare(experiment, results, *pair, column) for pair in pairs]
    if not any(beside):
        return None
    corrected = iter(holm([each.p for each in beside if each]))
    return [["", ""] if each is None else [f"{each.size:+.4f} ({each.low:+.4f} to {each.high:+.4f})",
                                           _chance(next(corrected))] for each in beside]  # fmt: skip


COMPARED = f"""Intervals and p are Student's over seeds, paired where both rows have
the same seeds, else Welch's; p is corrected for the number of lines (Holm 1979). From {CHANCE} on, seeds alone may have
made the difference. An empty cell: a row trained once, or two without chance."""


def _chance(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def beyond(results: Results, keys: Sequence[str], titles: dict[str, str], first: str) -> list[str]:
    """A line for each row: coverage, novelty, popularity, overlap with `first`'s lists; older runs do not have them."""
    known = {key: [run["beyond"] for run in results[key] if "beyond" in run] for key in (first, *keys)}
    names = ("coverage@10", "novelty", "popularity")
    rows = []
    for key in keys:
        if runs := known[key]:
            cells = [f"{statistics.mean(run[name] for run in runs):.3f}" for name in names]
            lists, others = ([unpacked(run["best"]) for run in each] for each in (runs, known[first]))
            shared = [overlap(mine, theirs) for mine in lists for theirs in others]
            cells.append(f"{statistics.mean(shared):.2f}" if shared else "")
            rows.append((titles[key], cells))
    return grid([*names, f"overlap with {titles[first]}"], rows)


def minutes(runs: Runs) -> str:
    """Minutes of training with one worker: the mean number of epochs at the pace of the quickest run.

    Other load on a machine only slows a run. "seconds" count from a run's last start: models without epochs use them.
    """
    if not all(run["epochs"] for run in runs):
        return f"{statistics.mean(run['seconds'] for run in runs) / 60:.1f}"
    return at_pace(runs, statistics.mean(run["epochs"] for run in runs) / 60)


def pace(runs: Runs) -> tuple[float, str] | None:
    """Seconds an epoch of the quickest run, on the CPU if there is one, and its device, "" for the CPU; or None."""
    paces = [(run["epoch_seconds"], run["machine"].get("device", "")) for run in runs if run["epoch_seconds"]]
    return min(paces, key=lambda run: (run[1] != "", run[0]), default=None)


def at_pace(runs: Runs, times: float = 1.0) -> str:
    """A cell: seconds an epoch, times a number, and the device, unless it is the CPU."""
    quickest = pace(runs)
    return "" if quickest is None else f"{times * quickest[0]:.1f}" + (f", {quickest[1]}" if quickest[1] else "")


def epochs(runs: Runs) -> str:
    """The mean number of epochs, patience included."""
    counts = [run["epochs"] for run in runs]
    return str(round(statistics.mean(counts))) if any(counts) else ""


TRAINING: dict[str, Callable[[Runs], str]] = {"epochs": epochs, "minutes of training": minutes}
MINUTES = """Minutes of training are the mean number of epochs times the seconds an epoch of a row's quickest run, on a
CPU if there is one; with one seed they include other load on the machine.""".replace("\n", " ")


def made(results: Results) -> str:
    runs = list(itertools.chain(*results.values()))
    dates: dict[str, list[str]] = {}
    for m in (machine for run in runs for machine in machines_of(run)):
        beside = f"{m['device']} beside " if "device" in m else ""
        machine = f"{beside}{m['cores']} cores of {m['cpu']}, Python {m['python']}, NumPy {m['numpy']}"
        dates.setdefault(machine, []).append(m["date"])
    spans = {machine: sorted({min(when), max(when)}) for machine, when in dates.items()}
    machines = (f"{machine}, {' to '.join(span)}" for machine, span in spans.items())
    n, where = len(runs), f"each with one worker, on {'; '.join(machines) or 'no machine yet'}"
    return f"{n} run{'s' * (n != 1)}, {where}.{_commits(runs)}"


def _commits(runs: Runs) -> str:
    """The commits of all runs, and how many runs each has; files of older versions lack them."""
    of = [{machine.get("commit") or "unknown" for machine in machines_of(run)} for run in runs]
    counts = sorted(Counter(itertools.chain(*of)).items(), key=lambda each: (each[0] == "unknown", -each[1], each[0]))
    shown = ", ".join(f"{commit} ({count})" for commit, count in counts)
    marked = "; + marks a tree with changes that were not committed" * any("+" in commit for commit, _ in counts)
    return f" Commits, with their runs: {shown}{marked}." if shown else ""


def ended_by_limit(rows: Mapping[str, Row], results: Results) -> str:
    """A sentence about runs with a patience that had as many epochs as allowed; "" without any."""
    counts = {key: sum(run["epochs"] == rows[key].options["epochs"] for run in runs)
              for key, runs in results.items() if rows[key].options.get("patience")}  # fmt: skip
    ended = "; ".join(f"{key} ({n} of {len(results[key])})" for key, n in counts.items() if n)
    return f"The limit of epochs ended these runs, which might have learned more: {ended}." if ended else ""


def to_come(experiment: Experiment, results: Results) -> str:
    """The number of missing runs of the grid, an estimate of their hours, and the command that carries them out."""
    left = missing(experiment, results)
    if not left:
        return ""
    hours = sum(n * _minutes(experiment.rows[key], results[key]) for key, n in left.items()) / 60
    files = " --data DIR" if any(data.missing(None) for data in experiment.datasets.values()) else ""
    n, quick = sum(left.values()), " --quick" if experiment.is_quick else ""
    runs, them = ("1 run of the grid is", "it") if n == 1 else (f"{n} runs of the grid are", "them")
    command = f"`tinyattn reproduce {experiment.name}{files}{quick} --out OUT`"
    return f"{runs} to come, about {max(hours, 0.1):.1f} hours of one core: {command} runs {them}. "


def _minutes(row: Row, runs: Runs) -> float:
    """The estimated minutes of a run on the CPU: from the row's other runs, or else the grid's estimate."""
    quickest = pace(runs)
    if quickest is None or quickest[1]:
        return row.minutes
    return statistics.mean(run["epochs"] for run in runs) * quickest[0] / 60


def missing(experiment: Experiment, results: Results) -> dict[str, int]:
    """The number of missing runs, for each row that misses any."""
    wanted = Counter(key for key, _ in experiment.runs())
    return {key: wanted[key] - len(runs) for key, runs in results.items() if wanted[key] > len(runs)}


def page(experiment: Experiment, results: Results, parts: Sequence[Sequence[str]]) -> str:
    """The question, the parts, remarks on a finished grid, runs that the limit ended, and how the page was made."""
    remarks = [[experiment.remarks.strip()]] if experiment.remarks and not missing(experiment, results) else []
    limited = [[sentence]] if (sentence := ended_by_limit(experiment.rows, results)) else []
    body = [line for part in (*parts, *remarks, *limited) if part for line in (*part, "")]
    how = f"Made by `tinyattn reproduce {experiment.name}`: {made(results)} {to_come(experiment, results)}"
    how += "With several seeds: mean ± standard deviation."
    if any("minutes of training" in line for line in body):
        how += f" {MINUTES}"
    return "\n".join([f"# {experiment.title}", "", experiment.question.strip(), "", *body, how, ""])
