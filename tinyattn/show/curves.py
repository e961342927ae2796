"""How a training went, and how its result stands beside the baselines."""

from __future__ import annotations

from typing import Any

from .style import BLUE, GREEN, GREY, ORANGE, figure


def training_curves(history: list[dict[str, Any]], title: str = "") -> Any:
    """Loss and validation NDCG@10 by epoch, from the rows of training.csv. -> matplotlib figure."""
    epochs = [row["epoch"] for row in history]
    validated = [(row["epoch"], row["valid"]) for row in history if row["valid"] is not None]
    made, axes = figure(1, 2 if validated else 1, size=(8.4 if validated else 4.6, 3.0), squeeze=False)
    left = axes[0, 0]
    left.plot(epochs, [row["loss"] for row in history], color=BLUE)
    left.set(xlabel="epoch", ylabel="nats", title="training loss")
    if validated:
        right = axes[0, 1]
        right.plot(*zip(*validated, strict=True), color=ORANGE)
        best = max(validated, key=lambda pair: pair[1])
        right.plot(*best, "o", color=ORANGE)
        right.annotate(f"best: epoch {best[0]}", best, xytext=(-6, -14), textcoords="offset points", ha="right")
        right.set(xlabel="epoch", ylabel="NDCG@10", title="validation")
    if title:
        made.suptitle(title, x=0.01, ha="left", fontsize=11)
    return made


def metric_bars(rows: dict[str, dict[str, float]], names: tuple[str, ...], title: str = "") -> Any:
    """One group of bars a metric, one bar a row of the table, its value on it. -> matplotlib figure."""
    colours = {"popularity": "#c7c7c7", "markov": GREY, "model": BLUE, "optimum": GREEN}
    made, axes = figure(1, len(names), size=(2.9 * len(names), 3.0), squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        labels = list(rows)
        values = [rows[label][name] for label in labels]
        bars = ax.bar(labels, values, color=[colours.get(label, BLUE) for label in labels])
        ax.bar_label(bars, fmt="%.3f", fontsize=8)
        ax.tick_params(axis="x", labelrotation=20)
        ax.set(title=name.upper(), ylim=(0, 1.12 * max(values)))
    if title:
        made.suptitle(title, x=0.01, ha="left", fontsize=11)
    return made
