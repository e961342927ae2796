"""What the file of a run says is measured again here; and which files are whole."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.experiments.test_running import SMALL, TRAINED, run_here
from tests.helpers import MACHINE
from tests.models.worlds import TINY
from tinyattn.data import leave_one_out
from tinyattn.data.sequence_tasks import Recall
from tinyattn.evaluation import best_items, beyond_accuracy, draw_candidates, evaluate, target_ranks
from tinyattn.experiments import TaskData, carry_out, results_of, running
from tinyattn.experiments.experiment import TIMES
from tinyattn.experiments.paired import letters, packed, unpacked
from tinyattn.experiments.whole import is_count, is_machine, is_number, is_whole
from tinyattn.models import MODELS

SPLIT = leave_one_out(TINY.generate())
ONLY = replace(SMALL, rows={"popularity": SMALL.rows["popularity"]}, per_user=True, ks=(3,), also=None)


def test_a_run_writes_what_its_model_is_measured_to_have(tmp_path, monkeypatch):
    run_here(monkeypatch)
    said = []
    carry_out(ONLY, tmp_path, tmp_path, say=said.append)
    found = json.loads((tmp_path / "popularity-seed0.json").read_text())
    model = MODELS["popularity"]().fit(SPLIT)
    measured = evaluate(model, SPLIT, "test", (3,), TINY.next_item, {"uni100": draw_candidates(SPLIT, "uni100")})
    assert found["metrics"] == {
        protocol: {name: round(value, 5) for name, value in of.items()} for protocol, of in measured.items()
    }
    assert found["ranks"] == letters(target_ranks(model, SPLIT)["full"])
    best = best_items(model.score, SPLIT, 10)
    beyond = beyond_accuracy(best, SPLIT)
    assert found["beyond"] == {
        "coverage@10": round(beyond["coverage"], 4), "novelty": round(beyond["novelty"], 3),
        "popularity": round(beyond["popularity"], 3), "best": packed(best),
    }  # fmt: skip
    assert found["data"] == {"fingerprint": SPLIT.data.fingerprint(), "users": 60, "items": SPLIT.data.n_items,
                             "interactions": len(SPLIT.data)}  # fmt: skip
    assert (found["epochs"], found["valid"], found["gradient_norm"], found["epoch_seconds"]) == (0, [], [], None)
    assert found["settings"] == model.identity()
    assert "named" not in found
    assert said == [
        f"left out: absent, as there is no absent.txt.gz in {tmp_path}",
        "small: 1 runs, 0 of them done; the others take about 0 minutes",
    ]
    assert running.K == 10


def test_lists_are_written_of_users_that_are_evenly_spaced(monkeypatch):
    monkeypatch.setattr(running, "COMPARED", 4)
    model = MODELS["popularity"]().fit(SPLIT)
    best = best_items(model.score, SPLIT, 10)
    last = len(best) - 1
    written = running._beyond(model, SPLIT)["best"]
    np.testing.assert_array_equal(unpacked(written), best[[0, last // 3, 2 * last // 3, last]])


def test_of_training_each_epochs_validation_and_the_median_pace_are_written(tmp_path, monkeypatch):
    class Slow(MODELS["sasrec"]):
        def fit(self, data, **how):
            super().fit(data, **how)
            for epoch, seconds in zip(self.history, (1.0, 9.0, 2.0), strict=True):
                epoch |= {"seconds": seconds, "gradient_norm": 12.3456, "valid": None if seconds == 9.0 else 0.123456}
            return self

    run_here(monkeypatch)
    monkeypatch.setitem(running.MODELS, "sasrec", Slow)
    row = replace(SMALL.rows["sasrec"], options=TRAINED | {"epochs": 3}, seeds=1)
    carry_out(replace(SMALL, rows={"sasrec": row}), None, tmp_path)
    found = json.loads((tmp_path / "sasrec-seed0.json").read_text())
    assert found["epoch_seconds"] == 2.0
    assert found["valid"] == [0.12346, None, 0.12346]
    assert found["gradient_norm"] == [12.35] * 3
    assert (found["epochs"], found["row"]["seed"]) == (3, 0)
    model = running.make_model(row, 7)
    assert (model.seed, model.workers, model.dim) == (7, 1, 4)


def test_models_of_tasks_are_measured_on_longer_sequences_of_the_same_task():
    asked = []

    def evaluate_(task):
        asked.append(task)
        return {"accuracy": 1 / 3, "loss": 0.123456}

    task = Recall(length=16, pairs=2, sequences=10, held_out=4)
    parts = task.generate().split()
    also = lambda model, split: {"more": split is parts}  # noqa: E731
    experiment = replace(SMALL, protocols=("trained", "twice", "longest"), also=also)
    found = running._measure_answers(experiment, SimpleNamespace(evaluate=evaluate_), running.Loaded(parts, {}))
    assert [each.length for each in asked] == [16, 32, 128]
    assert {replace(each, length=16) for each in asked} == {parts.test.task}
    assert found["metrics"]["twice"] == {"accuracy": 0.33333, "loss": 0.12346}
    assert found["more"] is True
    assert TIMES == {"trained": 1, "twice": 2, "longest": 8}
    assert list(running._answer_metrics(experiment))[:2] == [("trained", "accuracy"), ("trained", "loss")]
    assert list(running._ranking_metrics(ONLY)) == [
        (protocol, name) for protocol in ("full", "uni100") for name in ("hr@3", "ndcg@3", "mrr")
    ]
    loaded = running._load_task(TaskData("t", task), None, ())
    assert loaded.about["fingerprint"] == parts.test.fingerprint()


def test_how_long_it_takes_is_said_for_as_many_processes_as_there_are_runs(tmp_path, monkeypatch):
    run_here(monkeypatch)
    rows = {f"row-{i}": replace(SMALL.rows["popularity"], minutes=minutes) for i, minutes in enumerate((30, 30, 40))}
    said = []
    for jobs, alone, hours in ((2, False, "50 minutes"), (9, False, "33 minutes"), (9, True, "1.7 hours")):
        carry_out(replace(SMALL, rows=rows, alone=alone), None, tmp_path / hours, jobs=jobs, say=said.append)
        assert said[-1].endswith(f"3 runs, 0 of them done; the others take about {hours}")
    assert running._duration(89.4) == "89 minutes"
    assert running._duration(90) == "1.5 hours"
    assert results_of(replace(SMALL, rows=rows), tmp_path / "nowhere") == {key: [] for key in rows}


# ---- whole files

RUN = {
    "row": {"options": {"epochs": 2}}, "metrics": {"full": {"mrr": 1.0, "loss": 7.0}}, "epochs": 1, "seconds": 0,
    "valid": [0.5], "epoch_seconds": 0.1, "gradient_norm": [0.0], "data": {"fingerprint": "a", "users": 2},
    "machine": MACHINE, "ranks": "A.",
    "beyond": {"coverage@10": 0.0, "novelty": 0, "popularity": 0.0, "best": [[0, 1], [2, 3]]},
}  # fmt: skip


def whole(**change):
    return is_whole(SMALL, RUN | change, [("full", "mrr"), ("full", "loss")])


def test_a_file_with_all_there_is_is_whole_and_one_with_a_part_that_cannot_be_is_not():
    assert whole()
    assert whole(epoch_seconds=None, metrics={"full": {"mrr": 0, "loss": 0.0}})
    assert whole(epochs=0, valid=[], row={"options": {}})
    for change in (
        {"metrics": {"full": {"mrr": 1.0001, "loss": 1.0}}}, {"metrics": {"full": {"mrr": -0.1, "loss": 1.0}}},
        {"metrics": {"full": {"mrr": 0.5, "loss": float("inf")}}}, {"metrics": {"full": {"mrr": True, "loss": 1.0}}},
        {"epochs": -1}, {"epochs": True}, {"seconds": -1}, {"seconds": "1"}, {"valid": ["x"]}, {"valid": [0.5, 0.5]},
        {"gradient_norm": []}, {"gradient_norm": [None]}, {"data": {"fingerprint": 5, "users": 2}},
        {"ranks": "AU"}, {"ranks": "A"}, {"beyond": RUN["beyond"] | {"best": [[1, 2], [3]]}},
        {"beyond": RUN["beyond"] | {"coverage@10": -0.1}}, {"beyond": RUN["beyond"] | {"best": [[1.5, 2]]}},
        {"before": [MACHINE | {"cpu": 1.5}]}, {"epoch_seconds": -1.0}, {"seconds": 10**400}, {"epochs": 1.0},
    ):  # fmt: skip
        assert not whole(**change), change
    old = {name: value for name, value in RUN.items() if name not in ("gradient_norm", "beyond", "ranks")}
    assert is_whole(SMALL, old, [])  # as older versions wrote it
    assert not is_whole(replace(SMALL, norms=True), old, [])
    assert not is_whole(replace(SMALL, per_user=True), old, [])
    assert not is_whole(replace(SMALL, is_whole=lambda found: False), RUN, [])


@pytest.mark.parametrize(("x", "number", "count"), [
    (0, True, True), (3, True, True), (-1, True, False), (1.0, True, False), (True, False, False), ("1", False, False),
    (None, False, False), (10**15, False, False), (10**15 - 1, True, True), (-(10**15), False, False),
    (float("nan"), False, False), (np.float64(1), False, False),
])  # fmt: skip
def test_numbers_and_counts_are_those_of_json(x, number, count):
    assert (is_number(x), is_count(x)) == (number, count)


def test_a_machine_is_named_in_words_that_fit_a_line_of_a_table():
    assert is_machine(MACHINE)
    assert is_machine(MACHINE | {"device": "H100", "commit": "a" * 199})
    for change in ({"commit": "a" * 200}, {"cpu": "a|b"}, {"python": "3\n"}, {"numpy": "<2"}, {"cores": 2.0},
                   {"device": 1.5}, {"date": 1}):  # fmt: skip
        assert not is_machine(MACHINE | change), change
    assert not is_machine({name: value for name, value in MACHINE.items() if name != "cpu"})
