"""A formula whose source can be changed, to find a change that reproduces the wrong numbers of an implementation.

It is an oracle, a function of plain.py, or a backward of the library. All functions that it calls share a separate
namespace, in which changed versions replace them. mutants.py makes changes by rule, slips.toml has known ones.
"""

import __future__

import ast
import contextlib
import copy
import functools
import inspect
import math
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .rules import parsed
from .spec import Spec

FLAGS = __future__.annotations.compiler_flag
Slot = tuple[ast.AST, str, int | None]  # a node, its field, and an index if that is a list


@dataclass(frozen=True)
class Mutant:
    """One change of one function: `new` goes into the slot. `says` describes it in words.

    `place` is FILE:LINE. `rank` is 0 for the plainest changes. `hint` is the question in the line's comment, if any.
    """

    function: str
    place: str
    says: str
    rank: int
    slot: Slot = field(repr=False, compare=False)
    new: Any = field(repr=False, compare=False)
    hint: str = ""


class Formula:
    """Functions, with those that they call in the modules `within`, in a namespace where each can be changed."""

    def __init__(self, *entries: Callable[..., Any], within: str):
        self.space: dict[str, Any] = {"math": math}
        self.places: dict[str, tuple[str, int]] = {}  # file, and the number of lines above
        self.trees: dict[str, ast.FunctionDef] = {}
        self.words: dict[str, dict[int, tuple[str, str]]] = {}  # by line: what it computes, and a question
        self.entries, self.within = [inspect.unwrap(entry) for entry in entries], within
        for entry in self.entries:
            self._collect(entry)
            self.space = entry.__globals__ | self.space  # what a change may call
        for tree in self.trees.values():
            self._define(tree)
        self.space |= {f"once_{entry.__name__}": self.space[entry.__name__] for entry in self.entries}

    def _collect(self, function: types.FunctionType) -> None:
        lines, first = inspect.getsourcelines(function)
        tree = parsed(textwrap.dedent("".join(lines)))
        tree.decorator_list = []
        if isinstance(tree.body[0], ast.Expr) and len(tree.body) > 1:
            del tree.body[0]  # the docstring
        self.trees[function.__name__] = tree
        words = {i: re.search(r"  # ([^:]+): (.+\?)$", line) for i, line in enumerate(lines, 1)}
        self.words[function.__name__] = {i: (found[1], found[2]) for i, found in words.items() if found}
        self.places[function.__name__] = (Path(function.__code__.co_filename).name, first - 1)
        for used in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}):
            value = function.__globals__.get(used)
            inner = inspect.unwrap(value) if callable(value) else value
            if isinstance(inner, types.FunctionType) and inner.__module__.startswith(self.within):
                if used not in self.trees:
                    self._collect(inner)
            elif used in function.__globals__:
                self.space.setdefault(used, value)

    def _define(self, tree: ast.FunctionDef) -> None:
        exec(compile(ast.Module([tree], []), "<mutant>", "exec", FLAGS, True), self.space)

    def function(self, i: int = 0) -> Callable[..., Any]:
        """Entry i; a call computes with the changes that are in force at that time."""
        entry = self.entries[i]

        @functools.wraps(entry)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.space[entry.__name__](*args, **kwargs)

        return call

    @contextlib.contextmanager
    def mutated(self, mutants: list[Mutant]) -> Iterator[None]:
        """Within the block, the functions have these changes."""
        names = {mutant.function for mutant in mutants}
        before = {name: self.space[name] for name in names}
        try:
            with put(*((m.slot, m.new) for m in mutants)):
                for mutant in mutants:  # only new nodes have no line numbers
                    for new in mutant.new if isinstance(mutant.new, list) else [mutant.new]:
                        ast.fix_missing_locations(new)
                for name in names:
                    self._define(self.trees[name])
            yield
        finally:
            self.space.update(before)

    def source(self, name: str, mutants: tuple[Mutant, ...] = ()) -> str:
        """The text of a function without its docstring, and with these changes."""
        with put(*((m.slot, m.new) for m in mutants)):
            return ast.unparse(ast.fix_missing_locations(self.trees[name]))

    def patched(self, says: str, changes: tuple[tuple[str, str], ...]) -> list[Mutant]:
        """The mutants that make these changes of text; none if a text is not in the functions."""
        texts = {n: ast.unparse(tree) for n, tree in self.trees.items()}
        touched = {}
        for old, new in changes:
            name = next((n for n, text in texts.items() if old in text), None)
            if name is None:
                return []
            texts[name] = texts[name].replace(old, new)
            touched[name] = parsed(texts[name]).body
        return [Mutant(name, "", says, 0, (self.trees[name], "body", None), body) for name, body in touched.items()]

    def values(self, run: Callable[[], Any]) -> dict[str, dict[str, Any]]:
        """By function: the values of its names and plain subscripts when it returns, and its result ("return")."""
        wanted = {n: _atoms(tree) for n, tree in self.trees.items()}
        owner = {inner.name: n for n, tree in self.trees.items() for inner in ast.walk(tree)
                 if isinstance(inner, ast.FunctionDef)}  # fmt: skip
        values: dict[str, dict[str, Any]] = {n: {} for n in self.trees}

        def look(frame: Any, event: str, arg: Any) -> None:
            if event == "return" and frame.f_code.co_filename == "<mutant>" and frame.f_code.co_name in owner:
                of = owner[frame.f_code.co_name]
                if of == frame.f_code.co_name:
                    values[of]["return"] = arg
                for text in wanted[of]:
                    with contextlib.suppress(Exception):
                        values[of][text] = eval(text, frame.f_globals, frame.f_locals)

        before = sys.getprofile()
        sys.setprofile(look)
        try:
            run()
        finally:
            sys.setprofile(before)
        return values


def of_backward(spec: Spec) -> tuple[Formula, Any] | None:
    """The library's backward as a formula, and an implementation that calls it; None if it is no function of ops/."""
    ours, name = spec.ours(), f"{spec.function}_backward"
    backward = getattr(ours, name, None)
    if backward is None or not backward.__module__.startswith("tinyattn.ops"):
        return None
    formula = Formula(backward, within=backward.__module__)
    return formula, types.SimpleNamespace(**{spec.function: getattr(ours, spec.function), name: formula.function()})


def atom(node: Any) -> str:
    """The text of a node that reads a name or a subscript of a name; else ""."""
    plain = isinstance(node, ast.Name) or (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name))
    return ast.unparse(node) if plain and isinstance(node.ctx, ast.Load) else ""


def _atoms(tree: ast.AST) -> set[str]:
    every = {atom(node) for node in ast.walk(tree)} - {""}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return every | stored | {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}


def text_of(node: ast.AST) -> str:
    """The source of an expression or a statement on one line; the head of a statement with a body."""
    head: Any = copy.copy(node)
    head.lineno = 1  # ast.unparse looks for a comment there
    for part in ("body", "orelse", "handlers", "finalbody"):
        if isinstance(getattr(head, part, None), list):
            setattr(head, part, [])
    return ast.unparse(head).lstrip().split("\n")[0]


@contextlib.contextmanager
def put(*changes: tuple[Slot, Any]) -> Iterator[None]:
    """Within the block, slots in the trees have new contents."""
    before = []
    try:
        for (parent, name, i), new in changes:
            was = getattr(parent, name)
            before.append((parent, name, was))
            setattr(parent, name, new if i is None else [*was[:i], new, *was[i + 1 :]])
        yield
    finally:
        for parent, name, was in reversed(before):
            setattr(parent, name, was)
