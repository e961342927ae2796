"""The mathematics: pure functions, each forward beside its backward."""

from ..random import keep_mask
from .activations import gelu, gelu_backward, relu, relu_backward
from .attention.additive_attention import additive_attention, additive_attention_backward
from .attention.additive_scores import additive_scores, additive_scores_backward
from .attention.attention import attention, attention_backward
from .attention.block_sparse_attention import block_sparse_attention, block_sparse_attention_backward
from .attention.blocks import BlockLayout, Blocks, dense_weights
from .attention.by_features import causal_sum
from .attention.convolving_attention import convolving_attention
from .attention.flash_attention import flash_attention, flash_attention_backward
from .attention.fused_attention import AttentionCache, fused_attention, fused_attention_backward
from .attention.gaussian_attention import gaussian_attention, gaussian_attention_backward
from .attention.linear_attention import linear_attention, linear_attention_backward, linear_weights
from .attention.performer import (
    orthogonal_features,
    performer_attention,
    performer_attention_backward,
    performer_weights,
    positive_features,
)
from .attention.pointwise_attention import (
    pointwise_attention,
    pointwise_attention_backward,
    pointwise_weights,
)
from .attention.shifted_windows import relative_index, shifted_windows
from .attention.wasserstein_scores import wasserstein_scores, wasserstein_scores_backward
from .attention.window_attention import window_attention, window_attention_backward, window_shape, window_weights
from .batch_norm import batch_norm, batch_norm_backward
from .convolution import conv1d, conv1d_backward, conv2d, conv2d_backward
from .depthwise import depthwise_conv1d, depthwise_conv1d_backward
from .dropout import dropout, dropout_backward
from .elu import elu, elu_backward
from .embedding import embedding, embedding_backward, sum_rows
from .layer_norm import layer_norm, layer_norm_backward
from .linear import linear, linear_backward
from .losses import (
    bce_with_logits,
    bce_with_logits_backward,
    bpr_max,
    bpr_max_backward,
    cross_entropy,
    cross_entropy_backward,
    distance_bpr,
    distance_bpr_backward,
    smoothed_cross_entropy,
    smoothed_cross_entropy_backward,
    tiled_cross_entropy,
    tiled_cross_entropy_backward,
)
from .masks import Mask, as_mask, causal_mask
from .norm_linear import norm_linear, norm_linear_backward
from .patchify import patchify, patchify_backward
from .pooling import max_pool1d, max_pool1d_backward
from .positions.alibi import alibi
from .positions.buckets import bucket_bias, bucket_bias_backward, distance_buckets
from .positions.quadratic import kernel_shifts, quadratic_bias
from .positions.relative import relative_scores, relative_scores_backward, relative_values, relative_values_backward
from .positions.rotary import rotary, rotary_backward, rotary_tables
from .positions.rotary_speeds import rotary_speeds
from .positions.sinusoids import sinusoids
from .positions.times import time_buckets
from .recurrence.associative_scan import associative_scan, associative_scan_backward
from .recurrence.delta_rule import delta_rule, delta_rule_backward
from .recurrence.gru import gru, gru_backward
from .recurrence.lstm import lstm, lstm_backward
from .recurrence.matrices import delta_matrix, scan_matrix, wkv_weights
from .recurrence.rnn import rnn, rnn_backward
from .recurrence.selective_scan import selective_scan, selective_scan_backward
from .recurrence.wkv import wkv, wkv_backward
from .refinements.add import refine_add, refine_add_backward
from .refinements.simp import refine_simp, refine_simp_backward
from .refinements.stoc import refine_stoc, refine_stoc_backward
from .refinements.value import refine_value, refine_value_backward
from .refinements.value_literal import refine_value_literal, refine_value_literal_backward
from .refinements.value_rows import refine_value_rows, refine_value_rows_backward
from .rms_norm import rms_norm, rms_norm_backward
from .root_elu import root_elu, root_elu_backward
from .sigmoid import sigmoid
from .silu import silu, silu_backward
from .softmax import softmax, softmax_backward

__all__ = ["AttentionCache", "BlockLayout", "Blocks", "Mask", "additive_attention", "additive_attention_backward",
           "additive_scores", "additive_scores_backward", "alibi", "as_mask", "associative_scan",
           "associative_scan_backward", "attention", "attention_backward", "batch_norm", "batch_norm_backward",
           "bce_with_logits", "bce_with_logits_backward", "block_sparse_attention", "block_sparse_attention_backward",
           "bpr_max", "bpr_max_backward", "bucket_bias", "bucket_bias_backward", "causal_mask", "causal_sum", "conv1d",
           "conv1d_backward", "conv2d", "conv2d_backward", "convolving_attention", "cross_entropy",
           "cross_entropy_backward", "delta_matrix", "delta_rule", "delta_rule_backward", "dense_weights",
           "depthwise_conv1d", "depthwise_conv1d_backward", "distance_bpr", "distance_bpr_backward", "distance_buckets",
           "dropout", "dropout_backward", "elu", "elu_backward", "embedding", "embedding_backward", "flash_attention",
           "flash_attention_backward", "fused_attention", "fused_attention_backward", "gaussian_attention",
           "gaussian_attention_backward", "gelu", "gelu_backward", "gru", "gru_backward", "keep_mask", "kernel_shifts",
           "layer_norm", "layer_norm_backward", "linear", "linear_attention", "linear_attention_backward",
           "linear_backward", "linear_weights", "lstm", "lstm_backward", "max_pool1d", "max_pool1d_backward",
           "norm_linear", "norm_linear_backward", "orthogonal_features", "patchify", "patchify_backward",
           "performer_attention", "performer_attention_backward", "performer_weights", "pointwise_attention",
           "pointwise_attention_backward", "pointwise_weights", "positive_features", "quadratic_bias", "refine_add",
           "refine_add_backward", "refine_simp", "refine_simp_backward", "refine_stoc", "refine_stoc_backward",
           "refine_value", "refine_value_backward", "refine_value_literal", "refine_value_literal_backward",
           "refine_value_rows", "refine_value_rows_backward", "relative_index", "relative_scores",
           "relative_scores_backward", "relative_values", "relative_values_backward", "relu", "relu_backward",
           "rms_norm", "rms_norm_backward", "rnn", "rnn_backward", "root_elu", "root_elu_backward", "rotary",
           "rotary_backward", "rotary_speeds", "rotary_tables", "scan_matrix", "selective_scan",
           "selective_scan_backward", "shifted_windows", "sigmoid", "silu", "silu_backward", "sinusoids",
           "smoothed_cross_entropy", "smoothed_cross_entropy_backward", "softmax", "softmax_backward", "sum_rows",
           "tiled_cross_entropy", "tiled_cross_entropy_backward", "time_buckets", "wasserstein_scores",
           "wasserstein_scores_backward", "window_attention", "window_attention_backward", "window_shape",
           "window_weights", "wkv", "wkv_backward", "wkv_weights"]  # fmt: skip
