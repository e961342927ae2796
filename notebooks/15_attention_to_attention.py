# %% [markdown]
# # 15 · Paying attention to attention
#
# A token's row of attention scores says how it sees all others. Those are numbers about the token, like any features. **Could such rows be
# compared with each other, as the tokens were?**
#
# [Liu et al. (2024)](https://doi.org/10.1145/3640457.3688164) do that in a recommender, AWRSR, and print gains of 2 to 8 % in NDCG@5 over SASRec. No code
# was released, and the formulas leave masks, padding and even shapes open. So this is a chapter on reading: what has to be settled before such a method
# can be built, and what a table of gains can say.
#
# **You need**: masks, leaks and noise ([05](05_masks.ipynb)), the product rule for matrices ([03](03_gradients.ipynb)), SASRec ([12](12_sasrec.ipynb)), and what
# another seed does ([13](13_not_to_fool_yourself.ipynb)).
#
# **You will be able to**:
#
# - refine attention scores by attention among them, forward and backward;
# - find a leak that no mask stops, and say why leave-one-out does not show it;
# - say which gains seeds alone would print, and how large one must be to be told from them.

# %% tags=["hide-input"]
import math

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patheffects import withStroke

from tinyattn.course import check, road, show_arrays, show_figure, table, yours
from tinyattn.data import Interactions, Sampler, leave_one_out
from tinyattn.data.worlds import ChainWorld
from tinyattn.evaluation import ndcg, target_ranks
from tinyattn.experiments.awrsr.grid import PUBLISHED
from tinyattn.models import SASRec
from tinyattn.ops import (
    refine_add,
    refine_simp,
    refine_simp_backward,
    refine_value,
    refine_value_literal,
    refine_value_rows,
    softmax,
    softmax_backward,
    wasserstein_scores,
    wasserstein_scores_backward,
)
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, HEAT, INK, ORANGE

road(15)

# %% [markdown]
# ## Three words
#
# The paper calls the logits $A$, and so do we: $a_{kt} = q_k \cdot k_t / \sqrt d$, with 0 where the causal mask forbids (why 0, you will see). Here are those of
# *cats chase mice*, for $d = 4$:

# %%
words, d = ["cats", "chase", "mice"], 4
A = np.array([[1.0, 0, 0], [2, 1, 0], [2, 0, 1]])
past = np.tri(3, dtype=bool)
show_arrays(A=A, p=softmax(A, past))

# %% [markdown]
# *mice* finds nothing in *chase*: $a_{32} = 0$. But their rows are alike. Both look at *cats*. The simplest refinement, **M_simp** (equation 2), compares rows of $A$
# as attention compares tokens, with a map for either role,
#
# $$X = A\,W_Q, \qquad Y = A\,W_K, \qquad B = \frac{X Y^\top}{\sqrt d},$$
#
# and takes softmax(B) in place of softmax(A). The values are what they were. $W_Q$ and $W_K$ are $(n, n)$, learned, and here the identity. So $b_{kt}$
# is the dot product of two rows, halved.
#
# **Predict:** compute the last row of $B$. At which word does *mice* look most now, and which gains most in proportion?

# %% tags=["hide-output"]
by_hand = np.array([[A[k] @ A[t] / 2 for t in range(3)] for k in range(3)])
B, X, Y = refine_simp(A, np.eye(3), np.eye(3), scale=1 / math.sqrt(d))
print("the library's:", np.allclose(by_hand, B))
show_arrays(B=B, p=softmax(B, past))

# %% [markdown]
# $b_{32} = (2 \cdot 2 + 0 \cdot 1 + 1 \cdot 0) / 2 = 2$: *chase* rises from .09 to .33. $A$ asks whether $t$ is what $k$ looks for; **$B$ asks whether $k$ and $t$ look for the same**.
# The largest is $b_{33}$: a row is like itself, and long rows win. The learned maps must make up for that. $b_{kt} = A_k M A_t^\top$ with
# $M = W_Q W_K^\top$, where $M_{ij}$ says what it is worth that $k$ looks at place $i$ and $t$ at place $j$.
#
# Entries above the diagonal are there, too: $b_{12}$ is made of row 2. So $B$ is masked again before its softmax.
#
# The paper has three more. **M_add** is the mean of this $B$ and $A$; M_stoc and M_value come below.
#
# ## What stands where nothing may be seen?
#
# Hidden logits are $-\infty$, or $-10^9$ in much code. But $A$ is no longer the last thing before a softmax: it is *multiplied*. The paper does not mention
# the mask.
#
# **Predict:** what becomes of the weights, and of $dA$, with $-\infty$, with $-10^9$ and with 0 in the hidden places?

# %% tags=["hide-output"]
n, d = 10, 8
q, k, v, dout = np.random.default_rng(13).standard_normal((4, n, d))
W_Q, W_K = np.eye(n) + 0.1 * np.random.default_rng(1).standard_normal((2, n, n))
past, c, rows = np.tri(n, dtype=bool), 1 / math.sqrt(d), []
for fill in (-np.inf, -1e9, 0.0):
    A = np.where(past, q @ k.T / math.sqrt(d), fill)
    with np.errstate(invalid="ignore"):
        B, X, Y = refine_simp(A, W_Q, W_K, c)
        p = softmax(B, past)
        dB = softmax_backward(dout @ v.T, p)
        dA = refine_simp_backward(dB, A, W_Q, W_K, X, Y, c)[0]
    size = np.abs(dA[past]).max()
    rows.append([f"{fill:g}", bool(np.isnan(p).any()), f"{p[-1].max():.2f}", f"{size:.2f}"])
table("hidden | NaN | largest weight of the last row | largest entry of dA", rows)

# %% [markdown]
# A constant that is multiplied is *data*. With $-10^9$ every row looks at one token; $W$ and the mask choose it, the input does not matter, and no gradient
# comes back. Two choices are left: 0, as here, or $A$ = softmax(logits), whose zeros are true ones.
#
# ## The backward
#
# Two facts suffice. If $Z = U V$, then $dU = dZ\, V^\top$ and $dV = U^\top dZ$. And what was read twice has two gradients, which add.
#
# ### Exercise `my_refine_backward` (derive the backward, ★★☆, 12 min)
#
# $B = c\, X Y^\top$ with $X = A W_Q$ and $Y = A W_K$. Derive $dX$ and $dY$ first. Nothing is kept from the forward: make $X$ and $Y$ again.


# %%
def my_refine_backward(dB, A, W_Q, W_K, c):
    """Shapes: dB, A, W_Q, W_K (n, n), c a number -> dA, dW_Q, dW_K (n, n)."""
    ### BEGIN SOLUTION
    dX = c * dB @ (A @ W_K)  # B = c X Yᵀ
    dY = c * dB.T @ (A @ W_Q)  # Bᵀ = c Y Xᵀ
    return dX @ W_Q.T + dY @ W_K.T, A.T @ dX, A.T @ dY  # A was read twice
    ### END SOLUTION


# %%
check("my_refine_backward", my_refine_backward)

# %%
mine = yours("my_refine_backward")(dB, A, W_Q, W_K, c)
ours = refine_simp_backward(dB, A, W_Q, W_K, X, Y, c)
for name, one, other in zip(("dA", "dW_Q", "dW_K"), mine, ours, strict=True):
    print(f"{name} is the library's:", np.allclose(one, other))
print("only W_Q W_Kᵀ matters:", np.allclose(W_Q.T @ mine[1], (W_K.T @ mine[2]).T))

# %% [markdown]
# The last line: doubling $W_Q$ and halving $W_K$ changes nothing.
#
# Step through the three words. In the backward, `dA` is made twice: that is where the two readings of $A$ are added. Choose $a_{31}$, and see which entries of
# $B$ it moves: a row *and* a column.

# %% tags=["hide-input"]
three_words = np.array([[1.0, 0, 0], [2, 1, 0], [2, 0, 1]]), np.eye(3), np.eye(3)
trace(refine_simp, *three_words, scale=1 / 2, backward=True).player(
    title="M_simp of three words, forward and backward"
)

# %% [markdown]
# ## A distance for a product
#
# M_stoc compares rows by a *distance*, as **STOSA** ([Fan et al. 2022](https://arxiv.org/abs/2201.06035)) compares tokens. There a token is a normal
# distribution: a mean $\mu$, and a deviation $\sigma$, its uncertainty. How far are two of them apart? Move the one onto the other: what lies $z$ deviations from its
# mean goes to $z$ deviations from the other mean. On a line, the mean square of the way is
#
# $$W^2 = \mathbb{E}\big((\mu - \mu') + (\sigma - \sigma')\, z\big)^2 = (\mu - \mu')^2 + (\sigma - \sigma')^2,$$
#
# as $z$ has mean 0 and variance 1. No other way to move is shorter: $W$ is the *2-Wasserstein distance*. Independent entries add their squares. So a token is a point
# $[\mu, \sigma]$, and the logits are $s_{ij} = -|a_i - b_j|^2 / \sqrt d$.
#
# **Predict:** the points 0, 1 and 2 are queries and keys. At which key does each look most: by product, by distance?

# %% tags=["hide-output"]
x = np.array([[0.0], [1.0], [2.0]])
s = wasserstein_scores(x, 0 * x, x, 0 * x)  # deviations of 0
print("twice the product, less |b|²:", np.allclose(softmax(s), softmax(2 * x @ x.T - x.T**2)))
show_arrays(s=s, by_product=softmax(x @ x.T), by_distance=softmax(s))

# %% [markdown]
# By product 1 and 2 look at 2, the longest. By distance each looks at itself. In $-|a - b|^2 = 2\,a \cdot b - |a|^2 - |b|^2$ softmax forgets $|a|^2$, which is the same for all keys:
# **attention by distance is attention by twice the product, less $|b|^2$: long keys no longer win.** (The paper takes $W$, for its triangle inequality. Its released code takes $W^2$, which has none: from 0 to 2 it is
# 4, by way of 1 it is 1 + 1.)
#
# ### Exercise `my_wasserstein_backward` (derive the backward, ★★☆, 8 min)
#
# $s_{ij} = -c\,\big(|\mu_i - \mu'_j|^2 + |\sigma_i - \sigma'_j|^2\big)$, with $n$ queries and $m$ keys. Which entries of $s$ did $\mu_i$ make, and which $\mu'_j$? No array $(n, m, d)$ is needed.


# %%
def my_wasserstein_backward(ds, q_mean, q_dev, k_mean, k_dev, c):
    """ds (n, m), queries' (n, d), keys' (m, d), c a number -> dq_mean, dq_dev, dk_mean, dk_dev."""

    ### BEGIN SOLUTION
    def pulled(g, a, b):
        return -2 * c * (g.sum(axis=1, keepdims=True) * a - g @ b)  # Σ_j g_ij (a_i - b_j)

    of_queries = pulled(ds, q_mean, k_mean), pulled(ds, q_dev, k_dev)
    return *of_queries, pulled(ds.T, k_mean, q_mean), pulled(ds.T, k_dev, q_dev)
    ### END SOLUTION


# %%
check("my_wasserstein_backward", my_wasserstein_backward)

# %%
draw = np.random.default_rng(15)
points = (*draw.random((2, 5, 4)), *draw.random((2, 3, 4)))  # five queries, three keys
ds, s = draw.standard_normal((5, 3)), wasserstein_scores(*points)
mine = yours("my_wasserstein_backward")(ds, *points, 1 / math.sqrt(4))
ours = wasserstein_scores_backward(ds, *points, s)
print("the library's:", all(np.allclose(a, b) for a, b in zip(mine, ours, strict=True)))

# %% [markdown]
# Where a logit should grow, query and key move towards each other, in mean and in deviation.
#
# ## Who knows of whom?
#
# Row $k$ of $A$ is made of $q_k$ and of keys up to $k$, if the rest is 0. Then $b_{kt}$ with $t \le k$ reads two rows that know nothing later than $k$. **M_simp is
# causal if $A$ is masked before it and $B$ after it.** Now equation 3, M_value. It is printed as
#
# $$B = W_V A\, \operatorname{softmax}\big((W_K A)^\top\, W_Q A\big)$$
#
# and names no axis. Here *columns* are items, so softmax runs over those that are looked at. Turned so that it runs along rows as ever:
#
# $$X = W_Q A, \quad Y = W_K A, \quad Z = W_V A, \qquad S = \operatorname{softmax}(X^\top Y), \qquad B = Z\, S^\top .$$
#
# The maps stand on the *left*.
#
# **Predict:** five tokens, $A$ and $B$ masked as before. Ten pairs (output $k$, later token $j$) could leak. In plain attention none does; how many do here?
#
# As in chapter 05, we change one token and see which outputs move.


# %% tags=["hide-output"]
def influence(f, x):
    """f: (n, D) -> (n, E). -> (n, n): how far output i moves when token j does."""
    moved = [np.abs(f(x + step) - f(x)).max(axis=-1) for step in np.eye(len(x))[:, :, None]]
    return np.stack(moved, axis=1)


n = 5
x, past = np.random.default_rng(3).standard_normal((n, d)), np.tri(n, dtype=bool)
V_q, V_k, V_v = np.random.default_rng(4).standard_normal((3, d, d)) / math.sqrt(d)
W = np.random.default_rng(5).standard_normal((3, n, n)) / math.sqrt(n)
L = np.tril(W)  # W may be masked as well


def refined_attention(refine, mask_A=past, mask_B=past):
    """x -> out, with B = refine(A) before the softmax."""

    def f(x):
        A = np.where(mask_A, (x @ V_q) @ (x @ V_k).T / math.sqrt(d), 0)
        return softmax(refine(A), mask_B) @ (x @ V_v)

    return f


def simp(A):
    return refine_simp(A, W[0], W[1])[0]


everything = np.ones((n, n), bool)
forms = {
    "plain attention": refined_attention(lambda A: A),
    "M_simp": refined_attention(simp),
    "M_simp, A not masked": refined_attention(simp, mask_A=everything),
    "M_simp, B not masked": refined_attention(simp, mask_B=everything),
    "equation 3": refined_attention(lambda A: refine_value_literal(A, *W)[0]),
    "equation 3, W masked": refined_attention(lambda A: refine_value_literal(A, *L)[0]),
}
maps = {name: influence(f, x) for name, f in forms.items()}
rows = [[name, int((m[~past] > 0).sum())] for name, m in maps.items()]
table("A is masked, and so is B, but for: | leaks, of 10 pairs", rows)

# %% tags=["hide-cell"]
with style():
    fig, axes = figure(2, 3, size=(8.2, 5.4))
    for ax, (name, moved) in zip(axes.flat, maps.items(), strict=True):
        size = np.ma.masked_equal(moved, 0)
        image = ax.imshow(size, cmap=HEAT, norm=LogNorm(1e-3, 2))
        for i, j in np.argwhere(~past & (moved > 0)):
            mark = ax.text(j, i, "!", ha="center", va="center", color="black", fontsize=14)
            mark.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
            mark.set_weight("bold")
        ax.set(title=name, xlabel="token changed", ylabel="output", xticks=[], yticks=[])
    fig.colorbar(image, ax=axes, label="how far the output moves", fraction=0.03)
    fig.supxlabel("blank: does not move;  ! moves, and must not", fontsize=10)
show_figure(
    fig,
    "leaks",
    "Which token moves which output, in six forms; ! marks a leak. Plain attention and M_simp have none; M_simp without one of "
    "its masks leaks, and equation 3 leaks with all of them",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Six, all that there can be: the first output has one key, whose weight is 1 whatever its score.
#
# </details>
#
# $(W A)_{kj} = \sum_i W_{ki}\, A_{ij}$ takes from *all rows* $i$, and row $i$ is about token $i$. Even with triangular maps one sum is left: $(X^\top Y)_{tj} = \sum_i x_{it}\,
# y_{ij}$. **No mask of $A$, of $B$ or of $W$ takes that back.** The rows must be left out of the sum.
#
# ### Exercise `repaired_value` (find the bug, ★★★, 10 min)
#
# Here $A$ and the maps are lower triangular, and $B$ is masked. Where do later rows come in still? Repair it: row $k$ of $B$ shall be what the equation gives in the last
# row for a sequence that *ends* with token $k$, that is, for the first $k + 1$ rows and columns of everything.


# %%
def buggy_value(A, W_Q, W_K, W_V):
    X, Y, Z = W_Q @ A, W_K @ A, W_V @ A
    S = softmax(X.T @ Y)  # row t: the weights of all j for t
    return np.tril(Z @ S.T)


# %%
def repaired_value(A, W_Q, W_K, W_V):
    """Shapes: all (n, n) and lower triangular -> B (n, n), 0 above its diagonal."""
    ### BEGIN SOLUTION
    B = np.zeros_like(A)
    for k in range(len(A)):
        seen = slice(k + 1)
        X, Y, Z = (W[seen, seen] @ A[seen, seen] for W in (W_Q, W_K, W_V))
        B[k, seen] = Z[-1] @ softmax(X.T @ Y).T  # the last row
    return B
    ### END SOLUTION


# %%
check("repaired_value", repaired_value)

# %% [markdown]
# The library adds one product $x_k^\top y_k$ a row instead of beginning anew. It also has another reading that is causal: attention with the *rows* of $A$ for tokens, $W$ on the
# right, and its own softmax masked.
#
# ### Exercise `later_rows_move_nothing` (write the property that kills this bug, ★★☆, 10 min)
#
# `refine` turns a lower triangular $A$ into $B$, both $(n, n)$; it takes this $n$ alone. Return True if, for every $k$, all that counts in the rows of $B$ up to $k$ stays, to the last bit
# (`np.array_equal`), when the rows of $A$ after $k$ change; else False. It must kill equation 3, and let M_simp live. Which entries of $B$ count?


# %%
def later_rows_move_nothing(refine, n):
    """True where refine(A) -> B, both (n, n), keeps the past apart from the future."""
    ### BEGIN SOLUTION
    rng, counts = np.random.default_rng(0), np.tri(n, dtype=bool)  # above the diagonal B is masked
    A, other = np.tril(rng.standard_normal((2, n, n)))
    for k in range(n - 1):
        changed = np.vstack([A[: k + 1], other[k + 1 :]])
        same = np.equal(refine(changed), refine(A)) | ~counts
        if not same[: k + 1].all():
            return False
    return True
    ### END SOLUTION


# %%
check("later_rows_move_nothing", later_rows_move_nothing)

# %%
causal, value = yours("later_rows_move_nothing"), yours("repaired_value")
rivals = {
    "M_simp": simp,
    "M_add": lambda A: refine_add(A, W[0], W[1])[0],
    "equation 3": lambda A: refine_value_literal(A, *W)[0],
    "equation 3, W masked": lambda A: refine_value_literal(A, *L)[0],
    "M_value, repaired": lambda A: value(A, *L),
    "M_value, by rows": lambda A: refine_value_rows(A, *W, mask=past)[0],
}
A = np.tril(W[0] @ W[1])
print("repaired as the library's:", np.allclose(value(A, *L), refine_value(A, *L)[0]))
table("refinement | causal", [[name, causal(f, n)] for name, f in rivals.items()])

# %% [markdown]
# ## Would anybody notice?
#
# The usual test is leave-one-out: rank the last item of each history. Train four forms on noise of 8 items, where an honest model pays $\ln 8 = 2.08$ or more for fresh items, and puts
# the right one first in 1/8 of all cases.
#
# **Predict:** which loss has the model with equation 3 on fresh noise, and which share of hits at the last position?

# %% tags=["hide-cell"]
TINY = {"dim": 16, "blocks": 1, "heads": 1, "batch_size": 64, "workers": 1, "patience": 0}
rng = np.random.default_rng(0)
noise, fresh = (
    Interactions.from_sequences(rng.integers(1, 9, size=(people, 9))) for people in (300, 2000)
)
batch = Sampler(fresh, 8, 2000, 0, False).batch(
    0
)  # the items so far, and the one that follows each
rows = []
for refine in ("none", "simp", "value", "value-literal"):
    model = SASRec(**TINY, dropout=0.0, lr=0.01, loss="ce", maxlen=8, epochs=35, refine=refine)
    p = model.fit(noise, progress=False).parameters
    weights = softmax(
        model.network.forward(p, batch)[0] @ p["items"][1:].T
    )  # (2000, 8 positions, 8 items)
    wanted = batch.targets[..., None] - 1
    losses = -np.log(np.take_along_axis(weights, wanted, axis=-1)).mean(axis=(0, 2))  # (8,)
    parts = losses.mean(), losses[0], losses[1:-1].mean(), losses[-1]
    hits = np.mean(weights[:, -1].argmax(axis=-1) == wanted[:, -1, 0])
    rows.append([refine, *(f"{loss:.1f}" for loss in parts), f"{hits:.2f}"])
table("refine | loss on fresh noise | first position | between | last | hits at the last", rows)

# %% [markdown]
# The honest forms pay a bit more than $\ln 8$: in 35 epochs they have overfitted the 300 people. Equation 3 learns to read what comes, and pays much less. After the last position nothing comes: there it pays
# no less than others, and has its 1/8 of hits. **Leave-one-out asks where there is nothing to read**, so its metric does not show the leak. Does it do harm, then? Here is a world in
# which something can be learned:


# %% tags=["hide-input"]
def trained(split, **how):
    more = {"dropout": 0.2, "loss": "ce", "maxlen": 12}
    return SASRec(**TINY, **more, **how).fit(split.train, progress=False)


def ndcg5(model, split):
    return ndcg(target_ranks(model, split)["full"], 5).mean()


CHAIN = {"items": 40, "groups": 40, "users": 500}  # what follows depends on the last item
split = leave_one_out(ChainWorld(**CHAIN, shortest=13, longest=13).generate())
found, rows = {}, []
every = Sampler(split.train, 12, 500, 0, False).batch(0)
for refine in ("none", "value-literal"):
    models = [trained(split, lr=0.02, epochs=20, refine=refine, seed=seed) for seed in range(3)]
    losses = np.array([model.network.loss(model.parameters, every)[0] for model in models])
    found[refine] = np.array([ndcg5(model, split) for model in models])
    for seed, loss, metric in zip((0, 1, 2), losses, found[refine], strict=True):
        rows.append([refine, seed, f"{loss:.2f}", f"{metric:.2f}"])
    rows.append([refine, "mean", f"{losses.mean():.2f}", f"{found[refine].mean():.2f}"])
table("refine | seed | loss in training | NDCG@5", rows)

# %% [markdown]
# Better in training, worse in use, on average: what it learned was to copy. With seed 2 it did not find the leak. What three seeds can say comes
# below. Whether the paper's own runs leaked is unknown.
#
# ## Left or right
#
# Many recommenders pad on the left: a short history ends at place $n$. A mask hides the padding, and plain attention does not care. But the maps have a row for each *place*.
# Seven items, after 0, 2 or 5 places of padding:
#
# **Predict:** for which of the three does the padding matter?


# %% tags=["hide-cell"]
def padded(refine, left, n=12, m=7):
    """The outputs of m items after `left` places of padding, which is masked."""
    here, allowed, A = slice(left, left + m), np.zeros((n, n), bool), np.zeros((n, n))
    allowed[here, here] = np.tri(m, dtype=bool)
    A[here, here] = np.tril(q[:m] @ k[:m].T / math.sqrt(d))
    return softmax(refine(A), allowed)[here, here] @ v[:m]


wide = np.random.default_rng(7).standard_normal((2, 12, 12)) / math.sqrt(12)
rivals = {
    "plain": lambda A: A,
    "M_simp": lambda A: refine_simp(A, *wide)[0],
    "M_simp by lags": lambda A: refine_simp(A, *wide, lags=True)[0],
}
rows = []
for name, refine in rivals.items():
    moved = [abs(padded(refine, left) - padded(refine, 0)).max() for left in (2, 5)]
    rows.append([name, *(f"{far:.2f}" for far in moved)])
table("outputs move by | 2 places | 5 places", rows)

# %% [markdown]
# As printed, the same history says something else after padding, and a history longer than $n$ cannot be read. *By lags* is ours: row $k$ is turned round, $\tilde a_{kr} =
# a_{k,k-r}$, so that $W$ speaks of the item $r$ steps back.
#
# ## What seeds alone do
#
# Now the table. The paper trains each model once, as far as it says, and prints gains over the unrefined backbone, such as +7.26 %. How does such a table look if the refinements do *nothing at all*?
#
# ### Exercise `all_better_by_chance` (predict the number, ★★☆, 5 min)
#
# SASRec and three "refinements" of it that are nothing but SASRec with another seed; one run each. How likely is it that *all three* are better than the backbone?

# %%
### BEGIN SOLUTION
all_better_by_chance = 0.25
### END SOLUTION

# %%
check("all_better_by_chance", all_better_by_chance)

# %% [markdown]
# Not 1/8: the three are compared with the *same* run, and all gain if it was unlucky. That all gains are positive is thus weaker evidence than it looks: 1/64 for three data sets, not 1/512.
# And their size? Below are eight seeds of one SASRec (about 6 seconds), without any refinement; each is the backbone once, and the other seven are its "refinements". On the right is what the paper
# printed for two of its data sets.

# %% tags=["hide-input"]
split = leave_one_out(ChainWorld(**CHAIN, shortest=8, longest=14).generate())


models = [trained(split, lr=0.005, epochs=30, seed=seed) for seed in range(8)]
seeds = np.array([ndcg5(model, split) for model in models])
spread = seeds.std(ddof=1) / seeds.mean()
print(f"NDCG@5 {seeds.mean():.2f}, standard deviation over seeds {spread:.2f} of it")
with style():
    fig, (left, right) = figure(1, 2, size=(8.2, 3.8), sharey=True)
    for backbone, one in enumerate(seeds):
        others = np.delete(seeds, backbone)
        gains = 100 * (others / one - 1)
        left.plot(
            np.full(7, backbone),
            gains,
            "o",
            color=GREY,
            mfc="none",
            label="another seed" if not backbone else None,
        )
        left.plot(
            backbone,
            gains.mean(),
            "_",
            color=INK,
            ms=16,
            mew=2,
            label="their mean" if not backbone else None,
        )
    left.legend(fontsize=9, loc="lower left")
    names = ("simp", "value", "add", "stoc")
    for place, printed in enumerate(PUBLISHED.values()):
        for name, marker, colour in zip(names, "os^D", (BLUE, ORANGE, GREEN, INK), strict=True):
            if name in printed:
                gain = 100 * (printed[name][2] / printed["none"][2] - 1)
                right.plot(
                    place, gain, marker, color=colour, label=f"M_{name}" if place == 3 else None
                )
    titles = {"beauty": "Beauty", "ml-1m": "ML-1M", "sasrec": "SASRec", "stosa": "STOSA"}
    labels = [f"{titles[backbone]}\n{titles[data]}" for data, backbone in PUBLISHED]
    right.set(title="printed in the paper", xticks=range(4), xlim=(-0.5, 3.5))
    right.set_xticklabels(labels)
    right.legend(fontsize=9, loc="lower left")
    left.set(
        title="nothing but another seed",
        xlabel="seed of the backbone",
        ylabel="gain in NDCG@5, %",
        xticks=range(8),
    )
    for ax in (left, right):
        ax.axhline(0, color=GREY, lw=0.9)
show_figure(
    fig,
    "gains",
    "Gains in NDCG@5. Left: each of eight seeds as the backbone, and the other seven beside it, from -7 to +8 %. "
    "Right: the gains that the paper printed for two backbones on two data sets, from -3 to +9 %",
)

# %% [markdown]
# The world is small. But SASRec on MovieLens has an NDCG@10 of .108 ± .004 over three seeds ([measured](../benchmarks/results/ml-1m.md)): no less spread. The paper's $p < 0.01$ does not say
# over what; if over people, it says nothing about seeds.
#
# How large must a gain be, then? Let $\bar x$ and $\bar y$ be the means of $m$ runs each, and $s$ the standard deviation over seeds. The 95 % interval of the difference is
#
# $$\bar y - \bar x \;\pm\; t\, s\, \sqrt{\tfrac1m + \tfrac1m},$$
#
# with $t$ of Student's distribution with $2m - 2$ degrees of freedom: 4.303 for 2 degrees, 2.776 for 4, 2.306 for 8. A difference smaller than what stands behind the ± cannot be told from 0, and with one run each there is no
# $s$ at all.
#
# ### Exercise `smallest_difference` (predict the number, ★★☆, 5 min)
#
# $s$ is 3 % of the metric. Three seeds of the backbone, three of the refinement. What is the smallest gain, in percent, that can be told from 0?

# %%
### BEGIN SOLUTION
smallest_difference = 6.8
### END SOLUTION

# %%
check("smallest_difference", smallest_difference)

# %%
rows = [
    [m, f"{t * 3 * math.sqrt(2 / m):.1f} %"]
    for m, t in ((2, 4.303), (3, 2.776), (5, 2.306), (10, 2.101))
]
table("seeds of each | smallest gain, s = 3 %", rows)


# %% [markdown]
# A true gain of just that size is found in half of all experiments only.
#
# So a table needs one row more: the backbone against *itself*, with three other seeds.


# %%
def difference(runs, backbone):
    """The mean gain as a share of the backbone, and the half width of its interval."""
    s = math.sqrt((runs.var(ddof=1) + backbone.var(ddof=1)) / 2)
    gain, half = runs.mean() - backbone.mean(), 2.776 * s * math.sqrt(2 / 3)
    return [f"{x / backbone.mean():.2f}" for x in (gain, half)]


rows = [
    ["SASRec: seeds 3 to 5, and 0 to 2", *difference(seeds[3:6], seeds[:3])],
    ["value-literal, and none", *difference(found["value-literal"], found["none"])],
]
table("three runs, and three of the backbone | gain | ±", rows)

# %% [markdown]
# In the first row nothing was changed but the seeds. The second is the leak from further up: about 15 % is lost, and three seeds cannot tell even that from 0. A refinement has shown nothing, either, if its
# gain is smaller than its ±.
#
# ## The table
#
# `tinyattn reproduce awrsr --data DIR` trains SASRec and STOSA, plain and refined, on MovieLens and Beauty, with three seeds each and three *other* seeds of
# each backbone; settings, budget and the smallest difference were [written down](../tinyattn/experiments/awrsr/grid.py) before the first run; rows added later have no verdict.
# [Its page](../docs/awrsr.md) has a verdict for each claim, and says what a refinement costs. Now read it: is the interval one over people or over seeds?
# Is the gain larger than that of three other seeds?
#
# | what is often said | what the cells above show |
# |---|---|
# | mask with $-10^9$ | not what is multiplied afterwards: it becomes data, and the gradient is gone |
# | with a causal mask nothing leaks | equation 3 leaks with $A$, $B$ and $W$ masked |
# | a leak inflates the metric | not at the last position: the loss in training looks too good, and the metric is worse on average (three seeds cannot tell) |
# | STOSA's logits obey the triangle inequality | those of its released code do not: 4 > 1 + 1 |
# | the refinement gains 5 % | so does another seed, now and then |
# | all three refinements help, so it is no chance | they share one run of the backbone: 1/4, not 1/8 |
#
# ## In five lines
#
# - $A$ asks whether $t$ is what $k$ looks for, $B = A W_Q (A W_K)^\top / \sqrt d$ whether both look for the same; by a distance, long keys no longer win.
# - What is multiplied later is masked with 0 before, and once more after.
# - A sum over rows of $A$ is a sum over tokens: a product from the left leaks, and the past must be cut out row by row.
# - Leave-one-out asks at a position that cannot leak; noise and the property ask everywhere.
# - Three seeds of each can show a gain of 7 % if seeds vary by 3 %; one run of each can show none.
#
# To read: Liu et al. (2024), sections 2.3 and 3.2, with a pencil. Next: [16, the Transformer](16_transformer.ipynb), with two
# stacks of blocks and what passes between them.
