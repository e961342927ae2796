"""The benchmark of kills, races and broken files: what it takes for a failure, and the page of its results."""

import json
import random

from benchmarks import robustness
from benchmarks.robustness import KINDS, RESULT, difference, guarded


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


def test_there_were_many_tries_and_no_failure():
    result = json.loads(RESULT.read_text())
    tries, failed = robustness.total(result)
    assert tries >= 5_000
    assert failed == 0
    assert result["kinds"]["kills"]["tries"] >= 100
    assert result["kinds"]["races"]["tries"] >= 200
