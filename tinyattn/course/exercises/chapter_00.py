"""Exercises of chapter 00, a first look."""

from typing import Any

import numpy as np

from ...check.cases import CaseDrawer
from ..graders import Function, Number
from ..plain import plain_spec
from ..prose import Prose

EPISODES, OFFERED = 54, 10                   # of chance_hit_rate


def _chance(seen: int) -> float:
    """The probability that one of the unseen episodes is among the first OFFERED of a random order."""
    left = EPISODES - seen
    return float(np.mean(np.arange(1, left + 1) <= OFFERED))


def _hit_rate(ranks: Any, k: int) -> float:
    """The share of ranks that are at most k. Shapes: ranks (people,)."""
    return float(np.mean(np.asarray(ranks) <= k))


def _rank(scores: Any, target: int) -> int:
    """1 + the number of items that score higher. Shapes: scores (items,)."""
    return 1 + int(np.sum(scores > scores[target]))


def _ranks_and_k(draw: CaseDrawer) -> dict[str, Any]:
    k = draw.size(1, 10)
    ranks = draw.rng.integers(max(1, k - 3), k + 4, draw.size())
    if draw.flag():
        ranks[0] = k
    return {"ranks": ranks, "k": k}


def _scores_and_target(draw: CaseDrawer) -> dict[str, Any]:
    """Distinct scores, so that ranks are unique."""
    items = draw.size()
    scores = np.asarray(draw.rng.permutation(items) - items // 2, draw.dtype)
    return {"scores": scores, "target": int(draw.rng.integers(items))}


HIT_RATE = plain_spec("hit_rate", "the share of ranks that are at most k", _ranks_and_k, _hit_rate, "hit_rate")
RANK = plain_spec("rank", "1 + how many items score higher than the target", _scores_and_target, _rank, "rank")

WRONG_HIT_RATE = dict(
    last_place_missed=lambda ranks, k: np.mean(ranks < k),
    not_divided=lambda ranks, k: np.sum(ranks <= k),
    share_missed=lambda ranks, k: np.mean(ranks > k),
    comparison_turned=lambda ranks, k: np.mean(ranks >= k),
    mean_rank=lambda ranks, k: np.mean(ranks),
    only_place_k=lambda ranks, k: np.mean(ranks == k),
    divided_by_k=lambda ranks, k: np.sum(ranks <= k) / k,
    divided_by_ten=lambda ranks, k: np.sum(ranks <= k) / 10,
    in_percent=lambda ranks, k: 100 * np.mean(ranks <= k),
    one_a_person=lambda ranks, k: ranks <= k,
    any_hit=lambda ranks, k: float(np.any(ranks <= k)),
)

WRONG_RANK = dict(
    counted_from_zero=lambda scores, target: np.sum(scores > scores[target]),
    lowest_first=lambda scores, target: 1 + np.sum(scores < scores[target]),
    lowest_first_from_zero=lambda scores, target: np.sum(scores < scores[target]),
    lowest_first_with_itself=lambda scores, target: np.sum(scores <= scores[target]),
    itself_counted=lambda scores, target: 1 + np.sum(scores >= scores[target]),
    order_for_rank=lambda scores, target: 1 + np.argsort(-scores)[target],
    order_for_rank_lowest_first=lambda scores, target: 1 + np.argsort(scores)[target],
    order_for_rank_from_zero=lambda scores, target: np.argsort(-scores)[target],
    target_for_rank=lambda scores, target: 1 + target,
    share_above=lambda scores, target: np.mean(scores > scores[target]),
    compared_with_the_index=lambda scores, target: 1 + np.sum(scores > target),
)

EXERCISES = Prose(0).exercises(
    chance_hit_rate=Number(_chance, tolerance=0.015),
    my_hit_rate=Function(HIT_RATE, tempting=WRONG_HIT_RATE),
    repaired_rank=Function(RANK, tempting=WRONG_RANK),
)
