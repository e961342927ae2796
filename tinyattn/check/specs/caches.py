"""Models of sequences with a cache, whose steps give the same outputs as the whole sequence at once."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .. import adapters
from ..property import close, demand, same_bits
from ..subject import CannotRunError, MissingError, Subject
from . import causal_model
from .builder import SpecBuilder
from .causal_model import allowed, array_of, differs, forward_of, input_of, tried_length, two_of

cached_model = SpecBuilder("cached_model")


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


def both_ways(op: Subject, x: np.ndarray) -> Any:
    """The two sides of a law: the outputs of the steps, and of the whole sequence."""
    y = forward_of(op, x)
    return steps(op, x), y, allowed(op, y), "y of the steps"


cached_model.law("steps_are_the_whole", "rounding",
        "one step for each token gives what forward gives for the whole sequence",
        lambda op, c: both_ways(op, input_of(op, c.x)),
        hint="What does a token need of the tokens before it, and what is its position?")
cached_model.law("long_sequences", "rounding", "the same holds for long sequences: of `maxlen` tokens, at most 256, or of 40 without a `maxlen`",
        lambda op, c: both_ways(op, two_of(op, tried_length(op, "long_sequences"))), "extremes",
        hint="Does the cache have an end, or a window?", once=True)


@cached_model("exact", "without a cache it starts afresh, whatever came before", hint="Is anything kept outside the cache?")
def begins_anew(op: Subject, x: np.ndarray) -> None:
    first = steps(op, input_of(op, x))
    steps(op, input_of(op, x * 3 + 1))
    same_bits(steps(op, input_of(op, x)), first, "the second time, y of the steps")


@cached_model("rounding", "two sequences in turns, each with a cache, do not interact", hint="Is there one cache for all?")
def taking_turns(op: Subject, x: np.ndarray) -> None:
    both = input_of(op, x), input_of(op, x * 3 + 1)
    expected, caches = [forward_of(op, tokens) for tokens in both], [None, None]
    for t in range(x.shape[1]):
        for i, tokens in enumerate(both):
            y, caches[i] = one_step(op, tokens[:, t].copy(), caches[i])
            close(y, expected[i][:, t], allowed(op, expected[i]), f"sequence {i}, y of token {t}: entry ")


cached_model.law("entries_apart", "rounding", "an entry of the batch has the same outputs alone", lambda op, c: (
            (steps(op, x[-1:]), y[-1:], allowed(op, y), "the last entry alone: y of the steps")
            for x in [input_of(op, c.x)] for y in [steps(op, x)]
        ), hint="Which cache axis is the batch?")


def cached_model_remark(op: Subject, x: np.ndarray) -> str:
    """How the steps differ from forward: which tokens they read, which position they have, or from which step on."""
    length = tried_length(op, "long_sequences")
    for tokens in (two_of(op, min(length, 6)), input_of(op, x), two_of(op, length)):
        y, stepped, n = forward_of(op, tokens), steps(op, tokens), tokens.shape[1]
        atol = allowed(op, y)
        right = [_alike(stepped[:, t], y[:, t], atol) for t in range(n)]
        if all(right):
            continue
        alone = forward_of(op, tokens[:, :1])[:, 0]
        if not right[0] and _alike(stepped[:, 0], alone, atol):
            return "forward itself is not causal: the output of the first token changes with the tokens after it.\nhint: Which keys may a query of forward see?"
        for says, hint, seen in _sets(n):
            some = [t for t in range(n) if 0 < len(seen(t)) <= n]
            if not all(right[t] for t in some) and all(_alike(stepped[:, t], forward_of(op, tokens[:, seen(t)])[:, -1], atol) for t in some):
                return f"A step gives what forward gives for {says}.\nhint: {hint}"
        if n > 1 and all(_alike(steps(op, one), forward_of(op, one), atol) for one in (tokens[:1], tokens[1:2])):
            return "Each sequence alone is right, and two together are not.\nhint: Which axis of the cache is the batch?"
        if not right[0]:
            return "The first step, which has no cache, is wrong already.\nhint: What does it read besides its token: which position, which slots?"
        if reads := _reads(op, tokens[:, :2], atol) or _reads(op, tokens[:, :4], atol):
            return reads
        equal = np.repeat(tokens[:, :1], min(length, 6), axis=1)
        moves, still = forward_of(op, equal), steps(op, equal)
        one = all(_alike(still[:, t], still[:, 0], atol) for t in range(still.shape[1]))
        if one and not _alike(moves[:, 1], moves[:, 0], atol):
            return "For equal tokens all steps give the same output, and forward does not: each step has the first position.\nhint: What tells a step its position?"
        return f"The first {right.index(False)} steps are right, and the next one is not.\nhint: Where does the cache end?" if right.index(False) > 1 else (
            "The first step is right, and the second, which reads the cache, is not.\nhint: Which keys does the second token meet, and at which positions?"
        )
    return ""


def _sets(n: int) -> Iterator[tuple[str, str, Callable[[int], list[int]]]]:
    """Mistakes: for each a description, a question, and the tokens that step t of n then reads instead of 0 to t.

    The step returns the output of the last of these tokens.
    """
    row, often = "Which row of the result belongs to the newest token?", "How often is a token appended to the cache?"
    yield "its token alone: the cache is not read", "Which keys does a token meet?", lambda t: [t]
    yield "the first token alone", "Which keys may the newest query see, and which row of the result is its?", lambda t: [0]
    yield "the tokens before its own", row, lambda t: list(range(t))
    yield "the first token, as if it stood last", row, lambda t: [*range(1, t + 1), 0]
    yield "all tokens but the first", "Is the first token appended to the cache?", lambda t: list(range(min(t, 1), t + 1))
    yield "all tokens but the one before its own", "When is a token appended to the cache?", lambda t: [*range(t - 1), t]
    yield "all tokens, the first one twice", "What is in the cache after the first step?", lambda t: [0, *range(t + 1)]
    yield "all tokens, its own twice", often, lambda t: [*range(t + 1), t]
    yield "all tokens, each twice", often, lambda t: sorted([*range(t + 1)] * 2)
    yield "the tokens before its own in reversed order, and its own", "At which end is a token appended?", lambda t: [*reversed(range(t)), t]
    for many in range(1, n):
        tokens, end = f"{many} tokens" if many > 1 else "token", "How long is the cache, and what if it is full?"
        yield f"the last {tokens} alone", end, lambda t, many=many: list(range(max(t + 1 - many, 0), t + 1))  # type: ignore[misc]
        yield f"the first {tokens} and its own alone", end, lambda t, many=many: [*range(min(many, t)), t]  # type: ignore[misc]


def _reads(op: Subject, tokens: np.ndarray, atol: float) -> str:
    """Says which tokens change forward's last output, but not the last step's."""
    outputs, n, missed = [steps(op, tokens)[0, -1], forward_of(op, tokens)[0, -1]], tokens.shape[1], []
    for t in range(n):
        other = tokens.copy()
        other[0, t] = tokens[1, t]
        still = [_alike(f(op, other)[0, -1], y, atol) for f, y in zip((steps, forward_of), outputs, strict=True)]
        missed += [f"{t + 1}"] * (still == [True, False])
    named = f"{'token' if len(missed) == 1 else 'tokens'} {', '.join(missed)}"
    hint = "Is a token appended before it is attended to?" if f"{n}" in missed else "Which keys stay in the cache?"
    return f"The output of step {n} does not change with {named}, and forward's does.\nhint: {hint}" if missed else ""


def _alike(a: np.ndarray, b: np.ndarray, atol: float) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=atol))


CACHED_MODEL = cached_model.spec(
    "step(x[:, t], cache) -> y[:, t], cache, one token after another, gives y = forward(x)",
    "forward(x) -> y: x (B, T, D) float64, or tokens (B, T) if the model has a `vocabulary`; y (B, T, ...)",
    "step(x, cache) -> y, cache: the next token of each sequence, x (B, D) or (B,), y (B, ...); cache None starts afresh, and "
    "the cache of one step is passed to the next unchanged",
    case=causal_model.case, function="forward", ours=adapters.CachedAttention, others=("step",), common=False,
    shown=causal_model.shown, remark=cached_model_remark,
)


ring_cache = SpecBuilder("ring_cache")
OF_EVERY_CACHE = ("steps_are_the_whole", "taking_turns")
ring_cache.properties += [replace(p, spec="ring_cache") for p in cached_model.properties if p.name in OF_EVERY_CACHE]

ring_cache.law("turns_of_the_ring", "rounding", "after three turns of the ring the steps still give what forward gives",
        lambda op, c: both_ways(op, two_of(op, 3 * _window(op) + 2)), "extremes",
        hint="When the newest key takes the oldest one's place, does each key keep its position? Is a slot read too early?",
        once=True)


@ring_cache("exact", "the first token changes the output of the last token that looks at it, and not one bit of later outputs", "extremes",
        hint="A window of W is the token itself and W - 1 before it: count them.", once=True, gravity="leak")
def reach(op: Subject, x: np.ndarray) -> None:
    window, layers = _window(op), int(getattr(op.implementation, "layers", 1))
    x = two_of(op, layers * (window - 1) + 3)
    other = x.copy()
    other[:, 0] = x[:, -1]
    for run in (forward_of, steps) if "step" not in op.lacks else (forward_of,):
        y, moved = run(op, x), run(op, other)
        last = layers * (window - 1)
        demand(differs(moved[:, window - 1], y[:, window - 1]),
               f"y of position {window - 1} does not depend on the first token, which is in its window of {window}")
        same_bits(moved[:, last + 1 :], y[:, last + 1 :], "with another first token, y of a later position: ")


@ring_cache("exact", "the cache does not grow once the window is full", "extremes", once=True,
        hint="Which keys does no later token look at? They can be dropped.", gravity="contract")
def bounded(op: Subject, x: np.ndarray) -> None:
    window = _window(op)
    x = two_of(op, 12 * window)
    cache, sizes = None, []
    for t in range(x.shape[1]):
        _, cache = one_step(op, x[:, t].copy(), cache)
        sizes.append(_bytes(cache, set()))
    if not sizes[-1]:
        raise MissingError("no array was found in its cache")
    full = max(sizes[: 4 * window])
    demand(sizes[-1] <= 1.5 * full, f"the cache has {sizes[-1]} bytes after {12 * window} tokens, {full} after {4 * window}")


def _window(op: Subject) -> int:
    window = getattr(op.implementation, "window", None)
    if window is None:
        raise CannotRunError("it has no `window`: how many tokens each token looks at, itself among them, at most 64")
    if not 2 <= window <= 64:
        raise CannotRunError(f"its window is {window}, expected 2 to 64, so that it is soon full")
    return int(window)


def _bytes(x: Any, met: set[int]) -> int:
    """Bytes of all arrays in nested containers and objects; of a view, those of the whole array."""
    x = x.base if isinstance(x, np.ndarray) and isinstance(x.base, np.ndarray) else x
    if id(x) in met:
        return 0
    met.add(id(x))
    if hasattr(x, "nbytes") and hasattr(x, "dtype"):
        return int(x.nbytes)
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else vars(x).values() if hasattr(x, "__dict__") else ()
    return sum(_bytes(part, met) for part in parts)


RING_CACHE = ring_cache.spec(
    "step(x[:, t], cache) -> y[:, t], cache gives y = forward(x), whose token t looks at t - window + 1 .. t",
    "forward(x) -> y: x (B, T, D) float64, or tokens (B, T) if the model has a `vocabulary`; y (B, T, ...)",
    "step(x, cache) -> y, cache: the next token of each sequence; cache None starts afresh",
    "`window`, 2 to 64, is how many tokens each looks at, itself among them; with several `layers` the reach is "
    "layers (window - 1) tokens back",
    "the cache has a bounded size: a ring, or the newest keys and values",
    case=causal_model.case, function="forward", ours=adapters.SlidingAttention, others=("step",), common=False,
    shown=causal_model.shown,
)
