"""The mechanisms, by name: what happens between the heads' queries, keys and values and what they return."""

from .full import Full
from .linear import Linear
from .mechanism import Mechanism
from .performer import Performer
from .window import Window

MECHANISMS: dict[str, type[Mechanism]] = {
    "full": Full,
    "window": Window,
    "linear": Linear,
    "performer": Performer,
}

__all__ = ["MECHANISMS", "Full", "Linear", "Mechanism", "Performer", "Window"]
