"""STOSA with several layers, which table 3 has: by itself, as its runs take longer than all others together."""

from __future__ import annotations

from ..datasets import BEAUTY
from ..experiment import Experiment, Results
from ..tables import TRAINING, heading, page, table
from .claims import gain
from .grid import AT_DEPTH, COLUMNS, DEPTHS, SEEDS, published_gain, row_of


def _key(form: str, depth: int) -> str:
    return f"stosa-{form}-{depth}"


def _page(experiment: Experiment, results: Results) -> str:
    """Every row, and each refinement less the host with as many layers."""
    keys = [_key(form, depth) for depth in DEPTHS for form in AT_DEPTH]
    rows = table(experiment, results, keys, COLUMNS, TRAINING)
    lines = heading(["NDCG@5 less the host's, as a share of that, 95 % over seeds", "published"])
    for depth in DEPTHS:
        host = results[_key("none", depth)]
        for form in AT_DEPTH[1:]:
            mine = _key(form, depth)
            title, theirs = experiment.rows[mine].title, published_gain("beauty", "stosa", form, depth)
            lines.append(f"| {title} | {gain(results[mine], host)} | *{theirs:+.1%}* |")
    return page(experiment, results, [rows, lines])


EXPERIMENT = Experiment(
    name="awrsr-depth",
    title="Paying attention to attention: STOSA with several layers",
    question="""
Table 3 of Liu et al. (2024) has STOSA with one to four layers on Beauty. These are its rows with M_simp and M_add, with
the settings of [all others](../awrsr/README.md). No verdict there hangs on them.
""",
    datasets={"beauty": BEAUTY},
    rows={_key(form, depth): row_of("beauty", "stosa", form, depth) for depth in DEPTHS for form in AT_DEPTH},
    page=_page,
    ks=(1, 5, 10, 20),
    seeds=SEEDS,
)
