"""Buckets of time differences by their logarithm (Zhai et al. 2024, HSTU, released code).

A number is learned for every bucket and head, and added to the score of each pair whose difference is in the bucket.
"""

from ...backend import Array, get_xp

STEP = 0.301             # of the natural logarithm, as in the authors' code: e^0.301 = 1.35


def time_buckets(times: Array, buckets: int = 128) -> Array:
    """b_ij = min(⌊log(max(t_i - t_j, 1)) / 0.301⌋, R - 1).

    Bucket 0 has the differences below 1.35 seconds, and those to later items, which are masked. Each further bucket is
    1.35 times as wide as the one before, and the last of the R = `buckets` has all longer differences. t_i is the time
    of the query's item, as the time of the item to be predicted is not known yet. (The authors' code uses the time of
    that next item, so there the model knows when it will come.) Logarithms are in float64.

    Shapes: times (B, n) in seconds, of any dtype -> (B, n, n) integers.
    Raises ValueError for fewer buckets than 1.
    """
    if buckets < 1:
        raise ValueError(f"time_buckets: buckets is {buckets}, expected at least 1")
    xp = get_xp(times)
    times = times.astype(xp.float64)
    passed = xp.maximum(times[:, :, None] - times[:, None, :], 1)
    return xp.minimum((xp.log(passed) / STEP).astype(int), buckets - 1)
