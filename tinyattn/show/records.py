"""The records of a run: entries, each with a value, and the calls that made them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backend import get_xp


@dataclass(eq=False)
class Entry:
    """One value of one name at one moment."""

    number: int
    name: str                  # as in the source; a field has a dotted name: cache.x_hat
    how: str                   # "input", "" (assigned), "in place", "returned", "allocated" (not yet filled) or
                               # "implied" (from a cache; no line computes it)
    value: np.ndarray          # a read-only copy
    dtype: str                 # "float" for a Python float
    call: "Call"
    line: int                  # the first line of the statement
    text: str                  # the statement's text

    @property
    def path(self) -> str:
        return f"{self.call.path}.{self.name}"


@dataclass(eq=False)
class Call:
    """One call of one function: its entries and inner calls, in order."""

    name: str
    file: str
    line: int                                              # the line of its def
    parent: "Call | None"
    called_at: tuple[int, str]                             # line and text of the calling statement
    label: str = ""                                        # its name; with #2 if the parent calls it a second time
    steps: "list[Entry | Call]" = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)    # every array passed in, by dotted name
    outputs: dict[str, np.ndarray] = field(default_factory=dict)   # every array returned
    renamed: dict[str, np.ndarray] = field(default_factory=dict)   # local name -> a value listed under another name
    listed: dict[str, Entry] = field(default_factory=dict)         # local name -> the entry that lists its value
    results: list[np.ndarray | None] = field(default_factory=list) # returned, in order; None for other objects
    signature: str = ""
    result_names: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    met: set[int] = field(default_factory=set)             # id() of each array and cache passed in or returned

    @property
    def path(self) -> str:
        return self.label if self.parent is None else f"{self.parent.path}.{self.label}"

    def outer(self) -> "Iterator[Call]":
        """The calls around this one, innermost first."""
        if self.parent is not None:
            yield self.parent
            yield from self.parent.outer()

    def entries(self) -> Iterator[Entry]:
        for step in self.steps:
            yield from step.entries() if isinstance(step, Call) else (step,)

    def calls(self) -> "Iterator[Call]":
        yield self
        for step in self.steps:
            if isinstance(step, Call):
                yield from step.calls()


def is_array(x: Any) -> bool:
    """Whether x is an array of numbers, NumPy's or CuPy's."""
    try:
        get_xp(x)
    except TypeError:
        return False
    return x is not None and x.dtype.kind in "biufc"


def array_leaves(value: Any, name: str, levels: int = 12) -> Iterator[tuple[str, Any]]:
    """(dotted name, array) of all arrays in a value: an array, or dicts, lists, tuples and named tuples of arrays."""
    if is_array(value):
        yield name, value
    elif levels and isinstance(value, dict | list | tuple):
        keys = value.keys() if isinstance(value, dict) else getattr(value, "_fields", range(len(value)))
        parts = value.values() if isinstance(value, dict) else value
        for key, part in zip(keys, parts, strict=True):
            yield from array_leaves(part, f"{name}.{key}", levels - 1)


def label_all(call: Call) -> None:
    """Label every call with its name, and with #2, #3, ... if its parent makes several calls of that name."""
    call.label = call.label or call.name
    inner = [s for s in call.steps if isinstance(s, Call)]
    for i, step in enumerate(inner):
        twins = [s for s in inner if s.name == step.name]
        step.label = step.name if len(twins) == 1 else f"{step.name}#{1 + sum(s.name == step.name for s in inner[:i])}"
        label_all(step)
