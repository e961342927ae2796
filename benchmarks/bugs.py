"""Write what README says of models that are trained with bugs, from the runs of the experiment bugs.

    python benchmarks/bugs.py

It reads benchmarks/results/reproduce/bugs, and trains nothing: `tinyattn reproduce bugs` does that.
"""

import sys
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import README, RESULTS, read_no_arguments, write_pages
from tinyattn.experiments import EXPERIMENTS, Results, results_of
from tinyattn.experiments.bugs import BUGS, BY_RULE, DATA, Outcome, angle, findings, outcomes
from tinyattn.experiments.experiment import Runs
from tinyattn.experiments.tables import missing

EXPERIMENT = EXPERIMENTS["bugs"]
FOLDER = RESULTS / "reproduce" / EXPERIMENT.name
# The ten bugs of chapter 09: {name in the chapter: (kind, name) in the zoo of bugs}
TEN = {
    "no_scale": ("attention", "no_scale"),
    "scale_of_keys": ("attention", "scale_of_keys"),
    "softmax_axis": ("softmax", "axis"),
    "no_rowmax": ("softmax", "no_max"),
    "off_by_one_peek": ("attention", "off_by_one_peek"),
    "scale_np64": ("attention", "scale_np64"),
    "softmax_diag": ("softmax", "backward_diag"),
    "rowsum_missing": ("softmax", "backward_no_sum"),
    "dv_missing_batch": ("attention", "dv_missing_batch"),
    "backward_changes_input": ("attention", "backward_changes_input"),
}


def pages() -> dict[Path, str]:
    return {README: quote(results_of(EXPERIMENT, FOLDER))}


def quote(results: Results) -> str:
    """README's paragraph, from the runs that are finished."""
    left, total = sum(missing(EXPERIMENT, results).values()), len(EXPERIMENT.runs())
    so_far = f" ({total - left:,} of {total:,} runs so far)" if left else ""
    parts = (
        f"Why check, if the loss falls? A SASRec is trained with each of {len(BUGS) - len(BY_RULE)} known bugs of its "
        f"ops, and of {len(BY_RULE)} mutants of their backwards, one at a time{so_far}.",
        findings(results),
        "[What each of them does](benchmarks/results/reproduce/bugs/README.md).",
    )
    return " ".join(filter(None, parts))


def chapter(results: Results) -> list[str]:
    """Rows of chapter 09's table: the gradient's angle at the start and the change of NDCG@10, by bug and dataset."""
    found = {data: outcomes(results, data) for data in DATA}
    cells = {bug: [cell for data in DATA for cell in _cells(found[data].get(bug))] for bug in TEN.values()}
    return [f"| `{name}` | {' | '.join(cells[bug])} |" for name, bug in TEN.items()]


def _cells(of_bug: tuple[Outcome, Runs] | None) -> tuple[str, str]:
    if of_bug is None:
        return "", "to come"
    (verdict, cost, _), runs = of_bug
    turned = angle(runs)
    change = {"failed": "it raises", "within": "·"}.get(verdict, f"{-100 * cost:+.0f} %".replace("-", "−"))
    return "" if turned is None else f"{turned:.0f}°", change


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
