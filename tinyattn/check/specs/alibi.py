"""ALiBi: a bias of the scores that falls with the distance, by a slope for each head."""

from typing import Any

import numpy as np

from .. import adapters, oracles
from ..property import Violation, close, demand, largest, rounding
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("alibi")


def case(draw: CaseDrawer) -> dict[str, Any]:
    return {"heads": draw.choose((4, 1, 2, 8, 3, 6, 12, 16)), "n": draw.size(2, 9)}


def special_cases() -> list[dict[str, Any]]:
    return [{"heads": 8, "n": 3}, {"heads": 12, "n": 2}]


@states("exact", "the bias is of shape (heads, n, n), or broadcasts to it, and finite for keys up to the query", "shapes",
        hint="One matrix for each head: rows are queries, columns are keys.")
def shape(op: Subject, heads: int, n: int) -> None:
    demand(np.all(np.isfinite(_falls(op, heads, n))), "a bias of a key up to its query is not finite")
    close(_falls(op, heads, n), _falls(op, heads, n), 0, "an equal call's bias")


@states("rounding", "up to a number for each row, which softmax ignores, the bias is -2^(-8 h / H) (i - j) for j <= i", "oracle",
        hint="Heads count from 1: the slopes of 8 heads are 1/2, 1/4, ... 1/256, and distances are positive.")
def oracle(op: Subject, heads: int, n: int) -> None:
    got, authors = _falls(op, heads, n), op.convention("slopes") is not None
    close(got, oracles.alibi(heads, n, authors), _within(got, n), "the bias, less that of the query itself: entry ")


@states("rounding", "with every token further back, a head's bias falls by the same number", hint="Is it a straight line in the distance?")
def straight(op: Subject, heads: int, n: int) -> None:
    got = _falls(op, heads, n)
    last = np.diff(got[:, -1])
    close(last, np.broadcast_to(last[:, -1:], last.shape), _within(got, n), "of the last query, the step of head ")
    close(got[:, 1:, 1:], np.tril(got[:, :-1, :-1]), _within(got, n), "one token later, the bias of head ")


@states("rounding", "from head to head, slopes are multiplied by one factor, the first slope; the last is 1/256",
        hint="The exponents of H heads are -8/H, -16/H, ... -8: is there one too many, or too few?")
def geometric(op: Subject, heads: int, n: int) -> None:
    power = 1 << (heads.bit_length() - 1)                                # heads that are no power of 2: a convention
    got = _falls(op, power, n)
    slopes = -got[:, 1, 0]
    close(slopes[-1], 1 / 256, _within(got, n), f"of {power} heads, the last slope")
    close(slopes[1:], slopes[:-1] * slopes[0], _within(got, n), f"of {power} heads, a slope: entry ")


@states("rounding", "the bias of a longer sequence begins with that of a shorter one", "extremes",
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


SPEC = states.spec(
    "bias[h, i, j] = -2^(-8 h / H) (i - j), for heads h = 1, ..., H and keys j up to the query i",
    "alibi(heads, n) -> (H, n, n), or an array that broadcasts to it, also with a batch axis of 1",
    "a number may be added to each row, as softmax ignores it; what stands at later keys, such as -inf, does not count",
    case=case,
    ours=lambda: adapters,
    outputs=("bias",),
    choices=("head slopes",),
    common=False,
    special_cases=special_cases,
)
