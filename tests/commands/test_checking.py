"""`tinyattn check`: several targets, a table, properties left out, one dtype, a fast check, annotations."""

import json
import shlex
import textwrap
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from tinyattn import cli
from tinyattn.check import check_implementation, check_in_process, command, report
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.targets import Target, read_table

RELU = "import numpy as np\ndef relu(x):\n    return np.maximum(x, 0)\n"
WRONG = RELU.replace("np.maximum(x, 0)", "np.abs(x)")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right.py").write_text(RELU)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """What the command asks of `check_implementation`, which answers that all is right."""
    calls = []
    right = SimpleNamespace(problem="", failures=[], to_json=lambda: {})
    monkeypatch.setattr(command, "check_implementation", lambda *a, progress, **how: calls.append((*a, how)) or right)
    return calls


def check(*arguments):
    return cli.main(["check", *arguments])


def table(folder, text, header="[tool.tinyattn.check]\n"):
    (folder / "pyproject.toml").write_text(header + text)


def test_several_targets_have_a_report_each_and_the_worst_exit_code(folder, capsys):
    files = ["--html", "page.html", "--junit", "cases.xml"]
    assert check("right.py", "wrong.py:relu", "--as", "relu", "--examples", "2", "--fast", *files) == 1
    first, second = capsys.readouterr().out.split("\n\n", 1)
    assert first.startswith("right.py as relu")
    assert second.startswith("wrong.py:relu as relu")
    assert "<h1>right.py as relu: right" in (page := (folder / "page.html").read_text())
    assert "<h1>wrong.py:relu as relu: wrong" in page
    assert [suite.get("name") for suite in ElementTree.parse("cases.xml").getroot()] == [
        "right.py as relu", "wrong.py:relu as relu"]  # fmt: skip
    assert check("right.py", "nowhere.py", "--as", "relu", "--examples", "2", "--fast", "--json") == 2
    assert [found["verdict"] for found in json.loads(capsys.readouterr().out)] == ["right", "not run"]


def test_a_table_is_checked_where_no_target_is_named(folder, asked, monkeypatch, capsys):
    text = """
        seed = 3
        examples = 9
        "a.py:f" = "relu"
        "pkg.b" = ["gelu", "silu"]
        [tool.tinyattn.check."c.py"]
        as = "softmax"
        skip = ["oracle"]
        xfail = ["large_sizes"]
        dtype = "float32"
    """
    table(folder, text)
    assert check("--examples", "4", "--skip", "derivative") == 0
    how = {"seed": 3, "examples": 4, "skip": ["derivative"]}
    last = how | {"dtype": "float32", "skip": ["oracle", "derivative", "large_sizes"]}
    assert asked == [("a.py:f", "relu", how), ("pkg.b", "gelu", how), ("pkg.b", "silu", how), ("c.py", "softmax", last)]
    asked.clear()
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    assert check("--seed", "0", "--json") == 0
    assert (asked[0][0], asked[0][2]["seed"], asked[0][2]["examples"]) == (f"{folder / 'a.py'}:f", 0, 9)
    assert len(json.loads(capsys.readouterr().out[-60:].partition("[")[1] + "{}, {}, {}, {}]")) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it names no target, expected lines such as"),
        ('"a.py" = "atention"', "'atention' is no kind of implementation; did you mean attention"),
        ('"a.py" = 3', "'a.py' has 3, expected its kind"),
        ('"a.py" = []', "'a.py' has [], expected its kind"),
        ('"a.py" = { examples = 3 }', "'a.py' has no kind, expected its kind: \"a.py\" ="),
        ('a.py = "relu"', "\"a\" = \"attention\", with quotes around a name that has a dot"),
        ('"a.py" = { as = "relu", seed = -1 }', "seed is -1, expected a whole number of at least 0"),
        ('examples = 0\n"a.py" = "relu"', "examples is 0, expected more than 0"),
        ('time_limit = nan\n"a.py" = "relu"', "time_limit is nan, expected more than 0"),
        ('"a.py" = "relu"\n"a.py" = "gelu"', "cannot be read: "),
        ('"a.py" = { as = "relu", skip = ["orcale"] }', "'orcale' is no property of relu; did you mean oracle?"),
        ('"a.py" = { as = "relu", xfail = ["no"] }', "'no' is no property of relu; known: "),
        ('xfail = ["no"]\n"a.py" = ["relu", "gelu"]', "'no' is no property of relu or gelu; known: "),
        ('"a.py" = { as = "relu", skip = "oracle" }', "skip, an option of 'a.py', is 'oracle', expected a list of"),
        ('"a.py" = { as = "relu", exmaples = 3 }', "'exmaples' is no option of 'a.py'; did you mean examples?"),
        ('"a.py" = { as = "relu", dtype = "half" }', "dtype is 'half', expected float32 or float64"),
        ('strict = 1\n"a.py" = "relu"', "strict, an option of all targets, is 1, expected true or false"),
        ('examples = true\n"a.py" = "relu"', "examples, an option of all targets, is True, expected a whole number"),
    ],
)
def test_a_table_that_means_nothing_is_refused(folder, asked, text, says, capsys):
    table(folder, text)
    assert check() == 2
    assert not asked
    message = capsys.readouterr().err
    assert says in message
    assert str(folder / "pyproject.toml") in message


def test_without_a_table_a_target_is_asked_for(folder, asked, capsys):
    table(folder, "[tool.tinyattn]\nother = 1\n", header="")
    assert check() == 2
    assert "there is no table [tool.tinyattn.check] in a pyproject.toml from" in capsys.readouterr().err
    table(folder, "[tool.tinyattn]\ncheck = 3\n", header="")
    assert check() == 2
    assert "[tool.tinyattn.check]: it is 3, expected a table" in capsys.readouterr().err
    assert not asked


def test_a_table_with_a_byte_order_mark_is_read(folder):
    (folder / "pyproject.toml").write_text('[tool.tinyattn.check]\n"a.py" = "relu"\n', "utf-8-sig")
    assert read_table(folder / "pyproject.toml") == [Target("a.py", "a.py", "relu", {})]


def test_a_target_has_options_of_its_own_before_those_of_all(folder):
    table(folder, 'seed = 1\nskip = ["oracle"]\n"a.py" = "relu"\n"b.py" = { as = "gelu", seed = 2, skip = [] }')
    assert read_table(folder / "pyproject.toml") == [
        Target("a.py", "a.py", "relu", {"seed": 1, "skip": ["oracle"]}),
        Target("b.py", "b.py", "gelu", {"seed": 2, "skip": []}),
    ]


def test_a_property_is_left_out_and_the_report_says_so(folder, capsys):
    arguments = ["--seed", "1", "--examples", "2", "--skip", "oracle", "--skip", "derivative", "--fast"]
    assert check("wrong.py", "--as", "relu", *arguments) == 1
    out = capsys.readouterr().out
    assert "left out by --skip: oracle, derivative" in out
    assert "left out by --fast: large_sizes" in out
    again = next(line for line in out.splitlines() if line.startswith("again: "))
    assert shlex.split(again)[3:] == ["wrong.py", "--as", "relu", *arguments]
    assert check("nowhere.py", "--as", "relu", "--skip", "orcale") == 2
    assert "'orcale' is no property of relu; did you mean oracle?" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'gate' is no property of gelu"):
        check_implementation("nowhere.py", "gelu", skip=["gate"])


SINGLE = """
    import numpy as np
    def layer_norm(x, gamma, beta):
        if {np.asarray(a).dtype for a in (x, gamma, beta)} != {np.dtype("float32")}:
            raise TypeError("float32 only")
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred ** 2, -1, keepdims=True) + np.float32(EPS)) * gamma + beta
    def layer_norm_backward(dy, x, gamma):
        from tinyattn import ops
        if dy.dtype != np.float32:
            raise TypeError("float32 only")
        _, x_hat, rstd = ops.layer_norm(x, gamma, gamma, EPS)
        return ops.layer_norm_backward(dy * SLIP, x_hat, rstd, gamma)
"""


def of_text(text, **names):
    scope = dict(names)
    exec("\n".join(line[4:] for line in text.splitlines()), scope)
    return SimpleNamespace(layer_norm=scope["layer_norm"], layer_norm_backward=scope["layer_norm_backward"])


def test_an_implementation_that_takes_float32_alone_is_checked_in_float32():
    """eps, which it has for itself, is found in that precision too."""
    found = check_in_process(of_text(SINGLE, EPS=1e-6, SLIP=1), "layer_norm", examples=6, dtype="float32")
    assert found, found
    assert found.conventions == ("eps is fixed at 1e-6",)
    (left,) = (f for f in found.findings if f.property == "derivative")
    assert (left.outcome, left.message.partition(";")[0]) == ("skipped", "central differences need float64")
    wrong = check_in_process(of_text(SINGLE, EPS=1e-5, SLIP=1.5), "layer_norm", examples=6, dtype="float32")
    assert "exact_gradients" in [f.property for f in wrong.failures]
    assert "float32" in wrong.failures[0].counterexample
    assert "float64" not in wrong.failures[0].counterexample


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["adam", "fused_attention", "causal_model", "ranking", "bce"])
def test_cases_have_the_dtype_that_is_asked_for(kind, dtype):
    """Also where a property makes its own arrays, and where they stand in a tuple."""
    home = SPECS[kind].ours()
    seen = set()

    def watched(f):
        def call(*args, **kwargs):
            parts = [y for x in (*args, *kwargs.values()) for y in (x if isinstance(x, tuple) else (x,))]
            seen.update(str(x.dtype) for x in parts if getattr(x, "dtype", None) is not None and x.dtype.kind == "f")
            return f(*args, **kwargs)

        call.__wrapped__ = f
        return call

    names = [SPECS[kind].function, f"{SPECS[kind].function}_backward", *SPECS[kind].others]
    parts = {name: watched(getattr(home, name)) for name in names if hasattr(home, name)}
    if kind == "causal_model":
        parts = {"forward": watched(lambda x: x.cumsum(1)), "dim": 3}
    found = check_in_process(SimpleNamespace(**parts), kind, examples=3, dtype=dtype)
    assert found, found
    assert seen == {dtype}


def test_a_dtype_that_is_none_is_refused():
    with pytest.raises(ValueError, match="dtype is 'int8', expected float32 or float64"):
        check_in_process(SimpleNamespace(), "relu", dtype="int8")


def test_a_fast_check_leaves_out_what_is_large(folder):
    found = check_implementation("right.py", "relu", fast=True)
    assert found.examples == 6
    slow = {prop.name for prop in properties_of(SPECS["relu"]) if prop.wide or prop.once}
    assert slow == {f.property for f in found.findings if f.message == "left out by --fast"} != set()


def test_a_failure_is_an_annotation_of_its_line(folder, capsys, monkeypatch):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    assert check("wrong.py", "right.py", "--as", "relu", "--examples", "2", "--fast", "--github") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("::error file=wrong.py,line=2,title=tinyattn check%3A wrong.py::FAILS  relu computes")
    assert "%0Asmallest counterexample:%0A    x = " in line
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    assert check("nowhere.py", "--as", "relu", "--github", "--json") == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "not run"
    assert captured.err == "::error title=tinyattn check%3A nowhere.py::relu: nowhere.py is no file\n"
    (folder / "broken.py").write_text("import nothing_of_this_name\n")
    assert check("broken.py:relu", "--as", "relu", "--github") == 2
    place = f"::error file={folder.name}/broken.py,title=tinyattn check%3A broken.py%3Arelu::relu: importing broken.py"
    assert capsys.readouterr().err.startswith(place)
    found = report.Report("relu", "100%, a:b", (), problem="two\nlines, 100%", place=f"{folder}/deep/a.py:7")
    place, title = f"file={folder.name}/deep/a.py,line=7", "title=tinyattn check%3A 100%25%2C a%3Ab"
    assert report.annotation(found) == f"::error {place},{title}::relu: two%0Alines, 100%25"
    assert report.annotation(report.Report("relu", "a", ())) == ""


def test_a_file_of_a_package_may_import_from_it(folder):
    (folder / "pkg" / "parts").mkdir(parents=True)
    for place in ("pkg", "pkg/parts"):
        (folder / place / "__init__.py").write_text("")
    (folder / "pkg" / "limit.py").write_text("floor = 0\n")
    (folder / "pkg" / "parts" / "act.py").write_text("from ..limit import floor\nfrom pkg import limit\n" + RELU)
    assert check_implementation("pkg/parts/act.py", "relu", examples=2, fast=True)


def test_what_a_target_does_stays_in_its_process(folder, capfd):
    wild = """
        import os, threading, time
        print("hello")
        os.chdir("/")
        time.sleep(0.2)
        threading.Thread(target=time.sleep, args=(60,)).start()
    """
    (folder / "wild.py").write_text(textwrap.dedent(wild) + RELU)
    (folder / "gone.py").write_text("import os\nos._exit(0)\n")
    (folder / "patch.py").write_text(WRONG + "np.maximum = np.minimum\n")
    maximum = np.maximum
    assert check("wild.py", "gone.py", "patch.py", "--as", "relu", "--fast") == 2
    assert np.maximum is maximum
    assert Path.cwd() == folder
    out = capfd.readouterr().out
    assert "hello" not in out
    right, gone, patched = out.strip().split("\n\n", 2)
    assert "all hold" in right
    assert gone.endswith("could not run: the process ended by itself, with exit code 0 (it was being imported)")
    assert "np.maximum is replaced" in patched
