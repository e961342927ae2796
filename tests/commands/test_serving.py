"""recommend, similar and show as people type them: names, lists of items, many users."""

import csv
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.commands.test_exporting import run_of
from tests.export.networks import untrained
from tests.helpers import refuses
from tinyattn.cli import main, parser
from tinyattn.commands.recommend import _note_short_lists
from tinyattn.commands.runs import k_of
from tinyattn.models import MODELS, Popularity, Recommender, RunFolder, SASRec, explain
from tinyattn.tree import leaves


def test_names_stand_wherever_items_do_and_unknown_ones_are_counted(runs, names, with_pictures, tmp_path, capsys):
    assert main(["recommend", str(runs["markov"]), "--items", "s2e1,s1e1", "-k", "2", "--names", str(names)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "after s2e1, s1e1 Le Café (1995):"
    assert out.splitlines()[1].split(maxsplit=3)[1::2] == ["s1e2", "Second, the (1996)"]
    assert out.splitlines()[2].split()[1:2] == ["s3e1"]
    assert len(out.splitlines()[2].split()) == 3  # without a name: the id alone
    assert err == f"note: {names}: 1 of 3 ids are no items of the run, and their names are not used\n"
    assert main(["similar", str(runs["sasrec"]), "--item", "s1e2", "-k", "15", "--names", str(names)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == "near s1e2 Second, the (1996):"
    assert "Le Café" in out
    picture = tmp_path / "map.png"
    show = ["show", str(runs["sasrec"]), "--items", "s1e1,s1e2", "--out", str(picture), "--names", str(names)]
    assert main(show) == 0
    assert picture.exists()


def test_names_of_nothing_known_and_broken_ones_are_refused(runs, tmp_path, capsys):
    ask = ["recommend", runs["markov"], "--items", "s1e1", "--names"]
    refuses(capsys, [*ask, tmp_path / "none"], "none: no such file")
    for text, part in (
        ("7\tSeven\n", "names no item of the run, whose ids are s1e1, s1e2, s1e3, ..."),
        ("s1e1\n", "line 1 has no second column"),
        ("s1e1\tA\ns1e2\n", "line 2 is 's1e2'"),
    ):
        (tmp_path / "names").write_text(text)
        refuses(capsys, [*ask, tmp_path / "names"], part)


def test_only_listed_items_are_given(runs, tmp_path, capsys):
    some = tmp_path / "some.txt"
    some.write_text("s4e1\n\ns3e1\ns1e1\n")
    for ask in (["recommend", "--items", "s1e1"], ["similar", "--item", "s1e1"]):
        command = [ask[0], str(runs["sasrec"]), *ask[1:], "--only", str(some)]
        assert main([*command, "-k", "2"]) == 0
        assert {line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]} == {"s4e1", "s3e1"}
        refuses(capsys, [*command, "-k", "3"], "k is 3, but only 2 items are left")
        assert main(command) == 0                                              # as many as there are, of ten
        out, err = capsys.readouterr()
        assert {line.split()[1] for line in out.splitlines()[1:]} == {"s4e1", "s3e1"}
        assert err == "note: 2 items are left, fewer than 10\n"
        some.write_text("s4e1\ns9e9\ns3e1\n")
        refuses(capsys, [*command, "-k", "2"], f"{some}: unknown item id s9e9")
        some.write_text("s4e1\ns3e1\ns1e1\n")
    some.write_text("s1e1")
    refuses(capsys, ["recommend", runs["sasrec"], "--items", "s1e1", "--only", some], "no items are left when seen")
    some.write_text("\n")
    refuses(capsys, ["recommend", runs["sasrec"], "--items", "s1e1", "--only", some], "some.txt: no ids")


def test_items_that_the_model_does_not_know_are_skipped_and_counted(runs, tmp_path, capsys):
    new, known, out, same = tmp_path / "new.csv", tmp_path / "known.csv", tmp_path / "out.csv", tmp_path / "same.csv"
    new.write_text("user,item,time\n7,s1e1,1\n7,s9e9,2\n7,s2e1,3\n8,s9e9,1\n9,s3e1,1\n")
    known.write_text("user,item,time\n7,s1e1,1\n7,s2e1,3\n9,s3e1,1\n")
    ask = ["recommend", str(runs["sasrec"]), str(new), "--users", "all", "-k", "3"]
    assert main([*ask, "--out", str(out)]) == 0
    note = "note: 2 of 5 interactions are skipped: the model does not know s9e9, and 1 of 3 users have no other, "
    note += "and get the most popular items (with --unknown refuse this is an error)\n"
    assert note in capsys.readouterr().err
    assert main(["recommend", str(runs["sasrec"]), str(known), "--users", "all", "-k", "3", "--out", str(same)]) == 0
    assert capsys.readouterr().err == ""
    lines = out.read_text().splitlines()
    popular = [line for line in lines if line.startswith("8,")]
    assert [line for line in lines if line not in popular] == same.read_text().splitlines()
    assert main(["recommend", str(runs["popularity"]), "--items", "", "-k", "3"]) == 0
    expected = [line.split()[1:3] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [line.split(",")[2:] for line in popular] == [[item, f"{float(score):.6g}"] for item, score in expected]
    assert main(["recommend", str(runs["sasrec"]), "--items", "s9e9,s1e1,s2e1", "--unknown", "skip", "-k", "3"]) == 0
    said = capsys.readouterr()
    assert said.err == "note: 1 of 3 items are skipped: the model does not know s9e9\n"
    assert said.out.startswith("after s1e1, s2e1:\n")
    assert main(["recommend", str(runs["sasrec"]), "--items", "s9e9", "--unknown", "skip", "-k", "3"]) == 0
    assert capsys.readouterr().out.startswith("the most popular items, after an empty history:\n")
    refuses(capsys, ["recommend", runs["sasrec"], "--items", "s9e9"], "unknown item id s9e9")
    refuses(capsys, [*ask, "--out", out, "--unknown", "refuse"], "unknown item id s9e9")
    new.write_text("user,item,time\n7,s9e9,1\n")
    refuses(capsys, [*ask, "--out", out], "the model knows none of the 1 items, such as s9e9")


@pytest.mark.parametrize(("left", "note"), [(10, ""), (9, "9 items are"), (1, "1 item is")])
def test_of_fewer_than_ten_items_all_are_given_and_that_is_noted(left, note, capsys):
    model = Popularity().fit([[*range(left + 2)]])
    assert k_of(SimpleNamespace(k=None), model, [0, 1, 1], None) == left
    assert capsys.readouterr().err == (f"note: {note} left, fewer than 10\n" if note else "")


@pytest.mark.parametrize(("most", "k", "note"), [
    ([1, 0, 1], 1, "1 of 3 users get no item"), ([2, 1, 1], 2, "2 of 3 users get fewer than 2 items"), ([2, 2], 2, ""),
])  # fmt: skip
def test_short_lists_are_counted(most, k, note, capsys):
    _note_short_lists(np.array(most), k)
    why = ": no more are left when seen ones are taken out\n"
    assert capsys.readouterr().err == (f"note: {note}{why}" if note else "")


def test_what_similar_refuses(runs, capsys):
    refuses(capsys, ["similar", runs["popularity"], "--item", "s1e1"], "knows nothing of pairs of items")
    refuses(capsys, ["similar", runs["markov"], "--item", "s9e9"], "unknown item id s9e9")
    refuses(capsys, ["similar", runs["markov"], "--item", ""], "unknown item id '': the 16 known ids")
    refuses(capsys, ["similar", runs["markov"], "--item", "s1e1", "-k", "16"], "k is 16, expected 1 to 15")
    refuses(capsys, ["similar", runs["markov"]], "--item")


@pytest.mark.parametrize("who", ["all", "some"])
def test_many_users_get_what_each_gets_alone(who, runs, data, names, tmp_path, capsys, monkeypatch):
    import importlib

    monkeypatch.setattr(importlib.import_module("tinyattn.commands.recommend"), "SCORES_AT_ONCE", 7 * 17)
    out, some = tmp_path / "new" / "best.csv", tmp_path / "some"
    some.write_text("9\n3\n9\n")  # who is listed twice has one list
    users = [str(u) for u in range(1, 61)] if who == "all" else ["9", "3"]
    ask = ["recommend", str(runs["sasrec"]), "-k", "3", "--users", "all" if who == "all" else str(some)]
    assert main([*ask, "--out", str(out), "--names", str(names)]) == 0
    assert capsys.readouterr().out == f"{len(users)} users, 3 items each: {out}\n"
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["user"], row["rank"]) for row in rows] == [(u, str(r)) for u in users for r in (1, 2, 3)]
    if who == "all":             # parts, one below the other, are the whole
        parts = []
        for number in (1, 2, 3):
            assert main([*ask, "--shard", f"{number}/3", "--out", str(some), "--names", str(names)]) == 0
            assert capsys.readouterr().out == f"20 users, 3 items each: {some}\n"
            parts += list(csv.DictReader(some.read_text().splitlines()))
        assert [(row["user"], row["item"]) for row in parts] == [(row["user"], row["item"]) for row in rows]
    named = {"s1e1": "Le Café (1995)", "s1e2": "Second, the (1996)"}
    assert all(row["name"] == named.get(row["item"], "") for row in rows)
    model = Recommender.load(runs["sasrec"] / "model.npz")
    history = [line.split()[1] for line in data.read_text().splitlines() if line.startswith("9 ")]
    ids, scores = model.recommend(history, 3)
    mine = [row for row in rows if row["user"] == "9"]
    assert [row["item"] for row in mine] == ids.tolist()
    assert [float(row["score"]) for row in mine] == pytest.approx(scores.tolist(), abs=1e-4)


def test_who_has_too_few_items_left_gets_those_and_keeps_nobodys_list_back(data, runs, tmp_path, capsys):
    out, few = tmp_path / "best.csv", tmp_path / "few"
    few.write_text("s1e1\ns2e1\n")
    seen = {str(u): set() for u in range(1, 61)}
    for line in data.read_text().splitlines():
        user, item = line.split()
        seen[user] |= {item} & {"s1e1", "s2e1"}
    ask = ["recommend", str(runs["sasrec"]), "--only", str(few)]
    assert main([*ask, "-k", "2", "--users", "all", "--out", str(out)]) == 0
    said, err = capsys.readouterr()
    assert said == f"60 users, at most 2 items each: {out}\n"
    fewer, none = (sum(len(items) >= n for items in seen.values()) for n in (1, 2))
    assert 0 < none < fewer < 60
    assert err.startswith(f"note: {fewer} of 60 users get fewer than 2 items, {none} of them none: ")
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["user"] for row in rows] == [user for user in seen for _ in range(2 - len(seen[user]))]
    assert all(row["item"] in {"s1e1", "s2e1"} - seen[row["user"]] for row in rows)
    assert [row["rank"] for row in rows] == [str(rank + 1) for user in seen for rank in range(2 - len(seen[user]))]
    nothing = next(user for user, items in seen.items() if len(items) == 2)
    refuses(capsys, [*ask, "-k", "1", "--user", nothing], "k is 1, but only 0 items are left")  # asked by name


def test_a_model_that_reads_no_history_says_so(data, tmp_path, capsys):
    run, out, other = tmp_path / "run", tmp_path / "best.csv", tmp_path / "other.txt"
    assert main(["train", str(data), "--model", "mf", "--dim", "4", "--epochs", "1", "--out", str(run)]) == 0
    other.write_text("5 s1e1\n777 s1e1\n778 s1e1\n")
    for asked, by_the_user in (
        (["--items", "s1e1,s1e2"], False),
        (["--user", "5"], True),
        ([str(other), "--user", "777"], False),
        ([str(other), "--user", "5"], True),
    ):
        capsys.readouterr()
        assert main(["recommend", str(run), *asked, "-k", "3"]) == 0
        err = capsys.readouterr().err
        assert (err == "") == by_the_user
        assert err.startswith("note: model mf reads no history, and recommends by the user alone: " * (not by_the_user))
    assert main(["recommend", str(run), str(other), "--users", "all", "--out", str(out), "-k", "3"]) == 0
    said = "note: model mf reads no history, and gives one ranking to 2 of 3 users, who"
    assert capsys.readouterr().err.startswith(said)
    for name in ("fpmc", "fossil"):  # which have a vector for a user as well, and read the last items
        assert not MODELS[name].by_user


def test_what_many_users_refuse_leaves_no_file(data, runs, tmp_path, capsys):
    out, some = tmp_path / "best.csv", tmp_path / "some"
    some.write_text("3\n99\n")
    ask = ["recommend", runs["markov"], "--out", out]
    refuses(capsys, [*ask, "--users", some], f"{some}: unknown user id 99")
    refuses(capsys, [*ask, "--users", tmp_path / "none"], "none: no such file")
    refuses(capsys, [*ask, "--users", "all", "--shard", "1/61"], "--shard 1/61: there are 60 users, so at most as many")
    for text in ("0/3", "4/3", "1", "x/3", "1/-3", "1/2/3"):
        refuses(capsys, [*ask, "--users", "all", "--shard", text], f"--shard: '{text}' is no part I/N with 1 <= I <= N")
    refuses(capsys, ["recommend", runs["markov"], "--items", "s1e1", "--shard", "1/2"], "give --users and --out, too")
    refuses(capsys, [*ask, "--users", "all", "-k", "17"], "k is 17, expected 1 to 16, the number of items")
    refuses(capsys, [*ask, "--users", "all", "-k", "0"], "k is 0")
    user, item = data.read_text().split()[:2]
    some.write_text(item)
    one = tmp_path / "one"
    one.write_text(user)
    refuses(capsys, [*ask, "--users", one, "--only", some], "no items are left for any user")
    some.write_text("3\n")
    refuses(capsys, [*ask, "--items", "s1e1"], "--users and --out go together")
    refuses(capsys, ["recommend", runs["markov"], "--users", "all"], "--users and --out go together")
    refuses(capsys, ["recommend", runs["markov"], "--users", "all", "--out", tmp_path], "is a directory")
    for read in (data, some):
        said = f"--out {read} is the file {read}, which is read"
        refuses(capsys, ["recommend", runs["markov"], "--users", some, "--out", read], said)
    inside = some / "new" / "best.csv"
    refuses(capsys, ["recommend", runs["markov"], "--users", "all", "--out", inside], f"{some} is no directory")
    assert not out.exists()


def test_strangers_among_many_users_have_no_embedding_of_their_own(data, tmp_path):
    """Users of other data than the run's: those that the model knows keep their own, the others are strangers."""
    run, out = tmp_path / "run", tmp_path / "best.csv"
    small = ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01", "--epochs", "3"]
    assert main(["train", str(data), *small, "--user-embedding", "--out", str(run)]) == 0
    mine = [line.split()[1] for line in data.read_text().splitlines() if line.startswith("5 ")]
    other = tmp_path / "other.txt"
    other.write_text("".join(f"5 {i}\n" for i in mine) + "".join(f"777 {i}\n" for i in mine))
    assert main(["recommend", str(run), str(other), "--users", "all", "--out", str(out), "-k", "3"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    model = Recommender.load(run / "model.npz")
    for user, users in (("5", ["5"]), ("777", None)):
        _, scores = model.recommend([mine], 3, users=users)
        found = [float(row["score"]) for row in rows if row["user"] == user]
        assert found == pytest.approx(scores[0].tolist(), abs=1e-4)


def test_explain_prints_three_ways_and_whether_they_agree(runs, names, capsys):
    ask = ["explain", str(runs["sasrec"]), "--items", "s1e1,s2e1,s1e2", "--for", "s3e1", "--names", str(names)]
    assert main(ask) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "what made s3e1:"
    assert out[1].split() == ["left", "out", "gradient", "attention"]
    found = explain(Recommender.load(runs["sasrec"] / "model.npz"), ["s1e1", "s2e1", "s1e2"], "s3e1")
    assert out[2].startswith("   1  s1e1 Le Café (1995)")
    for place, line in enumerate(out[2:5]):
        assert line.split()[-3:] == [f"{effect[place]:.4f}" for effect in found.effects.values()]
    for line, value in zip(out[5:8], found.agreement().values(), strict=True):
        assert line.endswith(f": {value:+.2f}")
    explained = ("left out", "gradient", "attention", "agreement")
    assert tuple(name for line in out[9:] for name in explained if line.startswith(f"{name}: ")) == explained


def test_explain_for_a_user_and_of_models_without_gradients(runs, capsys):
    assert main(["explain", str(runs["markov"]), "--user", "5"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].split() == ["left", "out"]
    legend = " ".join(out[out.index("") :])
    assert "left out: how much" in legend
    assert not [word for word in ("gradient", "ttention", "agreement") if word in legend]  # what is not shown
    assert main(["explain", str(runs["popularity"]), "--user", "5"]) == 0
    assert "no item changes the score: leaving out any of them has no effect" in capsys.readouterr().out
    refuses(capsys, ["explain", runs["markov"], "--items", "s1e1"], "expected at least 2")
    refuses(capsys, ["explain", runs["markov"], "--items", "s1e1,s1e2", "--for", "s9e9"], "unknown item id s9e9")
    refuses(capsys, ["explain", runs["markov"]], "required")
    model, _ = RunFolder(runs["markov"]).open()
    everything = ",".join(map(str, model.items.ids.tolist()))
    refuses(capsys, ["explain", runs["markov"], "--items", everything], "the history has every item, and nothing is")


def test_where_no_item_makes_a_difference_nothing_agrees(tmp_path, capsys):
    model = untrained(SASRec)
    for _, leaf in leaves(model.parameters):
        leaf[...] = 0
    assert main(["explain", str(run_of(model, tmp_path / "run")), "--items", "10,20,30"]) == 0
    out = capsys.readouterr().out
    assert out.count(": none: one of them finds no difference\n") == 3
    assert "no item changes the score: leaving out any of them has no effect\n" in out


def test_explain_says_what_narms_weights_are(data, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", str(data), "--model", "narm", "--dim", "4", "--epochs", "1", "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["explain", str(run), "--user", "5"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split() == ["left", "out", "gradient", "attention"]
    assert "In model narm the weights are no shares: no softmax makes them" in out


def test_the_readmes_commands_are_real():
    root = Path(__file__).parent.parent.parent
    readme = "\n".join((root / page).read_text() for page in ("README.md", "docs/data.md", "docs/transformers.md"))
    found = [shlex.split(line, comments=True) for line in re.findall(r"^    tinyattn (.*)", readme, re.M)]
    assert {words[0] for words in found} >= {"train", "recommend", "similar", "explain", "evaluate", "compare"}
    for words in found:
        assert parser(words).parse_args(words).command == words[0]


@pytest.mark.parametrize("at_once", [1, 10**6])
def test_who_had_an_item_many_times_has_as_many_left_as_who_had_it_once(tmp_path, capsys, monkeypatch, at_once):
    """Of five items one user had two, three times each, another four: one list of three items and one of one."""
    path, run, out = tmp_path / "small.txt", tmp_path / "run", tmp_path / "best.csv"
    rows = [(1, item) for item in "ababab"] + [(2, item) for item in "abcd"] + [(3, item) for item in "bcde"]
    path.write_text("".join(f"{user} {item}\n" for user, item in rows))
    assert main(["train", str(path), "--model", "markov", "--out", str(run)]) == 0
    monkeypatch.setattr("tinyattn.commands.recommend.SCORES_AT_ONCE", at_once)
    capsys.readouterr()
    assert main(["recommend", str(run), "--users", "all", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"3 users, at most 5 items each: {out}\n"       # of ten, there are five
    heading, *lines = out.read_text().splitlines()
    assert heading == "user,rank,item,score"
    written = [line.split(",")[:3] for line in lines]
    assert sorted(item for user, _, item in written if user == "1") == ["c", "d", "e"]
    assert [item for user, _, item in written if user == "2"] == ["e"]
    assert [item for user, _, item in written if user == "3"] == ["a"]
