"""The programs of docs/production.md, run as they stand there, on clicks that are generated here."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.models.worlds import TINY
from tinyattn.cli import main
from tinyattn.models import Recommender

PAGE = (Path(__file__).parents[2] / "docs" / "production.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
EVENTS, GATE, SERVICE, INDEX, INT8, SEARCH = BLOCKS
LINES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]
CLICKS = ["clicks/a.csv", "clicks/b.csv", "--where", "event == 'view'"]
CLICKS += ["--columns", "user=visitor,item=page,time=clicked"]
SMALL = ["--dim", "8", "--batch-size", "20"]


def run(block):
    found = {"__name__": "page"}
    exec(compile(block, "docs/production.md", "exec"), found)
    return found


def typed(line, *extra):
    assert main([*shlex.split(line)[1:], *extra]) == 0


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A folder with clicks, the events as a table, and the runs of two nights."""
    folder, data = tmp_path_factory.mktemp("night"), TINY.generate()
    (folder / "clicks").mkdir()
    rows = [(u, int(item), t) for u in range(data.n_users) for t, item in enumerate(data.sequence(u).tolist())]
    for name, part in (("a", rows[::2]), ("b", rows[1::2])):
        with (folder / "clicks" / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["clicked", "visitor", "page", "event"])
            for u, item, t in part:
                writer.writerow([f"2026-01-{1 + t:02} 10:00:{u % 60:02}", f"v{u}", f"p{item}", "view"])
                writer.writerow([f"2026-01-{1 + t:02} 10:00:{u % 60:02}", f"v{u}", f"p{item}", "scroll"])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in LINES[:2]:
            words = [word for word in shlex.split(line)[1:] if word != "events.parquet"]
            small = [] if "--start" in words else SMALL
            assert main([words[0], *CLICKS, *words[1:], "--epochs", "2", *small]) == 0
    return folder


@pytest.fixture
def inside(night, monkeypatch):
    monkeypatch.chdir(night)
    return night


def test_duckdb_writes_what_train_reads(inside, capsys):
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    run(EVENTS)
    typed("tinyattn data events.parquet")
    by_table = capsys.readouterr().out
    assert main(["data", *CLICKS]) == 0
    counts = re.compile(r"^(?:users|items|interactions) +[\d,]+", re.M)
    assert counts.findall(by_table) == counts.findall(capsys.readouterr().out) != []


def test_the_second_night_starts_from_the_first_and_the_gate_says_why_not(inside, capsys):
    config = json.loads((inside / "runs/second/config.json").read_text())
    assert config["evaluation"]["start"].startswith(str((inside / "runs/first").resolve()))
    gate = run(GATE)["gate"]
    metrics = json.loads((inside / "runs/second/metrics.json").read_text())

    def altered(name, ndcg, popularity):
        (inside / name).mkdir(exist_ok=True)
        metrics["model"]["full"]["ndcg@10"], metrics["popularity"]["full"]["ndcg@10"] = ndcg, popularity
        (inside / name / "metrics.json").write_text(json.dumps(metrics))
        return name

    last = altered("last", 0.5, 0.1)
    assert gate(altered("good", 0.46, 0.1), last) is None
    for ndcg, popularity, says in ((0.46, 0.47, "ranks below popularity: 0.4600 and"), (0.44, 0.1, "a tenth or more")):
        with pytest.raises(SystemExit, match=says):
            gate(altered("bad", ndcg, popularity), last)


def test_parts_of_all_users_are_everybody(inside, capsys):
    lines = []
    for line in LINES[2:]:
        typed(line.replace("events.parquet ", ""))
        lines += (inside / line.split()[-1]).read_text().splitlines()[1:]
    users = Recommender.load(inside / "runs/second/model.npz").users.ids.tolist()
    assert {line.split(",")[0] for line in lines} == set(users)


@pytest.fixture
def graph(inside):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    typed("tinyattn export runs/second model.onnx")
    return Recommender.load(inside / "runs/second/model.npz")


def test_a_service_of_a_page(graph):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    client = TestClient(run(SERVICE)["app"])
    some = graph.items.ids[:2].tolist()
    for history in (some, [*some, "new"], [], ["new"]):
        answer = client.get("/next", params={"items": ",".join(history), "k": 4}).json()
        ids, scores = graph.recommend(history, k=4, unknown="skip")
        assert [row["item"] for row in answer] == ids.tolist()
        np.testing.assert_allclose([row["score"] for row in answer], scores, atol=1e-4)


def test_a_graph_in_8_bits_ranks_alike_and_keeps_what_it_says(graph):
    onnxruntime = pytest.importorskip("onnxruntime")
    run(INT8)
    whole, small = (onnxruntime.InferenceSession(name) for name in ("model.onnx", "model-int8.onnx"))
    assert whole.get_modelmeta().custom_metadata_map.items() <= small.get_modelmeta().custom_metadata_map.items()
    ids = np.zeros((1, graph.maxlen), dtype=np.int64)
    ids[0, :2] = 1, 5
    (exact,), (near,) = (session.run(["scores"], {"ids": ids}) for session in (whole, small))
    exact, near = exact[:, 1:], near[:, 1:]
    assert np.max(np.abs(exact - near)) < 0.05 * np.ptp(exact)
    assert not np.array_equal(exact, near)


def test_an_index_of_vectors_finds_the_best_scores(graph):
    pytest.importorskip("usearch")
    nearest = run(INDEX)["nearest"]
    for history in ([3], [1, 5, 2]):
        scores = graph.score([np.array(history)])[0]
        assert nearest(history, 4) == np.argsort(-scores)[:4].tolist()


def test_optuna_chooses_by_the_validation_part():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = run(SEARCH)["study"]
    assert len(study.trials) == 3
    assert 0 <= study.best_value <= 1


def test_the_files_that_mlflow_is_to_log_are_flat_enough_for_it(inside):
    """Parameters are one dict of plain values, and metrics are numbers."""
    parameters = json.loads((inside / "runs/second/config.json").read_text())["parameters"]
    assert parameters["dim"] == 8
    assert all(isinstance(value, str | int | float) for value in parameters.values())
    metrics = json.loads((inside / "runs/second/metrics.json").read_text())["model"]["full"]
    assert metrics
    assert all(type(value) is float for value in metrics.values())
