# %% [markdown]
# # 22 · Making it fast
#
# A textbook's way to train SASRec took 533 ms a step on the Intel processor of [this record](../benchmarks/results/ladder.md). The library's took 75, with the same gradients. **Where did the time go, and how
# do you find out without fooling yourself?**
#
# The method of this chapter is one loop: measure, change one thing, show that no number changed, measure again. You write three faster forms, a benchmark that cannot be fooled, and a test for other
# people's fast code. In the end a board has the times of your functions, of those that are right.
#
# **You need**: attention in heads ([chapter 06](06_many_heads.ipynb)), cross-entropy and its gradient ([chapter 12](12_sasrec.ipynb)), the online softmax
# ([chapter 18](18_cheaper.ipynb)).
#
# **You will be able to**:
#
# - say from a profile what a change can gain at most;
# - count what a call costs, before any clock;
# - turn a loop into one product, overwrite an array safely, and leave out an array of all logits;
# - measure a gain, and test that a faster form may replace a readable one.

# %% tags=["hide-input"]
import time
from itertools import pairwise

import numpy as np

from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.course.costs import peak, steps
from tinyattn.data import Sampler, SeriesWorld, leave_one_out
from tinyattn.models import SASRec
from tinyattn.ops import cross_entropy, softmax, tiled_cross_entropy
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, INK, ORANGE
from tinyattn.tree import leaves

road(22)

# %% [markdown]
# ## Where does the time go?
#
# A *profile* says how long each part of a program takes. This one is of a training step of SASRec: MovieLens's lengths, 128 users, width 50, two blocks, one core. (Recorded on an Intel Xeon with
# NumPy 2.4.6 by `python benchmarks/roofline.py`; [the whole of it](../benchmarks/results/roofline.md).)

# %%
PROFILE = {  # ms of a step
    "linear maps": 30.4,
    "attention: products and the rest": 23.9,
    "norms": 7.2,
    "attention: exp": 6.2,
    "dropout: masks": 5.6,
    "embeddings": 4.6,
    "objective": 4.1,
    "everything else": 16.9,
}
total = sum(PROFILE.values())
table("part | ms | of the step, %", [[k, ms, 100 * ms / total] for k, ms in PROFILE.items()])

# %% [markdown]
# Matrix products stand at the top, and a graphics card is good at matrix products. How much would an infinitely fast one bring?
#
# ### Exercise `amdahl_limit` (predict the number, ★☆☆, 3 min)
#
# Suppose that the first two lines take no time at all, and nothing else changes. How many times as fast is the step?

# %%
### BEGIN SOLUTION
amdahl_limit = 2.2
### END SOLUTION

# %%
check("amdahl_limit", amdahl_limit)

# %% [markdown]
# In general: a share $a$ of the time is made $f$ times as fast, and the rest stays. Then the whole is
#
# $$\frac{1}{(1 - a) + a / f} \;\longrightarrow\; \frac{1}{1 - a} \quad \text{for } f \to \infty$$
#
# times as fast ([Amdahl 1967](https://doi.org/10.1145/1465482.1465560)). The share that stays decides.

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.6, 3.2))
    f = np.geomspace(1, 100, 200)
    parts = (
        ("linear maps, 31 %", 30.4, "-"),
        ("both products, 55 %", 54.3, "--"),
        ("norms, 7 %", 7.2, ":"),
    )
    for (name, ms, line), colour in zip(parts, (BLUE, ORANGE, GREY), strict=True):
        ax.plot(f, 1 / (1 - ms / total + ms / total / f), line, color=colour, label=name)
    ax.set(
        xscale="log",
        xlabel="this part becomes f times as fast",
        title="the step becomes so many times as fast",
    )
    ax.legend(loc="upper left")
show_figure(
    fig,
    "amdahl",
    "Amdahl's law for three shares: curves that rise and flatten out, at 2.2 for both products, at 1.4 for linear maps alone, "
    "and hardly above 1 for norms",
)

# %% [markdown]
# So no single trick is enough: many parts of 5 % each have to go. That is why the way from 533 ms to 75 has twelve steps.
#
# ## Count before you time
#
# Times differ from machine to machine. Counts do not. Two of them explain most of what follows:
#
# - `steps(f, *args)`: the steps that Python's interpreter takes in one call. Each call of NumPy costs some, however small its arrays are;
# - `peak(f, *args)`: the most memory that a call holds at a time. What does not fit into a core's cache is fetched again and again.
#
# Here is attention of several heads, as chapter 06 reads: head after head.


# %%
def heads_one_by_one(q, k, v, heads):
    """Shapes: q, k, v (B, n, D), D = heads · d -> out (B, n, D)."""
    out, d = np.empty_like(v), q.shape[-1] // heads
    for i in range(heads):
        part = slice(i * d, (i + 1) * d)
        s = q[..., part] @ k[..., part].swapaxes(-1, -2) / d**0.5
        out[..., part] = softmax(s) @ v[..., part]
    return out


q, k, v = np.random.default_rng(0).standard_normal((3, 8, 64, 64))
counts = [steps(heads_one_by_one, q, k, v, heads) for heads in (2, 4, 8, 16)]
print("steps, in those of 2 heads:", *(f"{c / counts[0]:.1f}" for c in counts))

# %% [markdown]
# Twice the heads, twice the steps, although the arithmetic stays the same: $B n^2 D$ multiply-adds for the scores, in however many heads.
#
# ### Exercise `my_heads` (write the op, ★★☆, 8 min)
#
# The same numbers without a loop over heads. `@` multiplies the last two axes of arrays, for all axes before them at once.


# %%
def my_heads(q, k, v, heads):
    """Shapes: q, k, v (B, n, D), D = heads · d -> out (B, n, D)."""
    ### BEGIN SOLUTION
    B, n, D = q.shape
    q, k, v = (x.reshape(B, n, heads, D // heads).swapaxes(1, 2) for x in (q, k, v))
    p = softmax(q @ k.swapaxes(-1, -2) / (D // heads) ** 0.5)
    return (p @ v).swapaxes(1, 2).reshape(B, n, D)
    ### END SOLUTION


# %%
check("my_heads", my_heads)

# %%
all_heads = yours("my_heads")
print("same numbers:", np.allclose(all_heads(q, k, v, 8), heads_one_by_one(q, k, v, 8)))
print(
    "as many steps for 16 heads as for 2:",
    steps(all_heads, q, k, v, 16) < steps(all_heads, q, k, v, 2) + 42,
)

# %% [markdown]
# ## Fewer arrays
#
# Masked softmax reads well as five lines, and each makes an array as large as the scores. **Predict:** how many arrays of that size does it hold at its height?


# %% tags=["hide-output"]
def softmax_as_it_reads(s, mask):
    hidden = np.where(mask, s, -np.inf)
    largest = hidden.max(axis=-1, keepdims=True)
    shifted = hidden - np.where(np.isneginf(largest), 0, largest)
    e = np.exp(shifted)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


s, mask = np.random.default_rng(1).standard_normal((8, 128, 128)), np.tri(128, dtype=bool)
print(f"beside s: {peak(softmax_as_it_reads, s, mask) / s.nbytes:.1f} arrays of its size")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Four: `hidden`, `shifted`, `e` and the result are all alive at the end, since their names keep them.
#
# </details>
#
# Memory is not only a matter of room. Copying 300 kB ran at 87 GB a second in the record, and copying 80 MB at 12: small arrays stay in the cache, large ones do not.
#
# ### Exercise `my_softmax_in_place` (write the op, ★★☆, 8 min)
#
# The scores were just made by $q k^\top$, and nobody else needs them: overwrite `s`, and return it. A second array of its size is refused; a mask of booleans is an eighth of it, and rows' maxima and sums are
# small. Logits of 1,000 must work, and a row with nothing allowed is 0.


# %%
def my_softmax_in_place(s, mask):
    """Shapes: s (..., n, m), float; mask (n, m), True = may look -> p like s, in the memory of s."""
    ### BEGIN SOLUTION
    np.copyto(s, -np.inf, where=~mask)
    largest = s.max(axis=-1, keepdims=True)
    s -= np.where(np.isneginf(largest), 0, largest)
    np.exp(s, out=s)
    total = s.sum(axis=-1, keepdims=True)
    s /= np.where(total == 0, 1, total)
    return s
    ### END SOLUTION


# %%
check("my_softmax_in_place", my_softmax_in_place)

# %% [markdown]
# `yours` hands your function a copy, so that no later cell loses its scores. The library overwrites only arrays that a function has just made.
#
# ## Half of each number
#
# float32 needs half of the bytes of float64. **Predict:** attention in float32: about how large is the relative error, $10^{-3}$, $10^{-7}$ or $10^{-15}$?

# %% tags=["hide-output"]
exact = all_heads(q, k, v, 8)
short = all_heads(*(x.astype(np.float32) for x in (q, k, v)), 8)
error = np.abs(short - exact).max() / np.abs(exact).max()
print("dtype:", short.dtype, " error below 1e-6:", error < 1e-6, " above 1e-9:", error > 1e-9)

# %% [markdown]
# <details><summary>Answer</summary>
#
# About $10^{-7}$: float32 has 24 bits, and $2^{-24} = 6 \cdot 10^{-8}$. The noise in the gradient of a batch is far larger. But one float64 on the way, such as `np.sqrt(d)`, can
# double everything after it.
#
# </details>
#
# ## What need not exist at all
#
# SASRec's cross-entropy compares $n$ states $h_i$ with all $V$ items, the rows of $E$:
#
# $$s_{ij} = h_i \cdot e_j, \qquad \text{loss} = \frac1n \sum_i \Bigl( \log \sum_j e^{s_{ij}} - s_{i t_i} \Bigr) ,$$
#
# where $t_i$ is the item that came next. With 128 · 200 states and 57,000 items, $s$ has 1.5 billion entries: 6 GB, and as much again for the gradient. But chapter 18 computed a row's $L_i = \log \sum_j e^{s_{ij}}$ from pieces, and its slope along $s_{ij}$ is $e^{s_{ij} - L_i}$. So
#
# $$ds_{ij} = \frac1n \bigl( e^{s_{ij} - L_i} - 1[j = t_i] \bigr), \qquad dh = ds\, E, \qquad dE = ds^\top h ,$$
#
# and a chunk of columns of $ds$ needs no other chunk. *Make the logits again, and keep $L$.*
#
# ### Exercise `my_chunked_loss` (derive the backward, ★★★, 14 min)
#
# Loss and both gradients, `chunk` items at a time; the last chunk may be shorter. Logits of 1,000 must work. An answer that holds half of an $n \times V$ array is refused.


# %%
def my_chunked_loss(h, E, targets, chunk):
    """Shapes: h (n, d), E (V, d), targets (n,) from 0 to V - 1 -> loss, dh like h, dE like E."""
    ### BEGIN SOLUTION
    n, V = len(h), len(E)
    m, l = np.full((n, 1), -np.inf), np.zeros((n, 1))
    for begin in range(0, V, chunk):
        s = h @ E[begin : begin + chunk].T
        top = np.maximum(m, s.max(axis=1, keepdims=True))
        l, m = np.exp(m - top) * l + np.exp(s - top).sum(axis=1, keepdims=True), top
    L = m + np.log(l)
    loss = np.mean(L[:, 0] - (h * E[targets]).sum(axis=1))
    dh, dE = np.zeros_like(h), np.zeros_like(E)
    for begin in range(0, V, chunk):
        some = E[begin : begin + chunk]
        ds = np.exp(h @ some.T - L)
        (rows,) = np.nonzero((targets >= begin) & (targets < begin + chunk))
        ds[rows, targets[rows] - begin] -= 1
        ds /= n
        dh += ds @ some
        dE[begin : begin + chunk] = ds.T @ h
    return loss, dh, dE
    ### END SOLUTION


# %%
check("my_chunked_loss", my_chunked_loss)

# %%
rng = np.random.default_rng(2)
h, E, targets = (
    rng.standard_normal((64, 8)),
    rng.standard_normal((8000, 8)),
    rng.integers(8000, size=64),
)


def whole_loss(h, E, targets, chunk=None):
    n, s = len(h), h @ E.T
    p = softmax(s)
    loss = -np.mean(np.log(p[np.arange(n), targets]))
    p[np.arange(n), targets] -= 1
    return loss, p @ E / n, p.T @ h / n


chunked = yours("my_chunked_loss")
same = zip(chunked(h, E, targets, 250), whole_loss(h, E, targets), strict=True)
print("the same loss and gradients:", all(np.allclose(x, y) for x, y in same))
tiles = tiled_cross_entropy(h, E, targets, tile=250)[0]
print("the library's loss, in tiles:", np.allclose(chunked(h, E, targets, 250)[0], tiles))

# %% [markdown]
# How much do tiles save, and what does the size of a tile change? Memory beside `h` and `E`, in arrays of all logits:

# %% tags=["hide-input"]
rows = [["all at once", peak(cross_entropy, h @ E.T, targets) / (64 * 8000 * 8) + 1]]
for tile in (4000, 1000, 250):
    held = peak(lambda tile: tiled_cross_entropy(h, E, targets, tile=tile), tile)
    rows.append([f"tiles of {tile:,} items", held / (64 * 8000 * 8)])
table("loss alone | arrays of n · V", rows, digits=2)

# %% [markdown]
# The library takes tiles where all logits would be more than 16 MB, in training too: the backward makes each tile once more.
#
# ## What need not be computed at all
#
# The most milliseconds of the whole ladder are saved without any arithmetic. Histories have different lengths, and a batch is as wide as its longest. **Predict:** eight histories of 200, 10, 20, 190, 30, 180, 15 and
# 175 items. How many positions does one block compute, how many do two slices of four, each as wide as its longest, and how many two slices of four after sorting?

# %% tags=["hide-output"]
lengths = np.array([200, 10, 20, 190, 30, 180, 15, 175])
in_order, by_length = lengths.reshape(2, 4), np.sort(lengths).reshape(2, 4)
rows = [
    ["one block", 8 * lengths.max()],
    ["two slices", 4 * in_order.max(axis=1).sum()],
    ["two slices, sorted", 4 * by_length.max(axis=1).sum()],
    ["real items", lengths.sum()],
]
table("| positions", rows)

# %% [markdown]
# Does it change the gradients? The library's network, on one batch in a piece, and in slices by length (`Batch.slices`), whose gradients are added:

# %%
split = leave_one_out(
    SeriesWorld(series=9, episodes=6, users=300, shortest=4, longest=24).generate()
)
model = SASRec(maxlen=24, dim=16, blocks=1, dropout=0.0, loss="ce")
network = model.make_network(split.train.n_items, split.train.n_users)
batch = Sampler(split.train, maxlen=24, batch_size=64, seed=1, negatives=True).batch(0)
p = network.init(np.random.default_rng(0))


def gradients(part):
    """The gradient of this part's share of the batch's mean loss."""
    _, cache = network.loss(p, part)
    return dict(leaves(network.loss_backward(p, part.total / batch.total, cache)))


whole, parts = gradients(batch), [gradients(part) for part in batch.slices(200)]
summed = {name: sum(part[name] for part in parts) for name in whole}
print(
    "positions computed:", batch.ids.size, "and", sum(part.ids.size for part in batch.slices(200))
)
print("the same gradients:", all(np.allclose(whole[n], summed[n], atol=1e-6) for n in whole))

# %% [markdown]
# ## A clock that cannot be fooled
#
# Now a time. `start()` begins a process on a busy machine, and `run("old")` or `run("new")` gives the seconds of a call. The process here is simulated, so that the truth is known. It has what real ones
# have: a first call is slow (memory, caches), the machine may slow down half-way (heat, other users), some calls are interrupted, and every call varies a little.
#
# ### Exercise `repaired_benchmark` (find the bug, ★★☆, 8 min)
#
# This benchmark has three faults. Your result must be within 12 % of the truth, whatever the machine does. Fifteen rounds are enough.


# %%
def buggy_benchmark(start):
    run = start()
    old = [run("old") for _ in range(15)]
    new = [run("new") for _ in range(15)]
    return np.mean(old) / np.mean(new)


def repaired_benchmark(start):
    """start() -> run; run("old") and run("new") -> seconds. -> how many times as fast new is."""
    ### BEGIN SOLUTION
    run = start()
    run("old"), run("new")
    old, new = np.array([[run("old"), run("new")] for _ in range(15)]).T
    return np.median(old) / np.median(new)
    ### END SOLUTION


# %%
check("repaired_benchmark", repaired_benchmark)

# %% [markdown]
# On a graphics card there is a fourth: a call returns before the work is done, so a benchmark that does not wait measures nothing ([chapter 21](21_gpu.ipynb)).
#
# ## Fast, and wrong
#
# A faster form is usually faster because it leaves something out. Sometimes that is what another caller needs.
#
# ### Exercise `may_replace` (write the property that kills this bug, ★★★, 12 min)
#
# Write the test that lets `fast(s)` replace `softmax(s)`, for `s` of any number of axes. It must be True of right forms, which may round in another way. It must be False of `buggy_fast` and of six others
# that a careless board would praise: forms that return the memory of the last call, or read a view in the wrong order, or lose an axis of size 1, or overflow, or return another dtype, or are right to a
# per cent.


# %%
def buggy_fast(s):
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    return s


def may_replace(fast):
    """True where fast(s) can stand in the place of softmax(s)."""
    ### BEGIN SOLUTION
    base = np.random.default_rng(0).standard_normal((2, 4, 5))
    views = [base, base.swapaxes(1, 2), base[..., :1], 1000 * base, base.astype(np.float32)]
    for s in views:
        before, expected = s.copy(), softmax(s)
        p = fast(s)
        kept = p.copy()
        fast(s + 1 + s[::-1])
        same = p.shape == s.shape and p.dtype == s.dtype and np.allclose(p, expected, atol=1e-6)
        if not (same and np.array_equal(s, before) and np.array_equal(p, kept)):
            return False
    return True
    ### END SOLUTION


# %%
check("may_replace", may_replace)

# %% [markdown]
# The library asks more of its faster forms: `tinyattn.forms.FASTER` lists each beside the readable form that it replaces, and `tinyattn check` tries both with every property of the op.
#
# ## Your board
#
# Only what is right is timed: `check` comes first. Then both forms take turns, as your benchmark does. The times are those of your machine, and nothing grades them.


# %%
def board(plain, name, answer, *args):
    """One line: milliseconds of the plain form and of yours, medians of 7 rounds."""
    if not check(name, answer):
        return [name, "-", "-", "not timed: not accepted yet"]
    took = {plain: [], answer: []}
    for _ in range(8):
        for f in took:
            fresh = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
            begin = time.perf_counter()
            f(*fresh)
            took[f].append(1e3 * (time.perf_counter() - begin))
    before, now = (np.median(ms[1:]) for ms in took.values())
    return [name, before, now, f"{before / now:.2f} times as fast"]


h, E, targets = (
    rng.standard_normal((128, 32)),
    rng.standard_normal((10000, 32)),
    rng.integers(10000, size=128),
)
lines = [
    board(heads_one_by_one, "my_heads", my_heads, q[:, :16], k[:, :16], v[:, :16], 16),
    board(softmax_as_it_reads, "my_softmax_in_place", my_softmax_in_place, s, mask),
    board(whole_loss, "my_chunked_loss", my_chunked_loss, h, E, targets, 500),
]
table("yours | plain, ms | yours, ms | ", lines)

# %% [markdown]
# A form that is no faster here is no failure: write down what you expected, count again, and try other sizes. `my_chunked_loss` makes all logits twice, and gains only where they do not fit in a cache.
#
# ## The ladder
#
# Twelve choices lead from the textbook's way to the library's. Each line adds one; all give the same loss and gradients. **Predict:** which choice gains most, and does each gain at all?

# %% tags=["hide-output"]
LADDER = {  # ms a step, 2 cores of an Intel Xeon, NumPy 2.4.6
    "a textbook's way": 532.6,
    "slices of about 1,600 tokens": 481.5,
    "rows sorted by length": 249.3,
    "embedding gradients by rounds": 218.5,
    "equal positions added as one": 209.1,
    "np.take in place of E[ids]": 207.4,
    "sums as products with ones": 177.8,
    "attention in tiles (fused)": 133.4,
    "norms inside products": 145.9,
    "dropout masks from hashes": 123.1,
    "shapes checked once": 134.9,
    "freed memory is kept": 149.6,
    "2 worker processes": 74.6,
}
ms = list(LADDER.values())
gains = ["", *(before / now for before, now in pairwise(ms))]
rows = [
    [name, f"{took:.1f}", gain] for (name, took), gain in zip(LADDER.items(), gains, strict=True)
]
print(f"all of them: {ms[0] / ms[-1]:.1f} times as fast")
table("+ one choice a line | ms | times as fast as before", rows)

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(7.4, 4.0))
    y = np.arange(len(ms))
    ax.barh(y, ms, color=[GREY] + [BLUE if a > b else ORANGE for a, b in pairwise(ms)])
    for at, (took, a) in enumerate(zip(ms, [ms[0], *ms], strict=False)):
        ax.text(
            took + 6, at, f"{took:.0f}" + (" (slower)" if took > a else ""), va="center", color=INK
        )
    ax.set(yticks=y, yticklabels=list(LADDER), xlabel="ms a step", xlim=(0, 610))
    ax.invert_yaxis()
show_figure(
    fig,
    "ladder",
    "Bars of milliseconds a step, from 533 for a textbook's way down to 75 for all choices; three bars are longer than the one above",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Sorting by length and the second core gain most: each makes a step about twice as fast. Three lines made it *slower* in this record of three rounds.
#
# </details>
#
# Is a choice bad that made it slower here? Taken away from the finished library, one at a time, with the middle 80 %
# of rounds: without "shapes checked once" a step takes 1.14 times as long (0.99 to 1.16); without "norms inside products" 1.09 (1.08 to 1.15); without "freed memory is kept" 1.18 (1.09 to 1.29). A
# gain of a few per cent needs more rounds than three, and its value depends on the other choices.
#
# | what is often said | what the cells above show |
# |---|---|
# | Python is slow, so write it in C | linear maps and attention's products take 55 %, most of it C already; most milliseconds are gained by work left out |
# | faster means the same work in less time | 1,600 positions became 920, with the same gradients |
# | run it ten times and take the mean | one interrupted call spoils a mean; take turns, and medians |
# | fast code is right if its output is close | not if it overwrites its argument, or its last result |
#
# ## In five lines
#
# - A profile and Amdahl's law say what a change can gain at most: what stays decides.
# - Count first: steps of the interpreter, arrays alive, positions computed. Counts are the same everywhere.
# - An axis in place of a loop; results in the memory of arguments that nobody needs; what can be made again is not kept.
# - A clock is warm, takes turns, and reports a median.
# - A faster form replaces a readable one only if a test says that nobody will notice: same numbers, same dtype, nothing overwritten.
#
# To read: the [speed of the library](../docs/speed.md), with all measurements and what was tried and left out. Next: [23, after SASRec](23_after_sasrec.ipynb).
