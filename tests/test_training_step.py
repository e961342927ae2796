"""The benchmark of a training step: its data, its page, and that contenders compute what the library computes."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import training_step
from benchmarks.children import Child
from benchmarks.peers import installed
from benchmarks.training_step import BEAUTY, CONFIGURATIONS, ML_1M, Configuration
from tests.helpers import MACHINE
from tinyattn.models import SASRecNetwork
from tinyattn.tree import tree_map

TINY = Configuration("tiny", BEAUTY, 6, SASRecNetwork(n_items=300, maxlen=7, dim=8, blocks=2, heads=2, dropout=0.2))


@pytest.mark.parametrize("lengths", [ML_1M, BEAUTY], ids=["ml-1m", "beauty"])
def test_matched_lengths_have_the_figures_of_the_data(lengths):
    drawn = lengths.matched(np.random.default_rng(0))
    assert np.mean(drawn) == pytest.approx(lengths.mean, rel=0.1)
    assert np.median(drawn) == pytest.approx(lengths.median, rel=0.1)
    assert lengths.least <= drawn.min()
    assert drawn.max() <= lengths.most


def test_batches_are_whole_and_the_same_for_all():
    batches = training_step.draw(TINY, None)
    assert [len(batch.ids) for batch in batches] == [TINY.batch] * training_step.STEPS
    for batch, again in zip(batches, training_step.draw(TINY, None), strict=True):
        np.testing.assert_array_equal(batch.negatives, again.negatives)
        for row in batch.ids:
            assert len(set(row[row > 0])) == np.sum(row > 0)


def test_full_histories_have_no_padding():
    full = replace(TINY, lengths=None)
    assert all(np.all(batch.weight == 1) and batch.ids.shape == (6, 7) for batch in training_step.draw(full, None))


def contender(seconds, peak):
    return {
        "seconds": seconds,
        "idle": 0.001,
        "check": {"worst": "items", "off": 1e-6},
        "peak": peak,
        "own": peak - 50.0,
        "pools": [{"internal_api": "openblas", "version": "0.3.30", "architecture": "Haswell", "num_threads": 1}],
        "about": {"slices a batch": 9},
    }


def made_up():
    contenders = {
        "tinyattn": contender([0.1, 0.2, 0.1], 100.0),
        "torch-sdpa": contender([0.4, 0.8, 0.5], 450.0),
        "torch-mha": contender([0.8, 0.8, 0.8], 350.0),
    }
    options = {"rounds": 3, "lengths": "drawn", "contenders": list(contenders), "missing": ["jax"]}
    row = {"title": "made up", "tokens": 1234.0, "padded": 2000.0, "contenders": contenders}
    return {"A": row | {"machine": MACHINE, "OPENBLAS_CORETYPE": None, "options": options}}


def test_the_page_says_what_the_results_say():
    page = training_step.page(made_up())
    assert "| **tinyattn** | 100.0 |  |  | 100 | 50 |" in page
    assert "| torch-sdpa | 500.0 | 4.00 | 4.00 to 4.80 | 450 | 400 |" in page  # ratios are of the same round
    assert "jax: not installed" in page
    assert "| A, time | torch-mha, torch-sdpa | 3 | 5 | 8 | 4.00 | must |" in page
    assert "| A, time | torch-buckets | 1.8 | 2.5 | 3.5 |  |  |" in page
    assert "| A, peak memory | torch-mha, torch-sdpa | 2 | 4 | 5 | 3.50 | must |" in page
    assert "| A, peak memory less imports | torch-mha, torch-sdpa | 2 | 4 | 5 | 6.00 | moonshot |" in page


def test_readme_has_the_newest_make_of_cpu_first_and_every_other():
    older, sliced = made_up(), made_up()
    sliced["A"]["contenders"]["torch-buckets"] = contender([0.2, 0.2, 0.2], 100.0)
    del older["A"]["contenders"]["torch-sdpa"]
    text = training_step.sentence({"slide rule": older, "abacus": sliced})
    assert text.startswith("PyTorch takes 4.00 to 4.00 times as long for a step, in the faster of its two usual forms")
    assert "; cut into slices by length as here, 2.00 to 2.00 times (medians, 2 cores of abacus" in text
    assert text.endswith(" On slide rule it was 8.00 to 8.00 times.")


def test_a_goal_can_be_missed():
    result = made_up()
    result["A"]["contenders"]["torch-sdpa"]["seconds"] = [0.1, 0.2, 0.1]
    assert "| A, time | torch-mha, torch-sdpa | 3 | 5 | 8 | 1.00 | **missed** |" in training_step.page(result)


def test_goals_that_are_missed_are_counted_on_each_make_of_cpu():
    slower, faster = made_up(), made_up()
    slower["A"]["contenders"]["torch-sdpa"]["seconds"] = [0.1, 0.2, 0.1]
    text = training_step.missed({"slide rule": slower, "abacus": faster})
    assert text == f"Missed of 9: 0 on abacus ({MACHINE['date']}), 1 on slide rule ({MACHINE['date']})."


@pytest.fixture
def folder():
    """Tiny batches, with weights that are nowhere 0 or 1, so that nothing is right by chance."""
    rng = np.random.default_rng(1)
    weights = tree_map(lambda w: (w + 0.1 * rng.standard_normal(w.shape)).astype(np.float32), TINY.network.init(rng))
    weights["items"][0] = 0
    with training_step.folder_of(TINY.network, weights, training_step.draw(TINY, None)) as path:
        yield path


@pytest.mark.parametrize(
    "name",
    [
        "tinyattn",
        "torch-mha",
        "torch-sdpa",
        "torch-buckets",
        pytest.param("torch-compile", marks=pytest.mark.slow),
        "jax",
    ],
)
def test_contenders_give_the_librarys_loss_and_gradients(name, folder):
    if not installed(name):
        pytest.skip(f"{name} is not installed")
    with Child(name, folder) as child:
        found = child.ask("check")
        assert found["agrees"], found
        assert child.ask("prepare")["seconds"] > 0
        assert child.ask("run")["seconds"] > 0
        assert child.ask("finish")["peak"] > 0


def test_another_gradient_is_named(folder):
    loss, gradients = pickle.loads((folder / "reference.pickle").read_bytes())
    gradients["norm.gamma"][3] += 1e-3 * np.max(np.abs(gradients["norm.gamma"]))
    (folder / "reference.pickle").write_bytes(pickle.dumps((loss, gradients)))
    found = training_step.check(["tinyattn"], folder)["tinyattn"]
    assert not found["agrees"]
    assert found["worst"] == "norm.gamma"


def test_nothing_is_measured_where_a_contender_computes_something_else(monkeypatch):
    monkeypatch.setattr(
        training_step,
        "check",
        lambda names, _: {name: {"worst": "items", "off": 0.5, "agrees": False} for name in names},
    )
    with pytest.raises(SystemExit, match=r"float64: tinyattn \(items: 5.0e-01\)"):
        training_step.measure(TINY, ["tinyattn"], 1, None)


@pytest.mark.slow(seconds=1)
def test_a_measurement_makes_a_page():
    """Without peers; what machine it was does not matter here."""
    found = training_step.measure(TINY, ["tinyattn"], 2, None)
    assert len(found["contenders"]["tinyattn"]["seconds"]) == 2
    page = training_step.page(
        {"A": found | {key: made_up()["A"][key] for key in ("machine", "options")} | {"OPENBLAS_CORETYPE": "Haswell"}}
    )
    assert "OPENBLAS_CORETYPE was Haswell" in page


def test_every_goal_is_of_a_configuration():
    assert {goal.configuration for goal in training_step.GOALS} == CONFIGURATIONS.keys()
