"""sweep and collect as people type them, and the commands as a shell runs them."""

import csv
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.commands import collect, sweep
from tinyattn.commands.collect import Collected
from tinyattn.commands.sweep import config_of
from tinyattn.data import leave_one_out, read
from tinyattn.evaluation import full_ranking
from tinyattn.files import alone_in, write_json
from tinyattn.models import RunFolder


def grid(folder, text):
    path = folder / "grid.toml"
    path.write_text(text)
    return path


def test_a_command_a_line_that_train_takes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = 'data = "my data.csv"\ndim = [8, 16]\nseed = [0, 1]\nuser-embedding = true\nlast_norm = false\nat = "5,10"\n'
    path = grid(tmp_path, text)
    assert main(["sweep", str(path), "--out", "swept"]) == 0
    assert "swept/commands.txt: 4 commands" in capsys.readouterr().out
    lines = (tmp_path / "swept" / "commands.txt").read_text().splitlines()
    words = ["--dim=8", "--seed=1", "--user-embedding", "--no-last-norm", "--at=5,10", "--out=swept/dim=8,seed=1"]
    assert shlex.split(lines[1]) == ["tinyattn", "train", "my data.csv", *words, "2>", "swept/dim=8,seed=1.log"]
    assert len({shlex.split(line)[-1] for line in lines}) == 4


def test_grids_that_belong_together_are_joined(tmp_path, capsys):
    text = 'epochs = 3\n[[grid]]\nmechanism = "window"\nwindow = [2, 4]\n[[grid]]\nmodel = "gru4rec"\nlayers = [1, 2]\n'
    assert main(["sweep", str(grid(tmp_path, text)), "--out", str(tmp_path / "swept")]) == 0
    runs = json.loads((tmp_path / "swept" / "sweep.json").read_text())["runs"]
    assert list(runs) == ["mechanism=window,window=2", "mechanism=window,window=4", "model=gru4rec,layers=1",
                          "model=gru4rec,layers=2"]  # fmt: skip


def test_two_sweeps_do_not_mix_in_one_folder(tmp_path, capsys):
    path = grid(tmp_path, "dim = 8")
    with alone_in(tmp_path / "swept"):
        refuses(capsys, ["sweep", path, "--out", tmp_path / "swept"], "another process is at work in")
    assert not list((tmp_path / "swept").iterdir())


def test_a_huge_metric_is_drawn_without_a_warning(with_pictures, tmp_path, capsys):
    out = tmp_path / "swept"
    assert main(["sweep", str(grid(tmp_path, "dim = [8, 16]\nepochs = 1")), "--out", str(out)]) == 0
    for dim, value in ((8, 0.5), (16, 8e307)):
        finished(out / f"dim={dim}", value, dim=dim, epochs=1)
    assert main(["collect", str(out)]) == 0
    assert not capsys.readouterr().err


def test_a_run_is_not_told_as_one_with_other_options(tmp_path, capsys):
    """Folders are named by what varies alone."""
    out = tmp_path / "swept"
    assert main(["sweep", str(grid(tmp_path, "dim = [8, 16]\nepochs = 1")), "--out", str(out)]) == 0
    finished(out / "dim=8", 0.5, dim=8, epochs=1)
    refuses(capsys, ["sweep", grid(tmp_path, "dim = [8, 16]\nepochs = 50"), "--out", out],
            "is a run with epochs 1, and the grid has 50: choose another --out")  # fmt: skip
    assert main(["sweep", str(grid(tmp_path, "dim = [8, 16, 32]\nepochs = 1")), "--out", str(out)]) == 0
    assert main(["sweep", str(grid(tmp_path, "lr = [0.1, 0.2]")), "--out", str(out)]) == 0     # forgets the first
    refuses(capsys, ["sweep", grid(tmp_path, "dim = [8, 16]\nepochs = 50"), "--out", out],
            "dim=8 was made with --epochs 1, not 50; choose another --out or remove it")  # fmt: skip
    outside = '{"varied": ["dim"], "runs": {"../dim=8": {"dim": 8}}}'
    pairs = '{"varied": [["dim"]], "runs": {"run": {}}}'
    text = '{"varied": "dim", "runs": {"run": {}}}'
    no_options = [f'{{"varied": [], "runs": {{"run": {one}}}}}' for one in ("3", "null", "[]", '""', '{"lr": [1]}')]
    for damaged in ("[]", "{}", '{"runs": [1]}', '{"runs": {"dim=8": 1}}', outside, pairs, text, *no_options):
        (out / "sweep.json").write_text(damaged)
        refuses(capsys, ["sweep", tmp_path / "grid.toml", "--out", out], "sweep.json was not written by `tinyattn")


def test_a_finished_run_goes_on_under_the_name_that_says_what_varies_now(tmp_path, capsys):
    out = tmp_path / "swept"
    assert main(["sweep", str(grid(tmp_path, "dim = [8, 16]\nepochs = 1")), "--out", str(out)]) == 0
    finished(out / "dim=8", 0.5, dim=8, epochs=1)
    (out / "dim=8.log").write_text("")
    (out / "dim=16").mkdir()                                 # which may be at work
    assert main(["sweep", str(grid(tmp_path, "dim = [8, 16]\nepochs = [1, 2]")), "--out", str(out)]) == 0
    assert f"{out / 'dim=8'} is {out / 'dim=8,epochs=1'} now" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir() if "=" in path.name) == [
        "dim=16", "dim=8,epochs=1", "dim=8,epochs=1.log",
    ]  # fmt: skip


BAD = {
    "unknown option": ("dimm = 8", "dimm is no option of model sasrec; did you mean dim?"),
    "nothing near": ("zzz = 8", "zzz is no option of model sasrec; `tinyattn train --model sasrec --help` shows them"),
    "of another model": ('model = "gru4rec"\nheads = 2', "heads is no option of model gru4rec"),
    "unknown model": ('model = "sasrek"', "model is 'sasrek', expected one of"),
    "impossible value": ("dim = [8, 0]", "dim is 0, expected 1 to 100000"),
    "not together": ("dim = 8\nheads = [2, 3]", "dim 8 is not divisible by heads 3"),
    "a table": ("[dim]\na = 1", "dim is {'a': 1}, expected a number, a text"),
    "no value": ("dim = []", "dim is [], expected a number"),
    "one grid": ("[grid]\ndim = 8", "grid is one table, expected one or more [[grid]]"),
    "twice": ("[[grid]]\ndim = 8\n[[grid]]\ndim = 8", "has the same run twice: dim = 8"),
    "one folder": ('data = ["a b.txt", "a_b.txt"]', "two runs whose folder would be data=a_b.txt: data = a_b.txt"),
    "two spellings": ('"user-embedding" = true\nuser_embedding = false', "an option is there twice, with - and with _"),
    "no number": ("seed = [1, true]", "grid.toml: argument --seed: expected one argument"),
    "no TOML": ("dim = = 8", "is not readable TOML"),
    "lists in lists": (f"dim = {'[' * 5000}", "is not readable TOML"),
    "two lines": ('mechanism = "full\\nlinear"', r"mechanism is 'full\nlinear', expected a text of one line"),
    "a flag": ('data = ["a.csv", "-b.csv"]', "data is '-b.csv', expected a path that begins with no -, as ./-b.csv"),
    "data and a world": ('data = "a.csv"\nworld = "series"', "DATA is a.csv and --world series, expected one of them"),
    "unknown world": ('world = "nope"', "--world is 'nope', expected one of"),
    "unknown task": ('model = "tagger"\ntask = "zz"', "--task is 'zz', expected one of"),
    "two sets of images": ('model = "vit"\nimages = "a.npz"\nimage-set = "shapes"', "expected one of them"),
    "out": ('out = "x"', "out is no option of model sasrec"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_grid_is_refused_and_nothing_written(name, tmp_path, capsys):
    text, said = BAD[name]
    refuses(capsys, ["sweep", grid(tmp_path, text), "--out", tmp_path / "swept"], said)
    assert not (tmp_path / "swept").exists()


def test_a_grid_of_too_many_runs_or_too_long_names_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweep, "MOST", 2)
    monkeypatch.setattr(sweep, "LONGEST", len("dim=8"))
    asked = ["sweep", tmp_path / "grid.toml", "--out", tmp_path / "swept"]
    for dims, said in (([2, 4, 8], "has more than 2 runs"), ([8, 16], "folder name of 6 letters, expected at most 5")):
        grid(tmp_path, f"dim = {dims}")
        refuses(capsys, asked, said)
    grid(tmp_path, "dim = [4, 8]")
    assert main([str(a) for a in asked]) == 0


def test_combinations_are_drawn_each_with_every_seed(tmp_path, capsys):
    text = """
    seed = [0, 1]
    epochs = {from = 3, to = 5}
    lr = {from = 1e-4, to = 1e-2, log = true}
    dropout = {from = 0.1, to = 0.3}
    [[grid]]
    dim = [8, 16, 32]
    [[grid]]
    dim = {from = 4, to = 64, log = true}
    """
    out, other = tmp_path / "swept", tmp_path / "other"
    assert main(["sweep", str(grid(tmp_path, text)), "--draw", "60", "--out", str(out)]) == 0
    runs = list(json.loads((out / "sweep.json").read_text())["runs"].values())
    assert len(runs) == 120
    points = [{name: value for name, value in run.items() if name != "seed"} for run in runs]
    assert points[::2] == points[1::2]
    assert [run["seed"] for run in runs] == [0, 1] * 60
    assert {run["epochs"] for run in runs} == {3, 4, 5}
    rates = np.array([run["lr"] for run in runs])
    assert 1e-4 <= min(rates) < 3e-4 < 3e-3 < max(rates) <= 1e-2
    assert 0.3 < np.mean(rates < 1e-3) < 0.7                                  # half of them, on a scale of logarithms
    assert all(0.1 <= run["dropout"] <= 0.3 and run["dropout"] == float(f"{run['dropout']:.3g}") for run in runs)
    assert {8, 16, 32} < {run["dim"] for run in runs} <= set(range(4, 65))
    again = ["sweep", str(tmp_path / "grid.toml"), "--draw", "60", "--out", str(other)]
    assert main(again) == 0
    assert json.loads((other / "sweep.json").read_text())["runs"] == dict(
        zip(json.loads((out / "sweep.json").read_text())["runs"], runs, strict=True)
    )
    assert main([*again[:-1], str(tmp_path / "seeded"), "--seed", "1"]) == 0
    assert list(json.loads((tmp_path / "seeded" / "sweep.json").read_text())["runs"].values()) != runs


@pytest.mark.parametrize(
    ("text", "draw", "said"),
    [
        ("lr = {from = 1, to = 2}", [], "lr is a range, from which --draw N draws"),
        ("dim = [8, 16]", ["--draw", "3"], "--draw is 3, and only 2 different combinations were drawn"),
        ("dim = [8, 16]", ["--draw", "0"], "--draw is 0, expected 1 to 100,000"),
        ("lr = {from = 2, to = 1}", ["--draw", "1"], "lr is {'from': 2, 'to': 1}, expected a number"),
        ("lr = {from = 0, to = 1, log = true}", ["--draw", "1"], "expected a number"),
        ("lr = {from = 0.1, to = inf}", ["--draw", "1"], "expected a number"),
        ("lr = {from = 0.1, to = 1, log = 3}", ["--draw", "1"], "expected a number"),
        ("lr = {from = 0.1}", ["--draw", "1"], "expected a number"),
        ("lr = {from = 0.1, to = 1, step = 2}", ["--draw", "1"], "expected a number"),
        ('dim = {from = "a", to = 1}', ["--draw", "1"], "expected a number"),
        ("dim = {from = -3, to = -1}", ["--draw", "1"], "dim is -"),
    ],
)
def test_a_draw_that_cannot_be_is_refused(tmp_path, capsys, text, draw, said):
    refuses(capsys, ["sweep", grid(tmp_path, text), *draw, "--out", tmp_path / "swept"], said)


def test_a_value_of_another_type_is_refused(tmp_path, capsys):
    refuses(capsys, ["sweep", grid(tmp_path, 'dim = "wide"'), "--out", tmp_path / "swept"], "--dim", "'wide'")
    refuses(capsys, ["sweep", grid(tmp_path, 'at = "5,5"'), "--out", tmp_path / "swept"], "--at", "'5,5'")


def test_a_grid_that_is_no_file_is_refused(tmp_path, capsys):
    refuses(capsys, ["sweep", tmp_path / "grid.toml", "--out", tmp_path / "swept"], "grid.toml: no such file")
    refuses(capsys, ["sweep", tmp_path, "--out", tmp_path / "swept"], "is no regular file, expected TOML")
    refuses(capsys, ["sweep", grid(tmp_path, "dim = 8"), "--out", " "], "--out is empty, expected a path")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "swept").write_text("a file")
    refuses(capsys, ["sweep", grid(tmp_path, "dim = 8"), "--out", tmp_path / "swept"], "cannot write to", "swept")
    refuses(capsys, ["collect", tmp_path], "sweep.json: no such file")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "commands.txt").write_text("mine")
    refuses(capsys, ["sweep", tmp_path / "grid.toml", "--out", tmp_path / "mine"], "has a commands.txt that no sweep")
    out = tmp_path / "other"
    assert main(["sweep", str(grid(tmp_path, "dim = 8")), "--out", str(out)]) == 0
    (out / "README.md").mkdir()
    refuses(capsys, ["collect", out], "README.md is no file, and a page is to be written there: move it")


def finished(folder, ndcg, fingerprint="f", **options):
    """What `train` leaves of a run."""
    folder.mkdir(exist_ok=True)
    (folder / "model.npz").write_bytes(b"")
    source = {"path": options["data"]} if "data" in options else {"world": {"name": "series"}}
    write_json(folder / "config.json", config_of(options) | {"data": source | {"fingerprint": fingerprint, "users": 9}})
    write_json(folder / "metrics.json", {"model": {"full": {"ndcg@10": ndcg, "hr@10": 2 * ndcg}}})


def test_a_table_of_what_has_finished_and_what_failed_by_name(with_pictures, tmp_path, capsys):
    out = tmp_path / "swept"
    assert main(["sweep", str(grid(tmp_path, "dim = [8, 16, 32]\nseed = [0, 1]")), "--out", str(out)]) == 0
    for dim, seed, ndcg in ((8, 0, 0.1), (8, 1, 0.2), (16, 0, 0.3)):
        finished(out / f"dim={dim},seed={seed}", ndcg, dim=dim, seed=seed)
        (out / f"dim={dim},seed={seed}.log").write_text("")
    (out / "dim=32,seed=1.log").write_text("a warning\ntinyattn: not enough memory for this size\n")
    (out / "dim=32,seed=0.log").write_text("RuntimeWarning: overflow\n  x * y\n")     # it may still be at work
    (out / "dim=16,seed=1.log").write_text("Traceback (most recent call last):\nKeyError: 5\n\n")
    capsys.readouterr()
    assert main(["collect", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "6 runs: 3 have finished, 2 failed, 1 are to come" in printed
    assert "- dim=16,seed=1 failed: KeyError: 5" in printed
    page = (out / "README.md").read_text()
    assert page.startswith("# swept\n\n6 runs: ")
    assert "\n![every run's metric](runs.png)\n" in page
    assert "runs.png" not in printed
    assert "- dim=32,seed=1 failed: tinyattn: not enough memory for this size" in printed
    (out / "dim=16,seed=0" / "metrics.json").write_text("[]")
    if hasattr(os, "mkfifo"):                                # nobody writes to it
        (out / "dim=32,seed=0.log").unlink()
        os.mkfifo(out / "dim=32,seed=0.log")
    assert main(["collect", str(out)]) == 1
    assert "- dim=16,seed=0 failed: " in capsys.readouterr().out
    finished(out / "dim=16,seed=0", 0.3, dim=16, seed=0)
    assert main(["collect", str(out)]) == 1
    rows = [line for line in printed.splitlines() if line.startswith("| dim")]
    assert rows == ["| dim 16 | 1 | 0.3000 | 0.6000 |", "| dim 8 | 2 | 0.1500 ± 0.0707 | 0.3000 ± 0.1414 |"]
    assert all(line in (out / "README.md").read_text() for line in rows)
    assert list(csv.reader((out / "runs.csv").read_text().splitlines()))[:2] == [
        ["run", "dim", "seed", "full ndcg@10", "full hr@10"], ["dim=8,seed=0", "8", "0", "0.1", "0.2"],
    ]  # fmt: skip
    assert (out / "runs.png").stat().st_size > 1000


def test_a_value_of_0_and_one_that_is_false_name_their_rows(tmp_path, capsys):
    out = tmp_path / "swept"
    asking = grid(tmp_path, 'dropout = [0.0, 0.5]\nuser-embedding = [false, true]')
    assert main(["sweep", str(asking), "--out", str(out)]) == 0
    for name, run in json.loads((out / "sweep.json").read_text())["runs"].items():
        finished(out / name, 0.1, **{key.replace("-", "_"): value for key, value in run.items()})
    assert main(["collect", str(out)]) == 0
    rows = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("| dropout")]
    assert sorted(rows) == [f"dropout {rate}, user-embedding {user}" for rate in (0.0, 0.5) for user in (False, True)]


def test_a_run_that_is_not_the_sweeps_is_in_no_table(tmp_path, capsys):
    """A finished folder of its name may be of another sweep, and data may change between two runs."""
    out = tmp_path / "swept"
    asking = grid(tmp_path, 'data = "d.txt"\ndim = [4, 8, 16, 32]\nepochs = 3')
    assert main(["sweep", str(asking), "--out", str(out)]) == 0
    finished(out / "dim=4", 0.1, dim=4, epochs=3, data="d.txt")
    finished(out / "dim=8", 0.2, dim=8, epochs=2, data="d.txt")
    finished(out / "dim=16", 0.3, dim=16, epochs=3, data="d.txt", fingerprint="another")
    finished(out / "dim=32", 0.4, model="popularity", data="d.txt")
    capsys.readouterr()
    assert main(["collect", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "4 runs: 1 have finished, 3 failed, 0 are to come" in printed
    assert "dim=8 was made with --epochs 2, not 3" in printed
    assert f"{out / 'dim=16'} was trained on other data than {out / 'dim=4'}" in printed
    assert "dim=32 was made with --model popularity, not sasrec" in printed


def test_a_readme_of_ones_own_is_not_lost(tmp_path, capsys):
    out = tmp_path / "swept"
    assert main(["sweep", str(grid(tmp_path, "lr = [0.1]")), "--out", str(out)]) == 0
    (out / "README.md").write_text("# My notes")
    refuses(capsys, ["collect", out], "README.md is not what `tinyattn collect` wrote, and would be overwritten")
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "commands.txt", "sweep.json"]


def test_a_bar_in_a_value_ends_no_cell():
    assert collect._table([Collected({"data": "a|b"}, {("test", "nats"): 1.0})])[-1].startswith(r"| data a\|b | 1 |")


def test_runs_that_differ_in_their_seed_alone_are_a_row():
    runs = [Collected({"seed": seed}, {("test", "nats"): value}) for seed, value in ((0, 1.0), (1, 2.0))]
    assert collect._table(runs)[-1] == "| all | 2 | 1.5000 ± 0.7071 |"


def test_the_same_data_split_in_two_ways_is_not_other_data(tmp_path):
    out, splits = tmp_path / "swept", ("leave-one-out", "time")
    assert main(["sweep", str(grid(tmp_path, f'data = "d.txt"\nsplit = {list(splits)}')), "--out", str(out)]) == 0
    for split in splits:
        finished(out / f"split={split}", 0.1, fingerprint=split, data="d.txt", split=split)
    assert main(["collect", str(out)]) == 0


@pytest.mark.parametrize(
    ("metric", "first"), [("ndcg@10", "b"), ("nats", "a"), ("rmse", "a"), ("mae", "a"), ("loss", "a")]
)
def test_the_best_row_is_the_first_and_of_losses_the_least(metric, first):
    runs = [Collected({"name": name}, {("test", metric): value}) for name, value in (("a", 1.0), ("b", 2.0))]
    assert collect._table(runs)[2].startswith(f"| name {first} |")


def test_the_validation_part_sorts_and_the_test_part_stands_beside_it():
    runs = {name: Collected({"name": name, "seed": seed}, {("validation", "ndcg@10"): valid, ("full", "ndcg@10"): test})
            for name, seed, test, valid in (("a", 0, 0.9, 0.1), ("b", 0, 0.2, 0.3), ("b", 1, 0.1, 0.5))}  # fmt: skip
    table = collect._table(list(runs.values()))
    assert "| validation NDCG@10 | full NDCG@10 |" in table[0]
    assert [row.split(" | ")[0] for row in table[2:]] == ["| name b", "| name a"]
    assert collect._csv(runs)[0] == ["run", "name", "seed", "validation ndcg@10", "full ndcg@10"]
    assert collect._csv(runs)[1] == ["a", "a", 0, 0.1, 0.9]
    older = [*runs.values(), Collected({"name": "c", "seed": 0}, {("full", "ndcg@10"): 0.95})]  # without validation
    assert [row.split(" | ")[0] for row in collect._table(older)[2:]] == ["| name c", "| name a", "| name b"]


def test_a_model_without_epochs_is_validated_too_and_the_file_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{u},{(u + t) % 7},{t}\n" for u in range(9) for t in range(5))
    (tmp_path / "d.csv").write_text(f"user,item,time\n{rows}")
    assert main(["train", "d.csv", "--model", "markov", "--out", "run"]) == 0
    folder = RunFolder(tmp_path / "run")
    model, split = folder.open()[0], leave_one_out(read("d.csv"))
    assert folder.validation() == ("ndcg@10", pytest.approx(full_ranking(model, split, "valid")["ndcg@10"]))
    assert "validation" not in folder.metrics()
    for wrong in ({}, {"validation": 1}, {"validation": {"a": 1.0, "b": 2.0}}, {"validation": {"a": "x"}}, []):
        (tmp_path / "run" / "metrics.json").write_text(json.dumps(wrong))
        assert folder.validation() is None


def test_without_a_picture_there_is_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tinyattn.show.sweep_dots", lambda *_: 1 / 0)
    assert not collect._draw([Collected({"name": "a"}, {("test", "ndcg@10"): 1.0})], tmp_path / "runs.png")
    assert "runs.png could not be drawn" in capsys.readouterr().err


def test_the_commands_run_and_run_again(tmp_path, capsys, monkeypatch):
    """The second one fails, in a shell, and is named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(
        "user_id,item_id,timestamp\n" + "".join(f"{u},{(u * t) % 7},{t}\n" for u in range(12) for t in range(1, 6))
    )
    path = grid(tmp_path, 'model = "popularity"\nbaselines = "popularity"\ndata = ["data.csv", "none.csv"]')
    assert main(["sweep", str(path), "--out", "swept"]) == 0
    good, bad = (tmp_path / "swept" / "commands.txt").read_text().splitlines()
    for _ in range(2):
        assert main(shlex.split(good)[1:-2]) == 0
    assert "data=data.csv is complete" in capsys.readouterr().out
    bad = bad.replace("tinyattn train", f"{shlex.quote(sys.executable)} -m tinyattn train")
    subprocess.run(["sh"], input=bad, text=True, capture_output=True)
    assert main(["collect", "swept"]) == 1
    printed = capsys.readouterr().out
    assert "2 runs: 1 have finished, 1 failed, 0 are to come" in printed
    assert "- data=none.csv failed: tinyattn: none.csv" in printed


def test_a_run_without_metrics_is_a_line_of_the_table_too():
    done = Collected({"seed": 0}, {("full", "ndcg@10"): 0.5})
    rows = collect._csv({"a": done, "b": Collected({"seed": 1}, {}, "out of memory")})
    assert rows == [["run", "seed", "full ndcg@10"], ["a", 0, 0.5], ["b", 1, ""]]
