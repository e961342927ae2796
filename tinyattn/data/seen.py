"""Which items each user has had, for look-ups of many (user, item) pairs at once."""

from collections.abc import Callable

import numpy as np

from .distinct import distinct
from .interactions import Interactions


class Seen:
    """The distinct (user, item) pairs of some interactions, as sorted keys; users are counted from 0."""

    def __init__(self, data: Interactions) -> None:
        self._size = data.n_items + 1
        self._keys = distinct(data.owner * self._size + data.flat)
        self.counts = np.bincount(self._keys // self._size, minlength=data.n_users)     # distinct items a user

    def has(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Has the user had the item? Boolean, entry by entry; `users` and `items` broadcast."""
        keys = users * self._size + items
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return self._keys[place] == keys

    def any_without(self, users: np.ndarray, items: np.ndarray) -> bool:
        """Has one of `users` had all of `items`, which are distinct?"""
        may = users[self.counts[users] >= len(items)]                # few users have had so many items
        return bool(np.any(np.all(self.has(may[:, None], items), axis=1)))

    def draw_unseen(
        self, rng: np.random.Generator, users: np.ndarray, draw: Callable[[int], np.ndarray] | None = None
    ) -> np.ndarray:
        """For each entry of `users` an item that this user has not had, by rejection sampling.

        `draw(n)` returns n items, by default uniform over the catalogue. It never ends for a user who has had them all.
        """
        drawn = np.zeros(users.shape, dtype=np.int64)
        places = np.arange(len(users))
        while len(places):
            drawn[places] = draw(len(places)) if draw else rng.integers(1, self._size, size=len(places))
            places = places[self.has(users[places], drawn[places])]
        return drawn
