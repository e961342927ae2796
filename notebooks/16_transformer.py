# %% [markdown]
# # 16 · The Transformer
#
# "May 3, 1999" is to become "1999-05-03". What is written first was read last, the month becomes a number, and eleven characters become ten. All models so far had one
# sequence; here there are two. **What must pass between a part that reads and a part that writes?**
#
# The Transformer ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)) answers with parts that you know, and one attention that is new. You derive its gradient, put
# the whole together, train it on dates for a few seconds, and look into it.
#
# **You need**: attention's backward ([04](04_attention_backward.ipynb)), masks ([05](05_masks.ipynb)), heads ([06](06_many_heads.ipynb)), sinusoids
# ([07](07_order.ipynb)), the block ([08](08_block.ipynb)), targets shifted by one ([12](12_sasrec.ipynb)).
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
from tinyattn.course import check, page_part, road, show_arrays, show_figure, table, yours
from tinyattn.data import Pairs, PairSampler
from tinyattn.data.tasks.dates import in_form
from tinyattn.layers import MECHANISMS, MIXERS, multi_head_attention, nbytes
from tinyattn.models import Transformer
from tinyattn.models.transformers.search import beam_search
from tinyattn.ops import Mask, attention, smoothed_cross_entropy, softmax
from tinyattn.show import figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, GROUND, ORANGE
from tinyattn.training.schedules import rate_factors

road(16)

# %% [markdown]
# ## Two sequences
#
# Dates from 1970 to 2029, in three of the forms in which people write them, and as ISO 8601 has them. Every token is a character.

# %%
FORMS = ("{d} {Month} {yyyy}", "{Mon} {d}, {yyyy}", "{dd}.{mm}.{yyyy}")


def dates(n, seed):
    rng, first = np.random.default_rng(seed), datetime.date(1970, 1, 1).toordinal()
    days = [datetime.date.fromordinal(first + int(day)) for day in rng.integers(0, 21_915, n)]
    return [(in_form(day, FORMS[rng.integers(3)]), day.isoformat()) for day in days]


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
show_arrays(
    source=batch.source, lengths=batch.lengths, written=batch.written, targets=batch.targets
)

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
# That is **cross-attention**; nothing else passes from encoder to decoder. Here it is by hand: three French words have been read, "le chat noir", and "the black" has been written. The first feature
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
# Given $dout$, attention's backward returns $dq$, $dk$ and $dv$, whichever tokens they were made from. So only the ends are new. `x` was read once, `memory` twice.
#
# ### Exercise `my_cross_attention_backward` (derive the backward, ★★☆, 10 min)
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
# The same, step by step, to where the two gradients of `memory` meet:

# %% tags=["hide-input"]
maps = {"query": {"W": W_q}, "key": {"W": W_k}, "value": {"W": W_v}}
seen = trace(multi_head_attention, maps, x, memory, heads=1, backward=True, dy=dout)
seen.player(title="Cross-attention, forward and backward")

# %% [markdown]
# ### One memory, many readers
#
# A decoder has several blocks, and *each* makes keys and values of its own from the same memory. What is read several times gets the sum of the gradients. Let us see the parts, in a network with
# three blocks and random weights. `decode_backward` is the library's; the loss is $\sum h \odot dh$ with random $dh$.

# %%
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
# No part is small. If only the last block's were passed on, the encoder would still learn something, and no shape would tell.
#
# ## The whole
#
# A block of the decoder has three branches instead of two, each with a norm and a residual as in [chapter 08](08_block.ipynb): look back, look across, compute.


# %% tags=["hide-input"]
def box(ax, x, y, text, colour):
    how = {"boxstyle": "round,pad=0.45", "fc": GROUND, "ec": colour, "lw": 1.5}
    ax.text(x, y, text, ha="center", va="center", fontsize=10, bbox=how)


def arrow(ax, start, end, colour=GREY):
    how = {"arrowstyle": "-|>", "color": colour, "lw": 1.4, "shrinkA": 12, "shrinkB": 12}
    ax.annotate("", end, start, arrowprops=how)


with style():
    fig, ax = figure(size=(7.4, 4.2))
    reads = ("source", "look around", "compute", "memory")
    writes = ("written", "look back", "look across", "compute", "scores")
    stacks = (0, BLUE, reads, "encoder: N blocks"), (3, GREEN, writes, "decoder: N blocks")
    for x, colour, names, title in stacks:
        top = len(names) - 1
        for y, name in enumerate(names):
            box(ax, x, y, name, ORANGE if name == "memory" else colour if 0 < y < top else GREY)
            if y:
                arrow(ax, (x, y - 1), (x, y))
        sides = x + 0.75 * np.array([-1, 1, 1, -1, -1])
        ax.plot(sides, np.array([0, 0, 1, 1, 0]) * (top - 1) + 0.5, ":", color=colour)
        ax.text(x + 0.8, 0.55, title, color=colour, fontsize=10, rotation=90, va="bottom")
    arrow(ax, (0.25, 3.0), (2.75, 2.0), ORANGE)
    ax.text(0.85, 3.0, "the same for every block", color=ORANGE, fontsize=10)
    ax.set(xlim=(-1, 4.1), ylim=(-0.35, 4.35))
    ax.axis("off")
show_figure(
    fig,
    "whole",
    "Two stacks. Left, the encoder: from the source through N blocks, which look around and compute, to the memory. Right, the decoder: "
    "from what is written through N blocks, which look back, look across at the memory, and compute, to scores",
)

# %%
sinusoids, block = yours("my_sinusoids"), deep.decoder_block


def read(E, ids, first=0):
    """Shapes: E (V, D), ids (..., n) -> tokens (..., n, D): √D times the embeddings, and where they stand."""
    slots = np.arange(first, first + ids.shape[-1])
    return (math.sqrt(E.shape[1]) * E[ids] + sinusoids(slots, E.shape[1])).astype(E.dtype)


def norm(w, x):
    return block.norm.forward(w, x)[0]


def layer(w, x, look_back, look_across):
    x = x + look_back(norm(w["norm_1"], x))
    x = x + look_across(norm(w["norm_2"], x))
    return x + block.feed_forward.forward(w["feed_forward"], norm(w["norm_3"], x))[0]


def encode(network, p, source, lengths):
    x = read(p["source"], source)
    for w in p["encoder"]["blocks"]:
        x, _ = network.encoder_block.forward(w, x, mask=Mask(lengths=lengths))
    return norm(p["encoder"]["norm"], x)


def decode(network, p, written, memory, lengths):
    x, heads, cross = read(p["target"], written), block.mixer, block.cross
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
# Two attentions, two masks. Here is a decoder's layer without norms and projections, in which one mask is wrong. Nothing crashes, and all shapes are right.


# %%
def look(x, at, mask):
    return attention(x, at, at, mask)[0]


def buggy_layer(x, memory, lengths):
    """Shapes: x (B, n, D), memory (B, m, D), lengths (B,): how many of the m are real -> (B, n, D)."""
    n, m = x.shape[1], memory.shape[1]
    x = x + look(x, x, np.tri(n, dtype=bool))  # True where j <= i
    return x + look(x, memory, np.tri(n, m, dtype=bool))


# %% [markdown]
# Which outputs move if one word of the memory does? Of five words the last two are padding. (The folded cell changes one after the other.)


# %% tags=["hide-input"]
def moved(layer, n=3, m=5, real=3):
    """(n, m): does output i move if word j of the memory does?"""
    rng, lengths = np.random.default_rng(1), np.array([real])
    x, memory = rng.standard_normal((1, n, 4)), rng.standard_normal((1, m, 4))
    before, columns = layer(x, memory, lengths), []
    for j in range(m):
        changed = memory.copy()
        changed[:, j] += 1
        columns.append((layer(x, changed, lengths) != before).any(axis=-1)[0])
    return np.array(columns).T.astype(int)


show_arrays(buggy=moved(buggy_layer))


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

# %% tags=["hide-output"]
show_arrays(repaired=moved(yours("repaired_layer")))

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
# Few mistakes are left, after 4,000 dates, each read five times. (`tinyattn train --model transformer` learns all 24 forms that the library knows in a minute or two: .9995 of
# unseen dates were right, [measured](../benchmarks/results/transformers.md).)
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
# has just read, which at first is 0, and 0 ends a string. What the source says does not matter.
#
# </details>
#
# To see it, we let a model say something at every position, and then let it write by itself:


# %%
def batch_of(pairs):
    return translator.sampler(translator.numbered(Pairs.of(pairs), translator.known())).whole()


def remember(model, batch):
    return model.network.encode(model.parameters, batch.source, batch.lengths)[0]


def best(model, batch, written, memory):
    """The likeliest next character after each. Shapes: written (B, n) -> (B, n)."""
    h, _ = model.network.decode(model.parameters, written, memory, batch.lengths)
    return model.network.scores(model.parameters, h).argmax(axis=-1)


def greedy(model, batch, memory):
    """(B, n): what it writes if it reads what it has written."""
    written = batch.written[:, :1]  # 0
    for _ in range(batch.targets.shape[1]):
        newest = best(model, batch, written, memory)[:, -1:]
        written = np.concatenate([written, newest], axis=1)
    return written[:, 1:]


whole = batch_of(test)
others = np.roll(whole.targets, 1, axis=0)  # dates of other rows
repeated = best(leaky, whole, others, remember(leaky, whole)) == others
print(f"leaky repeats what it reads: {repeated.mean():.2f}")

# %% [markdown]
# ### Its own mistakes
#
# Teacher forcing has a price. In training a decoder never sees a wrong beginning; in use it reads its own. (This is called *exposure bias*.) What does that cost? Take a model after one epoch,
# and ours. **Predict:** count the right *characters*, and the right *strings*, with true beginnings and with their own. Which of the two counts differs?

# %% tags=["hide-output"]
young = Transformer(**HOW | {"epochs": 1}).fit(train, progress=False)
rows = []
for name, one in (("one epoch", young), ("five epochs", translator)):
    memory = remember(one, whole)
    given = best(one, whole, whole.written, memory) == whole.targets
    own = greedy(one, whole, memory) == whole.targets
    shares = [f"{x.mean():.2f}" for x in (given, own)]
    rows.append([name, *shares, *(f"{x.all(axis=1).mean():.1f}" for x in (given, own))])
table("model | characters, given | own | strings, given | own", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Characters: after a mistake of its own the young model makes more. Strings cannot differ: greedy decoding writes the target exactly if the likeliest character is right after each of the
# target's beginnings: as long as it is right, it *has* written such a beginning. So one pass measures exact matches, without any decoding.
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
step_of_yours = yours("my_beam_step")


def beam_step(*given):
    parents, symbols, scores = step_of_yours(*given)
    return parents.astype(int), symbols.astype(int), scores  # whole numbers again


first, second = np.log([[0.6, 0.4]]), np.log([[0.55, 0.45], [0.9, 0.1]])
for width in (1, 2):
    _, begins, scores = beam_step(np.zeros(1), first, width)
    parents, ends, scores = beam_step(scores, second[begins], width)
    print(f"width {width}: {'ab'[begins[parents[0]]]}{'ab'[ends[0]]}, {np.exp(scores[0]):.2f}")

# %% [markdown]
# Does a wider beam always find something at least as good? Let us ask 300 random models of strings of eight symbols out of three. The library's beam is not the usual one: place
# $i$ is only filled with what follows the beginnings in places 1 to $i$ ([Lemons et al. 2022](https://arxiv.org/abs/2204.02929)). **Predict:** which of the two can be worse with a wider beam?


# %% tags=["hide-cell"]
V, LENGTH, WIDTHS = 3, 8, (1, 2, 3, 4, 8)
rng = np.random.default_rng(0)
sizes = [(V**t, V) for t in range(LENGTH)]
trees = [[np.log(softmax(rng.standard_normal(size))) for size in sizes] for _ in range(300)]


def usual(tree, width):
    """The best score found. tree[t] (V^t, V): what may follow each beginning of t symbols."""
    nodes, scores = np.zeros(1, int), np.zeros(1)
    for log_p in tree:
        parents, symbols, scores = beam_step(scores, log_p[nodes], width)
        nodes = nodes[parents] * V + symbols
    return scores[0]


def by_places(tree, width):
    """The library's search, in which a symbol 0 begins and ends a string."""

    def log_p(begins):  # (k, t + 1): 0, and t symbols from 1 on
        k, t = len(begins), begins.shape[1] - 1
        nodes = (begins[:, 1:] - 1) @ V ** np.arange(t)[::-1]
        ends = t == LENGTH
        return np.insert(np.zeros((k, V)) if ends else tree[t][nodes], 0, 0 if ends else -np.inf, 1)

    return beam_search(log_p, width, LENGTH + 1)[0].score


found = [np.array([[f(tree, w) for w in WIDTHS] for tree in trees]) for f in (usual, by_places)]
likeliest, rows = np.maximum(*(scores[:, -1] for scores in found)), []
for i, width in enumerate(WIDTHS):
    row = [width]
    for scores in found:
        before = scores[:, :i].max(axis=1, initial=-np.inf)
        row += [(scores[:, i] > likeliest - 1e-9).sum(), (scores[:, i] < before - 1e-9).sum()]
    rows.append(row)
table("width | usual: as good as any | worse than narrower | places: as good | worse", rows)

# %% [markdown]
# The usual one: its best beginnings may crowd out the one that would have won. By places, a wider beam finds all that a narrower one finds; but it finds the likeliest string slightly less often.
#
# ## Nothing twice
#
# `greedy` above computes every step from the beginning: at step $t$, $t$ queries, keys and values, and $t^2$ weights, of which only the last row is used. But a causal token has seen all that it will ever see. Its
# key and value stay as they are, so keep them. This is the **KV cache**.
#
# ### Exercise `my_cached_step` (write the op, ★★☆, 8 min)
#
# A step of self-attention. Given are `q`, `k` and `v` of the newest token, and the kept `K` and `V` of the $t$ tokens before it; at first $t = 0$. There may be axes before, as for heads.


# %%
def my_cached_step(q, k, v, K, V):
    """Shapes: q, k (..., 1, d), v (..., 1, e), K (..., t, d), V (..., t, e)
    -> out (..., 1, e), K (..., t + 1, d), V (..., t + 1, e).
    """
    ### BEGIN SOLUTION
    K = np.concatenate([K, k], axis=-2)
    V = np.concatenate([V, v], axis=-2)
    s = q @ K.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # (..., 1, t + 1): nothing to hide
    return softmax(s) @ V, K, V
    ### END SOLUTION


# %%
check("my_cached_step", my_cached_step)

# %% [markdown]
# With it, our translator. The decoder has *two* caches: keys and values of what it has written, which grow, and those of the memory, which are made once.

# %%
cached_step, HEADS = yours("my_cached_step"), 2


def heads(w, x):  # (n, D) -> (h, n, d)
    return (x @ w["W"] + w["b"]).reshape(len(x), HEADS, -1).swapaxes(0, 1)


def joined(w, out):  # (h, n, d) -> (n, D)
    return out.swapaxes(0, 1).reshape(out.shape[1], -1) @ w["W"] + w["b"]


def write(model, source, longest=11):
    """Greedily, with caches. -> the numbers written, after 0, and the scores (n, V) of each step."""
    p, ids = model.parameters, model.sources.numbers(source)[None]
    memory = encode(model.network, p, ids, np.array([ids.size]))[0]
    blocks, written, scores = p["decoder"]["blocks"], [0], []
    across = [[heads(w["cross"][name], memory) for name in ("key", "value")] for w in blocks]
    past = [2 * [across[0][0][:, :0]] for w in blocks]  # nothing yet
    for t in range(longest):
        x = read(p["target"], np.array(written[-1:]), first=t)  # (1, D)
        for b, w in enumerate(blocks):
            own, cross = w["attention"], w["cross"]

            def look_back(h):
                new = [heads(own[name], h) for name in ("query", "key", "value")]
                out, *past[b] = cached_step(*new, *past[b])
                return joined(own["output"], out)

            def look_across(h):
                return joined(cross["output"], attention(heads(cross["query"], h), *across[b])[0])

            x = layer(w, x, look_back, look_across)
        scores.append(norm(p["decoder"]["norm"], x) @ p["output"].T)
        written.append(int(scores[-1].argmax()))
        if written[-1] == 0:
            break
    return written, np.concatenate(scores)


source = "3 July 1999"
written, scores = write(translator, source)
batch = batch_of([(source, "1999-07-03")])
anew, _ = translator.network.forward(translator.parameters, batch)
print("written:", "".join(translator.targets.decode(np.array(written[1:-1]))))
print("all scores, computed anew:", np.allclose(scores, anew[0], atol=1e-4))

# %% [markdown]
# What is saved? The folded cell counts the multiply-adds of one causal attention that writes $n$ tokens of width 16, step by step.


# %% tags=["hide-input"]
def multiply_adds(n, cached, D=16):
    """-> how many, and the outputs (n, D)."""
    rng, count = np.random.default_rng(5), 0
    tokens, W = rng.standard_normal((n, D)), rng.standard_normal((3, D, D)) / math.sqrt(D)

    def times(a, b):
        nonlocal count
        count += a.size * b.shape[1]
        return a @ b

    out, kept = [], [np.zeros((0, D)), np.zeros((0, D))]
    for t in range(n):
        q, k, v = (times(tokens[t if cached else 0 : t + 1], w) for w in W)
        K, V = (np.concatenate(pair) for pair in zip(kept, (k, v), strict=True))
        hidden = np.tri(len(q), len(K), len(K) - len(q)) == 0
        s = np.where(hidden, -np.inf, times(q, K.T) / math.sqrt(D))
        out.append(times(softmax(s), V)[-1])
        kept = [K, V] if cached else kept
    return count, np.array(out)


# %% [markdown]
# **Predict:** twice as many tokens are written. A token then costs how many times as much, with and without a cache?

# %% tags=["hide-cell"]
rows = []
for n in (64, 128, 256):
    (slow, anew), (fast, out) = (multiply_adds(n, cached) for cached in (False, True))
    assert np.allclose(anew, out)
    rows.append([n, f"{slow / n:,.0f}", f"{fast / n:,.0f}", f"{slow / fast:.0f}"])
table("tokens n | a token, anew | a token, cached | times fewer", rows)

# %% [markdown]
# The outputs are the same (the cell asserts it). Doubling $n$ makes a token 3.2 to 3.5 times as dear without a cache, and 1.6 to 1.7 times with one: towards 4 and 2. The price is a memory that grows by $2 D$ numbers a token in each block.

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 2, size=(7.4, 3.5))
    size = 8
    i, j = np.arange(size)[:, None], np.arange(size)
    for ax, times, title in (
        (axes[0], size - i, "anew"), (axes[1], np.ones((size, 1), int), "with a cache"),
    ):  # fmt: skip
        shown = np.where(j <= i, times, 0)
        ax.imshow(shown, cmap="Blues", vmin=0, vmax=1.6 * size)
        for (row, column), number in np.ndenumerate(shown):
            if number:
                ax.text(column, row, number, ha="center", va="center", fontsize=9)
        ax.set(title=f"{title}: {shown.sum()} weights", xlabel="key", ylabel="query")
        ax.set(xticks=range(size), yticks=range(size))
show_figure(
    fig,
    "cache",
    "Two triangles of attention weights of eight tokens with the number of times that each is computed: anew from 8 times in the "
    "first row down to once in the last, 120 together; with a cache every one once, 36 together",
)

# %% [markdown]
# ### What must be kept
#
# With long texts that memory becomes the limit. Heads can share keys and values (*grouped queries*, as in LLaMA 3), look through a *window*, or make their keys and values again from one short vector $c$ a token
# (*latent attention*, [DeepSeek-V2](https://arxiv.org/abs/2405.04434)). These need not even be made: $q \cdot (c\,W_k) = (q\,W_k^\top) \cdot c$ for a key $c\,W_k$, and $\sum_j p_j\,(c_j W_v) = (\sum_j p_j\,c_j)\,W_v$ for values $c_j W_v$. The
# folded cell asks four mixers of the library what they keep.

# %% tags=["hide-input"]
Attention, Latent, Window = MIXERS["attention"], MIXERS["latent"], MECHANISMS["window"]
keepers = {
    "8 heads": (Attention(heads=8), "2 D a token"),
    "8 heads share 2 pairs of keys and values": (Attention(heads=8, kv_heads=2), "2 D / 4"),
    "latent: 16 numbers, and 4 that RoPE turns": (Latent(heads=8, latent=16, turned=4), "16 + 4"),
    "8 heads, window of 64": (
        Attention(heads=8, mechanism=Window(window=64)),
        "2 D, for 63 tokens",
    ),
}
rows, rng = [], np.random.default_rng(6)
for name, (mixer, how) in keepers.items():
    kept = []
    for n in (1, 100, 1000):
        x = rng.standard_normal((1, n, 64))
        _, past = mixer.extend(mixer.init(rng, 64), x, x if mixer.takes_memory else None, None)
        kept.append(nbytes(past) // x.itemsize)
    rows.append([name, how, *kept])
table("numbers kept, D = 64 | how | 1 token | 100 | 1,000", rows)

# %% [markdown]
# A window forgets. Kept beside it, the first few tokens (*sinks*, [Xiao et al. 2024](https://arxiv.org/abs/2309.17453)) keep a long text fluent; they do not bring back what is forgotten. Reading
# *farther than trained* is another matter: RoPE's slow angles are scaled (`--rope-scaling yarn`), and the cache stays as large.

# %% [markdown]
# ## Look into it
#
# Cross-attention's weights say where each written character looked: the *alignment* of the two strings. From each digit of year and
# day a line leads to the character that it looks at most, by the mean of both heads; dashed lines lead to where more than half of the weight of the month's first digit is. **Predict:** where does it look when it writes the month, and where for the year, whose digits may stand anywhere?

# %% tags=["hide-cell"]
with style():
    fig, axes = figure(2, 1, size=(7.0, 4.4))
    for ax, source in zip(axes, ("3 July 1999", "Jul 23, 1978"), strict=True):
        written = [*translator.translate(source), "end"]
        weights = translator.alignment(source, "".join(written[:-1]))[0].mean(axis=0)  # (n, m)
        for i in (0, 1, 2, 3, 8, 9):  # year and day
            ax.plot((weights[i].argmax(), i), (1, 0), color=BLUE)
        spaces = [j for j, character in enumerate(source) if character == " "]
        for j in spaces if weights[5, spaces].sum() > 0.5 else []:
            ax.plot((j, 5), (1, 0), color=ORANGE, ls="--")
        for y, characters in ((1.12, source.replace(" ", "␣")), (-0.12, written)):
            for x, character in enumerate(characters):
                ax.text(x, y, character, ha="center", va="center", fontsize=11)
        ax.text(-1.6, 1.12, "read", color=GREY, va="center")
        ax.text(-1.6, -0.12, "written", color=GREY, va="center")
        ax.set(xlim=(-1.7, 11.5), ylim=(-0.25, 1.25))
        ax.axis("off")
show_figure(
    fig,
    "alignment",
    "Lines from written digits to the character read that has the largest weight in cross-attention, for 3 July 1999 and Jul 23, 1978: digits of the year look at the end of the source, those of the "
    "day at the day, wherever it stands, but the 0 of 03 at the space behind the 3, and the 0 of the month at the two spaces",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Days and years are found wherever they stand. But a 0 that the source lacks looks at *spaces*.
#
# </details>
#
# The encoder's tokens have looked at each other, so a space could know the month. Does it? Take the memories of two dates that differ in the month, one from January to September, one from October on. Exchange some tokens, and
# let the decoder write. **Predict:** which exchange brings the other month's first digit: that of the letters, or that of the spaces?

# %% tags=["hide-output"]
early, late = [], []
for i in range(30):
    for pairs, month in ((early, 1 + i % 9), (late, 10 + i % 3)):
        day = datetime.date(1970 + 2 * i, month, 10 + i % 19)
        pairs.append((in_form(day, FORMS[1]), day.isoformat()))  # as Jul 23, 1978
early, late, rows = batch_of(early), batch_of(late), []
for name, places in (("the month's letters", [0, 1, 2]), ("both spaces", [3, 7])):
    memory = remember(translator, early).copy()
    memory[:, places] = remember(translator, late)[:, places]
    first_digit = greedy(translator, early, memory)[:, 5]
    rows.append([name, f"{(first_digit == late.targets[:, 5]).mean():.2f}"])
table("exchanged | the other month's first digit is written", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# The letters decide, each time. The spaces, which get about half of the weight, decide nothing. A picture of weights is a guess about a model; an exchange tests it.
#
# </details>
#
# ## The paper's recipe
#
# Two details of the paper. Its learning rate grows for $w = 4000$ steps and then falls as $1 / \sqrt t$:
#
# $$rate(t) = D^{-1/2} \min\big(t^{-1/2},\; t\, w^{-3/2}\big) .$$
#
# And its targets are **smoothed**: the true symbol gets the probability $1 - \varepsilon$, and $\varepsilon = 0.1$ is spread over all $V$. Say the target's logit is $c$, and all others are 0:

# %%
D, w, t = 512, 4000, np.array([1, 1000, 4000, 16_000, 100_000])
rate = D**-0.5 * np.minimum(t**-0.5, t * w**-1.5)
print("Noam:", *(f"{x:.5f}" for x in rate))
print("the library's:", np.allclose(rate, rate_factors("noam", w, t[-1])[t] / math.sqrt(D * w)))
rows, target = [], np.array([0])
for c in (0, 2, math.log(0.9 * 12 / 0.1 + 1), 8, 16):
    losses = (smoothed_cross_entropy(c * np.eye(1, 12), target, smoothing=e) for e in (0.0, 0.1))
    rows.append([f"{c:.2f}", *(f"{loss:.2f}" for loss in losses)])
table("c | loss | smoothed, V = 12", rows)

# %% [markdown]
# Without smoothing more is always better; with it the best is $c = \ln\big((1 - \varepsilon) V / \varepsilon + 1\big)$, and a model that is surer pays for it. The lowest smoothed loss is not 0, but the entropy of the smoothed targets.
#
# The network above has its norms before each branch and once at the end, and separate tables for sources, targets and scores. The paper's form is
# `--block-form post --embeddings shared --schedule noam --label-smoothing 0.1`.
#
# **T5** ([Raffel et al. 2020](https://arxiv.org/abs/1910.10683)) is this network for every task: text in, text out, even for a grade. A decoder without a memory is GPT, [all of it one page](../tinyattn/pages/gpt.py):

# %%
page_part("gpt", "block", "generate")

# %% [markdown]
# | what is often said | what the cells above show |
# |---|---|
# | the encoder hands its keys and values to the decoder | it hands over tokens; each of the decoder's blocks makes keys and values of its own, and their gradients are added |
# | a Transformer works in parallel, not step by step | it reads and is trained in parallel, but writes one token after another |
# | eight heads have eight times the parameters | they share the columns: $4 D^2$ an attention, for any number of heads |
# | a loss near 0 and all matches exact: it works | a decoder that reads its targets has both, and writes nothing |
# | a wider beam finds nothing worse | the usual beam does now and then; by places it cannot |
# | attention's weights show what was used | writing the 0 of a month, much weight is on spaces, and exchanging spaces changes nothing |
#
# ## In five lines
#
# - The decoder asks and the memory answers: cross-attention has queries of the one, keys and values of the other.
# - The memory is read by every block of the decoder, and its gradient is the sum of theirs.
# - With a causal mask and targets shifted by one, one pass trains every position; without the shift the model repeats what it reads.
# - Greedy decoding may miss the likeliest string. A beam finds it more often, and the usual one may lose it again when it grows.
# - What is causal never changes: keep keys and values, and a token costs n instead of n².
#
# To read: [Vaswani et al. (2017)](https://arxiv.org/abs/1706.03762), section 3, of which you now know every line. Next: [17, before attention](17_before_attention.ipynb), on what was used until then.
