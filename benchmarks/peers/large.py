"""A full ranking of many users over many items, in one process: `python -m benchmarks.peers.large NAME FOLDER`.

    product       only the matrix product of states and items, in the same tiles on as many threads, without ranks
    states        only SASRec's states, one for each user
    tinyattn      SASRec.evaluate: states, product, ranks, metrics
    popularity    Popularity.evaluate: every user has the same scores
    markov        Markov.evaluate: users' scores differ in a few items only
"""

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import THREADS, child
from tinyattn.data import Split
from tinyattn.evaluation import evaluate
from tinyattn.models import Markov, Popularity, SASRec, SASRecNetwork
from tinyattn.models.products import TILE, USERS, pieces
from tinyattn.training import Workers

CHECKED = 40  # users whose MRR is compared with the MRR from full rows of scores


class Evaluated:
    """`model.evaluate`, with all metrics."""

    def __init__(self, model: Any, split: Split) -> None:
        self.model, self.split, self.about = model, split, {"users": len(split.evaluated)}

    def step(self) -> None:
        self.model.evaluate(self.split)

    def off(self) -> float:
        few = self.split.sample(CHECKED)
        lazily, whole = (evaluate(score, few)["full"]["mrr"] for score in (self.model, self.model.score))
        return abs(lazily - whole) / whole


class Product(Evaluated):
    """The matrix product alone: the baseline of the others."""

    def __init__(self, model: SASRec, split: Split) -> None:
        super().__init__(model, split)
        rng, self.E = np.random.default_rng(0), model.parameters["items"]
        self.h = rng.standard_normal((len(split.evaluated), self.E.shape[1])).astype(self.E.dtype)

    def step(self) -> None:
        tiles = pieces(1, len(self.E), TILE // USERS)

        def work(block: slice) -> None:
            for tile in tiles:
                self.h[block] @ self.E[tile].T

        with Workers(THREADS) as pool:
            list(pool.map(work, pieces(0, len(self.h), USERS)))


class States(Evaluated):
    """The states alone, which the ranking needs first."""

    def step(self) -> None:
        users = self.split.evaluated
        self.model.lazy_scores(self.split.histories(users, "test"), users + 1)


def contender_of(name: str, network: SASRecNetwork, weights: Any, split: Split) -> Evaluated:
    if name in ("popularity", "markov"):
        return Evaluated({"popularity": Popularity, "markov": Markov}[name]().fit(split), split)
    model = SASRec(maxlen=network.maxlen, dim=network.dim, blocks=network.blocks, workers=THREADS)
    model.network, model.parameters = network, weights
    model.items, model.users = split.data.items, split.data.users
    return {"product": Product, "states": States, "tinyattn": Evaluated}[name](model, split)


class Ranker(child.Child):
    """A child process (child.py) in which a step evaluates all users once."""

    def check(self) -> dict[str, Any]:
        off = self.make(*self._given()).off()
        return {"worst": "MRR", "off": off, "agrees": off <= child.TOLERANCE}  # rounding may move a rank by one

    def prepare(self) -> dict[str, Any]:
        began = time.perf_counter()
        self.contender = self.make(*self._given())
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        began = time.perf_counter()
        self.contender.step()
        return {"seconds": time.perf_counter() - began}


def write(folder: Path, network: SASRecNetwork, weights: Any, split: Split) -> None:
    """Write the children's inputs."""
    (folder / "given.pickle").write_bytes(pickle.dumps((network, weights, split), protocol=5))


def load(name: str) -> Any:
    return lambda *given: contender_of(name, *given)


if __name__ == "__main__":
    child.main(load, Ranker)
