"""The parameters of a model, and the table of a model that scores all histories alike."""

import json
from typing import Any

import numpy as np

from .. import __version__
from ..extras import optional
from ..files import csv_bytes
from ..models import Estimator, Popularity
from ..models.parameters import PREFIX


def about(model: Estimator) -> dict[str, str]:
    """The metadata of a file: the model, its options, and the ids of items, in order.

    Item i (counted from 1) is entry i - 1 of `items`. Entry i - 1 of `counts`, if the model has it, is the number of
    its training interactions. A model with a vector for each user has `users`, too.
    """
    named = [what for what in model.vocabularies if what == "items" or f"{PREFIX}{what}" in model.arrays()]
    metadata: dict[str, Any] = {"options": model.identity()}
    metadata |= {what: getattr(model, what).ids.tolist() for what in named}
    if (counts := getattr(model, "item_counts", None)) is not None:
        metadata["counts"] = counts.tolist()
    return {"tinyattn": __version__, "model": model.name} | {
        name: json.dumps(value, ensure_ascii=False) for name, value in metadata.items()
    }


def safetensors(model: Estimator) -> bytes:
    """Every learned array by its name in the tree of parameters; metadata are `about` and arrays of words, as JSON.

    Raises ValueError for a model that has not learned, ImportError without the package safetensors.
    """
    model.fitted()
    package = optional("safetensors.numpy", "writing .safetensors needs its package", "export")
    arrays = {name.removeprefix(PREFIX): x for name, x in model.arrays().items()}
    words = {name: json.dumps(x.tolist(), ensure_ascii=False) for name, x in arrays.items() if x.dtype.kind == "U"}
    numbers = {name: np.ascontiguousarray(x) for name, x in arrays.items() if name not in words}
    content: bytes = package.save(numbers, metadata=about(model) | words)
    return content


def popularity_table(model: Estimator) -> bytes:
    """CSV: item and score, the most popular item first. Raises ValueError for a model without such a table."""
    if not isinstance(model, Popularity):
        raise ValueError(f"model {model.name} scores each history separately: it has no table of items (.csv)")
    ids, counts = model.fitted().ids, model.counts[1:]
    order = np.argsort(-counts, kind="stable")
    return csv_bytes([["item", "score"], *zip(ids[order].tolist(), counts[order].tolist(), strict=True)])
