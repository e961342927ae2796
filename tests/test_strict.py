"""The strict double itself, and every op on it: what runs there asks nothing of a device that CuPy does not have."""

import numpy as np
import pytest

from tests.models.worlds import uneven
from tests.strict import COUNTS, StrictArray, StrictError, strict
from tinyattn import backend, ops
from tinyattn.check.demands import upstream
from tinyattn.check.drawing import Pick
from tinyattn.check.kinds import KINDS
from tinyattn.check.subject import Subject
from tinyattn.data import Sampler
from tinyattn.layers import BLOCKS, leaves, tree_map
from tinyattn.models import SASRecNetwork
from tinyattn.ops.embedding import Rows

backend.register(StrictArray, strict)
OPS = [name for name, kind in KINDS.items() if kind.common and kind.ours() is ops]


def device(x):
    return strict.asarray(x) if isinstance(x, np.ndarray) else x


def host(x):
    return x.get() if isinstance(x, StrictArray) else x


@pytest.mark.parametrize("name", OPS)
def test_an_op_computes_there_what_it_computes_here(name):
    """Forward and backward, to the bit where no order of additions is free, on thirty cases."""
    kind = KINDS[name]
    op = Subject(ops, kind)
    for seed in range(30):
        case = kind.case(Pick.numbered(seed))
        there = {n: device(x) for n, x in case.items()}
        forward = getattr(ops, kind.function)
        expected, got = forward(**case), forward(**there)
        for x, y in zip(*(r if type(r) is tuple else (r,) for r in (expected, got)), strict=True):
            assert isinstance(y, StrictArray), f"{name} returned a {type(y).__name__}"
            np.testing.assert_array_equal(host(y), x)
        takes = op.prepared(case, upstream(kind, case))
        backward = getattr(ops, f"{kind.function}_backward")
        expected, got = backward(**takes), backward(**{n: device(x) for n, x in takes.items()})
        for x, y in zip(*(r if type(r) is tuple else (r,) for r in (expected, got)), strict=True):
            if x is None:
                assert y is None
                continue
            assert isinstance(y, StrictArray)
            np.testing.assert_allclose(host(y), x, rtol=0, atol=1e-6 if x.dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("form", BLOCKS)
def test_the_whole_network_computes_there_what_it_computes_here(form, loss):
    """Loss and every gradient, dropout on: masks are drawn on the host, from the same key."""
    data = uneven()
    network = SASRecNetwork(items=data.n_items, maxlen=4, dim=4, block_form=form, loss_name=loss)
    p = network.init(ops.generator(0, ops.Stream.INIT))
    batch = Sampler(data, 4, 7, 0, loss == "bce").batch(0)
    value, cache = network.loss(p, batch, np.random.default_rng(1))
    expected = dict(leaves(network.loss_backward(p, 1.0, cache)))
    there = tree_map(strict.asarray, p)
    value_there, cache = network.loss(there, batch.map(strict.asarray), np.random.default_rng(1))
    np.testing.assert_allclose(host(value_there), value, rtol=1e-13)
    for name, g in leaves(network.loss_backward(there, 1.0, cache)):
        mine, theirs = (x.values if isinstance(x, Rows) else x for x in (expected[name], g))
        np.testing.assert_allclose(host(theirs), mine, rtol=0, atol=1e-13, err_msg=name)


X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda x: np.exp(x), "unsupported|operand|device"),
        (lambda x: np.sum(x), "np.sum on a device array: use xp.sum"),
        (lambda x: np.concatenate([x, x]), "np.concatenate on a device array"),
        (lambda x: np.asarray(x), "an implicit copy to the host"),
        (lambda x: x + X, "a host array or a NumPy scalar among device arrays"),
        (lambda x: strict.exp(X), "exp: a host array"),
        (lambda x: x * np.float64(2), "a NumPy scalar"),
        (lambda x: strict.sum(x, where=x > 0), "CuPy's sum takes no where="),
        (lambda x: strict.errstate(), "CuPy has no errstate"),
        (lambda x: strict.add.outer_product(x), "CuPy's add has no outer_product"),
        (lambda x: [row for row in x], "iteration over a device array"),
        (lambda x: x[x > 1], "a boolean mask as an index"),
        (lambda x: x.__setitem__(strict.asarray([0, 0]), 1.0), "ids of which some repeat"),
        (lambda x: strict.broadcast_to(x[:1], (4, 3)).__iadd__(1), "a write into a broadcast"),
        (lambda x: X[strict.asarray(1)], "a device number as a Python index|implicit copy"),
    ],
)  # fmt: skip
def test_what_a_device_would_not_do_is_refused(what, says):
    with pytest.raises((StrictError, TypeError), match=says):
        what(strict.asarray(X))


def test_what_a_device_does_otherwise():
    x = strict.asarray(X)
    assert np.isnan(strict.empty((2,)).get()).all()
    np.testing.assert_array_equal(x[strict.asarray([5])].get(), X[[1]])  # 5 wraps to 1
    total = strict.zeros(3)
    strict.add.at(total, strict.asarray([0, 0, 2, 3]), strict.asarray([1.0, 2.0, 4.0, 8.0]))
    np.testing.assert_array_equal(total.get(), [11, 0, 4])


def test_calls_and_synchronisations_are_counted():
    x = strict.asarray(X)
    COUNTS.clear()
    y = strict.sum(x * 2 + 1)
    assert COUNTS == {"calls": 3, "synchronisations": 0}
    float(y)
    bool(y > 0)
    strict.unique(x)
    assert COUNTS["synchronisations"] == 3
