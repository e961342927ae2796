"""The mechanisms, by name: from the heads' queries, keys and values to their outputs."""

from .bigbird import BigBird
from .full import Full
from .linear import Linear
from .longformer import Longformer
from .mechanism import Mechanism
from .performer import Performer
from .pointwise import Pointwise
from .refined import Refined, refined
from .strided import Strided
from .window import Window

MECHANISMS: dict[str, type[Mechanism]] = {
    "full": Full,
    "window": Window,
    "longformer": Longformer,
    "bigbird": BigBird,
    "strided": Strided,
    "linear": Linear,
    "performer": Performer,
    "pointwise": Pointwise,
}

__all__ = ["MECHANISMS", "Mechanism", "Refined", "refined", *(kind.__name__ for kind in MECHANISMS.values())]
