"""The part `one-more` of benchmarks/inference.py: one more token or item, with and without a cache."""

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.children import check, in_rounds, refuse, tell
from benchmarks.peers import THREADS
from benchmarks.peers.child import TOLERANCE
from benchmarks.peers.growing import ADDED, write
from benchmarks.ranking import shaken
from tinyattn.layers import MIXERS, nbytes
from tinyattn.models import DecoderNetwork, SASRecNetwork

SEED = 0
CONTENDERS = {"tinyattn": "numpy", "torch": "torch", "tinyattn-again": "numpy", "torch-again": "torch"}
TEXT = {"n_tokens": 96, "dim": 128, "layers": 4, "heads": 4}
HISTORY = {"n_items": 3_416, "maxlen": 200, "dim": 50, "blocks": 2, "heads": 1, "position": "rope"}
WINDOW = 32
RECURRENT = [name for name, mixer in MIXERS.items() if not mixer.keeps_tokens]
CASES: dict[str, tuple[Any, int]] = {
    **{f"token {n:,} of a text": (DecoderNetwork(context=n, **TEXT), n) for n in (64, 256, 1024)},
    **{
        f"token {n:,} of a text, window {WINDOW}": (
            DecoderNetwork(context=n, mechanism="window", window=WINDOW, **TEXT), n
        )
        for n in (64, 256, 1024)
    },
    **{
        f"token {n:,} of a text, mixer {mixer}": (DecoderNetwork(context=n, mixer=mixer, **TEXT), n)
        for mixer in RECURRENT
        for n in (64, 1024)
    },
    **{f"item {n} of a history": (SASRecNetwork(**HISTORY), n) for n in (50, 200)},
    **{
        f"item {n} of a history, mixer {mixer}": (SASRecNetwork(**HISTORY | {"mixer": mixer, "position": "none"}), n)
        for mixer in RECURRENT
        for n in (50, 200)
    },
}
GOAL = {"must": 2, "moonshot": 4}  # how many times as fast as PyTorch with its cache, for one more item


def numbers_of(network: Any, n: int) -> list[int]:
    rng = np.random.default_rng(SEED)
    if isinstance(network, DecoderNetwork):
        return rng.integers(0, network.n_tokens, n).tolist()
    return (1 + rng.choice(network.n_items, n, replace=False)).tolist()


def measure(names: list[str], rounds: int, cases: dict[str, tuple[Any, int]]) -> dict[str, Any]:
    names = [name for name in names if importlib.util.find_spec(CONTENDERS[name]) is not None]
    found = {}
    for case, (network, n) in cases.items():
        tell(f"-- {case}")
        with tempfile.TemporaryDirectory() as folder:
            plain = (network.mechanism, network.mixer) == ("full", "attention")
            of = [name for name in names if "torch" not in name or plain]
            write(Path(folder), network, shaken(network), numbers_of(network, n))
            checked = check(of, Path(folder), "growing")
            refuse(checked)
            contenders = in_rounds(of, Path(folder), rounds, SEED, "growing")
        found[case] = {name: contenders[name] | {"check": checked[name]} for name in of}
        found[case]["tinyattn"]["kept"] = kept(network, n)
    return found


def kept(network: Any, n: int) -> int:
    """Bytes of the cache after n tokens or items."""
    p, ids = shaken(network), np.array([numbers_of(network, n)])
    return nbytes(network.extend(p, ids)[1])


def times(row: dict[str, Any], name: str) -> np.ndarray:
    """The contender's time / tinyattn's, for every round."""
    return np.divide(row[name]["seconds"], row["tinyattn"]["seconds"])


def part(found: dict[str, Any]) -> str:
    """This part of the Markdown page, from its results alone."""
    machine = found["machine"]
    of = sorted({row[name]["about"]["torch"] for row in found["cases"].values() for name in row if "torch" in name})
    made = (
        f"{found['rounds']} rounds. {machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, NumPy "
        f"{machine['numpy']}, torch {', '.join(of) or 'not installed'}, commit {machine['commit']}, {machine['date']}."
    )
    off = max(row[name]["check"]["off"] for row in found["cases"].values() for name in row)
    return "\n".join([summary(found), "", HOW.strip().format(off=off), "", made])


def summary(found: dict[str, Any]) -> str:
    """The table and the goal, for docs/speed.md."""
    lines = ["| ms | " + " | ".join(HEADS.values()) + " | kept, kB |", "|---|" + "---|" * (1 + len(HEADS))]
    for case, row in found["cases"].items():
        cells = []
        for name in HEADS:
            if name not in row:
                cells.append("")
                continue
            cell = f"{1e3 * float(np.median(row[name]['seconds'])):.3g}"
            cells.append(cell if name == "tinyattn" else f"{cell} ({float(np.median(times(row, name))):.2f})")
        kilobytes = row["tinyattn"].get("kept", 0) / 1000
        shown = f"{kilobytes:,.0f}" if kilobytes >= 10 else f"{kilobytes:.1f}" if kilobytes else ""
        lines.append(f"| {case} | {' | '.join(cells)} | {shown} |")
    return "\n".join([*lines, "", verdict(found)])


def verdict(found: dict[str, Any]) -> str:
    """The goal and the result for the worst of the histories."""
    levels = ", ".join(f"{name} {least}" for name, least in GOAL.items())
    goal = f"Goal, of one more item, times as fast as PyTorch with its cache: {levels}."
    items = {case: row for case, row in found["cases"].items() if case.startswith("item") and "torch" in row}
    ratios = {case: float(np.median(times(row, "torch"))) for case, row in items.items()}
    if not ratios:
        return f"{goal} Not measured."
    worst = min(ratios, key=lambda case: ratios[case])
    reached = [name for name, least in GOAL.items() if ratios[worst] >= least]
    return f"{goal} Reached: {ratios[worst]:.2f} ({worst}), {reached[-1] if reached else '**missed**'}."


HEADS = {
    "tinyattn": "tinyattn",
    "torch": "PyTorch, cached",
    "tinyattn-again": "tinyattn, all again",
    "torch-again": "PyTorch, all again",
}
HOW = f"""
In brackets: times tinyattn's with its cache, medians of ratios within a round. The text's model is a decoder in GPT's
form, {TEXT["n_tokens"]} tokens, d {TEXT["dim"]}, {TEXT["layers"]} layers, {TEXT["heads"]} heads, with as much context
as the case names; a step ends with the scores of all tokens. With a window a token costs about the same however many
there were, and so it does with a recurrent mixer, where what is kept stays as it is, too (PyTorch is not measured
there). What is kept are keys and values, or states, of all layers, in float32. The history's model is SASRec with
rotary positions, or none with a recurrent mixer, {HISTORY["n_items"]:,} items, d {HISTORY["dim"]}, {HISTORY["blocks"]}
blocks; a step is
`session.add(item).best(10)`, and ends with the ten best items that are not in the history. (With learned positions,
which count from the newest item, nothing can be kept: there a session reads all again, which takes as long as the table
above says.) With a cache the last {ADDED[True]} tokens are timed, one by one; of "all again" the last {ADDED[False]},
which take longest. PyTorch is eager, in inference mode, with scaled_dot_product_attention, and keys and values in
buffers made once; "all again" reads all tokens for each, and scores the last (tinyattn scores all tokens of a text).
{THREADS} threads each. Before that, each gave after the last token what the library gives in float64, to {TOLERANCE:g}
of the largest; off by {{off:.0e}} at most.
"""
