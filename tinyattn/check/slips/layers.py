"""Norms, SwiGLU, rotary positions, attention, convolution."""

from .slip import slip

_MEAN_SQUARE, _ROOT = "np.mean(x ** 2, axis=-1, keepdims=True)", "np.sqrt(np.mean(x ** 2, axis=-1, keepdims=True) + eps)"
_REPEATED = "k, v = (np.repeat(k, heads // kv_heads, axis=-3), np.repeat(v, heads // kv_heads, axis=-3))"

RMS_NORM = (
    slip("norm_only", "it divides by the length of a token, √Σx², without the mean", "Double the width: does the size of y change?", (_MEAN_SQUARE, "np.sum(x ** 2, axis=-1, keepdims=True)")),
    slip("all_axes", "the mean square is taken over all tokens at once", "Does one token change with another?", (_MEAN_SQUARE, "np.mean(x ** 2)")),
    slip("no_projection", "r is treated as a constant in the gradient", "r depends on x, too: which term does that add?", ("dx -= x_hat * (row_sum(along_x_hat, gamma) / dy.shape[-1])", "pass")),
    slip("power_of_r", "the second term of dx has a wrong power of r", "d(1/√u) = -1/2 u^(-3/2) du: how often does r appear?", ("dx -= x_hat * (row_sum(along_x_hat, gamma) / dy.shape[-1])", "dx -= x_hat / r * (row_sum(along_x_hat, gamma) / dy.shape[-1])")),
    slip("centred", "the mean is subtracted, as LayerNorm does", "Add 5 to a token: does the result change?", ("return x /", "x = x - np.mean(x, axis=-1, keepdims=True)\n    return x /")),
    slip("centred_above", "the mean is subtracted from x, and not in the mean square", "Add 5 to a token: does the result change?", ("return x /", "return (x - np.mean(x, axis=-1, keepdims=True)) /")),
    slip("one_plus_gamma", "the gain is 1 + γ, as in Gemma", "γ = 1 should change nothing.", ("* gamma", "* (1 + gamma)")),
    slip("square_of_mean", "it is the square of the mean, not the mean of the squares", "RMS of (3, -3)?", (_MEAN_SQUARE, "np.mean(x, axis=-1, keepdims=True) ** 2")),
    slip("eps_last", "eps is added to the result", "Where does eps stand?", (" + eps) * gamma", ") * gamma + eps")),
    slip("mean_abs", "it divides by the mean of |x|, not by the root of the mean square", "RMS of (3, 4)?", (_ROOT, "(np.mean(abs(x), axis=-1, keepdims=True) + eps)")),
    slip("largest", "it divides by the largest |x|", "RMS of (3, 4)?", (_ROOT, "(np.max(abs(x), axis=-1, keepdims=True) + eps)")),
    slip("over_sequence", "the mean square is taken over all tokens of a sequence", "Does one token change with another?", (_MEAN_SQUARE, "np.mean(x ** 2, axis=(-1, -2)[:x.ndim], keepdims=True)")),
    slip("mean_subtracted", "the mean of the gradient is taken out, as in LayerNorm", "RMSNorm does not centre: is the mean of dx 0?", ("dx = dy * gamma", "dx = dy * gamma - (dy * gamma).mean(-1, keepdims=True)")),
    slip("gradient_without_gamma", "γ is missing in dx", "y = x_hat ⊙ γ: what does dy meet first?", ("dx = dy * gamma", "dx = dy * 1"), ("row_sum(along_x_hat, gamma)", "row_sum(along_x_hat, gamma * 0 + 1)")),
    slip("dgamma_of_x", "dγ is summed over dy ⊙ x, not dy ⊙ x_hat", "What multiplies γ in the forward?", ("column_sum(along_x_hat)", "column_sum(along_x_hat / r)")),
)  # fmt: skip
BATCH_NORM = (
    slip("unbiased", "the variance divides by n - 1", "Σ (x - mean)² / n: which n?", ("rows.var(axis=0)", "rows.var(axis=0, ddof=min(1, len(rows) - 1))")),
    slip("mean_constant", "the mean is treated as a constant in the gradient", "The mean moves with x, too.", ("dx = dy - dbeta / n", "dx = dy * 1")),
    slip("variance_constant", "the variance is treated as a constant in the gradient", "The variance moves with x, too.", ("dx -= x_hat * (dgamma / n)", "pass")),
    slip("given_ignored", "the mean and the variance that are passed are not used", "In evaluation, whose statistics?", (" if mean is None else mean", ""), (" if var is None else var", "")),
    slip("var_as_std", "`var` is taken for a standard deviation", "Is it var, or its root?", ("else var", "else var ** 2")),
    slip("per_token", "mean and variance are over a token's features, as in LayerNorm", "Over which axes are the statistics of a feature?",
         ("rows.mean(axis=0)", "x.mean(axis=-1, keepdims=True)"), ("rows.var(axis=0)", "x.var(axis=-1, keepdims=True)")),
    slip("dgamma_of_x", "dγ is summed over dy ⊙ x, or dy ⊙ (x - mean), not dy ⊙ x_hat", "What multiplies γ in the forward?",
         ("column_sum(dy * x_hat)", "column_sum(dy * x_hat) / inv_std"), ("(dgamma / n)", "(dgamma * inv_std / n)")),
)  # fmt: skip
SWIGLU = (
    slip("glu", "the gate is a sigmoid, as in GLU, not a SiLU", "SiLU(a) = a σ(a).", ("a * _sigmoid(a)", "_sigmoid(a)")),
    slip("reglu", "the gate is a relu, as in ReGLU, not a SiLU", "SiLU(a) = a σ(a): is it 0 below 0?", ("a * _sigmoid(a)", "np.maximum(a, 0)")),
    slip("geglu", "the gate is a GELU, as in GEGLU, not a SiLU", "SiLU(a) = a σ(a).", ("v / (1 + math.exp(-v))", "0.5 * v * (1 + math.erf(v / math.sqrt(2)))")),
    slip("geglu_tanh", "the gate is a GELU in its tanh form, not a SiLU", "SiLU(a) = a σ(a).", ("a * _sigmoid(a)", "0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a ** 3)))")),
)  # fmt: skip
ROTARY = (
    slip("cos_for_sin", "cos and sin are exchanged", "At an angle of 0, does anything move?", ("y = np.zeros(x.shape)", "cos, sin = (sin, cos)\n    y = np.zeros(x.shape)")),
    slip("half_missing", "the halves are not negated when they are exchanged: both sines have a plus", "Which of the two terms has a minus?", ("even * cos - odd * sin", "even * cos + odd * sin")),
    slip("one_position", "all tokens are turned by the angles of the first position", "Does the angle grow with the position?", ("y = np.zeros(x.shape)", "cos, sin = (cos[..., :1, :], sin[..., :1, :])\n    y = np.zeros(x.shape)")),
    slip("one_frequency", "all pairs are turned by the angle of the first pair", "Does each pair have its own angle?", ("y = np.zeros(x.shape)", "cos, sin = (cos[..., :1], sin[..., :1])\n    y = np.zeros(x.shape)")),
    slip("not_turned_back", "the gradient is turned the same way as the forward", "Rᵀ, or R?", ("cos, -sin", "cos, sin")),
    slip("other_way", "it turns the other way round: the minus is on the wrong sine", "At an angle of 90°, where does (1, 0) go?",
         ("even * cos - odd * sin", "even * cos + odd * sin"), ("even * sin + odd * cos", "odd * cos - even * sin")),
    slip("in_place", "the second feature is computed from the first one's new value", "Which numbers do both lines read?", ("even * sin", "y[..., 0::2] * sin")),
    slip("not_interleaved", "the turned pairs are written as two halves, not side by side", "Where do the two numbers of a pair stand?",
         ("y[..., 0::2] =", "y[..., :x.shape[-1] // 2] ="), ("y[..., 1::2] =", "y[..., x.shape[-1] // 2:] =")),
    slip("mixed_pairs", "pairs are read as halves and written side by side", "Which two features are one pair?", ("(x[..., 0::2], x[..., 1::2])", "np.split(x, 2, axis=-1)")),
    slip("pair_exchanged", "the two numbers of a turned pair are exchanged", "At an angle of 0, does anything move?", ("return y", "return y.reshape(*y.shape[:-1], -1, 2)[..., ::-1].reshape(y.shape)")),
    slip("one_sign_back", "one sine of the gradient has the wrong sign", "Rᵀ has two off-diagonal entries.", ("y[..., 1::2] = sin * even + cos * odd", "y[..., 1::2] = cos * odd - sin * even")),
)  # fmt: skip
ATTENTION = (
    slip("scaled_after", "the weights are scaled, not the scores", "Do the weights of a query sum to 1?", ("s = q @ k.swapaxes(-1, -2) * scale", "s = q @ k.swapaxes(-1, -2)"), ("axis=-1)", "axis=-1) * scale")),
)  # fmt: skip
GROUPED_QUERY_ATTENTION = (
    slip("interleaved", "head h reads group h % kv_heads: the keys are tiled, not repeated", "Which group does head 1 read?", (_REPEATED, "k, v = (np.concatenate([k] * (heads // kv_heads), axis=-3), np.concatenate([v] * (heads // kv_heads), axis=-3))")),
    slip("keys_interleaved", "the keys are tiled where the values are repeated", "Do keys and values of a head come from one group?", ("np.repeat(k, heads // kv_heads, axis=-3)", "np.concatenate([k] * (heads // kv_heads), axis=-3)")),
    slip("values_interleaved", "the values are tiled where the keys are repeated", "Do keys and values of a head come from one group?", ("np.repeat(v, heads // kv_heads, axis=-3)", "np.concatenate([v] * (heads // kv_heads), axis=-3)")),
    slip("merged_untransposed", "the heads are reshaped without moving their axis back", "Print the shape before the last reshape: (h, n, d), or (n, h, d)?", ("(p @ v).swapaxes(-2, -3)", "(p @ v)")),
    slip("last_group", "all heads read the last group", "Which columns of W_k are never read?", (_REPEATED, "k, v = (k[..., -1:, :, :], v[..., -1:, :, :])")),
    slip("one_group", "all heads read the first group", "Which columns of W_k are never read?", (_REPEATED, "k, v = (k[..., :1, :, :], v[..., :1, :, :])")),
    slip("groups_averaged", "all heads read the mean of the groups", "Which group does head 1 read?", (_REPEATED, "k, v = (k.mean(axis=-3, keepdims=True), v.mean(axis=-3, keepdims=True))")),
    slip("scale_of_model", "scores are divided by the root of the whole width D, not of a head's", "Over how many numbers does a score sum?", ("np.sqrt(q.shape[-1])", "np.sqrt(D)")),
    slip("scale_of_groups", "scores are divided by the root of the width of all groups", "Over how many numbers does a score sum?", ("np.sqrt(q.shape[-1])", "np.sqrt(q.shape[-1] * kv_heads)")),
    slip("scale_of_heads", "scores are divided by the root of the number of heads", "Over how many numbers does a score sum?", ("np.sqrt(q.shape[-1])", "np.sqrt(heads)")),
)  # fmt: skip
CONV1D = (
    slip("flipped", "the kernel is flipped: a convolution, not a cross-correlation", "Which tap meets the first token?", ("* W[j, l, i, o]", "* W[j, W.shape[1] - 1 - l, i, o]")),
    slip("last_tap", "the kernel's last tap is not used", "How many taps has the kernel?", ("np.ndindex(W.shape[:3])", "np.ndindex(W.shape[0], max(W.shape[1] - 1, 1), W.shape[2])")),
    slip("dilation_ignored", "the dilation is not used", "How far apart are two taps?", ("reach = [(K - 1) * dilation", "dilation = 1\n    reach = [(K - 1) * dilation")),
    slip("causal_future", "with 'causal' the zeros stand at the end: a token sees later ones", "On which side do the zeros go?", ("'causal': r}", "'causal': 0}")),
    slip("causal_is_same", "'causal' is padded on both sides", "On which side do the zeros go?", ("'causal': r}", "'causal': r // 2}")),
    slip("same_to_the_left", "'same' has its odd zero on the other side", "With an even kernel, which side gets one zero more?", ("'same': r // 2", "'same': r - r // 2")),
    slip("edge", "the ends are padded with the first and last token, not with zeros", "What is x beyond its ends?",
          ("if 0 <= row < x.shape[-3] and 0 <= column < x.shape[-2]:", "if True:"), ("x[*lead, row, column, i]", "x[*lead, row, min(max(column, 0), x.shape[-2] - 1), i]")),
    slip("wrapped", "the ends are padded with the other end: a circular convolution", "What is x beyond its ends?",
          ("if 0 <= row < x.shape[-3] and 0 <= column < x.shape[-2]:", "if True:"), ("x[*lead, row, column, i]", "x[*lead, row, column % x.shape[-2], i]")),
    slip("dW_flipped", "dW is flipped", "Which tap met the first token?", ("dW[place] =", "dW[(W.shape[0] - 1 - place[0], *place[1:])] =")),
    slip("dx_flipped", "dx uses the kernel in the order of the forward, flipped", "Which tap carried token s to output t?", ("dy @ W[place].T", "dy @ W[(W.shape[0] - 1 - place[0], *place[1:])].T")),
)  # fmt: skip
