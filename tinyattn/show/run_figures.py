"""The pictures of a run: learning curves, metrics, attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..data import Split
from .attention import attention_map
from .curves import metric_bars, training_curves
from .style import save


def draw_run(
    folder: Path, model: Any, split: Split, rows: dict[str, dict[str, float]], at: tuple[int, ...], title: str
) -> None:
    """Write metrics.png and, if the model learns and attends, training.png and attention.png.

    `rows` are metrics by name, `at` the cut-offs of HR and NDCG, of which the first is shown.
    """
    names = (f"hr@{at[0]}", f"ndcg@{at[0]}", "mrr")
    save(metric_bars(rows, names, model.name, title), folder / "metrics.png")
    if history := getattr(model, "history", None):
        save(training_curves(history, title), folder / "training.png")
    if getattr(model, "attends", False):
        lengths = split.data.lengths[split.evaluated]
        user = int(split.evaluated[np.argmin(np.abs(lengths - 20))])  # a history that fits a picture
        sequence = split.data.items.decode(split.histories(np.array([user]), "test")[0])[-20:]
        ids, weights = model.attention(sequence.tolist())
        picture = attention_map(weights, ids, f"{title}: who looks at whom, user {split.data.users.ids[user]}")
        save(picture, folder / "attention.png")
