"""Exercises of chapter 21, the same code on a GPU."""

import itertools
import math
from typing import Any

import numpy as np

from ...backend import get_xp
from ...check.cases import CaseDrawer
from ...check.property import largest
from ...random import _AXIS_MULTIPLIERS, _mixed
from ..costs import counted, peak
from ..device import device, run
from ..exercise import WRONG, Grade
from ..graders import Function, Judge, Number
from ..plain import Changes, changed, plain_spec
from ..prose import Prose
from .chapter_10 import WRONG_FACTOR, _factor

EPOCHS, STEPS = 3, 40                         # of waits_of_a_loop
OPERATIONS, BYTES = 67e12, 4.8e12             # a second, of width_of_the_ridge: an H200's float32 and its memory
OF_WIDTH, OF_ROW = (np.uint64(x) for x in _AXIS_MULTIPLIERS[:2])


def _waits_of_a_loop() -> int:
    """The number of waits that the simulated device counts in the chapter's loop."""

    def train() -> None:
        best: Any = math.inf
        for epoch in range(EPOCHS):
            for step in range(STEPS):
                loss: Any = device.asarray(1 / (1 + epoch * STEPS + step))
                float(loss)
            if loss < best:
                best = float(loss)

    return device.counted(train)[1]["waits"]


def _atol(case: dict[str, Any]) -> float:
    arrays = [x for x in case.values() if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    return (1e-9 if arrays[0].dtype == np.float64 else 1e-4) * largest(*arrays, 1)


# repaired_clip
def _clip(g: Any, most: Any) -> Any:
    xp = get_xp(g)
    norm = xp.sqrt(xp.sum(g * g))
    return g * (most / xp.maximum(norm, most))


def _a_gradient(draw: CaseDrawer) -> dict[str, Any]:
    """A gradient; about half of the drawn ones have a norm of at most `most`."""
    g = draw.array(draw.size(1, 4), draw.size(1, 3), size=draw.choose((1, 3)))
    return {"g": g, "most": draw.choose((1.0, 2.0, 5.0, 20.0))}


CLIP = plain_spec(
    "clip", "a gradient of norm `most` or less stays, a longer one is scaled to it", _a_gradient, _clip, "g",
    atol=_atol, extreme="a gradient of 0 stays 0", extremes=[{"g": np.zeros((2, 2)), "most": 1.0}])  # fmt: skip


def _never_waits(answer: Any) -> Grade | None:
    """The grade of an answer that waits for the device or computes on the host, or None for other answers."""
    for size in (0.1, 10.0):
        counts = counted(run, answer.__wrapped__, np.full((3, 4), size), 1.0)
        if "error" in counts:
            return Grade(
                WRONG, f"the numbers are right on the host; on the device: {counts['error']}", (),
                "Which of your functions is NumPy's, and not that of `xp`?",
                "Yours: a function of NumPy meets an array of the device. Take xp = get_xp(g), and write xp.sqrt.",
            )  # fmt: skip
        if waits := counts["waits"]:
            often = "once" if waits == 1 else f"{waits} times"
            return Grade(
                WRONG, f"the numbers are right, but the program waits for the device {often}.", (),
                "Which of your lines needs to know a number before Python can go on?",
                "Yours: an `if`, a float(...) or .item() reads a number of the device. xp.minimum and xp.maximum "
                "choose there.",
            )  # fmt: skip
    return None


def _scaled_by(factor: Any) -> Any:
    return lambda g, most: g * np.asarray(factor([g], most), g.dtype)


# These are wrong for several arrays, but right for one.
_ONE_ARRAY = {"norms_summed", "longest_array", "first_array", "last_array", "mean_norm"}
WRONG_CLIP = {name: _scaled_by(factor) for name, factor in WRONG_FACTOR.items() if name not in _ONE_ARRAY} | dict(
    entry_by_entry=lambda g, most: np.clip(g, -most, most),
    factor_returned=lambda g, most: np.asarray(_factor([g], most)),
)


# my_sum_rows
def _sum_rows(ids: Any, dy: Any, V: Any) -> Any:
    """Sorted by id, each row of dE is a difference of two running sums."""
    xp = get_xp(dy)
    order = xp.argsort(ids)
    sorted_ids, rows = xp.take(ids, order), xp.arange(V)
    zero = xp.zeros((1, dy.shape[1]), dtype=xp.float64)
    c = xp.concatenate([zero, xp.cumsum(xp.take(dy, order, axis=0).astype(xp.float64), axis=0)])
    begin, end = xp.searchsorted(sorted_ids, rows, side='left'), xp.searchsorted(sorted_ids, rows, side='right')
    return (c[end] - c[begin]).astype(dy.dtype)


def _some_ids(draw: CaseDrawer) -> dict[str, Any]:
    N, V, d = draw.size(1, 7), draw.size(2, 5), draw.size(1, 3)
    return {"ids": np.array([draw.choose(range(V)) for _ in range(N)]), "dy": draw.array(N, d), "V": V}


SUM_ROWS = plain_spec("sum_rows", "row v of dE is the sum of the rows of dy whose id is v", _some_ids, _sum_rows, "dE",
                      atol=_atol)  # fmt: skip


def _sums_on_the_device(answer: Any) -> Grade | None:
    """The grade of an answer that waits, adds atomically, loops over ids or holds a table of pairs, or None."""
    answer, launches = answer.__wrapped__, []
    for N, V in ((12, 5), (96, 40)):
        rng = np.random.default_rng(N)
        counts = counted(run, answer, rng.integers(V, size=N), rng.standard_normal((N, 3)), V)
        if "error" in counts:
            return Grade(
                WRONG, f"the numbers are right on the host; on the device: {counts['error']}", (),
                "Which of your functions is NumPy's, and not that of `xp`?",
                "Yours: something of the host meets an array of the device. Take xp = get_xp(dy) for each function.",
            )  # fmt: skip
        launches.append(counts["launches"])
        for what, plural, fault in (("waits", "waits", "a result's size, or a number, is read"),
                                  ("atomic", "atomic additions", "xp.add.at is atomic")):  # fmt: skip
            if counts[what]:
                return Grade(
                    WRONG, f"the numbers are right, but the device counts {plural}: {counts[what]}.", (),
                    "How many rows has dE, and can you know that without looking at ids?",
                    f"Yours: {fault}. With xp.arange(V), xp.searchsorted finds where each id begins and ends.",
                )  # fmt: skip
    if launches[1] > launches[0]:
        return Grade(
            WRONG, f"the numbers are right, but more ids take more launches: {launches[0]}, then {launches[1]}.", (),
            "Which of your lines runs once for each id, or for each row?",
            "Yours: a loop over ids or rows. After sorting, running sums give all rows in a few launches.",
        )  # fmt: skip
    if counted(peak, answer, np.random.default_rng(0).integers(2000, size=1000), np.ones((1000, 2)), 2000) > 1e6:
        return Grade(
            WRONG, "the numbers are right, but it holds an array with an entry for each pair of id and row.", (),
            "How large is your table for 57,000 items and 25,600 ids?",
            "Yours: a table of N by V. Sort the ids, and equal ones lie together.",
        )  # fmt: skip
    return None


def _assigned(ids: Any, dy: Any, V: Any) -> Any:
    dE = np.zeros((V, dy.shape[1]), dy.dtype)
    dE[ids] = dy                            # as dE[ids] += dy does
    return dE


def _added(ids: Any, dy: Any, V: Any) -> Any:
    dE = np.zeros((V, dy.shape[1]))
    np.add.at(dE, ids, dy)
    return dE


WRONG_SUM_ROWS = Changes(_sum_rows,
    last_one_stays=_assigned,
    first_one_stays=lambda ids, dy, V: _assigned(ids[::-1], dy[::-1], V),
    ids_not_sorted=lambda ids, dy, V: (c := np.cumsum(np.vstack([0 * dy[:1], dy]), axis=0))[
        np.searchsorted(ids, np.arange(V), side="right").clip(0, len(dy))
    ] - c[np.searchsorted(ids, np.arange(V)).clip(0, len(dy))],
    rows_of_ids_alone=lambda ids, dy, V: _added(np.unique(ids, return_inverse=True)[1], dy, len(np.unique(ids))),
    means=lambda ids, dy, V: _added(ids, dy, V) / np.maximum(np.bincount(ids, minlength=V), 1)[:, None],
    counts_alone=lambda ids, dy, V: _added(ids, np.ones_like(dy), V),
    squares=lambda ids, dy, V: _added(ids, dy**2, V),
    sizes=lambda ids, dy, V: _added(ids, np.abs(dy), V),
    next_row=lambda ids, dy, V: _added((ids + 1) % V, dy, V),
    all_rows=lambda ids, dy, V: np.tile(dy.sum(axis=0), (V, 1)),
    looked_up=lambda ids, dy, V: _added(ids, dy, V)[ids],
    largest_of_each=lambda ids, dy, V: np.array([dy[ids == v].max(axis=0, initial=-9) * np.any(ids == v)
                                                 for v in range(V)]),
)  # fmt: skip


# my_keep_mask
def _number(key: Any, rows: Any, places: Any, of_row: Any = OF_ROW, of_width: Any = OF_WIDTH) -> Any:
    """key + A row + G place, mod 2⁶⁴."""
    rows, places = (np.asarray(x).astype(np.uint64) for x in (rows, places))
    return np.asarray(key, np.uint64) + of_row * rows[:, None] + of_width * places


def _keep_mask(key: Any, rows: Any, width: Any, rate: Any) -> Any:
    """The mask of kept entries, by a hash of the key, the row's number and the place in the row."""
    bits = _mixed(_number(key, rows, np.arange(1, width + 1)))
    shares = (bits >> np.uint64(11)) / 2.0 ** 53
    return shares >= rate


def _some_rows(draw: CaseDrawer) -> dict[str, Any]:
    rows = np.array([draw.choose(range(50)) for _ in range(draw.size(1, 5))])
    return {"key": draw.choose((2**63 + 12345, 7, 2**40 + 1)), "rows": rows, "width": draw.size(2, 6),
            "rate": draw.choose((0.5, 0.2, 0.8))}  # fmt: skip


KEEP_MASK = plain_spec(
    "keep_mask", "an entry is kept where its hash, of its key, row and place, is at least the rate", _some_rows,
    _keep_mask, "keep", atol=0)  # fmt: skip


def _as_floats(key: Any, rows: Any, width: Any) -> Any:
    """NumPy multiplies int64 by uint64 in float64, which keeps 53 bits."""
    number = float(key) + float(OF_ROW) * np.asarray(rows)[:, None] + float(OF_WIDTH) * np.arange(1, width + 1)
    return np.fmod(number, 2.0**64).astype(np.uint64)


def _one_stream(key: Any, rows: Any, width: Any, rate: Any) -> Any:
    return np.random.default_rng(key).random((len(rows), width)) >= rate


WRONG_KEEP_MASK = Changes(_keep_mask,
    transposed=lambda key, rows, width, rate: _keep_mask(key, np.arange(width), len(rows), rate)
    if len(rows) == width else _keep_mask(key, rows, width, rate).T,
    one_stream=_one_stream,
    numbers_for_truths=lambda key, rows, width, rate: _keep_mask(key, rows, width, rate) / (1 - rate),
)  # fmt: skip


# cut_changes_nothing
_CALLS = itertools.count(1)


def cut_changes_nothing(keep: Any) -> bool:
    """A row's mask is the same in a part of the batch, in another order, cut shorter, and at the next call."""
    rows, width, rate = np.array([17, 3, 8, 40, 3, 21]), 9, 0.4
    whole = np.asarray(keep(5, rows, width, rate))
    parts = np.concatenate([keep(5, rows[:2], width, rate), keep(5, rows[2:], width, rate)])
    order = np.array([4, 2, 5, 0, 3, 1])
    return bool(
        np.array_equal(whole, keep(5, rows, width, rate)) and np.array_equal(whole, parts)
        and np.array_equal(whole[order], keep(5, rows[order], width, rate))
        and np.array_equal(whole[:, :4], keep(5, rows, 4, rate))
    )  # fmt: skip


RIGHT_MASKS = dict(
    by_hash=_keep_mask,
    a_stream_a_row=lambda key, rows, width, rate: np.reshape(
        [np.random.default_rng([key, int(row)]).random(width) >= rate for row in rows], (len(rows), width)
    ).astype(bool),
    checkerboard=lambda key, rows, width, rate: (np.asarray(rows)[:, None] + np.arange(width) + key) % 2 == 0,
)
WRONG_MASKS = dict(
    one_stream=_one_stream,
    place_in_the_batch=lambda key, rows, width, rate: _keep_mask(key, np.arange(len(rows)), width, rate),
    numbered_by_width=changed(
        _keep_mask,
        "key, rows, np.arange(1, width + 1) -> key, np.asarray(rows) * width, np.arange(1, width + 1), OF_WIDTH",
    ),
    by_the_size=lambda key, rows, width, rate: _keep_mask(key + len(rows), rows, width, rate),
    from_the_end=lambda key, rows, width, rate: _keep_mask(key, rows, width, rate)[:, ::-1],
    by_rank=lambda key, rows, width, rate: _keep_mask(key, np.argsort(np.argsort(rows)), width, rate),
    other_at_each_call=lambda key, rows, width, rate: _keep_mask(key + next(_CALLS), rows, width, rate),
)


EXERCISES = Prose(21).exercises(
    # the width D at which 2 n D² operations take as long as 8 n D bytes
    width_of_the_ridge=Number(lambda: 4 * OPERATIONS / BYTES, tolerance=0.03),
    waits_of_a_loop=Number(_waits_of_a_loop, exactly=True),
    repaired_clip=Function(CLIP, tempting=WRONG_CLIP, last_test=_never_waits),
    my_sum_rows=Function(SUM_ROWS, tempting=WRONG_SUM_ROWS, last_test=_sums_on_the_device),
    my_keep_mask=Function(KEEP_MASK, tempting=WRONG_KEEP_MASK),
    cut_changes_nothing=Judge(cut_changes_nothing, right=RIGHT_MASKS, wrong=WRONG_MASKS),
)
