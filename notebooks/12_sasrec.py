# %% [markdown]
# # 12 · SASRec from data to a ranked list
#
# A file says who watched what, in which order. Somebody comes along whose history is not in it. **What will this person watch next?**
#
# You have every part of the answer: attention, masks, positions, the block, and the means to test them. In this chapter they become SASRec
# ([Kang & McAuley 2018](https://arxiv.org/abs/1808.09781)), and each step is shown: from the file to a batch, from the batch to scores, from scores to a loss and
# its gradients, and from a trained model to a ranked list.
#
# **You need**: leave-one-out ([00](00_first_look.ipynb)), gradients of products ([03](03_gradients.ipynb)), the causal mask and padding
# ([05](05_masks.ipynb)), learned positions ([07](07_order.ipynb)), the block ([08](08_block.ipynb)), Adam ([10](10_learning.ipynb)).
#
# **You will be able to**:
#
# - build the batch that a sequence model is trained on;
# - derive the gradients of its loss, also those of the items' embeddings;
# - say what the scores mean at the optimum, and how far from it a model is.

# %%
from itertools import pairwise

import numpy as np

from tinyattn.course import check, page_part, road, show_arrays, show_figure, table, your_ops, yours
from tinyattn.data import Sampler, SeriesWorld, leave_one_out, pad, read
from tinyattn.models import SASRec
from tinyattn.ops import Mask, sigmoid, softmax
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, INK, ORANGE, label_ends
from tinyattn.show.views import visualise

road(12)

# %% [markdown]
# ## A file of interactions
#
# All that goes in is pairs of a person and an item, each person's oldest first. Ours are generated: six series of five episodes, and 1,500
# people, who each follow up to three series at a time. So the true probability of every next episode is known, and we shall need it.
#
# With a file of your own, MovieLens' `ratings.dat` say, put its path into `FILE`: all numbers below then come from it, and its second user's
# newest items replace Eve's. Where the truth is needed, nan is printed; answers in words still describe our people, and no exercise
# depends on the data.

# %%
FILE = None  # or "ratings.dat"
world = SeriesWorld(users=1500, series=6, episodes=5, most_open=3, shortest=6, longest=16)
data = world.generate() if FILE is None else read(FILE)
names = data.items.decode(np.arange(1, data.n_items + 1))
for item in data.sequence(1)[:3]:
    print(data.users.ids[1], names[item - 1])  # a line of the file: user 2, of index 1, and item
print("and so on:", f"{len(data):,} lines, {data.n_users:,} people, {data.n_items} items")
print("user 2 as item numbers:", data.sequence(1))


def true_next(histories):
    """P(next item | history), (histories, items + 1); nan where nobody knows it."""
    shape = len(histories), data.n_items + 1
    return world.next_item(histories) if FILE is None else np.full(shape, np.nan)


# %% [markdown]
# Ids become numbers from 1 on; 0 is kept for padding. Leave-one-out takes two items off each history: the last is for the test, the one
# before it for decisions made on the way, such as when to stop (*validation*). Only the rest is trained on.

# %%
split = leave_one_out(data)
print("train", split.train.sequence(1), " valid", split.valid[1], " test", split.test[1])

# %% [markdown]
# ## A batch
#
# A history of $n$ items holds $n - 1$ questions with known answers: what follows the first item, the first two, the first three, and so on. A causal
# model answers all of them in one go, since position $t$ sees nothing after $t$. So the *inputs* are the history without its last item, the
# *targets* the history without its first: the same items, **shifted by one**.
#
# Histories differ in length. Of a long one we keep the newest `maxlen` inputs; a short one is padded with 0 on the right.
#
# ### Exercise `my_shifted_batch` (write the op, ★★☆, 12 min)
#
# Make both arrays from a list of sequences, each of two items or more. The batch is as wide as its longest row of inputs.


# %%
def my_shifted_batch(sequences, maxlen):
    """A list of arrays (n,) of item numbers -> ids (B, L), targets (B, L), whole numbers, L <= maxlen."""
    ### BEGIN SOLUTION
    newest = [sequence[-maxlen - 1 :] for sequence in sequences]
    width = max(len(items) for items in newest) - 1
    ids, targets = np.zeros((2, len(newest), width), dtype=int)
    for b, items in enumerate(newest):
        ids[b, : len(items) - 1] = items[:-1]
        targets[b, : len(items) - 1] = items[1:]
    return ids, targets
    ### END SOLUTION


# %%
check("my_shifted_batch", my_shifted_batch)

# %% [markdown]
# The library's `Sampler` draws the people of each step, and adds two arrays:

# %%
sampler = Sampler(split.train, maxlen=6, batch_size=3, seed=29, negatives=True)
batch = sampler.batch(0)
sequences = [split.train.sequence(user - 1) for user in batch.users]
ids, targets = yours("my_shifted_batch")(sequences, 6)
print("as yours:", np.array_equal(ids, batch.ids), np.array_equal(targets, batch.targets))
show_arrays(ids=ids, targets=targets, slots=batch.slots, negatives=batch.negatives)

# %% [markdown]
# - `slots` say which row of the table of positions an item takes. The newest item always takes the last one, so that "the item before
#   last" is the same row in long and short histories.
# - `negatives` holds at each position one item that this person never had in training, drawn at random. The loss will need it.
#
# ## From numbers to states
#
# Items and slots pick rows from two learned tables, and the two rows are added. Then come the causal blocks of chapter 08, and a last LayerNorm. Here is
# a model of width 4 with one block, step by step:

# %%
network = SASRec(maxlen=6, dim=4, blocks=1, dropout=0.0).make_network(data.n_items, data.n_users)
p = network.init(np.random.default_rng(0))
E = p["items"]  # (items + 1, D); row 0, padding, is 0

x = E[ids] + p["positions"][batch.slots]  # (B, L, D) + (B, L, D)
h, _ = network.block.forward(p["blocks"][0], x, mask=Mask(causal=True))
h, _ = network.block.norm.forward(p["norm"], h)  # (B, L, D)
print("as the library's:", np.allclose(h, network.forward(p, batch)[0]))
show_arrays(x=x[0], h=h[0])

# %% [markdown]
# `h[b, t]` is what the model knows of person `b` after item `t`. It has the width of an item's row, and that is used: the **score** of an item is the dot
# product of the state with the item's own row of `E`. One table is read twice, for input and for output; the two are *tied*.

# %%
z = h @ E.T  # (B, L, D) @ (D, items + 1) -> (B, L, items + 1)
show_arrays(last_state=h[0, -1], scores_of_items_1_to_8=z[0, -1, 1:9])

# %% [markdown]
# ## The loss
#
# The target's score should be high. With $\sigma(z) = 1 / (1 + e^{-z})$, a number from 0 to 1, read a score as "how sure am I that this is a target". One
# could be sure of everything, so each position has its negative as well, whose score should be low. This is *binary cross-entropy* (BCE), with the rows $e^+$ of the target and $e^-$ of
# the negative:
#
# $$loss = -\log \sigma(h \cdot e^+) - \log\bigl(1 - \sigma(h \cdot e^-)\bigr)
# = \log(1 + e^{-h \cdot e^+}) + \log(1 + e^{\,h \cdot e^-})$$
#
# The batch's loss is the mean over real positions. **Predict:** how large is it before training, when all scores are near 0?

# %% tags=["hide-output"]
real = targets != 0
good, bad = E[targets], E[batch.negatives]  # (B, L, D)
each = np.logaddexp(0, -(h * good).sum(-1)) + np.logaddexp(0, (h * bad).sum(-1))  # (B, L)
loss, cache = network.loss(p, batch)
print("the library's mean, too:", np.allclose(each[real].mean(), loss))
print(f"all scores 0: {2 * np.log(2):.3f}, this batch: {loss:.3f}")

# %% [markdown]
# ### On paper
#
# What is the slope of $-\log \sigma(z)$? From $\sigma' = \sigma\,(1 - \sigma)$,
#
# $$\frac{d}{dz}\bigl[-\log \sigma(z)\bigr] = -\frac{\sigma\,(1 - \sigma)}{\sigma} = \sigma(z) - 1 ,
# \qquad \frac{d}{dz}\bigl[-\log(1 - \sigma(z))\bigr] = \sigma(z) .$$
#
# Both are *predicted minus true*, where the truth is 1 for the target and 0 for the negative. The rest is a product of two factors, $z = h \cdot e$, and both are
# learned: the state **and the item's row** get a gradient.
#
# ### Exercise `my_pair_loss_backward` (derive the backward, ★★☆, 12 min)
#
# Here is the loss of each position, with `good` and `bad` for $e^+$ and $e^-$. Write its backward. Logits may be large: do not divide by a $\sigma$
# that has been rounded to 0.


# %%
def pair_loss(h, good, bad):
    """Shapes: h, good, bad (..., d) -> loss (...)."""
    return np.logaddexp(0, -(h * good).sum(-1)) + np.logaddexp(0, (h * bad).sum(-1))


def my_pair_loss_backward(dloss, h, good, bad):
    """Shapes: dloss (...), h, good, bad (..., d) -> dh, dgood, dbad (..., d)."""
    ### BEGIN SOLUTION
    dz_good = (dloss * (sigmoid((h * good).sum(-1)) - 1))[..., None]  # (..., 1)
    dz_bad = (dloss * sigmoid((h * bad).sum(-1)))[..., None]
    return dz_good * good + dz_bad * bad, dz_good * h, dz_bad * h
    ### END SOLUTION


# %%
check("my_pair_loss_backward", my_pair_loss_backward)

# %% [markdown]
# ### All that one table receives
#
# Row $i$ of `E` is read wherever item $i$ is an input, a target or a negative, and every reading has a gradient. The row's gradient is their sum.
# The first comes from `dh`, carried back through the blocks:

# %%
share = real / real.sum()  # the loss is a mean over real positions
dh, dgood, dbad = yours("my_pair_loss_backward")(share, h, good, bad)
dx, _ = network.backward(p, dh, network.forward(p, batch)[1])  # (B, L, D)
parts = {}
for name, which, gradient in (
    ("input", ids, dx),
    ("target", targets, dgood),
    ("negative", batch.negatives, dbad),
):
    parts[name] = np.zeros_like(E)
    np.add.at(parts[name], which, gradient)  # equal items add up; a plain E[which] += would not

ours = network.loss_backward(p, 1.0, cache)["items"]
dE = np.zeros_like(E)
dE[ours.ids] = ours.values  # of a large table only the rows that were read are kept: ids, values
print("the sum is the library's:", np.allclose(sum(parts.values()), dE))
rows = [
    [name, np.count_nonzero(part.any(axis=1)), np.linalg.norm(part)] for name, part in parts.items()
]
table("read as | rows with a gradient | norm of it", rows)

# %% [markdown]
# A step touches the rows that its batch has read, and no others: few in a large catalogue. On
# [the page that is all of SASRec](../tinyattn/pages/sasrec.py) the whole step is one function:

# %%
page_part("sasrec", "loss_and_gradient")

# %% [markdown]
# ## What does a score mean?
#
# Suppose that training went as well as it can. Is $\sigma(z)$ then the probability that the item comes next?
#
# Take many positions with the same history, where item $i$ is the target with probability $p$, and the negative with probability $q$. What its score $z$ adds
# to the loss of such a position is, on average,
#
# $$p \cdot [-\log \sigma(z)] + q \cdot [-\log (1 - \sigma(z))] .$$
#
# ### Exercise `bce_belief` (predict the number, ★★☆, 5 min)
#
# An item comes next with probability 0.25, and the negative is one of 20 items, all equally likely, this one among them. What is $\sigma(z)$ where the mean loss is
# lowest? (Both slopes are above.)

# %%
### BEGIN SOLUTION
bce_belief = 0.25 / (0.25 + 1 / 20)
### END SOLUTION

# %%
check("bce_belief", bce_belief)

# %% [markdown]
# So a model trained with BCE is *meant* to give a larger number than the true probability. Solved for the score, the optimum is $z = \log (p / q)$. If $q$ is the same for all items, a larger
# $p$ still means a larger score: **the order is right, the probability is not.** [Petrov & Macdonald (2023)](https://arxiv.org/abs/2308.07192) measured this overconfidence and corrected it.
#
# *Full cross-entropy* (CE) needs no negative: softmax over the scores of all items, and $-\log$ of the target's share. Its slope is $softmax(z) - 1$ at the target and
# $softmax(z)$ at every other item ([03](03_gradients.ipynb)): now all rows of `E` get a gradient, and the optimum is $softmax(z) = p$.
#
# ## Train
#
# Two seeds with each loss, eighteen times through the data (18 *epochs*), in about 10 seconds. The optimiser takes small steps against the gradient (Adam, from [10](10_learning.ipynb)).

# %%
models = {
    (loss, seed): SASRec(
        loss=loss,
        seed=seed,
        maxlen=16,
        dim=24,
        dropout=0.1,
        lr=0.003,
        batch_size=64,
        epochs=18,
        workers=1,
    ).fit(split.train)
    for loss in ("bce", "ce")
    for seed in (1, 2)
}

# %% [markdown]
# How low can CE get? On sequences that it has not seen, no model can beat the truth, which pays the *entropy* of the true distribution,
# $-\sum_i p_i \log p_i$, on average over all positions. (On those that it was trained on it could, by learning them by heart.) The world can
# be asked for it; 300 people are enough.

# %%
some = [split.train.sequence(user) for user in range(min(300, data.n_users))]
prefixes = [s[:t] for s in some for t in range(1, len(s))]
truth = true_next(prefixes)  # (positions, items + 1)
floor = -(truth * np.log(np.where(truth > 0, truth, 1))).sum(axis=1).mean()
print(f"CE: {np.log(data.n_items):.2f} with equal scores, {floor:.2f} if the truth is known")

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 2, size=(8.0, 3.2))
    for ax, loss, start in zip(
        axes, ("bce", "ce"), (2 * np.log(2), np.log(data.n_items)), strict=True
    ):
        for seed, colour, line in ((1, BLUE, "-"), (2, ORANGE, "--")):
            curve = [epoch["loss"] for epoch in models[loss, seed].history]
            ax.plot(range(1, 19), curve, line, color=colour, label=f"seed {seed}")
        ax.axhline(start, color=GREY, ls=":")
        ax.text(18, start, "all scores equal", ha="right", va="bottom", fontsize=9)
        ax.set(
            title=f"{loss.upper()}: training loss",
            xlabel="epoch",
            ylim=(0, start * 1.15),
            xticks=(1, 6, 12, 18),
        )
    axes[1].axhline(floor, color=GREY, ls="-.")
    axes[1].text(18, floor - 0.06, "entropy of the truth", ha="right", va="top", fontsize=9)
    axes[0].legend(loc="lower left")
show_figure(
    fig,
    "training",
    "Two losses by epoch: both fall quickly at first and then slowly; cross-entropy stays above the entropy of the truth",
)

# %% [markdown]
# ## A ranked list
#
# To answer for a new history, take the state of its **newest** item, score all items, leave out what was seen, and sort. Eve is not in the
# data. She has finished series 5, and follows 1 and 3. **Predict:** what should stand at the top, and how sure is the model of it?

# %% tags=["hide-output"]
eve = ["s5e1", "s5e2", "s5e3", "s5e4", "s5e5", "s1e1", "s3e1", "s1e2", "s1e3"]
if FILE is not None:
    eve = names[split.train.sequence(1)[-9:] - 1].tolist()
model = models["bce", 1]
numbers = data.items.numbers(eve)
offered, scores = model.recommend(eve, k=3)
chance = true_next([numbers])[0]
rows = [
    [name, sigmoid(np.float64(score)), chance[data.items.numbers([name])[0]]]
    for name, score in zip(offered, scores, strict=True)
]
table("offered | σ | true probability", rows, digits=2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The next episodes of her two series come first, then the first episode of a new one: these are the three that are truly most probable. $\sigma$ is far above
# the truth, as derived.
#
# </details>
#
# ### Exercise `repaired_scores` (find the bug, ★☆☆, 6 min)
#
# One line of this function is wrong. It was tested on histories of equal length, and no test failed.


# %%
def buggy_scores(h, ids, table):
    """Shapes: h (B, L, D), ids (B, L) padded with 0 on the right, table (items + 1, D) -> (B, items + 1)."""
    last = h[:, -1]  # (B, D)
    scores = last @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)  # what was seen is not offered
    scores[:, 0] = -np.inf  # nor is padding
    return scores


def repaired_scores(h, ids, table):
    """Shapes: h (B, L, D), ids (B, L) padded with 0 on the right, table (items + 1, D) -> (B, items + 1)."""
    ### BEGIN SOLUTION
    newest = (ids != 0).sum(axis=1) - 1  # (B,): where the last real item stands
    scores = h[np.arange(len(h)), newest] @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)
    scores[:, 0] = -np.inf
    return scores
    ### END SOLUTION


# %%
check("repaired_scores", repaired_scores)

# %% [markdown]
# **Predict:** does the bug make the lists useless, or only a little worse? We use the test histories, and the *expected* hit rate HR@3: the
# true probability of the three items at the top. (The hidden item is one draw from it, and adds only noise.)

# %% tags=["hide-output"]
histories = split.histories(split.evaluated, "test")
truth = true_next(histories)  # (people, items + 1)


def expected_hits(scores, k=3):
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(truth, best, axis=1).sum(axis=1).mean()


batch = pad(histories, 16)
h, _ = model.network.forward(model.parameters, batch)
rows = [
    [name, f"{expected_hits(scores(h, batch.ids, model.parameters['items'])):.2f}"]
    for name, scores in (("buggy", buggy_scores), ("repaired", yours("repaired_scores")))
]
table("scores | expected HR@3", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# It is clearly worse, and still far better than three items at random. A state at padding has seen the whole history, too, only as if
# something unknown had followed. Nothing crashes, and without the right number beside it the wrong one looks like a weak model.
#
# </details>
#
# ## What attention looked at
#
# Why `s3e2`? Here is the last row of Eve's weights, in both blocks. A weight says what was read, not what was done with it. So the third picture asks
# otherwise: by how much does the score of `s3e2` fall if one episode is left out of her history? **Predict:** which episode matters most?

# %% tags=["hide-cell"]
_, weights = model.attention(eve)  # (blocks, heads, looking, looked at)
asked = data.items.numbers(offered[1:2])[0]
without = model.score([np.delete(numbers, i) for i in range(len(numbers))])[:, asked]
bars = (*weights[:, 0, -1], model.score([numbers])[0, asked] - without)
titles = ("block 1: weight", "block 2: weight", f"score of {offered[1]}: lost without the episode")
with style():
    fig, axes = figure(3, 1, size=(6.6, 5.6), sharex=True)
    limits = ((0, 0.4), (0, 0.4), (-4, 8))
    for ax, heights, title, ylim in zip(axes, bars, titles, limits, strict=True):
        for i, height in enumerate(heights):
            ours = str(eve[i]).startswith("s3")
            ax.bar(i, height, color=ORANGE if ours else BLUE, hatch="//" if ours else "")
        ax.axhline(0, color=GREY, lw=0.8)
        ax.set(title=title, ylim=ylim)
    axes[2].set_xticks(range(len(eve)), eve)
show_figure(
    fig,
    "eve",
    "Bars over nine episodes: weights in block 1 and block 2, and the score lost without each; hatched is series 3",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# `s3e1`, her only episode of series 3 (hatched): without it the score falls by far the most. The first block's largest weight is there, too. The second
# block reads a little of everything, and gives the finished series most weight: its weights alone explain nothing.
#
# </details>
#
# The page below has the ten best episodes for Eve, and what each of their scores rests on. Its other views have all attention to her history: choose
# an episode, a layer, a head; draw it as lines. Each view says what it does not prove.

# %%
visualise(model, eve)

# %% [markdown]
# ## Which loss wins?
#
# The best possible ranking sorts by the true probability. **Predict:** BCE sees one negative a position, CE all thirty items. Which comes nearer
# to the optimum here?

# %% tags=["hide-output"]
seen = np.zeros(truth.shape, dtype=bool)
np.put_along_axis(seen, batch.ids, True, axis=1)
raw = {which: model.score(histories).astype(np.float64) for which, model in models.items()}
at_random = (3 / (data.n_items - seen[:, 1:].sum(axis=1))).mean()  # of what is unseen
rows = [["three at random", "-", f"{at_random:.2f}", "-"]]
for (loss, seed), z in raw.items():
    hits = expected_hits(np.where(seen, -np.inf, z))
    rows.append(
        [
            f"{loss.upper()}",
            str(seed),
            f"{hits:.2f}",
            f"{(softmax(z) * seen).sum(axis=1).mean():.2f}",
        ]
    )
rows.append(["optimum", "-", f"{expected_hits(truth):.2f}", "0.00"])
table("loss | seed | expected HR@3 | share of softmax(z) on seen items", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# BCE. The last column offers a reason: nobody here watches an episode twice, and CE has learned that, too. BCE need not: a negative is never an item that
# the person has had, and what was seen is left out of the list anyway. This holds for this world, and for this many epochs.
# On real catalogues [Klenitskiy & Vasilev (2023)](https://arxiv.org/abs/2309.07602) found full cross-entropy ahead of BCE with one negative.
#
# </details>
#
# And what do the scores *mean*? Take all unseen items in all test histories, group them by their true probability, and average what each
# loss's model says: $\sigma(z)$, and softmax.

# %% tags=["hide-input"]
EDGES = np.array([0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.9])
unseen = ~seen
unseen[:, 0] = False
q = 1 / unseen.sum(axis=1, keepdims=True)  # as if negatives were drawn from what is unseen now
said = {
    r"BCE: $\sigma(z)$": (sigmoid(raw["bce", 1]), BLUE, "o-"),
    "CE: softmax": (softmax(raw["ce", 1]), ORANGE, "s--"),
    "its optimum, $p / (p + q)$": (truth / (truth + q), GREY, "^:"),
}
with style():
    fig, ax = figure(size=(7.0, 3.8))
    for name, (belief, colour, line) in said.items():
        groups = [unseen & (truth >= low) & (truth < high) for low, high in pairwise(EDGES)]
        groups = [g for g in groups if g.sum() >= 50]
        at = [truth[g].mean() for g in groups]
        ax.plot(at, [belief[g].mean() for g in groups], line, color=colour, label=name)
    ax.plot((0, 0.8), (0, 0.8), color=INK, lw=1, label="said = true")
    ax.set(xlabel="true probability", ylabel="what the model says", ylim=(0, 1), xlim=(0, 0.82))
    label_ends(ax)
show_figure(
    fig,
    "belief",
    "What models say against the true probability: softmax lies near the diagonal, sigma far above it",
)

# %% [markdown]
# CE's softmax is nearer to a probability; it lies about a quarter low, in part because some of it stands on what was seen. BCE's $\sigma$ is no probability, and was never meant to be one. It
# follows its optimum, but not closely, also since $q$ is not quite the same for all items. Negatives are drawn from what a person
# *never* had in training, so an episode that they watch later is never a negative at earlier positions.
#
# | what is often said | what the cells above show |
# |---|---|
# | the loss trains the model, and the items are data | target, negative and inputs all have a row that gets a gradient |
# | $\sigma(z)$ is the probability that the item comes next | 0.83 where the truth is 0.25, at the optimum |
# | full cross-entropy ranks better than BCE with one negative | not in this world, where nobody watches twice, with this little training |
# | attention weights explain a recommendation | one block's agree with leaving out, the other's do not |
#
# ## Your code trains it
#
# The model above ran the library's ops. In the chapters before you wrote some of them: a masked softmax, LayerNorm, and the backward passes
# of softmax, the linear map, attention and LayerNorm. Let them compute. The loss must fall on the same curve as before, to rounding, whoever
# wrote the ops: same seed, same batches, same numbers.

# %%
with your_ops():
    yours_trained = SASRec(
        seed=1, maxlen=16, dim=24, dropout=0.1, lr=0.003, batch_size=64, epochs=3, workers=1
    ).fit(split.train)
rows = [
    [f"{ours['epoch']}", f"{ours['loss']:.5f}", f"{mine['loss']:.5f}"]
    for ours, mine in zip(models["bce", 1].history, yours_trained.history, strict=False)
]
table("epoch | loss, the library's faster forms | loss, with your ops", rows)

# %% [markdown]
# ## On your own data
#
# Everything above is one command: `tinyattn train FILE`. With MovieLens (`tinyattn train ratings.dat`) it finds the format by itself, trains the model
# of the paper, and writes a folder with the metrics; `tinyattn recommend RUN --items 1,2,3` is the ranked list. With `--ops answers` the command, too, computes with your
# answers, and with `--ops readable` with the library's ops as their files say, so that a breakpoint in `softmax_backward` stops there. How much of such
# metrics to believe is the question of [chapter 13](13_not_to_fool_yourself.ipynb).
#
# ## In five lines
#
# - A history is many questions at once: targets are the inputs shifted by one, and the causal mask keeps the answers hidden.
# - A score is a dot product of a state and an item's row of the tied table; the row gets gradients as input, as target and as negative.
# - The slopes are predicted minus true: $\sigma(z) - 1$ at the target, $\sigma(z)$ at the negative.
# - At its optimum BCE with one negative gives $z = \log(p / q)$: the order of the truth, not its probabilities; full cross-entropy gives both.
# - With padding on the right, the state to ask is that of the last real item, whose position differs from row to row.
#
# To read: sections III and IV of [Kang & McAuley (2018)](https://arxiv.org/abs/1808.09781). Next: [13, how not to fool yourself](13_not_to_fool_yourself.ipynb).
