"""The folder of the chapters' sources, and of the strings of their exercises."""

from __future__ import annotations

from pathlib import Path


def folder() -> Path:
    """The folder of the sources: beside this file in an installed package, notebooks/ in a checkout."""
    installed = Path(__file__).parent / "chapters"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "notebooks"
