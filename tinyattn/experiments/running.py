"""Carry an experiment out: one JSON a run, several runs side by side, stopped and resumed at will."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ..data import SPLITS, Split, Truth
from ..evaluation import best_items, candidates_for, coverage, evaluate, novelty, popularity_lift, popularity_of
from ..files import FileError, read_json, write_json
from ..machine import describe
from ..models import MODELS, NeuralRecommender, Recommender
from .experiment import Dataset, Experiment, Results, Row

KS = (5, 10)
K = 10                   # length of the lists that are looked at beyond accuracy
COMPARED = 200           # users whose lists are written down, so that models can be compared


def results_of(experiment: Experiment, out: Path, seeds: int | None = None) -> Results:
    """What the finished runs found, in the order of the rows. Raises FileError for a file of another grid."""
    found: dict[str, list[dict[str, Any]]] = {key: [] for key in experiment.rows}
    for key, seed in experiment.runs(seeds):
        path = file_of(out, key, seed)
        if path.exists():
            found[key].append(_expected(path, experiment.rows[key], seed))
    return found


def file_of(out: Path, key: str, seed: int) -> Path:
    return out / f"{key}-seed{seed}.json"


def carry_out(
    experiment: Experiment,
    folder: Path | None,
    out: Path,
    *,
    seeds: int | None = None,
    jobs: int = 2,
    say: Callable[[str], None] = print,
) -> None:
    """Every run that has no file yet. Raises FileError for a file of another grid, before anything is run.

    Rows whose data is not in `folder` are left out, and named. Each run has a process of its own and one thread. One
    that is interrupted goes on from its checkpoint, which stands beside the files until the run has finished.
    """
    results_of(experiment, out, seeds)                       # which refuses files that are not this experiment's
    here = {key: data for key, data in experiment.datasets.items() if data.world or data.path(folder)}
    for key in experiment.datasets.keys() - here.keys():
        say(f"left out: {experiment.datasets[key].title}, as there is no {experiment.datasets[key].file} in {folder}")
    runs = [(key, seed) for key, seed in experiment.runs(seeds) if experiment.rows[key].data in here]
    to_do = [(key, seed) for key, seed in runs if not file_of(out, key, seed).exists()]
    jobs = 1 if experiment.alone else jobs
    minutes = sum(experiment.rows[key].minutes for key, _ in to_do) / jobs
    done = len(runs) - len(to_do)
    say(f"{experiment.name}: {len(runs)} runs, {done} of them done; the others take about {_said(minutes)}")
    if not to_do:
        return
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with tqdm(total=len(to_do), unit="run") as bar, ProcessPoolExecutor(jobs, context, _prepare) as pool:
        waiting: dict[Future[None], str] = {}
        for key, seed in to_do:
            row = experiment.rows[key]
            given = (row, here[row.data], folder, seed, experiment.protocols, file_of(out, key, seed))
            waiting[pool.submit(_run, *given)] = key
        try:
            while waiting:
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    bar.set_postfix_str(waiting.pop(future))
                    future.result()                          # raises what the run raised
                    bar.update()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _prepare() -> None:
    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(row: Row, data: Dataset, folder: Path | None, seed: int, protocols: tuple[str, ...], path: Path) -> None:
    """Train, measure, write the file."""
    split, truth, candidates = _loaded(data, folder, protocols)
    model, work = make_model(row, seed), path.with_suffix(".work")
    began, history = time.monotonic(), []
    if isinstance(model, NeuralRecommender):
        work.mkdir(exist_ok=True)
        model.fit(split, checkpoint=work / "checkpoint.npz", progress=False)
        history = model.history
    else:
        model.fit(split)
    seconds = time.monotonic() - began
    found = evaluate(model, split, "test", KS, truth, candidates)
    write_json(path, {
        "row": _identity(row, seed),
        "data": {"fingerprint": split.data.fingerprint(), "users": split.data.n_users, "items": split.data.n_items,
                 "interactions": len(split.data)},
        "metrics": {p: {name: round(value, 5) for name, value in found[p].items()} for p in protocols},
        "beyond": _beyond(model, split),
        "seconds": round(seconds, 1),
        "epochs": len(history),
        "valid": [None if epoch["valid"] is None else round(epoch["valid"], 5) for epoch in history],
        "epoch_seconds": round(float(np.median([epoch["seconds"] for epoch in history])), 3) if history else None,
        "machine": describe(),
    })  # fmt: skip
    shutil.rmtree(work, ignore_errors=True)


def _beyond(model: Recommender, split: Split) -> dict[str, Any]:
    """What accuracy does not show, of each user's `K` best; and the lists of some users, evenly spaced."""
    best, counts = best_items(model.score, split, K), popularity_of(split)
    lift = popularity_lift(best, split.histories(split.evaluated, "test"), counts)
    some = np.linspace(0, len(best) - 1, min(COMPARED, len(best))).astype(int)
    return {
        f"coverage@{K}": round(coverage(best, split.data.n_items), 4), "novelty": round(novelty(best, counts), 3),
        "popularity": round(lift, 3), "best": best[some].tolist(),
    }  # fmt: skip


def make_model(row: Row, seed: int) -> Recommender:
    """The row's model, with one worker where it has any."""
    kind: Any = MODELS[row.model]
    return kind(**row.options, **({"seed": seed, "workers": 1} if issubclass(kind, NeuralRecommender) else {}))


@cache
def _loaded(
    data: Dataset, folder: Path | None, protocols: tuple[str, ...]
) -> tuple[Split, Truth | None, dict[str, np.ndarray]]:
    """Read once by each process, for all runs on the same data."""
    interactions, truth = data.load(folder)
    split = SPLITS[data.split](interactions)
    return split, truth, candidates_for(split, protocols)


def _identity(row: Row, seed: int) -> dict[str, Any]:
    """What a run's numbers depend on, as JSON."""
    return json.loads(json.dumps({"data": row.data, "model": row.model, "options": row.options, "seed": seed}))


def _expected(path: Path, row: Row, seed: int) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or found.get("row") != _identity(row, seed):
        raise FileError(f"{path} is of another grid: remove it, or give another --out")
    return found


def _said(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
