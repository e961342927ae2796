"""The proof on a GPU is written where there is none: each of its parts runs on the double, and holds there."""

import pytest

from benchmarks.gpu import by_spec, compare, models
from tests.count_calls import COUNTED
from tests.devices import On
from tests.models import small


def test_what_sasrec_is_made_of():
    rows = compare(On("strict"))
    assert rows
    assert [row["name"] for row in rows if not row["holds"]] == []


@pytest.mark.slow(seconds=15)
def test_every_op_that_has_a_spec():
    rows = by_spec(On("strict"), cases=6)
    assert sorted(row["name"] for row in rows) == sorted(COUNTED)
    assert [row["name"] for row in rows if not row["holds"]] == []


def test_every_model_that_is_trained():
    rows = models("strict")
    assert [row["name"] for row in rows] == small.TRAINED
    assert [row["name"] for row in rows if not row["holds"]] == []
