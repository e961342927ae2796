"""The table of faster forms: it and the marks in the code agree, and the choice is the caller's."""

import ast
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import tinyattn
from tinyattn.forms import FASTER, is_readable, readable, replaceable
from tinyattn.layers.rows import table_gradient

ROOT = Path(tinyattn.__file__).parent


def marked():
    """The names of all functions that are marked, from the source."""
    for path in ROOT.rglob("*.py"):
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for outer in ast.walk(ast.parse(path.read_text())):
            for node in getattr(outer, "body", []) if isinstance(outer, ast.Module | ast.ClassDef) else ():
                if any(isinstance(d, ast.Name) and d.id == "replaceable" for d in getattr(node, "decorator_list", ())):
                    yield ".".join([module, *([outer.name] if isinstance(outer, ast.ClassDef) else []), node.name])


def test_every_marked_function_has_a_line_in_the_table_and_every_line_a_mark():
    assert sorted(marked()) == sorted(FASTER)


@pytest.mark.parametrize("name", FASTER.values())
def test_every_faster_form_is_a_function(name):
    module, _, function = name.rpartition(".")
    assert callable(getattr(import_module(f"tinyattn.{module}"), function))


def test_the_readable_form_computes_where_it_is_wanted_or_where_the_faster_one_does_not_suit(monkeypatch):
    calls = []

    def double(x):
        calls.append("readable")
        return 2 * x

    def faster(x):
        calls.append("faster")
        return x + x if x > 0 else NotImplemented

    double.__module__, double.__qualname__ = "tinyattn.somewhere", "double"
    monkeypatch.setitem(FASTER, "somewhere.double", "fast.tables.planted")
    monkeypatch.setattr("tinyattn.fast.tables.planted", faster, raising=False)
    chosen = replaceable(double)
    assert chosen(3) == 6
    assert chosen(-3) == -6
    with readable():
        assert is_readable()
        assert chosen(3) == 6
        with readable(False):
            assert chosen(3) == 6
        with readable():
            assert is_readable()
        assert chosen(3) == 6                                # the outer choice holds again
    assert not is_readable()
    assert calls == ["faster", "faster", "readable", "readable", "faster", "readable"]
    assert chosen.__wrapped__ is double


def test_a_faster_form_that_fails_is_not_hidden(monkeypatch):
    monkeypatch.setattr("tinyattn.fast.tables.sum_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        table_gradient(np.array([0]), np.ones((1, 2)), np.ones((3, 2)))
    with readable():
        assert table_gradient(np.array([0]), np.ones((1, 2)), np.ones((3, 2))).sum() == 2
