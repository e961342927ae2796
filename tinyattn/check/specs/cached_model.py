"""A model of sequences with a cache: step by step it gives the outputs of the whole sequence."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import adapters
from ..property import close, demand, rounding, same_bits
from ..subject import CannotRunError, Subject
from . import causal_model
from .builder import SpecBuilder
from .causal_model import array_of, dtype_of, forward_of, input_of, tried_length, two_of

states = SpecBuilder("cached_model")


def one_step(op: Subject, x: np.ndarray, cache: Any) -> tuple[np.ndarray, Any]:
    if "step" in op.lacks:
        raise CannotRunError(
            "it has no `step`: step(x, cache) -> y, cache; a model that keeps its cache takes an adapter of a few lines"
        )
    returned = op.other("step")(x, cache)
    demand(isinstance(returned, tuple) and len(returned) == 2, "step did not return two things, y and the cache")
    return array_of(returned), returned[1]


def steps(op: Subject, x: np.ndarray) -> np.ndarray:
    """One step for each token, beginning without a cache. -> y, of the shape that forward returns."""
    cache, rows = None, []
    for t in range(x.shape[1]):
        y, cache = one_step(op, x[:, t].copy(), cache)
        rows.append(y)
    return np.stack(rows, axis=1)


def allowed(op: Subject, y: np.ndarray) -> float:
    return rounding(dtype_of(op, y), y.size, 1e4 * max(1.0, float(np.max(np.abs(y)))))


@states("rounding", "one step for each token gives what forward gives for the whole sequence",
        hint="What does a token need of the tokens before it, and what is its position?")
def steps_are_the_whole(op: Subject, x: np.ndarray) -> None:
    x = input_of(op, x)
    y = forward_of(op, x)
    close(steps(op, x), y, allowed(op, y), "y of the steps")


@states("rounding", "the same holds for long sequences: `maxlen` tokens, 256 at most, or 40", "extremes", once=True,
        hint="Does the cache have an end, or a window?")
def long_sequences(op: Subject, x: np.ndarray) -> None:
    x = two_of(op, tried_length(op, "long_sequences"))
    y = forward_of(op, x)
    close(steps(op, x), y, allowed(op, y), "y of the steps")


@states("exact", "without a cache it starts afresh, whatever came before", hint="Is anything kept outside the cache?")
def begins_anew(op: Subject, x: np.ndarray) -> None:
    first = steps(op, input_of(op, x))
    steps(op, input_of(op, x * 3 + 1))
    same_bits(steps(op, input_of(op, x)), first, "the second time, y of the steps")


@states("rounding", "two sequences in turns, each with a cache, do not interact", hint="Is there one cache for all?")
def taking_turns(op: Subject, x: np.ndarray) -> None:
    both = input_of(op, x), input_of(op, x * 3 + 1)
    expected, caches = [forward_of(op, tokens) for tokens in both], [None, None]
    for t in range(x.shape[1]):
        for i, tokens in enumerate(both):
            y, caches[i] = one_step(op, tokens[:, t].copy(), caches[i])
            close(y, expected[i][:, t], allowed(op, expected[i]), f"sequence {i}, y of token {t}: entry ")


@states("rounding", "an entry of the batch has the same outputs alone", hint="Which cache axis is the batch?")
def entries_apart(op: Subject, x: np.ndarray) -> None:
    x = input_of(op, x)
    y = steps(op, x)
    close(steps(op, x[-1:]), y[-1:], allowed(op, y), "the last entry alone: y of the steps")


def remark(op: Subject, x: np.ndarray) -> str:
    """What a step gives in place of forward's output: of fewer tokens, of another position, or from some token on."""
    length = tried_length(op, "long_sequences")
    for tokens in (two_of(op, min(length, 6)), input_of(op, x), two_of(op, length)):
        y, stepped, n = forward_of(op, tokens), steps(op, tokens), tokens.shape[1]
        atol = allowed(op, y)
        right = [_alike(stepped[:, t], y[:, t], atol) for t in range(n)]
        if all(right):
            continue
        alone = forward_of(op, tokens[:, :1])[:, 0]
        if not right[0] and _alike(stepped[:, 0], alone, atol):
            return "forward itself is not causal: the output of the first token changes with the tokens after it."
        for says, seen in _sets(n):
            some = [t for t in range(n) if 0 < len(seen(t)) <= n]
            if not all(right[t] for t in some) and all(_alike(stepped[:, t], forward_of(op, tokens[:, seen(t)])[:, -1], atol) for t in some):
                return f"A step gives what forward gives for {says}."
        if not right[0]:
            return "The first step, which has no cache, is wrong already: look at what else differs from forward."
        twice = tokens[:, [0, 0, 1 % n]]
        if not right[1 % n] and _alike(steps(op, twice)[:, 2], steps(op, twice[:, 1:])[:, 1], atol):
            return "A step attends to the tokens before its own, and not to its own."
        equal = np.repeat(tokens[:, :1], min(length, 6), axis=1)
        moves, still = forward_of(op, equal), steps(op, equal)
        one = all(_alike(still[:, t], still[:, 0], atol) for t in range(still.shape[1]))
        if one and not _alike(moves[:, 1], moves[:, 0], atol):
            return "For equal tokens all steps give the same output, and forward does not: each step has the first position."
        return f"The first {right.index(False)} steps are right, and the next one is not." if right.index(False) > 1 else (
            "The first step is right, and the second, which reads the cache, is not."
        )
    return ""


def _sets(n: int) -> Iterator[tuple[str, Callable[[int], list[int]]]]:
    """The tokens that step t of n may know, in place of all tokens up to t, and a description."""
    yield "its token alone: the cache is not read", lambda t: [t]
    yield "the tokens before its own", lambda t: list(range(t))
    yield "all tokens but the first", lambda t: list(range(min(t, 1), t + 1))
    yield "all tokens but the one before its own", lambda t: [*range(t - 1), t]
    yield "all tokens, the first one twice", lambda t: [0, *range(t + 1)]
    yield "all tokens, its own twice", lambda t: [*range(t + 1), t]
    yield "all tokens, each twice", lambda t: sorted([*range(t + 1)] * 2)
    yield "the tokens before its own in reversed order, and its own", lambda t: [*reversed(range(t)), t]
    for many in range(1, n):
        tokens = f"{many} tokens" if many > 1 else "token"
        yield f"the last {tokens} alone", lambda t, many=many: list(range(max(t + 1 - many, 0), t + 1))  # type: ignore[misc]
        yield f"the first {tokens} and its own alone", lambda t, many=many: [*range(min(many, t)), t]  # type: ignore[misc]


def _alike(a: np.ndarray, b: np.ndarray, atol: float) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=atol))


SPEC = states.spec(
    "step(x[:, t], cache) -> y[:, t], cache, one token after another, gives y = forward(x)",
    "forward(x) -> y: x (B, T, D) float64, or tokens (B, T) if the model has a `vocabulary`; y (B, T, ...)",
    "step(x, cache) -> y, cache: the next token of each sequence, x (B, D) or (B,), y (B, ...); cache None starts afresh, and "
    "the cache of one step is passed to the next unchanged",
    case=causal_model.case,
    function="forward",
    ours=adapters.CachedAttention,
    others=("step",),
    common=False,
    shown=causal_model.shown,
    remark=remark,
)
