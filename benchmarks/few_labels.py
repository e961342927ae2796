"""What does a classifier of few labels gain from images without any? A ViT from scratch, and one that starts from BEiT.

    python benchmarks/few_labels.py [--seeds 5]

Drawn shapes, of which BEiT (Bao et al. 2022) sees 4,000 without their labels; a ViT then learns from 20 to 500 others
with theirs, and is tested on 1,000 that nobody has seen. Both see images as often.
Writes benchmarks/results/few_labels.json, a run at a time, and few_labels.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.children import tell
from benchmarks.machine import RESULTS, describe, write_pages
from tinyattn.data import IMAGE_SETS
from tinyattn.experiments.tables import cell, heading
from tinyattn.models import BEiT, ViT

RESULT, PAGE = RESULTS / "few_labels.json", RESULTS / "few_labels.md"
UNLABELLED, LABELS, TESTED = 4_000, (20, 100, 500), 1_000
SEEN = 6_000             # images that a classifier sees in all its epochs together


def measure(seed: int) -> dict[str, Any]:
    """Accuracies of one seed: of the images, and of all that is trained on them."""
    images = IMAGE_SETS["shapes"](images=UNLABELLED + max(LABELS) + TESTED, seed=seed).generate()
    beit = BEiT(seed=seed, workers=1).fit(images[:UNLABELLED].split(), progress=False)
    tested, found = images[-TESTED:], {}
    for n in LABELS:
        few, epochs = images[UNLABELLED : UNLABELLED + n], SEEN // n
        for name, how in (("scratch", {}), ("beit", {"start": beit})):
            vit = ViT(epochs=epochs, warmup=10, seed=seed, workers=1).fit(few, progress=False, **how)
            found[f"{name}, {n}"] = vit.evaluate(tested)["accuracy"]
    return {"seed": seed, "accuracy": found, "words": beit.evaluate(tested)["accuracy"]}


def page(result: dict[str, Any]) -> str:
    runs, machine = result["runs"], result["machine"]
    lines = heading([f"{n} labels" for n in LABELS])
    for name, title in (("scratch", "from scratch"), ("beit", "from BEiT")):
        found = [cell([run["accuracy"][f"{name}, {n}"] for run in runs], digits=3) for n in LABELS]
        lines.append(f"| {title} | {' | '.join(found)} |")
    ahead = [sum(run["accuracy"][f"beit, {n}"] > run["accuracy"][f"scratch, {n}"] for run in runs) for n in LABELS]
    lines.append(f"| BEiT ahead | {' | '.join(f'{n} of {len(runs)} seeds' for n in ahead)} |")
    words = cell([run["words"] for run in runs], digits=3)
    return "\n".join([
        "# Few labels, and images without any",
        "",
        *lines,
        "",
        f"Accuracy on {TESTED:,} drawn shapes of four kinds (chance: .25), mean ± standard deviation of {len(runs)} "
        f"seeds. BEiT has seen {UNLABELLED:,} other images without their labels; of the hidden patches of the tested "
        f"ones it calls {words} by their word. A ViT then has the labels of as many as the column says, and sees these "
        f"{SEEN:,} times altogether, in either row. All options but epochs and warm-up are the defaults.",
        "",
        f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, NumPy {machine['numpy']}, commit "
        f"{machine['commit']}, {machine['date']}. Made by `python benchmarks/few_labels.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args(words)
    if asked.seeds < 1:
        parser.error(f"{asked.seeds} seeds: expected at least 1")
    runs = []
    for seed in range(asked.seeds):
        tell(f"seed {seed}")
        runs.append(measure(seed))
    RESULT.write_text(json.dumps({"runs": runs, "machine": describe()}, indent=1) + "\n")
    write_pages(__file__, pages())
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
