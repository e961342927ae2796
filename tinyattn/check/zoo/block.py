"""The pre-LN block, and its known bugs, some of them those of its parts."""

from ... import layers
from ...layers.mixers.multi_head import merge, split
from ...ops import attention
from .. import adapters
from . import feed_forward as wrong_network
from . import layer_norm as wrong_norm
from . import multi_head_attention as wrong_heads
from .bug import bug, planted
from .feed_forward import feed_forward
from .layer_norm import layer_norm
from .multi_head_attention import multi_head_attention


def block(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
    def norm(x, gamma, beta):
        return layer_norm(x, gamma, beta, eps)[0]

    def attend(h):
        return multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)

    def feed(h):
        return feed_forward(h, W_1, b_1, W_2, b_2)

    h_1 = norm(x, gamma_1, beta_1)
    x_1 = x + attend(h_1)
    h_2 = norm(x_1, gamma_2, beta_2)
    y = x_1 + feed(h_2)
    return y


def block_backward(
    dy, x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):
    p = adapters.tree_of(adapters.BLOCK, locals())
    _, cache = adapters.forward_of(heads, eps, "pre", p, x, mask)
    dh, ffn = layers.feed_forward_backward(p["feed_forward"], dy, cache.feed_forward)
    branch_2, norm_2 = layers.norm_backward(p["norm_2"], dh, cache.norm_2)
    dx_1 = branch_2 + dy
    dq, dkv, attended = layers.multi_head_attention_backward(p["attention"], dx_1, cache.attention)
    branch_1, norm_1 = layers.norm_backward(p["norm_1"], dq + dkv, cache.norm_1)
    dx = branch_1 + dx_1
    grads = {"norm_1": norm_1, "attention": attended, "norm_2": norm_2, "feed_forward": ffn}
    g = list(adapters.by_argument(adapters.BLOCK, grads).values())
    return dx, *g


def _of_two(q, kv, W_q, W_k, W_v, W_o, heads, mask):
    """Attention whose queries come from one input, and whose keys and values come from another."""
    parts = (split(a @ W, heads) for a, W in ((q, W_q), (kv, W_k), (kv, W_v)))
    return merge(attention(*parts, mask)[0]) @ W_o


_HEADS = ("split_no_T", "split_interleaved", "scale_dmodel", "no_scale", "heads_avg", "kv_swapped", "same_head", "one_head", "merge_no_T",
          "no_Wo", "mask_queries", "mask_ignored", "mask_inverted", "softmax_axis")  # fmt: skip
_NETWORK = ("no_activation", "gelu_instead", "activation_after", "no_b1", "no_b2", "across_positions", "b1_after_relu")
_NORM = ("axis", "all_axes", "ddof1", "eps_outside", "eps_fixed", "no_mean_subtraction", "gamma_plus1", "beta_ignored",
         "gamma_ignored")  # fmt: skip
_FROM = ((wrong_heads, _HEADS), (wrong_network, _NETWORK), (wrong_norm, _NORM))
_SILENT, _FIVE, _BOTH = "Set the branches to 0: is it the identity?", "Scale x by 5: does the branch change?", "At x + f(x) the gradient goes both ways."
_READ, _X_1, _Y, _END, _G = "What do all three projections read?", "x_1 = x + attend(h_1) -> x_1 = {}", "y = x_1 + feed(h_2) -> y = {}", "return y -> return {}", "return dx, *g -> {}; return dx, *g"
_H_1, _H_2 = "norm(x, gamma_1, beta_1) -> {}", "norm(x_1, gamma_2, beta_2) -> {}"

BUGS, make = planted(__name__, [
    bug("post_as_pre", "it is the post-LN block: LN(x + f(x))", _SILENT,
        " && ".join((_H_1.format("x"), _X_1.format("norm(x + attend(h_1), gamma_1, beta_1)"), _H_2.format("x_1"), _Y.format("norm(x_1 + feed(h_2), gamma_2, beta_2)")))),
    bug("residual_of_normed", "the residual carries LN(x): h + f(h)", "Does the residual carry x or LN(x)?", _X_1.format("h_1 + attend(h_1)") + " && " + _Y.format("h_2 + feed(h_2)")),
    bug("no_residual", "both residuals are missing", _SILENT, _X_1.format("attend(h_1)") + " && " + _Y.format("feed(h_2)")),
    bug("no_residual_1", "the first residual is missing", _SILENT, _X_1.format("attend(h_1)")),
    bug("no_residual_2", "the second residual is missing", _SILENT, _Y.format("feed(h_2)")),
    bug("residual_twice", "x is added twice", _SILENT, _X_1.format("2 * x + attend(h_1)")),
    bug("second_residual_of_x", "the second residual starts again from x", "Does the second branch's sum hold the first's?", _Y.format("x + feed(h_2)")),
    bug("ln_on_branch_output", "the branch's output is normalised, not its input", _FIVE,
        " && ".join((_H_1.format("x"), _X_1.format("x + norm(attend(h_1), gamma_1, beta_1)"), _H_2.format("x_1"), _Y.format("x_1 + norm(feed(h_2), gamma_2, beta_2)")))),
    bug("no_norm", "nothing is normalised", _FIVE, _H_1.format("x") + " && " + _H_2.format("x_1")),
    bug("one_norm", "the second norm is left out", "Scale x by 5: does the second branch change?", _H_2.format("x_1")),
    bug("first_norm_missing", "the first norm is left out", "Scale x by 5: does the first branch change?", _H_1.format("x")),
    bug("same_norm", "γ₁ and β₁ serve both norms", "Whose are γ₂ and β₂?", _H_2.format("norm(x_1, gamma_1, beta_1)")),
    bug("norms_swapped", "the two norms' parameters are exchanged", "Whose are γ₁ and β₁?", _H_2.format("norm(x_1, gamma_1, beta_1)") + " && " + _H_1.format("norm(x, gamma_2, beta_2)")),
    bug("kv_unnormed", "keys and values come from the raw x", _READ, _X_1.format("x + _of_two(h_1, x, W_q, W_k, W_v, W_o, heads, mask)")),
    bug("q_unnormed", "queries come from the raw x", _READ, _X_1.format("x + _of_two(x, h_1, W_q, W_k, W_v, W_o, heads, mask)")),
    bug("parallel", "both branches read x, side by side", "Does the second branch see what the first wrote?", _H_2.format("norm(x, gamma_2, beta_2)")),
    bug("ffn_first", "the feed-forward network comes first", "Which sublayer comes first?", _X_1.format("x + feed(h_1)") + " && " + _Y.format("x_1 + attend(h_2)")),
    bug("final_norm", "the block's output is normalised too", _SILENT, _END.format("norm(y, gamma_2, beta_2)")),
    bug("final_relu", "a ReLU follows at the end", "Can an output be negative?", _END.format("y.clip(0)")),
    bug("branch_halved", "each branch is multiplied by ½", "What does each branch add?", _X_1.format("x + attend(h_1) / 2") + " && " + _Y.format("x_1 + feed(h_2) / 2")),
    *((known, {known.name: ""}) for zoo, names in _FROM for name in names for known in zoo.BUGS if known.name == name),
    bug("residual_gradient_missing", "the gradient comes through the branches alone", _BOTH, "branch_2 + dy -> branch_2 && branch_1 + dx_1 -> branch_1"),
    bug("residual_gradient_twice", "the residual's gradient is added twice", "At x + f(x) the gradient goes both ways, once each.", "branch_2 + dy -> branch_2 + 2 * dy && branch_1 + dx_1 -> branch_1 + 2 * dx_1"),
    bug("branch_gradient_missing", "the gradient comes through the residuals alone", _BOTH, "branch_2 + dy -> 0 * branch_2 + dy && branch_1 + dx_1 -> 0 * branch_1 + dx_1"),
    bug("dnorms_swapped", "the gradients of the two norms are exchanged", "Which norm was read by which branch?", _G.format("g[0], g[1], g[6], g[7] = g[6], g[7], g[0], g[1]")),
    bug("dbeta_missing", "the shifts receive no gradient", "Move β₁ a little: does the loss move?", _G.format("g[1], g[7] = 0 * g[1], 0 * g[7]")),
    bug("db_missing", "the biases receive no gradient", "Move b₂ a little: does the loss move?", _G.format("g[9], g[11] = 0 * g[9], 0 * g[11]")),
    bug("dgamma_halved", "the gains receive half their gradient", "Compare dγ₁ with differences.", _G.format("g[0], g[6] = g[0] / 2, g[6] / 2")),
], *((zoo, {name: name for name in names}) for zoo, names in _FROM))  # fmt: skip
