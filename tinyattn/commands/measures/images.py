"""Models that classify images, and models that predict hidden patches."""

import argparse
from dataclasses import replace
from typing import Any

from ...data import IMAGE_SETS, Images, ImageSource, Truth
from ...models import BEiT, ImageModel, RunFolder, ViT, distances_by_head
from ..tables import Evaluation, print_distances
from .measure import InTenths, of_frequencies, open_kind

LOOKED_AT = 100          # images over which attention distances are averaged


class OfImages(InTenths):
    """The share of the test images whose label a model predicts."""

    does, queried_by, sources = "classifies images", "classify", ImageSource
    heading, starts_from = "test images classified correctly", BEiT

    def add_data(self, command: Any) -> None:
        group = add_images(command, "and labels (N,)")
        text = "the run of an image model whose answers --distil learns (default: the array `teacher` of --images)"
        group.add_argument("--teacher", metavar="RUN", help=text)
        text = "the run of a beit, whose encoder a vit starts from, with its sizes"
        group.add_argument("--start", metavar="RUN", help=text)

    def source(self, options: argparse.Namespace) -> ImageSource:
        """Raises ValueError for --teacher without --distil, and for --start with a model other than vit."""
        source = replace(ImageSource.of(options.images, options.image_set), teacher=options.teacher)
        if options.teacher is not None and not getattr(options, "distil", False):
            raise ValueError(f"--teacher is {options.teacher}, and only a model with --distil learns its answers")
        if options.start is not None and options.model != ViT.name:
            raise ValueError(f"--start is {options.start}, and only model vit starts from another's encoder")
        return source

    def load(self, source: ImageSource) -> tuple[Images, Truth | None]:
        """The images, with the predictions of the source's teacher, where it has one."""
        if source.teacher is None:
            return source.load(), None
        teacher, _ = open_kind(source.teacher, ImageModel)
        data = source.load()
        return replace(data, teacher=teacher.classify(data)), None

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """The metrics, and the attention distance of each head by block."""
        test = on.split.test
        return {"model": {"test": model.evaluate(test)} | distances_by_head(model, test[:LOOKED_AT])}

    def print(self, metrics: dict[str, Any], model: Any, on: Evaluation) -> None:
        super().print(metrics, model, on)
        distances = {name: row for name, row in metrics["model"].items() if name != "test"}
        if distances:                                        # runs of older versions have none
            print_distances(distances)

    def draw(self, folder: RunFolder, model: Any, on: Evaluation, rows: Any, title: str) -> None:
        from ...show import LOOKS, save

        super().draw(folder, model, on, rows, title)
        for name in ("distances", "field"):
            save(LOOKS[name](model, on.split.test, title), folder.figures / f"{name}.png")


class OfHiddenPatches(InTenths):
    """The share of hidden patches whose visual word a model predicts."""

    does, queried_by, sources = "predicts hidden patches of images, so that a vit can start from it", "", ImageSource
    heading = "hidden patches of test images whose word is predicted correctly"

    def add_data(self, command: Any) -> None:
        add_images(command, "labels may be missing")

    def source(self, options: argparse.Namespace) -> ImageSource:
        return ImageSource.of(options.images, options.image_set)

    def load(self, source: ImageSource) -> tuple[Images, None]:
        return replace(source.load(labelled=False), labels=None, teacher=None), None

    def rows(self, model: Any, on: Evaluation) -> dict[str, Any]:
        """Adds the baseline "blind", which predicts each word by its frequency."""
        batch = model.evaluation_batch(on.split.test)                   # the patches that `evaluate` hides
        return super().rows(model, on) | {"blind": {"test": of_frequencies(batch.words[batch.hidden])}}

    def draw(self, folder: RunFolder, model: Any, on: Evaluation, rows: Any, title: str) -> None:
        from ...show import hidden_map, save

        super().draw(folder, model, on, rows, title)
        save(hidden_map(model, on.split.test[:8], f"{title}: hidden patches"), folder.figures / "hidden.png")


def add_images(command: Any, more: str) -> Any:
    """Add the flags that choose images. -> their group."""
    group = command.add_argument_group("data")
    text = f"a set of images with labels, one of {', '.join(IMAGE_SETS)} (default, without --images: shapes)"
    group.add_argument("--image-set", metavar="NAME", help=text)
    text = f"a NumPy .npz file with the arrays images (N, height, width[, channels]), {more}"
    group.add_argument("--images", metavar="FILE", help=text)
    return group
