"""Ranking metrics and protocols; the errors of predicted ratings; F1; linear probes."""

from .beyond import best_items, beyond_accuracy, coverage, novelty, overlap, popularity_lift, popularity_of
from .bootstrap import Difference, mean_interval, over_samples, paired_difference, paired_error_difference
from .f1 import macro_f1
from .lazy import LazyScores, SharedScores, WholeRows
from .means import Comparison, compare_means, holm
from .probe import Probed, linear_probe
from .protocol import (
    PROTOCOLS,
    candidates_for,
    draw_candidates,
    evaluate,
    full_ranking,
    metrics_of_users,
    read_candidates,
    save_candidates,
    target_ranks,
)
from .ranking import (
    NaNScoreError,
    all_ranks,
    hit_rate,
    metrics,
    ndcg,
    ndcg_of_several,
    ranks,
    recall,
    reciprocal_rank,
    top,
)
from .ratings import RATING_BASELINES, damped_biases, mean_rating, rating_errors
from .segments import SEGMENTS

__all__ = [
    "PROTOCOLS", "RATING_BASELINES", "SEGMENTS", "Comparison", "Difference", "LazyScores", "NaNScoreError", "Probed",
    "SharedScores", "WholeRows", "all_ranks", "best_items", "beyond_accuracy", "candidates_for", "compare_means",
    "coverage", "damped_biases", "draw_candidates", "evaluate", "full_ranking", "hit_rate", "holm", "linear_probe",
    "macro_f1", "mean_interval", "mean_rating", "metrics", "metrics_of_users", "ndcg", "ndcg_of_several", "novelty",
    "over_samples", "overlap", "paired_difference", "paired_error_difference", "popularity_lift", "popularity_of",
    "ranks", "rating_errors", "read_candidates", "recall", "reciprocal_rank", "save_candidates", "target_ranks",
    "top",
]  # fmt: skip
