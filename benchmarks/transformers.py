"""Does each model that is not a recommender reach its goal with default options?

    python benchmarks/transformers.py [--only MODEL]

Trains each model on every data set that comes with it, by `tinyattn train --model NAME`, one process after the other.
With --only, one model is trained, and the rows of the others stay. Writes benchmarks/results/transformers.json and .md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.children import environment
from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result
from tinyattn.data import IMAGE_SETS, TASKS
from tinyattn.models import MODELS, RunFolder, SequenceModel

RESULT, PAGE = RESULTS / "transformers.json", RESULTS / "transformers.md"
# table of the model: the flags of each of its data sets. A table that is not here has one data set, without flags.
DATA = {
    "pairs": [("--task", name) for name in TASKS],
    "images": [("--image-set", name) for name in IMAGE_SETS],
}


@dataclass(frozen=True)
class Goal:
    says: str                # what is measured on the test part
    bound: float
    least: bool              # is a larger value better?

    def met(self, value: float) -> bool:
        return value >= self.bound if self.least else value <= self.bound

    def __str__(self) -> str:
        return f"at {'least' if self.least else 'most'} {self.bound:g}"


GOALS = {                    # by the model's name or, if it is not here, by its first metric
    "encoder": Goal("loss in nats a selected character, less the lowest possible", 0.03, False),
    "exact": Goal("exact-match accuracy", 0.99, True),
    "accuracy": Goal("accuracy", 0.95, True),
    "nats": Goal("loss in nats a character, less the lowest possible", 0.02, False),
}


def trained() -> list[str]:
    return [name for name, cls in MODELS.items() if issubclass(cls, SequenceModel)]


def measure(model: str, flags: tuple[str, ...]) -> dict[str, Any]:
    """Train one model on one data set. The lowest possible loss, where known, is subtracted from that of a text."""
    with tempfile.TemporaryDirectory() as folder:
        run, begin = Path(folder) / "run", time.perf_counter()
        command = [sys.executable, "-m", "tinyattn", "train", "--model", model, *flags, "--out", str(run)]
        subprocess.run(command, check=True, cwd=ROOT, env=environment(ROOT), stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        metrics = RunFolder(run).metrics()
        epochs = len((run / "training.csv").read_text().splitlines()) - 1
    blocks = dict(metrics["model"])
    metric, value = next(iter(blocks.pop("test").items()))
    known = [row["test"][metric] for name, row in metrics.items() if name != "model"]
    return {
        "command": " ".join(["tinyattn train --model", model, *flags]), "model": model, "metric": metric,
        "value": value - sum(known), "seconds": seconds, "epochs": epochs, "blocks": blocks,
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| command | measured | | goal | met | epochs | seconds |", "|---|---|---:|---|---|---:|---:|"]
    for row in rows:
        goal, value = GOALS.get(row["model"]) or GOALS[row["metric"]], row["value"]
        cells = f"{'yes' if goal.met(value) else '**no**'} | {row['epochs']} | {row['seconds']:.0f}"
        lines.append(f"| `{row['command']}` | {goal.says} | {value:.4f} | {goal} | {cells} |")
    return "\n".join(lines)


def distances(rows: list[dict[str, Any]]) -> str:
    """Mean attention distance of each block's heads, divided by that of a head that weights all patches equally."""
    looking = [row for row in rows if row["blocks"]]
    blocks = max((list(row["blocks"]) for row in looking), key=len)
    lines = ["| command | " + " | ".join(blocks) + " |", "|---|" + "---:|" * len(blocks)]
    for row in looking:
        of = row["blocks"]
        cells = [f"{of[name]['mean'] / of[name]['alike']:.2f}" if name in of else "" for name in blocks]
        lines.append(f"| `{row['command']}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(result: dict[str, Any]) -> str:
    return f"""# Models that are no recommenders: their goals, by one command each

Each is trained once (seed 0) with its defaults on the data that comes with it, in a process of its own, and measured on
a tenth of the data that it has not seen. Seconds are those of the whole command: drawing the data, training, measuring,
pictures.

{table(result["rows"])}

Not measured here: {", ".join(sorted(set(trained()) - {row["model"] for row in result["rows"]})) or "none"}.

## Are lower layers local?

The mean distance between a patch and those it looks at, over all heads of a block, divided by that of a head that
looks at all patches alike: 1 is no preference, less is near (Dosovitskiy et al. 2021, figure 7). Windows make Swin's
blocks local where they are smaller than the grid; a stage has two blocks, and its grid half as many rows as the one
before. ViT would have to learn it: its blocks are local where their numbers are well below 1.

{distances(result["rows"])}

`python benchmarks/transformers.py`,
{made_on(*(row["machine"] for row in result["rows"]))}
"""


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=trained(), metavar="MODEL", help="train this one; other rows stay")
    only = parser.parse_args().only
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    for name in trained():
        if only not in (None, name):
            continue
        found = []
        for flags in DATA.get(MODELS[name].table, [()]):
            found.append(measure(name, flags) | {"machine": describe()})
            print(table(found).splitlines()[-1], flush=True)
        rows = [row for row in rows if row["model"] != name] + found
        rows.sort(key=lambda row: trained().index(row["model"]))
        write_result(RESULT, {"rows": rows})  # after each model, so that no result is lost
    write_pages(__file__, pages())
    print(page({"rows": rows}))


if __name__ == "__main__":
    main()
