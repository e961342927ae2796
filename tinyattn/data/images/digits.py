"""1,797 handwritten digits of 8 x 8 pixels, from scikit-learn, if installed."""

from dataclasses import dataclass
from importlib import import_module

from .images import Images


@dataclass(frozen=True)
class Digits:
    """The test part of the UCI set of optically recognised digits (Alpaydin & Kaynak 1998)."""

    name = "digits"
    title = "scikit-learn's digits"

    def generate(self) -> Images:
        """Raises ValueError where scikit-learn is not installed."""
        try:
            digits = import_module("sklearn.datasets").load_digits()
        except ImportError:
            raise ValueError("the digits come with scikit-learn: pip install 'tinyattn[images]'") from None
        return Images(digits.images, digits.target)
