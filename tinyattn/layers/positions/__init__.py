"""The position schemes, by name: how tokens come to know where they stand."""

from .alibi import ALiBi
from .learned import Learned
from .none import NoPosition
from .position import Position
from .rope import RoPE
from .sinusoidal import Sinusoidal
from .t5 import T5

POSITIONS: dict[str, type[Position]] = {
    "learned": Learned,
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "rope": RoPE,
    "alibi": ALiBi,
    "t5": T5,
}

__all__ = ["POSITIONS", "T5", "ALiBi", "Learned", "NoPosition", "Position", "RoPE", "Sinusoidal"]
