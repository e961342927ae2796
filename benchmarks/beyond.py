"""Rotary positions scaled at test time: the same weights on sequences 2 and 8 times as long as in training.

    python benchmarks/beyond.py [--seeds 3]

Taggers of two blocks learn four tasks of tokens on sequences of 32: the row "attention, rotary positions" of
`tinyattn reproduce kinds`, with its seeds. Without more training each then answers sequences of 64 and 256 tokens, with
every scaling of its angles; the factor is length / 32. Rotary positions have no parameters, so no weight changes.
Writes benchmarks/results/beyond.json and beyond.md after each seed.
"""

import copy
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, made_on, measure_seeds
from tinyattn.experiments.kinds import KINDS, LENGTH, TASKS, TRAINED
from tinyattn.experiments.tables import cell, grid
from tinyattn.models import Tagger

RESULT, PAGE = RESULTS / "beyond.json", RESULTS / "beyond.md"
LEARNED = ("recall-2", "recall-8", "induction", "copy")
LENGTHS = (64, 256)
# The scaled angles; llama3 has the end of its range from Llama 3.1, yarn from its paper
SCALINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "linear": {"rope_scaling": "linear"},
    "ntk": {"rope_scaling": "ntk"},
    "llama3": {"rope_scaling": "llama3", "rope_fast": 4.0},
    "yarn": {"rope_scaling": "yarn"},
    "yarn, a = 1": {"rope_scaling": "yarn", "rope_amplitude": 1.0},
}


def scaled(model: Tagger, scaling: str, length: int) -> Tagger:
    """The model with its weights, for sequences of `length` tokens."""
    options = {"rope_factor": length / LENGTH, "rope_trained": LENGTH} if SCALINGS[scaling] else {}
    other = copy.copy(model)
    other.network = replace(model.network, **SCALINGS[scaling], **options)
    return other


def measure(seed: int, **less: Any) -> dict[str, Any]:
    """The share of right answers of each task at the trained length, and by scaling at each other length."""
    found: dict[str, Any] = {"seed": seed}
    for name in LEARNED:
        task = replace(TASKS[name][1], **less)
        model = Tagger(**TRAINED | KINDS["rope"][1], seed=seed, workers=1)
        model.fit(task.generate().split(), progress=False)
        found[name] = {str(LENGTH): model.evaluate(task)["accuracy"]}
        for length in LENGTHS:
            longer = replace(task, length=length)
            found[name][str(length)] = {
                scaling: scaled(model, scaling, length).evaluate(longer)["accuracy"] for scaling in SCALINGS
            }
    return found


def page(result: dict[str, Any]) -> str:
    runs, columns = result["runs"], [TASKS[name][0] for name in LEARNED]
    held_out = TASKS[LEARNED[0]][1].held_out
    lines = ["# Rotary positions scaled at test time", ""]
    trained = [cell([run[name][str(LENGTH)] for run in runs], 3) for name in LEARNED]
    for length in LENGTHS:
        rows = [(f"{LENGTH} tokens, as trained", trained)]
        for scaling in SCALINGS:
            rows.append((scaling, [cell([run[name][str(length)][scaling] for run in runs], 3) for name in LEARNED]))
        lines += [f"## {length} tokens, factor {length // LENGTH}", "", *grid(columns, rows), ""]
    return "\n".join([
        *lines,
        f"The share of right answers of {held_out} unseen sequences, mean ± standard deviation of {len(runs)} seeds. "
        f"Models of two blocks (width {TRAINED['dim']}, two heads) were trained on {LENGTH} tokens alone; the scaling "
        "of their angles is chosen at the test, for the length of its sequences. *linear* slows all pairs of features "
        "by the factor. *ntk* slows the slowest pair by the factor and the fastest not at all; as the factor follows "
        "the sequence's length, this is also what dynamic NTK scaling computes. *llama3* and *yarn* slow pairs that "
        f"turn less than once in {LENGTH} tokens by the factor, and pairs that turn often not at all. *yarn* also "
        "multiplies scores by a², with a = 0.1 ln(factor) + 1; the last row has its angles alone "
        "([formulas](../../tinyattn/ops/positions/rotary_speeds.py)). A head has eight pairs.",
        "",
        f"{made_on(result['machine'])}. Made by `python benchmarks/beyond.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(words: Sequence[str] | None = None) -> None:
    measure_seeds(__doc__, measure, RESULT, PAGE, page, words)


if __name__ == "__main__":
    main()
