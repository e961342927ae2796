"""Grades a checker of gradients: does it pass right backwards, and catch wrong ones?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercise import RIGHT, WRONG, Grade
from .calling import RETURNED_NONE, described, no_function, run_answer

INPUTS = 3              # for each pair: an error may be small in one direction by chance
SIGN = ("An error is a size. What becomes of the sign in |a - b|?", "Compare |a - b|, not a - b.")


@dataclass(frozen=True)
class Pair:
    """A forward and a backward, right or wrong; the hints for a checker that misjudges it."""

    says: str
    f: Callable[[Any], Any]
    f_backward: Callable[[Any, Any], Any]
    shape: tuple[int, ...] = (3, 4)
    right: bool = True
    question: str = ""
    diagnosis: str = ""


@dataclass(frozen=True)
class Checker:
    """Grades a checker of gradients: `answer(f, f_backward, x) -> error`, small where a pair is right, else large.

    A right backward's error is below `small`, a wrong one's above `large` on one of a few inputs. `checker` is the
    library's.
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
                if errors[-1] < 0:  # before the largest error hides it
                    lines = (f"  f(x) = {pair.says}", f"  got       {errors[-1]:.3g}")
                    return Grade(WRONG, "it returns a negative error.", lines, *SIGN)
            worst = next((error for error in errors if math.isnan(error)), max(errors))
            if not (worst < self.small if pair.right else worst > self.large):
                return self._misjudged(pair, worst)
        right = sum(pair.right for pair in self.pairs)
        wrong = len(self.pairs) - right
        return Grade(RIGHT, f"right. It passes {right} right backwards, and catches {wrong} wrong ones.")

    def _misjudged(self, pair: Pair, worst: float) -> Grade:
        says = "it finds fault with a right backward." if pair.right else "it lets a wrong backward pass."
        bound = f"below {self.small:g}" if pair.right else f"above {self.large:g}"
        lines = (f"  f(x) = {pair.says}", f"  expected  an error {bound}", f"  got       {worst:.3g}")
        return Grade(WRONG, says, lines, pair.question, pair.diagnosis)
