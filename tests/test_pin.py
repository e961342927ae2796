"""Every part gives the numbers that are pinned: see tests/pin."""

from functools import cache

import pytest
from threadpoolctl import threadpool_limits

from tests import pin
from tests.pin import GROUPS, chunks, differences, networks, plain

pinned = cache(pin.pinned)


@pytest.mark.parametrize(("group", "first"), [(group, first) for group in GROUPS for first in chunks(group)])
def test_numbers_are_those_that_are_pinned(group, first):
    """A change that is meant: `python -m tests.pin`, and its reason in CHANGELOG.md."""
    cases, *near = GROUPS[group]
    known, moved = pinned(group), []
    with threadpool_limits(1):
        for name in chunks(group)[first]:
            assert name in known, f"{name} is not pinned: python -m tests.pin {group}"
            moved += [f"{name}: {line}" for line in differences(known[name], plain(cases[name]()), *near)]
    assert not moved, "\n".join(moved[:20])


def test_nothing_is_pinned_that_is_no_case_any_more():
    for group, (cases, *_) in GROUPS.items():
        assert set(pinned(group)) == set(cases)


def test_every_choice_of_a_model_is_pinned():
    """But the losses that STOSA does not take."""
    assert {f"stosa {loss}" for loss in ("bce", "bpr-max", "ce", "gbce", "sampled-softmax")} == networks.UNTAKEN


def test_every_option_of_a_model_changes_a_number():
    """An option that is inherited, and that nothing reads, is found by this."""
    known, changes = pinned("networks"), {}
    for name, context, change in networks.VARIANTS:
        beside = known.get(networks.title(name, context, {}), known[name])
        for option in change.keys() - context.keys():
            moved = known[networks.title(name, context, change)] != beside
            changes[f"{name} {option}"] = changes.get(f"{name} {option}", False) or moved
    assert {option for option, moved in changes.items() if not moved} == set(networks.IDLE)


def test_differences_name_the_place():
    old = {"loss": [0.5, 1.0], "text": "a 0.31 b", "n": 3}
    assert differences(old, old, 1e-9, 0) == []
    assert differences(old, {"loss": [0.5, 1.0 + 1e-10], "text": "a 0.32 b", "n": 3}, 1e-9, 0) == []
    assert differences(old, {"loss": [0.5, 1.1], "text": "a 0.9 b", "n": 4}, 1e-9, 0) == [
        "loss.1: 1.0 -> 1.1", "text: 'a 0.31 b' -> 'a 0.9 b'", "n: 3 -> 4"
    ]  # fmt: skip
    assert differences({"a": 1}, {"b": 1}, 0, 0) == ["-a", "+b"]
    assert differences([1], [1, 2], 0, 0) == [": [1] -> [1, 2]"]
