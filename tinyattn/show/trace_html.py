"""A trace as HTML for a notebook: nested calls that can be folded, without scripts and downloads."""

from html import escape

from .records import Call, Entry
from .trace_table import TITLES, chain, described, grouped, origin, place, title

_STYLE = """
.tinyattn-trace { font-size: 12px; max-width: 1100px; overflow-x: auto; }
.tinyattn-trace > * { min-width: 960px; }
.tinyattn-trace details { margin-left: 1.1em; border-left: 1px solid; padding-left: 0.3em; }
.tinyattn-trace > details { margin-left: 0; }
.tinyattn-trace summary { cursor: pointer; padding: 2px 0; }
.tinyattn-trace table { table-layout: fixed; width: 100%; border-collapse: collapse; margin: 0; font-size: inherit; }
.tinyattn-trace td, .tinyattn-trace th { text-align: left; padding: 1px 6px; overflow-wrap: anywhere;
  vertical-align: top; background: none; }
.tinyattn-trace .n { text-align: right; font-variant-numeric: tabular-nums; }
.tinyattn-trace .where { opacity: 0.7; }
.tinyattn-trace code { white-space: pre-wrap; background: none; }
@media print { .tinyattn-trace details:not([open]) > summary::after { content: " (folded)"; } }
"""
# All columns but the name's have a fixed width, so that they line up at every depth of calls. The widths are for a font
# of 12 px, which tables inherit; otherwise JupyterLab would set another size.
_WIDTHS = ("42px", "", "95px", "58px", "150px", "62px", "40px", "420px")
_COLUMNS = "".join(["<colgroup>", *(f'<col style="width: {w}">' if w else "<col>" for w in _WIDTHS), "</colgroup>"])


def page(roots: list[Call], header: str) -> str:
    """All calls as HTML: outermost calls are open, long inner calls are folded."""
    titles = "".join(f'<th scope="col"{_right(i)}>{title}</th>' for i, title in enumerate(TITLES))
    head = f"<table>{_COLUMNS}<thead><tr>{titles}</tr></thead></table>"
    body = "".join(_call(root, budget=60) for root in roots)
    note = "<p>* written in place: the same memory, new values</p>" if "*</b>" in body else ""
    return f'<div class="tinyattn-trace"><style>{_STYLE}</style><p>{escape(header)}</p>{head}{body}{note}</div>'


def _call(call: Call, budget: int) -> str:
    entries, inner = list(call.entries()), chain(call)[-1]
    opened = " open" if call.parent is None or len(entries) <= budget else ""
    steps = f"steps {entries[0].number} to {entries[-1].number}" if entries else "no steps"
    html = (
        f"<details{opened}><summary><b>{escape(title(call))}</b> "
        f'<span class="where">{escape(place(inner))}, {steps}</span></summary>'
    )
    rows: list[str] = []
    for group in grouped(inner):
        if isinstance(group, Call):
            html += _rows(rows) + _call(group, budget // 2)
            rows = []
        elif len(group) > 1:
            name = group[0].name.partition(".")[0]
            total = sum(e.value.size for e in group)
            inside = _rows([_row(e) for e in group])
            html += _rows(rows) + (
                f"<details><summary><b>{escape(name)}</b> comes in: {len(group)} arrays, {total:,} numbers</summary>"
                f"{inside}</details>"
            )
            rows = []
        else:
            rows.append(_row(group[0]))
    return html + _rows(rows) + "</details>"


def _rows(rows: list[str]) -> str:
    return f"<table>{_COLUMNS}<tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _row(entry: Entry) -> str:
    shape, dtype, span, norm = described(entry)
    line = "" if entry.how == "input" else str(entry.line)
    text = escape(origin(entry))
    name = entry.name + (" *" if entry.how == "in place" else "")
    cells = [escape(cell) for cell in (str(entry.number), name, shape, dtype, span, norm, line)]
    cells[1] = f"<b>{cells[1]}</b>"
    made = "".join(f"<td{_right(i)}>{cell}</td>" for i, cell in enumerate(cells))
    return f"<tr>{made}<td>{text if entry.how == 'input' else f'<code>{text}</code>'}</td></tr>"


def _right(column: int) -> str:
    return ' class="n"' if column in (0, 5, 6) else ""
