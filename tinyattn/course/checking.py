"""`check` grades an answer, offline; `yours` returns an accepted answer, `buggy` a function with a bug to find."""

import difflib
from dataclasses import replace
from typing import Any

from .answers import EXERCISE, find_answer, keep
from .chapters import solution_of
from .exercise import DIAGNOSIS, QUESTION, RIGHT, SOLUTION, UNANSWERED, Exercise, Grade, Verdict
from .exercises import BY_NAME, varied
from .session import recorded, using

HINTS = (0, QUESTION, DIAGNOSIS, SOLUTION)


class UnknownExerciseError(ValueError):
    """A misspelt exercise. Notebooks show the message alone."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return [str(self)]


def check(name: str, answer: Any = ..., *, hint: int = 0, seed: int | None = None) -> Verdict:
    """Grade `answer`. -> a verdict: true if the answer is right, else it shows where the answer is wrong.

    The verdict on a wrong answer says whether its shape or its values are wrong, and shows a small counterexample, with
    the expected and the actual result. `hint` 1 adds a leading question, 2 the diagnosis, 3 the solution
    and its reason. `...` means that there is no answer yet. Functions are tried in this process on small random inputs,
    for a second or two. Later cells and later chapters get a right answer by `yours(name)`. A notebook whose numbers
    were drawn by a seed (`tinyattn course build --seed`) passes that seed.

    Raises ValueError for an unknown name, listing similar ones, for a hint other than 0 to 3, and for an invalid seed.
    """
    exercise = varied(find(name), seed)
    if isinstance(hint, bool) or hint not in HINTS:
        raise ValueError(f"hint is {hint!r}, expected 0, 1 (a question), 2 (the diagnosis) or 3 (the solution)")
    with using(name):
        grade = Grade(UNANSWERED, "not answered yet") if answer is ... else exercise.grader(answer)
    if grade.outcome == RIGHT:
        grade = replace(grade, not_kept=keep(exercise, answer))
    shows_solution = hint == SOLUTION and grade.outcome != RIGHT
    verdict = Verdict(exercise, grade, hint, solution_of(exercise) if shows_solution else "")
    if (verdicts := recorded()) is not None:
        verdicts.append(verdict)
    return verdict


def find(name: str) -> Exercise:
    """The exercise of that name. Raises ValueError, listing similar names, for an unknown one."""
    if not isinstance(name, str) or name not in BY_NAME:
        text = str(getattr(name, "__name__", name))                  # a function may be passed in place of its name
        near = difflib.get_close_matches(text, BY_NAME, n=3, cutoff=0.5)
        advice = f"near: {', '.join(near)}" if near else "`tinyattn course list` names them all"
        raise UnknownExerciseError(f"no exercise is called {name!r}; {advice}")
    return BY_NAME[name]


def yours(name: str) -> Any:
    """The reader's accepted answer to the exercise `name`, or else the library's function; prints which it is.

    The answer is called with copies of its arguments, and its results become arrays of the arguments' dtype. Raises
    ValueError for an unknown exercise, for one whose answer is not a function, and inside an answer to `name` itself.
    """
    exercise = find(name)
    if not hasattr(exercise.grader, "reference"):
        raise ValueError(f"{name} asks for {exercise.grader.asks}, and only functions can be used in later cells")
    with using(name):
        answer, problem = find_answer(exercise)
    if answer is None:
        print(f"{name}: the library's, {problem or 'until yours is accepted'}")
        return exercise.grader.reference()
    print(f"{name}: yours")
    wrapped = exercise.grader.wrapped(answer)
    setattr(wrapped, EXERCISE, name)
    return wrapped


def buggy(name: str, bug: str = "") -> Any:
    """The function with the bug that the property `name` must find; a tuple where the property takes several functions.

    `bug` names another bug of the zoo. Raises ValueError for an unknown exercise or bug, and for an exercise whose
    answer is not a property.
    """
    grader = find(name).grader
    if not hasattr(grader, "planted"):
        raise ValueError(f"{name} asks for {grader.asks}: only an exercise that asks for a property has a bug")
    return grader.planted(bug)
