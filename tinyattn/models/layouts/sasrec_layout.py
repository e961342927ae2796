"""What a layout of SASRec in other libraries says: which options compute it, and where each parameter goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...files import FileError
from .layout import Entry
from .state_dict import StateDict


class SASRecLayout:
    """Base: a new one is a file with a subclass, and a line in SASREC_LAYOUTS."""

    name: ClassVar[str]                  # the library
    items: ClassVar[str]                 # the name of the table of items, row 0 of which is padding
    first: ClassVar[str]                 # of a parameter that every block has, with {} for its number
    asked_for: ClassVar[dict[str, str]]       # options that no file holds, and the message where one is missing

    def options(self, found: StateDict, options: dict[str, Any]) -> dict[str, Any]:
        """The options of the SASRec that computes this. Raises FileError, naming what it is, where none does."""
        raise NotImplementedError

    def entries(self, network: Any) -> Iterator[Entry]:
        """Every parameter that a file must have; `ours` is empty where `finish` makes something of it."""
        raise NotImplementedError

    def finish(self, network: Any, arrays: dict[str, np.ndarray], found: StateDict) -> None:
        """Parameters made of several, or of a part of one: written into `arrays`, by our names."""

    def ids(self, found: StateDict) -> list[Any] | None:
        """The ids of items 1, 2, 3, ..., where the file has them."""
        return None

    def shape(self, found: StateDict, name: str, axes: int) -> tuple[int, ...]:
        """That of a parameter which has so many axes. Raises FileError where it is missing, or has others."""
        if name not in found.found:
            raise FileError(f"{found.path} has no {name}, expected in {self.name}")
        shape = found.found[name].shape
        if len(shape) != axes or 0 in shape:
            raise FileError(f"{found.path}: {name} is {shape}, expected {axes} axes, none of them of length 0")
        return shape

    def blocks(self, found: StateDict) -> int:
        count = 0
        while self.first.format(count) in found.found:
            count += 1
        return count


def heads(theirs: str, ours: str, width: int) -> Iterator[Entry]:
    """torch.nn.MultiheadAttention: y = x Wᵀ + b, with W (out, in), and queries, keys and values one below the other."""
    qkv = [f"{ours}.{name}" for name in ("query", "key", "value")]
    yield Entry(f"{theirs}.in_proj_weight", (3 * width, width), tuple(f"{name}.W" for name in qkv), np.transpose)
    yield Entry(f"{theirs}.in_proj_bias", (3 * width,), tuple(f"{name}.b" for name in qkv))
    yield from linear(f"{theirs}.out_proj", f"{ours}.output", width)


def linear(theirs: str, ours: str, width: int, kernel: tuple[int, ...] = ()) -> Iterator[Entry]:
    """torch.nn.Linear, or with `kernel` (1,) a Conv1d of one token, which is the same map. As wide as it is long."""
    turn = np.transpose if not kernel else lambda W: W[..., 0].T
    yield Entry(f"{theirs}.weight", (width, width, *kernel), (f"{ours}.W",), turn)
    yield Entry(f"{theirs}.bias", (width,), (f"{ours}.b",))
