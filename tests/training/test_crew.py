"""Worker processes: order, shared memory, errors, and what happens when one is killed or everybody is."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tinyattn.training import crew as module
from tinyattn.training.crew import Crew, shared

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

    with Crew(3, work, room=1000) as crew:
        for round_ in (1, 2):
            seen[...] = round_
            pids, numbers = set(), []
            for pid, i, mine, tree in crew.map(range(50)):
                pids.add(pid)
                numbers.append(i)
                np.testing.assert_array_equal(mine, np.full(3, i * round_))
                np.testing.assert_array_equal(tree["rows"][0], np.full((4, 3), i))
                np.testing.assert_array_equal(tree["rows"][1], np.arange(6.0).reshape(2, 3))
            assert numbers == list(range(50))  # more than there are slots
            assert os.getpid() in pids  # who asks works as well
            assert len(pids) > 1
        assert list(crew.map([])) == []
        processes = crew._processes
    assert not any(process.is_alive() for process in processes)


def test_more_tasks_than_a_pipe_holds_tickets():
    with Crew(2, lambda i: i, room=0) as crew:
        assert list(crew.map(range(20_000))) == list(range(20_000))


def elsewhere(owner, f):
    """f, but the owner of the crew takes its time, so that others have taken all other tasks when it is done."""

    def work(task):
        if os.getpid() == owner:
            time.sleep(0.3)
        return f(task)

    return work


def test_what_does_not_fit_its_slot_travels_through_the_pipe():
    counts = [5, 5, 50_000, 7]
    with Crew(2, elsewhere(os.getpid(), lambda x: 2 * x), room=10) as crew:
        for n, found in zip(counts, crew.map([np.arange(n) for n in counts]), strict=True):
            np.testing.assert_array_equal(found, 2 * np.arange(n))


def test_others_go_on_while_the_owner_works_though_their_results_fill_the_pipe():
    owner, seen = os.getpid(), shared(np.zeros(12))

    def work(i):
        seen[i] = os.getpid()
        time.sleep(0.05 if os.getpid() == owner else 0)
        return np.zeros(200_000)  # no slot is that large

    with Crew(2, work, room=8) as crew:
        assert len(list(crew.map(range(12)))) == 12
    assert np.sum(seen == owner) < 9  # a result is read between two of the owner's


def test_a_result_that_cannot_travel_is_told():
    with Crew(2, elsewhere(os.getpid(), lambda i: lambda: i), room=8) as crew:
        with pytest.raises(Exception, match="pickle"):
            list(crew.map([1, 2, 3, 4]))
        assert list(crew.map([])) == []


@pytest.mark.parametrize("where", ["one worker", "threads"])
def test_without_processes_the_same(where, monkeypatch):
    monkeypatch.setattr(module, "can_fork", lambda: False)
    with Crew(1 if where == "one worker" else 2, lambda i: (os.getpid(), i), room=8) as crew:
        assert list(crew.map(range(5))) == [(os.getpid(), i) for i in range(5)]


def test_an_exception_in_a_worker_is_raised_here_and_the_crew_goes_on():
    for bad in range(4):  # whoever gets it
        with Crew(2, lambda i: 1 / i, room=8) as crew:
            for _ in range(5):
                with pytest.raises(ZeroDivisionError):
                    list(crew.map([i - bad for i in range(4)]))
                assert list(crew.map([4, 2])) == [0.25, 0.5]


def test_who_comes_late_finds_the_tasks_of_the_day():
    with Crew(6, lambda i: (time.sleep(0.001), i)[1], room=8) as crew:
        for round_ in range(300):  # too few tasks for most, who sleep through many rounds
            assert list(crew.map([round_, -round_])) == [round_, -round_]
        assert list(crew.map(range(300, 400))) == list(range(300, 400))


def test_results_that_nobody_waits_for_go_to_nobody():
    with Crew(3, lambda i: (time.sleep(0.01), i)[1], room=8) as crew:
        for _ in range(3):
            for first in crew.map(range(10)):
                assert first == 0
                break
        assert list(crew.map(range(20, 30))) == list(range(20, 30))


def test_a_killed_worker_is_told():
    owner = os.getpid()

    def work(i):
        if os.getpid() != owner:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        return i

    with Crew(2, work, room=8) as crew:
        for _ in range(2):  # and whoever asks again is told again
            with pytest.raises(RuntimeError, match="a worker process was killed; with workers 1"):
                list(crew.map([1, 2, 3, 4]))


def test_workers_end_when_their_owner_is_killed():
    code = """if True:
        import os, sys, time
        from tinyattn.training.crew import Crew
        crew = Crew(3, lambda i: (time.sleep(0.01), os.getpid())[1], 8).__enter__()
        print(*{*crew.map(range(20))} - {os.getpid()}, flush=True)
        time.sleep(60)
    """
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return
        time.sleep(0.05)
    alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    states = [line for pid in alive for line in open(f"/proc/{pid}/status") if line.startswith("State")]  # noqa: SIM115
    assert all("Z" in state for state in states), f"{pids} go on working for nobody"


def test_a_count_below_one_is_refused():
    with pytest.raises(ValueError, match="workers is 0, expected at least 1"):
        Crew(0, lambda i: i, room=8)
