"""Recurrences."""

from .slip import slip

_NO_STATE = "no step sees the state before it", "What goes into the second step besides its token?"
_TOKEN_AFTER = slip("token_after", "a step reads the token after its own", "Which token does the first step read, and which the second?",
                    ("x[t] @ W", "x[min(t + 1, len(x) - 1)] @ W"))  # fmt: skip
_B_FIRST = "b_first", "the bias is added at the first step alone", "Is b in the sum of every step?"

LSTM = (
    slip("coupled", "the input gate is 1 - f: its own columns are not used", "Which gate decides what enters?",
         ("+ i * g", "+ (1 - f if len(b) == 4 * H else i) * g")),
    slip("forget_of_input", "the forget gate is 1 - i: its own columns are not used", "Which gate decides what is forgotten?",
         ("f * c if", "(1 - i) * c if")),
    slip("cell_clipped", "the cell is cut at ±1", "Which range may a cell have?",
         ("h = o * np.tanh(c)", "c = np.clip(c, -1, 1)\n        h = o * np.tanh(c)")),
    slip("tanh_in_cell", "the next step reads tanh(c) as its cell", "c is a sum: does tanh act on c, or only on the output?",
         ("h = o * np.tanh(c)", "c = np.tanh(c)\n        h = o * c")),
    slip("shown_ungated", "the output is tanh(c), and only the next step reads o ⊙ tanh(c)", "What is stored as output: before the gate o, or after it?",
         ("y[t] = h", "y[t] = np.tanh(c)")),
    slip("forget_bias", "1 is added to the forget gate's sum", "Which term opens the forget gate, besides the bias?",
         ("_sigmoid(a[..., H:2 * H])", "_sigmoid(a[..., H:2 * H] + 1)")),
    slip(*_B_FIRST, ("h @ U + b", "h @ U + b * (t == 0)")),
    slip("no_state", *_NO_STATE, ("y[t] = h", "y[t] = h\n        h, c = (0 * h, 0 * c)")),
    _TOKEN_AFTER,
)  # fmt: skip
GRU = (
    slip("residual", "the old state is added once more", "(1 - z) n + z h is a mean.", ("(1 - z) * n + z * h", "n + h")),
    slip("c_outside_reset", "the bias c of the candidate is added outside of the reset gate", "r ⊙ (h U + c): does r see c?",
         ("r * hn", "r * (hn - c[2 * len(U):]) + c[2 * len(U):]")),
    slip(*_B_FIRST, ("x[t] @ W + b", "x[t] @ W + b * (t == 0)")),
    slip("no_state", *_NO_STATE, ("y[t] = h", "y[t] = h\n        h = 0 * h")),
    _TOKEN_AFTER,
)  # fmt: skip
RNN = (
    slip("raw_carried", "the sum before tanh is handed on to the next step", "What does the next step read: before tanh, or after it?",
         ("h = np.tanh(x[t] @ W + h @ U + b)", "h = x[t] @ W + h @ U + b"), ("y[t] = h", "y[t] = np.tanh(h)")),
    slip("raw_shown", "the output is the sum before tanh", "Where does tanh act: on the output, too?",
         ("h = np.tanh(x[t] @ W + h @ U + b)", "u = x[t] @ W + h @ U + b\n        h = np.tanh(u)"), ("y[t] = h", "y[t] = u")),
    slip("leaky", "a state is the mean of the old one and of tanh", "What is left of the old state, besides U?",
         ("np.tanh(x[t] @ W + h @ U + b)", "(np.tanh(x[t] @ W + h @ U + b) + h) / 2")),
    slip("relu", "relu stands in place of tanh", "Which function squashes a state?",
         ("np.tanh(x[t] @ W + h @ U + b)", "np.maximum(x[t] @ W + h @ U + b, 0)")),
    slip(*_B_FIRST, ("h @ U + b", "h @ U + b * (t == 0)")),
    slip("no_state", *_NO_STATE, ("y[t] = h", "y[t] = h\n        h = 0 * h")),
    _TOKEN_AFTER,
)  # fmt: skip
