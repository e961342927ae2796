"""train --model vit and swin, and classify, as people type them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers import pictures_drawn, refuses
from tinyattn.cli import main
from tinyattn.commands import classify
from tinyattn.commands.measures import MEASURES
from tinyattn.commands.measures import images as of_images
from tinyattn.data import ImageSource, tenths
from tinyattn.models import ImageModel, RunFolder, distances_by_head

SMALL = ["--dim", "8", "--heads", "2", "--layers", "2", "--epochs", "2", "--workers", "1", "--patch", "2"]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("data") / "bars.npz", np.random.default_rng(0)
    across = rng.integers(2, size=60)
    pixels = rng.random((60, 8, 8)) + np.where(across[:, None, None], np.eye(8)[3], np.eye(8)[3][:, None])
    np.savez(path, images=(100 * pixels).astype(np.uint8), labels=np.array(["down", "across"])[across])
    return path


@pytest.fixture(scope="module", params=["vit", "swin"])
def finished(request, images, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / request.param
    with pictures_drawn():
        assert main(["train", "--model", request.param, *SMALL, "--images", str(images), "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run_and_prints_its_table(finished, images, capsys):
    assert sorted(p.name for p in (finished / "figures").iterdir()) == ["distances.png", "field.png", "training.png"]
    (row,) = RunFolder(finished).metrics().values()
    assert row["test"].keys() == {"accuracy", "loss"}
    blocks = list(row)[1:]
    assert blocks == [f"block {i}" for i in range(1, len(blocks) + 1)]
    again = ["train", "--model", finished.name, *SMALL, "--images", str(images), "--out", str(finished)]
    assert main(again) == 0
    said = capsys.readouterr().out
    assert "60 images, 2 classes; 6 images are tested" in said
    assert "is complete" in said


def test_classify_names_classes_of_a_file_and_of_its_own_images(finished, images, capsys, monkeypatch):
    assert main(["classify", str(finished), str(images)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 60
    for number, line in enumerate(lines, start=1):
        place, found, probability = line.split()
        assert (int(place), found in ("across", "down")) == (number, True)
        assert 0.5 <= float(probability) <= 1
    tested = tenths(60, "images")[2]
    for shown in (10, 4):
        monkeypatch.setattr(classify, "SHOWN", shown)
        assert main(["classify", str(finished)]) == 0
        found = [line.split()[1:] for line in capsys.readouterr().out.splitlines()]
        assert found == [lines[i].split()[1:] for i in tested[:shown]]


def test_distances_are_those_of_the_first_test_images(finished, images, monkeypatch):
    monkeypatch.setattr(of_images, "LOOKED_AT", 2)
    model, test = ImageModel.load(finished / "model.npz"), ImageSource.of(str(images)).load()[:5]
    rows = MEASURES["images"].rows(model, SimpleNamespace(split=SimpleNamespace(test=test)))
    assert rows == {"model": {"test": model.evaluate(test)} | distances_by_head(model, test[:2])}


def test_a_picture_that_cannot_be_is_refused_before_anything_is_printed(finished, tmp_path, capsys):
    out = refuses(capsys, ["classify", finished, "--picture", tmp_path / "x.xyz"], "x.xyz ends in .xyz, expected a")
    ask = ["classify", finished, "--of", "field"]
    out += refuses(capsys, ask, "--of field is for --picture FILE, which is missing")
    if finished.name == "swin":
        out += refuses(capsys, ["classify", finished, "--picture", tmp_path / "x.png"], "")
    assert not out
    assert not list(tmp_path.iterdir())


def test_evaluate_measures_its_own_images_and_those_of_a_file(finished, images, capsys):
    table = RunFolder(finished).metrics()["model"]
    assert main(["evaluate", str(finished)]) == 0
    said = capsys.readouterr().out
    assert "6 images are tested" in said
    assert f"{table['test']['accuracy']:10.4f}{table['test']['loss']:10.4f}" in said
    rows = [line for line in said.splitlines() if line.startswith("block")]
    assert rows[1].split()[-2:] == [f"{table['block 2'][name]:.2f}" for name in ("mean", "alike")]
    assert main(["evaluate", str(finished), str(images)]) == 0
    said = capsys.readouterr().out
    assert "60 images are tested" in said
    with np.load(images) as arrays:
        found = ImageModel.load(finished / "model.npz").evaluate((arrays["images"], arrays["labels"]))
    assert f"{found['accuracy']:10.4f}{found['loss']:10.4f}" in said
    refuses(capsys, ["evaluate", finished, "--at", "5"], "--at: for a model that ranks items, and model", "classifies")
    refuses(capsys, ["evaluate", finished, images, "--k-core", "2"], "--k-core: for a file of interactions, and this")
    refuses(capsys, ["evaluate", finished, "--per-user", "x.csv"], "--per-user writes ranks, and model", "classifies")


def test_what_asks_recommenders_names_the_command_for_images(finished, capsys):
    for asked in (
        ["recommend", finished, "--items", "a"], ["recommend", finished, "--user", "a"],
        ["similar", finished, "--item", "a"], ["explain", finished, "--items", "a"], ["show", finished, "--items", "a"],
        ["compare", finished, finished / "other"], ["translate", finished, "abc"],
        ["generate", finished, "--prompt", "a"],
    ):  # fmt: skip
        says = f"is of model {finished.name}, which classifies images: `tinyattn classify` queries it, and `tinyattn ev"
        assert refuses(capsys, asked, says) == ""


def test_pictures_of_what_it_looks_at(finished, with_pictures, tmp_path, capsys):
    for of in ("rollout", "distances", "field"):
        picture = tmp_path / f"{of}.png"
        asked = ["classify", str(finished), "--picture", str(picture), "--of", of]
        if finished.name == "swin" and of == "rollout":
            refuses(capsys, asked, "rollout is for blocks of the same tokens, and these have 16, 16, 4, 4")
        else:
            assert main(asked) == 0
            assert ("block 2" in capsys.readouterr().out) == (of == "distances")
            assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_teachers_answers_are_learned(finished, images, tmp_path, capsys):
    taught = ["train", "--model", "vit", *SMALL, "--images", str(images), "--out", str(tmp_path / "taught")]
    refuses(capsys, [*taught, "--teacher", str(finished)], "only a model with --distil learns its answers")
    refuses(capsys, [*taught, "--distil"], "these images have none: expected `teacher` with them, or --teacher RUN")
    assert main([*taught, "--distil", "--teacher", str(finished)]) == 0
    assert main(["evaluate", str(tmp_path / "taught")]) == 0  # the teacher is asked again: the data are the same
    own = json.loads((finished / "config.json").read_text())["data"]["fingerprint"]
    assert json.loads((tmp_path / "taught" / "config.json").read_text())["data"]["fingerprint"] != own


def test_what_is_refused(finished, tmp_path, capsys):
    other = tmp_path / "other.npz"
    np.savez(other, images=np.zeros((1, 8, 10)))
    refuses(capsys, ["classify", str(finished), str(other)], "images are 8 x 10 x 1")
    train = ["train", "--model", finished.name, "--out", str(tmp_path / "run")]
    refuses(capsys, [*train, "--images", str(other)], "has no array labels")
    refuses(capsys, [*train, "--images", "x.npz", "--image-set", "shapes"], "expected one of them")
    refuses(capsys, [*train, "--image-set", "shape"], "--image-set is 'shape', expected")
    refuses(capsys, [*train, "x.npz"], f"x.npz: model {finished.name} takes no DATA, but --image-set, --images, --st")
    assert not (tmp_path / "run").exists()
