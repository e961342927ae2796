"""Attention, a file a form: as it is defined, arranged for a CPU, and with fewer pairs or none."""

from .attention import attention, attention_backward
from .by_features import causal_sum
from .convolving_attention import convolving_attention
from .fused_attention import AttentionCache, fused_attention, fused_attention_backward
from .linear_attention import linear_attention, linear_attention_backward, linear_weights
from .performer import (
    orthogonal_features,
    performer_attention,
    performer_attention_backward,
    performer_weights,
    positive_features,
)
from .window_attention import window_attention, window_attention_backward, window_shape, window_weights

__all__ = [
    "AttentionCache",
    "attention",
    "attention_backward",
    "causal_sum",
    "convolving_attention",
    "fused_attention",
    "fused_attention_backward",
    "linear_attention",
    "linear_attention_backward",
    "linear_weights",
    "orthogonal_features",
    "performer_attention",
    "performer_attention_backward",
    "performer_weights",
    "positive_features",
    "window_attention",
    "window_attention_backward",
    "window_shape",
    "window_weights",
]
