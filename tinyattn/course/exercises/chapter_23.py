"""Exercises of chapter 23, after SASRec."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import largest, rounding
from ..graders import Function, Judge, Number
from ..plain import Changes, plain_spec
from ..prose import Prose


# my_pointwise_backward
def _gradients(dout: Any, q: Any, k: Any, v: Any, s: Any) -> Any:
    m, gate, da = s.shape[-1], ops.sigmoid(s), dout @ np.swapaxes(v, -1, -2)
    a = s * gate / max(m, 1)
    ds = da * gate * (1 + s * (1 - gate)) / max(m, 1)
    dq, dk, dv = ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(a, -1, -2) @ dout
    return dq, dk, dv


# burst_shares
def _shares(score: float, clicks: int) -> np.ndarray:
    """One key's share of all weights beside keys of score 0: softmax's, then SiLU's."""
    s = np.array([score, *np.zeros(clicks)])
    return np.array([x[0] / np.sum(np.abs(x)) for x in (ops.softmax(s), ops.silu(s))])


# repaired_time_bias
def _time_bias(times: Any, table: Any) -> Any:
    passed = np.maximum(times[:, None] - times[None, :], 1)
    bucket = np.minimum((np.log(passed) / 0.301).astype(int), len(table) - 1)
    return table[bucket]


def _of_times(draw: CaseDrawer) -> dict[str, Any]:
    steps = 10 ** draw.rng.uniform(0, 6, draw.size(1, 6)) * (draw.rng.random() < 0.9)     # or all at the same time
    times = 1.6e9 + np.cumsum(np.round(steps))
    return {"times": times, "table": draw.array(draw.choose((3, 20, 64))).astype(float)}


TIME_BIAS = plain_spec(
    "time_bias", "a query's bias to a key is that of the time from the key's item to the query's own item",
    _of_times, _time_bias, "bias", atol=0.0,
)  # fmt: skip


# reads_no_later_time
def _next_time(times: Any, table: Any) -> Any:
    """The chapter's buggy_time_bias."""
    return _by(np.append(times[1:], times[-1])[:, None] - times, table)


def _by(passed: Any, table: Any) -> Any:
    """The biases of these differences, (n, n)."""
    return table[np.minimum((np.log(np.maximum(passed, 1)) / 0.301).astype(int), len(table) - 1)]


def reads_no_later_time(time_bias: Callable[..., Any]) -> bool:
    """Whether a query's biases to its keys stay the same when the times of later items change."""
    times, table = 1.6e9 + np.cumsum(10.0 ** np.arange(6)), np.random.default_rng(0).standard_normal(128)
    bias = time_bias(times, table)
    for i in range(5):
        later = times.copy()
        later[i + 1 :] += 1e6 + 3e7 * np.arange(5 - i)
        if not np.array_equal(time_bias(later, table)[i, : i + 1], bias[i, : i + 1]):
            return False
    return True


RIGHT_BIASES = dict(
    library=_time_bias,
    both_ways=lambda times, table: _by(np.abs(times[:, None] - times), table),
    in_hours=lambda times, table: _by((times[:, None] - times) / 3600, table),
    since_the_first=lambda times, table: _by((times - times[0])[:, None] + 0 * times, table),
    one_item_late=lambda times, table: _by(np.append(times[0], times[:-1])[:, None] - times, table),
)
WRONG_BIASES = dict(
    next_time=_next_time,
    until_the_last=lambda times, table: _by((times[-1] - times)[None] + np.zeros((len(times), 1)), table),
    # times in thousandths of the whole history's span, and in units of the median step from item to item
    whole_span=lambda times, table: _by(1000 * (times[:, None] - times) / max(times[-1] - times[0], 1), table),
    median_gap=lambda times, table: (
        _by(60 * (times[:, None] - times) / max(float(np.median([*np.diff(times)] or [1.0])), 1e-9), table)
    ),
    from_the_mean=lambda times, table: _by(np.abs(times - times.mean())[None] + np.zeros((len(times), 1)), table),
    # the last but one query alone has the time of the item that follows it, or each query's own item alone has it
    of_one_query=lambda times, table: np.where(
        np.arange(len(times))[:, None] == len(times) - 2, _next_time(times, table), _time_bias(times, table)
    ),
    of_one_key=lambda times, table: np.where(
        np.eye(len(times), dtype=bool), _next_time(times, table), _time_bias(times, table)
    ),
    little=lambda times, table: _time_bias(times, table) + 1e-3 * _next_time(times, table),
)


# my_comparison
def _comparison(valid_a: Any, test_a: Any, valid_b: Any, test_b: Any) -> Any:
    best_a, best_b = valid_a.mean(axis=(1, 2)).argmax(), valid_b.mean(axis=(1, 2)).argmax()
    a, b = test_a[best_a], test_b[best_b]
    people = a.mean(axis=0) - b.mean(axis=0)
    over_people = np.sqrt(people.var(ddof=1) / len(people))
    over_seeds = np.sqrt(a.mean(axis=1).var(ddof=1) / len(a) + b.mean(axis=1).var(ddof=1) / len(b))
    return people.mean(), over_people, over_seeds


def _of_runs(draw: CaseDrawer) -> dict[str, Any]:
    settings, people, watched = draw.size(2, 4), draw.size(3, 6), draw.size(2, 5)
    runs = {}
    for model, seeds in (("a", draw.size(2, 4)), ("b", draw.size(2, 4))):
        for part, count in ("valid", watched), ("test", people):
            runs[f"{part}_{model}"] = np.asarray(draw.rng.standard_normal((settings, seeds, count)), draw.dtype)
    return runs


COMPARISON = plain_spec(
    "comparison", "the difference and its two errors are those of the settings that validation chooses",
    _of_runs, _comparison, "difference", "over_people", "over_seeds",
    atol=lambda case: 30 * rounding(case["test_a"].dtype, 40, largest(*case.values(), 1) ** 2),
)  # fmt: skip


EXERCISES = Prose(23).exercises(
    my_pointwise_backward=Function(                       # without mask and bias
        "pointwise_attention", part="backward", forward=lambda q, k, v: ops.pointwise_attention(q, k, v),
        tempting=Changes(_gradients),
    ),
    burst_shares=Number(_shares, tolerance=0.015),
    repaired_time_bias=Function(TIME_BIAS, tempting=Changes(_time_bias)),
    reads_no_later_time=Judge(reads_no_later_time, RIGHT_BIASES, WRONG_BIASES),
    my_comparison=Function(COMPARISON, tempting=Changes(_comparison)),
)
