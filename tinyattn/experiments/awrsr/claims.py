"""The paper's claims, and the rules by which the runs judge them, written before the first run.

Every claim is judged by a contrast: the mean over seeds of some rows minus their backbone's mean, as a share of the
latter. Its 95 % interval is Student's, with a common variance within rows; it covers other seeds, and not other users.
A claim has a verdict once all of its rows have all their seeds:

- **not replicated**: the interval lies outside the claim, where a gain of less than 1 % counts as none;
- **replicated**: it lies inside the claim;
- **undecided at this power**: neither. The verdict then names the number of seeds per row that would decide it in at
  least 8 of 10 cases if nothing is gained. With so many, the half-width of the interval is LIKELY times the least gain.

Two claims have special rules. "M_simp is always at least as good" is replicated if there is no loss of 1 % or more on
average, and if at most one of seven contrasts (four places, three depths) has an interval below 0. Without any effect,
two intervals are below 0 in about 1 of 100 cases. For epochs, the least gain is a twentieth.

"Every refinement helps" is judged for each refinement by its mean gain over four places, two backbones on two data
sets: twelve runs against twenty-four. It is replicated if M_simp, M_value and M_add gain, and not replicated if one
does not. M_stoc is shown and decides nothing, as the paper reports losses on Beauty. A single row, three seeds against
six, cannot distinguish a gain such as the paper's from none.

Three things were changed after the first runs. The number of seeds that would decide a claim was first computed for
half of the paper's gain, and is for the least gain; no verdict changed. A verdict on convergence that another of
THRESHOLDS would change is called *fragile*. And where gradient norms rise up to the end of the shortest run, where the
rule looks for a steady phase, it *does not apply*; by that rule the verdict was *not replicated*.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...evaluation.bootstrap import t_95
from ..experiment import Results, Runs
from ..tables import grid
from .grid import AT_DEPTH, BACKBONES, DATASETS, DEPTHS, FORMS, NDCG5, OF_BACKBONE, SEEDS, TRAINED, rows_of_grid

LEAST = 0.01        # the least gain, as a share of the backbone's NDCG@5
NEAR = 0.8          # the share of the backbone's best validation score to which epochs are counted
THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)       # other shares, by the same rule
SOONER = 0.05       # the least gain in epochs, as a log
Z, LIKELY = 1.96, 0.7       # normal numbers: 95 % are within ±Z, 80 % below .84, and LIKELY is Z / (Z + .84)
STEADY = 0.1        # a gradient norm is steady within this relative distance of its last values
LAST = 5            # epochs whose mean is the last value of a gradient norm
EPOCHS = 50         # of a gradient norm, its last ones: those of figure 5
TOO_MANY = 2        # intervals below 0

Run = dict[str, Any]
Number = Callable[[Run], float]


@dataclass(frozen=True)
class Effect:
    """The size of a contrast, its variance, and the degrees of freedom of the variance."""

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
    evidence: str
    decides: str = ""


def contrast(rows: Sequence[Sequence[float]], backbone: Sequence[float], share: bool = True) -> Effect:
    """The mean of the rows' means minus the backbone's mean; with `share`, divided by the latter unless that is 0."""
    groups = [*rows, backbone]
    freedom = sum(len(group) - 1 for group in groups)
    within = sum((len(group) - 1) * statistics.variance(group) for group in groups) / freedom
    base = statistics.mean(backbone)
    size = statistics.mean(statistics.mean(row) for row in rows) - base
    variance = within * (sum(1 / len(row) for row in rows) / len(rows) ** 2 + 1 / len(backbone))
    unit = base if share and base else 1.0
    return Effect(size / unit, variance / unit**2, freedom)


def pooled(effects: Sequence[Effect]) -> Effect:
    """The mean of effects that share no run."""
    n = len(effects)
    return Effect(
        sum(e.size for e in effects) / n, sum(e.variance for e in effects) / n**2, sum(e.freedom for e in effects)
    )


def gain(runs: Runs, backbone: Runs) -> str:
    """The gain in NDCG@5 with its interval over seeds; "" for fewer than two seeds."""
    mine, theirs = ([ndcg5(run) for run in each] for each in (runs, backbone))
    return str(contrast([mine], theirs)) if min(len(mine), len(theirs)) > 1 else ""


def other_seeds(backbone: Runs) -> tuple[list[Run], list[Run]]:
    """A backbone's runs, by seed, in two halves: the second, then the first."""
    runs = sorted(backbone, key=lambda run: run["row"]["seed"])
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
    """How many seeds a row would likely tell no gain from the gain `least`, and the half-width of their interval.

    `effect` was measured with `seeds` a row.
    """
    wanted = LIKELY * least
    more = max(seeds + 1, math.ceil(seeds * Z**2 * effect.variance / wanted**2))
    return f"about {more} seeds a row, for ±{wanted:.1%}"


def refined(backbone: str) -> list[str]:
    return [form for form in OF_BACKBONE[backbone] if form not in ("none", "lags")]


# the refinements at each place
PLACES = {f"{data}-{backbone}": refined(backbone) for data in DATASETS for backbone in BACKBONES}


def places_of(form: str) -> list[str]:
    return [place for place, forms in PLACES.items() if form in forms]


def rows_at(places: Iterable[str]) -> list[str]:
    """The keys of the backbones and refinements at these places."""
    return [f"{place}-{form}" for place in places for form in ("none", *PLACES[place])]


def name_of(form: str) -> str:
    """The title of a refinement; "" for "none"."""
    return FORMS[form][0].removeprefix(" + ")


def ndcg5(run: Run) -> float:
    return float(run["metrics"][NDCG5[0]][NDCG5[1]])


class Claims:
    """The runs, and a method for each claim."""

    def __init__(self, results: Results) -> None:
        self.results, self.rows = results, rows_of_grid()

    def numbers(self, key: str, number: Number = ndcg5) -> list[float]:
        return [number(run) for run in self.results[key]]

    def against(self, keys: Sequence[str], backbone: str) -> Effect:
        return contrast([self.numbers(key) for key in keys], self.numbers(backbone))

    def gains(self, form: str) -> list[Effect]:
        """The gain of a refinement over its backbone at each of its places."""
        return [self.against([f"{place}-{form}"], f"{place}-none") for place in places_of(form)]

    def missing(self, keys: Sequence[str]) -> Verdict | None:
        """The verdict "to come" while a row lacks seeds, or None."""
        done = sum(self.seeds([key]) >= SEEDS for key in keys)
        if done == len(keys):
            return None
        return Verdict("to come", f"{done} of {len(keys)} rows (backbones included) are complete, of {SEEDS} seeds")

    def seeds(self, keys: Iterable[str]) -> int:
        """The least number of seeds among these rows; those of a backbone, which has twice as many, count half."""
        return min(len(self.results.get(key, ())) // self.rows[key].times for key in keys)

    def every_refinement_helps(self) -> Verdict:
        keys = rows_at(PLACES)
        if to_come := self.missing(keys):
            return to_come
        each = {form: self.gains(form) for form in refined("stosa")}
        means = {form: pooled(effects) for form, effects in each.items()}
        above, below = _sides([effect for effects in each.values() for effect in effects])
        judged = [means[form] for form in refined("sasrec")]
        gains = ", ".join(f"{name_of(form)} {means[form]}" for form in refined("sasrec"))
        gains += f" ({name_of('stoc')}, which decides nothing, {means['stoc']})"
        gains += f"; of {sum(map(len, each.values()))} rows' intervals, above 0: {above}, below: {below}"
        widest = max(judged, key=lambda e: e.half)
        return _verdict(of_all(judged), gains, seeds_for(widest, LEAST, self.seeds(keys)))

    def add_is_best_with_depth(self) -> Verdict:
        places = [f"beauty-sasrec-{{}}-{depth}" for depth in DEPTHS]
        keys = [place.format(form) for place in places for form in AT_DEPTH]
        if to_come := self.missing(keys):
            return to_come
        over_backbone, over_simp = (
            pooled([self.against([place.format("add")], place.format(form)) for place in places])
            for form in ("none", "simp")
        )
        gains = f"SASRec, 2 to 4 layers: {over_backbone} over the backbone, {over_simp} over M_simp"
        return _verdict(of_all([over_backbone, over_simp]), gains, seeds_for(over_simp, LEAST, self.seeds(keys)))

    def simp_is_never_worse(self) -> Verdict:
        pairs = [(f"{data}-{backbone}-simp", f"{data}-{backbone}-none") for data in DATASETS for backbone in BACKBONES]
        pairs += [(f"beauty-sasrec-simp-{depth}", f"beauty-sasrec-none-{depth}") for depth in DEPTHS]
        keys = [key for pair in pairs for key in pair]
        if to_come := self.missing(keys):
            return to_come
        each = [self.against([mine], backbone) for mine, backbone in pairs]
        mean, (_, below) = pooled(each), _sides(each)
        verdict = "replicated" if mean.low > -LEAST else "undecided"
        if below >= TOO_MANY or mean.high < -LEAST:
            verdict = "not replicated"
        gains = f"{below} of {len(each)} intervals lie below 0; on average {mean}"
        return _verdict(verdict, gains, seeds_for(mean, LEAST, self.seeds(keys)))

    def convergence_is_faster(self) -> Verdict:
        keys = rows_at(PLACES)
        if to_come := self.missing(keys):
            return to_come
        judged: dict[str, list[str]] = {}
        for near in THRESHOLDS:
            mean = pooled([self.faster(place, forms, near) for place, forms in PLACES.items()])
            judged.setdefault(judge(mean, SOONER), []).append(f"{near:.0%}")
        effects = [self.faster(place, forms) for place, forms in PLACES.items()]
        verdict = _sooner(effects, f"epochs to {NEAR:.0%} of the backbone's best on validation", self.seeds(keys))
        if len(judged) == 1:
            return verdict
        fragile = "fragile: " if verdict.verdict in judged else ""
        by = "; ".join(f"{word} at {', '.join(shares)}" for word, shares in judged.items())
        return Verdict(f"{fragile}{verdict.verdict}", f"{verdict.evidence}; by the same rule {by}", verdict.decides)

    def faster(self, place: str, forms: Sequence[str], near: float = NEAR) -> Effect:
        """Minus the log of the ratio of epochs, refinements to backbone, until validation is near the latter's best."""
        target = self.target(place, near)
        return self._fewer(place, forms, lambda run: first_at(scores(run), target))

    def target(self, place: str, near: float = NEAR) -> float:
        """The validation score to which epochs are counted."""
        return near * statistics.mean(max(scores(run)) for run in self.results[f"{place}-none"])

    def gradients_are_steady_sooner(self) -> Verdict:
        """Epochs are counted up to the end of the shortest run at a place, as a longer run would be steady later.

        The rule does not apply if half of the norms rise by more than STEADY over their last epochs.
        """
        places = [f"{data}-sasrec" for data in DATASETS]
        keys = rows_at(places)
        if to_come := self.missing(keys):
            return to_come
        rises = [rise for place in places for rise in self.rises(place)]
        rising = sum(rise > STEADY for rise in rises)
        if 2 * rising >= len(rises):
            there = f"{rising} of {len(rises)} gradient norms of SASRec rise by more than {STEADY:.0%} over the last"
            alone = sum(rise > STEADY for place in places for rise in self.rises(place, alike=False))
            there += f" {EPOCHS} epochs that all runs have, and {alone} over a run's own last {EPOCHS}"
            return Verdict("the rule does not apply", f"{there}: where runs are compared, there is no stable phase yet")
        effects = [self._steady(place, self.epochs_of_all(place)) for place in places]
        until = f"epochs until the gradient's norm stays within {STEADY:.0%} of its last, SASRec"
        return _sooner(effects, until, self.seeds(keys))

    def rises(self, place: str, alike: bool = True) -> list[float]:
        """The relative rise of each gradient norm at a place over its last epochs; with `alike`, of those that all runs
        at the place have."""
        end = self.epochs_of_all(place) if alike else None
        norms = [run["gradient_norm"][:end][-EPOCHS:] for key in rows_at([place]) for run in self.results[key]]
        return [statistics.mean(each[-LAST:]) / statistics.mean(each[:LAST]) - 1 for each in norms]

    def _steady(self, place: str, epochs: int) -> Effect:
        return self._fewer(place, PLACES[place], lambda run: steady_from(run["gradient_norm"][:epochs]))

    def epochs_of_all(self, place: str) -> int:
        return min(len(run["gradient_norm"]) for key in rows_at([place]) for run in self.results[key])

    def _fewer(self, place: str, forms: Sequence[str], epochs: Number) -> Effect:
        """The contrast of minus the logs of epochs."""
        rows = [self.numbers(f"{place}-{form}", lambda run: -math.log(epochs(run))) for form in ("none", *forms)]
        return contrast(rows[1:], rows[0], share=False)


def _sooner(effects: Sequence[Effect], until: str, seeds: int) -> Verdict:
    mean = pooled(effects)
    return _verdict(judge(mean, SOONER), f"{until}: {epochs_of(mean)}", seeds_for(mean, SOONER, seeds))


def epochs_of(effect: Effect) -> str:
    """A contrast of minus logs as the relative difference in epochs, with its interval."""
    size, low, high = (f"{math.expm1(-value):+.0%}" for value in (effect.size, effect.high, effect.low))
    return f"{size} ({low} to {high})".replace("-0%", "+0%")


def _sides(effects: Sequence[Effect]) -> tuple[int, int]:
    """The numbers of intervals above 0, and below."""
    return sum(e.low > 0 for e in effects), sum(e.high < 0 for e in effects)


def _verdict(verdict: str, gains: str, decides: str) -> Verdict:
    return Verdict("undecided at this power", gains, decides) if verdict == "undecided" else Verdict(verdict, gains)


def scores(run: Run) -> list[float]:
    return [score for score in run["valid"] if score is not None]


def first_at(curve: Sequence[float], target: float) -> int:
    """The first epoch, from 1, whose score reaches `target`; one more than the maximum of epochs if none does."""
    return next((epoch for epoch, score in enumerate(curve, 1) if score >= target), TRAINED["epochs"] + 1)


def steady_from(norms: Sequence[float]) -> int:
    """The epoch, from 1, from which on all norms are near the mean of the last ones."""
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
    """A table of all claims; `more` are verdicts that do not depend on the runs."""
    judged = {claim: judged(Claims(results)) for claim, judged in CLAIMS.items()} | (more or {})
    rows = ((claim, [f"**{v.verdict}**", v.evidence, v.decides]) for claim, v in judged.items())
    return grid(["verdict", "what was found", "what would decide it"], rows)
