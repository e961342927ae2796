"""What changes from step to step, sent to a device before the step begins.

The step then makes the same calls with the same Python numbers as the one before: what differs is in arrays. So it
waits for nothing, transfers nothing, and can be recorded once and launched as a whole (docs/gpu.md).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array
from ..random import Stream, generator

KEYS = 64                # sent with a batch; with later ones more, where a step had more masks


class Keys:
    """An iterable of the keys, (1,) uint64 each, in the order of the masks."""

    def __init__(self, sender: "Sender", there: Array, rng: np.random.Generator) -> None:
        self.sender, self.there, self.rng = sender, there, rng

    def __iter__(self) -> Iterator[Array]:
        for i in range(len(self.there)):
            yield self.there[i : i + 1]
        while True:                              # more masks than were known of: a transfer each, in this step alone
            self.sender.count += 1
            yield self.sender.xp.asarray(self.rng.integers(0, 1 << 64, size=1, dtype=np.uint64))


class Sent(NamedTuple):
    """A batch on a device, and the numbers of its step."""

    batch: Any
    keys: Keys                # of the step's dropout masks
    numbers: Array            # (4,) float32: Adam's two `corrections`, the learning rate, and 0, which fills 8 bytes
    whole: Array              # all of it, as bytes


class Sender:
    """Sends batches to the module `xp`, in one transfer each; `seed` draws the masks."""

    def __init__(self, xp: Any, seed: int) -> None:
        self.xp, self.seed, self.count = xp, seed, KEYS

    def send(self, batch: Any, step: int, numbers: tuple[float, ...]) -> Sent:
        """`batch` and the `numbers` of the step after `step` steps."""
        rng = generator(self.seed, Stream.DROPOUT, step)
        keys = rng.integers(0, 1 << 64, size=self.count, dtype=np.uint64)
        with np.errstate(over="ignore"):                   # a learning rate too large for float32 is reported as a loss
            single = np.array([*numbers, 0]).astype(np.float32)
        door = _Door(self.xp, np.concatenate([keys.view(np.uint8), single.view(np.uint8)]))
        there = batch.to(door)
        head = door.head
        keys_there = Keys(self, head[: keys.nbytes].view(np.uint64), rng)
        return Sent(there, keys_there, head[keys.nbytes :].view(np.float32), door.whole)


class _Door:
    """Stands for `xp` where a batch is sent: its bytes travel behind others, the `head`."""

    def __init__(self, xp: Any, head: np.ndarray) -> None:
        self.xp, self.head = xp, head
        self.whole: Any = None

    def asarray(self, x: np.ndarray) -> Array:
        size, self.whole = len(self.head), self.xp.asarray(np.concatenate([self.head, x]))
        self.head = self.whole[:size]
        return self.whole[size:]
