# %% [markdown]
# # 14 · BERT4Rec
#
# A history is complete when you train on it: what came before an item is there, and what came after it as well. SASRec looks back only.
# **What changes when a model may look both ways?**
#
# One thing must: the question that it is asked. In this chapter you take the causal mask away, see why the next item can no longer be the question, hide
# items instead, and measure what that gains and costs.
#
# **You need**: leaks and their test on noise ([05](05_masks.ipynb)), softmax's backward ([04](04_attention_backward.ipynb)), the block
# ([08](08_block.ipynb)), and what leave-one-out is ([00](00_first_look.ipynb)).
#
# **You will be able to**:
#
# - say why a model that looks both ways cannot learn from the next item, and why a mask that hides only that item does not help;
# - build a Cloze batch and the gradient of its loss, and test that no answer can be read;
# - say what $\rho$, [MASK] and the rows that hide the last item are for.

# %%
import math

import numpy as np

from tinyattn.course import check, road, show_arrays, show_figure, table, yours
from tinyattn.data import ClozeSampler, Interactions, Sampler, leave_one_out, pad
from tinyattn.data.worlds import ChainWorld
from tinyattn.models import BERT4Rec, SASRec
from tinyattn.models.objectives import OBJECTIVES
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, ORANGE

road(14)

# %% [markdown]
# ## The answer stands at the next position
#
# BERT4Rec ([Sun et al. 2019](https://arxiv.org/abs/1904.06690)) is a stack of blocks *without* a causal mask: every position looks at every
# real one. Let us train it as SASRec is trained: at each position, predict the item that follows. The sampler of training batches is the
# only thing to change.
#
# The data are noise: eight items, drawn independently and evenly. Nobody can pay less than $\ln 8 = 2.08$ on fresh noise, unless the answer can be
# read ([chapter 05](05_masks.ipynb)). A history has nine items here, so there are eight positions, and for seven of them the next item is an
# input.
#
# **Predict:** what does this model pay on fresh noise?


# %% tags=["hide-output"]
class NextItem(BERT4Rec):
    """BERT4Rec, trained on the next item at every position."""

    def sampler(self, data):
        return Sampler(data, self.maxlen, self.batch_size, self.seed, negatives=False)


rng = np.random.default_rng(0)
noise, fresh = (
    Interactions.from_sequences(rng.integers(1, 9, size=(people, 9))) for people in (300, 2000)
)
TINY = {"dim": 16, "blocks": 1, "heads": 1, "dropout": 0.0, "lr": 0.01, "batch_size": 50}
TINY |= {"workers": 1, "patience": 0}


def on_noise(model):
    """The loss on fresh noise, after training on noise."""
    model.fit(noise, progress=False)
    model.batch_size = 2000
    return model.network.loss(model.parameters, model.sampler(fresh).batch(0))[0]


cheat = on_noise(NextItem(**TINY, maxlen=8, epochs=15, seed=1))
print(f"ln 8 = {math.log(8):.2f}, ln 8 / 8 = {math.log(8) / 8:.2f}, the model pays {cheat:.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# About $\ln(8) / 8 = 0.26$: it reads seven of eight answers at the next position, and guesses the last. In use there is no next item to read.
#
# </details>
#
# Could a mask hide that one neighbour, and leave the rest? Let position $t$ look at everything but $t + 1$. With one block that holds. With two, $t$
# looks at $t + 2$, which has looked at $t + 1$:

# %%
n = 6
may_look = ~np.eye(n, k=1, dtype=bool)  # all but the item that follows
after_two_blocks = may_look.astype(int) @ may_look > 0  # whom a position hears of in two steps
print("the next item reaches its position:", np.diagonal(after_two_blocks, offset=1).all())

# %% [markdown]
# A causal mask is safe at any depth, because "not later than" is transitive: what is not later than something not later than $t$ is not later than $t$.
# "Not the next one" is not transitive. So the answer must not be hidden from one position by a mask; it must be *nowhere in the input*.
#
# ## Cloze
#
# A teacher crosses out words of a text, and readers fill them in: [Taylor (1953)](https://doi.org/10.1177/107769905303000401) called this the
# *Cloze procedure*. [BERT](https://arxiv.org/abs/1810.04805) is trained like that, and BERT4Rec is BERT for items:
#
# 1. of a history of $n$ items, hide $\max(1, \text{round}(\rho n))$: at these positions stands [MASK], an id of its own, in place of the item;
# 2. ask at the hidden positions which items they were;
# 3. take the loss there and nowhere else. At a visible position the answer is the input, and there is nothing to learn from copying it.
#
# ### Exercise `my_cloze` (write the op, ★★☆, 12 min)
#
# Make inputs and targets. Rows of `ids` are padded with 0 on the right; padding is never hidden, and does not count in $n$. To keep chance out of the
# function, it is handed `turn`, different whole numbers in a random order: hide the $\max(1, \text{round}(\rho n))$ real positions with the smallest `turn` of their row. Targets are 0
# at all other positions.


# %%
def my_cloze(ids, turn, rho, mask):
    """Shapes: ids, turn (B, L), rho a share, mask the id of [MASK] -> inputs (B, L), targets (B, L)."""
    ### BEGIN SOLUTION
    count = np.maximum(1, np.rint(rho * (ids != 0).sum(axis=1)))  # (B,)
    order = np.where(ids != 0, turn, np.inf).argsort(axis=1)  # padding comes last
    hidden = order.argsort(axis=1) < count[:, None]  # (B, L): the rank of each position
    return np.where(hidden, mask, ids), np.where(hidden, ids, 0)
    ### END SOLUTION


# %%
check("my_cloze", my_cloze)

# %%
cloze = yours("my_cloze")
ids = np.array([[3, 1, 4, 5, 2], [2, 6, 5, 0, 0]])
turn = np.random.default_rng(2).permutation(10).reshape(2, 5)
inputs, targets = cloze(ids, turn, 0.4, 9)  # a share of 0.4, and [MASK] is 9
show_arrays(ids=ids, inputs=inputs, targets=targets)

# %% [markdown]
# The library's `ClozeSampler` hides as many, and keeps the targets together: `target_positions` (B, M) says where they belong. Put them back, and
# the histories are whole:

# %%
batch = ClozeSampler(fresh, 9, 4, 0, False, rho=0.4, mask_last=0.0).batch(0)
whole = batch.ids.copy()
np.put_along_axis(whole, batch.target_positions, batch.targets, axis=1)
originals = np.array([fresh.sequence(user - 1) for user in batch.users])
turn = np.random.default_rng(0).permutation(originals.size).reshape(originals.shape)
mine, _ = cloze(originals, turn, 0.4, 9)
print("whole again:", np.array_equal(whole, originals))
print("as many hidden:", np.allclose((mine == 9).sum(axis=1), (batch.ids == 9).sum(axis=1)))

# %% [markdown]
# ## Always [MASK]?
#
# BERT does something else ([Devlin et al. 2019](https://arxiv.org/abs/1810.04805), section 3.1). Of the target positions, 80 % hold [MASK], 10 % a
# random token, and 10 % **the token itself**. The reason is what BERT is used for afterwards: sentences without any [MASK], so that it must have
# learned to say something at real tokens too. A recommender is asked at a [MASK] in use as well, so BERT4Rec hides always.
#
# **RoBERTa** ([Liu et al. 2019](https://arxiv.org/abs/1907.11692)) keeps this loss, drops BERT's other one (does the second sentence follow the first?), and draws new
# masks whenever a text is read, as `ClozeSampler` does; with larger batches, ten times the text and longer training it is well ahead of BERT.
#
# What do the 10 % that are kept cost? On noise we can say it exactly.
#
# ### Exercise `loss_with_kept_items` (predict the number, ★★★, 6 min)
#
# Noise of 8 items, and only target positions count. 80 % of them hold [MASK], 10 % one of the 8 items drawn evenly (so now and then the right
# one), 10 % the right item. The model cannot tell a random item from a kept one. What is the lowest loss that it can reach?

# %%
### BEGIN SOLUTION
loss_with_kept_items = 1.97
### END SOLUTION

# %%
check("loss_with_kept_items", loss_with_kept_items)


# %% [markdown]
# **Predict:** which of these two is below $\ln 8$ on fresh noise?


# %% tags=["hide-output"]
class BertSampler(ClozeSampler):
    """80 % [MASK], 10 % a random item, 10 % the item itself."""

    def batch(self, step):
        batch = super().batch(step)
        rng = np.random.default_rng([self.seed, step])
        kind, ids = rng.random(batch.target_positions.shape), batch.ids.copy()
        shown = np.where(kind < 0.1, batch.targets, rng.integers(1, 9, kind.shape))
        shown = np.where((kind < 0.2) & (batch.targets != 0), shown, 0)  # 0: as it is
        shown = np.where(shown == 0, np.take_along_axis(ids, batch.target_positions, axis=1), shown)
        np.put_along_axis(ids, batch.target_positions, shown, axis=1)
        return batch._replace(ids=ids)


class Bert(BERT4Rec):
    def sampler(self, data):
        how = {"rho": self.rho, "mask_last": 0.0}
        return BertSampler(data, self.maxlen, self.batch_size, self.seed, False, **how)


more = {"maxlen": 9, "epochs": 20, "rho": 0.4, "seed": 1}
paid = {"next item, both ways": cheat, "Cloze, 80/10/10": on_noise(Bert(**TINY, **more))}
paid["Cloze, always [MASK]"] = on_noise(BERT4Rec(**TINY, **more))
print(f"ln 8 = {math.log(8):.2f}")
table("trained and tested on noise | loss", [[name, f"{x:.2f}"] for name, x in paid.items()])

# %% [markdown]
# <details><summary>Answer</summary>
#
# The 80/10/10 form, and it may come down to 1.97: a small leak, on purpose. With [MASK] alone nothing can be read, and the model pays $\ln 8$ and a little for having
# fitted the noise that it was trained on.
#
# </details>
#
# ## Can the answer be read?
#
# Noise needs training. A look at the batch is faster, where nobody has an item twice: then a target may stand *nowhere* in its own
# row. Batches go wrong in more ways than one: the item was not replaced; or two windows of one history were joined, and it stands there a second time.
#
# ### Exercise `no_target_is_read` (write the property that kills this bug, ★★☆, 8 min)
#
# Return True if no target can be read anywhere in its own row of inputs, else False. Other rows are other people's: what they have
# had gives nothing away.


# %%
def no_target_is_read(inputs, targets):
    """Shapes: inputs, targets (B, L), 0 in targets where there is none -> True or False."""
    ### BEGIN SOLUTION
    same = inputs[:, :, None] == targets[:, None, :]  # (B, L, L): this input, that target
    return not (same & (targets[:, None, :] != 0)).any()
    ### END SOLUTION


# %%
check("no_target_is_read", no_target_is_read)

# %%
safe = yours("no_target_is_read")
kept, twice = inputs.copy(), inputs.copy()
row, column = np.argwhere(targets)[0]
kept[row, column] = targets[row, column]
twice[row, (column + 1) % 5] = targets[row, column]
for name, given in (("[MASK]", inputs), ("one kept", kept), ("one stands elsewhere", twice)):
    print(f"{name:21}", bool(safe(given, targets)))

# %% [markdown]
# ## The gradient
#
# $h$ (B, L, D) are the states of the last block, $E$ (V + 1, D) the items' embeddings, whose row 0 is padding. With $A$ the set of target positions, $y_t$ the item
# hidden at $t$, and $s_t = E\,h_t$ its logits (without row 0),
#
# $$\text{loss} = \frac{1}{|A|} \sum_{t \in A} -\log \operatorname{softmax}(s_t)_{y_t}, \qquad
# ds_t = \begin{cases} \big(\operatorname{softmax}(s_t) - \text{onehot}(y_t)\big) / |A| & t \in A \\ 0 & \text{else.} \end{cases}$$
#
# From there it is a linear map: $dh_t = E^\top ds_t$ and $dE = \sum_t ds_t\, h_t^\top$.
#
# **Predict:** the same table makes the inputs. Which rows of $E$ get a gradient as *input*, and which as *output*?
#
# <details><summary>Answer</summary>
#
# As output, all items: each was a candidate at every target position. As input, only the visible ones: at a hidden position the embedding of [MASK] was
# read. A hidden item has no part in the states that answer for it; the property above tests this.
#
# </details>
#
# ### Exercise `my_cloze_backward` (derive the backward, ★★☆, 12 min)
#
# Return `dh` and `dE` of the loss above. `targets` are 0 where there is none, and `dloss` is the gradient that comes from above, a number.
# Logits may be large: subtract each row's largest before you take exponentials.


# %%
def my_cloze_backward(dloss, h, E, targets):
    """Shapes: dloss a number, h (B, L, D), E (V + 1, D), targets (B, L) -> dh (B, L, D), dE (V + 1, D)."""
    ### BEGIN SOLUTION
    s = h @ E[1:].T  # (B, L, V)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    counts = targets != 0
    onehot = targets[..., None] == np.arange(1, len(E))  # (B, L, V)
    ds = dloss * counts[..., None] * (p - onehot) / counts.sum()
    dE = np.zeros_like(E)
    dE[1:] = np.einsum("blv,bld->vd", ds, h)
    return ds @ E[1:], dE
    ### END SOLUTION


# %%
check("my_cloze_backward", my_cloze_backward)

# %% [markdown]
# Against the library, and with its network: move the embedding of an item that is hidden, and no state may move; move a visible one, and all do.

# %%
rng = np.random.default_rng(5)
h, E = rng.standard_normal((2, 5, 3)), rng.standard_normal((9, 3))
batch = pad([one[one != 0] for one in ids], 5)._replace(
    targets=targets, weight=(targets != 0) * 1.0
)
_, saved = OBJECTIVES["ce"].forward(h, E, batch)
dh, scored = OBJECTIVES["ce"].backward(1.0, h, E, batch, saved)
mine_h, mine_E = yours("my_cloze_backward")(1.0, h, E, targets)
print("as the library's:", np.allclose(mine_h, dh) and np.allclose(mine_E, scored.alone()))

network = BERT4Rec(**TINY, maxlen=5).make_network(8, 1)
p = network.init(np.random.default_rng(0))
one = pad([inputs[0]], 5)
states, step = network.forward(p, one)[0], rng.standard_normal(17)  # 16, and the bias
for name, item in (("hidden", targets[row, column]), ("visible", inputs[0][inputs[0] != 9][0])):
    moved = p | {"items": p["items"] + step * (np.arange(9) == item)[:, None]}
    print(name, "item moved, states move:", not np.allclose(network.forward(moved, one)[0], states))

# %% [markdown]
# The loss and its backward, step by step, for three positions of which the middle one has no target. In `dlogits`, watch first the targets
# change, then the middle row.

# %% tags=["hide-input"]
three = pad([np.array([1, 4, 3])], 3)._replace(
    targets=np.array([[2, 0, 1]]), weight=np.array([[1.0, 0, 1]])
)
trace(OBJECTIVES["ce"].forward, h[:1, :3], E[:5], three, backward=OBJECTIVES["ce"].backward).player(
    title="The loss of three positions, forward and backward"
)

# %% [markdown]
# ## The question at the end
#
# To recommend, BERT4Rec appends [MASK] to the history, and what it says there counts. A full window loses its oldest item to make room:

# %%
asked = network.asking(pad([np.array([3, 1, 4, 5, 2]), np.array([7, 6])], 5))
show_arrays(ids=asked.ids, places=asked.slots)

# %% [markdown]
# [MASK] is id 9 here, and always has the last place, number 4. Nothing follows it. **How often was the model asked that in training?** Count, for histories
# of nine items: which share of the questions is about the last item, and which share of the *rows* hides it alone, as in use?

# %%
rows = []
for rho in (0.1, 0.2, 0.4, 0.8):
    for mask_last in (0.0, 0.3):
        how = {"rho": rho, "mask_last": mask_last}
        batch = ClozeSampler(fresh, 9, 2000, 0, False, **how).batch(0)
        real = batch.targets != 0
        last = (batch.target_positions == 8) & real
        alone = last.any(axis=1) & (real.sum(axis=1) == 1)
        count = real.sum(axis=1).mean()
        shares = last.sum() / real.sum(), alone.mean()
        rows.append(
            [f"{rho}", f"{mask_last}", f"{count:.1f}", *(f"{share:.0%}" for share in shares)]
        )
table("ρ | mask-last rows | questions a row | of these, the last item | rows as in use", rows)

# %% [markdown]
# With $\rho$ alone, one question in nine is about the end, and from $\rho = 0.2$ on *no* row looks like those in use: whenever the last item is hidden,
# so is another. That is why the paper adds rows in which the last item alone is hidden, in its code 1 row in 11; here they are the share `mask_last`.
#
# And $\rho$ itself trades two things: a small one asks few questions a row, a large one leaves little to answer them from. SASRec asks at every
# position but one, with all the past in view.
#
# ## Held against the truth
#
# Now to a world in which something can be known: a chain of 20 items, where the last item says which three often follow. `next_item` gives the true
# probabilities, so the best possible NDCG@10 is known too. (NDCG@10 is $1 / \log_2(1 + \text{rank})$ of the hidden item, 0 beyond rank 10, averaged over
# people.) A fair comparison changes one thing at a time. SASRec's paper has a loss with one sampled negative, BERT4Rec's the cross-entropy over all items: here
# **both get the cross-entropy**, the same width, rate, batches and epochs.
#
# **Predict:** which of the three is first after 30 epochs? Which last? (It takes about 7 seconds.)

# %% tags=["hide-output"]
world = ChainWorld(items=20, groups=20, followers=3, users=500, shortest=6, longest=10)
split = leave_one_out(world.generate())
SMALL = TINY | {"maxlen": 10, "batch_size": 50, "loss": "ce", "epochs": 30}
MODELS = {
    "SASRec": (SASRec, {}),
    "BERT4Rec, ρ .2, mask-last .3": (BERT4Rec, {"rho": 0.2, "mask_last": 0.3}),
    "BERT4Rec, ρ .2, no mask-last": (BERT4Rec, {"rho": 0.2, "mask_last": 0.0}),
}
fitted, rows = {}, []
for name, (kind, how) in MODELS.items():
    fitted[name] = [kind(**SMALL | how, seed=seed).fit(split, progress=False) for seed in (1, 2)]
    found = [model.evaluate(split)["ndcg@10"] for model in fitted[name]]
    rows.append([name, *(f"{x:.2f}" for x in found)])

histories = split.histories(split.evaluated, "test")
target = split.test[split.evaluated]
best = world.best_ranking(histories)
rank = 1 + (best > np.take_along_axis(best, target[:, None], axis=1)).sum(axis=1)
optimum = np.where(rank <= 10, 1 / np.log2(1 + rank), 0).mean()
rows.append(["the optimum", *(f"{optimum:.2f}",) * 2])
table("model | NDCG@10, seed 1 | seed 2", rows)

# %% tags=["hide-input"]
with style():
    fig, ax = figure(size=(6.4, 3.6))
    looks = ((BLUE, "-", "o"), (ORANGE, "-", "s"), (ORANGE, "--", "^"))
    for (name, models), (colour, line, marker) in zip(fitted.items(), looks, strict=True):
        curve = np.mean([[epoch["valid"] for epoch in model.history] for model in models], axis=0)
        look = {"color": colour, "linestyle": line, "marker": marker, "markevery": 4}
        ax.plot(range(1, len(curve) + 1), curve, label=name, **look)
    ax.set(xlabel="epoch", title="NDCG@10 on the validation items, mean of two seeds")
    ax.legend(loc="lower right", fontsize=9)
show_figure(
    fig,
    "epochs",
    "NDCG@10 by epoch: SASRec rises fastest; BERT4Rec with rows that hide the last item comes near it late, without them it stays lower",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# SASRec and BERT4Rec with rows that hide the last item come equally far, as far as two seeds can tell; SASRec gets there in about half of the epochs.
# (It learns from every position of a row, BERT4Rec from the few that are hidden.) Without such rows BERT4Rec falls behind: few of its training rows ask
# what is asked in use, with the last item alone hidden.
#
# </details>
#
# One world, 500 people, two seeds: this shows that the ranking of the two *can* be this, not that it always is. In a chain the last item says
# all, and looking both ways gains nothing at the end. What does it gain inside?
#
# ## An easier question
#
# Take the circle of [chapter 05](05_masks.ipynb): eight symbols, and with probability 0.8 the next is three steps further, otherwise any of the eight.
# The next symbol has an entropy of 0.80 nats (units of the natural logarithm), given the one before. **Predict:** and if the one after it is known as well?
#
# Given both neighbours $a$ and $c$, $P(x \mid a, c) \propto T_{ax}\, T_{xc}$, with $T_{ax}$ the probability that $x$ follows $a$:

# %% tags=["hide-output"]
T = 0.8 * np.roll(np.eye(8), 3, axis=1) + 0.2 / 8  # (8, 8)
joint = T[:, :, None] * T[None] / 8  # (a, x, c): all symbols are equally frequent
given_both = joint / joint.sum(axis=1, keepdims=True)  # P(x | a, c)
print(f"the next symbol: {-(T * np.log(T)).sum(axis=1).mean():.2f}")
print(f"a gap between two: {-(joint * np.log(given_both)).sum():.2f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# 0.37, less than half. So a Cloze loss far below the entropy of the next item need not be a leak: it answers an easier question. It cannot be compared with SASRec's
# loss, and only on noise, where all questions are equally hopeless, does it tell a leak.
#
# </details>
#
# ## What the literature says
#
# | what is often said | what the cells above show |
# |---|---|
# | looking both ways is better than looking back ([Sun et al. 2019](https://arxiv.org/abs/1904.06690)) | inside a history, yes; at its end nothing follows, and with the same loss SASRec is not behind here, and faster; on real data [Klenitskiy & Vasilev (2023)](https://arxiv.org/abs/2309.07602) found it ahead |
# | BERT4Rec beats SASRec by so many percent | with how many epochs? [Petrov & Macdonald (2022)](https://arxiv.org/abs/2207.07483) found that published results of BERT4Rec differ widely, and that some need far longer training; its curve above is the slower one |
# | 80/10/10 is part of the Cloze task | it is BERT's remedy for use without [MASK]; on noise it leaks less than a tenth of a nat |
# | a loss below the entropy of the next item is a leak | of the *next item*; a gap with both neighbours may cost less |
#
# ## In five lines
#
# - A model that looks both ways reads the next item; a mask that hides only that item fails from two blocks on.
# - Cloze hides items in the input and asks there only: [MASK] always, since in use there is a [MASK] as well.
# - $\rho$ trades questions a row against what is left to answer them; rows that hide the last item alone are the question in use.
# - Hidden items get their gradient as candidates, never as inputs.
# - Compare models with the same loss, and look at the epochs: BERT4Rec learns from fewer positions, and needs more of them.
#
# To read: [Klenitskiy & Vasilev (2023)](https://arxiv.org/abs/2309.07602), short and fair. Next: [15, attention to
# attention](15_attention_to_attention.ipynb), where a printed method is built, its leak found, and its table read.
