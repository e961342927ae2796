"""The proof of recorded steps and kernels runs where there is no GPU; and no card is trusted without its file."""

import json

import pytest

from benchmarks import gpu_steps
from benchmarks.machine import RESULTS
from tests.fast.test_kernels import proven  # noqa: F401  a fixture
from tests.strict import Cublas
from tinyattn.fast import kernels
from tinyattn.training import recording

SMALL = (4, 8, 6)


def test_recorded_steps_hold_on_the_double(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_steps.py", "--device", "strict"])
    before = recording.PROVEN, kernels.PROVEN
    assert gpu_steps.main() == 0
    printed = capsys.readouterr().out
    assert printed.count("holds") == 2
    assert "recorded                 4 calls" in printed
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
        monkeypatch.setattr(gpu_steps, "Cublas", library)
        plain, recorded = gpu_steps.proof("strict", SMALL, steps=4)
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
    assert row["kernel"] == name


@pytest.mark.filterwarnings("ignore:.*overflow encountered in scalar")
def test_attention_is_timed_in_each_way(proven, capsys):  # noqa: F811
    rows = {row["way"]: row for row in gpu_steps.attention_times("strict")}
    assert not [row for row in rows.values() if "error" in row]
    calls = [rows[way]["calls"] for way in ("all weights kept", "some sequences", "one sequence", "no kernel for it")]
    assert calls[0] < calls[3] < calls[1] == calls[2]  # of three sequences, some are one
    assert gpu_steps.tiles.WHOLE == 1 << 28


def test_a_kernel_that_fails_is_named_and_the_others_go_on(monkeypatch, capsys):
    def kernel(device, name):
        if name == "norm_backward":
            raise RuntimeError("an illegal memory access")
        return gpu_steps.failed(name, "") | {"off": 0.5, "bitwise": name != "bce", "holds": name != "bce"}

    monkeypatch.setattr(gpu_steps, "kernel", kernel)
    rows = {row["kernel"]: row for row in gpu_steps.kernel_proof("strict")}
    assert list(rows) == gpu_steps.KERNELS
    assert [name for name, row in rows.items() if not row["holds"]] == ["norm_backward", "bce"]
    printed = capsys.readouterr().out.splitlines()
    assert "DOES NOT HOLD RuntimeError: an illegal memory access" in printed[gpu_steps.KERNELS.index("norm_backward")]
    assert "OTHER BITS" in printed[gpu_steps.KERNELS.index("bce")]


def test_without_a_card_one_sentence_says_so(monkeypatch, capsys):
    def missing(device):
        raise ValueError("device gpu needs CuPy")

    monkeypatch.setattr(gpu_steps, "On", missing)
    monkeypatch.setattr("sys.argv", ["gpu_steps.py"])
    assert gpu_steps.main() == 2
    assert capsys.readouterr().err == "gpu_steps.py: device gpu needs CuPy\n"


def test_the_cards_that_are_trusted_are_those_whose_files_say_so():
    files = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("gpu_steps_*.json"))]
    held = {card["machine"]["device"]: {row["form"]: row["holds"] for row in card["proof"]} for card in files}
    assert {card for card, holds in held.items() if holds["recorded"]} == set(recording.PROVEN)
    each = {card["machine"]["device"]: all(row["holds"] for row in card["kernels"]) for card in files}
    assert {card for card, holds in held.items() if holds["kernels"] and each[card]} == set(kernels.PROVEN)
    assert all(held[card]["recorded, with kernels"] for card in {*recording.PROVEN} & {*kernels.PROVEN})
