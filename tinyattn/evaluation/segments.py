"""Parts of the evaluated users, to see for whom a model is good."""

from collections.abc import Callable

import numpy as np

from ..data import Split

PARTS = 4                # of users, as equal as ties allow


def by_history(split: Split) -> dict[str, np.ndarray]:
    """By the number of items before the test item."""
    return _quantiles(split.data.lengths[split.evaluated] - 1, "items of history")


def by_popularity(split: Split) -> dict[str, np.ndarray]:
    """By how often the test item occurs in training."""
    counts = np.bincount(split.train.flat, minlength=split.data.n_items + 1)[split.test[split.evaluated]]
    return _quantiles(counts, "times in training")


def by_repeat(split: Split) -> dict[str, np.ndarray]:
    """By whether the user had the test item before."""
    data, test = split.data, split.test
    owner = data.owner
    times = np.bincount(owner[data.flat == test[owner]], minlength=data.n_users)[split.evaluated]
    return {"new to the user": times == 1, "had before": times > 1}


def by_cold(split: Split) -> dict[str, np.ndarray]:
    """By whether training has the test item."""
    known = np.isin(split.test[split.evaluated], split.train.flat)
    return {"in training": known, "not in training": ~known}


SEGMENTS: dict[str, Callable[[Split], dict[str, np.ndarray]]] = {
    "history": by_history, "popularity": by_popularity, "repeat": by_repeat, "cold": by_cold,
}  # fmt: skip


def _quantiles(values: np.ndarray, what: str) -> dict[str, np.ndarray]:
    """Masks of up to PARTS ranges of whole numbers (users,), by their quantiles; each value is in one range."""
    cuts = np.unique(np.quantile(values, np.arange(1, PARTS) / PARTS, method="lower"))
    place = np.searchsorted(cuts, values)                # range j has values above cuts[j - 1], up to cuts[j]
    segments = {}
    for j in np.unique(place).tolist():
        low, high = np.min(values[place == j]), np.max(values[place == j])
        segments[f"{low:,} {what}" if low == high else f"{low:,} to {high:,} {what}"] = place == j
    return segments
