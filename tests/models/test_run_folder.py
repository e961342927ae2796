"""The folder of a run: the table of its training, and the names of what is there."""

import errno
from os import strerror

import pytest

from tinyattn.files import FileError, write_json
from tinyattn.models import Markov, RunFolder


def test_the_history_has_a_row_an_epoch(tmp_path):
    row = {"epoch": 1, "loss": 0.5, "valid": None, "gradient_norm": 2.25, "tokens_per_second": 1234.6}
    RunFolder(tmp_path).write_history([row, row | {"epoch": 2, "valid": 0.125}], "-loss")
    head = "epoch,loss,valid_-loss,gradient_norm,tokens_per_second\n"
    rows = "1,0.500000,,2.250000,1235\n2,0.500000,0.125000,2.250000,1235\n"
    assert (tmp_path / "training.csv").read_text() == head + rows


def test_its_files_are_named_in_one_order_and_the_folder_of_figures_as_one(tmp_path):
    (tmp_path / "figures").mkdir()
    for name in ("checkpoint.npz", "training.csv", "metrics.json", "config.json", "model.npz"):
        (tmp_path / name).write_text("{}")
    run = RunFolder(tmp_path)
    assert run.contents() == ["model.npz", "config.json", "metrics.json", "training.csv", "figures/"]
    assert not run.finished
    run.finish()
    assert run.finished
    (tmp_path / "metrics.json").unlink()
    assert not run.finished


def test_the_model_of_another_run_is_refused(tmp_path):
    model, run = Markov(order=2).fit([["a", "b"], ["b", "c"]]), RunFolder(tmp_path)
    model.save(run.model)
    for order, opens in ((2, True), (1, False)):
        write_json(tmp_path / "config.json", {"model": "markov", "parameters": {"order": order}, "data": {}})
        if opens:
            assert run.open()[0].order == 2
        else:
            with pytest.raises(FileError, match=r"model\.npz has order 2, and config\.json 1: it is another run's"):
                run.open()


def test_a_full_disk_leaves_no_empty_folder(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, strerror(errno.ENOSPC))

    monkeypatch.setattr("tinyattn.models.run.write_json", full)
    refused = pytest.raises(FileError, match=r"cannot write to .*run: No space left on device")
    with refused, RunFolder(tmp_path / "run").claimed({}):
        pass
    assert not (tmp_path / "run").exists()
