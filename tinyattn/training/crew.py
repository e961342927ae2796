"""Worker processes for training: slices side by side, each with an interpreter lock of its own.

Threads share one lock, and a training step asks for it hundreds of times a slice, so they spend much of their time
waiting for each other. Processes do not. Parameters lie in memory that all of them see, and so do a step's tasks, and
gradients on their way back. Whoever is free takes the next task, the process that asks as well as the others.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import select
import signal
import struct
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np

from .workers import Workers, cores, keep_freed_memory

SLOTS = 32           # results that can be on their way at once; more travel through the pipe
AT_ONCE = 1024       # tasks of one round: their tickets have to fit into a pipe, which holds 64 kB
MOST_WORKERS = 8     # unless more are asked for: a batch of training has about ten slices


def can_fork() -> bool:
    """Only on Linux is it safe to fork a process that has used BLAS, and a daemon may have no children."""
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def shared(like: np.ndarray) -> np.ndarray:
    """A copy of an array in memory that processes forked from this one see and may write to."""
    memory = mmap.mmap(-1, max(like.nbytes, 1))
    there = np.frombuffer(memory, dtype=like.dtype, count=like.size).reshape(like.shape)
    there[...] = like
    return there


class WorkerKilledError(RuntimeError):
    """A worker process is no longer there."""


class Tickets:
    """Numbers in a pipe: reading one takes it, and the system sees to it that nobody else gets the same.

    Unlike a counter under a lock, it cannot be left locked by a process that was killed.
    """

    _ONE = struct.Struct("II")                       # which `map`, and which of its tasks

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self._news = select.poll()
        self._news.register(self._read, select.POLLIN)

    def issue(self, round_: int, count: int) -> None:
        os.write(self._write, b"".join(self._ONE.pack(round_, number) for number in range(count)))

    def take(self) -> tuple[int, int] | None:
        """The next ticket, or None where there is none left. Raises EOFError where there will never be another."""
        try:
            ticket = os.read(self._read, self._ONE.size)
        except BlockingIOError:
            return None
        if not ticket:
            raise EOFError
        return self._ONE.unpack(ticket)

    def wait(self) -> tuple[int, int]:
        """The next ticket, whenever it comes."""
        while True:
            if ticket := self.take():
                return ticket
            self._news.poll()

    def only_take(self) -> None:
        """No more tickets from this process."""
        os.close(self._write)

    def close(self) -> None:
        """No more tickets: who waits for one is told."""
        os.close(self._write)
        os.close(self._read)


class Crew:
    """A context: `with Crew(2, work, room) as crew: ... crew.map(tasks)`, results in the order of the tasks.

    A crew of two is this process and one forked on entering, which knows of `work` and all that it refers to as it
    was then; only `shared` arrays are seen by both sides afterwards. `room` is the bytes that a result's arrays take
    at most, if they are not to travel through the pipe. `count` None is one a core, up to eight. Where forking is not
    safe, threads do the work.
    Raises ValueError for a count below 1. An exception in a worker is raised here; WorkerKilledError where one was
    killed, by the system for want of memory, say.
    """

    def __init__(self, count: int | None, work: Callable[[Any], Any], room: int) -> None:
        if count is None:
            count = min(cores(), MOST_WORKERS)
        self._threads = Workers(count)               # holds BLAS at one thread, also in what is forked from here
        self._work, self._room = work, -(-max(room, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        self._round = 0

    def __enter__(self) -> Crew:
        self._threads.__enter__()
        if self._threads.count > 1 and can_fork():
            self._tickets = Tickets()
            self._desk = os.memfd_create("tasks")    # a file without a place: all can read what was written last
            self._slots = memoryview(mmap.mmap(-1, SLOTS * self._room))
            context = multiprocessing.get_context("fork")
            for _ in range(self._threads.count - 1):
                ours, theirs = context.Pipe()
                others = [*self._connections, ours]
                process = context.Process(target=self._serve, args=(theirs, others), daemon=True)
                with warnings.catch_warnings():      # Python 3.12 warns of other threads, which have no part in this
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._connections:
            self._tickets.close()                    # which ends the processes
            os.close(self._desk)
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
        self._connections, self._processes = [], []
        self._threads.__exit__(*exception)

    def map(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """work(task) of every task, in order, whoever is first. Read a result before asking for the next."""
        if not self._connections:
            yield from self._threads.map(self._work, tasks)
            return
        tasks = list(tasks)
        for begin in range(0, len(tasks), AT_ONCE):
            yield from self._shared_out(tasks[begin : begin + AT_ONCE])

    def _shared_out(self, tasks: list[Any]) -> Iterator[Any]:
        self._round += 1
        os.pwrite(self._desk, pickle.dumps(tasks, protocol=5), 0)
        self._tickets.issue(self._round, len(tasks))
        done: dict[int, Any] = {}
        following, untaken = 0, True
        coming = len(tasks)                          # results that others have, or may have, to send
        try:
            while following < len(tasks):
                if following in done:
                    result = done.pop(following)
                    if isinstance(result, _Failed):
                        raise result.error
                    yield result
                    following += 1
                else:
                    ticket = self._tickets.take() if untaken else None
                    untaken = ticket is not None
                    if ticket is not None:
                        coming -= 1
                        done[ticket[1]] = self._work(tasks[ticket[1]])
                    found = self._received(0 if untaken else None)      # who has much to send waits until it is read
                    coming -= len(found)
                    done |= found
        finally:                                     # after an error: nobody shall get these tickets or answers later
            while untaken and self._tickets.take():
                coming -= 1
            while coming > 0:
                coming -= len(self._received())

    def _received(self, timeout: float | None = None) -> dict[int, Any]:
        """Results that have come from other processes, by number; without a timeout at least one."""
        found = {}
        for connection in wait(self._connections, timeout):
            number, message = _told(connection.recv)  # type: ignore[union-attr]
            found[number] = _unpacked(message, self._slot(number))
        return found

    def _slot(self, number: int) -> memoryview:
        begin = number * self._room
        return self._slots[begin : begin + self._room]           # empty beyond the last

    def _serve(self, connection: Connection, others: list[Connection]) -> None:
        """What a worker does until there will be no more tickets."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)             # Ctrl-C is for the one who asks
        self._tickets.only_take()
        for other in others:
            other.close()
        keep_freed_memory()
        known, tasks = 0, []
        try:
            while True:
                round_, number = self._tickets.wait()
                if known != round_:                              # the desk is as it was while anybody has a ticket
                    known, tasks = round_, pickle.loads(os.pread(self._desk, os.fstat(self._desk).st_size, 0))
                connection.send((number, self._answer(tasks[number], self._slot(number))))
        except (EOFError, OSError):
            os._exit(0)                                          # no clean-up of what belongs to the other process

    def _answer(self, task: Any, room: memoryview) -> tuple[bytes, list[int]]:
        try:
            return _packed(self._work(task), room)
        except Exception as error:
            return _packed(_Failed(error), room)


class _Failed(NamedTuple):
    """What a task has instead of a result."""

    error: Exception


def _packed(result: Any, room: memoryview) -> tuple[bytes, list[int]]:
    """`result` pickled, with its arrays in `room`, and where each of them ends; all in one where it is larger."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
    raws = [buffer.raw() for buffer in buffers]
    if sum(_whole(raw.nbytes) for raw in raws) > len(room):
        return pickle.dumps(result, protocol=5), []
    begin, ends = 0, []
    for raw in raws:
        room[begin : begin + raw.nbytes] = raw
        ends.append(begin + raw.nbytes)
        begin = _whole(ends[-1])
    return body, ends


def _unpacked(message: tuple[bytes, list[int]], room: memoryview) -> Any:
    """What was packed; its arrays are views into `room`."""
    body, ends = message
    begins = [0, *map(_whole, ends)]
    return pickle.loads(body, buffers=[room[begin:end] for begin, end in zip(begins, ends, strict=False)])


def _whole(size: int) -> int:
    """Arrays begin where any dtype may begin."""
    return -(-size // 8) * 8


def _told(f: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return f(*arguments)
    except (EOFError, OSError):
        raise WorkerKilledError("a worker process was killed; with workers 1 all is done in one process") from None
