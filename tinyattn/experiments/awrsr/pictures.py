"""Figures 2 to 5 of AWRSR, of our runs: NDCG against N, weights unrefined and refined, validation, gradients."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import backend
from ...data import Split, pad
from ...evaluation import ndcg
from ...layers.refinements.refinement import MapsCache
from ...models import NeuralRecommender, Recommender
from ...ops import softmax
from ..experiment import Experiment, Results
from ..paired import ranks_of
from ..pictures import Curves, Line, Maps, Picture
from ..whole import is_number
from .claims import NEAR, Claims, name_of
from .grid import DATASETS, HOSTS, OF_HOST

POSITIONS = 15              # of a history, its last ones, in the maps of figure 3
EPOCHS = 50                 # of a run, its last ones, in figure 5
LONGEST = 20                # N of figure 2


def attention_maps(model: Recommender, split: Split) -> dict[str, Any]:
    """What a run writes down for figure 3: weights of one user's last positions, means over the heads of block 1.

    {"weights": softmax(B), and, where a refinement made B of A, "unrefined": softmax(A)}, row i with i + 1 numbers.
    The user is drawn, the same for all models; nothing says who it is, or what was in the history. {} for a model
    without attention, and where no history is long enough.
    """
    long = [h for h in split.histories(split.evaluated, "test") if len(h) >= POSITIONS]
    if not isinstance(model, NeuralRecommender) or not model.attends or not long:
        return {}
    history = long[np.random.default_rng(0).integers(len(long))][-model.maxlen :]
    p = model.parameters
    _, cache = model.network.forward(p, pad([history], model.maxlen).to(backend.get_xp(p["items"])))
    maps = {"weights": model.network.attention(cache)[0]}
    for refined in _held(cache):
        A = refined.A
        maps.setdefault("unrefined", softmax(A, backend.get_xp(A).tril(backend.get_xp(A).ones(A.shape, dtype=bool))))
    return {"attention": {name: _last(backend.to_numpy(weights)[0]) for name, weights in maps.items()}}


def maps_are_whole(found: dict[str, Any]) -> bool:
    """Is what `attention_maps` wrote of a run all there, if it wrote anything?"""
    if "attention" not in found:
        return True
    maps = found["attention"]
    names = {"weights", "unrefined"} if "refine" in found["row"]["options"] else {"weights"}
    return maps.keys() == names and all(
        len(rows) == POSITIONS and all(len(row) == i + 1 and all(map(is_number, row)) for i, row in enumerate(rows))
        for rows in maps.values()
    )


def _held(cache: Any) -> Iterator[MapsCache]:
    """What refinements remember, wherever in a network's cache it stands, in the order of the blocks."""
    if isinstance(cache, MapsCache):
        yield cache
    elif isinstance(cache, list | tuple):
        for part in cache:
            yield from _held(part)


def _last(weights: np.ndarray) -> list[list[float]]:
    """Shapes: weights (h, n, n) -> the lower triangle of the last rows and columns of their mean, rounded."""
    mean = weights.mean(axis=0)[-POSITIONS:, -POSITIONS:]
    return [[round(float(weight), 4) for weight in row[: i + 1]] for i, row in enumerate(mean)]


def pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    """What there is to show, by the name of its file."""
    return {
        "ndcg": Curves("NDCG at N from 1 to 20, by host, data and refinement, mean over seeds", "N", "NDCG@N",
                       _panels(results, _at_n)),
        "validation": Curves("Validation NDCG@10 by epoch, mean over seeds, as far as all of them go", "epoch",
                             "NDCG@10, validation",
                             _panels(results, lambda runs: _mean([run["valid"] for run in runs])),
                             f"{NEAR:.0%} of the host's best", _targets(results)),
        "gradients": Curves(f"The norm of the gradient in the last {EPOCHS} epochs, mean over seeds",
                            "epoch, counted from the last, which is 0", "norm of the gradient",
                            _panels(results, _to_the_end)),
        "attention": Maps(
            f"Attention weights among one user's last {POSITIONS} positions, mean over heads, one seed: the host's, "
            "those of the refined model's scores A, and of its B; what a row gives to older positions is not shown",
            _maps(results)),
    }  # fmt: skip


def _panels(results: Results, line: Callable[[Sequence[dict[str, Any]]], Line]) -> dict[str, dict[str, Line]]:
    """A panel for each host on each data that has been run, with a line for each form that has."""
    found: dict[str, dict[str, Line]] = {}
    for data in DATASETS:
        for host, (title, *_) in HOSTS.items():
            for form in OF_HOST[host]:
                if runs := results[f"{data}-{host}-{form}"]:
                    said = name_of(form) or "host"
                    found.setdefault(f"{title} on {DATASETS[data].title}", {})[said] = line(runs)
    return found


def _targets(results: Results) -> dict[str, float]:
    """To where the epochs of a panel's runs are counted."""
    return {f"{title} on {DATASETS[data].title}": Claims(results).target(f"{data}-{host}")
            for data in DATASETS for host, (title, *_) in HOSTS.items() if results[f"{data}-{host}-none"]}  # fmt: skip


def _at_n(runs: Sequence[dict[str, Any]]) -> Line:
    ranks = [ranks_of(run["ranks"]) for run in runs]
    lengths = range(1, LONGEST + 1)
    return lengths, [statistics.mean(float(np.mean(ndcg(each, n))) for each in ranks) for n in lengths]


def _mean(curves: Sequence[Sequence[float | None]]) -> Line:
    """Over seeds, as far as all of them go; epochs that were not validated are left out."""
    shortest = min(len(curve) for curve in curves)
    points = [(i + 1, [curve[i] for curve in curves]) for i in range(shortest)]
    whole = [(epoch, [v for v in each if v is not None]) for epoch, each in points if None not in each]
    return [epoch for epoch, _ in whole], [statistics.mean(each) for _, each in whole]


def _to_the_end(runs: Sequence[dict[str, Any]]) -> Line:
    """Curves are laid over each other by their ends, where patience ran out."""
    backwards, norms = _mean([run["gradient_norm"][::-1][:EPOCHS] for run in runs])
    return [1 - epoch for epoch in reversed(backwards)], norms[::-1]


def _maps(results: Results) -> dict[str, dict[str, list[list[float]]]]:
    """For each host on each data: its weights, and those of its M_simp before and after; of the first seed that has."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for data in DATASETS:
        for host, (title, *_) in HOSTS.items():
            plain, simp = (
                next((run["attention"] for run in results[f"{data}-{host}-{form}"] if "attention" in run), None)
                for form in ("none", "simp")
            )
            if plain and simp:
                found[f"{title} on {DATASETS[data].title}"] = {
                    "host: softmax(A)": plain["weights"], "M_simp: softmax(A)": simp["unrefined"],
                    "M_simp: softmax(B)": simp["weights"],
                }  # fmt: skip
    return found
