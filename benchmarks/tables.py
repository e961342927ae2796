"""Train configurations over seeds, measure them under every protocol, and write a results file and a page.

Started again, it skips runs that have finished and continues a run that was cut short; the results file is written
after each run. The data set and rows of a table are in a script of its own, such as `ml_1m.py`.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, ROOT, clean_environment, describe, made_on, write_pages, write_result
from tinyattn.data import Split, leave_one_out, read
from tinyattn.evaluation import draw_candidates, evaluate
from tinyattn.experiments.tables import cell
from tinyattn.models import MODELS, ItemCosine, Markov, Popularity, RunFolder

BASELINES = {
    "popularity": Popularity,
    "item cosine": ItemCosine,
    "Markov": Markov,
    "Markov, order 2": lambda: Markov(2),
}
SAMPLED = ("uni100", "pop100")


@dataclass(frozen=True)
class Configuration:
    """One row of a table: the flags of `tinyattn train`, and how many seeds are trained with them."""

    title: str
    arguments: dict[str, Any]
    seeds: int = 1
    bands: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)  # (protocol, metric): mean, ±


@dataclass(frozen=True)
class Table:
    """A data set, the rows that are trained on it, and published rows for comparison."""

    name: str
    heading: str
    file: str
    configurations: dict[str, Configuration]
    published: list[tuple[str, ...]]  # title, then a cell for each of COLUMNS
    remarks: str = ""
    quoted_on: Path | None = None
    more: dict[str, Callable[[dict[str, Any], str], str]] = field(
        default_factory=dict
    )  # heading: (result, row) -> cell

    @property
    def result(self) -> Path:
        return RESULTS / f"{self.name}.json"

    @property
    def page(self) -> Path:
        return RESULTS / f"{self.name}.md"


def main(table: Table) -> None:
    parser = argparse.ArgumentParser(description=f"The table of {table.name}: see benchmarks/tables.py.")
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help=f"the folder that holds {table.file}")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / table.name, help="where runs are kept")
    parser.add_argument("--only", nargs="*", metavar="ROW", help=f"rows to train, of {', '.join(table.configurations)}")
    parser.add_argument("--finished-only", action="store_true", help="measure what has been trained, train nothing")
    options = parser.parse_args()
    path = options.data / table.file
    if not path.exists():
        print(f"skipped: {path} is not there")
        return
    result = json.loads(table.result.read_text()) if table.result.exists() else {}
    data = read(path)
    split = leave_one_out(data)
    candidates = {protocol: draw_candidates(split, protocol) for protocol in SAMPLED}
    result.setdefault("machine", describe())  # for the baselines; and for older runs, which name none
    about = {"file": table.file, "fingerprint": data.fingerprint(), **data.report()}
    if result.setdefault("data", about)["fingerprint"] != about["fingerprint"]:
        raise SystemExit(f"{table.result} is of another {table.file}: move it away first")
    baselines = result.setdefault("baselines", {})
    for name, make in BASELINES.items():
        if name not in baselines:
            baselines[name] = _measured(make().fit(split), split, candidates)
            _write(table, result)
    for key, configuration in table.configurations.items():
        if options.only is not None and key not in options.only:
            continue
        for seed in range(configuration.seeds):
            run = RunFolder(options.work / f"{key}-seed{seed}")
            done = result.setdefault("runs", {}).setdefault(key, {})
            if str(seed) in done or (options.finished_only and not run.finished):
                continue
            if not run.finished:
                _train(path, run, configuration, seed)
            done[str(seed)] = _finished(run, configuration, seed, split, candidates)
            _write(table, result)
    _write(table, result)
    print(page(table, result))


def _train(path: Path, run: RunFolder, configuration: Configuration, seed: int) -> None:
    command = [sys.executable, "-m", "tinyattn", "train", str(path), "--out", str(run.path), "--seed", str(seed)]
    for name, value in configuration.arguments.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    subprocess.run(command, check=True, env=clean_environment(), cwd=ROOT)


def _finished(run: RunFolder, configuration: Configuration, seed: int, split: Split, candidates: Any) -> dict[str, Any]:
    model, config = run.open()
    arguments = dict(configuration.arguments)
    expected = MODELS[arguments.pop("model", "sasrec")](**arguments, seed=seed).identity()
    if config["parameters"] != expected or config["data"]["fingerprint"] != split.data.fingerprint():
        raise SystemExit(f"{run.path} is of another configuration or other data: remove it, or give another --work")
    rows = [line.split(",") for line in (run.path / "training.csv").read_text().splitlines()[1:]]
    return {
        "epochs": len(rows),
        "best epoch": int(max(rows, key=lambda row: float(row[2]))[0]),
        "tokens per second": statistics.median(float(row[4]) for row in rows),
        "machine": describe(),
        **_measured(model, split, candidates),
    }


def _measured(model: Any, split: Split, candidates: Any) -> dict[str, dict[str, float]]:
    found = evaluate(model, split, ks=(5, 10), sampled=candidates)
    return {protocol: {name: round(value, 5) for name, value in row.items()} for protocol, row in found.items()}


def _write(table: Table, result: dict[str, Any]) -> None:
    table.result.parent.mkdir(exist_ok=True)
    write_result(table.result, result)
    write_pages(table.name.replace("-", "_"), pages_of(table))


def pages_of(table: Table) -> dict[Path, str]:
    result = json.loads(table.result.read_text())
    return {table.page: page(table, result)} | ({table.quoted_on: summary(table, result)} if table.quoted_on else {})


COLUMNS = [("full", "hr@10"), ("full", "ndcg@10"), ("uni100", "hr@10"), ("uni100", "ndcg@10"), ("pop100", "hr@10"),
           ("pop100", "ndcg@10")]  # fmt: skip


def page(table: Table, result: dict[str, Any]) -> str:
    """The Markdown page, made from the results file alone."""
    data = result["data"]
    runs = [run for done in result.get("runs", {}).values() for run in done.values()]
    timed = result.get("seconds", {}).values()  # of each make of CPU
    machines = made_on(result["machine"], *(part["machine"] for part in (*runs, *timed) if "machine" in part))
    more = ["best epoch", *table.more]
    none = " |" * len(more)
    lines = [
        f"# {table.heading}",
        "",
        f"{data['users']:,} users, {data['items']:,} items, {data['interactions']:,} interactions; leave-one-out, "
        "every user with three interactions; validation chooses the epoch, the test items are read once.",
        "",
        "| | seeds | " + " | ".join([*(f"{protocol} {metric.upper()}" for protocol, metric in COLUMNS), *more]) + " |",
        "|---|---|" + "---|" * (len(COLUMNS) + len(more)),
    ]
    for name, row in result["baselines"].items():
        lines.append(f"| {name} | - | " + " | ".join(f"{row[p][m]:.4f}" for p, m in COLUMNS) + " |" + none)
    for key, configuration in table.configurations.items():
        runs = list(result.get("runs", {}).get(key, {}).values())
        if runs:
            cells = [cell([run[p][m] for run in runs]) for p, m in COLUMNS]
            cells += [_best(runs), *(of(result, key) for of in table.more.values())]
            lines.append(f"| **{configuration.title}** | {len(runs)} | " + " | ".join(cells) + " |")
        else:
            lines.append(f"| {configuration.title} | none yet |" + " |" * len(COLUMNS) + none)
    for title, *values in table.published:
        lines.append(f"| *{title}* | | " + " | ".join(values) + " |" + none)
    lines += ["", *_bands(table, result), "", table.remarks.strip(), ""]
    lines += [
        f"Made by `python benchmarks/{table.name.replace('-', '_')}.py --data DIR` on {machines}. "
        "With several seeds: mean ± standard deviation. Published rows, in italics, are their authors' numbers, not "
        "ours.",
        "",
    ]
    return "\n".join(lines)


def _best(runs: list[dict[str, Any]]) -> str:
    """The epochs that validated best, and of how many: a best one near the last says that more might be better."""
    some = sorted({run["epochs"] for run in runs})
    return "; ".join(
        f"{', '.join(str(run['best epoch']) for run in runs if run['epochs'] == epochs)} of {epochs}" for epochs in some
    )


def summary(table: Table, result: dict[str, Any]) -> str:
    """The shorter table for the page `quoted_on`, made from the results file alone."""
    shown = COLUMNS[:4]
    rows = {name: [row] for name, row in result["baselines"].items()}
    runs = {key: list(result.get("runs", {}).get(key, {}).values()) for key in table.configurations}
    rows |= {f"**{c.title}**": runs[key] for key, c in table.configurations.items() if runs[key]}
    lines = [
        "| | seeds | " + " | ".join(f"{p} {m.upper()}" for p, m in shown) + " |",
        "|---|---|" + "---|" * len(shown),
    ]
    for name, found in rows.items():
        cells = [cell([row[p][m] for row in found]) for p, m in shown]
        lines.append(f"| {name} | {len(found) if name.startswith('**') else ''} | {' | '.join(cells)} |")
    first = next((key for key in table.configurations if len(runs[key]) > 1), None)
    if first is not None:
        values = [[row[p][m] for row in runs[first]] for p, m in shown]
        moves = [(max(v) - min(v)) / statistics.mean(v) for v in values]
        where = f"benchmarks/results/{table.name}.md"
        lines += [
            "",
            f"{table.remarks.strip()} Between the {len(runs[first])} seeds of the first row in bold full metrics "
            f"differ by up to {100 * max(moves[:2]):.0f} % of their value, sampled ones by "
            f"{100 * max(moves[2:]):.0f} %: smaller differences of single runs say nothing. "
            f"All of it, with published numbers: [{where}](../{where}).",
        ]
    return "\n".join(lines)


def _bands(table: Table, result: dict[str, Any]) -> list[str]:
    """A line for each band: is the mean over seeds inside it? Bands are set before the rows are trained."""
    lines = []
    for key, configuration in table.configurations.items():
        runs = list(result.get("runs", {}).get(key, {}).values())
        for (protocol, metric), (centre, width) in configuration.bands.items() if runs else ():
            mean = statistics.mean(run[protocol][metric] for run in runs)
            verdict = "inside" if abs(mean - centre) <= width else "**outside**"
            what = f"{configuration.title}, {protocol} {metric.upper()}"
            lines.append(f"- {what}: {mean:.4f}, expected {centre} ± {width}: {verdict}")
    return lines
