"""The ten best next items of histories, in one process: `python -m benchmarks.peers.answering NAME FOLDER`.

A contender's constructor takes (network, weights). Its `answer(histories)` takes B lists of item numbers and returns
(items, scores), each (B, 10): the ten best items that are not in the history. The whole call is timed.
"""

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import BEST, THREADS, child
from benchmarks.peers.scoring import reference
from tinyattn.data import Vocabulary
from tinyattn.models import SASRec, SASRecNetwork
from tinyattn.tree import tree_map

SECONDS = 0.2  # of calls in a round, about: between 1 and CALLS calls
CALLS = 200


class TinyAttn:
    """The public SASRec.recommend."""

    def __init__(self, network: SASRecNetwork, weights: Any) -> None:
        self.model = SASRec(maxlen=network.maxlen, dim=network.dim, blocks=network.blocks, heads=network.heads,
                            dropout=network.dropout, workers=THREADS)  # fmt: skip
        self.model.network, self.model.parameters = network, weights
        self.model.items, self.model.users = (Vocabulary(np.arange(1, n + 1)) for n in (network.n_items, 1))
        self.about: dict[str, Any] = {"threads at most": THREADS}

    def answer(self, histories: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        return self.model.recommend(histories, BEST)


class Answerer(child.Child):
    """A child process (child.py) in which a step is one call of `answer`."""

    def check(self) -> dict[str, Any]:
        network, weights, _ = self._given()
        histories, expected = pickle.loads((self.folder / "reference.pickle").read_bytes())
        _, scores = self.make(network, weights).answer(histories)
        return child.compare({"scores of the ten best": np.asarray(scores)}, {"scores of the ten best": expected})

    def prepare(self) -> dict[str, Any]:
        network, weights, self.histories = self._given()
        began = time.perf_counter()
        self.contender, self.calls = self.make(network, weights), 1
        for _ in range(3):
            self.calls = min(CALLS, max(1, int(SECONDS / self.run()["seconds"])))
        self.contender.about["calls a round"] = self.calls
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        times = [time.perf_counter()]
        for _ in range(self.calls):
            self.contender.answer(self.histories)
            times.append(time.perf_counter())
        return {"seconds": float(np.median(np.diff(times)))}


def write(
    folder: Path, network: SASRecNetwork, weights: Any, histories: list[np.ndarray], checked: list[np.ndarray]
) -> None:
    """Write the children's inputs, and the answers in float64 to the histories `checked`, for the comparison."""
    scores = reference(network, tree_map(lambda w: w.astype(np.float64), weights), checked)
    scores[:, 0] = -np.inf
    for row, history in zip(scores, checked, strict=True):
        row[history] = -np.inf
    best = -np.sort(-scores, axis=1)[:, :BEST]
    (folder / "given.pickle").write_bytes(pickle.dumps((network, weights, [h.tolist() for h in histories])))
    (folder / "reference.pickle").write_bytes(pickle.dumps(([h.tolist() for h in checked], best)))


def load(name: str) -> Any:
    """Import the contender's class."""
    if name == "tinyattn":
        return TinyAttn
    from benchmarks.peers import torch_answering

    return {"torch-released": torch_answering.Released, "torch-sdpa": torch_answering.Fused}[name]


if __name__ == "__main__":
    child.main(load, Answerer)
