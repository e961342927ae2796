"""The benchmark of long sequences: what contenders compute, and the page and picture of made-up figures."""

import tracemalloc

import numpy as np
import pytest

from benchmarks import long_attention
from benchmarks.peers import long
from tests.helpers import MACHINE
from tinyattn.show import save

OURS = [name for name in long.CONTENDERS if "torch" not in name]


@pytest.mark.parametrize("name", OURS)
def test_contenders_compute_what_their_mechanism_does(name, rng):
    inputs = list(rng.standard_normal((4, 1, 2, 40, 4)))
    _, make, mechanism = long.CONTENDERS[name]
    found, expected = make(inputs).gradients(), long.reference(mechanism, inputs)
    for what, array in expected.items():
        np.testing.assert_allclose(found[what], array, atol=1e-12, err_msg=what)


@pytest.mark.parametrize("name", OURS)
def test_a_contender_that_holds_n_squared_numbers_is_measured_up_to_a_length_that_memory_has_room_for(name, rng):
    def peak(n):
        contender = long.CONTENDERS[name][1](list(rng.standard_normal((4, 1, 1, n, 4)).astype(np.float32)))
        tracemalloc.start()
        contender.step()
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    if peak(2048) > 3 * peak(1024):                        # n² numbers take four times as many
        assert name in long_attention.UP_TO
        assert name in long_attention.SQUARED


def made_up():
    """Time of ours grows with n², of a window with n; torch's is half as fast as flash and takes twice its memory."""

    def point(name, n):
        power = {"window": 1, "linear": 1}.get(name, 2)
        slow = 2 if name == "torch-flash" else 1
        return {"seconds": [slow * (n / 1e4) ** power] * 3, "own": slow * n / 100}

    names = ("full", "flash", "window", "linear", "torch-flash")
    one = {str(n): {name: point(name, n) for name in names} for n in (4_096, 8_192, 16_384)}
    heads = {n: {name: row[name] for name in ("flash", "torch-flash")} for n, row in one.items()}
    return {"one": one, "heads": heads, "machine": MACHINE, "options": {"rounds": 3, "torch": None}}


def test_sizes_of_another_commit_or_machine_do_not_stand_beside_todays():
    """A run that is interrupted after some sizes leaves these alone, as the page names one machine and one commit."""
    found = made_up()
    assert long_attention.begun(found, MACHINE | {"date": "2030-01-01"}) is found
    for other in ({"commit": "def"}, {"cpu_model": "25/17"}):
        assert long_attention.begun(found, MACHINE | other) == long_attention.begun(None, MACHINE) == {
            "one": {}, "heads": {},
        }  # fmt: skip


def test_the_page_says_what_was_measured(with_pictures, tmp_path):
    text = long_attention.page({"a CPU (Zen)": made_up(), "another": made_up()})
    assert text.count("Flash beside torch's, one head, n 4,096 to 16,384: 2.00 times as fast") == 2
    assert "(required: at least 1: reached; goal: 1.5: reached), in 0.50 times its memory (required: at most" in text
    assert "n 16,384 is 2 times as fast as full attention without tiles (required: 20: **missed**)" in text
    row = next(line for line in text.splitlines() if line.startswith("| `--mechanism window`"))
    assert "n^1.00 (1)" in row
    assert "1,638.4, 164" in row
    assert "torch: not installed here" in text
    assert save(long_attention.draw(made_up()), tmp_path / "picture.png").stat().st_size > 10_000
