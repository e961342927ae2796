# %% [markdown]
# # 14 · The Transformer
#
# "May 3, 1999" is to become "1999-05-03". What is written first was read last, the month becomes a number, and twelve characters become ten. All models so far had one
# sequence; here there are two. **What must pass between a part that reads and a part that writes?**
#
# The Transformer ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)) answers with parts that you know, and one attention that is new. You derive its gradient, put
# the whole together, train it on dates for a few seconds, and look into it.
#
# **You need**: attention's backward ([04](04_attention_backward.ipynb)), masks ([05](05_masks.ipynb)), heads ([06](06_many_heads.ipynb)), sinusoids
# ([07](07_order.ipynb)), the block ([08](08_block.ipynb)), targets shifted by one ([10](10_sasrec.ipynb)).
#
# **You will be able to**:
#
# - derive the gradient that a decoder gives back to an encoder;
# - train every position at once, and recognise a model that reads its own answers;
# - decode greedily, with a beam, and with nothing computed twice.

# %% tags=["hide-input"]
import datetime
import math

import numpy as np

from tinyattn.check.adapters import cross_attention_backward
from tinyattn.course import check, road, show_arrays, show_figure, table, yours
from tinyattn.data import Pairs, PairSampler
from tinyattn.data.tasks.dates import said
from tinyattn.models import Transformer
from tinyattn.models.transformers.search import beam_search
from tinyattn.ops import Mask, attention, smoothed_cross_entropy, softmax
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE
from tinyattn.training.schedules import rate_factors

road(14)

# %% [markdown]
# ## Two sequences
#
# Dates from 1970 to 2029, in three of the forms in which people write them, and as ISO 8601 has them. Every token is a character.

# %%
FORMS = ("{d} {Month} {yyyy}", "{Mon} {d}, {yyyy}", "{dd}.{mm}.{yyyy}")


def dates(n, seed):
    rng, first = np.random.default_rng(seed), datetime.date(1970, 1, 1).toordinal()
    days = [datetime.date.fromordinal(first + int(day)) for day in rng.integers(0, 21_915, n)]
    return [(said(day, FORMS[rng.integers(3)]), day.isoformat()) for day in days]


train = Pairs.of(dates(4000, 1))
test = [pair for pair in dates(500, 2) if pair[0] not in train.sources]

HOW = {
    "dim": 32, "layers": 1, "heads": 2, "maxlen": 18, "dropout": 0.0, "batch_size": 32, "epochs": 5,
    "lr": 8e-3, "warmup": 50, "schedule": "cosine", "seed": 1, "workers": 1,
}  # fmt: skip
model = Transformer(**HOW)
known = model.vocabularies_of([train])
batch = model.sampler(model.numbered(train, known)).of(np.array([3, 4, 5]))
print(train.sources[3:6], train.targets[3:6])
show_arrays(source=batch.source, lengths=batch.lengths, written=batch.written, targets=batch.targets)

# %% [markdown]
# The reading part is the **encoder**, the writing part the **decoder**. The encoder reads `source`, whose rows are padded: `lengths` counts what is real. The decoder reads
# `written`, and at each position it must say what stands in `targets`, the next character. 0 begins a string, and ends it.
#
# ## Attention across
#
# The encoder's tokens look at each other, and what comes out is called the **memory**, (m, D). The decoder's tokens `x` (n, D) look at it: queries come from the one,
# keys and values from the other.
#
# $$q = x W_q, \qquad k = \mathit{memory}\, W_k, \qquad v = \mathit{memory}\, W_v, \qquad
# out = \operatorname{softmax}\!\Big(\frac{q k^\top}{\sqrt d}\Big)\, v .$$
#
# That is **cross-attention**, and all that passes. Here it is by hand: three French words have been read, "le chat noir", and "the black" has been written. The first feature
# says *article*, the second *colour*. **Predict:** where does "black" look?

# %% tags=["hide-output"]
memory = np.array([[2.0, 0.0], [0.0, -1.0], [0.0, 2.0]])  # le, chat, noir
x = np.array([[2.0, 0.0], [0.0, 2.0]])  # the, black
W_q, W_k, W_v = np.eye(2), np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])

q, k, v = x @ W_q, memory @ W_k, memory @ W_v
s = q @ k.T / math.sqrt(2)  # (n, m) = (2, 3)
p = softmax(s)
out = p @ v
show_arrays(k=k, v=v, s=s, p=p, out=out)

# %% [markdown]
# No mask, no order: if the French words change places, so do the columns of `p` and the rows of `v`, and `out` stays. Where a word stood is known only from
# what the encoder put into its token.
#
# ### Its backward
#
# Given $dout$, attention's backward returns $dq$, $dk$ and $dv$, and does not ask of which tokens they were made. So only the ends are new. `x` was read once, `memory` twice.
#
# ### Exercise `my_cross_attention_backward` (derive the backward, ★★☆, 12 min)
#
# Return the gradients of `x` and of `memory`. `attention(q, k, v)` returns `out, p`, and the library has chapter 04's `attention_backward(dout, q, k, v, p)`, which returns
# `dq, dk, dv` and one thing more.


# %%
def my_cross_attention_backward(dout, x, memory, W_q, W_k, W_v):
    """Shapes: dout (n, d), x (n, D), memory (m, D), all W (D, d) -> dx (n, D), dmemory (m, D)."""
    ### BEGIN SOLUTION
    q, k, v = x @ W_q, memory @ W_k, memory @ W_v
    _, p = attention(q, k, v)  # (n, m)
    dv = p.T @ dout
    dp = dout @ v.T
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
    dq, dk = ds @ k, ds.T @ q
    return dq @ W_q.T, dk @ W_k.T + dv @ W_v.T
    ### END SOLUTION


# %%
check("my_cross_attention_backward", my_cross_attention_backward)

# %%
dout = np.array([[1.0, 0.0], [0.0, 1.0]])
dx, dmemory = yours("my_cross_attention_backward")(dout, x, memory, W_q, W_k, W_v)
theirs = cross_attention_backward(dout, x, memory, W_q, W_k, W_v, np.eye(2), heads=1)
print("as the library's:", np.allclose(dx, theirs[0]), np.allclose(dmemory, theirs[1]))
show_arrays(dx=dx, dmemory=dmemory)

# %% [markdown]
# ### One memory, many readers
#
# A decoder has several blocks, and *each* makes keys and values of its own from the same memory. What is read several times gets the sum of the gradients. Let us see the parts, in a network with
# three blocks and random weights. `decode_backward` is the library's; the loss is $\sum h \odot dh$ with random $dh$. **Predict:** which block's part is the smallest?

# %% tags=["hide-output"]
deep = Transformer(**HOW | {"layers": 3}).make_network(known)
rng = np.random.default_rng(0)
p = deep.init(rng)
memory, _ = deep.encode(p, batch.source, batch.lengths)
h, cache = deep.decode(p, batch.written, memory, batch.lengths)
dh = rng.standard_normal(h.shape)
_, dmemory, _ = deep.decode_backward(p, dh, cache)

dx, _ = deep.decoder_block.norm.backward(p["decoder"]["norm"], dh, cache.norm)
parts = {}
for number in (3, 2, 1):
    remembered, weights = cache.blocks[number - 1], p["decoder"]["blocks"][number - 1]
    dx, parts[number], _ = deep.decoder_block.backward(weights, dx, remembered)
print("the sum of the parts is the library's:", np.allclose(sum(parts.values()), dmemory))

step = 1e-5 * rng.standard_normal(memory.shape)
up, down = (deep.decode(p, batch.written, memory + e, batch.lengths)[0] for e in (step, -step))
print("and it is the slope:", np.allclose(((up - down) * dh).sum() / 2, (step * dmemory).sum()))
table("block | norm of its part", [[n, np.linalg.norm(part)] for n, part in sorted(parts.items())])

# %% [markdown]
# Whoever passes on the last block's part alone, a real bug, has an encoder that still learns, only worse.
#
# ## The whole
#
# A block of the decoder has three branches instead of two, each with a norm and a residual as in [chapter 08](08_block.ipynb): look back, look across, compute.

# %% tags=["hide-input"]
def box(ax, x, y, text, colour, width=1.5):
    how = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": colour, "lw": 1.5}
    ax.text(x, y, text, ha="center", va="center", fontsize=9.5, bbox=how | {"mutation_scale": 22})


def arrow(ax, start, end, colour=GREY, bend=0.0, line="-"):
    how = {"arrowstyle": "-|>", "color": colour, "lw": 1.3, "ls": line}
    bend = f"arc3,rad={bend}"
    ax.annotate("", end, start, arrowprops=how | {"connectionstyle": bend, "shrinkA": 9, "shrinkB": 9})


with style():
    fig, ax = figure(size=(7.6, 4.6))
    for y, text in enumerate(("source", "look around", "compute", "memory")):
        box(ax, 0, y * 1.25, text, ORANGE if text == "memory" else BLUE)
        if y:
            arrow(ax, (0, y * 1.25 - 1.25), (0, y * 1.25))
    for y, text in enumerate(("written", "look back (causal)", "look across", "compute", "scores")):
        box(ax, 3, y, text, GREY if text == "scores" else GREEN)
        if y:
            arrow(ax, (3, y - 1), (3, y))
    arrow(ax, (0.45, 3.75), (2.3, 2.05), ORANGE, -0.15)
    ax.text(1.35, 3.32, "keys, values", color=ORANGE, fontsize=9.5)
    for left, low, high, colour, name in (
        (-0.95, 0.75, 3.0, BLUE, "encoder: N blocks"), (1.85, 0.55, 3.45, GREEN, "decoder: N blocks"),
    ):  # fmt: skip
        width = 1.9 if left < 0 else 2.3
        ax.plot(
            left + np.array([0, width, width, 0, 0]), [low, low, high, high, low], ":", color=colour
        )
        ax.text(left + width + 0.06, low, name, color=colour, fontsize=9.5, rotation=90, va="bottom")
    ax.set(xlim=(-1.2, 4.7), ylim=(-0.5, 4.5))
    ax.axis("off")
show_figure(
    fig,
    "whole",
    "Two stacks: the encoder's blocks, look around and compute, turn the source into the memory; each of the decoder's blocks looks "
    "back, looks across at keys and values made of the memory, and computes; at the top are scores",
)

# %%
E_source, E_target, E_out = p["source"], p["target"], p["output"]
sinusoids, parts = yours("my_sinusoids"), deep.decoder_block


def read(E, ids, first=0):
    """Shapes: E (V, D), ids (..., n) -> tokens (..., n, D): √D times the embeddings, and where they stand."""
    slots = np.arange(first, first + ids.shape[-1])
    return math.sqrt(E.shape[1]) * E[ids] + sinusoids(slots, E.shape[1])


def norm(w, x):
    return parts.norm.forward(w, x)[0]


def layer(w, x, look_back, look_across):
    x = x + look_back(norm(w["norm_1"], x))
    x = x + look_across(norm(w["norm_2"], x))
    return x + parts.feed_forward.forward(w["feed_forward"], norm(w["norm_3"], x))[0]


def encode(network, p, source, lengths):
    x = read(p["source"], source)
    for w in p["encoder"]["blocks"]:
        x, _ = network.encoder_block.forward(w, x, mask=Mask(lengths=lengths))
    return norm(p["encoder"]["norm"], x)


def decode(network, p, written, memory, lengths):
    x, heads, cross = read(p["target"], written), parts.mixer, parts.cross
    for w in p["decoder"]["blocks"]:
        x = layer(
            w, x,
            look_back=lambda h: heads.forward(w["attention"], h, mask=Mask(causal=True))[0],
            look_across=lambda h: cross.forward(w["cross"], h, memory, mask=Mask(lengths=lengths))[0],
        )  # fmt: skip
    return norm(p["decoder"]["norm"], x)


memory = encode(deep, p, batch.source, batch.lengths)
z = decode(deep, p, batch.written, memory, batch.lengths) @ p["output"].T
print("the library's scores:", np.allclose(z, deep.forward(p, batch)[0]))
print(f"its loss {deep.loss(p, batch)[0]:.1f}, ln V {math.log(z.shape[-1]):.1f}")

# %% [markdown]
# ### Exercise `attention_parameters` (predict the number, ★☆☆, 4 min)
#
# The paper's base model has $D = 512$, 8 heads, 6 blocks of the encoder and 6 of the decoder. How many numbers are in all its $W_q$, $W_k$, $W_v$ and
# $W_o$, without biases? (One attention of 8 heads has $4 \cdot 512^2$.)

# %%
### BEGIN SOLUTION
attention_parameters = (6 + 2 * 6) * 4 * 512**2
### END SOLUTION

# %%
check("attention_parameters", attention_parameters)

# %% [markdown]
# ### Exercise `repaired_layer` (find the bug, ★☆☆, 6 min)
#
# Two attentions, two masks. Here is a decoder's layer without norms and projections, in which one mask is wrong. Nothing crashes, and shapes are right. The table says which of five words of
# the memory, of which the last two are padding, move which of three outputs.


# %%
def look(x, at, mask):
    return attention(x, at, at, mask)[0]


def buggy_layer(x, memory, lengths):
    """Shapes: x (B, n, D), memory (B, m, D), lengths (B,): how many of the m are real -> (B, n, D)."""
    n, m = x.shape[1], memory.shape[1]
    x = x + look(x, x, np.tri(n, dtype=bool))  # True where j <= i
    return x + look(x, memory, np.tri(n, m, dtype=bool))


def moved(layer, n=3, m=5, real=3):
    """(n, m): does output i move if word j of the memory does?"""
    x, memory = np.random.default_rng(1).standard_normal((2, 1, m, 4))
    x, changed = x[:, :n], memory + np.eye(m)[:, :, None]  # (m, m, 4): a word each
    before, after = (layer(x + 0 * y[:, :1], y, np.full(len(y), real)) for y in (memory, changed))
    return (before != after).any(axis=-1).T


show_arrays(moved=moved(buggy_layer).astype(int))


# %%
def repaired_layer(x, memory, lengths):
    """Shapes: x (B, n, D), memory (B, m, D), lengths (B,): how many of the m are real -> (B, n, D)."""
    ### BEGIN SOLUTION
    n, m = x.shape[1], memory.shape[1]
    x = x + look(x, x, np.tri(n, dtype=bool))
    return x + look(x, memory, np.arange(m) < lengths[:, None, None])  # all that is real
    ### END SOLUTION


# %%
check("repaired_layer", repaired_layer)

# %% [markdown]
# ## Teacher forcing
#
# The probability of a string is a product, and its logarithm a sum:
#
# $$\log P(y \mid source) = \sum_t \log P(y_t \mid y_1, \dots, y_{t-1}, source) .$$
#
# In training all $y_t$ are known. So the decoder is given the true beginning at every position, whatever it would have written itself: that is **teacher forcing**. The causal
# mask makes each position blind to the rest, and one pass solves eleven problems. Only in use does the decoder go step by step.

# %%
translator = Transformer(**HOW).fit(train, progress=False)
rows = [[source, target, translator.translate(source)] for source, target in test[:3]]
print("loss of each epoch:", *(f"{epoch['loss']:.2f}" for epoch in translator.history))
print(f"new dates that are right as a whole: {translator.evaluate(test)['exact']:.2f}")
table("source | target | written", rows)

# %% [markdown]
# Few mistakes are left, after 20,000 dates and a few seconds. (All 24 forms in which the library writes dates take some minutes: `tinyattn train --model transformer`.)
#
# Now forget the shift: the decoder reads the targets themselves. **Predict:** what happens to the loss? To the exact matches? And what will it write?


# %% tags=["hide-output"]
class Unshifted(PairSampler):
    def of(self, rows):
        batch = super().of(rows)
        return batch._replace(written=batch.targets)


class Leaky(Transformer):
    def sampler(self, numbered):
        return Unshifted(numbered, self.batch_size, self.seed)


leaky = Leaky(**HOW | {"epochs": 2}).fit(train, progress=False)
print("loss of each epoch:", *(f"{epoch['loss']:.2f}" for epoch in leaky.history))
print(f"new dates that are right as a whole: {leaky.evaluate(test)['exact']:.2f}")
print("written for 3 May 1999:", repr(leaky.translate("3 May 1999")))

# %% [markdown]
# <details><summary>Answer</summary>
#
# The loss falls to 0, faster than before, and *every* new date counts as right, for the measure goes through the same batches. In use it writes nothing: it has learned to repeat what it
# has just read, which at first is 0, and 0 ends a string. The source is never looked at.
#
# </details>
#
# To see it, we let a model say something at every position, and then let it write by itself:


# %%
def best(model, batch, written):
    """The likeliest next character after each. Shapes: written (B, n) -> (B, n)."""
    network, p = model.network, model.parameters
    memory, _ = network.encode(p, batch.source, batch.lengths)
    h, _ = network.decode(p, written, memory, batch.lengths)
    return network.scores(p, h).argmax(axis=-1)


def greedy(model, batch):
    """(B, n): what it writes if it reads what it has written."""
    written = batch.written[:, :1]  # 0
    for _ in range(batch.targets.shape[1]):
        written = np.concatenate([written, best(model, batch, written)[:, -1:]], axis=1)
    return written[:, 1:]


whole = translator.sampler(translator.numbered(Pairs.of(test), translator.known())).whole()
others = np.roll(whole.targets, 1, axis=0)  # the date of another row
print(f"leaky repeats what it reads: {(best(leaky, whole, others) == others).mean():.2f}")

# %% [markdown]
# ### Its own mistakes
#
# Teacher forcing has a price. In training a decoder never sees a wrong beginning; in use it reads its own. (This is called *exposure bias*.) What does that cost? Take a model after one short epoch,
# and ours. **Predict:** count the right *characters*, and the right *strings*, with true beginnings and with their own. Which of the two counts differs?

# %% tags=["hide-output"]
early = Transformer(**HOW | {"epochs": 1, "batch_size": 64}).fit(train, progress=False)
rows = []
for name, one in (("one short epoch", early), ("five epochs", translator)):
    given, own = (
        found == whole.targets for found in (best(one, whole, whole.written), greedy(one, whole))
    )
    rows.append([name, *(f"{x.mean():.2f}" for x in (given, own, given.all(1), own.all(1)))])
table("model | characters, given | own | strings, given | own", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Characters: after a mistake of its own the young model makes more. Strings cannot differ: greedy decoding writes the target exactly if the likeliest character is right after each of the
# target's beginnings, for as long as it is right it *has* written such a beginning. So one pass measures exact matches, without any decoding.
#
# </details>
#
# ## Where greedy loses
#
# Greedy decoding takes the likeliest character each time. The likeliest *string* may begin otherwise. Strings of two letters: the first is a with probability 0.6, else b; after a comes a with 0.55, after b
# with 0.9. **Predict:** which string does greedy write, and which is the likeliest?
#
# <details><summary>Answer</summary>
#
# It writes aa, with probability 0.6 · 0.55 = 0.33. The likeliest is ba, with 0.4 · 0.9 = 0.36.
#
# </details>
#
# **Beam search** keeps the `width` best beginnings instead of one. A step extends each of them by each symbol, and keeps the `width` best of all.
#
# ### Exercise `my_beam_step` (write the op, ★★☆, 10 min)
#
# `scores[i]` is the log-probability of beginning $i$, `log_p[i, j]` that of symbol $j$ after it. Return the best `width` extensions, the best first: which beginnings, which symbols, and their
# scores. (There are fewer if $k V$ is less than `width`.)


# %%
def my_beam_step(scores, log_p, width):
    """Shapes: scores (k,), log_p (k, V) -> parents, symbols, scores, each (width,)."""
    ### BEGIN SOLUTION
    total = (scores[:, None] + log_p).ravel()  # (k V,): entry i V + j
    best = np.argsort(-total)[:width]
    return best // log_p.shape[1], best % log_p.shape[1], total[best]
    ### END SOLUTION


# %%
check("my_beam_step", my_beam_step)

# %%
def beam_step(*given):
    parents, symbols, scores = yours("my_beam_step")(*given)
    return parents.astype(int), symbols.astype(int), scores


first, second = np.log([[0.6, 0.4]]), np.log([[0.55, 0.45], [0.9, 0.1]])
for width in (1, 2):
    _, begins, scores = beam_step(np.zeros(1), first, width)
    parents, ends, scores = beam_step(scores, second[begins], width)
    print(f"width {width}: {'ab'[begins[parents[0]]]}{'ab'[ends[0]]}, {np.exp(scores[0]):.2f}")

# %% [markdown]
# Does a wider beam always find something at least as good? Let us ask 300 random models of strings of six symbols out of four.


# %%
V, LENGTH, WIDTHS = 4, 6, (1, 2, 3, 4, 8)
rng = np.random.default_rng(0)
trees = [
    [np.log(softmax(1.5 * rng.standard_normal((V**t, V)))) for t in range(LENGTH)]
    for _ in range(300)
]


def usual(tree, width):
    """The best score that a beam of this width finds. tree[t] (V^t, V): of each beginning, in order."""
    nodes, scores = np.zeros(1, int), np.zeros(1)
    for log_p in tree:
        parents, symbols, scores = beam_step(scores, log_p[nodes], width)
        nodes = nodes[parents] * V + symbols
    return scores[0]


def ours(tree, width):
    """The library's, which wants a symbol 0 that ends a string."""

    def log_p(beginnings):  # (k, t + 1): 0, and t symbols from 1 on
        t = beginnings.shape[1] - 1
        nodes = (beginnings[:, 1:] - 1) @ V ** np.arange(t)[::-1]
        follows = tree[t][nodes] if t < LENGTH else np.zeros((len(beginnings), V))
        return np.insert(follows, 0, 0 if t == LENGTH else -np.inf, axis=1)

    return beam_search(log_p, width, LENGTH + 1)[0].score


found = {f.__name__: np.array([[f(tree, w) for w in WIDTHS] for tree in trees]) for f in (usual, ours)}
top = np.maximum(*(scores[:, -1] for scores in found.values()))
rows = []
for number, width in enumerate(WIDTHS):
    row = [width]
    for scores in found.values():
        worse = (scores[:, number] < scores[:, :number].max(axis=1, initial=-np.inf) - 1e-9).sum()
        row += [(scores[:, number] > top - 1e-9).sum(), worse]
    rows.append(row)
table("width | usual: as good as any | worse than a narrower | library: as good | worse", rows)
