"""The reader's accepted answers, kept for `yours`.

The process that accepted an answer keeps it. If `tinyattn course build` has made a folder `answers` beside the
notebooks, the answer is also written to a file there, for later chapters: its source, and the source of everything that
it uses (imports, other functions of the notebook, plain numbers). The source is executed and graded before it is
written, so that later notebooks get the function that was accepted.
"""

import ast
import contextlib
import dis
import inspect
import io
import linecache
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..files import write_atomically
from .exercise import RIGHT, Exercise
from .session import accepted, recorded, using

FOLDER, MARK = "answers", "README.txt"
EXPLAINED = """Right answers of the course's exercises, a file for each, as `check` accepted them.

Later chapters use them: yours("my_softmax") reads my_softmax.py here. Delete a file, and in notebooks that are started
afterwards the library's function takes its place.
"""
_MODULE = "accepted_answer"          # __name__ in such a file, while it is used
EXERCISE = "of_the_exercise"         # attribute of a function that `yours` returned: the name of its exercise


def keep(exercise: Exercise, answer: Any) -> str:
    """Keep an accepted answer in this process and, if the folder of answers exists, in a file.

    -> the reason why a later notebook cannot use it, or "". An error with the file does not change the verdict.
    """
    if not hasattr(exercise.grader, "reference"):
        return ""
    accepted()[exercise.name] = answer
    if recorded() is not None:
        return ""
    try:
        if not (Path(FOLDER) / MARK).is_file():
            return ""
        text, defined = _source(answer, {})
        text += "\n" if defined == exercise.name else f"\n\n\n{exercise.name} = {defined}\n"
        with using(exercise.name):
            again = read_answer(exercise.name, text)
            if exercise.grader(again).outcome != RIGHT:
                raise _NotKeptError("its source, read back, is another function")
        write_atomically(Path(FOLDER) / f"{exercise.name}.py", text.encode())
        accepted()[exercise.name] = again  # a copy: the notebook may redefine what the answer uses
        return ""
    except _NotKeptError as error:
        why = str(error)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
    later = "your earlier answer" if (Path(FOLDER) / f"{exercise.name}.py").is_file() else "the library's function"
    return f"It is kept in this process only: {why}. Later notebooks use {later}."


def find_answer(exercise: Exercise) -> tuple[Any, str]:
    """-> the answer accepted in this process, or else that in the folder, or None; the problem with its file, or ""."""
    if exercise.name in accepted():
        return accepted()[exercise.name], ""
    path = Path(FOLDER) / f"{exercise.name}.py"
    if not (Path(FOLDER) / MARK).is_file() or not path.is_file():
        return None, ""
    try:
        return read_answer(exercise.name, path.read_text(encoding="utf-8")), ""
    except Exception as error:
        message = str(error).partition("\n")[0]
        return None, f"since {path} cannot be used ({type(error).__name__}: {message})"


def expect_room(folder: Path) -> None:
    """Raises ValueError if something other than a folder stands where the folder of answers belongs."""
    made = folder / FOLDER
    in_the_way = made.is_symlink() or made.exists()
    if (in_the_way and not made.is_dir()) or (made / MARK).is_dir():
        raise ValueError(f"{made} is in the way, expected a folder for accepted answers")


def prepare(folder: Path) -> None:
    """Make the folder of answers beside the notebooks in `folder`."""
    made = folder / FOLDER
    made.mkdir(parents=True, exist_ok=True)
    if not (made / MARK).exists():
        write_atomically(made / MARK, EXPLAINED.encode())


class _NotKeptError(Exception):
    """An answer cannot be written to a file."""


def read_answer(name: str, text: str) -> Callable[..., Any]:
    """Run a text as a separate module. -> its function `name`. Raises what the text raises."""
    space: dict[str, Any] = {"__name__": _MODULE}
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(text.removeprefix("\ufeff"), f"{FOLDER}/{name}.py", "exec", dont_inherit=True), space)
        except SystemExit as error:
            raise ValueError("it exits") from error
    if not callable(space.get(name)):
        raise ValueError(f"it defines no function {name}")
    return space[name]


def _source(value: Any, done: dict[str, Any]) -> tuple[str, str]:
    """-> the source of a notebook's function or class, preceded by that of everything it uses; the name it defines."""
    text, name, space = _definition(value)
    done[name] = value
    parts = []
    for used in sorted(_names(compile(text, FOLDER, "exec", dont_inherit=True)) & space.keys()):
        if used not in done:
            parts.append(_written(used, space[used], done))
        elif done[used] is not space[used]:
            raise _NotKeptError(f"`{used}` means two things in it")
    return "\n\n\n".join(filter(None, (*parts, text))), name


def _definition(value: Any) -> tuple[str, str, dict[str, Any]]:
    """-> the source of the function or class alone, the name that it defines, and its globals."""
    f = inspect.unwrap(value)
    if isinstance(value, type):
        methods = [x for x in map(inspect.unwrap, vars(value).values()) if isinstance(x, FunctionType)]
        for method in methods:
            text = _class_around(method.__code__, value.__name__)
            if text:
                return text, value.__name__, method.__globals__
        raise _NotKeptError(f"the source of its class `{value.__name__}` cannot be read")
    if not isinstance(f, FunctionType):
        raise _NotKeptError("it is not written as a function with `def`")
    text = textwrap.dedent(inspect.getsource(f)).rstrip()
    if f.__name__ == "<lambda>":
        with contextlib.suppress(SyntaxError):
            match ast.parse(text).body:
                case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda())]:
                    return text, name, f.__globals__
        raise _NotKeptError("it is not written as a function with `def`")
    if f.__closure__ or (f is not value and not text.startswith("@")):
        raise _NotKeptError(f"`{f.__name__}` is made by another function")
    return text, f.__name__, f.__globals__


def _class_around(method: CodeType, name: str) -> str:
    """The source of the class `name` with this method, or "". (`inspect` does not find classes of notebooks.)"""
    lines = linecache.getlines(method.co_filename)
    with contextlib.suppress(SyntaxError):
        for node in ast.parse("".join(lines)).body:
            if isinstance(node, ast.ClassDef) and node.name == name and node.end_lineno is not None:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first <= method.co_firstlineno <= node.end_lineno:
                    return "".join(lines[first - 1 : node.end_lineno]).rstrip()
    return ""


def _written(name: str, value: Any, done: dict[str, Any]) -> str:
    """Source code that defines `name` with this value."""
    if hasattr(value, EXERCISE):
        done[name] = value
        return f"from tinyattn.course import yours\n\n{name} = yours({getattr(value, EXERCISE)!r})"
    module, attribute = getattr(value, "__module__", None), getattr(value, "__name__", "")
    here = module in ("__main__", _MODULE)
    if here and (isinstance(value, type) or isinstance(inspect.unwrap(value), FunctionType)):
        text, defined = _source(value, done)
        return text if defined == name else f"{text}\n\n\n{name} = {defined}"
    done[name] = value
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, float):
        return f"{name} = float({str(value)!r})"
    with contextlib.suppress(ValueError, SyntaxError, TypeError):
        if ast.literal_eval(repr(value)) == value:                   # numbers, strings, tuples of them
            return f"{name} = {value!r}"
    if here or getattr(sys.modules.get(module or ""), attribute, None) is not value or not attribute.isidentifier():
        raise _NotKeptError(f"it uses `{name}`, which is no function, class, module or plain number")
    return f"from {module} import {attribute} as {name}"


def _names(code: CodeType) -> set[str]:
    """The global names that the code looks up, functions and classes in it included."""
    outer = {str(step.argval) for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return {name for name in outer.union(*inner) if not name.startswith("__")}
