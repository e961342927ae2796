"""SASRec with each mixer instead of attention, on histories of 50 and of 200 items."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..models import SASRec
from ..tree import leaves
from .datasets import ML_1M
from .experiment import Experiment, Results, Row, Runs
from .paired import difference
from .pictures import Dots, Picture
from .tables import at_pace, dots, epochs, figures, grid, page, table

COLUMNS = [("full", "hr@10"), ("full", "ndcg@10")]
TRAINED: dict[str, Any] = {
    "dim": 50, "dropout": 0.2, "loss": "ce", "batch_size": 64, "epochs": 40, "patience": 5,
}  # fmt: skip
LENGTHS = (50, 200)
# key: title, options, minutes at each length: 40 times the seconds of an epoch and a validation on one core
PLACED: dict[str, tuple[str, dict[str, Any], tuple[float, ...]]] = {
    "attention": ("attention", {}, (9, 20)),
    "gru": ("GRU", {"mixer": "gru"}, (9, 25)),
    "lstm": ("LSTM", {"mixer": "lstm"}, (9, 26)),
    "rwkv": ("RWKV", {"mixer": "rwkv"}, (10, 24)),
    "mamba": ("Mamba, expand 1", {"mixer": "mamba", "expand": 1}, (12, 29)),
    "delta": ("Gated DeltaNet", {"mixer": "delta"}, (14, 32)),
}
# Added to find out whether attention lacks positions: on the longer histories alone, run after the others
PROBE = {"t5": ("attention, distances", {"position": "t5"}, 22)}


def _parameters(runs: Runs) -> str:
    network = SASRec(**runs[0]["row"]["options"]).make_network(1, 1)
    blocks = network.init(np.random.default_rng(0))["blocks"]
    return f"{sum(leaf.size for _, leaf in leaves(blocks)):,}"


def _page(experiment: Experiment, results: Results) -> str:
    more: dict[str, Callable[[Runs], str]] = {
        "parameters in blocks": _parameters, "seconds an epoch": at_pace, "epochs": epochs,
    }  # fmt: skip
    parts = []
    for n in LENGTHS:
        first, *others = _keys(n)
        columns = ["NDCG@10 minus attention's", "95 % over users", "95 % over seeds", "share of attention's"]
        rows = ((experiment.rows[key].title, [difference(results[key], results[first], k=10)]) for key in others)
        parts += [[f"## n {n}"], table(experiment, results, [first, *others], COLUMNS, more), grid(columns, rows)]
    return page(experiment, results, [*parts, figures(experiment, results)])


def _keys(n: int) -> list[str]:
    return [f"n-{n}-{key}" for key in (*PLACED, *(PROBE if n == LENGTHS[-1] else ()))]


def _row(n: int, title: str, options: dict[str, Any], minutes: float) -> Row:
    return Row(title, "ml-1m", "sasrec", TRAINED | {"maxlen": n} | options, minutes=minutes)


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    panels = {f"n {n}": dots(experiment, results, _keys(n), COLUMNS[1]) for n in LENGTHS}
    return {"mixers": Dots("NDCG@10 of SASRec with each mixer", "NDCG@10", panels)}


EXPERIMENT = Experiment(
    name="mixers",
    title="What stands where attention stands",
    question="""
MovieLens 1M, SASRec's network with its attention, or with a recurrent network in its place; all else is the same: two
pre-LN blocks, d 50, learned positions, cross-entropy over all items, batches of 64 users, at most 40 epochs with a
patience of 5, the epoch that validates best. The settings are SASRec's, and were tuned for no mixer.

Every mixer is as wide as a token, so that items have 50 numbers in all rows. Of maps from d to d, attention has three
here (it has no output projection), RWKV four, Gated DeltaNet five, a GRU six and an LSTM eight; Mamba scans d channels
(expand 1), half as many as in its paper, and so has about as many parameters as RWKV. The tables count the parameters
in blocks; the items' 3,416 times 50 come on top. A recurrence knows the order of its items by itself, and attention by
learned positions alone: on histories of 200 items one row has attention with T5's learned bias for each range of
distances instead.

Seconds are those of training steps on one core, while other runs used the other cores. The faster seed counts, as other
load only slows a run. Differences are of runs with the same seeds; their intervals, of 95 %, are over users, and over
only two seeds.
""",
    datasets={"ml-1m": ML_1M},
    rows={
        f"n-{n}-{key}": _row(n, title, options, minutes[place])
        for place, n in enumerate(LENGTHS)
        for key, (title, options, minutes) in PLACED.items()
    } | {f"n-{LENGTHS[-1]}-{key}": replace(_row(LENGTHS[-1], *probe), late=1) for key, probe in PROBE.items()},
    page=_page,
    pictures=_pictures,
    per_user=True,
)
