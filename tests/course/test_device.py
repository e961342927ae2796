"""The double of chapter 21 counts as the strict one does, and refuses what mixes two memories."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.backend import get_xp
from tinyattn.course.device import There, device, run

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "gpu.json"


def there(*shape):
    return device.asarray(np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape))


@pytest.mark.parametrize(
    ("name", "args"),
    [("linear", (there(3, 4), there(4, 2), there(2))), ("layer_norm", (there(3, 4), there(4), there(4)))],
)
def test_functions_of_the_library_launch_what_the_strict_double_counted(name, args):
    calls = {row["name"]: row["calls"] for row in json.loads(RESULT.read_text())["strict"]["times"]}
    result, counts = device.counted(getattr(ops, name), *args)
    assert counts == {"launches": calls[name], "waits": 0, "transfers": 0, "atomic": 0}
    expected = getattr(ops, name)(*(x.get() for x in args))
    result, expected = (x[0] if isinstance(x, tuple) else x for x in (result, expected))
    np.testing.assert_array_equal(result.get(), expected)


@pytest.mark.parametrize(
    ("f", "counts"),
    [
        (lambda x: x + 1, (1, 0, 0, 0)),
        (lambda x: x[0], (0, 0, 0, 0)),
        (lambda x: x.reshape(4, 3).swapaxes(0, 1), (0, 0, 0, 0)),
        (lambda x: x.sum(), (1, 0, 0, 0)),
        (lambda x: float(x[0, 0]), (0, 1, 0, 0)),
        (lambda x: 1 if x[0, 0] > 2 else 0, (1, 1, 0, 0)),
        (lambda x: x[x > 2], (2, 1, 0, 0)),
        (lambda x: device.nonzero(x), (1, 1, 0, 0)),
        (lambda x: device.where(x > 2, x, 0.0), (2, 0, 0, 0)),
        (lambda x: x.get(), (0, 1, 1, 0)),
        (lambda x: x[0, 0].item(), (0, 1, 0, 0)),
        (lambda x: x[0].tolist(), (0, 1, 0, 0)),
        (lambda x: device.allclose(x, x), (1, 1, 0, 0)),
        (lambda x: device.compress(x[0] > 1, x, axis=1), (2, 1, 0, 0)),
        (lambda x: device.linalg.norm(x), (1, 0, 0, 0)),
        (lambda x: device.maximum.reduce(x), (1, 0, 0, 0)),
        (lambda x: device.r_[x, x], (1, 0, 0, 0)),
        (lambda x: device.asarray(np.zeros(3)), (0, 0, 1, 0)),
        (lambda x: device.add.at(x, device.asarray(np.array([0, 0])), 1.0), (1, 0, 1, 1)),
    ],
)
def test_what_is_counted(f, counts):
    assert tuple(device.counted(f, there(3, 4))[1].values()) == counts


@pytest.mark.parametrize(
    "f", [lambda x: x + np.ones(4), lambda x: np.ones(4) + x, lambda x: np.exp(x), lambda x: device.add(x, np.ones(4)),
          lambda x: np.asarray(x), lambda x: x[np.array([0])]]
)  # fmt: skip
def test_two_memories_do_not_mix(f):
    with pytest.raises(TypeError):
        f(there(3, 4))


def test_an_array_of_the_device_is_like_one():
    x = there(3, 4)
    assert isinstance(x, There)
    assert (x.shape, x.ndim, len(x), x.dtype, get_xp(x)) == ((3, 4), 2, 3, float, device)
    x[0] = 7.0
    assert x.get()[0].tolist() == [7.0] * 4
    assert not hasattr(x, "nothing")


def test_only_r_and_c_join_between_brackets_and_a_copy_of_the_device_is_one():
    x = there(2, 3)
    assert device.r_[x, x].shape == (4, 3)
    assert device.c_[x, x].shape == (2, 6)
    with pytest.raises(TypeError, match="not subscriptable"):
        device.sum[x]
    assert copy.copy(device).sum(x).get() == x.get().sum()


def test_atomic_additions_come_in_another_order_each_time():
    ids, values = np.zeros(1000, int), np.random.default_rng(0).standard_normal(1000).astype(np.float32)

    def total():
        x = device.zeros(1, dtype=np.float32)
        device.add.at(x, device.asarray(ids), device.asarray(values))
        return x.get()[0]

    assert len({total() for _ in range(8)}) > 1
    assert total() == pytest.approx(values.sum(dtype=float), abs=1e-3)


@pytest.mark.parametrize("f", [np.exp, lambda x: np.add.at(np.zeros(2), [0], x)])
def test_an_answer_with_a_function_of_numpy_meets_a_sentence(f):
    assert run(f, np.ones(2)) == {"error": "a function of NumPy met an array of the device; take that of `xp`"}
