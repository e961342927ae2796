"""Complete algorithms, a file each, of NumPy alone: nothing here is imported by the library, nor imports it."""

from __future__ import annotations

from pathlib import Path

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


def source(name: str) -> str:
    """The text of a page. Raises ValueError for a name that is not in NAMES."""
    if name not in NAMES:
        raise ValueError(f"there is no page {name!r}, expected one of {', '.join(NAMES)}")
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")


__all__ = ["NAMES", "source"]
