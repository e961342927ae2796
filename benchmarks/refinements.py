"""What does refining attention scores cost? A training step with each refinement, compared with a step without.

    python benchmarks/refinements.py [--rounds 11]

Reports time, memory, counted multiply-adds, and the multiply-adds by the formulas of AWRSR. The paper (Liu et al.
2024, section 3.5) says that refining adds n² numbers and n³ multiply-adds, and that attention still dominates the cost.
Histories are either all of length n, or as long as those of Beauty and MovieLens. Writes
benchmarks/results/refinements.json and .md.
"""

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import tell
from benchmarks.counting import counted, counting
from benchmarks.machine import RESULTS, clean_environment, describe, made_on, write_pages, write_result
from benchmarks.peers.ours import TinyAttn
from benchmarks.training_step import BEAUTY, ML_1M, SEED, Configuration, given
from tinyattn.data import Batch
from tinyattn.experiments.awrsr.claims import Verdict
from tinyattn.experiments.awrsr.grid import BACKBONES, FORMS, OF_BACKBONE
from tinyattn.experiments.tables import heading
from tinyattn.models import MODELS
from tinyattn.training import SLICE_TOKENS

RESULT, PAGE = RESULTS / "refinements.json", RESULTS / "refinements.md"
ITEMS, BATCH, FULL_BATCH = 3_416, 128, 32
SHAPES = {  # n, d, heads
    "sasrec": ((20, 128, 1), (50, 64, 1), (100, 64, 1), (200, 64, 1), (100, 64, 4)),
    "stosa": ((50, 64, 4), (100, 64, 4)),
}
OURS = {"sasrec": (50, 64, 1), "stosa": (50, 64, 4)}  # shapes trained by `tinyattn reproduce awrsr`
LENGTHS = {"full": None, "MovieLens 1M": ML_1M, "Beauty": BEAUTY}
CASES = [(backbone, "full", shape) for backbone, shapes in SHAPES.items() for shape in shapes]
CASES += [(backbone, lengths, OURS[backbone]) for backbone in OURS for lengths in ("MovieLens 1M", "Beauty")]
PRINTED = {"simp": 3, "lags": 3, "add": 3, "value": 5, "literal": 5, "stoc": 4}  # products of n x n matrices a head
MEASURED = FORMS | {
    "literal": (" + M_value, as printed", {"refine": "value-literal"}),
    "layer": (" of two blocks", {"blocks": 2}),
}
NEGLIGIBLE = 0.1  # share of a step's time: less is called negligible


def network_of(backbone: str, form: str, shape: tuple[int, int, int]) -> Any:
    n, d, heads = shape
    _, name, options = BACKBONES[backbone]
    kind: Any = MODELS[name]
    settings = {"maxlen": n, "dim": d, "heads": heads, "blocks": 1, "dropout": 0.2} | MEASURED[form][1]
    settings |= {key: options[key] for key in options.keys() & {"block_form"}}
    return kind.Network(n_items=ITEMS, **settings)


def formula(backbone: str, form: str, shape: tuple[int, int, int]) -> float:
    """c h n³ / (s (4 n d² + 2 n² d)): multiply-adds of a refinement, divided by those of the attention it refines.

    c is PRINTED[form] and h the number of heads. The divisor counts projections, scores and averages; s is 2 for
    STOSA, whose attention has two streams, means and covariances, and else 1.
    """
    (n, d, heads), streams = shape, 2 if backbone == "stosa" else 1
    return PRINTED[form] * heads * n**3 / (streams * (4 * n * d * d + 2 * n * n * d))


def products(network: Any, weights: Any, batch: Batch) -> int:
    """Multiply-adds of a step, forward and backward, without dropout."""
    with counting() as counts:
        for part in batch.slices(SLICE_TOKENS):
            _, cache = network.loss(counted(weights), part)
            network.loss_backward(counted(weights), 1.0, cache)
    return counts.products


def peak(trainer: TinyAttn) -> int:
    """The peak of the bytes that a step allocates; parameters, gradients and moments are allocated before it."""
    tracemalloc.start()
    trainer.step(0)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def measure(backbone: str, lengths: str, shape: tuple[int, int, int], rounds: int) -> dict[str, Any]:
    """{form: seconds of each round, peak of bytes, multiply-adds, parameters}. In each round the forms take turns."""
    trainers: dict[str, TinyAttn] = {}
    batch = BATCH if LENGTHS[lengths] else FULL_BATCH
    found: dict[str, Any] = {}
    for form in (*OF_BACKBONE[backbone], "literal", "layer"):
        network, weights, batches = given(
            Configuration("", LENGTHS[lengths], batch, network_of(backbone, form, shape)), None
        )
        trainers[form] = TinyAttn(network, weights, batches, workers=1)
        found[form] = {
            "seconds": [], "peak": 0, "products": products(network, weights, batches[0]),
            "parameters": trainers[form].learner.vector.size,
        }  # fmt: skip
        trainers[form].step(0)  # the first one allocates
    rng = np.random.default_rng(SEED)
    for i in range(rounds):
        for form in rng.permutation(list(trainers)).tolist():
            began = time.perf_counter()
            trainers[form].step(i % len(trainers[form].batches))
            found[form]["seconds"].append(time.perf_counter() - began)
    for form, trainer in trainers.items():
        found[form]["peak"] = peak(trainer)
        trainer.close()
    return found


def slower(forms: dict[str, Any], form: str) -> float:
    """The time of a refined step divided by its backbone's: the median over rounds."""
    pairs = zip(forms[form]["seconds"], forms["none"]["seconds"], strict=True)
    return statistics.median(a / b for a, b in pairs)


def named(case: dict[str, Any], form: str = "") -> str:
    n, d, heads = case["shape"]
    lengths = "" if case["lengths"] == "full" else f", lengths of {case['lengths']}"
    return f"{BACKBONES[case['host']][0]}{form}, n {n}, d {d}, {heads} head{'s' * (heads > 1)}{lengths}"


def table(result: dict[str, Any]) -> list[str]:
    columns = ["ms a step", "time / backbone's", "MB at most", "memory / backbone's", "extra parameters",
               "multiply-adds / backbone's", "by the formula: extra / attention's"]  # fmt: skip
    lines = heading(columns)
    for case in result["cases"]:
        forms, full = case["forms"], case["lengths"] == "full"
        plain = forms["none"]
        for form, one in forms.items():
            title = named(case, MEASURED[form][0])
            cells = [f"{1e3 * statistics.median(one['seconds']):.1f}"]
            if form == "none":
                cells += ["", f"{one['peak'] / 1e6:.1f}", "", "", "", ""]
                title = f"**{title}**"
            else:
                cells += [
                    f"{slower(forms, form):.2f}", f"{one['peak'] / 1e6:.1f}", f"{one['peak'] / plain['peak']:.2f}",
                    f"{one['parameters'] - plain['parameters']:,}", f"{one['products'] / plain['products']:.2f}",
                    f"+ {formula(case['host'], form, case['shape']):.2f}" if form in PRINTED and full else "",
                ]  # fmt: skip
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def verdict(result: dict[str, Any]) -> Verdict:
    """Is the cost negligible? Judged by the time of a step, at every measured size, for the paper's printed forms.

    The causal form of M_value, which the experiment's tables use, is not the paper's: it is reported, not judged.
    """
    groups: dict[str, dict[str, list[float]]] = {}
    for case in result["cases"]:
        (n, d, _), forms = case["shape"], case["forms"]
        group = f"n {n}, d {d}" if n <= max(shape[0] for shape in OURS.values()) else "longer histories"
        found = groups.setdefault(group, {})
        for form in forms.keys() - {"none", "lags"}:
            kind = form if form in ("value", "layer") else "as printed"
            found.setdefault(kind, []).append(slower(forms, form) - 1)
    parts = "; ".join(
        f"{group}: as the paper prints them {_span(found['as printed'])}, M_value's causal form "
        f"{_span(found['value'])}, a second block {_span(found['layer'])}" for group, found in groups.items()
    )  # fmt: skip
    small = {group: max(found["as printed"]) < NEGLIGIBLE for group, found in groups.items()}
    far_below = "n {}, d {}".format(*SHAPES["sasrec"][0])
    word = "replicated" if all(small.values()) else "not replicated"
    if word != "replicated" and small.get(far_below):
        word = "replicated where n is far below d"
    return Verdict(word, f"extra time of a training step: {parts}")


def _span(found: list[float]) -> str:
    return f"{min(found):+.0%} to {max(found):+.0%}" if len(found) > 1 else f"{found[0]:+.0%}"


def page(result: dict[str, Any]) -> str:
    machine = result["machine"]
    return "\n".join([
        "# What a refinement costs",
        "",
        *table(result),
        "",
        f"A training step of {FULL_BATCH} full histories, or of {BATCH} with lengths drawn like those of a data set, "
        f"{ITEMS:,} items, one block, dropout .2, one worker; medians of {result['rounds']} rounds, in which all forms "
        "of a backbone take turns. MB: the most that a step holds beside parameters, gradients and moments. "
        "Multiply-adds are those of the whole step, counted, as a multiple of the backbone's. The formula, for full "
        "histories, is the "
        "refinement's c h n³ over its attention's 4 n d² + 2 n² d (h heads; twice that for STOSA's two streams). c is "
        "3 for M_simp and M_add, 4 for M_stoc, 5 for M_value as printed. That one sees later tokens and makes every "
        "history an n x n matrix; its causal form makes a softmax for every token. Unrefined attention forms no n x n "
        "matrix where it can do without; refined attention has to.",
        "",
        f"{made_on(machine)}. Made by `python benchmarks/refinements.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    args = parser.parse_args(words)
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    if words is None and clean_environment() != dict(os.environ):   # NumPy reads the choice of kernels on import
        os.execve(sys.executable, [sys.executable, *sys.argv], clean_environment())
    cases = []
    for backbone, lengths, shape in CASES:
        case: dict[str, Any] = {"host": backbone, "lengths": lengths, "shape": shape}
        tell(named(case))
        cases.append(case | {"forms": measure(backbone, lengths, shape, args.rounds)})
    result = {"rounds": args.rounds, "cases": cases, "machine": describe()}
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
