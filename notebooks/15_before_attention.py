# %% [markdown]
# # 15 · Before attention
#
# For nearly thirty years, a network read a sentence the way you do: one word at a time, carrying along what it
# remembered. Then, within a few years, nearly everybody stopped. **What was wrong with reading in order?**
#
# Three answers are given everywhere: it is slow, it forgets, it is narrow. This chapter measures all three. Each is true of
# something, and less general than it sounds.
#
# **You need**: backward passes (chapters [03](03_gradients.ipynb) and [04](04_attention_backward.ipynb)); the attention layer of
# [chapter 06](06_many_heads.ipynb).
#
# **You will be able to**: write a recurrence and its way back through time; count the steps and the work of a layer; say when a
# gradient vanishes, when it explodes, and when neither.

# %%
import math
import string
from functools import partial

import numpy as np

from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.layers import multi_head_init
from tinyattn.ops import attention, attention_backward
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE

road(15)

# %% [markdown]
# ## Reading in order
#
# A *recurrent* network ([Elman, 1990](https://doi.org/10.1207/s15516709cog1402_1)) has a state $h$ of $d$ numbers. It begins with
# zeros, and every token changes it:
#
# $$h_t = \tanh(x_t W + h_{t-1} U), \qquad h_0 = 0 .$$
#
# ### Exercise `my_rnn` (write the op, ★☆☆, 8 min)
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

# %% [markdown]
# Attention has no such loop: $s = q k^\top$ compares every token with every token in one product. In the picture, follow the
# first token on its way to the last output.

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
# A time is a fact about a machine, so let us count instead. The folded cell below has an array that keeps a record. Its
# **depth** is the longest chain of products, each waiting for the one before, that led to it; its class adds up the **work**, the
# multiplications in all products of matrices.

# %% tags=["hide-input"]
PRODUCTS = (np.matmul, np.multiply)


class Counted(np.ndarray):
    """An array that knows its depth; the class adds up the work."""

    work, depth = 0, 0

    def __array_finalize__(self, source):  # a slice or a view is as deep as what it was cut from
        self.depth = getattr(source, "depth", 0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **how):
        if out is not None:
            how["out"] = tuple(np.asarray(x) for x in out)
        plain = (np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs)
        made = np.asarray(getattr(ufunc, method)(*plain, **how)).view(Counted)
        made.depth = deepest(inputs) + (ufunc in PRODUCTS)
        if ufunc is np.matmul:
            Counted.work += made.size * inputs[0].shape[-1]
        return made

    def __array_function__(self, f, types, args, how):
        made = super().__array_function__(f, types, args, how)
        if isinstance(made, np.ndarray):
            made = made.view(Counted)
            made.depth = deepest(args)
        return made


def deepest(x):
    if isinstance(x, tuple | list):
        return max(map(deepest, x), default=0)
    return getattr(x, "depth", 0)


def count(f, x):
    """-> the work and the depth of f(x)."""
    Counted.work = 0
    made = f(x.view(Counted))
    return Counted.work, made.depth


# %% [markdown]
# Beside the $\tanh$ there are the two recurrences that were in use when attention came: the LSTM
# ([Hochreiter and Schmidhuber, 1997](https://doi.org/10.1162/neco.1997.9.8.1735)) and the GRU
# ([Cho et al., 2014](https://arxiv.org/abs/1406.1078)). Their *gates*, numbers between 0 and 1, decide what to keep. An LSTM has
# a second state, $c_t = f \odot c_{t-1} + i \odot \tanh(g)$. Its *forget gate* $f = \sigma(\dots + b_f)$, with $\sigma(u) = 1/(1 + e^{-u})$, says
# how much of the old is kept: with $b_f = 0$ about half, with $b_f = 1$ about three quarters. All three are the same loop around
# another step. (The GRU's step is in the folded cell.)


# %%
def unroll(step, x, d, cell):
    """All states h (..., n, d); a step is (x_t, state, cell) -> h_t, state."""
    zeros = np.zeros_like(x, shape=(*x.shape[:-2], d))
    state, states = (zeros, zeros), []
    for t in range(x.shape[-2]):
        h, state = step(x[..., t, :], state, cell)
        states.append(h)
    return np.stack(states, axis=-2)


def sigmoid(s):
    return 1 / (1 + np.exp(-s))


def tanh_step(x, state, cell):
    h = np.tanh(x @ cell["W"] + state[0] @ cell["U"])
    return h, (h, h)


def lstm_step(x, state, cell):
    h, c = state
    i, f, o, g = np.split(x @ cell["W"] + h @ cell["U"] + cell["b"], 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)  # forget some of the old, add some of the new
    h = sigmoid(o) * np.tanh(c)
    return h, (h, c)


# %% tags=["hide-input"]
def gru_step(x, state, cell):
    h = state[0]
    # r after the product with U, as in PyTorch: before it, a step would be one product deeper
    (r, z, g), (hr, hz, hg) = (np.split(s, 3, axis=-1) for s in (x @ cell["W"], h @ cell["U"]))
    z = sigmoid(z + hz)
    h = (1 - z) * np.tanh(g + sigmoid(r + hr) * hg) + z * h
    return h, (h, h)


def recurrent(rng, d, gates, forget=0.0):
    """Parameters: W normal, U orthogonal, one block a gate; `forget` is the bias of an LSTM's forget gate."""
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(gates)]
    b = np.zeros(gates * d)
    b[d : 2 * d] = forget
    return {"W": rng.standard_normal((d, gates * d)) / math.sqrt(d), "U": np.hstack(turns), "b": b}


def self_attention(x, layer):
    """x (n, D) -> (n, D), one head."""
    q, k, v = (x @ layer[name]["W"] for name in ("query", "key", "value"))
    return attention(q, k, v)[0] @ layer["output"]["W"]


def layers(rng, d):
    """{name: a function of x (n, d)}: three recurrences, and self-attention with its four matrices."""
    made = {}
    for name, step, gates in (("tanh", tanh_step, 1), ("GRU", gru_step, 3), ("LSTM", lstm_step, 4)):
        made[name] = partial(unroll, step, d=d, cell=recurrent(rng, d, gates))
    made["attention"] = partial(self_attention, layer=multi_head_init(rng, d, bias=False))
    return made


# %% [markdown]
# **Predict:** how deep is each of them at $n = 8$, at 64, at 512?

# %% tags=["hide-output"]
d = 16
rng = np.random.default_rng(3)
rows = []
for n in (8, 64, 512):
    x = rng.standard_normal((n, d))
    rows.append([n, *(count(layer, x)[1] for layer in layers(rng, d).values())])
table("n | depth: tanh | GRU | LSTM | attention", rows)

# %% [markdown]
# One product a token for the $\tanh$, three with gates; six in all for attention, however long the text: $q$, the scale, the logits,
# the sum in softmax, the average of values, the output. This is the third column of table 1 in
# [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762): $O(n)$ steps that wait for each other, against $O(1)$.
# (A product counts as one step here, although adding up $d$ or $n$ numbers takes some more.)
#
# ### Must it wait?
#
# Which line makes the future wait for the past? In $h_t = \tanh(\dots + h_{t-1} U)$ it is the $\tanh$: nobody knows how to
# get through $n$ of them, exactly, in a few rounds fixed beforehand. (Newton's method can solve for all steps together, in scans repeated
# until nothing moves: [Lim et al., 2023](https://arxiv.org/abs/2309.12252).) Take it away, and keep the state by a factor, entry by entry:
#
# $$h_t = a_t \odot h_{t-1} + b_t .$$
#
# Two steps of this are one step of the same form:
#
# $$a_{t+1} \odot (a_t \odot h + b_t) + b_{t+1} = (a_{t+1} \odot a_t) \odot h + (a_{t+1} \odot b_t + b_{t+1}) .$$
#
# So pairs of steps can be joined side by side, then pairs of pairs: this is a *scan*
# ([Hillis and Steele, 1986](https://doi.org/10.1145/7902.7903)).
#
# **Predict:** how many rounds does it take for 512 tokens?


# %% tags=["hide-output"]
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
    a, b = rng.uniform(0, 1, (2, n, d)).view(Counted)
    rows.append([n, count(lambda b, a=a: buggy_scan(a, b), b)[1]])
table("n | depth of the scan", rows)

# %% [markdown]
# Nine rounds for 512 tokens. That recurrence cannot run in parallel is true of the recurrences of 2017, because of what stands
# between $h_{t-1}$ and $h_t$. Newer ones, such as Mamba, are linear there for this very reason (chapter 17).
#
# The depths are right. The numbers are not.
#
# ### Exercise `repaired_scan` (find the bug, ★★☆, 8 min)
#
# One line of `buggy_scan` is wrong. Write `repaired_scan` with that line put right. (`check` looks at the numbers alone: a plain
# loop passes, too, but waits for $n$ rounds.)


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
# Depth is waiting; now the work. Table 1 of the same paper gives a layer of self-attention $O(n^2 d)$, a recurrence $O(n\,d^2)$. From
# these two formulas, which of the two is cheaper where $n < d$? It is easily read the wrong way round.
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
# $n\,d^2 < n^2 d$ means $d < n$: the *recurrence* is the cheaper one where the text is *longer* than the vectors are wide, and attention
# where it is shorter. (Section 4 of the paper says so, too.)
#
# But big-O only says how each cost grows. Where two lines cross depends on their constants, so count those.
#
# **Predict:** at $n = d$, do attention and a $\tanh$ recurrence cost the same?

# %% tags=["hide-cell"]
d = 64
rng = np.random.default_rng(4)
rows = []
for n in (16, 64, 128, 256):
    x = rng.standard_normal((n, d))
    work = [count(layer, x)[0] for layer in layers(rng, d).values()]
    rows.append([f"{n / d:g}", *(w / (n * d * d) for w in work)])
print("work, in units of n d²")
table("n / d | tanh | GRU | LSTM | attention", rows)

# %% [markdown]
# Read off the constants. A $\tanh$ recurrence takes $2 n d^2$, a GRU $6 n d^2$, an LSTM $8 n d^2$. Attention takes
#
# $$\underbrace{4 n d^2}_{\text{four matrices}} + \underbrace{2 n^2 d}_{q k^\top \text{ and } p\,v}
# = \Big(4 + 2\,\frac n d\Big)\, n d^2$$
#
# (and $n^2$ more, since the library adds up softmax's rows by a product). So attention is cheaper than an LSTM while $n < 2 d$,
# cheaper than a GRU while $n < d$, and never cheaper than a $\tanh$ recurrence: its four matrices alone are twice that work.
# A recommender that reads $n = 200$ clicks with $d = 50$ is in the last row. There attention does about twice the work of a GRU: what it
# saves is not work but waiting.

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
        left.plot(n, constant * D * D, "o", ms=11, mfc="none", color="black")
        side = {"textcoords": "offset points", "xytext": (-6 if low > 0 else 6, low)}
        left.annotate(name, (n, constant * D * D), ha="right" if low > 0 else "left", **side)
    left.set(title="multiplications a token, $d = 512$", yscale="log", ylim=(3e5, 1e7))
    right.plot(lengths, lengths, ls=(0, (5, 1)), color=GREY)
    right.text(4400, 4096, "tanh\n(gates: 3 times)", color=GREY, va="center")
    right.plot(lengths, np.ceil(np.log2(lengths)), "-.", color=GREEN)
    right.text(4400, 14, "linear, by a scan", color=GREEN, va="center")
    right.plot(lengths, 6 + 0 * lengths, "-o", color=BLUE)
    right.text(4400, 5, "attention", color=BLUE, va="center")
    right.set(title="dependent steps", yscale="log", xlabel="tokens")
    for ax in (left, right):
        ax.set(xscale="log")
        ax.set_xticks(lengths[::3], [f"{n:,}" for n in lengths[::3]])
        ax.minorticks_off()
show_figure(
    fig,
    "cost",
    "Work a token: flat for recurrences, rising for attention, which meets the GRU at 512 tokens and "
    "the LSTM at 1,024; dependent steps: rising for recurrences, flat for attention",
)

# %% [markdown]
# ## It forgets: how far does a gradient reach?
#
# The beginning of a long text fades, it is often said, even with LSTMs. How much of it is left? What a small change of the first token
# does to the last state is a Jacobian, $\partial h_n / \partial x_1$; a gradient on its way back meets the same one. So first the way back.
#
# ### Exercise `my_rnn_backward` (derive the backward, ★★★, 25 min)
#
# The loss may look at every state: $dh$ has the shape of $h$, and $dh_t$ is only what reaches $h_t$ *directly*. Derive $dx$, $dW$ and
# $dU$. All steps and sequences share $W$ and $U$, so their gradients are sums; `summed` does that part for you.


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
# On its way from $h_n$ to $x_1$ the gradient goes through $U$ and a slope of the $\tanh$ at every step. As a product, for rows:
#
# $$\frac{\partial h_n}{\partial x_1} = W D_1 \cdot U D_2 \cdot U D_3 \cdots U D_n ,
# \qquad D_t = \operatorname{diag}(1 - h_t^2) .$$
#
# Let $U$ be $g$ times a rotation (an orthogonal matrix), which makes every vector $g$ times as long. Slopes are at most 1, and so
#
# $$\Big\lVert \frac{\partial h_n}{\partial x_1} \Big\rVert \le \lVert W \rVert\, g^{\,n-1} .$$
#
# ($\lVert \cdot \rVert$ is the most by which a matrix can lengthen a vector.) Measure it with your own backward: $d$ copies of the
# sequence, each with a $dh$ that is 1 in one entry of the last state. What we print is the root of the sum of all squares over $\sqrt d$,
# the lengthening on average: a layer which only copies $x_1$ has 1.

# %%
d, N = 32, 128
rng = np.random.default_rng(5)
x = rng.standard_normal((N, d))
cell = recurrent(rng, d, 1)
rnn, rnn_backward = yours("my_rnn"), yours("my_rnn_backward")


def first_in_last(x, W, U):
    """‖∂ h_n / ∂ x_1‖ / √d, by the way back."""
    copies = np.tile(x, (d, 1, 1))  # (d, n, d)
    h = rnn(copies, W, U)
    dh = np.zeros_like(h)
    dh[range(d), -1, range(d)] = 1
    return np.linalg.norm(rnn_backward(dh, copies, W, U, h)[0][:, 0]) / math.sqrt(d)


lengths = (2, 8, 32, 64, 128)
table(
    "n | ‖∂ last / ∂ first‖",
    [[n, first_in_last(x[:n], cell["W"], cell["U"])] for n in lengths],
    digits=2,
)

# %% [markdown]
# It fades **exponentially**, although $U$ is a pure rotation, $g = 1$: the slopes do it. Is that a law? Compare:
#
# - a $\tanh$ with a larger $U$, $g = 2.5$;
# - an LSTM whose forget gate has the bias $b_f = 0$, as in PyTorch, or $b_f = 1$, as in Keras;
# - an LSTM *without* a forget gate. That is the one of 1997: [Gers et al. (2000)](https://doi.org/10.1162/089976600300015015) added the gate
#   three years later, so that the state can be emptied again;
# - attention with random matrices, and attention that seeks: its last token is the first one, rotated, and $W_q$ rotates it back.
#
# (In the folded cell: the Jacobian of a recurrence by an *imaginary step*, $f(x + i\varepsilon) \approx f(x) + i\varepsilon f'(x)$,
# without a subtraction; that of attention by `attention_backward`.)


# %% tags=["hide-input"]
def jacobian_norm(step, cell, x):
    """‖∂ h_t / ∂ x_1‖ / √d for every t."""
    nudged = np.tile(x.astype(complex), (d, 1, 1))  # (d, n, d): one direction of x_1 each
    nudged[range(d), 0, range(d)] += 1e-30j
    h = unroll(step, nudged, d, cell)
    return np.linalg.norm(h.imag / 1e-30, axis=(0, 2)) / math.sqrt(d)


def attention_norm(x, W_q, W_k, W_v):
    """‖∂ out_n / ∂ x_1‖ / √d for one attention: x_1 is heard through its key and its value."""
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


assert np.isclose(jacobian_norm(tanh_step, cell, x)[-1], first_in_last(x, cell["W"], cell["U"]))

# %% [markdown]
# **Predict:** which of these fall, which stay, which grow?

# %% tags=["hide-output"]
OPEN = 1000  # a forget bias so large that the gate is 1: no forget gate
nets = {f"tanh, g = {g}": (tanh_step, cell | {"U": g * cell["U"]}) for g in (1, 2.5)}
for name, bias in (("bias 0", 0), ("bias 1", 1), ("no forget gate", OPEN)):
    nets[f"LSTM, {name}"] = lstm_step, recurrent(np.random.default_rng(5), d, 4, forget=bias)

norms = {}
for name, (step, its_cell) in nets.items():
    every = jacobian_norm(step, its_cell, x)
    norms[name] = [every[n - 1] for n in lengths]
norms["attention, random"] = [typical(random_matrices, n) for n in lengths]
norms["attention, seeking"] = [typical(seeking, n) for n in lengths]
rows = [[name, *values] for name, values in norms.items()]
table("‖∂ last / ∂ first‖ for | 2 tokens | 8 | 32 | 64 | 128", rows, digits=2)

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(6.6, 4.2))
    looks = (
        ("attention, seeking", BLUE, "--", "o", 2.0),
        ("LSTM, no forget gate", GREEN, "--", "s", 0.03),
        ("attention, random", BLUE, "-", "o", 6e-4),
        ("LSTM, bias 1", GREEN, ":", "s", 1),
        ("tanh, g = 1", ORANGE, "-", "v", 1),
    )
    for name, colour, line, marker, lift in looks:
        ax.plot(lengths, norms[name], ls=line, marker=marker, color=colour)
        at = norms[name][-1] if lift == 1 else lift
        ax.text(132, at, name, color=colour, va="center")
    ax.set(title="‖∂ last / ∂ first‖", yscale="log", ylim=(1e-28, 1e3), xlim=(0, 186))
    ax.set(xlabel="tokens", xticks=lengths)
show_figure(
    fig,
    "forgetting",
    "On a log scale the tanh falls in a straight line to 1e-26, an LSTM with forget bias 1 half as steeply; an LSTM "
    "without forget gate and both kinds of attention stay near the top",
)

# %% [markdown]
# The $\tanh$ with $g = 2.5$ explodes: exponential fading is no law. And three more things stand in this table:
#
# - How fast an LSTM forgets depends on one bias. With $b_f = 0$, $10^{-25}$ is left after 128 tokens; with $b_f = 1$, $10^{-12}$. Without the
#   gate nothing fades: that was the purpose of the LSTM of 1997.
# - A path of length 1 does **not** mean that all of the gradient arrives. Attention with random matrices averages $n$ tokens, and the first
#   one's share falls about like $1/n$. That is a power of $n$, not an exponential: this is the gain.
# - A query that looks for the first key gets nearly all of it, as if it stood next door.
#
# ## It is narrow: a sentence in one vector
#
# Attention was not invented to be fast. In 2014, neural translation was new, and its systems were two recurrent networks
# ([Sutskever et al.](https://arxiv.org/abs/1409.3215)): one read the sentence, the other wrote its translation, and all
# that passed between them was **one vector of fixed size**. [Bahdanau et al. (2014)](https://arxiv.org/abs/1409.0473) suspected
# this vector, and let the writer look back at *every* state of the reader.
#
# Were they right? Give the recurrence every advantage: no training to go wrong, and nothing that vanishes. It reads
# letters, each a random vector $x_t$ of $d$ numbers and of length about 1, and remembers by rotating:
#
# $$h_t = h_{t-1} U + x_t, \qquad U \text{ a rotation.}$$
#
# To recall the letter at $t$, rotate back $n - t$ times, and take the letter whose vector fits best. The rival keeps every letter
# as a value, under a random key for its place, and looks it up.
#
# **Predict:** with $d = 64$ numbers, how many letters can be read back?

# %% tags=["hide-output"]
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
# Nothing vanished: every letter is in $h$ at full length. They are all in there *at once*, and each is noise for the others. Rotated back to
# one letter, the other $n - 1$ are random vectors of length 1, and along any direction each adds a variance of $1/d$:
#
# $$\text{signal } 1, \qquad \text{noise } \sqrt{(n - 1)/d} .$$
#
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
    fig, ax = figure(size=(6.6, 3.8))
    for d, line, marker in ((16, "-", "v"), (64, "--", "s"), (256, ":", "o")):
        for name, f, colour in LINES:
            share = [recalled(f, n, d) for n in SIZES]
            ax.plot(SIZES, share, ls=line, marker=marker, color=colour, label=f"{name}, $d = {d}$")
        ax.plot(d / 4, 0.5, "o", ms=13, mfc="none", color="black")
    ax.axhline(1 / 27, color=GREY, lw=0.8)
    ax.text(4, 0.055, "guessing", color=GREY)
    ax.set(xscale="log", xlabel="letters read", ylabel="share recalled", ylim=(0, 1.05))
    ax.set_xticks(SIZES, [str(n) for n in SIZES])
    ax.minorticks_off()
    ax.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
show_figure(
    fig,
    "copying",
    "Recall from one vector falls to half at about d/4 letters, circled, for each d; the look-up stays at 1, "
    "but for d = 16",
)

# %% [markdown]
# The circles are at $n = d/4$ and one half. The look-up keeps everything, because it *stores* everything: $2 n d$ numbers, where the vector
# has $d$. It is no better at compressing; it does not compress. (At $d = 16$ it makes mistakes: random
# vectors of 16 numbers are too much alike.)
#
# ### Exercise `letters_that_fit` (predict the number, ★★☆, 5 min)
#
# Perhaps our reader was only clumsy. Take the cleverest one imaginable, any code whatever, and 64 numbers of 32 bits
# each. What is the longest text, in an alphabet of 27, that it can *always* give back without a mistake?

# %%
### BEGIN SOLUTION
letters_that_fit = 430  # 27^430 <= 2^(64 * 32) < 27^431
### END SOLUTION

# %%
check("letters_that_fit", letters_that_fit)

# %% [markdown]
# That bound is far from the 16 letters at which our reader had lost half, and training finds better codes than ours. But it is a bound,
# and texts have none: **whatever has a fixed size forgets from some length on.** Chapters [16](16_cheaper.ipynb) and 17 are about how much later a larger
# state forgets.
#
# | what is often said | what the cells above show |
# |---|---|
# | attention's $n^2$ makes it the costly one | by the two formulas only where $n > d$ |
# | attention is cheaper where $n < d$ | than a GRU. Than an LSTM where $n < 2d$, than a $\tanh$ recurrence never |
# | recurrence cannot run in parallel | through a $\tanh$ only in rounds repeated until nothing moves; a linear one takes $\log_2 n$ rounds |
# | the beginning fades, even with LSTMs | exponentially, with a forget gate that begins partly closed; not at all without that gate |
# | path length 1, so nothing vanishes | attention with random matrices passes on about $1/n$; one that seeks, nearly all |
# | one vector is a bottleneck | yes: a simple code has lost half of $d/4$ letters, and no code holds more than its bits |
#
# ## In five lines
#
# - A recurrence waits for its last state, $n$ steps long; attention takes six products, and a *linear* recurrence $\log_2 n$ rounds.
# - By its work, attention is $(4 + 2n/d)\, n d^2$, an LSTM $8 n d^2$: which costs more depends on $n/d$.
# - A gradient through $n$ steps is a product of $n$ Jacobians: it vanishes or explodes, unless something (a gate held open) keeps it.
# - A path of length 1 passes on a share of about $1/n$ where nothing is sought, and nearly all where the query finds its key.
# - A state of fixed size forgets from some length on; looking back has no such length, and pays with memory that grows.
#
# To read: [Bahdanau et al. (2014)](https://arxiv.org/abs/1409.0473), where attention began. Next: [16, cheaper attention](16_cheaper.ipynb).
