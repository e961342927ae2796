"""The mixers, by name: attention, and the layers that replace it in a block."""

from .delta import DeltaRule
from .gru import GRU
from .latent import Latent
from .lstm import LSTM
from .lstmn import LSTMN
from .mamba import Mamba
from .mixer import Mixer
from .multi_head import MultiHead, multi_head_attention, multi_head_attention_backward, multi_head_init
from .rnn import RNN
from .rwkv import RWKV

MIXERS: dict[str, type[Mixer]] = {
    "attention": MultiHead,
    "rnn": RNN,
    "lstm": LSTM,
    "lstmn": LSTMN,
    "gru": GRU,
    "rwkv": RWKV,
    "mamba": Mamba,
    "delta": DeltaRule,
    "latent": Latent,
}

__all__ = [
    "MIXERS", "Mixer", "multi_head_attention", "multi_head_attention_backward", "multi_head_init",
    *(kind.__name__ for kind in MIXERS.values()),
]
