"""The cost of a call, counted rather than timed: answers are graded by it, and counts are equal on every machine."""

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any


def steps(f: Callable[..., Any], *args: Any) -> int:
    """The steps (bytecodes) that Python executes in a call of f. The work inside NumPy's functions is not counted.

    f is called twice, and the second call is counted: the first may import modules or fill caches.
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
    """count(f, *args), computed in the process in which f runs: `course grade` runs answers in another process."""
    there = getattr(f, "there", None)
    return there(count, *args) if there else count(f, *args)


def peak(f: Callable[..., Any], *args: Any) -> int:
    """The peak memory of a call of f in bytes, without its arguments: the smaller number of two calls.

    Memory that other threads allocate is counted too, but rarely in both calls.
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
