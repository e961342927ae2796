"""gradcheck at its tolerances: an error of three times as much is reported, a third of it passes."""

import numpy as np
import pytest

from tinyattn.check import gradcheck, gradcheck_layer, gradcheck_model
from tinyattn.check.differences import FLOAT32_TOLERANCE, GradReport, _places

SIZES = [(3.0, False), (1 / 3, True)]


def product(x, w):
    return x @ w


def product_backward(factor, entry=(1, 2)):
    """dw is off by `factor` of its largest entry: at `entry`, or everywhere if that is None."""

    def backward(dy, x, w):
        dw = x.T @ dy
        off = factor * np.max(np.abs(dw))
        if entry is None:
            dw = dw + off
        else:
            dw[entry] += off
        return dy @ w.T, dw

    return backward


@pytest.fixture
def arrays(rng):
    return rng.standard_normal((4, 5)), rng.standard_normal((5, 3))


@pytest.mark.parametrize(("times", "agrees"), SIZES)
@pytest.mark.parametrize("tolerance", [1e-6, 1e-4])
def test_one_entry_of_an_op(times, agrees, tolerance, arrays):
    report = gradcheck(product, product_backward(times * tolerance), *arrays, tolerance=tolerance)
    assert bool(report) == agrees
    x, w = report.entries
    assert (x.name, w.name) == ("x", "w")
    assert x.error < tolerance / 10
    assert w.error == pytest.approx(times * tolerance, rel=0.1)
    if not agrees:
        assert w.index == (1, 2)
    assert report.worst == max(w.error, w.adjoint, x.error, x.adjoint)


@pytest.mark.parametrize(("times", "agrees"), SIZES)
def test_a_difference_in_float32_alone(times, agrees, arrays):
    def backward(dy, x, w):
        dx, dw = product_backward(0)(dy, x, w)
        if x.dtype == np.float32:
            dw[0, 0] += dw.dtype.type(times * 1e-3 * np.max(np.abs(dw)))
        return dx, dw

    report = gradcheck(product, backward, *arrays)
    assert bool(report) == agrees
    assert report.entries[1].error < 1e-6
    assert report.entries[1].float32_error == pytest.approx(times * 1e-3, rel=0.2)
    assert FLOAT32_TOLERANCE == 1e-3


def layer(p, x):
    return product(x, p["w"]), x


def layer_backward(factor):
    def backward(p, dy, x):
        dx, dw = product_backward(factor)(dy, x, p["w"])
        return dx, {"w": dw}

    return backward


@pytest.mark.parametrize(("times", "agrees"), SIZES)
def test_one_entry_of_a_layers_parameter(times, agrees, arrays):
    x, w = arrays
    assert bool(gradcheck_layer(layer, layer_backward(times * 1e-6), {"w": w}, x)) == agrees
    assert bool(gradcheck_layer(layer, layer_backward(times * 1e-3), {"w": w}, x, tolerance=1e-3)) == agrees


class Model:
    """The sum of squares of x w, whose gradient is off in one entry."""

    def __init__(self, factor, entry=(1, 2)):
        self.backward = product_backward(factor, entry)

    def loss(self, p, x, rng=None):
        y = x @ p["w"]
        return float(np.sum(y * y)), (x, y)

    def loss_backward(self, p, dloss, cache):
        x, y = cache
        return {"w": self.backward(2 * dloss * y, x, p["w"])[1]}


@pytest.mark.parametrize(("times", "agrees"), SIZES)
def test_one_entry_of_a_models_parameter(times, agrees, arrays):
    x, w = arrays
    assert bool(gradcheck_model(Model(times * 1e-6), {"w": w}, x, entries=None)) == agrees
    assert bool(gradcheck_model(Model(times * 1e-3), {"w": w}, x, entries=None, tolerance=1e-3)) == agrees


def test_a_random_direction_sees_what_no_entry_that_was_looked_at_does(arrays):
    x, w = arrays
    for entry in (None, (0, 0), (4, 2)):
        report = gradcheck_model(Model(1e-2, entry), {"w": w}, x, entries=0)
        assert not report
        assert report.worst > report.tolerance
    report = gradcheck_model(Model(0.0), {"w": w}, x, entries=0)
    assert report
    assert report.entries[0].error == 0


def test_half_of_the_places_are_the_largest_and_half_are_drawn():
    g = np.arange(100.0).reshape(10, 10)
    rng = np.random.default_rng(0)
    places = _places(rng, -g, 12)
    assert {(9, 9), (9, 8), (9, 7), (9, 6), (9, 5), (9, 4)} <= set(places)
    assert 6 < len(places) <= 12
    assert len({place for _ in range(20) for place in _places(rng, g, 12)}) > 50
    assert len(_places(rng, g, None)) == len(_places(rng, g, 100)) == 100
    assert _places(rng, g, 0) == []


def test_nothing_checked_is_no_agreement():
    assert not GradReport((), 1e-6)
    assert GradReport((), 1e-6).worst == 0


def test_the_key_draws_the_same_mask_at_every_call(arrays):
    def forward(p, x, rng=None):
        keep = np.ones_like(x) if rng is None else (rng.random(x.shape) < 0.5).astype(float)
        return (x * keep) @ p["w"], (x * keep, keep)

    def backward(p, dy, cache):
        x, keep = cache
        return (dy @ p["w"].T) * keep, {"w": x.T @ dy}

    x, w = arrays
    assert gradcheck_layer(forward, backward, {"w": w}, x, key=3)
    assert gradcheck_layer(forward, backward, {"w": w}, x)

    def without_mask(p, dy, cache):
        return dy @ p["w"].T, {"w": cache[0].T @ dy}

    unmasked = gradcheck_layer(forward, without_mask, {"w": w}, x, key=3)
    assert [entry.error > 1e-3 for entry in unmasked.entries] == [True, False]
