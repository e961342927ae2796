"""Are attention weights worth refining? A replication of AWRSR (Liu et al. 2024): tables 2 and 3, figures 2 to 5."""

from ..experiment import Experiment
from .grid import DATASETS, LARGE, SEEDS, rows_of_grid
from .page import awrsr_page
from .pictures import attention_maps, maps_are_whole, pictures

EXPERIMENT = Experiment(
    name="awrsr",
    title="Paying attention to attention",
    question="""
AWRSR (Liu et al. 2024) computes new attention scores B from the scores A, by maps that are learned with the model. Each
refinement is compared with its backbone: the same model and settings without it; n 50, d 64. Full ranking, without
items that the user has had. The paper's numbers, one for each cell, are in italics; its counts show another version of
Beauty. The rows, and the verdict on cost, are explained in [docs/awrsr.md](../../../../docs/awrsr.md).
""",
    datasets=DATASETS | LARGE,
    rows=rows_of_grid(),
    page=awrsr_page,
    pictures=pictures,
    also=attention_maps,
    is_whole=maps_are_whole,
    norms=True,
    ks=(1, 5, 10, 20),
    per_user=True,
    seeds=SEEDS,
)
