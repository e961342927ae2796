"""Every property sees errors of the size in tests/sharpness.json or larger, and no smaller ones."""

import json

import pytest

from tests.sharpness import LEAST, SHARPNESS, notices, of_calls, richest, seen_once, tried
from tinyattn.check.specs import SPECS, properties_of

KNOWN = json.loads(SHARPNESS.read_text())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", SPECS)
def test_a_property_sees_errors_as_small_as_it_did(kind):
    """It sees twice that size, and not a quarter of it. `python -m tests.sharpness` measures again."""
    spec = SPECS[kind]
    known = {name: (n, moved) for moved in ("results", "gradients") for name, n in KNOWN[kind][moved].items()}
    assert sorted(known) == sorted(prop.name for prop in properties_of(spec))
    for prop in properties_of(spec):
        n, moved = known[prop.name]
        if n is not None:
            backward = moved == "gradients"
            assert notices(spec, prop, 2.0 ** (n + 1), backward), f"{prop.name} no longer sees an error of 2**{n + 1}"
            too_small = n > LEAST and not prop.once and notices(spec, prop, 2.0 ** (n - 2), backward, seeds=1)
            assert not too_small, f"{prop.name} sees an error of 2**{n - 2}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", SPECS)
def test_a_property_looks_at_each_of_its_calls_as_closely_as_it_did(kind):
    """In every part of each result it sees twice the least error that it saw, whatever it sees in other calls.

    Where results are compared bit by bit, it depends on the CPU whether an error of a few last digits in a cache is
    rounded away in the next result.
    """
    spec, case = SPECS[kind], richest(SPECS[kind])
    for prop in of_calls(spec):
        known, parts = KNOWN[kind]["calls"][prop.name], seen_once(spec, prop, case)[1]
        least = LEAST + 8 if prop.exactness == "exact" else LEAST
        calls = tried(len(parts))
        assert [3 * parts[call] for call in calls] == [len(row) for row in known], f"{prop.name} makes other calls"
        for call, row in zip(calls, known, strict=True):
            blind = [place for place, n in enumerate(row)
                     if n is not None
                     and not seen_once(spec, prop, case, call, place, 2.0 ** max(n + 1, least))[0]]  # fmt: skip
            assert not blind, f"{prop.name} no longer sees an error in call {call}, at {blind} of {row}"
