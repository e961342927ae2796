"""Each common property fails for an implementation that was made to break it, and for no other.

How small an error of numbers each sees is in test_sharpness.py.
"""

import math
from contextlib import nullcontext

import numpy as np
import pytest

from tests.check.breaking import broken, failing, plus
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import _demand_new_memory, common_properties, upstream
from tinyattn.check.property import Violation
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject

COMMON = {prop.name for prop in common_properties(SPECS["linear"])}
LAYOUTS = {
    "Fortran order": lambda x: x.flags.f_contiguous and not x.flags.c_contiguous,
    "strided": lambda x: not x.flags.f_contiguous and not x.flags.c_contiguous,
    "read-only": lambda x: not x.flags.writeable,
}


def allowed(case):
    """The rounding error allowed in a sum of n terms, n being the size of the largest argument: 30 u √n · largest²."""
    arrays = [x for x in case.values() if x is not None]
    unit = 1.1e-16 if arrays[0].dtype == np.float64 else 6e-8
    largest = max(1.0, *(float(np.max(np.abs(x), initial=0)) for x in arrays))
    return 30 * unit * math.sqrt(max(x.size for x in arrays)) * largest**2


def up(x):
    return np.nextafter(x, x.dtype.type(np.inf))


def writing(name, value=up):
    """Its result is right; the last entry of one argument is replaced."""

    def change(right, **case):
        result, x = right(**case), case[name]
        if x is not None and x.size and x.flags.writeable:
            x.reshape(-1)[-1] = value(x.reshape(-1)[-1])
        return result

    return change


def moved(of, how, part=None):
    """Where `of(case)`, a result is changed by `how(result, case)`: the result, or one of several."""

    def change(right, **case):
        result = right(**case)
        if not of(case):
            return result
        if part is None:
            return how(result, case)
        return tuple(how(x, case) if i == part else x for i, x in enumerate(result))

    return change


def counting(part=None):
    """Each result differs from the last call's by a few units in the last place."""
    calls = []

    def larger(x, case):
        calls.append(1)
        return x * x.dtype.type(1 + 2 * (len(calls) % 5) * np.finfo(x.dtype).eps)

    return moved(always, larger, part)


def buffered(part=None):
    """All results of one shape are in one buffer."""
    kept = {}

    def into(x, case):
        buffer = kept.setdefault((x.shape, x.dtype.str), x)
        buffer[...] = x
        return buffer

    return moved(lambda case: True, into, part)


def memoised(right, **case):
    """Caches every result, and returns copies, which is no fault."""
    key = right.__name__, *((x.tobytes(), x.shape, x.dtype.str) if x is not None else None for x in case.values())
    if key not in KEPT:
        KEPT[key] = right(**case)
    return np.array(KEPT[key])


KEPT = {}


def of_the_last_forward():
    last = {}

    def forward(right, **case):
        last["x"] = np.array(case["x"])
        return right(**case)

    def backward(right, **takes):
        x = last.get("x", takes["x"])
        return right(**takes | {"x": x} if (x.shape, x.dtype) == (takes["x"].shape, takes["x"].dtype) else takes)

    return {"forward": forward, "backward": backward}


def oddly(name, size, part=None):
    """Off by `size` times the allowed error if an argument has the memory layout `name`."""

    def of(case):
        return any(LAYOUTS[name](x) for x in (case["x"], case["W"]))

    def off(x, case):
        gradients = 1 if part is None else 10 * max(1.0, float(np.max(np.abs(x), initial=0)))
        return plus(x, size * gradients * allowed({n: case[n] for n in ("x", "W")}))

    return moved(of, off, part)


def nothing(case):
    return not case["x"].size


def always(case):
    return True


FORWARDS = {
    "Fortran order of the result": (moved(always, lambda y, case: np.asfortranarray(y)), set()),
    "float64 for float32": (moved(always, lambda y, case: y.astype(float)), {"shape_and_dtype", "batch_of_nothing"}),
    "float32 for float64": (moved(always, lambda y, case: y.astype("f4")), {"shape_and_dtype", "batch_of_nothing",
                                                                            "oracle", "several_axes", "derivative"}),
    "one axis more": (moved(always, lambda y, case: y[None]), {"shape_and_dtype", "batch_of_nothing", "oracle",
                                                               "large_sizes", "several_axes"}),
    "writes into x": (writing("x"), {"inputs_unchanged"}),
    "writes into W": (writing("W"), {"inputs_unchanged"}),
    "writes into b": (writing("b"), {"inputs_unchanged"}),
    "clips x far out": (writing("x", lambda x: np.clip(x, -40, 40)), {"inputs_unchanged"}),
    "writes what is there": (writing("x", lambda x: x), set()),
    "another result at every call": (counting(), {"repeatable"}),
    "one buffer": (buffered(), {"repeatable"}),
    "remembers": (memoised, set()),
    "a wrong shape of nothing": (moved(nothing, lambda y, case: y.reshape(-1)), {"batch_of_nothing"}),
    "another dtype of nothing": (moved(nothing, lambda y, case: y.astype("f2")), {"batch_of_nothing"}),
    "wrong from 20 on": (moved(lambda case: len(case["W"]) >= 20, lambda y, case: plus(y, 1)), {"large_sizes"}),
    "wrong with 5 axes": (moved(lambda case: case["x"].ndim == 5, lambda y, case: plus(y, 1)), {"several_axes"}),
}  # fmt: skip
BACKWARDS = {
    "one axis more of db": (moved(always, lambda g, case: None if g is None else g[None], 2),
        {"gradient_shapes", "gradients_of_nothing", "several_axes", "exact_gradients", "derivative"}),
    "float64 of dW": (moved(always, lambda g, case: g.astype(float), 1), {"gradient_shapes", "gradients_of_nothing"}),
    "another dW at every call": (counting(1), {"backward_twice", "no_memory_of_the_forward"}),
    "one buffer for dW": (buffered(1), {"backward_twice", "linear_in_upstream"}),
    "a constant in dx": (moved(lambda case: case["x"].size < 99, lambda g, case: plus(g, 1e-2), 0),
        {"linear_in_upstream", "exact_gradients", "derivative", "several_axes"}),
    "dW of nothing": (moved(nothing, lambda g, case: plus(g, 1), 1), {"gradients_of_nothing"}),
    "wrong from 20 on": (moved(lambda case: len(case["W"]) >= 20, lambda g, case: plus(g, 1), 1),
        {"gradients_of_large_sizes"}),
    "wrong with 5 axes": (moved(lambda case: case["x"].ndim == 5, lambda g, case: plus(g, 1), 1), {"several_axes"}),
}  # fmt: skip
WRITES = {"backward_inputs_unchanged", "backward_twice", "no_memory_of_the_forward"}
BACKWARDS |= {f"writes into {name}": (writing(name), WRITES) for name in ("dy", "x", "W")}
for _name in LAYOUTS:
    for _size, _seen in ((0.5, False), (2.0, True)):
        FORWARDS[f"{_name}: {_size} of what is allowed"] = oddly(_name, _size), {"memory_layout"} if _seen else set()
        _back = {"backward_memory_layout"} if _seen else set()
        BACKWARDS[f"{_name}: {_size} of what is allowed"] = oddly(_name, _size, 1), _back


@pytest.mark.parametrize(("change", "seen"), FORWARDS.values(), ids=FORWARDS)
def test_what_is_wrong_with_a_forward_is_seen_by_the_properties_that_speak_of_it(change, seen):
    assert failing(broken("linear", change), "linear", 5, COMMON) == seen


@pytest.mark.parametrize(("change", "seen"), BACKWARDS.values(), ids=BACKWARDS)
def test_what_is_wrong_with_a_backward_is_seen_by_the_properties_that_speak_of_it(change, seen):
    assert failing(broken("linear", backward=change), "linear", 5, COMMON) == seen


def test_a_backward_of_the_last_forward_is_seen():
    assert failing(broken("linear", **of_the_last_forward()), "linear", 5, COMMON) == {
        "backward_twice", "no_memory_of_the_forward"}  # fmt: skip


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[::-1][::-1]], ids=["itself", "a view"])
def test_memory_that_is_shared_with_an_argument_is_seen(part):
    """For positive numbers relu returns equal numbers, which must be a copy."""
    spec = SPECS["relu"]
    for of, name, seen in (("forward", "x", "own_memory"), ("backward", "dy", "backward_inputs_unchanged")):
        op = Subject(broken("relu", **{of: lambda right, name=name, **case: part(case[name])}), spec)
        for prop in common_properties(spec):
            if prop.name in ("own_memory", "inputs_unchanged", "backward_inputs_unchanged"):
                with pytest.raises(Violation, match="shares memory with") if prop.name == seen else nullcontext():
                    prop.holds(op, x=np.ones((2, 3)))


def test_a_reshape_may_be_a_view_and_a_part_may_not():
    x = np.arange(6.0).reshape(2, 3)
    _demand_new_memory({"y": x.reshape(3, 2), "z": x.ravel()}, {"x": x})
    for y in (x, x[:, :2], x.T):
        with pytest.raises(Violation, match="y shares memory with x"):
            _demand_new_memory({"y": y}, {"x": x})


def test_a_seed_repeats_an_upstream_gradient_and_another_one_draws_anew():
    """Two that were equal would find no backward that is not linear in its upstream gradient."""
    spec = SPECS["softmax"]
    case = spec.case(CaseDrawer.seeded(0))
    one, again, other = (upstream(spec, case, seed)[0].tolist() for seed in (1, 1, 0))
    assert one == again != other
