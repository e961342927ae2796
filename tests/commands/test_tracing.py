"""`tinyattn trace`: a function of one's own or of the library, as a table or as a page."""

import re
from pathlib import Path
from typing import Any

import pytest

from tinyattn.cli import main
from tinyattn.commands import trace as tracing
from tinyattn.show import recorder

MINE = """
import numpy as np

def my_softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def my_softmax_backward(dp, p):
    return p * (dp - (dp * p).sum(-1, keepdims=True))
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


def test_a_table_of_ones_own_function_and_of_its_backward(mine: str, capsys: Any) -> None:
    assert main(["trace", f"{mine}:my_softmax", "--as", "softmax"]) == 0
    said = capsys.readouterr().out
    assert "e = np.exp(s - s.max(-1, keepdims=True))" in said
    assert "return p * (dp - (dp * p).sum(-1, keepdims=True))" in said


def test_a_page(mine: str, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "page.html"
    asked = ["trace", f"{mine}:my_softmax", "--as", "softmax", "--html", str(out), "--steps", "1-3"]
    assert main(asked) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert "my_softmax, as softmax, seed 0" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--as", "softmix"], "'softmix' is no kind of implementation"),
        (["--as", "linear"], "`my_softmax` takes 1 argument, expected 2: x, W"),
        (["--as", "softmax", "--seed", "-1"], "--seed is -1, expected at least 0"),
        (["--as", "softmax", "--steps", "1-3"], "--steps is for a page or an animation: give --html OUT or --gif"),
        (["--as", "softmax", "--html", "mine.py/x.html"], "cannot be written"),
        (["--as", "softmax", "--html", "mine.py"], "which is read: expected another one to write to"),
        (["--as", "softmax", "--gif", "x.png"], "--gif x.png is an animation, expected a name that ends in .gif"),
        (["--as", "softmax", "--html", "x.html", "--steps", "1-99"], "steps 1-99 are not there"),
    ],
)
def test_refusals(mine: str, tmp_path: Path, monkeypatch: Any, capsys: Any, more: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trace", f"{mine}:my_softmax", *more]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("g = lambda: 1 / 0\n    return g()", "own.py:2 raised ZeroDivisionError: division by zero"),
        ("raise KeyError('x')", "own.py:2 raised KeyError: 'x'"),
        ("return f(s)", "raised RecursionError: maximum recursion depth"),
        ("return s.reshape(7)", "own.py:2 raised ValueError: cannot reshape"),
        ("while True: pass", "own.py:f did not return within 0.2 seconds"),
    ],
)
def test_a_function_that_raises_or_does_not_return_is_one_line(
    tmp_path: Path, monkeypatch: Any, capsys: Any, body: str, says: str
) -> None:
    monkeypatch.setattr(tracing, "LIMIT", 0.2 if "while" in body else 60)
    (tmp_path / "own.py").write_text(f"def f(s):\n    {body}\n")
    assert main(["trace", f"{tmp_path / 'own.py'}:f", "--as", "softmax"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_what_is_too_large_is_refused_before_the_work(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert recorder.STEPS == 100_000
    monkeypatch.setattr(recorder, "STEPS", 20_000)
    slow = MINE.replace("    e = ", "    for i in range(LOOPS):\n        t = i * 0.5\n    e = ")
    cases = [
        (6_000, "--html", "page holds 300,000 numbers and 5,000 steps: steps 0-4999 would fit .*--steps A-B"),
        (6_000, "--gif", r"steps 0-600\d are 6,00\d pictures, and an animation has at most 400: steps 0-399 would fit"),
        (10**9, "--html", r"more than 20,000 steps after step 19999 \(my_softmax.t\): trace a smaller input"),
    ]
    for loops, flag, says in cases:
        (tmp_path / "slow.py").write_text(slow.replace("LOOPS", str(loops)))
        assert main(["trace", "slow.py:my_softmax", "--as", "softmax", flag, f"out.{flag[2:]}"]) == 2
        assert re.search(says, capsys.readouterr().err)
    assert not list(tmp_path.glob("out.*"))


def test_steps_that_are_no_pair(mine: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["trace", f"{mine}:my_softmax", "--as", "softmax", "--html", "x.html", "--steps=-1"])
    assert "'-1' is no pair of steps, expected A-B as in 0-40" in capsys.readouterr().err
