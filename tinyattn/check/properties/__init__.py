"""What must hold of every op, written once: for this library's tests, and for anybody's implementation.

A property has a statement in one sentence, a kind, and a function that raises AssertionError where it fails. It is
given an implementation (anything with functions under this library's public names) and a case drawn by `cases`.
One file an op; `contract` holds what is demanded of all of them alike.
"""

from . import activations, attention, contract, dropout, embedding, layer_norm, linear, losses, softmax
from .property import PROPERTIES, Property

__all__ = [
    "PROPERTIES",
    "Property",
    "activations",
    "attention",
    "contract",
    "dropout",
    "embedding",
    "layer_norm",
    "linear",
    "losses",
    "softmax",
]
