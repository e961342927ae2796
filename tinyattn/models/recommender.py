"""Base of the recommenders: fit, recommend, evaluate."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from ..data import Interactions, RatingSplit, Split, TimedHistory, Truth, Vocabulary, as_times, in_seconds
from ..evaluation import LazyScores, WholeRows, full_ranking
from ..files import Arrays
from ..options import one_of
from ..terminal import shortened
from .choosing import best_of, in_order, refuse_k
from .estimator import Estimator
from .parameters import checked
from .session import Growing, Session

UNKNOWN = ("refuse", "skip")         # what `recommend` does with ids that the model does not know


class Recommender(Estimator):
    """Base of the recommenders. A new one is a file in models/recommenders/ with options, and a line in MODELS.

    It has a `name`, `score`, `_learn`, `arrays` and `_restore`; a neural one inherits these from `NeuralRecommender`.
    Users pass the ids of their data; inside, items are numbers 1, 2, 3, ... and 0 is padding.
    """

    table = "ranking"
    criterion = "ndcg@10"
    vocabularies = ("items", "users")
    by_user: ClassVar[bool] = False       # does it recommend by the user alone, without the history?
    reads_times: bool = False             # does it read the times of a history's items?
    items: Vocabulary = None  # type: ignore[assignment]  # set by fit and load, as is `users`
    users: Vocabulary = None  # type: ignore[assignment]
    item_counts: np.ndarray | None = None              # (n_items,): how often each item is in the training data
    _learn: Callable[..., None]           # (train, split or None, other arguments of fit)

    def fit(self, data: Any, **how: Any) -> Self:
        """Learn from a `Split`, or from whatever `Interactions.of` takes: sequences, an array, a DataFrame, ...

        Models that are trained by steps validate on a split's validation part after each epoch, by NDCG@10. They take
        `checkpoint`, `on_epoch`, `progress` and `enough`, as `tinyattn.training.train`, and `start`: a model of the
        same kind and network, learned on older data. Items and users of `start` keep their rows and Adam's moments,
        new ones begin fresh. Raises ValueError for data that cannot be learned from, or a start that does not fit.
        """
        if isinstance(data, Split | RatingSplit):
            train, split = data.train, data
        else:
            train, split = Interactions.of(data), None
        if not len(train):
            raise ValueError("there are no interactions to learn from")
        self._learn(train, split, **how)
        self.items, self.users = train.items, train.users
        self.item_counts = np.bincount(train.flat, minlength=train.n_items + 1)[1:].astype(np.int64)
        return self

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1): how likely each item is the next, higher is likelier; column 0 is padding.

        A history is an array of item numbers, oldest first; for a model that `reads_times`, a `TimedHistory`. `users`
        are user numbers, 0 or None where unknown.
        """
        raise NotImplementedError

    def lazy_scores(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> LazyScores:
        """The scores of `score`, from which ranks are computed. Models that can rank without whole rows override it."""
        return WholeRows(self.score, histories, users, len(self.fitted()))

    def recommend(
        self,
        sequences: Sequence[Any],
        k: int = 10,
        *,
        exclude: Iterable[Any] = (),
        only: Iterable[Any] | None = None,
        repeats: bool = False,
        users: Sequence[Any] | None = None,
        unknown: str = "refuse",
        times: Sequence[Any] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best next items, best first: -> ids, scores; (k,) for one sequence of item ids, (B, k) for many.

        The sequences may be new. Their items are no candidates, unless `repeats`; neither are items in `exclude`, nor
        those that `only` lacks. `users`, an id per sequence or None, matter only to models with user embeddings;
        `times`, seconds or dates shaped like the sequences, only to models that read them.
        An empty sequence gets the items by popularity, with their counts in the training data as scores. With `unknown`
        "skip", ids that the model does not know are left out of the sequences; with "refuse" they raise ValueError,
        which names one. Raises ValueError, too, for more or fewer users or times than sequences, for times that
        decrease, or are missing where the model reads them, and for fewer than k candidates. A model that was imported
        or saved by an older version has no counts, and raises ValueError for an empty sequence.
        """
        vocabulary = self.fitted()
        sequences = in_order(sequences, "sequences")
        many = len(sequences) > 0 and (isinstance(sequences[0], list) or np.ndim(sequences[0]) == 1)
        if unknown not in UNKNOWN:
            raise ValueError(f"unknown is {unknown!r}, expected {one_of(UNKNOWN, unknown)}")
        number = vocabulary.numbers if unknown == "refuse" else self._known_numbers
        histories = [number(s) for s in (sequences if many else [sequences])]
        refuse_k(k, len(vocabulary))
        numbers = None if users is None else self.user_numbers(users)
        if numbers is not None and len(numbers) != len(histories):
            raise ValueError(f"{len(numbers):,} users for {len(histories):,} sequences, expected one each")
        read: list[Any] = histories
        if times is not None and self.reads_times:
            read = self._timed(sequences if many else [sequences], in_order(times, "times") if many else [times])
        scores = self._scores(read, numbers)                           # a copy, into which -inf is written
        ids, values = best_of(scores, [] if repeats else histories, k, vocabulary, exclude, only)
        return (ids, values) if many else (ids[0], values[0])

    def _timed(self, sequences: list[Any], times: list[Any]) -> list[TimedHistory]:
        """The known items of each sequence, with their times."""
        if len(times) != len(sequences):
            raise ValueError(f"times of {len(times):,} sequences for {len(sequences):,} sequences, expected one each")
        timed = []
        for ids, when in zip(sequences, times, strict=True):
            numbers = np.array([self.items.number_or_zero(i) for i in ids], dtype=np.int64)
            each = in_order(when, "times")
            if any(np.ndim(time) for time in each):
                raise ValueError(f"times are {shortened(repr(each))}, expected one for each item of one sequence")
            every = TimedHistory(numbers, in_seconds(as_times(np.array(each))))
            timed.append(TimedHistory(every.items[numbers > 0], every.seconds[numbers > 0]))
        return timed

    def read_history(self, sequence: Any, times: Any = None) -> Any:
        """The numbers of one sequence's items, (n,); with their `times` for a model that reads them, a `TimedHistory`.

        Raises ValueError for an unknown id (named), and as `recommend` for times.
        """
        sequence = in_order(sequence, "sequence")
        numbers = self.fitted().numbers(sequence)
        return numbers if times is None or not self.reads_times else self._timed([sequence], [times])[0]

    def _known_numbers(self, ids: Any) -> np.ndarray:
        numbers = np.array([self.items.number_or_zero(i) for i in ids], dtype=np.int64)
        return numbers[numbers > 0]

    def _scores(self, histories: list[np.ndarray], users: np.ndarray | None) -> np.ndarray:
        """`score`; `popularity` for an empty history, unless the model recommends by the user alone."""
        if self.by_user:                             # the model reads no history, so any can replace an empty one
            histories = [history if len(history) else np.array([1]) for history in histories]
        read = [i for i, history in enumerate(histories) if len(history)]
        if len(read) == len(histories):
            return np.array(self.score(histories, users))
        scores = np.tile(self.popularity(), (len(histories), 1))
        if read:
            scores[read] = self.score([histories[i] for i in read], None if users is None else users[read])
        return scores

    def popularity(self) -> np.ndarray:
        """(1, n_items + 1): how often each item is in the training data. ValueError where that is not known."""
        if self.item_counts is None:
            why = "and this model, which was imported or is of an older version, does not know which items are popular"
            raise ValueError(f"a history is empty, {why}: expected at least one item id")
        return np.concatenate([[-np.inf], self.item_counts])[None]

    def other_arrays(self) -> dict[str, np.ndarray]:
        return {} if self.item_counts is None else {"item_counts": self.item_counts}

    def restore_besides(self, arrays: Arrays) -> None:
        if "item_counts" in arrays:
            counts = {"item_counts": arrays.pop("item_counts")}
            self.item_counts = checked(counts, "item_counts", (len(self.items),), np.int64, 2**62)

    def session(self, history: Sequence[Any] = (), *, user: Any = None) -> Session:
        """A growing history, whose next items are recommended without reading all of it again, if possible.

            session = model.session([12, 55])
            ids, scores = session.add(3).best(k=10)          # those of model.recommend([12, 55, 3], k=10)

        Raises ValueError for an unknown id (named), and for a model that reads times, which a session does not have.
        """
        return Session(self, history, user)

    def growing(self) -> Growing | None:
        """Scores growing histories from cached states; None where the whole history has to be read again."""
        return None

    def similar(self, item: Any, k: int = 10, *, only: Iterable[Any] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k items nearest to an item, nearest first: -> ids (k,), scores (k,). The item itself is left out.

        `item_scores` defines nearness. With `only`, no other items are considered. Raises ValueError for an unknown id
        (named), fewer than k candidates, and a model without a relation between items.
        """
        vocabulary = self.fitted()
        (number,) = vocabulary.numbers([item])
        refuse_k(k, len(vocabulary) - 1, "other items")
        scores = np.array(self.item_scores(int(number)))[None]
        ids, values = best_of(scores, [], k, vocabulary, [item], only)
        return ids[0], values[0]

    def item_scores(self, item: int) -> np.ndarray:
        """(n_items + 1,): how near every item is to item number `item`: by default its score after that item alone."""
        return self.score([np.array([item])])[0]

    def evaluate(
        self, split: Split, stage: str = "test", ks: tuple[int, ...] = (10,), truth: Truth | None = None
    ) -> dict[str, float]:
        """HR@k, NDCG@k and MRR under full ranking; see `tinyattn.evaluation.full_ranking`.

        Raises ValueError before `fit`, and for a split with other items than the model's; NaNScoreError for a NaN.
        """
        if not isinstance(split, Split):
            raise ValueError(f"a {type(split).__name__} is no split, expected one, such as leave_one_out(data)")
        self.refuse_other_items(split.data)
        return full_ranking(self, split, stage, ks, truth, self.users.numbers_or_zero(split.data.users.ids))

    def refuse_other_items(self, data: Interactions) -> None:
        mine, theirs = self.fitted().ids, data.items.ids
        if mine is not theirs and not np.array_equal(mine, theirs):
            raise ValueError(
                f"the data has {len(theirs):,} item ids, and they are not the {len(mine):,} that this model has "
                "learned: expected a split of the same data"
            )

    def user_numbers(self, users: Sequence[Any]) -> np.ndarray:
        """The users' numbers, 0 for None. Raises ValueError for an unknown id, and before `fit`."""
        self.fitted()
        users = in_order(users, "users")
        numbers = np.zeros(len(users), dtype=np.int64)
        known = [place for place, user in enumerate(users) if user is not None]
        numbers[known] = self.users.numbers([users[place] for place in known])
        return numbers

    def fitted(self) -> Vocabulary:
        if self.items is None:
            raise ValueError(f"this {type(self).__name__} has not learned anything yet: call fit first")
        return self.items


def cosines(table: np.ndarray, row: int) -> np.ndarray:
    """(n,): cos(t_i, t_row) of every row of a table (n, D); 0 where one of them is 0."""
    table = table.astype(np.float64)
    norms = np.linalg.norm(table, axis=1)
    norms[norms == 0] = 1
    return table @ table[row] / (norms * norms[row])
