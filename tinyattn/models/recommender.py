"""What every recommender can do, written once: fit, recommend, evaluate, save, load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..backend import module_for
from ..data import Interactions, RatingSplit, Split, Truth, Vocabulary
from ..evaluation import LazyScores, WholeRows, full_ranking, top
from ..files import FileError, read_arrays, write_arrays
from ..options import one_of, options_of


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
    _said: tuple[tuple[Any, ...], dict[str, Any]]      # the constructor's arguments

    def __new__(cls, *values: Any, **options: Any) -> Self:
        """Keep the arguments as they were said: the constructor puts what the model chooses in the place of None."""
        model = super().__new__(cls)
        model._said = values, options
        return model

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every option of the constructor with its value, as scikit-learn has it; None is one the model chooses.

        So `type(model)(**model.get_params())` is a model like this one before fit, which scikit-learn's `clone` makes.
        No option is an estimator, so `deep` changes nothing.
        """
        names = [declared.name for declared in options_of(self)]
        values, options = self._said
        said = dict(zip(names, values, strict=False)) | options
        chosen = {o.name for o in options_of(self) if said.get(o.name, o.default) is None}
        return {name: None if name in chosen else getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Set options, as scikit-learn has it: -> the model itself.

        What was learned is forgotten where it would have been learned otherwise. Raises ValueError for a name that is
        no option, and for values that the constructor refuses; then nothing has changed.
        """
        known = self.get_params()
        unknown = next((name for name in params if name not in known), None)
        if unknown is not None:
            raise ValueError(f"{unknown} is no option of {type(self).__name__}, expected {one_of(known, unknown)}")
        fresh = type(self)(**known | params)
        kept = {} if fresh.identity() != self.identity() else vars(self).copy()
        new = {declared.name: getattr(fresh, declared.name) for declared in options_of(fresh)} | {"_said": fresh._said}
        vars(self).clear()
        vars(self).update(vars(fresh) | kept | new)
        return self

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

    def lazy_scores(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> LazyScores:
        """The same scores for whoever needs ranks only. A model that can rank without whole rows says how."""
        return WholeRows(self.score, histories, users, len(self._fitted()))

    def recommend(
        self,
        sequences: Sequence[Any],
        k: int = 10,
        *,
        exclude: Iterable[Any] = (),
        only: Iterable[Any] | None = None,
        repeats: bool = False,
        users: Sequence[Any] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best next items, best first: -> ids, scores; (k,) for one sequence of item ids, (B, k) for many.

        The sequences need not have been seen in training. Items of the sequence itself are left out unless `repeats`,
        and so are those in `exclude`, and, where `only` is given, all that are not in it. `users`, one id a sequence,
        None for a stranger, matters to models with user embeddings only. Raises ValueError for an unknown id (named),
        an empty sequence, or a k that leaves fewer candidates.
        """
        vocabulary = self._fitted()
        many = len(sequences) > 0 and (isinstance(sequences[0], list) or np.ndim(sequences[0]) == 1)
        histories = [vocabulary.numbers(s) for s in (sequences if many else [sequences])]
        if not histories or not all(len(h) for h in histories):
            raise ValueError("a history is empty: expected at least one item id")
        if not 1 <= k <= len(vocabulary):
            raise ValueError(f"k is {k}, expected 1 to {len(vocabulary)}, the number of items")
        numbers = None if users is None else self._user_numbers(users)
        scores = np.array(self.score(histories, numbers))              # a copy: what is no candidate is written into it
        _leave_out(scores, vocabulary, exclude, only)
        if not repeats:
            for row, history in zip(scores, histories, strict=True):
                row[history] = -np.inf
        ids, values = _best(scores, k, vocabulary)
        return (ids, values) if many else (ids[0], values[0])

    def similar(self, item: Any, k: int = 10, *, only: Iterable[Any] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k items nearest to an item, nearest first: -> ids (k,), scores (k,). The item itself is left out.

        What near means is the model's own (`item_scores`). With `only`, no other items are considered. Raises
        ValueError for an unknown id (named), a k that leaves fewer items, and a model that knows nothing of pairs.
        """
        vocabulary = self._fitted()
        (number,) = vocabulary.numbers([item])
        if not 1 <= k < len(vocabulary):
            raise ValueError(f"k is {k}, expected 1 to {len(vocabulary) - 1}, the number of other items")
        scores = np.array(self.item_scores(int(number)))[None]
        _leave_out(scores, vocabulary, [item], only)
        ids, values = _best(scores, k, vocabulary)
        return ids[0], values[0]

    def item_scores(self, item: int) -> np.ndarray:
        """(n_items + 1,): how near every item is to the item of this number.

        Here: the scores after that item alone, which are a count's or a linear model's own relation between items.
        """
        return self.score([np.array([item])])[0]

    def evaluate(
        self, split: Split, stage: str = "test", ks: tuple[int, ...] = (10,), truth: Truth | None = None
    ) -> dict[str, float]:
        """HR@k, NDCG@k and MRR under full ranking; see `tinyattn.evaluation.full_ranking`."""
        self._fitted()
        return full_ranking(self, split, stage, ks, truth)

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

    def _user_numbers(self, users: Sequence[Any]) -> np.ndarray:
        """The users' numbers, 0 for None. Raises ValueError for an unknown id."""
        assert self.users is not None
        numbers = np.zeros(len(users), dtype=np.int64)
        known = [place for place, user in enumerate(users) if user is not None]
        numbers[known] = self.users.numbers([users[place] for place in known])
        return numbers

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


def cosines(table: np.ndarray, row: int) -> np.ndarray:
    """(n,): cos(t_i, t_row) of every row of a table (n, D); 0 where one of them is 0."""
    table = table.astype(np.float64)
    norms = np.linalg.norm(table, axis=1)
    norms[norms == 0] = 1
    return table @ table[row] / (norms * norms[row])


def _leave_out(scores: np.ndarray, vocabulary: Vocabulary, exclude: Iterable[Any], only: Iterable[Any] | None) -> None:
    """Set the scores (B, n_items + 1) of all that may not be given, and of padding, to -inf. In place.

    Raises ValueError where a score is NaN.
    """
    if np.isnan(scores.max()):                                       # a maximum is NaN where any score is
        raise ValueError("the model's scores are NaN: its parameters are damaged")
    scores[:, [0, *vocabulary.numbers(exclude).tolist()]] = -np.inf
    if only is not None:
        others = np.ones(len(vocabulary) + 1, dtype=bool)
        others[vocabulary.numbers(only)] = False
        scores[:, others] = -np.inf


def _best(scores: np.ndarray, k: int, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """(B, n_items + 1) -> ids (B, k), scores (B, k), best first; -inf marks what is no candidate."""
    best = top(scores, k)
    values = scores[np.arange(len(scores))[:, None], best].astype(np.float64)
    if values.min() == -np.inf:
        fewest = int(np.min(np.sum(scores > -np.inf, axis=1)))
        raise ValueError(f"k is {k}, but only {fewest} items are left when seen and excluded ones are taken out")
    return vocabulary.decode(best), values
