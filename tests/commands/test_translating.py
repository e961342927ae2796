"""train with a model of pairs, and translate, as people type them."""


import pytest

from tests.helpers import pictures_drawn, refuses
from tinyattn.cli import main
from tinyattn.models import RunFolder
from tinyattn.show import alignment_map

OF_BOTH = ["--dim", "8", "--epochs", "2", "--workers", "1"]
MODELS = {
    "transformer": ["--model", "transformer", *OF_BOTH, "--heads", "2", "--layers", "1"],
    "rnnsearch": ["--model", "rnnsearch", *OF_BOTH],
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "words.tsv"
    path.write_text("".join(f"{a}{b}{c}\t{c}{b}{a}\n" for a in "abcd" for b in "abcd" for c in "abcd"))
    return path


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return request.param


@pytest.fixture(scope="module")
def finished(model, pairs, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    with pictures_drawn():
        assert main(["train", *MODELS[model], "--pairs", str(pairs), "--batch-size", "8", "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run_and_prints_its_table(finished, model, pairs, capsys):
    assert sorted(p.name for p in finished.iterdir()) == [
        "config.json", "figures", "metrics.json", "model.npz", "training.csv"
    ]  # fmt: skip
    assert sorted(p.name for p in (finished / "figures").iterdir()) == ["alignment.png", "training.png"]
    assert (finished / "training.csv").read_text().startswith("epoch,loss,valid_exact,")
    (row,) = RunFolder(finished).metrics().values()
    assert row["test"].keys() == {"exact", "characters", "loss"}
    again = ["train", *MODELS[model], "--pairs", str(pairs), "--batch-size", "8", "--out", str(finished)]
    capsys.readouterr()
    assert main(again) == 0
    said = capsys.readouterr().out
    assert "64 pairs; 6 pairs are tested" in said
    assert "is complete" in said
    assert f"{row['test']['loss']:.4f}" in said


def test_translate_writes_what_the_model_makes_of_a_text(finished, with_pictures, tmp_path, capsys, monkeypatch):
    best, drawn = [], []

    def remember(weights, source, target, title):
        drawn.append(target)
        return alignment_map(weights, source, target, title)

    monkeypatch.setattr("tinyattn.show.alignment_map", remember)
    for beam in (1, 3):
        capsys.readouterr()
        picture = tmp_path / f"{beam}.png"
        assert main(["translate", str(finished), "abc", "--beam", str(beam), "--picture", str(picture)]) == 0
        *lines, last = capsys.readouterr().out.splitlines()
        assert last == str(picture)
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert 1 <= len(lines) <= beam
        assert lines[0].startswith(f"{drawn[-1]} ")             # the picture is of the best
        best.append(float(lines[0].split("log-probability ")[1].rstrip(")")))
    assert best[1] >= best[0]


def test_evaluate_measures_its_own_strings_and_those_of_a_file(finished, pairs, capsys):
    table = RunFolder(finished).metrics()["model"]["test"]
    capsys.readouterr()
    for data, tested in (([], 6), ([str(pairs)], 64)):
        assert main(["evaluate", str(finished), *data]) == 0
        said = capsys.readouterr().out
        assert f"64 pairs; {tested} pairs are tested" in said
        assert (f"{table['loss']:.4f}" in said) == (not data)


def test_what_cannot_be_translated_or_trained_on_is_refused(finished, model, pairs, tmp_path, capsys):
    small = MODELS[model]
    refuses(capsys, ["translate", finished, "abx"], "character 'x' of 'abx' is unknown")
    refuses(capsys, ["translate", finished, ""], "the text is empty")
    refuses(capsys, ["translate", finished, "abc", "--beam", "0"], "beam is 0, expected 1 to 1000")
    refuses(capsys, ["translate", finished, "abc", "--picture", tmp_path], "is a directory")
    refuses(capsys, ["recommend", finished, "--items", "a"], f"{model}, which writes strings: `tinyattn translate`")
    refuses(capsys, ["train", "--task", "copy"], "--task is no option of model sasrec, but of transformer")
    refuses(capsys, ["train", *small, "--task", "copies"], "--task is 'copies'", "did you mean copy?")
    refuses(capsys, ["train", *small, "--task", "copy", "--pairs", pairs], "expected one of them")
    refuses(capsys, ["train", *small, "--pairs", tmp_path / "none"], "none: no such file")
    refuses(capsys, ["train", *small, "--pairs", pairs, "--out", finished], "made with --batch-size 8, not 64")
    long = tmp_path / "long.tsv"
    long.write_text(pairs.read_text() + "a" * 65 + "\tb\n")
    refuses(capsys, ["train", *small, "--pairs", long, "--out", tmp_path / "no"], "has 65 characters, expected 64")
    assert not (tmp_path / "no").exists()  # nothing was lost, and nothing is left
