"""A mask is what it says, as an array and row by row."""

import itertools

import numpy as np
import pytest

from tinyattn.ops import Mask, as_mask

ALLOWED = np.random.default_rng(0).random((5, 6)) < 0.6
LENGTHS = np.array([6, 1, 4])


def by_pairs(mask, n, m, b):
    """Pair by pair, in plain loops: (n, m) for sequence b."""
    found = np.ones((n, m), dtype=bool)
    for i in range(n):
        for j in range(m):
            if mask.causal and j > i:
                found[i, j] = False
            if mask.window is not None and abs(i - j) >= mask.window:
                found[i, j] = False
            if mask.lengths is not None and j >= mask.lengths[b]:
                found[i, j] = False
            if mask.allowed is not None and not np.broadcast_to(mask.allowed, (3, 2, n, m))[b, 1, i, j]:
                found[i, j] = False
    return found


MASKS = {
    "all": Mask(),
    "causal": Mask(causal=True),
    "window": Mask(window=2),
    "itself": Mask(window=1),
    "causal window": Mask(causal=True, window=3),
    "lengths": Mask(lengths=LENGTHS),
    "everything": Mask(causal=True, window=4, lengths=LENGTHS, allowed=ALLOWED),
    "allowed": as_mask(ALLOWED),
    "one for all queries": as_mask(ALLOWED[:1]),
    "keys": as_mask(ALLOWED[0]),
    "keys of each sequence": as_mask(np.random.default_rng(2).random((3, 1, 1, 6)) < 0.5),
    "one a sequence": as_mask(np.random.default_rng(1).random((3, 1, 5, 6)) < 0.5),
    "one a head": as_mask(np.random.default_rng(3).random((2, 5, 6)) < 0.5),
    "one a sequence and head": as_mask(np.random.default_rng(4).random((3, 2, 5, 6)) < 0.5),
}


@pytest.mark.host
@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_what_it_says(name):
    mask, n, m = MASKS[name], 5, 6
    like = np.zeros(1)
    array = mask.array(n, m, like)
    array = np.broadcast_to(True if array is None else array, (3, 2, n, m))
    at = np.array([4, 0, 2])
    row = mask.row(at, m, like)
    row = np.broadcast_to(True if row is None else row, (3, 2, 1, m))
    for b in range(3):
        expected = by_pairs(mask, n, m, b)
        np.testing.assert_array_equal(array[b, 1], expected)
        np.testing.assert_array_equal(row[b, 1, 0], expected[at[b]])


@pytest.mark.host
def test_a_row_has_an_axis_for_heads_and_one_head_where_all_have_the_same_mask():
    for allowed, heads in ((ALLOWED, 1), (ALLOWED[0], 1), (MASKS["one a head"].allowed, 2)):
        assert Mask(allowed=allowed).row(np.array([4, 0, 2]), 6, np.zeros(1)).shape == (3, heads, 1, 6)


@pytest.mark.host
def test_what_a_mask_refuses_and_leaves_alone():
    with pytest.raises(ValueError, match="window is 0, expected a whole number of at least 1"):
        Mask(window=0)
    for wrong, says in (({"window": 2.5}, "window is 2.5"), ({"window": "3"}, "window is '3'")):
        with pytest.raises(ValueError, match=says):
            Mask(**wrong)
    for wrong, says in (({"allowed": np.ones(3)}, "allowed is float64"), ({"lengths": 3}, "lengths is int")):
        with pytest.raises(TypeError, match=says):
            Mask(**wrong)
    for wrong in (np.array(3), LENGTHS[:, None]):
        with pytest.raises(ValueError, match=r"lengths has shape .*, expected \(B,\), one a sequence"):
            Mask(lengths=wrong)
    assert Mask(window=1).window == 1
    mask = Mask(causal=True)
    assert as_mask(mask) is mask
    assert Mask().array(3, 3, np.zeros(1)) is None
    assert mask.only_causal
    for more in ({"window": 2}, {"lengths": LENGTHS}, {"allowed": ALLOWED}):
        assert not Mask(causal=True, **more).only_causal


def test_a_tile_is_a_part_of_the_mask(rng):
    """And where all of its pairs are alike it may say so; outside of `reach` no pair is allowed."""
    lengths = np.array([9, 0, 4])
    array = rng.random((3, 2, 8, 9)) < 0.3
    q = np.zeros((3, 2, 8, 1))
    for mask in (Mask(), Mask(causal=True), Mask(window=3), Mask(causal=True, window=2), Mask(lengths=lengths),
                 Mask(causal=True, window=4, lengths=lengths, allowed=array), Mask(allowed=array[0, 0])):  # fmt: skip
        whole = mask.array(8, 9, like=q)
        whole = np.broadcast_to(True if whole is None else whole, (3, 2, 8, 9))
        for queries, keys in ((slice(0, 8), slice(0, 9)), (slice(2, 5), slice(1, 4)), (slice(6, 7), slice(0, 2))):
            for at in [(), (1, 0), (2, 1)]:
                part, expected = mask.tile(queries, keys, (3, 2, 8, 9), q, at), whole[at][..., queries, keys]
                assert np.array_equal(np.broadcast_to(part, expected.shape), expected)
            reach = mask.reach(queries, 9)
            beyond = np.delete(whole[..., queries, :], np.r_[reach], axis=-1)
            assert not beyond.any()


@pytest.mark.host
@pytest.mark.parametrize(("n", "m"), [(4, 6), (6, 4)])
def test_a_tile_says_that_all_of_it_is_allowed_and_reach_holds_no_key_too_many(n, m):
    """Every tile of every order of tokens: True where all is, and no array is made; `reach` ends at keys that count."""
    cuts = [[slice(a, b) for a in range(size) for b in range(a + 1, size + 1)] for size in (n, m)]
    like = np.zeros(1)
    for causal, window in itertools.product((False, True), (None, 1, 2, 3, 9)):
        mask = Mask(causal, window)
        whole = by_pairs(mask, n, m, 0)
        for queries, keys in itertools.product(*cuts):
            part, expected = mask.tile(queries, keys, (n, m), like), whole[queries, keys]
            assert (part is True) == expected.all()
            assert np.array_equal(np.broadcast_to(part, expected.shape), expected)
        for queries in cuts[0]:
            seen = np.flatnonzero(whole[queries].any(axis=0)).tolist()
            assert list(range(m))[mask.reach(queries, m)] == (list(range(seen[0], seen[-1] + 1)) if seen else [])
    for keys, length in itertools.product(cuts[1], range(m + 1)):
        part = Mask(lengths=np.array([length])).tile(slice(0, n), keys, (1, 1, n, m), like, (0, 0))
        assert (part is True, part is False) == (keys.stop <= length, keys.start >= length)
