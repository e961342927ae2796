"""Read a submission as text: the answer to each exercise, and the statements that it needs.

Nothing is executed, and answers are not read from saved outputs. The answer is the second argument of the last
`check("NAME", ...)` at the top level of a notebook or a .py file, or else what NAME was last bound to. The statements
that it needs are found backwards from there: each that binds or changes a name which the answer or a needed statement
uses.
"""

import ast
import contextlib
import dis
import functools
import inspect
import json
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from ..chapters import chapters
from ..status import text_of
from ..variants import as_seed
from .folders import is_source

MOST_BYTES = 20_000_000  # limit for a file
_LINES = ("time", "timeit", "capture", "prun")  # cell magics above ordinary code


@dataclass(frozen=True)
class Slice:
    """The answer to an exercise: an expression, the statements before it that it needs, and the file."""

    expression: ast.expr
    statements: list[ast.stmt]
    file: str

    @functools.cached_property
    def text(self) -> str:
        tree = ast.Module(sorted(self.statements, key=lambda s: not _is_future(s)), [])
        return ast.unparse(tree)

    @property
    def asked(self) -> str:
        return ast.unparse(self.expression)

    @functools.cached_property
    def definitions(self) -> list[ast.stmt]:
        """The statements that bind the answer's name: its `def`, or an assignment."""
        names = {n.id for n in ast.walk(self.expression) if isinstance(n, ast.Name)}
        return [s for s in self.statements if _uses(s).bound & names]

    @property
    def is_stub(self) -> bool:
        """Whether the answer is still the chapter's stub: `...`, or a function that raises NotImplementedError."""
        definitions: list[ast.AST] = [*self.definitions] or [self.expression]
        match definitions:
            case [ast.FunctionDef(body=[*before, ast.Raise(exc=ast.Name(id="NotImplementedError"))])]:
                return all(isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) for s in before)
            case [ast.Assign(value=ast.Constant(value=value))] | [ast.Constant(value=value)]:
                return value is ...
        return False


@dataclass
class Source:
    """A notebook or a Python file: its statements in order, and the cells that could not be read."""

    file: str
    statements: list[ast.stmt] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)  # text of a cell, and why
    text: str = ""
    shown: str = ""  # saved outputs: for flags only
    chapter: str = ""  # the chapter's version, as built
    seed: int | None = None  # the seed that drew its numbers

    def answer(self, name: str) -> Slice | None:
        """The answer to an exercise, if there is one here."""
        for at in reversed(range(len(self.statements))):
            for node in reversed(list(_top_level(self.statements[at]))):
                match node:
                    case ast.Call(func=ast.Name(id="check"), args=[ast.Constant(value=value), answer]) if value == name:
                        return Slice(answer, self._needed(answer, at + 1), self.file)
        if not any(name in _uses(s).bound for s in self.statements):
            return None
        answer = ast.Name(name, ast.Load())
        return Slice(answer, self._needed(answer, len(self.statements)), self.file)

    def why_not(self, name: str) -> str:
        """The reason why the cell with this exercise cannot be read, or ""."""
        return next((why for text, why in self.unread if re.search(rf"\b{name}\b", text)), "")

    def _needed(self, answer: ast.expr, end: int) -> list[ast.stmt]:
        """The statements before `end` that an expression needs. A module's functions do not count as changing it."""
        imports = [s for s in self.statements if isinstance(s, ast.Import | ast.ImportFrom)]
        modules = set[str]().union(*(_uses(s).bound for s in imports))
        late, before = set[str](), None
        while before != late:  # functions look names up when they are called, so later statements may bind them
            before = set(late)
            needed, chosen = _uses(ast.fix_missing_locations(ast.Expr(answer))).now | late, list[ast.stmt]()
            for statement in reversed(self.statements[:end]):
                uses = _uses(statement)
                if not (uses.bound & needed or (uses.changed - modules) & needed or "*" in uses.bound):
                    continue
                chosen.insert(0, statement)
                if uses.surely:
                    needed -= uses.bound
                needed |= uses.now
                late |= uses.later
        return chosen


@dataclass(frozen=True)
class _Uses:
    """The names that a statement binds, changes, looks up `now`, or looks up `later` in functions that it defines.

    With `surely` it always binds its names, as an assignment does, so earlier bindings do not matter.
    """

    bound: set[str]
    changed: set[str]
    now: set[str]
    later: set[str]
    surely: bool


_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@functools.cache
def _uses(statement: ast.stmt) -> _Uses:
    bound, now, later, changed = set[str](), set[str](), set[str](), set[str]()

    def look(code: CodeType, into: set[str]) -> None:
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
                into.add(str(step.argval))
            elif code.co_name == "<module>" and step.opname in ("STORE_NAME", "DELETE_NAME"):
                bound.add(str(step.argval))
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                at_once = inner.co_name in _AT_ONCE or not inner.co_flags & inspect.CO_OPTIMIZED  # a class's body
                look(inner, into if at_once else later)

    look(compile(ast.Module([statement], []), "", "exec", dont_inherit=True), now)
    for node in _top_level(statement):
        match node:
            case ast.AugAssign(target=target) | ast.Expr(value=ast.Call(func=ast.Attribute(value=target))):
                changed.update(_base(target))
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                changed.update(_base(node))
    simple = ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    everything = isinstance(statement, ast.ImportFrom) and (statement.names[0].name == "*" or _is_future(statement))
    return _Uses(bound | ({"*"} if everything else set()), changed, now, later, isinstance(statement, simple))


def _base(node: ast.AST) -> Iterator[str]:
    """The name that a chain of attributes and subscripts begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without those inside functions."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _top_level(child)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def read_source(path: Path, name: str) -> Source:
    """Read a notebook or a Python file, also a notebook that is called .py. Raises ValueError, with the reason, if it
    is neither. A byte order mark and `# coding: latin-1` are taken as Python takes them."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{name} has {path.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    try:
        with tokenize.open(path) as file:
            text = file.read()
    except (UnicodeDecodeError, SyntaxError):
        raise ValueError(f"{name} is not text in UTF-8") from None
    if path.suffix.lower() == ".py" and not text.lstrip().startswith("{"):
        return from_text(name, [text])
    if not text.strip():
        raise ValueError(f"{name} is empty, expected a notebook")
    try:
        made = json.loads(text)
        metadata = made.get("metadata", {})
        language = str(metadata.get("language_info", metadata.get("kernelspec", {})).get("name", "python"))[:40]
        cells = [(text_of(c["source"]), c.get("outputs", ())) for c in made["cells"] if c["cell_type"] == "code"]
        shown = "\n".join(text_of(out.get("text", "")) + text_of(out.get("data", {}).get("text/plain", ""))
                          for _, outputs in cells for out in outputs)  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{name} is not a notebook ({type(error).__name__})") from None
    if "python" not in language.lower():
        raise ValueError(f"{name} was written for the kernel {language!r}, expected Python")
    source = from_text(name, [_without_magics(text) for text, _ in cells])
    source.shown, about = shown, metadata.get("tinyattn")
    if isinstance(about, dict):                             # what `tinyattn course build` wrote into the notebook
        source.chapter = str(about.get("chapter", ""))[:40]
        source.seed = _seed(about["seed"]) if "seed" in about else source.seed
    return source


def from_text(name: str, cells: list[str]) -> Source:
    """The statements of cells; a cell that Python cannot read is left out, with the reason."""
    source = Source(name, text="\n".join(cells))
    for cell in cells:
        try:
            tree = ast.parse(cell)
            compile(tree, "", "exec", dont_inherit=True)  # finds more errors: a `return` outside of a function
            source.statements += tree.body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = f", line {error.lineno} of its cell" if isinstance(error, SyntaxError) else ""
            source.unread.append((cell, f"{type(error).__name__}: {getattr(error, 'msg', error)}{line}"))
    seeds = re.findall(r"^check\(.*, seed=(\w+)", source.text, re.M)
    source.seed = _seed(seeds[0]) if seeds else None
    return source


def _seed(value: Any) -> int | None:
    with contextlib.suppress(ValueError):
        return as_seed(value)
    return None


def _without_magics(cell: str) -> str:
    """The cell's Python without lines that begin with IPython's `%` or `!`; "" for a cell such as %%bash."""
    first = re.match(r"\s*%%(\w+)", cell)
    if first and first[1] not in _LINES:
        return ""
    return re.sub(r"^(\s*)[%!].*$", r"\1pass", cell, flags=re.M)


def read_sources(folder: Path, files: list[str]) -> tuple[list[Source], list[str]]:
    """-> the sources of a submission, notebooks first; and a sentence for each file that cannot be read."""
    sources, problems = [], []
    numbers = {chapter.path.stem[2:]: f"{chapter.number:02}" for chapter in chapters()}
    for name in sorted(files, key=lambda name: (not name.lower().endswith(".ipynb"), name)):
        if is_source(name):
            try:
                sources.append(read_source(folder / name, name))
            except (ValueError, OSError) as error:
                problems.append(str(error))
            stem = Path(name).stem
            if stem[:2].isdecimal() and (now := numbers.get(stem[2:], stem[:2])) != stem[:2]:
                problems.append(f"{name}: its chapter is {now} now")
    return sources, problems


def answer_of(sources: list[Source], name: str) -> tuple[Slice | None, str]:
    """-> the first answer that is not a stub, else a stub or None; and why there is no answer, if known, else ""."""
    found = [answer for source in sources if (answer := source.answer(name)) is not None]
    why = next((why for source in sources if (why := source.why_not(name))), "")
    written = next((answer for answer in found if not answer.is_stub), None)
    return written or next(iter(found), None), "" if written and written.definitions else why
