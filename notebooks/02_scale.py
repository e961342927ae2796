# %% [markdown]
# # 02 · Why √d
#
# Attention divides its logits by the root of $d$, the width of a query and a key, before softmax turns them into weights:
#
# $$p = \text{softmax}\!\left(\frac{q\, k^\top}{\sqrt d}\right)$$
#
# Leave the division out, and nothing crashes. Shapes fit, rows still sum to 1, and a model still trains. **So what would you lose?**
#
# **You need**: the dot product, the variance of a sum of independent numbers, and from [chapter 01](01_soft_lookup.ipynb) what logits and attention weights
# are.
#
# **You will be able to**: derive $\sqrt d$, and say which assumptions it rests on; measure when softmax is *saturated*; and test somebody else's
# attention for its scale.

# %%
import math
from functools import cache

import numpy as np

from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.ops import attention
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, ORANGE
from tinyattn.show.views import mirror

road(2)

# %% [markdown]
# ## Turn it first
#
# Four tokens with random queries and keys of $d = 12$ entries, and the scale that attention has: $1/\sqrt{12} \approx 0.29$. Move the scale to 1, which
# is no division at all, and watch the rows of the weights; `1 / √d` brings it back.

# %% tags=["hide-input"]
q, k = np.random.default_rng(12).standard_normal((2, 4, 12)).round(1)
mirror(
    ["a", "b", "c", "d"],
    q=q,
    k=k,
    v=np.eye(4),  # so the output is the weights
    hide=("heads", "mask", "backward"),
    title="Attention with and without the division",
)

# %% [markdown]
# ## Predict first
#
# Two vectors $q$ and $k$ have $d = 256$ entries each. All entries are independent, with mean 0 and variance 1. Their logit
# $s = q \cdot k$ is then a random number with mean 0. How far from 0 does it typically lie: what is its standard deviation?
#
# ### Exercise `score_std` (predict the number, ★☆☆, 3 min)
#
# Write down a number before you read on. You will remember the answer better if you have guessed first, even wrongly.

# %%
### BEGIN SOLUTION
score_std = 16
### END SOLUTION

# %%
check("score_std", score_std)

# %% [markdown]
# ## One logit, slowly
#
# Here are one query and three keys of four entries. The logit `s[1]` is a sum of four products, which partly cancel:

# %%
rng = np.random.default_rng(2)
q = rng.standard_normal(4)  # (d,)
k = rng.standard_normal((3, 4))  # (m, d)
s = k @ q  # (m, d) @ (d,) -> (m,)
show_arrays(q=q, k=k, s=s, products=q * k[1], their_sum=(q * k[1]).sum())

# %% [markdown]
# ## On paper: the variance of a logit
#
# $\mathbb E[\cdot]$ is the mean over all draws. $\operatorname{Var}(a) = \mathbb E[a^2] - \mathbb E[a]^2$, and its root is the standard
# deviation. Means of independent numbers multiply: $\mathbb E[a b] = \mathbb E[a]\,\mathbb E[b]$.
#
# So one product has mean $\mathbb E[q_i k_i] = \mathbb E[q_i]\,\mathbb E[k_i] = 0$, and its variance is
#
# $$\operatorname{Var}(q_i k_i) = \mathbb E[q_i^2 k_i^2] = \mathbb E[q_i^2]\;\mathbb E[k_i^2] = 1 \cdot 1 = 1 .$$
#
# The variances of independent terms add up:
#
# $$\operatorname{Var}(q \cdot k) = \sum_{i=1}^{d} \operatorname{Var}(q_i k_i) = d ,
# \qquad \operatorname{std}(q \cdot k) = \sqrt{d} .$$
#
# If you divide a random number by $c$, its standard deviation is divided by $c$. To bring it back to 1 for every $d$, divide by
# $c = \sqrt d$. That is the whole derivation. Does it hold?

# %%
DIMS = (4, 16, 64, 256, 1024)


@cache  # drawn once for every d
def logits(d, queries=500, keys=16):
    """Random queries, each with random keys of its own, and the logits, (queries, keys)."""
    rng = np.random.default_rng(d)
    q = rng.standard_normal((queries, 1, d))
    k = rng.standard_normal((queries, keys, d))
    return q, k, (q @ k.swapaxes(-1, -2))[:, 0]


rows = []
for d in DIMS:
    s = logits(d)[2]
    rows.append([d, s.var(), s.var() / d, s.std(), (s / math.sqrt(d)).std()])
table("d | variance | variance / d | std | std after dividing by √d", rows)

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.0, 3.0))
    for d, colour, line in ((4, BLUE, "-"), (64, ORANGE, "--"), (256, GREY, ":")):
        for ax, divisor, bins in ((left, 1, 40), (right, math.sqrt(d), 160)):
            s = logits(d)[2] / divisor
            heights, edges = np.histogram(s, bins=bins, range=(-40, 40), density=True)
            middles = (edges[1:] + edges[:-1]) / 2
            ax.plot(middles, heights, line, color=colour, label=f"$d = {d}$")
            ax.set(xlabel="logit", ylim=(0, None), yticks=[])
    left.set(title=r"$q \cdot k$: wider with d", ylabel="how often")
    right.set(title="$q \\cdot k$ / √d: the same width for every d")
    left.legend()
show_figure(
    fig, "scores", "Histograms of logits: wider and wider without the division, the same with it"
)

# %% [markdown]
# On the left, wider vectors have logits that lie further apart: at $d = 256$ a logit of 20 or 30 is nothing special. On the right
# the three curves are nearly one. (For $d = 4$ it is a little more pointed: four products are too few to make a bell curve.)
#
# ## What softmax makes of them
#
# A key that leads another by $\Delta$ has a weight $e^{\Delta}$ times as large. A lead of 20 is a factor of 500 million. From here on,
# `softmax` is the one that you wrote in chapter 01:

# %%
softmax = yours("my_softmax")

# %% [markdown]
# **Predict:** there are 16 keys, so even weights would be 1/16 ≈ 0.06. How much does the largest weight get at
# $d = 256$ without the division?
#
# The table also counts the keys that a query effectively looks at: 16 if all weights are even, 1 if one key has all. (It is $e^H$,
# with the entropy $H = -\sum_j p_j \log p_j$.)


# %% tags=["hide-output"]
def spread(p):
    """The mean largest weight, and the mean number of keys looked at."""
    logs = np.log(np.where(p > 0, p, 1))
    return p.max(axis=-1).mean(), np.exp(-(p * logs).sum(axis=-1)).mean()


rows = []
for d in DIMS:
    s = logits(d)[2]
    rows.append([d, *spread(softmax(s)), *spread(softmax(s / math.sqrt(d)))])
table("d | largest weight | keys looked at | largest, divided | looked at, divided", rows)

# %% tags=["hide-cell"]
with style():
    fig, axes = figure(2, 3, size=(8.0, 3.8), sharex=True, sharey=True)
    for column, d in zip(axes.T, (4, 64, 1024), strict=True):
        s = logits(d)[2][0]
        column[0].bar(range(1, 17), softmax(s), color=ORANGE)
        column[0].set_title(f"softmax$(s)$, $d = {d}$")
        column[1].bar(range(1, 17), softmax(s / math.sqrt(d)), color=BLUE)
        column[1].set_title(f"softmax($s$ / √d), $d = {d}$")
    for ax in axes[1]:
        ax.set(xlabel="key", xticks=(1, 8, 16))
    for ax in axes[:, 0]:
        ax.set_ylabel("weight")
show_figure(
    fig, "weights", "One query's weights over 16 keys: undivided, one key takes all as d grows"
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Without the division a wide query looks at *one* key, and random numbers decided which one: at $d = 256$ the
# largest weight is 0.92 on average. Nothing has been learned yet, and the weights are already nearly 0 and 1.
#
# </details>
#
# ## Saturated
#
# A model learns in small steps: training nudges the logits so that the answer becomes less wrong. (The *loss* is the number that says how wrong
# it is.) That helps only if the weights respond. So let us nudge. Raise the logit of one key by 0.1, leave the others,
# and see how much weight this key gains. Two rows of weights, one undecided and one sure:

# %%
for s in (np.array([0.3, 0.0, 0.0]), np.array([7.0, 0.0, 0.0])):
    nudged = s + [0, 0.1, 0]  # the second key's logit
    show = show_arrays(
        p=softmax(s), p_nudged=softmax(nudged), change=softmax(nudged) - softmax(s), decimals=4
    )
    print(show, end="\n\n")

# %% [markdown]
# The undecided row moves about 2 % of its weight to the second key. The sure row moves 0.01 %: softmax is **saturated** there. We call a
# query saturated if no key gains as much as 0.1 % of the weight from such a nudge.
#
# **Predict:** at $d = 256$, what share of random queries is saturated without the division, and what share with it?


# %% tags=["hide-output"]
def best_gain(s, nudge=0.1):
    """The most weight that a key gains if its logit rises by `nudge`: (..., m) -> (...)."""
    # (..., m, m): in row j the logit of key j is raised
    nudged = softmax(s[..., None, :] + nudge * np.eye(s.shape[-1]))
    return (np.diagonal(nudged, axis1=-2, axis2=-1) - softmax(s)).max(axis=-1)


gains = {d: (best_gain(logits(d)[2]), best_gain(logits(d)[2] / math.sqrt(d))) for d in DIMS}
rows = []
for d in DIMS:
    row = [d]
    for gain in gains[d]:
        row += [np.median(gain), f"{np.mean(gain < 0.001):.0%}"]
    rows.append(row)
table("d | median gain | saturated | median gain, divided | saturated, divided", rows)

# %% tags=["hide-cell"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.0, 3.2))
    forms = ((1, BLUE, "o", "-", "divided by √d"), (0, ORANGE, "s", "--", "undivided"))
    for which, colour, marker, line, name in forms:
        found = [gains[d][which] for d in DIMS]
        left.plot(
            DIMS, [np.median(x) for x in found], line, marker=marker, color=colour, label=name
        )
        low, high = ([max(np.quantile(x, share), 1e-9) for x in found] for share in (0.25, 0.75))
        left.fill_between(DIMS, low, high, color=colour, alpha=0.2)
        saturated = [np.mean(x < 0.001) for x in found]
        right.plot(DIMS, saturated, line, marker=marker, color=colour, label=name)
    left.set(title="gain after a nudge: median, middle half", yscale="log", ylim=(1e-7, 0.1))
    left.set(ylabel="weight")
    right.set(title="share of queries that are saturated", ylim=(-0.02, 1))
    for ax in (left, right):
        ax.set(xscale="log", xlabel="$d$")
        ax.set_xticks(DIMS, [str(d) for d in DIMS])
        ax.minorticks_off()
    right.legend()
show_figure(
    fig,
    "saturated",
    "Without the division the median gain falls below a millionth and most queries saturate",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# **Without the division the typical query is saturated at large $d$**: at 256 more than half of all queries are. With it, none is.
#
# </details>
#
# Most texts conclude that *without the division, gradients vanish*. (A gradient is the derivative of the loss: how fast it moves with
# a small nudge.) That is half true, and [chapter 04](04_attention_backward.ipynb) measures which half.
#
# ## Build it
#
# ### Exercise `my_attention` (write the op, ★★☆, 10 min)
#
# Write attention without the library: logits, division, softmax, output. Any axes (of a batch, say) may come before the last two,
# and logits of 10,000 must not overflow. Use `softmax`, which is yours.


# %%
def my_attention(q, k, v):
    """Shapes: q (..., n, d), k (..., m, d), v (..., m, e) -> out (..., n, e), p (..., n, m)."""
    ### BEGIN SOLUTION
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., n, m)
    p = softmax(s)  # it subtracts each row's largest logit: no overflow
    return p @ v, p  # (..., n, m) @ (..., m, e) -> (..., n, e)
    ### END SOLUTION


# %%
check("my_attention", my_attention)

# %% [markdown]
# The library's [`attention.py`](../tinyattn/ops/attention/attention.py) has the same lines. It scales $q$ before the product, not the logits after
# it: $n\,d$ multiplications instead of $n\,m$. The division may also sit in $W_q$, which makes the queries: the code of T5
# ([Raffel et al. 2020](https://arxiv.org/abs/1910.10683)) has no $\sqrt d$ in its attention, and starts with a $W_q$ that is smaller by this factor.

# %%
q, k, s = logits(64)  # (500, 1, 64), (500, 16, 64), (500, 16)
v = np.random.default_rng(1).standard_normal((500, 16, 3))
out, p = attention(q, k, v)
by_hand = softmax(s[:, None] / math.sqrt(64)) @ v  # (500, 1, 16) @ (500, 16, 3) -> (500, 1, 3)
in_the_queries = attention(q / math.sqrt(64), k, v, scale=1.0)[0]  # `scale` replaces 1 / √d
print(np.allclose(by_hand, out), np.allclose(in_the_queries, out))

# %% [markdown]
# ## A temperature
#
# $\text{softmax}(s / \tau)$ is softmax at temperature $\tau$. So $\sqrt d$ is a temperature: the one at which random
# vectors give weights that are neither even nor sure. The values here are the keys' numbers, so the output can be read:

# %%
q, k = logits(64, queries=1)[:2]  # (1, 1, 64), (1, 16, 64)
v = np.arange(16.0)[None, :, None]  # (1, 16, 1): key j has the value j
rows = []
for tau in (0.01, 1, 4, 8, 32, 1e6):
    out, p = attention(q, k, v, scale=1 / tau)
    rows.append([f"{tau:g}", *spread(p), out.item()])
print(
    f"the largest logit is that of key {np.argmax(q @ k.swapaxes(-1, -2))}; the mean value is {v.mean()}"
)
table("temperature | largest weight | keys looked at | output", rows)

# %% [markdown]
# ## Which width?
#
# Some texts divide by $\sqrt D$, the root of the model's width. But a logit is a sum over the entries that one query and one key have. A
# Transformer cuts its wide vectors into slices of equal width, called heads ([chapter 06](06_many_heads.ipynb)), and each head compares its own slices.
#
# ### Exercise `transformer_divisor` (predict the number, ★☆☆, 2 min)
#
# The big Transformer has width 1,024 and 16 heads that share it evenly. What are its logits divided by?

# %%
### BEGIN SOLUTION
transformer_divisor = 8
### END SOLUTION

# %%
check("transformer_divisor", transformer_divisor)

# %% [markdown]
# ## What the derivation assumed
#
# It assumed mean 0, variance 1 and independence. Let us break each assumption, and measure the spread of $q \cdot k / \sqrt d$ in two ways: over
# all pairs of a query and a key, and *within a row*, that is, among the keys of one query. Softmax sees only differences within a row.
#
# - **Mean 1**: $\operatorname{Var}(q_i k_i) = \mathbb E[q_i^2]\,\mathbb E[k_i^2] - 1 = 2 \cdot 2 - 1 = 3$, so over all pairs the spread is $\sqrt 3$. Within a
#   row $q$ is fixed and only $k$ varies, with variance 1: the variance of a logit is $\sum_i q_i^2 / d$, about $\mathbb E[q_i^2] = 2$. Softmax sees
#   $\sqrt 2$.
# - **Standard deviation 2**: the variance of a product is $2^2 \cdot 2^2$. The spread is 4, both ways.
# - **All entries equal**: the sum of $d$ equal terms grows like $d$, not like $\sqrt d$.
#
# **Predict:** what is the spread in the last case, for $d = 64$ and for $d = 256$?


# %% tags=["hide-output"]
def cases(d, queries=1000, keys=1000):
    """q (queries, d) and k (keys, d): as assumed, and with one assumption broken."""
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((queries, d)), rng.standard_normal((keys, d))
    same = (
        rng.standard_normal((queries, 1)) + np.zeros(d),
        rng.standard_normal((keys, 1)) + np.zeros(d),
    )
    return {
        "as assumed": (q, k),
        "mean 1": (q + 1, k + 1),
        "standard deviation 2": (2 * q, 2 * k),
        "all entries equal": same,
    }


rows = {name: [name] for name in cases(1)}
for d in (64, 256):
    for name, (q, k) in cases(d).items():
        s = q @ k.T / math.sqrt(d)  # (queries, keys)
        rows[name] += [s.std(), math.sqrt(s.var(axis=-1).mean())]
table(
    "entries | d = 64: all pairs | within a row | d = 256: all pairs | within a row",
    rows.values(),
    digits=2,
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# $\sqrt d$: 8 at $d = 64$ and 16 at $d = 256$. The sum grows like $d$, and the division takes away only $\sqrt d$.
#
# </details>
#
# So "the division brings the variance back to 1" is a statement about the *beginning* of training, and about the *initialisation*: the
# random numbers with which $W_q$ and $W_k$ begin. An entry of $q = x W_q$ is a sum of $D$ products, so its variance is
# $D \operatorname{Var}(x) \operatorname{Var}(W_q)$. Four variances in common use (under names that you will meet in papers), with $D = 512$ and heads
# of $d = 64$:

# %%
D, d, tokens = 512, 64, 400
rng = np.random.default_rng(4)
x = rng.standard_normal((tokens, D))

variances = {
    "LeCun: 1 / D": 1 / D,
    "Glorot: 2 / (D + d)": 2 / (D + d),
    "nn.Linear of PyTorch: 1 / (3 D)": 1 / (3 * D),
    "BERT, GPT-2: 0.02²": 0.02**2,
}
rows = []
for name, variance in variances.items():
    W_q, W_k = math.sqrt(variance) * rng.standard_normal((2, D, d))
    q, k = x @ W_q, x @ W_k  # (tokens, d) twice
    s = q[:16] @ k[16:].T / math.sqrt(d)  # no token with itself
    p = softmax(s[:, :16])
    rows.append([name, q.std(), math.sqrt(s.var(axis=-1).mean()), p.max(axis=-1).mean()])
table("variance of W | std of q | std of logits / √d | largest of 16 weights", rows, digits=2)

# %% [markdown]
# The same division leaves logits that spread by 0.2 or by 1.8. Neither is broken: a head with nearly even weights begins by averaging, and
# learns where to look. [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762) (section 3.2.1) were careful: they give their reason
# for the division with "we suspect".
#
# ## A test for the scale
#
# A missing $\sqrt d$ passes every test of shapes and of row sums. How do you catch it in somebody else's attention? You could write attention
# again and compare: a second implementation is called an *oracle*. It works, but it is only as right as you are: if you believe that the divisor is
# $\sqrt D$, so does your oracle. A *relation between two calls* is worth more. It needs no second implementation, and it tests one fact at a
# time. Chapter 01 had one: double the values, and the output doubles.
#
# `buggy` hands you an attention without the division. Its rows sum to 1:

# %%
unscaled = buggy("knows_the_scale")
q, k, v = np.random.default_rng(0).standard_normal((3, 3, 4))
show_arrays(
    right=attention(q, k, v)[1], wrong=unscaled(q, k, v)[1], sums=unscaled(q, k, v)[1].sum(axis=-1)
)

# %% [markdown]
# ### Exercise `knows_the_scale` (write the property that kills this bug, ★★★, 15 min)
#
# Find two calls whose outputs are equal if, and only if, attention divides by $\sqrt d$. `knows_the_scale` is given a function
# `attention(q, k, v) -> out, p`. It returns True if the divisor is $\sqrt d$, and False if there is none, or a wrong one: $d$ itself, or the root of
# the number of keys, or of the values' width. (`buggy("knows_the_scale", "scale_d")` hands out another of these bugs, by the name that `check` gives
# it.)


# %%
def knows_the_scale(attention):
    """True if attention(q, k, v) -> out, p divides its logits by √d."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 5, 4))
    zeros = np.zeros((5, 12))
    wide_q, wide_k = np.hstack([q, zeros]), np.hstack([k, zeros])  # every q·k as before, d is 16
    return np.allclose(attention(wide_q, wide_k, v)[0], attention(q / 2, k, v)[0])  # √d doubled
    ### END SOLUTION


# %%
check("knows_the_scale", knows_the_scale)

# %% [markdown]
# | what is often said | what the cells above show |
# |---|---|
# | the variance of a logit is $d$ | yes, for independent entries of mean 0 and variance 1 |
# | dividing brings it back to 1 | at the start, and if $q$, $k$ have variance 1: initialisations in use give a std of 0.2 to 1.8 |
# | a mean of 1 makes logits spread by $\sqrt 3$ | over all pairs; within a row, which is what softmax sees, by $\sqrt 2$ |
# | divide by the root of the model's width | of the head's: $\sqrt{1024 / 16} = 8$, not $\sqrt{1024} = 32$ |
#
# ## In five lines
#
# - A logit is a sum of $d$ products: if all entries are independent, with mean 0 and variance 1, its standard deviation is $\sqrt d$.
# - Undivided, wide vectors saturate softmax: one key takes all, and nudging a logit moves almost nothing.
# - Dividing by $\sqrt d$ sets the *starting* temperature; $d$ is the number of entries that one dot product runs over.
# - The division may sit in the logits, in the queries or in $W_q$; the result is the same.
# - A relation between two calls tests an attention without an attention of your own.
#
# To read: footnote 4 of [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), which is this chapter in two sentences. Next:
# [03, gradients](03_gradients.ipynb), where a nudge becomes a derivative.
