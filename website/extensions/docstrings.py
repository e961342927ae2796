"""The house's docstrings as reStructuredText.

They are plain text: formulas in Unicode, `names` between backticks, a sentence that begins with "Shapes:" or "Raises",
examples and tables indented. numpydoc wants a section with a list of parameters for each of these, which would make a
docstring of five lines one of twenty; so they stay as they are, and are turned into what Sphinx reads here.
"""

import dataclasses
import enum
import inspect
import re
import textwrap
from typing import Any

from sphinx.application import Sphinx

from tinyattn.options import Declared, options_of

# One sentence, from "Shapes:" or "Raises" to its full stop; the dots of (..., d) end nothing.
FIELD = re.compile(r"(?:(?<=[.:)]) |^)(Shapes:|Raises)((?:(?!(?<!\.)\.(?:\s|$)).)*)\.?(?=\s|$)")
MARKUP = re.compile(r"([\\*|_`@])")           # of an @ it would make an address: NDCG@10
IS_ANY = re.compile(r": (?:~typing\.)?Any\b(?: \| None)?( = )?")
IS_A_TABLE = re.compile(r"\S {3,}\S")


def as_rst(docstring: str) -> list[str]:
    """The lines of a docstring, as reStructuredText."""
    lines: list[str] = []
    for part in re.split(r"\n\s*\n", docstring.strip("\n")):
        rows = [row.rstrip() for row in part.split("\n")]
        text = textwrap.dedent("\n".join(rows))
        if all(row.startswith("    ") for row in rows) or sum(bool(IS_A_TABLE.search(row)) for row in rows) > 1:
            lines += [".. code-block:: text", "", *("    " + row for row in text.split("\n")), ""]
        elif text.startswith("- "):
            items = re.split(r"^- ", text, flags=re.M)[1:]
            lines += [f"- {inline(' '.join(item.split()))}" for item in items] + [""]
        else:
            lines += paragraph(" ".join(text.split()))
    return lines


def paragraph(text: str) -> list[str]:
    """What a paragraph says, and then, as fields, its sentences about shapes and errors."""
    fields = [(kind.rstrip(":"), said.strip()) for kind, said in FIELD.findall(text)]
    prose = " ".join(FIELD.sub(" ", text).split())
    lines = ["\\ " + inline(prose), ""] if prose else []             # the empty escape: no text is taken for a list
    for kind, said in fields:
        lines += [f":{kind}: {inline(said)}"]
    return [*lines, ""] if fields else lines


def inline(text: str) -> str:
    """Text in which nothing is markup but `names`: those that have an entry become links to it."""
    pieces = re.split(r"`([^`]+)`", text)
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            pieces[i] = MARKUP.sub(r"\\\1", piece.replace("->", "→"))
        elif re.fullmatch(r"[A-Za-z_][\w.]*", piece):
            pieces[i] = f"\\ :py:obj:`{piece}`\\ "
        else:
            pieces[i] = f"\\ ``{piece}``\\ "
    return "".join(pieces)


def rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what == "data":                     # a table, by its keys; a number; a tuple of names
        lines[:] = [", ".join(f"``{named(key)}``" for key in (obj if isinstance(obj, dict | tuple) else [obj])), ""]
    else:
        lines[:] = as_rst("\n".join(lines))
        if what == "class" and dataclasses.is_dataclass(obj):
            lines += options_table(obj)


def named(key: Any) -> str:
    """A key as one would write it: of classes, their names."""
    if isinstance(key, tuple):
        return f"({', '.join(map(named, key))})"
    return key.__name__ if isinstance(key, type) else repr(key)


def options_table(cls: type) -> list[str]:
    """The options that a dataclass declares or inherits, as a table; nothing where there are none."""
    declared = options_of(cls)
    if not declared:
        return []
    lines = [".. list-table::", "   :header-rows: 1", "   :class: options", ""]
    for row in [("option", "type", "default", "meaning"), *map(described, declared)]:
        first, *rest = row
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in rest)]
    return [*lines, ""]


def described(declared: Declared) -> tuple[str, str, str, str]:
    """An option's row: name, what it may be, default, help."""
    option = declared.option
    if option.choices is not None:
        kind = "one of " + ", ".join(f"``{name!r}``" for name in option.choices)
    else:
        bounds = {
            "at least": option.at_least, "above": option.above, "at most": option.at_most, "below": option.below
        }  # fmt: skip
        said = [f"{how} {bound:g}" for how, bound in bounds.items() if bound is not None]
        kind = ", ".join([declared.type.__name__, *said])
    if declared.optional:
        kind += ", or None"
    return f"``{declared.name}``", kind, f"``{declared.default!r}``", inline(option.help)


def without_any(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """An array is annotated as `Any`, which tells a reader nothing; its docstring gives the shape."""
    if signature is not None:
        signature = IS_ANY.sub(lambda m: "=" if m[1] else "", signature)
    says_nothing = returns is not None and not re.sub(r"tuple|~typing\.|Any|None|[\[\], |]", "", returns)
    return signature, None if says_nothing else returns


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Of a class, only what does something or is one of its values: its fields are in the signature already."""
    if what != "class" or isinstance(obj, enum.Enum):
        return None
    says = isinstance(obj, property | classmethod | staticmethod) or inspect.isroutine(obj)
    return None if says and obj.__doc__ else True


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", without_any)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
