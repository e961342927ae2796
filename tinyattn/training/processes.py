"""Worker processes for training: slices side by side, each process with a separate interpreter lock.

Threads share one lock, and a training step needs it hundreds of times a slice, so they spend much of their time
waiting for each other. Processes do not. Parameters, tasks and gradients pass through shared memory. Whichever process
is free takes the next task; the parent process works as well.

Threads do the same work, to the same bits, where processes cannot be used: where forking is not safe, where another
pool of this process is open (its threads may be inside BLAS: a child would inherit locked locks), and where the
system gives no memory, descriptors or processes.

A standard pool would be less code: benchmarks/results/pools.md measures concurrent.futures and joblib's loky beside
this one. With them a step of short slices takes a fifth or a quarter longer; a tenth would be acceptable.
"""

import gc
import mmap
import multiprocessing
import os
import pickle
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from multiprocessing.connection import Connection, wait
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .workers import OPEN, Workers, cores, keep_freed_memory

SLOTS = 32           # results that can lie in shared memory at once; others travel through the pipe
AT_ONCE = 1024       # tasks of one round: their numbers have to fit into a pipe, which holds 64 kB
MOST_WORKERS = 8     # unless more are requested: a batch of training has about ten slices
PATIENCE = 5.0       # seconds in which children may finish their tasks when the pool ends, or after an error


def can_fork() -> bool:
    """Forking a process that has used BLAS is safe only on Linux, and a daemon may have no children."""
    has_files_in_memory = hasattr(os, "memfd_create")            # not with every C library
    return sys.platform == "linux" and has_files_in_memory and not multiprocessing.current_process().daemon


def shared(like: np.ndarray) -> np.ndarray:
    """A copy of an array in memory that this process and those forked from it later all read and write.

    Raises OSError where the system gives none.
    """
    memory = mmap.mmap(-1, max(like.nbytes, 1))
    array = np.frombuffer(memory, dtype=like.dtype, count=like.size).reshape(like.shape)
    array[...] = like
    return array


class WorkerKilledError(RuntimeError):
    """A worker process was killed."""


class TaskQueue:
    """Task numbers in a pipe. Reading one removes it, so the system gives each number to one process only.

    Unlike a counter under a lock, a pipe cannot be left locked by a process that was killed.
    """

    _ONE = struct.Struct("II")                       # (round, number): which `map`, and which of its tasks

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def put(self, round_: int, count: int) -> None:
        """Add the task numbers 0 to count - 1 of a round."""
        os.write(self._write, b"".join(self._ONE.pack(round_, number) for number in range(count)))

    def take(self) -> tuple[int, int] | None:
        """The next (round, number), or None if none is waiting. Raises EOFError once no writer is left."""
        try:
            taken = os.read(self._read, self._ONE.size)
        except BlockingIOError:
            return None
        if not taken:
            raise EOFError
        return self._ONE.unpack(taken)

    def wait(self) -> tuple[int, int]:
        """Wait for the next (round, number)."""
        while True:
            if taken := self.take():
                return taken
            self._poll.poll()

    def close_writing(self) -> None:
        """This process adds no more."""
        os.close(self._write)

    def close(self) -> None:
        """Close both ends; waiting readers get EOFError."""
        os.close(self._write)
        os.close(self._read)


class ProcessPool:
    """A context: `with ProcessPool(2, work, result_bytes) as pool: ... pool.map(tasks)`; results in the tasks' order.

    count=2 forks one child on entering; it sees a snapshot of `work` and of all that `work` refers to. Afterwards only
    `shared` arrays stay in sync. A result whose arrays take more than `result_bytes` is sent through a pipe, which is
    slower. count=None means one process a core, at most eight. Threads do the work where processes cannot be used,
    and with fork=False. Raises ValueError for a count below 1. An exception in a child is raised in the parent;
    WorkerKilledError where a child was killed, for example when memory ran out. Ctrl-C kills the children.
    """

    forked: ClassVar["ProcessPool | None"] = None      # the pool of this process that has children: one at most

    def __init__(
        self, count: int | None, work: Callable[[Any], Any], result_bytes: int, *, fork: bool = True
    ) -> None:
        if count is None:
            count = min(cores(), MOST_WORKERS)
        self._threads = Workers(count)               # also holds BLAS at one thread, here and in the children
        self._work, self._slot_bytes = work, -(-max(result_bytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._fork = fork and count > 1
        self._opened = ExitStack()                   # closes this process's descriptors, which ends the children
        self._connections: list[Connection] = []     # to the children
        self._processes: list[Any] = []
        self._round = 0

    def __enter__(self) -> "ProcessPool":
        with OPEN.lock:
            alone = OPEN.count == 0
            self._threads.__enter__()
            if self._fork and alone and can_fork():
                try:
                    self._start()
                except OSError:
                    self._end(PATIENCE)
        return self

    def _start(self) -> None:
        """Open descriptors and shared memory, and fork. Raises OSError where the system gives no more."""
        self._queue = TaskQueue()
        self._opened.callback(self._queue.close)
        self._task_file = os.memfd_create("tasks")               # a file in memory: holds the pickled tasks of a round
        self._opened.callback(os.close, self._task_file)
        self._slots = memoryview(mmap.mmap(-1, SLOTS * self._slot_bytes))
        context = multiprocessing.get_context("fork")
        for _ in range(self._threads.count - 1):
            ours, theirs = context.Pipe()
            self._opened.callback(ours.close)
            self._connections.append(ours)
            with theirs, warnings.catch_warnings():  # Python 3.12 warns of other threads: a child uses none
                warnings.simplefilter("ignore", DeprecationWarning)
                process = context.Process(target=self._serve, args=(theirs,), daemon=True)
                process.start()
            self._processes.append(process)
        ProcessPool.forked = self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self._end(0 if interrupted else PATIENCE)
        self._threads.__exit__(kind, *exception)

    def _end(self, patience: float) -> None:
        """Close all descriptors, and kill children that have not ended after `patience` seconds."""
        self._connections = []
        with OPEN.lock:                              # no fork in between: its child would close others' descriptors
            self._opened.close()
            if ProcessPool.forked is self:
                ProcessPool.forked = None
        until = time.monotonic() + patience
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():                   # SIGKILL also ends a process that was stopped
                process.kill()
                process.join()
            process.close()
        self._processes = []

    def map(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """work(task) of every task, in the order of the tasks. A result is valid until the next one."""
        if not self._connections:
            return self._threads.map(self._work, tasks)
        tasks = list(tasks)
        return chain.from_iterable(self._map_round(tasks[i : i + AT_ONCE]) for i in range(0, len(tasks), AT_ONCE))

    def _map_round(self, tasks: list[Any]) -> Iterator[Any]:
        self._round += 1
        os.pwrite(self._task_file, pickle.dumps(tasks, protocol=5), 0)
        self._queue.put(self._round, len(tasks))
        done: dict[int, Any] = {}
        following, untaken = 0, True
        coming = len(tasks)                          # results that children send, or may still send
        try:
            while following < len(tasks):
                if following in done:
                    result = done.pop(following)
                    if isinstance(result, _Failed):
                        raise result.error
                    yield result
                    following += 1
                else:
                    taken = self._queue.take() if untaken else None
                    untaken = taken is not None
                    if taken is not None:
                        coming -= 1
                        done[taken[1]] = self._work(tasks[taken[1]])
                    results = self._received(0 if untaken else None)      # a full pipe blocks its child until read
                    coming -= len(results)
                    done |= results
        except KeyboardInterrupt:
            self._end(0)                             # a child that was stopped never answers
            raise
        finally:                                     # after an error: drop the round's numbers and results
            if self._connections:
                while untaken and self._queue.take():
                    coming -= 1
                while coming > 0:
                    results = self._received(PATIENCE)
                    coming -= len(results)
                    if not results:                    # no answer: end the children
                        self._end(0)
                        break

    def _received(self, timeout: float | None = None) -> dict[int, Any]:
        """Results that children have sent, by task number; with timeout None at least one."""
        results = {}
        for connection in wait(self._connections, timeout):
            number, message = _or_killed(connection.recv)  # type: ignore[union-attr]
            results[number] = _unpacked(message, self._slot(number))
        return results

    def _slot(self, number: int) -> memoryview:
        begin = number * self._slot_bytes
        return self._slots[begin : begin + self._slot_bytes]     # empty from task number SLOTS on

    def _serve(self, connection: Connection) -> None:
        """What a child does until the queue is closed."""
        gc.freeze()                # collects nothing of the parent's: a destructor may wait for threads, as ONNX's does
        signal.signal(signal.SIGINT, signal.SIG_IGN)             # the parent handles Ctrl-C
        self._queue.close_writing()
        for parents in self._connections:
            parents.close()
        keep_freed_memory()
        known, tasks = 0, []
        try:
            while True:
                round_, number = self._queue.wait()
                if known != round_:                              # not rewritten while tasks are pending
                    known, tasks = round_, pickle.loads(os.pread(self._task_file, os.fstat(self._task_file).st_size, 0))
                connection.send((number, self._answer(tasks[number], self._slot(number))))
        except (EOFError, OSError):
            os._exit(0)                                          # no clean-up of what belongs to the parent

    def _answer(self, task: Any, slot: memoryview) -> tuple[bytes, list[int]]:
        try:
            return _packed(self._work(task), slot)
        except Exception as error:
            return _packed(_Failed(error), slot)


def _close_inherited() -> None:
    """In any other forked process, close the pipes: while they are open, children get no EOF when the parent ends."""
    if ProcessPool.forked is not None:
        ProcessPool.forked._opened.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


class _Failed(NamedTuple):
    """Stands for the result of a task that raised."""

    error: Exception


def _packed(result: Any, slot: memoryview) -> tuple[bytes, list[int]]:
    """-> `result` pickled, and where each of its arrays ends in `slot`. Arrays that do not fit are pickled with it."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    if sum(_aligned(raw.nbytes) for raw in raws) > len(slot):
        return pickle.dumps(result, protocol=5), []
    begin, ends = 0, []
    for raw in raws:
        slot[begin : begin + raw.nbytes] = raw
        ends.append(begin + raw.nbytes)
        begin = _aligned(ends[-1])
    return body, ends


def _unpacked(message: tuple[bytes, list[int]], slot: memoryview) -> Any:
    """What was packed; its arrays are views into `slot`."""
    body, ends = message
    begins = [0, *map(_aligned, ends)]
    return pickle.loads(body, buffers=[slot[begin:end] for begin, end in zip(begins, ends, strict=False)])


def _aligned(size: int) -> int:
    """`size` rounded up to a multiple of 8, where an array of any dtype may begin."""
    return -(-size // 8) * 8


def _or_killed(f: Callable[..., Any], *arguments: Any) -> Any:
    """f(*arguments); WorkerKilledError if the other process has ended."""
    try:
        return f(*arguments)
    except (EOFError, OSError):
        raise WorkerKilledError("a worker process was killed; with workers 1 all is done in one process") from None
