# %% [markdown]
# # 17 · Before attention
#
# For nearly thirty years, a network read a sentence the way you do: one word at a time, carrying along what it
# remembered. Then, within a few years, nearly everybody stopped. **What was wrong with reading in order?**
#
# Three answers are given everywhere: it is slow, it forgets, it is narrow. This chapter measures all three. Each is true of
# something, and less general than it sounds. Attention began as an answer to the third.
#
# **You need**: backward passes (chapters [03](03_gradients.ipynb) and [04](04_attention_backward.ipynb)); cross-attention
# and its alignment ([chapter 16](16_transformer.ipynb)).
#
# **You will be able to**:
#
# - write a recurrence and its way back through time, and say when a gradient vanishes, when it explodes, and when neither;
# - count what a layer costs, and what has to wait;
# - write the first attention, which added where today's multiplies.

# %% tags=["hide-input"]
import math
import string
from collections import Counter

import numpy as np

from tinyattn.course import check, road, show_arrays, show_figure, table, yours
from tinyattn.layers import MIXERS, AttendingGRU
from tinyattn.ops import (
    Mask,
    additive_scores,
    attention,
    attention_backward,
    cross_entropy_backward,
    gru,
    gru_backward,
    lstm,
    lstm_backward,
    rnn,
    rnn_backward,
    softmax,
)
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, INK, ORANGE, label_ends
from tinyattn.training.adam import Moments, adam
from tinyattn.tree import flatten

road(17)

# %% [markdown]
# ## Reading in order
#
# A *recurrent* network ([Elman, 1990](https://doi.org/10.1207/s15516709cog1402_1)) has a state $h$ of $d$ numbers. It begins with
# zeros, and every token changes it:
#
# $$h_t = \tanh(x_t W + h_{t-1} U), \qquad h_0 = 0 .$$
#
# ### Exercise `my_rnn` (write the op, ★☆☆, 6 min)
#
# Return all states, one a row. Any leading axes (a batch) may stand before the last two.


# %%
def my_rnn(x, W, U):
    """Shapes: x (..., n, c), W (c, d), U (d, d) -> h (..., n, d)."""
    ### BEGIN SOLUTION
    h = np.zeros_like(x[..., 0, :] @ W)  # (..., d)
    states = []
    for t in range(x.shape[-2]):
        h = np.tanh(x[..., t, :] @ W + h @ U)
        states.append(h)
    return np.stack(states, axis=-2)
    ### END SOLUTION


# %%
check("my_rnn", my_rnn)

# %%
rng = np.random.default_rng(1)
x, W, U = (rng.standard_normal(shape) for shape in ((2, 6, 4), (4, 3), (3, 3)))
h = rnn(x, W, U, np.zeros(3))  # the library's has a bias
print("as the library's:", np.allclose(yours("my_rnn")(x, W, U), h))

# %% [markdown]
# Attention has no such loop: $s = q k^\top$ compares all pairs of tokens in one product. Follow the
# first token on its way to the last output:

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(2, 1, size=(6.4, 4.2))
    for ax, title in ((left, "recurrence: 6 steps, in order"), (right, "attention: one step")):
        for t in range(1, 7):
            ax.text(t, 0, f"$x_{t}$", ha="center", va="center", fontsize=12)
        ax.set(xlim=(0.4, 6.6), ylim=(-0.4, 1.5), xticks=[], yticks=[], title=title)
        for side in ax.spines.values():
            side.set_visible(False)
    arrow = {"arrowstyle": "-|>", "shrinkA": 9, "shrinkB": 9, "color": GREY}
    for t in range(1, 7):
        left.text(t, 1, f"$h_{t}$", ha="center", va="center", fontsize=12)
        strong = {"color": ORANGE, "lw": 2}
        left.annotate("", (t, 1), (t, 0), arrowprops=arrow | (strong if t == 1 else {}))
        right.annotate(
            "", (6, 1), (t, 0), arrowprops=arrow | ({"color": BLUE, "lw": 2} if t == 1 else {})
        )
        if t < 6:
            left.annotate("", (t + 1, 1), (t, 1), arrowprops=arrow | strong)
    right.text(6, 1, r"$\mathrm{out}_6$", ha="center", va="bottom", fontsize=12)
show_figure(
    fig,
    "paths",
    "From the first token to the last output: six arrows, into the first state and then from state to state; or one arrow",
)

# %% [markdown]
# ## It is slow: what has to wait?
#
# When attention came, two other recurrences were in use: the LSTM
# ([Hochreiter and Schmidhuber, 1997](https://doi.org/10.1162/neco.1997.9.8.1735)) and the GRU
# ([Cho et al., 2014](https://arxiv.org/abs/1406.1078)). Their *gates*, numbers between 0 and 1, decide what to keep. An LSTM has
# a second state, the *cell* $c$:
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t) .$$
#
# The gates $i$, $f$ and $o$ are $\sigma(x_t W + h_{t-1} U + b)$, each with columns of its own, where $\sigma(u) = 1 / (1 + e^{-u})$; $g$ has a $\tanh$ in its
# place. A GRU has two gates, and no cell.
#
# A time is a fact about a machine, so let us count instead: products of matrices, and their multiply-adds. (The folded cell has an array that
# counts what is done with it.)


# %% tags=["hide-input"]
class Counted(np.ndarray):
    """An array that counts the calls made with it, and the numbers that each made or added up."""

    calls, work = Counter(), Counter()

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **how):
        if out is not None:
            how["out"] = tuple(np.asarray(x) for x in out)
        plain = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
        made = np.asarray(getattr(ufunc, method)(*plain, **how))
        Counted.calls[ufunc] += 1
        matrices = ufunc is np.matmul
        Counted.work[ufunc] += made.size * (plain[0].shape[-1] if matrices else 1)
        return made.view(Counted)

    def __array_function__(self, f, types, args, how):  # np.concatenate
        made = super().__array_function__(f, types, args, how)
        return made.view(Counted) if isinstance(made, np.ndarray) else made


def count(f, *arrays):
    """-> calls and work of f(*arrays), by operation."""
    Counted.calls, Counted.work = Counter(), Counter()
    f(*(x.view(Counted) for x in arrays))
    return Counted.calls, Counted.work


def weights(rng, d, gates, forget=0.0):
    """W normal, U orthogonal, one block a gate, and b; `forget` is the bias of an LSTM's forget gate."""
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(gates)]
    b = np.zeros(gates * d)
    b[d : 2 * d] = forget
    return rng.standard_normal((d, gates * d)) / math.sqrt(d), np.hstack(turns), b


def self_attention(x, W_q, W_k, W_v, W_o):
    return attention(x @ W_q, x @ W_k, x @ W_v)[0] @ W_o


def layers(rng, d):
    """{name: an op and its weights}, for x (n, d)."""
    b = np.zeros(3 * d)
    return {
        "tanh": (rnn, *weights(rng, d, 1)),
        "GRU": (gru, *weights(rng, d, 3), b),
        "LSTM": (lstm, *weights(rng, d, 4)),
        "attention": (self_attention, *rng.standard_normal((4, d, d)) / math.sqrt(d)),
    }


# %% [markdown]
# **Predict:** how many products of matrices does each need at $n = 8$, at 64, at 512?

# %% tags=["hide-output"]
d = 16
rng = np.random.default_rng(3)
rows = []
for n in (8, 64, 512):
    x = rng.standard_normal((n, d))
    counts = [count(op, x, *given)[0] for op, *given in layers(rng, d).values()]
    rows.append([n, *(calls[np.matmul] for calls in counts)])
table("n | products: tanh | GRU | LSTM | attention", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# $n + 1$ against 7: six, and one that adds up softmax's rows. One product brings in all tokens; each of the other $n$ multiplies the last state by $U$, and waits for it.
# This is the third column of table 1 in [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762): $O(n)$ operations in sequence, against $O(1)$.
#
# </details>
#
# ### Must it wait?
#
# Which line makes the future wait for the past? In $h_t = \tanh(\dots + h_{t-1} U)$ it is the $\tanh$: nobody knows how to
# get through $n$ of them, exactly, in a few rounds fixed beforehand. (Newton's method takes rounds until nothing moves:
# [Lim et al., 2023](https://arxiv.org/abs/2309.12252).) Take it away, and keep the state by a factor, entry by entry:
# $h_t = a_t \odot h_{t-1} + b_t$. Two steps of this are one step of the same form:
#
# $$a_{t+1} \odot (a_t \odot h + b_t) + b_{t+1} = (a_{t+1} \odot a_t) \odot h + (a_{t+1} \odot b_t + b_{t+1}) .$$
#
# So pairs of steps can be joined side by side, then pairs of pairs: this is a *parallel* or *prefix scan*
# ([Hillis and Steele, 1986](https://doi.org/10.1145/7902.7903)).


# %%
def buggy_scan(a, b):
    """All h_t = a_t h_{t-1} + b_t, pairs of steps joined: a, b (..., n, d) -> h (..., n, d)."""
    h, step = b.copy(), 1
    while step < b.shape[-2]:  # row t stands for the last `step` steps up to t, joined
        early_a, late_a = a[..., :-step, :], a[..., step:, :]
        early_h, late_h = h[..., :-step, :], h[..., step:, :]
        joined = early_a * early_h + late_h
        h = np.concatenate([h[..., :step, :], joined], axis=-2)
        a = np.concatenate([a[..., :step, :], early_a * late_a], axis=-2)
        step *= 2
    return h


rows = []
for n in (8, 64, 512):
    calls, _ = count(buggy_scan, *rng.uniform(0, 1, (2, n, d)))
    rows.append([n, calls[np.add]])  # one sum a round
table("n | rounds", rows)

# %% [markdown]
# So a recurrence that is linear in its state can run in parallel. This is why newer ones, such as Mamba, are linear ([chapter 19](19_after_attention.ipynb)).
#
# The rounds are right. The numbers are not.
#
# ### Exercise `repaired_scan` (find the bug, ★★☆, 6 min)
#
# One line of `buggy_scan` is wrong. Put it right. (`check` looks at the numbers alone: a plain
# loop passes, too, but takes $n$ rounds.)


# %%
def repaired_scan(a, b):
    """All h_t = a_t h_{t-1} + b_t, in log2(n) rounds: a, b (..., n, d) -> h (..., n, d)."""
    ### BEGIN SOLUTION
    h, step = b.copy(), 1
    while step < b.shape[-2]:
        early_a, late_a = a[..., :-step, :], a[..., step:, :]
        early_h, late_h = h[..., :-step, :], h[..., step:, :]
        joined = late_a * early_h + late_h
        h = np.concatenate([h[..., :step, :], joined], axis=-2)
        a = np.concatenate([a[..., :step, :], early_a * late_a], axis=-2)
        step *= 2
    return h
    ### END SOLUTION


# %%
check("repaired_scan", repaired_scan)

# %% [markdown]
# ## Which one costs more?
#
# The same table gives a layer of self-attention $O(n^2 d)$ operations, a recurrence $O(n\,d^2)$. Which of the two is cheaper where $n < d$?
#
# ### Exercise `recurrent_over_attention` (predict the number, ★☆☆, 3 min)
#
# A sentence of $n = 32$ tokens, vectors of $d = 512$. By these two formulas, a recurrence does how many times as much work as
# attention?

# %%
### BEGIN SOLUTION
recurrent_over_attention = 16
### END SOLUTION

# %%
check("recurrent_over_attention", recurrent_over_attention)

# %% [markdown]
# $n\,d^2 < n^2 d$ means $d < n$: the *recurrence* is the cheaper one where the text is *longer* than the vectors are wide.
# But where two lines cross depends on their constants, so count those:

# %% tags=["hide-input"]
d = 64
rng = np.random.default_rng(4)
rows = []
for n in (16, 64, 128, 256):
    x = rng.standard_normal((n, d))
    works = [count(op, x, *given)[1] for op, *given in layers(rng, d).values()]
    rows.append([f"{n / d:g}", *(work[np.matmul] / (n * d * d) for work in works)])
table("n / d | multiply-adds / n d²: tanh | GRU | LSTM | attention", rows)

# %% [markdown]
# A $\tanh$ recurrence takes $2 n d^2$, a GRU $6 n d^2$, an LSTM $8 n d^2$. Attention takes
#
# $$\underbrace{4 n d^2}_{\text{four matrices}} + \underbrace{2 n^2 d}_{q k^\top \text{ and } p\,v}
# = \Big(4 + 2\,\frac n d\Big)\, n d^2$$
#
# (and $n^2$ more for that sum). So attention is cheaper than an LSTM while $n < 2 d$,
# than a GRU while $n < d$, and than a $\tanh$ recurrence never.
# For a recommender that reads $n = 200$ clicks with $d = 50$, in the last row, attention does twice the work of a GRU: what it
# saves is waiting.

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(2, 1, size=(6.6, 6.0))
    lengths = np.array([8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    D = 512
    left.plot(lengths, 4 * D * D + 2 * lengths * D, "-o", color=BLUE)
    left.text(4400, 4 * D * D + 2 * 4096 * D, "attention", color=BLUE, va="center")
    for name, constant, colour, line in (
        ("LSTM", 8, ORANGE, "--"),
        ("GRU", 6, GREEN, "-."),
        ("tanh", 2, GREY, (0, (5, 1))),
    ):
        left.plot(lengths, constant * D * D + 0 * lengths, ls=line, color=colour)
        left.text(4400, constant * D * D, name, color=colour, va="center")
    for n, constant, name, low in ((D, 6, "$n = d$", -15), (2 * D, 8, "$n = 2d$", 10)):
        left.plot(n, constant * D * D, "o", ms=11, mfc="none", color=INK)
        side = {"textcoords": "offset points", "xytext": (-6 if low > 0 else 6, low)}
        left.annotate(name, (n, constant * D * D), ha="right" if low > 0 else "left", **side)
    left.set(title="multiply-adds a token, $d = 512$", yscale="log", ylim=(3e5, 1e7))
    right.plot(lengths, lengths + 1, ls=(0, (5, 1)), color=GREY)
    right.text(4400, 4096, "tanh, GRU, LSTM", color=GREY, va="center")
    right.plot(lengths, np.ceil(np.log2(lengths)), "-.", color=GREEN)
    right.text(4400, 15, "linear, by a scan", color=GREEN, va="center")
    right.plot(lengths, 7 + 0 * lengths, "-o", color=BLUE)
    right.text(4400, 6, "attention", color=BLUE, va="center")
    right.set(title="products in sequence, at most", yscale="log", xlabel="tokens")
    for ax in (left, right):
        ax.set(xscale="log")
        ax.set_xticks(lengths[::3], [f"{n:,}" for n in lengths[::3]])
        ax.minorticks_off()
show_figure(
    fig,
    "cost",
    "Work a token: flat for recurrences, rising for attention, which meets the GRU at 512 tokens and "
    "the LSTM at 1,024; products in sequence: rising for recurrences, flat for attention",
)

# %% [markdown]
# ## It forgets: how far does a gradient reach?
#
# The beginning of a long text fades, it is often said, even with LSTMs. What a small change of the first token
# does to the last state is a Jacobian, $\partial h_n / \partial x_1$; a gradient on its way back meets the same one. So first the way back, *backpropagation through time* (BPTT).
#
# ### Exercise `my_rnn_backward` (derive the backward, ★★★, 20 min)
#
# The loss may look at every state: $dh$ has the shape of $h$, and $dh_t$ is only what reaches $h_t$ *directly*. Derive $dx$, $dW$ and
# $dU$. Write $s_t = x_t W + h_{t-1} U$ for what stands inside of the $\tanh$, and find all $ds_t$ first: what is left is chapter 03's linear map.
# All steps and sequences share $W$ and $U$, so their gradients are sums; `summed` does that part for you.


# %%
def summed(a, b):
    """Σ a_tᵀ b_t over all steps and sequences: a (..., n, c), b (..., n, d) -> (c, d)."""
    product = a.swapaxes(-1, -2) @ b  # (..., c, n) @ (..., n, d) -> (..., c, d)
    return product.sum(axis=tuple(range(product.ndim - 2)))


# %%
def my_rnn_backward(dh, x, W, U, h):
    """Shapes: dh, h (..., n, d), x (..., n, c), W (c, d), U (d, d) -> dx, dW, dU."""
    ### BEGIN SOLUTION
    ds = np.zeros_like(h)
    later = np.zeros_like(h[..., 0, :])  # what step t + 1 hands back to h_t
    for t in reversed(range(h.shape[-2])):
        ds[..., t, :] = (dh[..., t, :] + later) * (1 - h[..., t, :] ** 2)  # h_t = tanh(s_t)
        later = ds[..., t, :] @ U.T  # s_t = x_t W + h_{t-1} U
    dx = ds @ W.T
    return dx, summed(x, ds), summed(h[..., :-1, :], ds[..., 1:, :])  # h_0 = 0 gives nothing
    ### END SOLUTION


# %%
check("my_rnn_backward", my_rnn_backward)

# %% [markdown]
# Step by step:

# %% tags=["hide-input"]
rng = np.random.default_rng(9)
three = rng.standard_normal((3, 2)), *weights(rng, 2, 1)
trace(rnn, *three, backward=True).player(title="Three steps of an RNN, forward and backward")

# %% [markdown]
# On its way from $h_n$ to $x_1$ the gradient goes through $U$ and a slope of the $\tanh$ at every step. As a product, for rows:
#
# $$\frac{\partial h_n}{\partial x_1} = W D_1 \cdot U D_2 \cdot U D_3 \cdots U D_n ,
# \qquad D_t = \operatorname{diag}(1 - h_t^2) .$$
#
# Let $U$ be $g$ times a rotation (an orthogonal matrix), which makes every vector $g$ times as long. Slopes are at most 1, and so
# $\lVert \partial h_n / \partial x_1 \rVert \le \lVert W \rVert\, g^{\,n-1}$, where $\lVert \cdot \rVert$ is the most by which a matrix can lengthen a vector.
# Measure it with your own backward: $d$ copies of the
# sequence, each with a $dh$ that is 1 in one entry of the last state. We print $\lVert \cdot \rVert_F / \sqrt d$, where $\lVert \cdot \rVert_F$ is the root of the sum of all squares: a layer which only copies $x_1$ has 1.


# %% tags=["hide-input"]
def first_in_last(forward, backward, x, W, U, *biases):
    """‖∂ h_n / ∂ x_1‖_F / √d, by the way back."""
    copies = np.tile(x, (d, 1, 1))  # (d, n, d)
    kept = forward(copies, W, U, *biases)
    kept = kept if isinstance(kept, tuple) else (kept,)  # h, and what else the way back needs
    dh = np.zeros_like(kept[0])
    dh[range(d), -1, range(d)] = 1
    dx, *_ = backward(dh, copies, W, U, *kept)
    return np.linalg.norm(dx[:, 0]) / math.sqrt(d)


# %% [markdown]
# **Predict:** with $g = 1$, does it stay or fade?

# %% tags=["hide-output"]
d, N = 32, 100
rng = np.random.default_rng(5)
x = rng.standard_normal((N, d))
W, U, b = weights(rng, d, 1)
mine, rows = (yours("my_rnn"), yours("my_rnn_backward")), []
for n in (2, 10, 25, 50, 100):
    left = first_in_last(*mine, x[:n], W, U)
    assert np.isclose(left, first_in_last(rnn, rnn_backward, x[:n], W, U, b))  # the library's
    rows.append([n, left])
table("n | ‖∂ last / ∂ first‖_F / √d", rows, digits=2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# It fades **exponentially**, although $U$ is a pure rotation: the slopes do it.
#
# </details>
#
# An LSTM's cell has another way back, with no matrix on it: $dc_{t-1} = f_t \odot dc_t$, and what comes through the gates.
# The forget gate $f$ is not of 1997: [Gers et al. (2000)](https://doi.org/10.1162/089976600300015015) added it, so that a cell can be emptied again. Without it
# $f = 1$. With it, $f = \sigma(\dots + b_f)$: PyTorch begins with $b_f$ near 0, Keras with $b_f = 1$.
#
# ### Exercise `power_of_ten_left` (predict the number, ★☆☆, 4 min)
#
# Ignore the gates' part, and let $f = \sigma(1)$ at every step. After 100 steps, $10^a$ of $dc$ is left. What is $a$, to one decimal?

# %%
### BEGIN SOLUTION
power_of_ten_left = 100 * math.log10(1 / (1 + math.exp(-1)))
### END SOLUTION

# %%
check("power_of_ten_left", power_of_ten_left)

# %% [markdown]
# Now the whole Jacobian, by the library's backwards: the $\tanh$ with $g = 1$ and with $g = 2.5$, a GRU, LSTMs; attention with random matrices, and attention that *seeks*: its last token is
# the first one, rotated, and $W_q$ rotates it back.


# %% tags=["hide-input"]
def attention_norm(x, W_q, W_k, W_v):
    """‖∂ out_n / ∂ x_1‖_F / √d for one attention: x_1 is heard through its key and its value."""
    q, k, v = x[-1:] @ W_q, x @ W_k, x @ W_v  # (1, d), (n, d), (n, d)
    q, k, v = (np.broadcast_to(a, (d, *a.shape)) for a in (q, k, v))
    p = attention(q, k, v)[1]
    _, dk, dv, _ = attention_backward(np.eye(d)[:, None], q, k, v, p)  # a row of the Jacobian each
    return np.linalg.norm(dk[:, 0] @ W_k.T + dv[:, 0] @ W_v.T) / math.sqrt(d)


def random_matrices(rng, n):
    return rng.standard_normal((n, d)), *(rng.standard_normal((3, d, d)) / math.sqrt(d))


def seeking(rng, n):
    """Three rotations, and a last token that asks for the first in words of its own."""
    x = rng.standard_normal((n, d))
    words, R, value = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(3))
    x[-1] = x[0] @ words
    return x, 2 * words.T @ R, R, value


def typical(made, n, draws=40):
    """The median over inputs and matrices drawn anew."""
    rngs = (np.random.default_rng([6, seed]) for seed in range(draws))
    return np.median([attention_norm(*made(rng, n)) for rng in rngs])


def without_forget_gate(W, U, b):
    return [np.delete(a, slice(d, 2 * d), axis=-1) for a in (W, U, b)]


# %% [markdown]
# **Predict:** which of these fall, which stay, which grow?

# %% tags=["hide-cell"]
lengths, rng = (2, 10, 25, 50, 100), np.random.default_rng(5)
three, four = (weights(rng, d, gates) for gates in (3, 4))
open_more = four[2] + np.repeat([0, 1, 0, 0], d)  # b_f = 1
nets = {
    "tanh, g = 1": (rnn, rnn_backward, W, U, b),
    "tanh, g = 2.5": (rnn, rnn_backward, W, 2.5 * U, b),
    "GRU": (gru, gru_backward, *three, np.zeros(3 * d)),
    "LSTM, bias 0": (lstm, lstm_backward, *four),
    "LSTM, bias 1": (lstm, lstm_backward, *four[:2], open_more),
    "LSTM, no forget gate": (lstm, lstm_backward, *without_forget_gate(*four)),
}
norms = {}
for name, (forward, backward, *given) in nets.items():
    norms[name] = [first_in_last(forward, backward, x[:n], *given) for n in lengths]
for name, made in (("attention, random", random_matrices), ("attention, seeking", seeking)):
    norms[name] = [typical(made, n) for n in lengths]
rows = [[name, *(x if x < 1e3 else f"{x:.1e}" for x in xs)] for name, xs in norms.items()]
table("‖∂ last / ∂ first‖_F / √d for | 2 tokens | 10 | 25 | 50 | 100", rows, digits=2)

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(6.6, 4.2))
    looks = (
        ("attention, seeking", BLUE, "--", "o", 25),
        ("LSTM, no forget gate", GREEN, "--", "s", 0.6),
        ("attention, random", BLUE, "-", "o", 1),
        ("LSTM, bias 1", GREEN, ":", "s", 1),
        ("GRU", GREY, "-.", "D", 1),
        ("tanh, g = 1", ORANGE, "-", "v", 4e-22),
    )
    for name, colour, line, marker, lift in looks:
        ax.plot(lengths, norms[name], ls=line, marker=marker, color=colour)
        at = norms[name][-1] if lift == 1 else lift
        ax.text(103, at, name, color=colour, va="center")
    ax.set(title="‖∂ last / ∂ first‖$_F$ / √d", yscale="log", ylim=(1e-23, 1e3), xlim=(0, 145))
    ax.set(xlabel="tokens", xticks=lengths)
show_figure(
    fig,
    "forgetting",
    "On a log scale the tanh and a GRU fall in a straight line to 1e-20, an LSTM with forget bias 1 half as steeply; an LSTM "
    "without forget gate and both kinds of attention stay near the top",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# - The $\tanh$ with $g = 2.5$ explodes: exponential fading is no law. (*Gradient clipping* scales such a gradient down.)
# - How fast an LSTM forgets depends on one bias; a GRU, whose gates begin half open, is no better than the $\tanh$. Without a forget gate nothing
#   fades: that was the purpose of the LSTM of 1997.
# - A path of length 1 does **not** mean that all of the gradient arrives. Attention with random matrices averages $n$ tokens, and the first
#   one's share falls about like $1/n$: a power, not an exponential.
# - A query that looks for the first key gets nearly all of it.
#
# </details>
#
# ### Two networks of one name
#
# In the paper of Cho et al., a GRU's reset gate $r$ acts *before* the product with $U_n$; in PyTorch, and here, *after* it:
#
# $$n_t = \tanh\big(x_t W_n + b_n + r_t \odot (h_{t-1} U_n + c_n)\big) .$$
#
# Say you write the paper's and load PyTorch's weights. All shapes fit.


# %%
def sigmoid(u):
    return 1 / (1 + np.exp(-u))


def buggy_gru(x, W, U, b, c):
    """Shapes: x (..., n, i), W (i, 3 d), U (d, 3 d), b and c (3 d,) -> h (..., n, d)."""
    (W_r, W_z, W_n), (U_r, U_z, U_n) = np.split(W, 3, axis=-1), np.split(U, 3, axis=-1)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = np.split(b, 3), np.split(c, 3)
    h, states = np.zeros_like(x[..., 0, :] @ W_n), []
    for x_t in np.moveaxis(x, -2, 0):
        r = sigmoid(x_t @ W_r + b_r + h @ U_r + c_r)
        z = sigmoid(x_t @ W_z + b_z + h @ U_z + c_z)
        new = np.tanh(x_t @ W_n + b_n + (r * h) @ U_n + c_n)
        h = (1 - z) * new + z * h
        states.append(h)
    return np.stack(states, axis=-2)


rng, rows = np.random.default_rng(7), []
for d, open_r in ((1, 0), (32, 0), (32, 40)):  # with b_r = 40, r is 1
    x, (W, U, b) = rng.standard_normal((50, d)), weights(rng, d, 3)
    b[:d], c = open_r, np.zeros(3 * d)
    off = np.abs(buggy_gru(x, W, U, b, c) - gru(x, W, U, b, c)[0]).max()
    rows.append([d, open_r, "rounding" if off < 1e-12 else f"{off:.1f}"])
table("d | b_r | off by", rows)

# %% [markdown]
# With $c_n = 0$ and a state of one number, or every $r = 1$, a test would see nothing.
#
# ### Exercise `repaired_gru` (find the bug, ★★☆, 5 min)
#
# Write the form of PyTorch. (Mind $c_n$.)


# %%
def repaired_gru(x, W, U, b, c):
    """Shapes: x (..., n, i), W (i, 3 d), U (d, 3 d), b and c (3 d,) -> h (..., n, d)."""
    ### BEGIN SOLUTION
    (W_r, W_z, W_n), (U_r, U_z, U_n) = np.split(W, 3, axis=-1), np.split(U, 3, axis=-1)
    (b_r, b_z, b_n), (c_r, c_z, c_n) = np.split(b, 3), np.split(c, 3)
    h, states = np.zeros_like(x[..., 0, :] @ W_n), []
    for x_t in np.moveaxis(x, -2, 0):
        r = sigmoid(x_t @ W_r + b_r + h @ U_r + c_r)
        z = sigmoid(x_t @ W_z + b_z + h @ U_z + c_z)
        new = np.tanh(x_t @ W_n + b_n + r * (h @ U_n + c_n))  # r behind the product
        h = (1 - z) * new + z * h
        states.append(h)
    return np.stack(states, axis=-2)
    ### END SOLUTION


# %%
check("repaired_gru", repaired_gru)

# %% [markdown]
# ## It is narrow: a sentence in one vector
#
# Attention was not invented to be fast. In 2014 a neural translator was two recurrent networks
# ([Sutskever et al.](https://arxiv.org/abs/1409.3215)): one, the encoder, read the sentence, the other, the decoder, wrote its translation, and all
# that passed between them was **one vector of fixed size**. [Bahdanau et al. (2015)](https://arxiv.org/abs/1409.0473) suspected
# this vector, and let the writer look back at *every* state of the reader.
#
# Were they right? Give the recurrence every advantage: no training, and nothing that vanishes. It reads
# letters, each a random vector $x_t$ of length about 1, and remembers by rotating:
# $h_t = h_{t-1} U + x_t$, where $U$ is a rotation. To recall the letter at $t$, rotate back $n - t$ times, and take the letter whose vector fits best. The rival keeps every letter
# as a value, under a random key for its place, and looks it up.

# %% tags=["hide-input"]
ALPHABET = " " + string.ascii_lowercase  # 27 letters


def reader(d, seed=0):
    """The letters' vectors (27, d), and a rotation (d, d)."""
    rng = np.random.default_rng([9, d, seed])
    letters = rng.standard_normal((len(ALPHABET), d)) / math.sqrt(d)
    return letters, np.linalg.qr(rng.standard_normal((d, d)))[0]


def through_one_vector(ids, letters, U):
    """Letters read into one vector, and out of it again: ids (B, n) -> ids (B, n)."""
    h = np.zeros((len(ids), len(U)))
    for t in range(ids.shape[1]):
        h = h @ U + letters[ids[:, t]]
    found = []
    for _ in range(ids.shape[1]):
        found.append(np.argmax(h @ letters.T, axis=-1))
        h = h @ U.T  # the inverse of a rotation is its transpose
    return np.stack(found[::-1], axis=-1)


def look_up(ids, letters, U):
    """Every letter kept, under a random key for its place, and looked up by that key."""
    keys = np.random.default_rng(10).standard_normal((ids.shape[1], letters.shape[1]))
    q = np.broadcast_to(keys, (len(ids), *keys.shape))  # "what stands at place t?"
    return np.argmax(attention(q, q, letters[ids])[0] @ letters.T, axis=-1)


text = "the cat that the dog that the rat bit chased ran away"
for words in (1, 2, 5, 12):
    ids = np.array([[ALPHABET.index(letter) for letter in " ".join(text.split()[:words])]])
    print(f"{ids.shape[1]:2} letters")
    for name, f in (("one vector", through_one_vector), ("look-up   ", look_up)):
        print(f"   {name}  {''.join(ALPHABET[i] for i in f(ids, *reader(64))[0])}")

# %% [markdown]
# That was $d = 64$. Nothing vanished: every letter is in $h$ at full length. All are in there *at once*, each noise for the others. Rotated back to
# one letter, the other $n - 1$ are random vectors of length 1, and along any direction each adds a variance of $1/d$: the signal is 1, the noise $\sqrt{(n - 1)/d}$.
# There are 26 wrong letters, and the largest of 26 normal numbers is about two standard deviations. So half of the letters should be lost
# when $2 \sqrt{n/d} \approx 1$, at $n \approx d/4$. Count:


# %% tags=["hide-input"]
def recalled(f, n, d, trials=12):
    """The share of letters that `f` recalls."""
    ids = np.random.default_rng([11, n, d]).integers(len(ALPHABET), size=(trials, n))
    return np.mean(f(ids, *reader(d, seed=n)) == ids)


SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
LINES = (("one vector", through_one_vector, ORANGE), ("look-up", look_up, BLUE))
with style():
    fig, ax = figure(size=(7.4, 3.8))
    lines = {}
    for d, line, marker in ((16, "-", "v"), (64, "--", "s"), (256, ":", "o")):
        for name, f, colour in LINES:
            share = [recalled(f, n, d) for n in SIZES]
            if d == 256 and min(share) == 1:  # as for 64
                lines[name].set_label(f"{name}, $d = 64$ and $256$")
                continue
            label = f"{name}, $d = {d}$"
            (lines[name],) = ax.plot(
                SIZES, share, ls=line, marker=marker, color=colour, label=label
            )
        ax.plot(d / 4, 0.5, "o", ms=13, mfc="none", color=INK)
    ax.axhline(1 / 27, color=GREY, lw=0.8)
    ax.text(4, 0.055, "guessing", color=GREY)
    ax.set(xscale="log", xlabel="letters read", ylabel="share recalled", ylim=(0, 1.05))
    ax.set_xticks(SIZES, [str(n) for n in SIZES])
    ax.minorticks_off()
    ax.set_xlim(3.4, 600)
    label_ends(ax)
show_figure(
    fig,
    "copying",
    "Recall from one vector falls to half at about d/4 letters, circled, for each d; the look-up stays at 1, "
    "but for d = 16",
)

# %% [markdown]
# The circles are at $n = d/4$ and one half. The look-up does not compress: it *stores* everything, $2 n d$ numbers, where the vector
# has $d$. (At $d = 16$ it makes mistakes: random vectors of 16 numbers are too much alike.)
#
# ### Exercise `letters_that_fit` (predict the number, ★★☆, 5 min)
#
# Perhaps our reader was clumsy. Take the best code there can be, and 64 numbers of 32 bits
# each. What is the longest text, in an alphabet of 27, that it can *always* give back without a mistake?

# %%
### BEGIN SOLUTION
letters_that_fit = 430  # 27^430 <= 2^(64 * 32) < 27^431
### END SOLUTION

# %%
check("letters_that_fit", letters_that_fit)

# %% [markdown]
# That is far above what our reader held. But it is a bound,
# and texts have none: **whatever has a fixed size forgets from some length on.** Chapters [18](18_cheaper.ipynb) and 19 are about how much later a larger
# state forgets.
#
# ## Looking back: the first attention
#
# The writer's state $h_{i-1}$ asks, the reader's states $m_j$ answer, and a small network says how well the two go together:
#
# $$s_{ij} = w \cdot \tanh(q_i + k_j), \qquad q_i = h_{i-1} W_q, \qquad k_j = m_j W_k .$$
#
# Softmax over $j$ makes weights of these *additive scores*, and the weighted mean of the $m_j$, the *context vector*, goes into the next step of a GRU, beside the last letter written.
#
# ### Exercise `my_additive_scores` (write the op, ★☆☆, 5 min)
#
# All scores at once; leading axes as before.


# %%
def my_additive_scores(q, k, w):
    """Shapes: q (..., n, d), k (..., m, d), w (d,) -> s (..., n, m)."""
    ### BEGIN SOLUTION
    both = q[..., :, None, :] + k[..., None, :, :]  # (..., n, m, d)
    return np.tanh(both) @ w
    ### END SOLUTION


# %%
check("my_additive_scores", my_additive_scores)

# %%
rng = np.random.default_rng(12)
q, k, w = rng.standard_normal((2, 4)), rng.standard_normal((3, 4)), rng.standard_normal(4)
s = yours("my_additive_scores")(q, k, w)
print("as the library's:", np.allclose(s, additive_scores(q, k, w)))
plain = (q[:, None] + k) @ w  # no tanh
show_arrays(p=softmax(s), without_tanh=softmax(plain))

# %% [markdown]
# Without the $\tanh$ both queries look alike: $w \cdot q_i$ is added to a whole row, which softmax does not see.
#
# Now train it. A GRU reads words of 10 random letters out of 8 (Bahdanau's read both ways), and the library's `AttendingGRU` copies them. It may look at all 10 states, or
# at the last one alone, with as many parameters. (The folded cell has the network, its backward, and 200 steps of Adam.)

# %% tags=["hide-input"]
LETTERS, D, LENGTH = 9, 32, 10  # 0 begins, then 8 letters; the width; letters a word
reading, writing = MIXERS["gru"](), AttendingGRU()


def initial(rng):
    parts = {"reader": reading.init(rng, D), "writer": writing.init(rng, D, D)}
    E, O = rng.standard_normal((LETTERS, D)), rng.standard_normal((2 * D, LETTERS))
    return parts | {"letters": E, "output": O / math.sqrt(2 * D)}


def copy_out(p, ids, looks_back):
    """ids (B, n) -> logits (B, n, V), and what the way back needs; written letters are given (teacher forcing)."""
    read, cache = reading.forward(p["reader"], p["letters"][ids], mask=Mask(causal=True))
    memory = read if looks_back else read[:, -1:]
    before = np.pad(ids[:, :-1], ((0, 0), (1, 0)))
    lengths = np.full(len(ids), memory.shape[1])
    h, seen, written = writing.forward(p["writer"], p["letters"][before], memory, lengths)
    both = np.concatenate([h, seen], axis=-1)
    return both @ p["output"], (before, both, read, cache, written)


def gradients(p, ids, looks_back):
    z, (before, both, read, cache, written) = copy_out(p, ids, looks_back)
    dz, grads = cross_entropy_backward(1.0, z, ids), {}
    dh, dseen = (x.copy() for x in np.split(dz @ p["output"].T, 2, axis=-1))
    dbefore, dmemory, by_writer = writing.backward(p["writer"], dh, dseen, written)
    dread = np.zeros_like(read)
    dread[:, -dmemory.shape[1] :] = dmemory
    dletters, _, by_reader = reading.backward(p["reader"], dread, cache)
    dE = np.zeros_like(p["letters"])
    np.add.at(dE, before, dbefore)
    np.add.at(dE, ids, dletters)
    dO = both.reshape(-1, 2 * D).T @ dz.reshape(-1, LETTERS)
    grads = {"reader": by_reader, "writer": by_writer, "letters": dE, "output": dO}
    return {name: ordered(grads[name], p[name]) for name in p}


def ordered(grads, p):
    return {name: grads[name] for name in p} if isinstance(p, dict) else grads


def words(rng, many):
    return rng.integers(1, LETTERS, (many, LENGTH))


def trained(looks_back, steps=200):
    rng = np.random.default_rng(0)
    vector, p = flatten(initial(rng), np.float64)
    moments = Moments(np.zeros_like(vector), np.zeros_like(vector))
    for step in range(1, steps + 1):
        gradient, _ = flatten(gradients(p, words(rng, 32), looks_back), np.float64)
        adam(vector, gradient, moments, step, lr=0.01 * (1 - step / (steps + 1)))
    return p


# %% [markdown]
# **Predict:** what share of the letters does each get right?

# %% tags=["hide-cell"]
test, alignment, rows = words(np.random.default_rng(13), 300), {}, []
for name, looks_back in (("the last state", False), ("all states, by additive attention", True)):
    z, (*_, written) = copy_out(trained(looks_back), test, looks_back)
    alignment = written.weights  # (300, n, m); of the last one trained
    rows.append([name, f"{(z.argmax(axis=-1) == test).mean():.2f}"])
table("the writer sees | letters right", rows)

# %% tags=["hide-input"]
where = alignment.argmax(axis=-1) - np.arange(LENGTH)
print(f"looked at most within one place: {(np.abs(where) < 2).mean():.2f} of written letters")
with style():
    fig, ax = figure(size=(4.6, 4.2))
    shown = ax.imshow(alignment[:50].mean(axis=0), cmap="Blues", vmin=0)
    fig.colorbar(shown, ax=ax, label="weight", shrink=0.8)
    ax.set(xlabel="state read", ylabel="letter written")
    ax.set(xticks=range(LENGTH), xticklabels=range(1, LENGTH + 1))
    ax.set(yticks=range(LENGTH), yticklabels=range(1, LENGTH + 1))
show_figure(
    fig,
    "alignment",
    "Mean alignment of words of 10 letters: the weights lie along the diagonal, darkest at its end: letter i is written "
    "while looking at the states about i",
)

# %% [markdown]
# The alignment runs along the diagonal, and nobody told it to.
#
# **Attention inside of the reader.** [Cheng et al. (2016)](https://arxiv.org/abs/1601.06733) let an LSTM look back at *its own* past: before each token, additive weights over all earlier tokens
# make a mean of their states, and one of their cells, which take the places of $h_{t-1}$ and $c_{t-1}$. They called it intra-attention. Any two tokens are then one step apart, as in self-attention; but a
# query is made from the step before, so the steps still wait for each other.
#
# ## From a sum to a product
#
# Today's logits are dot products. How large are both kinds of score, and what do they cost?

# %%
rng, rows, n = np.random.default_rng(14), [], 64
for d in (4, 64, 1024):
    q, k = rng.standard_normal((2, n, d))
    w = rng.standard_normal(d) / math.sqrt(d)
    dot, added = q @ k.T, additive_scores(q, k, w)
    rows.append([d, added.std(), dot.std(), (dot / math.sqrt(d)).std()])
table("d | std: additive | dot product | divided by √d", rows, digits=2)

# %%
forms = {"dot product": lambda q, k: q @ k.T, "additive": lambda q, k: additive_scores(q, k, w)}
rows = []
for name, scores in forms.items():  # of 64 queries and 64 keys, d = 1,024
    calls, work = count(scores, q, k)
    rows.append([name, work[np.matmul], work[np.tanh], sum(calls.values())])
table("scores | multiply-adds | tanh | operations called", rows)

# %% [markdown]
# With $w$ of size $1 / \sqrt d$, as here, additive scores keep their size; dot products need the $\sqrt d$ of [chapter 02](02_scale.ipynb). But each additive score takes $d$ values of $\tanh$, of an array $(n, m, d)$.
# Dot products are *one* product of matrices. That is why [Vaswani et al.](https://arxiv.org/abs/1706.03762) (section 3.2.1) multiply, and divide by the root. Then they left out the recurrence.
#
# | what is often said | what the cells above show |
# |---|---|
# | attention's $n^2$ makes it the costly one | by the two formulas only where $n > d$ |
# | attention is cheaper where $n < d$ | than a GRU. Than an LSTM where $n < 2d$, than a $\tanh$ recurrence never |
# | recurrence cannot run in parallel | a linear one can, in $\log_2 n$ rounds |
# | the beginning fades, even with LSTMs | exponentially, with a forget gate partly closed; not without that gate |
# | path length 1, so nothing vanishes | attention with random matrices passes on about $1/n$; one that seeks, nearly all |
# | one vector is a bottleneck | yes: a simple code has lost half of $d/4$ letters, and no code holds more than its bits |
#
# ## In five lines
#
# - A recurrence takes $n$ products in sequence; attention seven in all, and a *linear* recurrence $\log_2 n$ rounds.
# - By its work, attention is $(4 + 2n/d)\, n d^2$, an LSTM $8 n d^2$: which costs more depends on $n/d$.
# - A gradient through $n$ steps is a product of $n$ Jacobians: it vanishes or explodes, unless something (a gate held open) keeps it.
# - A path of length 1 passes on a share of about $1/n$ where nothing is sought, and nearly all where the query finds its key.
# - A state of fixed size forgets from some length on; looking back, first by sums, then by products, pays with memory that grows.
#
# To read: [Bahdanau et al. (2015)](https://arxiv.org/abs/1409.0473), where attention began. Next: [18, cheaper attention](18_cheaper.ipynb).
