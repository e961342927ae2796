"""One more token of a text, or item of a history, in one process: `python -m benchmarks.peers.growing NAME FOLDER`.

A contender's constructor takes (network, weights). `begin(numbers)` reads the tokens or items so far. `add(number)`
reads one more and returns scores of the next one: for a DecoderNetwork those of all tokens, for a SASRecNetwork those
of the ten best items that are not in the history. Only `add` is timed.
"""

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import BEST, THREADS, child
from benchmarks.peers.scoring import reference
from tinyattn.data import Vocabulary
from tinyattn.models import DecoderNetwork, SASRec, SASRecNetwork
from tinyattn.tree import tree_map

ADDED = {True: 32, False: 2}  # calls of `add` after a `begin`; with a cache more, because the first calls are slower
SECONDS = 0.1  # of `add` in a round, about; at least the calls after one `begin`


class Text:
    """The loop of Decoder.generate, with a cache and without sampling."""

    keeps = True

    def __init__(self, network: DecoderNetwork, weights: Any) -> None:
        self.network, self.p = network, weights
        self.extend = network.extending(weights)
        self.about: dict[str, Any] = {"threads at most": THREADS}

    def begin(self, numbers: list[int]) -> None:
        _, self.past = self.extend(np.array([numbers]), None)

    def add(self, number: int) -> np.ndarray:
        scores, self.past = self.extend(np.array([[number]]), self.past)
        return scores[0, -1]


class TextAgain(Text):
    """Without a cache: each token takes a forward of the whole text."""

    keeps = False

    def begin(self, numbers: list[int]) -> None:
        self.numbers = list(numbers)

    def add(self, number: int) -> np.ndarray:
        self.numbers.append(number)
        return self.network.forward(self.p, np.array([self.numbers]))[0][0, -1]


class History:
    """`session.add(item).best(10)`, with a cache."""

    keeps = True

    def __init__(self, network: SASRecNetwork, weights: Any) -> None:
        self.model = SASRec(maxlen=network.maxlen, dim=network.dim, blocks=network.blocks, heads=network.heads,
                            mixer=network.mixer, position=network.position, dropout=network.dropout,
                            workers=THREADS)  # fmt: skip
        self.model.network, self.model.parameters = network, weights
        self.model.items, self.model.users = (Vocabulary(np.arange(1, n + 1)) for n in (network.n_items, 1))
        self.about: dict[str, Any] = {"threads at most": THREADS}

    def begin(self, numbers: list[int]) -> None:
        self.session = self.model.session(numbers)
        self.session.best(BEST)

    def add(self, number: int) -> np.ndarray:
        return self.session.add(number).best(BEST)[1]


class HistoryAgain(History):
    """`model.recommend(history)`, without a cache."""

    keeps = False

    def begin(self, numbers: list[int]) -> None:
        self.numbers = list(numbers)

    def add(self, number: int) -> np.ndarray:
        self.numbers.append(number)
        return self.model.recommend(self.numbers, BEST)[1]


class Grower(child.Child):
    """A child process (child.py) in which a step is one `add`."""

    def check(self) -> dict[str, Any]:
        network, weights, numbers = self._given()
        expected = pickle.loads((self.folder / "reference.pickle").read_bytes())
        contender = self.make(network, weights)
        contender.begin(numbers[:-3])
        for number in numbers[-3:]:
            found = contender.add(number)
        return child.compare({"scores of what follows": np.asarray(found)}, {"scores of what follows": expected})

    def prepare(self) -> dict[str, Any]:
        network, weights, self.numbers = self._given()
        threadpool_limits(THREADS, "blas")
        began = time.perf_counter()
        self.contender, self.passes = self.make(network, weights), 1
        self.added = ADDED[self.contender.keeps]
        for _ in range(3):
            self.passes = max(1, int(SECONDS / (self.added * self.run()["seconds"])))
        self.contender.about["calls a round"] = self.passes * self.added
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        found = []
        for _ in range(self.passes):
            self.contender.begin(self.numbers[: -self.added])
            times = [time.perf_counter()]
            for number in self.numbers[-self.added :]:
                self.contender.add(number)
                times.append(time.perf_counter())
            found.extend(np.diff(times).tolist())
        return {"seconds": float(np.median(found))}


def write(folder: Path, network: Any, weights: Any, numbers: list[int]) -> None:
    """Write the children's inputs, and the scores after the last number in float64, for the comparison."""
    p = tree_map(lambda w: w.astype(np.float64), weights)
    if isinstance(network, DecoderNetwork):
        expected = network.forward(p, np.array([numbers]))[0][0, -1]
    else:
        scores = reference(network, p, [np.array(numbers)])[0]
        scores[[0, *numbers]] = -np.inf
        expected = -np.sort(-scores)[:BEST]
    (folder / "given.pickle").write_bytes(pickle.dumps((network, weights, numbers)))
    (folder / "reference.pickle").write_bytes(pickle.dumps(expected))


def load(name: str) -> Any:
    """A function that makes the contender from (network, weights)."""
    if name.startswith("tinyattn"):
        return {"tinyattn": ours, "tinyattn-again": ours_again}[name]
    from benchmarks.peers import torch_decoder

    return {"torch": torch_decoder.Cached, "torch-again": torch_decoder.Again}[name]


def ours(network: Any, weights: Any) -> Any:
    return (Text if isinstance(network, DecoderNetwork) else History)(network, weights)


def ours_again(network: Any, weights: Any) -> Any:
    return (TextAgain if isinstance(network, DecoderNetwork) else HistoryAgain)(network, weights)


if __name__ == "__main__":
    child.main(load, Grower)
