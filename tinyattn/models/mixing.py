"""The parts of SASRec's and the decoder's blocks, which options choose."""

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, cast

from ..layers import BLOCK_FORMS, Mixer, MultiHead, Position, Stack
from ..options import make_parts, options_of

# options that change attention and nothing else; tests/models/test_mixing.py checks the list
OF_ATTENTION = {"heads", "kv_heads", "mechanism", "refine", "bias", "qkv_bias", "output_projection"}


class OneBlock:
    """Base of networks that repeat one `block`, as often as their option `blocks` or `layers` says."""

    block: Any
    blocks: int
    layers: int

    @property
    def stack(self) -> Stack:
        return Stack([self.block] * (self.blocks if hasattr(self, "blocks") else self.layers))


class ChosenBlock(OneBlock):
    """Base of networks whose options choose the block's parts, one from each of `tables`: see `make_parts`."""

    tables: ClassVar[dict[str, Any]]

    @cached_property
    def _parts(self) -> list[Any]:
        return make_parts(self, **self.tables)

    @property
    def scheme(self) -> Position:
        return self._parts[1]


def with_parts(mixer: Mixer, owner: Any, position: Position, **parts: Any) -> Mixer:
    """The mixer with options of the model `owner`.

    Attention gets the owner's heads, `position`, and `parts`, which are fields of MultiHead. Another mixer that takes
    heads gets the owner's heads and bias, and `position`. Raises ValueError for heads that do not divide dim; and, for
    a mixer other than attention, for an option of attention that is not at its default, and for a position scheme that
    acts at heads if the mixer has none.
    """
    if isinstance(mixer, MultiHead):
        heads = replace(mixer, heads=owner.heads, kv_heads=owner.kv_heads, position=position, **parts)
        heads.refuse_dim(owner.dim)
        return heads
    taken = {"heads", "bias"} if mixer.takes_heads else set()
    if mixer.takes_heads:
        fields: dict[str, Any] = {"heads": owner.heads, "position": position, "bias": getattr(owner, "bias", True)}
        mixer = replace(cast(Any, mixer), **fields)
    elif position.at_heads:
        raise ValueError(f"position {position.name} acts at the heads of attention, and mixer {mixer.name} has none")
    mixer.refuse_dim(owner.dim)
    for declared in options_of(owner):
        value = getattr(owner, declared.name)
        if declared.name in OF_ATTENTION - taken and value != declared.default:
            raise ValueError(f"{declared.name} is {value}, an option of mixer attention; mixer is {mixer.name}")
    return mixer


def refuse_feed_forward(owner: Any) -> None:
    """Raise ValueError for an option of the feed-forward network that is set where the form of the block has none."""
    if BLOCK_FORMS[owner.block_form].feeds_forward:
        return
    for declared in options_of(owner):
        value = getattr(owner, declared.name)
        if declared.name.startswith("feed_forward") and value != declared.default:
            raise ValueError(f"{declared.name} is {value}: block form {owner.block_form} has no feed-forward network")
