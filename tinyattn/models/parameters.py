"""Parameters by name, for files, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backend
from ..random import Stream, generator
from ..tree import flatten, leaves

PREFIX = "parameters."


def named(p: Any) -> dict[str, np.ndarray]:
    """The leaves on the host, by dotted name."""
    return {f"{PREFIX}{name}": backend.to_numpy(leaf) for name, leaf in leaves(p)}


def restored(network: Any, arrays: dict[str, np.ndarray], seed: int, device: str) -> Any:
    """The tree that `named` made these of, on `device`. Raises ValueError for an array missing, misshapen or extra."""
    _, p = flatten(network.init(generator(seed, Stream.INIT)), np.float32, backend.module_for(device))
    wanted = {f"{PREFIX}{name}": leaf for name, leaf in leaves(p)}
    if set(wanted) != set(arrays):
        raise ValueError(f"{min(set(wanted) ^ set(arrays))} is missing, or not a parameter of this configuration")
    for name, leaf in wanted.items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != np.float32 or not np.all(np.isfinite(found)):
            raise ValueError(f"{name} is {found.shape} {found.dtype}, expected {leaf.shape} finite float32 numbers")
        leaf[...] = backend.asarray(found, like=leaf)
    return p
