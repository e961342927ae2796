"""`--ops`: which functions compute, of every command that has the flag."""

import json
import sys

import pytest

from tests.check.test_substitute import BACKWARD, SOFTMAX, TEXTBOOK, written
from tests.helpers import refuses
from tinyattn.cli import main
from tinyattn.commands import ops, reproduce, train
from tinyattn.forms import is_readable
from tinyattn.ops import softmax

SMALL = ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01", "--epochs", "2", "--heads", "2"]


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """{value of --ops: its run and what was printed}, on the file and with the options of the fixture `runs`."""
    folder = tmp_path_factory.mktemp("ops")
    mine = written(folder, SOFTMAX + BACKWARD)
    for name, words in {"readable": ["readable"], "mine": [mine, "--unchecked"]}.items():
        assert main(["train", str(data), *SMALL, "--ops", *words, "--out", str(folder / name)]) == 0
    return {name: folder / name for name in ("readable", "mine")} | {"file": mine}


def metrics(run):
    return json.loads((run / "metrics.json").read_text())


@pytest.mark.parametrize("name", ["readable", "mine"])
def test_other_functions_train_the_same_model_to_rounding(name, runs, trained):
    fast, other = metrics(runs["sasrec"]), metrics(trained[name])
    assert other["model"]["full"] == pytest.approx(fast["model"]["full"], abs=0.02)


def test_a_run_says_whose_code_each_op_was(data, tmp_path, capsys):
    words = ["train", str(data), *SMALL[:-4], "--epochs", "1", "--out"]
    assert main([*words, str(tmp_path / "fast")]) == 0
    assert "ops: the faster forms; --ops readable computes with the ops as they are read" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "slow"), "--ops", "readable"]) == 0
    assert "ops: the library's readable forms\n" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "own"), "--ops", TEXTBOOK, "--unchecked"]) == 0
    out, err = capsys.readouterr()
    assert "softmax" not in err
    assert f"  softmax_backward          {TEXTBOOK}:15\n" in out
    assert "  all others                the library's readable forms\n" in out


def test_a_run_of_other_code_is_not_gone_on_with(data, trained, capsys):
    """Its configuration has the functions' source: another file, or none, is another run."""
    assert json.loads((trained["mine"] / "config.json").read_text())["ops"].startswith("mine.py (")
    assert "ops" not in json.loads((trained["readable"] / "config.json").read_text())
    refuses(capsys, ["train", data, *SMALL, "--out", trained["mine"]], "was made with --ops mine.py (", "not fast")


@pytest.mark.parametrize("words", [["--ops", "readable"], ["--ops", TEXTBOOK, "--unchecked"]])
def test_what_is_read_runs_in_this_process_unless_workers_are_asked_for(words, data, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("tinyattn.models.trained.train", lambda *_, **how: seen.append(how["workers"]) or 1 / 0)
    for more in ([], ["--workers", "2"]):
        with pytest.raises(ZeroDivisionError):
            main(["train", str(data), *SMALL, *words, *more, "--out", str(tmp_path / "run")])
    assert seen == [1, 2]


@pytest.mark.parametrize("words", [["evaluate"], ["recommend", "--items", "s1e1"]])
def test_a_finished_run_is_asked_with_other_functions(words, runs, trained, capsys):
    command, *more = words
    assert main([command, str(runs["sasrec"]), *more]) == 0
    fast = capsys.readouterr()
    assert main([command, str(runs["sasrec"]), *more, "--ops", trained["file"], "--unchecked"]) == 0
    own = capsys.readouterr()
    assert own.out == fast.out                               # to the digits that are printed
    assert f"softmax           {trained['file']}:3" in own.err
    assert "ops" not in fast.err
    broken = written(runs["sasrec"].parent, "def softmax(s, mask=None): return 1 / 0" + BACKWARD)
    refuses(capsys, [command, runs["sasrec"], *more, "--ops", broken, "--unchecked"], "division by zero (line 2 of")


def test_trace_runs_the_readers_softmax_inside_of_the_librarys_attention(tmp_path, capsys):
    mine = written(tmp_path, SOFTMAX.replace("e = np.exp", "mine = e = np.exp") + BACKWARD)
    words = ["trace", "tinyattn.ops:attention", "--as", "attention"]
    assert main([*words, "--ops", mine, "--unchecked"]) == 0
    assert "mine.py" in capsys.readouterr().err
    assert main([*words, "--ops", "fast"]) == 0
    assert "softmax" in capsys.readouterr().out


def test_reproduce_hands_the_functions_to_its_processes(tmp_path, monkeypatch):
    mine, begun = written(tmp_path, SOFTMAX + BACKWARD), []

    def carry_out(experiment, data, out, *, jobs, begin, **_):
        begun.append((out.name, experiment.seeds, jobs, begin))
        raise ZeroDivisionError

    monkeypatch.setattr(reproduce, "carry_out", carry_out)
    for words in (["--quick"], ["--quick", "--ops", mine, "--unchecked"], ["--seeds", "3", "--jobs", "5"]):
        with pytest.raises(ZeroDivisionError):
            main(["reproduce", "planted", *words])
    assert [what[:3] for what in begun] == [("planted-quick", 1, 2), ("planted-quick-mine", 1, 2), ("planted", 3, 5)]
    begun[1][-1]()                                           # as a process of its own does first
    try:
        assert is_readable()
        assert sys.modules["tinyattn.ops.attention.attention"].softmax is not softmax
    finally:
        ops._for_good.close()
    assert not is_readable()
    assert sys.modules["tinyattn.ops.attention.attention"].softmax is softmax


def test_what_cannot_compute_is_refused(data, tmp_path, capsys):
    words = ["train", data, *SMALL, "--out", tmp_path / "run", "--ops"]
    refuses(capsys, [*words, "readible"], "--ops is 'readible', expected fast, readable, FILE.py or a folder")
    refuses(capsys, [*words, tmp_path / "none.py"], "none.py is no file")
    refuses(capsys, [*words, tmp_path], "is no folder of accepted answers")
    refuses(capsys, [*words, "readable", "--unchecked"], "--unchecked is for --ops FILE.py, and --ops is readable")
    refuses(capsys, [*words, TEXTBOOK, "--device", "gpu"], "take NumPy's arrays: expected --device cpu")
    refuses(capsys, [*words, written(tmp_path, "")], "defines no function, expected")
    assert not (tmp_path / "run").exists()
    assert train.DEFAULT == "sasrec"


def test_wrong_functions_are_refused_with_the_report_of_the_check(data, tmp_path, capsys):
    wrong = written(tmp_path, SOFTMAX + BACKWARD.replace("dp - ", ""))
    words = ["train", data, *SMALL, "--out", tmp_path / "run", "--ops", wrong]
    out = refuses(capsys, words, "softmax of", "mine.py is not right: --unchecked computes with it all the same")
    assert "FAILS" in out
    assert not (tmp_path / "run").exists()
    assert main([str(word) for word in [*words, "--unchecked"]]) == 0
