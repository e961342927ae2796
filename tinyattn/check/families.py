"""Properties that many kinds share; a spec adds each family in one line.

    states = SpecBuilder("rms_norm")
    normaliser(states)

A family takes the spec's builder and what differs between kinds: the names of arguments; `of`, which turns a drawn
case into one that the property is about; `name`, for a kind with two properties of one family. Expected values come
from the spec's oracle, tolerances from its `scale`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import by_loops, tolerance
from .property import Case, close, demand, largest, same_bits, unmoved
from .subject import Subject

LARGE = 1024  # a power of two: products with it are exact, and what is clipped shows


def elementwise(states: Any) -> None:
    """For a function of each entry of `x` alone."""
    states.law("entry_by_entry", "rounding", "every entry is computed alone, by one rule",
               lambda op, c: (op(**c), op(**c(x=c.x.reshape(-1)[::-1].copy()))[::-1].reshape(c.x.shape)), what="y ",
               hint="Is some axis treated differently?")  # fmt: skip


def linear_in(
    states: Any, argument: str, of: Callable[[Case], Case] = dict, name: str = "", says: str = "", hint: str = ""
) -> None:
    """For a function whose first output is linear in `argument`."""

    def sides(op: Subject, c: Any) -> Any:
        x, two, three = c[argument], *(c[argument].dtype.type(number) for number in (2, 3))
        mixed, y = op(**c | {argument: two * x - three * np.cos(x)}), np.asarray(op(**c), float)
        yield mixed, 2 * y - 3 * np.asarray(op(**c | {argument: np.cos(x)}), float)
        yield op(**c | {argument: LARGE * x}), LARGE * y, LARGE * 5 * tolerance(op.spec, c), f"for {LARGE} a, entry "

    states.law(name or f"linear_in_{argument}", "rounding", says or f"the result is linear in {argument}", sides,
               of=of, times=5, what="the result for 2 a - 3 b: entry ",
               hint=hint or f"Is anything added or clipped? Does the factor of {argument} depend on {argument}?")


def tokens_apart(states: Any, name: str = "tokens_apart") -> None:
    """For a function of tokens (..., d) in which none sees another."""

    @states("exact",
            "a token's result does not depend on any other token, and equal tokens have equal results",
            hint="Does one token change with its neighbour?", gravity="leak", name=name)  # fmt: skip
    def apart(op: Subject, **case: Any) -> None:
        d = case["x"].shape[-1]
        rows = np.concatenate([case["x"].reshape(-1, d)[:3], np.ones((3, d), case["x"].dtype)])
        other = rows.copy()
        other[1:] = other[1:] * 3 + np.arange(d, dtype=rows.dtype)
        first = op(**case | {"x": rows})
        moved = op(**case | {"x": other})
        same_bits(moved[:1], first[:1], "the first token's result", largest(moved))
        unmoved(op(**case | {"x": rows[[0, 0]]})[1], first[0], tolerance(op.spec, case), "the second of equal tokens ")


def batch_apart(states: Any) -> None:
    """For a function of sequences (..., n, d) in which tokens of one sequence may see each other."""

    @states("exact", "an entry of the batch does not depend on the others",
            hint="Which axes does each sum run over?", gravity="leak")  # fmt: skip
    def batch_apart(op: Subject, **case: Any) -> None:
        first = case["x"].reshape(-1, *case["x"].shape[-2:])[0]
        one, other = np.stack([first, 2 * first]), np.stack([first, 3 * first + 1])
        moved = op(**case | {"x": other})
        same_bits(moved[:1], op(**case | {"x": one})[:1], "the first entry", largest(moved))


def of_sequences(states: Any, hint: str = "") -> None:
    """For a layer of tokens `x` whose outputs depend on no other entry of the batch and on no masked token."""
    batch_apart(states)
    causal(states, "x", of=lambda case: case | {"mask": np.tri(case["x"].shape[-2], dtype=bool)}, hint=hint)


def first_blind(c: Any) -> Any:
    """The call with a mask that blinds the first query: of `q` to `k`, or of `x` to a `memory` or to `x`."""
    queries, keys = (c.q, c.k) if "q" in c else (c.x, c.get("memory", c.x))
    return c(mask=np.repeat(np.arange(queries.shape[-2])[:, None] > 0, keys.shape[-2], axis=1))


def blind_queries(states: Any, hint: str) -> None:
    """For attention in which a query may look at nothing: of queries `q`, or of tokens `x`."""
    says = "the output of a query that may look at nothing is not 0"
    states.law("nothing_to_look_at", "exact", "a query that may look at nothing gets zeros",
               lambda op, c: (not np.any(op(**c)[..., 0, :]), says), "extremes", of=first_blind, hint=hint)  # fmt: skip


def onto_itself(case: Case) -> Case:
    """A case of attention, cut to as many keys as queries."""
    n = min(case["q"].shape[-2], case["k"].shape[-2])
    return case | {name: case[name][..., :n, :].copy() for name in "qkv"}


def causal(
    states: Any, *moved: str, of: Callable[[Case], Case] = dict, hint: str = "",
    read: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> None:  # fmt: skip
    """For a function of sequences in which no output sees a later token; `moved` are the arguments with tokens.

    `read` selects the part of the output that callers use, if they do not use all of it.
    """

    @states("exact", "no later token changes a single bit of an earlier output",
            hint=hint or "mask[i, j] = may query i look at key j: rows are queries.", gravity="leak")  # fmt: skip
    def causal(op: Subject, **case: Any) -> None:
        case = of(case)
        y = read(op(**case))
        for t in range(1, y.shape[-2]):
            later = {name: case[name].copy() for name in moved}
            for x in later.values():
                x[..., t:, :] += np.arange(1, x.shape[-1] + 1, dtype=x.dtype)
            other = read(op(**case | later))
            what = f"with tokens from {t} on changed, the output "
            same_bits(other[..., :t, :], y[..., :t, :], what, largest(other))


def averages(states: Any, seen: Callable[[Case], np.ndarray]) -> None:
    """For a function whose outputs are weighted means of the values where `seen(case)`, (..., n, m), is True."""

    states.law("constant_values", "rounding",
               "the mean of equal values is that value, and is 0 for a query that may look at nothing",
               lambda op, c: (out := op(**c(v=np.ones_like(c.v))),
                              np.broadcast_to(np.any(seen(c), axis=-1)[..., None].astype(float), out.shape)),
               what="out", hint="The weights of a query sum to 1: divide by the sum of the same weights.")  # fmt: skip
    linear_in(states, "v", name="linear_in_values", hint="The weights must not depend on the values.")


def softmax_like(states: Any, allowed: Callable[[Case], np.ndarray]) -> None:
    """For a function that turns each row of `s` into weights of the entries where `allowed(case)` is True."""

    states.law("rows_sum_to_one", "rounding", "the weights of a row that may look at something sum to 1",
               lambda op, c: (np.sum(op(**c), axis=-1), np.any(allowed(c), axis=-1).astype(c.s.dtype)),
               what="the sum of row ", hint="Sum a row of your weights.")  # fmt: skip
    states.law("zero_where_masked", "exact", "weights are never negative, and exactly 0 where the mask forbids",
               lambda op, c: [(np.all((p := op(**c)) >= 0), "a weight is negative or NaN"),
                              (np.all(p[~allowed(c)] == 0), "an entry that the mask forbids has weight")],
               hint="exp of a large negative number is small; only exp(-inf) is 0.", gravity="leak")  # fmt: skip
    states.law("shift", "rounding", "adding one number to a whole row of logits changes nothing",
               lambda op, c: (op(**c(s=c.s + 3)), op(**c)), times=2, what="the weight ",
               hint="exp(s + c) = exp(s) exp(c): numerator and denominator share the factor.")  # fmt: skip


def weighted_mean(states: Any, *arrays: str) -> None:
    """For a loss Σ w loss / Σ w; `arrays` are its arguments, the first one with an entry for each position."""

    @states("rounding", "multiplying all weights by a constant changes nothing, and positions of weight 0 do not count",
            hint="The loss is Σ w loss / Σ w: what do you divide by?")  # fmt: skip
    def weights_are_shares(op: Subject, **case: Any) -> None:
        w = np.ones_like(case[arrays[0]]) if case["weights"] is None else case["weights"]
        expected, limit = op(**case | {"weights": w}), 3 * tolerance(op.spec, case)
        for size in (4, 1 / 64):
            close(op(**case | {"weights": (w * size).astype(w.dtype)}), expected, limit, "the loss")
        more = {name: case[name] if name == "targets" else 3 * case[name] + 1 for name in arrays}
        longer = {name: np.concatenate([case[name], x]) for name, x in more.items()}
        longer["weights"] = np.concatenate([w, np.zeros_like(w)])
        close(op(**case | longer), expected, limit, "with positions of weight 0 added, the loss")


def normaliser(states: Any, of: Callable[[Case], Case] = dict) -> None:
    """For a function that divides each token, or each feature, by its size, with `eps` added to the square."""

    states.law("scaling", "rounding", "scaling a token by a > 0 and eps by a² changes nothing",
               lambda op, c: (op(**c(x=4 * c.x, eps=16 * c.eps)), op(**c)), of=of, what="y",
               hint="Where does eps stand?")

    @states("rounding", "tokens of size 1,000,000 and of size 1e-6 are normalised alike, but for eps", "extremes",
            hint="Is eps added to the mean square, and is it the argument's value?")  # fmt: skip
    def large_and_small(op: Subject, **case: Any) -> None:
        whole = np.round(8 * np.cos(np.arange(case["x"].size))).reshape(case["x"].shape)
        for size in (2.0**20, 2.0**-20):
            scaled = case | {"x": (whole * size).astype(case["x"].dtype)}
            close(op(**scaled), by_loops(op.spec, scaled)[0], tolerance(op.spec, scaled), "y")


def random(states: Any, draw: Callable[..., np.ndarray]) -> None:
    """For a function that draws boolean masks; `draw(op, generator, shape, rate)` calls it."""

    @states("exact", "equal generators draw equal masks, others different ones, and no two rows share a mask",
            hint="Compare the masks of two examples of one batch, and of two steps.")  # fmt: skip
    def masks_differ(op: Subject, **case: Any) -> None:
        masks = [np.asarray(draw(op, np.random.default_rng(seed), (3, 4, 60), case["rate"])) for seed in (3, 3, 4)]
        demand(masks[0].shape == (3, 4, 60), f"the mask has shape {masks[0].shape}, expected (3, 4, 60)")
        close(masks[0], masks[1], 0, "an equal generator's mask")
        demand(not np.array_equal(masks[0], masks[2]), "two generators drew the same mask")
        rows = list(masks[0].reshape(12, 60))
        demand(len({row.tobytes() for row in rows}) == len(rows), "two rows of a mask are alike")
        columns = np.moveaxis(masks[0], -1, 0).reshape(60, 12)
        demand(np.any(columns != columns[:1]), "all columns of a mask are alike")
