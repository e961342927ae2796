"""Measures the machine's peak rates (the roof) and profiles a training step, for benchmarks/roofline.py.

The step is the library's, on one core with one BLAS thread, as in a worker.
"""

import inspect
import multiprocessing
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import child
from benchmarks.peers.ours import TinyAttn
from benchmarks.peers.patch import Patch
from tinyattn.random import Stream, generator
from tinyattn.training import SLICE_TOKENS

WINDOW = 0.03  # seconds of repetitions of each operation of the roof
WARM_UP = REPEATS = 3  # steps before the first round; profiled steps in a round, and as many without a profile
F = np.float32


def roof() -> dict[str, tuple[float, Callable[[], Any]]]:
    """{name: (work, operation)}. Work: FLOPs of a product, bytes read and written by a copy, otherwise elements."""
    rng = np.random.default_rng(0)
    found: dict[str, tuple[float, Callable[[], Any]]] = {}

    def product(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        x, y = rng.random(a, dtype=F), rng.random(b, dtype=F)
        out = x @ y
        found[name] = (2 * out.size * a[-1], lambda: np.matmul(x, y, out=out))

    for d in (50, 128):
        product(f"linear {d}", (1600, d), (d, d))
    for d in (50, 32):  # d of A, and of a head of C: 64 queries and 128 keys in each of 8 sequences
        product(f"tile {d}", (8, 64, d), (8, d, 128))
    product("peak", (1024, 1024), (1024, 1024))
    for name, size in (("copy in cache", 75_000), ("copy in memory", 20_000_000)):
        x = rng.random(size, dtype=F)
        found[name] = (2 * x.nbytes, partial(np.copyto, np.empty_like(x), x))
    x, w = rng.standard_normal((1600, 50), dtype=F), rng.random(50, dtype=F)
    out = np.empty_like(x)
    found["add"] = (x.size, lambda: np.add(x, x, out=out))
    found["times a row"] = (x.size, lambda: np.multiply(x, w, out=out))
    found["exp"] = (x.size, lambda: np.exp(x, out=out))
    return found


def rate(work: float, f: Callable[[], Any]) -> float:
    """Work a second, measured over WINDOW seconds."""
    times, began = 0, time.perf_counter()
    while time.perf_counter() - began < WINDOW:
        f()
        times += 1
    return times * work / (time.perf_counter() - began)


class Pair:
    """A second process that runs the same operation at the same time as this one."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.barrier = context.Barrier(2)
        self.ours, theirs = context.Pipe()
        context.Process(target=self._serve, args=(theirs,), daemon=True).start()
        theirs.close()

    def rate(self, name: str) -> float:
        """Work a second of both processes together."""
        self.ours.send(name)
        self.barrier.wait()
        return rate(*roof_of_this_process()[name]) + self.ours.recv()

    def _serve(self, connection: Any) -> None:
        self.ours.close()  # a copy of the parent's end, which would keep recv from ending
        with suppress(EOFError):
            while True:
                operation = roof_of_this_process()[connection.recv()]
                self.barrier.wait()
                connection.send(rate(*operation))


_ROOF: dict[str, tuple[float, Callable[[], Any]]] = {}


def roof_of_this_process() -> dict[str, tuple[float, Callable[[], Any]]]:
    if not _ROOF:
        _ROOF.update(roof())
    return _ROOF


class Clock:
    """Self times: a function's time without that of the timed functions it calls, and without timing overhead."""

    def __init__(self) -> None:
        self.own: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._inner: dict[str, int] = defaultdict(int)  # {function: timed calls that it makes}
        self._stack: list[list[Any]] = [["", 0.0]]

    def timed(self, name: str, f: Callable[..., Any]) -> Callable[..., Any]:
        stack, own, calls, inner, now = self._stack, self.own, self.calls, self._inner, time.perf_counter

        @wraps(f)
        def wrapper(*args: Any, **how: Any) -> Any:
            frame = [name, 0.0]
            stack.append(frame)
            began = now()
            try:
                return f(*args, **how)
            finally:
                took = now() - began
                stack.pop()
                own[name] += took - frame[1]
                calls[name] += 1
                caller = stack[-1]
                caller[1] += took
                inner[caller[0]] += 1

        return wrapper

    def corrected(self) -> dict[str, float]:
        inside, outside = self._cost()
        return {name: own - self.calls[name] * inside - self._inner[name] * outside for name, own in self.own.items()}

    @staticmethod
    def _cost() -> tuple[float, float]:
        """Timing overhead of a call, in seconds: (added to the function's self time, added to its caller's)."""

        def nothing(x: Any, y: Any = None) -> None:
            pass

        def loop(f: Callable[..., None]) -> float:
            began = time.perf_counter()
            for _ in range(2_000):
                f(1, y=2)
            return (time.perf_counter() - began) / 2_000

        clock = Clock()
        bare, timed = min(loop(nothing) for _ in range(5)), clock.timed("nothing", nothing)
        wrapped = min(loop(timed) for _ in range(5))
        inside = clock.own["nothing"] / clock.calls["nothing"] - bare
        return inside, wrapped - bare - inside


HELPERS = ("rows", "transpose_last", "row_sum", "column_sum", "unbroadcast")  # counted in the calling op
ALSO = ("ops.attention.fused_attention._exponentials", "models.objectives.bce", "models.objectives.bce_backward",
        "random.generator", "random.keep_mask", "tree.add_to", "data.batches.Batch.slices",
        "training.adam.adam")  # fmt: skip


def timed_functions() -> list[str]:
    """The public functions of ops/ except HELPERS, and the functions outside ops/ that a step calls (ALSO)."""
    found = []
    for name, module in sorted(sys.modules.items()):
        if name.startswith("tinyattn.ops."):
            found += [
                f"{name.removeprefix('tinyattn.')}.{key}"
                for key, f in vars(module).items()
                if inspect.isfunction(f) and f.__module__ == name and not key.startswith("_") and key not in HELPERS
            ]
    return [*found, *ALSO]


class Profiler(child.Child):
    """A child process (child.py): `prepare` once, then `run` for each round."""

    def prepare(self) -> dict[str, Any]:
        began = time.perf_counter()
        network, weights, batches = self._given()
        self.network, self.batch = network, batches[0]
        self.contender = TinyAttn(network, weights, batches[:1], workers=1)
        for _ in range(WARM_UP):
            self.contender.step(0)
        self.pair = Pair()  # forked now, so its BLAS has one thread too
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        one = {name: rate(*operation) for name, operation in roof_of_this_process().items()}
        both = {name: self.pair.rate(name) for name in one}
        bare = [self._step() for _ in range(REPEATS)]
        own, calls, slowed = self.profile()
        return {
            "one": one,
            "both": both,
            "step": float(np.mean(bare)),
            "slowed": slowed,
            "own": own,
            "calls": calls,
            "a slice of one token": self._one_token(),
        }

    def profile(self) -> tuple[dict[str, float], dict[str, float], float]:
        """Self time and calls of every function in a step, and the seconds of a profiled step."""
        clock = Clock()
        with Patch(1) as patch:
            patch.put_all({name: partial(clock.timed, name) for name in timed_functions()})
            patch.stop_counting()
            step = clock.timed("step", self._step)  # its self time is the code between the functions
            slowed = [step() for _ in range(REPEATS)]
        own = {name: seconds / REPEATS for name, seconds in clock.corrected().items()}
        calls = {name: times / REPEATS for name, times in clock.calls.items()}
        return own, calls, float(np.mean(slowed))

    def finish(self) -> dict[str, Any]:
        return super().finish() | {"shapes": [part.ids.shape for part in self.batch.slices(SLICE_TOKENS)]}

    def _step(self) -> float:
        began = time.perf_counter()
        self.contender.step(0)
        return time.perf_counter() - began

    def _one_token(self) -> float:
        """Seconds of forward and backward for a single token: almost only call overhead."""
        part = self.batch.map(lambda x: x[:1] if x.ndim == 1 else x[:1, :1])
        began = time.perf_counter()
        for step in range(20):
            _, cache = self.network.loss(self.contender.learner.p, part, generator(0, Stream.DROPOUT, step))
            self.network.loss_backward(self.contender.learner.p, 1.0, cache)
        return (time.perf_counter() - began) / 20


if __name__ == "__main__":
    assert Path(sys.argv[2]).is_dir()
    child.main(lambda name: TinyAttn, Profiler)
