"""The Vision Transformer: an image is a sentence of patches (Dosovitskiy et al. 2021).

A linear map turns each patch of the image into a token, and the Transformer's encoder reads them without a mask. Only
the learned positions tell which patches are neighbours. The class is read from one more token (the class token) or from
the mean of all. A second such token and head can learn a teacher's answers as labels (Touvron et al. 2021, DeiT).

Unlike the paper's, it has three layers, not twelve, and width 64, not 768: enough for images of 16 x 16 pixels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data import Images, NumberedImages
from ...options import check_options, option, with_default
from ...training import Settings
from ...tree import tree_map
from .beit import BEiT
from .image_model import ImageModel, ImageNetwork, measures
from .patch_encoder import PatchEncoder, PatchOptions
from .pretrained import FineTuned

READOUTS = {"class": 1, "mean": 0}       # tokens beside the patches


@dataclass(kw_only=True)
class ViTOptions(PatchOptions):
    readout: str = option("class", "read a token (class), or the mean of all patches", choices=READOUTS)
    distil: bool = option(False, "a second token and head that learn a teacher's answers (DeiT)")

    def __post_init__(self) -> None:
        check_options(self)
        if self.distil and self.readout != "class":
            raise ValueError(f"distil adds a token to that of readout class; readout is {self.readout}")
        super().__post_init__()  # type: ignore[misc]       # of a network or an estimator


@dataclass(kw_only=True)
class ViTNetwork(ViTOptions, PatchEncoder, ImageNetwork):
    """The pure network: init, forward, loss, loss_backward."""

    start: Any = None                # parameters of BEiT's network to begin with

    @property
    def read(self) -> int:
        return READOUTS[self.readout] + self.distil

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """Fresh parameters in float64; BEiT's parts come from `start`, which has one token beside the patches."""
        p = self.init_encoder(rng) | {"heads": self.init_heads(self.dim)}
        if self.start is not None:
            begun = tree_map(lambda a: a.astype(np.float64), self.start)
            p |= {name: begun[name] for name in ("patches", "blocks", "norm")}
            known = min(self.read, 1)
            for name in ("tokens", "positions"):
                p[name][:known] = begun[name][:known]
            p["positions"][self.read :] = begun["positions"][1:]
        return p


@dataclass(eq=False, kw_only=True)
class ViT(ViTOptions, ImageModel, FineTuned):
    """Learns to classify images from images with labels.

        model = ViT(epochs=20).fit(IMAGE_SETS["shapes"]().generate().split())
        model.classify(images)                               # array(["disc", "cross", ...])
    """

    epochs: int = with_default(20, Settings, "epochs")
    lr: float = with_default(2e-3, Settings, "lr")
    weight_decay: float = with_default(0.1, Settings, "weight_decay")        # the paper's

    name = "vit"
    Network = ViTNetwork
    starts_from, shared = BEiT, PatchOptions

    def make_network(self, known: dict[str, Any]) -> Any:
        """Raises ValueError for images of another shape than those of the model that this one starts from."""
        network = super().make_network(known)
        if self._start is not None and tuple(self._start.shape) != tuple(known["shape"]):
            expected = f"{measures(self._start.shape)}, as for the model it starts from"
            raise ValueError(f"images are {measures(known['shape'])} (height, width, channels), expected {expected}")
        return network

    def vocabularies_of(self, parts: list[Images]) -> dict[str, Any]:
        """As `ImageModel`'s. Also raises ValueError for `distil` without a teacher's answers."""
        if self.distil and parts[0].teacher is None:
            missing = "these images have none: expected `teacher` with them, or --teacher RUN"
            raise ValueError(f"distil learns a teacher's answers, and {missing}")
        return super().vocabularies_of(parts)

    def numbered(self, data: Images, known: dict[str, Any]) -> NumberedImages:
        numbered = super().numbered(data, known)
        if not self.distil or data.teacher is None:
            return numbered
        return numbered._replace(taught=known["classes"].numbers(data.teacher.tolist()) - 1)
