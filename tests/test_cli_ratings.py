"""A model of ratings from the command line: its own table, the same folder, and refusals that say what is missing."""

import json

import pytest

from tests.models.worlds import drifting_ratings
from tests.test_cli import refuses
from tinyattn.cli import main

SMALL = ["--model", "timesvdpp", "--dim", "2", "--bins", "2", "--epochs", "2", "--workers", "1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """user,item,rating,time from a small generated world."""
    path, world = tmp_path_factory.mktemp("data") / "rated.csv", drifting_ratings()
    rows = (
        (u + 1, world.flat[at], world.ratings[at], int(world.times[at]))
        for u in range(world.n_users)
        for at in range(world.offsets[u], world.offsets[u + 1])
    )
    path.write_text("".join(f"{u},{i},{r:.2f},{t}\n" for u, i, r, t in rows))
    return path


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", str(data), *SMALL, "--split", "time", "--out", str(out)]) == 0
    return out


def test_the_table_is_of_errors_and_evaluate_prints_it_again(data, finished, capsys):
    metrics = json.loads((finished / "metrics.json").read_text())
    assert list(metrics) == ["mean", "biases", "model"]
    assert all(set(row["ratings"]) == {"rmse", "mae"} for row in metrics.values())
    assert metrics["biases"]["ratings"]["rmse"] < metrics["mean"]["ratings"]["rmse"]
    assert json.loads((finished / "config.json").read_text())["evaluation"] == {"split": "time"}
    head = (finished / "training.csv").read_text().splitlines()[0]
    assert head == "epoch,loss,valid_-rmse,gradient_norm,tokens_per_second"
    assert [p.name for p in (finished / "figures").iterdir()] == ["training.png"]
    for arguments in (["evaluate", finished], ["evaluate", finished, data]):  # as it was split, however data is named
        assert main([str(a) for a in arguments]) == 0
        table = capsys.readouterr().out.split("lower is better\n")[1]
        assert table.split()[:2] == ["RMSE", "MAE"]
        assert f"{metrics['model']['ratings']['rmse']:.4f}" in table
    assert main(["train", str(data), *SMALL, "--split", "time", "--out", str(finished)]) == 0
    assert "is complete" in capsys.readouterr().out
    refuses(capsys, ["train", data, *SMALL, "--out", finished], "made with --split time, not user")


def test_it_recommends_from_a_run(finished, capsys):
    assert main(["recommend", str(finished), "--items", "3,4", "-k", "2"]) == 0
    assert main(["recommend", str(finished), "--user", "5", "-k", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_other_ratings_are_other_data(data, finished, tmp_path, capsys):
    other = tmp_path / "other.csv"
    lines = data.read_text().splitlines()
    user, item, _, time = lines[0].split(",")
    other.write_text("\n".join([f"{user},{item},1.00,{time}", *lines[1:], ""]))
    refuses(capsys, ["train", other, *SMALL, "--split", "time", "--out", finished], "trained on other data")


def test_what_is_missing_is_said_before_anything_is_written(data, finished, tmp_path, capsys):
    out, pairs, words = (tmp_path / name for name in ("refused", "pairs.txt", "words.csv"))
    pairs.write_text("1 2\n1 3\n2 3\n")
    first = data.read_text().splitlines()
    user, item, _, time = first[1].split(",")
    words.write_text("\n".join([first[0], f"{user},{item},good,{time}", *first[2:], ""]))
    train = ["--out", out, *SMALL]
    refuses(capsys, ["train", pairs, *train], "no column of ratings and none of times", "user;item;rating;time")
    refuses(capsys, ["train", words, *train], "line 2: rating 'good' is not a finite number")
    refuses(capsys, ["train", *train], "a generated world has no ratings")
    refuses(capsys, ["train", data, *train, "--at", "5"], "unrecognized arguments: --at 5")
    refuses(capsys, ["train", data, *train, "--split", "month"], "month")
    refuses(capsys, ["evaluate", finished, pairs], "no column of ratings")
    assert not out.exists()
