"""One contender in a process of its own: `python -m benchmarks.peers.child NAME FOLDER`.

It reads commands, a word a line, and answers each in JSON:

    check       compare the loss and gradients of batch 0 without dropout with the reference: the largest difference
    prepare     make the contender and train for two passes over the batches, so that compilation is done
    run         train for one pass: seconds a step
    finish      peak memory, thread pools, and the contender's `about`

`write` makes the files in FOLDER. Every answer also has the time that the process waited for the command, and the CPU
time that the process used while it waited.
"""

import json
import multiprocessing
import os
import pickle
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks.peers import load
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork

WARM_UP = 2  # passes
TOLERANCE = 1e-4  # largest difference allowed, relative to an array's largest entry or SMALL
SMALL = 1e-5  # replaces the largest entry where that is smaller


def write(folder: Path, network: SASRecNetwork, weights: Any, batches: list[Batch], reference: Any) -> None:
    """Write a child's inputs. `reference`: the loss of batch 0 and its gradients {name: array}, in float64."""
    (folder / "given.pickle").write_bytes(pickle.dumps((network, weights, batches)))
    (folder / "reference.pickle").write_bytes(pickle.dumps(reference))


class Child:
    clock = staticmethod(time.perf_counter)

    def __init__(self, make: Any, folder: Path) -> None:
        self.folder, self.make = folder, make
        self.imported = memory("VmRSS")
        self.contender: Any = None

    def check(self) -> dict[str, Any]:
        network, weights, batches = self._given()
        without = replace(network, dropout=0.0)
        loss, gradients = self.make(without, weights, batches[:1]).gradients()
        expected_loss, expected = pickle.loads((self.folder / "reference.pickle").read_bytes())
        if gradients.keys() != expected.keys():
            raise ValueError(f"gradients of {sorted(gradients)}, expected of {sorted(expected)}")
        return compare(gradients | {"loss": np.array(loss)}, expected | {"loss": np.array(expected_loss)})

    def prepare(self) -> dict[str, Any]:
        network, weights, batches = self._given()
        self.steps = len(batches)
        began = time.perf_counter()
        self.contender = self.make(network, weights, batches)
        del weights, batches
        for _ in range(WARM_UP):
            self.run()
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        began = self.clock()
        for i in range(self.steps):
            self.contender.step(i)
        self.contender.finish()
        return {"seconds": (self.clock() - began) / self.steps}

    def finish(self) -> dict[str, Any]:
        pools = [
            {key: pool.get(key) for key in ("internal_api", "version", "architecture", "num_threads")}
            for pool in threadpool_info()
        ]
        peaks = [memory("VmHWM"), *(memory("VmHWM", worker.pid) for worker in multiprocessing.active_children())]
        own = sum(peaks) - len(peaks) * self.imported  # forked workers have the imports too
        return {"peak": sum(peaks), "own": own, "pools": pools, "about": self.contender.about}

    def _given(self) -> Any:
        with (self.folder / "given.pickle").open("rb") as file:
            return pickle.load(file)


def compare(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, Any]:
    """The array with the largest difference relative to its largest entry, and whether it is within TOLERANCE."""
    off = {}
    for name, array in found.items():
        largest = max(float(np.max(np.abs(expected[name]))), SMALL)
        off[name] = float(np.max(np.abs(array - expected[name]))) / largest
    worst = max(off, key=lambda name: off[name] if np.isfinite(off[name]) else np.inf)
    return {"worst": worst, "off": off[worst], "agrees": off[worst] <= TOLERANCE}


def memory(what: str, pid: int | str | None = "self") -> float:
    """MB of a process, from /proc, because Linux's ru_maxrss includes the parent's memory before exec."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(what + ":")) * 1024 / 1e6
    except OSError:  # macOS has no /proc, and its ru_maxrss is in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main(load: Callable[[str], Any] = load, kind: type[Child] = Child) -> None:
    """Serve the commands. `load(NAME)` imports the contender's class; `kind` runs it."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints goes to stderr, so that it is not read as an answer
    child = kind(load(sys.argv[1]), Path(sys.argv[2]))
    wall, used = time.perf_counter(), time.process_time()
    for line in sys.stdin:
        waited = {"waited": time.perf_counter() - wall, "used": time.process_time() - used}
        answers.write(json.dumps(getattr(child, line.strip())() | waited) + "\n")
        answers.flush()
        wall, used = time.perf_counter(), time.process_time()


if __name__ == "__main__":
    main()
