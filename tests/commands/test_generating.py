"""train --model decoder and generate as people type them."""


import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.data import Text, TextSource
from tinyattn.models import Decoder, RunFolder

SMALL = ["--model", "decoder", "--dim", "8", "--heads", "2", "--layers", "1", "--context", "12", "--epochs", "2",
         "--workers", "1", "--batch-size", "4"]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "words.txt"
    path.write_text("the cat sat on the mat. " * 12)
    return path


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", *SMALL, "--text", str(text), "--merges", "4", "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run_and_prints_its_table(finished, text, capsys):
    assert (finished / "training.csv").read_text().startswith("epoch,loss,valid_-loss,")
    assert (finished / "figures" / "training.png").exists()
    (row,) = RunFolder(finished).metrics().values()
    measured = Decoder.load(finished / "model.npz").evaluate(TextSource.of(str(text)).load().split().test)
    assert row["test"] == {"nats": pytest.approx(measured["per_character"])}
    assert measured["per_character"] < measured["loss"]      # a token may have several characters
    assert main(["train", *SMALL, "--text", str(text), "--merges", "4", "--out", str(finished)]) == 0
    said = capsys.readouterr().out
    assert "28 characters are tested" in said
    assert f"{row['test']['nats']:.4f}" in said


def test_the_grammars_table_has_its_entropy(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tinyattn.data.grammar.Grammar.generate", lambda self: Text.of("the cats sleep. " * 20))
    assert main(["train", *SMALL, "--preset", "llama", "--kv-heads", "1", "--out", str(tmp_path / "r")]) == 0
    assert "entropy         0.2733" in capsys.readouterr().out


def test_evaluate_measures_its_own_text_and_that_of_a_file(finished, text, capsys):
    nats = RunFolder(finished).metrics()["model"]["test"]["nats"]
    capsys.readouterr()
    for data, tested in (([], 28), ([str(text)], 288)):
        assert main(["evaluate", str(finished), *data]) == 0
        said = capsys.readouterr().out
        assert f"{tested} characters are tested" in said
        assert (f"{nats:.4f}" in said) == (not data)
    refuses(capsys, ["recommend", finished, "--items", "a"], "which continues texts: `tinyattn generate` queri")


def test_generate_writes_on_where_the_prompt_ends(finished, capsys):
    def written(*more):
        capsys.readouterr()
        assert main(["generate", str(finished), "--prompt", "the cat", "--length", "30", *more]) == 0
        return capsys.readouterr().out

    assert written().startswith("the cat")
    assert written("--seed", "1") == written("--seed", "1") != written("--seed", "2")
    assert written("--top-k", "1") == written("--top-k", "1", "--seed", "3") == written("--top-p", "1e-9")
    assert written("--temperature", "0.001") == written("--top-k", "1")


def test_what_cannot_be_generated_or_trained_on_is_refused(finished, text, tmp_path, capsys):
    generate = ["generate", finished, "--prompt"]
    refuses(capsys, [*generate, "the dog"], "character 'd' of the text is unknown: the known ones are")
    refuses(capsys, [*generate, ""], "the text is empty: expected at least one character")
    refuses(capsys, [*generate, "t c" * 9], "tokens, expected 12 at most: that is the context")
    refuses(capsys, [*generate, "t", "--temperature", "0"], "temperature is 0.0, expected a positive")
    refuses(capsys, [*generate, "t", "--temperature", "nan"], "temperature is nan, expected a positive")
    refuses(capsys, [*generate, "t", "--top-p", "0"], "top_p is 0.0, expected above 0 and at most 1")
    refuses(capsys, [*generate, "t", "--top-p", "1.5"], "top_p is 1.5, expected above 0 and at most 1")
    refuses(capsys, [*generate, "t", "--top-k", "0"], "top_k is 0, expected at least 1")
    refuses(capsys, [*generate, "t", "--length", "0"], "length is 0, expected 1 to 1000000")
    refuses(capsys, [*generate, "t", "--seed", "-1"], "--seed is -1, expected at least 0")
    refuses(capsys, ["translate", finished, "t"], "decoder, which continues texts: `tinyattn generate` queri")
    short = tmp_path / "short.txt"
    short.write_text("abc")
    train = ["train", *SMALL, "--out", tmp_path / "no", "--text"]
    refuses(capsys, [*train, short], "the text has 4 characters, expected at least 20")
    short.write_text("")
    refuses(capsys, [*train, short], f"{short}: empty")
    refuses(capsys, [*train, tmp_path / "none"], "none: no such file")
    assert not (tmp_path / "no").exists()
