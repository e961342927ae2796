"""Defaults of every function, method and field, bounds of options, and constants, module by module."""

import argparse
import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import tinyattn
from tinyattn.cli import parser
from tinyattn.commands import NAMES
from tinyattn.experiments import EXPERIMENTS

# what tests register devices in, bugs on purpose, and prose
LEFT_OUT = ("__main__", ".backend", ".check.zoo.", ".course.exercises", ".course.chapters")
BOUNDS = ("at_least", "above", "at_most", "below")


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(tinyattn.__path__, "tinyattn."):
        if not module.ispkg and not any(part in module.name for part in LEFT_OUT):
            yield module.name


def shown(value: Any) -> str:
    """Without addresses, and short."""
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {float(np.sum(value)) if value.dtype.kind in 'iuf' else ''}"
    named = getattr(value, "__qualname__", value.__name__ if isinstance(value, ModuleType) else "")
    text = named or re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) < 200 else f"{type(value).__name__} {zlib.crc32(text.encode())}"


def is_plain(value: Any) -> bool:
    """Is it made of numbers, texts, and dicts, lists and tuples of them?"""
    if isinstance(value, dict):
        return all(map(is_plain, [*value, *value.values()]))
    return all(map(is_plain, value)) if isinstance(value, list | tuple) else isinstance(value, str | int | float | None)


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
        elif isinstance(method, int | float) and name not in found and not name.startswith("_"):  # pytest sets one
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
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if not isinstance(target, ast.Name) or target.id not in vars(module):
                continue
            value = vars(module)[target.id]
            is_memory = target.id.startswith("_") and isinstance(value, dict | list)       # of earlier calls
            is_memory = is_memory or value == np.get_printoptions()                        # of NumPy's version
            if is_plain(value) and not isinstance(value, str) and not is_memory and "site-packages" not in repr(value):
                found[target.id] = shown(value)
    return {what: value for what, value in found.items() if value}


def rows_of(experiment: Any) -> dict[str, int]:
    """A number for all that a row of its grid says."""
    rows = {name: re.sub(r" at 0x[0-9a-f]+", "", repr(row)) for name, row in experiment.rows.items()}
    return {name: zlib.crc32(text.encode()) for name, text in rows.items()}


def flags_of(command: str) -> dict[str, str]:
    """Default, and what else the parser is told, of every argument of a command."""
    whole = parser([command, "--help"])
    (commands,) = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    found = {}
    for action in commands.choices[command]._actions:
        name = " ".join(action.option_strings) or action.dest
        told = action.choices and action.dest != "device"          # tests register one
        choices = f" of {', '.join(map(str, action.choices))}" if told else ""
        kind = getattr(action.type, "__name__", "")
        found[name] = f"{action.default!r} {action.nargs or ''} {action.required} {kind}{choices}".replace("  ", " ")
    return found


CASES: dict[str, Callable[[], Any]] = {
    name.removeprefix("tinyattn.").replace(".", " ", 1): partial(of_module, name) for name in modules()
}
CASES |= {f"commands, flags of {command}": partial(flags_of, command) for command in NAMES}
CASES |= {f"experiments, rows of {name}": partial(rows_of, experiment) for name, experiment in EXPERIMENTS.items()}
