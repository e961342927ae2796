"""Fill newly allocated memory with a fixed value, so that a trace does not show arbitrary numbers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

_LOCK = threading.Lock()
_PLAIN: dict[str, Callable[..., Any]] = {"empty": np.empty, "empty_like": np.empty_like}
_INSIDE = [0]                                       # number of active contexts, in all threads


@contextmanager
def blank_memory() -> Iterator[None]:
    """A `with` block, for the whole process, in which np.empty and np.empty_like return NaN, or 0 for other dtypes."""
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
