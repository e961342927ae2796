"""BEiT: predicts the visual words of hidden patches of images, without labels (Bao et al. 2022).

It is BERT for images: some patches are replaced by one learned vector, and the encoder predicts their words from the
other patches. A patch's word is the nearest entry of a codebook. A classifier can begin with the encoder's parameters:
`ViT.fit(images, start=beit)`.

Differences from the paper: words are centres of k-means over patches of the training images, not a discrete variational
autoencoder's; there are no smaller initial weights in deeper layers, stochastic depth or augmented images (section
2.5). Its classifier reads the mean of all patches (`--readout mean`), not the class token, which BEiT does not train.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ... import backend
from ...backend import Array, get_xp
from ...data import HiddenBatch, HiddenSampler, Hiding, Images, WordedImages, learn_words, nearest_words
from ...files import Arrays
from ...layers import dense, dense_backward
from ...ops import patchify, patchify_backward
from ...options import option, with_default
from ...random import Stream, generator
from ...training import Settings
from ..cross_entropy import ClassNetwork
from .image_model import AT_ONCE, ImageReader
from .patch_encoder import SMALL, PatchCache, PatchEncoder, PatchOptions


@dataclass(kw_only=True)
class BEiTOptions(PatchOptions):
    words: int = option(64, "visual words: kinds of patches (the paper: 8192)", at_least=2, at_most=10_000)


class BEiTCache(NamedTuple):
    encoder: PatchCache
    head: Any                        # the dense map's


@dataclass(kw_only=True)
class BEiTNetwork(BEiTOptions, PatchEncoder, ClassNetwork):
    """The pure network: init, forward, loss, loss_backward."""

    @property
    def read(self) -> int:
        """One: the class token of a later ViT, which has no loss here."""
        return 1

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64. Scores are 0 at first, so that the loss is ln V."""
        mask = SMALL * rng.standard_normal(self.dim)
        head = {"W": np.zeros((self.dim, self.words)), "b": np.zeros(self.words)}
        return self.init_encoder(rng) | {"mask": mask, "head": head}

    def forward(self, p: Any, images: Array, hidden: Array | None = None, rng: Any = None) -> tuple[Array, BEiTCache]:
        """Scores (B, n, V) of each patch's word, and the cache. Shapes: images (B, height, width, C), hidden (B, n)."""
        xp, (rows, columns) = get_xp(images), self.grid
        hidden = xp.zeros((len(images), rows * columns), dtype=bool) if hidden is None else hidden
        x, encoder = self.encode(p, images, rng, hidden)
        scores, head = dense(p["head"], x[:, self.read :])
        return scores, BEiTCache(encoder, head)

    def backward(self, p: Any, dscores: Array, cache: BEiTCache) -> dict[str, Any]:
        xp = get_xp(dscores)
        dpatches, head = dense_backward(p["head"], dscores, cache.head)
        unread = xp.zeros((len(dpatches), self.read, self.dim), dtype=dpatches.dtype)
        _, grads = self.encode_backward(p, xp.concatenate([unread, dpatches], axis=1), cache.encoder)
        return grads | {"head": head}

    def scores_and_targets(self, p: Any, batch: HiddenBatch, rng: Any = None) -> tuple[Array, Array, Array, Any]:
        scores, cache = self.forward(p, batch.images, batch.hidden, rng)
        return scores, batch.words, batch.hidden.astype(scores.dtype), cache


@dataclass(eq=False, kw_only=True)
class BEiT(BEiTOptions, Hiding, ImageReader):
    """Learns from images to predict the words of hidden patches.

        beit = BEiT(epochs=20).fit(images)                   # labels are ignored
        ViT(epochs=20).fit(few, start=beit)

    `codebook` (V, P² C), set by fit and load, holds the words.
    """

    epochs: int = with_default(20, Settings, "epochs")
    lr: float = with_default(2e-3, Settings, "lr")
    weight_decay: float = with_default(0.05, Settings, "weight_decay")       # the paper's
    codebook: np.ndarray = field(init=False, repr=False)

    name = "beit"
    table = "hidden patches"
    Network = BEiTNetwork

    def __post_init__(self) -> None:
        Hiding.__post_init__(self)
        ImageReader.__post_init__(self)

    def vocabularies_of(self, parts: list[Images]) -> dict[str, Any]:
        """The words of the training images, and their shape. Raises ValueError where there are too few patches."""
        shape = parts[0].shape
        self.make_network({"shape": shape})                       # raises for patches that do not fit
        patches = self._patches(self._readable(parts[0], shape)).reshape(-1, self.patch**2 * shape[2])
        return {"shape": shape, "codebook": learn_words(patches, self.words, generator(self.seed, Stream.INIT))}

    def fingerprint(self, parts: Any) -> str:
        """A digest of the images without their labels."""
        return str(replace(parts.train, labels=None, teacher=None).fingerprint())

    def known(self) -> dict[str, Any]:
        return super().known() | {"codebook": self.codebook}

    def make_network(self, known: dict[str, Any]) -> BEiTNetwork:
        network: BEiTNetwork = super().make_network(known)
        rows, columns = network.grid
        if "shape" in known and self.block > rows * columns:
            raise ValueError(f"block is {self.block}, expected at most the patches of an image, {rows * columns}")
        return network

    def numbered(self, data: Images, known: dict[str, Any]) -> WordedImages:
        images = self._readable(data, known["shape"])
        words = nearest_words(self._patches(images), known["codebook"])
        return WordedImages(images, words.reshape(len(images), *self.make_network(known).grid))

    def sampler(self, numbered: WordedImages) -> HiddenSampler:
        return HiddenSampler(numbered, Hiding(**self.options_for(Hiding)), self.batch_size, self.seed)

    def guessed(self, images: Any, hidden: np.ndarray) -> np.ndarray:
        """(N, n): the likeliest word of each patch. Shapes: hidden (N, n) bool.

        Raises ValueError as `standardised`, and for a wrong shape or dtype of `hidden`.
        """
        network, pixels = self.fitted(), self.standardised(images)
        xp, hidden = self._module(self.parameters), self._each("hidden", hidden, pixels, "b")
        words = []
        for i in range(0, len(pixels), AT_ONCE):
            part = (xp.asarray(x[i : i + AT_ONCE]) for x in (pixels, hidden))
            scores, _ = network.forward(self.parameters, *part)
            words.append(backend.to_numpy(scores).argmax(axis=-1))
        return np.concatenate(words)

    def painted(self, images: Any, hidden: np.ndarray, words: np.ndarray | None) -> np.ndarray:
        """Standardised images whose hidden patches are replaced by words, or by NaN.

        Shapes: hidden (N, n) bool, words (N, n) -> (N, height, width, channels). Raises ValueError as `guessed`.
        """
        pixels = self.standardised(images)
        shown: Any = np.float32(np.nan)
        if words is not None:
            words = self._each("words", words, pixels, "iu")
            if np.any((words < 0) | (words >= self.words)):
                raise ValueError(f"words are {np.min(words)} to {np.max(words)}, expected 0 to {self.words - 1}")
            shown = self.codebook[words]
        patches = np.where(self._each("hidden", hidden, pixels, "b")[..., None], shown, self._patches(pixels))
        return patchify_backward(patches, pixels, self.patch)

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | {"codebook": self.codebook}

    def _restore(self, arrays: Arrays) -> None:
        self.codebook = arrays.pop("codebook")
        super()._restore(arrays)
        wanted = self.words, self.patch**2 * self.shape[2]
        if self.codebook.shape != wanted or self.codebook.dtype != np.float32 or not np.isfinite(self.codebook).all():
            actual = f"{self.codebook.shape} {self.codebook.dtype}"
            raise ValueError(f"codebook is {actual}, expected {wanted} float32, and finite")

    def _each(self, name: str, values: Any, images: np.ndarray, kinds: str) -> np.ndarray:
        """`values`, one per patch. Raises ValueError for another shape or kind of dtype."""
        array, (rows, columns) = np.asarray(values), self.network.grid
        if array.shape != (len(images), rows * columns) or array.dtype.kind not in kinds:
            wanted = "bool" if kinds == "b" else "integers"
            raise ValueError(f"{name} is {array.shape} {array.dtype}, expected ({len(images)}, {rows * columns}) "
                             f"{wanted}: one per patch, row by row")  # fmt: skip
        return array

    def _patches(self, images: np.ndarray) -> np.ndarray:
        return patchify(images, self.patch)
