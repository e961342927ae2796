"""The command `tinyattn`: train, evaluate, recommend, show, check, course."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .arguments import BASELINES, MODELS, parser
from .data import Interactions, SeriesWorld, Split, leave_one_out, read
from .evaluation import draw_candidates, evaluate, read_candidates, save_candidates
from .evaluation.protocol import Truth
from .models import Recommender, RunFolder, SASRec
from .training import DivergedError, InterruptedRunError, WorkerKilledError

ROWS = (*BASELINES, "model", "optimum")  # the order of a printed table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. -> exit code: 0 done, 2 could not (one line on standard error says why), 130 interrupted.

    1 where whoever read the output has gone, and where `check` finds something wrong.
    """
    options = parser().parse_args(arguments)
    try:
        code = COMMANDS[options.command](options)
    except InterruptedRunError as stop:
        print(f"\ntinyattn: {stop}; the same command goes on from there", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("\ntinyattn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError as error:
        print(f"tinyattn: not enough memory for this size ({error})", file=sys.stderr)
        return 2
    except (ValueError, DivergedError, WorkerKilledError, OSError, ImportError) as error:
        print(f"tinyattn: {error}", file=sys.stderr)
        return 2
    return code or 0


def train(options: argparse.Namespace) -> None:
    """`tinyattn train`: data in, RUN out. Everything that can be refused is refused before training begins."""
    given = {f.name: getattr(options, f.name) for f in fields(SASRec) if hasattr(options, f.name)}
    model = MODELS[options.model](**given)
    source = _Source.of(options)
    data, truth = source.load()
    if data.n_users < 2:
        raise ValueError(f"{source.title} has a single user: there is nothing to learn from others")
    split = leave_one_out(data)
    run = RunFolder(options.out or f"runs/{options.model}-{source.name}")
    config = {
        "model": options.model,
        "parameters": model.identity(),
        "data": source.describe() | {"fingerprint": data.fingerprint(), **_sizes(data)},
        "evaluation": {"at": list(options.at), "protocols": options.protocols, "baselines": options.baselines},
        "tinyattn": __version__,
    }
    model.sampler(split.train)                           # refuses what cannot be trained on
    candidates = _candidates(split, options)
    run.claim(config)
    print(f"{options.model} on {source.title}: {_told(data)}")
    if run.finished:
        print(f"{run.path} is complete; another --out, or removing it, trains again")
        _print_table(run.metrics(), options.model, truth is not None)
        return

    if run.checkpoint.exists():
        print(f"going on from {run.checkpoint}")
    with run.unclaimed_on_failure():
        model.fit(split, checkpoint=run.checkpoint, on_epoch=run.write_history)
    run.write_history(model.history)
    rows = _rows(model, split, options, source, truth, candidates)
    run.write_results(model, rows)                       # before anything that could fail to be drawn
    _draw(run.figures, model, split, rows, options.at, f"{options.model} on {source.name}")
    run.finish()
    _print_table(run.metrics(), options.model, truth is not None)
    print(f"written to {run.path}: model.npz, config.json, metrics.json, training.csv, figures/")


def measure(options: argparse.Namespace) -> None:
    """`tinyattn evaluate`: the table of a finished run, measured again, or on other data with the same items."""
    model, source, data, truth = _open(options)
    split = leave_one_out(_in_the_models_ids(data, model))
    print(f"{model.name} of {options.run_folder} on {source.title}: {_told(data)}")
    rows = _rows(model, split, options, source, truth, _candidates(split, options))
    _print_table(rows, model.name, truth is not None)


def describe(options: argparse.Namespace) -> None:
    """`tinyattn data`: what is in a file, and how it was understood."""
    report = _Source.of(options).load()[0].report()
    report |= {f"length, {name}": value for name, value in report.pop("length").items()}
    ties = report.pop("ties", None)
    for name, value in report.items():
        shown = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        print(f"{name.replace('_', ' '):24}{shown:>14}")
    if ties is not None:
        print(f"{'last two events tie':24}{ties:>14.1%} of users: chance decides which of them is the test item")


def recommend(options: argparse.Namespace) -> None:
    """`tinyattn recommend`: the best next items for a history, or for a user of the data."""
    history, user, model = _history(options)
    ids, scores = model.recommend([history], options.k, users=user)
    ids, scores = ids[0], scores[0]
    print(f"after {_shortened(history)}:")
    width = max(len(str(i)) for i in ids)
    for rank, (item, score) in enumerate(zip(ids, scores, strict=True), start=1):
        print(f"{rank:4}  {item!s:>{width}}  {score:8.3f}")


def show(options: argparse.Namespace) -> None:
    """`tinyattn show`: who looks at whom, as a picture by layer and head."""
    from . import show as pictures

    history, _, model = _history(options)
    ids, weights = model.attention(history)
    if not len(weights):
        raise ValueError("this model has no blocks (blocks 0): there is no attention to show")
    picture = pictures.attention_map(weights, ids, f"{model.name}, {Path(options.run_folder).name}")
    if options.out and Path(options.out).is_dir():
        raise ValueError(f"--out {options.out} is a directory, expected a file to write the picture to")
    name = f"attention-{''.join(c if c.isalnum() else '-' for c in str(ids[-1]))}.png"
    print(pictures.save(picture, options.out or RunFolder(options.run_folder).figures / name))


# --- data ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """Where interactions come from: a file, or the generated world, whose truth is known."""

    path: Path | None
    world: SeriesWorld | None
    reading: dict[str, Any] = field(default_factory=dict)  # format, columns, k_core, where they were given

    @classmethod
    def of(cls, options: argparse.Namespace) -> _Source:
        reading = {name: getattr(options, name, None) for name in ("format", "columns", "k_core")}
        reading = {name: value for name, value in reading.items() if value is not None}
        if options.data is None:
            if reading:
                raise ValueError(f"--{min(reading).replace('_', '-')} is for a file of interactions, and none is given")
            return cls(None, SeriesWorld())
        return cls(Path(options.data), None, reading)

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> _Source:
        if "world" in data:
            return cls(None, SeriesWorld(**data["world"]))
        return cls(Path(data["path"]), None, dict(data.get("reading", {})))

    @property
    def name(self) -> str:
        if self.path is None:
            return "series"
        name = self.path.name
        for suffix in (".gz", ".txt", ".inter", ".csv", ".tsv", ".json", ".dat", ".data"):
            name = name.removesuffix(suffix)
        return name or "data"

    @property
    def title(self) -> str:
        return str(self.path) if self.path else "series (a generated world: people who watch several series at once)"

    def describe(self) -> dict[str, Any]:
        if self.path is not None:
            return {"path": str(self.path.resolve()), "reading": self.reading}
        assert self.world is not None
        return {"world": asdict(self.world)}

    def load(self) -> tuple[Interactions, Truth | None]:
        if self.path is not None:
            how = dict(self.reading)
            k = how.pop("k_core", None)
            data = read(self.path, **how)
            return (data.k_core(k) if k is not None else data), None
        assert self.world is not None
        return self.world.generate(), self.world.next_item


def _open(options: argparse.Namespace) -> tuple[Any, _Source, Interactions, Truth | None]:
    """The model of a finished run, and the data named, or else the data it was trained on, unchanged."""
    model, config = RunFolder(options.run_folder).open(device=options.device)
    if options.data is not None:
        source = _Source.of(options)
        return model, source, *source.load()
    try:
        source = _Source.from_config(config["data"])
        trained_on = config["data"]["fingerprint"]
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"{options.run_folder}/config.json does not say what data it is about; name DATA") from None
    data, truth = source.load()
    if data.fingerprint() != trained_on:
        raise ValueError(
            f"{source.title} is no longer what {options.run_folder} was trained on; name DATA to use it anyway"
        )
    return model, source, data, truth


def _in_the_models_ids(data: Interactions, model: Recommender) -> Interactions:
    """The same interactions in the model's item numbers. ValueError names an item it does not know."""
    assert model.items is not None
    if np.array_equal(data.items.ids, model.items.ids):
        return data
    flat = model.items.numbers(data.items.ids.tolist())[data.flat - 1].astype(np.int32)
    return replace(data, flat=flat, items=model.items)


def _sizes(data: Interactions) -> dict[str, int]:
    return {"users": data.n_users, "items": data.n_items, "interactions": len(data)}


def _told(data: Interactions) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in _sizes(data).items())


def _history(options: argparse.Namespace) -> tuple[list[Any], list[Any] | None, Any]:
    """The history that --items or --user names, in the data's ids, whose it is, and the run's model."""
    if options.items is not None:
        if options.data is not None:
            raise ValueError(f"DATA ({options.data}) goes with --user; a history given by --items needs none")
        model, _ = RunFolder(options.run_folder).open(device=options.device)
        return [item.strip() for item in options.items.split(",") if item.strip()], None, model
    model, _, data, _ = _open(options)
    row = int(data.users.numbers([options.user])[0]) - 1
    known = model.users.numbers_or_zero(data.users.ids[row : row + 1])[0]
    return data.items.decode(data.sequence(row)).tolist(), [options.user] if known else None, model


def _shortened(history: list[Any]) -> str:
    return ("..., " if len(history) > 5 else "") + ", ".join(map(str, history[-5:]))


# --- results --------------------------------------------------------------------------------------------------


def _candidates(split: Split, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """What each sampled protocol ranks the target against; read from --negatives where it holds them, else drawn."""
    found = {}
    for protocol in options.protocols:
        if protocol == "full":
            continue
        path = Path(options.negatives) / f"{protocol}.txt" if options.negatives else None
        if path is not None and path.exists():
            found[protocol] = read_candidates(path, split)
        else:
            found[protocol] = draw_candidates(split, protocol)
            if path is not None:
                save_candidates(path, split, found[protocol])
    return found


def _rows(
    model: Any,
    split: Split,
    options: argparse.Namespace,
    source: _Source,
    truth: Truth | None,
    candidates: dict[str, np.ndarray],
) -> dict[str, Any]:
    """The model's metrics, the baselines' and, where the truth is known, those of the best possible ranking."""
    scores: dict[str, Any] = {name: BASELINES[name]().fit(split).score for name in options.baselines}
    if source.world is not None:
        world = source.world
        scores["optimum"] = lambda histories, users: world.best_ranking(histories)
    users = model.users.numbers_or_zero(split.data.users.ids)  # the model's own numbers for them
    found = {"model": evaluate(model.score, split, "test", options.at, truth, candidates, users)}
    found |= {name: evaluate(f, split, "test", options.at, truth, candidates) for name, f in scores.items()}
    return {name: {p: row[p] for p in options.protocols} for name, row in found.items()}


def _print_table(metrics: dict[str, Any], model: str, expected: bool) -> None:
    told = {
        "full": "full ranking, seen items left out"
        + (", expected under the world's true distribution" if expected else ""),
        "uni100": "among 100 items drawn uniformly from those not in training",
        "pop100": "among 100 unseen items drawn by popularity",
    }
    for protocol in metrics["model"]:
        print(f"\n{told[protocol]}")
        names = list(metrics["model"][protocol])
        print(" " * 12 + "".join(f"{name.upper():>10}" for name in names))
        for row in ROWS:
            if row in metrics:
                values = metrics[row][protocol]
                print(f"{model if row == 'model' else row:12}" + "".join(f"{values[name]:10.4f}" for name in names))
    print()


def _draw(figures: Path, model: Any, split: Split, rows: dict[str, Any], at: tuple[int, ...], title: str) -> None:
    from . import show as pictures

    pictures.save(pictures.training_curves(model.history, title), figures / "training.png")
    protocol = next(iter(rows["model"]))
    ordered = {name: rows[name][protocol] for name in ROWS if name in rows}
    names = (f"hr@{at[0]}", f"ndcg@{at[0]}", "mrr")
    pictures.save(pictures.metric_bars(ordered, names, model.name, title), figures / "metrics.png")
    lengths = split.data.lengths[split.evaluated]
    user = int(split.evaluated[np.argmin(np.abs(lengths - 20))])  # a history that fits a picture
    history = split.data.items.decode(split.histories(np.array([user]), "test")[0])[-20:]
    ids, weights = model.attention(history.tolist())
    if len(weights):
        name = split.data.users.ids[user]
        picture = pictures.attention_map(weights, ids, f"{title}: who looks at whom, user {name}")
        pictures.save(picture, figures / "attention.png")


def check(options: argparse.Namespace) -> int:
    """`tinyattn check`: try a spec's properties on an implementation. -> exit code. What it needs is imported here."""
    from .check.command import run

    return run(options)


def course(options: argparse.Namespace) -> int:
    """`tinyattn course`: chapters, exercises, notebooks. -> exit code. What it needs is imported here."""
    from .course.command import run

    return run(options)


COMMANDS = {
    "train": train,
    "evaluate": measure,
    "data": describe,
    "recommend": recommend,
    "show": show,
    "check": check,
    "course": course,
}
