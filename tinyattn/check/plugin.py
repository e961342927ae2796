"""Properties as pytest tests, one test per property.

# test_my_attention.py
import my_attention
from tinyattn.check import properties_for

test_attention = properties_for(my_attention, "attention")

Tests run in pytest's process, without isolation, so that --pdb and coverage work.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .causes import functions_of_numpy, replaced
from .frameworks import subject_of
from .isolation import load
from .options import SOON, Options
from .property import Property
from .report import Report, describe, problem_line
from .runner import cause_of, look_at
from .specs import get_spec, properties_of, refuse_unknown_properties
from .subject import CannotRunError, Subject
from .targets import Target
from .trial import trial_of


def properties_for(implementation: Any, spec: str, **options: Any) -> Callable[..., None]:
    """A parametrised pytest test: one case per property of `spec`, named after it, and skipped if it does not apply.

    `implementation` is as in `check_implementation`: a module, an object, a function, or the name of one. It runs in
    the test's process. `options` are the fields of `tinyattn.check.options.Options`.
    Raises ValueError for an unknown spec, property or dtype, CannotRunError if the implementation lacks the spec's
    function, and ImportError without pytest.
    """
    import pytest

    how = Options(**options)
    known = get_spec(spec, how.dtype)
    refuse_unknown_properties(how.skip, [spec])
    op = subject_of(load(implementation) if isinstance(implementation, str) else implementation, known)
    if not how.strict:
        look_at(op)
    properties = [prop for prop in properties_of(op.spec) if not how.left_out_by(prop)]

    @pytest.mark.parametrize("prop", properties, ids=lambda prop: f"{prop.stage}-{prop.name}")
    def test(prop: Property) -> None:
        __tracebackhide__ = True
        hold(op, prop, how)

    return test


def hold(op: Subject, prop: Property, how: Options) -> None:
    """Skip the running test if the property does not apply; fail it if the property does not hold."""
    import pytest

    __tracebackhide__ = True
    with contained():
        trial = trial_of(op, op.spec, prop, **how.of_trial)
        finding = trial.finding()
        limit = SOON if how.brief else 5.0
        diagnosis = cause_of(op, (), limit, trial, limit, how.strict) if finding.outcome == "fails" else None
    if finding.outcome == "skipped":
        pytest.skip(finding.message)
    if finding.outcome == "fails":
        place = op.place(backward=prop.stage == "gradients")
        line = problem_line(Report(op.spec.name, "", (finding,), place=place))
        pytest.fail("\n".join([*describe(finding, diagnosis), line]).rstrip(), pytrace=False)


class Candidate:
    """A target of a table, loaded. Raises CannotRunError if it cannot be loaded, ValueError for an unknown kind."""

    def __init__(self, target: Target, folder: Path | None = None):
        self.options = Options(**target.options)
        self.spec = get_spec(target.kind, self.options.dtype)
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
        """The reason to leave the property out, or ""."""
        return {"skip": "skip in pyproject.toml", "fast": "left out by fast", "": ""}[self.options.left_out_by(prop)]

    def test(self, prop: Property) -> None:
        """Test one property. The first call detects conventions, and the forms of calls that are not offered."""
        import pytest

        __tracebackhide__ = True
        if not self.looked and not self.options.strict:
            try:
                with contained():
                    look_at(self.op)
            except CannotRunError as error:
                pytest.fail(f"could not run: {error}", pytrace=False)
        self.looked = True
        known = {known.name: known for known in properties_of(self.op.spec)}
        if prop.name not in known:
            pytest.skip(f"does not apply to: {', '.join(switch.says for switch in self.op.conventions)}")
        hold(self.op, known[prop.name], self.options)


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Protect other tests from a target's code, which may warn, change the current folder, or exit: os._exit would end
    pytest silently, with the code's exit code."""
    leave, process, folder = os._exit, os.getpid(), os.getcwd()

    def refused(code: int) -> Any:
        if os.getpid() != process:  # in a child process
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
