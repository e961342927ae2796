# %% [markdown]
# # 13 · How not to fool yourself
#
# A recommender has an HR@10 of .79 on MovieLens. It also has one of .21: the same model, the same people, the same hidden items
# ([measured](../benchmarks/results/ml-1m.md)). Only the question differed. **How much of a good number is the protocol's?**
#
# In this chapter you produce good numbers that are not true, one way after the other. Every world is generated, so that we know the best
# number that any model could have. Whatever is above it is a mistake.
#
# **You need**: leave-one-out, HR@10 and a rank ([00](00_first_look.ipynb)), masks and leaks ([05](05_masks.ipynb)), a recommender
# ([12](12_sasrec.ipynb)). NDCG@10 gives a hit at rank $r$ the credit $1 / \log_2(r + 1)$: 1 at the top, .29 at the tenth place.
#
# **You will be able to**:
#
# - rank with ties, and find a leak by a number that is too good;
# - compute what a sampled metric says from full ranks, and why it can turn two models round;
# - say what a difference between two runs is worth, and what choosing the best of many adds by chance.

# %%
import math

import numpy as np

from tinyattn.course import check, road, show_arrays, show_figure, table, yours
from tinyattn.data import leave_one_out
from tinyattn.data.worlds import ChainWorld, TasteWorld
from tinyattn.evaluation import draw_candidates, evaluate, ndcg, paired_difference, target_ranks
from tinyattn.models import EASE, FPMC, ItemCosine, Markov, Popularity
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, INK, ORANGE

road(13)

# %% [markdown]
# ## A world in which nothing can be learned
#
# 2,000 people take ten items each out of 120. All have the same taste and no memory: an item is drawn by its popularity, and the only rule is
# that nobody takes one twice. So the best model that there can be offers what is popular. (`best_ranking` sorts items by their true
# probability.)

# %%
world = TasteWorld(tastes=1, items=120, users=2000, shortest=10, longest=10)
data = world.generate()
split = leave_one_out(data)
sequences = data.flat.reshape(2000, 10)  # the last item of each row is the test item
popular = Popularity().fit(split.train)


def optimum(histories, users=None):
    """The best scores that there can be: (people, items + 1), column 0 is padding."""
    return world.best_ranking(histories)


def hr10(score, **how):
    return evaluate(score, split, **how)["full"]["hr@10"]


table("model | HR@10", [["optimum", hr10(optimum)], ["popularity", hr10(popular)]])

# %% [markdown]
# ## One: ties
#
# Evaluation code often puts the hidden item first, 100 others behind it, sorts, and looks where the first one went. Here is
# a model that has collapsed: it gives every item the score 0. And one that is merely saturated: the counts of popularity, through a
# sigmoid in float32.

# %%
others = draw_candidates(split, "uni100")  # (people, 100)
candidates = np.hstack(
    [split.test[split.evaluated][:, None], others]
)  # the hidden item comes first
counts = popular.counts[candidates].astype(np.float32)
MODELS = {
    "popularity": counts,
    "saturated": 1 / (1 + np.exp(-counts)),
    "collapsed": np.zeros_like(counts),
}
show_arrays(popularity=counts[0, :6], saturated=MODELS["saturated"][0, :6], decimals=0)

# %% [markdown]
# In float32 `1 + exp(-s)` is 1 from $s = 17$ on: nearly all the scores are the same. Three ways to find the rank of the first column: sort
# with it first, sort with it last, and count what is above, as you did in [chapter 00](00_first_look.ipynb).
#
# **Predict:** which HR@10 does the collapsed model have by each of the three?


# %% tags=["hide-output"]
def sorted_first(scores):
    order = np.argsort(-scores, axis=1, kind="stable")  # of equal scores the first one comes first
    return 1 + np.argmax(order == 0, axis=1)


def sorted_last(scores):
    order = np.argsort(-scores[:, ::-1], axis=1, kind="stable")
    return 1 + np.argmax(order == scores.shape[1] - 1, axis=1)


rank = yours("repaired_rank")


def counted(scores):
    return np.array([rank(row, 0) for row in scores])


def compared(ways):
    rows = [[n, *(f"{np.mean(way(s) <= 10):.3f}" for way in ways)] for n, s in MODELS.items()]
    return table("model | " + " | ".join(way.__name__ for way in ways), rows)


compared((sorted_first, sorted_last, counted))

# %% [markdown]
# The model that knows nothing is perfect, or hopeless, depending on the column of the answer. Counting what is above is no better: nothing is
# above. Nobody writes a collapsed model on purpose. But a ReLU that gives 0 for every input, a sigmoid, half precision or an early epoch makes ties, and the
# metric rewards them.
#
# The way out is to give tied items the mean of the ranks that they share,
#
# $$\text{rank} = 1 + \#\{s > s_{\text{target}}\} + \tfrac12\,\#\{s = s_{\text{target}}, \text{ the target left out}\} ,$$
#
# which is the expected rank if ties are broken at random.
#
# ### Exercise `my_mean_ranks` (write the op, ★☆☆, 6 min)
#
# Return the mean rank of each row's target.


# %%
def my_mean_ranks(scores, targets):
    """Shapes: scores (people, items), targets (people,) column numbers -> ranks (people,)."""
    ### BEGIN SOLUTION
    own = np.take_along_axis(scores, targets[:, None], axis=1)
    above = (scores > own).sum(axis=1)
    equal = (scores == own).sum(axis=1) - 1  # the target itself is equal, too
    return 1 + above + equal / 2
    ### END SOLUTION


# %%
check("my_mean_ranks", my_mean_ranks)

# %%
mean_ranks = yours("my_mean_ranks")


def by_mean(scores):
    return mean_ranks(scores, np.zeros(len(scores), dtype=int))


compared((by_mean,))

# %% [markdown]
# Ties are no advantage any more. (Guessing would be worth 10/101, about .1, and here the collapsed model has 0: a mean rank of 51 is a miss.)
# Popularity has a few ties as well, and lies between its two sorted numbers.
#
# ## Two: leaks
#
# Back to all items. This model counts what followed each item, and scores by what followed a person's last one. No order can help in this world.
#
# **Predict:** where does it stand: below the optimum's .615, or above?


# %% tags=["hide-output"]
def buggy_counts(sequences, n_items):
    """How often item j followed item i, the test items (the last of each row) left out.

    Shapes: sequences (people, n), items from 1 -> counts (n_items + 1, n_items + 1)."""
    before = sequences[:, :-1]  # everything but the test item
    after = sequences[:, 1:]  # what came one place later
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (before, after), 1)
    return counts


def follows(counts):
    """The model that scores by what followed the last item."""
    return lambda histories, users=None: counts[[history[-1] for history in histories]]


print(f"HR@10 {hr10(follows(buggy_counts(sequences, 120))):.3f}")

# %% [markdown]
# Above. Chance alone does not do that: for 2,000 people the standard error of such a share is $\sqrt{.6 \cdot .4 / 2000} = .011$, and this is four of them above the optimum. **A number
# above the optimum is a bug**: we know it before we have read a line of the code.
#
# ### Exercise `repaired_counts` (find the bug, ★☆☆, 5 min)
#
# Where does the answer get into the counts? Write `repaired_counts`, which learns from all items but the last of each row.


# %%
def repaired_counts(sequences, n_items):
    """Shapes: sequences (people, n), items from 1, the last is the test item -> (n_items + 1, n_items + 1)."""
    ### BEGIN SOLUTION
    train = sequences[:, :-1]
    counts = np.zeros((n_items + 1, n_items + 1))
    np.add.at(counts, (train[:, :-1], train[:, 1:]), 1)
    return counts
    ### END SOLUTION


# %%
check("repaired_counts", repaired_counts)

# %% [markdown]
# How much a leak is worth depends on how much a model can remember. Here are Markov chains that look at one, two and three items, fitted on the
# training part and, by mistake, on everything. Since we know the truth, there is a second column: the HR@10 that is *expected* if the next item
# is drawn anew.

# %%
follow_counts = yours("repaired_counts")
rows = [["optimum", hr10(optimum), hr10(optimum, truth=world.next_item)]]
rivals = {
    "counts, repaired": follows(follow_counts(sequences, 120)),
    "counts, leaking": follows(buggy_counts(sequences, 120)),
    "popularity, leaking": Popularity().fit(data),
    "Markov 2, clean": Markov(order=2).fit(split.train),
    "Markov 2, leaking": Markov(order=2).fit(data),
    "Markov 3, leaking": Markov(order=3).fit(data),
}
for name, model in rivals.items():
    rows.append([name, hr10(model), hr10(model, truth=world.next_item)])
table("model | on the test items | expected", rows)

# %% [markdown]
# The last three items identify nearly everybody: whoever took these three is in the data once, and what followed was the test item. So the measured HR@10 is 1, and if the
# next item is drawn anew, the model is worse than popularity. Popularity leaks, too: each test item adds 1 to its own count of several hundred. That is too little to be seen. The
# more a model can remember, the more a leak is worth.
#
# A wrong mask leaks differently ([chapter 05](05_masks.ipynb)). If a query sees one key too many, it sees its own target, and what training finds is
# to copy. Let us count what such a model learns: which target goes with which *peeked* item.

# %%
peeked = sequences[
    :, 1:-1
]  # at every place of the training part, the item one further on: the target
copier = np.zeros((121, 121))
np.add.at(copier, (peeked, peeked), 1)
best = copier[peeked.reshape(-1)].argmax(axis=1)
print(f"right while it may peek: {np.mean(best == peeked.reshape(-1)):.2f}")
print(f"HR@10 at the end, where nothing follows: {hr10(follows(copier)):.2f}")

# %% [markdown]
# Perfect within the sequence, worthless at its end. So measure at the place that you will use, on items that training never saw, and try your pipeline on a world like this:
# it takes seconds.
#
# ## Three: the rival that was left out
#
# Now a world with something to learn: each item has four likely successors. Here is a table as it might be printed.

# %%
chain = ChainWorld(items=60, users=1500, shortest=8, longest=20)
split = leave_one_out(chain.generate())
models = {"popularity": Popularity(), "item cosine": ItemCosine(), "EASE": EASE()}
table("model | HR@10", [[name, hr10(model.fit(split.train))] for name, model in models.items()])

# %% [markdown]
# EASE ([Steck 2019](https://arxiv.org/abs/1905.03375)), a strong linear model, gains 30 % over popularity. Is it good?
#
# **Predict:** what do five lines of counting have, and what the optimum?

# %% tags=["hide-output"]
rows = [["Markov", hr10(Markov().fit(split.train))]]
rows += [["optimum", hr10(lambda histories, users: chain.best_ranking(histories))]]
table("model | HR@10", rows)

# %% [markdown]
# Nothing in the table was wrong; a row was missing. [Ferrari Dacrema et al. (2019)](https://arxiv.org/abs/1907.06902) tried to reproduce 18 neural recommenders; most of the 7 that they
# could run lost to a simple method that had been left out or not tuned. The tables of this project on real data print popularity and Markov
# ([MovieLens](../benchmarks/results/ml-1m.md)). The optimum we know in generated worlds only; a good rival is the next best thing.
#
# ## Four: among a hundred
#
# Scoring all items once was slow, so it became usual to rank the hidden item among 100 drawn ones. Here are two honest models in a world of 600 items where
# three quarters of all choices follow popularity, and a quarter the last item. `counts` knows only what followed, and gives all other items the score 0. `popularity` knows
# nothing of the last item.
#
# **Predict:** which of the two is better among all 600? Among 100?

# %% tags=["hide-output"]
wide = ChainWorld(items=600, groups=600, followers=3, noise=0.75, users=2000, shortest=8, longest=8)
data = wide.generate()
split = leave_one_out(data)
train = data.flat.reshape(2000, 8)[:, :-1]  # without the test item; the last is for validation
pair = {"counts": follows(follow_counts(train, 600)), "popularity": Popularity().fit(split.train)}
among = {"uni100": draw_candidates(split, "uni100")}
ranks = {name: target_ranks(model, split, sampled=among) for name, model in pair.items()}
rows = [[n, *(f"{np.mean(r[p] < 11):.3f}" for p in ("full", "uni100"))] for n, r in ranks.items()]
table("model | HR@10 among all | HR@10 among 100", rows)

# %% [markdown]
# They change places. No number is wrong: they answer different questions. Which one the sample asks can be derived.
#
# Let the hidden item have rank $r$ among all, with $N$ others. Of these, $r - 1$ are above it, so one that is drawn uniformly is above with
# probability $a = (r - 1)/N$. Draw $m$ with replacement: the number that is above is binomial, and the item is among the first $k$ if fewer than
# $k$ are above:
#
# $$P(\text{hit} \mid r) = \sum_{j=0}^{k-1} \binom{m}{j}\, a^j\, (1 - a)^{m - j} .$$
#
# ### Exercise `my_sampled_hit` (write the op, ★★☆, 8 min)
#
# Return this probability for each of many ranks.


# %%
def my_sampled_hit(ranks, N, m, k):
    """Shapes: ranks (people,), 1 to N + 1; N others, m drawn, k <= m places -> probability (people,)."""
    ### BEGIN SOLUTION
    a = (ranks - 1) / N
    return sum(math.comb(m, j) * a**j * (1 - a) ** (m - j) for j in range(k))
    ### END SOLUTION


# %%
check("my_sampled_hit", my_sampled_hit)

# %% [markdown]
# So the sampled HR@10 is a *metric of full ranks*: the mean of this curve, in place of a step at 10. Does it give the measured numbers, from full ranks
# alone? (The full rank leaves out seven seen items and the target: 592 others. The draw leaves out only the six training items: a pool of 594. We take 593, so the two agree nearly.)

# %%
sampled_hit = yours("my_sampled_hit")
rows = []
for name, r in ranks.items():
    rows.append([name, np.mean(r["uni100"] < 11), sampled_hit(r["full"], 593, 100, 10).mean()])
table("model | measured among 100 | computed from full ranks", rows, digits=2)

# %% tags=["hide-input"]
places = np.arange(1, 201)
with style():
    fig, (top, bottom) = figure(2, 1, size=(6.2, 5.4), sharex=True)
    top.plot(places, places <= 10, "--", drawstyle="steps-mid", color=ORANGE, label="among all")
    top.plot(places, sampled_hit(places, 593, 100, 10), color=BLUE, label="among 100")
    top.set(ylabel="credit for the rank", title="credit that HR@10 gives")
    top.legend()
    for (name, r), line, colour in zip(ranks.items(), ("-", ":"), (BLUE, INK), strict=True):
        share = [np.mean(r["full"] <= place) for place in places]
        bottom.plot(places, share, line, color=colour, lw=2, label=name)
    bottom.axvline(10, color=GREY, lw=1, ls="--")
    bottom.set(
        xlabel="rank $r$ among all", ylabel="share of people", title="hidden items up to rank $r$"
    )
    bottom.legend()
show_figure(
    fig,
    "transformation",
    "Above: among all, ranks up to 10 have the credit 1 and others 0; among 100 the credit falls slowly, "
    "from 1 to a half at about rank 58 and to 0 near 120. Below: the counts have more hidden items up to rank 10, "
    "popularity has more from about rank 30 on",
)

# %% [markdown]
# Among 100, rank 30 has nearly the credit of rank 2, and nobody scrolls to rank 30. The counts have more people up to the step at 10, popularity more under the whole curve. That is the finding of
# [Krichene and Rendle (2020)](https://doi.org/10.1145/3394486.3403226): sampled metrics can put models in another order, however many people are measured.
# The .79 and the .21 of the beginning are SASRec's, among 100 and among all. A first-order Markov chain has .64 among 100, .21 among all: far behind by
# one protocol, equal to two digits by the other.
#
# ## Five: another seed
#
# A model begins with random numbers. Here is one method eight times, with eight seeds: FPMC ([11](11_before_sasrec.ipynb)), a factorised
# Markov chain. We keep NDCG@10 of every person.

# %%
small = ChainWorld(items=40, groups=40, users=500, shortest=8, longest=14)
split = leave_one_out(small.generate())
values, expected = [], []
for seed in range(8):
    model = FPMC(dim=8, epochs=8, lr=0.03, seed=seed, workers=1).fit(split.train)
    values.append(ndcg(target_ranks(model, split)["full"], 10))
    expected.append(evaluate(model, split, truth=small.next_item)["full"]["ndcg@10"])
values = np.array(values)  # (seeds, people)
table(
    "NDCG@10 of eight seeds | lowest | highest | standard deviation",
    [
        [name, *(f"{x:.2f}" for x in (min(m), max(m))), f"{np.std(m, ddof=1):.3f}"]
        for name, m in (("on the test items", values.mean(axis=1)), ("expected", expected))
    ],
)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.0, 3.0))
    reach = 1.96 * values.std(axis=1) / math.sqrt(500)
    ax.errorbar(
        np.arange(8) - 0.08,
        values.mean(axis=1),
        reach,
        fmt="o",
        color=BLUE,
        capsize=3,
        label="on 500 test items, with the 95 % interval",
    )
    ax.plot(np.arange(8) + 0.08, expected, "s", color=ORANGE, label="expected")
    ax.set(xlabel="seed", ylabel="NDCG@10", ylim=(0.43, 0.6), xticks=range(8))
    ax.legend(loc="upper left")
show_figure(
    fig,
    "seeds",
    "Eight seeds: NDCG@10 on the test items lies between .48 and .52, with intervals of .03 to both sides; "
    "the expected values lie closer together, between .51 and .52",
)

# %% [markdown]
# A new method that beats an old one by less than this spread, with one seed each, has shown nothing. What can be said of two runs? Both were measured on the
# same people, so look at each person's *difference*: what makes a person hard for both cancels. Draw the people anew, with replacement, many times: the middle
# 95 % of the mean differences are an interval (the *paired bootstrap*).

# %%
high, low = values.mean(axis=1).argmax(), values.mean(axis=1).argmin()
alone = values[high].std() / math.sqrt(500)
print(f"one model's standard error over people: {alone:.3f}")
found = paired_difference(values[high], values[low])
print(f"best seed less worst: {found.mean:.2f}, from {found.low:.2f} to {found.high:.2f}")

# %% [markdown]
# **Predict:** eight seeds make 28 pairs of a method with *itself*. How many of these intervals leave out 0, and look "significant"?

# %% tags=["hide-output"]
every = [paired_difference(values[i], values[j]) for i in range(8) for j in range(i)]
share = np.mean([d.low > 0 or d.high < 0 for d in every])
print(f"share of the {len(every)} intervals that leave out 0: {share:.1f}")

# %% [markdown]
# About one in ten. (One in twenty would be chance; 28 pairs of eight runs are too few to tell.) The interval is not to blame. It says what *other people* would have shown of these two runs, and the runs do differ. That the *method* is better is another claim, about
# other seeds, and needs several of each. Report the mean and the spread of seeds, and the interval over people, and say which is which.
#
# ## Six: the best of many
#
# The last way is the most common one, and needs no bug. You train for 20 epochs, measure each on the test items, and report the best.
#
# ### Exercise `best_of_twenty` (predict the number, ★★☆, 4 min)
#
# 20 models are equally good: each has a true HR@10 of .25. Each is measured on 500 people of its own, so the measured number is off by chance. By how much is
# the *highest* of the 20 above .25, on average?

# %%
### BEGIN SOLUTION
best_of_twenty = 0.036
### END SOLUTION

# %%
check("best_of_twenty", best_of_twenty)

# %% [markdown]
# A share has the standard error $\sqrt{.25 \cdot .75 / 500} = .019$, and the highest of 20 normal numbers is on average 1.87 standard deviations above their
# mean. So .25 becomes .286: "14 % better", of nothing at all. How does that grow?

# %% tags=["hide-input"]
rng = np.random.default_rng(0)
tries = np.array([1, 2, 5, 10, 20, 50, 100, 200])
with style():
    fig, ax = figure(size=(6.0, 3.2))
    for people, line, colour, marker in ((500, "-", BLUE, "o"), (6040, "--", ORANGE, "s")):
        error = math.sqrt(0.25 * 0.75 / people)
        highest = [rng.standard_normal((4000, n)).max(axis=1).mean() * error for n in tries]
        ax.plot(tries, highest, line, marker=marker, color=colour, label=f"{people:,} people")
    ax.set(xscale="log", xlabel="models of which the best is reported", ylabel="gain by chance")
    ax.set(
        ylim=(-0.002, None),
        title="HR@10 above the true .25",
        xticks=tries,
        xticklabels=[str(n) for n in tries],
    )
    ax.minorticks_off()
    ax.legend()
show_figure(
    fig,
    "best-of-many",
    "The gain by chance grows with the number of models, quickly at first: with 500 people .036 for 20 models and "
    ".053 for 200, with 6,040 people less than a third of that",
)

# %% [markdown]
# Epochs of one run are measured on the same people, so they err alike, and the gain is smaller. How large is it with our eight seeds? Choose the best on a random half of the
# people, and look at the same model on the other half.

# %%
rng = np.random.default_rng(1)
chosen, fresh = [], []
for _ in range(500):
    people = rng.permutation(500)
    here, there = values[:, people[:250]].mean(axis=1), values[:, people[250:]].mean(axis=1)
    chosen.append(here.max() - here.mean())
    fresh.append(there[here.argmax()] - there.mean())
print(f"better than the mean seed, where it was chosen: {np.mean(chosen):.3f}")
print(f"better than the mean seed, on other people:     {np.mean(fresh):.3f}")

# %% [markdown]
# A third of the lead is real; the rest was chance, and is gone on other people. That is what the validation item is for: choose epochs, options and seeds by it, as often as you like, and look at the
# test item once.
#
# | what is often said | what the cells above show |
# |---|---|
# | a metric is a metric | a model that scores all items alike has 1 or 0, depending on the answer's column |
# | a leak is found by reading the code | by a number above the optimum, in a world where nothing can be learned |
# | among 100 the numbers are higher, but the order is the same | two honest models change places |
# | the interval leaves out 0, so the method is better | so do some intervals of a method against itself |
#
# ## In five lines
#
# - Ties get mean ranks; otherwise a model that scores all items alike can look perfect.
# - Try the pipeline on a world whose optimum is known: what is above it is a bug.
# - Rank among all items: a sample gives rank 30 nearly the credit of rank 1.
# - Print popularity, Markov and another seed in every table; an interval over people says nothing of seeds.
# - Choose on validation and look at the test once: the best of 20 equally good models looks 1.87 standard errors better than it is.
#
# To read: [Krichene and Rendle (2020)](https://doi.org/10.1145/3394486.3403226), sections 1 to 4. Next: [14, BERT4Rec](14_bert4rec.ipynb), a model that may look both ways, and must not see
# its target all the same.
