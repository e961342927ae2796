"""The mechanisms, by name: what happens between the heads' queries, keys and values and what they return."""

from .full import Full
from .mechanism import Mechanism

MECHANISMS: dict[str, type[Mechanism]] = {
    "full": Full,
}

__all__ = ["MECHANISMS", "Full", "Mechanism"]
