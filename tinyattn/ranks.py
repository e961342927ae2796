"""The processes of one job that a launcher started: ranks, which train one model together.

Each rank computes a part of every step, and all hold the same parameters. Code that divides work calls `ranks()`;
without a launcher that is one rank. Messages go through MPI where mpiexec or srun started the processes, and through
torch.distributed, with gloo, where the launcher sets RANK, WORLD_SIZE and MASTER_ADDR, as torchrun, Kubernetes
operators and cloud services do. Only `joined` imports these packages.
"""

import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np

# environment variables of launchers of MPI: the number of processes, the number of this one
LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),      # Open MPI
    ("PMI_SIZE", "PMI_RANK"),                              # MPICH and Intel MPI, Slurm's pmi2
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),                 # srun --mpi=pmix
)
OF_TORCH = ("WORLD_SIZE", "RANK")       # of launchers of PyTorch, which also set MASTER_ADDR
PATIENCE = timedelta(days=1)            # the longest wait for the message of a slower rank
POLL = 0.01                             # seconds between two tests of a waiting rank


class RanksDifferError(ValueError):
    """Ranks were started with different options, data or versions; the message names the first difference."""


class LostRankError(RuntimeError):
    """Another rank has ended, so this one cannot continue. The other rank prints the reason."""


class Ranks:
    """A single rank. For several, a subclass overrides `gather`, `sum` and `wait`; the rest is built on them."""

    size = 1             # of the job
    number = 0           # of this rank; only 0 writes files and prints

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in order, on every rank."""
        return [value]

    def sum(self, array: np.ndarray) -> None:
        """Replace a contiguous array by its sum over all ranks, the same bits on each."""

    def wait(self) -> None:
        """Return when all ranks are here."""

    def abort(self, code: int) -> None:
        """End all processes of the job at once; the exit code is `code`."""
        raise SystemExit(code)

    def any(self, value: bool) -> bool:
        """Is `value` True on any rank?"""
        votes = np.array([value], dtype=np.float32)
        self.sum(votes)
        return bool(votes[0] > 0)

    def mine(self, sizes: Sequence[float]) -> list[int]:
        """This rank's tasks, ascending; tasks are assigned by size, largest first, to the rank with the least load."""
        loads, mine = [0.0] * self.size, []
        for task in sorted(range(len(sizes)), key=lambda task: -sizes[task]):
            rank = loads.index(min(loads))
            loads[rank] += sizes[task]
            if rank == self.number:
                mine.append(task)
        return sorted(mine)

    def map(
        self, f: Callable[[Any], Any], tasks: Sequence[Any], each: Callable[..., Iterable[Any]] = map
    ) -> list[Any]:
        """The results of f for all tasks, in order; a rank runs `each(f, its tasks)`. If one raises, all do."""
        mine = self.mine([1] * len(tasks))
        results: dict[int, Any] = {}
        for part in self._all(lambda: dict(zip(mine, each(f, [tasks[i] for i in mine]), strict=True))):
            results |= part
        return [results[i] for i in range(len(tasks))]

    def once(self, f: Callable[[], Any]) -> Any:
        """The value of f(), computed by rank 0 alone, or its exception, on every rank."""
        return self._all(f if self.number == 0 else lambda: None)[0]

    def _all(self, f: Callable[[], Any]) -> list[Any]:
        value, error = None, None
        try:
            with alone():
                value = f()
        except Exception as raised:
            if self.size == 1:
                raise
            error = raised
        gathered = self.gather((value, error))
        for _, failed in gathered:
            if failed is not None:
                raise failed
        return [value for value, _ in gathered]

    def agree(self, values: dict[str, Any]) -> None:
        """Raise RanksDifferError, on every rank, where any rank's values differ from those of rank 0."""
        first, *others = [dict(_dotted(values)) for values in self.gather(values)]
        for number, other in enumerate(others, start=1):
            for name in [*first, *other]:
                theirs, ours = other.get(name, "not given"), first.get(name, "not given")
                if theirs != ours:
                    raise RanksDifferError(
                        f"rank {number} has {name} {theirs}, and rank 0 has {ours}: expected the same"
                    )


def _dotted(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested dicts, with dotted names."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


_current: ContextVar[Ranks] = ContextVar("ranks", default=Ranks())      # noqa: B039, it has no state


def ranks() -> Ranks:
    """The ranks that divide the work now: those of the job inside `mpi`, else a single one."""
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
    """A context without other ranks, for work of one rank while others work on something else."""
    return sharing(Ranks())


def started() -> tuple[int, int]:
    """(size of the job, number of this process), as the launcher set them; (1, 0) without one."""
    for size, number in (*LAUNCHERS, OF_TORCH) if "MASTER_ADDR" in os.environ else LAUNCHERS:
        if size in os.environ and number in os.environ:
            return int(os.environ[size]), int(os.environ[number])
    return 1, 0


def joined() -> Ranks:
    """The ranks of this job. Raises as `MPIRanks` and `TorchRanks`."""
    of_mpi = any(size in os.environ and number in os.environ for size, number in LAUNCHERS)
    return MPIRanks() if of_mpi else TorchRanks()


class MPIRanks(Ranks):
    """The processes of MPI's world communicator. Raises ImportError without mpi4py, RuntimeError for another MPI."""

    def __init__(self) -> None:
        size, _ = started()
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:             # RuntimeError: no library of MPI
            raise ImportError(
                f"mpiexec started {size} processes, and mpi4py, which joins them, cannot be imported ({error}): "
                "pip install 'tinyattn[mpi]'"
            ) from None
        self._comm, self._mpi = MPI.COMM_WORLD, MPI
        self.size, self.number = self._comm.size, self._comm.rank
        if self.size != size:
            library = MPI.Get_library_version().partition(",")[0].strip()
            raise RuntimeError(
                f"mpiexec started {size} processes, and mpi4py, which has {library}, sees {self.size}: expected the "
                "mpiexec of that library"
            )

    def gather(self, value: Any) -> list[Any]:
        return self._comm.allgather(value)

    def sum(self, array: np.ndarray) -> None:
        self._comm.Allreduce(self._mpi.IN_PLACE, array, self._mpi.SUM)

    def wait(self) -> None:
        request = self._comm.Ibarrier()
        while not request.Test():
            time.sleep(POLL)                                     # a blocking call of MPI would keep a core busy

    def abort(self, code: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._comm.Abort(code)


class TorchRanks(Ranks):
    """The processes of torch.distributed's world, with backend gloo. Raises ImportError without PyTorch."""

    def __init__(self) -> None:
        size, _ = started()
        try:
            torch: Any = import_module("torch")
            self._dist: Any = import_module("torch.distributed")
        except ImportError as error:
            raise ImportError(
                f"WORLD_SIZE says that a launcher started {size} processes, and PyTorch, which joins them, cannot be "
                f"imported ({error}): pip install 'tinyattn[torch]', or unset WORLD_SIZE"
            ) from None
        self._of_array = torch.from_numpy
        self._dist.init_process_group("gloo", timeout=PATIENCE)
        self.size, self.number = self._dist.get_world_size(), self._dist.get_rank()

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.size
        with self._losing():
            self._dist.all_gather_object(values, value)
        return values

    def sum(self, array: np.ndarray) -> None:
        with self._losing():
            self._dist.all_reduce(self._of_array(array))         # in place: they share memory

    def wait(self) -> None:
        with self._losing():
            self._dist.barrier()

    def abort(self, code: int) -> None:
        """End this process; the launcher ends the others, or their next message fails."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            what = str(error).rpartition("cc:")[2].partition("] ")[2] or str(error)      # without gloo's source path
            raise LostRankError(f"another rank has ended: {what}") from None


@contextmanager
def mpi() -> Iterator[Ranks]:
    """A context in which the processes that mpiexec, or another launcher, started divide training and ranking.

        with mpi():                                  # mpiexec -n 4 python this_file.py
            model = SASRec().fit(sequences)          # the same on every rank

    Without a launcher it does nothing. Every rank has to run the same code; an exception on one ends all. Ranks that
    share cores divide them. Raises as `joined`, and LostRankError where another rank has ended.
    """
    if started()[0] == 1:
        yield ranks()
        return
    job = joined()
    with sharing(job), _part_of_cores(job):
        try:
            yield job
        except LostRankError:
            raise
        except BaseException:
            traceback.print_exc()
            job.abort(1)
            raise


@contextmanager
def _part_of_cores(job: Ranks) -> Iterator[None]:
    """Bind this process, and its children, to its part of the cores that ranks on one machine share."""
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
    """The cores of process `number` of `count`: parts of about equal size, or one core each if there are too few."""
    return cores[number % len(cores) :: count] if count <= len(cores) else [cores[number % len(cores)]]
