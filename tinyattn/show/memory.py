"""Memory that is allocated and not filled, with a value of its own: else a trace shows whatever was there before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

_LOCK = threading.Lock()
_PLAIN: dict[str, Callable[..., Any]] = {"empty": np.empty, "empty_like": np.empty_like}
_INSIDE = [0]                                       # how many traces are under way, in whatever threads


@contextmanager
def blank_memory() -> Iterator[None]:
    """Inside of it np.empty and np.empty_like give arrays of NaN, or of 0 where there is no NaN.

    Code that reads nothing before it has written it computes the same. It holds for the whole process.
    """
    _count(+1)
    try:
        yield
    finally:
        _count(-1)


def _count(more: int) -> None:
    with _LOCK:
        _INSIDE[0] += more
        for name, allocate in _PLAIN.items():
            setattr(np, name, _blank(allocate) if _INSIDE[0] else allocate)


def _blank(allocate: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(allocate)
    def blank(*args: Any, **kwargs: Any) -> Any:
        memory = allocate(*args, **kwargs)
        if type(memory) is np.ndarray and memory.dtype.kind in "fciub":
            memory.fill(np.nan if memory.dtype.kind in "fc" else 0)
        return memory

    return blank
