"""Positions: biases by distance, vectors of distances, rotations."""

from typing import Any

import numpy as np

from .. import adapters, oracles
from ..common import tolerance
from ..families import linear_in
from ..property import Violation, close, demand, largest, rounding
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

alibi = SpecBuilder("alibi")
alibi.law("shape", "exact",
        "the bias is of shape (heads, n, n), or broadcasts to it, and finite for keys up to the query", lambda op, c: [
            (np.all(np.isfinite(_falls(op, **c))), "a bias of a key up to its query is not finite"),
            (_falls(op, **c), _falls(op, **c), 0, "an equal call's bias"),
        ], "shapes", hint="One matrix for each head: rows are queries, columns are keys.")
alibi.law("oracle", "rounding",
        "up to a number for each row, which softmax ignores, the bias is -2^(-8 h / H) (i - j) for j <= i",
        lambda op, c: (
            got := _falls(op, **c), oracles.alibi(c.heads, c.n, op.convention("slopes") is not None), _within(got, c.n),
            "the bias, less that of the query itself: entry ",
        ), "oracle",
        hint="Heads count from 1: the slopes of 8 heads are 1/2, 1/4, ... 1/256, and distances are positive.")
alibi.law("straight", "rounding", "with every token further back, a head's bias falls by the same number",
        lambda op, c: [
            (last := np.diff((got := _falls(op, **c))[:, -1]), np.broadcast_to(last[:, -1:], last.shape),
             _within(got, c.n),
             "of the last query, the step of head "),
            (got[:, 1:, 1:], np.tril(got[:, :-1, :-1]), _within(got, c.n), "one token later, the bias of head "),
        ], hint="Is it a straight line in the distance?")


@alibi("rounding", "from head to head, slopes are multiplied by the first slope, and the last slope is 1/256",
        hint="The exponents of H heads are -8/H, -16/H, ... -8: is there one too many, or too few?")
def geometric(op: Subject, heads: int, n: int) -> None:
    power = 1 << (heads.bit_length() - 1)                                # heads that are no power of 2: a convention
    got = _falls(op, power, n)
    slopes = -got[:, 1, 0]
    close(slopes[-1], 1 / 256, _within(got, n), f"of {power} heads, the last slope")
    close(slopes[1:], slopes[:-1] * slopes[0], _within(got, n), f"of {power} heads, a slope: entry ")


@alibi("rounding", "the bias of a longer sequence begins with that of a shorter one", "extremes",
        hint="Does a slope, or a distance, depend on n?")
def longer(op: Subject, heads: int, n: int) -> None:
    for more in (n + 1, 300):
        got = _falls(op, heads, more)
        close(got[:, :n, :n], _falls(op, heads, n), _within(got, n), f"of {more} tokens, the bias")
        close(got[:, -1, 0], got[:, 1, 0] * (more - 1), _within(got, more), f"of {more} tokens, the largest of head ")


def _falls(op: Subject, heads: int, n: int) -> np.ndarray:
    """The bias less that of the query's own key, 0 for later keys. Shapes: -> (heads, n, n)."""
    bias = np.asarray(op(heads, n))
    while bias.ndim > 3 and len(bias) == 1:
        bias = bias[0]
    if bias.ndim != 3 or len(bias) != heads or bias.shape[1] not in (1, n) or bias.shape[2] != n:
        raise Violation("the bias has the wrong shape", bias.shape, (heads, n, n), sort="shape")
    bias = np.broadcast_to(bias, (heads, n, n))
    seen = np.tri(n, dtype=bool)
    own = np.diagonal(bias, axis1=1, axis2=2)[..., None]
    return np.where(seen, np.where(seen, bias, 0) - own, 0)


def _within(bias: np.ndarray, n: int) -> float:
    return rounding(bias.dtype, 1, n * largest(bias))


ALIBI = alibi.spec(
    "bias[h, i, j] = -2^(-8 h / H) (i - j), for heads h = 1, ..., H and keys j up to the query i",
    "alibi(heads, n) -> (H, n, n), or an array that broadcasts to it, also with a batch axis of 1",
    "a number may be added to each row, as softmax ignores it; what stands at later keys, such as -inf, does not count",
    case=lambda draw: {"heads": draw.choose((4, 1, 2, 8, 3, 6, 12, 16)), "n": draw.size(2, 9)}, ours=lambda: adapters,
    outputs=("bias",), choices=("head slopes",), common=False,
    special_cases=lambda: [{"heads": 8, "n": 3}, {"heads": 12, "n": 2}],
)


bucket_bias = SpecBuilder("bucket_bias")
linear_in(bucket_bias, "table")


def bucket_bias_case(draw: CaseDrawer) -> dict[str, Any]:
    n, rows = draw.size(), draw.size()
    return {"table": draw.array(rows, draw.size_like(n)), "buckets": draw.rng.integers(0, rows, (n, draw.size_like(n)))}


bucket_bias.law("alike", "exact", "pairs of one bucket have one bias",
        lambda op, c: (
            bias := op(**c(buckets=0 * c.buckets)), np.broadcast_to(c.table[0][:, None, None], bias.shape).copy(),
        ), bits=True, what="with all pairs in bucket 0, the bias",
        hint="Is the bucket the table's row, and the head its column?")


@bucket_bias("exact", "an entry read several times gets the sum of the gradients", "gradients",
        hint="`dT[b] = ds`, and `dT[b] += ds` too, keep only one of them: use `add.at`, or sum by bucket.")
def summed(op: Subject, **case: Any) -> None:
    buckets = np.zeros_like(case["buckets"])
    dbias = np.ones((case["table"].shape[1], *buckets.shape), case["table"].dtype)
    dtable = op.gradients(case | {"buckets": buckets}, dbias)["table"]
    demand(np.all(dtable[0] == buckets.size), f"of {buckets.size} pairs in bucket 0, {dtable[0][0]:g} are in dtable")
    demand(not np.any(dtable[1:]), "a bucket without pairs has a gradient")


BUCKET_BIAS = bucket_bias.spec(
    "bias[k, i, j] = table[buckets[i, j], k]",
    "bucket_bias(table, buckets) -> bias: table (R, h), buckets (n, m) of integers, bias (h, n, m)",
    case=bucket_bias_case, outputs=("bias",), wrt=("table",),
)


relative_scores = SpecBuilder("relative_scores")
linear_in(relative_scores, "q")
linear_in(relative_scores, "a")


def vectors(draw: CaseDrawer, d: int) -> np.ndarray:
    """Vectors of the distances -K to K: one table for all leading axes, or one for each."""
    rows = 2 * draw.choose((0, 1, 2, 3, 8)) + 1
    return draw.array(*draw.choose(((*draw.lead, rows, d), (rows, d))))


def relative_scores_case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    return {"q": draw.array(*draw.lead, n, d), "a": vectors(draw, d), "m": draw.size_like(n)}


relative_scores.law("shift", "rounding", "shifting a query and a key together keeps their score",
        lambda op, c: ((s := op(**c))[..., 1:, 1:], s[..., :-1, :-1]),
        of=lambda c: c(q=np.repeat(c.q[..., :1, :], c.q.shape[-2], axis=-2)), what="with equal queries, the score ",
        hint="Is j - i clipped, and not j?")

TABLES = Form("a with leading axes", lambda case: case["a"].ndim > 2, ours=True)
RELATIVE_SCORES = relative_scores.spec(
    "s[i, j] = q[i] · a[clip(j - i, -K, K) + K]",
    "relative_scores(q, a, m) -> s: q (..., n, d), a onto (..., 2 K + 1, d), m the number of keys, s (..., n, m)",
    forms=(TABLES,), case=relative_scores_case, outputs=("s",), wrt=("q", "a"),
)


relative_values = SpecBuilder("relative_values")
linear_in(relative_values, "w")
linear_in(relative_values, "a")


def relative_values_case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.tokens()
    return {"w": draw.array(*draw.lead, n, draw.size_like(n)), "a": vectors(draw, draw.size())}


relative_values.law("equal_vectors", "rounding", "equal vectors are multiplied by the sum of the weights",
        lambda op, c: (
            out := op(**c(a=np.ones_like(c.a))),
            np.broadcast_to(np.sum(c.w.astype(float), axis=-1)[..., None], out.shape),
            c.w.size * tolerance(op.spec, c),
        ), hint="Is a distance beyond K left out?")

RELATIVE_VALUES = relative_values.spec(
    "out[i] = Σ_j w[i, j] a[clip(j - i, -K, K) + K]",
    "relative_values(w, a) -> out: w (..., n, m), a onto (..., 2 K + 1, d), out (..., n, d)",
    forms=(TABLES,), case=relative_values_case, outputs=("out",), wrt=("w", "a"),
)


rotary = SpecBuilder("rotary")
linear_in(rotary, "x")


def rotary_case(draw: CaseDrawer) -> dict[str, Any]:
    n, half = draw.tokens(), draw.size(high=4)
    x, shape = draw.array(*draw.lead, n, 2 * half), draw.choose(((*draw.lead, n, half), (n, half), (1, half)))
    angle = draw.array(*shape).astype(float)
    return {"x": x, "cos": np.cos(angle).astype(x.dtype), "sin": np.sin(angle).astype(x.dtype)}


rotary.law("norm_kept", "rounding", "no token changes its length", lambda op, c: (
            np.sum(op(**c).astype(float) ** 2, axis=-1), np.sum(c.x.astype(float) ** 2, axis=-1),
            10 * c.x.shape[-1] * tolerance(op.spec, c), "the squared length of token ",
        ), hint="c x - s y and s x + c y: which term has the minus?")
rotary.law("there_and_back", "rounding", "a rotation and its inverse leave every token unchanged",
        lambda op, c: (op(**c(x=op(**c), sin=-c.sin)), c.x), times=4, what="turned back, x",
        hint="The inverse has -sin.")
rotary.law("no_turn", "exact", "an angle of 0 changes nothing",
        lambda op, c: (op(**c(cos=np.ones_like(c.cos), sin=np.zeros_like(c.sin))), c.x), bits=True,
        hint="cos 0 = 1 and sin 0 = 0.")

ROTARY = rotary.spec(
    "y[2i] = cos_i x[2i] - sin_i x[2i+1], y[2i+1] = sin_i x[2i] + cos_i x[2i+1]: neighbours are pairs",
    "rotary(x, cos, sin) -> y: x (..., n, d) with d even; cos and sin broadcast to (..., n, d/2), and are constants",
    case=rotary_case, wrt=("x",),
    forms=(
        Form("cos and sin with leading axes", lambda case: case["cos"].ndim > 2, ours=True),
        Form("cos and sin of one row", lambda case: case["cos"].shape[-2] < case["x"].shape[-2], ours=True),
    ),
    choices=("rotary",),
)
