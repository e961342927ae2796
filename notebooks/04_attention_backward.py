# %% [markdown]
# # 04 · Attention backwards
#
# In self-attention a token does three things at once. It asks, as a query; it is compared, as a key; it passes something on, as a
# value. Now the loss is a little too large. **How does the gradient find its way back to the token, along three paths at once?**
#
# **You need**: attention and its $1/\sqrt{d}$ from [chapter 02](02_scale.ipynb); from [chapter 03](03_gradients.ipynb) the rule
# $\langle A, BC \rangle = \langle B^\top A, C \rangle$, the backward of softmax, and finite differences.
#
# **You will be able to**:
#
# - derive the backward of attention, each line from the forward line that it undoes;
# - find a bug in a backward, by the first gradient that differs;
# - say how much of a gradient came along which path, and what saturation does to it.

# %% tags=["hide-input"]
import math

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from tinyattn.check import gradcheck
from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.ops import attention, attention_backward, softmax, softmax_backward
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREY, GROUND, ORANGE
from tinyattn.show.views import derivation, mirror


def measured(loss, X, h=1e-6):
    """∂loss/∂X by finite differences, as in chapter 03."""
    dX = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        nudge = np.zeros_like(X)
        nudge[i] = h
        dX[i] = (loss(X + nudge) - loss(X - nudge)) / (2 * h)
    return dX


road(4)

# %% [markdown]
# ## Where does this number come from?
#
# The upper half of the page is attention of three words, from left to right; the lower half is its backward, from right to left. Point at any number, above
# or below: the numbers that it is made of light up, and their sum is written out. **Nudge** moves one number of the forward by a thousandth, and
# compares the change of the loss with the gradient. By the end of the chapter you can derive every line of the lower half.

# %% tags=["hide-input"]
mirror(
    ["cat", "sat", "mat"],
    q=np.array([[0, 2, 0, 0], [3, 0, 2, 0], [1, 2, 0, 0]]),
    k=np.array([[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 1]]),
    v=np.array([[4, 0], [0, 4], [0, -2]]),
    hide=("scale", "heads", "mask"),
    play=True,
)

# %% [markdown]
# ## The map
#
# All of this chapter is in one picture. Read the solid arrows downward: that is the forward, from the tokens $x$ to the loss
# $L$. Read the dashed arrows upward: that is the backward. Beside each stands the gradient that it carries.

# %% tags=["hide-input"]
NODES = {  # name: where its centre is, its width, what it says
    "x": (5.2, 11.0, 1.3, "$x$"),
    "W_q": (0.6, 8.2, 1.1, "$W_q$"),
    "W_k": (4.15, 8.2, 1.1, "$W_k$"),
    "W_v": (7.65, 8.2, 1.1, "$W_v$"),
    "q": (2.45, 8.2, 0.9, "$q$"),
    "k": (5.95, 8.2, 0.9, "$k$"),
    "v": (9.45, 8.2, 0.9, "$v$"),
    "s": (4.2, 5.5, 2.3, r"$s = c\,q\,k^\top$"),
    "p": (4.2, 3.25, 3.3, r"$p = \mathrm{softmax}(s)$"),
    "out": (6.6, 1.0, 2.0, r"$out = p\,v$"),
    "loss": (9.5, 1.0, 1.0, "$L$"),
}
EDGES = (  # from, to, the gradient that comes back, and where its label stands, seen from the middle
    ("x", "q", r"$dq\,W_q^\top$", -0.95, 0.25),
    ("x", "k", r"$dk\,W_k^\top$", -0.9, -0.4),
    ("x", "v", r"$dv\,W_v^\top$", 1.05, 0.3),
    ("W_q", "q", "$dW_q$", -0.93, -0.78),
    ("W_k", "k", "$dW_k$", -0.9, -0.78),
    ("W_v", "v", "$dW_v$", -0.9, -0.78),
    ("q", "s", "$dq$", -0.55, -0.15),
    ("k", "s", "$dk$", 0.55, -0.15),
    ("s", "p", "$ds$", 0.6, 0),
    ("p", "out", "$dp$", -0.55, -0.3),
    ("v", "out", "$dv$", 0.6, -0.1),
    ("out", "loss", r"$d\mathit{out}$", 0, -0.6),
)
with style():
    fig, ax = figure(size=(6.4, 7.4))
    boxes = {}
    for name, (across, up, width, says) in NODES.items():
        fill = {"x": (ORANGE, 0.2), "W": GROUND}.get(name[0], (BLUE, 0.16))
        boxes[name] = FancyBboxPatch(
            (across - width / 2, up - 0.36), width, 0.72, boxstyle="round,pad=0.08", zorder=3
        )
        boxes[name].set(facecolor=fill, edgecolor=GREY)
        ax.add_patch(boxes[name])
        ax.text(across, up, says, ha="center", va="center", fontsize=15, zorder=4)
    for one, other, gradient, right, above in EDGES:
        start, end = (np.array(NODES[name][:2]) for name in (one, other))
        along = (end - start) / np.linalg.norm(end - start)
        aside = 0.13 * np.array([-along[1], along[0]])  # the backward arrow is on its label's side
        if right * aside[0] + above * aside[1] < 0:
            aside = -aside
        for a, b, shift, colour, line in (
            (one, other, -aside, BLUE, "-"),
            (other, one, aside, ORANGE, "--"),
        ):
            points = (np.array(NODES[name][:2]) + shift for name in (a, b))
            ends = {"patchA": boxes[a], "patchB": boxes[b], "shrinkA": 2, "shrinkB": 3}
            look = {"arrowstyle": "-|>", "mutation_scale": 15, "linewidth": 1.8}
            arrow = FancyArrowPatch(*points, linestyle=line, color=colour, **ends, **look)
            ax.add_patch(arrow)
        at = (start + end) / 2 + (right, above)
        ax.text(*at, gradient, ha="center", va="center", fontsize=15, color=ORANGE)
    total = r"$dx = dq\,W_q^\top + dk\,W_k^\top + dv\,W_v^\top$"
    ax.text(5.2, 11.85, total, ha="center", fontsize=15, color=ORANGE)
    for up, colour, line, says in ((2.1, BLUE, "-", "forward"), (1.5, ORANGE, "--", "backward")):
        ax.plot([0.0, 0.9], [up, up], line, color=colour, linewidth=1.8)
        ax.text(1.05, up, says, va="center", fontsize=14)
    ax.set(xlim=(-0.1, 10.2), ylim=(0.0, 12.3), aspect="equal")
    ax.axis("off")
show_figure(
    fig,
    "graph",
    "Attention as a graph: x gives q, k and v; q and k give s, then p; p and v give out, then the loss L. Beside "
    "each arrow one leads back: dout from L, dp and dv from out, ds from p, dq and dk from s; three paths add up to dx",
)

# %% [markdown]
# Two rules of chapter 03 are enough to fill it in:
#
# 1. An operation turns the gradient of its output into one gradient for each of its inputs.
# 2. Where several arrows leave a box, their gradients are added on the way back. Three leave $x$.
#
# **Predict:** which gradients must be known before $dq$ can be computed?
#
# <details><summary>Answer</summary>
#
# $d\mathit{out}$, $dp$ and $ds$: those below it on its path. $dv$ and $dk$ lie beside that path, not on it.
#
# </details>
#
# ## The forward, with a name for everything
#
# Three tokens of $D = 4$ entries, and one head of width $d = 2$:

# %%
rng = np.random.default_rng(9)
x = rng.standard_normal((3, 4))  # (n, D)
W_q, W_k, W_v = rng.standard_normal((3, 4, 2)) / 2  # (D, d) each
target = rng.standard_normal((3, 2))
c = 1 / math.sqrt(2)

q, k, v = x @ W_q, x @ W_k, x @ W_v  # (n, D) @ (D, d) -> (n, d)
s = c * q @ k.T  # (n, d) @ (d, n) -> (n, n)
p = softmax(s)  # (n, n)
out = p @ v  # (n, n) @ (n, d) -> (n, d)
loss = ((out - target) ** 2).sum() / 2
print("the library's out is the same:", np.allclose(out, attention(q, k, v)[0]))
show_arrays(q=q, s=s, p=p, out=out, loss=loss)

# %% [markdown]
# The page below has these numbers, and the gradients that this chapter derives. **Predict:** you turn one number of `dout`, in the row of token 1.
# Which of `p`, `out`, `dp`, `ds`, `dq`, `dk` and `dv` move, and in which rows?

# %%
# your turn: drag a number of dout
mirror(["token 0", "token 1", "token 2"], q=q, k=k, v=v, dout=out - target, hide=("heads", "mask"))

# %% [markdown]
# <details><summary>Answer</summary>
#
# `p` and `out` do not move: the forward made them. In `dp`, `ds` and `dq` only row 1 moves, which belongs to token 1's query. In `dk` and `dv` all rows
# move, since token 1 looked at all tokens. The page rings what moved.
#
# </details>
#
# ## Backward, line by line
#
# We go from the last line to the first, and follow the recipe of chapter 03: let the inputs of a line change, put the change into
# $\langle\,,\rangle$, and move matrices over.
#
# **The loss.** $L = \tfrac12 \lVert out - \text{target} \rVert^2$ gives $d\mathit{out} = out - \text{target}$.
#
# **out = p v.** Both factors change. Step through it with the arrow keys; $p$, $v$ and $d\mathit{out}$ are the arrays above.

# %% tags=["hide-input"]
derivation("product", p=p, v=v, dout=out - target)

# %% [markdown]
# So $dp = d\mathit{out}\,v^\top$ and $dv = p^\top d\mathit{out}$. Read them. $dp_{ij} = d\mathit{out}_i \cdot v_j$ says whether the loss
# grows if query $i$ takes more of value $j$. And $dv_j = \sum_i p_{ij}\,d\mathit{out}_i$: the gradient of value $j$ collects from every
# query, in proportion to how much of it the query took.
#
# **p = softmax(s).** You have this one: $ds = p \odot (dp - \sum_j p_j\,dp_j)$, row by row. ($\odot$ multiplies entry by entry.)

# %%
dout = out - target
dp = dout @ v.T  # (n, d) @ (d, n) -> (n, n)
dv = p.T @ dout  # (n, n) @ (n, d) -> (n, d)
ds = yours("my_softmax_backward")(dp, p)
show_arrays(dout=dout, dv=dv, dp=dp, ds=ds)

# %% [markdown]
# **s = c q kᵀ** is left for you.
#
# ### Exercise `my_attention_backward` (derive the backward, ★★★, 15 min)
#
# Derive $dq$ and $dk$, then write all of it: $dv$, $dp$, $ds$, $dq$, $dk$, a line each. You are given `dout`, the inputs, and
# the attention weights `p` that the forward returned. There may be leading axes, as in (batch, n, d): `.T` would turn
# them, too, and `swapaxes(-1, -2)` turns only the last two.


# %%
def my_attention_backward(dout, q, k, v, p):
    """Shapes: dout (..., n, e), q (..., n, d), k (..., m, d), v (..., m, e), p (..., n, m)
    -> dq, dk, dv like q, k, v.
    """
    ### BEGIN SOLUTION
    c = 1 / math.sqrt(q.shape[-1])
    dv = p.swapaxes(-1, -2) @ dout  # out = p v
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))  # p = softmax(s)
    dq = c * ds @ k  # s = c q kᵀ
    dk = c * ds.swapaxes(-1, -2) @ q
    return dq, dk, dv
    ### END SOLUTION


# %%
check("my_attention_backward", my_attention_backward)

# %% [markdown]
# When yours is right, open [`tinyattn/ops/attention/attention.py`](../tinyattn/ops/attention/attention.py): `attention_backward` has these five lines, and
# options of later chapters.
#
# The average that softmax's backward subtracts can be computed without $dp$, since
#
# $$
# \begin{aligned}
# \sum_j p_{ij}\,dp_{ij} &= \sum_j p_{ij}\,(d\mathit{out}_i \cdot v_j) \\
# &= d\mathit{out}_i \cdot \sum_j p_{ij}\,v_j = d\mathit{out}_i \cdot out_i .
# \end{aligned}
# $$
#
# Keep this in mind: it is what lets a backward go through the keys piece by piece, in [chapter 18](18_cheaper.ipynb).

# %%
show_arrays(sum_p_dp=(p * dp).sum(axis=1), dout_times_out=(dout * out).sum(axis=1), decimals=4)

# %% [markdown]
# What does a backward cost? A product forward has two factors, and each needs a product of the same size backward. So the backward of
# attention, as of most networks, does about twice the multiplications of its forward, however many weights there are.
#
# ## The first gradient that differs
#
# With one gradient for each intermediate, each can be checked alone: nudge *that* intermediate, recompute only what comes
# after it, and compare.


# %%
def loss_from(q=q, k=k, v=v, s=None, p=None, out=None):
    """The loss; an intermediate that is given is taken as it is, what comes after it is computed."""
    if s is None:
        s = c * q @ k.T
    if p is None:
        p = softmax(s)
    if out is None:
        out = p @ v
    return ((out - target) ** 2).sum() / 2


def gradients(softmax_backward):
    """All gradients, in the order in which the backward computes them."""
    ds = softmax_backward(dp, p)
    dq = c * ds @ k
    dk = c * ds.T @ q
    return {"dout": dout, "dv": dv, "dp": dp, "ds": ds, "dq": dq, "dk": dk}


def without_the_sum(dp, p):  # a bug: softmax's row sum is forgotten
    return p * dp


right = gradients(softmax_backward)
wrong = gradients(without_the_sum)
nudged = {
    "dout": measured(lambda X: loss_from(out=X), out),
    "dv": measured(lambda X: loss_from(v=X), v),
    "dp": measured(lambda X: loss_from(p=X), p),
    "ds": measured(lambda X: loss_from(s=X), s),
    "dq": measured(lambda X: loss_from(q=X), q),
    "dk": measured(lambda X: loss_from(k=X), k),
}
rows = []
for name, by_nudging in nudged.items():
    row = [name, str(by_nudging.shape)]
    for found in (right[name], wrong[name]):
        agree = np.allclose(found, by_nudging, atol=1e-6)
        row.append("agrees" if agree else "DIFFERS")
    rows.append(row)
table("gradient | shape | right | with a bug in softmax's backward", rows)

# %% [markdown]
# The bug is in one line, and three gradients differ: an error is passed on to everything that is computed from it. So read such a list
# in the order of the backward. **The first gradient that differs is where the bug is.** This is how to debug any backward.
#
# Here is one path of the map in numbers: forward in the upper row, backward in the lower. Every gradient has the shape of the
# array above it. One scale of colours serves all eight, violet below 0 and orange above.

# %% tags=["hide-input"]
COLUMNS = (
    ("q", q, right["dq"], r"$c\,q\,k^\top$", r"$c\,ds\,k$"),
    ("s", s, right["ds"], "softmax", "softmax\nbackward"),
    ("p", p, right["dp"], r"$p\,v$", r"$d\mathit{out}\,v^\top$"),
    ("out", out, right["dout"], "", ""),
)
with style():
    fig, axes = figure(
        2, 4, size=(8.2, 4.6), width_ratios=(2, 3, 3, 2), gridspec_kw={"wspace": 0.5}
    )
    limit = max(np.abs(array).max() for _, *both, _, _ in COLUMNS for array in both)
    for column, (name, value, gradient, *_) in zip(axes.T, COLUMNS, strict=True):
        for ax, array, label in ((column[0], value, name), (column[1], gradient, f"d{name}")):
            ax.imshow(array, cmap="PuOr_r", vmin=-limit, vmax=limit)
            for i, j in np.ndindex(array.shape):
                colour = "white" if abs(array[i, j]) > 0.6 * limit else "black"
                shown = f"{round(array[i, j], 1) + 0.0:.1f}"
                ax.text(j, i, shown, ha="center", va="center", color=colour, fontsize=13)
            ax.set(xticks=[], yticks=[])
            ax.set_title(rf"$\mathit{{{label}}}$  {array.shape}", fontsize=13, loc="center")
            ax.spines[:].set_visible(False)
    fig.canvas.draw()  # places the axes, so that arrows can be drawn between them
    fig.set_layout_engine("none")
    for row, direction, line, colour in ((0, "->", "-", BLUE), (1, "<-", "--", ORANGE)):
        for left, other, (*_, forward, backward) in zip(
            axes[row], axes[row][1:], COLUMNS[:3], strict=False
        ):
            one, two = left.get_position(), other.get_position()
            up, gap = (one.y0 + one.y1) / 2, 0.012
            how = {"arrowstyle": direction, "linestyle": line, "color": colour, "linewidth": 2}
            points = {"xy": (two.x0 - gap, up), "xytext": (one.x1 + gap, up)}
            left.annotate("", **points, xycoords="figure fraction", arrowprops=how)
            says = (forward, backward)[row]
            fig.text((one.x1 + two.x0) / 2, up + 0.03, says, ha="center", fontsize=12, color=colour)
show_figure(
    fig,
    "mirror",
    "Above, left to right with solid arrows, q, s, p and out; below, right to left with dashed arrows, dout, dp, ds and dq: "
    "each gradient has the shape of the array above it",
)

# %% [markdown]
# ### Exercise `repaired_backward` (find the bug, ★★☆, 5 min)
#
# This backward has one wrong line. All shapes are right, and so is one of the three gradients; which one it is tells you where to
# look. Write `repaired_backward`.


# %%
def buggy_backward(dout, q, k, v, p):
    """Gradients of attention(q, k, v) -> dq, dk, dv."""
    c = 1 / math.sqrt(q.shape[-1])
    dv = p.swapaxes(-1, -2) @ dout
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - dp.mean(axis=-1, keepdims=True))
    dq = c * ds @ k
    dk = c * ds.swapaxes(-1, -2) @ q
    return dq, dk, dv


# %%
def repaired_backward(dout, q, k, v, p):
    """Gradients of attention(q, k, v) -> dq, dk, dv."""
    ### BEGIN SOLUTION
    c = 1 / math.sqrt(q.shape[-1])
    dv = p.swapaxes(-1, -2) @ dout
    dp = dout @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))  # the mean is weighted by p
    dq = c * ds @ k
    dk = c * ds.swapaxes(-1, -2) @ q
    return dq, dk, dv
    ### END SOLUTION


# %%
check("repaired_backward", repaired_backward)

# %% [markdown]
# ## Three paths meet at x
#
# The top of the map is left. $x$ is used three times, so $\delta L$ has three terms, and each is a linear map of chapter 03:
#
# $$
# \begin{aligned}
# \delta L &= \langle dq,\, \delta x\,W_q \rangle + \langle dk,\, \delta x\,W_k \rangle + \langle dv,\, \delta x\,W_v \rangle \\
# \Longrightarrow \quad dx &= dq\,W_q^\top + dk\,W_k^\top + dv\,W_v^\top .
# \end{aligned}
# $$
#
# The matrices get $dW_q = x^\top dq$, and likewise for the other two. The whole backward of self-attention:


# %%
def self_attention(x, W_q, W_k, W_v):
    q = x @ W_q
    k = x @ W_k
    v = x @ W_v
    s = q @ k.T / math.sqrt(q.shape[1])
    p = softmax(s)
    out = p @ v
    return out, q, k, v, p


def self_attention_backward(dout, x, W_q, W_k, W_v, q, k, v, p):
    c = 1 / math.sqrt(q.shape[1])
    dv = p.T @ dout  # out = p v
    dp = dout @ v.T
    ds = softmax_backward(dp, p)  # p = softmax(s)
    dq = c * ds @ k  # s = c q kᵀ
    dk = c * ds.T @ q
    dx = dq @ W_q.T + dk @ W_k.T + dv @ W_v.T  # q = x W_q, k = x W_k, v = x W_v
    return dx, x.T @ dq, x.T @ dk, x.T @ dv


bool(gradcheck(self_attention, self_attention_backward, x, W_q, W_k, W_v))

# %% [markdown]
# Now follow one number. `trace` runs a forward and a backward and keeps every intermediate. `follow` takes one entry of one input,
# here $w = x_{00}$, the first entry of token 0, and lists the gradients on its way to the loss. For each it computes $\langle dX, \partial X / \partial w
# \rangle$, the part of $\partial L / \partial w$ that passes there, as its `share` in percent. At 100 % the whole effect of $w$ on the loss
# passes through $X$; at less, a part takes another path. (The first line of the output counts
# the intermediates of the forward that change with $w$; here all do. The two columns of norms say how long $dX$ is, and how fast $X$ moves
# with $w$.)
#
# **Predict:** the parts of `dq`, `dk` and `dv` are given in percent. What do the three add up to? Can one be negative?

# %% tags=["hide-output"]
seen = trace(self_attention, x, W_q, W_k, W_v, backward=self_attention_backward, dout=out - target)
seen.follow("x", (0, 0))

# %% [markdown]
# <details><summary>Answer</summary>
#
# They add up to 100 %, and a part may be negative: along one path a larger $w$ would lower the loss, along another it would raise
# it. Everything passes through `dout`. What does not come through `dv` comes through `dp` and `ds`, and there it splits into `dq` and `dk`.
#
# </details>
#
# The same run, step by step. The arrow keys go forward and then backward; choose a number of `x`, and all that moves with it is marked.
# Choose one of a gradient: the page lists what it was made of, and writes out its sum.

# %%
seen.player(title="Self-attention, forward and backward")

# %% [markdown]
# ### Exercise `repaired_tied_backward` (find the bug, ★★☆, 8 min)
#
# A matrix can be used twice as well. A recommender often has one matrix that reads items and, transposed, scores them. Leave out what
# lies between the two uses, and $y = (x W)\,W^\top$. Every line of this backward says which forward line it undoes, and each is right.
# But the gradients that it returns are not. Write `repaired_tied_backward`.


# %%
def tied(x, W):
    """Shapes: x (..., i), W (i, o) -> y (..., i)."""
    h = x @ W  # (..., o)
    return h @ W.T


def buggy_tied_backward(dy, x, W):
    """Gradients of tied(x, W) -> dx (..., i), dW (i, o)."""
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])  # all tokens
    dW = dY.T @ (X @ W)  # y = h Wᵀ, by W
    dh = dY @ W  # y = h Wᵀ, by h
    dW = X.T @ dh  # h = x W, by W
    dx = dh @ W.T  # h = x W, by x
    return dx.reshape(x.shape), dW


# %%
def repaired_tied_backward(dy, x, W):
    """Gradients of tied(x, W) -> dx (..., i), dW (i, o)."""
    ### BEGIN SOLUTION
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])
    dW = dY.T @ (X @ W)
    dh = dY @ W
    dW = dW + X.T @ dh  # W is used twice
    dx = dh @ W.T
    return dx.reshape(x.shape), dW
    ### END SOLUTION


# %%
check("repaired_tied_backward", repaired_tied_backward)

# %% [markdown]
# ## What saturation does to the gradient
#
# Chapter 02 left a sentence open: *without the division by $\sqrt{d}$, gradients vanish.* Now we can measure it. A thousand random
# queries, each with 16 random keys, with the division and without; a random gradient comes in at $p$. How much arrives at the
# logits, as $ds$? And at the queries, as $dq = c\,ds\,k$?
#
# **Predict:** undivided, at $d = 1024$, most rows are saturated. Is the *mean* of $\lVert dq \rVert$ smaller than with the
# division?


# %% tags=["hide-output"]
def norms(d, c, queries=1000):
    """‖ds‖ and ‖dq‖ of every query, for logits c q kᵀ over 16 keys."""
    rng = np.random.default_rng(d)
    q, k = rng.standard_normal((queries, 1, d)), rng.standard_normal((queries, 16, d))
    p = softmax(c * q @ k.swapaxes(-1, -2))  # (queries, 1, 16)
    ds = softmax_backward(rng.standard_normal(p.shape), p)
    return (np.linalg.norm(a, axis=(-2, -1)) for a in (ds, c * ds @ k))


DIMS = (4, 16, 64, 256, 1024)
FORMS = {"undivided": lambda d: 1.0, "divided by √d": lambda d: 1 / math.sqrt(d)}
found = {(name, d): [*norms(d, c(d))] for name, c in FORMS.items() for d in DIMS}
rows = []
for (name, d), (ds_norms, dq_norms) in found.items():
    rows.append([name, d, np.median(ds_norms), np.median(dq_norms), dq_norms.mean()])
table("logits | d | median ‖ds‖ | median ‖dq‖ | mean ‖dq‖", rows, digits=2)

# %% tags=["hide-cell"]
with style():
    fig, (left, right) = figure(1, 2, size=(7.4, 3.6), sharey=True)
    for name, colour, marker in (("undivided", ORANGE, "s"), ("divided by √d", BLUE, "o")):
        ds_norms, dq_norms = zip(*(found[name, d] for d in DIMS), strict=True)
        look = {"color": colour, "marker": marker}
        left.plot(DIMS, [np.median(a) for a in ds_norms], "-", label=name, **look)
        right.plot(DIMS, [a.mean() for a in dq_norms], "--", label=f"mean, {name}", **look)
        right.plot(DIMS, [np.median(a) for a in dq_norms], "-", label=f"median, {name}", **look)
    left.set_title(r"at the logits: median $\Vert ds \Vert$", fontsize=12)
    right.set_title(r"at the queries: $\Vert dq \Vert$", fontsize=12)
    for ax in (left, right):
        ax.set(xscale="log", yscale="log", xlabel="$d$")
        ax.set_xticks(DIMS, [str(d) for d in DIMS])
        ax.minorticks_off()
        ax.legend(loc="lower left", fontsize=10)
show_figure(
    fig,
    "saturation",
    "Without the division the median of ds and that of dq fall steeply as d grows, while the mean of dq stays "
    "above the divided one; with the division mean and median are level",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# No: it does not fall, and is several times the divided one. So the sentence is half true. Undivided, the gradient of the *typical* query
# vanishes: from $d = 16$ to $1024$ the median of $\lVert dq \rVert$ falls a thousandfold. The few queries that hesitate between two keys
# become rarer, in proportion to $1/\sqrt d$, and what each of them receives grows with $\sqrt d$, since $k$ has more entries. So the
# matrices do get a gradient; it comes from a few queries and misses the rest. Divided, mean and median agree, and from $d = 16$ on neither depends on $d$.
#
# </details>
#
# ## A bias of the keys
#
# ### Exercise `key_bias_gradient` (predict the number, ★★☆, 4 min)
#
# Many models add the same vector to every key, a *bias*: $k = x W_k + b_k$, and learn it. Take six tokens, random matrices and a squared
# error. How large is $\lVert db_k \rVert$, the norm of the gradient of $b_k$?

# %%
### BEGIN SOLUTION
key_bias_gradient = 0
### END SOLUTION

# %%
check("key_bias_gradient", key_bias_gradient)

# %% [markdown]
# ## Where the output does not change
#
# In a direction in which the output does not change, the gradient is 0. Chapter 03 showed it for adding a number to a row of logits, and you
# have just met another such direction. Attention has more, and each of them makes a test.
#
# ### Exercise `same_for_keys_and_queries` (write the property that kills this bug, ★★★, 10 min)
#
# In this bug $dk$ lacks the factor $c$: the shapes are right, and a model with it would train, somewhat. Write a test that finds it, and
# that finds the same mistake in $dq$, too, without finite differences and without the backward written again. You are given
# `attention(q, k, v) -> out, p` and `attention_backward(dout, q, k, v, p) -> dq, dk, dv, ...` (the library's returns one thing more, for a
# later chapter). Start from this: what happens to the output if every query is doubled and every key halved? With finite
# differences `gradcheck` finds it, too:

# %%
with_the_bug = buggy("same_for_keys_and_queries")  # attention, attention_backward
print("the library's:", bool(gradcheck(attention, attention_backward, q, k, v)))
print("with the bug: ", bool(gradcheck(*with_the_bug, q, k, v)))

# %% [markdown]
# `same_for_keys_and_queries(*with_the_bug)` should be False, and `same_for_keys_and_queries(attention, attention_backward)` True.


# %%
def same_for_keys_and_queries(attention, attention_backward):
    """True where dq and dk fit together."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
    out, p = attention(q, k, v)
    dq, dk, *_ = attention_backward(rng.standard_normal(out.shape), q, k, v, p)
    # q becomes (1 + t) q, k becomes k / (1 + t): nothing moves, so <dq, q> - <dk, k> = 0
    return np.allclose((dq * q).sum(), (dk * k).sum())
    ### END SOLUTION


# %%
check("same_for_keys_and_queries", same_for_keys_and_queries)

# %% [markdown]
# | what is often said | what the cells above show |
# |---|---|
# | without $\sqrt{d}$ gradients vanish | the median query's do; the mean does not fall, but comes from ever fewer queries |
# | queries, keys and values are all learned | the matrices are; a bias of the keys gets a gradient of 0 |
#
# ## In five lines
#
# - Attention's backward is five lines: $dv = p^\top d\mathit{out}$, $dp = d\mathit{out}\,v^\top$, softmax's $ds$, $dq = c\,ds\,k$, $dk = c\,ds^\top q$.
# - Each line undoes one forward line, and the first gradient that differs shows where the bug is.
# - What is used several times gets a sum: the gradients of three paths add up at $x$.
# - In a saturated row $ds$ is nearly 0: without $1/\sqrt d$ a few queries get most of the gradient.
# - In a direction in which the output does not change the gradient is 0: this gives tests without any calculus.
#
# To read: D. Rumelhart, G. Hinton and R. Williams,
# [Learning representations by back-propagating errors](https://www.nature.com/articles/323533a0) (1986), which made networks learn this way.
# Next: [05, masks and what must never leak](05_masks.ipynb). How do you forbid a query to look, and prove that it did not?
