"""Ranking metrics and protocols."""

from .protocol import full_ranking
from .ranking import NaNScoreError, all_ranks, hit_rate, metrics, ndcg, ranks, reciprocal_rank

__all__ = [
    "NaNScoreError",
    "all_ranks",
    "full_ranking",
    "hit_rate",
    "metrics",
    "ndcg",
    "ranks",
    "reciprocal_rank",
]
