"""Models of sequences whose outputs depend on the past alone, and models whose outputs do not depend on padding."""

import contextlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import adapters
from ..cases import in_dtype
from ..property import Violation, close, demand, largest, rounding, same_bits, untouched
from ..spec import Spec
from ..subject import MissingError, Subject, called
from .builder import CaseDrawer, SpecBuilder

states = SpecBuilder("causal_model")
LONGEST = 256  # positions
WIDTHS = (8, 4, 6, 16, 2, 12, 32, 64, 1, 3, 5, 7, 10, 24, 50, 128)


def case(draw: CaseDrawer) -> dict[str, Any]:
    """Integers; a property turns them into the model's input: tokens, or vectors of its width."""
    batch, length = draw.choose((1, 2, 3)), draw.choose(tuple(range(2, 9)))
    return {"x": draw.rng.integers(0, 2**20, (batch, length))}


@states("exact", "forward(x) -> y keeps the first two axes of x, batch and positions, and every bit of x",
        "shapes", hint="x (B, T, D) or tokens (B, T) -> y (B, T, ...).")
def positions_kept(op: Subject, x: np.ndarray) -> None:
    x = input_of(op, x)
    before = x.copy()
    y = forward_of(op, x)
    if y.ndim < 2 or y.shape[:2] != x.shape[:2]:
        raise Violation(f"y has shape {y.shape} for x of shape {x.shape}", sort="shape")
    demand(np.all(np.isfinite(y)), "an output is not finite")
    same_bits(x, before, "the x passed in")


@states("exact", "equal calls give equal results, and earlier results survive later calls", "shapes",
        hint="Is a buffer, a cache or a generator kept between calls?", gravity="contract")
def repeatable(op: Subject, x: np.ndarray) -> None:
    x = input_of(op, x)
    y = forward_of(op, x)
    first = called(op.forward, "forward", x)
    first = first[0] if isinstance(first, tuple) else first
    same_bits(first, y, "an equal call's y")
    forward_of(op, _changed(op, x, 0, all_after=True))
    untouched(first, y, "after another call, the first y")


@states("exact", "changing x at position t moves no output before t, to the last bit",
        hint="Change the last token; which outputs moved?", gravity="leak")
def causal(op: Subject, x: np.ndarray) -> None:
    some, x = _some_position(x), input_of(op, x)
    y = forward_of(op, x)
    for t in range(1, x.shape[1]):
        moved = forward_of(op, _changed(op, x, t))
        _earlier_kept(y, moved, t, f"after a change at position {t}, y of an earlier position: entry ")
    moved = forward_of(op, _changed(op, x, some, all_after=True, size=100.0))
    _earlier_kept(y, moved, some, f"after large changes from position {some} on, y of an earlier position: ")


def _some_position(x: np.ndarray) -> int:
    """A position after the first, which depends on the numbers, so that 50 cases together try all positions."""
    return 1 + int(np.sum(x)) % (x.shape[1] - 1)


def _earlier_kept(y: np.ndarray, moved: np.ndarray, t: int, what: str) -> None:
    same_bits(moved[:, :t], y[:, :t], what, largest(moved))


@states("exact", "each output depends on its token, and on the first one", hint="Is the mask's diagonal True?")
def sees_itself_and_the_past(op: Subject, x: np.ndarray) -> None:
    some, x = _some_position(x), input_of(op, x)
    y = forward_of(op, x)
    first, moved = (forward_of(op, _changed(op, x, t)) for t in (0, some))
    demand(differs(moved[:, some], y[:, some]), f"y of position {some} does not depend on x of position {some}")
    demand(differs(first[:, 0], y[:, 0]), "y of position 0 does not depend on x of position 0")
    for t in range(1, x.shape[1]):
        demand(differs(first[:, t], y[:, t]), f"y of position {t} does not depend on the first token")


@states("exact", "the outputs of one entry of a batch do not depend on the other entries",
        hint="Which axes does each mean, maximum or norm run over?", gravity="leak")
def entries_apart(op: Subject, x: np.ndarray) -> None:
    batch = input_of(op, np.concatenate([x[:1], x[:1] + 3, x[:1] * 7 + 1]))
    other = batch.copy()
    other[1:] = input_of(op, np.concatenate([x[:1] * 5 + 2, x[:1] * 11 + 4]))
    if other.dtype.kind == "f":
        other[1:] *= 50
    moved = forward_of(op, other)
    same_bits(moved[:1], forward_of(op, batch)[:1], "the first entry's y ", largest(moved))


@states("rounding", "the outputs of a prefix are those of the whole sequence at its positions",
        hint="Which part of the model depends on the sequence's length?", gravity="leak")
def prefix(op: Subject, x: np.ndarray) -> None:
    if getattr(op.implementation, "from_the_end", False):
        raise MissingError("its positions are counted from the end (it has from_the_end = True)")
    x = input_of(op, x)
    y = forward_of(op, x)
    for t in range(1, x.shape[1]):
        close(forward_of(op, x[:, :t]), y[:, :t], allowed(op, y), f"of a prefix of length {t}, y")


@states("exact", "it is causal over long sequences: of `maxlen` positions, at most 256, or of 40 without a `maxlen`", "extremes", once=True,
        hint="Is there a window, a block or a cache with an end?", gravity="leak")
def long_sequences(op: Subject, x: np.ndarray) -> None:
    length = tried_length(op, "long_sequences")
    x = two_of(op, length)
    y = forward_of(op, x)
    for t in sorted({1, length // 4, length // 2, 3 * length // 4, length - 1} - {0}):
        moved = forward_of(op, _changed(op, x, t))
        _earlier_kept(y, moved, t, f"after a change at position {t} of {length}, y of an earlier position: entry ")
        demand(differs(moved[:, t], y[:, t]), f"y of position {t} of {length} does not depend on x of position {t}")


@states("statistical", "trained on uniform noise, it predicts fresh noise no better than ln V: a lower loss is a leak",
        "extremes", hint="The next token cannot be predicted. Where does your model see it?", once=True, gravity="leak")
def noise_stays_noise(op: Subject, x: np.ndarray) -> None:
    fit, vocabulary = op.other("fit"), getattr(op.implementation, "vocabulary", None)
    log_probs = op.other("log_probs")
    if vocabulary is None:
        raise MissingError("it has no attribute `vocabulary`")
    rng = np.random.default_rng(0)
    length = _longest(op, 16)
    fit(rng.integers(0, vocabulary, (256, length)))
    fresh = rng.integers(0, vocabulary, (256, length))
    predicted = np.asarray(log_probs(fresh), float)
    expected = (256, length, vocabulary)
    if predicted.shape != expected:
        raise Violation(f"log_probs has shape {predicted.shape}, expected {expected}", sort="shape")
    predicted = predicted[:, :-1]
    close(np.sum(np.exp(predicted), axis=-1), np.ones((256, length - 1)), 1e-4, "the sum of probabilities ")
    loss = -np.take_along_axis(predicted, fresh[:, 1:, None], axis=-1)[..., 0]
    deviation = float(np.std(loss)) / math.sqrt(loss.size) + 1e-6
    mean, chance = float(np.mean(loss)), math.log(vocabulary)
    demand(mean >= chance - 4 * deviation,
           f"on fresh noise its loss is {mean:.4f}, below ln {vocabulary} = {chance:.4f} by {(chance - mean) / deviation:.0f} "
           "standard deviations: a leak")


def observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """Which inputs move which outputs, by position and by entry of the batch, and whether the length matters."""
    seen: dict[str, Any] = {}
    try:
        x = input_of(op, np.concatenate([case["x"][:1], case["x"][:1] * 3 + 1]))
        passed = x.copy()
        y = forward_of(op, passed)
        seen["changed"] = not np.array_equal(passed, x)
        seen["repeats"] = np.array_equal(forward_of(op, x.copy()), y)
        if seen["changed"] or not seen["repeats"]:
            return seen                                                  # influence between positions cannot be measured
        moved = [forward_of(op, np.concatenate([_changed(op, x, s)[:1], x[1:]])) for s in range(x.shape[1])]
        seen["moves"] = np.array([[differs(m[:1, t], y[:1, t]) for t in range(x.shape[1])] for m in moved])
        other = np.concatenate([x[:1], _changed(op, x, 0, all_after=True)[1:]])
        seen["other entries"] = not np.array_equal(forward_of(op, other)[:1], y[:1])
        from_the_end = getattr(op.implementation, "from_the_end", False)
        if np.array_equal(seen["moves"], np.triu(seen["moves"])) and not from_the_end:
            short, tolerance = forward_of(op, x[:, :-1]), 1e-4 if y.dtype == np.float32 else 1e-8
            seen["length"] = not np.allclose(short, y[:, :-1], rtol=0, atol=tolerance * largest(y))
    except AssertionError as error:
        seen["forward"] = str(error)
    return seen


def tried_length(op: Subject, prop: str) -> int:
    """The model's `maxlen`, up to LONGEST; without one 40, or the longest that runs. The report names it."""
    maxlen = getattr(op.implementation, "maxlen", None)
    length = _longest(op, LONGEST if maxlen else 40)
    op.remembered[prop] = f"tried with {length} positions, {f'of its {maxlen}' if maxlen else 'as it has no `maxlen`'}"
    return length


def _longest(op: Subject, wanted: int) -> int:
    """`wanted` positions, at most the model's `maxlen`; without one, the longest that runs without an error."""
    maxlen = getattr(op.implementation, "maxlen", None)
    if maxlen:
        return min(wanted, int(maxlen))
    for length in (wanted, wanted // 2, wanted // 4):
        with contextlib.suppress(AssertionError):
            forward_of(op, input_of(op, np.arange(length)[None]))
            return length
    return 8


def shown(op: Subject, case: dict[str, Any]) -> dict[str, Any]:
    """The input of forward."""
    with contextlib.suppress(AssertionError):
        return {"x": input_of(op, case["x"])}
    return case


def forward_of(op: Subject, x: np.ndarray) -> np.ndarray:
    return array_of(called(op.forward, "forward", x))


def allowed(op: Subject, y: np.ndarray) -> float:
    """The rounding error allowed in outputs: in the checked dtype, or in y's if both are checked."""
    dtype = y.dtype if op.spec.dtype is None else op.spec.dtype
    return rounding(dtype, y.size, 1e4 * largest(y[np.isfinite(y)]))


def array_of(y: Any) -> np.ndarray:
    """A copy of the array that forward returned, or of the first of several. Raises Violation if it is no array."""
    y = y[0] if isinstance(y, tuple) else y
    if not isinstance(y, np.ndarray):
        raise Violation(f"forward returned a {type(y).__name__}, expected an array", sort="type")
    return np.array(y)


def input_of(
    op: Subject, numbers: np.ndarray, forward: Callable[[Subject, np.ndarray], np.ndarray] = forward_of
) -> np.ndarray:
    """Tokens for a model with a `vocabulary`, vectors for one with a width (`dim`), else the first input that runs."""
    vocabulary = getattr(op.implementation, "vocabulary", None) or op.remembered.get("vocabulary")
    width = getattr(op.implementation, "dim", None) or op.remembered.get("width")
    if vocabulary or width:
        return _tokens(numbers, int(vocabulary)) if vocabulary else in_dtype(_vectors(numbers, int(width or 0)), op.spec.dtype)
    tries = [("width", w, in_dtype(_vectors(numbers, w), op.spec.dtype)) for w in WIDTHS]
    for what, value, x in tries + [("vocabulary", v, _tokens(numbers, v)) for v in (16, 8, 4, 2)]:
        with contextlib.suppress(AssertionError):
            forward(op, x)
            op.remembered[what] = value
            return x
    raise AssertionError("forward raises for inputs (B, T, D) of every width D tried, and for tokens; define `dim` or `vocabulary`")


def two_of(op: Subject, length: int) -> np.ndarray:
    """Two sequences of this length."""
    return input_of(op, np.arange(2 * length).reshape(2, length) * 7919 % 2**20)


def _tokens(numbers: np.ndarray, vocabulary: int) -> np.ndarray:
    return np.asarray(numbers % vocabulary, np.int64)


def _vectors(numbers: np.ndarray, width: int) -> np.ndarray:
    angles = numbers[..., None] % 997 + np.arange(1, width + 1) * 1.7 + np.arange(numbers.shape[1])[:, None]
    return np.cos(angles) + 0.3 * np.sin(3 * angles)


def _changed(op: Subject, x: np.ndarray, t: int, all_after: bool = False, size: float = 1.0) -> np.ndarray:
    x = x.copy()
    where = slice(t, None if all_after else t + 1)
    if x.dtype.kind == "f":
        x[:, where] = size * np.sin(5 * x[:, where] + np.arange(x.shape[-1]))
    else:
        vocabulary = getattr(op.implementation, "vocabulary", None) or op.remembered["vocabulary"]
        x[:, where] = (x[:, where] + 1) % int(vocabulary)
    return x


def differs(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a and b differ in each entry of the batch."""
    return bool(np.all(np.max(np.abs(a - b).reshape(len(a), -1), axis=1) > 1e-9))


SPEC = states.spec(
    "y[:, :t] depends on x[:, :t] alone, of the same entry of the batch",
    "forward(x) -> y: x (B, T, D) float64, or tokens (B, T) if the model has a `vocabulary`; y (B, T, ...). `dim` is D, else "
    "some are tried; `maxlen` is how many positions it takes, at least 8",
    "causal to the last bit; not over-masked: each output depends on its token and on the first",
    "outputs of a prefix are those of the whole; a model that counts positions from the end has `from_the_end = True`",
    "fit(tokens) and log_probs(tokens) -> (B, T, vocabulary), where it has them: trained on uniform noise, its loss on fresh "
    "noise is not below ln V",
    case=case, function="forward", ours=adapters.SASRecTokens, others=("fit", "log_probs"), common=False,
    observe=observe, shown=shown,
)


padding_invariance = SpecBuilder("padding_invariance")


def padding_invariance_case(draw: CaseDrawer) -> dict[str, Any]:
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


@padding_invariance("exact", "forward(x, lengths) -> y keeps the first two axes of x, batch and positions", "shapes",
        hint="x (B, T, D) or tokens (B, T) -> y (B, T, ...).")
def padding_invariance_positions_kept(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    y = _forward(op, _input(op, x), lengths)
    demand(y.shape[:2] == x.shape, f"y has shape {y.shape} for {len(x)} sequences of {x.shape[1]} places")
    demand(np.all(np.isfinite(y[_real(x, lengths)])), "an output that is no padding is not finite")


@padding_invariance("exact", "padding moves no output of a real token", hint="Which sums, means and softmaxes include padding?")
def padding_is_silent(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    tokens, other, real = _input(op, x), _input(op, x * 5 + 3), _real(x, lengths)
    y = _forward(op, tokens, lengths)
    for size in (1, 100) if tokens.dtype.kind == "f" else (1,):
        changed = np.where(real.reshape(*real.shape, *(1,) * (tokens.ndim - 2)), tokens, size * other)
        moved = _forward(op, changed, lengths)
        same_bits(moved[real], y[real], "with other padding, a real token's output: entry ")


@padding_invariance("rounding", "a padded sequence has the same outputs as alone, without padding",
        hint="Are positions counted from the end, or means taken over the longest sequence's length?")
def as_if_alone(op: Subject, x: np.ndarray, lengths: np.ndarray) -> None:
    tokens = _input(op, x)
    y = _forward(op, tokens, lengths)
    for b, length in enumerate(lengths):
        alone = _forward(op, tokens[b : b + 1, :length], lengths[b : b + 1])
        close(alone[0], y[b, :length], allowed(op, y), f"sequence {b} alone: y")


@padding_invariance("exact", "the last real token moves its own output, and all outputs if the token before it does",
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


PADDING_INVARIANCE = padding_invariance.spec(
    "y[b, :lengths[b]] depends on x[b, :lengths[b]] alone",
    "forward(x, lengths) -> y, or forward(x, mask), mask boolean (B, T), True = real: x (B, T, D) float64, or tokens (B, T) "
    "if the model has a `vocabulary`; sequences begin at position 0; y (B, T, ...), ignored in the padding",
    case=padding_invariance_case, function="forward", ours=adapters.PaddedBlock, common=False,
)
