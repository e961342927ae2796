"""Graders of answers, a file for each form of answer: a number, a function, a checker of gradients, a property that
finds a bug of the zoo, a property that is tried on functions listed by the exercise.

They run offline in the reader's process and discard the answer's prints. They test what `tinyattn check` tests, but
also accept an answer that returns lists or another dtype, or writes into its arguments.

A grader is called with the answer and returns a `Grade`. `asks` names the form of answer. If later cells can call the
answer, `reference()` is the library's function, and `wrapped(answer)` is the function that later cells get.
"""

from .checker import Checker
from .function import Function
from .judge import Judge
from .number import Number
from .property import Property

__all__ = ["Checker", "Function", "Judge", "Number", "Property"]
