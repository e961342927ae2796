"""Accepted answers go on working: in the same process, in later notebooks, or the library's in their place."""

import contextlib
import io
import linecache
from unittest import mock

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.course import check, session, yours
from tinyattn.course.answers import keep, prepare
from tinyattn.course.checking import find
from tinyattn.course.session import recording

FIRST = '''
import numpy as np
from math import prod as product
from tinyattn.course import check

SCALE, PAIR = 1.0, (2, 3)

def summed(x):
    return SCALE * x.sum(axis=-1, keepdims=True) + 0 * product(PAIR)

def my_softmax_backward(dp, p):
    """A reader's."""
    def inner(x):
        return summed(x * p)
    return p * (dp - np.asarray(inner(dp)))

print(check("my_softmax_backward", my_softmax_backward))
'''
SECOND = """
import numpy as np
from tinyattn.course import yours
f = yours("my_softmax_backward")
print(f.__doc__, f(np.ones((2, 3)), np.full((2, 3), 1 / 3)).round(3) + 0.0)
"""


@pytest.fixture(autouse=True)
def few_examples(monkeypatch):
    """How well an answer is graded is another file's matter."""
    monkeypatch.setattr("tinyattn.course.graders.function.EXAMPLES", 2)


def run(code, folder, name="a cell"):
    """What a notebook of this code prints: in a process of its own as far as accepted answers go."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)  # its source is to be had
    printed = io.StringIO()
    with contextlib.chdir(folder), mock.patch.object(session, "_HERE", {}), contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def test_an_accepted_answer_is_used_in_a_later_notebook(tmp_path):
    prepare(tmp_path)
    assert "✓" in run(FIRST, tmp_path)
    kept = tmp_path / "answers" / "my_softmax_backward.py"
    kept.write_text(kept.read_text(), encoding="utf-8-sig")  # saved in an editor that writes a byte order mark
    kept = (tmp_path / "answers" / "my_softmax_backward.py").read_text()
    assert "import numpy as np" in kept
    assert "from math import prod as product" in kept
    assert "PAIR = (2, 3)" in kept
    said = run(SECOND, tmp_path)
    assert said.startswith("my_softmax_backward: yours\nA reader's. [[0. 0. 0.]")


USES = """
from tinyattn.course import check, session, yours
softmax = yours("my_softmax")

def my_attention(q, k, v):
    p = softmax(q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5)
    return p @ v, p

print(check("my_attention", my_attention))
"""


def test_an_answer_that_uses_another_is_kept(tmp_path):
    prepare(tmp_path)
    assert "✓" in run(USES, tmp_path)
    kept = (tmp_path / "answers" / "my_attention.py").read_text()
    assert "import softmax as softmax" in kept  # the library's: no softmax has been accepted
    (tmp_path / "answers" / "my_softmax.py").write_text("from tinyattn.ops import softmax as my_softmax")
    assert "✓" in run(USES, tmp_path)
    assert 'softmax = yours(\'my_softmax\')' in (tmp_path / "answers" / "my_attention.py").read_text()
    assert "my_attention: yours" in run('from tinyattn.course import yours\nyours("my_attention")', tmp_path)


def test_nothing_is_written_where_no_folder_of_answers_is(tmp_path):
    assert "✓" in run(FIRST, tmp_path)
    assert not list(tmp_path.glob("answers*"))
    assert run(SECOND, tmp_path).startswith("my_softmax_backward: the library's, until yours is accepted\n")


THROUGH = "def through(f):\n    def my_softmax_backward(*args): return f(*args)\n    return my_softmax_backward\n"
TWO = "again = summed\n\ndef summed(x):\n    return again(x)\n\ndef my_softmax_backward(dp, p):\n    again(dp)\n"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("SCALE, PAIR = 1.0, (2, 3)", "SCALE, PAIR = np.ones(1), (2, 3)", "it uses `SCALE`, which is no function"),
        ("def my_softmax", "@(lambda f: lambda *args: f(*args))\ndef my_softmax", "it is not written as a function"),
        ("def my_softmax", f"{THROUGH}\n@through\ndef my_softmax", "`my_softmax_backward` is made by another function"),
        ("def my_softmax_backward(dp, p):\n", TWO, "`summed` means two things in it"),
    ],
)
def test_what_has_no_source_is_right_and_not_kept(tmp_path, old, new, why):
    prepare(tmp_path)
    (tmp_path / "answers" / "my_softmax_backward.py").write_text("an earlier answer")
    said = " ".join(run(FIRST.replace(old, new), tmp_path).split())
    assert "✓" in said
    assert f"It is kept in this process only: {why}" in said
    assert "Later notebooks use your earlier answer." in said
    assert (tmp_path / "answers" / "my_softmax_backward.py").read_text() == "an earlier answer"


ODD = {
    "a default": ("SCALE, PAIR = 1.0", "AXIS = -1\nSCALE, PAIR = 1.0", "def summed(x):", "def summed(x, axis=AXIS):"),
    "an attribute's name": ("SCALE, PAIR", "sum = np.ones(1)\nSCALE, PAIR", "", ""),
    "an annotation": ("SCALE, PAIR", "KIND = 3\nSCALE, PAIR", "def summed(x):", "def summed(x) -> KIND:"),
    "an alias": ("def my_soft", "again = summed\n\ndef my_soft", "return summed(", "return again("),
    "a class": ("SCALE, PAIR", "class A:\n    def one(self): return 1\n\nSCALE, PAIR",
                "return p *", "return A().one() * p *"),
    "a cache": ("SCALE, PAIR", "from functools import lru_cache\n\n@lru_cache\ndef one(n): return n\n\nSCALE, PAIR",
                "return p *", "return one(1) * p *"),
    "a lambda": ("SCALE, PAIR", "one = lambda: 1\nSCALE, PAIR", "return p *", "return one() * p *"),
    "a builtin's name": ("SCALE, PAIR", "def abs(x): return x\n\nSCALE, PAIR", "return p *", "return abs(1) * p *"),
    "infinity": ("SCALE, PAIR = 1.0", "LOW = -np.inf\nSCALE, PAIR = 1.0", "0 * product", "max(LOW, 0) * product"),
}


@pytest.mark.parametrize("what", ODD)
def test_what_an_answer_uses_is_kept_with_it(tmp_path, what):
    prepare(tmp_path)
    one, other, two, another = ODD[what]
    said = run(FIRST.replace(one, other, 1).replace(two, another, 1), tmp_path)
    assert "✓" in said
    assert "kept in this process only" not in said
    assert run(SECOND, tmp_path).startswith("my_softmax_backward: yours\n")


SHADOWED = """
import math
import numpy as np
from tinyattn.course import check

@np.vectorize
def sqrt(x):
    return 1.0

def my_softmax_backward(dp, p):
    return p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * sqrt(2.0)

print(check("my_softmax_backward", my_softmax_backward))
"""


def test_what_reads_back_as_another_function_is_not_kept(tmp_path):
    prepare(tmp_path)
    said = run(SHADOWED, tmp_path)
    assert "✓" in said
    assert "kept in this process only" in said
    assert run(SECOND, tmp_path).startswith("my_softmax_backward: the library's")


def test_what_changes_later_does_not_change_what_was_accepted(tmp_path):
    prepare(tmp_path)
    changed = FIRST + """
SCALE = -7.0
from tinyattn.course import yours
print(yours("my_softmax_backward")(np.ones((1, 2)), np.full((1, 2), 0.5)))
"""
    assert run(changed, tmp_path).rstrip().endswith("[[0. 0.]]")


@pytest.mark.parametrize("obstacle", ["a folder", "read-only"])
def test_an_answer_that_cannot_be_written_is_right(tmp_path, obstacle):
    prepare(tmp_path)
    if obstacle == "a folder":
        (tmp_path / "answers" / "my_softmax_backward.py").mkdir()
    else:
        (tmp_path / "answers").chmod(0o500)
    said = run(FIRST, tmp_path)
    (tmp_path / "answers").chmod(0o700)
    assert "✓" in said


def test_an_answer_made_of_itself_is_refused():
    with recording():
        verdict = check("my_softmax_backward", lambda dp, p: yours("my_softmax_backward")(dp, p))
        assert not verdict
        assert "it would be made of itself" in " ".join(str(verdict).split())


def test_a_file_that_cannot_be_used_is_said(tmp_path):
    prepare(tmp_path)
    (tmp_path / "answers" / "my_softmax_backward.py").write_text("def my_softmax_backward(")
    said = run(SECOND, tmp_path)
    assert "the library's, since answers/my_softmax_backward.py" in said
    assert "cannot be used (SyntaxError: '(' was never closed" in said
    for text in ("my_softmax_backward = 3", "import sys; sys.exit()", "", "raise ValueError('two\\nlines')"):
        (tmp_path / "answers" / "my_softmax_backward.py").write_text(text)
        said = run(SECOND, tmp_path)
        assert said.startswith("my_softmax_backward: the library's, since answers/"), text
        assert len(said.split("\n")) < 40


def in_place_and_as_lists(dp, p):
    dp -= (dp * p).sum(axis=-1, keepdims=True)
    return (dp * p).tolist()


def test_in_one_process(capsys):
    def mine(dp, p):
        return ops.softmax_backward(dp, p)

    with recording():
        assert yours("my_softmax_backward") is ops.softmax_backward
        assert not check("my_softmax_backward", lambda dp, p: dp)
        assert yours("my_softmax_backward") is ops.softmax_backward
        assert check("my_softmax_backward", mine)
        assert yours("my_softmax_backward").__wrapped__ is mine
        assert check("my_softmax_backward", in_place_and_as_lists)
        x = np.ones((2, 3))
        dx = yours("my_softmax_backward")(x, x)
        assert isinstance(dx, np.ndarray)
        assert np.array_equal(x, np.ones((2, 3)))
    with recording():
        assert yours("my_softmax_backward") is ops.softmax_backward
    assert capsys.readouterr().out.split("\n")[-2] == "my_softmax_backward: the library's, until yours is accepted"
    out, p = yours("my_attention")(np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 1)))
    assert (out.shape, p.shape) == ((1, 1), (1, 3))
    assert len(yours("my_attention_backward")(out, np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 1)), p)) == 3


def test_checking_a_chapter_writes_no_answers(tmp_path):
    prepare(tmp_path)
    with contextlib.chdir(tmp_path), recording() as verdicts:
        assert keep(find("my_softmax_backward"), in_place_and_as_lists) == ""
        with recording() as inner:
            assert yours("my_softmax_backward") is ops.softmax_backward
            check("zero_query", 7)
        assert yours("my_softmax_backward").__wrapped__ is in_place_and_as_lists
        check("zero_query", 6)
    assert [[bool(verdict) for verdict in some] for some in (verdicts, inner)] == [[False], [True]]
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["README.txt"]


def test_only_functions_can_be_used_further():
    with pytest.raises(ValueError, match="score_std asks for a number, and only functions can be used in later cells"):
        yours("score_std")
    with pytest.raises(ValueError, match="knows_the_scale asks for a property"):
        yours("knows_the_scale")
    with pytest.raises(ValueError, match="no exercise is called 'attention'"):
        yours("attention")
