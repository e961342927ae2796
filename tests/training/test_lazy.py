"""Lazy Adam is dense Adam: on rows that are touched often and rarely, with gradients of every size."""

import numpy as np
import pytest

from tinyattn.training import SCHEDULES, Moments, adam, adamw
from tinyattn.training.lazy import LazyAdam
from tinyattn.training.schedules import rate_at, rate_factors

pytestmark = pytest.mark.host  # a device sweeps its one vector


def zeros(x):
    return Moments(np.zeros_like(x), np.zeros_like(x))


def both(size, dtype, steps=1200, touched=0.02, beta2=0.98, rows=150, spread=0.0):
    """-> the lazy table, the dense one in float64, the dense one in float32, and how far rows glided untouched."""
    rng = np.random.default_rng(0)
    start = rng.standard_normal((rows, 4))
    scale = size * 10 ** (spread * rng.standard_normal((rows, 1)))
    tables = {np.float64: start.copy(), np.float32: start.astype(np.float32)}
    moments = {kind: zeros(table) for kind, table in tables.items()}
    lazy = LazyAdam(start.astype(dtype), zeros(start.astype(dtype)), lr=1e-3, beta2=beta2)
    glided = np.zeros_like(start)
    for step in range(1, steps + 1):
        ids = np.flatnonzero(rng.random(rows) < touched)
        g = (scale * rng.standard_normal((rows, 4)))[ids].astype(np.float32)
        lazy.catch_up(ids, step - 1)
        lazy.update(ids, g.astype(dtype), step)
        whole = np.zeros_like(start)
        whole[ids] = g
        before = tables[np.float64].copy()
        for kind, table in tables.items():
            adam(table, whole.astype(kind), moments[kind], step, lr=1e-3, beta2=beta2)
        moved = np.abs(tables[np.float64] - before)
        moved[ids] = 0
        glided += moved
    lazy.catch_up(np.arange(rows), steps)
    for mine, theirs in zip(lazy.moments, moments[np.float64], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-30)
    return lazy.table, tables[np.float64], tables[np.float32], glided


@pytest.mark.parametrize("beta2", [0.98, 0.999, 0.95])
def test_missed_steps_are_made_up_for(beta2):
    """In float64 what is left is the quadrature's own error: a millionth of what a row glided untouched."""
    table, exact, _, glided = both(1e-3, np.float64, beta2=beta2)
    assert glided.mean() > 0.05
    np.testing.assert_array_less(np.abs(table - exact), (1e-6 if beta2 > 0.95 else 1e-5) * glided.mean())


@pytest.mark.parametrize(
    ("size", "spread"), [(1.0, 0), (1e-3, 1), (1e-7, 0), (1e-8, 1), (1e-9, 0), (1e-10, 1), (1e-12, 0)]
)
def test_in_float32_it_is_as_close_to_the_truth_as_dense_adam(size, spread):
    """Also where the root of v is at eps or below, where a series in eps / root v has been seen to diverge."""
    table, exact, dense, _ = both(size, np.float32, spread=spread)
    assert np.max(np.abs(table - exact)) <= 1.25 * np.max(np.abs(dense - exact))


@pytest.mark.parametrize("decay", [0.0, 5.0])
@pytest.mark.parametrize(
    ("schedule", "warmup", "known"), [("constant", 0, 1), ("constant", 50, 100), *((s, 50, 400) for s in SCHEDULES)]
)
def test_decay_and_schedule_are_made_up_for(schedule, warmup, known, decay, rng):
    """Against dense AdamW in float64; the last factor of a schedule holds for steps beyond those that are known."""
    rows, lr, factors = 100, 1e-2, rate_factors(schedule, warmup, known)
    mine = rng.standard_normal((rows, 4))
    start, exact, moments = mine.copy(), mine.copy(), zeros(mine)
    lazy = LazyAdam(mine, zeros(mine), lr=lr, weight_decay=decay, factors=factors)
    for step in range(1, 401):
        ids = np.flatnonzero(rng.random(rows - 1) < 0.02)  # never the last row
        whole = np.zeros_like(exact)
        whole[ids] = rng.standard_normal((len(ids), 4))
        lazy.catch_up(ids, step - 1)
        lazy.update(ids, whole[ids], step)
        adamw(exact, whole, moments, step, lr=rate_at(lr, factors, step), weight_decay=decay)
    lazy.catch_up(np.arange(rows), 400)
    moved = np.abs(exact - start).mean()
    np.testing.assert_allclose(mine, exact, rtol=0, atol=1e-6 * moved)
    np.testing.assert_allclose(mine[-1], exact[-1], rtol=1e-10)  # nothing but decay
    assert decay == 0 or np.all(np.abs(mine[-1]) < np.abs(start[-1]))


def test_a_row_left_alone_for_thousands_of_steps(rng):
    table = rng.standard_normal((3, 2)).astype(np.float32)
    exact = table.astype(np.float64)
    lazy, moments = LazyAdam(table, zeros(table), lr=0.01), zeros(exact)
    g = np.array([[1e-2, -1e-9]])
    lazy.update(np.array([1]), g.astype(np.float32), 1)
    for step in range(1, 4001):
        adam(exact, np.array([[0, 0], g[0], [0, 0]]) * (step == 1), moments, step, lr=0.01)
    lazy.catch_up(np.array([0, 1]), 4000)
    np.testing.assert_allclose(table[:, 0], exact[:, 0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        table[:, 1], exact[:, 1], rtol=0, atol=2e-3 * 0.01
    )  # root v far below eps, from step 1 on
    assert lazy.last.tolist() == [4000, 4000, 0]
    before = table.copy()
    lazy.catch_up(np.array([1]), 4000)  # nothing missed, nothing done
    np.testing.assert_array_equal(table, before)


def test_where_a_row_would_never_stop_it_is_refused():
    table = np.zeros((2, 2), np.float32)
    assert not LazyAdam.suits(0.81)
    with pytest.raises(ValueError, match=r"beta2 is 0.85, expected well above beta1² = 0.81"):
        LazyAdam(table, zeros(table), lr=0.1, beta2=0.85)


@pytest.mark.parametrize("last", [0, 1900, 2500])
@pytest.mark.parametrize("missed", [1, 7, 900])
def test_what_decays_alone_is_multiplied_once_for_every_missed_step(last, missed):
    """Also from a step on that lies beyond those for which factors are kept."""
    table = np.full((2, 3), 4.0)
    lazy = LazyAdam(table, zeros(table), lr=1e-3, weight_decay=0.5)
    lazy.last[...] = last
    lazy.catch_up(np.array([1]), last + missed)
    np.testing.assert_allclose(table[1], 4 * (1 - 0.0005) ** missed, rtol=1e-10)
    assert table[0].tolist() == [4.0] * 3
    assert lazy.last.tolist() == [last, last + missed]
