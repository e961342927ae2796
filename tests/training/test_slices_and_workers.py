import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.models.worlds import TINY
from tinyattn.data import Sampler, cut, leave_one_out
from tinyattn.training import Workers


def test_slices_have_every_row_once_and_hardly_any_padding():
    batch = Sampler(leave_one_out(TINY.generate()).train, 6, 60, 0, True).batch(0)
    slices = batch.slices(40)
    assert sum(len(part.users) for part in slices) == len(batch.users)
    assert sorted(np.concatenate([part.users for part in slices])) == sorted(batch.users)
    assert sum(part.weight.sum() for part in slices) == batch.weight.sum()
    for part in slices:
        lengths = (part.ids != 0).sum(axis=1)
        assert part.ids.shape[1] == lengths.max()
        assert part.weight.sum() <= 40 + 6
        row = int(np.flatnonzero(batch.users == part.users[0])[0])
        np.testing.assert_array_equal(part.negatives[0, : lengths[0]], batch.negatives[row, : lengths[0]])
    assert sum(part.ids.size for part in slices) < 0.75 * batch.ids.size


def test_slices_are_of_equal_work():
    slices = cut(np.full(100, 7), tokens=100)
    assert len(slices) == 7
    assert {len(rows) for rows in slices} <= {14, 15}
    assert [rows.tolist() for rows in cut(np.array([3]), tokens=1)] == [[0]]  # one row is never cut


def test_without_a_count_there_is_a_thread_for_each_core(monkeypatch):
    monkeypatch.setattr("tinyattn.training.workers.cores", lambda: 5)
    assert (Workers().count, Workers(2).count) == (5, 2)


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    """Of BLAS, before the test: a run with a process for each core has one (tests/conftest.py)."""
    with threadpool_limits(2, "blas"):
        yield


@pytest.mark.usefixtures("two_threads")
def test_workers_keep_order_use_threads_and_hold_blas_at_one():
    gate = threading.Barrier(2, timeout=20)

    def work(i):
        if i < 2:
            gate.wait()  # only two threads at once get past this
        return i, [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = [pool["num_threads"] for pool in threadpool_info()]
    with Workers(2) as pool:
        found = list(pool.map(work, range(6)))
    assert [i for i, _ in found] == list(range(6))
    assert {count for _, counts in found for count in counts} <= {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before
    with pytest.raises(ValueError, match="workers is 0"):
        Workers(0)


@pytest.mark.usefixtures("two_threads")
def test_pools_of_several_threads_hold_blas_at_one_until_the_last_ends():
    before = blas_threads()
    first, second = Workers(1), Workers(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


@pytest.mark.parametrize("most", [0, 1])
def test_where_no_more_threads_start_the_work_is_done_all_the_same(most, monkeypatch):
    start, left = threading.Thread.start, [most]

    def start_some(thread):
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    with Workers(3) as pool:
        for _ in range(2):
            assert list(pool.map(lambda i: 2 * i, range(50))) == [2 * i for i in range(50)]


def test_a_workers_error_reaches_the_caller():
    def work(i):
        raise KeyError(i)

    with Workers(2) as pool, pytest.raises(KeyError):
        list(pool.map(work, range(3)))
