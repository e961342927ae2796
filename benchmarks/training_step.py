"""How much time and memory does a training step take? tinyattn beside PyTorch and JAX, on the same batches.

    python benchmarks/training_step.py [--data DIR] [--rounds 9] [--only A,B] [--contenders tinyattn,torch-sdpa]
    python benchmarks/training_step.py --against COMMIT [--data DIR] [--rounds 15] [--only A,B]

DIR holds ml-1m.txt.gz and beauty-5core.txt.gz, with one `user item` a line; only the lengths of the users' histories
are taken from them. Without --data, lengths are drawn from distributions of the same mean and median. The data is not
part of this project.

Before the timing, every contender must give the library's loss and gradients in float64. If one does not, the command
names it and the parameter, and ends with exit code 1. Contenders (benchmarks/peers) that are not installed are left
out, with a note. Writes benchmarks/results/training_step.json, which keeps the results of other makes of CPU, and .md
after each configuration. A configuration that was measured at this commit with the same options is measured again only
with --again.

With --against there are two contenders: the library of this checkout and that of another commit. Both must do the same
work. The results are written to benchmarks/results/against.json and .md (benchmarks/against.py).
"""

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks import against
from benchmarks.children import check, in_rounds, refuse, tell
from benchmarks.machine import (
    README,
    RESULTS,
    SPEED,
    by_make,
    describe,
    made_on,
    makes_in,
    newest,
    others,
    unlike,
    write_make,
    write_pages,
)
from benchmarks.peers import CONTENDERS, THREADS, installed
from benchmarks.peers.child import TOLERANCE, write
from benchmarks.peers.ours import reference
from tinyattn.data import Batch, Interactions, Sampler, Vocabulary, read
from tinyattn.models import SASRecNetwork
from tinyattn.tree import tree_map

RESULT, PAGE = RESULTS / "training_step.json", RESULTS / "training_step.md"
STEPS = 8  # batches; in each round a contender trains on each of them once
ROUNDS = 9
SEED = 0
POPULARITY = 1.1  # the k-th most popular item is drawn with weight 1 / k^POPULARITY


@dataclass(frozen=True)
class Lengths:
    """Interactions per user of a data set: `least` plus a lognormal of the data's mean and median, cut at `most`."""

    file: str
    users: int
    least: int
    median: float
    mean: float
    most: int

    def real(self, folder: Path) -> np.ndarray:
        path = folder / self.file
        if not path.exists():
            raise SystemExit(f"{path} is not there")
        return read(path).lengths

    def matched(self, rng: np.random.Generator) -> np.ndarray:
        middle = self.median - self.least
        sigma = math.sqrt(2 * math.log((self.mean - self.least) / middle))  # a lognormal's mean / median is exp(σ² / 2)
        drawn = self.least + middle * np.exp(sigma * rng.standard_normal(self.users))
        return np.minimum(np.rint(drawn), self.most).astype(np.int64)


ML_1M = Lengths("ml-1m.txt.gz", users=6_040, least=18, median=96, mean=165.5, most=2_277)
BEAUTY = Lengths("beauty-5core.txt.gz", users=22_363, least=5, median=6, mean=8.9, most=204)


@dataclass(frozen=True)
class Configuration:
    """A network and its histories. `lengths` None: every history is as long as the network reads."""

    title: str
    lengths: Lengths | None
    batch: int
    network: SASRecNetwork


CONFIGURATIONS = {
    "A": Configuration(
        "lengths of ML-1M, 128 × 200, d 50, 2 blocks, 1 head, dropout .2, 3,416 items",
        ML_1M,
        128,
        SASRecNetwork(n_items=3_416, maxlen=200, dim=50, blocks=2, heads=1, dropout=0.2),
    ),
    "B": Configuration(
        "lengths of Amazon Beauty, 128 × 50, d 50, 2 blocks, 1 head, dropout .5, 57,289 items",
        BEAUTY,
        128,
        SASRecNetwork(n_items=57_289, maxlen=50, dim=50, blocks=2, heads=1, dropout=0.5),
    ),
    "C": Configuration(
        "lengths of ML-1M, 64 × 200, d 128, 2 blocks, 4 heads, dropout .2, 3,416 items",
        ML_1M,
        64,
        SASRecNetwork(n_items=3_416, maxlen=200, dim=128, blocks=2, heads=4, dropout=0.2),
    ),
    "A-full": Configuration(
        "as A, all histories at full length, no dropout",
        None,
        128,
        SASRecNetwork(n_items=3_416, maxlen=200, dim=50, blocks=2, heads=1, dropout=0.0),
    ),
}


@dataclass(frozen=True)
class Goal:
    """How many times tinyattn's time or memory the best of `peers` should take, at least: one number for each level."""

    configuration: str
    peers: tuple[str, ...]
    levels: tuple[float, float, float]  # must, good, moonshot
    quantity: str = "time"  # or "peak": peak memory of the process; or "own": the same without the imports'


FULL = ("torch-mha", "torch-sdpa")
GOALS = [
    Goal("A", FULL, (3, 5, 8)),
    Goal("A", ("torch-buckets",), (1.8, 2.5, 3.5)),
    Goal("A", ("jax",), (2.5, 6, 9)),
    Goal("A-full", ("torch-sdpa",), (1.3, 2, 3)),
    Goal("B", FULL, (4, 8, 15)),
    Goal("B", ("torch-buckets",), (2, 4, 5)),
    Goal("C", FULL, (3, 5, 7)),
    Goal("A", FULL, (2, 4, 5), "peak"),
    Goal("A", FULL, (2, 4, 5), "own"),
]


def interactions(configuration: Configuration, data: Path | None) -> Interactions:
    """The training part of STEPS batches of users: all of their interactions but the last two.

    Items are drawn by popularity, none twice for a user. The vocabulary has all items, so each can be a negative.
    """
    rng = np.random.default_rng(SEED)
    items, count = configuration.network.n_items, STEPS * configuration.batch
    if configuration.lengths is None:
        trained = np.full(count, configuration.network.maxlen + 1)
    else:
        lengths = configuration.lengths
        trained = rng.choice(lengths.matched(rng) if data is None else lengths.real(data), count, replace=False) - 2
    weight = rng.permutation(1 / np.arange(1, items + 1) ** POPULARITY)
    sequences = [without_repeats(rng, weight, n) for n in trained.tolist()]
    return Interactions(
        np.concatenate(sequences).astype(np.int32),
        np.concatenate([[0], np.cumsum(trained)]),
        Vocabulary(np.arange(1, items + 1), "item"),
        Vocabulary(np.arange(1, count + 1), "user"),
    )


def without_repeats(rng: np.random.Generator, weight: np.ndarray, n: int) -> np.ndarray:
    """n different item numbers: the items whose exponential waiting times, of rate `weight`, are the n shortest."""
    waited = rng.exponential(size=len(weight)) / weight
    return rng.permutation(np.argpartition(waited, n - 1)[:n] + 1)


def draw(configuration: Configuration, data: Path | None) -> list[Batch]:
    """One epoch of the library's sampler: STEPS batches, padded on the right."""
    train = interactions(configuration, data)
    sampler = Sampler(train, configuration.network.maxlen, configuration.batch, SEED, negatives=True)
    return [sampler.batch(step) for step in range(STEPS)]


def given(configuration: Configuration, data: Path | None) -> tuple[SASRecNetwork, Any, list[Batch]]:
    """-> network, initial weights in float32, and batches, the same at every call.

    benchmarks/peers/work.py calls this function by name in other commits, and uses CONFIGURATIONS, folder_of and
    reference there. So these names must stay.
    """
    network = configuration.network
    weights = tree_map(lambda w: w.astype(np.float32), network.init(np.random.default_rng(SEED)))
    return network, weights, draw(configuration, data)


@contextmanager
def folder_of(network: SASRecNetwork, weights: Any, batches: list[Batch]) -> Iterator[Path]:
    """A temporary folder of all that the contenders' processes read."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), network, weights, batches, reference(network, weights, batches[0]))
        yield Path(folder)


def measure(configuration: Configuration, names: list[str], rounds: int, data: Path | None) -> dict[str, Any]:
    network, weights, batches = given(configuration, data)
    with folder_of(network, weights, batches) as folder:
        checked = check(names, folder)
        refuse(checked)
        found = in_rounds(names, folder, rounds, SEED)
    return {
        "title": configuration.title,
        "tokens": float(np.mean([np.sum(batch.weight) for batch in batches])),
        "padded": float(np.mean([batch.ids.size for batch in batches])),
        "contenders": {name: found[name] | {"check": checked[name]} for name in names},
    }


def ratios(row: dict[str, Any], name: str) -> np.ndarray:
    """The contender's time divided by tinyattn's, for each round."""
    contenders = row["contenders"]
    return np.divide(contenders[name]["seconds"], contenders["tinyattn"]["seconds"])


def reached(goal: Goal, result: dict[str, Any]) -> float | None:
    """Time or memory of the best of the goal's peers, divided by tinyattn's; None if not both were measured."""
    row = result.get(goal.configuration, {"contenders": {}})
    found = row["contenders"]
    peers = [name for name in goal.peers if name in found]
    if not peers or "tinyattn" not in found:
        return None
    if goal.quantity == "time":
        return min(float(np.median(ratios(row, name))) for name in peers)
    return min(found[name][goal.quantity] for name in peers) / found["tinyattn"][goal.quantity]


def page(result: dict[str, Any]) -> str:
    """The Markdown page, made from the results file alone."""
    lines = ["# A training step, beside PyTorch and JAX", ""]
    for key, row in result.items():
        lines += [f"## {key}: {row['title']}", "", *_table(row), "", *_remarks(row), ""]
    lines += ["## Goals", "", "Three levels: must, good and moonshot. *Reached* is the best time or memory of "
              "those under *of*, over tinyattn's; torch-mha and torch-sdpa are PyTorch with nn.MultiheadAttention and "
              "scaled_dot_product_attention, torch-buckets is PyTorch in slices by length:", ""]  # fmt: skip
    lines += ["| | of | must | good | moonshot | reached | |", "|---|---|---|---|---|---|---|"]
    lines += [_goal(goal, reached(goal, result)) for goal in GOALS]
    return "\n".join([*lines, "", HOW.strip(), ""])


def _table(row: dict[str, Any]) -> list[str]:
    lines = [
        "| | ms a step | times tinyattn's | (10th to 90th percentile) | peak MB | less imports |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in row["contenders"].items():
        cells = ["", ""]
        if name != "tinyattn" and "tinyattn" in row["contenders"]:
            low, middle, high = np.percentile(ratios(row, name), [10, 50, 90])
            cells = [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        cells += [f"{found['peak']:.0f}", f"{found['own']:.0f}"]
        title = f"**{name}**" if name == "tinyattn" else name
        lines.append(f"| {title} | {1e3 * np.median(found['seconds']):.1f} | {' | '.join(cells)} |")
    return lines


def _remarks(row: dict[str, Any]) -> list[str]:
    machine, options, contenders = row["machine"], row["options"], row["contenders"]
    lines = [
        f"{row['tokens']:,.0f} real tokens a step, {row['padded']:,.0f} with padding; lengths {options['lengths']}; "
        f"{options['rounds']} rounds of {STEPS} steps. {made_on(machine)}; "
        f"OPENBLAS_CORETYPE was {row['OPENBLAS_CORETYPE'] or 'not set'} and is not set for any contender.",
        "",
    ]
    for name, found in contenders.items():
        about = ", ".join(f"{what} {value}" for what, value in found["about"].items())
        pools = ", ".join(" ".join(str(v) for v in pool.values() if v is not None) for pool in found["pools"])
        lines.append(
            f"- {name}: {about}; thread pools {pools or 'none that threadpoolctl knows'}; "
            f"{found['check']['worst']} off by {found['check']['off']:.0e}, the rest by less; "
            f"{100 * found['idle']:.1f} % of a core while it waited"
        )
    lines += [f"- {name}: not installed, not measured" for name in options["missing"]]
    return lines


def _goal(goal: Goal, value: float | None) -> str:
    what = {"time": "time", "peak": "peak memory", "own": "peak memory less imports"}[goal.quantity]
    names = [level for level, least in zip(("must", "good", "moonshot"), goal.levels, strict=True)
             if value is not None and value >= least]  # fmt: skip
    verdict = ["", ""] if value is None else [f"{value:.2f}", names[-1] if names else "**missed**"]
    cells = [f"{goal.configuration}, {what}", ", ".join(goal.peers), *map(str, goal.levels), *verdict]
    return f"| {' | '.join(cells)} |"


TITLES = {
    "torch-mha": "PyTorch, nn.MultiheadAttention",
    "torch-sdpa": "PyTorch, scaled_dot_product_attention",
    "torch-buckets": "the same PyTorch, in slices by length as ours",
    "torch-compile": "PyTorch, torch.compile",
    "jax": "JAX, jit",
}


def summary(result: dict[str, Any]) -> str:
    """A short table of all ratios, which docs/speed.md quotes."""
    machine = next(iter(result.values()))["machine"]
    lines = ["| | " + " | ".join(result) + " |", "|---|" + "---|" * len(result)]

    def line(title: str, cell: Callable[[dict[str, Any]], str]) -> None:
        lines.append(f"| {title} | {' | '.join(cell(row) for row in result.values())} |")

    line("**tinyattn**, ms a step", lambda row: f"**{1e3 * np.median(row['contenders']['tinyattn']['seconds']):.0f}**")
    for name, title in TITLES.items():
        line(f"{title}: times as long", lambda row, name=name: _ratio(row, name))
    peak = "PyTorch's peak memory (the lesser of the first two) over tinyattn's"
    line(peak, _memory)
    lines += [""] + [f"- {key}: {row['title'].removeprefix(key + ': ')}" for key, row in result.items()]
    machines = sorted({row["machine"]["commit"] for row in result.values()})
    return "\n".join(
        [
            *lines,
            "",
            f"Medians of {min(row['options']['rounds'] for row in result.values())} rounds or more, side by side, on "
            f"{machine['cores']} cores of {machine['cpu']} (Python {machine['python']}, NumPy {machine['numpy']}, "
            f"{machine['date']}, commit {', '.join(machines)}).",
        ]
    )


def sentence(makes: dict[str, Any]) -> str:
    """README's sentences, made from the results file alone: PyTorch's faster form, and the one in slices."""
    spans = {cpu: (_span(result, "torch-mha", "torch-sdpa"), _span(result, "torch-buckets"))
             for cpu, result in reversed(makes.items())}  # fmt: skip
    (usual, sliced), *older = spans.values()
    result = newest(makes)
    machine = next(iter(result.values()))["machine"]
    slices = f"; cut into slices by length as here, {sliced} times" if sliced else ""
    first = (
        f"PyTorch takes {usual} times as long for a step, in the faster of its two usual forms and in {len(result)} "
        f"configurations{slices} (medians, {machine['cores']} cores of {machine['cpu']}, {machine['date']}; "
        "[docs/speed.md](docs/speed.md))."
    )
    rest = [f"On {cpu} it was {' and '.join(filter(None, span))} times." for cpu, span in
            zip(list(spans)[1:], older, strict=True)]  # fmt: skip
    return " ".join([first, *rest])


def _span(result: dict[str, Any], *names: str) -> str:
    """The least and the most of the configurations' ratios, each that of the fastest of `names`."""
    ratios_of = ([float(np.median(ratios(row, name))) for name in names if name in row["contenders"]]
                 for row in result.values())  # fmt: skip
    found = [min(each) for each in ratios_of if each]
    return f"{min(found):.2f} to {max(found):.2f}" if found else ""


def _ratio(row: dict[str, Any], name: str) -> str:
    return f"{np.median(ratios(row, name)):.2f}" if name in row["contenders"] else ""


def _memory(row: dict[str, Any]) -> str:
    peaks = [row["contenders"][name]["peak"] for name in ("torch-mha", "torch-sdpa") if name in row["contenders"]]
    return f"{min(peaks) / row['contenders']['tinyattn']['peak']:.1f}" if peaks else ""


def goals(result: dict[str, Any]) -> str:
    """The table of goals and of the ratios reached, which docs/speed.md quotes."""
    return page(result).split("## Goals\n")[1].split("\n## ")[0].strip()


def missed(makes: dict[str, Any]) -> str:
    """How many goals each make of CPU misses, the newest first, with the date of its oldest result."""
    each = []
    for cpu, result in reversed(makes.items()):
        values = {goal: reached(goal, result) for goal in GOALS}
        count = sum(value is not None and value < goal.levels[0] for goal, value in values.items())
        each.append(f"{count} on {cpu} ({min(row['machine']['date'] for row in result.values())})")
    return f"Missed of {len(GOALS)}: {', '.join(each)}."


def pages() -> dict[Path, str]:
    makes = makes_in(RESULT)
    last = newest(makes)
    speed = f"{summary(last)}\n\n{goals(last)}\n\n{missed(makes)}{others(makes, PAGE)}"
    return {PAGE: by_make(makes, page), README: sentence(makes), SPEED: speed}


HOW = f"""
## How

Float32, binary cross-entropy with one negative a position, pre-LN blocks and a last LayerNorm, Adam. Every contender
has a process of its own and {THREADS} threads (jax as many as there are cores), the same initial weights and the same
{STEPS} right-padded batches of the library's sampler; the causal mask keeps real positions from seeing padding, so no
contender needs a mask of keys. Items are drawn by popularity (weight 1 / rank^{POPULARITY}): only lengths are real. In
each round all are asked, one after the other and in random order, to train on the {STEPS} batches once; meanwhile the
others wait, with no setting that would make them. Times are medians over rounds, ratios are taken within a round.
Drawing batches is not timed; cutting them into slices is, for tinyattn and torch-buckets. Memory is the
most that the process and its workers ever held, added up, and the same less what they held after their imports.

Before that each contender, without dropout, gave the loss and all gradients of the library in float64 to
{TOLERANCE:g} of a parameter's largest gradient. torch-mha projects the joined heads with a frozen identity, because
nn.MultiheadAttention always projects. SparseAdam, where torch-buckets uses it, moves only rows that were read, which
is less than Adam does.

Made by `python benchmarks/training_step.py`.
"""


def lengths_of(key: str, data: Path | None) -> str:
    return "full" if CONFIGURATIONS[key].lengths is None else "drawn" if data is None else "real"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder of the two files, for real lengths")
    parser.add_argument("--rounds", type=int, help=f"default 9, with --against {against.ROUNDS}")
    parser.add_argument("--only", default=",".join(CONFIGURATIONS), metavar="A,B", help="configurations")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), metavar="NAME,NAME")
    parser.add_argument("--again", action="store_true", help="measure again what has been measured")
    parser.add_argument("--against", metavar="COMMIT", help="compare with the library of that commit alone")
    args = parser.parse_args()
    if args.rounds is None:
        args.rounds = ROUNDS if args.against is None else against.ROUNDS
    for words, known in ((args.only, CONFIGURATIONS), (args.contenders, CONTENDERS)):
        unknown = set(words.split(",")) - known.keys()
        if unknown:
            parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    if args.against is not None:
        if args.contenders != parser.get_default("contenders"):
            parser.error("--against has two contenders, this library and that commit's: expected no --contenders")
        keys = {
            key: {"title": CONFIGURATIONS[key].title, "lengths": lengths_of(key, args.data)}
            for key in args.only.split(",")
        }
        against.run(args.against, keys, args.rounds, args.data, args.again, list(CONFIGURATIONS))
        return
    names = [name for name in CONTENDERS if name in args.contenders.split(",")]
    missing = [name for name in names if not installed(name)]
    for name in missing:
        tell(f"{name}: {CONTENDERS[name][0]} is not installed, not measured")
    options = {
        "rounds": args.rounds,
        "contenders": [name for name in names if name not in missing],
        "missing": missing,
    }
    result = makes_in(RESULT).get(describe()["cpu"], {})
    for key in args.only.split(","):
        options["lengths"] = lengths_of(key, args.data)
        machine, old = describe(), result.get(key)
        same = old and old["machine"]["commit"] == machine["commit"] and not unlike(old["machine"], machine)
        if same and old["options"] == options and not args.again:
            tell(f"{key}: measured already")
            continue
        tell(f"{key}: {CONFIGURATIONS[key].title}")
        measured = measure(CONFIGURATIONS[key], options["contenders"], args.rounds, args.data)
        environment = {"machine": machine, "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE")}
        result[key] = measured | environment | {"options": dict(options)}
        result = {name: result[name] for name in CONFIGURATIONS if name in result}
        RESULTS.mkdir(exist_ok=True)
        write_make(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
