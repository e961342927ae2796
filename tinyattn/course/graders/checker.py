"""Grades a checker of gradients: does it accept correct backward functions and reject wrong ones?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercise import RIGHT, WRONG, Grade
from .calling import RETURNED_NONE, described, no_function, run_answer

INPUTS = 3              # for each pair: along one random direction a wrong backward's error may be small
SIGN = ("An error is a magnitude. What does |a - b| do to the sign?", "Compare |a - b|, not a - b.")


@dataclass(frozen=True)
class Pair:
    """A forward and its backward, correct or wrong, and the hints for a checker that misjudges them."""

    says: str
    f: Callable[[Any], Any]
    f_backward: Callable[[Any, Any], Any]
    shape: tuple[int, ...] = (3, 4)
    right: bool = True
    question: str = ""
    diagnosis: str = ""


@dataclass(frozen=True)
class Checker:
    """Grades a checker of gradients: `answer(f, f_backward, x) -> error`, small if the backward is correct.

    A correct backward's error must be below `small` on each of INPUTS inputs, a wrong one's above `large` on at least
    one. `checker` is a correct checker, handed out until the reader's is accepted.
    """

    pairs: tuple[Pair, ...]
    checker: Callable[..., Any]
    small: float = 1e-4
    large: float = 1e-3

    asks = "a function"

    def reference(self) -> Callable[..., Any]:
        return self.checker

    def kindly(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: answer(*args)

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        for pair in self.pairs:
            errors = []
            for seed in range(INPUTS):
                x = np.random.default_rng(seed).standard_normal(pair.shape)
                try:
                    error = run_answer(answer, pair.f, pair.f_backward, x)
                except AssertionError as failed:
                    error = Grade(WRONG, f"it raises AssertionError: {failed}")
                if isinstance(error, Grade):
                    where = (f"  f(x) = {pair.says}",) if error.outcome == WRONG else ()
                    return Grade(error.outcome, error.says, where, error.question or pair.question, pair.diagnosis)
                if error is None:
                    return Grade(WRONG, RETURNED_NONE)
                number = np.asarray(error)
                if number.dtype.kind not in "iuf" or number.size != 1:
                    return Grade(WRONG, f"it returns {described(error)}, expected the relative error, one number.")
                errors.append(float(number.reshape(())))
                if errors[-1] < 0:  # checked here, as max(errors) below would hide a negative one
                    lines = (f"  f(x) = {pair.says}", f"  got       {errors[-1]:.3g}")
                    return Grade(WRONG, "it returns a negative error.", lines, *SIGN)
            worst = next((error for error in errors if math.isnan(error)), max(errors))
            if not (worst < self.small if pair.right else worst > self.large):
                return self._misjudged(pair, worst)
        right = sum(pair.right for pair in self.pairs)
        wrong = len(self.pairs) - right
        says = f"right. It accepts all {right} correct backward functions and rejects all {wrong} wrong ones."
        return Grade(RIGHT, says)

    def _misjudged(self, pair: Pair, worst: float) -> Grade:
        says = "it rejects a correct backward." if pair.right else "it accepts a wrong backward."
        bound = f"below {self.small:g}" if pair.right else f"above {self.large:g}"
        lines = (f"  f(x) = {pair.says}", f"  expected  an error {bound}", f"  got       {worst:.3g}")
        return Grade(WRONG, says, lines, pair.question, pair.diagnosis)
