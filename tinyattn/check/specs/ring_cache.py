"""A model of sequences with a window, whose cache keeps no more tokens than the window needs."""

from dataclasses import replace
from typing import Any

import numpy as np

from .. import adapters
from ..property import close, demand, same_bits
from ..subject import CannotRunError, MissingError, Subject
from . import cached_model, causal_model
from .builder import SpecBuilder
from .cached_model import allowed, one_step, steps
from .causal_model import differs, forward_of, two_of

states = SpecBuilder("ring_cache")
ASKED = ("steps_are_the_whole", "taking_turns")  # of every cache
states.properties += [replace(p, spec="ring_cache") for p in cached_model.states.properties if p.name in ASKED]


@states("rounding", "after three turns of the ring the steps still give what forward gives", "extremes", once=True,
        hint="When the newest key takes the oldest one's place, does each key keep its position? Is a slot read too early?")
def turns_of_the_ring(op: Subject, x: np.ndarray) -> None:
    x = two_of(op, 3 * _window(op) + 2)
    y = forward_of(op, x)
    close(steps(op, x), y, allowed(op, y), "y of the steps")


@states("exact", "the first token changes the output of the last token that looks at it, and not one bit of later outputs", "extremes",
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


@states("exact", "the cache does not grow once the window is full", "extremes", once=True,
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


SPEC = states.spec(
    "step(x[:, t], cache) -> y[:, t], cache gives y = forward(x), whose token t looks at t - window + 1 .. t",
    "forward(x) -> y: x (B, T, D) float64, or tokens (B, T) if the model has a `vocabulary`; y (B, T, ...)",
    "step(x, cache) -> y, cache: the next token of each sequence; cache None starts afresh",
    "`window`, 2 to 64, is how many tokens each looks at, itself among them; with several `layers` the reach is "
    "layers (window - 1) tokens back",
    "the cache has a bounded size: a ring, or the newest keys and values",
    case=causal_model.case,
    function="forward",
    ours=adapters.SlidingAttention,
    others=("step",),
    common=False,
    shown=causal_model.shown,
)
