"""The gradient checker: it finds wrong gradients and names them."""

import inspect
import re
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn import ops
from tinyattn.check import gradcheck, gradcheck_layer, gradcheck_model
from tinyattn.check.binding import named_results
from tinyattn.data import Sampler
from tinyattn.layers import dense, dense_backward, dense_init
from tinyattn.models import SASRecNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten

X, W, B = (np.random.default_rng(0).standard_normal(shape) for shape in ((2, 3, 4), (4, 5), (5,)))


def given(kind, dtype=np.float64):
    """A network, its parameters and a batch."""
    data = uneven()
    network = kind(n_items=data.n_items, maxlen=4, dim=4)
    return network, flatten(network.init(generator(0, Stream.INIT)), dtype)[1], Sampler(data, 4, 7, 0, True).batch(0)


def right(dy, x, W):
    return ops.linear_backward(dy, x, W)


def wrong(change):
    """linear's backward with its gradients changed."""

    def backward(dy, x, W):
        return change(*ops.linear_backward(dy, x, W))

    return backward


def test_right_gradients_agree():
    report = gradcheck(ops.linear, right, X, W, B)
    assert report
    assert [entry.name for entry in report.entries] == ["x", "W", "b"]
    assert report.worst < 1e-8
    assert "agree" in str(report)
    assert gradcheck(ops.linear, right, X, W)  # db for a b that was None is no surplus


@pytest.mark.parametrize(
    ("change", "argument", "says"),
    [
        (lambda dx, dW, db: (-dx, dW, db), "x", "derived"),
        (lambda dx, dW, db: (dx, dW * (1 + 1e-5), db), "W", "derived"),
        (lambda dx, dW, db: (dx, dW, db + 1e-5), "b", "derived"),
        (lambda dx, dW, db: (dx, dW), "b", "no gradient was returned"),
        (lambda dx, dW, db: dx, "W", "no gradient was returned"),
        (lambda dx, dW, db: (dx, dW, db, db), "(surplus)", "1 more gradients"),
        (lambda dx, dW, db: (dx, dW.T, db), "W", "wrong shape: gradient (5, 4), argument (4, 5)"),
        (lambda dx, dW, db: (dx, dW, db[None]), "b", "wrong shape"),
        (lambda dx, dW, db: (dx, dW, db * np.nan), "b", "not finite"),
        (lambda dx, dW, db: (dx, np.where(dW == dW.max(), dW + 1e-4, dW), db), "W", "derived"),
    ],
)
def test_what_is_wrong_is_named(change, argument, says):
    report = gradcheck(ops.linear, wrong(change), X, W, B)
    assert not report
    bad = [entry for entry in report.entries if entry.error > report.tolerance]
    assert bad[0].name == argument
    assert says in str(bad[0])
    assert "DIFFER" in str(report)


def test_the_place_of_the_worst_entry():
    def backward(dy, x, W):
        dx, dW, db = ops.linear_backward(dy, x, W)
        dW[3, 2] += 1
        return dx, dW, db

    entry = gradcheck(ops.linear, backward, X, W, B).entries[1]
    assert entry.index == (3, 2)
    np.testing.assert_allclose(entry.derived - entry.measured, 1, atol=1e-6)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_small_and_large_gradients_are_judged_by_their_own_size(size):
    def square(x):
        return size * x * x

    def by(factor):
        return lambda dy, x: factor * size * dy * x

    assert gradcheck(square, by(2.0), np.linspace(0.5, 2, 4))
    assert not gradcheck(square, by(0.0), np.linspace(0.5, 2, 4))
    assert not gradcheck(square, by(2.001), np.linspace(0.5, 2, 4))


def test_at_a_kink_any_slope_between_the_two_sides_is_right():
    """ReLU at 0: 0, 1/2 and 1 are right, and nothing else is; beside the kink there is one slope."""
    x = np.array([0.0, 0.5, -0.5, 1e-7])

    def slope(at_zero):
        return lambda dy, x: dy * np.where(x == 0, at_zero, x > 0)

    for right_slope in (0.0, 0.5, 1.0):
        assert gradcheck(ops.relu, slope(right_slope), x), right_slope
    for wrong_slope in (-0.5, 1.5):
        report = gradcheck(ops.relu, slope(wrong_slope), x)
        assert not report
        assert report.entries[0].index == (0,)
    assert not gradcheck(ops.relu, lambda dy, x: dy * (x >= 1e-6), np.array([1e-5, 0.5, 2e-7]))


@pytest.mark.parametrize("wrong", [2.0, np.nan, np.inf])
def test_a_backward_that_is_wrong_in_float32_alone(wrong):
    def backward(dy, x, W):
        dx, dW, db = ops.linear_backward(dy, x, W)
        return (dx, dW, db) if x.dtype == np.float64 else (dx, np.float32(wrong) * dW, db)

    report = gradcheck(ops.linear, backward, X, W, B)
    assert not report
    assert [e.name for e in report.entries if not report.agrees(e)] == ["W"]
    assert report.entries[1].float32_error > 0.1
    assert report.entries[0].float32_error < 1e-5


def test_arguments_are_bound_by_name_and_further_outputs_in_order():
    def forward(x, k=3.0):
        return k * x, x + 1, x + 2

    def backward(dy, second, x, third, k):
        np.testing.assert_array_equal(second, x + 1)
        np.testing.assert_array_equal(third, x + 2)
        return k * dy

    assert gradcheck(forward, backward, np.ones(3), k=5.0)

    def asks_too_much(dy, x, a, b, c, d):
        return dy

    with pytest.raises(TypeError, match="requires c, d, expected inputs and outputs of the forward"):
        gradcheck(forward, asks_too_much, np.ones(3))


def test_what_was_saved_may_have_a_name_with_a_d_in_front():
    def drop(x):
        drop_mask = np.arange(x.size) % 2 == 0
        return x * drop_mask, drop_mask

    assert gradcheck(drop, lambda dout, drop_mask: dout * drop_mask, np.ones(4))

    def rms(x):
        denom = np.sqrt(np.mean(x * x))
        return x / denom, denom

    def saved_first(dout, denom, x):
        return dout / denom - x * np.mean(dout * x) / denom**3

    def under_another_name(dout, divisor, x):
        return saved_first(dout, divisor, x)

    for backward in (saved_first, under_another_name):
        assert gradcheck(rms, backward, np.array([1.0, -2.0, 0.5])), backward

    def two(x):
        s, c = np.sin(x), np.cos(x)
        return s, c

    assert gradcheck(two, lambda ds, dc, x: ds * np.cos(x) - dc * np.sin(x), np.ones(3))
    assert gradcheck(lambda x: (np.sin(x), np.cos(x)), lambda ds, dc, x: ds * np.cos(x) - dc * np.sin(x), np.ones(3))


def test_the_names_of_results_are_those_of_the_last_return():
    def forward(x):
        if x is None:
            return x
        y, denom = x, x
        if denom is not None:
            return y, 2 * y, denom

        def inner(a, b):
            return a, b

        raise ValueError(inner)

    assert named_results(forward) == ("y", "", "denom")
    assert named_results(square) == named_results(np.sin) == ("",)


def test_what_a_backward_takes_besides_stays_as_it_is():
    def backward(dy, x, into=None):
        assert into is None
        return 2 * x * dy

    assert gradcheck(lambda x: x * x, backward, np.arange(3.0))


def test_weights_and_targets_are_constants_unless_named():
    z, t = np.array([0.5, -1.0]), np.array([1.0, 0.0])
    assert gradcheck(ops.bce_with_logits, ops.bce_with_logits_backward, z, t)

    def scaled(x, weights):
        return x * weights

    assert gradcheck(scaled, lambda dy, x, weights: (dy * weights, dy * x), z, t + 2, wrt=("x", "weights"))
    assert not gradcheck(scaled, lambda dy, x, weights: dy * weights, z, t + 2, wrt=("x", "weights"))


def test_inputs_keep_their_bits():
    x, w, b = X.copy(), W.copy(), B.copy()
    assert gradcheck(ops.linear, right, x, w, b)
    assert x.tobytes() + w.tobytes() + b.tobytes() == X.tobytes() + W.tobytes() + B.tobytes()


def test_what_a_backward_writes_moves_no_number_and_is_said():
    """The gradient is compared with differences at the original arrays, whatever the backward writes."""

    def leaky(x):
        return np.where(x > 0, x, 0.1 * x)

    def relu_backward(dout, x):
        dout[x < 0] = 0
        return dout

    report = gradcheck(leaky, relu_backward, np.array([-2.0, -1.0, 0.5, 2.0]))
    assert report.entries[0].error > 0.01
    assert str(report).startswith("gradients DIFFER")
    assert "the backward writes into its argument dout" in str(report)

    def in_place(dy, x):
        x *= 2
        dy *= x
        return dy

    report = gradcheck(lambda x: x * x, in_place, np.array([-2.0, 0.5]))
    assert not report
    assert report.entries[0].error < 1e-8
    assert "gradients agree, but" in str(report)
    assert "writes into its argument dy, x:" in str(report)


def test_what_a_layers_backward_writes_moves_no_number_and_is_said():
    def backward(p, dy, cache):
        dy *= 0
        return dense_backward(p, dy, cache)

    report = gradcheck_layer(dense, backward, dense_init(generator(0, Stream.INIT), 4, 5), X)
    assert report.entries[0].error > 0.1
    assert "the backward writes into its argument dy" in str(report)


def test_float32_is_refused_by_all_three():
    with pytest.raises(TypeError, match="x is float32, expected float64"):
        gradcheck(ops.linear, right, X.astype("f"), W, B)
    p = dense_init(generator(0, Stream.INIT), 4, 5)
    with pytest.raises(TypeError, match="an array of inputs is float32, expected float64"):
        gradcheck_layer(dense, dense_backward, p, X, X.astype("f"))
    with pytest.raises(TypeError, match="an array of p is float32"):
        gradcheck_layer(dense, dense_backward, {"W": W, "b": B.astype("f")}, X)
    network, p, batch = given(SASRecNetwork, np.float32)
    with pytest.raises(TypeError, match="float32"):
        gradcheck_model(network, p, batch)


def test_a_wrong_layer_is_caught():
    def backward(p, dy, cache):
        dx, grads = dense_backward(p, dy, cache)
        return dx, {"W": grads["W"], "b": 0 * grads["b"]}

    report = gradcheck_layer(dense, backward, dense_init(generator(0, Stream.INIT), 4, 5), X)
    assert [entry.name for entry in report.entries if entry.error > report.tolerance] == ["b"]


@pytest.mark.parametrize("leaf", ["items", "positions", "norm"])
def test_a_wrong_model_is_caught(leaf):
    class Wrong(SASRecNetwork):
        def loss_backward(self, p, dloss, cache):
            grads = super().loss_backward(p, dloss, cache)
            if leaf == "norm":
                grads["norm"]["gamma"] = grads["norm"]["gamma"] * 1.001
            elif leaf == "positions":
                grads["positions"] = grads["positions"] * 1.001
            else:
                grads["items"] = grads["items"]._replace(values=grads["items"].values * 1.001)
            return grads

    network, p, batch = given(Wrong)
    report = gradcheck_model(network, p, batch)
    bad = {entry.name for entry in report.entries if entry.error > report.tolerance}
    assert bad == {"norm.gamma" if leaf == "norm" else leaf}


def test_a_model_whose_backward_writes_into_its_parameters():
    """The differences are taken at the parameters as they were before."""

    class Writing(SASRecNetwork):
        def loss_backward(self, p, dloss, cache):
            grads = super().loss_backward(p, dloss, cache)
            p["positions"][...] = 0
            return grads

    network, p, batch = given(Writing)
    report = gradcheck_model(network, p, batch)
    assert not report
    assert "gradients agree, but" in str(report)
    assert "the backward writes into its argument p" in str(report)
    assert np.any(p["positions"])


def test_a_gradient_that_is_truly_zero_is_right_though_rounding_leaves_a_trace(rng):
    """A shift of all scores of a row, as by a bias on the keys, does not change softmax."""

    def shifted(x, c):
        return ops.softmax(x + c)

    def shifted_backward(dy, y):
        ds = ops.softmax_backward(dy, y)
        return ds, np.sum(ds, axis=-1, keepdims=True)

    report = gradcheck(shifted, shifted_backward, 5 * rng.standard_normal((40, 30)), rng.standard_normal((40, 1)))
    assert report, str(report)


def relu_in_place(x):
    x[x < 0] = 0
    return x


def moved_square(x):
    x += 1
    return x * x


def product_of_nothing(a, b):
    b *= 0
    return a * b


@pytest.mark.parametrize(
    ("forward", "backward", "args", "agree", "argument"),
    [
        (relu_in_place, lambda dy, x: dy * (x >= 0), [np.array([-1.0])], True, "x"),
        (relu_in_place, lambda dy, x: dy, [np.array([-1.0])], False, "x"),
        (moved_square, lambda dy, x: 2 * dy * x, [X], False, "x"),
        (moved_square, lambda dy, x: 2 * dy * (x + 1), [X], True, "x"),
        (product_of_nothing, lambda dy, a, b: (dy * b, dy * a), [B, B + 1], False, "b"),
    ],
)
def test_what_a_forward_writes_moves_no_number_and_is_said(forward, backward, args, agree, argument):
    kept = [x.copy() for x in args]
    report = gradcheck(forward, backward, *args)
    assert not report
    assert str(report).startswith("gradients agree, but" if agree else "gradients DIFFER")
    assert f"the forward writes into its argument {argument}" in str(report)
    np.testing.assert_array_equal(kept, args)


def test_a_layers_forward_that_writes_and_a_backward_that_does_by_its_cache():
    def forward(p, x, scale):
        scale *= 2
        return p["w"] * x, (p, x)

    def backward(p, dy, cache):
        grads = {"w": 6 * dy * cache[1]}
        dx = 6 * dy * cache[0]["w"]
        cache[1][...] = 0
        return dx, grads

    scale = np.array([3.0])
    report = gradcheck_layer(forward, backward, {"w": B}, B, scale=scale)
    assert "the forward writes into its argument options" in str(report)
    assert "the backward writes into its argument input 0" in str(report)
    assert scale == 3


def in_one_buffer(factor=lambda x: 2.0):
    """x², whose forward and backward return the same memory; the gradient's factor should be 2."""
    buffer = np.zeros(6)

    def forward(x):
        return np.multiply(x, x, out=buffer)

    def backward(dy, x):
        return np.multiply(factor(x) * dy, x, out=buffer)

    return forward, backward


def test_what_is_returned_may_be_memory_that_the_next_call_writes_into():
    x = np.linspace(1, 2, 6)
    assert gradcheck(*in_one_buffer(), x)
    forward, backward = in_one_buffer()
    assert gradcheck_layer(lambda p, x: (forward(x), x), lambda p, dy, x: (backward(dy, x), {}), {}, x)
    assert not gradcheck(*in_one_buffer(lambda x: 2.001), x)

    _, backward = in_one_buffer(lambda x: 7 if x.dtype == np.float32 else 2)
    report = gradcheck(lambda x: x * x, backward, x)
    assert not report
    assert report.entries[0].error < 1e-8
    assert report.entries[0].float32_error > 0.1


@dataclass(frozen=True)
class Numbers:
    x: np.ndarray


class Weighted:
    """(w x)², whose loss and backward may write into the batch."""

    def __init__(self, before=None, after=None):
        self.before, self.after = before, after

    def loss(self, p, batch, rng):
        if self.before:
            self.before(batch)
        x = self.x_of(batch)
        return np.sum((p["w"] * x) ** 2), (p, batch, x.copy())

    def loss_backward(self, p, dloss, cache):
        p, batch, x = cache
        if self.after:
            self.after(batch)
        return {"w": 2 * dloss * p["w"] * x**2}

    def x_of(self, batch):
        return batch["x"] if isinstance(batch, dict) else getattr(batch, "x", batch)


@pytest.mark.parametrize("form", [lambda x: {"x": x}, Numbers, namedtuple("Named", "x"), lambda x: x])
def test_a_batch_is_lent_too(form):
    batch, p = form(X.copy()), {"w": X + 3}

    def doubles(batch):
        x = Weighted().x_of(batch)
        x *= 2

    assert gradcheck_model(Weighted(), p, batch)
    for model, who in ((Weighted(before=doubles), "loss"), (Weighted(after=doubles), "backward")):
        report = gradcheck_model(model, p, batch)
        assert not report
        assert "gradients agree, but" in str(report)
        assert f"the {who} writes into its argument batch" in str(report)
    np.testing.assert_array_equal(Weighted().x_of(batch), X)


def test_an_array_put_in_the_batchs_place_is_written_too():
    def replaces(batch):
        batch["x"] = batch["x"] * 2

    report = gradcheck_model(Weighted(before=replaces), {"w": X}, {"x": X})
    assert "the loss writes into its argument batch" in str(report)


def square(x):
    return x * x


def square_backward(dy, x):
    return 2 * dy * x


CHECKS = (
    lambda **how: gradcheck(square, square_backward, X, **how),
    lambda **how: gradcheck_layer(dense, dense_backward, dense_init(generator(0, Stream.INIT), 4, 5), X, **how),
    lambda **how: gradcheck_model(Weighted(), {"w": X}, X, **how),
)


@pytest.mark.parametrize("name", ["step", "tolerance"])
@pytest.mark.parametrize("value", [np.inf, 1.001, np.nan, -1e-6, 0, 0.9e-12, True, "1e-6", None])
def test_a_step_and_a_tolerance_are_numbers_above_0(name, value):
    assert gradcheck(square, square_backward, np.ones(2), **{"step": 1, "tolerance": 1e-12, name: 1})
    says = re.escape(f"{name} is {value!r}, expected a number from 1e-12 to 1")
    for check in CHECKS:
        with pytest.raises(ValueError, match=says):
            check(**{name: value})


def test_a_seed_repeats_a_check_and_another_one_draws_anew():
    for check in CHECKS:
        one, again, other = (check(seed=seed).entries for seed in (1, 1, 2))
        assert one == again != other


@pytest.mark.parametrize("entries", [-1, 1.5, True])
def test_entries_is_a_whole_number(entries):
    with pytest.raises(ValueError, match=f"entries is {entries}, expected a whole number of at least 0"):
        gradcheck_model(Weighted(), {"w": X}, X, entries=entries)
    with pytest.raises(ValueError, match=f"entries is {entries}, expected a whole number of at least 0"):
        gradcheck_layer(dense, dense_backward, dense_init(generator(0, Stream.INIT), 4, 5), X, entries=entries)


@pytest.mark.parametrize(("entries", "losses"), [(None, 25), (1, 2), (0, 0)])
def test_a_layer_is_moved_at_so_many_places_and_along_a_direction(entries, losses):
    """Of 4 x 5 weights and 5 biases. The random direction finds a wrong gradient wherever it is."""
    calls, p = [], dense_init(generator(0, Stream.INIT), 4, 5)

    def counted(p, x):
        calls.append(x)
        return dense(p, x)

    def wrong(p, dy, cache):
        dx, grads = dense_backward(p, dy, cache)
        return dx, grads | {"b": grads["b"] + np.eye(5)[0]}

    assert gradcheck_layer(counted, dense_backward, p, X, entries=entries)
    moved = X.size if entries is None else entries
    assert len(calls) == 1 + 2 * (losses + moved + 3)
    assert not gradcheck_layer(dense, wrong, p, X, entries=entries)


@pytest.mark.parametrize("wrt", [("z",), (), ("x", "x"), ("k",), "gamma"])
def test_wrt_names_float64_arrays(wrt):
    with pytest.raises(ValueError, match="expected names of float64 arrays, each once: the forward has x"):
        gradcheck(lambda x, k=2: k * x, lambda dy, k: k * dy, X, wrt=wrt)


def test_one_name_will_do_for_wrt():
    assert gradcheck(lambda x, gamma: x * gamma, lambda dy, x: dy * x, X, X, wrt="gamma")


@pytest.mark.parametrize(
    ("forward", "says"),
    [
        (lambda x: x * 1j, "returned complex128, expected an array of real numbers"),
        (lambda x: None, "returned NoneType, expected an array of real numbers"),
        (lambda x: [float(v) for v in x], "returned a list of numbers, expected an array"),
        (lambda *x: x[0], r"takes \*x, expected arguments that have names"),
    ],
)
def test_a_forward_that_cannot_be_differentiated(forward, says):
    with pytest.raises(TypeError, match=says):
        gradcheck(forward, lambda dy: dy, B)


@pytest.mark.parametrize("value", [1j, np.ones(2), None])
def test_a_loss_is_a_real_number(value):
    class Odd(Weighted):
        def loss(self, p, batch, rng):
            return value, None

    with pytest.raises(TypeError, match=r"loss returned .*, expected"):
        gradcheck_model(Odd(), {"w": X}, X)


def test_arguments_by_position_alone_and_those_that_two_stars_take():
    def positional(x, /):
        return x * x

    def positional_backward(dy, x, /):
        return 2 * dy * x

    def scaled(x, **how):
        return how["s"] * x * x

    def scaled_backward(dy, x, **how):
        return 2 * how["s"] * dy * x

    assert gradcheck(positional, positional_backward, X)
    assert gradcheck(scaled, scaled_backward, X, s=3.0)
    assert gradcheck(scaled, lambda dy, x, s: 2 * s * dy * x, X, s=3.0)
    assert not gradcheck(scaled, lambda dy, x, s: s * dy * x, X, s=3.0)


def test_a_ufunc_is_checked_or_its_missing_names_are_said():
    """Since NumPy 2.4 ufuncs have signatures."""
    try:
        inspect.signature(np.square)
    except ValueError:
        with pytest.raises(TypeError, match="square does not say what its arguments are called"):
            gradcheck(np.square, square_backward, X)
    else:
        assert gradcheck(np.square, square_backward, X)


def test_a_function_without_a_signature_is_refused():
    class Nameless:
        __name__ = "nameless"
        __signature__ = property(lambda self: inspect.signature(dict))  # ValueError, as older NumPy's ufuncs

        def __call__(self, x):
            return x

    with pytest.raises(TypeError, match="nameless does not say what its arguments are called, expected a function"):
        gradcheck(Nameless(), square_backward, X)


@pytest.mark.parametrize(
    ("backward", "says"),
    [
        (lambda dy, x: (2 * dy * x).tolist(), "a list was returned, expected an array (5,)"),
        (lambda dy, x: ((2 * dy * x).tolist(),), "a list was returned, expected an array (5,)"),
        (lambda dy, x: 2j * dy * x, "the gradient is complex128, expected real numbers"),
    ],
)
def test_a_gradient_that_is_no_array_of_real_numbers(backward, says):
    report = gradcheck(square, backward, B)
    assert not report
    assert len(report.entries) == 1
    assert says in str(report)


def test_a_list_of_numbers_is_right_for_arguments_that_are_numbers():
    a, b = np.array(2.0), np.array(3.0)
    assert gradcheck(lambda a, b: a * b, lambda dy, a, b: [float(dy * b), float(dy * a)], a, b)


def test_a_layers_backward_that_returns_too_little():
    p = dense_init(generator(0, Stream.INIT), 4, 5)
    with pytest.raises(TypeError, match="returned ndarray, expected 2 values: a gradient for each input"):
        gradcheck_layer(dense, lambda p, dy, cache: dense_backward(p, dy, cache)[0], p, X)
