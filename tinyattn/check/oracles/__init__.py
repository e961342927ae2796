"""Oracles: the ops as plain loops over float64 numbers, slow and simple."""

from typing import TYPE_CHECKING

from .attention import (
    additive_attention,
    additive_scores,
    attention,
    biased_multi_head_attention,
    block_sparse_attention,
    cross_attention,
    flash_attention,
    fused_attention,
    gaussian_attention,
    grouped_query_attention,
    linear_attention,
    multi_head_attention,
    performer_attention,
    tiled_attention,
    wasserstein_scores,
    window_attention,
)
from .basics import (
    batch_norm,
    dropout,
    elu,
    embedding,
    embedding_backward,
    gelu,
    layer_norm,
    linear,
    norm_linear,
    relu,
    rms_norm,
    root_elu,
    silu,
    softmax,
)
from .blocks import block, feed_forward, gelu_feed_forward, post_ln_block, swiglu
from .convolution import conv1d, conv2d, depthwise_conv1d, max_pool1d, patchify
from .losses import (
    bce_with_logits,
    bpr,
    bpr_max,
    cross_entropy,
    distance_bpr,
    hit_rate,
    ndcg,
    ndcg_of_several,
    rank,
    recall,
    smoothed_cross_entropy,
)
from .optimisers import adam, adamw, curve
from .positions import alibi, bucket_bias, relative_scores, relative_values, rotary
from .recurrence import associative_scan, gru, lstm, rnn, selective_scan, wkv, zero_order_hold
from .refinements import refine_add, refine_simp, refine_stoc, refine_value, refine_value_literal, refine_value_rows

if not TYPE_CHECKING:  # type checkers read the imports

    def __getattr__(name):
        raise AttributeError(f"no oracle is called {name}: is it imported in {__name__.replace('.', '/')}/__init__.py?")
