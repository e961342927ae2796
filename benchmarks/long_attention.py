"""One attention over a long sequence: time and memory of forward and backward, the library's forms beside torch's.

    python benchmarks/long_attention.py [--rounds 5] [--sizes 512,...,16384] [--contenders full,flash,...] [--quick]

Causal, d 64. Each contender runs in a process of its own for every n, one after the other, in a new order each round;
its results are first compared with float64. All run with one head; flash and torch's flash also with HEADS.

Writes benchmarks/results/long_attention.json (one entry for each CPU model), long_attention.md and
figures/long_attention.svg. --quick takes two rounds of two small sizes, and writes nothing.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import check, in_rounds, refuse, tell
from benchmarks.comparison import exponent
from benchmarks.machine import (
    RESULTS,
    ROOT,
    describe,
    of_model,
    refuse_other_code,
    unlike,
    with_kernels,
    write_pages,
    write_pictures,
    write_result,
)
from benchmarks.peers import THREADS
from benchmarks.peers.long import CONTENDERS, WINDOW, write
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, figure, in_style, label_ends

RESULT, PAGE = RESULTS / "long_attention.json", RESULTS / "long_attention.md"
PICTURE = ROOT / "figures" / "long_attention.svg"
SIZES = (512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768)
D, SEED, CHECKED = 64, 0, 300
HEADS = 4  # in the second comparison, of flash with torch's
UP_TO = {
    "strided": 8_192,
    "full": 16_384,
    "tiles": 16_384,
    "pointwise": 16_384,
    "torch-math": 16_384,
    "torch-window": 16_384,
}  # the largest n of contenders that hold n² numbers (strided: n² / 8)
SQUARED = UP_TO.keys() | {"flash", "torch-flash"}  # strided too: its stride is fixed
FITTED = 3  # largest sizes, which an exponent is fitted to


def measure(names: list[str], heads: int, n: int, rounds: int) -> dict[str, Any]:
    """{contender: seconds of every round, MB without imports, thread pools}."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), heads, n, D)
        found = in_rounds(names, Path(folder), rounds, SEED, "long")
    return {name: {"seconds": row["seconds"], "own": row["own"], "pools": row["pools"]} for name, row in found.items()}


def refuse_others(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), 2, CHECKED, D)
        refuse(check(names, Path(folder), "long"))


def begun(found: dict[str, Any] | None, machine: dict[str, Any]) -> dict[str, Any]:
    """The results to go on from: none, if those that are there are of another commit or another machine."""
    if found and found["machine"]["commit"] == machine["commit"] and not unlike(found["machine"], machine):
        return found
    return {"one": {}, "heads": {}}


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    lines = [
        "# Attention over long sequences",
        "",
        "![Time and memory against n](../../figures/long_attention.svg)",
        "",
    ]
    for cpu, found in result.items():
        lines += [f"## {cpu}", "", *_verdicts(found), "", *_table(found), "", *_heads(found), "", _made(found), ""]
    return "\n".join([*lines, HOW.strip(), ""])


def median_ratio(row: dict[str, Any], one: str, other: str) -> float:
    """The time of `one` / the time of `other`: the median over rounds."""
    return float(np.median(np.array(row[one]["seconds"]) / np.array(row[other]["seconds"])))


def _verdicts(found: dict[str, Any]) -> list[str]:
    """Is flash as fast as torch's from n 2,048 on, in at most 1.2 times its memory? Is a window 20 times as fast?"""
    lines = []
    for what, rows in (("one head", found["one"]), (f"{HEADS} heads", found["heads"])):
        both = {n: row for n, row in rows.items() if {"flash", "torch-flash"} <= row.keys() and int(n) >= 2_048}
        if both:
            speed = [median_ratio(row, "torch-flash", "flash") for row in both.values()]
            memory = [row["flash"]["own"] / max(row["torch-flash"]["own"], 1) for row in both.values()]
            lines.append(
                f"- Flash beside torch's, {what}, n {_sizes(both)}: {_times(speed)} as fast (required: at "
                f"least 1: {_met(min(speed) >= 1)}; goal: 1.5: {_met(min(speed) >= 1.5)}), in {_times(memory)} its "
                f"memory (required: at most 1.2: {_met(max(memory) <= 1.2)})."
            )
    row = found["one"].get("16384", {})
    if {"full", "window"} <= row.keys():
        ratio = median_ratio(row, "full", "window")
        lines.append(
            f"- A window of {WINDOW} at n 16,384 is {ratio:.0f} times as fast as full attention without tiles "
            f"(required: 20: {_met(ratio >= 20)})."
        )
    return lines


def _met(met: bool) -> str:
    return "reached" if met else "**missed**"


def _sizes(rows: dict[str, Any]) -> str:
    sizes = [f"{int(n):,}" for n in rows]
    return f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else sizes[0]


def _times(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f} times" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f} times"


def _table(found: dict[str, Any]) -> list[str]:
    rows = found["one"]
    sizes = " | ".join(f"n {int(n):,}" for n in rows)
    lines = [
        f"| ms, and MB beyond the inputs | {sizes} | time grows with (theory) | memory |",
        "|---|" + "---|" * (len(rows) + 2),
    ]
    for name, (title, _, _) in CONTENDERS.items():
        points = {int(n): row[name] for n, row in rows.items() if name in row}
        if points:
            cells = [_cell(points.get(int(n))) for n in rows]
            seconds = [np.median(point["seconds"]) for point in points.values()]
            own = [max(point["own"], 0.1) for point in points.values()]
            cells.append(f"n^{fitted(points, seconds):.2f} ({2 if name in SQUARED else 1})")
            cells.append(f"n^{fitted(points, own):.2f}")
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def _cell(point: dict[str, Any] | None) -> str:
    return "" if point is None else f"{1e3 * np.median(point['seconds']):,.1f}, {max(point['own'], 0):,.0f}"


def fitted(points: Any, values: list[Any]) -> float:
    return exponent(list(points)[-FITTED:], [float(v) for v in values][-FITTED:])


def _heads(found: dict[str, Any]) -> list[str]:
    rows = found["heads"]
    if not rows:
        return []
    lines = [
        f"With {HEADS} heads, which torch's backward works off side by side:",
        "",
        "| ms, and MB beyond the inputs | " + " | ".join(f"n {int(n):,}" for n in rows) + " |",
        "|---|" + "---|" * len(rows),
    ]
    for name in ("flash", "torch-flash"):
        lines.append(f"| {CONTENDERS[name][0]} | " + " | ".join(_cell(row.get(name)) for row in rows.values()) + " |")
    return lines


def _made(found: dict[str, Any]) -> str:
    machine, options = found["machine"], found["options"]
    torch = f", torch {options['torch']}" if options["torch"] else "; torch: not installed here"
    return (
        f"Forward and backward, causal, float32, d {D}, batch 1. Medians of {options['rounds']} rounds; "
        f"{THREADS} threads. "
        f"{machine['cores']} cores of {machine['cpu']}{of_model(machine)}, Python {machine['python']}, "
        f"NumPy {machine['numpy']}{torch}, "
        f"{machine['system']}, commit {machine['commit']}, {machine['date']}."
    )


HOW = f"""
## How

A contender is a process of its own for every n; they take turns, in a new order each round, and a ratio is the median
of those within a round. What each computes at n {CHECKED} was first compared with float64: a form that equals full
attention under some mask, with full attention under that mask. Memory is the most that a process ever held, less what
it held when it had its inputs. The library leaves threads to BLAS, which has {THREADS}, like torch; the library's
process keeps freed memory (mallopt), as it does in training, where torch has an allocator of its own. The window is of
{WINDOW} keys, other mechanisms have their options' defaults. torch computes a window under a mask that is an array,
which holds n² entries; its flex_attention needs a compiler, and is left out. torch's flash cuts the backward's work by
heads only. A single head of `strided` looks near and far at once: that is its slow form, in which queries share no
blocks. Exponents are those of the {FITTED} largest sizes.

Made by `python benchmarks/long_attention.py`.
"""


LOOKS = {"full": (GREY, "-o"), "flash": (BLUE, "-o"), "torch-flash": (ORANGE, "--s"), "window": (GREEN, "-o"),
         "longformer": (GREEN, ":D"), "linear": (PURPLE, "-.^")}  # fmt: skip


@in_style
def draw(found: dict[str, Any]) -> Any:
    """Time (left) and memory (right) against n, for the forms in LOOKS. -> matplotlib figure."""
    made, axes = figure(1, 2, size=(8.8, 4.2))
    for name, (colour, style) in LOOKS.items():
        points = {int(n): row[name] for n, row in found["one"].items() if name in row}
        if points:
            how = {"color": colour, "label": name, "markersize": 4}
            axes[0].loglog(list(points), [1e3 * np.median(p["seconds"]) for p in points.values()], style, **how)
            axes[1].loglog(list(points), [max(p["own"], 0.5) for p in points.values()], style, **how)
    for ax, what in zip(axes, ("ms, forward and backward", "MB beyond the inputs"), strict=True):
        ax.set_xticks([512, 2_048, 8_192, 32_768], minor=False)
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        ax.set(xlabel="n", title=what)
        label_ends(ax)
    return made


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def pictures() -> dict[Path, Any]:
    return {PICTURE: draw(list(json.loads(RESULT.read_text()).values())[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), metavar="N,N")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), metavar="NAME,NAME")
    parser.add_argument("--quick", action="store_true", help="two rounds of two small sizes; write nothing")
    args = parser.parse_args()
    unknown = set(args.contenders.split(",")) - CONTENDERS.keys()
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(CONTENDERS)}")
    torch = _torch()
    names = [name for name in CONTENDERS if name in args.contenders.split(",") and (torch or "torch" not in name)]
    sizes = [256, 512] if args.quick else [int(n) for n in args.sizes.split(",")]
    rounds = 2 if args.quick else args.rounds
    refuse_others(names)
    result = json.loads(RESULT.read_text()) if RESULT.exists() and not args.quick else {}
    if (len(sizes), len(names)) != (len(SIZES), len(CONTENDERS)):
        refuse_other_code((row["machine"] for row in result.values()), "sizes and contenders")
    for n in sizes:
        tell(f"n {n:,}, one head")
        one = measure([name for name in names if n <= UP_TO.get(name, n)], 1, n, rounds)
        both = [name for name in names if name in ("flash", "torch-flash")] if n <= 8_192 else []
        heads = measure(both, HEADS, n, rounds) if both else {}
        pools = [pool for found in (*one.values(), *heads.values()) for pool in found.pop("pools")]
        kernels = sorted({pool["architecture"] for pool in pools if pool["internal_api"] == "openblas"})
        machine = describe()
        cpu = with_kernels(machine["cpu"], kernels)
        found = result[cpu] = begun(result.pop(cpu, None), machine)  # at the end: the picture is of the newest
        found |= {"machine": machine, "options": {"rounds": rounds, "torch": torch}}
        for what, row in (("one", one), ("heads", heads)):
            if row:
                here = found[what].get(str(n), {}) | row
                found[what] = dict(sorted((found[what] | {str(n): here}).items(), key=lambda point: int(point[0])))
        if not args.quick:  # after every size, so that an interrupted run keeps its results
            write_result(RESULT, result)
    if not args.quick:
        write_pages(__file__, pages())
        write_pictures(pictures())
    print(page(result))


def _torch() -> str | None:
    """torch's version, without importing torch; None if it is not installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
