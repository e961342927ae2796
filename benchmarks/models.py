"""One table for docs/models.md: every model on three real data sets, from the runs of three experiments.

    python benchmarks/models.py

It reads benchmarks/results/reproduce/sampled, full and splits, and trains nothing.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, ROOT, read_no_arguments, write_pages
from tinyattn.experiments import EXPERIMENTS, Results, Row, results_of
from tinyattn.experiments.tables import cell, ended_by_limit, heading, made, minutes

PAGE = ROOT / "docs" / "models.md"
SETS = ("MovieLens 1M", "Beauty", "Beauty, by time", "Games, among 100")
READ = ("sampled", "full", "splits")
FULL, UNI100 = ("full", "ndcg@10"), ("uni100", "ndcg@10")
# {title: (model, key of its run in `sampled`, key of its run in `full`)}
MODELS = {
    "popularity": ("`popularity`", "popularity", "popularity"),
    "Markov chain": ("`markov`", "markov", "markov"),
    "item cosine": ("`cosine`", "cosine", "cosine"),
    "EASE": ("`ease`", "ease", "ease"),
    "MF": ("`mf`", "mf", None),
    "FISM": ("`fism`", "fism", None),
    "FPMC": ("`fpmc`", "fpmc", None),
    "Fossil": ("`fossil`", "fossil", None),
    "Caser": ("`caser`", "caser", None),
    "NARM": ("`narm`", "narm", None),
    "GRU4Rec": ("`gru4rec`", "gru4rec", None),
    "GRU4Rec, BPR-max": ("`gru4rec`", "gru4rec-plus", None),
    "GRU4Rec, cross-entropy": ("`gru4rec`", None, "gru4rec"),
    "BERT4Rec": ("`bert4rec`", "bert4rec", "bert4rec"),
    "SASRec, BCE": ("`sasrec`", "sasrec", "bce"),
    "SASRec, gBCE": ("`sasrec`", None, "gbce"),
    "SASRec, sampled softmax": ("`sasrec`", None, "sampled-softmax"),
    "SASRec, cross-entropy": ("`sasrec`", None, "ce"),
    "eSASRec": ("`sasrec`", None, "esasrec"),
    "HSTU, without times": ("`sasrec`", None, "hstu"),
}
BY_TIME = {"GRU4Rec, cross-entropy": "gru4rec-ce"}  # a model whose run in `splits` has another key


def column(runs: list[dict[str, Any]], metric: tuple[str, str]) -> str:
    """Mean and standard deviation over seeds; empty if there are no runs."""
    protocol, name = metric
    return cell([run["metrics"][protocol][name] for run in runs], digits=3)


def table(read: dict[str, Results]) -> str:
    lines = heading(["`--model`", *SETS, "minutes of training on MovieLens 1M"])
    printed: dict[str, list[dict[str, Any]]] = {}
    rows: dict[str, Row] = {}
    for title, (flags, one, other) in MODELS.items():
        dense = ("full", f"ml-1m-{other}") if other else ("sampled", f"ml-1m-{one}")
        by_time = ("splits", f"beauty-time-{BY_TIME.get(title) or other or one}")
        shown = dense, ("full", other and f"beauty-{other}"), by_time, ("sampled", one and f"games-{one}")
        runs = [read[experiment].get(key or "", []) for experiment, key in shown]
        cells = [flags, *map(column, runs, (FULL, FULL, FULL, UNI100)), minutes(runs[0]) if runs[0] else ""]
        for name, found, (experiment, key) in zip(SETS, runs, shown, strict=True):
            if found:
                printed[f"{title} on {name}"], rows[f"{title} on {name}"] = found, EXPERIMENTS[experiment].rows[key]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    caption = ("NDCG@10, mean ± standard deviation over seeds; an empty cell has no run. Minutes are the mean number "
               "of epochs at the pace of the quickest run:")  # fmt: skip
    sizes = [size(read[experiment], key, title) for title, experiment, key in (
        (SETS[0], "full", "ml-1m-bce"), (SETS[1], "full", "beauty-bce"), (SETS[3], "sampled", "games-sasrec"))
    ]  # fmt: skip
    notes = """What was run on MovieLens 1M (on Beauty and Games with dropout .5 and patience 8; on Games with at most
100 epochs, and SASRec with d 50):"""
    commands = ["```text", *(command(one, other) for _, one, other in MODELS.values()), "```"]
    how = [f"{' '.join(sizes)} {made(printed)}", "", ended_by_limit(rows, printed)]
    return "\n".join([caption, "", *lines, "", *how, "", notes, "", *commands])


def command(one: str | None, other: str | None) -> str:
    """The command that trains the model as it was run on MovieLens 1M."""
    row = EXPERIMENTS["full" if other else "sampled"].rows[f"ml-1m-{other or one}"]
    return " ".join(["tinyattn train ml-1m.txt --model", row.model, *itertools.starmap(flag, row.options.items())])


def flag(name: str, value: Any) -> str:
    """An option in the syntax of `tinyattn train`."""
    name = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {value:g}" if isinstance(value, float) else f"--{name} {value}"


def size(results: Results, key: str, title: str) -> str:
    """A sentence about the size of a data set, from the runs' results."""
    data = results[key][0]["data"]
    each = data["interactions"] / data["users"]
    return f"{title}: {data['users']:,} users, {data['items']:,} items, {each:.0f} interactions a user."


def pages() -> dict[Path, str]:
    return {PAGE: table({name: results_of(EXPERIMENTS[name], RESULTS / "reproduce" / name) for name in READ})}


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
