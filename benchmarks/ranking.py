"""How long does full ranking take? Scores of all items for all users: tinyattn beside PyTorch, the same weights.

    python benchmarks/ranking.py [--data DIR] [--rounds 9] [--contenders tinyattn,torch-padded]
    python benchmarks/ranking.py --large [--users 100000] [--items 200000] [--rounds 3]

There are 3,416 items and 6,040 users, whose histories are as long as those of ML-1M but have at most 200 items. DIR
holds ml-1m.txt.gz, from which only the lengths are taken; without --data, lengths are drawn from a distribution of the
same mean and median. Every contender must first give the library's scores in float64. Writes
benchmarks/results/ranking.json, which keeps the results of other makes of CPU, and .md.

With --large: all ranks and metrics of many generated users and items, compared with the matrix product alone.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import check, in_rounds, refuse, tell
from benchmarks.machine import (
    RESULTS,
    SPEED,
    by_make,
    describe,
    made_on,
    makes_in,
    others,
    write_make,
    write_pages,
)
from benchmarks.peers import THREADS, large
from benchmarks.peers.child import TOLERANCE
from benchmarks.peers.scoring import CHECKED, write
from benchmarks.training_step import ML_1M, POPULARITY, SEED, Lengths, without_repeats
from tinyattn.data import Interactions, leave_one_out
from tinyattn.models import SASRecNetwork
from tinyattn.tree import tree_map

RESULT, PAGE = RESULTS / "ranking.json", RESULTS / "ranking.md"
CONTENDERS = {"tinyattn": "numpy", "torch-padded": "torch", "torch-buckets": "torch"}  # name: the package it needs
NETWORK = SASRecNetwork(n_items=3_416, maxlen=200, dim=50, blocks=2, heads=1, dropout=0.2)
LARGE = {
    "product": "the matrix product alone",
    "states": "SASRec's states alone",
    "tinyattn": "SASRec: states, and the rank of every user's item",
    "popularity": "popularity",
    "markov": "Markov",
}
LARGE_GOAL = 2  # the time from states to ranks, at most, as a multiple of the matrix product's
GOAL = {"must": 3, "good": 6, "moonshot": 10}  # times as fast as torch-padded


def draw(network: SASRecNetwork, lengths: Lengths, data: Path | None) -> list[np.ndarray]:
    """For each user, the history from which the last item is predicted. Items are generated; lengths are the data's."""
    rng = np.random.default_rng(SEED)
    trained = (lengths.matched(rng) if data is None else lengths.real(data)) - 1
    weight = rng.permutation(1 / np.arange(1, network.n_items + 1) ** POPULARITY)
    return [without_repeats(rng, weight, n) for n in trained.tolist()]


def parameters(network: SASRecNetwork) -> Any:
    """The shaken parameters, with the embedding of padding set to 0."""
    found = shaken(network)
    found["items"][0] = 0
    return found


def shaken(network: Any) -> Any:
    """Initial parameters plus noise of standard deviation .05, so that no bias is 0 and no scale is 1."""
    rng = np.random.default_rng(SEED)
    return tree_map(lambda w: (w + 0.05 * rng.standard_normal(w.shape)).astype(np.float32), network.init(rng))


def measure(network: SASRecNetwork, histories: list[np.ndarray], names: list[str], rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), network, parameters(network), histories)
        checked = check(names, Path(folder), "scoring")
        refuse(checked)
        found = in_rounds(names, Path(folder), rounds, SEED, "scoring")
    read = np.minimum([len(h) for h in histories], network.maxlen)
    return {
        "users": len(histories),
        "items": network.n_items,
        "maxlen": network.maxlen,
        "dim": network.dim,
        "blocks": network.blocks,
        "tokens": int(np.sum(read)),
        "contenders": {name: found[name] | {"check": checked[name]} for name in names},
    }


def measure_large(users: int, items: int, rounds: int) -> dict[str, Any]:
    """Histories of 5 to 25 items, drawn by popularity, for a network of d 50 that reads the newest 50 items."""
    rng, network = np.random.default_rng(SEED), SASRecNetwork(n_items=items, maxlen=50, dim=50, blocks=2)
    lengths = rng.integers(5, 26, users)
    cumulated = np.cumsum(1 / np.arange(1, items + 1) ** POPULARITY)
    flat = 1 + np.searchsorted(cumulated, cumulated[-1] * rng.random(int(lengths.sum())))
    flat[:items] = rng.permutation(np.arange(1, items + 1))[: len(flat)]  # every item occurs
    owner = np.repeat(np.arange(users), lengths)
    split = leave_one_out(Interactions.of(np.stack([owner, rng.permutation(flat)], axis=1)))
    with tempfile.TemporaryDirectory() as folder:
        large.write(Path(folder), network, parameters(network), split)
        checked = check(list(LARGE), Path(folder), "large")
        refuse(checked)
        found = in_rounds(list(LARGE), Path(folder), rounds, SEED, "large")
    return {"users": users, "items": items, "rounds": rounds, "contenders": found, "machine": describe()}


def large_table(result: dict[str, Any]) -> list[str]:
    """The time and memory to rank many items for many users."""
    contenders, machine = result["contenders"], result["machine"]
    lines = [
        "",
        f"All metrics of {result['users']:,} users over {result['items']:,} items, generated; d 50; "
        f"{result['rounds']} rounds; {made_on(machine)}:",
        "",
        "| | s | times the product | (10th to 90th percentile) | peak MB |",
        "|---|---|---|---|---|",
    ]
    for name, found in contenders.items():
        times = np.divide(found["seconds"], contenders["product"]["seconds"])
        low, middle, high = np.percentile(times, [10, 50, 90])
        seconds = float(np.median(found["seconds"]))
        cells = f"{middle:.2f} | {low:.2f} to {high:.2f}"
        lines.append(f"| {LARGE[name]} | {seconds:.1f} | {cells} | {found['peak']:.0f} |")
    ranking = np.subtract(contenders["tinyattn"]["seconds"], contenders["states"]["seconds"])
    value = float(np.median(ranking / contenders["product"]["seconds"]))
    word = "reached" if value <= LARGE_GOAL else "**missed**"
    goal = f"Goal: from states to ranks in at most {LARGE_GOAL} times the product alone. Measured: {value:.2f}, {word}."
    return [*lines, "", goal]


def ratios(result: dict[str, Any], name: str) -> np.ndarray:
    """The contender's time divided by tinyattn's, for each round."""
    contenders = result["contenders"]
    return np.divide(contenders[name]["seconds"], contenders["tinyattn"]["seconds"])


def table(result: dict[str, Any]) -> str:
    """What was measured and the goals, as docs/speed.md quotes them."""
    small = small_table(result) if "contenders" in result else []
    return "\n".join([*small, *(large_table(result["large"]) if "large" in result else [])]).strip()


def small_table(result: dict[str, Any]) -> list[str]:
    """The time and memory to score all users, beside PyTorch's."""
    contenders = result["contenders"]
    lines = [
        f"Scores of {result['items']:,} items for {result['users']:,} users, from histories of up to "
        f"{result['maxlen']} items (mean {result['tokens'] / result['users']:.0f}); d {result['dim']}, "
        f"{result['blocks']} blocks, no dropout; {result['options']['rounds']} rounds; {made_on(result['machine'])}:",
        "",
        "| | s | users a second | times tinyattn's | (10th to 90th percentile) | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in contenders.items():
        seconds, cells = float(np.median(found["seconds"])), ["", ""]
        if name != "tinyattn" and "tinyattn" in contenders:
            low, middle, high = np.percentile(ratios(result, name), [10, 50, 90])
            cells = [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        title = f"**{name}**" if name == "tinyattn" else name
        users = f"{result['users'] / seconds:,.0f}"
        lines.append(f"| {title} | {seconds:.3f} | {users} | {' | '.join(cells)} | {found['peak']:.0f} |")
    return [*lines, "", verdict(result)]


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    lines = ["# Full ranking, beside PyTorch", "", table(result), "", HOW.strip(), ""]
    made = "Made by `python benchmarks/ranking.py`, with `--large` for the part of many users and items."
    if "contenders" not in result:
        return "\n".join([*lines, made, ""])
    contenders, machine, options = result["contenders"], result["machine"], result["options"]
    lines += [
        f"{options['rounds']} rounds, lengths {options['lengths']}. {made_on(machine)}; "
        f"OPENBLAS_CORETYPE was {result['OPENBLAS_CORETYPE'] or 'not set'} and is not set for any contender.",
        "",
    ]
    for name, found in contenders.items():
        about = ", ".join(f"{what} {value}" for what, value in found["about"].items())
        lines.append(
            f"- {name}: {about}; scores off by {found['check']['off']:.0e}; "
            f"{100 * found['idle']:.1f} % of a core while it waited"
        )
    lines += [f"- {name}: not installed, not measured" for name in options["missing"]]
    return "\n".join([*lines, "", made, ""])


def verdict(result: dict[str, Any]) -> str:
    """The goal and what was reached."""
    levels = ", ".join(f"{name} {least}" for name, least in GOAL.items())
    if not {"tinyattn", "torch-padded"} <= result["contenders"].keys():
        return f"Goal, times as fast as torch-padded: {levels}. Not measured."
    value = float(np.median(ratios(result, "torch-padded")))
    reached = [name for name, least in GOAL.items() if value >= least]
    level = reached[-1] if reached else "**missed**"
    return f"Goal, times as fast as torch-padded: {levels}. Reached: {value:.2f}, {level}."


HOW = f"""
Every contender has a process of its own and {THREADS} threads, and gave for {CHECKED} users the scores that the library
gives in float64, computing all positions of all blocks, to {TOLERANCE:g} of the largest. In each round all are asked,
one after the other and in random order, to score all users once; times are medians over rounds, ratios are taken within
a round. tinyattn is `SASRec.score` as evaluation calls it: cutting histories into slices of about equal length and
padding them is in its time, and the last block is computed at the last position only. torch-padded is eager with
scaled_dot_product_attention, in inference mode, every history padded to the full length, the last norm and the product
with the item table at the last position only; torch-buckets is the same with users sorted by length and each batch as
wide as its longest. Their batches are made beforehand, of the size that a trial finds fastest. The first table's times
are without ranks and metrics; the second's include them.
"""


def measure_small(args: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    """Measure the contenders that are installed. The result keeps the part of --large that `before` has."""
    names = [name for name in CONTENDERS if name in args.contenders.split(",")]
    missing = [name for name in names if importlib.util.find_spec(CONTENDERS[name]) is None]
    for name in missing:
        tell(f"{name}: {CONTENDERS[name]} is not installed, not measured")
    found = measure(
        NETWORK, draw(NETWORK, ML_1M, args.data), [n for n in names if n not in missing], args.rounds
    ) | {
        "machine": describe(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
        "options": {"rounds": args.rounds, "lengths": "drawn" if args.data is None else "real", "missing": missing},
    }
    return found | ({"large": before["large"]} if "large" in before else {})


def pages() -> dict[Path, str]:
    makes, last = makes_in(RESULT), {}
    for result in makes.values():
        last |= result  # each part as the make has it that was the last to measure it
    return {PAGE: by_make(makes, page), SPEED: table(last) + others(makes, PAGE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder of ml-1m.txt.gz, for real lengths")
    parser.add_argument("--rounds", type=int, default=None, help="default: 9, with --large 3")
    parser.add_argument("--large", action="store_true", help="rank many items for many users; other results stay")
    parser.add_argument("--users", type=int, default=100_000, help="with --large")
    parser.add_argument("--items", type=int, default=200_000, help="with --large")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), metavar="NAME,NAME")
    args = parser.parse_args()
    args.rounds = (3 if args.large else 9) if args.rounds is None else args.rounds
    unknown = set(args.contenders.split(",")) - CONTENDERS.keys()
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(CONTENDERS)}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    before = makes_in(RESULT).get(describe()["cpu"], {})
    if args.large:
        if min(args.users, args.items) < 100:
            parser.error(f"{args.users} users and {args.items} items: expected at least 100 of each")
        result = before | {"large": measure_large(args.users, args.items, args.rounds)}
    else:
        result = measure_small(args, before)
    RESULTS.mkdir(exist_ok=True)
    write_make(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
