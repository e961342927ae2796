# %% [markdown]
# # 08 · The block
#
# Attention moves information between tokens. A Transformer stacks it: 12 layers, 24, sometimes more than 100.
# **What happens to the numbers on the way up, and to their gradients on the way down?**
#
# In this chapter you stack it and measure. Each time something goes wrong, one part is added, until the whole thing is the
# block that every Transformer is made of.
#
# **You need**: gradients of linear maps and of softmax ([03](03_gradients.ipynb), [04](04_attention_backward.ipynb)), padding and
# leaks ([05](05_masks.ipynb)), many heads ([06](06_many_heads.ipynb)).
#
# **You will be able to**:
#
# - derive LayerNorm's backward, and say which two directions it removes;
# - say why a sentence should not be normalised with its batch;
# - build a block in both of its common forms, and measure what depth does to each.

# %%
import numpy as np

from tinyattn.check.adapters import feed_forward, multi_head_attention
from tinyattn.course import buggy, check, page_part, road, show_arrays, show_figure, table, yours
from tinyattn.layers import Block, FeedForward, LayerNorm, MultiHead
from tinyattn.ops import batch_norm, dropout, keep_mask
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE

road(8)

# %% [markdown]
# ## Stack attention, and nothing else
#
# Sixteen random tokens of width 32 go through layers of four-head attention, each with fresh random weights. Two numbers tell us
# how they fare. `size` is the standard deviation of all entries. `spread`: subtract the mean token from every token; how long is
# what is left, compared with before? (The length of an array is the root of the sum of its squares.) Near 1, tokens are different; at
# 0, they are all the same.
#
# **Predict:** after how many layers do you expect the spread to be below 0.001?

# %% tags=["hide-output"]
D, HEADS, TOKENS = 32, 4, 16


def size_and_spread(x):
    return x.std(), np.linalg.norm(x - x.mean(axis=0)) / np.linalg.norm(x)


def stacked(layer, depths=(0, 1, 2, 3, 4, 12, 24)):
    """Size and spread of the tokens after some depths of x = layer(x, attend)."""
    rng = np.random.default_rng(0)
    heads = MultiHead(HEADS)
    x = rng.standard_normal((TOKENS, D))
    rows = []
    for depth in range(max(depths) + 1):
        if depth in depths:
            size, spread = size_and_spread(x)
            rows.append([depth, size, f"{spread:.3f}"])
        p = heads.init(rng, D)
        x = layer(x, lambda tokens, p=p: heads.mix(p, tokens)[0])
    return table("layers | size | spread", rows)


stacked(lambda x, attend: attend(x))

# %% [markdown]
# Three layers, and sixteen different tokens have become sixteen copies of one. Each output of attention is an average, and averages of
# averages agree ever more. [Dong, Cordonnier & Loukas (2021)](https://arxiv.org/abs/2103.03404) prove that pure attention does so doubly
# exponentially with depth. No later layer can tell copies apart again.
#
# ## Keep what you have: the residual
#
# So do not replace a token by its average. **Add** the average to it:
#
# $$y = x + f(x) .$$
#
# This is a *residual connection* ([He et al. 2015](https://arxiv.org/abs/1512.03385)), and $f$ is a *branch*. If $f$ returns 0, the
# token passes unchanged. What of the gradient? $x$ is read twice, once by the sum and once by $f$; so, as in
# [chapter 03](03_gradients.ipynb), the gradients of its two uses are added:
#
# $$dx = dy + \Big(\frac{\partial f}{\partial x}\Big)^{\!\top} dy .$$
#
# The first term is $dy$ itself, whatever the weights in $f$ are. **Predict:** what does the residual do to size and spread?

# %% tags=["hide-output"]
stacked(lambda x, attend: x + attend(x))

# %% [markdown]
# The tokens stay apart for longer, but now their size explodes: each layer adds something in proportion to what it reads, like interest on
# interest. And logits grow with the square of the size, so that softmax saturates ([chapter 02](02_scale.ipynb)). Something must hold
# the size of what a branch reads.
#
# ## LayerNorm: what it does to a token
#
# [Ba, Kiros & Hinton (2016)](https://arxiv.org/abs/1607.06450) normalise every token by its own mean and variance. With
# $c = x - \operatorname{mean}(x)$ for the centred token, all means over its $D$ entries:
#
# $$r = \frac{1}{\sqrt{\operatorname{mean}(c^2) + \varepsilon}}, \qquad \hat x = r\,c, \qquad
# y = \hat x \odot \gamma + \beta .$$
#
# In code $r$ is called `rstd` and $\hat x$ is `x_hat`. The small $\varepsilon$ keeps a token of equal entries finite. $\gamma$ (gain) and
# $\beta$ (shift), one number for each feature, are learned; they begin as ones and zeros.
#
# ### Exercise `my_layer_norm` (write the op, ★☆☆, 8 min)
#
# Return `y`, and also `x_hat` and `rstd`, which the backward will need. There may be any axes before the last. `eps` stands inside the
# root: 1/√(variance + eps).


# %%
def my_layer_norm(x, gamma, beta, eps=1e-5):
    """Shapes: x (..., d), gamma and beta (d,) -> y (..., d), x_hat (..., d), rstd (..., 1)."""
    ### BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)  # (..., 1)
    rstd = 1 / np.sqrt(variance + eps)
    x_hat = centred * rstd
    return x_hat * gamma + beta, x_hat, rstd
    ### END SOLUTION


# %%
check("my_layer_norm", my_layer_norm)

# %% [markdown]
# **Predict:** below are four tokens: one, the same plus 10, the same times 5, and its negative. Which of them will still differ?

# %% tags=["hide-output"]
layer_norm = yours("my_layer_norm")
gamma, beta = np.ones(3), np.zeros(3)
token = np.array([1.0, 2.0, 6.0])
x = np.stack([token, token + 10, 5 * token, -token])
y, x_hat, rstd = layer_norm(x, gamma, beta)
show_arrays(x=x, y=y, mean=y.mean(axis=-1), variance=y.var(axis=-1))

# %% [markdown]
# LayerNorm forgets two things about a token: **its mean and its size**. (The size only up to $\varepsilon$: the variance comes out as
# $v / (v + \varepsilon)$.) What is left is a direction. Put the norm before each branch:

# %%
one, zero = np.ones(D), np.zeros(D)
stacked(lambda x, attend: x + attend(layer_norm(x, one, zero)[0]))

# %% [markdown]
# No sudden collapse, no explosion. The tokens still draw together, but slowly: a spread of 0.24 is left after 24 layers, not 0.002. And
# the size grows by steps, not by a factor, since every branch reads tokens of size 1. This is the skeleton of the block.
#
# ## Its backward, on paper
#
# Let $x$ move by $\delta x$. First the token is centred, then $r$ moves, then their product. For $r = u^{-1/2}$ with
# $u = \operatorname{mean}(c^2) + \varepsilon$: $u$ moves by $2 \operatorname{mean}(c \odot \delta c)$, and $u^{-1/2}$ has the slope
# $-\tfrac12 u^{-3/2}$, so
#
# $$\delta c = \delta x - \operatorname{mean}(\delta x), \qquad
# \delta r = -r^3 \operatorname{mean}(c \odot \delta c),$$
#
# $$\delta \hat x = r\,\delta c + c\,\delta r
# = r\,\big(\delta c - \hat x\,\operatorname{mean}(\hat x \odot \delta c)\big) .$$
#
# In the last step one $r$ of $r^3$ went into $c$ and one into the mean, which made both of them $\hat x$. From here it goes as in
# [chapter 03](03_gradients.ipynb). Put $g = dy \odot \gamma$, so that $\langle dy, \delta y \rangle = \langle g, \delta \hat x \rangle$, and
# move everything to the other side until it reads $\langle dx, \delta x \rangle$. Centring may be moved across, too: for any $A$,
# $\langle A,\, \delta x - \operatorname{mean}(\delta x) \rangle = \langle A - \operatorname{mean}(A),\, \delta x \rangle$.
#
# ### Exercise `my_layer_norm_backward` (derive the backward, ★★★, 15 min)
#
# Three terms for `dx`, and a line each for `dgamma` and `dbeta`, which serve all tokens of all sentences.


# %%
def my_layer_norm_backward(dy, x_hat, rstd, gamma):
    """Shapes: dy, x_hat (..., d), rstd (..., 1), gamma (d,) -> dx (..., d), dgamma (d,), dbeta (d,)."""
    ### BEGIN SOLUTION
    g = dy * gamma
    along_one = g.mean(axis=-1, keepdims=True)  # (..., 1)
    along_x_hat = (g * x_hat).mean(axis=-1, keepdims=True)  # (..., 1)
    dx = rstd * (g - along_one - x_hat * along_x_hat)
    every_token = tuple(range(dy.ndim - 1))
    return dx, (dy * x_hat).sum(axis=every_token), dy.sum(axis=every_token)
    ### END SOLUTION


# %%
check("my_layer_norm_backward", my_layer_norm_backward)

# %% [markdown]
# ### What the three terms mean
#
# With three features we can draw it. Subtracting the mean drops every token onto the plane of vectors that sum to 0; dividing by the size
# moves it along its ray onto a circle of radius $\sqrt 3$. The picture looks at that plane from the front.

# %% tags=["hide-input"]
plane = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])  # two axes of the plane
tokens = np.random.default_rng(6).standard_normal((14, 3)) * [1.6, 1.2, 1.0] + 0.5
on_circle = layer_norm(tokens, gamma, beta)[1] @ plane.T
in_plane = tokens @ plane.T
with style():
    fig, (left, right) = figure(1, 2, size=(7.4, 3.6))
    turn = np.linspace(0, 2 * np.pi, 200)
    for ax in (left, right):
        ax.plot(*(np.sqrt(3) * np.array([np.cos(turn), np.sin(turn)])), color=GREY, linewidth=1)
        ax.set(aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    for a, b in zip(in_plane, on_circle, strict=True):
        left.plot(*zip(a, b, strict=True), color=GREY, linewidth=0.7)
    left.plot(*in_plane.T, "o", color=ORANGE, markersize=5)
    left.plot(*on_circle.T, "s", color=BLUE, markersize=5)
    left.text(0.1, 3.4, "token, centred", color=ORANGE)
    left.text(0.9, 1.75, r"the same, normalised: $\hat x$", color=BLUE)
    left.set_title("forward: every token ends on a circle")
    at = np.sqrt(3) * np.array([np.cos(0.7), np.sin(0.7)])
    gradient = np.array([0.35, 1.45])
    radial = at * (gradient @ at) / 3
    for start, vector, colour, line, name, place in (
        (at, gradient, ORANGE, "-", "$g$, mean removed", (-1.15, 0.1)),
        (at, radial, GREY, "--", r"its part along $\hat x$", (0.1, -0.12)),
        (at, gradient - radial, BLUE, "-", "what is left: $dx / r$", (-1.75, 0.12)),
    ):
        how = {"arrowstyle": "->", "color": colour, "linestyle": line, "linewidth": 2}
        right.annotate("", start + vector, start, arrowprops=how | {"shrinkA": 0, "shrinkB": 0})
        right.text(*(start + vector + place), name, color=colour, fontsize=10)
    right.plot(*at, "s", color=BLUE, markersize=7)
    right.plot([0, at[0]], [0, at[1]], ":", color=GREY)
    right.text(*(at / 2 + [0.1, -0.25]), r"$\hat x$", color=BLUE, fontsize=11)
    right.set(title="backward: only along the circle", xlim=(-2, 4.2), ylim=(-2, 3))
    left.set(xlim=(-2.3, 3.9))
show_figure(
    fig,
    "circle",
    "Left: tokens move along rays onto a circle. Right: of an arrow g at a point of the circle only the part along the circle is left",
)

# %% [markdown]
# <details><summary>When yours is right: what the formula says</summary>
#
# $$dx = r\,\big(g \;-\; \operatorname{mean}(g) \;-\; \hat x\,\operatorname{mean}(g \odot \hat x)\big)$$
#
# The second term removes what would shift the token, the third what would scale it.
#
# </details>
#
# $\hat x$ can only move along the circle, so the gradient has no other direction. And the same $\delta x$ turns a token that is ten times
# as long only a tenth as far. Three consequences that need no second derivation, and make good tests:

# %%
layer_norm_backward = yours("my_layer_norm_backward")
dy = np.array([0.3, -1.0, 2.0])
rows = []
for factor in (1, 10):
    _, x_hat, rstd = layer_norm(factor * token, gamma, beta)
    dx = layer_norm_backward(dy, x_hat, rstd, gamma)[0]
    sums = [f"{abs(total):.3f}" for total in (dx.sum(), (dx * x_hat).sum())]
    rows.append([f"x times {factor}", *sums, np.linalg.norm(dx)])
table("token | sum of dx | dx · x_hat | length of dx", rows)

# %% [markdown]
# ## Why not BatchNorm?
#
# [Ioffe & Szegedy (2015)](https://arxiv.org/abs/1502.03167) had normalised before, with the same formula along other axes: each *feature*
# gets mean 0 and variance 1 over all tokens of all sentences in the batch. Vision models have lived well with it.
# For sentences, let us see what the output of *one token* depends on. Take a batch of two sentences, the second with two rows of
# padding. We change one thing and watch the first token of sentence 0.
#
# **Predict:** which of these three changes move it under LayerNorm, which under BatchNorm?

# %% tags=["hide-output"]
rng = np.random.default_rng(1)
batch = rng.standard_normal((2, 5, 3))
batch[1, 3:] = 0  # padding
other, longer, later = batch.copy(), np.pad(batch, ((0, 0), (0, 4), (0, 0))), batch.copy()
other[1, :3] += 2
later[0, 4] += 2

rows = []
for name, changed in (
    ("the other sentence says something else", other),
    ("the batch is padded to length 9", longer),
    ("a later token of the same sentence changes", later),
):
    moved = [
        np.abs(norm(changed, gamma, beta)[0][0, 0] - norm(batch, gamma, beta)[0][0, 0]).max()
        for norm in (layer_norm, batch_norm)
    ]
    rows.append([name, *(f"{m:.2f}" for m in moved)])
table("what changes | LayerNorm | BatchNorm", rows)

# %% [markdown]
# Under BatchNorm a sentence means something else in other company, and something else again when a longer neighbour brings more padding.
# The last line is worse. A later token reaches an earlier one, around every causal mask: the leak of [chapter 05](05_masks.ipynb).
#
# In use there may be no batch at all. **Predict:** what does BatchNorm make of a single token?

# %% tags=["hide-output"]
training = rng.standard_normal((1000, 3))
mean, variance = training.mean(axis=0), training.var(axis=0)  # kept for use
alone = batch[:1, :1]
show_arrays(
    in_its_batch=batch_norm(batch, gamma, beta)[0][0, 0],
    alone=batch_norm(alone, gamma, beta)[0][0, 0],
    alone_with_kept_averages=batch_norm(alone, gamma, beta, mean=mean, var=variance)[0][0, 0],
)

# %% [markdown]
# Alone, a token is its own mean: nothing is left. So BatchNorm needs a second mode for use, with averages kept from training, and the
# model that is used is not quite the one that was trained. LayerNorm has one mode.
#
# ### Exercise `each_token_alone` (write the property that kills this bug, ★★☆, 8 min)
#
# A LayerNorm whose mean runs along the wrong axis is a small BatchNorm. Write a test that tells it from a right one. You are given a
# function `layer_norm(x, gamma, beta)` that returns `y, x_hat, rstd`; return True where every token is normalised alone. (The variance is 1 only nearly, since `eps`
# is in it.) `buggy` hands out the wrong one, to try your test on. Look at its columns: they have mean 0 where its rows should:

# %%
wrong_norm = buggy("each_token_alone")
show_arrays(x=x, y=wrong_norm(x, gamma, beta)[0])


# %%
def each_token_alone(layer_norm):
    """True where every token is normalised by its own numbers."""
    ### BEGIN SOLUTION
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    gamma, beta = np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4)
    together = layer_norm(x, gamma, beta)[0][1, 2]
    alone = layer_norm(x[1:, 2:], gamma, beta)[0][0, 0]
    return np.allclose(together, alone)
    ### END SOLUTION


# %%
check("each_token_alone", each_token_alone)

# %% [markdown]
# ## Two more parts
#
# **The feed-forward network.** Attention only averages values: for given weights it is linear in them. The non-linear part is a
# small network that reads each token *alone*, with $\operatorname{relu}(u) = \max(u, 0)$ and a hidden layer usually four times as wide:
#
# $$\operatorname{ffn}(x) = \operatorname{relu}(x W_1 + b_1)\,W_2 + b_2 .$$
#
# Attention collects from other tokens, and the feed-forward network computes with what was collected. Two thirds of a block's parameters are here: $8D^2$, against
# the $4D^2$ of $W_q$, $W_k$, $W_v$, $W_o$.
#
# **Dropout** ([Srivastava et al. 2014](https://jmlr.org/papers/v15/srivastava14a.html)). In training, a random part of a branch's
# output is set to 0, so that nothing can rely on one number alone. What is kept is divided by $1 - rate$, which preserves the mean; in
# use, `keep` is None and nothing happens:

# %%
ones = np.ones((1000, 8))
keep = keep_mask(np.random.default_rng(0), ones.shape, rate=0.2)
dropped = dropout(ones, keep, rate=0.2)
print("in use nothing changes:", np.array_equal(dropout(ones, None, rate=0.2), ones))
show_arrays(three_tokens=dropped[:3], mean_of_all=dropped.mean())

# %% [markdown]
# Its backward is the same function with the same `keep`: a number that was set to 0 receives no gradient.
#
# ## The block
#
# Two branches, each with a norm and a residual. Where does the norm go? The Transformer (Vaswani et al. 2017) put it *after* the sum,
# GPT-2 and most models since *before* the branch:


# %%
def pre_ln(x, attend, feed, norm_1, norm_2):
    x = x + attend(norm_1(x))
    return x + feed(norm_2(x))


def post_ln(x, attend, feed, norm_1, norm_2):
    x = norm_1(x + attend(x))
    return norm_2(x + feed(x))


# %% [markdown]
# That is the whole difference. In the first, $x$ runs from bottom to top and is only ever *added to*: it is called the **residual stream**.
# In the second, the stream itself is normalised at every stop. The library's blocks are the same lines:

# %%
rng = np.random.default_rng(2)
x = rng.standard_normal((5, D))
for form, mine in (("pre", pre_ln), ("post", post_ln)):
    block = Block(MultiHead(HEADS), form)
    p = block.init(rng, D)
    y = mine(
        x,
        attend=lambda h: block.mixer.mix(p["attention"], h)[0],
        feed=lambda h: block.feed_forward.forward(p["feed_forward"], h)[0],
        norm_1=lambda h: layer_norm(h, one, zero)[0],
        norm_2=lambda h: layer_norm(h, one, zero)[0],
    )
    print(form, np.allclose(y, block.forward(p, x)[0]))

# %% [markdown]
# And on [the page that is all of SASRec](../tinyattn/pages/sasrec.py), in plain NumPy, the pre-LN block and its mirror. Read the backward
# from the top, and beside each line the line of the forward that it undoes:

# %%
page_part("sasrec", "block", "block_backward")

# %% [markdown]
# Here is a small one, of width 4, at work on two tokens: forward, then backward. Step to where `dx` is made, near the end: the gradients of a
# residual's two uses meet there, and the outline marks the path of each.

# %%
small = Block(MultiHead(2), "pre", feed_forward=FeedForward(4))
small_p, two_tokens = small.init(rng, 4), rng.standard_normal((1, 2, 4))
seen = trace(small.forward, small_p, two_tokens, backward=small.backward)
seen.player(title="A pre-LN block, forward and backward")

# %% [markdown]
# ### Exercise `repaired_block` (find the bug, ★★☆, 8 min)
#
# A pre-LN block, with all of its parameters by name. Shapes are right, it trains, and one line is wrong. No test of shapes will find it:
# ask what should be left when a branch is silent.


# %%
def buggy_block(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    h = layer_norm(x, gamma_1, beta_1, eps)[0]
    a = multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)
    h = layer_norm(x + a, gamma_2, beta_2, eps)[0]
    return x + feed_forward(h, W_1, b_1, W_2, b_2)


# %%
def repaired_block(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    ### BEGIN SOLUTION
    h = layer_norm(x, gamma_1, beta_1, eps)[0]
    x = x + multi_head_attention(
        h, W_q, W_k, W_v, W_o, heads, mask
    )  # from here on, x is the new stream
    h = layer_norm(x, gamma_2, beta_2, eps)[0]
    return x + feed_forward(h, W_1, b_1, W_2, b_2)
    ### END SOLUTION


# %%
check("repaired_block", repaired_block)

# %% [markdown]
# ## What depth does
#
# ### Exercise `stream_std` (predict the number, ★☆☆, 3 min)
#
# A pre-LN stream starts with entries of variance 1. Suppose that each branch adds independent entries of variance 1. What is
# the *standard deviation* of the stream after 12 blocks?

# %%
### BEGIN SOLUTION
stream_std = 5
### END SOLUTION

# %%
check("stream_std", stream_std)

# %% [markdown]
# Now measure. We stack 24 blocks with random weights, send a random gradient of length 1 back from the top, and record two things for every
# block: the size of the stream above it, and the length of the gradient that its $W_2$ receives. There are three forms: post-LN, pre-LN (with
# one more norm at the very top, as is usual), and residuals without any norm.


# %% tags=["hide-input"]
class NoNorm:
    """Stands where a LayerNorm could, and does nothing."""

    def init(self, dim):
        return {}

    def forward(self, p, x):
        return x, None

    def backward(self, p, dy, cache):
        return dy.copy(), {}


FORMS = {"post-LN": ("post", LayerNorm()), "pre-LN": ("pre", LayerNorm()), "no norm": ("pre", NoNorm())}  # fmt: skip


def by_depth(name, blocks=24, seed=0):
    """-> for every block, the size of the stream above it and the length of its dW_2."""
    form, norm = FORMS[name]
    rng = np.random.default_rng(seed)
    block = Block(MultiHead(HEADS), form, norm, FeedForward(4 * D))
    ps = [block.init(rng, D) for _ in range(blocks)]
    x = rng.standard_normal((4, TOKENS, D))
    dx = rng.standard_normal(x.shape)
    sizes, caches, gradients = [], [], []
    for p in ps:
        x, cache = block.forward(p, x)
        sizes.append(x.std())
        caches.append(cache)
    dx /= np.linalg.norm(dx)
    if form == "pre":  # one more norm at the very top
        top = norm.init(D)
        dx = norm.backward(top, dx, norm.forward(top, x)[1])[0]
    for p, cache in zip(ps[::-1], caches[::-1], strict=True):
        dx, grads = block.backward(p, dx, cache)
        gradients.append(np.linalg.norm(grads["feed_forward"]["outer"]["W"]))
    return np.array(sizes), np.array(gradients[::-1])


def averaged(name, blocks=24, seeds=4):
    """The geometric mean over some networks."""
    return np.exp(np.mean([np.log(by_depth(name, blocks, seed)) for seed in range(seeds)], axis=0))


measured = {name: averaged(name) for name in FORMS}
rows = [
    [name, *(sizes[[0, 11, 23]]), *(gradients[[0, 11, 23]])]
    for name, (sizes, gradients) in measured.items()
]
table("form | size above 1 | 12 | 24 | ‖dW_2‖ in block 1 | 12 | 24", rows)

# %% tags=["hide-input"]
LOOKS = {"post-LN": (ORANGE, "s", "--"), "pre-LN": (BLUE, "o", "-"), "no norm": (GREY, "^", ":")}
DEPTHS = (3, 6, 12, 24, 48)
last = {
    name: [averaged(name, blocks)[1][-1] for blocks in DEPTHS] for name in ("post-LN", "pre-LN")
}
with style():
    fig, (left, middle, right) = figure(1, 3, size=(8.2, 3.3))
    for name, (sizes, gradients) in measured.items():
        colour, marker, line = LOOKS[name]
        how = {"color": colour, "marker": marker, "linestyle": line, "markevery": 3, "label": name}
        left.plot(range(1, 25), sizes, **how)
        middle.plot(range(1, 25), gradients, **how)
        if name in last:
            right.plot(DEPTHS, last[name], line, color=colour, marker=marker)
    right.plot(DEPTHS, 5.2 / np.sqrt(DEPTHS), color=GREEN, linewidth=0.9)
    right.text(3.2, 0.72, "thin: ∝ 1 / √blocks", color=GREEN)
    left.set(title="size of the stream", xlabel="block", yscale="log", ylim=(0.5, 50))
    middle.set(title=r"$\Vert dW_2 \Vert$ of each block", xlabel="block", yscale="log")
    middle.set(ylim=(0.5, 50))
    right.set(title=r"$\Vert dW_2 \Vert$ of the last block", xlabel="blocks in the stack")
    right.set(xscale="log", yscale="log", ylim=(0.5, 10))
    right.set_xticks(DEPTHS, [str(d) for d in DEPTHS])
    right.set_yticks((0.5, 1, 2, 5, 10), ["0.5", "1", "2", "5", "10"])
    right.minorticks_off()
    for ax in (left, middle):
        ax.set_xticks((1, 6, 12, 18, 24))
        ax.set_yticks((1, 10), ["1", "10"])
    for x_at, y_at, name in ((11.5, 30, "no norm"), (9, 4.4, "pre-LN"), (9, 0.68, "post-LN")):
        left.text(x_at, y_at, name, color=LOOKS[name][0])
    middle.text(9, 7.5, "post-LN", color=ORANGE)
    middle.text(6, 1.0, "pre-LN", color=BLUE)
show_figure(
    fig,
    "depth",
    "Size of the stream and length of the gradient by block: no norm explodes, pre-LN grows slowly, post-LN stays at 1; the last block's gradient falls with depth in pre-LN only",
)

# %% [markdown]
# - Without a norm, size and gradient both leave the picture.
# - In pre-LN the stream **grows**, roughly like the root of the number of branches. You predicted 5 after 12 blocks with branches of variance
#   1; it is 3.2, because a branch here adds a variance of about 0.4 ($\sqrt{1 + 24 \cdot 0.4} = 3.3$). What a late branch adds is small beside it, and
#   so is its gradient: the last block's falls like $1/\sqrt{\text{blocks}}$ (right).
# - In post-LN the stream has size 1 everywhere, and the last block's gradient does *not* fall with depth.
#
# [Xiong et al. (2020)](https://arxiv.org/abs/2002.04745) prove upper bounds with these two rates for the last layer (Theorem 1), and see in the large
# gradients near the output why post-LN needs a slow start of the learning rate, the *warm-up*. It is often
# said that pre-LN has equal gradients at all depths; in this random network they are largest at the bottom.
#
# A third form normalises only what makes the queries: SASRec's, which [chapter 12](12_sasrec.ipynb) uses. All three, with their backwards beside them,
# are in [the block and its mirror](../docs/block.md).
#
# | what is often said | what the cells above show |
# |---|---|
# | residuals let the gradient through unchanged | in pre-LN yes, plus the branch's; in post-LN it passes two norms in every block |
# | LayerNorm gives every token variance 1 | $v / (v + \varepsilon)$, and only before $\gamma$ |
# | BatchNorm is LayerNorm along another axis | the formula is; but tokens then depend on their batch, on padding and on the future |
# | pre-LN's gradients are equal at every depth | its last block's shrink like $1/\sqrt{\text{blocks}}$, its first block's are the largest |
#
# ## In five lines
#
# - Attention alone turns all tokens into one within a few layers; a residual, $x + f(x)$, keeps them apart and passes $dy$ on whole.
# - LayerNorm forgets a token's mean and size. Its backward removes those two directions from the gradient and multiplies by $r$.
# - BatchNorm makes a token depend on its batch, on padding and on later tokens, and needs a second mode; LayerNorm does not.
# - A block is attention, which mixes tokens, and a feed-forward network, which reads each alone; each has a norm, a residual and dropout.
# - Pre-LN's stream grows like the root of depth, so that late gradients shrink; post-LN's late gradients do not, hence its warm-up.
#
# To read: Xiong et al. (2020), sections 3.1 to 3.3. Next: [09, how to know you are right](09_how_to_know.ipynb): by now you have written six
# backwards and repaired two. Who says that they are right, besides `check`?
