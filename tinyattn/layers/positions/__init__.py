"""The position schemes, by name: how tokens come to know where they stand."""

from .learned import Learned
from .none import NoPosition
from .position import Position

POSITIONS: dict[str, type[Position]] = {
    "learned": Learned,
    "none": NoPosition,
}

__all__ = ["POSITIONS", "Learned", "NoPosition", "Position"]
