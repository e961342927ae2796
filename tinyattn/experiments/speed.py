"""Seconds an epoch of three networks of equal size (Kang & McAuley 2018, section IV-G, "training efficiency")."""

import statistics
from typing import Any

from .datasets import ML_1M
from .experiment import Experiment, Results, Row, Runs
from .paired import in_pairs
from .pictures import Curves, Line, Picture
from .tables import figures, grid, page

TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 50, "dropout": 0.2, "epochs": 3, "patience": 0}
MODELS: dict[str, tuple[str, str]] = {
    "sasrec": ("SASRec", "sasrec"),
    "gru4rec": ("GRU4Rec, basic form", "gru4rec"),
    "caser": ("Caser", "caser"),
}
LENGTHS = (10, 20, 100, 200)


def _page(experiment: Experiment, results: Results) -> str:
    models = {title: _beside(results[key], results["sasrec"]) for key, (title, _) in MODELS.items()}
    lengths = _lengths(results)
    return page(experiment, results, [
        grid(["seconds an epoch", "times SASRec's", "rounds"], ((title, _cells(x)) for title, x in models.items())),
        ["## SASRec by length"],
        grid(["seconds an epoch", "times that of n 50", "rounds"], ((f"n {n}", _cells(x)) for n, x in lengths.items())),
        figures(experiment, results),
    ])  # fmt: skip


def _lengths(results: Results) -> dict[int, tuple[float, float, int]]:
    """`_beside` n 50 for each n that has been run."""
    keys = {n: "sasrec" if n == TRAINED["maxlen"] else f"n-{n}" for n in sorted((*LENGTHS, TRAINED["maxlen"]))}
    return {n: numbers for n, key in keys.items() if (numbers := _beside(results[key], results["sasrec"]))}


def _beside(runs: Runs, base: Runs) -> tuple[float, float, int] | None:
    """The median seconds of an epoch, the median ratio to `base` within a round, and the number of rounds; or None."""
    both = zip(*([run["epoch_seconds"] for run in each] for each in in_pairs(runs, base)), strict=True)
    pairs = [(mine, theirs) for mine, theirs in both if mine and theirs]        # None where a run changed machines
    if not pairs:
        return None
    return statistics.median(a for a, _ in pairs), statistics.median(a / b for a, b in pairs), len(pairs)


def _cells(numbers: tuple[float, float, int] | None) -> list[str]:
    return [f"{numbers[0]:.2f}", f"{numbers[1]:.2f}", str(numbers[2])] if numbers else ["", "", "to come"]


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    lengths = _lengths(results)
    line: dict[str, Line] = {"SASRec": (list(lengths), [x[0] for x in lengths.values()])} if lengths else {}
    return {"lengths": Curves("Seconds an epoch of SASRec by n", "n", "seconds an epoch", {"SASRec": line})}


EXPERIMENT = Experiment(
    name="speed",
    title="Seconds an epoch",
    question="""
Training steps of an epoch on MovieLens 1M, n 50 and d 50, BCE with one negative, one core. Rows take turns, one run
at a time: a round is a seed, times are medians over rounds, as are the ratios, formed within a round. The paper
has SASRec an order of magnitude faster than Caser and GRU4Rec+, on a GPU. Below is SASRec alone with other n.
""",
    datasets={"ml-1m": ML_1M},
    rows={key: Row(title, "ml-1m", model, TRAINED, minutes=0.3) for key, (title, model) in MODELS.items()}
    | {f"n-{n}": Row(f"SASRec, n {n}", "ml-1m", "sasrec", TRAINED | {"maxlen": n}, minutes=0.3) for n in LENGTHS},
    page=_page,
    pictures=_pictures,
    seeds=5,
    alone=True,
)
