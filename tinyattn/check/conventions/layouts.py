"""The order of entries in arrays (gates, pairs of rotary positions, Mamba's A), and the order of arguments."""

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..spec import Spec
from ..subject import Subject
from ..switch import Case, Switch
from .convention import convention, fitting

Move = Callable[[Any, Case], Any]  # (an array of a call, the call) -> the array in another arrangement


@dataclass(frozen=True)
class Rearranged(Switch):
    """Arrays whose entries stand elsewhere, or have the opposite sign.

    `there` turns the library's arguments into the implementation's, and `back` turns gradients of arguments into the
    library's. `to` turns the upstream gradient into the implementation's, and `fro` the result into the library's.
    `spec` is the spec of the implementation's function, if that is not the kind's.
    """

    there: Mapping[str, Move] = field(default_factory=dict)
    back: Mapping[str, Move] = field(default_factory=dict)
    to: Move = lambda y, case: y
    fro: Move = lambda y, case: y
    spec: Spec | None = None

    def arguments(self, call: Case) -> Case:
        moved = {n: move(call[n], call) for n, move in self.there.items() if call.get(n) is not None}
        return call | moved

    def result(self, call: Case, y: Any) -> Any:
        return self.fro(y, call)

    def upstream(self, case: Case, dy: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.to(dy[0], case), *dy[1:])

    def gradients(self, case: Case, named: Case) -> Case:
        return named | {n: move(named[n], case) for n, move in self.back.items() if named.get(n) is not None}


def _columns(here: str, there: str, x: Any, case: Case) -> Any:
    """The columns of gates, H for each, moved from the order `here` to `there`. A capital letter flips the sign."""
    count = np.shape(x)[-1] // len(case["U"])
    if count < len(here):  # an LSTM without a forget gate
        here, there = (order.replace("f", "") for order in (here, there))
    columns = dict(zip(here.lower(), np.split(x, len(here), axis=-1), strict=True))
    signs = {gate for one, other in ((here, there), (there, here)) for gate in one if gate not in other}
    ordered = [-columns[gate.lower()] if gate in signs else columns[gate.lower()] for gate in there]
    return np.concatenate(ordered, axis=-1)


def _gates(here: str, there: str, names: tuple[str, ...], says: str) -> Rearranged:
    return Rearranged(
        says, dict.fromkeys(names, partial(_columns, here, there)), dict.fromkeys(names, partial(_columns, there, here))
    )


def lstm_gates() -> Iterator[Rearranged]:
    usual = [tuple("ifgo")]  # PyTorch's and Keras's order
    for there in (*usual, *(order for order in itertools.permutations("ifog") if order not in usual)):
        says = f"the columns of the gates stand in the order {', '.join(there)}, not i, f, o, g"
        yield _gates("ifog", "".join(there), ("W", "U", "b"), says)


def gru_gates() -> Iterator[Rearranged]:
    orders = ("rzn", "zrn", "rnz", "znr", "nrz", "nzr")  # first the usual ones: PyTorch's, and Keras's and Cho's
    for order, z in itertools.product(orders, "zZ"):
        there = order.replace("z", z)
        says = [f"the columns of the gates stand in the order {', '.join(order)}, not r, z, n"] * (order != "rzn")
        says += ["z is the share of the new state, not of the old one"] * (z == "Z")
        yield _gates("rzn", there, ("W", "U", "b", "c"), "; ".join(says))


def _halves(x: Any, case: Case) -> Any:
    return np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)


def _neighbours(x: Any, case: Case) -> Any:
    if np.ndim(x) == 0 or np.shape(x)[-1] % 2:
        return x  # not the result's shape: a property will report it
    return np.stack(np.split(np.asarray(x), 2, axis=-1), axis=-1).reshape(np.shape(x))


@convention(
    "rotary", "pairs may be features i and i + d/2; cos and sin may be (n, d), with each entry twice", first=True
)
def _rotary(op: Subject) -> Switch | None:
    half, angles = "pairs are features i and i + d/2, not neighbours", ("cos", "sin")
    halves = Rearranged(half, {"x": _halves}, {"x": _neighbours}, to=_halves, fro=_neighbours)
    twice = {"x": _halves} | dict.fromkeys(angles, lambda x, case: np.concatenate([x, x], axis=-1))
    each_twice = dict.fromkeys(angles, lambda x, case: np.repeat(x, 2, axis=-1))
    return fitting(op, (
        halves, replace(halves, says=f"{half}; cos and sin are (n, d)", there=twice),
        Rearranged("cos and sin are (n, d), with each entry twice", each_twice),
    ))  # fmt: skip


@convention("A", "A may be (d, N), and the state (..., d, N)", first=True)
def _transposed_A(op: Subject) -> Switch | None:
    A, both = (dict.fromkeys(names, lambda x, case: np.swapaxes(x, -1, -2)) for names in (("A",), ("A", "h0")))
    says = "A is (d, N), not (N, d)"
    return fitting(op, (Rearranged(says, A, A), Rearranged(f"{says}, and h0 (..., d, N)", both, both)))


@dataclass(frozen=True)
class Exchanged(Switch):
    """Two arguments are exchanged."""

    names: tuple[str, str] = ("", "")

    def arguments(self, call: Case) -> Case:
        one, other = self.names
        return call | {one: call[other], other: call[one]}

    def gradients(self, case: Case, named: Case) -> Case:
        return self.arguments(named)


@convention("swiglu", "the arguments may be x, W_1, W_2, V, as w1, w2, w3 of Llama, or x, up, gate, down", first=True)
def _swiglu(op: Subject) -> Switch | None:
    names = [name for name in inspect.signature(op.forward).parameters if "up" in name or "gate" in name]
    up_first = Exchanged("the arguments are x, up, gate, down: V comes before W_1", ("W_1", "V"))
    llama = Exchanged("the arguments are x, W_1, W_2, V, as w1, w2, w3 of Llama", ("V", "W_2"))
    return fitting(op, (llama, up_first) if len(names) == 2 and "up" in names[0] else (llama,))


@convention("lstm gates", "the columns of the gates may stand in any order", first=True)
def _lstm_gates(op: Subject) -> Switch | None:
    return fitting(op, lstm_gates())
