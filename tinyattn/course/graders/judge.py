"""Grades a property by right and wrong functions, which the exercise lists."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..exercise import RIGHT, WRONG, Grade
from .calling import ALWAYS_NONE, Listed, as_truth, ask_property, no_function

RUNS = 3                # calls with each function, as a property may draw random inputs


@dataclass(frozen=True)
class Judge:
    """Grades a property: `answer(f, *more)` must be true of the functions in `right` and false of those in `wrong`.

    An answer returns a bool, or asserts and returns nothing. Each function comes with a description, a question and a
    diagnosis, which are shown if the answer misjudges that function. `holds` is a correct property.
    """

    holds: Callable[..., bool]
    right: Listed
    wrong: Listed
    more: tuple[Any, ...] = ()

    asks = "a property"

    def across_processes(self) -> "Judge":
        """This grader without wrong functions whose fault is invisible in another process (attribute `in_memory`)."""
        return replace(self, wrong=tuple(one for one in self.wrong if not hasattr(one[0], "in_memory")))

    def reference(self) -> Callable[..., Any]:
        return self.holds

    def wrapped(self, answer: Callable[..., Any]) -> Callable[..., bool]:
        """The answer for later cells: it returns True or False."""
        holds = as_truth(answer)
        return lambda *args: bool(holds(*args))

    def __call__(self, answer: Any) -> Grade:
        if not callable(answer):
            return no_function(answer)
        always_none = True
        listed = [(True, *one) for one in self.right] + [(False, *one) for one in self.wrong]
        for is_right, f, says, *hints in listed:
            for _ in range(RUNS):
                holds, _ = ask_property(answer, f, *self.more)
                if isinstance(holds, Grade):
                    return holds
                always_none &= holds is None
                if is_right and holds is False:
                    return Grade(WRONG, "it is false of what is right.", (f"  {says}",), *hints)
                if not is_right and holds is not False:
                    true_of_wrong = Grade(WRONG, "it is true of what is wrong.", (f"  {says}",), *hints)
                    return ALWAYS_NONE if always_none else true_of_wrong
        right, wrong = (f"{len(x)} that {'is' if len(x) == 1 else 'are'}" for x in (self.right, self.wrong))
        return Grade(RIGHT, f"right. It is true of {right} right, and false of {wrong} wrong.")
