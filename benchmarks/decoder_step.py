"""Measure a training step of a decoder: tinyattn and PyTorch, on the same batches of text.

    python benchmarks/decoder_step.py [--rounds 9] [--contenders tinyattn,torch-sdpa]

The decoder has GPT's form, d 128, 4 layers and 4 heads; a batch has 32 texts of 256 tokens. Before the measurement,
every contender's loss and gradients must equal the library's in float64. If one differs, the command names it and the
parameter, and ends with exit code 1.
Writes benchmarks/results/decoder_step.json and .md, with one section for each CPU model that it was run on.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.children import check, in_rounds, refuse
from benchmarks.machine import RESULTS, SPEED, describe, made_on, write_pages, write_result
from benchmarks.peers import THREADS
from benchmarks.peers.child import TOLERANCE, write
from benchmarks.peers.ours import reference
from tinyattn.data import TextBatch, TextSampler
from tinyattn.models import DecoderNetwork
from tinyattn.tree import tree_map

RESULT, PAGE = RESULTS / "decoder_step.json", RESULTS / "decoder_step.md"
CONTENDERS = {"tinyattn": "numpy", "torch-sdpa": "torch", "torch-compile": "torch"}  # name: the package it needs
NETWORK = DecoderNetwork(n_tokens=96, context=256, dim=128, layers=4, heads=4)
BATCH, STEPS, ROUNDS, SEED = 32, 4, 9, 0
GOAL = {"must": 1.0, "good": 1.5, "moonshot": 3.0}  # torch-sdpa's time over tinyattn's


def draw(network: DecoderNetwork, batch: int, steps: int = STEPS) -> list[TextBatch]:
    """Batches of the library's sampler from a random text, in which the k-th token has a probability ~ 1 / k."""
    rng, weight = np.random.default_rng(SEED), 1 / np.arange(1, network.n_tokens + 1)
    tokens = rng.choice(network.n_tokens, (batch * steps + 1) * network.context + 1, p=weight / weight.sum())
    sampler = TextSampler(tokens, network.context, batch, SEED)
    return [sampler.batch(step) for step in range(steps)]


def measure(network: DecoderNetwork, batches: list[TextBatch], names: list[str], rounds: int) -> dict[str, Any]:
    weights = tree_map(lambda w: w.astype(np.float32), network.init(np.random.default_rng(SEED)))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), network, weights, batches, reference(network, weights, batches[0]))
        checked = check(names, Path(folder), "text")
        refuse(checked)
        found = in_rounds(names, Path(folder), rounds, SEED, "text")
    return {name: found[name] | {"check": checked[name]} for name in names}


def ratios(row: dict[str, Any], name: str) -> np.ndarray:
    """The contender's time divided by tinyattn's, for each round."""
    contenders = row["contenders"]
    return np.divide(contenders[name]["seconds"], contenders["tinyattn"]["seconds"])


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    title = (
        f"GPT's form, d {NETWORK.dim}, {NETWORK.layers} layers, {NETWORK.heads} heads, {NETWORK.n_tokens} tokens; "
        f"{BATCH} texts of {NETWORK.context} tokens, float32, no dropout, Adam."
    )
    lines = ["# A training step of a decoder, beside PyTorch", "", title, ""]
    for cpu, row in result.items():
        lines += [f"## {cpu}", "", *_table(row), "", verdict(row), "", *_remarks(row), ""]
    return "\n".join([*lines, "## How", "", HOW.strip(), "", "Made by `python benchmarks/decoder_step.py`.", ""])


def _table(row: dict[str, Any]) -> list[str]:
    lines = ["| | ms a step | times tinyattn's | (10th to 90th percentile) | peak MB |", "|---|---|---|---|---|"]
    for name, found in row["contenders"].items():
        low, middle, high = np.percentile(ratios(row, name), [10, 50, 90])
        cells = ["", ""] if name == "tinyattn" else [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
        cells = [f"{1e3 * np.median(found['seconds']):.0f}", *cells, f"{found['peak']:.0f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def summary(result: dict[str, Any]) -> str:
    """The part that docs/speed.md quotes: the table and the verdict for each CPU model."""
    parts = [[f"{made_on(row['machine'])}:", "", *_table(row), "", verdict(row)] for row in result.values()]
    return "\n\n".join("\n".join(part) for part in parts)


def verdict(row: dict[str, Any]) -> str:
    levels = ", ".join(f"{name} {least:g}" for name, least in GOAL.items())
    goal = f"Goal, eager PyTorch's time over tinyattn's: {levels}."
    if "torch-sdpa" not in row["contenders"]:
        return f"{goal} Not measured."
    value = float(np.median(ratios(row, "torch-sdpa")))
    reached = [name for name, least in GOAL.items() if value >= least]
    return f"{goal} Reached: {value:.2f}, {reached[-1] if reached else '**missed**'}."


def _remarks(row: dict[str, Any]) -> list[str]:
    machine = row["machine"]
    lines = [
        f"{row['rounds']} rounds of {STEPS} steps. {made_on(machine)}; OPENBLAS_CORETYPE was "
        f"{row['OPENBLAS_CORETYPE'] or 'not set'} and is not set for any contender.",
        "",
    ]
    for name, found in row["contenders"].items():
        about = ", ".join(f"{what} {value}" for what, value in found["about"].items())
        pools = ", ".join(" ".join(str(v) for v in pool.values() if v is not None) for pool in found["pools"])
        off = f"{found['check']['worst']} off by {found['check']['off']:.0e}, the rest by less"
        lines.append(f"- {name}: {about}; thread pools {pools or 'none that threadpoolctl knows'}; {off}")
    return lines


HOW = f"""
Every contender has a process of its own and {THREADS} threads, or workers, the same initial weights and the same
batches. In each round all are asked, one after the other and in random order, to train on the {STEPS} batches once.
Times are medians over rounds, ratios are taken within a round. Drawing batches is not timed; cutting them into
slices is, for tinyattn. Memory is the most that the process and its workers ever held.
torch-sdpa is eager: one matrix for queries, keys and values, scaled_dot_product_attention, nn.GELU's tanh form, the
table of embeddings also for the scores, fused Adam. torch-compile is the same model, compiled.
Before that each contender gave the loss and all gradients of the library in float64 to {TOLERANCE:g} of a parameter's
largest gradient.
"""


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {PAGE: page(result), SPEED: summary(result)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--contenders", default=",".join(CONTENDERS), metavar="NAME,NAME",
                        help=f"contenders to measure: {', '.join(CONTENDERS)}")  # fmt: skip
    args = parser.parse_args()
    names = args.contenders.split(",")
    if set(names) - CONTENDERS.keys() or "tinyattn" not in names:
        parser.error(f"{args.contenders}: expected tinyattn, and some of {', '.join(CONTENDERS)}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    names = [name for name in CONTENDERS if name in names and importlib.util.find_spec(CONTENDERS[name]) is not None]
    machine = describe()
    contenders = measure(NETWORK, draw(NETWORK, BATCH), names, args.rounds)
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[machine["cpu"]] = {
        "contenders": contenders,
        "machine": machine,
        "rounds": args.rounds,
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
    }
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
