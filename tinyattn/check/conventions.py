"""Conventions: choices in which right code differs. The check detects and reports them, and adapts to them.

A switch is one difference between an implementation and this library. It translates calls and results, so that
everything else can be checked, and leaves out calls whose result depends on it. `tinyattn check --strict` allows none.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import oracles
from .binding import is_float_array
from .cases import CaseDrawer, copied
from .common import by_loops, widened
from .isolation import alarm
from .property import Violation, largest, rounding
from .subject import CannotRunError, MissingError, Subject, TooLongError
from .switch import Case, OtherDefault, Switch, Ties

FILLED = 4000.0  # a finite fill of masked logits must lie below logits of this size; otherwise it is a bug
LARGE = 5000.0  # logits beyond it may lie below a finite fill

# permitted differences, for `tinyattn check --contract`
CHOICES = {
    "mask": "masks may mean the opposite, True = may not look, or be added to the logits, as 0 and -inf",
    "dead rows": "a query that may look at nothing may get NaN, or an average, as a finite fill has it",
    "kink": "the gradient of relu at 0 may be any from 0 to 1",
    "inner kink": "the gradient of relu at 0 may be any from 0 to 1",
    "scale": "dropout may scale by 1 - rate in evaluation, not by 1 / (1 - rate) in training",
    "tanh": "without `approximate` it may compute the tanh form",
    "causal": "without `causal` it may look at all keys, or at earlier ones alone",
    "padding": "one row may be padding, and have no gradient",
    "eps outside": "eps may be added to the standard deviation; without `eps` it may be any from 1e-12 to 1e-3",
    "eps": "without `eps` it may be any from 1e-12 to 1e-3",
    "wide": "float32 arrays may give float64 results",
    "beta2": "beta2 may be 0.999 by default",
    "ties": "a target may rank before, after or by position among items of its score, not at their mean",
}


def choices_of(spec: Any) -> list[str]:
    """The conventions that an implementation of this kind may choose, in sentences."""
    return [CHOICES[name] for name in _names(spec)]


def _names(spec: Any) -> list[str]:
    """The conventions that the function's arguments imply, and those that the spec names."""
    arguments = inspect.signature(getattr(spec.ours(), spec.function)).parameters if spec.common else {}
    names = ["mask", "dead rows"] * ("mask" in arguments) + [*spec.choices] + ["tanh"] * ("approximate" in arguments)
    names += ["causal"] * ("causal" in arguments)
    names += ["wide"] * spec.common
    return names + ["eps"] * ("eps" in arguments and "eps outside" not in names)


def find_conventions(op: Subject, patience: float = 10.0) -> list[Switch]:
    """The conventions that `op` follows and the library does not; each is appended to `op.conventions`."""
    for name in _names(op.spec):
        try:
            with alarm(patience):
                switch = _FINDERS[name](op)
        except (Violation, MissingError, CannotRunError, TooLongError):
            continue  # it raises here: no convention, and the properties will report it
        if switch is not None:
            op.conventions.append(switch)
    return op.conventions


@dataclass(frozen=True)
class FixedArgument(Switch):
    """An argument that the implementation lacks, fixed at a value other than the library's default."""

    name: str
    value: Any
    default: Any

    def has(self, given: Case) -> bool:
        return given.get(self.name, self.default) != self.value

    def avoid(self, case: Case) -> Case:
        return case | {self.name: self.value}

    def given(self, given: Case) -> Case:
        return given | {self.name: self.default}  # so that it may be left out


@dataclass(frozen=True)
class OtherGradient(Switch):
    """A gradient that differs where any entry of `where(case)` is True: such calls are left out."""

    where: Callable[[Case], Any]

    def has_gradient(self, case: Case) -> bool:
        return bool(np.any(self.where(case)))


@dataclass(frozen=True)
class MaskMeaning(Switch):
    translate: Callable[[np.ndarray, Any], np.ndarray] = lambda mask, dtype: mask

    def given(self, given: Case) -> Case:
        if given.get("mask") is None:
            return given
        dtype = next((x.dtype for x in given.values() if is_float_array(x)), np.float64)
        return given | {"mask": self.translate(given["mask"], dtype)}


MEANINGS = (
    MaskMeaning("a mask that is True where a query may not look", lambda mask, dtype: ~np.asarray(mask)),
    MaskMeaning(
        "a mask that is added to the logits, 0 and -inf",
        lambda mask, dtype: np.where(mask, 0, -np.inf).astype(dtype),
    ),
)


def _mask(op: Subject) -> Switch | None:
    """A different meaning of the mask, if it gives the library's results and the library's meaning does not."""
    if "mask" in op.lacks:
        return None
    cases = []
    for case in _drawn(op, lambda mask: mask.shape[-1] > 1):
        mask = case["mask"]
        places = np.add.outer(np.arange(math.prod(mask.shape[:-1])), np.arange(mask.shape[-1]))
        cases.append(case | {"mask": (places % 2 == 0).reshape(mask.shape)})
    if len(cases) < 2 or any(_agrees(op, case) for case in cases):
        return None
    fitting = (meaning for meaning in MEANINGS if all(_agrees(op, case, meaning.given(case)) for case in cases))
    return next(fitting, None)


@dataclass(frozen=True)
class DeadRows(Switch):
    finite: bool = False

    def has(self, given: Case) -> bool:
        mask = given.get("mask")
        if not isinstance(mask, np.ndarray) or not mask.size:
            return False
        return bool(np.any(~np.any(mask, axis=-1))) or (self.finite and _logits(given) >= LARGE)

    def avoid(self, case: Case) -> Case:
        mask = case.get("mask")
        if not isinstance(mask, np.ndarray):
            return case
        return case | {"mask": mask | ~np.any(mask, axis=-1, keepdims=True)}


def _dead_rows(op: Subject) -> Switch | None:
    """The result of a query that may look at nothing, if it is not 0 and the other queries get numbers."""
    if "mask" in op.lacks:
        return None
    seen = set()
    cases = list(_drawn(op, lambda mask: mask.ndim > 1 and mask.shape[-2] > 1))
    for case in cases:
        mask = np.ones_like(case["mask"])
        mask[..., 0, :] = False
        case = widened(case | {"mask": mask})
        y, right = (np.asarray(value, np.float64) for value in (op.outputs(**case)[0], _oracle(op, case)))
        if y.shape != right.shape or not np.all(np.isfinite(y[..., 1:, :])):
            return None
        dead = y[..., 0, :]
        if np.all(np.isnan(dead)):
            seen.add("a query that may look at nothing gets NaN, not zeros")
        elif np.all(np.isfinite(dead)) and not _near(dead, right[..., 0, :], case):
            if not _is_average(dead, case):
                return None
            seen.add("a query that may look at nothing gets an average, not zeros: masked logits are finite")
        elif not np.all(np.isfinite(dead)):
            return None
    if len(seen) != 1:
        return None
    switch = DeadRows(seen.pop())
    if "average" not in switch.says:
        return switch
    moderate = [switch.avoid(case) for case in cases]
    small = any(_agrees(op, case) and not _agrees(op, _with_logits(case, FILLED), like=case) for case in moderate)
    return None if small else replace(switch, finite=True)


def _is_average(dead: np.ndarray, case: Case) -> bool:
    """Whether a row may be an average: weights sum to 1; outputs lie within the values, where these are known."""
    if "s" in case:
        return np.allclose(np.sum(dead, axis=-1), 1)
    if "v" in case:
        low, high = np.min(case["v"], axis=-2) - 1e-6, np.max(case["v"], axis=-2) + 1e-6
        return bool(np.all((dead >= low) & (dead <= high)))
    return True


def _logits(given: Case) -> float:
    """A bound on the logits: of softmax, of attention, or of a layer that projects its queries and keys."""
    if "s" in given:
        return _size(given["s"])
    if "q" in given:
        return _size(given["q"]) * _size(given["k"]) * math.sqrt(given["q"].shape[-1])
    x, memory = given["x"], given.get("memory", given["x"])
    return _size(x @ given["W_q"]) * _size(memory @ given["W_k"]) * math.sqrt(given["W_q"].shape[1])


def _with_logits(case: Case, size: float) -> Case:
    """The case with queries, or logits, scaled so that the logits have this size."""
    name = next(name for name in ("s", "q", "W_q") if name in case)
    factor = case[name].dtype.type(size / max(_logits(case), 1e-3))
    return case | {name: case[name] * factor}


def _size(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0))


RELU_SLOPE = "the gradient of relu at 0 is {:g}, not 0"


def _kink(op: Subject) -> Switch | None:
    x = np.array([-1.0, 0.0, 1.0])
    dx = op.gradients({"x": x}, np.ones(3))["x"]
    if dx.shape == (3,) and dx[0] == 0 and 0 < dx[1] <= 1 and dx[2] == 1:
        return OtherGradient(RELU_SLOPE.format(dx[1]), lambda case: case["x"] == 0)
    return None


def _inner_kink(op: Subject) -> Switch | None:
    """The slope of relu in a feed-forward network, from one hidden unit that is exactly 0."""
    one = np.ones((1, 1))
    case = {"x": one, "W_1": one, "b_1": -np.ones(1), "W_2": one, "b_2": np.zeros(1)}
    slope = float(np.ravel(op.gradients(case, one)["x"])[0])
    if 0 < slope <= 1:
        return OtherGradient(RELU_SLOPE.format(slope), lambda case: case["x"] @ case["W_1"] + case["b_1"] == 0)
    return None


def _tanh_form(op: Subject) -> Switch | None:
    if "approximate" not in op.lacks:
        return None
    cases = [widened(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) | {"approximate": False} for seed in range(4)]
    errors = [
        max(_error(op.outputs(**case)[0], _oracle(op, case | {"approximate": tanh})) for case in cases)
        for tanh in (False, True)
    ]
    if errors[1] < max(1e-6, _fine(op)) < errors[0]:
        return FixedArgument("it computes the tanh form", "approximate", True, False)
    return None


def _direction(op: Subject) -> Switch | None:
    """Whether an implementation without an argument `causal` does what the library does for the other value of it."""
    default = op.causal
    if default is None:
        return None
    drawn = (op.spec.case(CaseDrawer.seeded(seed, ((2,),))) for seed in range(200))
    square = (op.fit(case) for case in drawn if case["causal"] and case["q"].shape[-2] > 1)  # as many keys as queries
    cases = list(itertools.islice(square, 4))
    if any(_agrees(op, case | {"causal": default}) for case in cases):
        return None
    op.causal = not default
    if all(_agrees(op, case | {"causal": not default}) for case in cases):
        return Switch("it looks at all keys" if default else "it looks at earlier keys alone")
    op.causal = default
    return None


def _beta2(op: Subject) -> Switch | None:
    """β₂ = 0.999, as in the paper and in PyTorch, where SASRec has 0.98."""
    case, defaults = op.spec.case(CaseDrawer.seeded(0)), next(p for p in op.spec.properties if p.name == "defaults")
    with contextlib.suppress(Violation):
        defaults.holds(op, **copied(case))
        return None
    other = OtherDefault("beta2 is 0.999 by default", "beta2", 0.999)
    op.conventions.append(other)
    try:
        defaults.holds(op, **copied(case))
    finally:
        op.conventions.remove(other)
    return other


RANKS: dict[tuple[float, ...], str] = {
    (2, 2): "before", (3, 3): "after", (2, 3): "by position among", (3, 2): "by position among"
}  # fmt: skip


def _ties(op: Subject) -> Switch | None:
    """Of three ranked items the second and the third have one score: the ranks of both, by their NDCG."""
    scores, metric = np.array([3.0, 2, 2, 1]), op.other("ndcg")
    gains = [float(np.ravel(metric(scores.copy(), target, 4))[0]) for target in range(4)]
    ranks = [round(2 ** (1 / gain) - 1, 6) if gain > 0 else math.inf for gain in gains]
    if (ranks[0], ranks[3]) != (1, 4) or tuple(ranks[1:3]) not in RANKS:
        return None
    return Ties(f"a target ranks {RANKS[tuple(ranks[1:3])]} items of its score")


class Wide(Switch):
    """np.sqrt(d) is a float64, and NumPy 2 makes float64 of every product with it."""

    def outputs(self, given: Case, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_narrowed(given, y) for y in outputs)

    def gradients(self, case: Case, named: Case) -> Case:
        return {name: _narrowed(case, g) for name, g in named.items()}


def _narrowed(given: Case, y: Any) -> Any:
    dtypes = {x.dtype for x in given.values() if is_float_array(x)}
    wide = getattr(y, "dtype", None) == np.float64 and dtypes == {np.dtype(np.float32)}
    return np.asarray(y, np.float32) if wide else y


def _widens(op: Subject) -> Switch | None:
    drawn = (op.fit(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) for seed in range(40))
    single = (case for case in drawn if {x.dtype for x in case.values() if is_float_array(x)} == {np.dtype(np.float32)})
    cases = list(itertools.islice(filter(op.offers, single), 4))
    results = [np.asarray(op.outputs(**case)[0]) for case in cases]
    agree = all(_near(y, _oracle(op, case), case) for y, case in zip(results, cases, strict=True))
    if cases and agree and all(y.dtype == np.float64 for y in results):
        return Wide("float32 arrays give float64 results")
    return None


def _padding_row(op: Subject) -> Switch | None:
    E = np.arange(12.0).reshape(4, 3) + 1
    dE = op.gradients({"ids": np.arange(4), "E": E}, np.ones((4, 3)))["E"]
    padding = [row for row in range(4) if not np.any(dE[row])]
    if len(padding) == 1 and np.all(np.delete(dE, padding, axis=0) == 1):
        says = f"row {padding[0]} is padding, and has no gradient"
        return OtherGradient(says, lambda case: np.asarray(case["ids"]) == padding[0])
    return None


class ScaledInEvaluation(Switch):
    def result(self, given: Case, y: Any) -> Any:
        return y / (1 - given["rate"])

    def gradients(self, case: Case, named: Case) -> Case:
        return {name: g / (1 - case["rate"]) for name, g in named.items()}


def _scaled_in_evaluation(op: Subject) -> Switch | None:
    x, keep = np.array([1.0, -2.0, 4.0]), np.array([True, False, True])
    if np.allclose(op(x, keep, 0.25), x * keep) and np.allclose(op(x, None, 0.25), 0.75 * x):
        return ScaledInEvaluation("it scales by 1 - rate in evaluation, not by 1 / (1 - rate) in training")
    return None


KEPT_OUTSIDE = ("mean_zero", "tokens_apart", "gain_and_shift", "constant_token")  # hold wherever eps is added
EPS = (1e-3, 1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)


def _fixed_eps(op: Subject) -> Switch | None:
    """The value of eps in an implementation, of any kind, that has no argument for it."""
    default = op.signature.parameters["eps"].default
    if "eps" not in op.lacks:
        return None
    cases = [widened(op.spec.case(CaseDrawer.seeded(seed, ((2,),)))) | {"eps": default} for seed in range(6)]
    cases = [case | {"x": 0.01 * case["x"]} for case in cases]  # small, so that eps matters
    for eps in (default, *EPS):
        if all(_error(op.outputs(**case)[0], _oracle(op, case | {"eps": eps})) <= _fine(op) for case in cases):
            says = f"eps is {eps:g}, and cannot be given"
            return None if eps == default else FixedArgument(says, "eps", eps, default)
    return None


def _eps(op: Subject) -> Switch | None:
    """The place of eps, and its value where it is no argument. If eps is outside the root, `op.spec` is replaced."""
    x, ones, zeros = np.array([[0.011, 0.013, -0.02, 0.004]]), np.ones(4), np.zeros(4)
    fixed = "eps" in op.lacks
    for form, eps in itertools.product((oracles.layer_norm, eps_outside), (1e-5, *EPS) if fixed else (1e-3,)):
        if _error(op(x, ones, zeros, *(() if fixed else (eps,))), form(x, ones, zeros, eps)[0]) <= _fine(op):
            break
    else:
        return None
    where = ""
    if form is eps_outside:
        where = "eps is added to the standard deviation, not to the variance"
        ours = SimpleNamespace(layer_norm=eps_outside, layer_norm_backward=eps_outside_backward)
        kept = [p for p in op.spec.properties if p.name in KEPT_OUTSIDE]
        op.spec = replace(op.spec, oracle=eps_outside, ours=lambda: ours, properties=kept)
    if fixed and (eps != 1e-5 or where):
        says = f"{f'{where}, and' if where else 'eps'} is {eps:g}, and cannot be given"
        return FixedArgument(says, "eps", eps, 1e-5)
    return Switch(where) if where else None


def eps_outside(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """y = γ (x - mean) / (σ + eps) + β."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    rstd = 1 / (np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True)) + x.dtype.type(eps))
    return centred * rstd * gamma + beta, centred * rstd, rstd


def eps_outside_backward(dy: Any, x: Any, gamma: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """dx = rstd (g - mean(g) - x_hat mean(g x_hat) / (rstd σ)), with g = dy γ and rstd = 1 / (σ + eps)."""
    _, x_hat, rstd = eps_outside(x, gamma, gamma, eps)
    sigma = 1 / rstd - x.dtype.type(eps)
    g = dy * gamma
    along = np.mean(g * x_hat, axis=-1, keepdims=True) / np.where(sigma > 0, rstd * sigma, 1)
    dx = rstd * (g - np.mean(g, axis=-1, keepdims=True) - x_hat * along)
    tokens = (-1, x.shape[-1])
    return dx, np.sum((dy * x_hat).reshape(tokens), axis=0), np.sum(dy.reshape(tokens), axis=0)


_FINDERS: dict[str, Callable[[Subject], Switch | None]] = {
    "mask": _mask,
    "dead rows": _dead_rows,
    "kink": _kink,
    "inner kink": _inner_kink,
    "scale": _scaled_in_evaluation,
    "tanh": _tanh_form,
    "causal": _direction,
    "wide": _widens,
    "beta2": _beta2,
    "ties": _ties,
    "padding": _padding_row,
    "eps outside": _eps,
    "eps": _fixed_eps,
}


def _drawn(op: Subject, wanted: Callable[[np.ndarray], bool]) -> Iterator[Case]:
    """At most six cases that `op` takes, with a mask that is `wanted`."""
    drawn = (op.fit(op.spec.case(CaseDrawer.seeded(seed))) for seed in range(400))
    masked = (case for case in drawn if isinstance(case["mask"], np.ndarray) and wanted(case["mask"]))
    return itertools.islice(filter(op.offers, masked), 6)


def _oracle(op: Subject, case: Case) -> Any:
    return by_loops(op.spec, case)[0]


def _agrees(op: Subject, case: Case, given: Case | None = None, like: Case | None = None) -> bool:
    """Whether `op(given)` is the oracle's result for `case`, up to the rounding of `like`; both default to `case`.

    A call that raises does not agree.
    """
    try:
        with np.errstate(all="ignore"):
            y = np.asarray(op.outputs(**(case if given is None else given))[0])
    except Violation:
        return False
    return y.dtype.kind == "f" and _near(y, _oracle(op, case), like or case)


def _near(y: Any, right: Any, case: Case) -> bool:
    size = largest(*filter(is_float_array, case.values()))
    return _error(y, right) <= 100 * rounding(np.float32, 64, size**2)


def _fine(op: Subject) -> float:
    """The error up to which two results in the subject's dtype are one formula's."""
    return 1e-5 if op.spec.dtype == np.float32 else 1e-9


def _error(y: Any, right: Any) -> float:
    """The largest difference of two results; infinite where their shapes differ."""
    if np.shape(y) != np.shape(right):
        return math.inf
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(np.asarray(y, np.float64) - right), initial=0))
