"""Ranking metrics and protocols."""

from .protocol import full_ranking
from .ranking import all_ranks, hit_rate, metrics, ndcg, ranks, reciprocal_rank

__all__ = ["all_ranks", "full_ranking", "hit_rate", "metrics", "ndcg", "ranks", "reciprocal_rank"]
