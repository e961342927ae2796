"""RoBERTa's choices on a small text: masks drawn once or at every reading, and larger batches.

    python benchmarks/roberta.py [--seeds 3]

An encoder learns 1,000 sentences of the grammar in 30 epochs. BERT's released code drew ten masks of each window
before training; RoBERTa (Liu et al. 2019) draws a new one whenever a window is read, and has larger batches. Each
encoder is tested on 500 new sentences. Writes benchmarks/results/roberta.json, after each seed, and roberta.md.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import RESULTS, made_on, measure_seeds
from tinyattn.data import Grammar, GrammarChain, MaskedTextSampler, TextBatch, rows_of_step
from tinyattn.experiments.tables import cell, heading
from tinyattn.models import Encoder
from tinyattn.random import Stream

RESULT, PAGE = RESULTS / "roberta.json", RESULTS / "roberta.md"
EPOCHS, BATCH = 30, 8
OFTEN = EPOCHS                             # a mask for each reading
ROWS: dict[str, tuple[int, dict[str, Any]]] = {
    "one mask a window": (1, {}),
    "ten masks a window, in turn (BERT)": (10, {}),
    "a new mask at every reading (RoBERTa)": (OFTEN, {}),
    "the same, batches of 64": (OFTEN, {"batch_size": 8 * BATCH}),
    "the same, batches of 64, twice the rate": (OFTEN, {"batch_size": 8 * BATCH, "lr": 6e-3}),
}


@dataclass(frozen=True)
class FixedWindows(MaskedTextSampler):
    """The same windows in every epoch. Each window has `masks` fixed masks; the epochs use them in turn."""

    masks: int = 1

    def batch(self, step: int) -> TextBatch:
        rows = np.arange(self.windows)
        epoch = self._masked(self._of(rows * self.width, rows), Stream.MASKING, step // self.steps % self.masks)
        return TextBatch(*(x[rows_of_step(self.windows, self.steps, self.seed, step)] for x in epoch))


class Fixed(Encoder):
    """An encoder trained on FixedWindows."""

    masks = 1

    def sampler(self, numbered: Any) -> FixedWindows:
        return FixedWindows(**vars(super().sampler(numbered)), masks=self.masks)


def measure(seed: int) -> dict[str, Any]:
    """The loss of each row, and of the grammar's true probabilities, in nats a hidden character."""
    text, tested = (Grammar(sentences=n, seed=s).generate() for n, s in ((1000, 2 * seed), (500, 2 * seed + 1)))
    losses = {}
    for row, (masks, options) in ROWS.items():
        model = Fixed(**{"epochs": EPOCHS, "batch_size": BATCH, "dim": 32, "seed": seed, "workers": 1} | options)
        model.masks = masks
        losses[row] = model.fit(text, progress=False).evaluate(tested)["loss"]
    best = GrammarChain.of_rules().loss(model.evaluation_batch(tested), model.tokens.strings, model.masking)
    return {"seed": seed, "loss": losses, "best": best}


def page(result: dict[str, Any]) -> str:
    runs = result["runs"]
    best = cell([run["best"] for run in runs], digits=3)
    return "\n".join([
        "# RoBERTa's choices, on a small text",
        "",
        *heading(["nats a hidden character"]),
        *(f"| {row} | {cell([run['loss'][row] for run in runs], digits=3)} |" for row in ROWS),
        "",
        f"Loss on 500 new sentences of the grammar, mean ± standard deviation of {len(runs)} seeds; the grammar's true "
        f"probabilities have {best}. The encoder learns 1,000 sentences in {EPOCHS} epochs: width 32, batches of "
        f"{BATCH} windows, all else by default. Each row reads the text as often; batches of 64 take an eighth of the "
        "steps.",
        "",
        f"{made_on(result['machine'])}. Made by `python benchmarks/roberta.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(words: Sequence[str] | None = None) -> None:
    measure_seeds(__doc__, measure, RESULT, PAGE, page, words)


if __name__ == "__main__":
    main()
