"""Answers and what they need, from text."""

import json

import pytest

from tinyattn.course.chapters import chapters
from tinyattn.course.grading.folders import submissions
from tinyattn.course.grading.submission import answer_of, from_text, read_source, read_sources


def needed(name, *cells):
    answer = from_text("x.ipynb", cells).answer(name)
    return answer and (answer.text, answer.asked)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (["a = 1", "f = a", "check('f', f)"], "a = 1\nf = a"),
        (["f = 1", "check('f', f)", "f = 2"], "f = 1"),
        (["f = 1", "check('f', f)", "f = 2", "check('f', f)"], "f = 2"),
        (["def f(): return g()", "def g(): return a", "a = 1", "a = 2", "check('f', f)"],
         "def f():\n    return g()\n\ndef g():\n    return a\na = 2"),
        (["def f(x):\n    e = x\n    return e", "x = 1", "e = 2"], "def f(x):\n    e = x\n    return e"),
        (["n = 3", "f = [i for i in range(n)]", "i = 9"], "n = 3\nf = [i for i in range(n)]"),
        (["f = []", "f.append(1)", "g = []", "g.append(2)"], "f = []\nf.append(1)"),
        (["f = 1", "f += 1"], "f = 1\nf += 1"),
        (["import numpy as np", "np.random.seed(0)", "f = np.zeros(2)", "f[0] = 1"],
         "import numpy as np\nf = np.zeros(2)\nf[0] = 1"),
        (["x = 0", "if x:\n    f = 1\nelse:\n    f = x"], "x = 0\nif x:\n    f = 1\nelse:\n    f = x"),
        (["x = 1", "class C:\n    n = x\n    def m(self): return y", "y = 2", "f = C()"],
         "x = 1\n\nclass C:\n    n = x\n\n    def m(self):\n        return y\ny = 2\nf = C()"),
        (["from numpy import *", "f = zeros(1)"], "from numpy import *\nf = zeros(1)"),
        (["f = 1", "from __future__ import annotations"], "from __future__ import annotations\nf = 1"),
    ],
)  # fmt: skip
def test_an_answer_comes_with_what_it_needs_and_nothing_else(cells, text):
    assert needed("f", *cells)[0] == text


def test_what_is_checked_is_the_answer():
    assert needed("f", "g = 1", "check('f', g + 1, hint=2)") == ("g = 1", "g + 1")
    assert needed("f", "def h():\n    check('f', 1)") is None
    assert needed("f", "# f = 3") is None


def test_a_cell_that_cannot_be_read_costs_its_own_exercise():
    source = from_text("x", ["f = (", "g = 1", "return 1", "check('f', f)"])
    assert "SyntaxError" in answer_of([source], "f")[1]
    assert answer_of([source], "g")[1] == ""


def test_the_first_written_answer_counts():
    sources = [from_text("a", ["f = ..."]), from_text("b", ["f = 2"]), from_text("c", ["f = 3"])]
    assert answer_of(sources, "f")[0].file == "b"
    assert answer_of(sources[:1], "f")[0].is_stub


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("10_sasrec.ipynb", ["10_sasrec.ipynb: its chapter is 12 now"]),
        ("bob/10_sasrec.py", ["bob/10_sasrec.py: its chapter is 12 now"]),
        ("12_sasrec.ipynb", []),
        ("99_mine.ipynb", []),
        ("sasrec.ipynb", []),
    ],
)
def test_a_file_of_an_earlier_number_is_read_and_named(name, says, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    cell = {"cell_type": "code", "source": "f = 1\ncheck('f', f)", "outputs": []}
    (tmp_path / name).write_text("f = 1" if name.endswith(".py") else json.dumps({"cells": [cell]}))
    (source,), problems = read_sources(tmp_path, [name])
    assert (source.answer("f").text, problems) == ("f = 1", says)


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.path.stem)
def test_every_stub_and_every_solution_is_known_as_such(chapter):
    for text, is_stub in ((chapter.unsolved(), True), (chapter.solved(), False)):
        source = from_text(chapter.path.name, [text])
        assert [source.answer(exercise.name).is_stub for exercise in chapter.exercises] == [is_stub] * len(
            chapter.exercises
        )


def test_magics_are_no_python(tmp_path):
    import json

    cells = ["%matplotlib inline\n!pip install x\nf = 1", "%%time\ng = 2", "%%bash\nh = 3", "if True:\n    %timeit f"]
    made = {"cells": [{"cell_type": "code", "source": c.splitlines(keepends=True)} for c in cells]}
    (tmp_path / "a.ipynb").write_text(json.dumps(made))
    source = read_source(tmp_path / "a.ipynb", "a.ipynb")
    assert not source.unread
    assert [source.answer(name) is not None for name in "fgh"] == [True, True, False]


@pytest.mark.parametrize("content", [b"", b"7", b"{}", b'{"cells": 1}', b'{"cells": [{"cell_type": "code"}]}',
                                     b"\xff\xfe", b"[" * 100_000, b'{"cells": [], "metadata": 3}'])  # fmt: skip
def test_what_is_not_a_notebook(tmp_path, content):
    (tmp_path / "a.ipynb").write_bytes(content)
    with pytest.raises(ValueError, match=r"^a\.ipynb is " + ("not " if content else "empty, expected a notebook")):
        read_source(tmp_path / "a.ipynb", "a.ipynb")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.py", b"\xef\xbb\xbfdef f(): return 1\r\n"),  # as Windows' editors write it
        ("a.py", b"# coding: latin-1\n# gr\xf6\xdfe\ndef f(): return 1\n"),
        ("a.py", b'{"cells": [{"cell_type": "code", "source": "def f(): return 1"}]}'),  # a notebook called .py
        ("A.PY", b"def f(): return 1"),
        ("A.IPYNB", b'\xef\xbb\xbf{"cells": [{"cell_type": "code", "source": "def f(): return 1"}]}'),
    ],
)
def test_files_as_other_editors_and_systems_write_them_are_read(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    (one,) = submissions([tmp_path])
    sources, problems = read_sources(tmp_path, list(one.files))
    assert (one.person, problems) == (name[0], [])
    assert answer_of(sources, "f")[0].text == "def f():\n    return 1"


@pytest.mark.parametrize("content", [b"# gr\xf6\xdfe", "f = 1".encode("utf-16"), b"# coding: nothing\nf = 1"])
def test_another_encoding_that_is_not_declared_is_named(content, tmp_path):
    (tmp_path / "a.py").write_bytes(content)
    assert read_sources(tmp_path, ["a.py"]) == ([], ["a.py is not text in UTF-8"])


def test_what_is_packed_is_to_be_unpacked(tmp_path):
    (tmp_path / "amy.ZIP").touch()
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "my work.zip").touch()
    amy, bob = submissions([tmp_path])
    assert amy.problems == ("amy.ZIP is neither a notebook nor Python: unpack amy.ZIP",)
    assert bob.problems == ("it holds no notebook and no Python: unpack my work.zip",)
