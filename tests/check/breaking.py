"""The library's implementation of a kind, made to break one statement."""

import functools
import inspect
from types import SimpleNamespace

import numpy as np

from tinyattn.check.cases import CaseDrawer
from tinyattn.check.property import Violation
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import MissingError, Subject


def broken(kind, forward=None, backward=None, **others):
    """`forward(right, **case)` and `backward(right, **arguments)` call the right function, and change its result."""
    spec = SPECS[kind]
    ours = spec.ours()
    made = SimpleNamespace(**{name: getattr(ours, name) for name in spec.others if hasattr(ours, name)} | others)
    for name, change in ((spec.function, forward), (f"{spec.function}_backward", backward)):
        right = getattr(ours, name, None)
        if right is not None:
            setattr(made, name, right if change is None else _changed(right, change))
    return made


def _changed(right, change):
    signature = inspect.signature(right)

    @functools.wraps(right)
    def call(*args, **kwargs):
        return change(right, **signature.bind(*args, **kwargs).arguments)

    return call


def failing(implementation, kind, seeds=8, among=None):
    """The names of the properties that fail on seeded cases."""
    spec = SPECS[kind]
    op, found = Subject(implementation, spec), set()
    for prop in properties_of(spec):
        if among is not None and prop.name not in among:
            continue
        for seed in range(prop.at_most(seeds)):
            case = spec.case(CaseDrawer.seeded(seed, prop.leads, prop.wide))
            try:
                prop.holds(op, **op.fit(case))
            except MissingError:
                break
            except Violation:
                found.add(prop.name)
                break
    return found


def plus(y, error, at=-1):
    """y with one entry moved."""
    y = np.array(y)
    if y.size:
        y.reshape(-1)[at] += y.dtype.type(error)
    return y
