"""Text: split, encode, cut into windows."""

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..backend import Array, transfer
from ..random import Stream, generator
from .parts import Parts
from .slices import cut, rows_of_step, steps_of
from .vocabulary import refuse_no_text, refuse_nul

SHORTEST = 20            # characters of a text that can be split: its last tenth has two


@dataclass(frozen=True)
class Text:
    """A text to learn from. Raises ValueError for an empty one, and for what is no string."""

    text: str

    what: ClassVar[str] = "characters"

    def __post_init__(self) -> None:
        refuse_no_text(self.text)
        refuse_nul([self.text], "the text")

    @classmethod
    def of(cls, data: Any) -> Self:
        """A text from a string; a `Text` is returned unchanged."""
        return data if isinstance(data, cls) else cls(data)

    def __len__(self) -> int:
        return len(self.text)

    @property
    def sizes(self) -> dict[str, int]:
        return {"characters": len(self), "different ones": len(set(self.text))}

    def fingerprint(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def split(self) -> Parts:
        """Eight tenths for training, then one for validation and one for testing. Raises ValueError below SHORTEST."""
        n = len(self)
        if n < SHORTEST:
            raise ValueError(f"the text has {n} characters, expected at least {SHORTEST}: two tenths are held back")
        first, second = n - 2 * (n // 10), n - n // 10
        return Parts(*map(Text, (self.text[:first], self.text[first:second], self.text[second:])))


class TextBatch(NamedTuple):
    """Row b is a window of the text: `ids` has its tokens 0 to n - 1, `targets` the next tokens, 1 to n.

    For masked text `targets` are tokens 0 to n - 1 as well, and `ids` the same tokens after masking.
    """

    ids: Array                # (B, n) token numbers
    targets: Array            # (B, n)
    weight: Array             # (B, n) 1.0, or 0.0 at targets that count in another window or are not predicted
    rows: Array               # (B,) numbers of the rows, which select dropout masks

    @property
    def total(self) -> float:
        return float(np.sum(self.weight))

    def slices(self, tokens: int) -> "list[TextBatch]":
        return [TextBatch(*(part[rows] for part in self)) for rows in cut(np.full(*self.ids.shape), tokens)]

    def to(self, xp: Any) -> "TextBatch":
        return TextBatch(*transfer(self, xp))


@dataclass(frozen=True)
class TextSampler:
    """The training batches of a run, a function of the step: windows of at most `context` tokens.

    In each epoch adjacent windows begin at a random offset and come in a new order.
    Raises ValueError for fewer than two tokens: a target follows another token.
    """

    tokens: np.ndarray
    context: int
    batch_size: int
    seed: int

    ahead: ClassVar[int] = 1         # positions from a token to its target

    def __post_init__(self) -> None:
        if len(self.tokens) <= self.ahead:
            raise ValueError(f"the text has {len(self.tokens)} token, expected at least 2: one that follows another")

    @property
    def width(self) -> int:
        """Tokens of a window."""
        return min(self.context, len(self.tokens) - self.ahead)

    @property
    def windows(self) -> int:
        """Windows an epoch: one fewer than would fit, which leaves room for the random offset."""
        return max(1, len(self.tokens) // self.width - 1)

    @property
    def steps(self) -> int:
        return steps_of(self.windows, self.batch_size)

    def batch(self, step: int) -> TextBatch:
        room = len(self.tokens) - self.ahead - self.windows * self.width
        first = int(generator(self.seed, Stream.WINDOWS, step // self.steps).integers(room + 1))
        rows = rows_of_step(self.windows, self.steps, self.seed, step)
        return self._of(first + rows * self.width, rows)

    def whole(self) -> TextBatch:
        """The whole text: each target counts once, where possible with at least half a window of context.

        Windows begin half a window apart. All targets of the first window count; of each later one, its second half.
        """
        return self._covering(len(self.tokens) - 1 - self.width, max(1, self.width // 2))

    def _covering(self, last: int, stride: int) -> TextBatch:
        """Windows that begin at 0, `stride`, ... and at `last`; weights are 1 at targets that no earlier window has."""
        begins = np.append(np.arange(0, last, stride), last)
        batch = self._of(begins, np.arange(len(begins)))
        counted = np.append(0, begins[:-1] + self.width)                 # an earlier window has targets before these
        places = begins[:, None] + np.arange(self.width)
        return batch._replace(weight=(places >= counted[:, None]).astype(np.float32))

    def _of(self, begins: np.ndarray, rows: np.ndarray) -> TextBatch:
        places = begins[:, None] + np.arange(self.width)
        ones = np.ones(places.shape, dtype=np.float32)
        return TextBatch(self.tokens[places], self.tokens[places + self.ahead], ones, rows)
