"""Rank items that training lacks by their vectors: a generated world with known features, and ml-1m with genres.

    python benchmarks/cold_items.py [--ml-1m FOLDER] [--seeds 4]

A tenth of the items are cold: their interactions are left out of training. The target is a user's first cold item, if
at least three warm items come before it; these are the history. The target is ranked among all items, and among the
cold ones. Three SASRecs (cross-entropy) rank it: with item vectors instead of id embeddings, with both, and with ids
alone. The column "warm" is leave-one-out evaluation on the items of training.

In the generated world, `tastes`, people have one of 8 tastes; an item's vector is its log-probability under each.
FOLDER has ratings.dat and movies.dat of MovieLens 1M; without it, that part is skipped.

Writes benchmarks/results/cold_items.json and cold_items.md.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import RESULTS, describe, write_pages, write_result
from tinyattn.data import Interactions, ItemVectors, leave_one_out, read
from tinyattn.data.worlds.tastes import TasteWorld
from tinyattn.models import SASRec

RESULT, PAGE = RESULTS / "cold_items.json", RESULTS / "cold_items.md"
MODELS = {"vectors": False, "vectors and ids": True, "ids alone": None}  # with id embeddings? None: no vectors
OPTIONS: dict[str, Any] = {"loss": "ce", "dim": 32, "maxlen": 30, "epochs": 20, "lr": 3e-3, "patience": 5}


def of_world(users: int = 1_500) -> tuple[Interactions, ItemVectors]:
    world = TasteWorld(users=users, items=300)
    data, features = world.generate(), np.log(world._likes).T
    return data, ItemVectors(data.items.ids, (features - np.mean(features, axis=0))[data.items.ids - 1])


def of_movies(folder: Path) -> tuple[Interactions, ItemVectors]:
    """MovieLens 1M; an item's vector is its genres as zeros and ones, less the mean over items."""
    data = read([folder / "ratings.dat"])
    lines = (folder / "movies.dat").read_text(encoding="latin-1").splitlines()
    genres = {int(number): genres.split("|") for number, _, genres in (line.split("::") for line in lines)}
    names = sorted({name for of in genres.values() for name in of})
    vectors = np.array([[name in of for name in names] for of in genres.values()], dtype=np.float64)
    return data, ItemVectors(np.array(list(genres)), vectors - np.mean(vectors, axis=0))


def measure(data: Interactions, vectors: ItemVectors, seed: int, **options: Any) -> dict[str, Any]:
    """HR@10 of cold targets among all items and among the cold ones; NDCG@10 of warm targets."""
    rng = np.random.default_rng(seed)
    cold = np.zeros(data.n_items + 1, dtype=bool)
    cold[rng.choice(data.n_items, data.n_items // 10, replace=False) + 1] = True
    train = vectors.joined(data.where(~cold[data.flat]))
    split = leave_one_out(train)
    cases = list(_cases(data, cold))
    targets = train.items.numbers(data.items.decode(np.array([target for _, target in cases])))
    histories = [train.items.numbers(data.items.decode(history)) for history, _ in cases]
    is_cold = np.append(False, np.isin(train.items.ids, data.items.ids[cold[1:]]))
    chance = {"all": 10 / (len(is_cold) - 1 - np.mean([len(h) for h in histories])), "cold": 10 / np.sum(is_cold)}
    found: dict[str, Any] = {"users": len(cases), "cold items": int(np.sum(is_cold)), "chance": chance}
    for name, ids in MODELS.items():
        model = SASRec(**OPTIONS | {"seed": seed} | options)
        model.fit(split, progress=False, **({} if ids is None else {"item_vectors": vectors, "id_embeddings": ids}))
        scores = model.score(histories)
        for row, history in zip(scores, histories, strict=True):
            row[history] = -np.inf
        mine = scores[np.arange(len(targets)), targets][:, None]
        hits = {among: float(np.mean(ahead(scores[:, which], mine) < 10))
                for among, which in (("all", slice(None)), ("cold", is_cold))}  # fmt: skip
        found[name] = hits | {"warm": model.evaluate(split)["ndcg@10"]}
    return found


def ahead(scores: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """How many items precede the target, whose score is `mine`: items with the same score, as of equal vectors, half.

    Shapes: scores (B, V), the target's among them, mine (B, 1) -> (B,): the mean rank less one.
    """
    return np.sum(scores > mine, axis=1) + (np.sum(scores == mine, axis=1) - 1) / 2


def _cases(data: Interactions, cold: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
    """Each user's warm items before the first cold item, and the cold item itself."""
    for user in range(data.n_users):
        items = data.sequence(user)
        place = int(np.argmax(cold[items]))
        if place >= 3:
            yield items[:place], int(items[place])


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    lines = ["# Items that training lacks", ""]
    for title, runs in result["runs"].items():
        lines += [f"## {title}", "", "| | cold: HR@10 among all | cold: HR@10 among cold | warm: NDCG@10 |"]
        lines.append("|---|---|---|---|")
        chance = {among: np.mean([run["chance"][among] for run in runs]) for among in ("all", "cold")}
        lines.append(f"| chance | {chance['all']:.3f} | {chance['cold']:.3f} | |")
        for name in MODELS:
            cells = [_mean([run[name][what] for run in runs]) for what in ("all", "cold", "warm")]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        users, items = (np.mean([run[what] for run in runs]) for what in ("users", "cold items"))
        drawn = f"{users:,.0f} users and {items:,.0f} cold items, drawn anew for each of {len(runs)} seeds"
        lines += ["", f"{drawn}; means, with their standard errors.", ""]
    machine = result["machine"]
    lines += ["Popularity ranks cold items last: its hit rate is 0 among all, that of chance among the cold.", "",
              f"Commit {machine['commit']}, {machine['date']}.", "",
              "Made by `python benchmarks/cold_items.py`.", ""]  # fmt: skip
    return "\n".join(lines)


def _mean(values: list[float]) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.3f} ± {error:.3f}"


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ml-1m", type=Path, metavar="FOLDER")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    runs = {"The world tastes": [measure(*of_world(), seed) for seed in range(options.seeds)]}
    folder = options.ml_1m
    if folder is None or not all((folder / name).exists() for name in ("ratings.dat", "movies.dat")):
        print(f"skipped: MovieLens 1M with genres needs ratings.dat and movies.dat, and --ml-1m is {folder}")
    else:
        movies = of_movies(folder)
        runs["MovieLens 1M, genres"] = [measure(*movies, seed, dim=64, maxlen=50) for seed in range(options.seeds)]
    write_result(RESULT, {"machine": describe(), "runs": runs})
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
