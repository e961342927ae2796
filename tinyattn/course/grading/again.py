"""Call a right property or gradient checker again, in random order: an answer that only counts its calls fails."""

import math
from typing import Any

import numpy as np

from ...check.specs import get_spec
from ...check.zoo import ZOO
from ..graders import Checker, Judge, Property
from ..graders.calling import ask_property, run_answer
from ..graders.checker import INPUTS, LARGE, SMALL

CALLS = 24  # an answer that guesses is right in all calls with probability 2^-24
GUESSES = "it is right in the usual order, and wrong in another: its answers depend on earlier calls."


def guesses(grader: Any, answer: Any, rng: np.random.Generator) -> str:
    """A message if the answer's results depend on the order of the calls, else ""."""
    if isinstance(grader, Property):
        make = ZOO[grader.spec].make
        sound, wrong = [get_spec(grader.spec).ours(), make(frozenset())], make(frozenset([grader.bug]))
        for holds in _coins(rng):
            trial = grader._try(answer, sound[rng.integers(2)] if holds else wrong)
            if trial.grade is not None or trial.holds != holds:
                return GUESSES
    elif isinstance(grader, Judge):
        for holds in _coins(rng):
            listed = grader.right if holds else grader.wrong
            verdict, _ = ask_property(answer, listed[rng.integers(len(listed))][0], *grader.more)
            if (verdict is not False) != holds:
                return GUESSES
    elif isinstance(grader, Checker):
        for holds in _coins(rng):
            listed = grader.right if holds else grader.wrong
            f, f_backward, shape = listed[rng.integers(len(listed))][0]
            errors = [run_answer(answer, f, f_backward, np.random.default_rng(seed).standard_normal(shape))
                      for seed in range(1 if holds else INPUTS)]  # fmt: skip
            try:
                worst = max(float(error) for error in errors)
            except (TypeError, ValueError):
                return GUESSES
            if not (worst < SMALL if holds else worst > LARGE) or math.isnan(worst):
                return GUESSES
    return ""


def _coins(rng: np.random.Generator) -> list[bool]:
    return [bool(x) for x in rng.integers(2, size=CALLS)]
