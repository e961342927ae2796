"""Numbers that every part of the package gives today, so that a change of any of them is seen in review.

    python -m tests.pin              compute all anew, write what differs, print it
    python -m tests.pin networks     this group alone

A group is a file here and a JSON beside it: a name for each case, and what it gives. `tests/test_pin.py` computes each
case again and compares. A change that is meant is a change of the JSON, with its reason in CHANGELOG.md. Whether a
number is right is for the other tests to say; these say that it moved.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from notebooks.build import same_text
from tests.pin import answers, checks, data, defaults, networks, pictures, tables, training

FOLDER = Path(__file__).parent
# name -> its cases, and how far a number may lie from the pinned one: as a share of it, and whatever its size. Float64
# is the same on every platform up to the order in which BLAS adds. Trained parameters are float32: rounding grows with
# the steps, and an answer may be a small difference of large numbers. Printed numbers may differ by one of the last
# digit.
GROUPS: dict[str, tuple[dict[str, Callable[[], Any]], float, float]] = {
    "networks": (networks.CASES, 1e-9, 1e-11),
    "training": (training.CASES, 2e-4, 1e-6),
    "answers": (answers.CASES, 2e-4, 1e-5),
    "data": (data.CASES, 1e-9, 0.0),
    "checks": (checks.CASES, 1e-5, 1e-4),
    "pictures": (pictures.CASES, 2e-4, 1e-5),
    "tables": (tables.CASES, 0.0, 0.0),
    "defaults": (defaults.CASES, 0.0, 0.0),
}


def plain(value: Any) -> Any:
    """As JSON keeps it: arrays as lists, floats with 11 digits, keys as text."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.11g}") if math.isfinite(value) else str(value)
    return value


def differences(old: Any, new: Any, share: float, least: float, where: str = "") -> list[str]:
    """Where two plain values differ: "loss.1: 0.7 -> 0.8"."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone, added = ([f"{sign}{key}" for key in one if key not in other]
                       for sign, one, other in (("-", old, new), ("+", new, old)))  # fmt: skip
        return [where + key for key in gone + added] + [d for key in old if key in new
                        for d in differences(old[key], new[key], share, least, f"{where}{key}.")]  # fmt: skip
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [d for i, pair in pairs for d in differences(*pair, share, least, f"{where}{i}.")]
    numbers = all(isinstance(x, int | float) for x in (old, new)) and isinstance(old, float) | isinstance(new, float)
    if numbers and math.isclose(old, new, rel_tol=share, abs_tol=least):
        return []
    if old == new or (isinstance(old, str) and isinstance(new, str) and same_text(old, new)):
        return []
    return [f"{where.rstrip('.')}: {old!r} -> {new!r}"]


def chunks(group: str) -> dict[str, list[str]]:
    """The group's cases by the first word of their names: those that share what is trained for them."""
    found: dict[str, list[str]] = {}
    for name in GROUPS[group][0]:
        found.setdefault(name.split()[0], []).append(name)
    return found


def pinned(group: str) -> dict[str, Any]:
    path = FOLDER / f"{group}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(group: str, values: dict[str, Any]) -> None:
    """A case a line, so that a review shows which moved."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    (FOLDER / f"{group}.json").write_text(f"{{\n{lines}\n}}\n")
