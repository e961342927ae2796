"""The base of layouts of SASRec in other libraries: options, and the places of parameters."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...files import FileError
from .layout import Entry
from .state_dict import StateDict


class SASRecLayout:
    """Base of the layouts: a new one is a file with a subclass, and a line in SASREC_LAYOUTS."""

    name: ClassVar[str]                  # the library
    items: ClassVar[str]                 # the name of the table of items, whose row 0 is padding
    first: ClassVar[str]                 # the name of a parameter of each block, with {} for the block's number
    required: ClassVar[dict[str, str]]        # options that no file holds, and what to set them to

    def options(self, state: StateDict, options: dict[str, Any]) -> dict[str, Any]:
        """The options of the SASRec. Raises FileError for a model that is not supported."""
        raise NotImplementedError

    def entries(self, network: Any) -> Iterator[Entry]:
        """Every parameter of a file; `ours` is empty for those that `finish` converts."""
        raise NotImplementedError

    def finish(self, network: Any, arrays: dict[str, np.ndarray], state: StateDict) -> None:
        """Write into `arrays` the parameters that are made from several of the file's, or from a part of one."""

    def ids(self, state: StateDict) -> list[Any] | None:
        """The ids of items 1, 2, 3, ..., where the file has them."""
        return None

    def shape(self, state: StateDict, name: str, axes: int) -> tuple[int, ...]:
        """The shape of a parameter. Raises FileError if it is missing, or has another number of axes."""
        if name not in state.parameters:
            raise FileError(f"{state.path} has no {name}, expected in {self.name}")
        shape = state.parameters[name].shape
        if len(shape) != axes or 0 in shape:
            raise FileError(f"{state.path}: {name} is {shape}, expected {axes} axes, none of them of length 0")
        return shape

    def blocks(self, state: StateDict) -> int:
        count = 0
        while self.first.format(count) in state.parameters:
            count += 1
        return count


def heads(theirs: str, ours: str, width: int) -> Iterator[Entry]:
    """torch.nn.MultiheadAttention: y = x Wᵀ + b, with W (out, in); its rows make queries, then keys, then values."""
    qkv = [f"{ours}.{name}" for name in ("query", "key", "value")]
    yield Entry(f"{theirs}.in_proj_weight", (3 * width, width), tuple(f"{name}.W" for name in qkv), np.transpose)
    yield Entry(f"{theirs}.in_proj_bias", (3 * width,), tuple(f"{name}.b" for name in qkv))
    yield from linear(f"{theirs}.out_proj", f"{ours}.output", width)


def linear(theirs: str, ours: str, width: int, kernel: tuple[int, ...] = ()) -> Iterator[Entry]:
    """A square torch.nn.Linear, or with `kernel` (1,) a Conv1d of one token, which is the same map."""
    turn = np.transpose if not kernel else lambda W: W[..., 0].T
    yield Entry(f"{theirs}.weight", (width, width, *kernel), (f"{ours}.W",), turn)
    yield Entry(f"{theirs}.bias", (width,), (f"{ours}.b",))
