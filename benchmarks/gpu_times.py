"""What a GPU's times say: tinyattn's forms and PyTorch, in turns in one process; a part of gpu_steps.py.

WORKS are training steps of SASRec and of a decoder, and the ten best items of all users. A contender is a form of
tinyattn, or a way of PyTorch: eager with nn.MultiheadAttention, eager with scaled_dot_product_attention, torch.compile;
each in float32 with and without TF32, on both sides. TF32 is CuPy's compute type for products of two axes, and
cuBLAS's math mode, which batched and recorded products read; "products" shows by their errors that both took effect.

Times are medians of rounds in which all contenders take turns. Memory is what the card has less when a contender is
built and has made four steps (cudaMemGetInfo, the same for both sides: parameters, moments, what the caching
allocators keep, records); before each the allocators give back what they do not use. Kernels that a library loads once
count for the first that needs them, so of a contender's two, with and without TF32, the smaller number is kept.
"""

import ctypes
import gc
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.decoder_step import draw
from benchmarks.peers import BEST
from tests.strict import COUNTS, Cublas
from tinyattn import backend
from tinyattn.data import Interactions, Sampler
from tinyattn.evaluation import top
from tinyattn.fast import kernels, tiles
from tinyattn.layers.mechanisms import Full
from tinyattn.models import DecoderNetwork, SASRec, SASRecNetwork
from tinyattn.ops import Mask
from tinyattn.random import MaskKeys
from tinyattn.training import Learner, Settings, recording
from tinyattn.tree import leaves, tree_map

Step = Callable[[int], Any]
FORMS = {  # name -> is the step recorded? do kernels compute?
    "call by call": (False, False),
    "kernels": (False, True),
    "recorded": (True, False),
    "recorded, with kernels": (True, True),
}
ROUNDS, STEPS, SECONDS = 5, 20, 0.15  # of a contender a round: so many steps, fewer where they take longer
TF32 = ", TF32"
LEVELS = {"must": 1.0, "good": 2.0, "moonshot": 4.0}  # times as fast as the better eager; good, moonshot: of SMALLEST
BESIDE_COMPILE = 1.2  # moonshot, of all works


class Work(NamedTuple):
    """What is timed. `tiny`: its size on the double."""

    title: str
    kind: str
    size: tuple[int, int, int]  # users (or texts), width, length
    tiny: tuple[int, int, int]


SMALLEST = "SASRec 128x50x50"
WORKS = {  # the most important first
    SMALLEST: Work("a training step of SASRec, 128 users, width 50, length 50", "sasrec", (128, 50, 50), (4, 8, 6)),
    "decoder": Work("a training step of a decoder, 6 layers, 32 texts, width 256, context 256", "decoder",
                    (32, 256, 256), (2, 8, 6)),
    "ranking": Work("the ten best of 3,416 items for 6,040 users, width 50, length 200", "ranking", (6040, 50, 200),
                    (12, 8, 6)),
    "SASRec 512x256x50": Work("a training step of SASRec, 512 users, width 256, length 50", "sasrec", (512, 256, 50),
                              (3, 8, 5)),
    "SASRec 128x128x200": Work("a training step of SASRec, 128 users, width 128, length 200", "sasrec",
                               (128, 128, 200), (3, 6, 7)),
}  # fmt: skip
LENGTHS = (256, 512, 1024, 2048)  # of attention alone
PRODUCTS = "products"  # no work: errors of products, with and without TF32


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


def set_tf32(device: str, on: bool) -> None:
    """Products of float32 on this device; a record keeps what was chosen when it was made."""
    if device != "gpu":
        return
    import cupy
    from cupy._core import _routines_linalg as linalg

    number = {linalg.compute_type_to_str(i): i for i in range(8)}
    linalg.set_compute_type(np.float32, number["COMPUTE_TYPE_TF32" if on else "COMPUTE_TYPE_DEFAULT"])
    of_cupy = ctypes.c_void_p(cupy.cuda.Device().cublas_handle)  # loads the library
    library = recording.cublas(cupy)
    for handle in (of_cupy, recording._handle(library)):
        recording._call(library.cublasSetMathMode, handle, 3 if on else 0)  # CUBLAS_TF32_TENSOR_OP_MATH, default


def sasrec(users: int, width: int, length: int) -> tuple[SASRecNetwork, list[Any]]:
    """SASRec for ml-1m's items, and two batches; all have the same layout, so that one record serves them."""
    rng = np.random.default_rng(0)
    histories: list[Any] = [rng.permutation(3416)[: length + 1] for _ in range(2 * users)]
    data = Interactions.from_sequences(histories)
    sampler = Sampler(data, length, users, 0, True)
    return SASRecNetwork(n_items=3416, maxlen=length, dim=width), [sampler.batch(i) for i in range(2)]


def decoder(texts: int, width: int, length: int) -> tuple[DecoderNetwork, list[Any]]:
    layers = 6 if width > 8 else 2
    network = DecoderNetwork(n_tokens=96, context=length, dim=width, layers=layers, heads=max(1, width // 64))
    return network, draw(network, texts, 2)


def histories(users: int, length: int) -> list[np.ndarray]:
    """Of 3,416 items, as long as those of ML-1M: a log-normal distribution of median 96, at least 20."""
    rng = np.random.default_rng(0)
    lengths = np.clip(np.exp(rng.normal(np.log(96), 1, users)), min(20, length), length).astype(int)
    return [1 + rng.permutation(3416)[:n] for n in lengths.tolist()]


def stepping(device: str, made: tuple[Any, list[Any]], pools: ExitStack) -> tuple[Learner, Step]:
    """A learner, and its step number i, which returns loss and squared norm there; `pools` closes its pool."""
    network, batches = made
    learner = Learner(network, Settings(device=device, beta2=0.98), batches[:1], steps=1)
    pool = pools.enter_context(learner.pool(1))

    def step(i: int) -> Any:
        seen, batch = learner.xp.zeros(2), [batches[i % 2]]
        if not learner.launch(batch, i, seen, pool):
            learner.differentiate(batch, i, seen, pool)
            learner.update(i + 1)
        return seen

    return learner, step


def ranker(size: tuple[int, int, int]) -> tuple[SASRecNetwork, Any, list[np.ndarray]]:
    """A network, its parameters on the host, and histories."""
    users, width, length = size
    network = SASRecNetwork(n_items=3416, maxlen=length, dim=width)
    weights = tree_map(lambda w: w.astype(np.float32), network.init(np.random.default_rng(0)))
    return network, weights, histories(users, length)


def ranking(device: str, size: tuple[int, int, int], on_host: bool = False) -> Step:
    """All users' ten best, on the host: chosen on the device, or from `score`, whose scores are the host's."""
    network, weights, read = ranker(size)
    xp = backend.module_for(device)
    model = SASRec(maxlen=network.maxlen, dim=network.dim, device=device)
    model.network, model.parameters = network, tree_map(xp.asarray, weights)
    place = xp.arange(len(read))

    def step(i: int) -> np.ndarray:
        if on_host:
            return top(model.score(read), BEST)
        scores = network.score_items(model.parameters, model._states(read, None))
        best = []
        for _ in range(BEST):  # CuPy has no top-k, and its argpartition sorts
            best.append(xp.argmax(scores, axis=1))
            scores[place, best[-1]] = -xp.inf
        return backend.to_numpy(xp.stack(best, axis=1))

    return step


class Contender(NamedTuple):
    """`build` makes its step; both run in a `context`, which is entered before a turn's clock starts."""

    context: Callable[[], Any]
    build: Callable[[], Step]


@contextmanager
def computing(device: str, form: str, tf32: bool) -> Iterator[None]:
    """In this form and precision."""
    set_tf32(device, tf32)
    try:
        with trusted(device, form):
            yield
    finally:
        set_tf32(device, False)


def ours(device: str, work: Work, forms: Sequence[str], pools: ExitStack) -> dict[str, Contender]:
    """The contenders of tinyattn."""
    size = work.size if device == "gpu" else work.tiny
    host = {}
    if work.kind == "ranking":
        forms = [form for form in forms if not FORMS[form][0]]  # states are not recorded
        build = partial(ranking, device, size)
        host = {
            "call by call, ranked on the host": Contender(
                partial(computing, device, "call by call", False), partial(ranking, device, size, on_host=True)
            )
        }
    else:
        made = (sasrec if work.kind == "sasrec" else decoder)(*size)
        build = lambda: stepping(device, made, pools)[1]  # noqa: E731
    return {
        form + TF32 * tf32: Contender(partial(computing, device, form, tf32), build)
        for tf32 in ((False, True) if device == "gpu" else (False,))
        for form in forms
    } | host


def theirs(work: Work, size: tuple[int, int, int], compiled: bool = False, where: str = "cuda") -> dict[str, Contender]:
    """The contenders of PyTorch; none where it is not installed or has no card."""
    if importlib.util.find_spec("torch") is None:
        return {}
    from benchmarks.peers import torch_gpu

    if where == "cuda" and not torch_gpu.has_card():
        return {}
    if work.kind == "ranking":
        build: Any = partial(torch_gpu.ranking, *ranker(size), where=where)
        eager: tuple[str, ...] = ("padded", "buckets")
    else:
        network, batches = (sasrec if work.kind == "sasrec" else decoder)(*size)
        count = sum(x.size for _, x in leaves(network.init(np.random.default_rng(0))))
        build = partial(torch_gpu.training, network, batches, count=count, where=where)
        # a decoder has one form of eager: nn.MultiheadAttention would call the same fused attention
        eager = ("mha", "sdpa") if work.kind == "sasrec" else ("sdpa",)
    return {
        f"torch {way}{TF32 * tf32}": Contender(partial(torch_gpu.in_precision, tf32), partial(build, way=way))
        for tf32 in (False, True)
        for way in (("compile",) if compiled else eager)
    }


def times(device: str, name: str, forms: Sequence[str], compiled: bool = False) -> dict[str, Any]:
    """Of one work seconds by contender, and bytes; on the double, calls. One that cannot be built is named."""
    if name == PRODUCTS:
        return {"item": name, "off": products(device)}
    work = WORKS[name]
    row: dict[str, Any] = {"item": name, "title": work.title, "errors": {}, "bytes": {}}
    turns: dict[str, tuple[Callable[[], Any], Step]] = {}
    answers: dict[str, np.ndarray] = {}
    with ExitStack() as pools:
        contenders = ours(device, work, forms, pools) | (theirs(work, work.size, compiled) if device == "gpu" else {})
        for contender, (context, build) in contenders.items():
            before = free(device)
            try:
                with context():
                    step = build()
                    answers[contender] = [step(i) for i in range(4)][-1]  # a layout is recorded when it is met again
                turns[contender] = context, step
            except Exception as error:  # whatever it is, the others go on
                row["errors"][contender] = f"{type(error).__name__}: {error}"[:300]
            wait(device)
            row["bytes"][contender] = before - free(device, False)
        row["seconds" if device == "gpu" else "calls"] = in_turns(device, turns)
    if work.kind == "ranking" and answers:
        first = next(iter(answers.values()))
        row["same answers"] = {each: float(np.mean(answer == first)) for each, answer in answers.items()}
    return row


def attention_times(device: str, length: int) -> dict[str, Any]:
    """What causal attention with dropout costs, forward and backward, with weights that are kept, and without."""
    xp, users = backend.module_for(device), 128 if device == "gpu" else 3
    key, numbers, kept = xp.asarray(np.array([9], np.uint64)), xp.asarray(np.arange(users)), tiles.WHOLE
    q = xp.asarray(np.random.default_rng(0).standard_normal((users, 2, length, 32)).astype("f"))
    sequence = 2 * length * length * q.itemsize
    ways = {"all weights kept": users * sequence, "some sequences": users // 3 * sequence, "one sequence": sequence}
    unit = "seconds" if device == "gpu" else "calls"
    row: dict[str, Any] = {"item": str(length), "errors": {}, "bytes": {}, unit: {}}

    def attend(_: int) -> None:
        cache = Full().forward(None, q, q, q, Mask(causal=True), {}, 0.2, MaskKeys(iter([key]), numbers))[1]
        Full().backward(None, q, cache)

    for way, whole in (ways | {"no kernel for it": 0}).items():
        tiles.WHOLE = whole
        try:
            with trusted(device, "kernels"):
                before = free(device)
                attend(0)
                wait(device)
                row["bytes"][way] = before - free(device, False)
                row[unit][way] = cost(device, attend, 5)
        except Exception as error:  # a card may have too little memory for one of them
            row["errors"][way] = f"{type(error).__name__}: {error}"[:300]
        finally:
            tiles.WHOLE = kept
    return row


def in_turns(device: str, turns: dict[str, tuple[Callable[[], Any], Step]]) -> dict[str, float]:
    """The median cost of a step."""
    found: dict[str, list[float]] = {contender: [] for contender in turns}
    counts: dict[str, int] = {}
    for _ in range(ROUNDS if device == "gpu" else 1):
        for contender, (context, step) in turns.items():
            with context():
                if device == "gpu" and contender not in counts:
                    counts[contender] = max(3, min(STEPS, int(SECONDS / cost(device, step, 2))))
                found[contender].append(cost(device, step, counts.get(contender, 1)))
    return {contender: statistics.median(each) for contender, each in found.items()}


def cost(device: str, step: Step, steps: int = STEPS) -> float:
    """Seconds a step until the device has done it; on the double, calls."""
    if device == "strict":
        before = COUNTS["calls"]
        step(4)
        return COUNTS["calls"] - before
    wait(device)
    began = time.perf_counter()
    for i in range(steps):
        step(4 + i)
    wait(device)
    return (time.perf_counter() - began) / steps


def wait(device: str) -> None:
    """Until all streams are done, PyTorch's too."""
    if device == "gpu":
        import cupy

        cupy.cuda.Device().synchronize()


def free(device: str, give_back: bool = True) -> int:
    """Bytes of the card that are free; with `give_back`, after both allocators returned what they do not use."""
    if device != "gpu":
        return 0
    import cupy

    if give_back:
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()
    return int(cupy.cuda.runtime.memGetInfo()[0])


def products(device: str) -> dict[str, list[float]]:
    """The largest errors of products of 256 numbers, without TF32 and with it: about 1e-5 and 1e-2, or it is not on."""
    xp, rng, found = backend.module_for(device), np.random.default_rng(0), {}
    a, b = (rng.standard_normal((4, 256, 256)).astype(np.float32) for _ in range(2))
    exact = a.astype(float) @ b
    there = xp.asarray(a), xp.asarray(b)
    ways: dict[str, Callable[[], Any]] = {
        "CuPy, two axes": lambda: there[0][0] @ there[1][0],
        "CuPy, three axes": lambda: there[0] @ there[1],
        "recorded": lambda: _recorded(device, xp, *there),
    }
    for name, multiply in ways.items():
        found[name] = []
        for on in (False, True):
            set_tf32(device, on)
            y = backend.to_numpy(multiply())
            found[name].append(float(np.max(np.abs(y - (exact if y.ndim == 3 else exact[0])))))
    set_tf32(device, False)
    if device == "gpu" and theirs(WORKS[SMALLEST], WORKS[SMALLEST].tiny):
        from benchmarks.peers.torch_gpu import product

        found["torch"] = [float(np.max(np.abs(product(a, b, on, "cuda") - exact))) for on in (False, True)]
    return found


def _recorded(device: str, xp: Any, a: Any, b: Any) -> Any:
    with trusted(device, "recorded"):
        library = recording.cublas(xp)
        handle = recording._handle(library)
        recording._call(library.cublasSetStream_v2, handle, ctypes.c_void_p(xp.cuda.get_current_stream().ptr))
        return recording.product(xp, library, handle, a, b)


def verdicts(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each work and precision the fastest form, how many times as fast it is, and the level that this reaches."""
    merged: dict[str, dict[str, dict[str, float]]] = {}
    for row in (row for row in rows if row.get("seconds")):
        into = merged.setdefault(row["item"], {"seconds": {}, "beside": {}, "bytes": {}})
        into["beside" if any("compile" in name for name in row["seconds"]) else "seconds"] = row["seconds"]
        into["bytes"] = row["bytes"] | into["bytes"]
    found = []
    for work, row in merged.items():
        for tf32 in (False, True):
            seconds, beside = ({k: s for k, s in row[which].items() if k.endswith(TF32) == tf32}
                               for which in ("seconds", "beside"))  # fmt: skip
            mine = {k: s for k, s in seconds.items() if not k.startswith("torch")}
            eager = {k: s for k, s in seconds.items() if k.startswith("torch")}
            if not (mine and eager):
                continue
            best, better = min(mine, key=mine.__getitem__), min(eager, key=eager.__getitem__)
            compiled = [s for k, s in beside.items() if k.startswith("torch")]
            other = [s for k, s in beside.items() if not k.startswith("torch")]
            ratio = eager[better] / mine[best]
            by = min(compiled) / min(other) if compiled and other else None
            levels = {**LEVELS} if work == SMALLEST else {"must": LEVELS["must"]}
            reached = [level for level, least in levels.items() if ratio >= least]
            if reached[-1:] == ["moonshot"] and (by or 0) < BESIDE_COMPILE:
                reached.pop()
            bytes_of = {name: min(row["bytes"].get(name + end, 1 << 60) for end in ("", TF32))
                        for name in (best.removesuffix(TF32), better.removesuffix(TF32))}  # fmt: skip
            found.append({
                "work": work, "TF32": tf32, "form": best, "eager": better, "as fast as eager": round(ratio, 3),
                "as fast as compiled": by and round(by, 3), "MB": [b >> 20 for b in bytes_of.values()],
                "verdict": reached[-1] if reached else "missed",
            })  # fmt: skip
    return found
