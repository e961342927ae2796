"""Properties as pytest tests, one test per property.

# test_my_attention.py
import my_attention
from tinyattn.check import properties_for

test_attention = properties_for(my_attention, "attention")

Tests run in pytest's process, where --pdb and coverage work: that is no isolation.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from .causes import find_cause, functions_of_numpy, replaced
from .frameworks import subject_of
from .isolation import load
from .property import Property
from .report import Report, describe, problem_line
from .runner import FEW, SOON, look_at
from .specs import get_spec, properties_of, refuse_unknown_properties
from .subject import CannotRunError, Subject
from .targets import Target
from .trial import trial_of


def properties_for(
    implementation: Any,
    spec: str,
    *,
    examples: int = 50,
    seed: int = 0,
    strict: bool = False,
    skip: Iterable[str] = (),
    dtype: str | None = None,
) -> Callable[..., None]:
    """A parametrised pytest test: one case per property of `spec`, named after it; properties that do not apply skip.

    `implementation` is as in `check_implementation`: a module, an object, a function, or the name of one. It runs in
    the test's process. Forms of a call that are not offered, other conventions and rounding are failures only with
    `strict`. The properties named in `skip` are left out; with `dtype` every array of floats has this dtype.
    Raises ValueError for an unknown spec, property or dtype, CannotRunError if its function is missing, ImportError
    without pytest.
    """
    import pytest

    known, skip = get_spec(spec, dtype), tuple(skip)
    refuse_unknown_properties(skip, [spec])
    op = subject_of(load(implementation) if isinstance(implementation, str) else implementation, known)
    if not strict:
        look_at(op)
    properties = [prop for prop in properties_of(op.spec) if prop.name not in skip]

    @pytest.mark.parametrize("prop", properties, ids=lambda prop: f"{prop.stage}-{prop.name}")
    def test(prop: Property) -> None:
        __tracebackhide__ = True
        hold(op, prop, examples=examples, seed=seed, strict=strict)

    return test


def hold(op: Subject, prop: Property, *, fast: bool = False, **options: Any) -> None:
    """Skip or fail pytest's test where the property does not apply, or does not hold."""
    import pytest

    __tracebackhide__ = True
    with contained():
        trial = trial_of(op, op.spec, prop, **options)
        finding = trial.finding()
        diagnosis = None
        if finding.outcome == "fails":
            with contextlib.suppress(Exception):  # a failure without a diagnosis is better than none
                limit = SOON if fast else 5.0
                diagnosis = find_cause(op, (), limit, trial, limit, options.get("strict", False))
    if finding.outcome == "skipped":
        pytest.skip(finding.message)
    if finding.outcome == "fails":
        place = op.place(backward=prop.stage == "gradients")
        line = problem_line(Report(op.spec.name, "", (finding,), place=place))
        pytest.fail("\n".join([*describe(finding, diagnosis), line]).rstrip(), pytrace=False)


class Candidate:
    """A target of a table, loaded. Raises CannotRunError if that fails, ValueError for an unknown kind."""

    def __init__(self, target: Target, folder: Path | None = None):
        options = dict(target.options)
        self.spec = get_spec(target.kind, options.pop("dtype", None))
        self.skip, self.fast = options.pop("skip", ()), options.pop("fast", False)
        options.pop("time_limit", None)  # pytest's plugins have their own
        self.options = {"examples": 50, "strict": False} | options
        if self.fast:
            self.options["examples"] = min(self.options["examples"], FEW)
        self.properties, self.looked = properties_of(self.spec), False
        before = functions_of_numpy()
        with contained():
            if folder is not None and str(folder) not in sys.path:
                sys.path.insert(0, str(folder))  # for modules
            self.op = subject_of(load(target.place), self.spec)
        if patched := replaced(before):
            raise CannotRunError(
                f"importing it replaced {', '.join(patched)} for every test of this process; "
                f"check it in a separate process: tinyattn check {target.place} --as {target.kind}"
            )

    def left_out(self, prop: Property) -> str:
        """Why the property is not to be tried, or ""."""
        slow = self.fast and (prop.wide or prop.once)
        return "skip in pyproject.toml" if prop.name in self.skip else "left out by fast" if slow else ""

    def test(self, prop: Property) -> None:
        """Test one property. The first call detects the forms that are not offered, and the conventions."""
        import pytest

        __tracebackhide__ = True
        if not self.looked and not self.options["strict"]:
            try:
                with contained():
                    look_at(self.op)
            except CannotRunError as error:
                pytest.fail(f"could not run: {error}", pytrace=False)
        self.looked = True
        known = {known.name: known for known in properties_of(self.op.spec)}
        if prop.name not in known:
            pytest.skip(f"not of this convention: {', '.join(switch.says for switch in self.op.conventions)}")
        hold(self.op, known[prop.name], fast=self.fast, **self.options)


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Run a target's code. If it exits, warns or changes the folder, its test ends, and no other test is affected:
    os._exit would end pytest silently, with the code's exit code."""
    leave, process, folder = os._exit, os.getpid(), os.getcwd()

    def refused(code: int) -> Any:
        if os.getpid() != process:  # of a fork
            leave(code)
        raise SystemExit(f"os._exit({code})")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os._exit = refused  # type: ignore[assignment]
        try:
            yield
        finally:
            os._exit = leave
            os.chdir(folder)
