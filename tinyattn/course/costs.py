"""What a call costs, counted and not timed: counts are the same on every machine, and an answer is graded by them."""

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any


def steps(f: Callable[..., Any], *args: Any) -> int:
    """The steps of Python's interpreter (bytecodes) in the second call of f. NumPy's work inside of a call is no step.

    The first call may import, or check shapes that a later one knows.
    """
    count = 0

    def follow(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return follow

    f(*args)
    before = sys.gettrace()
    sys.settrace(follow)
    try:
        f(*args)
    finally:
        sys.settrace(before)
    return count


def counted(count: Callable[..., Any], f: Callable[..., Any], *args: Any) -> Any:
    """count(f, *args), in the process of f where that is another one: `course grade` runs no answer in its own."""
    there = getattr(f, "there", None)
    return there(count, *args) if there else count(f, *args)


def peak(f: Callable[..., Any], *args: Any) -> int:
    """The most bytes that a call of f holds at a time, beside its arguments: the smaller number of two calls.

    Other threads' memory counts, too; it is seldom there twice.
    """
    most = []
    for _ in range(2):
        tracemalloc.start()
        try:
            f(*args)
            most.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(most)
