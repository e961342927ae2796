"""Every kind against plain loops on the cases of its spec, and at the extremes that it names."""

import itertools

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import adapters
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import tolerance, widened
from tinyattn.check.specs import SPECS

LEADS = [(), (3,), (2, 3)]


def cases(spec):
    """The extremes that a spec names, and what it draws: without, with one and with several leading axes."""
    drawn = (spec.case(CaseDrawer.seeded(seed, (lead,))) for lead in LEADS for seed in range(6))
    return [*spec.special_cases(), *drawn]


@pytest.mark.parametrize("name", [spec.name for spec in SPECS.values() if spec.common and spec.oracle])
def test_forward(name):
    """Every kind against plain loops, on every device."""
    spec = SPECS[name]
    library = {"tinyattn.ops": ops, "tinyattn.check.adapters": adapters}[spec.ours().__name__]
    for case, dtype in itertools.product(cases(spec), (np.float64, np.float32)):
        cast = {n: x.astype(dtype) if getattr(x, "dtype", np.dtype("i")).kind == "f" else x for n, x in case.items()}
        exact = spec.oracle(**widened(cast))
        got = getattr(library, spec.function)(**cast)
        pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (got, exact)), strict=False)
        for mine, theirs in pairs:
            assert mine.dtype == dtype
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance(spec, cast))
