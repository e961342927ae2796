"""Complete algorithms in NumPy alone, one per file. They import nothing of the library, and it imports none of them."""

import ast
from pathlib import Path

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


def source(name: str) -> str:
    """The source of a page. Raises ValueError for a name that is not in NAMES."""
    if name not in NAMES:
        raise ValueError(f"there is no page {name!r}, expected one of {', '.join(NAMES)}")
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")


def part(name: str, *functions: str) -> str:
    """The source of these functions of a page, in the order given. Raises ValueError for an unknown name."""
    text = source(name)
    nodes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    unknown = next((function for function in functions if function not in nodes), None)
    if unknown is not None:
        raise ValueError(f"page {name} has no function {unknown!r}, expected some of {', '.join(nodes)}")
    lines = text.splitlines()
    return "\n\n\n".join("\n".join(lines[nodes[f].lineno - 1 : nodes[f].end_lineno]) for f in functions)


__all__ = ["NAMES", "part", "source"]
