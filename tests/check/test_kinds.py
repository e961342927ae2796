"""Kinds without a zoo: common mistakes, and the first property that sees each."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers import accused_by
from tinyattn import layers, ops
from tinyattn.check import adapters, check_implementation
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject


def copied_in_turn(x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None):
    """Head i reads group i % kv_heads."""
    W_k, W_v = (
        np.tile(W.reshape(len(W), kv_heads, -1), (1, heads // kv_heads, 1)).reshape(len(W), -1) for W in (W_k, W_v)
    )
    return adapters.multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask)


def averaged_over_the_group(dy, x, W_q, W_k, W_v, W_o, heads, kv_heads, mask=None):
    dx, dW_q, dW_k, dW_v, dW_o = adapters.grouped_query_attention_backward(
        dy, x, W_q, W_k, W_v, W_o, heads, kv_heads, mask
    )
    size = dy.dtype.type(heads // kv_heads)
    return dx, dW_q, dW_k / size, dW_v / size, dW_o


def a_pre_ln_block(
    x, W_q, W_k, W_v, W_o, gamma_1, beta_1, W_1, b_1, W_2, b_2, gamma_2, beta_2, heads, mask=None, eps=1e-5
):
    return adapters.block(
        x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask, eps
    )


class Padded(adapters.PaddedBlock):
    """With a mistake: padding is looked at, is part of a mean, or the last real token is taken for padding."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x, lengths):
        if self.how == "no mask":
            lengths = np.full_like(lengths, x.shape[1])
        if self.how == "one too few":
            lengths = np.maximum(lengths - 1, 1)
        y = super().forward(x, lengths)
        return y + np.mean(y, axis=1, keepdims=True) if self.how == "in a mean" else y


class Cached(adapters.CachedAttention):
    """With a mistake: one cache for all, its first token dropped beyond four, or only the token itself looked at."""

    def __init__(self, how):
        super().__init__()
        self.how, self.kept = how, None

    def step(self, x, cache=None):
        if self.how == "one cache":
            cache = self.kept
        if self.how == "a window" and cache is not None:
            cache = tuple(part[:, -4:] for part in cache)
        y, self.kept = super().step(x, None if self.how == "itself alone" else cache)
        return y, self.kept


WRONG = [
    ("cross_attention", {"cross_attention": lambda x, memory, W_q, W_k, W_v, W_o, heads, mask=None:
                         adapters.cross_attention(x, memory, W_q, W_k, W_v, W_o, heads)}, "oracle"),
    ("biased_multi_head_attention", {"biased_multi_head_attention": lambda x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o,
     heads, mask=None: adapters.multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask) + b_v @ W_o + b_o}, "oracle"),
    ("grouped_query_attention", {"grouped_query_attention": copied_in_turn}, "oracle"),
    ("grouped_query_attention", {"grouped_query_attention_backward": averaged_over_the_group}, "derivative"),
    ("gelu_feed_forward", {"gelu_feed_forward": lambda x, W_1, b_1, W_2, b_2, approximate=False:
                           adapters.gelu_feed_forward(x, W_1, b_1, W_2, b_2, True)}, "oracle"),
    ("post_ln_block", {"post_ln_block": a_pre_ln_block}, "oracle"),
    ("rms_norm", {"rms_norm": lambda x, gamma, eps=1e-5: ops.layer_norm(x, gamma, 0 * gamma, eps)}, "oracle"),
    ("rms_norm", {"rms_norm_backward": lambda dy, x_hat, r, gamma:
                  ops.layer_norm_backward(dy, x_hat, r, gamma)[:2]}, "derivative"),
    ("batch_norm", {"batch_norm": lambda x, gamma, beta, eps=1e-5, mean=None, var=None: ops.layer_norm(
        x, gamma, beta, eps)[0]}, "oracle"),
    ("batch_norm", {"batch_norm_backward": lambda dy, x_hat, inv_std, gamma:
                    ops.batch_norm_backward(dy, x_hat, inv_std, gamma, mean=gamma)}, "derivative"),
    ("fused_attention", {"fused_attention": lambda q, k, v, mask=None, scale=None:
                         ops.fused_attention(q, k, v, mask)}, "oracle"),
    ("norm_linear", {"norm_linear": lambda x, gamma, beta, W, b=None, eps=1e-5: (
        ops.linear(ops.layer_norm(x, gamma, 0 * beta, eps)[0], W, b), *ops.layer_norm(x, gamma, beta, eps)[1:])},
        "oracle"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "wrong", "by"), WRONG, ids=[f"{kind}-{next(iter(w))}" for kind, w, _ in WRONG])
def test_a_mistake_in_one_function_is_seen(kind, wrong, by):
    spec = SPECS[kind]
    names = (spec.function, f"{spec.function}_backward")
    implementation = SimpleNamespace(**{name: getattr(spec.ours(), name) for name in names} | wrong)
    assert accused_by(Subject(implementation, spec), spec, seeds=15).startswith(f"{by}: ")


@pytest.mark.parametrize(("how", "by"), [("no mask", "padding_is_silent"), ("in a mean", "padding_is_silent"),
                                         ("one too few", "real_tokens_count")])  # fmt: skip
def test_padding_that_is_looked_at_is_seen(how, by):
    spec = SPECS["padding_invariance"]
    assert accused_by(Subject(Padded(how), spec), spec, seeds=15).startswith(f"{by}: ")


@pytest.mark.parametrize("how", ["one cache", "itself alone", "a window"])
def test_a_cache_that_forgets_or_is_shared_is_seen(how):
    spec = SPECS["cached_model"]
    assert accused_by(Subject(Cached(how), spec), spec, seeds=15).startswith("steps_are_the_whole: ")


def test_a_mask_in_place_of_lengths_and_a_model_without_steps():
    block = adapters.PaddedBlock()
    masked = SimpleNamespace(dim=8, forward=lambda x, mask: block.forward(x, mask.sum(axis=1)))
    assert check_implementation(masked, "padding_invariance", examples=5)
    report = check_implementation(SimpleNamespace(dim=8, forward=lambda x: x), "cached_model", examples=3)
    assert "it has no `step`" in report.problem
    one = Subject(SimpleNamespace(dim=8, forward=lambda x: x, step=lambda x, cache=None: x), SPECS["cached_model"])
    assert "step did not return two things, y and the cache" in accused_by(one, SPECS["cached_model"], seeds=1)


def test_sasrec_gives_log_probabilities_of_every_next_token():
    model, ids = adapters.SASRecTokens(), np.array([[0, 7, 3], [1, 1, 2]])
    p = np.exp(model.log_probs(ids))
    assert p.shape == (2, 3, 8)
    np.testing.assert_allclose(np.sum(p, axis=-1), 1, rtol=1e-6)


def test_a_causal_model_of_padded_sequences():
    """Its last token changes only the last output."""
    block = layers.Block(layers.MultiHead(2), form="post")
    p = block.init(np.random.default_rng(0), 6)
    causal = SimpleNamespace(
        dim=6, forward=lambda x, lengths: block.forward(p, x, mask=ops.Mask(causal=True, lengths=lengths))
    )
    assert check_implementation(causal, "padding_invariance", examples=5)
