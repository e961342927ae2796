"""From scores to the best items that may be recommended."""

from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from typing import Any

import numpy as np

from ..data import Vocabulary
from ..evaluation import top
from ..terminal import shortened


def refuse_k(k: int, most: int, of: str = "items") -> None:
    """Raise ValueError unless 1 <= k <= `most`, the number of items."""
    if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= most:
        raise ValueError(f"k is {k}, expected 1 to {most}, the number of {of}")


def in_order(values: Any, what: str) -> list[Any]:
    """Ordered ids as a list. Raises ValueError for a text, and for a set or mapping."""
    try:
        if not isinstance(values, str | bytes | Set | Mapping):
            return list(values)
    except TypeError:                    # not iterable
        pass
    raise ValueError(f"{what} is {shortened(repr(values))}, expected a list")


def refuse_text(ids: Any, what: str) -> Any:
    """The ids, unchanged. Raises ValueError for a text, which would be split into letters."""
    if isinstance(ids, str | bytes):
        raise ValueError(f"{what} is {shortened(repr(ids))}, expected several ids, as a list")
    return ids


def best_of(
    scores: np.ndarray, histories: list[np.ndarray], k: int, vocabulary: Vocabulary, exclude: Iterable[Any],
    only: Iterable[Any] | None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The k best candidates of each row, best first, without the items of its history, if any. Writes into `scores`.

    Shapes: scores (B, n_items + 1) -> ids (B, k), scores (B, k). Raises ValueError where a score is NaN, and where
    fewer than k items are left.
    """
    refuse_damaged(scores)
    scores[:, 0] = -np.inf
    scores[:, vocabulary.numbers(refuse_text(exclude, "exclude"))] = -np.inf
    if only is not None:
        others = np.ones(len(vocabulary) + 1, dtype=bool)
        others[vocabulary.numbers(refuse_text(only, "only"))] = False
        scores[:, others] = -np.inf
    for row, history in zip(scores, histories, strict=False):
        row[history] = -np.inf
    best = top(scores, k)
    values = scores[np.arange(len(scores))[:, None], best].astype(np.float64)
    if values.min() == -np.inf:
        fewest = int(np.min(np.sum(scores > -np.inf, axis=1)))
        raise ValueError(f"k is {k}, but only {fewest} {'item is' if fewest == 1 else 'items are'} left")
    return vocabulary.decode(best), values


def refuse_damaged(scores: np.ndarray) -> None:
    """Raise ValueError where a score or weight is NaN."""
    if np.isnan(scores.max(initial=-np.inf)):                        # a maximum is NaN where any score is
        raise ValueError("the model's scores are NaN: its parameters are damaged")
