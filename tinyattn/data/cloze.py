"""Cloze batches: some items of each history are hidden and predicted (Taylor 1953; Devlin et al. 2019)."""

from dataclasses import dataclass, field

import numpy as np

from ..random import Stream, generator
from .batches import Batch, Sampler, pad
from .slices import rows_of_step


@dataclass(frozen=True)
class ClozeSampler(Sampler):
    """The batches of `Sampler` with hidden positions, whose id is n_items + 1, [MASK].

    In a history of n items max(1, round(rho n)) random ones are hidden. In a share `mask_last` of the rows only the
    last one is hidden, as in recommendation (Sun et al. 2019, section 3.6). Every step draws anew; the released code
    draws ten times before training, and adds a row that hides the last item. Raises ValueError as `Sampler` does.
    """

    rho: float = field(kw_only=True)
    mask_last: float = field(kw_only=True)

    def batch(self, step: int) -> Batch:
        """`target_positions` are the hidden positions, padded with other positions of weight 0."""
        users = rows_of_step(self._users, self.steps, self.seed, step)
        inputs = pad([self.train.sequence(u)[-self.maxlen :] for u in users.tolist()], self.maxlen, users + 1)
        ids = inputs.ids
        lengths = np.sum(ids != 0, axis=1)
        rng = generator(self.seed, Stream.CLOZE, step)
        only_last = rng.random(len(ids)) < self.mask_last
        turn = np.where(ids == 0, 1.0, rng.random(ids.shape))             # padding comes last, in order
        turn[only_last, lengths[only_last] - 1] = -1.0
        hidden = np.where(only_last, 1, np.maximum(1, np.rint(self.rho * lengths).astype(np.int64)))
        positions = np.argsort(turn, axis=1, kind="stable")[:, : int(hidden.max())]
        is_hidden = np.arange(positions.shape[1]) < hidden[:, None]
        targets = np.where(is_hidden, np.take_along_axis(ids, positions, axis=1), 0)
        masked = ids.copy()
        masked[np.nonzero(is_hidden)[0], positions[is_hidden]] = self.train.n_items + 1
        return self._with_targets(inputs._replace(ids=masked, target_positions=positions), targets, users, step)
