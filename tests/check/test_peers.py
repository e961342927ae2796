"""Held against the world: PyTorch where it is installed, HIPS autograd always. Both ways round."""

import importlib.util

import numpy as np
import pytest

from tests.check import peers
from tests.check.test_kinds import accused_by
from tinyattn.check.demands import upstream
from tinyattn.check.drawing import Pick
from tinyattn.check.kinds import KINDS
from tinyattn.check.subject import Subject

torch = pytest.param("torch_peer", marks=pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch"))  # fmt: skip
PEERS = [torch, "autograd_peer"]
BOTH = ["softmax", "linear", "layer_norm", "attention", "cross_entropy"]
TORCH_TOO = ["relu", "gelu", "embedding", "bce", "multi_head_attention"]
HELD = [pytest.param("autograd_peer", kind, id=f"autograd-{kind}") for kind in BOTH]
HELD += [pytest.param(*torch.values, kind, marks=torch.marks, id=f"torch-{kind}") for kind in BOTH + TORCH_TOO]


@pytest.mark.parametrize(("peer", "kind"), HELD)
def test_our_numbers_and_gradients_are_theirs(peer, kind):
    """To 1e-12 in float64, of the largest term, on forty numbered cases."""
    known = KINDS[kind]
    theirs, ours = Subject(getattr(peers, peer)(), known), Subject(known.ours(), known)
    compared = 0
    for seed in range(40):
        case = theirs.fit(known.case(Pick.numbered(seed)))
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


@pytest.mark.parametrize("kind", [*BOTH, *TORCH_TOO, "adam"])
@pytest.mark.parametrize("peer", [torch])
def test_the_checker_accuses_torch_of_nothing_but_conventions(peer, kind):
    op = Subject(getattr(peers, peer)(), KINDS[kind])
    accused = accused_by(op, KINDS[kind], seeds=8, but=CONVENTIONS.get(kind, set()))
    assert accused is None


@pytest.mark.parametrize("kind", BOTH)
def test_the_checker_accuses_autograd_of_nothing_in_float64(kind):
    op = Subject(peers.autograd_peer(), KINDS[kind])
    with np.errstate(all="ignore"):
        accused = accused_by(op, KINDS[kind], seeds=8, only=np.float64)
    assert accused is None


def _nothing_to_look_at(case):
    mask = case.get("mask")
    return mask is not None and not np.all(np.any(np.broadcast_to(mask, mask.shape), axis=-1))
