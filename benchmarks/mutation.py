"""Mutants by rule: a source file with one thing changed, and how a module that is loaded becomes its mutant.

mutmut and cosmic-ray change any Python, an operator class for each kind of change; here one table changes what array
code gets wrong (terms, transposes, guards, in-place steps), and functions take new code where they stand, in a fork.
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

# What each expression or statement becomes, one change at a time. Single letters stand for any expression.
# Numbers, truth values, conditions, `and` and `or` follow below.
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
    """0 becomes 1, 1 becomes 0 and 2, another whole number the next one, a fraction its double; True becomes False."""
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
    """A condition that is no comparison is negated: `if causal` becomes `if not causal`, `while` likewise."""
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield changed


def _connected(node: ast.AST) -> Iterator[ast.AST]:
    """`and` becomes `or`, `or` becomes `and`, and each part is dropped."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        for i in range(len(node.values)):
            left = node.values[:i] + node.values[i + 1 :]
            yield left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _effect(node: ast.AST) -> Iterator[ast.AST]:
    """A call for its effect, and a write into a part of an array, are dropped."""
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if called or (isinstance(node, ast.Assign) and all(isinstance(t, ast.Subscript) for t in node.targets)):
        yield ast.Pass()


def _by_table(node: ast.AST) -> Iterator[ast.AST]:
    for pattern, changes in _PATTERNS.get(type(node), ()):
        found: dict[str, ast.AST] = {}
        if fits(pattern, node, found):
            for change in changes:
                yield filled(copy.deepcopy(change), found)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:  # a < b < c: each sign by itself
        for i, sign in enumerate(node.ops):
            for pattern, changes in _PATTERNS[ast.Compare]:
                if type(pattern.ops[0]) is type(sign):
                    for change in changes:
                        yield ast.Compare(node.left, [*node.ops[:i], *change.ops, *node.ops[i + 1 :]], node.comparators)


KINDS = (_by_table, _number, _condition, _connected, _effect)


_PATTERNS: dict[type, list[tuple[Any, list[Any]]]] = {}  # by the type of node that they fit
for _pattern, _changes in RULES.items():
    _PATTERNS.setdefault(type(parsed(_pattern)), []).append((parsed(_pattern), [parsed(c) for c in _changes]))


@dataclass
class Mutant:
    """One change. `name` says which, for people and for files; `lines` are those of the statement that has it."""

    file: str
    function: str  # with the class before it; at the top of a file the name that is assigned to
    name: str
    lines: range
    slot: tuple[ast.AST, str, int | None] = field(repr=False)  # the parent, its field, the place in a list
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
        """The changed file; all else, comments and lines too, is as in `text`."""
        parent, name, i = self.slot
        old, new = getattr(parent, name) if i is None else getattr(parent, name)[i], self.new
        if isinstance(old, ast.If | ast.While):  # the test alone has changed
            old, new = old.test, new.test
        changed = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
        lines = text.encode().splitlines(keepends=True)  # columns are counted in bytes
        begin, end = lines[old.lineno - 1][: old.col_offset], lines[old.end_lineno - 1][old.end_col_offset :]
        lines[old.lineno - 1 : old.end_lineno] = [begin, changed.encode(), end]
        return b"".join(lines).decode()


def mutants_of(source: str, file: str) -> list[Mutant]:
    """All mutants of a file's source, in the order of its lines. Signatures' types, texts and errors are left alone."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    called = {id(inner) for function in functions for inner in ast.walk(function)}
    found: list[Mutant] = []
    names: Counter[str] = Counter()
    known = cache(_text)  # a statement's is asked for at each node in it
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
                new = ast.copy_location(copy.copy(new), node)  # it may be a part of `node`, which keeps its place
                found.append(Mutant(file, function, name, _lines(statement, tree, called), slot, new, tree))
    return found


def _sites(node: ast.AST, function: str, statement: ast.AST) -> Iterator[tuple[Any, ast.AST, str, ast.AST]]:
    """Everything below `node` that a rule may change: its slot, itself, the function and the statement it is in."""
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
    """The lines of which one runs where the change matters: the statement's or its head's; for a default all of the
    function; for what is computed when the file is imported all lines. `called` are the ids of nodes within functions.
    """
    if id(statement) not in called:
        return range(1, tree.body[-1].end_lineno + 1)
    head = {ast.If: "test", ast.While: "test", ast.For: "iter"}.get(type(statement))
    return range(statement.lineno, (getattr(statement, head) if head else statement).end_lineno + 1)


def _text(node: ast.AST) -> str:
    """The source of an expression or a statement on one line; of a statement with a body its head."""
    if isinstance(node, ast.FunctionDef):
        return f"def {node.name}"
    return text_of(node)


def _short(line: str, length: int = 100) -> str:
    return line if len(line) <= length else f"{line[: length - 3]}..."


def _put(slot: tuple[ast.AST, str, int | None], node: ast.AST) -> ast.AST:
    """Put a node into its parent. -> what was there."""
    parent, name, i = slot
    if i is None:
        before = getattr(parent, name)
        setattr(parent, name, node)
    else:
        before = getattr(parent, name)[i]
        getattr(parent, name)[i] = node
    return before


def become(module: types.ModuleType, code: types.CodeType) -> None:
    """Make a loaded module what `code` would have made it, for all who have imported anything from it already.

    Functions, methods and properties stay the objects that they are and take the new code and defaults; numbers and
    texts at the top of the module are assigned.
    """
    fresh = {"__name__": module.__name__, "__package__": module.__package__, "__file__": module.__file__}
    exec(code, fresh)
    for name, new in fresh.items():
        old = vars(module).get(name)
        if isinstance(new, int | float | str | tuple):
            setattr(module, name, new)
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
