"""compare, and evaluate's file of users, as people type them."""

import csv
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from tests.export.networks import untrained
from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.commands import compare
from tinyattn.commands.measures import MEASURES
from tinyattn.commands.tables import Evaluation, notes_on, notes_on_candidates, print_history, print_table
from tinyattn.data import Interactions, ItemNames, by_time, leave_one_out, read
from tinyattn.evaluation import (
    SEGMENTS,
    best_items,
    draw_candidates,
    mean_interval,
    ndcg,
    overlap,
    paired_difference,
    target_ranks,
)
from tinyattn.models import Markov, Recommender, RunFolder, SASRec


def test_metrics_of_every_user_have_the_tables_means(data, runs, tmp_path, capsys):
    out = tmp_path / "new" / "users.csv"
    ask = ["evaluate", str(runs["sasrec"]), "--per-user", str(out), "--at", "1,10"]
    refuses(capsys, ["evaluate", runs["sasrec"], "--per-user", tmp_path], "is a directory")
    refuses(capsys, ["evaluate", runs["sasrec"], "--per-user", "/dev/null"], "is a device")
    own = runs["sasrec"] / "model.npz"
    refuses(capsys, ["evaluate", runs["sasrec"], "--per-user", own], "model.npz is a part of the run in that folder")
    refuses(capsys, ["evaluate", runs["sasrec"], "--per-user", data], f"{data} is the file {data}, which is read")
    refuses(capsys, ["evaluate", runs["sasrec"], "--at", "5,10,5"], "'5,10,5' is no list of cut-offs", "each once")
    refuses(capsys, ["evaluate", runs["sasrec"] / "model.npz"], "model.npz is a file, expected the folder of a run")
    assert main([*ask, "--protocols", "full"]) == 0
    assert f"60 users: {out}" in capsys.readouterr().out
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["user"] for row in rows] == [str(u) for u in range(1, 61)]
    assert {row["protocol"] for row in rows} == {"full"}
    table = json.loads((runs["sasrec"] / "metrics.json").read_text())["model"]["full"]
    for name in ("hr@10", "ndcg@10"):
        assert np.mean([float(row[name]) for row in rows]) == pytest.approx(table[name], abs=1e-5)
    assert np.mean([1 / float(row["rank"]) for row in rows]) == pytest.approx(table["mrr"], abs=1e-5)


def test_a_model_without_epochs_is_validated_once_on_the_items_before_the_test_items(rng):
    split = leave_one_out(Interactions.from_sequences([rng.permutation(8)[:6].tolist() for _ in range(30)]))
    model = Markov().fit(split)
    value = MEASURES["ranking"].validated(model, split)
    assert value == model.evaluate(split, "valid")["ndcg@10"] != model.evaluate(split)["ndcg@10"]
    model.history = [{"valid": 0.3}, {"valid": 0.4}, {"valid": None}, {"valid": 0.2}]
    assert MEASURES["ranking"].validated(model, split) == 0.4


def test_pictures_of_a_run_are_in_the_units_of_its_kind(tmp_path, monkeypatch):
    made = {}
    monkeypatch.setattr("tinyattn.show.save", lambda figure, path: made.update({path: figure}))
    monkeypatch.setattr("tinyattn.show.draw_run", lambda *given: made.update(run=given))
    history = [{"epoch": 1, "loss": 2.0, "valid": 0.5}]
    weights = np.random.default_rng(0).random((1, 1, 4, 2))
    model = SimpleNamespace(history=history, translate=lambda text: text[0] + "yz", alignment=lambda *texts: weights)
    folder, pairs = RunFolder(tmp_path), SimpleNamespace(test=SimpleNamespace(sources=["ab", "c"]))
    on = SimpleNamespace(split=pairs, options=SimpleNamespace(at=(5, 10)))
    for kind, criterion, axes in (("pairs", "exact", ("nats", "exact")), ("text", "-loss", ("nats a token", "-LOSS")),
                                  ("ratings", "-rmse", ("half of squares", "-RMSE"))):  # fmt: skip
        model.criterion = criterion
        MEASURES[kind].draw(folder, model, on, {}, "t")
        assert tuple(ax.get_ylabel() for ax in made[folder.figures / "training.png"].axes) == axes
    (ax,) = (ax for ax in made[folder.figures / "alignment.png"].axes if ax.images)
    ticks = [[text.get_text() for text in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis)]
    assert ticks == [["a", "b"], ["a", "y", "z", "end"]]
    rows = {name: {"uni100": {"mrr": i}, "full": {"mrr": -i}} for i, name in enumerate(("model", "markov", "optimum"))}
    MEASURES["ranking"].draw(folder, model, on, rows, "t")
    ordered = {name: rows[name]["uni100"] for name in ("markov", "model", "optimum")}
    assert made["run"] == (folder.figures, model, pairs, ordered, (5, 10), "t")
    assert list(made["run"][3]) == list(ordered)


def test_a_user_has_a_line_for_each_protocol(data, tmp_path, capsys):
    more, run, out = tmp_path / "more.txt", tmp_path / "run", tmp_path / "users.csv"
    more.write_text(data.read_text() + "".join(f"99 extra{i}\n" for i in range(150)))
    assert main(["train", str(more), "--model", "markov", "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(run), "--per-user", str(out), "--protocols", "uni100,full"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["protocol"] for row in rows] == ["uni100"] * 61 + ["full"] * 61
    mean = np.mean([float(row["ndcg@10"]) for row in rows if row["protocol"] == "uni100"])
    assert f"{mean:.4f}" in next(x for x in capsys.readouterr().out.splitlines() if x.startswith("markov    "))


def test_ranks_are_those_of_the_users_themselves(tmp_path, capsys):
    """A model with a vector for each user; on data whose users come in another order, one of them a stranger."""
    model, data, out = untrained(SASRec, user_embedding=True), tmp_path / "rated.txt", tmp_path / "users.csv"
    rows = {4: [10, 20, 30, 40], 2: [20, 30, 50, 60], 99: [10, 50, 20, 70], 6: [70, 80, 30, 90], 1: [20, 90, 40]}
    data.write_text("".join(f"{user} {item}\n" for user, items in rows.items() for item in items))
    run = RunFolder(tmp_path / "run")
    with run.claimed({"model": model.name, "parameters": model.identity(), "data": {"fingerprint": "none"}}):
        model.save(run.model)
    ask = ["evaluate", str(tmp_path / "run"), str(data), "--per-user", str(out), "--protocols", "full"]
    assert main([*ask, "--at", "2,3"]) == 0
    assert f"{len(rows)} users: {out}" in capsys.readouterr().out
    written = list(csv.DictReader(out.read_text().splitlines()))
    assert sorted(int(row["user"]) for row in written) == sorted(rows)
    ranks = set()
    for row in written:
        *seen, target = rows[int(row["user"])]
        number = [int(row["user"])] if int(row["user"]) in range(1, 7) else [0]
        scores = model.score([model.items.numbers(seen)], np.array(number))[0].copy()
        place = model.items.numbers([target])[0]
        scores[[0, *model.items.numbers(seen)]] = -np.inf
        rank = 1 + int(np.sum(scores > scores[place]))
        assert int(row["rank"]) == rank, row
        for k in (2, 3):
            assert float(row[f"hr@{k}"]) == (rank <= k)
            assert float(row[f"ndcg@{k}"]) == pytest.approx((rank <= k) / np.log2(rank + 1), abs=1e-5)
        ranks.add(rank)
    assert len(ranks) > 2
    anybody = model.score([model.items.numbers(rows[4][:-1])] * 2, np.array([4, 2]))
    assert not np.allclose(anybody[0, 1:], anybody[1, 1:])
    alone, theirs = (model.recommend([rows[4]], 7, users=users)[0][0].tolist() for users in (None, [4]))
    history, (best,) = compare._recommended(SimpleNamespace(user="4", items=None, k=7), [model], read(data))
    assert history == rows[4]
    assert best.tolist() == theirs != alone
    assert main(["explain", str(tmp_path / "run"), str(data), "--user", "4"]) == 0
    assert capsys.readouterr().out.startswith(f"what made {theirs[0]}:")
    assert theirs[0] != alone[0]


@pytest.mark.parametrize("length", [5, 6])
def test_a_heading_has_the_five_newest_items_of_a_history(length, capsys):
    print_history([f"i{n}" for n in range(1, length + 1)], ItemNames())
    assert capsys.readouterr().out == {5: "after i1, i2, i3, i4, i5:\n", 6: "after ..., i2, i3, i4, i5, i6:\n"}[length]


def test_of_a_world_full_ranking_alone_is_expected_and_a_model_beside_its_name_is_this_one(capsys):
    both = {row: {p: {"mrr": value} for p in ("full", "uni100")} for row, value in (("markov", 0.5), ("model", 0.25))}
    split = leave_one_out(Interactions.of([[1, 2, 3]]))
    print_table(both, Markov(order=2), Evaluation(None, None, print, split, None))
    full, sampled = capsys.readouterr().out.split("among 100 items")
    assert "that the user has not had, expected under the world's true distribution\n" in full
    assert "expected" not in sampled
    for table in (full, sampled):
        assert "\nmarkov          0.5000\nthis markov     0.2500\n" in table


@pytest.mark.parametrize("items", [103, 104])
def test_with_fewer_than_100_unseen_items_draws_of_100_are_noted(items, capsys):
    split = leave_one_out(Interactions.of([[1, 2, 3, 4], [4, 5, 6], *([i, i + 1] for i in range(5, items))]))
    MEASURES["ranking"].prepare(split, SimpleNamespace(protocols=["uni100"], negatives=None, at=(10,)))
    said = "note: uni100 draws 100 items for each user, and a user has as few as 99 new ones"
    assert (said in capsys.readouterr().err) == (items == 103)


def test_candidates_are_kept_and_are_those_of_the_run(data, tmp_path, capsys):
    more, run, given = tmp_path / "more.txt", tmp_path / "run", tmp_path / "given"
    more.write_text(data.read_text() + "".join(f"{99 + i // 10} extra{i}\n" for i in range(150)))
    train = ["train", str(more), "--model", "markov", "--out", str(run), "--protocols", "uni100", "--negatives"]
    assert main([*train, str(given)]) == 0
    refuses(capsys, [*train, tmp_path / "others"], f"made with --negatives {given}, not {tmp_path / 'others'}")
    candidates = given / "uni100.txt"
    ask = ["evaluate", run, "--protocols", "uni100", "--negatives", given, "--per-user", candidates]
    refuses(capsys, ask, f"--per-user {candidates} is the file {candidates}, which is read")


def test_few_items_are_drawn_more_than_once_and_that_is_said(runs, capsys):
    assert main(["evaluate", str(runs["markov"]), "--protocols", "uni100,full"]) == 0
    assert "new ones: many are drawn several times" in capsys.readouterr().err
    assert main(["evaluate", str(runs["markov"]), "--protocols", "full"]) == 0
    assert "uni100" not in capsys.readouterr().err


def test_parts_of_the_users_have_their_metrics_and_intervals(runs, data, capsys):
    assert main(["evaluate", str(runs["markov"]), "--by", "history,repeat", "--at", "3"]) == 0
    printed = capsys.readouterr().out
    split = leave_one_out(read(data))
    rank = target_ranks(Recommender.load(f"{runs['markov']}/model.npz").score, split)["full"]
    for by in ("history", "repeat"):
        table = printed.partition(f"by {by}, full ranking")[2]
        for title, mask in SEGMENTS[by](split).items():
            row = [line for line in table.splitlines() if line.startswith(title)]
            if not np.any(mask):
                assert not row
                continue
            users, hits, gain, low, high = re.sub(r"[\[\],]", "", row[0].removeprefix(title)).split()
            mean = mean_interval(ndcg(rank[mask], 3))
            assert int(users) == np.sum(mask)
            assert float(hits) == pytest.approx(np.mean(rank[mask] <= 3), abs=6e-5)
            assert [float(gain), float(low), float(high)] == pytest.approx([mean.mean, mean.low, mean.high], abs=6e-5)
    refuses(capsys, ["evaluate", runs["markov"], "--by", "colour"], "'colour' is no list of history, popularity")


def test_what_a_reader_of_a_table_should_know_is_noted():
    split = leave_one_out(Interactions.of([[1, 2, 3, 4], [4, 5, 6], [6, 7, 8], *([i, i + 1] for i in range(5, 30))]))
    assert split.candidates.tolist() == [27, 28, 28]

    def history(*scores, losses=(2.0, 1.0, 0.5, 4.9)):
        return [{"valid": score, "loss": loss} for score, loss in zip(scores, losses, strict=False)]

    model = SimpleNamespace(name="mine", criterion="ndcg@10", epochs=3, history=history(0.1, 0.2, 0.3))
    rows = {"model": {"full": {"hr@10": 0.5, "ndcg@10": 0.2, "hr@27": 1.0, "ndcg@27": 0.3}},
            "popularity": {"full": {"hr@10": 0.6, "ndcg@10": 0.1, "hr@27": 1.0, "ndcg@27": 0.31}}}  # fmt: skip
    assert notes_on(model, rows, split) == [
        "1 of 3 users have at most 27 candidates: HR@27 is 1 for any model",
        "mine ranks below popularity: NDCG@27 0.3000, and 0.3100",
        "the last of 3 epochs was the best on the validation part: try more --epochs",
    ]
    assert notes_on_candidates({"uni100": ["hr@100", "ndcg@100"], "pop100": ["hr@5", "hr@101", "mrr"]}, split) == [
        "pop100 ranks 101 items: HR@101 is 1 for any model"
    ]
    better = {"model": {"full": {"hr@10": 0.5, "ndcg@10": 0.2}}, "popularity": {"full": {"hr@10": 0.6, "ndcg@10": 0.2}}}
    for epochs, scores in ((3, (0.1, 0.3, 0.3)), (4, (0.1, 0.2, 0.3)), (1, (0.1,)), (2, (None, None)), (0, ())):
        model.epochs, model.history = epochs, history(*scores)
        assert notes_on(model, better, split) == []
    rising, high, low = ((0.5, 5.1), "5.1 after epoch 2, and was 0.5"), ((1e7,), "1e+07 after epoch 1"), ((999.0,), "")
    for losses, says in (rising, high, low):
        model.history = history(0.2, 0.1, losses=losses)
        assert notes_on(model, better, split) == [f"the loss is {says}: a smaller --lr may help"] * bool(says)


def test_compare_prints_metrics_intervals_and_lists(runs, data, names, capsys):
    folders = [str(runs[name]) for name in ("sasrec", "markov", "popularity")]
    ask = ["compare", *folders, "--items", "s1e1", "-k", "2", "--names", str(names)]
    assert main(ask) == 0
    printed = capsys.readouterr().out
    refuses(capsys, ["compare", *folders, "--items", "s1e1", "-k", "0"], "k is 0, expected 1 to")
    split = leave_one_out(read(data))
    models = [Recommender.load(f"{folder}/model.npz") for folder in folders]
    gains = [ndcg(target_ranks(model.score, split)["full"], 10) for model in models]
    lines = [line.split(maxsplit=3) for line in printed.splitlines() if line.startswith("NDCG@10")]
    assert [line[1] for line in lines] == folders
    assert [line[2] for line in lines] == [f"{np.mean(g):.4f}" for g in gains]
    for line, mine in zip(lines[1:], gains[1:], strict=True):
        found = paired_difference(mine, gains[0])
        assert line[3] == f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    assert len(lines[0]) == 3  # the first run differs from none
    beyond = [line.split() for line in printed.split("beyond accuracy")[1].splitlines()[2:5]]
    assert [row[0] for row in beyond] == folders
    best = [best_items(model.score, split) for model in models]
    assert [row[4] for row in beyond] == [f"{overlap(b, best[0]):.3f}" for b in best]
    side = printed.split("after s1e1 Le Café (1995):")[1].splitlines()[2:]
    assert [row.split(maxsplit=2)[2].startswith("s1e2 Second, the (1996)") for row in side] == [True, False]
    assert main(ask) == 0
    assert capsys.readouterr().out == printed
    assert main([*ask, "--seed", "1"]) == 0
    assert capsys.readouterr().out != printed


def test_compare_for_a_user_and_for_nobody(runs, data, capsys):
    ask = ["compare", str(runs["markov"]), str(runs["popularity"])]
    assert main(ask) == 0
    assert "after" not in capsys.readouterr().out
    assert main([*ask, "--user", "5", "-k", "1"]) == 0
    last = [line.split()[1] for line in data.read_text().splitlines() if line.startswith("5 ")][-1]
    assert f"{last}:\n" in capsys.readouterr().out
    assert main([*ask, "--items", "s1e1", "--protocols", "full,uni100"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1].split()[0] == "10"                        # recommendations, by default
    split, model = leave_one_out(read(data)), Recommender.load(runs["markov"] / "model.npz")
    ranks = target_ranks(model, split, "test", {"uni100": draw_candidates(split, "uni100")})
    found = [line.split()[2] for line in out if line.startswith("MRR") and ask[1] in line]
    assert found == [f"{np.mean(1 / ranks[protocol]):.4f}" for protocol in ("full", "uni100")]


def test_what_compare_refuses(runs, data, tmp_path, capsys):
    two = [runs["markov"], runs["popularity"]]
    other, run = tmp_path / "other.txt", tmp_path / "run"
    other.write_text(data.read_text() + "1 s4e4\n")
    assert main(["train", str(other), "--model", "popularity", "--out", str(run)]) == 0
    refuses(capsys, ["compare", *two, "--seed", "-1"], "--seed is -1, expected at least 0")
    refuses(capsys, ["compare", *two, run], f"{run} was trained on other data than {two[0]}")
    refuses(capsys, ["compare", two[0]], "takes two runs or more")
    refuses(capsys, ["compare", two[0], two[0]], "each once")
    refuses(capsys, ["compare", two[0], two[0] / "."  / ".." / two[0].name], "each once")
    refuses(capsys, ["compare", *two, "-k", "3"], "expected --items or --user, too")
    refuses(capsys, ["compare", *two, "--names", "x"], "expected --items or --user, too")
    refuses(capsys, ["compare", two[0], tmp_path / "none"], "no such file")
    assert refuses(capsys, ["compare", *two, "--items", "s9e9"], "unknown item id s9e9") == ""
    assert refuses(capsys, ["compare", *two, "--user", "99"], "unknown user id 99") == ""
    assert refuses(capsys, ["compare", *two, "--items", "s1e1", "-k", "16"], "only 15 items are left") == ""
    other.write_text(data.read_text())
    refuses(capsys, ["compare", run, two[0]], "is no longer what")


def test_a_split_by_time_is_part_of_the_run(data, tmp_path, capsys):
    timed, run, other, plain = (tmp_path / name for name in ("timed.txt", "run", "other", "plain"))
    lines = data.read_text().splitlines()
    timed.write_text("".join(f"{line} {(i * 37) % 997}\n" for i, line in enumerate(lines)))
    train = ["train", str(timed), "--model", "markov", "--out"]
    untimed = ["train", data, "--model", "markov", "--split", "time", "--out", run]
    refuses(capsys, untimed, "a split by time needs times")
    assert not run.exists()
    assert main([*train, str(run), "--split", "time"]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("markov    ")]
    split = by_time(read(timed))
    expected = np.mean(ndcg(target_ranks(Recommender.load(run / "model.npz").score, split)["full"], 10))
    assert table[0].split()[2] == f"{expected:.4f}"
    assert main(["evaluate", str(run)]) == 0
    assert table[0] in capsys.readouterr().out
    refuses(capsys, ["evaluate", run, data], "a split by time needs times")
    moved = timed.read_text()
    rows = map(str.split, moved.splitlines())
    timed.write_text("".join(f"{user} {item} {int(t) + 10**6}\n" for user, item, t in rows))
    refuses(capsys, ["evaluate", run], f"{timed} is no longer what {run} was trained on")  # in the same order
    refuses(capsys, [*train, run, "--split", "time"], f"{run} was trained on other data")
    timed.rename(tmp_path / "elsewhere")
    refuses(capsys, ["evaluate", run], f"{timed}: no such file: {run} was trained on it; name DATA to use another")
    timed.write_text(moved)
    refuses(capsys, [*train, run], "made with --split time, not leave-one-out")
    assert main([*train, str(other)]) == 0
    refuses(capsys, ["compare", run, other], f"{other} has another --split than {run}")
    ordered, untimed = read(timed), tmp_path / "untimed.txt"
    pairs = zip(np.repeat(ordered.users.ids, ordered.lengths), ordered.items.decode(ordered.flat), strict=True)
    untimed.write_text("".join(f"{user} {item}\n" for user, item in pairs))
    assert main(["train", str(untimed), "--model", "markov", "--out", str(plain)]) == 0  # the same, without times
    refuses(capsys, ["compare", plain, run], f"{run} has another --split than {plain}")
    config = json.loads((other / "config.json").read_text())
    assert config["evaluation"].pop("split") == "leave-one-out"
    (other / "config.json").write_text(json.dumps(config))  # as versions wrote it that knew no other split
    capsys.readouterr()
    assert main([*train, str(other)]) == 0
    assert "is complete" in capsys.readouterr().out
    config["evaluation"]["split"] = "random"
    (other / "config.json").write_text(json.dumps(config))
    refuses(capsys, ["evaluate", other], "has split 'random', expected one of leave-one-out, time")
