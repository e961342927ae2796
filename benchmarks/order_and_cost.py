"""MovieLens 1M at n 200: SASRec with every position scheme, and with every mechanism in attention's place.

    python benchmarks/order_and_cost.py --data DIR

DIR holds ml-1m.txt.gz, one `user item` a line (the form of SASRec's authors). The data is not part of this project.
The grid was written down before the first run: 60 epochs each, one seed, and three seeds of full attention with learned
positions, so that a difference can be held against that of another seed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.tables import Configuration, Table, main

COMMON = {"maxlen": 200, "epochs": 60, "patience": 0, "workers": 1}


def row(title: str, seeds: int = 1, **arguments: Any) -> Configuration:
    return Configuration(title, COMMON | arguments, seeds)


TABLE = Table(
    name="order-and-cost",
    heading="MovieLens 1M, n 200: position schemes and mechanisms",
    file="ml-1m.txt.gz",
    configurations={
        "full": row("full attention, learned positions", seeds=3),
        "none": row("no positions", position="none"),
        "sinusoidal": row("sinusoidal positions", position="sinusoidal"),
        "shaw": row("Shaw's relative positions", position="shaw"),
        "t5": row("T5's buckets", position="t5"),
        "rope": row("RoPE", position="rope"),
        "alibi": row("ALiBi", position="alibi"),
        "xl": row("Transformer-XL's relative positions", position="xl"),
        "window": row("a window of 16", mechanism="window"),
        "longformer": row("Longformer", mechanism="longformer"),
        "bigbird": row("BigBird", mechanism="bigbird"),
        "strided": row("strided sparse attention", mechanism="strided"),
        "linear": row("linear attention", mechanism="linear"),
        "performer": row("Performer", mechanism="performer"),
    },
    published=[],
    remarks="""
Every row is SASRec in its pre-LN form, d 50, two blocks, one head, BCE with one negative; mechanisms stand with learned
positions, schemes with full attention.
""",
)

if __name__ == "__main__":
    main(TABLE)
