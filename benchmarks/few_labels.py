"""What does a classifier with few labelled images gain from unlabelled ones? Compare ViTs with and without BEiT.

    python benchmarks/few_labels.py [--seeds 3]

BEiT (Bao et al. 2022) learns from 4,000 images of shapes without labels. A ViT that starts from its weights then learns
from 20, 100 or 500 labelled images, and is tested on 1,000 others. A ViT from scratch trains for as many epochs on the
same labelled images. In a row of its own it trains ten times as long, and then sees about as many images as BEiT and
its ViT together.
Writes benchmarks/results/few_labels.json, after each seed, and few_labels.md.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import RESULTS, made_on, measure_seeds
from tinyattn.data import IMAGE_SETS
from tinyattn.experiments.tables import cell, heading
from tinyattn.models import BEiT, ViT

RESULT, PAGE = RESULTS / "few_labels.json", RESULTS / "few_labels.md"
UNLABELLED, LABELS, TESTED = 4_000, (20, 100, 500), 1_000
SEEN = 6_000             # images that a classifier sees over all epochs
TIMES = {"scratch": 1, "longer": 10, "beit": 1}
ROWS = {"scratch": "from scratch", "longer": "from scratch, ten times as long", "beit": "from BEiT"}


def measure(seed: int) -> dict[str, Any]:
    """Accuracies for one seed, which determines the images and the training."""
    images = IMAGE_SETS["shapes"](images=UNLABELLED + max(LABELS) + TESTED, seed=seed).generate()
    beit = BEiT(seed=seed, workers=1).fit(images[:UNLABELLED], progress=False)
    tested, found = images[-TESTED:], {}
    for n in LABELS:
        few = images[UNLABELLED : UNLABELLED + n]
        for row, times in TIMES.items():
            vit = ViT(epochs=times * SEEN // n, warmup=10, seed=seed, workers=1)
            vit.fit(few, progress=False, start=beit if row == "beit" else None)
            found[f"{row}, {n}"] = vit.evaluate(tested)["accuracy"]
    batch = beit.evaluation_batch(tested)
    blind = float(np.max(np.bincount(batch.words[batch.hidden]))) / batch.total
    return {"seed": seed, "accuracy": found, "words": beit.evaluate(tested)["accuracy"], "blind": blind}


def page(result: dict[str, Any]) -> str:
    runs, machine = result["runs"], result["machine"]
    lines = heading([f"{n} labels" for n in LABELS])
    for row, title in ROWS.items():
        found = [cell([run["accuracy"][f"{row}, {n}"] for run in runs], digits=3) for n in LABELS]
        lines.append(f"| {title} | {' | '.join(found)} |")
    words, blind = (cell([run[name] for run in runs], digits=3) for name in ("words", "blind"))
    return "\n".join([
        "# Few labels, and images without any",
        "",
        *lines,
        "",
        f"Accuracy on {TESTED:,} drawn shapes of four kinds (chance: .25), mean ± standard deviation of {len(runs)} "
        f"seeds. A ViT learns from as many images with labels as the column says, and sees {SEEN:,} in all its epochs "
        f"together, or ten times as many. BEiT has learned before from {UNLABELLED:,} other images without their "
        f"labels; it predicts the right visual word for {words} of the hidden patches of the tested images, where the "
        f"commonest word would be right for {blind}. All options but epochs and warm-up are the defaults.",
        "",
        f"{made_on(machine)}. Made by `python benchmarks/few_labels.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(words: Sequence[str] | None = None) -> None:
    measure_seeds(__doc__, measure, RESULT, PAGE, page, words)


if __name__ == "__main__":
    main()
