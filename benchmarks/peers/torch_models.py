"""SASRec in PyTorch, four ways: nn.MultiheadAttention, fused attention, buckets of equal length, torch.compile.

The arithmetic is the library's: pre-LN blocks, ReLU, no biases for query, key and value, no output projection of the
joined heads, dropout on the embedded input and on each sublayer's output, no dropout on attention weights. Batches are
padded on the right. There the causal mask hides the padding from real positions, so a key mask is not needed.
"""

import math
import time
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import ADAM, THREADS
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.tree import leaves


class FusedAttention(nn.Module):
    """One matrix for queries, keys and values, and scaled_dot_product_attention, which never stores the weights."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each (B, h, L, d)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """nn.MultiheadAttention in the form that its documentation calls fastest: need_weights=False, is_causal=True.

    It always has an output projection, which is the frozen identity here. So it has one D by D matrix product a token
    more than the other contenders, in the forward and in the backward.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, bias=False, batch_first=True)
        nn.init.eye_(self.attention.out_proj.weight)
        self.attention.out_proj.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        return self.attention(x, x, x, attn_mask=_later(length, x.device), is_causal=True, need_weights=False)[0]


@cache
def _later(length: int, device: torch.device) -> Tensor:
    """True: masked."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


class Block(nn.Module):
    """x + dropout(attention(LN(x))), then x + dropout(ffn(LN(x)))."""

    def __init__(self, network: SASRecNetwork, attention: type[nn.Module]) -> None:
        super().__init__()
        dim = network.dim
        self.norm_1 = nn.LayerNorm(dim, eps=network.eps)
        self.attention = attention(dim, network.heads)
        self.norm_2 = nn.LayerNorm(dim, eps=network.eps)
        self.feed_forward = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.dropout = nn.Dropout(network.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm_1(x)))
        return x + self.dropout(self.feed_forward(self.norm_2(x)))


class SASRec(nn.Module):
    """Its forward is the loss: binary cross-entropy of the next item and one negative, mean over real positions."""

    def __init__(self, network: SASRecNetwork, attention: type[nn.Module], sparse: bool = False) -> None:
        super().__init__()
        self.items = nn.Embedding(network.n_items + 1, network.dim, padding_idx=0, sparse=sparse)
        self.positions = nn.Embedding(network.maxlen, network.dim)
        self.dropout = nn.Dropout(network.dropout)
        self.blocks = nn.ModuleList(Block(network, attention) for _ in range(network.blocks))
        self.norm = nn.LayerNorm(network.dim, eps=network.eps)

    def hidden(self, ids: Tensor, slots: Tensor) -> Tensor:
        """The output of the last block, before the last norm."""
        x = self.dropout(self.items(ids) + self.positions(slots))
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids: Tensor, slots: Tensor, targets: Tensor, negatives: Tensor, weight: Tensor) -> Tensor:
        h = self.norm(self.hidden(ids, slots))
        positive = (h * self.items(targets)).sum(-1)
        negative = (h * self.items(negatives)).sum(-1)
        return ((F.softplus(-positive) + F.softplus(negative)) * weight).sum() / weight.sum()


# {torch's name of a parameter, without its block: the library's names of its parts, in order}
LAYOUT = {
    "items.weight": ("items",),
    "tokens.weight": ("tokens",),
    "positions.weight": ("positions",),
    "norm.weight": ("norm.gamma",),
    "norm.bias": ("norm.beta",),
    "norm_1.weight": ("norm_1.gamma",),
    "norm_1.bias": ("norm_1.beta",),
    "attention.qkv.weight": ("attention.query.W", "attention.key.W", "attention.value.W"),
    "attention.attention.in_proj_weight": ("attention.query.W", "attention.key.W", "attention.value.W"),
    "attention.qkv.bias": ("attention.query.b", "attention.key.b", "attention.value.b"),
    "attention.output.weight": ("attention.output.W",),
    "attention.output.bias": ("attention.output.b",),
    "attention.cell.weight_ih_l0": ("attention.W",),
    "attention.cell.weight_hh_l0": ("attention.U",),
    "attention.cell.bias_ih_l0": ("attention.b",),
    "attention.cell.bias_hh_l0": ("attention.c",),
    "norm_2.weight": ("norm_2.gamma",),
    "norm_2.bias": ("norm_2.beta",),
    "feed_forward.0.weight": ("feed_forward.inner.W",),
    "feed_forward.0.bias": ("feed_forward.inner.b",),
    "feed_forward.2.weight": ("feed_forward.outer.W",),
    "feed_forward.2.bias": ("feed_forward.outer.b",),
}

MAPS = (".W", ".U")


def layout(model: nn.Module) -> list[tuple[nn.Parameter, tuple[str, ...]]]:
    """Every trained parameter with the library's names of its parts.

    A weight (W or U) is (in, out) in the library and (out, in) in torch, so torch's parameter stacks its parts as rows.
    """
    pairs = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            *block, rest = name.split(".", 2) if name.startswith("blocks.") else ["", "", name]
            prefix = f"blocks.{block[1]}." if block[0] else ""
            pairs.append((parameter, tuple(prefix + part for part in LAYOUT[rest])))
    return pairs


@torch.no_grad()
def put(model: nn.Module, weights: Any) -> None:
    """Copy the library's parameters into the model."""
    found = dict(leaves(weights))
    for parameter, names in layout(model):
        parts = [torch.from_numpy(found.pop(name)) for name in names]
        parameter.copy_(
            torch.cat([part.T if name.endswith(MAPS) else part for name, part in zip(names, parts, strict=True)])
        )
    if found:
        raise ValueError(f"no place for {', '.join(found)}")


def take(model: nn.Module) -> dict[str, np.ndarray]:
    """The gradients, by the library's names and in its shapes."""
    found = {}
    for parameter, names in layout(model):
        gradient = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        for name, part in zip(names, gradient.chunk(len(names)), strict=True):
            found[name] = (part.T if name.endswith(MAPS) else part).numpy()
    return found


def tensors(batch: Batch) -> tuple[Tensor, ...]:
    """The arrays of a batch that the model reads, as tensors that share their memory."""
    return tuple(map(torch.from_numpy, (batch.ids, batch.slots, batch.targets, batch.negatives, batch.weight)))


class Fused:
    """torch-sdpa: eager, fused attention, fused Adam, the whole padded batch."""

    attention: type[nn.Module] = FusedAttention
    fused = True

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch], sparse: bool = False) -> None:
        torch.set_num_threads(THREADS)
        torch.manual_seed(0)
        self.batches = batches
        self.tensors = [tensors(batch) for batch in batches]
        self.model = SASRec(network, self.attention, sparse)
        put(self.model, weights)
        self.loss: Any = self.model
        dense = [
            p for p in self.model.parameters() if p.requires_grad and not (sparse and p is self.model.items.weight)
        ]
        self.optimisers: list[torch.optim.Optimizer] = [torch.optim.Adam(dense, **ADAM, fused=self.fused)]
        if sparse:
            self.optimisers.append(torch.optim.SparseAdam([self.model.items.weight], **ADAM))
        self.about: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def step(self, i: int) -> None:
        self.differentiate(i)
        for optimiser in self.optimisers:
            optimiser.step()

    def differentiate(self, i: int) -> float:
        self.model.zero_grad()
        loss = self.loss(*self.tensors[i])
        loss.backward()
        return loss.item()

    def finish(self) -> None:
        """Nothing to wait for: a step returns when its work is done."""

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        return self.differentiate(0), take(self.model)


class MultiHead(Fused):
    """torch-mha: eager, nn.MultiheadAttention, Adam with torch's default implementation, the whole padded batch."""

    attention = MultiHeadAttention
    fused = False


class Compiled(Fused):
    """torch-compile: the model of torch-sdpa, compiled for each batch shape."""

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch]) -> None:
        super().__init__(network, weights, batches)
        shapes = {batch.ids.shape for batch in batches}
        torch._dynamo.config.recompile_limit = max(8, len(shapes))
        self.loss = torch.compile(self.model, dynamic=False)
        self.about |= {"shapes compiled": len(shapes)}


class Buckets(Fused):
    """torch-buckets: the model of torch-sdpa on the library's slices; their number is the fastest one in a trial.

    If the item table has more rows than a batch can read, its gradient is sparse and SparseAdam updates only the rows
    that were read. That is less work than Adam, but the updates differ from Adam's.
    """

    TRIED = (1, 2, 3, 4, 6, 9, 16)  # numbers of slices in a batch

    def __init__(self, network: SASRecNetwork, weights: Any, batches: list[Batch]) -> None:
        sparse = network.n_items > 3 * batches[0].ids.size
        super().__init__(network, weights, batches, sparse)
        self.about |= {"item table": "sparse gradient, SparseAdam" if sparse else "dense gradient, Adam"}
        self.slices = min(self.TRIED, key=self._seconds)
        self.about |= {"slices a batch": self.slices, "slices tried": self.TRIED}

    def differentiate(self, i: int) -> float:
        self.model.zero_grad()
        batch, total = self.batches[i], 0.0
        weight = float(batch.weight.sum())
        for part in batch.slices(math.ceil(weight / self.slices)):
            loss = self.loss(*tensors(part)) * (float(part.weight.sum()) / weight)
            loss.backward()
            total += loss.item()
        return total

    def _seconds(self, slices: int) -> float:
        """Seconds of the gradient of batch 0 in so many slices: the fastest of five runs, after a warm-up run."""
        self.slices = slices
        times = [time.perf_counter()]
        for _ in range(6):
            self.differentiate(0)
            times.append(time.perf_counter())
        return float(min(np.diff(times)[1:]))
