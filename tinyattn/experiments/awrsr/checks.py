"""What was asked of the runs after the first of them were in: how far the rules of claims.py can be trusted.

A referee's questions; no verdict follows the answers. Do refined models vary as much over seeds as their hosts? If they
vary more, intervals that pool the two are too narrow: simulated, with 2 % for hosts and 6 % for refinements, those of
95 % hold 84 %. Do these intervals hold what the paper prints? What is found without M_value, whose form is ours? Do the
places, and the refinements, agree about convergence, and how many runs never came to where their epochs are counted?
How many gradient norms rise to the end, so that the epoch from which on they are near their last ones says where they
were cut? And does early stopping decide? Validation dips, and whether a run outlives a dip is chance; so what are the
gains within as many epochs as all have?
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ..experiment import Results
from ..tables import heading
from .claims import (
    LAST,
    NEAR,
    PLACES,
    SOONER,
    STEADY,
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
from .grid import DATASETS, HOSTS, SEEDS, TRAINED, published_gain
from .pictures import EPOCHS

SMALLEST = 2        # runs whose spread can be told


def checks(results: Results) -> list[str]:
    """A list of those that can be answered yet, and a table; nothing at first."""
    asked = (spread, papers_gains, welch, without_value, by_place, by_form, never_there, still_rising)
    found = [f"- {said}" for ask in asked if (said := ask(results))]
    stopped = cut_alike(results)
    return ["Asked after the first runs; no verdict follows it:", "", *found, "", *stopped] if found else []


def spread(results: Results) -> str:
    """Standard deviations over seeds, as shares of the mean, pooled over rows."""
    rows = {"hosts": ["none"], "refinements": refined("stosa")}
    said = []
    for name, forms in rows.items():
        keys = [f"{place}-{form}" for place in PLACES for form in forms]
        groups = [[ndcg5(run) for run in results[key]] for key in keys if len(results.get(key, [])) >= SMALLEST]
        if groups:
            freedom = sum(len(group) - 1 for group in groups)
            squares = sum((len(g) - 1) * (statistics.stdev(g) / (statistics.mean(g) or 1)) ** 2 for g in groups)
            said.append(f"{math.sqrt(squares / freedom):.1%} for {name} ({len(groups)} row{'s' * (len(groups) != 1)})")
    return f"As a share of its mean, NDCG@5's standard deviation over seeds is {', '.join(said)}." if said else ""


def papers_gains(results: Results) -> str:
    """What the paper prints, averaged over the places that "every refinement helps" averages, beside its intervals."""
    if _to_come(results):
        return ""
    said = []
    for form in refined("stosa"):
        theirs = statistics.mean(published_gain(*_data_and_host(place), form) or 0 for place in places_of(form))
        found = pooled(Claims(results).gains(form))
        side = "above" if theirs > found.high else "below" if theirs < found.low else "within"
        said.append(f"{name_of(form)} {theirs:+.1%}, {side} {found.low:+.1%} to {found.high:+.1%}")
    return f"The paper's gains, averaged over the same places, and the intervals found here: {'; '.join(said)}."


def welch(results: Results) -> str:
    """The mean gains of "every refinement helps" with a variance of its own for every row."""
    if _to_come(results):
        return ""
    numbers = Claims(results).numbers
    means = {form: unlike([(numbers(f"{p}-{form}"), numbers(f"{p}-none")) for p in places_of(form)])
             for form in refined("stosa")}  # fmt: skip
    said = ", ".join(f"{name_of(form)} {mean}: {judge(mean)}" for form, mean in means.items())
    return f"With a variance of its own for each row (Welch 1947), mean gains are {said}."


def without_value(results: Results) -> str:
    """The verdict on "every refinement helps", of M_simp and M_add alone."""
    if _to_come(results):
        return ""
    means = [pooled(Claims(results).gains(form)) for form in ("simp", "add")]
    return f"Of M_simp and M_add alone, without M_value, whose causal form is ours: {of_all(means)}."


def by_place(results: Results) -> str:
    """What "convergence is faster" averages, place by place."""
    if _to_come(results):
        return ""
    said = [f"{_title(place)} {epochs_of(Claims(results).faster(place, forms))}" for place, forms in PLACES.items()]
    return f"Epochs to {NEAR:.0%} of the host's best, place by place: {', '.join(said)}."


def by_form(results: Results) -> str:
    """The same of some refinements alone; the paper names M_simp and M_add above all."""
    if _to_come(results):
        return ""
    said = []
    for name, forms in {"without M_stoc": refined("sasrec"), "M_simp alone": ["simp"], "M_add alone": ["add"]}.items():
        mean = pooled([Claims(results).faster(place, forms) for place in PLACES])
        said.append(f"{name} {epochs_of(mean)}, {judge(mean, SOONER)}")
    return f"The same on average over places: {'; '.join(said)}."


def cut_alike(results: Results) -> list[str]:
    """A table, by place: the mean gain in validation's best NDCG@10, of whole runs and within the epochs that all have.
    """
    lines = heading([
        "refinements above their host on validation", "within as many epochs as all runs had", "epochs of the host",
        "of refinements",
    ])  # fmt: skip
    found = []
    for place, forms in PLACES.items():
        host, *rows = ([scores(run) for run in results.get(f"{place}-{form}", [])] for form in ("none", *forms))
        if min(len(host), *map(len, rows)) < SEEDS:
            continue
        shortest = min(len(curve) for curves in (host, *rows) for curve in curves)
        whole, alike = (
            _above(statistics.mean(_best(row, epochs) for row in rows), _best(host, epochs))
            for epochs in (TRAINED["epochs"], shortest)
        )
        lengths = [round(statistics.mean(map(len, curves))) for curves in (host, [c for row in rows for c in row])]
        found.append(f"| {_title(place)} | {whole} | {alike}, {shortest} epochs | {lengths[0]} | {lengths[1]} |")
    return [*lines, *found] if found else []


def _above(mine: float, host: float) -> str:
    return f"{mine / host - 1:+.1%}" if host else ""


def _best(curves: Sequence[Sequence[float]], epochs: int) -> float:
    return statistics.mean(max(curve[:epochs]) for curve in curves)


def _data_and_host(place: str) -> tuple[str, str]:
    data, host = place.rsplit("-", 1)
    return data, host


def _title(place: str) -> str:
    data, host = _data_and_host(place)
    return f"{HOSTS[host][0]} on {DATASETS[data].title}"


def never_there(results: Results) -> str:
    """Of the runs whose epochs are counted, those that count as one more than they may have."""
    if _to_come(results):
        return ""
    counted = [first_at(scores(run), Claims(results).target(place))
               for place in PLACES for key in rows_at([place]) for run in results[key]]  # fmt: skip
    there = sum(epoch <= TRAINED["epochs"] for epoch in counted)
    return f"{there} of {len(counted)} runs reach {NEAR:.0%} of the host's best."


def still_rising(results: Results) -> str:
    """Of the runs whose gradient norms are judged, those that rise over what figure 5 shows, cut as they are judged."""
    if _to_come(results):
        return ""
    rises = []
    for place in (place for place in PLACES if place.endswith("-sasrec")):
        end = Claims(results).epochs_of_all(place)
        norms = [run["gradient_norm"][:end][-EPOCHS:] for key in rows_at([place]) for run in results[key]]
        rises += [statistics.mean(found[-LAST:]) / statistics.mean(found[:LAST]) - 1 for found in norms]
    rising = sum(rise > STEADY for rise in rises)
    said = f"Cut as they are judged, {rising} of {len(rises)} gradient norms of SASRec rise by more than {STEADY:.0%}"
    return f"{said} over their last {EPOCHS} epochs: where a norm rises to the end, it is steady where it was cut."


def unlike(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Effect:
    """The mean over places of a row's gain over its host's, (row, host) each; groups of runs vary as they do.

    Degrees of freedom are Satterthwaite's (Welch 1947, eq. 28), rounded down.
    """
    sizes, parts = [], []
    for row, host in pairs:
        base = statistics.mean(host) or 1.0
        sizes.append(statistics.mean(row) / base - 1)
        unit = len(pairs) * base
        parts += [(statistics.variance(group) / len(group) / unit**2, len(group) - 1) for group in (row, host)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / n for part, n in parts) if variance else 1
    return Effect(statistics.mean(sizes), variance, max(1, int(freedom)))


def _to_come(results: Results) -> bool:
    return Claims(results).missing(rows_at(PLACES)) is not None
