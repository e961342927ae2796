"""The folder of a run: the table of its training, and the names of what is there."""

from tinyattn.models import RunFolder


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
