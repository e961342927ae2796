"""What is generated, read, split, cut and drawn: worlds, tasks, images, texts, files of every format, batches."""

import tempfile
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.data.test_formats import FILES
from tests.models.worlds import TINY, drifting_ratings, uneven
from tests.pin.networks import base_of, network_and_batches
from tinyattn.data import (
    IMAGE_SETS,
    SEQUENCE_TASKS,
    TASKS,
    WORLDS,
    Grammar,
    Interactions,
    learned_tokens,
    read,
    read_pairs,
    tenths,
)
from tinyattn.random import Stream, generator

SMALL = {"users": 20,  "sequences": 12, "held_out": 3, "images": 12, "sentences": 30, "length": 20}


def table(data: Interactions) -> dict[str, Any]:
    """All that interactions hold, and what is told of them."""
    how = {name: getattr(data, name) for name in ("times", "ratings")}
    return {
        "sequences": [data.items.decode(data.sequence(u)) for u in range(data.n_users)],
        "users": data.users.ids,
        "fingerprint": data.fingerprint(),
        "notes": data.notes,
        **{name: values for name, values in how.items() if values is not None},
    }


def world(name: str, **options: Any) -> dict[str, Any]:
    made = WORLDS[name](users=20, **options)
    data = made.generate()
    truth = made.next_item([data.sequence(0)[:5], data.sequence(1)[:9]])
    return {"sequences": [data.sequence(u) for u in range(6)], "truth": truth[:, 1:13], "entropy": -np.sum(
        truth * np.log(np.where(truth > 0, truth, 1)), axis=1)}  # fmt: skip


def small(kind: Any, **options: Any) -> Any:
    known = {f.name for f in fields(kind)}
    return kind(**{k: v for k, v in SMALL.items() if k in known} | options).generate()


def arrays(x: Any, most: int = 60) -> Any:
    """The arrays of a dataclass, a named tuple or a list: shapes, and the first numbers."""
    if isinstance(x, np.ndarray):
        return {"shape": x.shape, "first": x.ravel()[:most], "sum": float(np.sum(x)) if x.dtype.kind in "biuf" else 0.0}
    if is_dataclass(x) and not isinstance(x, type):
        return {f.name: arrays(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return {name: arrays(value) for name, value in zip(x._fields, x, strict=True)}
    if isinstance(x, list | tuple):
        return [arrays(entry) for entry in x[:3]]
    if isinstance(x, dict):
        return {key: arrays(value) for key, value in x.items()}
    return x if isinstance(x, str | int | float | None) else type(x).__name__


def batches_of(name: str, **options: Any) -> list[Any]:
    """The first batches of two epochs."""
    _, batches = network_and_batches(name, base_of(name) | options)
    return [arrays(batches.batch(step), 40) for step in (0, 1, batches.steps)] + [batches.steps]


def read_file(name: str, text: str, **how: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.txt"
        path.write_text(text)
        return table(read(path, **how))


def pairs_of_a_file() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        path.write_text("ab\tba\nabc\tcba\nd\td\n")
        return arrays(read_pairs(path))


def tokens(merges: int) -> dict[str, Any]:
    text = Grammar(sentences=40).generate().text
    made = learned_tokens(text, merges, [])
    numbers = made.encode("the cat sleeps.")
    return {"ids": made.ids, "numbers": numbers, "text": made.text(numbers)}


def cut_down(k: int) -> dict[str, Any]:
    return table(uneven(users=12, items=6).k_core(k))


def total(case: dict[str, Any]) -> dict[str, float]:
    """A number for each argument that is an array or a number: the sum with weights that tell its places apart."""
    numbers = {name: np.asarray(x) for name, x in case.items() if isinstance(x, np.ndarray | int | float)}
    sums = {name: np.nan_to_num(x.astype(float), nan=5, posinf=9, neginf=-9).ravel() for name, x in numbers.items()}
    return {name: round(float(np.sum(x * np.cos(np.arange(x.size)))), 6) for name, x in sums.items()}


def drawn() -> dict[str, Any]:
    """The first numbers of each stream of keys."""
    return {stream.name: generator(3, stream, 5).standard_normal(3) for stream in Stream}


CASES: dict[str, Callable[[], Any]] = {f"world {name}": partial(world, name) for name in WORLDS}
CASES |= {
    "world chain, order 2": partial(world, "chain", order=2, groups=7, noise=0.4),
    "world tastes, drifting": partial(world, "tastes", drift=0.3, sharpness=1.0),
    "world series, seed 1": partial(world, "series", seed=1, curiosity=0.6, most_open=2),
    "tiny": lambda: table(TINY.generate()),
    "ratings": lambda: table(drifting_ratings(users=4, items=9, each=5)),
    "core of 2": partial(cut_down, 2),
    "core of 3": partial(cut_down, 3),
    "tenths": lambda: tenths(37, "rows"),
    "streams": drawn,
    "pairs of a file": pairs_of_a_file,
    "characters": partial(tokens, 0),
    "merges": partial(tokens, 12),
    "grammar": lambda: Grammar(sentences=6, seed=2).generate().text,
}
CASES |= {f"task {name}": lambda kind=kind: arrays(small(kind, pairs=30)) for name, kind in TASKS.items()}
CASES |= {f"sequence task {name}": lambda kind=kind: arrays(small(kind)) for name, kind in SEQUENCE_TASKS.items()}
CASES |= {"images shapes": lambda: arrays(small(IMAGE_SETS["shapes"], size=8))}
CASES |= {f"file {name}": partial(read_file, name, text) for name, text in FILES.items()}
CASES |= {f"file {name} with ratings": partial(read_file, name, FILES[name], ratings=True)
          for name in ("inter", "movielens-1m", "movielens-csv", "amazon-json")}  # fmt: skip
CASES |= {f"batches {name}": partial(batches_of, name)
          for name in ("sasrec", "bert4rec", "caser", "timesvdpp", "transformer", "decoder", "encoder",
                       "classifier", "tagger", "vit", "beit")}  # fmt: skip
CASES |= {
    f"batches sasrec {options}": partial(batches_of, "sasrec", **options)
    for options in ({"loss": "ce"}, {"loss": "bpr-max", "n_negatives": 6, "in_batch": 0.5},
                    {"loss": "sampled-softmax", "n_negatives": 4, "popularity_power": 0.7}, {"seed": 2})
}  # fmt: skip
