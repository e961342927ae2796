"""Models that classify images, and models that predict hidden patches."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...data import IMAGE_SETS, Images, ImageSource, Parts, Truth
from ...models import BEiT, ImageModel, RunFolder, ViT, distances_by_head
from ..tables import print_distances, print_means
from .measure import InTenths, open_kind

LOOKED_AT = 100          # images over which the distances of attention are means


class OfImages(InTenths):
    """How many images of the test part a model calls by their label."""

    does, asked_by, sources = "classifies images", "classify", ImageSource

    def add_data(self, command: Any) -> None:
        group = add_images(command, "and labels (N,)")
        text = "the run of a model of images, whose answers --distil learns (or an array `teacher` of FILE has them)"
        group.add_argument("--teacher", metavar="RUN", help=text)
        text = "the run of a beit, with whose encoder training begins (model vit)"
        group.add_argument("--start", metavar="RUN", help=text)

    def source(self, options: argparse.Namespace) -> ImageSource:
        """Raises ValueError for a teacher whose answers are not asked for, and a model that starts from no other."""
        source = replace(ImageSource.of(options.images, options.image_set), teacher=options.teacher)
        if options.teacher is not None and not getattr(options, "distil", False):
            raise ValueError(f"--teacher is {options.teacher}, and only a model with --distil learns its answers")
        if options.start is not None and options.model != ViT.name:
            raise ValueError(f"--start is {options.start}, and only model vit starts from another's encoder")
        return source

    def fitting(self, options: argparse.Namespace) -> dict[str, Any]:
        """The model that it starts from, where one is named."""
        return {} if options.start is None else {"start": self._start(options)}

    def settings(self, options: argparse.Namespace) -> dict[str, Any]:
        """With the run that it starts from, and what was learned there: another model may stand in the folder later."""
        if options.start is None:
            return super().settings(options)
        start = f"{Path(options.start).resolve()} (learned: {self._start(options).digest()})"
        return super().settings(options) | {"start": start}

    def _start(self, options: argparse.Namespace) -> BEiT:
        found: BEiT = open_kind(options.start, BEiT)[0]
        return found

    def load(self, source: ImageSource) -> tuple[Images, Truth | None]:
        """With the answers of the source's teacher, where it has one."""
        if source.teacher is None:
            return source.load(), None
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


class OfHiddenPatches(InTenths):
    """How many hidden patches of images a model calls by their word."""

    does, asked_by, sources = "names hidden patches of images, for a vit to start from", "", ImageSource

    def add_data(self, command: Any) -> None:
        add_images(command, "labels may be missing")

    def source(self, options: argparse.Namespace) -> ImageSource:
        return ImageSource.of(options.images, options.image_set)

    def load(self, source: ImageSource) -> tuple[Images, None]:
        return replace(source.load(labelled=False), labels=None, teacher=None), None

    def rows(
        self, model: Any, split: Parts, options: argparse.Namespace, source: Any, truth: Truth | None, prepared: None
    ) -> dict[str, Any]:
        """Beside the model, who knows how often each word comes, and looks at nothing."""
        asked = model.asked(split.test)                      # as `evaluate` asks
        counts = np.bincount(asked.words[asked.hidden])
        share = counts[counts > 0] / np.sum(counts)
        blind = {"accuracy": float(np.max(share)), "loss": -float(np.sum(share * np.log(share)))}
        return {"model": {"test": model.evaluate(split.test)}, "blind": {"test": blind}}

    def print(self, metrics: dict[str, Any], model: Any, expected: bool) -> None:
        print_means("hidden patches of tested images, called by their word", metrics, "test", model)

    def draw(
        self, folder: RunFolder, model: Any, split: Parts, rows: Any, options: argparse.Namespace, title: str
    ) -> None:
        from ...show import hidden_map, save

        super().draw(folder, model, split, rows, options, title)
        save(hidden_map(model, split.test[:8], f"{title}: hidden patches"), folder.figures / "hidden.png")


def add_images(command: Any, more: str) -> Any:
    """The flags that say which images. -> their group."""
    group = command.add_argument_group("data")
    text = f"a set of images with labels, of {', '.join(IMAGE_SETS)} (default, without --images: shapes)"
    group.add_argument("--image-set", metavar="NAME", help=text)
    text = f"a NumPy .npz file with the arrays images (N, height, width[, channels]), {more}"
    group.add_argument("--images", metavar="FILE", help=text)
    return group
