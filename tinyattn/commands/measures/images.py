"""Models that say what is on an image."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ...data import IMAGE_SETS, Images, ImageSource, Parts, Truth
from ...models import ImageModel, RunFolder, distances_by_head
from ..tables import print_distances, print_means
from .measure import InTenths

LOOKED_AT = 100          # images over which the distances of attention are means


class OfImages(InTenths):
    """How many images of the test part a model calls by their label."""

    does, asked_by, sources = "classifies images", "classify", ImageSource

    def add_data(self, command: Any) -> None:
        group = command.add_argument_group("data")
        text = f"a set of images with labels, of {', '.join(IMAGE_SETS)} (default, without --images: shapes)"
        group.add_argument("--image-set", metavar="NAME", help=text)
        text = "a NumPy .npz file with the arrays images (N, height, width[, channels]) and labels (N,)"
        group.add_argument("--images", metavar="FILE", help=text)
        text = "the run of a model of images, whose answers --distil learns (or an array `teacher` of FILE has them)"
        group.add_argument("--teacher", metavar="RUN", help=text)

    def read(self, options: argparse.Namespace) -> tuple[ImageSource, Images, Truth | None]:
        """Raises ValueError for a teacher whose answers are not asked for."""
        source = replace(ImageSource.of(options.images, options.image_set), teacher=options.teacher)
        if options.teacher is not None and not getattr(options, "distil", False):
            raise ValueError(f"--teacher is {options.teacher}, and only a model with --distil learns its answers")
        return source, *self.load(source)

    def load(self, source: ImageSource) -> tuple[Images, Truth | None]:
        """With the answers of the source's teacher, where it has one."""
        if source.teacher is None:
            return source.load(), None
        from . import open_kind  # it knows all kinds, this one among them

        teacher, _ = open_kind(source.teacher, ImageModel)
        data = source.load()
        return replace(data, teacher=teacher.classify(data)), None

    def rows(
        self, model: Any, split: Parts, options: argparse.Namespace, source: Any, truth: Truth | None, prepared: None
    ) -> dict[str, Any]:
        """The measure, and beside it, block by block, how far heads look: are the lower ones local?"""
        return {"model": {"test": model.evaluate(split.test)} | distances_by_head(model, split.test[:LOOKED_AT])}

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("tested images, called by their label", metrics, "test", model)
        distances = {name: row for name, row in metrics["model"].items() if name != "test"}
        if distances:                                        # runs of older versions have none
            print_distances(distances)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ...show import LOOKS, save

        super().draw(folder, model, split, rows, options, title)
        for name in ("distances", "field"):
            save(LOOKS[name](model, split.test, title), folder.figures / f"{name}.png")
