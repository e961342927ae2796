"""Wrong versions of a formula: changes by rule (rules.toml), and the known slips of its kind (slips.toml)."""

import ast
import copy
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ALIKE = {"fused_attention": "attention", "flash_attention": "attention"}


def parsed(text: str) -> Any:
    """The tree of an expression, or of a statement."""
    (statement,) = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def fits(pattern: Any, node: Any, found: dict[str, Any]) -> bool:
    """Whether `node` has the form of `pattern`, where each letter stands for one node, stored in `found`."""
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1:
        known = found.setdefault(pattern.id, node)
        return known is node or ast.dump(known) == ast.dump(node)
    if isinstance(pattern, list):
        same_length = isinstance(node, list) and len(pattern) == len(node)
        return same_length and all(fits(p, n, found) for p, n in zip(pattern, node, strict=True))
    if not isinstance(pattern, ast.AST):
        return bool(pattern == node)
    if type(pattern) is not type(node):
        return False
    return all(fits(getattr(pattern, f), getattr(node, f), found) for f in pattern._fields if f != "ctx")


def filled(change: Any, found: dict[str, Any]) -> Any:
    """`change`, with its letters replaced by the nodes in `found`. Alters `change`."""
    if isinstance(change, ast.Name) and change.id in found:
        return found[change.id]
    for name, value in ast.iter_fields(change):
        if isinstance(value, list):
            setattr(change, name, [filled(v, found) if isinstance(v, ast.AST) else v for v in value])
        elif isinstance(value, ast.AST):
            setattr(change, name, filled(value, found))
    return change


@functools.cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


@functools.cache
def _by_form() -> dict[type, list[tuple[Any, Any, str]]]:
    """The rules by the type of node that they change."""
    forms: dict[type, list[tuple[Any, Any, str]]] = {}
    for a, b, says in _table("rules")["rules"]:
        forms.setdefault(type(parsed(a)), []).append((parsed(a), parsed(b), says))
    return forms


def changes(node: Any) -> Iterator[tuple[Any, str]]:
    """The wrong versions of a node by all rules, each with its rule's sentence."""
    for pattern, change, says in _by_form().get(type(node), ()):
        letters: dict[str, Any] = {}
        if fits(pattern, node, letters):
            yield filled(copy.deepcopy(change), letters), says


class Slip(NamedTuple):
    """A name, a sentence, a tutor's question, and changes: each an old text and the new one."""

    name: str
    says: str
    hint: str
    changes: tuple[tuple[str, ...], ...]


def slips_of(kind: str) -> list[Slip]:
    """The known slips of a kind, the plainest first."""
    slips = []
    for name, row in _table("slips").get(ALIKE.get(kind, kind), {}).items():
        if isinstance(row, str):
            row = _table("slips")[row.partition(".")[0]][name]
        says, hint, *changes = row
        slips.append(Slip(name, says, hint, tuple(tuple(change.split(" -> ")) for change in changes)))
    return slips
