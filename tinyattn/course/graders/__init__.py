"""Graders of answers, a file for each form of answer: a number, a function, a checker of gradients, a
property of ops that the zoo has bugs of, and one of functions that the exercise lists.

They run in the reader's own process, offline; what the answer prints is discarded. They ask what `tinyattn check` asks,
and are kinder: a right answer is right in another dtype, as lists, or where it writes into what it is given.

A grader is called with the answer and returns a `Grade`. `asks` says for what; one whose answer can be used further has
`reference()`, the library's function in its place, and `kindly(answer)`, the answer as it is handed back.
"""

from .checker import Checker, Pair
from .function import Function
from .judge import Judge, Judged
from .number import Number
from .property import Property

__all__ = ["Checker", "Function", "Judge", "Judged", "Number", "Pair", "Property"]
