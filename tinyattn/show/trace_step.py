"""One step of a trace: its source lines and its numbers."""

from html import escape
from typing import Any

import numpy as np

from .array_map import array_map
from .records import Entry
from .sources import source_lines, statement_at
from .trace_table import described, place

AROUND = 3           # lines of source shown before and after the step's line


class Step:
    """The result of `t.at(7)`, `t.step()` and `t.back()`: `value`, `entry`, `picture()`."""

    def __init__(self, entry: Entry, of: int) -> None:
        self.entry, self._of = entry, of

    @property
    def value(self) -> np.ndarray:
        return self.entry.value

    def picture(self, title: str = "") -> Any:
        return array_map(self.value, title or f"{self.entry.name}, step {self.entry.number}")

    def __str__(self) -> str:
        marked = [f"{'>' if now else ' '} {n:4}  {text}" for n, text, now in self._source()]
        return "\n".join([self._where(), *marked, self._what(), self._numbers()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        styles = {True: ("font-weight: bold", "▶"), False: ("opacity: 0.65", " ")}
        lines = [
            f'<span style="{styles[now][0]}">{styles[now][1]} {n:4}  {escape(text)}</span>'
            for n, text, now in self._source()
        ]
        name, what = self.entry.name, self._what().removeprefix(self.entry.name)
        return (
            f'<div class="tinyattn-step"><p style="margin: 0.3em 0">{escape(self._where())}</p>'
            f'<pre style="border-left: 3px solid; padding-left: 0.6em; line-height: 1.35">{chr(10).join(lines)}</pre>'
            f'<p style="margin: 0.3em 0"><b>{escape(name)}</b> {escape(what)}</p>'
            f"<pre>{escape(self._numbers())}</pre></div>"
        )

    def _where(self) -> str:
        call = self.entry.call
        labels = [c.label for c in (call, *call.outer())][::-1]
        return f"step {self.entry.number} of {self._of - 1}: {' > '.join(labels)}   {place(call)}"

    def _what(self) -> str:
        shape, dtype, span, norm = described(self.entry)
        words = {"input": "came in", "returned": "was returned", "implied": "follows from the cache"}
        how = words.get(self.entry.how, self.entry.how)
        parts = [f"{self.entry.name} {shape} {dtype}", span, f"norm {norm}" if norm else "", how]
        return "   ".join(part for part in parts if part)

    def _numbers(self) -> str:
        if self.entry.how == "allocated":
            return "not yet filled: it holds what the memory held"
        how: Any = {"precision": 4, "suppress_small": True, "threshold": 200, "edgeitems": 3, "max_line_width": 110}
        return np.array2string(self.value, **how)

    def _source(self) -> list[tuple[int, str, bool]]:
        statement = statement_at(self.entry.call.file, self.entry.line)
        first = max(statement.first - AROUND, self.entry.call.line)
        lines = source_lines(self.entry.call.file, first, statement.last + AROUND)
        after = [text for n, text in lines if n > statement.last]
        ends = next((i for i, text in enumerate(after) if text and not text[0].isspace()), len(after))
        while ends and not after[ends - 1]:
            ends -= 1                                          # drop blank lines after the function's end
        shown = lines[: len(lines) - len(after) + ends]
        return [(n, text, statement.first <= n <= statement.last) for n, text in shown]
