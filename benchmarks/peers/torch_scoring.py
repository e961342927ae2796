"""Full ranking in PyTorch: fused attention, inference mode, and the last norm and the item table at one position only.

Batches are padded before the clock starts; for torch-buckets, users are also sorted by length before it starts.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers import THREADS
from benchmarks.peers.torch_models import FusedAttention, SASRec, put
from tinyattn.data import Batch, pad
from tinyattn.models import SASRecNetwork


class Padded:
    """torch-padded: all histories padded to the network's length, in batches of the size that a trial finds fastest."""

    SIZES = (32, 64, 128, 256, 512)
    TRIED_ON = 512  # users

    def __init__(self, network: SASRecNetwork, weights: Any, histories: list[np.ndarray]) -> None:
        torch.set_num_threads(THREADS)
        self.network = network
        self.model = SASRec(network, FusedAttention).eval()
        put(self.model, weights)
        self.order = self.sorted(histories)
        ordered = [histories[i] for i in self.order.tolist()]
        some = [ordered[i] for i in np.linspace(0, len(ordered) - 1, min(self.TRIED_ON, len(ordered))).astype(int)]
        size = min(self.SIZES, key=lambda size: self._seconds(self._batches(some, size)))
        self.batches = self._batches(ordered, size)
        self.about = {"torch": torch.__version__, "threads": torch.get_num_threads(), "users a batch": size,
                      "sizes tried": self.SIZES}  # fmt: skip

    def sorted(self, histories: list[np.ndarray]) -> np.ndarray:
        return np.arange(len(histories))

    def pad(self, histories: list[np.ndarray]) -> Batch:
        """Pad on the right up to maxlen. As in training, the causal mask hides the padding."""
        batch = pad(histories, self.network.maxlen)
        missing = self.network.maxlen - batch.ids.shape[1]
        return batch._replace(
            ids=np.pad(batch.ids, ((0, 0), (0, missing))), slots=np.pad(batch.slots, ((0, 0), (0, missing)))
        )

    def _batches(self, histories: list[np.ndarray], size: int) -> list[tuple[Tensor, ...]]:
        found = []
        for begin in range(0, len(histories), size):
            batch = self.pad(histories[begin : begin + size])
            last = np.sum(batch.ids != 0, axis=1) - 1
            found.append(tuple(map(torch.from_numpy, (batch.ids, batch.slots, last))))
        return found

    @torch.inference_mode()
    def scores(self, ids: Tensor, slots: Tensor, last: Tensor) -> Tensor:
        """-> (B, items + 1); column 0, the padding, is -inf."""
        h = self.model.hidden(ids, slots)[torch.arange(len(ids)), last]
        scores = self.model.norm(h) @ self.model.items.weight.T
        scores[:, 0] = -torch.inf
        return scores

    def all_scores(self) -> Iterator[Tensor]:
        for batch in self.batches:
            yield self.scores(*batch)

    def _seconds(self, batches: list[tuple[Tensor, ...]]) -> float:
        """The shorter of two runs over all batches, after one batch to warm up."""
        self.scores(*batches[0])
        times = [time.perf_counter()]
        for _ in range(2):
            for batch in batches:
                self.scores(*batch)
            times.append(time.perf_counter())
        return float(min(np.diff(times)))


class Buckets(Padded):
    """torch-buckets: as torch-padded, but users are sorted by length; a batch is as wide as its longest history."""

    TRIED_ON = 2048

    def sorted(self, histories: list[np.ndarray]) -> np.ndarray:
        return np.argsort([-min(len(h), self.network.maxlen) for h in histories], kind="stable")

    def pad(self, histories: list[np.ndarray]) -> Batch:
        return pad(histories, self.network.maxlen)
