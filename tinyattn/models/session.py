"""A growing history: the states of its items are cached, and the next item costs one row.

The cache is exact where a new item changes no earlier state: with causal attention and positions that are distances, or
none. SASRec's learned positions count from the newest item and move with each new one, so the history is read again.
The same holds for a history longer than `maxlen`, whose oldest items drop out.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from .choosing import best_of, in_order, refuse_k


class Growing(NamedTuple):
    """How a model scores a growing history."""

    score: Callable[[np.ndarray, Any], tuple[np.ndarray, Any]]   # items (n,), cache -> scores (1, n_items + 1), cache
    longest: int                     # the most items that it can score


class Session:
    """The recommendations for a growing history, as `model.recommend` gives them; made by `model.session`.

    The model must not learn meanwhile. Copies are independent.
    """

    def __init__(self, model: Any, history: Sequence[Any] = (), user: Any = None) -> None:
        self._model, self._vocabulary = model, model.fitted()
        if model.reads_times:
            raise ValueError("the model reads times, and a session has none: use recommend(history, times=...), or "
                             "train a model with position t5, which reads places alone")  # fmt: skip
        self._user = None if user is None else model.user_numbers([user])
        self._growing, self._learned = model.growing(), _learned(model)
        self._numbers = np.zeros(0, dtype=np.int64)  # the whole history
        self._past: Any = None                       # the cache
        self._read = 0                               # its number of items
        self._scores: np.ndarray | None = None       # after the last item, if computed
        self.add(*in_order(history, "history"))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def keeps(self) -> bool:
        """Does the next item cost one row? If not, `best` reads the whole history again."""
        return self._growing is not None and len(self) < self._growing.longest

    @property
    def past(self) -> Any:
        """The items' cache; `tinyattn.layers.nbytes` gives its size."""
        return self._past

    def add(self, *items: Any) -> Self:
        """Append items. Raises ValueError for an unknown id (named), before any is added."""
        if items:
            self._numbers = np.concatenate([self._numbers, self._vocabulary.numbers(items)])
            self._scores = None
        return self

    def copy(self) -> "Session":
        """An independent session with this history."""
        session = object.__new__(type(self))
        vars(session).update(vars(self))
        return session

    def __getstate__(self) -> dict[str, Any]:
        """All but a function over the model's parameters, which no pickle can hold."""
        return {name: value for name, value in vars(self).items() if name != "_growing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._growing = self._model.growing()

    def best(
        self, k: int = 10, *, exclude: Iterable[Any] = (), only: Iterable[Any] | None = None, repeats: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best next items, best first: -> ids (k,), scores (k,). The arguments are those of `recommend`.

        Raises ValueError as `recommend`, and where the model has learned since the session began.
        """
        refuse_k(k, len(self._vocabulary))
        if any(now is not then for now, then in zip(_learned(self._model), self._learned, strict=True)):
            raise ValueError("the model has learned since this session began: begin another")
        if self._scores is None:
            self._scores = self._scored()
        history = [] if repeats else [self._numbers]
        ids, values = best_of(self._scores.copy(), history, k, self._vocabulary, exclude, only)
        return ids[0], values[0]

    def _scored(self) -> np.ndarray:
        growing, numbers = self._growing, self._numbers
        if growing is None or not 0 < len(numbers) <= growing.longest:
            self._past = None
            return self._model._scores([numbers], self._user)
        scores, self._past = growing.score(numbers[self._read :], self._past)
        self._read = len(numbers)
        return scores


def _learned(model: Any) -> tuple[Any, Any]:
    """Objects that are replaced when the model learns again."""
    return model.items, getattr(model, "parameters", None)
