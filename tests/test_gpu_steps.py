"""The proof of recorded steps and kernels runs where there is no GPU; and no card is trusted without its file."""

import json
import sys
import time

import numpy as np
import pytest

from benchmarks import gpu_page, gpu_steps, gpu_times
from benchmarks.machine import RESULTS
from tests.fast.test_kernels import proven  # noqa: F401  a fixture
from tests.strict import Cublas
from tinyattn.fast import kernels
from tinyattn.files import json_text
from tinyattn.training import recording

SMALL = (4, 8, 6)


def test_recorded_steps_hold_on_the_double(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_steps.py", "--device", "strict"])
    before = recording.PROVEN, kernels.PROVEN
    assert gpu_steps.main() == 0
    printed = capsys.readouterr().out
    assert printed.count("holds") == 2
    assert "no time" not in printed
    assert "FAILED" not in printed
    for work, entry in gpu_times.WORKS.items():
        assert (f"{work:32} recorded                         4 calls" in printed) == (entry.kind != "ranking")
    assert before == (recording.PROVEN, kernels.PROVEN)


@pytest.mark.slow(seconds=2)
def test_a_form_that_differs_or_is_refused_does_not_hold(monkeypatch):
    class Wrong(Cublas):
        def _gemm(self, dtype, handle, is_a, is_b, m, n, k, *rest):
            return super()._gemm(dtype, handle, is_a, is_b, m, n, k - (k > 8), *rest)

    class Refusing(Cublas):
        def cublasSetWorkspace_v2(self, *_):
            return 1

    for library, refused in ((Wrong, ""), (Refusing, "RuntimeError: ")):
        monkeypatch.setattr(gpu_times, "Cublas", library)
        plain, recorded = (gpu_steps.proof("strict", form, SMALL, steps=4) for form in ("call by call", "recorded"))
        assert plain["holds"]
        assert not recorded["holds"]
        assert recorded["refused"].startswith(refused)


@pytest.mark.filterwarnings("ignore:.*overflow encountered in scalar")  # of a hash, in the simulator's threads
@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x == "sum_rows" else pytest.mark.slow(seconds=2)) for x in gpu_steps.KERNELS]
)
def test_a_kernel_is_held_to_its_readable_form(name, proven, monkeypatch):  # noqa: F811
    monkeypatch.setattr(gpu_steps, "REPEATS", 2)
    row = gpu_steps.kernel("strict", name)
    assert row["holds"], row
    assert row["item"] == name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*overflow encountered in scalar")
def test_attention_is_timed_in_each_way(proven):  # noqa: F811
    row = gpu_times.attention_times("strict", 3)
    assert not row["errors"]
    calls = [row["calls"][way] for way in ("all weights kept", "some sequences", "one sequence", "no kernel for it")]
    assert calls[0] < calls[3] < calls[1] == calls[2]  # of three sequences, some are one
    assert gpu_times.tiles.WHOLE == 1 << 28


def test_a_row_that_fails_is_named_and_the_others_go_on(monkeypatch):
    def kernel(device, name):
        if name == "norm_backward":
            raise RuntimeError("an illegal memory access")
        return {"item": name, "off": 0.5, "bitwise": name != "bce", "holds": name != "bce"}

    monkeypatch.setattr(gpu_steps, "kernel", kernel)
    rows = list(gpu_steps.rows_of("strict", "kernels", gpu_steps.KERNELS, [], 60))
    assert [row["item"] for row in rows] == gpu_steps.KERNELS
    assert [row["item"] for row in rows if not row["holds"]] == ["norm_backward", "bce"]
    assert json.loads(json_text(rows)) == rows  # no numbers that JSON lacks
    printed = [gpu_steps.shown("kernels", row) for row in rows]
    assert "DOES NOT HOLD RuntimeError: an illegal memory access" in printed[gpu_steps.KERNELS.index("norm_backward")]
    assert "OTHER BITS" in printed[gpu_steps.KERNELS.index("bce")]


CHILD = """
import json, os, sys, time
for item in json.loads(sys.argv[1]):
    if item == "ends":
        os.abort()
    if item == "is silent":
        time.sleep(60)
    print('row ' + json.dumps({"item": item}), flush=True)
"""


@pytest.mark.slow(seconds=8)
def test_on_a_card_another_process_goes_on_where_one_ends(monkeypatch):
    monkeypatch.setattr(gpu_steps, "LIMIT", 4)
    monkeypatch.setattr(
        gpu_steps, "command", lambda part, items, forms: [sys.executable, "-c", CHILD, json.dumps(items)]
    )
    items = ["first", "ends", "second", "is silent", "third"]
    rows = list(gpu_steps.rows_of("gpu", "kernels", items, [], 100))
    assert [row["item"] for row in rows] == items
    errors = [row.get("error") for row in rows]
    assert errors[0::2] == [None, None, None]
    assert errors[1]
    assert errors[3].startswith("no answer in 4 seconds")
    began = time.monotonic()
    assert [row["item"] for row in gpu_steps.rows_of("gpu", "times", ["first", "is silent"], [], 4)] == ["first"]
    assert time.monotonic() - began < 30


def test_verdicts_are_in_times_as_fast_as_the_better_eager():
    name, other = gpu_times.SMALLEST, "decoder"
    eager = {"torch mha": 9.0, "torch sdpa": 8.0, "torch mha, TF32": 6.0, "torch sdpa, TF32": 6.0}
    sizes = dict.fromkeys(["recorded", "recorded, TF32", "kernels", *eager], 3 << 20)
    rows = [
        {"item": name, "seconds": {"kernels": 4.0, "recorded": 2.0, "recorded, TF32": 2.0} | eager, "bytes": sizes},
        {"item": other, "seconds": {"recorded": 9.0, "torch sdpa": 8.0}, "bytes": {}},
        {"item": "products", "off": {}},
        {"item": name, "seconds": {"recorded": 2.0, "torch compile": 3.0}, "bytes": {}},
    ]
    plain, with_tf32, decoder = gpu_times.verdicts(rows)
    assert (plain["form"], plain["eager"], plain["as fast as eager"]) == ("recorded", "torch sdpa", 4)
    assert (plain["as fast as compiled"], plain["verdict"], plain["MB"]) == (1.5, "moonshot", [3, 3])
    assert (with_tf32["as fast as eager"], with_tf32["verdict"], with_tf32["as fast as compiled"]) == (3, "good", None)
    assert decoder["verdict"] == "missed"


def test_the_page_of_a_card_says_what_holds_and_how_fast_it_is():
    steps, beside = {"kernels": 4e-3, "recorded": 2e-3, "torch mha": 3e-3}, {"recorded": 2e-3, "torch compile": 4e-3}
    work, compiled = (
        {"item": gpu_times.SMALLEST, "seconds": s, "bytes": dict.fromkeys(s, 3 << 20), "errors": {}}
        for s in (steps, beside)
    )
    work["errors"] = {"torch sdpa": "out of memory"}
    result = {
        "machine": {"device": "A card", "cupy": "14", "cuda": "13.0", "torch": "2", "cores": 2, "cpu": "a CPU"}
        | {"python": "3.11", "numpy": "2", "commit": "abc", "date": "today"},
        "proof": [{"item": "recorded, with kernels", "off": 3e-6, "bitwise": True, "refused": "", "holds": True}],
        "kernels": [gpu_steps.failed("kernels", "bce", "an address\nthat no array has")],
        "times": [work, gpu_steps.failed("times", "decoder", "no answer")],
        "compiled": [compiled],
        "attention": [{"item": "256", "seconds": {"all": 1.0}, "bytes": {"all": 2 << 20}, "errors": {"one": "why"}}],
    }
    page = gpu_page.text(result)
    assert page.startswith("# Steps on a card: A card\n\nRecorded steps with kernels give the numbers of steps")
    assert "Kernels that do not hold: bce. The fastest form of each work is 1.50 to 1.50 times as fast as" in page
    for row in (
        "| recorded, with kernels | 3.0e-06 | yes | yes |",
        "| bce | 1e+09 | no | **no** that no array has |  |  |  |",
        "| SASRec 128x50x50 | float32 | recorded | mha | 1.50 | 2.00 | 3 | 3 | must |",
        "| recorded | float32 | 2,000 | 3 |",
        "torch sdpa failed: out of memory",
        "All of the part `times` failed: no answer",
        "| 256 | all | 1,000,000 | 2 |",
        "| 256 | one | failed | why |",
    ):
        assert f"\n{row}\n" in page, row
    assert "Not all rows are there of: proof, times, compiled." in page
    broken = result | {"proof": [gpu_steps.failed("proof", "recorded, with kernels", "why")], "times": []}
    assert "\n\nRecorded steps with kernels **do not hold** here" in gpu_page.text(broken)


def test_what_is_not_a_number_is_far_off():
    for wrong in (np.nan, np.inf):
        x = np.array([1.0, wrong])
        assert max(0.0, gpu_steps.apart(x, np.ones(2))) == 1e9
    assert gpu_steps.apart(np.array([2.0]), np.array([4.0])) == 0.5


def test_without_a_card_one_sentence_says_so(monkeypatch, capsys):
    def missing(device):
        raise ValueError("device gpu needs CuPy")

    monkeypatch.setattr(gpu_steps, "On", missing)
    monkeypatch.setattr("sys.argv", ["gpu_steps.py"])
    assert gpu_steps.main() == 2
    assert capsys.readouterr().err == "gpu_steps.py: device gpu needs CuPy\n"


def test_the_cards_that_are_trusted_are_those_whose_files_say_so():
    files = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("gpu_steps_*.json"))]
    held = {card["machine"]["device"]: {row["item"]: row["holds"] for row in card["proof"]} for card in files}
    assert {card for card, holds in held.items() if holds["recorded"]} == set(recording.PROVEN)
    each = {card["machine"]["device"]: all(row["holds"] for row in card["kernels"]) for card in files}
    assert {card for card, holds in held.items() if holds["kernels"] and each[card]} == set(kernels.PROVEN)
    assert all(held[card]["recorded, with kernels"] for card in {*recording.PROVEN} & {*kernels.PROVEN})
