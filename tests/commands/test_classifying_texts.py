"""train --model classifier, alone and from an encoder, and classify, as people type them."""

import numpy as np
import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.models import Estimator, RunFolder

SMALL = ["--dim", "8", "--heads", "2", "--layers", "1", "--epochs", "2", "--workers", "1", "--context", "16"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    texts = [f"{a}{b}{c}" for a in "ab" for b in "abcd" for c in "abcde"]
    (folder / "labelled.tsv").write_text("".join(f"{'yes' if t[0] == 'a' else 'no'}\t{t}\n" for t in texts))
    (folder / "plain.txt").write_text("abc\nbad\n")
    (folder / "text.txt").write_text(" ".join(texts))
    (folder / "one.tsv").write_text("yes\ta\nyes\tb\nyes\tc\n")
    return folder


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "classifier"
    assert main(["train", "--model", "classifier", *SMALL, "--labels", f"{data}/labelled.tsv", "--out", str(out)]) == 0
    return out


def test_train_evaluate_and_classify(finished, data, capsys):
    table = RunFolder(finished).metrics()
    assert table["model"]["test"].keys() == table["blind"]["test"].keys() == {"accuracy", "loss", "macro-f1"}
    assert list(table["blind"]["test"].values()) == pytest.approx([0.5, np.log(2), 1 / 3])
    assert main(["evaluate", str(finished)]) == 0
    assert "4 texts are tested" in capsys.readouterr().out
    assert main(["evaluate", str(finished), f"{data}/labelled.tsv"]) == 0
    assert "40 texts are tested" in capsys.readouterr().out
    assert main(["classify", str(finished), f"{data}/plain.txt"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(number, text, label in ("yes", "no")) for number, label, _, text in lines] == [
        ("1", "'abc'", True), ("2", "'bad'", True),
    ]  # fmt: skip
    assert main(["classify", str(finished)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_classifier_starts_from_an_encoder(data, tmp_path, capsys):
    start, out = tmp_path / "encoder", tmp_path / "begun"
    assert main(["train", "--model", "encoder", *SMALL, "--text", f"{data}/text.txt", "--out", str(start)]) == 0
    train = ["train", "--model", "classifier", *SMALL, "--labels", f"{data}/labelled.tsv", "--out", str(out)]
    refuses(capsys, [*train, "--start", start, "--dim", "4"], "dim is 4, expected 8, as in the model that this one")
    assert main([*train, "--start", str(start)]) == 0
    assert RunFolder(out).config()["evaluation"]["start"].startswith(f"{start.resolve()} (learned: ")
    fresh = ["train", "--model", "classifier", "--labels", f"{data}/labelled.tsv", "--start", str(start)]
    assert main([*fresh, "--epochs", "1", "--out", str(tmp_path / "fresh")]) == 0  # the encoder's sizes need no flags
    begun, encoder = (RunFolder(folder).open(Estimator)[0] for folder in (tmp_path / "fresh", start))
    assert {(name, getattr(model, name)) for model in (begun, encoder) for name in ("context", "dim", "layers")} == {
        ("context", 16), ("dim", 8), ("layers", 1),
    }  # fmt: skip
    refuses(capsys, [*fresh, "--position", "rope", "--out", tmp_path / "x"], "position is rope, expected learned, as")
    refuses(capsys, ["fill", out, "a_"], "is of model classifier, which classifies texts: `tinyattn classify`")


def test_what_cannot_be_is_refused_before_training(finished, data, tmp_path, capsys):
    train = ["train", "--model", "classifier", "--out", tmp_path / "x", "--labels"]
    refuses(capsys, [*train, data / "plain.txt"], "line 1 is 'abc', expected a label, one TAB, and a text")
    refuses(capsys, [*train, data / "one.tsv"], "have the label 'yes', expected at least two labels")
    refuses(capsys, [*train, data / "none.tsv"], "none.tsv: no such file")
    begun = [*train, data / "labelled.tsv", "--start", finished]
    refuses(capsys, begun, f"--start is {finished}, of model classifier, expected a run of model encoder")
    refuses(capsys, ["classify", finished, "--picture", tmp_path / "x.png"], "--picture is of an image model")
    refuses(capsys, ["classify", finished, data / "labelled.tsv"], "character 'y' of the text is unknown")
    (tmp_path / "gap.txt").write_text("abc\n\nbad\n")
    refuses(capsys, ["classify", finished, tmp_path / "gap.txt"], "gap.txt: line 2 is blank, expected a text a line")
    (tmp_path / "other.tsv").write_text("yes\tabc\nmaybe\tbad\n")
    unknown = "text 2 (in a file: line 2), 'bad', has the label 'maybe', expected one of no, yes"
    refuses(capsys, ["evaluate", finished, tmp_path / "other.tsv"], unknown)
    assert not (tmp_path / "x").exists()
