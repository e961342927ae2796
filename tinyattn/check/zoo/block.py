"""The pre-LN block, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from ... import layers
from ...layers.mixers.multi_head import merge, split
from ...ops import attention
from .. import adapters
from . import feed_forward as wrong_network
from . import layer_norm as wrong_norm
from . import multi_head_attention as wrong_heads
from .bug import Bug

_HEADS = ("split_no_T", "split_interleaved", "scale_dmodel", "no_scale", "heads_avg", "kv_swapped", "same_head", "one_head", "merge_no_T",
          "no_Wo", "mask_queries", "mask_ignored", "mask_inverted", "softmax_axis")  # fmt: skip
_NETWORK = ("no_activation", "gelu_instead", "activation_after", "no_b1", "no_b2", "across_positions", "b1_after_relu")
_NORM = ("axis", "all_axes", "ddof1", "eps_outside", "eps_fixed", "no_mean_subtraction", "gamma_plus1", "beta_ignored",
         "gamma_ignored")  # fmt: skip
_FROM = [(wrong_heads, _HEADS), (wrong_network, _NETWORK), (wrong_norm, _NORM)]

BUGS = [
    Bug("post_as_pre", "it is the post-LN block: LN(x + f(x))", "Set the branches to 0: is it the identity?"),
    Bug("residual_of_normed", "the residual carries LN(x): h + f(h)", "Does the residual carry x or LN(x)?"),
    Bug("no_residual", "both residuals are missing", "Set the branches to 0: is it the identity?"),
    Bug("no_residual_1", "the first residual is missing", "Set the branches to 0: is it the identity?"),
    Bug("no_residual_2", "the second residual is missing", "Set the branches to 0: is it the identity?"),
    Bug("residual_twice", "x is added twice", "Set the branches to 0: is it the identity?"),
    Bug("second_residual_of_x", "the second residual starts again from x", "Does the second branch's sum hold the first's?"),
    Bug("ln_on_branch_output", "the branch's output is normalised, not its input", "Scale x by 5: does the branch change?"),
    Bug("no_norm", "nothing is normalised", "Scale x by 5: does the branch change?"),
    Bug("one_norm", "the second norm is left out", "Scale x by 5: does the second branch change?"),
    Bug("first_norm_missing", "the first norm is left out", "Scale x by 5: does the first branch change?"),
    Bug("same_norm", "γ₁ and β₁ serve both norms", "Whose are γ₂ and β₂?"),
    Bug("norms_swapped", "the two norms' parameters are exchanged", "Whose are γ₁ and β₁?"),
    Bug("kv_unnormed", "keys and values come from the raw x", "What do all three projections read?"),
    Bug("q_unnormed", "queries come from the raw x", "What do all three projections read?"),
    Bug("parallel", "both branches read x, side by side", "Does the second branch see what the first wrote?"),
    Bug("ffn_first", "the feed-forward network comes first", "Which sublayer comes first?"),
    Bug("final_norm", "the block's output is normalised too", "Set the branches to 0: is it the identity?"),
    Bug("final_relu", "a ReLU follows at the end", "Can an output be negative?"),
    Bug("branch_halved", "each branch is multiplied by ½", "What does each branch add?"),
    *(next(b for b in module.BUGS if b.name == name) for module, names in _FROM for name in names),
    Bug("residual_gradient_missing", "the gradient comes through the branches alone", "At x + f(x) the gradient goes both ways."),
    Bug("residual_gradient_twice", "the residual's gradient is added twice", "At x + f(x) the gradient goes both ways, once each."),
    Bug("branch_gradient_missing", "the gradient comes through the residuals alone", "At x + f(x) the gradient goes both ways."),
    Bug("dnorms_swapped", "the gradients of the two norms are exchanged", "Which norm was read by which branch?"),
    Bug("dbeta_missing", "the shifts receive no gradient", "Move β₁ a little: does the loss move?"),
    Bug("db_missing", "the biases receive no gradient", "Move b₂ a little: does the loss move?"),
    Bug("dgamma_halved", "the gains receive half their gradient", "Compare dγ₁ with differences."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> block and block_backward with these bugs."""
    heads_of = wrong_heads.make(frozenset(bugs) & set(_HEADS))
    network = wrong_network.make(frozenset(bugs) & set(_NETWORK))
    norms = wrong_norm.make(frozenset(bugs) & set(_NORM))

    def block(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
        gamma_2, beta_2 = (gamma_1, beta_1) if "same_norm" in bugs else (gamma_2, beta_2)
        if "norms_swapped" in bugs:
            gamma_1, beta_1, gamma_2, beta_2 = gamma_2, beta_2, gamma_1, beta_1

        def ln(x, gamma, beta):
            return norms.layer_norm(x, gamma, beta, eps)[0]

        def attend(h, raw):
            if not {"kv_unnormed", "q_unnormed"} & bugs:
                return heads_of.multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)
            q, kv = (h, raw) if "kv_unnormed" in bugs else (raw, h)
            parts = (split(a @ W, heads) for a, W in ((q, W_q), (kv, W_k), (kv, W_v)))
            return merge(attention(*parts, mask)[0]) @ W_o

        def feed(h):
            return network.feed_forward(h, W_1, b_1, W_2, b_2)

        first = (lambda h, raw: feed(h)) if "ffn_first" in bugs else attend
        second = (lambda h: attend(h, h)) if "ffn_first" in bugs else feed
        half = x.dtype.type(0.5 if "branch_halved" in bugs else 1)
        twice = x.dtype.type(2 if "residual_twice" in bugs else 1)
        if "post_as_pre" in bugs:
            x_1 = ln(x + first(x, x), gamma_1, beta_1)
            return ln(x_1 + second(x_1), gamma_2, beta_2)
        if "ln_on_branch_output" in bugs:
            x_1 = x + ln(first(x, x), gamma_1, beta_1)
            return x_1 + ln(second(x_1), gamma_2, beta_2)
        h = x if {"no_norm", "first_norm_missing"} & bugs else ln(x, gamma_1, beta_1)
        carried = h if "residual_of_normed" in bugs else x * (0 if {"no_residual", "no_residual_1"} & bugs else 1)
        x_1 = twice * carried + half * first(h, x)
        source = x if "parallel" in bugs else x_1
        h = source if {"no_norm", "one_norm"} & bugs else ln(source, gamma_2, beta_2)
        carried = h if "residual_of_normed" in bugs else x_1 * (0 if {"no_residual", "no_residual_2"} & bugs else 1)
        carried = x if "second_residual_of_x" in bugs else carried
        y = carried + half * second(h)
        y = ln(y, gamma_2, beta_2) if "final_norm" in bugs else y
        return np.maximum(y, 0) if "final_relu" in bugs else y

    def block_backward(
        dy, x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
    ):
        p = adapters.parameters(gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2)
        _, cache = adapters.forward_of(heads, eps, "pre", p, x, mask)
        carried = x.dtype.type(0 if "residual_gradient_missing" in bugs else 2 if "residual_gradient_twice" in bugs else 1)
        through = x.dtype.type(0 if "branch_gradient_missing" in bugs else 1)
        dh, ffn = layers.feed_forward_backward(p["feed_forward"], dy, cache.feed_forward)
        dbranch, norm_2 = layers.norm_backward(p["norm_2"], dh, cache.norm_2)
        dx = through * dbranch + carried * dy
        dq, dkv, attended = layers.multi_head_attention_backward(p["attention"], dx, cache.attention)
        dbranch, norm_1 = layers.norm_backward(p["norm_1"], dq + dkv, cache.norm_1)
        dx = through * dbranch + carried * dx
        grads = {"norm_1": norm_1, "attention": attended, "norm_2": norm_2, "feed_forward": ffn}
        g = list(adapters.flat_gradients(grads))
        if "dnorms_swapped" in bugs:
            g[0], g[1], g[6], g[7] = g[6], g[7], g[0], g[1]
        for name, places, factor in (("dbeta_missing", (1, 7), 0), ("db_missing", (9, 11), 0), ("dgamma_halved", (0, 6), 0.5)):
            if name in bugs:
                for i in places:
                    g[i] = g[i] * g[i].dtype.type(factor)
        return dx, *g

    return SimpleNamespace(block=block, block_backward=block_backward)

