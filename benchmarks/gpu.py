"""Does the library compute on this GPU what it computes on the host? All checks that need one.

    python benchmarks/gpu.py                     on a CUDA device, with CuPy
    python benchmarks/gpu.py --device strict     on the strict double: that the script works, before a device is at hand

(1) CuPy does what each rule of the strict double says; (2) SASRec's parts, at its own sizes, and every op of `tinyattn
check`, on cases that its spec draws, forward and backward: is the error against float64 NumPy at most four times that
of NumPy's float32? (3) is each the same to the bit when repeated? (4) the default world, trained to the host's metrics,
and every other model, trained small to the host's losses; (5) times by events, beside PyTorch where it is installed;
for the double, whose times mean nothing, numbers of calls; (6) every test that runs on a device, except slow ones. (On
the double these run with all others.) Under ten minutes; each part is written as it comes.

Writes the device's part of benchmarks/results/gpu.json, README's line "GPU last verified", and the table of times in
docs/gpu.md. Exit code 1 where anything of (1), (2), (4) or (6) does not hold.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from tqdm import tqdm

from benchmarks.machine import README, RESULTS, ROOT, describe, write_pages, write_result
from benchmarks.peers import ADAM
from tests.count_calls import COUNTED
from tests.devices import On
from tests.models import small
from tests.rules import RULES, outcome
from tests.strict import COUNTS
from tinyattn import backend, ops
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import upstream
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject
from tinyattn.data import Batch, Interactions, Sampler, SeriesWorld, leave_one_out
from tinyattn.evaluation import full_ranking
from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, Block, MultiHead
from tinyattn.models import MODELS, SASRec, SASRecNetwork
from tinyattn.random import Stream, generator
from tinyattn.training import Moments, adam
from tinyattn.tree import Rows, flatten, leaves, tree_map

RESULT = RESULTS / "gpu.json"
SIZES = ((128, 50), (512, 256))  # users and width
STEPS = {f"SASRec, a training step of {users} users, width {width}": (users, width) for users, width in SIZES}
TIMES_CPU = 4.0  # the error allowed on a device, in errors of NumPy's float32
CASES = 24  # of each spec
LOSS_RTOL = 1e-3  # a small model's loss on a device against the host's: Adam turns rounding into steps
B, N, D, V = 32, 50, 64, 3000  # batch, positions, width, items: about SASRec's


# --- (2), (3) -------------------------------------------------------------------------------------------------------


def subjects() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """name -> a function and its float64 arguments; each returns arrays, in tuples, lists and dicts."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape)

    x, dy, W, b = normal(B, N, D), normal(B, N, D), normal(D, D) / 8, normal(D)
    q, k, v = normal(B, 2, N, D), normal(B, 2, N, D), normal(B, 2, N, D)
    mask, keep = np.tri(N, dtype=bool), rng.random((B, 2, N, N)) < 0.8
    ids, E, z = rng.zipf(1.3, (B, N)) % V, normal(V, D), normal(B, N)
    weights = (rng.random((B, N)) < 0.8).astype(float)
    logits, targets = 3 * normal(B * N, V // 4), rng.integers(0, V // 4, B * N)

    def both_ways(form: str, as_read: bool = False) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        block = Block(MultiHead(2), form, rate=0.2)

        def both(p: Any, x: Any, dy: Any) -> Any:
            with readable(as_read):
                y, cache = block.forward(p, x, mask=ops.Mask(causal=True), rng=_key())
            return y, *block.backward(p, dy, cache)

        return both, (block.init(generator(0, Stream.INIT), D), x, dy)

    def attention_backward(dout: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any) -> Any:
        _, weights = ops.attention(q, k, v, mask, keep=keep, rate=0.2)
        return ops.attention_backward(dout, q, k, v, weights, keep=keep, rate=0.2)[:3]

    return {
        "linear": (ops.linear, (x, W, b)),
        "linear backward": (ops.linear_backward, (dy, x, W)),
        "relu": (ops.relu, (x,)),
        "relu backward": (ops.relu_backward, (dy, x)),
        "gelu": (ops.gelu, (x,)),
        "gelu backward": (ops.gelu_backward, (dy, x)),
        "softmax": (ops.softmax, (3 * normal(B, N, N), mask)),
        "softmax backward": (ops.softmax_backward, (normal(B, N, N), rng.dirichlet(np.ones(N), (B, N)))),
        "layer_norm": (ops.layer_norm, (x + 3, b, b)),
        "layer_norm backward": (
            lambda dy, x, g: ops.layer_norm_backward(dy, *ops.layer_norm(x, g, g)[1:], g), (dy, x, b)),
        "dropout": (lambda x, keep: ops.dropout(x, keep, 0.2), (normal(B, 2, N, N), keep)),
        "embedding": (ops.embedding, (ids, E)),
        "embedding backward": (ops.embedding_backward, (dy, ids, E)),
        "attention": (lambda q, k, v, m, keep: ops.attention(q, k, v, m, keep=keep, rate=0.2), (q, k, v, mask, keep)),
        "attention backward": (attention_backward, (normal(B, 2, N, D), q, k, v, mask, keep)),
        "cross_entropy": (ops.cross_entropy, (logits, targets)),
        "cross_entropy backward": (lambda z, t: ops.cross_entropy_backward(1.0, z, t), (logits, targets)),
        "bce_with_logits": (ops.bce_with_logits, (z, (z > 0).astype(float), weights)),
        "bce_with_logits backward": (
            lambda z, t, w: ops.bce_with_logits_backward(1.0, z, t, w), (z, (z > 0).astype(float), weights)),
        "mask by hash": (lambda x: ops.keep_mask(_key(), x.shape, 0.2, like=x), (x,)),
        "adam": (_adam_step, (normal(D * D), normal(D * D))),
        **{f"{form} block, both ways": both_ways(form, as_read=True) for form in BLOCK_FORMS},
        "pre block of faster pairs, both ways": both_ways("pre"),
        **{f"SASRec, {loss}, loss and gradients": _network(loss) for loss in ("bce", "ce")},
    }  # fmt: skip


def _key() -> np.random.Generator:
    return np.random.default_rng(7)


def _adam_step(vector: Any, gradient: Any) -> Any:
    xp, vector = backend.get_xp(vector), vector.copy()
    moments = Moments(xp.zeros_like(vector), xp.zeros_like(vector))
    for step in (1, 2, 3):
        adam(vector, gradient, moments, step)
    return vector


def _network(loss: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    data = leave_one_out(SeriesWorld(users=200).generate()).train
    network = SASRecNetwork(n_items=data.n_items, maxlen=N, dim=D, objective=loss)
    batch = Sampler(data, N, B, 0, loss == "bce").batch(0)

    def step(p: Any, batch: Any) -> Any:
        value, cache = network.loss(p, batch, _key())
        grads = network.loss_backward(p, 1.0, cache)
        dense = dict(leaves(grads))
        dense["items"] = _dense(grads["items"], p["items"])
        dense["positions"] = _dense(grads["positions"], p["positions"])
        return value, dense

    return step, (network.init(generator(0, Stream.INIT)), batch)


def _dense(g: Any, like: Any) -> Any:
    if not isinstance(g, Rows):
        return g
    whole = backend.get_xp(like).zeros_like(like)
    whole[g.ids] = g.values
    return whole


def arrays(x: Any) -> list[np.ndarray]:
    """Every array of a result, on the host, in order."""
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, list | tuple):
        return [a for part in x for a in arrays(part)]
    return [] if x is None else [backend.to_numpy(x)]


def cast(x: Any, dtype: Any) -> Any:
    """The same arguments with floating arrays in `dtype`."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(cast(part, dtype) for part in x))
    if isinstance(x, dict | list):
        return tree_map(lambda a: cast(a, dtype), x)
    return x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def error(found: list[np.ndarray], exact: list[np.ndarray]) -> float:
    """The largest difference, each array's in units of its own largest number.

    What is 0 but for rounding, as the gradient of a key's bias, has no size of its own: its error is in units of the
    largest number of the whole result.
    """
    sizes = [float(np.max(np.abs(e), initial=0)) for e in exact]
    whole = max(sizes)
    return max(
        float(np.max(np.abs(a.astype(float) - e), initial=0)) / ((size if size > 1e-6 * whole else whole) or 1.0)
        for a, e, size in zip(found, exact, sizes, strict=True)
    )


def agree(found: list[np.ndarray], exact: list[np.ndarray]) -> bool:
    """Have they the same shapes, and are they finite at the same places? `error` does not see what is not a number."""
    pairs = list(zip(found, exact, strict=True))
    return all(a.shape == e.shape and np.array_equal(np.isfinite(a), np.isfinite(e)) for a, e in pairs)


def compare(on: On) -> list[dict[str, Any]]:
    """One row a subject: its errors here and on the host, and whether three repeats have the same bits."""
    rows = []
    for name, (f, args) in tqdm(subjects().items(), desc="ops and layers", unit="op"):
        single = [cast(a, np.float32) for a in args]
        there = [on.there(a) for a in single]
        rows.append(row(name, [(f(*args), f(*single), [f(*there) for _ in range(3)])]))
    return rows


def row(name: str, cases: list[tuple[Any, Any, list[Any]]]) -> dict[str, Any]:
    """The worst case's errors, from results in float64, in float32 on the host, and three in float32 on a device."""
    here = there = 0.0
    bitwise = agreeing = True
    for exact, single, repeats in cases:
        wanted, first = arrays(exact), arrays(repeats[0])
        agreeing &= agree(first, wanted)
        here, there = max(here, error(arrays(single), wanted)), max(there, error(first, wanted))
        for again in repeats[1:]:
            bitwise &= all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, arrays(again), strict=True))
    holds = agreeing and there <= TIMES_CPU * max(here, 2.0**-24)  # an op without rounding may round once there
    return {"name": name, "error": there, "numpy_float32": here, "holds": holds, "bitwise": bitwise}


def by_spec(on: On, cases: int = CASES) -> list[dict[str, Any]]:
    """One such row for each op that has a spec, of its results and gradients in cases with sizes of 20 to 70."""
    rows = []
    for spec in tqdm([spec for spec in SPECS.values() if spec.function in COUNTED], desc="by spec", unit="op"):
        here, there = Subject(ops, spec), Subject(on.of(ops), spec)
        found = []
        for seed in range(cases):
            case = spec.case(CaseDrawer.seeded(seed, ((3,),), wide=True))
            double, single = ({name: cast(x, t) for name, x in case.items()} for t in (np.float64, np.float32))
            found.append((_both(here, double), _both(here, single), [_both(there, single) for _ in range(3)]))
        rows.append(row(spec.function, found))
    return rows


def _both(op: Subject, case: dict[str, Any]) -> Any:
    gradients = op.gradients(case, *upstream(op.spec, case)) if op.spec.wrt else {}
    return *op.outputs(**case), gradients


# --- (1), (4), (5), (6) ----------------------------------------------------------------------------------------------


def rules(on: On) -> list[dict[str, Any]]:
    found = [(rule, outcome(rule, on.xp)) for rule in RULES]
    return [
        {"says": rule.says, "expected": rule.outcome, "found": got, "holds": got == rule.outcome} for rule, got in found
    ]


def default_world(device: str, epochs: int) -> dict[str, Any]:
    """The same training here and on the host, from the same weights with the same masks."""
    world = SeriesWorld()
    split = leave_one_out(world.generate())
    found: dict[str, Any] = {"epochs": epochs, "seed": 0}
    for name in ("cpu", device):
        began = time.monotonic()
        model = SASRec(epochs=epochs, device=name).fit(split)
        seconds = round(time.monotonic() - began, 1)
        metrics = full_ranking(model, split, "test", truth=world.next_item)
        found["host" if name == "cpu" else "there"] = {"seconds": seconds, "metrics": metrics}
    here, there = found["host"]["metrics"]["ndcg@10"], found["there"]["metrics"]["ndcg@10"]
    return found | {"holds": abs(there - here) <= 0.01}


def models(device: str) -> list[dict[str, Any]]:
    """Every model that is trained, small, for two epochs: do its losses there agree with the host's?"""
    rows = []
    for name in tqdm(small.TRAINED, desc="models", unit="model"):
        here, there = (
            small.make(name, device=d).fit(small.DATA[MODELS[name].table], progress=False).history
            for d in ("cpu", device)
        )
        off = max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(there, here, strict=True))
        rows.append({"name": name, "loss_differs_by": off, "holds": off <= LOSS_RTOL})
    return rows


def clock(on: On) -> Callable[[Callable[[], Any]], dict[str, float]]:
    """-> what a call costs: the median of 20 by events, so that only the device counts; on the double, its calls."""
    if on.device == "gpu":
        from cupyx.profiler import benchmark

        return lambda f: {"seconds": float(np.median(benchmark(f, n_repeat=20, n_warmup=5).gpu_times))}

    def calls(f: Callable[[], Any]) -> dict[str, float]:
        before = COUNTS["calls"]
        f()
        return {"calls": COUNTS["calls"] - before}

    return calls


def work(users: int, width: int) -> tuple[SASRecNetwork, Batch]:
    """SASRec for ml-1m's items, and a batch of so many users."""
    rng = np.random.default_rng(0)
    data = Interactions.from_sequences([rng.permutation(3416)[: rng.integers(20, 202)] for _ in range(users)])
    return SASRecNetwork(n_items=3416, maxlen=200, dim=width), Sampler(data, 200, users, 0, True).batch(0)


def training_step(on: On, users: int, width: int) -> Callable[[], Any]:
    """A whole step of it with BCE, the batch already there."""
    network, batch = work(users, width)
    vector, p = flatten(network.init(generator(0, Stream.INIT)), np.float32, on.xp)
    batch = batch.to(on.xp)
    moments = Moments(on.xp.zeros_like(vector), on.xp.zeros_like(vector))

    def step() -> None:
        _, cache = network.loss(p, batch, _key())
        pieces = [g.reshape(-1) for _, g in leaves(network.loss_backward(p, 1.0, cache))]
        adam(vector, on.xp.concatenate(pieces), moments, 1)

    return step


def times(on: On) -> list[dict[str, Any]]:
    measure = clock(on)
    rows = []
    for name, (f, args) in tqdm(subjects().items(), desc="times", unit="op"):
        there = [on.there(cast(a, np.float32)) for a in args]
        rows.append({"name": name, **measure(lambda f=f, there=there: f(*there))})
    steps = list(STEPS.items())[: None if on.device == "gpu" else 1]  # a step of any size makes as many calls
    return [*rows, *({"name": name, **measure(training_step(on, *size))} for name, size in steps)]


def torch_times() -> list[dict[str, Any]] | None:
    """PyTorch on the same device and sizes: float32 with TF32 off, and flash attention in bfloat16. None without it."""
    try:
        import torch
        import torch.nn.functional as F
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    from benchmarks.peers.torch_models import FusedAttention, tensors
    from benchmarks.peers.torch_models import SASRec as TorchSASRec

    def measure(f: Callable[[], Any]) -> float:
        found = []
        for i in range(25):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            f()
            end.record()
            torch.cuda.synchronize()
            if i >= 5:
                found.append(begin.elapsed_time(end) / 1e3)
        return statistics.median(found)

    def normal(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    x, W, b, scores = normal(B, N, D), normal(D, D), normal(D), normal(B, N, N)
    q = [normal(B, 2, N, D) for _ in range(3)]
    half = [a.to(torch.bfloat16) for a in q]
    logits, targets = normal(B * N, V // 4), torch.randint(0, V // 4, (B * N,), device="cuda")
    calls: dict[str, Callable[[], Any]] = {
        "linear": lambda: F.linear(x, W, b),
        "gelu": lambda: F.gelu(x),
        "softmax": lambda: F.softmax(scores, -1),
        "layer_norm": lambda: F.layer_norm(x, (D,), b, b),
        "attention, causal": lambda: F.scaled_dot_product_attention(*q, is_causal=True),
        "attention, causal, bfloat16 flash": lambda: F.scaled_dot_product_attention(*half, is_causal=True),
        "cross_entropy": lambda: F.cross_entropy(logits, targets),
    }

    def training_step(users: int, width: int) -> Callable[[], Any]:
        network, batch = work(users, width)
        model = TorchSASRec(network, FusedAttention).cuda()
        fed = [x.cuda() for x in tensors(batch)]
        optimiser = torch.optim.Adam(model.parameters(), **ADAM, fused=True)

        def step() -> None:
            optimiser.zero_grad()
            model(*fed).backward()
            optimiser.step()

        return step

    with torch.no_grad():
        rows = [{"name": name, "seconds": measure(f)} for name, f in calls.items()]
    return [*rows, *({"name": name, "seconds": measure(training_step(*size))} for name, size in STEPS.items())]


def tests() -> dict[str, Any]:
    """How many of the tests that compute on the GPU there are, and which fail."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tests.xml"
        what = ["-k", "gpu", "-n", "logical", "-W", "default", "-q", f"--junitxml={path}"]
        subprocess.run([sys.executable, "-m", "pytest", *what], cwd=ROOT, stdout=subprocess.DEVNULL)
        if not path.exists():
            return {"ran": 0, "failed": ["pytest itself"], "holds": False}
        every = ElementTree.parse(path).iter("testcase")
        cases = [case for case in every if "gpu" in case.get("name", "").partition("[")[2]]
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    ran = sum(case.find("skipped") is None for case in cases)
    return {"ran": ran, "failed": failed, "holds": bool(ran) and not failed}


def torch_version() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.__version__


def versions(device: str, commit: str | None) -> dict[str, Any]:
    found = describe() | ({"commit": commit} if commit else {}) | {"device": "the strict double of CuPy"}
    if device == "gpu":
        import cupy

        found["device"] = backend.device_name(device)
        found["cupy"] = cupy.__version__
        version = cupy.cuda.runtime.runtimeGetVersion()
        found["torch"] = torch_version()
        found["cuda"] = f"{version // 1000}.{version % 1000 // 10}"
    return found


def line(result: dict[str, Any]) -> str:
    """README's sentence, from the results file alone."""
    gpu, double = result.get("gpu"), result.get("strict")
    if gpu:
        m = gpu["machine"]
        what = f"{m['date']}, {m['device']}, CuPy {m['cupy']}, CUDA {m['cuda']}, commit {m['commit']}"
        return f"GPU last verified: {what}: {_part_text(gpu)} (`python benchmarks/gpu.py`)."
    text = "GPU last verified: not yet on a real one."
    if double:
        double_is = "a stand-in that computes with NumPy and refuses what CuPy refuses (the strict double)"
        text += f" On {double_is}, {double['machine']['date']}: {_part_text(double)}"
    return text + " (`python benchmarks/gpu.py --device strict`)."


def _part_text(part: dict[str, Any]) -> str:
    ruled, held, by_spec, trained = (
        f"{sum(row['holds'] for row in part[name])} of {len(part[name])} {what}"
        for name, what in (
            ("rules", "rules of CuPy"),
            ("ops", "parts of SASRec, both ways"),
            ("by_spec", "ops of the checker"),
            ("models", "models to the host's losses"),
        )
    )
    world = part["default_world"]
    tests, tested = part["tests"], ""
    if tests:
        tested = f"{tests['ran'] - len(tests['failed']):,} of {tests['ran']:,} tests, "
    reached = f"NDCG@10 {world['there']['metrics']['ndcg@10']:.4f} after {world['epochs']} epochs"
    return f"{ruled}, {held}, {by_spec}, {trained}, {tested}{reached} (host {world['host']['metrics']['ndcg@10']:.4f})"


def table(result: dict[str, Any]) -> str:
    """docs/gpu.md's times, and how many calls the double counts in each."""
    gpu = result.get("gpu")
    if not gpu:
        return "Nothing has been timed on a GPU yet."
    m, peers = gpu["machine"], {row["name"]: f"{1e6 * row['seconds']:,.0f}" for row in gpu["torch"] or []}
    calls = {row["name"]: row["calls"] for row in result.get("strict", {}).get("times", [])}
    calls |= {name: calls[next(iter(STEPS))] for name in STEPS} if calls else {}
    rows = [
        f"| {row['name']} | {calls.get(row['name'], '')} | {1e6 * row['seconds']:,.0f} | {peers.get(row['name'], '')} |"
        for row in gpu["times"]
        if row["name"] in peers or not peers
    ]
    of = f"{m['device']}, CuPy {m['cupy']}, CUDA {m['cuda']}, PyTorch {m['torch']}, NumPy {m['numpy']}, {m['date']}"
    world = gpu["default_world"]
    return "\n".join([
        "| | calls | tinyattn, µs | PyTorch, µs |",
        "|---|---|---|---|",
        *rows,
        "",
        f"Float32 without TF32, medians of 20 by events; batches of {B} × {N} × {D} for the ops ({of}). The default "
        f"world took {world['there']['seconds']:.0f} s for {world['epochs']} epochs there, and "
        f"{world['host']['seconds']:.0f} s on that machine's {m['cores']} cores.",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {README: line(result), ROOT / "docs" / "gpu.md": table(result)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "strict"), default="gpu")
    parser.add_argument("--epochs", type=int, help="of the default world (default: 100, on the double 10)")
    parser.add_argument("--commit", help="which commit this is, where the files came without their history")
    parser.add_argument("--replace", action="store_true", help="replace the results of another GPU")
    options = parser.parse_args()
    if options.epochs is not None and options.epochs < 1:
        parser.error(f"--epochs is {options.epochs}, expected at least 1")
    if options.commit is not None and not re.fullmatch("[0-9a-f]{7,40}", options.commit):
        parser.error(f"--commit is {options.commit!r}, expected 7 to 40 hexadecimal digits")
    try:
        on = On(options.device)
    except ValueError as missing:
        print(f"gpu.py: {missing}", file=sys.stderr)
        return 2
    began, is_real = time.monotonic(), options.device == "gpu"
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    part: dict[str, Any] = {"machine": versions(options.device, options.commit)}
    known = result[options.device]["machine"]["device"] if options.device in result else part["machine"]["device"]
    if known != part["machine"]["device"] and not options.replace:
        parser.error(f"{RESULT} has what was measured on {known}; --replace puts {part['machine']['device']} there")
    parts: dict[str, Callable[[], Any]] = {
        "rules": lambda: rules(on),
        "ops": lambda: compare(on),
        "by_spec": lambda: by_spec(on),
        "models": lambda: models(options.device),
        "default_world": lambda: default_world(options.device, options.epochs or (100 if is_real else 10)),
        "times": lambda: times(on),
        "torch": lambda: torch_times() if is_real else None,
        "tests": lambda: tests() if is_real else None,
    }
    for name, measure in parts.items():
        part[name] = measure()
        write_result(RESULT, result | {f"{options.device}, unfinished": part})  # a GPU may be there for minutes only
    part["seconds"] = round(time.monotonic() - began, 1)
    result[options.device] = part
    result.pop(f"{options.device}, unfinished", None)
    write_result(RESULT, result)
    write_pages(__file__, pages())
    report(part)
    everything = [*part["rules"], *part["ops"], *part["by_spec"], *part["models"], part["default_world"]]
    everything += [part["tests"]] if part["tests"] else []
    return 0 if all(row["holds"] for row in everything) else 1


def report(part: dict[str, Any]) -> None:
    for row in part["rules"]:
        if not row["holds"]:
            print(f"RULE  {row['says']}: {row['found']}, expected {row['expected']}")
    print(f"{'':36} {'error':>9} {'NumPy f32':>9}  three repeats")
    for row in [*part["ops"], *part["by_spec"]]:
        same = "the same bits" if row["bitwise"] else "to rounding"
        held = "" if row["holds"] else "   TOO LARGE"
        print(f"{row['name']:36} {row['error']:9.1e} {row['numpy_float32']:9.1e}  {same}{held}")
    for row in part["models"]:
        print(f"{row['name']:36} loss off by {row['loss_differs_by']:.1e}{'' if row['holds'] else '   TOO MUCH'}")
    torch = {row["name"]: row["seconds"] for row in part["torch"] or []}
    for row in part["times"]:
        beside = f"   torch {1e6 * torch[row['name']]:9.1f}" if row["name"] in torch else ""
        cost = f"{1e6 * row['seconds']:9.1f} us" if "seconds" in row else f"{row['calls']:6} calls"
        print(f"{row['name']:44} {cost}{beside}")
    for name in torch.keys() - {row["name"] for row in part["times"]}:
        print(f"{name:44} torch {1e6 * torch[name]:9.1f} us")
    print(f"tests: {part['tests']}")
    print(f"default world: {part['default_world']}")
    print(f"{part['seconds']} s")


if __name__ == "__main__":
    sys.exit(main())
