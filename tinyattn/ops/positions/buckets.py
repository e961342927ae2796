"""Biases by bucket of distance: each near distance has a bucket, far ones share (Raffel et al. 2020, section 2.1).

A number is learned for every bucket and head, and added to the score of each pair whose distance is in the bucket.
"""

import math

from ...backend import Array, get_xp
from ..embedding import embedding, embedding_backward
from ..shapes import expect


def bucket_bias(table: Array, buckets: Array) -> Array:
    """bias_kij = T[b_ij, k].

    Shapes: table (R, h), buckets (n, m) of any integer dtype, 0 to R - 1 -> (h, n, m).
    Raises IndexError for a bucket beyond the table, TypeError for dtypes.
    """
    expect("rh #nm", table=table, buckets=buckets)
    return get_xp(table).ascontiguousarray(get_xp(table).moveaxis(embedding(buckets, table), -1, 0))


def bucket_bias_backward(dbias: Array, table: Array, buckets: Array) -> Array:
    """dT_rk = Σ dbias_kij over pairs of bucket r.

    The sum is over all pairs that read the number. If several blocks share a table, it gets the sum of their gradients.
    Shapes: dbias (h, n, m), table (R, h), buckets (n, m) -> dtable like table.
    """
    expect("hnm rh #nm", dbias=dbias, table=table, buckets=buckets)
    return embedding_backward(get_xp(dbias).moveaxis(dbias, 0, -1), buckets, table)


def distance_buckets(
    n: int, m: int, like: Array, buckets: int = 32, furthest: int = 128, causal: bool = True
) -> Array:
    """b_ij = r for r < e, with r = i - j; and b_ij = e + floor((R - e) log(r / e) / log(F / e)) from there on.

    Half of the R = `buckets` buckets have one distance each, those below e = R / 2. The others widen by equal factors
    up to F = `furthest`, and the last, R - 1, has all distances from there on. Causal: keys after the query, which are
    masked, are in bucket 0. Not causal: r = |i - j|, and each side has R / 2 buckets, so e = R / 4; keys after the
    query have the upper R / 2. Halves are rounded down. Logarithms are in float64; 1e-9 is added, because rounding may
    put an exact step just below its whole number.

    Shapes: n queries, m keys -> (n, m) integers, in the module of the array `like`.
    Raises ValueError for fewer buckets than 2 (not causal: 4), and a `furthest` that is not beyond e.
    """
    xp, (side, exact) = get_xp(like), sides(buckets, furthest, causal)
    back = xp.arange(n)[:, None] - xp.arange(m)                           # i - j
    far = xp.maximum(back, 0) if causal else xp.abs(back)
    steps = xp.log(xp.maximum(far, exact) / exact) * ((side - exact) / math.log(furthest / exact))
    shared = xp.minimum(exact + (steps + 1e-9).astype(int), side - 1)
    found = xp.where(far < exact, far, shared)
    return found if causal else found + side * (back < 0)


def sides(buckets: int, furthest: int, causal: bool) -> tuple[int, int]:
    """The number of buckets of a side, and of those with one distance. Raises what `distance_buckets` raises."""
    least = 2 if causal else 4
    if buckets < least:
        raise ValueError(f"distance_buckets: buckets is {buckets}, expected at least {least}")
    side = buckets if causal else buckets // 2
    if furthest <= side // 2:
        raise ValueError(
            f"distance_buckets: furthest is {furthest}, expected above {side // 2}, the number of one-distance buckets"
        )
    return side, side // 2
