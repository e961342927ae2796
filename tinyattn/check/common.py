"""Common properties: those of every pure function.

Inputs keep their bits, results have the inputs' dtype and new memory, equal calls give equal results, the numbers are
those of plain loops, and the backward is the derivative of the forward.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .binding import as_tuple
from .cases import copied, layouts_of
from .property import (
    EMPTY_BATCHES,
    Property,
    Violation,
    close,
    largest,
    rounding,
    same_bits,
    stating,
    unmoved,
    untouched,
)
from .spec import Spec
from .subject import MissingError, NotOfferedError, Subject

STEP = 1e-6  # of central differences in float64, relative to the argument
FAR = 128.0  # times a case's numbers: some functions clip only what is large

FORWARD, BACKWARD = list[Property](), list[Property]()
# In these lists `holds` takes the subject, the spec and the case. Statements contain {f}, the function's name, and
# {says}, its equation. `common_properties` makes them properties of one spec.
_forward, _backward = stating("", FORWARD), stating("", BACKWARD)
_shapes = partial(_forward, "exact", stage="shapes")
_contract = partial(_shapes, gravity="contract")
_extreme = partial(_forward, "rounding", stage="extremes")
_gradients, _derived = (partial(_backward, how, stage="gradients") for how in ("exact", "rounding"))
_backward_contract = partial(_gradients, gravity="contract")
_LARGE: dict[str, Any] = {"leads": ((),), "wide": True}


def common_properties(spec: Spec) -> list[Property]:
    """The common properties of one spec's function."""
    return [_for(spec, prop) for prop in FORWARD + BACKWARD * bool(spec.wrt)]


def _for(spec: Spec, prop: Property) -> Property:
    def holds(op: Subject, **case: Any) -> None:
        prop.holds(op, spec, case)

    says = prop.statement.format(f=spec.function, says=spec.says)
    return replace(prop, spec=spec.name, statement=says, holds=holds)


@_shapes(
    "{f} returns arrays of the right shape in the inputs' dtype",
    hint="Print .shape and .dtype of the result: a NumPy float64 scalar, for example, widens a float32 array.",
)
def shape_and_dtype(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    _shaped(op, spec, case)
    f = spec.function
    if op.spare and spec.wrt and not op.has_backward and not spec.lets_more_follow:
        says = f"{f} returned {1 + op.spare} results, expected {spec.outputs[0]} alone: a caller would get a tuple"
        raise Violation(f"{says}. Arrays for a backward may follow it if there is {f}_backward", sort="count")


@_contract(
    "{f} leaves every bit of its inputs as it was",
    hint="Something like x -= ... or out=x writes into the caller's array: work on a copy.",
)
def inputs_unchanged(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    far = {name: x * FAR if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for name, x in case.items()}
    for lent, errors in ((case, ()), (far, (Exception,))):      # other properties ask what it computes far out
        before = copied(lent)
        with suppress(*errors):
            op.outputs_of_lent(**lent)
        for name, x in _arrays(before).items():
            untouched(lent[name], x, f"the argument {name}")


@_contract(
    "the results of {f} share no memory with its arguments",
    hint="A view into an input changes when the input does: return a new array.",
)
def own_memory(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    _demand_new_memory(dict(zip(spec.outputs, op.outputs_of_lent(**case), strict=True)), case)


@_contract(
    "equal calls of {f} give equal results, and earlier results survive later calls",
    hint="Is a buffer, a cache or a generator kept between calls?",
)
def repeatable(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    first = op.outputs(**case)
    kept = [None if x is None else np.array(x) for x in first]
    op.outputs(**_other(spec, case))
    for x, copy in zip(first, kept, strict=True):
        if x is not None:
            untouched(x, copy, "after a later call, the first result")
    for x, copy in zip(op.outputs(**case), kept, strict=True):
        if x is not None:
            same_bits(x, copy, "an equal call's result")


@_forward(
    "rounding",
    "{f} does not depend on the memory layout of its inputs: Fortran order, strides, read-only",
    hint="Is there a reshape, a .ravel() or an in-place step that takes C order for granted?",
    gravity="contract",
)
def memory_layout(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    outputs = op.outputs(**case)
    for layout, other in layouts_of(case):
        for name, x, y in zip(spec.outputs, outputs, op.outputs_of_lent(**other), strict=True):
            if x is not None:
                unmoved(y, x, tolerance(spec, case), f"with {layout} inputs, {name}")


@_contract(
    "for an empty batch {f} returns a result of size 0",
    hint="Which line needs at least one entry: a reduction, a division by the batch size, a reshape with -1?",
    leads=EMPTY_BATCHES,
)
def batch_of_nothing(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    if _is_empty(spec, case):
        _shaped(op, spec, case)


@_forward(
    "rounding",
    "{f} computes what plain loops compute: {says}",
    "oracle",
    "Do the smallest example above on paper, one line of your code at a time.",
)
def oracle(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    _close_outputs(spec, op, case, by_loops(spec, case))


@_gradients(
    "the gradients of {f} have the shapes of the arguments they belong to, and their dtype",
    hint="A gradient is added to its argument: it must have that argument's shape exactly.",
)
def gradient_shapes(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    _shaped_gradients(op, spec, case)


@_backward_contract(
    "the backward of {f} leaves every bit of its arguments as it was, and shares no memory with them",
    hint="dx -= ... on an argument spoils it for the next layer, or for a second call.",
)
def backward_inputs_unchanged(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    arguments = op.prepared(case, upstream(spec, case))
    kept = copied(arguments)
    returned = op.backward(arguments)
    for name, x in _arrays(kept).items():
        untouched(arguments[name], x, f"the backward's argument {name}")
    gradients = op.name_gradients(case, returned)
    _demand_new_memory({f"d{name}": g for name, g in gradients.items()}, arguments)


@_backward_contract(
    "the backward of {f}, called twice, gives the same gradients, and the first ones survive",
    hint="What does a call leave behind: in a cache, in a saved array, in a buffer?",
)
def backward_twice(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    arguments, first, kept = _derived_once(op, spec, case)
    other = _other(spec, case)
    op.gradients(other, *upstream(spec, other, 1))  # a forward and a backward of something else
    for name, g in kept.items():
        untouched(first[name], g, f"after another call, the first d{name}")
    again = op.name_gradients(case, op.backward(arguments))
    for name, g in kept.items():
        same_bits(again[name], g, f"the second call's d{name}")


@_backward_contract(
    "the backward of {f} depends on its arguments alone, not on the last forward",
    hint="Two layers share your function: whose forward does the backward remember?",
)
def no_memory_of_the_forward(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    arguments, _, first = _derived_once(op, spec, case)
    op.outputs(**_other(spec, case))
    for name, g in op.name_gradients(case, op.backward(arguments)).items():
        same_bits(g, first[name], f"after another forward, d{name}")


@_derived(
    "the backward of {f} is the derivative of its forward, by central differences in float64",
    hint="Write out one entry of the output as a sum, and differentiate it by one entry of the input.",
)
def derivative(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    """Compare the directional derivative of <dy, y> with the gradient, argument by argument."""
    if spec.dtype == np.float32:
        raise MissingError("central differences need float64; the exact formulas are tried in float32")
    case = widened(case)
    rng = np.random.default_rng(0)
    (dy,) = upstream(spec, case)
    gradients = op.gradients(case, dy)

    def terms(case: dict[str, Any]) -> Any:
        return dy * _wide(op(**case))

    size = float(np.sum(np.abs(terms(case))))
    steepness = max(spec.scale(case), 1.0)  # a bound on the relative curvature
    for name, g in gradients.items():
        if not np.size(g):
            continue
        g = _wide(g)
        if g.shape != case[name].shape:
            raise Violation(f"d{name} has the wrong shape", g.shape, case[name].shape, sort="shape")
        h = STEP * largest(case[name])
        for along, direction in _directions(rng, g):
            above, below = (float(np.sum(terms(case | {name: case[name] + step * direction}))) for step in (h, -h))
            measured = (above - below) / (2 * h)
            derived = float(np.sum(g * direction))
            scale = float(np.sum(np.abs(g * direction))) + abs(measured)
            if not abs(derived - measured) <= 1e-6 * max(scale, 1.0) * steepness + 4e-16 * size / h:
                raise Violation(f"d{name} is not the derivative along a {along}", derived, measured)


@_derived(
    "the gradients of {f} are those of the exact formulas, in float32 too",
    hint="Right to six digits and wrong after: an approximation, float32 inside, or an eps where none belongs.",
)
@_backward(
    "rounding",
    "the gradients of {f} are right for sizes of 20 to 70 too, and for 300 tokens",
    "extremes",
    "Where one tile ends and the next begins, what must be carried over?",
    "gradients_of_large_sizes",
    **_LARGE,
)
def exact_gradients(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    """Compare with the library's gradients in float64, which central differences and two other libraries confirm."""
    dy, known = upstream(spec, case), spec.remembered
    if "library" not in known:
        known["library"] = Subject(spec.ours(), replace(spec, dtype=None))
    wide = known["library"].gradients(widened(op.fit(case)), *(_wide(d) for d in dy))
    allowed = _gradient_tolerance(spec, case)
    for name, g in op.gradients(case, *dy).items():
        close(g, wide[name], allowed(g, largest(wide[name])), f"d{name}")


@_derived(
    "the backward of {f} is linear in its upstream gradients",
    hint="Every term of a gradient has the upstream gradient in it exactly once.",
)
def linear_in_upstream(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    one, two = upstream(spec, case), upstream(spec, case, 1)
    both = tuple(2 * a - 3 * b for a, b in zip(one, two, strict=True))
    first, second, mixed = (op.gradients(case, *dy) for dy in (one, two, both))
    allowed = _gradient_tolerance(spec, case)
    for name, g in mixed.items():
        atol = allowed(g, 5 * largest(first[name], second[name]))
        close(g, 2 * first[name] - 3 * second[name], atol, f"d{name}")


@_derived(
    "the backward of {f} does not depend on the memory layout of its inputs",
    hint="Is there a reshape, a .ravel() or an in-place step that takes C order for granted?",
    gravity="contract",
)
def backward_memory_layout(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    arguments, first, _ = _derived_once(op, spec, case)
    allowed = _gradient_tolerance(spec, case)
    for layout, other in layouts_of(arguments):
        if left_out := op.left_out(case | other):
            raise NotOfferedError(left_out)
        for name, g in op.name_gradients(case, op.backward(other)).items():
            unmoved(g, first[name], allowed(g, largest(first[name])), f"with {layout} inputs, d{name}")


@_backward_contract(
    "for an empty batch the gradients of {f} have the right shapes, and those of shared arguments are 0",
    hint="A sum over no entries is 0: which line divides by their number?",
    leads=EMPTY_BATCHES,
)
def gradients_of_nothing(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    for name, g in _shaped_gradients(op, spec, case).items() if _is_empty(spec, case) else ():
        if np.any(g):
            raise Violation(f"d{name} is not 0")


@_extreme(
    "{f} is right for sizes of 20 to 70 too, and for 300 tokens, beyond one tile of a blocked computation",
    hint="Where one tile ends and the next begins, what must be carried over?",
    **_LARGE,
)
def large_sizes(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    _close_outputs(spec, op, case, ours_of(spec, widened(case)))


@_extreme(
    "{f} is right with two and with three leading axes, and so are its gradients",
    hint="Over which axes does each sum run, if there are more than two?",
    leads=((2, 3), (2, 1, 3)),
)
def several_axes(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    _close_outputs(spec, op, case, ours_of(spec, widened(case)))
    if spec.wrt and op.has_backward:
        exact_gradients(op, spec, case)


def upstream(spec: Spec, case: dict[str, Any], seed: int = 0) -> tuple[Any, ...]:
    """A random upstream gradient of the first output, in its shape and the inputs' dtype; a float for a loss."""
    rng = np.random.default_rng(seed)
    shape = shapes_of(spec, case)[0]
    return (np.asarray(rng.standard_normal(shape), dtype_of(case)) if shape else float(rng.standard_normal()),)


def ours_of(spec: Spec, case: dict[str, Any]) -> tuple[Any, ...]:
    """The outputs of the library's implementation, without those that only its backward needs."""
    with np.errstate(all="ignore"):
        return as_tuple(getattr(spec.ours(), spec.function)(**case))[: len(spec.outputs)]


def shapes_of(spec: Spec, case: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The shapes of the outputs, remembered: they depend on the shapes of the arguments alone."""
    arguments = ((n, x.dtype, x.shape) if isinstance(x, np.ndarray) else (n, x) for n, x in case.items())
    key = (getattr(spec.ours(), spec.function), *arguments)
    if key not in spec.remembered:
        spec.remembered[key] = tuple(map(np.shape, ours_of(spec, case)))
    return spec.remembered[key]


def by_loops(spec: Spec, case: dict[str, Any]) -> tuple[Any, ...]:
    """The outputs of the oracle, in float64."""
    assert spec.oracle is not None
    return as_tuple(spec.oracle(**widened(case)))


def _close_outputs(spec: Spec, op: Subject, case: dict[str, Any], expected: tuple[Any, ...]) -> None:
    for name, x, y in zip(spec.outputs, op.outputs(**case), expected, strict=True):
        if x is not None:
            close(x, y, tolerance(spec, case), name)


def _shaped(op: Subject, spec: Spec, case: dict[str, Any]) -> None:
    for name, x, shape in zip(spec.outputs, op.outputs(**case), shapes_of(spec, case), strict=True):
        if x is not None and (shape or not _is_empty(spec, case)):
            _like(x, shape, dtype_of(case), name)


def _shaped_gradients(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    gradients = op.gradients(case, *upstream(spec, case))
    for name, g in gradients.items():
        _like(g, case[name].shape, case[name].dtype, f"d{name}")
    return gradients


def _derived_once(op: Subject, spec: Spec, case: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """-> the arguments of a backward, the gradients that it returns for them, and copies of these."""
    arguments = op.prepared(case, upstream(spec, case))
    first = op.name_gradients(case, op.backward(arguments))
    return arguments, first, {name: np.array(g) for name, g in first.items()}


def _demand_new_memory(results: dict[str, Any], arguments: dict[str, Any]) -> None:
    for name, y in results.items():
        for other, x in _arrays(arguments).items():
            if isinstance(y, np.ndarray) and np.shares_memory(x, y) and not _is_reshape(y, x):
                raise Violation(f"{name} shares memory with {other}")


def _is_reshape(y: np.ndarray, x: np.ndarray) -> bool:
    """Whether y is x in another shape. Such a view is allowed: .reshape makes no copy, as for patches of one pixel."""
    return y.size == x.size and y.shape != x.shape and np.array_equal(np.ravel(y), np.ravel(x), equal_nan=True)


def _directions(rng: np.random.Generator, g: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """A random direction, and those of the single entries where the gradient is largest and smallest."""
    yield "random direction", rng.uniform(0.5, 1, g.shape) * rng.choice([-1, 1], g.shape)
    if g.size > 1 and np.all(np.isfinite(g)):
        for i in {int(np.argmax(np.abs(g))), int(np.argmin(np.abs(g)))}:
            single = np.zeros(g.shape)
            single.flat[i] = 1
            yield f"step of entry {[int(i) for i in np.argwhere(single)[0]]}", single


def _other(spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """The case with other numbers in the differentiable arguments: above 0, as a standard deviation must be."""
    changed = {n: np.asarray(np.cos(case[n]) + 1.5, case[n].dtype) for n in spec.wrt if case.get(n) is not None}
    return case | changed


def _like(x: Any, shape: tuple[int, ...], dtype: Any, what: str) -> None:
    """Raise Violation unless x has this shape and, where it is no Python number, this dtype."""
    if np.shape(x) != tuple(shape):
        raise Violation(f"{what} has the wrong shape", np.shape(x), tuple(shape), sort="shape")
    got = getattr(x, "dtype", None)
    if got is None and np.shape(x):
        raise Violation(f"{what} is a {type(x).__name__}, expected an array", sort="type")
    if got is not None and got != dtype:
        raise Violation(f"{what} has the wrong dtype", str(got), str(np.dtype(dtype)), "contract")


def tolerance(spec: Spec, case: dict[str, Any]) -> float:
    """The rounding error allowed in the outputs of this case: that of a sum over its largest input."""
    return rounding(dtype_of(case), _length(case), spec.scale(case))


def _gradient_tolerance(spec: Spec, case: dict[str, Any]) -> Callable[[Any, float], float]:
    """-> the rounding error allowed in a gradient, as a function of the gradient and a factor of its terms' size: 10
    times that of a sum over the gradient or the largest input."""
    dtype, length, scale = dtype_of(case), _length(case), spec.scale(case)
    return lambda g, factor: 10 * rounding(dtype, max(length, np.size(g)), scale * factor)


def _length(case: dict[str, Any]) -> int:
    """A bound on the length of any sum: the size of the largest input."""
    return max((x.size for x in _arrays(case).values()), default=1)


def dtype_of(case: dict[str, Any]) -> Any:
    """The dtype of the first array of floats; None if there is none, as in a case of ids."""
    return next((x.dtype for x in _arrays(case).values() if x.dtype.kind == "f"), None)


def _is_empty(spec: Spec, case: dict[str, Any]) -> bool:
    """Whether the result has size 0. The loss of an empty batch may be any number."""
    return 0 in shapes_of(spec, case)[0]


def _arrays(case: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: x for name, x in case.items() if isinstance(x, np.ndarray)}


def _wide(x: Any) -> Any:
    return np.asarray(x, np.float64) if np.shape(x) else float(x)


def widened(case: dict[str, Any]) -> dict[str, Any]:
    """The case in float64 and in new memory, so that differences can be taken."""
    return case | {n: x.astype(np.float64) for n, x in _arrays(case).items() if x.dtype.kind == "f"}
