"""A model of sequences of several lengths, padded on the right: the padding moves no output."""

import inspect
from typing import Any

import numpy as np

from .. import adapters
from ..property import close, demand, rounding, same_bits
from ..subject import Subject, called
from .builder import CaseDrawer, SpecBuilder
from .causal_model import array_of, differs, dtype_of, input_of

states = SpecBuilder("padding_invariance")


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Integers; a property turns them into the model's input. The first sequence has no padding."""
    batch, length = draw.choose((2, 3, 1)), draw.choose(tuple(range(2, 9)))
    lengths = np.array([length, *draw.rng.integers(1, length + 1, batch - 1)])
    return {"x": draw.rng.integers(0, 2**20, (batch, length)), "lengths": lengths}


def _real(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.arange(x.shape[1]) < lengths[:, None]


def _forward(op: Subject, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """With `lengths`, or with a boolean mask (B, T), True = real, where the second argument is called `mask`."""
    names = list(inspect.signature(op.forward).parameters)
    return array_of(called(op.forward, "forward", x, _real(x, lengths) if "mask" in names[1:2] else lengths))


def _input(op: Subject, x: np.ndarray) -> np.ndarray:
    return input_of(op, x, lambda op, tried: _forward(op, tried, np.full(len(tried), tried.shape[1])))


@states("exact", "forward(x, lengths) -> y keeps the first two axes of x, batch and positions", "shapes",
        hint="x (B, T, D) or tokens (B, T) -> y (B, T, ...).")
def positions_kept(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    y = _forward(op, _input(op, x), lengths)
    demand(y.shape[:2] == x.shape, f"y has shape {y.shape} for {len(x)} sequences of {x.shape[1]} places")
    demand(np.all(np.isfinite(y[_real(x, lengths)])), "an output that is no padding is not finite")


@states("exact", "padding moves no output of a real token", hint="Which sums, means and softmaxes include padding?")
def padding_is_silent(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    tokens, other, real = _input(op, x), _input(op, x * 5 + 3), _real(x, lengths)
    y = _forward(op, tokens, lengths)
    for size in (1, 100) if tokens.dtype.kind == "f" else (1,):
        changed = np.where(real.reshape(*real.shape, *(1,) * (tokens.ndim - 2)), tokens, size * other)
        moved = _forward(op, changed, lengths)
        same_bits(moved[real], y[real], "with other padding, a real token's output: entry ")


@states("rounding", "a padded sequence has the same outputs as alone, without padding",
        hint="Are positions counted from the end, or means taken over the longest sequence's length?")
def as_if_alone(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    tokens = _input(op, x)
    y = _forward(op, tokens, lengths)
    scale = 1e4 * max(1.0, float(np.max(np.abs(y), where=np.isfinite(y), initial=1.0)))
    for b, length in enumerate(lengths):
        alone = _forward(op, tokens[b : b + 1, :length], lengths[b : b + 1])
        close(alone[0], y[b, :length], rounding(dtype_of(op, y), y.size, scale), f"sequence {b} alone: y")


@states("exact", "the last real token moves its own output, and every output if the token before it moves every output",
        hint="Is the last real token taken for padding?")
def real_tokens_count(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    tokens, other = _input(op, x), _input(op, x + 1)
    y = _forward(op, tokens, lengths)
    for b, length in enumerate(lengths):
        moves = []
        for place in range(max(0, length - 2), length):
            changed = tokens.copy()
            changed[b, place] = other[b, place]
            moved = _forward(op, changed, lengths)
            moves.append([differs(moved[b : b + 1, t], y[b : b + 1, t]) for t in range(length)])
        demand(moves[-1][-1], f"the output of the last of {length} tokens does not depend on that token")
        if length > 2:                                    # of two tokens of a causal model, the first moves all outputs
            demand(all(moves[-1]) or not all(moves[0]), f"the last of {length} tokens moves less than the one before it")


SPEC = states.spec(
    "y[b, :lengths[b]] depends on x[b, :lengths[b]] alone",
    "forward(x, lengths) -> y, or forward(x, mask), mask boolean (B, T), True = real: x (B, T, D) float64, or tokens (B, T) "
    "if the model has a `vocabulary`; sequences begin at position 0; y (B, T, ...), ignored in the padding",
    case=case, function="forward", ours=adapters.PaddedBlock, common=False,
)
