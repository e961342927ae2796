"""Which sequences are long: from so many keys on, weights are computed again and not kept."""

import numpy as np
import pytest

from tinyattn.fast import tiles
from tinyattn.fast.tiles import FlashCache, FusedCache
from tinyattn.ops import Mask, attention


@pytest.mark.parametrize(("m", "rate", "kind"), [(4, 0.0, FusedCache), (5, 0.0, FlashCache), (2, 0.4, None),
                                                 (3, 0.4, FlashCache)])  # fmt: skip
def test_weights_are_kept_below_a_number_of_keys(m, rate, kind, rng, monkeypatch):
    """Queries are more than that; and with dropout, what is not long is left to the readable form."""
    monkeypatch.setattr(tiles, "LONG", 5)
    monkeypatch.setattr(tiles, "LONG_WITH_DROPOUT", 3)
    q, k, v = rng.standard_normal((1, 2, 7, 4)), *rng.standard_normal((2, 1, 2, m, 4))

    given = None, None, q, k, v, Mask()
    result = tiles.full_attention(*given, {}, rate, np.random.default_rng(0))
    assert (result is NotImplemented) if kind is None else (type(result[1]) is kind)
    assert tiles.full_attention(*given, {"bias": np.zeros((7, m))}, 0.0, None) is NotImplemented
    _, cache = tiles.full_attention(*given, {}, rate, None)              # without a key nothing is dropped
    np.testing.assert_allclose(cache.weights, attention(q, k, v)[1], rtol=0, atol=1e-13)


def test_a_scale_is_that_of_weights_and_gradients_however_long(rng, monkeypatch):
    (q, k, v, dout), found = rng.standard_normal((4, 1, 2, 5, 4)), []
    for long in (5, 6):
        monkeypatch.setattr(tiles, "LONG", long)
        out, cache = tiles.in_tiles(q, k, v, Mask(causal=True), scale=0.3)
        found.append([out, cache.weights, *cache.backward(dout)])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)
