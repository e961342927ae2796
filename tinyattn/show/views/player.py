"""The player: a trace on a page, one step at a time, forward and then backward.

Every step shows its source line within the function, and the values that the line read and made. With a gradient, the
page shows the value that it belongs to, and the forward lines that read this value, which the backward line undoes.
With a sum of gradients, it shows the terms. Every number has its parents, with the slope by each (`Parents`).
"""

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..pairing import forward_of, gradients_of, value_of
from ..parents import Parents
from ..records import Call, Entry
from ..sources import dotted, function_lines, statement_at
from ..trace_html import page
from ..trace_table import place
from ..trace_table import title as title_of
from ..tracked import Sources
from .view import View, numbers

MOST = 300_000           # the most numbers on a page: about 3 MB
STEPS = 5_000            # the most steps on a page, which lists all of them
LINKS = 300_000          # the most parents on a page: about 4 MB
ALGEBRA = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Attribute, ast.Constant, ast.Load)
NOISE = 1e-8             # slopes below this share of the largest slope, or of 1, are rounding errors


def player(trace: Any, steps: tuple[int, int] | None = None, title: str = "", start: int | None = None) -> View:
    """A page that steps through a trace, or through its steps from `steps[0]` to `steps[1]`.

    The page opens at its first step, or at step `start` with that step's first number chosen. Every number has its
    parents if the rules of `Parents` can find them, for which the trace is run once more. Raises ValueError for missing
    steps, and for more than `MOST` numbers or `STEPS` steps, naming steps that would fit.
    """
    first, last = _range(trace, steps)
    if start is not None and not first <= start <= last:
        raise ValueError(f"start is {start}, expected one of the steps {first}-{last} on the page")
    title = title or trace.roots[0].signature
    data = _Page(trace, first, last).data() | {"title": title, "said": trace.header(), "start": start}
    return View("player", title, data, page(trace.roots, trace.header()))


def _range(trace: Any, steps: tuple[int, int] | None) -> tuple[int, int]:
    first, last = steps or (0, len(trace) - 1)
    if not 0 <= first <= last < len(trace):
        raise ValueError(f"steps {first}-{last} are not there: the trace has steps 0-{len(trace) - 1}")
    sizes = np.cumsum([entry.value.size for entry in trace.entries[first : last + 1]])
    fit = min(int(np.searchsorted(sizes, MOST, side="right")), STEPS)
    if fit < len(sizes):
        size = f"steps {first}-{last} have {sizes[-1]:,} numbers, and a page holds {MOST:,} numbers and {STEPS:,} steps"
        more = f"steps {first}-{first + fit - 1} would fit" if fit else f"step {first} alone does not fit"
        raise ValueError(f"{size}: {more} (steps=({first}, {first + max(fit - 1, 0)}), or --steps A-B)")
    return first, last


class _Page:
    """Collects the data of a page. Each array, function and call is stored once, and referred to by its number."""

    def __init__(self, trace: Any, first: int, last: int) -> None:
        self._trace, self._first, self._last = trace, first, last
        self._arrays: dict[int, int] = {}                     # id of an array -> its number
        self._values: list[np.ndarray] = []                   # by number
        self._functions: dict[tuple[str, int], int] = {}
        self.arrays: list[dict[str, Any]] = []
        self.functions: list[dict[str, Any]] = []
        self._calls = [call for root in trace.roots for call in root.calls()]
        self._number = {call: i for i, call in enumerate(self._calls)}
        self._forward_end = max((e.number for e in trace.roots[0].entries()), default=-1)
        self._parents = Parents(trace)

    def data(self) -> dict[str, Any]:
        gradients = self._gradients()
        steps = [self._step(e, gradients.get(e.number)) for e in self._trace.entries[self._first : self._last + 1]]
        calls = [self._call(call) for call in self._calls]
        return {
            "first": self._first, "forward_end": self._forward_end, "steps": steps, "calls": calls,
            "functions": self.functions, "arrays": self.arrays, "parents": self._linked(),
            "loss": _flat(self._parents.loss), "shared": self._shared(),
        }  # fmt: skip

    def _array(self, x: np.ndarray) -> int:
        """The number of an array. A trace keeps equal arrays as one object, so they have one number."""
        if id(x) not in self._arrays:
            self._arrays[id(x)] = len(self.arrays)
            self._values.append(x)
            x = np.asarray(x)
            real = np.real(x) if x.dtype.kind == "c" else x
            self.arrays.append({"shape": list(x.shape), "dtype": str(x.dtype), "values": numbers(real)})
        return self._arrays[id(x)]

    def _function(self, call: Call) -> int:
        key = call.file, call.line
        if key not in self._functions:
            self._functions[key] = len(self.functions)
            where = place(call).rpartition(":")[0] or "a cell of this notebook"
            self.functions.append({"name": call.name, "file": where, "lines": function_lines(call.file, call.line)})
        return self._functions[key]

    def _call(self, call: Call) -> dict[str, Any]:
        inside = [e.number for e in call.entries()]
        return {
            "label": call.label, "title": title_of(call), "function": self._function(call),
            "parent": None if call.parent is None else self._number[call.parent], "steps": [min(inside), max(inside)],
        }  # fmt: skip

    def _step(self, entry: Entry, gradient: dict[str, Any] | None) -> dict[str, Any]:
        statement = statement_at(entry.call.file, entry.line)
        reads = [] if entry.how == "input" else list(self._reads(entry, statement.reads))
        for step in self._made_from(entry) - {read["step"] for read in reads}:
            made = self._trace.entries[step]
            reads.append({"name": made.name, "array": self._array(made.value), "step": step})
        words = {"input": "comes in", "in place": "written in place", "returned": "returned", "implied": "follows"}
        return {
            "name": entry.name, "how": words.get(entry.how, entry.how), "array": self._array(entry.value),
            "unfilled": entry.how == "allocated", "call": self._number[entry.call], "line": entry.line,
            "last": statement.last, "text": entry.text, "reads": reads,
            "adds": [] if entry.how == "input" else self._adds(entry, statement.adds, reads), "gradient": gradient,
        }  # fmt: skip

    def _reads(self, entry: Entry, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """The arrays that the line read: name, number of the array, and the step that made it, if any."""
        seen = set()
        for name in names:
            value, made = self._value(entry, name) or (None, None)
            if value is not None and value.dtype.kind in "biufc" and id(value) not in seen:
                seen.add(id(value))
                yield {"name": name, "array": self._array(value), "step": made}

    def _value(self, entry: Entry, name: str) -> tuple[np.ndarray, int | None] | None:
        """The value of `name` when the line of `entry` ran, and its step. It may be an input, or have another name."""
        call = entry.call
        for step in reversed(call.steps):
            if isinstance(step, Entry) and step.name == name and step.number < entry.number:
                return step.value, step.number
        for names in (call.renamed, call.inputs):
            if name in names:
                listed = call.listed.get(name)
                made = listed if listed is not None and listed.number < entry.number else self._made(names[name], entry)
                return names[name], None if made is None else made.number
        return None

    def _made(self, value: np.ndarray, before: Entry) -> Entry | None:
        """The latest step before `before` that made this value."""
        return next((e for e in reversed(self._trace.entries[: before.number]) if e.value is value), None)

    def _adds(self, entry: Entry, terms: tuple[ast.expr, ...], reads: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The gradients that a line of the backward adds: each has a name, or comes from a call, or is recomputed.

        If one other term is left, it is computed as the rest of the sum.
        """
        if entry.number <= self._forward_end or len(terms) < 2:
            return []
        parts: list[Any] = []
        for term in terms:
            read = next((r for r in reads if r["name"] == dotted(term)), None)
            returned = self._returned_by(entry, term) if isinstance(term, ast.Call) else None
            parts.append(read or returned or self._computed(entry, term))
        shape = list(entry.value.shape)
        known = [part for part in parts if part is not None and self.arrays[part["array"]]["shape"] == shape]
        if len(known) == len(terms) - 1 and None in parts:
            at = parts.index(None)
            if (rest := self._rest(entry, terms[at], reads, known)) is not None:
                known.insert(at, rest)
        return known if len(known) > 1 else []

    def _computed(self, entry: Entry, term: ast.expr) -> dict[str, Any] | None:
        """A term without a name that consists of arrays and operators, such as `dq @ W_Q.T`."""
        nodes = list(ast.walk(term))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        read = {name: pair for name in names if (pair := self._value(entry, name)) is not None}
        step = max((made or 0 for _, made in read.values()), default=0)
        known = all(isinstance(node, ALGEBRA) and getattr(node, "attr", "T") == "T" for node in nodes)
        if step <= self._forward_end or len(read) < len(names) or not known:
            return None
        values = {name: value for name, (value, _) in read.items()}
        value = np.asarray(eval(compile(ast.Expression(term), "term", "eval"), {"__builtins__": {}}, values))
        return {"name": ast.unparse(term), "array": self._array(value), "step": step}

    def _rest(
        self, entry: Entry, term: ast.expr, reads: list[dict[str, Any]], known: list[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """A term without a name, such as `dy @ W.T`, as the rest of the sum, with the latest gradient that it reads."""
        names = {dotted(node) for node in ast.walk(term)}
        steps = [r["step"] for r in reads if r["name"] in names and (r["step"] or 0) > self._forward_end]
        if not steps:
            return None
        values = [self._values[f["array"]] for f in known]
        rest = entry.value - np.sum(values, axis=0)
        rounding = 8 * np.finfo(entry.value.dtype).eps * np.max(np.abs([entry.value, *values]), initial=0.0)
        rest = np.where(np.abs(rest) > rounding, rest, 0.0)
        return {"name": ast.unparse(term), "array": self._array(rest), "step": max(steps)}

    def _returned_by(self, entry: Entry, term: ast.Call) -> dict[str, Any] | None:
        """The result of `term`, a call in the line of `entry`."""
        name = dotted(term.func)
        for inner in reversed(entry.call.steps):
            if isinstance(inner, Call) and inner.called_at[0] == entry.line and name and name.endswith(inner.name):
                value = next((v for v in inner.results if v is not None), None)
                if value is not None:
                    made = self._made(value, entry)
                    return {"name": inner.label, "array": self._array(value), "step": made and made.number}
        return None

    def _gradients(self) -> dict[int, dict[str, Any]]:
        """Step of a gradient -> the forward step of the value it belongs to, and the lines that read this value."""
        if len(self._trace.roots) < 2:
            return {}
        forward, backward = self._trace.roots
        gradients = {}
        for call in backward.calls():
            base = forward_of(call, forward)
            if base is None:
                continue
            for name, place_of, gradient in gradients_of(call, base):
                value = value_of(base, name, place_of)
                made = [e for e in forward.entries() if e.value is value]              # equal values are one array
                made.sort(key=lambda e: e.name == name)
                same = [e for e in call.entries() if e.value is gradient and e.call is call]
                at = next((e for e in same if e.name == f"d{name}"), next(iter(same), None))  # ds may be dbias, too
                if value is None or at is None or not made or value.shape != gradient.shape:
                    continue
                gradients[at.number] = {
                    "of": made[-1].number, "name": name, "call": self._number[base], "lines": _readers(base, name),
                }  # fmt: skip
        return gradients

    def _made_from(self, entry: Entry) -> set[int]:
        """The steps of the parents of an entry's numbers."""
        of = self._parents.of[entry.number] if entry.number < len(self._parents.of) else ()
        return {place[0] for sources in np.ravel(of) for place in sources if isinstance(place, tuple)}

    def _shared(self) -> list[int]:
        """The steps of arrays that were passed under several names, each of which has a separate gradient."""
        entries = list(self._trace.roots[0].listed.values())
        return sorted({e.number for e in entries if entries.count(e) > 1})

    def _linked(self) -> dict[int, Any]:
        """Step -> the parents of each of its numbers. A text, for a number or a step, says why they are not known."""
        pages: dict[int, Any] = {}
        links = 0
        for step in range(self._first, self._last + 1):
            of: Any = np.ravel(self._parents.of[step]) if step < len(self._parents.of) else []
            links += sum(map(len, of))
            if step >= len(self._parents.of):
                pages[step] = self._parents.reason
            elif links > LINKS:
                pages[step] = f"the page has {LINKS:,} parents, and holds no more: take fewer steps"
            elif any(of):
                pages[step] = [_flat(sources) for sources in of]
        return pages


def _readers(call: Call, name: str) -> list[list[int]]:
    """[first line, last line] of each statement in a call that read the name and made a value."""
    made = {s.line if isinstance(s, Entry) else s.called_at[0] for s in call.steps if getattr(s, "how", "") != "input"}
    statements = [statement_at(call.file, line) for line in sorted(made)]
    return [[s.first, s.last] for s in statements if name in s.reads]


def _flat(sources: Sources) -> list[Any] | str:
    """The parents as [step, how many, index, slope, index, slope, ..., step, ...], or a text: why they are unknown."""
    if sources.unknown:
        return f"the line uses {', '.join(sources.unknown)}, for which there is no rule"
    slopes = np.array(list(sources.values()), dtype=float)
    noise = NOISE * np.max(np.abs(slopes), initial=1.0, where=np.isfinite(slopes))
    shown = dict(zip(sources, numbers(np.where(np.abs(slopes) <= noise, 0.0, slopes), 5), strict=True))
    flat: list[Any] = []
    for step in sorted({step for step, _ in sources}):
        mine = sorted(i for n, i in sources if n == step)
        flat += [step, len(mine), *(x for i in mine for x in (i, shown[step, i]))]
    return flat
