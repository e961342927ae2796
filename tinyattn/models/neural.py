"""Base of the neural recommenders: fit, score, attend."""

import math
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .. import backend
from ..data import Interactions, ItemVectors, Sampler, Split, Vocabulary, cut, pad
from ..evaluation import LazyScores, NaNScoreError, full_ranking
from ..evaluation.protocol import SCORES_AT_ONCE, parts_of
from ..forms import readable, replaceable
from ..options import make_parts, option, options_of
from ..ranks import ranks
from ..training import SLICE_TOKENS, Learner, Workers
from ..tree import leaves, views
from .choosing import refuse_damaged
from .item_vectors import with_vectors
from .next_item import NextItemNetwork
from .objectives import LOSS_OPTIONS, OBJECTIVES, LossOptions
from .products import Products
from .recommender import Recommender, cosines
from .session import Growing
from .starting import carry_over, refuse_start
from .trained import Trained

HUGE = 1e6         # with a parameter beyond this, training has exploded, and a score may overflow


@dataclass(eq=False, kw_only=True)
class NeuralRecommender(LossOptions, Trained, Recommender):
    """Base of the estimators. A subclass has a `name`, options, and a `Network` that shares the options."""

    loss: str = option(
        "bce", "one negative per position (bce, bpr), all items (ce), many negatives (gbce of gSASRec, "
        "sampled-softmax, bpr-max of GRU4Rec)",
        choices=OBJECTIVES, group="training",
    )  # fmt: skip
    batch_size: int = option(
        128, "users a batch, at least: an epoch has users // N batches of nearly equal size", at_least=1,
        group="training",
    )
    valid_users: int | None = option(
        None, "validate after each epoch on N users, drawn by the seed (default: on all)", at_least=1,
        group="training",
    )  # fmt: skip

    takes_vectors: ClassVar[bool] = False     # does one table of plain rows, "items", make inputs and scores?
    Network: ClassVar[type[NextItemNetwork]]
    maxlen: ClassVar[int]           # options of the subclass
    dim: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        make_parts(self, loss=LOSS_OPTIONS)
        self.make_network(1, 1)     # raises for options that do not fit together
        backend.module_for(self.device)

    def make_network(self, n_items: int, n_users: int) -> Any:
        options = self.options_for(self.Network)
        return self.Network(n_items=n_items, n_users=n_users, objective=self.loss, **options)

    def known_network(self) -> Any:
        return self.make_network(len(self.items), len(self.users))

    def fit(self, data: Any, **how: Any) -> Self:
        """As `Recommender.fit`. With `item_vectors`, an ItemVectors, these and id embeddings make the item table
        (see `VectorNetwork`); with `id_embeddings` False, the vectors alone.

        Items that have a vector but no interaction can be recommended. They are added to sequences here; a split must
        be of data to which `ItemVectors.joined` has added them.
        """
        vectors = how.get("item_vectors")
        if not isinstance(vectors, ItemVectors | None):
            raise ValueError(f"item_vectors is of type {type(vectors).__name__}, expected ItemVectors(ids, vectors)")
        if vectors is None and not how.get("id_embeddings", True):
            raise ValueError("id_embeddings is False without item_vectors: nothing would tell items apart")
        if vectors is not None and not isinstance(data, Split):
            data = vectors.joined(Interactions.of(data))
        return super().fit(data, **how)

    def _learn(
        self, data: Interactions, split: Split | None, start: Self | None = None,
        item_vectors: ItemVectors | None = None, id_embeddings: bool = True, **how: Any,
    ) -> None:  # fmt: skip
        """`how` is as in `tinyattn.training.train`; validation is by NDCG@10. `start` is as in `carry_over`."""
        if start is not None:
            refuse_start(start, self)
        network = learned = self.make_network(data.n_items, data.n_users)
        known = data
        if item_vectors is not None:
            known, learned = with_vectors(self, data, item_vectors, id_embeddings, start)
        chosen = split.sample(self.valid_users, self.seed) if split and self.valid_users else split
        for warning in (network.sees_targets, self._idle_options(known), self._few_items(known)):
            if warning and how.get("progress", True) and ranks().number == 0:
                print(f"note: {warning}", file=sys.stderr)

        def validate(p: Any) -> float:
            assert chosen is not None
            model = copy(self)                               # self gets its parameters when training has ended
            model.network, model.parameters = network, p if item_vectors is None else learned.whole(p)
            model.items, model.users = data.items, data.users
            try:
                score = full_ranking(model, chosen, "valid")["ndcg@10"]
            except NaNScoreError:
                return math.nan                              # the loop reports the step
            return score if model._is_finite(chosen.data) else math.nan

        def begin(learner: Learner) -> None:
            if start is not None:
                carry_over(start, data.items, data.users, learner, self.optimizer)
            m, v = learner.moments                               # which training updates in place
            self.moments = views(m, learner.p), views(v, learner.p)

        fingerprint = data.fingerprint(network.reads_times) + ("" if start is None else start.digest())
        fingerprint += "" if item_vectors is None else f"{item_vectors.digest()}{id_embeddings}"
        self._train(learned, self.sampler(known), validate if split else None, fingerprint, begin=begin, **how)
        if item_vectors is not None:
            self.network, self.parameters, self.moments = network, learned.whole(self.parameters), None

    def _is_finite(self, data: Interactions) -> bool:
        """Are all users' scores finite, after their whole histories? Computed only if a parameter exceeds HUGE.

        In the readable form: a faster one of few histories may be finite where a batch is not.
        """
        xp = backend.get_xp(self.parameters[self.network.scored])
        if all(xp.max(xp.abs(leaf)) < HUGE for _, leaf in leaves(self.parameters)):
            return True
        users = np.flatnonzero(data.lengths)
        for part in parts_of(len(users), max(1, SCORES_AT_ONCE // self.network.n_items)):
            read: Any = data.timed if self.reads_times else data.sequence
            with readable():
                scores = self.score([read(u) for u in users[part].tolist()], users[part] + 1)
            if not np.all(np.isfinite(scores[:, 1:])):
                return False
        return True

    def sampler(self, data: Interactions) -> Sampler:
        """The training batches. Raises ValueError for data that cannot be learned from."""
        return Sampler(*self.sampling(data))

    def sampling(self, data: Interactions) -> tuple[Any, ...]:
        """The arguments of a `Sampler`. Raises ValueError for an option, such as a window, longer than any history."""
        self._idle_options(data)
        drawn = (self.n_negatives or 0, self.in_batch or 0.0, self.popularity_power or 0.0)
        timed = self.make_network(1, 1).reads_times
        return data, self.maxlen, self.batch_size, self.seed, OBJECTIVES[self.loss].negatives, *drawn, timed

    def _idle_options(self, data: Interactions) -> str:
        """A warning if the default of an option, such as a window, exceeds the longest history, else "".

        Raises ValueError if the user set it to such a value. The constructor does not, since the scores of such a model
        are right, and its files have to load.
        """
        longest = int(np.max(data.lengths, initial=0))
        for name, default in ((o.name, o.default) for o in options_of(self) if o.option.items):
            size = getattr(self, name)
            if size is None or size <= min(self.maxlen, longest):
                continue
            at_most, why = f"at most {longest}", "the longest training history has so many items"
            if size > self.maxlen:
                at_most, why = f"at most maxlen {self.maxlen}", "no history is longer"
            if self.get_params()[name] != default:
                raise ValueError(f"{name} is {size}, expected {at_most}: {why}")
            return f"{name} is {size}, of which {at_most} are used: {why}"
        return ""

    def _few_items(self, data: Interactions) -> str:
        """A warning where more negatives are drawn than there are items, else ""."""
        if (self.n_negatives or 0) < data.n_items:
            return ""
        drawn = f"n_negatives is {self.n_negatives}, drawn from {data.n_items} items"
        return f"{drawn}, each several times: a smaller number, or loss ce, is enough"

    def check_data(self, data: Interactions) -> None:
        self.sampler(data)

    def learned_elsewhere(self, items: Vocabulary, users: Vocabulary, arrays: Iterable[tuple[str, np.ndarray]]) -> Self:
        """This model with ids and parameters by name. Raises ValueError for one missing or misshapen."""
        self.items, self.users = items, users
        self._take(arrays)
        return self

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1), float32, on the host; column 0 is -inf. Threads compute slices.

        Raises ValueError for user numbers beyond the table.
        """
        if not hasattr(self, "network"):
            self.fitted()                                   # raises
        states = self._states(histories, users)
        with np.errstate(over="ignore", invalid="ignore"):           # a ranking refuses NaN
            return backend.to_numpy(self.network.score_items(self.parameters, states))

    def growing(self) -> Growing | None:
        self.fitted()
        network, p = self.network, self.parameters
        if not network.extends:
            return None
        extend, xp = network.extending(p), backend.get_xp(p[network.scored])

        def score(items: np.ndarray, past: Any) -> tuple[np.ndarray, Any]:
            with np.errstate(over="ignore", invalid="ignore"):       # as in `score`
                h, kept = extend(xp.asarray(items[None]), past)
                return backend.to_numpy(network.score_items(p, h[:, -1])), kept

        return Growing(score, self.maxlen)

    def lazy_scores(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> LazyScores:
        """All states, whose products with items are computed in tiles: see `Products`."""
        self.fitted()
        if not backend.is_numpy(backend.get_xp(self.parameters[self.network.scored])):
            return super().lazy_scores(histories, users)
        h, E = self.network.as_products(self.parameters, self._states(histories, users))
        return Products(h, E, self.workers)

    @replaceable
    def _states(self, histories: list[np.ndarray], users: np.ndarray | None) -> Any:
        """(len(histories), D): the state after each history, on the parameters' device."""
        network, p = self.network, self.parameters
        users = np.zeros(len(histories), dtype=np.int64) if users is None else users
        if "users" in p and np.any((users < 0) | (users > network.n_users)):
            raise ValueError(f"user numbers {np.min(users)} to {np.max(users)}, expected 0 to {network.n_users}")
        xp = backend.get_xp(p[network.scored])
        is_numpy = backend.is_numpy(xp)
        states = xp.empty((len(histories), p[network.scored].shape[1]), dtype=p[network.scored].dtype)
        if not histories:
            return states
        lengths = np.array([min(len(h), self.maxlen) for h in histories])
        tokens = (2 if is_numpy else 64) * SLICE_TOKENS                    # no backward, so larger slices
        slices = cut(lengths, tokens) if len(histories) > 1 else [np.zeros(1, dtype=np.int64)]

        def work(rows: np.ndarray) -> Any:
            batch = pad([histories[i] for i in rows.tolist()], self.maxlen, users[rows], network.n_items)
            with np.errstate(over="ignore", invalid="ignore"):       # a ranking refuses NaN
                return network.last_state(p, batch.to(xp))

        alone = int(np.sum(lengths)) <= tokens                       # starting threads would take longer
        with nullcontext() if alone else Workers(self.workers if is_numpy else 1) as pool:
            for rows, last in zip(slices, (map if pool is None else pool.map)(work, slices), strict=True):
                states[xp.asarray(rows)] = last
        return states

    def item_scores(self, item: int) -> np.ndarray:
        """(n_items + 1,): the cosine of every item's vector in the table of scores to this item's."""
        return cosines(backend.to_numpy(self.network.item_vectors(self.parameters)), item)

    @property
    def reads_times(self) -> bool:  # type: ignore[override]
        return hasattr(self, "network") and self.network.reads_times

    @property
    def attends(self) -> bool:  # type: ignore[override]
        return hasattr(self, "network") and self.network.attends

    def attention(self, sequence: Any, times: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Attention weights: -> item ids (n,), weights (blocks, heads, n, n), for the newest `maxlen` items.

        Row i, column j: the weight of position j <= i for position i. `times` are those of `recommend`. Raises
        ValueError for an unknown item id, an empty history, times that do not fit, weights that are NaN, and models
        without such attention, like bert4rec and narm (see `explain`).
        """
        vocabulary, history = self.fitted(), self.read_history(sequence, times)[-self.maxlen :]
        if not len(history):
            raise ValueError("the history is empty: expected at least one item id")
        if not self.network.attends:
            raise ValueError(f"this {self.name} model has no attention")
        batch = pad([history], self.maxlen).to(backend.get_xp(self.parameters["items"]))
        with np.errstate(over="ignore", invalid="ignore"):           # a NaN is refused below
            _, cache = self.network.forward(self.parameters, batch)
        weights, n = np.array([backend.to_numpy(block)[0] for block in self.network.attention(cache)]), len(history)
        refuse_damaged(weights)
        return vocabulary.decode(backend.to_numpy(batch.ids[0])), weights.reshape(len(weights), -1, n, n)
