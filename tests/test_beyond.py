"""benchmarks/beyond.py, without its training."""

import numpy as np
import pytest

from benchmarks import beyond
from benchmarks.beyond import LEARNED, LENGTHS, SCALINGS
from tests.helpers import MACHINE
from tinyattn.experiments.kinds import KINDS, TASKS, TRAINED
from tinyattn.models import Tagger


@pytest.fixture
def model():
    parts = TASKS["recall-2"][1].__class__(length=32, pairs=2, keys=16, values=16, sequences=64, held_out=8)
    return Tagger(**TRAINED | KINDS["rope"][1] | {"epochs": 1}).fit(parts, progress=False)


def test_a_scaled_model_has_the_same_weights_and_other_scores_beyond_the_first_token(model):
    ids = np.random.default_rng(0).integers(0, 32, (2, 64))
    plain, _ = model.network.forward(model.parameters, ids)
    for scaling in SCALINGS:
        other = beyond.scaled(model, scaling, 64)
        assert other.parameters is model.parameters
        scores, _ = other.network.forward(other.parameters, ids)
        np.testing.assert_allclose(scores[:, 0], plain[:, 0], rtol=0, atol=2e-5)        # one token has no distances
        assert np.array_equal(scores, plain) == (scaling == "none")
    assert model.network.rope_scaling == "none"


def test_the_page_has_a_table_for_each_length():
    run = {name: {"32": 1.0} | {str(n): dict.fromkeys(SCALINGS, 0.25) for n in LENGTHS} for name in LEARNED}
    run["copy"]["256"]["ntk"] = 0.75
    found = beyond.page({"runs": [run, run], "machine": MACHINE})
    assert [line for line in found.splitlines() if line.startswith("## ")] == ["## 64 tokens, factor 2",
                                                                              "## 256 tokens, factor 8"]  # fmt: skip
    assert found.count("| 32 tokens, as trained | 1.000 ± 0.000 |") == 2
    assert found.count("0.750 ± 0.000 |\n") == 1
