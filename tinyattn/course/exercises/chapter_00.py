"""Exercises of chapter 00, a first look."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...check.cases import CaseDrawer
from ..exercise import Exercise
from ..graders import Function, Number
from ..plain import plain_spec

CHAPTER = 0
EPISODES, SEEN, OFFERED = 54, 12, 10         # of chance_hit_rate


def _chance() -> float:
    """The share of orders of the unseen episodes in which a given one is among the first OFFERED."""
    left = EPISODES - SEEN
    return float(np.mean(np.arange(1, left + 1) <= OFFERED))


def _hit_rate(ranks: Any, k: int) -> float:
    """The share of ranks that are at most k. Shapes: ranks (people,)."""
    return float(np.mean(np.asarray(ranks) <= k))


def _rank(scores: Any, target: int) -> int:
    """1 + how many score higher. Shapes: scores (items,)."""
    return 1 + int(np.sum(scores > scores[target]))


def _ranks_and_k(draw: CaseDrawer) -> dict[str, Any]:
    k = draw.size(1, 10)
    ranks = draw.rng.integers(max(1, k - 3), k + 4, draw.size())
    if draw.flag():
        ranks[0] = k
    return {"ranks": ranks, "k": k}


def _scores_and_target(draw: CaseDrawer) -> dict[str, Any]:
    """Scores that are all different, so that every item has one rank."""
    items = draw.size()
    scores = np.asarray(draw.rng.permutation(items) - items // 2, draw.dtype)
    return {"scores": scores, "target": int(draw.rng.integers(items))}


HIT_RATE = plain_spec("hit_rate", "the share of ranks that are at most k", _ranks_and_k, _hit_rate, "hit_rate")
RANK = plain_spec("rank", "1 + how many items score higher than the target", _scores_and_target, _rank, "rank")

WRONG_HIT_RATE = (
    (lambda ranks, k: np.mean(ranks < k), "Is the k-th offer one of the first k?"),
    (lambda ranks, k: np.sum(ranks <= k), "A share lies between 0 and 1: does yours?", "It does not divide."),
    (lambda ranks, k: np.mean(ranks > k), "Is a rank of 1 a hit?", "It is the share that is missed."),
    (lambda ranks, k: np.mean(ranks >= k), "Is a rank of 1 a hit?", "The comparison is the wrong way round."),
    (lambda ranks, k: np.mean(ranks), "Where does k come in?", "It is the mean rank, not the share within k."),
    (lambda ranks, k: np.mean(ranks == k), "Is a rank below k a hit as well?"),
    (lambda ranks, k: np.sum(ranks <= k) / k, "The share of what: of the offers, or of the people?"),
    (lambda ranks, k: np.sum(ranks <= k) / 10, "How many people are there?", "Divide by len(ranks)."),
    (lambda ranks, k: 100 * np.mean(ranks <= k), "A share lies between 0 and 1: does yours?", "It is in percent."),
    (lambda ranks, k: ranks <= k, "Those are the hits, one a person. Which one number sums them up?"),
    (lambda ranks, k: float(np.any(ranks <= k)), "Two hits of three: what share is that?"),
)

WRONG_RANK = (
    (lambda scores, target: np.sum(scores > scores[target]), "What does it say of the best item, which nothing beats?"),
    (lambda scores, target: 1 + np.sum(scores < scores[target]), "Does the highest score come first, or last?"),
    (lambda scores, target: np.sum(scores < scores[target]), "Does the highest score come first, or last?"),
    (lambda scores, target: np.sum(scores <= scores[target]), "Does the highest score come first, or last?"),
    (lambda scores, target: 1 + np.sum(scores >= scores[target]),
     "Does the target itself score higher than the target?"),
    (lambda scores, target: 1 + np.argsort(-scores)[target],
     "argsort(...)[i] is the item at place i. Is that the place of item i?"),
    (lambda scores, target: 1 + np.argsort(scores)[target],
     "argsort(...)[i] is the item at place i. Is that the place of item i?"),
    (lambda scores, target: np.argsort(-scores)[target],
     "argsort(...)[i] is the item at place i. Is that the place of item i?"),
    (lambda scores, target: 1 + target, "Does the rank change when the scores do?"),
    (lambda scores, target: np.mean(scores > scores[target]), "A rank is a place: 1, 2, 3. Is yours?"),
    (lambda scores, target: 1 + np.sum(scores > target),
     "Each score is to be compared with the target's score: is that `target`?"),
)  # fmt: skip

EXERCISES = (
    Exercise(
        "chance_hit_rate",
        "predict the number",
        difficulty=1,
        minutes=2,
        task="the chance that the next episode is among ten unseen ones offered at random",
        grader=Number(
            _chance,
            tolerance=0.015,
            tempting=(
                (lambda: OFFERED / EPISODES, "Are the episodes that she has seen offered as well?"),
                (lambda: 1 / (EPISODES - SEEN), "How many does she get offered?", "That is the chance of one offer."),
                (lambda: 1 / EPISODES, "How many does she get offered?", "That is one offer out of all episodes."),
                (lambda: OFFERED / SEEN, "Which episodes can be offered: those seen, or the others?"),
                (lambda: SEEN / EPISODES, "How many does she get offered?", "That is the share that she has seen."),
                (lambda: 100 * OFFERED / (EPISODES - SEEN), "A chance lies between 0 and 1: does yours?"),
                (lambda: (EPISODES - SEEN) / OFFERED, "A chance lies between 0 and 1: does yours?"),
            ),
        ),
        hints=(
            "How many episodes are left that she has not seen, and how many of these are offered?",
            "Each of the 42 others is as likely as any other to be among the ten.",
        ),
        why="All 42 unseen episodes are alike to a random offer, and it names ten of them: 10 / 42, about a quarter.",
    ),
    Exercise(
        "my_hit_rate",
        "write the op",
        difficulty=1,
        minutes=2,
        task="my_hit_rate(ranks, k), the share of ranks that are at most k",
        grader=Function(HIT_RATE, tempting=WRONG_HIT_RATE),
        hints=(
            "How many of the ranks are hits? How do you make a share of that?",
            "What is `ranks <= k`, and what is the mean of True and False? True counts as 1 and False as 0, so the "
            "mean is the share of hits.",
        ),
        why="`ranks <= k` has a 1 for each hit and a 0 for each miss, and the mean of zeros and ones is a share.",
    ),
    Exercise(
        "repaired_rank",
        "find the bug",
        difficulty=1,
        minutes=3,
        task="buggy_rank, put right",
        grader=Function(RANK, tempting=WRONG_RANK),
        hints=(
            "What does buggy_rank say of the best item, which nothing beats?",
            "It counts the items that are better. The rank is one more: with none better, it is 1.",
        ),
        why="Items that score higher come before it, so its place is one after them. Counted from 0, rank 10 is that "
        "of the eleventh offer, and HR@10 counts eleven offers.",
    ),
)
