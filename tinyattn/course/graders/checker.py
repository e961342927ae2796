"""Grades a checker of gradients, which must accept correct backward functions and reject wrong ones."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercise import RIGHT, WRONG, Grade
from .calling import RETURNED_NONE, Listed, described, no_function, run_answer

INPUTS = 3              # for each forward, as a wrong backward's error may be small along one random direction
SMALL, LARGE = 1e-4, 1e-3
SIGN = ("An error is a magnitude. What does |a - b| do to the sign?", "Compare |a - b|, not a - b.")


@dataclass(frozen=True)
class Checker:
    """Grades a checker of gradients: `answer(f, f_backward, x) -> error`, small if the backward is correct.

    `right` and `wrong` list forwards with correct and with wrong backwards, (f, f_backward, shape of x), each with a
    description of f, a question and a diagnosis. A correct backward's error must be below SMALL on each of INPUTS
    inputs, a wrong one's above LARGE on at least one. `checker` is a correct checker, used until the reader's is
    accepted.
    """

    checker: Callable[..., Any]
    right: Listed
    wrong: Listed

    asks = "a function"

    def reference(self) -> Callable[..., Any]:
        return self.checker

    def wrapped(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: answer(*args)

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        listed = [(True, *one) for one in self.right] + [(False, *one) for one in self.wrong]
        for is_right, (f, f_backward, shape), about, *hints in listed:
            errors = []
            for seed in range(INPUTS):
                x = np.random.default_rng(seed).standard_normal(shape)
                error = run_answer(answer, f, f_backward, x)
                if isinstance(error, Grade):
                    where = (f"  f(x) = {about}",) if error.outcome == WRONG else ()
                    return Grade(error.outcome, error.says, where, error.question, error.diagnosis)
                if error is None:
                    return Grade(WRONG, RETURNED_NONE)
                number = _number(error)
                if number.dtype.kind not in "iuf" or number.size != 1:
                    return Grade(WRONG, f"it returns {described(error)}, expected the relative error, one number.")
                errors.append(float(number.reshape(())))
                if errors[-1] < 0:  # checked here, as max(errors) below would hide a negative one
                    negative = (f"  f(x) = {about}", f"  got       {errors[-1]:.3g}")
                    return Grade(WRONG, "it returns a negative error.", negative, *SIGN)
            worst = next((error for error in errors if math.isnan(error)), max(errors))
            if not (worst < SMALL if is_right else worst > LARGE):
                says = "it rejects a correct backward." if is_right else "it accepts a wrong backward."
                bound = f"below {SMALL:g}" if is_right else f"above {LARGE:g}"
                lines = (f"  f(x) = {about}", f"  expected  an error {bound}", f"  got       {worst:.3g}")
                return Grade(WRONG, says, lines, *hints)
        counts = f"all {len(self.right)} correct backward functions and rejects all {len(self.wrong)} wrong ones."
        return Grade(RIGHT, f"right. It accepts {counts}")


def _number(x: Any) -> np.ndarray:
    """x as an array; an array of objects if NumPy cannot read it, as lists of different lengths or a GPU's tensor."""
    try:
        return np.asarray(x)
    except Exception:
        return np.asarray(None)
