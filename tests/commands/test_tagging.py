"""train --model tagger, and evaluate, as people type them."""

import json

import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.data import SequenceTaskSource
from tinyattn.models import RunFolder, Tagger

SMALL = ["--dim", "8", "--layers", "1", "--epochs", "2", "--workers", "1", "--task", "count"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "tagger"
    flags = ["--mixer", "gru", "--position", "none", "--length", "6"]
    assert main(["train", "--model", "tagger", *SMALL, *flags, "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run_and_evaluate_measures_it_again(finished, capsys):
    assert [p.name for p in (finished / "figures").iterdir()] == ["training.png"]
    table = RunFolder(finished).metrics()
    assert set(table) == {"model", "longer"}
    model = Tagger.load(finished / "model.npz")
    for row, length in (("model", 6), ("longer", 12)):
        task = SequenceTaskSource.of("count", length=length).load().split().test.task
        assert table[row]["test"] == pytest.approx(model.evaluate(task))
    assert json.loads((finished / "config.json").read_text())["data"]["task"]["length"] == 6
    assert main(["evaluate", str(finished)]) == 0
    said = capsys.readouterr().out
    assert "1,000 sequences are tested" in said
    for row in table.values():
        assert f"{row['test']['accuracy']:.4f}" in said


def test_where_positions_end_nothing_longer_is_measured(tmp_path, capsys):
    out = tmp_path / "run"
    flags = ["--position", "learned", "--length", "6", "--context", "6"]
    assert main(["train", "--model", "tagger", *SMALL, *flags, "--out", str(out)]) == 0
    assert set(RunFolder(out).metrics()) == {"model"}


def test_what_is_refused(finished, capsys):
    train = ["train", "--model", "tagger"]
    refuses(capsys, [*train, "--task", "dates"], "--task is 'dates', expected one of recall, induction")
    refuses(capsys, [*train, "--length", "1"], "length is 1, expected at least 2")
    refuses(capsys, [*train, "--length", "100"], "has sequences of 100 tokens, expected at most 64: the context")
    refuses(capsys, ["evaluate", str(finished), "x.txt"], "DATA is x.txt, and model tagger is measured on its own task")
