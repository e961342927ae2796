"""Write the work of one checkout, made by its own code: `python -P work.py ROOT CONFIGURATION FOLDER [DATA]`.

PYTHONPATH names the checkout, which may be of any commit. Therefore this file uses nothing of the checkout but
benchmarks.training_step, and gives none of its objects to other code. It fills FOLDER with the network, weights and
batches that `python -m benchmarks.peers.child tinyattn FOLDER` needs. It prints JSON: losses and norms of gradients in
float64, by which the work of two commits is compared. CONFIGURATION is a key of CONFIGURATIONS, or MODULE:NAME of
another configuration.
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
    """-> network, weights and batches; `its` is benchmarks.training_step of the checkout."""
    if hasattr(its, "given"):
        return its.given(configuration, data)
    network = configuration.network  # commits older than `given` all did this
    weights = its.tree_map(lambda w: w.astype(np.float32), network.init(np.random.default_rng(its.SEED)))
    return network, weights, its.draw(configuration, data)


def make(its: Any, configuration: Any, folder: Path, data: Path | None) -> dict[str, Any]:
    """Fill the folder -> the losses, the norms of gradients, and the settings they depend on."""
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
    os.dup2(2, 1)  # what a library prints goes to stderr, so that stdout holds the JSON alone
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
