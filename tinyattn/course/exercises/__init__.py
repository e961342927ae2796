"""The exercises: `EXERCISES` of every file chapter_NN.py in this folder."""

import functools
import importlib
import pkgutil

from ..exercise import Exercise
from ..prose import Prose
from ..variants import as_seed

BY_CHAPTER: dict[int, tuple[Exercise, ...]] = {
    int(name.removeprefix("chapter_")): importlib.import_module(f"{__name__}.{name}").EXERCISES
    for _, name, _ in pkgutil.iter_modules(__path__)
}
BY_NAME = {exercise.name: exercise for exercises in BY_CHAPTER.values() for exercise in exercises}
NUMBER_OF = {exercise.name: number for number, exercises in BY_CHAPTER.items() for exercise in exercises}


def varied(exercise: Exercise, seed: int | None) -> Exercise:
    """The exercise with the numbers that a seed draws; unchanged without a seed, or if nothing in it varies.

    Raises ValueError for an invalid seed.
    """
    return exercise if seed is None else _of_seed(NUMBER_OF[exercise.name], as_seed(seed)).get(exercise.name, exercise)


@functools.cache
def _of_seed(number: int, seed: int) -> dict[str, Exercise]:
    prose = Prose(number, seed)
    return {exercise.name: prose.varied(exercise) for exercise in BY_CHAPTER[number] if exercise.name in prose.values}
