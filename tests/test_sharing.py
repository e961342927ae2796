"""How ranks share out work, vote, agree and are told from each other; of training on them, see test_ranks.py."""

import os
import socket
import sys
import types

import numpy as np
import pytest

from tests.side_by_side import side_by_side
from tinyattn import ranks as ranks_module
from tinyattn.ranks import (
    LAUNCHERS,
    MPIRanks,
    Ranks,
    RanksDifferError,
    _part_of_cores,
    alone,
    mpi,
    part_of,
    ranks,
    sharing,
    started,
)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_tasks_are_shared_out_each_once(size):
    rng = np.random.default_rng(size)
    for count in (0, 1, 4, 9):
        sizes = rng.integers(1, 6, count).tolist()
        loads, owner = [0] * size, {}
        for task in sorted(range(count), key=lambda task: (-sizes[task], task)):
            rank = min(range(size), key=lambda r: (loads[r], r))
            loads[rank] += sizes[task]
            owner[task] = rank
        expected = [[task for task in range(count) if owner[task] == rank] for rank in range(size)]
        assert side_by_side(size, lambda rank, sizes=sizes: rank.mine(sizes)) == expected


def test_a_map_gives_all_results_to_all_ranks_and_a_vote_counts_once():
    calls = []
    found = side_by_side(3, lambda rank: rank.map(lambda x: calls.append((rank.number, x)) or x * x, [3, 1, 2, 5]))
    assert found == [[9, 1, 4, 25]] * 3
    assert sorted(calls) == [(0, 3), (0, 5), (1, 1), (2, 2)]
    for voter in (0, 2, None):
        assert side_by_side(3, lambda rank, voter=voter: rank.any(rank.number == voter)) == [voter is not None] * 3
    one = Ranks()
    assert (one.any(True), one.any(False), one.gather(4), one.once(lambda: 5)) == (True, False, [4], 5)
    assert one.map(str, [1, 2]) == ["1", "2"]
    assert one.map(str, [1, 2], lambda f, tasks: [f(-t) for t in tasks]) == ["-1", "-2"]
    with pytest.raises(SystemExit) as ended:
        one.abort(3)
    assert ended.value.code == 3
    with pytest.raises(ZeroDivisionError):
        one.once(lambda: 1 / 0)
    assert ranks().size == 1
    with sharing(job := Ranks()):
        assert ranks() is job
        with alone():
            assert ranks() is not job
        assert ranks() is job


@pytest.mark.parametrize(("second", "says"), [
    ({"a": 1, "b": {"c": 2}}, None),
    ({"a": 1, "b": {"c": 3}}, "rank 1 has b.c 3, and rank 0 has 2: expected the same"),
    ({"b": {"c": 2}}, "rank 1 has a not given, and rank 0 has 1"),
    ({"a": 1, "b": {"c": 2}, "d": 0}, "rank 1 has d 0, and rank 0 has not given"),
])  # fmt: skip
def test_ranks_agree_name_by_name(second, says):
    def agree(rank):
        rank.agree(second if rank.number else {"a": 1, "b": {"c": 2}})

    found = side_by_side(2, agree)
    assert [isinstance(error, RanksDifferError) for error in found] == [says is not None] * 2
    assert says is None or all(says in str(error) for error in found)


def test_every_launcher_is_known_and_both_its_names_are_needed(monkeypatch):
    for names in LAUNCHERS:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    with mpi() as job:
        assert (job.size, started()) == (1, (1, 0))
    for size, number in LAUNCHERS:
        monkeypatch.setenv(size, "5")
        assert started() == (1, 0)
        monkeypatch.setenv(number, "3")
        assert started() == (5, 3)
        monkeypatch.delenv(size)
        assert started() == (1, 0)
        monkeypatch.delenv(number)


def test_every_core_is_somebodys_and_nobodys_twice():
    for cores in ([4], [1, 2, 5], list(range(7))):
        for count in range(1, 9):
            parts = [part_of(cores, number, count) for number in range(count)]
            assert sorted(set().union(*parts)) == cores
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
            assert all(parts)
            if count <= len(cores):
                assert sum(map(len, parts)) == len(cores)


def test_ranks_of_one_machine_divide_its_cores_and_give_them_back(monkeypatch):
    """Those of other machines, or with other cores, count for nothing."""
    here, kept = socket.gethostname(), []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1, 7}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: kept.append((pid, sorted(cores))), raising=False)

    class Job(Ranks):
        size, number = 5, 3

        def gather(self, value):
            return [(here, [1, 3, 7]), ("elsewhere", [1, 3, 7]), (here, [0]), value, (here, [0])]

    with _part_of_cores(Job()):
        assert kept == [(0, [3])]                                                # the second of two
    assert kept[1:] == [(0, [1, 3, 7])]


def test_what_is_asked_of_mpi(monkeypatch):
    asked = []
    world = types.SimpleNamespace(
        size=2, rank=1, allgather=lambda value: [value, value], Abort=lambda code: asked.append(code),
        Allreduce=lambda *arguments: asked.append(arguments), Ibarrier=lambda: types.SimpleNamespace(Test=lambda: True),
    )  # fmt: skip
    library = types.SimpleNamespace(COMM_WORLD=world, IN_PLACE="in place", SUM="sum")
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=library))
    monkeypatch.setattr(ranks_module, "started", lambda: (2, 1))
    job, array = MPIRanks(), np.ones(2)
    assert (job.size, job.number, job.gather(5)) == (2, 1, [5, 5])
    job.sum(array)
    job.wait()
    job.abort(4)
    assert asked == [("in place", array, "sum"), 4]


def test_what_fails_on_one_rank_of_mpi_ends_all_and_is_shown(monkeypatch, capsys):
    ended = []

    class Job(Ranks):
        size, number = 2, 1
        gather, abort = staticmethod(lambda value: [value] * 2), staticmethod(ended.append)

    monkeypatch.setattr(ranks_module, "started", lambda: (2, 1))
    monkeypatch.setattr(ranks_module, "joined", Job)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None, raising=False)
    with mpi() as job:
        assert (type(job), ranks()) == (Job, job)
    with pytest.raises(KeyboardInterrupt), mpi():
        raise KeyboardInterrupt
    assert (ended, ranks().size) == ([1], 1)
    assert capsys.readouterr().err.rstrip().endswith("KeyboardInterrupt")
