"""A causal transformer in eager PyTorch: GPT in training and generation, and SASRec with rotary positions.

Pre-LN blocks, one matrix for queries, keys and values, and scaled_dot_product_attention. Generation (in inference_mode)
keeps keys and values in preallocated buffers of the context's length: a step writes one row and attends to a view.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import ADAM, BEST, THREADS
from benchmarks.peers.torch_models import put, take
from tinyattn.data import TextBatch


class Cache:
    """Keys and values of one block, (1, h, longest, d)."""

    def __init__(self, heads: int, longest: int, width: int) -> None:
        self.k, self.v = (torch.zeros(1, heads, longest, width) for _ in range(2))

    def write(self, k: Tensor, v: Tensor, first: int) -> tuple[Tensor, Tensor]:
        stop = first + k.shape[2]
        self.k[:, :, first:stop] = k
        self.v[:, :, first:stop] = v
        return self.k[:, :, :stop], self.v[:, :, :stop]


class Attention(nn.Module):
    """Attention; `turns`, e^(i p ω) for every position p, makes it rotate queries and keys."""

    def __init__(self, dim: int, heads: int, bias: bool, project: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=bias)
        self.output = nn.Linear(dim, dim, bias=bias) if project else None

    def forward(self, x: Tensor, cache: Cache | None = None, first: int = 0, turns: Tensor | None = None) -> Tensor:
        batch, n, dim = x.shape
        q, k, v = self.qkv(x).view(batch, n, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        if turns is not None:
            q, k = turned(q, turns[first : first + n]), turned(k, turns[first : first + n])
        if cache is not None:
            k, v = cache.write(k, v, first)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        y = y.transpose(1, 2).reshape(batch, n, dim)
        return y if self.output is None else self.output(y)


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Rotate pairs of features as complex numbers, as in LLaMA's released code."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


class Block(nn.Module):
    def __init__(
        self, dim: int, heads: int, hidden: int, activation: nn.Module, eps: float, bias: bool, project: bool
    ) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(dim, eps=eps)
        self.attention = Attention(dim, heads, bias, project)
        self.norm_2 = nn.LayerNorm(dim, eps=eps)
        self.feed_forward = nn.Sequential(nn.Linear(dim, hidden), activation, nn.Linear(hidden, dim))

    def forward(self, x: Tensor, cache: Cache | None, first: int, turns: Tensor | None) -> Tensor:
        x = x + self.attention(self.norm_1(x), cache, first, turns)
        return x + self.feed_forward(self.norm_2(x))


class GPT(nn.Module):
    """A DecoderNetwork in GPT's form: learned positions, one table for embeddings and scores."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        dim, self.longest = network.dim, network.context
        self.tokens, self.positions = nn.Embedding(network.n_tokens, dim), nn.Embedding(network.context, dim)
        hidden, gelu = round(network.feed_forward_width * dim), nn.GELU(approximate="tanh")
        self.blocks = nn.ModuleList(
            Block(dim, network.heads, hidden, gelu, network.eps, bias=True, project=True) for _ in range(network.layers)
        )
        self.norm = nn.LayerNorm(dim, eps=network.eps)

    def forward(self, ids: Tensor, caches: Any = None, first: int = 0) -> Tensor:
        """The output of the last norm, (B, n, D)."""
        x = self.tokens(ids) + self.positions.weight[first : first + ids.shape[1]]
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x, cache, first, None)
        return self.norm(x)

    def answer(self, h: Tensor, numbers: list[int]) -> np.ndarray:
        """Scores of the next token. Shapes: h (D,) -> (V,)."""
        return F.linear(h, self.tokens.weight).numpy()


class RotarySASRec(nn.Module):
    """A SASRecNetwork with rotary positions (position rope)."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        dim, self.longest = network.dim, network.maxlen
        self.items = nn.Embedding(network.n_items + 1, dim, padding_idx=0)
        self.blocks = nn.ModuleList(
            Block(dim, network.heads, dim, nn.ReLU(), network.eps, bias=False, project=False)
            for _ in range(network.blocks)
        )
        self.norm = nn.LayerNorm(dim, eps=network.eps)
        width = dim // network.heads
        speeds = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(network.maxlen, dtype=torch.float64), speeds)
        self.turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)

    def forward(self, ids: Tensor, caches: Any = None, first: int = 0) -> Tensor:
        x = self.items(ids)
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x, cache, first, self.turns)
        return self.norm(x)

    def answer(self, h: Tensor, numbers: list[int]) -> np.ndarray:
        """The scores of the ten best items that are not in the history. Shapes: h (D,) -> (10,)."""
        scores = F.linear(h, self.items.weight)
        scores[0] = -torch.inf
        scores[torch.tensor(numbers)] = -torch.inf
        best = scores.topk(BEST)
        return best.values.numpy()


class Again:
    """Without a cache: each added token takes a forward of all tokens, and scores at the last one."""

    keeps = False

    def __init__(self, network: Any, weights: Any) -> None:
        torch.set_num_threads(THREADS)
        self.model = (GPT if hasattr(network, "context") else RotarySASRec)(network).eval()
        put(self.model, weights)
        self.about: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def begin(self, numbers: list[int]) -> None:
        self.numbers = list(numbers)

    @torch.inference_mode()
    def add(self, number: int) -> np.ndarray:
        self.numbers.append(number)
        return self.model.answer(self.model(torch.tensor([self.numbers]))[0, -1], self.numbers)


class Cached(Again):
    """With a cache: keys and values are kept in preallocated buffers."""

    keeps = True

    @torch.inference_mode()
    def begin(self, numbers: list[int]) -> None:
        super().begin(numbers)
        heads, width = self.model.blocks[0].attention.heads, self.model.norm.weight.numel()
        self.caches = [Cache(heads, self.model.longest, width // heads) for _ in self.model.blocks]
        self.model(torch.tensor([numbers]), self.caches)

    @torch.inference_mode()
    def add(self, number: int) -> np.ndarray:
        self.numbers.append(number)
        h = self.model(torch.tensor([[number]]), self.caches, len(self.numbers) - 1)
        return self.model.answer(h[0, -1], self.numbers)


class Trained:
    """torch-sdpa: GPT in training, eager, with fused attention and fused Adam."""

    def __init__(self, network: Any, weights: Any, batches: list[TextBatch], threads: int = THREADS) -> None:
        torch.set_num_threads(threads)
        self.model = self.made(network)
        put(self.model, weights)
        self.tensors = [tuple(map(torch.from_numpy, map(np.ascontiguousarray, batch[:2]))) for batch in batches]
        self.optimiser = torch.optim.Adam(self.model.parameters(), **ADAM, fused=True)
        self.about: dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def made(self, network: Any) -> nn.Module:
        return GPT(network)

    def step(self, i: int) -> None:
        self.differentiate(i)
        self.optimiser.step()

    def differentiate(self, i: int) -> float:
        self.optimiser.zero_grad()
        ids, targets = self.tensors[i]
        scores = F.linear(self.model(ids), self.model.tokens.weight)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        loss.backward()
        return loss.item()

    def finish(self) -> None:
        """Nothing to wait for: a step returns when its work is done."""

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        return self.differentiate(0), take(self.model)


class Compiled(Trained):
    """torch-compile: the same model, compiled."""

    def __init__(self, network: Any, weights: Any, batches: list[TextBatch]) -> None:
        super().__init__(network, weights, batches)
        self.model = torch.compile(self.model, dynamic=False)

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        return self.differentiate(0), take(self.model._orig_mod)
