# %% [markdown]
# # 05 · Many heads
#
# *The cat chased the mouse.* To know what happened, the word *chased* needs two others: who did it, and to whom.
# But a softmax gives one row of weights, and one row of weights gives one mixture of words. **What if a word needs two
# things at once?**
#
# The Transformer's answer: do not look once with 512 numbers, look eight times with 64. At the end of this chapter
# you will be able to say what that buys, prove how much one head must lose, count what eight cost, write the
# split that is so easily got wrong without a word from any test of shapes, and tell what a trained head may be called
# from what it may not.
#
# You need: attention as a soft look-up ([chapter 01](01_soft_lookup.ipynb)), why scores are divided by $\sqrt{d_k}$
# ([chapter 02](02_scale.ipynb)), the backward of attention ([chapter 03](03_backward.ipynb)) and what a causal mask
# promises ([chapter 04](04_masks.ipynb)).

# %%
import math
from functools import cache

import numpy as np
from matplotlib.patheffects import withStroke

from tinyattn.course import check, show_arrays, show_figure, table
from tinyattn.layers import multi_head_attention, multi_head_attention_backward, multi_head_init
from tinyattn.layers.mixers.multi_head import merge, split
from tinyattn.models import SASRecNetwork
from tinyattn.ops import attention, attention_backward, causal_mask, softmax
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREY, HEAT, ORANGE
from tinyattn.training.adam import Moments, adam
from tinyattn.tree import flatten, leaves

# %% [markdown]
# ## One mixture of two words
#
# Three words, six numbers each: which word it is (*cat*, *mouse*, *chased*), and where it stands (before the verb, the
# verb, after it). We need no training to make *chased* look at both neighbours: we write the matrices down. Its
# query says "I am the verb"; the keys of what stands before and after answer.

# %%
NAMES = ("cat", "mouse", "chased")
WORD, PLACE = np.eye(3), np.eye(3)


def sentence(*words):
    """Rows are tokens: the word, one-hot, beside its place, one-hot: (3, 6)."""
    return np.hstack([WORD[[NAMES.index(w) for w in words]], PLACE])


cat_first = sentence("cat", "chased", "mouse")
mouse_first = sentence("mouse", "chased", "cat")

W_q, W_k, W_v = np.zeros((3, 6, 6))
W_q[4, 0] = 8  # the verb asks
W_k[3, 0] = W_k[5, 0] = 8  # what stands before answers, and what stands after
W_v[:3, :3] = np.eye(3)  # a word gives itself


def layer(W_q, W_k, W_v, W_o):
    """Parameters as the library wants them."""
    named = zip(("query", "key", "value", "output"), (W_q, W_k, W_v, W_o), strict=True)
    return {name: {"W": W} for name, W in named}


one = layer(W_q, W_k, W_v, np.eye(6))
y_cat, cache_cat = multi_head_attention(one, cat_first, cat_first, heads=1)  # (3, 6), cache
y_mouse, _ = multi_head_attention(one, mouse_first, mouse_first, heads=1)
show_arrays(
    x=cat_first,
    weights_of_chased=cache_cat.weights[0, 1],
    chased_when_cat_is_first=y_cat[1],
    chased_when_mouse_is_first=y_mouse[1],
)

# %% [markdown]
# Half a cat, half a mouse, and *the same* whoever chased whom. Nothing was trained badly here: the weights are
# exactly those that were wanted, and their mixture has forgotten who was who.
#
# Could other weights save it? Give the word before the verb a share $p$, the one after it $1 - p$. Call the two words
# $a$ and $b$: unrelated, each of variance 1. The head hands on $r = p\,a + (1-p)\,b$, one number for each column of a
# value, and a linear read-out behind it, such as the next matrix, wants both $a$ and $b$ back.
#
# ### Exercise `one_head_share` (predict the number, ★★☆, 4 min)
#
# Of the variance of $a$ it can explain some share, of that of $b$ another. At the best $p$ of all, how large is the *mean* of
# the two shares? Write down a number from 0 to 1.

# %%
### BEGIN SOLUTION
one_head_share = 0.5
### END SOLUTION

# %%
check("one_head_share", one_head_share)

# %% [markdown]
# ### On paper
#
# The share of $a$ that a line through $r$ explains is their squared correlation:
#
# $$R^2_a = \frac{\operatorname{Cov}(r, a)^2}{\operatorname{Var}(r)\operatorname{Var}(a)} = \frac{p^2}{p^2 + (1-p)^2} ,
# \qquad R^2_b = \frac{(1-p)^2}{p^2 + (1-p)^2} .$$
#
# They add up to 1, **whatever $p$ is**. With more words, of weights $p_1, p_2, \dots$, the share of word $i$ is
# $p_i^2 / \sum_j p_j^2$, and again all of them share 1. One head is one budget. It may spend it on one word, or halve
# it; two whole words it cannot buy. (We take the weights as given: they do not depend on $a$ and $b$. At the end of this chapter
# we shall meet a head that finds its way round that.) Measured, with the library's attention on random words:

# %%
drawn = np.random.default_rng(0).standard_normal((2_000, 2))
drawn = np.linalg.qr(drawn - drawn.mean(axis=0))[0]  # mean 0, and not just nearly uncorrelated
words = drawn[:, :, None]  # (sentences, m = 2, 1): a and b
rows = []
for p in (0.99, 0.9, 0.7, 0.5, 0.3):
    q, k = np.ones((2_000, 1, 1)), np.zeros_like(words)
    k = k + np.log([[p], [1 - p]])  # scores log p and log(1 - p): weights p and 1 - p
    r, weights = attention(q, k, words)  # (2000, 1, 1), (2000, 1, 2)
    shares = [np.corrcoef(r[:, 0, 0], drawn[:, i])[0, 1] ** 2 for i in (0, 1)]
    rows.append([f"{x:.2f}" for x in (weights[0, 0, 0], *shares, sum(shares))])
table("p | share of a | share of b | together", rows)

# %% [markdown]
# ### Two heads
#
# Now the same six columns of the same matrices, but the first three belong to one head and the last three to another.
# Head 1 asks for what stands before, head 2 for what stands after, and each has a softmax of its own.

# %%
W_q, W_k, W_v = np.zeros((3, 6, 6))
W_q[4, 0] = W_q[4, 3] = 8  # the verb asks twice: in head 1 (columns 0 to 2), in head 2 (3 to 5)
W_k[3, 0] = 8  # head 1: what stands before answers
W_k[5, 3] = 8  # head 2: what stands after answers
W_v[:3, :3] = W_v[:3, 3:] = np.eye(3)  # a word gives itself, to both

two = layer(W_q, W_k, W_v, np.eye(6))
y_cat, cache_cat = multi_head_attention(two, cat_first, cat_first, heads=2)
y_mouse, _ = multi_head_attention(two, mouse_first, mouse_first, heads=2)
show_arrays(
    weights_of_chased=cache_cat.weights[:, 1],
    chased_when_cat_is_first=y_cat[1],
    chased_when_mouse_is_first=y_mouse[1],
)

# %% [markdown]
# Columns 0 to 2 say who did it, columns 3 to 5 to whom. Nothing is lost, and $W_Q$, $W_K$, $W_V$ are as large as
# before: the two heads share what the one had.
#
# ### When one head is enough
#
# A single head, says the Transformer's paper, averages, and so cannot do it (Vaswani et al. 2017, section
# 3.2.2). Our proof assumed something that this does not say: both words arrive *in the same columns*. Let a word carry
# its role, as it does in Latin (*felis* chases, *felem* is chased), and the same averaging head loses nothing:

# %%
# a column each: cat and mouse who act, cat and mouse who are acted upon
ROLES = ("felis", "mus", "felem", "murem")


def latin(subject, obj):
    """Word and role in one: (3, 4 + 3)."""
    x = np.zeros((3, 7))
    x[0, ROLES.index(subject)] = x[2, ROLES.index(obj)] = 1
    x[:, 4:] = PLACE
    return x


W_q, W_k, W_v, W_o = np.zeros((4, 7, 7))
W_q[5, 0] = W_k[4, 0] = W_k[6, 0] = 8
W_v[:4, :4] = np.eye(4)
W_o[:4, :4] = 2 * np.eye(4)  # undo the one half
says = {}
for subject, obj in (("felis", "murem"), ("mus", "felem")):
    x = latin(subject, obj)
    y, _ = multi_head_attention(layer(W_q, W_k, W_v, W_o), x, x, heads=1)  # (3, 7)
    says[f"{subject}_{obj}"] = y[1, :4]  # what the verb has heard
show_arrays(**says)

# %% [markdown]
# So the claim, put right: *averaging loses what shares its columns.* (And a read-out that is not linear may get
# more out of a lopsided mixture: of 0.7 cat and 0.3 mouse a threshold can tell the larger part. The budget of 1 is that of lines.)
# Whether the budget of one head binds is therefore a matter of measurement, layer by layer; trained models can often spare
# many of their heads (Michel, Levy & Neubig 2019).
#
# ## The formula, and what it costs
#
# $$\text{head}_i = \text{attention}(x W_{Q,i},\; x W_{K,i},\; x W_{V,i}), \qquad
# y = [\,\text{head}_1 \;\cdots\; \text{head}_h\,]\, W_O$$
#
# with $W_{Q,i}, W_{K,i}, W_{V,i}$ of shape $D \times D/h$. Side by side, the $h$ matrices $W_{Q,i}$ are one matrix
# $W_Q$ of $D \times D$: **a head is a group of columns.** Every head reads *all* of $x$, and keeps $D/h$ numbers of it.
#
# The Transformer has $D = 512$, $h = 8$, so $d_k = d_v = 64$. How many parameters has the layer? Count them, for several $h$,
# and with them the multiplications and additions of each product for $n = 512$ tokens. **Predict before you run:**
# which columns of this table change with $h$?


# %%
def cost(n, D, h):
    """Operations of the products of one layer (a product of (a, b) and (b, c) is 2abc), and softmax's exponentials."""
    d = D // h
    projections = 4 * 2 * n * D * D
    looking = h * (2 * n * d * n + 2 * n * n * d)  # q kᵀ, and weights times v, in every head
    return projections, looking, h * n * n


n, D = 512, 512
rows = []
for h in (1, 2, 4, 8, 16, 64):
    p = multi_head_init(np.random.default_rng(0), D)
    parameters = sum(leaf.size for _, leaf in leaves(p))
    projections, looking, weights = cost(n, D, h)
    megabytes = f"{4 * weights / 2**20:.0f} MB"
    rows.append([h, D // h, parameters, projections, looking, weights, megabytes])
table("h | d_k | parameters | projections | q kᵀ and weights v | exponentials | in float32", rows)

# %%
matrices, biases = 4 * 512**2, 4 * 512
x = np.random.default_rng(0).standard_normal((5, 512))
weights = multi_head_attention(p, x, x, heads=8)[1].weights
print(f"{matrices:,} + {biases:,} = {matrices + biases:,} parameters")
print(
    f"8 heads look at 5 tokens with weights of shape {weights.shape}: {weights.size} numbers, not {5 * 5}"
)

# %% [markdown]
# Parameters, projections, both products of attention: not one of them knows $h$, because $h$ heads of $D/h$ are $D$. That all
# heads together cost about what one of full width would (Vaswani et al., section 3.2.2) is true of every multiplication. It is not true of the weights: there are **$h$ score matrices**, $h n^2$
# exponentials and, if they are kept, $h n^2$ numbers in memory. That is the price of $h$ softmaxes.
#
# ## Split: reshape, then swap
#
# One product gives all heads' queries at once, $q = x W_Q$ of shape $(n, D)$. Now every head needs its own columns, as a matrix of
# its own: $(n, D) \to (h, n, d)$. It takes two moves, and it is the second that people forget. Let each entry be its own
# address, *token.column*, for $n = 4$ tokens, $D = 6$, $h = 2$:

# %%
h, d = 2, 3
q = np.array(
    [[token + column / 10 for column in range(6)] for token in range(4)]
)  # (n, D) = (4, 6)
reshaped = q.reshape(4, h, d)  # (n, h, d): the last axis in two; nothing has moved
right = reshaped.swapaxes(0, 1)  # (h, n, d): now the head stands first
wrong = q.reshape(h, 4, d)  # (h, n, d), too: the shape is right
show_arrays(q=q, head_1=right[0], head_1_without_swap=wrong[0], decimals=1)


# %% tags=["hide-input"]
def draw(ax, numbers, title, rows):
    """Numbers in cells; the cell's colour and frame say which head owns its column."""
    for (i, j), number in np.ndenumerate(numbers):
        second = round(number * 10) % 10 >= 3
        colour = ORANGE if second else BLUE
        hatch, edge = ("///" if second else None), "white"
        ax.bar(j + 0.5, 1, 1, bottom=i, color=colour, alpha=0.3, hatch=hatch, edgecolor=edge)
        ax.text(j + 0.5, i + 0.5, f"{number:.1f}", ha="center", va="center", fontsize=9)
    n, m = numbers.shape
    ax.set(title=title, xlim=(0, m), ylim=(n, 0), aspect="equal", xticks=[])
    ax.set_yticks(np.arange(n) + 0.5, rows)
    ax.tick_params(length=0, labelsize=8)
    for side in ax.spines.values():
        side.set_visible(False)


with style():
    fig, axes = figure(1, 5, size=(9.4, 2.3), width_ratios=[6, 3, 3, 3, 3])
    tokens = [f"token {i}" for i in range(4)]
    draw(axes[0], q, "q: plain columns are head 1's", tokens)
    for ax, numbers, title in zip(
        axes[1:],
        (*right, *wrong),
        ("head 1", "head 2", "head 1, no swap", "head 2, no swap"),
        strict=True,
    ):
        draw(ax, numbers, title, [f"{i}" for i in range(4)])
show_figure(
    fig,
    "columns",
    "With reshape and swap head 1 holds columns 0 to 2 of all four tokens; with a reshape alone it holds all six "
    "columns of tokens 0 and 1, a token on two rows",
)

# %% [markdown]
# A reshape reads the numbers in the order in which they lie in memory, token after token, and fills the new shape in that
# order. Without the swap "head 1" is tokens 0 and 1, cut in two; "head 2" is tokens 2 and 3. Every shape from here on is right.
#
# The library's `split` makes the two moves, `merge` goes back: swap, then reshape.

# %%
print(f"split is reshape, then swap: {np.array_equal(split(q, h), right)}")
print(f"merge takes it back: {np.array_equal(merge(split(q, h)), q)}")

# %% [markdown]
# ### What the forgotten swap does
#
# Nothing crashes. What breaks is *who hears whom*. Change one token, see which outputs change, for four ways of writing the
# layer: with both swaps, without either, and with one of them. A causal mask is on, so token $i$ must hear the tokens
# up to $i$, all of them, and no later one. **Predict before you run:** which of the four lets the future leak?


# %%
def cut(x, heads):
    """The split that forgets: a reshape alone."""
    return x.reshape(heads, x.shape[0], x.shape[1] // heads)


def uncut(x):
    """The merge that forgets."""
    return x.reshape(x.shape[1], -1)


def influence(split, merge, n=6, D=8, heads=2):
    """(n, n): how far output i moves when token j does, under a causal mask."""
    rng = np.random.default_rng(0)
    x, W_q, W_k, W_v = rng.standard_normal((n, D)), *rng.standard_normal((3, D, D)) / math.sqrt(D)

    def run(x):
        q, k, v = (split(x @ W, heads) for W in (W_q, W_k, W_v))
        return merge(attention(q, k, v, causal_mask(n, like=x))[0])

    before, moved = run(x), np.zeros((n, n))
    for j in range(n):
        other = x.copy()
        other[j] += 1
        moved[:, j] = np.abs(run(other) - before).max(axis=-1)
    return moved


WAYS = {
    "both swaps": (split, merge),
    "no swap at all": (cut, uncut),
    "none in split": (cut, merge),
    "none in merge": (split, uncut),
}
rows = []
for name, (there, back) in WAYS.items():
    hears = influence(there, back) > 0
    past, future = np.tri(6, dtype=bool), ~np.tri(6, dtype=bool)
    rows.append(
        [name, f"{hears[past].sum()} of {past.sum()}", f"{hears[future].sum()} of {future.sum()}"]
    )
table("written with | pairs that hear the past | pairs that hear the future", rows)

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 4, size=(9.0, 2.9), sharey=True)
    for ax, (name, (there, back)) in zip(axes, WAYS.items(), strict=True):
        hears = influence(there, back) > 0
        ax.imshow(hears, cmap="Greys", vmin=0, vmax=4)
        for i, j in zip(*np.nonzero(hears & ~np.tri(6, dtype=bool)), strict=True):
            ax.text(j, i, "!", ha="center", va="center", color=ORANGE, weight="bold", size=14)
        ax.plot([-0.5, 5.5], [-0.5, 5.5], color=BLUE, linewidth=1)
        ax.set_aspect("equal")
        ax.set(title=name, xlabel="token that moved", xticks=range(6), yticks=range(6))
    axes[0].set_ylabel("output")
show_figure(
    fig,
    "influence",
    "Who hears whom: a full triangle with both swaps, two small blocks with none, and leaks of the future, marked !, "
    "with only one",
)

# %% [markdown]
# With *no* swap the two mistakes cancel into something treacherous: no leak, every token hears itself, and the sequence falls into
# $h$ pieces that never meet (a token now talks to its own other half instead). With one swap out of two
# the future leaks, although the mask is right. A test of shapes sees none of it; changing one token sees all.
#
# ### Exercise `to_heads` (write the op, ★★☆, 8 min)
#
# Project and split: `x` (..., n, D) times `W` (D, D), then head by head. One product, no loop over heads; any leading
# axes.


# %%
def to_heads(x, W, heads):
    """Shapes: x (..., n, D), W (D, D) -> (..., heads, n, D / heads)."""
    ### BEGIN SOLUTION
    q = x @ W  # (..., n, D)
    *lead, n, D = q.shape
    return q.reshape(*lead, n, heads, D // heads).swapaxes(
        -2, -3
    )  # (..., n, h, d) -> (..., h, n, d)
    ### END SOLUTION


# %%
check("to_heads", to_heads)

# %% [markdown]
# ## Head by head, and all at once
#
# The formula says: for every head. The library has no such loop: the head's axis stands beside the batch's, and
# `attention` takes any number of leading axes. Are these the same?

# %%
rng = np.random.default_rng(5)
n, D, h = 5, 8, 4
d = D // h
p = multi_head_init(rng, D, bias=False)
x = rng.standard_normal((n, D))
W_q, W_k, W_v, W_o = (p[name]["W"] for name in ("query", "key", "value", "output"))

heads = []
for i in range(h):
    own = slice(i * d, (i + 1) * d)  # the columns of head i
    out, _ = attention(x @ W_q[:, own], x @ W_k[:, own], x @ W_v[:, own])  # (n, d)
    heads.append(out)
looped = np.hstack(heads) @ W_o  # (n, D) @ (D, D)

y, remembered = multi_head_attention(p, x, x, heads=h)
np.allclose(looped, y)

# %% [markdown]
# And what has the library in its hands on the way? `trace` watches the layer at work, and keeps every name with its array:

# %%
t = trace(multi_head_attention, p, x, x, heads=h, backward=True)
rows = []
for name in ("q", "k", "v", "out", "y"):
    for entry in t.all(name):
        if entry.call.name == "multi_head_attention":
            rows.append([entry.name, str(entry.value.shape), np.linalg.norm(entry.value)])
table("name | shape | norm", rows)

# %% [markdown]
# Twice the same name: before `split` and after it, before $W_O$ and after it. The norms of $q$, $k$, $v$ do not
# change: a split moves numbers and makes none.
#
# ### Exercise `my_multi_head` (write the op, ★★☆, 12 min)
#
# All of it: projections, split, `attention` (the library's, or yours of chapter 02), merge, $W_O$. No biases, no mask.


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
# ### Exercise `repaired_heads` (find the bug, ★★☆, 8 min)
#
# Another one written in a hurry. For one token it is right, for one head it is right, and all shapes fit. Write
# `repaired_heads` with the one wrong line put right. `check` looks at the faulty one, too.


# %%
def hasty_heads(x, W_q, W_k, W_v, W_o, heads):
    """Shapes: x (..., n, D), all W (D, D) -> y (..., n, D)."""
    *lead, n, D = x.shape
    d = D // heads
    q = (x @ W_q).reshape(*lead, n, heads, d).swapaxes(-2, -3)
    k = (x @ W_k).reshape(*lead, n, heads, d).swapaxes(-2, -3)
    v = (x @ W_v).reshape(*lead, n, heads, d).swapaxes(-2, -3)
    out, _ = attention(q, k, v)
    joined = out.reshape(*lead, n, D)
    return joined @ W_o


# %%
def repaired_heads(x, W_q, W_k, W_v, W_o, heads):
    """Shapes: x (..., n, D), all W (D, D) -> y (..., n, D)."""
    ### BEGIN SOLUTION
    *lead, n, D = x.shape
    d = D // heads
    q = (x @ W_q).reshape(*lead, n, heads, d).swapaxes(-2, -3)
    k = (x @ W_k).reshape(*lead, n, heads, d).swapaxes(-2, -3)
    v = (x @ W_v).reshape(*lead, n, heads, d).swapaxes(-2, -3)
    out, _ = attention(q, k, v)
    joined = out.swapaxes(-2, -3).reshape(*lead, n, D)
    return joined @ W_o
    ### END SOLUTION


# %%
check("repaired_heads", repaired_heads)

# %% [markdown]
# ### Divided by the root of what?
#
# Of the head's width. A write-up among our sources divides by "square root of dimension $d$ of key vector", lists $d$ as the
# model's latent dimension, and then turns to several heads: taken together, they invite $\sqrt{D}$. A
# head's score is a sum of $D/h$ products ([chapter 02](02_scale.ipynb) has the derivation), and the library knows it:

# %%
rng = np.random.default_rng(6)
n, D = 64, 512
x = rng.standard_normal((n, D))
p = multi_head_init(rng, D, bias=False)
rows = []
for h in (1, 8, 64):
    weights = multi_head_attention(p, x, x, heads=h)[1].weights  # (h, n, n)
    q, k = split(x @ p["query"]["W"], h), split(x @ p["key"]["W"], h)  # (h, n, d)
    s = q @ k.swapaxes(-1, -2)
    by_head, by_model = s / math.sqrt(D // h), s / math.sqrt(D)
    same = [str(np.allclose(softmax(scaled), weights)) for scaled in (by_head, by_model)]
    rows.append([h, D // h, by_head.std(), by_model.std(), *same])
table("h | D/h | std of s/√(D/h) | std of s/√D | library divides by √(D/h) | by √D", rows, digits=2)

# %% [markdown]
# By $\sqrt{D}$ the scores of eight heads would spread $\sqrt 8$ times less, those of 64 heads 8 times: nearly even
# weights, and a head that begins by hardly looking.
#
# ## What $W_O$ is for
#
# Concatenation keeps heads apart: head $i$ fills its own columns of the output, and no others. Silence one (its values
# set to zero) and watch which columns of $y$ move, with $W_O = I$ and with a $W_O$ that is drawn:

# %%
rng = np.random.default_rng(7)
n, D, h = 5, 8, 4
d = D // h
p = multi_head_init(rng, D, bias=False)
x = rng.standard_normal((n, D))
silenced = p["value"]["W"].copy()
silenced[:, d : 2 * d] = 0  # head 2's values
moved = {}
for name, W_o in (("W_O_is_I", np.eye(D)), ("W_O_is_drawn", p["output"]["W"])):
    before = multi_head_attention(p | {"output": {"W": W_o}}, x, x, heads=h)[0]
    after = multi_head_attention(
        p | {"output": {"W": W_o}, "value": {"W": silenced}}, x, x, heads=h
    )[0]
    moved[name] = np.abs(after - before).max(axis=0)  # (D,): how far each column moved
show_arrays(**moved)

# %% [markdown]
# So a head's *subspace*, of which the sources speak, is exact where it writes: $d$ columns before $W_O$, the span of its $d$
# rows of $W_O$ after. And where it reads: of a token it sees $d$ numbers three times, by the columns of its $W_{Q,i}$,
# $W_{K,i}$, $W_{V,i}$. To every direction at right angles to those $3d$ columns it is blind; other heads need not be. With the
# Transformer's sizes, **predict:** to how many of 512 directions is one head blind?

# %%
big = multi_head_init(np.random.default_rng(0), 512, bias=False)
sees = np.hstack(
    [big[name]["W"][:, :64] for name in ("query", "key", "value")]
)  # head 1's: (512, 192)
seen = np.linalg.matrix_rank(sees)
print(f"head 1 sees {seen} directions, and is blind to {512 - seen}")

unseen = np.linalg.svd(sees.T)[2][-1]  # a direction at right angles to all it sees: (512,)
tokens = np.random.default_rng(1).standard_normal((5, 512))
other = tokens.copy()
other[2] += 9 * unseen  # one token moves, far
apart = {name: big[name] for name in ("query", "key", "value")}  # without W_O: heads side by side
before, after = (multi_head_attention(apart, z, z, heads=8)[0] for z in (tokens, other))
for name, columns in (("head 1", slice(0, 64)), ("the others", slice(64, 512))):
    print(f"{name}: the same as before, {np.allclose(before[:, columns], after[:, columns])}")

# %% [markdown]
# Whether two heads see *different* subspaces is another matter: nothing in the formula says so. Copy head 1's columns
# into head 2 and the layer runs on, with two heads that do one thing.
#
# Now follow one number of $W_V$, in a column of head 2, through the run that was traced above, and count
# what moves with it:

# %%
followed = t.follow("value.W", (3, 2))
rows = []
for step in followed.moved:
    if step.entry.call.name == "multi_head_attention":
        array = step.entry.value
        rows.append([step.entry.name, str(array.shape), f"{step.numbers} of {array.size}"])
table("name | shape | numbers that move", rows)

# %% [markdown]
# One column of one head, in all five tokens, until $W_O$ spreads it over all eight. **$W_O$ mixes heads:** it lets every
# head write into every column. Multiply out, with $W_{O,i}$ the $d$ rows that belong to head $i$, and $P_i$ its weights:
#
# $$y = [\,\text{head}_1 \cdots \text{head}_h\,]\,W_O = \sum_i \text{head}_i\,W_{O,i}
# = \sum_i P_i\; x\; \underbrace{W_{V,i} W_{O,i}}_{D \times D,\ \text{rank} \le d} .$$
#
# *Concatenate and project* is therefore a **sum over heads**. Three things follow, each in a line below:
# the order of heads means nothing, if the rows of $W_O$ go along; each head carries at most $d$ directions from one token to
# another; and with *one* head, $W_O$ can be multiplied into $W_V$ and forgotten.

# %%
y, remembered = multi_head_attention(p, x, x, heads=h)
P, W_v, W_o = remembered.weights, p["value"]["W"], p["output"]["W"]
carried = [W_v[:, i * d : (i + 1) * d] @ W_o[i * d : (i + 1) * d] for i in range(h)]  # h of (D, D)
summed = sum(P[i] @ x @ carried[i] for i in range(h))
print(f"a sum over heads: {np.allclose(summed, y)}")

order = np.array([2, 0, 3, 1])
columns = np.arange(D).reshape(h, d)[order].reshape(-1)  # whole groups of columns change places
swapped = {name: {"W": p[name]["W"][:, columns]} for name in ("query", "key", "value")}
swapped["output"] = {"W": W_o[columns]}  # and so do the rows of W_O
same = multi_head_attention(swapped, x, x, heads=h)[0]
print(f"heads in another order, rows of W_O too: {np.allclose(same, y)}")
other = multi_head_attention(swapped | {"output": p["output"]}, x, x, heads=h)[0]
print(f"heads in another order, W_O as it was: {np.allclose(other, y)}")

print(f"rank of W_V W_O: of each head {[int(np.linalg.matrix_rank(C)) for C in carried]}, of {D}")

folded = {**p, "value": {"W": W_v @ W_o}, "output": {"W": np.eye(D)}}
for heads in (1, h):
    ours, without = (multi_head_attention(form, x, x, heads=heads)[0] for form in (p, folded))
    print(f"W_O folded into W_V, {heads} head(s): {np.allclose(ours, without)}")

# %% [markdown]
# The last two lines settle a question about SASRec. One of our sources says of it that "multi-head attention is used here", and that
# the heads' outputs are "concatenated and multiplied by $W^O$". The paper (Kang & McAuley 2018, equation 3) has one head and no $W_O$, and
# its released code, which can have more heads, has none either. Here is what the library's SASRec, in the paper's form, is made of:

# %%
network = SASRecNetwork(n_items=10, dim=8)
names = list(network.init(np.random.default_rng(0))["blocks"][0]["attention"])
print(f"heads = {network.heads}, projections: {', '.join(names)}")

# %% [markdown]
# With one head nothing is missing: what $W_V W_O$ can do, $W_V$ can do alone. With two, every head is bound to its own columns of the residual,
# and mixing is left to the feed-forward network. (The paper did try two heads, and reports slightly worse results with them,
# perhaps since its $d$ is small.)
#
# ## What a narrow head cannot do
#
# More heads, then, and narrower ones? In one head, $s = q k^\top$ with $q$ and $k$ of shape $(n, d)$.
#
# ### Exercise `score_rank` (predict the number, ★☆☆, 3 min)
#
# 100 tokens of width 64, 4 heads, everything drawn at random. The scores of one head are a 100 × 100 matrix. What is its
# rank?

# %%
### BEGIN SOLUTION
score_rank = 16
### END SOLUTION

# %%
check("score_rank", score_rank)

# %% [markdown]
# **Predict before you run:** and after the softmax?

# %%
rng = np.random.default_rng(8)
n, D = 64, 64
x = rng.standard_normal((n, D))
W_q, W_k = rng.standard_normal((2, D, D)) / math.sqrt(D)
rows = []
for h in (1, 2, 4, 8, 16):
    q, k = split(x @ W_q, h)[0], split(x @ W_k, h)[0]  # the first head's: (n, D / h)
    s = q @ k.T / math.sqrt(D // h)
    rows.append([h, D // h, *(int(np.linalg.matrix_rank(m)) for m in (s, softmax(s)))])
table("h | D/h | rank of the scores | rank of the weights", rows)

# %% [markdown]
# The exponential is no linear map: weights of full rank come out of scores of rank 4. Is the bottleneck none, then? It is,
# for the *logarithms*: up to a constant in each row, $\log P = s$ has rank $D/h$ at most, so a head of width $d < n$ cannot produce
# every pattern (Bhojanapalli et al. 2020, theorem 1). How much does it miss? Take weights at will, and the
# nearest scores of rank $r$ (the singular value decomposition gives them; nearest by squares, other scores of that rank may do
# better):

# %%
RANKS = (64, 32, 16, 8, 4, 2)


def missed(target, ranks=RANKS):
    """Share of the weight that lies on wrong keys, and share of queries whose first key is right, for every rank."""
    wanted = softmax(target)
    left, sizes, right = np.linalg.svd(target - target.mean(axis=-1, keepdims=True))
    for r in ranks:
        got = softmax((left[:, :r] * sizes[:r]) @ right[:r])
        first = np.mean(got.argmax(axis=-1) == wanted.argmax(axis=-1))
        yield np.abs(got - wanted).sum(axis=-1).mean() / 2, first


at_will = 2 * np.random.default_rng(9).standard_normal((64, 64))
rows = [
    [r, 64 // r, f"{wrong:.2f}", f"{first:.0%}"]
    for r, (wrong, first) in zip(RANKS, missed(at_will), strict=True)
]
table("rank | heads at D = 64 | weight on wrong keys | first key right", rows)

# %% [markdown]
# Patterns *at will* suffer at once. Does that mean that a narrow head cannot look precisely? **Predict before you read on:** 64
# tokens, each must look at one other and nowhere else, whichever was prescribed. Which rank does that need?
#
# Rank 2. Put the keys on a circle, and let every query point at its key: the key that it points at has the largest
# product, of all of them.


# %%
def circle(n, size):
    """Weight that each of n queries gives to the key prescribed for it, with queries of length `size` in 2 dimensions."""
    angle = 2 * np.pi * np.arange(n) / n
    keys = np.stack([np.cos(angle), np.sin(angle)], axis=-1)  # (n, 2)
    prescribed = np.random.default_rng(n).permutation(n)
    weights = attention(size * keys[prescribed], keys, keys, scale=1.0)[1]  # (n, n)
    return weights[np.arange(n), prescribed].mean()


def apart(n, size):
    """The same with n keys at right angles, in n dimensions."""
    return attention(size * np.eye(n), np.eye(n), np.eye(n), scale=1.0)[1].max(axis=-1).mean()


rows = []
for n in (8, 64, 256):
    rows += [
        [n, name, *(f(n, size) for size in (10, 100, 1_000, 10_000))]
        for name, f in (("2", circle), ("n", apart))
    ]
table("n | width | queries 10 long | 100 | 1,000 | 10,000", rows, digits=2)

# %% [markdown]
# Two dimensions suffice for any look-up of *one* key, at a price in size: neighbours on the circle differ by $1 - \cos(2\pi/n) \approx
# 2\pi^2/n^2$, so queries must grow as $n^2$. Wide heads do it with queries 10 long. What narrow heads cannot do is divide
# weight *as they like* over many keys. The trade is between the number of distributions ($h$) and the freedom of each ($D/h$), and the
# Transformer's authors found it at both ends: one head cost 0.9 BLEU, and too many heads cost something too
# (Vaswani et al. 2017, section 6.2 and table 3, rows A).
#
# ## One head syntax, another semantics?
#
# One head might learn syntax while another looks after meaning, says an encyclopedia among our sources, and many texts
# with it. *Might.* Let us watch, on a task small enough to know everything
# about.
#
# Eight tokens, each with a word (4 signs ±1), a kind (there are four, two tokens have each) and a place. Every token must report
# **the word of the token before it** (a matter of place: our "syntax") and **the word of the other token of its kind** (a matter of content:
# our "semantics"). Width 16; the two words go to columns 0 to 3 and 8 to 11. **Predict before you run:** how large will the squared error
# of a single head be? (Knowing nothing costs 1. For one token in seven the two are the same token.)

# %%
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
    return (
        np.concatenate([word, np.eye(KINDS)[kind], place], axis=-1),
        np.concatenate(both, axis=-1),
        partner,
    )


@cache
def train(heads, seed, output=True, steps=200):
    """-> parameters, losses: multi-head attention and nothing else, the library's layer and its Adam."""
    rng = np.random.default_rng(seed)
    vector, p = flatten(multi_head_init(rng, WIDTH, bias=False, output=output), np.float64)
    moments, losses = Moments(np.zeros_like(vector), np.zeros_like(vector)), []
    for step in range(1, steps + 1):
        x, target, _ = sentences(rng, 32)
        y, remembered = multi_head_attention(p, x, x, heads=heads)
        error = y[..., WANTED] - target
        losses.append((error**2).mean())
        dy = np.zeros_like(y)
        dy[..., WANTED] = 2 * error / error.size
        grads = multi_head_attention_backward(p, dy, remembered)[2]
        gradient, _ = flatten({name: grads[name] for name in p}, np.float64)
        adam(vector, gradient, moments, step, lr=0.02, beta2=0.99)
    return p, losses


@cache
def examined(heads, seed, output=True, steps=200):
    """-> error on fresh sentences, and mean weights of each head on: the token before, the partner, itself."""
    p, _ = train(heads, seed, output, steps)
    x, target, partner = sentences(np.random.default_rng(1000), 256)
    y, remembered = multi_head_attention(p, x, x, heads=heads)
    weights, everyone = remembered.weights, np.arange(LENGTH)  # (256, heads, 8, 8)
    on = [
        np.broadcast_to(places, partner.shape)[:, None, :, None]
        for places in (BEFORE, partner, everyone)
    ]
    looks = [np.take_along_axis(weights, places, axis=-1).mean(axis=(0, 2, 3)) for places in on]
    return ((y[..., WANTED] - target) ** 2).mean(), np.stack(looks, axis=-1)


rows = []
for heads in (1, 2):
    for seed in (1, 2, 3):
        error, looks = examined(heads, seed)
        rows += [
            [heads, seed, i + 1, *(f"{w:.2f}" for w in looks[i]), f"{error:.2f}"]
            for i in range(heads)
        ]
table(
    "heads | seed | head | on the token before | on the partner | on itself | squared error", rows
)

# %% [markdown]
# One head does what the first section proved it must: it halves its budget, and pays for it. The bound says
# $\tfrac67 \cdot \tfrac12 = 0.43$: for one token in seven both wants are the same and nothing is lost, for the others half of it. It
# reached 0.44. Two heads, with exactly as many parameters, took one relation each. (The 0.13 and 0.14 on the other's word are that seventh.) Is
# it luck? And which head takes which?

# %%
rows = []
for output, name in ((True, "with W_O"), (False, "without W_O")):
    looks = np.array([examined(2, seed, output)[1] for seed in range(8)])  # (seeds, 2 heads, 3)
    specialised = (looks[:, :, :2].max(axis=-1) > 0.8).all(axis=-1)
    differ = looks[:, 0, :2].argmax(axis=-1) != looks[:, 1, :2].argmax(axis=-1)
    first = (looks[:, 0, 0] > 0.8).sum()
    rows.append([name, f"{(specialised & differ).sum()} of 8", f"{first} of 8"])
table("two heads | one relation each | head 1 took the token before", rows)

# %% tags=["hide-input"]
with style():
    x, _, partner = sentences(np.random.default_rng(1000), 1)
    fig, axes = figure(1, 4, size=(9.4, 2.9), width_ratios=[1.25, 1, 1, 1])
    for heads, colour, line in ((1, ORANGE, "--"), (2, BLUE, "-")):
        axes[0].plot(
            train(heads, 1)[1], line, color=colour, label=f"{heads} head{'s' * (heads > 1)}"
        )
    axes[0].axhline(3 / 7, color=GREY, linestyle=":", label="bound, 1 head")
    axes[0].set(title="squared error", xlabel="step", ylim=(0, 1.3))
    axes[0].legend()
    shown = [
        multi_head_attention(train(heads, 1)[0], x, x, heads=heads)[1].weights[0]
        for heads in (1, 2)
    ]
    titles = ("the only head", "head 1 of 2", "head 2 of 2")
    for ax, weights, title in zip(axes[1:], (*shown[0], *shown[1]), titles, strict=True):
        ax.imshow(weights, cmap=HEAT, vmin=0, vmax=1)
        ax.scatter(
            BEFORE,
            range(8),
            marker="s",
            s=70,
            facecolors="none",
            edgecolors="white",
            linewidths=1.2,
            path_effects=[withStroke(linewidth=2.8, foreground="black")],
            label="before",
        )
        ax.scatter(
            partner[0],
            range(8),
            marker="o",
            s=35,
            facecolors=ORANGE,
            edgecolors="white",
            label="partner",
        )
        ax.set(title=title, xlabel="key", xticks=range(8), yticks=range(8))
    axes[1].set_ylabel("query")
show_figure(
    fig,
    "specialise",
    "Losses of one head and of two; weights of the only head lie half on squares (the token before) and half on "
    "circles (the partner), those of two heads on squares only and on circles only",
)

# %% [markdown]
# Squares mark the token before, circles the partner. Every time the two heads divided the work; *which* took which is
# a coin that the initial numbers toss. That is the symmetry we met: with $W_O$ heads can be renumbered freely, so
# "head 1" is not a name for anything. Take $W_O$ away, and the columns that are asked for nail each head to its task.
#
# So the sentence holds? Two relations, two heads: we *made* a task that begs for it. Give the same task to four heads
# of width 4, and to eight of width 2. And look at two things more: **what each head gives** (the slope of what it adds to the
# columns asked for, on the word that stands before, on the partner's word, on the token's own), and what it costs to silence it.


# %%
def detective(heads, seed, steps=400):
    """A row a head: where it looks, what it gives, and the squared error without it; and what all give together."""
    p, _ = train(heads, seed, steps=steps)
    x, target, _ = sentences(np.random.default_rng(1000), 256)
    y, remembered = multi_head_attention(p, x, x, heads=heads)
    error, looks = examined(heads, seed, steps=steps)
    out = remembered.weights @ split(x @ p["value"]["W"], heads)  # (256, heads, 8, d)
    rows, total, d = [], np.zeros(3), WIDTH // heads
    for i in range(heads):
        added = out[:, i] @ p["output"]["W"][i * d : (i + 1) * d][:, WANTED]  # (256, 8, 8)
        before, partner = (added * target)[..., :4].mean(), (added * target)[..., 4:].mean()
        gives = np.array([before, partner, (added[..., 4:] * x[..., :4]).mean()])
        without = ((y[..., WANTED] - added - target) ** 2).mean()
        total += gives
        rows.append(
            [str(i + 1), *(f"{z:.1f}" for z in np.round([*looks[i], *gives, without], 1) + 0.0)]
        )
    return rows + [["all", "", "", "", *(f"{z:.1f}" for z in np.round([*total, error], 1) + 0.0)]]


HEAD = "head | looks before | partner | itself | gives before | partner | itself | error without"
table(HEAD, detective(4, 2))

# %%
table(HEAD, detective(8, 1))

# %% [markdown]
# Eight narrow heads solve the task as well, and **no head looks at the partner alone**. Two of them (1 and 4) look half at the
# partner and half at themselves, and hand on the sum of both words. Heads 3, 5 and 8 take the token's own word away again. Partner plus
# itself, minus itself: the relation is computed by five heads together, and none of them *is* it. (Head 2 gives no word at all, and is
# missed: it must cancel something that these slopes do not see.) An accident of one seed?

# %%
most = [
    examined(8, seed, steps=400)[1][:, 1].max() for seed in range(4)
]  # of any head, on the partner
print(f"largest mean weight of any head on the partner, four seeds: {np.round(most, 1)}")

# %% [markdown]
# Stranger still: heads 3, 5 and 8 subtract a token's own word, and hardly look at the token. How do they know it? Two measurements for head 1
# and head 8: how much of a *word* its values carry into the columns of the partner, and how far its weights move when the asking token's
# own word changes all its signs (0 not at all, 1 to other keys entirely).


# %%
def channel(heads, seed, i, steps=400):
    """-> size of the words' part of W_V,i W_O,i, and the mean share of its weight that the asker's own word moves."""
    p, _ = train(heads, seed, steps=steps)
    own = slice(i * WIDTH // heads, (i + 1) * WIDTH // heads)
    carried = (
        p["value"]["W"][:SIGNS, own] @ p["output"]["W"][own][:, WANTED[4:]]
    )  # (4 signs, 4 columns)
    x, _, _ = sentences(np.random.default_rng(1000), 64)
    k = x @ p["key"]["W"][:, own]  # (64, 8, d)
    flipped = np.concatenate([-x[..., :SIGNS], x[..., SIGNS:]], axis=-1)
    first, second = (attention(z @ p["query"]["W"][:, own], k, k)[1] for z in (x, flipped))
    return np.linalg.norm(carried), np.abs(first - second).sum(axis=-1).mean() / 2


rows = [[str(i + 1), *(f"{z:.1f}" for z in channel(8, 1, i))] for i in (0, 7)]
table("head | of a word, in its values | of its weight, moved by the asker's word", rows)

# %% [markdown]
# Head 1 works as the textbook has it: weights choose, values carry. Head 8 carries next to nothing of a word. Its *weights* are the message: what the
# token itself says decides where it looks, and what it finds there are places and kinds. Averaged over sentences its picture is an even
# grey. (And that is the way round the bound of the first section, which took the weights as given.)
#
# - **What the task shows:** two heads *can* come to differ with nothing but the loss to tell them apart; one head is held
#   by its bound; the numbering of heads is arbitrary; and with more heads than it needs, a layer may duplicate (1 and 2 of four), idle (4 of
#   four), or spread one relation over five.
# - **What it does not show:** that the heads of a real model have jobs for which a grammar has names. Some look like it (heads of
#   BERT that find direct objects: Clark et al. 2019), many can be removed at little loss (Michel et al. 2019, Voita et al.
#   2019). An average of weights says where a head looks, not what it does with what it finds.
#
# ## Backward
#
# Nothing new is needed. `split` and `merge` move numbers and change none, so each one's gradient is the other: what a
# number was moved to sends its gradient back to where it came from. In one line, for any $x$ and any $g$ of the shape of
# $\text{split}(x)$: $\langle \text{split}(x), g \rangle = \langle x, \text{merge}(g) \rangle$.

# %%
rng = np.random.default_rng(10)
x, g = rng.standard_normal((2, 5, 8)), rng.standard_normal((2, 4, 5, 2))
np.allclose((split(x, 4) * g).sum(), (x * merge(g)).sum())

# %% [markdown]
# ### Exercise `from_heads_backward` (derive the backward, ★★☆, 12 min)
#
# The last step of the layer, `y = merge(out) @ W_o`, backward: from `dy` (..., n, D) to `dout` (..., h, n, d) and `dW_o`
# (D, D). Derive both; the batch, any number of leading axes, shared one $W_O$.


# %%
def from_heads_backward(dy, out, W_o):
    """Shapes: dy (..., n, D), out (..., h, n, d), W_o (D, D) -> dout like out, dW_o like W_o."""
    ### BEGIN SOLUTION
    *lead, h, n, d = out.shape
    joined = out.swapaxes(-2, -3).reshape(*lead, n, h * d)  # the forward's: y = joined @ W_o
    djoined = dy @ W_o.T  # (..., n, D)
    dout = djoined.reshape(*lead, n, h, d).swapaxes(-2, -3)  # merge is undone by split
    dW_o = joined.reshape(-1, h * d).T @ dy.reshape(
        -1, dy.shape[-1]
    )  # summed over all that used W_o
    return dout, dW_o
    ### END SOLUTION


# %%
check("from_heads_backward", from_heads_backward)

# %% [markdown]
# ### Three paths to x
#
# In self-attention $x$ was read three times, as queries, as keys and as values. It receives three gradients, and they **add**:
#
# $$dx = dq\,W_Q^\top + dk\,W_K^\top + dv\,W_V^\top .$$
#
# Line by line, then the library, which returns the part of the queries and that of keys and values apart (in cross-attention
# they belong to two different sequences). The judge is a difference quotient along one random direction:

# %%
rng = np.random.default_rng(11)
n, D, h = 5, 8, 4
p = multi_head_init(rng, D, bias=False)
W_q, W_k, W_v, W_o = (p[name]["W"] for name in ("query", "key", "value", "output"))
x, dy, direction = rng.standard_normal((3, n, D))

q, k, v = (split(x @ W, h) for W in (W_q, W_k, W_v))  # (h, n, d) each
out, weights = attention(q, k, v)  # (h, n, d), (h, n, n)
dout = split(dy @ W_o.T, h)  # (h, n, d)
dq, dk, dv, _ = attention_backward(dout, q, k, v, weights)
from_q, from_k, from_v = merge(dq) @ W_q.T, merge(dk) @ W_k.T, merge(dv) @ W_v.T  # (n, D) each

_, remembered = multi_head_attention(p, x, x, heads=h)
dx, dmemory, grads = multi_head_attention_backward(p, dy, remembered)
print(f"ours: {np.allclose(from_q, dx)} {np.allclose(from_k + from_v, dmemory)}")
print(f"dW_Q: {np.allclose(x.T @ merge(dq), grads['query']['W'])}")


def loss(x):
    return (multi_head_attention(p, x, x, heads=h)[0] * dy).sum()


step = 1e-5
measured = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
paths = {
    "queries alone": dx,
    "keys alone": from_k,
    "values alone": from_v,
    "keys and values": dmemory,
}
rows = []
for name, gradient in (paths | {"all three": dx + dmemory}).items():
    slope = (gradient * direction).sum()
    rows.append([name, slope, str(np.isclose(slope, measured))])
rows.append(["measured", measured, ""])
table("path | slope along the direction | is it the one measured?", rows)

# %% [markdown]
# ## A bug that other tests let live
#
# Suppose somebody understood that heads are averaged, and programmed it: every slice of the output holds the mean of all heads.
# Four tests that are usually written, and what they say of it:


# %%
def averaged(x, W_q, W_k, W_v, W_o, heads, mask=None):
    """Multi-head attention with one line that is wrong."""
    q, k, v = (split(x @ W, heads) for W in (W_q, W_k, W_v))
    out, _ = attention(q, k, v, mask)
    return np.tile(out.mean(axis=-3), heads) @ W_o  # in place of merge(out) @ W_o


Ws = W_q, W_k, W_v, W_o
y, order = averaged(x, *Ws, h), rng.permutation(n)
mask, later = causal_mask(n, like=x), x.copy()
later[-1] += 1
columns = np.arange(D).reshape(h, d)[::-1].reshape(-1)  # the last head first
renumbered = averaged(x, *(W[:, columns] for W in Ws[:3]), W_o[columns], h)
print(f"the shape is right: {y.shape == x.shape}")
print(
    f"tokens in another order, outputs in that order: {np.allclose(averaged(x[order], *Ws, h), y[order])}"
)
no_leak = np.allclose(averaged(later, *Ws, h, mask)[:-1], averaged(x, *Ws, h, mask)[:-1])
print(f"no output hears the future: {no_leak}")
print(f"heads in another order change nothing: {np.allclose(renumbered, y)}")

# %% [markdown]
# ### Exercise `joins_its_heads` (write the property that kills this bug, ★★★, 15 min)
#
# Write a test that `averaged` cannot pass, without writing attention again. `joins_its_heads` is given
# `multi_head_attention(x, W_q, W_k, W_v, W_o, heads) -> y`, and returns True if heads are joined side by side.


# %%
def joins_its_heads(multi_head_attention):
    """True where, up to W_o, each head fills its own columns and no others."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x, (W_q, W_k, W_v) = rng.standard_normal((5, 6)), rng.standard_normal((3, 6, 6))
    silenced = W_v.copy()
    silenced[:, :3] = 0  # the first of two heads has nothing to say
    before = multi_head_attention(x, W_q, W_k, W_v, np.eye(6), 2)
    after = multi_head_attention(x, W_q, W_k, silenced, np.eye(6), 2)
    return np.allclose(after[:, :3], 0) and np.allclose(after[:, 3:], before[:, 3:])
    ### END SOLUTION


# %%
check("joins_its_heads", joins_its_heads)

# %% [markdown]
# ## What you can do now
#
# - Prove that one head explains at most half of two unrelated words, and say when that does not matter.
# - Count a layer: $4D^2 + 4D$ parameters whatever $h$, but $h$ score matrices.
# - Split and merge, say what a forgotten swap does, and catch it by changing one token.
# - Read multi-head attention as a sum over heads, and see from it why heads have no numbers and what $W_O$ is for.
# - Say what a narrow head can do (point) and what it cannot (divide weight as it likes).
# - Send the gradient back by three paths, and add.
#
# | what is often said | what the cells above show |
# |---|---|
# | one head averages, and loses what it averages | what shares its columns: half of two words, exactly; not what is kept in columns of its own |
# | several heads cost the same as one | parameters and products: yes; weights and exponentials: $h$ times |
# | 8 heads of 64 for a width of 512 | $4 \cdot 512^2 + 4 \cdot 512 = 1{,}050{,}624$ parameters |
# | divide by the root of the dimension $d$ | of the head's $D/h$: the library's weights agree with no other |
# | heads let a token look at several places at once | yes: $h$ rows of weights for each token, where one head has one |
# | heads are subspaces | exactly: each writes $d$ columns before $W_O$, $d$ rows of $W_O$ after, and is blind to 320 of 512 directions; that two differ, nothing says |
# | SASRec uses several heads and a $W^O$ | the paper's form has one head and no $W_O$; with one head $W_O$ folds into $W_V$ |
# | a narrow head is a low-rank bottleneck | of log-weights; any single look-up needs rank 2, and long queries |
# | one head learns syntax, another semantics | two of two took one relation each, by a coin's toss; of eight, none looked at the partner alone |
#
# Next: [06, order](README.md). Everything here gave places to tokens by hand. Where does attention get them from?
