"""The exercises, one file a chapter; a new file with `CHAPTER` and `EXERCISES` is found by being there."""

from __future__ import annotations

import importlib
import pkgutil

from ..exercise import Exercise


def _found() -> dict[int, tuple[Exercise, ...]]:
    modules = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return {module.CHAPTER: module.EXERCISES for module in sorted(modules, key=lambda module: module.CHAPTER)}


BY_CHAPTER = _found()
BY_NAME = {exercise.name: exercise for exercises in BY_CHAPTER.values() for exercise in exercises}
