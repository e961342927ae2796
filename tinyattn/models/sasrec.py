"""SASRec, the estimator that people use: self-attentive sequential recommendation (Kang & McAuley 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

from .. import backend
from ..data import Interactions, Sampler, Split, pad
from ..evaluation import NaNScoreError, full_ranking
from ..random import Stream, generator
from ..training import SLICE_TOKENS, Settings, Workers, cut, train
from ..tree import flatten, leaves
from .objectives import OBJECTIVES
from .recommender import Recommender
from .sasrec_network import SASRecNetwork


@dataclass(eq=False)
class SASRec(Recommender):
    """A causal Transformer over a user's history, as the paper has it unless an argument says otherwise.

        model = SASRec(epochs=20).fit(sequences)
        ids, scores = model.recommend([12, 55, 3], k=10)

    `block_form="sasrec"` is the released code's model: its block, and unless they are set, its scaled embeddings
    and its biases too. Every argument is checked when the object is made: ValueError names the value and what
    was expected.
    """

    name = "sasrec"

    maxlen: int = 50                  # the newest items that are looked at
    dim: int = 50                     # width of embeddings and blocks
    blocks: int = 2
    heads: int = 1
    dropout: float = 0.2              # the paper has .2 for MovieLens, .5 for sparse data
    block_form: str = "pre"           # "pre" (paper), "post", "sasrec" (released code)
    loss: str = "bce"                 # "bce" (paper) or "ce": cross-entropy over all items
    emb_scale: bool | None = None     # item embeddings times the root of dim; None: where block_form is "sasrec"
    qkv_bias: bool | None = None      # biases in query, key and value projections; None: likewise
    output_projection: bool = False   # W_O, as in the Transformer
    last_norm: bool = True            # LayerNorm after the last block
    user_embedding: bool = False      # explicit user modelling (paper, section III-D)
    epochs: int = 100
    patience: int = 10                # epochs without a better validation NDCG@10; 0 = never stop early
    batch_size: int = 128             # users a step
    lr: float = 1e-3
    beta2: float = 0.98               # of Adam
    seed: int = 0
    workers: int | None = None        # by default one a core, in training up to 8; never changes a result
    device: str = "cpu"               # or "gpu"; a model moves freely between them

    network: SASRecNetwork = field(init=False, repr=False)               # set by fit and load, as are
    parameters: Any = field(init=False, repr=False)                      # the tree of its parameters and
    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)  # a dict an epoch, from fit

    def __post_init__(self) -> None:
        self._settings()
        self._network(1, 0)
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}, expected at least 1")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is {self.workers}, expected at least 1")
        backend.module_for(self.device)

    def _settings(self) -> Settings:
        return Settings(**{f.name: getattr(self, f.name) for f in fields(Settings)})

    def _network(self, n_items: int, n_users: int) -> SASRecNetwork:
        released = self.block_form == "sasrec"
        return SASRecNetwork(
            items=n_items,
            maxlen=self.maxlen,
            dim=self.dim,
            blocks=self.blocks,
            heads=self.heads,
            dropout=self.dropout,
            block_form=self.block_form,
            loss_name=self.loss,
            emb_scale=released if self.emb_scale is None else self.emb_scale,
            qkv_bias=released if self.qkv_bias is None else self.qkv_bias,
            output_projection=self.output_projection,
            last_norm=self.last_norm,
            users=n_users if self.user_embedding else 0,
        )

    def identity(self) -> dict[str, Any]:
        """Every argument that says what is learned, as JSON: all but `workers` and `device`, which say where."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name not in ("workers", "device")}

    def _learn(self, data: Interactions, split: Split | None, **how: Any) -> None:
        """`how` goes to `tinyattn.training.train`: checkpoint, on_epoch, progress, ..."""
        network = self._network(data.n_items, data.n_users)

        def validate(p: Any) -> float:
            assert split is not None
            try:
                return full_ranking(partial(self._score, network, p), split, "valid")["ndcg@10"]
            except NaNScoreError:
                return math.nan                              # the loop says at which step

        parameters, history = train(
            network,
            self.sampler(data),
            self._settings(),
            workers=self.workers,
            validate=validate if split else None,
            identity={"model": self.identity(), "data": data.fingerprint()},
            **how,
        )
        self.network, self.parameters, self.history = network, parameters, history

    def sampler(self, data: Interactions) -> Sampler:
        """The training batches. Raises ValueError for data that cannot be learned from."""
        return Sampler(data, self.maxlen, self.batch_size, self.seed, OBJECTIVES[self.loss].negatives)

    def score(self, histories: list[np.ndarray], users: np.ndarray | None = None) -> np.ndarray:
        """(len(histories), n_items + 1), float32, on the host; column 0 is -inf. Worked off in slices, by threads.

        Raises ValueError for user numbers beyond the table.
        """
        return self._score(self.network, self.parameters, histories, users)

    def _score(
        self, network: SASRecNetwork, p: Any, histories: list[np.ndarray], users: np.ndarray | None
    ) -> np.ndarray:
        users = np.zeros(len(histories), dtype=np.int64) if users is None else users
        if network.users and np.any((users < 0) | (users > network.users)):
            raise ValueError(f"user numbers {np.min(users)} to {np.max(users)}, expected 0 to {network.users}")
        if not histories:
            return np.empty((0, network.items + 1), dtype=np.float32)
        xp = backend.get_xp(p["items"])
        on_host = backend.on_host(xp)
        lengths = np.array([min(len(h), self.maxlen) for h in histories])
        slices = cut(lengths, (2 if on_host else 64) * SLICE_TOKENS)      # nothing has to be kept for a backward

        def work(rows: np.ndarray) -> Any:
            batch = pad([histories[i] for i in rows.tolist()], self.maxlen, users[rows], network.items)
            with np.errstate(over="ignore", invalid="ignore"):       # whoever ranks the scores refuses NaN
                return network.last_state(p, batch.to(xp))

        states = xp.empty((len(histories), self.dim), dtype=p["items"].dtype)
        with Workers(self.workers if on_host else 1) as pool:
            for rows, found in zip(slices, pool.map(work, slices), strict=True):
                states[xp.asarray(rows)] = found
            with np.errstate(over="ignore", invalid="ignore"):       # here, too
                return backend.to_numpy(network.score_items(p, states))

    def attention(self, sequence: Any) -> tuple[np.ndarray, np.ndarray]:
        """Who looks at whom: -> item ids (n,), weights (blocks, heads, n, n), for the newest `maxlen` items.

        Row i, column j: how much position i takes from position j <= i. Raises ValueError for an unknown item id.
        """
        vocabulary = self._fitted()
        history = vocabulary.numbers(sequence)[-self.maxlen :]
        if not len(history):
            raise ValueError("the history is empty: expected at least one item id")
        batch = pad([history], self.maxlen).to(backend.get_xp(self.parameters["items"]))
        _, cache = self.network.forward(self.parameters, batch)
        weights = [backend.to_numpy(block.attention.weights)[0] for block in cache.blocks]
        return vocabulary.decode(history), np.array(weights).reshape(-1, self.heads, len(history), len(history))

    def _options(self) -> dict[str, Any]:
        return self.identity()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {f"parameters.{name}": backend.to_numpy(leaf) for name, leaf in leaves(self.parameters)}

    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        assert self.items is not None
        assert self.users is not None
        self.network = self._network(len(self.items), len(self.users))
        fresh = self.network.init(generator(self.seed, Stream.INIT))
        _, self.parameters = flatten(fresh, np.float32, backend.module_for(self.device))
        wanted = {f"parameters.{name}": leaf for name, leaf in leaves(self.parameters)}
        if set(wanted) != set(arrays):
            raise ValueError(f"{min(set(wanted) ^ set(arrays))} is missing, or not a parameter of this configuration")
        for name, leaf in wanted.items():
            found = arrays[name]
            if found.shape != leaf.shape or found.dtype != np.float32 or not np.all(np.isfinite(found)):
                raise ValueError(f"{name} is {found.shape} {found.dtype}, expected {leaf.shape} finite float32 numbers")
            leaf[...] = backend.asarray(found, like=leaf)
