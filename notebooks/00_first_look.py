# %% [markdown]
# # 00 · A first look
#
# Two people have just finished the same episode of the same series. **What should each of them be offered next?**
#
# If only the last episode counts, both get the same offer. If everything they have watched counts, something must decide
# which of those episodes matter *now*. Attention is a way to decide. In the next twenty minutes you train a small model with
# attention, ask it for recommendations, and look at what it looks at. By the end of the course you will have written every part
# of this model yourself, its gradients included, and you will know how to tell that they are right.
#
# **You need**: Python, and a little NumPy. Read the code loosely: all of it comes back, slowly.
#
# **You will be able to**: say in one sentence what attention is; read a map of attention weights; say what *leave-one-out*
# and *HR@10* mean.

# %%
import numpy as np

from tinyattn.course import check, road, road_map, show_figure, table, yours
from tinyattn.data import SeriesWorld, leave_one_out
from tinyattn.models import Markov, Popularity, SASRec
from tinyattn.show import figure, style
from tinyattn.show.style import HEAT, ORANGE

road(0)

# %% [markdown]
# ## A small world
#
# Our data are generated, so that we know what is behind them. There are nine series of six episodes; `s3e2` is episode 2 of
# series 3. Each of 2,000 people follows up to three series at a time: they watch the next episode of one of these, or now and
# then begin a new series. This is the whole history of one of them:

# %%
world = SeriesWorld(series=9, episodes=6, users=2000, most_open=3, shortest=8, longest=24)
data = world.generate()
print(*data.items.decode(data.sequence(1)))

# %% [markdown]
# *Leave-one-out* means that each person's last episode is hidden, and a model has to predict it from what came before. Three models
# will try:
#
# - **popularity** offers what most people have watched;
# - **Markov** offers what most often followed the last episode;
# - **SASRec** ([Kang and McAuley, 2018](https://arxiv.org/abs/1808.09781)) reads the whole history, with attention.
#
# The first two only count. SASRec starts with random numbers, and changes them a little, many times over, so that its predictions
# get better; that takes a few seconds. (Later chapters explain the settings.)

# %%
split = leave_one_out(data)
models = {
    "popularity": Popularity(),
    "Markov": Markov(),
    "SASRec": SASRec(
        seed=1,
        blocks=2,
        dim=32,
        position="none",
        loss="ce",
        dropout=0.1,
        lr=0.005,
        epochs=20,
        workers=1,
    ),
}
for model in models.values():
    model.fit(split.train)

# %% [markdown]
# ## Two people, one episode
#
# Ada has finished series 2, and follows 3, 5 and 7. Ben follows 1, 3 and 4. Both have just watched `s3e3`.
#
# **Predict:** which three episodes would you offer Ada, and which three Ben? What will Markov offer them?

# %% tags=["hide-output"]
people = {
    "Ada": "s2e1 s2e2 s2e3 s2e4 s2e5 s2e6 s5e1 s3e1 s3e2 s5e2 s7e1 s3e3",
    "Ben": "s1e1 s1e2 s3e1 s3e2 s4e1 s1e3 s3e3",
}
rows = []
for name, model in models.items():
    best = [model.recommend(history.split(), k=3)[0] for history in people.values()]
    rows.append([name, *(" ".join(sorted(ids)) for ids in best)])
table("model | for Ada | for Ben", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# SASRec offers each of them the next episodes of the three series that *this person* follows. The other two models cannot know
# whom they talk to. (Their offers differ only because nobody is offered what they have already seen.)
#
# </details>
#
# ## Who looks at whom
#
# Nobody told SASRec what a series is, or that episodes come in order. How does it choose? Each episode of the history looks at
# itself and at all episodes before it, and gives each of them a *weight*; the weights of one look add up to 1. What it
# takes from the others is their mean, with these weights:
#
# > **Attention is a weighted mean of what is there, with weights that are computed from what is there.**
#
# Chapter 01 says how. This model looks twice (`blocks=2`); the map below is the second look at Ada's history. A row is an
# episode that looks, a column one that is looked at, a cell the weight in percent. The framed last row makes the
# recommendation.
#
# **Predict:** where does the last row, `s3e3`, put large weights? How much goes to series 2, which Ada has finished?

# %% tags=["hide-cell"]
ada = people["Ada"].split()
# (blocks, heads, looking, looked at): blocks say which look it is, heads come in chapter 06
_, weights = models["SASRec"].attention(ada)
percent = 100 * weights[1, 0]
with style():
    fig, ax = figure(size=(6.6, 5.3))
    image = ax.imshow(np.ma.masked_equal(percent, 0), cmap=HEAT, vmin=0, vmax=50)
    for j, weight in enumerate(percent[-1]):
        colour = "white" if weight < 27 else "black"
        ax.text(j, len(ada) - 1, f"{weight:.0f}", ha="center", va="center", color=colour)
    fig.colorbar(image, ax=ax, fraction=0.04, extend="max")
    ax.axhspan(len(ada) - 1.5, len(ada) - 0.5, fill=False, ec=ORANGE, lw=3, clip_on=False)
    ax.set_xticks(range(len(ada)), ada, rotation=60)
    ax.set_yticks(range(len(ada)), ada)
    ax.set(
        xlabel="looked at", ylabel="looking", title="Ada's history: attention weights in percent"
    )
show_figure(
    fig,
    "who-looks-at-whom",
    "A triangle of weights, twelve rows and columns; in the last row the newest episodes of series 3 and 7 "
    "have the largest weights, the six episodes of the finished series 2 small ones",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The three largest weights go to the newest episodes of the series that Ada still follows. The finished series gets little:
# nothing of it can come next.
#
# </details>
#
# One history proves nothing. Here are the last row's mean weights in the histories of 300 people:

# %% tags=["hide-cell"]
KINDS = ("newest of a running series", "earlier ones of it", "of a finished series")
found = {kind: [] for kind in KINDS}
for history in split.histories(split.evaluated[:300], "test"):
    look = models["SASRec"].attention(data.items.decode(history))[1][1, 0, -1]
    series, episode = np.divmod(history - 1, world.episodes)
    for s, e, weight in zip(series, episode, look, strict=True):
        newest = episode[series == s].max()
        kind = 2 if newest == world.episodes - 1 else 0 if e == newest else 1
        found[KINDS[kind]].append(weight)
table("episode | mean weight", [[kind, f"{np.mean(found[kind]):.0%}"] for kind in KINDS])

# %% [markdown]
# ## How good is it?
#
# *HR@10*, the hit rate at 10, is the share of people whose hidden episode is among the first ten that a model offers. What is a
# good one? That depends on what a guess is worth.
#
# ### Exercise `chance_hit_rate` (predict the number, ★☆☆, 2 min)
#
# Ada has seen 12 of the 54 episodes, and is offered ten of the *others* at random. How likely is the one that she watches next
# among them?

# %%
### BEGIN SOLUTION
chance_hit_rate = 10 / 42
### END SOLUTION

# %%
check("chance_hit_rate", chance_hit_rate)

# %% [markdown]
# ### Exercise `my_hit_rate` (write the op, ★☆☆, 2 min)
#
# The *rank* of the hidden episode is its place in a model's list, 1 for the first. Given everybody's ranks, return the
# share that is at most `k`. One line will do. (The line `Shapes:` says what goes in and what comes out.)


# %%
def my_hit_rate(ranks, k):
    """Shapes: ranks (people,), k a whole number -> hit_rate, a number from 0 to 1."""
    ### BEGIN SOLUTION
    return np.mean(ranks <= k)
    ### END SOLUTION


# %%
check("my_hit_rate", my_hit_rate)

# %% [markdown]
# ### Exercise `repaired_rank` (find the bug, ★☆☆, 3 min)
#
# A model gives each item a score, and the highest comes first. `scores[target]` is the hidden item's. With `buggy_rank`
# every model looks a little better than it is: put it right.


# %%
def buggy_rank(scores, target):
    """Shapes: scores (items,), target a whole number -> rank of that item, 1 for the best."""
    return np.sum(scores > scores[target])


def repaired_rank(scores, target):
    """Shapes: scores (items,), target a whole number -> rank of that item, 1 for the best."""
    ### BEGIN SOLUTION
    return 1 + np.sum(scores > scores[target])
    ### END SOLUTION


# %%
check("repaired_rank", repaired_rank)

# %% [markdown]
# Now measure all three with your own functions. (Until `check` has accepted them, `yours` takes the library's.)

# %%
hit_rate, rank = yours("my_hit_rate"), yours("repaired_rank")
histories, hidden = split.histories(split.evaluated, "test"), split.test[split.evaluated]
rows = []
for name, model in models.items():
    scores = model.score(histories)
    for row, history in zip(scores, histories, strict=True):
        row[history] = -np.inf  # nobody is offered what they have seen
    ranks = np.array([rank(row, target) for row, target in zip(scores, hidden, strict=True)])
    rows.append([name, f"{hit_rate(ranks, 10):.2f}"])
table("model | HR@10", rows)

# %% [markdown]
# A guess is worth about a quarter, what everybody watches .45, the last episode .70, and the whole history .98, once a model
# knows where in it to look. (On real data the gaps are smaller, and can turn round: [chapter 13](13_not_to_fool_yourself.ipynb).)
#
# Where it goes from here: the course in six parts, a circle a chapter.

# %% tags=["hide-input"]
with style():
    fig = road_map(here=0)
show_figure(
    fig,
    "map",
    "The map of all chapters in six parts: attention (00 to 09), learning (10), "
    "recommenders (11 to 15), around it (16 to 20), fast (21 and 22), since then (23)",
)

# %% [markdown]
# ## In five lines
#
# - Attention is a weighted mean of what is there, with weights that are computed from what is there.
# - In a map of the weights a row looks and a column is looked at; each row adds up to 1.
# - Leave-one-out hides each person's last item; HR@10 is how often it is among the first ten offered.
# - Two people with the same last item can need different offers: attention can make them, a model that sees only the last
#   item cannot.
# - Nobody told the model what a series is: it learned from histories alone where to look.
#
# To read: the first two pages of [Kang and McAuley (2018)](https://arxiv.org/abs/1808.09781). Next:
# [01, soft look-up](01_soft_lookup.ipynb), where the weights are computed, one number at a time.
