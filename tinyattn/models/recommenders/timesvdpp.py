"""TimeSVD++: predicts a rating from biases and factors that change with time (Koren 2009; 2010).

    r̂_ui(t) = μ + b_u + α_u dev_u(t) + b_i + b_i,Bin(t) + <q_i, p_u + a_u dev_u(t) + |N(u)|^(-1/2) Σ_{j in N(u)} y_j>,
    dev_u(t) = sign(t - t̄_u) |t - t̄_u|^β

t is in days, t̄_u the mean time of the user's ratings, N(u) the items that the user has rated, Bin(t) one of a few
periods of equal length. The paper's final model also has biases and user factors of single days, and the user's scale.
Without time it is SVD++ (Koren 2008); without N(u), too, matrix factorisation; without factors, too, two biases.
"""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import Interactions, Rated, RatingBatch, RatingSampler, RatingSplit, refuse_unrated
from ...evaluation import rating_errors
from ...files import Arrays
from ...layers.rows import table_gradient
from ...ops import embedding, embedding_backward
from ...options import Checked, check_options, option, with_default
from ...training import Settings
from ..parameters import checked, checked_cuts
from ..recommender import Recommender, cosines
from ..trained import Trained

AT_ONCE = 4096           # ratings that are predicted at once
RATED = "rated."         # prefix of the fields of `Rated` in a file
LARGEST = 1e9            # the largest rating, and the most days between two: float32 holds their squares
_WIDE = ("items", "users", "users_drift", "implicit")                     # tables of factors; the others are of biases
_DRIFTING = ("user_bias_drift", "item_bias_bins", "users_drift")         # tables that `time` adds


@dataclass(kw_only=True)
class TimeSVDppOptions:
    dim: int = option(20, "width of the factors; 0: only biases", at_least=0, at_most=100_000)
    time: bool = option(True, "do biases and users' factors change with time?")
    implicit: bool = option(True, "learn from which items a user has rated, whatever the ratings?")
    bins: int = option(30, "periods of equal length; each has a bias for every item", at_least=1, at_most=100_000)
    beta: float = option(0.4, "exponent of the time between a rating and the user's mean time", above=0, at_most=1)
    l2: float = option(0.1, "weight of the squared factors that a rating reads", at_least=0)
    l2_bias: float = option(0.005, "weight of the squared biases that a rating reads", at_least=0)
    l2_time: float = option(20.0, "weight of the squared parameters that change with time", at_least=0)


class TimeSVDppCache(NamedTuple):
    batch: RatingBatch
    drating: Array            # (B,) r̂ - r
    read: dict[str, Array]    # the rows that were read, by table
    z: Array | None           # (B, d): what q_i is multiplied with
    root: Array | None        # (U,) |N(u)|^(-1/2)


@dataclass(kw_only=True)
class TimeSVDppNetwork(TimeSVDppOptions, Checked):
    """The pure network. `mean` is μ."""

    n_items: int
    n_users: int
    mean: float = 0.0

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64: 0, but for q. An unknown user then adds nothing."""
        items, users = self.n_items + 1, self.n_users + 1
        rows = self._tables(users, items, items * self.bins, items)
        p = {name: np.zeros((n, self.dim if name in _WIDE else 1)) for name, n in rows.items()}
        if self.dim:
            p["items"][1:] = 0.1 * rng.standard_normal((items, self.dim))[1:]
        return p

    def rows_read(self, batch: RatingBatch) -> dict[str, Array]:
        """The rows of each table that `loss` reads: name -> ids."""
        return self._tables(batch.users, batch.items, batch.bins, batch.seen)

    def _tables(self, users: Any, items: Any, bins: Any, seen: Any) -> dict[str, Any]:
        """Table -> the argument whose entries are its rows, for each table that the options need."""
        tables = {"user_bias": users, "item_bias": items, "user_bias_drift": users, "item_bias_bins": bins}
        tables |= {"items": items, "users": users, "users_drift": users, "implicit": seen}
        absent = (_WIDE if not self.dim else ()) + (_DRIFTING if not self.time else ())
        absent += () if self.implicit else ("implicit",)
        return {name: x for name, x in tables.items() if name not in absent}

    def forward(self, p: Any, batch: RatingBatch) -> tuple[Array, TimeSVDppCache]:
        """r̂ (B,), and the cache."""
        xp = get_xp(batch.users)
        read = {name: embedding(ids, p[name]) for name, ids in self.rows_read(batch).items()}
        rating = self.mean + read["user_bias"][:, 0] + read["item_bias"][:, 0]
        if self.time:
            rating = rating + read["user_bias_drift"][:, 0] * batch.dev + read["item_bias_bins"][:, 0]
        z = root = None
        if self.dim:
            z = read["users"]
            if self.time:
                z = z + read["users_drift"] * batch.dev[:, None]
            if self.implicit:
                root = 1 / xp.sqrt(_lengths(batch).astype(z.dtype))
                summed = xp.add.reduceat(read["implicit"], batch.begins, axis=0) * root[:, None]     # (U, d)
                z = z + embedding(batch.place, summed)
            rating = rating + xp.sum(read["items"] * z, axis=1)
        return rating, TimeSVDppCache(batch, rating - batch.ratings, read, z, root)

    def backward(self, p: Any, drating: Array, cache: TimeSVDppCache) -> dict[str, Array]:
        """drating (B,) -> the gradient of each row as it was read, by table."""
        batch, dr = cache.batch, drating[:, None]
        rows = {"user_bias": dr, "item_bias": dr}
        if self.time:
            rows |= {"user_bias_drift": dr * batch.dev[:, None], "item_bias_bins": dr}
        if self.dim:
            dz = dr * cache.read["items"]
            rows |= {"items": dr * cache.z, "users": dz}
            if self.time:
                rows["users_drift"] = dz * batch.dev[:, None]
            if self.implicit:
                assert cache.root is not None
                xp = get_xp(dz)
                dsummed = embedding_backward(dz, batch.place, xp.zeros((len(batch.begins), self.dim), dtype=dz.dtype))
                rows["implicit"] = embedding(_owners(batch), dsummed * cache.root[:, None])
        return rows

    def loss(self, p: Any, batch: RatingBatch, rng: Any = None) -> tuple[Any, TimeSVDppCache]:
        """½ mean((r̂ - r)² + λ (squares of the parameters that the rating reads)), as in Koren, and the cache."""
        xp = get_xp(batch.users)
        _, cache = self.forward(p, batch)
        value = xp.sum(cache.drating**2)
        for name, rows in cache.read.items():
            value = value + self._l2(name) * xp.sum(_times(self._weights(name, batch), rows * rows))
        return value / (2 * len(batch.users)), cache

    def loss_backward(self, p: Any, dloss: float, cache: TimeSVDppCache) -> dict[str, Any]:
        """Gradients shaped like p, tables as `Rows`."""
        share, ids = dloss / len(cache.batch.users), self.rows_read(cache.batch)
        rows = self.backward(p, share * cache.drating, cache)
        return {
            name: table_gradient(
                ids[name],
                rows[name] + _times(self._weights(name, cache.batch), share * self._l2(name) * cache.read[name]),
                p[name],
            )
            for name in p
        }

    def _l2(self, name: str) -> float:
        if name in _DRIFTING:
            return self.l2_time
        return self.l2 if name in _WIDE else self.l2_bias

    def _weights(self, name: str, batch: RatingBatch) -> Array | None:
        """How many ratings read each row, if not one: y_j is read by every rating of its user."""
        if name != "implicit":
            return None
        xp = get_xp(batch.place)
        return xp.take(xp.bincount(batch.place, minlength=len(batch.begins)), _owners(batch))[:, None]


def _times(weights: Array | None, rows: Array) -> Array:
    return rows if weights is None else weights.astype(rows.dtype) * rows


def _lengths(batch: RatingBatch) -> Array:
    """(U,): |N(u)| of each distinct user."""
    xp = get_xp(batch.begins)
    return xp.diff(xp.concatenate([batch.begins, xp.full(1, len(batch.seen), dtype=batch.begins.dtype)]))


def _owners(batch: RatingBatch) -> Array:
    """(M,): the distinct user of each entry of `seen`."""
    xp = get_xp(batch.begins)
    starts = xp.zeros(len(batch.seen), dtype=xp.int64)
    starts[batch.begins] = 1
    return xp.cumsum(starts) - 1


@dataclass(eq=False, kw_only=True)
class TimeSVDpp(TimeSVDppOptions, Trained, Recommender):
    """Predicts ratings; learns from interactions with ratings and times.

        split = split_ratings(read("ml-100k.inter", ratings=True), by="time")
        model = TimeSVDpp().fit(split)
        model.evaluate(split)                               # {"rmse": .., "mae": ..}
        model.predict([196], [242], [881250949])            # user, item, time

    Recommendations, by the rating at the newest time of training, are poor: the model learns from items that people
    chose to rate, and never that most items are not chosen. Items with few, high ratings come first.
    """

    name = "timesvdpp"
    table = "ratings"
    criterion = "-rmse"

    epochs: int = with_default(40, Settings, "epochs")
    patience: int = option(
        3, "stop after so many epochs without a smaller RMSE in validation; 0 = never", at_least=0, group="training"
    )
    lr: float = with_default(5e-3, Settings, "lr")
    batch_size: int = option(
        4096, "ratings a batch, at least: an epoch has ratings // N batches", at_least=1, group="training"
    )
    day: float = option(86400.0, "a day in the unit of the data's times; 86400 where they are in seconds", above=0)

    rated: Any = field(init=False, repr=False)       # of the training ratings; set by fit and load

    def __post_init__(self) -> None:
        check_options(self)
        backend.module_for(self.device)

    def check_data(self, data: Interactions) -> None:
        refuse_unrated(data)
        ratings, times = data.rated
        largest = float(np.max(np.abs(ratings), initial=0))
        span = float(np.max(times)) - float(np.min(times)) if len(times) else 0.0
        if largest > LARGEST:
            raise ValueError(f"the largest rating is {largest:g}, expected at most {LARGEST:g}")
        if self.time and span > self.day * LARGEST:
            raise ValueError(f"day is {self.day:g}, and the times span {span:g}: expected at most {LARGEST:g} days")

    def _learn(self, data: Interactions, split: RatingSplit | None, **how: Any) -> None:
        """`how` is as in `tinyattn.training.train`; validation is by RMSE."""
        self.check_data(data)
        self.rated = Rated.of(data)
        self.network = self._network(data.n_items, data.n_users)

        def validate(p: Any) -> float:
            assert split is not None
            predicted = self._predict_all(p, split.valid, np.arange(1, data.n_users + 1))
            return -rating_errors(predicted, split.valid.rated[0])["rmse"]

        sampler = RatingSampler(data, self.rated, self.batch_size, self.seed, self._how())
        self._train(self.network, sampler, validate if split else None, data.fingerprint(), **how)

    def predict(self, users: Any, items: Any, times: Any) -> np.ndarray:
        """(B,): the predicted rating of each item by each user at each time, clipped to the range in training.

        Takes ids, and times in the data's unit. Raises ValueError for an unknown id, a time that is not finite, and
        sequences of different lengths.
        """
        vocabulary = self.fitted()
        when = np.asarray(times, dtype=np.float64)
        if not np.all(np.isfinite(when)):
            raise ValueError(f"time {when[~np.isfinite(when)][0]} is not a finite number")
        if not len(users) == len(items) == len(when):
            raise ValueError(f"{len(users)} users, {len(items)} items and {len(when)} times, expected as many of each")
        return self._predict(self.parameters, self.users.numbers(users), vocabulary.numbers(items), when)

    def evaluate(self, split: RatingSplit, stage: str = "test") -> dict[str, float]:  # type: ignore[override]
        """RMSE and MAE of the predictions for a part of the split, "valid" or "test"."""
        return rating_errors(self.predictions(split, stage), getattr(split, stage).ratings)

    def predictions(self, split: RatingSplit, stage: str = "test") -> np.ndarray:
        """(N,): r̂ of every rating of a part of the split, "valid" or "test", in its order; clipped as by `predict`."""
        self.refuse_other_items(split.data)
        numbers = self.users.numbers_or_zero(split.data.users.ids)       # the model's
        return self._predict_all(self.parameters, getattr(split, stage), numbers)

    def _predict_all(self, p: Any, data: Interactions, numbers: np.ndarray) -> np.ndarray:
        """(N,): r̂ of every rating; `numbers` (n_users,) are the model's numbers of the data's users."""
        return self._predict(p, np.repeat(numbers, data.lengths), data.flat.astype(np.int64), data.rated[1])

    def _predict(self, p: Any, users: np.ndarray, items: np.ndarray, times: np.ndarray) -> np.ndarray:
        xp, predicted = backend.get_xp(p["item_bias"]), np.empty(len(users))
        order = np.argsort(users, kind="stable")                 # by user: N(u) is summed once
        for rows in np.array_split(order, max(1, -(-len(order) // AT_ONCE))):
            batch = self.rated.batch(users[rows], items[rows], times[rows], **self._how())
            with np.errstate(over="ignore", invalid="ignore"):   # the loop reports NaN
                predicted[rows] = backend.to_numpy(self.network.forward(p, batch.to(xp))[0])
        _, least, most = self.rated.scale.tolist()
        return np.clip(predicted, least, most)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1): the rating of every item at the newest time of training; column 0 is -inf.

        N(u) is the history, so that unknown users have factors, too. Unlike predictions, scores are not clipped, which
        would tie items.
        """
        if not hasattr(self, "network"):
            self.fitted()                                       # raises
        p, network, zeros = self.parameters, self.network, np.zeros(len(histories), dtype=np.int64)
        xp, newest = backend.get_xp(p["item_bias"]), np.full(len(histories), self.rated.span[1])
        batch = self.rated.batch(zeros if users is None else users, zeros, newest, **self._how())
        lengths = np.array([len(history) for history in histories], dtype=np.int64)
        seen = np.concatenate([*histories, zeros[:0]])
        batch = batch._replace(place=np.arange(len(histories)), begins=np.cumsum(lengths) - lengths, seen=seen).to(xp)
        user_part, cache = network.forward(p, batch)                   # item 0 adds nothing
        items = p["item_bias"][:, 0]
        if self.time:
            items = items + p["item_bias_bins"].reshape(-1, self.bins)[:, -1]
        scores = user_part[:, None] + items + (cache.z @ p["items"].T if self.dim else 0)
        scores[:, 0] = -np.inf
        return backend.to_numpy(scores)

    def item_scores(self, item: int) -> np.ndarray:
        """(n_items + 1,): the cosine of every q_i to this item's. Raises ValueError for a model of biases alone."""
        if not self.dim:
            raise ValueError("a model of biases alone knows nothing of pairs of items: no item is near another")
        return cosines(backend.to_numpy(self.parameters["items"]), item)

    def _how(self) -> dict[str, Any]:
        return {"bins": self.bins, "beta": self.beta, "day": self.day}

    def _network(self, n_items: int, n_users: int) -> TimeSVDppNetwork:
        options = self.options_for(TimeSVDppNetwork)
        return TimeSVDppNetwork(n_items=n_items, n_users=n_users, mean=float(self.rated.scale[0]), **options)

    def known_network(self) -> TimeSVDppNetwork:
        return self._network(len(self.items), len(self.users))

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {f"{RATED}{f.name}": getattr(self.rated, f.name) for f in fields(Rated)}

    def _restore(self, arrays: Arrays) -> None:
        n_users, of_rated = len(self.users), {n: arrays.pop(n) for n in (f"{RATED}{f.name}" for f in fields(Rated))}
        seen = checked(of_rated, f"{RATED}seen", (None,), np.int64, len(self.items))
        self.rated = Rated(
            checked(of_rated, f"{RATED}scale", (3,), np.float64),
            checked(of_rated, f"{RATED}span", (2,), np.float64),
            checked(of_rated, f"{RATED}means", (n_users + 1,), np.float64),
            checked_cuts(of_rated, f"{RATED}offsets", n_users + 1, len(seen)),
            seen,
        )
        super()._restore(arrays)
