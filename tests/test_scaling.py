"""The benchmark of ranks: its model of costs, and the page made of its results."""

import json

import pytest

from benchmarks import scaling
from benchmarks.machine import RESULTS, ROOT


def test_the_model_of_costs():
    points = {str(4 * size): 2 * 5e-6 + 4 * size / 1e9 for size in scaling.SIZES}
    latency, bandwidth = scaling.fitted(points)
    assert latency == pytest.approx(5e-6, rel=1e-3)
    assert bandwidth == pytest.approx(1e9, rel=1e-3)
    assert scaling.allreduce_seconds(4, 1e9, 1.0, 1e9) == pytest.approx(4 + 1.5)
    row = {"alike": 1.0, "slices": 8.0, "bytes": 2e9, "largest share": {"1": 1.0, "2": 0.5}}
    assert scaling.step_seconds(row, 1, 9.0, 1e9) == 9.0
    assert scaling.step_seconds(row, 2, 0.0, 1e9) == 1 + 4 + 2


def test_what_the_page_says_beside_its_tables():
    found, *_ = json.loads((RESULTS / "scaling.json").read_text()).values()
    text = " ".join((ROOT / "docs" / "scale.md").read_text().split())
    latency, bandwidth = scaling.fitted(found["allreduce"])
    steps, longer, beside = found["steps"], {}, {}
    for name, row in steps.items():
        workers, ranks = (row["taken"][how]["step"] for how in ("two workers", "two ranks"))
        longer[name] = ranks / scaling.step_seconds(row, 2, latency, bandwidth) - 1
        beside[name] = f"{100 * (workers / ranks - 1):.0f} %"
    assert "In A and C a step of two ranks takes about a tenth longer than the model says" in text
    assert all(0.08 < longer[name] < 0.12 for name in "AC")
    assert "in B it does not" in text
    assert longer["B"] < 0
    assert f"{beside['C']} (C), {beside['A']} (A) or {beside['B']} (B) longer with two workers" in text
    size = max(found["allreduce"], key=int)
    assert found["allreduce"][size] < scaling.allreduce_seconds(2, int(size), latency, bandwidth)

    def faster(name, ranks, costs):
        return steps[name]["taken"]["one process"]["step"] / scaling.step_seconds(steps[name], ranks, *costs)

    networks = {"here": (latency, bandwidth), **scaling.NETWORKS}
    slow, middle = (networks[name] for name in ("1 Gbit/s", "10 Gbit/s"))
    for costs in networks.values():
        assert max(faster("B", ranks, costs) for ranks in (32, 64)) < 1.01 * faster("B", 16, costs)
    assert max(faster("B", 2**power, slow) for power in range(1, 7)) < 1.5
    for name in "AC":
        assert faster(name, 64, middle) > 1.1 * faster(name, 32, middle)
        assert max(faster(name, 2**power, slow) for power in range(1, 7)) < 5
        times = steps[name]["taken"]["one process"]["step"] / steps["B"]["taken"]["one process"]["step"]
        assert 7 < times < 14
