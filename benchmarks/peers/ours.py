"""tinyattn's training step: `differentiate` and `update` of a `Learner`, with one worker for each core."""

from typing import Any

import numpy as np

from benchmarks.peers import ADAM, THREADS
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.training import SLICE_TOKENS, Learner, Settings
from tinyattn.tree import add_to, flatten, leaves, views


class TinyAttn:
    """The library's training step, without the bookkeeping of the training loop."""

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch], workers: int = THREADS) -> None:
        self.batches = batches
        self.learner = Learner(network, Settings(lr=ADAM["lr"], beta2=ADAM["betas"][1]), batches[:1], steps=1)
        self.learner.vector[...] = flatten(weights, np.float32)[0]
        self.seen = np.zeros(2)
        self.steps = 0
        self.pool = self.learner.pool(workers).__enter__()  # until `close`, or the process ends
        self.about = {
            "slices a batch": float(np.mean([len(batch.slices(SLICE_TOKENS)) for batch in batches])),
            "rows kept lazily": list(self.learner.lazy),
        }

    def step(self, i: int) -> None:
        self.learner.differentiate([self.batches[i]], self.steps, self.seen, self.pool)
        self.steps += 1
        self.learner.update(self.steps)

    def finish(self) -> None:
        """Nothing to wait for: a step returns when its work is done."""

    def close(self) -> None:
        self.pool.__exit__(None)

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        self.learner.differentiate(self.batches[:1], self.steps, self.seen, self.pool)
        return float(self.seen[0]), dict(leaves(self.learner.grads))


def reference(network: SASRecNetwork, weights: Any, batch: Batch) -> tuple[float, dict[str, np.ndarray]]:
    """Loss and {name: gradient} of the batch in float64 without dropout: the reference of every contender."""
    vector, p = flatten(weights, np.float64)
    grads = views(np.zeros_like(vector), p)
    loss, cache = network.loss(p, batch)
    add_to(grads, network.loss_backward(p, 1.0, cache))
    return float(loss), dict(leaves(grads))
