"""The position schemes, by name."""

from collections import ChainMap
from collections.abc import Mapping

from .alibi import ALiBi
from .learned import Learned
from .none import NoPosition
from .position import Position
from .rope import RoPE
from .shaw import Shaw
from .sinusoidal import Sinusoidal
from .t5 import T5
from .timed import Timed
from .xl import XL

POSITIONS: dict[str, type[Position]] = {
    "learned": Learned,
    "none": NoPosition,
    "sinusoidal": Sinusoidal,
    "rope": RoPE,
    "alibi": ALiBi,
    "t5": T5,
    "shaw": Shaw,
    "xl": XL,
}

# the schemes for items, which have times
ITEM_POSITIONS: Mapping[str, type[Position]] = ChainMap({"timed": Timed}, POSITIONS)

__all__ = ["ITEM_POSITIONS", "POSITIONS", "Position", *(kind.__name__ for kind in ITEM_POSITIONS.values())]
