"""Train on Amazon Video Games, as prepared by SASRec's authors, and write the table of results.

    python benchmarks/games_kang205.py --data DIR

DIR holds games-kang205.txt.gz, one `user item` a line. The data is not part of this project.
"""

import sys
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.tables import Configuration, Table, main, pages_of

TABLE = Table(
    name="games-kang205",
    heading="Amazon Video Games",
    file="games-kang205.txt.gz",
    configurations={
        "code": Configuration(
            "SASRec, released code's form, d 50, BCE",
            {"maxlen": 50, "block_form": "sasrec", "dropout": 0.5, "epochs": 200, "patience": 0},
            bands={("uni100", "hr@10"): (0.737, 0.012), ("uni100", "ndcg@10"): (0.534, 0.012)},
        ),
    },
    published=[("SASRec (Kang & McAuley 2018)", "", "", ".7410", ".5360", "", "")],
)

def pages() -> dict[Path, str]:
    return pages_of(TABLE)


if __name__ == "__main__":
    main(TABLE)
