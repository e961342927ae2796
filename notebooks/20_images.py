# %% [markdown]
# # 20 · Images
#
# A Transformer reads tokens. A sentence comes in words; a picture comes in numbers, row by row, and none of them means anything alone.
# **What is a token in a picture, and who should look at whom?**
#
# You cut pictures into patches, train a model on them within seconds, and look at what its heads see. A convolution looks at neighbours only, attention at everything: one can be made of the other, and something lies between.
#
# **You need**: gradients of linear maps ([03](03_gradients.ipynb)), masks ([05](05_masks.ipynb)), heads ([06](06_many_heads.ipynb)), what
# attention does not know about order ([07](07_order.ipynb)), the block ([08](08_block.ipynb)), and attention in blocks ([18](18_cheaper.ipynb)).
#
# **You will be able to**:
#
# - make tokens of an image, forward and backward, and say why that is a convolution;
# - say what a vision model loses without positions, and what its attention maps do not prove;
# - count what windows save, shift them without a leak, and measure how far each kind of layer sees.

# %% tags=["hide-input"]
import math

import numpy as np

from tinyattn.course import check, road, show_arrays, show_figure, table, yours
from tinyattn.data import IMAGE_SETS, ImageSampler, NumberedImages, standardised
from tinyattn.models import ViTNetwork, attention_distance, rollout
from tinyattn.ops import (
    attention,
    attention_backward,
    block_sparse_attention,
    conv2d,
    conv2d_backward,
    convolving_attention,
    patchify,
    patchify_backward,
    shifted_windows,
    softmax,
)
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, HEAT, ORANGE
from tinyattn.training import Moments, adam
from tinyattn.tree import add_to, flatten, views

road(20)

# %% [markdown]
# ## Cut it up
#
# Our pictures are drawn: crosses, discs, rings and squares of any size and place, brighter or darker than the ground, with a little noise. There are
# 16 × 16 pixels, with one number each (a colour picture has three, its *channels*).

# %% tags=["hide-input"]
Shapes = IMAGE_SETS["shapes"]
images = Shapes(images=4000, noise=0.05).generate()


def draw(ax, pixels, title=""):
    ax.imshow(pixels, cmap="gray", vmin=-1.1, vmax=1.1, extent=(0, 16, 16, 0))
    ax.set(title=title, xticks=[], yticks=[])


with style():
    fig, axes = figure(1, 5, size=(8.6, 2.2))
    for ax, name in zip(axes, ("cross", "disc", "ring", "square"), strict=False):
        draw(ax, images.images[images.labels == name][1, ..., 0], name)
    draw(axes[4], images.images[images.labels == "ring"][1, ..., 0], "16 patches")
    for at in (4, 8, 12):
        axes[4].axhline(at, color=ORANGE)
        axes[4].axvline(at, color=ORANGE)
show_figure(
    fig,
    "patches",
    "Four noisy pictures: a cross, a disc, a ring and a square; the ring a second time, cut by a grid of lines into 4 by 4 patches",
)

# %% [markdown]
# Could every pixel be a token? Attention has a weight for each pair:

# %%
rows = []
for side, P in ((16, 1), (16, 4), (224, 1), (224, 16)):
    n = (side // P) ** 2
    rows.append([f"{side} x {side}", f"{P} x {P}", f"{n:,}", f"{n * n:,}"])
table("image | patch | tokens n | pairs n²", rows)

# %% [markdown]
# A photograph of 224 × 224 pixels would have 2.5 billion weights in each head. So a token is a **patch**: a square of $P \times P$ pixels, its numbers in a row
# ([Dosovitskiy et al. 2021](https://arxiv.org/abs/2010.11929)). To cut is to reshape and to swap two axes, as it was for heads:


# %%
def patches(x, P):
    """Patches row by row. Shapes: x (h, w, C) -> (n, P² C), n = h w / P²."""
    h, w, C = x.shape
    cut = x.reshape(h // P, P, w // P, P, C).swapaxes(1, 2)  # (h / P, w / P, P, P, C)
    return cut.reshape(-1, P * P * C)


small = np.arange(16.0).reshape(4, 4, 1)
print("as the library's:", np.array_equal(patches(small, 2), patchify(small, 2)))
show_arrays(small=small[..., 0], patches=patches(small, 2))

# %% [markdown]
# A linear map makes a token of each patch: $y = \operatorname{patches}(x)\,W$. Write the rows of $W$ as a square, too, $W$ $(P, P, C, D)$. Then the token whose
# patch begins at pixel $(s, t)$ is
#
# $$y_{st} = \sum_{a=0}^{P-1} \sum_{b=0}^{P-1} x_{s+a,\,t+b}\; W_{ab} .$$
#
# Computed at *every* $(s, t)$ this is a **convolution**, and $W$ its *kernel*: the same small map, moved over the image pixel by pixel. Vision models were made of it ([LeCun et al. 1989](https://doi.org/10.1162/neco.1989.1.4.541)). Patches take every $P$-th place, a *stride* of $P$, where kernels do not overlap.
#
# **Predict:** a kernel of 4 × 4 fits into 16 × 16 pixels at how many places, and how many of them are tokens?

# %% tags=["hide-output"]
rng = np.random.default_rng(18)
x, W = rng.standard_normal((16, 16, 3)), rng.standard_normal((4, 4, 3, 8))
y = patches(x, 4) @ W.reshape(-1, 8)  # (16, 8)
everywhere = conv2d(x, W, padding="valid")  # (13, 13, 8): the kernel stays inside
print(f"{everywhere[..., 0].size} places, {len(y)} tokens")
print("a convolution with stride 4:", np.allclose(y, everywhere[::4, ::4].reshape(-1, 8)))

# %% [markdown]
# ### Exercise `my_patch_gradients` (derive the backward, ★★☆, 12 min)
#
# The gradients of $y = \operatorname{patches}(x)\,W$. Nothing is new: a linear map, and numbers that go back to where they were.


# %%
def my_patch_gradients(dy, x, W):
    """Shapes: dy (n, D), x (h, w, C), W (P, P, C, D) -> dx like x, dW like W."""
    ### BEGIN SOLUTION
    (h, w, C), P, D = x.shape, len(W), W.shape[-1]
    dW = patches(x, P).T @ dy  # (P² C, D)
    d_patches = (dy @ W.reshape(-1, D).T).reshape(h // P, w // P, P, P, C)
    return d_patches.swapaxes(1, 2).reshape(x.shape), dW.reshape(W.shape)
    ### END SOLUTION


# %%
check("my_patch_gradients", my_patch_gradients)

# %% [markdown]
# If it is a convolution, it has a convolution's gradients. Where no token was taken, nothing comes back:

# %%
dy = rng.standard_normal(y.shape)
spread = np.zeros_like(everywhere)
spread[::4, ::4] = dy.reshape(4, 4, 8)
theirs = conv2d_backward(spread, x, W, padding="valid")
mine = yours("my_patch_gradients")(dy, x, W)
print("as a convolution's:", all(np.allclose(a, b) for a, b in zip(mine, theirs, strict=True)))

# %% [markdown]
# ## A sentence of patches
#
# The rest of the **Vision Transformer** (ViT) you have built. A row $c$ is put in front of the patches, positions $E$ are added, and pre-LN blocks follow, *without a mask*:
# a picture has no future to hide.
#
# $$x^{(0)} = \begin{bmatrix} c \\ \operatorname{patches}(image)\,W \end{bmatrix} + E, \qquad x^{(l)} = \operatorname{block}_l(x^{(l-1)}), \qquad
# scores = \operatorname{norm}(x^{(L)})_0\, W_{out} .$$
#
# $c$ is the **class token**: learned, the same in every image, standing for no patch. What it has collected in the end is read. Without it, one reads the *mean* of all patches.
# $E$ is learned as well, a row for each place.
#
# Three tiny models learn to name the shape: one with a class token, one with the mean, one with a class token whose positions are always 0. Each reads 3,000 images six times, with the
# training loop of chapter 07. Then it sees 1,000 new images, and the same with the **16 patches of every image in one and the same random order**.

# %% tags=["hide-input"]
names, labels = np.unique(images.labels, return_inverse=True)
x_all = standardised(images.images).astype(float)  # of each image: mean 0, standard deviation 1
x_train, x_test, y_train, y_test = x_all[:3000], x_all[3000:], labels[:3000], labels[3000:]


def fitted(network, x, y, epochs=6, lr=0.005, seed=1, taught=None):
    """Parameters, after Adam with a rate that falls to 0, on batches of 100."""
    batches = ImageSampler(NumberedImages(x, y, y if taught is None else taught), 16, 100, seed)
    vector, p = flatten(network.init(np.random.default_rng(seed)), np.float64)
    gradient, moments = np.zeros_like(vector), Moments(np.zeros_like(vector), np.zeros_like(vector))
    for step in range(epochs * batches.steps):
        _, cache = network.loss(p, batches.batch(step))
        gradient[:] = 0
        add_to(views(gradient, p), network.loss_backward(p, 1.0, cache))
        adam(vector, gradient, moments, step + 1, lr=lr * (1 - step / (epochs * batches.steps)))
    return p


# %% [markdown]
# **Predict:** guessing is right in one case of four. What does each reach, on whole and on shuffled pictures (about 12 seconds)?


# %% tags=["hide-output"]
class WithoutPositions(ViTNetwork):
    def encode(self, p, images, rng=None):
        return super().encode(p | {"positions": 0 * p["positions"]}, images, rng)


def reordered(x, order):
    """The same images, with their patches in another order."""
    return patchify_backward(patchify(x, 4)[:, order], x, 4)


def right_share(network, p, x, y):
    return np.mean(network.probabilities(p, x).argmax(axis=1) == y)


SIZES = {"n_classes": 4, "height": 16, "width": 16, "channels": 1, "patch": 4}
TINY = SIZES | {"dim": 32, "layers": 2, "heads": 4, "feed_forward": "relu", "dropout": 0.0}
TINY |= {"feed_forward_width": 2}  # times dim
networks = {"class token": ViTNetwork(**TINY), "mean": ViTNetwork(**TINY, readout="mean")}
networks["no positions"] = WithoutPositions(**TINY)
shuffled = reordered(x_test, np.random.default_rng(0).permutation(16))
rows, trained = [], {}
for name, network in networks.items():
    p = trained[name] = fitted(network, x_train, y_train)
    same = np.allclose(network.probabilities(p, x_test), network.probabilities(p, shuffled))
    found = [f"{right_share(network, p, x, y_test):.2f}" for x in (x_test, shuffled)]
    rows.append([name, *found, str(same)])
table("model | whole | shuffled | same answers", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Without positions the answers are *exactly* the same, as chapter 07 said: the model has a bag of patches. It does well, and the others hardly mind shuffling: to tell a disc from a cross, it is enough to know the pieces, curved edges, straight ones, corners. (Three other seeds move each by up to 0.04.)
#
# </details>
#
# What *is* lost, then? Anything about **where**. Take the question which half of the picture has more of the shape, left or right. And exchange the halves of every second picture, which moves whole patches, and turns the answer round.
#
# **Predict:** of each test image we show both forms. How often is a model without positions right?


# %% tags=["hide-output"]
def halves_exchanged(x):
    return reordered(x, np.arange(16).reshape(4, 4)[:, [2, 3, 0, 1]].reshape(-1))


ink = np.abs(images.images).sum(axis=(1, 3))  # (N, 16), of each column
side = (ink[:, 8:].sum(axis=1) > ink[:, :8].sum(axis=1)) * 1  # 0: left, 1: right
moved = np.arange(3000) % 2 == 0
x_side = np.where(moved[:, None, None, None], halves_exchanged(x_train), x_train)
y_side = np.where(moved, 1 - side[:3000], side[:3000])
WHERE, rows = TINY | {"n_classes": 2, "layers": 1, "readout": "mean"}, []
for name, network in (("positions", ViTNetwork(**WHERE)), ("none", WithoutPositions(**WHERE))):
    p = fitted(network, x_side, y_side, epochs=5, lr=0.01)
    found = right_share(network, p, x_test, side[3000:])
    moved = right_share(network, p, halves_exchanged(x_test), 1 - side[3000:])
    rows.append([name, f"{(found + moved) / 2:.2f}"])
table("left or right? | right answers", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Exactly half: both forms are the same bag, so it gives both the same answer, and one of them is wrong. No training could change that.
#
# </details>
#
# ## A teacher's answers, or no labels
#
# Where the first ViT needed hundreds of millions of photographs, **DeiT** ([Touvron et al. 2021](https://arxiv.org/abs/2012.12877)) needs a million, and a teacher: a second token, the *distillation token*,
# has a head of its own, whose labels are a trained model's answers. The loss is the mean of both heads' cross-entropies (their equation 3); in use, their probabilities are averaged.
#
# Let two fifths of the labels be drawn at random (about 8 seconds). The teacher is the model with the class token. **Predict:** how often right, without it and with it?

# %% tags=["hide-output"]
at_random = np.random.default_rng(5).random(3000) < 0.4
y_noisy = np.where(at_random, np.random.default_rng(6).integers(4, size=3000), y_train)
answers = networks["class token"].probabilities(trained["class token"], x_train).argmax(axis=1)
rows = []
for name, network in (
    ("labels", ViTNetwork(**TINY)),
    ("and a teacher", ViTNetwork(**TINY, distil=True)),
):
    p = fitted(network, x_train, y_noisy, taught=answers)
    rows.append([name, f"{right_share(network, p, x_test, y_test):.2f}"])
table("learned from | right answers", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Nearly as good as its teacher: of the second token's labels nine in ten are right, of the first's seven.
#
# </details>
#
# **BEiT** ([Bao et al. 2022](https://arxiv.org/abs/2106.08254)) learns without labels: chapter 14's Cloze, with two fifths of the patches hidden and their *visual words* predicted. A ViT that begins with its parameters and 100 labels is right in 0.59, one from
# scratch in 0.44 ([three seeds](../benchmarks/results/few_labels.md)).
#
# ## What a head sees
#
# Take the model with the class token: that token's row of attention weights says from which patches it takes how much, so it can be laid over the picture:

# %% tags=["hide-input"]
vit, p_vit = networks["class token"], trained["class token"]
some = x_test[:300]


def look(p):
    """Of each layer, the weights (300, heads, 17, 17)."""
    return vit.attention(vit.forward(p, some)[1])


weights = look(p_vit)
rolled = rollout(weights)[:, 0, 1:]  # (300, 16)
pick = 1


def overlay(ax, values, title):
    """Patches' values, with the outline of the shape."""
    ax.imshow(values.reshape(4, 4), cmap=HEAT, extent=(0, 16, 16, 0), vmin=0, vmax=values.max())
    centres = np.arange(16) + 0.5
    shape = np.abs(images.images[3000 + pick, ..., 0])
    ax.contour(centres, centres, shape, levels=[0.4], colors="white", linewidths=1.2)
    ax.set(title=title, xticks=[], yticks=[])


with style():
    fig, axes = figure(2, 5, size=(8.6, 3.8))
    draw(axes[0, 0], images.images[3000 + pick, ..., 0], str(names[y_test[pick]]))
    overlay(axes[1, 0], rolled[pick], "rolled out")
    for layer, row in enumerate(axes):
        for head, ax in enumerate(row[1:]):
            overlay(ax, weights[layer][pick, head, 0, 1:], f"layer {layer + 1}, head {head + 1}")
show_figure(
    fig,
    "heads",
    "A picture, and nine maps of four by four patches: the class token's weights in each of four heads of two layers, and attention "
    "rolled out. The outline of the shape is drawn over each; bright patches lie on it in some heads and off it in others",
)

# %% [markdown]
# Two questions have numbers for answers. *Does the class token look at the shape?* And *does a patch look at its neighbours?* For the second,
# Dosovitskiy et al. (their figure 7) take the mean distance at which a head looks, weighted by $p$.
#
# ### Exercise `my_attention_distance` (write the op, ★★☆, 8 min)
#
# Patches lie row by row on a grid with `columns` columns, one apart. A query's distance is the mean over keys of how far they are from it in a straight line, weighted by $p$; a head's distance is the mean over queries.


# %%
def my_attention_distance(p, columns):
    """Shapes: p (h, n, n), rows sum to 1 -> (h,)."""
    ### BEGIN SOLUTION
    y, x = np.divmod(np.arange(p.shape[-1]), columns)
    far = np.hypot(y[:, None] - y, x[:, None] - x)  # (n, n)
    return (p * far).sum(axis=-1).mean(axis=-1)
    ### END SOLUTION


# %%
check("my_attention_distance", my_attention_distance)

# %%
distance = yours("my_attention_distance")
p = softmax(rng.standard_normal((2, 12, 12)))
print("as the library's:", np.allclose(distance(p, 4), attention_distance([p[None]], 3, 4)[0]))

drawn = np.abs(images.images[3000:3300])
shape = patchify((drawn > 0.4) * 1.0, 4).mean(axis=-1) > 0.2  # (300, 16): patches of the shape
rows = []
for layer, w in enumerate(weights, start=1):
    among = w[:, :, 1:, 1:] / w[:, :, 1:, 1:].sum(
        axis=-1, keepdims=True
    )  # the class token left out
    far = np.mean([distance(p, 4) for p in among], axis=0)
    of_class = w[:, :, 0, 1:] / w[:, :, 0, 1:].sum(axis=-1, keepdims=True)
    on_shape = (of_class * shape[:, None]).sum(axis=-1).mean(axis=0)
    rows += [
        [f"{layer}, {head + 1}", f"{far[head]:.2f}", f"{on_shape[head]:.2f}"] for head in range(4)
    ]
alike = distance(np.full((1, 16, 16), 1 / 16), 4)[0]
rows.append(["all alike", f"{alike:.2f}", f"{shape.mean():.2f}"])
table("layer, head | distance | class token: weight on the shape", rows)

# %% [markdown]
# No head looks near: in both layers, every distance is within about a tenth of a patch of looking everywhere alike. "Lower layers are local" was measured on millions of photographs, and even there the lowest had heads of both kinds. The class token prefers the shape, more in the second layer; still, about 0.4 of its weight lies on empty ground.
#
# ### Roll-out, and what it does not prove
#
# In the second layer the class token looks at tokens that have already looked at others. [Abnar & Zuidema (2020)](https://arxiv.org/abs/2005.00928) follow the weights down: with
# $A_l$ the mean of the heads of layer $l$, and the residual counted as looking at oneself,
#
# $$R = \tilde A_L \cdots \tilde A_2\, \tilde A_1, \qquad \tilde A_l = \tfrac12 A_l + \tfrac12 I .$$
#
# Row 0 of $R$ is the map "rolled out" above. Does it show what the answer depends on? We can ask the model itself: **erase** one patch (set it to the ground, 0), and see how far the probability of the right class moves. Do the patches that move it most have the largest roll-out? A rival knows nothing of the model: a patch's ink, the mean of its $|x|$. We compare orders, patch by patch (1: the same order, 0: none, Spearman's correlation).
#
# **Predict:** which of the two agrees better with erasing?

# %% tags=["hide-output"]
raw = images.images[3000:3300]
mean, std = (f(raw, axis=(1, 2, 3), dtype=float) for f in (np.mean, np.std))
ground = -mean / std  # what 0 became when images were standardised


def of_right_class(x):
    return vit.probabilities(p_vit, x)[np.arange(300), y_test[:300]]


moves = np.empty((300, 16))
for t in range(16):
    cut = patchify(some, 4)
    cut[:, t] = ground[:, None]
    moves[:, t] = np.abs(of_right_class(patchify_backward(cut, some, 4)) - of_right_class(some))


def agreement(a, b):
    """Spearman's correlation over the patches of an image, its mean over images."""
    a, b = (z.argsort(axis=1).argsort(axis=1) - 7.5 for z in (a, b))  # ranks 0 to 15
    return np.mean((a * b).sum(axis=1) / (a * a).sum(axis=1))


of_heads = [agreement(w[:, h, 0, 1:], moves) for w in weights for h in range(4)]
rows = [["roll-out", f"{agreement(rolled, moves):.2f}"]]
rows.append(["ink", f"{agreement(patchify(drawn, 4).mean(axis=-1), moves):.2f}"])
rows.append(["the best of the eight heads", f"{max(of_heads):.2f}"])
table("order of patches by | agrees with erasing", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Ink does, which has never seen the model. (Single heads' maps are worth little.)
#
# </details>
#
# The formula says why roll-out cannot be a proof: there is no $v$ in it, no $W_o$ and no feed-forward network. Set all values of the last layer to 0, and its attention adds nothing any more:

# %%
*below, last = p_vit["blocks"]
silent = {name: 0 * weight for name, weight in last["attention"]["value"].items()}
last = last | {"attention": last["attention"] | {"value": silent}}
p = p_vit | {"blocks": [*below, last]}
print("the same roll-out:", np.allclose(rollout(look(p))[:, 0, 1:], rolled))
print(
    f"right answers: {right_share(vit, p_vit, x_test, y_test):.2f}, then {right_share(vit, p, x_test, y_test):.2f}"
)

# %% [markdown]
# A map of attention is a picture of $p$. It raises a question well; to answer it, change the input and see.
#
# ## Local against global
#
# ### A convolution made of heads
#
# A convolution with a 3 × 3 kernel takes, for each pixel, nine neighbours, one by one, each through a map of its own. Attention can do that. Give a head no queries and keys, only a bias
# ([chapter 07](07_order.ipynb)) that falls with the squared distance from *one* place $\Delta$ beside the query. With $\delta_{ij}$ the way from pixel $i$ to pixel $j$,
#
# $$p_{ij} = \operatorname{softmax}_j\big(-\alpha\, |\delta_{ij} - \Delta|^2\big) .$$
#
# For large $\alpha$ it looks at that neighbour and nowhere else. Nine such heads, the pixels themselves as values, the kernel's maps as $W_o$, and the sum over heads is the convolution
# ([Cordonnier, Loukas & Jaggi 2020](https://arxiv.org/abs/1911.03584)). **Predict:** is it, at every pixel?


# %% tags=["hide-output"]
def nine_heads(x, W, alpha):
    h, w, C = x.shape
    row, column = np.divmod(np.arange(h * w), w)
    down, right = row - row[:, None], column - column[:, None]  # δ, (n, n) each
    y = 0
    for a in range(3):
        for b in range(3):
            p = softmax(-alpha * ((down - a + 1) ** 2 + (right - b + 1) ** 2))
            y = y + p @ x.reshape(-1, C) @ W[a, b]
    return y.reshape(h, w, -1)


x, W = rng.standard_normal((10, 12, 4)), rng.standard_normal((3, 3, 4, 4))
print("as the library's:", np.allclose(nine_heads(x, W, 2.0), convolving_attention(x, W, 2.0)[0]))
rows = []
for alpha in (1, 5, 10, 20):
    off = np.abs(nine_heads(x, W, float(alpha)) - conv2d(x, W))  # zeros beyond the edges
    inside, edges = off[1:-1, 1:-1].max(), max(off[0].max(), off[:, 0].max())
    rows.append([alpha, f"{4 * math.exp(-alpha):.0e}", f"{inside:.1e}", f"{edges:.1f}"])
table("α | 4 e^-α | off by, inside | at the edges", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Inside, the error falls with the weight of the four pixels around the one that is meant, about $4 e^{-\alpha}$. At the edges it stays: a missing neighbour is a 0 for the convolution, and weights that sum to 1 cannot give 0.
# ([More kernels and α](../benchmarks/results/cordonnier.md).)
#
# </details>
#
# So a convolution is attention that has been *told* where to look, the same for every image and every place. That is an **inductive bias**: it need not be learned, and cannot be unlearned. Dosovitskiy et al. report that
# their ViT, trained on 1.3 million photographs, fell behind convolutional networks, and with 300 million passed them.
#
# ### Windows
#
# In between is **Swin** ([Liu et al. 2021](https://arxiv.org/abs/2103.14030)): attention, but each patch looks only at those in its window of $w \times w$ patches. A layer of attention whose $n$ queries look at $m$ keys each takes
#
# $$4\,n D^2 + 2\,n\,m\,D$$
#
# multiply-adds: four projections ($W_q$, $W_k$, $W_v$, $W_o$), and a product with keys and one with values. Full attention has $m = n$, windows have $m = w^2$.
#
# ### Exercise `window_saving` (predict the number, ★★☆, 5 min)
#
# Swin's first layers have 56 × 56 patches of width $D = 96$, in windows of 7 × 7. How many times as much would full attention cost?

# %%
### BEGIN SOLUTION
window_saving = 13.8
### END SOLUTION

# %%
check("window_saving", window_saving)

# %% [markdown]
# Patches in different windows never meet, however many layers there are. So in every second layer the windows' grid is **shifted** by half a window, down and to the right. Windows at the borders are cut off and would be of many sizes. Swin's trick: *roll* the image up and to
# the left, so that what was cut off comes in on the other side and all windows are whole.
#
# ### Exercise `repaired_windows` (find the bug, ★★☆, 8 min)
#
# Here is the mask of that, and below it the part for the first column of patches, from top to bottom. It has a leak: the sky looks at the ground. Repair it: patches may look at each other where they share a window of the shifted grid *as it lies on the picture*, and windows that the border cuts stay small.


# %%
def buggy_windows(height, width, window, shift):
    """n = height width patches, row by row. -> (n, n) boolean, True = may look."""
    y, x = np.divmod(np.arange(height * width), width)
    y, x = (y - shift) % height, (x - shift) % width  # rolled
    y, x = y // window, x // window  # which window
    return (y[:, None] == y) & (x[:, None] == x)


column = np.arange(0, 64, 8)  # the first patch of each row, top to bottom
buggy_windows(8, 8, 4, 2)[column][:, column].astype(int)


# %%
def repaired_windows(height, width, window, shift):
    """n = height width patches, row by row. -> (n, n) boolean, True = may look."""
    ### BEGIN SOLUTION
    y, x = np.divmod(np.arange(height * width), width)
    y, x = (y - shift) // window, (x - shift) // window  # -1 where the border cuts
    return (y[:, None] == y) & (x[:, None] == x)
    ### END SOLUTION


# %%
check("repaired_windows", repaired_windows)

# %% [markdown]
# The mask defines what is computed; to save anything, compute only the windows' own pairs ([chapter 18](18_cheaper.ipynb)). The library's layout does roll, and carries a small mask for what came from elsewhere. It gives
# what full attention gives under your mask, and with one window as large as the image it is ViT's attention:

# %%
windows = yours("repaired_windows")
q, k, v = rng.standard_normal((3, 64, 16))
rows = []
for window, shift in ((2, 0), (4, 0), (4, 2), (8, 0)):
    layout = shifted_windows(8, 8, window, shift)
    out, _ = block_sparse_attention(q, k, v, layout)
    as_mask = np.allclose(out, attention(q, k, v, windows(8, 8, window, shift))[0])
    as_full = np.allclose(out, attention(q, k, v)[0])
    counted = f"{layout.pairs:,} = 64 · {window * window}"
    rows.append([f"{window} x {window}", shift, counted, str(as_mask), str(as_full)])
table("window | shift | pairs computed, n w² | as under the mask | as full attention", rows)

# %% tags=["hide-input"]
with style():
    fig, (left, middle, right) = figure(1, 3, size=(8.6, 3.5))
    y, x = np.divmod(np.arange(64), 8)
    for ax, shift in ((left, 0), (middle, 2)):
        down, across = (y - shift) // 4, (x - shift) // 4
        cells = sorted(set(zip(down, across, strict=True)))
        for number, (a, b) in enumerate(cells, start=1):
            rows, columns = y[(down == a) & (across == b)], x[(down == a) & (across == b)]
            top, bottom, first, last = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
            corners = [first, last, last, first], [top, top, bottom, bottom]
            ax.fill(*corners, color=BLUE, alpha=0.5 if (a + b) % 2 else 0.25)
            ax.text((first + last) / 2, (top + bottom) / 2, number, ha="center", va="center")
        ax.set(xlim=(0, 8), ylim=(8, 0), aspect="equal", xticks=[], yticks=[])
    left.set_title("windows of 4 × 4")
    middle.set_title("shifted by 2: nine, most of them cut")
    allowed = shifted_windows(8, 8, 4, 2).groups[0].allowed[-1]
    right.imshow(allowed, cmap="Blues", vmin=0, vmax=1.4)
    right.set(
        title="mask of the last rolled window",
        xlabel="key",
        ylabel="query",
        xticks=(0, 15),
        yticks=(0, 15),
    )
show_figure(
    fig,
    "windows",
    "Left: four windows. Middle: the grid shifted by two makes nine windows of which only the one in the middle is whole. Right: the "
    "16 by 16 mask of the rolled window made of four corners: only patches of the same corner may look at each other",
)

# %% [markdown]
# ### How far does a layer see?
#
# Stack layers of each kind, with residuals, on 16 × 16 random tokens. On which inputs does the output in the middle depend? Send a 1 back from each of its features, and see where something arrives.
# How many tokens receive anything is the **receptive field**. **Predict:** how many layers does each kind need until the middle depends on all 256?


# %% tags=["hide-output"]
SIDE, D = 16, 4
start, kernel = rng.standard_normal((SIDE * SIDE, D)), 0.2 * rng.standard_normal((3, 3, D, D))


def convolution(gap=1):
    def layer(x):
        grid = x.reshape(SIDE, SIDE, D)
        y = conv2d(grid, kernel, gap)
        return y.reshape(x.shape), lambda dy: conv2d_backward(
            dy.reshape(y.shape), grid, kernel, gap
        )[0].reshape(x.shape)

    return layer


def looking(mask):
    def layer(x):
        y, p = attention(x, x, x, mask)
        return y, lambda dy: sum(attention_backward(dy, x, x, x, p)[:3])

    return layer


def field(layers):
    """Length of the Jacobian of the middle token by each token: (SIDE, SIDE)."""
    x, backs = start, []
    for layer in layers:
        y, back = layer(x)
        x, backs = x + y, [back, *backs]
    squared = np.zeros(len(x))
    for feature in range(D):
        dx = np.zeros_like(x)
        dx[SIDE // 2 * SIDE + SIDE // 2, feature] = 1
        for back in backs:
            dx = dx + back(dx)
        squared += (dx**2).sum(axis=-1)
    return np.sqrt(squared).reshape(SIDE, SIDE)


still, moved = (looking(windows(SIDE, SIDE, 4, shift)) for shift in (0, 2))
KINDS = {
    "convolution": [convolution()] * 8,
    "with gaps": [convolution(gap) for gap in (1, 2, 4, 8)] * 2,
    "windows": [still] * 8,
    "shifted windows": [still, moved] * 4,
    "full attention": [looking(None)] * 8,
}
DEPTHS = (1, 2, 3, 4, 6, 8)
rows = [
    [kind, *(np.count_nonzero(field(layers[:depth])) for depth in DEPTHS)]
    for kind, layers in KINDS.items()
]
table("tokens after layers: | " + " | ".join(map(str, DEPTHS)), rows)

# %% tags=["hide-cell"]
with style():
    fig, axes = figure(2, 5, size=(8.6, 3.9))
    for row, depth in zip(axes, (1, 4), strict=True):
        for ax, (kind, layers) in zip(row, KINDS.items(), strict=True):
            found = field(layers[:depth])
            shown = np.where(found > 0, np.log10(np.maximum(found / found.max(), 1e-3)), np.nan)
            drawn = ax.imshow(shown, cmap=HEAT, vmin=-3, vmax=0)
            ax.set(title=kind if depth == 1 else "", xticks=[], yticks=[])
        row[0].set_ylabel("1 layer" if depth == 1 else f"{depth} layers")
    bar = fig.colorbar(drawn, ax=axes, shrink=0.7, ticks=(-3, -2, -1, 0))
    bar.ax.set_yticklabels(["≤ 0.001", "0.01", "0.1", "1"])
show_figure(
    fig,
    "fields",
    "Which tokens the middle one depends on, after one and four layers: a convolution 3 by 3 and 9 by 9, brightest in the middle; with "
    "gaps everything after four; windows a fixed square of 4 by 4; shifted windows a square that grows; full attention everything from the first layer on",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# A convolution sees one token further each way in each layer; with gaps that double from layer to layer (*dilation*), twice as far. Windows see no more than at first.
# Shifted, they reach everything in four layers; full attention has it at once. How much arrives is most in the middle under a convolution; under attention it depends on what the tokens are, not on how near they lie.
#
# </details>
#
# | what is often said | what the cells above show |
# |---|---|
# | a Transformer for images has no convolution | its first map is one, with a stride of $P$ |
# | without positions a ViT is lost | it names shapes as well as with them, from a bag of patches; of *where* it knows nothing |
# | the lower layers of a ViT are local | not here: no head prefers what is near |
# | roll-out shows what an answer depends on | the amount of ink agrees better with erasing; and roll-out stays the same when a layer's values are 0 |
# | attention can do what a convolution does | as $\alpha$ grows, and not at edges that are filled with zeros |
# | windows of 7 × 7 make a layer 64 times cheaper | pairs, yes; multiply-adds 13.8 times |
# | convolutions connect $n$ tokens in $\log n$ layers | one token further each way in each layer; with doubling gaps, yes |
#
# ## In five lines
#
# - A token of an image is a patch under a linear map: a convolution whose stride is its kernel's side, forward and backward.
# - Without positions a ViT has a bag of patches: it may still name a shape, and cannot say where it is.
# - An attention map is a picture of $p$. Distances can be measured, dependence has to be tried: erase, and see.
# - A 3 × 3 convolution is nine heads that are told where to look, up to the edges.
# - Windows cost $n w^2$ pairs and shifted ones let neighbours meet; what rolls over the border must be masked.
#
# To read: Dosovitskiy et al. (2021), sections 3.1 and 4.5; Liu et al. (2021), section 3.2; Touvron et al. (2021), section 4. Next: [21, the same code on
# a GPU](21_gpu.ipynb).
