"""Biases of attention by bucket of distance."""

from typing import Any

import numpy as np

from ..families import linear_in
from ..property import demand, same_bits
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("bucket_bias")
linear_in(states, "table")


def case(draw: CaseDrawer) -> dict[str, Any]:
    n, rows = draw.size(), draw.size()
    return {"table": draw.array(rows, draw.size_like(n)), "buckets": draw.rng.integers(0, rows, (n, draw.size_like(n)))}


@states("exact", "pairs of one bucket have one bias", hint="Is the bucket the table's row, and the head its column?")
def alike(op: Subject, **case: Any) -> None:
    bias = op(**case | {"buckets": np.zeros_like(case["buckets"])})
    expected = np.broadcast_to(case["table"][0][:, None, None], bias.shape).copy()
    same_bits(bias, expected, "with all pairs in bucket 0, the bias")


@states("exact", "an entry read several times gets the sum of the gradients", "gradients",
        hint="`dT[b] = ds`, and `dT[b] += ds` too, keep only one of them: use `add.at`, or sum by bucket.")
def summed(op: Subject, **case: Any) -> None:
    buckets = np.zeros_like(case["buckets"])
    dbias = np.ones((case["table"].shape[1], *buckets.shape), case["table"].dtype)
    dtable = op.gradients(case | {"buckets": buckets}, dbias)["table"]
    demand(np.all(dtable[0] == buckets.size), f"of {buckets.size} pairs in bucket 0, {dtable[0][0]:g} are in dtable")
    demand(not np.any(dtable[1:]), "a bucket without pairs has a gradient")


SPEC = states.spec(
    "bias[k, i, j] = table[buckets[i, j], k]",
    "bucket_bias(table, buckets) -> bias: table (R, h), buckets (n, m) of integers, bias (h, n, m)",
    case=case,
    outputs=("bias",),
    wrt=("table",),
    sums_rows=True,
)
