"""The rules of the house that a machine can hold: floors import from earlier ones, and importing costs little."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "tinyattn"
FLOORS = ["pages", "backend", "forms", "options", "tree", "random", "terminal", "files", "extras", "machine", "sandbox"]
FLOORS += ["ranks", "ops", "layers", "data", "evaluation", "training", "models", "fast", "export", "check"]
FLOORS += ["experiments", "show", "course", "commands", "cli"]
ENTRANCES = ["__init__", "__main__", "pytest_plugin"]           # import what they like, and nothing imports them
FILES = sorted(p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0].removesuffix(".py") not in ENTRANCES)


@cache
def import_statements(text):
    """All of a file, also for types alone or inside of a function; no expression has one, so none is walked through."""
    blocks, found = [ast.parse(text).body], []
    while blocks:
        for node in blocks.pop():
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.append(node)
            inner = (getattr(node, name, None) for name in ("body", "orelse", "finalbody", "handlers", "cases"))
            blocks += [block for block in inner if isinstance(block, list)]
    return found


def imports(path, root=ROOT):
    """(line, floor) of every import of a floor, absolute or relative, at the top of the file or inside a function."""
    here = path.relative_to(root).with_suffix("").parts
    for node in import_statements(path.read_text()):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("tinyattn.")]
        else:
            if node.level:
                full = [*here[: len(here) - node.level], *(node.module or "").split(".")]
            elif (node.module or "").split(".")[0] == "tinyattn":
                full = node.module.split(".")[1:]
            else:
                continue
            full = [part for part in full if part]
            names = full[:1] or [alias.name for alias in node.names]
        yield from ((node.lineno, name) for name in names if name in FLOORS)


def test_every_module_and_folder_is_on_a_floor():
    """A new one is a row of the table in CONTRIBUTING.md, or stands in one, and a name in FLOORS."""
    assert {p.relative_to(ROOT).parts[0].removesuffix(".py") for p in ROOT.rglob("*.py")} == {*FLOORS, *ENTRANCES}


def later(path, root=ROOT):
    floor = path.relative_to(root).parts[0].removesuffix(".py")
    return [name for _, name in imports(path, root) if FLOORS.index(name) > FLOORS.index(floor)]


def test_only_earlier_floors_are_imported():
    """Of each file the later rows of the table that it imports from."""
    assert {str(path.relative_to(ROOT)): found for path in FILES if (found := later(path))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import tinyattn.cli",
        "from tinyattn import cli",
        "from tinyattn.cli import main",
        "from .. import cli",
        "from ..cli import main",
        "def f():\n    from ..models import SASRec",
    ],
)
def test_an_import_from_a_later_floor_would_be_seen(line, tmp_path):
    path = tmp_path / "ops" / "planted.py"
    path.parent.mkdir()
    path.write_text(line + "\n")
    assert later(path, tmp_path)
    path.write_text("import numpy\nfrom .shapes import expect\nfrom ..backend import get_xp\n")
    assert not later(path, tmp_path)


def graph(root):
    """The files that each file of a package imports, also for types alone or inside of a function."""
    files = {p.relative_to(root.parent).with_suffix("").as_posix().replace("/", "."): p for p in root.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}

    def imported(name, path):
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in import_statements(path.read_text()):
            if isinstance(node, ast.ImportFrom):
                start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                whole = ".".join([*start, *filter(None, [node.module])])
                yield from (f"{whole}.{a.name}" if f"{whole}.{a.name}" in files else whole for a in node.names)
            else:
                yield from (a.name for a in node.names)

    return {name: {other for other in imported(name, path) if other in files} for name, path in files.items()}


def circle(edges):
    """Names that lead back to the first one, or none."""
    done, way = set(), []

    def visit(name):
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        way.append(name)
        found = next(filter(None, map(visit, sorted(edges[name] - {name}))), [])
        way.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, sorted(edges))), [])


@pytest.mark.parametrize("folder", [ROOT, ROOT.parent / "benchmarks"], ids=lambda p: p.name)
def test_no_files_import_each_other(folder):
    assert not circle(graph(folder))


def test_a_circle_would_be_seen(tmp_path):
    (tmp_path / "p").mkdir()
    for name, text in {"a": "def f():\n    from . import b", "b": "from .c import x", "c": "import p.a"}.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert circle(graph(tmp_path / "p")) == ["p.a", "p.b", "p.c", "p.a"]


def test_only_the_backend_knows_cupy():
    knows = [path for path in ROOT.rglob("*.py") if re.search(r"import cupy|cupyx?\.", path.read_text())]
    assert knows == [ROOT / "backend.py"]


def test_importing_costs_numpy_and_little_more():
    code = (
        "import sys, tinyattn, tinyattn.models, tinyattn.check, tinyattn.show, tinyattn.course; "
        "print([m for m in ('matplotlib', 'hypothesis', 'cupy', 'pandas', 'jupytext', 'nbformat') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_op_says_its_shapes():
    from tinyattn import ops

    without_arrays = {"window_shape"}
    for name in set(ops.__all__) - without_arrays:
        assert "Shapes: " in getattr(ops, name).__doc__, name


@pytest.mark.parametrize("package", sorted(p.parent.name for p in ROOT.glob("*/__init__.py")))
def test_a_public_name_is_one_thing_however_often_it_is_asked_for(package):
    """A module of the same name, once imported, stands in the place of what a package offers lazily."""
    import importlib
    from types import ModuleType

    found = importlib.import_module(f"tinyattn.{package}")
    for name in found.__all__:
        first, again = getattr(found, name), getattr(found, name)
        assert first is again, name
        assert name == "zoo" or not isinstance(first, ModuleType), name


def test_annotations_are_evaluated_where_they_stand():
    """One rule for all files: an annotation that names what is defined later is quoted."""
    files = [path for room in ("tinyattn", "tests", "benchmarks") for path in ROOT.parent.joinpath(room).rglob("*.py")]
    assert [path for path in files if re.search("^from __future__", path.read_text(), re.MULTILINE)] == []
