# %% [markdown]
# # 21 · The same code on a GPU
#
# A graphics card multiplies matrices hundreds of times as fast as a core. 100 epochs of this library's default model took 41 seconds on one of the fastest cards, and 44 on the 16 cores beside it. **What changes when the arrays live
# elsewhere?**
#
# The lines of code hardly change. What changes is what a line costs: it is launched, it may have to wait, and it may add in another order. All of this can be counted without a card. So this chapter
# needs none; numbers of a real card stand beside the counts.
#
# **You need**: clipping ([chapter 10](10_learning.ipynb)), dropout ([chapter 08](08_block.ipynb)), and the gradient of an embedding
# ([chapter 12](12_sasrec.ipynb)): the rows of `dy` that share an id are added.
#
# **You will be able to**:
#
# - say whether a step is bound by launches, by memory or by arithmetic;
# - find what makes a program wait for its card, and repair it;
# - write a sum by id that gives the same bits on every run, and a dropout mask that is the same however a batch is cut.

# %% tags=["hide-input"]
import numpy as np

from tinyattn.backend import get_xp
from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.course.device import device
from tinyattn.ops import cross_entropy, gelu, layer_norm, linear, softmax
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, INK, ORANGE

road(21)

# %% [markdown]
# ## One line, two machines
#
# A card has its own memory. CuPy is a library with NumPy's functions for arrays that lie there. So a function asks its argument which module it belongs to, and the rest reads as before:


# %%
def mean_square(x):
    xp = get_xp(x)  # numpy, or the module of the device
    return xp.mean(x * x)


# %% [markdown]
# The device of this chapter is a double: `device` computes with NumPy, but behaves like a card where it matters. It counts *launches* (each operation on whole arrays), *transfers* between the two memories, and
# *waits*. And it refuses what a card refuses:

# %%
x = np.random.default_rng(0).standard_normal((32, 50, 64)).astype(np.float32)
x_there = device.asarray(x)
result, counts = device.counted(mean_square, x_there)
print(counts)
print("the same number:", np.allclose(result.get(), mean_square(x)))
for refused in (lambda: x_there + x, lambda: np.exp(x_there)):
    try:
        refused()
    except TypeError as error:
        print("refused:", error)

# %% [markdown]
# ## What a launch costs
#
# A launch is an order that goes to the card: some 10 to 30 microseconds, however small the arrays are. Then the card computes. Meanwhile Python may go on and give the next order.
#
# **Predict:** `gelu` makes 23 launches, here on 102,400 numbers each. An H200 reads and writes 4,800 GB a second. Which takes longer, by how much: the 23 launches, or the memory traffic of all of them?

# %% tags=["hide-output"]
traffic = 23 * 2 * x.nbytes / 4.8e12 * 1e6
print(
    f"traffic, each launch reads and writes once: {traffic:.1f} µs;  23 launches of 15 µs: {23 * 15} µs"
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The launches, by a factor of nearly a hundred: on arrays of this size the card idles almost all of the time.
#
# </details>
#
# Count the launches of some functions of the library on the double, and put the times of a real card beside them. (Recorded with `python benchmarks/gpu.py` on an NVIDIA H200 with CuPy 14.2.0, and PyTorch
# 2.11.0 on the same card; float32, medians of 20. [What it ran](../docs/gpu.md).)

# %%
RECORDED = {  # µs on the card: the library through CuPy, PyTorch
    "linear": (38, 28),
    "gelu": (269, 24),
    "softmax": (172, 16),
    "layer_norm": (196, 35),
    "cross_entropy": (246, 42),
}
W, b, one = (np.ones(shape, np.float32) for shape in ((64, 64), 64, 64))
mask, targets = np.ones((50, 64), bool), np.zeros((32, 50), int)
arguments = {
    "linear": (linear, x, W, b),
    "gelu": (gelu, x),
    "softmax": (softmax, x, mask),
    "layer_norm": (layer_norm, x, one, one),
    "cross_entropy": (cross_entropy, x, targets),
}
rows, launches = [], {}
for name, (f, *args) in arguments.items():
    _, counts = device.counted(f, *map(device.asarray, args))
    launches[name] = counts["launches"]
    ours, theirs = RECORDED[name]
    rows.append([name, launches[name], ours, ours / launches[name], theirs])
table("function | launches, counted | µs | µs a launch | PyTorch, µs", rows)

# %% [markdown]
# PyTorch has one function for each of these, written for the card: all of its lines are *fused* into a launch or two. The library has a launch for each line.
#
# So the time hardly depends on the size, until it does. **Predict:** a step with 435 launches takes 11.7 ms on that card for 128 users of width 50. With 512 users of width 256 the linear maps have 105 times the
# arithmetic. How many times as long does the step take?

# %% tags=["hide-output"]
STEP_MS = {"128 users, width 50": (11.664, 7.134), "512 users, width 256": (58.554, 21.546)}
(small, _), (large, _) = STEP_MS.values()
print(f"{4 * (256 / 50) ** 2:.0f} times the arithmetic, {large / small:.1f} times the time")
table("a step of SASRec | ms | PyTorch, ms", [[name, *ms] for name, ms in STEP_MS.items()])

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(6.8, 3.6))
    line = np.array([1.5, 600])
    ax.plot(line, 15 * line, "--", color=GREY, label="15 µs a launch")
    ax.plot(
        list(launches.values()),
        [RECORDED[n][0] for n in launches],
        "o",
        color=BLUE,
        label="functions",
    )
    beside = {"cross_entropy": (-8, 0), "softmax": (4, -26), "layer_norm": (8, -12)}
    for name, n in launches.items():
        right = "right" if name == "cross_entropy" else "left"
        at = beside.get(name, (8, -6))
        ax.annotate(
            name, (n, RECORDED[name][0]), at, textcoords="offset points", color=INK, ha=right
        )
    ax.plot([435] * 2, [1e3 * small, 1e3 * large], "s", color=ORANGE, label="steps of SASRec")
    for (name, (ms, _)), down in zip(STEP_MS.items(), (-14, 5), strict=True):
        ax.annotate(
            name, (435, 1e3 * ms), (-8, down), textcoords="offset points", color=INK, ha="right"
        )
    ax.set(xscale="log", yscale="log", xlabel="launches", title="µs on an H200")
    ax.legend(loc="upper left")
show_figure(
    fig,
    "launches",
    "Time against launches on logarithmic axes: five functions and the small step lie near a line of 15 µs a launch, the large step well above it",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Five times. The small step takes 27 µs a launch, near the line of launches: the card idles, and the second step fills it.
#
# </details>
#
# ## Memory or arithmetic
#
# Where launches no longer matter, one of two limits holds. The *intensity* of a computation is the number of its operations for each byte that it reads or writes. A card has two speeds: this one does
# 67 · 10¹² operations a second in float32, and moves 4.8 · 10¹² bytes ([data sheet](https://www.nvidia.com/en-us/data-center/h200/)). If
#
# $$\text{intensity} = \frac{\text{operations}}{\text{bytes}} \;<\; \frac{67}{4.8} = 14 ,$$
#
# it waits for memory. A sum of two arrays has one operation for twelve bytes: 0.08. Only products of matrices come near 14.
#
# ### Exercise `width_of_the_ridge` (predict the number, ★★☆, 4 min)
#
# $y = x W$ maps $n$ tokens of width $D$ to width $D$. Let $n$ be so large that $W$ is a negligible part of the bytes, and let $x$ be read once and $y$ be written once, four bytes a number. From which $D$ on is it
# bound by arithmetic?

# %%
### BEGIN SOLUTION
width_of_the_ridge = 56
### END SOLUTION

# %%
check("width_of_the_ridge", width_of_the_ridge)

# %% [markdown]
# Width 50, of this library's default, is just below.
#
# ## Waiting
#
# Python gives orders far ahead of the card. Then somebody wants to *know* a number. The card must finish everything before it, the number is carried over, and only then can the next order be given. The queue is empty,
# and it takes a while to fill again. This loop wants to know a lot:
#
# ```python
# best = math.inf
# for epoch in range(3):
#     for step in range(40):
#         loss = train(step)           # a number on the device
#         print(f"{float(loss):.3f}")
#     if loss < best:                  # it falls from epoch to epoch
#         best = float(loss)
# ```
#
# ### Exercise `waits_of_a_loop` (predict the number, ★☆☆, 3 min)
#
# How often does it wait? (`train` itself never does.)

# %%
### BEGIN SOLUTION
waits_of_a_loop = 126
### END SOLUTION

# %%
check("waits_of_a_loop", waits_of_a_loop)

# %% [markdown]
# The library carries losses over every fifty steps, in one piece. A training step never waits.
#
# ### Exercise `repaired_clip` (find the bug, ★★☆, 6 min)
#
# This clipping is right, and waits at every step, twice where the norm is above `most`. Write it so that Python need not know anything. A gradient of 0 stays 0.


# %%
def buggy_clip(g, most):
    xp = get_xp(g)
    norm = xp.sqrt(xp.sum(g * g))
    if norm > most:
        g = g * (most / float(norm))
    return g


def repaired_clip(g, most):
    """Shapes: g any, most a number -> g, times most / norm where its norm is above most."""
    ### BEGIN SOLUTION
    xp = get_xp(g)
    norm = xp.sqrt(xp.sum(g * g))
    return g * (most / xp.maximum(norm, most))
    ### END SOLUTION


# %%
check("repaired_clip", repaired_clip)

# %%
clip, g = yours("repaired_clip"), device.asarray(np.full(5, 3.0))
for name, f in (("buggy", buggy_clip), ("repaired", clip)):
    clipped, counts = device.counted(f, g, 1.0)
    print(f"{name}: {counts['waits']} waits, norm {np.linalg.norm(clipped.get()):.3f}")

# %% [markdown]
# An `if` decides before it computes. A card computes both, or a factor of 1, and decides for each entry.
#
# ## Sums in any order
#
# The gradient of an embedding adds the rows of `dy` that share an id. On a card thousands of threads do so at the same time: each adds its row *atomically*, whoever comes first. Sums of floats depend on the order.
# **Predict:** 1,000 rows for 10 ids, in float32, twice. Are the results equal? And in float64, rounded to float32?

# %% tags=["hide-output"]
rng = np.random.default_rng(1)
ids, dy = rng.integers(10, size=1000), rng.standard_normal((1000, 8)).astype(np.float32)
ids_there, dy_there = map(device.asarray, (ids, dy))


def atomic(dtype):
    dE = device.zeros((10, 8), dtype=dtype)
    device.add.at(dE, ids_there, dy_there)
    return dE.astype(np.float32).get()


for dtype in (np.float32, np.float64):
    print(f"{dtype.__name__}: the same bits twice: {np.array_equal(atomic(dtype), atomic(dtype))}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# In float32 they differ in the last bits: a run cannot be repeated. In float64 they differ, too, but nearly always far behind float32's last bit. So the library adds in float64 there.
#
# </details>
#
# There is a way without atomic additions, the same on every run. *Sort by id*: equal ids lie together. If $c_i$ is the sum of the first $i$ sorted rows, with $c_0 = 0$, the rows from $a$ up to $b$ sum to
#
# $$\sum_{a \le i < b} dy_i = c_b - c_a .$$
#
# ### Exercise `my_sum_rows` (derive the backward, ★★★, 12 min)
#
# Row `v` of `dE` is the sum of the rows of `dy` with id `v`, and 0 if there is none. Use functions of `xp` alone, no loop, no `add.at`, and nothing that waits: a result whose size depends on numbers, as that of `unique` or
# `nonzero`, does. A table of all $N \times V$ pairs is refused.


# %%
def my_sum_rows(ids, dy, V):
    """Shapes: ids (N,) from 0 to V - 1, dy (N, d) -> dE (V, d), of dy's dtype."""
    ### BEGIN SOLUTION
    xp = get_xp(dy)
    order = xp.argsort(ids)
    zero = xp.zeros((1, dy.shape[1]), dtype=xp.float64)
    c = xp.concatenate([zero, xp.cumsum(dy[order].astype(xp.float64), axis=0)])
    sorted_ids, rows = ids[order], xp.arange(V)
    begin = xp.searchsorted(sorted_ids, rows, side="left")
    end = xp.searchsorted(sorted_ids, rows, side="right")
    return (c[end] - c[begin]).astype(dy.dtype)
    ### END SOLUTION


# %%
check("my_sum_rows", my_sum_rows)

# %%
sum_rows = yours("my_sum_rows")
first, counts = device.counted(sum_rows, ids_there, dy_there, 10)
again = sum_rows(ids_there, dy_there, 10)
print("atomic additions:", counts["atomic"], " waits:", counts["waits"])
print("the same bits twice:", np.array_equal(first.get(), again.get()))
print("the sums:", np.allclose(first.get(), atomic(np.float64), atol=1e-4))

# %% [markdown]
# A running sum of many rows loses digits where it grows far beyond each row: in float64 there are plenty. The double counts no wait for a sort; CuPy's `argsort`
# has one inside, so the library sorts with a kernel of its own on a card ([what it runs](../docs/gpu.md)).
#
# ## Storage is not arithmetic
#
# Cards compute fastest in 16 bits, and store in 16 bits. **Predict:** add 0.1 ten thousand times in float16, one after the other. Where does the sum end?

# %% tags=["hide-output"]
tenths = np.full(10_000, 0.1, np.float16)
print(f"float16, one after the other: {np.add.accumulate(tenths)[-1]:.0f}")
print(f"stored in float16, summed in float32: {np.sum(tenths, dtype=np.float32):.0f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# At 256. From there on neighbours in float16 are 0.25 apart, and 0.1 more rounds to nothing. Stored in 16 bits and *summed* in 32, the sum is right, up to what 0.1 itself lost. That is how cards multiply.
#
# </details>
#
# ## Random numbers, wherever they are needed
#
# Dropout needs a random bit for each entry: too many to draw on the host and carry over. And a stream is drawn in an order, so a mask would depend on how the batch is cut, and on which device has which part.
#
# Instead of a stream, take a *hash*: a function whose bits look random, of a number that says which entry it is. For the entry at place $j = 1, 2, \dots$ of the row with number $r$, in a step with the key $k$,
#
# $$\text{number} = k + A\,r + G\,j \pmod{2^{64}}$$
#
# with two large odd constants. `mixed` below is SplitMix64's ([Steele et al. 2014](https://doi.org/10.1145/2660193.2660195)): each bit of its result depends on all bits of its argument.

# %%
G, A = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


def mixed(z):
    """Shapes: z (...) of uint64 -> (...) of uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


# %% [markdown]
# ### Exercise `my_keep_mask` (write the op, ★★☆, 10 min)
#
# The top 53 bits of the hash, `mixed(number) >> np.uint64(11)`, divided by $2^{53}$, are a share between 0 and 1. An entry is kept where this is at least `rate`. Sums and products of uint64 go on modulo $2^{64}$ by
# themselves, if *everything* is uint64. `rows` has the rows' numbers: whose they are, not where they stand.


# %%
def my_keep_mask(key, rows, width, rate):
    """Shapes: rows (B,), integers -> booleans (B, width). key is an integer below 2**64."""
    ### BEGIN SOLUTION
    places = np.arange(1, width + 1, dtype=np.uint64)
    number = np.uint64(key) + A * rows.astype(np.uint64)[:, None] + G * places
    return (mixed(number) >> np.uint64(11)) / 2**53 >= rate
    ### END SOLUTION


# %%
check("my_keep_mask", my_keep_mask)

# %%
keep = yours("my_keep_mask")
kept = keep(1, np.arange(1000), 200, 0.2)
print(f"kept: {kept.mean():.3f} of all, by row {kept.mean(axis=1).std():.3f} apart")
print(f"a fair coin would have {np.sqrt(0.2 * 0.8 / 200):.3f}")
neighbours = np.corrcoef(kept[:, 1:].ravel(), kept[:, :-1].ravel())[0, 1]
print("neighbours are uncorrelated:", abs(neighbours) < 0.01)

# %% [markdown]
# ### Exercise `cut_changes_nothing` (write the property that kills this bug, ★★☆, 8 min)
#
# State what this is for, as a test of any `keep(key, rows, width, rate)`: a row's mask must be the same in a part of the batch, in another order, with its last columns cut off, and at the next call. It should be False of `buggy_keep`
# and of six others.


# %%
def buggy_keep(key, rows, width, rate):
    return np.random.default_rng(key).random((len(rows), width)) >= rate


def cut_changes_nothing(keep):
    """True where a row's mask depends on the key, its number and the place alone."""
    ### BEGIN SOLUTION
    rows, order = np.array([17, 3, 8, 40, 3, 21]), np.array([4, 2, 5, 0, 3, 1])
    whole = keep(5, rows, 9, 0.4)
    parts = np.concatenate([keep(5, rows[:2], 9, 0.4), keep(5, rows[2:], 9, 0.4)])
    same = np.array_equal(whole, parts) and np.array_equal(whole, keep(5, rows, 9, 0.4))
    shorter = np.array_equal(whole[:, :4], keep(5, rows, 4, 0.4))
    return same and shorter and np.array_equal(whole[order], keep(5, rows[order], 9, 0.4))
    ### END SOLUTION


# %%
check("cut_changes_nothing", cut_changes_nothing)

# %% [markdown]
# With this, a training is the same on a processor and on a card: the same initial weights, batches and masks, and sums up to rounding. On the recorded card, 100 epochs of the default world ended with NDCG@10 0.6586, and on
# the host with 0.6583.
#
# | what is often said | what the cells above show |
# |---|---|
# | a GPU makes it faster | below some size each line costs a launch: 41 s on the card, 44 s on its host |
# | the code must be written anew | a function asks its argument for the module; the lines stay |
# | printing the loss costs nothing | each number that Python reads empties the queue |
# | the same seed gives the same run | not if sums are atomic, or masks come from a stream |
#
# ## In five lines
#
# - A line on a card is a launch, 10 to 30 µs however small: small models are bound by launches.
# - Intensity, operations for each byte, says which limit is next: memory, or arithmetic.
# - `if`, `float` and results of unknown size wait; choose on the card, with a maximum or a factor of 1.
# - Atomic sums differ from run to run; sorted, a sum by id is a difference of two running sums.
# - A hash of key, row and place gives the same random bits however the batch is cut.
#
# To read: [the library on a GPU](../docs/gpu.md), and S. Williams et al., [Roofline](https://doi.org/10.1145/1498765.1498785) (2009). With a card, `tinyattn train --device gpu` trains on it. Next: [22, making it
# fast](22_making_it_fast.ipynb).
