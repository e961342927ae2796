"""Ranking metrics and protocols."""

from .lazy import LazyScores, SharedScores, WholeRows
from .protocol import (
    PROTOCOLS,
    candidates_for,
    draw_candidates,
    evaluate,
    full_ranking,
    read_candidates,
    save_candidates,
)
from .ranking import NaNScoreError, all_ranks, hit_rate, metrics, ndcg, ranks, reciprocal_rank

__all__ = [
    "PROTOCOLS",
    "LazyScores",
    "NaNScoreError",
    "SharedScores",
    "WholeRows",
    "all_ranks",
    "candidates_for",
    "draw_candidates",
    "evaluate",
    "full_ranking",
    "hit_rate",
    "metrics",
    "ndcg",
    "ranks",
    "read_candidates",
    "reciprocal_rank",
    "save_candidates",
]
