"""Attention in blocks: full attention under the same mask, dropout of the same pairs, patterns, and what is refused."""

import itertools

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import gradcheck
from tinyattn.ops import BlockLayout, Blocks
from tinyattn.ops.attention.patterns import BigBird, Near, NearAndGlobal, NearOrResidues, Pattern, Residues
from tinyattn.random import Stream, generator, keep_mask, pair_mask

EMPTY = -1
UNEVEN = BlockLayout(5, 4, (  # query 3 is in no block; no query reads key 3
    Blocks(np.array([[4, 0], [2, EMPTY]]), np.array([[0, EMPTY, 2], [1, 0, 2]]),
           np.array([[[1, 1, 1], [0, 1, 1]], [[1, 0, 1], [1, 1, 1]]], bool)),
    Blocks(np.array([[1]]), np.array([[2, 1]])),
))  # fmt: skip


def by_definition(pattern, n):
    """Who looks at whom, as the papers say it."""
    i, j = np.indices((n, n))
    if isinstance(pattern, BigBird):
        i, j = i // pattern.size, j // pattern.size
        blocks = -(-n // pattern.size)
        drawn = np.zeros((blocks, blocks), bool)
        for block in range(pattern.first, blocks):
            others = list(range(pattern.first, block - pattern.near + 1))  # before it, neither near nor global
            few = min(len(others), pattern.random)
            if few:
                chosen = generator(0, Stream.BLOCKS, block).choice(len(others), few, replace=False)
                drawn[block, [others[c] for c in chosen]] = True
            assert drawn[block].sum() == few
        seen = (abs(i - j) < pattern.near) | (np.minimum(i, j) < pattern.first) | (drawn | drawn.T)[i, j]
    else:
        far = abs(i - j)
        seen = np.zeros((n, n), bool)
        if isinstance(pattern, Near):
            seen |= far < pattern.window
        if isinstance(pattern, NearAndGlobal):
            seen |= np.minimum(i, j) < pattern.tokens
        if isinstance(pattern, Residues):
            seen |= far % pattern.stride == 0
        if isinstance(pattern, NearOrResidues):
            seen |= far < pattern.stride
    return np.tril(seen) if pattern.causal else seen


def patterns(causal):
    for size in (1, 3, 20, 60):
        yield from (Near(causal, size), Residues(causal, size), NearOrResidues(causal, size))
    yield from (NearAndGlobal(causal, w, g) for w in (1, 4, 30) for g in (0, 1, 5, 60))
    yield from (BigBird(causal, *sizes) for sizes in itertools.product((1, 3, 8), (1, 2), (0, 1, 2), (0, 1, 3)))


def drawn(rng, lead, n, m, d=6, e=4):
    return [rng.standard_normal((*lead, *shape)) for shape in ((n, d), (m, d), (m, e), (n, e))]


@pytest.mark.host  # integers, and no array of a device
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both sides"])
def test_the_blocks_of_a_pattern_hold_it_at_any_length(causal):
    """Also where no block's size divides n: no pair is lost, and none is added."""
    for pattern in patterns(causal):
        full = by_definition(pattern, 40)
        for n in (*range(20), 27, 33, 40):
            found = pattern.layout(n).mask
            if isinstance(pattern, NearAndGlobal):  # the first queries have separate blocks
                of_globals = pattern.of_globals(n)
                assert not found[: of_globals.n].any()
                found[: of_globals.n, : of_globals.m] = of_globals.mask
            expected = full[:n, :n]  # whatever follows
            np.testing.assert_array_equal(found, expected, err_msg=f"{pattern}, n = {n}")
            i = np.arange(n)
            np.testing.assert_array_equal(pattern.sees(i[:, None], i, n), expected)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both sides"])
def test_it_is_attention_under_the_mask_and_the_dropout_of_all_pairs(causal, rng):
    """Value, weights, gradients: with padding, with dropout, in both dtypes; a weight for each pair."""
    chosen = [(p.layout(n)) for p in itertools.islice(patterns(causal), 0, None, 5) for n in (0, 1, 7, 37)]
    for layout, (dtype, atol) in itertools.product([UNEVEN, *chosen], ((np.float64, 1e-13), (np.float32, 2e-5))):
        n, m = layout.n, layout.m
        q, k, v, dout = (a.astype(dtype) for a in drawn(rng, (2, 3), n, m))
        for keys, rate in ((None, 0.0), (rng.random((2, 1, m)) < 0.7, 0.3)):
            keep = pair_mask(np.random.default_rng(3), rate) if rate else None
            dense = keep_mask(np.random.default_rng(3), (2, 3, n, m), rate) if rate else None
            mask = layout.mask & (True if keys is None else keys[..., None, :])
            full, exact = ops.attention(q, k, v, mask, keep=dense, rate=rate, scale=0.6)
            out, weights = ops.block_sparse_attention(q, k, v, layout, keys, keep=keep, scale=0.6)
            assert sum(w.size for w in weights) == 6 * layout.pairs
            found = ops.block_sparse_attention_backward(dout, q, k, v, weights, layout, keep=keep, scale=0.6)
            expected = ops.attention_backward(dout, q, k, v, exact, keep=dense, rate=rate, scale=0.6)
            pairs = [(out, full), *zip(found[:3], expected[:3], strict=True)]
            if weights:
                pairs.append((ops.dense_weights(weights, layout), exact))
            for mine, theirs in pairs:
                assert mine.dtype == dtype
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol)
            assert found[3] is None


def test_differences_with_dropout_and_a_bias(rng):
    q, k, v, _ = drawn(rng, (2,), 9, 9, 2, 2)
    layout, keep = Near(False, 3).layout(9), pair_mask(np.random.default_rng(1), 0.4)
    for shape in (layout.groups[0].looks.shape, layout.groups[0].looks.shape[1:]):
        bias = rng.standard_normal(shape)
        call = (q, k, v, layout, rng.random(9) < 0.8, bias, keep, 0.9)
        assert gradcheck(ops.block_sparse_attention, ops.block_sparse_attention_backward, *call)


def test_half_of_the_heads_drop_what_they_drop_among_all(rng):
    q, k, v, _ = drawn(rng, (2, 5), 20, 20)
    layout, keep = Near(True, 4).layout(20), pair_mask(np.random.default_rng(1), 0.4)
    every, _ = ops.block_sparse_attention(q, k, v, layout, keep=keep)
    for first in (0, 1):
        some = (x[:, first::2] for x in (q, k, v))
        out, _ = ops.block_sparse_attention(*some, layout, keep=keep._replace(heads=(first, 2)))
        np.testing.assert_allclose(out, every[:, first::2], rtol=0, atol=1e-14)


def test_a_key_that_many_blocks_have(rng):
    """More blocks than are added one by one; other keys are in few blocks or in none."""
    for z in (16, 17, 40):
        keys = np.column_stack([np.zeros(z, int), 1 + np.arange(z) % 3, np.where(np.arange(z) < 5, 4, EMPTY)])
        layout = BlockLayout(z, 6, (Blocks(np.arange(z)[:, None], keys),))
        q, k, v, dout = drawn(rng, (2,), z, 6)
        _, weights = ops.block_sparse_attention(q, k, v, layout)
        _, exact = ops.attention(q, k, v, layout.mask)
        found = ops.block_sparse_attention_backward(dout, q, k, v, weights, layout)
        for mine, theirs in zip(found, ops.attention_backward(dout, q, k, v, exact)[:3], strict=False):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
        assert not found[1][:, 5].any()


def slope(pattern):
    """The power of n with which its work grows."""
    few, many = (pattern(n).layout(n).pairs for n in (1024, 4096))
    return np.log(many / few) / np.log(4)


@pytest.mark.host  # integers, and no array of a device
def test_the_work_is_counted():
    """Pairs that are computed: as many as there are weights, and how they grow."""
    assert UNEVEN.pairs == 2 * 2 * 3 + 1 * 2
    assert Near(True, 17).layout(64).pairs == 4 * 17 * 33  # chunks of 17 queries with the 16 keys before them
    assert BigBird(True, 4, 2, 1, 1).layout(64).pairs <= 64 * 4 * 4
    linear = (lambda n: Near(True, 20), lambda n: NearAndGlobal(True, 20, 4), lambda n: BigBird(True, 16, 2, 1, 2),
              lambda n: NearAndGlobal(False, 20, 4), lambda n: BigBird(False, 16, 2, 0, 2))  # fmt: skip
    for pattern in linear:
        assert 0.98 < slope(pattern) < 1.03
    for kind in (Residues, NearOrResidues):
        assert 1.49 < slope(lambda n, kind=kind: kind(True, round(n**0.5))) < 1.51  # n √n, as Child et al. have it
        assert slope(lambda n, kind=kind: kind(True, 32)) > 1.5  # n² / ℓ with a fixed stride
    for pattern in (Near(True, 20), BigBird(True, 16, 2, 1, 2)):
        layout = pattern.layout(4096)
        assert layout.mask.sum() / layout.pairs > 0.45  # nearly half of the computed pairs may look


@pytest.mark.host  # integers, and no array of a device
@pytest.mark.parametrize(
    ("pattern", "n", "pairs"),
    [
        (Near(True, 3), 1, 1),
        (Near(True, 3), 5, 5 * 5),  # one chunk, which has no neighbours
        (Near(True, 60), 5, 5 * 5),
        (Near(True, 3), 64, 4 * 16 * (2 + 16)),  # chunks of 16, with the window - 1 keys before, and after
        (Near(False, 3), 64, 4 * 16 * (2 + 16 + 2)),
        (NearAndGlobal(True, 3, 5), 10, 5 * (5 + 5)),
        (NearAndGlobal(True, 3, 5), 3, 0),
        (Residues(True, 5), 3, 3 * 1),
        (Residues(True, 5), 11, 5 * 3 * 3),
        (NearOrResidues(True, 3), 1, 1 + 1),
        (NearOrResidues(True, 3), 10, 10 * (3 + 4)),
        (NearOrResidues(False, 3), 10, 10 * (5 + 4)),
        (NearOrResidues(True, 60), 5, 5 * (5 + 1)),
        (BigBird(True, 4, 2, 0, 0), 10, 4 * (4 + 8 + 8)),
        (BigBird(False, 4, 2, 0, 0), 10, 4 * (8 + 12 + 8)),
        (BigBird(False, 4, 1, 1, 0), 16, 4 * 16 + 3 * 4 * 8),
        (BigBird(False, 4, 1, 2, 0), 4, 4 * 4),
        (BigBird(False, 8, 1, 0, 0), 5, 5 * 5),
        (BigBird(True, 4, 1, 0, 1), 12, 4 * (4 + 8 + 8)),
        (BigBird(True, 4, 1, 0, 1), 0, 0),
    ],
)
def test_no_block_is_larger_than_it_has_to_be(pattern, n, pairs):
    """Pairs are queries times keys of the blocks; a block of one query has no hidden key."""
    layout = pattern.layout(n)
    assert layout.pairs == pairs
    if isinstance(pattern, NearOrResidues):
        assert sum(int((of.keys >= 0).sum()) for of in layout.groups) == layout.mask.sum()


def test_what_the_patterns_promise():
    n, i = 50, np.arange(50)
    near, far = Near(True, 7).layout(n).mask, Residues(True, 7).layout(n).mask
    np.testing.assert_array_equal((near.astype(int) @ far) > 0, np.tri(n, dtype=bool))  # two hops reach all before
    both = NearOrResidues(True, 7).layout(n).mask
    np.testing.assert_array_equal(both, near | far)
    for causal, every in ((True, np.tri(n, dtype=bool)), (False, np.ones((n, n), bool))):
        for whole in (BigBird(causal, 8, 7, 0, 0), BigBird(causal, 8, 1, 7, 0), BigBird(causal, 8, 1, 0, 7),
                      Near(causal, n), Residues(causal, 1), NearOrResidues(causal, n)):  # fmt: skip
            np.testing.assert_array_equal(whole.layout(n).mask, every)
    for pattern in patterns(True):
        assert not np.triu(pattern.sees(i[:, None], i, n), 1).any()  # nobody looks ahead, global or not


@pytest.mark.host  # integers, and no array of a device
def test_what_a_layout_refuses():
    one, two = np.array([[0]]), np.array([[0, 1]])
    for groups, says in (
        ((Blocks(two, one), Blocks(one, one)), "query 0 stands in more than one block"),
        ((Blocks(np.array([[1, 1]]), one),), "query 1 stands in more than one block"),
        ((Blocks(one, np.array([[1, -1, 0, -1, 1]])),), "key 1 stands twice in a block"),
        ((Blocks(one, np.array([[0, -1, 0, -1, 1]])),), "key 0 stands twice in a block"),
        ((Blocks(one, np.array([0])),), r"queries and keys are \(z, a\) and \(z, b\)"),
        ((Blocks(np.array([[3]]), one),), "query 3 is out of range: expected 0 <= query < 3"),
        ((Blocks(one, np.array([[2]])),), "key 2 is out of range: expected 0 <= key < 2"),
        ((Blocks(one, np.array([[-2]])),), "key -2 is out of range"),
        ((Blocks(np.array([0]), one),), r"queries and keys are \(z, a\) and \(z, b\)"),
        ((Blocks(one, np.zeros((2, 1), int)),), r"queries and keys are \(z, a\) and \(z, b\)"),
        ((Blocks(one, two, np.ones((1, 1, 1), bool)),), r"allowed is bool \(1, 1, 1\), expected bool \(1, 1, 2\)"),
        ((Blocks(one, one, np.ones((1, 1, 1))),), "allowed is float64"),
    ):
        with pytest.raises(ValueError, match=says):
            BlockLayout(3, 2, groups)
    assert BlockLayout(3, 2, (Blocks(two, two), Blocks(np.array([[2]]), two))).pairs == 6


@pytest.mark.parametrize(("n", "m"), [(0, 2), (2, 0), (0, 0)])
def test_blocks_of_nothing(n, m, rng):
    layout = BlockLayout(n, m, (Blocks(np.full((1, 2), -1), np.full((1, 3), -1)),))
    q, k, v, dout = drawn(rng, (2,), n, m)
    out, weights = ops.block_sparse_attention(q, k, v, layout, np.ones(m, bool))
    found = ops.block_sparse_attention_backward(dout, q, k, v, weights, layout)[:3]
    for mine, like in zip((out, *found), (dout, q, k, v), strict=True):
        assert np.array_equal(mine, np.zeros_like(like))


def test_what_is_refused(rng):
    q, k, v, dout = drawn(rng, (), 5, 4)
    _, weights = ops.block_sparse_attention(q, k, v, UNEVEN)
    biased = {"bias": np.zeros((1, 1))}
    for layout, given in ((Near(True, 1).layout(5), {}), (BlockLayout(4, 4, ()), {}), (UNEVEN, biased)):
        says = "needs a layout of one group, this has 2" if given else r"\(n, m\) is \(5, 4\), and the layout is for"
        with pytest.raises(ValueError, match=says):
            ops.block_sparse_attention(q, k, v, layout, **given)
        with pytest.raises(ValueError, match=says):
            ops.block_sparse_attention_backward(dout, q, k, v, weights, layout, **given)
    with pytest.raises(ValueError, match=r"k has shape \(4, 5\), expected .*d = 6"):
        ops.block_sparse_attention(q, k[:, :5], v, UNEVEN)
    with pytest.raises(TypeError, match="keys has dtype int64, expected bool"):
        ops.block_sparse_attention(q, k, v, UNEVEN, np.ones(4, np.int64))
    for make, says in ((lambda: Near(True, 0), "Near: window is 0, expected at least 1"),
                       (lambda: BigBird(True, 0, 1, 0, 0), "size is 0"),
                       (lambda: BigBird(True, 1, 0, 0, 0), "near is 0"),
                       (lambda: BigBird(True, 1, 1, 0, -1), "random is -1"),
                       (lambda: Residues(True, 0), "stride is 0"),
                       (lambda: NearAndGlobal(True, 0, 1), "window is 0"),
                       (lambda: NearAndGlobal(True, 1, -1), "tokens is -1, expected at least 0")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            make()
    with pytest.raises(NotImplementedError):
        Pattern(True).layout(3)
