"""Batches: histories padded on the right, with their positions; training batches are a function of the step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, transfer
from ..random import Stream, generator
from .interactions import Interactions
from .seen import Seen
from .slices import cut, rows_of_step, steps_of
from .timed import TimedHistory


class Batch(NamedTuple):
    """Row b is one history, oldest item first, padded with 0 on the right.

    `slots` index the learned positions; the last item always has slot maxlen - 1, as with padding on the left.
    The causal mask hides padding on the right, so no padding mask is needed.
    """

    ids: Array                # (B, L) item numbers, 0 = padding
    slots: Array              # (B, L) 0..maxlen-1
    users: Array              # (B,) user numbers, 0 = unknown
    targets: Array = None     # (B, L) the item that follows, 0 at padding
    negatives: Array = None   # (B, L) an item that the user never had in training, 0 at padding
    shared: Array = None      # (B, 1, k) items that the user never had in training, for all positions of the row
    weight: Array = None      # (B, L) 1.0 at real positions, 0.0 at padding
    target_positions: Array = None   # (B, M), of BERT4Rec; `targets`, `negatives` and `weight` are then (B, M)
    times: Array = None       # (B, L) the items' times in seconds, float64, for models that read them; 0 at padding

    @property
    def rows(self) -> Array:
        return self.users

    @property
    def total(self) -> float:
        return float(np.sum(self.weight))

    def slices(self, tokens: int) -> "list[Batch]":
        """The rows in slices of about `tokens` tokens, each padded to its longest history; see `cut`.

        Rows sorted by length need little padding. The slices depend on the batch alone, so a sum over them, in this
        order, has the same bits with any number of workers.
        """
        lengths = np.sum(self.ids != 0, axis=1)
        return [self._take(rows, int(lengths[rows[0]])) for rows in cut(lengths, tokens)]

    def _take(self, rows: np.ndarray, width: int) -> "Batch":
        n_targets = width if self.target_positions is None else int(np.max(np.sum(self.targets[rows] != 0, axis=1)))
        widths = {"ids": width, "slots": width, "times": width}
        parts = ((x, widths.get(name, n_targets)) for name, x in zip(self._fields, self, strict=True))
        return Batch(*(None if x is None else x[rows] if x.ndim == 1 else x[rows, :upto] for x, upto in parts))

    def padded(self) -> "Batch":
        """The same rows on the host, padded on: their length is a power of two or maxlen, so that lengths are few.

        `target_positions` grow in proportion, to a multiple of 4, by other positions of weight 0.
        """
        length, maxlen = self.ids.shape[1], int(np.max(self.slots)) + 1
        width = n_targets = min(1 << (length - 1).bit_length(), maxlen)
        if (at := self.target_positions) is not None:
            n_targets = min(-(-at.shape[1] * width // length // 4) * 4, width)
            taken = np.zeros((len(at), width), dtype=bool)
            np.put_along_axis(taken, at, True, axis=1)
            others = np.argsort(taken, axis=1, kind="stable")[:, : n_targets - at.shape[1]]
            at = np.concatenate([at, others], axis=1)

        def longer(x: Array, to: int, fill: int = 0) -> Array:
            return None if x is None else np.pad(x, ((0, 0), (0, to - x.shape[1])), constant_values=fill)

        return self._replace(
            ids=longer(self.ids, width), slots=longer(self.slots, width, maxlen - 1), times=longer(self.times, width),
            targets=longer(self.targets, n_targets), negatives=longer(self.negatives, n_targets),
            weight=longer(self.weight, n_targets), target_positions=at,
        )  # fmt: skip

    def map(self, f: Callable[[Array], Array]) -> "Batch":
        """The batch with `f` applied to every array that is not None."""
        return Batch(*(None if x is None else f(x) for x in self))

    def to(self, xp: Any) -> "Batch":
        there = iter(transfer([x for x in self if x is not None], xp))
        return self.map(lambda _: next(there))


def pad(
    histories: Sequence[np.ndarray | TimedHistory], maxlen: int, users: np.ndarray | None = None,
    n_items: int | None = None,
) -> Batch:  # fmt: skip
    """A batch of the newest `maxlen` items of each history, and of their times if histories have them.

    Raises ValueError for an empty history, and for an item below 1, or above `n_items`, if given. A GPU would report no
    error for such a number, and read another row.
    """
    histories = [h[-maxlen:] for h in histories]
    timed = [h for h in histories if isinstance(h, TimedHistory)]
    lengths = np.array([len(h) for h in histories])
    if not np.all(lengths):
        raise ValueError("a history is empty: expected at least one item")
    width = int(lengths.max())
    real = np.arange(width) < lengths[:, None]                           # (B, L)
    ids = np.zeros(real.shape, dtype=np.int64)
    ids[real] = np.concatenate([h.items if isinstance(h, TimedHistory) else h for h in histories])
    items = ids[real]
    wrong = (items < 1) | (items > (items if n_items is None else n_items))
    if np.any(wrong):
        expected = "1, 2, 3, ..." if n_items is None else f"1 to {n_items}"
        raise ValueError(f"item number {items[wrong][0]} in a history, expected {expected} (0 is padding)")
    slots = np.minimum(maxlen - lengths[:, None] + np.arange(width), maxlen - 1)
    batch = Batch(ids, slots, np.zeros(len(ids), dtype=np.int64) if users is None else users)
    if len(timed) < len(histories):
        return batch
    times = np.zeros(real.shape)
    times[real] = np.concatenate([h.seconds for h in timed])
    return batch._replace(times=times)


@dataclass(frozen=True)
class Sampler:
    """The training batches of a run: `batch(step)` depends only on the data, the settings and the step.

    In an epoch each user comes once, in a new random order. At each position the target is the item that follows; the
    negative, if `negatives`, is uniform over the items that the user never had in training (Kang & McAuley 2018,
    section III-E). `shared` negatives per user are drawn with replacement and used at all positions of the row. That is
    faster: drawing one for each position takes longer than a step, and scores of shared ones are a matrix product.

    The share `in_batch` of the shared negatives is drawn from the batch's targets that the user has not had (Hidasi et
    al. 2016), or, if a user has had them all, from these and the whole catalogue. The other shared negatives come from
    the catalogue, in proportion to max(popularity, 1) to the power `popularity_power` (Hidasi & Karatzoglou 2018).
    Raises ValueError if no user has two training items, if a user with negatives has had all items, and if a batch of a
    single user needs negatives from other users.
    """

    train: Interactions
    maxlen: int
    batch_size: int
    seed: int
    negatives: bool
    shared: int = 0
    in_batch: float = 0.0
    popularity_power: float = 0.0
    timed: bool = False                                    # do batches have times?
    _users: np.ndarray = field(init=False, repr=False)     # users with an input and a target
    _seen: Seen | None = field(init=False, repr=False)     # for negatives
    _below: np.ndarray | None = field(init=False, repr=False)    # (n_items,): cumulative probability of the items

    def __post_init__(self) -> None:
        train = self.train
        users = np.flatnonzero(train.lengths >= 2)
        if not len(users):
            raise ValueError("no user has two training interactions: nothing can be predicted")
        if self.timed:
            train.seconds                                  # raises where there are none  # noqa: B018
        seen = Seen(train) if self.negatives else None
        if seen and np.any(seen.counts[users] >= train.n_items):
            name = train.users.ids[users[np.argmax(seen.counts[users])]]
            raise ValueError(
                f"user {name} has had all {train.n_items} items: no negative can be drawn; use a loss "
                "without negatives, such as ce where the model has it"
            )
        if self.in_batch and min(self.batch_size, len(users)) < 2:
            raise ValueError(
                f"a batch of one user has no other users to take negatives from: in_batch is {self.in_batch}, "
                f"batch_size {self.batch_size}, and {len(users)} users have two training interactions"
            )
        object.__setattr__(self, "_users", users)
        object.__setattr__(self, "_below", _cumulative(train, self.popularity_power) if self.popularity_power else None)
        object.__setattr__(self, "_seen", seen)

    @property
    def steps(self) -> int:
        return steps_of(len(self._users), self.batch_size)

    def batch(self, step: int) -> Batch:
        users = rows_of_step(self._users, self.steps, self.seed, step)
        read = self.train.timed if self.timed else self.train.sequence
        sequences = [read(u)[-self.maxlen - 1 :] for u in users.tolist()]
        inputs = pad([s[:-1] for s in sequences], self.maxlen, users + 1)
        return self._with_targets(inputs, pad([s[1:] for s in sequences], self.maxlen).ids, users, step)

    def _with_targets(self, inputs: Batch, targets: np.ndarray, users: np.ndarray, step: int) -> Batch:
        """`inputs` with targets, 0 for none, and with their weights and negatives."""
        inputs = inputs._replace(targets=targets, weight=(targets != 0).astype(np.float32))
        if not self._seen:
            return inputs
        rng = generator(self.seed, Stream.NEGATIVES, step)
        if self.shared:
            return inputs._replace(shared=self._draw_shared(rng, users, targets)[:, None])
        rows, columns = np.nonzero(targets)
        negatives = np.zeros_like(targets)
        negatives[rows, columns] = self._seen.draw_unseen(rng, users[rows])
        return inputs._replace(negatives=negatives)

    def _draw_shared(self, rng: np.random.Generator, users: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(B, shared) items that the user of the row never had, so that none is a target of the row."""
        assert self._seen
        below, n = self._below, round(self.in_batch * self.shared)
        popular = None if below is None else lambda size: np.searchsorted(below, rng.random(size), side="right") + 1
        drawn = self._seen.draw_unseen(rng, np.repeat(users, self.shared - n), popular).reshape(len(users), -1)
        if not n:
            return drawn
        pool = targets[targets != 0]
        if self._seen.any_without(users, np.unique(pool)):               # a user who has had all of them
            pool = np.concatenate([pool, np.arange(1, self.train.n_items + 1)])
        others = self._seen.draw_unseen(rng, np.repeat(users, n), lambda size: rng.choice(pool, size))
        return np.concatenate([drawn, others.reshape(len(users), n)], axis=1)


def _cumulative(train: Interactions, power: float) -> np.ndarray:
    """(n_items,): the cumulative probability of the items, in proportion to popularity to this power."""
    counts = np.bincount(train.flat, minlength=train.n_items + 1)[1:]
    below = np.cumsum(np.maximum(counts, 1) ** power)
    return below / below[-1]
