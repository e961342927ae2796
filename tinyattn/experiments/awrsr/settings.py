"""Learning rate and dropout of the backbones, chosen on their plain form before any refinement is run."""

from ..experiment import Experiment, Results
from ..tables import epochs, grid, minutes, page
from .claims import scores
from .grid import BACKBONES, DATASETS, DEEP_TRIED, SETTINGS, TRIED, layers, tried_key, tried_rows


def best(results: Results, data: str, backbone: str, depth: int = 1) -> tuple[float, float] | None:
    """The settings with the best validation NDCG@10; None before all have been run."""
    runs = {tried: results[tried_key(data, backbone, depth, *tried)] for tried in TRIED}
    return max(runs, key=lambda tried: max(scores(runs[tried][0]))) if all(runs.values()) else None


def _table(results: Results, places: list[tuple[str, str, int]]) -> list[str]:
    rows = []
    for data, backbone, depth in places:
        for lr, dropout in TRIED:
            runs = results[tried_key(data, backbone, depth, lr, dropout)]
            cells = [f"{max(scores(runs[0])):.4f}", epochs(runs), minutes(runs)] if runs else ["to come", "", ""]
            mark = "**best**" if (lr, dropout) == best(results, data, backbone, depth) else ""
            title = f"{BACKBONES[backbone][0]}, {DATASETS[data].title}{layers(depth)}"
            rows.append((title, [f"{lr:g}", f"{dropout}", *cells, mark]))
    return grid(["learning rate", "dropout", "best NDCG@10 on validation", "epochs", "minutes of training", ""], rows)


def _page(experiment: Experiment, results: Results) -> str:
    chosen = {place: best(results, *place) for place in SETTINGS}
    remark = "The grid still has other settings."
    if chosen == SETTINGS:
        remark = "The best are the settings of [all rows](../awrsr/README.md)."
    elif None in chosen.values():
        remark = "Not all are found yet: until then [the grid](../awrsr/README.md) has settings that were guessed."
    shallow = [(data, backbone, 1) for data in DATASETS for backbone in BACKBONES]
    return page(experiment, results, [
        _table(results, shallow), [remark], ["## With several layers"],
        ["Tried after the first deep runs of the grid, which keep the settings above."],
        _table(results, [DEEP_TRIED]),
    ])  # fmt: skip


EXPERIMENT = Experiment(
    name="awrsr-settings",
    title="Paying attention to attention: the backbones' settings",
    question="""
Two learning rates and two rates of dropout for each backbone on each data set, one run each, with a seed that no row of
the replication has. The backbone and all of its refinements have the settings with the best NDCG@10 on validation.
""",
    datasets=DATASETS,
    rows=tried_rows(),
    page=_page,
    seeds=1,
    first_seed=100,
)
