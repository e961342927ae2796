"""The proof on a GPU is written where there is none: its parts run on the double, and hold there.

PyTorch's times and the run of the tests are left: they need the GPU. The rules are asked in test_strict.py.
"""

import numpy as np
import pytest

from benchmarks import gpu
from benchmarks.gpu import by_spec, compare, default_world, models, row, subjects, times
from tests.count_calls import COUNTED
from tests.devices import On
from tests.models import small


def test_what_sasrec_is_made_of():
    rows = compare(On("strict"))
    assert rows
    assert [row["name"] for row in rows if not row["holds"]] == []


@pytest.mark.parametrize("wrong", [np.full(3, np.nan), np.array([1, np.inf, 1]), np.ones((2, 3)), np.ones(1)])
def test_what_is_no_number_or_of_another_shape_does_not_hold(wrong):
    ones = np.ones(3)
    assert row("x", [(ones, ones, [ones] * 3)])["holds"]
    assert not row("x", [(ones, ones, [wrong] * 3)])["holds"]
    assert not row("x", [(ones, ones, [ones] * 3), (ones, ones, [wrong] * 3)])["holds"]


@pytest.mark.slow(seconds=20)
def test_the_default_world_and_the_calls():
    assert default_world("strict", 1)["holds"]
    assert [found["name"] for found in times(On("strict"))][:-1] == list(subjects())


@pytest.mark.slow(seconds=15)
def test_every_op_that_has_a_spec():
    rows = by_spec(On("strict"), cases=6)
    assert sorted(row["name"] for row in rows) == sorted(COUNTED)
    assert [row["name"] for row in rows if not row["holds"]] == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--epochs", "0"], "--epochs is 0, expected at least 1"),
        (["--commit", "<b>"], "--commit is '<b>', expected 7 to 40 hexadecimal digits"),
        ([], "has what was measured on ANOTHER; --replace puts the strict double of CuPy there"),
    ],
)
def test_what_is_refused_before_anything_is_measured(given, says, tmp_path, monkeypatch, capsys):
    known = tmp_path / "gpu.json"
    known.write_text('{"strict": {"machine": {"device": "ANOTHER"}}}')
    monkeypatch.setattr(gpu, "RESULT", known)
    monkeypatch.setattr("sys.argv", ["gpu.py", "--device", "strict", *given])
    with pytest.raises(SystemExit):
        gpu.main()
    assert says in " ".join(capsys.readouterr().err.split())
    assert "ANOTHER" in known.read_text()


@pytest.mark.slow(seconds=2)
def test_every_model_that_is_trained():
    rows = models("strict")
    assert [row["name"] for row in rows] == small.TRAINED
    assert [row["name"] for row in rows if not row["holds"]] == []
