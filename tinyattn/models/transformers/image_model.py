"""Bases of the models of images: the heads, the loss, the estimators."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import ImageBatch, Images, ImageSampler, NumberedImages, Vocabulary, standardised
from ...files import Arrays
from ...layers import dense, dense_backward
from ...ops import softmax
from ...options import with_default
from ...training import Settings
from ..cross_entropy import ClassNetwork, Smoothed
from ..sequence_model import SequenceModel

AT_ONCE = 256            # images a batch when they are classified


def measures(shape: Iterable[int]) -> str:
    """Height, width and channels, in words."""
    return " x ".join(map(str, shape))


class ImageCache(NamedTuple):
    encoder: Any
    tokens: int                      # n
    heads: list[Any]                 # of each head's dense map


@dataclass(kw_only=True)
class ImageNetwork(ClassNetwork):
    """Base of the networks. A subclass has `encode`, `encode_backward`, `attention`, and may have `read`."""

    n_classes: int
    height: int                      # of the images, in pixels
    width: int
    channels: int

    @property
    def read(self) -> int:
        """The number of heads, which read one of the first tokens each; 0: one head reads the mean of all tokens."""
        return 0

    def encode(self, p: Any, images: Array, rng: Any = None) -> tuple[Array, Any]:
        """Tokens (B, n, D) and the cache. Shapes: images (B, height, width, C)."""
        raise NotImplementedError

    def encode_backward(self, p: Any, dx: Array, cache: Any) -> tuple[Array, dict[str, Any]]:
        """-> dimages, grads of all but the heads."""
        raise NotImplementedError

    def attention(self, cache: ImageCache) -> list[Array]:
        """The weights (B, heads, n, n) of each block."""
        raise NotImplementedError

    def init_heads(self, dim: int) -> list[dict[str, Any]]:
        """Heads whose scores are 0 at first, so that the loss is ln V (Dosovitskiy et al. 2021, section 3.2)."""
        return [{"W": np.zeros((dim, self.n_classes)), "b": np.zeros(self.n_classes)} for _ in range(max(1, self.read))]

    def forward(self, p: Any, images: Array, rng: Any = None) -> tuple[Array, ImageCache]:
        """Scores (B, heads, V) and the cache. Shapes: images (B, height, width, C)."""
        x, encoder = self.encode(p, images, rng)
        xp = get_xp(x)
        read = x[:, : self.read] if self.read else xp.mean(x, axis=1, keepdims=True)
        heads = [dense(head, read[:, i]) for i, head in enumerate(p["heads"])]
        return xp.stack([scores for scores, _ in heads], axis=1), ImageCache(encoder, x.shape[1], [c for _, c in heads])

    def backward(self, p: Any, dscores: Array, cache: ImageCache) -> tuple[Array, dict[str, Any]]:
        """-> dimages, grads shaped like p."""
        xp = get_xp(dscores)
        mapped = [dense_backward(head, dscores[:, i], cache.heads[i]) for i, head in enumerate(p["heads"])]
        dread = xp.stack([dx for dx, _ in mapped], axis=1)                          # (B, heads, D)
        dx = xp.zeros((len(dread), cache.tokens, dread.shape[-1]), dtype=dread.dtype)
        if self.read:
            dx[:, : self.read] = dread
        else:
            dx += dread / cache.tokens
        dimages, grads = self.encode_backward(p, dx, cache.encoder)
        return dimages, grads | {"heads": [g for _, g in mapped]}

    def scores_and_targets(self, p: Any, batch: ImageBatch, rng: Any = None) -> tuple[Array, Array, Array, Any]:
        """The first head learns the labels, a second one a teacher's predictions (Touvron et al. 2021, equation 3)."""
        scores, cache = self.forward(p, batch.images, rng)
        xp = get_xp(scores)
        targets = xp.stack([batch.labels, batch.taught][: scores.shape[1]], axis=1)
        weight = xp.broadcast_to(batch.weight.astype(scores.dtype)[:, None], targets.shape)
        return scores, targets, weight, cache

    def loss_backward(self, p: Any, dloss: float, cache: Any) -> dict[str, Any]:
        _, grads = super().loss_backward(p, dloss, cache)
        return grads

    def probabilities(self, p: Any, images: Array) -> Array:
        """(B, V): softmax of the scores, mean over heads (Touvron et al. 2021, section 4)."""
        scores, _ = self.forward(p, images)
        return get_xp(scores).mean(softmax(scores), axis=1)

    def measure(self, p: Any, batch: ImageBatch) -> dict[str, tuple[float, float]]:
        """(sum, how many) of `accuracy`, images whose likeliest class is their label, and of -log p(label)."""
        p_classes = self.probabilities(p, batch.images)
        xp, n = get_xp(p_classes), len(batch.labels)
        right = xp.sum(xp.argmax(p_classes, axis=-1) == batch.labels)
        of_labels = xp.take_along_axis(p_classes, batch.labels[:, None], axis=-1)
        smallest = float(xp.finfo(p_classes.dtype).tiny)                           # a probability may be rounded to 0
        return {"accuracy": (float(right), n), "loss": (-float(xp.sum(xp.log(of_labels + smallest))), n)}


@dataclass(eq=False, kw_only=True)
class ImageReader(Smoothed, SequenceModel):
    """Base of the estimators that read images of one shape. A subclass adds options and its `Network`.

    `shape`, set by fit and load, is the training images' height, width and channels.
    """

    patch: ClassVar[int]             # an option of the subclass

    patience: int = with_default(10, SequenceModel, "patience")
    batch_size: int = with_default(32, SequenceModel, "batch_size")
    schedule: str = with_default("cosine", Settings, "schedule")
    warmup: int = with_default(100, Settings, "warmup")
    shape: tuple[int, int, int] = field(init=False, repr=False)

    criterion = "accuracy"
    attends = True
    Data = Images

    def smallest_shape(self) -> tuple[int, int, int]:
        """The smallest image that fits the options, used before fit."""
        return self.patch, self.patch, 1

    def sizes(self, known: dict[str, Any]) -> dict[str, int]:
        shape = known.get("shape", self.smallest_shape())
        return super().sizes(known) | dict(zip(("height", "width", "channels"), shape, strict=True))

    def known(self) -> dict[str, Any]:
        return super().known() | {"shape": self.shape}

    def attention(self, images: Any) -> list[np.ndarray]:
        """The attention weights (N, heads, n, n) of each block. Raises ValueError as `standardised`."""
        network, pixels = self.fitted(), self.standardised(images)
        _, cache = network.forward(self.parameters, self._module(self.parameters).asarray(pixels))
        return [backend.to_numpy(weights) for weights in network.attention(cache)]

    def standardised(self, images: Any) -> np.ndarray:
        """(N, height, width, channels): images as the network reads them, from `Images` or an array.

        Raises ValueError for images of another size than the training images.
        """
        self.fitted()
        data = images if isinstance(images, Images) else Images(images)
        return self._readable(data, self.shape)

    def _readable(self, data: Images, shape: tuple[int, int, int]) -> np.ndarray:
        if data.shape != tuple(shape):
            expected = f"{measures(shape)} as in training"
            raise ValueError(f"images are {measures(data.shape)} (height, width, channels), expected {expected}")
        return standardised(data.images)

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {"shape": np.array(self.shape)}

    def _restore(self, arrays: Arrays) -> None:
        shape = arrays.pop("shape")
        if shape.shape != (3,) or shape.dtype.kind != "i" or np.any(shape < 1):
            raise ValueError(f"shape is {shape.tolist()}, expected height, width and channels")
        height, width, channels = shape.tolist()
        self.shape = (height, width, channels)
        super()._restore(arrays)


@dataclass(eq=False, kw_only=True)
class ImageModel(ImageReader):
    """Base of the estimators that classify images."""

    table = "images"
    vocabularies = ("classes",)
    made_by: ClassVar[dict[str, Any]] = {"classes": partial(Vocabulary, what="class")}
    classes: ClassVar[Vocabulary]    # set by fit and load

    def vocabularies_of(self, parts: list[Images]) -> dict[str, Any]:
        """Classes and shape of the images. Raises ValueError without labels, and for integers beside strings."""
        labels = [part.need_labels() for part in parts]
        kinds = {part.dtype.kind for part in labels}
        if len(kinds) > 1:
            raise ValueError("some parts have labels that are integers, others strings: expected one kind")
        classes = Vocabulary(np.unique(np.concatenate(labels)), "class")
        return {"classes": classes, "shape": parts[0].shape}

    def numbered(self, data: Images, known: dict[str, Any]) -> NumberedImages:
        images, labels = self._readable(data, known["shape"]), data.need_labels()
        labels = known["classes"].numbers(labels.tolist()) - 1
        return NumberedImages(images, labels, labels)

    def sampler(self, numbered: NumberedImages) -> ImageSampler:
        height, width = numbered.images.shape[1:3]
        return ImageSampler(numbered, max(1, height * width // self.patch**2), self.batch_size, self.seed)

    def probabilities(self, images: Any) -> np.ndarray:
        """(N, classes): the probability of each class. Raises ValueError as `standardised`."""
        network, pixels = self.fitted(), self.standardised(images)
        xp = self._module(self.parameters)
        parts = [pixels[i : i + AT_ONCE] for i in range(0, len(pixels), AT_ONCE)]
        return np.concatenate([
            backend.to_numpy(network.probabilities(self.parameters, xp.asarray(part))) for part in parts
        ])  # fmt: skip

    def classify(self, images: Any) -> np.ndarray:
        """(N,): the likeliest class of each image. Raises ValueError as `standardised`."""
        likeliest = np.argmax(self.probabilities(images), axis=1)
        return self.classes.ids[likeliest]
