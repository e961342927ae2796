"""The mixer of models that have the option `mixer`: made of their options, or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..layers import Mixer, MultiHead, Position
from ..options import options_of

# options of models that change attention and nothing else: tests/models/test_mixing.py finds out which these are
OF_ATTENTION = {"heads", "kv_heads", "mechanism", "refine", "bias", "qkv_bias", "output_projection"}


def with_parts(mixer: Mixer, owner: Any, position: Position, **parts: Any) -> Mixer:
    """The mixer; attention with the heads that `owner` has chosen, with `position`, and `parts`, fields of MultiHead.

    Raises ValueError for heads that do not go with dim; and where the mixer is another, for options of `owner` that
    only attention has, where they are not left as they are by default, and for a position scheme that acts at heads.
    """
    if isinstance(mixer, MultiHead):
        heads = replace(mixer, heads=owner.heads, kv_heads=owner.kv_heads, position=position, **parts)
        heads.refuse_dim(owner.dim)
        return heads
    if position.at_heads:
        raise ValueError(f"position {position.name} acts at the heads of attention, and mixer {mixer.name} has none")
    for declared in options_of(owner):
        value = getattr(owner, declared.name)
        if declared.name in OF_ATTENTION and value != declared.default:
            raise ValueError(f"{declared.name} is {value}, an option of mixer attention; mixer is {mixer.name}")
    return mixer
