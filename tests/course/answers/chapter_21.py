"""Answers to the exercises of chapter 21."""

import numpy as np

from tinyattn.backend import get_xp
from tinyattn.course.exercises.chapter_21 import (
    OF_ROW,
    OF_WIDTH,
)

from . import listed

# --- repaired_clip --------------------------------------------------------------------------------------------------


def larger_below(g, most):
    xp = get_xp(g)
    return g * (most / xp.maximum(xp.sqrt(xp.sum(g * g)), most))


def two_factors(g, most):
    xp = get_xp(g)
    norm = xp.sqrt(xp.sum(g**2))
    return g * xp.minimum(1.0, most / (norm + 1e-30))


def chosen(g, most):
    xp = get_xp(g)
    norm = xp.sqrt(xp.sum(xp.square(g)))
    return xp.where(norm > most, g * (most / xp.where(norm > most, norm, 1.0)), g)


def by_norm(g, most):
    xp = get_xp(g)
    return g / xp.maximum(xp.linalg.norm(g) / most, 1)


def clipped_ratio(g, most):
    xp = get_xp(g)
    ratio = xp.sqrt(xp.sum(g * g)) / most
    return g / xp.clip(ratio, 1, None)


def a_masked_factor(g, most):
    xp = get_xp(g)
    norm = xp.sqrt((g * g).sum())
    long = (norm > most).astype(g.dtype)
    return g * (long * most / xp.maximum(norm, 1e-30) + (1 - long))


def by_vdot(g, most):
    xp = get_xp(g)
    flat = g.reshape(-1)
    return (flat * (most / xp.maximum(xp.sqrt(flat @ flat), most))).reshape(g.shape)


def einsum(g, most):
    xp = get_xp(g)
    square = xp.sum(xp.multiply(g, g))
    return most * g / xp.sqrt(xp.maximum(square, most**2))


def hypotenuse(g, most):
    """|c - n| has the sign in it: max(a, b) = (a + b + |a - b|) / 2."""
    xp = get_xp(g)
    norm = xp.sum(g * g) ** 0.5
    return g * (2 * most / (norm + most + xp.abs(norm - most)))


def an_if(g, most):
    xp = get_xp(g)
    norm = xp.sqrt(xp.sum(g * g))
    if norm > most:
        g = g * (most / norm)
    return g


def a_float(g, most):
    xp = get_xp(g)
    return g * (most / max(float(xp.sqrt(xp.sum(g * g))), most))


def an_item(g, most):
    xp = get_xp(g)
    return g * (most / max(xp.sqrt(xp.sum(g * g)).item(), most))


def a_list(g, most):
    xp = get_xp(g)
    return g * (most / max(*xp.sqrt(xp.sum(g * g)).reshape(1).tolist(), most))


def by_reduce(g, most):
    xp = get_xp(g)
    return g * (most / xp.maximum(xp.sqrt(xp.add.reduce((g * g).reshape(-1))), most))


def of_the_host(g, most):
    return g * (most / np.maximum(np.sqrt(np.sum(g * g)), most))


# --- my_sum_rows ----------------------------------------------------------------------------------------------------


def running_sums(ids, dy, V):
    xp = get_xp(dy)
    order = xp.argsort(ids)
    zero = xp.zeros((1, dy.shape[1]), dtype=xp.float64)
    c = xp.concatenate([zero, xp.cumsum(dy[order].astype(xp.float64), axis=0)])
    begin = xp.searchsorted(ids[order], xp.arange(V), side="left")
    end = xp.searchsorted(ids[order], xp.arange(V), side="right")
    return (c[end] - c[begin]).astype(dy.dtype)


def differences_of_edges(ids, dy, V):
    xp = get_xp(dy)
    order = xp.argsort(ids, kind="stable")
    c = xp.zeros((len(ids) + 1, dy.shape[1]))
    c[1:] = xp.cumsum(xp.take(dy, order, axis=0), axis=0, dtype=xp.float64)
    edges = xp.searchsorted(xp.take(ids, order), xp.arange(V + 1))
    return xp.diff(xp.take(c, edges, axis=0), axis=0).astype(dy.dtype)


def segments_that_are_never_empty(ids, dy, V):
    """A row of zeros for each id, so that reduceat meets no empty segment."""
    xp = get_xp(dy)
    ids = xp.concatenate([xp.arange(V), ids])
    dy = xp.concatenate([xp.zeros((V, dy.shape[1]), dtype=dy.dtype), dy])
    order = xp.argsort(ids, kind="stable")
    return xp.add.reduceat(dy[order], xp.searchsorted(ids[order], xp.arange(V)), axis=0)


def sorted_with_places(ids, dy, V):
    """Sorting id · N + place gives the order as well."""
    xp, N = get_xp(dy), len(ids)
    keys = xp.sort(ids * N + xp.arange(N))
    c = xp.cumsum(dy[keys % N].astype(float), axis=0)
    c = xp.concatenate([xp.zeros((1, dy.shape[1])), c])
    edges = xp.searchsorted(keys, xp.arange(V + 1) * N)
    return (c[edges[1:]] - c[edges[:-1]]).astype(dy.dtype)


def column_after_row(ids, dy, V):
    xp = get_xp(dy)
    order = xp.argsort(ids)
    c = xp.cumsum(dy.swapaxes(0, 1)[:, order].astype(xp.float64), axis=1)
    c = xp.pad(c, ((0, 0), (1, 0)))
    edges = xp.searchsorted(ids[order], xp.arange(V + 1))
    return (c[:, edges[1:]] - c[:, edges[:-1]]).swapaxes(0, 1).astype(dy.dtype)


def from_the_end(ids, dy, V):
    """Sums of what follows, in falling order."""
    xp = get_xp(dy)
    order = xp.argsort(-ids)
    c = xp.concatenate([xp.zeros((1, dy.shape[1])), xp.cumsum(dy[order].astype(float), axis=0)])
    fewer = xp.searchsorted(-ids[order], -xp.arange(V), side="left")
    more = xp.searchsorted(-ids[order], -xp.arange(V), side="right")
    return xp.take(c, more, axis=0).astype(dy.dtype) - xp.take(c, fewer, axis=0).astype(dy.dtype)


def zeros_in_front(ids, dy, V):
    """A row of zeros joins dy, with the id -1."""
    xp = get_xp(dy)
    ids = xp.concatenate([xp.full(1, -1), ids])
    dy = xp.concatenate([xp.zeros_like(dy[:1]), dy])
    order = xp.argsort(ids, kind="stable")
    c = xp.cumsum(dy[order].astype(xp.float64), axis=0)
    last = xp.searchsorted(ids[order], xp.arange(-1, V), side="right") - 1
    return xp.diff(c[last], axis=0).astype(dy.dtype)


def guarded_reduceat(ids, dy, V):
    """Empty segments are set to 0 afterwards."""
    xp = get_xp(dy)
    order = xp.argsort(ids, kind="stable")
    values = xp.concatenate([dy[order], xp.zeros_like(dy[:1])])
    edges = xp.searchsorted(ids[order], xp.arange(V + 1))
    sums = xp.add.reduceat(values, edges[:-1], axis=0)
    return xp.where((edges[1:] > edges[:-1]).reshape(-1, 1), sums, xp.zeros_like(sums))


def atomically(ids, dy, V):
    xp = get_xp(dy)
    dE = xp.zeros((V, dy.shape[1]), dtype=dy.dtype)
    xp.add.at(dE, ids, dy)
    return dE


def pair_table(ids, dy, V):
    xp = get_xp(dy)
    return (xp.arange(V).reshape(-1, 1) == ids).astype(dy.dtype) @ dy


def looks_for_each(ids, dy, V):
    xp = get_xp(dy)
    return xp.stack([xp.sum(xp.where((ids == v).reshape(-1, 1), dy, xp.zeros_like(dy)), axis=0) for v in range(V)])


def unique_ids(ids, dy, V):
    xp = get_xp(dy)
    order = xp.argsort(ids, kind="stable")
    found, first = xp.unique(ids[order], return_index=True)
    dE = xp.zeros((V, dy.shape[1]), dtype=dy.dtype)
    dE[found] = xp.add.reduceat(dy[order], first, axis=0)
    return dE


# --- my_keep_mask ---------------------------------------------------------------------------------------------------

TWO_64 = 2**64


def _mixed(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _mixed_int(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % TWO_64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % TWO_64
    return z ^ (z >> 31)


def in_one_line(key, rows, width, rate):
    number = np.uint64(key) + OF_ROW * rows.astype(np.uint64)[:, None]
    number = number + OF_WIDTH * np.arange(1, width + 1, dtype=np.uint64)
    return (_mixed(number) >> np.uint64(11)) / 2**53 >= rate


def whole_numbers_of_python(key, rows, width, rate):
    return np.array([
        [(_mixed_int((key + int(OF_ROW) * int(r) + int(OF_WIDTH) * j) % TWO_64) >> 11) / 2**53 >= rate
         for j in range(1, width + 1)] for r in rows
    ])  # fmt: skip


def outer_sum(key, rows, width, rate):
    of_rows = np.multiply(OF_ROW, rows, dtype=np.uint64, casting="unsafe")
    of_places = np.cumsum(np.full(width, OF_WIDTH))
    return (_mixed(np.add.outer(of_rows, of_places) + np.uint64(key)) >> np.uint64(11)) >= rate * 2.0**53


def row_by_row(key, rows, width, rate):
    keep = np.empty((len(rows), width), bool)
    for i, r in enumerate(rows):
        start = np.array([(key + int(OF_ROW) * int(r)) % TWO_64], np.uint64)
        keep[i] = (_mixed(start + OF_WIDTH * np.arange(1, width + 1).astype("u8")) >> np.uint64(11)) / 2.0**53 >= rate
    return keep


def not_dropped(key, rows, width, rate):
    places, numbers = np.meshgrid(np.arange(1, width + 1, dtype=np.uint64), np.asarray(rows, np.uint64))
    share = (_mixed(numbers * OF_ROW + places * OF_WIDTH + np.uint64(key)) >> np.uint64(11)) * 2.0**-53
    return ~(share < rate)


def flat_and_reshaped(key, rows, width, rate):
    numbers = np.repeat(np.asarray(rows).astype(np.uint64), width) * OF_ROW
    places = np.tile(np.arange(width, dtype=np.uint64) + np.uint64(1), len(rows)) * OF_WIDTH
    bits = _mixed(numbers + places + np.array(key, dtype=np.uint64))
    return ((bits >> np.uint64(11)).astype(float) / 2**53 >= rate).reshape(len(rows), width)


def ones_and_zeros(key, rows, width, rate):
    return np.where(in_one_line(key, rows, width, rate), 1, 0)


def from_a_view(key, rows, width, rate):
    number = np.empty((len(rows), width), np.uint64)
    number[:] = np.arange(1, width + 1)
    number *= OF_WIDTH
    number += (rows.astype(np.int64).view(np.uint64) * OF_ROW)[:, None]
    number += np.uint64(key)
    return np.greater_equal((_mixed(number) >> np.uint64(11)) / float(1 << 53), rate)


# --- cut_changes_nothing --------------------------------------------------------------------------------------------

ROWS, ORDER = np.array([17, 3, 8, 40, 3, 21]), np.array([4, 2, 5, 0, 3, 1])


def four_comparisons(keep):
    whole = keep(5, ROWS, 9, 0.4)
    parts = np.concatenate([keep(5, ROWS[:2], 9, 0.4), keep(5, ROWS[2:], 9, 0.4)])
    again, shorter = keep(5, ROWS, 9, 0.4), keep(5, ROWS, 4, 0.4)
    turned = keep(5, ROWS[ORDER], 9, 0.4)
    pairs = ((whole, parts), (whole, again), (whole[:, :4], shorter), (whole[ORDER], turned))
    return all(np.array_equal(x, y) for x, y in pairs)


def it_asserts(keep):
    rows = np.array([9, 2, 30, 4])
    whole = keep(8, rows, 12, 0.5)
    np.testing.assert_array_equal(whole[2:], keep(8, rows[2:], 12, 0.5))
    np.testing.assert_array_equal(whole[::-1], keep(8, rows[::-1], 12, 0.5))
    np.testing.assert_array_equal(whole[:, :5], keep(8, rows, 5, 0.5))


def each_row_alone(keep):
    rows = np.array([50, 1, 20, 7])
    whole = keep(3, rows, 16, 0.3)
    alone = [keep(3, rows[i : i + 1], 16, 0.3)[0] for i in range(4)]
    narrow = [keep(3, rows[i : i + 1], 10, 0.3)[0] for i in range(4)]
    return bool((whole == np.array(alone)).all() and (whole[:, :10] == np.array(narrow)).all())


def random_parts(keep):
    rng = np.random.default_rng()
    rows = rng.permutation(200)[:20]
    whole = keep(77, rows, 30, 0.5)
    for _ in range(5):
        some = rng.permutation(20)[:7]
        width = int(rng.integers(10, 30))
        if not np.array_equal(whole[some][:, :width], keep(77, rows[some], width, 0.5)):
            return False
    return True


def as_a_dictionary(keep):
    """Whatever the batch, (row, place) has one value."""
    seen = {}
    for rows, width in (([5, 9, 1], 8), ([9, 5], 8), ([1], 6), ([30, 1, 9, 5], 5), ([5, 9, 1], 8)):
        for r, mask in zip(rows, keep(2, np.array(rows), width, 0.5), strict=True):
            for j, kept in enumerate(mask):
                if seen.setdefault((r, j), bool(kept)) != bool(kept):
                    return False
    return True


def doubled_batch(keep):
    rows = np.array([13, 6, 90, 2])
    whole, double = keep(1, rows, 20, 0.4), keep(1, np.concatenate([rows[::-1], rows]), 15, 0.4)
    return np.array_equal(double, np.concatenate([whole[::-1], whole])[:, :15]) and np.array_equal(
        whole[1:3], keep(1, rows[1:3], 20, 0.4)
    )


def by_slices(keep):
    rows = np.arange(40)[::-1] * 3
    whole = keep(9, rows, 25, 0.2)
    cut = [(whole[i : i + 7, :w], keep(9, rows[i : i + 7], w, 0.2)) for i, w in ((0, 25), (7, 9), (20, 1), (33, 25))]
    return not any(np.any(a != b) for a, b in cut)


def with_hashes(keep):
    rows = np.array([4, 8, 15, 16, 23, 42])
    one = {int(r): m.tobytes() for r, m in zip(rows, np.ascontiguousarray(keep(6, rows, 32, 0.5)[:, :20]), strict=True)}
    shuffled = rows[[3, 0, 5, 1]]
    two = keep(6, shuffled, 20, 0.5)
    return all(one[int(r)] == np.ascontiguousarray(m).tobytes() for r, m in zip(shuffled, two, strict=True))


def cut_everywhere(keep):
    """Also before the first row, and with rows in a list."""
    rows = [30, 2, 11, 5]
    whole = keep(4, rows, 10, 0.5)
    for i in range(5):
        parts = np.concatenate([keep(4, rows[:i], 10, 0.5), keep(4, rows[i:], 10, 0.5)])
        assert np.array_equal(whole, parts)
    return np.array_equal(whole[::-1, :6], keep(4, rows[::-1], 6, 0.5))


def _only(*tries):
    """A property of some of the comparisons."""

    def holds(keep):
        whole = keep(5, ROWS, 9, 0.4)
        every = {
            "again": lambda: np.array_equal(whole, keep(5, ROWS, 9, 0.4)),
            "first": lambda: np.array_equal(whole[:2], keep(5, ROWS[:2], 9, 0.4)),
            "last": lambda: np.array_equal(whole[2:], keep(5, ROWS[2:], 9, 0.4)),
            "order": lambda: np.array_equal(whole[ORDER], keep(5, ROWS[ORDER], 9, 0.4)),
            "width": lambda: np.array_equal(whole[:, :4], keep(5, ROWS, 4, 0.4)),
            "sums": lambda: keep(5, ROWS[ORDER], 9, 0.4).sum() == whole.sum(),
            "share": lambda: abs(keep(5, np.arange(500), 40, 0.4).mean() - 0.6) < 0.05,
            "shape": lambda: keep(5, ROWS[:3], 4, 0.4).shape == (3, 4),
        }
        return all(every[name]() for name in tries)

    holds.__name__ = "only_" + "_and_".join(tries)
    return holds


def always_true(keep):
    return True


def always_false(keep):
    return False


def the_other_way_round(keep):
    return not four_comparisons(keep)


def no_return(keep):
    four_comparisons(keep)


def an_array_of_truths(keep):
    return keep(5, ROWS, 9, 0.4) == keep(5, ROWS, 9, 0.4)


def ends_of_columns(keep):
    """The last columns, which a right mask cuts off."""
    return np.array_equal(keep(5, ROWS, 9, 0.4)[:, -4:], keep(5, ROWS, 4, 0.4))


def also_the_share(keep):
    return four_comparisons(keep) and abs(keep(5, np.arange(500), 40, 0.4).mean() - 0.6) < 0.02


def other_keys_too(keep):
    return np.array_equal(keep(5, ROWS, 9, 0.4), keep(6, ROWS, 9, 0.4))


RIGHT = {
    "repaired_clip": (
        larger_below, two_factors, chosen, by_norm, clipped_ratio, a_masked_factor, by_vdot, einsum, hypotenuse,
        by_reduce,
    ),
    "my_sum_rows": (
        running_sums, differences_of_edges, segments_that_are_never_empty, sorted_with_places, column_after_row,
        from_the_end, zeros_in_front, guarded_reduceat,
    ),
    "my_keep_mask": (
        in_one_line, whole_numbers_of_python, outer_sum, row_by_row, not_dropped, flat_and_reshaped, ones_and_zeros,
        from_a_view,
    ),
    "cut_changes_nothing": (
        four_comparisons, it_asserts, each_row_alone, random_parts, as_a_dictionary, doubled_batch, by_slices,
        with_hashes, cut_everywhere,
    ),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("repaired_clip", (*listed("repaired_clip"), an_if, a_float, an_item, a_list, of_the_host)),
        ("my_sum_rows", (*listed("my_sum_rows"), atomically, pair_table, looks_for_each, unique_ids)),
        ("my_keep_mask", listed("my_keep_mask")),
        ("cut_changes_nothing", (
            _only("again"), _only("first"), _only("last"), _only("order"), _only("width"), _only("first", "width"),
            _only("order", "last", "first"), _only("sums", "shape"), _only("shape", "again", "first"),
            _only("share"), always_true, always_false, the_other_way_round, no_return, an_array_of_truths,
            ends_of_columns, also_the_share, other_keys_too,
        )),
    )
}  # fmt: skip
