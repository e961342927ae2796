"""The command as people type it: what it writes, what it prints, what it refuses, and that killing it costs nothing."""

import csv
import errno
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.helpers import pictures_drawn, refuses
from tests.models.worlds import write_tiny
from tinyattn.__main__ import run as run_as_script
from tinyattn.cli import main
from tinyattn.files import alone_in
from tinyattn.models import MODELS, PRESETS, Markov, run
from tinyattn.options import options_of

SMALL = ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of `user item` lines, from a small generated world."""
    return write_tiny(tmp_path_factory.mktemp("data") / "tiny.txt")


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """A run of two epochs."""
    out = tmp_path_factory.mktemp("runs") / "run"
    with pictures_drawn():
        assert main(["train", str(data), *SMALL, "--epochs", "2", "--heads", "2", "--out", str(out)]) == 0
    return out


def test_train_writes_a_whole_run(finished):
    assert sorted(p.name for p in finished.iterdir()) == [
        "config.json", "figures", "metrics.json", "model.npz", "moments.npz", "training.csv"
    ]  # fmt: skip
    assert sorted(p.name for p in (finished / "figures").iterdir()) == ["attention.png", "metrics.png", "training.png"]
    metrics = json.loads((finished / "metrics.json").read_text())
    assert list(metrics) == ["model", "popularity", "markov", "validation"]  # a file has no known truth, so no optimum
    epochs = [line.split(",") for line in (finished / "training.csv").read_text().splitlines()[1:]]
    assert metrics.pop("validation")["ndcg@10"] == pytest.approx(max(float(row[2]) for row in epochs), abs=1e-6)
    for row in metrics.values():
        assert set(row["full"]) == {"hr@10", "ndcg@10", "mrr"}
        assert all(0 <= value <= 1 for value in row["full"].values())
    rows = list(csv.DictReader((finished / "training.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert float(rows[1]["loss"]) < float(rows[0]["loss"])
    config = json.loads((finished / "config.json").read_text())
    assert config["parameters"]["heads"] == 2
    assert config["data"]["users"] == 60


def test_a_finished_run_is_shown_not_repeated(finished, data, capsys):
    before = (finished / "model.npz").stat().st_mtime_ns
    assert main(["train", str(data), *SMALL, "--epochs", "2", "--heads", "2", "--out", str(finished)]) == 0
    assert "is complete" in capsys.readouterr().out
    assert (finished / "model.npz").stat().st_mtime_ns == before


def contents(folder):
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def test_a_finished_run_is_shown_on_a_disk_that_is_read_only(finished, data, capsys, monkeypatch):
    def read_only(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("write_json", "alone_in"):
        monkeypatch.setattr(run, name, read_only)
    same = ["train", str(data), *SMALL, "--epochs", "2", "--heads", "2", "--out"]
    assert main([*same, str(finished)]) == 0
    assert "is complete" in capsys.readouterr().out
    refuses(capsys, [*same, finished.parent / "new"], "cannot write to", "Read-only file system")


def test_a_folder_in_which_another_training_is_at_work_is_left_alone(data, tmp_path, capsys):
    train = ["train", data, "--model", "markov", "--out", tmp_path / "run"]
    with alone_in(tmp_path / "run"):
        refuses(capsys, train, f"another process is at work in {tmp_path / 'run'}")
        refuses(capsys, [*train, "--order", "2"], "another process is at work")
        assert not contents(tmp_path)
    assert main([str(a) for a in train]) == 0
    before = contents(tmp_path)
    with alone_in(tmp_path / "run"):                # a finished one is shown, however many ask for it
        assert main([str(a) for a in train]) == 0
    refuses(capsys, [*train, "--order", "2"], "was made with --order 1, not 2")
    assert contents(tmp_path) == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_trainings_begun_together_leave_the_run_of_one(data, tmp_path):
    """Each is a fork of this process, so that they begin at the same moment."""
    for number in range(3):
        out, children = tmp_path / str(number), []
        waits, starts = os.pipe()
        for order in (1, 2):
            children.append(os.fork())
            if not children[-1]:
                code = 99
                try:
                    os.close(starts)
                    os.read(waits, 1)
                    code = main(["train", str(data), "--model", "markov", "--order", str(order), "--out", str(out)])
                finally:
                    os._exit(code)
        os.close(starts)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        os.close(waits)
        assert sorted(codes) == [0, 2]
        order = json.loads((out / "config.json").read_text())["parameters"]["order"]
        assert order == 1 + codes.index(0)
        assert Markov.load(out / "model.npz").order == order


def test_pictures_that_cannot_be_drawn_lose_nothing(data, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise ValueError("Key backend: 'none' is not a valid value for backend" + 500 * "!")

    monkeypatch.setattr("tinyattn.show.draw_run", fail)
    out = tmp_path / "run"
    assert main(["train", str(data), *SMALL, "--epochs", "1", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "NDCG@10" in said.out
    assert f"note: the pictures of {out} could not be drawn: Key backend: 'none'" in said.err
    assert len(said.err) < 700
    assert re.match(r"epoch 1, loss \d\.\d{4}, valid \d\.\d{4}, \d+\.\d s\n", said.err)  # no terminal, no progress bar
    written = ["config.json", "metrics.json", "model.npz", "moments.npz", "training.csv"]
    assert sorted(p.name for p in out.iterdir()) == written


def test_evaluate_prints_the_same_table(finished, capsys):
    assert main(["evaluate", str(finished)]) == 0
    printed = capsys.readouterr().out
    metrics = json.loads((finished / "metrics.json").read_text())
    for value in metrics["model"]["full"].values():
        assert f"{value:.4f}" in printed
    assert main(["evaluate", str(finished), "--at", "5,1000000000"]) == 0
    assert "    NDCG@5  HR@1000000000  " in capsys.readouterr().out


def test_validation_on_a_sample_is_said_and_part_of_the_run(data, tmp_path, capsys):
    run = ["train", str(data), *SMALL, "--epochs", "1", "--out", str(tmp_path / "run")]
    assert main([*run, "--valid-users", "7"]) == 0
    assert "validated on 7 users, drawn by seed 0; measured on all" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    assert "validated on 7 users" in capsys.readouterr().out
    refuses(capsys, [*run, "--valid-users", "8"], "was made with --valid-users 7, not 8")
    run[-1] = str(tmp_path / "other")
    refuses(capsys, [*run, "--valid-users", "999999"], "999,999 users were requested, but only")
    assert not (tmp_path / "other").exists()
    refuses(capsys, [*run, "--valid-users", "0"], "valid_users is 0, expected at least 1")


def test_evaluate_on_other_data_with_the_same_items(finished, tmp_path, capsys):
    other = tmp_path / "other.txt"
    other.write_text("x s1e1\nx s1e2\nx s1e3\nx s2e1\n")
    assert main(["evaluate", str(finished), str(other)]) == 0
    assert "1 users" in capsys.readouterr().out
    other.write_text("x s1e1\nx s1e2\nx s9e9\n")
    refuses(capsys, ["evaluate", finished, other], "unknown item id s9e9")


def test_recommend_for_a_history_and_for_a_user(finished, data, capsys):
    assert main(["recommend", str(finished), "--items", "s1e1, s2e1", "-k", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "after s1e1, s2e1:"
    items = [line.split()[1] for line in lines[1:]]
    assert len(items) == 3
    assert not {"s1e1", "s2e1"} & set(items)
    assert main(["recommend", str(finished), "--user", "5", "-k", "3"]) == 0
    last = [line.split()[1] for line in data.read_text().splitlines() if line.startswith("5 ")][-1]
    assert f"{last}:" in capsys.readouterr().out.splitlines()[0]


def test_show_writes_a_picture(finished, with_pictures, tmp_path, capsys):
    path = tmp_path / "new" / "map.png"
    assert main(["show", str(finished), "--items", "s1e1,s1e2,s2e1", "--out", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert main(["show", str(finished), "--items", "s1e1,s2e1"]) == 0
    default = finished / "figures" / "attention-s2e1.png"
    assert capsys.readouterr().out.strip() == str(default)
    default.unlink()


def test_the_default_world_has_an_optimum(tmp_path, capsys):
    out = tmp_path / "series"
    assert main(["train", *SMALL, "--epochs", "1", "--out", str(out), "--at", "1,10"]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    assert list(metrics) == ["model", "popularity", "markov", "optimum", "validation"]
    del metrics["validation"]
    for name in metrics["optimum"]["full"]:
        best = metrics["optimum"]["full"][name]
        assert all(row["full"][name] <= best + 1e-12 for row in metrics.values())
    assert "hr@1" in metrics["model"]["full"]
    assert "true distribution" in capsys.readouterr().out


def test_refusals_before_anything_is_written(data, tmp_path, capsys):
    out = tmp_path / "refused"
    train = ["train", data, "--out", out]
    for extra, *parts in (
        (["--dim", "50", "--heads", "3"], "dim 50 is not divisible by heads 3"),
        (["--maxlen", "0"], "maxlen is 0"),
        (["--dropout", "1"], "dropout is 1.0"),
        (["--dropout", "-0.5"], "dropout is -0.5"),
        (["--lr", "nan"], "lr is nan", "finite"),
        (["--lr", "inf"], "lr is inf"),
        (["--epochs", "0"], "epochs is 0"),
        (["--batch-size", "0"], "batch_size is 0"),
        (["--workers", "0"], "workers is 0"),
        (["--workers", "100000"], "workers is 100000, expected 1 to 1000"),
        (["--maxlen", "1" + 27 * "0"], "expected 1 to 1000000"),
        (["--blocks", "100000"], "blocks is 100000, expected 0 to 1000"),
        (["--dim", "1000000"], "dim is 1000000, expected 1 to 100000"),
        (["--model", "stosa", "--dim", "1000000"], "dim is 1000000, expected 1 to 100000"),
        (["--k-core", "-5"], "k of the k-core is -5, expected at least 1"),
        (["--block-form", "sandwich"], "block_form is 'sandwich', expected one of pre, post, sasrec, ligr, hstu, plain"),  # noqa: E501
        (["--dim", "many"], "invalid int value", "many"),
        (["--at", "0"], "0"),
        (["--at", "1" + 400 * "0"], "is no list of cut-offs such as 5,10, each once, at most 1,000,000,000"),
        (["--at", "1000000001"], "'1000000001' is no list of cut-offs"),
        (["--model", "oracle"], f"model is 'oracle', expected one of {', '.join(MODELS)}"),
        (["--model", "gru4re", "--dim", "4"], "did you mean gru4rec?"),
        (["--model", "gru4rec", "--heads", "2"], "--heads is no option of model gru4rec, but of sasrec"),
        (["--model", "caser", "--window", "8"], "window is 8, expected at most 7: the longest training history"),
        (["--model", "markov", "--no-last-norm"], "--no-last-norm is no option of model markov, but of sasrec"),
        (["--model", "markov", "--order", "0"], "order is 0, expected 1 to 1"),
        (["--model", "fism", "--alpha", "2"], "alpha is 2.0, expected 0 to 1"),
        (["--model", "fossil", "--order", "0"], "order is 0, expected 1 to 1"),
        (["--depth", "3"], "unrecognized arguments: --depth 3"),
        (["--mechanism", "window", "--window", "500"], "window is 500, expected at most maxlen 50"),
        (["--mechanism", "longformer", "--window", "8"], "window is 8, expected at most 7: the longest"),
        (["--position", "first"], "position is 'first', expected one of learned, none"),
        (["--preset", "esasrek"], "preset is 'esasrek', expected one of", "did you mean esasrec?"),
        (["--preset", "esasrec", "--model", "gru4rec"], "preset esasrec is one of model sasrec; model is gru4rec"),
        (["--calibration", "0.5"], "calibration is 0.5, an option of loss gbce; loss is bce"),
    ):
        refuses(capsys, [*train, *extra], *parts)
    refuses(capsys, ["train", tmp_path / "none.txt", "--out", out], "none.txt: no such file")
    empty = tmp_path / "empty.txt"
    empty.touch()
    refuses(capsys, ["train", empty, "--out", out], "empty.txt: empty")
    refuses(capsys, ["train", tmp_path, "--out", out], "a directory, expected a file")
    short = tmp_path / "short.txt"
    short.write_text("1 2\n1 3\n2 3\n")
    refuses(capsys, ["train", short, "--out", out], "none of the 2 users has 3 interactions")
    single = tmp_path / "single.txt"
    single.write_text("".join(f"1 {i}\n" for i in range(9)))
    refuses(capsys, ["train", single, "--out", out], "has a single user")
    refuses(capsys, ["dance"], "dance")
    assert not out.exists()


def test_gpu_without_a_gpu_is_one_message(data, tmp_path, capsys):
    try:
        import cupy  # noqa: F401
    except ImportError:
        refuses(capsys, ["train", data, "--device", "gpu", "--out", tmp_path / "o"], "device gpu needs CuPy")
    else:
        pytest.skip("CuPy is installed here")


def test_a_place_that_cannot_be_written_is_refused_before_training(data, tmp_path, capsys):
    blocker = tmp_path / "file"
    blocker.write_text("")
    refuses(capsys, ["train", data, *SMALL, "--out", blocker / "run"], "cannot write to")
    refuses(capsys, ["train", data, *SMALL, "--out", "/proc/nowhere/run"], "cannot write to")
    refuses(capsys, ["train", data, *SMALL, "--out", blocker], f"{blocker} is a file, expected a folder")


def test_an_empty_path_is_refused_where_it_would_be_the_current_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, name in (
        (["train", ""], "DATA"), (["train", "--out", " "], "--out"), (["evaluate", ""], "RUN"),
        (["train", "--item-vectors", ""], "--item-vectors"), (["evaluate", "r", "--per-user="], "--per-user"),
        (["train", "--protocols", "uni100", "--negatives", ""], "--negatives"),
        (["train", "--model", "classifier", "--labels", ""], "--labels"),
        (["recommend", "r", "--users", ""], "--users"), (["course", "grade", "", "--csv", "a.csv"], "DIR"),
        (["reproduce", "planted", "--out", ""], "--out"), (["import-model", "", "--out", "r"], "FROM"),
    ):  # fmt: skip
        refuses(capsys, arguments, f"{name} is empty, expected a path")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "pictures"),
    [
        (["--mechanism", "window", "--window", "2"], ["attention.png", "metrics.png", "training.png"]),
        (
            ["--norm", "rms", "--feed-forward", "swiglu", "--heads", "2", "--kv-heads", "1"],
            ["attention.png", "metrics.png", "training.png"],
        ),
        (["--mechanism", "linear", "--position", "none"], ["attention.png", "metrics.png", "training.png"]),
        (["--model", "gru4rec", "--layers", "2"], ["metrics.png", "training.png"]),
        (["--model", "mf"], ["metrics.png", "training.png"]),
        (["--model", "fism"], ["metrics.png", "training.png"]),
        (["--model", "fpmc"], ["metrics.png", "training.png"]),
        (["--model", "fossil"], ["metrics.png", "training.png"]),
        (["--model", "narm", "--loss", "ce"], ["metrics.png", "training.png"]),
        (["--model", "caser", "--window", "3"], ["metrics.png", "training.png"]),
        (["--model", "bert4rec", "--rho", "0.4"], ["metrics.png", "training.png"]),
        (["--model", "stosa"], ["attention.png", "metrics.png", "training.png"]),
        (["--refine", "stoc", "--refine-lags"], ["attention.png", "metrics.png", "training.png"]),
        (["--model", "markov", "--order", "2"], ["metrics.png"]),
        (["--model", "popularity"], ["metrics.png"]),
        (["--model", "cosine"], ["metrics.png"]),
        (["--model", "ease"], ["metrics.png"]),
    ],
    ids=lambda x: "-".join(x).replace("--", "") if x[0].startswith("--") else "",
)
def test_every_model_and_mechanism_trains_and_serves(options, pictures, data, tmp_path, capsys):
    """Trained, ranked, saved, evaluated, asked and shown; and the same command shows the finished run."""
    out = tmp_path / "run"
    neural = [*SMALL, "--epochs", "1"] if "training.png" in pictures else []
    train = ["train", str(data), *options, *neural, "--out", str(out)]
    assert main(train) == 0
    assert sorted(p.name for p in (out / "figures").iterdir()) == pictures
    table = capsys.readouterr().out
    assert main(train) == 0
    assert "is complete" in capsys.readouterr().out
    assert main(["evaluate", str(out)]) == 0
    assert table.split("optimum")[0].split("full ranking")[1].splitlines()[:3] == \
        capsys.readouterr().out.split("full ranking")[1].splitlines()[:3]  # fmt: skip
    assert main(["recommend", str(out), "--items", "s1e1,s2e1", "-k", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    shows = ["show", str(out), "--items", "s1e1,s1e2", "--out", str(tmp_path / "map.png")]
    if "attention.png" in pictures:
        assert main(shows) == 0
        assert (tmp_path / "map.png").exists()
    else:
        weighs = {"bert4rec", "narm"} & set(options)
        refuses(capsys, shows, "whose weights `tinyattn explain` shows" if weighs else "without attention: nothing")


@pytest.mark.parametrize("said", ["explain a --items b", "similar a --item b", "recommend a --user b", "evaluate a",
                                  "compare a b", "data a", "export a b.npz"])  # fmt: skip
def test_a_flag_that_no_command_has(said, capsys):
    refuses(capsys, [*said.split(), "--bogus"], f"tinyattn {said.split()[0]}: unrecognized arguments: --bogus")


def test_items_that_come_back_are_said_to(tmp_path, capsys):
    path = tmp_path / "again.csv"
    rows = [(user, item) for user in range(30) for item in [*"abcdefghijkl", *("a" if user else "ll")]]
    path.write_text("user,item\n" + "".join(f"u{user},{item}\n" for user, item in rows))
    assert main(["data", str(path)]) == 0
    assert "31 of an item that the user had before, 2 of them of the last item" in capsys.readouterr().out
    assert main(["train", str(path), "--model", "markov", "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "30 users (30 of them on an item that they had before) are tested" in said
    assert said.count("markov ") == 2                        # the model is not its own baseline: heading, row


def test_a_preset_is_its_options_and_a_flag_replaces_one(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "runs" / "esasrec-tiny"                 # the default
    said = ["--preset", "esasrec", "--maxlen", "6", "--dim", "8", "--loss", "ce", "--epochs", "1"]
    assert main(["train", str(data), *said]) == 0
    chosen = json.loads((out / "config.json").read_text())["parameters"]
    assert chosen == chosen | PRESETS["esasrec"].options | {"maxlen": 6, "dim": 8, "loss": "ce", "epochs": 1}
    assert "n_negatives" not in chosen
    same = [word for name in ("block_form", "feed_forward", "feed_forward_width", "eps", "dropout")
            for word in (f"--{name.replace('_', '-')}", str(chosen[name]))]  # fmt: skip
    same += ["--qkv-bias", "--output-projection", "--no-last-norm", *said[2:]]
    capsys.readouterr()
    assert main(["train", str(data), *same, "--out", str(out)]) == 0  # the folder belongs to options, not to a preset
    assert "is complete" in capsys.readouterr().out


@pytest.mark.parametrize("model", MODELS)
def test_a_models_help_shows_its_own_options(model, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--model", model, "--help-all"])
    said = capsys.readouterr().out
    flags = [declared.flag for declared in options_of(MODELS[model])]
    assert all(flag in said for flag in flags)
    assert ("--heads" in said) == ("--heads" in flags)  # and none of another's


def test_another_configuration_or_other_data_is_refused(finished, data, tmp_path, capsys):
    same = ["train", data, *SMALL, "--epochs", "2", "--heads", "2", "--out", finished]
    kept = {p.name: p.read_bytes() for p in finished.iterdir() if p.is_file()}
    refuses(capsys, [*same, "--dim", "16"], "made with --dim 8, not 16")
    refuses(capsys, [*same, "--epochs", "3"], "made with --epochs 2, not 3")
    refuses(capsys, [*same, "--at", "5"], "made with --at 10, not 5")
    other = tmp_path / "other.txt"
    other.write_text(data.read_text() + "1 s4e4\n")
    refuses(capsys, ["train", other, *same[2:]], "trained on other data")
    assert {p.name: p.read_bytes() for p in finished.iterdir() if p.is_file()} == kept
    assert main([*map(str, same), "--workers", "2"]) == 0  # the number of threads changes nothing


def test_damaged_runs_are_refused(finished, tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    items = ["--items", "s1e1"]
    refuses(capsys, ["recommend", run, *items], "config.json: no such file")
    (run / "config.json").write_text("[]")
    refuses(capsys, ["recommend", run, *items], "was not written by tinyattn")
    (run / "config.json").write_bytes((finished / "config.json").read_bytes())
    refuses(capsys, ["recommend", run, *items], "its training has not finished")
    (run / "model.npz").write_bytes((finished / "model.npz").read_bytes()[:2000])
    refuses(capsys, ["evaluate", run], "not a tinyattn model")
    np.savez(run / "model.npz", tinyattn=np.array([object()], dtype=object))
    refuses(capsys, ["show", run, *items], "pickled objects")


@pytest.mark.parametrize(
    "said", [["evaluate"], ["recommend", "--items", "s1e1"], ["explain", "--user", "1"], ["show", "--user", "1"]]
)
def test_how_data_is_read_goes_with_data(said, finished, capsys):
    told = "--format, --columns, --k-core: no DATA was named"
    flags = ["--k-core", "5000", "--columns", "user;item", "--format", "pairs"]
    assert refuses(capsys, [said[0], finished, *said[1:], *flags], told) == ""


def test_what_recommend_refuses(finished, data, capsys):
    refuses(capsys, ["recommend", finished, data, "--items", "s1e1"], f"DATA ({data}) goes with --user; a history")
    separate = ["recommend", finished, "--items", "s1e1", "s1e2", "s2e1"]
    refuses(capsys, separate, "needs none, and its ids are separated by commas: --items s1e1,s1e2,s2e1")
    for extra, part in ((["--items", "s1e1,s9e9"], "unknown item id s9e9"), (["--user", "99"], "unknown user id 99"),
                        (["--items", "s1e1", "-k", "17"], "k is 17"),
                        ([], "required"), (["--items", "s1e1", "--user", "1"], "not allowed")):  # fmt: skip
        assert refuses(capsys, ["recommend", finished, *extra], part) == ""


def test_a_run_starts_from_another_with_its_options_and_its_rows(finished, data, tmp_path, capsys):
    grown, out = tmp_path / "grown.txt", tmp_path / "run"
    grown.write_text(data.read_text() + "61 s1e1\n61 s9e9\n61 s1e2\n")
    start = ["train", str(grown), "--start", str(finished), "--epochs", "1"]
    assert main([*start, "--out", str(out)]) == 0
    assert f"starting from {finished}: 16 of 17 items keep their rows\n" in capsys.readouterr().out
    config, was = (json.loads((run / "config.json").read_text()) for run in (out, finished))
    assert config["parameters"] == was["parameters"] | {"epochs": 1}
    assert config["evaluation"]["start"].startswith(f"{finished} (learned: ")
    assert main([*start, "--out", str(out)]) == 0
    assert "is complete" in capsys.readouterr().out
    refuses(capsys, ["train", grown, "--start", out, "--epochs", "1", "--out", out], "was made with --start")
    refuses(capsys, [*start[:-2], "--out", finished], "was made without --start, not with ")
    bare = tmp_path / "bare"
    shutil.copytree(finished, bare)
    (bare / "moments.npz").write_bytes(b"x")
    refuses(capsys, ["train", grown, "--start", bare, "--out", tmp_path / "no"], "moments.npz")
    (bare / "moments.npz").unlink()
    config = (bare / "config.json").read_text()
    (bare / "config.json").write_text(config.replace('"model"', '"kind"'))        # model.npz has it, too
    assert main(["train", str(grown), "--start", str(bare), "--epochs", "1", "--out", str(tmp_path / "afresh")]) == 0
    assert "rows; the optimizer begins afresh: there is no moments.npz\n" in capsys.readouterr().out
    for extra, says in ((["--model", "mf"], "is a run of model sasrec, with options: leave out --model mf"),
                        (["--preset", "esasrec"], "leave out --preset esasrec"),
                        (["--dim", "16"], "dim is 16, expected 8"), (["--start", " "], "--start is empty"),
                        (["--start", tmp_path / "nope"], "nope/config.json: no such file")):  # fmt: skip
        refuses(capsys, ["train", grown, "--start", finished, *extra, "--out", tmp_path / "no"], says)
    popular = str(tmp_path / "popular")
    assert main(["train", str(data), "--model", "popularity", "--out", popular]) == 0
    refuses(capsys, ["train", grown, "--start", popular, "--out", tmp_path / "no"], "popularity has no steps")
    assert not (tmp_path / "no").exists()


def test_a_diverging_run_names_the_step(data, tmp_path, capsys):
    out = tmp_path / "wild"
    train = ["train", data, "--maxlen", "6", "--dim", "8", "--lr", "1e30", "--epochs", "3"]
    refuses(capsys, [*train, "--batch-size", "20", "--out", out], "diverged at step 2 (epoch 1): loss nan")
    assert not out.exists()                          # a smaller learning rate may have it
    assert not (out / "model.npz").exists()
    refuses(capsys, [*train, "--out", tmp_path / "one"], "diverged at step 1 (epoch 1): validation score nan")


def command(data, out):
    return [sys.executable, "-m", "tinyattn", "train", str(data), *SMALL, "--epochs", "150", "--patience", "0",
            "--out", str(out)]  # fmt: skip


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, "the run ended before its first checkpoint"
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_at_any_moment_it_resumes_to_the_same_bits(data, tmp_path):
    """kill -9, twice, at moments that depend on nothing: model and metrics end as if nothing had happened."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(command(data, whole), check=True, capture_output=True, timeout=120)
    progress = []
    for pause in (0.02, 0.3):
        process = subprocess.Popen(command(data, cut), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(cut / "checkpoint.npz", process)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        progress.append((cut / "checkpoint.npz").exists())
        assert not (cut / "metrics.json").exists()
    assert any(progress)
    done = subprocess.run(command(data, cut), check=True, capture_output=True, text=True, timeout=120)
    assert "resuming from" in done.stdout
    for name in ("model.npz", "metrics.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(p.name for p in cut.iterdir() if not p.name.startswith(".")) == sorted(
        p.name for p in whole.iterdir()
    )


def test_ctrl_c_saves_and_says_so(data, tmp_path):
    out = tmp_path / "stopped"
    process = subprocess.Popen(command(data, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(out / "checkpoint.npz", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after step" in err
    assert "Traceback" not in err
    assert (out / "checkpoint.npz").exists()


def test_protocols_baselines_and_candidates_that_others_can_use(data, finished, tmp_path, capsys):
    folder = tmp_path / "candidates"
    how = ["--protocols", "uni100,full", "--baselines", "popularity,cosine,markov,markov2", "--negatives", str(folder)]
    assert main(["evaluate", str(finished), *how]) == 0
    first = capsys.readouterr().out
    assert "among 100 items drawn uniformly" in first
    assert all(row in first for row in ("cosine", "markov2"))
    lines = (folder / "uni100.txt").read_text().splitlines()
    assert [len(line.split()) for line in lines] == [101] * 60
    assert main(["evaluate", str(finished), *how]) == 0  # read back, the same table
    assert capsys.readouterr().out == first
    out = tmp_path / "run"
    train = ["train", str(data), *SMALL, "--epochs", "1", "--out", str(out)]
    assert main([*train, "--protocols", "full,uni100"]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics["model"]) == {"full", "uni100"}
    assert set(metrics["markov"]["uni100"]) == {"hr@10", "ndcg@10", "mrr"}
    refuses(capsys, [*train, "--protocols", "full"], "made with --protocols full,uni100, not full")
    refuses(capsys, ["evaluate", finished, "--negatives", folder], "--negatives", "--protocols full takes none")
    refuses(capsys, ["evaluate", finished, *how[:-1], data], f"--negatives {data} is a file, expected a folder")
    for named in ("uni50", "full,full"):
        refuses(capsys, ["evaluate", finished, "--protocols", named], f"'{named}' is no list of full, uni100, pop100")
    refuses(capsys, ["evaluate", finished, "--protocols", "pop100"], "items left to draw from")
    (folder / "uni100.txt").write_text("\n".join(lines[1:]))
    refuses(capsys, ["evaluate", finished, *how], "has no candidates for user 1")


def test_reading_options(tmp_path, data, capsys):
    odd = tmp_path / "odd.csv"
    rows = [line.split() for line in data.read_text().splitlines()]
    odd.write_text("who;what\n" + "".join(f"{u};{i}\n" for u, i in rows))
    assert main(["data", str(odd), "--columns", "user=who,item=what", "--k-core", "3"]) == 0
    printed = capsys.readouterr().out
    assert "users" in printed
    assert "k core" in printed
    out = tmp_path / "run"
    assert main(["train", str(odd), "--columns", "user=who,item=what", *SMALL, "--epochs", "1", "--out", str(out)]) == 0
    assert main(["evaluate", str(out)]) == 0  # the run knows how its data is read
    refuses(capsys, ["data", odd], "--columns user=who,item=what")
    refuses(capsys, ["data", odd, "--format", "inter"], "that is not inter")
    refuses(capsys, ["data", odd, "--columns", "user=who,item=what", "--k-core", "99"], "the 99-core is empty")
    refuses(capsys, ["train", "--k-core", "3"], "--k-core is for a file of interactions")
    refuses(capsys, ["data"], "expected DATA, or --world NAME")
    assert main(["data", "--world", "chain"]) == 0
    assert "users" in capsys.readouterr().out


def test_data_that_changed_between_run_and_resume_is_refused(data, tmp_path, capsys):
    mine, out = tmp_path / "mine.txt", tmp_path / "run"
    mine.write_text(data.read_text())
    process = subprocess.Popen(command(mine, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(out / "checkpoint.npz", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    mine.write_text(data.read_text() + "1 s4e4\n")
    refuses(capsys, [*command(mine, out)[3:]], "was trained on other data")


def test_a_refused_training_gives_its_folder_back(tmp_path, capsys):
    """What cannot be trained with bce can with ce, in the same place: nothing of the first try stays."""
    few, out = tmp_path / "few.txt", tmp_path / "run"
    few.write_text("".join(f"{u} {i}\n" for u in (1, 2) for i in (1, 2, 3, 1, 2)))
    refuses(capsys, ["train", few, *SMALL, "--out", out], "has had all 3 items", "ce where the model has it")
    assert not out.exists()
    assert main(["train", str(few), *SMALL, "--epochs", "1", "--loss", "ce", "--out", str(out)]) == 0
    huge = ["train", few, "--loss", "ce", "--dim", "100000", "--out", tmp_path / "huge"]
    refuses(capsys, huge, "not enough memory")
    assert not (tmp_path / "huge").exists()


def test_a_training_that_diverges_keeps_its_best_model_and_says_so(data, tmp_path, capsys):
    out = tmp_path / "run"
    hot = ["train", str(data), "--model", "mf", "--dim", "8", "--epochs", "60", "--patience", "0", "--lr", "1e30"]
    assert main([*hot, "--warmup", "20", "--out", str(out)]) == 0
    said = capsys.readouterr()
    note = r"note: training diverged at step \d+ \(epoch (\d+)\): .*; the model of epoch (\d+), the best so far,"
    epoch, best = map(int, re.search(note, said.err).groups())
    scores = [float(row["valid_ndcg@10"]) for row in csv.DictReader((out / "training.csv").read_text().splitlines())]
    assert len(scores) == epoch - 1
    assert best == 1 + int(np.argmax(scores))
    assert main(["recommend", str(out), "--user", "1"]) == 0
    assert not (out / "moments.npz").exists()                # which are of the steps after the best epoch
    assert main([*hot, "--warmup", "20", "--out", str(out)]) == 0
    assert "is complete" in capsys.readouterr().out


def test_ctrl_c_before_anything_is_learned_gives_the_folder_back(tmp_path):
    with pytest.raises(KeyboardInterrupt), run.RunFolder(tmp_path / "run").claimed({"parameters": {}, "data": {}}):
        raise KeyboardInterrupt
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("there", ["checkpoint.npz", "model.npz"])
def test_ctrl_c_takes_nothing_away_from_a_run_that_can_go_on(there, tmp_path):
    def interrupted():
        with run.RunFolder(tmp_path / "run").claimed({"parameters": {}, "data": {}}):
            (tmp_path / "run" / there).write_bytes(b"what was learned")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {there, "config.json"}


def test_a_folder_that_is_not_a_run_of_ours_is_refused(finished, data, tmp_path, capsys):
    train = ["train", data, *SMALL, "--epochs", "2", "--heads", "2", "--out"]
    for name, content in (("metrics.json", "{}"), ("model.npz", "x"), ("checkpoint.npz", "x"), ("training.csv", "x")):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_text(content)
        refuses(capsys, [*train, folder], f"has a {name} and no config.json")
    copied = tmp_path / "copied"
    shutil.copytree(finished, copied)
    table = '{"full": {"mrr": 1.0}}'
    others = (f'{{"model": {table}, "markov": {{"full": {{}}}}}}', f'{{"model": {table.replace("1.0", "NaN")}}}')
    for broken in ("null", "[]", '{"model": 3}', '{"model": {"full": {"mrr": "x"}}}', *others):
        (copied / "metrics.json").write_text(broken)
        refuses(capsys, [*train, copied], "metrics.json was not written by tinyattn")
    (copied / "metrics.json").write_text('{"model": {"nope": {"x": 0.5}}}')
    refuses(capsys, [*train, copied], "metrics.json has metrics of 'nope', expected of full, uni100, pop100")
    config = json.loads((copied / "config.json").read_text())
    for broken in ({}, {"path": 3}, {"world": 3}, {"fingerprint": 1}):
        (copied / "config.json").write_text(json.dumps(config | {"data": broken}))
        refuses(capsys, ["evaluate", copied], "does not say which data the run was")
    (copied / "config.json").write_text(json.dumps(config | {"evaluation": {"split": ["time"]}}))
    refuses(capsys, ["evaluate", copied], "config.json does not say how the run is measured")
    (copied / "config.json").write_text(json.dumps(config | {"data": config["data"] | {"reading": [1]}}))
    assert main(["recommend", str(copied), str(data), "--user", "1", "-k", "1"]) == 0         # DATA says how it is read


def test_data_that_changed_after_training_is_noticed(data, tmp_path, capsys):
    mine, out = tmp_path / "mine.txt", tmp_path / "run"
    mine.write_text(data.read_text())
    assert main(["train", str(mine), *SMALL, "--epochs", "1", "--out", str(out)]) == 0
    mine.write_text(data.read_text() + "1 s4e4\n")
    refuses(capsys, ["evaluate", out], "is no longer what")
    refuses(capsys, ["recommend", out, "--user", "1"], "is no longer what")
    assert main(["evaluate", str(out), str(mine)]) == 0


def test_a_users_own_embedding_is_used_and_strangers_have_none(data, tmp_path, capsys):
    out = tmp_path / "run"
    train = ["train", str(data), *SMALL, "--epochs", "3", "--user-embedding", "--out", str(out)]
    assert main(train) == 0
    capsys.readouterr()
    renamed = tmp_path / "renamed.txt"
    renamed.write_text("".join(f"x{line}\n" for line in data.read_text().splitlines()))
    tables = []
    for arguments in (["evaluate", str(out)], ["evaluate", str(out), str(data)], ["evaluate", str(out), str(renamed)]):
        assert main(arguments) == 0
        tables.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("sasrec  ")])
    assert tables[0] == tables[1] != tables[2]
    history = ",".join(line.split()[1] for line in data.read_text().splitlines() if line.startswith("5 "))
    scores = []
    for how in (["--user", "5"], ["--items", history]):
        assert main(["recommend", str(out), *how, "-k", "3"]) == 0
        scores.append(capsys.readouterr().out)
    assert scores[0] != scores[1]


def test_ids_and_paths_that_look_like_formulas_are_drawn(with_pictures, tmp_path):
    path = tmp_path / "m$^$n.txt"
    path.write_text("".join(f"{u} b$^$_{(u + i) % 7}\n" for u in range(12) for i in range(4)))
    assert main(["train", str(path), *SMALL, "--epochs", "1", "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "figures" / "attention.png").exists()


BAD = {
    "empty": b"",
    "truncated gzip": gzip.compress(b"1 2\n" * 500)[:40],
    "binary junk": bytes(range(256)) * 4,
    "ragged rows": b"1 2\n1 3\n1 4 5\n",
    "time that is no number": b"1 2 3\n1 3 soon\n",
    "time that is NaN": b"1 2 3\n1 3 nan\n",
    "header twice": b"userId,movieId,timestamp\n1,2,3\nuserId,movieId,timestamp\n",
    "mixed separators": b"1 2\n1,3\n",
    "one user": b"1 2\n1 3\n1 4\n1 5\n",
    "nobody with three": b"1 2\n1 3\n2 2\n",
    "latin-1": "1 caf\xe9\n".encode("latin-1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_message_and_nothing_written(name, tmp_path, capsys):
    path, out = tmp_path / "bad.txt", tmp_path / "out"
    path.write_bytes(BAD[name])
    refuses(capsys, ["train", path, "--out", out], str(path) if name != "nobody with three" else "3 interactions")
    assert not out.exists()


@pytest.mark.parametrize(
    "text", ["-5 {}\n", "9223372036854775808 {}\n", "\ufeff1 {}\n", "1 {}\r\n"], ids=["negative", "2^63", "BOM", "CRLF"]
)
def test_odd_files_that_can_be_read_are(text, tmp_path):
    """Negative and huge ids, a byte order mark, CRLF: nothing about them is ambiguous."""
    path = tmp_path / "odd.txt"
    others = "".join(f"2 {i}\n" for i in range(6))
    mark, text = text[: text.startswith("\ufeff")], text.removeprefix("\ufeff")
    path.write_text(mark + "".join(text.format(i) for i in (-1, 2**63, 3, 4)) + others, newline="")
    assert main(["train", str(path), *SMALL, "--epochs", "1", "--out", str(tmp_path / "out")]) == 0


def test_help_reads_well(capsys):
    for command in ("", "train", "evaluate", "recommend", "show", "similar", "compare", "explain"):
        with pytest.raises(SystemExit) as stop:
            main([*command.split(), "--help"])
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert "usage: tinyattn" in text
        assert "None" not in text


def test_the_help_of_train_is_one_screen_and_help_all_has_the_rest(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for arguments, flags, lines in (
        (["train", "--help"], {"--epochs": True, "--ops": True, "--beta2": False}, 50),
        (["train", "--help-all"], {"--epochs": True, "--ops": True, "--beta2": True}, 400),
        (["train", "--model", "gru4rec", "--help"], {"--dim": True, "--heads": False}, 50),
        (["train", "--preset", "llama", "--help"], {"--context": False, "--heads": True}, 50),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert {flag: f"\n  {flag} " in text for flag in flags} == flags
        assert text.count("\n") <= lines


@pytest.mark.parametrize("flag", ["-h", "--help", "--help-all"])
def test_help_of_a_model_that_is_not_there(flag, capsys):
    refuses(capsys, ["train", "--model", "sasrek", flag], "model is 'sasrek', expected one of", "did you mean sasrec?")


def test_without_a_command_there_is_help_and_near_commands_and_flags_are_named(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 0
    assert "usage: tinyattn" in capsys.readouterr().out
    refuses(capsys, ["train", "--opps", "readable"], "arguments: --opps; did you mean --ops?")
    refuses(capsys, ["evaluate", "RUN", "--opps", "readable"], "arguments: --opps readable; did you mean --ops?")
    refuses(capsys, ["trian"], "command is 'trian', expected one of train, ", "did you mean train?")
    refuses(capsys, ["--frobnicate"], "COMMAND")


def test_ctrl_c_while_the_command_is_imported_is_no_traceback(monkeypatch, capsys):
    class Interrupted:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "tinyattn.cli", Interrupted())
    before = signal.getsignal(signal.SIGINT)
    try:
        assert run_as_script() == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN          # while Python ends, too
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "\ntinyattn: interrupted\n"


def test_python_m_tinyattn_is_the_same_command():
    found = subprocess.run([sys.executable, "-m", "tinyattn", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("tinyattn 0.")
