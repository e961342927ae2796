"""Images against plain loops: drawn shapes, hidden blocks, visual words, and what a digest sees."""

import math

import numpy as np
import pytest

from tinyattn.data import HiddenSampler, Hiding, Images, WordedImages, learn_words, nearest_words, standardised
from tinyattn.data.images import shapes as shapes_module
from tinyattn.data.images import words as words_module
from tinyattn.data.images.shapes import SHAPES, Shapes

INSIDE = {
    "cross": lambda x, y: min(abs(x), abs(y)) <= 0.3 and max(abs(x), abs(y)) <= 1,
    "disc": lambda x, y: x * x + y * y <= 1,
    "ring": lambda x, y: 0.3 <= x * x + y * y <= 1,
    "square": lambda x, y: max(abs(x), abs(y)) <= 0.9,
}


def test_a_shape_is_where_its_rule_says():
    grid = np.linspace(-1.2, 1.2, 49)
    for name, inside in SHAPES.items():
        expected = [[INSIDE[name](x, y) for x in grid.tolist()] for y in grid.tolist()]
        assert inside(grid[None, :], grid[:, None]).tolist() == expected, name


def test_shapes_are_inside_of_their_images_of_any_size_place_and_grey():
    drawn = Shapes(images=600, size=20, noise=0.0).generate()
    assert drawn.shape == (20, 20, 1)
    greys = np.array([image.ravel()[np.argmax(np.abs(image))] for image in drawn.images])
    assert abs(np.mean(greys > 0) - 0.5) < 5 * 0.5 / math.sqrt(600)
    sizes = np.abs(greys)
    assert 0.5 <= sizes.min() < 0.52
    assert 0.98 < sizes.max() <= 1
    counts = [np.sum(drawn.labels == name) for name in SHAPES]
    assert all(abs(count - 150) < 5 * math.sqrt(600 * 3 / 16) for count in counts)
    wide, high, centres = [], [], []
    for image in drawn.images[drawn.labels == "disc"]:
        rows, columns = np.nonzero(image[..., 0])
        wide.append(np.ptp(columns) + 1)
        high.append(np.ptp(rows) + 1)
        centres.append([columns.mean() + 0.5, rows.mean() + 0.5])
    assert np.max(np.abs(np.subtract(wide, high))) <= 2  # as high as wide
    assert 7 <= min(wide) <= 9  # radius 0.2 to 0.45 of the side
    assert 17 <= max(wide) <= 18
    centres = np.array(centres)
    assert np.all(np.abs(centres.mean(axis=0) - 10) < 1)
    assert np.all(centres.std(axis=0) > 1)
    assert abs(np.corrcoef(centres.T)[0, 1]) < 0.4
    noisy = (
        Shapes(images=30, size=20, noise=0.15).generate().images
        - Shapes(images=30, size=20, noise=0.0).generate().images
    )
    assert noisy.std() == pytest.approx(0.15, rel=0.03)
    assert abs(noisy.mean()) < 0.01


class Middle:
    """A generator that puts one shape after the other into the middle of an image."""

    def integers(self, high, size):
        return np.arange(size) % high

    def uniform(self, low=0.0, high=1.0, size=None):
        return np.full(size, (low + high) / 2 if (low, high) == (0, 1) else high)

    def choice(self, values, size):
        return np.full(size, values[0])

    def standard_normal(self, size):
        return np.ones(size)


@pytest.mark.parametrize("size", [10, 11])
def test_a_shape_in_the_middle_is_the_same_from_every_side(size, monkeypatch):
    monkeypatch.setattr(shapes_module, "generator", lambda *_: Middle())
    drawn = Shapes(images=8, size=size, noise=0.25).generate()
    assert drawn.labels.tolist() == [*SHAPES] * 2
    for image in drawn.images[..., 0]:
        np.testing.assert_array_equal(image, image[::-1])
        np.testing.assert_array_equal(image, image[:, ::-1])
        np.testing.assert_array_equal(image, image.T)
        assert set(np.unique(image).tolist()) == {-0.75, 0.25}


class Script:
    """A generator that gives what is written down."""

    def __init__(self, sizes, ratios, corners):
        self.reals, self.corners, self.asked = (
            [v for pair in zip(sizes, ratios, strict=True) for v in pair],
            corners,
            [],
        )

    def uniform(self, low, high):
        self.asked.append((low, high))
        return self.reals.pop(0)

    def integers(self, high):
        assert self.corners[0] < high
        return self.corners.pop(0)


def test_a_hidden_block_has_the_size_ratio_and_place_that_were_drawn():
    """Of 8 x 10 patches half are hidden. A block of 12 that is three times as high as wide is 6 x 2."""
    rng = Script([12.0, 40.0], [math.log(3), 0.0], [2, 3, 1, 4])
    found = Hiding(hidden=0.5, block=4).draw(rng, (8, 10)).reshape(8, 10)
    expected = np.zeros((8, 10), bool)
    expected[2:8, 3:5] = True
    expected[1:7, 4:10] = True  # the root of 40 is 6.3: 6 x 6
    assert found.tolist() == expected.tolist()
    assert rng.asked[0] == (4, 40.0)  # at least `block`, at most what is left
    assert rng.asked[1] == pytest.approx((math.log(0.3), -math.log(0.3)))
    assert rng.asked[2] == (4, 28.0)
    tall = Hiding(hidden=0.1, block=4).draw(Script([30.0], [math.log(1 / 0.3)], [0, 7]), (8, 10)).reshape(8, 10)
    assert (tall.sum(axis=0).max(), tall.sum(axis=1).max()) == (8, 3)  # cut at the image: 10 x 3
    rounded = Script([1.0] * 7, [0.0] * 7, [n for i in range(7) for n in divmod(i, 5)])
    assert Hiding(hidden=0.44, block=1).draw(rounded, (3, 5)).sum() == 7  # of 6.6 patches
    few = Hiding(hidden=0.01, block=100)
    rng = Script([100.0], [0.0], [0, 0])
    assert few.draw(rng, (3, 3)).all()
    assert rng.asked[0] == (100, 100.0)


def test_hidden_batches_have_all_images_and_hide_anew_at_every_step():
    pixels = np.arange(7.0, dtype=np.float32).reshape(7, 1, 1, 1) * np.ones((1, 4, 6, 1), np.float32)
    data = WordedImages(pixels, np.arange(42).reshape(7, 2, 3))
    sampler = HiddenSampler(data, Hiding(hidden=0.5, block=1), 3, 2)
    assert sampler.steps == 2
    orders, masks = [], []
    for epoch in range(2):
        batches = [sampler.batch(epoch * 2 + step) for step in range(2)]
        orders.append(np.concatenate([b.rows for b in batches]).tolist())
        masks += [b.hidden.tobytes() for b in batches]
        for batch in batches:
            assert batch.images[:, 0, 0, 0].tolist() == batch.rows.tolist()
            assert batch.words.tolist() == [list(range(6 * r, 6 * r + 6)) for r in batch.rows.tolist()]
            assert batch.tokens.tolist() == [6] * len(batch.rows)
            assert batch.total == batch.hidden.sum()
            assert (batch.hidden.sum(axis=1) >= 3).all()
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(7))
    assert orders[0] != orders[1]
    assert len(set(masks)) == 4
    whole, other = sampler.whole(), HiddenSampler(data, Hiding(hidden=0.5, block=1), 3, 3).whole()
    assert whole.rows.tolist() == list(range(7))
    assert whole.hidden.tolist() == sampler.whole().hidden.tolist() != other.hidden.tolist()
    assert len({row.tobytes() for row in whole.hidden}) > 1
    assert whole.hidden.tolist() != HiddenSampler(data, Hiding(hidden=0.5, block=1), 7, 2).batch(0).hidden.tolist()
    parts = whole.slices(12)
    assert [part.rows.tolist() for part in parts] == [[0, 1], [2, 3], [4, 5], [6]]
    for part in parts:
        assert part.hidden.tolist() == whole.hidden[part.rows].tolist()


def test_the_nearest_word_is_that_of_a_plain_loop(rng, monkeypatch):
    patches, words = rng.standard_normal((5, 7, 3)), 2 * rng.standard_normal((6, 3))
    expected = [[int(np.argmin([np.sum((p - w) ** 2) for w in words])) for p in row] for row in patches]
    assert nearest_words(patches, words).tolist() == expected
    for at_once in (1, 6, 13, 70):
        monkeypatch.setattr(words_module, "AT_ONCE", at_once)
        assert nearest_words(patches, words).tolist() == expected


def test_first_centres_are_drawn_by_the_square_of_their_distance(monkeypatch):
    """Of patches 0, 1 and 3 the second centre after 0 is 3 nine times as often as 1."""
    monkeypatch.setattr(words_module, "ROUNDS", 0)
    pairs = [
        tuple(learn_words(np.array([[0.0], [1.0], [3.0]]), 2, np.random.default_rng(s)).ravel()) for s in range(900)
    ]
    for first, (near, square), (far, further) in ((0, (1, 1), (3, 9)), (1, (0, 1), (3, 4)), (3, (1, 4), (0, 9))):
        mine = [pair[1] for pair in pairs if pair[0] == first]
        assert abs(len(mine) - 300) < 5 * math.sqrt(200)
        assert set(mine) == {near, far}
        p = square / (square + further)
        assert abs(mine.count(near) - len(mine) * p) < 5 * math.sqrt(len(mine) * p * (1 - p))
    three = {
        tuple(sorted(learn_words(np.array([[0.0], [1.0], [3.0]]), 3, np.random.default_rng(s)).ravel()))
        for s in range(9)
    }
    assert three == {(0.0, 1.0, 3.0)}


def test_words_end_as_means_and_are_learned_from_so_many_patches(monkeypatch):
    patches = np.array([[0.0], [0.1], [5.0], [5.3], [5.6]])
    found = [sorted(learn_words(patches, 2, np.random.default_rng(s)).ravel().tolist()) for s in range(5)]
    np.testing.assert_allclose(found, [[0.05, 5.3]] * 5, rtol=1e-6)
    monkeypatch.setattr(words_module, "MOST", 3)
    assert len({tuple(learn_words(patches, 1, np.random.default_rng(s)).ravel()) for s in range(30)}) > 3
    with pytest.raises(
        ValueError, match=r"words is 4, expected at most 3, as many as .* patches, of 3 that were drawn"
    ):
        learn_words(patches, 4, np.random.default_rng(0))


def test_each_image_is_standardised_by_itself(rng):
    x = rng.standard_normal((3, 2, 4, 2)).astype(np.float32) * 7 + 3
    before = x.copy()
    y = standardised(x)
    for one, image in zip(y, x, strict=True):
        pixels = image.astype(np.float64).ravel()
        np.testing.assert_allclose(one.ravel(), (pixels - pixels.mean()) / pixels.std(), rtol=1e-4, atol=1e-5)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(x, before)
    assert not standardised(np.full((1, 2, 2, 1), 7.0)).any()


def test_a_digest_sees_pixels_form_labels_and_teacher():
    pixels, labels = np.arange(24.0).reshape(4, 2, 3), np.array([0, 1, 0, 1])
    made = [Images(pixels), Images(pixels[::-1]), Images(pixels.reshape(4, 3, 2)), Images(pixels, labels),
            Images(pixels, 1 - labels), Images(pixels, labels.astype(str)), Images(pixels, labels, 1 - labels),
            Images(pixels, labels, labels)]  # fmt: skip
    prints = [images.fingerprint() for images in made]
    assert len(set(prints)) == len(prints)
    assert len(prints[0]) == 16
    assert Images.of(pixels).fingerprint() == prints[0] == Images.of(made[0]).fingerprint()
    assert (
        Images.of((pixels, labels)).fingerprint()
        == prints[3]
        == Images(pixels.astype(int), labels.astype("i1")).fingerprint()
    )
    some = made[6][1:3]
    assert (some.labels.tolist(), some.teacher.tolist(), len(some)) == ([1, 0], [0, 1], 2)
    assert made[0][:2].labels is None
    assert made[0].sizes == {"images": 4}
    with pytest.raises(ValueError, match="these images have no labels"):
        made[0].need_labels()
    assert made[3].need_labels() is made[3].labels
    for kind in (bool, np.uint8, np.int16, np.float16):
        assert Images(pixels.astype(kind)).images.dtype == np.float32
    with pytest.raises(ValueError, match="complex128, expected numbers"):
        Images(pixels * 1j)
