"""Validation of a run's file, which may be damaged or of another version."""

import math
from collections.abc import Iterable
from typing import Any

from .experiment import Experiment
from .paired import ranks_of, unpacked
from .tables import machines_of

MACHINE = ("cores", "cpu", "python", "numpy", "date")       # fields of a machine that pages print
BEYOND = ("coverage@10", "novelty", "popularity")           # metrics beyond accuracy that pages print
LARGEST = 10**15                                            # bound of any number that a run writes
LONGEST = 200                                               # letters of a machine's field


def is_whole(experiment: Experiment, run: Any, metrics: Iterable[tuple[str, str]]) -> bool:
    """Does the file of a run have these metrics, (protocol, name), and every other entry in its valid form?"""
    try:
        return all(_conditions(experiment, run, metrics))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        return False


def _conditions(experiment: Experiment, run: Any, metrics: Iterable[tuple[str, str]]) -> Iterable[bool]:
    failed = experiment.within is not None and "failed" in run
    for protocol, name in () if failed else metrics:
        value = run["metrics"][protocol][name]
        yield is_number(value) and (name == "loss" or 0 <= value <= 1)
    epochs = run["epochs"]
    yield is_count(epochs)
    yield epochs > 0 or failed or not run["row"]["options"].get("epochs")
    yield is_number(run["seconds"])
    yield run["seconds"] >= 0
    yield len(run["valid"]) == epochs
    yield all(is_number(score) for score in run["valid"] if score is not None)
    if epochs:
        yield run["epoch_seconds"] is None or (is_number(run["epoch_seconds"]) and run["epoch_seconds"] > 0)
        yield any(score is not None for score in run["valid"])
        if experiment.norms or "gradient_norm" in run:     # runs of older versions do not have it
            yield len(run["gradient_norm"]) == epochs
            yield all(is_number(norm) and norm >= 0 for norm in run["gradient_norm"])
    yield type(run["data"]["fingerprint"]) is str
    yield all(map(is_machine, machines_of(run)))
    yield isinstance(run.get("settings", {}), dict)        # runs of older versions do not have them
    yield experiment.is_whole is None or experiment.is_whole(run)
    if experiment.per_user or "ranks" in run:
        yield type(run["ranks"]) is str
        yield len(ranks_of(run["ranks"])) == run["data"]["users"]      # raises for anything else
    if "beyond" in run:                                    # runs of older versions do not have it
        yield all(is_number(run["beyond"][name]) and run["beyond"][name] >= 0 for name in BEYOND)
        yield unpacked(run["beyond"]["best"]).size > 0     # raises for anything else


def is_machine(machine: Any) -> bool:
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
