"""A model of sequences that goes token by token with a cache, as in generation: the same as all at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import adapters
from ..property import close, demand, rounding, same_bits
from ..subject import CannotRunError, Subject
from . import causal_model
from .builder import SpecBuilder
from .causal_model import array_of, forward_of, input_of, tried_length

states = SpecBuilder("cached_model")


def _step(op: Subject, x: np.ndarray, cache: Any) -> tuple[np.ndarray, Any]:
    if "step" in op.lacks:
        raise CannotRunError("there is no `step` in it: step(x, cache) -> y, cache")
    returned = op.other("step")(x, cache)
    demand(isinstance(returned, tuple) and len(returned) == 2, "step did not return two things, y and the cache")
    return array_of(returned), returned[1]


def _steps(op: Subject, given: np.ndarray) -> np.ndarray:
    """Token by token, from no cache. -> y like that of forward."""
    cache, rows = None, []
    for t in range(given.shape[1]):
        y, cache = _step(op, given[:, t].copy(), cache)
        rows.append(y)
    return np.stack(rows, axis=1)


def _atol(y: np.ndarray) -> float:
    return rounding(y.dtype, y.size, 1e4 * max(1.0, float(np.max(np.abs(y)))))


@states("rounding", "token by token gives what forward gives of the whole sequence",
        hint="What does token t need of the tokens before it, and at which position does it stand?")
def steps_are_the_whole(op: Subject, x: np.ndarray) -> None:
    given = input_of(op, x)
    y = forward_of(op, given)
    demand(np.all(np.isfinite(y)), "an output is not finite")
    close(_steps(op, given), y, _atol(y), "y of the steps")


@states("rounding", "it holds for long sequences too: `maxlen` tokens, 256 at most, or 40", "extremes", once=True,
        hint="Does the cache have an end, or a window?")
def long_sequences(op: Subject, x: np.ndarray) -> None:
    length = tried_length(op, "long_sequences")
    given = input_of(op, np.arange(2 * length).reshape(2, length) * 7919 % 2**20)
    y = forward_of(op, given)
    close(_steps(op, given), y, _atol(y), "y of the steps")


@states("exact", "without a cache it begins anew, whatever has gone before", hint="What is kept outside the cache?")
def begins_anew(op: Subject, x: np.ndarray) -> None:
    given = input_of(op, x)
    first = _steps(op, given)
    _steps(op, input_of(op, x * 3 + 1))
    same_bits(_steps(op, given), first, "the second time, y of the steps")


@states("rounding", "two sequences that take turns, each with its own cache, do not disturb each other",
        hint="Is there one cache for all?")
def taking_turns(op: Subject, x: np.ndarray) -> None:
    both = input_of(op, x), input_of(op, x * 3 + 1)
    expected, caches = [forward_of(op, given) for given in both], [None, None]
    for t in range(x.shape[1]):
        for i, given in enumerate(both):
            y, caches[i] = _step(op, given[:, t].copy(), caches[i])
            close(y, expected[i][:, t], _atol(expected[i]), f"sequence {i}, y of token {t}: entry ")


@states("rounding", "an entry of the batch goes its way as if it were alone", hint="Which axis of the cache is the batch?")
def entries_apart(op: Subject, x: np.ndarray) -> None:
    given = input_of(op, x)
    y = _steps(op, given)
    close(_steps(op, given[-1:]), y[-1:], _atol(y), "the last entry alone: y of the steps")


SPEC = states.spec(
    "step(x[:, t], cache) -> y[:, t], cache, one token after the other, gives y = forward(x)",
    "forward(x) -> y: x (B, T, D) float64, or tokens (B, T) where it says its `vocabulary`; y (B, T, ...)",
    "step(x, cache) -> y, cache: the next token of each sequence, x (B, D) or (B,), y (B, ...); cache None begins, and what "
    "step has returned is handed to the next step as it is",
    function="forward",
    case=causal_model.case,
    ours=adapters.CachedAttention,
    outputs=("y",),
    others=("step",),
    common=False,
)
