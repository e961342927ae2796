"""Mutants by rule: variants of a formula, made on the fly, whose numbers may explain those of an implementation.

The formula is an oracle, or a backward of the library. Its source is changed in one place by a rule: a factor is
dropped, or a sign, a function, a name or an index is replaced. `slips.py` has changes that are known. All functions
that the formula calls share a separate namespace, in which one of them is exchanged at a time.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import functools
import inspect
import itertools
import math
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .spec import Spec

FLAGS = __future__.annotations.compiler_flag

# A pattern, what it becomes, and a sentence on the change. Single letters stand for any expression.
RULES = (
    ("a + b", "a - b", "the sign of a term is wrong"),
    ("a - b", "a + b", "the sign of a term is wrong"),
    ("a - b", "b - a", "a difference is taken the other way round"),
    ("-a", "a", "a minus is missing"),
    ("a + b", "a", "a term is missing"),
    ("a + b", "b", "a term is missing"),
    ("a + b", "a + b + b", "a term is added twice"),
    ("a - b", "a", "a term is missing"),
    ("a * a", "a", "a square is missing"),
    ("a * a", "abs(a)", "an absolute value stands in place of a square"),
    ("a * b", "a", "a factor is missing"),
    ("a * b", "b", "a factor is missing"),
    ("a * b", "a * a * b", "a factor stands there twice"),
    ("a * b", "a * b * b", "a factor stands there twice"),
    ("a / b", "a", "a division is missing"),
    ("a / b", "1 / b", "a factor is missing"),
    ("a / b", "b", "a division is missing"),
    ("a / b", "a * b", "it multiplies where it should divide"),
    ("a * b", "a / b", "it divides where it should multiply"),
    ("a / b", "b / a", "a fraction is upside down"),
    ("a * b", "a + b", "it adds where it should multiply"),
    ("a / b", "a / (b - 1)", "it divides by one too few"),
    ("a / b", "a / (b + 1)", "it divides by one too many"),
    ("a // b", "a % b", "a remainder stands in place of a quotient"),
    ("a % b", "a // b", "a quotient stands in place of a remainder"),
    ("a ** b", "a", "a power is missing"),
    ("a ** b", "abs(a)", "an absolute value stands in place of a power"),
    ("a ** b", "a * b", "a product stands in place of a power"),
    ("a ** b", "a ** (b + 1)", "a power is one too high"),
    ("a ** b", "a ** (b - 1)", "a power is one too low"),
    ("a @ b", "a @ b.T", "a matrix is transposed"),
    ("a @ b.T", "a @ b", "a matrix is not transposed"),
    ("a @ b", "b @ a", "the order of a product is wrong"),
    ("1 - a", "a", "1 minus is missing"),
    ("1 - a * a", "(1 - a) * (1 - a)", "the square stands in the wrong place"),
    ("1 - a * a", "a * (1 - a)", "tanh is differentiated as a sigmoid"),
    ("a * (1 - a)", "1 - a * a", "a sigmoid is differentiated as tanh"),
    ("f.sqrt(a + b)", "f.sqrt(a) + b", "a term under the root is added outside of it"),
    ("f.sqrt(a) + b", "f.sqrt(a + b)", "a term beside the root is added under it"),
    ("f.tanh(a + b)", "f.tanh(a) + b", "a term in tanh is added outside of it"),
    ("f.tanh(a + b)", "f.tanh(a) + f.tanh(b)", "tanh acts on each term, not on their sum"),
    ("_sigmoid(a + b)", "_sigmoid(a) + b", "a term in the sigmoid is added outside of it"),
    ("_sigmoid(a + b)", "_sigmoid(a) + _sigmoid(b)", "the sigmoid acts on each term, not on their sum"),
    ("f.tanh(a)", "a", "tanh is missing"),
    ("f.tanh(a)", "1 / (1 + f.exp(-a))", "a sigmoid stands in place of tanh"),
    ("f.tanh(a)", "max(a, 0.0)", "relu stands in place of tanh"),
    ("_sigmoid(a)", "math.tanh(a)", "tanh stands in place of the sigmoid"),
    ("_sigmoid(a)", "a", "a sigmoid is missing"),
    ("_sigmoid(a)", "1.0", "a gate is missing"),
    ("_sigmoid(a)", "_sigmoid(-a)", "a gate is 1 minus what it should be"),
    ("f.sqrt(a)", "a", "the root is missing"),
    ("f.exp(a)", "a", "exp is missing"),
    ("f.exp(a)", "f.exp(-a)", "the sign of an exponent is wrong"),
    ("f.exp(a)", "1 + a", "1 + a stands in place of exp(a)"),
    ("f.exp(a)", "1.0", "an exponential is missing"),
    ("f.expm1(a)", "f.exp(a)", "exp stands in place of exp - 1"),
    ("f.log(a)", "a", "a logarithm is missing"),
    ("f.log2(a)", "math.log(a)", "the logarithm is natural, not to base 2"),
    ("f.log2(a)", "math.log10(a)", "the logarithm is decimal, not to base 2"),
    ("f.log2(a + b)", "f.log2(a) + b", "a term in the logarithm is added outside of it"),
    ("f.log1p(a)", "f.log(a)", "1 plus is missing in a logarithm"),
    ("max(a, b)", "a", "a maximum is missing"),
    ("max(a, b)", "b", "a maximum is missing"),
    ("max(a, b)", "min(a, b)", "a minimum stands in place of a maximum"),
    ("f.mean(a, axis=b, keepdims=c)", "f.sum(a, axis=b, keepdims=c)", "a sum stands in place of a mean"),
    ("row_sum(a, b) / c", "row_sum(a, b)", "a sum stands in place of a mean"),
    ("a < b", "a <= b", "a comparison is off by one"),
    ("a <= b", "a < b", "a comparison is off by one"),
    ("a > b", "a >= b", "a comparison is off by one"),
    ("a >= b", "a > b", "a comparison is off by one"),
    ("a < b", "a > b", "a comparison is the wrong way round"),
    ("a > b", "a < b", "a comparison is the wrong way round"),
    ("a == b", "a != b", "a comparison is the wrong way round"),
    ("a if c else b", "a", "a condition is missing"),
    ("a if c else b", "b", "a condition is missing"),
    ("range(a)", "range(1, a)", "the first is left out"),
    ("range(a)", "range(a - 1)", "the last is left out"),
    ("range(a + 1)", "range(a)", "the last is left out"),
    ("range(a, b)", "range(a, b - 1)", "the last is left out"),
    ("column_sum(a)", "column_sum(a) / len(a)", "a mean stands in place of a sum"),
)
STATEMENTS = (
    ("a += b", "a -= b", "the sign of a term is wrong"),
    ("a -= b", "a += b", "the sign of a term is wrong"),
    ("a *= b", "a /= b", "it divides where it should multiply"),
    ("a /= b", "a *= b", "it multiplies where it should divide"),
    ("a += b", "a = b", "it is overwritten, not added to"),
    ("a += b", "pass", "a term is missing"),
    ("a -= b", "pass", "a term is missing"),
    ("a *= b", "pass", "a factor is missing"),
    ("a /= b", "pass", "a division is missing"),
)


def parsed(text: str) -> Any:
    """The tree of an expression, or of a statement."""
    (statement,) = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def fits(pattern: Any, node: Any, found: dict[str, Any]) -> bool:
    """Whether `node` has the form of `pattern`. `found` gets what each letter stands for, everywhere the same."""
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1:
        return ast.dump(found.setdefault(pattern.id, node)) == ast.dump(node)
    if isinstance(pattern, list):
        same_length = isinstance(node, list) and len(pattern) == len(node)
        return same_length and all(fits(p, n, found) for p, n in zip(pattern, node, strict=True))
    if not isinstance(pattern, ast.AST):
        return bool(pattern == node)
    if type(pattern) is not type(node):
        return False
    return all(fits(getattr(pattern, f), getattr(node, f), found) for f in pattern._fields if f != "ctx")


def filled(change: Any, found: dict[str, Any]) -> Any:
    """`change`, with its letters replaced by what they stand for; `change` itself is altered."""
    if isinstance(change, ast.Name) and change.id in found:
        return found[change.id]
    for name, value in ast.iter_fields(change):
        if isinstance(value, list):
            setattr(change, name, [filled(v, found) if isinstance(v, ast.AST) else v for v in value])
        elif isinstance(value, ast.AST):
            setattr(change, name, filled(value, found))
    return change


_RULES, _STATEMENTS = ([(parsed(a), parsed(b), says) for a, b, says in table] for table in (RULES, STATEMENTS))


@dataclass(frozen=True)
class Mutant:
    """One change of one function, and what it is, in words. `rank` is 0 for the plainest changes.

    `place` is FILE:LINE. `new` goes into the slot: a node, its field, and an index if that is a list.
    """

    function: str
    place: str
    says: str
    rank: int
    slot: tuple[ast.AST, str, int | None] = field(repr=False, compare=False)
    new: Any = field(repr=False, compare=False)


class Formula:
    """Functions, and those that they call in the modules `within`, in a namespace where any can be exchanged."""

    def __init__(self, *entries: Callable[..., Any], within: str):
        self.space: dict[str, Any] = {"math": math}
        self.places: dict[str, tuple[str, int]] = {}  # file, and the line before the first
        self.trees: dict[str, ast.FunctionDef] = {}
        self.entries, self.within = [inspect.unwrap(entry) for entry in entries], within
        for entry in self.entries:
            self._collect(entry)
        for tree in self.trees.values():
            self._define(tree)

    def _collect(self, function: types.FunctionType) -> None:
        lines, first = inspect.getsourcelines(function)
        tree = parsed(textwrap.dedent("".join(lines)))
        tree.decorator_list = []
        if isinstance(tree.body[0], ast.Expr) and len(tree.body) > 1:
            del tree.body[0]  # the docstring
        self.trees[function.__name__] = tree
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
        module = ast.fix_missing_locations(ast.Module([tree], []))
        exec(compile(module, "<mutant>", "exec", FLAGS, True), self.space)

    def function(self, i: int = 0) -> Callable[..., Any]:
        """Entry i, with the changes that hold when it is called."""
        entry = self.entries[i]

        @functools.wraps(entry)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.space[entry.__name__](*args, **kwargs)

        return call

    @contextlib.contextmanager
    def mutated(self, mutants: list[Mutant]) -> Iterator[None]:
        """With these changes in the block."""
        names = {mutant.function for mutant in mutants}
        before = {name: self.space[name] for name in names}
        try:
            with _changed(mutants):
                for name in names:
                    self._define(self.trees[name])
            yield
        finally:
            self.space.update(before)

    def source(self, name: str, mutants: tuple[Mutant, ...] = ()) -> str:
        """A function's text, without docstring, with these changes."""
        with _changed(mutants):
            return ast.unparse(self.trees[name])

    def patched(self, says: str, changes: tuple[tuple[str, str], ...]) -> list[Mutant]:
        """The mutants that make these changes of text; none where a text is not in the functions."""
        texts = {n: ast.unparse(tree) for n, tree in self.trees.items()}
        touched = {}
        for old, new in changes:
            name = next((n for n, text in texts.items() if old in text), None)
            if name is None:
                return []
            texts[name] = texts[name].replace(old, new)
            touched[name] = parsed(texts[name]).body
        return [Mutant(name, "", says, 0, (self.trees[name], "body", None), body) for name, body in touched.items()]

    def mutants(self, run: Callable[[], Any]) -> list[Mutant]:
        """All mutants, the plainest first. `run` calls the formula once, to see which names have values alike."""
        values = self._values(run)
        found = [m for n, tree in self.trees.items() for m in _Rules(n, tree, values[n], *self.places[n]).mutants()]
        for entry in self.entries:
            name = entry.__name__
            place = "{}:{}".format(*self.places[name])
            found += _of_arguments(name, place, self.trees[name], inspect.signature(entry).parameters, values[name])
        return sorted(found, key=lambda m: m.rank)  # equally plain ones by place

    def _values(self, run: Callable[[], Any]) -> dict[str, dict[str, Any]]:
        """For each function the values of its names, and of its plain subscripts, as they are when it returns."""
        wanted = {n: _atoms(tree) for n, tree in self.trees.items()}
        owner = {inner.name: n for n, tree in self.trees.items() for inner in ast.walk(tree)
                 if isinstance(inner, ast.FunctionDef)}  # fmt: skip
        values: dict[str, dict[str, Any]] = {n: {} for n in self.trees}

        def look(frame: Any, event: str, arg: Any) -> None:
            if event == "return" and frame.f_code.co_filename == "<mutant>" and frame.f_code.co_name in owner:
                of = owner[frame.f_code.co_name]
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
    """The library's backward as a formula, and an implementation with it; None where it is no function of ops/."""
    ours, name = spec.ours(), f"{spec.function}_backward"
    backward = getattr(ours, name, None)
    if backward is None or not backward.__module__.startswith("tinyattn.ops"):
        return None
    formula = Formula(backward, within=backward.__module__)
    return formula, types.SimpleNamespace(**{spec.function: getattr(ours, spec.function), name: formula.function()})


def explained(formula: Formula, slips: Iterable[Any], run: Callable[[], Any], same: Callable[[Any], bool]) -> str:
    """The sentence of the first slip, or else mutant, with which `run` has the `same` result; "" if none has."""
    known = ((slip.says, formula.patched(slip.says, slip.changes)) for slip in slips)
    ruled = ((mutant.says, [mutant]) for mutant in formula.mutants(run))
    for says, mutants in itertools.chain(known, ruled):
        with contextlib.suppress(Exception), formula.mutated(mutants), np.errstate(all="ignore"):
            if mutants and same(run()):
                return says
    return ""


class _Rules:
    """The mutants of one function."""

    def __init__(self, name: str, tree: ast.FunctionDef, values: dict[str, Any], file: str, before: int):
        self.name, self.tree, self.values, self.file, self.before = name, tree, values, file, before
        self.seen: set[Any] = set()

    def mutants(self) -> Iterator[Mutant]:
        for slot, node, statement in _sites(self.tree, self.tree):
            if isinstance(node, ast.stmt):
                for change, label in _matches(_STATEMENTS, node):
                    yield from self._made(slot, change, label, node, 1)
            else:
                yield from self._of_expression(slot, node, statement)
        for node, name, body in _bodies(self.tree):
            for i, statement in enumerate(body):
                yield from self._of_body((node, name, None), body, i, statement)

    def _of_expression(self, slot: Any, node: Any, statement: Any) -> Iterator[Mutant]:
        for change, label in _matches(_RULES, node):
            yield from self._made(slot, change, label, statement, 1)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            number: Any = node.value
            for value in {0: (1,), 1: (0, 2), 2: (1, 3)}.get(number, (2 * number, number / 2)):
                yield from self._made(slot, ast.Constant(value), "a number is wrong", statement, 2)
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            for axis in (0, -1, -2) if keyword.arg == "axis" else ():
                kept = [ast.keyword("axis", ast.Constant(axis)) if k is keyword else k for k in node.keywords]
                yield from self._made(slot, ast.Call(node.func, node.args, kept), "the axis is wrong", statement, 2)
        if isinstance(slot[0], ast.Attribute):
            return
        inside = (isinstance(slot[0], ast.Subscript) and slot[1] == "slice") or isinstance(slot[0], ast.Slice)
        for inner in ast.walk(node) if isinstance(node, ast.BinOp) and not inside else ():
            if (text := _atom(inner)) and _kind(self.values.get(text)) is not None:
                yield from self._made(slot, inner, f"`{text}` alone stands in place of a formula", statement, 3)
        text = _atom(node)
        for other in _alike(text, self.values):
            label = f"`{other}` stands where `{text}` belongs"
            yield from self._made(slot, parsed(other), label, statement, 3)
        for step in ("- 1", "+ 1") if inside and isinstance(node, ast.Name) else ():
            yield from self._made(slot, parsed(f"{text} {step}"), "an index is off by one", statement, 3)

    def _made(self, slot: Any, new: Any, label: str, statement: Any, rank: int) -> Iterator[Mutant]:
        old_text = _text(statement)
        with _put(slot, new):
            new_text = "" if isinstance(new, ast.Pass) else _text(new if isinstance(new, ast.stmt) else statement)
        if new_text == old_text or (id(statement), new_text) in self.seen:
            return
        self.seen.add((id(statement), new_text))
        gives = f"`{_short(new_text)}` in place of `{_short(old_text)}`" if new_text else f"no `{old_text}`"
        yield Mutant(self.name, self._at(statement), f"{label}, as with {gives}", rank, slot, new)

    def _of_body(self, slot: Any, body: list[Any], i: int, statement: Any) -> Iterator[Mutant]:
        """Two statements in the other order, two names in each other's place, 1 - z for z in a whole statement."""
        at, then = self._at(statement), body[i + 1] if i + 1 < len(body) else None
        if isinstance(statement, _SIMPLE) and isinstance(then, _SIMPLE):
            says = f"two steps are in the other order, as with `{_text(then)}` before `{_text(statement)}`"
            yield Mutant(self.name, at, says, 1, slot, [*body[:i], then, statement, *body[i + 2 :]])
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            names = [target.id for target in statement.targets[0].elts if isinstance(target, ast.Name)]
            for a, b in itertools.combinations(names, 2):
                says = f"{a} and {b} are exchanged, after `{_short(_text(statement))}`"
                swap = parsed(f"{a}, {b} = ({b}, {a})")
                yield Mutant(self.name, at, says, 1, slot, [*body[: i + 1], swap, *body[i + 1 :]])
        for z in sorted(_read(statement)) if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else ():
            if isinstance(self.values.get(z), float | np.ndarray):
                says = f"`{z}` and `1 - {z}` are exchanged in `{_short(_text(statement))}`"
                turned = _Complement(z).visit(copy.deepcopy(statement))
                yield Mutant(self.name, at, says, 2, slot, [*body[:i], turned, *body[i + 1 :]])

    def _at(self, statement: Any) -> str:
        return f"{self.file}:{statement.lineno + self.before}"


_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr)


class _Complement(ast.NodeTransformer):
    def __init__(self, name: str):
        self.name = name

    def visit_Name(self, node: ast.Name) -> Any:
        return parsed(f"1 - {node.id}") if node.id == self.name and isinstance(node.ctx, ast.Load) else node


def _of_arguments(name: str, place: str, tree: Any, parameters: Any, known: dict[str, Any]) -> Iterator[Mutant]:
    """An argument that is not used, that is transposed, or that stands in another's place."""
    lines = []
    for n, p in parameters.items():
        if p.default is not p.empty:
            lines.append((f"{n} = {p.default!r}", f"the argument {n} is not used: it is always {p.default!r}"))
        if isinstance(known.get(n), np.ndarray) and known[n].ndim > 2:  # causes.py tries transposed matrices
            square = f"{n}.shape[-1] == {n}.shape[-2]"
            lines.append((f"{n} = {n}.swapaxes(-1, -2) if {square} else {n}", f"{n} is transposed, where it is square"))
    for a, b in itertools.combinations(parameters, 2):
        if b in _alike(a, known):
            lines.append((f"{a}, {b} = ({b}, {a})", f"the arguments {a} and {b} are exchanged"))
    for text, says in lines:
        yield Mutant(name, place, says, 1, (tree, "body", None), [parsed(text), *tree.body])


def _matches(rules: Any, node: Any) -> Iterator[tuple[Any, str]]:
    """The changes of the rules that fit a node, each with its label."""
    for pattern, change, label in rules:
        letters: dict[str, Any] = {}
        if type(pattern) is type(node) and fits(pattern, node, letters):
            yield filled(copy.deepcopy(change), letters), label


def _read(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)}


def _sites(node: ast.AST, statement: Any) -> Iterator[tuple[Any, ast.AST, Any]]:
    """Everything below `node` that a rule may change: its slot, itself, and the statement that it is in."""
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.AnnAssign) and name in ("annotation", "returns", "args"):
            continue
        for i, child in list(enumerate(value)) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Call) and _text(child).startswith("expect"):
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


def _atom(node: Any) -> str:
    """The text of a name, or of a subscript of one, that is read; else ""."""
    plain = isinstance(node, ast.Name) or (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name))
    return ast.unparse(node) if plain and isinstance(node.ctx, ast.Load) else ""


def _atoms(tree: ast.AST) -> set[str]:
    every = {_atom(node) for node in ast.walk(tree)} - {""}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return every | stored | {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}


def _alike(text: str, values: dict[str, Any]) -> list[str]:
    """The other atoms whose values have the same type and shape, and are not the same; whole numbers are left out."""
    if text not in values or _kind(values[text]) is None:
        return []
    x = values[text]
    alike = (n for n, y in values.items() if n != text and _kind(y) == _kind(x))
    return [n for n in alike if not np.array_equal(np.asarray(values[n]), np.asarray(x))]


def _kind(x: Any) -> Any:
    if isinstance(x, float | np.floating):
        return float
    if isinstance(x, np.ndarray):
        return x.shape, x.dtype.kind
    if isinstance(x, list) and x and all(isinstance(y, float) for y in x):
        return len(x)
    return None


def _text(node: ast.AST) -> str:
    """The source of an expression or a statement on one line; the head of a statement with a body."""
    return ast.unparse(ast.fix_missing_locations(copy.copy(node))).lstrip().split("\n")[0]


def _short(line: str) -> str:
    return line if len(line) <= 90 else f"{line[:87]}..."


@contextlib.contextmanager
def _changed(mutants: Iterable[Mutant]) -> Iterator[None]:
    """With the changes in the trees."""
    with contextlib.ExitStack() as stack:
        for mutant in mutants:
            stack.enter_context(_put(mutant.slot, mutant.new))
        yield


@contextlib.contextmanager
def _put(slot: tuple[ast.AST, str, int | None], new: Any) -> Iterator[None]:
    parent, name, i = slot
    before = getattr(parent, name)
    setattr(parent, name, new if i is None else [*before[:i], new, *before[i + 1 :]])
    try:
        yield
    finally:
        setattr(parent, name, before)
