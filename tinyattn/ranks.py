"""The processes of one job that `mpiexec` started: ranks, which train one model together.

Each rank computes a part of every step, and all of them hold the same parameters. What shares work out asks `ranks()`;
without mpiexec that is one rank, which does all of it, and MPI is never imported.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

# what launchers tell each process: the number of processes, its own number
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),      # Open MPI
    ("PMI_SIZE", "PMI_RANK"),                              # MPICH and Intel MPI, Slurm's pmi2
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),                 # srun --mpi=pmix
)
POLL = 0.01          # seconds between two looks of a rank that waits long


class RanksDifferError(ValueError):
    """Ranks were started with other options, data or versions; the message names the first difference."""


class Ranks:
    """One rank, alone. A job of several has a subclass with `gather`, `sum` and `wait`; the rest is made of these."""

    size = 1             # how many there are
    number = 0           # which one this is; only 0 writes files and speaks

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks in the order of their numbers, on every rank."""
        return [value]

    def sum(self, array: np.ndarray) -> None:
        """Replace a contiguous array by its sum over all ranks, the same bits on each."""

    def wait(self) -> None:
        """Return when all ranks are here."""

    def abort(self, code: int) -> None:
        """End all processes of the job at once; the exit code is `code`."""
        raise SystemExit(code)

    def any(self, value: bool) -> bool:
        """Is it True on one of the ranks?"""
        votes = np.array([value], dtype=np.float32)
        self.sum(votes)
        return bool(votes[0] > 0)

    def mine(self, sizes: Sequence[float]) -> list[int]:
        """Which tasks of these sizes are this rank's, ascending: largest first, each to the rank with least to do."""
        loads, found = [0.0] * self.size, []
        for task in sorted(range(len(sizes)), key=lambda task: -sizes[task]):
            rank = loads.index(min(loads))
            loads[rank] += sizes[task]
            if rank == self.number:
                found.append(task)
        return sorted(found)

    def map(
        self, f: Callable[[Any], Any], tasks: Sequence[Any], each: Callable[..., Iterable[Any]] = map
    ) -> list[Any]:
        """f of every task, in their order, on every rank: each does its part, by `each(f, part)`.

        An exception of one rank is raised on all of them.
        """
        mine = self.mine([1] * len(tasks))
        found: dict[int, Any] = {}
        for part in self._all(lambda: dict(zip(mine, each(f, [tasks[i] for i in mine]), strict=True))):
            found |= part
        return [found[i] for i in range(len(tasks))]

    def once(self, f: Callable[[], Any]) -> Any:
        """What f() is on rank 0, which alone calls it, on every rank; an exception, too."""
        return self._all(f if self.number == 0 else lambda: None)[0]

    def _all(self, f: Callable[[], Any]) -> list[Any]:
        found, error = None, None
        try:
            with alone():
                found = f()
        except Exception as raised:
            if self.size == 1:
                raise
            error = raised
        gathered = self.gather((found, error))
        for _, failed in gathered:
            if failed is not None:
                raise failed
        return [value for value, _ in gathered]

    def agree(self, values: dict[str, Any]) -> None:
        """Raise RanksDifferError, on every rank, where one says something else than rank 0."""
        first, *others = [_flat(one) for one in self.gather(values)]
        for number, other in enumerate(others, start=1):
            for name in [*first, *other]:
                theirs, ours = other.get(name, "not given"), first.get(name, "not given")
                if theirs != ours:
                    raise RanksDifferError(
                        f"rank {number} has {name} {theirs}, and rank 0 has {ours}: expected the same"
                    )


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Dicts inside taken apart, with dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inside = {f"{name}.{inner}": leaf for inner, leaf in _flat(value).items()} if isinstance(value, dict) else None
        found |= {name: value} if inside is None else inside
    return found


_current: ContextVar[Ranks] = ContextVar("ranks", default=Ranks())      # noqa: B039, it has no state


def ranks() -> Ranks:
    """The ranks that share the work out now: inside `mpi` those of the job, elsewhere one, alone."""
    return _current.get()


@contextmanager
def sharing(job: Ranks) -> Iterator[Ranks]:
    """A context in which `ranks()` is `job`."""
    token = _current.set(job)
    try:
        yield job
    finally:
        _current.reset(token)


def alone() -> Any:
    """A context in which this process shares nothing out: for what one rank does while others do something else."""
    return sharing(Ranks())


def started() -> tuple[int, int]:
    """(size, number) of this process among those that a launcher of MPI started; (1, 0) without one."""
    for size, number in LAUNCHERS:
        if size in os.environ and number in os.environ:
            return int(os.environ[size]), int(os.environ[number])
    return 1, 0


class MPIRanks(Ranks):
    """The processes of MPI's world communicator. Raises ImportError without mpi4py, RuntimeError with another MPI's."""

    def __init__(self) -> None:
        size, _ = started()
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:             # RuntimeError: it finds no library of MPI
            raise ImportError(
                f"mpiexec started {size} processes, which mpi4py joins, and it cannot be imported ({error}): "
                "pip install 'tinyattn[mpi]'"
            ) from None
        self._comm: Any = MPI.COMM_WORLD
        self._mpi: Any = MPI
        self.size, self.number = self._comm.size, self._comm.rank
        if self.size != size:
            library = MPI.Get_library_version().partition(",")[0].strip()
            raise RuntimeError(
                f"mpiexec started {size} processes, and mpi4py, which has {library}, sees {self.size}: expected the "
                "mpiexec of that library"
            )

    def gather(self, value: Any) -> list[Any]:
        found: list[Any] = self._comm.allgather(value)
        return found

    def sum(self, array: np.ndarray) -> None:
        self._comm.Allreduce(self._mpi.IN_PLACE, array, self._mpi.SUM)

    def wait(self) -> None:
        request = self._comm.Ibarrier()
        while not request.Test():
            time.sleep(POLL)                                     # other calls of MPI keep a core busy

    def abort(self, code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._comm.Abort(code)


@contextmanager
def mpi() -> Iterator[Ranks]:
    """A context in which the processes that mpiexec started share out training, validation and ranking.

        with mpi():                                  # mpiexec -n 4 python this_file.py
            model = SASRec().fit(sequences)          # the same on every rank

    Without mpiexec it does nothing. Every rank has to do the same inside; an exception on one ends them all. Ranks that
    may use the same cores of a machine divide them. Raises as `MPIRanks`.
    """
    if started()[0] == 1:
        yield ranks()
        return
    job = MPIRanks()
    with sharing(job), _own_cores(job):
        try:
            yield job
        except BaseException:
            traceback.print_exc()
            job.abort(1)
            raise


@contextmanager
def _own_cores(job: Ranks) -> Iterator[None]:
    """Keep this process, and those it starts, on its part of the cores that several ranks of one machine may use."""
    if not hasattr(os, "sched_setaffinity"):         # only Linux has it
        yield
        return
    before = os.sched_getaffinity(0)
    here = socket.gethostname(), sorted(before)
    sharers = [number for number, there in enumerate(job.gather(here)) if there == here]
    os.sched_setaffinity(0, part_of(here[1], sharers.index(job.number), len(sharers)))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def part_of(cores: list[int], number: int, count: int) -> list[int]:
    """The cores of process `number` of `count`: parts of about equal size, or one core each where there are too few."""
    return cores[number % len(cores) :: count] if count <= len(cores) else [cores[number % len(cores)]]
