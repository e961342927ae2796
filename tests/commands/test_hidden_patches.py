"""train --model beit, and a vit that starts from it, as people type them."""

import json
import shutil

import numpy as np
import pytest

from tests.helpers import pictures_drawn, refuses
from tinyattn.cli import main
from tinyattn.commands.measures import MEASURES
from tinyattn.data import ImageSource, tenths
from tinyattn.models import Estimator, RunFolder

SMALL = ["--dim", "8", "--heads", "2", "--layers", "1", "--epochs", "2", "--workers", "1", "--patch", "2"]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Without labels, and with them."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    pixels = rng.random((60, 8, 8)) + np.eye(8)[rng.integers(8, size=60)][:, None, :]
    np.savez(folder / "plain.npz", images=pixels)
    np.savez(folder / "labelled.npz", images=pixels, labels=np.arange(60) % 2)
    return folder


@pytest.fixture(scope="module")
def finished(images, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "beit"
    train = ["train", "--model", "beit", *SMALL, "--words", "8", "--images", str(images / "plain.npz")]
    with pictures_drawn():
        assert main([*train, "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run_and_evaluate_measures_it_again(finished, images, capsys):
    assert sorted(p.name for p in (finished / "figures").iterdir()) == ["hidden.png", "training.png"]
    table = RunFolder(finished).metrics()
    assert table.keys() == {"model", "blind"}

    model = Estimator.load(finished / "model.npz")
    tested = ImageSource.of(str(images / "plain.npz")).load(labelled=False)[tenths(60, "images")[2]]
    hidden = model.evaluation_batch(tested)                             # whose most frequent word is guessed
    counts = np.bincount(hidden.words[hidden.hidden])
    assert table["blind"]["test"]["accuracy"] == pytest.approx(counts.max() / counts.sum())
    shares = [count / counts.sum() for count in counts.tolist() if count]
    assert table["blind"]["test"]["loss"] == pytest.approx(-sum(share * np.log(share) for share in shares))
    assert MEASURES["hidden patches"].load(ImageSource.of(str(images / "labelled.npz")))[0].labels is None
    assert main(["evaluate", str(finished)]) == 0
    said = capsys.readouterr().out
    assert "6 images are tested" in said
    for row in table.values():
        assert f"{row['test']['accuracy']:10.4f}{row['test']['loss']:10.4f}" in said
    assert main(["evaluate", str(finished), str(images / "plain.npz")]) == 0
    assert "60 images are tested" in capsys.readouterr().out


def test_a_vit_starts_from_its_encoder(finished, images, tmp_path, capsys):
    out, data = tmp_path / "vit", ["--images", str(images / "labelled.npz")]
    train = ["train", "--model", "vit", *SMALL, *data, "--out", str(out)]
    refuses(capsys, [*train, "--start", str(tmp_path)], "config.json")
    refuses(capsys, [*train, "--start", str(finished), "--dim", "4"], "dim is 4, expected 8, as in the model that this")
    refuses(capsys, ["train", "--model", "swin", *data, "--start", str(finished)], "only model vit starts from another")
    assert not out.exists()
    assert main([*train, "--start", str(finished)]) == 0
    was = json.loads((out / "config.json").read_text())["evaluation"]["start"]
    assert was.startswith(f"{finished.resolve()} (learned: ")
    refuses(capsys, train, f"was made with --start {was}, not without;")
    assert main(["evaluate", str(out)]) == 0
    assert main(["train", "--model", "vit", *data, "--epochs", "1", "--start", str(finished), "--out", f"{out}2"]) == 0
    other = [*train[:-1], str(tmp_path / "other")]
    refuses(capsys, [*other, "--start", str(out)], "of model vit, expected a run of model beit")
    assert not (tmp_path / "other").exists()


def test_another_encoder_in_the_same_folder_is_another_start(images, tmp_path, capsys):
    start, out = tmp_path / "beit", tmp_path / "vit"
    before = ["train", "--model", "beit", *SMALL, "--words", "8", "--images", str(images / "plain.npz")]
    train = ["train", "--model", "vit", *SMALL, "--images", str(images / "labelled.npz"), "--start", str(start)]
    assert main([*before, "--out", str(start)]) == main([*train, "--out", str(out)]) == 0
    assert main([*train, "--out", str(out)]) == 0                          # complete, and left as it is
    shutil.rmtree(start)
    assert main([*before, "--out", str(start), "--seed", "1"]) == 0
    refuses(capsys, [*train, "--out", str(out)], f"was made with --start {start.resolve()} (learned: ")


def test_what_is_refused(finished, images, tmp_path, capsys):
    says = "is of model beit, which predicts hidden patches of images, so that a vit can start from it: `tinyattn evalu"
    refuses(capsys, ["classify", str(finished)], says)
    train = ["train", "--model", "beit", "--out", str(tmp_path / "run"), "--images", str(images / "plain.npz")]
    refuses(capsys, [*train, "--teacher", "x"], "--teacher")
    refuses(capsys, [*train, "--patch", "3"], "patch is 3, expected a divisor of the height of the images, which is 8")
    refuses(capsys, [*train, "--words", "5000"], "words is 5000, expected at most")
    assert not (tmp_path / "run").exists()
