# %% [markdown]
# # 05 · Masks, and what must never leak
#
# Two models learn to predict the next symbol. They have the same size, the same seed and the same data, and both are
# tested on fresh sequences that neither has seen. The first reaches a loss of 0.82, the second 0.12. **Which one would
# you put to use?**
#
# **You need**: attention and its backward ([chapter 04](04_attention_backward.ipynb)). The loss here is $-\ln$ of the
# probability that the model gave to the symbol that came.
#
# **You will be able to**:
#
# - say what a mask is, and why it belongs before the softmax;
# - make a mask for the past, for padding, or for both;
# - write a test that finds a leak, and say what finds a model that sees too little.

# %% tags=["hide-input"]
import math

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patheffects import withStroke

from tinyattn.check.zoo import ZOO
from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.ops import (
    attention,
    attention_backward,
    causal_mask,
    cross_entropy,
    cross_entropy_backward,
    embedding_backward,
    linear_backward,
    softmax,
    softmax_backward,
)
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREY, HEAT, INK, ORANGE
from tinyattn.training.adam import Moments, adam
from tinyattn.tree import flatten

road(5)

# %% [markdown]
# ## A model that knows tomorrow
#
# The world has eight symbols on a circle. With probability 0.8 the next symbol is three steps further; otherwise it is
# any of the eight. The model is one attention, made of parts that you know. Each symbol and each place has a row of
# numbers, and the two are added (chapter 07 explains places). Attention collects from the positions that `mask` allows.
# Its result is added to `x`, and a linear map turns the sum into logits for the symbol that follows.


# %%
def forward(params, ids, mask):
    """ids (B, n) -> logits (B, n, V) of the symbol that follows each one, and what the backward needs."""
    x = params["symbols"][ids] + params["places"][: ids.shape[1]]  # (B, n, D)
    q, k, v = (x @ params[name] for name in ("W_q", "W_k", "W_v"))  # (B, n, D) each
    out, p = attention(q, k, v, mask)  # (B, n, D), (B, n, n)
    return (x + out) @ params["W_out"], (x, q, k, v, out, p)


# %% [markdown]
# The backward is that of chapters 03 and 04, line by line. It is folded here, with the data and the training loop.

# %% tags=["hide-input"]
V, L, D = 8, 8, 16  # symbols, positions, width
SHAPES = {"symbols": (V, D), "places": (L, D), "W_q": (D, D), "W_k": (D, D), "W_v": (D, D)}
SHAPES["W_out"] = (D, V)


def chain(rng, sequences):
    """-> (sequences, L + 1) symbols."""
    x = rng.integers(V, size=(sequences, L + 1))
    for t in range(L):
        x[:, t + 1] = np.where(rng.random(sequences) < 0.8, (x[:, t] + 3) % V, x[:, t + 1])
    return x


def noise(rng, sequences):
    """-> (sequences, L + 1) symbols, all independent."""
    return rng.integers(V, size=(sequences, L + 1))


def task(x, shift):
    """-> inputs and targets, each (sequences, L): with shift 1, x_t and x_{t+1} at position t."""
    return x[:, 1 - shift : L + 1 - shift], x[:, 1:]


def backward(params, dlogits, ids, kept):
    x, q, k, v, out, p = kept
    dx, dW_out, _ = linear_backward(dlogits, x + out, params["W_out"])
    grads = {"W_out": dW_out}
    dq, dk, dv, _ = attention_backward(dx, q, k, v, p)
    for name, upstream in (("W_q", dq), ("W_k", dk), ("W_v", dv)):
        part, grads[name], _ = linear_backward(upstream, x, params[name])
        dx = dx + part
    grads |= {"symbols": embedding_backward(dx, ids, params["symbols"]), "places": dx.sum(axis=0)}
    return {name: grads[name] for name in params}


def train(draw, mask, shift=1, steps=300):
    """-> parameters, training losses."""
    rng = np.random.default_rng(0)
    tree = {}
    for name, shape in SHAPES.items():
        size = 0.5 if name in ("symbols", "places") else 1 / math.sqrt(D)
        tree[name] = size * rng.standard_normal(shape)
    vector, params = flatten(tree, np.float64)
    moments, losses = Moments(np.zeros_like(vector), np.zeros_like(vector)), []
    for step in range(1, steps + 1):
        ids, targets = task(draw(rng, 64), shift)
        logits, kept = forward(params, ids, mask)
        losses.append(cross_entropy(logits, targets))
        grads = backward(params, cross_entropy_backward(1.0, logits, targets), ids, kept)
        adam(vector, flatten(grads, np.float64)[0], moments, step, lr=0.01)
    return params, losses


# %% [markdown]
# The first model has a causal mask: position $t$ reads the symbols $0 \dots t$. The second has none. In use there is no
# tomorrow to read: a model is given the symbols so far and asked for one more. Guessing costs $\ln 8 = 2.08$. A model
# that knows the rule of this world pays, on average, its entropy,
#
# $$H = -\big(0.825 \ln 0.825 + 7 \cdot 0.025 \ln 0.025\big) = 0.80 .$$
#
# **Predict:** what does the second model pay in use?


# %% tags=["hide-output"]
def loss_in_use(params, mask):
    """Given the first t symbols alone, what does the next one cost? The mean over t = 1..L."""
    x, losses = chain(np.random.default_rng(98), 1000), []
    for t in range(1, L + 1):
        logits, _ = forward(params, x[:, :t], None if mask is None else mask[:t, :t])
        losses.append(cross_entropy(logits[:, -1], x[:, t]))
    return np.mean(losses)


causal = causal_mask(L, like=np.zeros(1))  # (L, L) boolean: True where key j <= query i
ids, targets = task(chain(np.random.default_rng(99), 1000), shift=1)
curves, in_use, rows = {}, {}, []
for name, mask in (("causal mask", causal), ("no mask", None)):
    params, curves[name] = train(chain, mask)
    logits, kept = forward(params, ids, mask)
    in_use[name] = loss_in_use(params, mask)
    rows.append([name, cross_entropy(logits, targets), in_use[name]])
p = kept[-1]  # (B, L, L), of the model without a mask
ahead = np.diagonal(p, offset=1, axis1=-2, axis2=-1).mean()
print(f"no mask: mean attention weight on the next symbol {ahead:.2f}; evenly spread {1 / L:.2f}")
table("model | loss on fresh sequences | in use", rows, digits=2)

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(6.4, 3.6))
    for (name, losses), colour, line, marker in zip(
        curves.items(), (BLUE, ORANGE), ("-", "--"), ("o", "X"), strict=True
    ):
        smooth = np.convolve(losses, np.ones(5) / 5, "valid")
        ax.plot(range(2, 2 + len(smooth)), smooth, line, color=colour, label=f"{name}, training")
        ax.plot(318, in_use[name], marker, color=colour, markersize=10, label=f"{name}, in use")
    entropy = -(0.825 * math.log(0.825) + 7 * 0.025 * math.log(0.025))
    for level, text in ((math.log(V), "guessing: ln 8"), (entropy, "entropy of the data")):
        ax.axhline(level, color=GREY, linewidth=0.9, linestyle=":")
        ax.text(300, level + (0.07 if level > 1 else -0.22), text, color=GREY, ha="right")
    ax.set(title="The better it learns to cheat, the worse it is", xlabel="training step")
    ax.set(ylabel="loss", ylim=(0, 3.9), xlim=(0, 330))
    ax.legend(loc="upper left", fontsize=9, ncols=2)
show_figure(
    fig,
    "cheat",
    "Training loss without a mask falls far below the entropy of the data; in use that model is worse than guessing",
)

# %% [markdown]
# Without a mask the model is far better in training, and on fresh sequences too: *testing on fresh data does not help,
# because there, too, the input contains the target*. The model has learned to copy its neighbour on the right, and in
# use there is none. This is a **leak**.
#
# There was one clue: 0.12 is less than the entropy, and nobody can pay less than that. But you do not know the entropy of
# real data. So measure on data whose entropy you do know.
#
# ## Noise has nothing to say
#
# Draw every symbol independently and evenly from $V$ symbols. The probabilities $p_1 \dots p_V$ that an honest model
# gives to the next symbol cannot depend on which one comes. Since $\ln$ is concave (Jensen's inequality),
#
# $$\mathbb E[-\ln p_x] = -\frac1V \sum_{v} \ln p_v \;\ge\; -\ln\Big(\frac1V \sum_{v} p_v\Big) = \ln V .$$
#
# **On fresh noise, a loss clearly below $\ln V$ is a leak.** You need to know nothing about the model.
#
# ### Exercise `loss_of_a_cheat` (predict the number, ★★☆, 5 min)
#
# Noise of 8 symbols, in sequences of 9. Inputs are symbols 0 to 7, targets are symbols 1 to 8: eight positions. A model
# without a mask becomes as good a cheat as there can be. What is its mean loss over the eight positions?

# %%
### BEGIN SOLUTION
loss_of_a_cheat = 0.26
### END SOLUTION

# %%
check("loss_of_a_cheat", loss_of_a_cheat)

# %% [markdown]
# What do real models pay? A third one joins, with a mask that is off by one: each position sees its successor.


# %%
def on_noise(name, mask, shift=1):
    """A row: the loss on fresh noise, and whether it lies more than 5 standard errors below ln V."""
    params, _ = train(noise, mask, shift)
    ids, targets = task(noise(np.random.default_rng(97), 2000), shift)
    p = softmax(forward(params, ids, mask)[0])  # (2000, L, V)
    losses = -np.log(np.take_along_axis(p, targets[..., None], axis=-1))
    below = (math.log(V) - losses.mean()) / (losses.std() / math.sqrt(losses.size))
    return [name, f"{losses.mean():.2f}", "leak" if below > 5 else "none seen"]


peek = np.tri(L, k=1, dtype=bool)  # (L, L): key j <= query i + 1
rows = [on_noise("causal mask", causal), on_noise("no mask", None), on_noise("off by one", peek)]
print(f"ln V = {math.log(V):.2f}")
table("model | loss on fresh noise | verdict", rows)

# %% [markdown]
# One wrong key in each row gives everything away.
#
# ## What a mask does
#
# A mask is a boolean matrix with a row for each query and a column for each key. In this library **True = may look**:
#
# $$p_{ij} = \frac{m_{ij}\, e^{s_{ij}}}{\sum_k m_{ik}\, e^{s_{ik}}}, \qquad m_{ij} \in \{0, 1\} .$$
#
# A hidden key is missing in the numerator *and in the denominator*. As $e^{-\infty} = 0$, this is the ordinary softmax of logits that
# are $-\infty$ wherever the query may not look, and that is how it is computed ([Vaswani et al.
# 2017](https://arxiv.org/abs/1706.03762), section 3.2.3). The causal mask has $m_{ij} = 1$ where $j \le i$. On four
# tokens:

# %%
rng = np.random.default_rng(3)
n, d = 4, 3
q, k, v = rng.standard_normal((3, n, d))
mask = causal_mask(n, like=q)  # (n, n)
s = q @ k.T / math.sqrt(d)  # (n, n)
out, p = attention(q, k, v, mask)
alone, _ = attention(q[1:2], k[:2], v[:2])  # query 1, and only the keys that it may see
print("hidden is as good as deleted:", np.allclose(out[1], alone[0]))
show_arrays(mask=mask, s=s, s_hidden=np.where(mask, s, -np.inf), p=p)

# %% [markdown]
# The backward needs no mask at all: softmax's gradient is $p_{ij}$ times something, and a hidden $p_{ij}$ is exactly 0.
# So your backward of chapter 04 is right as it stands. Row 1 of the output depends on keys and values 0 and 1, and on
# no others:

# %%
dout = np.zeros_like(out)
dout[1] = 1  # the gradient of the sum of row 1
_, dk, dv = yours("my_attention_backward")(dout, q, k, v, p)[:3]
print("rows of dk and dv that are exactly 0:", np.flatnonzero(~(dk.any(axis=-1) | dv.any(axis=-1))))

# %% [markdown]
# ## Before the softmax, or after?
#
# Three ways: put $-\infty$ in place of hidden logits *before* softmax; multiply the attention weights by the mask
# *after* it; or multiply the logits by the mask. **Predict:** for which of the three do the rows sum to 1? And if only
# the logits of *hidden* keys change, do the weights of the allowed keys move?


# %% tags=["hide-output"]
def before(s, mask):
    return softmax(np.where(mask, s, -np.inf))


def after(s, mask):
    return softmax(s) * mask


def times_mask(s, mask):
    return softmax(s * mask)


other = np.where(mask, s, s + 2)  # another future
rows = []
for f in (before, after, times_mask):
    p = f(s, mask)
    moved = np.abs(f(other, mask) - p)[mask].max()
    sums = " ".join(f"{x:.2f}" for x in p.sum(axis=-1))
    rows.append([f.__name__, sums, f"{p[~mask].max():.2f}", f"{moved:.2f}"])
table("mask | sums of the rows | largest hidden weight | allowed weights move by", rows)

# %% tags=["hide-cell"]
with style():
    fig, axes = figure(2, 2, size=(6.6, 5.6))
    panels = (
        ("logits s", s, False),
        ("mask: ● may look", mask, False),
        ("p, masked before softmax", before(s, mask), True),
        ("p, masked after softmax", after(s, mask), True),
    )
    for ax, (title, shown, sums) in zip(axes.flat, panels, strict=True):
        if shown.dtype == bool:
            ax.imshow(np.ma.masked_equal(shown, False), cmap="Greys", vmin=0, vmax=1.7)
            for i, j in np.argwhere(shown):
                ax.text(j, i, "●", ha="center", va="center", color="white")
        else:
            low, high = (0, 1) if sums else (None, None)
            cells = np.ma.masked_equal(shown, 0) if sums else shown
            ax.imshow(cells, cmap=HEAT, vmin=low, vmax=high)
            middle = 0.5 if sums else s.mean()
            for i, j in np.ndindex(n, n):
                if shown[i, j] != 0:
                    ink = "white" if shown[i, j] < middle else "black"
                    text = f"{shown[i, j]:.2f}"
                    ax.text(j, i, text, ha="center", va="center", color=ink, fontsize=10)
        if sums:
            for i, total in enumerate(shown.sum(axis=-1)):
                ax.text(n - 0.4, i, f"Σ {total:.2f}", va="center", fontsize=10)
        ax.set(title=title, xlabel="key", ylabel="query", xticks=range(n), yticks=range(n))
show_figure(
    fig,
    "order",
    "Logits, the causal mask, and attention weights: rows masked before softmax sum to 1, rows masked after it do not",
)

# %% [markdown]
# - **After:** the rows do not sum to 1, and, which is worse, *it leaks*. The weights of the past were divided by a sum
#   that contains the future. The hidden weights are exactly 0, so nobody who looks at them will notice.
# - **Times the mask:** a logit of 0 is not a weight of 0, since $e^0 = 1$.
# - **Before** is right.
#
# ## A row with nothing to look at
#
# Some code writes $-10^9$ where we write $-\infty$. As long as a row allows any key with an ordinary logit, the result
# is the same. **Predict:** four keys with logits 0, 1, 2, 3, and *all* of them hidden. What are the weights, if the
# logits are replaced by $-10^9$; if $-10^9$ is added to them; if they are replaced by $-\infty$?


# %% tags=["hide-output"]
def plain_softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


four = np.arange(4.0)
with np.errstate(invalid="ignore"):
    replaced, added = plain_softmax(np.full(4, -1e9)), plain_softmax(four - 1e9)
    infinite = plain_softmax(np.full(4, -np.inf))
unmasked, ours = softmax(four), softmax(four, np.zeros(4, bool))
one_allowed = plain_softmax(np.where(four == 1, four, -1e9))
show_arrays(
    one_allowed=one_allowed,
    unmasked=unmasked,
    replaced=replaced,
    added=added,
    infinite=infinite,
    ours=ours,
)

# %% [markdown]
# With the logits replaced by $-10^9$, the query looks *evenly at everything*. With $-10^9$ added, *the mask has vanished*, because
# softmax ignores a constant. (In float32, $-10^9$ swallows the logits, and the row is even again.) And
# $-\infty - (-\infty)$ is NaN, "not a number".
#
# What should the row be? A hidden key is as good as a deleted one, and a sum over no keys is 0. So this library returns
# **zeros**, with zero gradient. It matters even if nobody reads the row, because $0 \cdot \text{NaN} = \text{NaN}$:

# %%
broken = softmax(s, mask)
broken[0] = np.nan  # query 0 has an empty row ...
dout = np.ones_like(v)
dout[0] = 0  # ... whose output nobody reads
_, _, dv, _ = attention_backward(dout, q, k, v, broken)
print("NaN in dv:", int(np.isnan(dv).sum()), "of", dv.size)

# %% [markdown]
# ### Exercise `my_masked_softmax` (write the op, ★★☆, 10 min)
#
# Softmax over the last axis, of the keys that the mask allows. `mask` is boolean, of any shape that broadcasts to `s`,
# or None. A row with nothing allowed is all zeros. It must be right for logits of any finite size.


# %%
def my_masked_softmax(s, mask=None):
    """Shapes: s (..., m), mask broadcasts to s -> p (..., m)."""
    ### BEGIN SOLUTION
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)  # (..., 1)
    top = np.where(top == -np.inf, 0, top)  # nothing allowed: -inf minus -inf would be NaN
    e = np.exp(s - top)  # exactly 0 where hidden
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)
    ### END SOLUTION


# %%
check("my_masked_softmax", my_masked_softmax)

# %% [markdown]
# The library's, step by step, for a row with one hidden key and a row with nothing to look at. Watch `row_max` of the second row, and
# choose a hidden logit: nothing moves with it.

# %% tags=["hide-input"]
allowed = np.array([[True, True, False], [False, False, False]])
trace(softmax, np.arange(6.0).reshape(2, 3), allowed, backward=softmax_backward).player(
    title="Softmax under a mask, forward and backward"
)

# %% [markdown]
# ## Who may look at whom
#
# Any boolean matrix is a mask. In practice it answers two questions. *Is key $j$ later than query $i$?* That needs
# $n \times m$ answers, the same for every sequence. *Is key $j$ real?* Sequences of a batch differ in length, so short
# ones are filled up with **padding**; that needs $m$ answers for each sequence, the same for every query. Broadcasting
# joins them:

# %%
lengths = np.array([3, 5])  # of two sequences, padded to 5
not_later = causal_mask(5, like=q)  # (n, n), the same for all sequences
real = (np.arange(5) < lengths[:, None])[:, None, :]  # (B, 1, n), the same for all queries
both = not_later & real  # (B, n, n)
show_arrays(real=real[:, 0], both_of_the_first=both[0])

# %% [markdown]
# Padding on the right or on the left, with the causal mask alone or with one that hides padding too: four ways.
# **Predict:** in which may the padding change without moving the output of a real token, and in which is some row empty?

# %% tags=["hide-output"]
rng = np.random.default_rng(6)
tokens, filling, other = rng.standard_normal((3, 3, 4))  # three real tokens, padding, other padding
triangle = causal_mask(6, like=tokens)
rows = []
for side, first in (("right", 0), ("left", 3)):
    here = slice(first, first + 3)  # where the real tokens are
    one, two = (np.vstack([tokens, x] if first == 0 else [x, tokens]) for x in (filling, other))
    real = np.isin(np.arange(6), np.arange(first, first + 3))  # (6,): one row for all queries
    for name, mask in (("causal", triangle), ("causal and real", triangle & real)):
        same = np.array_equal(*(attention(x, x, x, mask)[0][here] for x in (one, two)))
        rows.append([side, name, "nothing" if same else "outputs", int((~mask.any(axis=-1)).sum())])
table("padded | mask | another padding moves | empty rows", rows)

# %% [markdown]
# **Padded on the right, a causal mask is enough:** padding *is* the future there. (Padding does look at real tokens,
# but nobody reads its outputs.) On the left every sequence needs a mask of its own as well, and its first rows are
# empty. So this library pads on the right.

# %% tags=["hide-input"]
panels = (
    ("causal", np.tri(5, dtype=bool), "xxxxx"),
    ("padded right", np.tri(5, dtype=bool) & (np.arange(5) < 3), "xxx··"),
    ("padded left", np.tri(5, dtype=bool) & (np.arange(5) >= 2), "··xxx"),
    ("3 newest of 5", np.tri(3, 5, k=2, dtype=bool), "xxxxx"),
)
with style():
    fig, axes = figure(1, 4, size=(8.0, 2.6))
    for ax, (title, allowed, keys) in zip(axes, panels, strict=True):
        ax.imshow(np.ma.masked_equal(allowed, False), cmap="Greys", vmin=0, vmax=1.7)
        for i, j in np.argwhere(allowed):
            ax.text(j, i, "●", ha="center", va="center", color="white", fontsize=9)
        for i in np.flatnonzero(~allowed.any(axis=-1)):
            ax.text(2, i, "nothing", ha="center", va="center", color=ORANGE, fontsize=10)
        ax.set(title=title, xlabel="key (· = padding)", ylabel="query")
        ax.set_xticks(range(5), keys)
        ax.set_yticks(range(len(allowed)), keys[-len(allowed) :])
show_figure(
    fig,
    "masks",
    "Four masks: causal, causal with padding on the right, with padding on the left (two empty rows), and newest queries",
)

# %% [markdown]
# ### Exercise `my_decoder_weights` (write the op, ★★☆, 12 min)
#
# A model that writes one token after another keeps its old keys, and only the newest $n$ of $m$ positions come as
# queries: query $i$ stands at position $m - n + i$ (the last picture above). Sequences are padded on the right, and
# `lengths` says how many of the $m$ keys are real. Make the mask, and return `softmax(s, mask)`, the library's or your
# own. `lengths` has the leading axes of `s`: none, one or several.


# %%
def my_decoder_weights(s, lengths):
    """Shapes: s (..., n, m), lengths (...) -> p (..., n, m)."""
    ### BEGIN SOLUTION
    n, m = s.shape[-2:]
    i = np.arange(m - n, m)[:, None]  # (n, 1): positions of the queries
    j = np.arange(m)  # (m,): of the keys
    return softmax(s, (j <= i) & (j < lengths[..., None, None]))
    ### END SOLUTION


# %%
check("my_decoder_weights", my_decoder_weights)

# %% [markdown]
# ## How to test for a leak
#
# Do not read the code. **Change one token, and see which outputs move.** `influence` draws the mask of any function
# from the outside. A hidden weight is exactly 0, and $0 \cdot v_j$ adds exactly 0, so what is hidden moves nothing,
# *not by one bit*. A tolerance would only leave room for a leak.


# %%
def influence(f, x):
    """f: (n, D) -> (n, E). -> (n, n): how far output i moves when token j does."""
    base = f(x)
    moved = np.zeros((len(x), len(x)))
    for j in range(len(x)):
        changed = x.copy()
        changed[j] += np.cos(np.arange(x.shape[1]))  # any change that differs from entry to entry
        moved[:, j] = np.abs(f(changed) - base).max(axis=-1)
    return moved


# %% [markdown]
# Now six attentions. The library keeps a zoo of known bugs, on which its own tests are tested; four of them are here.
# The last one has the same bug as the one before it, but adds `x` to its output, as our model did.

# %%
x = np.random.default_rng(8).standard_normal((5, 4))
past = np.tri(5, dtype=bool)  # (5, 5): what each output must hear
maps = {}
for name in ("right", "off_by_one_peek", "mask_after_softmax", "mask_first_row", "off_by_one_mask"):
    op = attention if name == "right" else ZOO["attention"].make(frozenset([name])).attention
    maps[name] = influence(lambda x, op=op: op(x, x, x, past)[0], x)
maps["x + off_by_one_mask"] = influence(lambda x, op=op: x + op(x, x, x, past)[0], x)
rows = [[name, int((m[~past] > 0).sum()), int((m[past] == 0).sum())] for name, m in maps.items()]
table("attention | leaks, of 10 pairs | missing, of 15 pairs", rows)

# %% tags=["hide-input"]
with style():
    fig, axes = figure(2, 3, size=(8.2, 5.4))
    for ax, (name, moved) in zip(axes.flat, maps.items(), strict=True):
        size = np.ma.masked_equal(moved, 0)
        image = ax.imshow(size, cmap=HEAT, norm=LogNorm(1e-3, 2))
        for i, j in np.ndindex(moved.shape):
            if j > i and moved[i, j] > 0:
                mark = ax.text(j, i, "!", ha="center", va="center", color="black", fontsize=14)
                mark.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
                mark.set_weight("bold")
            if j <= i and moved[i, j] == 0:
                ax.text(j, i, "?", ha="center", va="center", color=INK, fontsize=13)
        ax.set(title=name, xlabel="token changed", ylabel="output", xticks=[], yticks=[])
    fig.colorbar(image, ax=axes, label="how far the output moves", fraction=0.03)
    fig.supxlabel(
        "blank: does not move;  ! moves, and must not;  ? should move, and does not", fontsize=10
    )
show_figure(
    fig,
    "moves",
    "Which token moves which output, in six attentions: ! marks a leak, ? marks what should arrive and does not",
)

# %% [markdown]
# Yellow moves much, blue little, blank not at all; **!** is a leak, **?** is something that should arrive and does not.
#
# - *mask_first_row* uses one row of permissions for all queries, a mask of shape (1, $m$). No such mask can be causal:
#   key 1 must be hidden from query 0 and shown to query 1.
# - *mask_first_row* and *off_by_one_mask* leak nothing. **A model that sees too little passes every leak test.** So
#   test as well that everything *arrives*.
# - *off_by_one_mask* hides all five tokens from themselves, yet the test misses only two pairs: in self-attention a token is also
#   the *query* of its own row, and so it moves the output even where its key is hidden. Only outputs 0 and 1 do not
#   notice: output 0 has nothing left to look at, and output 1 has one key left, whose weight is 1 whatever its query
#   says. To test a mask, change keys and values, and leave the queries alone.
# - *Adding* `x` hides the bug completely. Test a mask where it acts.
#
# May a token look at itself, then? Yes. At position $i$ the input is $x_i$ and the target is $x_{i+1}$: the token
# itself is no secret. What hides the answer is the shift of the targets.
#
# ### Exercise `nothing_leaks` (write the property that kills this bug, ★★☆, 10 min)
#
# `nothing_leaks` is given a function `attention(q, k, v, mask) -> out, p`. Return True where no output moves, not by a
# bit, with what its query may not look at, and False otherwise. The bug that it must kill is the mask after softmax:
# there it must return False. You may try it out, as `nothing_leaks(buggy("nothing_leaks"))`. Here is what the bug does:

# %%
_, p = buggy("nothing_leaks")(q, k, v, causal_mask(4, like=q))
show_arrays(p=p)


# %%
def nothing_leaks(attention):
    """True where attention(q, k, v, mask) -> out, p lets nothing through a causal mask."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 5, 4))
    mask = np.tri(5, dtype=bool)
    out = attention(q, k, v, mask)[0]
    for t in range(1, 5):
        other_k, other_v = k.copy(), v.copy()
        other_k[t:] = rng.standard_normal((5 - t, 4))  # a key's logit, and
        other_v[t:] = rng.standard_normal((5 - t, 4))  # its value: two ways into an output
        if not np.array_equal(attention(q, other_k, other_v, mask)[0][:t], out[:t]):
            return False
    return True
    ### END SOLUTION


# %%
check("nothing_leaks", nothing_leaks)

# %% [markdown]
# The test for what must *arrive* is as short: change the value at each position $t$ in turn, and ask that all outputs
# from $t$ on move, $t$ itself included. It rejects *off_by_one_mask*, which every leak test accepts.
#
# ## Leaks that no mask stops
#
# ### Exercise `repaired_model` (find the bug, ★★☆, 6 min)
#
# The mask below is right, and still the model leaks. It standardises each token (mean 0, variance 1), looks back, and
# adds. Find the wrong line, put it right, and keep the rest. To see who moves whom, try
# `influence(lambda x: buggy_model(x[None])[0], np.random.randn(5, 8))`.

# %%
W_q, W_k, W_v = np.random.default_rng(12).standard_normal((3, 8, 8)) / math.sqrt(8)


def buggy_model(x):
    """Shapes: x (B, n, 8) -> (B, n, 8)."""
    centred = x - x.mean(axis=1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    mask = causal_mask(x.shape[1], like=x)
    return x + attention(h @ W_q, h @ W_k, h @ W_v, mask)[0]


# %%
def repaired_model(x):
    """Shapes: x (B, n, 8) -> (B, n, 8)."""
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    mask = causal_mask(x.shape[1], like=x)
    return x + attention(h @ W_q, h @ W_k, h @ W_v, mask)[0]
    ### END SOLUTION


# %%
check("repaired_model", repaired_model)

# %% [markdown]
# And some leaks are not in the model at all. Forget to shift the targets, and each position is asked for the symbol
# that it was just given. The mask is perfect, and `influence` finds nothing, because nothing is wrong with the model.
# **Predict:** does noise find it?

# %% tags=["hide-output"]
print(f"ln V = {math.log(V):.2f}")
row = on_noise("causal mask, targets not shifted", causal, shift=0)
table("model and task | loss on fresh noise | verdict", [row])

# %% [markdown]
# | what is often said | what the cells above show |
# |---|---|
# | a good loss on fresh data shows that a model generalises | a leak looks its best there; in use it was worse than guessing |
# | zero the attention weights after softmax | the weights of the past move with the future: a leak |
# | $-10^9$ is as good as $-\infty$ | in a row that allows an ordinary key; an empty row becomes uniform, or loses its mask |
# | a model that passes the leak test is right | so does a blind one: test what must arrive, too |
# | a token must not see itself, or it sees the answer | the shift of the targets hides the answer |
#
# ## In five lines
#
# - A mask says which query may look at which key; it belongs before the softmax, where hidden is as good as deleted.
# - A row with nothing allowed gives zeros: anything else averages what is hidden, or spreads NaN into every gradient.
# - Padded on the right, a causal mask is enough.
# - Change one token and see which outputs move: nothing hidden may, to the last bit, and everything allowed must.
# - On fresh noise a loss clearly below $\ln V$ is a leak, wherever it is; so do not put the model with 0.12 to use.
#
# To read: [Kang & McAuley 2018](https://arxiv.org/abs/1808.09781), section III-B, where a causal mask turns attention
# into a recommender. Next: [06, many heads](06_many_heads.ipynb), where one attention becomes several.
