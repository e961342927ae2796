"""Do recorded steps and kernels agree with steps computed call by call on this GPU? What do they cost beside PyTorch?

    python benchmarks/gpu_steps.py                     on a CUDA device, with CuPy, numba-cuda and PyTorch
    python benchmarks/gpu_steps.py --device strict     on the double: that the script works, before a card is at hand

proof: steps of SASRec in each form, three times each: are parameters and losses those of steps computed call by call
without kernels, and the same to the bit when repeated? kernels: are a kernel's numbers those of the readable form, the
same bits three times, the same when launched from a record whose inputs have changed? Is there float64 in its float32
code? What does it cost? times: seconds and memory of each form that agrees, and of eager PyTorch, for training steps of
SASRec (three sizes) and of a decoder, and for the ten best items of all users; compiled: the same beside torch.compile
(gpu_times.py says how). attention: with weights kept, and without. Proofs are float32 without TF32, times have both. On
the double it counts calls, and says what it skips.

All takes about eight minutes (--budget), the most important first. An address that no array has ends CUDA for its
process, so processes compute the rows of a part, and hand each over as it comes: where one ends or says nothing for
LIMIT seconds, the row that it was at is named, and another process does the rest. The file is whole after each row.
`--only times` does one part again, and keeps the others.

What the simulator of kernels hides, and where it would show:

    threads that race, a wait that some skip     three repeats, a time limit for each row; by hand,
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

Writes benchmarks/results/gpu_steps_CARD.json and its page (gpu_page.py), for each card. Where a form holds there, a
person adds the card to `PROVEN` of `training/recording.py` or `fast/kernels.py` (all kernels, too); a test compares the
two. Exit code 1 where a form or a kernel does not.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks import gpu_page
from benchmarks.gpu import versions
from benchmarks.gpu_times import (
    FORMS,
    LENGTHS,
    PRODUCTS,
    SMALLEST,
    WORKS,
    attention_times,
    cost,
    sasrec,
    stepping,
    times,
    trusted,
    verdicts,
)
from benchmarks.machine import RESULTS, ROOT, write_pages, write_result
from tests.devices import On, tree
from tinyattn import backend
from tinyattn.fast import kernels, tiles
from tinyattn.forms import readable
from tinyattn.layers.dropout_mask import add_dropped, dropped_backward
from tinyattn.layers.feed_forward import feed_forward, feed_forward_backward
from tinyattn.layers.mechanisms import Full
from tinyattn.layers.norm import norm, norm_backward
from tinyattn.layers.rows import table_gradient
from tinyattn.models.cross_entropy import smoothed_loss, smoothed_loss_backward
from tinyattn.models.objectives import bce, bce_backward, gbce, gbce_backward
from tinyattn.ops import Mask
from tinyattn.random import MaskKeys
from tinyattn.training import Moments, adam, recording

REPEATS = 3
WIDTHS = {"gpu": ((64, 50, 50, 3416), (7, 33, 257, 100_003)), "strict": ((3, 2, 3, 7),)}  # users, length, width, items
WRONG = {"f": 2e-5, "d": 1e-12}  # allowed of the largest number: sums have another order
LIMIT = 100  # seconds until a process's next row; twice that where PyTorch may compile
ROW = "row "  # begins a line of JSON
MOST_OFF = 1e-4  # of the largest parameter, or loss, after 12 steps of Adam, which turns rounding into steps


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
PARTS = {  # the most important first: with 15 minutes of a card the last may be missing
    "proof": list(FORMS), "kernels": KERNELS, "times": [*WORKS, PRODUCTS], "compiled": list(WORKS),
    "attention": [*map(str, LENGTHS)],
}  # fmt: skip


def apart(x: np.ndarray, expected: np.ndarray, least: float = 0) -> float:
    """The largest difference, in units of the largest number or of `least`; 1e9 where it is not finite."""
    off = np.max(np.abs(x - expected)) / max(np.max(np.abs(expected)), least)
    return float(np.nan_to_num(off, nan=1e9, posinf=1e9))  # a maximum with NaN may be the other number


def kernel(device: str, name: str) -> dict[str, Any]:
    """Of one kernel the largest error, whether repeats and a record agree, and seconds beside the readable form's."""
    xp = backend.module_for(device)
    row: dict[str, Any] = {"item": name, "off": 0.0, "bitwise": True, "recorded": "", "error": ""}
    with trusted(device, "recorded, with kernels"):
        for size in WIDTHS[device]:
            for dtype in "fd" if name != "adam" else "f":
                compute = parts(xp, size, dtype)[name][1]
                mine, *others = (arrays(compute()) for _ in range(REPEATS))
                with readable():
                    expected = arrays(compute())
                for i, (a, e) in enumerate(zip(mine, expected, strict=True)):
                    row["off"] = max(row["off"], apart(a, e, 1) / WRONG[dtype])
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


def proof(device: str, form: str, size: tuple[int, int, int], steps: int) -> dict[str, Any]:
    """How far the numbers of steps in this form are from the first form's; have three repeats the same bits?"""
    row: dict[str, Any] = {"item": form, "off": 0.0, "bitwise": True, "refused": ""}
    recorded, records, made, runs = FORMS[form][0], 0, sasrec(*size), []
    for each in dict.fromkeys(("call by call", form)):
        for _ in range(REPEATS if each == form else 1):
            with trusted(device, each), ExitStack() as pools:
                learner, step = stepping(device, made, pools)
                seen = [step(i) for i in range(steps)]
                runs.append([backend.to_numpy(learner.vector), np.array([backend.to_numpy(x) for x in seen])])
            if learner.launcher is not None:
                row["refused"], records = learner.launcher.refused, len(learner.launcher.records)
    expected, again = runs[0], runs[-REPEATS:]
    row["off"] = max(apart(x, e) for x, e in zip(again[0], expected, strict=True))
    row["bitwise"] = all(np.array_equal(x, y) for other in again[1:] for x, y in zip(again[0], other, strict=True))
    row["holds"] = bool(row["off"] <= MOST_OFF and not row["refused"] and (records > 0) == recorded)
    return row


def failed(part: str, item: str, why: str) -> dict[str, Any]:
    """The row of an item whose process ended without one."""
    last = (why.strip().splitlines() or ["without a word"])[-1]
    none = {} if part not in ("proof", "kernels") else {"off": 1e9, "bitwise": False, "holds": False}
    return {"item": item, "error": last, "recorded": "", "refused": "", **none}


def row_of(device: str, part: str, item: str, forms: list[str]) -> dict[str, Any]:
    if part == "proof":
        return proof(device, item, *((WORKS[SMALLEST].size, 12) if device == "gpu" else ((4, 8, 6), 5)))
    if part == "attention":
        return attention_times(device, int(item))
    return kernel(device, item) if part == "kernels" else times(device, item, forms, part == "compiled")


def rows_of(device: str, part: str, items: list[str], forms: list[str], seconds: float) -> Iterator[dict[str, Any]]:
    """The items' rows as they come. On a card a process computes them; where it ends, another one does the rest."""
    ends, left, limit = time.monotonic() + seconds, [*items], LIMIT if part in ("proof", "kernels") else 2 * LIMIT
    while left and time.monotonic() < ends:
        ended = ""
        if device == "gpu":
            with (
                tempfile.TemporaryFile("w+") as errors,
                subprocess.Popen(
                    command(part, left, forms), stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
                ) as process,
            ):
                watch = Watch(process, min(limit, ends - time.monotonic()))
                assert process.stdout is not None
                for line in process.stdout:
                    watch.wait(min(limit, ends - time.monotonic()))
                    if line.startswith(ROW):
                        left = left[1:]
                        yield json.loads(line.removeprefix(ROW))
                watch.stop()
                if process.wait() != 0:
                    errors.seek(0)
                    ended = f"no answer in {limit} seconds: threads that wait?" if watch.rang else errors.read() or "?"
                elif left:
                    ended = "it ended without a row"
        else:
            try:
                yield row_of(device, part, left[0], forms)
                left = left[1:]
            except Exception as error:  # whatever it is, the others go on
                ended = f"{type(error).__name__}: {error}"
        if ended and left and time.monotonic() < ends:
            yield failed(part, left[0], ended)
            left = left[1:]


def command(part: str, items: list[str], forms: list[str]) -> list[str]:
    return [sys.executable, __file__, "--process", json.dumps([part, items, forms])]


class Watch:
    """Ends a process that prints nothing for so many seconds."""

    def __init__(self, process: Any, seconds: float) -> None:
        self.process, self.rang, self._timer = process, False, threading.Timer(0, print)
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        self.stop()
        self._timer = threading.Timer(max(1, seconds), self._ring)
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()

    def _ring(self) -> None:
        self.rang = True
        self.process.kill()


def shown(part: str, row: dict[str, Any]) -> str:
    """A row as text."""
    name = row["item"]
    if row.get("error"):
        return f"{name:32} DOES NOT HOLD {row['error']}"
    if part in ("proof", "kernels"):
        of = " of what is allowed" if part == "kernels" else ""
        same = "same bits" if row["bitwise"] else "OTHER BITS" if part == "kernels" else "to rounding"
        why = row.get("refused") or row.get("recorded") or ""
        return f"{name:32} off {row['off']:.2g}{of}  {same}  {'holds' if row['holds'] else 'DOES NOT HOLD ' + why}"
    if "off" in row:
        return "\n".join(f"{name:32} {way:32} off {a:.1e}, TF32 {b:.1e}" for way, (a, b) in row["off"].items())
    lines = [f"{name:32} {way:32} {1e6 * s:12,.0f} us {row['bytes'][way] >> 20:7,} MB"
             for way, s in row.get("seconds", {}).items() if way in row["bytes"]]  # fmt: skip
    lines += [f"{name:32} {way:32} {calls} calls" for way, calls in row.get("calls", {}).items()]
    return "\n".join([*lines, *(f"{name:32} {way:32} FAILED {why}" for way, why in row["errors"].items())])


def pages() -> dict[Path, str]:
    """A page for each card that was tried."""
    return {p.with_suffix(".md"): gpu_page.text(json.loads(p.read_text())) for p in RESULTS.glob("gpu_steps_*.json")}


def holds(result: dict[str, Any]) -> bool:
    return all(row["holds"] for part in ("proof", "kernels") for row in result.get(part, []))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("gpu", "strict"), default="gpu")
    parser.add_argument("--only", choices=PARTS, help="this part; the others of the card's file stay")
    parser.add_argument("--budget", type=float, default=480, metavar="SECONDS", help="of all parts (default: 480)")
    parser.add_argument("--kernel", choices=KERNELS, help="this one alone, as a line of JSON")
    parser.add_argument("--process", help=argparse.SUPPRESS)  # a part, its items and forms: a row of JSON for each
    parser.add_argument("--commit", help="which commit this is, where the files came without their history")
    options = parser.parse_args()
    try:
        On(options.device)
    except ValueError as refused:
        print(f"gpu_steps.py: {refused}", file=sys.stderr)
        return 2
    if options.kernel:
        print(json.dumps(kernel(options.device, options.kernel)))
        return 0
    if options.process:
        part, items, forms = json.loads(options.process)
        for item in items:
            print(ROW + json.dumps(row_of(options.device, part, item, forms)), flush=True)
        return 0
    is_real, ends = options.device == "gpu", time.monotonic() + options.budget
    slug = re.sub(r"[^a-z0-9]+", "_", backend.device_name(options.device).lower()).strip("_")
    path = RESULTS / f"gpu_steps_{slug}.json"
    kept = json.loads(path.read_text()) if options.only and path.exists() else {}
    result: dict[str, Any] = {part: [] for part in PARTS} | kept
    result["machine"] = versions(options.device, options.commit)
    for part, every in PARTS.items():
        if part != (options.only or part):
            continue
        if not is_real and part in ("kernels", "compiled", "attention"):
            why = "which has no PyTorch" if part == "compiled" else "where tests have numba's simulator"
            print(f"{part}: not on the double, {why}")
            continue
        forms = [row["item"] for row in result["proof"] if row["holds"]] or ["call by call"]
        items = [item for item in every if is_real or part != "proof" or not FORMS[item][1]]
        result[part] = rows = []
        for row in rows_of(options.device, part, items, forms, ends - time.monotonic()):
            rows.append(row)
            print(shown(part, row), flush=True)
            if is_real:  # a card may be there for minutes only: the file is whole after each row
                write_result(path, result | {"verdicts": verdicts([*result["times"], *result["compiled"]])})
        if missing := [item for item in items if item not in {row["item"] for row in rows}]:
            print(f"{part}: no time for {', '.join(missing)}; --only {part} --budget SECONDS goes on")
    if is_real:
        write_pages(__file__, pages())
    for row in verdicts([*result["times"], *result["compiled"]]):
        print(" | ".join(f"{name} {value}" for name, value in row.items()))
    return 0 if holds(result) else 1


if __name__ == "__main__":
    sys.exit(main())
