"""Recurrences."""

from .slip import slip

_NO_STATE = "no step sees the state before it", "What goes into the second step besides its token?"
_TOKEN_AFTER = slip("token_after", "a step reads the token after its own", "Which token does the first step read, and which the second?", ("x[t] @ W", "x[min(t + 1, len(x) - 1)] @ W"))  # fmt: skip
_CARRIED = "h0_each_step", "every step starts from the initial state: the new one is not handed on", "Which variable does the next step read?"
_BEFORE = "state_before", "an output is the state before its token", "Is a state stored before the step, or after it?"
_DU = "dU_of_h", "dU multiplies by the state after the step, not before it", "Which state was multiplied by U?"
_B_FIRST = "b_first", "the bias is added at the first step alone", "Is b in the sum of every step?"

LSTM = (
    slip("h_not_carried", "the state h is not handed on: every step reads the first h", "Which two things does a step hand on?", ("h = o * np.tanh(c)\n        y[t] = h", "y[t] = o * np.tanh(c)")),
    slip("c_not_carried", "the cell c is not handed on: every step reads the first c", "Which two things does a step hand on?", ("c = (f", "new = (f"), ("np.tanh(c)", "np.tanh(new)")),
    slip(*_BEFORE, ("a = x[t]", "before = h\n        a = x[t]"), ("y[t] = h", "y[t] = before")),
    slip("forget_sum", "the forget gate acts on the new part as well: f (c + i g)", "What is forgotten: the old cell, or the sum?", ("(f * c if len(b) == 4 * H else c) + i * g", "(f if len(b) == 4 * H else 1) * (c + i * g)")),
    slip("forget_inverted", "the cell is multiplied by 1 - f, not by f", "Is a forget gate of 1 open or closed?", ("f * c if", "(1 - f) * c if")),
    slip("no_input_gate", "the candidate enters ungated", "What keeps a token out of the cell?", ("+ i * g", "+ g")),
    slip("k_not_carried", "the gradient of a cell is not handed on to the cell before it", "c_t = f c_{t-1} + ...: what comes back to c_{t-1}?", ("k = k + s * shown[t]", "k = s * shown[t]")),
    slip("s_not_carried", "the gradient of a state is not handed on through U to the state before it", "h_{t-1} is read by all gates of step t.", ("s = dh[t] + back", "s = dh[t]")),
    slip(*_DU, ("dU = states.reshape", "dU = h.reshape")),
    slip("coupled", "the input gate is 1 - f: its own columns are not used", "Which gate decides what enters?", ("+ i * g", "+ (1 - f if len(b) == 4 * H else i) * g")),
    slip("forget_of_input", "the forget gate is 1 - i: its own columns are not used", "Which gate decides what is forgotten?", ("f * c if", "(1 - i) * c if")),
    slip("cell_clipped", "the cell is cut at ±1", "Which range may a cell have?", ("h = o * np.tanh(c)", "c = np.clip(c, -1, 1)\n        h = o * np.tanh(c)")),
    slip("tanh_in_cell", "the next step reads tanh(c) as its cell", "c is a sum: does tanh act on c, or only on the output?", ("h = o * np.tanh(c)", "c = np.tanh(c)\n        h = o * c")),
    slip("shown_ungated", "the output is tanh(c), and only the next step reads o ⊙ tanh(c)", "What is stored as output: before the gate o, or after it?", ("y[t] = h", "y[t] = np.tanh(c)")),
    slip("forget_bias", "1 is added to the forget gate's sum", "Which term opens the forget gate, besides the bias?", ("_sigmoid(a[..., H:2 * H])", "_sigmoid(a[..., H:2 * H] + 1)")),
    slip(*_B_FIRST, ("h @ U + b", "h @ U + b * (t == 0)")),
    slip("no_state", *_NO_STATE, ("y[t] = h", "y[t] = h\n        h, c = (0 * h, 0 * c)")),
    _TOKEN_AFTER,
)  # fmt: skip
GRU = (
    slip("reset_on_all", "the reset gate multiplies the token's part as well", "What is reset: the state, or the token?", ("xn + r * hn", "r * (xn + hn)")),
    slip("reset_on_token", "the reset gate multiplies the token's part, not the state's", "What is reset: the state, or the token?", ("xn + r * hn", "r * xn + hn")),
    slip("reset_outside", "the reset gate multiplies the candidate, outside of tanh", "What is reset: the state, or the candidate?", ("np.tanh(xn + r * hn)", "r * np.tanh(xn + hn)")),
    slip("no_reset", "the reset gate is not used", "Where does r stand in the candidate?", ("r * hn", "hn")),
    slip("z_exchanged", "z weighs the candidate, and 1 - z the old state", "Which of the two does an update gate of 1 keep?", ("(1 - z) * n + z * h", "z * n + (1 - z) * h")),
    slip(*_CARRIED, ("h = (1 - z) * n + z * h\n        y[t] = h", "y[t] = (1 - z) * n + z * h")),
    slip(*_BEFORE, ("h = (1 - z)", "y[t] = h\n        h = (1 - z)"), ("z * h\n        y[t] = h", "z * h")),
    slip("state_path_missing", "the gradient that reaches the old state through z is missing", "z ⊙ h_{t-1}: what comes back along z?", ("back += g * z[t]", "pass")),
    slip("dz_sign", "the gradient of z has the wrong sign", "(1 - z) n + z h: what is its derivative by z?", ("(before - new) * (z", "(new - before) * (z")),
    slip(*_DU, ("dU = before.reshape", "dU = h.reshape")),
    slip("residual", "the old state is added once more", "(1 - z) n + z h is a mean.", ("(1 - z) * n + z * h", "n + h")),
    slip("c_outside_reset", "the bias c of the candidate is added outside of the reset gate", "r ⊙ (h U + c): does r see c?", ("r * hn", "r * (hn - c[2 * len(U):]) + c[2 * len(U):]")),
    slip(*_B_FIRST, ("x[t] @ W + b", "x[t] @ W + b * (t == 0)")),
    slip("no_state", *_NO_STATE, ("y[t] = h", "y[t] = h\n        h = 0 * h")),
    _TOKEN_AFTER,
)  # fmt: skip
RNN = (
    slip("residual", "the old state is added to the new one", "Which range may a state have?", ("h = np.tanh(", "h = h + np.tanh(")),
    slip(*_CARRIED, ("h = np.tanh(x[t] @ W + h @ U + b)\n        y[t] = h", "y[t] = np.tanh(x[t] @ W + h @ U + b)")),
    slip(*_BEFORE, ("h = np.tanh(", "before = h\n        h = np.tanh("), ("y[t] = h", "y[t] = before")),
    slip("carry_missing", "the gradient of a state is not handed on to the state before it", "h_{t-1} U is in step t's sum.", ("(dh[t] + back)", "dh[t]")),
    slip("slope", "tanh is differentiated as a sigmoid, h (1 - h)", "tanh' = 1 - tanh².", ("(1 - h[t] ** 2)", "(h[t] * (1 - h[t]))")),
    slip(*_DU, ("before[t].T", "h[t].T")),
    slip("raw_carried", "the sum before tanh is handed on to the next step", "What does the next step read: before tanh, or after it?",
         ("h = np.tanh(x[t] @ W + h @ U + b)", "h = x[t] @ W + h @ U + b"), ("y[t] = h", "y[t] = np.tanh(h)")),
    slip("raw_shown", "the output is the sum before tanh", "Where does tanh act: on the output, too?", ("h = np.tanh(x[t] @ W + h @ U + b)", "u = x[t] @ W + h @ U + b\n        h = np.tanh(u)"), ("y[t] = h", "y[t] = u")),
    slip("leaky", "a state is the mean of the old one and of tanh", "What is left of the old state, besides U?", ("np.tanh(x[t] @ W + h @ U + b)", "(np.tanh(x[t] @ W + h @ U + b) + h) / 2")),
    slip("relu", "relu stands in place of tanh", "Which function squashes a state?", ("np.tanh(x[t] @ W + h @ U + b)", "np.maximum(x[t] @ W + h @ U + b, 0)")),
    slip(*_B_FIRST, ("h @ U + b", "h @ U + b * (t == 0)")),
    slip("no_state", *_NO_STATE, ("y[t] = h", "y[t] = h\n        h = 0 * h")),
    _TOKEN_AFTER,
)  # fmt: skip
