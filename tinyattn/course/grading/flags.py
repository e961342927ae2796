"""Flags: what a lecturer may want to look at in the text of an answer. They change no mark."""

import ast
import copy
import functools
import hashlib
import re
from collections.abc import Iterator

from ..chapters import chapters
from ..exercise import Exercise
from ..exercises import NUMBER_OF
from .submission import Slice, Source, from_text

LONG = 60  # nodes of a syntax tree: shorter functions are often alike without having been copied
# Modules and functions that no answer needs.
UNUSUAL = {
    "sys", "os", "inspect", "gc", "ctypes", "importlib", "subprocess", "socket", "shutil", "builtins", "marshal",
    "pickle", "multiprocessing", "threading", "signal", "resource", "_posixsubprocess", "traceback", "atexit", "types",
    "eval", "exec", "compile", "__import__", "open", "globals", "vars", "getattr", "setattr",
}  # fmt: skip
_HELPERS = "tinyattn.course."


def flags_of(exercise: Exercise, answer: Slice, source: Source, module: str) -> Iterator[str]:
    """The flags of an answer. `module` is the module of the answer's value, as the answer's process reports it."""
    used = set(library_names(answer.statements, answer.expression)) - _of_solution(exercise.name)
    if module.startswith("tinyattn.") and not any(name.endswith(module.rpartition(".")[2]) for name in used):
        used.add(module)
    used = {name for name in used if not any(other.startswith(f"{name}.") for other in used)}
    if used:
        yield f"uses {', '.join(sorted(name.removeprefix('tinyattn.') for name in used))} of the library"
    if re.search(rf"\byours\(\s*[\"']{exercise.name}[\"']", answer.text + answer.asked):
        yield f"hands in yours({exercise.name!r})"
    unusual = sorted(set(_unusual(answer)))
    if unusual:
        yield f"unusual: {', '.join(unusual)}"
    hints = re.findall(rf"check\(\s*[\"']{exercise.name}[\"'][^\n]*hint\s*=\s*(\d)", source.text)
    verdict = re.search(rf"^[✗·] {exercise.name}: (?:.|\n)*?^the solution:$", source.shown, re.M)
    level = max([*map(int, hints), 3 * bool(verdict)]) if hints or verdict else 0
    if level:
        yield f"hint {level}"
    if fingerprint(answer) and fingerprint(answer) == fingerprint(solution(exercise.name)):
        yield "the chapter's solution, but for names and layout"


def fingerprint(answer: Slice | None) -> str:
    """A hash, equal for answers that differ only in names, docstrings and layout; "" for short answers."""
    if answer is None:
        return ""
    nodes = [copy.deepcopy(s) for s in answer.statements if not isinstance(s, ast.Import | ast.ImportFrom)]
    if not any(isinstance(node, ast.FunctionDef | ast.Lambda) for s in nodes for node in ast.walk(s)):
        return ""
    tree = ast.Module(nodes, [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and len(node.body) > 1 and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    if sum(1 for _ in ast.walk(tree)) < LONG:
        return ""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        for field in ("id", "arg", "name"):
            if isinstance(getattr(node, field, None), str):
                setattr(node, field, names.setdefault(getattr(node, field), f"n{len(names)}"))
        for field in ("returns", "annotation"):
            if getattr(node, field, None) is not None:
                setattr(node, field, None)
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:24]


def library_names(statements: list[ast.stmt], *more: ast.AST) -> Iterator[str]:
    """The dotted names of the library's functions that statements use, except the course's, such as `check`."""
    places: dict[str, str] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                places |= {(a.asname or a.name.partition(".")[0]): a.name if a.asname else a.name.partition(".")[0]
                           for a in node.names}  # fmt: skip
            elif isinstance(node, ast.ImportFrom) and node.module:
                places |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    for node in (n for part in (*statements, *more) for n in ast.walk(part)):
        tail, inner = list[str](), node
        while isinstance(inner, ast.Attribute):
            tail.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and places.get(inner.id, "").partition(".")[0] == "tinyattn":
            name = ".".join([places[inner.id], *tail])
            is_module = isinstance(node, ast.Name) and name.count(".") <= 1
            if not is_module and not name.startswith(_HELPERS):
                yield name


def _unusual(answer: Slice) -> Iterator[str]:
    for node in (n for part in (*answer.statements, answer.expression) for n in ast.walk(part)):
        match node:
            case ast.Name(id=name) if name in UNUSUAL:
                yield name
            case ast.Import(names=names):
                yield from (a.name for a in names if a.name.partition(".")[0] in UNUSUAL)
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in UNUSUAL:
                yield module
            case ast.Attribute(attr=name) if re.fullmatch(r"__\w+__|f_\w+|tb_\w+|gi_\w+", name):
                yield name


@functools.cache
def _solved(number: int) -> Source:
    chapter = chapters([number])[0]
    return from_text(chapter.path.name, [chapter.solved()])


@functools.cache
def solution(name: str) -> Slice | None:
    """The chapter's solution of an exercise."""
    return _solved(NUMBER_OF[name]).answer(name)


@functools.cache
def _of_solution(name: str) -> frozenset[str]:
    made = solution(name)
    return frozenset(library_names(made.statements, made.expression)) if made else frozenset()
