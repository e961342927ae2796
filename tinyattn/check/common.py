"""Common properties: those that every pure function must have, whatever it computes.

Inputs keep their bits, results have the inputs' dtype and their own memory, equal calls give equal results, the
numbers are those of plain loops, and the backward is the derivative of the forward.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import copied
from .property import (
    EMPTY_BATCHES,
    Property,
    Violation,
    close,
    demand,
    largest,
    rounding,
    same_bits,
    stating,
    untouched,
)
from .spec import Spec
from .subject import Subject

STEP = 1e-6  # of central differences in float64, relative to the argument


def common_properties(spec: Spec) -> list[Property]:
    """The common properties, as properties of one spec's function."""
    found: list[Property] = []
    f = spec.function
    states = stating(spec.name, found)
    _shapes(states, spec, f)
    if spec.oracle is not None:
        _oracle(states, spec, f)
    if spec.wrt:
        _gradients(states, spec, f)
    _beyond_one_tile(states, spec, f)
    return found


def _shapes(states: Any, spec: Spec, f: str) -> None:
    @states(
        "exact",
        f"{f} returns arrays of the right shape in the inputs' dtype",
        "shapes",
        "Print .shape and .dtype of the result: a NumPy float64 scalar, for one, widens a float32 array.",
    )
    def shape_and_dtype(op: Subject, **case: Any) -> None:
        for name, x, y in zip(spec.outputs, op.outputs(**case), ours_of(spec, case), strict=True):
            if x is not None:
                _like(x, np.shape(y), dtype_of(case), name)

    @states(
        "exact",
        f"{f} leaves every bit of its inputs as it was",
        "shapes",
        "Something like x -= ... or out=x writes into the caller's array: work on a copy.",
        gravity="contract",
    )
    def inputs_unchanged(op: Subject, **case: Any) -> None:
        before = copied(case)
        op.outputs_of_lent(**case)
        for name, x in _arrays(before).items():
            untouched(case[name], x, f"the {name} that was given")

    @states(
        "exact",
        f"what {f} returns shares no memory with what it was given",
        "shapes",
        "A view into an input changes when the input does: return a new array.",
        gravity="contract",
    )
    def own_memory(op: Subject, **case: Any) -> None:
        for name, y in zip(spec.outputs, op.outputs_of_lent(**case), strict=True):
            for other, x in _arrays(case).items():
                demand(not (isinstance(y, np.ndarray) and np.shares_memory(x, y)), f"{name} shares memory with {other}")

    @states(
        "exact",
        f"equal calls of {f} give equal results, and earlier results survive later calls",
        "shapes",
        "Is a buffer, a cache or a generator kept between calls?",
        gravity="contract",
    )
    def repeatable(op: Subject, **case: Any) -> None:
        first = op.outputs(**case)
        kept = [None if x is None else np.array(x) for x in first]
        op.outputs(**_other(spec, case))
        for x, copy in zip(first, kept, strict=True):
            if x is not None:
                untouched(x, copy, "after a later call, the first result")
        for x, copy in zip(op.outputs(**case), kept, strict=True):
            if x is not None:
                same_bits(x, copy, "an equal call's result")

    @states(
        "rounding",
        f"{f} does not care how its inputs lie in memory: Fortran order, strides, read-only",
        "properties",
        "Is there a reshape, a .ravel() or an in-place step that takes C order for granted?",
        gravity="contract",
    )
    def memory_layout(op: Subject, **case: Any) -> None:
        outputs = op.outputs(**case)
        for how in ("Fortran order", "strided", "read-only"):
            other = {n: _rearranged(x, how) if isinstance(x, np.ndarray) else x for n, x in case.items()}
            for name, x, y in zip(spec.outputs, outputs, op.outputs_of_lent(**other), strict=True):
                if x is not None:
                    close(y, x, tolerance(spec, case), f"with {how} inputs, {name}")

    @states(
        "exact",
        f"of a batch of nothing {f} makes a result of size 0",
        "shapes",
        "Which line needs at least one entry: a reduction, a division by the batch size, a reshape with -1?",
        leads=EMPTY_BATCHES,
        gravity="contract",
    )
    def batch_of_nothing(op: Subject, **case: Any) -> None:
        if not _nothing_of(spec, case):
            return
        for name, x, y in zip(spec.outputs, op.outputs(**case), ours_of(spec, case), strict=True):
            if x is not None and np.shape(y):
                _like(x, np.shape(y), dtype_of(case), name)


def _oracle(states: Any, spec: Spec, f: str) -> None:
    @states(
        "rounding",
        f"{f} computes what plain loops compute: {spec.says}",
        "oracle",
        "Do the smallest example above on paper, one line of your code at a time.",
    )
    def oracle(op: Subject, **case: Any) -> None:
        for name, x, y in zip(spec.outputs, op.outputs(**case), _by_loops(spec, case), strict=True):
            if x is not None:
                close(x, y, tolerance(spec, case), name)


def _beyond_one_tile(states: Any, spec: Spec, f: str) -> None:
    @states(
        "rounding",
        f"{f} is right for sizes of 20 to 70 too, and for 300 tokens, beyond one tile of a blocked computation",
        "extremes",
        "Where one tile ends and the next begins, what must be carried over?",
        leads=((),),
        wide=True,
    )
    def large_sizes(op: Subject, **case: Any) -> None:
        for name, x, y in zip(spec.outputs, op.outputs(**case), ours_of(spec, widened(case)), strict=True):
            if x is not None:
                close(x, y, tolerance(spec, case), name)

    @states(
        "rounding",
        f"{f} is right with two and with three leading axes, and so are its gradients",
        "extremes",
        "Over which axes does each sum run, if there are more than two?",
        leads=((2, 3), (2, 1, 3)),
    )
    def several_axes(op: Subject, **case: Any) -> None:
        for name, x, y in zip(spec.outputs, op.outputs(**case), ours_of(spec, widened(case)), strict=True):
            if x is not None:
                close(x, y, tolerance(spec, case), name)
        if spec.wrt and f"{f}_backward" not in op.lacks:
            _exact_gradients(op, spec, case)

    if not spec.wrt:
        return

    @states(
        "rounding",
        f"the gradients of {f} are right for sizes of 20 to 70 too, and for 300 tokens",
        "extremes",
        "Where one tile ends and the next begins, what must be carried over?",
        leads=((),),
        wide=True,
    )
    def gradients_of_large_sizes(op: Subject, **case: Any) -> None:
        _exact_gradients(op, spec, case)


def _gradients(states: Any, spec: Spec, f: str) -> None:
    @states(
        "exact",
        f"the gradients of {f} have the shapes of the arguments they belong to, and their dtype",
        "gradients",
        "A gradient is added to its argument: it must have that argument's shape exactly.",
    )
    def gradient_shapes(op: Subject, **case: Any) -> None:
        for name, g in op.gradients(case, *upstream(spec, case)).items():
            _like(g, case[name].shape, case[name].dtype, f"d{name}")

    @states(
        "exact",
        f"the backward of {f} leaves the bits of everything it is given, and shares no memory with it",
        "gradients",
        "dx -= ... on something you were given spoils it for the next layer, or for a second call.",
        gravity="contract",
    )
    def backward_inputs_unchanged(op: Subject, **case: Any) -> None:
        given = op.prepared(case, upstream(spec, case))
        kept = copied(given)
        returned = op.backward(given)
        for name, x in _arrays(kept).items():
            untouched(given[name], x, f"the {name} that the backward was given")
        for name, g in op.name_gradients(case, returned).items():
            for other, x in _arrays(given).items():
                demand(
                    not (isinstance(g, np.ndarray) and np.shares_memory(x, g)), f"d{name} shares memory with {other}"
                )

    @states(
        "exact",
        f"the backward of {f}, called twice, gives the same gradients, and the first ones survive",
        "gradients",
        "What does a call leave behind: in a cache, in a saved array, in a buffer?",
        gravity="contract",
    )
    def backward_twice(op: Subject, **case: Any) -> None:
        given = op.prepared(case, upstream(spec, case))
        first = op.name_gradients(case, op.backward(given))
        kept = {name: np.array(g) for name, g in first.items()}
        other = _other(spec, case)
        op.gradients(other, *upstream(spec, other, 1))  # a forward and a backward of something else
        for name, g in kept.items():
            untouched(first[name], g, f"after another call, the first d{name}")
        again = op.name_gradients(case, op.backward(given))
        for name, g in kept.items():
            same_bits(again[name], g, f"the second call's d{name}")

    @states(
        "exact",
        f"the backward of {f} goes by what it is given, not by the last forward",
        "gradients",
        "Two layers share your function: whose forward does the backward remember?",
        gravity="contract",
    )
    def no_memory_of_the_forward(op: Subject, **case: Any) -> None:
        given = op.prepared(case, upstream(spec, case))
        first = {name: np.array(g) for name, g in op.name_gradients(case, op.backward(given)).items()}
        op.outputs(**_other(spec, case))
        for name, g in op.name_gradients(case, op.backward(given)).items():
            same_bits(g, first[name], f"after another forward, d{name}")

    @states(
        "rounding",
        f"the backward of {f} is the derivative of its forward, by central differences in float64",
        "gradients",
        "Write out one entry of the output as a sum, and differentiate it by one entry of the input.",
    )
    def derivative(op: Subject, **case: Any) -> None:
        case = widened(case)
        _derivative(op, spec, case)

    @states(
        "rounding",
        f"the gradients of {f} are those of the exact formulas, in float32 too",
        "gradients",
        "Right to six digits and wrong after: an approximation, float32 inside, or an eps where none belongs.",
    )
    def exact_gradients(op: Subject, **case: Any) -> None:
        _exact_gradients(op, spec, case)

    @states(
        "rounding",
        f"the backward of {f} is linear in the gradients it is given",
        "gradients",
        "Every term of a gradient has the upstream gradient in it exactly once.",
    )
    def linear_in_upstream(op: Subject, **case: Any) -> None:
        one, two = upstream(spec, case), upstream(spec, case, 1)
        both = tuple(_times(2, a) - _times(3, b) for a, b in zip(one, two, strict=True))
        first, second, mixed = (op.gradients(case, *dy) for dy in (one, two, both))
        for name, g in mixed.items():
            scale = spec.scale(case) * largest(first[name], second[name]) * 5
            atol = 10 * rounding(dtype_of(case), max(_length(case), np.size(g)), scale)
            close(g, _times(2, first[name]) - _times(3, second[name]), atol, f"d{name}")

    @states(
        "rounding",
        f"the backward of {f} does not care how its inputs lie in memory",
        "gradients",
        "Is there a reshape, a .ravel() or an in-place step that takes C order for granted?",
        gravity="contract",
    )
    def backward_memory_layout(op: Subject, **case: Any) -> None:
        given = op.prepared(case, upstream(spec, case))
        first = op.name_gradients(case, op.backward(given))
        for how in ("Fortran order", "strided", "read-only"):
            other = {n: _rearranged(x, how) if isinstance(x, np.ndarray) else x for n, x in given.items()}
            for name, g in op.name_gradients(case, op.backward(other)).items():
                scale = spec.scale(case) * largest(first[name])
                atol = 10 * rounding(dtype_of(case), max(_length(case), np.size(g)), scale)
                close(g, first[name], atol, f"with {how} inputs, d{name}")

    @states(
        "exact",
        f"of a batch of nothing {f} has gradients of the right shapes, all 0 for what the batch shares",
        "gradients",
        "A sum over no entries is 0: which line divides by their number?",
        leads=EMPTY_BATCHES,
        gravity="contract",
    )
    def gradients_of_nothing(op: Subject, **case: Any) -> None:
        if not _nothing_of(spec, case):
            return
        for name, g in op.gradients(case, *upstream(spec, case)).items():
            _like(g, case[name].shape, case[name].dtype, f"d{name}")
            demand(not np.any(g), f"d{name} is not 0")


def upstream(spec: Spec, case: dict[str, Any], seed: int = 0) -> tuple[Any, ...]:
    """A random upstream gradient of the first output: its shape, the inputs' dtype; a float for a loss."""
    rng = np.random.default_rng(seed)
    shape = np.shape(ours_of(spec, case)[0])
    return (np.asarray(rng.standard_normal(shape), dtype_of(case)) if shape else float(rng.standard_normal()),)


def _by_loops(spec: Spec, case: dict[str, Any]) -> tuple[Any, ...]:
    """The outputs by plain loops, in float64."""
    assert spec.oracle is not None
    return _tuple(spec.oracle(**widened(case)))


def ours_of(spec: Spec, case: dict[str, Any]) -> tuple[Any, ...]:
    """The library's own outputs, for their shapes; what it returns beyond them, for its backward, is its own affair."""
    with np.errstate(all="ignore"):
        return _tuple(getattr(spec.ours(), spec.function)(**case))[: len(spec.outputs)]


def _tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple) else (result,)


def _exact_gradients(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    """Compare with the library's gradients in float64, which central differences and two other libraries confirm."""
    ours = Subject(spec.ours(), spec)
    dy = upstream(spec, case)
    wide = ours.gradients(op.fit(widened(case)), *(_wide(d) for d in dy))
    for name, g in op.gradients(case, *dy).items():
        scale = spec.scale(case) * largest(wide[name])
        close(g, wide[name], 10 * rounding(dtype_of(case), max(_length(case), np.size(g)), scale), f"d{name}")


def _derivative(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    """Compare the directional derivative of <dy, y> with the gradient, argument by argument."""
    rng = np.random.default_rng(0)
    (dy,) = upstream(spec, case)
    gradients = op.gradients(case, dy)

    def loss(x: dict[str, Any]) -> float:
        return float(np.sum(dy * _wide(op(**x))))

    size = float(np.sum(np.abs(dy * _wide(op(**case)))))
    for name, g in gradients.items():
        if not np.size(g):
            continue
        g = _wide(g)
        if g.shape != case[name].shape:
            raise Violation(f"d{name} has the wrong shape", g.shape, case[name].shape, sort="shape")
        for direction in _directions(rng, g):
            h = STEP * largest(case[name])
            ends = [loss(case | {name: case[name] + sign * h * direction}) for sign in (1, -1)]
            measured = (ends[0] - ends[1]) / (2 * h)
            derived = float(np.sum(g * direction))
            scale = float(np.sum(np.abs(g * direction))) + abs(measured)
            slack = 1e-6 * max(scale, 1.0) * _steepness(spec, case) + 4e-16 * size / h
            if not abs(derived - measured) <= slack:
                raise Violation(f"d{name} is not the derivative along a {_named(direction)}", derived, measured)


def _directions(rng: np.random.Generator, g: np.ndarray) -> list[np.ndarray]:
    """A random one, and the single entries where the gradient is largest and smallest."""
    found = [rng.uniform(0.5, 1, g.shape) * rng.choice([-1, 1], g.shape)]
    if g.size > 1 and np.all(np.isfinite(g)):
        for at in {int(np.argmax(np.abs(g))), int(np.argmin(np.abs(g)))}:
            single = np.zeros(g.size)
            single[at] = 1
            found.append(single.reshape(g.shape))
    return found


def _named(direction: np.ndarray) -> str:
    if np.sum(direction != 0) > 1 or direction.size == 1:
        return "random direction"
    return f"step of entry {[int(i) for i in np.argwhere(direction)[0]]}"


def _steepness(spec: Spec, case: dict[str, Any]) -> float:
    """A bound on the function's curvature relative to its inputs: central differences are that much less exact."""
    return max(spec.scale(case), 1.0)


def _other(spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """The case with other numbers, above 0 as a spread must be, in the differentiable arguments."""
    changed = {n: np.asarray(np.cos(case[n]) + 1.5, case[n].dtype) for n in spec.wrt if case.get(n) is not None}
    return case | changed


def _like(x: Any, shape: tuple[int, ...], dtype: Any, what: str) -> None:
    """Raise Violation unless x has this shape and dtype; a Python number has no dtype to check."""
    if np.shape(x) != tuple(shape):
        raise Violation(f"{what} has the wrong shape", np.shape(x), tuple(shape), sort="shape")
    found = getattr(x, "dtype", None)
    if found is None and np.shape(x):
        raise Violation(f"{what} is a {type(x).__name__}, expected an array", sort="type")
    if found is not None and found != dtype:
        raise Violation(f"{what} has the wrong dtype", str(found), str(np.dtype(dtype)), "contract")


def tolerance(spec: Spec, case: dict[str, Any]) -> float:
    """The rounding error allowed in the outputs of this case: of sums as long as its largest input."""
    return rounding(dtype_of(case), _length(case), spec.scale(case))


def _length(case: dict[str, Any]) -> int:
    """A bound on the length of any sum: the size of the largest input."""
    return max((x.size for x in _arrays(case).values()), default=1)


def dtype_of(case: dict[str, Any]) -> Any:
    """The dtype of the case's numbers."""
    return next(x.dtype for x in _arrays(case).values() if x.dtype.kind == "f")


def _nothing_of(spec: Spec, case: dict[str, Any]) -> bool:
    """Whether the result has size 0. A loss of an empty batch is a number, and may be any."""
    answer = ours_of(spec, case)[0]
    return bool(np.shape(answer)) and np.size(answer) == 0


def _arrays(case: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: x for name, x in case.items() if isinstance(x, np.ndarray)}


def _wide(x: Any) -> Any:
    return np.asarray(x, np.float64) if np.shape(x) else float(x)


def _times(factor: int, x: Any) -> Any:
    """factor · x in x's own dtype."""
    return x.dtype.type(factor) * x if hasattr(x, "dtype") else factor * x


def widened(case: dict[str, Any]) -> dict[str, Any]:
    """In float64, in new memory, so that differences can be taken."""
    return {
        n: x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for n, x in case.items()
    }


def _rearranged(x: np.ndarray, how: str) -> np.ndarray:
    """The same entries in other memory."""
    if how == "Fortran order":
        return np.array(x, order="F")
    if how == "strided":
        wide = np.zeros((*x.shape, 2), x.dtype)
        wide[..., 0] = x
        return wide[..., 0]
    x = x.copy()
    x.flags.writeable = False
    return x
