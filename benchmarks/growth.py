"""How do a training step and its memory grow with n, d, items and batch? And what does an import cost?

    python benchmarks/growth.py [--rounds 5] [--axes n,d,items,batch] [--contenders tinyattn,torch-sdpa] [--quick]

One of the four is varied while the others stay at BASE. Contenders (benchmarks/peers) train on the same batches, each
in a process of its own for every size; all histories have the full length n. An exponent is fitted to time and to
memory; beside them stand the exponents of the multiply-adds and of the numbers kept for the backward, which
benchmarks/counting.py counts in a step of the library. Import time is measured in fresh processes. Installed size
includes the packages that a package requires.

Writes benchmarks/results/growth.json (one entry for each CPU model), growth.md and figures/growth.svg. --quick takes
two rounds of the two smallest sizes of every axis, and writes nothing.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import check, environment, in_rounds, refuse, tell
from benchmarks.comparison import exponent
from benchmarks.counting import counted, counting, kept
from benchmarks.machine import (
    RESULTS,
    ROOT,
    describe,
    made_on,
    refuse_other_code,
    with_kernels,
    write_pages,
    write_pictures,
    write_result,
)
from benchmarks.peers import CONTENDERS, THREADS, installed
from benchmarks.peers.child import write
from benchmarks.peers.ours import reference
from benchmarks.training_step import SEED, Configuration, given
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE, figure, in_style, label_ends
from tinyattn.training import SLICE_TOKENS

RESULT, PAGE, PICTURE = RESULTS / "growth.json", RESULTS / "growth.md", ROOT / "figures" / "growth.svg"
BASE = {"n": 128, "d": 64, "items": 4_096, "batch": 32}
AXES = {
    "n": (64, 128, 256, 512, 1_024),
    "d": (16, 32, 64, 128, 256),
    "items": (1_024, 4_096, 16_384, 65_536),
    "batch": (8, 32, 128, 512),
}
FITTED = 3  # largest sizes, which the exponents are fitted to: for smaller ones call overhead dominates
PASS = 2  # batches that a contender trains on in a round
PACKAGES = {"tinyattn": "tinyattn.models", "torch": "torch", "jax": "jax", "recbole": "recbole"}  # what is imported
IMPORTS = 5


def configuration(sizes: dict[str, int]) -> Configuration:
    network = SASRecNetwork(n_items=sizes["items"], maxlen=sizes["n"], dim=sizes["d"], blocks=2, heads=1, dropout=0.2)
    return Configuration(", ".join(f"{name} {size:,}" for name, size in sizes.items()), None, sizes["batch"], network)


def measure(sizes: dict[str, int], names: list[str], rounds: int) -> dict[str, Any]:
    """{contender: seconds of every round, peak MB, MB without imports}, and the counts of `counted_step`."""
    network, weights, batches = given(configuration(sizes), None)
    batches = batches[:PASS]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), network, weights, batches, None)
        found = in_rounds(names, Path(folder), rounds, SEED)
    contenders = {name: {key: row[key] for key in ("seconds", "peak", "own")} for name, row in found.items()}
    pools = [pool for row in found.values() for pool in row["pools"]]
    kernels = {pool["architecture"] for pool in pools if pool["internal_api"] == "openblas"}
    return {
        "contenders": contenders,
        "counted": counted_step(network, weights, batches[0]),
        "kernels": sorted(kernels),
    }


def refuse_others(names: list[str]) -> None:
    """Exit if a contender's loss or gradients differ from the library's at the smallest size of an axis."""
    network, weights, batches = given(configuration({axis: min(sizes) for axis, sizes in AXES.items()}), None)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), network, weights, batches[:1], reference(network, weights, batches[0]))
        refuse(check(names, Path(folder)))


def counted_step(network: SASRecNetwork, weights: Any, batch: Batch) -> dict[str, int]:
    """Multiply-adds of a step without dropout, and the largest number of values a slice keeps for its backward."""
    most, p = 0, counted(weights)
    with counting() as counts:
        for part in batch.slices(SLICE_TOKENS):
            _, cache = network.loss(p, part)
            most = max(most, kept(cache, p))
            network.loss_backward(p, 1.0, cache)
    return {"products": counts.products, "kept": most}


def import_seconds(module: str) -> list[float]:
    """Seconds that the import adds to a fresh process; the first import is left out, as the disk cache is cold."""

    def took(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment(ROOT), cwd=ROOT)
        return time.perf_counter() - began

    pairs = [(took("pass"), took(f"import {module}")) for _ in range(IMPORTS + 1)]
    return [there - bare for bare, there in pairs[1:]]


def installed_bytes(package: str) -> dict[str, int]:
    """{distribution: bytes of its files}, for a package and all its requirements that are installed."""
    found: dict[str, int] = {}
    if package == "tinyattn":
        found[package] = sum(f.stat().st_size for f in (ROOT / "tinyattn").rglob("*.py"))
        todo = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    else:
        todo = [package]
    while todo:
        name = re.split(r"[^\w.-]", todo.pop(), maxsplit=1)[0].lower()
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # not installed, e.g. required on other systems only
        if name not in found:
            files = [Path(str(file.locate())) for file in distribution.files or []]
            found[name] = sum(file.stat().st_size for file in files if file.is_file())
            todo += [wanted for wanted in distribution.requires or [] if "extra ==" not in wanted]
    return found


def packages() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, module in PACKAGES.items():
        if importlib.util.find_spec(name) is None:
            found[name] = None
            continue
        version = "" if name == "tinyattn" else importlib.metadata.version(name)
        found[name] = {"version": version, "import": import_seconds(module), "bytes": installed_bytes(name)}
        tell(f"{name}: imported in {np.median(found[name]['import']):.2f} s")
    return found


def fitted(sizes: Iterable[int], values: Iterable[float]) -> float:
    """The exponent fitted to the FITTED largest sizes."""
    return exponent(list(sizes)[-FITTED:], list(values)[-FITTED:])


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    lines = ["# How a training step grows", "", "![Time and memory of a training step](../../figures/growth.svg)", ""]
    for cpu, found in result.items():
        lines += [f"## {cpu}", "", *_axes(found), "", *_packages(found["packages"]), "", _made(found), ""]
    return "\n".join([*lines, HOW.strip(), ""])


def _axes(found: dict[str, Any]) -> list[str]:
    lines = ["| varied | | sizes | ms a step | time grows with | counted | MB, less imports | grows with | counted |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for axis, points in found["axes"].items():
        sizes = [int(size) for size in points]
        for name in found["options"]["contenders"]:
            seconds, own = of(points, name)
            steps, numbers = ([point["counted"][what] for point in points.values()] for what in ("products", "kept"))
            ours = name == "tinyattn"
            cells = [
                axis,
                f"**{name}**" if ours else name,
                ", ".join(f"{size:,}" for size in sizes),
                ", ".join(f"{1e3 * s:.1f}" for s in seconds),
                f"{axis}^{fitted(sizes, seconds):.2f}",
                f"{axis}^{fitted(sizes, steps):.2f}" if ours else "",
                ", ".join(f"{mb:.0f}" for mb in own),
                f"{axis}^{fitted(sizes, own):.2f}",
                f"{axis}^{fitted(sizes, numbers):.2f}" if ours else "",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def of(points: dict[str, Any], name: str) -> tuple[list[float], list[float]]:
    """A contender's seconds a step and MB, at every size."""
    rows = [point["contenders"][name] for point in points.values()]
    return [float(np.median(row["seconds"])) for row in rows], [max(row["own"], 0.1) for row in rows]


def _packages(found: dict[str, Any]) -> list[str]:
    lines = ["| | version | import, s | installed, MB | with what it requires, MB |", "|---|---|---|---|---|"]
    for name, row in found.items():
        if row is None:
            lines.append(f"| {name} | not installed here | | | |")
            continue
        own = next(iter(row["bytes"].values()))
        sizes = f"{own / 1e6:.1f} | {sum(row['bytes'].values()) / 1e6:,.0f}"
        lines.append(f"| {name} | {row['version'] or 'this'} | {np.median(row['import']):.2f} | {sizes} |")
    return lines


def _made(found: dict[str, Any]) -> str:
    machine, options = found["machine"], found["options"]
    base = ", ".join(f"{name} {size:,}" for name, size in BASE.items())
    missing = "".join(f" {name}: not installed here." for name in options["missing"])
    return (
        f"What is not varied: {base}; two blocks, one head, dropout .2, BCE with one negative. Medians of "
        f"{options['rounds']} rounds of {PASS} steps, {THREADS} threads. {made_on(machine)}.{missing}"
    )


HOW = f"""
## How

All histories are full. Every size is measured by processes of its own, one for each contender, which take turns; what
they compute was first compared with the library's (benchmarks/training_step.py says how). Memory is the most that a
process, with its workers, ever held, less what it held after its imports. Exponents are those of the {FITTED} largest
sizes. `counted` beside time is the exponent of a step's multiply-adds, beside memory that of the numbers that a slice
keeps for its backward: tinyattn cuts a batch into slices of about {SLICE_TOKENS:,} tokens, so that what it keeps
hardly grows with the batch, while parameters, gradients and Adam's moments, which are memory but not kept by a slice,
grow with the items. Where time grows by less than what is counted, a part of it, such as that of calls, grows less.

Made by `python benchmarks/growth.py`.
"""


@in_style
def draw(found: dict[str, Any]) -> Any:
    """Time above, memory below, for n and the items; the page's table has the other axes. -> matplotlib figure."""
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    axes = {axis: found["axes"][axis] for axis in ("n", "items") if axis in found["axes"]} or found["axes"]
    made, grid = figure(2, len(axes), size=(8.6, 5.4), squeeze=False, sharey="row")
    colours, styles = (BLUE, ORANGE, GREEN), ("-o", "--s", ":D")
    for column, (axis, points) in enumerate(axes.items()):
        sizes = [int(size) for size in points]
        for i, name in enumerate(found["options"]["contenders"]):
            seconds, own = of(points, name)
            for row, values in enumerate(([1e3 * s for s in seconds], own)):
                how = {"color": colours[i % 3], "label": name, "markersize": 4}
                grid[row][column].loglog(sizes, values, styles[i % 3], **how)
            if name == "tinyattn":
                steps = np.array([point["counted"]["products"] for point in points.values()])
                scaled = steps * 1e3 * seconds[-1] / steps[-1]
                grid[0][column].loglog(sizes, scaled, "-.", color=GREY, label="multiply-adds, scaled")
        for row in (0, 1):
            ax = grid[row][column]
            ax.set_xticks(sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]}))
            for of_axis in (ax.xaxis, ax.yaxis):
                of_axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
            ax.xaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_minor_formatter(NullFormatter())
        grid[1][column].set_xlabel(axis)
    grid[0][0].set_ylabel("ms a step")
    grid[1][0].set_ylabel("MB, less imports")
    made.get_layout_engine().set(wspace=0.08)
    for ax in grid[:, -1]:
        label_ends(ax)
    return made


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def pictures() -> dict[Path, Any]:
    return {PICTURE: draw(list(json.loads(RESULT.read_text()).values())[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--axes", default=",".join(AXES), metavar="n,d")
    parser.add_argument("--contenders", default="tinyattn,torch-sdpa", metavar="NAME,NAME")
    parser.add_argument("--quick", action="store_true", help="two rounds of two small sizes an axis; write nothing")
    args = parser.parse_args()
    for words, known in ((args.axes, AXES), (args.contenders, CONTENDERS)):
        unknown = set(words.split(",")) - known.keys()
        if unknown:
            parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    names = [name for name in CONTENDERS if name in args.contenders.split(",")]
    missing = [name for name in names if not installed(name)]
    names = [name for name in names if name not in missing]
    rounds = 2 if args.quick else args.rounds
    refuse_others(names)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if not args.quick and set(args.axes.split(",")) != AXES.keys():
        refuse_other_code((row["machine"] for row in result.values()), "axes")
    axes: dict[str, Any] = {}
    done: dict[str, Any] = {}  # BASE is a point of every axis, and is measured once
    for axis in args.axes.split(","):
        for size in AXES[axis][: 2 if args.quick else None]:
            sizes = BASE | {axis: size}
            title = configuration(sizes).title
            if title not in done:
                tell(title)
                done[title] = measure(sizes, names, rounds)
            axes.setdefault(axis, {})[str(size)] = done[title]
    options = {"rounds": rounds, "contenders": names, "missing": missing}
    machine = describe()
    found = {"axes": axes, "packages": packages(), "machine": machine, "options": options}
    kernels = sorted({kernel for point in done.values() for kernel in point["kernels"]})
    cpu = with_kernels(machine["cpu"], kernels)
    if args.quick:
        print(page({cpu: found}))
        return
    found["axes"] = result.pop(cpu, {"axes": {}})["axes"] | axes
    result[cpu] = found  # at the end: the picture is of the make that was measured last
    RESULTS.mkdir(exist_ok=True)
    write_result(RESULT, result)
    write_pages(__file__, pages())
    write_pictures(pictures())
    print(page(result))


if __name__ == "__main__":
    main()
