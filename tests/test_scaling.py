"""The benchmark of ranks: its model of costs, and the page made of its results."""

import pytest

from benchmarks import scaling


def test_the_model_of_costs():
    points = {str(4 * size): 2 * 5e-6 + 4 * size / 1e9 for size in scaling.SIZES}
    latency, bandwidth = scaling.fitted(points)
    assert latency == pytest.approx(5e-6, rel=1e-3)
    assert bandwidth == pytest.approx(1e9, rel=1e-3)
    assert scaling.allreduce_seconds(4, 1e9, 1.0, 1e9) == pytest.approx(4 + 1.5)
    row = {"alike": 1.0, "slices": 8.0, "bytes": 2e9, "largest share": {"1": 1.0, "2": 0.5}}
    assert scaling.step_seconds(row, 1, 9.0, 1e9) == 9.0
    assert scaling.step_seconds(row, 2, 0.0, 1e9) == 1 + 4 + 2
