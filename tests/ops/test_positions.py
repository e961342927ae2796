"""Positions: the laws of each table, and what is refused. Their specs have the rest."""

import itertools
import math

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.ops.positions.rotary_speeds import SCALINGS


@pytest.mark.parametrize("dim", [0, 1, 2, 5, 8])
def test_sinusoids_and_rotary_tables_number_by_number(dim, rng):
    every = itertools.product([(), (5,), (2, 3), (0,)], [10000.0, 7, 0.5], (np.float32, np.float64))
    for shape, base, dtype in every:
        slots = rng.integers(0, 50, shape)
        found = ops.sinusoids(slots, dim, dtype, base)
        assert (found.dtype, found.shape) == (dtype, (*shape, dim))
        tables = None if dim % 2 else ops.rotary_tables(slots, dim, dtype, base)
        for *token, i in np.ndindex(*shape, dim):
            at = tuple(token)
            angle = slots[at] / base ** (i // 2 * 2 / dim)
            expected = math.cos(angle) if i % 2 else math.sin(angle)
            assert abs(found[at][i] - expected) < (1e-6 if dtype == np.float32 else 1e-13)
            if tables is not None:
                table = tables[1 - i % 2]
                assert (table.dtype, table.shape) == (dtype, (*shape, dim // 2))
                assert abs(table[at][i // 2] - (math.sin(angle) if not i % 2 else math.cos(angle))) < 1e-6


def test_both_begin_with_base_10000():
    slots = np.arange(9)
    np.testing.assert_array_equal(ops.sinusoids(slots, 6, np.float64), ops.sinusoids(slots, 6, np.float64, 10000))
    for mine, theirs in zip(ops.rotary_tables(slots, 6, "d"), ops.rotary_tables(slots, 6, "d", 10000), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_moving_on_is_a_rotation_and_products_know_the_distance_alone():
    """PE(p + δ) = R(δ) PE(p), and PE(p) · PE(r) = f(p - r)."""
    pe = ops.sinusoids(np.arange(60), 6, np.float64)
    cos, sin = ops.rotary_tables(np.array([13]), 6, np.float64)
    np.testing.assert_allclose(pe[13:], ops.rotary(pe[:-13], cos, -sin), rtol=0, atol=1e-12)  # sine first: clockwise
    products = pe @ pe.T
    np.testing.assert_allclose(products[1:, 1:], products[:-1, :-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("start", [0, 7, 100_000])
def test_turned_queries_and_keys_know_the_distance_alone_wherever_they_begin(start, rng):
    q, k = rng.standard_normal((2, 3, 9, 6))
    here, there = (ops.rotary_tables(np.arange(9) + first, 6, np.float64) for first in (0, start))
    scores = [ops.rotary(q, *t) @ ops.rotary(k, *t).swapaxes(-1, -2) for t in (here, there)]
    np.testing.assert_allclose(scores[1], scores[0], rtol=0, atol=1e-9)
    whole = ops.rotary_tables(np.arange(start + 9), 6, np.float32)
    for mine, theirs in zip(whole, there, strict=True):  # far from the start, float32 tables are as good as near
        np.testing.assert_allclose(mine[start:], theirs, rtol=0, atol=1e-7)


def test_tables_of_each_sequence_stand_beside_its_heads(rng):
    x, slots = rng.standard_normal((3, 2, 4, 6)), np.array([[0, 1, 2, 3], [5, 6, 7, 8], [2, 3, 4, 5]])
    cos, sin = (table[:, None] for table in ops.rotary_tables(slots, 6, np.float64))
    for row in range(3):
        alone = ops.rotary(x[row], *ops.rotary_tables(slots[row], 6, np.float64))
        np.testing.assert_array_equal(ops.rotary(x, cos, sin)[row], alone)


def plain_speeds(d, base, scaling, s, L, slow, fast):
    """Pair by pair, with yarn's ramp in the pair's index, as in its released code."""
    found = []
    for i in range(d // 2):
        w = base ** (-2 * i / d)
        at = [d * math.log(L / (2 * math.pi * r)) / (2 * math.log(base)) for r in (fast, slow)]
        first, last = max(math.floor(at[0]), 0), min(math.ceil(at[1]), d - 1)
        keep = {
            "none": 1, "linear": 0, "ntk": 0, "yarn": 1 - (i - first) / (last - first or 0.001),
            "llama3": (L * w / (2 * math.pi) - slow) / (fast - slow),
        }[scaling]  # fmt: skip
        keep = min(max(keep, 0), 1)
        slower = (base * s ** (d / (d - 2))) ** (-2 * i / d) if scaling == "ntk" else w / s
        found.append(keep * w + (1 - keep) * slower)
    return found


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("d", [4, 16, 128])
def test_scaled_speeds_number_by_number(scaling, d):
    for base, s, L, fast in itertools.product((500.0, 1e4), (1.0, 2.5, 32.0), (60, 2048, 8192), (4.0, 32.0)):
        found = ops.rotary_speeds(d, np.zeros(1, np.float32), base, scaling, s, L, 1.0, fast)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, plain_speeds(d, base, scaling, s, L, 1.0, fast), rtol=1e-13)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scaled_speeds_are_between_those_of_training_and_a_factor_below(scaling):
    """A factor of 1 changes nothing; the slowest pair of any scaling is divided by the whole factor."""
    plain = ops.rotary_speeds(64, np.zeros(1))
    once, scaled = (ops.rotary_speeds(64, np.zeros(1), 1e4, scaling, s) for s in (1, 8))
    np.testing.assert_allclose(once, plain, rtol=1e-15)
    assert np.all(np.diff(scaled) < 0)
    assert np.all(scaled <= plain * (1 + 1e-15))
    assert np.all(scaled >= plain / 8 * (1 - 1e-15))
    if scaling != "none":
        assert scaled[-1] == pytest.approx(plain[-1] / 8)
        assert scaled[0] == pytest.approx(1 / 8 if scaling == "linear" else 1)
    assert ops.rotary_speeds(2, np.zeros(1), 1e4, scaling, 8)[0] == (1 / 8 if scaling == "linear" else 1)
    assert ops.rotary_speeds(0, np.zeros(1), 1e4, scaling, 8).shape == (0,)


def test_linear_scaling_is_a_slower_walk():
    """Token 4 p of a text that is read four times as far stands where token p stood."""
    slow = ops.rotary_tables(np.arange(40), 6, "d", speeds=ops.rotary_speeds(6, np.zeros(1), 1e4, "linear", 4))
    for mine, theirs in zip(slow, ops.rotary_tables(np.arange(10), 6, "d"), strict=True):
        np.testing.assert_allclose(mine[::4], theirs, rtol=0, atol=1e-14)


def test_the_ramp_of_the_paper_is_not_that_of_its_code():
    """The ramp in section 3.2 of YaRN is linear in the turns of a pair, its released code in the number of the pair.

    For LLaMA 2, read 16 times as far, the code turns a pair up to 3 times as fast as the paper.
    """
    both = [ops.rotary_speeds(128, np.zeros(1), 1e4, kind, 16, 4096, 1, 32) for kind in ("yarn", "llama3")]
    ratio = both[0] / both[1]
    assert ratio.max() == pytest.approx(3.04, abs=0.005)
    assert np.sum(ratio > 1.001) == 24


@pytest.mark.parametrize("heads", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_alibi_number_by_number(heads, dtype):
    bias = ops.alibi(5, 4, heads, np.zeros(1, dtype))
    assert (bias.dtype, bias.shape) == (dtype, (heads, 5, 4))
    for k, i, j in np.ndindex(bias.shape):
        assert bias[k, i, j] == pytest.approx(-(2 ** (-8 * (k + 1) / heads)) * abs(i - j), rel=1e-6)
    assert ops.alibi(0, 3, heads, np.zeros(1, dtype)).shape == (heads, 0, 3)


@pytest.mark.host
@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ops.rotary(np.ones((2, 5)), np.ones((2, 2)), np.ones((2, 2))), ValueError, "rotary: .* is 5, .* even"),
        (lambda: ops.rotary_backward(np.ones((2, 5)), np.ones((2, 2)), np.ones((2, 2))), ValueError, "backward: .* 5"),
        (lambda: ops.rotary_tables(np.arange(3), 5, "f"), ValueError, "rotary_tables: the width of a head is 5"),
        (lambda: ops.rotary_tables(np.arange(3), 4, "f", 0), ValueError, "rotary_tables: base is 0, expected a"),
        (lambda: ops.rotary_tables(np.arange(3.0), 4, "f"), TypeError, "slots has dtype float64, expected integers"),
        (
            lambda: ops.rotary(np.ones((7, 4)), *ops.rotary_tables(np.arange(6), 4, "d")),
            ValueError,
            r"rotary: cos has shape \(6, 2\), expected one that broadcasts to \(7, 2\)",
        ),
        (lambda: ops.rotary_tables(np.arange(3), 4, "f", speeds=np.ones(3)), ValueError, r"has shape \(3,\)"),
        (lambda: ops.rotary_speeds(5, np.ones(1)), ValueError, "rotary_speeds: d is 5, expected an even number"),
        (lambda: ops.rotary_speeds(4, np.ones(1), 0), ValueError, "base is 0, expected a positive number"),
        (lambda: ops.rotary_speeds(4, np.ones(1), 1.0, "yarn"), ValueError, "base is 1.0, expected above 1"),
        (lambda: ops.rotary_speeds(4, np.ones(1), 2.0, "su"), ValueError, "scaling is su, expected one of none"),
        (lambda: ops.rotary_speeds(4, np.ones(1), 2.0, "ntk", 0.5), ValueError, "factor is 0.5, expected at least 1"),
        (lambda: ops.rotary_speeds(4, np.ones(1), 2.0, "ntk", 2, 0), ValueError, "trained is 0, expected a positive"),
        (lambda: ops.rotary_speeds(4, np.ones(1), scaling="yarn", trained=np.inf), ValueError, "trained is inf, exp"),
        (lambda: ops.rotary_speeds(4, np.ones(1), slow=0), ValueError, "slow is 0, expected a positive number"),
        (lambda: ops.rotary_speeds(4, np.ones(1), fast=1), ValueError, "fast is 1, expected above slow, which is 1.0"),
        (lambda: ops.sinusoids(np.arange(3), -1, "f"), ValueError, "sinusoids: dim is -1, expected at least 0"),
        (lambda: ops.sinusoids(np.arange(3), 4, "f", -2.0), ValueError, "sinusoids: base is -2.0, expected a positive"),
        (lambda: ops.sinusoids(np.arange(3.0), 4, "f"), TypeError, "sinusoids: slots has dtype float64"),
        (lambda: ops.sinusoids(np.arange(3), 4, int), TypeError, "sinusoids: dtype is int64, expected float32 or"),
        (lambda: ops.alibi(3, 3, 0, np.ones(1)), ValueError, "alibi: heads is 0, expected at least 1"),
        (lambda: ops.alibi(3, 3, 2, np.ones(1, int)), TypeError, "alibi: like has dtype int64, expected float32 or"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_distance_buckets_number_by_number():
    """Eight buckets, four of them for distances 0 to 3, and four up to 64 by factors of 2; T5's own, at its edges."""
    at = {0: 0, 1: 1, 3: 3, 4: 4, 7: 4, 8: 5, 15: 5, 16: 6, 31: 6, 32: 7, 63: 7, 64: 7, 69: 7}
    causal = ops.distance_buckets(70, 70, np.zeros(1), 8, 64)
    both = ops.distance_buckets(70, 70, np.zeros(1), 16, 64, causal=False)
    for distance, bucket in at.items():
        i = 69
        assert causal[i, i - distance] == both[i, i - distance] == bucket
        assert causal[i - distance, i] == 0
        assert both[i - distance, i] == bucket + (8 if distance else 0)
    assert np.array_equal(causal[1:, 1:], causal[:-1, :-1])
    theirs = {0: 0, 15: 15, 16: 16, 18: 16, 19: 17, 20: 17, 21: 18, 63: 26, 64: 26, 113: 31, 127: 31, 128: 31, 500: 31}
    found = ops.distance_buckets(501, 501, np.zeros(1))
    assert {distance: int(found[500, 500 - distance]) for distance in theirs} == theirs
    assert ops.distance_buckets(3, 5, np.zeros(1)).shape == (3, 5)
    assert ops.distance_buckets(0, 5, np.zeros(1)).shape == (0, 5)
    assert ops.distance_buckets(2, 2, np.zeros(1), 2, 2).tolist() == [[0, 0], [1, 0]]
    assert ops.distance_buckets(2, 2, np.zeros(1), 4, 2, causal=False).tolist() == [[0, 3], [1, 0]]


@pytest.mark.host
def test_buckets_that_cannot_be_are_refused_by_name():
    for arguments, says in (
        ((1, 9), "buckets is 1, expected at least 2"),
        ((3, 9, False), "buckets is 3, expected at least 4"),
        ((32, 16), "furthest is 16, expected above 16"),
    ):
        with pytest.raises(ValueError, match=says):
            ops.distance_buckets(3, 3, np.zeros(1), *arguments)
    with pytest.raises(IndexError):
        ops.bucket_bias(np.ones((2, 3)), np.full((1, 1), 2))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 6), (6, 1), (9, 9), (4, 9), (9, 4), (0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("K", [0, 1, 3, 20])
def test_relative_scores_and_values_of_every_size(n, m, K, rng):
    """Distances beyond K share, those that do not occur get no gradient, and nothing warns where there is nothing."""
    q, w, a = rng.standard_normal((2, n, 4)), rng.standard_normal((2, n, m)), rng.standard_normal((2 * K + 1, 4))
    r = np.clip(np.arange(m) - np.arange(n)[:, None], -K, K) + K
    np.testing.assert_allclose(ops.relative_scores(q, a, m), np.einsum("bic,ijc->bij", q, a[r]), rtol=0, atol=1e-12)
    np.testing.assert_allclose(ops.relative_values(w, a), np.einsum("bij,ijc->bic", w, a[r]), rtol=0, atol=1e-12)
    da = np.zeros_like(a)
    np.add.at(da, r, np.einsum("bij,bic->ijc", w, q))
    dq, of_scores = ops.relative_scores_backward(w, q, a)
    dw, of_values = ops.relative_values_backward(q, w, a)
    np.testing.assert_allclose(of_scores, da, rtol=0, atol=1e-12)
    np.testing.assert_allclose(of_values, da, rtol=0, atol=1e-12)
    np.testing.assert_allclose(dq, ops.relative_values(w, a), rtol=0, atol=1e-12)
    np.testing.assert_allclose(dw, ops.relative_scores(q, a, m), rtol=0, atol=1e-12)


@pytest.mark.host
def test_vectors_that_do_not_fit_are_refused_by_name(rng):
    q, w = rng.standard_normal((3, 4)), rng.standard_normal((3, 3))
    for call, says in (
        (lambda: ops.relative_scores(q, np.ones((4, 4)), 3), "relative_scores: a has 4 rows, expected an odd number"),
        (lambda: ops.relative_scores(q, np.ones((5, 3)), 3), r"relative_scores: a has shape \(5, 3\)"),
        (lambda: ops.relative_scores_backward(w, q, np.ones((2, 4))), "relative_scores_backward: a has 2 rows"),
        (lambda: ops.relative_scores_backward(w, q, np.ones((5, 3))), "relative_scores_backward: a has shape"),
        (lambda: ops.relative_values(w, np.ones((4, 4))), "relative_values: a has 4 rows"),
        (lambda: ops.relative_values(w, np.ones((2, 5, 4))), r"relative_values: a has shape \(2, 5, 4\)"),
        (lambda: ops.relative_values_backward(q, w, np.ones((4, 4))), "relative_values_backward: a has 4 rows"),
        (lambda: ops.relative_values_backward(q, w, np.ones((5, 3))), "relative_values_backward: a has shape"),
    ):
        with pytest.raises(ValueError, match=says):
            call()


def test_time_buckets_number_by_number():
    """Steps of 0.301 of the natural logarithm; none for less than 1.35 seconds, and none for what comes later."""
    seconds = np.array([[0.0, 1.0, 2.0, 60.0, 60.0, 90_060.0]])
    found = ops.time_buckets(seconds, 40)[0]
    assert found[3].tolist() == [13, 13, 13, 0, 0, 0]  # log 60 = 4.09, log 59 = 4.08, log 58 = 4.06
    assert found[5].tolist() == [37, 37, 37, 37, 37, 0]  # log 90,000 = 11.4
    assert found[2, 0] == 2  # log 2 = 0.69
    assert not found[0].any()
    assert ops.time_buckets(seconds, 5).max() == 4
    assert ops.time_buckets(seconds.astype(int), 40)[0].tolist() == found.tolist()
    np.testing.assert_array_equal(ops.time_buckets(seconds + 1.7e9, 40)[0], found)
    with pytest.raises(ValueError, match="buckets is 0, expected at least 1"):
        ops.time_buckets(seconds, 0)


def test_speeds_of_pairs_by_hand():
    """YaRN's ramp ends at d - 1 where slower pairs are still fast, and is a step where no pair lies between."""
    like, pairs = np.zeros(0), np.arange(4)
    plain = 10.0 ** (-pairs / 4)
    for keep, how in ((1 - pairs / 7, {"trained": 1e6, "fast": 1e5}), (pairs == 0, {"trained": 6})):
        found = ops.rotary_speeds(8, like, 10, "yarn", 4, **how)
        np.testing.assert_allclose(found, plain * (keep + (1 - keep) / 4), rtol=1e-12)
    for scaling in ("yarn", "llama3"):
        default = ops.rotary_speeds(64, like, scaling=scaling, factor=4)
        same = ops.rotary_speeds(64, like, 1e4, scaling, 4, trained=2048, slow=1, fast=32)
        np.testing.assert_array_equal(default, same)
    np.testing.assert_allclose(ops.rotary_speeds(4, like, 0.25, "linear"), [1, 2])
    for base, how in ((1.5, {"scaling": "yarn"}), (2, {"scaling": "llama3", "trained": 0.5})):
        assert np.all(ops.rotary_speeds(4, like, base, **how) > 0)
    with pytest.raises(ValueError, match="d is -2, expected an even number"):
        ops.rotary_speeds(-2, like)


def test_time_buckets_are_128_or_even_one():
    times = np.array([[0, 1e300]])
    assert ops.time_buckets(times).tolist() == [[[0, 0], [127, 0]]]
    assert not ops.time_buckets(times, 1).any()
