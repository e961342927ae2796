"""Properties as pytest tests, one test per property.

# test_my_attention.py
import my_attention
from tinyattn.check import properties_for

test_attention = properties_for(my_attention, "attention")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .frameworks import subject_of
from .isolation import load
from .property import Property
from .report import describe
from .runner import look_at
from .specs import get_spec, properties_of
from .trial import try_property


def properties_for(
    implementation: Any, spec: str, *, examples: int = 50, seed: int = 0, strict: bool = False
) -> Callable[..., None]:
    """A parametrised pytest test: one case per property of `spec`, named after it; properties that do not apply skip.

    `implementation` is as in `check_implementation`: a module, an object, a function, or the name of one. It runs in
    the test's process. Forms of a call that are not offered, other conventions and rounding are failures only with
    `strict`. Raises ValueError for an unknown spec, CannotRunError if its function is missing, ImportError without
    pytest.
    """
    import pytest

    known = get_spec(spec)
    op = subject_of(load(implementation) if isinstance(implementation, str) else implementation, known)
    if not strict:
        look_at(op)

    @pytest.mark.parametrize("prop", properties_of(op.spec), ids=lambda prop: f"{prop.stage}-{prop.name}")
    def test(prop: Property) -> None:
        __tracebackhide__ = True
        finding = try_property(op, op.spec, prop, examples=examples, seed=seed, strict=strict)
        if finding.outcome == "skipped":
            pytest.skip(finding.message)
        if finding.outcome == "fails":
            pytest.fail("\n".join(describe(finding)), pytrace=False)

    return test
