"""`tinyattn show`: pages, animations, and what is refused."""

import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.models import Recommender
from tinyattn.tree import leaves

ITEMS = ["--items", "s1e1,s1e2,s2e1"]


def test_a_page_of_a_run_beside_another(runs, names, tmp_path, capsys):
    out = tmp_path / "page.html"
    run = str(runs["sasrec"])
    assert main(["show", run, *ITEMS, "--html", str(out), "--against", run, "--names", str(names)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "Le Café (1995)" in page
    assert page.count('"title":"the same options (sasrec)"') == 2


@pytest.mark.parametrize("end", ["", "/"])
def test_no_output_replaces_the_data_of_the_run(end, data, tmp_path, capsys):
    own, run = tmp_path / "own.txt", tmp_path / "run"
    own.write_bytes(data.read_bytes())
    assert main(["train", str(own), "--model", "popularity", "--out", str(run)]) == 0
    for command in (["show", run, *ITEMS, "--html"], ["recommend", run, "--users", "all", "--out"]):
        refuses(capsys, [*command, f"{own}{end}"], "which is read: expected another one to write to")
    assert own.read_bytes() == data.read_bytes()


def test_a_page_of_a_sentence_needs_no_run(tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["show", "--text", "The cat sat on the mat", "--html", str(out)]) == 0
    assert "has just learned this one sentence" in out.read_text(encoding="utf-8")


def test_an_animation(runs, tmp_path, monkeypatch, capsys):
    out = tmp_path / "looks.gif"
    monkeypatch.setattr("tinyattn.show.animation.MOST", 3)
    assert main(["show", str(runs["sasrec"]), *ITEMS, "--gif", str(out)]) == 0
    assert out.read_bytes()[:4] == b"GIF8"
    assert main(["show", str(runs["sasrec"]), "--items", "s1e1,s1e2,s2e1,s3e1", "--gif", str(out)]) == 2
    assert "--gif has a picture for each item, at most 3, and there are 4 items" in capsys.readouterr().err


def test_a_history_longer_than_the_model_is_cut_and_that_is_said(with_pictures, runs, tmp_path, capsys):
    given = ["--items", ",".join(["s1e1"] * 300), "--out", str(tmp_path / "looks.svg")]
    assert main(["show", str(runs["sasrec"]), *given]) == 0
    assert "note: the model looks at the newest 6 of the 300 items" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "form"), [("stosa", "out x.png"), ("stosa", "gif x.gif"), ("sasrec", "html x.html")])
def test_a_model_whose_weights_are_nan_is_refused_before_a_picture(name, form, data, tmp_path, monkeypatch, capsys):
    """Without a warning: its parameters are finite, and so large that what is made of them is not."""
    monkeypatch.chdir(tmp_path)
    sizes = ["--maxlen", "6", "--dim", "8", "--heads", "2", "--blocks", "1", "--epochs", "1"]
    assert main(["train", str(data), "--model", name, *sizes, "--out", "run"]) == 0
    model = Recommender.load("run/model.npz")
    for _, x in leaves(model.parameters["blocks"]):
        x[...] = 1e30
    model.save("run/model.npz")
    capsys.readouterr()
    assert main(["show", "run", *ITEMS, *f"--{form}".split()]) == 2
    said = capsys.readouterr()
    assert "the model's scores are NaN: its parameters are damaged" in said.err
    assert "Warning" not in said.err
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["SASREC", *ITEMS, "--against", "SASREC"], "--against is for a page: give --html FILE, too"),
        (["--text", "a b"], "--text is for a page: give --html FILE, too"),
        (["SASREC", "--prompt", "a"], "--prompt is for a page: give --html FILE, too"),
        (["SASREC", "--text", "a b", "--html", "x.html"], "--text takes the place of a run"),
        (["SASREC", *ITEMS, "--padding", "2"], "--padding is for a page: give --html FILE, too"),
        (["--text", "a b", "--padding", "2", "--html", "x.html"], "--padding 2 is for a history, and --text has none"),
        (["SASREC", *ITEMS, "--padding", "99", "--html", "x.html"], "padding is 99, expected 0 to "),
        (["--text", "a b", "--names", "x.csv", "--html", "x.html"], "--names: for a history, and --text has none"),
        (["SASREC", "--prompt", "a", "--k-core", "3", "--html", "x.html"], "--k-core: for a history, and --prompt has"),
        (["--text", "word", "--html", "x.html"], "the text has 1 words, expected 2 to 64"),
        ([*ITEMS], "say which run"),
        ([*ITEMS, "--html", "x.html"], "say which run"),
        (["MARKOV", *ITEMS, "--html", "x.html"], "is of model markov, without attention that can be shown"),
        (["SASREC", "--items", "nope", "--html", "x.html"], "unknown item id nope"),
        (["SASREC", *ITEMS, "--gif", "x.png"], "--gif x.png is an animation, expected a name that ends in .gif"),
        (["SASREC", *ITEMS, "--html", "RUN/model.npz"], "RUN/model.npz is a part of the run in that folder"),
        (["SASREC", *ITEMS, "--html", "DATA", "--names", "DATA"], "--html DATA is the file DATA, which is read"),
        (["SASREC", *ITEMS, "--html", "."], "is a directory, expected a file"),
        (["SASREC", "--prompt", "a", "--html", "x.html"], "is of model sasrec, which ranks items"),
    ],
)
def test_refusals(runs, tmp_path, monkeypatch, capsys, given, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "RUN").mkdir()
    for name in ("RUN/config.json", "DATA"):
        (tmp_path / name).write_text("{}")
    known = {"SASREC": str(runs["sasrec"]), "MARKOV": str(runs["markov"])}
    assert main(["show", *(known.get(word, word) for word in given)]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()
