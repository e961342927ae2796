# %% [markdown]
# # 01 · Attention as soft look-up
#
# A dictionary answers when you know the key, exactly. Ask it for anything else, however near, and it has nothing to
# say. **What should it answer when no key matches exactly, and every key matches a bit?**
#
# There is a good answer. It takes five lines, it is this formula, and at the end of the chapter you will have written
# it, watched every number in it for three words, and taken apart the pictures it is usually explained with:
#
# $$\text{attention}(Q, K, V) = \text{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V
# \qquad \text{(Vaswani et al. 2017, equation 1)}$$
#
# "A soft hash map", "a library", "a database", a classroom: each of them is exact somewhere, and wrong somewhere. We shall
# compute where. (They stand, as everything quoted here, in the texts that this course set out from: a note, a tutorial, an encyclopedia's
# page, a write-up of a recommender. We call them *our sources*, and believe them when the numbers do.)
#
# You need: the dot product, matrix products, and what a Python `dict` does.

# %%
import math

import numpy as np

from tinyattn.course import check, show_arrays, show_figure, table
from tinyattn.layers import multi_head_attention
from tinyattn.ops import attention, softmax
from tinyattn.show import attention_map, figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE

# %% [markdown]
# ## A look-up that knows yes and no
#
# Three words, each with a *value*: two numbers, whatever they may mean.

# %%
content = {"cat": (4.0, 0.0), "sat": (0.0, 4.0), "mat": (0.0, -2.0)}
print("content['cat'] =", content["cat"])
print("is there a 'kitten'?", "kitten" in content)

# %% [markdown]
# To us a kitten is nearly a cat. To a dict it is nothing: keys are equal or they are not. Nor does it help to make keys
# of numbers, so that there is a "nearly":

# %%
by_place = {(1.0, 0.0): "cat", (0.0, 1.0): "sat"}
print((1.0, 0.0) in by_place, (1.000001, 0.0) in by_place)

# %% [markdown]
# ## The same look-up, as a matrix product
#
# Give each word its own axis: keys are *one-hot* vectors, one a row. Then $q \cdot k_j$ is 1 where the query *is* the
# key, and 0 elsewhere, and the look-up is a sum over all entries:
#
# $$\text{out} = \sum_j 1[q = k_j]\; v_j = \sum_j (q \cdot k_j)\, v_j , \qquad \text{out} = q K^\top V .$$

# %%
words = ["cat", "sat", "mat"]
K = np.eye(3)  # (m, d_k): a key a row
V = np.array([content[word] for word in words])  # (m, d_v): a value a row
q = np.array([0.0, 1.0, 0.0])  # (d_k,): asks for "sat"
show_arrays(q=q, K=K, V=V, matches=q @ K.T, out=q @ K.T @ V)

# %% [markdown]
# That is a dict, exactly: three look-ups at once give the three values.

# %%
np.array_equal(np.eye(3) @ K.T @ V, [content[word] for word in words])

# %% [markdown]
# Now nothing stands in the way of a query that is none of the keys. All we need is (1) a number for *how well* a key
# matches, and (2) weights made of these numbers. One after the other.
#
# ## 1. How well does a key match?
#
# By the dot product $q \cdot k$: large where both point the same way, 0 where they have nothing in common, negative
# where they point apart. **Predict before you run:** the query below is *equal* to the first key. Which key matches best?

# %%
k = np.array([[1.0, 0.0], [3.0, 1.0], [0.0, 1.0]])  # (m, d_k)
q = np.array([1.0, 0.0])  # (d_k,): the first key itself
rows = []
for key in k:
    distance = np.linalg.norm(q - key)
    rows.append([f"({key[0]:.0f}, {key[1]:.0f})", q @ key, distance, np.linalg.norm(key)])
table("key | q·k | distance to q | length of the key", rows)

# %% [markdown]
# Not the key that is the query: the second, which is *longer*. Here is why:
#
# $$q \cdot k = \tfrac12\left(\lVert q\rVert^2 + \lVert k\rVert^2 - \lVert q - k\rVert^2\right)$$
#
# A key gains by being near, and by being long. Only where all keys are of the same length does "the largest
# dot product" mean "the nearest key". One-hot keys are; others need not be: a key's direction says *what it is*, its
# length *how loud it says so*. (Graves et al. 2014, equation 6, who looked things up in a memory this way three years before
# the Transformer, divided by both lengths. The Transformer does not.)

# %%
unit = k / np.linalg.norm(k, axis=-1, keepdims=True)  # the same directions, all of length 1
print("with keys of length 1 the best match is the nearest key:", int(np.argmax(unit @ q)) == 0)
identity = (q @ q + (k * k).sum(axis=-1) - ((q - k) ** 2).sum(axis=-1)) / 2
print("and the identity holds:", np.allclose(k @ q, identity))

# %% [markdown]
# ## 2. From scores to weights
#
# A score $s_j$ is any number. A weight must be positive, and all of a query's weights must sum to 1, so that we can
# speak of shares. Why not divide every score by their sum? **Predict** what that gives for the scores 2, -1, -1.
#
# It divides by zero. And where it does not, it may give negative shares. So make the scores positive first, by some
# function $f$, and divide then: $w_j = f(s_j) / \sum_i f(s_i)$. Which $f$? Ask for one thing more: *only differences
# count*. If all scores rise by the same $c$, no key has gained on another, and no weight may change:
#
# $$\frac{f(s + c)}{f(t + c)} = \frac{f(s)}{f(t)} \quad\text{for all } s, t, c .$$
#
# Put $t = 0$ and $g = f / f(0)$: then $g(s + c) = g(s)\, g(c)$. The only continuous positive functions that turn sums into
# products are $g(s) = e^{\beta s}$. So the weights are
#
# $$w_j = \frac{e^{\beta s_j}}{\sum_i e^{\beta s_i}} ,$$
#
# **softmax**, and nothing was chosen but $\beta$, which is positive if a better match is to weigh more. Four candidates on the same scores, before
# and after all rise by 1:

# %%
s = np.array([0.0, 1.0, 2.0])
rows = []
for name, f in (
    ("s itself", lambda s: s),
    ("s squared", np.square),
    ("exp(s)", np.exp),
    ("exp(2 s)", lambda s: np.exp(2 * s)),
):
    before, after = f(s) / f(s).sum(), f(s + 1) / f(s + 1).sum()
    shown = [" ".join(f"{w:.2f}" for w in weights) for weights in (before, after)]
    rows.append([name, *shown, "yes" if np.allclose(before, after) else "no"])
table("f | weights of 0, 1, 2 | of 1, 2, 3 | the same?", rows)

# %% [markdown]
# Remember the row 0.09, 0.24, 0.67: in a moment you will meet it again. And remember how to read a weight: **a lead of
# $\Delta$ over another key is a weight $e^{\beta \Delta}$ times as large.** $1/\beta$ is called the *temperature* $\tau$:
# cold weights are decided, hot ones are even.
#
# ### Exercise `nine_tenths` (predict the number, ★★☆, 5 min)
#
# There are two keys, and one leads by 2. At temperature 1 it gets 88 % of the weight. At which temperature does it get 90 %?
# On paper; two digits are enough.

# %%
### BEGIN SOLUTION
nine_tenths = 2 / math.log(0.9 / 0.1)
### END SOLUTION

# %%
check("nine_tenths", nine_tenths)

# %% [markdown]
# ## A soft dict, in plain Python
#
# Everything is there. No matrices, and no library: a dict whose keys are tuples of numbers, and three lines that count.


# %%
def soft_get(entries, query, temperature=1.0):
    """The value of every key, weighted by how well the key matches."""
    total, out = 0.0, None
    for key, value in entries.items():
        score = sum(a * b for a, b in zip(query, key, strict=True))
        w = math.exp(score / temperature)
        total += w
        out = [w * x + y for x, y in zip(value, out or [0.0] * len(value), strict=True)]
    return [y / total for y in out]


entries = {(1.0, 0.0, 0.0): (4.0, 0.0), (0.0, 1.0, 0.0): (0.0, 4.0), (0.0, 0.0, 1.0): (0.0, -2.0)}
for temperature in (1.0, 0.2, 0.05):
    out = soft_get(entries, (0.9, 0.2, 0.0), temperature)  # a kitten: a cat, nearly
    print(f"at temperature {temperature:4}: ({out[0]:.2f}, {out[1]:.2f})")

# %% [markdown]
# The kitten gets an answer, and the colder, the nearer to the cat's.
#
# ## Soft, but what for?
#
# We could also have taken the key with the largest score and its value, and be done. Let us do both: a query turns from
# the key of *cat*, at 0°, to that of *sat*, at 90°, and we write down the first number of its answer (*cat* has 4, *sat* 0).
# **Predict** the two curves before you look.

# %%
degrees = np.arange(0.25, 90, 0.5)  # (180,): in steps of half a degree, and never a tie
turning = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=-1)
pair = {(1.0, 0.0): content["cat"], (0.0, 1.0): content["sat"]}
best = np.argmax(turning @ np.array(list(pair)).T, axis=-1)  # (180,): the number of the best key
hard = np.array(list(pair.values()))[best, 0]
soft = {
    tau: np.array([soft_get(pair, query, tau)[0] for query in turning]) for tau in (0.05, 0.25, 1)
}

rows = [["hard", f"{np.mean(np.diff(hard) == 0):.1%}", np.max(np.abs(np.diff(hard)))]]
for tau, out in soft.items():
    steps = np.abs(np.diff(out))
    rows.append([f"soft, temperature {tau:g}", f"{np.mean(steps == 0):.1%}", np.max(steps)])
table("look-up | steps in which nothing moves | largest step", rows, digits=2)

# %% tags=["hide-input"]
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
# The hard look-up is flat, jumps once, and is flat again. Where it is flat its derivative is 0: move the query a little,
# and the answer stays as it is. A gradient that is 0 teaches nobody to ask better. The soft one answers every small change of
# the query with a small change. That is what the exponentials buy: not better answers, but questions that can be learned.
#
# ## Three words, slowly
#
# In **self**-attention nobody hands us queries, keys and values: each word makes all three of them, from what it is. Let a
# word be a token $x$ of $d_{model} = 5$ numbers, and multiply it by three matrices:
#
# $$Q = X W_Q, \qquad K = X W_K, \qquad V = X W_V .$$
#
# A model learns these matrices. We write them by hand, so that every number can be read. The five numbers of a token say
# whether it is *living*, an *action*, a *thing*, a *place*, in the *past*:

# %%
#              living action thing place past
X = np.array([[1.0, 0.0, 1.0, 0.0, 0.0],  # cat: a living thing
              [0.0, 1.0, 0.0, 0.0, 1.0],  # sat: an action in the past
              [0.0, 0.0, 1.0, 1.0, 0.0]])  # mat: a thing, and a place  # fmt: skip

#         asks for:  who  what  where  with what
W_Q = np.array([[0.0, 1.0, 0.0, 0.0],  # who lives asks: what does it do?
                [2.0, 0.0, 1.0, 0.0],  # an action asks: who? and where?
                [0.0, 1.0, 0.0, 0.0],  # a thing asks: what happens to it?
                [1.0, 1.0, 0.0, 0.0],  # a place asks: who is here, doing what?
                [1.0, 0.0, 1.0, 0.0]])  # the past asks: who, and where?  # fmt: skip

#          answers:  who  what  where  with what
W_K = np.array([[2.0, 0.0, 0.0, 0.0],  # who lives is a who
                [0.0, 2.0, 0.0, 0.0],  # an action is a what
                [0.0, 0.0, 0.0, 1.0],  # a thing is something to do it with
                [0.0, 0.0, 2.0, 0.0],  # a place is a where
                [0.0, 0.0, 0.0, 0.0]])  # the past answers nothing here  # fmt: skip

#        hands over two numbers
W_V = np.array([[3.0, 0.0], [0.0, 3.0], [1.0, 0.0], [-1.0, -2.0], [0.0, 1.0]])

Q, K, V = X @ W_Q, X @ W_K, X @ W_V  # (n, d_k), (n, d_k), (n, d_v)
show_arrays(X=X, Q=Q, K=K, V=V)

# %% [markdown]
# Read a row of $Q$ beside a row of $K$. *sat* asks for a who (3) and a where (2); *cat* offers a who (2), *mat* a where (2).
# The values are those of the dict above. **Predict before you run:** of whom does *sat* take most? Of whom does *mat*?
#
# (All sizes differ on purpose: $n = 3$ words, $d_{model} = 5$, $d_k = 4$, $d_v = 2$. One of our sources gives all three matrices
# the shape $(d_{model}, d_k)$. $W_Q$ and $W_K$ must agree, since their results meet in a dot product. $W_V$ need not.)
#
# **Step 1, dot products.** Every query with every key: row $i$ holds what word $i$ thinks of each word.

# %%
raw = Q @ K.T  # (n, d_k) @ (d_k, n) -> (n, n)
show_arrays(raw=raw)

# %% [markdown]
# **Step 2, scale.** Divide by $\sqrt{d_k} = 2$. Why just this number is the question of the [next chapter](02_scale.ipynb);
# here, see it as the temperature.

# %%
s = raw / math.sqrt(K.shape[-1])  # (n, n)
show_arrays(s=s)

# %% [markdown]
# **Step 3, softmax**, along each row. In the row of *mat* are the scores 1, 2, 0: old acquaintances.

# %%
e = np.exp(s)  # (n, n)
total = e.sum(axis=-1, keepdims=True)  # (n, 1): one a query
weights = e / total  # (n, n)
show_arrays(e=e, total=total, weights=weights, sums=weights.sum(axis=-1))

# %% [markdown]
# **Step 4, weighted sum** of the value rows:

# %%
out = weights @ V  # (n, n) @ (n, d_v) -> (n, d_v)
terms = [f"{w:.3f} · ({v[0]:.0f}, {v[1]:.0f})" for w, v in zip(weights[1], V, strict=True)]
print("sat takes", " + ".join(terms), f"= ({out[1, 0]:.2f}, {out[1, 1]:.2f})")
show_arrays(out=out)

# %%
show_figure(
    attention_map(weights, words, "who looks at whom"),
    "weights",
    "Three by three weights: cat and mat look at sat most, sat looks at cat",
)

# %% [markdown]
# (The brighter, the more; one head of one layer is all there is.) A row is a query and sums to 1. A column is a key, and need
# not: *sat* is in demand. Nor is the picture symmetric: asking is not being asked. And look at the diagonal: every word takes of
# itself, too. One source says that a word looks at every *other* one, another "including itself". Including itself it is:

# %%
print("symmetric?", np.allclose(weights, weights.T))
show_arrays(sums_of_columns=weights.sum(axis=0), diagonal=np.diag(weights))

# %% [markdown]
# Is it the soft dict of above? One dict of three entries, three queries, the same temperature:

# %%
entries = {tuple(key): tuple(value) for key, value in zip(K, V, strict=True)}
by_dict = [soft_get(entries, query, temperature=math.sqrt(4)) for query in Q]
np.allclose(out, by_dict)

# %% [markdown]
# And is it the library's? Its `attention` is one function for all four steps, and its layer makes $Q$, $K$ and $V$ as well:

# %%
ours, our_weights = attention(Q, K, V)
W = {"query": {"W": W_Q}, "key": {"W": W_K}, "value": {"W": W_V}}
layer = multi_head_attention(W, X, X, heads=1)[0]
print(np.allclose(out, ours), np.allclose(weights, our_weights), np.allclose(out, layer))

# %% [markdown]
# ### The library at work
#
# `trace` runs any function of the library and keeps every value that gets a name on the way.

# %%
t = trace(attention, Q, K, V)
print(t)

# %% [markdown]
# Our sources have a table of four steps. Where are they in these lines?
#
# | the sources' step | operation | ours | in the library |
# |---|---|---|---|
# | 1. dot product | $Q K^\top$ | `raw` | has no name: see step 2 |
# | 2. scaling | divide by $\sqrt{d_k}$ | `s` | `s = (q * c) @ transpose_last(k)`: queries are scaled *before* the product |
# | 3. softmax | over each row | `e`, `total`, `weights` | four lines: subtract each row's largest score, exp, sum, divide |
# | 4. weighted sum | multiply by $V$ | `out` | `out` |
#
# The same four, and two differences. Scaling queries takes $n\,d_k$ multiplications, scaling scores $n^2$: for our three words 12
# against 9, which is no gain; for a thousand words it is one. And from each row its largest score is taken before the
# exponential: since only differences count, the weights are the same, and $e^{1000}$ never happens.

# %%
rows = [
    ["s", "scores", np.allclose(t["s"], s)],
    ["row_max", "a row's largest score", np.allclose(t["row_max"], s.max(axis=-1, keepdims=True))],
    [
        "p, after exp",
        "e, each row by its largest",
        np.allclose(t.all("softmax.p")[1].value, e / np.exp(t["row_max"])),
    ],
    ["denominator", "of those", np.allclose(t["denominator"], total / np.exp(t["row_max"]))],
    ["weights", "weights", np.allclose(t["weights"], weights)],
    ["out", "out", np.allclose(t["out"], out)],
]
table("in the trace | by hand | equal", [[a, b, str(c)] for a, b, c in rows])

# %% [markdown]
# ## What can come out?
#
# ### Exercise `zero_query` (predict the number, ★☆☆, 2 min)
#
# Three keys, whatever they are; their values are the numbers 3, 6 and 12. Somebody asks with a query of zeros. What
# is the output?

# %%
### BEGIN SOLUTION
zero_query = 7
### END SOLUTION

# %%
check("zero_query", zero_query)

# %% [markdown]
# Weights are not negative and sum to 1. A sum with such weights is a **convex combination**: it lies in the smallest convex
# set around the values, and never outside. In each coordinate,
#
# $$\min_j v_{jc} = \sum_i w_i \min_j v_{jc} \;\le\; \sum_i w_i v_{ic} \;\le\; \sum_i w_i \max_j v_{jc} = \max_j v_{jc} .$$
#
# Our three values are the corners of a triangle. Let the temperature go from very hot to very cold, and follow the three outputs:

# %%
taus = np.geomspace(1000, 0.01, 200)
paths = np.stack([attention(Q, K, V, scale=1 / tau)[0] for tau in taus])  # (200, n, d_v)

rng = np.random.default_rng(1)
many = rng.standard_normal((20_000, 4)) * rng.choice([0.1, 1, 10, 100], (20_000, 1))
answers, shares = attention(many, K, V)  # (20000, d_v), (20000, n): anybody may ask, loudly
beyond = max((answers - V.max(axis=0)).max(), (V.min(axis=0) - answers).max())
print("is any of 20,000 answers beyond the extremes, by more than rounding?", bool(beyond > 1e-14))

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.0, 4.0))
    ax.fill(*V.T, color=GREY, alpha=0.15)
    ax.scatter(*answers[::10].T, s=2, color=GREY, alpha=0.5)
    marks = (("o", BLUE, "-"), ("s", ORANGE, "--"), ("^", GREEN, ":"))
    for i, (marker, colour, line) in enumerate(marks):
        ax.plot(*paths[:, i].T, line, color=colour, linewidth=2)
        ax.plot(*out[i], marker, color=colour, markersize=8, label=f"{words[i]} asks")
    ax.plot(*V.mean(axis=0), "x", color="black", markersize=9, label="all values' mean")
    for (x, y), word, shift in zip(V, words, ((6, 6), (8, 4), (8, -9)), strict=True):
        ax.annotate(f"value of {word}", (x, y), xytext=shift, textcoords="offset points")
    ax.set(title=r"outputs at $\sqrt{d_k}$, and on the way from hot to cold", xlim=(-0.4, 5.4))
    ax.set(xlabel="first number", ylabel="second number", ylim=(-2.6, 4.5))
    ax.legend(loc="upper right")
show_figure(
    fig, "triangle", "Outputs move from the middle of a triangle to a corner as it gets colder"
)

# %% [markdown]
# All paths begin in the middle, and each ends in a corner; the answers to others (grey) lie in the triangle, too. And where
# exactly in it? A point in a triangle has *barycentric coordinates*: how much of each corner. Compute them from
# `out` alone, without attention, and you get the weights back:

# %%
corners = np.vstack([V.T, np.ones(3)])  # (3, 3): coordinates of the corners, and "they sum to 1"


def coordinates(points):
    """How much of each corner: (..., 2) -> (..., 3)."""
    return np.linalg.solve(corners, np.vstack([points.T, np.ones(len(points))])).T


print("coordinates in the triangle are the weights:", np.allclose(coordinates(out), weights))
print("of all 20,000, too:", np.allclose(coordinates(answers), shares))

# %% [markdown]
# ### Both ends of the temperature
#
# Hot, all weights are equal and the output is the mean of all values; a query of zeros does the same at any temperature. Cold,
# the output should be $V[\text{argmax}]$, the value of the best key: the dict again. **Predict before you run:** is it ever
# *exactly* so, or only in the limit?

# %%
chosen = V[np.argmax(Q @ K.T, axis=-1)]  # (n, d_v): the value of each query's best key
print("Q = 0 gives the mean:", np.allclose(attention(0 * Q, K, V)[0], V.mean(axis=0)))
rows = []
for tau in (1e9, 2, 1, 0.1, 0.01, 0.002):
    out_tau, w = attention(Q, K, V, scale=1 / tau)
    exactly = "yes" if np.array_equal(out_tau, chosen) else "no"
    rows.append([f"{tau:g}", w.max(axis=-1).min(), np.abs(out_tau - chosen).max(), exactly])
table(
    "temperature | least decided query's largest weight | off V[argmax] by | exactly V[argmax]?",
    rows,
)

# %% [markdown]
# On paper, in the limit only. In a computer, exactly, at the latest when all other exponentials underflow to 0. (At 0.1 the largest weight
# *prints* as 1.00, and is not.) How large must a lead be for that? A float64 holds no positive number below about $5 \cdot 10^{-324}$:

# %%
least_lead = next(lead for lead in range(1000) if math.exp(-lead) == 0)
print(
    f"exp(-{least_lead}) is 0, and every lead here is at least 2: so below temperature {2 / least_lead:.4f}"
)

# %% [markdown]
# And there is a condition that "argmax" passes over in silence. **Predict:** two keys tie, how cold must it be for one of them
# to win?

# %%
tied = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # the first two match (1, 1) alike
rows = []
for tau in (1, 0.01, 1e-6):
    answer, w = attention(np.array([[1.0, 1.0]]), tied, V, scale=1 / tau)
    rows.append([f"{tau:g}", *w[0], f"({answer[0, 0]:.2f}, {answer[0, 1]:.2f})"])
first = V[np.argmax(tied @ [1.0, 1.0])]
print(f"V[argmax] is ({first[0]:.2f}, {first[1]:.2f})")
table("temperature | weight 1 | weight 2 | weight 3 | output", rows)

# %% [markdown]
# Never. Cold softmax goes to the *mean of the best*: it is $V[\text{argmax}]$ where the best is alone. `argmax` takes the first
# of equals; softmax has no first.
#
# ## The analogies on trial
#
# ### "A soft hash map"
#
# Two things fit exactly: what is matched (the key) is apart from what is returned (the value), and the order in which
# entries were stored does not matter.

# %%
order = [2, 0, 1]
print("keys and values in another order:", np.allclose(attention(Q, K[order], V[order])[0], out))

# %% [markdown]
# Now the rest. **Predict** each before you run. *One:* in a dict, store an entry twice, and it is there once. Here?
# *Two:* what does attention answer to a question that is opposed to everything it holds, instead of a `KeyError`?
# *Three:* a dict of 1,000 keys compares the query with how many of them? Attention?


# %%
class Counting:
    """A key that counts how often it is compared."""

    compared = 0

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        Counting.compared += 1
        return self.number == other.number


eye, nothing = np.eye(3), np.zeros((1, 3))
once = attention(nothing, eye, V)[1][0]
twice = attention(nothing, eye[[0, 0, 1, 2]], V[[0, 0, 1, 2]])[1][0]
print(f"one: cat stored once gets {once[0]:.2f}, stored twice {twice[:2].sum():.2f}")

opposed = attention(np.full((1, 3), -100.0), eye, V)[0][0]
print(
    "two: asked for the opposite of all, it answers with the mean:",
    np.allclose(opposed, V.mean(axis=0)),
)

shelf = {Counting(i): i for i in range(1000)}
found = shelf[Counting(500)]
scores = attention(np.ones((1, 4)), np.ones((1000, 4)), np.ones((1000, 1)))[1]
print(f"three: the dict made {Counting.compared} comparison, attention {scores.size:,}")

# %% [markdown]
# A hash map goes straight to one key, and can do so because it knows nothing of "near": that is how it lost its cat over a
# millionth. A soft look-up lives on "near", so it must look at all. With $n$ queries that is $n \cdot m$ scores, the price that
# [chapters 00 and 14](README.md) are about.
#
# Nor can a soft map say *nothing found*. Only differences count, so "all of them match badly" is the same as "all match
# alike". Weights sum to 1, and somebody gets them.
#
# One more rule of a hash map does fit: every key has its value. (A source gives keys and values lengths of their own, `seq_len_k` and
# `seq_len_v`. They must be equal.)

# %%
try:
    attention(Q, K, V[:2])
except ValueError as error:
    print(error)

# %% [markdown]
# ### "A library"
#
# *The query is a reader's question, the key the label on a book's spine, the value its content.* What fits: changing what is in
# the books changes nothing about which are taken. What does not fit, in three computations:

# %%
rewritten = attention(Q, K, np.flipud(V) * 7 - 1)
print("new contents, the same weights:", np.allclose(rewritten[1], weights))

is_a_book = [bool(np.any(np.all(np.isclose(row, V), axis=-1))) for row in out]
print("is what each reader takes home a book of the library?", is_a_book)

other = X.copy()
other[2] = [1.0, 0.0, 0.0, 0.0, 1.0]  # another word in place of "mat"
moved = ~np.isclose(attention(other @ W_Q, other @ W_K, other @ W_V)[0], out).all(axis=-1)
print(
    "one word is replaced; whose output moves?", [w for w, m in zip(words, moved, strict=True) if m]
)

A = np.array(
    [[1.0, 2.0, 0.0, 0.0], [0.0, 1.0, 3.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]]
)
relabelled = attention(Q @ A, K @ np.linalg.inv(A).T, V)[1]
print("other labels, other questions, the same weights:", np.allclose(relabelled, weights))

# %% [markdown]
# - Nobody goes home with 71 % of one book and 26 % of another. The output is a *mixture*, and in general no book of the
#   library at all.
# - In self-attention the books are the readers. A word's row makes its question, its label and its content, so replace one word,
#   and everybody's output moves, that of *cat* as well.
# - A label on a spine means something. A key alone does not: take any invertible $A$, and $(QA)(KA^{-\top})^\top = QK^\top$. Labels
#   and questions have meaning for each other only. Whoever reads a meaning into one number of a key, reads it into an
#   accident. (That we could, above, is because we wrote the matrices.)
#
# ### "A database"
#
# *The key is a label in the database, the value its content.* What fits is one query language statement, and it is not
# `SELECT ... WHERE`. It is an average: with $Q = 0$, `AVG(value)`, and in general a *weighted* average over **all** rows. With
# finite scores no weight is 0, on paper:

# %%
print(
    f"least weight of our nine: {weights.min():.3f}; are all positive?", bool((weights > 0).all())
)

# %% [markdown]
# `WHERE` would make some exactly 0: that is a *mask*, and it has [a chapter of its own](04_masks.ipynb). Statistics knows this average
# since 1964 (Nadaraya; Watson): estimate a value at $q$ from the values measured at $k_j$, weighted by a bell around
# $q$. Where all keys have one length, it is attention, number for number:

# %%
places = np.random.default_rng(2).standard_normal((6, 3))
places /= np.linalg.norm(places, axis=-1, keepdims=True)  # (m, d): of length 1
measured = np.random.default_rng(3).standard_normal((6, 2))
at = np.array([[0.3, -0.4, 1.2]])
bell = np.exp(-((at - places) ** 2).sum(axis=-1) / (2 * 0.5))  # (m,): a bell of variance 0.5
kernel_regression = bell @ measured / bell.sum()
print(np.allclose(attention(at, places, measured, scale=1 / 0.5)[0][0], kernel_regression))

# %% [markdown]
# ### A classroom
#
# For children the encyclopedia has a class: the teacher asks something, every pupil rates how helpful each of the others would
# be, and collects a bit of knowledge from all of them, most from whom it rated highest. What fits: everybody asks and is asked,
# and whom I find helpful need not find me so (our picture is not symmetric). **Predict** what does not. *One:* what do the
# pupils go home with if they all have the teacher's one question? *Two:* does it matter that nobody asks himself?
# *Three:* and if they go round one after the other, so that each passes on what it has just collected?

# %%
one_question = attention(Q[[1, 1, 1]], K, V)[0]
print("one: all ask what sat asks; do all get what sat gets?", np.allclose(one_question, out[1]))

others = [attention(Q[[i]], np.delete(K, i, 0), np.delete(V, i, 0))[0][0] for i in range(3)]
print("two: only the others are asked; is it the same?", np.allclose(others, out))

in_turn = V.copy()
for i in range(3):
    in_turn[i] = attention(Q[[i]], K, in_turn)[0][0]  # from now on, this is what it passes on
same = np.isclose(in_turn, out).all(axis=-1)
print("three: in turn; who gets the same?", [w for w, s in zip(words, same, strict=True) if s])

# %% [markdown]
# - With one question there is one answer, for all. In self-attention each word has a question of its *own*.
# - A word is among its own helpers, as we saw on the diagonal.
# - All collect at once, and only what everybody brought along that morning. To pass on what was collected takes a second
#   layer.
#
# | analogy | fits exactly | breaks |
# |---|---|---|
# | hash map, dict | key apart from value; order of entries is nothing; one best key, cold enough: $V[\text{argmax}]$ | repeated entries add up; never "not found"; ties are shared; all $m$ keys are compared |
# | library | contents do not change who is chosen | the answer is no book; readers are the books; labels mean nothing by themselves |
# | database | $Q = 0$ is `AVG`; softmax is a weighted `AVG` | no `WHERE`: every row counts, and there is always an answer |
# | classroom | all ask, and are asked; helping is not mutual | each has a question of its own, asks itself, too, and all at once |
#
# ## Shuffle the sentence
#
# "The cat sat on the mat", and, in one of our sources, "Mat the on sat cat the". It says that self-attention "cannot
# distinguish" the two, being "permutation invariant (or, more precisely, permutation equivariant)". Which is it?
# *Invariant* would be: the same output. *Equivariant*: the output is shuffled the same way. **Predict**, then derive.
#
# Let $P$ be the matrix that shuffles rows. Then $(PX)W = P(XW)$: queries, keys and values are shuffled. The scores $S = QK^\top$
# (a constant factor changes nothing here) get their rows *and* columns shuffled. So do the weights $A$: softmax treats each row on
# its own, and does not care about the order in it. And $P^\top P = I$:
#
# $$S' = (PQ)(PK)^\top = P S P^\top, \qquad A' = P A P^\top, \qquad A' V' = P A P^\top P V = P\,(A V) .$$

# %%
sentence = ["the", "cat", "sat", "on", "the", "mat"]
shuffle = [5, 4, 3, 2, 1, 0]  # "mat the on sat cat the"
rng = np.random.default_rng(6)
vocabulary = {word: rng.standard_normal(8) for word in dict.fromkeys(sentence)}
W_q, W_k = rng.standard_normal((2, 8, 4)) / math.sqrt(8)
W_v = rng.standard_normal((8, 3))


def f(x):
    """Self-attention, (n, 8) -> (n, 3), and its weights (n, n)."""
    return attention(x @ W_q, x @ W_k, x @ W_v)


x = np.stack([vocabulary[word] for word in sentence])  # (6, 8)
y, A = f(x)
y_shuffled, A_shuffled = f(x[shuffle])
rows = [
    ["the same output: f(Px) = f(x), invariant", np.allclose(y_shuffled, y)],
    ["the output shuffled: f(Px) = P f(x), equivariant", np.allclose(y_shuffled, y[shuffle])],
    ["weights: rows and columns shuffled", np.allclose(A_shuffled, A[shuffle][:, shuffle])],
    ["both 'the' get one output", np.allclose(y[0], y[4])],
    [
        "the mean over all words is the same: invariant",
        np.allclose(y_shuffled.mean(axis=0), y.mean(axis=0)),
    ],
]
table("claim | true?", [[claim, str(true)] for claim, true in rows])

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 2, size=(8.0, 3.8))
    titles = ("the cat sat on the mat", "mat the on sat cat the")
    for ax, shown, order, title in zip(
        axes, (A, A_shuffled), (range(6), shuffle), titles, strict=True
    ):
        names = [sentence[i] for i in order]
        image = ax.imshow(shown, cmap="cividis", vmin=0, vmax=A.max())
        ax.set_xticks(range(6), names, rotation=90)
        ax.set_yticks(range(6), names)
        ax.set(title=title, xlabel="key: looked at")
    axes[0].set_ylabel("query: looking")
    fig.colorbar(image, ax=list(axes), label="weight")
show_figure(
    fig,
    "shuffle",
    "Two heat maps of weights: the second is the first with rows and columns reversed",
)

# %% [markdown]
# **Equivariant.** The picture on the right is the left one turned by half a circle. Each word gets the same output wherever it stands;
# *invariant* is only what you make of all outputs together without order, as their mean. ("The same" is up to rounding: sums are added in another
# order.) What the source means is right, though: as a *bag* of outputs, the two sentences are one, and *who* sat on *what* is lost.
# The remedy is to say where a word stands: add a vector to each place. Random ones break the tie already; which are good is
# the matter of [chapter 06](README.md).

# %%
place = rng.standard_normal((6, 8))  # one vector a place, whoever stands there
y_placed = f(x + place)[0]
y_placed_shuffled = f(x[shuffle] + place)[0]  # the words are shuffled, the places are not
print("still only shuffled?", np.allclose(y_placed_shuffled, y_placed[shuffle]))
print("do the two 'the' still get one output?", np.allclose(y_placed[0], y_placed[4]))

# %% [markdown]
# ## "Still a linear model"
#
# So another source sums up self-attention, to explain why a network needs something else beside it. Softmax is not linear. So
# who is right? A function is linear if multiples and sums of inputs give the same multiples and sums of outputs. **Predict before you
# run:** linear in what?

# %%
q, k, v = x @ W_q, x @ W_k, x @ W_v
v_too = np.random.default_rng(7).standard_normal(v.shape)
x_too = np.random.default_rng(8).standard_normal(x.shape)
mix = attention(q, k, v + 3 * v_too)[0]
rows = [
    ["V", "V → 2 V", np.allclose(attention(q, k, 2 * v)[0], 2 * y)],
    ["V", "V → V + 3 V'", np.allclose(mix, y + 3 * attention(q, k, v_too)[0])],
    ["Q", "Q → 2 Q", np.allclose(attention(2 * q, k, v)[0], 2 * y)],
    ["K", "K → 2 K", np.allclose(attention(q, 2 * k, v)[0], 2 * y)],
    ["X", "X → 2 X", np.allclose(f(2 * x)[0], 2 * y)],
    ["X", "X → X + 3 X'", np.allclose(f(x + 3 * x_too)[0], y + 3 * f(x_too)[0])],
]
table(
    "linear in | input | does the output follow?",
    [[a, b, "yes" if c else "no"] for a, b, c in rows],
)

# %% [markdown]
# **Linear in the values, for given weights. Not linear in the words.** Doubling $X$ doubles $V$, and makes every score *four* times as
# large: the same as a quarter of the temperature.

# %%
print(
    "f(2X) is 2 V at a quarter of the temperature:",
    np.allclose(f(2 * x)[0], attention(q, k, 2 * v, scale=4 / 2)[0]),
)
print(
    "without questions, W_Q = 0, it is the mean of V, and that is linear in X:",
    np.allclose(attention(0 * q, k, v)[0], x.mean(axis=0) @ W_v),
)

# %% [markdown]
# What the sentence wants to say is worth having: *what is passed on* undergoes nothing but averaging. Attention decides who
# hears whom, and cannot change what is said. That is the feed-forward network's part (chapter 07).
#
# ## Build it
#
# ### Exercise `self_lookup` (write the op, ★★☆, 10 min)
#
# Self-attention in five lines: from tokens and three matrices to outputs and weights. Use `softmax`, the library's. There may be
# a batch: any axes may stand before the last two of `x`.


# %%
def self_lookup(x, W_q, W_k, W_v):
    """Shapes: x (..., n, D), W_q and W_k (D, d), W_v (D, e) -> out (..., n, e), weights (..., n, n)."""
    ### BEGIN SOLUTION
    q, k = x @ W_q, x @ W_k  # (..., n, d) twice
    v = x @ W_v  # (..., n, e)
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., n, n)
    weights = softmax(s)  # rows sum to 1
    return weights @ v, weights  # (..., n, n) @ (..., n, e) -> (..., n, e)
    ### END SOLUTION


# %%
check("self_lookup", self_lookup)

# %% [markdown]
# The library's own is [`tinyattn/ops/attention.py`](../tinyattn/ops/attention.py): no more lines than yours, but for options that
# later chapters need.
#
# ## Kill two bugs
#
# Four steps leave room for mistakes that no shape gives away. With $n = m$, a softmax along the wrong axis runs as if nothing were wrong. Write a
# *property*: a statement that is true of every right attention, and false where the bug is. You are given a function
# `attention(q, k, v) -> out, weights`, and return True or False. You may not write attention again: that would only compare two
# opinions.
#
# ### Exercise `normalises_over_keys` (write the property that kills this bug, ★★☆, 8 min)
#
# The bug: softmax goes along the queries. Each *column* sums to 1.


# %%
def normalises_over_keys(attention):
    """True where each query's weights are its own."""
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
# The bug: where keys and values happen to have the same shape, the *keys* are mixed, and the values never read. The weights
# are right. Which of this chapter's sentences is false of it?


# %%
def reads_the_values(attention):
    """True where the output is made of the values."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 3))  # k and v of one shape: where the bug can hide
    return np.allclose(attention(q, k, 2 * v)[0], 2 * attention(q, k, v)[0])  # linear in V
    ### END SOLUTION


# %%
check("reads_the_values", reads_the_values)

# %% [markdown]
# ## What you can do now
#
# - Write attention in five lines, and say of every intermediate what it is and which shape it has.
# - Read a row of weights: a lead of $\Delta$ is a factor of $e^{\Delta}$.
# - Say what comes out without computing: a point within the values' hull; their mean for $Q = 0$; near $V[\text{argmax}]$ when cold.
# - Use "soft hash map" where it is exact, and know where it is not.
# - Say *equivariant* and mean it.
#
# | what is often said | what the cells above show |
# |---|---|
# | four steps: dot product, scaling, softmax, weighted sum | yes; the library scales the queries first, and subtracts each row's largest score |
# | $W_Q$, $W_K$, $W_V$ all have shape $(d_{model}, d_k)$ | $W_V$ may have any width: ours had 2, not 4 |
# | the score says how well a key matches | near *or long*: a query need not match best with its own key |
# | the output is a convex combination of the values | yes: the weights are its coordinates in the triangle |
# | temperature to 0 gives $V[\text{argmax}]$ | where the best is alone; ties are shared for ever |
# | like a hash map, a library, a database, a classroom | each exactly somewhere, and not everywhere: see their table |
# | permutation invariant | equivariant; invariant is the mean of all outputs |
# | cannot tell "the cat sat on the mat" from its shuffle | as a bag of outputs, no; with places added, yes |
# | still a linear model | in $V$, for given weights; not in $X$ |
#
# Next: [02, why √d_k](02_scale.ipynb), where the number that we divided by without a reason gets one.
