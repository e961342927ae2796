"""The chapters' sources: find them, make the unsolved and the solved form of each, run them without a kernel.

A source is Python in jupytext's percent format: `# %%` begins a cell of code, `# %% [markdown]` one of text. A solution
stands between two comments,

    ### BEGIN SOLUTION
    ### END SOLUTION

and readers get a stub in its place: inside a function `raise NotImplementedError`, at the top level `name = ...` for
each name. The rest of the chapter must run both with the stubs and with the solutions.
"""

import ast
import contextlib
import hashlib
import io
import linecache
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from .exercise import RIGHT, UNANSWERED, Exercise, Verdict
from .exercises import BY_CHAPTER, NUMBER_OF, varied
from .prose import Prose, folder
from .session import recording

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
# Words read carefully in a minute; seconds for a line of code, a formula on paper, a written prediction.
WORDS_A_MINUTE, SECONDS_A_LINE, SECONDS_A_FORMULA, SECONDS_A_PREDICTION = 150, 7, 25, 90


class BrokenChapterError(RuntimeError):
    """A chapter does not run to its end."""


@dataclass(frozen=True)
class Cell:
    """A cell of a source: `head` is the rest of its `# %%` line, `text` all lines below."""

    head: str
    text: str

    @property
    def is_text(self) -> bool:
        return self.head.startswith("[markdown]")

    @property
    def is_folded(self) -> bool:
        return "hide-input" in self.head or "hide-cell" in self.head


@dataclass(frozen=True)
class Size:
    """The length of an unsolved chapter.

    Numbers of `words`, displayed `formulas`, `lines` of unfolded code and `predictions`; minutes for the `exercises`.
    """

    words: int
    formulas: int
    lines: int
    predictions: int
    exercises: int

    @property
    def reading(self) -> int:
        """Minutes to read and to predict."""
        seconds = self.lines * SECONDS_A_LINE + self.formulas * SECONDS_A_FORMULA
        return round(self.words / WORDS_A_MINUTE + (seconds + self.predictions * SECONDS_A_PREDICTION) / 60)

    @property
    def minutes(self) -> int:
        return self.reading + self.exercises


@dataclass(frozen=True)
class Chapter:
    """A chapter's source, notebooks/NN_name.py. A `seed`, if there is one, draws its numbers and planted bugs."""

    path: Path
    seed: int | None = None

    @cached_property
    def source(self) -> str:
        """Raises ValueError unless each text that varies occurs exactly once in the chapter."""
        text = self.path.read_text(encoding="utf-8")
        if self.seed is None or self.number not in BY_CHAPTER:
            return text
        shown, mine = Prose(self.number).shown, Prose(self.number, self.seed).shown
        for name in shown:
            for before, after in zip(shown[name], mine[name], strict=True):
                if (times := text.count(before)) != 1:
                    raise ValueError(f"{self.path} has {before!r} {times} times, expected once: {name} varies it")
                text = text.replace(before, after)
            text = text.replace(f'\ncheck("{name}", {name})\n', f'\ncheck("{name}", {name}, seed={self.seed})\n')
        return text

    @property
    def number(self) -> int:
        return int(self.path.name[:2])

    @property
    def version(self) -> str:
        """Its number, and a hash of its source and of all variants. `course build` writes it into notebooks."""
        varies = Prose(self.number).varies if self.number in BY_CHAPTER else {}
        text = replace(self, seed=None).source + (repr(varies) if varies else "")
        return f"{self.number:02}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def title(self) -> str:
        """Its first heading."""
        heading = re.search(r"^# # (.+)$", self.source, re.M)
        if heading is None:
            raise ValueError(f"{self.path} has no title, expected a line `# # NN · title`")
        return heading[1]

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(varied(exercise, self.seed) for exercise in BY_CHAPTER.get(self.number, ()))

    @property
    def cells(self) -> list[Cell]:
        """Its cells, unsolved."""
        parts = re.split(r"^# %%(.*)\n", self.unsolved(), flags=re.M)[1:]
        return [Cell(head.strip(), text) for head, text in zip(parts[::2], parts[1::2], strict=True)]

    def size(self) -> Size:
        text = "\n".join(re.sub(r"^# ?", "", cell.text, flags=re.M) for cell in self.cells if cell.is_text)
        formulas = len(re.findall(r"\$\$.+?\$\$", text, re.S))
        prose = re.sub(r"\$\$.+?\$\$|\$[^$]+\$|`[^`]*`", " x ", text, flags=re.S)      # a formula in a line is a word
        prose = re.sub(r"\]\([^)]*\)|<[^>]*>", " ", prose)
        words = sum(any(c.isalnum() for c in word) for word in prose.split())
        shown = [cell for cell in self.cells if not cell.is_text and not cell.is_folded]
        code = [line.strip() for cell in shown for line in cell.text.split("\n")]
        return Size(
            words=words,
            formulas=formulas,
            lines=sum(bool(line) and not line.startswith("#") for line in code),
            predictions=len(re.findall(r"\*\*Predict", text)),
            exercises=sum(exercise.minutes for exercise in self.exercises),
        )

    def solved(self) -> str:
        """The source with its solutions, without the comments around them."""
        return self._with(lambda block, indent: block)

    def unsolved(self) -> str:
        """The source with stubs in place of the solutions."""
        return self._with(_stub)

    def marked(self) -> str:
        """The source with solutions between their comments, and with the stubs that remain when these are cut out."""
        return self._with(_marked)

    def _with(self, replacement: Callable[[list[str], str], Iterable[str]]) -> str:
        """The source with every solution replaced by `replacement(its lines, its indent)`."""
        lines: list[str] = []
        block: list[str] | None = None
        for number, line in enumerate(self.source.split("\n"), start=1):
            mark = line.strip()
            if mark == BEGIN and block is None:
                block = []
            elif mark == END and block is not None:
                try:
                    lines += replacement(block, line[: len(line) - len(line.lstrip())])
                except ValueError as error:
                    raise ValueError(f"{self.path}, solution that ends in line {number}: {error}") from None
                block = None
            elif mark in (BEGIN, END) or (block is not None and line.startswith("# %%")):
                raise ValueError(f"{self.path}, line {number}: solution marks do not pair up in their cell")
            else:
                (lines if block is None else block).append(line)
        if block is not None:
            raise ValueError(f"{self.path}: a solution has no end")
        return "\n".join(lines)

    def run(self, text: str) -> list[Verdict]:
        """Execute `text`, a form of the source, like a notebook. -> the verdicts of its calls of `check`.

        Raises BrokenChapterError, with the line, if the chapter raises.
        """
        name = f"{self.path} as run"  # a unique name, by which inspect and tracebacks find the text
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        try:
            with recording() as verdicts, contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, name, "exec", dont_inherit=True), {"__name__": self.path.stem})
        except Exception as error:
            here = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == name]
            line = text.split("\n")[(here[-1] or 1) - 1].strip() if here else ""
            raise BrokenChapterError(f"{self.path.name} raises {type(error).__name__}: {error}\n    {line}") from error
        return verdicts


def _stub(block: list[str], indent: str) -> Iterator[str]:
    """The lines that replace a solution."""
    if indent:
        yield f"{indent}raise NotImplementedError  # your turn"
        return
    for node in ast.parse("\n".join(block)).body:
        if not isinstance(node, ast.Assign) or not all(isinstance(t, ast.Name) for t in node.targets):
            raise ValueError("outside of a function, a solution may only assign values to names")
        yield from (f"{ast.unparse(target)} = ...  # your turn" for target in node.targets)


def _marked(block: list[str], indent: str) -> list[str]:
    """A solution between its comments, and its stub: after it in a function, before it elsewhere."""
    stub, marked = [*_stub(block, indent)], [indent + BEGIN, *block, indent + END]
    return marked + stub if indent else stub + marked


def chapters(numbers: list[int] | None = None, seed: int | None = None) -> list[Chapter]:
    """All chapters, or those of these numbers. Raises ValueError for an unknown number."""
    every = [Chapter(path, seed) for path in sorted(folder().glob("[0-9][0-9]_*.py"))]
    known = {chapter.number: chapter for chapter in every}
    for number in numbers or ():
        if number not in known:
            raise ValueError(f"there is no chapter {number:02}; there are {', '.join(f'{n:02}' for n in known)}")
    return [known[number] for number in numbers] if numbers else every


def solution_of(exercise: Exercise) -> str:
    """The cell with the exercise's solution, indented, without the comments around the solution."""
    number = NUMBER_OF[exercise.name]
    defines = rf"^(def {exercise.name}\(|{exercise.name} = )"
    for chapter in chapters([number], exercise.seed):
        for cell in re.split(r"^# %%.*\n", chapter.source, flags=re.M):
            if BEGIN in cell and re.search(defines, cell, re.M):
                lines = [line for line in cell.strip().split("\n") if line.strip() not in (BEGIN, END)]
                return "\n".join("    " + line for line in lines)
    raise ValueError(f"chapter {number:02} holds no solution of {exercise.name}")


def problems(chapter: Chapter) -> list[str]:
    """The faults of a chapter's exercises, a sentence each: stubs must fail and solutions pass.

    The whole chapter is run with each form.
    """
    faults = []
    for form, text, expected in (("stub", chapter.unsolved(), UNANSWERED), ("solution", chapter.solved(), RIGHT)):
        try:
            verdicts = {verdict.exercise.name: verdict for verdict in chapter.run(text)}
        except BrokenChapterError as error:
            faults.append(f"with its {form}s, {error}")
            continue
        for exercise in chapter.exercises:
            if exercise.name not in verdicts:
                faults.append(f"{chapter.path.name} never checks {exercise.name}")
            elif verdicts[exercise.name].grade.outcome != expected:
                faults.append(f"the {form} of {exercise.name}:\n{verdicts[exercise.name]}")
        alien = sorted(verdicts.keys() - {exercise.name for exercise in chapter.exercises})
        faults += [f"{chapter.path.name} checks {name}, which belongs to another chapter" for name in alien]
    return faults
