"""A step of Adam and of AdamW, in place; and a schedule of the learning rate: a warm-up, then a fall."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import adapters, oracles
from ..cases import copied
from ..property import Violation, close, demand, largest, rounding, same_bits
from ..spec import Form, Spec
from ..subject import NotOfferedError
from ..switch import FixedArgument, OtherDefault, Rescaled
from .builder import CaseDrawer, SpecBuilder, Subject

adam = SpecBuilder("adam")
DEFAULTS = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-8}


class Moments(NamedTuple):
    m: np.ndarray
    v: np.ndarray


def adam_case(draw: CaseDrawer) -> dict[str, Any]:
    n = draw.size(1, 9)
    g = draw.array(n) * draw.dtype(draw.choose((1.0, 0.01, 30.0)))
    step = draw.choose((1, 2, 3, 10, 1000))
    fresh = step == 1
    m = np.zeros_like(g) if fresh else draw.array(n)
    v = np.zeros_like(g) if fresh else np.square(draw.array(n)) + m * m
    options = {"lr": draw.choose((1e-3, 0.1)), "beta1": draw.choose((0.9, 0.5)), "beta2": draw.choose((0.999, 0.98)),
               "eps": draw.choose((1e-8, 1e-3))}
    return {"vector": draw.array(n), "gradient": g, "moments": Moments(m, v), "step": step, **options}


@adam("exact", "vector and moments are written in place, in their dtype; the gradient keeps its bits", "shapes",
        hint="vector -= ... changes the caller's array; vector = vector - ... does not.", gravity="contract")
def adam_in_place(op: Subject, **case: Any) -> None:
    stepped = after_step(op, case)
    same_bits(stepped["gradient"], case["gradient"], "the gradient passed in")
    both = ((x["vector"], *x["moments"]) for x in (case, stepped))
    for name, old, new, expected in zip(("vector", "m", "v"), *both, by_loops(oracles.adam, case), strict=True):
        moves = np.max(np.abs(expected - old)) > 1e-4 * largest(old)
        demand(np.any(new != old) or not moves, f"{name} was not written to")
    vector, gradient, m, v = (np.repeat(x, 2)[::2] for x in (case["vector"], case["gradient"], *case["moments"]))
    op(**case | {"vector": vector, "gradient": gradient, "moments": Moments(m, v)})
    close(vector, stepped["vector"], within(case, largest(case["vector"])), "a strided vector")
    close(m, stepped["moments"][0], within(case, largest(case["gradient"], case["moments"][0])), "a strided m")


@adam("exact", "equal steps give equal results", "shapes", hint="Is anything remembered?", gravity="contract")
def repeatable(op: Subject, **case: Any) -> None:
    first = after_step(op, case)
    after_step(op, op.fit(case | {"step": case["step"] + 1}))
    same_bits(after_step(op, case)["vector"], first["vector"], "the second call's vector")


adam.law("oracle", "rounding",
        "a step does what plain loops do: m̂ / (√v̂ + eps), both moments corrected for their start",
        lambda op, c: like_loops(op, oracles.adam, c), "oracle",
        hint="Write down m, v, m̂ and v̂ for one number and two steps.")


def like_loops(op: Subject, loops: Callable[..., Any], case: dict[str, Any], size: int = 1) -> list[Any]:
    """The sides of a law: what a step gives, and what plain loops give."""
    stepped = after_step(op, case)
    vector, m, v = by_loops(loops, case)
    ratio = largest(np.abs(m) / np.sqrt(v + 1e-30)) if len(m) else 1.0
    return [
        (stepped["moments"][0], m, within(case, 4 * largest(m, case["gradient"])), "m"),
        (stepped["moments"][1], v, within(case, 4 * largest(v, case["gradient"]) ** 2), "v"),
        (stepped["vector"], vector,
         within(case, size * largest(case["vector"]) + 100 * case["lr"] * min(ratio, 1e3)), "vector"),
    ]


@adam("rounding", "the first step has size lr, whatever the gradient's size: lr · sign(g)",
        hint="m and v start at 0 and are too small at first: by how much?")
def first_step(op: Subject, **case: Any) -> None:
    for size in (1.0, 1e-3):
        stepped = after_step(op, _fresh(case, np.sign(case["gradient"]) * size) | {"eps": 1e-20})
        moved = (stepped["vector"] - case["vector"]).astype(float)
        atol = within(case, largest(case["vector"]) + 10 * case["lr"])
        close(moved, -case["lr"] * np.sign(case["gradient"]), atol, "the step")


@adam("rounding", "a constant gradient moves every entry by lr at every step",
        hint="At step t both means are too small by a factor of 1 - βᵗ. Is t right in both corrections?")
def constant_gradient(op: Subject, **case: Any) -> None:
    run = _fresh(case, np.full_like(case["vector"], 0.5))
    for step in range(1, 6):
        before = run["vector"].copy()
        op(**run | {"step": step, "eps": 1e-20})
        atol = within(case, largest(before) + 20 * case["lr"])
        close((run["vector"] - before).astype(float), np.full(len(before), -case["lr"]), atol, f"step {step}")


@adam("rounding", "multiplying all gradients and eps by a constant changes no step",
        hint="m and √v have the gradient's unit, and so must what is added to √v.")
def scale_free(op: Subject, **case: Any) -> None:
    steps = []
    for size in (1.0, 2.0**-12, 2.0**12):
        run = _fresh(case, case["gradient"] * case["gradient"].dtype.type(size))
        for step in (1, 2, 3):
            op(**run | {"step": step, "eps": 1e-2 * size})
        steps.append((run["vector"] - case["vector"]).astype(float))
    atol = within(case, largest(case["vector"]) + 30 * case["lr"])
    close(steps[1], steps[0], atol, "the step for small gradients")
    close(steps[2], steps[0], atol, "the step for large gradients")


adam.law("no_gradient", "exact", "if all gradients are 0, nothing moves",
        lambda op, c: (after_step(op, _fresh(c, np.zeros_like(c.gradient)))["vector"], c.vector),
        bits=True, what="the vector", hint="Is anything added besides the gradient?")
adam.law("defaults", "rounding", "the defaults are lr 1e-3, beta1 0.9, beta2 0.98, eps 1e-8",
        lambda op, c: has_defaults(op, c, DEFAULTS),
        hint="SASRec's beta2 is 0.98; the 0.999 of the Adam paper is another default.")


def has_defaults(op: Subject, case: dict[str, Any], named: dict[str, float]) -> Any:
    """The sides of a law: a step without these arguments, and one with them."""
    case = op.fit(case | {"step": 2})
    named = {n: x for n, x in named.items() if n not in _of(op, FixedArgument)}
    named |= {other.name: other.value for other in op.conventions if isinstance(other, OtherDefault)}
    rescaled = (other for other in op.conventions if isinstance(other, Rescaled))  # their defaults are rescaled, too
    named |= {other.name: named[other.name] / other.factor(case | named) for other in rescaled}
    implied = after_step(op, {name: x for name, x in case.items() if name not in named})
    return implied["vector"], after_step(op, case | named)["vector"], within(case, 1e-3), "vector"


@adam("rounding", "a gradient g of 1e-9 still moves the vector by lr g / (g + eps)", "extremes",
        hint="eps is added to √v̂, after the correction: multiply all gradients by 1e-9 and look at the step.")
def tiny_gradient(op: Subject, **case: Any) -> None:
    if case["vector"].dtype != np.float64:
        return
    for size in (1e-9, 1e-8, 1e-5):
        start = _fresh(case, np.full_like(case["vector"], size))
        start = op.fit(start | {"vector": np.zeros_like(case["vector"]), "eps": 1e-8})
        stepped, expected = after_step(op, start)["vector"], -case["lr"] * size / (size + start["eps"])
        close(stepped / case["lr"], np.full(len(stepped), expected / case["lr"]), 1e-9, "the step / lr")


adam.law("late", "rounding", "steps 3,000 and 100,000 agree with plain loops",
        lambda op, c: (part for t in (3_000, 100_000) for part in like_loops(op, oracles.adam, op.fit(c(step=t)))),
        "extremes", hint="βᵗ tends to 0, slowly for β = 0.999, and is never cut off.")
adam.law("long_vector", "rounding", "all 300 entries are updated",
        lambda op, c: like_loops(op, oracles.adam, op.fit(c | _long())), "extremes", once=True,
        hint="Which entries does the loop reach?")


def _long() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    moments = Moments(rng.standard_normal(300), rng.random(300) + 0.1)
    return {"vector": rng.standard_normal(300), "gradient": rng.standard_normal(300), "moments": moments, "step": 5}


def adam_observe(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """Vector and moments after one step, and after a second one with another gradient."""
    passed = {n: x for n, x in DEFAULTS.items() if n in _of(op, OtherDefault)}
    passed |= {n: case[n] for n in _of(op, FixedArgument)}
    run, implied = copied(case), copied({n: x for n, x in case.items() if n not in DEFAULTS} | passed)
    seen: dict[str, Any] = {}
    try:
        op(**implied)
        op(**run)
        seen |= {"vector": run["vector"].copy(), "m": run["moments"][0].copy(), "v": run["moments"][1].copy()}
        seen |= {"implied": implied["vector"], "changed": not np.array_equal(run["gradient"], case["gradient"])}
        run["gradient"] = np.cos(case["gradient"]).astype(case["vector"].dtype)
        with contextlib.suppress(NotOfferedError):  # its eps depends on the step
            op(**run | {"step": case["step"] + 1})
            seen |= {"later": run["vector"].copy(), "later v": run["moments"][1].copy()}
    except Violation as violation:
        overflow = isinstance(violation.__cause__, ArithmeticError)
        seen["forward"] = "overflow" if overflow else f"raises {type(violation.__cause__).__name__}"
    return seen


def _of(op: Subject, kind: Any) -> set[str]:
    """The arguments in which conventions of this kind differ."""
    return {other.name for other in op.conventions if isinstance(other, kind)}


def by_loops(loops: Callable[..., Any], case: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """The new vector, m and v, in float64."""
    options = {name: x for name, x in case.items() if name not in ("vector", "gradient", "moments", "step")}
    vector, gradient, m, v = (x.astype(float) for x in (case["vector"], case["gradient"], *case["moments"]))
    return loops(vector, gradient, m, v, case["step"], **options)


def in_place_of(loops: Callable[..., Any]) -> Callable[..., None]:
    """An optimiser that writes the results of `loops` into its arguments."""

    def step(vector: Any, gradient: Any, moments: Any, step: int, **options: Any) -> None:
        case = {"vector": vector, "gradient": gradient, "moments": moments, "step": step, **options}
        for x, new in zip((vector, *moments), by_loops(loops, case), strict=True):
            x[...] = new

    return step


def after_step(op: Subject, case: dict[str, Any]) -> dict[str, Any]:
    """A copy of the case, after one step on it."""
    stepped = copied(case)
    op(**stepped)
    return stepped


def _fresh(case: dict[str, Any], gradient: np.ndarray) -> dict[str, Any]:
    """The first step of a run with this gradient."""
    zeros = Moments(np.zeros_like(case["vector"]), np.zeros_like(case["vector"]))
    return case | {"vector": case["vector"].copy(), "gradient": gradient, "moments": zeros, "step": 1}


def within(case: dict[str, Any], size: float) -> float:
    return rounding(case["vector"].dtype, 1, size)


ADAM = adam.spec(
    "m = β₁ m + (1 - β₁) g, v = β₂ v + (1 - β₂) g², vector -= lr · m̂ / (√v̂ + eps), m̂ = m / (1 - β₁ᵗ), v̂ = v / (1 - β₂ᵗ)",
    "adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8): one step, counted from 1, written "
    "into vector (P,) and moments = (m, v), which can also be reached as moments.m and moments.v",
    "the gradient keeps every bit, and nothing is remembered outside the moments",
    "float32 or float64, all arrays of a call alike",
    "an error of 1e-8 in float64 is an error",
    case=adam_case, outputs=("nothing",), choices=("beta2", "eps hat"), common=False, observe=adam_observe,
    loops=(oracles.adam,), of_loops=in_place_of,
)


adamw = SpecBuilder("adamw")
HINT = "λ p is added to the step, beside m̂ / (√v̂ + eps), and not to the gradient."


def adamw_case(draw: CaseDrawer) -> dict[str, Any]:
    drawn = adam_case(draw)
    each = np.abs(draw.array(len(drawn["vector"])))
    return drawn | {"weight_decay": draw.choose((0.01, 0.5, 0.0, each))}


adamw.law("in_place", "exact", "vector and moments are written in place, in their dtype; the gradient keeps its bits",
        lambda op, c: [
            ((stepped := after_step(op, c))["gradient"], c.gradient, None, "the gradient passed in"),
            (stepped["weight_decay"], c.weight_decay, None, "the decay passed in"),
        ], "shapes", bits=True, hint="vector -= ... changes the caller's array; vector = vector - ... does not.",
        gravity="contract")
adamw.law("oracle", "rounding", "a step does what plain loops do: p -= lr (λ p + m̂ / (√v̂ + eps))",
        lambda op, c: like_loops(op, oracles.adamw, c, size=4), "oracle", hint=HINT)


@adamw("rounding", "if all gradients are 0, a step multiplies entries by 1 - lr λ, and moments stay 0", hint=HINT)
def decay_alone(op: Subject, **case: Any) -> None:
    zeros = Moments(np.zeros_like(case["vector"]), np.zeros_like(case["vector"]))
    stepped = after_step(op, case | {"gradient": np.zeros_like(case["vector"]), "moments": zeros})
    left = (1 - case["lr"] * np.asarray(case["weight_decay"], float)) * case["vector"].astype(float)
    close(stepped["vector"], left, within(case, 4 * largest(case["vector"])), "the vector")
    same_bits(np.stack(stepped["moments"]), np.zeros((2, len(left)), case["vector"].dtype), "the moments")


adamw.law("defaults", "rounding", "the defaults are Adam's, and a decay of 0.01",
        lambda op, c: has_defaults(op, c, DEFAULTS | {"weight_decay": 0.01}),
        hint="torch has the same decay, and β₂ = 0.999.")

ADAMW = adamw.spec(
    "vector -= lr · (λ · vector + m̂ / (√v̂ + eps)), with Adam's m̂ and v̂",
    "adamw(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01): one step, "
    "counted from 1, written into vector (P,) and moments = (m, v), which can also be reached as moments.m and moments.v",
    "weight_decay is a number, or (P,): one for each entry",
    "the gradient keeps every bit, and nothing is remembered outside the moments",
    "float32 or float64, all arrays of a call alike",
    case=adamw_case, outputs=("nothing",), choices=("beta2", "decay alone", "eps hat"),
    forms=(Form("a weight_decay for each entry", lambda case: np.ndim(case.get("weight_decay", 0)) > 0),),
    common=False, observe=adam_observe, loops=(oracles.adamw,), of_loops=in_place_of,
)


schedule = SpecBuilder("schedule")
CURVES = ("a constant", "a line", "a cosine", "an inverse root")


def schedule_case(draw: CaseDrawer) -> dict[str, Any]:
    warmup = draw.choose((10, 16, 25, 40))
    return {"warmup": warmup, "steps": warmup + draw.choose((60, 100, 160))}


@schedule("exact", "a rate is one number, finite and not negative, and the same at every call", "shapes",
        hint="Is a counter kept between calls? The step is an argument.")
def one_number(op: Subject, warmup: int, steps: int) -> None:
    rates = _rates(op, warmup, steps)
    demand(np.all(np.isfinite(rates)), f"the rate of step {1 + int(np.argmin(np.isfinite(rates)))} is not finite")
    demand(np.all(rates >= 0), f"the rate of step {1 + int(np.argmin(rates))} is {np.min(rates):g}, below 0")
    for step in (steps, 1, warmup):
        close(_rate(op, step, warmup, steps), rates[step - 1], 0, f"at an equal call, the rate of step {step}")


schedule.law("warm_up", "rounding",
        "in the warm-up the rate is a straight line, from half of the peak or less up to the peak", lambda op, c: [
            (np.diff((rates := _of_the_peak(op, **c)[: c.warmup + 1])[: c.warmup - 1], n=2), np.zeros(c.warmup - 3),
             1e-6, "the bend of the warm-up at step 2 + "),
            (rates[0] <= 0.5 + 1e-6, f"the first rate is {rates[0]:.3g} of the peak, expected a half or less"),
            (max(rates[-2:]), 1.0, 1.01 / c.warmup,
             f"at the end of the warm-up, step {c.warmup}, the share of the peak"),
        ], hint="The share of the peak at step t is t / warmup: does the warm-up end at 1, without a jump?")


@schedule("rounding", "after the warm-up the rate never rises, and nowhere does it jump",
        hint="What does the fall begin with at step `warmup`? It goes on where the warm-up ended.")
def falls(op: Subject, warmup: int, steps: int) -> None:
    change = np.diff(_of_the_peak(op, warmup, steps))
    most, late = 1.5 / warmup + 3 / (steps - warmup), change[warmup:]
    demand(np.all(late <= 1e-6), f"the rate rises from step {warmup + 1 + int(np.argmax(late))} to the next")
    demand(np.all(np.abs(change) <= most), f"the rate jumps between steps {1 + int(np.argmax(np.abs(change)))} and the next, "
           f"by {np.max(np.abs(change)):.2g} of the peak")


@schedule("approximate", "after the warm-up the rate is constant, is √(warmup / t), or falls in a line or a cosine to the last rate, "
        "at once or after some steps at the peak; one step more or less is no error", "oracle", hint="How far along is step t? (t - warmup) / (steps - warmup). For another curve on purpose: --skip curve.")
def curve(op: Subject, warmup: int, steps: int) -> None:
    op.remembered["curve"] = f"after the warm-up it is {_nearest(op, warmup, steps)}"


schedule.law("twice_as_long", "approximate", "doubling the warm-up and the steps gives step 2 t the rate that step t had",
        lambda op, c: (
            _of_the_peak(op, 2 * c.warmup, 2 * c.steps)[1::2], _of_the_peak(op, **c),
            2 / c.warmup + 4 / (c.steps - c.warmup),
            "of twice as long a training, the share of the peak at step 2 + 2 · ",
        ), hint="Is a number of steps written into the code?")


@schedule("exact", "beyond the last step the rate does not rise and is not negative; the call may also raise", "extremes",
        hint="cos goes up again after π, and a line goes below 0: hold the last rate.")
def beyond(op: Subject, warmup: int, steps: int) -> None:
    last = _rate(op, steps, warmup, steps)
    for step in (steps + 1, steps + 7, 2 * steps, 3 * steps, 10 * steps):
        with contextlib.suppress(NotOfferedError):
            rate = _rate(op, step, warmup, steps, may_raise=True)
            rises = op.convention("end") is not None
            demand(rate >= -1e-12 and (rises or rate <= last + 1e-6),
                   f"the rate of step {step} of {steps} is {rate:.3g}, that of the last {last:.3g}")


@schedule("rounding", "without a warm-up the first rate is the peak", "extremes", hint="step / 0: divide by max(warmup, 1).")
def no_warm_up(op: Subject, warmup: int, steps: int) -> None:
    may_raise = _nearest(op, warmup, steps) == "an inverse root"         # it has no peak
    first = _rate(op, 1, 0, steps, may_raise)
    rates = [first, *(_rate(op, step, 0, steps, may_raise) for step in range(2, steps + 1))]
    if not may_raise:
        close(first / max(rates), 1.0, 3 / steps, "without a warm-up, the share of the peak at step 1")


def _nearest(op: Subject, warmup: int, steps: int) -> str:
    """The curve after the warm-up. Raises Violation if it is none of CURVES, up to one step more or less."""
    rates = _of_the_peak(op, warmup, steps)[warmup - 1 :]
    stable = int(np.flatnonzero(rates > 1 - 1e-6)[-1]) if np.any(rates > 1 - 1e-6) else 0
    begins = {name: 0 if name == "an inverse root" else min(stable, steps - warmup - 1) for name in CURVES}
    curves = {name: [oracles.curve(name, max(t, w), w, steps, float(rates[-1])) for t in range(warmup, steps + 1)]
              for name, w in ((name, warmup + begin) for name, begin in begins.items())}  # fmt: skip
    best = min(CURVES, key=lambda name: float(np.max(np.abs(rates - curves[name]))))
    errors = np.abs(rates - curves[best])
    worst = int(np.argmax(errors))
    if errors[worst] > 1.01 / warmup + 1.6 / (steps - warmup - begins[best]):
        raise Violation(f"the curve after the warm-up is none of {', '.join(CURVES)}; nearest is {best}: at step "
                        f"{warmup + worst} of {steps}, the share of the peak is off", rates[worst], curves[best][worst])  # fmt: skip
    return f"a constant, then {best}" if best in ("a line", "a cosine") and begins[best] > 1 else best


def _rates(op: Subject, warmup: int, steps: int) -> np.ndarray:
    return np.array([_rate(op, step, warmup, steps) for step in range(1, steps + 1)])


def _of_the_peak(op: Subject, warmup: int, steps: int) -> np.ndarray:
    rates = _rates(op, warmup, steps)
    demand(np.max(rates) > 0, "no rate is above 0")
    return rates / np.max(rates)


def _rate(op: Subject, step: int, warmup: int, steps: int, may_raise: bool = False) -> float:
    try:
        rate = np.asarray(op(step, warmup, steps))
    except Violation as violation:
        if may_raise and violation.__cause__ is not None:
            raise NotOfferedError(str(violation)) from None
        raise
    if rate.size != 1 or rate.dtype.kind not in "fiu":
        raise Violation(f"the rate of step {step} is {rate!r}, expected one number", sort="type")
    return float(rate.reshape(-1)[0])


SCHEDULE = schedule.spec(
    "rate(t) = peak · t / warmup up to t = warmup; then it falls in a line or a cosine, at once or after some steps at the peak, or as √(warmup / t), or it stays",
    "schedule(step, warmup, steps) -> a number: the learning rate, or its factor, of step 1, 2, ..., steps; the peak may be "
    "any number, and the last rate may be above 0. A schedule without an end ignores `steps`",
    "counting from 0 or from 1 is a choice: one step more or less is no error, and neither is a warm-up from above 0",
    "with warmup 0 the first rate is the peak; beyond the last step the rate does not rise",
    case=schedule_case, ours=adapters.Schedule, outputs=("rate",), choices=("end",), common=False,
)
