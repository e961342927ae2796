"""What a checkout trains on, made by its own code: `python -P work.py ROOT CONFIGURATION FOLDER [DATA]`.

This file runs beside any checkout, whose modules PYTHONPATH names: it uses only names of
benchmarks.training_step there, and passes no object of theirs on. FOLDER then holds what `python -m
benchmarks.peers.child tinyattn FOLDER` needs. Printed, as JSON: losses and gradients' norms in float64, which say
in plain numbers what the work is. CONFIGURATION is a key of CONFIGURATIONS, or MODULE:NAME of another one.
"""

import importlib
import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np


def given(its: Any, configuration: Any, data: Path | None) -> Any:
    """Network, weights and batches."""
    if hasattr(its, "given"):
        return its.given(configuration, data)
    network = configuration.network  # commits before there was `given` all did this
    weights = its.tree_map(lambda w: w.astype(np.float32), network.init(np.random.default_rng(its.SEED)))
    return network, weights, its.draw(configuration, data)


def make(its: Any, configuration: Any, folder: Path, data: Path | None) -> dict[str, Any]:
    """Fill the folder, and say what was put there."""
    network, weights, batches = given(its, configuration, data)
    with its.folder_of(network, weights, batches) as made:
        shutil.copytree(made, folder, dirs_exist_ok=True)
    found = [its.reference(network, weights, batch) for batch in batches]
    return {
        "losses": [loss for loss, _ in found],
        "norms": [sorted(float(np.linalg.norm(g)) for g in gradients.values()) for _, gradients in found],
        "dropout": getattr(network, "dropout", None),
        "threads": its.THREADS,
        "network": repr(network),
        "seed": its.SEED,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    root, wanted, folder, *data = sys.argv[1:]
    module, _, name = wanted.rpartition(":")
    its = importlib.import_module("benchmarks.training_step")
    for package in ("benchmarks", "tinyattn"):
        file = Path(str(importlib.import_module(package).__file__)).resolve()
        if not file.is_relative_to(Path(root).resolve()):
            raise SystemExit(f"{package} was imported from {file}, which is not in {root}")
    configuration = getattr(importlib.import_module(module), name) if module else its.CONFIGURATIONS[name]
    json.dump(make(its, configuration, Path(folder), Path(data[0]) if data else None), answer)


if __name__ == "__main__":
    main()
