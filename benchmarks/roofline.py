"""How fast could this machine be, how fast is a training step, and on what does the step spend its time?

    python benchmarks/roofline.py [--data DIR] [--rounds 9]

The roof is the speed of matrix products of a step's shapes, of copies in cache and in memory, and of elementwise
arithmetic, on one core and on two at once. The profile is the time of each op in one step of configuration A of
benchmarks/training_step.py on one core, from the self times of the functions in tinyattn/ops. DIR is the folder that
benchmarks/training_step.py reads. Writes benchmarks/results/roofline.json, which keeps the results of other makes of
CPU, roofline.md, and figures/profile.svg.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import Child, tell
from benchmarks.machine import (
    RESULTS,
    ROOT,
    SPEED,
    by_make,
    describe,
    made_on,
    makes_in,
    newest,
    others,
    write_make,
    write_pages,
    write_pictures,
)
from benchmarks.training_step import CONFIGURATIONS, folder_of, given
from tinyattn.models import SASRecNetwork
from tinyattn.ops.attention.fused_attention import TILE
from tinyattn.show.style import BLUE, GREY, ORANGE, figure, in_style

RESULT, PAGE, PICTURE = RESULTS / "roofline.json", RESULTS / "roofline.md", ROOT / "figures" / "profile.svg"
CONFIGURATION = "A"

ROOF = {  # name in the results: (what is computed, its unit: 10⁹ of it a second)
    "linear 50": ("1,600 × 50 times 50 × 50: a linear map of a slice, A and B", "GFLOP/s"),
    "linear 128": ("1,600 × 128 times 128 × 128: the same, C", "GFLOP/s"),
    "tile 50": ("8 × (64 × 50 times 50 × 128): tiles of attention scores, A and B", "GFLOP/s"),
    "tile 32": ("8 × (64 × 32 times 32 × 128): the same, a head of C", "GFLOP/s"),
    "peak": ("1,024 × 1,024 times 1,024 × 1,024: one large product", "GFLOP/s"),
    "copy in cache": ("copying 300 kB, read and written", "GB/s"),
    "copy in memory": ("copying 80 MB, read and written", "GB/s"),
    "add": ("x + y, 1,600 × 50", "10⁹ entries/s"),
    "times a row": ("x ⊙ γ, 1,600 × 50 times a row of 50", "10⁹ entries/s"),
    "exp": ("exp(x), 1,600 × 50", "10⁹ entries/s"),
}
LINEAR, SCORES, EXP = "linear maps and what they took in of norms", "attention: products and the rest", "attention: exp"
GROUPS = {  # file, or function: the group of its time. Older results have older names
    "ops.linear": LINEAR,
    "ops.norm_linear": LINEAR,
    "ops.attention.fused_attention._exponentials": EXP,
    "ops.attention.fused_attention": SCORES,
    "ops.attention": SCORES,
    "ops.softmax": EXP,
    "ops.layer_norm": "norms: centred and scaled",
    "ops.activations": "ReLU",
    "random": "dropout: masks",
    "ops.random": "dropout: masks",
    "ops.dropout": "dropout: products",
    "ops.embedding": "embeddings, sums of their gradients",
    "ops.losses": "objective",
    "ops.sigmoid": "objective",
    "models.objectives": "objective",
    "ops.masks": "causal masks",
    "ops.shapes": "checks of shapes",
    "data.batches": "slices: sorted and cut",
    "training.plan": "slices: sorted and cut",
    "tree": "gradients of slices added up",
    "layers.tree": "gradients of slices added up",
    "training.adam": "Adam",
}
REST = "between ops: residuals, heads, zeros"
GROUPS["step"] = REST


def group(function: str) -> str:
    """The group in which the time of a function is counted; a file that is not in GROUPS is a group of its own."""
    name = function
    while name and name not in GROUPS:
        name = name.rpartition(".")[0]  # try a method's class, then its file
    return GROUPS[name] if name else function.split(".")[-2]


def flops(network: SASRecNetwork, shapes: list[tuple[int, int]]) -> dict[str, float]:
    """FLOPs of the matrix products of a step, 2 for each multiply-add; `shapes` holds (rows, positions) of each slice.

    A linear map of N tokens from d to d takes 2 N d² FLOPs. Its backward has two products of that size, for x and
    for W. A block has five linear maps: queries, keys, values, and two in the feed-forward network.

    A tile of 64 queries reads every key up to its last query. So a sequence of n positions has P pairs of query and
    key, a little over n² / 2. A product over the pairs takes 2 P d FLOPs, all heads together. There are two in the
    forward, q kᵀ and weights v, and four in the backward: the gradients of weights, q, k and v.
    """
    d = network.dim
    linear = sum(3 * 5 * 2 * rows * n * d**2 for rows, n in shapes)
    pairs = sum(rows * (min(first + TILE, n) - first) * min(first + TILE, n)
                for rows, n in shapes for first in range(0, n, TILE))  # fmt: skip
    return {
        LINEAR: network.blocks * linear,
        SCORES: network.blocks * 6 * 2 * pairs * d,
        "pairs": network.blocks * network.heads * pairs,
    }


def measure(rounds: int, data: Path | None) -> dict[str, Any]:
    configuration = CONFIGURATIONS[CONFIGURATION]
    network, weights, batches = given(configuration, data)
    with folder_of(network, weights, batches) as folder, Child("tinyattn", folder, "profiling") as child:
        child.ask("prepare")
        found = []
        for number in range(rounds):
            found.append(child.ask("run"))
            tell(f"round {number + 1}: a step {1e3 * found[-1]['step']:.1f} ms")
        finished = child.ask("finish")

    def median(*path: str) -> Any:
        values = found
        for key in path:
            values = [value[key] for value in values]
        if isinstance(values[0], dict):
            return {key: median(*path, key) for key in values[0]}
        return float(np.median(values))

    shapes = finished["shapes"]
    kept = ("one", "both", "step", "slowed", "own", "calls", "a slice of one token")
    return {key: median(key) for key in kept} | {
        "title": configuration.title,
        "tokens": float(np.sum(batches[0].weight)),
        "shapes": shapes,
        "flops": flops(network, shapes),
        "dim": network.dim,
        "pools": finished["pools"],
        "machine": describe(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
        "options": {"rounds": rounds, "lengths": "drawn" if data is None else "real"},
    }


def groups(result: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """{group: (ms, calls)} of a step, the longest first; the time between ops comes last."""
    found: dict[str, tuple[float, float]] = {}
    for name, seconds in result["own"].items():
        ms, calls = found.get(group(name), (0.0, 0.0))
        found[group(name)] = ms + 1e3 * seconds, calls + result["calls"][name]
    ms, _ = found.pop(REST)
    return dict(sorted(found.items(), key=lambda pair: -pair[1][0])) | {REST: (ms, 0)}


def floors(result: dict[str, Any]) -> dict[str, float]:
    """{group: ms of its products, or of exp, at the speed that was measured for such shapes on one core}."""
    one, work = result["one"], result["flops"]
    return {
        LINEAR: 1e3 * work[LINEAR] / one[f"linear {result['dim']}"],
        SCORES: 1e3 * work[SCORES] / one[f"tile {result['dim']}"],
        EXP: 1e3 * work["pairs"] / one["exp"],
    }


def tables(result: dict[str, Any]) -> str:
    """The roof and the profile; docs/speed.md quotes them."""
    one, both, step = result["one"], result["both"], 1e3 * result["step"]
    floor, work, slices = floors(result), result["flops"], result["shapes"]
    products = floor[LINEAR] + floor[SCORES]
    linear, tile = f"linear {result['dim']}", f"tile {result['dim']}"
    lines = ["### What the machine can do", "", f"{made_on(result['machine'])}:", ""]
    lines += ["| | unit | one core | two at once |", "|---|---|---|---|"]
    for name, (what, unit) in ROOF.items():
        lines.append(f"| {what} | {unit} | {_digits(one[name] / 1e9)} | {_digits(both[name] / 1e9)} |")
    lines += ["", "### A training step on one core", ""]
    lines += [
        f"{CONFIGURATION}: {result['title']}. One batch, {result['tokens']:,.0f} tokens in {len(slices)} slices: "
        f"{step:.1f} ms, forward, backward and Adam. For the table a clock times each op; the clock's measured cost "
        "is subtracted, so the sum differs a little. *Floor* is what products, or exp, take alone at the speeds above.",
        "",
        "![Where the time goes](../figures/profile.svg)",
        "",
        "| | ms | of the step | calls | floor, ms |",
        "|---|---|---|---|---|",
    ]
    found = groups(result)
    total = sum(ms for ms, _ in found.values())
    for name, (ms, calls) in found.items():
        least = f"{floor[name]:.1f}" if name in floor else ""
        lines.append(
            f"| {name} | {ms:.1f} | {100 * ms / total:.0f} % | {calls:.0f} | {least} |".replace("| 0 |", "| |")
        )
    lines += [
        f"| **all** | **{total:.1f}** | 100 % | {sum(calls for _, calls in found.values()):.0f} | |",
        "",
        f"- The step's matrix products are {(work[LINEAR] + work[SCORES]) / 1e9:.2f} GFLOP: "
        f"{work[LINEAR] / 1e9:.2f} in linear maps, {work[SCORES] / 1e9:.2f} in attention. Alone, at the speed of such "
        f"shapes above, they would take {products:.1f} ms, {100 * products / step:.0f} % of the step.",
        f"- At the speed of the large product they would take "
        f"{1e3 * (work[LINEAR] + work[SCORES]) / one['peak']:.1f} ms: linear maps of {result['dim']} columns reach "
        f"{100 * one[linear] / one['peak']:.0f} % of it, tiles of scores {100 * one[tile] / one['peak']:.0f} %.",
        f"- Calls, and what else does not grow with the tokens: a slice of one token takes "
        f"{1e3 * result['a slice of one token']:.2f} ms, {1e3 * result['a slice of one token'] * len(slices):.1f} ms "
        f"for {len(slices)} of them. It is spread over all lines of the table.",
    ]
    return "\n".join(lines)


def page(result: dict[str, Any]) -> str:
    """The Markdown page, made from the results file alone."""
    machine, step = result["machine"], 1e3 * result["step"]
    total = sum(ms for ms, _ in groups(result).values())
    quoted = tables(result).replace("### ", "## ").replace("(../figures", "(../../figures")
    lines = [
        "# The roof, and where a step's time goes",
        "",
        quoted,
        "",
        "## How",
        "",
        HOW.format(slowed=1e3 * result["slowed"], bare=step, total=total).strip(),
        "",
        f"{result['options']['rounds']} rounds, lengths {result['options']['lengths']}. {machine['cores']} cores of "
        f"{machine['cpu']}, Python {machine['python']}, NumPy {machine['numpy']}, "
        + ", ".join(" ".join(str(v) for v in pool.values() if v is not None) for pool in result["pools"])
        + f" thread, commit {machine['commit']}, {machine['date']}; OPENBLAS_CORETYPE was "
        f"{result['OPENBLAS_CORETYPE'] or 'not set'} and is not set for the process that measures.",
        "",
        "Made by `python benchmarks/roofline.py`.",
        "",
    ]
    return "\n".join(lines)


def _digits(x: float) -> str:
    """x to three digits."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


HOW = """
Everything is measured by one process, in rounds of roof and profile one after the other; figures are medians over
rounds. Rates are for float32, into existing arrays, with BLAS at one thread; "two at once" is the sum of
two processes that do the same at the same time. A copy counts what is read and what is written.

For the profile all public functions of tinyattn/ops, and a few of other packages, are timed by a clock. A function's
own time is what it took, less what timed functions that it called took; helpers such as `row_sum` are counted with
whoever called them. With the clock the step takes {slowed:.1f} ms instead of {bare:.1f}; what the clock costs is
measured on a function that does nothing, and subtracted call by call: {total:.1f} ms are left. "Between ops" is all the
rest of the step. A floor is what the matrix products (or exp) of these lines take by themselves, at the rates above.
"""


@in_style
def draw_profile(result: dict[str, Any]) -> Any:
    """Draw a bar for each group, with a thinner bar for its floor where it has one -> matplotlib figure."""
    found, floor, step = groups(result), floors(result), 1e3 * result["step"]
    total = sum(ms for ms, _ in found.values())
    names = list(found)[::-1]
    made, ax = figure(size=(7.0, 0.27 * len(names) + 1.1))
    ms = [found[name][0] for name in names]
    ax.barh(names, ms, color=[GREY if name == REST else BLUE for name in names], height=0.72)
    least = [floor.get(name, 0.0) for name in names]
    bars = ax.barh(names, least, color=ORANGE, height=0.3)
    bars.set_label("products or exp alone")
    for y, value in enumerate(ms):
        ax.text(value + 0.008 * max(ms), y, f"{value:.1f} ms, {100 * value / total:.0f} %", va="center", fontsize=8)
    ax.set(
        xlim=(0, 1.27 * max(ms)),
        xlabel="ms of a step on one core",
        title=f"Configuration {CONFIGURATION}: {step:.0f} ms for {result['tokens']:,.0f} tokens",
    )
    ax.tick_params(axis="y", length=0)
    ax.legend(loc="center right", fontsize=9)  # the bars are short there
    return made


def pages() -> dict[Path, str]:
    makes = makes_in(RESULT)
    return {PAGE: by_make(makes, page), SPEED: tables(newest(makes)) + others(makes, PAGE)}


def pictures() -> dict[Path, Any]:
    return {PICTURE: draw_profile(newest(makes_in(RESULT)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of real lengths, as for training_step.py")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    result = measure(args.rounds, args.data)
    RESULTS.mkdir(exist_ok=True)
    write_make(RESULT, result)
    write_pages(__file__, pages())
    write_pictures(pictures())
    print(page(result))


if __name__ == "__main__":
    main()
