"""Every spec, tried on this library, on three other ways of writing each op, and on the zoo's bugs."""

import functools
import importlib
import inspect
import pkgutil
import time
import warnings

import pytest

from benchmarks.mutants import SEEDS
from tests.check import variants
from tests.helpers import accused_by
from tinyattn.check import oracles
from tinyattn.check.cases import CaseDrawer, copied
from tinyattn.check.diagnosis import diagnose
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import Subject
from tinyattn.check.trial import Trial, trial_of
from tinyattn.check.zoo import ZOO

VARIANTS = {m.name: importlib.import_module(f"{variants.__name__}.{m.name}")       # of the zoo's first kinds
            for m in pkgutil.iter_modules(variants.__path__)}  # fmt: skip
EVERY = [
    pytest.param(spec, prop, id=f"{spec.name}-{prop.name}") for spec in SPECS.values() for prop in properties_of(spec)
]
WRITTEN = [(name, style) for name, module in VARIANTS.items() for style in module.STYLES]


def test_a_zoo_is_of_a_spec_and_variants_are_of_a_zoo():
    """A new op needs neither: its properties are enough, unless an exercise gives hints from a zoo."""
    assert set(VARIANTS) <= set(ZOO) <= set(SPECS)
    assert all(len(module.STYLES) == 3 for module in VARIANTS.values())


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_library_has_every_property(spec):
    """On half of the seeded cases that mutants are tried on (benchmarks/mutants.py), which are drawn quickly.

    tests/test_pin.py holds what all cases are, tests/check/test_sharpness.py what errors a property sees in them.
    """
    draw = functools.cache(lambda *how: spec.case(CaseDrawer.seeded(*how)))
    for prop in properties_of(spec):
        trial = Trial(Subject(spec.ours(), spec), prop, until=time.monotonic() + 60, patience=60.0, strict=True)
        for seed in range(prop.at_most(SEEDS // 2)):
            trial(copied(draw(seed, prop.leads, prop.wide)))  # raises Violation
        assert trial.finding().outcome in ("holds", "skipped"), trial.finding()


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "prop"), EVERY)
def test_the_library_has_the_property_at_length(spec, prop):
    """On other cases, drawn and shrunk by hypothesis as `tinyattn check` does: half as many."""
    found = trial_of(Subject(spec.ours(), spec), spec, prop, examples=25).finding()
    assert found.outcome in ("holds", "skipped"), found
    if found.outcome == "skipped":
        assert spec.name == "causal_model", found


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "style"), WRITTEN)
def test_no_correct_implementation_is_accused(spec, style):
    op = Subject(VARIANTS[spec].make(style), SPECS[spec])
    assert accused_by(op, SPECS[spec], seeds=30) is None
    assert not diagnose(op, SPECS[spec])


@pytest.mark.slow
@pytest.mark.parametrize("spec", ZOO)
def test_every_bug_is_killed_and_no_convention_is(spec):
    """A bug that no property sees is a hole in the suite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bugs' own
        assert accused_by(Subject(ZOO[spec].make(), SPECS[spec]), SPECS[spec], seeds=60) is None
        for bug in ZOO[spec].BUGS:
            op = Subject(ZOO[spec].make(frozenset([bug.name])), SPECS[spec])
            accused = accused_by(op, SPECS[spec], seeds=4) or accused_by(op, SPECS[spec], seeds=60)  # 4 kill nearly all
            assert (accused is None) == bug.convention, f"{bug.name}: {accused}"


def test_an_oracle_that_is_not_imported_is_named():
    with pytest.raises(AttributeError, match="no oracle is called swish: is it in a file that tinyattn/check/oracles"):
        oracles.swish  # noqa: B018


@pytest.mark.parametrize("spec", ZOO)
def test_every_bug_has_a_name_a_sentence_and_a_question(spec):
    bugs = ZOO[spec].BUGS
    assert len({b.name for b in bugs}) == len(bugs)
    assert all(b.says and b.hint for b in bugs)


@pytest.mark.parametrize("spec", ZOO)
def test_every_bug_changes_the_code(spec):
    """A switch whose text is nowhere in the right code would make no bug."""
    functions = [f for f in vars(ZOO[spec]).values() if inspect.isfunction(f) and f.__module__ == ZOO[spec].__name__]
    source = "\n".join(map(inspect.getsource, functions))
    for switch, change in ZOO[spec].make.changes.items():
        for part in change.split(" && ") if change else ():
            old, new = part.split(" -> ")
            assert old in source, f"{switch}: {old}"
            assert old != new
