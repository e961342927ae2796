"""Muon beside Adam at equal tuning: a decoder of characters, and SASRec on the default world.

    python benchmarks/muon.py [--seeds 3]

Both optimizers train for the same number of epochs with each learning rate of RATES, which falls to 0 along half a
cosine. Each row of the table has the rate that is best on validation in the mean over seeds, and shows its results on
test data. The decoder learns sentences of a random grammar, whose entropy is the lowest possible expected loss.
Writes benchmarks/results/muon.json and muon.md after each seed.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, made_on, measure_seeds
from tinyattn.data import Grammar, leave_one_out
from tinyattn.data.worlds import SeriesWorld
from tinyattn.evaluation.means import compare_means
from tinyattn.experiments.tables import cell, grid
from tinyattn.models import Decoder, SASRec

RESULT, PAGE = RESULTS / "muon.json", RESULTS / "muon.md"
OPTIMIZERS = ("adam", "muon")
RATES = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)      # the first grid ended at 0.016, its best rate
SHARED: dict[str, Any] = {"schedule": "cosine", "workers": 1}
DECODER, SASREC = "decoder, nats a character", "SASRec, NDCG@10"
EPOCHS = {DECODER: 10, SASREC: 30}
LOWER = {DECODER}                                  # models for which lower is better


def measure(seed: int) -> dict[str, Any]:
    """[validation, test] of each model, optimizer and rate."""
    train, valid, test = (Grammar(sentences=n, seed=3 * seed + i).generate() for i, n in enumerate((2000, 500, 500)))
    split = leave_one_out(SeriesWorld(seed=seed).generate())
    found: dict[str, Any] = {"seed": seed, DECODER: {}, SASREC: {}}
    for optimizer in OPTIMIZERS:
        found[DECODER][optimizer], found[SASREC][optimizer] = {}, {}
        for lr in RATES:
            options = SHARED | {"optimizer": optimizer, "lr": lr, "seed": seed}
            decoder = Decoder(epochs=EPOCHS[DECODER], **options).fit(train, progress=False)
            losses = [decoder.evaluate(text)["loss"] for text in (valid, test)]
            sasrec = SASRec(epochs=EPOCHS[SASREC], patience=0, **options).fit(split, progress=False)
            scores = [max(row["valid"] for row in sasrec.history), sasrec.evaluate(split)["ndcg@10"]]
            found[DECODER][optimizer][str(lr)], found[SASREC][optimizer][str(lr)] = losses, scores
    return found


def chosen(runs: Sequence[Any], model: str, optimizer: str) -> str:
    """The rate with the best mean on validation."""
    sign = -1 if model in LOWER else 1
    return max(map(str, RATES), key=lambda lr: sign * statistics.mean(run[model][optimizer][lr][0] for run in runs))


def page(result: dict[str, Any]) -> str:
    runs = result["runs"]
    lines = ["# Muon beside Adam", ""]
    for model in (DECODER, SASREC):
        rates = {optimizer: chosen(runs, model, optimizer) for optimizer in OPTIMIZERS}
        tested = {name: [run[model][name][rates[name]][1] for run in runs] for name in OPTIMIZERS}
        rows = [
            (name, [*(cell([run[model][name][str(lr)][0] for run in runs]) for lr in RATES), cell(tested[name])])
            for name in OPTIMIZERS
        ]
        lines += [f"## {model}", "", *grid([*(f"lr {lr}" for lr in RATES), "test, with the best"], rows), ""]
        if len(runs) > 1:
            gap = compare_means(tested["muon"], tested["adam"], paired=True)
            lines += [f"Muon ({rates['muon']}) less Adam ({rates['adam']}): {gap.size:+.4f}, 95 % interval "
                      f"{gap.low:+.4f} to {gap.high:+.4f}.", ""]  # fmt: skip
        ends = [name for name in OPTIMIZERS if float(rates[name]) in (RATES[0], RATES[-1])]
        lines += [f"The best rate of {' and '.join(ends)} is at an end of the grid.", ""] if ends else []
    return "\n".join([
        *lines,
        f"Columns of rates are means on validation ± the standard deviation of {len(runs)} seeds; the last is on test. "
        f"The decoder learns 2,000 sentences of the grammar in {EPOCHS[DECODER]} epochs (its entropy is "
        f"{Grammar().entropy:.4f}), SASRec the default world in {EPOCHS[SASREC]}; all else by default, the rate "
        "falling to 0 along half a cosine. Muon moves weight matrices and Adam everything else, at the same rate.",
        "",
        f"{made_on(result['machine'])}. Made by `python benchmarks/muon.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(words: Sequence[str] | None = None) -> None:
    measure_seeds(__doc__, measure, RESULT, PAGE, page, words)


if __name__ == "__main__":
    main()
