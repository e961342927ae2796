"""Ranking metrics of one user, with one relevant item or several."""

import contextlib
import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import adapters, oracles
from ..property import Violation, close, demand
from ..spec import Spec
from ..subject import MissingError, NotOfferedError, Subject
from .builder import CaseDrawer, SpecBuilder

ranking = SpecBuilder("ranking")


def ranking_case(draw: CaseDrawer) -> dict[str, Any]:
    items = draw.size(1, 12)
    tied, apart = draw.rng.integers(0, 4, items), draw.rng.standard_normal(items)
    scores = tied if draw.flag() else apart
    k = draw.choose((1, 2, 3, 5, 10, 20))
    return {"scores": np.asarray(scores, draw.dtype), "target": int(draw.rng.integers(items)), "k": k}


@ranking("exact", "a metric returns one number and does not change the scores passed in", "shapes", hint="Sort a copy.")
def ranking_one_number(op: Subject, scores: np.ndarray, target: int, k: int) -> None:
    before = scores.copy()
    for name, metric in metrics_of(op):
        value = metric(scores, target, k)
        demand(np.size(value) == 1 and np.isfinite(value), f"{name} is {value!r}, expected one number")
        close(scores, before, 0, "the scores passed in")
        close(metric(scores, target, k), value, 0, f"an equal call's {name}")


ranking.law("oracle", "rounding",
        "HR@k is 1 and NDCG@k is 1 / log2(rank + 1) for ranks up to k, both are 0 beyond; ties have the mean rank",
        lambda op, c: like_loops(op, **c), "oracle",
        hint="Write down the rank of the target by hand: how many score higher, how many the same?")


def like_loops(op: Subject, scores: np.ndarray, target: int, k: int, at: str = "") -> list[Any]:
    """The sides of a law: each metric, and plain loops; no sides where "within k" is a convention."""
    return [
        (got := metric(scores, target, k), getattr(oracles, name)(scores, target, k), _digits(op, got), name + at)
        for name, metric in decided_metrics(op, scores, target) if not on_the_edge(scores, target, k)
    ]  # fmt: skip


def _digits(op: Subject, got: Any) -> float:
    """The error allowed, which is larger if the metric may be computed in float32, e.g. by torch.log2."""
    return 1e-6 if np.float32 in (op.spec.dtype, np.asarray(got).dtype) else 1e-9


ranking.law("cut", "rounding", "the k-th item counts, and the next one does not", lambda op, c: (  # item i has rank i + 1
            pair for name, metric in metrics_of(op) for got in [metric(c.scores, c.k - 1, c.k)] for pair in (
                (got, 1.0 if name == "hit_rate" else 1 / math.log2(c.k + 1),
                 _digits(op, got), f"{name} at rank k"),
                (metric(c.scores, c.k, c.k), 0.0, 0, f"{name} at rank k + 1"),
            )
        ), of=lambda c: c(scores=np.arange(c.k + 3, 0, -1).astype(c.scores.dtype)),
        hint="Is rank k within k? Is rank k + 1?")


@ranking("exact", "HR@1 equals NDCG@1, and a larger k lowers neither", hint="1 / log2(1 + 1) = 1.")
def at_one(op: Subject, scores: np.ndarray, target: int, k: int) -> None:
    both = dict(metrics_of(op))
    if len(both) == 2 and not on_the_edge(scores, target, 1):
        close(both["ndcg"](scores, target, 1), both["hit_rate"](scores, target, 1), 1e-12, "NDCG@1")
    for name, metric in both.items():
        demand(metric(scores, target, k + 1) >= metric(scores, target, k) - 1e-12, f"{name} falls as k grows")


ranking.law("constant_scores", "rounding", "if all V scores are equal, the target's rank is the mean rank, (V + 1) / 2",
        lambda op, c: (
            pair for items in (3, 21, 41) for target in (0, items // 2, items - 1)
            for pair in like_loops(op, np.zeros(items, c.scores.dtype), target, c.k)
        ), hint="Score everything 0: how large is your HR@10?")
ranking.law("item_order", "exact", "shuffling the items, the target among them, changes nothing", lambda op, c: (
            (metric(c.scores[order], int(np.argmax(order == c.target)), c.k), metric(**c), 1e-12, name)
            for order in [np.random.default_rng(len(c.scores)).permutation(len(c.scores))]
            for name, metric in decided_metrics(op, c.scores, c.target)
        ), hint="Does an item's index matter?")
ranking.law("order_only", "exact", "only the order of scores matters: 2 s + 3 ranks as s does", lambda op, c: (
            (metric(2 * c.scores + 3, c.target, c.k), metric(**c), 1e-12, name)
            for name, metric in decided_metrics(op, c.scores, c.target)
        ), of=lambda c: c(scores=np.round(4 * c.scores)), hint="Are scores taken for ranks?")
ranking.law("large_k", "rounding", "k may exceed the number of items: then HR@k is 1", lambda op, c: (
            (got := metric(c.scores, c.target, 1000),
             1.0 if name == "hit_rate" else 1 / math.log2(oracles.rank(c.scores, c.target) + 1), _digits(op, got),
             f"{name}@1000 of {len(c.scores)} items") for name, metric in decided_metrics(op, c.scores, c.target)
        ), "extremes", hint="Does your code take k items, or assume that there are k?")


@ranking("exact", "items left out (-inf) rank last", "extremes", hint="Seen items are scored -inf: do they rank last?")
def ranking_left_out(op: Subject, scores: np.ndarray, target: int, k: int) -> None:
    decided(op, scores, target)
    gone = np.full(5, -np.inf, scores.dtype)
    if not on_the_edge(scores, target, k):
        for name, metric in metrics_of(op):
            close(metric(np.concatenate([scores, gone]), target, k), metric(scores, target, k), 1e-12, name)
            close(metric(np.concatenate([gone, scores]), target + 5, k), metric(scores, target, k), 1e-12, name)


ranking.law("nearly_tied", "exact", "scores that differ in their last digits are different scores",
        lambda op, c: like_loops(op, **c), "extremes", of=lambda c: c(
            scores=1 + 4 * np.finfo(c.scores.dtype).eps * np.arange(len(c.scores), dtype=c.scores.dtype)
        ), hint="Is anything rounded, or compared with a tolerance?")
ranking.law("many_items", "exact", "with 300 items, ranks up to 300 are right: the ranking is not truncated",
        lambda op, c: (
            pair for place in (0, 99, 150, 255, 299) for at in (100, 200, 300)
            for pair in like_loops(op, np.arange(300, 0, -1).astype(c.scores.dtype), place, at, f"@{at}")
        ), "extremes", hint="Is the ranking cut off somewhere?", once=True)


def ranking_observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """Both metrics, also for large k, with items left out, and with equal scores."""
    scores, target, k = case["scores"], case["target"], case["k"]
    longer = np.concatenate([scores, np.full(2, -np.inf, scores.dtype)])
    return observed(op, {"": (scores, target, k), "at 1": (scores, target, 1), "large k": (scores, target, 1000),
                         "left out": (longer, target, k), "all equal": (np.zeros(7, scores.dtype), target % 7, 4)})  # fmt: skip


def observed(op: Subject, tries: dict[str, tuple[np.ndarray, Any, int]]) -> dict[str, Any]:
    """Each metric's value for these scores, targets and k, and whether it changes the scores. Ties are left out if the
    implementation ranks them by another convention."""
    seen: dict[str, Any] = {}
    for (name, metric), (what, (scores, target, k)) in itertools.product(metrics_of(op), tries.items()):
        passed = scores.copy()
        try:
            decided(op, scores, target)
            seen[f"{name} {what}"] = np.array(metric(passed, target, k))
        except NotOfferedError:
            continue
        except Violation:
            seen[f"{name} {what}"] = "raises"
        seen[f"{name} {what}: changed"] = not np.array_equal(passed, scores)
    return seen


def decided(op: Subject, scores: np.ndarray, target: Any) -> None:
    """Raise NotOfferedError if a target is tied and the implementation ranks ties by another convention."""
    ties = op.convention("ties")
    if ties is not None and any(np.sum(scores == score) > 1 for score in np.atleast_1d(scores[target])):
        raise NotOfferedError(ties.says)


def decided_metrics(op: Subject, scores: np.ndarray, target: Any) -> list[tuple[str, Any]]:
    """`metrics_of`, unless `decided` raises."""
    decided(op, scores, target)
    return metrics_of(op)


def on_the_edge(scores: np.ndarray, target: int, k: int) -> bool:
    """Whether the mean rank lies between k and k + 1, where "within k" is a convention."""
    return k < oracles.rank(scores, target) < k + 1


def metrics_of(op: Subject) -> list[tuple[str, Any]]:
    """The implementation's metrics, for one user."""
    metrics = [(op.computes, of_one_user(op))]
    with contextlib.suppress(MissingError):
        metrics += [("ndcg", of_one_user(op.other("ndcg")))] * (op.computes != "ndcg")
    return metrics


def of_one_user(metric: Any) -> Any:
    """The metric as a function of one user's scores.

    If a call with one user raises or does not give one number, the metric is called with a batch of two, and this user
    is the second. The target is an item's index, or, for several, an array that is True at each.
    """

    def value(scores: np.ndarray, target: Any, k: int) -> Any:
        try:
            result = metric(scores, target, k)
            if np.size(result) == 1:
                return np.reshape(result, -1)[0]
        except Violation as single_call_error:
            try:
                return batch(scores, target, k)
            except Violation:
                raise single_call_error from single_call_error.__cause__
        return batch(scores, target, k)

    def batch(scores: np.ndarray, target: Any, k: int) -> Any:
        other = target[::-1] if np.ndim(target) else len(scores) // 2
        both, targets = np.stack([scores[::-1] - 1, scores]), np.array([other, target])
        before = both.copy()
        result = np.asarray(metric(both, targets, k))
        demand(np.array_equal(both, before), "the scores passed in were changed")
        if result.shape != (2,):                                         # a mean over users: take one user
            result = np.asarray(metric(scores[None], np.array([target]), k))
        return result.reshape(-1)[-1]

    return value


RANKING = ranking.spec(
    "rank = 1 + #greater + #equal others / 2; HR@k = [rank within k], NDCG@k = HR@k / log2(rank + 1)",
    "hit_rate(scores, target, k) and ndcg(scores, target, k), or one of them -> a number: scores (V,) of one user, higher is better, target "
    "the index of the one relevant item, k at least 1. A function of a batch, (B, V), (B,) -> (B,), is accepted too",
    "the mean rank on ties; k may exceed the number of items; -inf is the score of an item left out",
    "a rank between k and k + 1 may count as within k or not",
    function="hit_rate", case=ranking_case, outputs=("value",), others=("ndcg",), any_metric=True, choices=("ties",),
    common=False, observe=ranking_observe, loops=(oracles.hit_rate, oracles.ndcg),
    of_loops=lambda hit_rate, ndcg: SimpleNamespace(hit_rate=hit_rate, ndcg=ndcg),
)


ranking_of_several = SpecBuilder("ranking_of_several")
LOOPS = {"recall": oracles.recall, "ndcg": oracles.ndcg_of_several}


def ranking_of_several_case(draw: CaseDrawer) -> dict[str, Any]:
    items = draw.size(1, 12)
    scores = draw.rng.integers(0, 9, items) if draw.flag() else draw.rng.standard_normal(items)
    relevant = draw.rng.random(items) < draw.choose((0.4, 0.1, 0.8))
    relevant[draw.rng.integers(items)] = True
    return {"scores": np.asarray(scores, draw.dtype), "relevant": relevant, "k": draw.choose((1, 2, 3, 5, 10, 20))}


def ranking_of_several_special_cases() -> list[dict[str, Any]]:
    scores, relevant = np.array([5.0, 4, 3, 2, 1]), np.array([True, False, True, False, True])
    return [{"scores": scores, "relevant": relevant, "k": k} for k in (2, 3, 1000)]


@ranking_of_several("exact", "a metric returns one number from 0 to 1 and changes neither argument", "shapes", hint="Sort a copy.")
def ranking_of_several_one_number(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    passed = scores.copy(), relevant.copy()
    decided(op, scores, relevant)                                        # two of one rank may give more than 1
    for name, metric in metrics_of(op):
        value = metric(*passed, k)
        demand(-1e-9 <= value <= 1 + 1e-9, f"{name} is {value!r}, expected a number from 0 to 1")
        for x, before, what in zip(passed, (scores, relevant), ("scores", "relevant"), strict=True):
            close(x, before, 0, f"the argument {what}")


ranking_of_several.law("oracle", "rounding",
        "recall is the share of relevant items within k, and NDCG is their DCG divided by that of the ideal ranking",
        lambda op, c: several_like_loops(op, **c), "oracle",
        hint="Rank five items by hand, the second and the fourth relevant: which rank has each hit, what does it gain, and what divides the sum?")
ranking_of_several.law("ideal", "rounding",
        "where the first items are the relevant ones, NDCG is 1 at every k, and recall@k is k / R up to R",
        lambda op, c: (
            pair for at in (1, 3, 5, 12, 40) for R in (1, 3, 8)
            for pair in several_like_loops(op, np.arange(12, 0, -1).astype(c.scores.dtype), np.arange(12) < R, at)
        ), hint="The ideal DCG ends at k, and at the number of relevant items R: the smaller of the two.")
ranking_of_several.law("cut", "rounding", "the k-th item counts, and the next one does not",
        lambda op, c: (  # item i has rank i + 1
            pair for ranks in [np.arange(c.k + 3)] for places in ((c.k - 1,), (c.k,), (c.k - 1, c.k), (0, c.k))
            for pair in several_like_loops(op, -ranks.astype(c.scores.dtype), np.isin(ranks, places), c.k)
        ), hint="Is rank k within k? Is rank k + 1?")


@ranking_of_several("exact", "shuffling the items changes nothing, and neither does replacing every score s by 2 s + 3",
        hint="Does an item's index matter, or the size of a score?")
def order_alone(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> None:
    whole, order = np.round(4 * scores), np.random.default_rng(len(scores)).permutation(len(scores))
    decided(op, whole, relevant)
    for name, metric in metrics_of(op):
        expected = metric(whole, relevant, k)
        close(metric(whole[order], relevant[order], k), expected, 1e-12, f"of shuffled items, {name}")
        close(metric(2 * whole + 3, relevant, k), expected, 1e-12, f"of other scores in this order, {name}")


ranking_of_several.law("constant_scores", "rounding",
        "if all V scores are equal, recall@k is k / V, and NDCG is the mean over random orders",
        lambda op, c: several_like_loops(op, np.zeros(21, c.scores.dtype), np.arange(21) % 4 == 1, c.k),
        hint="Score everything 0: how large is your recall@10?")
ranking_of_several.law("left_out", "exact", "items left out (-inf) that are not relevant change nothing",
        lambda op, c: (
            (metric(scores, relevant, c.k), metric(c.scores, c.relevant, c.k), 1e-12, name)
            for gone in [np.full(5, -np.inf, c.scores.dtype)]
            for longer in [(np.append(c.scores, gone), np.append(c.relevant, [False] * 5))]
            for name, metric in decided_metrics(op, c.scores, c.relevant)
            for scores, relevant in (longer, [x[::-1].copy() for x in longer])
        ), "extremes", hint="Seen items are scored -inf: do they rank last?")
ranking_of_several.law("many_items", "rounding", "with 200 items of which 40 are relevant, every k is right",
        lambda op, c: (
            pair for rng in [np.random.default_rng(0)] for at in (1, 10, 39, 41, 150, 200, 1000)
            for pair in several_like_loops(op, rng.permutation(200).astype(float), rng.permutation(200) < 40, at)
        ), "extremes", hint="Is the ranking, or the ideal one, cut off somewhere?", once=True)


def several_like_loops(op: Subject, scores: np.ndarray, relevant: np.ndarray, k: int) -> Iterator[Any]:
    """The sides of a law: each metric, and plain loops."""
    for name, metric in decided_metrics(op, scores, relevant):
        expected, R = LOOPS[name](scores, relevant, k), int(np.sum(relevant))
        if name == "recall" and op.convention("recall") is not None:
            expected *= R / min(k, R)
        yield metric(scores, relevant, k), expected, 1e-6, f"{name}@{k} of {R} relevant items among {len(scores)}"


def ranking_of_several_remark(op: Subject, **_: Any) -> str:
    """Whether it is a function of lists: of the ranked items, and of the relevant ones."""
    for group in (set, list):
        with contextlib.suppress(Violation):
            for case in ranking_of_several_special_cases():
                ranked, items = np.argsort(-case["scores"]).tolist(), group(np.flatnonzero(case["relevant"]).tolist())
                close(op(ranked, items, case["k"]), LOOPS[op.computes](**case), 1e-6)
            return (
                "It is right if it gets the ranked items and the relevant ones. "
                "It got scores, and a boolean for each item: write an adapter, as --contract ranking_of_several says."
            )
    return ""


def ranking_of_several_observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """Both metrics, also for another k."""
    return observed(op, {f"at {k}": (case["scores"], case["relevant"].copy(), k) for k in (case["k"], 1, 1000)})


RANKING_OF_SEVERAL = ranking_of_several.spec(
    "recall@k = |relevant within k| / |relevant|; NDCG@k = DCG / ideal DCG, DCG = Σ 1 / log2(rank + 1) over the relevant "
    "within k, and the ideal one is Σ 1 / log2(i + 1) for i = 1 .. min(k, |relevant|)",
    "recall(scores, relevant, k) and ndcg(scores, relevant, k), or one of them -> a number: scores (V,) of one user, higher is better, "
    "relevant (V,) boolean, True at one item or more, k at least 1. A function of a batch, (B, V) twice -> (B,), is "
    "accepted too. For a function of lists, pass np.argsort(-scores) and np.flatnonzero(relevant)",
    "tied items each have the mean gain of their places, the average over random orders; k may exceed the number of "
    "items; -inf is the score of an item left out",
    function="recall", ours=adapters.SeveralRelevant, case=ranking_of_several_case, outputs=("value",),
    others=("ndcg",), any_metric=True, choices=("ties of several", "recall", "small k"), common=False,
    special_cases=ranking_of_several_special_cases, observe=ranking_of_several_observe, loops=tuple(LOOPS.values()),
    of_loops=lambda recall, ndcg: SimpleNamespace(recall=recall, ndcg=ndcg), remark=ranking_of_several_remark,
)
