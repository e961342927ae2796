"""TimeSVD++ on MovieLens 100K: what each part of the model takes off the error, under two splits.

    python benchmarks/ratings.py --data DIR

DIR holds ml-100k.inter.gz, ratings with times. Writes benchmarks/results/ratings.json after each run, and ratings.md;
a run that the file has already is not repeated. The data is not part of this project.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, describe, write_pages, write_result
from tinyattn.data import read, split_ratings
from tinyattn.evaluation import RATING_BASELINES, rating_errors
from tinyattn.experiments.tables import cell
from tinyattn.models import TimeSVDpp

FILE = "ml-100k.inter.gz"
RESULT, PAGE = RESULTS / "ratings.json", RESULTS / "ratings.md"
SPLITS = {"random": "a random tenth", "time": "the newest tenth of all", "user": "each user's newest tenth"}
FORMS: dict[str, dict[str, Any]] = {
    "biases": {"dim": 0, "time": False},
    "matrix factorisation": {"time": False, "implicit": False},
    "SVD++": {"time": False},
    "TimeSVD++": {},
}
BASELINES = {"mean": "mean rating", "biases": "damped biases, closed form"}


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    data, machine = result["data"], result["machine"]
    lines = [
        "# Ratings that change with time",
        "",
        f"MovieLens 100K: {data['users']:,} users, {data['items']:,} items, {data['interactions']:,} ratings. A tenth "
        "is predicted; a tenth before it, or another random one, chooses the epoch. RMSE and MAE: lower is better. "
        "With several seeds: mean ± standard deviation. [What the model is](../../docs/ratings.md).",
    ]
    for split, title in SPLITS.items():
        rows = result["splits"].get(split)
        if not rows:
            continue
        lines += ["", f"## Predicted: {title}", "", "| | RMSE | MAE | epochs | seeds |", "|---|---|---|---|---|"]
        for name, values in rows["baselines"].items():
            lines.append(f"| {BASELINES[name]} | {values['rmse']:.4f} | {values['mae']:.4f} | | |")
        for name in FORMS:
            runs = list(rows["runs"].get(name, {}).values())
            if runs:
                cells = [cell([run[metric] for run in runs], 4) for metric in ("rmse", "mae")]
                epochs = cell([run["epochs"] for run in runs], 0)
                lines.append(f"| **{name}** | {' | '.join(cells)} | {epochs} | {len(runs)} |")
    lines += [
        "",
        f"Made by `python benchmarks/ratings.py --data DIR` with the default options on {machine['cores']} cores of "
        f"{machine['cpu']}, NumPy {machine['numpy']}, Python {machine['python']}, {machine['date']}.",
        "",
    ]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help=f"the folder that holds {FILE}")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="of initialisation and order (default: 2)")
    options = parser.parse_args()
    path = options.data / FILE
    if not path.exists():
        print(f"skipped: {path} is not there")
        return
    data = read(path, ratings=True)
    about = {"file": FILE, "fingerprint": data.fingerprint()} | {
        name: value for name, value in data.report().items() if name in ("users", "items", "interactions")
    }
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {"machine": describe(), "data": about, "splits": {}}
    for seed in range(options.seeds):
        for by in SPLITS:
            _measure(data, by, seed, result)
    print(page(result))


def _measure(data: Any, by: str, seed: int, result: dict[str, Any]) -> None:
    """Every form on one split with one seed, less what has been measured."""
    split = split_ratings(data, by)
    rows = result["splits"].setdefault(by, {"baselines": {}, "runs": {}})
    for name, make in RATING_BASELINES.items():
        rows["baselines"][name] = _rounded(rating_errors(make(split.train)(split.test), split.test.ratings))
    for name, form in FORMS.items():
        done = rows["runs"].setdefault(name, {})
        if str(seed) not in done:
            model, began = TimeSVDpp(**form, seed=seed, workers=1), time.monotonic()
            model.fit(split)
            seconds = round(time.monotonic() - began)
            done[str(seed)] = _rounded(model.evaluate(split)) | {"epochs": len(model.history), "seconds": seconds}
            print(by, name, seed, done[str(seed)], flush=True)
            RESULTS.mkdir(exist_ok=True)
            write_result(RESULT, result)
            write_pages(__file__, pages())


def _rounded(errors: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in errors.items()}


if __name__ == "__main__":
    main()
