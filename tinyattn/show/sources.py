"""Read source lines: the statement on a line, the names it assigns, and the names of a function's results."""

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ..check.binding import named_results, upstream_names


class Statement(NamedTuple):
    """A statement; of a statement with a body, only the header."""

    first: int                             # its first line
    last: int                              # its last line
    targets: tuple[str, ...] = ()          # the names it assigns, or writes into
    writes: bool = False                   # whether it writes in place: `s += bias`, `total[i] = x`
    renames: bool = False                  # whether it only renames: `q, k = saved`
    returned: tuple[ast.expr, ...] = ()    # the expressions a and b of `return a, b`
    reads: tuple[str, ...] = ()            # the names it reads, dotted: p.W for p["W"], cache.x_hat
    adds: tuple[ast.expr, ...] = ()        # terms of a sum: a and b of `dx = a + b`, dx and b of `dx += b`
    allocates: tuple[str, ...] = ()        # names of unfilled memory: dW of `dx, dW = zeros_like(x), empty_like(W)`
    text: str = ""                         # the source without comments, on one line


def statement_at(filename: str, line: int) -> Statement:
    """The innermost statement on that line of the file; without a readable source, the bare line."""
    lines = linecache.getlines(filename)
    if filename not in _PARSED or _PARSED[filename][0] is not lines:         # the file was edited
        _PARSED[filename] = lines, _statements(lines)
    return _PARSED[filename][1].get(line) or Statement(line, line)


_PARSED: dict[str, tuple[list[str], dict[int, Statement]]] = {}


def source_lines(filename: str, first: int, last: int) -> list[tuple[int, str]]:
    """(number, text) of the lines that exist."""
    lines = linecache.getlines(filename)
    return [(n, lines[n - 1].rstrip()) for n in range(max(first, 1), min(last, len(lines)) + 1)]


def _statements(lines: list[str]) -> dict[int, Statement]:
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:                                       # not Python: a template, a cell with magics
        return {}
    statements: dict[int, Statement] = {}
    for node in ast.walk(tree):                               # outer statements first: inner ones overwrite them
        if isinstance(node, ast.stmt):
            statement = _described(node, lines)
            for line in range(statement.first, statement.last + 1):
                other = statements.get(line)
                if other and other.first == other.last == line == statement.first == statement.last:
                    targets = other.targets + statement.targets                # a = 1; b = 2
                    statement = statement._replace(
                        targets=targets, renames=False,                        # the text is the whole line
                        returned=other.returned + statement.returned,
                        reads=other.reads + statement.reads, allocates=other.allocates + statement.allocates,
                    )  # fmt: skip
                statements[line] = statement
    return statements


def _described(node: ast.stmt, lines: list[str]) -> Statement:
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    last = node.end_lineno or node.lineno
    if body:                                                  # for, if, with, def, ...: only the header
        start = body[0].pattern.lineno if isinstance(node, ast.Match) else body[0].lineno
        last = max(node.lineno, start - 1)
    text = " ".join(re.sub(r"\s#\s.*$", "", line) for line in lines[node.lineno - 1 : last])
    text = re.sub(r"(?<=[(\[{]) | (?=[)\]}])", "", " ".join(text.split()))
    targets: list[str] = []
    renames = isinstance(node, ast.For | ast.With)
    if isinstance(node, ast.Assign):
        targets = [name for target in node.targets for name in _names(target)]
        renames = all(isinstance(part, _RENAMING) for part in ast.walk(node.value))
    elif isinstance(node, ast.AugAssign | ast.For) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        targets = list(_names(node.target))
    elif isinstance(node, ast.With):
        targets = [name for item in node.items if item.optional_vars for name in _names(item.optional_vars)]
    targets += [name for part in _expressions(node) if isinstance(part, ast.NamedExpr) for name in _names(part.target)]
    value = node.value if isinstance(node, ast.Return) else None
    returned = () if value is None else tuple(value.elts) if isinstance(value, ast.Tuple) else (value,)
    into = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", [])
    writes = any(isinstance(t, ast.Subscript) or isinstance(node, ast.AugAssign) for t in into)
    return Statement(node.lineno, last, tuple(dict.fromkeys(targets)), writes, renames, returned,
                     tuple(dict.fromkeys(_read(node))), _added(node), tuple(_allocated(node)), text)  # fmt: skip


_RENAMING = (ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Tuple, ast.List, ast.UnaryOp,
             ast.unaryop, ast.expr_context)  # fmt: skip


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement, without nested statements and lambdas."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not isinstance(child, ast.Lambda):
            yield child
            yield from _expressions(child)


def _read(node: ast.AST) -> Iterator[str]:
    """The names that a statement reads, functions included; nested statements are left out."""
    if isinstance(node, ast.AugAssign):
        yield from _names(node.target)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.Lambda | ast.arguments):
            continue
        name = dotted(child)
        if name is None:
            yield from _read(child)
        elif isinstance(getattr(child, "ctx", None), ast.Load):
            yield name


def dotted(node: ast.AST) -> str | None:
    """x, cache.x_hat, p.W for p["W"], parts.0 for parts[0]; None for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        within, key = dotted(node.value), node.attr
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        within, key = dotted(node.value), str(node.slice.value)
    else:
        return None
    return None if within is None else f"{within}.{key}"


def _added(node: ast.stmt) -> tuple[ast.expr, ...]:
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.target, node.value
    return tuple(_terms(node.value)) if isinstance(node, ast.Assign | ast.Return) and node.value is not None else ()


def _terms(value: ast.expr) -> Iterator[ast.expr]:
    """The terms of a + b + c; none for other expressions."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        for part in (value.left, value.right):
            yield from tuple(_terms(part)) or (part,)


def _allocated(node: ast.stmt) -> Iterator[str]:
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        for names, value in pairs:
            made = value.elt if isinstance(value, ast.GeneratorExp) else value
            called = made.func if isinstance(made, ast.Call) else None
            if getattr(called, "attr", getattr(called, "id", "")) in ("empty", "empty_like"):
                yield from _names(names)


def function_lines(filename: str, line: int) -> list[tuple[int, str]]:
    """(number, text) of the lines of the function that begins there, with the first line of its docstring only."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return source_lines(filename, line, line)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            if line in (first, node.lineno):
                doc = node.body[0] if not isinstance(node, ast.Lambda) and ast.get_docstring(node) else None
                hidden = range(doc.lineno + 1, (doc.end_lineno or 0) + 1) if doc else ()
                lines = source_lines(filename, first, node.end_lineno or line)
                return [(n, text) for n, text in lines if n not in hidden]
    return source_lines(filename, line, line)


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _names(part)
    elif isinstance(target, ast.Starred | ast.Subscript | ast.Attribute):
        yield from _names(target.value)


@lru_cache(maxsize=1024)
def result_names(function: Callable[..., Any], backward: Callable[..., Any] | None) -> tuple[str, ...]:
    """The names of a function's results: from its backward's parameters, else from its docstring after `->`."""
    if backward is not None:
        inputs = list(inspect.signature(function).parameters)
        parameters = [name for name in inspect.signature(backward).parameters if name != "self"]
        upstream = upstream_names(parameters, inputs, named_results(function))
        if upstream:
            names = [name[1:] for name in upstream]
            return tuple(names + [n for n in parameters if n not in (*upstream, *inputs, *names)])
    _, arrow, results = (function.__doc__ or "").rpartition("->")
    return tuple(_leading_names(results)) if arrow else ()


def _leading_names(text: str) -> Iterator[str]:
    """y, x_hat, rstd for "y (..., d), x_hat (..., d), rstd (..., 1). And so on"."""
    pattern = re.compile(r"\s*([A-Za-z_]\w*)\s*(\([^)]*\))?(,|\.|\s*$|\s+(?:like|shaped|,))")
    at = 0
    while match := pattern.match(text, at):
        yield match[1]
        at = match.end()
        if match[3] != ",":
            return
