"""Attention, a file a form: as it is defined, arranged for a CPU, and with fewer pairs or none."""

from .additive_attention import additive_attention, additive_attention_backward
from .additive_scores import additive_scores, additive_scores_backward
from .attention import attention, attention_backward
from .block_sparse_attention import block_sparse_attention, block_sparse_attention_backward
from .blocks import BlockLayout, Blocks, dense_weights
from .by_features import causal_sum
from .convolving_attention import convolving_attention
from .flash_attention import flash_attention, flash_attention_backward
from .fused_attention import AttentionCache, fused_attention, fused_attention_backward
from .gaussian_attention import gaussian_attention, gaussian_attention_backward
from .linear_attention import linear_attention, linear_attention_backward, linear_weights
from .performer import (
    orthogonal_features,
    performer_attention,
    performer_attention_backward,
    performer_weights,
    positive_features,
)
from .shifted_windows import relative_index, shifted_windows
from .wasserstein_scores import wasserstein_scores, wasserstein_scores_backward
from .window_attention import window_attention, window_attention_backward, window_shape, window_weights

__all__ = [
    "AttentionCache",
    "BlockLayout",
    "Blocks",
    "additive_attention",
    "additive_attention_backward",
    "additive_scores",
    "additive_scores_backward",
    "attention",
    "attention_backward",
    "block_sparse_attention",
    "block_sparse_attention_backward",
    "causal_sum",
    "convolving_attention",
    "dense_weights",
    "flash_attention",
    "flash_attention_backward",
    "fused_attention",
    "fused_attention_backward",
    "gaussian_attention",
    "gaussian_attention_backward",
    "linear_attention",
    "linear_attention_backward",
    "linear_weights",
    "orthogonal_features",
    "performer_attention",
    "performer_attention_backward",
    "performer_weights",
    "positive_features",
    "relative_index",
    "shifted_windows",
    "wasserstein_scores",
    "wasserstein_scores_backward",
    "window_attention",
    "window_attention_backward",
    "window_shape",
    "window_weights",
]
