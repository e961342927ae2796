"""Every kind, held against this library, against three other ways of writing each op, and against the zoo."""

import importlib
import warnings

import pytest

from tinyattn.check.adapters import SASRecTokens
from tinyattn.check.diagnosis import diagnose
from tinyattn.check.drawing import Pick
from tinyattn.check.kinds import KINDS, properties_of
from tinyattn.check.property import Violation
from tinyattn.check.subject import MissingError, Subject
from tinyattn.check.trial import try_property
from tinyattn.check.zoo import ZOO

VARIANTS = {name: importlib.import_module(f"tests.check.variants.{name}") for name in ZOO}
EVERY = [
    pytest.param(kind, prop, id=f"{kind.name}-{prop.name}") for kind in KINDS.values() for prop in properties_of(kind)
]
WRITTEN = [(name, style) for name, module in VARIANTS.items() for style in module.STYLES]


def ours(kind):
    return SASRecTokens() if kind.name == "causal_model" else kind.ours()


def accused_by(op, kind, seeds, but=(), only=None):
    """The first property that fails on numbered cases, and what it says; None where all hold.

    Those named in `but` are left out, and with `only` so are cases of another dtype.
    """
    for prop in properties_of(kind):
        for seed in range(prop.at_most(seeds)):
            pick = Pick.numbered(seed, prop.leads, prop.wide)
            if prop.name in but or only not in (None, pick.dtype):
                continue
            try:
                prop.holds(op, **op.fit(kind.case(pick)))
            except MissingError:
                break
            except (Violation, AssertionError) as violation:
                return f"{prop.name}: {violation}"
            except Exception as error:  # a wrong implementation's result may not even be fit to be looked at
                return f"{prop.name}: {type(error).__name__}: {error}"
    return None


def test_there_is_a_zoo_and_there_are_variants_of_nearly_every_kind():
    """But for the kinds that are held to their properties alone."""
    assert set(KINDS) - set(ZOO) == {"gru", "linear_attention", "window_attention"}
    assert set(ZOO) <= set(KINDS)
    assert all(len(module.STYLES) == 3 for module in VARIANTS.values())


@pytest.mark.parametrize(("kind", "prop"), EVERY)
def test_the_library_has_the_property(kind, prop):
    found = try_property(Subject(ours(kind), kind), kind, prop, examples=15)
    assert found.outcome in ("holds", "skipped"), found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "prop"), EVERY)
def test_the_library_has_the_property_at_length(kind, prop):
    found = try_property(Subject(ours(kind), kind), kind, prop, examples=200)
    assert found.outcome in ("holds", "skipped"), found
    if found.outcome == "skipped":
        assert kind.name == "causal_model", found


@pytest.mark.parametrize(("kind", "style"), WRITTEN)
def test_no_correct_implementation_is_accused(kind, style):
    op = Subject(VARIANTS[kind].make(style), KINDS[kind])
    assert accused_by(op, KINDS[kind], seeds=6) is None
    assert not diagnose(op, KINDS[kind])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "style"), WRITTEN)
def test_no_correct_implementation_is_accused_at_length(kind, style):
    assert accused_by(Subject(VARIANTS[kind].make(style), KINDS[kind]), KINDS[kind], seeds=100) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ZOO)
def test_every_bug_is_killed_and_no_convention_is(kind):
    """A bug that no property sees is a hole in the suite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bugs' own
        assert accused_by(Subject(ZOO[kind].make(), KINDS[kind]), KINDS[kind], seeds=60) is None
        for bug in ZOO[kind].BUGS:
            accused = accused_by(Subject(ZOO[kind].make(frozenset([bug.name])), KINDS[kind]), KINDS[kind], seeds=60)
            assert (accused is None) == bug.convention, f"{bug.name}: {accused}"


@pytest.mark.parametrize("kind", ZOO)
def test_every_bug_has_a_name_a_sentence_and_a_question(kind):
    bugs = ZOO[kind].BUGS
    assert len({b.name for b in bugs}) == len(bugs)
    assert all(b.says and b.hint for b in bugs)
