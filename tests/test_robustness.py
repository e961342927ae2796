"""The benchmark of kills, races and broken files: what it takes for a failure, and the page of its results."""

import json
import os
import random
import signal
import time

import pytest
from tqdm import tqdm

from benchmarks import attacks, robustness
from benchmarks.attacks import ATTACKS, Said, Try, apart
from benchmarks.robustness import EPOCHS, KINDS, RESULT, Fork, difference, guarded, killed, training
from tinyattn.commands.measures import MEASURES


def failures(name, folder, tries):
    return [wrong for wrong in KINDS[name].run(folder, tries, random.Random(1)) if wrong]


def test_files_are_compared_to_the_byte(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.npz").write_bytes(b"12")
    assert not difference(tmp_path / "a", tmp_path / "b", ("model.npz",))
    (tmp_path / "a" / "left").touch()
    assert difference(tmp_path / "a", tmp_path / "b", ("model.npz",)) == "there is, or is missing: left"
    (tmp_path / "a" / "model.npz").write_bytes(b"13")
    assert "model.npz is another" in difference(tmp_path / "a", tmp_path / "b", ("model.npz",))


def test_what_raises_is_a_failure():
    def fail():
        raise ZeroDivisionError("by 0")

    assert guarded("x", fail).startswith("x: ZeroDivisionError at test_robustness.py:")
    assert guarded("x", lambda: "another answer") == "x: another answer"
    assert guarded("x", str) == ""


def test_a_checker_that_accepts_lies_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(robustness, "WAYS", {"is right": "pass"})
    assert "it is accepted" in failures("learners", tmp_path, 1)[0]


@pytest.mark.slow(seconds=1)
def test_a_worker_that_dies_hangs_or_prints_is_the_failure_of_its_try(monkeypatch):
    monkeypatch.setattr(attacks, "PATIENCE", 1)
    tries = {
        "": lambda: "", "a: wrong": lambda: "wrong", "b: its process ended with -9": lambda: os.kill(os.getpid(), 9),
        "c: no end within 1 s": lambda: time.sleep(60), "d: ZeroDivisionError": lambda: 1 / 0,
        "e: standard error has b'x'": lambda: os.write(2, b"x") and "", "f: MemoryError": lambda: bytes(1 << 40) and "",
    }  # fmt: skip
    found = list(apart([Try(says[:1], wrong) for says, wrong in tries.items()]))
    assert len(found) == len(tries)
    for says, text in zip(tries, found, strict=True):
        assert text.startswith(says) if says else not text


def test_how_a_command_may_end():
    line = "tinyattn: no\n"
    for said in (("train", 0, ""), ("train", 2, line), ("train", 2, f"epoch 1\nnote: x\n{line}"), ("collect", 1, "")):
        assert not Said(said[0], said[1], "", said[2]).wrong
    for code, err in ((1, ""), (2, ""), (2, "Traceback\n" + line), (2, "no\n"), (0, "RuntimeWarning: x\n"), (130, ""),
                      (2, f"tinyattn: {'x' * 2000}")):  # fmt: skip
        assert Said("train", code, "", err).wrong


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in ATTACKS])
def test_a_few_tries_of_each_attack(name, tmp_path, monkeypatch):
    for package in KINDS[name].needs:
        pytest.importorskip(package)
    monkeypatch.setattr(tqdm, "monitor_interval", 0)
    assert failures(name, tmp_path, 8) == []


@pytest.mark.slow(seconds=2)
@pytest.mark.parametrize("name", EPOCHS)
def test_a_killed_training_of_these_models_ends_with_the_same_bytes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # its thread might hold a lock while this process forks
    monkeypatch.setitem(robustness.KILLED, "a worker", signal.SIGKILL)
    for measure in MEASURES.values():
        monkeypatch.setattr(type(measure), "draw", lambda *_: None)
    assert [wrong for wrong in killed(training(name, tmp_path, 3), tmp_path, 2, random.Random(0)) if wrong] == []


def test_ctrl_c_at_the_first_moment_of_a_fork_ends_the_fork_alone(tmp_path):
    """Once a KeyboardInterrupt left the child through pytest's own frames, and pytest ended instead."""
    codes = set()
    for pause in (0, 0, 0.0005, 0.001, 0.002, 0.004):
        fork = Fork(["page", "sasrec"], tmp_path / "log")
        time.sleep(pause)
        fork.send(signal.SIGINT)
        assert fork.ended(60)
        assert "Traceback" not in fork.printed()
        codes.add(fork.code)
    assert codes <= {0, 130}


def test_there_were_many_tries_and_no_failure():
    result = json.loads(RESULT.read_text())
    tries, failed = robustness.total(result)
    assert tries >= 8_000
    assert failed == 0
    assert result["kinds"]["kills"]["tries"] >= 100
    assert result["kinds"]["races"]["tries"] >= 200
