# %% [markdown]
# # 00 · Why attention
#
# For nearly thirty years, the usual way to let a network read a sentence was the way you read one: a word at a time, carrying
# along what you remember. Then, within a few years, nearly everybody stopped. **What was wrong with reading in order?**
#
# Three answers are given everywhere: it is slow, it forgets, it is narrow. To be fair a fourth sentence is added, on when it
# is the cheaper one. This chapter measures all four. Three turn out to be true of something, and less general than they sound;
# one is printed the wrong way round. (What is quoted without a name here and later comes from the texts that this course set
# out from, *our sources*: a note, a tutorial, an encyclopedia's page, a write-up of a recommender.)
#
# You need: the product of two matrices, the chain rule, what a variance is, and Python. No network will be trained.

# %%
import math
import string

import numpy as np

from tinyattn.course import check, show_arrays, show_figure, table
from tinyattn.layers import multi_head_attention, multi_head_init
from tinyattn.ops import attention, attention_backward, linear
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE

# %% [markdown]
# ## Reading in order
#
# A *recurrent* network (Elman, 1990) has a state $h$ of $d$ numbers. It begins with zeros, and every token changes it:
#
# $$h_t = \tanh(x_t W + h_{t-1} U), \qquad h_0 = 0 .$$
#
# Tokens are rows: $x$ has shape $(n, d)$, one row a token. Three tokens of two numbers, by hand:

# %%
rng = np.random.default_rng(0)
n, d = 3, 2
x = rng.standard_normal((n, d))  # three tokens
W, U = rng.standard_normal((2, d, d))

h1 = np.tanh(x[0] @ W)  # (d,) @ (d, d) -> (d,)
h2 = np.tanh(x[1] @ W + h1 @ U)  # needs h1
h3 = np.tanh(x[2] @ W + h2 @ U)  # needs h2
show_arrays(x=x, h1=h1, h2=h2, h3=h3)

# %% [markdown]
# ### Exercise `my_rnn` (write the op, ★☆☆, 8 min)
#
# Now for any number of tokens. Return all states, one a row. Any leading axes (a batch) may stand before the last two.


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
# ## Looking back
#
# *Attention* keeps every token, and looks. Each token asks a query $q$; every token has a key $k$, to be compared with
# the query, and a value $v$, to be taken (Vaswani et al., 2017, equation 1; $d$ is the length of a query):
#
# $$\text{out} = \text{softmax}\!\left(\frac{q k^\top}{\sqrt d}\right) v .$$
#
# What the letters mean, and softmax, is chapter 01's matter, the root is chapter 02's. Here only its *form* matters. `trace` shows everything
# that gets a name while it runs:

# %%
print(trace(attention, x @ W, x @ U, x))

# %% [markdown]
# There is no loop over tokens. Every token is compared with every token in *one* product, `s`, of shape $(n, n)$.
# And that is the whole difference:

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.4, 2.3))
    for ax, title in ((left, "recurrence: 5 steps, in order"), (right, "attention: one step")):
        for t in range(1, 7):
            ax.text(t, 0, f"$x_{t}$", ha="center", va="center")
        ax.set(xlim=(0.4, 6.6), ylim=(-0.4, 1.5), xticks=[], yticks=[], title=title)
        for side in ax.spines.values():
            side.set_visible(False)
    arrow = {"arrowstyle": "-|>", "shrinkA": 9, "shrinkB": 9, "color": GREY}
    for t in range(1, 7):
        left.text(t, 1, f"$h_{t}$", ha="center", va="center")
        left.annotate("", (t, 1), (t, 0), arrowprops=arrow | {"color": ORANGE if t == 1 else GREY})
        right.annotate(
            "", (6, 1), (t, 0), arrowprops=arrow | ({"color": BLUE, "lw": 2} if t == 1 else {})
        )
        if t < 6:
            strong = {"color": ORANGE, "lw": 2}
            left.annotate("", (t + 1, 1), (t, 1), arrowprops=arrow | strong)
    right.text(6, 1, r"$\mathrm{out}_6$", ha="center", va="bottom")
show_figure(
    fig,
    "paths",
    "From the first token to the last output: a chain of five arrows between states, or one arrow",
)

# %% [markdown]
# (The arrows of the other outputs are left out: they are the same, all at once.) A *self-attention layer* makes $q$, $k$ and
# $v$ from the tokens by a matrix each, and puts a fourth behind. Four lines, and the library's is the same:


# %%
def layer(x, p):
    """Self-attention: x (n, d) -> (n, d)."""
    q, k, v = (linear(x, p[name]["W"]) for name in ("query", "key", "value"))  # (n, d) each
    out = attention(q, k, v)[0]  # (n, d)
    return linear(out, p["output"]["W"])


p = multi_head_init(np.random.default_rng(1), 8, bias=False)
x = np.random.default_rng(2).standard_normal((5, 8))
np.allclose(layer(x, p), multi_head_attention(p, x, x, heads=1)[0])

# %% [markdown]
# ## It is slow: which steps must wait?
#
# The future has to wait for the past, so nothing runs in parallel: thus the first charge. Let us not time it: a time is a
# fact about a machine. Let us
# *count*, with arrays that keep a record. Each knows its **depth**: the longest chain of products, each waiting for the
# one before, that led to it. And all of them add up their **work**: the multiplications in all products of matrices.

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


def count(f, x, *others):
    """-> the work and the depth of f(x, ...)."""
    Counted.work = 0
    made = f(x.view(Counted), *others)
    return Counted.work, made.depth


# %% [markdown]
# The recurrences that follow differ in one step only, so here is the loop for all of them: `unroll` takes the step.
# Beside the $\tanh$ there are the two that were in use when attention came, with gates that decide what to keep: the LSTM
# (Hochreiter and Schmidhuber, 1997) and the GRU (Cho et al., 2014).


# %%
def unroll(step, x, d, p):
    """All states h (..., n, d); a step is (x_t, state, p) -> h_t, state."""
    zeros = np.zeros_like(x, shape=(*x.shape[:-2], d))
    state, states = (zeros, zeros), []
    for t in range(x.shape[-2]):
        h, state = step(x[..., t, :], state, p)
        states.append(h)
    return np.stack(states, axis=-2)


def sigmoid(s):
    return 1 / (1 + np.exp(-s))


def tanh_step(x, state, p):
    h = np.tanh(x @ p["W"] + state[0] @ p["U"])
    return h, (h, h)


def lstm_step(x, state, p):
    h, c = state
    i, f, o, g = np.split(x @ p["W"] + h @ p["U"] + p["b"], 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)  # forget some of the old, add some of the new
    h = sigmoid(o) * np.tanh(c)
    return h, (h, c)


def gru_step(x, state, p):
    h = state[0]
    # r after the product with U, as in PyTorch: before it, a step would be one product deeper
    (r, z, g), (hr, hz, hg) = (np.split(s, 3, axis=-1) for s in (x @ p["W"], h @ p["U"]))
    z = sigmoid(z + hz)
    h = (1 - z) * np.tanh(g + sigmoid(r + hr) * hg) + z * h
    return h, (h, h)


def recurrent(rng, d, gates, forget=0.0):
    """Parameters: W normal, U orthogonal, one block a gate; `forget` is the bias of an LSTM's second."""
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(gates)]
    b = np.zeros(gates * d)
    b[d : 2 * d] = forget
    return {"W": rng.standard_normal((d, gates * d)) / math.sqrt(d), "U": np.hstack(turns), "b": b}


def competitors(rng, d):
    return {
        "attention": multi_head_init(rng, d, bias=False),
        "tanh": recurrent(rng, d, 1),
        "GRU": recurrent(rng, d, 3),
        "LSTM": recurrent(rng, d, 4),
    }


CELLS = {"tanh": tanh_step, "GRU": gru_step, "LSTM": lstm_step}


# %% [markdown]
# **Predict before you run:** how deep is each at $n = 8$, at 64, at 512?

# %%
d = 16
rng = np.random.default_rng(3)
p = competitors(rng, d)
rows = []
for n in (8, 64, 512):
    x = rng.standard_normal((n, d))
    depths = [count(lambda x, c=c: unroll(CELLS[c], x, d, p[c]), x)[1] for c in CELLS]
    rows.append([n, *depths, count(layer, x, p["attention"])[1]])
table("n | depth: tanh | GRU | LSTM | attention", rows)

# %% [markdown]
# One a token for the $\tanh$, three with gates; six in all for attention, however long the text. $O(n)$ dependent steps
# against $O(1)$: the third column of table 1 of Vaswani et al. (2017) holds. The six are the product that makes $q$, the scale,
# the scores, the sum of softmax, the average of values, the output. With enough hardware a book takes as many steps as a
# tweet. ("Enough" hides something: a product counts as one step, although adding $d$ or $n$ numbers takes $\log_2$ of as many
# rounds, and the work is still there, as we shall see.)
#
# ### The past, twice
#
# Does the future have to wait for the past? Look at which line says so. In $h_t = \tanh(\dots + h_{t-1} U)$ the $\tanh$ does: no
# exact short cut through $n$ of them is known. Take it away, and let the state be kept by a factor, entry by entry:
#
# $$h_t = a_t \odot h_{t-1} + b_t .$$
#
# Two steps of this are one step of the same form:
#
# $$a_{t+1} \odot (a_t \odot h + b_t) + b_{t+1} = (a_{t+1} \odot a_t) \odot h + (a_{t+1} \odot b_t + b_{t+1}) .$$
#
# So pairs of steps can be joined side by side, then pairs of pairs: a *scan* (Hillis and Steele, 1986; Blelloch, 1990).
# **Predict:** how many rounds for 512 tokens?


# %%
def linear_loop(a, b):
    h, states = np.zeros_like(b[0]), []
    for t in range(len(b)):
        h = a[t] * h + b[t]
        states.append(h)
    return np.stack(states)


def hasty_scan(a, b):
    """All h_t = a_t h_{t-1} + b_t, in log2(n) rounds: a, b (..., n, d) -> h (..., n, d)."""
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
    a, b = rng.uniform(0, 1, (2, n, d))
    a = a.view(Counted)
    rows.append([n, count(lambda b, a=a: linear_loop(a, b), b)[1]])
    rows[-1].append(count(lambda b, a=a: hasty_scan(a, b), b)[1])
table("n | depth of the loop | of the scan", rows)

# %% [markdown]
# Nine rounds for 512 tokens. "Recurrence cannot be parallelised" is true of the recurrences of 2017, *because of what stands
# between* $h_{t-1}$ *and* $h_t$. The newer ones, as Mamba, are linear there for this very reason: chapter 15. (The price of
# this simple scan is work: all rows, in every round. Blelloch's avoids that.)
#
# The depths are right. The numbers are not: `hasty_scan` was written in a hurry.
#
# ### Exercise `repaired_scan` (find the bug, ★★☆, 8 min)
#
# One line is wrong. Write `repaired_scan` with it put right. `check` looks at the faulty one, too.


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
# ### And writing?
#
# All this was *reading*: the tokens were there. A model that writes does not know its next token before it has made
# the last. Let both write, each output the next input:


# %%
def attends(x):
    return layer(x, p["attention"])


def recurs(x):
    return unroll(tanh_step, x, d, p["tanh"])


def attention_writes(first, n):
    tokens = [first]
    for _ in range(n):
        tokens.append(attends(np.stack(tokens))[-1])  # all tokens so far -> the next
    return tokens[-1]


def recurrence_writes(x, n):
    state = (np.zeros(d), None)
    for _ in range(n):
        x, state = tanh_step(x, state, p["tanh"])  # the last token and the state -> the next
    return x


rows = []
for n in (1, 8, 64):
    x = rng.standard_normal((n, d))
    rows.append([n, count(attends, x)[1], count(recurs, x)[1]])
    rows[-1] += [count(f, x[0], n)[1] for f in (attention_writes, recurrence_writes)]
table("n | attention reads | tanh reads | attention writes | tanh writes", rows)

# %% [markdown]
# Writing $n$ tokens, attention waits at each of them, as a recurrence does, and for six products instead of one. "All words
# at once" holds where all words are known: in reading, and in **training**, where the text to be written is there already. That
# is where it mattered.
#
# ## It is dear: which one?
#
# Now the work. The encyclopedia has table 1, too: self-attention takes $O(n^2 d)$ a layer, recurrence $O(n\,d^2)$. Below it one
# reads that recurrent layers are the cheaper ones where $n < d$. Check it.
#
# ### Exercise `recurrent_over_attention` (predict the number, ★☆☆, 3 min)
#
# A sentence of $n = 32$ tokens, vectors of $d = 512$. By these two formulas, how many times the work of attention is that
# of a recurrence?

# %%
### BEGIN SOLUTION
recurrent_over_attention = 16
### END SOLUTION

# %%
check("recurrent_over_attention", recurrent_over_attention)

# %% [markdown]
# The sentence is the wrong way round:
#
# $$n\,d^2 < n^2 d \iff d < n .$$
#
# The *recurrence* is the cheaper one when the text is *longer* than the vectors are wide. The authors of the table had
# it right: attention is the faster one "when the sequence length $n$ is smaller than the representation
# dimensionality $d$" (section 4).
#
# Settled? Two formulas with an $O$ say what grows how. They do not say where the lines cross: for that, constants count. So
# count. **Predict before you run:** at $n = d$, do the layer of attention above, with its four matrices, and a
# $\tanh$ recurrence cost the same?

# %%
d = 64
rng = np.random.default_rng(4)
p = competitors(rng, d)
rows = []
for n in (16, 64, 128, 256):
    x = rng.standard_normal((n, d))
    work = [count(attends, x)[0]]
    work += [count(lambda x, c=c: unroll(CELLS[c], x, d, p[c]), x)[0] for c in CELLS]
    rows.append([f"{n / d:g}", n / d, *(w / (n * d * d) for w in work)])
print("work, in units of n d²")
table("n / d | attention by table 1 | counted | tanh | GRU | LSTM", rows)

# %% [markdown]
# Read off the constants. A $\tanh$ recurrence takes $2 n d^2$ (the table counts $U$ and leaves $W$ out), a GRU $6 n d^2$, an LSTM
# $8 n d^2$. The layer of attention takes
#
# $$\underbrace{4 n d^2}_{\text{four matrices}} + \underbrace{2 n^2 d}_{q k^\top \text{ and weights } v}
# = \Big(4 + 2\,\frac n d\Big)\, n d^2$$
#
# (and $n^2$ more, since the library adds up softmax's rows by a product). Hence
#
# - against an LSTM, attention is the cheaper one while $n < 2 d$;
# - against a GRU, while $n < d$: the rule, exactly, by luck;
# - against a $\tanh$ recurrence, **never**: the four matrices alone are twice its work.
#
# So "$n < d$" holds two leading terms against each other, all constants 1; the rest decides where the lines cross. Whoever
# replaced LSTMs of $d = 512$, in 2017, saved work in texts of up to a thousand tokens. A recommender that reads $n = 200$ clicks
# with $d = 50$ is in the last row: its attention does *twice* the work of a GRU. What it saves there is not work, it
# is waiting.

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.4, 3.2))
    lengths = np.array([8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    D = 512
    left.plot(lengths, 4 * D * D + 2 * lengths * D, "-o", color=BLUE, label="attention")
    left.plot(lengths, 2.0 * lengths * D, ":", color=BLUE, label="without its matrices")
    lines = (("LSTM", 8, ORANGE, "--"), ("GRU", 6, GREEN, "-."), ("tanh", 2, GREY, (0, (5, 1))))
    for name, constant, colour, line in lines:
        left.plot(lengths, constant * D * D + 0 * lengths, ls=line, color=colour, label=name)
    for n, constant, name in ((D, 6, "$n = d$"), (2 * D, 8, "$n = 2d$")):
        left.plot(n, constant * D * D, "o", ms=11, mfc="none", color="black")
        above = {"textcoords": "offset points", "xytext": (-6, 10), "ha": "right", "fontsize": 8}
        left.annotate(name, (n, constant * D * D), **above)
    left.set(title="multiplications a token, $d = 512$", yscale="log", ylim=(5e3, 3e7))
    right.plot(lengths, lengths, ls=(0, (5, 1)), color=GREY, label="tanh (with gates: 3 times)")
    right.plot(lengths, np.ceil(np.log2(lengths)), "-.", color=GREEN, label="linear, by a scan")
    right.plot(lengths, 6 + 0 * lengths, "-o", color=BLUE, label="attention")
    right.set(title="dependent steps", yscale="log")
    for ax in (left, right):
        ax.set(xscale="log", xlabel="tokens")
        ax.set_xticks(lengths[::3], [f"{n:,}" for n in lengths[::3]])
        ax.minorticks_off()
        ax.legend(fontsize=8)
show_figure(
    fig,
    "cost",
    "Work a token: flat for recurrences, rising for attention, which meets the GRU at 512 tokens and "
    "the LSTM at 1,024; dependent steps: rising for recurrences, flat for attention",
)

# %% [markdown]
# ### Twice as long, four times the work?
#
# Another sentence from everywhere: double the length, and computation and memory are four times as large. By the
# formula above, the factor is $2\,(4 + 4n/d) / (4 + 2n/d)$. Counted, with $d = 16$, and the weights that must be stored:

# %%
d = 16
p["attention"] = multi_head_init(rng, d, bias=False)
rows = []
for n in (4, 16, 64, 256, 1024):
    once, twice = (rng.standard_normal((length, d)) for length in (n, 2 * n))
    factor = count(attends, twice)[0] / count(attends, once)[0]
    weights = attention(once, once, once)[1]
    rows.append([f"{n / d:g}", factor, weights.size, once.size])
table("n / d | work for twice the text | weights | numbers in x", rows)

# %% [markdown]
# Four is the limit. While the text is much shorter than the vectors are wide, twice the text is *about twice* the work: so
# for a sentence of a hundred tokens at $d = 512$. Memory is another matter: $n^2$ weights from the start.
#
# If you want times, take them: on your machine, of your $n$ and $d$. Nothing here depends on what you find, and nobody
# has printed it for you.


# %%
def race(n=512, d=64):
    """Seconds for one layer: attention, then a tanh recurrence."""
    from time import perf_counter

    x = rng.standard_normal((n, d))
    heads, cell = multi_head_init(rng, d, bias=False), recurrent(rng, d, 1)
    begin = perf_counter()
    layer(x, heads)
    middle = perf_counter()
    unroll(tanh_step, x, d, cell)
    return middle - begin, perf_counter() - middle


# race()    # your turn: take away the first sign, and run it twice

# %% [markdown]
# ## It forgets: how far does a word reach?
#
# The beginning of a long text fades, one reads, "even with LSTMs". How much of it?
# What does the first token change in the last output? That is a derivative, the Jacobian $\partial h_n / \partial x_1$, and
# its norm says how loud the first word still is: in the forward pass, and for the gradient on its way back. On paper,
# for the $\tanh$: step $t$ multiplies by $U$, and then by the slope of the tanh, $1 - h_t^2$. As a product of matrices,
# for rows,
#
# $$\frac{\partial h_n}{\partial x_1} = W D_1 \cdot U D_2 \cdot U D_3 \cdots U D_n ,
# \qquad D_t = \operatorname{diag}(1 - h_t^2) .$$
#
# $n$ factors. If each shrinks a little, all together shrink without mercy. Let $U$ be $g$ times a rotation (an orthogonal
# matrix): it makes every vector $g$ times as long. Slopes are at most 1, and so
#
# $$\Big\lVert \frac{\partial h_n}{\partial x_1} \Big\rVert \le \lVert W \rVert\, g^{\,n-1} .$$
#
# To measure it for any cell there is a trick: give the input an imaginary part. Since $f(x + i\varepsilon) = f(x) +
# i\varepsilon f'(x) - \dots$, the imaginary part of the output, divided by $\varepsilon$, is the derivative, up to terms in
# $\varepsilon^2$. Nothing is subtracted, so nothing is lost to rounding, and $\varepsilon$ can be $10^{-30}$.

# %%
d, N = 32, 128
rng = np.random.default_rng(5)
x = rng.standard_normal((N, d))


def loudness(f, x):
    """‖∂ f(x)_t / ∂ x_1‖ / √d for every t: 1 is as loud as it came in."""
    nudged = np.tile(x.astype(complex), (d, 1, 1))  # (d, n, d): one direction of x_1 each
    nudged[range(d), 0, range(d)] += 1e-30j
    return np.linalg.norm(f(nudged).imag / 1e-30, axis=(0, 2)) / math.sqrt(d)


cell = recurrent(rng, d, 1)
W, U = cell["W"], cell["U"]
h = unroll(tanh_step, x, d, cell)
product = W * (1 - h[0] ** 2)  # W D_1: (d, d)
for t in range(1, 6):
    product = product @ U * (1 - h[t] ** 2)
by_paper = np.linalg.norm(product) / math.sqrt(d)
np.allclose(by_paper, loudness(lambda x: unroll(tanh_step, x, d, cell), x[:6])[-1])

# %% [markdown]
# Formula and trick agree. For attention the library has the backward (chapter 03 derives it), which gives the same
# derivative. The last output hears $x_1$ through its key and through its value:


# %%
def attention_loudness(x, p, at=0):
    """‖∂ out_n / ∂ x_at‖ / √d for one attention, without the output's matrix."""
    q, k, v = x[-1:] @ p["query"], x @ p["key"], x @ p["value"]  # (1, d), (n, d), (n, d)
    q, k, v = (np.broadcast_to(a, (d, *a.shape)) for a in (q, k, v))
    weights = attention(q, k, v)[1]
    _, dk, dv, _ = attention_backward(np.eye(d)[:, None], q, k, v, weights)  # a row of J each
    return np.linalg.norm(dk[:, at] @ p["key"].T + dv[:, at] @ p["value"].T) / math.sqrt(d)


def blank(rng, n):
    """Tokens and three random matrices."""
    p = {name: rng.standard_normal((d, d)) / math.sqrt(d) for name in ("query", "key", "value")}
    return rng.standard_normal((n, d)), p


def seeking(rng, n):
    """Three rotations, and a last token that asks for the first in words of its own."""
    x = rng.standard_normal((n, d))
    words, R, value = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(3))
    x[-1] = x[0] @ words
    return x, {"query": 2 * words.T @ R, "key": R, "value": value}


def typical(made, n, draws=40):
    """The median over inputs and matrices drawn anew."""
    rngs = (np.random.default_rng([6, seed]) for seed in range(draws))
    return np.median([attention_loudness(*made(rng, n)) for rng in rngs])


# %% [markdown]
# Six recurrences, all with the same tokens: a $\tanh$ with three sizes of $U$; an LSTM as it is usually initialised, with a forget gate
# near 1/2, and one told to remember, with a gate near 0.95; a rotation without any $\tanh$. And two layers of attention:
# one blank, one whose last query looks for the first key. **Predict before you run:** which fall, which stay, which grow?


# %%
def rotation_step(x, state, p):
    h = x @ p["W"] + state[0] @ p["U"]  # no tanh
    return h, (h, h)


NETS = {f"tanh, g = {g}": (tanh_step, cell | {"U": g * cell["U"]}) for g in (0.9, 1, 2.5)}
NETS["LSTM, forget bias 0"] = lstm_step, recurrent(rng, d, 4)
NETS["LSTM, forget bias 3"] = lstm_step, recurrent(rng, d, 4, forget=3.0)
NETS["rotation, no tanh"] = rotation_step, cell

LENGTHS = (2, 8, 32, 64, 128)
heard = {}
for name, (step, own) in NETS.items():
    every = loudness(lambda x, step=step, own=own: unroll(step, x, d, own), x)  # (N,)
    heard[name] = [every[n - 1] for n in LENGTHS]
heard["attention, blank"] = [typical(blank, n) for n in LENGTHS]
heard["attention, seeking"] = [typical(seeking, n) for n in LENGTHS]
rows = [[name, *values] for name, values in heard.items()]
rows.append(["1 / n", *(1 / n for n in LENGTHS)])
table("‖∂ last / ∂ first‖ for | 2 tokens | 8 | 32 | 64 | 128", rows, digits=2)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(7.6, 3.6))
    looks = (
        ("tanh, g = 2.5", ORANGE, ":", "^"),
        ("rotation, no tanh", GREY, "-", None),
        ("attention, seeking", BLUE, "--", "o"),
        ("LSTM, forget bias 3", GREEN, "--", "s"),
        ("attention, blank", BLUE, "-", "o"),
        ("tanh, g = 1", ORANGE, "--", "v"),
        ("LSTM, forget bias 0", GREEN, "-", "s"),
        ("tanh, g = 0.9", ORANGE, "-", "v"),
    )
    for name, colour, line, marker in looks:
        ax.plot(LENGTHS, heard[name], ls=line, marker=marker, color=colour, label=name)
    ax.set(title="how loud the first token is in the last output", yscale="log", ylim=(1e-33, 1e9))
    ax.set(xlabel="tokens", xticks=LENGTHS)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
show_figure(
    fig,
    "forgetting",
    "Straight falling lines on a log scale for tanh and a plain LSTM, a rising one for a large U; "
    "attention falls as 1/n, or stays at 1 where it seeks",
)

# %% [markdown]
# Four things stand in this table, and the first is the one that is always told:
#
# - The $\tanh$ forgets **exponentially**, even where $U$ is a pure rotation, $g = 1$: the slopes of the tanh do it. After 128 tokens
#   the first word is $10^{26}$ times too quiet. So does the LSTM as it is usually begun.
# - It is no law. With a larger $U$ the derivative *explodes*; without the tanh it is 1 for ever; and an LSTM whose forget gate
#   begins open (Gers et al., 2000, gave it a bias for that) keeps about a tenth, and does not fade. "Even with LSTMs" depends on one bias.
# - A path of length 1 does **not** mean that the derivative stays. An attention that has learned nothing averages $n$
#   tokens, and hears each of them with about $1/n$: a power of $n$, no exponential. That is the gain.
# - And one whose query looks for the first key hears it at full strength, as if it stood next door.
#
# ### Equally well, from wherever?
#
# Attention, one reads, captures what is far away as well as what is near. Shuffle all tokens but the last, and look at
# the last output:

# %%
x, own = blank(np.random.default_rng(7), N)
p["attention"] = {name: {"W": own[name]} for name in own} | {"output": {"W": np.eye(d)}}
order = np.append(np.random.default_rng(8).permutation(N - 1), N - 1)
print("attention, the same?", np.allclose(attends(x)[-1], attends(x[order])[-1]))
p["tanh"] = cell
print("tanh, the same?     ", np.allclose(recurs(x)[-1], recurs(x[order])[-1]))


# %% tags=["hide-input"]
def recurrent_loudness(x, W, U):
    """‖∂ h_n / ∂ x_t‖ / √d for every t: the product above, taken from its end."""
    h, after, found = unroll(tanh_step, x, d, {"W": W, "U": U}), np.eye(d), []
    for t in reversed(range(len(x))):
        after = (1 - h[t] ** 2)[:, None] * after  # D_t U D_{t+1} ... U D_n
        found.append(np.linalg.norm(W @ after) / math.sqrt(d))
        after = U @ after
    return np.array(found)  # by distance: the last token first


with style():
    fig, ax = figure(size=(6.4, 3.0))
    far = np.arange(1, N)
    ax.plot(far, recurrent_loudness(x, W, U)[1:], "-", color=ORANGE, label="tanh, g = 1")
    each = [attention_loudness(x, own, at=N - 1 - back) for back in far]
    ax.plot(far, each, ".", color=BLUE, label="attention, blank")
    ax.axhline(1 / N, color=GREY, ls="--", label="1 / n")
    ax.set(yscale="log", ylim=(1e-28, 10), xlabel="how many tokens before the last")
    ax.set(title="how loud each of 128 tokens is in the last output")
    ax.legend()
show_figure(
    fig,
    "distance",
    "Against the distance: the tanh falls in a straight line to 1e-26; attention's points scatter "
    "around 1/n, at every distance alike",
)

# %% [markdown]
# So it is true, and more literally than one would like: the points scatter by *what* the tokens are, and distance has no
# part in it. Attention hears the first word as well as the last but one because it **cannot tell which is which**. A
# recurrence knows the order without being told. That debt is paid in chapter 06.
#
# ### Exercise `my_rnn_backward` (derive the backward, ★★★, 25 min)
#
# Here is the way back through time, on which those gradients vanish. The loss may look at every state: $dh$ has the shape of
# $h$, and $dh_t$ is only what reaches $h_t$ *directly*. Derive $dx$, $dW$ and $dU$. $W$ and $U$ have no leading axes, so
# their gradients are sums over all steps and all sequences; here is the sum, so that you can think about the rest.


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
# ### The third competitor
#
# Table 1 has a convolution, too: each token sees its $k$ nearest. Its path is given as $O(\log_k n)$, and the encyclopedia
# prints the table without the sentence that stands beside it in the paper: this needs *dilated* layers, whose taps (the $k$ tokens
# they look at) move apart from layer to layer. Let us count who hears whom, in layers where a token sees itself and two
# before it:


# %%
def hears_first(n, gaps):
    """Does the last of n tokens depend on the first, after a layer of three taps for each gap?"""
    heard = np.zeros(n, bool)
    heard[0] = True
    for gap in gaps:
        reach = [heard, np.zeros(n, bool), np.zeros(n, bool)]
        for tap in (1, 2):
            reach[tap][tap * gap :] = heard[: n - tap * gap]
        heard = reach[0] | reach[1] | reach[2]
    return bool(heard[-1])


rows = []
for gaps in ((1, 3, 9), (1, 3, 9, 27)):
    rows.append([", ".join(map(str, gaps)), len(gaps), "yes" if hears_first(81, gaps) else "no"])
table("gaps | layers | does token 81 hear token 1?", rows)

# %% [markdown]
# Four dilated layers, $\log_3 81$: as the table has it.
#
# ### Exercise `layers_of_three` (predict the number, ★★☆, 5 min)
#
# And without dilation, all gaps 1, as in an ordinary convolution? How many layers until token 81 hears token 1?

# %%
### BEGIN SOLUTION
layers_of_three = 40
### END SOLUTION

# %%
check("layers_of_three", layers_of_three)

# %% [markdown]
# ## It is narrow: a sentence in one vector
#
# Attention was not invented to be fast. In 2014 one translated with two recurrent networks (Cho et al.; Sutskever et al.): one
# read the sentence, the other wrote its translation, and all that passed between them was **one vector of fixed size**.
# Cho's translations got worse as sentences got longer. Bahdanau, Cho and Bengio (2014) suspected the vector, and let the
# writer look back at *every* state of the reader.
#
# Were they right? Let us give the recurrence every advantage: no training to go wrong, and nothing that vanishes. It reads
# letters, each a random vector $e$ of $d$ numbers, and remembers by rotating:
#
# $$h_t = h_{t-1} U + e(x_t), \qquad U \text{ a rotation.}$$
#
# To recall the letter at $t$, rotate back $n - t$ times and take the letter whose vector fits best. Whatever was read is
# there at full strength, $\lVert e \rVert \approx 1$. **Predict before you run:** with $d = 64$ numbers, how many letters of this can be
# read back?

# %%
ALPHABET = " " + string.ascii_lowercase  # 27 letters


def reader(d, seed=0):
    """The letters' vectors (27, d), and a rotation (d, d)."""
    rng = np.random.default_rng([9, d, seed])
    letters = rng.standard_normal((len(ALPHABET), d)) / math.sqrt(d)
    return letters, np.linalg.qr(rng.standard_normal((d, d)))[0]


def squeeze(ids, letters, U):
    """Letters read one by one into one vector: ids (B, n) -> h (B, d)."""
    h = np.zeros((len(ids), len(U)))
    for t in range(ids.shape[1]):
        h = h @ U + letters[ids[:, t]]
    return h


def unsqueeze(h, n, letters, U):
    """And out of it again: h (B, d) -> ids (B, n)."""
    found = []
    for _ in range(n):
        found.append(np.argmax(h @ letters.T, axis=-1))
        h = h @ U.T  # the inverse of a rotation is its transpose
    return np.stack(found[::-1], axis=-1)


def look_up(ids, letters, rng):
    """Every letter kept, under a random key for its place, and looked up by that key."""
    places = rng.standard_normal((ids.shape[1], letters.shape[1]))
    q = np.broadcast_to(places, (len(ids), *places.shape))  # "what stands at place t?"
    return np.argmax(attention(q, q, letters[ids])[0] @ letters.T, axis=-1)


def spelled(ids):
    return "".join(ALPHABET[i] for i in ids)


text = "the cat that the dog that the rat bit chased ran away"
letters, U = reader(64)
for words in (1, 2, 5, 12):
    begin = " ".join(text.split()[:words])
    ids = np.array([[ALPHABET.index(letter) for letter in begin]])
    print(f"{ids.shape[1]:2} letters  {spelled(ids[0])}")
    print(
        f"   one vector  {spelled(unsqueeze(squeeze(ids, letters, U), ids.shape[1], letters, U)[0])}"
    )
    print(f"   look-up     {spelled(look_up(ids, letters, np.random.default_rng(10))[0])}")

# %% [markdown]
# Nothing vanished: every letter is in $h$ as loud as on its first day. They are all in there *at once*, and drown each other.
# On paper: rotated back to one letter, the other $n - 1$ are random vectors of length 1, and along any direction each
# contributes a variance of $1/d$. So
#
# $$\text{signal } 1, \qquad \text{noise } \sqrt{(n - 1)/d} .$$
#
# The noise has 26 wrong letters to make look right, and the largest of 26 normal numbers is about two standard deviations. Half
# of the letters should be lost when $2 \sqrt{n/d} \approx 1$, at $n \approx d/4$: **linear in** $d$.


# %%
def recalled(n, d, trials=12):
    """-> the shares of letters recalled from one vector, and by look-up."""
    rng = np.random.default_rng([11, n, d])
    letters, U = reader(d, seed=n)
    ids = rng.integers(len(ALPHABET), size=(trials, n))
    squeezed = unsqueeze(squeeze(ids, letters, U), n, letters, U)
    return [np.mean(found == ids) for found in (squeezed, look_up(ids, letters, rng))]


SIZES = (4, 8, 16, 32, 64, 128, 256, 512)
shares = {d: [recalled(n, d) for n in SIZES] for d in (16, 64, 256)}
rows = []
for n, *pairs in zip(SIZES, *shares.values(), strict=True):
    rows.append([n, *(f"{pair[which]:.0%}" for which in (0, 1) for pair in pairs)])
table("letters | one vector, d = 16 | 64 | 256 | look-up, d = 16 | 64 | 256", rows)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.4, 3.2))
    drawn = (("-", "v", 16), ("--", "s", 64), (":", "o", 256))
    for which, colour, name in ((0, ORANGE, "one vector"), (1, BLUE, "look-up")):
        for line, marker, d in drawn:
            share = [pair[which] for pair in shares[d]]
            label = f"{name}, $d = {d}$"
            ax.plot(SIZES, share, ls=line, marker=marker, color=colour, label=label)
    ax.axhline(1 / 27, color=GREY, lw=0.8)
    ax.text(4, 0.055, "guessing", fontsize=8, color=GREY)
    ax.set(xscale="log", xlabel="letters read", ylabel="share recalled", ylim=(0, 1.05))
    ax.set_xticks(SIZES, [str(n) for n in SIZES])
    ax.minorticks_off()
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
show_figure(
    fig,
    "copying",
    "Recall from one vector falls to half at about d/4 letters, for each d; the look-up stays at 1, "
    "but for d = 16",
)

# %% [markdown]
# At $d = 64$ half is lost at 16 letters, at $d = 256$ at 64: $d/4$, as derived. And the look-up? It keeps everything, for a price that
# should be said aloud: it *stores* everything, $2 n d$ numbers where the vector has $d$. It is no better at compressing. It does
# not compress.
#
# Nor is it perfect: see $d = 16$. The right key scores $\lVert q \rVert^2 / \sqrt d \approx \sqrt d$, a wrong one about $\pm 1$. So the
# right one's $e^{\sqrt d}$ has to stand out from $n$ others of about $e^{\pm 1}$. How much weight does it get?

# %%
rows = []
for d in (16, 64, 256):
    row = [d, f"{math.exp(math.sqrt(d)):,.0f}"]
    for n in (32, 512):
        keys = np.random.default_rng([12, n]).standard_normal((n, d))
        weights = attention(keys, keys, keys)[1]  # every place asks for itself
        row.append(np.diag(weights).mean())
    rows.append(row)
table("d | e^√d | weight of the right key, n = 32 | n = 512", rows, digits=2)

# %% [markdown]
# That is a limit, too, but one that grows *exponentially* in $\sqrt d$, where the vector's grows as $d$.
#
# ### Exercise `letters_that_fit` (predict the number, ★★☆, 5 min)
#
# Perhaps our reader was only clumsy. So take the cleverest one imaginable, any code whatever, and 64 numbers of 32 bits
# each. What is the longest text, in an alphabet of 27, that it can *always* give back without a mistake?

# %%
### BEGIN SOLUTION
letters_that_fit = 430  # 27^430 <= 2^(64 * 32) < 27^431
### END SOLUTION

# %%
check("letters_that_fit", letters_that_fit)

# %% [markdown]
# That bound is far from 16, and training can find better codes than ours. But it is a bound, and the length of texts has none:
# **whatever has a fixed size forgets from some length on.** A recurrence with a larger state only does so later: chapters 14 and 15 are
# about how much later.
#
# ## What you can do now
#
# - Say what a step of a recurrence waits for, count it, and know which recurrences need not wait.
# - Count the work of a layer with its constants, and say against *what* "cheaper for $n < d$" is true.
# - Write $\partial h_n / \partial x_1$ as a product, and read from it when it vanishes, when it explodes, and when neither.
# - Say what a path of length 1 buys: a share of $1/n$ that no distance shrinks, and the whole where the query knows what it wants.
# - Bound what any vector can hold, and name the price of looking back: memory that grows with the text.
#
# | what is often said | what the cells above show |
# |---|---|
# | recurrence is cheaper where $n < d$ | the wrong way round: where $n > d$ |
# | attention is cheaper where $n < d$ | than a GRU. Than an LSTM where $n < 2d$, than a $\tanh$ recurrence never |
# | twice the text, four times the work | four is the limit for $n \gg d$; about two where $n < d/4$. Weights: four, always |
# | recurrence cannot run in parallel | through a $\tanh$ no exact short cut is known; a linear one takes $\log_2 n$ rounds |
# | attention looks at all words at once | when it reads, and when it trains; it writes one by one |
# | what is far away fades, even with LSTMs | exponentially, as usually begun; not with an open forget gate |
# | path length 1, so nothing vanishes | a blank attention hears each token with $1/n$; one that seeks, with 1 |
# | equally well at any distance | yes: it does not know the distance |
# | convolutions have a path of $\log_k n$ | dilated ones |
# | one vector is a bottleneck | yes: a simple code has lost half of $d/4$ letters, and no code holds more than its bits |
#
# Next: [01, attention as soft look-up](01_soft_lookup.ipynb), where three words look at each other, slowly.
