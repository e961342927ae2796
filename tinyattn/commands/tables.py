"""Tables of metrics, and lists of items."""

import argparse
from typing import Any, NamedTuple

import numpy as np

from ..data import ItemNames, Truth
from ..evaluation import evaluate, over_samples
from ..models import BASELINES
from ..terminal import quoted

ROWS = (*BASELINES, "model", "optimum")  # the order of a printed table
TITLES = {
    "full": "full ranking, among the items that the user has not had",
    "uni100": "among 100 items drawn uniformly from those not in the user's training part",
    "pop100": "among 100 unseen items drawn by popularity",
}
EXPLODED = 1000.0         # nats for a target: logits in the thousands
RATED = "ratings of the test part, predicted; lower is better"


def title_of(protocol: str, split: Any) -> str:
    """The candidates and the targets of a protocol, in words."""
    kept = protocol == "full" and split.repeats == "keep"
    title = "full ranking, among all items, also those that the user has had" if kept else TITLES[protocol]
    return title + (", of all items of the window" if split.targets == "all" else "")


class Evaluation(NamedTuple):
    """What a model is measured on, and the options of the command."""

    options: argparse.Namespace
    source: Any
    truth: Truth | None              # the true distribution of the next item, where it is known
    split: Any
    prepared: Any                    # what `Measure.prepare` returned: candidates by protocol, or None


def metric_rows(model: Any, on: Evaluation) -> dict[str, Any]:
    """{row: {protocol: {metric: value}}} of the model, of each of `options.baselines`, and of the world's optimum."""
    split, options, world = on.split, on.options, on.source.world
    users = model.users.numbers_or_zero(split.data.users.ids)  # the model's numbers for the users

    def measured(score: Any, users: np.ndarray | None = None) -> dict[str, Any]:
        metrics = evaluate(score, split, "test", options.at, on.truth, on.prepared, users)
        return {protocol: metrics[protocol] for protocol in options.protocols}

    rows = {"model": measured(model, users)}
    rows |= {name: measured(BASELINES[name]().fit(split)) for name in options.baselines}
    if world is not None:
        rows["optimum"] = measured(lambda histories, users: world.best_ranking(histories))
    return rows


def print_table(metrics: dict[str, Any], model: Any, on: Evaluation) -> None:
    valid_users = getattr(model, "valid_users", None)
    if valid_users is not None:
        print(f"\nvalidated on {valid_users:,} users, drawn by seed {model.seed}; measured on all:")
    titles = _titles(metrics, model)
    for protocol in [name for name in metrics["model"] if name in TITLES]:
        expected = on.truth is not None and protocol == "full"
        under = ", expected under the world's true distribution" if expected else ""
        rows = {title: metrics[row][protocol] for row, title in titles.items()}
        print_rows(f"\n{title_of(protocol, on.split)}{under}", rows)
    print()


def _titles(metrics: dict[str, Any], model: Any) -> dict[str, str]:
    """The title of each row, in the order of a table. A baseline that equals the model has no separate row."""
    is_baseline = metrics.get(model.name) == metrics["model"]
    is_variant = model.name in metrics and not is_baseline
    titles = {row: row for row in ROWS if row in metrics and not (row == model.name and is_baseline)}
    titles["model"] = f"this {model.name}" if is_variant else model.name
    return titles


def print_folds(folds: dict[str, tuple[dict[str, Any], Evaluation]], model: Any) -> None:
    """Print the model's metrics in each fold, their mean and its 95 % interval over folds, and means of baselines."""
    several = list(folds.values())
    titles = _titles(several[0][0], model)
    for protocol, names in several[0][0]["model"].items():
        rows: dict[str, Any] = {
            title: {"users": len(on.split.evaluated)} | metrics["model"][protocol]
            for title, (metrics, on) in folds.items()
        }
        for row, called in titles.items():
            ends = {name: over_samples([metrics[row][protocol][name] for metrics, _ in several]) for name in names}
            shown = ("mean", "low", "high") if row == "model" else ("mean",)
            for what in shown:
                title = {"mean": f"mean, {called}", "low": "95 % from", "high": "to"}[what]
                rows[title] = {name: getattr(end, what) for name, end in ends.items()}
        print_rows(f"\n{title_of(protocol, several[0][1].split)}, {len(folds)} folds", rows)
    print()


def notes_on(model: Any, rows: dict[str, Any], split: Any) -> list[str]:
    """Warnings for a reader of the table, as lines.

    They name metrics that are 1 for any model, a model below popularity, a loss that has exploded, and a model that
    was still improving in its last epoch.
    """
    notes, protocol = notes_on_candidates(rows["model"], split), next(iter(rows["model"]))
    mine, others = rows["model"][protocol], rows.get("popularity", {}).get(protocol, {})
    ndcg = next((name for name in reversed(mine) if name.startswith("ndcg@")), None)
    if ndcg is not None and ndcg in others and mine[ndcg] < others[ndcg]:
        notes.append(f"{model.name} ranks below popularity: {ndcg.upper()} {mine[ndcg]:.4f}, and {others[ndcg]:.4f}")
    scores = [row["valid"] for row in getattr(model, "history", []) if row["valid"] is not None]
    losses = [row["loss"] for row in getattr(model, "history", [])]
    if losses and (losses[-1] > 10 * min(losses) or losses[-1] > EXPLODED):
        was = f", and was {min(losses):.4g}" if losses[-1] > min(losses) else ""
        notes.append(f"the loss is {losses[-1]:.4g} after epoch {len(losses)}{was}: a smaller --lr may help")
    if len(scores) == getattr(model, "epochs", 0) and len(scores) > 1 and max(scores[:-1]) < scores[-1]:
        notes.append(f"the last of {len(scores)} epochs was the best on the validation part: try more --epochs")
    return notes


def notes_on_candidates(metrics: dict[str, dict[str, Any]], split: Any) -> list[str]:
    """Which hit rates, or recalls, can only be 1; `metrics` has the names of each protocol's metrics as keys."""
    notes = []
    for protocol, names in metrics.items():
        hits = [name for name in names if name.startswith(("hr@", "recall@"))]
        most = max((int(name.partition("@")[2]) for name in hits), default=0)
        if not most:
            continue
        metric = "Recall" if hits[0].startswith("recall") else "HR"
        if protocol != "full":
            who = f"{protocol} ranks 101 items" if most > 100 else ""
        else:
            few = int(np.sum(split.candidates <= most))
            who = f"{few:,} of {len(split.evaluated):,} users have at most {most} candidates" if few else ""
        notes += [f"{who}: {metric}@{most} is 1 for any model"] if who else []
    return notes


def print_means(heading: str, metrics: dict[str, Any], of: str, model: Any) -> None:
    """Print a heading, and a line for each row of `metrics`, {row: {of: {metric: value}}}."""
    rows = {model.name if row == "model" else row: values[of] for row, values in metrics.items()}
    print_rows(f"\n{heading}", rows)
    print()


def print_rows(heading: str, rows: dict[str, dict[str, float]], digits: int = 4) -> None:
    """Print a line of names, and a line for each row, {row: {name: value}}."""
    widths = {name: max(10, len(name) + 2) for name in max(rows.values(), key=len)}
    first = max(12, *(len(title) + 1 for title in rows))
    print(f"{heading}\n{'':{first}}" + "".join(f"{name.upper():>{width}}" for name, width in widths.items()))
    for title, values in rows.items():
        cells = [_number(values[name], digits) if name in values else "" for name in widths]
        line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths.values(), strict=True))
        print(f"{title:{first}}{line}")


def _number(value: float, digits: int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}f}"


def print_distances(distances: dict[str, dict[str, float]]) -> None:
    """Print the result of `distances_by_head`, a line for each block."""
    heading = "mean attention distance of each head, in pixels, and that of uniform attention"
    print_rows(heading, distances, digits=2)                # blocks may differ in heads
    print()


def print_items(ids: np.ndarray, scores: np.ndarray, names: ItemNames) -> None:
    """Print a line for each item: place, id, score, and the name where it has one."""
    labels = [quoted(item) for item in ids]
    width = max(map(len, labels))
    for place, (item, label, score) in enumerate(zip(ids, labels, scores, strict=True), start=1):
        print(f"{place:4}  {label:>{width}}  {score:8.3f}  {names.of(item)}".rstrip())


def print_history(history: list[Any], names: ItemNames) -> None:
    """Print the newest five items of a history, as a heading."""
    newest = ", ".join(map(names.label, history[-5:])) or "an empty history"
    print(f"after {'..., ' if len(history) > 5 else ''}{newest}:")
