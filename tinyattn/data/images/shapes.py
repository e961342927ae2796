"""Drawn shapes: discs, rings, squares and crosses, of any size and place, in noise. Nothing has to be downloaded."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...options import Checked, option
from ...random import Stream, generator
from .images import Images

SHAPES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {         # of x and y in -1 to 1: inside?
    "cross": lambda x, y: (np.minimum(np.abs(x), np.abs(y)) <= 0.3) & (np.maximum(np.abs(x), np.abs(y)) <= 1),
    "disc": lambda x, y: x**2 + y**2 <= 1,
    "ring": lambda x, y: (x**2 + y**2 <= 1) & (x**2 + y**2 >= 0.3),
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) <= 0.9,
}


@dataclass(frozen=True, kw_only=True)
class Shapes(Checked):
    """Grey images of one shape each, brighter or darker than its ground; the label is the shape's name."""

    images: int = option(16000, "number of images", at_least=3)
    size: int = option(16, "pixels of a side", at_least=8)
    noise: float = option(0.15, "standard deviation of each pixel's noise; the ground is 0, shapes are ±0.5 to ±1",
                          at_least=0)  # fmt: skip
    seed: int = option(0, "of the random numbers", at_least=0)

    name = "shapes"
    title = "drawn shapes"

    def generate(self) -> Images:
        rng = generator(self.seed, Stream.IMAGES)
        shape = rng.integers(len(SHAPES), size=self.images)
        radius = rng.uniform(0.2, 0.45, self.images) * self.size
        centre = radius + rng.uniform(size=(2, self.images)) * (self.size - 2 * radius)     # the whole shape is inside
        grey = rng.uniform(0.5, 1, self.images) * rng.choice([-1, 1], self.images)
        place = np.arange(self.size) + 0.5
        y, x = ((place - c[:, None]) / radius[:, None] for c in centre)                     # (N, size) each
        x, y = x[:, None, :], y[:, :, None]
        where = np.stack([inside(x, y) for inside in SHAPES.values()])[shape, np.arange(self.images)]
        pixels = where * grey[:, None, None] + self.noise * rng.standard_normal(where.shape)
        return Images(pixels, np.array(list(SHAPES))[shape])
