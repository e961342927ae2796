"""Conventions: choices in which right code differs. The check detects and reports them, and adapts to them.

A switch is one difference between an implementation and this library. It translates calls and results, so that
everything else can be checked, and leaves out calls whose result depends on it. `tinyattn check --strict` allows none.
The `choices` of a spec name the conventions that its arguments do not imply.
"""

import inspect
from typing import Any

from ..isolation import alarm
from ..subject import Subject, TooLongError
from ..switch import Switch
from . import denominator, dtypes, forms, gru, layouts, masks, norms, optimisers, padding, pointwise, slopes
from .convention import CONVENTIONS, adopt


def choices_of(spec: Any) -> list[str]:
    """The conventions that an implementation of this kind may choose, in sentences."""
    return [CONVENTIONS[name].says for name in _names(spec)]


def _names(spec: Any) -> list[str]:
    """The conventions that the function's arguments imply, and those that the spec names."""
    arguments = inspect.signature(getattr(spec.ours(), spec.function)).parameters if spec.common else {}
    names = ["mask", "dead rows"] * ("mask" in arguments)
    names += ["eps"] * ("eps" in arguments and "eps outside" not in spec.choices)
    names += ["causal"] * ("causal" in arguments) + ["fixed padding"] * ("padding" in arguments)
    return names + [*spec.choices] + ["tanh"] * ("approximate" in arguments) + ["wide"] * spec.common


def find_conventions(op: Subject, patience: float = 10.0, first: bool | None = None) -> list[Switch]:
    """The conventions that `op` follows and the library does not; each is appended to `op.conventions`.

    If `first` is True, only those are sought that must be known before the forms of calls; if False, only the others.
    """
    for convention in (CONVENTIONS[name] for name in _names(op.spec)):
        if first is not None and convention.first != first:
            continue
        try:
            with alarm(patience):
                switch = convention.find(op)
        except (Exception, TooLongError):  # `op` raises, or its result is no number: the properties will report it
            continue
        if switch is not None:
            adopt(op, switch)
    return op.conventions
