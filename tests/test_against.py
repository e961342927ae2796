"""A training step beside another commit's: what is computed from the figures, and both checkouts at work."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from math import comb

import pytest

from benchmarks import against, training_step
from benchmarks.machine import ROOT
from benchmarks.peers import work
from tests.helpers import MACHINE
from tests.test_training_step import TINY

AS_BEFORE = [100.0, 102.0, 101.0, 100.5, 101.5]


def side(commit, seconds, peak):
    same = {"seed": 0, "loss": 1.385, "norm": 0.25, "idle": [0.001], "pools": [{"internal_api": "openblas"}]}
    return {"commit": commit, "seconds": seconds, "peak": peak} | same


def made_up(slower=1.0, peak=tuple(AS_BEFORE), spread=0.01):
    """Fifteen rounds, of which all but a few are `slower` times as long as theirs."""
    theirs = [0.1 + 0.01 * (i % 4) for i in range(15)]
    ours = [t * (slower + spread * (i % 3 - 1)) for i, t in enumerate(theirs)]
    options = {"rounds": 15, "sitting": 3, "seed": 0, "lengths": "drawn"}
    row = {"title": "made up", "machine": MACHINE, "options": options}
    return row | {"ours": side("abc", ours, list(peak)), "theirs": side("def", theirs, AS_BEFORE)}


@pytest.mark.parametrize("n", [1, 2, 5, 6, 9, 12])
def test_the_interval_is_that_of_all_tosses(n):
    """Of all ways to lie above or below a median, so many put it between the ends."""
    values = [float(i) for i in range(n)]
    low, high, sure = against.interval(list(reversed(values)))
    below = [sum(toss) for toss in product((0, 1), repeat=n)]  # how many values lie below the median
    within = sum(low < count <= high for count in below)
    assert sure == pytest.approx(within / 2**n)
    assert sure >= 0.95 or (low, high) == (values[0], values[-1])
    if low + 1 <= high - 1:  # and one step further in is too narrow, or was not sure enough
        assert sum(low + 1 < count <= high - 1 for count in below) / 2**n < 0.95


def test_fifteen_rounds_leave_out_three_at_each_end():
    low, high, sure = against.interval([float(i) for i in range(15)])
    assert (low, high) == (3.0, 11.0)
    assert sure == pytest.approx(1 - 2 * sum(comb(15, k) for k in range(4)) / 2**15)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (made_up(), "holds"),
        (made_up(1.10), "**does not hold**"),
        (made_up(1.02, spread=0.05), "holds, but the interval also includes the opposite: run more rounds"),
        (made_up(1.04, spread=0.05), "**does not hold**, but the interval also includes the opposite: run more rounds"),
        (made_up(peak=[103.0, 105.0, 104.0, 103.5, 104.5]), "**does not hold**"),
        (made_up(peak=[100.1, 102.1, 101.1, 100.6, 101.6]), "holds"),  # by a thousandth
        (made_up(peak=[99.0, 105.0, 104.0, 103.5, 104.5]), "holds"),  # once it was less
    ],
    ids=["same", "slower", "hardly", "hardly not", "larger", "a little larger", "not always larger"],
)
def test_the_verdict_follows_from_the_figures(row, words):
    assert against.verdict_text(against.judged(row)) == words


def test_the_page_says_what_the_results_say():
    page = against.page({"A": made_up(1.5)})
    assert "Ours is commit abc, theirs def." in page
    figures = "| A | 166.1 | 110.0 | 1.500 | 1.490 to 1.510 | 101.0 | 101.0 | 1.000 (1.000 to 1.000) |"
    assert f"{figures} **does not hold** |" in page
    assert "| at most 3 % slower, memory not above |" in page
    assert "15 rounds, 5 pairs of processes: the intervals of time are 96.5 % sure, those of memory 93.8 %" in page


def test_the_verdicts_are_those_of_the_results():
    result = json.loads(against.RESULT.read_text())
    assert all(row["verdict"] == against.judged(row) for row in result.values())


def report(**other):
    given = {"losses": [1.5, 1.25], "norms": [[1e-17, 0.25, 2.0], [0.0, 0.5, 3.0]], "dropout": 0.2, "threads": 2}
    return given | other


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({}, None),
        ({"losses": [1.5 + 1e-12, 1.25], "norms": [[3e-17, 0.25, 2.0], [1e-18, 0.5, 3.0]]}, None),
        ({"losses": [1.5, 1.2501]}, "the loss of batch 1 is 1.25 here, 1.2501 there"),
        ({"losses": [1.5]}, "2 batches here, 1 there"),
        ({"norms": [[0.0, 0.2501, 2.0], [0.0, 0.5, 3.0]]}, "a gradient of batch 0 has norm 0.25 here, 0.2501 there"),
        ({"norms": [[0.25, 2.0], [0.5, 3.0]]}, "3 gradients here, 2 there"),
        ({"dropout": 0.5}, "dropout 0.2 here, 0.5 there"),
    ],
    ids=["same", "rounding", "loss", "batches", "norm", "gradients", "dropout"],
)
def test_other_work_is_named(other, words):
    assert against.difference(report(), report(**other)) == words


def test_rows_of_other_commits_or_options_are_left_out(capsys):
    row = made_up()
    now = {"ours": "abc", "theirs": "def", "machine": MACHINE, "options": row["options"]}
    assert against.kept({"A": row}, now) == {"A": row}
    assert against.kept({"A": row}, now | {"theirs": "012"}) == {}
    assert against.kept({"A": row}, now | {"machine": now["machine"] | {"cpu_model": "25/17"}}) == {}
    assert against.kept({"A": row}, now | {"options": row["options"] | {"rounds": 30}}) == {}
    assert "different: theirs" in capsys.readouterr().err


def test_work_of_a_commit_without_given_is_the_same(tmp_path, monkeypatch):
    """Commits before training_step had `given`: the same batches and weights, made step by step."""
    now = work.make(training_step, TINY, tmp_path / "now", None)
    monkeypatch.delattr(training_step, "given")
    assert work.make(training_step, TINY, tmp_path / "before", None) == now
    assert (tmp_path / "before" / "given.pickle").exists()


needs_git = pytest.mark.skipif(
    shutil.which("git") is None
    or subprocess.run(["git", "rev-parse", "--verify", "HEAD"], cwd=ROOT, capture_output=True).returncode != 0,
    reason="not a checkout",
)


def call(*words):
    file = ROOT / "benchmarks" / "training_step.py"
    return subprocess.run([sys.executable, str(file), *words], cwd=ROOT, capture_output=True, text=True)


@needs_git
def test_an_unknown_commit_is_named_in_one_sentence():
    done = call("--against", "no-such-commit")
    assert done.returncode == 1
    assert done.stderr.startswith("--against no-such-commit: expected a commit of this repository")
    assert done.stderr.count("\n") == 1


def test_against_takes_no_other_contenders():
    done = call("--against", "HEAD", "--contenders", "jax")
    assert done.returncode == 2
    assert "expected no --contenders" in done.stderr


@needs_git
@pytest.mark.slow
def test_both_checkouts_train_on_their_own_code(tmp_path):
    with against.both("HEAD") as sides:
        ours, theirs = sides
        assert theirs.root != ROOT
        assert str(theirs.root) in against.git("worktree", "list")
        found = against.measure(sides, "tests.test_training_step:TINY", 2, None)
        with pytest.raises(SystemExit, match=f"{theirs.commit} could not make the batches of X"):
            theirs.work("X", tmp_path, None)
        with pytest.raises(SystemExit, match="could not make"):  # modules of another place than it says
            replace(ours, settings={"PYTHONPATH": str(theirs.root)}).work("A", tmp_path, None)
    assert str(theirs.root) not in against.git("worktree", "list")
    assert not theirs.root.exists()
    for row in found.values():
        assert len(row["seconds"]) == 2
        assert row["peak"][0] > 0
        assert row["check"]["agrees"]
    assert found["ours"]["loss"] == pytest.approx(found["theirs"]["loss"])


@needs_git
def test_nothing_is_measured_where_the_work_differs(monkeypatch):
    monkeypatch.setattr(against.Side, "work", lambda side, *_: report(losses=[float(side.name == "ours")]))
    sides = against.Side("ours", ROOT, "abc"), against.Side("theirs", ROOT, "def")
    with pytest.raises(SystemExit, match="abc and def do different work: the loss of batch 0 is 1 here, 0 there"):
        against.measure(sides, "A", 1, None)
