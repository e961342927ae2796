"""How attention comes to know order: a file an idea. What adds or turns vectors, and what is added to scores."""

from .alibi import alibi
from .buckets import bucket_bias, bucket_bias_backward, distance_buckets
from .quadratic import kernel_shifts, quadratic_bias
from .relative import (
    relative_scores,
    relative_scores_backward,
    relative_values,
    relative_values_backward,
)
from .rotary import rotary, rotary_backward, rotary_tables
from .sinusoids import sinusoids

__all__ = [
    "alibi",
    "bucket_bias",
    "bucket_bias_backward",
    "distance_buckets",
    "kernel_shifts",
    "quadratic_bias",
    "relative_scores",
    "relative_scores_backward",
    "relative_values",
    "relative_values_backward",
    "rotary",
    "rotary_backward",
    "rotary_tables",
    "sinusoids",
]
