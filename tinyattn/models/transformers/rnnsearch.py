"""RNNsearch: recurrent networks that read a string, write another, and align both (Bahdanau, Cho & Bengio 2015).

    m_j = [f_j, b_j]                       the memory: one GRU reads the source forward, one backward
    a_t = softmax over j of w · tanh(h_{t-1} W_q + m_j W_k),   c_t = Σ_j a_tj m_j
    h_t = GRU([y_{t-1}, c_t], h_{t-1})     y_{t-1} is the embedding of the character before
    scores = tanh([h_t, c_t, y_{t-1}] W_r + b_r) W_o + b_o

Earlier models decoded from one vector, the encoder's last state. Here the decoder attends to all states of the encoder
before each step. The query is h_{t-1}, which has not read y_{t-1} yet.

Differences from the paper: a width of 64 in place of 620 and 1000, which is enough for short strings; the first state
comes from both states at the first character, not only from the backward GRU's; the readout's hidden layer is tanh, not
maxout, and reads the state after the step, not before; the reset gate acts after the product (see `gru`); dropout on
embeddings and on the readout's hidden layer; and tokens are characters.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...backend import Array, get_xp
from ...layers import (
    AttendingGRU,
    AttendingGRUCache,
    BidirectionalGRU,
    BidirectionalGRUCache,
    dense,
    dense_backward,
    dense_init,
    dropped,
)
from ...layers.dense import DenseCache
from ...ops import dropout_backward, embedding, embedding_backward
from ...options import option, with_default
from ...training import Settings
from .pair_model import PairCache, PairModel, PairNetwork, PairOptions


@dataclass(kw_only=True)
class RNNsearchOptions(PairOptions):
    dim: int = option(64, "width of embeddings and of every GRU (the paper: 620 and 1000)", at_least=1, at_most=100_000)
    dropout: float = option(0.1, "dropout rate", at_least=0, below=1)


class EncoderCache(NamedTuple):
    source: Array
    keep: Array | None               # (B, m, D): dropout on the embeddings
    gru: BidirectionalGRUCache


class DecoderCache(NamedTuple):
    written: Array
    keep: Array | None               # (B, n, D): dropout on the embeddings
    gru: AttendingGRUCache           # `gru.weights` is the alignment
    readout: Any
    hidden: Array                    # (B, n, D): after tanh
    keep_hidden: Array | None


@dataclass(kw_only=True)
class RNNsearchNetwork(RNNsearchOptions, PairNetwork):
    """The pure network; the loss is `PairNetwork`'s."""

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. The last map starts near 0: the first loss is near ln V."""
        D, V = self.dim, 1 + self.n_targets
        return {
            "source": rng.standard_normal((1 + self.n_sources, D)),
            "target": rng.standard_normal((V, D)),
            "encoder": BidirectionalGRU().init(rng, D),
            "decoder": AttendingGRU().init(rng, D, 2 * D),
            "readout": dense_init(rng, D + 2 * D + D, D),
            "output": {"W": rng.standard_normal((D, V)) / D, "b": np.zeros(V)},
        }

    def backward(self, p: Any, dscores: Array, cache: PairCache) -> dict[str, Any]:
        dh, output = dense_backward(p["output"], dscores, DenseCache(cache.h))
        dmemory, decoder = self.decode_backward(p, dh, cache.decoder)
        return {"output": output} | decoder | self.encode_backward(p, dmemory, cache.encoder)

    def encode(self, p: Any, source: Array, lengths: Array, rng: Any = None) -> tuple[Array, EncoderCache]:
        """The memory (B, m, 2 D): at each character of the source the states of both GRUs."""
        x, keep = dropped(embedding(source, p["source"]), self.dropout, rng)
        memory, gru = BidirectionalGRU().forward(p["encoder"], x, lengths)
        return memory, EncoderCache(source, keep, gru)

    def encode_backward(self, p: Any, dmemory: Array, cache: EncoderCache) -> dict[str, Any]:
        """-> the gradients of the encoder and its table."""
        dx, encoder = BidirectionalGRU().backward(p["encoder"], dmemory, cache.gru)
        dx = dropout_backward(dx, cache.keep, self.dropout)
        return {"encoder": encoder, "source": embedding_backward(dx, cache.source, p["source"])}

    def decode(
        self, p: Any, written: Array, memory: Array, lengths: Array, rng: Any = None
    ) -> tuple[Array, DecoderCache]:
        """The readout's hidden layer (B, n, D), from state, context and the character before."""
        x, keep = dropped(embedding(written, p["target"]), self.dropout, rng)
        h, seen, gru = AttendingGRU().forward(p["decoder"], x, memory, lengths)
        xp = get_xp(x)
        hidden, readout = dense(p["readout"], xp.concatenate([h, seen, x], axis=-1))
        hidden = xp.tanh(hidden)
        read, keep_hidden = dropped(hidden, self.dropout, rng)
        return read, DecoderCache(written, keep, gru, readout, hidden, keep_hidden)

    def decode_backward(self, p: Any, dh: Array, cache: DecoderCache) -> tuple[Array, dict[str, Any]]:
        """-> the gradient of the memory, and those of the decoder, its readout and its table."""
        D = self.dim
        dhidden = dropout_backward(dh, cache.keep_hidden, self.dropout)
        dhidden = dhidden * (1 - cache.hidden * cache.hidden)                           # tanh
        dread, readout = dense_backward(p["readout"], dhidden, cache.readout)
        dx, dmemory, decoder = AttendingGRU().backward(p["decoder"], dread[..., :D], dread[..., D : 3 * D], cache.gru)
        dx = dropout_backward(dx + dread[..., 3 * D :], cache.keep, self.dropout)       # x was read in two places
        target = embedding_backward(dx, cache.written, p["target"])
        return dmemory, {"decoder": decoder, "readout": readout, "target": target}

    def scores(self, p: Any, h: Array) -> Array:
        return dense(p["output"], h)[0]

    def alignment(self, cache: PairCache) -> list[Array]:
        return [cache.decoder.gru.weights[:, None]]


@dataclass(eq=False, kw_only=True)
class RNNsearch(RNNsearchOptions, PairModel):
    """Learns from pairs of strings to write the second from the first, which it attends to before each character.

        model = RNNsearch(epochs=5).fit(TASKS["dates"]().generate().split())
        model.translate("3rd of May 1999")                  # "1999-05-03"
    """

    epochs: int = with_default(10, Settings, "epochs")
    lr: float = with_default(3e-3, Settings, "lr")

    name = "rnnsearch"
    Network = RNNsearchNetwork
