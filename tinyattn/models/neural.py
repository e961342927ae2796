"""What every neural recommender can do, written once: fit and resume, score, attend, save and load."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .. import backend
from ..data import Interactions, Sampler, Split, cut, pad
from ..evaluation import NaNScoreError, full_ranking
from ..options import check_options, option
from ..training import SLICE_TOKENS, Settings, Workers, train
from .next_item import NextItemNetwork
from .objectives import OBJECTIVES
from .parameters import named, restored
from .recommender import Recommender


@dataclass(eq=False, kw_only=True)
class NeuralRecommender(Settings, Recommender):
    """Base of the estimators. A new one has options, shared with its network, a `name`, and that `Network`."""

    loss: str = option(
        "bce", "one sampled negative a position, target and negative apart (bce) or their difference (bpr), or "
        "cross-entropy over all items (ce)", choices=OBJECTIVES, group="training",
    )  # fmt: skip
    batch_size: int = option(128, "users a step", at_least=1, group="training")
    workers: int | None = option(
        None, "worker processes (default: one a core, up to 8); never changes the result", at_least=1,
        group="training", identity=False,
    )  # fmt: skip

    network: Any = field(init=False, repr=False)                         # set by fit and load, as are
    parameters: Any = field(init=False, repr=False)                      # the tree of its parameters and
    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)  # a dict an epoch, from fit

    Network: ClassVar[type[NextItemNetwork]]
    maxlen: ClassVar[int]           # options of the subclass
    dim: ClassVar[int]

    def __post_init__(self) -> None:
        check_options(self)
        self.make_network(1, 1)     # refuses options that do not go together
        backend.module_for(self.device)

    def make_network(self, n_items: int, n_users: int) -> Any:
        """The network for so many items and users, with this estimator's options."""
        mine = {f.name for f in fields(self)}
        shared = {f.name: getattr(self, f.name) for f in fields(self.Network) if f.name in mine}
        return self.Network(n_items=n_items, n_users=n_users, objective=self.loss, **shared)

    def _learn(
        self,
        data: Interactions,
        split: Split | None,
        *,
        checkpoint: Path | None = None,
        on_epoch: Any = None,
        progress: bool = True,
    ) -> None:
        """The arguments are those of `tinyattn.training.train`."""
        network = self.make_network(data.n_items, data.n_users)

        def validate(p: Any) -> float:
            assert split is not None
            try:
                return full_ranking(partial(self._score, network, p), split, "valid")["ndcg@10"]
            except NaNScoreError:
                return math.nan                              # the loop says at which step

        parameters, history = train(
            network,
            self.sampler(data),
            Settings(**{f.name: getattr(self, f.name) for f in fields(Settings)}),
            workers=self.workers,
            validate=validate if split else None,
            identity={"model": self.identity(), "data": data.fingerprint()},
            identity_today=lambda found: found | {"model": self.identity_today(found["model"])},
            checkpoint=checkpoint,
            on_epoch=on_epoch,
            progress=progress,
        )
        self.network, self.parameters, self.history = network, parameters, history

    def sampler(self, data: Interactions) -> Sampler:
        """The training batches. Raises ValueError for data that cannot be learned from."""
        return Sampler(data, self.maxlen, self.batch_size, self.seed, OBJECTIVES[self.loss].negatives)

    def check_data(self, data: Interactions) -> None:
        self.sampler(data)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1), float32, on the host; column 0 is -inf. Worked off in slices, by threads.

        Raises ValueError for user numbers beyond the table.
        """
        if not hasattr(self, "network"):
            self._fitted()                                   # which says so
        return self._score(self.network, self.parameters, histories, users)

    def _score(self, network: Any, p: Any, histories: list[np.ndarray], users: np.ndarray | None) -> np.ndarray:
        users = np.zeros(len(histories), dtype=np.int64) if users is None else users
        if "users" in p and np.any((users < 0) | (users > network.n_users)):
            raise ValueError(f"user numbers {np.min(users)} to {np.max(users)}, expected 0 to {network.n_users}")
        if not histories:
            return np.empty((0, network.n_items + 1), dtype=np.float32)
        xp = backend.get_xp(p[network.scored])
        is_numpy = backend.is_numpy(xp)
        lengths = np.array([min(len(h), self.maxlen) for h in histories])
        slices = cut(lengths, (2 if is_numpy else 64) * SLICE_TOKENS)      # nothing has to be kept for a backward

        def work(rows: np.ndarray) -> Any:
            batch = pad([histories[i] for i in rows.tolist()], self.maxlen, users[rows], network.n_items)
            with np.errstate(over="ignore", invalid="ignore"):       # whoever ranks the scores refuses NaN
                return network.last_state(p, batch.to(xp))

        states = xp.empty((len(histories), p[network.scored].shape[1]), dtype=p[network.scored].dtype)
        with Workers(self.workers if is_numpy else 1) as pool:
            for rows, found in zip(slices, pool.map(work, slices), strict=True):
                states[xp.asarray(rows)] = found
            with np.errstate(over="ignore", invalid="ignore"):       # here, too
                return backend.to_numpy(network.score_items(p, states))

    @property
    def attends(self) -> bool:  # type: ignore[override]
        """Is there attention to show?"""
        return hasattr(self, "network") and self.network.attends

    def attention(self, sequence: Any) -> tuple[np.ndarray, np.ndarray]:
        """Who looks at whom: -> item ids (n,), weights (blocks, heads, n, n), for the newest `maxlen` items.

        Row i, column j: how much position i takes from position j <= i. Raises ValueError for an unknown item id, and
        for a model without attention.
        """
        vocabulary = self._fitted()
        history = vocabulary.numbers(sequence)[-self.maxlen :]
        if not len(history):
            raise ValueError("the history is empty: expected at least one item id")
        if not self.network.attends:
            raise ValueError(f"this {self.name} model has no attention")
        batch = pad([history], self.maxlen).to(backend.get_xp(self.parameters["items"]))
        _, cache = self.network.forward(self.parameters, batch)
        weights = [backend.to_numpy(block)[0] for block in self.network.attention(cache)]
        return vocabulary.decode(history), np.array(weights).reshape(len(weights), -1, len(history), len(history))

    def _arrays(self) -> dict[str, np.ndarray]:
        return named(self.parameters)

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        assert self.items is not None
        assert self.users is not None
        self.network = self.make_network(len(self.items), len(self.users))
        self.parameters = restored(self.network, arrays, self.seed, self.device)
