"""The plugin of pytest: a table of pyproject.toml and targets of the command line as tests, in runs of their own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tinyattn import pytest_plugin
from tinyattn.check.isolation import alarm
from tinyattn.check.plugin import contained
from tinyattn.check.specs import SPECS, properties_of

ROOT = Path(__file__).parents[2]
RELU = "import numpy as np\ndef relu(x):\n    return np.maximum(x, 0)\n"
WRONG = RELU.replace("np.maximum(x, 0)", "np.abs(x)")
NAMES = [prop.name for prop in properties_of(SPECS["relu"])]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write files of a repository, the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())

    def write(table="", ini='testpaths = ["tests"]', **files):
        pyproject = f"[tool.pytest.ini_options]\n{ini}\n" + (f"[tool.tinyattn.check]\n{table}\n" if table else "")
        files = {"pyproject.toml": pyproject, "tests/test_one.py": "def test_one(): pass\n"} | files
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(textwrap.dedent(text))

    return write


def run(*arguments):
    """Run pytest in this process. -> its exit code, {test: (outcome, text)} by name, as its XML has them."""
    fixed = ["-p", "no:tinyattn", "-p", "no:cacheprovider", "-p", "no:randomly", "--junitxml=found.xml"]
    modules = set(sys.modules)
    code = pytest.main([*arguments, *fixed], plugins=[pytest_plugin])
    for name in set(sys.modules) - modules:
        if not name.startswith(("numpy", "tinyattn")):
            del sys.modules[name]  # of this folder
    found = {}
    if Path("found.xml").exists():
        for case in ElementTree.parse("found.xml").iter("testcase"):
            part = next(iter(case), None)
            outcome = ("passed", "") if part is None else (part.tag, f"{part.get('message')}\n{part.text}")
            found[case.get("name")] = outcome
    return int(code), found


def test_every_property_of_a_table_is_a_test(project):
    project('"mypkg/act.py:relu" = { as = "relu", examples = 3 }', **{"mypkg/act.py": WRONG})
    code, found = run()
    assert code == 1
    assert sorted(found) == sorted(["test_one", *(f"relu[{name}]" for name in NAMES)])
    outcome, text = found["relu[oracle]"]
    assert outcome == "failure"
    assert "FAILS  relu computes what plain loops compute" in text
    assert "smallest counterexample:\n    x = " in text
    assert "mypkg/act.py:2: relu: y" in text
    assert "Traceback" not in text
    assert found["relu[derivative]"][0] == "skipped"
    assert "it has no `relu_backward`" in found["relu[derivative]"][1]
    assert found["relu[shape_and_dtype]"][0] == "passed"


@pytest.mark.parametrize(
    ("arguments", "tests"),
    [
        (["pyproject.toml"], [f"relu[{name}]" for name in NAMES]),
        (["tests"], ["test_one"]),
        (["-k", "act and oracle"], ["relu[oracle]"]),
        (["-m", "not tinyattn"], ["test_one"]),
        (["pyproject.toml::act.py::relu[oracle]", "tests"], ["relu[oracle]", "test_one"]),
        (["."], ["relu[oracle]", "test_one"]),
    ],
)
def test_what_is_asked_for_is_collected(project, arguments, tests):
    project('"act.py" = { as = "relu", examples = 1 }', **{"act.py": RELU})
    more = ["-k", "oracle or one"] if arguments == ["."] else []
    assert run(*arguments, *more) == (0, dict.fromkeys(tests, ("passed", ""))) or arguments == ["pyproject.toml"]
    assert list(run(*arguments, *more)[1]) == tests


def test_a_target_of_the_command_line_is_tested_alone_or_with_what_is_named(project):
    project(**{"act.py": RELU})
    named = ["--tinyattn", "act.py:relu", "--tinyattn-as", "relu", "-k", "oracle or one"]
    assert list(run(*named)[1]) == ["relu[oracle]"]
    assert list(run(*named, "tests")[1]) == ["test_one", "relu[oracle]"]
    assert list(run(*named, "--tinyattn", "act.py")[1]) == ["relu[oracle]"]
    assert run("--tinyattn", "act.py")[0] == pytest.ExitCode.USAGE_ERROR
    assert run("--tinyattn-as", "relu")[0] == pytest.ExitCode.USAGE_ERROR


def test_marks_of_the_table(project):
    table = '"act.py" = { as = ["relu", "root_elu"], xfail = ["oracle"], skip = ["repeatable"], fast = true }'
    both = WRONG + "def root_elu(x): return np.where(x < 0, np.exp(x / 2), np.sqrt(np.abs(1 + x)))\n"
    project(table, **{"act.py": both})
    _, found = run("pyproject.toml", "-k", "oracle or repeatable or large_sizes or own_memory")
    assert found["relu[oracle]"][0] == "skipped"
    assert "xfail in pyproject.toml" in found["relu[oracle]"][1]
    assert found["root_elu[oracle]"] == ("passed", "")
    for name, reason in (("repeatable", "skip in pyproject.toml"), ("large_sizes", "left out by fast")):
        assert reason in found[f"relu[{name}]"][1]
    assert found["relu[own_memory]"] == ("passed", "")
    project(table, ini="xfail_strict = true", **{"act.py": both})
    assert "XPASS(strict)" in run("pyproject.toml", "-k", "root_elu and oracle")[1]["root_elu[oracle]"][1]


@pytest.mark.parametrize(
    ("table", "files", "says"),
    [
        ('"act.py" = "rleu"', {}, "'rleu' is no kind of implementation; did you mean relu"),
        ('"nowhere.py" = "relu"', {}, "nowhere.py as relu: nowhere.py is no file"),
        ('"act.py:rule" = "relu"', {"act.py": RELU}, "act.py:rule as relu: act.py has no `rule`; it has: np, relu"),
        ('"act.py" = "gelu"', {"act.py": RELU}, "act.py as gelu: it has no `gelu`, only relu"),
        ('"act.py" = "relu"', {"act.py": "import sys\nsys.exit(0)"}, "importing act.py raised SystemExit"),
        ('"act.py" = "relu"', {"act.py": "import os\nos._exit(0)"}, "importing act.py raised SystemExit: os._exit(0)"),
        ('"act.py" = { as = "relu", skip = ["gaet"] }', {}, "'gaet' is no property of relu; did you mean gate"),
        ('"act.py" = "relu"\n"act.py" = "gelu"', {}, ""),
    ],
)
def test_a_wrong_table_is_an_error_of_collection(project, table, files, says, capsys):
    project(table, **files)
    code, _ = run()
    printed = "".join(capsys.readouterr())
    assert says in printed
    assert code == (pytest.ExitCode.INTERRUPTED if says else pytest.ExitCode.USAGE_ERROR)  # no TOML: pytest says so


def test_a_target_that_replaces_numpys_functions_is_an_error(project, monkeypatch, capsys):
    monkeypatch.setattr(np, "exp", np.exp)  # as it was, afterwards
    project('"act.py" = "relu"', **{"act.py": RELU + "np.exp = relu\n"})
    assert run()[0] == pytest.ExitCode.INTERRUPTED
    assert "importing it replaced np.exp for every test of this process; check it in" in capsys.readouterr().out


def test_a_target_that_exits_warns_prints_or_changes_the_folder_harms_no_test(project, tmp_path):
    text = """
        import os, sys, threading, warnings
        import numpy as np
        os.chdir("/")
        def relu(x):
            print("hello")
            os.chdir("/")
            warnings.warn("so what")
            threading.Thread(target=print).start()
            if x.size in (3, 4):
                os._exit(0)
            return np.maximum(x, 0)
    """
    project('"act.py" = { as = "relu", examples = 9 }', ini='filterwarnings = ["error"]', **{"act.py": text})
    code, found = run("pyproject.toml")
    assert Path.cwd() == tmp_path
    assert code == 1
    assert found["relu[oracle]"][0] == "failure"
    assert "relu raised SystemExit: os._exit(0) (line 11 of " in found["relu[oracle]"][1]
    assert len(found) == len(NAMES)


def test_a_forked_child_may_exit():
    with contained():
        child = os.fork()
        if not child:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_alarm_around_a_call_still_rings():
    """As pytest-timeout's does, which would otherwise be set back by every case."""
    import signal

    rings = []
    before = signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with alarm(30):
            pass
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.05
        signal.pause()
        assert rings
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Run pytest in a process where the plugin is installed, as by pip."""
    import tomllib

    site = tmp_path / "site"
    (named,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"].items()
    for path, text in {"METADATA": "Name: tinyattn-here\nVersion: 1\n",
                       "entry_points.txt": f"[pytest11]\n{named[0]} = {named[1]}\n"}.items():  # fmt: skip
        (site / "tinyattn_here-1.dist-info").mkdir(parents=True, exist_ok=True)
        (site / "tinyattn_here-1.dist-info" / path).write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{ROOT}")

    def run(*arguments):
        command = [sys.executable, "-m", "pytest", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    return run


def test_where_it_has_nothing_to_do_it_imports_nothing():
    code = "import sys, tinyattn.pytest_plugin; print([m for m in ('numpy', 'tinyattn.check') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.stdout == "[]\n", found.stderr


@pytest.mark.slow(5)
def test_a_run_that_does_not_use_it_imports_nothing(project, installed):
    loaded = (
        "import sys\ndef test_one():\n    assert not [m for m in ('numpy', 'tinyattn.check') if m in sys.modules]\n"
    )
    project(**{"tests/test_one.py": loaded})
    found = installed()
    assert found.returncode == 0, found.stdout
    assert "1 passed" in found.stdout
    project('"act.py" = "relu"', **{"act.py": RELU})
    assert "1 passed" in installed("-p", "no:tinyattn").stdout


@pytest.mark.slow(10)
def test_failed_properties_alone_run_again_and_on_several_processes(project, installed):
    project('"act.py" = { as = "relu", examples = 2 }', **{"act.py": WRONG})
    first = installed("-q", "-n", "2")
    assert first.returncode == 1, first.stderr
    failed = sorted(line.split()[1] for line in first.stdout.splitlines() if line.startswith("FAILED"))
    assert "pyproject.toml::act.py::relu[oracle]" in failed
    (Path.cwd() / "act.py").write_text(RELU)
    again = installed("--lf", "-v")
    assert again.returncode == 0, again.stdout
    assert sorted(line.split()[0] for line in again.stdout.splitlines() if " PASSED " in line) == failed
