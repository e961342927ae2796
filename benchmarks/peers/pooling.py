"""The library's training step with other libraries' process pools: `python -m benchmarks.peers.pooling NAME FOLDER`.

All pools compute the library's slices and add their results in its order, so their results agree to the bit. In other
libraries' pools the parent does not compute. Parameters and gradients lie in `multiprocessing.shared_memory`; the
executor sends each task and the other parts of its result. The commands are those of benchmarks/peers/child.py.
"""

import ctypes
import hashlib
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import THREADS, child
from benchmarks.peers.ours import TinyAttn
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.training import Learner, ProcessPool, learner
from tinyattn.training.processes import SLOTS, _packed, _unpacked
from tinyattn.training.workers import keep_freed_memory
from tinyattn.tree import leaves, views

here: Any = None  # in a worker: its model, parameters and buffers, set by `prepare`


class House(TinyAttn):
    """The library's own pool: it forks one worker, and the parent computes too."""

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch]) -> None:
        super().__init__(network, weights, batches, workers=1)
        super().close()  # while one pool is open, the next uses threads
        began = time.perf_counter()
        self.pool = self.make_pool()
        self.pool.__enter__()
        if isinstance(self.pool, ProcessPool) and ProcessPool.forked is not self.pool:
            raise SystemExit("the library's pool computes with threads here: there is nothing to compare")
        self.gradients()
        self.about["ms to start"] = round(1e3 * (time.perf_counter() - began))  # up to the first gradient

    def make_pool(self) -> Any:
        return self.learner.pool(THREADS)

    def finish(self) -> None:
        """Nothing to wait for: a step returns when its work is done."""


class Kept(House):
    """The library's step with an executor of another library."""

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch]) -> None:
        with mock.patch.object(learner, "shared", self._shared):
            super().__init__(network, weights, batches)

    def _shared(self, like: np.ndarray) -> np.ndarray:
        self.memory = SharedMemory(create=True, size=like.nbytes)
        vector = np.frombuffer(self.memory.buf, like.dtype, like.size)
        vector[...] = like
        return vector

    def make_pool(self) -> Any:
        return KeptPool(self.learner, self.memory, self.make_executor)

    def make_executor(self, needs: Any) -> Executor:
        """An executor whose workers call `prepare(*needs)` when they start."""
        raise NotImplementedError

    def close(self) -> None:
        super().close()
        self.memory.unlink()


class ConcurrentFutures(Kept):
    def make_executor(self, needs: Any) -> Executor:
        return ProcessPoolExecutor(THREADS, get_context("fork"), prepare, needs)


class Loky(Kept):
    def make_executor(self, needs: Any) -> Executor:
        from joblib.externals.loky import ProcessPoolExecutor as LokyExecutor  # joblib is optional

        return LokyExecutor(THREADS, initializer=prepare, initargs=needs)


class KeptPool:
    """The interface of `ProcessPool` that a learner uses, implemented with an executor."""

    def __init__(self, owner: Learner, memory: SharedMemory, make_executor: Callable[[Any], Executor]) -> None:
        self.slot_bytes = owner.vector.nbytes + (1 << 20)
        self.slots = SharedMemory(create=True, size=SLOTS * self.slot_bytes)
        self.make_executor = partial(make_executor, (owner.model, owner.seed, memory.name, self.slots.name))

    def __enter__(self) -> "KeptPool":
        self.limits = threadpool_limits(1, "blas")
        self.executor = self.make_executor()
        return self

    def __exit__(self, *exception: object) -> None:
        self.executor.shutdown()
        self.limits.restore_original_limits()
        with suppress(BufferError):  # the learner still has views of it
            self.slots.close()
        self.slots.unlink()

    def map(self, tasks: Iterable[Any]) -> Iterator[Any]:
        futures = [self.executor.submit(work, task, self._slot(i)) for i, task in enumerate(tasks)]
        for i, future in enumerate(futures):
            begin, end = self._slot(i)
            yield _unpacked(future.result(), self.slots.buf[begin:end])

    def _slot(self, number: int) -> tuple[int, int]:
        return (number * self.slot_bytes, (number + 1) * self.slot_bytes) if number < SLOTS else (0, 0)


def prepare(model: Any, seed: int, memory: str, slots: str) -> None:
    """Initialize a worker: limit its BLAS to one thread and open the shared memory."""
    global here
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: end with the parent, even if it is killed
    keep_freed_memory()
    threadpool_limits(1, "blas")
    opened = SharedMemory(memory), SharedMemory(slots)
    p = model.init(np.random.default_rng(0))
    p = views(np.frombuffer(opened[0].buf, np.float32, sum(x.size for _, x in leaves(p))), p)
    here = SimpleNamespace(model=model, seed=seed, p=p, xp=np, opened=opened, results=opened[1].buf)


def work(task: Any, slot: tuple[int, int]) -> Any:
    """The packed result of a slice, computed by the code of the library's workers."""
    return _packed(Learner._work(here, task), here.results[slice(*slot)])


class Pooled(child.Child):
    """A child process that also reports a hash of the trained parameters, which must be the same for all pools."""

    def finish(self) -> dict[str, Any]:
        learned = self.contender.learner.vector.tobytes()
        self.contender.about["parameters"] = hashlib.sha256(learned).hexdigest()[:16]
        return super().finish()


CONTENDERS = {"processes": House, "concurrent.futures": ConcurrentFutures, "loky": Loky}

if __name__ == "__main__":
    from benchmarks.peers import pooling  # loky's workers import `work` by this name

    child.main(pooling.CONTENDERS.__getitem__, pooling.Pooled)
