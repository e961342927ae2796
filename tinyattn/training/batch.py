"""The interface of batches, whatever they hold: interactions, text, images."""

from typing import Any, NamedTuple, Protocol, Self

from ..backend import Array

SLICE_TOKENS = 1600      # few enough for a slice's activations to stay in a core's cache


class Batch(Protocol):
    """Rows with weights. `tinyattn.data.Batch` is one.

    A batch may have `padded()`: itself on the host, padded to one of few sizes, for steps that are recorded.
    """

    @property
    def rows(self) -> Array:
        """(B,) integers: the user, text or image of each row. They select dropout masks, however the batch is cut.

        Rows with the same number have the same masks, even in different batches of one step.
        """

    @property
    def total(self) -> float:
        """The divisor of the mean loss: the sum of the weights."""

    def slices(self, tokens: int) -> list[Self]:
        """The rows in slices of about `tokens` tokens, independent of the workers."""

    def to(self, xp: Any) -> Self:
        """The batch in the array module `xp`, sent there in one transfer."""


class Batches(Protocol):
    """Where batches come from: a pure function of the step."""

    @property
    def steps(self) -> int:
        """Batches per epoch."""

    def batch(self, step: int) -> Any:
        """The `Batch` of `step`, counted from 0 over all epochs."""


class Grouped(NamedTuple):
    """Batches in groups of `accumulate`, a group for each step; the last group of an epoch has the remaining ones."""

    batches: Batches
    accumulate: int

    @property
    def steps(self) -> int:
        """Groups per epoch."""
        return -(-self.batches.steps // self.accumulate)

    def batch(self, step: int) -> list[Any]:
        """The batches of `step`, counted from 0 over all epochs."""
        epoch, here = divmod(step, self.steps)
        first, end = here * self.accumulate, min((here + 1) * self.accumulate, self.batches.steps)
        return [self.batches.batch(epoch * self.batches.steps + i) for i in range(first, end)]
