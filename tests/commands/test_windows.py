"""Folds, all targets of a window and repeats, from the command line."""

import csv
import json
import shlex

import numpy as np
import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.data import by_time, read
from tinyattn.evaluation import evaluate, metrics_of_users, over_samples
from tinyattn.models import Markov, Recommender


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """A file of 14 users, 12 items and 20 moments, with repeats; and a user of other items, who is not tested."""
    path = tmp_path_factory.mktemp("timed") / "timed.csv"
    rows = [(user, (user * time + time // 3) % 12, time) for time in range(1, 21) for user in range(1, 15)]
    rows += [(99, item, item) for item in (20, 21, 22)]
    path.write_text("user_id,item_id,timestamp\n" + "".join(f"{u},i{i},{t}\n" for u, i, t in rows))
    return path


@pytest.fixture(scope="module")
def run(timed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train = ["train", str(timed), "--model", "markov", "--split", "time:0.7", "--at", "3", "--out", str(folder)]
    assert main([*train, "--targets", "all", "--repeats", "keep"]) == 0
    return folder


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text())["model"]["full"]


def test_targets_and_repeats_are_part_of_the_run_and_flags_change_them(run, timed, tmp_path, capsys):
    split = by_time(read(timed), 0.7)
    model = Markov().fit(split)
    assert metrics(run) == evaluate(model, split.measured("all", "keep"), ks=(3,))["full"]
    assert json.loads((run / "config.json").read_text())["evaluation"]["test_targets"] == "all"
    ask = ["evaluate", str(run), "--at", "3"]
    assert main(ask) == 0
    shown = capsys.readouterr().out
    assert "full ranking, among all items, also those that the user has had, of all items of the window\n" in shown
    assert f"{metrics(run)['recall@3']:.4f}" in shown
    assert main([*ask, "--targets", "first", "--repeats", "drop"]) == 0
    shown = capsys.readouterr().out
    assert "full ranking, among the items that the user has not had\n" in shown
    assert f"{evaluate(model, split, ks=(3,))['full']['mrr']:.4f}" in shown
    out = tmp_path / "users.csv"
    assert main([*ask, "--per-user", str(out), "--by", "history"]) == 0
    assert "USERS  RECALL@3    NDCG@3   95 % of NDCG" in capsys.readouterr().out
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == ["user", "protocol", "recall@3", "ndcg@3"]
    expected = metrics_of_users(model, split.measured("all", "keep"), (3,))["full"]["recall@3"]
    np.testing.assert_allclose([float(row["recall@3"]) for row in rows], expected, atol=1e-6)
    refuses(capsys, [*ask, "--by", "history,cold"], "--by cold is about a user's one test item")
    refuses(capsys, [*ask, "--protocols", "uni100"], "--targets all is for full ranking, and protocols are uni100")
    refuses(capsys, [*ask, "--protocols", "full,uni100", "--targets", "first"], "--repeats keep is for full ranking")


def test_compare_measures_several_targets(run, timed, tmp_path, capsys):
    other = ["train", str(timed), "--model", "popularity", "--split", "time:0.7", "--out", str(tmp_path / "other")]
    assert main([*other, "--targets", "all"]) == 0
    capsys.readouterr()
    assert main(["compare", str(run), str(tmp_path / "other"), "--at", "3"]) == 0
    shown = capsys.readouterr().out
    assert "of all items of the window\nRECALL@3" in shown
    assert f"{metrics(run)['ndcg@3']:7.4f}" in shown


def test_a_model_with_targets_of_its_paper_has_another_flag(timed, tmp_path, capsys):
    small = ["--model", "caser", "--epochs", "1", "--dim", "4", "--window", "2", "--maxlen", "5", "--targets", "2"]
    run = ["train", str(timed), *small, "--split", "time:0.7", "--test-targets", "all", "--out", str(tmp_path / "run")]
    assert main(run) == 0
    refuses(capsys, [*run[:-4], *run[-2:]], "was made with --test-targets all, not without;")
    assert list(metrics(tmp_path / "run")) == ["recall@10", "ndcg@10"]
    assert main(["evaluate", str(tmp_path / "run"), "--targets", "first"]) == 0


def test_all_targets_need_a_window(timed, tmp_path, capsys):
    train = ["train", timed, "--model", "popularity", "--out", tmp_path / "run"]
    refuses(capsys, [*train, "--targets", "all"], "leave-one-out holds out one item for each user")
    refuses(capsys, [*train, "--folds", "3"], "folds are windows of time", "use --split time")
    refuses(capsys, [*train, "--folds", "1", "--split", "time"], "folds is 1, expected at least 2")
    refuses(capsys, [*train, "--folds", "99999999", "--split", "time"], "folds is 99,999,999, and there are ")
    refuses(capsys, [*train, "--folds", "50", "--split", "time"], "fold 1 of 50, --split time:0.9..0.902: the window")
    refuses(capsys, [*train, "--split", "space"], "'space' is none of leave-one-out, time, time:SHARE")
    assert not (tmp_path / "run").exists()


def test_each_fold_is_a_run_and_the_table_has_their_mean(timed, tmp_path, capsys):
    out = tmp_path / "folded"
    train = ["train", str(timed), "--model", "markov", "--split", "time:0.6", "--folds", "2", "--out", str(out)]
    assert main(train) == 0
    shown = capsys.readouterr().out
    splits = ["time:0.6..0.8", "time:0.8"]
    configs = [json.loads((out / f"fold-{n}" / "config.json").read_text()) for n in (1, 2)]
    assert [config["evaluation"]["split"] for config in configs] == splits
    table = shown.rpartition(", 2 folds\n")[2].splitlines()
    values = [metrics(out / f"fold-{n}") for n in (1, 2)]
    interval = over_samples([each["ndcg@10"] for each in values])
    lines = {line[:16].strip(): line[16:].split() for line in table if line}
    assert lines["fold 1"][0] == "14"
    assert lines["fold 2"][2] == f"{values[1]['ndcg@10']:.4f}"
    assert [lines[name][1] for name in ("mean, markov", "95 % from", "to")] == [f"{end:.4f}" for end in interval]
    assert main(train) == 0                                  # finished folds are shown
    again = capsys.readouterr().out
    assert again.count("is complete") == 2
    assert again.rpartition(", 2 folds\n")[2] == shown.rpartition(", 2 folds\n")[2]
    assert main(["evaluate", str(out / "fold-1")]) == 0
    refuses(capsys, [*train[:-1], out / "fold-1"], "is a run without --folds")
    diverges = [*train[:3], "sasrec", "--dim", "4", "--lr", "1e30", "--epochs", "1", *train[4:-1], tmp_path / "no"]
    code, printed = main(list(map(str, diverges))), capsys.readouterr()
    assert (code, "diverged at step" in printed.err, (tmp_path / "no").exists()) == (2, True, False)


def test_a_sweep_with_folds_has_a_row_for_their_means(timed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = f'data = "{timed}"\nmodel = ["markov", "popularity"]\nsplit = "time:0.6"\nfolds = 2\n'
    (tmp_path / "grid.toml").write_text(text)
    assert main(["sweep", "grid.toml", "--out", "swept"]) == 0
    first, second = (tmp_path / "swept" / "commands.txt").read_text().splitlines()
    assert main(shlex.split(first)[1:-2]) == 0
    assert main(shlex.split(second)[1:-2]) == 0
    assert main(["collect", "swept"]) == 0
    mean = np.mean([metrics(tmp_path / "swept" / "model=markov" / f"fold-{n}")["ndcg@10"] for n in (1, 2)])
    rows = list(csv.DictReader((tmp_path / "swept" / "runs.csv").read_text().splitlines()))
    assert [float(row["full ndcg@10"]) for row in rows if row["model"] == "markov"] == [pytest.approx(mean)]
    assert float(rows[0]["validation ndcg@10"]) > 0
    assert "2 runs: 2 have finished" in capsys.readouterr().out


def test_recommend_keeps_the_history_among_candidates(run, tmp_path, capsys):
    model = Recommender.load(run / "model.npz")
    for repeats in ("drop", "keep"):
        assert main(["recommend", str(run), "--items", "i1,i5", "-k", "9", "--repeats", repeats]) == 0
        shown = [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]]
        assert shown == model.recommend(["i1", "i5"], 9, repeats=repeats == "keep")[0].tolist()
        assert ("i1" in shown) == (repeats == "keep")
    out = tmp_path / "best.csv"
    assert main(["recommend", str(run), "--users", "all", "--out", str(out), "-k", "12", "--repeats", "keep"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 15 * 12
