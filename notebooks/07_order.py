# %% [markdown]
# # 07 · Order
#
# *The dog chased the cat.* *The cat chased the dog.* The words are the same, and what happened is not. A person who watched
# episodes 1, 2, 3 wants another offer than one who watched 3, 2, 1. But look at attention's formula: nowhere does it say
# which token comes first. **How does it learn what came first?**
#
# **You need**: attention ([chapter 01](01_soft_lookup.ipynb)) and its backward ([chapter 04](04_attention_backward.ipynb)), the causal mask
# ([chapter 05](05_masks.ipynb)), heads ([chapter 06](06_many_heads.ipynb)), and how a point in the plane is turned by an angle, with cosine and sine.
#
# **You will be able to**:
#
# - say exactly what attention does not know about order, and test for it;
# - write sinusoids and rotary positions, with their backward, and explain five other schemes;
# - say which schemes depend on distances alone, and what each does on sequences longer than any it was trained on.

# %% tags=["hide-input"]
import math
from itertools import permutations

import numpy as np

from tinyattn.course import buggy, check, road, show_figure, table, yours
from tinyattn.layers import POSITIONS
from tinyattn.ops import (
    alibi,
    attention,
    attention_backward,
    bucket_bias,
    bucket_bias_backward,
    causal_mask,
    cross_entropy_backward,
    distance_buckets,
    embedding_backward,
    linear_backward,
    relative_scores,
    relative_values,
    rotary_tables,
)
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, HEAT, ORANGE
from tinyattn.training.adam import Moments, adam
from tinyattn.tree import flatten

road(7)

# %% [markdown]
# ## Two sentences
#
# Three words, each with a random vector, and one attention without a mask. **Predict:** do the three words get the same
# outputs in both sentences?

# %% tags=["hide-output"]
D = 8
rng = np.random.default_rng(7)
W_q, W_k, W_v = rng.standard_normal((3, D, D)) / math.sqrt(D)
words = {word: rng.standard_normal(D) for word in ("dog", "chased", "cat")}


def attend(x, mask=None):
    return attention(x @ W_q, x @ W_k, x @ W_v, mask)[0]  # (n, D) -> (n, D)


for sentence in ("dog chased cat", "cat chased dog"):
    out = attend(np.stack([words[word] for word in sentence.split()]))
    rows = [
        [word, *(f"{x:.2f}" for x in y[:4])] for word, y in zip(sentence.split(), out, strict=True)
    ]
    print(table("word | out, column 0 | 1 | 2 | 3", rows), end="\n\n")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Yes. The rows have changed places, and the numbers in them are the same. Attention reads a **set** of tokens. Who
# chased whom is lost.
#
# </details>
#
# [Chapter 01](01_soft_lookup.ipynb) derived it: with a matrix $P$ that puts rows into another order,
#
# $$f(P x) = P f(x).$$
#
# Attention is **equivariant** under permutations: permute what goes in, and what comes out is permuted alike. Does depth help?
# No: for equivariant $f$ and $g$, $g(f(Px)) = g(P f(x)) = P g(f(x))$. And what is then *made* of all tokens without regard to their order, such as
# their mean, cannot differ between the two sentences at all.

# %%
x = rng.standard_normal((6, D))
order = rng.permutation(6)  # x[order] is P x
deep, permuted = attend(attend(attend(x))), attend(attend(attend(x[order])))
print("three attentions, one on another, are equivariant:", np.allclose(permuted, deep[order]))
print(
    "the mean over their outputs stays the same:",
    np.allclose(permuted.mean(axis=0), deep.mean(axis=0)),
)

# %% [markdown]
# Equivariance is also a good test. If an attention without positions depends on the order of its tokens, it is broken:
# it may have mixed up two axes.
#
# ### Exercise `knows_no_order` (write the property that kills this bug, ★★☆, 8 min)
#
# `knows_no_order` is given `multi_head_attention(x, W_q, W_k, W_v, W_o, heads) -> y`, without a mask, and returns True
# where it is equivariant. `buggy` hands out one whose heads are merged without a swap. Its shapes are right:

# %%
wrong_attention = buggy("knows_no_order")
print(wrong_attention(x, W_q, W_k, W_v, np.eye(D), 2).shape)


# %%
def knows_no_order(multi_head_attention):
    """True where permuted tokens have the same outputs, permuted alike."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x, order = rng.standard_normal((5, 6)), np.array([3, 0, 4, 1, 2])
    Ws = rng.standard_normal((4, 6, 6))
    return np.allclose(
        multi_head_attention(x[order], *Ws, 2), multi_head_attention(x, *Ws, 2)[order]
    )
    ### END SOLUTION


# %%
check("knows_no_order", knows_no_order)

# %% [markdown]
# ## A mask is an order
#
# A causal mask says who came first: token 0 sees one key, token 4 sees five. Is that enough?
#
# ### Exercise `orders_told_apart` (predict the number, ★★☆, 5 min)
#
# Five tokens, a causal mask, no positions. The last token stays where it is, the other four are put into each of their
# $4! = 24$ orders. How many different outputs does the *last* token get: after one attention, and after two, of which
# the second reads the outputs of the first? Answer with two numbers, as in `(3, 4)`.

# %%
### BEGIN SOLUTION
orders_told_apart = (1, 24)
### END SOLUTION

# %%
check("orders_told_apart", orders_told_apart)

# %% tags=["hide-output"]
causal = causal_mask(5, like=x)
backwards = attend(x[4::-1], causal)  # the first five tokens, the last first
print("causal attention is equivariant:", np.allclose(backwards, attend(x[:5], causal)[::-1]))
once, twice = set(), set()
for first_four in permutations(range(4)):
    out = attend(x[[*first_four, 4]], causal)
    once.add(tuple(out[-1].round(9)))
    twice.add(tuple(attend(out, causal)[-1].round(9)))
print(
    f"different outputs of the last token: {len(once)} after one attention, {len(twice)} after two"
)

# %% [markdown]
# <details><summary>Why</summary>
#
# The last query of the *first* attention sees all five keys, as a set. But token 2 saw only tokens 0 to 2, so its output
# tells who was there already. The second attention reads a set of such reports, and from them the whole order follows.
#
# </details>
#
# So a deep causal model can do without positions, and language models without them come close to others ([Haviv et al.
# 2022](https://arxiv.org/abs/2203.16634)). That it *can* does not mean that it is easy. What follows makes it easy: positions
# are given with the tokens, with the logits, or with the queries and keys.
#
# ## Added to the tokens
#
# A token stands at a position, or **slot**, $p = 0, 1, 2, \dots$ The plainest scheme has a table with a row of $D$ learned numbers for each
# slot, and adds a slot's row to the token that stands there. That was the `places` of chapter 05. The table ends: slot 50 of a
# table with 50 rows is an error.
#
# [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762) computed the rows instead. Think of a clock with $D/2$ hands. With
# each token hand $i = 0, 1, \dots$ turns by $\omega_i$: the first by one radian, each later one by less. Sine and cosine of its angle are two
# features:
#
# $$PE_{p,\,2i} = \sin(p\,\omega_i), \qquad PE_{p,\,2i+1} = \cos(p\,\omega_i), \qquad \omega_i = 10000^{-2i/D} .$$
#
# ### Exercise `my_sinusoids` (write the op, ★☆☆, 8 min)
#
# Write it, for whole slots $p \ge 0$ in any number and order, and an even $D$.


# %%
def my_sinusoids(slots, D):
    """Shapes: slots (n,), integers -> PE (n, D), float64."""
    ### BEGIN SOLUTION
    speeds = 10000.0 ** (-np.arange(0, D, 2) / D)  # (D / 2,)
    angles = slots[:, None] * speeds  # (n, 1) * (D / 2,) -> (n, D / 2)
    PE = np.empty((len(slots), D))
    PE[:, 0::2], PE[:, 1::2] = np.sin(angles), np.cos(angles)
    return PE
    ### END SOLUTION


# %%
check("my_sinusoids", my_sinusoids)

# %% [markdown]
# $\delta$ tokens later every hand has turned by a further $\delta\,\omega_i$, wherever it stood. So $PE_{p+\delta}$ is $PE_p$ with
# each pair of features turned, and the dot product of two slots depends on their distance alone:
#
# $$PE_p \cdot PE_r = \sum_i \sin p\omega_i \sin r\omega_i + \cos p\omega_i \cos r\omega_i = \sum_i \cos\big((p - r)\,\omega_i\big) .$$

# %%
sinusoids = yours("my_sinusoids")
PE = sinusoids(np.arange(64), 32)  # (64, 32)
s = PE @ PE.T  # (64, 64): dot products of slots
print(
    "slots 0 and 5, 20 and 25, 58 and 63:", s[0, 5].round(4), s[20, 25].round(4), s[58, 63].round(4)
)
U, W = (np.random.default_rng(seed).standard_normal((32, 32)) / 6 for seed in (1, 2))
s = (PE @ U) @ (PE @ W).T  # what attention makes of them: queries and keys
print(
    "the same, as queries and keys:      ", s[0, 5].round(1), s[20, 25].round(1), s[58, 63].round(1)
)

# %% tags=["hide-input"]
with style():
    fig, (left, right) = figure(1, 2, size=(8.2, 3.4))
    left.imshow(PE.T, cmap=HEAT, aspect="auto", vmin=-1, vmax=1)
    left.set(title="PE: fast hands at the top", xlabel="slot", ylabel="feature")
    for p, colour, line in ((8, BLUE, "-"), (32, ORANGE, "--"), (56, GREY, ":")):
        right.plot(PE @ PE[p], line, color=colour)
        right.annotate(f"p = {p}", (p, 16), (p, 17), color=colour, ha="center")
    right.set(title=r"$PE_p \cdot PE_r$: one curve, moved", xlabel="slot r", ylim=(3, 18.5))
show_figure(
    fig,
    "sinusoids",
    "The table of sinusoids, whose upper rows wave fast and lower rows hardly change; and dot products of three slots "
    "with all others, which are the same peak moved along",
)

# %% [markdown]
# But attention multiplies by $W_q$ and $W_k$ first, and then the distance is no longer all that matters (last line). With sinusoids
# attention *can* go by distances, if its matrices have learned to; it does not have to.
#
# ## Added to the logits
#
# What about adding something to $s_{ij}$ that depends on the distance $i - j$ alone?
#
# - **ALiBi** ([Press et al. 2022](https://arxiv.org/abs/2108.12409)) subtracts $m\,|i - j|$. Nothing is learned. Where $h$ is a power of two, head
#   $k = 1, \dots, h$ has the slope $m = 2^{-8k/h}$, so some heads look near and others far.
# - **T5** ([Raffel et al. 2020](https://arxiv.org/abs/1910.10683)) learns a number for each of 32 *buckets* of distances. Each
#   distance below 16 has its own (in an encoder each direction has 16 buckets, and each distance below 8 its own). From 16 on, distances share buckets, whose limits grow by equal factors up to 128; beyond 128 all have the last:
#
# $$\text{bucket} = \min\!\Big(16 + \Big\lfloor 16\, \frac{\ln((i - j) / 16)}{\ln(128 / 16)} \Big\rfloor,\; 31\Big), \qquad i - j \ge 16 .$$
#
# - **Shaw** ([Shaw et al. 2018](https://arxiv.org/abs/1803.02155)) learns a *vector* for each distance, so that the query has a say: $q_i \cdot (k_j + a_c) /
#   \sqrt d$, where $c$ is $j - i$ clipped to $-K \dots K$. The values get vectors, too: $v_j + b_c$.
# - **Transformer-XL** ([Dai et al. 2019](https://arxiv.org/abs/1901.02860)) makes such vectors from the sinusoids of the distance,
#   $PE_{i-j}\, W_R$ with a learned matrix $W_R$, and has two learned vectors $u$ and $w$ for all queries: $\big((q_i + u) \cdot k_j + (q_i + w) \cdot
#   (PE_{i-j}\, W_R)\big) / \sqrt d$.
#
# ### Exercise `bucket_of_100` (predict the number, ★☆☆, 4 min)
#
# Which of T5's buckets, 0 to 31, has the distance 100? (First guess: in the middle, or near the end?)

# %%
### BEGIN SOLUTION
bucket_of_100 = 30
### END SOLUTION

# %%
check("bucket_of_100", bucket_of_100)

# %% [markdown]
# Here are all four, for slots of any kind, and beside them the library's for slots 0, 1, 2, ...

# %%
K = 4  # of Shaw: distances beyond it share a vector
a, b = rng.standard_normal((2, 2 * K + 1, D))
T = rng.standard_normal((32, 1))  # of T5: buckets, heads
W_R, (u, w) = rng.standard_normal((D, D)), rng.standard_normal((2, D))


def alibi_bias(q, k, back, slope=2**-8):  # back (n, n): distances i - j
    return -slope * np.abs(back)


def t5_bias(q, k, back):
    far = np.maximum(back, 0)  # keys after the query are hidden by the mask: any bucket will do
    shared = 16 + np.floor(16 * np.log(np.maximum(far, 16) / 16) / np.log(128 / 16))
    return T[np.where(far < 16, far, np.minimum(shared, 31)).astype(int), 0]


def shaw_bias(q, k, back):
    return np.einsum("id,ijd->ij", q, a[np.clip(-back, -K, K) + K]) / math.sqrt(D)


def xl_bias(q, k, back):
    PE = sinusoids(np.abs(back).ravel(), D).reshape(*back.shape, D)
    PE[..., 0::2] *= np.sign(back)[..., None]  # sin(-a) = -sin a
    return (k @ u + np.einsum("id,ijd->ij", q + w, PE @ W_R)) / math.sqrt(D)


n = 40
q, k, v = rng.standard_normal((3, n, D))
back = np.arange(n)[:, None] - np.arange(n)
xl = {"W": W_R, "u": u[None], "v": w[None]}
theirs = {
    alibi_bias: alibi(n, n, 1, like=q)[0],
    t5_bias: bucket_bias(T, distance_buckets(n, n, like=q))[0],
    shaw_bias: relative_scores(q, a, n) / math.sqrt(D),
    xl_bias: POSITIONS["xl"]().enter(xl, q[None, None], k[None, None], None)[2]["bias"][0, 0],
}
for mine, library in theirs.items():
    print(mine.__name__, np.allclose(mine(q, k, back), library))

# %% [markdown]
# ## RoPE: queries and keys are turned
#
# [Su et al. (2021)](https://arxiv.org/abs/2104.09864) add nothing. Take $d = 2$ first, and write $R_\theta$ for a turn by the angle $\theta$:
#
# $$R_\theta = \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix},
# \qquad R_\theta^\top = R_{-\theta}, \qquad R_\alpha R_\beta = R_{\alpha + \beta} .$$
#
# Turn the query at slot $i$ by $i\,\omega$ and the key at slot $j$ by $j\,\omega$. Their dot product is
#
# $$(R_{i\omega}\, q) \cdot (R_{j\omega}\, k) = q \cdot R_{i\omega}^\top R_{j\omega}\, k = q \cdot R_{(j - i)\,\omega}\, k .$$
#
# It depends on the distance alone, whatever $q$ and $k$ are. That is what sinusoids could not keep through $W_q$ and $W_k$: here the turn comes
# *after* them. A head of width $d$ is $d/2$ such pairs, features $2i$ and $2i + 1$, which turn at the speeds
# $\omega_i = 10000^{-2i/d}$ of the clock. Values are left alone.

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 3, size=(8.2, 3.0))
    for ax, (i, j) in zip(axes, ((0, 0), (1, 3), (4, 6)), strict=True):
        ends = []
        for at, angle, colour, name in ((i, 0.5, BLUE, "q"), (j, 0.2, ORANGE, "k")):
            angle += 0.6 * at
            end = (math.cos(angle), math.sin(angle))
            ends.append(end)
            line = "-" if name == "q" else "--"
            how = {"arrowstyle": "->", "color": colour, "lw": 2, "ls": line}
            ax.annotate("", end, (0, 0), arrowprops=how)
            ax.text(1.2 * end[0], 1.2 * end[1], f"${name}$", color=colour, ha="center", va="center")
        dot = np.dot(*ends)
        ax.set(
            title=rf"q at {i}, k at {j}: $q \cdot k$ = {dot:.2f}",
            xlim=(-1.4, 1.4),
            ylim=(-1.4, 1.4),
            aspect="equal",
        )
        circle = np.linspace(0, 2 * np.pi, 100)
        ax.plot(np.cos(circle), np.sin(circle), color=GREY, lw=0.8, ls=":")
        ax.plot((0, 1), (0, 0), color=GREY, lw=0.8)
        ax.text(0.62, -0.05, "angle 0", color=GREY, fontsize=8, ha="center", va="top")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    fig.supxlabel("dotted: all arrows of length 1", color=GREY, fontsize=9)
show_figure(
    fig,
    "turning",
    "The same query and key as arrows on a circle, turned by their slots: at slots 1 and 3 and at slots 4 and 6 the "
    "angle between them, and so their dot product, is the same",
)

# %% [markdown]
# ### Exercise `my_rope` (write the op, ★★☆, 8 min)
#
# Turn every pair. `cos` and `sin` hold the cosine and sine of each token's angle for each pair, as `rotary_tables(slots, d,
# dtype)` of the library makes them. `x` may have any axes before its last two. Pairs are neighbours; some code pairs feature $i$ with $i + d/2$.


# %%
def my_rope(x, cos, sin):
    """Shapes: x (..., n, d), cos and sin (n, d / 2) -> y like x."""
    ### BEGIN SOLUTION
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., n, d / 2) each
    y = np.empty_like(x)
    y[..., 0::2] = cos * even - sin * odd
    y[..., 1::2] = sin * even + cos * odd
    return y
    ### END SOLUTION


# %%
check("my_rope", my_rope)

# %%
rope = yours("my_rope")


def rope_logits(slots):
    tables = rotary_tables(slots, D, float)  # cos and sin, (n, D / 2) each
    return rope(q, *tables) @ rope(k, *tables).T


s = rope_logits(np.arange(n))
print(
    "lengths are kept:",
    np.allclose((rope(q, *rotary_tables(np.arange(n), D, float)) ** 2).sum(-1), (q**2).sum(-1)),
)
for shift in (7, 1000, 100_000):
    print(
        f"all slots {shift:,} later, the same logits:",
        np.allclose(rope_logits(np.arange(n) + shift), s),
    )

# %% [markdown]
# ### Exercise `my_rope_backward` (derive the backward, ★★☆, 10 min)
#
# `y = my_rope(x, cos, sin)`, and `dy` is the gradient of the loss with respect to $y$. Derive `dx`. (A token's $y$ is $R x$ with one matrix $R$ for each pair: what is
# $\langle dy, R\,\delta x \rangle$, written with $\delta x$ alone on one side?) `cos` and `sin` are constants and have no gradients.


# %%
def my_rope_backward(dy, cos, sin):
    """Shapes: dy (..., n, d), cos and sin (n, d / 2) -> dx like dy."""
    ### BEGIN SOLUTION
    even, odd = dy[..., 0::2], dy[..., 1::2]
    dx = np.empty_like(dy)
    dx[..., 0::2] = cos * even + sin * odd  # the transpose of a turn is the turn back
    dx[..., 1::2] = -sin * even + cos * odd
    return dx
    ### END SOLUTION


# %%
check("my_rope_backward", my_rope_backward)

# %% [markdown]
# Two things that must hold of it, whatever its lines look like: it undoes the turn, and $\langle dy, R\,\delta x \rangle = \langle dx, \delta x \rangle$.

# %%
rope_backward = yours("my_rope_backward")
tables = rotary_tables(np.arange(n), D, float)
print("it undoes the turn:", np.allclose(rope_backward(rope(q, *tables), *tables), q))
dy, step = rng.standard_normal((2, n, D))
print(
    "the same change of the loss:",
    np.allclose((dy * rope(step, *tables)).sum(), (rope_backward(dy, *tables) * step).sum()),
)

# %% [markdown]
# Step through it, for three tokens with one pair each. Choose a number of `x`: it moves both numbers of its pair, and nothing of another
# token.


# %% tags=["hide-input"]
def turn(x, cos, sin):
    even, odd = x[:, 0::2], x[:, 1::2]
    first, second = cos * even - sin * odd, sin * even + cos * odd
    return np.concatenate([first, second], axis=-1)  # one pair: its places need no mixing


def turn_backward(dy, cos, sin):
    return turn(dy, cos, -sin)


three = np.random.default_rng(7).standard_normal((3, 2)), *rotary_tables(np.arange(3), 2, float)
trace(turn, *three, backward=True).player(title="RoPE, forward and backward")

# %% [markdown]
# ## All of them, in one table
#
# Every scheme as a function of the tokens *and their slots*. Then three questions. If tokens are permuted and slots stay, do the outputs
# change (that is the point)? If tokens take their slots *along*, do they? (Then only the list has another order, and a
# difference would be a bug.) And if all slots become 7 more? **Predict** the answers to the last question.


# %% tags=["hide-output"]
places = rng.standard_normal((50, D))  # a learned table of 50 slots
parameters = {"none": 0, "learned": places.size, "sinusoids": 0, "ALiBi": 0, "T5": T.size}
parameters |= {"Shaw": a.size + b.size, "XL": W_R.size + u.size + w.size, "RoPE": 0}


def positioned(name, x, slots):
    """Attention with the scheme `name`. Shapes: x (n, D), slots (n,) -> out (n, D)."""
    if name in ("learned", "sinusoids"):
        x = x + (places[slots] if name == "learned" else sinusoids(slots, D))
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    if name == "RoPE":
        q, k = (rope(z, *rotary_tables(slots, D, float)) for z in (q, k))
    back = slots[:, None] - slots
    biases = {"ALiBi": alibi_bias, "T5": t5_bias, "Shaw": shaw_bias, "XL": xl_bias}
    make = biases.get(name)
    out, p = attention(q, k, v, bias=make(q, k, back) if make else None)
    if name == "Shaw":
        out = out + np.einsum("ij,ijd->id", p, b[np.clip(-back, -K, K) + K])
    return out


def beyond(name):
    try:
        positioned(name, x, np.arange(55, 61))
        return "goes on"
    except IndexError:
        return "error"


slots = np.arange(6)
q, k, v = x @ W_q, x @ W_k, x @ W_v
out, p = attention(q, k, v, bias=shaw_bias(q, k, slots[:, None] - slots))
print(
    "Shaw's values are the library's:",
    np.allclose(out + relative_values(p, b), positioned("Shaw", x, slots)),
)
rows = []
for name, count in parameters.items():
    out = positioned(name, x, slots)
    others = (
        (x[order], slots, order),  # tokens permuted, slots stay
        (x[order], slots[order], order),  # tokens take their slots along
        (x, slots + 7, slots),
    )
    differences = [np.abs(positioned(name, *given) - out[rows_]).max() for *given, rows_ in others]
    answers = ["yes" if d > 1e-3 else "no" if d < 1e-9 else "?" for d in differences]
    rows.append([name, count, *answers, beyond(name)])
table("scheme | parameters | order matters | slots taken along | slots + 7 | slot 60 of 50", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only *learned* and *sinusoids* say "yes" to slots + 7. They are **absolute**: they say where a token stands. The others are **relative**: they
# say how far apart two tokens stand, so a sequence may begin anywhere, and the library counts from each sequence's first token (*none* says nothing at all). "Slots taken
# along" is "no" everywhere: to know the order of tokens is one thing, to depend on the order of a list another.
#
# </details>
#
# ## Longer than any that was trained
#
# "Goes on" is no more than the absence of an error. Does it go on *well*? A small task: eight random symbols, and each token must report **the symbol
# before it**. One causal attention, width 16, trained on sequences of 12. (The code is folded; what is new in it are two backwards, yours of RoPE and that of T5.)

# %% tags=["hide-input"]
V, L, WIDTH = 8, 12, 16


def turned(x, by):
    return by(x, *rotary_tables(np.arange(x.shape[-2]), WIDTH, float))


def forward(scheme, params, ids):
    """ids (B, n) -> logits (B, n, V), and what the backward needs."""
    n = ids.shape[1]
    x, bias = params["symbols"][ids], None
    if scheme == "learned":
        x = x + params["places"][np.arange(n)]
    if scheme == "sinusoids":
        x = x + sinusoids(np.arange(n), WIDTH)
    q, k, v = (x @ params[name] for name in ("W_q", "W_k", "W_v"))
    if scheme == "RoPE":
        q, k = turned(q, rope), turned(k, rope)
    if scheme == "ALiBi":
        bias = alibi(n, n, 8, like=x)[0]  # the steepest of eight slopes, 1/2
    if scheme == "T5":
        bias = bucket_bias(params["T"], distance_buckets(n, n, like=x))[0]
    out, p = attention(q, k, v, causal_mask(n, like=x), bias)
    return out @ params["W_out"], (x, q, k, v, out, p, bias)


def backward(scheme, params, dlogits, ids, kept):
    x, q, k, v, out, p, bias = kept
    n, grads = ids.shape[1], {name: np.zeros_like(array) for name, array in params.items()}
    dout, grads["W_out"], _ = linear_backward(dlogits, out, params["W_out"])
    dq, dk, dv, dbias = attention_backward(dout, q, k, v, p, bias)
    if scheme == "RoPE":
        dq, dk = turned(dq, rope_backward), turned(dk, rope_backward)
    if scheme == "T5":
        grads["T"] = bucket_bias_backward(dbias[None], params["T"], distance_buckets(n, n, like=x))
    dx = np.zeros_like(x)
    for name, upstream in (("W_q", dq), ("W_k", dk), ("W_v", dv)):
        part, grads[name], _ = linear_backward(upstream, x, params[name])
        dx += part
    grads["symbols"] = embedding_backward(dx, ids, params["symbols"])
    if scheme == "learned":
        grads["places"] = dx.sum(axis=0)
    return grads


def train(scheme, seed, steps=300):
    rng = np.random.default_rng(seed)
    tree = {
        "symbols": rng.standard_normal((V, WIDTH)) / 2,
        "places": rng.standard_normal((L, WIDTH)) / 2,
    }
    tree |= {name: rng.standard_normal((WIDTH, WIDTH)) / 4 for name in ("W_q", "W_k", "W_v")}
    tree |= {"W_out": rng.standard_normal((WIDTH, V)) / 4, "T": np.zeros((32, 1))}
    vector, params = flatten(tree, np.float64)
    moments = Moments(np.zeros_like(vector), np.zeros_like(vector))
    for step in range(1, steps + 1):
        ids = rng.integers(V, size=(32, L))
        logits, kept = forward(scheme, params, ids)
        dlogits = np.zeros_like(logits)
        dlogits[:, 1:] = cross_entropy_backward(1.0, logits[:, 1:], ids[:, :-1])
        grads = backward(scheme, params, dlogits, ids, kept)
        adam(vector, flatten(grads, np.float64)[0], moments, step, lr=0.02)
    return params


def share_right(scheme, params, n):
    """Of the last eight tokens of fresh sequences of length n."""
    ids = np.random.default_rng(99).integers(V, size=(500, n))
    try:
        logits, _ = forward(scheme, params, ids)
    except IndexError:
        return math.nan
    return (logits[:, -8:].argmax(axis=-1) == ids[:, -9:-1]).mean()


# %% [markdown]
# **Predict:** guessing is right in one case of eight, 0.12. What share of the last eight reports does each scheme get right at length 12?
# And at 24 and 48, without further training?

# %% tags=["hide-output"]
trained, rows = {}, []
for scheme in ("none", "learned", "sinusoids", "ALiBi", "T5", "RoPE"):
    trained[scheme] = [train(scheme, seed) for seed in range(3)]
    shares = [
        np.mean([share_right(scheme, params, n) for params in trained[scheme]])
        for n in (12, 24, 48)
    ]
    rows.append([scheme, *("error" if math.isnan(share) else f"{share:.2f}" for share in shares)])
table("scheme | right at length 12, as trained | at 24 | at 48", rows)

# %% [markdown]
# Why do schemes differ so? These are the logits that one trained model of each gives to a key at each distance, averaged over all pairs of symbols:

# %% tags=["hide-input"]
FAR = 48


def by_distance(scheme, params):
    """The last query's mean logit for each distance 0..FAR - 1, less that for the distance 1."""
    ids = np.random.default_rng(5).integers(V, size=(400, FAR))
    _, (_, q, k, _, _, _, bias) = forward(scheme, params, ids)
    s = (q[:, -1:] @ k.swapaxes(-1, -2))[:, 0] / math.sqrt(WIDTH) + (
        0 if bias is None else bias[-1]
    )
    s = s.mean(axis=0)[::-1]
    return s - s[1]


with style():
    fig, axes = figure(1, 3, size=(8.2, 3.2), sharey=True)
    looks = (("ALiBi", BLUE, "o"), ("T5", ORANGE, "s"), ("RoPE", GREEN, "^"))
    for ax, (scheme, colour, marker) in zip(axes, looks, strict=True):
        ax.plot(by_distance(scheme, trained[scheme][0]), marker, color=colour, ms=3)
        ax.axvline(11.5, color=GREY, lw=0.9, ls=":")
        ax.axhline(0, color=GREY, lw=0.6)
        ax.set(title=scheme, xlabel="distance i - j")
    axes[0].set(ylabel="logit, less that at distance 1")
    axes[0].text(12.5, -1, "never trained", color=GREY, va="top")
show_figure(
    fig,
    "distances",
    "Trained logits against distance: ALiBi falls in a straight line; T5's are low from distance 2 to 11 and jump back up "
    "in buckets that were never trained; RoPE's go up and down, and rise above that at distance 1 near distance 39",
)

# %% [markdown]
# - **none** knows which symbols have come, and how often; not which came last.
# - **learned** has no row for slot 12. **Sinusoids** have one, but no gradient ever saw it.
# - **ALiBi** is a straight line, trained or not: what it can do at 12 it can do at 48. But its slope is fixed, here at 1/2, so a key at distance 2 still
#   has $e^{-1/2} = 0.61$ of the weight of one at distance 1, and a key at distance 3 has $0.37$. If these two hold the same symbol, they nearly outvote the
#   right one (next cell).
# - **T5** puts distances from 12 on into buckets that no gradient ever reached. They are still at 0, above those that were learned to be low, and
#   the more there are of them, the less is left for distance 1.
# - **RoPE** has learned a peak at distance 1 from the angles of 12 distances. Later the hands come round again: here distance 39 has a larger logit than 1.

# %%
ids = np.random.default_rng(99).integers(V, size=(2000, L))
logits, _ = forward("ALiBi", trained["ALiBi"][0], ids)
right = logits[:, -1].argmax(axis=-1) == ids[:, -2]
outvoted = (ids[:, -3] == ids[:, -4]) & (ids[:, -3] != ids[:, -2])  # distances 2 and 3 agree
print(
    f"ALiBi is right in {right[outvoted].mean():.2f} of these cases, in {right[~outvoted].mean():.2f} of all others"
)
T_learned = trained["T5"][0]["T"][:, 0]
print(
    "T5's buckets 0, 1, 2, 11:",
    T_learned[[0, 1, 2, 11]].round(1),
    "and 12 to 31:",
    np.unique(T_learned[12:]),
)

# %% [markdown]
# A scheme that depends on distances alone treats *known* distances alike everywhere. It need not work at distances that were never trained.
#
# | what is often said | what the cells above show |
# |---|---|
# | a deeper stack finds the order by itself | without a mask and positions it is equivariant at every depth |
# | without positions a Transformer cannot know order | one causal attention: its last token cannot; two told all 24 orders apart |
# | sinusoids make attention depend on distances | the table's dot products do; after $W_q$ and $W_k$ the logits need not |
# | relative schemes generalise to longer sequences | in this task ALiBi did; T5 and RoPE went on without an error, and became worse |
#
# ## In five lines
#
# - Attention is equivariant under permutations: it reads a set. A causal mask breaks that, for deep models thoroughly.
# - Learned rows and sinusoids are added to tokens and say *where*; biases are added to logits, RoPE turns queries and keys, and both say *how far apart*.
# - Sinusoids turn with the slot, so their dot products depend on the distance alone; after $W_q$ and $W_k$ they need not.
# - RoPE turns queries and keys after the projections, so every logit depends on the distance alone; its backward is the turn back.
# - A scheme that runs beyond the trained length need not work there: only distances that were trained have been learned.
#
# To read: Su et al. (2021), sections 3.1 to 3.3; Press et al. (2022), section 3. Next: [08, the block](08_block.ipynb), what stands around attention.
