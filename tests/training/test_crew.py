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


def test_results_come_in_order_from_other_processes_and_see_shared_memory():
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
            assert os.getpid() not in pids
            assert len(pids) > 1
        assert list(crew.map([])) == []
        processes = crew._processes
    assert not any(process.is_alive() for process in processes)


def test_what_does_not_fit_its_slot_travels_through_the_pipe():
    with Crew(2, lambda n: np.arange(n), room=10) as crew:
        for n, found in zip([5, 50_000], crew.map([5, 50_000]), strict=True):
            np.testing.assert_array_equal(found, np.arange(n))


@pytest.mark.parametrize("where", ["one worker", "threads"])
def test_without_processes_the_same(where, monkeypatch):
    monkeypatch.setattr(module, "can_fork", lambda: False)
    with Crew(1 if where == "one worker" else 2, lambda i: (os.getpid(), i), room=8) as crew:
        assert list(crew.map(range(5))) == [(os.getpid(), i) for i in range(5)]


def test_an_exception_in_a_worker_is_raised_here_and_the_crew_goes_on():
    with Crew(2, lambda i: 1 / i, room=8) as crew:
        with pytest.raises(ZeroDivisionError):
            list(crew.map([0, 1, 2, 3]))
        assert list(crew.map([4])) == [0.25]


def test_a_killed_worker_is_told():
    crew = Crew(2, lambda i: os.kill(os.getpid(), signal.SIGKILL) if i == 2 else i, room=8)
    with crew, pytest.raises(RuntimeError, match="a worker process was killed; with workers 1"):
        list(crew.map([1, 2, 3, 4]))


def test_workers_end_when_their_owner_is_killed():
    code = """if True:
        import os, sys, time
        from tinyattn.training.crew import Crew
        crew = Crew(2, lambda i: os.getpid(), 8).__enter__()
        print(*{*crew.map(range(20))}, flush=True)
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
