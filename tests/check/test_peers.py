"""This library and the checker, compared with PyTorch, where it is installed, and with HIPS autograd."""

import importlib.util

import numpy as np
import pytest

from tests.check import peers
from tests.helpers import accused_by
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import upstream
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject

torch = pytest.param("torch_peer", marks=pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch"))  # fmt: skip
BOTH = ["softmax", "linear", "layer_norm", "attention", "cross_entropy"]
TORCH_TOO = ["relu", "gelu", "embedding", "bce", "multi_head_attention", "rms_norm", "gelu_feed_forward"]
TORCH_TOO += ["grouped_query_attention"]
HELD = [pytest.param("autograd_peer", spec, id=f"autograd-{spec}") for spec in BOTH]
HELD += [pytest.param(*torch.values, spec, marks=torch.marks, id=f"torch-{spec}") for spec in BOTH + TORCH_TOO]


@pytest.mark.parametrize(("peer", "spec"), HELD)
def test_our_numbers_and_gradients_are_theirs(peer, spec):
    """Within 1e-12 of the largest term in float64, on forty seeded cases."""
    known = SPECS[spec]
    theirs, ours = Subject(getattr(peers, peer)(), known), Subject(known.ours(), known)
    compared = 0
    for seed in range(40):
        case = theirs.fit(known.case(CaseDrawer.seeded(seed)))
        case = {n: x.astype(float) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for n, x in case.items()}
        got, expected = ours(**case), theirs(**case)
        if np.any(np.isnan(expected)):
            assert _nothing_to_look_at(case)  # a convention: see docs/check.md
            continue
        scale = known.scale(case)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * scale)
        gradients, others = (op.gradients(case, *upstream(known, case)) for op in (ours, theirs))
        assert gradients.keys() == others.keys()
        for name, g in gradients.items():
            atol = 1e-12 * scale * max(1, np.max(np.abs(g)))
            np.testing.assert_allclose(g, others[name], rtol=0, atol=atol, err_msg=name)
        compared += 1
    assert compared >= 20


# What PyTorch does otherwise, and does on purpose: docs/check.md has the table.
CONVENTIONS = {
    "multi_head_attention": {"oracle", "nothing_to_look_at"},  # a query that may look at nothing gets NaN
}


@pytest.mark.parametrize("spec", [*BOTH, *TORCH_TOO, "adam"])
@pytest.mark.parametrize("peer", [torch])
def test_the_checker_accuses_torch_of_nothing_but_conventions(peer, spec):
    op = Subject(getattr(peers, peer)(), SPECS[spec])
    accused = accused_by(op, SPECS[spec], seeds=8, but=CONVENTIONS.get(spec, set()))
    assert accused is None


@pytest.mark.parametrize("spec", BOTH)
def test_the_checker_accuses_autograd_of_nothing_in_float64(spec):
    op = Subject(peers.autograd_peer(), SPECS[spec])
    with np.errstate(all="ignore"):
        accused = accused_by(op, SPECS[spec], seeds=8, only=np.float64)
    assert accused is None


def _nothing_to_look_at(case):
    mask = case.get("mask")
    return mask is not None and not np.all(np.any(mask, axis=-1))
