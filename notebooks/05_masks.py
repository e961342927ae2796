# %% [markdown]
# # 04 · Masks, and what must never leak
#
# Two networks learn to predict the next symbol. They have the same size, the same seed, the same data, and both are
# measured on fresh sequences that neither has seen. The first ends at a loss of 0.83, the second at 0.16.
# **Which one do you ship?**
#
# This chapter is about the second one. At its end you will know what a mask is, which numbers it must be made of, who may
# look at whom, and, since nobody ever saw a leak by reading code that they believed in, how to *test* that the future
# stays hidden.
#
# You need: attention and its softmax ([chapter 02](02_scale.ipynb)), and cross-entropy, $-\ln$ of the probability given to
# what then happened.

# %%
import math

import numpy as np
from matplotlib.patheffects import withStroke

from tinyattn.check.zoo import ZOO
from tinyattn.course import check, show_arrays, show_figure, table
from tinyattn.data import pad
from tinyattn.layers import Block, MultiHead, dense, dense_backward, dense_init
from tinyattn.ops import (
    attention,
    attention_backward,
    causal_mask,
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    softmax,
)
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREY, HEAT, ORANGE
from tinyattn.training.adam import Moments, adam
from tinyattn.tree import flatten

# %% [markdown]
# ## A model that knows tomorrow
#
# The world: 8 symbols on a circle. With probability 0.8 the next one is three steps further, otherwise it is any of
# the 8. The model: embeddings, positions, one block of attention and feed-forward from the library, and scores for the
# next symbol. (What positions and the rest of the block are for, chapters 06 and 07 will say; look at nothing here but `mask`.)
# Position $t$ reads symbols $0 \dots t$, or more than that: `mask` says how many.

# %%
V, L, D = 8, 8, 16  # symbols, positions, width
BLANK = V  # a ninth row of the table, for later
BLOCK = Block()  # pre-LN, of one head


def chain(rng, sequences):
    """-> (sequences, L + 1) symbols."""
    x = rng.integers(V, size=(sequences, L + 1))
    for t in range(L):
        x[:, t + 1] = np.where(rng.random(sequences) < 0.8, (x[:, t] + 3) % V, x[:, t + 1])
    return x


def next_symbol(x, rng):
    """-> inputs, targets, weights, each (sequences, L): at t stands x_t, and x_{t+1} is asked for."""
    return x[:, :-1], x[:, 1:], np.ones((len(x), L))


def forward(p, ids, mask):
    x = embedding(ids, p["symbols"]) + p["positions"][: ids.shape[1]]  # (B, n, D)
    y, block = BLOCK.forward(p["block"], x, mask=mask)
    logits, out = dense(p["out"], y)  # (B, n, V)
    return logits, (ids, block, out)


def backward(p, dlogits, cache):
    ids, block, out = cache
    dy, d_out = dense_backward(p["out"], dlogits, out)
    dx, d_block = BLOCK.backward(p["block"], dy, block)
    d_symbols = embedding_backward(dx, ids, p["symbols"])
    return {"symbols": d_symbols, "positions": dx.sum(axis=0), "block": d_block, "out": d_out}


def train(draw, task, mask, steps=300):
    """-> parameters, training losses."""
    rng = np.random.default_rng(0)
    tables = (0.5 * rng.standard_normal((rows, D)) for rows in (V + 1, L))
    tree = dict(zip(("symbols", "positions"), tables, strict=True))
    tree |= {"block": BLOCK.init(rng, D), "out": dense_init(rng, D, V)}
    vector, p = flatten(tree, np.float64)
    moments, losses = Moments(np.zeros_like(vector), np.zeros_like(vector)), []
    for step in range(1, steps + 1):
        ids, targets, weight = task(draw(rng, 64), rng)
        logits, cache = forward(p, ids, mask)
        losses.append(cross_entropy(logits, targets, weight))
        grads = backward(p, cross_entropy_backward(1.0, logits, targets, weight), cache)
        adam(vector, flatten(grads, np.float64)[0], moments, step, lr=0.01)
    return p, losses


def fresh_loss(p, draw, task, mask):
    """On 1000 new sequences, measured as in training."""
    rng = np.random.default_rng(99)
    ids, targets, weight = task(draw(rng, 1000), rng)
    return cross_entropy(forward(p, ids, mask)[0], targets, weight)


# %% [markdown]
# In use there is no tomorrow to read: the model is given the symbols so far, and asked for one more. Let us measure that
# as well, for histories of every length. **Predict before you run:** the second network has no mask. What is its
# loss in use? Guessing costs $\ln 8 = 2.08$; an oracle that knows the rule of this world pays, on average, the entropy of
# its dice:
#
# $$H = -\big(0.825 \ln 0.825 + 7 \cdot 0.025 \ln 0.025\big) = 0.80 .$$


# %%
def loss_in_use(p, draw, mask):
    """Given the first t symbols alone, what does the next one cost? The mean over t = 1..L."""
    x, losses = draw(np.random.default_rng(98), 1000), []
    for t in range(1, L + 1):
        logits, _ = forward(p, x[:, :t], None if mask is None else mask[:t, :t])
        losses.append(cross_entropy(logits[:, -1], x[:, t]))
    return np.mean(losses)


entropy = -(0.825 * math.log(0.825) + 7 * 0.025 * math.log(0.025))
causal = causal_mask(L, like=np.zeros(1))  # (L, L) boolean: True where key j <= query i
chains = {"causal mask": causal, "no mask": None}
curves, in_use, rows = {}, {}, []
for name, mask in chains.items():
    p, curves[name] = train(chain, next_symbol, mask)
    in_use[name] = loss_in_use(p, chain, mask)
    rows.append(
        [name, np.mean(curves[name][-30:]), fresh_loss(p, chain, next_symbol, mask), in_use[name]]
    )
print(f"entropy of this world {entropy:.2f}, guessing {math.log(V):.2f}")
table("model | loss in training | on fresh sequences | in use", rows, digits=2)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.4, 3.4))
    for (name, losses), colour, line, marker in zip(
        curves.items(), (BLUE, ORANGE), ("-", "--"), ("o", "X"), strict=True
    ):
        smooth = np.convolve(losses, np.ones(5) / 5, "valid")
        ax.plot(range(2, 2 + len(smooth)), smooth, line, color=colour, label=f"{name}, training")
        ax.plot(318, in_use[name], marker, color=colour, markersize=9, label=f"{name}, in use")
    for level, text in ((math.log(V), "guessing: $\\ln 8$"), (entropy, "entropy of the data")):
        ax.axhline(level, color=GREY, linewidth=0.9, linestyle=":")
        ax.text(150, level + 0.14, text, color=GREY, fontsize=9)
    ax.set(title="the better it learns to cheat, the worse it is", xlabel="step")
    ax.set(ylabel="loss, nats", ylim=(0, None), xlim=(0, 330))
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, 0.98), fontsize=8, ncols=2)
show_figure(
    fig,
    "cheat",
    "Training loss without a mask falls through the entropy of the data; in use it is worse than guessing",
)

# %% [markdown]
# The unmasked network is by far the better one in training, and in validation too: *fresh sequences do not help, since the
# target stands in the input there as well*. In use it is worse than throwing dice. It has learned to copy its neighbour on
# the right, and now there is none. This is a **leak**. Where does it look?

# %%
ids = chain(np.random.default_rng(99), 1000)[:, :-1]
_, (_, remembered, _) = forward(p, ids, None)  # p: of the last one trained, without a mask
weights = remembered.attention.weights[:, 0]  # (B, L, L)
successor = np.diagonal(weights, offset=1, axis1=-2, axis2=-1).mean()
print(
    f"weight on the next symbol, which is the target: {successor:.2f}; an even spread gives {1 / L:.2f}"
)

# %% [markdown]
# One clue was there before: 0.16 is less than the entropy, and nobody can pay less than that. But of real data you do not
# know the entropy. So measure on data of which you do.
#
# ## Noise has nothing to say
#
# Let every symbol be drawn by itself, uniformly from $V$. Whatever an honest model says about the next one, it says
# without knowing it: its probabilities $p_1 \dots p_V$ do not depend on which one comes. Then, as $\ln$ is concave (Jensen),
#
# $$\mathbb E[-\ln p_x] = -\frac1V \sum_{v} \ln p_v \;\ge\; -\ln\Big(\frac1V \sum_{v} p_v\Big) = \ln V .$$
#
# **On noise, a loss below $\ln V$ is a leak.** You need know nothing of the model.
#
# ### Exercise `loss_of_a_cheat` (predict the number, ★★☆, 5 min)
#
# Noise of 8 symbols, sequences of 9. The inputs are symbols 0 to 7, the targets symbols 1 to 8: eight positions. A network
# without a mask becomes as good a cheat as there can be. What is its loss, the mean over the eight positions, in nats?

# %%
### BEGIN SOLUTION
loss_of_a_cheat = 0.26
### END SOLUTION

# %%
check("loss_of_a_cheat", loss_of_a_cheat)

# %% [markdown]
# And what do real ones pay? A third network joins, with a mask that is wrong by one: a position sees its successor.


# %%
def noise(rng, sequences):
    """-> (sequences, L + 1) symbols, all independent."""
    return rng.integers(V, size=(sequences, L + 1))


def on_noise(name, task, mask):
    """A row: the loss on 2000 fresh sequences of noise, and how far below ln V it lies."""
    p, _ = train(noise, task, mask)
    rng = np.random.default_rng(97)
    ids, targets, weight = task(noise(rng, 2000), rng)
    logits, _ = forward(p, ids, mask)
    each = -np.log(np.take_along_axis(softmax(logits), targets[..., None], axis=-1))[..., 0]
    each = each[weight > 0]
    below = (math.log(V) - each.mean()) / (each.std() / math.sqrt(each.size))
    return [name, f"{each.mean():.3f}", "leak" if below > 5 else "none seen"]


peek = np.tri(L, k=1, dtype=bool)  # (L, L): key j <= query i + 1
honest = on_noise("causal mask", next_symbol, causal)
rows = [honest, on_noise("no mask", next_symbol, None), on_noise("off by one", next_symbol, peek)]
print(f"ln V = {math.log(V):.3f}; a leak: more than 5 standard errors below")
table("model | loss on fresh noise | verdict", rows)

# %% [markdown]
# One wrong key a row, and everything is given away: for the loss, off by one is as bad as no mask at all.
#
# ## What a mask does
#
# A mask is a boolean matrix with a row for each query and a column for each key. In this library **True = may look**:
#
# $$p_{ij} = \frac{m_{ij}\, e^{s_{ij}}}{\sum_k m_{ik}\, e^{s_{ik}}}, \qquad m_{ij} \in \{0, 1\} .$$
#
# What is hidden is missing above *and below* the line. Since $e^{-\infty} = 0$, that is the same as an ordinary softmax of
# scores in which $-\infty$ stands wherever one may not look, and so it is computed ([Vaswani et al.
# 2017](https://arxiv.org/abs/1706.03762), section 3.2.3). The causal mask has $m_{ij} = 1$ for $j \le i$ ([Kang & McAuley
# 2018](https://arxiv.org/abs/1808.09781), section III-B). Slowly, on four tokens:

# %%
rng = np.random.default_rng(3)
n, d = 4, 3
q, k, v = rng.standard_normal((3, n, d))
mask = causal_mask(n, like=q)  # (n, n)
s = q @ k.T / math.sqrt(d)  # (n, n)
hidden = np.where(mask, s, -np.inf)
show_arrays(mask=mask, s=s, hidden=hidden, weights=softmax(s, mask))

# %% [markdown]
# Where in the code? `trace` keeps every value that gets a name while the library runs; here are those of the softmax within
# attention. The $-\infty$ come in its first line, and the last leaves exact zeros.

# %%
steps = trace(attention, q, k, v, mask)
print(steps.table(call="softmax"))

# %% [markdown]
# Hidden is as good as deleted: query 1 may look at keys 0 and 1, and gets what it would get if there were no others.

# %%
out, weights = attention(q, k, v, mask)  # (n, d), (n, n)
alone, _ = attention(q[1:2], k[:2], v[:2])
np.allclose(out[1], alone[0])

# %% [markdown]
# ### Exercise `my_masked_softmax` (write the op, ★★☆, 10 min)
#
# Softmax over the last axis, of the keys that the mask allows. `mask` is boolean, of any shape that broadcasts to `s`, or
# None. A row with nothing allowed is all zeros. Scores of any finite size must be safe, and no constant that you
# like is as low as $-\infty$.


# %%
def my_masked_softmax(s, mask=None):
    """Shapes: s (..., m), mask onto (..., m) -> weights (..., m)."""
    ### BEGIN SOLUTION
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)  # (..., 1)
    top = np.where(top == -np.inf, 0, top)  # nothing allowed: -inf minus -inf would be NaN
    e = np.exp(s - top)  # exactly 0 where hidden
    total = e.sum(axis=-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)).astype(s.dtype)
    ### END SOLUTION


# %%
check("my_masked_softmax", my_masked_softmax)

# %% [markdown]
# ## Before softmax, or after?
#
# Zeroing weights *after* softmax looks like the same thing, and gives the same zeros. **Predict before you run:** what
# does each of these four do to the sum of a row; and if only scores of the *future* change, do weights of the past move?


# %%
def before(s, mask):
    return softmax(np.where(mask, s, -np.inf))


def after(s, mask):
    return softmax(s) * mask


def renormalised(s, mask):
    weights = softmax(s) * mask
    return weights / weights.sum(axis=-1, keepdims=True)


def times_mask(s, mask):
    return softmax(s * mask)


def size(x):
    return "exactly 0" if x == 0 else "rounding" if abs(x) < 1e-12 else f"{x:.2f}"


other = np.where(mask, s, s + 2)  # another future
loud = np.where(mask, s, 1000.0)  # a loud one
rows = []
for f in (before, after, renormalised, times_mask):
    with np.errstate(invalid="ignore"):
        weights, moved, shouted = (f(x, mask) for x in (s, other, loud))
    moved = np.abs(moved - weights)[mask].max()
    lost = np.isnan(shouted).any(axis=-1).sum()
    sums = weights.sum(axis=-1)
    row = [f"{sums.min():.2f}", size(weights[~mask].max()), size(moved), lost]
    rows.append([f.__name__, *row])
table("mask | smallest sum | future's weight | past moves by | NaN rows if loud", rows)

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 4, size=(9.2, 2.7))
    panels = (
        ("scores $s$", s, False),
        ("mask: ■ may look", mask, False),
        ("weights, masked before", before(s, mask), True),
        ("weights, masked after", after(s, mask), True),
    )
    for ax, (title, shown, sums) in zip(axes, panels, strict=True):
        if shown.dtype == bool:
            ax.imshow(shown, cmap="Greys", vmin=0, vmax=1.6)
        else:
            low, high = (0, 1) if sums else (None, None)
            cells = np.ma.masked_equal(shown, 0) if sums else shown
            ax.imshow(cells, cmap=HEAT, vmin=low, vmax=high)
            middle = 0.5 if sums else s.mean()
            for i, j in np.ndindex(n, n):
                if shown[i, j] != 0:
                    ink = "white" if shown[i, j] < middle else "black"
                    ax.text(
                        j, i, f"{shown[i, j]:.2f}", ha="center", va="center", color=ink, fontsize=8
                    )
        if sums:
            for i, total in enumerate(shown.sum(axis=-1)):
                ax.text(n - 0.35, i, f"Σ {total:.2f}", va="center", fontsize=8)
        ax.set(title=title, xlabel="key", xticks=range(n), yticks=range(n))
    axes[0].set_ylabel("query")
show_figure(
    fig,
    "order",
    "Scores, the causal mask, and the weights: rows masked before softmax sum to 1, rows masked after do not",
)

# %% [markdown]
# - **After, and left there:** rows do not sum to 1, and, which is worse, *it leaks*. The weights of the past were divided by
#   a sum in which the future took part. The hidden weights are exactly 0, so nobody who looks at them will notice.
# - **After, and renormalised:** on paper this is right, since the sum cancels. In floating point the past may have underflowed
#   by then, and what is left to renormalise is $0 / 0$.
# - **Times the mask:** a score of 0 is not a weight of 0; $e^0 = 1$.
# - **Before** needs no care at all.
#
# ## Which number is minus infinity?
#
# A tutorial among our sources puts $-10^9$ where one may not look, as much code does, and its comment calls that minus
# infinity. Where is it as good, and where not? Here is its op, in NumPy, beside the library's, with the shapes of its example.


# %%
def softmax_unguarded(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def tutorials_attention(q, k, v, mask=None, fill=-1e9):
    s = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        s = np.where(mask == 0, np.array(fill, s.dtype), s)
    weights = softmax_unguarded(s)
    return weights @ v, weights


q, k, v = np.random.default_rng(4).standard_normal((3, 2, 1, 10, 64))  # (batch, heads, n, d)
mask = causal_mask(10, like=q)
out, weights = tutorials_attention(q, k, v, mask)
print(f"out {out.shape}, weights {weights.shape}")
print("hidden weights are exactly 0:", bool(np.all(weights[..., ~mask] == 0)))
print("the same as the library:", np.allclose(out, attention(q, k, v, mask)[0]))

# %% [markdown]
# So far no difference. A hidden key gets the share $1 / (1 + e^{t - F})$, for a fill $F$ and an allowed score $t$, and
# once that falls below the smallest number that there is, it is exactly 0: in float64 when $F$ is 746 below $t$. People who
# must fit their fill into few bits choose smaller ones than $-10^9$. Which of these survives which scores?

# %%
print(f"exp(-745) = {math.exp(-745):.0e}, exp(-746) = {math.exp(-746)}")
tops = (0.0, -50.0, -2e4, -2e9)
rows = []
for fill in (-30.0, -100.0, -1e4, -1e9, -math.inf):
    shares = [float(softmax(np.array([t, fill]))[1]) for t in tops]
    rows.append(
        [f"{fill:g}", *("0" if x == 0 else f"{x:.0e}" if x < 0.01 else f"{x:.2f}" for x in shares)]
    )
table("fill | hidden key's weight if t = 0 | t = -50 | t = -20,000 | t = -2e9", rows)

# %% [markdown]
# A fill is a score, and scores are compared: whoever lies below it loses to what is hidden. With $d_k = 64$ a
# score of $-50$ takes $\lVert q \rVert \lVert k \rVert \ge 8 \cdot 50 = 400$ (Cauchy & Schwarz), one of $-2 \cdot 10^9$ takes 16 billion.
# If that were all, $-10^9$ would do. **Predict before you run:** a
# query that may look at *nothing*. Its four scores are 0, 1, 2, 3; all are replaced by $-10^9$, or have it added to them.
# What are its weights?

# %%
rows = []
for how in ("replaced by -1e9", "-1e9 added", "replaced by -inf"):
    row = [how]
    for dtype in (np.float64, np.float32, np.float16):
        s = np.arange(4, dtype=dtype)
        with np.errstate(all="ignore"):
            fill = np.array(-np.inf if "inf" in how else -1e9).astype(dtype)
            weights = softmax_unguarded(s + fill if "added" in how else np.where(False, s, fill))
        row.append(" ".join(f"{x:.2f}" for x in weights))
    rows.append(row)
print(f"float32 near 1e9 goes in steps of {np.spacing(np.float32(1e9)):.0f}, ", end="")
print(f"float16 ends at {np.finfo(np.float16).max:.0f}")
print("softmax of 0 1 2 3 without a mask:", " ".join(f"{x:.2f}" for x in softmax(np.arange(4.0))))
table("an empty row | float64 | float32 | float16", rows)

# %% [markdown]
# Three different answers, none of them right:
#
# - **replaced**: equal scores, however low, are equal. The query that may look at nothing looks at *everything*, evenly;
# - **added, float64**: softmax forgets constants. The mask has *vanished*: these are the unmasked weights;
# - **added, float32**: 0, 1, 2, 3 drown in steps of 64: uniform again;
# - **float16**: $-10^9$ *is* $-\infty$ there, and $-\infty - (-\infty)$ is NaN;
# - and honest $-\infty$ gives NaN as well, unless somebody thinks of the empty row.
#
# ## A row with nothing to look at
#
# What should it be? The output is a weighted mean of the values one may look at. *Hidden is as good as deleted*: a sum over
# no keys is 0. So this library says **zeros**, forward, and zero gradient, backward, and somebody has thought of the row:

# %%
rng = np.random.default_rng(5)
q, k, v = rng.standard_normal((3, 3, 2))
mask = np.array([[True, False, False], [False, False, False], [True, True, True]])
out, weights = attention(q, k, v, mask)
dq, dk, dv, _ = attention_backward(np.ones_like(out), q, k, v, weights)
show_arrays(mask=mask, weights=weights, out=out, dq=dq)

# %% [markdown]
# It is a convention, but not an arbitrary one. Look at the other two from the loss. Query 1 above stands for padding: its
# output is used nowhere, its weight in the loss is 0. **Predict:** who is harmed if its row is uniform; who, if NaN?

# %%
used = np.array([[1.0], [0.0], [1.0]])  # (n, 1): the loss does not read query 1
rows = []
for name, row in (("zeros", 0.0), ("uniform", 1 / 3), ("NaN", np.nan)):
    weights = softmax(q @ k.T / math.sqrt(2), mask)
    weights[1] = row
    dout = used * np.ones_like(v)
    with np.errstate(invalid="ignore"):
        _, dk, dv, _ = attention_backward(dout, q, k, v, weights)
        dv_if_read = attention_backward(np.ones_like(v), q, k, v, weights)[2]
        loss = (used * (weights @ v)).sum()
    broken = [int(np.isnan(x).any(axis=-1).sum()) for x in (dk, dv)]
    rows.append([name, f"{loss:.2f}", *broken, " ".join(f"{x:.2f}" for x in dv_if_read[2])])
table("the empty row | loss | NaN rows of dk | of dv | dv of hidden key 2, were query 1 read", rows)

# %% [markdown]
# NaN is not stopped by a weight of 0, since $0 \cdot \text{NaN} = \text{NaN}$: **one row that nobody reads, and the gradient
# of every key and value is lost.** Uniform does no harm as long as nobody reads the row; and the day somebody does (the
# next block's keys, a mean over positions), keys it had no business with receive its gradient. Zeros are right in both.
#
# Empty rows are no curiosity. Padding on the left makes them, and so does a mask that is too strict: both are below.
#
# ## Who may look at whom
#
# $m_{ij}$ may be any matrix. In practice it is made of two questions: *is key j later than query i?* and *is key j real?*
# The first needs $n \times m$ answers, the same for every sequence; the second $m$ for each sequence, the same for every
# query. Broadcasting joins them:

# %%
lengths = np.array([3, 5])  # of two sequences, padded to 5
n = 5
not_later = causal_mask(n, like=q)[None, None]  # (1, 1, n, n): for all sequences and heads
real = (np.arange(n) < lengths[:, None])[:, None, None]  # (B, 1, 1, n): for all heads, queries
both = not_later & real  # (B, 1, n, n)
show_arrays(not_later=not_later[0, 0], real=real[:, 0, 0], both_of_the_first=both[0, 0])

# %% tags=["hide-input"]
left = np.arange(5) >= 2
source = np.broadcast_to(np.arange(6) < 4, (3, 6))
panels = (
    ("both ways", np.ones((5, 5), bool), "token", "token"),
    ("causal", np.tri(5, dtype=bool), "token", "token"),
    ("causal,\npadded right", np.tri(5, dtype=bool) & (np.arange(5) < 3), "x x x · ·", "token"),
    ("causal,\npadded left", np.tri(5, dtype=bool) & left, "· · x x x", "token"),
    ("3 newest\nof 5", np.tri(3, 5, k=2, dtype=bool), "token", "newest"),
    ("cross: source\npadded right", source, "source", "target"),
)
with style():
    fig, axes = figure(1, 6, size=(10.4, 2.7))
    for ax, (title, allowed, keys, queries) in zip(axes, panels, strict=True):
        ax.imshow(np.where(allowed, 0.6, 0.06), cmap="Greys", vmin=0, vmax=1)
        for i, j in np.ndindex(allowed.shape):
            ax.text(
                j,
                i,
                "●" if allowed[i, j] else "",
                ha="center",
                va="center",
                color="white",
                fontsize=7,
            )
        for i in np.flatnonzero(~allowed.any(axis=-1)):
            ax.text(
                allowed.shape[1] / 2 - 0.5,
                i,
                "nothing",
                ha="center",
                va="center",
                color=ORANGE,
                fontsize=8,
            )
        ax.set(
            title=title, xlabel=f"keys: {keys}", ylabel=f"queries: {queries}", xticks=[], yticks=[]
        )
show_figure(
    fig,
    "masks",
    "Six masks: both ways, causal, causal with padding on the right and on the left, newest queries, cross-attention",
)

# %% [markdown]
# ### The shape that cannot be causal
#
# The same tutorial asks for a mask of shape (batch, 1, 1, keys), and says that it is usually the look-ahead mask. Read the
# shape: *one row of permissions for all queries.* That is the shape of padding. Causality says of key 1: hidden from
# query 0, allowed to query 1. No single row says both. How near does it come? For four tokens there are only 16 such masks:

# %%
causal_4 = causal_mask(4, like=q)
rows, quiet = [], 0
for code in range(16):
    row = np.array([bool(code >> j & 1) for j in range(4)])
    leaks, hides = (row & ~causal_4).sum(), (~row & causal_4).sum()
    quiet += leaks == 0
    if leaks == 0 or row.all() or leaks + hides <= 4:
        rows.append([" ".join("■" if x else "·" for x in row), leaks, hides])
print(f"{quiet} of 16 do not leak; those, the one that hides nothing, and the best two:")
table("mask (1, 1, 1, 4) | pairs that leak | pairs hidden that should not be", rows)

# %% [markdown]
# Two of the sixteen do not leak: the one that hides everything, and the one that shows everybody the first token only. A
# model with such a mask either cheats or forgets. The shape must be (batch, 1, queries, keys).
#
# ### Exercise `fewest_wrong_pairs` (predict the number, ★★☆, 6 min)
#
# The tutorial's example has 10 tokens, so 100 pairs of query and key. Of all masks of shape (1, 1, 1, 10), take the one that
# differs from the causal mask in as few pairs as possible. In how many?

# %%
### BEGIN SOLUTION
fewest_wrong_pairs = 25
### END SOLUTION

# %%
check("fewest_wrong_pairs", fewest_wrong_pairs)

# %% [markdown]
# (Its docstring also allows values of another length than the keys. A weight multiplies a value: there must be as many.)

# %%
try:
    attention(np.ones((4, 8)), np.ones((6, 8)), np.ones((5, 8)))
except ValueError as error:
    print(error)

# %% [markdown]
# ### Padding: left or right?
#
# Sequences of a batch have different lengths, so short ones are filled up. The rule: **what padding holds must move nothing,
# and what happens there must teach nothing.** Three real tokens and three of padding, through a whole block of the library.
# First the padding holds zeros; then all thousands, which is how it is often tested; then any numbers. Many write-ups of
# SASRec pad on the left. **Predict:** which of these five are safe, and does the test with thousands know?

# %%
rng = np.random.default_rng(6)
TWO_HEADS = Block(MultiHead(heads=2))
p = TWO_HEADS.init(rng, 8)
tokens = rng.standard_normal((3, 8))
width = 6
fillings = (np.zeros((6, 8)), np.full((6, 8), 1000.0), rng.standard_normal((6, 8)))
here = {"left": slice(3, 6), "right": slice(0, 3)}  # where the tokens are, if padded there


def padded(side, filling):
    """-> (6, 8): the three tokens, and on this side of them padding."""
    x = filling.copy()
    x[here[side]] = tokens
    return x


rows, results = [], {}
for side, name in (
    ("right", "none"),
    ("right", "causal"),
    ("right", "keys"),
    ("left", "causal"),
    ("left", "causal and keys"),
):
    keys = np.zeros(width, bool)
    keys[here[side]] = True
    allowed = np.ones((width, width), bool)
    if "causal" in name:
        allowed &= causal_mask(width, like=tokens)
    if "keys" in name:
        allowed &= keys  # (width,): one row for all queries, which is what padding needs
    ys = [TWO_HEADS.forward(p, padded(side, x), mask=allowed) for x in fillings]
    zeros, thousands, anything = (y[here[side]] for y, _ in ys)
    dy = np.zeros((width, 8))
    dy[here[side]] = rng.standard_normal((3, 8))  # the loss reads real positions only
    dx, _ = TWO_HEADS.backward(p, dy, ys[-1][1])
    results[side, name] = anything
    found = (thousands - zeros, anything - zeros, dx[~keys])
    exact = ["exactly 0" if np.all(x == 0) else "not 0" for x in found]
    rows.append([side, name, *exact, int((~allowed.any(axis=-1)).sum())])
heads = "padded | mask | moved by thousands | moved by anything | gradient at padding | empty rows"
table(heads, rows)

# %% [markdown]
# The first surprise is the test. With thousands, *nothing* moves, not even without a mask: LayerNorm (chapter 07) stands at the
# door of the block, and subtracts from each row its mean. A row of equal numbers is a row of zeros to it, whatever the number.
# **A leak test is as good as its perturbation**: change tokens in random directions.
#
# **Padded on the right, a causal mask is enough.** Padding *is* the future there: a real query never gets as far. (The
# padding does look at real tokens; its outputs are simply read by nobody, and the loss gives them weight 0.) Padded on
# the left, the causal mask shows every token all the padding; it needs a key mask as well, which is another one for each
# sequence, and leaves the first rows empty. That is why this library pads on the right. The sources that pad on the left
# describe the same function:

# %%
unpadded = TWO_HEADS.forward(p, tokens, mask=causal_mask(3, like=tokens))[0]
print(
    "right = left:     ",
    np.allclose(results["right", "causal"], results["left", "causal and keys"]),
)
print("right = unpadded: ", np.allclose(results["right", "causal"], unpadded))

# %% [markdown]
# One thing must come along: *positions*. Padding on the left puts the newest item at the same place in every history. The
# library's batches pad on the right, and say so in `slots`: which learned position each item takes. The newest takes the last.

# %%
batch = pad([np.array([4, 2, 7]), np.array([5, 1, 3, 8, 6])], maxlen=6)
show_arrays(ids=batch.ids, slots=batch.slots)

# %% [markdown]
# ### Cross-attention: the mask is a rectangle
#
# A decoder's queries, $n$ target tokens, look at $m$ source tokens. All of the source has been read before the first target
# token is written, so nothing there is the future. Only its padding is hidden: a mask of shape (batch, 1, 1, $m$), and here
# this shape is right. What if somebody passes the causal one, cut to size?

# %%
rng = np.random.default_rng(7)
target = rng.standard_normal((3, 4))  # n = 3
memory = rng.standard_normal((6, 4))  # m = 6, the last two are padding
rows = []
for name, allowed in (
    ("source's padding hidden", np.arange(6) < 4),
    ("causal, cut to 3 x 6", np.tri(3, 6, dtype=bool)),
    ("none", None),
):
    base = attention(target, memory, memory, allowed)[0]
    heard = []
    for j in range(6):
        changed = memory.copy()
        changed[j] += 1
        moved = attention(target, changed, changed, allowed)[0] != base  # (n, 4)
        heard.append(int(moved.any(axis=-1).sum()))
    rows.append([name, " ".join(map(str, heard[:4])), " ".join(map(str, heard[4:]))])
table("mask | targets that hear source token 0 1 2 3 | that hear padding 4 5", rows)

# %% [markdown]
# Cut to size, it leaks nothing, and the first target hears one token of four. Too strict is a bug, too.
#
# ### Exercise `my_decoder_weights` (write the op, ★★☆, 12 min)
#
# When a model writes token after token, keys of the past are kept, and only the newest $n$ of $m$ positions come as queries:
# query $i$ stands at position $m - n + i$. Sequences are padded on the right: `lengths` says how many of the $m$ keys are
# real. Make the mask, and return the library's `softmax(s, mask)`. `lengths` has the leading axes of `s`, of which
# there may be none, one, or several.


# %%
def my_decoder_weights(s, lengths):
    """Shapes: s (..., n, m), lengths (...) -> weights (..., n, m)."""
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
# Do not read the code. **Change one token, and see which outputs move.** `influence` draws the mask of any function from
# the outside. Entry $(i, j)$ is 0 only if output $i$ is the same *to the last bit*.


# %%
def influence(f, x, by=1.0):
    """f: (n, D) -> (n, E). -> (n, n): how far output i moves when token j does."""
    base = f(x)
    moved = np.zeros((len(x), len(x)))
    for j in range(len(x)):
        changed = x.copy()
        changed[j] += by * np.cos(np.arange(x.shape[1]))  # in a direction that no norm takes out
        moved[:, j] = np.abs(f(changed) - base).max(axis=-1)
    return moved


x = np.random.default_rng(8).standard_normal((5, 4))
causal_5 = causal_mask(5, like=x)
show_arrays(moved=influence(lambda x: attention(x, x, x, causal_5)[0], x))

# %% [markdown]
# Bitwise is no pedantry. A hidden weight is exactly 0, and $0 \cdot v_j$ adds exactly 0, for every finite $v_j$; same shapes,
# same order of additions, same bits. Any tolerance would be room for a leak to live in. Now six attentions, five of
# them from the zoo of known bugs that this library is tested on:

# %%
ATTENTIONS = {
    "right": frozenset(),
    "off_by_one_peek": frozenset(["off_by_one_peek"]),
    "mask_after_softmax": frozenset(["mask_after_softmax"]),
    "mask_first_row": frozenset(["mask_first_row"]),
    "off_by_one_mask": frozenset(["off_by_one_mask"]),
    "mask_transposed": frozenset(["mask_transposed"]),
}
maps = {}
for name, bugs in ATTENTIONS.items():
    op = ZOO["attention"].make(bugs).attention
    maps[name] = influence(lambda x, op=op: op(x, x, x, causal_5)[0], x)

past, future = causal_5, ~causal_5
rows = [
    [name, int((m[future] > 0).sum()), int((m[past] == 0).sum()), int((np.diag(m) == 0).sum())]
    for name, m in maps.items()
]
table(
    "attention | of 10 pairs that must not move, do | of 15 that must, do not | of them, a token itself",
    rows,
)

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 6, size=(10.4, 2.4))
    for ax, (name, moved) in zip(axes, maps.items(), strict=True):
        shades = np.ma.masked_equal(moved, 0)
        ax.imshow(np.ma.log10(shades), cmap=HEAT, vmin=-3, vmax=0.3)
        for i, j in np.ndindex(moved.shape):
            if j > i and moved[i, j] > 0:
                mark = ax.text(j, i, "!", ha="center", va="center", color="black", fontsize=12)
                mark.set(
                    weight="bold", path_effects=[withStroke(linewidth=2.5, foreground="white")]
                )
            if j <= i and moved[i, j] == 0:
                ax.text(j, i, "?", ha="center", va="center", color=GREY, fontsize=11)
        ax.set(title=name, xlabel="token changed", xticks=[], yticks=[])
        ax.title.set_fontsize(8.5)
    axes[0].set_ylabel("output")
show_figure(
    fig,
    "moves",
    "Who moves whom in six attentions: marks show what moves and must not, and what does not move and should",
)

# %% [markdown]
# Bright moves much, dark little, blank not a bit; **!** is a leak, **?** something that should arrive and does not. Two
# columns of numbers, because there are two ways to be wrong: *off_by_one_mask* and *mask_first_row* leak nothing. **A leak
# test alone is passed by a model that is blind.** The present, and all the past, must arrive.
#
# One number is odd. *off_by_one_mask* hides all five tokens from themselves, and only two are missed. In self-attention a
# token comes in three times: as key, as value, *and as the query of its own row*. From the third row on there are keys to
# choose among, so the query moves the output, and the hidden key goes unnoticed. Whoever tests a mask must move keys
# and values, and leave the queries alone.
#
# ### Exercise `nothing_leaks` (write the property that kills this bug, ★★☆, 10 min)
#
# Now a test of attention itself, with its three inputs. `nothing_leaks` is given a function `attention(q, k, v, mask) -> out,
# weights`. It returns True where no output moves, not by a bit, with what its query may not look at, and False
# otherwise. The bug it must kill is the sly one, the mask after softmax; the plain ones must not pass either.


# %%
def nothing_leaks(attention):
    """True where attention(q, k, v, mask) -> out, weights lets nothing through a causal mask."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 5, 4))
    mask = np.tri(5, dtype=bool)
    out = attention(q, k, v, mask)[0]
    for t in range(1, 5):
        other_k, other_v = k.copy(), v.copy()
        other_k[t:] = rng.standard_normal((5 - t, 4))  # a key's score, and
        other_v[t:] = rng.standard_normal((5 - t, 4))  # its value: two ways into an output
        if not np.array_equal(attention(q, other_k, other_v, mask)[0][:t], out[:t]):
            return False
    return True
    ### END SOLUTION


# %%
check("nothing_leaks", nothing_leaks)

# %% [markdown]
# ### Exercise `everything_arrives` (write the property that kills this bug, ★★☆, 8 min)
#
# The other side. `everything_arrives` is given the same function, and returns True where every output moves with *each* token
# that its query may look at. The bug it must kill hides every token from itself.


# %%
def everything_arrives(attention):
    """True where attention(q, k, v, mask) -> out, weights shows each query all that a causal mask allows."""
    ### BEGIN SOLUTION
    q, k, v = np.random.default_rng(0).standard_normal((3, 5, 4))
    mask = np.tri(5, dtype=bool)
    out = attention(q, k, v, mask)[0]
    for t in range(5):
        other = v.copy()
        other[t] += 1
        moved = (attention(q, k, other, mask)[0] != out).any(axis=-1)  # (n,)
        if not moved[t:].all():
            return False
    return True
    ### END SOLUTION


# %%
check("everything_arrives", everything_arrives)

# %% [markdown]
# ### Strict or inclusive?
#
# May a token look at itself, $j \le i$, or only at what came before, $j < i$? At position $i$ the input is $x_i$ and the
# target $x_{i+1}$: the token itself is no secret, it is the newest thing that is known. **Inclusive is right; what hides the
# answer is the shift of the targets.** Strict leaks nothing either, but hides the newest token from attention, and leaves
# query 0 nothing to look at. **Predict:** in a whole block, will the test of the present notice a strict mask?

# %%
strict = np.tri(5, k=-1, dtype=bool)
p_1 = BLOCK.init(np.random.default_rng(9), 4)
p_2 = BLOCK.init(np.random.default_rng(10), 4)
peek_5 = np.tri(5, k=1, dtype=bool)


def block(p, x, mask):
    return BLOCK.forward(p, x, mask=mask)[0]


MODELS = {
    "attention, causal": lambda x: attention(x, x, x, causal_5)[0],
    "attention, strict": lambda x: attention(x, x, x, strict)[0],
    "block, causal": lambda x: block(p_1, x, causal_5),
    "block, strict": lambda x: block(p_1, x, strict),
    "two blocks, causal": lambda x: block(p_2, block(p_1, x, causal_5), causal_5),
    "two blocks, off by one": lambda x: block(p_2, block(p_1, x, peek_5), peek_5),
    "two blocks, no mask": lambda x: block(p_2, block(p_1, x, None), None),
}
rows = []
for name, f in MODELS.items():
    moved = influence(f, x) > 0
    ahead = max((j - i for i, j in np.argwhere(moved)), default=0)
    earlier = past & ~np.eye(5, dtype=bool)
    shares = (
        f"{moved[earlier].sum()} of 10",
        f"{np.diag(moved).sum()} of 5",
        f"{moved[future].sum()} of 10",
    )
    rows.append([name, *shares, ahead])
table("model | the past arrives | the present | the future | ahead by", rows)

# %% [markdown]
# The residual carries $x_i$ around attention, and **a strict mask cannot be seen from outside the block**: test it where it
# acts. Leaks, on the other hand, grow: off by one in each of two blocks is off by two. And where nothing is hidden, as in
# BERT and its kin, every pair must move every other, all 25 of them.
#
# So what does a strict mask cost? Back to the circle, where the newest symbol is all that counts. **Predict before you run.**

# %%
strict_8 = np.tri(L, k=-1, dtype=bool)
p, _ = train(chain, next_symbol, strict_8)
print(f"strict: in use {loss_in_use(p, chain, strict_8):.2f}, ", end="")
print(f"inclusive: {in_use['causal mask']:.2f}, entropy {entropy:.2f}")

# %% [markdown]
# Nothing that could be seen: the residual delivers the newest symbol. A bug with no symptom on this task is found by a test, or
# never.
#
# ### The same with gradients
#
# What cannot be seen has no gradient: $\partial\,\text{out}_i / \partial x_j = 0$, *exactly*, since the hand-derived
# backward multiplies by the same zero weights. One backward for each output row:


# %%
def sensitivity(x, mask):
    """-> (n, n): the norm of the gradient that reaches token j from output i, through two blocks."""
    y, first = BLOCK.forward(p_1, x, mask=mask)
    z, second = BLOCK.forward(p_2, y, mask=mask)
    found = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        dz = np.zeros_like(z)
        dz[i] = np.random.default_rng(i).standard_normal(z.shape[1])
        dy, _ = BLOCK.backward(p_2, dz, second)
        found[i] = np.linalg.norm(BLOCK.backward(p_1, dy, first)[0], axis=-1)
    return found


gradient, moved = sensitivity(x, causal_5), influence(MODELS["two blocks, causal"], x)
print("the two tests see the same mask:", np.array_equal(gradient > 0, moved > 0))
show_arrays(gradient=gradient, moved=moved)

# %% [markdown]
# ### And with prefixes
#
# A causal model cannot know how long the sequence will become, so a prefix must give the outputs of the whole:
# $f(x_{<t}) = f(x)_{<t}$. This one holds *to rounding* only: other shapes, and the sums may run in another order. It
# costs us bits, and sees something that the others do not. A right model, four wrong ones, and four tests:


# %%
def two_blocks(x):
    mask = causal_5[: len(x), : len(x)]
    return block(p_2, block(p_1, x, mask), mask)


def reads_the_end_rounded(x):
    return attention(x, x, x, causal_5[: len(x), : len(x)])[0] + np.round(x[-1])


def reads_the_length(x):
    return attention(x, x, x, causal_5[: len(x), : len(x)])[0] / len(x)


def looks_ahead(x):
    return attention(x, x, x, peek_5[: len(x), : len(x)])[0]


def looks_too_little(x):
    return attention(x, x, x, strict[: len(x), : len(x)])[0]


rows = []
for f in (two_blocks, looks_ahead, reads_the_end_rounded, reads_the_length, looks_too_little):
    moved = influence(f, x)
    tiny = influence(f, x, by=1e-6) / 1e-6  # a difference quotient: what a gradient would say
    prefixes = all(np.allclose(f(x[:t]), f(x)[:t]) for t in range(1, 5))
    fails = (
        (moved[future] > 0).any(),
        (tiny[future] > 0).any(),
        not prefixes,
        (moved[past] == 0).any(),
    )
    rows.append([f.__name__, *("caught" if caught else "-" for caught in fails)])
table("model | perturbation | gradient | prefix | does all arrive?", rows)

# %% [markdown]
# The right one passes all four. For it a source's claim holds, that a model which writes need not compute earlier tokens
# again: what was computed for a prefix stays valid, through both blocks. (`my_decoder_weights` was the mask for that.) And each
# test has its blind spot. Gradients do not see what is rounded; perturbing does not see the length; and only the last
# column sees what is missing. `tinyattn check --as causal_model` perturbs, compares prefixes, asks what
# arrives, and trains on noise, with any model that you give it.
#
# ## Leaks that no mask stops
#
# ### Exercise `repaired_model` (find the bug, ★★★, 10 min)
#
# The mask below is right. The model leaks. Find the line, put it right, and keep the rest as it is: x is (B, n, 8), and
# so is what comes out. (`check("repaired_model", hasty_model)` shows you what it sees, `influence(lambda x: hasty_model(x[None])[0],
# np.random.randn(5, 8))` who moves whom.)

# %%
W_q, W_k, W_v = np.random.default_rng(12).standard_normal((3, 8, 8)) / math.sqrt(8)


def hasty_model(x):
    """Standardise, look back, add."""
    centred = x - x.mean(axis=1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    mask = causal_mask(x.shape[1], like=x)
    return x + attention(h @ W_q, h @ W_k, h @ W_v, mask)[0]


# %%
def repaired_model(x):
    """Standardise, look back, add. Shapes: x (B, n, 8) -> (B, n, 8)."""
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    mask = causal_mask(x.shape[1], like=x)
    return x + attention(h @ W_q, h @ W_k, h @ W_v, mask)[0]
    ### END SOLUTION


# %%
check("repaired_model", repaired_model)

# %% [markdown]
# ### The answer among the inputs
#
# And some leaks are not in the model at all. Forget to shift the targets, and each position is asked for what it was just
# given: the causal mask is perfect, and of no use. Perturbing the model cannot see it, since nothing is wrong with the model.
# Noise sees it.
#
# It also settles a claim: a model that looks both ways cannot be trained on the next item, as the target stands in its
# input. True, we saw 0.3. Models that do look both ways are trained otherwise: some inputs are replaced by a blank, and
# *those* are asked for ("Cloze"; [Sun et al. 2019](https://arxiv.org/abs/1904.06690), section 3.6). Then nobody needs a
# mask, as long as the loss counts the blanks only. **Predict the four losses**, honest or not; $\ln 8 = 2.08$.


# %%
def not_shifted(x, rng):
    return x[:, 1:], x[:, 1:], np.ones((len(x), L))


def cloze(x, rng):
    """About a third of the symbols are blanked, at least the last one, and asked for."""
    blank = rng.random((len(x), L)) < 0.3
    blank[:, -1] = True
    return np.where(blank, BLANK, x[:, 1:]), x[:, 1:], blank.astype(float)


def cloze_counting_all(x, rng):
    ids, targets, weight = cloze(x, rng)
    return ids, targets, np.ones_like(weight)


rows = [
    ["causal, targets shifted", *honest[1:]],  # trained above
    on_noise("causal, targets not shifted", not_shifted, causal),
    on_noise("both ways, loss at blanks", cloze, None),
    on_noise("both ways, loss everywhere", cloze_counting_all, None),
]
print(f"ln V = {math.log(V):.3f}")
table("model and task | loss on fresh noise | verdict", rows)

# %% [markdown]
# The honest ones lie a little *above* $\ln V$: they have learned some noise, and noise does not repeat itself. (And the last
# row? Of eight symbols $0.3 \cdot 7 + 1 = 3.1$ are blanks; the others are free; $\tfrac{3.1}{8} \ln 8 = 0.806$.)
#
# ### What a mask does not stop
#
# One number goes through every mask. We said that $0 \cdot v_j$ adds exactly 0 for every *finite* $v_j$:

# %%
q, k, v = np.random.default_rng(13).standard_normal((3, 3, 2))
mask = causal_mask(3, like=q)
spoiled_k, spoiled_v = k.copy(), v.copy()
spoiled_k[2] = np.nan
spoiled_v[2] = np.nan
with np.errstate(invalid="ignore"):
    by_key, _ = attention(q, spoiled_k, v, mask)
    by_value, _ = attention(q, k, spoiled_v, mask)
    dq = attention_backward(np.ones((3, 2)), q, spoiled_k, v, softmax(q @ k.T, mask))[0]
show_arrays(NaN_key_out=by_key, NaN_value_out=by_value, NaN_key_dq=dq)

# %% [markdown]
# A NaN *score* is replaced before it does harm; a NaN *value* is multiplied by 0, and stays NaN, in rows that may not even
# look at it. A NaN key spares the past in the forward, and spoils it in the backward: $dq = ds\,k$. So padding must hold
# numbers; any numbers will do.
#
# ## What you can do now
#
# - Say what a mask is, where it belongs, and why after softmax is a leak and not only a wrong sum.
# - Choose a mask for any two sets of tokens: causal, padding, both, newest $n$ of $m$, source and target, each with its shape.
# - Test for leaks: perturb (to the last bit), take gradients (exactly 0), compare prefixes (to rounding), and always ask as
#   well whether everything *arrives*.
# - Find leaks that are not in the mask: a statistic over positions, targets not shifted, a loss that counts too much.
# - Let noise be the judge, when you do not know where to look: below $\ln V$ is a leak.
#
# | what is often said or done | what the cells above show |
# |---|---|
# | $-10^9$ is minus infinity | exactly as good where something is allowed; uniform, *unmasked* or NaN in an empty row |
# | a mask of shape (B, 1, 1, keys) is the look-ahead mask | it is a padding mask; none of its kind is causal |
# | zero the weights after softmax | the past moves with the future: a leak through the denominator |
# | validation shows whether a model generalises | a leak looks its best there; in use it is worse than guessing |
# | padding goes to the left | on the right a causal mask is enough, and the numbers are the same |
# | a token must not see itself, or it sees the answer | the shift of the targets hides the answer; inclusive leaks nothing |
# | a model that passes the leak test is right | so does a blind one; test what must arrive |
# | looking both ways leaks the target | when it is asked for the next item, yes; with blanks alone counted, no |
#
# Next: [05, many heads](05_many_heads.ipynb), where one attention becomes several.
