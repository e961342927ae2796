"""The benchmark of scans: its page, of made-up times."""

from benchmarks import scans
from tests.helpers import MACHINE


def test_the_page_says_of_each_op_whether_it_reached_the_goal():
    row = {"tinyattn": [1.0, 1.0, 2.0], "loop": [5.0, 5.1, 10.0]}
    seconds = {"selective_scan": row | {"loop": [4.9, 4.8, 10.0]}, "wkv": row | {"torch": [7.0] * 3},
               "associative_scan, tree": row}  # fmt: skip
    text = scans.page({"a CPU": {"machine": MACHINE, "seconds": seconds}, "another": {"machine": MACHINE, "seconds": {
        "associative_scan, tree": row}}})  # fmt: skip
    assert "in NumPy: 5. `selective_scan` 4.9, **missed**; `wkv` 5.0, reached." in text
    assert text.count("Not measured.") == 1
    assert "| `wkv` | 1000.0 | 5100 | 5.0 | 7000 | 7.0 |" in text
    assert "| `associative_scan, tree` | 1000.0 | 5100 | 5.0 |  |  |" in text
