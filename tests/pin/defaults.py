"""Defaults of every function, method and field, bounds of options, and constants, module by module."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import tinyattn

LEFT_OUT = ("__main__", ".check.zoo.", ".course.exercises", ".course.chapters")      # bugs on purpose, and prose
BOUNDS = ("at_least", "above", "at_most", "below")


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(tinyattn.__path__, "tinyattn."):
        if not module.ispkg and not any(part in module.name for part in LEFT_OUT):
            yield module.name


def shown(value: Any) -> str:
    """Without addresses, and short."""
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {float(np.sum(value)) if value.dtype.kind in 'iuf' else ''}"
    text = value.__qualname__ if hasattr(value, "__qualname__") else re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) < 300 else f"{type(value).__name__} of {len(text)} characters"


def of_function(f: Any) -> str:
    """`rate=0.0, causal=True`: the defaults that are not None."""
    parameters = inspect.signature(f).parameters.values()
    return ", ".join(f"{p.name}={shown(p.default)}" for p in parameters if p.default is not p.empty
                     and p.default is not None)  # fmt: skip


def of_class(cls: type) -> dict[str, str]:
    """Its fields, with the bounds of options, and its methods."""
    found = {}
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if field.name in inspect.get_annotations(cls) and field.default is not dataclasses.MISSING:
            option = field.metadata.get("option")
            bounds = [f"{name} {getattr(option, name)}" for name in BOUNDS if getattr(option, name, None) is not None]
            found[field.name] = ", ".join([shown(field.default), *bounds])
    for name, method in vars(cls).items():
        function = inspect.unwrap(getattr(method, "__func__", method))
        if isinstance(function, FunctionType) and not (name == "__init__" and dataclasses.is_dataclass(cls)):
            found[f"{name}()"] = of_function(function)
        elif isinstance(method, int | float) and name not in found:
            found[name] = shown(method)
    return {name: value for name, value in found.items() if value}


def of_module(name: str) -> dict[str, Any]:
    module = importlib.import_module(name)
    assert module.__file__
    found: dict[str, Any] = {}
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = of_class(vars(module)[node.name])
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = of_function(inspect.unwrap(vars(module)[node.name]))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = vars(module)[node.targets[0].id]
            if isinstance(value, int | float | tuple) and not node.targets[0].id.startswith("__"):
                found[node.targets[0].id] = shown(value)
    return {what: value for what, value in found.items() if value}


CASES: dict[str, Callable[[], Any]] = {
    name.removeprefix("tinyattn.").replace(".", " ", 1): partial(of_module, name) for name in modules()
}
