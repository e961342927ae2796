"""Ten best next items in PyTorch's inference mode: like pmixer/SASRec.pytorch, and with fused attention.

The first contender is built like that code, with norms before the sublayers: nn.MultiheadAttention takes the sequence
axis first, has biases and returns its weights; the feed-forward network is two convolutions of width 1; every history
is padded on the left to the full length. One thing differs: scores use the item table itself, not a gathered copy.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import BEST, THREADS
from benchmarks.peers.torch_models import FusedAttention, SASRec, put
from tinyattn.data import pad
from tinyattn.models import SASRecNetwork
from tinyattn.tree import leaves

AT_ONCE = 128  # histories in a batch, at most


class Contender:
    """The code that both share: batches, exclusion of the history's items, the ten best."""

    about: dict[str, Any]

    @torch.inference_mode()
    def answer(self, histories: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        order = sorted(range(len(histories)), key=lambda i: -len(histories[i]))
        ids = np.empty((len(histories), BEST), dtype=np.int64)
        values = np.empty((len(histories), BEST), dtype=np.float32)
        for begin in range(0, len(order), AT_ONCE):
            mine = order[begin : begin + AT_ONCE]
            some = [histories[i] for i in mine]
            scores = self.scores(some)
            scores[:, 0] = -torch.inf
            rows = np.repeat(np.arange(len(some)), [len(h) for h in some])
            scores[torch.from_numpy(rows), torch.tensor([item for h in some for item in h])] = -torch.inf
            best = scores.topk(BEST)
            ids[mine], values[mine] = best.indices.numpy(), best.values.numpy()
        return ids, values

    def scores(self, histories: list[list[int]]) -> Tensor:
        """Scores of all items, (B, items + 1)."""
        raise NotImplementedError


class Fused(Contender):
    """torch-sdpa: fused attention; a batch is as wide as its longest history, and one history has no padding."""

    def __init__(self, network: SASRecNetwork, weights: Any) -> None:
        torch.set_num_threads(THREADS)
        self.network = network
        self.model = SASRec(network, FusedAttention).eval()
        put(self.model, weights)
        self.about = {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def scores(self, histories: list[list[int]]) -> Tensor:
        newest = [np.array(h[-self.network.maxlen :]) for h in histories]
        batch = pad(newest, self.network.maxlen)
        last = torch.tensor([len(h) - 1 for h in newest])
        h = self.model.hidden(torch.from_numpy(batch.ids), torch.from_numpy(batch.slots))
        return self.model.norm(h[torch.arange(len(h)), last]) @ self.model.items.weight.T


class PointWise(nn.Module):
    """The feed-forward network as two convolutions of width 1 over the positions."""

    def __init__(self, dim: int, rate: float) -> None:
        super().__init__()
        self.inner, self.outer = (nn.Conv1d(dim, dim, kernel_size=1) for _ in range(2))
        self.drop_inner, self.drop_outer = nn.Dropout(rate), nn.Dropout(rate)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.drop_inner(self.inner(x.transpose(-1, -2))))
        return self.drop_outer(self.outer(y)).transpose(-1, -2)


class Layers(nn.Module):
    """All parameters; `state` computes the last position's state."""

    def __init__(self, network: SASRecNetwork) -> None:
        super().__init__()
        dim, count = network.dim, network.blocks
        self.items = nn.Embedding(network.n_items + 1, dim, padding_idx=0)
        self.positions = nn.Embedding(network.maxlen + 1, dim, padding_idx=0)
        self.dropout = nn.Dropout(network.dropout)
        self.norms_1 = nn.ModuleList(nn.LayerNorm(dim, eps=network.eps) for _ in range(count))
        heads, rate = network.heads, network.dropout
        self.attentions = nn.ModuleList(nn.MultiheadAttention(dim, heads, rate) for _ in range(count))
        self.norms_2 = nn.ModuleList(nn.LayerNorm(dim, eps=network.eps) for _ in range(count))
        self.feed_forwards = nn.ModuleList(PointWise(dim, rate) for _ in range(count))
        self.norm = nn.LayerNorm(dim, eps=network.eps)
        self.scale = 1.0  # pmixer's code scales embeddings by √dim; the library's default does not

    def state(self, ids: Tensor) -> Tensor:
        """(B, L) -> (B, D)."""
        x = self.items(ids)
        x *= self.scale
        places = torch.arange(1, ids.shape[1] + 1).unsqueeze(0).expand(len(ids), -1) * (ids != 0)
        x = self.dropout(x + self.positions(places))
        later = ~torch.tril(torch.ones((ids.shape[1], ids.shape[1]), dtype=torch.bool))
        for norm_1, attention, norm_2, feed_forward in zip(
            self.norms_1, self.attentions, self.norms_2, self.feed_forwards, strict=True
        ):
            x = x.transpose(0, 1)
            normed = norm_1(x)
            x = (x + attention(normed, normed, normed, attn_mask=later)[0]).transpose(0, 1)
            x = x + feed_forward(norm_2(x))
        return self.norm(x)[:, -1]


class Released(Contender):
    """torch-released: like pmixer/SASRec.pytorch. As in that code, positions attend to padding."""

    def __init__(self, network: SASRecNetwork, weights: Any) -> None:
        torch.set_num_threads(THREADS)
        self.maxlen = network.maxlen
        self.model = Layers(network).eval()
        self._put(weights)
        self.about = {"torch": torch.__version__, "threads": torch.get_num_threads()}

    def scores(self, histories: list[list[int]]) -> Tensor:
        ids = np.zeros((len(histories), self.maxlen), dtype=np.int64)
        for row, history in zip(ids, histories, strict=True):
            row[-len(history) :] = history[-self.maxlen :]
        return self.model.state(torch.from_numpy(ids)) @ self.model.items.weight.T

    @torch.no_grad()
    def _put(self, weights: Any) -> None:
        """Copy the library's parameters. It has no biases (0 here) and no output projection (the identity here)."""
        found = {name: torch.from_numpy(leaf) for name, leaf in leaves(weights)}
        model = self.model
        model.items.weight.copy_(found["items"])
        model.positions.weight[1:] = found["positions"]
        norms = {"norm": model.norm}
        for i, attention in enumerate(model.attentions):
            name = f"blocks.{i}."
            W = [found[f"{name}attention.{part}.W"].T for part in ("query", "key", "value")]
            attention.in_proj_weight.copy_(torch.cat(W))
            attention.in_proj_bias.zero_()
            attention.out_proj.weight.copy_(torch.eye(len(W[0])))
            attention.out_proj.bias.zero_()
            norms |= {f"{name}norm_1": model.norms_1[i], f"{name}norm_2": model.norms_2[i]}
            for part in ("inner", "outer"):
                convolution = getattr(model.feed_forwards[i], part)
                convolution.weight.copy_(found[f"{name}feed_forward.{part}.W"].T[..., None])
                convolution.bias.copy_(found[f"{name}feed_forward.{part}.b"])
        for name, norm in norms.items():
            norm.weight.copy_(found[f"{name}.gamma"])
            norm.bias.copy_(found[f"{name}.beta"])
