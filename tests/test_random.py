"""Random numbers by key: every place of a mask is drawn on its own."""

import numpy as np
import pytest

from tests.devices import DEVICES, MISSING, On
from tinyattn.backend import to_numpy
from tinyattn.random import MaskKeys, PairMask, Stream, _threshold, generator, keep_mask, pair_mask


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 8), (6, 5, 7, 8)])
def test_no_two_rows_of_a_mask_agree_beyond_chance(shape):
    """Neighbours along any axis, and along any two at once, as one step up and one down."""
    mask = keep_mask(MaskKeys(np.random.default_rng(0), np.arange(shape[0])), (*shape[:-1], 400), 0.5)
    steps = [np.eye(mask.ndim, dtype=int)[axis] * sign for axis in range(mask.ndim) for sign in (1, -1)]
    for step in [a + b for a in steps for b in steps if (a + b).any()]:
        moved = tuple(slice(max(s, 0), size + min(s, 0)) for s, size in zip(step, mask.shape, strict=True))
        there = tuple(slice(max(-s, 0), size + min(-s, 0)) for s, size in zip(step, mask.shape, strict=True))
        assert 0.4 < np.mean(mask[moved] == mask[there]) < 0.6, step


def test_more_axes_than_there_are_keys_for_are_refused():
    with pytest.raises(ValueError, match="has 5 axes, expected at most 4"):
        keep_mask(np.random.default_rng(0), (2, 2, 2, 2, 2), 0.5)


@pytest.mark.parametrize("where", [name for name in DEVICES if name not in MISSING])
@pytest.mark.parametrize(("lead", "rows"), [((), None), ((2,), None), ((3, 2), None), ((3, 2), [5, 0, 9])])
def test_any_part_of_a_pair_mask_is_what_the_whole_mask_keeps(lead, rows, where):
    n, m, xp = 11, 13, On(where).xp
    rng, again = np.random.default_rng(7), np.random.default_rng(7)
    if rows is not None:
        rng, again = MaskKeys(rng, xp.asarray(rows)), MaskKeys(again, xp.asarray(rows))
    like = xp.zeros(1)
    whole = to_numpy(keep_mask(rng, (*(1,) * (2 - len(lead)), *lead, n, m), 0.3, like)).reshape(*lead, n, m)
    mask = pair_mask(again, 0.3)
    for some, seen in ((slice(0, n), slice(0, m)), (slice(2, 7), slice(5, 6)), (slice(3, 3), slice(1, 12))):
        assert np.array_equal(to_numpy(mask.tile(lead, some, seen, like)), whole[..., some, seen])
        for at in np.ndindex(lead):
            assert np.array_equal(to_numpy(mask.tile(lead, some, seen, like, at)), whole[at][some, seen])
    i, j = np.array([[0, 10, 3], [4, 4, 1]]), np.array([[12, 0], [5, 7]])
    parts = to_numpy(mask.pairs(lead, xp.asarray(i), xp.asarray(j), like))
    assert np.array_equal(parts, whole[..., i[:, :, None], j[:, None, :]])


def test_a_pair_mask_knows_its_axes_and_its_rate():
    with pytest.raises(ValueError, match=r"the leading axes are \(2, 2, 2\)"):
        pair_mask(np.random.default_rng(0), 0.5).tile((2, 2, 2), slice(0, 1), slice(0, 1), np.zeros(1))
    with pytest.raises(ValueError, match="rows of 1 sequences; there are 2"):
        PairMask(1, 0.5, np.array([3])).tile((2, 2), slice(0, 1), slice(0, 1), np.zeros(1))
    with pytest.raises(ValueError, match="rate is 1"):
        pair_mask(np.random.default_rng(0), 1.0)


def test_every_part_of_a_key_makes_another_generator():
    counted = ((1,), (2,), (0, 1), (1, 2), (2, 1))
    keys = [(seed, stream, *counters) for seed in (0, 1) for stream in Stream for counters in counted]
    drawn = {key: int(generator(*key).integers(2**62)) for key in keys}
    assert len(set(drawn.values())) == len(keys)
    assert all(int(generator(*key).integers(2**62)) == value for key, value in drawn.items())


def test_streams_keep_their_numbers():
    """A seed means the same training, data and masks tomorrow: a checkpoint goes on with the draws it began with."""
    assert " ".join(s.name for s in Stream) == (
        "INIT SHUFFLE NEGATIVES DROPOUT WORLD CANDIDATES FEATURES BLOCKS CLOZE VALIDATION BOOTSTRAP RATINGS PARTS TASK "
        "TEXT WINDOWS GENERATION IMAGES MASKING PROBE TRIAL SWEEP"
    )
    assert [int(s) for s in Stream] == list(range(22))
    assert generator(0, Stream.SHUFFLE, 3).integers(10**6, size=3).tolist() == [6360, 669310, 218719]


MASK = (1 << 64) - 1
ODD = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xABC98388FB8FAC03, 0x8CB92BA72F3D8DD7)


def split_mix(z):
    """SplitMix64's output function in Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("rows", [None, [5, 0, 9]])
@pytest.mark.parametrize("shape", [(3,), (3, 6), (3, 2, 5), (3, 2, 4, 7)])
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.75])
def test_a_mask_is_a_hash_of_key_row_and_place(shape, rate, rows):
    """Of three axes the last two are one: so a row's mask goes on where a longer slice of it goes on."""
    key = int(np.random.default_rng(3).integers(0, 1 << 64, dtype=np.uint64))
    rng = np.random.default_rng(3)
    mask = keep_mask(rng if rows is None else MaskKeys(rng, np.array(rows)), shape, rate)
    flat = mask.reshape(shape[0], -1) if len(shape) == 3 else mask
    for at in np.ndindex(flat.shape):
        *lead, last = at
        number = key + (last // 4 + 1) * ODD[0]
        for axis, place in enumerate(lead):
            number += (place if axis or rows is None else rows[place]) * ODD[1 + axis]
        bits = split_mix(number & MASK) >> (16 * (last % 4)) & 0xFFFF
        assert flat[at] == (bits >= round(rate * 65536)), at


def test_a_rate_is_exact_to_one_part_of_65536_and_below_one():
    draws = keep_mask(np.random.default_rng(0), 200_000, 0.3)
    assert abs(draws.mean() - 0.7) < 5 * np.sqrt(0.21 / 200_000)
    assert [_threshold(rate) for rate in (0.0, 0.3, 0.5, 0.999999)] == [0, 19661, 32768, 65535]
    assert keep_mask(np.random.default_rng(0), (4, 50), 0.0).all()
    assert keep_mask(np.random.default_rng(0), 300_000, 0.999999).any()             # one in 65536 is kept, never none
    for rate in (1.0, -0.01, float("nan")):
        with pytest.raises(ValueError, match=f"dropout: rate is {rate}, expected 0 <= rate < 1"):
            keep_mask(np.random.default_rng(0), 4, rate)
    keep = pair_mask(np.random.default_rng(0), 0.5)
    assert (keep.rate, keep.rows, keep.heads) == (0.5, None, (0, 1))


def test_a_pair_mask_of_some_heads_is_what_all_heads_keep():
    like, queries, keys = np.zeros(1), slice(1, 6), slice(2, 9)
    mask = pair_mask(np.random.default_rng(1), 0.4)
    whole = mask.tile((2, 6), queries, keys, like)
    assert np.array_equal(mask._replace(heads=(1, 2)).tile((2, 3), queries, keys, like), whole[:, 1::2])
    assert np.array_equal(mask._replace(heads=(4, 1)).tile((2, 2), queries, keys, like), whole[:, 4:])
    assert np.array_equal(mask._replace(heads=(1, 2)).tile((2, 3), queries, keys, like, (1, 2)), whole[1, 5])
