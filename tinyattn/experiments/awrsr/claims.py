"""What the paper claims, and by which rules the runs judge its claims: written before the first of them.

All that is judged is a contrast: the mean over seeds of some rows, less that of their host, as a share of the host's.
Its interval is Student's, 95 %, with the variance within rows, which are taken to vary alike; it says what other seeds
might show, on these users. A claim has its verdict when all of its rows have all their seeds, and not before:

- **not replicated**: the interval lies wholly where the claim does not, a gain of less than 1 % counted as none;
- **replicated**: it lies wholly where the claim says;
- **undecided at this power**: neither. So many seeds a row would decide it in 8 of 10 cases where nothing is gained:
  then an interval that reaches LIKELY times as far as the least gain that counts ends below that gain.

Two claims have rules of their own. "M_simp is always at least as good": on average no loss of 1 % or more, and of seven
contrasts, four places and three depths, no two whose interval lies below 0. Of epochs, a twentieth fewer is the least
that counts as sooner.

"Every refinement helps" is judged refinement by refinement: the mean gain of M_simp, of M_value and of M_add over the
four places in which each stands, two hosts on two data sets, so that twelve runs stand beside twenty-four. It is
replicated where all three gain, and not replicated where one of them does not. M_stoc stands beside them and decides
nothing: the paper itself prints that it loses on Beauty. A row alone has three seeds beside six, which cannot tell a
gain such as the paper's from none.

The last column, how many seeds would decide, was first computed for half of the gain that the paper has; it is now for
the least gain that counts. That was changed after the first runs, and no verdict with it.

Where pairs are counted one by one, two on the wrong side are more than chance: of seven that nothing moves, two are
there in about 1 of 100 cases.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..experiment import Results
from ..paired import t_95
from ..tables import heading
from .grid import AT_DEPTH, DATASETS, DEPTHS, FORMS, HOSTS, NDCG5, OF_HOST, SEEDS, TRAINED, rows_of_grid

LEAST = 0.01        # a gain below this share of the host's NDCG@5 is none
NEAR = 0.8          # of what its host reaches on validation at its best; runs end early, and not all come to 95 %
SOONER = 0.05       # a log of epochs: less is no faster
Z, LIKELY = 1.96, 0.7       # of normal numbers 95 % are within ±Z, and 8 of 10 below .84: Z / (Z + .84) is LIKELY
STEADY = 0.1        # a gradient norm that stays so near to its last ones is steady
LAST = 5            # epochs that say what a gradient norm comes to
TOO_MANY = 2        # intervals on the wrong side

Run = dict[str, Any]
Number = Callable[[Run], float]


@dataclass(frozen=True)
class Effect:
    """A contrast: how large it is, the variance of that, and of how many degrees of freedom it was estimated."""

    size: float
    variance: float
    freedom: int

    @property
    def half(self) -> float:
        return t_95(self.freedom) * math.sqrt(self.variance)

    @property
    def low(self) -> float:
        return self.size - self.half

    @property
    def high(self) -> float:
        return self.size + self.half

    def __str__(self) -> str:
        return f"{self.size:+.1%} ({self.low:+.1%} to {self.high:+.1%})"


@dataclass(frozen=True)
class Verdict:
    verdict: str
    found: str
    decides: str = ""


def contrast(rows: Sequence[Sequence[float]], host: Sequence[float], share: bool = True) -> Effect:
    """The mean of the rows' means less the host's mean; as a share of that, unless they are logs or it is 0."""
    groups = [*rows, host]
    freedom = sum(len(group) - 1 for group in groups)
    within = sum((len(group) - 1) * statistics.variance(group) for group in groups) / freedom
    base = statistics.mean(host)
    size = statistics.mean(statistics.mean(row) for row in rows) - base
    variance = within * (sum(1 / len(row) for row in rows) / len(rows) ** 2 + 1 / len(host))
    unit = base if share and base else 1.0
    return Effect(size / unit, variance / unit**2, freedom)


def pooled(effects: Sequence[Effect]) -> Effect:
    """The mean of effects that share no run."""
    n = len(effects)
    return Effect(
        sum(e.size for e in effects) / n, sum(e.variance for e in effects) / n**2, sum(e.freedom for e in effects)
    )


def gain(runs: Sequence[Run], host: Sequence[Run]) -> str:
    """Of NDCG@5, with its interval over seeds; empty as long as none can say how far seeds differ."""
    mine, theirs = ([ndcg5(run) for run in found] for found in (runs, host))
    return str(contrast([mine], theirs)) if min(len(mine), len(theirs)) > 1 else ""


def other_seeds(host: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """The second half of a host's runs, and the first: they differ by chance alone."""
    runs = sorted(host, key=lambda run: run["row"]["seed"])
    half = max(SEEDS, len(runs) // 2)
    return runs[half:], runs[:half]


def judge(effect: Effect, least: float = LEAST) -> str:
    """Is there a gain?"""
    return "not replicated" if effect.high < least else "replicated" if effect.low > 0 else "undecided"


def of_all(effects: Iterable[Effect]) -> str:
    """Is there a gain in each of them?"""
    judged = {judge(effect) for effect in effects}
    return next(v for v in ("not replicated", "undecided", "replicated") if v in judged)


def seeds_for(effect: Effect, least: float, seeds: int) -> str:
    """How many seeds a row would most likely tell nothing from a gain of `least`, and the interval that it takes.

    The effect was found with `seeds` of each row.
    """
    wanted = LIKELY * least
    more = max(seeds + 1, math.ceil(seeds * Z**2 * effect.variance / wanted**2))
    return f"about {more} seeds a row, for ±{wanted:.1%}"


def refined(host: str) -> list[str]:
    """The paper's refinements of a host."""
    return [form for form in OF_HOST[host] if form not in ("none", "lags")]


PLACES = {f"{data}-{host}": refined(host) for data in DATASETS for host in HOSTS}       # and what is judged there


def places_of(form: str) -> list[str]:
    return [place for place, forms in PLACES.items() if form in forms]


def rows_at(places: Iterable[str]) -> list[str]:
    """The keys of hosts and refinements."""
    return [f"{place}-{form}" for place in places for form in ("none", *PLACES[place])]


def name_of(form: str) -> str:
    """Of a refinement, as pages and pictures have it; "" of none."""
    return FORMS[form][0].removeprefix(" + ")


def ndcg5(run: Run) -> float:
    return float(run["metrics"][NDCG5[0]][NDCG5[1]])


class Claims:
    """The runs, and a method for each claim."""

    def __init__(self, results: Results) -> None:
        self.results, self.rows = results, rows_of_grid()

    def numbers(self, key: str, number: Number = ndcg5) -> list[float]:
        return [number(run) for run in self.results[key]]

    def against(self, keys: Sequence[str], host: str) -> Effect:
        return contrast([self.numbers(key) for key in keys], self.numbers(host))

    def gains(self, form: str) -> list[Effect]:
        """Of a refinement over its host, in each of its places."""
        return [self.against([f"{place}-{form}"], f"{place}-none") for place in places_of(form)]

    def missing(self, keys: Sequence[str]) -> Verdict | None:
        """What is said as long as not all is there."""
        there = sum(self.seeds([key]) >= SEEDS for key in keys)
        if there == len(keys):
            return None
        return Verdict("to come", f"{there} of {len(keys)} rows (hosts included) are complete, of {SEEDS} seeds")

    def seeds(self, keys: Iterable[str]) -> int:
        """That each of these rows has at least; hosts have twice as many."""
        return min(len(self.results.get(key, ())) // self.rows[key].times for key in keys)

    def every_refinement_helps(self) -> Verdict:
        keys = rows_at(PLACES)
        if to_come := self.missing(keys):
            return to_come
        each = {form: self.gains(form) for form in refined("stosa")}
        means = {form: pooled(effects) for form, effects in each.items()}
        above, below = _sides([effect for effects in each.values() for effect in effects])
        judged = [means[form] for form in refined("sasrec")]
        said = ", ".join(f"{name_of(form)} {means[form]}" for form in refined("sasrec"))
        said += f" ({name_of('stoc')}, which decides nothing, {means['stoc']})"
        found = f"{said}; of {sum(map(len, each.values()))} rows' intervals, above 0: {above}, below: {below}"
        widest = max(judged, key=lambda e: e.half)
        return _verdict(of_all(judged), found, seeds_for(widest, LEAST, self.seeds(keys)))

    def add_is_best_with_depth(self) -> Verdict:
        places = [f"beauty-sasrec-{{}}-{depth}" for depth in DEPTHS]
        keys = [place.format(form) for place in places for form in AT_DEPTH]
        if to_come := self.missing(keys):
            return to_come
        over = {
            form: pooled([self.against([place.format("add")], place.format(form)) for place in places])
            for form in AT_DEPTH if form != "add"
        }  # fmt: skip
        found = f"SASRec, 2 to 4 layers: {over['none']} over the host, {over['simp']} over M_simp"
        return _verdict(of_all(over.values()), found, seeds_for(over["simp"], LEAST, self.seeds(keys)))

    def simp_is_never_worse(self) -> Verdict:
        pairs = [(f"{data}-{host}-simp", f"{data}-{host}-none") for data in DATASETS for host in HOSTS]
        pairs += [(f"beauty-sasrec-simp-{depth}", f"beauty-sasrec-none-{depth}") for depth in DEPTHS]
        keys = [key for pair in pairs for key in pair]
        if to_come := self.missing(keys):
            return to_come
        each = [self.against([mine], host) for mine, host in pairs]
        mean, (_, below) = pooled(each), _sides(each)
        verdict = "replicated" if mean.low > -LEAST else "undecided"
        if below >= TOO_MANY or mean.high < -LEAST:
            verdict = "not replicated"
        found = f"{below} of {len(each)} intervals lie below 0; on average {mean}"
        return _verdict(verdict, found, seeds_for(mean, LEAST, self.seeds(keys)))

    def convergence_is_faster(self) -> Verdict:
        keys = rows_at(PLACES)
        if to_come := self.missing(keys):
            return to_come
        effects = [self.faster(place, forms) for place, forms in PLACES.items()]
        return _sooner(effects, f"epochs to {NEAR:.0%} of the host's best on validation", self.seeds(keys))

    def faster(self, place: str, forms: Sequence[str]) -> Effect:
        """Minus the log of the share of the host's epochs that refinements need to come near its best."""
        target = self.target(place)
        return self._fewer(place, forms, lambda run: first_at(scores(run), target))

    def target(self, place: str) -> float:
        """What a run must reach on validation, for its epochs to be counted."""
        return NEAR * statistics.mean(max(scores(run)) for run in self.results[f"{place}-none"])

    def gradients_are_steady_sooner(self) -> Verdict:
        """In the epochs that all runs beside a host have: a run that goes on longer would be steady later by that."""
        places = [f"{data}-sasrec" for data in DATASETS]
        keys = rows_at(places)
        if to_come := self.missing(keys):
            return to_come
        effects = [self._steady(place, self.epochs_of_all(place)) for place in places]
        found = f"epochs until the gradient's norm stays within {STEADY:.0%} of its last, SASRec"
        return _sooner(effects, found, self.seeds(keys))

    def _steady(self, place: str, epochs: int) -> Effect:
        return self._fewer(place, PLACES[place], lambda run: steady_from(run["gradient_norm"][:epochs]))

    def epochs_of_all(self, place: str) -> int:
        """How many a host and all of its refinements have."""
        return min(len(run["gradient_norm"]) for key in rows_at([place]) for run in self.results[key])

    def _fewer(self, place: str, forms: Sequence[str], epochs: Number) -> Effect:
        """Of minus logs of epochs: how many fewer than the host's?"""
        rows = [self.numbers(f"{place}-{form}", lambda run: -math.log(epochs(run))) for form in ("none", *forms)]
        return contrast(rows[1:], rows[0], share=False)


def _sooner(effects: Sequence[Effect], found: str, seeds: int) -> Verdict:
    mean = pooled(effects)
    return _verdict(judge(mean, SOONER), f"{found}: {epochs_of(mean)}", seeds_for(mean, SOONER, seeds))


def epochs_of(effect: Effect) -> str:
    """Of a contrast of minus logs: by how much the epochs differ, as a share of the host's."""
    size, low, high = (f"{math.expm1(-value):+.0%}" for value in (effect.size, effect.high, effect.low))
    return f"{size} ({low} to {high})".replace("-0%", "+0%")


def _sides(effects: Sequence[Effect]) -> tuple[int, int]:
    """How many lie above 0, and how many below."""
    return sum(e.low > 0 for e in effects), sum(e.high < 0 for e in effects)


def _verdict(verdict: str, found: str, decides: str) -> Verdict:
    undecided = verdict == "undecided"
    return Verdict("undecided at this power" if undecided else verdict, found, decides if undecided else "")


def scores(run: Run) -> list[float]:
    return [score for score in run["valid"] if score is not None]


def first_at(curve: Sequence[float], target: float) -> int:
    """The first epoch, from 1, in which the curve is there; one more than any run may have where it never is."""
    return next((epoch for epoch, score in enumerate(curve, 1) if score >= target), TRAINED["epochs"] + 1)


def steady_from(norms: Sequence[float]) -> int:
    """The first epoch, from 1, from which on all norms are near the mean of the last ones."""
    final = statistics.mean(norms[-LAST:])
    far = [epoch for epoch, norm in enumerate(norms, 1) if abs(norm - final) > STEADY * final]
    return (far[-1] if far else 0) + 1


CLAIMS: dict[str, Callable[[Claims], Verdict]] = {
    "every refinement helps": Claims.every_refinement_helps,
    "M_add is best with depth": Claims.add_is_best_with_depth,
    "M_simp is always at least as good": Claims.simp_is_never_worse,
    "convergence is faster": Claims.convergence_is_faster,
    "gradients flow better": Claims.gradients_are_steady_sooner,
}


def verdicts(results: Results, more: dict[str, Verdict] | None = None) -> list[str]:
    """A table of all claims; `more` are those that are judged by something else than the runs."""
    judged = {claim: judged(Claims(results)) for claim, judged in CLAIMS.items()} | (more or {})
    lines = heading(["verdict", "what was found", "what would decide it"])
    return [*lines, *(f"| {claim} | **{v.verdict}** | {v.found} | {v.decides} |" for claim, v in judged.items())]
