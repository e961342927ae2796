"""Forms that may be asked for: the same numbers as the faster ones, and backwards that go by their caches."""

import itertools

import numpy as np
import pytest

from tests.covering import covering
from tinyattn.fast import tiles
from tinyattn.forms import is_readable, readable
from tinyattn.layers import BLOCK_FORMS, MECHANISMS, Block, MultiHead
from tinyattn.ops import Mask
from tinyattn.tree import leaves

CHOICES = [(name, form, rate) for name, form in itertools.product(MECHANISMS, BLOCK_FORMS) for rate in (0.0, 0.4)
           if not (form == "sasrec" and rate and "dropout" not in MECHANISMS[name].takes)]  # fmt: skip


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_long_sequences_in_every_form(form, rate, rng, monkeypatch):
    """In tiles, the same dropout included, and with weights that are made only for who asks."""
    monkeypatch.setattr(tiles, "LONG", 1)
    monkeypatch.setattr(tiles, "LONG_WITH_DROPOUT", 1)
    test_every_mechanism_in_every_form("full", form, rate, rng)


PAIRS = covering(CHOICES, 2)


@pytest.mark.parametrize(("mechanism", "form", "rate"), [
    choice if choice in PAIRS else pytest.param(*choice, marks=pytest.mark.slow) for choice in CHOICES
])  # fmt: skip
def test_every_mechanism_in_every_form(mechanism, form, rate, rng):
    """y, one row, who looks at whom; and gradients of either cache, whether the readable form is asked for or not."""
    options = {"window": 3} if mechanism == "window" else {}
    block = Block(MultiHead(2, MECHANISMS[mechanism](**options)), form, rate=rate)
    p = block.init(rng, 4)
    for n, causal in ((1, True), (9, False), (40, True)):
        x, dy = rng.standard_normal((2, 3, n, 4))
        mask, at = Mask(causal=causal, lengths=np.array([n, max(n - 2, 1), 1])), np.array([n - 1, 0, 0])
        found, caches = [], []
        for wanted in (True, False):
            with readable(wanted):
                assert is_readable() == wanted
                y, cache = block.forward(p, x, mask=mask, rng=np.random.default_rng(1))
                row, _ = block.forward(p, x, mask=mask, at=at)
            caches.append(cache)
            found.append([y, row, cache.attention.weights])
        for cache, wanted in itertools.product(caches, (True, False)):
            with readable(wanted):
                dx, grads = block.backward(p, dy, cache)
            found.append([dx, *(g for _, g in leaves(grads))])
        for first, *others in (found[:2], found[2:]):
            for other in others:
                for mine, theirs in zip(first, other, strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-11)
    assert not is_readable()
