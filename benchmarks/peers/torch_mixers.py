"""The decoder of torch_decoder.py, eager, with one of PyTorch's recurrent layers instead of attention."""

from typing import Any

import numpy as np
from torch import Tensor, nn

from benchmarks.peers.torch_decoder import GPT, Trained
from tinyattn.data import TextBatch

CELLS: dict[str, type[nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Recurrent(nn.Module):
    """nn.RNN, nn.LSTM or nn.GRU. All three have a second bias here; in the library only the GRU has it."""

    def __init__(self, mixer: str, dim: int) -> None:
        super().__init__()
        self.cell = CELLS[mixer](dim, dim, batch_first=True)
        if mixer != "gru":
            nn.init.zeros_(self.cell.bias_hh_l0)
            self.cell.bias_hh_l0.requires_grad_(False)

    def forward(self, x: Tensor, *nothing: Any) -> Tensor:
        y: Tensor = self.cell(x)[0]
        return y


class TrainedMixer(Trained):
    """Training with the network's mixer: scaled_dot_product_attention, or one of CELLS."""

    def __init__(self, network: Any, weights: Any, batches: list[TextBatch], threads: int) -> None:
        self.gates_move = network.mixer == "lstm"
        super().__init__(network, self._moved(weights), batches, threads)

    def made(self, network: Any) -> nn.Module:
        model = GPT(network)
        if network.mixer in CELLS:
            for block in model.blocks:
                block.attention = Recurrent(network.mixer, network.dim)
        return model

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        loss, found = super().gradients()
        if self.gates_move:
            found |= {name: _last_two(g) for name, g in found.items() if ".attention." in name}
        return loss, found

    def _moved(self, weights: Any) -> Any:
        """Reorder the LSTM's gates: the library's order is i, f, o, g, and torch's i, f, g, o."""
        if not self.gates_move:
            return weights
        blocks = [p | {"attention": {name: _last_two(w) for name, w in p["attention"].items()}}
                  for p in weights["blocks"]]  # fmt: skip
        return weights | {"blocks": blocks}


def _last_two(w: np.ndarray) -> np.ndarray:
    """Exchange the last two of the four gates."""
    i, f, o, g = np.split(w, 4, axis=-1)
    return np.concatenate([i, f, g, o], axis=-1)
