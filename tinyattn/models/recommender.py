"""What every recommender can do, written once: fit, recommend, evaluate, save, load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..backend import module_for
from ..data import Interactions, RatingSplit, Split, Truth, Vocabulary
from ..evaluation import full_ranking
from ..files import FileError, read_arrays, write_arrays
from ..options import options_of


class Recommender:
    """Base of all models. A new one is a file in models/recommenders/, a dataclass of options, and one line in MODELS.

    It has a `name`, a `score`, and says how it learns (`_learn`), what it keeps (`_arrays`) and how that comes back
    (`_restore`); a neural one inherits all of these (`NeuralRecommender`).

    People speak in the ids of their data; inside, items are numbers 1, 2, 3, ... and 0 is padding.
    """

    name: ClassVar[str]
    table: ClassVar[str] = "ranking"         # what it is measured by: a key of MEASURES in commands/measures.py
    criterion: ClassVar[str] = "ndcg@10"     # what chooses the epoch, if anything does
    items: Vocabulary | None = None       # set by fit and load
    users: Vocabulary | None = None
    attends: bool = False                 # is there attention to show?
    _learn: Callable[..., None]           # (train, split or None, what else fit was given)

    def fit(self, data: Any, **how: Any) -> Self:
        """Learn from a `Split`, or from whatever `Interactions.of` takes: sequences, an array, a DataFrame, ...

        Of a `Split`, its training part is learned from, and models that can validate do so on its validation part.
        Further arguments are the model's own. Raises ValueError for data that cannot be learned from.
        """
        if isinstance(data, Split | RatingSplit):
            train, split = data.train, data
        else:
            train, split = Interactions.of(data), None
        self._learn(train, split, **how)
        self.items, self.users = train.items, train.users
        return self

    def check_data(self, data: Interactions) -> None:
        """Raise ValueError for training data that cannot be learned from."""

    def identity(self) -> dict[str, Any]:
        """Every option that says what is learned, as JSON: all but those, as `device`, that say where."""
        said = {o.name: getattr(self, o.name) for o in options_of(self) if o.option.identity}
        return {name: value for name, value in said.items() if value is not None}     # None: of a part not chosen

    @classmethod
    def identity_today(cls, found: dict[str, Any]) -> dict[str, Any]:
        """An identity as an older version wrote it, with the options that came since; as it is where that cannot be."""
        try:
            return cls(**found).identity()
        except (TypeError, ValueError, OverflowError):
            return found

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1): how likely each item is the next, higher is likelier; column 0 is padding.

        Histories hold item numbers, oldest first; `users` are user numbers, 0 or None where unknown.
        """
        raise NotImplementedError

    def recommend(
        self,
        sequences: Sequence[Any],
        k: int = 10,
        *,
        exclude: Iterable[Any] = (),
        repeats: bool = False,
        users: Sequence[Any] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best next items, best first: -> ids, scores; (k,) for one sequence of item ids, (B, k) for many.

        The sequences need not have been seen in training. Items of the sequence itself are left out unless
        `repeats`, and so are those in `exclude`. `users`, one id a sequence, matters to models with user
        embeddings only. Raises ValueError for an unknown id (named), an empty sequence, or a k that leaves fewer
        candidates.
        """
        vocabulary = self._fitted()
        many = len(sequences) > 0 and not isinstance(sequences[0], str) and np.ndim(sequences[0]) == 1
        histories = [vocabulary.numbers(s) for s in (sequences if many else [sequences])]
        if not histories or not all(len(h) for h in histories):
            raise ValueError("a history is empty: expected at least one item id")
        if not 1 <= k <= len(vocabulary):
            raise ValueError(f"k is {k}, expected 1 to {len(vocabulary)}, the number of items")
        assert self.users is not None
        numbers = None if users is None else self.users.numbers(users)
        scores = np.array(self.score(histories, numbers), dtype=np.float64)
        if np.any(np.isnan(scores)):
            raise ValueError("the model's scores are NaN: its parameters are damaged")
        scores[:, 0] = -np.inf
        scores[:, vocabulary.numbers(exclude)] = -np.inf
        if not repeats:
            for row, history in zip(scores, histories, strict=True):
                row[history] = -np.inf
        fewest = int(np.min(np.sum(scores > -np.inf, axis=1)))
        if fewest < k:
            raise ValueError(f"k is {k}, but only {fewest} items are left when seen and excluded ones are taken out")
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        ids, values = vocabulary.decode(best), np.take_along_axis(scores, best, axis=1)
        return (ids, values) if many else (ids[0], values[0])

    def evaluate(
        self, split: Split, stage: str = "test", ks: tuple[int, ...] = (10,), truth: Truth | None = None
    ) -> dict[str, float]:
        """HR@k, NDCG@k and MRR under full ranking; see `tinyattn.evaluation.full_ranking`."""
        self._fitted()
        return full_ranking(self.score, split, stage, ks, truth)

    def save(self, path: str | Path) -> None:
        """Write the whole model to one .npz file, atomically."""
        vocabulary = self._fitted()
        assert self.users is not None
        arrays = {"vocabulary.items": vocabulary.ids, "vocabulary.users": self.users.ids}
        write_arrays(Path(path), "model", {"model": self.name, "options": self.identity()}, arrays | self._arrays())

    @classmethod
    def load(cls, path: str | Path, **where: Any) -> Self:
        """The model in the file. `Recommender.load` takes any kind, a subclass only its own.

        `where` holds arguments that a file does not keep: `device`, `workers`. A model that has no such argument
        computes on the host. Raises FileError for a file that is missing, truncated, pickled, or not such a model,
        ValueError for a device that is not there.
        """
        module_for(where.get("device", "cpu"))
        unknown = where.keys() - {"device", "workers"}
        if unknown:
            raise TypeError(f"load got {', '.join(sorted(unknown))}, expected device or workers")
        meta, arrays = read_arrays(Path(path), "model")
        from . import MODELS  # which imports every model, and this file

        known = MODELS if cls is Recommender else {cls.name: cls}
        if not isinstance(meta.get("model"), str) or meta["model"] not in known:
            raise FileError(f"{path} is a {meta.get('model')} model, expected {' or '.join(known)}")
        try:
            kind: Any = known[meta["model"]]
            model = kind(**meta["options"] | {name: value for name, value in where.items() if hasattr(kind, name)})
            for what in ("items", "users"):
                ids = arrays.pop(f"vocabulary.{what}")
                if ids.ndim != 1 or ids.dtype.kind not in "iU" or not len(ids) or not np.all(ids[1:] > ids[:-1]):
                    raise ValueError(f"vocabulary.{what} is no sorted list of ids")
                setattr(model, what, Vocabulary(ids, what.removesuffix("s")))
            model._restore(arrays)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, MemoryError) as error:
            raise FileError(f"{path} is not a whole {meta['model']} model: {error}") from None
        return model

    def _fitted(self) -> Vocabulary:
        if self.items is None:
            raise ValueError(f"this {type(self).__name__} has not learned anything yet: call fit first")
        return self.items

    def _arrays(self) -> dict[str, np.ndarray]:
        """What was learned, by name."""
        raise NotImplementedError

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `_arrays` gave; KeyError or ValueError where something is missing or misshapen."""
        raise NotImplementedError
