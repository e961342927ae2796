"""Figures 2 to 5 of AWRSR from our runs: NDCG against N, weights unrefined and refined, validation, gradients."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import backend
from ...data import Split, pad
from ...evaluation import ndcg
from ...layers.refinements.refinement import MapsCache
from ...models import NeuralRecommender, Recommender
from ...ops import softmax
from ..experiment import Experiment, Results, Runs
from ..paired import ranks_of
from ..pictures import Curves, Line, Maps, Picture
from ..whole import is_number
from .claims import EPOCHS, NEAR, PLACES, Claims, name_of
from .grid import OF_BACKBONE, TITLES

POSITIONS = 15              # of a history, its last ones, in the maps of figure 3
LONGEST = 20                # N of figure 2


def attention_maps(model: Recommender, split: Split) -> dict[str, Any]:
    """Data of figure 3: the attention weights of one user's last positions, means over the heads of block 1.

    {"weights": softmax(B)} and, if a refinement made B of A, "unrefined": softmax(A); row i has i + 1 numbers. The
    user is drawn at random, the same one for all models. {} for a model without attention, and if no history is long
    enough.
    """
    long = [h for h in split.histories(split.evaluated, "test") if len(h) >= POSITIONS]
    if not isinstance(model, NeuralRecommender) or not model.attends or not long:
        return {}
    history = long[np.random.default_rng(0).integers(len(long))][-model.maxlen :]
    p = model.parameters
    _, cache = model.network.forward(p, pad([history], model.maxlen).to(backend.get_xp(p["items"])))
    maps = {"weights": model.network.attention(cache)[0]}
    for refined in _refinements(cache):
        A = refined.A
        maps.setdefault("unrefined", softmax(A, backend.get_xp(A).tril(backend.get_xp(A).ones(A.shape, dtype=bool))))
    return {"attention": {name: _last(backend.to_numpy(weights)[0]) for name, weights in maps.items()}}


def maps_are_whole(run: dict[str, Any]) -> bool:
    """Are the maps of `attention_maps` complete, if the run has any?"""
    if "attention" not in run:
        return True
    maps = run["attention"]
    names = {"weights", "unrefined"} if "refine" in run["row"]["options"] else {"weights"}
    return maps.keys() == names and all(
        len(rows) == POSITIONS and all(len(row) == i + 1 and all(map(is_number, row)) for i, row in enumerate(rows))
        for rows in maps.values()
    )


def _refinements(cache: Any) -> Iterator[MapsCache]:
    """The caches of refinements in a network's cache, in the order of the blocks."""
    if isinstance(cache, MapsCache):
        yield cache
    elif isinstance(cache, list | tuple):
        for part in cache:
            yield from _refinements(part)


def _last(weights: np.ndarray) -> list[list[float]]:
    """Shapes: weights (h, n, n) -> the lower triangle of the mean's last rows and columns, rounded."""
    mean = weights.mean(axis=0)[-POSITIONS:, -POSITIONS:]
    return [[round(float(weight), 4) for weight in row[: i + 1]] for i, row in enumerate(mean)]


def pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    return {
        "ndcg": Curves("NDCG at N from 1 to 20, by backbone, data and refinement, mean over seeds", "N", "NDCG@N",
                       _panels(results, _at_n)),
        "validation": Curves("Validation NDCG@10 by epoch, mean over seeds, as far as all of them go", "epoch",
                             "NDCG@10, validation",
                             _panels(results, lambda runs: _mean([run["valid"] for run in runs]), TITLES),
                             f"{NEAR:.0%} of the backbone's best", _targets(results)),
        "gradients": Curves(f"The norm of the gradient in the last {EPOCHS} epochs, mean over seeds",
                            "epoch, counted from the last, which is 0", "norm of the gradient",
                            _panels(results, _to_the_end)),
        "attention": Maps(
            f"Attention weights among one user's last {POSITIONS} positions, mean over heads, one seed: the backbone, "
            "those of the refined model's scores A, and of its B; what a row gives to older positions is not shown",
            _maps(results)),
    }  # fmt: skip


def _panels(
    results: Results, line: Callable[[Runs], Line], places: Iterable[str] = PLACES
) -> dict[str, dict[str, Line]]:
    """A panel for each place with runs, with a line for each form that has runs."""
    panels = {TITLES[place]: {name_of(form) or "backbone": line(runs)
                              for form in OF_BACKBONE[place.rpartition("-")[2]]
                              if (runs := results.get(f"{place}-{form}"))}
              for place in places}  # fmt: skip
    return {title: lines for title, lines in panels.items() if lines}


def _targets(results: Results) -> dict[str, float]:
    """The score to which the epochs of a panel's runs are counted."""
    return {TITLES[place]: Claims(results).target(place) for place in PLACES if results[f"{place}-none"]}


def _at_n(runs: Runs) -> Line:
    ranks = [ranks_of(run["ranks"]) for run in runs]
    lengths = range(1, LONGEST + 1)
    return lengths, [statistics.mean(float(np.mean(ndcg(each, n))) for each in ranks) for n in lengths]


def _mean(curves: Sequence[Sequence[float | None]]) -> Line:
    """The mean over seeds up to the end of the shortest curve, without epochs that were not validated."""
    means = {epoch: statistics.mean(seeds) for epoch, seeds in enumerate(zip(*curves, strict=False), 1)
             if None not in seeds}  # fmt: skip
    return list(means), list(means.values())


def _to_the_end(runs: Runs) -> Line:
    """The last epochs of each curve, aligned at their ends."""
    backwards, norms = _mean([run["gradient_norm"][::-1][:EPOCHS] for run in runs])
    return [1 - epoch for epoch in reversed(backwards)], norms[::-1]


def _maps(results: Results) -> dict[str, dict[str, list[list[float]]]]:
    """For each place, maps of the first seed that has them: the backbone's, and M_simp's, unrefined and refined."""
    rows: dict[str, dict[str, list[list[float]]]] = {}
    for place in PLACES:
        plain, simp = (
            next((run["attention"] for run in results[f"{place}-{form}"] if "attention" in run), None)
            for form in ("none", "simp")
        )
        if plain and simp:
            rows[TITLES[place]] = {"backbone: softmax(A)": plain["weights"], "M_simp: softmax(A)": simp["unrefined"],
                           "M_simp: softmax(B)": simp["weights"]}  # fmt: skip
    return rows
