"""Checks of the rules in claims.py, added after the first runs; no verdict depends on them."""

import math
import statistics
from collections.abc import Mapping, Sequence

from ...evaluation import holm
from ...evaluation.means import CHANCE, two_sided
from ..experiment import Results
from ..tables import grid
from .claims import (
    NEAR,
    PLACES,
    SOONER,
    Claims,
    Effect,
    epochs_of,
    first_at,
    judge,
    name_of,
    ndcg5,
    of_all,
    places_of,
    pooled,
    refined,
    rows_at,
    scores,
)
from .grid import SEEDS, TITLES, TRAINED, published_gain

SMALLEST = 2        # runs that have a spread


def checks(results: Results) -> list[str]:
    """A list of the answers, and a table; [] without runs. All but the spread need every row's seeds."""
    answers = [spread(results)]
    if Claims(results).missing(rows_at(PLACES)) is None:
        questions = (of_many, papers_gains, welch, without_value, by_place, by_form, never_there)
        answers += [ask(results) for ask in questions]
    lines = [f"- {answer}" for answer in answers if answer]
    if not lines:
        return []
    return ["Added after the first runs, without a verdict:", "", *lines, "", *cut_alike(results, PLACES)]


def spread(results: Results) -> str:
    """Standard deviations over seeds, as shares of the mean, pooled over rows. If they differ, intervals with a pooled
    variance are wrong: with 2 % for backbones and 6 % for refinements, 95 % intervals cover 84 % (simulated)."""
    pooled_ = []
    for name, forms in {"backbones": ["none"], "refinements": refined("stosa")}.items():
        keys = [f"{place}-{form}" for place in PLACES for form in forms]
        groups = [[ndcg5(run) for run in results[key]] for key in keys if len(results.get(key, [])) >= SMALLEST]
        if groups:
            freedom = sum(len(group) - 1 for group in groups)
            squares = sum((len(g) - 1) * (statistics.stdev(g) / (statistics.mean(g) or 1)) ** 2 for g in groups)
            rows = f"{len(groups)} row{'s' * (len(groups) != 1)}"
            pooled_.append(f"{math.sqrt(squares / freedom):.1%} for {name} ({rows})")
    return f"The standard deviation of NDCG@5 over seeds, in % of the mean, is {', '.join(pooled_)}." if pooled_ else ""


def of_many(results: Results) -> str:
    """The rows of "every refinement helps" that are still above or below their backbone after Holm's correction."""
    rows = [(place, form, Claims(results).against([f"{place}-{form}"], f"{place}-none"))
            for place, forms in PLACES.items() for form in forms]  # fmt: skip
    chances = holm([two_sided(_t(effect), effect.freedom) for *_, effect in rows])
    names = [f"{TITLES[place]} with {name_of(form)} ({effect.size:+.1%}, p {chance:.3f})"
             for (place, form, effect), chance in zip(rows, chances, strict=True) if chance < CHANCE]  # fmt: skip
    return f"Corrected for {len(rows)} rows (Holm 1979), beyond chance: {', '.join(names) or 'none'}."


def _t(effect: Effect) -> float:
    return abs(effect.size) / math.sqrt(effect.variance) if effect.variance else math.inf * abs(effect.size)


def papers_gains(results: Results) -> str:
    """The paper's gains, averaged over the places of "every refinement helps", and the intervals of that claim."""
    gains = []
    for form in refined("stosa"):
        places = (place.rpartition("-") for place in places_of(form))
        theirs = statistics.mean(published_gain(data, backbone, form) or 0 for data, _, backbone in places)
        ours = pooled(Claims(results).gains(form))
        side = "above" if theirs > ours.high else "below" if theirs < ours.low else "within"
        gains.append(f"{name_of(form)} {theirs:+.1%}, {side} {ours.low:+.1%} to {ours.high:+.1%}")
    return f"The paper's gains, averaged over the same places, and the intervals found here: {'; '.join(gains)}."


def welch(results: Results) -> str:
    """The mean gains of "every refinement helps" with a separate variance for every row."""
    numbers = Claims(results).numbers
    means = {form: unlike([(numbers(f"{p}-{form}"), numbers(f"{p}-none")) for p in places_of(form)])
             for form in refined("stosa")}  # fmt: skip
    gains = ", ".join(f"{name_of(form)} {mean}: {judge(mean)}" for form, mean in means.items())
    return f"With a separate variance for each row (Welch 1947), mean gains are {gains}."


def without_value(results: Results) -> str:
    """The verdict on "every refinement helps" from M_simp and M_add alone."""
    means = [pooled(Claims(results).gains(form)) for form in ("simp", "add")]
    return f"The verdict from M_simp and M_add alone, as M_value's causal form is ours: {of_all(means)}."


def by_place(results: Results) -> str:
    """The contrasts of "convergence is faster", place by place."""
    epochs = [f"{TITLES[place]} {epochs_of(Claims(results).faster(place, forms))}" for place, forms in PLACES.items()]
    return f"Epochs to {NEAR:.0%} of the backbone's best, place by place: {', '.join(epochs)}."


def by_form(results: Results) -> str:
    """The same contrasts for some refinements alone; the paper stresses M_simp and M_add."""
    epochs = []
    for name, forms in {"without M_stoc": refined("sasrec"), "M_simp alone": ["simp"], "M_add alone": ["add"]}.items():
        mean = pooled([Claims(results).faster(place, forms) for place in PLACES])
        epochs.append(f"{name} {epochs_of(mean)}, {judge(mean, SOONER)}")
    return f"The same on average over places: {'; '.join(epochs)}."


def cut_alike(results: Results, places: Mapping[str, Sequence[str]]) -> list[str]:
    """A table by place: the mean gain of its refinements in the best validation NDCG@10, of whole runs and of runs of
    equal length. [] for places with fewer than SEEDS runs a row."""
    table = []
    for place, forms in places.items():
        backbone, *rows = ([scores(run) for run in results.get(f"{place}-{form}", [])] for form in ("none", *forms))
        if min(len(backbone), *map(len, rows)) < SEEDS:
            continue
        shortest = min(len(curve) for curves in (backbone, *rows) for curve in curves)
        whole, alike = (
            _above(statistics.mean(_best(row, epochs) for row in rows), _best(backbone, epochs))
            for epochs in (TRAINED["epochs"], shortest)
        )
        lengths = [round(statistics.mean(map(len, curves))) for curves in (backbone, [c for row in rows for c in row])]
        table.append((TITLES[place], [whole, f"{alike}, {shortest} epochs", *map(str, lengths)]))
    columns = ["refinements above their backbone on validation", "within as many epochs as all runs had",
               "epochs of the backbone", "of refinements"]  # fmt: skip
    return grid(columns, table) if table else []


def _above(mine: float, backbone: float) -> str:
    return f"{mine / backbone - 1:+.1%}" if backbone else ""


def _best(curves: Sequence[Sequence[float]], epochs: int) -> float:
    return statistics.mean(max(curve[:epochs]) for curve in curves)


def never_there(results: Results) -> str:
    """The number of runs that reach the score to which epochs are counted."""
    counted = [first_at(scores(run), Claims(results).target(place))
               for place in PLACES for key in rows_at([place]) for run in results[key]]  # fmt: skip
    there = sum(epoch <= TRAINED["epochs"] for epoch in counted)
    return f"{there} of {len(counted)} runs reach {NEAR:.0%} of the backbone's best."


def unlike(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Effect:
    """The mean gain over pairs of (row, backbone), each with its variance.

    Degrees of freedom are Satterthwaite's (Welch 1947, eq. 28), rounded down.
    """
    sizes, parts = [], []
    for row, backbone in pairs:
        base = statistics.mean(backbone) or 1.0
        sizes.append(statistics.mean(row) / base - 1)
        unit = len(pairs) * base
        parts += [(statistics.variance(group) / len(group) / unit**2, len(group) - 1) for group in (row, backbone)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / n for part, n in parts) if variance else 1
    return Effect(statistics.mean(sizes), variance, max(1, int(freedom)))
