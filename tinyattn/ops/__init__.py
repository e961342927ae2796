"""The mathematics: pure functions, each forward beside its backward."""

from ..random import keep_mask
from .activations import gelu, gelu_backward, relu, relu_backward
from .attention import (
    AttentionCache,
    attention,
    attention_backward,
    causal_sum,
    fused_attention,
    fused_attention_backward,
    linear_attention,
    linear_attention_backward,
    linear_weights,
    orthogonal_features,
    performer_attention,
    performer_attention_backward,
    performer_weights,
    positive_features,
    window_attention,
    window_attention_backward,
    window_shape,
    window_weights,
)
from .batch_norm import batch_norm, batch_norm_backward
from .dropout import dropout, dropout_backward
from .elu import elu, elu_backward
from .embedding import embedding, embedding_backward, sum_rows
from .gru import gru, gru_backward
from .layer_norm import layer_norm, layer_norm_backward
from .linear import linear, linear_backward
from .losses import (
    bce_with_logits,
    bce_with_logits_backward,
    cross_entropy,
    cross_entropy_backward,
    sigmoid,
)
from .masks import Mask, as_mask, causal_mask
from .norm_linear import norm_linear, norm_linear_backward
from .positions import (
    alibi,
    bucket_bias,
    bucket_bias_backward,
    distance_buckets,
    relative_scores,
    relative_scores_backward,
    relative_values,
    relative_values_backward,
    rotary,
    rotary_backward,
    rotary_tables,
    sinusoids,
)
from .rms_norm import rms_norm, rms_norm_backward
from .silu import silu, silu_backward
from .softmax import softmax, softmax_backward

__all__ = [
    "AttentionCache",
    "Mask",
    "alibi",
    "as_mask",
    "attention",
    "attention_backward",
    "batch_norm",
    "batch_norm_backward",
    "bce_with_logits",
    "bce_with_logits_backward",
    "bucket_bias",
    "bucket_bias_backward",
    "causal_mask",
    "causal_sum",
    "cross_entropy",
    "cross_entropy_backward",
    "distance_buckets",
    "dropout",
    "dropout_backward",
    "elu",
    "elu_backward",
    "embedding",
    "embedding_backward",
    "fused_attention",
    "fused_attention_backward",
    "gelu",
    "gelu_backward",
    "gru",
    "gru_backward",
    "keep_mask",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_attention",
    "linear_attention_backward",
    "linear_backward",
    "linear_weights",
    "norm_linear",
    "norm_linear_backward",
    "orthogonal_features",
    "performer_attention",
    "performer_attention_backward",
    "performer_weights",
    "positive_features",
    "relative_scores",
    "relative_scores_backward",
    "relative_values",
    "relative_values_backward",
    "relu",
    "relu_backward",
    "rms_norm",
    "rms_norm_backward",
    "rotary",
    "rotary_backward",
    "rotary_tables",
    "sigmoid",
    "silu",
    "silu_backward",
    "sinusoids",
    "softmax",
    "softmax_backward",
    "sum_rows",
    "window_attention",
    "window_attention_backward",
    "window_shape",
    "window_weights",
]
