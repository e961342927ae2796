# %% [markdown]
# # 01 · Attention as soft look-up
#
# A Python dict answers only if you know the key exactly. Ask for a key that is merely close, and you get a `KeyError`.
# **What should a look-up answer when no key matches exactly, but several match a little?**
#
# The answer fits into five lines of NumPy. It is the formula at the heart of the Transformer
# ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), equation 1), here in the paper's capital letters:
#
# $$\text{attention}(Q, K, V) = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# This course writes $q$, $k$, $v$ and $d$, as the code does.
#
# **You need**: the dot product, matrix products, and what a Python `dict` does.
#
# **You will be able to**: derive softmax, and say which part of it was a choice; compute self-attention for three words by hand, and write it
# in five lines; say what can come out of it without running it.

# %%
import math

import numpy as np

from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.ops import attention
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREEN, GREY, HEAT, INK, ORANGE
from tinyattn.show.views import Goal, mirror

road(1)

# %% [markdown]
# ## Turn it first
#
# Here it is at work. Each of three words asks (a row of `q`), can be found (a row of `k`), and has something to give (a row of `v`). Drag a number,
# or press + and −, and see which weights move. By the end of the chapter you can say why, and reach the goal without trying.

# %% tags=["hide-input"]
mirror(
    ["cat", "sat", "mat"],
    q=np.array([[0, 2, 0, 0], [3, 0, 2, 0], [1, 2, 0, 0]]),
    k=np.array([[2, 0, 0, 1], [0, 2, 0, 0], [0, 0, 2, 1]]),
    v=np.array([[4, 0], [0, 4], [0, -2]]),
    hide=("scale", "heads", "mask", "backward"),
    goal=Goal("Goal: make “mat” look only at “cat” (a weight of 0.95 or more).", row=2, column=0),
    title="A soft look-up that can be turned",
)

# %% [markdown]
# ## A look-up that says yes or no
#
# Take three words. Each has a *value*: two numbers, whatever they may mean.

# %%
content = {"cat": (4.0, 0.0), "sat": (0.0, 4.0), "mat": (0.0, -2.0)}
print("content['cat'] =", content["cat"])
print("is there a 'kitten'?", "kitten" in content)

# %% [markdown]
# To us a kitten is almost a cat. To a dict the two keys are different, and that is all it can say.
#
# ## The same look-up as a matrix product
#
# Give each word a direction (a coordinate) of its own. Its key is then a *one-hot* vector: 1 there and 0 elsewhere. The dot product
# $q \cdot k_j$ is 1 if the query equals key $j$, and 0 otherwise. So the look-up is a sum over all entries, in which
# every term but one is 0:
#
# $$\text{out} = \sum_j (q \cdot k_j)\, v_j , \qquad \text{as matrices:}\quad \text{out} = q\, k^\top v .$$

# %%
words = ["cat", "sat", "mat"]
k = np.eye(3)  # (m, d): one key per row
v = np.array([content[word] for word in words])  # (m, 2): one value per row
q = np.array([0.0, 1.0, 0.0])  # (d,): asks for "sat"
show_arrays(q=q, k=k, v=v, matches=q @ k.T, out=q @ k.T @ v)

# %% [markdown]
# This is what the dict does. But now nothing forces the query to be one of the keys. For other queries we need (1) a number that says
# *how well* a key matches, and (2) weights made from these numbers.
#
# ## 1. How well does a key match?
#
# Use the dot product $s_j = q \cdot k_j$. It is positive if the angle between the two vectors is below 90°, 0 at 90°, and negative
# above. These numbers are called *logits*, also scores.
#
# **Predict:** the query below is *equal* to the first key. Which of the three keys has the largest logit?

# %% tags=["hide-output"]
k = np.array([[1.0, 0.0], [3.0, 1.0], [0.0, 1.0]])  # (m, d)
q = np.array([1.0, 0.0])  # (d,): the first key itself
rows = []
for key in k:
    distance = np.linalg.norm(q - key)
    rows.append([f"({key[0]:.0f}, {key[1]:.0f})", q @ key, distance, np.linalg.norm(key)])
table("key | logit q·k | distance to q | length of the key", rows)

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(6.4, 3.0))
    arrows = (
        (k[0], BLUE, "first key, logit 1"),
        (k[1], ORANGE, "second key, logit 3"),
        (k[2], GREEN, "third key, logit 0"),
    )
    for key, colour, name in arrows:
        ax.annotate(
            "",
            key,
            (0, 0),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.5, "shrinkB": 0},
        )
        ax.text(*(key + [0.06, 0.12]), name, color=colour, fontsize=10)
    ax.annotate(
        "",
        q,
        (0, 0),
        arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.2, "ls": "--", "shrinkB": 0},
    )
    ax.text(0.35, -0.28, "the query", color=INK, fontsize=10)
    ax.plot([3, 3], [0, 1], ":", color=ORANGE)
    ax.text(3.06, 0.35, "3 along the query", color=ORANGE, fontsize=10)
    ax.set(xlim=(-0.3, 4.6), ylim=(-0.5, 1.5), aspect="equal")
    ax.axis("off")
show_figure(
    fig,
    "keys",
    "Arrows from one point: the query and the first key are the same, one long to the right; the third key points up; the second is the longest and "
    "reaches 3 along the query, so its logit is the largest",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The second key. It is farther from the query than the first, but it is longer.
#
# </details>
#
# Write $\lVert k\rVert$ for the length of $k$, the root of $k \cdot k$. Expand $\lVert q - k\rVert^2$, solve for the dot product, and you see
# what a logit rewards:
#
# $$q \cdot k = \tfrac12\left(\lVert q\rVert^2 + \lVert k\rVert^2 - \lVert q - k\rVert^2\right)$$
#
# A key gains by being near the query, *and* by being long. If all keys have the same length, the largest logit belongs to the
# nearest key; otherwise it need not.

# %%
identity = (q @ q + (k * k).sum(axis=-1) - ((q - k) ** 2).sum(axis=-1)) / 2
unit = k / np.linalg.norm(k, axis=-1, keepdims=True)  # the same directions, all of length 1
print("the identity holds:", np.allclose(k @ q, identity))
print("with keys of length 1 the nearest key wins:", int(np.argmax(unit @ q)) == 0)

# %% [markdown]
# ## 2. From logits to weights
#
# A logit may be any number. A weight should be positive, and the weights of one query should sum to 1, so that we can read them
# as shares.
#
# **Predict:** why not divide every logit by the sum of all logits? Try it with 2, -1, -1.
#
# <details><summary>Answer</summary>
#
# Their sum is 0. And where the sum is not 0, a negative logit may become a negative share.
#
# </details>
#
# So make the logits positive first, by some function $f$, and then divide: $p_j = f(s_j) / \sum_i f(s_i)$. Which $f$? Ask for one
# thing more: *only differences count*. If all logits rise by the same $c$, no key has gained on another, and no weight should
# change. The ratio of two weights must then stay the same:
#
# $$\frac{f(s + c)}{f(t + c)} = \frac{f(s)}{f(t)} \quad\text{for all } s, t, c .$$
#
# Set $t = 0$: then $f(s + c) = f(s)\, f(c) / f(0)$. Divide both sides by $f(0)$ and write $g = f / f(0)$: what remains is
# $g(s + c) = g(s)\, g(c)$. The only continuous positive functions that turn sums into
# products are the exponentials $g(s) = e^{\beta s}$, and so
#
# $$p_j = \frac{e^{\beta s_j}}{\sum_i e^{\beta s_i}} .$$
#
# This is **softmax**. What did we choose? The form $f(s_j) / \sum_i f(s_i)$, and the number $\beta$, positive if a better match should weigh more.
#
# How to read softmax's weights: **a key that leads another by $\Delta$ has a weight $e^{\beta \Delta}$ times as large.** The
# number $\tau = 1/\beta$ is called the *temperature*. A low one gives nearly everything to the best key, a high one treats all keys nearly alike.
#
# ### Exercise `nine_tenths` (predict the number, ★★☆, 5 min)
#
# There are two keys, and one leads by 2. At temperature 1 it gets 88 % of the weight. At which temperature does it get 90 %?
# Work it out on paper; two digits are enough.

# %%
### BEGIN SOLUTION
nine_tenths = 2 / math.log(0.9 / 0.1)
### END SOLUTION

# %%
check("nine_tenths", nine_tenths)

# %% [markdown]
# ### Exercise `my_softmax` (write the op, ★★☆, 8 min)
#
# Write softmax at temperature 1, along the last axis; `s` may have any axes before it. (In a shape, `...` stands for any number of
# axes, also none: `(..., m)` may be `(m,)`, `(n, m)` or `(batch, n, m)`.) Logits of 10,000 must work, although $e^{10000}$ is far too
# large for a float. You know what you may add to all logits of a row without changing its weights.


# %%
def my_softmax(s):
    """Shapes: s (..., m) -> p (..., m), each row of sum 1."""
    ### BEGIN SOLUTION
    e = np.exp(s - s.max(axis=-1, keepdims=True))  # only differences count: the largest is now e⁰
    return e / e.sum(axis=-1, keepdims=True)
    ### END SOLUTION


# %%
check("my_softmax", my_softmax)

# %% [markdown]
# From here on the chapter uses your softmax; until yours is accepted, the library's.

# %%
softmax = yours("my_softmax")

# %% [markdown]
# ## A soft dict
#
# That is all we need for a dict that answers every question:


# %%
def soft_get(entries, query, temperature=1.0):
    """The average of all values, weighted by how well each key matches."""
    s = np.array([np.dot(query, key) for key in entries])  # (m,): one logit per key
    p = softmax(s / temperature)  # (m,): sum 1
    return p @ np.array(list(entries.values()))  # (m,) @ (m, 2) -> (2,)


entries = {(1.0, 0.0, 0.0): (4.0, 0.0), (0.0, 1.0, 0.0): (0.0, 4.0), (0.0, 0.0, 1.0): (0.0, -2.0)}
for temperature in (1.0, 0.2, 0.05):
    out = soft_get(entries, (0.9, 0.2, 0.0), temperature)  # a kitten: almost a cat
    print(f"at temperature {temperature:4}: ({out[0]:.2f}, {out[1]:.2f})")

# %% [markdown]
# The lower the temperature, the nearer the kitten's answer is to the cat's value, (4, 0).
#
# ## Why soft?
#
# We could also return the value of the key with the largest logit: a *hard* look-up. Let a query turn from the key of *cat* (0°) to
# the key of *sat* (90°), and record the first number of its answer; *cat* has a 4 there, *sat* a 0.
#
# **Predict:** sketch the two curves before you look.

# %% tags=["hide-output"]
degrees = np.arange(0.25, 90, 0.5)  # (180,): never exactly 45°, where the keys tie
turning = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=-1)
pair = {(1.0, 0.0): content["cat"], (0.0, 1.0): content["sat"]}
hard = np.where(turning[:, 0] > turning[:, 1], 4.0, 0.0)
soft = {
    tau: np.array([soft_get(pair, query, tau)[0] for query in turning]) for tau in (0.05, 0.25, 1)
}

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(6.0, 3.2))
    ax.plot(degrees, hard, color=GREY, drawstyle="steps-post", label="hard")
    for (tau, out), colour, line in zip(
        soft.items(), (ORANGE, BLUE, GREEN), ("--", "-", ":"), strict=True
    ):
        ax.plot(degrees, out, line, color=colour, label=rf"soft, $\tau = {tau:g}$")
    ax.set(xlabel="angle of the query, in degrees", ylabel="first number of the answer")
    ax.set(title="a query turns from cat's key to sat's", xticks=(0, 45, 90))
    ax.legend()
show_figure(
    fig, "turning", "The hard answer jumps from 4 to 0 at 45 degrees, the soft ones slide down"
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The hard answer is constant, jumps once at 45°, and is constant again. Where it is constant its derivative is 0: turn the query a little,
# and nothing changes. The soft answer responds to every small change of the query with a small change of its own.
#
# </details>
#
# Models learn by small changes ([chapter 03](03_gradients.ipynb) shows how). So a look-up is soft not because that gives better
# answers, but because a model can then learn what to ask.
#
# ## Three words, slowly
#
# In **self-attention** nobody hands us queries, keys and values. Each word makes all three from itself. A word is a
# *token* here: a row $x$ of $D = 5$ numbers. Three matrices turn it into its query, its key and its value:
#
# $$q = x W_q, \qquad k = x W_k, \qquad v = x W_v .$$
#
# A model learns these matrices. We write them by hand, so that every number has a meaning. The five numbers of a token say
# whether it is *living*, an *action*, a *thing*, a *place*, or in the *past*:

# %%
#              living action thing place past
x = np.array([[1.0, 0.0, 1.0, 0.0, 0.0],  # cat: a living thing
              [0.0, 1.0, 0.0, 0.0, 1.0],  # sat: an action in the past
              [0.0, 0.0, 1.0, 1.0, 0.0]])  # mat: a thing, and a place  # fmt: skip

#         asks for:  who  what  where  with what
W_q = np.array([[0.0, 1.0, 0.0, 0.0],  # somebody living asks: what does it do?
                [2.0, 0.0, 1.0, 0.0],  # an action asks: who does it? and where?
                [0.0, 1.0, 0.0, 0.0],  # a thing asks: what happens to it?
                [1.0, 1.0, 0.0, 0.0],  # a place asks: who is here, doing what?
                [1.0, 0.0, 1.0, 0.0]])  # the past asks: who was it, and where?  # fmt: skip

#          answers:  who  what  where  with what
W_k = np.array([[2.0, 0.0, 0.0, 0.0],  # somebody living is a who
                [0.0, 2.0, 0.0, 0.0],  # an action is a what
                [0.0, 0.0, 0.0, 1.0],  # a thing is something to do it with
                [0.0, 0.0, 2.0, 0.0],  # a place is a where
                [0.0, 0.0, 0.0, 0.0]])  # the past answers none of these  # fmt: skip

#        passes on two numbers
W_v = np.array([[3.0, 0.0], [0.0, 3.0], [1.0, 0.0], [-1.0, -2.0], [0.0, 1.0]])

q, k, v = x @ W_q, x @ W_k, x @ W_v  # (n, d), (n, d), (n, 2)
show_arrays(x=x, q=q, k=k, v=v)

# %% [markdown]
# Compare a row of $q$ with a row of $k$. *sat* asks for a who (3) and a where (2); *cat* offers a who (2), *mat* a where (2).
# The values are those of the dict above. All sizes differ on purpose: $n = 3$ words, $D = 5$, $d = 4$, values of width 2.
# $W_q$ and $W_k$ have the same width, because queries and keys meet in a dot product. $W_v$ may have any.
#
# **Predict:** whose value does *sat* take most of? And *mat*?
#
# **Step 1: dot products** of every query with every key. **Step 2: divide** by $\sqrt d = 2$. The [next chapter](02_scale.ipynb)
# asks why; here it is the temperature.

# %% tags=["hide-output"]
products = q @ k.T  # (n, d) @ (d, n) -> (n, n)
s = products / math.sqrt(k.shape[-1])  # (n, n): row i has the logits of word i
show_arrays(products=products, s=s)

# %% [markdown]
# **Step 3: softmax** along each row gives the attention weights $p$. **Step 4: the weighted sum** of the values.
# The page at the top begins with these numbers.

# %%
p = softmax(s)  # (n, n)
out = p @ v  # (n, n) @ (n, 2) -> (n, 2)
terms = [f"{w:.3f} · ({a:.0f}, {b:.0f})" for w, (a, b) in zip(p[1], v, strict=True)]
print("sat takes", " + ".join(terms), f"= ({out[1, 0]:.2f}, {out[1, 1]:.2f})")
show_arrays(p=p, sum_of_rows=p.sum(axis=-1), sum_of_columns=p.sum(axis=0), out=out)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(4.6, 3.8))
    ax.imshow(p, cmap=HEAT, vmin=0, vmax=1)
    for i, j in np.ndindex(3, 3):
        colour = "white" if p[i, j] < 0.5 else "black"
        ax.text(j, i, f"{p[i, j]:.2f}", ha="center", va="center", color=colour, fontsize=14)
    ax.set_xticks(range(3), words, fontsize=12)
    ax.set_yticks(range(3), words, fontsize=12)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(
        title="attention weights: each row sums to 1",
        xlabel="key: whose value is taken",
        ylabel="query: who takes",
    )
show_figure(
    fig, "weights", "Three by three weights: cat .11 .79 .11, sat .71 .04 .26, mat .24 .67 .09"
)

# %% [markdown]
# A row belongs to a query and sums to 1. A column belongs to a key and need not: *sat* is in demand. The picture is not symmetric:
# *mat* takes most from *sat*, but *sat* takes most from *cat*. And every word takes something from itself.
#
# Does the soft dict agree? And the library, whose `attention` does all four steps?

# %%
entries = {tuple(key): tuple(value) for key, value in zip(k, v, strict=True)}
by_dict = [soft_get(entries, query, temperature=math.sqrt(4)) for query in q]
library_out, library_p = attention(q, k, v)
print(np.allclose(out, by_dict), np.allclose(out, library_out), np.allclose(p, library_p))

# %% [markdown]
# ### Exercise `self_lookup` (write the op, ★★☆, 10 min)
#
# Write the four steps for any number of words: from tokens and three matrices to outputs and attention weights. Use
# `softmax`, which is your own. There may be a batch of sentences: any axes may come before the last two of `x`.


# %%
def self_lookup(x, W_q, W_k, W_v):
    """Shapes: x (..., n, D), W_q and W_k (D, d), W_v (D, e) -> out (..., n, e), p (..., n, n)."""
    ### BEGIN SOLUTION
    q, k = x @ W_q, x @ W_k  # (..., n, d) twice
    v = x @ W_v  # (..., n, e)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., n, n)
    p = softmax(s)  # rows sum to 1
    return p @ v, p  # (..., n, n) @ (..., n, e) -> (..., n, e)
    ### END SOLUTION


# %%
check("self_lookup", self_lookup)

# %% [markdown]
# The library's [`attention.py`](../tinyattn/ops/attention/attention.py) has the same lines, and options that later chapters need.
#
# ## What can come out?
#
# ### Exercise `zero_query` (predict the number, ★☆☆, 2 min)
#
# There are three keys, whatever they are; their values are the numbers 3, 6 and 12. The query is all zeros. What is the output?

# %%
### BEGIN SOLUTION
zero_query = 7
### END SOLUTION

# %%
check("zero_query", zero_query)

# %% [markdown]
# Attention weights are not negative and sum to 1. A sum with such weights is a **convex combination** of the values: it lies
# between them, never outside. Our three values are the corners of a triangle. We follow the three outputs from a very high
# temperature to a very low one, and send 20,000 random queries as well (`scale` is $1/\tau$):

# %%
# the three outputs at 200 temperatures, from hot to cold
taus = np.geomspace(1000, 0.01, 200)
paths = np.stack([attention(q, k, v, scale=1 / tau)[0] for tau in taus])  # (200, n, 2)

# random queries, short ones and long ones; does any answer leave the range of the values?
rng = np.random.default_rng(1)
queries = rng.standard_normal((20_000, 4)) * rng.choice([0.1, 1, 10, 100], (20_000, 1))
answers, shares = attention(queries, k, v)  # (20000, 2), (20000, n)
beyond = max((answers - v.max(axis=0)).max(), (v.min(axis=0) - answers).max())
print("is any answer beyond the extremes, by more than rounding?", bool(beyond > 1e-14))

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.0, 5.2))
    ax.fill(*v.T, color=GREY, alpha=0.15)
    ax.scatter(*answers[::40].T, s=2, color=GREY, alpha=0.5)
    ax.scatter([], [], s=12, color=GREY, label="a random query asks")
    marks = (("o", BLUE, "-"), ("s", ORANGE, "--"), ("^", GREEN, ":"))
    for i, (marker, colour, line) in enumerate(marks):
        ax.plot(*paths[:, i].T, line, color=colour, linewidth=2)
        ax.plot(*out[i], marker, color=colour, markersize=8, label=f"{words[i]} asks")
    ax.plot(*v.mean(axis=0), "x", color=INK, markersize=9, label="all values' mean")
    for (a, b), word, shift in zip(v, words, ((6, 6), (8, 4), (8, -9)), strict=True):
        ax.annotate(f"value of {word}", (a, b), xytext=shift, textcoords="offset points")
    ax.set(title="marks: outputs at √d; lines: on the way from hot to cold", xlim=(-0.4, 5.4))
    ax.set(xlabel="first number of the output", ylabel="second number", ylim=(-2.6, 4.5))
    ax.set(aspect="equal", xticks=(0, 4), yticks=(-2, 0, 4))
    ax.spines[:].set_visible(False)
    ax.legend(loc="upper left", bbox_to_anchor=(0.55, 1))
show_figure(
    fig, "triangle", "Outputs move from the middle of a triangle to a corner as it gets colder"
)

# %% [markdown]
# All paths begin at the mean of the values, and each ends in a corner: the value of the best key, as in a dict.
#
# **Predict:** if two keys tie for the best, how low must the temperature be for one of them to win?

# %% tags=["hide-output"]
tied = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # the first two match (1, 1) equally well
rows = []
for tau in (1, 0.1, 1e-6):
    answer, weights = attention(np.array([[1.0, 1.0]]), tied, v, scale=1 / tau)
    rows.append([f"{tau:g}", *weights[0], f"({answer[0, 0]:.2f}, {answer[0, 1]:.2f})"])
table("temperature | weight 1 | weight 2 | weight 3 | output", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Neither ever wins. At low temperature attention returns the mean of the values of the best keys. With one best key this is what
# `argmax` picks; at a tie `argmax` takes the first.
#
# </details>
#
# ## Where the comparison with a dict ends
#
# **Predict** each: what changes if you (1) store the entries in another order, (2) store one entry twice, (3) ask for the opposite
# of every key, (4) replace one word of the sentence?

# %% tags=["hide-output"]
# 1. keys and values in another order, and the queries as they were
order = [2, 0, 1]
print("1. another order, same outputs:", np.allclose(attention(q, k[order], v[order])[0], out))

# 2. a query of zeros matches all keys equally well; cat is entry 0
eye, zeros, doubled = np.eye(3), np.zeros((1, 3)), [0, 0, 1, 2]
once = attention(zeros, eye, v)[1][0, 0]
twice = attention(zeros, eye[doubled], v[doubled])[1][0, :2].sum()
print(f"2. cat stored once gets {once:.2f} of the weight, stored twice {twice:.2f}")

# 3. a query that points away from every key
opposite = attention(np.full((1, 3), -100.0), eye, v)[0][0]
print("3. no KeyError, but the mean of all values:", np.allclose(opposite, v.mean(axis=0)))

# 4. another word in place of "mat": which of the three outputs are no longer what they were?
other = x.copy()
other[2] = [1.0, 0.0, 0.0, 0.0, 1.0]
moved = ~np.isclose(attention(other @ W_q, other @ W_k, other @ W_v)[0], out).all(axis=-1)
print("4. whose output moves?", [word for word, yes in zip(words, moved, strict=True) if yes])

# %% [markdown]
# <details><summary>Answer</summary>
#
# The order means nothing, as in a dict. But entries stored twice count twice. Attention cannot say *not found*: only differences
# count, so "all match badly" is the same as "all match well" (here all match equally badly: hence the mean). And in self-attention every word is query, key and value, so one new
# word moves every output.
#
# </details>
#
# There is a price, too: a dict goes straight to one key, while attention compares each of $n$ queries with all $m$ keys
# ([chapter 17](17_before_attention.ipynb) counts the cost).
#
# ## Shuffle the sentence
#
# Self-attention is often said to be *permutation invariant*: shuffle the words, and the output is the same.
#
# **Predict:** is it?

# %% tags=["hide-output"]
shuffled = attention(q[order], k[order], v[order])[0]
print("invariant, the same output:", np.allclose(shuffled, out))
print("equivariant, the output in the new order:", np.allclose(shuffled, out[order]))
print("the mean over all words:", np.allclose(shuffled.mean(axis=0), out.mean(axis=0)))

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is **equivariant**: the outputs are shuffled like the words. Only what you make of all outputs without regard to order, such as their
# mean, is invariant.
#
# Why? Let the matrix $P$ shuffle rows; then queries, keys and values become $Pq$, $Pk$, $Pv$. Softmax treats each row alone
# and shuffles weights like their logits, and $P^\top P = I$. So the attention weights $p$ become
#
# $$p' = P\, p\, P^\top, \qquad p'\, (P v) = P\, p\, P^\top P\, v = P\,(p\, v) .$$
#
# </details>
#
# So attention does not know what came first. [Chapter 07](07_order.ipynb) adds that.
#
# ## Kill two bugs
#
# Some mistakes change no shape. A softmax along the wrong axis runs without an error. To catch it, write a
# *property*: a statement that is true of every correct attention, and false of the bug. You are given a function
# `attention(q, k, v) -> out, p`, and return True or False. `buggy` hands you the bug to try things on:

# %%
wrong_axis = buggy("normalises_over_keys")
show_arrays(p=wrong_axis(q, k, v)[1])

# %% [markdown]
# ### Exercise `normalises_over_keys` (write the property that kills this bug, ★★☆, 8 min)
#
# In this bug softmax runs along the queries: each *column* of the weights sums to 1. Choose your own arrays, call
# `attention`, and test something that a correct attention satisfies.


# %%
def normalises_over_keys(attention):
    """True if each query's weights sum to 1."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    out = attention(q, k, np.ones((4, 2)))[0]
    return np.allclose(out, 1)  # an average of ones is one
    ### END SOLUTION


# %%
check("normalises_over_keys", normalises_over_keys)

# %% [markdown]
# ### Exercise `reads_the_values` (write the property that kills this bug, ★★☆, 8 min)
#
# In this bug the output mixes the *keys* wherever `k` and `v` have the same shape; the values are never read. The weights are right.
# What should happen to the output if you double the values? (For given weights the output is linear in $v$. In $x$ it is not, since $x$
# also makes the weights.)


# %%
def reads_the_values(attention):
    """True if the output is made of the values."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 3))  # k and v of one shape: where the bug can hide
    return np.allclose(attention(q, k, 2 * v)[0], 2 * attention(q, k, v)[0])  # linear in v
    ### END SOLUTION


# %%
check("reads_the_values", reads_the_values)

# %% [markdown]
# | what is often said | what the cells above show |
# |---|---|
# | the score says how well a key matches | near *or long*: a query need not match best with its own key |
# | softmax follows from "only differences count" | only together with the form $f(s_j)/\sum_i f(s_i)$, and $\beta$ stays free |
# | a soft hash map | entries stored twice count twice, and nothing is ever "not found" |
# | at temperature 0 attention is `argmax` | only where the best key is alone; ties are shared |
# | self-attention is permutation invariant | it is equivariant; the mean of its outputs is invariant |
#
# ## In five lines
#
# - Attention is a dict that compares the query with every key, and returns an average of all values.
# - The logit $q \cdot k$ rewards a key that is near and a key that is long.
# - Softmax turns logits into weights: a lead of $\Delta$ is a factor of $e^{\Delta/\tau}$.
# - The output lies between the values: their mean for a zero query, close to the best key's value at a low temperature.
# - In self-attention each token makes its own query, key and value; shuffled tokens give shuffled outputs.
#
# To read: sections 3.2 and 3.2.1 of [Vaswani et al. 2017](https://arxiv.org/abs/1706.03762). Next: [02, why √d](02_scale.ipynb), where the
# number that we divided by without a reason gets one.
