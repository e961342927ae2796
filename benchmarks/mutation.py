"""Makes mutants: a mutant is a source file with one change. `become` turns a loaded module into its mutant.

mutmut and cosmic-ray mutate any Python code, with a class for each kind of change. Here one table lists the typical
errors of array code (terms, transposes, guards, in-place steps), and a forked process replaces the code of functions
that are loaded already.
"""

import ast
import copy
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tinyattn.check.formula import text_of
from tinyattn.check.rules import filled, fits, parsed

# {pattern: its replacements}. Single letters match any expression. Each replacement is one mutant.
# The functions below change numbers, truth values, conditions, `and` and `or`.
RULES = {
    "a + b": ("a - b", "a", "b"),
    "a - b": ("a + b", "a", "-b"),
    "a * b": ("a / b", "a", "b"),
    "a / b": ("a * b", "a", "1 / b"),
    "a // b": ("a * b", "a"),
    "a % b": ("a // b", "a"),
    "a ** b": ("a * b", "a"),
    "a << b": ("a >> b", "a"),
    "a @ b": ("b @ a", "a.swapaxes(-1, -2) @ b", "a @ b.swapaxes(-1, -2)"),
    "a & b": ("a | b", "a", "b"),
    "a | b": ("a & b", "a", "b"),
    "-a": ("a",),
    "~a": ("a",),
    "not a": ("a",),
    "a < b": ("a <= b", "a >= b"),
    "a <= b": ("a < b", "a > b"),
    "a > b": ("a >= b", "a <= b"),
    "a >= b": ("a > b", "a < b"),
    "a == b": ("a != b",),
    "a != b": ("a == b",),
    "a is b": ("a is not b",),
    "a is not b": ("a is b",),
    "a in b": ("a not in b",),
    "a not in b": ("a in b",),
    "a if c else b": ("a", "b"),
    "transpose_last(a)": ("a",),
    "a.swapaxes(b, c)": ("a",),
    "a.T": ("a",),
    "f.where(c, a, b)": ("a", "b"),
    "f.maximum(a, b)": ("f.minimum(a, b)", "a", "b"),
    "f.minimum(a, b)": ("f.maximum(a, b)", "a", "b"),
    "f.clip(a, b, c)": ("a",),
    "max(a, b)": ("min(a, b)", "a", "b"),
    "min(a, b)": ("max(a, b)", "a", "b"),
    "f.abs(a)": ("a",),
    "f.exp(a)": ("a",),
    "f.ascontiguousarray(a)": ("a",),
    "a.copy()": ("a",),
    "float(a)": ("a",),
    "a += b": ("a -= b", "a = b", "pass"),
    "a -= b": ("a += b", "a = b", "pass"),
    "a *= b": ("a /= b", "a = b", "pass"),
    "a /= b": ("a *= b", "a = b", "pass"),
    "a |= b": ("a &= b", "a = b", "pass"),
}


def _number(node: ast.AST) -> Iterator[ast.AST]:
    """0 -> 1; 1 -> 0 and 2; another integer n -> n + 1; another float x -> 2x; True <-> False."""
    if _is_negative_number(node):
        for changed in _number(node.operand):
            yield ast.UnaryOp(ast.USub(), changed) if changed.value else changed
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        if node.value == 1:
            yield ast.Constant(node.value - 1)
        yield ast.Constant(node.value + 1 if node.value == 0 or isinstance(node.value, int) else 2 * node.value)


def _is_negative_number(node: Any) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _condition(node: ast.AST) -> Iterator[ast.AST]:
    """Negate a condition other than a comparison: `if causal` becomes `if not causal`; the same for `while`."""
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed


def _connected(node: ast.AST) -> Iterator[ast.AST]:
    """Exchange `and` and `or`; drop each operand."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for i in range(len(node.values)):
            left = node.values[:i] + node.values[i + 1 :]
            yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _effect(node: ast.AST) -> Iterator[ast.AST]:
    """Drop a call whose result is unused, or an assignment to a part of an array."""
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if called or (isinstance(node, ast.Assign) and all(isinstance(t, ast.Subscript) for t in node.targets)):
        yield ast.Pass()


def _by_table(node: ast.AST) -> Iterator[ast.AST]:
    for pattern, changes in _PATTERNS.get(type(node), ()):
        found: dict[str, ast.AST] = {}
        if fits(pattern, node, found):
            for change in changes:
                yield filled(copy.deepcopy(change), found)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:  # a < b < c: one comparison at a time
        for i, sign in enumerate(node.ops):
            for pattern, changes in _PATTERNS[ast.Compare]:
                if type(pattern.ops[0]) is type(sign):
                    for change in changes:
                        yield ast.Compare(node.left, [*node.ops[:i], *change.ops, *node.ops[i + 1 :]], node.comparators)


KINDS = (_by_table, _number, _condition, _connected, _effect)


_PATTERNS: dict[type, list[tuple[Any, list[Any]]]] = {}  # by the node type of the pattern
for _pattern, _changes in RULES.items():
    _PATTERNS.setdefault(type(parsed(_pattern)), []).append((parsed(_pattern), [parsed(c) for c in _changes]))


@dataclass
class Mutant:
    """One change of a file. `name` describes it and identifies it in results; a check that runs `lines` may kill it."""

    file: str
    function: str  # qualified by its class; for an assignment at the top of a file, the assigned name
    name: str
    lines: range
    slot: tuple[ast.AST, str, int | None] = field(repr=False)  # the parent node, its field, the index in a list
    new: ast.AST = field(repr=False)
    tree: ast.Module = field(repr=False)

    def code(self) -> types.CodeType:
        """The changed file, compiled."""
        before = _put(self.slot, self.new)
        try:
            return compile(ast.fix_missing_locations(self.tree), self.file, "exec")
        finally:
            _put(self.slot, before)

    @property
    def line(self) -> int:
        parent, name, i = self.slot
        return (getattr(parent, name) if i is None else getattr(parent, name)[i]).lineno

    def source(self, text: str) -> str:
        """The changed file's text. The rest of `text` stays as it is, comments and line numbers included."""
        parent, name, i = self.slot
        old, new = getattr(parent, name) if i is None else getattr(parent, name)[i], self.new
        if isinstance(old, ast.If | ast.While):  # only the condition has changed
            old, new = old.test, new.test
        changed = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
        lines = text.encode().splitlines(keepends=True)  # ast counts columns in bytes
        begin, end = lines[old.lineno - 1][: old.col_offset], lines[old.end_lineno - 1][old.end_col_offset :]
        lines[old.lineno - 1 : old.end_lineno] = [begin, changed.encode(), end]
        return b"".join(lines).decode()


def mutants_of(source: str, file: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines; types, docstrings, f-strings and raises are not mutated."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    called = {id(inner) for function in functions for inner in ast.walk(function)}
    found: list[Mutant] = []
    names: Counter[str] = Counter()
    known = cache(_text)  # the statement's text is needed at each of its nodes
    for slot, node, function, statement in _sites(tree, "", tree):
        old, line = known(node), known(statement)
        seen = {old}
        for kind in KINDS:
            for new in kind(node):
                text = "dropped" if isinstance(new, ast.Pass) else _text(new)
                if text in seen:
                    continue
                seen.add(text)
                name = f"{function}: {old} -> {text}" + (f" in {_short(line)}" if line != old else "")
                names[name] += 1
                name += f" ({names[name]})" if names[name] > 1 else ""
                new = ast.copy_location(copy.copy(new), node)  # copied: it may be a part of `node`
                found.append(Mutant(file, function, name, _lines(statement, tree, called), slot, new, tree))
    return found


def _sites(node: ast.AST, function: str, statement: ast.AST) -> Iterator[tuple[Any, ast.AST, str, ast.AST]]:
    """(slot, node, function, statement) of every node below `node` that a rule may change."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for i, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or _left_alone(child):
                continue
            inside, where = function, statement
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = f"{function}.{child.name}" if function else child.name
            elif not function and isinstance(child, ast.Assign | ast.AnnAssign):
                inside = _text(child.targets[0] if isinstance(child, ast.Assign) else child.target)
            if isinstance(child, ast.stmt):
                where = child
            yield (node, name, i), child, inside, where
            if not _is_negative_number(child):
                yield from _sites(child, inside, where)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
        return True
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr)


def _lines(statement: Any, tree: ast.Module, called: set[int]) -> range:
    """The lines of a mutant: a check that runs none of them cannot kill it.

    They are the lines of the statement (of its head only, if it has a body); of the whole function for a default; and
    of the whole file for code that runs on import. `called` has the ids of all nodes in functions.
    """
    if id(statement) not in called:
        return range(1, tree.body[-1].end_lineno + 1)
    head = {ast.If: "test", ast.While: "test", ast.For: "iter"}.get(type(statement))
    return range(statement.lineno, (getattr(statement, head) if head else statement).end_lineno + 1)


def _text(node: ast.AST) -> str:
    """The source of an expression or statement on one line; only the head of a statement with a body."""
    if isinstance(node, ast.FunctionDef):
        return f"def {node.name}"
    return text_of(node)


def _short(line: str, length: int = 100) -> str:
    return line if len(line) <= length else f"{line[: length - 3]}..."


def _put(slot: tuple[ast.AST, str, int | None], node: ast.AST) -> ast.AST:
    """Put a node into its parent. -> the node that was there before."""
    parent, name, i = slot
    if i is None:
        before = getattr(parent, name)
        setattr(parent, name, node)
    else:
        before = getattr(parent, name)[i]
        getattr(parent, name)[i] = node
    return before


def become(module: types.ModuleType, code: types.CodeType) -> None:
    """Change a loaded module to what `code` defines. Modules that have imported its functions see the change too.

    Functions, methods and properties keep their identity and get the new code and defaults, in tables as well; numbers
    and strings at the top of the module are assigned anew.
    """
    fresh = {"__name__": module.__name__, "__package__": module.__package__, "__file__": module.__file__}
    exec(code, fresh)
    for name, new in fresh.items():
        old = vars(module).get(name)
        if isinstance(new, int | float | str | tuple):
            setattr(module, name, new)
        elif isinstance(new, dict) and isinstance(old, dict):
            for key in old.keys() & new.keys():
                _take_over(old[key], new[key])
        elif getattr(new, "__module__", None) == module.__name__:
            _take_over(old, new)


def _take_over(old: Any, new: Any) -> None:
    if isinstance(old, property):
        _take_over(old.fget, new.fget)
    elif isinstance(old, type):
        for name, value in list(vars(new).items()):
            if isinstance(value, types.FunctionType | property):
                _take_over(vars(old)[name], value)
    elif hasattr(old, "cache_clear"):
        old.cache_clear()
        _take_over(old.__wrapped__, new.__wrapped__)
    elif isinstance(old, types.FunctionType):
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
