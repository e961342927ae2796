"""Worker processes: order, shared memory, errors, and what happens when a child or the parent is killed."""

import errno
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from tests.models.worlds import TINY
from tinyattn.data import Sampler, leave_one_out
from tinyattn.models import SASRecNetwork
from tinyattn.training import Settings, learner, train
from tinyattn.training import processes as module
from tinyattn.training.processes import ProcessPool, shared
from tinyattn.tree import leaves

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(
        not module.can_fork(), reason="worker processes are forked on Linux only: threads work elsewhere"
    ),
]


def test_results_come_in_order_from_all_processes_and_see_shared_memory():
    seen = shared(np.zeros(3, np.float32))

    def work(i):
        time.sleep(0.002 * (5 - i % 5))
        return os.getpid(), i, seen * i, {"rows": [np.full((4, 3), i), np.asfortranarray(np.arange(6.0).reshape(2, 3))]}

    with ProcessPool(3, work, result_bytes=1000) as pool:
        for round_ in (1, 2):
            seen[...] = round_
            pids, numbers = set(), []
            for pid, i, mine, tree in pool.map(range(50)):
                pids.add(pid)
                numbers.append(i)
                np.testing.assert_array_equal(mine, np.full(3, i * round_))
                np.testing.assert_array_equal(tree["rows"][0], np.full((4, 3), i))
                np.testing.assert_array_equal(tree["rows"][1], np.arange(6.0).reshape(2, 3))
            assert numbers == list(range(50))  # more than there are slots
            assert os.getpid() in pids  # the parent works as well
            assert len(pids) > 1
        assert list(pool.map([])) == []
    assert not multiprocessing.active_children()


def test_more_tasks_than_a_pipe_holds_numbers():
    with ProcessPool(2, lambda i: i, result_bytes=0) as pool:
        for n in (20_000, 20 * module.AT_ONCE + 1):
            assert list(pool.map(range(n))) == list(range(n))


def elsewhere(parent, f):
    """f, but the parent sleeps first, so that the children have taken all other tasks by then."""

    def work(task):
        if os.getpid() == parent:
            time.sleep(0.3)
        return f(task)

    return work


def test_what_does_not_fit_its_slot_travels_through_the_pipe():
    counts = [5, 5, 50_000, 7]
    with ProcessPool(2, elsewhere(os.getpid(), lambda x: 2 * x), result_bytes=10) as pool:
        for n, found in zip(counts, pool.map([np.arange(n) for n in counts]), strict=True):
            np.testing.assert_array_equal(found, 2 * np.arange(n))


def test_children_go_on_while_the_parent_works_though_their_results_fill_the_pipe():
    parent, seen = os.getpid(), shared(np.zeros(12))

    def work(i):
        seen[i] = os.getpid()
        time.sleep(0.05 if os.getpid() == parent else 0)
        return np.zeros(200_000)  # no slot is that large

    with ProcessPool(2, work, result_bytes=8) as pool:
        assert len(list(pool.map(range(12)))) == 12
    assert np.sum(seen == parent) < 9  # a result is read between two of the parent's tasks


def test_a_result_that_cannot_be_pickled_is_an_error():
    with ProcessPool(2, elsewhere(os.getpid(), lambda i: lambda: i), result_bytes=8) as pool:
        with pytest.raises(Exception, match="pickle"):
            list(pool.map([1, 2, 3, 4]))
        assert list(pool.map([])) == []


@pytest.mark.parametrize("where", ["one worker", "threads"])
def test_without_processes_the_same(where, monkeypatch):
    monkeypatch.setattr(module, "can_fork", lambda: False)
    with ProcessPool(1 if where == "one worker" else 2, lambda i: (os.getpid(), i), result_bytes=8) as pool:
        assert list(pool.map(range(5))) == [(os.getpid(), i) for i in range(5)]


def test_an_exception_in_a_child_is_raised_in_the_parent_and_the_pool_goes_on():
    for bad in range(4):  # whichever process gets it
        with ProcessPool(2, lambda i: 1 / i, result_bytes=8) as pool:
            for _ in range(5):
                with pytest.raises(ZeroDivisionError):
                    list(pool.map([i - bad for i in range(4)]))
                assert list(pool.map([4, 2])) == [0.25, 0.5]


def test_a_child_that_slept_through_rounds_reads_the_tasks_of_the_latest():
    with ProcessPool(6, lambda i: (time.sleep(0.001), i)[1], result_bytes=8) as pool:
        for round_ in range(300):  # too few tasks for six processes: most sleep through many rounds
            assert list(pool.map([round_, -round_])) == [round_, -round_]
        assert list(pool.map(range(300, 400))) == list(range(300, 400))


def test_results_of_an_abandoned_map_are_dropped():
    with ProcessPool(3, lambda i: (time.sleep(0.01), i)[1], result_bytes=8) as pool:
        for _ in range(3):
            for first in pool.map(range(10)):
                assert first == 0
                break
        assert list(pool.map(range(20, 30))) == list(range(20, 30))


def test_children_collect_no_garbage_of_their_parent():
    """A destructor may wait for threads of the parent, which no child has, as that of an ONNX session does."""
    reader, writer = os.pipe()

    class Cycle:
        def __init__(self):
            self.itself = self

        def __del__(self):
            os.write(writer, b"." if os.getpid() == parent else b"!")

    def work(_):
        time.sleep(0.002)
        return os.getpid() != parent and bool(gc.collect() + 1)

    parent = os.getpid()
    gc.collect()
    gc.disable()
    try:
        Cycle()
        with ProcessPool(2, work, result_bytes=0) as pool:
            assert any(pool.map(range(50)))  # the child collects, the parent does not
    finally:
        gc.enable()
    gc.collect()
    os.close(writer)
    assert os.read(reader, 9) == b"."
    os.close(reader)


def test_a_killed_child_is_an_error():
    parent = os.getpid()

    def work(i):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        return i

    with ProcessPool(2, work, result_bytes=8) as pool:
        for _ in range(2):  # and at the next map again
            with pytest.raises(RuntimeError, match="a worker process was killed; with workers 1"):
                list(pool.map([1, 2, 3, 4]))


@pytest.mark.slow(seconds=2)
def test_children_end_when_their_parent_is_killed():
    code = """if True:
        import os, sys, time
        from tinyattn.training.processes import ProcessPool
        pool = ProcessPool(3, lambda i: (time.sleep(0.01), os.getpid())[1], 8).__enter__()
        print(*{*pool.map(range(20))} - {os.getpid()}, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return
        time.sleep(0.05)
    alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    states = [line for pid in alive for line in open(f"/proc/{pid}/status") if line.startswith("State")]  # noqa: SIM115
    assert all("Z" in state for state in states), f"{pids} outlived their parent"


def test_a_count_below_one_is_refused():
    with pytest.raises(ValueError, match="workers is 0, expected at least 1"):
        ProcessPool(0, lambda i: i, result_bytes=8)


@contextmanager
def at_most(seconds, error=TimeoutError):
    """Raises an error in the block where it takes longer."""

    def ring(*_):
        raise error

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def here(i):
    time.sleep(0.002)
    return os.getpid()


def descriptors():
    return set(os.listdir("/proc/self/fd"))


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def refuse(*_, **__):
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def fit(workers=2):
    data = leave_one_out(TINY.generate()).train
    p, _ = train(SASRecNetwork(n_items=data.n_items, maxlen=6, dim=8), Sampler(data, 6, 60, 0, True),
                 Settings(epochs=2), workers=workers, progress=False)  # fmt: skip
    return np.concatenate([leaf.ravel() for _, leaf in leaves(p)])


def test_of_pools_that_are_open_at_once_one_has_processes_and_none_leaves_a_descriptor():
    gc.collect()
    before = descriptors()
    with ProcessPool(2, here, result_bytes=8) as first:
        with ThreadPoolExecutor(1) as thread:

            def second():
                with ProcessPool(2, here, result_bytes=8) as pool:
                    return set(pool.map(range(20)))

            assert thread.submit(second).result() == {os.getpid()}
        assert len(set(first.map(range(20)))) == 2
    with ProcessPool(2, here, result_bytes=8) as third:
        assert len(set(third.map(range(20)))) == 2
    assert descriptors() == before


def test_fits_in_threads_end_with_the_bits_of_one_alone():
    alone = fit(1)
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: fit(), range(3)):
            np.testing.assert_array_equal(found, alone)


def test_a_daemon_process_computes_with_threads():
    def in_daemon():
        with ProcessPool(2, here, result_bytes=8) as pool:
            os._exit(7 if set(pool.map(range(5))) == {os.getpid()} else 1)

    daemon = multiprocessing.get_context("fork").Process(target=in_daemon, daemon=True)
    daemon.start()
    daemon.join()
    assert daemon.exitcode == 7


def test_other_processes_that_are_forked_meanwhile_hold_no_end_of_a_pipe():
    with ProcessPool(2, here, result_bytes=8) as pool:
        ours = [pool._task_file, pool._queue._read, pool._queue._write, pool._connections[0].fileno()]
        if (child := os.fork()) == 0:
            os._exit(1 if any(is_open(number) for number in ours) else 7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(set(pool.map(range(20)))) == 2


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError])
def test_what_a_signal_raises_ends_the_pool_though_a_child_is_stopped(raised, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    parent = os.getpid()

    def work(i):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.3)

    def interrupted():
        with ProcessPool(2, work, result_bytes=8) as pool:
            list(pool.map(range(3)))

    with pytest.raises(raised), at_most(1, raised):
        interrupted()
    assert not multiprocessing.active_children()


def test_an_interrupt_between_two_results_ends_the_pool_too():
    here = os.getpid()

    def sleep(seconds):
        if os.getpid() != here:  # this process takes tasks, too: a busy machine gives it one that would not end
            time.sleep(seconds)

    def interrupted():
        with ProcessPool(2, sleep, result_bytes=8) as pool:
            for _ in pool.map([0, 0, 1000, 1000]):
                raise KeyboardInterrupt

    with at_most(20), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("refused", ["memfd_create", "pipe", "fork", "fork later", "mmap"])
def test_where_the_system_gives_no_more_there_are_threads(refused, monkeypatch):
    fork, left = os.fork, [1]

    def fork_once():
        return fork() if left and left.pop() else refuse()

    before = descriptors()
    place = module.mmap if refused == "mmap" else os
    monkeypatch.setattr(place, refused.split()[0], fork_once if refused == "fork later" else refuse)
    with ProcessPool(3, here, result_bytes=8) as pool:
        assert list(pool.map(range(5))) == [os.getpid()] * 5
        assert not multiprocessing.active_children()
        assert descriptors() == before or "fork" in refused  # multiprocessing leaves those of a failed fork


def test_without_files_in_memory_there_are_threads(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    assert not module.can_fork()


def test_without_shared_memory_a_fit_ends_with_the_same_bits(monkeypatch):
    expected = fit()
    monkeypatch.setattr(learner, "shared", refuse)
    np.testing.assert_array_equal(fit(), expected)


@pytest.mark.parametrize("room", range(0, 72, 8))
def test_arrays_lie_in_a_slot_where_they_fit_into_it_at_places_for_any_dtype(room):
    """Of 3, 8 and 20 bytes the last begins at 16: with its end rounded up they take 40."""
    arrays = [np.arange(3, dtype=np.int8), np.array([7.5]), np.arange(5, dtype=np.float32)]
    slot = memoryview(bytearray(room))
    message = module._packed(arrays, slot)
    assert message[1] == ([3, 16, 36] if room >= 40 else [])
    for mine, theirs in zip(module._unpacked(message, slot), arrays, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert [module._aligned(n) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]


def test_so_many_processes_and_whole_pages_for_their_results(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 12)
    assert ProcessPool(None, abs, 1)._threads.count == 8
    assert ProcessPool(9, abs, 1)._threads.count == 9
    page = module.mmap.PAGESIZE
    assert [ProcessPool(1, abs, n)._slot_bytes for n in (0, 1, page, page + 1)] == [page, page, page, 2 * page]
