"""Ranking metrics of one user with several relevant items."""

import contextlib
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import adapters, oracles
from ..property import Violation, close, demand
from ..spec import Spec
from ..subject import NotOfferedError, Subject
from .builder import CaseDrawer, SpecBuilder
from .ranking import decided, metrics_of

states = SpecBuilder("ranking_of_several")
LOOPS = {"recall": oracles.recall, "ndcg": oracles.ndcg_of_several}


def case(draw: CaseDrawer) -> dict[str, Any]:
    items = draw.size(1, 12)
    scores = draw.rng.integers(0, 9, items) if draw.flag() else draw.rng.standard_normal(items)
    relevant = draw.rng.random(items) < draw.choose((0.4, 0.1, 0.8))
    relevant[draw.rng.integers(items)] = True
    return {"scores": np.asarray(scores, draw.dtype), "relevant": relevant, "k": draw.choose((1, 2, 3, 5, 10, 20))}


def special_cases() -> list[dict[str, Any]]:
    scores, relevant = np.array([5.0, 4, 3, 2, 1]), np.array([True, False, True, False, True])
    return [{"scores": scores, "relevant": relevant, "k": k} for k in (2, 3, 1000)]


@states("exact", "a metric returns one number from 0 to 1 and changes neither argument", "shapes", hint="Sort a copy.")
def one_number(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    passed = scores.copy(), relevant.copy()
    decided(op, scores, relevant)                                        # two of one rank may give more than 1
    for name, metric in metrics_of(op):
        value = metric(*passed, k)
        demand(-1e-9 <= value <= 1 + 1e-9, f"{name} is {value!r}, expected a number from 0 to 1")
        for x, before, what in zip(passed, (scores, relevant), ("scores", "relevant"), strict=True):
            close(x, before, 0, f"the argument {what}")


@states("rounding", "recall is the share of relevant items within k, NDCG their DCG over that of the ideal ranking", "oracle",
        hint="Rank five items, two of them relevant, by hand: what do you divide by?")
def oracle(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    _agrees(op, scores, relevant, k)


@states("rounding", "where the first items are the relevant ones, NDCG is 1 at every k, and recall@k is k / R up to R",
        hint="The ideal DCG ends at k, and at the number of relevant items R: the smaller of the two.")
def ideal(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    ladder = np.arange(12, 0, -1).astype(scores.dtype)
    for at in (1, 3, 5, 12, 40):
        for R in (1, 3, 8):
            _agrees(op, ladder, np.arange(12) < R, at)


@states("rounding", "the k-th item counts, and the next one does not", hint="Is rank k within k? Is rank k + 1?")
def cut(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    ladder = np.arange(k + 3, 0, -1).astype(scores.dtype)                # item i has rank i + 1
    for places in ((k - 1,), (k,), (k - 1, k), (0, k)):
        _agrees(op, ladder, np.isin(np.arange(k + 3), places), k)


@states("exact", "shuffling the items changes nothing, and neither does 2 s + 3 in the place of every score s",
        hint="Does an item's index matter, or the size of a score?")
def order_alone(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    whole, order = np.round(4 * scores), np.random.default_rng(len(scores)).permutation(len(scores))
    decided(op, whole, relevant)
    for name, metric in metrics_of(op):
        expected = metric(whole, relevant, k)
        close(metric(whole[order], relevant[order], k), expected, 1e-12, f"of shuffled items, {name}")
        close(metric(2 * whole + 3, relevant, k), expected, 1e-12, f"of other scores in this order, {name}")


@states("rounding", "if all V scores are equal, recall@k is k / V and NDCG what random orders have on average",
        hint="Score everything 0: how large is your recall@10?")
def constant_scores(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    _agrees(op, np.zeros(21, scores.dtype), np.arange(21) % 4 == 1, k)


@states("exact", "items left out (-inf) that are not relevant change nothing", "extremes",
        hint="Seen items are scored -inf: do they rank last?")
def left_out(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    decided(op, scores, relevant)
    longer, more = np.append(scores, [-np.inf] * 5).astype(scores.dtype), np.append(relevant, [False] * 5)
    for name, metric in metrics_of(op):
        close(metric(longer, more, k), metric(scores, relevant, k), 1e-12, name)
        close(metric(longer[::-1].copy(), more[::-1].copy(), k), metric(scores, relevant, k), 1e-12, name)


@states("rounding", "with 200 items of which 40 are relevant, every k is right", "extremes", once=True,
        hint="Is the ranking, or the ideal one, cut off somewhere?")
def many_items(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    rng = np.random.default_rng(0)
    for at in (1, 10, 39, 41, 150, 200, 1000):
        _agrees(op, rng.permutation(200).astype(float), rng.permutation(200) < 40, at)


def _agrees(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    """Every metric is that of plain loops."""
    decided(op, scores, relevant)
    for name, metric in metrics_of(op):
        expected, R = LOOPS[name](scores, relevant, k), int(np.sum(relevant))
        if name == "recall" and op.convention("recall") is not None:
            expected *= R / min(k, R)
        close(metric(scores, relevant, k), expected, 1e-6, f"{name}@{k} of {R} relevant items among {len(scores)}")


def remark(op: Subject, **_: Any) -> str:
    """Whether it is a function of lists: of the ranked items, and of the relevant ones."""
    for group in (set, list):
        with contextlib.suppress(Violation):
            for case in special_cases():
                ranked, items = np.argsort(-case["scores"]).tolist(), group(np.flatnonzero(case["relevant"]).tolist())
                close(op(ranked, items, case["k"]), LOOPS[op.computes](**case), 1e-6)
            return (
                "It is right if it gets the ranked items and the relevant ones. "
                "It got scores, and a boolean for each item: write an adapter, as --contract ranking_of_several says."
            )
    return ""


def observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """Both metrics, also for another k; no tie of another convention."""
    seen: dict[str, Any] = {}
    for (name, metric), k in itertools.product(metrics_of(op), (case["k"], 1, 1000)):
        with contextlib.suppress(NotOfferedError):
            decided(op, case["scores"], case["relevant"])
            try:
                seen[f"{name} at {k}"] = np.array(metric(case["scores"].copy(), case["relevant"].copy(), k))
            except Violation:
                seen[f"{name} at {k}"] = "raises"
    return seen


SPEC = states.spec(
    "recall@k = |relevant within k| / |relevant|; NDCG@k = DCG / ideal DCG, DCG = Σ 1 / log2(rank + 1) over the relevant "
    "within k, and the ideal one is Σ 1 / log2(i + 1) for i = 1 .. min(k, |relevant|)",
    "recall(scores, relevant, k) and ndcg(scores, relevant, k), or one of them -> a number: scores (V,) of one user, higher is better, "
    "relevant (V,) boolean, True at one item or more, k at least 1. A function of a batch, (B, V) twice -> (B,), is "
    "accepted too. For a function of lists, pass np.argsort(-scores) and np.flatnonzero(relevant)",
    "of tied items each has the mean gain of their places, as on average over random orders; k may exceed the number of "
    "items; -inf is the score of an item left out",
    function="recall",
    ours=adapters.SeveralRelevant,
    case=case,
    outputs=("value",),
    others=("ndcg",),
    any_metric=True,
    choices=("ties of several", "recall", "small k"),
    common=False,
    special_cases=special_cases,
    observe=observe,
    loops=tuple(LOOPS.values()),
    of_loops=lambda recall, ndcg: SimpleNamespace(recall=recall, ndcg=ndcg),
    remark=remark,
)
