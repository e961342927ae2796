# %% [markdown]
# # 03 · The backward pass
#
# A network has answered, and it is wrong by a little. It has a million weights. **Which of them is to blame, and how much?**
#
# You could ask each one: nudge it, run the network again, see whether the loss moves. That takes two million runs. The
# backward pass answers for all of them at once, at the price of about two. It is often shown as a feat of the chain rule, or
# left to a machine. Here you will write it by hand, for attention, and see that every line of it is one line of the forward,
# undone.
#
# We begin slowly, with one gradient for each intermediate, and end with five lines. One checker judges both. And because a
# checker is only as good as what it asks, you will also meet a gradient check that a backward full of zeros passes.
#
# You need: matrix products, partial derivatives, and from [chapter 02](02_scale.ipynb) what attention computes.

# %%
import math

import numpy as np

from tinyattn.check import gradcheck
from tinyattn.check.zoo import ZOO
from tinyattn.course import check, show_arrays, show_figure, table
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.ops import (
    attention,
    attention_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    relu,
    relu_backward,
    softmax,
    softmax_backward,
)
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, HEAT, ORANGE
from tinyattn.tree import tree_map

# %% [markdown]
# ## Asking every weight
#
# The smallest network there is: two tokens with three entries each, one linear map, two outputs a token. It should
# have said `target`, it said `y`. The loss is half the squared error.

# %%
rng = np.random.default_rng(3)
x = rng.standard_normal((2, 3))  # two tokens
W = rng.standard_normal((3, 2))
target = rng.standard_normal((2, 2))


def loss_of(W):
    return ((x @ W - target) ** 2).sum() / 2


y = x @ W
show_arrays(x=x, W=W, y=y, target=target)


# %% [markdown]
# The blame of one weight is how fast the loss moves with it, $\partial L / \partial W_{io}$. Nudge it up by $h$,
# nudge it down by $h$, and divide the difference of the two losses by $2h$:


# %%
def measured(loss, X, h=1e-6):
    """∂loss/∂X, every entry of X nudged both ways: as many numbers as X has, in the same places."""
    dX = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        nudge = np.zeros_like(X)
        nudge[i] = h
        dX[i] = (loss(X + nudge) - loss(X - nudge)) / (2 * h)
    return dX


dW = measured(loss_of, W)
show_arrays(W=W, dW=dW)

# %% [markdown]
# Read it as a list of complaints: where the entry is positive, a larger weight means a larger loss. One step against it, and
# the network is less wrong:

# %%
rows = [[f"{step:g}", loss_of(W - step * dW)] for step in (0, 0.01, 0.1)]
table("step: W becomes W - step · dW | loss", rows)

# %% [markdown]
# Two things are already settled. **A gradient has the shape of what it belongs to**, since it holds one number for each entry
# of it. And **nudging does not scale**: two runs for each weight.
#
# ## One notation
#
# Let $\delta$ stand for "moves a little by", and $\langle A, B \rangle = \sum_{ij} A_{ij} B_{ij}$ for the sum of products of two
# arrays of the same shape. If $X$ moves by $\delta X$, each entry moves the loss at its own rate, and to first order the moves add
# up:
#
# $$\delta L = \langle dX, \delta X \rangle .$$
#
# That is the definition of $dX$. (The other factor must be of $X$'s shape, once more.) All that the backward of an operation
# $Y = f(X)$ does is to rewrite $\langle dY, \delta Y \rangle$ as $\langle \text{something}, \delta X \rangle$, and that something
# is $dX$. To move a matrix from one side of $\langle\,,\rangle$ to the other there is one rule:
#
# $$\langle A,\; B\,C \rangle \;=\; \langle B^\top A,\; C \rangle \;=\; \langle A\,C^\top,\; B \rangle .$$
#
# All three are the same sum, $\sum_{ijk} A_{ik}\,B_{ij}\,C_{jk}$, read as a question about all of it, about $C$, or about
# $B$. **Here is where every transpose in a backward comes from**: to ask about $C$, at $jk$, the sum must run over $i$, which is
# first in both $A$ and $B$. A product sums over what is last on its left: $B$ must turn. (This way of working is old; Giles (2008) collects its results for many matrix functions.)

# %%
rng = np.random.default_rng(0)
A, B, C = rng.standard_normal((2, 4)), rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
one, two, three = (A * (B @ C)).sum(), ((B.T @ A) * C).sum(), ((A @ C.T) * B).sum()
print(f"<A, BC> = {one:.6f}   <BᵀA, C> = {two:.6f}   <ACᵀ, B> = {three:.6f}")

# %% [markdown]
# ## A linear map, on paper
#
# $y = x W + b$. If $x$ and $W$ both move, $y$ becomes $(x + \delta x)(W + \delta W) + b + \delta b$, and with the product of two
# small things left out
#
# $$\delta y = \delta x\,W + x\,\delta W + \mathbf 1\,\delta b ,$$
#
# where $\mathbf 1$ is a column of ones: every token receives the same $b$. The first term, moved:
#
# $$\langle dy,\; \delta x\,W \rangle = \langle dy\,W^\top,\; \delta x \rangle
# \qquad\Longrightarrow\qquad dx = dy\,W^\top .$$
#
# The second and third are yours. First with numbers.
#
# ### Exercise `blamed_weight` (predict the number, ★☆☆, 4 min)
#
# Two tokens went through the same $W$ of shape (3, 2), and this came back:
#
# $$x = \begin{pmatrix} 1 & 2 & 0 \\ 3 & -1 & 1 \end{pmatrix}, \qquad
# dy = \begin{pmatrix} 2 & -1 \\ 0.5 & 1 \end{pmatrix} .$$
#
# What is $dW_{01}$, the blame of the weight that leads from entry 0 of a token to its output 1? (We count from 0.)

# %%
### BEGIN SOLUTION
blamed_weight = 2
### END SOLUTION

# %%
check("blamed_weight", blamed_weight)

# %% [markdown]
# ### Exercise `my_linear_backward` (derive the backward, ★★☆, 10 min)
#
# Move $\delta W$ and $\delta b$ to the right of $\langle\,,\rangle$, and write all three gradients. There may be any leading axes
# before the last, as (batch, tokens, i): $W$ and $b$ serve every token of every sequence.


# %%
def my_linear_backward(dy, x, W):
    """Shapes: dy (..., o), x (..., i), W (i, o) -> dx (..., i), dW (i, o), db (o,)."""
    ### BEGIN SOLUTION
    X, D = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[1])  # (N, i), (N, o): all tokens
    return dy @ W.T, X.T @ D, D.sum(axis=0)
    ### END SOLUTION


# %%
check("my_linear_backward", my_linear_backward)

# %% [markdown]
# ## A linear map, in numbers
#
# The network from the beginning. From $L = \tfrac12 \lVert y - \text{target} \rVert^2$ comes $dy = y - \text{target}$: the error
# itself. Each token makes a matrix of complaints of its own, the outer product of what came in and what went wrong,
# and $dW$ is their sum:

# %%
dy = y - target
dx, dW_derived, db = linear_backward(dy, x, W)
show_arrays(
    dy=dy,
    from_token_0=np.outer(x[0], dy[0]),
    from_token_1=np.outer(x[1], dy[1]),
    dW_derived=dW_derived,
    dW_measured=dW,
)

# %% [markdown]
# The last two are the same: six weights asked in twelve runs, and all six answered by one product. `gradcheck` makes this
# comparison for any forward and backward. For $dy$ it takes random numbers (such a made-up $dy$ is called a *cotangent*; why
# random, we shall see), nudges every entry of every input, and is true where all agree:

# %%
bool(gradcheck(linear, linear_backward, x, W, np.zeros(2)))

# %% [markdown]
# ## Softmax: a Jacobian that nobody builds
#
# One row of scores $s$ becomes weights $p = e^{s} / \sum_k e^{s_k}$. Take logarithms, $\log p_i = s_i - \log \sum_k e^{s_k}$, and let
# $s$ move:
#
# $$\frac{\delta p_i}{p_i} = \delta s_i - \sum_k p_k\,\delta s_k
# \qquad\Longrightarrow\qquad \delta p = J\,\delta s, \quad J = \operatorname{diag}(p) - p\,p^\top .$$
#
# Moved over, $\langle dp, J\,\delta s \rangle = \langle J^\top dp, \delta s \rangle$. So $ds = J^\top dp$, and that is a right answer. It
# is also a matrix for every row of weights:

# %%
rng = np.random.default_rng(1)
s = rng.standard_normal((3, 4))  # 3 queries, 4 keys
dp = rng.standard_normal((3, 4))
p = softmax(s)
J = np.stack([np.diag(row) - np.outer(row, row) for row in p])  # (3, 4, 4)
ds_by_jacobian = np.stack([J[i].T @ dp[i] for i in range(3)])  # (3, 4)
show_arrays(p=p, J_of_row_0=J[0], dp=dp, ds_by_jacobian=ds_by_jacobian)

# %%
rows = []
for n in (16, 128, 1024, 8192):
    rows.append([n, f"{8 * n**2 / 1e6:.3f} MB", f"{8 * n**3 / 1e9:,.5f} GB"])
table("n queries, n keys | the weights | the Jacobians of their rows", rows)

# %% [markdown]
# One head, a thousand tokens: 8.6 GB, to multiply it once by a vector and throw it away. So do the multiplication on
# paper. $J^\top = J$, and
#
# $$ds = J\,dp = \operatorname{diag}(p)\,dp - p\,(p^\top dp)
# = p \odot \Big( dp - \sum_k dp_k\,p_k \Big) .$$
#
# It has a meaning. $\sum_k p_k\,dp_k$ is the *average* of $dp$, as this query weights its keys. Where a key's $dp$ is
# above it, the loss is better off without, and $ds > 0$: a step against the gradient lowers that score, in proportion to the
# weight it has. Below it, the score is raised.

# %%
average = (p * dp).sum(axis=-1, keepdims=True)  # (3, 1)
ds = p * (dp - average)
show_arrays(
    dp=dp, average=average, dp_above_average=dp - average, ds=ds, sum_of_row=ds.sum(axis=-1)
)

# %%
print("the Jacobian's ds:", np.allclose(ds, ds_by_jacobian))
print("the library's ds: ", np.allclose(ds, softmax_backward(dp, p)))
print("gradcheck:        ", bool(gradcheck(softmax, softmax_backward, s)))

# %% [markdown]
# Rows of `ds` sum to 0: raising all scores of a row alike changes nothing, so the loss cannot ask for it.
#
# ## Attention: one gradient for each intermediate
#
# Now all of it. Attention (Vaswani et al. 2017, equation 1) has three inputs, and between them and the output lie more
# intermediates than the formula shows. Every one gets a line and a name. `run` computes them in order, or takes one as
# given and goes on from there: that is how to nudge *an intermediate*.

# %%
n, m, d, e = 2, 3, 4, 2
c = 1 / math.sqrt(d)
LINES = {
    "raw": lambda t: t["q"] @ t["k"].T,  # (n, d) @ (d, m) -> (n, m)
    "s": lambda t: t["raw"] * c,  # (n, m)
    "top": lambda t: t["s"].max(axis=-1, keepdims=True),  # (n, 1)
    "e": lambda t: np.exp(t["s"] - t["top"]),  # (n, m)
    "z": lambda t: t["e"].sum(axis=-1, keepdims=True),  # (n, 1)
    "p": lambda t: t["e"] / t["z"],  # (n, m)
    "out": lambda t: t["p"] @ t["v"],  # (n, m) @ (m, e) -> (n, e)
}


def run(q, k, v, **given):
    """Every intermediate by its name; one that is given is taken as it is."""
    t = {"q": q, "k": k, "v": v} | given
    for name, line in LINES.items():
        if name not in t:
            t[name] = line(t)
    return t


rng = np.random.default_rng(84)
q, k, v = rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.standard_normal((m, e))
t = run(q, k, v)
print(np.allclose(t["out"], attention(q, k, v)[0]), "- the library's output is the same")
show_arrays(**t)

# %% [markdown]
# Backward, from the last line to the first. Each gradient needs only those after it.
#
# $$
# \begin{aligned}
# out &= p\,v & \delta out &= \delta p\,v + p\,\delta v & dp &= dout\,v^\top \\
# & & & & dv &= p^\top dout \\
# p &= e / z & \delta p &= \delta e / z - e\,\delta z / z^2 & de &= dp / z + \dots \\
# & & & & dz &= -\textstyle\sum dp \odot e / z^2 \\
# z &= \textstyle\sum e & \delta z &= \textstyle\sum \delta e & de &= dp / z + dz \\
# e &= \exp(s - top) & \delta e &= e \odot (\delta s - \delta top) & ds &= de \odot e \\
# & & & & dtop &= -\textstyle\sum de \odot e \\
# s &= c\;raw & \delta s &= c\;\delta raw & draw &= c\;ds \\
# raw &= q\,k^\top & \delta raw &= \delta q\,k^\top + q\,\delta k^\top & dq &= draw\;k \\
# & & & & dk &= draw^\top q
# \end{aligned}
# $$
#
# Two things deserve a second look. $e$ is read *twice*, above the fraction bar and, through $z$, below it: what comes back is the
# sum, $dp/z + dz$. And $z$ has one entry a row, which every entry of the row reads: so $dz$ is a sum over the row.
# What was broadcast forward is summed backward.
#
# ($top$ reads $s$ as well, so strictly $ds$ has another term. **Predict** what $dtop$ is before you see it.)


# %%
def gradients(dout, t):
    """The gradient of every intermediate, by its name."""
    g = {"out": dout}
    g["p"] = dout @ t["v"].T  # (n, e) @ (e, m) -> (n, m)
    g["v"] = t["p"].T @ dout  # (m, n) @ (n, e) -> (m, e)
    g["z"] = -(g["p"] * t["e"]).sum(axis=-1, keepdims=True) / t["z"] ** 2  # (n, 1)
    g["e"] = g["p"] / t["z"] + g["z"]  # (n, m) + (n, 1): read by p and by z
    g["top"] = -(g["e"] * t["e"]).sum(axis=-1, keepdims=True)  # (n, 1)
    g["s"] = g["e"] * t["e"]  # (n, m)
    g["raw"] = g["s"] * c  # (n, m)
    g["q"] = g["raw"] @ t["k"]  # (n, m) @ (m, d) -> (n, d)
    g["k"] = g["raw"].T @ t["q"]  # (m, n) @ (n, d) -> (m, d)
    return g


dout = rng.standard_normal((n, e))
g = gradients(dout, t)
show_arrays(**{f"d{name}": x for name, x in g.items()})

# %% [markdown]
# Ten claims. Each is checked alone: nudge *that* intermediate, recompute what comes after it, compare. The checker is
# `gradcheck`, given a forward that begins in the middle. ($dtop$ waits: the checker measures
# errors relative to the gradient, and you will see why that says nothing there.)

# %%
inputs = {"q": q, "k": k, "v": v}


def right_alone(name, backward):
    """Is backward's gradient of this one intermediate right?"""

    def forward(X):
        return run(**(inputs | {name: X}))["out"]

    def back(dout, X):
        return backward(dout, run(**(inputs | {name: X})))[name]

    return bool(gradcheck(forward, back, t[name]))


rows = []
for name, gradient in g.items():
    if name == "top":
        continue
    norm = f"{np.linalg.norm(gradient):.3f}"
    verdict = "agrees" if right_alone(name, gradients) else "DIFFERS"
    rows.append([f"d{name}", str(t[name].shape), str(gradient.shape), norm, verdict])
table("gradient | shape of what it belongs to | its shape | norm | gradcheck", rows)

# %% [markdown]
# Nine agree. The tenth, by the nudge that we began with:

# %%
show_arrays(
    dtop=g["top"],
    dtop_measured=measured(lambda top: (dout * run(q, k, v, top=top)["out"]).sum(), t["top"]),
)

# %% [markdown]
# It is 0, and of course it is: subtracting a number from a whole row of scores changes no weight, so no loss depends on
# which number it was. That is why the missing term did no harm, and why no library differentiates its row maximum.
#
# Would the check have seen a mistake? Forget that $e$ is read twice:


# %%
def forgetful(dout, t):
    g = gradients(dout, t)
    g["e"] = g["p"] / t["z"]  # the way through z is missing
    g["s"] = g["e"] * t["e"]
    g["raw"] = g["s"] * c
    g["q"], g["k"] = g["raw"] @ t["k"], g["raw"].T @ t["q"]
    return g


print("wrong:", *(f"d{name}" for name in g if name != "top" and not right_alone(name, forgetful)))

# %% [markdown]
# The mistake is in $de$, and everything that is computed from it is accused along with it. Read such a list from the loss
# backwards: the first name on it is where the bug is. That is what one gradient for each intermediate buys you.

# %% tags=["hide-input"]
with style():
    fig, axes = figure(2, 5, size=(8.6, 2.7), width_ratios=(4, 3, 3, 3, 2))
    for column, name in zip(axes.T, ("q", "s", "e", "p", "out"), strict=True):
        for ax, values, label in (
            (column[0], t[name], f"${name}$"),
            (column[1], g[name], f"$d{name}$"),
        ):
            ax.imshow(values, cmap=HEAT)
            reach = (values.min() + values.max()) / 2
            for i, j in np.ndindex(values.shape):
                shade = "black" if values[i, j] > reach else "white"
                shown = f"{round(values[i, j], 1) + 0.0:.1f}"
                ax.text(j, i, shown, ha="center", va="center", color=shade, fontsize=8)
            ax.set(title=f"{label}   {values.shape}", xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(False)
    axes[0, 0].set_ylabel("forward →")
    axes[1, 0].set_ylabel("← backward")
show_figure(
    fig,
    "mirror",
    "q, s, e, p and out above, their gradients below: each gradient has the shape of what is above it",
)

# %% [markdown]
# ## From nine lines to five
#
# Put three of the lines into one. With $p = e / z$,
#
# $$ds = \Big(\frac{dp}{z} + dz\Big) \odot e
# = \Big(\frac{dp}{z} - \frac{\sum dp \odot e}{z^2}\Big) \odot e
# = p \odot \Big( dp - \sum dp \odot p \Big) .$$
#
# There it is again. Gone are $e$, $z$ and $top$, and so is the need to keep them: of all the intermediates the short form
# wants only $p$.

# %%
long = g["s"]
short = t["p"] * (g["p"] - (g["p"] * t["p"]).sum(axis=-1, keepdims=True))
np.allclose(long, short)

# %% [markdown]
# ### Exercise `my_attention_backward` (derive the backward, ★★★, 15 min)
#
# Write the short backward of attention: `dv`, `dp`, `ds`, `dq`, `dk`, a line each. You are given $dout$, the inputs, and the weights
# that the forward returned, and nothing else. Any leading axes (a batch, heads) may stand before the last two.


# %%
def my_attention_backward(dout, q, k, v, weights):
    """Shapes: dout (..., n, e), q (..., n, d), k (..., m, d), v (..., m, e), weights (..., n, m)
    -> dq, dk, dv like q, k, v.
    """
    ### BEGIN SOLUTION
    c = 1 / math.sqrt(q.shape[-1])
    dv = weights.swapaxes(-1, -2) @ dout  # out = weights v
    dp = dout @ v.swapaxes(-1, -2)
    ds = weights * (dp - (dp * weights).sum(axis=-1, keepdims=True))  # weights = softmax(s)
    dq = ds @ k * c  # s = c q kᵀ
    dk = ds.swapaxes(-1, -2) @ q * c
    return dq, dk, dv
    ### END SOLUTION


# %%
check("my_attention_backward", my_attention_backward)

# %% [markdown]
# When yours is right, open [`tinyattn/ops/attention.py`](../tinyattn/ops/attention.py) and read `attention_backward`: those five
# lines, and the options of later chapters. It gives what our ten gradients gave, and the same checker passes it:

# %%
dq, dk, dv, _ = attention_backward(dout, q, k, v, t["p"])
same = [np.allclose(mine, ours) for mine, ours in ((g["q"], dq), (g["k"], dk), (g["v"], dv))]
print(*same, bool(gradcheck(attention, attention_backward, q, k, v)))

# %% [markdown]
# One observation on the way. The average that softmax's backward subtracts needs no $dp$ at all:
#
# $$\sum_j p_{ij}\,dp_{ij} = \sum_j p_{ij}\,\langle dout_i, v_j \rangle = \Big\langle dout_i,\; \sum_j p_{ij}\,v_j \Big\rangle
# = \langle dout_i, out_i \rangle .$$
#
# It can be had from the output before a single weight is looked at, and so a backward can go through the keys piece by piece.
# The cheaper forms of attention (chapter 14) live on it.

# %%
show_arrays(
    sum_p_dp=(t["p"] * g["p"]).sum(axis=-1),
    sum_dout_out=(g["out"] * t["out"]).sum(axis=-1),
    decimals=4,
)

# %% [markdown]
# ### What does it cost?
#
# At the beginning it said "the price of about two". Let us count: an array that keeps a tally of the
# multiplications in every matrix product it takes part in.


# %%
class Counted(np.ndarray):
    """An array that counts the multiplications of its matrix products."""

    tally = 0

    def __array_ufunc__(self, ufunc, method, *arguments, **how):
        if ufunc is np.matmul:
            Counted.tally += arguments[0].size * arguments[1].shape[-1]
        result = getattr(ufunc, method)(*(np.asarray(x) for x in arguments), **how)
        return np.asarray(result).view(Counted)


def multiplications(f, *arguments):
    Counted.tally = 0
    f(*arguments)
    return Counted.tally


rows = []
for tokens, width in ((2, 4), (64, 32), (512, 64)):
    X = np.random.default_rng(0).standard_normal((3, tokens, width)).view(Counted)
    there = multiplications(run, *X)
    back = multiplications(gradients, X[0], run(*X))
    rows.append([tokens, width, there, back, f"{back / there:.1f}", 2 * X.size])
table("n = m | d = e | forward | backward | ratio | runs, if q, k, v are nudged", rows)

# %% [markdown]
# A product forward, two backward: one for each of its factors. So it is in every layer, whatever the number of weights. That all
# derivatives of a function cost only a small multiple of the function was proved by Baur and Strassen (1983); Rumelhart, Hinton
# and Williams (1986) made networks learn by it.

# %% [markdown]
# ## Where is the mask?
#
# Forward, a mask sets scores to $-\infty$ before softmax. Backward, `attention_backward` does not even take one. An
# omission? Look at a causal mask, and a query that may look at nothing:

# %%
rng = np.random.default_rng(5)
q4, k4, v4 = rng.standard_normal((3, 4, 4))
mask = np.tri(4, dtype=bool)
mask[2] = False
out, weights = attention(q4, k4, v4, mask)
dp = rng.standard_normal(out.shape) @ v4.T
ds = softmax_backward(dp, weights)
print("ds is exactly 0 wherever the mask forbids:", bool(np.all(ds[~mask] == 0)))
print("gradcheck, with the mask:", bool(gradcheck(attention, attention_backward, q4, k4, v4, mask)))
show_arrays(weights=weights, dp=dp, ds=ds)

# %% [markdown]
# $dp$ is *not* 0 at the forbidden places: if that weight could be raised, the loss would move. But $ds = p \odot (\dots)$, and there
# $p$ is 0. **The weights remember the mask.** The same factor silences the query that sees nothing, and it is what
# chapter 02 called saturation: where a weight is nearly 0, the mask need not forbid anything.
#
# One more consequence, which many models carry around unaware. Rows of $ds$ sum to 0, so the gradients of all keys together do,
# too: $\sum_j dk_j = c \sum_i (\sum_j ds_{ij})\, q_i = 0$. A bias in the key projection receives exactly that sum.

# %%
x = rng.standard_normal((6, 4))
W_q, W_k, W_v = rng.standard_normal((3, 4, 4))
b_q, b_k, b_v = rng.standard_normal((3, 4))
q, k, v = linear(x, W_q, b_q), linear(x, W_k, b_k), linear(x, W_v, b_v)
out, weights = attention(q, k, v)
dq, dk, dv, _ = attention_backward(rng.standard_normal(out.shape), q, k, v, weights)
db_q, db_k, db_v = (
    linear_backward(dq, x, W_q)[2],
    linear_backward(dk, x, W_k)[2],
    linear_backward(dv, x, W_v)[2],
)
dW_k = linear_backward(dk, x, W_k)[1]
show_arrays(db_q=db_q, db_k=db_k, db_v=db_v, dW_k=dW_k)

# %% [markdown]
# All three matrices, $W_Q$, $W_K$ and $W_V$, are learned, says an encyclopedia among our sources. The matrices, yes, and $dW_K$ is
# as alive as any. But where a model gives each of them a bias, that of the keys never learns anything.
#
# ## Read twice, blamed twice
#
# In self-attention the same $x$ is read three times, to make queries, keys and values. If $x$ moves, all three move,
# and the loss hears of each:
#
# $$
# \begin{aligned}
# \delta L &= \langle dq, \delta x\,W_Q \rangle + \langle dk, \delta x\,W_K \rangle + \langle dv, \delta x\,W_V \rangle \\
# \Longrightarrow \quad dx &= dq\,W_Q^\top + dk\,W_K^\top + dv\,W_V^\top .
# \end{aligned}
# $$
#
# **Predict:** leave out one of the three terms. Shapes fit. Will the check see it?


# %%
def self_attention(x):
    return attention(x @ W_q, x @ W_k, x @ W_v)[0]


def backward_through(ways):
    """A backward of self_attention that comes back along these ways only."""

    def backward(dout, x):
        q, k, v = x @ W_q, x @ W_k, x @ W_v
        dq, dk, dv, _ = attention_backward(dout, q, k, v, attention(q, k, v)[1])
        parts = {"q": dq @ W_q.T, "k": dk @ W_k.T, "v": dv @ W_v.T}
        return sum(parts[way] for way in ways)

    return backward


rows = []
for ways in ("qkv", "qk", "qv", "kv"):
    verdict = bool(gradcheck(self_attention, backward_through(ways), x))
    rows.append([" + ".join(f"d{way}" for way in ways), "agrees" if verdict else "DIFFERS"])
table("dx from | gradcheck", rows)

# %% [markdown]
# A rule for every branch in every network: **a value that is read several times gets the sum.** It is why a backward
# *adds* into a gradient, and why a `=` where a `+=` should be is one of the commonest bugs there is.
#
# ### Exercise `mended_tied_backward` (find the bug, ★★☆, 8 min)
#
# A recommender often uses one matrix twice: to read items, and, transposed, to score them. Without what lies between,
# $y = (x W)\,W^\top$. Every line of this backward says which forward line it undoes, and each of them is right. The
# result is not. Write `mended_tied_backward`.


# %%
def tied(x, W):
    """Shapes: x (..., i), W (i, o) -> y (..., i)."""
    h = x @ W  # (..., o)
    return h @ W.T


def hasty_tied_backward(dy, x, W):
    """Gradients of tied(x, W) -> dx (..., i), dW (i, o)."""
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])  # all tokens
    dW = dY.T @ (X @ W)  # y = h Wᵀ, by W
    dh = dY @ W  # y = h Wᵀ, by h
    dW = X.T @ dh  # h = x W, by W
    dx = dh @ W.T  # h = x W, by x
    return dx.reshape(x.shape), dW


# %%
def mended_tied_backward(dy, x, W):
    """Gradients of tied(x, W) -> dx (..., i), dW (i, o)."""
    ### BEGIN SOLUTION
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])
    dW = dY.T @ (X @ W)
    dh = dY @ W
    dW = dW + X.T @ dh  # W is read twice
    dx = dh @ W.T
    return dx.reshape(x.shape), dW
    ### END SOLUTION


# %%
check("mended_tied_backward", mended_tied_backward)

# %% [markdown]
# ## How far can you trust a nudge?
#
# Everything above rests on finite differences. They are an instrument, and an instrument has an error. Two, in fact. A
# *large* step cuts corners: by Taylor,
#
# $$\frac{L(x + h) - L(x - h)}{2h} = L'(x) + \frac{h^2}{6} L'''(x) + \dots$$
#
# A *small* step drowns in rounding: $L$ is known to a relative $\varepsilon$, about $10^{-16}$, and what is left of that
# after subtracting and dividing is $\varepsilon / h$.
#
# ### Exercise `best_step` (predict the number, ★★☆, 5 min)
#
# The step in float64 for which the error is smallest is about $h = 10^{k}$. Which whole number is $k$? (Where do
# $h^2$ and $\varepsilon / h$ meet?)

# %%
### BEGIN SOLUTION
best_step = -5
### END SOLUTION

# %%
check("best_step", best_step)

# %% [markdown]
# Measure it, on attention. The loss is $\langle u, out \rangle$ for a fixed random $u$; the error is that of a
# typical entry of $dq$, in parts of the largest. The loss is computed with digits to spare and then rounded, so that one
# rounding, that of $L$, is all there is.

# %%
EXPONENTS = np.arange(-15, 0.1, 0.5)


def errors_of_steps(dtype, both_ways=True):
    """The error of differences at each step 10^exponent, for inputs and losses that are rounded to this dtype."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal(shape) for shape in ((3, 4), (5, 4), (5, 2)))
    out, weights = attention(q, k, v)
    u = rng.standard_normal(out.shape)
    derived = attention_backward(u, q, k, v, weights)[0]
    q, k, v, u = (a.astype(dtype).astype(np.longdouble) for a in (q, k, v, u))

    def loss(q):
        e = np.exp(q @ k.T / np.sqrt(np.longdouble(q.shape[1])))
        return float(dtype((u * (e / e.sum(axis=1, keepdims=True) @ v)).sum()))

    errors = []
    for h in 10.0**EXPONENTS:
        slopes = np.zeros(q.shape)
        for i in np.ndindex(q.shape):
            up, down = q.copy(), q.copy()
            up[i] = dtype(q[i] + h)
            down[i] = dtype(q[i] - h) if both_ways else q[i]
            slopes[i] = (loss(up) - loss(down)) / (2 * h if both_ways else h)
        errors.append(np.median(np.abs(slopes - derived)) / np.abs(derived).max())
    return np.array(errors)


curves = {
    "float64, both ways": errors_of_steps(np.float64),
    "float64, one way": errors_of_steps(np.float64, both_ways=False),
    "float32, both ways": errors_of_steps(np.float32),
}

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(7.0, 3.8))
    looks = ((BLUE, "-", "o"), (GREEN, ":", "^"), (ORANGE, "--", "s"))
    for (name, errors), (colour, line, marker) in zip(curves.items(), looks, strict=True):
        h = 10.0**EXPONENTS
        ax.plot(h, errors, line, marker=marker, markersize=3.5, color=colour, label=name)
    h = np.array([1e-4, 1e-1])
    ax.plot(h, 2e-4 * h**2, color=GREY, linewidth=0.8)
    ax.text(3e-3, 1e-10, r"$\propto h^2$", color=GREY)
    h = np.array([1e-14, 3e-6])
    ax.plot(h, 1e-18 / h, color=GREY, linewidth=0.8)
    ax.text(1e-12, 3e-8, r"$\propto \varepsilon / h$", color=GREY)
    ax.set(xscale="log", yscale="log", ylim=(1e-13, 3), xlabel="step $h$")
    ax.set(title="error of a difference quotient, in parts of the largest gradient")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 0.0))
show_figure(
    fig,
    "steps",
    "Error against step: a V, lowest near 1e-5 in float64, higher with one-sided steps, far higher in float32",
)

# %%
rows = []
for name, errors in curves.items():
    at = [errors[np.argmin(np.abs(EXPONENTS - exponent))] for exponent in (-15, -6, -4, -2)]
    rows.append([name, *(f"{10 ** (2 * math.ceil(math.log10(error) / 2)):.0e}" for error in at)])
table("error below | h = 1e-15 | 1e-6 | 1e-4 | 1e-2", rows)

# %% [markdown]
# (Rounded up, to an even power of ten: the last digits of noise are another machine's.) A V, as predicted, and "as small as
# possible" is the worst choice there is: at $h = 10^{-15}$ float64 has hardly a digit left. Nudged one way only, the right arm
# rises like $h$ and not $h^2$: the foot is higher.
#
# The foot of the float32 V lies higher still, and far to the right. At $10^{-6}$, in float64 nearly the best of steps, the error is
# some parts in a thousand, and below $10^{-8}$ adding $h$ changes nothing at all. At its own best step, near $10^{-2}$, it would
# show a wrong formula; but who tells you that step, for the next function? Hence `gradcheck` insists on float64, takes
# $h = 10^{-6}$, and then holds the float32 backward against the float64 one.
#
# ### What no difference can see
#
# `gradcheck` asks whether *this* backward belongs to *this* forward. Whether the forward is right it does not ask. Here is
# an attention from [the zoo](../tinyattn/check/zoo/attention.py), a collection of known bugs, that forgets $\sqrt{d_k}$ both
# ways; and a kink, that of relu, $\max(x, 0)$:

# %%
unscaled = ZOO["attention"].make(frozenset(["no_scale"]))
verdict = bool(gradcheck(unscaled.attention, unscaled.attention_backward, q, k, v))
print("attention without √d_k, forward and backward: gradients agree:", verdict)
print(
    "and its output is right:", np.allclose(unscaled.attention(q, k, v)[0], attention(q, k, v)[0])
)

zero = np.zeros(1)
slope = measured(lambda x: relu(x).sum(), zero)[0]
print(f"relu at 0: measured {slope:.1f}, the library says {relu_backward(np.ones(1), zero)[0]:.1f}")

# %% [markdown]
# At a kink a difference straddles both sides, and finds a slope that belongs to neither. `gradcheck` knows this, and accepts
# anything between the two:


# %%
def sloping(slope):
    """A backward that gives relu this slope."""
    return lambda dy, x: slope * dy


rows = []
for slope in (-1, 0, 0.5, 1, 2):
    verdict = bool(gradcheck(relu, sloping(slope), zero))
    rows.append([f"{slope:g}", "agrees" if verdict else "DIFFERS"])
table("slope of relu at 0 | gradcheck", rows)

# %% [markdown]
# ## The check that a row of zeros passes
#
# Now the question that decides whether a gradient check is worth anything: *of which loss?* The obvious choice is `out.sum()`. Its
# cotangent is all ones. **Predict:** what is the gradient of `softmax(s).sum()` by $s$?

# %%
s = np.random.default_rng(2).standard_normal((3, 4))
show_arrays(ds=measured(lambda s: softmax(s).sum(), s))

# %% [markdown]
# Zero, everywhere: the weights sum to 1 *whatever* the scores are. A backward that returns zeros is right about this
# loss. So let us see who passes the check with a cotangent of ones, and who passes one with a random cotangent: two of the
# library's backwards, and five that would never do. (LayerNorm is chapter 07's: it takes from every row its mean, and divides
# what is left by its standard deviation.)


# %%
def passes(forward, backward, X, u):
    """Is backward(u, X) the gradient of <u, forward(X)>, by nudging X?"""
    return np.allclose(backward(u, X), measured(lambda X: (u * forward(X)).sum(), X), atol=1e-6)


rng = np.random.default_rng(4)
gamma, beta = np.ones(4), np.zeros(4)
keys, values = rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
W, b, tokens = rng.standard_normal((4, 3)), rng.standard_normal(3), rng.standard_normal((5, 4))
counting = ZOO["linear"].make(frozenset(["db_ones"])).linear_backward
no_p = ZOO["softmax"].make(frozenset(["backward_no_p"])).softmax_backward


def norm(x):
    return layer_norm(x, gamma, beta)[0]


def norm_backward(dy, x):
    return layer_norm_backward(dy, *layer_norm(x, gamma, beta)[1:], gamma)[0]


def nothing(u, X):
    return np.zeros_like(X)


def one_key(q):
    return attention(q, keys[:1], values[:1])[0]


contestants = (
    ("softmax: the library's", softmax, lambda u, s: softmax_backward(u, softmax(s)), s),
    ("softmax: ds = 0", softmax, nothing, s),
    ("softmax: ds = dp - Σ dp ⊙ p, without the p ⊙", softmax, lambda u, s: no_p(u, softmax(s)), s),
    ("LayerNorm: the library's", norm, norm_backward, s),
    ("LayerNorm: dx = 0", norm, nothing, s),
    (
        "linear: db = the number of tokens",
        lambda b: linear(tokens, W, b),
        lambda u, b: counting(u, tokens, W)[2],
        b,
    ),
    ("attention with one key: dq = 0", one_key, nothing, tokens),
)
rows = []
for name, forward, backward, X in contestants:
    shape = forward(X).shape
    cotangents = np.ones(shape), np.random.default_rng(6).standard_normal(shape)
    rows.append(
        [name, *("passes" if passes(forward, backward, X, u) else "caught" for u in cotangents)]
    )
table("backward | out.sum() | random cotangent", rows)

# %% [markdown]
# A LayerNorm or a softmax that passes nothing back at all is *right* by `out.sum()`. (LayerNorm's outputs sum to 0 for every
# token, as long as $\gamma$ is the same everywhere.) With a random cotangent nothing can hide behind a sum: a wrong $J$ would
# have to satisfy $J^\top u = J_{\text{right}}^\top u$ for a $u$ it has never seen.
#
# The last line is a different lesson. With *one* key, softmax gives it all the weight, and $dq = dk = 0$ is the truth. A
# test on one token cannot see a wrong $dq$, whatever the cotangent. Neither can a test with as many queries as keys see by its
# shape that a transpose is missing. So: random cotangents, *and* shapes that tell axes apart.
#
# ### Exercise `not_fooled_by_ones` (write the property that kills this bug, ★★★, 12 min)
#
# The linear backward in that table counts tokens and forgets $dy$; `out.sum()` calls it right. Write a test that catches it. You
# are given `linear(x, W, b) -> y` and `linear_backward(dy, x, W) -> dx, dW, db`, and return True where the backward is right,
# False for this one. Do not write the backward a second time: there is a way without, and even one without differences.


# %%
def not_fooled_by_ones(linear, linear_backward):
    """True where linear_backward is the backward of linear."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x, W, b = rng.standard_normal((2, 5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    u = rng.standard_normal((2, 5, 3))
    dx, dW, db = linear_backward(u, x, W)
    # y is linear in each of its arguments, so <u, δy> = <d, δ> holds for large moves as well: no h is needed
    move_x, move_W, move_b = (rng.standard_normal(a.shape) for a in (x, W, b))
    return all(
        np.allclose((u * (moved - linear(x, W, b))).sum(), (gradient * move).sum())
        for moved, gradient, move in (
            (linear(x + move_x, W, b), dx, move_x),
            (linear(x, W + move_W, b), dW, move_W),
            (linear(x, W, b + move_b), db, move_b),
        )
    )
    ### END SOLUTION


# %%
check("not_fooled_by_ones", not_fooled_by_ones)

# %% [markdown]
# ## One number, from the loss to a weight
#
# Last, all of it at work in a model: a small [SASRec](../tinyattn/models/recommenders/sasrec.py) with one block, of five items. (What is
# in it, chapters 06, 07 and 09 will say. Here it is a recommender that attends.) It has seen items 2, 5, 1, and at each place
# it should have named the next. `trace` runs the loss and its backward and keeps
# every intermediate; `follow` takes one number and walks from the loss back to it.
#
# We follow `items[5, 0]`, one entry of item 5's embedding. The model reads that matrix when item 5 comes in, and again,
# transposed, when it scores all items: this is the $W$ of your last repair. **Predict:** which of the two ways carries
# more of the blame?

# %%
rng = np.random.default_rng(0)
network = SASRecNetwork(n_items=5, maxlen=3, dim=4, blocks=1, heads=1, dropout=0.0, objective="ce")
p = tree_map(lambda x: x + 0.5 * rng.standard_normal(x.shape), network.init(rng))
batch = Batch(
    ids=np.array([[2, 5, 1]]),
    slots=np.array([[0, 1, 2]]),
    users=np.array([1]),
    targets=np.array([[5, 1, 3]]),
    weight=np.ones((1, 3)),
)
seen = trace(network, p, batch, backward=True)
followed = seen.follow("items", (5, 0))
followed

# %% [markdown]
# Read it downward: the loss, the logits (a score for every item), and then the road forks. One part is `dE`, from the scores; the rest goes on through the last
# norm, the feed-forward layer, attention's `dq`, `dk` and `dv`, and arrives at the input, as the `dy` of the line that adds the positions. Each line is a gradient
# from this chapter, or of one that follows. A share is $\langle dX, \partial X / \partial w \rangle$, with the gradient from the
# backward and the movement from a nudge; a negative one pulls against the others.
#
# The two ways that end at the embedding add up:

# %%
ways = {"as an input": "Learned.add_backward.dy", "as a score": "ce_backward.dE"}
rows = []
for what, which in ways.items():
    passed = [s.passes for s in followed.stages if f"{s.backward.name}.{s.gradient}" == which]
    rows.append([what, which, passed[-1]])
rows.append(["together", "", sum(row[2] for row in rows)])
rows.append(["backward's gradient of items[5, 0]", "", followed.traced])
rows.append(["measured, by nudging it", "", followed.measured])
table("item 5's entry 0 | where | ∂L/∂w", rows)

# %% [markdown]
# A value that is read twice gets the sum. A backward with the bug of `hasty_tied_backward` would have kept one of the two, and
# called it the gradient.
#
# ## What you can do now
#
# - Derive a backward: let everything move, put $\delta$ into $\langle dY, \delta Y \rangle$, move to the other side.
# - Say why a gradient has its shape, where a transpose comes from, and what a broadcast and a second reading become.
# - Write attention's backward in five lines, and justify each by the forward line it undoes.
# - Find a bug in a backward: one gradient for each intermediate, and the first that differs.
# - Tell a gradient check that means something from one that zeros pass.
#
# | what is often said | what the cells above show |
# |---|---|
# | backpropagation multiplies Jacobians | none is built: softmax's would be $n^3$ numbers, and $p \odot (dp - \sum dp \odot p)$ needs none |
# | more weights to ask, more runs | one backward asks all, for twice the multiplications of the forward's products |
# | the mask must be applied to the gradient, too | the weights remember it: where $p = 0$, $ds = 0$ |
# | $W_Q$, $W_K$, $W_V$ are all learned | the matrices, yes; a bias of the keys receives 0 |
# | the smaller the step, the better the check | best near $10^{-5}$ in float64; at $10^{-15}$ hardly a digit is right |
# | compare the gradients of `out.sum()` | a softmax or LayerNorm that passes nothing back is right by it |
# | gradients agree, so the op is right | attention without $\sqrt{d_k}$ agrees with itself |
#
# Next: [04, masks and what must never leak](04_masks.ipynb). The weights remember the mask; but is it the right one?
