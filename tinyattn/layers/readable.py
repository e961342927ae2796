"""Which of two equal forms computes: the faster one, unless the readable one is asked for, as `trace` does.

    with readable():
        y, cache = block.forward(p, x)           layer_norm, linear, softmax one after the other, and no norm_linear

It holds for what the calling thread runs inside of the `with`, and decides for forwards alone: a backward goes by the
cache that it is given, so a cache made in one form may be handed over to either side of the `with`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_READABLE: ContextVar[bool] = ContextVar("readable", default=False)


@contextmanager
def readable(wanted: bool = True) -> Iterator[None]:
    """Inside of it the readable forms compute; with False the faster ones."""
    before = _READABLE.set(wanted)
    try:
        yield
    finally:
        _READABLE.reset(before)


def is_readable() -> bool:
    """Is the readable form asked for?"""
    return _READABLE.get()
