"""What tests of several folders ask for."""

import importlib
from contextlib import contextmanager

import pytest

from tinyattn.check.cases import CaseDrawer
from tinyattn.check.property import Violation
from tinyattn.check.specs import properties_of
from tinyattn.check.subject import MissingError
from tinyattn.cli import main
from tinyattn.tree import tree_map

MACHINE = {"cores": 2, "cpu": "abacus", "python": "3.11", "numpy": "2.4", "system": "x", "commit": "abc",
           "date": "2026-01-01"}  # fmt: skip


STYLE = importlib.import_module("tinyattn.show.style")  # of the package it is the function of that name
DRAWN = STYLE.drawn
READ = importlib.import_module("tinyattn.data.read")


@contextmanager
def pictures_drawn():
    """Pictures that are saved are drawn, as by default only tests/show has them (tests/conftest.py)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STYLE, "drawn", DRAWN)
        yield


def in_pieces(monkeypatch, size):
    """Files are read in pieces of so many bytes, and their formats detected from as many, or 64."""
    for name, value in (("_PIECE", size), ("_HEAD", max(size, 64))):
        monkeypatch.setattr(READ, name, value)


class Frame(dict):
    """As much of a DataFrame as is asked of it: names of columns, and each as an array."""

    columns = property(list)


def noisy(p, rng, size=0.3):
    """Parameters away from their zeros and ones, where mistakes would hide."""
    return tree_map(lambda a: a + size * rng.standard_normal(a.shape), p)


def refuses(capsys, arguments, *parts):
    """Exit code 2, one line on standard error that says `parts`, nothing on standard output."""
    capsys.readouterr()
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:  # argparse's own way out
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2
    assert err.count("\n") == 1
    for part in parts:
        assert part in err
    return out


def accused_by(op, spec, seeds, but=(), only=None):
    """The first property that fails on seeded cases, and what it says; None where all hold.

    Those named in `but` are left out, and with `only` so are cases of another dtype.
    """
    for prop in properties_of(spec):
        for seed in range(prop.at_most(seeds)):
            draw = CaseDrawer.seeded(seed, prop.leads, prop.wide)
            if prop.name in but or only not in (None, draw.dtype):
                continue
            try:
                prop.holds(op, **op.fit(spec.case(draw)))
            except MissingError:
                break
            except (Violation, AssertionError) as violation:
                return f"{prop.name}: {violation}"
            except Exception as error:  # a wrong implementation's result may not even be fit to be looked at
                return f"{prop.name}: {type(error).__name__}: {error}"
    return None
