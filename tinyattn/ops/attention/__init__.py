"""Attention, a file a form: as it is defined, arranged for a CPU, and with fewer pairs or none."""

from .attention import attention, attention_backward
from .flash_attention import flash_attention, flash_attention_backward
from .fused_attention import AttentionCache, fused_attention, fused_attention_backward
from .linear_attention import causal_sum, linear_attention, linear_attention_backward, linear_weights
from .window_attention import window_attention, window_attention_backward, window_shape, window_weights

__all__ = [
    "AttentionCache",
    "attention",
    "attention_backward",
    "causal_sum",
    "flash_attention",
    "flash_attention_backward",
    "fused_attention",
    "fused_attention_backward",
    "linear_attention",
    "linear_attention_backward",
    "linear_weights",
    "window_attention",
    "window_attention_backward",
    "window_shape",
    "window_weights",
]
