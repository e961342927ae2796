"""The exercises: `EXERCISES` of every file chapter_NN.py in this folder."""

from __future__ import annotations

import importlib
import pkgutil

from ..exercise import Exercise

BY_CHAPTER: dict[int, tuple[Exercise, ...]] = {
    int(name.removeprefix("chapter_")): importlib.import_module(f"{__name__}.{name}").EXERCISES
    for _, name, _ in pkgutil.iter_modules(__path__)
}
BY_NAME = {exercise.name: exercise for exercises in BY_CHAPTER.values() for exercise in exercises}
