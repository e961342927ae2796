"""TimeSVD++ on MovieLens 100K: how much each part of the model lowers the error, under three splits, and the best λ.

    python benchmarks/ratings.py --data DIR

DIR holds ml-100k.inter.gz, ratings with times; this data is not part of the project. Writes
benchmarks/results/ratings.json and ratings.md after each run, and skips a run that ratings.json already has.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, describe, made_on, write_pages, write_result
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
TRIED = (0.3, 1.0, 4.0, 20.0, 100.0)         # values of --l2-time, compared on validation alone
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
    if result["l2_time"]:
        lines += ["", "## λ of what changes with time", "", f"TimeSVD++, {SPLITS['user']} predicted: RMSE of the tenth "
                  "before it, on which the epoch is chosen too, with each `--l2-time`.", ""]  # fmt: skip
        lines += ["| `--l2-time` | RMSE on validation | seeds |", "|---|---|---|"]
        for tried, found in result["l2_time"].items():
            lines.append(f"| {tried} | {cell(list(found.values()), 4)} | {len(found)} |")
    lines += [
        "",
        f"Made by `python benchmarks/ratings.py --data DIR` with the default options on {made_on(machine)}.",
        "",
    ]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, metavar="DIR", help=f"the folder that holds {FILE}")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="how many seeds (default: 2)")
    options = parser.parse_args()
    path = options.data / FILE
    if not path.exists():
        print(f"skipped: {path} is not there")
        return
    data = read(path, ratings=True)
    about = {"file": FILE, "fingerprint": data.fingerprint()} | {
        name: value for name, value in data.report().items() if name in ("users", "items", "interactions")
    }
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {
        "machine": describe(), "data": about, "l2_time": {}, "splits": {}
    }  # fmt: skip
    if result["data"] != about:
        raise SystemExit(f"{RESULT} is of another {FILE}: move it away first")
    for seed in range(options.seeds):
        _try_each_lambda(data, seed, result)
        for by in SPLITS:
            _measure(data, by, seed, result)
    print(page(result))


def _measure(data: Any, by: str, seed: int, result: dict[str, Any]) -> None:
    """Measure every form on one split with one seed, except those that the result already has."""
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
            _keep(result)


def _try_each_lambda(data: Any, seed: int, result: dict[str, Any]) -> None:
    """The best RMSE on validation with each λ of TRIED that the result lacks. The test part is not used."""
    split = split_ratings(data, "user")
    for tried in TRIED:
        done = result["l2_time"].setdefault(f"{tried:g}", {})
        if str(seed) not in done:
            model = TimeSVDpp(l2_time=tried, seed=seed, workers=1).fit(split)
            done[str(seed)] = round(-max(epoch["valid"] for epoch in model.history), 5)
            print("l2_time", tried, seed, done[str(seed)], flush=True)
            _keep(result)


def _keep(result: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    write_result(RESULT, result)
    write_pages(__file__, pages())


def _rounded(errors: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in errors.items()}


if __name__ == "__main__":
    main()
