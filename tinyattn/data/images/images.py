"""Images with labels: read, split, encode, batch."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...backend import Array, transfer
from ...files import Arrays, FileError
from ...terminal import shortened
from ..fields import DataError, naming
from ..parts import Parts, tenths
from ..read import open_regular
from ..slices import cut, rows_of_step, steps_of
from ..vocabulary import refuse_masked


@dataclass(frozen=True, eq=False)
class Images:
    """Image i may have the label `labels[i]`, an integer or a string, and, for distillation, a teacher's label.

    Shapes: images (N, height, width) or (N, height, width, channels), numbers of any range, kept as float32 with four
    axes; labels and teacher (N,). Raises ValueError for other shapes, numbers that are not finite or are masked, and no
    images.
    """

    images: np.ndarray
    labels: np.ndarray | None = None
    teacher: np.ndarray | None = None

    what: ClassVar[str] = "images"

    def __post_init__(self) -> None:
        for part in (self.images, self.labels, self.teacher):
            refuse_masked(part)
        images = np.asarray(self.images)
        if images.ndim not in (3, 4) or not images.size or images.dtype.kind not in "buif":
            expected = "expected numbers (N, height, width) or (N, height, width, channels)"
            raise ValueError(f"images are {images.shape} {images.dtype}, {expected}")
        with np.errstate(over="ignore"):             # numbers beyond float32 become infinite, and are refused
            images = images.astype(np.float32).reshape(*images.shape[:3], -1)
        if not np.all(np.isfinite(images)):
            raise ValueError("images have numbers that are not finite")
        object.__setattr__(self, "images", images)
        for name in ("labels", "teacher"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _labels(name, getattr(self, name), len(images)))

    @classmethod
    def of(cls, data: Any) -> Self:
        """Images from an array or a pair (images, labels); `Images` are returned unchanged. ValueError for others."""
        if isinstance(data, cls):
            return data
        if isinstance(data, np.ndarray):
            return cls(data)
        if not isinstance(data, tuple | list) or len(data) == 0:
            raise ValueError(f"images are {shortened(repr(data))}, expected an array, or a pair of images and labels")
        return cls(*data)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: Any) -> "Images":
        labels, teacher = (None if x is None else x[rows] for x in (self.labels, self.teacher))
        return Images(self.images[rows], labels, teacher)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        height, width, channels = self.images.shape[1:]
        return height, width, channels

    @property
    def sizes(self) -> dict[str, int]:
        return {"images": len(self)} | ({} if self.labels is None else {"classes": len(np.unique(self.labels))})

    def need_labels(self) -> np.ndarray:
        """The labels. Raises ValueError where there are none."""
        if self.labels is None:
            raise ValueError("these images have no labels: expected an integer or a string for each")
        return self.labels

    def fingerprint(self) -> str:
        """A digest of all images and labels, in order."""
        digest = hashlib.sha256(repr(self.images.shape).encode())
        for x in (self.images, self.labels, self.teacher):
            digest.update(b"" if x is None else x.dtype.str.encode() + x.tobytes())
        return digest.hexdigest()[:16]

    def split(self) -> Parts:
        """A tenth for validation and a tenth for testing. Raises ValueError where there are fewer than three."""
        return Parts(*(self[rows] for rows in tenths(len(self), self.what)))


def _labels(name: str, labels: Any, n: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n,) or labels.dtype.kind not in "iuU":
        raise ValueError(f"{name} are {labels.shape} {labels.dtype}, expected ({n},) integers or strings, one an image")
    return labels if labels.dtype.kind == "U" else labels.astype(np.int64)


def read_images(path: str | Path, labelled: bool = True) -> Images:
    """The images in a NumPy .npz file with the arrays `images`, `labels` and, for distillation, `teacher`.

    Without `labelled` the labels may be missing. Nothing in the file is executed. Raises DataError, naming the file,
    where it is missing or damaged, lacks these arrays, or has other shapes than `Images`.
    """
    path = Path(path)
    with naming(path):
        open_regular(path).close()
    try:
        file = Arrays(path, "NumPy .npz file of numbers", times=100)             # it may be compressed
        arrays = {name: file[name] for name in ("images", "labels", "teacher") if name in file}
    except FileError as error:
        raise DataError(str(error)) from None
    if missing := [name for name in ("images", "labels")[: 1 + labelled] if name not in arrays]:
        raise DataError(f"{path} has no array {missing[0]}, expected images and labels")
    try:
        return Images(**arrays)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: {error}") from None


def standardised(images: np.ndarray) -> np.ndarray:
    """Every image minus its mean, divided by its standard deviation; one without any contrast becomes 0.

    So brightness, contrast and the range of a file make no difference.
    Shapes: (N, height, width, channels) -> the same.
    """
    x = images - np.mean(images, axis=(1, 2, 3), keepdims=True, dtype=np.float64)    # pixels may be as large as 1e38
    deviation = np.std(x, axis=(1, 2, 3), keepdims=True)
    x /= np.where(deviation > 0, deviation, 1)
    return x.astype(images.dtype)


class ImageBatch(NamedTuple):
    """Row b is one image. Labels are numbers of classes, counted from 0."""

    images: Array             # (B, height, width, channels) float32, standardised
    labels: Array             # (B,)
    taught: Array             # (B,) the teacher's labels; without a teacher, the labels
    weight: Array             # (B,) 1.0
    tokens: Array             # (B,) tokens of each image
    rows: Array               # (B,) numbers of the images, which select dropout masks

    @property
    def total(self) -> float:
        return float(np.sum(self.weight))

    def slices(self, tokens: int) -> "list[ImageBatch]":
        return [ImageBatch(*(x[rows] for x in self)) for rows in cut(self.tokens, tokens)]

    def to(self, xp: Any) -> "ImageBatch":
        return ImageBatch(*transfer(self, xp))


class NumberedImages(NamedTuple):
    """Standardised images, and numbers of classes, counted from 0."""

    images: np.ndarray
    labels: np.ndarray
    taught: np.ndarray


@dataclass(frozen=True)
class ImageSampler:
    """The training batches of a run, a function of the step. In an epoch each image comes once, in a new order."""

    data: NumberedImages
    tokens: int               # of each image
    batch_size: int
    seed: int

    @property
    def steps(self) -> int:
        return steps_of(len(self.data.images), self.batch_size)

    def batch(self, step: int) -> ImageBatch:
        return self.of(rows_of_step(len(self.data.images), self.steps, self.seed, step))

    def whole(self) -> ImageBatch:
        return self.of(np.arange(len(self.data.images)))

    def of(self, rows: np.ndarray) -> ImageBatch:
        """The batch of the images with these numbers, counted from 0."""
        weight, tokens = np.ones(len(rows), np.float32), np.full(len(rows), self.tokens)
        images, labels, taught = (x[rows] for x in self.data)
        return ImageBatch(images, labels, taught, weight, tokens, rows)
