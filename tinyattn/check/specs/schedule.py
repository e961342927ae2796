"""A schedule of the learning rate: a warm-up, then a fall."""

import contextlib
from typing import Any

import numpy as np

from .. import adapters, oracles
from ..property import Violation, close, demand
from ..subject import NotOfferedError, Subject
from .builder import CaseDrawer, SpecBuilder

states = SpecBuilder("schedule")
CURVES = ("a constant", "a line", "a cosine", "an inverse root")


def case(draw: CaseDrawer) -> dict[str, Any]:
    warmup = draw.choose((10, 16, 25, 40))
    return {"warmup": warmup, "steps": warmup + draw.choose((60, 100, 160))}


@states("exact", "a rate is one number, finite and not negative, and the same at every call", "shapes",
        hint="Is a counter kept between calls? The step is an argument.")
def one_number(op: Subject, warmup: int, steps: int) -> None:
    rates = _rates(op, warmup, steps)
    demand(np.all(np.isfinite(rates)), f"the rate of step {1 + int(np.argmin(np.isfinite(rates)))} is not finite")
    demand(np.all(rates >= 0), f"the rate of step {1 + int(np.argmin(rates))} is {np.min(rates):g}, below 0")
    for step in (steps, 1, warmup):
        close(_rate(op, step, warmup, steps), rates[step - 1], 0, f"at an equal call, the rate of step {step}")


states.law("warm_up", "rounding",
        "in the warm-up the rate is a straight line, from half of the peak or less up to the peak", lambda op, c: [
            (np.diff((rates := _of_the_peak(op, **c)[: c.warmup + 1])[: c.warmup - 1], n=2), np.zeros(c.warmup - 3),
             1e-6, "the bend of the warm-up at step 2 + "),
            (rates[0] <= 0.5 + 1e-6, f"the first rate is {rates[0]:.3g} of the peak, expected a half or less"),
            (max(rates[-2:]), 1.0, 1.01 / c.warmup,
             f"at the end of the warm-up, step {c.warmup}, the share of the peak"),
        ], hint="The share of the peak at step t is t / warmup: does the warm-up end at 1, without a jump?")


@states("rounding", "after the warm-up the rate never rises, and nowhere does it jump",
        hint="What does the fall begin with at step `warmup`? It goes on where the warm-up ended.")
def falls(op: Subject, warmup: int, steps: int) -> None:
    change = np.diff(_of_the_peak(op, warmup, steps))
    most, late = 1.5 / warmup + 3 / (steps - warmup), change[warmup:]
    demand(np.all(late <= 1e-6), f"the rate rises from step {warmup + 1 + int(np.argmax(late))} to the next")
    demand(np.all(np.abs(change) <= most), f"the rate jumps between steps {1 + int(np.argmax(np.abs(change)))} and the next, "
           f"by {np.max(np.abs(change)):.2g} of the peak")


@states("approximate", "after the warm-up the rate is constant, is √(warmup / t), or falls in a line or a cosine to the last rate, "
        "at once or after some steps at the peak; one step more or less is no error", "oracle", hint="How far along is step t? (t - warmup) / (steps - warmup). For another curve on purpose: --skip curve.")
def curve(op: Subject, warmup: int, steps: int) -> None:
    op.remembered["curve"] = f"after the warm-up it is {_nearest(op, warmup, steps)}"


states.law("twice_as_long", "approximate", "twice as long a warm-up and training have the same rate at twice the step",
        lambda op, c: (
            _of_the_peak(op, 2 * c.warmup, 2 * c.steps)[1::2], _of_the_peak(op, **c),
            2 / c.warmup + 4 / (c.steps - c.warmup),
            "of twice as long a training, the share of the peak at step 2 + 2 · ",
        ), hint="Is a number of steps written into the code?")


@states("exact", "beyond the last step the rate neither rises nor is negative; it may raise", "extremes",
        hint="cos goes up again after π, and a line goes below 0: hold the last rate.")
def beyond(op: Subject, warmup: int, steps: int) -> None:
    last = _rate(op, steps, warmup, steps)
    for step in (steps + 1, steps + 7, 2 * steps, 3 * steps, 10 * steps):
        with contextlib.suppress(NotOfferedError):
            rate = _rate(op, step, warmup, steps, may_raise=True)
            rises = op.convention("end") is not None
            demand(rate >= -1e-12 and (rises or rate <= last + 1e-6),
                   f"the rate of step {step} of {steps} is {rate:.3g}, that of the last {last:.3g}")


@states("rounding", "without a warm-up the first rate is the peak", "extremes", hint="step / 0: divide by max(warmup, 1).")
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


SPEC = states.spec(
    "rate(t) = peak · t / warmup up to t = warmup; then it falls in a line or a cosine, at once or after some steps at the peak, or as √(warmup / t), or it stays",
    "schedule(step, warmup, steps) -> a number: the learning rate, or its factor, of step 1, 2, ..., steps; the peak may be "
    "any number, and the last rate may be above 0. A schedule without an end ignores `steps`",
    "counting from 0 or from 1 is a choice: one step more or less is no error, and neither is a warm-up from above 0",
    "with warmup 0 the first rate is the peak; beyond the last step the rate does not rise",
    case=case, ours=adapters.Schedule, outputs=("rate",), choices=("end",), common=False,
)
