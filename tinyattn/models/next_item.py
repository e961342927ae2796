"""Base of the next-item networks: a state for every position is compared with every item's embedding."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..backend import Array, get_xp
from ..data import Batch
from ..forms import replaceable
from ..layers import Past, gather_rows, glorot
from ..layers.rows import table_gradient
from ..options import check_options, make_parts, option
from .objectives import LOSS_OPTIONS, OBJECTIVES, LossOptions, Objective


@dataclass(kw_only=True)
class SequenceOptions:
    """The options of every network that reads a history."""

    maxlen: int = option(50, "newest items of a history that are read", at_least=1, at_most=1_000_000)
    dim: int = option(50, "width of embeddings and states", at_least=1, at_most=100_000)
    dropout: float = option(0.2, "dropout rate (SASRec's paper has .5 for sparse data)", at_least=0, below=1)


@dataclass(kw_only=True)
class NextItemNetwork(LossOptions):
    """Base of the networks, which are pure functions of parameters and batches.

    A subclass has options, `init`, `forward` and `backward`. An item's score is the dot product of the state and the
    item's row of the table `scored`, p["items"] if input and output are tied. A bias is the last number of an item's
    row; the last number of each state is then 1. Networks whose scores are other products override `as_products` and
    `score_gradient`. Raises ValueError for invalid options.
    """

    n_items: int                    # catalogue size; ids are 1..n_items, 0 is padding
    n_users: int = 0                # user numbers are 1..n_users, 0 is an unknown user
    objective: str = "bce"          # a key of `objectives`

    objectives: ClassVar[dict[str, Objective]] = OBJECTIVES     # its losses, by name
    scored: ClassVar[str] = "items"                     # the name of the table (n_items + 1, D) that makes the scores
    biased: ClassVar[bool] = False                      # is the last number of the rows of that table a bias?
    causal: ClassVar[bool] = True                       # does each position see only itself and earlier ones?
    attends: ClassVar[bool] = False                     # does it have `attention(cache)`, (B, h, L, L) per layer?
    reads_times: ClassVar[bool] = False                 # does it read `Batch.times`?
    weights_remark: ClassVar[str] = ""                     # a remark on `weights` that do not sum to 1

    def __post_init__(self) -> None:
        if self.n_items < 1:
            raise ValueError(f"n_items is {self.n_items}, expected at least 1")
        if self.objective not in self.objectives:
            raise ValueError(f"objective is {self.objective!r}, expected one of {', '.join(self.objectives)}")
        check_options(self)
        (options,) = make_parts(self, objective=LOSS_OPTIONS)
        self.loss_options: dict[str, Any] = vars(options)         # keywords of the objective

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64."""
        raise NotImplementedError

    def init_items(self, rng: np.random.Generator, dim: int) -> np.ndarray:
        """(n_items + 1, dim), glorot-uniform; row 0, padding, is 0."""
        table = glorot(rng, self.n_items + 1, dim)
        table[0] = 0
        return table

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, Any]:
        """h (B, L, D), the state of each position, and the cache; for a batch with `target_positions` h (B, M, D)."""
        raise NotImplementedError

    def backward(self, p: Any, dh: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> dx (B, L, D), the gradient of the item embeddings read, and grads, which lack "items" and `scored`.

        dx is None where `forward` does not read p["items"] at batch.ids.
        """
        raise NotImplementedError

    def last_state(self, p: Any, batch: Batch) -> Array:
        """(B, D): the state at the last position of each history in `asking(batch)`, which is applied here.

        This computes all states; a subclass may compute only these.
        """
        return gather_rows(self.forward(p, batch)[0], last_position(batch))[:, 0]

    @property
    def sees_targets(self) -> str:
        """A warning if a position sees the item that it predicts; "" if not."""
        if self.causal or not hasattr(self, "refine"):
            return ""
        cause = f"with refine {self.refine} a position sees the items that it is to predict"
        return f"{cause}: the loss does not measure how well it predicts"

    @property
    def is_plain(self) -> bool:
        """Do the blocks read items and positions only, and does only a norm follow them?"""
        return False

    @property
    def extends(self) -> bool:
        """Do earlier items' states stay the same when another item follows, so that they can be cached?"""
        return False

    def extend(self, p: Any, ids: Array, past: Past | None = None) -> tuple[Array, Past]:
        """h (B, n, D) of items that follow those of `past`, as `forward` gives it, and the new cache.

        `past` is None at the beginning, and is not changed. Only where `extends` is true. Shapes: ids (B, n), no
        padding; with the earlier items at most `maxlen`.
        """
        raise NotImplementedError

    @replaceable
    def extending(self, p: Any) -> Callable[..., tuple[Array, Past]]:
        """`extend` with these parameters, which must not change meanwhile."""
        return partial(self.extend, p)

    def weights(self, cache: Any) -> list[Array]:
        """The attention weights of each block, (B, h, L, L), from the cache of `forward(p, asking(batch))`, or []."""
        return self.attention(cache) if self.attends else []

    def asking(self, batch: Batch) -> Batch:
        """The batch whose last positions predict the next items."""
        return batch

    def item_rows(self, batch: Batch) -> Array:
        """(B, L): the rows of p["items"] that are read for batch.ids."""
        return batch.ids

    def rows_read(self, batch: Batch) -> dict[str, Array]:
        """The rows of large tables that `loss` reads, the only ones with gradients: dotted name -> ids."""
        xp = get_xp(batch.ids)
        if not self.objectives[self.objective].negatives:                     # every item is scored
            return {} if self.scored == "items" else {"items": self.item_rows(batch).reshape(-1)}
        read = (self.item_rows(batch), batch.targets, batch.negatives, batch.shared)
        ids = [part.reshape(-1) for part in read if part is not None]
        if self.scored == "items":
            return {"items": xp.concatenate(ids)}
        return {"items": ids[0], self.scored: xp.concatenate(ids[1:])}

    def undecayed(self, p: Any) -> list[Array]:
        """Views, in p or a tree like it, of biases that are columns of tables: they are not decayed."""
        return [p[self.scored][:, -1]] if self.biased else []

    def align_with_targets(self, h: Array, batch: Batch) -> tuple[Array, Batch]:
        """States and batch, changed so that each state has one target."""
        return h, batch

    def align_with_targets_backward(self, dh: Array) -> Array:
        return dh

    def loss(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Any, Any]:
        """The mean loss over the batch's real positions, in nats, and the cache."""
        h, cache = self.forward(p, batch, rng)
        h, batch = self.align_with_targets(h, batch)
        value, saved = self.objectives[self.objective].forward(h, p[self.scored], batch, **self.loss_options)
        return value, (batch, h, saved, cache)

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        """Gradients shaped like p; those of tables as `Rows` where few rows are touched."""
        batch, h, saved, remembered = cache
        dh, scored = self.objectives[self.objective].backward(dloss, h, p[self.scored], batch, saved)
        dx, grads = self.backward(p, self.align_with_targets_backward(dh), remembered)
        if self.scored == "items" and dx is not None:
            grads["items"] = scored.with_reading(self.item_rows(batch), dx)
            return grads
        grads[self.scored] = scored.alone()
        if dx is not None:
            grads["items"] = table_gradient(self.item_rows(batch), dx, p["items"])
        return grads

    def item_vectors(self, p: Any) -> Array:
        """(n_items + 1, D): each item's row of the table that makes the scores, without its bias."""
        return p[self.scored][:, :-1] if self.biased else p[self.scored]

    def as_products(self, p: Any, h: Array) -> tuple[Array, Array]:
        """States and items whose products are the scores. Shapes: h (B, D) -> (B, F), (n_items + 1, F)."""
        return h, p[self.scored]

    def score_gradient(self, p: Any, h: Array, item: int) -> Array:
        """The gradient of an item's score by the state h. Shapes: h (D,) -> (D,)."""
        return p[self.scored][item]

    def score_items(self, p: Any, h: Array) -> Array:
        """(B, D) -> (B, n_items + 1): the score of every item as the next one; -inf for padding, column 0."""
        h, E = self.as_products(p, h)
        scores = h @ E.T                                                # (B, F) @ (F, n_items + 1)
        scores[:, 0] = -get_xp(h).inf
        return scores

    def score(self, p: Any, batch: Batch) -> Array:
        """(B, n_items + 1): the score of every item as the next one of each history."""
        return self.score_items(p, self.last_state(p, batch))


def last_position(batch: Batch) -> Array:
    """(B,): the position of the last item of each history."""
    return get_xp(batch.ids).sum(batch.ids != 0, axis=1) - 1
