# %% [markdown]
# # 18 · Cheaper attention
#
# A thousand tokens make a million pairs. A novel of a hundred thousand tokens makes ten billion, and their attention weights
# take 40 GB of float32, for one head of one layer. **Which of the n² weights can be left out?**
#
# There are three kinds of answers. *None, but they need not be kept* (tiles). *Those of most pairs, chosen beforehand* (windows and blocks).
# *All of them, if a product stands in for the exponential* (kernels). This chapter counts what each costs, and measures what each can no longer see.
#
# **You need**: attention and its backward (chapters [01](01_soft_lookup.ipynb) and [04](04_attention_backward.ipynb)), masks
# ([chapter 05](05_masks.ipynb)), and the mean of a random number.
#
# **You will be able to**:
#
# - compute softmax attention, forward and backward, without ever holding its weights;
# - say of a pattern of pairs what it costs, how far it sees, and whether it leaks;
# - write linear attention as a recurrence, and say which look-ups it and the Performer fail at.

# %% tags=["hide-input"]
import math

import numpy as np

from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.ops import (
    Mask,
    attention,
    attention_backward,
    block_sparse_attention,
    causal_mask,
    flash_attention,
    flash_attention_backward,
    linear_attention,
    linear_weights,
    orthogonal_features,
    performer_attention,
    performer_weights,
    positive_features,
    softmax,
    window_attention,
    window_attention_backward,
)
from tinyattn.ops.attention.patterns import BigBird, Near, NearAndGlobal, NearOrResidues
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE

road(18)

# %% [markdown]
# ## What n² costs
#
# For $n$ queries and $n$ keys of width $d$, the logits $s = q k^\top / \sqrt d$ take $n \cdot n \cdot d$ multiply-adds, and so does
# $out = p\,v$ with values of width $d$. For its backward, attention keeps the $n^2$ weights $p$. The folded cell below has an array that counts the multiply-adds
# of all products that it meets, and `counted`, which runs an attention on $n$ random tokens with $d = 16$ and says what it cost, and how many numbers it kept beside
# $q$, $k$, $v$ and $out$. If a cost grows like $n^\alpha$, doubling $n$ multiplies it by $2^\alpha$: so $\alpha$ is the $\log_2$ of a ratio of two counts.

# %% tags=["hide-input"]
d = 16


class Counted(np.ndarray):
    """An array that counts the multiply-adds of products of matrices."""

    products = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **how):
        if out is not None:
            how["out"] = tuple(np.asarray(x) for x in out)
        plain = [np.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs]
        made = getattr(ufunc, method)(*plain, **how)
        if ufunc is np.matmul and plain[1].ndim > 1:  # sums of rows are products with a vector
            Counted.products += made.size * plain[0].shape[-1]
        return made.view(Counted) if isinstance(made, np.ndarray) else made


def numbers(kept):
    """How many, in arrays and tuples of arrays."""
    return sum(map(numbers, kept)) if isinstance(kept, tuple | list) else np.size(kept)


def counted(form, n):
    """Of form(q, k, v) -> out, kept, ...: the multiply-adds, and how many numbers it kept."""
    q, k, v = np.random.default_rng(n).standard_normal((3, n, d))
    Counted.products = 0
    _, *kept = form(*(x.view(Counted) for x in (q, k, v)))
    return Counted.products, numbers(kept)


def exponents(form, n=1024):
    """How both grow, as powers of n."""
    return np.log2(np.divide(counted(form, 2 * n), counted(form, n)))


# %%
def full(q, k, v):
    return attention(q, k, v, causal_mask(len(q), like=q))


rows = []
for n in (256, 512, 1024):
    work, kept = counted(full, n)
    rows.append([n, f"{work:,}", f"{2 * n * n * d:,}", f"{kept:,}"])
print("both grow as n to the power", exponents(full))
table("n | multiply-adds, counted | 2 n² d | numbers kept", rows)

# %% [markdown]
# The causal mask saved nothing: hidden logits were computed, then thrown away.
#
# ## Tiles: nothing is left out, and nothing kept
#
# Softmax seems to need a whole row at once: its maximum, and its sum. But suppose that one query has met some of the keys. Of them we keep
#
# $$m = \max_j s_j, \qquad l = \sum_j e^{s_j - m}, \qquad o = \sum_j e^{s_j - m}\, v_j ,$$
#
# two numbers and a row. If these were all keys, the output would be $o / l$. Now comes a **tile** of further keys, with logits $s$ and values $v$. The
# maximum rises to $m' = \max(m, \max_j s_j)$, or stays. Every old term should now have been $e^{s_j - m'} = e^{m - m'} e^{s_j - m}$: *the same factor for all of
# them*. So the sums need not be taken again:
#
# $$l' = e^{m - m'}\, l + \sum_{j \in \text{tile}} e^{s_j - m'}, \qquad o' = e^{m - m'}\, o + \sum_{j \in \text{tile}} e^{s_j - m'}\, v_j .$$
#
# Before the first tile, $m = -\infty$, $l = 0$, $o = 0$. This is the *online softmax* ([Milakov and Gimelshein 2018](https://arxiv.org/abs/1805.02867)). One query, six
# keys with values of one number, in three tiles of two. **Predict:** which tile does not change $m$?

# %% tags=["hide-output"]
s, v = np.array([1.0, 3.0, 2.0, 0.0, 5.0, 4.0]), np.arange(6.0)
m, l, o, rows = -np.inf, 0.0, 0.0, []
for tile in (slice(0, 2), slice(2, 4), slice(4, 6)):
    top = max(m, s[tile].max())  # m'
    factor, e = np.exp(m - top), np.exp(s[tile] - top)
    m, l, o = top, factor * l + e.sum(), factor * o + e @ v[tile]
    rows.append([f"{s[tile]}", m, factor, l, o / l])
print("all at once:", (softmax(s) @ v).round(4), " in tiles:", (o / l).round(4))
table("logits of the tile | m' | e^(m - m') | l' | o' / l'", rows)

# %% [markdown]
# ### Exercise `my_online_softmax` (write the op, ★★☆, 10 min)
#
# One tile, for $a$ queries at once. A mask may hide logits: they are $-\infty$ then, for some queries perhaps all of them, and in the
# first tile as well. Such a query's state must stay as it was, without NaN. Logits of 1,000 must work.


# %%
def my_online_softmax(m, l, o, s, v):
    """Shapes: m and l (a, 1), o (a, e), logits s (a, b), values v (b, e) -> the new m, l, o."""
    ### BEGIN SOLUTION
    top = np.maximum(m, s.max(axis=-1, keepdims=True))  # (a, 1): m'
    shift = np.where(top == -np.inf, 0, top)  # nothing allowed yet: -inf minus -inf would be NaN
    factor, e = np.exp(m - shift), np.exp(s - shift)  # (a, 1), (a, b)
    return top, factor * l + e.sum(axis=-1, keepdims=True), factor * o + e @ v
    ### END SOLUTION


# %%
check("my_online_softmax", my_online_softmax)

# %% [markdown]
# Step through two queries that meet four keys in two tiles. When the second tile comes, watch what `factor` does to `l` and `o`.


# %% tags=["hide-input"]
def in_two_tiles(q, k, v):
    m, l, o = np.full((2, 1), -np.inf), np.zeros((2, 1)), np.zeros((2, 2))
    for tile in (slice(0, 2), slice(2, 4)):
        s = q @ k[tile].T / math.sqrt(2)
        top = np.maximum(m, s.max(axis=-1, keepdims=True))
        factor, e = np.exp(m - top), np.exp(s - top)
        m, l, o = top, factor * l + e.sum(axis=-1, keepdims=True), factor * o + e @ v[tile]
    return o / l


few = np.random.default_rng(16)
two_and_four = (few.standard_normal((n, 2)) for n in (2, 4, 4))
trace(in_two_tiles, *two_and_four).player(title="Online softmax in two tiles")

# %% [markdown]
# [Rabe & Staats (2021)](https://arxiv.org/abs/2112.05682) had shown that no $n^2$ of memory is needed. FlashAttention makes it fast, with tiles that fit into fast memory; and where the
# mask hides a whole tile, nothing need be computed. Under a causal mask the keys of a tile may all lie in the future of all its queries:


# %%
def visits(n, rows, columns):
    """The tiles of a causal mask with a pair to compute: positions of queries i and keys j."""
    for top in range(0, n, rows):
        i = np.arange(top, min(top + rows, n))
        for left in range(0, i[-1] + 1, columns):
            yield i, np.arange(left, min(left + columns, n))


def logits(q, k, i, j):
    return np.where(j <= i[:, None], q[i] @ k[j].T / math.sqrt(d), -np.inf)  # (a, b)


online_softmax = yours("my_online_softmax")


def in_tiles(q, k, v, rows, columns):
    """Causal attention. -> out (n, d), L (n, 1)."""
    n = len(q)
    m, l, o = np.full((n, 1), -np.inf), np.zeros((n, 1)), np.zeros_like(v)
    for i, j in visits(n, rows, columns):  # FlashAttention-2: queries outside
        m[i], l[i], o[i] = online_softmax(m[i], l[i], o[i], logits(q, k, i, j), v[j])
    return o / l, m + np.log(l)


def keys_outside(q, k, v, rows, columns):
    """FlashAttention of 2022. -> out (n, d), m and l (n, 1)."""
    n = len(q)
    m, l, out = np.full((n, 1), -np.inf), np.zeros((n, 1)), np.zeros_like(v)
    for i, j in sorted(visits(n, rows, columns), key=lambda tile: tile[1][0]):
        m[i], l[i], o = online_softmax(m[i], l[i], l[i] * out[i], logits(q, k, i, j), v[j])
        out[i] = o / l[i]  # a mean, after every tile
    return out, m, l


n = 100
q, k, v, dout = np.random.default_rng(16).standard_normal((4, n, d))
causal = causal_mask(n, like=q)
exact, p = attention(q, k, v, causal)
for tile in ((1, 1), (7, 13), (32, 16), (100, 100)):
    mine, L = in_tiles(q, k, v, *tile)
    theirs, their_L = flash_attention(q, k, v, Mask(causal=True), tile=tile)
    first, m, l = keys_outside(q, k, v, *tile)
    same = all(np.allclose(x, exact) for x in (mine, theirs, first))
    same = same and all(np.allclose(x, their_L) for x in (L, m + np.log(l)))
    print(f"tiles of {tile}: attention's out, and the library's: {same}")

# %% [markdown]
# What moved from [FlashAttention](https://arxiv.org/abs/2205.14135) (Dao et al. 2022, algorithm 1) to [FlashAttention-2](https://arxiv.org/abs/2307.08691) (Dao 2023)? With the keys
# outside, the state of every query goes to slow memory and back for every tile of keys, and $m$ and $l$ are kept. With the queries outside, it stays in fast memory until the
# row is done. That is faster: rows of tiles run side by side, as none needs another; $o$ is divided once; and one number, $L = m + \log l$, is kept.

# %% [markdown]
# ### Exercise `tiles_visited` (predict the number, ★☆☆, 4 min)
#
# 1,024 tokens and a causal mask, in tiles of 128 queries and 64 keys. That makes 8 · 16 = 128 tiles. How many are visited?

# %%
### BEGIN SOLUTION
tiles_visited = 72
### END SOLUTION

# %%
check("tiles_visited", tiles_visited)

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 2, size=(8.2, 3.9))
    for ax, (rows, columns) in zip(axes, ((8, 8), (12, 5)), strict=True):
        size = 48
        ax.imshow(np.where(np.tri(size, dtype=bool), 0.22, 0.0), cmap="Greys", vmin=0, vmax=1)
        for order, (i, j) in enumerate(visits(size, rows, columns), start=1):
            across = j[[0, -1, -1, 0, 0]] + np.array([-0.5, 0.5, 0.5, -0.5, -0.5])
            down = i[[0, 0, -1, -1, 0]] + np.array([-0.5, -0.5, 0.5, 0.5, -0.5])
            ax.plot(across, down, color=BLUE, lw=1.1)
            ax.text(j.mean(), i.mean(), order, ha="center", va="center", fontsize=9, color=BLUE)
        ax.set(title=f"{rows} queries, {columns} keys: {order} tiles", xlabel="key", ylabel="query")
show_figure(
    fig,
    "tiles",
    "Two causal masks of 48 tokens, cut into tiles that are numbered in the order of the visits; tiles above the diagonal are "
    "left out, and those on it are allowed in part",
)

# %% [markdown]
# ### The backward, without the weights
#
# Chapter 04 needed $p$. It is gone, but one number a query brings back every weight of it: $L = m + \log l$. Since $e^L$ is the sum that softmax divides by,
#
# $$p_{ij} = e^{s_{ij} - L_i} ,$$
#
# with no maximum and no further sum: a tile of logits is made *again*, and its weights are there at once. And the average that
# softmax's backward subtracts, $D_i = \sum_j p_{ij}\, dp_{ij}$? It runs over all keys. But [chapter 04](04_attention_backward.ipynb) found it without any weights, $D_i =
# d\mathit{out}_i \cdot out_i$: it can be computed before the first tile.
#
# ### Exercise `my_tile_gradients` (derive the backward, ★★☆, 8 min)
#
# Write what *one tile* adds to the gradients of its queries, keys and values. Its logits $s = q k^\top / \sqrt d$ are given, $-\infty$ where hidden, and its
# queries' $L_i$ and $D_i$, which know of all keys. Logits of 1,000 must work.


# %%
def my_tile_gradients(dout, q, k, v, s, L, D):
    """Shapes: dout (a, e), q (a, d), k (b, d), v (b, e), s (a, b), L and D (a, 1)
    -> dq, dk, dv like q, k, v.
    """
    ### BEGIN SOLUTION
    p = np.exp(s - L)  # (a, b), the weights made again
    ds = p * (dout @ v.T - D) / math.sqrt(q.shape[-1])
    return ds @ k, ds.T @ q, p.T @ dout
    ### END SOLUTION


# %%
check("my_tile_gradients", my_tile_gradients)

# %%
tile_gradients, D = yours("my_tile_gradients"), (dout * exact).sum(axis=-1, keepdims=True)
dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
for i, j in visits(n, 7, 13):
    of_tile = tile_gradients(dout[i], q[i], k[j], v[j], logits(q, k, i, j), L[i], D[i])
    dq[i] += of_tile[0]
    dk[j] += of_tile[1]
    dv[j] += of_tile[2]
theirs = flash_attention_backward(dout, q, k, v, exact, L, Mask(causal=True))
kept_p = attention_backward(dout, q, k, v, p)
for name, mine, *others in zip("qkv", (dq, dk, dv), theirs, kept_p, strict=False):
    print(f"d{name} is the library's in tiles, and full attention's:", np.allclose(mine, others))

# %% [markdown]
# **Predict:** count the products of matrices, forward and backward. Without a mask, does attention in tiles multiply *less* than full attention, as much, or more?

# %% tags=["hide-output"]
n = 2048
visited = sum(len(i) * len(j) for i, j in visits(n, 64, 64))
rows = [  # forward: s and out; backward: dv, dp, dq and dk, and in tiles s again
    ["full", 2 + 4, f"{n * n:,}"],
    ["in tiles", 2 + 5, f"{n:,}"],
    ["in tiles, causal", (2 + 5) * visited / n**2, f"{n:,}"],
]
table("attention of 2,048 tokens | multiply-adds / n² d | numbers kept", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# More: 7 products in place of 6, because the backward makes the logits again. Tiles do not change the exponent of the work. They change that of the *memory*, from
# 2 to 1. And skipped tiles save nearly half of the work.
#
# </details>
#
# ## Windows: most pairs are left out
#
# Now pairs are not computed at all. With a **window** $w$, query $i$ looks at the $w$ keys $i - w + 1, \dots, i$: $n\,w$ pairs instead of $n^2$. What is outside is not
# seen faintly; it is *not seen*. But layers add up: a token looks at one that has looked further back.
#
# **Predict:** three layers with $w = 5$. On how many tokens does the last output depend?

# %% tags=["hide-output"]
x = np.random.default_rng(1).standard_normal((40, d))
layers, w = [x], 5
for _ in range(3):
    layers.append(window_attention(layers[-1], layers[-1], layers[-1], w)[0])
dx = np.zeros_like(x)
dx[-1] = 1  # the gradient of the sum of the last output
for below in reversed(layers[:-1]):
    _, weights = window_attention(below, below, below, w)
    dx = sum(window_attention_backward(dx, below, below, below, weights, w))
seen = np.flatnonzero(dx.any(axis=-1))
print(f"tokens {seen[0]} to {seen[-1]}, {len(seen)} of 40; gradients of the others are exactly 0")
near = abs(np.arange(40)[:, None] - np.arange(40)) < w
masked = attention(x, x, x, near & causal_mask(40, like=x))[0]
print("the first layer is full attention under a mask:", np.allclose(layers[1], masked))

# %% [markdown]
# Each layer reaches $w - 1$ tokens further back, so $T$ layers see $T (w - 1) + 1$ tokens, here 13. A token beyond that has no influence, and no training will give it any.
#
# ## Blocks: who may look at whom
#
# Can the same number of pairs reach further? Three well-known patterns, shown here looking both ways (a causal model also demands $j \le i$):
#
# - **strided** ([Child et al. 2019](https://arxiv.org/abs/1904.10509)): the $\ell - 1$ nearest on either side, and every $\ell$-th token;
# - **Longformer** ([Beltagy et al. 2020](https://arxiv.org/abs/2004.05150)): a window, and a few *global* tokens, which look at all and at which all look;
# - **BigBird** ([Zaheer et al. 2020](https://arxiv.org/abs/2007.14062)): near, global and *random* pairs, all in blocks of tokens.
#
# All of them are full attention under a mask. The library has each as a pattern, whose layout lists the blocks that hold its pairs:

# %%
n = 64
i, j = np.arange(n)[:, None], np.arange(n)
near, first = abs(i - j), np.minimum(i, j)  # the first of the two
masks = {
    "window": near < 8,
    "strided": (near < 8) | ((i - j) % 8 == 0),
    "Longformer": (near < 6) | (first < 2),
    "BigBird": BigBird(False, size=4, near=2, first=1, random=1).sees(i, j, n),  # random blocks
}
theirs = {
    "window": Near(causal=True, window=8),
    "strided": NearOrResidues(causal=True, stride=8),
    "Longformer": NearAndGlobal(causal=True, window=6, tokens=2),
    "BigBird": BigBird(causal=True, size=4, near=2, first=1, random=1),
}
q, k, v = np.random.default_rng(2).standard_normal((3, n, d))
for name, pattern in theirs.items():
    in_blocks, _ = block_sparse_attention(q, k, v, pattern.layout(n))
    under_mask, _ = attention(q, k, v, masks[name] & (j <= i))
    skip = 2 if name == "Longformer" else 0  # global queries have projections of their own
    print(
        f"{name} is full attention under its mask:",
        np.allclose(in_blocks[skip:], under_mask[skip:]),
    )

# %% tags=["hide-input"]
with style():
    fig, axes = figure(2, 2, size=(7.0, 7.4))
    for ax, (name, mask) in zip(axes.flat, masks.items(), strict=True):
        ax.imshow(np.where(mask, np.where(j <= i, 0.85, 0.35), 0.0), cmap="Blues", vmin=0, vmax=1)
        share = f"{mask.sum():,} of {n * n:,} pairs"
        ax.set(title=f"{name}: {share}", xticks=(0, 31, 63), yticks=(0, 31, 63))
    for ax in axes[1]:
        ax.set(xlabel="key")
    for ax in axes[:, 0]:
        ax.set(ylabel="query")
show_figure(
    fig,
    "patterns",
    "Four masks of 64 tokens: a band; a band and parallel diagonals; a band with full rows and columns of the first two "
    "tokens; blocks near the diagonal, in the first rows and columns, and scattered. Pairs that look ahead are paler",
)

# %% [markdown]
# **Predict:** how many layers does each need until every token has heard of every other? And in a causal model, until every token has heard of all before it?


# %% tags=["hide-output"]
def layers_until(mask, goal):
    """How often the mask must be passed until all pairs of the goal are connected."""
    reach, layers = mask, 1
    while not reach[goal].all():
        reach, layers = (reach.astype(float) @ mask) > 0, layers + 1
    return layers


both_ways, back = np.ones((n, n), bool), j <= i
rows = [
    [
        name,
        mask.sum(),
        layers_until(mask, both_ways),
        (mask & back).sum(),
        layers_until(mask & back, back),
    ]
    for name, mask in masks.items()
]
table("pattern | pairs | layers, both ways | pairs, causal | layers, causal", rows)

# %% [markdown]
# Strided attention needs two: to go 43 tokens back, go 40 by strides and 3 by neighbours. A global token makes it two as well, by *hearing everybody and telling everybody*. But in a causal
# model the first tokens have heard of nobody, and Longformer is back at its window. A causal model's global tokens can be read by all; they can collect nothing. (BigBird's random blocks help it.)
#
# ### Exercise `strided_exponent` (predict the number, ★★☆, 4 min)
#
# A larger $\ell$ means more neighbours and fewer strides. With the best choice, $\ell = \sqrt n$, the pairs of strided attention grow as $n^\alpha$. What is $\alpha$?

# %%
### BEGIN SOLUTION
strided_exponent = 1.5
### END SOLUTION

# %%
check("strided_exponent", strided_exponent)

# %% [markdown]
# ### Exercise `repaired_mask` (find the bug, ★★☆, 6 min)
#
# Here is a mask in blocks that was meant for a causal model: each block looks at itself and at the one before, and block 0 is global. Outputs 0 and 4 should
# depend on 1 and 5 tokens:


# %%
def buggy_mask(n, size):
    """n tokens in blocks of `size`. -> (n, n) boolean, True = may look."""
    block = np.arange(n) // size
    back = block[:, None] - block  # how many blocks before the query's the key's is
    near = (back == 0) | (back == 1)
    shared = (block == 0) | (block == 0)[:, None]  # looked at by all, and looks at all
    return near | shared


_, p = attention(q, k, v, buggy_mask(n, 4))
for query in (0, 4):
    dout = np.zeros_like(v)
    dout[query] = 1
    dv = attention_backward(dout, q, k, v, p)[2]
    tokens = np.flatnonzero(dv.any(axis=-1))
    print(f"output {query} depends on {len(tokens)} tokens, up to token {tokens[-1]}")

# %% [markdown]
# Repair it: nothing may look ahead, and every other pair stays as it is.


# %%
def repaired_mask(n, size):
    """n tokens in blocks of `size`. -> (n, n) boolean, True = may look."""
    ### BEGIN SOLUTION
    block = np.arange(n) // size
    back = block[:, None] - block
    near = (back == 0) | (back == 1)
    shared = (block == 0) | (block == 0)[:, None]
    return (near | shared) & (np.arange(n) <= np.arange(n)[:, None])  # token by token
    ### END SOLUTION


# %%
check("repaired_mask", repaired_mask)

# %% [markdown]
# ## Kernels: no weights at all
#
# Softmax weighs key $j$ by $e^{s_{ij}}$, divided by the sum of a row. Why the exponential? Take any function $\varphi$ that turns a row of $d$ numbers into $r$ positive ones,
# its **features**, and weigh by their dot product instead:
#
# $$out_i = \frac{\sum_j \big(\varphi(q_i) \cdot \varphi(k_j)\big)\, v_j}{\sum_j \varphi(q_i) \cdot \varphi(k_j)}
# = \frac{\varphi(q_i) \sum_j \varphi(k_j)^\top v_j}{\varphi(q_i) \cdot \sum_j \varphi(k_j)} .$$
#
# The second form moved the brackets. Its sums do not depend on $i$: an $(r, d)$ matrix and a row of $r$ numbers hold all that is to be known of the keys. Causal, the sums end at $j = i$, and
# grow by one term a token. That is a recurrence ([Katharopoulos et al. 2020](https://arxiv.org/abs/2006.16236)), whose state has a fixed size.
#
# ### Exercise `my_linear_attention` (write the op, ★★☆, 8 min)
#
# Causal. Features $a_i = \varphi(q_i)$ and $b_j = \varphi(k_j)$ are given as rows of `a` and `b`. Go from token to token with a state; do not make an $(n, n)$ array.


# %%
def my_linear_attention(a, b, v):
    """Shapes: a and b (n, r), positive, v (n, e) -> out (n, e)."""
    ### BEGIN SOLUTION
    S, z, out = np.zeros((b.shape[1], v.shape[1])), np.zeros(b.shape[1]), np.empty_like(v)
    for t in range(len(v)):
        S = S + np.outer(b[t], v[t])  # (r, e)
        z = z + b[t]  # (r,)
        out[t] = a[t] @ S / (a[t] @ z)
    return out
    ### END SOLUTION


# %%
check("my_linear_attention", my_linear_attention)


# %%
def phi(x):  # 1 + x above 0, e^x below
    return np.where(x > 0, 1 + x, np.exp(np.minimum(x, 0)))


mine = yours("my_linear_attention")(phi(q), phi(k), v)
print("the library's linear attention:", np.allclose(mine, linear_attention(q, k, v)[0]))
weights = linear_weights(q, k, causal=False)
ranks = [np.linalg.matrix_rank(x) for x in (weights, softmax(q @ k.T / math.sqrt(d)))]
print(f"rank of {n} x {n} weights: linear {ranks[0]}, softmax {ranks[1]}")

# %% [markdown]
# That $\varphi$ is Katharopoulos's; it has $r = d$ features. This is another attention, not the same one computed faster: its $n \times n$ weights have a rank of $r = 16$ at most.
#
# ### Performer: features of the exponential
#
# *On a first reading you may go on at "All of them, in one table": that section needs only this: the longer queries and keys are, the more
# features a Performer needs.*
#
# Are there features whose product *is* $e^{q \cdot k}$? On average, yes. Let $w$ be a row of $d$ independent standard normal numbers. Then, with $\mathbb E$ for the mean over draws, $\mathbb E[e^{w \cdot z}] = e^{|z|^2 / 2}$ for every row $z$ (each entry contributes $e^{z_i^2 / 2}$: complete the square under the integral). Put $z = q + k$, where $|z|^2 = |q|^2 + 2\, q \cdot k + |k|^2$:
#
# $$\mathbb E\Big[ e^{w \cdot q - |q|^2 / 2} \; e^{w \cdot k - |k|^2 / 2} \Big] = e^{|q + k|^2 / 2 - |q|^2 / 2 - |k|^2 / 2} = e^{q \cdot k} .$$
#
# So draw $r$ such rows $w$, once for all tokens, and let each make a feature $e^{w \cdot x - |x|^2 / 2} / \sqrt r$ ([Choromanski et al. 2021](https://arxiv.org/abs/2009.14794), who also make the rows
# orthogonal). For the $\sqrt d$, divide $q$ and $k$ by $d^{1/4}$ first. The product of features is then a mean over $r$ draws. One draw's *square* has the mean
# $e^{2|q + k|^2 - |q|^2 - |k|^2}$, by the same formula with $2z$, so for independent rows the standard deviation, as a share of $e^{q \cdot k}$, is
#
# $$\sqrt{\big(e^{|q + k|^2} - 1\big) / r} .$$
#
# It falls as $1 / \sqrt r$. But look at the exponent: long queries and keys need *exponentially* many features.

# %% tags=["hide-input"]
R = (16, 64, 256, 1024)


def kernel_errors(size, r, draw, draws=200):
    """Over pairs of rows of this size: the spread of φ(q)·φ(k) / e^(q·k), and that of the formula."""
    rng = np.random.default_rng(3)
    x, y = size * rng.standard_normal((2, 8, d))
    ratio = [
        positive_features(x, W) @ positive_features(y, W).T
        for W in (draw(rng, r) for _ in range(draws))
    ]
    spread = (np.stack(ratio) / np.exp(x @ y.T / math.sqrt(d))).std(axis=0)
    formula = np.sqrt(np.expm1(((x[:, None] + y) ** 2).sum(axis=-1) / math.sqrt(d)) / r)
    return np.median(spread), np.median(formula)


def independent(rng, r):
    return rng.standard_normal((r, d))


def orthogonal(rng, r):
    return orthogonal_features(rng, r, d)


WANTED, SCALES = np.random.default_rng(4).standard_normal((64, d)), (0.5, 1, 2, 4, 8, 16)


def weight_on_wanted(weights_of):
    """Each of 64 queries is its own key, times a scale: the mean weight on that key, for each scale."""
    return [np.diagonal(weights_of(scale * WANTED, WANTED)).mean() for scale in SCALES]


def performer_with(r):
    W = orthogonal(np.random.default_rng(5), r)
    return lambda q, k: performer_weights(q, k, W, causal=False)


with style():
    fig, (left, right) = figure(1, 2, size=(8.6, 3.7))
    for size, colour, marker in ((0.3, GREEN, "^"), (0.5, BLUE, "o"), (1.0, ORANGE, "s")):
        found = np.array([kernel_errors(size, r, independent) for r in R])
        left.loglog(R, found[:, 0], marker, color=colour)
        left.loglog(R, found[:, 1], "-", color=colour, lw=1)
        at, share, side = (16, 0.25, "left") if size < 0.4 else (1024, 3.0, "right")
        where = found[0, 1] * share if size < 0.4 else found[-1, 1] * share
        left.text(at, where, f"entries of std {size}", color=colour, ha=side, va="center")
        found = [kernel_errors(size, r, orthogonal)[0] for r in R]
        left.loglog(R, found, marker, mfc="none", color=colour)
    left.axhline(1, color=GREY, lw=0.8, ls=":")
    left.set(title="relative error of the kernel", xlabel="features r", ylim=(0.008, 60))
    left.set(xticks=R, xticklabels=R)
    left.minorticks_off()
    lines = (
        ("softmax", lambda q, k: softmax(q @ k.T / math.sqrt(d)), GREY, "-o"),
        ("Performer, r = 1,024", performer_with(1024), ORANGE, "--s"),
        ("Performer, r = 64", performer_with(64), ORANGE, ":s"),
        ("linear", lambda q, k: linear_weights(q, k, causal=False), BLUE, "-.^"),
    )
    for name, weights_of, colour, look in lines:
        found = weight_on_wanted(weights_of)
        right.semilogx(SCALES, found, look, color=colour, base=2, ms=4)
        below = -0.035 if name != "linear" else 0.075
        right.text(16, found[-1] + below, name, color=colour, va="top", ha="right")
    right.set(
        title="weight on the wanted key", xlabel="the query is its key, times", ylim=(0, 1.05)
    )
    right.set(xticks=SCALES, xticklabels=[f"{scale:g}" for scale in SCALES])
show_figure(
    fig,
    "kernels",
    "Left: the relative error of the Performer's kernel falls as one over the root of r for short rows; for longer "
    "ones it is far larger, and 200 draws show less than their formula. Right: as queries become longer softmax puts all weight on the wanted key; the Performer stays "
    "at 0.4 with 1,024 features and at a fifth with 64, linear attention near nothing",
)

# %% [markdown]
# Left: filled markers are independent rows, hollow ones orthogonal, lines the formula. Far above 1 the markers lie below their line: most of the variance comes from draws so
# rare that 200 hardly meet them. Right: every query looks for one key among 64. Softmax becomes as sharp as it is asked to be. Linear attention
# does not: its features grow in proportion to a long query, and such a factor cancels in the quotient. And the longer the queries, the more features the Performer lacks.
#
# The kernel is *unbiased*: its mean is right for every $r$. The attention is not, because it divides two random sums:

# %%
rng, rows = np.random.default_rng(6), []
q, k = 0.5 * rng.standard_normal((2, 32, d))
right_weights = softmax(q @ k.T / math.sqrt(d))
for r in (16, 64, 256):
    draws = [orthogonal_features(rng, r, d) for _ in range(1000)]
    found = np.stack([performer_weights(q, k, W, causal=False) for W in draws])
    kernels = np.mean([positive_features(q, W) @ positive_features(k, W).T for W in draws], axis=0)
    aim = (kernels / np.exp(q @ k.T / math.sqrt(d))).mean()
    one = np.abs(found - right_weights).mean() / right_weights.mean()
    mean = np.abs(found.mean(axis=0) - right_weights).mean() / right_weights.mean()
    rows.append([r, aim, one, mean])
table(
    "features r | mean kernel / e^(q·k) | error of weights, one draw | of the mean of 1,000", rows
)

# %% [markdown]
# Errors are relative. In a mean of 1,000 draws about $1 / \sqrt{1000}$ of one draw's error is left by chance: 0.009, 0.005 and 0.003. What is above that is bias; it falls faster than the error.
#
# ## All of them, in one table
#
# Each form, causal: how far its output is from softmax attention's, how its work and what it keeps grow, and on how many of 256 tokens the last output depends. In the last column
# every query looks for the key *100 tokens back*: it is that key, times 4. (Windows of 16, strides of $\sqrt n$, blocks of 16, 64 features.) **Predict** the last column.


# %% tags=["hide-output"]
W = orthogonal_features(np.random.default_rng(7), 64, d)


def blocks(pattern):
    return lambda q, k, v: block_sparse_attention(q, k, v, pattern(len(q)).layout(len(q)))


def longformer(q, k, v):  # its two global queries apart
    pattern, n = NearAndGlobal(True, window=16, tokens=2), len(q)
    out, kept = block_sparse_attention(q, k, v, pattern.layout(n))
    first, more = block_sparse_attention(q[:2], k[:2], v[:2], pattern.of_globals(n))
    return np.concatenate([first, out[2:]]), kept, more


FORMS = {
    "full": full,
    "tiles": lambda q, k, v: flash_attention(q, k, v, Mask(causal=True), tile=(64, 64)),
    "window": lambda q, k, v: window_attention(q, k, v, 16),
    "strided": blocks(lambda n: NearOrResidues(True, stride=math.isqrt(n))),
    "Longformer": longformer,
    "BigBird": blocks(lambda n: BigBird(True, size=16, near=2, first=1, random=1)),
    "linear": linear_attention,
    "Performer": lambda q, k, v: performer_attention(q, k, v, W),
}
n, far, rows = 256, 100, []
q, k, v = np.random.default_rng(8).standard_normal((3, n, d))
exact, sought = full(q, k, v)[0], 4 * np.roll(k, far, axis=0)  # query i is key i - 100, times 4
for name, form in FORMS.items():
    work, kept = exponents(form)
    off = np.abs(form(q, k, v)[0] - exact).max()
    p = form(sought, k, np.eye(n))[0]  # values of the identity: out is the weights
    found = np.diagonal(p, -far).mean()
    off = "rounding" if off < 1e-12 else f"{off:.1f}"
    rows.append(
        [name, off, f"n^{work:.1f}", f"n^{kept:.1f}", np.count_nonzero(p[-1]), f"{found:.2f}"]
    )
table("attention | off by | work | kept | tokens seen | weight 100 back", rows)

# %% tags=["hide-input"]
LOOKS = {
    "full": (GREY, "-o"), "tiles": (GREY, "--s"), "strided": (GREEN, "-^"), "Performer": (ORANGE, "-D"),
    "linear": (ORANGE, "--v"), "window": (BLUE, "-x"),
}  # fmt: skip
with style():
    fig, (left, right) = figure(1, 2, size=(8.6, 3.7), sharex=True)
    sizes = (64, 128, 256, 512, 1024, 2048)
    for name, (colour, look) in LOOKS.items():
        costs = np.array([counted(FORMS[name], size) for size in sizes])
        for ax, cost in zip((left, right), costs.T, strict=True):
            ax.loglog(sizes, cost, look, color=colour, ms=4, label=name)
    left.set(title="multiply-adds", xlabel="tokens n", xticks=sizes, xticklabels=sizes)
    right.set(title="numbers kept", xlabel="tokens n")
    for ax in (left, right):
        ax.minorticks_off()
    left.legend(fontsize=9)
    right.text(2048, 270, "tiles, linear, Performer", color=ORANGE, ha="right", va="top")
show_figure(
    fig,
    "growth",
    "Multiply-adds and numbers kept against the number of tokens, in logarithms. Work: full attention and tiles rise twice as "
    "steeply as the window, linear attention and the Performer, strided between them; the Performer's line lies above full "
    "attention's until about 200 tokens. Kept: full attention alone has the slope 2; tiles keep as little as linear attention",
)

# %% [markdown]
# - **Tiles** are the only ones that give the same answer. They save memory, and under a mask work; never the exponent of the work.
# - **Windows and blocks** compute what they see exactly. What they do not see in a layer has weight 0, however much it is wanted; BigBird
#   finds what its random blocks happen to hold.
# - **Kernels** see everything, and nothing sharply: a state of $r \times d$ numbers is all that is left of the past, and what has a fixed size forgets
#   ([chapter 17](17_before_attention.ipynb)).
#
# An exponent says who wins in the end, not where: the Performer's 64 features cost more than full attention up to about 200 tokens. Counts are not seconds, either.
# They do not see that a number which is never written need not be read again. Seconds and memory of these attentions, over long sequences, have
# [a page of measurements](../benchmarks/results/long_attention.md) of their own.
#
# | what is often said | what the cells above show |
# |---|---|
# | FlashAttention computes less | it multiplies more, 7 products for 6; it *keeps* less, and skips tiles that a mask hides |
# | global tokens connect everything in two layers | both ways; in a causal model they have heard of nobody |
# | a mask that is causal by blocks is causal | within a block, every token but the last sees ahead |
# | the Performer is an unbiased estimate of attention | its kernel is; the quotient has a bias, which falls faster than its error |
# | linear attention approximates softmax attention | it is another attention, whose weights have rank $r$ |
#
# ## In five lines
#
# - Attention's $n^2$ is paid twice: in multiply-adds, and in weights that are kept.
# - Tiles with a running maximum $m$ and sum $l$ give the same output; $L = m + \log l$ brings back every weight, so memory grows with $n$.
# - A pattern of pairs is full attention under a mask: count its pairs, and how many layers connect everything. Check tokens, not blocks, for leaks.
# - Features, and moving the brackets, make attention a recurrence with a fixed state: its work grows with $n$, and it cannot look up sharply.
# - Random features have the exponential as their mean, with an error that falls as $1/\sqrt r$ and grows exponentially with the length of queries and keys.
#
# To read: Dao (2023), section 3.1, and Dao et al. (2022), section 3. Next: [19, after attention](19_after_attention.ipynb), where the state learns what to forget.
