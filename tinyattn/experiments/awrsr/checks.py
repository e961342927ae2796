"""What was asked of the runs after the first of them were in: how far the rules of claims.py can be trusted.

A referee's questions; no verdict follows the answers. Do refined models vary as much over seeds as their hosts? If they
vary more, intervals that pool the two are too narrow: simulated, with 2 % for hosts and 6 % for refinements, those of
95 % hold 84 %. Do these intervals hold what the paper prints? What is found without M_value, whose form is ours? How
many runs never came to where their epochs are counted, and how many gradient norms rise to the end, so that they are
steady nowhere and the epoch from which on they are near their last ones says where they were cut? And does early
stopping decide? Validation dips, and whether a run outlives a dip is chance; so what are the gains within as many
epochs as all have?
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ..experiment import Results
from .claims import (
    LAST,
    NEAR,
    PLACES,
    STEADY,
    Claims,
    Effect,
    first_at,
    judge,
    name_of,
    ndcg5,
    of_all,
    places_of,
    pooled,
    refined,
    scores,
)
from .grid import DATASETS, HOSTS, PUBLISHED, SEEDS, TRAINED
from .pictures import EPOCHS

SMALLEST = 2        # runs whose spread can be told


def checks(results: Results) -> list[str]:
    """A list, of those that can be answered yet; nothing at first."""
    asked = (spread, papers_gains, welch, without_value, cut_alike, never_there, still_rising)
    found = [f"- {said}" for ask in asked if (said := ask(results))]
    return ["Asked after the first runs; no verdict follows it:", "", *found] if found else []


def spread(results: Results) -> str:
    """Standard deviations over seeds, as shares of the mean, pooled over rows."""
    rows = {"hosts": ["none"], "refinements": refined("stosa")}
    said = []
    for name, forms in rows.items():
        keys = [f"{place}-{form}" for place in PLACES for form in forms]
        groups = [[ndcg5(run) for run in results[key]] for key in keys if len(results.get(key, [])) >= SMALLEST]
        if groups:
            freedom = sum(len(group) - 1 for group in groups)
            squares = sum((len(g) - 1) * (statistics.stdev(g) / statistics.mean(g)) ** 2 for g in groups)
            said.append(f"{math.sqrt(squares / freedom):.1%} for {name} ({len(groups)} row{'s' * (len(groups) != 1)})")
    return f"As a share of its mean, NDCG@5's standard deviation over seeds is {', '.join(said)}." if said else ""


def papers_gains(results: Results) -> str:
    """What the paper prints, averaged over the places that "every refinement helps" averages, beside its intervals."""
    if _to_come(results):
        return ""
    said = []
    for form in refined("stosa"):
        printed = [PUBLISHED[_data_and_host(place)] for place in places_of(form)]
        theirs = statistics.mean(of[form][2] / of["none"][2] - 1 for of in printed)
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


def cut_alike(results: Results) -> str:
    """The mean gain in validation's best NDCG@10, by place, and that within the epochs which all runs of the place had.
    """
    said = []
    for place, forms in PLACES.items():
        host, *rows = ([scores(run) for run in results.get(f"{place}-{form}", [])] for form in ("none", *forms))
        if min(len(host), *map(len, rows)) < SEEDS:
            continue
        shortest = min(len(curve) for curves in (host, *rows) for curve in curves)
        whole, alike = (
            statistics.mean(_best(row, epochs) for row in rows) / _best(host, epochs) - 1
            for epochs in (TRAINED["epochs"], shortest)
        )
        lengths = [round(statistics.mean(map(len, curves))) for curves in (host, [c for row in rows for c in row])]
        said.append(f"{_title(place)} {whole:+.1%}, {alike:+.1%} within the {shortest} epochs that all had (the host "
                    f"{lengths[0]} on average, refinements {lengths[1]})")  # fmt: skip
    return f"On validation refinements are above their host by: {'; '.join(said)}." if said else ""


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
    targets = {place: Claims(results).target(place) for place in PLACES}
    counted = [first_at(scores(run), targets[place])
               for place, forms in PLACES.items() for form in ("none", *forms)
               for run in results[f"{place}-{form}"]]  # fmt: skip
    never = sum(epoch > TRAINED["epochs"] for epoch in counted)
    return f"{never} of {len(counted)} runs never reach {NEAR:.0%} of the host's best on validation."


def still_rising(results: Results) -> str:
    """Of the runs whose gradient norms are judged, those that rise over what figure 5 shows."""
    runs = [run for place, forms in PLACES.items() if place.endswith("-sasrec")
            for form in ("none", *forms) for run in results[f"{place}-{form}"]]  # fmt: skip
    long = [run["gradient_norm"][-EPOCHS:] for run in runs if len(run["gradient_norm"]) >= EPOCHS]
    rising = sum(statistics.mean(norms[-LAST:]) > (1 + STEADY) * statistics.mean(norms[:LAST]) for norms in long)
    said = f"In {rising} of {len(long)} runs of SASRec the gradient's norm rises by more than {STEADY:.0%}"
    return f"{said} over its last {EPOCHS} epochs; these never become steady." if long else ""


def unlike(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Effect:
    """The mean over places of a row's gain over its host's, (row, host) each; groups of runs vary as they do.

    Degrees of freedom are Satterthwaite's (Welch 1947, eq. 28), rounded down.
    """
    sizes, parts = [], []
    for row, host in pairs:
        base = statistics.mean(host)
        sizes.append(statistics.mean(row) / base - 1)
        unit = len(pairs) * base
        parts += [(statistics.variance(group) / len(group) / unit**2, len(group) - 1) for group in (row, host)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / n for part, n in parts)
    return Effect(statistics.mean(sizes), variance, max(1, int(freedom)))


def _to_come(results: Results) -> bool:
    keys = [f"{place}-{form}" for place, forms in PLACES.items() for form in ("none", *forms)]
    return Claims(results).missing(keys) is not None
