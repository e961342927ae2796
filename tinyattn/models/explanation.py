"""Which earlier items made a recommendation? Three answers, and how far they agree.

An item's effect is defined by leaving it out and scoring again. Attention and gradients are compared with that:
attention weights need not explain the output (Jain & Wallace 2019, Attention is not Explanation).
"""

from typing import Any, NamedTuple

import numpy as np

from .. import backend
from ..data import TimedHistory, pad
from ..evaluation import all_ranks
from .choosing import in_order
from .neural import NeuralRecommender
from .next_item import last_position
from .recommender import Recommender

LEFT_OUT, GRADIENT, ATTENTION = "left out", "gradient", "attention"


class Explanation(NamedTuple):
    """The effect of each item of `history` on the score of `item`, by several methods."""

    item: Any                          # its id
    history: np.ndarray                # (n,) ids of the newest items, which the model reads; oldest first
    effects: dict[str, np.ndarray]     # name -> (n,)

    def agreement(self) -> dict[tuple[str, str], float]:
        """Spearman's rank correlation of each pair of methods; NaN where all effects of one are equal."""
        names = list(self.effects)
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        return {(a, b): rank_correlation(self.effects[a], self.effects[b]) for a, b in pairs}


def explain(model: Recommender, sequence: Any, item: Any = None, user: Any = None, times: Any = None) -> Explanation:
    """Which items of a history make the score s of `item` (default: the best recommendation)?

        left out    s(history) - s(history without the j-th item)
        gradient    x_j · ∂s/∂x_j, with x_j the embedding of the j-th item: for neural models that read one
        attention   the weights of the last position, mean over blocks and heads: for SASRec, STOSA, BERT4Rec
                    and NARM (whose weights do not sum to 1)

    The first holds for every model. The second estimates to first order how far the score falls when the embedding
    becomes 0 (gradient times input; Simonyan, Vedaldi & Zisserman 2013 use the gradient alone).
    Only the newest items, which the model reads, get effects; no older item replaces one that is left out. `times`, for
    a model that reads them, are those of `recommend`; an item is left out with its time. Raises ValueError for an
    unknown id (named), for times that do not fit or are missing, and for a history of fewer than two items.
    """
    vocabulary, sequence = model.fitted(), in_order(sequence, "sequence")
    history = model.read_history(sequence, times)[-getattr(model, "maxlen", len(sequence)) :]
    if len(history) < 2:
        seen = f"the model looks at {len(history)} of the history's items"
        raise ValueError(f"{seen}, expected at least 2: one is left out")
    timed = isinstance(history, TimedHistory)
    ids = vocabulary.decode(history.items if timed else history)
    users = None if user is None else [user]
    if item is None:
        if len(np.unique(vocabulary.numbers(sequence))) == len(vocabulary):
            raise ValueError("the history has every item, and nothing is left to recommend: name the item to explain")
        when = [history.seconds] if timed else None
        item = model.recommend([ids], 1, exclude=sequence, users=users, times=when)[0][0, 0]
    (number,) = vocabulary.numbers([item]).tolist()
    owner = model.user_numbers([user])
    effects = {LEFT_OUT: left_out(model, history, number, owner)}
    if isinstance(model, NeuralRecommender):
        if (gradient := gradient_times_input(model, history, number, owner)) is not None:
            effects[GRADIENT] = gradient
        if (weights := attention_of_the_last(model, history, owner)) is not None:
            effects[ATTENTION] = weights
    return Explanation(vocabulary.decode(np.array([number]))[0], ids, effects)


def left_out(model: Recommender, history: Any, item: int, owner: np.ndarray) -> np.ndarray:
    """s(history) - s(history without the j-th item), for every j. Shapes: history (n,), owner (1,) -> (n,)."""
    delete = TimedHistory.without if isinstance(history, TimedHistory) else np.delete
    histories: list[Any] = [history, *(delete(history, j) for j in range(len(history)))]
    scores = np.asarray(model.score(histories, np.repeat(owner, len(histories)))[:, item], dtype=np.float64)
    return scores[0] - scores[1:]


def attention_of_the_last(model: NeuralRecommender, history: Any, owner: np.ndarray) -> np.ndarray | None:
    """The attention of the last position to each item. Shapes: history (n,), owner (1,) -> (n,).

    Where that position is a [MASK], its weight for itself is left out. None without attention.
    """
    network, p = model.network, model.parameters
    batch = network.asking(pad([history], model.maxlen, owner, network.n_items).to(backend.get_xp(p[network.scored])))
    blocks = [backend.to_numpy(weights)[0] for weights in network.weights(network.forward(p, batch)[1])]
    if not blocks:
        return None
    mean = np.mean(np.array(blocks)[:, :, last_position(batch)[0]], axis=(0, 1)).astype(np.float64)
    return _of_items(mean, backend.to_numpy(batch.ids[0]), network.n_items, len(history))


def gradient_times_input(
    model: NeuralRecommender, history: Any, item: int, owner: np.ndarray
) -> np.ndarray | None:
    """x_j · ∂s/∂x_j for every j, by `score_gradient` and `backward`. Shapes: history (n,), owner (1,) -> (n,).

    It is 0 for items that are not read. None where the network does not read the items' embeddings.
    """
    network, p = model.network, model.parameters
    xp = backend.get_xp(p[network.scored])
    batch = network.asking(pad([history], model.maxlen, owner, network.n_items).to(xp))
    h, cache = network.forward(p, batch)
    dh = xp.zeros_like(h)
    last = last_position(batch)[0]
    dh[0, last] = network.score_gradient(p, h[0, last], item)
    dx, _ = network.backward(p, dh, cache)
    if dx is None:
        return None
    each = backend.to_numpy(xp.sum(dx[0] * p["items"][network.item_rows(batch)[0]], axis=-1)).astype(np.float64)
    return _of_items(each, backend.to_numpy(batch.ids[0]), network.n_items, len(history))


def _of_items(values: np.ndarray, ids: np.ndarray, n_items: int, n: int) -> np.ndarray:
    """A value for each of n items: 0 for the oldest, which were not read. Shapes: values, ids (L,) -> (n,)."""
    read = values[(ids >= 1) & (ids <= n_items)]
    return np.concatenate([np.zeros(n - len(read)), read])


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """ρ = corr(rank(a), rank(b)); equal values have the mean of their ranks (Spearman 1904).

    Shapes: a, b (n,). NaN where all values of one are equal.
    """
    first, second = (rank - np.mean(rank) for rank in all_ranks(np.stack([a, b])))
    size = np.sqrt(np.sum(first**2) * np.sum(second**2))
    return float(np.sum(first * second) / size) if size else float("nan")
