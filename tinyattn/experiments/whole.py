"""Is all there that a page is made of? A file of runs may be damaged, or of another version."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .experiment import Experiment
from .paired import RANKS

MACHINE = ("cores", "cpu", "python", "numpy", "date")       # what pages say of it
BEYOND = ("coverage@10", "novelty", "popularity")           # what they say beyond accuracy


def is_whole(experiment: Experiment, found: Any, metrics: Iterable[tuple[str, str]]) -> bool:
    """Does the file of a run of `experiment` have these metrics, (protocol, name), and all else, as it is written?"""
    try:
        return all(_conditions(experiment, found, metrics))
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
        return False


def _conditions(experiment: Experiment, found: Any, metrics: Iterable[tuple[str, str]]) -> Iterable[bool]:
    for protocol, name in metrics:
        value = found["metrics"][protocol][name]
        yield _is_number(value) and (name == "loss" or 0 <= value <= 1)
    yield type(found["epochs"]) is int
    yield _is_number(found["epochs"])
    yield all(_is_number(found[name]) for name in ("seconds", *(["epoch_seconds"] if found["epochs"] else [])))
    yield found["epochs"] >= 0 <= found["seconds"]
    yield all(_is_number(x) for name in ("valid", "gradient_norm") for x in found.get(name, ()) if x is not None)
    yield type(found["data"]["fingerprint"]) is str
    yield all(str(found["machine"][name]).isprintable() for name in MACHINE)
    yield all(type(found[name]) is int for name in experiment.counts)
    yield _are_numbers(found.get("attention", []))
    if experiment.per_user or "ranks" in found:
        yield type(found["ranks"]) is str
        yield set(found["ranks"]) <= set(RANKS + ".")
    if "beyond" in found:                                    # runs of older versions say nothing of it
        lists = found["beyond"]["best"]
        yield all(_is_number(found["beyond"][name]) for name in BEYOND)
        yield all(type(row) is list and len(row) == len(lists[0]) for row in lists)
        yield all(type(item) is int for row in lists for item in row)


def _is_number(x: Any) -> bool:
    return type(x) in (int, float) and math.isfinite(x)


def _are_numbers(x: Any) -> bool:
    """Is it a number, or made of lists and dicts of numbers?"""
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, list) else None
    return _is_number(x) if parts is None else all(map(_are_numbers, parts))
