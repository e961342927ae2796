"""Learning rate and dropout of the hosts, found on their plain form before any refinement is run."""

from __future__ import annotations

from ..experiment import Experiment, Results
from ..tables import epochs, heading, minutes, page
from .grid import DATASETS, HOSTS, SETTINGS, TRIED, tried_rows


def best(results: Results, data: str, host: str) -> tuple[float, float] | None:
    """The settings that validate best, by NDCG@10; None while one of them has not been run."""
    found = {tried: results[f"{data}-{host}-{tried[0]:g}-{tried[1]}"] for tried in TRIED}
    if not all(found.values()):
        return None
    return max(found, key=lambda tried: max(found[tried][0]["valid"]))


def _page(experiment: Experiment, results: Results) -> str:
    lines = heading(["learning rate", "dropout", "best NDCG@10 on validation", "epochs", "minutes of training", ""])
    for data in DATASETS:
        for host, (title, *_) in HOSTS.items():
            for lr, dropout in TRIED:
                runs = results[f"{data}-{host}-{lr:g}-{dropout}"]
                cells = [f"{max(runs[0]['valid']):.4f}", epochs(runs), minutes(runs)] if runs else ["to come", "", ""]
                chosen = "**chosen**" if (lr, dropout) == best(results, data, host) else ""
                place = f"{title}, {DATASETS[data].title}"
                lines.append(f"| {place} | {lr:g} | {dropout} | {' | '.join(cells)} | {chosen} |")
    found = {place: best(results, *place) for place in SETTINGS}
    said = "The grid has other settings yet."
    if found == SETTINGS:
        said = "These are the settings of [all rows](../awrsr/README.md)."
    elif None in found.values():
        said = "Not all are found yet: until then [the grid](../awrsr/README.md) has settings that were guessed."
    return page(experiment, results, [lines, [said]])


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
