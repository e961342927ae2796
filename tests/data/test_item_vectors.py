"""Vectors of items from a file: what is read, and what is refused in one line."""

import numpy as np
import pytest

from tinyattn.data import Interactions, ItemVectors

DATA = Interactions.of([[10, 20, 30], [30, 40]])
X = np.arange(8.0).reshape(4, 2)


def test_a_row_of_npy_for_each_item_in_ascending_order_of_ids(tmp_path):
    np.save(tmp_path / "v.npy", X)
    vectors = ItemVectors.read(tmp_path / "v.npy", DATA.items)
    assert vectors.ids.tolist() == [10, 20, 30, 40]
    mean = np.mean(np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(vectors.table(DATA.items)[1:], X / mean, rtol=1e-6)
    assert vectors.joined(DATA) is DATA


def test_npz_names_its_items_and_new_ones_join_the_data(tmp_path):
    np.savez(tmp_path / "v.npz", ids=np.array([40, 15, 10]), vectors=X[:3].astype(np.float16))
    vectors = ItemVectors.read(tmp_path / "v.npz", DATA.items)
    assert vectors.missing(DATA.items).tolist() == [20, 30]
    joined = vectors.joined(DATA)
    assert joined.items.ids.tolist() == [10, 15, 20, 30, 40]
    assert joined.items.decode(joined.flat).tolist() == DATA.items.decode(DATA.flat).tolist()
    table = vectors.table(joined.items)
    assert np.any(table, axis=1).tolist() == [False, True, True, False, False, True]         # padding, 10, 15, ...
    assert table.dtype == np.float32


def test_ids_of_one_kind_are_those_of_the_other():
    texts = Interactions.of([["7", "9"], ["9", "x"]])
    joined = ItemVectors(np.array([7, 8]), X[:2]).joined(texts)
    assert joined.items.ids.tolist() == ["7", "8", "9", "x"]
    assert ItemVectors(np.array(["10", "20"]), X[:2]).missing(DATA.items).tolist() == [30, 40]
    assert ItemVectors(np.array(["10", "15"]), X[:2]).joined(DATA).items.ids.tolist() == [10, 15, 20, 30, 40]
    with pytest.raises(ValueError, match=r"item vectors has id 015, and those of the data are integers"):
        ItemVectors(np.array(["10", "015"]), X[:2]).joined(DATA)
    with pytest.raises(ValueError, match=r"item vectors has id x, and those of the data are integers"):
        ItemVectors(np.array(["10", "x"]), X[:2]).joined(DATA)


NAN = np.where(X == 3, np.nan, X)
BAD = [
    ({"vectors": X[:3]}, r"has 3 rows, and the data 4 items: expected a row for each, or a \.npz file"),
    ({"vectors": NAN}, r"the vector of item 20 has NaN or infinity"),
    ({"vectors": X.astype(int)}, r"vectors are \(4, 2\) int64, expected floats \(items, width\)"),
    ({"vectors": X[0]}, r"has 2 rows|vectors are \(2,\) float64"),
    ({"vectors": np.float64(3)}, r"vectors are \(\) float64, expected floats"),
    ({"vectors": X[:, :0]}, r"vectors are \(4, 0\) float64"),
    ({"ids": np.array([10, 10]), "vectors": X[:2]}, r"item 10 has several vectors"),
    ({"ids": np.array([10]), "vectors": X[:2]}, r"ids are \(1,\) int64, expected \(2,\) integers or texts"),
    ({"ids": np.array([0.5, 1.5]), "vectors": X[:2]}, r"ids are \(2,\) float64"),
    ({"ids": np.array([10]), "other": X[:1]}, r"has ids, other, expected ids and vectors"),
    ({"vectors": np.array([{}], dtype=object)}, r"is no \.npy or \.npz file of numbers"),
    ({"ids": np.array(["a", "b"], dtype=object), "vectors": X[:2]}, r"dtype object: make ids integers or texts, as by"),
]


@pytest.mark.parametrize(("arrays", "message"), BAD)
def test_what_is_refused(arrays, message, tmp_path):
    path = tmp_path / ("v.npz" if len(arrays) > 1 else "v.npy")
    if len(arrays) > 1:
        np.savez(path, **arrays)
    else:
        np.save(path, arrays["vectors"], allow_pickle=True)
    with pytest.raises(ValueError, match=message) as error:
        ItemVectors.read(path, DATA.items)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("content", [None, b"", b"hello", b"PK\x03\x04 cut off"])
def test_a_file_that_is_missing_or_damaged(content, tmp_path):
    path = tmp_path / "v.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"v\.npz (cannot be read: No such file|is no \.npy or \.npz file of numbers)"):
        ItemVectors.read(path, DATA.items)


def test_vectors_of_other_items_are_refused():
    with pytest.raises(ValueError, match=r"none of the 4 items: its ids are like 1, those of the data like 10"):
        ItemVectors(np.arange(1, 5), X).joined(DATA)


def test_lists_become_arrays_and_unsigned_ids_stay_integers():
    """Beyond 2^53, unsigned integers beside signed ones would meet as floats."""
    far = Interactions.of([[2**60, 2**60 + 1, 2**60 + 2]])
    vectors = ItemVectors(np.array([2**60 + 1, 2**60 + 9], np.uint64), X[:2])
    assert vectors.numbers(far.items).tolist() == [2, 0]
    assert vectors.joined(far).items.ids.tolist() == [2**60, 2**60 + 1, 2**60 + 2, 2**60 + 9]
    assert ItemVectors([10, 20], [[1.0, 2.0], [3.0, 4.0]]).missing(DATA.items).tolist() == [30, 40]
    with pytest.raises(ValueError, match=r"item vectors: id 9223372036854775809 is not below 2\^63"):
        ItemVectors(np.array([10, 2**63 + 1], np.uint64), X[:2])


@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e200])
def test_vectors_that_would_all_become_zero_are_refused(scale):
    with pytest.raises(ValueError, match=r"the largest number is .*, expected between 1e-100 and 1e100"):
        ItemVectors(DATA.items.ids, (1 + X) * scale)


def test_an_item_whose_vector_is_all_0_has_none():
    """Its embedding would be 0 whatever is learned; encoders give 0 for an empty text."""
    given = np.array([X[1], 0 * X[1], X[2], 0 * X[1]])
    vectors = ItemVectors(np.array([10, 20, 30, 99]), given)
    assert vectors.missing(DATA.items).tolist() == [20, 40]
    assert vectors.joined(DATA) is DATA
    same = ItemVectors(np.array([10, 30]), X[1:3])
    np.testing.assert_array_equal(vectors.table(DATA.items), same.table(DATA.items))
    assert vectors.digest() == same.digest()


def test_one_vector_beside_which_the_others_would_vanish_is_refused():
    ItemVectors(DATA.items.ids, X + [[1e6], [0], [0], [0]])
    message = r"item 10 has a vector of length 1\.41e\+30, and half of all have 7\.81 at most: scaled, they would be 0"
    with pytest.raises(ValueError, match=message):
        ItemVectors(DATA.items.ids, X + [[1e30], [0], [0], [0]])


def test_two_ids_of_one_item():
    with pytest.raises(ValueError, match=r"ids \['10', ' 10'\] are one item of the data, expected one vector"):
        ItemVectors(np.array(["10", "20", " 10"]), X[:3]).joined(DATA)


@pytest.mark.parametrize("masked", ["ids", "vectors"])
def test_masked_values_are_refused(masked):
    arrays = {"ids": DATA.items.ids, "vectors": X}
    arrays[masked] = np.ma.masked_equal(arrays[masked], arrays[masked].flat[0])
    with pytest.raises(ValueError, match="item vectors: some values are masked, expected none"):
        ItemVectors(**arrays)
