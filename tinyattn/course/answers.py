"""The reader's accepted answers, for further use: `yours("my_softmax")`.

They are kept in the process that accepted them and, where `tinyattn course build` has made a folder `answers` beside
the notebooks, in a file each, so that later chapters find them. A file holds the answer's source, and that of what it
uses: imports, other functions of the notebook, plain numbers. An answer that uses more, such as an array, is kept in
its own process only.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..files import write_atomically
from .checking import accepted, find
from .graders import Function, Property

FOLDER, MARK = "answers", "README.txt"
EXPLAINED = """Right answers of the course's exercises, one a file, as `check` accepted them.

Later chapters use them: yours("my_softmax") reads my_softmax.py here. Delete a file, and the library's own function
takes its place.
"""
_MODULE = "accepted_answer"          # __name__ in such a file, while it is used
_EXERCISE = "of_the_exercise"        # the attribute by which a function that `yours` has handed out is known


def yours(name: str) -> Any:
    """The reader's accepted answer to the exercise `name`, or the library's function where there is none.

    The answer is called with copies of its arguments, and its results are arrays in their dtype. Prints a line that
    says which. Raises ValueError for an unknown exercise, or one that asks for no function.
    """
    grader = find(name).grader
    if not isinstance(grader, Function):
        raise ValueError(f"{name} asks for {_asked(grader)}, and only functions can be used further")
    found, problem = accepted().get(name), ""
    if found is None:
        found, problem = _kept(name)
    if found is None:
        print(f"{name}: the library's, {problem or 'until yours is accepted'}")
        return grader.reference()
    print(f"{name}: yours")
    handed = grader.kindly(found)
    setattr(handed, _EXERCISE, name)
    return handed


def buggy(name: str, bug: str = "") -> Any:
    """The function with the bug that the property `name` is to find, to try the property on.

    A tuple where the property takes several functions; `bug` names another bug of the zoo. Raises ValueError for an
    unknown exercise or bug, or one that asks for no property.
    """
    grader = find(name).grader
    if not isinstance(grader, Property):
        raise ValueError(f"{name} asks for {_asked(grader)}: only the bugs that a property is to find are handed out")
    return grader.planted(bug)


def keep(name: str, answer: Any) -> str:
    """Write an accepted answer to the folder of answers, where there is one. -> why it cannot be kept, or ""."""
    folder = Path(FOLDER)
    if not (folder / MARK).is_file():
        return ""
    try:
        lines = _source(answer, {})
        answered = "" if answer.__name__ == name else f"\n\n{name} = {answer.__name__}"
        write_atomically(folder / f"{name}.py", f"{lines}{answered}\n".encode())
        return ""
    except _NotKeptError as error:
        why = str(error)
    except (OSError, TypeError, RecursionError) as error:
        why = f"its source cannot be had or written ({type(error).__name__}: {error})"
    (folder / f"{name}.py").unlink(missing_ok=True)  # an earlier answer is not this one
    return f"It is kept in this process only: {why}. Later notebooks use the library's."


def prepare(folder: Path) -> None:
    """Make the folder of answers beside the notebooks in `folder`."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    if not (folder / FOLDER / MARK).exists():
        write_atomically(folder / FOLDER / MARK, EXPLAINED.encode())


class _NotKeptError(Exception):
    """An answer that uses something of which no source can be written."""


def _kept(name: str) -> tuple[Any, str]:
    """-> the answer in the folder of answers, or None and what is wrong with the file, if there is one."""
    path = Path(FOLDER) / f"{name}.py"
    if not path.is_file():
        return None, ""
    space: dict[str, Any] = {"__name__": _MODULE}
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
        return space[name], ""
    except Exception as error:
        return None, f"since {path} cannot be used ({type(error).__name__}: {error})"


def _source(f: Any, done: dict[str, Any]) -> str:
    """The source of a function of a notebook, after that of everything it uses."""
    if not isinstance(f, FunctionType) or f.__name__ == "<lambda>":
        raise _NotKeptError("it is not written as a function with `def`")
    if f.__closure__ or hasattr(f, "__wrapped__"):
        raise _NotKeptError(f"`{f.__name__}` is made by another function")
    done[f.__name__] = f
    parts = []
    for name in sorted(_names(f.__code__) & f.__globals__.keys()):
        value = f.__globals__[name]
        if name in done:
            if done[name] is not value:
                raise _NotKeptError(f"`{name}` means two things in it")
            continue
        parts.append(_written(name, value, done))
    return "\n\n".join(filter(None, (*parts, textwrap.dedent(inspect.getsource(f)).rstrip())))


def _written(name: str, value: Any, done: dict[str, Any]) -> str:
    """One line, or a function, that gives `name` this value."""
    if hasattr(value, _EXERCISE):
        done[name] = value
        return f"from tinyattn.course import yours\n\n{name} = yours({getattr(value, _EXERCISE)!r})"
    if isinstance(value, FunctionType) and value.__module__ == "__main__" and value.__name__ == name:
        return _source(value, done)
    done[name] = value
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    with contextlib.suppress(ValueError, SyntaxError, TypeError):
        if ast.literal_eval(repr(value)) == value:                   # numbers, strings, tuples of them
            return f"{name} = {value!r}"
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if module in (None, "__main__", _MODULE) or not own.isidentifier():
        raise _NotKeptError(f"it uses `{name}`, which is no function, module or plain number")
    return f"from {module} import {own} as {name}"


def _names(code: CodeType) -> set[str]:
    """The names that a function looks up, those of functions within it too."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _asked(grader: Any) -> str:
    return "a property" if isinstance(grader, Property) else "a number"
