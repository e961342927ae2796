"""MovieLens 1M at n 200: SASRec with every position scheme, and with every mechanism in attention's place.

    python benchmarks/order_and_cost.py --data DIR              trains and measures every row
    python benchmarks/order_and_cost.py --data DIR --seconds    times a training step of all rows, side by side, for
                                                                the make of CPU that this is

DIR holds ml-1m.txt.gz, one `user item` a line (the form of SASRec's authors). The data is not part of this project.
The grid was fixed before the first run: 60 epochs and one seed for each row, but three seeds for full attention with
learned positions. So a difference between rows can be compared with the differences between seeds.
"""

import argparse
import json
import math
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import training_step
from benchmarks.children import Child, side_by_side
from benchmarks.machine import describe, short, write_pages, write_result
from benchmarks.peers import THREADS
from benchmarks.peers.child import write
from benchmarks.tables import Configuration, Table, main, page, pages_of
from tinyattn.models import SASRecNetwork

BATCH, ROUNDS = 128, 7
COMMON = {"maxlen": 200, "epochs": 60, "patience": 0, "workers": 1}


def row(title: str, seeds: int = 1, **arguments: Any) -> Configuration:
    return Configuration(title, COMMON | arguments, seeds)


def seconds(result: dict[str, Any], key: str) -> str:
    """Seconds of an epoch, and the ratio to the first row's (medians over rounds), on each make of CPU."""
    makes, cells = result.get("seconds", {}), []
    for cpu, found in makes.items():
        steps = found["steps"]
        if key in steps:
            epoch = math.ceil(result["data"]["users"] / BATCH) * float(np.median(steps[key]))
            ratio = float(np.median(np.array(steps[key]) / np.array(steps["full"])))
            cells.append(f"{epoch:.1f} ({ratio:.2f})" + (f" {short(cpu)}" if len(makes) > 1 else ""))
    return "; ".join(cells)


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
Every row is SASRec in its pre-LN form, d 50, two blocks, one head, BCE with one negative; mechanisms have learned
positions, position schemes full attention. Each run had 60 epochs without early stopping, and its best epoch was one of
the last five: most might have learned more ([sixty epochs are too few](reproduce/ablations/README.md)), and then their
order may be another. Seconds are those of an epoch's training steps on two workers, timed side by
side (`--seconds`), with their ratio to the first row's in brackets. A difference that is not larger than that between
two seeds of the first row says nothing. Sinusoids are added as they are, with entries of about .7 beside item
embeddings that begin far smaller; Kang & McAuley (2018, section III.A) found fixed positions worse, too.
""",
    more={"seconds an epoch": seconds},
)


def measure(data: Path, rounds: int) -> None:
    """Time a training step of every row. Rows train in turn on the same batches, each in processes of its own."""
    result = json.loads(TABLE.result.read_text())
    with ExitStack() as stack:
        start = {}
        for key, configuration in TABLE.configurations.items():
            parts = {
                name: value for name, value in configuration.arguments.items() if name in ("mechanism", "position")
            }
            network = SASRecNetwork(n_items=result["data"]["items"], maxlen=200, dim=50, blocks=2, dropout=0.2, **parts)
            shape = training_step.Configuration(configuration.title, training_step.ML_1M, BATCH, network)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            write(folder, *training_step.given(shape, data), None)
            start[key] = partial(Child, "tinyattn", folder)
        found = side_by_side(start, rounds, seed=0)
    steps = {key: row["seconds"] for key, row in found.items()}
    machine = describe()
    found_here = {"steps": steps, "workers": THREADS, "rounds": rounds, "machine": machine}
    result["seconds"] = result.get("seconds", {}) | {machine["cpu"]: found_here}
    write_result(TABLE.result, result)
    write_pages(__file__, pages())
    print(page(TABLE, result))


def pages() -> dict[Path, str]:
    return pages_of(TABLE)


if __name__ == "__main__":
    if "--seconds" in sys.argv[1:]:
        parser = argparse.ArgumentParser(description="Seconds of a training step of each row, beside one another.")
        parser.add_argument("--seconds", action="store_true", required=True)
        parser.add_argument("--data", required=True, type=Path, metavar="DIR", help=f"folder of {TABLE.file}")
        parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds (default: %(default)s)")
        options = parser.parse_args()
        measure(options.data, options.rounds)
    else:
        main(TABLE)
