"""Caches of past tokens: each token is computed once, and later ones read its cached state.

Attention caches keys and values (with a causal mask, later tokens do not change them), a recurrent mixer its state, and
`lstmn` the states of all tokens.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..backend import Array
from .mixers import Mixer, MultiHead


@dataclass(frozen=True)
class CachedMixer(Mixer):
    """A mixer with its KV cache, to replace the mixer in a block; the block's cache then holds the new KV cache."""

    mixer: Mixer = field(default=MultiHead())
    past: Any = None

    takes_memory = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.mixer.name

    @property
    def takes_dropout(self) -> bool:  # type: ignore[override]
        return self.mixer.takes_dropout

    def forward(self, p: Any, x: Array, memory: Array | None = None, **_: Any) -> tuple[Array, Any]:
        return self.mixer.extend(p, x, memory, self.past)


class Past(NamedTuple):
    """The KV cache of past tokens. `tinyattn.layers.nbytes` gives its size."""

    length: int                      # how many past tokens
    layers: list[Any]                # the cache of each block


def nbytes(kept: Any) -> int:
    """Bytes of all arrays in nested tuples and lists; the room behind `GrowingRows` is not counted."""
    if isinstance(kept, tuple | list) and not hasattr(kept, "nbytes"):
        return sum(nbytes(part) for part in kept)
    return int(getattr(kept, "nbytes", 0))
