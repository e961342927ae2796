"""The benchmark of growth: what a step counts, what is installed, and the page and picture of made-up figures."""

import json
import re

import numpy as np

from benchmarks import growth
from tests.helpers import MACHINE

SMALL = {"n": 6, "d": 8, "items": 40, "batch": 4}


def counts(**sizes):
    network, weights, batches = growth.given(growth.configuration(SMALL | sizes), None)
    return growth.counted_step(network, weights, batches[0])


def test_a_step_counts_what_it_computes():
    one = counts()
    assert counts(batch=8)["products"] == 2 * one["products"]
    assert counts(items=80) == one
    linear, d = 2 * 5 * 3 * 24 * 8 * 8, 8  # two blocks, five maps, forward and twice backward, 24 tokens
    pairs = 2 * 4 * 6 * 6  # one tile
    assert one["products"] == linear + 6 * pairs * d + pairs  # and a column of ones


def test_installed_is_what_a_package_requires_too():
    found = growth.installed_bytes("tinyattn")
    assert next(iter(found)) == "tinyattn"
    assert {"numpy", "matplotlib"} <= found.keys()
    assert found["numpy"] > found["tinyattn"] > 500_000
    assert growth.installed_bytes("no-such-package") == {}


def made_up():
    """Time grows with n², memory with n, ours half of theirs."""

    def point(n):
        row = {name: {"seconds": [k * n**2 / 1e6] * 3, "peak": 100.0, "own": k * n / 8}
               for name, k in (("tinyattn", 1), ("torch-sdpa", 2))}  # fmt: skip
        return {"contenders": row, "counted": {"products": n**2, "kept": n}}

    packages = {"tinyattn": {"version": "", "import": [0.1, 0.2, 0.3], "bytes": {"tinyattn": 1e6, "numpy": 5e7}}}
    return {
        "axes": {"n": {str(n): point(n) for n in growth.AXES["n"]}},
        "packages": packages | {"jax": None},
        "machine": MACHINE,
        "options": {"rounds": 3, "contenders": ["tinyattn", "torch-sdpa"], "missing": ["jax"]},
    }


def test_the_page_says_what_the_results_say():
    page = growth.page({"abacus": made_up(), "slide rule": made_up()})
    sizes = "64, 128, 256, 512, 1,024"
    ours = "4.1, 16.4, 65.5, 262.1, 1048.6 | n^2.00 | n^2.00 | 8, 16, 32, 64, 128 | n^1.00 | n^1.00"
    assert f"| n | **tinyattn** | {sizes} | {ours} |" in page
    assert f"| n | torch-sdpa | {sizes} | 8.2, 32.8, 131.1, 524.3, 2097.2 | n^2.00 |  |" in page
    assert "| tinyattn | this | 0.20 | 1.0 | 51 |" in page
    assert "| jax | not installed here | | | |" in page
    assert page.count("## slide rule") == 1
    assert "commit abc" in page


def test_what_a_slice_keeps_hardly_grows_with_the_batch():
    assert re.search(r"keeps\s+hardly grows with the batch", growth.PAGE.read_text())
    for found in json.loads(growth.RESULT.read_text()).values():
        kept = [found["axes"]["batch"][size]["counted"]["kept"] for size in ("32", "512")]
        assert kept[0] < kept[1] < 1.25 * kept[0]


def test_the_picture_shows_time_above_and_memory_below():
    time, memory = growth.draw(made_up()).axes
    shown = {line.get_label(): line.get_ydata() for line in time.lines}
    ours = np.array(growth.AXES["n"]) ** 2 / 1e3
    for name, expected in {"tinyattn": ours, "torch-sdpa": 2 * ours, "multiply-adds, scaled": ours}.items():
        np.testing.assert_allclose(shown.pop(name), expected)
    assert not shown
    assert [line.get_ydata()[0] for line in memory.lines] == [8, 16]


def test_exponents_are_those_of_the_largest_sizes():
    sizes = [1, 10, 100, 1000]
    assert growth.fitted(sizes, [7, 10, 100, 1000]) == 1
    assert growth.fitted(sizes[:2], np.array(sizes[:2]) ** 3) == 3
