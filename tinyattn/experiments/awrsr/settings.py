"""Learning rate and dropout of the hosts, found on their plain form before any refinement is run."""

from __future__ import annotations

from ..experiment import Experiment, Results
from ..tables import epochs, heading, minutes, page
from .claims import scores
from .grid import DATASETS, DEEP_TRIED, HOSTS, SETTINGS, TRIED, layers, tried_key, tried_rows


def best(results: Results, data: str, host: str, depth: int = 1) -> tuple[float, float] | None:
    """The settings that validate best, by NDCG@10; None while one of them has not been run."""
    found = {tried: results[tried_key(data, host, depth, *tried)] for tried in TRIED}
    if not all(found.values()):
        return None
    return max(found, key=lambda tried: max(scores(found[tried][0])))


def _table(results: Results, places: list[tuple[str, str, int]]) -> list[str]:
    lines = heading(["learning rate", "dropout", "best NDCG@10 on validation", "epochs", "minutes of training", ""])
    for data, host, depth in places:
        place = f"{HOSTS[host][0]}, {DATASETS[data].title}{layers(depth)}"
        for lr, dropout in TRIED:
            runs = results[tried_key(data, host, depth, lr, dropout)]
            cells = [f"{max(scores(runs[0])):.4f}", epochs(runs), minutes(runs)] if runs else ["to come", "", ""]
            mark = "**best**" if (lr, dropout) == best(results, data, host, depth) else ""
            lines.append(f"| {place} | {lr:g} | {dropout} | {' | '.join(cells)} | {mark} |")
    return lines


def _page(experiment: Experiment, results: Results) -> str:
    found = {place: best(results, *place) for place in SETTINGS}
    said = "The grid has other settings yet."
    if found == SETTINGS:
        said = "The best are the settings of [all rows](../awrsr/README.md)."
    elif None in found.values():
        said = "Not all are found yet: until then [the grid](../awrsr/README.md) has settings that were guessed."
    deep = ["## With several layers", "Asked after the first deep runs of the grid, whose settings stay those above."]
    shallow = [(data, host, 1) for data in DATASETS for host in HOSTS]
    return page(experiment, results, [_table(results, shallow), [said], *([line] for line in deep),
                                      _table(results, [DEEP_TRIED])])  # fmt: skip


EXPERIMENT = Experiment(
    name="awrsr-settings",
    title="Paying attention to attention: the hosts' settings",
    question="""
Two learning rates and two rates of dropout for each host on each data set, one run each, with a seed that no row of
the replication has. The host and all of its refinements are given the settings with the best NDCG@10 on validation.
""",
    datasets=DATASETS,
    rows=tried_rows(),
    page=_page,
    seeds=1,
    first_seed=100,
)
