"""Models of images end to end: gradients, parameter counts, the first loss, one batch learned by heart, torch."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_model
from tinyattn.data import Images, ImageSampler, NumberedImages
from tinyattn.forms import readable
from tinyattn.models import Swin, SwinNetwork, ViT, ViTNetwork
from tinyattn.models.transformers.image_model import ImageReader
from tinyattn.random import Stream, generator
from tinyattn.training import Settings, train
from tinyattn.tree import flatten, leaves, tree_map

SIZES = {"n_classes": 3, "height": 4, "width": 8, "channels": 2}
SWIN = {"patch": 1, "dim": 4, "heads": 2, "window": 2}
VIT = {"patch": 2, "dim": 8, "heads": 2, "layers": 2, "feed_forward_width": 2}
NETWORKS = {
    "class": lambda rate: ViTNetwork(**SIZES, **VIT, dropout=rate),
    "mean": lambda rate: ViTNetwork(**SIZES, **VIT, dropout=rate, readout="mean"),
    "swin": lambda rate: SwinNetwork(**SIZES, **SWIN, dropout=rate),
    "distil": lambda rate: ViTNetwork(**SIZES, **VIT, dropout=rate, distil=True),
}


def make(name, rate=0.0):
    network, rng = NETWORKS[name](rate), np.random.default_rng(5)
    p = noisy(network.init(generator(0, Stream.INIT)), rng, 0.2)
    return network, flatten(p, np.float64)[1]


def batch_of(n=4, seed=1):
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((n, 4, 8, 2)).astype(np.float32)
    labels, taught = rng.integers(3, size=(2, n))
    return ImageSampler(NumberedImages(images, labels, taught), 8, n, 0).whole()


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_the_whole_model_with_dropout(name):
    network, p = make(name, rate=0.3)
    report = gradcheck_model(network, p, batch_of(), key=3, entries=2)
    assert report, f"\n{report}"


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_of_the_images(name):
    """Along a direction in which all numbers of all images move."""
    network, p = make(name)
    images, rng = batch_of().images.astype(float), np.random.default_rng(2)
    scores, cache = network.forward(p, images)
    dscores, along = rng.standard_normal(scores.shape), rng.standard_normal(images.shape)
    dimages, _ = network.backward(p, dscores, cache)
    up, down = (network.forward(p, images + h * along)[0] for h in (1e-6, -1e-6))
    assert np.sum((up - down) / 2e-6 * dscores) == pytest.approx(np.sum(dimages * along), rel=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_first_loss_is_the_logarithm_of_the_number_of_classes(name):
    network = NETWORKS[name](0.0)
    loss, _ = network.loss(network.init(generator(0, Stream.INIT)), batch_of())
    assert float(loss) == pytest.approx(math.log(3), rel=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_it_learns_one_batch_by_heart(name):
    images, labels, _ = batch_of(8)[:3]
    batches = ImageSampler(NumberedImages(images, labels, labels), 8, 8, 0)
    _, history = train(NETWORKS[name](0.0), batches, Settings(epochs=60, lr=0.01), workers=1, progress=False)
    assert history[-1]["loss"] < 0.01


@pytest.mark.parametrize(("name", "read"), [("class", 1), ("mean", 0), ("distil", 2)])
def test_vit_has_as_many_parameters_as_the_formula_says(name, read):
    """4 D² + 4 D of an attention, 2 D F + F + D of a feed-forward network, 2 D of a norm; a head for what is read."""
    D, F, n, pixels, V = 8, 16, 8, 2 * 2 * 2, 3
    block = 4 * D * D + 4 * D + 2 * D * F + F + D + 2 * 2 * D
    wanted = pixels * D + D + (read + read + n) * D + 2 * block + 2 * D + max(1, read) * (D + 1) * V
    assert sum(leaf.size for _, leaf in leaves(make(name)[1])) == wanted


def test_without_positions_the_order_of_patches_makes_no_difference():
    network, p = make("mean")
    images = batch_of().images
    other = np.concatenate([images[:, 2:], images[:, :2]], axis=1)  # two rows of patches change places
    assert np.abs(network.forward(p, other)[0] - network.forward(p, images)[0]).max() > 1e-3
    p["positions"] = np.zeros_like(p["positions"])
    np.testing.assert_allclose(network.forward(p, other)[0], network.forward(p, images)[0], rtol=0, atol=1e-12)


def test_torchs_vision_transformer_gives_the_same_scores_and_gradients():
    torch = pytest.importorskip("torch")
    network, p = make("class")
    batch = batch_of()
    t = tree_map(lambda a: torch.tensor(a, requires_grad=True), p)
    nn = torch.nn.functional
    kernel = t["patches"]["W"].reshape(2, 2, 2, 8).permute(3, 2, 0, 1)
    x = nn.conv2d(torch.tensor(batch.images).double().permute(0, 3, 1, 2), kernel, t["patches"]["b"], stride=2)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([t["tokens"].expand(len(x), 1, 8), x], dim=1) + t["positions"]

    def normed(q, x):
        return nn.layer_norm(x, (8,), q["gamma"], q["beta"], 1e-6)

    def dense(q, x):
        return x @ q["W"] + q["b"]

    for b in t["blocks"]:
        h = normed(b["norm_1"], x)
        q, k, v = (dense(b["attention"][n], h).unflatten(-1, (2, 4)).transpose(1, 2) for n in ("query", "key", "value"))
        a = nn.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + dense(b["attention"]["output"], a)
        h = nn.gelu(dense(b["feed_forward"]["inner"], normed(b["norm_2"], x)), approximate="none")
        x = x + dense(b["feed_forward"]["outer"], h)
    theirs = dense(t["heads"][0], normed(t["norm"], x)[:, 0])
    scores, _ = network.forward(p, batch.images)
    np.testing.assert_allclose(scores[:, 0], theirs.detach().numpy(), rtol=0, atol=1e-10)
    nn.cross_entropy(theirs, torch.tensor(batch.labels)).backward()
    _, cache = network.loss(p, batch)
    mine = dict(leaves(network.loss_backward(p, 1.0, cache)))
    for name, leaf in leaves(t):
        np.testing.assert_allclose(mine[name], leaf.grad.numpy(), rtol=0, atol=1e-10, err_msg=name)


def test_swins_windows_are_a_dense_mask_and_bias():
    """Computed window by window, and as full attention under the mask and bias that define it."""
    network, p = make("swin")
    batch = batch_of()
    (scores, cache), (_, remembered) = network.forward(p, batch.images), network.loss(p, batch)
    with readable():
        dense, _ = network.forward(p, batch.images)
        _, dense_remembered = network.loss(p, batch)
    np.testing.assert_allclose(scores, dense, rtol=0, atol=1e-12)
    mine, theirs = (dict(leaves(network.loss_backward(p, 1.0, c))) for c in (remembered, dense_remembered))
    for name, leaf in mine.items():
        np.testing.assert_allclose(leaf, theirs[name], rtol=0, atol=1e-12, err_msg=name)
    first, shifted, *_ = network.attention(cache)
    assert ((first > 0).sum(axis=-1) == 4).all()  # a window of 2 x 2
    row, column = np.divmod(np.arange(32), 8)
    cell = (row + 1) // 2 * 10 + (column + 1) // 2  # edges run through the windows of the first block
    np.testing.assert_array_equal(shifted[0, 0] > 0, cell[:, None] == cell)


@pytest.mark.parametrize(("height", "width", "shift"), [(8, 8, 2), (8, 4, 2), (4, 8, 2), (4, 4, 0)])
def test_swin_shifts_windows_unless_one_is_the_whole_grid(height, width, shift):
    sizes = SIZES | {"height": height, "width": width}
    network = SwinNetwork(**sizes, patch=1, dim=8, heads=2, window=4, stages=1, layers=2)
    assert [block.mixer.mechanism.shift for block in network.blocks[0]] == [0, shift]


def test_swin_of_one_window_is_a_vit_that_reads_the_mean():
    """The window is the image, the table of distances is 0, and so are ViT's positions."""
    vit = ViTNetwork(**SIZES | {"width": 4}, patch=2, dim=8, heads=2, layers=2, readout="mean", eps=1e-5, dropout=0.0)
    swin = SwinNetwork(**SIZES | {"width": 4}, patch=2, dim=8, heads=2, layers=2, stages=1, window=2, dropout=0.0)
    rng = np.random.default_rng(0)
    p = noisy(swin.init(rng), rng, 0.2)
    for block in p["stages"][0]["blocks"]:
        block["attention"]["mechanism"]["table"][...] = 0
    same = {"patches": p["patches"], "norm": p["norm"], "heads": p["heads"], "blocks": [
        block | {"attention": {k: v for k, v in block["attention"].items() if k != "mechanism"}}
        for block in p["stages"][0]["blocks"]
    ], "tokens": np.zeros((0, 8)), "positions": np.zeros((4, 8))}  # fmt: skip
    images = batch_of().images[:, :, :4]
    np.testing.assert_allclose(swin.forward(p, images)[0], vit.forward(same, images)[0], rtol=0, atol=1e-12)


def test_swin_has_as_many_parameters_as_the_formula_says():
    """In stage s widths are doubled s times; merging has a norm and a map of 4 D to 2 D."""
    def block(D, heads):
        return 4 * D * D + 4 * D + 8 * D * D + 5 * D + 4 * D + 9 * heads

    wanted = 2 * 4 + 4 + 2 * block(4, 2) + 2 * 16 + 16 * 8 + 2 * block(8, 4) + 2 * 8 + 9 * 3
    assert sum(leaf.size for _, leaf in leaves(make("swin")[1])) == wanted


def test_what_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    images = Images(rng.random((12, 4, 4)), np.arange(12) % 2)
    small = {"patch": 2, "dim": 8, "heads": 2, "layers": 1, "epochs": 1, "workers": 1}
    for options, says in (
        ({"patch": 3}, "patch is 3, expected a divisor of the height of the images, which is 4"),
        ({"distil": True}, "distil learns a teacher's answers, and these images have none"),
    ):
        with pytest.raises(ValueError, match=says):
            ViT(**small | options).fit(images, progress=False)
    for kind in (ViT, Swin):
        with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
            kind(dim=8, heads=3)
        with pytest.raises(ValueError, match="dim is 10000000, expected 1 to 100000"):
            kind(dim=10**7)
    with pytest.raises(ValueError, match="stages is 1000, expected 1 to 10"):
        Swin(stages=1000)
    for options, says in (
        ({"patch": 3}, "patch is 3 and stages 2, so that height must be a multiple of 6, and that of the images is 4"),
        ({"patch": 1, "stages": 1, "window": 3}, "window is 3, expected a divisor of the height, which is 4"),
    ):
        with pytest.raises(ValueError, match=says):
            Swin(**small | options).fit(images, progress=False)
    for kind, says in ((ViT, "of the width of the images, which is 5"), (Swin, "width must be a multiple of 4")):
        with pytest.raises(ValueError, match=says):
            kind(**small).fit((rng.random((12, 4, 5)), np.arange(12) % 2), progress=False)
    with pytest.raises(ValueError, match="distil adds a token to that of readout class; readout is mean"):
        ViT(distil=True, readout="mean")
    with pytest.raises(ValueError, match="call fit first"):
        ViT().classify(images)
    model = ViT(**small).fit(images.split(), progress=False)
    with pytest.raises(ValueError, match=r"images are 6 x 4 x 1 \(height, width, channels\), expected 4 x 4 x 1"):
        model.classify(rng.random((1, 6, 4)))
    model.save(tmp_path / "m.npz")
    for asked in (model, ViT.load(tmp_path / "m.npz")):
        with pytest.raises(ValueError, match="unknown class id 2: the 2 known ids are 0, 1"):
            asked.evaluate((rng.random((1, 4, 4)), np.array([2])))


@pytest.mark.parametrize("shape", [[8, 8, 0], [8, 8], [8.0, 8.0, 1.0], [[8, 8, 1]], [-1, 8, 1]])
def test_a_shape_of_images_that_cannot_be_is_named(shape):
    with pytest.raises(ValueError, match=r"shape is \[.*expected height, width and channels"):
        ImageReader._restore(ViT(), {"shape": np.array(shape)})
