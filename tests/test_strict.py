"""The strict double itself: what it refuses, what it does otherwise than NumPy, and what it counts."""

import numpy as np
import pytest

from tests.devices import DEVICES, MISSING, On
from tests.rules import RULES, outcome
from tests.strict import COUNTS, Step, StrictError, strict
from tinyattn import ops
from tinyattn.backend import to_numpy
from tinyattn.ops import activations
from tinyattn.tree import Rows

X = np.arange(6.0).reshape(2, 3)
ELSEWHERE = [name for name in DEVICES if name != "cpu" and name not in MISSING]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda x: np.exp(x), "np.exp on a device array: use xp.exp"),
        (lambda x: np.sum(x), "np.sum on a device array: use xp.sum"),
        (lambda x: np.concatenate([x, x]), "np.concatenate on a device array"),
        (lambda x: np.asarray(x), "an implicit copy to the host"),
        (lambda x: x + X, "a host array or a NumPy scalar among device arrays"),
        (lambda x: X + x, "a host array or a NumPy scalar among device arrays"),
        (lambda x: strict.exp(X), "exp: a host array"),
        (lambda x: x * np.float64(2), "a NumPy scalar"),
        (lambda x: x.sum(), r"x.sum: write xp.sum\(x\)"),
        (lambda x: strict.sum(x, where=x > 0), "CuPy's sum takes no where="),
        (lambda x: strict.max(x, initial=0), "CuPy's max takes no initial="),
        (lambda x: strict.errstate(), "CuPy has no errstate"),
        (lambda x: strict.random.standard_normal(3), "its streams are not NumPy's"),
        (lambda x: strict.add.outer_product(x), "CuPy's add has no outer_product"),
        (lambda x: strict.maximum.reduce(x), "CuPy's maximum has no reduce"),
        (lambda x: strict.logical_and.accumulate(x > 1), "CuPy's logical_and has no accumulate"),
        (lambda x: strict.multiply.at(x, strict.asarray([0]), 2.0), "CuPy's multiply has no at"),
        (lambda x: strict.add.at(x.astype(np.int16), strict.asarray([0]), 2), "CuPy's add.at takes no int16"),
        (lambda x: strict.add.at(x.astype(np.float32), strict.asarray([1, 1]), 2.0), "sums of repeated ids differ"),
        (lambda x: strict.add.at(x.astype(np.float32), strict.asarray([1, 3]), 2.0), "sums of repeated ids differ"),
        (lambda x: strict.add.at(x.astype(np.float16), strict.asarray([1, -1]), 2.0), "sums of repeated ids differ"),
        (lambda x: strict.add.reduce(x, where=x > 1), "CuPy's add.reduce takes no where="),
        (lambda x: strict.sort(x, kind="quicksort"), "CuPy's sort takes no kind='quicksort'"),
        (lambda x: strict.argsort(x, -1, "heapsort"), "CuPy's argsort takes no kind='heapsort'"),
        (lambda x: strict.exp([1.0, 2.0]), "exp: a list among device arrays"),
        (lambda x: strict.exp(x=(1.0, 2.0)), "exp: a tuple among device arrays"),
        (lambda x: strict.take(x, [0, 1], axis=0), "take: a list among device arrays"),
        (lambda x: strict.stack([x, [[1.0, 2.0, 3.0]]]), "stack: a list among device arrays"),
        (lambda x: strict.stack([x, X]), "stack: a host array"),
        (lambda x: x * (1.0, 2.0, 3.0), "__mul__: a tuple among device arrays"),
        (lambda x: x.__setitem__(0, [1.0, 2.0, 3.0]), "assignment: a list among device arrays"),
        (lambda x: x[(0, 1), 0], "a boolean mask or a list as an index"),
        (lambda x: strict.asarray(np.zeros(20, np.uint8))[4:12].view(float), "float64 that begins between multiples"),
        (lambda x: [row for row in x], "iteration over a device array"),
        (lambda x: x[x > 1], "a boolean mask or a list as an index"),
        (lambda x: x.__setitem__(x > 1, 0.0), "a boolean mask or a list as an index"),
        (lambda x: x.__setitem__(strict.asarray([0, 0]), 1.0), "ids of which some repeat"),
        (lambda x: strict.broadcast_to(x[:1], (4, 3)).__iadd__(1), "a write into a broadcast"),
        (lambda x: strict.exp(x, out=strict.broadcast_to(x[:1], (2, 3))), "a write into a broadcast"),
        (lambda x: range(strict.asarray(3)), "a device number as a Python index"),
    ],
)  # fmt: skip
def test_what_a_device_would_not_do_is_refused(what, says):
    with pytest.raises(StrictError, match=says):
        what(strict.asarray(X))


def test_a_refusal_names_the_line_that_asked():
    """Of the library where it is on the way, else of whoever called."""
    with pytest.raises(StrictError, match=r"^test_strict\.py:\d+: np.exp on a device array"):
        np.exp(strict.asarray(X))
    with pytest.raises(StrictError, match=r"^tinyattn/ops/activations\.py:\d+ in _ratio: multiply: a host array"):
        activations._ratio(strict.asarray(X), ((np.float64(2), 1.0), (1.0,)))


def test_arrays_of_two_modules_are_refused_where_they_come_in():
    x = strict.asarray(X)
    for call, name in (
        (lambda: ops.relu_backward(x, X), "relu_backward"),
        (lambda: ops.relu_backward(X, x), "relu_backward"),
        (lambda: ops.linear(x, x.T, X[:, 0]), "linear"),
        (lambda: ops.softmax(x, X > 0), "softmax"),
        (lambda: ops.dropout(x, X > 0, 0.5), "dropout"),
        (lambda: ops.attention(x, x, x, bias=np.ones((2, 2))), "attention"),
    ):
        with pytest.raises(TypeError, match=f"^{name}: arrays of .* and of .* in one call: convert one of them"):
            call()


def test_what_a_device_does_otherwise():
    x = strict.asarray(X)
    assert np.isnan(strict.empty((2,)).get()).all()
    np.testing.assert_array_equal(x[strict.asarray([5])].get(), X[[1]])  # 5 wraps to 1
    np.testing.assert_array_equal(strict.take(x, strict.asarray([-3]), axis=0).get(), X[[1]])
    total = strict.zeros(3)
    strict.add.at(total, strict.asarray([0, 0, 2, 3]), strict.asarray([1.0, 2.0, 4.0, 8.0]))
    np.testing.assert_array_equal(total.get(), [11, 0, 4])


def test_lists_of_arrays_and_tuples_that_say_how_are_taken():
    x = strict.asarray(X)
    np.testing.assert_array_equal(strict.concatenate([x, x[:1]]).get(), X[[0, 1, 0]])
    np.testing.assert_array_equal(strict.stack((x, x), axis=-1).get(), np.stack((X, X), axis=-1))
    np.testing.assert_array_equal(strict.sum(strict.broadcast_to(x, (2, 2, 3)), axis=(0, 2)).get(), [6, 24])
    np.testing.assert_array_equal(strict.transpose(x, (1, 0)).get(), X.T)
    np.testing.assert_array_equal(strict.zeros([2, 1]).get(), np.zeros((2, 1)))


def test_the_order_of_scattered_additions_varies():
    """Large and small numbers: the sum depends on the order, so two runs must differ somewhere."""
    values = strict.asarray(np.random.default_rng(0).standard_normal((500, 4)) * 10.0 ** (np.arange(500)[:, None] % 9))
    ids, sums = strict.asarray(np.zeros(500, int)), []
    for _ in range(2):
        total = strict.zeros((1, 4))
        strict.add.at(total, ids, values)
        sums.append(total.get())
    assert not np.array_equal(*sums)
    np.testing.assert_allclose(*sums, rtol=1e-9)


def test_calls_synchronisations_and_transfers_are_counted():
    COUNTS.clear()
    x = strict.asarray(X)
    y = strict.sum(x * 2 + 1)
    x.reshape(3, 2).T.swapaxes(0, 1)[1:]
    assert COUNTS == {"transfers": 1, "calls": 3}
    float(y)
    bool(y > 0)
    strict.unique(x)
    f"{y:.2f}"
    y.item()
    to_numpy(x)
    assert COUNTS["synchronisations"] == 6
    strict.where(x > 1)
    strict.bincount(strict.asarray([1, 2]), minlength=4)
    strict.where(x > 1, x, 0.0)
    assert COUNTS["synchronisations"] == 8


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (lambda x, i: strict.asarray(X), "a transfer inside a step"),
        (lambda x, i: x.get(), r"get\(\) inside a step"),
        (lambda x, i: float(x[0, 0]), r"float\(\) of a device array inside a step"),
        (lambda x, i: strict.unique(x), "unique inside a step"),
        (lambda x, i: x * (0.5 + i), "'1.5'.* where the step before had .*'0.5'"),
        (lambda x, i: x[: 1 + i] + x[: 1 + i], r"float64\[2, 3\].* where the step before had .*float64\[1, 3\]"),
        (lambda x, i: strict.zeros(3 + i), "where the step before had"),
        (lambda x, i: [x + 1 for _ in range(1 + i)], "where the step before had None"),
        (lambda x, i: [x + 1 for _ in range(2 - i)], "a step of 1 calls after one of 2"),
    ],
)
def test_what_a_recorded_step_cannot_do_is_refused(what, says):
    """One of these, and no graph could be made of a step, or it would go on with the first step's numbers."""
    x = strict.asarray(X)
    with pytest.raises(StrictError, match=says):  # noqa: PT012
        with Step() as first:
            what(x, 0)
        with Step(like=first):
            what(x, 1)


def test_a_stream_that_captures_computes_nothing_and_takes_no_product():
    x, stream = strict.asarray(X), strict.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        x += 1
        x[0] = x[1] * 2
        with pytest.raises(NotImplementedError, match="CuPy calls no cuBLAS while it captures"):
            x @ x.T
        with pytest.raises(NotImplementedError, match="einsum"):
            strict.einsum("ij->i", x)
        graph = stream.end_capture()
    np.testing.assert_array_equal(x.get(), X)
    graph.launch()
    np.testing.assert_array_equal(x.get(), [2 * (X[1] + 1), X[1] + 1])


def test_a_recorded_step_is_launched_again_on_what_its_arrays_hold():
    x, ids, total = strict.asarray(X), strict.asarray([1, 0]), strict.zeros(2)
    with Step() as step:
        y = strict.take(x, ids, axis=0)[:, 1:] * 2 + strict.sum(x)
        strict.add.at(total, ids, strict.max(y, axis=1))
        x[0] = x[0] + y[1, 0]
        last = x.T.reshape(-1)  # a copy
    COUNTS.clear()
    for _ in range(2):
        x[...] = strict.asarray(X + 1)
        ids[...] = strict.asarray([0, 1])
        step.launch()
    assert COUNTS["calls"] == 6  # two launches, and four assignments
    np.testing.assert_array_equal(y.get(), (X + 1)[:, 1:] * 2 + 21)
    np.testing.assert_array_equal(total.get(), [19 + 2 * 27, 25 + 2 * 33])
    np.testing.assert_array_equal(last.get()[:2], [1 + 31, 4])


def test_functions_of_the_library_are_run_there_and_what_they_write_comes_back():
    on = On("strict")

    def add_one(x, record, factor):
        assert type(x) is type(record.ids) is strict.ndarray
        record.values[...] = record.values + factor
        return {"y": [x + 1]}

    record = Rows(np.array([1]), np.zeros((1, 2)))
    result = on.function(add_one)(X, record, 3.0)
    np.testing.assert_array_equal(result["y"][0], X + 1)
    np.testing.assert_array_equal(record.values, [[3, 3]])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.says)
@pytest.mark.parametrize("where", ELSEWHERE)
def test_the_rules_that_cupy_is_asked_too(where, rule):
    assert outcome(rule, On(where).xp) == rule.outcome
