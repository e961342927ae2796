"""Implementations by people who have never seen this library, as textbooks have them: none is called wrong."""

import functools
import inspect
import itertools
from types import SimpleNamespace

import pytest

from tests.check.strangers import textbook
from tinyattn.check import check_in_process
from tinyattn.check.specs import SPECS

LATER = {
    "patchify": "three reshapes give a view where patches are of one pixel",
    "performer_attention": "without a stabiliser 0/0 for keys of length 30, as the paper's formula has it",
}
KINDS = [kind if kind not in LATER else pytest.param(kind, marks=pytest.mark.xfail(reason=LATER[kind], strict=True))
         for kind in SPECS]  # fmt: skip


def passed(offered, kind, **options):
    report = check_in_process(offered, kind, **options)
    assert report, f"\n{report}"
    return report


@pytest.mark.parametrize("kind", KINDS)
def test_a_textbooks_implementation_is_right(kind):
    theirs = getattr(textbook, kind, None)
    if theirs is None:
        pytest.skip("no textbook has it")
    passed(theirs if inspect.isclass(theirs) else textbook, kind, examples=8)


def without(f, left):
    """f as a stranger has it who leaves out these optional arguments."""
    signature = inspect.signature(f)
    fewer = signature.replace(parameters=[p for name, p in signature.parameters.items() if name not in left])

    def call(*args, **kwargs):
        return f(**fewer.bind(*args, **kwargs).arguments)

    call.__signature__, call.__name__ = fewer, f.__name__
    return call


def optional(kind):
    function = getattr(SPECS[kind].ours(), SPECS[kind].function)
    return function, [n for n, p in inspect.signature(function).parameters.items() if p.default is not p.empty]


PURE = [kind for kind, spec in SPECS.items() if spec.common]


@pytest.mark.parametrize("kind", PURE)
def test_whatever_is_left_out_the_checker_does_not_fail(kind):
    function, names = optional(kind)
    passed(without(function, names), kind, examples=2)
    for name in names[: len(names) if len(names) > 1 else 0]:
        passed(without(function, [name]), kind, examples=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PURE)
def test_every_subset_of_optional_arguments_may_be_left_out(kind):
    function, names = optional(kind)
    for count in range(2, len(names)):
        for left in itertools.combinations(names, count):
            passed(without(function, left), kind, examples=4)


class Callable:
    def __init__(self, f):
        self.f = f

    def __call__(self, *args, **kwargs):
        return self.f(*args, **kwargs)


DRESSED = {
    "*args": lambda f: lambda *args: f(*args),
    "*args and **kwargs": lambda f: lambda *args, **kwargs: f(*args, **kwargs),
    "functools.wraps": lambda f: functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs)),
    "a partial": functools.partial,
    "an object": Callable,
    "a method": lambda f: Callable(f).__call__,
}


@pytest.mark.parametrize("kind", ["attention", "layer_norm", "lstm", "cross_entropy", "dropout", "wkv"])
@pytest.mark.parametrize("dress", DRESSED.values(), ids=DRESSED)
def test_however_a_function_is_dressed_it_is_called(dress, kind):
    passed(dress(optional(kind)[0]), kind, examples=2)


def test_a_decorated_backward_gets_the_arguments_that_the_forward_takes():
    def backward(*args):
        return textbook.attention_backward(*args)

    offered = SimpleNamespace(attention=textbook.attention, attention_backward=backward)
    held = {f.property for f in passed(offered, "attention", examples=4).findings if f.outcome == "holds"}
    assert {"derivative", "exact_gradients"} <= held
