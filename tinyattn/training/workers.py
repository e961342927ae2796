"""A pool of threads, one a core; BLAS uses one thread in each. Results come in the order of the tasks."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from threadpoolctl import threadpool_limits


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Tell glibc to keep memory that NumPy frees instead of returning it to the system.

    A training step frees and allocates the same few megabytes hundreds of times, and each new page costs a page
    fault. The setting is the whole process's and changes no result. Except on Linux it does nothing.
    """
    if sys.platform == "linux":
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except AttributeError:                       # a C library without it, such as musl
            return
        trim_threshold, mmap_threshold, most = -1, -3, 1 << 30
        mallopt(trim_threshold, most)
        mallopt(mmap_threshold, most)


class OpenPools:
    """Counts the pools of this process that are open, and holds BLAS at one thread from the first to the last.

    The limit is the whole process's: a pool that set and restored it by itself would lift it for others in other
    threads, or leave it behind. `lock` is held during a fork, so that no child inherits it locked.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.count = 0
        if hasattr(os, "register_at_fork"):
            release = self.lock.release
            os.register_at_fork(before=self.lock.acquire, after_in_parent=release, after_in_child=release)

    def enter(self) -> None:
        with self.lock:
            if self.count == 0:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self._limits.restore_original_limits()


OPEN = OpenPools()


class Workers:
    """A context: `with Workers(2) as pool: ... pool.map(f, slices)`. NumPy releases the interpreter lock."""

    def __init__(self, count: int | None = None) -> None:
        """`count` None: a thread for each core. Raises ValueError for a count below 1."""
        if count is not None and count < 1:
            raise ValueError(f"workers is {count}, expected at least 1")
        self.count = count or cores()
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        keep_freed_memory()
        OPEN.enter()
        if self.count > 1:
            self._threads = ThreadPoolExecutor(self.count, thread_name_prefix="tinyattn")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        OPEN.leave()

    def map(self, f: Callable[[Any], Any], work: Iterable[Any]) -> Iterator[Any]:
        """f of every piece of work, in order. Where the system starts no more threads, this thread does all of it."""
        if self._threads is None:
            return map(f, work)
        work = list(work)
        try:
            contexts = [copy_context() for _ in work]            # the choice of forms holds in threads, too
            return self._threads.map(lambda context, piece: context.run(f, piece), contexts, work)
        except RuntimeError:                         # "can't start new thread"; what f raises is raised later
            self._threads.shutdown(cancel_futures=True)
            self._threads = None
            return map(f, work)
