"""Worker processes for training: slices side by side, each with an interpreter lock of its own.

Threads share one lock, and a training step asks for it hundreds of times a slice, so they spend much of their time
waiting for each other. Processes do not. Parameters lie in memory that all of them see, and so do gradients on their
way back.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from .workers import Workers, keep_freed_memory

SLOTS = 32           # results that can be on their way at once; more travel through the pipe


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


class Crew:
    """A context: `with Crew(2, work, room) as crew: ... crew.map(tasks)`, results in the order of the tasks.

    The processes are forked on entering, and know of `work` and all that it refers to as it was then; only `shared`
    arrays are seen by both sides afterwards. `room` is the bytes that a result's arrays take at most, if they are
    not to travel through the pipe. One worker is this process itself; where forking is not safe, threads do the work.
    Raises ValueError for a count below 1. An exception in a worker is raised here; WorkerKilledError where one was
    killed, by the system for want of memory, say.
    """

    def __init__(self, count: int | None, work: Callable[[Any], Any], room: int) -> None:
        self._threads = Workers(count)               # holds BLAS at one thread, also in what is forked from here
        self._work, self._room = work, -(-room // mmap.PAGESIZE) * mmap.PAGESIZE
        self._connections: list[Connection] = []
        self._processes: list[Any] = []

    def __enter__(self) -> Crew:
        self._threads.__enter__()
        if self._threads.count > 1 and can_fork():
            self._slots = mmap.mmap(-1, SLOTS * self._room)
            context = multiprocessing.get_context("fork")
            for _ in range(self._threads.count):
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
        for connection in self._connections:
            connection.close()                       # which ends the process at the other end
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
        self._connections, self._processes = [], []
        self._threads.__exit__(*exception)

    def map(self, tasks: Iterable[Any]) -> Iterator[Any]:
        """work(task) of every task, in order, whoever is first. A result's arrays are good until the next `map`."""
        if not self._connections:
            yield from self._threads.map(self._work, tasks)
            return
        waiting = list(enumerate(tasks))[::-1]
        free = list(self._connections)
        busy: dict[Any, int] = {}
        done: dict[int, Any] = {}
        following = 0
        try:
            while waiting or busy or following in done:
                while waiting and free:
                    number, task = waiting.pop()
                    busy[free[-1]] = number
                    _told(free.pop().send, (number, task))
                if following in done:
                    yield self._received(done.pop(following), following)
                    following += 1
                    continue
                for connection in wait(list(busy)):
                    done[busy[connection]] = _told(connection.recv)  # type: ignore[union-attr]
                    del busy[connection]
                    free.append(connection)  # type: ignore[arg-type]
        finally:
            for connection in busy:                  # after an error: nobody else shall get these answers
                with suppress(EOFError, OSError):
                    connection.recv()

    def _received(self, message: Any, number: int) -> Any:
        if isinstance(message, BaseException):
            raise message
        body, ends = message
        view, begin, buffers = memoryview(self._slots)[(number % SLOTS) * self._room :], 0, []
        for end in ends:
            buffers.append(view[begin:end])
            begin = -(-end // 8) * 8
        return pickle.loads(body, buffers=buffers)

    def _serve(self, connection: Connection, others: list[Connection]) -> None:
        """What a worker does until its connection is closed."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)             # Ctrl-C is for the one who asks
        for other in others:
            other.close()
        keep_freed_memory()
        while True:
            try:
                number, task = connection.recv()
            except (EOFError, OSError):
                os._exit(0)                                      # no clean-up of what belongs to the other process
            try:
                connection.send(self._packed(self._work(task), number))
            except Exception as error:
                connection.send(error)

    def _packed(self, result: Any, number: int) -> tuple[bytes, list[int]]:
        """The result pickled, with its arrays in the slot of this number, and where each of them ends there."""
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
        raws = [buffer.raw() for buffer in buffers]
        if number >= SLOTS or sum(-(-raw.nbytes // 8) * 8 for raw in raws) > self._room:
            return pickle.dumps(result, protocol=5), []
        view, begin, ends = memoryview(self._slots)[(number % SLOTS) * self._room :], 0, []
        for raw in raws:
            view[begin : begin + raw.nbytes] = raw
            ends.append(begin + raw.nbytes)
            begin = -(-ends[-1] // 8) * 8
        return body, ends


def _told(f: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return f(*arguments)
    except (EOFError, OSError):
        raise WorkerKilledError("a worker process was killed; with workers 1 all is done in one process") from None
