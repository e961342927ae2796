"""No positions: attention then sees a set, and only a causal mask tells one order from another."""

from dataclasses import dataclass

from .position import Position


@dataclass(frozen=True)
class NoPosition(Position):
    """Tokens are left as they are."""

    name = "none"
