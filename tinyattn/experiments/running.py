"""Carry out an experiment: one JSON file a run, runs in parallel processes, interruptions resumed."""

import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ..backend import device_name
from ..data import SPLITS, Split, Truth
from ..evaluation import best_items, beyond_accuracy, candidates_for, evaluate, target_ranks
from ..files import FileError, alone_in, read_json, write_json
from ..machine import commit, describe
from ..models import MODELS, Estimator, Recommender, Trained
from ..terminal import progress_bar
from ..training import WorkerKilledError
from .experiment import TIMES, Dataset, Experiment, Results, Row, TaskData
from .paired import letters, packed, ranks_of, unpacked
from .whole import is_machine, is_whole

CHECKPOINT, STARTS = "checkpoint.npz", "starts.json"     # of an unfinished run
K = 10                   # length of the lists that are compared beyond accuracy
COMPARED = 200           # users whose lists are written


def results_of(experiment: Experiment, out: Path) -> Results:
    """The finished runs, by row. Raises FileError for a file of another grid, a damaged one, and runs on other data."""
    results: dict[str, list[dict[str, Any]]] = {key: [] for key in experiment.rows}
    first: dict[tuple[str, str], tuple[Any, Path]] = {}     # (dataset, name): the value of the first file, its path
    for key, seed in experiment.runs():
        path, data = file_of(out, key, seed), experiment.rows[key].data
        if not path.exists():
            continue
        run = _expected(path, experiment, key, seed)
        lists = {}
        if "beyond" in run:
            lists = dict(zip(("lists", "items a list"), unpacked(run["beyond"]["best"]).shape, strict=True))
        shared = {"fingerprint": run["data"]["fingerprint"], "ranks": len(ranks_of(run.get("ranks", ""))), **lists}
        for name, value in shared.items():
            expected, other = first.setdefault((data, name), (value, path))
            if value != expected:
                conflict = f"{path} was made on other data than {other}"
                if name != "fingerprint":
                    conflict = f"{path} has {value} {name}, and {other} has {expected}"
                raise FileError(f"{conflict}: remove one of them, or give another --out")
        results[key].append(run)
    return results


def with_remarks(experiment: Experiment, out: Path) -> Experiment:
    """The experiment with the remarks on the runs in `out`, if the folder has any."""
    path = out / "remarks.md"
    return replace(experiment, remarks=path.read_text(encoding="utf-8")) if path.is_file() else experiment


def file_of(out: Path, key: str, seed: int) -> Path:
    return out / f"{key}-seed{seed}.json"


def carry_out(
    experiment: Experiment, folder: Path | None, out: Path, *, jobs: int = 2, device: str = "cpu",
    say: Callable[[str], None] = print, begin: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Carry out every run without a file. `begin` is pickled, and called first in each process.

    Rows whose data is not in `folder` are left out, with a message. Each run has one process and one thread, and trains
    on `device`. An interrupted run continues from its checkpoint, here or on another machine; its file lists every
    machine and device. A failing run is reported; the others go on, and the first error is raised at the end.
    Raises ValueError for an unusable device, and for any but the CPU if the experiment compares seconds;
    WorkerKilledError if a run is killed. Before any run, raises FileError if no row has data, for files that
    `results_of` refuses, and if `out` cannot be written or is in use.
    """
    device_name(device)
    if experiment.alone and device != "cpu":
        raise ValueError(f"experiment {experiment.name} compares seconds of the CPU: device is {device}, expected cpu")
    results = results_of(experiment, out)
    missing = {key: data.missing(folder) for key, data in experiment.datasets.items()}
    here = {key for key, file in missing.items() if file is None}
    if not here:
        files = ", ".join(sorted({str(file) for file in missing.values()}))
        remedy = "give its folder with --data DIR" if folder is None else f"{folder} has none of them"
        raise FileError(f"experiment {experiment.name} is on {files}: {remedy}")
    for key in experiment.datasets.keys() - here:
        where = f"in {folder}" if folder else "without --data DIR"
        say(f"left out: {experiment.datasets[key].title}, as there is no {missing[key]} {where}")
    runs = [(key, seed) for key, seed in experiment.runs() if experiment.rows[key].data in here]
    to_do = [(key, seed) for key, seed in runs if not file_of(out, key, seed).exists()]
    jobs = 1 if experiment.alone else min(jobs, max(1, len(to_do)))
    minutes = sum(experiment.rows[key].minutes for key, _ in to_do) / jobs
    done = len(runs) - len(to_do)
    say(f"{experiment.name}: {len(runs)} runs, {done} of them done; the others take about {_duration(minutes)}")
    if not to_do:
        return
    _refuse_unwritable(out)
    known = {experiment.rows[key].data: run["data"]["fingerprint"] for key, done in results.items() for run in done}
    tasks, failures = [], []
    for key, seed in to_do:
        arguments = experiment, key, folder, seed, known.get(experiment.rows[key].data), file_of(out, key, seed), device
        tasks.append((f"{key}, seed {seed}", arguments))
    for key, seed in set(runs) - set(to_do):
        _clear(_work_of(file_of(out, key, seed)))            # a run may have been killed after it wrote its file
    shown = {"total": len(tasks), "unit": "run", "leave": True}
    with alone_in(out), progress_bar(False, **shown) as bar, _processes(jobs, begin) as pool:
        for name, future in _side_by_side(pool, jobs, tasks):
            bar.set_postfix_str(name)
            try:
                future.result()                              # raises the run's error
            except BrokenProcessPool:
                raise WorkerKilledError(f"{name}: a run was killed, perhaps because memory ran out") from None
            except Exception as error:
                say(f"{name}: failed: {error}")
                failures.append(error)
            bar.update()
    if failures:
        raise failures[0]


def _refuse_unwritable(out: Path) -> None:
    """Make the folder. Raises FileError where the folder, or a file in it, cannot be made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise FileError(f"cannot write to {out}: {error.strerror}") from None


@contextmanager
def _processes(jobs: int, begin: Callable[[], None] | None) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes. If the body raises, as by Ctrl-C, each process is interrupted, saves its step and ends.
    A second Ctrl-C kills them."""
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _prepare, (begin,)) as pool:
        try:
            yield pool
        except BaseException:
            started = set(multiprocessing.active_children()) - others
            try:
                for process in started:
                    os.kill(process.pid or 0, signal.SIGINT)
                pool.shutdown(wait=True, cancel_futures=True)
            except KeyboardInterrupt:
                for process in started:
                    process.kill()
            raise


def _prepare(begin: Callable[[], None] | None) -> None:
    """Set a process up: it has one thread, ignores Ctrl-C except in training, and ends with its parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    threadpool_limits(1)
    commit()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    if begin is not None:
        begin()


def _side_by_side(
    pool: ProcessPoolExecutor, jobs: int, tasks: Iterable[tuple[str, tuple[Any, ...]]]
) -> Iterator[tuple[str, Future[None]]]:
    """Yields the name and the future of each task, (name, arguments of `_run`), as it ends.

    The pool gets at most `jobs` tasks at a time, because after an interruption it would still begin waiting ones.
    """
    waiting: dict[Future[None], str] = {}
    coming = iter(tasks)
    while True:
        for name, arguments in islice(coming, jobs - len(waiting)):
            with _without_ctrl_c():
                waiting[pool.submit(_run, *arguments)] = name
        if not waiting:
            return
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            name = waiting.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):        # the error of every future in the pool
                name = " or ".join(sorted([name, *waiting.values()]))
            yield name, future


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which would print a traceback during their imports."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    known = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, known)


def _run(
    experiment: Experiment, key: str, folder: Path | None, seed: int, fingerprint: str | None, path: Path, device: str
) -> None:
    """Train, measure, write the file. Raises FileError for data with another `fingerprint`."""
    row = experiment.rows[key]
    data = experiment.datasets[row.data]
    try:
        loaded = _loaded(data, folder, experiment.protocols)
    except ValueError as error:                # some errors do not name the file
        raise ValueError(f"{data.title}: {error}") from None
    if fingerprint not in (None, loaded.about["fingerprint"]):
        raise FileError(f"{data.title} has changed since the finished runs in {path.parent} were made on")
    model, work = make_model(row, seed, device), _work_of(path)
    history: list[dict[str, Any]] = []
    paces, machines, how = [], [describe() | {"commit": commit()}], {}

    def on_epoch(so_far: list[dict[str, Any]]) -> None:
        history[:] = so_far
        paces.append(so_far[-1]["seconds"])

    if isinstance(model, Trained):
        work.mkdir(exist_ok=True)
        machines = _starts(work, machines[0] | ({} if device == "cpu" else {"device": device_name(device)}))
        how = {"checkpoint": work / CHECKPOINT, "progress": False, "on_epoch": on_epoch}
    began = ended = time.monotonic()

    def train_and_measure() -> dict[str, Any]:
        nonlocal ended
        try:
            model.fit(loaded.split, **how)
        finally:
            ended = time.monotonic()
        return DATA_KINDS[type(data)].measure(experiment, model, loaded)

    within = experiment.within
    measured = train_and_measure() if within is None else within(row, model, loaded.split, train_and_measure)
    # after a change of machines the first epoch is left out: the other machine may have begun it
    paces = paces[1:] if machines[1:] else [epoch["seconds"] for epoch in history]
    write_json(path, {
        "row": _identity(row, seed),
        "settings": model.identity(),
        "data": loaded.about,
        **measured,
        "seconds": round(ended - began, 1),
        "epochs": len(history),
        "valid": [None if epoch["valid"] is None else round(epoch["valid"], 5) for epoch in history],
        "loss": [float(f"{epoch['loss']:.5g}") for epoch in history],
        "gradient_norm": [float(f"{epoch['gradient_norm']:.4g}") for epoch in history],
        "epoch_seconds": round(float(np.median(paces)), 3) if paces else None,
        "machine": machines[-1],
        **({"before": machines[:-1]} if machines[1:] else {}),
    })  # fmt: skip
    _clear(work)


def _work_of(path: Path) -> Path:
    return path.with_suffix(".work")


def _starts(work: Path, machine: dict[str, Any]) -> list[dict[str, Any]]:
    """The machines of a run, each once, this one last; only this one without a checkpoint. FileError if damaged."""
    path = work / STARTS
    known = read_json(path) if path.exists() and (work / CHECKPOINT).exists() else []
    if not isinstance(known, list) or not all(map(is_machine, known)):
        raise FileError(f"{path} is damaged: remove {work}, and the run begins anew")
    machines = [*(other for other in known if {**other, "date": ""} != {**machine, "date": ""}), machine]
    write_json(path, machines)
    return machines


def _clear(work: Path) -> None:
    for name in (CHECKPOINT, STARTS):
        (work / name).unlink(missing_ok=True)
    with suppress(OSError):                    # missing, or not empty
        work.rmdir()


class Loaded(NamedTuple):
    """The data of a run."""

    split: Any                                  # the argument of fit
    about: dict[str, Any]                       # fingerprint and sizes, as JSON
    truth: Truth | None = None
    candidates: Any = None


class DataKind(NamedTuple):
    """How runs on one kind of data load and measure."""

    load: Callable[[Any, Path | None, tuple[str, ...]], Loaded]                       # (dataset, folder, protocols)
    measure: Callable[[Experiment, Any, Loaded], dict[str, Any]]                      # (experiment, model, data)
    metrics: Callable[[Experiment], Iterable[tuple[str, str]]]                        # (protocol, name) of a whole file


def _load_interactions(data: Dataset, folder: Path | None, protocols: tuple[str, ...]) -> Loaded:
    interactions, truth = data.load(folder)
    split = SPLITS[data.split](interactions)
    about = {"fingerprint": split.data.fingerprint(), "users": split.data.n_users, "items": split.data.n_items,
             "interactions": len(split.data)}  # fmt: skip
    return Loaded(split, about, truth, candidates_for(split, protocols))


def _measure_ranking(experiment: Experiment, model: Any, loaded: Loaded) -> dict[str, Any]:
    split = loaded.split
    metrics = evaluate(model, split, "test", experiment.ks, loaded.truth, loaded.candidates)
    return {
        "metrics": {p: _rounded(metrics[p]) for p in experiment.protocols},
        "beyond": _beyond(model, split),
        **({"ranks": letters(target_ranks(model, split, "test", {})["full"])} if experiment.per_user else {}),
        **(experiment.also(model, split) if experiment.also else {}),
    }


def _ranking_metrics(experiment: Experiment) -> Iterator[tuple[str, str]]:
    names = (*(f"{name}@{k}" for k in experiment.ks for name in ("hr", "ndcg")), "mrr")
    return ((protocol, name) for protocol in experiment.protocols for name in names)


def _load_task(data: TaskData, folder: Path | None, protocols: tuple[str, ...]) -> Loaded:
    parts = data.task.generate().split()
    return Loaded(parts, {"fingerprint": parts.test.fingerprint(), **parts.test.sizes})


def _measure_answers(experiment: Experiment, model: Any, loaded: Loaded) -> dict[str, Any]:
    task = loaded.split.test.task
    tested = {name: replace(task, length=TIMES[name] * task.length) for name in experiment.protocols}
    return {
        "metrics": {name: _rounded(model.evaluate(longer)) for name, longer in tested.items()},
        **(experiment.also(model, loaded.split) if experiment.also else {}),
    }


def _answer_metrics(experiment: Experiment) -> Iterator[tuple[str, str]]:
    return ((protocol, name) for protocol in experiment.protocols for name in ("accuracy", "loss"))


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in metrics.items()}


DATA_KINDS: dict[type, DataKind] = {
    Dataset: DataKind(_load_interactions, _measure_ranking, _ranking_metrics),
    TaskData: DataKind(_load_task, _measure_answers, _answer_metrics),
}


def _beyond(model: Recommender, split: Split) -> dict[str, Any]:
    """Metrics beyond accuracy of each user's `K` best items, and the lists of some users, evenly spaced."""
    best = best_items(model.score, split, K)
    coverage, novelty, popularity = beyond_accuracy(best, split).values()
    some = np.linspace(0, len(best) - 1, min(COMPARED, len(best))).astype(int)
    return {f"coverage@{K}": round(coverage, 4), "novelty": round(novelty, 3), "popularity": round(popularity, 3),
            "best": packed(best[some])}  # fmt: skip


def make_model(row: Row, seed: int, device: str = "cpu") -> Estimator:
    """The row's model; a trained one has one worker, on `device`."""
    kind: Any = MODELS[row.model]
    trained = {"seed": seed, "workers": 1, "device": device} if issubclass(kind, Trained) else {}
    return kind(**row.options, **trained)


@cache
def _loaded(data: Dataset | TaskData, folder: Path | None, protocols: tuple[str, ...]) -> Loaded:
    return DATA_KINDS[type(data)].load(data, folder, protocols)


def _identity(row: Row, seed: int) -> dict[str, Any]:
    """The settings that determine a run's numbers, as JSON."""
    identity = {"data": row.data, "model": row.model, "options": row.options, "seed": seed}
    return json.loads(json.dumps(identity | ({"bug": row.bug} if row.bug else {})))


def _expected(path: Path, experiment: Experiment, key: str, seed: int) -> dict[str, Any]:
    """The file of one run. Raises FileError for a file of another grid, and for an incomplete one."""
    run = read_json(path)
    row = experiment.rows[key]
    written, expected = run.get("row") if isinstance(run, dict) else None, _identity(row, seed)
    if written != expected:
        conflict = f"{path} is of another grid{_difference(_flat(written), _flat(expected))}"
        raise FileError(f"{conflict}: remove it, or give another --out")
    if isinstance(run.get("settings"), dict):                # older versions do not write the defaults
        now, then = make_model(row, seed).identity(), MODELS[row.model].upgrade_identity(run["settings"])
        if now != then:
            conflict = f"{path} was made with other defaults{_difference(then, now)}"
            raise FileError(f"{conflict}: remove it, or give another --out")
    if not is_whole(experiment, run, DATA_KINDS[type(experiment.datasets[row.data])].metrics(experiment)):
        raise FileError(f"{path} is damaged, or was made under other protocols: remove it, and it is run again")
    return run


def _flat(row: Any) -> dict[str, Any]:
    """The entries of a row with its options among them; {} for an invalid row."""
    whole = isinstance(row, dict) and isinstance(row.get("options"), dict)
    return {name: value for name, value in {**row, **row["options"]}.items() if name != "options"} if whole else {}


def _difference(written: dict[str, Any], expected: dict[str, Any]) -> str:
    """The first name with another value, or ""."""
    other = [name for name in written | expected if written.get(name) != expected.get(name)] if written else []
    return f", {other[0]} {written.get(other[0])!r}, expected {expected.get(other[0])!r}" if other else ""


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
