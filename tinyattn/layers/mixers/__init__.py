"""The mixers, by name: what stands in a block where attention stands."""

from .gru import GRU
from .mixer import Mixer
from .multi_head import MultiHead, multi_head_attention, multi_head_attention_backward, multi_head_init

MIXERS: dict[str, type[Mixer]] = {
    "attention": MultiHead,
    "gru": GRU,
}

__all__ = [
    "GRU",
    "MIXERS",
    "Mixer",
    "MultiHead",
    "multi_head_attention",
    "multi_head_attention_backward",
    "multi_head_init",
]
