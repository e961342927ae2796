"""Two epochs of training with each of the loop's options, and of every model with its defaults."""

from functools import cache, partial
from typing import Any

import numpy as np

from tests.models.small import DATA, TRAINED, make
from tinyattn.data import Interactions, leave_one_out
from tinyattn.training import SCHEDULES
from tinyattn.tree import leaves

SETTINGS: list[dict[str, Any]] = [
    {}, {"epochs": 6, "patience": 1, "lr": 0.1}, {"lr": 0.01}, {"beta2": 0.9}, {"warmup": 2}, {"weight_decay": 0.5},
    {"clip_norm": 0.05}, {"accumulate": 2}, {"seed": 1}, {"valid_users": 20}, {"batch_size": 30},
    *({"schedule": name, "warmup": 2} for name in SCHEDULES if name != "constant"), {"optimizer": "muon"},
    {"optimizer": "muon", "weight_decay": 0.5, "clip_norm": 0.05},
]  # fmt: skip
# items that a step does not read: these tables are updated lazily
MANY = leave_one_out(Interactions.from_sequences(np.random.default_rng(0).integers(1, 900, (12, 7))))


@cache
def trained(name: str) -> Any:
    return make(name, lr=0.01).fit(DATA[make(name).table], progress=False)


def of(model: Any) -> dict[str, Any]:
    """The history without its seconds, and the parameters' norms.

    Without biases of keys: their gradient is 0, and Adam makes whole steps of what rounding leaves of it.
    """
    kept = ("epoch", "steps", "loss", "valid", "gradient_norm")
    norms = {name: np.linalg.norm(leaf.astype(np.float64)) for name, leaf in leaves(model.parameters)
             if not name.endswith("key.b")}  # fmt: skip
    return {"history": [[row[key] for key in kept] for row in model.history], "parameters": norms}


def decayed(name: str) -> dict[str, Any]:
    """With a decay that is seen in few steps: which parameters it spares is the model's to say."""
    return of(make(name, lr=0.01, weight_decay=5.0, epochs=1).fit(DATA[make(name).table], progress=False))


def sasrec(options: dict[str, Any], data: Any) -> dict[str, Any]:
    return of(make("sasrec", **{"dropout": 0.2, "blocks": 1} | options).fit(data, progress=False))


CASES = {f"{name} as by default": lambda name=name: of(trained(name)) for name in TRAINED}
CASES |= {f"{name} weight_decay=5": partial(decayed, name) for name in TRAINED}
for options in SETTINGS:
    title = " ".join(["sasrec", *(f"{key}={value}" for key, value in options.items())])
    CASES[title] = partial(sasrec, options, DATA["ranking"])
for options in ({}, {"weight_decay": 0.5}, {"clip_norm": 0.05, "schedule": "cosine"}):
    CASES[f"sasrec with a large table, {options}"] = partial(sasrec, {"batch_size": 4, "loss": "bpr"} | options, MANY)
