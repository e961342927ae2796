"""What README says of bugs that train, from the runs of the experiment bugs.

    python benchmarks/bugs.py

It reads benchmarks/results/reproduce/bugs, and trains nothing: `tinyattn reproduce bugs` does.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import README, RESULTS, read_no_arguments, write_pages
from tinyattn.experiments import EXPERIMENTS, Results, results_of
from tinyattn.experiments.bugs import BUGS, findings
from tinyattn.experiments.tables import missing

EXPERIMENT = EXPERIMENTS["bugs"]
FOLDER = RESULTS / "reproduce" / EXPERIMENT.name


def pages() -> dict[Path, str]:
    return {README: quote(results_of(EXPERIMENT, FOLDER))}


def quote(results: Results) -> str:
    """What README says, from the runs there are."""
    left, total = sum(missing(EXPERIMENT, results).values()), len(EXPERIMENT.runs())
    so_far = f" ({total - left:,} of {total:,} runs so far)" if left else ""
    parts = (
        f"Why check, if the loss falls? A SASRec is trained with each of {len(BUGS)} known bugs of its ops, one at a "
        f"time{so_far}.",
        findings(results),
        "[What each of them does](benchmarks/results/reproduce/bugs/README.md).",
    )
    return " ".join(filter(None, parts))


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
