"""A known bug is named by its numbers, alone or in a pair, or by the properties that fail."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check.comparing import compare, same_numbers
from tinyattn.check.diagnosis import FINGERPRINTS, diagnose
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject
from tinyattn.check.zoo import ZOO


def named(kind, *bugs, failed=()):
    found = diagnose(Subject(ZOO[kind].make(frozenset(bugs)), SPECS[kind]), SPECS[kind], failed)
    return [[bug.name for bug in alike] for alike in found.bugs], found.how


ALONE = ("clip_6", "mask_inverted", "changes_input", "backward_inplace")


@pytest.mark.parametrize(
    ("bugs", "names"), [((), []), (("clip_6", "leaky"), [["leaky"], ["clip_6"]]), *(((bug,), [[bug]]) for bug in ALONE)]
)
def test_bugs_of_the_zoo_are_named_by_their_numbers(bugs, names):
    assert named("relu", *bugs) == (names, "numbers" if bugs else "")


@pytest.mark.parametrize("bug", ["fresh_mask_forward", "backward_fresh_mask"])
def test_a_bug_of_chance_is_named_by_exactly_the_properties_that_fail(bug):
    failed = json.loads(FINGERPRINTS.read_text())["dropout"][bug]
    assert named("dropout", bug, failed=failed) == ([[bug]], "failures")
    assert named("dropout", bug, failed=failed[1:]) == named("dropout", bug, failed=[*failed, "evaluation"]) == ([], "")


def test_numbers_are_the_same_up_to_rounding_of_the_coarser_dtype_and_the_largest_entry():
    for x, y in ((1, 1 + 0.9e-8), (0, 0.9e-8), (10, 10 + 9e-8), (np.nan, np.nan), (np.inf, np.inf), ([], [])):
        assert same_numbers(np.array(x, float), np.array(y, float)), (x, y)
    for x, y in ((1, 1 + 1.2e-8), (10, 10 + 1.2e-7), (np.nan, 1), (np.inf, -np.inf), ([1], [1, 1]), ([[]], [])):
        assert not same_numbers(np.array(x, float), np.array(y, float)), (x, y)
    for one, other in (("f4", "f8"), ("f8", "f4"), ("f4", "f4")):
        x, near, far = np.ones(2, one), np.full(2, 1 + 2.8e-4, other), np.full(2, 1 + 3.2e-4, other)
        assert (same_numbers(x, near), same_numbers(x, far)) == (True, False)
    assert same_numbers("float32", "float32")
    assert not same_numbers(True, False)


@pytest.mark.parametrize(
    ("a", "b", "aspect", "verdict"),
    [
        ({"y": [1.0, 2.0]}, {"y": [1.0, 2.0]}, 0, "agree"),
        ({"y": [1.0, 3.0]}, {"y": [1.0, 2.0]}, 0, "contradict"),
        ({"y": [1.0, 3.0]}, {"y": [1.0, 2.0]}, 2, "agree"),
        ({"forward": "raises"}, {"forward": "raises"}, 0, "agree"),
        ({"forward": "raises"}, {"y": [1.0, 2.0]}, 0, "incomparable"),
        ({"forward": "raises"}, {"forward": "raises"}, 2, "incomparable"),
        ({"y": [np.inf, 2.0]}, {"forward": "overflow"}, 0, "agree"),
        ({"y": [[1.0]]}, {"y": [3.0]}, 0, "agree"),
        ({"y": [[1.0]]}, {"y": [1.0, 2.0]}, 0, "contradict"),
        ({"gradient's changes": True}, {"gradient's changes": False}, 4, "contradict"),
    ],
)
def test_two_observations_agree_contradict_or_cannot_be_compared(a, b, aspect, verdict):
    """The right result is y = [1, 2]; two results of wrong shape agree."""
    a, b = ({n: np.array(x) if isinstance(x, list) else x for n, x in seen.items()} for seen in (a, b))
    assert compare(a, b, {"y": np.array([1.0, 2.0])}, aspect) == compare(b, a, {"y": np.ones(2)}, aspect) == verdict


def test_a_permitted_bug_is_not_named_beside_another_one_unless_strict():
    op = Subject(ZOO["adam"].make(frozenset(["beta2_default", "sign_plus"])), SPECS["adam"])
    both = [[bug.name for bug in equals] for equals in diagnose(op, op.spec).bugs]
    assert sorted(both) == [["beta2_default"], ["sign_plus"]]
    assert diagnose(op, op.spec, strict=False).names == ("sign_plus",)
    alone = Subject(ZOO["adam"].make(frozenset(["beta2_default"])), SPECS["adam"])
    assert diagnose(alone, op.spec, strict=False).names == ("beta2_default",)


def test_where_every_call_raises_nothing_is_named():
    def backward(dy, x_hat, rstd, gamma):
        raise TypeError("takes 3 arguments")

    offered = SimpleNamespace(rms_norm=ops.rms_norm, rms_norm_backward=backward)
    assert not diagnose(Subject(offered, SPECS["rms_norm"]), SPECS["rms_norm"])
