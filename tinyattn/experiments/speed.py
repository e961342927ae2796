"""Seconds an epoch of three networks of equal size (Kang & McAuley 2018, section IV-G, "training efficiency")."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .datasets import ML_1M
from .experiment import Experiment, Results, Row
from .paired import in_pairs
from .pictures import Curves, Line, Picture
from .tables import figures, heading, page

TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "dropout": 0.2, "epochs": 3, "patience": 0}
MODELS: dict[str, tuple[str, str]] = {
    "sasrec": ("SASRec", "sasrec"),
    "gru4rec": ("GRU4Rec, basic form", "gru4rec"),
    "caser": ("Caser", "caser"),
}
LENGTHS = (10, 20, 100, 200)


def _page(experiment: Experiment, results: Results) -> str:
    lines = heading(["seconds an epoch", "times SASRec's", "rounds"])
    for key, (title, _) in MODELS.items():
        found = _beside(results[key], results["sasrec"])
        cells = [f"{number:.2f}" for number in found[:2]] if found else ["", ""]
        lines.append(f"| {title} | {' | '.join(cells)} | {found[2] if found else 'to come'} |")
    lengths = heading(["seconds an epoch", "times that of n 50", "rounds"])
    for n, (seconds, ratio, rounds) in _lengths(results).items():
        lengths.append(f"| n {n} | {seconds:.2f} | {ratio:.2f} | {rounds} |")
    parts = [lines, ["## SASRec by length"], lengths, figures(experiment, results)]
    return page(experiment, results, parts)


def _lengths(results: Results) -> dict[int, tuple[float, float, int]]:
    """Of each n that has been run, what `_beside` says of it and n 50."""
    keys = {n: "sasrec" if n == TRAINED["maxlen"] else f"n-{n}" for n in sorted((*LENGTHS, TRAINED["maxlen"]))}
    found = {n: _beside(results[key], results["sasrec"]) for n, key in keys.items()}
    return {n: numbers for n, numbers in found.items() if numbers}


def _beside(runs: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]) -> tuple[float, float, int] | None:
    """The median of the seconds, and of the ratios to `base` within a round; and rounds. None where there are none."""
    both = zip(*([run["epoch_seconds"] for run in found] for found in in_pairs(runs, base)), strict=True)
    pairs = [(mine, theirs) for mine, theirs in both if mine and theirs]        # one that went on elsewhere has none
    if not pairs:
        return None
    return statistics.median(a for a, _ in pairs), statistics.median(a / b for a, b in pairs), len(pairs)


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    found = _lengths(results)
    line: dict[str, Line] = {"SASRec": (list(found), [seconds for seconds, *_ in found.values()])} if found else {}
    return {"lengths": Curves("Seconds an epoch of SASRec by n", "n", "seconds an epoch", {"SASRec": line})}


EXPERIMENT = Experiment(
    name="speed",
    title="Seconds an epoch",
    question="""
Training steps of an epoch on MovieLens 1M, n 50 and d 50, BCE with one negative, one core. Rows take turns, one run
at a time: a round is a seed, times are medians over rounds, and ratios medians of those within a round. The paper
has SASRec an order of magnitude faster than Caser and GRU4Rec+, on a GPU. Below, SASRec alone with other n.
""",
    datasets={"ml-1m": ML_1M},
    rows={key: Row(title, "ml-1m", model, TRAINED, minutes=0.3) for key, (title, model) in MODELS.items()}
    | {f"n-{n}": Row(f"SASRec, n {n}", "ml-1m", "sasrec", TRAINED | {"maxlen": n}, minutes=0.3) for n in LENGTHS},
    page=_page,
    pictures=_pictures,
    seeds=5,
    alone=True,
)
