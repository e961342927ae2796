"""Linear recurrences."""

from .slip import slip

_STEP = "h = a[t] * h + b[t]"

ASSOCIATIVE_SCAN = (
    slip("exclusive", "every state is that before its token", "Which tokens does h_1 depend on?", (_STEP, f"before = h\n        {_STEP}"), ("y[t] = h", "y[t] = before")),
    slip("h0_undecayed", "the initial state is added without its decay", "h_1 = a_1 h_0 + b_1.", ("a[t] * h", "(a[t] if t else 1) * h")),
    slip("no_decay", "the states are sums: nothing is decayed but the initial state", "h_t = a_t h_{t-1} + b_t.", ("a[t] * h", "(1 if t else a[t]) * h")),
    slip("exclusive_zero", "every state is that before its token, and the first is 0", "Which tokens does h_1 depend on?", (_STEP, f"before = h if t else 0 * h\n        {_STEP}"), ("y[t] = h", "y[t] = before")),
    slip("gated", "the input is multiplied by 1 - a", "h_t = a_t h_{t-1} + b_t: what multiplies b_t?", ("+ b[t]", "+ (1 - a[t]) * b[t]")),
    slip("decay_of_next", "a state is decayed by the a of the token after", "Which decay stands between h_1 and h_2?", ("a[t] * h", "a[min(t + 1, len(a) - 1)] * h")),
    slip("doubling_order", "two maps are combined in the wrong order: a b' + b' instead of a' b + b'", "First (a, b), then (a', b'): which a multiplies which b?", (_STEP, "h = h + np.prod(a[:t], axis=0) * b[t]")),
    slip("backward_decay", "the gradient is decayed by a_t, not by a_{t+1}", "h_{t+1} = a_{t+1} h_t + b_{t+1}: what comes back to h_t?",
         ("later = xp.concatenate([a[..., 1:, :], xp.zeros_like(a[..., :1, :])], axis=-2)", "later = a")),
    slip("da_of_h", "da multiplies by the state after the step, not before it", "a_t multiplies h_{t-1}.", ("G * before, G", "G * h, G")),
)  # fmt: skip
SELECTIVE_SCAN = (
    slip("delta_not_in_B", "the input is not multiplied by Δ", "Δ = 0: does a token still enter?", ("(delta[t] * x[t])", "x[t]")),
    slip("delta_not_in_A", "the decay is exp(A), without Δ", "Δ = 0: does the state still decay?", ("np.exp(z) * h", "np.exp(A) * h")),
    slip("old_state_read", "the output reads the state before its token", "Does y_t see x_t through the state?", ("h = np.exp(z) * h", "old = h\n        h = np.exp(z) * h"), ("* h).sum", "* old).sum")),
    slip("B_C_exchanged", "B and C are exchanged", "Which of the two writes, and which reads?", ("y = np.zeros(x.shape)", "B, C = (C, B)\n    y = np.zeros(x.shape)")),
    slip("A_of_log", "A is taken for log(-A): the decay is exp(-Δ exp(A))", "Is A an argument, or its logarithm?", ("[..., None, :] * A", "[..., None, :] * -np.exp(A)")),
    slip("softplus", "Δ goes through a softplus first", "Is Δ an argument, or what a softplus makes Δ of?", ("y = np.zeros(x.shape)", "delta = np.log1p(np.exp(delta))\n    y = np.zeros(x.shape)")),
)  # fmt: skip
WKV = (
    slip("decay_now", "a token's weight decays one step too far", "How often has the last token's weight decayed?", ("(t - 1 - s) * w[c]", "(t - s) * w[c]")),
    slip("other_maximum", "the maximum that is kept is not the one that was subtracted", "Which exponent do the sums share after a step?", ("top = now", "top = np.maximum(top, k[t])")),
    slip("bonus_missing", "the bonus u of the present token is missing, or every token has it", "Which token has u?", ("k[*place, t, c] + u[c]", "k[*place, t, c]")),
    slip("present_missing", "the present token is left out of the mean", "Does y_t see v_t?", (" + [float(k[*place, t, c] + u[c])]", ""), ("for s in range(t + 1)]", "for s in range(t)]")),
    slip("present_twice", "the present token counts twice, with the bonus u and without it", "When does the token enter the state?",
         ("[float(k[*place, t, c] + u[c])]", "[float(k[*place, t, c]), float(k[*place, t, c] + u[c])]"), ("for s in range(t + 1)]", "for s in [*range(t + 1), t]]")),
    slip("sum_undecayed", "the sum of the weights, which divides, does not decay", "Which two sums decay?",
         ("softmax_mean(logits, values)", "sum((math.exp(z) * value for z, value in zip(logits, values))) / (sum((math.exp(k[*place, s, c]) for s in range(t)))"
          " + math.exp(k[*place, t, c] + u[c]) + (math.exp(size0[*place, c]) if size0 is not None else 0.0))")),
    slip("not_divided", "the weighted sum is not divided by the sum of the weights", "Pass equal values: is y that value?", ("softmax_mean(logits, values)", "sum((math.exp(z) * value for z, value in zip(logits, values)))")),
    slip("w_of_log", "the decay is exp(-exp(w)), not exp(-w)", "Is w an argument, or its logarithm?", ("(t - 1 - s) * w[c]", "(t - 1 - s) * math.exp(w[c])")),
    slip("decay_sign", "the past grows where it should decay", "w is at least 0: is it added, or subtracted?", ("y = np.zeros(k.shape)", "w = -w\n    y = np.zeros(k.shape)")),
    slip("no_decay", "nothing decays", "What is a token's weight 100 steps later?", ("y = np.zeros(k.shape)", "w = 0 * w\n    y = np.zeros(k.shape)")),
    slip("u_times_k", "the bonus u multiplies k", "Is u added to k, or a factor?", ("k[*place, t, c] + u[c]", "k[*place, t, c] * u[c]")),
)  # fmt: skip
