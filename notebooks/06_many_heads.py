# %% [markdown]
# # 06 · Many heads
#
# *The cat chased the mouse.* To know what happened, the word *chased* needs two other words: who did it, and to whom.
# But softmax gives each word one row of attention weights, and so one mixture of words. **What if a word needs two
# things at once?**
#
# **You need**: attention ([chapter 01](01_soft_lookup.ipynb)), its backward ([chapter 04](04_attention_backward.ipynb)),
# the causal mask ([chapter 05](05_masks.ipynb)), variance and covariance.
#
# **You will be able to**:
#
# - show how much one head must lose, and count what several heads cost;
# - write multi-head attention and the backward of its last step, and catch the reshape that goes wrong in silence;
# - say what a trained head may be called, and what it may not.

# %% tags=["hide-input"]
import math
from functools import cache

import numpy as np
from matplotlib.patheffects import withStroke

from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.layers import multi_head_attention, multi_head_attention_backward, multi_head_init
from tinyattn.layers.mixers.multi_head import merge, split
from tinyattn.ops import attention, causal_mask
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREY, GROUND, HEAT, INK, ORANGE
from tinyattn.show.views import mirror
from tinyattn.training.adam import Moments, adam
from tinyattn.tree import flatten

road(6)

# %% [markdown]
# ## Turn it first
#
# Here is attention of three words in two heads; a thick line separates the heads. Drag a number of the first two columns of `q`: the second head does not move.
# Set the heads to 1, and each word is left with a single row of weights.

# %% tags=["hide-input"]
mirror(["the", "cat", "sat"], heads=2, hide=("scale", "mask"), title="Attention in two heads")

# %% [markdown]
# ## One mixture of two words
#
# Three words of six numbers each: which word it is (*cat*, *mouse*, *chased*), and where it stands (before the verb,
# the verb, after it). We write the matrices by hand, so that *chased* looks at both neighbours: its query says "I am
# the verb", and the keys of the places before and after answer.

# %%
NAMES = ("cat", "mouse", "chased")


def sentence(*words):
    """Rows are tokens: the word, one-hot, beside its place, one-hot: (3, 6)."""
    return np.hstack([np.eye(3)[[NAMES.index(word) for word in words]], np.eye(3)])


cat_first = sentence("cat", "chased", "mouse")
mouse_first = sentence("mouse", "chased", "cat")
W_q, W_k, W_v = np.zeros((3, 6, 6))
W_q[4, 0] = 8  # the verb asks
W_k[3, 0] = W_k[5, 0] = 8  # what stands before answers, and what stands after
W_v[:3, :3] = np.eye(3)  # a word gives itself

(out_cat, p), (out_mouse, _) = (
    attention(x @ W_q, x @ W_k, x @ W_v) for x in (cat_first, mouse_first)
)
show_arrays(p_of_chased=p[1], cat_is_first=out_cat[1], mouse_is_first=out_mouse[1])

# %% [markdown]
# Half a cat, half a mouse, and *the same* whoever chased whom. Nothing was trained badly here: the weights are exactly
# those that we wanted, and their mixture has forgotten who was who.
#
# Could other weights save it? Give the word before the verb the weight $w$ and the one after it $1 - w$. Call the two
# words $a$ and $b$: unrelated numbers of mean 0 and variance 1. The head hands on $r = w\,a + (1-w)\,b$. Guess $a$ as a
# multiple of $r$, the multiple with the smallest squared error. The **share** of $a$ is the part of its variance that
# this guess explains: 1 if $a$ is recovered, 0 if nothing is. The share of $b$ is found in the same way.
#
# ### Exercise `one_head_share` (predict the number, ★★☆, 4 min)
#
# At the best $w$ of all, how large is the *mean* of the two shares? Write down a number from 0 to 1.

# %%
### BEGIN SOLUTION
one_head_share = 0.5
### END SOLUTION

# %%
check("one_head_share", one_head_share)

# %% [markdown]
# <details><summary>Answer, on paper</summary>
#
# The best multiple is $\operatorname{Cov}(r, a) / \operatorname{Var}(r)$ (set the derivative of the squared error to 0). The
# variance of this guess, divided by that of $a$, is
#
# $$\text{share}_a = \frac{\operatorname{Cov}(r, a)^2}{\operatorname{Var}(r)\operatorname{Var}(a)} = \frac{w^2}{w^2 + (1-w)^2} ,
# \qquad \text{share}_b = \frac{(1-w)^2}{w^2 + (1-w)^2} .$$
#
# The two add up to 1, **whatever $w$ is**. One head is one budget: it may spend it on one word or divide it, but it
# cannot buy two whole words.
#
# </details>
#
# ### Two heads
#
# Now let the first three columns of the same matrices belong to one head, and the last three to another. Head 1 asks
# for what stands before, head 2 for what stands after. Each has a softmax of its own, and their outputs are put side by
# side.

# %%
W_q[4, 3] = 8  # the verb asks twice: in head 1 (columns 0 to 2), and in head 2 (columns 3 to 5)
W_k[5] = 0
W_k[5, 3] = 8  # before answers in head 1 still, after answers in head 2
W_v[:3, 3:] = np.eye(3)  # a word gives itself, to both


def two_heads(x):
    one, two = (
        attention(x @ W_q[:, own], x @ W_k[:, own], x @ W_v[:, own])[0]  # (3, 3)
        for own in (slice(0, 3), slice(3, 6))
    )
    return np.hstack([one, two])  # (3, 6)


show_arrays(cat_is_first=two_heads(cat_first)[1], mouse_is_first=two_heads(mouse_first)[1])

# %% [markdown]
# Columns 0 to 2 say who did it, columns 3 to 5 to whom. Nothing is lost, and the matrices are no larger than before.
#
# ## The formula, and what it costs
#
# $$\text{head}_i = \text{attention}(x W_{q,i},\; x W_{k,i},\; x W_{v,i}), \qquad
# y = [\,\text{head}_1 \;\cdots\; \text{head}_h\,]\, W_o$$
#
# with $W_{q,i}, W_{k,i}, W_{v,i}$ of shape $D \times d$, where $d = D/h$. Side by side, the $h$ matrices $W_{q,i}$ are
# one matrix $W_q$ of shape $D \times D$: **a head is a group of columns.** Every head reads *all* of $x$ and keeps $d$
# numbers of it, and so its logits are divided by $\sqrt{d}$, as [chapter 02](02_scale.ipynb) says.
#
# The Transformer has $D = 512$ and $h = 8$, so $d = 64$. Take $n = 512$ tokens. **Predict:** which columns of the table
# change with $h$?

# %% tags=["hide-output"]
n, D, rows = 512, 512, []
for h in (1, 8, 64):
    d = D // h
    maps = 4 * n * D * D  # multiplications by W_q, W_k, W_v and W_o
    looking = h * (n * d * n + n * n * d)  # q kᵀ, and p v, in every head
    rows.append([h, d, 4 * D * D, maps, looking, h * n * n])
table("h | d | parameters | in linear maps | in q kᵀ and p v | attention weights", rows)

# %% [markdown]
# Parameters and multiplications do not depend on $h$, because $h$ heads of width $D/h$ have width $D$ together. What grows
# are the attention weights: **$h n^2$ of them**, each with an exponential. That is the price of $h$ softmaxes.
#
# ## Split: reshape, then swap
#
# One product gives the queries of all heads at once, $q = x W_q$ of shape $(n, D)$. Now every head needs its own
# columns as a matrix of its own: $(n, D) \to (h, n, d)$. That takes two steps, and the second is easily forgotten. Let
# each entry be its own address, *token.column*:

# %%
h, d = 2, 3
q = np.array([[token + column / 10 for column in range(6)] for token in range(4)])  # (n, D)
reshaped = q.reshape(4, h, d)  # (n, h, d): the last axis in two; nothing has moved
right = reshaped.swapaxes(0, 1)  # (h, n, d): now the head stands first
wrong = q.reshape(h, 4, d)  # (h, n, d) too: the shape is right
print("the library's split:", np.array_equal(split(q, h), right))
print("merge takes it back:", np.array_equal(merge(right), q))


# %% tags=["hide-input"]
def draw(ax, numbers, title, rows):
    """Numbers in cells; the cell's colour and hatching say which head owns its column."""
    for (i, j), number in np.ndenumerate(numbers):
        second = round(number * 10) % 10 >= 3
        colour = ORANGE if second else BLUE
        hatch = "///" if second else None
        ax.bar(j + 0.5, 1, 1, i, color=colour, alpha=0.25, hatch=hatch, edgecolor=GROUND)
        ax.text(j + 0.5, i + 0.5, f"{number:.1f}", ha="center", va="center", fontsize=10)
    n, m = numbers.shape
    ax.set(title=title, xlim=(0, m), ylim=(n, 0), aspect="equal", xticks=[])
    ax.set_yticks(np.arange(n) + 0.5, rows)
    ax.tick_params(length=0, labelsize=9)
    for side in ax.spines.values():
        side.set_visible(False)


with style():
    fig, axes = figure(1, 5, size=(8.6, 2.3), width_ratios=[6, 3, 3, 3, 3])
    draw(axes[0], q, "q: plain columns are head 1's", [f"token {i}" for i in range(4)])
    titles = ("head 1", "head 2", "head 1,\nno swap", "head 2,\nno swap")
    for ax, numbers, title in zip(axes[1:], (*right, *wrong), titles, strict=True):
        draw(ax, numbers, title, range(4))
show_figure(
    fig,
    "columns",
    "With reshape and swap head 1 holds columns 0 to 2 of all four tokens; with a reshape alone it holds all six "
    "columns of tokens 0 and 1, a token on two rows",
)

# %% [markdown]
# A reshape reads the numbers row after row, the last index fastest, here token after token, and fills the new shape in
# the same order. Without the swap "head 1" is tokens 0 and 1, each cut in two, and "head 2" is tokens 2 and 3. Every shape
# from here on is right.
#
# ### What the forgotten swap does
#
# Nothing crashes. What breaks is *who hears whom*, and chapter 05 has the test for that: change one token and see which
# outputs move. We write the layer in four ways: with both swaps, with neither, and with only one of them. The mask is
# causal.


# %%
def cut(x, heads):
    """The split that forgets to swap."""
    return x.reshape(heads, x.shape[0], x.shape[1] // heads)


def uncut(x):
    """The merge that forgets to swap."""
    return x.reshape(x.shape[1], -1)


WAYS = {
    "both swaps": (split, merge),
    "neither": (cut, uncut),
    "no swap in split": (cut, merge),
    "no swap in merge": (split, uncut),
}


# %% tags=["hide-input"]
def influence(split, merge, n=6, D=8, heads=2):
    """(n, n): does output i move when token j does, under a causal mask?"""
    x, *W = np.random.default_rng(0).standard_normal((4, D, D))

    def layer(x):
        q, k, v = (split(x @ one, heads) for one in W)
        return merge(attention(q, k, v, causal_mask(n, like=x))[0])

    x, moved = x[:n], np.zeros((n, n), bool)
    for j in range(n):
        other = x.copy()
        other[j] += 1
        moved[:, j] = (layer(other) != layer(x)).any(axis=-1)
    return moved


hears = {name: influence(*ways) for name, ways in WAYS.items()}

# %% [markdown]
# **Predict:** in which of the four does the future leak?

# %% tags=["hide-input", "hide-output"]
with style():
    fig, axes = figure(1, 4, size=(8.4, 2.9), sharey=True)
    for ax, (name, moved) in zip(axes, hears.items(), strict=True):
        ax.imshow(np.ma.masked_equal(moved, False), cmap="Greys", vmin=0, vmax=2)
        for i, j in np.argwhere(moved & ~np.tri(6, dtype=bool)):
            mark = ax.text(
                j, i, "!", ha="center", va="center", color="black", weight="bold", size=14
            )
            mark.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
        for i, j in np.argwhere(~moved & np.tri(6, dtype=bool)):
            ax.text(j, i, "?", ha="center", va="center", color=INK, size=12)
        ax.set(title=name, xlabel="token changed", xticks=range(6), yticks=range(6), aspect="equal")
    axes[0].set_ylabel("output")
    fig.supxlabel(
        "grey: the output moves;  ! moves, and must not;  ? should move, and does not", fontsize=10
    )
show_figure(
    fig,
    "influence",
    "Who hears whom: a full triangle with both swaps, two small blocks with neither, and leaks of the future, marked !, "
    "with only one",
)

# %% [markdown]
# With only one swap the future leaks (**!**), although the mask is right. With *neither*, two mistakes cancel into
# something treacherous: no leak, every token hears itself, but the sequence falls into $h$ pieces that never meet
# (**?** marks what does not arrive). No test of shapes sees any of it.
#
# ### Exercise `to_heads` (write the op, ★★☆, 8 min)
#
# Project and split: `x` (..., n, D) times `W` (D, D), then one matrix for each head. `...` stands for any number of
# leading axes, such as a batch's.


# %%
def to_heads(x, W, heads):
    """Shapes: x (..., n, D), W (D, D) -> q (..., heads, n, D / heads)."""
    ### BEGIN SOLUTION
    q = x @ W  # (..., n, D)
    *lead, n, D = q.shape
    q = q.reshape(*lead, n, heads, D // heads)  # (..., n, h, d)
    return q.swapaxes(-2, -3)  # (..., h, n, d)
    ### END SOLUTION


# %%
check("to_heads", to_heads)

# %% [markdown]
# ### Exercise `my_multi_head` (write the op, ★★☆, 12 min)
#
# All of it. The formula says "for every head", but you need no loop: the head's axis stands where a batch's would, and
# `attention` takes any leading axes. Three projections split into heads, `attention`, merge, $W_o$; no mask.


# %%
def my_multi_head(x, W_q, W_k, W_v, W_o, heads):
    """Shapes: x (..., n, D), all W (D, D) -> y (..., n, D)."""
    ### BEGIN SOLUTION
    *lead, n, D = x.shape
    apart = (*lead, n, heads, D // heads)
    q, k, v = ((x @ W).reshape(apart).swapaxes(-2, -3) for W in (W_q, W_k, W_v))  # (..., h, n, d)
    out, _ = attention(q, k, v)
    return out.swapaxes(-2, -3).reshape(*lead, n, D) @ W_o  # (..., n, h d) @ (D, D)
    ### END SOLUTION


# %%
check("my_multi_head", my_multi_head)

# %% [markdown]
# ## What $W_o$ is for
#
# Before $W_o$, head $i$ fills its own columns and no others. $W_o$ lets every head write into every column. Multiply
# out, with $W_{o,i}$ for the $d$ rows of $W_o$ that meet head $i$, and $p_i$ for its attention weights:
#
# $$y = [\,\text{head}_1 \cdots \text{head}_h\,]\,W_o = \sum_i \text{head}_i\,W_{o,i}
# = \sum_i p_i\; x\; W_{v,i} W_{o,i} .$$
#
# "Put side by side, then multiply" is a **sum over heads**. So the order of the heads means nothing, as long as the
# rows of $W_o$ go along; and with *one* head $W_o$ can be multiplied into $W_v$ and left out (as in SASRec, chapter
# 12).

# %%
multi_head = yours("my_multi_head")
n, D, h = 5, 8, 4
d = D // h
rng = np.random.default_rng(5)
x = rng.standard_normal((n, D))
W_q, W_k, W_v, W_o = Ws = rng.standard_normal((4, D, D)) / math.sqrt(D)
y, summed = multi_head(x, *Ws, h), np.zeros((n, D))
for i in range(h):
    own = slice(i * d, (i + 1) * d)  # the columns of head i, and its rows of W_o
    summed += attention(x @ W_q[:, own], x @ W_k[:, own], x @ W_v[:, own])[0] @ W_o[own]
print("a sum over heads:", np.allclose(summed, y))

columns = np.arange(D).reshape(h, d)[[2, 0, 3, 1]].reshape(-1)  # whole groups change places
moved = [W[:, columns] for W in (W_q, W_k, W_v)]
print("another order of heads:", np.allclose(multi_head(x, *moved, W_o[columns], h), y))
for heads in (1, h):
    with_it, folded = (
        multi_head(x, W_q, W_k, *rest, heads) for rest in ((W_v, W_o), (W_v @ W_o, np.eye(D)))
    )
    print(f"W_o folded into W_v, heads = {heads}: {np.allclose(with_it, folded)}")

# %% [markdown]
# ## What a narrow head cannot do
#
# More heads are narrower heads. In one head $s = q k^\top / \sqrt d$, with $q$ and $k$ of shape $(n, d)$.
#
# ### Exercise `score_rank` (predict the number, ★☆☆, 3 min)
#
# 100 tokens of width 64, 4 heads, everything drawn at random. The logits of one head are a 100 × 100 matrix. What is
# its rank (the number of its rows that are linearly independent)?

# %%
### BEGIN SOLUTION
score_rank = 16
### END SOLUTION

# %%
check("score_rank", score_rank)

# %% [markdown]
# So a narrow head cannot produce every pattern of weights ([Bhojanapalli et al.
# 2020](https://arxiv.org/abs/2002.07028), theorem 1). **Predict:** 64 tokens, and each must look at one other and
# nowhere else, whichever we prescribe. How wide must the head be?

# %% tags=["hide-output"]
angle = 2 * np.pi * np.arange(64) / 64
keys = np.stack([np.cos(angle), np.sin(angle)], axis=-1)  # (64, 2): on a circle
prescribed = np.random.default_rng(0).permutation(64)
rows = []
for length in (10, 100, 1_000, 10_000):  # of the queries, each of which points at its key
    _, p = attention(length * keys[prescribed], keys, keys, scale=1.0)  # (64, 64)
    rows.append([2, length, f"{p[np.arange(64), prescribed].mean():.2f}"])
table("width | length of the queries | weight on the prescribed key", rows)

# %% [markdown]
# Width 2 is enough to point at any *one* key, at the price of long queries. What a narrow head cannot do is divide its
# weight *as it likes* over many keys: its logits have rank $d$.
#
# ## What do heads learn?
#
# One head for grammar, another for meaning? Let us watch on a task small enough to know everything about. Eight tokens,
# each with a word (four signs ±1), a kind (four kinds, two tokens of each) and a place. Every token must report **the
# word of the token before it** and **the word of its partner**, the other token of its kind. The layer has width 16 and
# is trained on the squared error; knowing nothing costs 1. The data and the training are folded:

# %% tags=["hide-input"]
SIGNS, KINDS, LENGTH = 4, 4, 8
WIDTH = SIGNS + KINDS + LENGTH
WANTED = np.r_[0:4, 8:12]  # the columns of y that are asked for
BEFORE = np.roll(np.arange(LENGTH), 1)  # (LENGTH,): who stands before; the first looks at the last


def sentences(rng, count):
    """-> x (count, 8, 16), both words (count, 8, 8), the partner's place (count, 8)."""
    word = rng.choice([-1.0, 1.0], size=(count, LENGTH, SIGNS))
    kind = np.argsort(rng.random((count, LENGTH)), axis=-1) % KINDS  # two tokens of each
    place = np.broadcast_to(np.eye(LENGTH), (count, LENGTH, LENGTH))
    same = (kind[:, :, None] == kind[:, None, :]) & ~np.eye(LENGTH, dtype=bool)
    partner = same.argmax(axis=-1)
    both = [word[:, BEFORE], np.take_along_axis(word, partner[..., None], axis=1)]
    x = np.concatenate([word, np.eye(KINDS)[kind], place], axis=-1)
    return x, np.concatenate(both, axis=-1), partner


@cache
def train(heads, seed, steps=200):
    """-> parameters, losses: multi-head attention and nothing else, the library's layer and its Adam."""
    rng = np.random.default_rng(seed)
    vector, params = flatten(multi_head_init(rng, WIDTH, bias=False), np.float64)
    moments, losses = Moments(np.zeros_like(vector), np.zeros_like(vector)), []
    for step in range(1, steps + 1):
        x, target, _ = sentences(rng, 32)
        y, remembered = multi_head_attention(params, x, x, heads=heads)
        error = y[..., WANTED] - target
        losses.append((error**2).mean())
        dy = np.zeros_like(y)
        dy[..., WANTED] = 2 * error / error.size
        grads = multi_head_attention_backward(params, dy, remembered)[2]
        gradient, _ = flatten({name: grads[name] for name in params}, np.float64)
        adam(vector, gradient, moments, step, lr=0.02, beta2=0.99)
    return params, losses


def examined(heads, seed, steps=200):
    """-> error on fresh sentences, and mean weights of each head on the token before and on the partner."""
    params, _ = train(heads, seed, steps)
    x, target, partner = sentences(np.random.default_rng(1000), 256)
    y, remembered = multi_head_attention(params, x, x, heads=heads)
    p, looks = remembered.weights, []  # (256, heads, 8, 8)
    for places in (np.broadcast_to(BEFORE, partner.shape), partner):
        there = np.take_along_axis(p, places[:, None, :, None], axis=-1)
        looks.append(there.mean(axis=(0, 2, 3)))
    return ((y[..., WANTED] - target) ** 2).mean(), np.stack(looks, axis=-1)


# %% [markdown]
# **Predict:** the error of one head (for one token in seven the partner *is* the token before), and what two heads will
# do.

# %% tags=["hide-output"]
rows = []
for heads, seed in ((1, 1), (2, 1), (2, 2), (2, 3), (2, 4)):
    error, looks = examined(heads, seed)  # looks (heads, 2)
    shown = [" ".join(f"{w:.2f}" for w in looks[:, i]) for i in (0, 1)]
    rows.append([heads, seed, *shown, f"{error:.2f}"])
table("heads | seed | each on the token before | each on the partner | squared error", rows)

# %% tags=["hide-cell"]
with style():
    x, _, partner = sentences(np.random.default_rng(1000), 1)
    fig, axes = figure(2, 2, size=(7.4, 6.8))
    for heads, colour, line in ((1, ORANGE, "--"), (2, BLUE, "-")):
        label = f"{heads} head{'s' * (heads > 1)}"
        axes[0, 0].plot(train(heads, 1)[1], line, color=colour, label=label)
    axes[0, 0].axhline(3 / 7, color=GREY, linestyle=":")
    axes[0, 0].text(0, 0.35, "bound, 1 head", color=GREY, va="top")
    axes[0, 0].set(title="squared error", xlabel="training step", ylim=(0, 1.3), xlim=(-10, 205))
    axes[0, 0].legend()
    shown = []
    for heads in (1, 2):
        shown += [*multi_head_attention(train(heads, 1)[0], x, x, heads=heads)[1].weights[0]]
    titles = ("p of the only head", "p of head 1 of 2", "p of head 2 of 2")
    for ax, p, title in zip(axes.flat[1:], shown, titles, strict=True):
        square = {"marker": "s", "s": 150, "facecolors": "none", "edgecolors": "#7fd4ff"}
        ax.scatter(BEFORE, range(8), linewidths=2, label="the token before", **square)
        look = {"s": 50, "color": "#ff7a1a", "edgecolors": "black"}
        ax.scatter(partner[0], range(8), label="the partner", **look)
        image = ax.imshow(p, cmap=HEAT, vmin=0, vmax=1)
        ax.set(title=title, xlabel="key", ylabel="query", xticks=range(8), yticks=range(8))
    fig.colorbar(image, ax=axes[:, 1], label="weight", fraction=0.05)
    keys = axes[1, 1].get_legend_handles_labels()
    fig.legend(
        *keys,
        loc="outside lower center",
        ncols=2,
        facecolor="#00224e",
        frameon=True,
        labelcolor="white",
    )
show_figure(
    fig,
    "specialise",
    "Losses of one head and of two; attention weights of the only head lie half on squares (the token before) and half "
    "on circles (the partner), those of two heads on squares only and on circles only",
)

# %% [markdown]
# In the folded picture squares mark the token before, circles the partner; yellow is a weight of 1. One head divides
# its budget, as it must: where the two words differ it loses half, $\tfrac67 \cdot \tfrac12 = 0.43$. ($0.54 + 0.54$ is
# more than 1, because one token in seven is counted in both: at most $\tfrac17 + \tfrac67 \cdot \tfrac12 = 0.57$ each.)
# Two heads, with exactly as many parameters, take one relation each; *which* head takes which differs from seed
# to seed. "Head 1" is not a name for anything, since the order of heads means nothing.
#
# But we *made* a task that asks for two heads. **Predict:** with eight heads of width 2, does one of them look at the
# partner alone?

# %% tags=["hide-output"]
rows = []
for seed in range(4):
    error, looks = examined(8, seed, steps=400)
    rows.append([seed, f"{error:.1f}", f"{looks[:, 1].max():.1f}"])
table("seed | squared error of 8 heads | largest weight of any head on the partner", rows)

# %% [markdown]
# They solve the task as well, and in none of the four runs does any head look at the partner alone: the relation is
# computed by several heads together. Some heads of real models do look like grammar ([Clark et al.
# 2019](https://arxiv.org/abs/1906.04341)), and many can be removed at little loss ([Michel et al.
# 2019](https://arxiv.org/abs/1905.10650)). Attention weights say where a head looks, not what it does with what it
# finds.
#
# ## Backward
#
# Nothing new is needed. `split` and `merge` move numbers and change none, so a gradient goes back the way the number
# came: the backward of `split` is `merge`, and the other way round. The three gradients that then meet at $x$ are those
# of [chapter 04](04_attention_backward.ipynb), and they add.
#
# ### Exercise `from_heads_backward` (derive the backward, ★★☆, 12 min)
#
# The last step of the layer is `y = merge(out) @ W_o`. Derive its backward: from `dy` (..., n, D) to `dout` (..., h, n,
# d) and `dW_o` (D, D). The whole batch shared one $W_o$.


# %%
def from_heads_backward(dy, out, W_o):
    """Shapes: dy (..., n, D), out (..., h, n, d), W_o (D, D) -> dout like out, dW_o like W_o."""
    ### BEGIN SOLUTION
    *lead, h, n, d = out.shape
    joined = out.swapaxes(-2, -3).reshape(*lead, n, h * d)  # the forward's: y = joined @ W_o
    djoined = dy @ W_o.T  # (..., n, D)
    dout = djoined.reshape(*lead, n, h, d).swapaxes(-2, -3)  # merge is undone by split
    rows = joined.reshape(-1, h * d)  # (all tokens, D)
    dW_o = rows.T @ dy.reshape(-1, h * d)  # summed over all that used W_o
    return dout, dW_o
    ### END SOLUTION


# %%
check("from_heads_backward", from_heads_backward)

# %% [markdown]
# The whole layer, two heads of width 2 at work on two tokens. Choose a number of `p.query.W`: up to `merge` it moves one head, and after
# $W_o$ all columns. Near the end of the backward, the gradients of keys and values meet.

# %% tags=["hide-input"]
own = np.random.default_rng(6)
p, two_tokens = multi_head_init(own, 4, bias=False), own.standard_normal((2, 4))
seen = trace(multi_head_attention, p, two_tokens, two_tokens, heads=2, backward=True)
seen.player(title="Two heads, forward and backward")

# %% [markdown]
# ## A bug that other tests let live
#
# Suppose somebody read that heads are averaged, and programmed it: every group of columns holds the mean of all heads.
# Three tests that are often written let it pass:

# %%
averaged = buggy("joins_its_heads")
x, order = rng.standard_normal((n, D)), rng.permutation(n)
later = x.copy()
later[-1] += 1
y, mask = averaged(x, *Ws, h), causal_mask(n, like=x)
then, now = (averaged(z, *Ws, h, mask)[:-1] for z in (x, later))
print("the shape is right:", y.shape == x.shape)
print("tokens permuted, outputs too:", np.allclose(averaged(x[order], *Ws, h), y[order]))
print("the future does not leak:", np.array_equal(then, now))

# %% [markdown]
# ### Exercise `joins_its_heads` (write the property that kills this bug, ★★★, 12 min)
#
# Write a test that `averaged` cannot pass, without writing attention again. `joins_its_heads` is given
# `multi_head_attention(x, W_q, W_k, W_v, W_o, heads) -> y`, and returns True where heads are put side by side.


# %%
def joins_its_heads(multi_head_attention):
    """True where, before W_o, each head fills its own columns and no others."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x, (W_q, W_k, W_v) = rng.standard_normal((5, 6)), rng.standard_normal((3, 6, 6))
    silenced = W_v.copy()
    silenced[:, :3] = 0  # the first of two heads hands on zeros
    before = multi_head_attention(x, W_q, W_k, W_v, np.eye(6), 2)
    after = multi_head_attention(x, W_q, W_k, silenced, np.eye(6), 2)
    return np.allclose(after[:, :3], 0) and np.allclose(after[:, 3:], before[:, 3:])
    ### END SOLUTION


# %%
check("joins_its_heads", joins_its_heads)

# %% [markdown]
# | what is often said | what the cells above show |
# |---|---|
# | one head averages, and loses what it averages | of two words in the same columns exactly half |
# | several heads cost the same as one | parameters and multiplications do; attention weights are $h$ times as many |
# | a narrow head is a bottleneck | it can point at any one key with width 2; its logits have rank $d$ |
# | one head learns syntax, another semantics | two heads took one relation each, which one by chance; of eight, none had the partner to itself |
#
# ## In five lines
#
# - One softmax is one budget: of two unrelated words in the same columns, one head keeps half.
# - A head is a group of columns; $h$ heads cost the multiplications of one, and $h$ times the attention weights.
# - Split is reshape, then swap. A forgotten swap keeps every shape and breaks who hears whom.
# - With $W_o$ multi-head attention is a sum over heads, so their order means nothing.
# - Heads can specialise, and need not: attention weights say where a head looks, not what it does.
#
# To read: [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), section 3.2.2. Next: [07,
# order](07_order.ipynb): here we gave tokens their places by hand.
