"""The proof of recorded steps and kernels runs where there is no GPU; and no card is trusted without its file."""

import json

import pytest

from benchmarks import gpu_steps
from benchmarks.machine import RESULTS
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
    assert {card for card, holds in held.items() if holds["kernels"]} == set(kernels.PROVEN)
    assert all(held[card]["recorded, with kernels"] for card in {*recording.PROVEN} & {*kernels.PROVEN})
