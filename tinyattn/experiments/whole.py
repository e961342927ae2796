"""Validation of a run's file, which may be damaged or of another version."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .experiment import Experiment
from .paired import RANKS, unpacked
from .tables import machines_of

MACHINE = ("cores", "cpu", "python", "numpy", "date")       # fields of a machine that pages print
BEYOND = ("coverage@10", "novelty", "popularity")           # metrics beyond accuracy that pages print
LARGEST = 10**15                                            # bound of any number that a run writes
LONGEST = 200                                               # letters of a machine's field


def is_whole(experiment: Experiment, found: Any, metrics: Iterable[tuple[str, str]]) -> bool:
    """Does the file of a run have these metrics, (protocol, name), and every other entry in its valid form?"""
    try:
        return all(_conditions(experiment, found, metrics))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return False


def _conditions(experiment: Experiment, found: Any, metrics: Iterable[tuple[str, str]]) -> Iterable[bool]:
    for protocol, name in metrics:
        value = found["metrics"][protocol][name]
        yield is_number(value) and (name == "loss" or 0 <= value <= 1)
    epochs = found["epochs"]
    yield is_count(epochs)
    yield epochs > 0 or not found["row"]["options"].get("epochs")
    yield is_number(found["seconds"])
    yield found["seconds"] >= 0
    yield len(found["valid"]) == epochs
    yield all(is_number(score) for score in found["valid"] if score is not None)
    if epochs:
        yield found["epoch_seconds"] is None or (is_number(found["epoch_seconds"]) and found["epoch_seconds"] > 0)
        yield any(score is not None for score in found["valid"])
        if experiment.norms or "gradient_norm" in found:     # runs of older versions do not have it
            yield len(found["gradient_norm"]) == epochs
            yield all(is_number(norm) and norm >= 0 for norm in found["gradient_norm"])
    yield type(found["data"]["fingerprint"]) is str
    yield all(map(is_machine, machines_of(found)))
    yield isinstance(found.get("settings", {}), dict)        # runs of older versions do not have them
    yield experiment.is_whole is None or experiment.is_whole(found)
    if experiment.per_user or "ranks" in found:
        yield type(found["ranks"]) is str
        yield set(found["ranks"]) <= set(RANKS + ".")
        yield len(found["ranks"]) == found["data"]["users"]
    if "beyond" in found:                                    # runs of older versions do not have it
        yield all(is_number(found["beyond"][name]) and found["beyond"][name] >= 0 for name in BEYOND)
        yield unpacked(found["beyond"]["best"]).size > 0     # raises for anything else


def is_machine(machine: Any) -> bool:
    """Is it a valid description of a machine?"""
    return (
        isinstance(machine, dict)
        and all(_is_printable(machine.get(name)) for name in MACHINE)
        and type(machine["date"]) is str
        and machine.get("device") != ""
        and all(_is_printable(machine.get(name, "-")) for name in ("commit", "device"))
    )


def is_number(x: Any) -> bool:
    return type(x) in (int, float) and math.isfinite(x) and abs(x) < LARGEST


def is_count(x: Any) -> bool:
    return type(x) is int and 0 <= x < LARGEST


def _is_printable(x: Any) -> bool:
    """Can it stand in a line of a Markdown page?"""
    return type(x) is int or (type(x) is str and len(x) < LONGEST and x.isprintable() and not set(x) & set("<>|"))
