"""The padding of a convolution that has no argument for it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..common import widened
from ..subject import Subject
from ..switch import Case, FixedArgument, Switch
from .convention import cases_of, convention, is_right, trying


@dataclass(frozen=True)
class FixedPadding(FixedArgument):
    def avoid(self, case: Case) -> Case:
        """The case with this padding; where nothing is padded, x is made as long as the kernel."""
        case = super().avoid(case)
        if self.value != "valid":
            return case
        sizes, x = case["W"].shape[:-2], case["x"]
        lacking = [
            max((size - 1) * case["dilation"] + 1 - have, 0)
            for size, have in zip(sizes, x.shape[-1 - len(sizes) : -1], strict=True)
        ]
        pads = [(0, 0)] * (x.ndim - len(sizes) - 1) + [(0, n) for n in lacking] + [(0, 0)]
        return case | {"x": np.pad(x, pads, mode="wrap" if x.size else "constant")}


def paddings(op: Subject) -> Iterator[FixedPadding]:
    """What an implementation without an argument `padding` may do instead of the default."""
    if "padding" in op.lacks:
        default = op.signature.parameters["padding"].default
        for value in ("causal", "valid") if op.spec.name == "conv1d" else ("valid",):
            yield FixedPadding(f"padding is fixed: {value}", "padding", value, default)


@convention("fixed padding", "without `padding` it may be any of them")
def _padding(op: Subject) -> Switch | None:
    def right() -> bool:
        seen = [is_right(op, widened(case)) for case in cases_of(op, 16)]
        return False not in seen and seen.count(True) > 1

    if "padding" not in op.lacks or right():
        return None
    for switch in paddings(op):
        with trying(op, switch):
            fits = right()
        if fits:
            return switch
    return None
