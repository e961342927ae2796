"""Ranking metrics and protocols; the errors of predicted ratings."""

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
from .ratings import RATING_BASELINES, damped_biases, mean_rating, rating_errors

__all__ = [
    "PROTOCOLS",
    "RATING_BASELINES",
    "NaNScoreError",
    "all_ranks",
    "candidates_for",
    "damped_biases",
    "draw_candidates",
    "evaluate",
    "full_ranking",
    "hit_rate",
    "mean_rating",
    "metrics",
    "ndcg",
    "ranks",
    "rating_errors",
    "read_candidates",
    "reciprocal_rank",
    "save_candidates",
]
