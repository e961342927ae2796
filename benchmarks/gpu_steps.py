"""Do recorded steps and kernels agree with steps computed call by call on this GPU? What do they cost beside PyTorch?

    python benchmarks/gpu_steps.py                     on a CUDA device, with CuPy, numba-cuda and PyTorch
    python benchmarks/gpu_steps.py --device strict     on the double: that the script works, before a card is at hand

(1) Each kernel in its own process, as an address that no array has ends CUDA for its process: are its numbers those of
the readable form, the same bits three times, the same when launched from a record whose inputs have changed? Is there
float64 in its float32 code? What does it cost? One that fails is named, and the others go on. (2) Steps of SASRec in
each form, three times each: are parameters and losses those of steps computed call by call without kernels, and the
same to the bit when repeated? (3) Seconds a step of each form that agrees, and of PyTorch (eager with
nn.MultiheadAttention, with scaled_dot_product_attention, torch.compile; float32, with and without TF32), in turns in
one process. Here products are float32 without TF32. On the double it counts the calls of a step.

What the simulator of kernels hides, and where it would show:

    threads that race, a wait that some skip     three repeats, a time limit for each process; by hand,
                                                 compute-sanitizer --tool racecheck python THIS --kernel bce
    rows longer than a block, odd widths         WIDTHS; blocks have 128 threads, and at most 4 KB of shared memory
    places beyond 2³¹                            `beyond`: dropout of 2³¹ + 10 numbers, where 40 GB are free
    float64 where a Python number meets float32  the compiled code is read (`runs` and `join` add in float64 on purpose)
    a product and a sum in one rounding          "off" allows for it: several calls would have other bits
    another stream than CuPy's; memory that is   the record, launched on other inputs, after other arrays have come
    freed while a record reads it                and gone
    compilation inside a recording               the record: what its first call compiles, the second finds
    more than 4 KB of arguments                  the whole step: its `add` has LEAVES arrays a launch
    what numba does before each launch           "kernels" beside "recorded, with kernels"

Writes benchmarks/results/gpu_steps_CARD.json, a file for each card. Where a form holds there, a person adds the card to
`PROVEN` of `training/recording.py` or `fast/kernels.py` (all kernels, too); a test compares the two. Exit code 1 where
a form or a kernel does not.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.gpu import versions
from benchmarks.machine import RESULTS, write_result
from benchmarks.peers import ADAM
from tests.devices import On, tree
from tests.strict import COUNTS, Cublas
from tinyattn import backend
from tinyattn.data import Interactions, Sampler
from tinyattn.fast import kernels, tiles
from tinyattn.forms import readable
from tinyattn.layers.dropout_mask import add_dropped, dropped_backward
from tinyattn.layers.feed_forward import feed_forward, feed_forward_backward
from tinyattn.layers.mechanisms import Full
from tinyattn.layers.norm import norm, norm_backward
from tinyattn.layers.rows import table_gradient
from tinyattn.models import SASRecNetwork
from tinyattn.models.cross_entropy import smoothed_loss, smoothed_loss_backward
from tinyattn.models.objectives import bce, bce_backward, gbce, gbce_backward
from tinyattn.ops import Mask
from tinyattn.random import MaskKeys
from tinyattn.training import Learner, Moments, Settings, adam, recording

FORMS = {  # name -> is the step recorded? do kernels compute?
    "call by call": (False, False),
    "kernels": (False, True),
    "recorded": (True, False),
    "recorded, with kernels": (True, True),
}
SIZES = ((128, 50, 50), (512, 256, 50), (128, 128, 200))  # users, width, length
STEPS, REPEATS, ROUNDS = 12, 3, 5
WIDTHS = {"gpu": ((64, 50, 50, 3416), (7, 33, 257, 100_003)), "strict": ((3, 2, 3, 7),)}  # SIZES, and items
WRONG = {"f": 2e-5, "d": 1e-12}  # allowed of the largest number: sums have another order
LIMIT = 120  # seconds for a kernel
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


def parts(xp: Any, size: tuple[int, int, int, int], dtype: str) -> dict[str, tuple[Any, Callable[[], Any]]]:
    """For each kernel or pair of kernels: an input, which may be changed in place, and a function of everything."""
    users, length, width, items = size
    rng = np.random.default_rng(0)

    def there(*shape: int) -> Any:
        return xp.asarray(rng.standard_normal(shape).astype(dtype))

    def ids(*shape: int) -> Any:
        some = rng.integers(0, items + 1, shape)
        return xp.asarray(np.where(rng.random(shape) < 0.3, 0, some))  # padding: a long run of equal ids

    key = xp.asarray(np.array([0xFEDCBA9876543210], np.uint64))
    rows = xp.asarray(np.arange(users) * 977)
    x, y, h, E = *(there(users, length, width) for _ in range(3)), there(items + 1, width)
    gamma, W1, W2 = there(width), there(width, 2 * width), there(2 * width, width)
    p_norm = {"gamma": gamma, "beta": there(width)}
    p_ffn = {"inner": {"W": W1, "b": there(2 * width)}, "outer": {"W": W2, "b": gamma}}
    q = there(users, 2, length, 8)
    lengths = xp.asarray(rng.integers(0, length + 1, users))
    batch = SimpleNamespace(
        weight=xp.asarray((rng.random((users, length)) < 0.7).astype(dtype)), targets=ids(users, length),
        negatives=ids(users, length), shared=ids(users, 1, 5),
    )  # fmt: skip
    everyone = xp.concatenate([batch.targets.reshape(-1), batch.negatives.reshape(-1)])
    logits = there(users * length, items)
    one = xp.asarray(np.array([0.9], "f"))
    state = [there(items).astype("f") for _ in range(2)] + [xp.asarray(rng.random((2, items)).astype("f"))]

    def keys() -> MaskKeys:
        return MaskKeys(iter([key, key]), rows)

    def normed() -> Any:
        out, cache = norm(p_norm, x)
        return out, norm_backward(p_norm, y, cache)

    def dropped() -> Any:
        out, keep = add_dropped(x, h, 0.2, keys())
        return out, dropped_backward(y, keep, 0.2)

    def attending(mask: Mask, rate: float) -> Any:
        out, cache = Full().forward(None, q, q, q, mask, {}, rate, keys())
        return out, cache.weights, Full().backward(None, q, cache)

    def grouped() -> Any:
        kept, tiles.WHOLE = tiles.WHOLE, 2 * length * length * q.itemsize  # the scores of a sequence
        try:
            return attending(Mask(causal=True), 0.2)
        finally:
            tiles.WHOLE = kept

    def feeding(activation: str) -> Any:
        out, cache = feed_forward(p_ffn, x, activation=activation, rate=0.2, rng=keys())
        return out, feed_forward_backward(p_ffn, y, cache)

    def losing(f: Any, back: Any, **options: Any) -> Any:
        loss, saved = f(h, E, batch, **options)
        dh, scored = back(0.7, h, E, batch, saved)
        return loss, dh, scored.values

    def classes() -> Any:
        loss, saved = smoothed_loss(logits, everyone[: len(logits)] % items, batch.weight.reshape(-1), 0.1)
        return loss, smoothed_loss_backward(0.7, saved)

    def updated() -> Any:
        vector, gradient, m, v = state[0].copy(), state[1], state[2][0].copy(), state[2][1].copy()
        adam(vector, gradient, Moments(m, v), (one, one), lr=one)
        return vector, m, v

    return {
        "adam": (state[1], updated),
        "norm_backward": (x, normed),
        "add_dropped": (x, dropped),
        "attention, causal": (q, lambda: attending(Mask(causal=True), 0.0)),
        "attention, lengths and dropout": (q, lambda: attending(Mask(causal=True, lengths=lengths), 0.2)),
        "attention, a sequence at a time": (q, grouped),
        "feed_forward, relu": (x, lambda: feeding("relu")),
        "feed_forward, gelu": (x, lambda: feeding("gelu")),
        "feed_forward, gelu-tanh": (x, lambda: feeding("gelu-tanh")),
        "bce": (h, lambda: losing(bce, bce_backward)),
        "gbce": (h, lambda: losing(gbce, gbce_backward, n_negatives=5, calibration=0.75)),
        "cross-entropy": (logits, classes),
        "sum_rows": (x, lambda: table_gradient(batch.targets, x, E)),
    }


KERNELS = list(parts(np, (2, 2, 2, 3), "f"))


def kernel(device: str, name: str) -> dict[str, Any]:
    """Of one kernel the largest error, whether repeats and a record agree, and seconds beside the readable form's."""
    xp = backend.module_for(device)
    row: dict[str, Any] = {"kernel": name, "off": 0.0, "bitwise": True, "recorded": "", "error": ""}
    with trusted(device, "recorded, with kernels"):
        for size in WIDTHS[device]:
            for dtype in "fd" if name != "adam" else "f":
                compute = parts(xp, size, dtype)[name][1]
                mine, *others = (arrays(compute()) for _ in range(REPEATS))
                with readable():
                    expected = arrays(compute())
                for i, (a, e) in enumerate(zip(mine, expected, strict=True)):
                    row["off"] = max(
                        row["off"], float(np.max(np.abs(a - e)) / max(np.max(np.abs(e)), 1)) / WRONG[dtype]
                    )
                    row["bitwise"] &= all(np.array_equal(a, again[i]) for again in others)
        row["recorded"] = _recorded(xp, *parts(xp, WIDTHS[device][0], "f")[name])
        if device == "gpu":
            row |= _on_a_card(xp, name)
    row["holds"] = bool(row["off"] <= 1) and row["bitwise"] and not row["recorded"]
    return row


def _on_a_card(xp: Any, name: str) -> dict[str, Any]:
    compute = parts(xp, WIDTHS["gpu"][0], "f")[name][1]
    row: dict[str, Any] = {"seconds": cost("gpu", lambda _: compute())}
    with readable():
        row["readable seconds"] = cost("gpu", lambda _: compute())
    code = {f: "".join(x.inspect_asm().values()) for f, x in vars(kernels.kernels(np.float32)).items() if x.overloads}
    row["float64 in"] = [f for f, asm in code.items() if re.search(r"\w\.f64", asm) and f not in ("runs", "join")]
    if name == "add_dropped" and xp.cuda.runtime.memGetInfo()[0] > 40 << 30:
        row["beyond 2^31"] = beyond(xp)
    return row


def _recorded(xp: Any, given: Any, compute: Callable[[], Any]) -> str:
    """What is wrong with a record that is launched on another input; "" where nothing is."""
    kept: list[Any] = []
    try:
        launch = recording.record(lambda: kept.__setitem__(slice(None), [compute()]), xp)
    except recording.CannotRecordError as why:
        return str(why)
    given *= 0.5
    _ = [xp.full(given.shape, 7.0, dtype=given.dtype) for _ in range(20)]  # which would take memory that was freed
    launch()
    pairs = zip(arrays(kept), arrays(compute()), strict=True)
    return "" if all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs) else "a record gives other numbers"


def beyond(xp: Any) -> bool:
    """Dropout of (2, 2³⁰ + 5) numbers: is the second row what it is alone?"""
    x, key = xp.ones((2, (1 << 30) + 5), dtype="f"), xp.asarray(np.array([3], np.uint64))
    rows = xp.asarray(np.arange(2))
    both = add_dropped(None, x, 0.5, MaskKeys(iter([key]), rows))[0]
    alone = add_dropped(None, x[1:], 0.5, MaskKeys(iter([key]), rows[1:]))[0]
    return bool(xp.all(both[1:] == alone))


def arrays(x: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    tree(lambda a: found.append(backend.to_numpy(a)) if hasattr(a, "dtype") else None, x)
    return found


def kernel_proof(device: str) -> list[dict[str, Any]]:
    """A row a kernel. On a card each has a process, so that none ends the others."""
    found = []
    for name in KERNELS:
        try:
            if device == "gpu":
                command = [sys.executable, __file__, "--kernel", name]
                ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
                row = json.loads(ran.stdout.splitlines()[-1]) if ran.returncode == 0 else failed(name, ran.stderr)
            else:
                row = kernel(device, name)
        except subprocess.TimeoutExpired:
            row = failed(name, f"no answer in {LIMIT} seconds: threads that wait for one another?")
        except Exception as error:  # whatever it is, the others go on
            row = failed(name, f"{type(error).__name__}: {error}")
        found.append(row)
        print(f"{name:32} off {row['off']:.2f} of what is allowed  {'same bits' if row['bitwise'] else 'OTHER BITS'}  "
              f"{'holds' if row['holds'] else 'DOES NOT HOLD ' + row['recorded'] + row['error']}")  # fmt: skip
    return found


def failed(name: str, why: str) -> dict[str, Any]:
    last = (why.strip().splitlines() or ["without a word"])[-1]
    return {"kernel": name, "off": float("inf"), "bitwise": False, "recorded": "", "error": last, "holds": False}


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


def attention_times(device: str) -> list[dict[str, Any]]:
    """What causal attention with dropout costs, forward and backward, with weights that are kept, and without."""
    xp, rows = backend.module_for(device), []
    users, lengths = (128, (256, 512, 1024, 2048)) if device == "gpu" else (3, (3,))
    key, numbers, kept = xp.asarray(np.array([9], np.uint64)), xp.asarray(np.arange(users)), tiles.WHOLE
    for length in lengths:
        q = xp.asarray(np.random.default_rng(0).standard_normal((users, 2, length, 32)).astype("f"))
        sequence = 2 * length * length * q.itemsize
        ways = {"all weights kept": users * sequence, "some sequences": users // 3 * sequence, "one sequence": sequence}

        def attend(_: int, q: Any = q) -> None:
            cache = Full().forward(None, q, q, q, Mask(causal=True), {}, 0.2, MaskKeys(iter([key]), numbers))[1]
            Full().backward(None, q, cache)

        for way, whole in (ways | {"no kernel for it": 0}).items():
            row: dict[str, Any] = {"length": length, "way": way}
            tiles.WHOLE = whole
            try:
                with trusted(device, "kernels"):
                    if device == "gpu":
                        pool = xp.get_default_memory_pool()
                        pool.free_all_blocks()
                        before = pool.total_bytes()
                        attend(0)
                        row["bytes"] = pool.total_bytes() - before
                    row["seconds" if device == "gpu" else "calls"] = cost(device, attend)
            except Exception as error:  # a card may have too little memory for one of them
                row["error"] = f"{type(error).__name__}: {error}"
            finally:
                tiles.WHOLE = kept
            rows.append(row)
            print(row)
    return rows


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
    parser.add_argument("--kernel", choices=KERNELS, help="this one alone, as a line of JSON")
    parser.add_argument("--commit", help="which commit this is, where the files came without their history")
    options = parser.parse_args()
    try:
        On(options.device)
    except ValueError as missing:
        print(f"gpu_steps.py: {missing}", file=sys.stderr)
        return 2
    if options.kernel:
        print(json.dumps(kernel(options.device, options.kernel)))
        return 0
    is_real = options.device == "gpu"
    result: dict[str, Any] = {"machine": versions(options.device, options.commit)}
    slug = re.sub(r"[^a-z0-9]+", "_", backend.device_name(options.device).lower()).strip("_")
    path = RESULTS / f"gpu_steps_{slug}.json"
    if is_real:  # on the double, tests/test_gpu_steps.py, with numba's simulator
        result["kernels"] = kernel_proof("gpu")
        write_result(path, result | {"proof": [], "times": []})
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
        write_result(path, result | {"attention": attention_times("gpu")})
    return 0 if all(row["holds"] for row in [*result["proof"], *result.get("kernels", [])]) else 1


if __name__ == "__main__":
    sys.exit(main())
