"""The bug zoo: right implementations, and what every known bug changes in their code.

One file per spec, with `BUGS` and `make(switches) -> implementation with these bugs`; switches can be combined. The
bugs are in a TOML file of the same name.
"""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from .bug import Bug


class _Zoo(Mapping[str, ModuleType]):
    """The modules by kind, each imported at its first use."""

    kinds = sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))

    def __getitem__(self, kind: str) -> ModuleType:
        if kind not in self.kinds:
            raise KeyError(kind)
        return importlib.import_module(f"{__name__}.{kind}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)


ZOO: Mapping[str, ModuleType] = _Zoo()

__all__ = ["ZOO", "Bug"]
