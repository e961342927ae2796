"""Every property of every op, on cases drawn by hypothesis."""

import pytest
from hypothesis import HealthCheck, given, settings

from tinyattn import ops
from tinyattn.check.properties import PROPERTIES
from tinyattn.check.properties.cases import CASES


def run(prop, examples):
    @settings(max_examples=examples, deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(CASES[prop.op])
    def holds(case):
        prop.holds(ops, **case)

    holds()


@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda p: f"{p.op}-{p.name}")
def test_property(prop):
    run(prop, 25)


@pytest.mark.slow
@pytest.mark.parametrize("prop", PROPERTIES, ids=lambda p: f"{p.op}-{p.name}")
def test_property_at_length(prop):
    run(prop, 500)
