"""benchmarks/inference.py and the large part of benchmarks/ranking.py, without their timing."""

import pickle

import numpy as np
import pytest

from benchmarks import inference, ranking
from benchmarks.children import check
from benchmarks.peers import answering, installed, large
from tests.helpers import MACHINE
from tinyattn.data import SeriesWorld, leave_one_out
from tinyattn.models import SASRecNetwork


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("name", inference.CONTENDERS)
def test_contenders_answer_as_the_library_does(name, tmp_path):
    if inference.CONTENDERS[name] == "torch" and not installed("torch-sdpa"):
        pytest.skip("torch is not installed")
    network = SASRecNetwork(n_items=50, maxlen=12, dim=8, blocks=2, heads=2, dropout=0.2)
    rng, weights = np.random.default_rng(0), ranking.parameters(network)
    full = [1 + rng.choice(50, 12, replace=False) for _ in range(5)]
    answering.write(tmp_path, network, weights, full[:1], full)
    assert check([name], tmp_path, "answering")[name]["agrees"]
    histories, best = pickle.loads((tmp_path / "reference.pickle").read_bytes())
    best[3, 7] += 1e-3 * np.max(np.abs(best))
    (tmp_path / "reference.pickle").write_bytes(pickle.dumps((histories, best)))
    assert not check([name], tmp_path, "answering")[name]["agrees"]


def test_histories_are_of_the_length_that_the_case_names():
    for case, length in inference.ONE.items():
        (history,) = inference.histories_of(case, inference.NETWORK)
        assert len(set(history.tolist())) == length


def test_the_page_says_what_the_results_say():
    def case(*seconds):
        found = {"about": {"calls a round": 9, "threads": 2}}
        contenders = {name: found | {"seconds": list(s)} for name, s in zip(inference.CONTENDERS, seconds, strict=True)}
        return {"histories": 1, "contenders": contenders}

    cases = {"one of 5 items": case([1e-4, 2e-4], [1e-3, 1e-3], [3e-4, 5e-4]),
             "all users": case([1, 1], [9, 9], [0.5, 0.5])}  # fmt: skip
    result = {
        "network": {"n_items": 50, "maxlen": 12, "dim": 8, "blocks": 2}, "cases": cases, "machine": MACHINE,
        "check": {name: {"off": 1e-6} for name in inference.CONTENDERS}, "OPENBLAS_CORETYPE": None,
        "options": {"rounds": 2, "missing": []},
    }  # fmt: skip
    page = inference.page(result)
    assert "| one history of 5 items | 0.15 | 1 (7.50) | 0.4 (2.75) |" in page
    assert "Reached: 2.75, must." in page  # of the cases with one history, against the faster
    assert "- torch-sdpa: threads 2; scores off by 1e-06" in page


@pytest.mark.parametrize("name", [name for name in ranking.LARGE if name not in ("product", "states")])
def test_what_ranks_many_users_ranks_as_whole_rows_do(name, tmp_path):
    split = leave_one_out(SeriesWorld(series=8, episodes=8, users=60, most_open=3, shortest=5, longest=9).generate())
    network = SASRecNetwork(n_items=split.data.n_items, maxlen=6, dim=8, blocks=1)
    large.write(tmp_path, network, ranking.parameters(network), split)
    child = large.Ranker(large.load(name), tmp_path)
    assert child.check()["agrees"]
    child.prepare()
    assert child.run()["seconds"] > 0
    child.contender.model.score = lambda histories, users: -child.contender.split.data.n_items * np.ones(
        (len(histories), split.data.n_items + 1)
    )
    assert child.contender.off() > 1e-3


def test_the_large_part_of_the_ranking_page_says_what_was_found():
    found = {"product": [1.0, 2.0], "states": [0.1, 0.4], "tinyattn": [1.5, 3.4]}
    found |= {name: [0.1, 0.1] for name in ("popularity", "markov")}
    contenders = {name: {"seconds": seconds, "peak": 50.0} for name, seconds in found.items()}
    result = {"users": 1_000, "items": 2_000, "rounds": 2, "contenders": contenders, "machine": MACHINE}
    lines = "\n".join(ranking.large_table(result))
    assert "of every user's item | 2.5 | 1.60 | 1.52 to 1.68 | 50 |" in lines
    assert "Measured: 1.45, reached." in lines  # 1.4 of the product in one round, 3 / 2 of it in the other
