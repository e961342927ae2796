"""BEiT: visual words, hidden blocks, gradients, what is asked and what is not, and a ViT that begins with it."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_model
from tinyattn.data import IMAGE_SETS, HiddenSampler, Hiding, Images, Parts, WordedImages, learn_words, nearest_words
from tinyattn.files import FileError
from tinyattn.models import BEiT, BEiTNetwork, ViT
from tinyattn.models.transformers import beit
from tinyattn.ops import patchify
from tinyattn.random import Stream, generator
from tinyattn.training import Settings, train
from tinyattn.tree import flatten, leaves

SMALL = {"patch": 2, "dim": 8, "heads": 2, "layers": 2, "feed_forward_width": 2}
NETWORK = {"height": 4, "width": 8, "channels": 2, "words": 5, **SMALL}


def make(rate=0.0):
    network, rng = BEiTNetwork(**NETWORK, dropout=rate), np.random.default_rng(5)
    p = noisy(network.init(generator(0, Stream.INIT)), rng, 0.2)
    return network, flatten(p, np.float64)[1]


def sampler(n=4, **hiding):
    rng = np.random.default_rng(1)
    images, words = rng.standard_normal((n, 4, 8, 2)).astype(np.float32), rng.integers(5, size=(n, 2, 4))
    return HiddenSampler(WordedImages(images, words), Hiding(**hiding), n, 0)


def test_gradients_of_the_whole_model_with_dropout():
    network, p = make(rate=0.3)
    report = gradcheck_model(network, p, sampler().whole(), key=3, entries=2)
    assert report, f"\n{report}"


def test_it_starts_at_ln_v_and_learns_one_batch_by_heart():
    network = BEiTNetwork(**NETWORK, dropout=0.0)
    loss, _ = network.loss(network.init(generator(0, Stream.INIT)), sampler().whole())
    assert float(loss) == pytest.approx(math.log(5), rel=1e-12)
    _, history = train(network, sampler(8), Settings(epochs=300, lr=0.01), workers=1, progress=False)
    assert history[-1]["loss"] < 0.5  # each step hides other patches


def test_what_is_hidden_is_not_seen_and_what_is_seen_is_not_asked():
    """Pixels of hidden patches move nothing; words of seen patches are no part of the loss, and the mask is learned."""
    network, p = make()
    batch = sampler().whole()
    loss, cache = network.loss(p, batch)
    noise = np.random.default_rng(2).standard_normal(batch.images.shape).astype(np.float32)
    patches = batch.hidden.reshape(4, 2, 4).repeat(2, axis=1).repeat(2, axis=2)[..., None]
    other = batch._replace(images=np.where(patches, noise, batch.images), words=np.where(batch.hidden, batch.words, 0))
    again, cache_again = network.loss(p, other)
    assert float(again) == float(loss)
    mine, theirs = (dict(leaves(network.loss_backward(p, 1.0, c))) for c in (cache, cache_again))
    for name, leaf in mine.items():
        np.testing.assert_allclose(leaf, theirs[name], rtol=0, atol=1e-14, err_msg=name)
    assert np.abs(mine["mask"]).max() > 1e-3
    seen = batch._replace(images=np.where(patches, batch.images, noise))
    assert abs(float(network.loss(p, seen)[0]) - float(loss)) > 1e-3


@pytest.mark.host
@pytest.mark.parametrize(("grid", "hidden", "block"), [((14, 14), 0.4, 16), ((4, 4), 0.4, 2), ((1, 7), 0.3, 1),
                                                       ((3, 5), 1.0, 4), ((2, 2), 0.01, 3)])  # fmt: skip
def test_hidden_blocks_reach_their_share_and_hang_together(grid, hidden, block):
    """At least the share is hidden, at the paper's size not many more; neighbours of a hidden patch are hidden more
    often than other patches."""
    rng, n = np.random.default_rng(0), grid[0] * grid[1]
    drawn = np.stack([Hiding(hidden=hidden, block=block).draw(rng, grid) for _ in range(300)])
    counts = drawn.sum(axis=1)
    assert counts.min() >= max(1, round(hidden * n))
    if grid == (14, 14):
        assert counts.mean() < 1.2 * hidden * n
        square = drawn.reshape(-1, *grid)
        beside = square[:, :, 1:] & square[:, :, :-1]
        assert beside.mean() > 1.6 * drawn.mean() ** 2
    assert drawn.any(axis=0).all()  # corners, too, though seldom


@pytest.mark.host
def test_words_are_the_means_of_what_is_nearest_to_them():
    """k-means finds the centres of planted clusters; each word is the mean of its patches, and each is used."""
    rng = np.random.default_rng(0)
    planted = 10 * rng.standard_normal((6, 4))
    patches = (planted[rng.integers(6, size=900)] + 0.1 * rng.standard_normal((900, 4))).astype(np.float32)
    words = learn_words(patches, 6, generator(0, Stream.INIT))
    owners = nearest_words(patches, words)
    for w in range(6):
        np.testing.assert_allclose(words[w], patches[owners == w].mean(axis=0), rtol=0, atol=1e-5)
        assert np.min(np.sum((planted - words[w]) ** 2, axis=1)) < 0.01
    np.testing.assert_array_equal(nearest_words(patches.reshape(30, 30, 4), words), owners.reshape(30, 30))
    with pytest.raises(ValueError, match="words is 4, expected at most 3, as many as there are different patches"):
        learn_words(np.repeat(np.eye(3), 5, axis=0), 4, generator(0, Stream.INIT))


@pytest.fixture(scope="module")
def shapes():
    return IMAGE_SETS["shapes"](images=600, noise=0.0).generate()


@pytest.fixture(scope="module")
def learned(shapes):
    model = BEiT(dim=16, layers=2, words=24, epochs=8, lr=5e-3, workers=1, warmup=10)
    return model.fit(shapes.split(), progress=False)


@pytest.mark.slow(seconds=1)
def test_it_names_hidden_patches_better_than_who_knows_their_shares(learned, shapes, tmp_path, monkeypatch):
    monkeypatch.setattr(beit, "AT_ONCE", 30)
    asked = learned.evaluation_batch(shapes[:100])
    share = np.bincount(asked.words[asked.hidden]).max() / asked.hidden.sum()
    assert learned.evaluate(shapes[:100])["accuracy"] > share + 0.1
    guessed = learned.guessed(shapes[:100], asked.hidden)
    right = np.mean(guessed[asked.hidden] == asked.words[asked.hidden])
    assert right == pytest.approx(learned.evaluate(shapes[:100])["accuracy"])
    painted = learned.painted(shapes[:100], asked.hidden, guessed)
    patches, own = (patchify(x, 4) for x in (painted, learned.standardised(shapes[:100])))
    np.testing.assert_array_equal(patches[asked.hidden], learned.codebook[guessed[asked.hidden]])
    np.testing.assert_array_equal(patches[~asked.hidden], own[~asked.hidden])
    assert [a.shape for a in learned.attention(shapes[:2])] == [(2, 4, 17, 17)] * 2
    other = BEiT.load(_saved(learned, tmp_path))
    assert other.digest() == learned.digest()
    assert other.evaluate(shapes[:100]) == learned.evaluate(shapes[:100])


def test_labels_are_not_read(shapes):
    """The same bits without them, from an array and from other labels; pixels may be of any size."""
    small = {"dim": 8, "heads": 2, "layers": 1, "words": 8, "epochs": 1, "workers": 1, "dropout": 0.0}
    pixels = shapes.images[:60]
    given = [pixels, Images(pixels), Images(pixels, np.arange(60)), Images(np.float32(1e37) * pixels)]
    models = [BEiT(**small).fit(images, progress=False) for images in given]
    for model, images in zip(models[1:3], given[1:3], strict=True):
        assert model.digest() == models[0].digest()
        assert model.fingerprint(Parts(images)) == model.fingerprint(Parts(given[1]))
    assert models[3].evaluate(given[3])["loss"] == pytest.approx(models[0].evaluate(pixels)["loss"], rel=1e-4)


@pytest.mark.parametrize("options", [{}, {"readout": "mean"}, {"distil": True}], ids=str)
def test_a_vit_begins_with_what_it_has_learned(learned, shapes, options):
    """All of the encoder; before the first step a ViT gives the tokens that BEiT gives of the whole image."""
    few = Images(shapes.images[:20], shapes.labels[:20], shapes.labels[:20])
    vit = ViT(dim=16, layers=2, epochs=1, lr=1e-12, weight_decay=0.0, workers=1, **options)
    vit.fit(few, start=learned, progress=False)
    images, read = vit.standardised(few[:3]), vit.network.read
    x, _ = vit.network.encode(vit.parameters, images)
    wanted, _ = learned.network.encode(learned.parameters, images)
    if read == 1:
        np.testing.assert_allclose(x, wanted, rtol=0, atol=1e-4)
    mine, theirs = vit.parameters, learned.parameters
    np.testing.assert_allclose(mine["positions"][read:], theirs["positions"][1:], rtol=0, atol=1e-6)
    np.testing.assert_allclose(mine["tokens"][:1], theirs["tokens"][:read], rtol=0, atol=1e-6)
    fresh = ViT(dim=16, layers=2, epochs=1, lr=1e-12, workers=1, **options).fit(few, progress=False)
    assert np.abs(fresh.parameters["patches"]["W"] - theirs["patches"]["W"]).max() > 0.1
    assert fresh.network.start is None


def test_what_is_refused(learned, shapes, tmp_path):
    for options, says in (
        ({"hidden": 0}, "hidden is 0, expected above 0"),
        ({"hidden": 1.5}, "hidden is 1.5, expected"),
        ({"block": 0}, "block is 0, expected 1 to"),
        ({"words": 1}, "words is 1, expected 2 to"),
        ({"dim": 8, "heads": 3}, "dim 8 is not divisible by heads 3"),
    ):
        with pytest.raises(ValueError, match=says):
            BEiT(**options)
    with pytest.raises(ValueError, match="patch is 3, expected a divisor of the height of the images, which is 16"):
        BEiT(patch=3).fit(shapes, progress=False)
    with pytest.raises(ValueError, match=r"words is 100, expected at most 1, as many as there are different patches$"):
        BEiT(words=100).fit(np.ones((5, 8, 8)), progress=False)
    assert BEiT(block=16).make_network({"shape": (16, 16, 1)})
    with pytest.raises(ValueError, match="block is 17, expected at most the patches of an image, 16"):
        BEiT(block=17).fit(shapes, progress=False)
    with pytest.raises(ValueError, match="start is 'runs/x', expected a BEiT that has learned"):
        ViT().fit(shapes, start="runs/x")
    with pytest.raises(ValueError, match="these images have no labels: expected an integer or a string for each"):
        ViT().fit(shapes.images, progress=False)
    for word in (-1, 24):
        with pytest.raises(ValueError, match=f"words are {min(0, word)} to {max(0, word)}, expected 0 to 23"):
            learned.painted(shapes[:1], np.ones((1, 16), bool), word * np.eye(16, dtype=int)[:1])
    with pytest.raises(ValueError, match=r"images are 8 x 8 x 1 .*, expected 16 x 16 x 1 as in"):
        learned.evaluate((np.ones((5, 8, 8)), np.arange(5)))
    with pytest.raises(ValueError, match="dim is 64, expected 16, as in the model that this one starts from"):
        ViT().fit(shapes, start=learned)
    with pytest.raises(ValueError, match=r"images are 8 x 8 x 1 .*, expected 16 x 16 x 1, as for the model"):
        ViT(dim=16, layers=2).fit((np.ones((5, 8, 8)), np.arange(5)), start=learned)
    with pytest.raises(ValueError, match="call fit first"):
        ViT().fit(shapes, start=BEiT())
    for hidden in (np.zeros((2, 16), bool), np.zeros((1, 15), bool), np.zeros((1, 16))):
        with pytest.raises(ValueError, match=r"hidden is .* expected \(1, 16\) bool: one per patch, row by row"):
            learned.guessed(shapes[:1], hidden)
    with pytest.raises(ValueError, match=r"words is \(1, 16\) float64, expected \(1, 16\) integers"):
        learned.painted(shapes[:1], np.ones((1, 16), bool), np.zeros((1, 16)))
    other = BEiT.load(_saved(learned, tmp_path))
    for damaged in (np.full_like(other.codebook, np.nan), other.codebook[:-1], other.codebook.astype(float)):
        other.codebook = damaged
        with pytest.raises(FileError, match=r"codebook is .* float.*, expected \(24, 16\) float32, and finite"):
            BEiT.load(_saved(other, tmp_path))
    checkpoint = tmp_path / "c.npz"
    first = ViT(dim=16, layers=2, epochs=2, workers=1)
    with pytest.raises(KeyboardInterrupt):
        first.fit(shapes[:40], start=learned, checkpoint=checkpoint, progress=False, on_epoch=_stop)
    with pytest.raises(FileError, match="other data"):
        ViT(dim=16, layers=2, epochs=2, workers=1).fit(shapes[:40], checkpoint=checkpoint, progress=False)


def _saved(model, folder):
    model.save(folder / "m.npz")
    return folder / "m.npz"


def _stop(history):
    raise KeyboardInterrupt
