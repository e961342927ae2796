"""PyTorch's steps beside tinyattn's on a GPU: training SASRec and a decoder, and the ten best items of all users.

With `where` "cpu" the same code runs without a GPU, to try it. Each function returns a `step(i)`. Batches are made and
pinned beforehand; a step sends what it reads.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import ADAM, BEST
from benchmarks.peers.torch_decoder import GPT
from benchmarks.peers.torch_models import FusedAttention, MultiHeadAttention, SASRec, put, tensors
from tinyattn.data import pad

Step = Callable[[int], Any]
ATTENTION = {"mha": MultiHeadAttention, "sdpa": FusedAttention}
RANKED = {"padded": 2048, "buckets": 512}  # users at once


class TextLoss(nn.Module):
    """A decoder's loss: the scores are products with the table of embeddings."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.gpt = GPT(network)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        scores = F.linear(self.gpt(ids), self.gpt.tokens.weight)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def pinned(arrays: Any, where: str) -> tuple[Tensor, ...]:
    found = tuple(x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x)) for x in arrays)
    return tuple(x.pin_memory() for x in found) if where == "cuda" else found


def has_card() -> bool:
    return torch.cuda.is_available()


@contextmanager
def in_precision(tf32: bool) -> Iterator[None]:
    """With or without TF32 in products of float32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def training(network: Any, batches: list[Any], *, way: str, where: str, count: int) -> Step:
    """A step of Adam; `way` is "mha", "sdpa" or "compile". ValueError for another number of parameters than `count`."""
    if hasattr(network, "context"):
        model: nn.Module = TextLoss(network)
        fed = [pinned(batch[:2], where) for batch in batches]
    else:
        model = SASRec(network, ATTENTION.get(way, FusedAttention))
        fed = [pinned(tensors(batch), where) for batch in batches]
    trained = [p for p in model.to(where).parameters() if p.requires_grad]
    if (mine := sum(p.numel() for p in trained)) != count:
        raise ValueError(f"PyTorch's model has {mine:,} parameters, tinyattn's {count:,}")
    optimiser = torch.optim.Adam(trained, **ADAM, fused=True)
    loss: Any = torch.compile(model, dynamic=False) if way == "compile" else model

    def step(i: int) -> None:
        optimiser.zero_grad()
        loss(*(x.to(where, non_blocking=True) for x in fed[i % len(fed)])).backward()
        optimiser.step()

    return step


def ranking(network: Any, weights: Any, histories: list[np.ndarray], *, way: str, where: str) -> Step:
    """The ten best items of all users, on the host; `way` is "padded" (to the full length), "buckets" or "compile"."""
    model = SASRec(network, FusedAttention).eval()
    put(model, weights)
    model.to(where)
    hidden: Any = torch.compile(model.hidden, dynamic=False) if way == "compile" else model.hidden
    order = np.arange(len(histories))
    if way == "buckets":
        order = np.argsort([len(h) for h in histories], kind="stable")
    size, fed = RANKED.get(way, RANKED["padded"]), []
    for begin in range(0, len(order), size):
        batch = pad([histories[i] for i in order[begin : begin + size].tolist()], network.maxlen)
        missing = 0 if way == "buckets" else network.maxlen - batch.ids.shape[1]
        ids, slots = (np.pad(x, ((0, 0), (0, missing))) for x in (batch.ids, batch.slots))
        fed.append(pinned((ids, slots, np.sum(batch.ids != 0, axis=1) - 1), where))
    places = np.argsort(order)

    @torch.inference_mode()
    def step(i: int) -> np.ndarray:
        best = []
        for each in fed:
            ids, slots, last = (x.to(where, non_blocking=True) for x in each)
            h = hidden(ids, slots)[torch.arange(len(ids), device=where), last]
            scores = model.norm(h) @ model.items.weight.T
            scores[:, 0] = -torch.inf
            best.append(scores.topk(BEST).indices)
        return torch.cat(best).cpu().numpy()[places]

    return step


def product(a: np.ndarray, b: np.ndarray, tf32: bool, where: str) -> np.ndarray:
    with in_precision(tf32):
        return (torch.from_numpy(a).to(where) @ torch.from_numpy(b).to(where)).cpu().numpy()
