"""export as people type it."""

import csv
import json

import numpy as np
import pytest

from tests.export.networks import untrained
from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.data import Interactions, Text
from tinyattn.export import export
from tinyattn.models import Decoder, Markov, Popularity, RunFolder, SASRec
from tinyattn.models.parameters import named


def run_of(model, folder):
    """A finished run of the model."""
    run = RunFolder(folder)
    with run.claimed({"model": model.name, "parameters": model.identity(), "data": {"fingerprint": "none"}}):
        model.save(run.model)
    return folder


def test_numbers_under_their_names(tmp_path, capsys):
    safetensors = pytest.importorskip("safetensors", reason="numbers are written with the package safetensors")
    model = untrained(SASRec)
    run, file = run_of(model, tmp_path / "run"), tmp_path / "model.safetensors"
    assert main(["export", str(run), str(file)]) == 0
    assert f"{file}: {file.stat().st_size:,} bytes of model sasrec" in capsys.readouterr().out
    with safetensors.safe_open(file, framework="np") as found:
        for name, array in named(model.parameters).items():
            np.testing.assert_array_equal(found.get_tensor(name.removeprefix("parameters.")), array)
        assert json.loads(found.metadata()["items"]) == model.items.ids.tolist()
        assert json.loads(found.metadata()["options"]) == model.identity()


def test_words_of_a_tokenizer_are_metadata(tmp_path):
    safetensors = pytest.importorskip("safetensors", reason="numbers are written with the package safetensors")
    model = Decoder(dim=8, layers=1, heads=2, context=4, epochs=1).fit(Text("to be or not to be " * 9), progress=False)
    file = tmp_path / "model.safetensors"
    export(model, file)
    words = {name for name, x in model.arrays().items() if x.dtype.kind == "U"}
    with safetensors.safe_open(file, framework="np") as found:
        assert words
        assert all(json.loads(found.metadata()[name]) == model.arrays()[name].tolist() for name in words)
        assert len(found.keys()) == len(model.arrays()) - len(words)


def test_what_a_run_learned_from_is_not_replaced(tmp_path, capsys):
    data = tmp_path / "rated.csv"
    data.write_text("".join(f"{user} {item}\n" for user in range(9) for item in range(user, user + 4)))
    assert main(["train", str(data), "--model", "popularity", "--out", str(tmp_path / "run")]) == 0
    refuses(capsys, ["export", tmp_path / "run", data], f"FILE {data} is the file {data}, which is read")


def test_popularity_is_a_table(tmp_path, capsys):
    run, file = run_of(Popularity().fit([[1, 2], [2, 3], [2, 1], [3]]), tmp_path / "run"), tmp_path / "items.csv"
    assert main(["export", str(run), str(file)]) == 0
    assert list(csv.reader(file.read_text().splitlines())) == [["item", "score"], ["2", "3"], ["1", "2"], ["3", "2"]]
    said = "popularity is not a neural network over histories, so it cannot be exported as .onnx; its scores do not"
    refuses(capsys, ["export", run, tmp_path / "model.onnx"], said)
    assert not (tmp_path / "model.onnx").exists()


def test_what_a_model_does_not_have_is_refused(tmp_path, capsys):
    run = run_of(Markov().fit(Interactions.of([[1, 2], [2, 3]])), tmp_path / "run")
    refuses(capsys, ["export", run, tmp_path / "m.csv"], "model markov scores each history separately: it has no")
    refuses(capsys, ["export", run, tmp_path / "m.onnx"], "model markov is not a neural network over histories")
    refuses(capsys, ["export", run, "m.onx"], "m.onx ends in '.onx', expected one of .safetensors, .onnx, .csv; did")
    refuses(capsys, ["export", run, tmp_path / "run"], "ends in '', expected one of")
    refuses(capsys, ["export", tmp_path / "none", "m.onnx"], "config.json: no such file")
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
