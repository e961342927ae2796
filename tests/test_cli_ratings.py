"""A model of ratings from the command line: its own table, the same folder, and refusals that say what is missing."""

import json
import shutil

import numpy as np
import pytest

from tests.helpers import refuses
from tests.models.worlds import drifting_ratings
from tinyattn.cli import main
from tinyattn.data import read, split_ratings
from tinyattn.evaluation import paired_error_difference
from tinyattn.models import Recommender, RunFolder

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
    metrics = RunFolder(finished).metrics()
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


def test_items_are_near_by_their_factors(data, finished, tmp_path, capsys):
    assert main(["similar", str(finished), "--item", "3", "-k", "29"]) == 0
    found = {int(line.split()[1]): float(line.split()[2]) for line in capsys.readouterr().out.splitlines()[1:]}
    table = Recommender.load(finished / "model.npz").parameters["items"].astype(np.float64)
    cosine = table @ table[3] / np.linalg.norm(table, axis=1).clip(1e-30) / np.linalg.norm(table[3])
    assert set(found) == set(range(1, 31)) - {3}
    assert all(near == pytest.approx(cosine[item], abs=1e-3) for item, near in found.items())
    assert main(["train", str(data), *SMALL, "--dim", "0", "--out", str(tmp_path / "run")]) == 0
    refuses(capsys, ["similar", tmp_path / "run", "--item", "3"], "biases alone knows nothing of pairs of items")


def test_flags_of_ranking_are_refused_by_name(finished, capsys):
    said = "for a model that ranks items, and model timesvdpp predicts ratings"
    refuses(capsys, ["evaluate", finished, "--at", "10"], f"--at: {said}")  # the default, given
    both = ["--protocols", "full", "--baselines", "popularity"]
    refuses(capsys, ["evaluate", finished, *both], f"--protocols, --baselines: {said}")
    refuses(capsys, ["evaluate", finished, "--per-user", "x.csv"], "--per-user writes ranks")


def test_an_unknown_split_names_the_file(finished, tmp_path, capsys):
    copy = shutil.copytree(finished, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    config["evaluation"]["split"] = "leave-one-out"
    (copy / "config.json").write_text(json.dumps(config))
    refuses(capsys, ["evaluate", copy], f"{copy}/config.json has split 'leave-one-out', expected one of user, time")


def test_models_of_ratings_are_compared_by_their_errors(data, finished, tmp_path, capsys):
    plain, ranked, apart = (str(tmp_path / name) for name in ("plain", "ranked", "apart"))
    assert main(["train", str(data), *SMALL, "--no-time", "--split", "time", "--out", plain]) == 0
    assert main(["train", str(data), "--model", "popularity", "--out", ranked]) == 0
    assert main(["train", str(data), *SMALL, "--no-time", "--out", apart]) == 0
    capsys.readouterr()
    assert main(["compare", str(finished), plain, "--items", "3,4", "-k", "2", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    split = split_ratings(read(data, ratings=True), "time")
    models = [Recommender.load(f"{folder}/model.npz") for folder in (finished, plain)]
    mine, theirs = (model.predictions(split) - split.test.ratings for model in models)
    owners = np.repeat(np.arange(split.test.n_users), split.test.lengths)
    for name, power in (("RMSE", 2), ("MAE", 1)):
        first, other = [line.split(maxsplit=3) for line in printed.splitlines() if line.startswith(f"{name}  ")]
        assert first == [name, str(finished), f"{models[0].evaluate(split)[name.lower()]:.4f}"]
        assert other[:3] == [name, plain, f"{models[1].evaluate(split)[name.lower()]:.4f}"]
        found = paired_error_difference(theirs, mine, owners, power, 3)
        assert other[3] == f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    assert "every rating counts the same" in " ".join(printed.split())
    assert "coverage" not in printed
    assert printed.splitlines()[-2].split()[0] == "1"  # two recommendations, side by side
    mixed = f"{finished} and {ranked} have no measure in common: model timesvdpp predicts ratings and model popularity"
    assert refuses(capsys, ["compare", finished, plain, ranked], mixed) == ""
    refuses(capsys, ["compare", finished, apart], "has another --split")
    refuses(capsys, ["compare", finished, plain, "--at", "5"], "--at: for a model that ranks items")


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
    refuses(capsys, ["train", data, *train, "--at", "5"], "--at is no option of model timesvdpp, but of sasrec, ")
    refuses(capsys, ["train", data, *train, "--split", "month"], "month")
    refuses(capsys, ["evaluate", finished, pairs], "no column of ratings")
    assert not out.exists()
