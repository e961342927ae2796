"""Do recorded steps and kernels agree with steps computed call by call on this GPU? What do they cost beside PyTorch?

    python benchmarks/gpu_steps.py                     on a CUDA device, with CuPy, numba-cuda and PyTorch; ten minutes
    python benchmarks/gpu_steps.py --device strict     on the double: that the script works, before a card is at hand

(1) Steps of SASRec in each form, three times each: are parameters and losses those of steps computed call by call
without kernels, and the same to the bit when repeated? (2) Seconds a step of each form that agrees, and of PyTorch
(eager with nn.MultiheadAttention, with scaled_dot_product_attention, torch.compile; float32, with and without TF32), in
turns in one process. Here products are float32 without TF32. On the double it counts the calls of a step.

Writes benchmarks/results/gpu_steps_CARD.json, a file for each card. Where a form holds there, a person adds the card to
`PROVEN` of `training/recording.py` or `fast/kernels.py`; a test compares the two. Exit code 1 where a form does not.
"""

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.gpu import versions
from benchmarks.machine import RESULTS, write_result
from benchmarks.peers import ADAM
from tests.devices import On
from tests.strict import COUNTS, Cublas
from tinyattn import backend
from tinyattn.data import Interactions, Sampler
from tinyattn.fast import kernels
from tinyattn.models import SASRecNetwork
from tinyattn.training import Learner, Settings, recording

FORMS = {  # name -> is the step recorded? do kernels compute?
    "call by call": (False, False),
    "kernels": (False, True),
    "recorded": (True, False),
    "recorded, with kernels": (True, True),
}
SIZES = ((128, 50, 50), (512, 256, 50), (128, 128, 200))  # users, width, length
STEPS, REPEATS, ROUNDS = 12, 3, 5
MOST_OFF = 1e-4  # of the largest parameter, or loss, after STEPS steps of Adam, which turns rounding into steps


@contextmanager
def trusted(device: str, form: str) -> Iterator[None]:
    """The device computes in this form, whether it was proven or not."""
    (recorded, by_kernels), card = FORMS[form], (backend.device_name(device),)
    kept = recording.PROVEN, kernels.PROVEN, recording.cublas
    recording.PROVEN, kernels.PROVEN = card if recorded else (), card if by_kernels else ()
    if device == "strict":
        recording.cublas = lambda xp: Cublas()
    kernels._is_proven.cache_clear()
    try:
        yield
    finally:
        recording.PROVEN, kernels.PROVEN, recording.cublas = kept
        kernels._is_proven.cache_clear()


def work(users: int, width: int, length: int) -> tuple[SASRecNetwork, Sampler]:
    """SASRec for ml-1m's items, and its batches; all have the same layout, so that one record serves them."""
    rng = np.random.default_rng(0)
    histories: list[Any] = [rng.permutation(3416)[: length + 1] for _ in range(2 * users)]
    data = Interactions.from_sequences(histories)
    return SASRecNetwork(n_items=3416, maxlen=length, dim=width), Sampler(data, length, users, 0, True)


def stepping(device: str, size: tuple[int, int, int], pools: ExitStack) -> tuple[Learner, Callable[[int], Any]]:
    """A learner, and its step number i, which returns loss and squared norm there; `pools` closes its pool."""
    network, batches = work(*size)
    first = [batches.batch(i) for i in range(2)]
    learner = Learner(network, Settings(device=device, beta2=0.98), first[:1], steps=1)
    pool = pools.enter_context(learner.pool(1))

    def step(i: int) -> Any:
        seen, batch = learner.xp.zeros(2), [first[i % 2]]
        if not learner.launch(batch, i, seen, pool):
            learner.differentiate(batch, i, seen, pool)
            learner.update(i + 1)
        return seen

    return learner, step


def proof(device: str, size: tuple[int, int, int] = SIZES[0], steps: int = STEPS) -> list[dict[str, Any]]:
    """A row a form: how far its numbers are from the first form's, and whether three repeats have the same bits."""
    rows: list[dict[str, Any]] = []
    expected: Any = None
    for form, (recorded, by_kernels) in FORMS.items():
        if device == "strict" and by_kernels:
            continue  # tests/fast/test_kernels.py, with numba's simulator
        runs, refused, records = [], "", 0
        with trusted(device, form), ExitStack() as pools:
            for _ in range(REPEATS):
                learner, step = stepping(device, size, pools)
                seen = [step(i) for i in range(steps)]
                runs.append([backend.to_numpy(learner.vector), np.array([backend.to_numpy(x) for x in seen])])
                if learner.launcher is not None:
                    refused, records = learner.launcher.refused, len(learner.launcher.records)
        expected = runs[0] if expected is None else expected
        off = max(float(np.max(np.abs(x - e)) / np.max(np.abs(e))) for x, e in zip(runs[0], expected, strict=True))
        bitwise = all(np.array_equal(x, again) for other in runs[1:] for x, again in zip(runs[0], other, strict=True))
        holds = off <= MOST_OFF and not refused and (records > 0) == recorded
        rows.append({"form": form, "off": off, "bitwise": bitwise, "refused": refused, "holds": bool(holds)})
    return rows


def times(device: str, forms: list[str]) -> list[dict[str, Any]]:
    """Seconds a step by size and contender, the median of rounds in which all take turns; on the double, its calls."""
    with ExitStack() as pools:
        return [_times(device, forms, size, pools) for size in (SIZES if device == "gpu" else [(4, 8, 6)])]


def _times(device: str, forms: list[str], size: tuple[int, int, int], pools: ExitStack) -> dict[str, Any]:
    costs: dict[str, list[float]] = {}
    steps = {}
    for form in forms:
        with trusted(device, form):
            steps[form] = stepping(device, size, pools)[1]
            for i in range(4):
                steps[form](i)
    others = torch_steps(size) if device == "gpu" else {}
    for _ in range(ROUNDS if device == "gpu" else 1):
        for form, step in steps.items():
            with trusted(device, form):
                costs.setdefault(form, []).append(cost(device, step))
        for name, step in others.items():
            costs.setdefault(name, []).append(cost(device, step))
    unit = "seconds" if device == "gpu" else "calls"
    return {"size": size, unit: {name: statistics.median(each) for name, each in costs.items()}}


def cost(device: str, step: Callable[[int], Any], steps: int = 20) -> float:
    """Seconds a step until the device has done it; on the double, calls."""
    if device == "strict":
        before = COUNTS["calls"]
        step(4)
        return COUNTS["calls"] - before
    import cupy

    cupy.cuda.Device().synchronize()
    began = time.perf_counter()
    for i in range(steps):
        step(4 + i)
    cupy.cuda.Device().synchronize()
    return (time.perf_counter() - began) / steps


def torch_steps(size: tuple[int, int, int]) -> dict[str, Callable[[int], Any]]:
    """PyTorch's ways to take the same step; none without it."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    from benchmarks.peers.torch_models import FusedAttention, MultiHeadAttention, SASRec, tensors

    network, batches = work(*size)
    fed = [tuple(x.pin_memory() for x in tensors(batches.batch(i))) for i in range(2)]
    ways: dict[str, Callable[[int], Any]] = {}
    for name, attention in (("eager", MultiHeadAttention), ("sdpa", FusedAttention), ("compile", FusedAttention)):
        for tf32 in (False, True):
            model = SASRec(network, attention).cuda()
            optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], **ADAM, fused=True)
            loss = torch.compile(model, dynamic=False) if name == "compile" else model

            def step(i: int, tf32: bool = tf32, loss: Any = loss, optimiser: Any = optimiser) -> None:
                torch.backends.cuda.matmul.allow_tf32 = tf32
                optimiser.zero_grad()
                loss(*(x.cuda(non_blocking=True) for x in fed[i % 2])).backward()
                optimiser.step()

            for i in range(4):
                step(i)
            ways[f"torch {name}{', TF32' if tf32 else ''}"] = step
    return ways


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "strict"), default="gpu")
    parser.add_argument("--commit", help="which commit this is, where the files came without their history")
    options = parser.parse_args()
    try:
        On(options.device)
    except ValueError as missing:
        print(f"gpu_steps.py: {missing}", file=sys.stderr)
        return 2
    is_real = options.device == "gpu"
    result: dict[str, Any] = {"machine": versions(options.device, options.commit)}
    slug = re.sub(r"[^a-z0-9]+", "_", backend.device_name(options.device).lower()).strip("_")
    path = RESULTS / f"gpu_steps_{slug}.json"
    result["proof"] = proof(options.device) if is_real else proof(options.device, (4, 8, 6), 5)
    for row in result["proof"]:
        print(f"{row['form']:24} off {row['off']:.1e}  {'same bits' if row['bitwise'] else 'to rounding'}  "
              f"{'holds' if row['holds'] else 'DOES NOT HOLD ' + row['refused']}")  # fmt: skip
    if is_real:
        write_result(path, result)  # a card may be there for minutes only
    result["times"] = times(options.device, [row["form"] for row in result["proof"] if row["holds"]])
    for row in result["times"]:
        for name, number in (row.get("seconds") or row["calls"]).items():
            print(f"{row['size']!s:18} {name:24} {f'{1e6 * number:,.0f} us' if is_real else f'{number} calls'}")
    if is_real:
        write_result(path, result)
    return 0 if all(row["holds"] for row in result["proof"]) else 1


if __name__ == "__main__":
    sys.exit(main())
