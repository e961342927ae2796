"""The exercises, a file for each chapter: every file with `CHAPTER` and `EXERCISES` counts."""

from __future__ import annotations

import importlib
import pkgutil

from ..exercise import Exercise

_MODULES = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
BY_CHAPTER: dict[int, tuple[Exercise, ...]] = {module.CHAPTER: module.EXERCISES for module in _MODULES}
BY_NAME = {exercise.name: exercise for exercises in BY_CHAPTER.values() for exercise in exercises}
