"""All mutants of a formula by rule. Each is one change that a person who writes the formula wrongly could make."""

import ast
import contextlib
import copy
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..terminal import shortened
from .formula import Formula, Mutant, atom, put, text_of
from .rules import changes, parsed

_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr)
# Replacements of an array, each with its sentence.
_PARTS = (
    ("{}[:1]", "the first of the batch stands in place of all, in `{}`"),
    ("{}[..., :1]", "the first number of a row stands in place of all, in `{}`"),
    ("{}[..., :1, :]", "the first row stands in place of all, in `{}`"),
    ("{}[..., -1:, :]", "the last row stands in place of all, in `{}`"),
    ("{}[..., ::-1, :]", "the rows of `{}` are in reversed order"),
    ("{}[..., ::-1, :, :]", "the matrices of `{}` are in reversed order"),
)
_ASKS = "Print each argument as your first lines read it: is it the right one, whole, and in the right order?"
_MISSING = ("a term is missing", "a factor is missing")
_STEPS = ("{} - 1", "{} + 1", "max({} - 1, 0)", "0", "-1")


def mutants_of(formula: Formula, run: Callable[[], Any]) -> list[Mutant]:
    """All mutants, the plainest first. `run` calls the formula once, to find names whose values are alike."""
    values = formula.values(run)
    every = [m for name in formula.trees for m in _Rules(formula, name, values[name]).mutants()]
    for entry in formula.entries:
        rules = _Rules(formula, entry.__name__, values[entry.__name__])
        every += rules.of_arguments(inspect.signature(entry).parameters)
    return sorted(every, key=lambda m: m.rank)  # equally plain ones stay in order of place


def explained(formula: Formula, slips: Iterable[Any], run: Callable[[], Any], same: Callable[[Any], bool]) -> str:
    """The sentence of the first slip, or else mutant, with which `run` has the `same` result; "" if none has."""
    known = ((slip.says, formula.patched(slip.says, slip.changes)) for slip in slips)
    ruled = ((mutant.says, [mutant]) for mutant in mutants_of(formula, run))
    for says, mutants in itertools.chain(known, ruled):
        with contextlib.suppress(Exception), formula.mutated(mutants), np.errstate(all="ignore"):
            if mutants and same(run()):
                return says
    return ""


class _Rules:
    """The mutants of one function. `values` are those of its names and subscripts, and of "return"."""

    def __init__(self, formula: Formula, name: str, values: dict[str, Any]):
        self.name, self.tree, self.values = name, formula.trees[name], values
        (self.file, self.before), self.words = formula.places[name], formula.words[name]
        self.seen: set[Any] = set()
        self.sites: dict[str, list[Any]] = {}  # by a rule's sentence: slot, its new content, statement

    def mutants(self) -> Iterator[Mutant]:
        for slot, node, statement in _sites(self.tree, self.tree):
            for change, says in changes(node) if getattr(slot[0], "arg", "") != "axis" else ():  # -1 without its minus
                self.sites.setdefault(says, []).append((slot, change, statement))
                if isinstance(node, ast.BinOp) and change in (node.left, node.right) and says.startswith(_MISSING):
                    gone = text_of(node.right if change is node.left else node.left)
                    says = f"the {says.split()[1]} `{gone}` is missing"
                yield from self._made(slot, change, says, statement, 1)
            if not isinstance(node, ast.stmt):
                yield from self._of_expression(slot, node, statement)
        for says, sites in self.sites.items():
            for many in range(2, len(sites) + 1) if len(sites) < 4 else (len(sites),):
                for some in itertools.combinations(sites, many):
                    yield self._together(says, some)
        for node, name, body in _bodies(self.tree):
            for i, statement in enumerate(body):
                yield from self._of_body((node, name, None), body, i, statement)

    def _together(self, says: str, sites: Any) -> Mutant:
        with put(*(site[:2] for site in sites)):
            body = copy.deepcopy(self.tree.body)
        says, slot = f"{says}, in {len(sites)} places", (self.tree, "body", None)
        return self._mutant(sites[0][2], says, 2, slot, body)

    def _of_expression(self, slot: Any, node: Any, statement: Any) -> Iterator[Mutant]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            number: Any = node.value
            for value in {0: (1,), 1: (0, 2), 2: (1, 3)}.get(number, (2 * number, number / 2)):
                yield from self._made(slot, ast.Constant(value), "a number is wrong", statement, 2)
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            for axis in (0, 1, -1, -2, None) if keyword.arg == "axis" else ():
                kept = [ast.keyword("axis", ast.Constant(axis)) if k is keyword else k for k in node.keywords]
                call, says = ast.Call(node.func, node.args, kept), "the axis is wrong"
                if axis is not None or any(k.arg == "keepdims" for k in kept):
                    self.sites.setdefault(f"{says} ({axis})", []).append((slot, call, statement))
                    yield from self._made(slot, call, says, statement, 2)
        if isinstance(slot[0], ast.Attribute):
            return
        inside = (isinstance(slot[0], ast.Subscript) and slot[1] == "slice") or isinstance(slot[0], ast.Slice)
        for inner in ast.walk(node) if isinstance(node, ast.BinOp) and not inside else ():
            if (text := atom(inner)) and _kind(self.values.get(text)) is not None:
                yield from self._made(slot, inner, f"`{text}` alone stands in place of a formula", statement, 3)
        text = atom(node)
        for other in self._alike(text):
            yield from self._made(slot, parsed(other), f"`{other}` stands where `{text}` belongs", statement, 3)
            says = f"`{other}` is a factor too much"
            yield from self._made(slot, parsed(f"({text} * {other})"), says, statement, 3)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from self._of_name(slot, node.id, inside, statement)

    def _of_name(self, slot: Any, name: str, inside: bool, statement: Any) -> Iterator[Mutant]:
        for step in _STEPS if inside else ():
            yield from self._made(slot, parsed(step.format(name)), "an index is wrong", statement, 3)
        x = self.values.get(name)
        if isinstance(x, np.ndarray) and x.ndim > 1 and not isinstance(slot[0], ast.Subscript | ast.Starred):
            for part, says in _PARTS:
                yield from self._made(slot, parsed(part.format(name)), says.format(name), statement, 3)

    def _made(self, slot: Any, new: Any, label: str, statement: Any, rank: int) -> Iterator[Mutant]:
        old_text = text_of(statement)
        with put((slot, new)):
            new_text = "" if isinstance(new, ast.Pass) else text_of(new if isinstance(new, ast.stmt) else statement)
        if new_text == old_text or (id(statement), new_text) in self.seen:
            return
        self.seen.add((id(statement), new_text))
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(new_text, old_text, strict=False))
        start = max(sum(1 for _ in same) - 30, 0) if len(old_text) > 90 else 0  # a long line begins where they differ
        new_line, old_line = ("..." * bool(start) + shortened(text[start:], 90) for text in (new_text, old_text))
        gives = f"`{new_line}` in place of `{old_line}`" if new_text else f"no `{old_text}`"
        yield self._mutant(statement, f"{label}, as with {gives}", rank, slot, new)

    def _of_body(self, slot: Any, body: list[Any], i: int, statement: Any) -> Iterator[Mutant]:
        """Changes of a whole statement, or of its place."""
        text = shortened(text_of(statement), 90)

        def made(says: str, new: list[Any], rank: int = 1, until: int = i + 1, hint: str = "") -> Mutant:
            return self._mutant(statement, says, rank, slot, [*body[:i], *new, *body[until:]], hint)

        then = body[i + 1] if i + 1 < len(body) else None
        if isinstance(statement, _SIMPLE) and isinstance(then, _SIMPLE):
            says = f"two steps are in the other order, as with `{text_of(then)}` before `{text_of(statement)}`"
            yield made(says, [then, statement], until=i + 2, hint="What should each of the two read: old, or new?")
            here, there = _names(statement) - _names(then), _names(then) - _names(statement)
            for a, b in itertools.product(sorted(here), sorted(there)):
                if b in self._alike(a):
                    new = [_Renamed(a, b).visit(copy.deepcopy(statement)), _Renamed(b, a).visit(copy.deepcopy(then))]
                    yield made(f"`{a}` and `{b}` are exchanged in `{text}` and the next step", new, 2, i + 2)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            names = [target.id for target in statement.targets[0].elts if isinstance(target, ast.Name)]
            for a, b in itertools.combinations(names, 2):
                yield made(f"{a} and {b} are exchanged, after `{text}`", [statement, parsed(f"{a}, {b} = ({b}, {a})")])
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            more = ast.AugAssign(statement.targets[0], ast.Add(), statement.value)
            yield made(f"it is added to, not overwritten, as with `{text_of(more)}`", [more])
        for name in sorted(_names(statement)) if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else ():
            if isinstance(self.values.get(name), float | np.ndarray):
                turned = _Renamed(name, f"1 - {name}").visit(copy.deepcopy(statement))
                yield made(f"`{name}` and `1 - {name}` are exchanged in `{text}`", [turned], 2)
            for other in self._alike(name):
                taken = _Renamed(name, other).visit(copy.deepcopy(statement))
                yield made(f"`{other}` stands in place of `{name}` in `{text}`", [taken], 2)
        result = self.values.get("return")
        if isinstance(statement, ast.Return) and isinstance(result, np.ndarray) and statement.value is not None:
            for name in (argument.arg for argument in self.tree.args.args):
                x = self.values.get(name)
                if isinstance(x, np.ndarray) and x.shape == result.shape:
                    added = ast.Return(ast.BinOp(ast.Name(name, ast.Load()), ast.Add(), statement.value))
                    yield made(f"`{name}` is added to the result", [added], 2)
        if isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
            for says, new in self._of_loop(statement, statement.target.id):
                yield made(says, new, 2, hint="What does a step hand on, and when is its result stored?")

    def _of_loop(self, loop: ast.For, t: str) -> Iterator[tuple[str, list[Any]]]:
        """A state is not handed on, or another one is; results share one array, or are stored too early."""

        def again(*body: Any) -> ast.For:
            return ast.For(loop.target, loop.iter, list(body), [])

        bound = set().union(*(_names(node, ast.Store) for node in loop.body))
        for state in sorted(bound & set().union(*(_names(node, ast.Load) for node in loop.body)) & self.values.keys()):
            keep, restore = parsed(f"first_{state} = {state}"), parsed(f"{state} = first_{state}")
            yield f"`{state}` is not handed on: every step reads the first one", [keep, again(*loop.body, restore)]
            for other in self._alike(state):
                if other in bound:
                    says = f"the next step reads `{other}` in place of `{state}`"
                    yield says, [again(*loop.body, parsed(f"{state} = {other}"))]
        for i, statement in enumerate(loop.body):
            if not isinstance(statement, ast.Assign):
                continue
            target = statement.targets[0]
            if isinstance(target, ast.Subscript) and ast.unparse(target.slice) == t:
                rest, text = [*loop.body[:i], *loop.body[i + 1 :]], text_of(statement)
                yield f"a result is stored before its step: `{text}` comes first", [again(statement, *rest)]
                shared = parsed(f"{ast.unparse(target.value)}[:{t} + 1] = {ast.unparse(statement.value)}")
                yield "all results are the last one: they share one array", [again(*rest[:i], shared, *rest[i:])]

    def of_arguments(self, parameters: Any) -> Iterator[Mutant]:
        """An argument is not used, is transposed, or stands in another's place; or the function acts twice."""
        lines = []
        for n, p in parameters.items():
            if p.default is not p.empty:
                lines.append((f"{n} = {p.default!r}", f"the argument {n} is not used: it is always {p.default!r}"))
            x = self.values.get(n)
            if isinstance(x, np.ndarray) and x.ndim > 2:  # causes.py tries transposed matrices
                turned = f"{n} = {n}.swapaxes(-1, -2) if {n}.shape[-1] == {n}.shape[-2] else {n}"
                lines.append((turned, f"{n} is transposed, where it is square"))
        arrays = [n for n in parameters if isinstance(x := self.values.get(n), np.ndarray) and x.ndim > 1]
        together = [(n,) for n in arrays] + [
            (a, b) for a, b in itertools.combinations(arrays, 2) if self.values[a].shape == self.values[b].shape
        ]
        for names, (part, says) in itertools.product(together, _PARTS):
            text = "; ".join(f"{n} = {part.format(n)}" for n in names)
            lines.append((f"if True: {text}", says.format(" and ".join(names))))
        for a, b in itertools.combinations(parameters, 2):
            if b in self._alike(a):
                lines.append((f"{a}, {b} = ({b}, {a})", f"the arguments {a} and {b} are exchanged"))
        first, result = next(iter(parameters)), self.values.get("return")
        if isinstance(result, np.ndarray) and _kind(self.values.get(first)) == _kind(result):
            passed = ", ".join(parameters)
            lines.append((f"{first} = once_{self.name}({passed})", "it acts twice: on its result, too"))
        for text, says in lines:
            body = [parsed(text), *self.tree.body]
            yield Mutant(self.name, f"{self.file}:{self.before}", says, 1, (self.tree, "body", None), body, _ASKS)

    def _alike(self, text: str) -> list[str]:
        """Other atoms whose values have the same type, and a shape that fits; whole numbers are left out."""
        x = self.values.get(text)
        if _kind(x) is None:
            return []
        alike = (n for n, y in self.values.items() if n not in (text, "return") and _fits(y, x))
        return [n for n in alike if not np.array_equal(np.asarray(self.values[n]), np.asarray(x))]

    def _mutant(self, statement: Any, says: str, rank: int, slot: Any, new: Any, asks: str = "") -> Mutant:
        """The mutant; its sentence begins with what the line computes, if the line has a comment that says so."""
        line, place = statement.lineno, f"{self.file}:{statement.lineno + self.before}"
        what, hint = self.words.get(line, ("", ""))
        return Mutant(self.name, place, f"in {what}, {says}" if what else says, rank, slot, new, asks or hint)


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str, new: str):
        self.name, self.new = name, new

    def visit_Name(self, node: ast.Name) -> Any:
        return parsed(self.new) if node.id == self.name and isinstance(node.ctx, ast.Load) else node


def _names(node: ast.AST, use: type = ast.Load) -> set[str]:
    """The names that are read in a node, or stored."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, use)}


def _sites(node: ast.AST, statement: Any) -> Iterator[tuple[Any, ast.AST, Any]]:
    """Everything below `node` that a rule may change: its slot, itself, and the statement that it is in."""
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.AnnAssign) and name in ("annotation", "returns", "args"):
            continue
        for i, child in list(enumerate(value)) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.Expr) and text_of(child).startswith("expect("):
                continue
            where = child if isinstance(child, ast.stmt) else statement
            yield (node, name, i), child, where
            yield from _sites(child, where)


def _bodies(tree: ast.AST) -> Iterator[tuple[ast.AST, str, list[Any]]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body:
                yield node, name, body


def _kind(x: Any) -> Any:
    if isinstance(x, float | np.floating):
        return float
    if isinstance(x, np.ndarray):
        return x.shape, x.dtype.kind
    if isinstance(x, list) and x and all(isinstance(y, float) for y in x):
        return len(x)
    return None


def _fits(y: Any, x: Any) -> bool:
    """Whether y is of x's kind, or an array that is broadcast to x's shape."""
    if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.ndim == y.ndim and x.dtype == y.dtype):
        return bool(_kind(x) == _kind(y))
    return all(n in (1, m) for n, m in zip(y.shape, x.shape, strict=True))
