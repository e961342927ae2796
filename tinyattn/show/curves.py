"""The pictures of a run: training curves, and bars that compare a model with the baselines."""

from pathlib import Path
from typing import Any

import numpy as np

from ..data import Split
from .array_map import NUMBERS
from .attention import attention_map
from .style import BLUE, GREEN, GREY, ORANGE, figure, in_style, save


@in_style
def training_curves(
    history: list[dict[str, Any]], title: str = "", unit: str = "nats", criterion: str = "NDCG@10",
    of: str = "validation, on the items drawn",
) -> Any:  # fmt: skip
    """Loss and validation score by epoch, from the rows of training.csv. -> matplotlib figure."""
    epochs = [row["epoch"] for row in history]
    validated = [(row["epoch"], row["valid"]) for row in history if row["valid"] is not None]
    fig, axes = figure(1, 2 if validated else 1, (8.4 if validated else 4.6, 3.0), title, squeeze=False)
    left = axes[0, 0]
    left.plot(epochs, [row["loss"] for row in history], color=BLUE)
    left.set(xlabel="epoch", ylabel=unit, title="training loss")
    if validated:
        right = axes[0, 1]
        right.plot(*zip(*validated, strict=True), color=ORANGE)
        best = max(validated, key=lambda pair: pair[1])
        right.plot(*best, "o", color=ORANGE)
        right.annotate(f"best: epoch {best[0]}", best, xytext=(-6, -14), textcoords="offset points", ha="right")
        right.set(xlabel="epoch", ylabel=criterion, title=of)
    return fig


@in_style
def metric_bars(
    rows: dict[str, dict[str, float]], names: tuple[str, ...], model: str = "model", title: str = ""
) -> Any:
    """Bars for each metric, one for each row; `model` is the label of row "model". -> matplotlib figure."""
    colours = {"popularity": "#a8a8a8", "markov": GREY, "model": BLUE, "optimum": GREEN}
    highest = max(row[name] for row in rows.values() for name in names) or 1.0
    fig, axes = figure(1, len(names), (2.9 * len(names), 3.0), title, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        values = [row[name] for row in rows.values()]
        labels = [model if row == "model" else row for row in rows]
        bars = ax.bar(labels, values, color=[colours.get(row, GREY) for row in rows])
        ax.bar_label(bars, fmt="%.3f", fontsize=8)
        ax.tick_params(axis="x", labelrotation=20)
        ax.set(title=name.upper(), ylim=(0, 1.12 * highest))
    return fig


@in_style
def sweep_dots(groups: dict[str, list[Any]], column: tuple[str, str]) -> Any:
    """A row for each group of runs: a dot at each run's `metrics[column]`, a bar at the mean. -> matplotlib figure."""
    fig, ax = figure(size=(6.4, 1.0 + 0.32 * len(groups)))
    for place, runs in enumerate(groups.values()):
        values = [run.metrics[column] for run in runs if column in run.metrics]
        ax.plot(values, [place] * len(values), "o", color=BLUE, alpha=0.6, markersize=5)
        if values:
            ax.plot(sum(values) / len(values), place, "|", color=ORANGE, markersize=14, markeredgewidth=2)
    ax.set(yticks=range(len(groups)), yticklabels=list(groups), xlabel=f"{column[1].upper()}, {column[0]}")
    ax.invert_yaxis()
    return fig


def draw_run(
    folder: Path, model: Any, split: Split, rows: dict[str, dict[str, float]], at: tuple[int, ...], title: str
) -> None:
    """Write metrics.png; training.png if the model has a history of training, attention.png if it has attention.

    metrics.png shows the metrics of `rows` at `at[0]`. attention.png shows the last layer's weights between the newest
    eight items of one user.
    """
    names = tuple(name for name in next(iter(rows.values())) if name.endswith((f"@{at[0]}", "mrr")))
    save(metric_bars(rows, names, model.name, title), folder / "metrics.png")
    if history := getattr(model, "history", None):
        save(training_curves(history, title), folder / "training.png")
    if getattr(model, "attends", False):
        lengths = split.data.lengths[split.evaluated]
        user = int(split.evaluated[np.argmin(np.abs(lengths - 20))])
        history = split.histories(np.array([user]), "test")[0]
        times = split.data.timed(user, len(history)).seconds[-NUMBERS:] if model.reads_times else None
        ids, weights = model.attention(split.data.items.decode(history[-NUMBERS:]).tolist(), times)
        heads = [f"layer {len(weights)}, head {head + 1}" for head in range(weights.shape[1])]
        caption = f"{title}: who looks at whom, user {split.data.users.ids[user]}"
        picture = attention_map(weights[-1], ids, caption, names=heads)
        save(picture, folder / "attention.png")
