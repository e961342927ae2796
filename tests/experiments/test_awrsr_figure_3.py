"""What docs/awrsr.md says about figure 3 of the paper, from the maps of one user in each run."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RUNS = ROOT / "benchmarks" / "results" / "reproduce" / "awrsr"
PLACES = {
    "SASRec on MovieLens 1M": "ml-1m-sasrec", "STOSA on MovieLens 1M": "ml-1m-stosa",
    "SASRec on Beauty": "beauty-sasrec", "STOSA on Beauty": "beauty-stosa",
}  # fmt: skip


def newest_five(row, name):
    """The weight that the newest item gives to the five newest, in each run of a row."""
    runs = [json.loads(path.read_text()) for path in sorted(RUNS.glob(f"{row}-seed*.json"))]
    assert len(runs) >= 3
    return [sum(run["attention"][name][-1][-5:]) for run in runs]


@pytest.mark.parametrize("place", PLACES)
def test_the_least_and_the_most_of_all_runs_are_those_of_the_page(place):
    key = PLACES[place]
    shown = [newest_five(f"{key}-none", "weights"), newest_five(f"{key}-simp", "unrefined"),
             newest_five(f"{key}-simp", "weights")]  # fmt: skip
    page = (ROOT / "docs/awrsr.md").read_text()
    line = re.search(rf"^\| {place} \| (\.\d\d to \.\d\d) \| (.*?) \| (.*?) \|$", page, re.M)
    assert line is not None
    for values, cell in zip(shown, line.groups(), strict=True):
        least, most = (float(x) for x in cell.split(" to "))
        assert abs(min(values) - least) < 0.00501
        assert abs(max(values) - most) < 0.00501
    backbone, A, B = (sum(values) / len(values) for values in shown)
    assert backbone < B
    assert (backbone < A) == place.endswith("Beauty")
