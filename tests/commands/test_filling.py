"""train --model encoder, fill and probe as people type them."""

import json

import numpy as np
import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.commands import probe
from tinyattn.data import Grammar, GrammarChain
from tinyattn.evaluation import linear_probe
from tinyattn.models import Encoder, RunFolder

SMALL = ["--model", "encoder", "--dim", "16", "--heads", "2", "--layers", "1", "--context", "24", "--epochs", "3",
         "--workers", "1", "--batch-size", "8"]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run on a few sentences of the grammar, which it reads as the grammar, and its table."""
    out, few = tmp_path_factory.mktemp("runs") / "run", Grammar(sentences=150).generate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinyattn.data.sources.Grammar.generate", lambda self: few)
        assert main(["train", *SMALL, "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run_and_the_grammars_own_loss_stands_beside_it(finished):
    assert (finished / "training.csv").read_text().startswith("epoch,loss,valid_-loss,")
    assert (finished / "figures" / "training.png").exists()
    rows = RunFolder(finished).metrics()
    assert list(rows) == ["model", "grammar"]
    assert 0 < rows["grammar"]["test"]["nats"] < 0.3 < rows["model"]["test"]["nats"] < 3
    model, test = Encoder.load(finished / "model.npz"), Grammar(sentences=150).generate().split().test
    best = GrammarChain.of_rules().loss(model.evaluation_batch(test), model.tokens.strings, model.masking)
    assert rows["grammar"]["test"]["nats"] == pytest.approx(best)


def test_a_page_has_the_probabilities_that_fill_prints(finished, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["show", str(finished), "--prompt", "the c_t", "--html", str(page)]) == 0
    assert main(["fill", str(finished), "the c_t"]) == 0
    probability, text = capsys.readouterr().out.splitlines()[1].split(maxsplit=1)
    data = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])
    best = data["runs"][0]["outputs"][0]
    assert best["share"] == pytest.approx(float(probability), abs=1e-4)
    assert text == f"'the c{best['name'].replace('␣', ' ')}t'"


def test_a_text_of_ones_own_has_no_such_row(tmp_path, capsys):
    path = tmp_path / "words.txt"
    path.write_text("the cat sat on the mat. " * 12)
    assert main(["train", *SMALL, "--text", str(path), "--out", str(tmp_path / "r")]) == 0
    said = capsys.readouterr().out
    assert "28 characters are tested" in said
    assert "per hidden character" in said
    assert "grammar" not in said
    assert main(["fill", str(tmp_path / "r"), "the ___ sat", "-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        p, text = line.split("  ", 1)
        assert 0 < float(p) < 1
        assert text.startswith("'the ")
        assert text.endswith(" sat'")
    refuses(capsys, ["probe", tmp_path / "r"], "of the text is unknown: the known ones are")


def test_fill_says_how_probable_each_way_is(finished, capsys):
    def filled(*more):
        capsys.readouterr()
        assert main(["fill", str(finished), *more]) == 0
        return [line.split("  ", 1) for line in capsys.readouterr().out.splitlines()]

    five = filled("the _at sleeps.")
    chances = [float(p) for p, _ in five]
    assert len(five) == 5
    assert chances == sorted(chances, reverse=True)
    assert filled("the ?at sleeps.", "--blank", "?", "--k", "3") == five[:3]


def test_probe_shows_each_layer(finished, capsys):
    asked = ["probe", str(finished), "--sentences", "60"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    rows = {line[:12].strip(): [float(x) for x in line[12:].split()] for line in said.splitlines()[-3:-1]}
    assert "ACCURACY" in said
    assert list(rows) == ["embedding", "block 1"]
    for accuracy, shuffled in rows.values():
        assert accuracy > shuffled + 0.1
    assert main([*asked, "--seed", "3"]) == 0
    assert capsys.readouterr().out != said


def test_what_cannot_be_filled_or_probed_is_refused(finished, tmp_path, capsys):
    fill = ["fill", finished]
    refuses(capsys, [*fill, "the ox _"], "character 'x' of the text is unknown: the known ones are")
    refuses(capsys, [*fill, "the cat"], "the text has no blank: expected '_' for each character that is missing")
    refuses(capsys, [*fill, ""], "the text is empty: expected at least one character")
    refuses(capsys, [*fill, "the cat _" * 3], "the text has 27 tokens, expected 24 at most: that is the context")
    refuses(capsys, [*fill, "_", "--k", "0"], "k is 0, expected 1 to 1000")
    refuses(capsys, [*fill, "_", "--blank", ""], "blank is '', expected one character")
    refuses(capsys, ["generate", finished, "--prompt", "t"], "encoder, which fills gaps in texts: `tinyattn fill` quer")
    refuses(capsys, ["probe", finished, "--sentences", "1"], "--sentences is 1, expected at least 2")
    refuses(capsys, ["probe", finished, "--seed", "-1"], "seed is -1, expected at least 0")
    train = ["train", *SMALL, "--out", tmp_path / "no"]
    refuses(capsys, [*train, "--hidden", "0.95"], "hidden 0.95 and swapped 0.1 are more than 1 together")
    refuses(capsys, [*train, "--chosen", "0"], "chosen is 0.0, expected above 0 and at most 1")
    refuses(capsys, [*train, "--merges", "4"], "--merges is no option of model encoder, but of decoder")
    assert not (tmp_path / "no").exists()


def test_a_probe_is_measured_on_sentences_that_it_was_not_fitted_on(finished, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(probe, "linear_probe", lambda *given: seen.append(given) or linear_probe(*given))
    assert main(["probe", str(finished), "--sentences", "40", "--seed", "7"]) == 0
    texts = [Grammar(sentences=n, seed=s).generate().text for n, s in ((40, 7), (20, 8))]   # not half of one text
    expected = [list(GrammarChain.of_rules().parts_of(text)) for text in texts]
    for train, labels, test, wanted, seed in seen:
        assert seed == 7
        assert [labels.tolist(), wanted.tolist()] == expected
        assert not np.array_equal(train[: len(test)], test)
