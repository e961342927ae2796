"""The rules of the house that a machine can hold: no import runs upward, and importing costs little."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "tinyattn"
FLOORS = ["backend", "ops", "layers", "data", "evaluation", "training", "models", "check", "show", "cli"]
FILES = sorted(p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0].removesuffix(".py") in FLOORS)


def imports(path):
    """(line, floor) of every import of a floor, absolute or relative, at the top of the file or inside a function."""
    here = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            full = list(here[: len(here) - node.level]) if node.level else []
            full += (node.module or "").removeprefix("tinyattn.").split(".") if node.module else []
            names = [full[0]] if full and full[0] else [alias.name for alias in node.names]
            if node.level or (node.module or "").startswith("tinyattn"):
                yield from ((node.lineno, name) for name in names if name in FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_downward(path):
    floor = path.relative_to(ROOT).parts[0].removesuffix(".py")
    above = [f"line {line}: {name}" for line, name in imports(path) if FLOORS.index(name) > FLOORS.index(floor)]
    assert not above, f"{floor} imports a floor above it: {above}"


def test_the_check_sees_an_upward_import(tmp_path):
    """Were it blind, the test above could not fail."""
    found = list(imports(ROOT / "models" / "sasrec.py"))
    assert {"training", "data", "layers", "ops", "backend"} <= {name for _, name in found}


def test_importing_costs_numpy_and_little_more():
    code = (
        "import sys, tinyattn, tinyattn.models, tinyattn.check, tinyattn.show; "
        "print([m for m in ('matplotlib', 'hypothesis', 'cupy', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_op_has_a_docstring_with_its_shapes():
    from tinyattn import ops

    for name in ops.__all__:
        thing = getattr(ops, name)
        assert thing.__doc__, name
        if callable(thing) and not isinstance(thing, type) and not name.endswith("_backward"):
            assert "(" in thing.__doc__, f"{name}: no shape"
