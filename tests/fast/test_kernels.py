"""Kernels, interpreted on a CPU by numba's simulator, on the double as a card for which they were proven."""

import importlib.util

import numpy as np
import pytest

from tests.devices import On
from tests.models.worlds import TINY
from tests.strict import COUNTS, _launched, strict
from tinyattn import backend
from tinyattn.check.specs import SPECS
from tinyattn.data import Sampler, leave_one_out
from tinyattn.fast import kernels
from tinyattn.forms import readable
from tinyattn.layers import dropout_mask
from tinyattn.models import SASRecNetwork
from tinyattn.random import MaskKeys
from tinyattn.training import Learner, Moments, Settings, adam
from tinyattn.training.adam import corrections

HERE = all(importlib.util.find_spec(name) for name in ("numba", "numba_cuda"))
pytestmark = [
    pytest.mark.host,
    pytest.mark.filterwarnings("ignore:.*overflow encountered in scalar"),  # of a hash, in the simulator's threads
]


@pytest.fixture
def proven(monkeypatch):
    """The double launches kernels: each is one call, on the arrays' numbers."""
    if not HERE:
        pytest.skip("kernels run where numba-cuda is: pip install -e '.[kernels]'")
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    kernels._is_proven.cache_clear()

    def launch(kernel, entries, *arguments):
        def compute():
            given = [x.host if isinstance(x, strict.ndarray) else x for x in arguments]
            kernel[-(-entries // 8), 8](*given)

        _launched("kernel", compute, *arguments)

    monkeypatch.setattr(kernels, "PROVEN", ("strict",))
    monkeypatch.setattr(kernels, "_launch", launch)
    yield
    kernels._is_proven.cache_clear()


@pytest.mark.parametrize("rows", [[0, 1, 2], [7, 2**31, 5]])
@pytest.mark.parametrize(("shape", "rate"), [((3, 5), 0.2), ((3, 3, 2), 0.5), ((3, 2, 3, 5), 0.99999), ((3, 0), 0.5)])
def test_a_mask_has_the_bits_of_the_readable_form(shape, rate, rows, proven):
    there = On("strict").there
    x, rows = strict.zeros(1), there(np.array(rows))
    key = there(np.array([0xFEDCBA9876543210], np.uint64))
    COUNTS.clear()
    mine = dropout_mask(x, shape, rate, MaskKeys(iter([key]), rows))
    assert COUNTS["calls"] == 2  # memory, and the kernel
    with readable():
        expected = dropout_mask(x, shape, rate, MaskKeys(iter([key]), rows))
    np.testing.assert_array_equal(mine.get(), expected.get())


def test_adam_in_one_kernel_is_adam_to_the_bit(proven, rng):
    """The readable form on the device is held to the definition by `tinyattn check adam`."""
    assert "adam" in SPECS
    start, found = rng.standard_normal(21).astype("f"), []
    gradients = rng.standard_normal((3, 21)).astype("f") * 10.0 ** rng.integers(-6, 6, 21).astype("f")
    for as_read in (False, True):
        vector, m, v = (strict.asarray(x) for x in (start, 0 * start, 0 * start))
        for step, gradient in enumerate(gradients, start=1):
            factors = tuple(strict.asarray(np.array([x], "f")) for x in corrections(step, 0.01))
            COUNTS.clear()
            with readable(as_read):
                assert adam(vector, strict.asarray(gradient), Moments(m, v), factors, lr=0.01) is None
            assert COUNTS["calls"] == (13 if as_read else 1)
        found.append([x.get() for x in (vector, m, v)])
    np.testing.assert_array_equal(*found)


def test_a_step_of_sasrec_with_them_has_fewer_calls_and_the_same_numbers(proven, monkeypatch):
    split = leave_one_out(TINY.generate())
    network = SASRecNetwork(n_items=split.train.n_items, maxlen=6, dim=4)
    batch, found, calls = Sampler(split.train, 6, 4, 0, True).batch(0), [], []
    for cards in (("strict",), ()):
        monkeypatch.setattr(kernels, "PROVEN", cards)
        kernels._is_proven.cache_clear()
        learner = Learner(network, Settings(device="strict"), [batch], steps=1)
        seen = learner.xp.zeros(2)
        COUNTS.clear()
        with learner.pool(1) as pool:
            learner.differentiate([batch], 0, seen, pool)
        learner.update(1)
        calls.append(COUNTS["calls"])
        found.append([backend.to_numpy(x) for x in (seen, learner.vector)])
    assert calls[1] - calls[0] == 5 * 13 + 12  # five masks, and Adam
    for mine, expected in zip(*found, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-7)


def test_nothing_is_launched_for_a_mask_without_entries():
    kernels._launch(None, 0)


def test_where_nothing_was_proven_the_readable_forms_compute():
    x = strict.zeros(3, dtype="f")
    assert kernels.adam(x, x, Moments(x, x), (x, x)) is NotImplemented
    assert kernels.dropout_mask(x, (3, 2), 0.5, MaskKeys(iter([x]), x)) is NotImplemented
    assert kernels.adam(np.zeros(3, "f"), x, Moments(x, x), 1) is NotImplemented
