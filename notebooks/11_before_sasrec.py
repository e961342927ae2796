# %% [markdown]
# # 11 · Before SASRec
#
# A model with attention weighs a person's whole history. The models before it made do with less: a vector for each person, the last item, a sum. **What does each of
# them assume, and where is the assumption true?**
#
# Eight well-known models have one formula, and differ in one vector. You derive its gradient once, build what some of them need, and let
# all of them compete in worlds that are as one of them assumes.
#
# **You need**: gradients of products ([03](03_gradients.ipynb)), leave-one-out ([00](00_first_look.ipynb)), a matrix's inverse, Lagrange
# multipliers.
#
# **You will be able to**:
#
# - derive the gradient of a ranking loss, and of every model whose scores are dot products;
# - say what a model can read of a history, and test it;
# - count the parameters that grow with people, and say what a person's vector is worth.

# %% tags=["hide-input"]
import math
import time
from itertools import pairwise

import numpy as np

from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.data import Sampler, leave_one_out, pad
from tinyattn.data.worlds import ChainWorld, TasteWorld
from tinyattn.evaluation import evaluate
from tinyattn.models import (
    EASE,
    FISM,
    FPMC,
    MF,
    NARM,
    Caser,
    Fossil,
    GRU4Rec,
    ItemCosine,
    Markov,
    Popularity,
    SASRec,
)
from tinyattn.ops import sigmoid
from tinyattn.show import figure, style
from tinyattn.show.style import HEAT
from tinyattn.tree import leaves, tree_map

road(11)

# %% [markdown]
# ## Three worlds
#
# Our data are generated, so that the true chances are known. Each world has 300 people:
#
# - **tastes**: everybody has one of eight hidden tastes. The order says nothing.
# - **last item**: what comes next depends on the last item, and on nothing else.
# - **last two**: it depends on the last two items *together*. What follows A, B has nothing to do with what follows C, B.

# %%
worlds = {
    "tastes": TasteWorld(users=300, items=60, shortest=8, longest=16),
    "last item": ChainWorld(users=300, items=40, groups=40, shortest=8, longest=16),
    "last two": ChainWorld(users=300, items=40, order=2, groups=5, shortest=8, longest=16),
}
splits = {name: leave_one_out(world.generate()) for name, world in worlds.items()}

# %% [markdown]
# ## One dot product
#
# All of these models score item $i$ for a person at some moment by
#
# $$score(i) = x \cdot q_i + b_i .$$
#
# $q_i$ is a learned row of the item, and $b_i$ says how popular it is. (Some leave it out.) What is known of the person is in $x$. With $y_j$, a second
# learned row of item $j$, and $n$ items in the history:
#
# | model | $x$ | reads |
# |---|---|---|
# | MF: [Rendle et al. 2009](https://arxiv.org/abs/1205.2618) | $p_u$, a learned row of the person | nothing of it |
# | FISM: [Kabbur et al. 2013](https://doi.org/10.1145/2487575.2487589) | $n^{-\alpha} \sum_j y_j$ | a set |
# | EASE: [Steck 2019](https://arxiv.org/abs/1905.03375) | 1 at each item of the history, 0 elsewhere | a set |
# | FPMC: [Rendle et al. 2010](https://doi.org/10.1145/1772690.1772773) | $[p_u;\; y_{last}]$, one after the other | the last item |
# | Fossil: [He & McAuley 2016](https://arxiv.org/abs/1609.09152) | $n^{-\alpha} \sum_j y_j + \sum_k (\eta_k + \eta_{uk})\, y_{-k}$ | a set, and the last three |
# | Caser: [Tang & Wang 2018](https://arxiv.org/abs/1809.07426) | filters over the last five rows, then $p_u$ | the last five |
# | GRU4Rec: [Hidasi et al. 2016](https://arxiv.org/abs/1511.06939) | $h_n$, with $h_t = f(h_{t-1}, y_t)$ | all, in order |
# | NARM: [Li et al. 2017](https://arxiv.org/abs/1711.04725) | $B\,[h_n;\; \sum_j \alpha_j h_j]$ | all, in order |
#
# $y_{-k}$ is the row of the $k$-th item from the end; its weight has a common part $\eta_k$ and one of the person, $\eta_{uk}$. In NARM the last state looks at all states, with weights $\alpha_j$: that is attention, on top of
# a recurrence; $B$ is learned. [17](17_before_attention.ipynb) is about $f$. The power $\alpha$ lies between 0, for a sum, and 1, for a mean.
#
# ## A loss for orders
#
# A shop knows what somebody took, and not what they dislike. Rendle et al. (2009, section 4) concluded: do not fit scores, fit *orders*. Draw an item that the person did not take, `bad`; the one
# taken, `good`, should stand above it. With $z = x \cdot q_{good} - x \cdot q_{bad}$, let $\sigma(z) = 1 / (1 + e^{-z})$ be the chance that it does. This is *BPR*, Bayesian personalised ranking:
#
# $$loss = -\log \sigma(z) = \log(1 + e^{-z}) .$$
#
# (The paper adds $\lambda$ times the squared parameters.)
#
# ### Exercise `my_bpr_backward` (derive the backward, ★★☆, 10 min)
#
# Here is the loss of each pair. Write its backward. Scores may be large: no `exp` of a large number.


# %%
def bpr_loss(x, good, bad):
    """Shapes: x, good, bad (..., d) -> loss (...)."""
    return np.logaddexp(0, -(x * (good - bad)).sum(-1))


def my_bpr_backward(dloss, x, good, bad):
    """Shapes: dloss (...), x, good, bad (..., d) -> dx, dgood, dbad (..., d)."""
    ### BEGIN SOLUTION
    dz = (-dloss * sigmoid(-(x * (good - bad)).sum(-1)))[..., None]  # (..., 1)
    return dz * (good - bad), dz * x, -dz * x
    ### END SOLUTION


# %%
check("my_bpr_backward", my_bpr_backward)

# %% [markdown]
# The slope is $-\sigma(-z)$: a pair in the wrong order pulls with almost 1, one that is settled with almost 0.
#
# From `dx` on, the models part. In FPMC $x$ has two halves, and so has `dx`: one is the person's, one the last item's. Let the library confirm it, on a batch of people with their histories:

# %%
train = splits["tastes"].train
batch = Sampler(train, maxlen=16, batch_size=32, seed=0, negatives=True).batch(0)

network = FPMC(dim=4, dropout=0.0, loss="bpr").make_network(train.n_items, train.n_users)
rng = np.random.default_rng(0)
p = tree_map(lambda w: rng.standard_normal(w.shape), network.init(rng))
people = np.broadcast_to(p["users"][batch.users][:, None], (*batch.ids.shape, 4))
x = np.concatenate([people, p["items"][batch.ids]], axis=-1)  # (B, L, 8)
good, bad = p["output"][batch.targets], p["output"][batch.negatives]

dx, _, _ = yours("my_bpr_backward")(batch.weight / batch.weight.sum(), x, good, bad)
dusers = np.zeros_like(p["users"])
np.add.at(dusers, batch.users, dx[..., :4].sum(axis=1))  # all moments of a person share one row
theirs = network.loss_backward(p, 1.0, network.loss(p, batch)[1])["users"]
print("the library's:", np.allclose(theirs.values, dusers[theirs.ids]))

# %% [markdown]
# The others follow by the same step, from `dx` to what $x$ is made of ($x_t$ stands after $t$ items):
#
# | | from `dx`, by hand |
# |---|---|
# | FISM | $y_j$ is in $x_t$ for all $t \ge j$, so $dy_j = \sum_{t \ge j} t^{-\alpha}\, dx_t$ |
# | Fossil | as FISM, and $\eta_k\, dx$ more for the $k$-th item from the end; $d\eta_k = dx \cdot y_{-k}$ |
# | Caser | a horizontal filter keeps its strongest place of the five, and only that place gets a gradient |
# | GRU4Rec | from $h_n$ back through every step: $dh_{t-1} = dh_t\, \partial f / \partial h_{t-1}$ |
# | NARM | $dh_j$ gets $\alpha_j\, dx$, and $d\alpha_j = dx \cdot h_j$, as in [04](04_attention_backward.ipynb) |
#
# For example $\eta$, which all people and all moments share, so that their gradients are summed:

# %%
network = Fossil(dim=4, dropout=0.0).make_network(train.n_items, train.n_users)
p = tree_map(lambda w: rng.standard_normal(w.shape), network.init(rng))
y, dx = p["items"][batch.ids], rng.standard_normal((*batch.ids.shape, 4))
_, theirs = network.read_backward(p, dx, batch)
mine = [(dx[:, k:] * y[:, : y.shape[1] - k]).sum() for k in range(3)]  # k = 0 is the last item
print("the library's:", np.allclose(theirs["weights"], mine))

# %% [markdown]
# ### Exercise `bpr_optimum` (predict the number, ★★☆, 5 min)
#
# What does a score mean after training? Item A comes next with probability 0.3, item B with 0.1, and bad items are drawn from all with equal chances. So for each pair with A good and B bad there
# is a third of one with B good and A bad. At which $z = score(A) - score(B)$ is their mean loss lowest?

# %%
### BEGIN SOLUTION
bpr_optimum = math.log(0.3 / 0.1)
### END SOLUTION

# %%
check("bpr_optimum", bpr_optimum)

# %% [markdown]
# So at the optimum a score is the logarithm of a chance, up to a constant that all items share: orders are right, and sizes mean nothing.
#
# ## A person is a set
#
# MF has to learn a row for every person. FISM makes it: a person *is* the sum of what they took. It is trained on sets: each item of a person is predicted from the others, $n$ of them.
#
# ### Exercise `repaired_fism` (find the bug, ★★☆, 5 min)
#
# Here are the scores of a person's items, with their rows in both tables. The training loss falls fast, and the recommendations are useless.


# %%
def buggy_fism(Y, Q, alpha):
    x = Y.sum(axis=0) / len(Y) ** alpha
    return Q @ x


def repaired_fism(Y, Q, alpha):
    """Shapes: Y, Q (m, d), rows of the person's m >= 2 items; alpha a number -> scores (m,)."""
    ### BEGIN SOLUTION
    x = (Y.sum(axis=0) - Y) / (len(Y) - 1) ** alpha  # (m, d)
    return (x * Q).sum(axis=1)
    ### END SOLUTION


# %%
check("repaired_fism", repaired_fism)

# %% [markdown]
# ### All items at once
#
# Why learn two tables of width $d$, if only the products of their rows count? Take all weights $B_{ij}$ between items: with a row of $X$ for each person, 1 where they took the item, scores are $X B$. EASE fits them,
#
# $$\tfrac12 \lVert X - X B \rVert^2 + \tfrac{\lambda}{2} \lVert B \rVert^2, \qquad B_{jj} = 0 ,$$
#
# and the constraint is the repair from above: no item may predict itself. Give each $B_{jj}$ a multiplier $c_j$, and set the gradient to 0:
#
# $$-X^\top (X - X B) + \lambda B + diag(c) = 0
# \quad\Longrightarrow\quad (X^\top X + \lambda I)\, B = X^\top X - diag(c) .$$
#
# Call $P = (X^\top X + \lambda I)^{-1}$. As $X^\top X = P^{-1} - \lambda I$, with $c' = c + \lambda$,
#
# $$B = I - P\, diag(c') .$$
#
# Now $B_{jj} = 0$ says what $c'_j$ is (Steck 2019, equation 8).
#
# ### Exercise `my_ease` (write the op, ★★☆, 6 min)


# %%
def my_ease(X, l2):
    """Shapes: X (people, m) of 0 and 1, l2 the λ -> B (m, m)."""
    ### BEGIN SOLUTION
    P = np.linalg.inv(X.T @ X + l2 * np.eye(X.shape[1]))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    return B
    ### END SOLUTION


# %%
check("my_ease", my_ease)

# %%
X = np.zeros((train.n_users, train.n_items))
X[train.owner, train.flat - 1] = 1
B = yours("my_ease")(X, 30.0)
ours = EASE(l2=30.0).fit(train).arrays()["weights"][1:, 1:]
print("the library's:", np.allclose(B, ours, atol=1e-5))
free = np.linalg.solve(X.T @ X + 30 * np.eye(len(B)), X.T @ X)  # without the constraint
print(f"an item's weight for itself: {np.diag(free).mean():.2f}, and with the constraint 0")

# %% [markdown]
# No step, no rate, no seed: one inverse. (*Item cosine*, [Sarwar et al. 2001](https://doi.org/10.1145/371920.372071), does not even fit: its $B_{ij}$ is the cosine of two columns of $X$.)
#
# ## What does a model read?
#
# ### Exercise `ignores_order` (write the property that kills this bug, ★★☆, 6 min)
#
# A model of sets must give the same scores for every order of a history. Write the test, for any `score(history)`, where `history` is an array of different item numbers from 1 to 12. It should be
# False for a model that notices any kind of order: who came last, or who stood beside whom.


# %%
def ignores_order(score):
    """score: array of item numbers (n,) -> scores (m,). True where it knows no order."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    history = np.arange(1, 9)
    shuffles = [rng.permutation(history) for _ in range(10)]
    return all(np.allclose(score(history), score(other)) for other in shuffles)
    ### END SOLUTION


# %%
check("ignores_order", ignores_order)

# %% [markdown]
# And what grows when people join? In FPMC, $p_u$. SASRec's paper (section III) makes the comparison: it has rows for items and positions, and a few small matrices.
#
# ### Exercise `fpmc_over_sasrec` (predict the number, ★☆☆, 4 min)
#
# A site has 100,000 people and 20,000 items. FPMC has rows $p_u$, $y_j$ and, for both halves of $x$, $q_i$. SASRec has *one* row for each item, read both as input and as $q_i$, and 28,000 numbers
# besides. All rows have 50 numbers. How many times as many parameters has FPMC? (To 4 %.)

# %%
### BEGIN SOLUTION
fpmc_over_sasrec = (100_000 + 3 * 20_000) / 20_000
### END SOLUTION

# %%
check("fpmc_over_sasrec", fpmc_over_sasrec)

# %% [markdown]
# Now ask the networks themselves. **Predict**, for each: does it know an order? Has it rows for people?


# %% tags=["hide-output"]
RIVALS = {  # what it reads; its class and its loss, as in its paper
    "MF": ("the person", MF, {}),
    "FISM": ("a set", FISM, {}),
    "FPMC": ("the person, the last item", FPMC, {}),
    "Fossil": ("a set, the last three", Fossil, {}),
    "Caser": ("the person, the last five", Caser, {"nh": 2}),
    "GRU4Rec": ("all, in order", GRU4Rec, {"loss": "ce"}),
    "NARM": ("all, in order", NARM, {"loss": "ce"}),
    "SASRec": ("all, in order", SASRec, {}),
    "SASRec + p": ("all, and the person", SASRec, {"user_embedding": True}),
}


def rival(name):
    how = {"dim": 16, "maxlen": 16, "dropout": 0.1, "lr": 0.01, "batch_size": 64, "epochs": 40}
    _, kind, options = RIVALS[name]
    return kind(**how | options, seed=0, workers=1)


def size(name, people):
    p = rival(name).make_network(60, people).init(np.random.default_rng(0))
    return sum(w.size for _, w in leaves(p))


def with_random_numbers(name):
    """score(history), by a network in which no parameter is 0."""
    network, rng = rival(name).make_network(60, 1), np.random.default_rng(0)
    p = tree_map(lambda w: 0.5 * rng.standard_normal(w.shape), network.init(rng))
    return lambda history: network.score(p, pad([history], 16, np.ones(1, int)))[0, 1:]


rows, orderless = [], yours("ignores_order")
for name in RIVALS:
    knows = "no" if orderless(with_random_numbers(name)) else "yes"
    rows.append([name, knows, size(name, 1) - size(name, 0), size(name, 300)])
table("model | knows order | parameters a person | of 60 items and 300 people", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# MF and FISM know no order. MF, FPMC and Caser have a row for each person, and Fossil three numbers. The others make the person from the history: **a new person adds no parameters,
# and is served as well as anybody.** The last row is SASRec with a person's
# vector added to its state; we come back to it.
#
# </details>
#
# ## Many sessions at once
#
# GRU4Rec reads item by item, so what could be computed at once? Many *sessions*: visits to a site, short ones mostly. Padded to the longest they are full of holes. Hidasi et al. (2016, section 3.1.1) read them in *lanes*. Each lane reads
# one session, an item a step; where a session ends, the next one that waits takes its place, and the lane's state is set to 0.
#
# ### Exercise `my_lanes` (write the op, ★★★, 14 min)
#
# Lane $b$ begins with session $b$. If several lanes become free in one step, the first takes the next session. A session of $n$ items asks $n - 1$ questions: read item $t$, predict item $t + 1$. `starts`
# is True where a session's first item is read. A lane for which no session is left has 0, 0 and False, until all are done.


# %%
def my_lanes(sessions, lanes):
    """A list of arrays (n,), n >= 2 -> ids, targets, starts, each (T, lanes): a row is a step."""
    ### BEGIN SOLUTION
    waiting = list(sessions)
    reading = [waiting.pop(0) if waiting else None for _ in range(lanes)]
    place = [0] * lanes
    steps = []
    while any(session is not None for session in reading):
        step = [(0, 0, False)] * lanes
        for b, session in enumerate(reading):
            if session is None:
                continue
            t = place[b]
            step[b] = session[t], session[t + 1], t == 0
            place[b] += 1
            if t + 2 == len(session):
                reading[b], place[b] = waiting.pop(0) if waiting else None, 0
        steps.append(step)
    ids, targets, starts = np.moveaxis(np.array(steps, dtype=int), -1, 0)
    return ids, targets, starts.astype(bool)
    ### END SOLUTION


# %%
check("my_lanes", my_lanes)

# %% [markdown]
# **Predict:** 200 sessions of 2 to 40 items, short ones more often. Which share of a padded array is empty? And of 16 lanes?

# %% tags=["hide-output"]
rng = np.random.default_rng(4)
lengths = np.minimum(2 + rng.geometric(0.15, 200), 40)
sessions = [rng.integers(1, 61, n) for n in lengths]
ids, targets, starts = yours("my_lanes")(sessions, 16)
asked = sorted(zip(ids[ids > 0], targets[ids > 0], strict=True))
print("the same questions:", asked == sorted(pair for one in sessions for pair in pairwise(one)))
questions = len(asked)
shapes = {"padded, all at once": (lengths.max() - 1, 200), "16 lanes": ids.shape}
rows = [[name, *shape, f"{1 - questions / np.prod(shape):.0%}"] for name, shape in shapes.items()]
table("200 sessions | steps | wide | empty", rows)

# %% tags=["hide-cell"]
few = [10 * letter + np.arange(1, n + 1) for letter, n in enumerate((4, 7, 3, 6, 5, 3, 4, 3, 2), 1)]
ids, _, starts = yours("my_lanes")(few, 3)
with style():
    fig, ax = figure(size=(7.6, 2.1))
    light = (np.cumsum(starts, axis=0) % 2).T
    shade = np.where(ids.T > 0, 0.3 + 0.6 * light, np.nan)
    ax.imshow(shade, cmap=HEAT, vmin=0, vmax=1, aspect="auto")
    for (t, b), item in np.ndenumerate(ids):
        if item:
            colour = "black" if light[b, t] else "white"
            name = f"{chr(64 + item // 10)}{item % 10}"
            ax.text(t, b, name, ha="center", va="center", color=colour)
    ax.set_xticks(range(len(ids)), range(1, len(ids) + 1))
    ax.set_yticks(range(3), ["lane 1", "lane 2", "lane 3"])
    ax.set(title="nine sessions, A to I, in three lanes: what each step reads", xlabel="step")
    ax.grid(False)
show_figure(
    fig,
    "lanes",
    "Three rows of cells A1, A2, A3, then the next session that waits: where one ends, another begins in the same lane",
)

# %% [markdown]
# The lanes also offer bad items for nothing: in each step, the targets of the other lanes. They are drawn by popularity (section 3.1.2). Two prices: a gradient reaches back one item in the released code, as the state
# that comes in is taken as fixed; and a batch depends on all the batches before it. The library reads whole histories instead. Its questions are the same ones, and with cross-entropy (`ce` below, of [chapter 12](12_sasrec.ipynb)) its loss is the same sum.
#
# ## Who wins where?
#
# A model ranks the items that a person has not had. NDCG@10 is 1 if the next item is at the top, less below it, and 0 from the eleventh place on. The numbers below are its expectation under the true chances, as a
# share of what the best ranking has. **Predict** the winner of each world, and what a Markov chain does, which only counts what follows an item, or a pair. (This trains 27 small networks, in about half a minute.)

# %% tags=["hide-output"]
COUNTED = {
    "popularity": ("nothing", Popularity, {}),
    "item cosine": ("a set", ItemCosine, {}),
    "EASE": ("a set", EASE, {"l2": 30.0}),
    "Markov": ("the last item", Markov, {}),
    "Markov, order 2": ("the last two", Markov, {"order": 2}),
}


def ndcg(model, place, **how):
    return evaluate(model, splits[place], truth=worlds[place].next_item, **how)["full"]["ndcg@10"]


best = {
    place: ndcg(lambda h, users: world.best_ranking(h), place) for place, world in worlds.items()
}
fitted, seconds, rows = {}, {}, []


def compete(**rivals):
    for name, (reads, kind, options) in rivals.items():
        began = time.perf_counter()
        for place in worlds:
            model = rival(name) if name in RIVALS else kind(**options)
            fitted[name, place] = model.fit(splits[place].train)
        seconds[name] = time.perf_counter() - began
        numbers = f"{size(name, 300):,}" if name in RIVALS else "-"
        shares = [f"{ndcg(fitted[name, place], place) / best[place]:.2f}" for place in worlds]
        rows.append([name, reads, numbers, *shares])


compete(**COUNTED)

# %%
compete(**{name: RIVALS[name] for name in ("MF", "FISM", "FPMC", "Fossil", "Caser")})

# %% tags=["hide-output"]
compete(**{name: RIVALS[name] for name in ("GRU4Rec", "NARM", "SASRec", "SASRec + p")})
table("model | reads | parameters | tastes | last item | last two", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# EASE wins in tastes, with FISM beside it, and counting wins where the last item decides: **a model whose assumption is true has the least to learn**, and 300 people do not teach much. In the third world counting what
# follows a pair should win, and does not: each pair is rare. GRU4Rec shares what it learns among pairs; it has the fewest parameters of the networks that can read two items together. FPMC, Fossil and all that add items up cannot say what two mean together.
#
# </details>
#
# With more data the balance moves. In larger worlds of these kinds, [with 3,000 people](../benchmarks/results/reproduce/planted/README.md), SASRec is at 98 % with tastes, where EASE is at 93 %, and at 98 % with the last two; only where the last item
# decides does the chain stay ahead, at 99 %. A model that assumes little learns what the others assume, if it sees enough. (`seconds` has what each took on your machine: `table("model | seconds", list(seconds.items()))`.)
#
# What did each of them read? Take the last world, replace one item of a history by another, and see how far the scores move. **Predict** the rows of FPMC, of Fossil and of GRU4Rec.

# %% tags=["hide-cell"]
histories = [splits["last two"].train.sequence(person)[-8:] for person in range(300)]
histories = [history for history in histories if len(history) == 8]
rng = np.random.default_rng(0)
shares = []
for name in RIVALS:
    model, moved = fitted[name, "last two"], []
    before = model.score(histories)[:, 1:]
    for j in range(8):
        others = [history.copy() for history in histories]
        for history in others:
            history[j] = rng.choice(np.setdiff1d(np.arange(1, 41), history))
        moved.append(np.abs(model.score(others)[:, 1:] - before).mean())
    shares.append(100 * np.array(moved) / max(sum(moved), 1e-9))
with style():
    fig, ax = figure(size=(6.8, 4.0))
    ax.imshow(shares, cmap=HEAT, vmin=0, vmax=60, aspect="auto")
    for i, row in enumerate(shares):
        for j, share in enumerate(row):
            colour = "white" if share < 25 else "black"
            ax.text(j, i, f"{share:.0f}", ha="center", va="center", color=colour)
    ax.set_xticks(range(8), ["8th last", "7th", "6th", "5th", "4th", "3rd", "2nd last", "last"])
    ax.set_yticks(range(len(RIVALS)), list(RIVALS))
    ax.set(title="how far the scores move if one item is replaced, in % of each row")
show_figure(
    fig,
    "reads",
    "A row for each model, a column for each of eight items: MF's row is 0, FPMC's has the last item alone, and others spread out",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# FPMC reads the last item alone. Fossil reads all, and most the last two; Caser the last five. GRU4Rec could read all, and has mostly learned to read two. SASRec has learned to read the last, but not yet the one before it:
# that is why its number is low here.
#
# </details>
#
# ## What is a person's vector worth?
#
# SASRec's paper (section III) tried one: add $p_u$ to the state. It brought nothing, and the authors' guess is that the model reads all that a person did anyway. The table above has it for our worlds. **Predict:** what are the models
# with rows for people worth for somebody new, of whom only the history is known?

# %% tags=["hide-output"]
rows = []
for name in ("MF", "FPMC", "Fossil", "Caser", "SASRec + p", "SASRec"):
    known, unknown = (
        ndcg(fitted[name, "tastes"], "tastes", users=users) / best["tastes"]
        for users in (None, np.zeros(300, int))  # 0 is an unknown person
    )
    rows.append([name, f"{known:.2f}", f"{unknown:.2f}"])
table("tastes | known person | unknown", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# MF, FPMC and Caser lose a good part for somebody new: what is left is popularity, a chain, a window. Fossil even *gains* where its personal weights are left out: three numbers for each of 300 people are more than ten items can teach.
# SASRec's vector brings 0.03 with tastes (after 50 epochs in place of 40 it *costs* 0.03: one seed, one draw) and nothing for new people. Where the order counts it costs 0.07 to 0.09.
#
# </details>
#
# | what is often said | what the cells above show |
# |---|---|
# | BPR learns how much a person likes an item | it learns orders: at the optimum, logarithms of chances up to a constant |
# | a personal recommendation needs a vector for each person | a history is enough, and serves new people; the vector cost SASRec more than it brought |
# | networks rank better than counting | with 300 people, EASE wins with tastes, and a table of counts where the last item decides |
# | a recommender should know the order | where it says nothing, models of sets win |
#
# ## In five lines
#
# - All of these models score by $x \cdot q_i + b_i$; what they assume is how $x$ is made of the person and the history.
# - BPR's slope is $-\sigma(-z)$, the chance of the wrong order; from `dx` on, each model goes back through its $x$.
# - No item may predict itself: FISM leaves it out, EASE sets the diagonal to 0, sequence models never look ahead.
# - Rows for people grow with people, and know nothing of a new one; a person who is made from a history costs nothing.
# - A true assumption is worth data: with few people the model that makes it won in two of three worlds, with many one that assumes less comes near, or passes it.
#
# To read: section 4 of [Rendle et al. (2009)](https://arxiv.org/abs/1205.2618). The whole comparison, six worlds and four seeds: [planted truth](../benchmarks/results/reproduce/planted/README.md). Next: [12, SASRec](12_sasrec.ipynb), which
# reads everything.
