"""An item table from given vectors, such as those of texts: a linear adapter maps each vector to a row.

    E = F A + I        F (items + 1, W) are the vectors, frozen; A (W, D) is learned, and so are the id embeddings I

The network has to use one table, `items`, for its input and its scores. E takes the place of that table, and the
network's backward gives dE; then dA = Fᵀ dE and dI = dE. Where the loss reads few rows of E, these alone are made. An
item that is not in the training data has no row of I, but a row of F A, so it can be recommended. I begins at 0.
(DropoutNet, Volkovs et al. 2017, also adds a part computed from content to a part learned from interactions.)
"""

from typing import Any, NamedTuple

from ..backend import Array, asarray, get_xp, is_numpy
from ..data import Interactions, ItemVectors, Vocabulary, distinct
from ..layers import glorot
from ..terminal import quoted
from ..tree import Rows


class VectorNetwork(NamedTuple):
    """`network` with the item table F A + I, or F A alone. It has the methods that training needs."""

    network: Any
    F: Array                 # (items + 1, W), on the host
    every: Array             # (n + 1, W): F of all items, also those that training lacks
    occurring: Array         # (items,): the row of `every` that is row 1, 2, ... of F
    id_embeddings: bool

    def init(self, rng: Any) -> dict[str, Any]:
        """The parameters of `network`, and `adapter` (W, D); without `items` where there are no id embeddings."""
        p: dict[str, Any] = self.network.init(rng)
        items = p.pop("items")
        p["adapter"] = glorot(rng, self.F.shape[1], items.shape[1])
        return p | {"items": 0 * items} if self.id_embeddings else p

    def loss(self, p: Any, batch: Any, rng: Any = None) -> tuple[Any, Any]:
        inner = p | {"items": self._table(p, self.network.rows_read(batch).get("items"))}
        value, cache = self.network.loss(inner, batch, rng)
        return value, (inner, cache)

    def _table(self, p: Any, read: Array | None) -> Array:
        """F A + I, or F A, (items + 1, D). On the host rows that are not in `read`, if given, may be 0."""
        F, A = self._vectors(p), p["adapter"]
        xp = get_xp(A)
        rows = distinct(read) if read is not None and is_numpy(xp) else None
        if rows is None or 2 * len(rows) > len(F):
            return F @ A + p["items"] if self.id_embeddings else F @ A
        E = xp.zeros((len(F), A.shape[1]), A.dtype)
        E[rows] = F[rows] @ A + (p["items"][rows] if self.id_embeddings else 0)
        return E

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        inner, remembered = cache
        grads: dict[str, Any] = self.network.loss_backward(inner, dloss, remembered)
        dE = grads.pop("items")
        F, rows = self._vectors(p), dE
        if isinstance(dE, Rows):
            F, rows = F[dE.ids], dE.values
        grads["adapter"] = F.T @ rows                                     # E = F A + I
        return grads | {"items": dE} if self.id_embeddings else grads

    def rows_read(self, batch: Any) -> dict[str, Array]:
        """As `NextItemNetwork.rows_read`, of the id embeddings."""
        read: dict[str, Array] = self.network.rows_read(batch)
        return read if self.id_embeddings else {name: ids for name, ids in read.items() if name != "items"}

    def _vectors(self, p: Any) -> Array:
        """F on the device of p, in its dtype."""
        return asarray(self.F, like=p["adapter"]).astype(p["adapter"].dtype, copy=False)

    def whole(self, p: Any) -> dict[str, Any]:
        """The parameters of the plain network over all items: a table instead of adapter and id embeddings."""
        E = asarray(self.every, like=p["adapter"]) @ p["adapter"]
        if self.id_embeddings:
            E[asarray(self.occurring, like=E)] += p["items"][1:]
        return {name: leaf for name, leaf in p.items() if name != "adapter"} | {"items": E}


def with_vectors(
    model: Any, data: Interactions, vectors: ItemVectors, id_embeddings: bool, start: Any
) -> tuple[Interactions, VectorNetwork]:
    """The interactions with their items renumbered from 1, and the network to train; negatives are among these items.

    Raises ValueError for a model without a single table of items, for a `start`, and where an item would have neither a
    vector nor an id embedding.
    """
    if not model.takes_vectors or model.make_network(1, 1).scored != "items":
        untied = "untied " * model.takes_vectors
        raise ValueError("item vectors need one table of items, for input and scores: expected model sasrec, tied, not "
                         f"{untied}{model.name}")  # fmt: skip
    if start is not None:
        raise ValueError("item vectors and a model to start from, which has no adapter, do not go together")
    occurring = distinct(data.flat)
    known = data.in_numbers_of(Vocabulary(data.items.decode(occurring), data.items.what))
    without = vectors.missing(known.items)
    if len(without) and not id_embeddings:
        raise ValueError(f"{vectors.name} has no vector of {len(without):,} of {len(known.items):,} items of training, "
                         f"such as {quoted(without[0])}: expected all, or id embeddings beside them")  # fmt: skip
    network = model.make_network(known.n_items, data.n_users)
    F, every = vectors.table(known.items), vectors.table(data.items)
    return known, VectorNetwork(network, F, every, occurring, id_embeddings)
