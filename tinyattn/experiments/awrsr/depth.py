"""STOSA with several layers (table 3): a separate experiment, as it takes longer than all other runs."""

from ..datasets import BEAUTY
from ..experiment import Experiment, Results
from ..tables import TRAINING, grid, page, table
from .claims import gain
from .grid import AT_DEPTH, COLUMNS, DEPTHS, SEEDS, published_gain, row_of


def _key(form: str, depth: int) -> str:
    return f"stosa-{form}-{depth}"


def _page(experiment: Experiment, results: Results) -> str:
    keys = [_key(form, depth) for depth in DEPTHS for form in AT_DEPTH]
    gains = ((experiment.rows[_key(form, depth)].title, [
        gain(results[_key(form, depth)], results[_key("none", depth)]),
        f"*{published_gain('beauty', 'stosa', form, depth):+.1%}*",
    ]) for depth in DEPTHS for form in AT_DEPTH[1:])  # fmt: skip
    columns = ["gain in NDCG@5, as a share of the backbone's (95 % over seeds)", "published"]
    return page(experiment, results, [table(experiment, results, keys, COLUMNS, TRAINING), grid(columns, gains)])


EXPERIMENT = Experiment(
    name="awrsr-depth",
    title="Paying attention to attention: STOSA with several layers",
    question="""
Table 3 of Liu et al. (2024) has STOSA with one to four layers on Beauty. These are its rows with M_simp and M_add, with
the settings of [all others](../awrsr/README.md). No verdict there depends on them.
""",
    datasets={"beauty": BEAUTY},
    rows={_key(form, depth): row_of("beauty", "stosa", form, depth) for depth in DEPTHS for form in AT_DEPTH},
    page=_page,
    ks=(1, 5, 10, 20),
    seeds=SEEDS,
)
