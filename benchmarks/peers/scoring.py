"""Scores of every item for every user, in one process: `python -m benchmarks.peers.scoring NAME FOLDER`.

A contender's constructor takes (network, weights, histories). `all_scores()` yields scores group by group of users,
(users, items + 1), and may overwrite an array that it has yielded. `order[r]` is the user of row r of all scores.
"""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import THREADS, child
from tinyattn.data import pad
from tinyattn.evaluation.lazy import SCORES_AT_ONCE
from tinyattn.models import SASRec, SASRecNetwork
from tinyattn.tree import tree_map

CHECKED = 200  # users whose scores are compared with the reference
WARM_UP = 1


def reference(network: SASRecNetwork, weights: Any, histories: list[np.ndarray]) -> np.ndarray:
    """Scores in float64 by the forward of training, which computes all positions in every block."""
    scores = []
    for history in histories:
        h, _ = network.forward(weights, pad([history], network.maxlen))
        scores.append(h[0, -1] @ weights["items"].T)
    return np.array(scores)


class TinyAttn:
    """SASRec.score in groups of users as large as in evaluation; padding and sorting are timed too."""

    def __init__(self, network: SASRecNetwork, weights: Any, histories: list[np.ndarray]) -> None:
        self.model = SASRec(maxlen=network.maxlen, dim=network.dim, blocks=network.blocks, heads=network.heads,
                            dropout=network.dropout, workers=THREADS)  # fmt: skip
        self.model.network, self.model.parameters = network, weights
        at_once = max(1, SCORES_AT_ONCE // (network.n_items + 1))
        self.parts = np.array_split(np.arange(len(histories)), -(-len(histories) // at_once))
        self.histories, self.order = histories, np.arange(len(histories))
        self.about: dict[str, Any] = {"users at once": max(map(len, self.parts))}

    def all_scores(self) -> Iterator[np.ndarray]:
        for part in self.parts:
            yield self.model.score([self.histories[i] for i in part.tolist()])


class Scorer(child.Child):
    """A child process (child.py) in which a step scores all users once."""

    def check(self) -> dict[str, Any]:
        network, weights, histories = self._given()
        contender = self.make(network, weights, histories[:CHECKED])
        scores = np.empty((min(CHECKED, len(histories)), network.n_items + 1), np.float32)
        scores[contender.order] = np.concatenate([np.asarray(part) for part in contender.all_scores()])
        expected = pickle.loads((self.folder / "reference.pickle").read_bytes())
        return child.compare({"scores": scores[:, 1:]}, {"scores": expected[:, 1:]})  # column 0 is padding

    def prepare(self) -> dict[str, Any]:
        began = time.perf_counter()
        self.contender = self.make(*self._given())
        for _ in range(WARM_UP):
            self.run()
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        began = time.perf_counter()
        for _ in self.contender.all_scores():
            pass
        return {"seconds": time.perf_counter() - began}


def write(folder: Path, network: SASRecNetwork, weights: Any, histories: list[np.ndarray]) -> None:
    """Write the children's inputs."""
    wide = tree_map(lambda w: w.astype(np.float64), weights)
    (folder / "given.pickle").write_bytes(pickle.dumps((network, weights, histories)))
    (folder / "reference.pickle").write_bytes(pickle.dumps(reference(network, wide, histories[:CHECKED])))


def load(name: str) -> Any:
    """Import the contender's class."""
    if name == "tinyattn":
        return TinyAttn
    from benchmarks.peers import torch_scoring

    return {"torch-padded": torch_scoring.Padded, "torch-buckets": torch_scoring.Buckets}[name]


if __name__ == "__main__":
    child.main(load, Scorer)
