"""Ranking metrics and protocols."""

from .beyond import best_items, coverage, novelty, overlap, popularity_lift, popularity_of
from .bootstrap import Difference, paired_difference
from .lazy import LazyScores, SharedScores, WholeRows
from .protocol import (
    PROTOCOLS,
    candidates_for,
    draw_candidates,
    evaluate,
    full_ranking,
    read_candidates,
    save_candidates,
    target_ranks,
)
from .ranking import NaNScoreError, all_ranks, hit_rate, metrics, ndcg, ranks, reciprocal_rank, top

__all__ = [
    "PROTOCOLS",
    "Difference",
    "LazyScores",
    "NaNScoreError",
    "SharedScores",
    "WholeRows",
    "all_ranks",
    "best_items",
    "candidates_for",
    "coverage",
    "draw_candidates",
    "evaluate",
    "full_ranking",
    "hit_rate",
    "metrics",
    "ndcg",
    "novelty",
    "overlap",
    "paired_difference",
    "popularity_lift",
    "popularity_of",
    "ranks",
    "read_candidates",
    "reciprocal_rank",
    "save_candidates",
    "target_ranks",
    "top",
]
