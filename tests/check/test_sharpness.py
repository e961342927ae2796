"""Every property sees errors of the size in tests/sharpness.json or larger, and no smaller ones."""

import json

import pytest

from tests.sharpness import LEAST, SHARPNESS, notices
from tinyattn.check.specs import SPECS, properties_of

KNOWN = json.loads(SHARPNESS.read_text())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", SPECS)
def test_a_property_sees_errors_as_small_as_it_did(kind):
    """It sees twice that size, and not a quarter of it. `python -m tests.sharpness` measures again."""
    spec = SPECS[kind]
    known = {name: (n, moved) for moved, row in KNOWN[kind].items() for name, n in row.items()}
    assert sorted(known) == sorted(prop.name for prop in properties_of(spec))
    for prop in properties_of(spec):
        n, moved = known[prop.name]
        if n is not None:
            backward = moved == "gradients"
            assert notices(spec, prop, 2.0 ** (n + 1), backward), f"{prop.name} no longer sees an error of 2**{n + 1}"
            too_small = n > LEAST and not prop.once and notices(spec, prop, 2.0 ** (n - 2), backward, seeds=1)
            assert not too_small, f"{prop.name} sees an error of 2**{n - 2}"
