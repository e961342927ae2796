# %% [markdown]
# # 02 · Why √d_k
#
# Attention compares a query with every key, and then divides by a number that looks like an afterthought:
#
# $$\text{weights} = \text{softmax}\!\left(\frac{q k^\top}{\sqrt{d_k}}\right)$$
#
# Leave it out, and nothing crashes. Shapes fit, rows still sum to 1, the loss still falls. **So what would you lose?**
#
# The usual answer is one sentence: *without it gradients vanish*. At the end of this chapter you will be able to derive
# the number, say what it assumes, measure what happens without it, and find the half of that sentence that is wrong.
#
# You need: the dot product, the variance of a sum, and from [chapter 01](01_soft_lookup.ipynb) what a query, a key and a weight are.

# %%
import math
from functools import cache

import numpy as np

from tinyattn.course import check, show_arrays, show_figure, table
from tinyattn.ops import attention, attention_backward, softmax, softmax_backward
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, ORANGE

# %% [markdown]
# ## Predict first
#
# Two vectors $q$ and $k$ have $d_k = 256$ entries each, all independent, with mean 0 and variance 1. Their dot product
# $s = q \cdot k$ is a random number with mean 0. How far from 0 does it typically lie: what is its standard deviation?
#
# ### Exercise `score_std` (predict the number, ★☆☆, 3 min)
#
# Write down a number before you read on. A wrong guess that you made yourself teaches more than a right one you
# were told.

# %%
### BEGIN SOLUTION
score_std = 16
### END SOLUTION

# %%
check("score_std", score_std)

# %% [markdown]
# ## One score, slowly
#
# Two queries, three keys, four entries each. Every intermediate has a name and a shape; rows are tokens.

# %%
rng = np.random.default_rng(2)
n, m, d_k = 2, 3, 4
q = rng.standard_normal((n, d_k))
k = rng.standard_normal((m, d_k))

s = q @ k.T  # (n, d_k) @ (d_k, m) -> (n, m)
products = q[0] * k[1]  # (d_k,): what s[0, 1] is the sum of
show_arrays(q=q, k=k, s=s, products=products)

# %% [markdown]
# A score is a sum of $d_k$ products. Four of them, and they partly cancel:

# %%
print(
    " + ".join(f"({x:.3f})" for x in products),
    f"= {products.sum():.3f}, and s[0, 1] is {s[0, 1]:.3f}",
)

# %% [markdown]
# ## On paper: the variance of a score
#
# Let all entries be independent with mean 0 and variance 1. One product has mean
# $\mathbb E[q_i k_i] = \mathbb E[q_i]\,\mathbb E[k_i] = 0$, and so its variance is
#
# $$\operatorname{Var}(q_i k_i) = \mathbb E[q_i^2 k_i^2] = \mathbb E[q_i^2]\;\mathbb E[k_i^2] = 1 \cdot 1 = 1 .$$
#
# Variances of independent terms add up:
#
# $$\operatorname{Var}(q \cdot k) = \sum_{i=1}^{d_k} \operatorname{Var}(q_i k_i) = d_k ,
# \qquad \operatorname{std}(q \cdot k) = \sqrt{d_k} .$$
#
# Dividing a random number by $c$ divides its standard deviation by $c$. To bring it back to 1 whatever $d_k$
# is, there is one choice: $c = \sqrt{d_k}$. That is all the magic. Is it true?

# %%
DIMS = (4, 16, 64, 256, 1024)


@cache  # drawn once for every d_k
def scores(d_k, queries=500, keys=16):
    """Queries and keys as above, and the score of every query with keys of its own: (queries, keys)."""
    rng = np.random.default_rng(d_k)
    q = rng.standard_normal((queries, 1, d_k))
    k = rng.standard_normal((queries, keys, d_k))
    return q, k, (q @ k.swapaxes(-1, -2))[:, 0]


rows = []
for d_k in DIMS:
    s = scores(d_k)[2]
    rows.append([d_k, s.var(), s.var() / d_k, s.std(), (s / math.sqrt(d_k)).std()])
table("d_k | variance | variance / d_k | std | std after dividing by √d_k", rows)

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.4, 3.0))
    for d_k, colour, line in ((4, BLUE, "-"), (64, ORANGE, "--"), (256, GREY, ":")):
        for ax, divisor, reach in ((left, 1, 40), (right, math.sqrt(d_k), 5)):
            s = scores(d_k)[2] / divisor
            heights, edges = np.histogram(s, bins=40, range=(-reach, reach), density=True)
            middles = (edges[1:] + edges[:-1]) / 2
            ax.plot(middles, heights, line, color=colour, label=f"$d_k = {d_k}$")
            ax.set(xlabel="score", ylim=(0, None), yticks=[])
    left.set(title=r"$q \cdot k$", ylabel="how often")
    right.set(title=r"$q \cdot k \,/ \sqrt{d_k}$")
    left.legend()
show_figure(
    fig, "scores", "Histograms of scores: wider and wider without the division, the same with it"
)

# %% [markdown]
# On the left, the wider the vectors the further apart the scores: at $d_k = 256$ a score of 20 or 30 is nothing
# special. On the right they are one curve, nearly: a sum of only four products is more pointed than a bell.
#
# ## What softmax makes of them
#
# Softmax looks at *differences* of scores: a lead of $\Delta$ over another key is a weight $e^{\Delta}$ times as large.
#
# **Predict before you run:** with 16 keys, an even spread gives each key 1/16 ≈ 0.06. How much does the largest
# of the 16 get at $d_k = 256$, undivided?


# %%
def spread(weights):
    """Mean largest weight, and the number of keys that a query effectively looks at: exp of the entropy."""
    logs = np.log(np.where(weights > 0, weights, 1))
    return weights.max(axis=-1).mean(), np.exp(-(weights * logs).sum(axis=-1)).mean()


rows = []
for d_k in DIMS:
    s = scores(d_k)[2]
    rows.append([d_k, *spread(softmax(s)), *spread(softmax(s / math.sqrt(d_k)))])
table("d_k | largest weight | keys looked at | largest, divided | looked at, divided", rows)

# %% tags=["hide-input"]
with style():
    fig, axes = figure(2, 3, size=(8.4, 3.8), sharex=True, sharey=True)
    for column, d_k in zip(axes.T, (4, 64, 1024), strict=True):
        s = scores(d_k)[2][0]
        column[0].bar(range(1, 17), softmax(s), color=ORANGE)
        column[0].set_title(f"softmax$(s)$, $d_k = {d_k}$")
        column[1].bar(range(1, 17), softmax(s / math.sqrt(d_k)), color=BLUE)
        column[1].set_title(rf"softmax$(s / \sqrt{{d_k}})$, $d_k = {d_k}$")
    for ax in axes[1]:
        ax.set(xlabel="key", xticks=(1, 8, 16))
    for ax in axes[:, 0]:
        ax.set_ylabel("weight")
show_figure(
    fig, "weights", "One query's weights over 16 keys: undivided, one key takes all as d_k grows"
)

# %% [markdown]
# Undivided, a wide head looks at *one* key, and which one is an accident of the random numbers it began with.
# Softmax is **saturated**. Nothing has been learned yet, and the head is already sure.
#
# ## Saturated: what reaches the scores?
#
# To change its mind the head needs a gradient at its scores. Write one row of weights as $p = \text{softmax}(s)$. From
# $p_i = e^{s_i} / \sum_l e^{s_l}$,
#
# $$\frac{\partial p_i}{\partial s_j} = p_i\,(1[i = j] - p_j), \qquad J = \operatorname{diag}(p) - p\,p^\top .$$
#
# Look at what happens when one $p_i$ is nearly 1 and the others nearly 0: every entry of $J$ is a product with
# a factor near 0. Two rows of weights, one undecided, one sure:

# %%
undecided = np.array([0.4, 0.3, 0.3])
sure = np.array([0.998, 0.001, 0.001])
show_arrays(
    J_undecided=np.diag(undecided) - np.outer(undecided, undecided),
    J_sure=np.diag(sure) - np.outer(sure, sure),
    decimals=3,
)

# %% [markdown]
# Is that $J$ the library's? `softmax_backward(dp, p)` takes the gradient at the weights and returns the one at the scores,
# $ds_j = \sum_i dp_i J_{ij}$. Given the rows of the identity as $dp$, it must return the rows of $J$:

# %%
J = softmax_backward(np.eye(3), np.tile(undecided, (3, 1)))
np.allclose(J, np.diag(undecided) - np.outer(undecided, undecided))

# %% [markdown]
# ### Exercise `my_softmax_backward` (derive the backward, ★★☆, 10 min)
#
# $J$ has $m^2$ entries for every query: nobody builds it. Derive $ds$ from $dp$ and $p$ with nothing but sums over a row,
# and write it. `dp` and `p` have shape (..., m); softmax went along the last axis.


# %%
def my_softmax_backward(dp, p):
    """Shapes: dp, p (..., m) -> ds (..., m)."""
    ### BEGIN SOLUTION
    along = (dp * p).sum(axis=-1, keepdims=True)  # (..., 1): Σ_i dp_i p_i, the same for every j
    return p * (dp - along)
    ### END SOLUTION


# %%
check("my_softmax_backward", my_softmax_backward)

# %% [markdown]
# ## Do gradients vanish?
#
# How large is $J$? Its norm bounds what can pass: $\lVert ds \rVert \le \lVert J \rVert\,\lVert dp \rVert$.
# Multiplied out,
#
# $$\lVert J \rVert_F^2 = \sum_{ij} p_i^2\,(1[i=j] - p_j)^2 = \sum_i p_i^2 - 2 \sum_i p_i^3
# + \Big(\sum_i p_i^2\Big)^2 .$$
#
# Let us call a query *silent* if $\lVert J \rVert_F < 0.01$: whatever the loss wants, its scores hear less than
# 1 % of it.


# %%
def jacobian_norm(p):
    """‖diag(p) - p pᵀ‖ of every row: (..., m) -> (...)."""
    squares, cubes = (p**2).sum(axis=-1), (p**3).sum(axis=-1)
    return np.sqrt(np.maximum(squares - 2 * cubes + squares**2, 0))


explicit = np.linalg.norm(np.diag(undecided) - np.outer(undecided, undecided))
print(f"by the formula {jacobian_norm(undecided):.4f}, by building J {explicit:.4f}")

rows = []
for d_k in DIMS:
    s = scores(d_k)[2]
    raw, divided = jacobian_norm(softmax(s)), jacobian_norm(softmax(s / math.sqrt(d_k)))
    row = [d_k]
    for norms in (raw, divided):
        row += [norms.mean(), np.median(norms), f"{np.mean(norms < 0.01):.0%}"]
    rows.append(row)
table("d_k | mean ‖J‖ | median | silent | mean, divided | median, divided | silent, divided", rows)

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.4, 3.2))
    forms = ((True, BLUE, "o", r"divided by $\sqrt{d_k}$"), (False, ORANGE, "s", "undivided"))
    for divided, colour, marker, name in forms:
        tau = [math.sqrt(d) if divided else 1 for d in DIMS]
        norms = [jacobian_norm(softmax(scores(d)[2] / t)) for d, t in zip(DIMS, tau, strict=True)]
        left.plot(DIMS, [np.median(x) for x in norms], marker=marker, color=colour, label=name)
        low, high = ([max(np.quantile(x, share), 1e-9) for x in norms] for share in (0.25, 0.75))
        left.fill_between(DIMS, low, high, color=colour, alpha=0.2)
        silent = [np.mean(x < 0.01) for x in norms]
        right.plot(DIMS, silent, marker=marker, color=colour, label=name)
    left.set(
        title=r"$\Vert J \Vert$: median, and the middle half of queries",
        yscale="log",
        ylim=(1e-6, 1),
    )
    right.set(title="share of queries that are silent", ylim=(0, 1))
    for ax in (left, right):
        ax.set(xscale="log", xlabel="$d_k$")
        ax.set_xticks(DIMS, [str(d) for d in DIMS])
        ax.minorticks_off()
    right.legend()
show_figure(
    fig, "jacobian", "The median norm of J falls to 1e-5 without the division, stays at 0.3 with it"
)

# %% [markdown]
# So the claim holds, in this form: **undivided, the typical query falls silent as $d_k$ grows.** The *mean*
# tells a milder story than the median, since the few queries that hesitate between two keys still have a large
# $J$.
#
# ### The half that is wrong
#
# Most texts end here: small $J$, small gradients, no learning. But $ds$ is not where learning happens. The
# parameters sit behind $q$ and $k$, and from $s = c\,q k^\top$
#
# $$dq = c \; ds \; k, \qquad dk = c \; ds^\top q .$$
#
# Dividing shrinks these too: the constant that multiplies the scores multiplies their gradients. **Predict
# before you run:** at $d_k = 1024$, is the *mean* norm of $dq$ larger with the division or without it?


# %%
def norms_of_dq(d_k, scale):
    """‖dq‖ of every query, for a random gradient at the output."""
    q, k, _ = scores(d_k)
    v = np.broadcast_to(np.eye(16), (len(k), 16, 16))  # the output is the weights themselves
    out, weights = attention(q, k, v, scale=scale)  # (queries, 1, 16) twice
    dout = np.random.default_rng(0).standard_normal(out.shape)
    dq = attention_backward(dout, q, k, v, weights, scale=scale)[0]  # (queries, 1, d_k)
    return np.linalg.norm(dq, axis=(-2, -1))


rows = []
for d_k in DIMS:
    raw, divided = norms_of_dq(d_k, 1.0), norms_of_dq(d_k, None)
    row = [d_k]
    for norms in (raw, divided):
        row += [norms.mean(), np.median(norms), norms.max()]
    rows.append(row)
table("d_k | mean ‖dq‖ | median | max | mean, divided | median, divided | max, divided", rows)

# %% [markdown]
# Without the division the *mean* gradient does not vanish: it grows, and stays at about four times the divided one. Ever fewer
# queries hesitate, and each of them gets ever more, since $k$ has ever more entries. The gradient becomes **unfair**: at
# $d_k = 1024$ the median query gets a thousandth of its share, and some get more than twenty
# times what any query gets with the division. Divided, mean and median agree, and neither depends on $d_k$.
#
# "Gradients vanish" is a statement about the typical query, not about the sum that moves the weights.
#
# ## Build it
#
# ### Exercise `my_attention` (write the op, ★★☆, 10 min)
#
# All of it, without the library: scores, division, softmax, output. Any leading axes (a batch, heads) may stand
# before the last two, and scores of 10,000 must not overflow.


# %%
def my_attention(q, k, v):
    """Shapes: q (..., n, d), k (..., m, d), v (..., m, e) -> out (..., n, e), weights (..., n, m)."""
    ### BEGIN SOLUTION
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., n, m)
    e = np.exp(s - s.max(axis=-1, keepdims=True))  # softmax forgets constants: exp stays below 1
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ v, weights  # (..., n, m) @ (..., m, e) -> (..., n, e)
    ### END SOLUTION


# %%
check("my_attention", my_attention)

# %% [markdown]
# The library's is the same. Put together from this chapter's pieces, and compared:

# %%
q, k, s = scores(64)  # (500, 1, 64), (500, 16, 64), (500, 16)
v = np.random.default_rng(1).standard_normal((500, 16, 3))
by_hand = softmax(s[:, None] / math.sqrt(64)) @ v  # (500, 1, 16) @ (500, 16, 3) -> (500, 1, 3)
np.allclose(by_hand, attention(q, k, v)[0])

# %% [markdown]
# Once yours is right, open [`tinyattn/ops/attention.py`](../tinyattn/ops/attention.py): the same lines, and options for
# later chapters. (It scales $q$ before the product, not the scores after it: $n\,d$ multiplications instead of $n\,m$.)
#
# ### Exercise `repaired_backward` (find the bug, ★★☆, 8 min)
#
# This backward was written in a hurry. Shapes are right, two of its three gradients are right, and a model with it will
# train, somewhat. (How `dv` and `dp` come about is the next chapter's matter; trust them here.) Write `repaired_backward` with the one wrong line put right. `check` looks at the faulty one, too.


# %%
def hasty_backward(dout, q, k, v, weights):
    """Gradients of attention(q, k, v) -> dq, dk, dv."""
    c = 1 / math.sqrt(q.shape[-1])
    dv = weights.swapaxes(-1, -2) @ dout
    dp = dout @ v.swapaxes(-1, -2)
    ds = softmax_backward(dp, weights)
    dq = ds @ k * c
    dk = ds.swapaxes(-1, -2) @ q
    return dq, dk, dv


# %%
def repaired_backward(dout, q, k, v, weights):
    """Gradients of attention(q, k, v) -> dq, dk, dv."""
    ### BEGIN SOLUTION
    c = 1 / math.sqrt(q.shape[-1])
    dv = weights.swapaxes(-1, -2) @ dout
    dp = dout @ v.swapaxes(-1, -2)
    ds = softmax_backward(dp, weights)
    dq = ds @ k * c
    dk = ds.swapaxes(-1, -2) @ q * c
    return dq, dk, dv
    ### END SOLUTION


# %%
check("repaired_backward", repaired_backward)

# %% [markdown]
# ## What the derivation assumed
#
# Three things: mean 0, variance 1, independence. Break them one by one, and measure $q \cdot k / \sqrt{d_k}$:
#
# - **mean 1**: every product gains 1 on average, every score $\sqrt{d_k}$: softmax forgets that, since all keys gain it alike.
#   And scores spread by $\sqrt 3$, since $\operatorname{Var}(q_i k_i) = 2 \cdot 2 - 1$;
# - **standard deviation 2**: the variance of a product is $2^2 \cdot 2^2$, so scores spread by 4;
# - **the same vector as query and key**, as when a token meets itself with $W_Q = W_K$: the score is
#   $\lVert q \rVert^2 / \sqrt{d_k}$, about $\sqrt{d_k}$, and never negative;
# - **entries that move together**, in the extreme all equal: the sum of $d_k$ equal terms grows as $d_k$, not as its root.


# %%
def cases(d_k, pairs=10_000):
    """Pairs q, k of the right shape (pairs, d_k), each breaking one assumption."""
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((2, pairs, d_k))
    shared_q, shared_k = rng.standard_normal((2, pairs, 1)) * np.ones(d_k)
    return {
        "as assumed": (q, k),
        "mean 1": (q + 1, k + 1),
        "standard deviation 2": (2 * q, 2 * k),
        "the same vector": (q, q),
        "all entries equal": (shared_q, shared_k),
    }


rows = {name: [name] for name in cases(1)}
for d_k in (64, 256):
    for name, (q, k) in cases(d_k).items():
        s = (q * k).sum(axis=-1) / math.sqrt(d_k)  # (pairs,)
        rows[name] += [round(s.mean(), 1) + 0.0, s.std()]
rows = list(rows.values())
table("entries | mean, d_k = 64 | std, 64 | mean, d_k = 256 | std, 256", rows, digits=2)

# %% [markdown]
# "The division brings the variance back to 1" is therefore a statement about the *beginning* of training, and about an
# initialisation. For a token of $D$ entries those of $q = x W_Q$ have the variance $D \operatorname{Var}(W)\operatorname{Var}(x)$
# each. Five initialisations in common use, on normalised tokens of $D = 512$ and heads of $d_k = 64$:

# %%
D, d_k, tokens = 512, 64, 400
rng = np.random.default_rng(4)
x = rng.standard_normal((tokens, D))


def uniform(shape):
    return rng.uniform(-1, 1, shape)


inits = (  # how W is drawn, and how far it spreads
    ("normal, variance 1 / D (LeCun)", rng.standard_normal, 1 / math.sqrt(D)),
    ("Glorot, uniform, all heads as one D x D matrix", uniform, math.sqrt(6 / (D + D))),
    ("Glorot, uniform, each head its own D x d_k matrix", uniform, math.sqrt(6 / (D + d_k))),
    ("uniform within 1 / √D (nn.Linear of PyTorch)", uniform, 1 / math.sqrt(D)),
    ("normal, standard deviation 0.02 (BERT, GPT-2)", rng.standard_normal, 0.02),
)
rows = []
for name, draw, size in inits:
    q, k = (x @ (size * draw((D, d_k))) for _ in "qk")  # (tokens, d_k) twice
    s = q @ k.T / math.sqrt(d_k)
    others = s[~np.eye(tokens, dtype=bool)]
    weights = attention(q[:16], k[:16], np.eye(16))[1]
    rows.append([name, q.std(), others.std(), weights.max(axis=-1).mean()])
table("W_Q and W_K | std of q | std of q·k / √d_k | largest of 16 weights", rows, digits=2)

# %% [markdown]
# The same division leaves scores that spread by 0.2 or by 1.8. Nor is a head that begins nearly uniform, as in the last
# row, broken: it begins by averaging, and learns where to look.
#
# ### Exercise `transformer_divisor` (predict the number, ★☆☆, 2 min)
#
# Some write-ups divide by $\sqrt d$, where $d$ is everywhere else the model's width. The Transformer's big model has width
# 1,024, and 16 heads that share it evenly (chapter 05). What are its scores divided by?

# %%
### BEGIN SOLUTION
transformer_divisor = 8
### END SOLUTION

# %%
check("transformer_divisor", transformer_divisor)

# %% [markdown]
# ## The same thing seen as a temperature
#
# $\text{softmax}(s / \tau)$ is softmax at temperature $\tau$. Cold, it takes the largest; hot, it takes the mean; and
# $\sqrt{d_k}$ is the temperature at which random vectors are neither. `attention` takes the factor $1/\tau$ as `scale`.

# %%
q, k = (x[0] for x in scores(64, queries=1)[:2])  # (1, 64), (16, 64)
v = np.arange(16.0)[:, None]  # (16, 1): key j has the value j
rows = []
for tau in (0.01, 1, 4, 8, 32, 1e6):
    out, weights = attention(q, k, v, scale=1 / tau)
    rows.append([f"{tau:g}", weights.max(), spread(weights)[1], out[0, 0]])
best = int(np.argmax(q @ k.T))
print(f"the key with the largest score is number {best}; the mean of all values is {v.mean()}")
table("temperature | largest weight | keys looked at | output", rows)

# %% [markdown]
# And a temperature can hide anywhere in front of the softmax. Divide the queries by $\sqrt{d_k}$, or $W_Q$,
# which makes them, and you need divide nothing else. T5 does so: its attention has no $\sqrt{d_k}$, its
# initialisation of $W_Q$ has it.

# %%
folded = attention(q / math.sqrt(64), k, v, scale=1.0)[0]
np.allclose(attention(q, k, v)[0], folded)

# %% [markdown]
# ## Does it matter? A small experiment
#
# A head learns a look-up: 16 tokens, one of them asked for (in a rotated form, so that the head has something
# to find out), each with a one-hot value. Squared error, plain gradient descent, $d_k = 256$. Three heads:
# divided, undivided, and undivided with $\sqrt{d_k}$ folded into the first $W_Q$. **Predict before you run:** whose
# first loss is the worst, and whose last? (Guessing uniformly costs 0.94; being sure, and wrong, costs 2.)


# %%
def train(scale, fold=1.0, rate=0.1, d_k=256, D=32, m=16, B=32, steps=150):
    """-> losses, the share of silent queries at the first step, std of scores, first and last."""
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.standard_normal((D, D)))[0]
    c = 1 / math.sqrt(d_k) if scale is None else scale
    W_q, W_k = rng.standard_normal((2, D, d_k)) / math.sqrt(D)
    W_q /= fold
    v = np.broadcast_to(np.eye(m), (B, m, m))
    losses, silent, spreads = [], 0.0, []
    for step in range(steps):
        memory, wanted = rng.standard_normal((B, m, D)), rng.integers(m, size=B)
        x = (memory[range(B), wanted] @ turn)[:, None]  # (B, 1, D)
        q, k = x @ W_q, memory @ W_k  # (B, 1, d_k), (B, m, d_k)
        out, weights = attention(q, k, v, scale=scale)  # (B, 1, m) twice
        error = out[:, 0] - np.eye(m)[wanted]
        losses.append((error**2).sum(axis=-1).mean())
        dq, dk, _, _ = attention_backward(2 * error[:, None] / B, q, k, v, weights, scale=scale)
        W_q -= rate * np.tensordot(x, dq, axes=((0, 1), (0, 1)))
        W_k -= rate * np.tensordot(memory, dk, axes=((0, 1), (0, 1)))
        if step == 0:
            silent = np.mean(jacobian_norm(weights) < 0.01)
        spreads.append((c * q @ k.swapaxes(-1, -2)).std())
    return losses, silent, spreads[0], spreads[-1]


runs = {"divided": train(None), "undivided": train(1.0), "folded into W_Q": train(1.0, fold=16)}
rows = []
for name, (losses, silent, first, last) in runs.items():
    rows.append([name, losses[0], f"{silent:.0%}", np.mean(losses[-30:]), first, last])
table("head | first loss | silent | mean of last 30 | std of scores, first | last", rows, digits=2)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.0, 3.2))
    for (name, (losses, *_)), colour, line in zip(
        runs.items(), (BLUE, ORANGE, GREY), ("-", "--", ":"), strict=True
    ):
        ax.plot(np.convolve(losses, np.ones(5) / 5, "valid"), line, color=colour, label=name)
    ax.set(title="a look-up learned by one head, $d_k = 256$", ylim=(0, 2))
    ax.set(xlabel="step", ylabel="squared error, mean of 5 steps")
    ax.legend()
show_figure(
    fig, "learning", "Loss of three heads: the undivided one begins worst, and all three learn"
)

# %% [markdown]
# What we see, and what we do not:
#
# - The undivided head begins *worse than not knowing*: sure, and wrong. Half of its queries are silent. That
#   was the claim.
# - And then it learns, faster than the divided one at this rate: the table of $\lVert dq \rVert$ said that the queries which
#   are not silent are loud. (No fair race: each head has a best rate of its own.) On one layer and an easy task, a missing
#   $\sqrt{d_k}$ is no catastrophe.
# - The folded head computes, at first, *exactly* what the divided one does, and learns at another speed: where
#   a constant sits changes the gradient of what stands behind it.
# - At the end no head has scores of spread 1. The division sets the *starting* temperature; training chooses
#   the final one.
#
# The [paper that introduced the division](https://arxiv.org/abs/1706.03762) was careful: of the reason its authors say
# "we suspect". A sentence repeated often enough loses its *suspect*.
#
# ### Exercise `knows_the_scale` (write the property that kills this bug, ★★★, 15 min)
#
# A missing $\sqrt{d_k}$ passes every test of shapes, of row sums, of masks. Write a test that it cannot pass, without
# writing attention a second time. `knows_the_scale` is given a function `attention(q, k, v) -> out, weights`, and returns
# True if it divides by $\sqrt{d_k}$, False if it forgot to.


# %%
def knows_the_scale(attention):
    """True where attention(q, k, v) -> out, weights divides its scores by √d_k."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 5, 4))
    zeros = np.zeros((5, 12))
    wide_q, wide_k = np.hstack([q, zeros]), np.hstack([k, zeros])  # every q·k as before
    return np.allclose(attention(wide_q, wide_k, v)[0], attention(q / 2, k, v)[0])  # √d_k doubled
    ### END SOLUTION


# %%
check("knows_the_scale", knows_the_scale)

# %% [markdown]
# ## What you can do now
#
# - Derive $\operatorname{Var}(q \cdot k) = d_k$, and say which three assumptions it stands on.
# - Read a row of weights and know, from $J = \operatorname{diag}(p) - p\,p^\top$, what it can still learn.
# - Say what is true of "without $\sqrt{d_k}$ gradients vanish": the typical query's do; their mean does not.
# - Recognise the division in another place: in $W_Q$, in a temperature, in `scale=`.
# - Choose between $\sqrt{d_k}$ and $\sqrt{d}$: the root of as many entries as one dot product runs over.
#
# | what is often said | what the cells above show |
# |---|---|
# | the variance of a score grows in proportion to $d_k$ | yes, for independent entries of variance 1 |
# | dividing brings it back to about 1 | at the start, and if $q$, $k$ have variance 1: we saw a std of 0.2 to 1.8 |
# | large scores saturate softmax | yes: one key takes all |
# | so gradients become too small to learn from | the median query's do; the mean gradient at $q$ is four times the divided one |
# | divide by the root of the model's dimension | of the head's: $\sqrt{1024 / 16} = 8$, not $\sqrt{1024} = 32$ |
#
# Next: [03, the backward pass](03_backward.ipynb), where every line of attention is undone, one gradient at a time.
