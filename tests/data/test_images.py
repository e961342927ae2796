"""Images with labels: read, split, put into batches; and the sets that are drawn or installed."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn.data import (
    IMAGE_SETS,
    DataError,
    Images,
    ImageSampler,
    ImageSource,
    NumberedImages,
    read_images,
)
from tinyattn.data.images.shapes import SHAPES, Shapes


def test_a_file_of_images(tmp_path):
    pixels = np.arange(3 * 2 * 4, dtype=np.uint8).reshape(3, 2, 4)
    np.savez(tmp_path / "a.npz", images=pixels, labels=["a", "b", "a"], teacher=["b", "b", "a"])
    found = read_images(tmp_path / "a.npz")
    assert (found.shape, found.images.dtype, found.sizes) == ((2, 4, 1), np.float32, {"images": 3, "classes": 2})
    np.testing.assert_array_equal(found.images[..., 0], pixels)
    assert (found.labels.tolist(), found.teacher.tolist()) == (["a", "b", "a"], ["b", "b", "a"])
    assert found[1:].teacher.tolist() == ["b", "a"]
    np.savez(tmp_path / "b.npz", images=np.zeros((2, 2, 2, 3)))
    assert read_images(tmp_path / "b.npz", labelled=False).shape == (2, 2, 3)
    source = ImageSource.of(str(tmp_path / "a.npz"))
    assert (source.name, source.title) == ("a", str(tmp_path / "a.npz"))
    assert ImageSource.from_config(source.describe()).load().fingerprint() == found.fingerprint()


def test_masked_values_and_what_is_no_image_are_refused():
    """NumPy would use the numbers under the mask."""
    ones = np.ones((2, 2, 2))
    for images, labels in ((np.ma.masked_equal(ones, 1), [0, 1]), (ones, np.ma.masked_equal([0, 1], 1))):
        with pytest.raises(ValueError, match=r"1 of 2 values are masked|8 of 8 values are masked"):
            Images.of((images, labels))
    for data in (None, 5, ()):
        with pytest.raises(ValueError, match=r"images are (None|5|\(\)), expected an array, or a pair of images and"):
            Images.of(data)


def test_files_that_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    ones = np.ones((2, 2, 2))
    for arrays, says in (
        ({"images": ones}, "has no array labels, expected images and labels"),
        ({"images": ones[0], "labels": [0, 1]}, r"images are \(2, 2\) float64, expected numbers"),
        ({"images": ones.astype(str), "labels": [0, 1]}, "expected numbers"),
        ({"images": ones[:0], "labels": []}, "expected numbers"),
        ({"images": ones * [[[np.inf, 1]]], "labels": [0, 1]}, "numbers that are not finite"),
        ({"images": 1e300 * ones, "labels": [0, 1]}, "numbers that are not finite"),
        ({"images": ones, "labels": [0, 1, 2]}, r"labels are \(3,\) int64, expected \(2,\) integers or strings"),
        ({"images": ones, "labels": [0.5, 1]}, "labels are .* float64, expected"),
        ({"images": ones, "labels": [0, 1], "teacher": [1]}, r"teacher are \(1,\)"),
        ({"images": np.array([{}]), "labels": [0]}, "is not a NumPy .npz file of numbers"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=says):
            read_images(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataError, match=r"is not a NumPy \.npz file"):
        read_images(path)
    np.save(tmp_path / "x.npy", ones)
    with pytest.raises(DataError, match=r"is not a NumPy \.npz file"):
        read_images(tmp_path / "x.npy")
    with pytest.raises(DataError, match="no such file"):
        read_images(tmp_path / "y.npz")
    with pytest.raises(ValueError, match=r"too few images \(2\), expected at least 3"):
        Images(ones, np.arange(2)).split()


def test_the_three_parts_are_apart_and_everything():
    parts = Images(np.arange(30.0).reshape(30, 1, 1), np.arange(30)).split()
    assert (len(parts.train), len(parts.valid), len(parts.test), parts.tested) == (24, 3, 3, "3 images")
    labels = np.concatenate([parts.train.labels, parts.valid.labels, parts.test.labels])
    assert sorted(labels) == list(range(30))


def test_an_epoch_has_each_image_once_and_a_slice_keeps_rows_together():
    data = NumberedImages(np.arange(23.0).reshape(23, 1, 1, 1), np.arange(23), np.arange(23) + 100)
    sampler = ImageSampler(data, 5, 4, 0)
    for epoch in range(2):
        batches = [sampler.batch(epoch * sampler.steps + step) for step in range(sampler.steps)]
        assert sorted(np.concatenate([batch.rows for batch in batches])) == list(range(23))
    assert sampler.batch(0).rows.tolist() != sampler.batch(sampler.steps).rows.tolist()
    whole = sampler.whole()
    slices = whole.slices(30)
    assert [len(part.rows) for part in slices] == [6, 6, 6, 5]
    assert sum(part.total for part in slices) == whole.total == 23
    for part in slices:
        assert part.images[:, 0, 0, 0].tolist() == part.labels.tolist() == part.rows.tolist()
        assert (part.taught - 100).tolist() == part.rows.tolist()


def test_drawn_shapes_are_what_their_labels_say():
    """Without noise: a disc fills π / 4 of the square around it, a ring less, a cross even less."""
    drawn = Shapes(images=200, noise=0.0).generate()
    again, other = Shapes(images=200, noise=0.0).generate(), Shapes(images=200, noise=0.0, seed=1).generate()
    assert drawn.fingerprint() == again.fingerprint() != other.fingerprint()
    share = {name: [] for name in SHAPES}
    for image, label in zip(drawn.images[..., 0], drawn.labels, strict=True):
        rows, columns = np.nonzero(image)
        assert len(np.unique(image)) == 2
        share[label].append(len(rows) / ((np.ptp(rows) + 1) * (np.ptp(columns) + 1)))
    mean = {name: np.mean(shares) for name, shares in share.items()}
    assert mean["square"] == 1
    assert mean["square"] > mean["disc"] > mean["ring"] > mean["cross"]
    assert ImageSource.of(None).name == "shapes"
    source = ImageSource.of(None, "shapes")
    assert ImageSource.from_config(source.describe()) == source
    with pytest.raises(ValueError, match="--image-set is 'digit', expected"):
        ImageSource.of(None, "digit")
    with pytest.raises(ValueError, match="expected one of them"):
        ImageSource.of("a.npz", "digits")


def test_digits_come_where_scikit_learn_is(monkeypatch):
    made = SimpleNamespace(images=np.ones((5, 8, 8)), target=np.arange(5))
    monkeypatch.setitem(sys.modules, "sklearn", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "sklearn.datasets", SimpleNamespace(load_digits=lambda: made))
    assert IMAGE_SETS["digits"]().generate().sizes == {"images": 5, "classes": 5}
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ValueError, match=r"scikit-learn: pip install 'tinyattn\[images\]'"):
        IMAGE_SETS["digits"]().generate()
