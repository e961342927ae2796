# %% [markdown]
# # 03 · Gradients
#
# A network has answered, and the answer is a little wrong. It has a million weights. **Which way should each of them move, and
# which of them matter most?** (Weights here are the entries of matrices such as $W_q$, which a model learns. Attention weights $p$ are
# always called so below.)
#
# You could try each one: nudge it, run the network again, and see whether the loss falls. With a million weights that takes
# two million runs. A forward and a backward pass find the same million numbers for the price of about three runs. In this chapter you derive
# the backward of the two operations inside attention, the matrix product and softmax. In chapter 04 you put them together.
#
# **You need**: matrix products, the derivative of a function of one number, and softmax from [chapter 01](01_soft_lookup.ipynb).
#
# **You will be able to**:
#
# - say what a gradient is, and why it has the shape it has;
# - derive the backward of a linear map and of softmax on paper, and write both;
# - check a gradient by finite differences, and tell a check that means something from one that does not.

# %% tags=["hide-input"]
import numpy as np

from tinyattn.check import gradcheck
from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.ops import linear, linear_backward, softmax, softmax_backward
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE
from tinyattn.show.views import derivation, mirror

road(3)

# %% [markdown]
# ## Turn it first
#
# A linear map above, its backward below: `dy` says how fast the loss moves with each output, and `dx` and `dW` say the same of each input and each weight.
# Point at a number to see which numbers it is made of. Choose an entry of `W` and press **Nudge**: its gradient in `dW` predicts how the loss changes.

# %% tags=["hide-input"]
mirror(["token 0", "token 1"], "linear", seed=3, title="A linear map and its backward")

# %% [markdown]
# ## Nudge one number, watch the loss
#
# Here is the smallest network there is: two tokens with three entries each, one matrix $W$, and two outputs for each token. It should
# have answered `target`; it answered `y`. The loss $L$ is half the sum of the squared errors.

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
# Take one weight. Move it up by a small $h$, move it down by $h$, and divide the difference of the two losses by $2h$. This is
# how fast the loss moves with that weight: the derivative $\partial L / \partial W_{01}$.

# %%
h = 1e-6
nudge = np.zeros_like(W)
nudge[0, 1] = h
print(f"{(loss_of(W + nudge) - loss_of(W - nudge)) / (2 * h):.4f}")


# %% [markdown]
# Now do it for every weight:


# %%
def measured(loss, X, h=1e-6):
    """∂loss/∂X: every entry of X nudged both ways. As many numbers as X has, in the same places."""
    dX = np.zeros_like(X)
    for i in np.ndindex(X.shape):
        nudge = np.zeros_like(X)
        nudge[i] = h
        dX[i] = (loss(X + nudge) - loss(X - nudge)) / (2 * h)
    return dX


dW = measured(loss_of, W)
show_arrays(W=W, dW=dW)

# %% [markdown]
# These six numbers are the **gradient** of the loss with respect to $W$. From here to the last chapter, **$dX$ means $\partial L / \partial X$, an
# array shaped like $X$**: it holds one number for each entry of $X$.
#
# Where an entry of `dW` is positive, a larger weight means a larger loss, so that weight should become smaller. Take a
# small step against the gradient, and the network is less wrong:

# %%
rows = [[f"{step:g}", loss_of(W - step * dW)] for step in (0, 0.01, 0.1)]
table("step: W becomes W - step · dW | loss", rows)

# %% [markdown]
# Training is this, repeated. What does not work for a real network is the way we got `dW`: it took two runs for each weight.
#
# ## The chain rule, for arrays
#
# A network is a chain of operations. Suppose that one of them computes $Y = f(X)$, and that the rest of the network computes $L$ from $Y$. If
# we already know $dY$, what is $dX$? The function that computes $dX$ from $dY$ is called the **backward** of $f$; $f$ itself is its
# **forward**. For single numbers the chain rule answers: $\frac{\partial L}{\partial x} =
# \frac{\partial L}{\partial y} \frac{\partial y}{\partial x}$. For arrays we need two symbols to say the same.
#
# Let $\delta X$ be a small change of $X$. Let $\langle A, B \rangle = \sum_{ij} A_{ij} B_{ij}$ be the sum of the products of two
# arrays of the same shape, entry by entry. Each entry of $X$ changes the loss at its own rate, and small changes add up:
#
# $$\delta L = \langle dX, \delta X \rangle = \langle dY, \delta Y \rangle .$$
#
# Both say what happens to the same loss, once in terms of $X$ and once in terms of $Y$. That gives a recipe for every
# backward:
#
# 1. write $\delta Y$ in terms of $\delta X$;
# 2. put it into $\langle dY, \delta Y \rangle$, where $dY$, the *upstream gradient*, is known;
# 3. rearrange until it reads $\langle \text{something}, \delta X \rangle$. That something is $dX$.
#
# For step 3 you need one rule, which moves a matrix to the other side:
#
# $$\langle A,\; B\,C \rangle \;=\; \langle B^\top A,\; C \rangle \;=\; \langle A\,C^\top,\; B \rangle .$$
#
# All three are the same sum. Step through it with the arrow keys: terms move, the arrays change, and their total stays. **Every
# transpose in a backward comes from here.**

# %% tags=["hide-input"]
derivation("rule")

# %% [markdown]
# ## A linear map, on paper
#
# $y = x W + b$, with tokens as rows. Change all three a little. The product of two small changes is smaller still, and is left out:
#
# $$\delta y = \delta x\,W + x\,\delta W + \delta b \quad\text{in every row.}$$
#
# Put the first term into $\langle dy, \delta y \rangle$ and move $W$ over:
#
# $$\langle dy,\; \delta x\,W \rangle = \langle dy\,W^\top,\; \delta x \rangle
# \qquad\Longrightarrow\qquad dx = dy\,W^\top .$$
#
# The other two terms are yours. Begin with numbers.
#
# ### Exercise `gradient_of_a_weight` (predict the number, ★☆☆, 4 min)
#
# Two tokens went through the same $W$ of shape (3, 2), and this gradient came back:
#
# $$x = \begin{pmatrix} 1 & 2 & 0 \\ 3 & -3 & 1 \end{pmatrix}, \qquad
# dy = \begin{pmatrix} 2 & -1 \\ 0.5 & 1 \end{pmatrix} .$$
#
# What is $dW_{01}$, the gradient of the weight that leads from entry 0 of a token to its output 1? (We count from 0.)

# %%
### BEGIN SOLUTION
gradient_of_a_weight = 2
### END SOLUTION

# %%
check("gradient_of_a_weight", gradient_of_a_weight)

# %% [markdown]
# ### Exercise `my_linear_backward` (derive the backward, ★★☆, 10 min)
#
# Get $\delta W$ and $\delta b$ alone, right of the comma, and write all three gradients. There may be more axes before
# the last, as in (batch, tokens, i): $W$ and $b$ serve every token of every sequence.


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
# ## A value that is used several times
#
# Back to the network of the beginning. From $L = \tfrac12 \lVert y - \text{target} \rVert^2$ follows $dy = y - \text{target}$: the gradient
# of $y$ is the error itself. Both tokens used the same $W$, and each contributes a matrix of its own, the outer product of
# its row of $x$ and its row of $dy$: entry $(i, o)$ is $x_{ti}\,dy_{to}$ for token $t$. `dW` is their sum:

# %%
dy = y - target
dx, dW_derived, db = yours("my_linear_backward")(dy, x, W)
show_arrays(
    dy=dy,
    from_token_0=np.outer(x[0], dy[0]),
    from_token_1=np.outer(x[1], dy[1]),
    dW_derived=dW_derived,
    dW_measured=dW,
)

# %% [markdown]
# The last two agree: twelve runs of the network, or one matrix product.
#
# The rule is general. **A value that is used several times gets the sum of the gradients of its uses**, because $\delta y$ then has
# one term for each use, and $\langle dy, \cdot \rangle$ of a sum is a sum. So whatever was *broadcast* forward (one $b$ for all
# tokens) is *summed* backward.
#
# **Predict:** $y = x W + x$ uses $x$ twice, with a square $W$. What is $dx$?
#
# <details><summary>Answer</summary>
#
# $\delta y = \delta x\,W + \delta x$, so $dx = dy\,W^\top + dy$: one term for each use.
#
# </details>
#
# The library's `gradcheck` does what `measured` does for every input of a forward, and compares with the backward. It also catches
# a forgotten use:


# %%
def twice(x, W):
    return x @ W + x


rng = np.random.default_rng(1)
tokens, square = rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
backwards = {
    "both uses": lambda dy, x, W: (dy @ W.T + dy, x.T @ dy),
    "the first": lambda dy, x, W: (dy @ W.T, x.T @ dy),
    "the second": lambda dy, x, W: (dy, x.T @ dy),
}
rows = []
for name, backward in backwards.items():
    verdict = bool(gradcheck(twice, backward, tokens, square))
    rows.append([name, "agrees" if verdict else "DIFFERS"])
table("dx from | gradcheck", rows)

# %% [markdown]
# ## Softmax, and its Jacobian
#
# One row of logits $s$ becomes attention weights, $p_i = e^{s_i} / \sum_k e^{s_k}$. Logarithms make the quotient a difference:
# $\log p_i = s_i - \log \sum_k e^{s_k}$. Now let $s$ change. The derivative of the last term with respect to $s_k$ is $p_k$, so
#
# $$\frac{\delta p_i}{p_i} = \delta s_i - \sum_k p_k\,\delta s_k
# \qquad\Longrightarrow\qquad \delta p = J\,\delta s, \quad J = \operatorname{diag}(p) - p\,p^\top .$$
#
# $J$ is called the *Jacobian*: $J_{ij} = p_i\,(1[i = j] - p_j)$ is how fast attention weight $i$ moves with logit $j$ ($1[i = j]$ is 1 on the
# diagonal and 0 elsewhere). The diagonal is positive, since raising a logit raises its own attention weight. The rest is negative:
# attention weights sum to 1, so the others shrink.
#
# **Predict:** below are the Jacobians of two rows of attention weights, one undecided, one nearly sure. How large is the
# largest entry of the second?

# %% tags=["hide-output"]
undecided = np.array([0.4, 0.3, 0.3])
sure = np.array([0.998, 0.001, 0.001])
show_arrays(
    J_undecided=np.diag(undecided) - np.outer(undecided, undecided),
    J_sure=np.diag(sure) - np.outer(sure, sure),
    decimals=3,
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 0.002. As soon as one attention weight is near 1, every entry of $J$ is a product with a factor near 0. This is the saturated row that
# you nudged in chapter 02, in one formula: its logits move, its attention weights hardly do. And backward, hardly any gradient passes:
# chapter 04 measures what follows.
#
# </details>
#
# The recipe gives the backward at once. $\langle dp, J\,\delta s \rangle = \langle J^\top dp, \delta s \rangle$, and $J$ is
# symmetric, so
#
# $$ds = J\,dp .$$
#
# This is a right answer, and an expensive one. Every row of attention weights has a $J$ of its own, and with $n$ queries and
# $n$ keys one $J$ has as many entries as all attention weights together:

# %%
rows = []
for n in (16, 128, 1024, 8192):
    rows.append([n, f"{8 * n**2 / 1e6:.3f} MB", f"{8 * n**3 / 1e9:,.5f} GB"])
table("n queries and n keys | attention weights | the Jacobians of all rows", rows)

# %% [markdown]
# At 1,024 tokens that is 8.6 GB, each $J$ built only to be multiplied by one vector. So do the multiplication on paper.
#
# ### Exercise `my_softmax_backward` (derive the backward, ★★☆, 10 min)
#
# Write $ds$ from $dp$ and $p$. `dp` and `p` have shape (..., m), and softmax went along the last axis. Loops and Jacobians count
# as right; there is a form that needs only $p$, $dp$ and one number for each row.


# %%
def my_softmax_backward(dp, p):
    """Shapes: dp, p (..., m) -> ds (..., m)."""
    ### BEGIN SOLUTION
    average = (dp * p).sum(axis=-1, keepdims=True)  # (..., 1): Σ_k dp_k p_k, the same for all keys
    return p * (dp - average)
    ### END SOLUTION


# %%
check("my_softmax_backward", my_softmax_backward)

# %% [markdown]
# When yours is right, compare the steps:

# %% tags=["hide-cell"]
derivation("softmax")

# %% [markdown]
# <details><summary>When yours is right: what the formula says</summary>
#
# $ds = p \odot (dp - \sum_k p_k\,dp_k)$, where $\odot$ multiplies entry by entry. The sum is the *average* of $dp$, weighted as this
# query weights its keys. A key whose $dp$ is above the average makes the loss larger than the others do, so its $ds$ is
# positive, and a step against the gradient lowers its logit. Below the average, the logit is raised. And the factor $p$ says that
# a key without attention weight gets no gradient.
#
# </details>
#
# Here it is on three rows of four logits. **Predict:** what do the entries of each row of `ds` add up to?

# %% tags=["hide-output"]
rng = np.random.default_rng(1)
s, dp = rng.standard_normal((2, 3, 4))  # 3 queries, 4 keys
p = softmax(s)
ds = yours("my_softmax_backward")(dp, p)
ds_by_jacobian = np.stack([(np.diag(p[i]) - np.outer(p[i], p[i])) @ dp[i] for i in range(3)])
print("same as with Jacobians:", np.allclose(ds, ds_by_jacobian))
show_arrays(p=p, dp=dp, ds=ds, sum_of_row=ds.sum(axis=-1, keepdims=True))

# %% [markdown]
# <details><summary>Answer</summary>
#
# To 0. Raising all logits of a row by the same amount changes no attention weight, so the loss cannot move.
#
# </details>
#
# A rule stands behind it: **in a direction in which the output does not change, the gradient is 0.** It catches bugs without any
# calculus.
#
# Step through it: right and left arrows go forward, then backward. Choose an entry of `s`: what moves with it is marked, and its gradient
# is shown beside one by nudging. Choose an entry of `ds`: what it was made of is listed.

# %%
trace(softmax, s[:2], backward=softmax_backward, dp=dp[:2]).player(
    title="Softmax of two rows, forward and backward"
)

# %% [markdown]
# ## How far can you trust a nudge?
#
# Finite differences are an instrument, and an instrument has errors. This one has two. With a *large* step the loss is not a
# straight line between the two nudges. By Taylor's theorem,
#
# $$\frac{L(x + h) - L(x - h)}{2h} = L'(x) + \frac{h^2}{6} L'''(x) + \dots$$
#
# With a *small* step rounding takes over. In float64 the loss is known to a relative $\varepsilon \approx 10^{-16}$. The two losses
# are nearly equal, so their difference keeps that error while almost everything else cancels; dividing by $h$ makes it $\varepsilon / h$.
#
# ### Exercise `best_step` (predict the number, ★★☆, 5 min)
#
# In float64 the error is smallest for a step of about $h = 10^{k}$. Which whole number is $k$? (Where do
# $h^2$ and $\varepsilon / h$ meet?)

# %%
### BEGIN SOLUTION
best_step = -5
### END SOLUTION

# %%
check("best_step", best_step)

# %% [markdown]
# The picture shows the error at every step, for $L = \langle u, \operatorname{softmax}(s) \rangle$ with a fixed random $u$. It compares
# with the backward that you derived; both axes are logarithmic.

# %% tags=["hide-input"]
EXPONENTS = np.arange(-15, 0.1, 0.5)


def errors_of_steps(dtype, both_ways=True):
    """The error of differences at each step 10^exponent, for inputs and losses that are rounded to this dtype.

    The loss is computed with digits to spare and then rounded, so that this rounding is the only one.
    """
    rng = np.random.default_rng(1)
    s, u = rng.standard_normal((2, 4, 8))
    derived = softmax_backward(u, softmax(s))
    s, u = (a.astype(dtype).astype(np.longdouble) for a in (s, u))

    def loss(s):
        e = np.exp(s - s.max(axis=1, keepdims=True))
        return float(dtype((u * e / e.sum(axis=1, keepdims=True)).sum()))

    errors = []
    for h in 10.0**EXPONENTS:
        slopes = np.zeros(s.shape)
        for i in np.ndindex(s.shape):
            up, down = s.copy(), s.copy()
            up[i] = dtype(s[i] + h)
            down[i] = dtype(s[i] - h) if both_ways else s[i]
            slopes[i] = (loss(up) - loss(down)) / (2 * h if both_ways else h)
        errors.append(np.median(np.abs(slopes - derived)) / np.abs(derived).max())
    return np.array(errors)


curves = {
    "float64, both ways": errors_of_steps(np.float64),
    "float64, one way": errors_of_steps(np.float64, both_ways=False),
    "float32, both ways": errors_of_steps(np.float32),
}
with style():
    fig, ax = figure(size=(7.0, 4.2))
    looks = ((BLUE, "-", "o"), (GREEN, ":", "^"), (ORANGE, "--", "s"))
    for (name, errors), (colour, line, marker) in zip(curves.items(), looks, strict=True):
        h = 10.0**EXPONENTS
        ax.plot(h, errors, line, marker=marker, markersize=4, color=colour, label=name)
    h = np.array([1e-4, 1e-1])
    ax.plot(h, 2e-4 * h**2, color=GREY, linewidth=0.8)
    ax.text(4e-3, 1e-10, r"$\propto h^2$", color=GREY, fontsize=12)
    h = np.array([1e-14, 3e-6])
    ax.plot(h, 1e-18 / h, color=GREY, linewidth=0.8)
    ax.text(1e-13, 3e-8, r"$\propto \varepsilon / h$", color=GREY, fontsize=12)
    ax.set(xscale="log", yscale="log", ylim=(1e-14, 3))
    ax.set_xlabel("step $h$", fontsize=12)
    ax.set_title("error of a finite difference / largest entry of the gradient", fontsize=12)
    ax.tick_params(labelsize=11)
    ax.legend(loc="lower left", fontsize=11)
show_figure(
    fig,
    "steps",
    "Error against step: a V, lowest near 1e-5 in float64, higher with one-sided steps, far higher in float32",
)

# %% [markdown]
# The solid line is the exercise's case. "As small as possible" is the worst choice there is: at $h = 10^{-15}$ float64 has one digit left, if that.
#
# Two more curves show what changes if you nudge *one way* only, $(L(x + h) - L(x)) / h$, and if you compute in float32, where
# $\varepsilon \approx 10^{-7}$. One-sided steps have an error that grows like $h$ and not like $h^2$: their best step is smaller, between
# $10^{-8}$ and $10^{-7}$, and hundreds of times less exact. In float32 the best step is near $10^{-2}$, and at $10^{-6}$ the error is
# already about 3 %.
#
# That is why `gradcheck` works in float64, nudges both ways, and only then compares the float32 backward with the float64 one. Its $h$ is
# $10^{-6}$, a little below the best: rounding costs about $10^{-10}$ there, which does no harm, and the error $h^2 L''' / 6$ stays small
# even where a loss bends much more than this one. `measured` does the same.
#
# ## The gradient of which loss?
#
# A backward needs an upstream gradient to begin with. For a check you may invent one: choose any array $u$ shaped like the output and
# let the loss be $\langle u, out \rangle$, so that $d\mathit{out} = u$. The obvious choice is all ones, the loss `out.sum()`. **Predict:**
# what is the gradient of `softmax(s).sum()` with respect to $s$?

# %% tags=["hide-output"]
s = np.random.default_rng(2).standard_normal((3, 4))
show_arrays(ds=measured(lambda s: softmax(s).sum(), s))

# %% [markdown]
# <details><summary>Answer</summary>
#
# 0 everywhere. The attention weights of a row sum to 1 whatever the logits are, so this loss never moves. A backward that returns zeros
# passes the check.
#
# </details>
#
# How much does the choice of $u$ matter? Here are two right backwards and three wrong ones, checked with ones and with a random $u$:


# %%
def passes(forward, backward, X, u):
    """Is backward(u, X) the gradient of <u, forward(X)>, by nudging X?"""
    return np.allclose(backward(u, X), measured(lambda X: (u * forward(X)).sum(), X), atol=1e-6)


rng = np.random.default_rng(4)
tokens, W, b = rng.standard_normal((5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)
# a linear and its linear_backward, with the bug of the next exercise
_, counting = buggy("not_fooled_by_ones")


def with_bias(b):
    return linear(tokens, W, b)


def without_p(u, s):
    return u - (u * softmax(s)).sum(axis=-1, keepdims=True)


contestants = (
    ("softmax, right", softmax, lambda u, s: softmax_backward(u, softmax(s)), s),
    ("softmax: ds = 0", softmax, lambda u, s: np.zeros_like(s), s),
    ("softmax: the factor p is missing", softmax, without_p, s),
    ("linear, right", with_bias, lambda u, b: linear_backward(u, tokens, W)[2], b),
    ("linear: db = number of tokens", with_bias, lambda u, b: counting(u, tokens, W)[2], b),
)
rows = []
for name, forward, backward, X in contestants:
    shape = forward(X).shape
    tries = np.ones(shape), np.random.default_rng(6).standard_normal(shape)
    rows.append([name, *("passes" if passes(forward, backward, X, u) else "CAUGHT" for u in tries)])
table("backward | u = ones | u random", rows)

# %% [markdown]
# With ones, all five pass. With a random $u$ a wrong backward could pass only by chance.
#
# ### Exercise `not_fooled_by_ones` (write the property that kills this bug, ★★★, 12 min)
#
# The last backward in that table counts tokens and forgets $dy$. Write a test that catches it. You are given `linear(x, W, b) -> y` and
# `linear_backward(dy, x, W) -> dx, dW, db`; return True where the backward is right, False for this one. Do not write
# the backward a second time: there is a way without it, and even one without a small step. To try yours,
# `not_fooled_by_ones(*buggy("not_fooled_by_ones"))` should be False, and `not_fooled_by_ones(linear, linear_backward)` True.


# %%
def not_fooled_by_ones(linear, linear_backward):
    """True where linear_backward is the backward of linear."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    x, W, b = rng.standard_normal((2, 5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    u = rng.standard_normal((2, 5, 3))
    dx, dW, db = linear_backward(u, x, W)
    # y is linear in each of its arguments, so <u, δy> = <gradient, move> holds for large moves, too: no h is needed
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
# | what is often said | what the cells above show |
# |---|---|
# | backpropagation multiplies Jacobians | none need be built: softmax's would be $n^3$ numbers, and one number for each row is enough |
# | the smaller the step, the better the check | best near $10^{-5}$ in float64; at $10^{-15}$ hardly a digit is right |
# | compare the gradients of `out.sum()` | a softmax whose backward returns zeros passes |
#
# ## In five lines
#
# - $dX$ is shaped like $X$: how fast the loss moves with each entry. A step against it lowers the loss.
# - A backward is derived in three steps: write $\delta Y$, put it into $\langle dY, \delta Y \rangle$, move matrices over until $\delta X$ stands alone.
# - What is used several times gets a sum; what is broadcast forward is summed backward.
# - Softmax's Jacobian is $\operatorname{diag}(p) - p\,p^\top$: nobody builds it, and it is nearly 0 where a row is saturated.
# - Check gradients in float64, both ways, $h$ near $10^{-5}$, and with a random upstream gradient.
#
# To read: M. B. Giles, [An extended collection of matrix derivative results for forward and reverse mode algorithmic
# differentiation](https://people.maths.ox.ac.uk/gilesm/files/NA-08-01.pdf) (2008), the same rule for many more matrix functions.
# Next: [04, attention backwards](04_attention_backward.ipynb), where these two backwards become one.
