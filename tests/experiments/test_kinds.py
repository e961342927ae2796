"""The experiment of tasks: its grid, its runs, its page."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.machine import RESULTS
from tests.experiments.test_running import run_here
from tinyattn.evaluation import holm
from tinyattn.evaluation.means import CHANCE
from tinyattn.experiments import TaskData, carry_out, results_of
from tinyattn.experiments.kinds import EXPERIMENT, KINDS, SINKS, SOLVED, TASKS, TRAINED, WINDOW, in_theory, sizes
from tinyattn.experiments.tables import compare, values
from tinyattn.files import FileError
from tinyattn.layers import MIXERS
from tinyattn.models import Tagger
from tinyattn.tree import tree_map


@pytest.fixture
def quick():
    """Two rows of it, in seconds."""
    whole = EXPERIMENT.quick()
    return replace(whole, rows={key: whole.rows[key] for key in ("parity-gru", "recall-2-rope")})


def test_runs_leave_answers_on_three_lengths_and_sizes(quick, tmp_path, monkeypatch):
    run_here(monkeypatch)
    said = []
    carry_out(quick, None, tmp_path, say=said.append)
    assert not any("left out" in line for line in said)
    found = json.loads((tmp_path / "parity-gru-seed0.json").read_text())
    assert found["row"] == {"data": "parity", "model": "tagger", "seed": 0,
                            "options": TRAINED | {"mixer": "gru", "position": "none", "epochs": 2}}  # fmt: skip
    assert list(found["metrics"]) == ["trained", "twice", "longest"]
    assert all(0 <= each["accuracy"] <= 1 for each in found["metrics"].values())
    assert found["data"]["tokens of each"] == 32
    assert found["data"]["fingerprint"] == quick.datasets["parity"].task.generate().split().test.fingerprint()
    assert (found["kept"], found["kept longest"]) == (64, 64)                  # two blocks' states
    other = json.loads((tmp_path / "recall-2-rope-seed0.json").read_text())
    assert (other["kept"], other["kept longest"]) == (2 * 2 * 32 * 32, 2 * 2 * 256 * 32)       # keys and values
    results = results_of(quick, tmp_path)
    assert [len(runs) for runs in results.values()] == [1, 1]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    carry_out(quick, None, tmp_path, say=said.append)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


@pytest.mark.slow(seconds=1)
def test_a_run_on_a_task_that_changed_is_refused(quick, tmp_path, monkeypatch):
    run_here(monkeypatch)
    carry_out(quick, None, tmp_path, say=lambda line: None)
    (tmp_path / "parity-gru-seed0.json").unlink()
    other = replace(quick, rows=quick.rows | {"parity-gru-2": quick.rows["parity-gru"]})
    carry_out(other, None, tmp_path, say=lambda line: None)
    changed = TaskData("parity", replace(quick.datasets["parity"].task, seed=5))
    (tmp_path / "parity-gru-seed0.json").unlink()
    with pytest.raises(FileError, match=r"parity has changed since the finished runs in .* were made on"):
        carry_out(replace(other, datasets=quick.datasets | {"parity": changed}), None, tmp_path)


def test_a_damaged_file_is_refused(quick, tmp_path, monkeypatch):
    run_here(monkeypatch)
    carry_out(quick, None, tmp_path, say=lambda line: None)
    path = tmp_path / "parity-gru-seed0.json"
    whole, one = json.loads(path.read_text()), {"trained": {"accuracy": 1.0, "loss": 0.0}}
    for change in ({"metrics": one}, {"data": {}}, {"kept": -7}, {"parameters": None}):
        path.write_text(json.dumps(whole | change))
        with pytest.raises(FileError, match=r"parity-gru-seed0\.json is damaged"):
            results_of(quick, tmp_path)


def made_up(accuracy):
    """Results in which every run has this accuracy, by row and length."""
    machine = {"cores": 2, "cpu": "x", "python": "3", "numpy": "2", "date": "today"}
    return {
        key: [{"metrics": {p: {"accuracy": accuracy(key, p)} for p in EXPERIMENT.protocols}, "epochs": 3,
               "parameters": 1000, "kept": 64, "kept longest": 64, "machine": machine}] * 3
        for key in EXPERIMENT.rows
    }  # fmt: skip


def test_the_page_says_who_solved_what_beside_what_theory_says():
    solved = ("parity-gru", "trained")
    found = EXPERIMENT.page(EXPERIMENT, made_up(lambda *cell: SOLVED if cell == solved else 0.5))
    (line,) = [line for line in found.splitlines() if "0.990" in line]
    cells = line.split(" | ")
    assert cells[0] == "| GRU"
    assert cells[1] == "0.500 ± 0.000 (0 of 3), *size*"
    assert cells[5] == "**0.990 ± 0.000 (3 of 3)**, *yes*"
    assert "| GRU |  |  |  |  | 600 |  |" in found                             # steps: 3 epochs of 200
    assert "| GRU | 1,000 | 64 | 64 | 0.582 | 0.500 |" in found                  # the mean over six tasks
    assert "| *a blind guess* | *0.062* |" in found
    assert found.count("| *bits that there are to remember* | *15* | *46* | *64* | *24* | *1* | *") == 3
    assert "more than 64 bits, and the smallest state, 64 numbers in float32, has 2,048: where\nthey" in found


def test_the_remarks_hold_of_the_committed_runs():
    results = results_of(EXPERIMENT, RESULTS / "reproduce" / "kinds")

    def runs(data, kind, protocol):
        found = values(results[f"{data}-{kind}"], (protocol, "accuracy"))
        assert len(found) == 3
        return found

    def mean(data, kind, protocol):
        return np.mean(runs(data, kind, protocol))

    def solved(data, *kinds):
        return sum(value >= SOLVED for kind in kinds for value in runs(data, kind, "trained"))

    def ahead(data, one, *others):
        """At eight times the length, is every run of one ahead of every run of the others?"""
        return min(runs(data, one, "longest")) > max(max(runs(data, other, "longest")) for other in others)

    latent, searched = ("latent-16", "latent-8"), ("recall-2", "recall-8", "induction", "copy")
    whole = ("learned", "rope", "shared", *latent)
    attention, recurrent = (*whole, "none", "one-block", "window"), ("rnn", "lstm", "gru", "rwkv", "mamba", "delta")
    assert {*attention, *recurrent} == KINDS.keys()
    assert (solved("copy", *whole), solved("induction", *whole)) == (15, 14)
    assert solved("induction", "lstm", "gru") == 0
    assert min(mean("copy", kind, "trained") for kind in ("lstm", "gru")) > 0.9
    for kind in recurrent[1:]:
        assert ahead("induction", kind, *attention)
        assert ahead("copy", kind, *attention) == (kind != "rwkv")
    for data, behind in (("recall-2", {"rnn"}), ("recall-8", {"rnn", "lstm", "gru"})):
        best = max(KINDS, key=lambda kind: mean(data, kind, "longest"))
        assert best in attention
        column = ("longest", "accuracy")
        chances = [compare(EXPERIMENT, results, f"{data}-{best}", f"{data}-{kind}", column).p for kind in recurrent]
        assert {kind for kind, p in zip(recurrent, holm(chances), strict=True) if p < CHANCE} == behind
    for data in searched:
        assert solved(data, "delta") == 3
        assert ahead(data, "delta", "rope")
    assert all(sum(solved(data, kind) for data in searched) < 12 for kind in recurrent[:-1])
    assert solved("recall-8", *recurrent[:-1]) == 0
    assert not any(solved("induction", kind) == solved("copy", kind) == 3 for kind in recurrent[:-1])
    assert round(mean("recall-8", "mamba", "trained"), 3) == 0.976
    assert [round(mean("recall-8", kind, "longest"), 2) for kind in ("delta", "learned")] == [0.91, 0.98]
    steps = [200 * run["epochs"] for run in results["recall-8-delta"]]
    assert round(np.mean(steps), -2) == 2300
    assert {run["epochs"] for run in results["recall-8-mamba"]} == {20}                                # 4,000 steps
    for data in searched[1:]:
        assert solved(data, "shared", *latent, "rope") == 12
    at_two = sorted(value for kind in latent for value in runs("recall-2", kind, "trained"))
    assert 0.525 < at_two[0] < at_two[4] < 0.545 < SOLVED < at_two[5]
    assert round(mean("recall-2", "one-block", "trained"), 2) == 0.54
    assert [solved(data, "window") for data in TASKS] == [0, 0, 0, 0, 0, 3]
    assert ahead("induction", "window", *attention[:-1])
    assert max(max(runs("induction", kind, "longest")) for kind in attention[:-1]) < 0.395
    assert mean("balance", "lstm", "longest") <= mean("balance", "rnn", "longest")
    assert mean("recall-2", "rnn", "trained") < 0.5
    assert mean("recall-2", "none", "trained") >= SOLVED


@pytest.mark.parametrize(
    ("kind", "after_32", "after_256"),
    [("shared", 2 * 32 * 2 * 16, 2 * 256 * 2 * 16), ("latent-16", 2 * 32 * (16 + 8), 2 * 256 * (16 + 8)),
     ("latent-8", 2 * 32 * (8 + 8), 2 * 256 * (8 + 8)), ("window", *[2 * (WINDOW - 1 + SINKS) * 2 * 32] * 2)],
)  # fmt: skip
def test_numbers_that_caches_keep(kind, after_32, after_256):
    network = Tagger(**EXPERIMENT.rows[f"copy-{kind}"].options).make_network({"tokens": range(10)})
    p = tree_map(np.float32, network.init(np.random.default_rng(0)))
    found = sizes(SimpleNamespace(network=network, parameters=p), None)
    assert (found["kept"], found["kept longest"]) == (after_32, after_256)


def test_theory_speaks_of_every_cell_of_the_grid():
    assert {options.get("mixer", "attention") for _, options, *_ in KINDS.values()} <= set(MIXERS)
    assert {in_theory(kind, data) for kind in KINDS for data in TASKS} == {"yes", "no", "size", "deeper"}
    assert {in_theory("window", data) for data in TASKS} == {"no"}
    assert all(in_theory(kind, data) == in_theory("rope", data) for kind in ("shared", "latent-8") for data in TASKS)
    assert in_theory("mamba", "parity") == in_theory("rope", "parity") == "no"
    assert in_theory("lstm", "balance") == "yes"
    assert in_theory("one-block", "recall-8") == in_theory("one-block", "induction") == "no"
    for row in EXPERIMENT.rows.values():
        assert Tagger(**row.options).reads(8 * 32)
