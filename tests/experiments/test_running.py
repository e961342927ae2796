"""Experiments: every run leaves a file, what has finished is not repeated, and pages are made of files alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import MACHINE
from tests.models.worlds import TINY
from tinyattn.cli import main
from tinyattn.data import leave_one_out
from tinyattn.experiments import EXPERIMENTS, Dataset, Experiment, Row, carry_out, planted, results_of, with_remarks
from tinyattn.experiments import running as running_module
from tinyattn.experiments.tables import figures, minutes, page, table
from tinyattn.experiments.whole import is_whole
from tinyattn.files import FileError, alone_in
from tinyattn.machine import commit
from tinyattn.show import draw_picture
from tinyattn.training import InterruptedRunError, WorkerKilledError

COLUMNS = [("full", "ndcg@10"), ("uni100", "hr@10")]
TRAINED = {"epochs": 2, "dim": 4, "maxlen": 5, "blocks": 1}


def make_page(experiment, results):
    return page(experiment, results, [table(experiment, results, list(experiment.rows), COLUMNS)])


def also(model, split):
    return {"named": model.name}


SMALL = Experiment(
    name="small", title="Small", question="Does it run?",
    datasets={"series": Dataset("series", world=TINY), "absent": Dataset("absent", file="absent.txt.gz")},
    rows={
        "popularity": Row("popularity", "series", "popularity", {}, {COLUMNS[1]: 0.4329}, "a paper"),
        "sasrec": Row("SASRec", "series", "sasrec", TRAINED),
        "other": Row("on absent data", "absent", "popularity"),
    },
    page=make_page, also=also, protocols=("full", "uni100"),
)  # fmt: skip


def run_here(monkeypatch):
    """Runs in this process: a spawned one would only cost time."""

    class Here:
        def __init__(self, *given):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def submit(self, f, *given):
            future = Future()
            try:
                future.set_result(f(*given))
            except Exception as error:
                future.set_exception(error)
            return future

        def shutdown(self, **how):
            pass

    monkeypatch.setattr(running_module, "ProcessPoolExecutor", Here)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The small experiment, carried out by processes of its own."""
    out, said = tmp_path_factory.mktemp("small") / "out", []
    carry_out(SMALL, None, out, jobs=2, say=said.append)
    return out, said


def test_every_run_leaves_a_file_and_nothing_else(finished):
    out, said = finished
    assert sorted(path.name for path in out.iterdir()) == [
        "popularity-seed0.json", "sasrec-seed0.json", "sasrec-seed1.json"]  # fmt: skip
    found = json.loads((out / "sasrec-seed1.json").read_text())
    assert found["row"] == {"data": "series", "model": "sasrec", "options": TRAINED, "seed": 1}
    assert found["epochs"] == len(found["valid"]) == 2
    assert set(found["metrics"]) == {"full", "uni100"}
    assert found["named"] == "sasrec"
    assert found["machine"]["commit"] == commit()
    assert found["data"]["fingerprint"] == TINY.generate().fingerprint()
    assert any("left out: absent, as there is no absent.txt.gz without --data DIR" in line for line in said)


def test_what_has_finished_is_not_repeated(finished, monkeypatch):
    out, _ = finished
    before, said = {path: path.stat().st_mtime_ns for path in out.iterdir()}, []
    monkeypatch.setattr(running_module, "ProcessPoolExecutor", None)
    carry_out(SMALL, None, out, say=said.append)
    assert before == {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert "3 runs, 3 of them done" in said[-1]


def test_the_page_is_made_of_the_files(finished):
    found = make_page(SMALL, results_of(SMALL, finished[0]))
    assert "| *published: a paper* | |  | *0.4329* |" in found
    assert "| SASRec | 2 | 0." in found
    assert "| on absent data | to come |" in found
    assert "3 runs, each with one worker" in found
    left = "1 run of the grid is to come, about 0.1 hours of one core: `tinyattn reproduce small --data DIR --out OUT` "
    assert left in found
    whole = replace(SMALL, rows={"sasrec": SMALL.rows["sasrec"]})
    assert "to come" not in make_page(whole, results_of(whole, finished[0]))


def test_on_another_device_the_same_comes_out_and_the_page_says_where(finished, monkeypatch, tmp_path):
    run_here(monkeypatch)
    carry_out(SMALL, None, tmp_path, device="strict")
    ours, theirs = (results_of(SMALL, out) for out in (finished[0], tmp_path))
    for here, there in zip(ours["sasrec"], theirs["sasrec"], strict=True):
        assert there["row"] == here["row"]
        assert there["machine"] == here["machine"] | {"device": "strict"}
        assert there["metrics"]["full"]["mrr"] == pytest.approx(here["metrics"]["full"]["mrr"], abs=0.02)
    assert "; strict beside" in make_page(SMALL, theirs)
    assert "| SASRec | 2, 2 on a GPU | " in make_page(SMALL, theirs)
    assert minutes(theirs["sasrec"]).endswith(", strict")
    mixed = [*theirs["sasrec"], ours["sasrec"][0] | {"epoch_seconds": 120.0}]
    assert minutes(mixed) == "4.0"                       # two epochs at the pace of the host
    with pytest.raises(ValueError, match="compares seconds of the CPU: device is strict, expected cpu"):
        carry_out(replace(SMALL, alone=True), None, tmp_path / "none", device="strict")
    with pytest.raises(ValueError, match="device is 'tpu'"):
        carry_out(SMALL, None, tmp_path / "none", device="tpu")
    assert not (tmp_path / "none").exists()


def test_a_file_of_another_grid_is_refused_before_anything_runs(finished, monkeypatch):
    other = replace(SMALL, rows=SMALL.rows | {"sasrec": replace(SMALL.rows["sasrec"], options=TRAINED | {"dim": 8})})
    monkeypatch.setattr(running_module, "ProcessPoolExecutor", None)
    with pytest.raises(FileError, match=r"sasrec-seed0.json is of another grid, dim 4, expected 8: remove it, or"):
        carry_out(other, None, finished[0])


def test_a_file_made_with_other_defaults_is_refused(finished, tmp_path):
    """The grid says what is not the default: seeds before and after a change of one would stand in one mean."""
    path = tmp_path / "sasrec-seed0.json"
    found = json.loads((finished[0] / "sasrec-seed0.json").read_text())
    settings = found.pop("settings")
    for change, says in (({"beta2": 0.5}, "beta2 0.5, expected 0.98"), ({"gone": 1}, "gone 1, expected None")):
        path.write_text(json.dumps(found | {"settings": settings | change}))
        with pytest.raises(FileError, match=f"made with other defaults, {says}"):
            results_of(SMALL, tmp_path)
    before = {name: value for name, value in settings.items() if name != "padding"}    # had there been no such option
    for known in ({}, {"settings": before}):
        path.write_text(json.dumps(found | known))
        assert results_of(SMALL, tmp_path)["sasrec"]


def test_an_interrupted_run_goes_on_and_ends_with_the_same_numbers(finished, tmp_path, monkeypatch):
    run_here(monkeypatch)
    only = replace(SMALL, rows={"sasrec": SMALL.rows["sasrec"]}, seeds=1)
    real = running_module.evaluate
    monkeypatch.setattr(running_module, "evaluate", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        carry_out(only, None, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["sasrec-seed0.work"]
    monkeypatch.setattr(running_module, "evaluate", real)
    carry_out(only, None, tmp_path)
    mine, theirs = (json.loads((folder / "sasrec-seed0.json").read_text()) for folder in (tmp_path, finished[0]))
    assert mine["metrics"] == theirs["metrics"]


BEYOND = {"coverage@10": 0.1, "novelty": 1.0, "popularity": 1.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metrics": {"full": {}}}, "popularity-seed0.json is damaged, or was made under other protocols"),
        ({"metrics": []}, "is damaged"),
        ({"beyond": {}}, "is damaged"),
        ({"beyond": BEYOND | {"best": [[1], [2]]}}, "seed0.json has [0-9]+ lists, and "),
        ({"beyond": BEYOND | {"novelty": -1.0}}, "is damaged"),
        ({"valid": [[1]]}, "is damaged"),
        ({"valid": None}, "is damaged"),
        ({"epochs": 2, "valid": [0.1, None], "epoch_seconds": 0}, "is damaged"),
        ({"epochs": 2, "valid": [0.1], "epoch_seconds": 1.0}, "is damaged"),
        ({"epochs": 2, "valid": [None, None], "epoch_seconds": 1.0}, "is damaged"),
        ({"epochs": 1, "valid": [0.1], "epoch_seconds": 1.0, "gradient_norm": [-1.0]}, "is damaged"),
        ({"ranks": 5}, "is damaged"),
        ({"machine": None}, "is damaged"),
        ({"machine": MACHINE | {"commit": []}}, "is damaged"),
        ({"machine": MACHINE | {"device": ""}}, "is damaged"),
        ({"before": [5]}, "is damaged"),
        ({"settings": []}, "is damaged"),
        ({"data": {"fingerprint": "another"}}, "sasrec-seed0.json was made on other data than .*popularity-seed0.json"),
        ("{", "is not readable JSON"),
    ],
)
def test_damaged_results_and_those_of_other_data_are_refused_before_anything_runs(finished, change, says, tmp_path):
    for path in finished[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "popularity-seed0.json"
    found = change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change)
    path.write_text(found)
    (tmp_path / "sasrec-seed1.json").unlink()
    with pytest.raises(FileError, match=says):
        carry_out(SMALL, None, tmp_path)
    assert path.read_text() == found


def test_a_model_that_is_trained_has_epochs(finished, tmp_path):
    found = json.loads((finished[0] / "sasrec-seed0.json").read_text())
    assert is_whole(SMALL, found, [])
    assert not is_whole(SMALL, found | {"epochs": 0, "valid": [], "gradient_norm": []}, [])


def test_a_run_on_data_that_changed_since_the_others_is_refused(finished, tmp_path, monkeypatch):
    run_here(monkeypatch)
    (tmp_path / "popularity-seed0.json").write_bytes((finished[0] / "popularity-seed0.json").read_bytes())
    other = replace(SMALL, datasets=SMALL.datasets | {"series": Dataset("series", world=replace(TINY, seed=5))})
    with pytest.raises(FileError, match=r"series has changed since the finished runs in .* were made on"):
        carry_out(other, None, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["popularity-seed0.json"]


def test_a_folder_takes_one_process_at_a_time_and_has_to_be_one(tmp_path, monkeypatch):
    monkeypatch.setattr(running_module, "ProcessPoolExecutor", None)
    with alone_in(tmp_path), pytest.raises(FileError, match=f"another process is at work in {tmp_path}"):
        carry_out(SMALL, None, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=f"cannot write to {tmp_path / 'file'}: "):
        carry_out(SMALL, None, tmp_path / "file")


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    run_here(monkeypatch)
    wrong, other = (Row("heads do not divide", "series", "sasrec", TRAINED | {"heads": h}, seeds=1) for h in (3, 5))
    said, broken = [], replace(SMALL, rows={"wrong": wrong, "popularity": SMALL.rows["popularity"], "other": other})
    with pytest.raises(ValueError, match="not divisible by heads 3"):
        carry_out(broken, None, tmp_path, say=said.append)
    assert any(line.startswith("wrong, seed 0: failed: ") and "heads 3" in line for line in said)
    assert [path.name for path in tmp_path.glob("*.json")] == ["popularity-seed0.json"]


@pytest.mark.parametrize(("epochs", "told"), [(2, None), (3, "ours")])
def test_a_run_that_goes_on_elsewhere_names_both_machines_and_the_pace_of_the_last(epochs, told, monkeypatch, tmp_path):
    """Epochs that a checkpoint brings are another machine's; and of the first one here, a part may be."""

    def stop(history):
        history[0]["seconds"] = 500.0
        os.kill(os.getpid(), signal.SIGINT)

    run_here(monkeypatch)
    row = replace(SMALL.rows["sasrec"], options=TRAINED | {"epochs": epochs}, seeds=1)
    only, work = replace(SMALL, rows={"sasrec": row}), tmp_path / "sasrec-seed0.work"
    work.mkdir()
    (work / "starts.json").write_text(json.dumps([MACHINE | {"device": "GPU"}]))
    with pytest.raises(InterruptedRunError):
        running_module.make_model(row, 0).fit(leave_one_out(TINY.generate()), checkpoint=work / "checkpoint.npz",
                                              progress=False, on_epoch=stop)  # fmt: skip
    carry_out(only, None, tmp_path)
    found = results_of(only, tmp_path)["sasrec"][0]
    assert (found["epochs"], found["before"]) == (epochs, [MACHINE | {"device": "GPU"}])
    assert "device" not in found["machine"]
    assert found["epoch_seconds"] is None if told is None else found["epoch_seconds"] < 100
    assert minutes([found]) == ("" if told is None else "0.0")
    made = make_page(only, {"sasrec": [found]})
    assert "| SASRec | 1, 1 on a GPU |" in made
    assert "Commits, with their runs: " in made
    assert "abc (1)" in made
    assert "GPU beside 2 cores of abacus" in made
    assert not work.exists()


@pytest.mark.parametrize("starts", ["null", '["x"]', "[{}]", '[{"commit": []}]'])
def test_of_damaged_starts_nothing_is_trained_and_of_no_checkpoint_they_say_nothing(starts, tmp_path, monkeypatch):
    run_here(monkeypatch)
    only, work = replace(SMALL, rows={"sasrec": replace(SMALL.rows["sasrec"], seeds=1)}), tmp_path / "sasrec-seed0.work"
    work.mkdir()
    (work / "starts.json").write_text(starts)
    (work / "checkpoint.npz").write_bytes(b"not read")
    with pytest.raises(FileError, match=r"starts.json is damaged: remove .*sasrec-seed0.work, and the run begins anew"):
        carry_out(only, None, tmp_path)
    (work / "checkpoint.npz").unlink()
    (work / "starts.json").write_text(json.dumps([MACHINE | {"device": "GPU"}]))
    carry_out(only, None, tmp_path)
    assert "before" not in results_of(only, tmp_path)["sasrec"][0]


def test_a_machine_is_listed_once_whatever_the_date_and_without_a_checkpoint_alone(tmp_path):
    here, gpu = MACHINE | {"date": "2026-02-02"}, MACHINE | {"device": "GPU"}
    for checkpoint, expected in ((False, [here]), (True, [gpu, here])):
        (tmp_path / "starts.json").write_text(json.dumps([MACHINE, gpu]))
        if checkpoint:
            (tmp_path / "checkpoint.npz").touch()
        assert running_module._starts(tmp_path, here) == expected
        assert json.loads((tmp_path / "starts.json").read_text()) == expected


def test_a_kill_after_the_file_was_written_leaves_no_checkpoint(finished, tmp_path):
    for path in finished[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    work = tmp_path / "sasrec-seed0.work"
    work.mkdir()
    (work / "checkpoint.npz").write_bytes(b"")
    (tmp_path / "sasrec-seed1.json").unlink()
    carry_out(replace(SMALL, rows={"sasrec": SMALL.rows["sasrec"]}), None, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("sasrec*")) == ["sasrec-seed0.json", "sasrec-seed1.json"]


def test_of_a_killed_run_all_that_were_at_work_are_named(tmp_path, monkeypatch):
    def submit(self, *given):
        broken = Future()
        broken.set_exception(BrokenProcessPool())
        return broken

    run_here(monkeypatch)
    monkeypatch.setattr(running_module.ProcessPoolExecutor, "submit", submit)
    with pytest.raises(WorkerKilledError, match="popularity, seed 0 or sasrec, seed 0: a run was killed"):
        carry_out(SMALL, None, tmp_path)


def test_no_more_runs_are_begun_than_go_on_side_by_side(monkeypatch):
    begun = []

    class Pool:
        def submit(self, f, *given):
            begun.append(given)
            done = Future()
            done.set_result(None)
            return done

    monkeypatch.setattr(running_module, "wait", lambda futures, **how: type("", (), {"done": list(futures)[:1]}))
    names = []
    for name, _ in running_module._side_by_side(Pool(), 2, [(str(i), (i,)) for i in range(5)]):
        names.append(name)
        assert len(begun) == min(5, len(names) + 1)
    assert names == ["0", "1", "2", "3", "4"]


# tests that a shell runs in the background have Ctrl-C ignored, and so would their children
LONG = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.experiments.test_running import SMALL, TRAINED, Path
from dataclasses import replace
from tinyattn.experiments import carry_out
row = replace(SMALL.rows["sasrec"], options=TRAINED | {"epochs": 100000, "patience": 0})
carry_out(replace(SMALL, rows={"sasrec": row}), None, Path("OUT"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_goes_on_after_the_command_was_stopped(sent, tmp_path):
    script = LONG.replace("OUT", str(tmp_path / "out"))
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": os.getcwd()}
    )
    ends = time.monotonic() + 60
    while len(checkpoints := list(tmp_path.glob("out/*.work/checkpoint.npz"))) < 2 and time.monotonic() < ends:
        time.sleep(0.1)
    try:
        parent.send_signal(sent)
        assert parent.wait(30) != 0
    finally:
        parent.kill()                                             # with which its workers end
    time.sleep(2)
    before = [path.stat().st_mtime_ns for path in checkpoints]
    time.sleep(3)
    assert len(before) == 2
    assert before == [path.stat().st_mtime_ns for path in checkpoints]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_makes_its_page_before_any_run_and_knows_its_models(name, monkeypatch):
    monkeypatch.setattr(planted, "optimum", lambda world: 0.5)  # which takes a while
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    for each in (experiment, experiment.quick()):
        for key, row in each.rows.items():
            running_module.make_model(row, 0)
            assert "/" not in key
        nothing = results_of(each, Path("nowhere"))
        assert each.title in each.page(each, nothing)
        assert not each.shown(nothing)


FOUND = {"ndcg@10": 0.4, "hr@10": 0.6, "accuracy": 0.9}
RUN = {"metrics": dict.fromkeys(("full", "uni100", "trained", "twice", "longest"), FOUND), "epoch_seconds": 2.0,
       "row": {"seed": 0}, "machine": {}}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, e in EXPERIMENTS.items() if e.pictures and name != "awrsr"])
def test_every_picture_is_drawn_of_the_rows_that_have_been_run(name, monkeypatch):
    monkeypatch.setattr(planted, "optimum", lambda world: 0.5)
    experiment = EXPERIMENTS[name]
    results = {key: [RUN, RUN] * (i % 2) for i, key in enumerate(experiment.rows)}
    for file, picture in experiment.shown(results).items():
        assert draw_picture(picture).axes
        assert f"]({file}.svg)" in "".join(figures(experiment, results))
        assert all(line for rows in picture.panels.values() for line in rows.values())


def test_runs_to_come_take_the_remarks_off_the_page(tmp_path):
    (tmp_path / "remarks.md").write_text("The runs agree.\n")
    density = with_remarks(EXPERIMENTS["density"], tmp_path)
    run = RUN | {"machine": MACHINE, "epochs": 1}
    whole = {key: [run] * len([1 for name, _ in density.runs() if name == key]) for key in density.rows}
    assert "\n\nThe runs agree.\n\nMade by" in page(density, whole, [])
    for unfinished in ({"all-markov": []}, {"all-sasrec": [run]}):
        assert "The runs agree" not in page(density, whole | unfinished, [])
    assert with_remarks(density, tmp_path / "elsewhere") is density


def test_rows_on_data_that_an_experiment_lacks_are_refused():
    with pytest.raises(ValueError, match="experiment small: rows on elsewhere, which it does not have"):
        replace(SMALL, rows={"x": Row("x", "elsewhere", "popularity")})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plante"], "experiment is 'plante', expected one of .*; did you mean planted"),
        (["planted", "--jobs", "0"], "--jobs is 0, expected 1 to 1000"),
        (["planted", "--seeds", "1001"], "--seeds is 1001, expected 1 to 1000"),
        (["planted", "--page", "--jobs", "1000", "--out", "nowhere"], "--page makes the page of runs, and nowhere is "),
        (["planted", "--quick", "--seeds", "2"], "--seeds cannot be given with --quick: a quick look has one seed"),
        (["planted", "--data", "nowhere"], "--data is nowhere, expected a folder"),
        (["density"], r"experiment density is on ml-1m\.txt\.gz: give its folder with --data DIR"),
        (["splits", "--data", "tests"], r"on beauty-5core-time\.txt\.gz, ml-100k\.\S+: tests has none of them"),
    ],
)
def test_what_the_command_refuses(arguments, says, capsys):
    assert main(["reproduce", *arguments]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_the_command_makes_a_page_of_what_there_is(tmp_path, capsys):
    assert main(["reproduce", "full", "--page", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "README.md").read_text() == capsys.readouterr().out.rstrip("\n") + "\n"
    assert main(["reproduce", "full", "--page", "--out", str(tmp_path)]) == 0       # over its own page
    assert main(["reproduce", "sampled", "--page", "--out", str(tmp_path)]) == 2
    assert "README.md is not a page of experiment sampled, and would be overwritten" in capsys.readouterr().err
